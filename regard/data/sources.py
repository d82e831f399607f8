"""The `data:` section of a recipe -> training, validation and test pairs, with checksums.

In: a generator with its settings, or files. Out: the pairs of each split, the number of bad lines
that were skipped, and a SHA-256 of the data, so that a resumed run can check that it is the same.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from regard.data.config import DataConfig, FileData, GrammarData, MixtureData, PartData, ToyData
from regard.data.synthetic.toy import toy_splits
from regard.data.text.examples import Examples, Reading, collect
from regard.data.text.files import read_pairs
from regard.data.text.pairs import Pair, Splits
from regard.data.text.splits import files_of_splits, hold_out, read_splits
from regard.errors import InputError
from regard.runtime.lazy import imported


@dataclass(frozen=True)
class Loaded:
    """The splits of a dataset of pairs, with counts of skipped lines and checksums."""

    splits: Splits
    skipped: dict[str, int]
    """Number of skipped lines, by kind of problem."""
    checksums: dict[str, str]
    """SHA-256 of each file, by file name; of generated pairs, by `data.kind`."""


def load_splits(config: DataConfig) -> Loaded:
    """Generate or read the pairs that a recipe's `data:` section describes.

    Raises:
        InputError: If a file cannot be used, or the kind of data does not give pairs.
    """
    if isinstance(config, FileData):
        return _read_files(config)
    if isinstance(config, MixtureData):
        return _load_mixture(config)
    if not isinstance(config, GrammarData | ToyData):
        raise InputError("data.kind", got=config.kind, expected="pairs: files, grammar or a toy")
    return _generate_splits(config)


def pairs_of(config: DataConfig, split: str) -> Sequence[Pair]:
    """Return one split of a recipe's pairs: `train`, `valid`, or the name of a test split."""
    splits = load_splits(config).splits
    pairs_by_split = {"train": splits.train, "valid": splits.valid, **splits.tests}
    if split not in pairs_by_split:
        raise InputError("--split", got=split, expected=f"one of {', '.join(pairs_by_split)}")
    return pairs_by_split[split]


def few_pairs(config: DataConfig, count: int) -> Sequence[Pair]:
    """Return the first training pairs, reading or generating no more than needed."""
    if isinstance(config, GrammarData | ToyData):
        smaller = config.model_copy(update={"pairs": count, "held_out": count})
        return load_splits(smaller).splits.train
    if isinstance(config, FileData):
        return _first_pairs(config, config.max_words, count)
    if isinstance(config, MixtureData):
        part = next(iter(config.parts.values()))
        if part.kind in GENERATORS:
            first: Sequence[Pair] = GENERATORS[part.kind](count, count, config.seed).train
        else:
            first = _first_pairs(part, config.max_words, count)
        return [Pair(part.prefix + pair.source, pair.target) for pair in first]
    return ()


def _first_pairs(data: FileData | PartData, max_words: int, count: int) -> Sequence[Pair]:
    """Return the usable pairs among the first `count` lines of training files."""
    files = files_of_splits(data)["train"]
    rows = islice(read_pairs(files, max_words, data.columns), count)
    return [row for row in rows if isinstance(row, Pair)]


GENERATORS: dict[str, Callable[..., Splits]] = {
    "grammar": lambda *counts: imported("regard.data.synthetic.grammar.corpus.splits")(*counts),
    "pronouns": lambda *counts: imported("regard.data.synthetic.jobs.pronouns.splits")(*counts),
    "summaries": lambda *counts: imported("regard.data.synthetic.jobs.summaries.splits")(*counts),
    "questions": lambda *counts: imported("regard.data.synthetic.jobs.questions.splits")(*counts),
}
"""By `data.kind`: (training pairs, held-out pairs, seed) -> splits. A generator is imported when it
is called: using a trained model does not need the grammar."""


def _generate_splits(config: GrammarData | ToyData) -> Loaded:
    """Generate the pairs of a grammar or a toy task, with their digest."""
    excluded = None
    if isinstance(config, GrammarData):
        splits = GENERATORS["grammar"](config.pairs, config.held_out, config.seed, config.longest)
        if config.longest == GrammarData().longest:  # runs from before this setting have none
            excluded = {"longest"}
    else:
        splits = toy_splits(**config.model_dump())
    description = config.model_dump_json(exclude=excluded)
    return Loaded(splits, {}, {config.kind: _digest(splits.train, description)})


def _digest(pairs: Sequence[Pair], settings: str) -> str:
    """SHA-256 of generated pairs and settings; a changed generator changes only the pairs."""
    digest = hashlib.sha256(settings.encode())
    for pair in pairs:
        digest.update(f"\n{pair.source}\t{pair.target}".encode())
    return digest.hexdigest()


def _read_files(config: FileData) -> Loaded:
    """Read the files of each split; a split without a file is held out from training."""
    parts, skipped, checksums = read_splits(
        config,
        read=lambda files: read_pairs(files, config.max_words, config.columns),
        example_type=Pair,
        noun="pair",
        key=GROUP_KEYS[config.group],
        grouping=config.group,
    )
    splits: dict[str, Sequence[Pair]] = {}
    counts = {"valid": config.held_out, "test": config.held_out_test}
    for i, (name, count) in enumerate(counts.items()):
        if name in parts:
            splits[name] = parts[name].as_sequence()
        elif count:
            # Each split has its own seed, so that the validation split does not depend on
            # whether a test split is held out.
            seed = config.seed + i * 2**32
            parts["train"], held_out = hold_out(parts["train"], count, seed, "pair", by_group=True)
            splits[name] = tuple(dict.fromkeys(held_out))
    tests = {"test": splits["test"]} if "test" in splits else {}
    return Loaded(Splits(parts["train"].as_sequence(), splits["valid"], tests), skipped, checksums)


def _load_mixture(config: MixtureData) -> Loaded:
    """Load all parts of a mixture: the part's prefix before each source, its name as a tag."""
    skipped: Counter[str] = Counter()
    checksums: dict[str, str] = {}
    tests: dict[str, Sequence[Pair]] = {}
    valid: list[Pair] = []
    parts = {name: _load_part(part, config) for name, part in config.parts.items()}
    for name, loaded in parts.items():
        prefixed = partial(_with_prefix, prefix=config.parts[name].prefix, name=name)
        valid += prefixed(loaded.splits.valid)
        for test, pairs in loaded.splits.tests.items():
            tests[name if test == "test" else f"{name}_{test}"] = tuple(prefixed(pairs))
        skipped.update(loaded.skipped)
        checksums |= loaded.checksums
    held_out_sources: set[str] = set()
    if config.group == "source":  # two parts may have the same source
        sources = {pair.source for pairs in (valid, *tests.values()) for pair in pairs}
        held_out_sources = set(map(_source_key, sources))
    reading = Reading(
        type=Pair,
        key=GROUP_KEYS["pair"],
        name="data.parts",
        noun="pair",
        depends_on=lambda: {"mixture": config.model_dump(mode="json"), "checksums": checksums},
        size=sum(_size_in_file(loaded.splits.train) for loaded in parts.values()),
    )
    train, _ = collect(partial(_training_pairs, parts, config.parts, held_out_sources), reading)
    return Loaded(Splits(train.as_sequence(), tuple(valid), tests), dict(skipped), checksums)


def _size_in_file(pairs: Sequence[Pair]) -> int:
    """Return about how many bytes pairs take in a file; 0 if they are in memory."""
    return pairs.size if isinstance(pairs, Examples) else 0


def _training_pairs(
    loaded: Mapping[str, Loaded], parts: Mapping[str, PartData], held_out_sources: Collection[str]
) -> Iterator[Pair]:
    """Yield the training pairs of all parts of a mixture, without the sources held out."""
    for name, part in parts.items():
        typed = (_as_typed(pair, part) for pair in loaded[name].splits.train)
        for pair in _with_prefix(typed, part.prefix, name):
            if not held_out_sources or _source_key(pair.source) not in held_out_sources:
                yield pair


DIGEST_KEYS = {"kind", "train", "pairs", "valid", "test", "prefix", "weight", "unpunctuated"}
"""The keys of a generated part that are in its digest. Later keys stay out, so that older runs can
be resumed; a resumed run compares all keys of its recipe anyway."""


def _load_part(part: PartData, config: MixtureData) -> Loaded:
    """Load the pairs of one part, without its prefix."""
    if part.kind != "files":
        splits = GENERATORS[part.kind](part.pairs, config.held_out, config.seed)
        description = part.model_dump_json(include=DIGEST_KEYS)
        return Loaded(splits, {}, {part.kind: _digest(splits.train, description)})
    shared = config.model_dump(exclude={"kind", "parts"})
    files = part.model_dump(include={"train", "valid", "test", *PartData.COLUMNS, "header"})
    return _read_files(FileData(**files, **shared))


def _with_prefix(pairs: Iterable[Pair], prefix: str, name: str) -> Iterator[Pair]:
    """Put the prefix before each source, and the part's name before the other tags."""
    return (Pair(prefix + pair.source, pair.target, (name, *pair.tags)) for pair in pairs)


def _as_typed(pair: Pair, part: PartData) -> Pair:
    """Write a pair as people type: a share without final punctuation, a share in lower case.

    A hash of the pair decides, so that the choice is the same in every run.
    """
    key = f"{pair.source}\t{pair.target}".encode()
    if zlib.crc32(key) < part.unpunctuated * 2**32:
        source, target = (text.rstrip(".!?").rstrip() for text in (pair.source, pair.target))
        if source and target and pair.source != source and pair.target != target:
            pair = replace(pair, source=source, target=target)
    if zlib.crc32(b"lowercase\t" + key) < part.lowercase * 2**32:
        pair = replace(pair, source=pair.source.lower())
    return pair


def _source_key(source: str) -> str:
    """Return a source without case, spaces and punctuation; unchanged if nothing would be left."""
    return re.sub(r"[\W_]+", "", source.casefold()) or source


GROUP_KEYS: dict[str, Callable[[Pair], Hashable]] = {
    "pair": lambda pair: (pair.source, pair.target),
    "source": lambda pair: _source_key(pair.source),
}
"""By `data.group`: a key that is equal for pairs that must stay in one split."""
