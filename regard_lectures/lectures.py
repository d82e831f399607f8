"""The slides of the lectures in order, each with the commands that reproduce it.

The index is `slides.txt` in this folder: one line per slide, with a title in our own words, the
rows of the lecture ledger it belongs to, and its commands, or the reason why it has none. Listing
it imports neither torch nor matplotlib.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from regard.errors import InputError, UserError
from regard_lectures.figure import look_up

RUNS = {
    "runs/digits": "regard train tiny/digits -o runs/digits",
    "runs/cnn": "regard train tiny/digits model.family=cnn model.filter_side=3 model.filters=[8]"
    " train.steps=200 -o runs/cnn",
    "runs/caption": "regard train tiny/caption-rnn -o runs/caption",
    "scenes/00000.png": "regard data sample scenes --pairs 2 -o scenes",
}
"""Runs and files that commands use, and the commands that make them."""
DIGIT = "digit.png"
"""The image that commands read: a digit that a person draws."""
MAKERS = ("train", "data")
"""Commands that make what other commands use; their results are never made again."""
Run = Callable[[Sequence[str], Path], str]
"""A function that runs the words of a command in a folder and returns what it prints."""


@dataclass(frozen=True)
class Slide:
    """One slide of a lecture.

    Attributes:
        deck: The lecture, such as `D4`.
        number: The slide's number, from 1.
        title: What it is about, in our words.
        rows: The rows of the lecture ledger it belongs to, such as `3.1d`.
        commands: The commands that reproduce it, in order.
        reason: Why there is no command: `text only`, or `planned`; beside commands, what of the
            slide they do not show: `planned`.
    """

    deck: str
    number: int
    title: str
    rows: tuple[str, ...]
    commands: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Deck:
    """A lecture: its name, its title, its number of slides, and the slides."""

    name: str
    title: str
    count: int
    slides: tuple[Slide, ...]


@cache
def decks() -> dict[str, Deck]:
    """All lectures, by name."""
    text = (resources.files("regard_lectures") / "slides.txt").read_text(encoding="utf-8")
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
    commands, planned, missing = shown.partition("; planned: ")
    reason = f"planned: {missing}" if planned else ""
    if not commands.startswith("regard "):
        commands, reason = "", shown
    return Slide(
        deck,
        int(number),
        title,
        tuple(filter(None, rows.split(", "))),
        tuple(filter(None, commands.split("; "))),
        reason,
    )


def find_deck(name: str) -> Deck:
    """The lecture of this name; case is ignored.

    Raises:
        InputError: If there is none; the message suggests the most similar name.
    """
    return look_up("lecture", name.upper(), decks(), "regard lecture")


def chosen(deck: Deck, numbers: str) -> list[Slide]:
    """The slides of a lecture in a range such as `12` or `12-20`; all if it is empty.

    Raises:
        InputError: If it is not a range within the lecture.
    """
    if not numbers:
        return list(deck.slides)
    first, _, last = numbers.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal()):
        expected = "a number, or two as in 12-20"
        fix = "a file of your own slides goes without a lecture: regard lecture --slides FILE"
        raise InputError("--slides", got=numbers, expected=expected, fix=fix)
    low, high = int(first), int(last or first)
    if not 1 <= low <= high <= deck.count:
        raise InputError(
            "--slides", got=numbers, expected=f"within 1-{deck.count}, the smaller number first"
        )
    return list(deck.slides[low - 1 : high])


def listing(slides: Sequence[Slide]) -> str:
    """The list of slides as text: number, title, below it the commands, and what is missing."""
    lines = []
    for slide in slides:
        lines.append(f"{slide.number:>4}  {slide.title}")
        lines += [f"      {command}{_remark(command)}" for command in slide.commands]
        lines += [f"      {_reason(slide)}"] if slide.reason else []
    return "\n".join(lines)


def _reason(slide: Slide) -> str:
    """Why a slide has no command, or what its commands do not show; with its rows."""
    return slide.reason + (f" ({', '.join(slide.rows)})" if slide.rows else "")


def _remark(command: str) -> str:
    """In brackets, the models, trainings and files that a command still lacks; else empty."""
    from regard.recipes import shipped

    needed = re.findall(r"\b(?:tiny|small|words)/[\w-]+", command)
    if command.split()[1] in ("plan", "compare") or "architecture" in command:  # of recipes
        needed = []
    away = [f"{name} is not on the shelf" for name in needed if name not in shipped()]
    away += [f"first: {earlier}" for earlier in needed_first(command)]
    away += [f"{DIGIT}: a digit that you draw"] if DIGIT in command else []
    return f"  ({'; '.join(away)})" if away else ""


def needed_first(command: str) -> list[str]:
    """The trainings whose runs a command uses.

    Example:
        >>> needed_first("regard eval runs/digits")
        ['regard train tiny/digits -o runs/digits']
    """
    return [RUNS[run] for run in RUNS if run in command.split()[1:]]


def overview() -> str:
    """The list of lectures as text: name, slides, those with a command, those in part, title."""
    lines = []
    for deck in decks().values():
        shown = [slide for slide in deck.slides if slide.commands]
        partly = sum(bool(slide.reason) for slide in shown)
        lines.append(
            f"{deck.name}  {deck.count:>3} slides, {len(shown):>3} with a command, "
            f"{partly:>2} of them in part  {deck.title}"
        )
    return "\n".join(lines)


def figure_file(command: str) -> str:
    """The picture file of a command: the one it names with -o, or one named after the command.

    Example:
        >>> figure_file("regard show steps step=q"), figure_file("regard look x -o x.png")
        ('show-steps-step-q.svg', 'x.png')
        >>> figure_file("regard compare x -o runs/x")
        'runs/x/compare.png'
        >>> figure_file("regard plan base"), figure_file("regard train x -o runs/x")
        ('', '')
    """
    words = shlex.split(command)
    if words[1] in MAKERS:
        return ""
    if "-o" in words:
        out = words[words.index("-o") + 1]
        return f"{out}/compare.png" if words[1] == "compare" else out
    if words[1] != "show":
        return ""
    plain = "".join(letter if letter.isalnum() else "-" for letter in " ".join(words[1:]))
    return "-".join(filter(None, plain.split("-"))) + ".svg"


@dataclass(frozen=True)
class Shown:
    """The result of a command: its picture file, if it draws one, and its printed output."""

    picture: Path | None
    text: str
    failed: bool = False


def draw(command: str, folder: Path, run: Run, *, fresh: bool) -> Shown:
    """Run a command in a folder, or return its stored result if there is one.

    A training is never run twice in a folder, nor are scenes drawn twice. A command that
    reads a digit finds a drawn one there.

    Args:
        command: The command line.
        folder: The folder for the picture and the printed output.
        run: The function that runs a command.
        fresh: Run it even if its result is stored.
    """
    words, name = shlex.split(command), figure_file(command)
    stem = name or "".join(c if c.isalnum() else "-" for c in " ".join(words[1:]))
    picture, text_file = folder / name if name else None, folder / f"{stem}.txt"
    fresh = fresh and words[1] not in (*MAKERS, "compare")
    if not fresh and text_file.is_file() and (picture is None or picture.is_file()):
        return Shown(picture, text_file.read_text(encoding="utf-8"))
    if DIGIT in words and not (folder / DIGIT).is_file():
        _draw_digit(folder / DIGIT)
    named = ["-o", name] if name and "-o" not in words else []
    try:
        text = run([*words[1:], *named], folder)
    except UserError as error:  # such as a missing model: other commands go on
        return Shown(None, str(error), failed=True)
    text_file.write_text(text, encoding="utf-8")
    return Shown(picture, text)


def _draw_digit(path: Path) -> None:
    """Write an image of a seven, for lectures that are shown without a drawing of one's own."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (120, 160), "white")
    ImageDraw.Draw(image).line([(30, 20), (90, 20), (50, 140)], fill="navy", width=9)
    image.save(path)


def page_of(deck: Deck, slides: Sequence[Slide], shown: dict[str, Shown]) -> str:
    """The slides as one HTML page that the arrow keys step through.

    Args:
        deck: The lecture.
        slides: The slides to show.
        shown: The result of each of their commands, by command.
    """
    from regard.explain import escaped
    from regard_lectures.slides import Slide as Section
    from regard_lectures.slides import slides_page

    sections = []
    for slide in slides:
        number = f"{deck.name}, {slide.number}"
        title = slide.title[:1].upper() + slide.title[1:]
        heading = f"<h2>{escaped(title)}<small>{number}</small></h2>"
        for command in slide.commands:
            said, body = f"<code>{escaped(command)}</code>", _body(shown[command])
            head = f'<div class="head over">{heading}{said}</div>'
            sections.append(Section(number, f"{head}\n{body}"))
        if slide.reason:
            reason = f'<p class="quiet">{escaped(_reason(slide))}</p>'
            sections.append(Section(number, f"{heading}\n{reason}"))
    return slides_page(deck.name, deck.title, sections)


def _body(shown: Shown) -> str:
    from regard.explain import escaped

    if shown.picture is None:
        text = "\n".join(escaped(line) for line in shown.text.rstrip().splitlines())
        return f'<p class="quiet">{text}</p>' if shown.failed else f"<pre>{text}</pre>"
    kind = "svg+xml" if shown.picture.suffix == ".svg" else "png"
    data = base64.b64encode(shown.picture.read_bytes()).decode()
    caption = escaped(" ".join(shown.text.split()))
    return f'<figure><img src="data:image/{kind};base64,{data}" alt="{caption}"></figure>'
