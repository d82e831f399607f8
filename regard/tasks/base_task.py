"""The base class of all tasks, and what tasks share.

A task prepares data and vocabulary from a recipe, and computes loss, metrics and predictions from
examples and a model. The trainer calls the methods of `regard.train.task.Learnable`;
`regard/tasks/specs.py` lists the tasks by name.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Protocol, Self, cast

from regard.data.order import generator
from regard.data.seen import Seen
from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.inputs.reader import Encoded
from regard.inputs.text import Processor, Tokenizer, TokensConfig, Vocabulary
from regard.inputs.text.bloom import Keys
from regard.models.config import ModelConfig
from regard.tasks.measures.report import ExampleSet, Selection

QUOTED_CHARACTERS = 40
"""A warning quotes at most this many characters of a text."""
_logger = logging.getLogger(__name__)


class TrainSettings(Protocol):
    """The training settings that a task reads."""

    @property
    def batch_tokens(self) -> int:
        """The maximal number of tokens in a micro-batch."""

    @property
    def label_smoothing(self) -> float:
        """The share ε of each target's probability that is spread over all classes or tokens."""


class Settings(Protocol):
    """The sections of a recipe that a task reads."""

    @property
    def task(self) -> str:
        """The name of the task in `TASKS`."""

    @property
    def data(self) -> Any:
        """The data config; its `example_type` says what can be learned from it, such as `pairs`."""

    @property
    def tokens(self) -> TokensConfig:
        """The kind and size of the vocabulary to learn."""

    @property
    def model(self) -> ModelConfig:
        """The model config."""

    @property
    def train(self) -> TrainSettings:
        """The training settings."""

    @property
    def decode(self) -> DecodeConfig:
        """The decoding settings."""

    @property
    def seed(self) -> int:
        """The seed of the initial weights and of the order of the data."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """The prepared data of a training: vocabulary, task and model config."""

    vocabulary: Processor
    task: Any
    """The task, holding its training and validation data."""
    checksums: dict[str, str]
    """The checksums of the files that were read, by name."""
    model: ModelConfig | None = None
    """The config completed with what the data decides (names of classes, tags); None: unchanged."""
    seen: Seen | None = None
    """The record of the training examples; None keeps none."""


def loss_unit(target: str) -> str:
    """Describes the effect of removing a head, for tasks that measure it by the loss.

    Args:
        target: The unit of one target of the loss, such as `token`.

    Example:
        >>> loss_unit("word")
        'rise of the loss without the head, in nats per word'
    """
    return f"rise of the loss without the head, in nats per {target}"


class BaseTask:
    """The base class of all tasks, with defaults for what most of them share.

    Args:
        vocabulary: The readers of the model.
        train: Training examples; None if nothing is to be trained.
        valid: Validation examples.
        smoothing: Label smoothing ε in training.
    """

    noun: ClassVar[str] = "examples"
    """The noun for the examples of a batch, in the log of a bad batch."""
    items: ClassVar[str] = "texts"
    """The noun for the inputs of the models, in messages."""
    scored: ClassVar[str] = "examples"
    """The noun for the examples of a set, in the report of an evaluation."""
    unit: ClassVar[str] = "targets"
    """The noun for what `targets` counts, in the training speed of the log."""

    effect: ClassVar[str] = loss_unit("token")
    """The meaning of the effect that `regard heads` shows for each head."""
    example_command: ClassVar[str] = ""
    """A command to suggest after training, with `{}` in place of the model."""
    whole: ClassVar[bool] = False
    """Whether the loss couples the examples of a batch, so that a batch must not be split."""
    least: int = 1
    """The fewest targets that a part of a batch must have."""
    symbols_around: ClassVar[int] = 4
    """A piece of text on which heads are measured leaves room for this many special tokens."""
    takes_ids: ClassVar[bool] = False
    """Whether the task works without a vocabulary on inputs that are token ids."""
    scoring: ClassVar[frozenset[str]] = frozenset()
    """The options of `Scoring` that apply to this task."""

    def __init__(
        self, vocabulary: Any, train: Any = None, valid: Any = None, *, smoothing: float = 0.0
    ) -> None:
        self.vocabulary: Vocabulary = vocabulary
        self.train, self.valid, self.smoothing = train, valid, smoothing

    @property
    def begins(self) -> bool:
        """Whether documents start with the begin symbol, so that their first token is a target."""
        return False

    @property
    def reader(self) -> Any:
        """What reads the items: the tokenizer of the source, or the image reader."""
        return self.vocabulary.source

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The source tokenizer, the only one of a model that has no separate target side."""
        return self.vocabulary.source

    @classmethod
    def for_trained_model(cls, settings: Settings, vocabulary: Vocabulary) -> Self:
        """Builds the task for a trained model: the same preprocessing as in training, no data."""
        del settings
        return cls(vocabulary)

    @classmethod
    def complete_config(cls, task: str, config: ModelConfig, before: ModelConfig) -> ModelConfig:
        """The config of a resumed run, with what was derived from its data, such as the classes.

        Here that is nothing; tasks with labels override it.

        Args:
            task: The name of the task.
            config: The config of the recipe.
            before: The config that the run was started with.
        """
        del task, before
        return config

    def task_for(self, text: str) -> BaseTask:
        """The task that handles a text: this one, unless the text is marked for another."""
        del text
        return self

    def read(self, model: Any, items: Sequence[Any], **options: Any) -> list[Encoded]:
        """Reads the items of a verb, each once; the verb's method takes the result.

        Args:
            model: The model that is to read them.
            items: Texts or images.
            **options: The options of the verb.

        Raises:
            InputError: The model cannot read an item.
        """
        del options
        return self.reader.read(items, model.config.max_length)

    def banned(self) -> Sequence[int]:
        """The ids of special tokens that are never generated."""
        return ()

    def suggested_command(self, settings: Settings, model_name: str) -> str:
        """A command to suggest after training, for the model of this name or folder."""
        del settings
        return self.example_command.format(model_name)

    def examples(self, settings: Settings, selection: Selection) -> Mapping[str, Any]:
        """The selected sets of examples, by name."""
        raise NotImplementedError

    def example_sets(self, settings: Settings, selection: Selection) -> dict[str, ExampleSet]:
        """The selected sets of examples by name, each with what of the data is left out of it."""
        sets = self.examples(settings, selection)
        return {name: ExampleSet(examples) for name, examples in sets.items()}

    def scorable(self, model: Any, example_set: ExampleSet) -> ExampleSet:
        """The examples that the model can be scored on; others are left out, and counted."""
        del model
        return example_set

    def count(self, examples: Any) -> int:
        """The number of examples of a set."""
        return len(examples)

    def limited(self, examples: Any, limit: int) -> Any:
        """At most `limit` examples, evenly spread over a set."""
        return [examples[index] for index in spread(len(examples), limit)]

    def truncated(self, model: Any, examples: Any) -> int:
        """The number of examples of which the model reads only a part."""
        del model, examples
        return 0

    def keys(self, examples: Any, seen: Seen) -> Iterable[Keys] | None:
        """The keys of examples, to find them in the training data; None if there are no such.

        Args:
            examples: A set of examples.
            seen: The record of the training data.
        """
        del examples, seen
        return None

    def head_examples(self, settings: Settings, selection: Selection, count: int) -> Sequence[Any]:
        """The first `count` examples of the selected files or split, to measure heads on.

        The default is the validation split.
        """
        split = selection.split if selection.files else selection.split or "valid"
        [examples] = self.examples(settings, replace(selection, split=split)).values()
        return cast("Sequence[Any]", examples[:count])

    def split(self, batch: Any, parts: int) -> Sequence[Any]:
        """Splits a batch by examples into at most `parts` batches, one for each core."""
        batches: Sequence[Any] = batch.split(parts)
        return batches

    def name(self, batch: Any) -> str:
        """Names the first eight examples of a batch, for the log of a bad batch."""
        numbers = ", ".join(map(str, batch.index[:8]))
        return f"{self.noun} {numbers}{', …' if len(batch.index) > 8 else ''}"


def spread(count: int, limit: int) -> list[int]:
    """The numbers of at most `limit` of `count` examples: a random one of each of equal parts.

    They are the same in every call. Every n-th example could all have one class, if classes take
    turns in a file.

    Raises:
        InputError: `limit` is not at least 1.

    Example:
        >>> spread(10, 4), spread(2, 4)
        ([1, 3, 6, 7], [0, 1])
    """
    if limit < 1:
        raise InputError("limit", got=limit, expected="1 or more")
    if count <= limit:
        return list(range(count))
    starts = [part * count // limit for part in range(limit + 1)]
    random = generator(0)
    return [int(random.integers(start, end)) for start, end in pairwise(starts)]


def max_lengths(lengths: Iterable[int]) -> list[int]:
    """The default maximal length of each output, in tokens with the end symbol.

    Args:
        lengths: The number of tokens of each input.

    Example:
        >>> max_lengths([3, 20])
        [16, 50]
    """
    return [2 * length + 10 for length in lengths]


def per_token(total: float, count: int) -> dict[str, float]:
    """Mean loss and perplexity from a loss that was summed over `count` tokens.

    Example:
        >>> per_token(0.0, 5)
        {'loss': 0.0, 'perplexity': 1.0}
    """
    mean = total / max(1, count)
    return {"loss": mean, "perplexity": math.exp(min(mean, 700.0))}


def warn_truncated(encoded: Sequence[Encoded]) -> None:
    """Logs one warning for all texts that were truncated to what the model can read.

    Args:
        encoded: Texts or pairs of texts, read.
    """
    truncated = [index for index, text in enumerate(encoded) if text.cut]
    if not truncated:
        return
    first, has_several = encoded[truncated[0]], len(encoded) > 1
    text = first.item if isinstance(first.item, str) else " ".join(first.item)
    name = repr(text if len(text) <= QUOTED_CHARACTERS else f"{text[:QUOTED_CHARACTERS]}…")
    _logger.warning(
        "warning: %s%s is cut: its last %d tokens are left out, the model reads %d at once%s",
        f"text {truncated[0] + 1}, " if has_several else "",
        name,
        first.cut,
        max(len(encoded[index].values) for index in truncated),
        f"; so are parts of {len(truncated) - 1} more" if len(truncated) > 1 else "",
    )
