"""The slides of the lectures in their order, each with the command that shows it.

`slides.txt` beside this file is the index: a line a slide, with a title in our own words, the rows
of the catalogue it belongs to, and its commands, or why it has none. Neither torch nor matplotlib
is imported to list it.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path

from regard.errors import InputError, UserError

Run = Callable[[Sequence[str], Path], str]
"""Runs the words of a command in a folder; gives what it prints."""


@dataclass(frozen=True)
class Slide:
    """One slide of a lecture.

    Attributes:
        deck: Such as `D4`.
        number: Its place, from 1.
        title: What it is about, in our words.
        rows: Of the catalogue, such as `3.1d`.
        commands: That show it, in order.
        reason: Why there is none: `text only`, or `planned`.
    """

    deck: str
    number: int
    title: str
    rows: tuple[str, ...]
    commands: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Deck:
    """A lecture: its name, its title, how many slides it has, and the slides."""

    name: str
    title: str
    count: int
    slides: tuple[Slide, ...]


@cache
def decks() -> dict[str, Deck]:
    """Every lecture, by name."""
    text = (resources.files("regard.atlas") / "slides.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    slides = [_slide(row) for row in cells if row[0] != "deck"]
    return {
        name: Deck(name, title, int(count), tuple(s for s in slides if s.deck == name))
        for first, name, count, title, *_ in cells
        if first == "deck"
    }


def _slide(cells: Sequence[str]) -> Slide:
    deck, number, title, rows, shown = cells
    commands = shown.split("; ") if shown.startswith("regard ") else []
    return Slide(
        deck,
        int(number),
        title,
        tuple(filter(None, rows.split(", "))),
        tuple(commands),
        "" if commands else shown,
    )


def find_deck(name: str) -> Deck:
    """The lecture of this name.

    Raises:
        InputError: There is none; it names the nearest.
    """
    known = decks()
    if name.upper() not in known:
        close = get_close_matches(name.upper(), known, n=1)
        raise InputError(
            "no such lecture",
            got=name,
            expected=f"one of {', '.join(known)}",
            fix=f"did you mean {close[0]}?" if close else None,
        )
    return known[name.upper()]


def chosen(deck: Deck, numbers: str) -> list[Slide]:
    """The slides of a deck that are asked for: `12`, or `12-20`; all if nothing is.

    Raises:
        InputError: It is no such range.
    """
    if not numbers:
        return list(deck.slides)
    first, _, last = numbers.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal()):
        raise InputError("--slides", got=numbers, expected="a number, or two as in 12-20")
    low, high = int(first), int(last or first)
    if not 1 <= low <= high <= deck.count:
        raise InputError("--slides", got=numbers, expected=f"within 1-{deck.count}")
    return list(deck.slides[low - 1 : high])


def listing(slides: Sequence[Slide]) -> str:
    """Slides as lines to read: number, title, and below it what to type."""
    lines = []
    for slide in slides:
        lines.append(f"{slide.number:>4}  {slide.title}")
        rows = f" ({', '.join(slide.rows)})" if slide.rows and not slide.commands else ""
        shown = slide.commands or (slide.reason + rows,)
        lines += [f"      {each}{_missing(each)}" for each in shown]
    return "\n".join(lines)


def _missing(command: str) -> str:
    """What a command needs that does not ship here, in brackets."""
    from regard.recipes.shelf import shipped

    needed = re.findall(r"\b(?:tiny|small|words)/\w+", command)
    away = [name for name in needed if name not in shipped()]
    return f"  ({', '.join(away)} is not on the shelf)" if away else ""


def overview() -> str:
    """The lectures as lines to read: name, number of slides, how many have a command, title."""
    return "\n".join(
        f"{deck.name}  {deck.count:>3} slides, "
        f"{sum(bool(slide.commands) for slide in deck.slides):>3} with a command  {deck.title}"
        for deck in decks().values()
    )


def figure_file(command: str) -> str:
    """The file that a command's picture is in: the one it names, or one named after it.

    Example:
        >>> figure_file("regard show steps step=q"), figure_file("regard look x -o x.png")
        ('show-steps-step-q.svg', 'x.png')
        >>> figure_file("regard plan base")
        ''
    """
    words = shlex.split(command)
    if "-o" in words:
        return words[words.index("-o") + 1]
    if words[1] != "show":
        return ""
    plain = "".join(letter if letter.isalnum() else "-" for letter in " ".join(words[1:]))
    return "-".join(filter(None, plain.split("-"))) + ".svg"


@dataclass(frozen=True)
class Shown:
    """What a command gave: a picture's file, if it draws one, and what it printed."""

    picture: Path | None
    text: str
    failed: bool = False


def draw(command: str, folder: Path, run: Run, *, fresh: bool) -> Shown:
    """Runs a command in a folder, unless what it gave is there already.

    Args:
        command: As it is typed.
        folder: For the picture and the text.
        run: What runs it.
        fresh: Run it even so.
    """
    words, name = shlex.split(command), figure_file(command)
    stem = name or "".join(c if c.isalnum() else "-" for c in " ".join(words[1:]))
    picture, kept = folder / name if name else None, folder / f"{stem}.txt"
    if not fresh and kept.is_file() and (picture is None or picture.is_file()):
        return Shown(picture, kept.read_text(encoding="utf-8"))
    named = ["-o", name] if name and "-o" not in words else []
    try:
        text = run([*words[1:], *named], folder)
    except UserError as error:  # such as a model that is not on the shelf: the others still count
        return Shown(None, str(error), failed=True)
    kept.write_text(text, encoding="utf-8")
    return Shown(picture, text)


def page_of(deck: Deck, slides: Sequence[Slide], shown: dict[str, Shown]) -> str:
    """The slides as one page to step through.

    Args:
        deck: Which lecture.
        slides: Those to show.
        shown: What each of their commands gave.
    """
    from regard.explain.slides import Slide as Section
    from regard.explain.slides import escaped, slides_page

    sections = []
    for slide in slides:
        number = f"{deck.name}, {slide.number}"
        title = slide.title[:1].upper() + slide.title[1:]
        heading = f"<h2>{escaped(title)}<small>{number}</small></h2>"
        if not slide.commands:
            reason = slide.reason + (f": {', '.join(slide.rows)}" if slide.rows else "")
            sections.append(Section(number, f'{heading}\n<p class="quiet">{escaped(reason)}</p>'))
        for command in slide.commands:
            said, body = f"<code>{escaped(command)}</code>", _body(shown[command])
            head = f'<div class="head over">{heading}{said}</div>'
            sections.append(Section(number, f"{head}\n{body}"))
    return slides_page(deck.name, deck.title, sections)


def _body(shown: Shown) -> str:
    from regard.explain.slides import escaped

    if shown.picture is None:
        text = "\n".join(escaped(line) for line in shown.text.rstrip().splitlines())
        return f'<p class="quiet">{text}</p>' if shown.failed else f"<pre>{text}</pre>"
    kind = "svg+xml" if shown.picture.suffix == ".svg" else "png"
    data = base64.b64encode(shown.picture.read_bytes()).decode()
    caption = escaped(" ".join(shown.text.split()))
    return f'<figure><img src="data:image/{kind};base64,{data}" alt="{caption}"></figure>'
