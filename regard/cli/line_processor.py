"""Reads texts from arguments, files, pipes or a terminal, and writes an answer for each.

For a file or pipe, each line of input gives one line of output, in order and flushed. An empty line
gives an empty line; a line that cannot be read gives an empty line and a warning with its number,
while the same text as an argument is an error. At a terminal, the user is prompted for one line at
a time, and errors are printed before the next prompt.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from regard.data.text.records import LONGEST_LINE
from regard.errors import InputError, safe
from regard.runtime.printing import print_status

T = TypeVar("T")
PROMPT = "> "
BATCH_SIZE = 64
"""The maximal number of lines answered in one batch, if that many are already available."""


@dataclass(frozen=True)
class LineProcessor(Generic[T]):
    """Writes the answers of a command to texts.

    Attributes:
        show: Computes the output for each of some texts, as pieces that are written in turn. It
            gets the texts, and what `read` made of each.
        blank: The output in place of an answer for a text that cannot be used.
        read: Reads a text, once; raises `InputError` if it cannot be used.
        strict: Whether to stop at a line that cannot be used.
        batch_size: The maximal number of texts in one batch; None: all.
        ranked: Whether the output ranks the texts, instead of one answer per text.
        quiet: Whether to omit warnings about lines that cannot be used.
        dash_is_lines: Whether the single argument `-` means the lines of standard input, rather
            than one item.
        read_line: Reads a line of a file, pipe or terminal, if not as an argument; None for one
            that has no item, such as the names of columns, and gets no answer.
    """

    show: Callable[[list[str], list[T]], Iterable[Iterable[str]]]
    blank: Callable[[str], str]
    read: Callable[[str], T]
    strict: bool = False
    batch_size: int | None = BATCH_SIZE
    ranked: bool = False
    quiet: bool = False
    dash_is_lines: bool = True
    read_line: Callable[[str], T | None] | None = None

    def run(self, texts: list[str] | None, source: str | None) -> None:
        """Answers arguments, or else the lines of a file, a pipe or a terminal.

        Args:
            texts: The arguments; a single `-` is standard input.
            source: A file to read instead; `-` is standard input.
        """
        if texts == ["-"] and self.dash_is_lines:
            texts, source = None, "-"
        if texts and source is not None:
            raise InputError("TEXT", got="texts and --input", expected="one of the two")
        if texts:
            read = [self._read_argument(text) for text in texts]
            for start, batch in _batches_of(read, self.batch_size):
                if None in batch:  # a row of a file that cannot be used
                    self._answer(start, texts[start : start + len(batch)], batch)
                else:
                    self._write([item for item in batch if item is not None])
        elif is_interactive(source):
            for _, [line] in read_lines(source):
                with print_errors():
                    text = decode_text(line)
                    self._write([(text, item) for item in self._items_of(text)])
        else:
            self._stream(source)

    def _stream(self, source: str | None) -> None:
        """Answers the lines of a file or pipe in order, one line of output per line of input."""
        batches = read_lines(source)
        if self.batch_size is None:
            batches = iter([(1, [line for _, lines in batches for line in lines])])
        for first, lines in batches:
            read = [
                (line, item)
                for i, line in enumerate(lines)
                for item in self._read_line(first + i, line)
            ]
            first += len(lines) - len(read)  # only the first lines can have no item
            for start, batch in _batches_of(read, self.batch_size):
                self._answer(first + start, [line for line, _ in batch], [it for _, it in batch])

    def _answer(self, first: int, lines: list[Any], texts: list[tuple[str, T] | None]) -> None:
        """Answers a batch of lines; if one of them causes an error, each line by itself.

        Args:
            first: The number of the first line.
            lines: The lines, or rows of a file.
            texts: Their texts, read; None for lines that cannot be used.
        """
        usable = [text for text in texts if text is not None]
        try:
            blocks = list(self._answers_to(usable)) if usable else []
        except InputError as error:
            if len(texts) > 1:
                for i, text in enumerate(texts):
                    self._answer(first + i, lines[i : i + 1], [text])
                return
            self._report_line(first, str(error).splitlines()[0], error)
            texts, blocks = [None], []
        answers = iter(blocks)
        # One output per line, with a blank for each unusable line; ranked output has no blanks.
        for line, text in zip(lines, texts, strict=True) if not self.ranked else ():
            blank = text is None
            shown = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
            _write_pieces([self.blank(shown)] if blank else next(answers))
        for block in answers:
            _write_pieces(block)

    def _answers_to(self, texts: list[tuple[str, T]]) -> Iterable[Iterable[str]]:
        """The output for each text, as pieces."""
        return self.show([text for text, _ in texts], [read for _, read in texts])

    def _write(self, texts: list[tuple[str, T]]) -> None:
        """Answers texts and writes the answers in turn."""
        for block in self._answers_to(texts):
            _write_pieces(block)

    def _read_argument(self, text: Any) -> tuple[Any, T] | None:
        """An argument, read; None with a warning if it is an unusable row of a file."""
        try:
            return text, self.read(text)
        except InputError as error:
            if isinstance(text, str) or self.strict:
                raise
            reason = str(error).splitlines()[0]
            print_status(f"warning: {reason}; printed an empty line", quiet=self.quiet)
        return None

    def _items_of(self, line: str) -> list[T]:
        """The item of a line, read; none if it has no item."""
        if self.read_line is None:
            return [self.read(line)]
        item = self.read_line(line)
        return [] if item is None else [item]

    def _read_line(self, number: int, line: bytes) -> list[tuple[str, T] | None]:
        """The text of a line, read; None if it is empty or unusable, the latter with a warning.

        Nothing if the line has no item.
        """
        try:
            text = decode_text(line)
            if text.strip():
                return [(text, item) for item in self._items_of(text)]
        except UnicodeDecodeError as error:
            self._report_line(number, "not UTF-8", error)
        except InputError as error:
            self._report_line(number, str(error).splitlines()[0], error)
        return [None]

    def _report_line(self, number: int, reason: str, error: Exception) -> None:
        """Warns about a line that cannot be used; with `strict` raises an error."""
        if self.strict:
            raise InputError(f"line {number}: {reason}") from error
        print_status(f"warning: line {number}: {reason}; printed an empty line", quiet=self.quiet)


def _write_pieces(block: Iterable[str]) -> None:
    """Writes the pieces of an answer as soon as they are computed."""
    for piece in block:
        sys.stdout.write(safe(piece))
        sys.stdout.flush()


def _batches_of(texts: list[T], size: int | None) -> Iterator[tuple[int, list[T]]]:
    """Splits texts into batches of at most `size`, each with the index of its first text."""
    size = size or max(1, len(texts))
    return ((start, texts[start : start + size]) for start in range(0, len(texts), size))


def decode_text(line: bytes) -> str:
    """Decodes a line.

    Raises:
        InputError: The line is too long.
        UnicodeDecodeError: The line is not UTF-8.
    """
    if len(line) > LONGEST_LINE:
        raise InputError("too long", expected=f"at most {LONGEST_LINE:,} bytes")
    return line.decode("utf-8")


def read_lines(source: str | None) -> Iterator[tuple[int, list[bytes]]]:
    """Yields batches of the lines that are available, with the number of the first line.

    So a pipe that sends one line at a time gets each answer at once; a file is read in batches.

    Args:
        source: A file; `-` or None is standard input.
    """
    if is_interactive(source):
        yield from _prompted_lines()
        return
    if source is None or source == "-":
        if sys.stdin is None:  # closed: `<&-`
            raise InputError("no text", fix="give some as arguments, --input FILE, or a pipe")
        yield from _batches(sys.stdin.fileno())
        return
    try:
        with Path(source).open("rb") as file:
            yield from _batches(file.fileno())
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"--input {source}", got=error.strerror, expected="a text file") from error


def is_interactive(source: str | None) -> bool:
    """Whether lines are typed at a terminal."""
    return source is None and sys.stdin is not None and sys.stdin.isatty()


@contextmanager
def print_errors() -> Iterator[None]:
    """Prints what is wrong with a line instead of raising it, so that a session continues."""
    try:
        yield
    except InputError as error:
        print_status(f"error: {error}")
    except UnicodeDecodeError:
        print_status("error: the line: got no UTF-8, expected text")


def _prompted_lines() -> Iterator[tuple[int, list[bytes]]]:
    """Prompts for lines at a terminal and yields each; an empty line or Ctrl-D ends the input."""
    number = 1
    while True:
        sys.stderr.write(PROMPT)
        sys.stderr.flush()
        line = sys.stdin.buffer.readline()
        if not line.strip():
            sys.stderr.write("" if line else "\n")
            return
        yield number, [line.rstrip(b"\r\n")]
        number += 1


def _batches(descriptor: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yields batches of lines as they become available, with the number of the first line."""
    number, unfinished = 1, b""
    while chunk := os.read(descriptor, 1 << 16):
        if len(unfinished) > LONGEST_LINE:  # an error anyway: skip the rest of the line
            _, end, chunk = chunk.partition(b"\n")
            if not end:
                continue
            chunk = end + chunk
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        for start in range(0, len(lines), BATCH_SIZE):
            part = [line.removesuffix(b"\r") for line in lines[start : start + BATCH_SIZE]]
            yield number, part
            number += len(part)
    if unfinished:
        yield number, [unfinished.removesuffix(b"\r")]
