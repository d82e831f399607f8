"""What attention makes on its way: nothing of queries times keys, and nothing of padding."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.layers import (
    Attention,
    Context,
    KVCache,
    Layout,
    Mask,
    Memory,
    Positions,
    Tap,
    plain_context,
)
from regard.layers import kernel_calls as rules
from tests.largest import Largest

LENGTH, DIM, HEADS = 1536, 16, 2  # longer than any mask that is made whole


def lookers(kind, lengths):
    """A layer and its context."""
    if kind != "cross":
        return Attention(DIM, HEADS), plain_context(lengths, causal=kind == "causal")
    ctx = plain_context(lengths)
    memory = Memory(torch.randn(sum(lengths), DIM), Layout(lengths))
    context = Context(ctx.layout, ctx.positions, ctx.mask, ctx.scheme, memory=memory)
    return Attention(DIM, HEADS, cross=True), context


@pytest.mark.parametrize("kind", ["both sides", "causal", "cross"])
@pytest.mark.parametrize("shorter", [(), (700,)], ids=["even", "uneven"])
def test_memory_is_linear_forward_and_backward(kind, shorter):
    """The largest tensor of a training step is k and v of all tokens, in padded rows."""
    lengths = (LENGTH, *shorter)
    layer, ctx = lookers(kind, lengths)
    x = torch.randn(sum(lengths), DIM, requires_grad=True)
    with Largest() as largest:
        layer(x, ctx).sum().backward()
    assert largest.numel <= 2 * len(lengths) * LENGTH * DIM


SEGMENTS = (torch.arange(LENGTH) // 300)[None]
RULES = {
    "window": ({"window": 40}, 0),
    "window back": ({"window": 40, "causal": True}, 0),
    "segments": ({"segments": (SEGMENTS, SEGMENTS)}, 0),
    "a chunk behind a cache": ({"causal": True}, 500),
}


@pytest.mark.parametrize(("fields", "cached"), RULES.values(), ids=RULES)
@torch.no_grad()
def test_other_rules_make_no_mask_of_queries_times_keys_and_attend_as_one_would(
    fields, cached, monkeypatch
):
    layer, x = Attention(DIM, HEADS, "attention").eval(), torch.randn(LENGTH, DIM)

    def run(tap=None):
        layout, cache = Layout((LENGTH - cached,)), None
        if cached:
            cache = KVCache(1, 1, LENGTH, HEADS, DIM // HEADS)
            layer(x[:cached], replace(plain_context((cached,), causal=True), cache=cache))
            cache.advance((cached,))
        ctx = Context(layout, layout.positions, Mask(**fields), Positions(), cache=cache, tap=tap)
        return layer(x[cached:], ctx)

    with Largest() as largest:
        out = run()
    assert largest.numel <= rules.QUERIES_PER_CALL * LENGTH
    tap = Tap("attention.weights", heads=[1], queries=[0, 700])
    with Largest() as largest:
        assert torch.equal(run(tap), out)
    assert largest.numel <= rules.QUERIES_PER_CALL * LENGTH
    assert tap.records["attention.weights"].shape == (1, 1, 2, LENGTH)
    monkeypatch.setattr(rules, "LARGEST_WHOLE_MASK", LENGTH * LENGTH)
    torch.testing.assert_close(out, run(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["both sides", "causal"])
def test_a_sentence_has_the_gradients_it_has_alone_whatever_stands_beside_it(kind):
    """Padding gives no NaN and leaks into no gradient, even beside numbers that are huge."""
    lengths = (5, 2, 3)
    layer, _ = lookers(kind, lengths)
    x = torch.randn(sum(lengths), DIM)
    x[:5] *= 1e4
    x.requires_grad_()
    slope = torch.randn(sum(lengths), DIM)

    def gradient(part, lengths):
        layer.zero_grad()
        layer(x[part], plain_context(lengths, causal=kind == "causal")).backward(slope[part])
        (mine, x.grad) = x.grad, None
        return mine[part]

    together = gradient(slice(0, 10), lengths)
    assert together.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
    for part, length in ((slice(5, 7), 2), (slice(7, 10), 3)):
        torch.testing.assert_close(together[part], gradient(part, (length,)))
