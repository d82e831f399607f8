"""How well a model of plain text does on text that it has not seen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from regard.data.config import PythonData, TextData
from regard.data.corpus import encode
from regard.data.documents import TextFiles, find_files
from regard.data.packing import Packed, Rows
from regard.errors import InputError
from regard.materials import cache_folder, gather
from regard.pipeline import Pipeline
from regard.tasks.generate import Generate, WordAccuracy, word_accuracy

LONGEST = 100
"""Documents of which words are asked."""


@dataclass(frozen=True)
class TextReport:
    """What `regard eval` says of a model of plain text."""

    name: str
    tokens: int
    loss: float
    perplexity: float
    words: WordAccuracy

    def to_json(self) -> dict[str, Any]:
        """All numbers; one line of `regard eval --json`."""
        return {**asdict(self), "words": asdict(self.words)}

    def table(self) -> str:
        """For people."""
        words = self.words
        return (
            f"{self.name}: {self.tokens:,} tokens, loss {self.loss:.3f}, perplexity "
            f"{self.perplexity:.4g}\nnext word among {words.top} suggested: {words.right:.1f}%, "
            f"the first: {words.first:.1f}% (of {words.words} words)"
        )


def evaluate_text(pipeline: Pipeline, files: str | None = None, *, words: int = 300) -> TextReport:
    """Loss, perplexity, and how often the next word is among three suggested.

    Args:
        pipeline: A model that writes on.
        files: Text files, folders or patterns, with commas between; without them the text that its
            own recipe held out.
        words: How many words to ask for.
    """
    task = pipeline.task
    if not isinstance(task, Generate):
        raise InputError(pipeline.name, got=pipeline.recipe.task, expected="a model of plain text")
    name, rows = (files, _rows(pipeline, files)) if files else ("held out", _held_out(pipeline))
    found = task.evaluate(pipeline.model, rows)
    corpus = rows.corpus
    step = max(1, len(corpus) // LONGEST)
    texts = [
        task.tokenizer.decode(corpus.document(i).tolist()) for i in range(0, len(corpus), step)
    ]
    accuracy = word_accuracy(task, pipeline.model, texts, words=words)
    return TextReport(name, corpus.tokens, found["loss"], found["perplexity"], accuracy)


def _held_out(pipeline: Pipeline) -> Rows:
    if not isinstance(pipeline.recipe.data, TextData | PythonData):
        raise InputError("eval", got="a model without text of its own", fix="give --data my.txt")
    rows = gather(pipeline.recipe, pipeline.vocabulary).task.valid
    assert rows is not None
    return rows


def _rows(pipeline: Pipeline, files: str) -> Rows:
    text = TextFiles(find_files([name.strip() for name in files.split(",")]))
    corpus = encode(text, pipeline.vocabulary.source, cache_folder() / "text", begin=True)
    return Packed(corpus, length=pipeline.model.config.max_length, batch_tokens=4096)
