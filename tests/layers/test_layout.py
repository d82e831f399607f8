"""Sentences end to end <-> padded rows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.layers import Layout

LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=6)


@settings(deadline=None, max_examples=40)
@given(LENGTHS, st.sampled_from([1, 2, 3]))
def test_rows_hold_each_token_at_its_place_and_zeros_elsewhere(lengths, heads):
    layout, width = Layout(lengths), 2
    x = torch.arange(1.0, 1 + sum(lengths) * heads * width).view(-1, heads * width)
    rows = layout.rows(x, heads)
    assert rows.shape == (len(lengths), heads, max(lengths), width)
    token = 0
    for row, length in enumerate(lengths):
        for position in range(max(lengths)):
            for head in range(heads):
                expected = torch.zeros(width)
                if position < length:
                    expected = x[token, head * width : (head + 1) * width]
                assert torch.equal(rows[row, head, position], expected)
            token += position < length


@settings(deadline=None, max_examples=40)
@given(LENGTHS)
def test_rows_and_tokens_are_inverse(lengths):
    layout = Layout(lengths)
    x = torch.randn(sum(lengths), 6)
    assert torch.equal(layout.tokens(layout.rows(x, 3)), x)
    assert torch.equal(layout.unpad(layout.pad(x)), x)


@settings(deadline=None, max_examples=40)
@given(LENGTHS)
def test_where_counts_from_the_start_of_each_sentence(lengths):
    layout = Layout(lengths)
    assert layout.positions.tolist() == [
        position for length in lengths for position in range(length)
    ]


@settings(deadline=None, max_examples=40)
@given(LENGTHS)
def test_what_stands_in_the_padding_is_never_gathered(lengths):
    layout = Layout(lengths)
    x = torch.randn(sum(lengths), 4)
    rows = layout.rows(x, 2).clone()
    for row, length in enumerate(lengths):
        rows[row, :, length:] = float("nan")
    assert torch.equal(layout.tokens(rows), x)


@pytest.mark.parametrize("lengths", [(3, 1, 0, 2), (2, 2)])
def test_the_gradient_of_a_token_is_that_of_its_cell(lengths):
    layout = Layout(lengths)
    x = torch.randn(sum(lengths), 4, requires_grad=True)
    slope = torch.randn(len(lengths), 2, max(lengths), 2)
    (layout.rows(x, 2) * slope).sum().backward()
    assert torch.equal(x.grad, layout.tokens(slope))


def test_even_sentences_are_cut_without_a_copy():
    x = torch.randn(6, 4)
    assert Layout((3, 3)).rows(x, 2).data_ptr() == x.data_ptr()


def test_no_sentences_and_empty_sentences_have_no_rows_to_fill():
    assert Layout(()).rows(torch.zeros(0, 4), 2).shape == (0, 2, 0, 2)
    assert Layout((0, 0)).tokens(Layout((0, 0)).rows(torch.zeros(0, 4), 2)).shape == (0, 4)
