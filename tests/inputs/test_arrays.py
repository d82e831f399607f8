"""Containers of examples: ids, frames, dense values and pairs of them behave alike."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.inputs.arrays import Dense, Paired, Ragged

LENGTHS = (3, 1, 0, 2)


def ids():
    ragged = Ragged.of([[5, 6, 7], [8], [], [9, 4]])
    return ragged.typed(torch.tensor([0, 1, 1, 0, 0, 1]))


def frames():
    return Ragged(torch.arange(12.0).view(6, 2), LENGTHS)


def pictures():
    return Dense(torch.arange(4 * 6).view(4, 1, 2, 3).to(torch.bfloat16))


KINDS = {
    "ids": ids,
    "frames": frames,
    "pictures": pictures,
    "numbers": lambda: Dense(torch.tensor([1.0, 2.0, 3.0, 4.0])),
    "pair": lambda: Paired(pictures(), Paired(frames(), ids())),
}


def as_lists(given):
    """Each example by itself, as lists of numbers."""
    match given:
        case Ragged():
            kinds = given.values if given.types is None else given.types
            parts = [torch.split(values, list(given.lengths)) for values in (given.values, kinds)]
            return [(ids.tolist(), types.tolist()) for ids, types in zip(*parts, strict=True)]
        case Dense():
            return given.values.tolist()
        case Paired():
            return list(zip(as_lists(given.first), as_lists(given.second), strict=True))


@pytest.mark.parametrize("kind", KINDS)
@given(rows=st.lists(st.integers(0, 3), max_size=6))
@settings(deadline=None, max_examples=20)
def test_some_examples_are_those_examples_with_their_keys(kind, rows):
    whole = KINDS[kind]()
    chosen = whole.take(rows)
    assert type(chosen) is type(whole)
    assert (len(whole), len(chosen)) == (4, len(rows))
    assert as_lists(chosen) == [as_lists(whole)[row] for row in rows]
    assert chosen.keys() == [whole.keys()[row] for row in rows]


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_different_examples_differ_and_are_reproducible(kind):
    keys = KINDS[kind]().keys()
    assert keys == KINDS[kind]().keys()
    assert len(set(keys)) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_examples_move_to_a_device(kind):
    moved = KINDS[kind]().to("meta")
    assert len(moved) == 4
    assert moved.device.type == "meta"


def test_ids_are_their_own_keys_whatever_their_types():
    assert ids().keys() == ["[5, 6, 7]", "[8]", "[]", "[9, 4]"] == ids().typed(None).keys()


def test_keys_of_numbers_depend_on_shape_and_dtype():
    numbers = torch.tensor([[0, 0, 0, 0, 0, 0]])
    shapes = [numbers, numbers.view(1, 2, 3), numbers.view(1, 3, 2), numbers.float()]
    assert len({Dense(numbers).keys()[0] for numbers in shapes}) == 4
    turned = torch.arange(6.0).view(1, 3, 2).transpose(1, 2)  # the same numbers, laid out otherwise
    assert Dense(turned).keys() == Dense(turned.contiguous()).keys()


def test_two_inputs_must_be_of_as_many_examples():
    with pytest.raises(ValueError, match="4 first inputs but 1 second ones"):
        Paired(pictures(), Ragged.of([[1]]))
