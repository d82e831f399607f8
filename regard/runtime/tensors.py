"""A file of tensors (safetensors), read once, each number straight to its place in memory.

In: an open file. Out: what its header says, then tensors by name, each in memory of its own. The
library's readers map the file, or copy its bytes first: either way a model would take its memory
twice while it is loaded. A header is believed only where all of it fits the file, so that none can
ask for more memory than the file has bytes.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.runtime.files import PIECE

LARGEST = 2**24
"""Bytes of a header that are read: some hundred for each tensor."""
LARGE = 2**17
"""Bytes of a tensor from which on it has pages of its own."""
MOST_SIZES = 64
"""Dimensions of a tensor."""
KINDS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "C64": torch.complex64,
}
"""The format's names of the kinds of numbers."""
_PRIVATE: Any = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)
"""Memory that a forked process gets a copy of."""
REAL = {kind for kind in KINDS.values() if kind.is_floating_point}
"""Those that a weight can be of."""


class Readable(Protocol):
    """What is read from: a file, or one that is compared with its checksum on the way."""

    def readinto(self, place: memoryview, /) -> int | None:
        """Fills a place as far as there are bytes; gives how many."""


@dataclass(frozen=True)
class Entry:
    """What a header says of a tensor."""

    kind: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def count(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)


class TensorFile:
    """The tensors of a file, its header read.

    Args:
        file: Stands at its beginning.
        size: How many bytes it has.

    Attributes:
        entries: By name, in the order of the file.
        remarks: What else the header says, by name.

    Raises:
        ValueError: The header is none, or does not fit the file.
    """

    def __init__(self, file: Readable, size: int) -> None:
        self._file, self._buffer = file, bytearray(PIECE)
        if size < 8:
            raise ValueError(f"{size} bytes, which are too few for a header")
        start = bytearray(8)
        _fill(file, memoryview(start))
        length = int.from_bytes(start, "little")
        if length > min(LARGEST, size - 8):
            most = min(LARGEST, size - 8)
            raise ValueError(f"a header of {length:,} bytes, of which at most {most:,} can be")
        text = bytearray(length)
        _fill(file, memoryview(text))
        self.entries, self.remarks = _parsed(bytes(text))
        _check_places(self.entries, size - 8 - length)

    @property
    def numbers(self) -> int:
        """How many numbers all tensors have together."""
        return sum(entry.count for entry in self.entries.values())

    def read(self, wide: Collection[torch.dtype] = ()) -> dict[str, Tensor]:
        """The tensors by name; to be asked for once.

        Args:
            wide: Kinds of numbers that are stored in 32 bits while they are read.

        Raises:
            ValueError: The file ends before its last tensor does.
        """
        return {name: self._read(entry, wide) for name, entry in self.entries.items()}

    def _read(self, entry: Entry, wide: Collection[torch.dtype]) -> Tensor:
        widened = entry.kind in wide and entry.kind != torch.float32
        found = _empty(entry.count, torch.float32 if widened else entry.kind)
        if widened:
            self._widen(entry, found)
        elif entry.count:
            _fill(self._file, found.view(torch.uint8).numpy().data)
        try:
            return found.reshape(entry.shape)
        except RuntimeError as error:  # an empty one, of sizes that no tensor has
            raise ValueError(f"a tensor of {entry.shape}") from error

    def _widen(self, entry: Entry, found: Tensor) -> None:
        """Reads through the buffer."""
        numbers = torch.frombuffer(self._buffer, dtype=entry.kind)
        for piece in torch.split(found, len(numbers)):
            count = len(piece)
            _fill(self._file, memoryview(self._buffer)[: count * entry.kind.itemsize])
            piece.copy_(numbers[:count])


def _empty(count: int, kind: torch.dtype) -> Tensor:
    """A place for numbers; a large one goes back to the system as soon as it is let go.

    What malloc is given back it often keeps: if matrices are turned or joined one after the other,
    holes as large as a fifth of a model are left between them.
    """
    if (size := count * kind.itemsize) < LARGE:
        return torch.empty(count, dtype=kind)
    return torch.frombuffer(mmap.mmap(-1, size, **_PRIVATE), dtype=kind)


def _fill(file: Readable, place: memoryview) -> None:
    """Reads as many bytes as a place has."""
    done = 0
    while done < len(place):
        more = file.readinto(place[done : done + PIECE])
        if not more:
            raise ValueError("the end of the file before that of its tensors")
        done += more


def _parsed(text: bytes) -> tuple[dict[str, Entry], dict[str, str]]:
    """The tensors and the remarks of a header."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a header that is no JSON ({error})") from None
    if not isinstance(header, dict):
        raise ValueError("a header that is no JSON object")  # noqa: TRY004 (as all of these)
    remarks = header.pop("__metadata__", None) or {}
    if not isinstance(remarks, dict) or not all(isinstance(v, str) for v in remarks.values()):
        raise ValueError("a header whose remarks are no texts")
    entries = {name: _entry(name, said) for name, said in header.items()}
    ordered = sorted(entries.items(), key=lambda each: (each[1].start, each[1].end))
    return dict(ordered), remarks


def _entry(name: str, said: Any) -> Entry:
    """What is said of one tensor, if it can be."""
    try:
        kind, shape, (start, end) = said["dtype"], said["shape"], said["data_offsets"]
        whole = [*shape, start, end]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"no dtype, shape and data_offsets of {name}") from None
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"{name} of the unknown dtype {kind}")
    if len(shape) > MOST_SIZES:
        raise ValueError(f"{name} of {len(shape)} dimensions")
    if not all(type(number) is int and 0 <= number < 2**63 for number in whole):
        raise ValueError(f"{name} with a size or a place that is no whole number")
    entry = Entry(KINDS[kind], tuple(shape), start, end)
    if entry.count * entry.kind.itemsize != end - start:
        raise ValueError(f"{name} of {tuple(shape)} {kind} in {end - start} bytes")
    return entry


def _check_places(entries: dict[str, Entry], size: int) -> None:
    """Refuses tensors that do not stand one behind the other from the first byte to the last."""
    expected = 0
    for name, entry in entries.items():
        if entry.start != expected:
            raise ValueError(f"{name} at byte {entry.start} instead of {expected}")
        expected = entry.end
    if expected != size:
        raise ValueError(f"{size} bytes of tensors where the header has {expected}")
