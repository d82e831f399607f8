"""What a task is: settings -> data, vocabulary; (data, model) -> loss, metric, prediction."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self, cast

from torch import Tensor

from regard.data.batch import Cursor
from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.models.config import ModelConfig
from regard.tasks.measures.report import Selection
from regard.tokens import Processor, Tokenizer, TokensConfig, Vocabulary

SHOWN = 40
"""Characters by which a long text is named."""
_logger = logging.getLogger(__name__)


class Task(Protocol):
    """What the trainer needs of a task.

    One whose loss couples the examples of a batch says `whole = True`: its batches are never cut.
    """

    def batches(self, start: Cursor) -> Iterator[tuple[Any, Cursor]]:
        """Training micro-batches without end from a place on, each with the place after it."""
        ...

    def targets(self, batch: Any) -> int:
        """How many targets a micro-batch has: what the sums of losses of a step are divided by."""
        ...

    def split(self, batch: Any, parts: int) -> Sequence[Any]:
        """A micro-batch in at most so many parts of like size, whose losses add up to its own."""
        ...

    def loss(self, model: Any, batch: Any) -> Tensor:
        """The training loss of one micro-batch, a sum over its targets."""
        ...

    def evaluate(self, model: Any) -> dict[str, float]:
        """Measures on the validation split; `loss` is the one that chooses."""
        ...

    def name(self, batch: Any) -> str:
        """Which examples a micro-batch holds, for the log of a bad one."""
        ...


def check_texts(what: str, texts: Any) -> None:
    """Refuses an empty text among one or several, or pairs of them; ids are no texts."""
    for text in [texts] if isinstance(texts, str | tuple) else texts:
        for part in text if isinstance(text, tuple) else (text,):
            if isinstance(part, str) and not part.strip():
                raise InputError(what, got="an empty text", expected="some words")


class TrainSettings(Protocol):
    """What a task needs to know of a training."""

    @property
    def batch_tokens(self) -> int:
        """The most tokens of a micro-batch."""
        ...

    @property
    def label_smoothing(self) -> float:
        """How much of each target is spread over all others."""
        ...


class Settings(Protocol):
    """What a task needs of a recipe: its sections."""

    @property
    def task(self) -> str:
        """Its name in `TASKS`."""
        ...

    @property
    def data(self) -> Any:
        """Of the kind that it names; `gives` says what can be learned from it."""
        ...

    @property
    def tokens(self) -> TokensConfig:
        """Which vocabulary to learn."""
        ...

    @property
    def model(self) -> ModelConfig:
        """Its config."""
        ...

    @property
    def train(self) -> TrainSettings:
        """How it is trained."""
        ...

    @property
    def decode(self) -> DecodeConfig:
        """How it is decoded."""
        ...

    @property
    def seed(self) -> int:
        """Of the weights and the order of the data."""
        ...


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a training begins with."""

    vocabulary: Processor
    task: Any
    """With its data."""
    checksums: dict[str, str]
    """Of what was read, by name."""
    model: ModelConfig | None = None
    """The config with what the data decides, the names of classes and tags; None: as it was."""


def rise(target: str) -> str:
    """What the effect of a head is where a loss tells it, by what one target of the loss is.

    Example:
        >>> rise("word")
        'rise of the loss without the head, in nats per word'
    """
    return f"rise of the loss without the head, in nats per {target}"


class BaseTask:
    """What all tasks have in common."""

    noun: ClassVar[str] = "examples"
    """What a batch holds, where a bad one is named."""
    items: ClassVar[str] = "texts"
    """What its models read, for people."""
    unit: ClassVar[str] = "targets"
    """What `targets` counts, where training says how fast it is."""

    effect: ClassVar[str] = rise("token")
    """What `regard heads` says of a head first, in words."""
    tried: ClassVar[str] = ""
    """A command to try first, `{}` for the model."""
    whole: ClassVar[bool] = False
    """Whether the loss couples the examples of a batch, which so can never be cut."""
    takes_ids: ClassVar[bool] = False
    """Whether it needs no vocabulary where ids are given."""
    scoring: ClassVar[frozenset[str]] = frozenset()
    """Which options of `Scoring` it takes; the others mean nothing to it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The one tokenizer of a model of plain text; without a vocabulary it is not asked for."""
        return self.vocabulary.source

    @classmethod
    def ready(cls, settings: Settings, vocabulary: Vocabulary) -> Self:
        """The task of a trained model, which reads as it did in training; it has no data."""
        del settings
        return cls(vocabulary)

    @classmethod
    def settled(cls, task: str, config: ModelConfig, before: ModelConfig) -> ModelConfig:
        """The config of a run that goes on, with what its data had decided.

        Args:
            task: Its name.
            config: As the recipe has it.
            before: As the run has it.
        """
        del task, before
        return config

    def asked_of(self, text: str) -> BaseTask:
        """The task that a text is one of: this, unless what stands in the text says otherwise."""
        del text
        return self

    def check(self, model: Any, item: Any, **options: Any) -> None:
        """Refuses an item that the model cannot read; warns of what is lost of it."""

    def banned(self) -> Sequence[int]:
        """The symbols that are never written, though nothing but their role forbids them."""
        return ()

    def trial(self, settings: Settings, place: str) -> str:
        """A command to try first on a model at a place."""
        del settings
        return self.tried.format(place)

    def examples(self, settings: Settings, asked: Selection) -> Mapping[str, Any]:
        """The sets that were asked for, by name."""
        raise NotImplementedError

    def pieces(self, settings: Settings, asked: Selection, count: int) -> Sequence[Any]:
        """What heads are looked at on: the first examples of a split, else valid, or of files."""
        split = asked.split if asked.files else asked.split or "valid"
        [found] = self.examples(settings, replace(asked, split=split)).values()
        return cast("Sequence[Any]", found[:count])

    def split(self, batch: Any, parts: int) -> Sequence[Any]:
        """The examples of a batch dealt out to several, so that each core has its own."""
        found: Sequence[Any] = batch.split(parts)
        return found

    def name(self, batch: Any) -> str:
        """Which examples a batch holds."""
        return listed(self.noun, batch.index)


def rooms(lengths: Iterable[int]) -> list[int]:
    """How long what is written of each text may become where nobody says it, end included.

    Example:
        >>> rooms([3, 20])
        [16, 50]
    """
    return [2 * length + 10 for length in lengths]


def per_token(total: float, count: int) -> dict[str, float]:
    """The mean of a loss that was summed over `count` tokens, and its exponential.

    Example:
        >>> per_token(0.0, 5)
        {'loss': 0.0, 'perplexity': 1.0}
    """
    mean = total / max(1, count)
    return {"loss": mean, "perplexity": math.exp(min(mean, 700.0))}


def warn_cut(texts: Sequence[Any], left_out: Sequence[int], longest: int) -> None:
    """Says in a line which texts are longer than a model reads, and how much of them is left out.

    Args:
        texts: Texts, or pairs of them.
        left_out: The tokens of each that are left out.
        longest: The most tokens the model reads.
    """
    cut = [place for place, count in enumerate(left_out) if count]
    if not cut:
        return
    first, several = cut[0], len(texts) > 1
    text = texts[first] if isinstance(texts[first], str) else " ".join(texts[first])
    name = repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
    _logger.warning(
        "warning: %s%s is cut: its last %d tokens are left out, the model reads %d at once%s",
        f"text {first + 1}, " if several else "",
        name,
        left_out[first],
        longest,
        f"; so are parts of {len(cut) - 1} more" if len(cut) > 1 else "",
    )


def listed(what: str, index: Sequence[int]) -> str:
    """The first of the examples that a batch holds, by name, for the log of a bad one.

    Example:
        >>> listed("pairs", range(20))
        'pairs 0, 1, 2, 3, 4, 5, 6, 7, …'
    """
    shown = ", ".join(map(str, index[:8]))
    return f"{what} {shown}{', …' if len(index) > 8 else ''}"
