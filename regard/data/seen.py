"""What a model was trained on, as a set of hashes: which examples of a test set are not new to it.

In: the training examples, one by one. Out: a `Seen`, a Bloom filter of at most 1 MB that is kept
with the model and says about how many of other examples were among them. No text can be read from
it. An example has one key, or several of which each says more: a pair has the key of its source and
that of source and target. If there are too many examples for the filter, it holds a sample of them,
which their hashes decide; of other examples, those that the sample would hold are looked up.
"""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field, TypeAdapter

from regard.checkpoint.folder import LARGEST as LARGEST_FILES
from regard.checkpoint.folder import SEEN
from regard.config import Config, checked
from regard.errors import InputError
from regard.inputs.text.bloom import Bloom, Keys, keys_of

LARGEST = LARGEST_FILES[SEEN]
"""The most bytes of a stored `Seen`."""
BITS = 28
"""Bits of the filter for each example. With one key, two of a million other examples are found as
well; with two keys, 0.1% of the other first keys, and as few of the examples."""
REPEATED = 0.01
"""The share of a held-out text that may be in the training text, too, as texts repeat themselves:
0.1% to 0.2% of Shakespeare and of Wikipedia."""
_HEADER = 2**10
"""The most bytes of the header of a stored `Seen`."""

Unit = Literal["pairs", "examples", "images", "passages"]


def normalised(text: str) -> str:
    r"""A text without what two copies of it may differ in: form of letters, case, white space.

    Example:
        >>> normalised(" Das  Tier\n")
        'das tier'
    """
    folded = text.lower() if text.isascii() else unicodedata.normalize("NFC", text.casefold())
    return " ".join(folded.split())


def keys_of_texts(examples: Iterable[Sequence[str]]) -> Iterator[Keys]:
    """Yields the key of each example, which has one or more texts: (examples, 1, 2)."""
    for keys in keys_of(_digest_of(*map(normalised, texts)) for texts in examples):
        yield keys[:, None]


def keys_of_pairs(pairs: Iterable[tuple[str, str]]) -> Iterator[Keys]:
    """Yields two keys for each pair, of its source and of source and target: (pairs, 2, 2)."""

    def digests() -> Iterator[bytes]:
        for source, target in pairs:
            first = normalised(source)
            yield _digest_of(first)
            yield _digest_of(first, normalised(target))

    for keys in keys_of(digests()):
        yield keys.reshape(-1, 2, 2)


def _digest_of(*texts: str) -> bytes:
    """Hash texts, one to a line, to 16 bytes."""
    data = "\n".join(texts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).digest()


class _Header(Config):
    """The first line of a stored `Seen`."""

    seen: Literal[1]
    unit: Unit
    hashes: int = Field(ge=1, le=64)
    share: float = Field(gt=0, le=1)
    window: int = Field(ge=0, le=2**20)


@dataclass(frozen=True, eq=False)
class Seen:
    """A set of training examples."""

    unit: Unit
    """What an example is."""
    keys: Bloom
    share: float = 1.0
    """The share of all keys that the set is a sample of."""
    window: int = 0
    """The number of tokens of a passage of plain text; 0 for other examples."""

    @classmethod
    def of(
        cls,
        unit: Unit,
        examples: Iterable[Keys],
        count: int,
        *,
        keys_each: int = 1,
        most: int | None = None,
        window: int = 0,
    ) -> Seen:
        """Builds the set.

        Args:
            unit: What an example is.
            examples: The keys of the examples, some at a time: (examples, keys, 2).
            count: The number of examples.
            keys_each: The number of keys of an example.
            most: The most examples to keep; None: as many as the filter has room for.
            window: The number of tokens of a passage of plain text; 0 for other examples.
        """
        capacity = 8 * (LARGEST - _HEADER) // BITS
        size = min(count, capacity if most is None else min(most, capacity))
        share = size / count if count else 1.0
        training_set = cls(unit, Bloom.empty(size * keys_each, BITS // keys_each), share, window)
        for keys in examples:
            training_set.keys.add(training_set.sampled(keys).reshape(-1, 2))
        return training_set

    def sampled(self, keys: Keys) -> Keys:
        """The examples that belong to the sample; the first key of each decides."""
        if self.share >= 1:
            return keys
        return keys[keys[:, 0, 0] < np.uint64(min(self.share * 2**64, 2**64 - 2**11))]

    def overlap(self, examples: Iterable[Keys]) -> Overlap:
        """Counts the examples that are in the set.

        Args:
            examples: The keys of the examples, some at a time: (examples, keys, 2).
        """
        count = checked = 0
        hits: list[int] = []
        for keys in examples:
            sampled = self.sampled(keys)
            count, checked = count + len(keys), checked + len(sampled)
            inside = self.keys.holds(sampled.reshape(-1, 2)).reshape(sampled.shape[:2])
            new_hits = np.logical_and.accumulate(inside, axis=1).sum(axis=0).tolist()
            hits = [a + b for a, b in zip(hits or [0] * len(new_hits), new_hits, strict=True)]
        return Overlap(self.unit, count, checked, tuple(hits), self.keys.false_share, self.window)

    def to_bytes(self) -> bytes:
        """The set as a line of JSON, followed by the bits of the filter."""
        header = _Header(
            seen=1, unit=self.unit, hashes=self.keys.hashes, share=self.share, window=self.window
        )
        return json.dumps(header.model_dump()).encode() + b"\n" + self.keys.bits.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, file: str) -> Seen:
        """Reads what `to_bytes` has written.

        Args:
            data: The bytes.
            file: The name of the file, for the error.

        Raises:
            InputError: They are something else.
        """
        line, _, bits = data.partition(b"\n")
        try:
            values = json.loads(line[:_HEADER])
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict) or not bits or len(data) > LARGEST:
            got, expected = "no set of training examples", "one that Regard has written"
            raise InputError(file, got=got, expected=expected)
        header = checked(TypeAdapter(_Header), values, file)
        filled = Bloom(np.frombuffer(bits, np.uint8), header.hashes)
        return cls(header.unit, filled, header.share, header.window)


@dataclass(frozen=True)
class Overlap:
    """How many examples of a set were in the training data of a model."""

    unit: Unit
    examples: int
    checked: int
    """The examples that were looked up: all, or those that the sample would hold."""
    hits: tuple[int, ...]
    """The examples whose first key was found, whose first two keys were, and so on."""
    false_share: float
    """The share of keys that are found though they were not added."""
    window: int = 0
    """The number of tokens of a passage."""

    @property
    def in_training(self) -> int:
        """About how many examples were in the training data."""
        return self._estimate(len(self.hits) - 1) if self.hits else 0

    @property
    def sources_alone(self) -> int:
        """About how many more had their first text, the source, in the training data."""
        return max(0, self._estimate(0) - self.in_training) if len(self.hits) > 1 else 0

    def _estimate(self, level: int) -> int:
        """The examples with keys 0 … `level` in the set, without those found by chance.

        A key is looked up by chance with probability p if the keys before it were found, so that of
        n such examples p · n are expected. Fewer than three standard deviations more are none.
        """
        looked_up, p = (self.checked, *self.hits)[level], self.false_share
        by_chance = p * looked_up
        if self.hits[level] <= by_chance + 3 * math.sqrt(by_chance * (1 - p)):
            return 0
        true_hits = (self.hits[level] - by_chance) / (1 - p)
        return round(self.examples * true_hits / self.checked)

    def to_json(self) -> dict[str, Any]:
        """The estimate as JSON values."""
        tokens = {"tokens": self.window} if self.window else {}
        source = {"sources_alone": self.sources_alone} if len(self.hits) > 1 else {}
        return {"about": self.in_training, "of": self.examples, "unit": self.unit} | source | tokens

    def warning(self, *, held_out: bool = False) -> str | None:
        """What to tell about the overlap; None if there is none.

        Args:
            held_out: Whether the examples were held out from the training data. Then what both
                have in common by their nature is no overlap: other translations of the same
                source, and single passages that a long text repeats.

        Example:
            >>> Overlap("pairs", 1000, 1000, (120, 120), 0.001).warning()
            'about 120 of 1,000 pairs were in the training data of this model'
        """
        count, alone = self.in_training, 0 if held_out else self.sources_alone
        in_training = "in the training data of this model"
        if self.window and held_out and count < REPEATED * self.examples:
            return None
        if not count:
            of = f"about {alone:,} of {self.examples:,} {self.unit}"
            return f"the source of {of} was {in_training}" if alone else None
        if self.window:
            share = f"{max(0.001, count / self.examples):.1%} of the text"
            return f"about {share} was {in_training}, in passages of {self.window} tokens"
        sources_too = f", and the source of {alone:,} more" if alone else ""
        return f"about {count:,} of {self.examples:,} {self.unit} were {in_training}{sources_too}"
