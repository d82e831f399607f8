"""`LabelledTask`, the base class of the tasks that learn from labels: classify, tag, answer.

Labelled examples and an encoder with an output head come in; batches, losses and metrics go out. A
subclass converts examples to rows and computes the loss of a batch and the metrics. The encoder is
usually pretrained and the head new.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch, Cursor
from regard.data.config import ALL_FOUND, Columns
from regard.data.seen import Seen, keys_of_texts
from regard.data.text.examples import sample
from regard.data.text.id_rows import encode, id_type
from regard.data.text.labelled import labels_in, load_labelled, read_labelled
from regard.data.text.windows import LabelledRow, LabelledRows, OnShare, evaluation, training
from regard.errors import InputError
from regard.inputs.reader import Encoded
from regard.inputs.text import Vocabulary
from regard.inputs.text.bloom import Keys
from regard.inputs.text.items import kind_of
from regard.inputs.text.learn import learn_plain
from regard.models.config import ModelConfig
from regard.tasks.base_task import Prepared, Settings
from regard.tasks.encoder_task import ENCODER_SYMBOLS, TOKENS_AT_ONCE, EncoderTask
from regard.tasks.head_batches import HeadBatch, of_texts
from regard.tasks.measures.accuracy import Measures
from regard.tasks.measures.labelled import LabelledReport
from regard.tasks.measures.report import Scoring, Selection
from regard.tasks.measures.unknown import Unknown
from regard.tasks.specs import TASKS

LABEL_KEYS = ("classes", "tags", "numbers")
"""The config keys of heads whose value is the list of their labels, or names of numbers."""
Example = TypeVar("Example")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadingOptions:
    """How examples are read, batched and learned from."""

    longest: int | None = None
    """The maximal number of tokens in a row; None: as many as the model can read."""
    overlap: int = 64
    """The number of tokens that neighbouring windows of a long text share."""
    unanswerable: bool = False
    """Whether a question may have no answer."""
    batch_tokens: int = 4096
    smoothing: float = 0.0
    seed: int = 0


class LabelledTask(EncoderTask, ABC, Generic[Example]):
    """Base class of the tasks that learn from labelled examples.

    What it reads and loads are texts; `ClassifyImages` has its own methods for that.

    Args:
        vocabulary: The tokenizers.
        train: Training examples; empty if nothing is to be trained.
        valid: Validation examples.
        labels: The names of the classes or tags, in the order of the model's outputs.
        options: How examples are read and learned from.
    """

    noun = "training examples"
    form: ClassVar[str]
    """The format of the examples in files: a key of `READERS` of `regard.data.text.labelled`."""
    example_type: ClassVar[str] = "labels"
    """The `example_type` of the data that the task learns from."""
    file_option: ClassVar[str] = "--data FILE"
    """The option for examples of one's own, in the error of a model without data."""
    train: Any
    valid: Any
    options: Any

    def __init__(
        self,
        vocabulary: Vocabulary,
        train: Sequence[Example] = (),
        valid: Sequence[Example] = (),
        labels: Sequence[str] = (),
        options: ReadingOptions | None = None,
    ) -> None:
        super().__init__(vocabulary)
        self.options = options or ReadingOptions()
        self.valid = valid
        longest = self.options.longest
        if train and longest is None:
            raise ValueError("training needs to know how much the model can read: options.longest")
        self.train = self._encode_rows(train, labels, longest or 0)

    def _encode_rows(
        self, examples: Sequence[Example], labels: Sequence[str], longest: int
    ) -> LabelledRows:
        """Encodes training examples to rows, block by block."""

        def columns(block: list[Example]) -> tuple[list[list[int]], ...]:
            """The ids, token types and targets of the rows of some examples."""
            rows = self.rows(block, labels, longest)
            return tuple([getattr(row, column) for row in rows] for column in dtypes)

        def depends_on() -> dict[str, Any]:
            """All that the rows depend on besides the examples: the key of their cache."""
            settings = replace(self.options, batch_tokens=0, smoothing=0.0, seed=0)
            return {
                "task": self.form,
                "labels": list(labels),
                "settings": asdict(settings),
                "vocabulary": self.vocabulary.to_json(),
            }

        dtypes = {
            "ids": id_type(self.tokenizer.vocab),
            "types": np.dtype(np.uint8),
            "targets": np.dtype(np.int32),
        }
        return LabelledRows(*encode(examples, columns, dtypes, depends_on))

    @classmethod
    def prepare(cls, settings: Settings, vocabulary: Vocabulary | None = None) -> Prepared:
        """Reads the examples of a recipe, and determines the labels of the model.

        The labels are those of the model config or, without any, those of the training examples.

        Args:
            settings: The recipe.
            vocabulary: The vocabulary of a resumed run or of the pretrained model; None: learn one.
        """
        data, model = settings.data, settings.model
        if data.example_type != "labels":
            expected = f"labelled, for task: {settings.task}"
            raise InputError("data.kind", got=data.kind, expected=expected)
        splits = load_labelled(data, cls.form)
        for problem, count in splits.skipped.items():
            _logger.warning("data: %d examples skipped: %s", count, problem)
        if vocabulary is None:
            texts = [text for example in sample(splits.train) for text in example.texts]
            vocabulary = learn_plain(texts, settings.tokens, ENCODER_SYMBOLS)
        key = TASKS[settings.task].head
        if key in LABEL_KEYS:
            names = getattr(model, key) or labels_in(splits.train)
            if len(names) < 2:
                got = f"{names[0]!r} alone" if names else "none"
                raise InputError(f"{key} in {data.train}", got=got, expected="at least two of them")
            model = model.changed(**{key: names})
        completed: Any = with_task_head(settings.task, model)
        options = ReadingOptions(
            longest=min(completed.max_length, data.longest or completed.max_length),
            overlap=data.overlap,
            unanswerable=data.unanswerable,
            batch_tokens=settings.train.batch_tokens,
            smoothing=settings.train.label_smoothing,
            seed=settings.seed,
        )
        labels = completed.classes or completed.tags
        task = cls(vocabulary, splits.train, splits.valid, labels=labels, options=options)
        seen = Seen.of("examples", _example_keys(splits.train), len(splits.train))
        return Prepared(vocabulary, task, splits.checksums, completed, seen)

    @classmethod
    def for_trained_model(cls, settings: Settings, vocabulary: Vocabulary) -> Self:
        """Builds the task for a trained model: the same preprocessing as in training, no data."""
        data = settings.data
        if data.example_type != "labels":
            return cls(vocabulary)
        options = ReadingOptions(data.longest, data.overlap, data.unanswerable)
        return cls(vocabulary, options=options)

    @classmethod
    def complete_config(cls, task: str, config: ModelConfig, before: ModelConfig) -> ModelConfig:
        """The config of a resumed run, with its head and its labels."""
        label_keys = [key for key in LABEL_KEYS if key in config.HEADS]
        labels = {key: getattr(config, key) or getattr(before, key, ()) for key in label_keys}
        return with_task_head(task, config.changed(**labels))

    def rows(
        self, examples: Sequence[Example], labels: Sequence[str], longest: int
    ) -> list[LabelledRow]:
        """Converts examples to rows: token ids, token types and targets.

        Args:
            examples: Labelled examples.
            labels: The names of the classes or tags; a target is an index into them.
            longest: The maximal number of tokens that the model can read.
        """
        raise NotImplementedError  # images have no rows of tokens

    def load(self, data: Any) -> Any:
        """The training, validation and test examples of a data config."""
        return load_labelled(data, self.form)

    def load_file(self, file: str, data: Any, columns: Columns = ALL_FOUND) -> Any:
        """The examples of a file."""
        del data
        return read_labelled(file, self.form, columns=columns)[0]

    def labelled_batches(self, model: Any, examples: Any) -> Iterator[Batch[Any]]:
        """Examples as batches with their targets, in their order."""
        config = model.config
        rows = self.rows(examples, config.classes or config.tags, config.max_length)
        return evaluation(rows, TOKENS_AT_ONCE)

    def unknown(self, examples: Any) -> Unknown | None:
        """The unknown words of some examples; None if the model does not read text."""
        texts = (" ".join(example.texts) for example in examples)
        return Unknown.of(self.vocabulary.source, texts)

    def keys(self, examples: Any, seen: Seen) -> Iterator[Keys] | None:
        """The keys of the texts of each example, without their labels."""
        return _example_keys(examples) if seen.unit == "examples" else None

    def read(self, model: Any, items: Sequence[Any], **_: Any) -> list[Encoded]:
        """Reads texts, truncated to at most the length used in training."""
        return self.reader.read(items, self.max_row_tokens(model.config.max_length))

    def max_row_tokens(self, longest: int) -> int:
        """The maximal number of tokens in a row, for a model that can read `longest` tokens."""
        return min(longest, self.options.longest or longest)

    def batches(self, start: Cursor) -> Iterator[tuple[Batch[Any], Cursor]]:
        """Yields training batches without end; their order depends only on seed and epoch."""
        if not self.train:
            raise InputError("training", got="no examples", expected="some to learn from")
        return training(self.train, self.options.batch_tokens, self.options.seed, start)

    @abstractmethod
    def targets(self, batch: Batch[Any]) -> int:
        """The number of targets in a batch."""

    @abstractmethod
    def loss(self, model: Any, batch: Batch[Any]) -> Tensor:
        """The training loss of a batch, summed over its targets: a scalar."""

    @abstractmethod
    def measure(self, model: Any, examples: Any, on_progress: OnShare | None = None) -> Measures:
        """The metrics of the model on some examples: mean loss, and those of the task.

        Args:
            model: The model.
            examples: Labelled examples.
            on_progress: Called with the share of the work that is done.
        """

    def examples(self, settings: Settings, selection: Selection) -> dict[str, Any]:
        """The selected examples: of a file, of a split, or by default of the test sets.

        Without test sets the default is the validation split.

        Args:
            settings: The recipe.
            selection: The selection.
        """
        data = settings.data
        if selection.files is not None:
            columns = selection.columns_for(data)
            return {selection.files: self.load_file(selection.files, data, columns)}
        if data.example_type != self.example_type:
            got = f"{selection.model} without data"
            raise InputError(selection.verb, got=got, expected=self.file_option)
        splits = self.load(data)
        sets_by_name = {"train": splits.train, "valid": splits.valid, **splits.tests}
        names = [selection.split] if selection.split else [*splits.tests] or ["valid"]
        if names[0] not in sets_by_name:
            raise InputError("--split", got=names[0], expected=f"one of {', '.join(sets_by_name)}")
        return {name: sets_by_name[name] for name in names}

    def report(self, model: Any, sets: Mapping[str, Any], scoring: Scoring) -> LabelledReport:
        """Scores each set of examples."""
        measures, unknown = {}, {}
        total, done = max(1, sum(map(len, sets.values()))), 0

        def on_progress(name: str, share: float) -> None:
            scoring.on_progress((done + share * len(sets[name])) / total, name)

        for name, examples in sets.items():
            on_progress(name, 0.0)
            measured = self.measure(model, examples, partial(on_progress, name))
            measures[name], done = (len(examples), measured), done + len(examples)
            if (unknown_words := self.unknown(examples)) is not None:
                unknown[name] = unknown_words
        return LabelledReport(measures, unknown)

    def head_batches(self, model: Any, examples: Any) -> list[HeadBatch]:
        """Batches of labelled examples on which heads are measured."""
        if not isinstance(examples, Sized) or not len(examples):
            raise InputError("heads", got=kind_of(examples), expected="examples with labels")
        batches = (batch.to(model.device) for batch in self.labelled_batches(model, examples))
        return [
            of_texts(model, batch.source, partial(self._loss_of_model, batch), self.targets(batch))
            for batch in batches
        ]

    def _loss_of_model(self, batch: Batch[Any], model: Any) -> Tensor:
        """`loss` with the model last, so that the batch can be bound with `partial`."""
        return self.loss(model, batch)

    def evaluate(self, model: Any) -> dict[str, float]:
        """Metrics on the validation examples."""
        return self.measure(model, self.valid).overall


def _example_keys(examples: Iterable[Any]) -> Iterator[Keys]:
    """Yields the keys of the texts of each example, by which it is found in training data."""
    return keys_of_texts(example.texts for example in examples)


def is_labelled(task: str) -> bool:
    """Whether a task learns from labels, with an output head of its own on an encoder."""
    return issubclass(TASKS[task].first_class, LabelledTask)


def with_task_head(task: str, config: Any) -> Any:
    """The config with the head of a task in place of all other heads.

    A classifier reads the pooled first token. If the config has no pooler, it gets the one that
    transformers uses: tanh for models with token types, else ReLU. Tags and answers are computed
    from every token, so the pooler is removed. Models of other families have no pooler.
    """
    head_key = TASKS[task].head
    heads: dict[str, Any] = {head: () if head in LABEL_KEYS else False for head in config.HEADS}
    heads[head_key] = getattr(config, head_key) if head_key in LABEL_KEYS else True
    pooler = getattr(config.head, "pooler", None)
    if pooler is not None and head_key != "classes":
        heads["pooler"] = "none"
    elif pooler == "none":
        heads["pooler"] = "tanh" if config.token_types else "relu"
    return config.changed(**heads)


def class_loss(model: Any, batch: Batch[Any], smoothing: float) -> Tensor:
    """Cross-entropy of the classes with label smoothing, summed over the examples: a scalar."""
    return logits_loss(model.classify(batch.source), batch, smoothing)


def logits_loss(logits: Tensor, batch: Batch[Any], smoothing: float) -> Tensor:
    """Cross-entropy of logits (examples, classes) with label smoothing, summed: a scalar.

    Of examples that are mixed, the target is the mixture q of their classes: -Σ q' log p, with the
    smoothed q' = (1 - ε) q + ε / classes.
    """
    targets = batch.targets.ids if batch.shares is None else batch.shares
    return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)


def label_indices(labels: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The index of each wanted label among the labels of the model.

    Raises:
        InputError: The model does not have one of the labels.
    """
    indices = {label: index for index, label in enumerate(labels)}
    for label in wanted:
        if label not in indices:
            label_names = ", ".join(labels[:10]) + (", …" if len(labels) > 10 else "")
            what = "the data has a label that the model does not have"
            raise InputError(what, got=label, expected=label_names)
    return [indices[label] for label in wanted]
