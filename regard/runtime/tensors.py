"""Reads a safetensors file directly into the memory of its tensors.

In: an open file. Out: the contents of its header, then the tensors by name, each in its own memory.
The readers of the safetensors library map the file or copy its bytes first; either way a model
would take its memory twice while it is loaded. A header is accepted only if all of it fits the
file, so that no file can claim more memory than it has bytes.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.runtime.files import PIECE

LARGEST = 2**24
"""Largest header in bytes; about a hundred bytes are needed for each tensor."""
LARGE, PAGE = 2**17, 2**21
"""Tensors of at least this many bytes get their own memory pages; the size of a large page."""
MOST_SIZES = 64
"""Most dimensions of a tensor."""
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
"""Names of data types in the safetensors format -> PyTorch's."""
_PRIVATE: Any = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)
"""Arguments of `mmap` for memory that a forked process gets a copy of, instead of sharing it."""
FLOAT_TYPES = {kind for kind in KINDS.values() if kind.is_floating_point}
"""The data types that weights can have."""


class Readable(Protocol):
    """A file to read from; its checksum may be computed meanwhile."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Reads bytes into a buffer; returns how many."""


@dataclass(frozen=True)
class TensorRecord:
    """The header's entry for one tensor; `start` and `end` are bytes after the header."""

    kind: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


class TensorFile:
    """A safetensors file whose header has been read and checked.

    Args:
        file: An open file, at its beginning.
        size: The file's size in bytes.

    Attributes:
        entries: The tensors' entries by name, in the order of the file.
        metadata: The metadata of the header by name.

    Raises:
        ValueError: The header is invalid, or does not fit the file.
    """

    def __init__(self, file: Readable, size: int) -> None:
        self._file, self._buffer = file, bytearray(PIECE)
        if size < 8:
            raise ValueError(f"{size} bytes, which are too few for a header")
        start = bytearray(8)
        _fill(file, memoryview(start))
        length = int.from_bytes(start, "little")
        if length > min(LARGEST, size - 8):
            limit = min(LARGEST, size - 8)
            raise ValueError(f"a header of {length:,} bytes, where at most {limit:,} are possible")
        text = bytearray(length)
        _fill(file, memoryview(text))
        self.records, self.metadata = _parse_header(bytes(text))
        _check_offsets(self.records, size - 8 - length)

    @property
    def numbers(self) -> int:
        """The number of elements of all tensors together."""
        return sum(record.count for record in self.records.values())

    def read(self, wide: Collection[torch.dtype] = ()) -> dict[str, Tensor]:
        """Reads all tensors by name; can be called once only.

        Args:
            wide: Data types that are converted to 32-bit floats while they are read.

        Raises:
            ValueError: The file ends before its last tensor does.
        """
        return {name: self._read_tensor(record, wide) for name, record in self.records.items()}

    def _read_tensor(self, record: TensorRecord, wide: Collection[torch.dtype]) -> Tensor:
        """Reads one tensor, in 32 bits if its data type is among `wide`."""
        widened = record.kind in wide and record.kind != torch.float32
        tensor = empty_pages(record.count, torch.float32 if widened else record.kind)
        if widened:
            self._read_widened(record, tensor)
        elif record.count:
            _fill(self._file, tensor.view(torch.uint8).numpy().data)
        try:
            return tensor.reshape(record.shape)
        except RuntimeError as error:  # an empty tensor with a shape that PyTorch refuses
            raise ValueError(f"a tensor of {record.shape}") from error

    def _read_widened(self, record: TensorRecord, out: Tensor) -> None:
        """Reads a tensor piece by piece through the buffer, and converts it into `out`."""
        numbers = torch.frombuffer(self._buffer, dtype=record.kind)
        for piece in torch.split(out, len(numbers)):
            count = len(piece)
            _fill(self._file, memoryview(self._buffer)[: count * record.kind.itemsize])
            piece.copy_(numbers[:count])


def empty_pages(count: int, kind: torch.dtype) -> Tensor:
    """Allocates an uninitialized tensor, (count,); a large one in its own memory pages.

    Such pages go back to the operating system as soon as the tensor is freed, whereas malloc often
    keeps freed memory: when matrices are transposed or joined one after the other, that would leave
    holes of up to a fifth of the model's size. They are large pages (2 MiB) where the system has
    such: a matrix is read up to 15% faster from them.
    """
    if (size := count * kind.itemsize) < LARGE:
        return torch.empty(count, dtype=kind)
    if size < PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.frombuffer(mmap.mmap(-1, size, **_PRIVATE), dtype=kind)
    # A large page begins at a multiple of its size. Addresses that are not used take no memory.
    pages = mmap.mmap(-1, size + PAGE, **_PRIVATE)
    start = -torch.frombuffer(pages, dtype=torch.uint8).data_ptr() % PAGE
    with contextlib.suppress(OSError):
        pages.madvise(mmap.MADV_HUGEPAGE, start, size // PAGE * PAGE)
    return torch.frombuffer(pages, dtype=kind, count=count, offset=start)


def find_not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the first tensor that holds NaN or infinity; None if all numbers are finite.

    Example:
        >>> find_not_finite({"a": torch.ones(2), "b": torch.tensor([1.0, math.nan])})
        'b'
    """
    for name, tensor in tensors.items():
        # aminmax needs one pass and no copy, and gives NaN if any number is NaN.
        if tensor.is_floating_point() and tensor.numel():
            least, largest = torch.aminmax(tensor.detach())
            if not (math.isfinite(least) and math.isfinite(largest)):
                return name
    return None


def _fill(file: Readable, buffer: memoryview) -> None:
    """Fills a buffer completely; raises ValueError if the file ends before."""
    done = 0
    while done < len(buffer):
        count = file.readinto(buffer[done : done + PIECE])
        if not count:
            raise ValueError("a file that ends before its tensors do")
        done += count


def _parse_header(text: bytes) -> tuple[dict[str, TensorRecord], dict[str, str]]:
    """Parses a header: entries of the tensors, sorted by position, and metadata."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a header that is not JSON ({error})") from None
    if not isinstance(header, dict):
        raise ValueError("a header that is not a JSON object")  # noqa: TRY004 (as all of these)
    metadata = header.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError("a header whose metadata are not strings")
    records = {name: _parse_record(name, entry) for name, entry in header.items()}
    ordered = sorted(records.items(), key=lambda item: (item[1].start, item[1].end))
    return dict(ordered), metadata


def _parse_record(name: str, values: Any) -> TensorRecord:
    """Checks and converts the header's entry for one tensor."""
    try:
        kind, shape, (start, end) = values["dtype"], values["shape"], values["data_offsets"]
        sizes_and_offsets = [*shape, start, end]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"no dtype, shape and data_offsets of {name}") from None
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"{name} of the unknown dtype {kind}")
    if len(shape) > MOST_SIZES:
        raise ValueError(f"{name} of {len(shape)} dimensions")
    if not all(type(number) is int and 0 <= number < 2**63 for number in sizes_and_offsets):
        raise ValueError(f"{name} with a size or an offset that is not a whole number")
    record = TensorRecord(KINDS[kind], tuple(shape), start, end)
    if record.count * record.kind.itemsize != end - start:
        raise ValueError(f"{name} of {tuple(shape)} {kind} in {end - start} bytes")
    return record


def _check_offsets(records: dict[str, TensorRecord], size: int) -> None:
    """Refuses tensors that do not fill the file one after the other, without gaps or overlaps."""
    expected = 0
    for name, record in records.items():
        if record.start != expected:
            raise ValueError(f"{name} at byte {record.start} instead of {expected}")
        expected = record.end
    if expected != size:
        raise ValueError(f"{size} bytes of tensors where the header has {expected}")
