"""A scene: one step of a computation with its rows of numbers, for pages and pictures.

A scene has a title, a formula, a sentence, and rows with a word, a vector, a number or a bar. The
page (`slides`) and the pictures (`strip`) draw the same scenes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[Any]
PER_LINE, LINES = 8, 12
"""The numbers of a vector in one line, and the lines of numbers in a scene."""
KEYS = {
    "q·k": "scores", "score": "scores", "/ √d_k": "scaled", "+ bias": "bias", "softmax": "weights",
    "× v": "weighted", "Σ": "sum", "heads": "joined", "× W_O": "out", "+ x": "added",
    "+ feed-forward": "feed_added", "norm 2": "norm2",
}  # fmt: skip
"""The name of a step in options and JSON, if it differs from its name in the list of steps."""


@dataclass(frozen=True, eq=False)
class SceneRow:
    """One line of a scene.

    Attributes:
        label: A word, or the name of a vector.
        values: A vector, drawn as cells.
        lead: Text before the vector, such as `0.31 ×`.
        number: Text after the vector, such as a score.
        bar: The length of a bar, from -1 to 1.
        role: `query` for the query word, `masked` for a masked word, `result` for the result of
            the step.
    """

    label: str
    values: Vector | None = None
    lead: str = ""
    number: str = ""
    bar: float | None = None
    role: str = ""


@dataclass(frozen=True, eq=False)
class Scene:
    """One step of the computation.

    Attributes:
        name: A short name for the list of steps.
        title: What happens in this step.
        formula: The formula of the paper.
        explanation: A sentence that explains the rows.
        rows: The rows.
        example: How one of the numbers is computed.
        omitted: A sentence about how many rows are left out.
    """

    name: str
    title: str
    formula: str
    explanation: str
    rows: Sequence[SceneRow]
    example: str = ""
    omitted: str = ""

    @property
    def key(self) -> str:
        """The name of the step in options, the same as its result has in the JSON."""
        return KEYS.get(self.name, self.name)

    @property
    def reach(self) -> float:
        """The largest absolute value of all vectors: the end of the colour scale."""
        sizes = [float(np.abs(row.values).max()) for row in self.rows if row.values is not None]
        return max(sizes, default=0.0) or 1.0

    @property
    def written(self) -> int:
        """How many numbers of each vector are written: all, or as many lines as fit."""
        sizes = [len(row.values) for row in self.rows if row.values is not None]
        if sum(-(-size // PER_LINE) for size in sizes) <= LINES:
            return max(sizes, default=0)
        return PER_LINE * max(1, LINES // len(self.rows))

    @property
    def cut(self) -> str:
        """A sentence about the numbers of long vectors that are not written."""
        longest = max((len(row.values) for row in self.rows if row.values is not None), default=0)
        if longest <= self.written:
            return ""
        return f"The first {self.written} of {longest} numbers; the file .json has all."

    @property
    def signed(self) -> bool:
        """Whether any bar is negative."""
        return any(row.bar is not None and row.bar < 0 for row in self.rows)


def written(value: float, digits: int = 2) -> str:
    """A number as text, with a typographic minus sign.

    Example:
        >>> written(-0.125, 2), written(1234.5), written(0.0)
        ('−0.12', '1234', '0.00')
    """
    if abs(value) >= 1000:
        digits = 0
    text = f"{value:.{digits}f}"
    return ("0." + "0" * digits if float(text) == 0 else text).replace("-", "−")


def bracketed(value: float, digits: int = 2) -> str:
    """A number as text, in brackets if it is negative."""
    text = written(value, digits)
    return f"({text})" if text.startswith("−") else text


def dot_product(left: Vector, right: Vector, total: float, digits: int = 2) -> str:
    """A dot product as text: `a·b + c·d + … = total`, with the first three products."""
    parts = [
        f"{written(a)}·{bracketed(b, digits)}" for a, b in zip(left[:3], right[:3], strict=True)
    ]
    ellipsis = " + …" if len(left) > 3 else ""
    return f"{' + '.join(parts)}{ellipsis} = {written(total)}"
