"""The evaluation report of a captioner: loss, exact match and BLEU of each set of images."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.tasks.measures.bleu import Scores
from regard.tasks.measures.report import Report


@dataclass(frozen=True, eq=False)
class CaptionScores:
    """The scores of a captioner on one set of images, with its captions."""

    name: str
    loss: float
    perplexity: float
    scores: Scores
    """BLEU, chrF and exact match of the captions."""
    captions: Sequence[str]
    references: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """All numbers; one line of `regard eval --json`."""
        losses = {"loss": self.loss, "perplexity": self.perplexity}
        scores = asdict(self.scores)
        return {"set": self.name, "images": scores.pop("sentences"), **losses, **scores}

    def line(self) -> str:
        """Formats the scores as a line of the table."""
        scores = self.scores
        return (
            f"{self.name:<24}{scores.sentences:>7}{self.loss:>8.3f}{self.perplexity:>9.3g}"
            f"{scores.bleu:>8.2f}{scores.chrf:>8.2f}{scores.exact:>9.1f}"
        )

    def files(self) -> dict[str, str]:
        """The file to save: each caption with its reference, as JSON."""
        pairs = zip(self.references, self.captions, strict=True)
        rows = [{"reference": reference, "caption": caption} for reference, caption in pairs]
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
        head = f"{'set':<24}{'images':>7}{'loss':>8}{'ppl':>9}{'BLEU':>8}{'chrF':>8}{'exact %':>9}"
        scores = self.sets[0].scores
        signatures = [f"BLEU  {scores.bleu_signature}", f"chrF  {scores.chrf_signature}"]
        return "\n".join([head, *(scores.line() for scores in self.sets), *signatures])

    def files(self) -> dict[str, str]:
        """The scores as one JSON file; captions are saved when each set is done."""
        return self.score_file()
