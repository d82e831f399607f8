"""A device that is none: it computes on the CPU, and refuses tensors that were left there.

PyTorch lets a backend be written in Python. Ours keeps each tensor's numbers on the CPU, says of
itself that it is the device `pretend`, and raises where a tensor of the CPU meets one of its own,
as a GPU would. Registering it is for the whole process, so tests import this in one of their own.
"""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"
FREE = ("copy_", "_to_copy", "_copy_from", "set_")
"""Operations that are there to bring numbers from one device to another."""
INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_")
"""Operations whose places may be of the CPU on any device: `x[[2, 0]]`."""


class OnDevice(torch.Tensor):
    """A tensor of the device; `raw` has its numbers."""

    @staticmethod
    def __new__(cls, raw):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=torch.device(NAME, 0),
            requires_grad=False,
        )

    def __init__(self, raw):
        self.raw = raw

    def __repr__(self, **_):
        return f"OnDevice({self.raw!r})"

    def tolist(self):
        return self.raw.tolist()  # as from any device; PyTorch does not know how of a subclass

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return compute(func, args, kwargs or {})


def compute(func, args, kwargs):
    """Runs an operation on the numbers; what goes in must be of the device, what comes out is."""
    name = func.overloadpacket.__name__
    given = [
        tensor for tensor in tree_flatten((args, kwargs))[0] if isinstance(tensor, torch.Tensor)
    ]
    indices = tree_flatten(args[1])[0] if name in INDEXING else ()
    strangers = [
        tensor
        for tensor in given
        if tensor.dim() and tensor.is_cpu and not any(tensor is index for index in indices)
    ]
    if strangers and name not in FREE:
        shapes = [tuple(tensor.shape) for tensor in strangers]
        raise RuntimeError(f"{func}: tensors of the CPU met the device: {shapes}")
    known = {id(tensor.raw): tensor for tensor in given if isinstance(tensor, OnDevice)}
    wanted = kwargs.get("device")
    stays = wanted is not None and torch.device(wanted).type != NAME
    if wanted is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}

    def raw(value):
        return value.raw if isinstance(value, OnDevice) else value

    if name in ("copy_", "_copy_from") and not isinstance(args[0], OnDevice):
        args[0].copy_(args[1].raw)
        return args[0]
    out = func(*tree_map(raw, args), **tree_map(raw, kwargs))

    def wrapped(value):
        if not isinstance(value, torch.Tensor) or stays:
            return value
        return known[id(value)] if id(value) in known else OnDevice(value)

    # A view of what is no inference tensor is none either.
    lasting = func.is_view and not any(tensor.is_inference() for tensor in given)
    with torch.inference_mode(mode=torch.is_inference_mode_enabled() and not lasting):
        return tree_map(wrapped, out)


def _made_here(func, *args, **kwargs):
    """Operations without a tensor of the device: those that make one."""
    return compute(func, args, kwargs)


_setup_privateuseone_for_python_backend(NAME)
torch.__future__.set_swap_module_params_on_conversion(True)  # tied parameters stay tied
library = torch.library.Library("_", "IMPL")
library.fallback(_made_here, "PrivateUse1")
copies = torch.library.Library("aten", "IMPL")  # `torch.tensor` and `x[[0, 2]]` ask for it by name
copies.impl(
    "_to_copy",
    lambda *args, **kwargs: compute(torch.ops.aten._to_copy.default, args, kwargs),
    "PrivateUse1",
)
