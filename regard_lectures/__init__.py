"""The atlas: the figures of the lectures, computed on request. `show(name)` draws one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.draw import aligned
from regard.errors import InputError
from regard_lectures.catalogue import FIGURES
from regard_lectures.figure import Again, Figure, Option, Value, look_up

if TYPE_CHECKING:
    from regard.explain import Drawing

__all__ = ["FIGURES", "Figure", "Option", "find", "listing", "own_inputs", "parse_options", "show"]


def show(
    name: str,
    path: str | os.PathLike[str] | None = None,
    *,
    text: str | None = None,
    details: bool = False,
    paper: bool = False,
    again: Again = "",
    **options: Value,
) -> Drawing:
    """Compute and draw one figure of the atlas.

    Args:
        name: One of `FIGURES`.
        path: The output file; its ending selects the format: .png, .svg, .pdf or .html, and others
            that the figure supports. None: only return the drawing.
        text: The user's own input, for figures that take one.
        details: Write into the picture, under the caption, what was computed and how.
        paper: Draw it for print: 160 mm wide, without title and caption.
        again: Train again, for a figure whose result is stored with the package: `small`, a version
            that takes minutes, if the figure has one; or `full`.
        options: The options of the figure, such as `seed`; strings are converted.

    Returns:
        The drawing with the numbers that it shows; notebooks display it.

    Raises:
        InputError: For an unknown name, option or ending, or a text the figure does not take.
        WriteError: If the file cannot be written.

    Example:
        >>> show("softmax", text="0 0").numbers["weights"]
        [0.5, 0.5]
    """
    figure = find(name)
    if path is not None:  # report a wrong ending before the computation
        figure.check_ending(path)
    drawing = figure.draw(text, details=details, paper=paper, again=again, **options)
    if path is not None:
        drawing.save(path)
    return drawing


def find(name: str) -> Figure:
    """The figure of this name.

    Raises:
        InputError: If there is none; the message suggests the most similar name.
    """
    return look_up("figure", name, FIGURES, "regard show")


def listing() -> str:
    """The list of all figures as text: name, title and options."""
    rows = []
    for figure in FIGURES.values():
        rows.append((figure.name, figure.title))
        settings = [f"{name}={option.default}" for name, option in figure.options.items()]
        settings = [*(["--text"] if figure.text else []), *settings]
        rows += [("", " ".join(settings))] if settings else []
    return "\n".join(aligned(rows))


def own_inputs() -> str:
    """A table of all figures: the name, what of your own it takes or why nothing, and the title."""
    head = ("figure", "your own input", "what it shows")
    rows = [(figure.name, figure.takes, figure.title) for figure in FIGURES.values()]
    return "\n".join(aligned([head, *rows]))


def parse_options(name: str, given: Sequence[str]) -> dict[str, Value]:
    """Parse `key=value` words of a command line into the options of a figure.

    Raises:
        InputError: For an unknown figure or key, or a value that is not allowed.

    Example:
        >>> parse_options("waves", ["length=32"])
        {'length': 32}
    """
    figure = find(name)
    options: dict[str, Value] = {}
    for word in given:
        key, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"show {name}", got=repr(word), expected="key=value, as in seed=1")
        options[key] = value
    options = figure.renamed(options)
    values = figure.read(options)
    return {key: values[key] for key in options}
