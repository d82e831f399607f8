"""The evaluation report of a translation model: scores per set, per phenomenon and by length."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.data.text.pairs import Pair
from regard.tasks.measures.bleu import Scores, by_length, score_translations
from regard.tasks.measures.report import Curve, Report
from regard.tasks.measures.unknown import Unknown

PhenomenonScore = tuple[str, int, float, float]
"""The name of a phenomenon, its number of sentences, BLEU, and exact match in percent."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The scores and translations of a model on one set of pairs."""

    loss: float
    perplexity: float
    scores: Scores
    hypotheses: tuple[str, ...]
    unknown_source: Unknown
    """The unknown words of the sources."""
    unknown_target: Unknown
    """The unknown words of the targets."""
    lowercase: bool = False
    """Whether translations were scored without regard to case."""

    def to_json(self) -> dict[str, Any]:
        """The scores as JSON values, without the translations."""
        losses = {"loss": self.loss, "perplexity": self.perplexity}
        sides = {"source": self.unknown_source.share, "target": self.unknown_target.share}
        return {**losses, **asdict(self.scores), "unknown": sides}

    def check(self) -> None:
        """Raises an error if the scores are meaningless, because the model cannot read the texts.

        Raises:
            FoundProblems: More than half of the words of one side are unknown.
        """
        self.unknown_source.check("the words of the sources")
        if not self.lowercase:  # without regard to case, a word may be unknown only in its case
            self.unknown_target.check("the words of the targets")


@dataclass(frozen=True, eq=False)
class SetReport:
    """The scores of one set of pairs: overall, by phenomenon and by length."""

    name: str
    pairs: Sequence[Pair]
    evaluation: Evaluation
    rouge: Mapping[str, float] | None = None
    """ROUGE-1, -2 and -L, for the task `rewrite`."""

    @cached_property
    def phenomena(self) -> list[PhenomenonScore]:
        """The scores of the pairs with each tag."""
        pairs, rows = self.pairs, []
        for tag in sorted({tag for pair in pairs for tag in pair.tags}):
            indices = [i for i, pair in enumerate(pairs) if tag in pair.tags]
            texts = [self.evaluation.hypotheses[i] for i in indices]
            references = [pairs[i].references for i in indices]
            scores = score_translations(texts, references, lowercase=self.evaluation.lowercase)
            rows.append((tag, len(indices), scores.bleu, scores.exact))
        return rows

    @cached_property
    def lengths(self) -> Curve:
        """BLEU by the length of the source."""
        sources = [pair.source for pair in self.pairs]
        references = [pair.references for pair in self.pairs]
        hypotheses, lowercase = self.evaluation.hypotheses, self.evaluation.lowercase
        return by_length(sources, hypotheses, references, lowercase=lowercase)

    @cached_property
    def pronouns(self) -> float | None:
        """Percentage of right pronouns; None if the data has no pairs tagged `pronoun`."""
        return pronoun_accuracy(self.pairs, self.evaluation.hypotheses)

    def to_json(self) -> dict[str, Any]:
        """All numbers; one line of `regard eval --json`."""
        return {
            "set": self.name,
            **self.evaluation.to_json(),
            "pronouns": self.pronouns,
            **({} if self.rouge is None else {"rouge": dict(self.rouge)}),
            "phenomena": [
                {"name": n, "sentences": c, "bleu": b, "exact": e} for n, c, b, e in self.phenomena
            ],
            "by_length": [{"words": w, "sentences": c, "bleu": b} for w, c, b in self.lengths],
        }

    def files(self) -> dict[str, str]:
        """The files to save: the translations alone, and with sources and references as JSON."""
        stem, hypotheses = Path(self.name.split(",")[0]).name, self.evaluation.hypotheses
        lines = [
            json.dumps(
                {"source": pair.source, "reference": pair.target}
                | ({"references": pair.references} if pair.others else {})
                | {"hypothesis": hypothesis},
                ensure_ascii=False,
            )
            for pair, hypothesis in zip(self.pairs, hypotheses, strict=True)
        ]
        return {
            f"{stem}.hypotheses.txt": "\n".join(hypotheses) + "\n",
            f"{stem}.jsonl": "\n".join(lines) + "\n",
        }

    def lines(self) -> list[str]:
        """Formats the scores as lines of text, followed by those of parts of the set."""
        result, scores = self.evaluation, self.evaluation.scores
        lines = [
            f"{self.name:<24}{scores.sentences:>7}{result.loss:>8.3f}{result.perplexity:>9.3g}"
            f"{scores.bleu:>8.2f}{scores.chrf:>8.2f}{scores.exact:>9.1f}"
        ]
        if self.pronouns is not None:
            lines.append(f"  {'pronouns right':<22}{'':>7}{'':>33}{self.pronouns:>9.1f}")
        if self.rouge is not None:
            rouge = "".join(f"{value:>9.1f}" for value in self.rouge.values())
            lines.append(f"  {'ROUGE-1, -2, -L':<22}{'':>7}{'':>15}{rouge}")
        lines.append(
            f"  {'unknown words':<22}  {result.unknown_source.share:.1%} of the sources, "
            f"{result.unknown_target.share:.1%} of the targets"
        )
        for name, count, bleu, exact in self.phenomena:
            lines.append(f"  {name:<22}{count:>7}{'':>17}{bleu:>8.2f}{'':>8}{exact:>9.1f}")
        return lines


@dataclass(frozen=True, eq=False)
class TranslationReport(Report):
    """The scores of a translation model on one or more sets of pairs."""

    sets: tuple[SetReport, ...]

    def check(self) -> None:
        """Raises an error if more than half of the words are unknown; see `Evaluation.check`."""
        for report in self.sets:
            report.evaluation.check()

    def to_json(self) -> list[dict[str, Any]]:
        """One JSON object per set."""
        return [report.to_json() for report in self.sets]

    def table(self) -> str:
        """Formats the report as a text table."""
        head = f"{'set':<24}{'pairs':>7}{'loss':>8}{'ppl':>9}{'BLEU':>8}{'chrF':>8}{'exact %':>9}"
        lines = [line for report in self.sets for line in report.lines()]
        scores = self.sets[0].evaluation.scores
        return "\n".join(
            [head, *lines, f"BLEU  {scores.bleu_signature}", f"chrF  {scores.chrf_signature}"]
        )

    def files(self) -> dict[str, str]:
        """The scores as one JSON file; translations are saved when each set is done."""
        return self.score_file()

    def curves(self) -> Mapping[str, Curve]:
        """BLEU by source length, for each set."""
        return {report.name: report.lengths for report in self.sets}


def pronoun_accuracy(pairs: Sequence[Pair], hypotheses: Sequence[str]) -> float | None:
    """Percentage of pairs tagged `pronoun` with the right pronoun; None without such pairs."""
    from regard.data.synthetic.grammar import corpus as grammar

    right = [
        grammar.pronoun_is_right(pair, hypothesis)
        for pair, hypothesis in zip(pairs, hypotheses, strict=True)
        if "pronoun" in pair.tags
    ]
    return 100 * sum(right) / len(right) if right else None
