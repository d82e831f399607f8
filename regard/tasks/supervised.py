"""What fine-tuning tasks have in common: rows with targets in an order, losses as sums, evaluation.

In: examples with labels and an encoder with a head for them. Out: what the trainer needs. A task of
this kind says how an example becomes rows, what the loss of some rows is, and how good the
predictions are; the head may be new, the encoder pretrained.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import Tensor

from regard.data.batch import Cursor
from regard.data.rows import Row, RowBatch, training
from regard.errors import InputError
from regard.models.config import BertConfig
from regard.models.encoder import Encoder, Texts
from regard.tasks.accuracy import Measures
from regard.tasks.reader import Read, Reader, Text
from regard.tasks.task import listed
from regard.tokens import Vocabulary

LABELLED = ("classify", "tag", "answer")
"""The tasks that put a head of their own on an encoder."""
Example = TypeVar("Example")


@dataclass(frozen=True)
class Course:
    """How examples are read and learned from."""

    longest: int | None = None
    """The most tokens read at once; None: as many as the model can."""
    overlap: int = 64
    """Tokens that two windows of a longer text share."""
    unanswerable: bool = False
    """Whether a question may have no answer."""
    batch_tokens: int = 4096
    smoothing: float = 0.0
    seed: int = 0


class Supervised(Reader, ABC, Generic[Example]):
    """A task that is learned from labels.

    Args:
        vocabulary: Text <-> ids.
        train: Examples to learn from; may be empty when nothing is to be trained.
        valid: Examples to validate with.
        labels: The names of the classes or tags, in the order of the model's.
        course: How they are read and learned from.
    """

    noun = "examples"
    unit = "targets"
    """What `targets` counts, where training says how fast it is."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        train: Sequence[Example] = (),
        valid: Sequence[Example] = (),
        labels: Sequence[str] = (),
        course: Course | None = None,
    ) -> None:
        super().__init__(vocabulary)
        self.course = course or Course()
        self.valid = valid
        room = self.course.longest
        if train and room is None:
            raise ValueError("training needs to know how much the model can read: course.longest")
        self.train = self.rows(train, labels, room) if room is not None else []

    @abstractmethod
    def rows(self, examples: Sequence[Example], labels: Sequence[str], longest: int) -> list[Row]:
        """Examples as an encoder reads them, with what it should say."""

    @abstractmethod
    def loss(self, model: Encoder, batch: RowBatch) -> Tensor:
        """The loss of a batch, a sum over its targets."""

    @abstractmethod
    def targets(self, batch: RowBatch) -> int:
        """How many targets a batch has."""

    @abstractmethod
    def measure(self, model: Encoder, examples: Sequence[Example]) -> Measures:
        """How good the model is on some examples: its mean loss, and the task's own measures."""

    def read(self, texts: Sequence[Text], longest: int, *, symbols: bool = False) -> list[Read]:
        """As any reader does, and at most as much as was read in training."""
        return super().read(texts, self.room(longest), symbols=symbols)

    def room(self, longest: int) -> int:
        """The most tokens to read at once with a model that can read `longest`."""
        return min(longest, self.course.longest or longest)

    def batches(self, start: Cursor) -> Iterator[tuple[RowBatch, Cursor]]:
        """Training batches without end; their order is a pure function of (seed, epoch)."""
        if not self.train:
            raise InputError("training", got="no examples", expected="some to learn from")
        return training(self.train, self.course.batch_tokens, self.course.seed, start)

    def split(self, batch: RowBatch, parts: int) -> list[RowBatch]:
        """The rows of a batch dealt out to several, so that each core has its own."""
        return batch.split(parts)

    def evaluate(self, model: Any) -> dict[str, float]:
        """Measures on the validation examples."""
        return self.measure(model, self.valid).overall

    def name(self, batch: RowBatch) -> str:
        """Which training rows a batch holds."""
        return listed(f"training {self.noun}", batch.index)


def headed(task: str, config: BertConfig) -> BertConfig:
    """The config with the head of a task in place of all others.

    A class is told from the pooled first token, by a pooler as transformers has it for models of
    this kind; tags and answers look at every token, and nothing would look at a pooler.
    """
    kept = {"classify": "classes", "tag": "tags"}.get(task)
    pooler = config.pooler
    if task != "classify":
        pooler = "none"
    elif pooler == "none":
        pooler = "tanh" if config.token_types else "relu"
    names = {key: getattr(config, key) if key == kept else () for key in ("classes", "tags")}
    heads = {"masked": False, "next_sentence": False, "spans": task == "answer"}
    return config.model_copy(update={**names, **heads, "pooler": pooler})


def texts_of(batch: RowBatch) -> Texts:
    """The rows of a batch as an encoder takes them."""
    return Texts(batch.ids, batch.types)


def numbered(labels: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The number of each wanted label.

    Raises:
        InputError: The model does not know one.
    """
    places = {label: place for place, label in enumerate(labels)}
    for label in wanted:
        if label not in places:
            known = ", ".join(labels[:10]) + (", …" if len(labels) > 10 else "")
            raise InputError("the data has a label that is not trained", got=label, expected=known)
    return [places[label] for label in wanted]
