"""`PlainTextTask`, the base class of the tasks that learn from plain text: documents -> rows.

Text files or Python's own documentation come in. Out go the training and validation text, cut into
rows as the task needs them; pieces of text on which heads are measured; and evaluation reports.
"""

from __future__ import annotations

import glob
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from regard.data.batch import Batch, Cursor
from regard.data.seen import Seen
from regard.data.text.corpus import Corpus, encode, survey
from regard.data.text.documents import Text, TextFiles, find_files, training_files
from regard.data.text.examples import progress
from regard.data.text.packing import BatchedCorpus, Packed, Stream, batches
from regard.data.text.passages import keys_of_passages, seen_text
from regard.data.text.python_docs import PythonText
from regard.data.text.splits import text_size
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.text import Vocabulary
from regard.inputs.text.bloom import Keys
from regard.inputs.text.learn import TaskSymbols, learn_plain
from regard.inputs.text.ngrams import Ngrams
from regard.inputs.text.reader import TextReader, is_ids
from regard.runtime.files import cache_folder
from regard.tasks.base_task import BaseTask, Prepared, Settings, spread
from regard.tasks.ids import check_ids
from regard.tasks.measures.plain_text import TextReport
from regard.tasks.measures.report import Scoring, Selection, counted

KINDS_OF_ROWS: dict[str, type[Packed] | type[Stream]] = {"packed": Packed, "stream": Stream}
MakeRows = partial[Packed] | partial[Stream]
"""Cuts a corpus into rows of a given length."""
EncodeStart = Callable[[str, int], list[int]]
LARGE = 2**25
"""Bytes of text from which on the progress is shown while it is read."""
HEAD_TEXT_TOKENS = 64
"""The number of tokens in a piece of text on which heads are measured."""


class PlainTextTask(BaseTask, ABC):
    """Base class of the tasks that learn from plain text.

    Args:
        vocabulary: The tokenizers.
        train: Training text; None if nothing is to be trained.
        valid: Validation text.
        smoothing: Label smoothing ε in training.
    """

    noun = "texts from token"
    scored = "passages"
    around: ClassVar[TaskSymbols]
    """The special tokens around a text, for vocabularies learned for this task."""
    symbols_around: ClassVar[int] = 4
    """A piece of text leaves room for this many special tokens."""

    @property
    def begins(self) -> bool:
        """Whether documents start with the begin symbol, so that their first token is a target."""
        return False

    def __init__(
        self,
        vocabulary: Vocabulary,
        train: BatchedCorpus | None = None,
        valid: BatchedCorpus | None = None,
        *,
        smoothing: float = 0.0,
    ) -> None:
        super().__init__(vocabulary)
        self.smoothing, self.train, self.valid = smoothing, train, valid

    @abstractmethod
    def rows(
        self, settings: Settings, corpus: Corpus, make: MakeRows, train: Corpus
    ) -> BatchedCorpus:
        """Cuts a corpus into rows, with the targets that the task needs.

        Args:
            settings: The recipe.
            corpus: The text to cut into rows.
            make: Cuts a corpus into rows of a given length.
            train: The training text.
        """

    @classmethod
    def prepare(cls, settings: Settings, vocabulary: Vocabulary | None = None) -> Prepared:
        """Reads the text of a recipe, and learns a vocabulary from the training text.

        Args:
            settings: The recipe.
            vocabulary: The vocabulary of a resumed run or of the pretrained model; None: learn one.
        """
        data = settings.data
        if data.example_type != "text":
            expected = f"text or python, for task: {settings.task}"
            raise InputError("data.kind", got=data.kind, expected=expected)
        text, valid = _documents(data)
        if vocabulary is None:
            held_out = 0.0 if valid else data.held_out
            with _showing(text, "sampled for the vocabulary") as show:
                sample = survey(text, held_out=held_out, seed=data.seed, progress=show).texts
            vocabulary = learn_plain(sample, settings.tokens, cls.around)
        if size := settings.decode.no_copy:  # also where a pretrained model has those of its text
            vocabulary = replace(vocabulary, ngrams=Ngrams.of(text.pieces(Counter()), size))
        task = cls(vocabulary, smoothing=settings.train.label_smoothing)
        train, aside = _corpora(task, data, text, valid)
        make = _row_maker(settings)
        task.train, task.valid = (
            task.rows(settings, corpus, make, train) for corpus in (train, aside)
        )
        seen = seen_text(train, vocabulary.source.bytes_of)
        return Prepared(vocabulary, task, train.checksums | aside.checksums, seen=seen)

    def batches(self, start: Cursor) -> Iterator[tuple[Batch[Ragged], Cursor]]:
        """Yields training batches without end; order and masks depend only on seed and epoch."""
        if self.train is None:
            raise InputError("training", got="no text", expected="some to learn from")
        return batches(self.train, start)

    def to_evaluate_on(self, rows: BatchedCorpus | None) -> BatchedCorpus:
        """The given text, or else the validation text; raises an error if there is none."""
        rows = self.valid if rows is None else rows
        if rows is None:
            raise InputError("evaluation", got="no text", expected="some to evaluate on")
        return rows

    @abstractmethod
    def evaluate(self, model: Any, rows: Any = None, on_progress: Any = None) -> dict[str, float]:
        """Metrics on rows of text, by default on the validation text."""

    def head_examples(
        self, settings: Settings, selection: Selection, count: int
    ) -> list[list[int]]:
        """Up to `count` pieces of text as ids, spread evenly over files or the held-out text."""
        return text_pieces(self, settings, selection, count)

    def examples(self, settings: Settings, selection: Selection) -> dict[str, Any]:
        """The rows of the selected files, or of the held-out text; there are no other splits."""
        train, corpus = chosen_text(self, settings, selection)
        make = self.of_files(settings) if selection.files else _row_maker(settings)
        return {selection.files or "held out": self.rows(settings, corpus, make, train)}

    def count(self, examples: BatchedCorpus) -> int:
        """The number of passages that a text is cut into."""
        return examples.passages

    def limited(self, examples: BatchedCorpus, limit: int) -> BatchedCorpus:
        """At most `limit` passages, evenly spread over a text."""
        return examples.limited(spread(examples.passages, limit))

    def keys(self, examples: BatchedCorpus, seen: Seen) -> Iterator[Keys] | None:
        """The keys of all stretches of text, to find them in the training text."""
        return keys_of_passages(examples.corpus, seen.window) if seen.window else None

    def of_files(self, settings: Settings) -> MakeRows:
        """How the text of files given by the user is cut into rows."""
        del settings
        return partial(Packed, batch_tokens=4096)

    def report(self, model: Any, sets: Mapping[str, Any], scoring: Scoring) -> TextReport:
        """Scores one set: loss and perplexity, shown at once, then the task's other metrics."""
        [(name, rows)] = sets.items()
        corpus, tokenizer = rows.corpus, self.tokenizer
        scores = self.evaluate(model, rows, counted(scoring.on_progress, corpus.tokens, "loss"))
        unknown = None if tokenizer.has_all_bytes else tokenizer.specials.unknown
        lost = sum(int((corpus.document(i) == unknown).sum()) for i in range(len(corpus)))
        share = None if unknown is None else lost / max(1, corpus.tokens)
        report = TextReport(
            name, corpus.tokens, scores["loss"], scores["perplexity"], unknown=share
        )
        if scoring.first is not None:
            scoring.first(report.headline())
        return replace(report, **self.details(model, rows, scores, scoring))

    def details(
        self, model: Any, rows: Any, scores: Mapping[str, float], scoring: Scoring
    ) -> dict[str, Any]:
        """Additional metrics of the report, as fields of `TextReport`.

        Args:
            model: The model to score.
            rows: The text.
            scores: The result of `evaluate`.
            scoring: The options of the evaluation.
        """
        del model, rows, scores, scoring
        return {}


def _encoded(task: Any, text: Text) -> Corpus:
    """Encodes a text to the ids that a task learns from, through a cache on disk."""
    cache, begins = cache_folder() / "text", getattr(task, "begins", False)
    with _showing(text, "encoded") as show:
        return encode(text, task.tokenizer, cache, begin=begins, progress=show)


def _corpora(task: Any, data: Any, text: Text, valid: Text | None) -> tuple[Corpus, Corpus]:
    """Encodes the training and the validation text of a recipe.

    Args:
        task: The task that learns from it.
        data: The data config.
        text: The training text.
        valid: The validation text; None: a part of the training text is held out.
    """
    corpus = _encoded(task, text)
    if valid is None:
        return corpus.split(data.held_out, data.seed)
    return corpus, _encoded(task, valid)


def chosen_text(task: Any, settings: Settings, selection: Selection) -> tuple[Corpus, Corpus]:
    """Encodes the selected text, as (training, evaluation) text.

    If files are selected, their text is returned as both.
    """
    if selection.files:
        names = tuple(name.strip() for name in selection.files.split(","))
        columns = selection.columns_for(settings.data)
        corpus = _encoded(task, TextFiles(find_files(names), columns=columns))
        return corpus, corpus
    if settings.data.example_type != "text":
        got = "a model without text of its own"
        raise InputError(selection.verb, got=got, fix="give --data my.txt")
    for name in getattr(settings.data, "files", ()):
        if not Path(name).exists() and not glob.has_magic(name):
            raise InputError(
                f"{selection.verb}: the model's training text",
                got=f"no file {name} here",
                fix="give other text with --data FILE, or run the command where that file is",
            )
    return _corpora(task, settings.data, *_documents(settings.data))


def text_pieces(task: Any, settings: Settings, selection: Selection, count: int) -> list[list[int]]:
    """Up to `count` pieces of the selected text as ids, evenly spread, to measure heads on."""
    if selection.split is not None:
        got, expected = "a model of plain text", "--data FILES, or what was held out"
        raise InputError("--split", got=got, expected=expected)
    _, corpus = chosen_text(task, settings, selection)
    length = min(HEAD_TEXT_TOKENS, settings.model.max_length - task.symbols_around)
    starts = [
        (number, start)
        for number in range(len(corpus))
        for start in range(0, len(corpus.document(number)) - 1, length)
    ]
    count = min(count, len(starts))
    chosen = [starts[i * len(starts) // count] for i in range(count)]
    return [
        corpus.document(number)[start : start + length + 1].tolist() for number, start in chosen
    ]


def id_rows(
    task: Any, model: Any, items: Any, most: int, encode_start: EncodeStart | None = None
) -> list[list[int]]:
    """Converts texts or token ids to rows of ids on which heads are measured.

    Args:
        task: The task of the model.
        model: The model that reads the rows.
        items: A text, the ids of a text, or a sequence of either.
        most: The maximal number of ids in a row. Rows of less than two ids are dropped.
        encode_start: Encodes a text to at most `most` ids; by default its first ones.
    """
    encode_text = encode_start or (lambda text, most: task.tokenizer.encode(text)[:most])
    several: Sequence[Any] = [items] if isinstance(items, str) or is_ids(items) else items
    TextReader.check("heads", several, is_ids)
    rows = [item if is_ids(item) else encode_text(item, most) for item in several]
    rows = [list(row[:most]) for row in rows if len(row) > 1]
    for row in rows:
        check_ids(row[1:], model)
        check_ids(row[:1], model)
    if not rows:
        raise InputError("heads", got="no text of two tokens", expected="some")
    return rows


@contextmanager
def _showing(text: Text, what: str) -> Iterator[Callable[[int], None]]:
    """Yields a function that shows how many characters of large files are done."""
    size = sum(map(text_size, getattr(text, "files", ())))
    with progress(size, quiet=size < LARGE) as bar:
        yield lambda done: bar.update_to(done, f"{done / 1e6:,.0f} million characters {what}")


def _row_maker(settings: Settings) -> MakeRows:
    """How a recipe's text is cut into rows."""
    return partial(
        KINDS_OF_ROWS[settings.data.rows],
        batch_tokens=settings.train.batch_tokens,
        seed=settings.seed,
    )


def _documents(data: Any) -> tuple[Text, Text | None]:
    """The documents of the training text, and of the validation text if the recipe names one."""
    if data.kind == "python":
        return PythonText(), None

    def files(names: tuple[str, ...]) -> TextFiles:
        return TextFiles(find_files(names), data.separator, data.on_bad, data.columns)

    train, valid = training_files(data.files, data.valid)
    return files(train), files(valid) if valid else None
