"""The interface of a task, and the base class of all tasks.

A task prepares data and vocabulary from a recipe, and computes loss, metrics and predictions from
examples and a model. The trainer calls `Task`; `regard/tasks/entries.py` lists the tasks by name.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Protocol, Self, cast

from torch import Tensor

from regard.data.batch import Cursor
from regard.data.bloom import Keys
from regard.data.order import generator
from regard.data.seen import Seen
from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.models.config import ModelConfig
from regard.tasks.measures.report import ExampleSet, Selection
from regard.tokens import Processor, Tokenizer, TokensConfig, Vocabulary

QUOTED_CHARACTERS = 40
"""A warning quotes at most this many characters of a text."""
_logger = logging.getLogger(__name__)


class Task(Protocol):
    """The methods that the trainer calls on a task.

    A task whose loss couples the examples of a batch sets `whole = True`: its batches are then
    never split. One that cannot learn from a single target sets `least` to the fewest targets of a
    part.
    """

    def batches(self, start: Cursor) -> Iterator[tuple[Any, Cursor]]:
        """Yields training micro-batches without end, each with the cursor that follows it.

        Args:
            start: The position in the data at which to begin or resume.
        """

    def targets(self, batch: Any) -> int:
        """The number of targets in a micro-batch; the summed loss of a step is divided by it."""

    def split(self, batch: Any, parts: int) -> Sequence[Any]:
        """Splits a micro-batch into at most `parts` similar parts whose losses add up to its."""

    def loss(self, model: Any, batch: Any) -> Tensor:
        """The training loss of one micro-batch, summed over its targets: a scalar."""

    def evaluate(self, model: Any) -> dict[str, float]:
        """Metrics on the validation split, by name; `loss` selects the best checkpoint."""

    def name(self, batch: Any) -> str:
        """Names the examples of a micro-batch, to log one whose loss is not finite."""


def check_texts(what: str, texts: Any, takes: Callable[[Any], bool] = lambda _: False) -> None:
    """Raises an error if something is no text, or an empty one.

    Args:
        what: The name of the caller, for the error message.
        texts: A text, or a sequence of texts.
        takes: Whether an item that is no text is fine, too, such as a pair of texts or token ids.

    Raises:
        InputError: An item is neither, or a text is empty or only whitespace.
    """
    if not isinstance(texts, Iterable):
        raise InputError(what, got=kind_of(texts), expected="a text or several texts")
    for item in [texts] if isinstance(texts, str) else texts:
        if not isinstance(item, str) and not takes(item):
            raise InputError(what, got=kind_of(item), expected="a text")
        for text in (item,) if isinstance(item, str) else item:
            if isinstance(text, str) and not text.strip():
                raise InputError(what, got="an empty text", expected="some words")


def kind_of(item: Any) -> str:
    """Names the type of an item that cannot be used, for error messages."""
    if item is None or (isinstance(item, list | tuple | dict) and not item):
        return repr(item)
    return f"an item of type {type(item).__name__}"


def are_texts(item: Any) -> bool:
    """Whether an item is a list or tuple of texts, such as the words of a sentence, or a pair."""
    return (
        isinstance(item, list | tuple)
        and bool(item)
        and all(isinstance(text, str) for text in item)
    )


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


def rise(target: str) -> str:
    """Describes the effect of removing a head, for tasks that measure it by the loss.

    Args:
        target: The unit of one target of the loss, such as `token`.

    Example:
        >>> rise("word")
        'rise of the loss without the head, in nats per word'
    """
    return f"rise of the loss without the head, in nats per {target}"


class BaseTask:
    """The base class of all tasks, with defaults for what most of them share."""

    noun: ClassVar[str] = "examples"
    """The noun for the examples of a batch, in the log of a bad batch."""
    items: ClassVar[str] = "texts"
    """The noun for the inputs of the models, in messages."""
    scored: ClassVar[str] = "examples"
    """The noun for the examples of a set, in the report of an evaluation."""
    unit: ClassVar[str] = "targets"
    """The noun for what `targets` counts, in the training speed of the log."""

    effect: ClassVar[str] = rise("token")
    """The meaning of the effect that `regard heads` shows for each head."""
    example_command: ClassVar[str] = ""
    """A command to suggest after training, with `{}` in place of the model."""
    whole: ClassVar[bool] = False
    """Whether the loss couples the examples of a batch, so that a batch must not be split."""
    least: int = 1
    """The fewest targets that a part of a batch must have."""
    takes_ids: ClassVar[bool] = False
    """Whether the task works without a vocabulary on inputs that are token ids."""
    scoring: ClassVar[frozenset[str]] = frozenset()
    """The options of `Scoring` that apply to this task."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

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
        """The config of a resumed run, completed with what its data had decided.

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

    def check(self, model: Any, item: Any, **options: Any) -> None:
        """Raises an error if the model cannot read an item; warns if part of it is ignored."""

    def banned(self) -> Sequence[int]:
        """The ids of special tokens that are never generated."""
        return ()

    def suggested_command(self, settings: Settings, place: str) -> str:
        """A command to suggest after training, for the model at the path `place`."""
        del settings
        return self.example_command.format(place)

    def examples(self, settings: Settings, selection: Selection) -> Mapping[str, Any]:
        """The selected sets of examples, by name."""
        raise NotImplementedError

    def example_sets(self, settings: Settings, selection: Selection) -> dict[str, ExampleSet]:
        """The selected sets of examples by name, each with what of the data is left out of it."""
        found = self.examples(settings, selection)
        return {name: ExampleSet(examples) for name, examples in found.items()}

    def scorable(self, model: Any, given: ExampleSet) -> ExampleSet:
        """The examples that the model can be scored on; others are left out, and counted."""
        del model
        return given

    def count(self, examples: Any) -> int:
        """The number of examples of a set."""
        return len(examples)

    def limited(self, examples: Any, limit: int) -> Any:
        """At most `limit` examples, evenly spread over a set."""
        return [examples[place] for place in spread(len(examples), limit)]

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
        [found] = self.examples(settings, replace(selection, split=split)).values()
        return cast("Sequence[Any]", found[:count])

    def split(self, batch: Any, parts: int) -> Sequence[Any]:
        """Splits a batch by examples into at most `parts` batches, one for each core."""
        found: Sequence[Any] = batch.split(parts)
        return found

    def name(self, batch: Any) -> str:
        """Names the first eight examples of a batch, for the log of a bad batch."""
        shown = ", ".join(map(str, batch.index[:8]))
        return f"{self.noun} {shown}{', …' if len(batch.index) > 8 else ''}"


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


def warn_truncated(texts: Sequence[Any], left_out: Sequence[int], longest: int) -> None:
    """Logs one warning for all texts that were truncated to what the model can read.

    Args:
        texts: Texts or pairs of texts.
        left_out: For each text, how many of its tokens were left out.
        longest: The maximal number of tokens that the model reads.
    """
    cut = [place for place, count in enumerate(left_out) if count]
    if not cut:
        return
    first, several = cut[0], len(texts) > 1
    text = texts[first] if isinstance(texts[first], str) else " ".join(texts[first])
    name = repr(text if len(text) <= QUOTED_CHARACTERS else f"{text[:QUOTED_CHARACTERS]}…")
    _logger.warning(
        "warning: %s%s is cut: its last %d tokens are left out, the model reads %d at once%s",
        f"text {first + 1}, " if several else "",
        name,
        left_out[first],
        longest,
        f"; so are parts of {len(cut) - 1} more" if len(cut) > 1 else "",
    )
