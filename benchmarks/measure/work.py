"""The input data of translation benchmarks, as a JSON file: ids of sentence pairs in batches.

Other packages can read the file without ours: `model` has the sizes, `batches` has for each case a
list of batches, each a list of pairs of ids (source, target) without begin and end symbols.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from regard.cost.count import TRAINING, forward_flops
from regard.data.config import Files
from regard.data.order import training_batches
from regard.data.text.encoded import EncodedPairs
from regard.data.text.files import load_pairs
from regard.data.text.pairs import Pair
from regard.inputs.text import TokensConfig, Vocabulary, learn
from regard.inputs.text.kinds import BEGIN, END, PAD, SPECIAL
from regard.models.config import ModelConfig
from regard.models.families import CONFIGS
from regard.models.meta_model import meta_model
from regard.runtime.files import write_file

Ids = tuple[list[int], list[int]]
"""The ids of source and target of a sentence pair."""

SAME, RANDOM = "same batches", "random batches"
"""Cases of training: batches of similar lengths with a token budget; randomly chosen pairs."""
RANDOM_PAIRS = 32
"""Pairs per random batch."""


class WorkFile:
    """A dataclass that is written to a JSON file, which contenders read."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    model: dict[str, Any]

    @property
    def config(self) -> ModelConfig:
        """The config of the model."""
        return CONFIGS[self.model["family"]].model_validate(self.model)

    def save(self, path: Path) -> str:
        """Write the JSON file; returns its path, which contenders get."""
        write_file(path, json.dumps(asdict(self)).encode())
        return str(path)

    @classmethod
    def read(cls, path: str) -> Self:
        """Read a file written by `save`."""
        return cls(**json.loads(Path(path).read_text("utf-8")))


@dataclass(frozen=True)
class Work(WorkFile):
    """A model's sizes and the batches to run it on."""

    model: dict[str, Any]
    source_vocab: int
    target_vocab: int
    batches: Mapping[str, Sequence[Sequence[Ids]]]
    batch_tokens: int = 0
    """The token budget of the batches of similar lengths."""
    begin: int = BEGIN
    end: int = END
    pad: int = PAD

    def flops(self, case: str) -> float:
        """Training FLOPs per real target token of a case; padding does not count."""
        model = meta_model(self.config, self.source_vocab, self.target_vocab)
        cost = cache(lambda source, target: sum(forward_flops(model, source, target).values()))
        lengths = [(len(s), len(t) + 1) for batch in self.batches[case] for s, t in batch]
        total = sum(cost(source, target) for source, target in lengths)
        return TRAINING * total / sum(target for _, target in lengths)


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs as ids, and the vocabulary size of each side."""

    pairs: Sequence[Ids]
    source_vocab: int
    target_vocab: int

    def batches(self, tokens: int, count: int) -> dict[str, list[list[Ids]]]:
        """By case: `count` batches of similar lengths; about as many pairs in random batches."""
        source, target = zip(*self.pairs, strict=True)
        lengths = EncodedPairs(source, target, begin=BEGIN, end=END).lengths.tolist()
        same = [
            [self.pairs[i] for i in batch]
            for batch in training_batches(lengths, tokens, 0, 0)[:count]
        ]
        wanted = max(1, round(sum(map(len, same)) / RANDOM_PAIRS))
        order = np.random.default_rng(0).permutation(len(self.pairs)).tolist()
        starts = range(0, wanted * RANDOM_PAIRS, RANDOM_PAIRS)
        rows = [[self.pairs[i] for i in order[start : start + RANDOM_PAIRS]] for start in starts]
        return {SAME: same, RANDOM: [row for row in rows if row]}


def like_multi30k(count: int, vocab: int) -> Corpus:
    """Random ids with the sentence lengths of Multi30k English-German under a 16k BPE."""
    table = json.loads(files("benchmarks.measure").joinpath("lengths.json").read_text("utf-8"))
    entries = np.asarray(table["pairs"])  # rows of (source length, target length, count)
    random = np.random.default_rng(0)
    drawn = random.choice(len(entries), size=count, p=entries[:, 2] / entries[:, 2].sum())

    def ids(length: int) -> list[int]:
        return random.integers(len(SPECIAL), vocab, size=length).tolist()

    return Corpus([(ids(s), ids(t)) for s, t in entries[drawn, :2].tolist()], vocab, vocab)


def from_files(where: Files, count: int, vocab: int) -> Corpus:
    """Pairs of the user's own parallel text, with a BPE vocabulary learned from it."""
    pairs, _ = load_pairs(where, max_words=250, on_bad="skip")
    vocabulary = learn(pairs, TokensConfig(kind="bpe", vocab=vocab, shared=True))
    chosen = np.random.default_rng(0).permutation(len(pairs))[:count].tolist()
    return encoded([pairs[i] for i in chosen], vocabulary)


def encoded(pairs: Sequence[Pair], vocabulary: Vocabulary) -> Corpus:
    """Encode sentence pairs as ids; pairs with an empty side are left out."""
    source = vocabulary.source.encode_batch([pair.source for pair in pairs])
    target = vocabulary.target.encode_batch([pair.target for pair in pairs])
    both = [(s, t) for s, t in zip(source, target, strict=True) if s and t]
    return Corpus(both, vocabulary.source.vocab, vocabulary.target.vocab)
