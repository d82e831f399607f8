"""Read files of word vectors written by other programs into `WordVectors`.

Formats: word2vec text and binary, GloVe text (no header), fastText `.vec`, each plain or gzipped,
and `.npz` with `words` and `vectors`. The format is detected from the first bytes, not from the
file's name. Nothing in a file can run code. Memory is allocated for the rows that are read, not
for what a header promises, and never more than the machine has. A truncated or damaged file is
rejected with the line number, or in a binary file with the number of the word.
"""

from __future__ import annotations

import gzip
import logging
import os
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.text.records import BOM, UNPACKING, damage_error, reading_error
from regard.errors import InputError
from regard.runtime.device import check_memory
from regard.runtime.files import open_regular
from regard.runtime.npz import PackedArray, open_npz
from regard.vectors.table import Floats, WordVectors

MOST_NUMBERS = 2**14
"""The largest dimension of a vector; the largest in use are a few thousand."""
LONGEST_LINE = 2**20
"""The longest line in bytes: room for a word and `MOST_NUMBERS` numbers."""
LONGEST_WORD = 2**12
"""The longest word in bytes."""
MOST_SPACES = 16
"""The most spaces in a word: GloVe's 840B file contains ". . ." and "at name@domain.com"."""
CHUNK = 2**13
"""The number of rows that are stacked into one array at once."""
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
TRUNCATED = "the file is truncated; download it again"
KNOWN_FORMATS = "word2vec text or binary, GloVe text, fastText .vec (each plain or .gz), or .npz"

_logger = logging.getLogger(__name__)


class _Header(NamedTuple):
    words: int
    dim: int


def read_file(file_name: str | os.PathLike[str]) -> WordVectors:
    """Read the word vectors of a file in any of the known formats.

    Raises:
        InputError: The format is unknown, or the file is truncated, damaged, or too large for
            this machine.
    """
    path = Path(file_name)
    try:
        with open_regular(path) as file:
            start = file.peek(4)[:4]
            if start == ZIP:
                return _read_npz(path, file)
            if start[:2] == GZIP:
                with gzip.GzipFile(fileobj=file) as packed:
                    return _Reader(path, packed).read()
            return _Reader(path, file).read()
    except FileNotFoundError:
        raise InputError(str(path), got="no such file", expected=KNOWN_FORMATS) from None
    except OSError as error:
        raise reading_error(str(path), error) from None


class _Reader:
    """Reads one stream in a text format or in word2vec's binary format.

    Args:
        path: The file, for error messages.
        stream: The unpacked stream, at its beginning.
    """

    def __init__(self, path: Path, stream: IO[bytes] | gzip.GzipFile) -> None:
        self.path, self.stream = path, stream
        self.line = 0
        self.rows = _Rows(path)

    def read(self) -> WordVectors:
        """Read all rows; raise a clear error if the file is a damaged `.gz`."""
        try:
            return self._read_stream()
        except (*UNPACKING, zlib.error) as error:
            raise damage_error(str(self.path), self.line, error) from None

    def _read_stream(self) -> WordVectors:
        """Find the format by the first two lines, and read all rows."""
        first = self._next_line().removeprefix(BOM)
        if not first:
            raise InputError(str(self.path), got="an empty file", expected=KNOWN_FORMATS)
        header = self._parse_header(first)
        if header is None:
            return self._read_text(first, self._count_numbers(first), None)
        second = self.stream.readline(LONGEST_LINE)
        if self._is_text(second, header.dim):
            self.line += 1
            return self._read_text(second, header.dim, header)
        return self._read_binary(second, header)

    def _next_line(self) -> bytes:
        """Read a line and count it."""
        line = self.stream.readline(LONGEST_LINE + 1)
        self.line += bool(line)
        if len(line) > LONGEST_LINE:
            got = f"a line of more than {LONGEST_LINE:,} bytes"
            raise InputError(f"{self.path}:{self.line}", got=got, expected=KNOWN_FORMATS)
        return line

    def _parse_header(self, line: bytes) -> _Header | None:
        """The number of words and the dimension of a header line; None if it is not a header.

        The header only serves for checks: memory is allocated row by row, so that a truncated
        file is read up to its end and the error can name the line.
        """
        fields = line.split()
        if len(fields) != 2 or not all(f.removeprefix(b"-").isdigit() for f in fields):
            return None
        what = f"{self.path}:1"
        if max(map(len, fields)) > 18:
            raise InputError(what, got=f"a header of {line[:60]!r}", expected="a number of words")
        words, dim = map(int, fields)
        if words < 1 or not 1 <= dim <= MOST_NUMBERS:
            got = f"a header of {words:,} words of {dim:,} numbers"
            raise InputError(what, got=got, expected=f"1 or more, of 1 to {MOST_NUMBERS:,}")
        check_memory(str(self.path), words * dim * 8)
        return _Header(words, dim)

    def _count_numbers(self, line: bytes) -> int:
        """The dimension: how many numbers follow the word on the first line, without a header."""
        fields = _fields(line)
        if len(fields) >= 2 and all(_is_number(field) for field in fields[1:]):
            if len(fields) - 1 > MOST_NUMBERS:
                got = f"{len(fields) - 1:,} numbers"
                raise InputError(f"{self.path}:1", got=got, expected=f"at most {MOST_NUMBERS:,}")
            return len(fields) - 1
        raise InputError(f"{self.path}:1", got=_line_start(line), expected=KNOWN_FORMATS)

    def _is_text(self, line: bytes, dim: int) -> bool:
        """Whether the line after the header is text, not binary: numbers, or printable UTF-8."""
        fields = _fields(line)
        if len(fields) > dim and all(_is_number(field) for field in fields[-dim:]):
            return True
        return all(byte >= 32 or byte in b"\t\r\n" for byte in line) and _is_utf8(line)

    def _read_text(self, line: bytes, dim: int, header: _Header | None) -> WordVectors:
        """Read all rows of a text format: a word and its numbers on each line, from `line` on."""
        ended = True
        while line and ended:
            ended = line.endswith(b"\n")
            if line.strip():
                self._add_row(line, dim, header)
            elif self._only_blank_lines_follow():
                break
            else:
                raise InputError(f"{self.path}:{self.line}", got="an empty line", expected="a row")
            line = self._next_line()
        if header is not None and len(self.rows.words) < header.words:
            got = f"the end of the file after {len(self.rows.words):,} words"
            expected = f"{header.words:,}, as its first line says"
            what = f"{self.path}:{self.line + 1}"
            raise InputError(what, got=got, expected=expected, fix=TRUNCATED)
        if not ended:
            _logger.warning(
                "%s:%d: the last line has no line end; it may be truncated", self.path, self.line
            )
        return self.rows.to_vectors()

    def _only_blank_lines_follow(self) -> bool:
        return not any(line.strip() for line in iter(lambda: self.stream.readline(2**16), b""))

    def _add_row(self, line: bytes, dim: int, header: _Header | None) -> None:
        """Parse a line, the word and its `dim` numbers, and add it to the rows."""
        what = f"{self.path}:{self.line}"
        if header is not None and len(self.rows.words) == header.words:
            expected = f"the end: the header says {header.words:,} words"
            raise InputError(what, got="one more row", expected=expected)
        fields = _fields(line)
        spaces = len(fields) - dim - 1
        try:
            values = list(map(float, fields[-dim:]))
        except ValueError:
            values = []
        if not 0 <= spaces <= min(MOST_SPACES, dim - 1) or not values:
            count = sum(map(_is_number, fields[1:]))
            got = f"a word and {count} numbers" if count else _line_start(line)
            fix = "the line is truncated or damaged; download the file again"
            raise InputError(what, got=got, expected=f"a word and {dim} numbers", fix=fix)
        self.rows.add(b" ".join(fields[:-dim]), values, what)

    def _read_binary(self, first_bytes: bytes, header: _Header) -> WordVectors:
        """Read all rows of the binary format: a word, a space, and little-endian float32 numbers.

        Args:
            first_bytes: The bytes after the header that were read already.
            header: The number of words and the dimension.
        """
        buffer, at, width = first_bytes, 0, 4 * header.dim
        for number in range(1, header.words + 1):
            what = f"{self.path}: word {number:,} of {header.words:,}"
            while (space := buffer.find(b" ", at)) < 0 or len(buffer) < space + 1 + width:
                if max(space, len(buffer) if space < 0 else 0) - at > LONGEST_WORD:
                    got = f"no space in {LONGEST_WORD:,} bytes"
                    raise InputError(what, got=got, expected="a word, a space, numbers")
                next_bytes = self.stream.read(2**20)
                if not next_bytes:
                    got = "the end of the file"
                    expected = f"a word and {header.dim} numbers of 4 bytes"
                    raise InputError(what, got=got, expected=expected, fix=TRUNCATED)
                buffer, at = buffer[at:] + next_bytes, 0
            word = buffer[at:space].lstrip(b"\n")  # word2vec.c ends a row with it, gensim does not
            self.rows.add(word, np.frombuffer(buffer, "<f4", header.dim, space + 1), what)
            at = space + 1 + width
        if (buffer[at:] + self.stream.read(2**10)).strip():
            got = f"more after the {header.words:,} words of its header"
            raise InputError(str(self.path), got=got, expected="the end of the file")
        return self.rows.to_vectors()


class _Rows:
    """Collects words and their vectors row by row.

    Args:
        path: The file, for error messages.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.words: dict[str, None] = {}
        self._chunk: list[Floats] = []
        self._chunks: list[Floats] = []

    def add(self, word: bytes, numbers: npt.ArrayLike, what: str) -> None:
        """Check and add one row.

        Args:
            word: The word in UTF-8.
            numbers: Its vector (dim,).
            what: The place of the row in the file, for error messages.
        """
        try:
            text = word.decode()
        except UnicodeDecodeError as error:
            byte = f"byte 0x{word[error.start]:02x} in the word"
            raise InputError(what, got=byte, expected="UTF-8") from None
        if not text or len(word) > LONGEST_WORD:
            got = "no word" if not text else f"a word of {len(word):,} bytes"
            raise InputError(what, got=got, expected=f"one of at most {LONGEST_WORD:,}")
        if text in self.words:
            first = list(self.words).index(text) + 1
            expected = f"each word once; it is already word {first:,}"
            raise InputError(what, got=f"{text!r} again", expected=expected)
        with np.errstate(over="ignore", invalid="ignore"):
            row = np.array(numbers, np.float32)
        if not np.isfinite(row).all():
            got = f"{row[~np.isfinite(row)][0]} in the vector of {text!r}"
            raise InputError(what, got=got, expected="finite numbers")
        self.words[text] = None
        self._chunk.append(row)
        if len(self._chunk) == CHUNK:
            self._stack_chunk()

    def _stack_chunk(self) -> None:
        """Stack the collected rows into one array, which needs less memory."""
        self._chunks.append(np.stack(self._chunk))
        self._chunk = []
        check_memory(str(self.path), sum(chunk.nbytes for chunk in self._chunks) * 3)

    def to_vectors(self) -> WordVectors:
        """The word vectors of all rows."""
        if self._chunk:
            self._stack_chunk()
        return WordVectors(list(self.words), np.concatenate(self._chunks), self.path.name)


def _fields(line: bytes) -> list[bytes]:
    """Split at spaces and tabs only: other white space may belong to a word (as in fastText)."""
    return line.rstrip(b" \t\r\n").replace(b"\t", b" ").split(b" ")


def _is_number(field: bytes) -> bool:
    """Whether a field can be read as a float."""
    try:
        float(field)
    except ValueError:
        return False
    return True


def _is_utf8(line: bytes) -> bool:
    """Whether a line is valid UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _line_start(line: bytes) -> str:
    """Quote the beginning of a line, for error messages."""
    text = line[:40].decode("utf-8", "replace").strip()
    return f"a line that begins with {text!r}"


def _read_npz(path: Path, file: BufferedReader) -> WordVectors:
    """Read `words` and `vectors` of a numpy archive."""
    with open_npz(path, file) as arrays:
        if not arrays.keys() >= {"words", "vectors"}:
            got = ", ".join(sorted(arrays)[:5]) or "nothing"
            raise InputError(str(path), got=got, expected="words and vectors")
        _check_shapes(path, arrays["words"], arrays["vectors"])
        words, vectors = arrays["words"].read(), arrays["vectors"].read()
    finite = np.isfinite(vectors).all(1)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0]) + 1
        raise InputError(f"{path}: row {row:,}", got="nan or inf", expected="finite numbers")
    return WordVectors([str(word) for word in _decode_words(path, words)], vectors, path.name)


def _check_shapes(path: Path, words: PackedArray, vectors: PackedArray) -> None:
    """Check, by their headers, that the arrays are words and a vector for each."""
    words.check()
    vectors.check()
    if len(words.shape) != 1 or not words.is_text or vectors.kind.kind not in "fiu":
        got = f"words of {words.kind}, vectors of {vectors.kind}"
        raise InputError(str(path), got=got, expected="words as texts, vectors as numbers")
    if len(vectors.shape) != 2 or vectors.shape[0] != words.shape[0] or not vectors.size:
        shape = "×".join(map(str, vectors.shape))
        got = f"{words.shape[0]:,} words, vectors of {shape}"
        raise InputError(str(path), got=got, expected="one row per word")
    if vectors.shape[1] > MOST_NUMBERS:
        got = f"vectors of {vectors.shape[1]:,} numbers"
        raise InputError(str(path), got=got, expected=f"at most {MOST_NUMBERS:,}")


def _decode_words(path: Path, words: npt.NDArray[Any]) -> Iterator[str]:
    """Yield words as texts, each checked: encodable as UTF-8 and not empty."""
    for number, word in enumerate(words.tolist(), 1):
        what = f"{path}: word {number:,}"
        try:
            text = word.decode() if isinstance(word, bytes) else word
            text.encode()  # a lone surrogate cannot be encoded
        except UnicodeError:
            raise InputError(what, got="bytes that are not UTF-8", expected="text") from None
        if not text:
            raise InputError(what, got="no word", expected="one")
        yield text
