"""The cache: what it holds, and that decoding beside it gives what a whole pass gives."""

from __future__ import annotations

import pytest
import torch

from regard.layers import (
    POSITIONS,
    Context,
    KVCache,
    Layout,
    Mask,
    SequenceStack,
    Stack,
    plain_context,
    position_scheme,
)


def filled(lengths):
    """A cache whose every row holds its own number, key by key."""
    cache = KVCache(2, len(lengths), 6, 1, 1)
    for row, length in enumerate(lengths):
        for position in range(length):
            for layer in cache.layers:
                layer[row, position] = torch.tensor([10 * row + position, -(10 * row + position)])[
                    :, None, None
                ]
    cache.lengths = tuple(lengths)
    return cache


@pytest.mark.parametrize(
    "order", [[2, 1, 0], [1, 1, 0], [0, 0, 0], [2, 0], [0, 1], [1], [0, 1, 2], []]
)
@pytest.mark.parametrize("lengths", [(3, 3, 3), (2, 4, 1)])
def test_reorder_makes_row_i_what_row_rows_i_was(lengths, order):
    cache, before = filled(lengths), filled(lengths)
    cache.reorder(torch.tensor(order, dtype=torch.int64))
    assert cache.lengths == tuple(lengths[row] for row in order)
    for new, old in enumerate(order):
        filled_part = slice(0, lengths[old])
        for mine, theirs in zip(cache.layers, before.layers, strict=True):
            assert torch.equal(mine[new, filled_part], theirs[old, filled_part])


@pytest.mark.parametrize("lengths", [(2, 2), (3, 1)])
def test_append_writes_behind_what_is_there_and_leaves_lengths_to_advance(lengths):
    cache = filled(lengths)
    k = torch.tensor([[100.0, 101.0], [200.0, 201.0]]).view(2, 1, 2, 1)
    keys, values = cache.append(1, k, -k)
    assert keys.shape == (2, 1, max(lengths) + 2, 1)
    for row, length in enumerate(lengths):
        old = [10.0 * row + position for position in range(length)]
        expected = [*old, *k[row].flatten().tolist()]
        assert keys[row].flatten().tolist()[: length + 2] == expected
        assert values[row].flatten().tolist()[: length + 2] == [-x for x in expected]
    assert cache.lengths == tuple(lengths)
    for row, length in enumerate(lengths):  # the other layer
        assert torch.equal(cache.layers[0][row, :length], filled(lengths).layers[0][row, :length])
    cache.advance((2, 1))
    assert cache.lengths == (lengths[0] + 2, lengths[1] + 1)


def test_the_buffers_take_turns_and_none_is_made_anew():
    def addresses(cache):
        return {buffer.data_ptr() for buffer in (*cache.layers, cache.spare)}

    cache = filled((2, 2, 2))
    before = addresses(cache)
    keys, _ = cache.append(0, torch.zeros(3, 1, 1, 1), torch.zeros(3, 1, 1, 1))
    assert keys.data_ptr() == cache.layers[0].data_ptr()
    cache.reorder(torch.tensor([2, 0]))
    assert addresses(cache) == before
    assert len(before) == 3


def test_what_was_never_written_is_never_read_as_something_that_is_no_number():
    cache = KVCache(1, 2, 8, 1, 1)
    for buffer in (*cache.layers, cache.spare):
        buffer.fill_(torch.nan)
    ones = torch.ones(2, 1, 1, 1)
    cache.append(0, ones, ones)
    cache.advance((1, 0))
    cache.append(0, ones.repeat(1, 1, 3, 1), ones.repeat(1, 1, 3, 1))
    cache.advance((3, 1))
    cache.reorder(torch.tensor([1, 0]))
    keys, values = cache.append(0, ones, ones)
    assert keys.isfinite().all()
    assert values.isfinite().all()


def grow(stack, x, chunks, capacity):
    """Runs sentences through a stack chunk by chunk: chunks[i][row] tokens of each at a time."""
    cache = stack.start(len(x), capacity, like=x[0])
    outs = [[] for _ in x]
    for counts in chunks:
        begins, layout = cache.lengths, Layout(counts)
        pieces = zip(x, begins, counts, strict=True)
        new = torch.cat([row[begin : begin + count] for row, begin, count in pieces])
        starts = torch.tensor(begins).repeat_interleave(torch.tensor(counts))
        even = cache.even and layout.even
        ends = tuple(begin + count for begin, count in zip(begins, counts, strict=True))
        mask = Mask(
            causal=True,
            key_lengths=None if even else ends,
            query_lengths=None if even else tuple(counts),
        )
        where = starts + layout.positions
        out = stack(new, Context(layout, where, mask, stack.positions, cache=cache))
        cache.advance(tuple(counts))
        for row, piece in enumerate(out.split(counts)):
            outs[row].append(piece)
    return [torch.cat(pieces) for pieces in outs]


CHUNKS = {
    "one by one": [(1, 1, 1)] * 6,
    "prompts of different lengths, then one by one": [(3, 1, 4), *[(1, 1, 1)] * 2],
    "uneven chunks on an uneven cache": [(3, 1, 2), (1, 2, 3), (2, 2, 1)],
    "even chunks": [(2, 2, 2), (3, 3, 3)],
    "an empty row": [(0, 2, 1), (1, 1, 1), (2, 0, 1)],
}


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS.keys())
@pytest.mark.parametrize("kv_heads", [None, 2])
@torch.no_grad()
def test_cached_is_uncached_for_every_scheme_and_uneven_rows(kind, chunks, kv_heads):
    sizes = {"dim": 16, "heads": 4, "hidden": 8, "layers": 2, "dropout": 0.0}
    config = SequenceStack(**sizes, kv_heads=kv_heads, positions="none")
    stack = Stack(config, "decoder", causal=True)
    scheme = position_scheme(kind, dim=16, heads=4, max_length=20, causal=True)
    stack.positions = scheme  # also one that no config of a sequence has
    lengths = [sum(counts) for counts in zip(*chunks, strict=True)]
    x = [torch.randn(length, 16) for length in lengths]
    for row, out in zip(x, grow(stack, x, chunks, capacity=12), strict=True):
        ctx = plain_context((len(row),), causal=True)
        ctx.scheme = scheme
        torch.testing.assert_close(out, stack(row, ctx), rtol=0, atol=1e-5)
