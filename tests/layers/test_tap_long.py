"""Looking at long input: a record is kept as q and k, and computed when it is read, in blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.layers import Attention, Edit, Mask, Tap, masked_softmax, plain_context
from regard.layers.tap import product as products
from tests.largest import Largest

LENGTH, DIM, HEADS = 300, 16, 4
SITE, SCORES = "attention.weights", "attention.scores"


def watched(run):
    """What it returns, and how large the largest tensor was."""
    with Largest() as largest:
        value = run()
    return value, largest.numel


SEGMENTS = (torch.arange(LENGTH) // 70)[None]
EXTRA = torch.rand(1, HEADS, LENGTH, LENGTH, generator=torch.Generator().manual_seed(0)) < 0.5
CASES = {
    "both sides": ({}, (LENGTH,), Mask()),
    "causal": ({}, (LENGTH,), Mask(causal=True)),
    "grouped": ({"kv_heads": 2}, (LENGTH,), Mask(causal=True)),
    "one key head": ({"kv_heads": 1}, (LENGTH,), Mask()),
    "uneven": ({}, (LENGTH, 140), None),
    "window": ({}, (LENGTH,), Mask(window=9)),
    "window back": ({}, (LENGTH,), Mask(window=9, causal=True)),
    "segments": ({}, (LENGTH,), Mask(segments=(SEGMENTS, SEGMENTS))),
    "extra": ({}, (LENGTH,), Mask(extra=EXTRA)),
    "additive": ({"score": "additive", "kv_heads": 2}, (LENGTH,), Mask(causal=True)),
    "unscaled": ({"score": "dot"}, (LENGTH,), Mask()),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request, monkeypatch):
    """A layer, its input, and a function that makes a context; some masks are built in parts."""
    monkeypatch.setattr("regard.layers.kernel_calls.LARGEST_WHOLE_MASK", 1000)
    monkeypatch.setattr(products, "MAX_CELLS", 0)  # as if it were longer
    fields, lengths, mask = request.param
    layer = Attention(DIM, HEADS, **fields).eval()

    def context(tap, bias=None):
        ctx = plain_context(lengths, tap=tap)
        return ctx if mask is None else replace(ctx, mask=mask, bias=bias)

    return layer, torch.randn(sum(lengths), DIM), context


def computed(layer, tap, mask):
    """Scores and weights from the recorded q and k, whole, as the equation has them."""
    q, k = (tap.records[f"attention.{site}"] for site in "qk")
    scores = layer.score.scores(q, k.repeat_interleave(HEADS // k.shape[1], dim=1))
    allowed = mask.dense(q.shape[2], k.shape[2])
    denied = scores if allowed is None else scores.masked_fill(~allowed, float("-inf"))
    return denied, masked_softmax(scores, allowed)


@torch.no_grad()
def test_what_is_read_later_is_the_softmax_of_q_and_k(case):
    layer, x, context = case
    tap = Tap("*")
    layer(x, context(tap))
    scores, weights = computed(layer, tap, context(None).mask)
    torch.testing.assert_close(tap.records[SITE], weights, rtol=0, atol=1e-6)
    torch.testing.assert_close(tap.records[SCORES], scores, rtol=0, atol=1e-5)


@torch.no_grad()
def test_output_is_bit_identical_and_reconciles_with_what_is_read(case):
    layer, x, context = case
    tap = Tap("*")
    assert torch.equal(layer(x, context(tap)), layer(x, context(None)))
    values = tap.records["attention.v"].repeat_interleave(HEADS // layer.kv_heads, dim=1)
    out, lengths = tap.records[SITE] @ values, context(None).layout.lengths
    for row, length in enumerate(lengths):
        kernel = tap.records["attention.heads"][row, :, :length]
        torch.testing.assert_close(out[row, :, :length], kernel, rtol=0, atol=1e-5)


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("heads", [None, [2], [3, 0]])
@pytest.mark.parametrize("queries", [None, [7], [250, 3, -1]])
def test_a_part_is_a_slice_of_the_whole_whether_chosen_before_or_after(case, heads, queries):
    layer, x, context = case
    before, after = Tap(SITE, SCORES, heads=heads, queries=queries), Tap(SITE, SCORES)
    for tap in (before, after):
        layer(x, context(tap))
    for site in (SITE, SCORES):
        part = after.records.part(site, heads, queries)  # first: reading it whole would keep it
        whole = after.records[site]
        whole = whole if heads is None else whole[:, heads]
        whole = whole if queries is None else whole[:, :, queries]
        torch.testing.assert_close(part, whole, rtol=0, atol=1e-6)
        torch.testing.assert_close(before.records[site], whole, rtol=0, atol=1e-6)
        assert torch.equal(after.records.part(site, heads, queries), whole)


@torch.no_grad()
def test_parts_of_a_part_count_from_its_own_beginning(case):
    layer, x, context = case
    tap, part_tap = Tap(SITE), Tap(SITE, heads=[3, 1], queries=range(40, 290))
    for recorder in (tap, part_tap):
        layer(x, context(recorder))
    torch.testing.assert_close(
        part_tap.records.part(SITE, heads=[1], queries=[5]),
        tap.records[SITE][:, [1]][:, :, [45]],
        rtol=0,
        atol=1e-6,
    )


@torch.no_grad()
@pytest.mark.parametrize("read", [False, True])
def test_blocks_one_after_another_are_the_whole(case, read):
    layer, x, context = case
    tap, whole = Tap(SITE), Tap(SITE)
    for recorder in (tap, whole):
        layer(x, context(recorder))
    if read:
        assert tap.records[SITE] is tap.records[SITE]
    blocks = list(tap.records.blocks(SITE))
    assert [group.start for group, _ in blocks] == [0, *(group.stop for group, _ in blocks[:-1])]
    joined = torch.cat([block for _, block in blocks], dim=2)
    torch.testing.assert_close(joined, whole.records[SITE], rtol=0, atol=1e-6)


def test_a_bias_is_part_of_what_is_recorded():
    layer, tap = Attention(DIM, HEADS), Tap("*")
    bias = torch.randn(1, HEADS, LENGTH, LENGTH)
    ctx = replace(plain_context((LENGTH,), causal=True, tap=tap), bias=bias)
    layer(torch.randn(LENGTH, DIM), ctx)
    out = tap.records[SITE] @ tap.records["attention.v"]
    torch.testing.assert_close(out, tap.records["attention.heads"], rtol=0, atol=1e-5)
    part = tap.records.part(SITE, [1], [9])
    torch.testing.assert_close(part, tap.records[SITE][:, [1]][:, :, [9]])


# Memory


@pytest.fixture
def wide():
    """A layer whose x is smaller than the map of one head, and an input."""
    length = 4 * HEADS * DIM
    return Attention(DIM, HEADS), torch.randn(length, DIM), length


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("uneven", [False, True])
def test_a_tapped_run_makes_no_tensor_of_queries_times_keys(
    wide, causal, train, uneven, monkeypatch
):
    monkeypatch.setattr("regard.layers.kernel_calls.LARGEST_WHOLE_MASK", 1000)
    layer, _, length = wide
    lengths = (length, length // 2) if uneven else (length,)
    x = torch.randn(sum(lengths), DIM)

    def run(tap):
        with torch.set_grad_enabled(train):
            out = layer(x, plain_context(lengths, causal=causal, tap=tap))
            if train:
                out.sum().backward()

    _, plain = watched(lambda: run(None))
    for tap in (Tap(SITE), Tap(SITE, heads=[1]), Tap(SITE, queries=[3, 5])):
        _, tapped = watched(lambda tap=tap: run(tap))
        assert tapped <= plain < length * length


def test_reading_makes_nothing_larger_than_what_is_read_and_a_block(wide, monkeypatch):
    monkeypatch.setattr(products, "MAX_CELLS", 8 * wide[2])
    monkeypatch.setattr(products, "MIN_QUERIES", 1)
    monkeypatch.setattr("regard.layers.kernel_calls.LARGEST_WHOLE_MASK", 1000)
    layer, x, length = wide
    tap = Tap(SITE)
    with torch.no_grad():
        layer(x, plain_context((length,), causal=True, tap=tap))
    inputs = x.numel()  # of q and of k, all heads
    _, of_queries = watched(lambda: tap.records.part(SITE, queries=[3, 5]))
    assert of_queries <= max(inputs, HEADS * 2 * length)
    _, of_blocks = watched(lambda: [block.amax(-1) for _, block in tap.records.blocks(SITE)])
    assert of_blocks <= max(inputs, HEADS * 8 * length)
    _, of_head = watched(lambda: tap.records.part(SITE, heads=[1]))
    assert of_head == length * length


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [({}, 2 * HEADS), ({"heads": [1]}, 2), ({"queries": [1, 2]}, None)],
)
def test_what_is_kept_is_the_smaller_of_the_weights_and_q_and_k(wide, chosen, numbers):
    layer, x, length = wide
    tap = Tap(SITE, **chosen)
    layer(x, plain_context((length,), tap=tap))
    record = tap.records.data[SITE]
    if numbers is None:  # two queries of weights are less than all of k
        assert record.shape == (1, HEADS, 2, length)
    else:
        assert record.q.numel() + record.k.numel() == numbers * length * DIM // HEADS
        sizes = {t.untyped_storage().nbytes() for t in (record.q, record.k)}
        assert sizes == {numbers // 2 * length * DIM // HEADS * 4}  # no view of something larger


def test_short_records_are_numbers_at_once():
    layer, tap = Attention(DIM, HEADS), Tap(SITE)
    layer(torch.randn(6, DIM), plain_context((6,), tap=tap))
    assert isinstance(tap.records.data[SITE], torch.Tensor)


# What is read later is what was there


@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_a_step_of_training_leaves_what_was_recorded(score):
    layer, x = Attention(DIM, HEADS, score=score), torch.randn(LENGTH, DIM)
    now, later = Tap(SITE), Tap(SITE)
    for tap in (now, later):
        layer(x, plain_context((LENGTH,), tap=tap))
    expected = now.records[SITE]
    assert not expected.requires_grad
    with torch.no_grad():
        for tensor in (x, *layer.parameters()):
            tensor.add_(1.0)
    assert torch.equal(later.records[SITE], expected)


def test_an_edited_query_is_what_is_recorded_and_may_be_changed_afterwards():
    layer, x = Attention(DIM, HEADS), torch.randn(LENGTH, DIM)
    other = torch.randn(1, HEADS, LENGTH, DIM // HEADS)
    now, later = (Tap(SITE, edits=[Edit("attention.q", lambda _: other)]) for _ in range(2))
    for tap in (now, later):
        layer(x, plain_context((LENGTH,), tap=tap))
    expected = now.records[SITE]
    other.zero_()
    assert torch.equal(later.records[SITE], expected)


@pytest.mark.parametrize("inside", [False, True])
def test_what_was_seen_in_inference_mode_can_be_read_and_used_anywhere(inside):
    layer, tap = Attention(DIM, HEADS), Tap(SITE, SCORES)
    with torch.inference_mode():
        layer(torch.randn(LENGTH, DIM), plain_context((LENGTH,), causal=True, tap=tap))
        if inside:
            assert len(list(tap.records.values())) == 2
    assert torch.equal(tap.records[SITE].sum(-1) > 0.99, torch.ones(1, HEADS, LENGTH).bool())
    if not inside:
        tap.records[SITE].zero_()  # an ordinary tensor
        assert not tap.records[SITE].any()


def test_records_are_a_mapping():
    layer, tap = Attention(DIM, HEADS), Tap("*")
    layer(torch.randn(LENGTH, DIM), plain_context((LENGTH,), tap=tap))
    assert SITE in tap.records
    assert len(tap.records) == len(list(tap.records)) == 7
    value = tap.records.pop(SITE)
    assert value.shape == (1, HEADS, LENGTH, LENGTH)
    assert SITE not in tap.records
    with pytest.raises(KeyError):
        tap.records.part(SITE)


# Touching


@pytest.mark.parametrize("site", ["scores", "weights"])
@pytest.mark.parametrize("kv_heads", [HEADS, 2])
def test_an_edit_that_changes_nothing_leaves_outputs_and_gradients(site, kv_heads):
    layer, x = Attention(DIM, HEADS, kv_heads=kv_heads), torch.randn(LENGTH, DIM)

    def run(*edits):
        layer.zero_grad()
        out = layer(x, plain_context((LENGTH,), causal=True, tap=Tap(edits=edits)))
        out.square().sum().backward()
        return [out, *(parameter.grad.clone() for parameter in layer.parameters())]

    for plain, edited in zip(run(), run(Edit(f"attention.{site}", torch.clone)), strict=True):
        torch.testing.assert_close(edited, plain, rtol=1e-4, atol=1e-5)


def test_an_edit_of_weights_alone_makes_them_once(wide, monkeypatch):
    """Not the scores, their masked copy and the softmax side by side."""
    layer, x, length = wide
    monkeypatch.setattr(products, "MAX_CELLS", 8 * length)  # as if it were longer
    computed = set()

    class Places(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and out.numel() == HEADS * length * length:
                computed.add(out.data_ptr())
            return out

    tap = Tap(edits=[Edit(SITE, lambda weights: weights)])
    with torch.no_grad(), Places():
        layer(x, plain_context((length,), causal=True, tap=tap))
    assert len(computed) == 1
