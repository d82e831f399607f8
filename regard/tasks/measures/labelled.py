"""How well a classifier, tagger or answerer does on examples with labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.tasks.measures.accuracy import Measures
from regard.tasks.measures.report import Report
from regard.tasks.measures.unknown import Unknown


@dataclass(frozen=True)
class LabelledReport(Report):
    """All sets of labelled examples that were scored: how many each has, and how well it went."""

    sets: Mapping[str, tuple[int, Measures]]
    unknown: Mapping[str, Unknown]
    """How much of the texts of each the vocabulary cannot spell; of images there is none."""

    def check(self) -> None:
        """Refuses scores of a set of which more than half of the words are unknown."""
        for name, unknown in self.unknown.items():
            unknown.check(f"the words of {name}")

    def to_json(self) -> list[dict[str, Any]]:
        """One object a set."""
        return [
            {
                "set": name,
                "examples": count,
                **found.overall,
                **({"unknown": self.unknown[name].share} if name in self.unknown else {}),
                "by_label": found.by_label,
            }
            for name, (count, found) in self.sets.items()
        ]

    def table(self) -> str:
        """For people: a line a set, and below it one for each class or type."""
        lines = []
        for name, (count, found) in self.sets.items():
            lines.append(f"{name:<24}{count:>7}  {_numbers(found.overall)}")
            if name in self.unknown:
                lines.append(f"  {'unknown words':<29}  {self.unknown[name].share:.1%}")
            lines += [f"  {label:<29}  {_numbers(each)}" for label, each in found.by_label.items()]
        return "\n".join(lines)

    def files(self) -> dict[str, str]:
        """The numbers."""
        return self.whole()


def _numbers(scores: Mapping[str, float]) -> str:
    return "  ".join(
        f"{name} {value:.4f}" if name == "loss" else f"{name} {value:.4g}"
        for name, value in scores.items()
    )
