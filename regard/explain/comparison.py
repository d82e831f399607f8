"""The page of `regard compare`: curves, BLEU by length, a table, alignments side by side.

In: the models and their measurements (a `regard.runs.compare.Compared`), and a sentence. Out: the
picture and the page `compare.html`, and the table as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from regard.draw.colours import LINE_STYLES
from regard.draw.sheet import render
from regard.explain.drawing import Board, Drawing
from regard.explain.look import Look
from regard.explain.page import Looks, Picture, Prose, Section, Table, page
from regard.runtime.files import write_file
from regard.runtime.units import aligned, short
from regard.tasks.measures.translators import BIN, Result

SENTENCE = "The animal didn't cross the street because it was too tired."
COLUMNS = ("model", "parameters", "BLEU", "training", "target tokens/s", "sentences/s")


class ComparedModel(Protocol):
    """What is asked of a model: the words it looks at; a `Pipeline` has it."""

    @property
    def model(self) -> Any:
        """The model itself, whose `heads` are none without attention."""

    def look(self, text: Any, *, allow_unknown: bool = False) -> Look:
        """The attention weights while it translates a text."""


class ComparedModels(Protocol):
    """Models of one comparison, measured; a `regard.runs.compare.Compared`."""

    @property
    def folder(self) -> Path:
        """Where the page is written."""

    @property
    def results(self) -> Mapping[str, Result]:
        """The measurements of each model, by its name."""

    @property
    def pipelines(self) -> Mapping[str, ComparedModel]:
        """All models by name."""

    def translations(self, texts: Sequence[str]) -> dict[str, list[str]]:
        """The translations of the same texts by every model, by its name."""


def table_rows(compared: ComparedModels) -> list[tuple[str, ...]]:
    """The measurements of each model as cells under `COLUMNS`."""
    return [
        (
            name,
            short(result.parameters),
            f"{result.bleu:.1f}",
            f"{result.minutes:.1f} min",
            f"{result.targets_per_second:,.0f}",
            f"{result.sentences_per_second:,.1f}",
        )
        for name, result in compared.results.items()
    ]


def table(compared: ComparedModels) -> str:
    """The measurements as a text table, with BLEU for each group of sentence lengths."""
    groups = sorted(
        {longest for result in compared.results.values() for longest, _, _ in result.by_length}
    )
    head = (*COLUMNS, *(f"{longest - BIN + 1}–{longest} words" for longest in groups))
    rows = [head]
    for row, result in zip(table_rows(compared), compared.results.values(), strict=True):
        bleu = {longest: f"{value:.1f}" for longest, _, value in result.by_length}
        rows.append((*row, *(bleu.get(longest, "") for longest in groups)))
    return "\n".join(aligned(rows, right=True))


def draw(compared: ComparedModels) -> Drawing:
    """The learning curves and BLEU by sentence length, one line for each model."""
    styles = dict(zip(compared.results, LINE_STYLES, strict=False))
    title = "The same sentences and the same number of steps, by different models"
    caption = (
        "Left: the loss on unseen sentences while each model learns. Right: BLEU on unseen "
        "sentences, by their length in English words."
    )
    with Board(caption, (1, 1), title=title) as board:
        board.legend(styles)
        losses = board.chart(0, "Learning", "step", "validation loss")
        lengths = board.chart(1, "Long sentences", "words of the sentence, up to", "BLEU")
        for name, result in compared.results.items():
            style, marker = styles[name], styles[name].marker
            steps, loss = zip(*result.curve, strict=True)
            losses.curve(steps, loss, style=style, marker=marker, markersize=8)
            longest, _, bleu = zip(*result.by_length, strict=True)
            lengths.curve(longest, bleu, style=style, marker=marker, markersize=8)
        lengths.set_ylim(0, 102)
        numbers = {name: result.model_dump() for name, result in compared.results.items()}
        return board.drawing(**numbers)


def looks_at(
    pipelines: Mapping[str, ComparedModel], text: str
) -> tuple[list[tuple[str, Look]], list[str]]:
    """The look of each model that attends, with its name; and the names of the other models."""
    looks, without = [], []
    for name, pipeline in pipelines.items():
        if pipeline.model.heads():
            looks.append((name, pipeline.look(text, allow_unknown=True)))
        else:
            without.append(name)
    return looks, without


def write_page(compared: ComparedModels, texts: Sequence[str] = ()) -> Path:
    """Writes `compare.html` and `compare.png` into the comparison's folder; returns the page.

    Args:
        compared: The comparison, with all measurements.
        texts: Sentences that every model translates; the alignments are those of the first.
    """
    texts = list(texts) or [SENTENCE]
    translations, drawing = compared.translations(texts), draw(compared)
    looks, without = looks_at(compared.pipelines, texts[0])
    sections: list[Section] = [
        Picture(render(drawing.figure, ".svg").decode(), alt=drawing.caption),
        Table(COLUMNS, table_rows(compared), "Measured in the same way, on this machine."),
    ]
    for index, text in enumerate(texts):
        rows = [(name, outputs[index]) for name, outputs in translations.items()]
        sections.append(Table(("model", "translation"), rows, text))
    if looks:
        sections.append(Prose(_explanation(without), "Where each model looks while it writes"))
        sections.append(Looks(looks))
    drawing.save(compared.folder / "compare.png")
    path = compared.folder / "compare.html"
    return write_file(path, page("Translators side by side", sections).encode())


def _explanation(names: Sequence[str]) -> str:
    if not names:
        return "Each row is a word that is written, each column a word of the sentence."
    verb = "has" if len(names) == 1 else "have"
    return f"{' and '.join(names)} {verb} no attention: nothing to show."
