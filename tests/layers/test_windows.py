"""Pictures laid out in windows: every token once, neighbours alone, and what a tap shows."""

from __future__ import annotations

import pytest
import torch

from regard.errors import InputError
from regard.layers import (
    Attention,
    Context,
    Edit,
    Layout,
    Mask,
    Memory,
    Positions,
    RelativeBias,
    Tap,
)

GRIDS = [(4, 4), (6, 4), (5, 7), (2, 9), (3, 1), (1, 1)]


def context(layout, windows=None, tap=None):
    return Context(layout, layout.positions, Mask(), Positions(), tap=tap, windows=windows)


def neighbours(grid, size, shift, query):
    """The tokens of the same square, by plain counting."""
    sides = [min(size, extent) for extent in grid]
    by = [shift if extent > size else 0 for extent in grid]

    def square(token):
        cell = divmod(token, grid[1])
        return [(at - off) // side for at, off, side in zip(cell, by, sides, strict=True)]

    return [t for t in range(grid[0] * grid[1]) if square(t) == square(query)]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(("size", "shift"), [(2, 0), (2, 1), (3, 1), (4, 2)])
def test_windows_hold_every_token_once_and_only_neighbours_look(grid, size, shift):
    count = grid[0] * grid[1]
    layout = Layout((count,) * 2, grid=grid)
    windows = layout.windows(size, shift)
    x = torch.arange(1.0, 2 * count + 1)[:, None]
    rows = windows.rows(x, heads=1)
    assert sorted(rows[rows > 0].tolist()) == x.flatten().tolist()
    assert torch.equal(windows.tokens(rows), x)
    allowed = windows.mask.dense(windows.longest, windows.longest)
    for query in range(count):
        slot = int(windows.slots[query])
        keys = torch.tensor(windows.keys(query))
        may = keys >= 0
        if allowed is not None:
            may = allowed[slot // windows.longest, 0, slot % windows.longest]
        assert sorted(keys[may].tolist()) == neighbours(grid, size, shift, query)


@torch.no_grad()
@pytest.mark.parametrize("shift", [0, 1])
def test_a_tap_shows_windows_in_the_order_of_the_picture(shift):
    layout = Layout((15, 15), grid=(3, 5))
    windows, attend = layout.windows(2, shift), Attention(8, heads=2)
    x, tap = torch.randn(30, 8), Tap("*")
    out = attend(x, context(layout, windows, tap))
    assert torch.equal(out, attend(x, context(layout, windows)))
    weights, v = tap.records["attention.weights"], tap.records["attention.v"]
    assert weights.shape == (2, 2, 15, 4)
    assert v.shape == (2, 2, 15, 4)
    by_hand = torch.zeros(2, 2, 15, 4)
    for query in range(15):
        for column, key in enumerate(windows.keys(query)):
            if key >= 0:
                by_hand[:, :, query] += weights[:, :, query, column, None] * v[:, :, key]
            else:
                assert not weights[:, :, query, column].any()
    torch.testing.assert_close(by_hand, tap.records["attention.heads"], rtol=0, atol=1e-6)
    part = Tap("*.weights", heads=[1], queries=[7, 0])
    attend(x, context(layout, windows, part))
    assert torch.equal(part.records["attention.weights"], weights[:, [1]][:, :, [7, 0]])
    with pytest.raises(InputError, match="no such query in attention: got 15, expected 0 to 14"):
        attend(x, context(layout, windows, Tap("*.weights", queries=[15])))


@torch.no_grad()
def test_edits_of_windows_see_the_picture_too():
    layout = Layout((15,), grid=(3, 5))
    windows, attend, x = layout.windows(2, 1), Attention(8, heads=2), torch.randn(15, 8)
    plain = attend(x, context(layout, windows))
    for site in ("q", "k", "v", "scores", "weights", "heads"):
        tap = Tap(edits=[Edit(f"attention.{site}", lambda value: value * 1)])
        out = attend(x, context(layout, windows, tap))
        torch.testing.assert_close(out, plain, rtol=0, atol=1e-6)

    def away(weights):
        weights = weights.clone()
        weights[:, :, 7] = 0
        return weights

    out = attend(x, context(layout, windows, Tap(edits=[Edit("*.weights", away)])))
    torch.testing.assert_close(out[7], attend.out.bias, rtol=0, atol=1e-6)
    others = [*range(7), *range(8, 15)]
    torch.testing.assert_close(out[others], plain[others], rtol=0, atol=1e-6)


def test_a_table_of_offsets_gives_pairs_of_one_offset_one_number():
    layout = Layout((12,), grid=(3, 4))
    bias = RelativeBias(2, 4)
    values = bias(torch.randn(1, 2, 12, 4), layout)
    assert values.shape == (1, 2, 12, 12)
    for query in range(12):
        for key in range(12):
            (i, j), (a, b) = divmod(query, 4), divmod(key, 4)
            number = bias.table[(i - a + 3) * 7 + j - b + 3]
            assert torch.equal(values[0, :, query, key], number)
    with pytest.raises(InputError, match="got a grid of 3 x 5, expected windows of at most 4 x 4"):
        bias(torch.randn(1, 2, 15, 4), Layout((15,), grid=(3, 5)))
    with pytest.raises(InputError, match="got tokens in no grid"):
        bias(torch.randn(1, 2, 15, 4), Layout((15,)))


def test_a_layout_keeps_its_grid_when_some_are_taken():
    layout = Layout((13, 13, 13), grid=(3, 4), prefix=1)
    taken = layout.take([2, 0])
    assert (taken.lengths, taken.grid, taken.prefix) == ((13, 13), (3, 4), 1)
    memory = Memory(torch.randn(39, 8), layout).select(torch.tensor([1]))
    assert (memory.layout.grid, memory.layout.prefix) == ((3, 4), 1)
    assert layout.keys(3) == [*range(13)]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Layout((12, 11), grid=(3, 4)), r"got lengths 11, 12, expected 0 \+ 3 x 4 each"),
        (lambda: Layout((13,), grid=(3, 4), prefix=1).windows(2), "got 1 tokens before a grid"),
        (lambda: Layout((12,)).windows(2), "got tokens in no grid"),
        (lambda: Layout((12,), grid=(3, 4)).windows(2, 2), "got size 2, shift 2"),
        (lambda: Layout((12,), grid=(3, 4)).windows(0), "got size 0, shift 0"),
    ],
)
def test_layouts_that_cannot_be_are_refused(make, says):
    with pytest.raises(InputError, match=says):
        make()
