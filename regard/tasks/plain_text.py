"""What the tasks that learn from plain text have in common: documents -> ids -> rows.

In: files of text, or Python's own documentation. Out: the text to train on and that to validate
with, each cut into rows as the task wants them; pieces of text; how well a model does on text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from regard.data.batch import Batch, Cursor
from regard.data.input import Ragged
from regard.data.text.corpus import Corpus, encode, survey
from regard.data.text.documents import Text, TextFiles, find_files
from regard.data.text.packing import Packed, Rows, Stream, batches
from regard.data.text.python_docs import PythonText
from regard.errors import InputError
from regard.runtime.files import cache_folder
from regard.tasks.ids import check_ids, is_ids
from regard.tasks.measures.plain_text import TextReport
from regard.tasks.measures.report import Scoring, Selection, counted
from regard.tasks.task import BaseTask, Prepared, Settings, check_texts
from regard.tokens import Vocabulary
from regard.tokens.learn import Around, learn_plain

KINDS_OF_ROWS: dict[str, type[Packed] | type[Stream]] = {"packed": Packed, "stream": Stream}
MakeRows = partial[Packed] | partial[Stream]
"""Makes rows of some length from a corpus."""
PIECE = 64
"""Tokens of a piece of text that heads are looked at on."""


class ReadsText(BaseTask):
    """A task whose models are looked into on plain text."""

    symbols_around: ClassVar[int] = 4
    """Tokens that a piece of text leaves room for."""

    @property
    def begins(self) -> bool:
        """Whether documents open with the begin symbol, so that what they begin with is learned."""
        return False

    def encoded(self, text: Text) -> Corpus:
        """The ids of a text."""
        cache = cache_folder() / "text"
        return encode(text, self.vocabulary.source, cache, begin=self.begins)

    def corpora(self, data: Any, text: Text, valid: Text | None) -> tuple[Corpus, Corpus]:
        """The ids of a recipe's training text, and of that to validate with or a part of it."""
        corpus = self.encoded(text)
        if valid is None:
            return corpus.split(data.held_out, data.seed)
        return corpus, self.encoded(valid)

    def chosen(self, settings: Settings, asked: Selection) -> tuple[Corpus, Corpus]:
        """The same of the text that was asked for; files are both."""
        if asked.files:
            names = tuple(name.strip() for name in asked.files.split(","))
            corpus = self.encoded(TextFiles(find_files(names)))
            return corpus, corpus
        if settings.data.gives != "text":
            got = "a model without text of its own"
            raise InputError(asked.verb, got=got, fix="give --data my.txt")
        return self.corpora(settings.data, *_documents(settings.data))

    def pieces(self, settings: Settings, asked: Selection, count: int) -> list[list[int]]:
        """Pieces of text, as ids, from places spread evenly over files or what was held out."""
        if asked.split is not None:
            got, expected = "a model of plain text", "--data FILES, or what was held out"
            raise InputError("--split", got=got, expected=expected)
        _, corpus = self.chosen(settings, asked)
        length = min(PIECE, settings.model.max_length - self.symbols_around)
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

    def id_rows(self, model: Any, items: Any, most: int) -> list[list[int]]:
        """Texts or their ids as rows of ids that a model reads, to look at its heads.

        Args:
            model: What reads them.
            items: One or several.
            most: The most ids of a row; each has two at least.
        """
        several: Sequence[Any] = [items] if isinstance(items, str) or is_ids(items) else items
        check_texts("heads", several)
        rows = [each if is_ids(each) else self.start_of(each, most) for each in several]
        rows = [list(row[:most]) for row in rows if len(row) > 1]
        for row in rows:
            check_ids(row[1:], model)
            check_ids(row[:1], model)
        if not rows:
            raise InputError("heads", got="no text of two tokens", expected="some")
        return rows

    def start_of(self, text: str, most: int) -> list[int]:
        """The ids of a text, of a long one of its beginning."""
        return self.vocabulary.source.encode(text)[:most]


class PlainText(ReadsText, ABC):
    """A task that is learned from plain text.

    Args:
        vocabulary: Text <-> ids.
        train: Training text; None when nothing is to be trained.
        valid: Validation text.
        smoothing: Label smoothing while training.
    """

    noun = "texts from token"
    around: ClassVar[Around]
    """What stands around a text in a vocabulary that is learned for it."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        train: Rows | None = None,
        valid: Rows | None = None,
        *,
        smoothing: float = 0.0,
    ) -> None:
        super().__init__(vocabulary)
        self.smoothing, self.train, self.valid = smoothing, train, valid

    @abstractmethod
    def rows(self, settings: Settings, corpus: Corpus, make: MakeRows, train: Corpus) -> Rows:
        """A corpus as the task reads it.

        Args:
            settings: Of the run.
            corpus: What to cut into rows.
            make: Cuts it.
            train: What the model is trained on.
        """

    @classmethod
    def prepare(cls, settings: Settings, vocabulary: Vocabulary | None = None) -> Prepared:
        """Reads the text that a recipe names, and learns a vocabulary of it.

        Args:
            settings: Of the run.
            vocabulary: Of a run that goes on, or of the model that it begins from.
        """
        data = settings.data
        if data.gives != "text":
            expected = f"text or python, for task: {settings.task}"
            raise InputError("data.kind", got=data.kind, expected=expected)
        text, valid = _documents(data)
        if vocabulary is None:
            held_out = 0.0 if valid else data.held_out
            sample = survey(text, held_out=held_out, seed=data.seed).texts
            vocabulary = learn_plain(sample, settings.tokens, cls.around)
        task = cls(vocabulary, smoothing=settings.train.label_smoothing)
        train, aside = task.corpora(data, text, valid)
        make = _made(settings)
        task.train, task.valid = (
            task.rows(settings, corpus, make, train) for corpus in (train, aside)
        )
        return Prepared(vocabulary, task, train.checksums | aside.checksums)

    def to_train_on(self) -> Rows:
        """The training text, refused if there is none."""
        if self.train is None:
            raise InputError("training", got="no text", expected="some to learn from")
        return self.train

    def batches(self, start: Cursor) -> Iterator[tuple[Batch[Ragged], Cursor]]:
        """Training batches without end; order and holes are a pure function of (seed, epoch)."""
        return batches(self.to_train_on(), start)

    def to_evaluate_on(self, rows: Rows | None) -> Rows:
        """The text that is given, else that to validate with, refused if there is none."""
        rows = self.valid if rows is None else rows
        if rows is None:
            raise InputError("evaluation", got="no text", expected="some to evaluate on")
        return rows

    @abstractmethod
    def evaluate(self, model: Any, rows: Any = None, tell: Any = None) -> dict[str, float]:
        """Measures on rows, by default those to validate with."""

    def examples(self, settings: Settings, asked: Selection) -> dict[str, Any]:
        """The text of files, or what the recipe held out, in rows; text has no other splits."""
        train, corpus = self.chosen(settings, asked)
        make = self.of_files(settings) if asked.files else _made(settings)
        return {asked.files or "held out": self.rows(settings, corpus, make, train)}

    def of_files(self, settings: Settings) -> MakeRows:
        """How text that somebody gives is cut into rows."""
        del settings
        return partial(Packed, batch_tokens=4096)

    def report(self, model: Any, sets: Mapping[str, Any], scoring: Scoring) -> TextReport:
        """Loss and perplexity, told at once, and what else the task measures."""
        [(name, rows)] = sets.items()
        corpus, tokenizer = rows.corpus, self.tokenizer
        found = self.evaluate(model, rows, counted(scoring.tell, corpus.tokens, "loss"))
        unknown = None if tokenizer.spells_all else tokenizer.specials.unknown
        lost = sum(int((corpus.document(i) == unknown).sum()) for i in range(len(corpus)))
        share = None if unknown is None else lost / max(1, corpus.tokens)
        report = TextReport(name, corpus.tokens, found["loss"], found["perplexity"], unknown=share)
        if scoring.first is not None:
            scoring.first(report.headline())
        return replace(report, **self.details(model, rows, found, scoring))

    def details(
        self, model: Any, rows: Any, found: Mapping[str, float], scoring: Scoring
    ) -> dict[str, Any]:
        """What a report says beside: fields of `TextReport`.

        Args:
            model: What is scored.
            rows: The text.
            found: What `evaluate` found.
            scoring: What is asked for.
        """
        del model, rows, found, scoring
        return {}


def _made(settings: Settings) -> MakeRows:
    """How a recipe cuts text into rows."""
    return partial(
        KINDS_OF_ROWS[settings.data.rows],
        batch_tokens=settings.train.batch_tokens,
        seed=settings.seed,
    )


def _documents(data: Any) -> tuple[Text, Text | None]:
    """The training text, and that to validate with if it is given."""
    if data.kind == "python":
        return PythonText(), None

    def files(names: tuple[str, ...]) -> TextFiles:
        return TextFiles(find_files(names), data.separator, data.on_bad)

    return files(data.files), files(data.valid) if data.valid else None
