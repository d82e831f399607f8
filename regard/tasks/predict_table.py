"""A column of a table from its other columns: loss, R² and RMSE of numbers, accuracy of classes.

This is the task `predict` for models that read rows of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from regard.data.batch import Batch, Cursor, epochs
from regard.data.config import ALL_FOUND, Columns
from regard.data.order import training_batches
from regard.data.seen import Seen
from regard.data.table.cells import TableExamples
from regard.data.table.reading import is_table
from regard.data.table.sources import TableSplits, load_table, read_examples, read_rows
from regard.errors import InputError
from regard.inputs.arrays import Dense, Ragged
from regard.inputs.processor import Processor
from regard.inputs.reader import Encoded
from regard.inputs.table.reader import TableReader, TableRow
from regard.inputs.text.bloom import Keys
from regard.inputs.text.items import kind_of
from regard.models.config import ModelConfig
from regard.tasks.base_task import BaseTask, Prepared, Settings, spread
from regard.tasks.labelled_task import label_indices
from regard.tasks.measures.report import ExampleSet, Selection
from regard.tasks.predict import PredictTask, number_targets, with_numbers

ROWS_AT_ONCE = 1024
"""Rows in one batch of an evaluation."""


@dataclass(frozen=True)
class TableOptions:
    """How rows are batched and learned from."""

    head: Any = None
    """The config of the model's head."""
    batch_tokens: int = 64
    """Rows of a batch."""
    smoothing: float = 0.0
    seed: int = 0


class PredictTable(PredictTask):
    """A column of a table: training, evaluation and prediction.

    Args:
        processor: Holds the reader of the rows.
        train: Training rows; None if nothing is to be trained.
        valid: Validation rows.
        options: How rows are learned from.
    """

    noun = "training rows"
    items = "rows"
    scored = "rows"
    unit = "rows"
    example_type = "rows"
    file_option = "--data FILE.csv"
    example_command = "predict {} YOUR_TABLE.csv"

    def __init__(
        self,
        processor: Any,
        train: TableExamples | None = None,
        valid: TableExamples | None = None,
        options: TableOptions | None = None,
    ) -> None:
        BaseTask.__init__(self, processor)
        self.train, self.valid = train, valid
        self.options = options or TableOptions()

    @property
    def reader(self) -> TableReader:
        """The reader of the rows."""
        reader: Any = self.vocabulary.source
        return reader

    @classmethod
    def for_trained_model(cls, settings: Settings, vocabulary: Any) -> Self:
        """Builds the task for a trained model: its reader and head, no data."""
        model: Any = settings.model
        return cls(vocabulary, options=TableOptions(head=model.head))

    @classmethod
    def complete_config(cls, task: str, config: ModelConfig, before: ModelConfig) -> ModelConfig:
        """The config of a resumed run, with what its data decided."""
        completed = super().complete_config(task, config, before)
        return completed.changed(features=before.features)

    @classmethod
    def prepare(cls, settings: Settings, processor: Processor | None = None) -> Prepared:
        """Reads the tables of a recipe, and determines what the model reads and predicts.

        Args:
            settings: The recipe.
            processor: The reader of a resumed run or of the pretrained model; None: learn one.

        Raises:
            InputError: The data is no table, or a row cannot be read.
        """
        data, model = settings.data, settings.model
        if data.example_type != cls.example_type:
            expected = "table, for a model of tables"
            raise InputError("data.kind", got=data.kind, expected=expected)
        reader: Any = None if processor is None else processor.source
        splits = load_table(data, reader, has_classes=bool(model.classes))
        completed = _completed(model, splits)
        options = TableOptions(
            head=completed.head,
            batch_tokens=settings.train.batch_tokens,
            smoothing=settings.train.label_smoothing,
            seed=settings.seed,
        )
        processor = Processor(splits.reader)
        task = cls(processor, splits.train, splits.valid, options)
        seen = Seen.of("examples", splits.train.keys(), len(splits.train))
        return Prepared(processor, task, splits.checksums, completed, seen)

    def read(self, model: Any, items: Sequence[Any], **_: Any) -> list[Encoded]:
        """Reads rows: mappings, lists of values, or lines."""
        del model
        return self.reader.read(items)

    def lengths(self, model: Any, encoded: Sequence[Encoded]) -> list[int]:
        """The number of tokens of each row: one."""
        del model
        return [1] * len(encoded)

    def unknown(self, examples: Any) -> None:
        """None: rows have no words."""

    def batches(self, start: Cursor) -> Iterator[tuple[Batch[Dense], Cursor]]:
        """Yields training batches without end; their order depends only on seed and epoch."""
        options, train = self.options, self.train
        if not train:
            raise InputError("training", got="no rows", expected="some to learn from")
        plan = partial(training_batches, [1] * len(train), options.batch_tokens, options.seed)
        inputs, targets = torch.from_numpy(train.inputs), self._targets(train, options.head)

        def make(index: list[int], epoch: int) -> Batch[Dense]:
            """The batch of the rows of some indices."""
            del epoch
            return Batch(Dense(inputs[index]), targets.take(index), tuple(index))

        return epochs(plan, make, start)

    @staticmethod
    def _targets(examples: TableExamples, head: Any) -> Ragged:
        """The index of the class of each row, or its standardised number."""
        if head.numbers:
            return number_targets(head, _numbers_of(examples))
        indices = torch.tensor(label_indices(head.classes, examples.labels))
        return Ragged(indices, (1,) * len(examples))

    def labelled_batches(self, model: Any, examples: TableExamples) -> Iterator[Batch[Dense]]:
        """Batches of rows with their targets, in their order."""
        if not isinstance(examples, TableExamples):
            expected = "rows of a table, with what is predicted from them"
            raise InputError("rows", got=kind_of(examples), expected=expected)
        inputs = torch.from_numpy(examples.inputs)
        targets = self._targets(examples, model.config.head)
        for first in range(0, len(examples), ROWS_AT_ONCE):
            rows = range(first, min(first + ROWS_AT_ONCE, len(examples)))
            yield Batch(Dense(inputs[rows.start : rows.stop]), targets.take(rows), tuple(rows))

    def load(self, data: Any) -> TableSplits:
        """The training, validation and test rows of a data config."""
        return load_table(data, self.reader, has_classes=not self.options.head.numbers)

    def load_file(self, file: str, data: Any, columns: Columns = ALL_FOUND) -> TableExamples:
        """The rows of a file, with the column that is predicted."""
        target = str(columns.named.get("target", self.reader.target))
        has_classes = not self.options.head.numbers
        return read_examples(file, self.reader, target, data, has_classes=has_classes)

    def example_sets(self, settings: Settings, selection: Selection) -> dict[str, ExampleSet]:
        """The selected rows, without those that cannot be read."""
        sets = self.examples(settings, selection)
        return {
            name: ExampleSet(rows).without(rows, "that cannot be read", rows.skipped)
            for name, rows in sets.items()
        }

    def limited(self, examples: TableExamples, limit: int) -> TableExamples:
        """At most `limit` rows, evenly spread over a set."""
        return examples.take(spread(len(examples), limit))

    def keys(self, examples: TableExamples, seen: Seen) -> Iterator[Keys] | None:
        """The keys of the numbers that are read of each row."""
        return examples.keys() if seen.unit == "examples" else None

    def items_in(self, argument: Any, skip: Callable[[str], None]) -> list[Any] | None:
        """The rows of a file or of a pandas DataFrame; None: the argument is a row itself."""
        del skip
        if isinstance(argument, Path) or (isinstance(argument, str) and _is_file(argument)):
            return [*read_rows(str(argument), self.reader)]
        if hasattr(argument, "to_dict") and hasattr(argument, "columns"):
            return [{str(name): cell for name, cell in row.items()}
                    for row in argument.to_dict("records")]  # fmt: skip
        return None

    def line_reader(self) -> Callable[[str], Any]:
        """Makes rows of lines. A first line with the names of columns has no row, but names."""
        names: list[str] = []
        is_first = True

        def read_line(line: str) -> TableRow | str | None:
            nonlocal is_first
            was_first, is_first = is_first, False
            if was_first and (header := self.reader.header_in(line)):
                names.extend(header)
                return None
            return self.reader.row_of(line, names) if names else line

        return read_line


def _is_file(argument: str) -> bool:
    """Whether an argument means a file: a row has no such name."""
    try:
        return is_table(argument) or Path(argument).is_file()
    except OSError:  # a row may be longer than the name of a file
        return False


def _completed(model: Any, splits: TableSplits) -> Any:
    """The model's config with what the data decides: features, and classes or numbers.

    Raises:
        InputError: The recipe says that other numbers are predicted.
    """
    reader = splits.reader
    model = model.changed(features=len(reader.inputs))
    if splits.train.numbers is None:
        return model.changed(classes=model.classes or splits.classes, numbers=(),
                             number_means=(), number_deviations=())  # fmt: skip
    names = (reader.target,)
    if model.numbers and model.numbers != names:
        got, expected = ", ".join(model.numbers), f"{reader.target}, the column of the data"
        raise InputError("model.numbers", got=got, expected=expected)
    if model.numbers and model.number_means:  # of the model that training starts from
        return model.changed(classes=())
    return with_numbers(model, names, _numbers_of(splits.train))


def _numbers_of(examples: TableExamples) -> Any:
    """The numbers to predict, (rows, 1)."""
    if examples.numbers is None:
        raise InputError("rows", got="classes", expected="numbers, which the model predicts")
    return np.asarray(examples.numbers)
