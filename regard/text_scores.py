"""How well a model of plain text does on text that it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from regard.data.config import PythonData, TextData
from regard.data.corpus import encode
from regard.data.documents import TextFiles, find_files
from regard.data.packing import Packed, Rows
from regard.errors import InputError
from regard.materials import cache_folder, gather
from regard.pipeline import Pipeline
from regard.recipe import Recipe
from regard.tasks.fill import Holes
from regard.tasks.generate import Generate, WordAccuracy, opens, word_accuracy
from regard.tasks.restore import Restore, SpanAccuracy

LONGEST = 100
"""Documents of which words are asked."""
TOKENS_A_WORD = 500
"""Tokens that are read in the time in which a word is asked for, about."""
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

    def to_json(self) -> dict[str, Any]:
        """All numbers; one line of `regard eval --json`."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def table(self) -> str:
        """For people."""
        lines = [
            f"{self.name}: {self.tokens:,} tokens, loss {self.loss:.3f}, perplexity "
            f"{self.perplexity:.4g}"
        ]
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
        return "\n".join(lines)


def evaluate_text(
    pipeline: Pipeline,
    files: str | None = None,
    *,
    words: int = 300,
    tell: Callable[[float, str], None] | None = None,
) -> TextReport:
    """Loss, perplexity, and how often the next word, a span or a hidden token is found.

    Args:
        pipeline: A model that writes on, says what is missing, or fills masks.
        files: Text files, folders or patterns, with commas between; without them the text that its
            own recipe held out.
        words: How many words to ask for.
        tell: Told which share of the work is done, and what of it, for a model that writes on.
    """
    if pipeline.recipe.task == "fill":
        return _filled(pipeline, files)
    task, model = pipeline.task, pipeline.model
    if not isinstance(task, Generate | Restore):
        raise InputError(pipeline.name, got=pipeline.recipe.task, expected="a model of plain text")
    name, rows = (files, _rows(pipeline, files)) if files else ("held out", _held_out(pipeline))
    if isinstance(task, Restore):
        task = Restore(pipeline.vocabulary, seed=pipeline.recipe.seed)  # the spans of its training
        found = task.evaluate(model, rows)
        spans = task.accuracy(model, pipeline.recipe.decode, rows)
        return TextReport(name, rows.corpus.tokens, found["loss"], found["perplexity"], spans=spans)
    corpus, done = rows.corpus, 0.0
    whole = corpus.tokens + words * TOKENS_A_WORD

    def told(weight: int, what: str, count: int) -> None:
        nonlocal done
        done += weight * count / whole
        if tell is not None:
            tell(min(1.0, done), what)

    found = task.evaluate(model, rows, partial(told, 1, "loss"))
    step = max(1, len(corpus) // LONGEST)
    texts = [
        task.tokenizer.decode(corpus.document(i).tolist()) for i in range(0, len(corpus), step)
    ]
    asked = partial(told, TOKENS_A_WORD, "next words")
    accuracy = word_accuracy(task, model, texts, words=words, tell=asked)
    return TextReport(name, corpus.tokens, found["loss"], found["perplexity"], accuracy)


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


def _filled(pipeline: Pipeline, files: str | None) -> TextReport:
    """The masks of its own training, in the text that was held out or is given."""
    recipe = pipeline.recipe
    if files:
        names = _names(files)
        recipe = recipe.model_copy(update={"data": TextData(files=names, valid=names)})
    _check_text(recipe)
    task = gather(recipe, pipeline.vocabulary).task
    found, tokens = task.evaluate(pipeline.model), task.valid.rows.corpus.tokens
    masked = 100 * found["accuracy"]
    return TextReport(
        files or "held out", tokens, found["loss"], found["perplexity"], masked=masked
    )


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
