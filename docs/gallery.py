"""The gallery of all figures on `docs/figures.md`: pictures, commands, own input and slides.

It is written from the catalogue of figures, the ledger and the index of slides, so that a new
figure is in it without being named here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from docs.pictures import FOLDER, Picture, image
from regard_lectures import FIGURES, Figure
from regard_lectures.lectures import decks

PAGE = "figures"
COMMENT = "<!-- gallery -->"
LEDGER = Path(__file__).parent / "lectures.md"
SMALL = {
    "costs": "length=128 rounds=3",
    "crossover": "dim=32 rounds=1",
    "growth": "length=1024 rounds=1",
    "steps": "step=weights",
}
"""Options of figures that measure time, with which they are drawn soon, or have many pages."""


def command_of(figure: Figure) -> str:
    """The command with which the gallery draws a figure."""
    return " ".join(filter(None, ["regard show", figure.name, SMALL.get(figure.name, "")]))


def picture_of(figure: Figure) -> Picture:
    """The picture of a figure."""
    return Picture(PAGE, f"{command_of(figure)} -o {figure.name}.png")


def pictures() -> list[Picture]:
    """The pictures of all figures."""
    return [picture_of(figure) for figure in FIGURES.values()]


def own_commands(figure: Figure) -> list[str]:
    """The commands of the ledger that draw a figure with options or input that are not usual."""
    quoted = re.findall(r"`(regard show [^`]+)`", LEDGER.read_text(encoding="utf-8"))
    usual = f"regard show {figure.name}"
    return [c for c in dict.fromkeys(quoted) if c.startswith(f"{usual} ")]


def slides_of(figure: Figure) -> str:
    """The slides that a figure shows: `D0 12, 15; D3 22`."""
    shown = []
    for deck in decks().values():
        numbers = [
            str(slide.number)
            for slide in deck.slides
            if any(command.split()[1:3] == ["show", figure.name] for command in slide.commands)
        ]
        shown += [f"{deck.name} {', '.join(numbers)}"] if numbers else []
    return "; ".join(shown)


def parts() -> dict[str, str]:
    """The parts of the ledger: number and title."""
    return dict(re.findall(r"^## (\d+)\. (.+)$", LEDGER.read_text(encoding="utf-8"), re.M))


def gallery(*, drawn: bool = True, folder: Path = FOLDER) -> str:
    """The gallery in Markdown, in the order of the ledger.

    Args:
        drawn: Whether there are pictures; else commands and words alone.
        folder: The folder of the pictures.
    """
    lines: list[str] = []
    for number, title in parts().items():
        shown = [f for f in FIGURES.values() if f.lectures[0].split(".")[0] == number]
        lines += [f"### {title}", ""] if shown else []
        for figure in shown:
            lines += _entry(figure, drawn=drawn, folder=folder)
    return "\n".join(lines)


def _entry(figure: Figure, *, drawn: bool, folder: Path) -> Iterator[str]:
    """The lines of one figure."""
    yield from (f"#### {figure.name}", "", f"{figure.title}.".replace("?.", "?"), "")
    if drawn:
        yield from (image(picture_of(figure), folder), "")
    commands = [command_of(figure), *own_commands(figure)]
    yield from ("```sh", *dict.fromkeys(commands), "```", "")
    if figure.takes:
        yield from (f"Your own input: {escaped(figure.takes)}.", "")
    slides = slides_of(figure)
    rows = ", ".join(figure.lectures)
    shown = f"Slides {slides}; " if slides else ""
    plural = "s" if len(figure.lectures) > 1 else ""
    yield from (
        f"{shown}{'r' if slides else 'R'}ow{plural} {rows} of [the ledger](lectures.md).",
        "",
    )


def escaped(text: str) -> str:
    """A text of the catalogue as Markdown; options are code."""
    words = re.sub(r"([\\\[\]*_<>])", r"\\\1", text.removesuffix("."))
    return re.sub(
        r"(--?[a-z]\w*|\b[a-z\\_]+=)", lambda option: f"`{option[1].replace(chr(92), '')}`", words
    )
