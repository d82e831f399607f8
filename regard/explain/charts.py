"""Charts of scores: BLEU against sentence length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from regard.explain.colours import INK, LINE_STYLES, RULE
from regard.explain.sheet import HEIGHT, TEXT, TITLE, WIDTH, Sheet, points, style

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


def _middle(words: str) -> float:
    ends = [float(end) for end in words.split("–")]
    return sum(ends) / len(ends)
