"""The `data:` section of a recipe -> the splits of its corpus, with checksums.

In: which generator with which settings, or which files. Out: training, validation and test pairs,
how many bad lines were skipped, and a SHA-256 of what was read: a resumed run must see the same.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.config import (
    DataConfig,
    FileData,
    Files,
    GrammarData,
    MixtureData,
    PartData,
    ToyData,
)
from regard.data.grammar import splits as grammar_splits
from regard.data.pair import Pair, Splits
from regard.data.text import checksum, load_pairs
from regard.data.toy import toy_splits
from regard.errors import InputError


@dataclass(frozen=True)
class Loaded:
    """A corpus, and what to remember of where it came from."""

    splits: Splits
    skipped: dict[str, int]
    """Lines left out, by kind of problem."""
    checksums: dict[str, str]
    """SHA-256 of each file by its name; of generated text by its kind."""


def load_splits(config: DataConfig) -> Loaded:
    """Generate or read the corpus that a recipe names.

    Raises:
        InputError: If a file cannot be used.
    """
    if isinstance(config, FileData):
        return _read(config)
    if isinstance(config, MixtureData):
        return _mixed(config)
    if not isinstance(config, GrammarData | ToyData):
        raise InputError("data.kind", got=config.kind, expected="pairs: files, grammar or a toy")
    if isinstance(config, GrammarData):
        splits = grammar_splits(config.pairs, config.held_out, config.seed)
    else:
        splits = toy_splits(
            config.kind, config.pairs, config.held_out, config.symbols, config.longest, config.seed
        )
    # The settings alone would not tell that a generator changed between two versions.
    digest = hashlib.sha256(config.model_dump_json().encode())
    for pair in splits.train:
        digest.update(f"\n{pair.source}\t{pair.target}".encode())
    return Loaded(splits, {}, {config.kind: digest.hexdigest()})


def _read(config: FileData) -> Loaded:
    skipped: Counter[str] = Counter()
    parts: dict[str, tuple[Pair, ...]] = {}
    checksums: dict[str, str] = {}
    for name, files in (("train", config.train), ("valid", config.valid), ("test", config.test)):
        if files is None:
            continue
        pairs, bad = load_pairs(files, config.max_words, config.on_bad)
        parts[name] = tuple(pairs)
        skipped.update(bad)
        checksums |= _checksums(files)
    if "valid" not in parts:
        parts["train"], parts["valid"] = _set_aside(parts["train"], config.held_out, config.seed)
    tests = {"test": parts["test"]} if "test" in parts else {}
    return Loaded(Splits(parts["train"], parts["valid"], tests), dict(skipped), checksums)


def _mixed(config: MixtureData) -> Loaded:
    """The pairs of all parts; what to do stands before each source, and a tag names its part."""
    skipped: Counter[str] = Counter()
    checksums: dict[str, str] = {}
    tests: dict[str, tuple[Pair, ...]] = {}
    train: list[Pair] = []
    valid: list[Pair] = []
    for name, part in config.parts.items():
        loaded = _read(_as_files(part, config))
        train += _told(loaded.splits.train, part.prefix, name)
        valid += _told(loaded.splits.valid, part.prefix, name)
        if "test" in loaded.splits.tests:
            tests[name] = _told(loaded.splits.tests["test"], part.prefix, name)
        skipped.update(loaded.skipped)
        checksums |= loaded.checksums
    return Loaded(Splits(tuple(train), tuple(valid), tests), dict(skipped), checksums)


def _as_files(part: PartData, config: MixtureData) -> FileData:
    return FileData(
        train=part.train,
        valid=part.valid,
        test=part.test,
        held_out=config.held_out,
        on_bad=config.on_bad,
        max_words=config.max_words,
        seed=config.seed,
    )


def _told(pairs: Sequence[Pair], prefix: str, name: str) -> tuple[Pair, ...]:
    return tuple(Pair(prefix + pair.source, pair.target, (name,)) for pair in pairs)


def _set_aside(
    pairs: Sequence[Pair], held_out: int, seed: int
) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
    """Part the training pairs into those to train on and those to validate with.

    A pair that stands in the corpus twice is set aside with all its copies.

    Args:
        pairs: All training pairs.
        held_out: How many to set aside; at most a tenth are, and at least one.
        seed: Chooses which.
    """
    unique = list(dict.fromkeys(pairs))
    if len(unique) < 2:
        raise InputError(
            "data.train",
            got="a single pair to train on and to validate with",
            expected="at least 2 different pairs",
            fix="give more pairs, or a data.valid",
        )
    count = max(1, min(held_out, len(unique) // 10))
    random = np.random.Generator(np.random.PCG64(seed % 2**64))
    chosen = sorted(random.permutation(len(unique))[:count].tolist())
    valid = tuple(unique[place] for place in chosen)
    kept_apart = set(valid)
    return tuple(pair for pair in pairs if pair not in kept_apart), valid


def _checksums(files: Files) -> dict[str, str]:
    names = (files,) if isinstance(files, str) else files
    return {name: checksum(name) for name in names}
