"""Sets of pairs -> reports: what `regard eval`, `heads` and `ls` print and write."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data import grammar
from regard.data.annotations import text_of
from regard.data.config import (
    FileData,
    Files,
    GrammarData,
    LabelledData,
    MixtureData,
    ToyData,
)
from regard.data.labelled import load_labelled, read_labelled
from regard.data.pair import Pair
from regard.data.sources import load_splits
from regard.data.text import load_pairs, read_pairs
from regard.errors import InputError
from regard.explain.heads import HeadSummary
from regard.files import write_file
from regard.loading import shipped
from regard.pipeline import Evaluation, Pipeline
from regard.recipe import Recipe
from regard.tasks.accuracy import Measures
from regard.tasks.metrics import by_length, score
from regard.tasks.unknown import Unknown
from regard.train import checkpoint
from regard.train.folder import CONFIG
from regard.weights.folder import read_json

Row = tuple[str, int, float, float]
"""Name, sentences, BLEU, exact match."""
FEW = 50
"""Pairs among which a source to try is looked for."""


@dataclass(frozen=True, eq=False)
class SetReport:
    """One set of pairs: its scores, by phenomenon and by length."""

    name: str
    evaluation: Evaluation
    phenomena: tuple[Row, ...]
    lengths: tuple[tuple[str, int, float], ...]
    pronouns: float | None
    """Percentage of pronouns that are right, where the data has such."""

    def to_json(self) -> dict[str, Any]:
        """All numbers; one line of `regard eval --json`."""
        return {
            "set": self.name,
            **self.evaluation.to_json(),
            "pronouns": self.pronouns,
            "phenomena": [
                {"name": n, "sentences": c, "bleu": b, "exact": e} for n, c, b, e in self.phenomena
            ],
            "by_length": [{"words": w, "sentences": c, "bleu": b} for w, c, b in self.lengths],
        }


@dataclass(frozen=True, eq=False)
class Report:
    """All sets that were scored."""

    sets: tuple[SetReport, ...]

    def check(self) -> None:
        """Refuses scores of texts that the model cannot read; see `Evaluation.check`."""
        for each in self.sets:
            each.evaluation.check()

    def to_json(self) -> list[dict[str, Any]]:
        """One object a set."""
        return [each.to_json() for each in self.sets]

    def table(self) -> str:
        """For people."""
        lines = [
            f"{'set':<24}{'pairs':>7}{'loss':>8}{'ppl':>9}{'BLEU':>8}{'chrF':>8}{'exact %':>9}"
        ]
        for each in self.sets:
            found, scores = each.evaluation, each.evaluation.scores
            lines.append(
                f"{each.name:<24}{scores.sentences:>7}{found.loss:>8.3f}{found.perplexity:>9.3g}"
                f"{scores.bleu:>8.2f}{scores.chrf:>8.2f}{scores.exact:>9.1f}"
            )
            if each.pronouns is not None:
                lines.append(f"  {'pronouns right':<22}{'':>7}{'':>33}{each.pronouns:>9.1f}")
            lines.append(
                f"  {'unknown words':<22}  {found.unknown_source.share:.1%} of the sources, "
                f"{found.unknown_target.share:.1%} of the targets"
            )
            for name, count, bleu, exact in each.phenomena:
                lines.append(f"  {name:<22}{count:>7}{'':>17}{bleu:>8.2f}{'':>8}{exact:>9.1f}")
        scores = self.sets[0].evaluation.scores
        return "\n".join(
            [*lines, f"BLEU  {scores.bleu_signature}", f"chrF  {scores.chrf_signature}"]
        )


def split_files(names: Sequence[str]) -> Files:
    """One file, or two: `["x.tsv"]`, `["x.en,x.de"]` or `["x.en", "x.de"]`."""
    parts = [part.strip() for name in names for part in name.strip("[]").split(",")]
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2:
        return parts[0], parts[1]
    raise InputError("data", got=f"{len(parts)} files", expected="one file, or source and target")


def pairs_of(recipe: Recipe, split: str) -> tuple[Pair, ...]:
    """One split of a recipe's data."""
    splits = load_splits(recipe.data).splits
    known = {"train": splits.train, "valid": splits.valid, **splits.tests}
    if split not in known:
        raise InputError("--split", got=split, expected=f"one of {', '.join(known)}")
    return known[split]


def pairs_to_score(
    pipeline: Pipeline, split: str | None, files: str | None
) -> dict[str, tuple[Pair, ...]]:
    """The pairs that were asked for: files, a split, or by default the tests (else validation)."""
    if files is not None and split is not None:
        raise InputError("--data with --split", expected="one of the two")
    pipeline.translator()  # pairs say nothing of other models
    if files is not None:
        pairs, _ = load_pairs(split_files([files]), max_words=10_000, on_bad="stop")
        return {files: tuple(pairs)}
    if split is not None:
        return {split: pairs_of(pipeline.recipe, split)}
    splits = load_splits(pipeline.recipe.data).splits
    return splits.tests or {"valid": splits.valid}


def evaluate_sets(
    pipeline: Pipeline,
    sets: Mapping[str, Sequence[Pair]],
    out: Path | None,
    *,
    lowercase: bool = False,
    tell: Callable[[float, str], None] | None = None,
    **decode: Any,
) -> Report:
    """Scores each set; writes hypotheses, numbers and a picture if there is a folder for them.

    Args:
        pipeline: What is scored.
        sets: Pairs by name.
        out: The folder.
        lowercase: Score without regard to case.
        tell: Told which share of the work is done, and what of it.
        **decode: What differs from the recipe's `decode`.
    """
    reports, done, whole = [], 0, sum(map(len, sets.values()))

    def told(name: str, count: int) -> None:
        nonlocal done
        done += count
        if tell is not None:
            tell(done / max(1, whole), name)

    for name, pairs in sets.items():
        evaluation = pipeline.evaluate(
            pairs, lowercase=lowercase, allow_unknown=True, tell=partial(told, name), **decode
        )
        reports.append(_report(name, pairs, evaluation, lowercase=lowercase))
        if out is not None:
            _write_set(out, name, pairs, evaluation)
    report = Report(tuple(reports))
    if out is not None:
        text = json.dumps(report.to_json(), ensure_ascii=False, indent=1)
        write_file(out / "scores.json", text.encode())
        _draw_lengths(report, pipeline.name, out / "bleu-by-length.png")
    return report


@dataclass(frozen=True)
class LabelledReport:
    """All sets of labelled examples that were scored: how many each has, and how well it went."""

    sets: Mapping[str, tuple[int, Measures]]
    unknown: Mapping[str, Unknown]
    """How much of the texts of each the vocabulary cannot spell."""

    def check(self) -> None:
        """Refuses scores of texts that the model cannot read.

        Raises:
            FoundProblems: More than half of the words of a set are unknown.
        """
        for name, unknown in self.unknown.items():
            unknown.check(f"the words of {name}")

    def to_json(self) -> list[dict[str, Any]]:
        """One object a set."""
        return [
            {
                "set": name,
                "examples": count,
                **found.overall,
                "unknown": self.unknown[name].share,
                "by_label": found.by_label,
            }
            for name, (count, found) in self.sets.items()
        ]

    def table(self) -> str:
        """For people: a line a set, and below it one for each class or type."""
        lines = []
        for name, (count, found) in self.sets.items():
            lines.append(f"{name:<24}{count:>7}  {_numbers(found.overall)}")
            lines.append(f"  {'unknown words':<29}  {self.unknown[name].share:.1%}")
            lines += [f"  {label:<29}  {_numbers(each)}" for label, each in found.by_label.items()]
        return "\n".join(lines)


def _numbers(scores: Mapping[str, float]) -> str:
    return "  ".join(
        f"{name} {value:.4f}" if name == "loss" else f"{name} {value:.4g}"
        for name, value in scores.items()
    )


def evaluate_labelled(
    pipeline: Pipeline, split: str | None, file: str | None, out: Path | None
) -> LabelledReport:
    """Scores a classifier, tagger or answerer.

    Args:
        pipeline: What is scored.
        split: Of the run's data; by default its test, else its validation examples.
        file: Other examples instead.
        out: A folder for the numbers.
    """
    sets = labelled_sets(pipeline, split, file)
    report = LabelledReport(
        {name: (len(examples), pipeline.measure(examples)) for name, examples in sets.items()},
        {
            name: Unknown.of(pipeline.vocabulary.source, map(text_of, examples))
            for name, examples in sets.items()
        },
    )
    if out is not None:
        text = json.dumps(report.to_json(), ensure_ascii=False, indent=1)
        write_file(out / "scores.json", text.encode())
    return report


def labelled_sets(
    pipeline: Pipeline, split: str | None, file: str | None, verb: str = "eval"
) -> dict[str, Sequence[Any]]:
    """The examples that were asked for: of a file, a split, or by default its tests, else valid."""
    if file is not None and split is not None:
        raise InputError("--data with --split", expected="one of the two")
    data, task = pipeline.recipe.data, pipeline.recipe.task
    sets: dict[str, Sequence[Any]]
    if file is not None:
        header = isinstance(data, LabelledData) and data.header
        sets = {file: read_labelled(file, task, header=header)[0]}
    elif isinstance(data, LabelledData):
        splits = load_labelled(data, task)
        known = {"train": splits.train, "valid": splits.valid, **splits.tests}
        if split is not None and split not in known:
            raise InputError("--split", got=split, expected=f"one of {', '.join(known)}")
        usual = [*splits.tests] or ["valid"]
        sets = {name: known[name] for name in ([split] if split else usual)}
    else:
        raise InputError(verb, got=f"{pipeline.name} without data", expected="--data FILE")
    return sets


def _report(
    name: str, pairs: Sequence[Pair], evaluation: Evaluation, *, lowercase: bool
) -> SetReport:
    hypotheses = evaluation.hypotheses
    rows = []
    for tag in sorted({tag for pair in pairs for tag in pair.tags}):
        chosen = [i for i, pair in enumerate(pairs) if tag in pair.tags]
        texts = [hypotheses[i] for i in chosen]
        scores = score(texts, [pairs[i].target for i in chosen], lowercase=lowercase)
        rows.append((tag, len(chosen), scores.bleu, scores.exact))
    lengths = by_length(
        [pair.source for pair in pairs],
        hypotheses,
        [pair.target for pair in pairs],
        lowercase=lowercase,
    )
    return SetReport(name, evaluation, tuple(rows), tuple(lengths), pronouns(pairs, hypotheses))


def pronouns(pairs: Sequence[Pair], hypotheses: Sequence[str]) -> float | None:
    """Percentage of the pairs with a pronoun whose pronoun is right; None where there is none."""
    right = [
        grammar.pronoun_is_right(pair, hypothesis)
        for pair, hypothesis in zip(pairs, hypotheses, strict=True)
        if "pronoun" in pair.tags
    ]
    return 100 * sum(right) / len(right) if right else None


def _write_set(out: Path, name: str, pairs: Sequence[Pair], evaluation: Evaluation) -> None:
    stem = Path(name.split(",")[0]).name
    hypotheses = "\n".join(evaluation.hypotheses) + "\n"
    write_file(out / f"{stem}.hypotheses.txt", hypotheses.encode())
    lines = [
        json.dumps(
            {"source": pair.source, "reference": pair.target, "hypothesis": hypothesis},
            ensure_ascii=False,
        )
        for pair, hypothesis in zip(pairs, evaluation.hypotheses, strict=True)
    ]
    write_file(out / f"{stem}.jsonl", ("\n".join(lines) + "\n").encode())


def _draw_lengths(report: Report, model: str, path: Path) -> None:
    """BLEU against sentence length, one line a set, 1280 by 720 pixels."""
    from regard.explain.charts import length_chart
    from regard.explain.sheet import render

    curves = {each.name: each.lengths for each in report.sets}
    write_file(path, render(length_chart(curves, model), ".png"))


UNITS = {"classify": "text", "tag": "word", "answer": "end of an answer", "fill": "hidden token"}
"""What a model says something of, where it is not a token."""
LEGEND = """\
previous, first  mean weight on the token before, and on the first token
positional, at   the most weight on any one distance, and which it is (key - query)
entropy          how spread out the weights are, in nats: 0 for a single token"""


def heads_table(heads: Sequence[HeadSummary], pairs: int, task: str = "translate") -> str:
    """One line a head, the one that matters most first; below, what the columns say."""
    lines = [
        f"{'head':<22}{'effect':>8}{'previous':>10}{'first':>8}{'positional':>12}{'at':>5}{'entropy':>9}"
    ]
    lines += [
        f"{each.head:<22}{each.effect:>8.3f}{each.previous:>10.2f}{each.first:>8.2f}"
        f"{each.positional:>12.2f}{each.offset:>5}{each.entropy:>9.2f}"
        for each in sorted(heads, key=lambda head: -head.effect)
    ]
    said = f"rise of the loss without the head, in nats per {UNITS.get(task, 'token')}"
    if task == "embed":
        said = "how far the vector of a text moves without the head: 1 - cosine"
    lines += [f"over {pairs} texts", f"{'effect':<17}{said}", LEGEND]
    return "\n".join(lines)


TRIES = {
    "generate": 'generate {} "The"',
    "fill": 'fill {} "The [MASK] is open."',
    "restore": 'restore {} "The ___ is open."',
    "classify": 'classify {} "A joy from start to end."',
    "tag": 'tag {} "Anna lives in Rome."',
    "answer": 'answer {} "Where does Anna live?" --context "Anna lives in Rome."',
}
"""A command to try after a training, for models that read any text."""


def first_try(pipeline: Pipeline, run: str) -> str:
    """Commands that work on a new run as they stand."""
    place, task = shlex.quote(run), pipeline.recipe.task
    asked = TRIES[task].format(place) if task in TRIES else f"translate {place} {_known(pipeline)}"
    return f"regard {asked}   regard eval {place}"


def _known(pipeline: Pipeline) -> str:
    """A short source of the training data, of words that the model knows, as a shell reads it."""
    data = pipeline.recipe.data
    few: Iterable[Pair] = ()
    if isinstance(data, GrammarData | ToyData):
        few = load_splits(data.model_copy(update={"pairs": FEW, "held_out": FEW})).splits.train
    elif isinstance(data, FileData | MixtureData):
        part = data if isinstance(data, FileData) else next(iter(data.parts.values()))
        prefix = "" if isinstance(part, FileData) else part.prefix
        rows = islice(read_pairs(part.train, data.max_words), FEW)
        few = [Pair(prefix + row.source, row.target) for row in rows if isinstance(row, Pair)]
    # about six words: a sentence, and short
    sources = sorted((pair.source for pair in few), key=lambda text: abs(len(text.split()) - 6))
    unknown = pipeline.vocabulary.source.unknown_words
    known = next((text for text in sources if not unknown(text)), None)
    return shlex.quote(known) if known else f"{shlex.quote(sources[0])} --allow-unknown"


def runs_table(found: Sequence[Mapping[str, Any]]) -> str:
    """For people: a line an entry, under headings; "-" where there is nothing to say."""
    keys = ("name", "kind", "step", "best_loss")
    rows = [["name", "kind", "last step", "best loss"]]
    rows += [["-" if each.get(key) is None else str(each[key]) for key in keys] for each in found]
    for row, each in zip(rows[1:], found, strict=True):
        row[1] += f" ({each['model']})" if "model" in each else ""
    widths = [max(len(row[place]) for row in rows) for place in range(len(keys))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def runs_in(folder: Path) -> Iterator[dict[str, Any]]:
    """Shipped models, and below a folder its runs, checkpoints and Hugging Face folders."""
    if not folder.is_dir():
        raise InputError(f"ls {folder}", got="no such folder", expected="a folder with runs in it")
    for name in shipped():
        yield {"name": name, "kind": "shipped"}
    runs: set[Path] = set()
    for place in sorted([folder, *folder.glob("*"), *folder.glob("*/*")]):
        if runs & set(place.parents):  # its checkpoints
            continue
        if (place / "checkpoints").is_dir():
            runs.add(place)
            yield {"name": str(place), "kind": "run", **checkpoint.summary(place)}
        elif (place / CONFIG).is_file():
            yield from _model_in(place)


def _model_in(place: Path) -> Iterator[dict[str, Any]]:
    """What a folder with a `config.json` is, if it is a model's."""
    try:
        said = read_json(place / CONFIG)
    except InputError:
        return
    if "regard" in said:
        yield {"name": str(place), "kind": "checkpoint", "model": said.get("family")}
    elif isinstance(said.get("model_type"), str):
        yield {"name": str(place), "kind": "Hugging Face", "model": said["model_type"]}
