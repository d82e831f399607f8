"""Rules of who may look at whom, against the same rules written as loops."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.layers import Mask, kernel_calls, masked_softmax

BATCH, HEADS = 2, 2


@st.composite
def situations(draw):
    """Rules together with sizes: (rules, queries, keys). Queries are the last of the keys."""
    if draw(st.booleans()):  # self-attention: queries and keys are the same sentences
        lengths = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
        counts, ends = lengths, lengths
    else:  # a chunk of new tokens behind a cache
        counts = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
        ends = tuple(count + draw(st.integers(0, 3)) for count in counts)
    queries, keys = max(counts), max(ends)
    even = counts == (queries,) * 2 and ends == (keys,) * 2
    lengths = {} if even else {"key_lengths": ends, "query_lengths": counts}
    bits = st.integers(0, 2**32)
    generator = torch.Generator().manual_seed(draw(bits))
    segments = tuple(torch.randint(2, (BATCH, n), generator=generator) for n in (queries, keys))
    shapes = [(keys,), (queries, keys), (HEADS, 1, keys), (BATCH, 1, queries, keys)]
    extra = torch.rand(draw(st.sampled_from(shapes)), generator=generator) < 0.7
    rules = lengths | {
        "causal": draw(st.booleans()),
        "window": draw(st.none() | st.integers(0, 3)),
        "segments": draw(st.sampled_from([None, segments])),
        "extra": draw(st.sampled_from([None, extra])),
    }
    return rules, counts, ends


def by_loops(rules, counts, ends):
    """(batch, heads, query, key), one cell at a time."""
    queries, keys = max(counts), max(ends)
    may_look = torch.zeros(BATCH, HEADS, queries, keys, dtype=torch.bool)
    for row, head, query, key in torch.cartesian_prod(
        *(torch.arange(n) for n in may_look.shape)
    ).tolist():
        distance = key - (ends[row] - counts[row] + query)
        allowed = key < ends[row]
        if rules["causal"]:
            allowed &= distance <= 0
        if rules["window"] is not None:
            allowed &= abs(distance) <= rules["window"]
        if rules["segments"] is not None:
            of_query, of_key = rules["segments"]
            allowed &= bool(of_query[row, query] == of_key[row, key])
        if rules["extra"] is not None:
            extra = rules["extra"].expand(BATCH, HEADS, queries, keys)
            allowed &= bool(extra[row, head, query, key])
        may_look[row, head, query, key] = allowed
    return may_look


@settings(deadline=None, max_examples=60)
@given(situations())
def test_dense_is_the_conjunction_of_its_rules(situation):
    rules, counts, ends = situation
    queries, keys = max(counts), max(ends)
    dense = Mask(**rules).dense(queries, keys)
    everyone = torch.ones(BATCH, HEADS, queries, keys, dtype=torch.bool)
    dense = everyone if dense is None else dense.expand_as(everyone)
    assert torch.equal(dense, by_loops(*situation))


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(situations())
def test_the_kernel_gets_what_the_rules_say(situation):
    rules, counts, ends = situation
    queries, keys = max(counts), max(ends)
    q, k, v = (torch.randn(BATCH, HEADS, n, 4) for n in (queries, keys, keys))
    allowed, causal = Mask(**rules).kernel(queries, keys)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, is_causal=causal)
    weights = masked_softmax(q @ k.mT / 2, by_loops(*situation))
    for row, count in enumerate(counts):  # what padding looks at is nobody's business
        torch.testing.assert_close(out[row, :, :count], (weights @ v)[row, :, :count])


@settings(deadline=None, max_examples=100)
@given(situations(), st.data())
def test_rows_are_those_of_the_whole_and_nothing_beyond_reach_is_allowed(situation, data):
    rules, counts, ends = situation
    queries, keys = max(counts), max(ends)
    ranges = st.integers(0, queries - 1).map(lambda first: range(first, queries))
    chosen = data.draw(ranges | st.lists(st.integers(0, queries - 1), min_size=1, max_size=4))
    expected = by_loops(*situation)[:, :, list(chosen)]
    # Built for these queries alone, and cut out of the whole.
    for most in (0, kernel_calls.LARGEST_WHOLE_MASK):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel_calls, "LARGEST_WHOLE_MASK", most)
            mask = Mask(**rules)
            reach = mask.key_range(chosen, queries, keys)
            rows = mask.part(chosen, reach, queries, keys, "cpu")
        assert 0 <= reach.start < reach.stop <= keys
        within = torch.ones_like(expected[..., reach]) if rows is None else rows
        assert torch.equal(within.expand_as(expected[..., reach]), expected[..., reach])
        assert not expected[..., : reach.start].any()
        assert not expected[..., reach.stop :].any()


@settings(deadline=None, max_examples=100)
@given(situations(), st.integers(1, 4))
def test_the_kernel_gets_the_same_in_pieces(situation, at_a_time):
    rules, counts, ends = situation
    queries, keys = max(counts), max(ends)
    q, k, v = (torch.randn(BATCH, HEADS, n, 4) for n in (queries, keys, keys))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_calls, "LARGEST_WHOLE_MASK", 0)
        patch.setattr(kernel_calls, "QUERIES_PER_CALL", at_a_time)
        calls = list(Mask(**rules).kernel_calls(queries, keys))
    outs = [
        F.scaled_dot_product_attention(
            q[:, :, chosen], k[:, :, reach], v[:, :, reach], attn_mask=allowed, is_causal=causal
        )
        for chosen, reach, allowed, causal in calls
    ]
    out, weights = torch.cat(outs, dim=2), masked_softmax(q @ k.mT / 2, by_loops(*situation))
    for row, count in enumerate(counts):
        torch.testing.assert_close(out[row, :, :count], (weights @ v)[row, :, :count])


LONG = 4096
CALLS = {  # rules, queries, keys, calls of the kernel, cells of the largest mask
    "all may look": (Mask(), LONG, LONG, 1, 0),
    "causal": (Mask(causal=True), LONG, LONG, 1, 0),
    "causal, uneven": (
        Mask(causal=True, key_lengths=(LONG, 9), query_lengths=(LONG, 9)), LONG, LONG, 1, 0
    ),
    "uneven": (Mask(key_lengths=(LONG, 9), query_lengths=(LONG, 9)), LONG, LONG, 1, 2 * LONG),
    "a memory": (Mask(key_lengths=(LONG, 9)), LONG, LONG, 1, 2 * LONG),
    "one more token": (Mask(causal=True), 1, LONG, 1, 0),
    "a chunk": (Mask(causal=True), 1024, LONG, 4, 256 * LONG),
    "window": (Mask(window=100), LONG, LONG, 16, 256 * 456),
    "window back": (Mask(window=100, causal=True), LONG, LONG, 16, 256 * 356),
    "short window": (Mask(window=100), 1024, 1024, 1, 1024 * 1024),
}  # fmt: skip


@pytest.mark.parametrize(("mask", "queries", "keys", "calls", "cells"), CALLS.values(), ids=CALLS)
def test_long_masks_are_never_whole(mask, queries, keys, calls, cells):
    kernel_calls = list(mask.kernel_calls(queries, keys))
    assert len(kernel_calls) == calls
    assert (
        max(0 if piece.allowed is None else piece.allowed.numel() for piece in kernel_calls)
        == cells
    )
    assert calls == 1 or not mask._dense


def test_queries_are_the_last_of_the_keys():
    mask = Mask(causal=True).dense(2, 4)
    assert mask[0, 0].tolist() == [[True, True, True, False], [True, True, True, True]]
    shorter = Mask(causal=True, key_lengths=(4, 3), query_lengths=(1, 1)).dense(1, 4)
    assert shorter[:, 0, 0].tolist() == [[True] * 4, [True, True, True, False]]


@pytest.mark.parametrize("lengths", [None, (4, 2)])
def test_whole_causal_sentences_need_no_mask_tensor(lengths):
    mask = Mask(causal=True, key_lengths=lengths, query_lengths=lengths)
    assert mask.kernel(4, 4) == (None, True)


def test_one_new_token_beside_an_even_cache_needs_no_mask_at_all():
    assert Mask(causal=True).kernel(1, 5) == (None, False)


def test_the_kernels_own_causal_rule_is_not_used_where_it_would_be_wrong():
    """It aligns top-left, so not for fewer queries than keys; and it knows no other rule."""
    mask, causal = Mask(causal=True).kernel(2, 5)
    assert mask is not None
    assert not causal
    mask, causal = Mask(causal=True, window=1).kernel(3, 3)
    assert mask is not None
    assert not causal


def test_padding_costs_one_row_of_keys_and_places_do_not_repeat_over_the_batch():
    lengths = (3, 5)
    assert Mask(key_lengths=lengths, query_lengths=lengths).dense(5, 5).shape == (2, 1, 1, 5)
    same = Mask(causal=True, key_lengths=lengths, query_lengths=lengths)
    assert same.query_positions(5, 5).tolist() == [[0, 1, 2, 3, 4]]


def test_every_layer_gets_the_same_tensor():
    mask = Mask(window=1)
    assert mask.dense(3, 3) is mask.dense(3, 3)


NOTHING = torch.tensor([[True, False, True], [False, False, False]])  # query 1 sees no key


@pytest.mark.parametrize("path", ["fused", "dropout", "learned bias", "fixed bias", "softmax"])
def test_a_query_with_nothing_to_look_at_gets_zeros_forward_and_backward(path):
    q, k, v = (torch.randn(1, 2, n, 4, requires_grad=True) for n in (2, 3, 3))
    bias = torch.randn(1, 2, 2, 3, requires_grad=path == "learned bias")
    if path == "softmax":
        weights = masked_softmax(q @ k.mT, NOTHING)
        assert torch.equal(weights.sum(-1)[..., 1], torch.zeros(1, 2))
        torch.testing.assert_close(weights.sum(-1)[..., 0], torch.ones(1, 2))
        out = weights @ v
    else:
        mask = bias.masked_fill(~NOTHING, float("-inf")) if "bias" in path else NOTHING[None, None]
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=0.5 if path == "dropout" else 0.0
        )
    assert torch.equal(out[:, :, 1], torch.zeros(1, 2, 4))
    (out * torch.randn_like(out)).sum().backward()
    assert torch.equal(q.grad[:, :, 1], torch.zeros(1, 2, 4))
    assert torch.equal(v.grad[:, :, 1], torch.zeros(1, 2, 4))  # key 1 is seen by no query
    for x in (q, k, v, *([bias] if bias.requires_grad else [])):
        assert x.grad.isfinite().all()
        assert x.grad.any()


def test_masked_softmax_is_softmax_over_the_allowed_keys_alone():
    scores = torch.randn(3, 4)
    mask = torch.tensor([[1, 1, 0, 1], [0, 0, 1, 0], [1, 1, 1, 1]]).bool()
    weights = masked_softmax(scores, mask)
    for row in range(3):
        torch.testing.assert_close(weights[row, mask[row]], scores[row, mask[row]].softmax(0))
        assert not weights[row, ~mask[row]].any()
    assert torch.equal(masked_softmax(scores, None), scores.softmax(-1))
