"""Texts in, answers out: arguments, files, pipes, and what a person types.

On a stream one line in is one line out, in order, flushed. An empty line gives an empty line; one
that cannot be read gives an empty line and a warning with its number. As an argument the same
input is an error. At a terminal one line is asked for at a time, and what is wrong with it is said.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from regard.cli.options import say
from regard.data.text.files import LONGEST_LINE
from regard.errors import InputError

T = TypeVar("T")
PROMPT = "> "
AT_ONCE = 64
"""Lines answered together, if that many are there already."""


@dataclass(frozen=True)
class Answerer:
    """What a command says of its lines.

    Attributes:
        show: What to write for each of some texts, whole or piece by piece.
        blank: What stands in the place of an answer to a text that cannot be used.
        check: Refuses a text that cannot be used, before any work.
        strict: Stop at a line that cannot be used.
        at_once: Texts that are shown together, if that many are there already; None: all.
        ranked: Whether what is shown is of the best texts, not of each.
        quiet: Whether nothing is said of lines that cannot be used.
        dash_is_lines: Whether `-` alone means the lines of standard input, and not one item.
    """

    show: Callable[[list[str]], Iterable[Iterable[str]]]
    blank: Callable[[str], str]
    check: Callable[[str], object] = lambda text: text
    strict: bool = False
    at_once: int | None = AT_ONCE
    ranked: bool = False
    quiet: bool = False
    dash_is_lines: bool = True

    def run(self, texts: list[str] | None, source: str | None) -> None:
        """Answers arguments, or the lines of a file or pipe, or what a person types.

        Args:
            texts: The arguments; a single `-` is standard input.
            source: A file instead; `-` is standard input.
        """
        if texts == ["-"] and self.dash_is_lines:
            texts, source = None, "-"
        if texts and source is not None:
            raise InputError("TEXT", got="texts and --input", expected="one of the two")
        if texts:
            for text in texts:
                self.check(text)
            for some in _parts(texts, self.at_once):
                self._write(some)
        elif asking(source):
            for _, [line] in read_lines(source):
                with saying():
                    text = decoded_line(line)
                    self.check(text)
                    self._write([text])
        else:
            self._stream(source)

    def _stream(self, source: str | None) -> None:
        """One line in, one line out, in order, flushed."""
        batches = read_lines(source)
        if self.at_once is None:
            batches = iter([(1, [line for _, lines in batches for line in lines])])
        for first, lines in batches:
            read = [self._readable(first + place, line) for place, line in enumerate(lines)]
            for start, some in _parts_with_places(read, self.at_once):
                self._answer(first + start, lines[start : start + len(some)], some)

    def _answer(self, first: int, lines: list[bytes], texts: list[str | None]) -> None:
        """Answers those of some lines that could be read; one by one, if one of them is wrong."""
        good = [text for text in texts if text is not None]
        try:
            shown = list(self.show(good)) if good else []
        except InputError as error:
            if len(texts) > 1:
                for place, text in enumerate(texts):
                    self._answer(first + place, lines[place : place + 1], [text])
                return
            self._refuse(first, str(error).splitlines()[0], error)
            texts, shown = [None], []
        blocks = iter(shown)
        for line, text in zip(lines, texts, strict=True) if not self.ranked else ():
            blank = text is None
            _written([self.blank(line.decode("utf-8", "replace"))] if blank else next(blocks))
        for block in blocks:
            _written(block)

    def _write(self, texts: list[str]) -> None:
        for block in self.show(texts):
            _written(block)

    def _readable(self, number: int, line: bytes) -> str | None:
        """The text of a line if it can be used; else None, and a warning unless it is empty."""
        try:
            text = text_of(line)
            if text.strip():
                self.check(text)
                return text
        except UnicodeDecodeError as error:
            self._refuse(number, "not UTF-8", error)
        except InputError as error:
            self._refuse(number, str(error).splitlines()[0], error)
        return None

    def _refuse(self, number: int, reason: str, error: Exception) -> None:
        if self.strict:
            raise InputError(f"line {number}: {reason}") from error
        say(f"warning: line {number}: {reason}; gave an empty line", quiet=self.quiet)


def _written(block: Iterable[str]) -> None:
    """Writes an answer, each piece of it as soon as it is there."""
    for piece in block:
        sys.stdout.write(piece)
        sys.stdout.flush()


def _parts(texts: list[T], size: int | None) -> Iterator[list[T]]:
    return (part for _, part in _parts_with_places(texts, size))


def _parts_with_places(texts: list[T], size: int | None) -> Iterator[tuple[int, list[T]]]:
    size = size or max(1, len(texts))
    return ((start, texts[start : start + size]) for start in range(0, len(texts), size))


def text_of(line: bytes) -> str:
    """The text of a line.

    Raises:
        InputError: There is too much of it.
        UnicodeDecodeError: It is not UTF-8.
    """
    if len(line) > LONGEST_LINE:
        raise InputError("too long", expected=f"at most {LONGEST_LINE:,} bytes")
    return line.decode("utf-8")


def read_lines(source: str | None) -> Iterator[tuple[int, list[bytes]]]:
    """The lines that are there already, with the number of the first.

    A pipe that gives one line at a time gets its answer at once; a file is read in batches.

    Args:
        source: A file; `-` or None is standard input.
    """
    if asking(source):
        yield from _typed()
        return
    if sys.stdin is None and source in (None, "-"):  # closed: `<&-`
        raise InputError("no text", fix="give some as arguments, --input FILE, or a pipe")
    if source is None or source == "-":
        yield from _batches(sys.stdin.fileno())
        return
    try:
        with Path(source).open("rb") as file:
            yield from _batches(file.fileno())
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"--input {source}", got=error.strerror, expected="a text file") from error


def asking(source: str | None) -> bool:
    """Whether lines come from a person at a terminal, one by one."""
    return source is None and sys.stdin is not None and sys.stdin.isatty()


@contextmanager
def saying() -> Iterator[None]:
    """At a terminal: says what is wrong with a line, so that the next can be asked for."""
    try:
        yield
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")


def decoded_line(line: bytes) -> str:
    """The text of a line that a person typed.

    Raises:
        InputError: It is not UTF-8, or there is too much of it.
    """
    try:
        return text_of(line)
    except UnicodeDecodeError:
        raise InputError("the line", got="no UTF-8", expected="text") from None


def _typed() -> Iterator[tuple[int, list[bytes]]]:
    """What a person types, a line at a time; an empty line or Ctrl-D is the end."""
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
    number, rest = 1, b""
    while chunk := os.read(descriptor, 1 << 16):
        if len(rest) > LONGEST_LINE:  # it is refused: no more of it is kept, only its end counts
            _, end, chunk = chunk.partition(b"\n")
            if not end:
                continue
            chunk = end + chunk
        *lines, rest = (rest + chunk).split(b"\n")
        for start in range(0, len(lines), AT_ONCE):
            part = [line.removesuffix(b"\r") for line in lines[start : start + AT_ONCE]]
            yield number, part
            number += len(part)
    if rest:
        yield number, [rest.removesuffix(b"\r")]
