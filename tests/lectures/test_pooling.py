"""Max-pooling and its gradient: lecture D0's example with its tie, own numbers, and wrong ones."""

from __future__ import annotations

import random

import numpy as np
import pytest

from regard.errors import InputError
from regard_lectures import show
from regard_lectures.figures.pooling import pooled, words_pooling
from tests.lectures.drawn import drawn
from tests.legible import problems, texts


def by_hand(x, upstream, window):
    """The gradient of the input, cell by cell: to the first largest number of each block."""
    gradient = np.zeros((len(x), len(x[0])))
    for row, line in enumerate(upstream):
        for column, value in enumerate(line):
            cells = [
                (row * window + i, column * window + j)
                for i in range(window)
                for j in range(window)
            ]
            best = max(cells, key=lambda cell: (x[cell[0]][cell[1]], -cells.index(cell)))
            gradient[best] = value
    return gradient.tolist()


def test_the_lectures_example_gives_a_tie_to_the_first():
    drawing = drawn("pooling")
    assert drawing.numbers["y"] == [[6, 2], [5, 8]]
    assert drawing.numbers["x_gradient"] == [
        [0, 0, 20, 0],
        [0, 10, 0, 0],
        [30, 0, 0, 0],
        [0, 0, 0, 40],
    ]
    assert drawing.title.endswith("of equal ones the first (one tie)")
    assert "2 stands twice, in row 1, column 3 and row 2, column 4: row 1," in drawing.caption
    assert problems(drawing.figure) == []


@pytest.mark.parametrize("window", [2, 3])
def test_the_gradient_is_that_of_the_definition_also_with_ties(window):
    draw = random.Random(window)
    for _ in range(20):
        x = [[draw.randint(-2, 2) for _ in range(6)] for _ in range(5)]
        upstream = [[draw.randint(1, 9) for _ in range(6 // window)] for _ in range(5 // window)]
        numbers = pooled(x, upstream, window)
        assert numbers["x_gradient"] == by_hand(x, upstream, window)
        assert all(
            cell in cells for cell, cells in zip(numbers["chosen"], numbers["equal"], strict=True)
        )


def test_own_numbers_and_gradients_stand_in_their_cells():
    drawing = show("pooling", text="1,3,2,9; −99 6 .25 2", gradient="-50 .125")
    assert drawing.numbers["x_gradient"] == [[0, 0, 0, 0.125], [0, -50, 0, 0]]
    assert drawing.title == "Max-pooling: 2 of 8 numbers get the gradient, each block's largest"
    shown = {text.get_text() for text, _ in texts(drawing.figure)}
    assert {"−99", "0.25", "−50", ".125"} <= shown
    assert problems(drawing.figure) == []
    assert "left out: 1 row." in show("pooling", text="1 2; 3 4; 5 6").caption


def test_a_tie_that_goes_elsewhere_would_be_said():
    numbers = {**drawn("pooling").numbers, "is_lecture": False}
    numbers["chosen"] = [[1, 1], [1, 3], [2, 0], [3, 3]]
    assert "not always the first" in words_pooling(numbers).title


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "1 2; 3"}, "rows of 2, 1 numbers.*one length"),
        ({"text": "1 a; 2 3"}, "with ; between them, as in"),
        ({"text": "1 2 3"}, "1 × 3 numbers.*2 to 6 rows and columns"),
        ({"text": "1 nan; 2 3"}, "finite"),
        ({"text": "1 2 3 4 5; 1 2 3 4 1000"}, "1000.*5 cells.*3 digits"),
        ({"text": "1 2; 3 4", "window": 3}, "2 × 2 numbers.*3 to 6"),
        ({"gradient": "1 2"}, "gradient.*1 × 2.*2 × 2, one for each block"),
    ],
)
def test_what_cannot_be_pooled_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        show("pooling", **options)
