"""THE attention, against PyTorch's own and against its equation as loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.errors import InputError
from regard.layers import Attention, Context, Layout, Mask, Memory, Positions, Tap, plain_context
from regard.layers.tap.without_head import without_head

LENGTHS = (3, 5, 1)


def cross_context(queries, keys, tap=None):
    memory = Memory(torch.randn(sum(keys), 8), Layout(keys))
    ctx = plain_context(queries, tap=tap)
    return Context(ctx.layout, ctx.positions, ctx.mask, ctx.scheme, memory=memory, tap=tap)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [LENGTHS, (4, 4)])
def test_self_attention_is_pytorchs_with_its_weights(lengths, causal, copy_attention, padding):
    ours, theirs = Attention(8, heads=2), nn.MultiheadAttention(8, 2, batch_first=True)
    copy_attention(ours, theirs)
    x = torch.randn(sum(lengths), 8)
    ctx = plain_context(lengths, causal=causal)
    rows = ctx.layout.pad(x)
    future = torch.ones(max(lengths), max(lengths)).triu(1).bool() if causal else None
    expected, _ = theirs(
        rows, rows, rows, key_padding_mask=padding(lengths), attn_mask=future, need_weights=False
    )
    torch.testing.assert_close(ours(x, ctx), ctx.layout.unpad(expected), rtol=0, atol=1e-6)


def test_cross_attention_is_pytorchs_with_its_weights(copy_attention, padding):
    ours = Attention(8, heads=2, cross=True)
    theirs = nn.MultiheadAttention(8, 2, batch_first=True)
    copy_attention(ours, theirs)
    keys = (2, 6, 4)
    x, ctx = torch.randn(sum(LENGTHS), 8), cross_context(LENGTHS, keys)
    memory = ctx.memory.layout.pad(ctx.memory.x)
    expected, _ = theirs(
        ctx.layout.pad(x), memory, memory, key_padding_mask=padding(keys), need_weights=False
    )
    torch.testing.assert_close(ours(x, ctx), ctx.layout.unpad(expected), rtol=0, atol=1e-6)


def test_gradients_are_pytorchs(copy_attention, padding):
    ours, theirs = Attention(8, heads=2), nn.MultiheadAttention(8, 2, batch_first=True)
    copy_attention(ours, theirs)
    ctx = plain_context(LENGTHS)
    x = torch.randn(sum(LENGTHS), 8, requires_grad=True)
    slope = torch.randn(sum(LENGTHS), 8)
    ours(x, ctx).backward(slope)
    mine, x.grad = x.grad, None
    rows = ctx.layout.pad(x)
    out, _ = theirs(rows, rows, rows, key_padding_mask=padding(LENGTHS), need_weights=False)
    ctx.layout.unpad(out).backward(slope)
    torch.testing.assert_close(mine, x.grad, rtol=0, atol=1e-6)
    together = torch.cat([ours.query.weight.grad, ours.key_value.weight.grad])
    torch.testing.assert_close(together, theirs.in_proj_weight.grad, rtol=0, atol=1e-5)


@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_grouped_heads_are_full_heads_with_repeated_keys_and_values(score):
    grouped = Attention(8, heads=4, kv_heads=2, score=score)
    full = Attention(8, heads=4, score=score)
    full.load_state_dict(
        {name: value for name, value in grouped.state_dict().items() if "key_value" not in name},
        strict=False,
    )
    with torch.no_grad():
        for name in ("weight", "bias"):
            small = getattr(grouped.key_value, name)  # (2 * kv_heads * head_dim, …)
            repeated = small.view(2, 2, 2, -1).repeat_interleave(2, dim=1)
            getattr(full.key_value, name).copy_(repeated.view(16, -1).squeeze(-1))
    x, ctx = torch.randn(sum(LENGTHS), 8), plain_context(LENGTHS, causal=True)
    torch.testing.assert_close(grouped(x, ctx), full(x, ctx))


def one_score(kind, layer, head, q, k):
    """The paper's equation for one query and one key."""
    if kind == "additive":
        return sum(
            layer.score.vector[head, d] * math.tanh(q[d] + k[d]) for d in range(layer.head_dim)
        )
    product = sum(q[d] * k[d] for d in range(layer.head_dim))
    return product / math.sqrt(layer.head_dim) if kind == "scaled_dot" else product


@pytest.mark.parametrize("kind", ["scaled_dot", "dot", "additive"])
@pytest.mark.parametrize("biased", [False, True])
@torch.no_grad()
def test_each_score_is_its_equation(kind, biased):
    layer = Attention(4, heads=2, score=kind)
    length, width = 3, 2
    x, ctx = torch.randn(length, 4), plain_context((length,), causal=True)
    ctx.bias = torch.randn(1, 2, length, length) if biased else None
    q = layer.query(x).view(length, 2, width)
    k, v = layer.key_value(x).view(length, 2, 2, width).unbind(1)
    joined = torch.zeros(length, 4)
    for head in range(2):
        for query in range(length):
            powers = [
                math.exp(
                    one_score(kind, layer, head, q[query, head], k[key, head])
                    + (ctx.bias[0, head, query, key] if biased else 0)
                )
                for key in range(query + 1)
            ]
            for key, power in enumerate(powers):
                cell = slice(head * width, (head + 1) * width)
                joined[query, cell] += power / sum(powers) * v[key, head]
    torch.testing.assert_close(layer(x, ctx), layer.out(joined))


@pytest.mark.parametrize("score", ["scaled_dot", "dot", "additive"])
def test_weights_sum_to_one_or_to_zero_where_there_is_nothing_to_look_at(score):
    layer = Attention(8, heads=2, cross=True, score=score)
    tap = Tap("attention.weights")
    out = layer(torch.randn(5, 8), cross_context((2, 3), (4, 0), tap))
    sums = tap.records["attention.weights"].sum(-1)  # (batch, heads, query)
    torch.testing.assert_close(sums[0, :, :2], torch.ones(2, 2))
    assert torch.equal(sums[1], torch.zeros(2, 3))
    assert torch.equal(out[2:], layer.out.bias.expand(3, 8))
    out.sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)


def test_a_batch_of_empty_memories_gives_zeros():
    layer = Attention(8, heads=2, cross=True)
    out = layer(torch.randn(3, 8), cross_context((2, 1), (0, 0)))
    assert torch.equal(out, layer.out.bias.expand(3, 8))


@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_dropout_acts_on_the_weights_in_training_only(score):
    layer = Attention(8, heads=2, score=score, dropout=0.5)
    plain = Attention(8, heads=2, score=score)
    plain.load_state_dict(layer.state_dict())
    x, ctx = torch.randn(sum(LENGTHS), 8), plain_context(LENGTHS)
    assert not torch.allclose(layer(x, ctx), layer(x, ctx))
    layer.eval()
    assert torch.equal(layer(x, ctx), layer(x, ctx))
    torch.testing.assert_close(layer(x, ctx), plain(x, ctx))


@pytest.mark.slow
def test_dropout_keeps_the_expectation():
    layer = Attention(8, heads=2, dropout=0.3)
    x, ctx = torch.randn(4, 8), plain_context((4,))
    with torch.no_grad():
        mean = sum(layer(x, ctx) for _ in range(4000)) / 4000
        torch.testing.assert_close(mean, layer.eval()(x, ctx), rtol=0, atol=0.03)


def test_without_positions_permuted_tokens_give_permuted_outputs():
    layer, x = Attention(8, heads=2), torch.randn(6, 8)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    ctx = plain_context((6,))
    torch.testing.assert_close(layer(x[order], ctx), layer(x, ctx)[order])


def test_a_sentence_does_not_see_its_neighbours_in_the_batch():
    layer, x = Attention(8, heads=2), torch.randn(sum(LENGTHS), 8)
    together = layer(x, plain_context(LENGTHS)).split(LENGTHS)
    for sentence, length, out in zip(x.split(LENGTHS), LENGTHS, together, strict=True):
        torch.testing.assert_close(layer(sentence, plain_context((length,))), out)


def test_the_memory_is_projected_once_while_decoding():
    layer = Attention(8, heads=2, cross=True)
    ctx = cross_context((2, 3), (4, 2))
    x = torch.randn(5, 8)
    expected = layer(x, ctx)
    ctx.memory.projected["attention"] = layer.project_memory(ctx.memory)
    ctx.memory.x = None  # nobody asks for it now
    torch.testing.assert_close(layer(x, ctx), expected)


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(InputError, match="dim 8, heads 3"):
        Attention(8, heads=3)
    with pytest.raises(InputError, match="kv_heads 3"):
        Attention(8, heads=4, kv_heads=3)


def test_cross_attention_without_a_memory_is_refused():
    layout = Layout((2,))
    ctx = Context(layout, layout.positions, Mask(), Positions())
    with pytest.raises(InputError, match="no memory"):
        Attention(8, heads=2, cross=True)(torch.randn(2, 8), ctx)


@torch.no_grad()
def test_a_head_may_have_any_width():
    layer, length = Attention(8, heads=2, head_dim=3), 4
    assert layer.query.weight.shape == (6, 8)
    assert layer.key_value.weight.shape == (12, 8)
    assert layer.out.weight.shape == (8, 6)
    x = torch.randn(length, 8)
    q = layer.query(x).view(length, 2, 3).transpose(0, 1)  # (heads, length, head_dim)
    k, v = layer.key_value(x).view(length, 2, 2, 3).permute(1, 2, 0, 3)
    weights = (q @ k.transpose(1, 2) / math.sqrt(3)).softmax(-1)
    expected = layer.out((weights @ v).transpose(0, 1).flatten(1))
    torch.testing.assert_close(layer(x, plain_context((length,))), expected)


@pytest.mark.parametrize(
    ("bias", "has"),
    [
        (True, (True, True, True)),
        ("all", (True, True, True)),
        ("qkv", (True, True, False)),
        (False, (False, False, False)),
        ("none", (False, False, False)),
    ],
)
def test_biases_stand_where_they_are_asked_for(bias, has):
    layer = Attention(8, heads=2, bias=bias)
    projections = (layer.query, layer.key_value, layer.out)
    assert tuple(linear.bias is not None for linear in projections) == has


@torch.no_grad()
@pytest.mark.parametrize("cross", [False, True])
def test_queries_and_keys_go_through_a_norm_of_their_own_before_the_product(cross):
    """x / √(mean(x²) + ε) · weight over the features of each head; values are left alone."""
    layer = Attention(8, heads=2, cross=cross, query_key_norm=1e-3)
    plain = Attention(8, heads=2, cross=cross)
    plain.load_state_dict(layer.state_dict(), strict=False)
    layer.query_norm.weight.copy_(torch.tensor([1.0, -2.0, 0.5, 3.0]))
    layer.key_norm.weight.copy_(torch.tensor([0.3, 1.0, 2.0, -1.0]))
    sites = [f"attention.{site}" for site in "qkv"]
    taps = Tap(*sites), Tap(*sites)
    x, length = torch.randn(5, 8), (5,)
    for attention, tap in zip((layer, plain), taps, strict=True):
        torch.manual_seed(1)  # the same memory
        attention(x, cross_context(length, (4,), tap) if cross else plain_context(length, tap=tap))
    normed, raw = (tap.records for tap in taps)
    for site, weight in (("q", layer.query_norm.weight), ("k", layer.key_norm.weight)):
        before = raw[f"attention.{site}"]
        expected = before / (before.square().mean(-1, keepdim=True) + 1e-3).sqrt() * weight
        torch.testing.assert_close(normed[f"attention.{site}"], expected)
    assert torch.equal(normed["attention.v"], raw["attention.v"])


def test_values_that_are_the_memory_are_its_mean_by_the_weights():
    """Bahdanau's: v·tanh(W s + U h), and no matrix behind it; the memory is wider than x."""
    attend = Attention(8, 1, cross=True, score="additive", memory_dim=6, values="memory")
    x, memory = torch.randn(3, 8), Memory(torch.randn(9, 6), Layout((4, 5)))
    ctx = plain_context((1, 2))
    ctx.memory = memory
    expected = []
    for query, sequence in zip(x, (memory.x[:4], memory.x[4:], memory.x[4:]), strict=True):
        keys = sequence @ attend.key_value.weight.T + attend.key_value.bias
        energy = (attend.query(query[None]) + keys).tanh() @ attend.score.vector[0]
        expected.append(energy.softmax(0) @ sequence)
    torch.testing.assert_close(attend(x, ctx), torch.stack(expected), rtol=0, atol=1e-6)
    assert {name for name, _ in attend.named_parameters()} == {
        "query.weight", "query.bias", "key_value.weight", "key_value.bias", "score.vector",
    }  # fmt: skip


@pytest.mark.parametrize("heads", [1, 2])
def test_a_head_of_memory_values_can_be_taken_away(heads):
    attend = Attention(8, heads, "decoder.0.cross", cross=True, memory_dim=6, values="memory")
    ctx = plain_context((3,))
    ctx.memory = Memory(torch.randn(5, 6), Layout((5,)))
    x = torch.randn(3, 8)
    model = nn.Module()
    model.attend, model.sites = attend, attend.sites
    out, gone = attend(x, ctx), without_head(model, ["decoder.0.cross.0"]).attend(x, ctx)
    assert out.shape == (3, heads * 6)
    assert not gone[:, :6].any()
    assert torch.equal(gone[:, 6:], out[:, 6:])


@pytest.mark.parametrize(
    "given", [{"values": "memory"}, {"memory_dim": 6}, {"values": "keys", "cross": True}]
)
def test_only_cross_attention_has_a_memory_to_speak_of(given):
    with pytest.raises(InputError, match="only with cross"):
        Attention(8, 2, **given)


def test_cosine_attention_does_not_see_how_long_queries_and_keys_are():
    attend = Attention(8, 2, score="cosine", bias=False)
    x, ctx = torch.randn(5, 8), plain_context((2, 3))
    before = attend(x, ctx)
    with torch.no_grad():
        attend.query.weight *= 3
        attend.key_value.weight[:8] *= 0.2
    torch.testing.assert_close(attend(x, ctx), before, rtol=0, atol=1e-5)
    tap = Tap("*.scores")
    attend(x, plain_context((2, 3), tap=tap))
    scores = tap.records["attention.scores"]
    assert scores[scores.isfinite()].abs().max() <= 10 + 1e-4  # the length that heads begin with


def test_a_layer_adds_a_bias_of_its_own_that_may_depend_on_the_query():
    class Louder(nn.Module):
        def forward(self, q, layout):
            first = q[..., :1]  # (batch, heads, query, 1)
            return first * torch.arange(layout.longest)

    attend = Attention(8, 2, score_bias=Louder())
    plain, x = Attention(8, 2), torch.randn(5, 8)
    plain.load_state_dict(attend.state_dict())
    tap, biased = Tap("*.scores", "*.q"), Tap("*.scores")
    plain(x, plain_context((5,), tap=tap))
    attend(x, plain_context((5,), tap=biased))
    added = tap.records["attention.q"][..., :1] * torch.arange(5)
    difference = biased.records["attention.scores"] - tap.records["attention.scores"]
    torch.testing.assert_close(difference, added, rtol=0, atol=1e-5)
