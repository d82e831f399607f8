"""`watch`: record and edit the attention of a `transformers` model within a `with` block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from operator import index
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from regard.errors import InputError
from regard.layers import Edit, Tap
from regard.watch.call import SITE, Call
from regard.watch.modules import Layers, attention_layers, check_layer, is_paired, pick_layers
from regard.watch.registry import ACTIVE, install, original_name, release
from regard.watch.seen import Seen

SITES = ("q", "k", "v", "scores", "weights", "heads")
"""The sites of a layer that can be recorded and edited: see `regard.layers.tap.tap`."""


def watch(
    model: nn.Module,
    layers: Layers = None,
    *,
    heads: Sequence[int] | None = None,
    queries: Sequence[int] | None = None,
    sites: Sequence[str] = ("weights",),
    knock_out: Iterable[str | tuple[str | int, int]] = (),
    edits: Iterable[Edit] = (),
) -> Watch:
    """Record the attention of a Hugging Face model within a `with` block.

    The output of the model stays the same bit for bit, with the same kernel, and the model is
    restored afterwards. Only calls from the current thread are recorded.

    Args:
        model: A model of `transformers`, in any mode, on any device.
        layers: The layers to record: names as in `model.named_modules()`, sites such as
            `decoder.1.cross`, patterns with `*`, or numbers that only one layer has. Default: all
            layers.
        heads: Record scores and weights of these heads only.
        queries: Record scores and weights of these query positions only. A step of `generate`
            with a single query is always recorded.
        sites: Which tensors of a layer to record, a selection of `SITES`.
        knock_out: Heads whose output is set to zero, as `decoder.1.cross.3` or as (layer, head).
        edits: Other changes, at sites such as `model.layers.3.self_attn.weights`.

    Raises:
        InputError: For a model that cannot be watched, with the reason, and for unknown layers.

    Example:
        >>> import torch, regard
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=2, n_head=2)).eval()
        >>> with regard.watch(model, layers=1) as seen:
        ...     _ = model(torch.tensor([[1, 2, 3]]))
        >>> seen.weights["transformer.h.1.attn"].shape       # (batch, heads, query, key)
        torch.Size([1, 2, 3, 3])
    """
    wanted = Tap(
        *_tap_sites(sites), heads=_integers("heads", heads), queries=_integers("queries", queries)
    )
    return Watch(model, layers, wanted, [*_knock_out_edits(knock_out), *edits])


class Watch:
    """A context manager that watches a model; entering it returns the `Seen` with the records."""

    def __init__(self, model: nn.Module, layers: Layers, wanted: Tap, edits: list[Edit]) -> None:
        self._library = _import_transformers()
        _check_model(self._library, model)
        self.model = model
        by_name = attention_layers(model, self._library.__version__)
        self._wanted = wanted
        self._recorded = {layer.module: layer for layer in pick_layers(by_name, layers)}
        self._edits: dict[nn.Module, list[Edit]] = {}
        watched = dict(self._recorded)
        for edit in edits:
            name, _, site = edit.site.rpartition(".")
            _tap_sites([site])
            for layer in pick_layers(by_name, int(name) if name.isdecimal() else name):
                watched[layer.module] = layer
                edit_here = replace(edit, site=f"{SITE}.{site}")
                self._edits.setdefault(layer.module, []).append(edit_here)
        for layer in watched.values():
            check_layer(layer, original_name(layer.config))
        self._layers = watched
        self._names = {layer.name: layer for layer in watched.values()}
        self._paired = is_paired(by_name)
        configs = {id(layer.config): layer.config for layer in watched.values()}
        self._configs = list(configs.values())
        self._hooks: list[RemovableHandle] = []
        self._depth = 0

    def __enter__(self) -> Seen:
        if self._hooks:
            raise InputError("watch", got="a watch that has begun", expected="one `with` at a time")
        name = type(self.model).__name__
        self.seen = Seen(
            self._names, self._wanted, paired=self._paired, model=name, config=self.model.config
        )
        self._checked: set[nn.Module] = set()
        self._depth = 0
        install(self._library, self._configs)
        for module in self.model.modules():
            # `generate` calls the encoder directly: the outermost submodel called begins a pass
            if isinstance(module, self._library.PreTrainedModel):
                self._hooks.append(module.register_forward_pre_hook(self._begin))
                self._hooks.append(module.register_forward_hook(self._end, always_call=True))
        ACTIVE.set((*ACTIVE.get(), self))
        return self.seen

    def __exit__(self, *error: object) -> None:
        ACTIVE.set(tuple(watch for watch in ACTIVE.get() if watch is not self))
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        release(self._configs)

    def _begin(self, module: nn.Module, inputs: Any) -> None:
        del inputs
        if self not in ACTIVE.get():
            return
        self._depth += 1
        if self._depth == 1:
            self._check_recomputing(module)
            self.seen.begin()

    def _end(self, module: nn.Module, inputs: Any, output: Any) -> None:
        del module, inputs, output
        if self in ACTIVE.get():
            self._depth -= 1

    def _check_recomputing(self, module: nn.Module) -> None:
        """Reject edits with gradient checkpointing on devices other than the CPU.

        There the backward pass recomputes layers in another thread, where edits are not active.
        """
        # transformers 5.23 has a new name for it, and warns where the old one is asked for.
        names = ("is_activation_checkpointing", "is_gradient_checkpointing")
        name = next((name for name in names if hasattr(type(self.model), name)), "")
        is_recomputed = module.training and bool(getattr(self.model, name, False))
        device = next((parameter.device.type for parameter in module.parameters()), "cpu")
        if self._edits and is_recomputed and torch.is_grad_enabled() and device != "cpu":
            got, fix = "gradient checkpointing", "call model.gradient_checkpointing_disable()"
            raise InputError("edits", got=got, expected="none on this device", fix=fix)

    def name_of(self, module: nn.Module) -> str | None:
        """The layer's name; None if it is not watched."""
        layer = self._layers.get(module)
        return None if layer is None else layer.name

    def edits_of(self, module: nn.Module) -> list[Edit]:
        """The edits of a layer."""
        return self._edits.get(module, [])

    def tap(self, module: nn.Module, edits: list[Edit]) -> Tap:
        """A tap that records and edits one call of a layer.

        Outside a forward pass of the model nothing is recorded: such calls are recomputations of
        gradient checkpointing during the backward pass.
        """
        if self._depth == 0 or module not in self._recorded:
            return Tap(edits=edits)
        wanted = self._wanted
        return Tap(*wanted.sites, heads=wanted.heads, queries=wanted.queries, edits=edits)

    def first_time(self, module: nn.Module) -> bool:
        """Whether this method is called for this layer for the first time."""
        new = module not in self._checked
        self._checked.add(module)
        return new

    def store(self, module: nn.Module, call: Call, tap: Tap) -> None:
        """Store what was recorded of one call."""
        if tap.records:
            self.seen.store(self._layers[module].name, call, tap.records)


def _import_transformers() -> Any:
    """The module `transformers`.

    Raises:
        InputError: If it is missing, or too old.
    """
    try:
        library = import_module("transformers")
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        fix = "pip install 'regard[hf]'"
        raise InputError("regard.watch", got="no transformers", fix=fix) from error
    if not hasattr(library, "AttentionMaskInterface"):
        got, fix = f"transformers {library.__version__}", "pip install --upgrade transformers"
        raise InputError("regard.watch", got=got, expected="4.57 or later", fix=fix)
    return library


def _check_model(library: Any, model: Any) -> None:
    """Reject models that are compiled, wrapped, or not from `transformers`.

    Raises:
        InputError: With the reason, and with what to watch instead.
    """
    modules = model.named_modules() if isinstance(model, nn.Module) else ()
    submodels = [name for name, module in modules if isinstance(module, library.PreTrainedModel)]
    name = type(model).__name__
    if not submodels:
        raise InputError("regard.watch", got=name, expected="a model of transformers")
    if hasattr(model, "_orig_mod") or getattr(model, "_compiled_call_impl", None) is not None:
        got = "a compiled model, whose attention is fused into its graph"
        expected, fix = "a model that is not compiled", "watch the model before torch.compile"
        raise InputError("regard.watch", got=got, expected=expected, fix=fix)
    if submodels[0] != "":
        got = f"{name}, with a model of transformers inside"
        expected = "the model of transformers itself"
        fix = f'try regard.watch(model.get_submodule("{submodels[0]}"), …)'
        raise InputError("regard.watch", got=got, expected=expected, fix=fix)


def _tap_sites(sites: Sequence[str]) -> list[str]:
    """The sites with the prefix that a tap uses, such as `layer.weights`.

    Raises:
        InputError: For a site that is not in `SITES`.
    """
    for site in sites:
        if site not in SITES:
            raise InputError("site", got=repr(site), expected=f"one of {', '.join(SITES)}")
    return [f"{SITE}.{site}" for site in sites]


def _as_list(given: Any) -> list[Any]:
    """A list of the given items, or of the one item."""
    single = isinstance(given, str) or not isinstance(given, Iterable)
    return [given] if single else list(given)


def _integers(what: str, given: Any) -> list[int] | None:
    if given is None:
        return None
    try:
        return [index(item) for item in _as_list(given)]  # accepts numpy and torch integers
    except TypeError:
        raise InputError(what, got=repr(given), expected="whole numbers, such as [0, 3]") from None


def _knock_out_edits(heads: Iterable[str | tuple[str | int, int]]) -> list[Edit]:
    """One edit per head that sets its output to zero before the output projection."""
    edits = []
    for given in _as_list(heads):
        pair = given
        if isinstance(given, str):  # decoder.1.cross.3, or the path of a layer and a number
            name, _, number = given.rpartition(".")
            pair = (name, int(number)) if number.isdecimal() else None
        if not isinstance(pair, tuple | list) or len(pair) != 2 or type(pair[1]) is not int:
            expected = (
                'pairs of a layer and a number, such as [("model.layers.1.self_attn", 2)], or '
                "names such as decoder.1.cross.3"
            )
            raise InputError("knock_out", got=repr(given), expected=expected)
        layer, head = pair
        edits.append(Edit(f"{layer}.heads", _zero_head(head), head))
    return edits


def _zero_head(head: int) -> Any:
    def change(out: Tensor) -> Tensor:
        out = out.clone()
        out[:, head] = 0.0
        return out

    return change
