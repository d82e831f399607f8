"""Documents -> token ids in a file on disk: the input of pretraining, which may exceed memory.

In: the pieces of documents, from files or any other `Text`, and a tokenizer. Out: a `Corpus`: the
ids of all documents, concatenated in one memory-mapped file; each document ends with the end
symbol. Measuring a text, sampling it for a vocabulary and encoding it are streams that hold at most
some million characters at a time.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.data.order import generator, random_order
from regard.data.text.cache import finish, key_of, new_folder, write_array
from regard.data.text.documents import DocumentPiece, Text, cut
from regard.data.text.ranges import Ranges
from regard.errors import InputError
from regard.runtime.files import write_synced

if TYPE_CHECKING:
    from regard.inputs.text.tokenizer import Tokenizer

BLOCK = 2**12
"""The most characters of a block: the vocabulary's sample contains a block whole or not at all."""
AT_ONCE = 2**20
"""Characters that are encoded together: enough to use all cores, few enough to keep in memory."""
VERSION = 1
"""Version of the cache's file format; it is part of the cache key."""
Progress = Callable[[int], None]
"""Called with the number of characters done so far."""


@dataclass(frozen=True)
class Survey:
    """The result of one pass over a text: the lengths of its documents, and a sample."""

    texts: list[str]
    """A sample of the training part of the text, in its order, to learn a vocabulary from."""
    characters: NDArray[np.int64]
    """(documents,) The length of each document in characters."""
    skipped: dict[str, int]


def survey(
    text: Text,
    *,
    characters: int = 2**24,
    held_out: float = 0.0,
    seed: int = 0,
    progress: Progress = lambda _: None,
) -> Survey:
    """Read a text once, measure its documents, and keep a random sample of bounded size.

    Args:
        text: The documents.
        characters: The most characters to keep; a shorter text is kept whole.
        held_out: The fraction that `Corpus.split` will hold out; it is excluded from the sample.
        seed: Seed of the split and of the sample.
        progress: Called with the number of characters read.

    Raises:
        InputError: If there is no document.
    """
    random = generator(seed)
    skipped: Counter[str] = Counter()
    sizes, size, done = array("q"), 0, 0
    sample: list[tuple[float, int, int, str]] = []  # random number, document, position, block
    kept_characters, chance = 0, 1.0
    for piece in text.pieces(skipped):
        for block in cut(piece.text, BLOCK):
            lot = random.random()
            if lot < chance:
                sample.append((lot, len(sizes), size, block))
                kept_characters += len(block)
            size += len(block)
            # If there is too much, about half of the blocks are dropped: a block stays if its
            # random number is below `chance`, so that all blocks have the same probability.
            while kept_characters > characters and len(sample) > 1:
                chance /= 2
                sample = [row for row in sample if row[0] < chance]
                kept_characters = sum(len(kept_block) for *_, kept_block in sample)
        done += len(piece.text)
        if piece.last:
            sizes.append(size)
            size = 0
        progress(done)
    counts = np.frombuffer(sizes, dtype=np.int64)
    _check_not_empty(len(counts), skipped)
    mask = choose(counts, held_out, seed)
    ends = counts if mask is not None else _lengths_without_tails(counts, held_out)
    texts = [
        block
        for _, document, position, block in sample
        if (mask is None or not mask[document]) and position < ends[document]
    ]
    return Survey(texts, counts, dict(skipped))


def choose(sizes: NDArray[np.int64], fraction: float, seed: int) -> NDArray[np.bool_] | None:
    """Choose the documents to hold out: a pure function of the arguments.

    Args:
        sizes: (documents,) The length of each document.
        fraction: The most of the text to hold out.
        seed: Seed of the random choice.

    Returns:
        (documents,) True for held-out documents; None if every document is longer than this
        fraction of the text, in which case the end of each document is to be held out.
    """
    mask = np.zeros(len(sizes), dtype=np.bool_)
    budget = fraction * float(sizes.sum())
    if not budget:
        return mask
    order = random_order(generator(seed), len(sizes))
    candidates = order[sizes[order] <= budget]
    mask[candidates[np.cumsum(sizes[candidates]) <= budget]] = True
    return mask if mask.any() else None


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents as token ids, concatenated in one array, which may be a memory-mapped file.

    A corpus may use only some of the documents in `ids`; positions in "the concatenation of its
    documents" below count only the tokens of these.

    Attributes:
        ids: (tokens,) The ids of documents, each ended by the end symbol.
        starts: (documents,) Index in `ids` of each document's first token.
        stops: (documents,) Index in `ids` after each document's last token.
        characters: (documents,) Length of each document as text, if it is known.
        skipped: Number of skipped lines, by kind of problem.
        checksums: SHA-256 of each file or source, by name.
    """

    ids: NDArray[Any]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    characters: NDArray[np.int64] | None = None
    skipped: dict[str, int] = field(default_factory=dict)
    checksums: dict[str, str] = field(default_factory=dict)

    @cached_property
    def documents(self) -> Ranges:
        """The range of each document in `ids`."""
        return Ranges(self.starts, self.stops - self.starts)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def tokens(self) -> int:
        """The number of tokens of all documents, end symbols included."""
        return int(self.stops.sum()) - int(self.starts.sum())

    def document(self, number: int) -> NDArray[np.int64]:
        """Return the ids of one document, with its end symbol."""
        return self.ids[self.starts[number] : self.stops[number]].astype(np.int64)

    def index_of(self, position: int) -> int:
        """Convert a position in the concatenation of the documents to an index in `ids`."""
        return int(self.documents.between(position, position + 1).starts[0])

    def between(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the ids from `start` to `stop` in the concatenation of the documents."""
        if start >= stop:
            return np.zeros(0, dtype=np.int64)
        return self.ids[self.documents.between(start, stop).indices()].astype(np.int64)

    def part(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Corpus:
        """Return a corpus of other documents, which are ranges of the same array of ids."""
        return replace(self, starts=starts, stops=stops, characters=None)

    def split(self, held_out: float, seed: int) -> tuple[Corpus, Corpus]:
        """Split into a training and a held-out corpus, which share the array of ids.

        Whole documents are held out. If every document is longer than the fraction, as in a corpus
        of a single document, the last tokens of each document are held out.

        Args:
            held_out: The fraction of the text to hold out.
            seed: Seed of the random choice.

        Returns:
            The training corpus and the held-out corpus.

        Raises:
            InputError: If one of them would have no tokens.
        """
        sizes = self.documents.sizes if self.characters is None else self.characters
        mask = choose(sizes, held_out, seed)
        if mask is not None:
            parts = [self.part(self.starts[rows], self.stops[rows]) for rows in (~mask, mask)]
        else:
            cuts = self.starts + _lengths_without_tails(self.documents.sizes, held_out)
            parts = [self.part(self.starts, cuts), self.part(cuts, self.stops)]
        if min(part.tokens - len(part) for part in parts) < 1:
            raise InputError(
                f"data.held_out={held_out}",
                got=f"{self.tokens} tokens in {len(self)} documents",
                expected="enough to train on and to validate with",
                fix="give more text, or a data.valid",
            )
        return parts[0], parts[1]


def encode(
    text: Text,
    tokenizer: Tokenizer,
    cache: Path,
    *,
    begin: bool = False,
    progress: Progress = lambda _: None,
) -> Corpus:
    """Encode a text, or open it from the cache if it was encoded before.

    The cache key is a hash of the files' contents, the settings and the tokenizer, not of the
    files' paths.

    Args:
        text: The documents.
        tokenizer: Text -> ids.
        cache: The folder of encoded corpora; created if missing.
        begin: Whether each document starts with the begin symbol, so that a model learns how
            documents begin.
        progress: Called with the number of characters encoded.

    Raises:
        InputError: If a file cannot be used, or there is no document.
        WriteError: If the ids cannot be written; no partial files are left.
    """
    checksums = text.checksums()
    frame = ([tokenizer.begin] if begin else [], [tokenizer.end])
    depends_on = {
        "version": VERSION,
        "text": list(checksums.values()),
        "settings": text.settings(),
        "tokenizer": hashlib.sha256(tokenizer.to_json().encode()).hexdigest(),
        "frame": frame,
    }
    folder = cache / key_of(depends_on)
    corpus = _open(folder, checksums)
    if corpus is None:
        state = "the text is not encoded; no partial files are left"
        new = new_folder(folder, lambda path: _open(path, checksums) is not None, state)
        with new as temporary:
            _write_corpus(temporary, text, tokenizer, frame, progress)
        corpus = _open(folder, checksums)
    assert corpus is not None
    return corpus


def _write_corpus(
    folder: Path,
    text: Text,
    tokenizer: Tokenizer,
    frame: tuple[list[int], list[int]],
    progress: Progress,
) -> None:
    """Encode a text, and write ids, document ends and lengths into a folder."""
    kind = np.dtype(np.uint16 if tokenizer.vocab <= 2**16 else np.uint32)
    skipped: Counter[str] = Counter()
    stops, sizes = array("q"), array("q")
    tokens = size = done = 0
    is_first = True  # whether the next piece begins a document
    with (folder / "ids.bin").open("wb") as file:
        for pieces in _group_pieces(text.pieces(skipped)):
            rows = tokenizer.encode_batch([piece.text for piece in pieces])
            for piece, row in zip(pieces, rows, strict=True):
                ids = [*(frame[0] if is_first else ()), *row, *(frame[1] if piece.last else ())]
                file.write(np.array(ids, dtype=kind).tobytes())
                tokens, size, is_first = tokens + len(ids), size + len(piece.text), piece.last
                if is_first:
                    stops.append(tokens)
                    sizes.append(size)
                    done, size = done + size, 0
            progress(done + size)
        finish(file)
    _check_not_empty(len(stops), skipped)
    write_array(folder / "stops.npy", np.frombuffer(stops, dtype=np.int64))
    write_array(folder / "characters.npy", np.frombuffer(sizes, dtype=np.int64))
    facts = {"dtype": kind.name, "tokens": tokens, "skipped": dict(skipped)}
    write_synced(folder / "corpus.json", json.dumps(facts).encode())


def _group_pieces(pieces: Iterator[DocumentPiece]) -> Iterator[list[DocumentPiece]]:
    """Group pieces into lists of about `AT_ONCE` characters, to be encoded together."""
    group: list[DocumentPiece] = []
    size = 0
    for piece in pieces:
        group.append(piece)
        size += len(piece.text)
        if size >= AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group


def _open(folder: Path, checksums: dict[str, str]) -> Corpus | None:
    """Open the corpus in a folder; None if it is missing or incomplete."""
    try:
        facts = json.loads((folder / "corpus.json").read_bytes())
        kind = np.dtype(facts["dtype"])
        if (folder / "ids.bin").stat().st_size != facts["tokens"] * kind.itemsize:
            return None
        stops = np.load(folder / "stops.npy", mmap_mode="r")
        characters = np.load(folder / "characters.npy", mmap_mode="r")
        ids = np.memmap(folder / "ids.bin", dtype=kind, mode="r")
    except (OSError, ValueError, KeyError, TypeError):  # files of the cache may be missing
        return None
    if not len(stops) or len(stops) != len(characters) or stops[-1] != len(ids):
        return None
    starts = np.concatenate([[0], stops[:-1]])
    return Corpus(ids, starts, stops, characters, facts["skipped"], checksums)


def _lengths_without_tails(sizes: NDArray[np.int64], fraction: float) -> NDArray[np.int64]:
    """Compute the length of each document without its last fraction, which is held out."""
    return np.floor(sizes * (1 - fraction)).astype(np.int64)


def _check_not_empty(documents: int, skipped: Counter[str]) -> None:
    """Raise an error if there is no document."""
    if not documents:
        problems = ", ".join(f"{count} x {what}" for what, count in skipped.items())
        raise InputError("the text", got=problems or "nothing", expected="at least one document")
