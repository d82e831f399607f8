"""The tensors of a model, changed so that a kind of their models computes the same with them.

In: a model that differs from the kind in what can be changed exactly. Out: its tensors by name.
Sinusoidal positions with sines and cosines in turn become ones with all sines first, by moving the
channels of every vector between layers. Computed positions become a learned table.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import torch
from torch import Tensor

from regard.hub.kind import HubFormat
from regard.models.model import Model

CHANNEL_COLUMNS = ("*embed.weight", "head.weight",
                   "*.query.weight", "*.key_value.weight", "*.into.weight")  # fmt: skip
"""Matrices (…, dim): their columns are the channels of vectors between layers."""
CHANNEL_ROWS = ("*_norm.weight", "*_norm.bias", "*.out.weight", "*.out.bias")
"""Tensors (dim, …): their rows are those channels."""


def state_for(kind: HubFormat, model: Model) -> dict[str, Tensor]:
    """The tensors of a model, as the kind needs them.

    Args:
        kind: A kind that fits the model.
        model: A model of its family.
    """
    state, scheme = dict(model.state_dict()), getattr(model.config.first, "positions", None)
    positions = None if scheme is None else scheme.kind
    if positions == "sinusoidal_2d":
        state |= {n: t for n, t in model.named_buffers() if n.endswith("positions.table")}
    if kind.halves and positions == "sinusoidal":
        return sines_first(state, model.config.dim)
    return state


def sines_first(state: dict[str, Tensor], dim: int) -> dict[str, Tensor]:
    """Moves the even channels of every vector between layers before the odd ones.

    The logits stay the same: every matrix that reads or writes these vectors is permuted alike.
    Matrices that were tied are so afterwards.

    Args:
        state: The tensors of a Transformer.
        dim: Width of a token's vector.
    """
    order = torch.cat((torch.arange(0, dim, 2), torch.arange(1, dim, 2)))
    permuted: dict[tuple[int, int], Tensor] = {}  # address and axis of a tensor -> its permutation

    def permute(name: str, tensor: Tensor) -> Tensor:
        axis = _channel_axis(name)
        if axis is None:
            return tensor
        key = tensor.data_ptr(), axis
        if key not in permuted:
            permuted[key] = tensor.index_select(axis, order.to(tensor.device))
        return permuted[key]

    return {name: permute(name, tensor) for name, tensor in state.items()}


def _channel_axis(name: str) -> int | None:
    """The dimension of a tensor that counts channels; None if it has none."""
    for patterns, axis in ((CHANNEL_COLUMNS, -1), (CHANNEL_ROWS, 0)):
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return axis
    return None
