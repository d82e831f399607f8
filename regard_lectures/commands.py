"""The commands `regard demo`, `regard show` and `regard lecture`.

`regard/cli/plugins.py` names them; heavy modules are imported inside the commands.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from regard.draw import print_line, print_result, print_status, silence_warnings

AsJson = Annotated[bool, Option("--json", help="Print one JSON object per line.")]
Details = Annotated[
    bool, Option("--details", help="Describe what was computed and how, also in the picture.")
]
Device = Annotated[
    str, Option("--device", help="auto (cuda if there is one), cpu, cuda, cuda:1, mps.")
]
Paper = Annotated[
    bool, Option("--paper", help="For print: 160 mm wide, 300 dpi, no title, no caption.")
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only results and errors.")]
Threads = Annotated[int | None, Option("--threads", help="Number of threads.")]
QUIET = ("show", "look", "train", "compare")
"""Commands with a progress bar of their own, which take --quiet and --threads."""


def demo(
    quick: Annotated[bool, Option("--quick", help="Only the shipped model: no training.")] = False,
    quiet: Quiet = False,
    threads: Threads = None,
    device: Device = "auto",
) -> None:
    """Run a guided tour: translate, look inside, remove a head, train from scratch."""
    from regard_lectures.demo import run

    run(Path("regard-demo"), quick=quick, quiet=quiet, threads=threads, device=device)


def show(
    name: Annotated[
        str | None,
        Argument(metavar="[FIGURE]", help="A figure's name; by default, all are listed."),
    ] = None,
    options: Annotated[list[str] | None, Argument(metavar="[KEY=VALUE]...")] = None,
    text: Annotated[str | None, Option(help="Your own input, if the figure takes one.")] = None,
    out: Annotated[
        Path | None,
        Option("-o", "--out", help="FIGURE.png, .svg, .pdf or .html; steps: .json, too"),
    ] = None,
    again: Annotated[
        bool,
        Option(
            "--again",
            help="Train again instead of drawing a stored result: where it takes long, a small "
            "version within minutes; --again full: all of it.",
        ),
    ] = False,
    details: Details = False,
    paper: Paper = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    threads: Threads = None,
    as_list: Annotated[
        bool, Option("--list", help="List all figures with the input of your own that each takes.")
    ] = False,
) -> None:
    """Draw a figure of the lectures, computed from a model or by a calculation."""
    from regard_lectures import find, listing, own_inputs, parse_options
    from regard_lectures import show as draw

    if name is None or as_list:
        print_line(own_inputs() if as_list else listing())
        return
    figure = find(name)
    words = options or []
    how: Any = ("full" if "full" in words else "small") if again else ""
    settings: Any = parse_options(name, [word for word in words if not again or word != "full"])
    out = Path(f"{name}{figure.usual}") if out is None else out
    figure.check_ending(out)  # raise errors before the work, not after it
    from regard import setup

    silence_warnings(quiet=quiet)
    setup(threads, None)
    drawing = draw(name, None, text=text, details=details, paper=paper, again=how, **settings)
    path = drawing.save(out)
    row = {
        "figure": name,
        "file": str(path),
        "title": drawing.title,
        "caption": drawing.caption,
        "limits": drawing.limits,
        **drawing.numbers,
    }
    said = drawing.text if details else f"{drawing.caption}\n{drawing.limits}".rstrip()
    print_result(f"{drawing.title}\n{said}", row, as_json=as_json)
    print_status(f"{path} is drawn", quiet=quiet or as_json)


def lecture(
    context: typer.Context,
    deck: Annotated[
        str | None, Argument(metavar="[DECK]", help="D0 to D4; without it, all are listed.")
    ] = None,
    show: Annotated[
        bool, Option("--show", help="Draw all slides, and open them as one page in the browser.")
    ] = False,
    slides: Annotated[
        str,
        Option(help="Only these slides: 12, or 12-20. Without DECK: a file with your own slides."),
    ] = "",
    out: Annotated[
        Path | None, Option("-o", "--out", help="The folder for page and figures.")
    ] = None,
    fresh: Annotated[
        bool, Option("--fresh", help="Draw again the figures that are already in the folder.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    threads: Threads = None,
) -> None:
    """List the slides of a lecture, each with the command that shows it.

    D0 to D4 are five university lectures on attention and Transformers, of 2025 and 2026, by
    different teachers; only titles in our own words are included, not the slides. For your own
    lecture: --slides FILE, its text, with slides divided by form feeds (as pdftotext writes
    them), lines of ---, or # headings; each slide gets the commands that fit its words.

    With --show: every command is run once, with a progress bar, and the page steps through the
    slides at a key press (F: full screen). A figure that trains takes a minute or two, and the
    translators of D4 ten and more.
    """
    from dataclasses import asdict

    from regard_lectures import lectures

    if deck is None and not slides:
        print_line(lectures.overview())
        return
    if deck is None:
        from regard_lectures.own_slides import read_slides

        talk = read_slides(Path(slides))
        chosen = list(talk.slides)
    else:
        talk = lectures.find_deck(deck)
        chosen = lectures.chosen(talk, slides)
    if not show:
        print_result(lectures.listing(chosen), *map(asdict, chosen), as_json=as_json)
        return
    from regard.draw import Progress, write_file

    folder = Path(f"lecture-{talk.name}") if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [command for slide in chosen for command in slide.commands]
    first = [earlier for command in wanted for earlier in lectures.needed_first(command)]
    commands = list(dict.fromkeys([*first, *wanted]))
    shown = {}

    def run(words: Sequence[str], at: Path) -> str:
        return _printed(context, [*words, *_calmly(words, threads)], at)

    with Progress(max(1, len(commands)), quiet=quiet, counted="figure") as bar:
        for command in commands:
            bar.describe(command)
            shown[command] = lectures.draw(command, folder, run, fresh=fresh)
            bar.finish(1)
    page = write_file(folder / "index.html", lectures.page_of(talk, chosen, shown).encode())
    failed = [command for command, what in shown.items() if what.failed]
    for command in failed:
        print_status(f"not shown: {command}: {shown[command].text.splitlines()[0]}", quiet=quiet)
    print_line(str(page))
    _open(page)


def _calmly(words: Sequence[str], threads: int | None) -> list[str]:
    """Options to add to a command: no progress bar of its own, and the number of threads."""
    quiet = ["--quiet"] if words[0] in QUIET else []
    return quiet + (["--threads", str(threads)] if threads and words[0] in (*QUIET, "plan") else [])


def _printed(context: typer.Context, words: Sequence[str], folder: Path) -> str:
    """Runs a command in this process, in the given folder, and returns what it prints."""
    app: Any = context.find_root().command
    log, out = logging.getLogger("regard"), io.StringIO()
    level = log.level
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(out):
            app.main(list(words), standalone_mode=False)
    finally:
        log.setLevel(level)  # --quiet must affect that command only
    return out.getvalue()


def _open(page: Path) -> None:
    """Opens a page in a graphical browser; does nothing on Linux without a display."""
    if sys.platform.startswith("linux") and not any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    ):
        return
    import webbrowser

    webbrowser.open(page.resolve().as_uri())
