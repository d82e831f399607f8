"""What a task is: (data, model) -> loss, metric, prediction."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from torch import Tensor

from regard.data.batch import Cursor

SHOWN = 40
"""Characters by which a long text is named."""
_logger = logging.getLogger(__name__)


class Task(Protocol):
    """What the trainer needs of a task."""

    def batches(self, start: Cursor) -> Iterator[tuple[Any, Cursor]]:
        """Training micro-batches without end from a place on, each with the place after it."""
        ...

    def targets(self, batch: Any) -> int:
        """How many targets a micro-batch has: what the sums of losses of a step are divided by."""
        ...

    def split(self, batch: Any, parts: int) -> Sequence[Any]:
        """A micro-batch in at most so many parts of like size, whose losses add up to its own."""
        ...

    def loss(self, model: Any, batch: Any) -> Tensor:
        """The training loss of one micro-batch, a sum over its targets."""
        ...

    def evaluate(self, model: Any) -> dict[str, float]:
        """Measures on the validation split; `loss` is the one that chooses."""
        ...

    def name(self, batch: Any) -> str:
        """Which examples a micro-batch holds, for the log of a bad one."""
        ...


def per_token(total: float, count: int) -> dict[str, float]:
    """The mean of a loss that was summed over `count` tokens, and its exponential.

    Example:
        >>> per_token(0.0, 5)
        {'loss': 0.0, 'perplexity': 1.0}
    """
    mean = total / max(1, count)
    return {"loss": mean, "perplexity": math.exp(min(mean, 700.0))}


def warn_cut(texts: Sequence[Any], left_out: Sequence[int], longest: int) -> None:
    """Says in a line which texts are longer than a model reads, and how much of them is left out.

    Args:
        texts: Texts, or pairs of them.
        left_out: The tokens of each that are left out.
        longest: The most tokens the model reads.
    """
    cut = [place for place, count in enumerate(left_out) if count]
    if not cut:
        return
    first, several = cut[0], len(texts) > 1
    text = texts[first] if isinstance(texts[first], str) else " ".join(texts[first])
    name = repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
    _logger.warning(
        "warning: %s%s is cut: its last %d tokens are left out, the model reads %d at once%s",
        f"text {first + 1}, " if several else "",
        name,
        left_out[first],
        longest,
        f"; so are parts of {len(cut) - 1} more" if len(cut) > 1 else "",
    )


def listed(what: str, index: Sequence[int]) -> str:
    """The first of the examples that a batch holds, by name, for the log of a bad one.

    Example:
        >>> listed("pairs", range(20))
        'pairs 0, 1, 2, 3, 4, 5, 6, 7, …'
    """
    shown = ", ".join(map(str, index[:8]))
    return f"{what} {shown}{', …' if len(index) > 8 else ''}"
