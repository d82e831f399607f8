"""Documents -> ids on disk: what pretraining reads, larger than memory.

In: the pieces of documents, from files or any other `Text`, and a tokenizer. Out: a `Corpus`: the
ids of all documents end to end in one memory-mapped file, each document closed by the end symbol.
Looking through a text, sampling it for a vocabulary and encoding it are streams: none of them holds
more than some million characters.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.data.text.documents import Piece, Text, cut
from regard.errors import InputError
from regard.runtime.files import reporting, sync, temporary_beside, write_synced

BLOCK = 2**12
"""Characters of the longest stretch that is in the sample for a vocabulary, or is not."""
AT_ONCE = 2**20
"""Characters that are encoded together: enough for all cores, few enough to hold."""
VERSION = 1
"""Of the files in the cache; another number is another key."""
ABANDONED = 24 * 3600
"""Seconds without a write after which half a corpus is known to be a killed process's."""

Progress = Callable[[int], None]
"""Told how many characters are done."""


class Encoder(Protocol):
    """What a corpus needs of a tokenizer; `regard.tokens.Tokenizer` has it."""

    @property
    def vocab(self) -> int:
        """The number of entries."""
        ...

    @property
    def begin(self) -> int:
        """The id of the begin symbol."""
        ...

    @property
    def end(self) -> int:
        """The id of the end symbol."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without begin and end."""
        ...

    def to_json(self) -> str:
        """All that decides the ids."""
        ...


@dataclass(frozen=True)
class Survey:
    """What one look through a text gives: enough to learn a vocabulary from."""

    texts: list[str]
    """A sample of what is not held out, in the order of the text."""
    characters: NDArray[np.int64]
    """(documents,) The length of each document."""
    skipped: dict[str, int]


def survey(
    text: Text,
    *,
    characters: int = 2**24,
    held_out: float = 0.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Survey:
    """Look through a text once, and keep a sample of bounded size.

    Args:
        text: The documents.
        characters: The most to keep; what is shorter is kept whole.
        held_out: The fraction that `Corpus.split` will set aside: it is not in the sample.
        seed: Of the split, and of the sample.
        progress: Told how many characters were read.
    """
    random = np.random.Generator(np.random.PCG64(seed % 2**64))
    skipped: Counter[str] = Counter()
    sizes, size, done = array("q"), 0, 0
    kept: list[tuple[float, int, int, str]] = []  # the block's lot, its document, its place
    held, chance = 0, 1.0
    for piece in text.pieces(skipped):
        for block in cut(piece.text, BLOCK):
            lot = random.random()
            if lot < chance:
                kept.append((lot, len(sizes), size, block))
                held += len(block)
            size += len(block)
            # Half of the blocks go whenever there are too many: all had the same chance to stay.
            while held > characters and len(kept) > 1:
                chance /= 2
                kept = [each for each in kept if each[0] < chance]
                held = sum(len(each[3]) for each in kept)
        done += len(piece.text)
        if piece.last:
            sizes.append(size)
            size = 0
        if progress is not None:
            progress(done)
    counts = np.array(sizes, dtype=np.int64)
    _refuse_nothing(len(counts), skipped)
    aside = choose(counts, held_out, seed)
    ends = counts if aside is not None else _without_tails(counts, held_out)
    texts = [
        block
        for _, document, place, block in kept
        if (aside is None or not aside[document]) and place < ends[document]
    ]
    return Survey(texts, counts, dict(skipped))


def choose(sizes: NDArray[np.int64], fraction: float, seed: int) -> NDArray[np.bool_] | None:
    """Which documents to hold out: a pure function of its arguments.

    Args:
        sizes: The length of each document.
        fraction: How much of the text at most.
        seed: Chooses among the documents.

    Returns:
        (documents,) True for those; None if not even one document is as short as that, so that
        the ends of all of them are to be held out.
    """
    aside = np.zeros(len(sizes), dtype=np.bool_)
    budget = fraction * float(sizes.sum())
    if not budget:
        return aside
    shuffled = np.random.Generator(np.random.PCG64(seed % 2**64)).permutation(len(sizes))
    fits = shuffled[sizes[shuffled] <= budget]
    aside[fits[np.cumsum(sizes[fits]) <= budget]] = True
    return aside if aside.any() else None


class Corpus:
    """Documents as ids, end to end in one array that may be a file larger than memory.

    Args:
        ids: (tokens,) All documents, each closed by the end symbol.
        starts: (documents,) Where each document begins.
        stops: (documents,) Where the next would begin.
        characters: (documents,) How long each was as text.
        skipped: How many lines were left out, by kind of problem.
        checksums: Of what was read, by name.
    """

    def __init__(
        self,
        ids: NDArray[Any],
        starts: NDArray[np.int64],
        stops: NDArray[np.int64],
        *,
        characters: NDArray[np.int64] | None = None,
        skipped: dict[str, int] | None = None,
        checksums: dict[str, str] | None = None,
    ) -> None:
        self.ids, self.starts, self.stops = ids, starts, stops
        self.characters = stops - starts if characters is None else characters
        self.skipped, self.checksums = skipped or {}, checksums or {}
        self.ends = np.cumsum(stops - starts)
        """(documents,) Where each ends if those of this corpus alone stood end to end."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def tokens(self) -> int:
        """How many tokens all documents have, end symbols included."""
        return int(self.ends[-1]) if len(self.ends) else 0

    def document(self, number: int) -> NDArray[np.int64]:
        """The ids of one document, with its end symbol."""
        return self.ids[self.starts[number] : self.stops[number]].astype(np.int64)

    def place(self, number: int) -> int:
        """Where a token stands among the ids, counted as if its documents alone stood there."""
        document = int(np.searchsorted(self.ends, number, side="right"))
        return int(self.stops[document] - self.ends[document]) + number

    def between(self, start: int, stop: int) -> NDArray[np.int64]:
        """The ids from one place to another, as if its documents alone stood end to end."""
        if start >= stop:
            return np.zeros(0, dtype=np.int64)
        first, last = np.searchsorted(self.ends, [start, stop - 1], side="right").tolist()
        # document i has place p at ids[p + shift[i]]
        shift = self.stops[first : last + 1] - self.ends[first : last + 1]
        begins = np.maximum(self.starts[first : last + 1], start + shift)
        finishes = np.minimum(self.stops[first : last + 1], stop + shift)
        slices = zip(begins.tolist(), finishes.tolist(), strict=True)
        parts = [self.ids[begin:finish] for begin, finish in slices]
        return np.concatenate(parts).astype(np.int64)

    def split(self, held_out: float, seed: int) -> tuple[Corpus, Corpus]:
        """Part a corpus in two that share its ids: to train on, and held out.

        Whole documents are held out; of documents that are all longer than that fraction, such as
        a corpus of a single one, the last of the tokens of each.

        Raises:
            InputError: If there is too little of it.
        """
        aside = choose(self.characters, held_out, seed)
        if aside is not None:
            parts = self._chosen(~aside), self._chosen(aside)
        else:
            cuts = self.starts + _without_tails(self.stops - self.starts, held_out)
            parts = self._cut(self.starts, cuts), self._cut(cuts, self.stops)
        if min(part.tokens - len(part) for part in parts) < 1:
            raise InputError(
                f"data.held_out={held_out}",
                got=f"{self.tokens} tokens in {len(self)} documents",
                expected="enough to train on and to validate with",
                fix="give more text, or a data.valid",
            )
        return parts

    def _chosen(self, which: NDArray[np.bool_]) -> Corpus:
        return self._cut(self.starts[which], self.stops[which], self.characters[which])

    def _cut(
        self,
        starts: NDArray[np.int64],
        stops: NDArray[np.int64],
        characters: NDArray[np.int64] | None = None,
    ) -> Corpus:
        return Corpus(
            self.ids,
            starts,
            stops,
            characters=characters,
            skipped=self.skipped,
            checksums=self.checksums,
        )


def encode(
    text: Text,
    tokenizer: Encoder,
    cache: Path,
    *,
    begin: bool = False,
    progress: Progress | None = None,
) -> Corpus:
    """The ids of a text, from the cache if it was encoded before.

    The same bytes, settings and vocabulary have one place in the cache, wherever the files lie.

    Args:
        text: The documents.
        tokenizer: Text -> ids.
        cache: The folder of encoded corpora; made if it is not there.
        begin: Whether a document opens with the begin symbol, so that a model learns what
            documents begin with.
        progress: Told how many characters were encoded.

    Raises:
        InputError: If a file cannot be used, or there is no document.
        WriteError: If the ids cannot be kept; nothing half is left.
    """
    checksums = text.checksums()
    frame = ([tokenizer.begin] if begin else [], [tokenizer.end])
    decides = {
        "version": VERSION,
        "text": list(checksums.values()),
        "settings": text.settings(),
        "tokenizer": hashlib.sha256(tokenizer.to_json().encode()).hexdigest(),
        "frame": frame,
    }
    key = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
    folder = cache / key[:32]
    kept = _open(folder, checksums)
    if kept is not None:
        return kept
    with reporting(str(folder), "the text is not encoded; nothing half is left"):
        cache.mkdir(parents=True, exist_ok=True)
        _sweep(cache)
        with temporary_beside(folder) as temporary:
            temporary.mkdir()
            _fill(temporary, text, tokenizer, frame, progress)
            if _open(folder, checksums) is None:  # else another process was faster
                shutil.rmtree(folder, ignore_errors=True)  # one that could not be opened
                temporary.rename(folder)
                sync(cache)
    kept = _open(folder, checksums)
    assert kept is not None
    return kept


def _fill(
    folder: Path,
    text: Text,
    tokenizer: Encoder,
    frame: tuple[list[int], list[int]],
    progress: Progress | None,
) -> None:
    """Encode a text into the files of a folder."""
    kind = np.dtype(np.uint16 if tokenizer.vocab <= 2**16 else np.uint32)
    skipped: Counter[str] = Counter()
    stops, sizes = array("q"), array("q")
    written = size = done = 0
    fresh = True  # whether the next piece begins a document
    with (folder / "ids.bin").open("wb") as file:
        for pieces in _handfuls(text.pieces(skipped)):
            rows = tokenizer.encode_batch([piece.text for piece in pieces])
            for piece, row in zip(pieces, rows, strict=True):
                ids = [*(frame[0] if fresh else ()), *row, *(frame[1] if piece.last else ())]
                file.write(np.array(ids, dtype=kind).tobytes())
                written, size, fresh = written + len(ids), size + len(piece.text), piece.last
                if fresh:
                    stops.append(written)
                    sizes.append(size)
                    done, size = done + size, 0
            if progress is not None:
                progress(done + size)
        file.flush()
        os.fsync(file.fileno())
    _refuse_nothing(len(stops), skipped)
    _keep(folder / "stops.npy", np.array(stops, dtype=np.int64))
    _keep(folder / "characters.npy", np.array(sizes, dtype=np.int64))
    facts = {"dtype": kind.name, "tokens": written, "skipped": dict(skipped)}
    write_synced(folder / "corpus.json", json.dumps(facts).encode())


def _handfuls(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """As many pieces as are encoded together."""
    held: list[Piece] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece.text)
        if size >= AT_ONCE:
            yield held
            held, size = [], 0
    if held:
        yield held


def _open(folder: Path, checksums: dict[str, str]) -> Corpus | None:
    """The corpus in a folder; None if there is none, or not all of it."""
    try:
        facts = json.loads((folder / "corpus.json").read_bytes())
        kind = np.dtype(facts["dtype"])
        if (folder / "ids.bin").stat().st_size != facts["tokens"] * kind.itemsize:
            return None
        stops = np.load(folder / "stops.npy")
        characters = np.load(folder / "characters.npy")
        ids = np.memmap(folder / "ids.bin", dtype=kind, mode="r")
    except (OSError, ValueError, KeyError, TypeError):  # a cache may be deleted, in part too
        return None
    if not len(stops) or len(stops) != len(characters) or stops[-1] != len(ids):
        return None
    starts = np.concatenate([[0], stops[:-1]])
    return Corpus(
        ids,
        starts,
        stops,
        characters=characters,
        skipped=facts["skipped"],
        checksums=checksums,
    )


def _keep(path: Path, numbers: NDArray[np.int64]) -> None:
    data = io.BytesIO()
    np.save(data, numbers, allow_pickle=False)
    write_synced(path, data.getvalue())


def _sweep(cache: Path) -> None:
    """Remove what a process that was killed left half written, if it is long ago."""
    for folder in cache.glob(".*.tmp-*"):
        with contextlib.suppress(OSError):
            latest = max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
            if time.time() - latest > ABANDONED:
                shutil.rmtree(folder)


def _without_tails(sizes: NDArray[np.int64], fraction: float) -> NDArray[np.int64]:
    """How much of each document is left when the last fraction of it is held out."""
    kept: NDArray[np.int64] = np.floor(sizes * (1 - fraction)).astype(np.int64)
    return kept


def _refuse_nothing(documents: int, skipped: Counter[str]) -> None:
    if not documents:
        found = ", ".join(f"{count} x {what}" for what, count in skipped.items())
        raise InputError("the text", got=found or "nothing", expected="at least one document")
