"""Commands for the slides of one's own lecture, chosen by the words of each slide.

In: a text file of slides. Out: a `Deck` like those of the five lectures. The topics are the lines
of `topics.txt` in this folder: phrases, and the commands that show what a slide with them is about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from regard.draw import read_regular
from regard.errors import InputError
from regard_lectures.lectures import Deck, Slide

LARGEST = 20_000_000
"""Largest size of a file of slides, in bytes."""
TITLE_WEIGHT = 3
"""A phrase in the title of a slide counts as often as so many in its text."""
MOST_TOPICS = 2
"""The maximal number of topics whose commands a slide gets."""
LONGEST_TITLE = 80
FORMAT = "slides divided by form feeds (pdftotext writes them), lines of ---, or # headings"
"""The format of a file of slides, for messages."""

_RULE = re.compile(r"^[ \t]*(?:-{3,}|\*{3,}|_{3,})[ \t]*$", re.M)
_HEADINGS = [re.compile(rf"^(?=#{{{level}}}[ \t]+\S)", re.M) for level in (1, 2)]
_FRONT_MATTER = re.compile(r"\A---\n(?:\w+:.*\n)+---\n")


@dataclass(frozen=True)
class Topic:
    """A topic of slides: a pattern that matches each of its phrases, and its commands."""

    pattern: re.Pattern[str]
    commands: tuple[str, ...]


@cache
def topics() -> tuple[Topic, ...]:
    """All topics, in the order of the file."""
    text = (resources.files("regard_lectures") / "topics.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    rows = [line.split(" | ") for line in lines]
    return tuple(
        Topic(_pattern(phrases.split(", ")), tuple(commands.split("; ")))
        for phrases, commands in rows
    )


def _pattern(phrases: Sequence[str]) -> re.Pattern[str]:
    """A pattern of phrases, longest first; spaces may be hyphens, and a plural matches, too."""
    longest_first = sorted(phrases, key=len, reverse=True)
    parts = [
        r"[\s-]+".join(re.escape(word) for word in re.split(r"[\s-]+", phrase))
        for phrase in longest_first
    ]
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})s?(?!\w)", re.IGNORECASE)


def read_slides(path: Path) -> Deck:
    """Reads a text file of slides, and finds the commands for each.

    Args:
        path: Slides divided by form feeds; without any, by lines of `---`; without those, at
            Markdown headings: `#`, or `##` if there is only one `#`. The first line of a slide is
            its title.

    Raises:
        InputError: The file cannot be read as such a text.
    """
    texts = [text for text in _divided(_read(path)) if text.strip()]
    if len(texts) < 2:
        got = "no text" if not texts else "one slide"
        raise InputError(f"--slides {path}", got=got, expected=FORMAT)
    slides = tuple(_slide(path.stem, number, text) for number, text in enumerate(texts, start=1))
    return Deck(path.stem, slides[0].title, len(slides), slides)


def _read(path: Path) -> str:
    """The text of a file.

    Raises:
        InputError: It cannot be read, is too large, or is no text.
    """
    try:
        content = read_regular(path, LARGEST)
    except OSError as error:
        fix = "a number or a range of slides needs a lecture: regard lecture D4 --slides 12-20"
        raise InputError(f"--slides {path}: {error.strerror}", expected=FORMAT, fix=fix) from None
    for start, kind in ((b"%PDF", "a PDF"), (b"PK\x03\x04", "a PowerPoint file or an archive")):
        if content.startswith(start):
            fix = f"export its text first: pdftotext {path.with_suffix('.pdf').name} slides.txt"
            raise InputError(f"--slides {path}", got=kind, expected="its text", fix=fix)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"--slides {path}", got="no UTF-8", expected="a text file") from None
    if "\0" in text:
        raise InputError(f"--slides {path}", got="no text", expected="a text file")
    return text.replace("\r\n", "\n")


def _divided(text: str) -> list[str]:
    """The texts of the slides."""
    if "\f" in text:
        return text.split("\f")
    text = _FRONT_MATTER.sub("", text)
    if _RULE.search(text):
        return _RULE.split(text)
    first, second = (level.split(text) for level in _HEADINGS)
    return first if len(first) > 2 else second


def _slide(deck: str, number: int, text: str) -> Slide:
    title, _, body = text.strip().partition("\n")
    commands = _commands(title, body)
    shown = re.sub(r"^#+\s*|[*_`]+", "", title).strip()
    if len(shown) > LONGEST_TITLE:
        shown = f"{shown[: LONGEST_TITLE - 1]}…"
    return Slide(deck, number, shown, (), commands, "" if commands else "no command fits")


def _commands(title: str, body: str) -> tuple[str, ...]:
    """The commands of the topics with the most phrases in a slide; ties go to the first topics."""
    counts = {
        topic: TITLE_WEIGHT * len(topic.pattern.findall(title)) + len(topic.pattern.findall(body))
        for topic in topics()
    }
    best = sorted((topic for topic in topics() if counts[topic]), key=lambda topic: -counts[topic])
    return tuple(
        dict.fromkeys(command for topic in best[:MOST_TOPICS] for command in topic.commands)
    )
