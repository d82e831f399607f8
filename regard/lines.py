"""Sentences in, translations out: arguments, files and pipes.

On a stream one line in is one line out, in order, flushed. An empty line gives an empty line; one
that cannot be read gives an empty line and a warning with its number. As an argument the same
input is an error. At a terminal one line is asked for at a time, and what is wrong with it is said.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.data.text import LONGEST_LINE
from regard.errors import InputError
from regard.pipeline import Pipeline, check_texts
from regard.tasks import Output

Work = Callable[[list[str]], list[list[Output]]]
PROMPT = "> "
AT_ONCE = 64
"""Lines translated together, if that many are there already."""

_logger = logging.getLogger(__name__)


class Lines:
    """Reads sentences, refuses what a pipeline cannot read, and writes what it says.

    Args:
        pipeline: What translates.
        allow_unknown: Translate around words that a vocabulary of words does not have.
        strict: Stop at a line that cannot be read.
        as_json: Write one object a line.
        n_best: Lines to write for each sentence.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        allow_unknown: bool = False,
        strict: bool = False,
        as_json: bool = False,
        n_best: int = 1,
    ) -> None:
        self.pipeline, self.allow_unknown, self.n_best = pipeline, allow_unknown, n_best
        self.strict, self.as_json = strict, as_json

    def check(self, text: str, verb: str = "translate") -> str:
        """The text itself, if the model can read it; a warning names what is lost of it."""
        check_texts(verb, text)
        task, longest = self.pipeline.translator(), self.pipeline.model.config.max_length
        task.source_ids(text, longest, allow_unknown=self.allow_unknown)
        words = self.pipeline.vocabulary.source.unknown_words(text)
        if words:
            _logger.warning("warning: the model does not know: %s", ", ".join(words))
        return text

    def answer(self, texts: list[str], work: Work) -> None:
        """Translates arguments; what cannot be read is an error."""
        for text, outputs in zip(texts, work([self.check(text) for text in texts]), strict=True):
            self._write(text, outputs)

    def pipe(self, source: str | None, work: Work) -> None:
        """Translates a file or a pipe."""
        if asking(source):
            for text in self._each(None, source):
                with saying():
                    self._write(text or "", *work([text or ""]))
                sys.stdout.flush()
            return
        for first, lines in read_lines(source):
            texts = [self._readable(first + place, line) for place, line in enumerate(lines)]
            outputs = iter(work([text for text in texts if text is not None]))
            for line, text in zip(lines, texts, strict=True):
                found = [] if text is None else next(outputs)
                self._write(line.decode("utf-8", "replace"), found)
            sys.stdout.flush()

    def grow(self, texts: list[str] | None, source: str | None, options: dict[str, Any]) -> None:
        """Shows each translation as it grows; one line for each, of which nothing is taken back."""
        if self.as_json:
            raise InputError("--stream with --json", expected="one of the two")
        options = {**options, "allow_unknown": True}  # what is not allowed was refused
        for text in self._each(texts, source):
            shown = ""
            steps = () if text is None else self.pipeline.stream(text, **options)
            for partial in steps:
                sys.stdout.write(partial[len(shown) :])
                sys.stdout.flush()
                shown = partial
            sys.stdout.write("\n")
            sys.stdout.flush()

    def _each(self, texts: list[str] | None, source: str | None) -> Iterator[str | None]:
        """Arguments, or lines of a file or pipe, one at a time; None for what cannot be read."""
        if texts:
            yield from (self.check(text) for text in texts)
            return
        for first, lines in read_lines(source):
            for place, line in enumerate(lines):
                if not asking(source):
                    yield self._readable(first + place, line)
                elif (text := self._asked(line)) is not None:
                    yield text

    def _asked(self, line: bytes) -> str | None:
        """What a person typed, if the model can read it; else that is said."""
        with saying():
            return self.check(decoded_line(line))
        return None

    def _readable(self, number: int, line: bytes) -> str | None:
        """The text of a line if the model can read it; else None, and a warning unless empty."""
        try:
            text = text_of(line)
            return self.check(text) if text.strip() else None
        except (UnicodeDecodeError, InputError) as error:
            utf8 = isinstance(error, UnicodeDecodeError)
            reason = "not UTF-8" if utf8 else str(error).splitlines()[0]
            if self.strict:
                raise InputError(f"line {number}: {reason}") from error
            _logger.warning("warning: line %d: %s; gave an empty line", number, reason)
            return None

    def _write(self, text: str, outputs: list[Output]) -> None:
        if not self.as_json:
            # As many lines for a line that could not be read: the places of the others hold.
            lines = [output.text for output in outputs] + [""] * (self.n_best - len(outputs))
            sys.stdout.write("".join(f"{line}\n" for line in lines))
            return
        entry = {
            "source": text,
            "translations": [
                {
                    "text": output.text,
                    "logprob": output.logprob,
                    "score": output.score,
                    "finished": output.hypothesis.finished,
                }
                for output in outputs
            ],
            "unknown": self.pipeline.vocabulary.source.unknown_words(text),
        }
        sys.stdout.write(json.dumps(entry, ensure_ascii=False) + "\n")


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
