"""The evaluation report of a captioner: loss, BLEU-4, CIDEr-D, exact match of sets of images."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.tasks.measures.cider import bleu_4, cider_d
from regard.tasks.measures.report import Report


@dataclass(frozen=True)
class Scores:
    """The scores of a set of captions."""

    images: int
    bleu_4: float
    """From 0 to 100, as `pycocoevalcap` counts it."""
    cider_d: float
    """From 0 to 10, as `pycocoevalcap` counts it."""
    exact: float
    """Percentage of captions that equal a reference."""


def score_captions(
    captions: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False
) -> Scores:
    """BLEU-4, CIDEr-D and exact match of captions.

    Args:
        captions: The captions.
        references: For each, one reference or several.
        lowercase: Whether an exact match may differ in case.

    Example:
        >>> score_captions(["a red circle"], [["a blue circle", "a red circle"]]).exact
        100.0
    """
    fold = str.lower if lowercase else str
    pairs = zip(captions, references, strict=True)
    exact = sum(fold(caption) in map(fold, texts) for caption, texts in pairs)
    return Scores(
        images=len(captions),
        bleu_4=round(bleu_4(captions, references), 4),
        cider_d=round(cider_d(captions, references), 4),
        exact=round(100 * exact / max(1, len(captions)), 4),
    )


@dataclass(frozen=True, eq=False)
class CaptionScores:
    """The scores of a captioner on one set of images, with its captions."""

    name: str
    loss: float
    perplexity: float
    scores: Scores
    """BLEU-4, CIDEr-D and exact match of the captions."""
    captions: Sequence[str]
    references: Sequence[Sequence[str]]

    def to_json(self) -> dict[str, Any]:
        """All numbers; one line of `regard eval --json`."""
        losses = {"loss": self.loss, "perplexity": self.perplexity}
        scores = asdict(self.scores)
        return {"set": self.name, "images": scores.pop("images"), **losses, **scores}

    def line(self) -> str:
        """Formats the scores as a line of the table."""
        scores = self.scores
        return (
            f"{self.name:<24}{scores.images:>7}{self.loss:>8.3f}{self.perplexity:>9.3g}"
            f"{scores.bleu_4:>8.2f}{scores.cider_d:>9.3f}{scores.exact:>9.1f}"
        )

    def files(self) -> dict[str, str]:
        """The file to save: each caption with its references, as JSON."""
        pairs = zip(self.references, self.captions, strict=True)
        rows = [{"references": [*texts], "caption": caption} for texts, caption in pairs]
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        return {f"{Path(self.name).name}.jsonl": "\n".join(lines) + "\n"}


@dataclass(frozen=True, eq=False)
class CaptionReport(Report):
    """The scores of a captioner on one or more sets of images."""

    sets: tuple[CaptionScores, ...]

    def to_json(self) -> list[dict[str, Any]]:
        """One JSON object per set."""
        return [scores.to_json() for scores in self.sets]

    def table(self) -> str:
        """Formats the report as a text table."""
        head = f"{'set':<24}{'images':>7}{'loss':>8}{'ppl':>9}{'BLEU-4':>8}{'CIDEr-D':>9}"
        note = "BLEU-4 (0 to 100) and CIDEr-D (0 to 10) as pycocoevalcap computes them"
        lines = [f"{head}{'exact %':>9}", *(scores.line() for scores in self.sets)]
        return "\n".join([*lines, note])

    def files(self) -> dict[str, str]:
        """The scores as one JSON file; captions are saved when each set is done."""
        return self.score_file()
