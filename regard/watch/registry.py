"""Our entries in the `transformers` registry of attention functions, and the function behind them.

`install` replaces the name of the attention function in a config by one of ours, so that every call
of the layer comes to `attend`. It calls the layer's own function; if the layer is being watched,
the requested tensors are recorded and edits are applied. Active watches are kept in a context
variable: a watch sees only what its own thread (or asyncio task) runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.layers import Edit, Tap
from regard.layers.tap.product import Product
from regard.watch.call import SITE, Call
from regard.watch.modules import NAME, original_function

if TYPE_CHECKING:
    from regard.watch.watching import Watch

PREFIX = "regard_watch_"
"""Our name for a function is this prefix and its own name, since models test for `flash` in it."""
SCORES, WEIGHTS, HEADS = f"{SITE}.scores", f"{SITE}.weights", f"{SITE}.heads"


ACTIVE: ContextVar[tuple[Watch, ...]] = ContextVar("regard_watch", default=())
"""The active watches of this thread, outermost first."""


@dataclass
class _Renaming:
    config: Any
    original: str
    watches: int = 0


_RENAMED: dict[int, _Renaming] = {}
"""The configs that have our name, by id. A config may be shared by several models and watches; its
original name is restored when the last watch ends, in whatever order they end."""
_LOCK = Lock()


def original_name(config: Any) -> str:
    """The name of the attention function of a config when it is not watched."""
    renamed = _RENAMED.get(id(config))
    return getattr(config, NAME) if renamed is None else renamed.original


def install(library: Any, configs: Iterable[Any]) -> None:
    """Set our name of the attention function in configs.

    Args:
        library: The module `transformers`.
        configs: The configs, without duplicates.
    """
    with _LOCK:
        for config in configs:
            renamed = _RENAMED.setdefault(id(config), _Renaming(config, getattr(config, NAME)))
            renamed.watches += 1
            _register(library, renamed.original)
            setattr(config, NAME, PREFIX + renamed.original)


def release(configs: Iterable[Any]) -> None:
    """Restore the original name in configs, unless another watch still uses ours."""
    with _LOCK:
        for config in configs:
            renamed = _RENAMED[id(config)]
            renamed.watches -= 1
            if not renamed.watches:
                setattr(config, NAME, renamed.original)
                del _RENAMED[id(config)]


def _register(library: Any, implementation: str) -> None:
    """Register our name for an implementation: `attend` as function, and the same mask function."""
    name = PREFIX + implementation
    if name in library.AttentionInterface():
        return
    # Recording is plain Python: if `generate` compiles the model, the graph breaks here.
    function = torch.compiler.disable(partial(attend, implementation))  # type: ignore[no-untyped-call]
    library.AttentionInterface.register(name, function)
    masks = library.AttentionMaskInterface()
    if implementation in masks:
        library.AttentionMaskInterface.register(name, masks[implementation])


def attend(
    implementation: str,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any = None,
    *extra_args: Any,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attention as the layer's own function computes it, recorded and edited by active watches.

    Returns:
        The output of each head (batch, query, heads, head_dim), and the second return value of
        the layer's own function (its weights or None).
    """
    function = original_function(type(module), implementation)
    watches = [watch for watch in ACTIVE.get() if watch.name_of(module) is not None]
    if not watches:
        return function(module, query, key, value, attention_mask, *extra_args, **options)
    edits = [edit for watch in watches for edit in watch.edits_of(module)]
    taps = [watch.tap(module, edits) for watch in watches]
    q, k, v = (
        _visit(taps, f"{SITE}.{letter}", x)
        for letter, x in zip("qkv", (query, key, value), strict=True)
    )
    out, weights = function(module, q, k, v, attention_mask, *extra_args, **options)

    extra_names = list(inspect.signature(function).parameters)[5 : 5 + len(extra_args)]
    named_options = options | dict(zip(extra_names, extra_args, strict=True))
    name = watches[0].name_of(module) or ""
    call = Call(name, module, implementation, q, k, v, attention_mask, named_options)
    _check_heads(call, taps, edits)
    heads = _record(call, taps, out.transpose(1, 2), watches[0])
    for watch, tap in zip(watches, taps, strict=True):
        watch.store(module, call, tap)
    edited_sites = {edit.site for edit in edits}
    if edited_sites & {SCORES, WEIGHTS}:
        weights = None  # the function's own weights are outdated
    if edited_sites & {SCORES, WEIGHTS, HEADS}:
        out = heads.transpose(1, 2).contiguous()
    return out, weights


def _visit(taps: Sequence[Tap], site: str, value: Tensor) -> Tensor:
    """Edit a value once and record it in each tap; all taps have the same edits."""
    value = taps[0].visit(site, value)
    for tap in taps[1:]:
        if tap.wants(site):
            tap.records[site] = value.detach().clone()
    return value


def _record(call: Call, taps: Sequence[Tap], out: Tensor, watch: Watch) -> Tensor:
    """Record and edit scores, weights and the heads' output.

    Args:
        call: The arguments of the attention function.
        taps: One tap per watch, all with the same edits.
        out: The output of each head (batch, heads, query, head_dim).
        watch: The watch that knows which layers were already checked.

    Returns:
        `out`, bit-identical unless an edit changed it.
    """
    edited = bool(taps[0].edits_at(SCORES) or taps[0].edits_at(WEIGHTS))
    if not edited and not any(tap.wants(SCORES) or tap.wants(WEIGHTS) for tap in taps):
        return _visit(taps, HEADS, out)
    if edited:
        _check_editable(call)
    with torch.autocast(call.q.device.type, enabled=False):
        product = call.product()
        if not call.dropout and watch.first_time(call.module):
            _check_formula(call.name, product, out)
        results = [tap.attention(product, out) for tap in taps]  # all taps return the same
    for tap in taps:
        for site in (SCORES, WEIGHTS):
            if site in tap.records and call.sinks is not None:
                tap.records[site] = tap.records[site][..., :-1]
        for site in tap.records if call.q.device.type != "cpu" else ():
            tap.records[site] = tap.records[site].cpu()
    return results[-1].to(out.dtype)


def _check_heads(call: Call, taps: Sequence[Tap], edits: Sequence[Edit]) -> None:
    """Reject heads and queries that the layer does not have."""
    heads, queries = call.q.shape[1:3]
    requested_heads = [head for tap in taps for head in tap.heads or ()]
    for head in (*requested_heads, *(edit.head for edit in edits if edit.head is not None)):
        if not 0 <= head < heads:
            raise InputError(f"no such head in {call.name}", got=head, expected=f"0 to {heads - 1}")
    for query in (query for tap in taps for query in tap.queries or ()):
        if queries > 1 and not -queries <= query < queries:  # a decoding step has only one
            what = f"no such query in {call.name}"
            raise InputError(what, got=query, expected=f"0 to {queries - 1}")


def _check_editable(call: Call) -> None:
    """Reject edits of scores or weights where we cannot reproduce the layer's computation."""
    what = f"edit of {call.name}"
    if call.dropout:
        expected = "none where weights or scores are edited"
        fix = "call model.eval(), or set the config's attention dropout to 0"
        raise InputError(what, got="dropout of attention weights", expected=expected, fix=fix)
    if call.sinks is not None:
        raise InputError(what, got="attention sinks", expected="an edit of q, k, v or heads")


def _check_formula(name: str, product: Product, out: Tensor) -> None:
    """Reject a layer that computes something else than softmax(q kᵀ · scaling + bias) v.

    Only the last query is compared: code that differs does so for every query.
    """
    weights = product.pattern(queries=[-1]).whole()  # (batch, heads, 1, key)
    group = weights.shape[1] // product.v.shape[1]
    formula = weights @ product.v.detach().repeat_interleave(group, dim=1)
    computed = out[:, :, -1:].detach()
    tolerance = 1e-3 if computed.dtype in (torch.float32, torch.float64) else 3e-2
    difference = (formula - computed.to(formula.dtype)).abs().max()
    if difference > tolerance * max(1.0, float(computed.abs().max())):
        got = f"an output {float(difference):.2g} away from softmax(q kᵀ · scaling + mask) v"
        expected = "a layer that computes this formula"
        raise InputError(f"{name} cannot be watched", got=got, expected=expected)
