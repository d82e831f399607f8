"""How well a model of plain text does on text that it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from regard.data.config import PythonData, TextData
from regard.data.corpus import Corpus, encode
from regard.data.documents import TextFiles, find_files
from regard.data.packing import Packed, Rows
from regard.errors import InputError
from regard.materials import cache_folder, gather
from regard.pipeline import Pipeline
from regard.recipe import Recipe
from regard.tasks.fill import Holes
from regard.tasks.generate import Generate, WordAccuracy, opens, word_accuracy
from regard.tasks.restore import Restore, SpanAccuracy
from regard.tasks.unknown import Unknown
from regard.tokens import only_foreign

Tell = Callable[[float, str], None]
"""Told which share of some work is done, and what of it."""

LONGEST = 100
"""Documents of which words are asked."""
SUGGESTED = 300
"""Next words that are asked for, if they are."""
SPANNED = 100
"""Texts that are restored, at most."""
PASSAGE = 64
"""Tokens of a piece of text that heads are looked at on."""


@dataclass(frozen=True)
class TextReport:
    """What `regard eval` says of a model of plain text."""

    name: str
    tokens: int
    loss: float
    perplexity: float
    words: WordAccuracy | None = None
    """Of a model that writes on."""
    spans: SpanAccuracy | None = None
    """Of a model that says what is missing."""
    masked: float | None = None
    """Of a model that fills masks: the share of hidden tokens that it finds, in per cent."""
    unknown: float | None = None
    """The share of the tokens that stand for what the vocabulary cannot spell; None: it spells
    everything."""

    def to_json(self) -> dict[str, Any]:
        """All numbers; one line of `regard eval --json`."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def table(self) -> str:
        """For people."""
        return "\n".join([self.headline(), *self.details()])

    def check(self) -> None:
        """Refuses scores of a text that the model cannot read.

        Raises:
            FoundProblems: More than half of its tokens are unknown.
        """
        Unknown(self.unknown or 0.0).check(self.name)

    def headline(self) -> str:
        """What is known first."""
        return (
            f"{self.name}: {self.tokens:,} tokens, loss {self.loss:.3f}, perplexity "
            f"{self.perplexity:.4g}"
        )

    def details(self) -> list[str]:
        """What else there is, a line each."""
        lines = []
        if self.unknown is not None:
            lines.append(f"unknown tokens: {self.unknown:.1%}")
        if (words := self.words) is not None:
            lines.append(
                f"next word among {words.top} suggested: {words.right:.1f}%, "
                f"the first: {words.first:.1f}% (of {words.words} words)"
            )
        if (spans := self.spans) is not None:
            lines.append(
                f"spans restored exactly: {spans.exact:.1f}% "
                f"(of {spans.spans} in {spans.texts} texts)"
            )
        if self.masked is not None:
            lines.append(f"hidden tokens found: {self.masked:.1f}%")
        return lines


def evaluate_text(
    pipeline: Pipeline,
    files: str | None = None,
    *,
    words: int = 0,
    tell: Tell | None = None,
    first: Callable[[TextReport], None] | None = None,
) -> TextReport:
    """Loss, perplexity, and how often a span, a hidden token or, if asked, the next word is found.

    Args:
        pipeline: A model that writes on, says what is missing, or fills masks.
        files: Text files, folders or patterns, with commas between; without them the text that its
            own recipe held out.
        words: How many next words to ask a model for that writes on: each takes as long as
            hundreds of tokens do.
        tell: Told which share of the work is done, and what of it.
        first: Told of loss and perplexity as soon as they are known.
    """
    say: Tell = tell or (lambda *_: None)
    say(0.0, "reading the text")
    found = (_filled if pipeline.recipe.task == "fill" else _written)(pipeline, files, words, say)
    report = next(found)
    if first is not None:
        first(report)
    return [report, *found][-1]


def _written(pipeline: Pipeline, files: str | None, words: int, tell: Tell) -> Iterator[TextReport]:
    """Of a model that writes on or says what is missing: the loss, then all of it."""
    task, model = pipeline.task, pipeline.model
    if not isinstance(task, Generate | Restore):
        raise InputError(pipeline.name, got=pipeline.recipe.task, expected="a model of plain text")
    rows = _rows(pipeline, files) if files else _held_out(pipeline)
    corpus = rows.corpus
    if isinstance(task, Restore):
        task = Restore(pipeline.vocabulary, seed=pipeline.recipe.seed)  # the spans of its training
    found = task.evaluate(model, rows, _counted(tell, corpus.tokens, "loss"))
    report = _report(pipeline, files, corpus, found)
    yield report
    if isinstance(task, Restore):
        asked = _counted(tell, SPANNED, "spans")
        spans = task.accuracy(model, pipeline.recipe.decode, rows, texts=SPANNED, tell=asked)
        yield replace(report, spans=spans)
    elif words:
        step = max(1, len(corpus) // LONGEST)
        texts = [
            task.tokenizer.decode(corpus.document(i).tolist()) for i in range(0, len(corpus), step)
        ]
        asked = _counted(tell, words, "next words")
        yield replace(report, words=word_accuracy(task, model, texts, words=words, tell=asked))


def _counted(tell: Tell, whole: int, what: str) -> Callable[[int], None]:
    """Tells which share of something is done, given how much more of it is."""
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        tell(min(1.0, done / max(1, whole)), what)

    tell(0.0, what)
    return count


def _report(
    pipeline: Pipeline, files: str | None, corpus: Corpus, found: Mapping[str, float]
) -> TextReport:
    tokenizer = only_foreign(pipeline.vocabulary)
    unknown = None if tokenizer.spells_all else tokenizer.specials.unknown
    lost = sum(int((corpus.document(i) == unknown).sum()) for i in range(len(corpus)))
    return TextReport(
        files or "held out",
        corpus.tokens,
        found["loss"],
        found["perplexity"],
        unknown=None if unknown is None else lost / max(1, corpus.tokens),
    )


def passages(pipeline: Pipeline, files: str | None, count: int) -> list[list[int]]:
    """Pieces of text, as ids, from places spread evenly over files or what was held out.

    Args:
        pipeline: A model of plain text.
        files: As for `evaluate_text`.
        count: How many.
    """
    corpus = (_rows(pipeline, files) if files else _held_out(pipeline, "heads")).corpus
    length = min(PASSAGE, pipeline.model.config.max_length - (0 if _writes(pipeline) else 4))
    starts = [
        (number, start)
        for number in range(len(corpus))
        for start in range(0, len(corpus.document(number)) - 1, length)
    ]
    count = min(count, len(starts))
    chosen = [starts[place * len(starts) // count] for place in range(count)]
    return [
        corpus.document(number)[start : start + length + 1].tolist() for number, start in chosen
    ]


def _filled(pipeline: Pipeline, files: str | None, words: int, tell: Tell) -> Iterator[TextReport]:
    """The masks of its own training, in the text that was held out or is given."""
    del words  # nothing writes on
    recipe = pipeline.recipe
    if files:
        names = _names(files)
        recipe = recipe.model_copy(update={"data": TextData(files=names, valid=names)})
    _check_text(recipe)
    task = gather(recipe, pipeline.vocabulary).task
    corpus = task.valid.rows.corpus
    found = task.evaluate(pipeline.model, _counted(tell, corpus.tokens, "loss"))
    yield replace(_report(pipeline, files, corpus, found), masked=100 * found["accuracy"])


def held_out_loss(pipeline: Pipeline) -> dict[str, float]:
    """Loss and perplexity on all the text that its own recipe held out."""
    return pipeline.task.evaluate(pipeline.model, _held_out(pipeline))


def _held_out(pipeline: Pipeline, verb: str = "eval") -> Rows:
    _check_text(pipeline.recipe, verb)
    rows = gather(pipeline.recipe, pipeline.vocabulary).task.valid
    assert rows is not None
    return rows.rows if isinstance(rows, Holes) else rows


def _writes(pipeline: Pipeline) -> bool:
    return isinstance(pipeline.task, Generate)


def _check_text(recipe: Recipe, verb: str = "eval") -> None:
    if not isinstance(recipe.data, TextData | PythonData):
        raise InputError(verb, got="a model without text of its own", fix="give --data my.txt")


def _names(files: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in files.split(","))


def _rows(pipeline: Pipeline, files: str) -> Rows:
    text = TextFiles(find_files(_names(files)))
    task, longest = pipeline.task, pipeline.model.config.max_length
    begin = isinstance(task, Generate) and opens(task.tokenizer)  # as in training
    corpus = encode(text, pipeline.vocabulary.source, cache_folder() / "text", begin=begin)
    length = task.room(longest) if isinstance(task, Restore) else longest
    return Packed(corpus, length=length, batch_tokens=4096)
