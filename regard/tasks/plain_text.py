"""What the tasks that learn from plain text share: documents -> rows -> batches and reports.

Text files or Python's own documentation come in. Out go the training and validation text, cut into
rows as the task needs them; pieces of text on which heads are measured; and evaluation reports.
`Generate`, `Fill` and `Restore` take the methods of `PlainTextMethods`.
"""

from __future__ import annotations

import glob
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
from regard.data.text.packing import BatchedCorpus, Packed, Stream
from regard.data.text.packing import batches as training_batches
from regard.data.text.passages import keys_of_passages, seen_text
from regard.data.text.python_docs import PythonText
from regard.data.text.splits import text_size
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.text import Vocabulary
from regard.inputs.text.bloom import Keys
from regard.inputs.text.items import is_ids
from regard.inputs.text.learn import learn_plain
from regard.inputs.text.ngrams import Ngrams
from regard.inputs.text.reader import TextReader
from regard.runtime.files import cache_folder
from regard.tasks.base_task import Prepared, Settings, spread
from regard.tasks.ids import check_ids
from regard.tasks.measures.plain_text import TextReport
from regard.tasks.measures.report import Scoring, Selection, count_progress

KINDS_OF_ROWS: dict[str, type[Packed] | type[Stream]] = {"packed": Packed, "stream": Stream}
MakeRows = partial[Packed] | partial[Stream]
"""Cuts a corpus into rows of a given length."""
EncodeStart = Callable[[str, int], list[int]]
"""Encodes a text to at most so many ids."""
MIN_PROGRESS_BYTES = 2**25
"""Bytes of text from which on the progress is shown while it is read."""
HEAD_TEXT_TOKENS = 64
"""The number of tokens in a piece of text on which heads are measured."""


def _encode_text(task: Any, text: Text) -> Corpus:
    """Encodes a text to the ids that a task learns from, through a cache on disk."""
    cache, begins = cache_folder() / "text", task.begins
    with _progress_of_text(text, "encoded") as show:
        return encode(text, task.tokenizer, cache, begin=begins, progress=show)


def _encode_corpora(task: Any, data: Any, text: Text, valid: Text | None) -> tuple[Corpus, Corpus]:
    """Encodes the training and the validation text of a recipe.

    Args:
        task: The task that learns from it.
        data: The data config.
        text: The training text.
        valid: The validation text; None: a part of the training text is held out.
    """
    corpus = _encode_text(task, text)
    if valid is None:
        return corpus.split(data.held_out, data.seed)
    return corpus, _encode_text(task, valid)


def selected_corpora(task: Any, settings: Settings, selection: Selection) -> tuple[Corpus, Corpus]:
    """Encodes the selected text, as (training, evaluation) text.

    If files are selected, their text is returned as both.
    """
    if selection.files:
        names = tuple(name.strip() for name in selection.files.split(","))
        columns = selection.columns_for(settings.data)
        corpus = _encode_text(task, TextFiles(find_files(names), columns=columns))
        return corpus, corpus
    if settings.data.example_type != "text":
        got = "a model without text of its own"
        raise InputError(selection.verb, got=got, fix="give --data my.txt")
    for name in getattr(settings.data, "files", ()):
        if not Path(name).exists() and not glob.has_magic(name):
            what, got = f"{selection.verb}: the model's training text", f"no file {name} here"
            fix = "give other text with --data FILE, or run the command where that file is"
            raise InputError(what, got=got, fix=fix)
    return _encode_corpora(task, settings.data, *_train_and_valid_text(settings.data))


def pieces(task: Any, settings: Settings, selection: Selection, count: int) -> list[list[int]]:
    """Up to `count` pieces of the selected text as ids, evenly spread, to measure heads on."""
    if selection.split is not None:
        got, expected = "a model of plain text", "--data FILES, or what was held out"
        raise InputError("--split", got=got, expected=expected)
    _, corpus = selected_corpora(task, settings, selection)
    length = min(HEAD_TEXT_TOKENS, settings.model.max_length - task.symbols_around)
    starts = [
        (number, start)
        for number in range(len(corpus))
        for start in range(0, len(corpus.document(number)) - 1, length)
    ]
    count = min(count, len(starts))
    chosen = [starts[i * len(starts) // count] for i in range(count)]
    return [corpus.document(n)[start : start + length + 1].tolist() for n, start in chosen]


def id_rows(
    task: Any, model: Any, items: Any, max_ids: int, encode_start: EncodeStart | None = None
) -> list[list[int]]:
    """Converts texts or token ids to rows of ids on which heads are measured.

    Args:
        task: The task of the model.
        model: The model that reads the rows.
        items: A text, the ids of a text, or a sequence of either.
        max_ids: The maximal number of ids in a row. Rows of less than two ids are dropped.
        encode_start: Encodes a text to at most `max_ids` ids; by default its first ones.
    """
    encode_text = encode_start or (lambda text, max_ids: task.tokenizer.encode(text)[:max_ids])
    texts: Sequence[Any] = [items] if isinstance(items, str) or is_ids(items) else items
    TextReader.check("heads", texts, is_ids)
    rows = [item if is_ids(item) else encode_text(item, max_ids) for item in texts]
    rows = [list(row[:max_ids]) for row in rows if len(row) > 1]
    for row in rows:  # one token more than the model reads: inputs and next tokens
        check_ids(row[1:], model)
        check_ids(row[:1], model)
    if not rows:
        raise InputError("heads", got="no text of two tokens", expected="some")
    return rows


@contextmanager
def _progress_of_text(text: Text, what: str) -> Iterator[Callable[[int], None]]:
    """Yields a function that shows how many characters of large files are done."""
    size = sum(map(text_size, getattr(text, "files", ())))
    with progress(size, quiet=size < MIN_PROGRESS_BYTES) as bar:
        yield lambda done: bar.update_to(done, f"{done / 1e6:,.0f} million characters {what}")


def _row_maker(settings: Settings) -> MakeRows:
    """The function that cuts a corpus into rows as a recipe says: `data.rows`."""
    kind, batch_tokens = KINDS_OF_ROWS[settings.data.rows], settings.train.batch_tokens
    return partial(kind, batch_tokens=batch_tokens, seed=settings.seed)


def _train_and_valid_text(data: Any) -> tuple[Text, Text | None]:
    """The documents of the training text, and of the validation text if the recipe names one."""
    if data.kind == "python":
        return PythonText(), None

    def files(names: tuple[str, ...]) -> TextFiles:
        return TextFiles(find_files(names), data.separator, data.on_bad, data.columns)

    train, valid = training_files(data.files, data.valid)
    return files(train), files(valid) if valid else None


class PlainTextMethods:
    """The methods of the tasks that learn from plain text: `Generate`, `Fill` and `Restore`.

    The `rows` of such a task cuts a corpus into rows, with the targets that it needs; its `around`
    are the special tokens around a text.
    """

    noun, scored = "texts from token", "passages"
    file_batch_tokens: ClassVar[int | None] = 4096
    """The token budget of a batch of text from a file; None: as in training."""
    head_examples = pieces

    @classmethod
    def prepare(cls: Any, settings: Settings, vocabulary: Vocabulary | None = None) -> Prepared:
        """Reads the text of a recipe, and learns a vocabulary from the training text.

        Args:
            settings: The recipe.
            vocabulary: The vocabulary of a resumed run or of the pretrained model; None: learn one.
        """
        data = settings.data
        if data.example_type != "text":
            expected = f"text or python, for task: {settings.task}"
            raise InputError("data.kind", got=data.kind, expected=expected)
        train_text, valid_text = _train_and_valid_text(data)
        if vocabulary is None:
            held_out = 0.0 if valid_text else data.held_out
            with _progress_of_text(train_text, "sampled for the vocabulary") as show:
                sample = survey(train_text, held_out=held_out, seed=data.seed, progress=show).texts
            vocabulary = learn_plain(sample, settings.tokens, cls.around)
        if size := settings.decode.no_copy:  # also where a pretrained model has those of its text
            vocabulary = replace(vocabulary, ngrams=Ngrams.of(train_text.pieces(Counter()), size))
        task = cls(vocabulary, smoothing=settings.train.label_smoothing)
        train, valid = _encode_corpora(task, data, train_text, valid_text)
        make = _row_maker(settings)
        task.train = task.rows(settings, train, make, train)
        task.valid = task.rows(settings, valid, make, train)
        seen = seen_text(train, vocabulary.source.bytes_of)
        return Prepared(vocabulary, task, train.checksums | valid.checksums, seen=seen)

    def batches(self: Any, start: Cursor) -> Iterator[tuple[Batch[Ragged], Cursor]]:
        """Yields training batches without end; order and masks depend only on seed and epoch."""
        if self.train is None:
            raise InputError("training", got="no text", expected="some to learn from")
        return training_batches(self.train, start)

    def rows_to_score(self: Any, rows: BatchedCorpus | None) -> BatchedCorpus:
        """The given text, or else the validation text of the task.

        Raises:
            InputError: There is neither.
        """
        rows = self.valid if rows is None else rows
        if rows is None:
            raise InputError("evaluation", got="no text", expected="some to evaluate on")
        return rows

    def examples(self: Any, settings: Settings, selection: Selection) -> dict[str, BatchedCorpus]:
        """The rows of the selected files, or of the held-out text; there are no other splits."""
        train, corpus = selected_corpora(self, settings, selection)
        budget = self.file_batch_tokens or settings.train.batch_tokens
        make = partial(Packed, batch_tokens=budget) if selection.files else _row_maker(settings)
        return {selection.files or "held out": self.rows(settings, corpus, make, train)}

    def count(self: Any, examples: BatchedCorpus) -> int:
        """The number of passages that a text is cut into."""
        return examples.passages

    def limited(self: Any, examples: BatchedCorpus, limit: int) -> BatchedCorpus:
        """At most `limit` passages, evenly spread over a text."""
        return examples.limited(spread(examples.passages, limit))

    def keys(self: Any, examples: BatchedCorpus, seen: Seen) -> Iterator[Keys] | None:
        """The keys of all stretches of text, to find them in the training text."""
        return keys_of_passages(examples.corpus, seen.window) if seen.window else None

    def report(self: Any, model: Any, sets: Mapping[str, Any], scoring: Scoring) -> TextReport:
        """Scores one set: loss and perplexity, shown at once, then the other metrics of the task.

        `details` computes these as fields of `TextReport`.
        """
        [(name, rows)] = sets.items()
        corpus, tokens, tokenizer = rows.corpus, rows.corpus.tokens, self.tokenizer
        on_progress = count_progress(scoring.on_progress, tokens, "loss")
        scores = self.evaluate(model, rows, on_progress)
        unknown = None if tokenizer.has_all_bytes else tokenizer.specials.unknown
        unknown_tokens = sum(int((corpus.document(i) == unknown).sum()) for i in range(len(corpus)))
        share = None if unknown is None else unknown_tokens / max(1, tokens)
        report = TextReport(name, tokens, scores["loss"], scores["perplexity"], unknown=share)
        if scoring.on_headline is not None:
            scoring.on_headline(report.headline())
        return replace(report, **self.details(model, rows, scores, scoring))

    def evaluate(
        self: Any,
        model: Any,
        rows: BatchedCorpus | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> dict[str, float]:
        """Mean negative log-likelihood per target token, and perplexity."""
        return self.likelihood(model, self.rows_to_score(rows).evaluation(), on_progress)
