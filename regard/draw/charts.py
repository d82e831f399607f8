"""Charts of scores: BLEU against sentence length, and which classes are taken for which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from regard.draw.colours import INK, LINE_STYLES, RULE
from regard.draw.sheet import HEIGHT, TEXT, TITLE, WIDTH, Sheet, points, shorten, style, text_width

Groups = Sequence[tuple[str, int, float]]
"""For each group of sentences: range of lengths in words, number of sentences, BLEU; ascending."""


def length_chart(curves: Mapping[str, Groups], model: str) -> Figure:
    """Draw BLEU against sentence length, one line per test set.

    Args:
        curves: The groups of each test set, by its name.
        model: The model's name, for the title.
    """
    with style():
        sheet = Sheet(WIDTH, HEIGHT)
        sheet.text((90, 20), f"BLEU by sentence length: {model}", TITLE, weight="bold")
        axes = sheet.axes(90, 84, WIDTH - 120, HEIGHT - 170)
        for number, (name, groups) in enumerate(curves.items()):
            line_style = LINE_STYLES[number % len(LINE_STYLES)]
            middles = [_middle(words) for words, _, _ in groups]
            scores = [bleu for _, _, bleu in groups]
            axes.plot(
                middles, scores, color=line_style.colour, marker=line_style.marker, linewidth=2.5,
                markersize=9, label=name,
            )  # fmt: skip
        axes.set_ylim(0, 105)
        axes.set_xlabel("words in the source", fontsize=points(TEXT), color=INK)
        axes.set_ylabel("BLEU", fontsize=points(TEXT), color=INK, labelpad=2)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_yticks(range(0, 101, 20))
        axes.grid(visible=True, color=RULE)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=points(TEXT), frameon=False)
        return sheet.figure


MOST_CLASSES = 30
"""The most classes whose names and counts are written; of more, only the colours are drawn."""
NAME_WIDTH = 240
"""Pixels: the width of the longest name of a class beside the matrix."""


def confusion_chart(classes: Sequence[str], counts: Sequence[Sequence[int]], model: str) -> Figure:
    """Draw a confusion matrix: a row for each right class, a column for each predicted one.

    A cell is the darker, the larger its share of its row; examples on the diagonal are right.

    Args:
        classes: The names of the classes.
        counts: For each right class, the number of examples by predicted class.
        model: The model's name, for the title.
    """
    table = np.array(counts, dtype=np.float64)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    right, total = int(np.trace(table)), int(table.sum())
    with style():
        sheet = Sheet(WIDTH, WIDTH)
        title = shorten(f"Right class and answer: {model}", WIDTH - 60, TITLE)
        sheet.text((30, 20), title, TITLE, weight="bold")
        share = 100 * right / max(1, total)
        sheet.text((30, 62), f"{right:,} of {total:,} right: {share:.2f}%", TEXT)
        size = max(9.0, min(float(TEXT), 0.3 * WIDTH / max(1, len(classes))))
        names = [shorten(name, NAME_WIDTH, size) for name in classes]
        if len(classes) > MOST_CLASSES:
            names = []
        margin = 70 + max((text_width(name, size) for name in names), default=0)
        top = 100 + margin
        side = WIDTH - top - 30
        axes = sheet.axes(margin, top, side, side)
        axes.set_xlabel("answer", fontsize=points(TEXT), color=INK)
        axes.set_ylabel("right class", fontsize=points(TEXT), color=INK)
        axes.xaxis.set_label_position("top")
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="equal")
        axes.xaxis.tick_top()
        axes.spines[:].set_visible(False)
        if not names:
            return sheet.figure
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=points(size), color=INK)
        axes.set_yticks(range(len(names)), names, fontsize=points(size), color=INK)
        axes.tick_params(length=0)
        for row, column in zip(*np.nonzero(table), strict=True):
            dark = shares[row, column] > 0.5
            axes.text(
                column, row, f"{int(table[row, column]):,}", ha="center", va="center",
                fontsize=points(size), color="white" if dark else INK,
            )  # fmt: skip
        return sheet.figure


def _middle(words: str) -> float:
    """The middle of a range of lengths: `6–10` -> 8."""
    ends = [float(end) for end in words.split("–")]
    return sum(ends) / len(ends)
