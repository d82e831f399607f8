"""What attention makes on its way: nothing of queries times keys, and nothing of padding."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.layers import Attention, Context, Layout, Memory, plain_context

LENGTH, DIM, HEADS = 1536, 16, 2  # longer than any mask that is made whole


class Largest(TorchDispatchMode):
    """The size of the largest tensor that any operation gave."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self.numel = max(self.numel, *sizes, 0)
        return out


def lookers(kind, lengths):
    """A layer and its context."""
    if kind != "cross":
        return Attention(DIM, HEADS), plain_context(lengths, causal=kind == "causal")
    ctx = plain_context(lengths)
    memory = Memory(torch.randn(sum(lengths), DIM), Layout(lengths))
    context = Context(ctx.layout, ctx.where, ctx.mask, ctx.positions, memory=memory)
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
