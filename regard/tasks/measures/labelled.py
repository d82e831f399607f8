"""The evaluation report of a classifier, tagger or question-answering model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.tasks.measures.accuracy import Confusion, Measures
from regard.tasks.measures.report import Report
from regard.tasks.measures.unknown import Unknown


@dataclass(frozen=True)
class LabelledReport(Report):
    """The scores of a model on one or more sets of labelled examples."""

    sets: Mapping[str, tuple[int, Measures]]
    """By name, the number of examples of a set, and their scores."""
    unknown: Mapping[str, Unknown]
    """By name, the unknown words of a set of texts; a set of images has no entry."""

    def check(self) -> None:
        """Raises an error if more than half of the words of a set are unknown."""
        for name, unknown in self.unknown.items():
            unknown.check(f"the words of {name}")

    def to_json(self) -> list[dict[str, Any]]:
        """One JSON object per set."""
        return [
            {
                "set": name,
                "examples": count,
                **measures.overall,
                **({"unknown": self.unknown[name].share} if name in self.unknown else {}),
                "by_label": measures.by_label,
            }
            for name, (count, measures) in self.sets.items()
        ]

    def table(self) -> str:
        """Formats a line per set, followed by a line for each class or type of entity."""
        lines = []
        for name, (count, measures) in self.sets.items():
            lines.append(f"{name:<24}{count:>7}  {_format(measures.overall)}")
            if name in self.unknown:
                lines.append(f"  {'unknown words':<29}  {self.unknown[name].share:.1%}")
            lines += [f"  {label:<29}  {_format(row)}" for label, row in measures.by_label.items()]
        return "\n".join(lines)

    def files(self) -> dict[str, str]:
        """The scores as one JSON file, and the confusion matrices as another."""
        matrices = {name: matrix.to_json() for name, matrix in self.confusions().items()}
        text = json.dumps(matrices, ensure_ascii=False)
        return self.score_file() | ({"confusion.json": text} if matrices else {})

    def confusions(self) -> Mapping[str, Confusion]:
        """How often each class was taken for each, by set."""
        return {
            name: measures.confusion
            for name, (_, measures) in self.sets.items()
            if measures.confusion is not None
        }


def _format(scores: Mapping[str, float]) -> str:
    """Names and values of scores on one line."""
    return "  ".join(
        f"{name} {value:.4f}" if name == "loss" else f"{name} {value:.4g}"
        for name, value in scores.items()
    )
