"""The atlas: every figure of the lectures, computed live. `show(name)` draws one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from regard.atlas.catalogue import FIGURES, Figure, Option, Value
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.atlas.drawing import Drawing

__all__ = ["FIGURES", "Figure", "Option", "find", "listing", "parse_options", "show"]


def show(
    name: str,
    path: str | os.PathLike[str] | None = None,
    *,
    text: str | None = None,
    details: bool = False,
    paper: bool = False,
    **options: Value,
) -> Drawing:
    """Computes and draws one figure of the atlas.

    Args:
        name: One of `FIGURES`.
        path: Where to write it, by its ending: .png, .svg, .pdf or .html, and what else the figure
            has. None: only return it.
        text: Own input, for the figures that take one.
        details: Write into the picture, under the caption, what was computed and how.
        paper: Draw it for print: 160 mm wide, without title and caption.
        options: What the figure lets one set, such as `seed`; words are converted.

    Returns:
        The drawing, with the numbers that it shows. In a notebook it shows itself.

    Raises:
        InputError: For a name, text, option or ending that there is not.
        WriteError: If the file cannot be written.

    Example:
        >>> show("softmax", text="0 0").numbers["weights"]
        [0.5, 0.5]
    """
    figure = find(name)
    if path is not None:  # a wrong ending is said before, not after, the computation
        figure.check_ending(path)
    drawing = figure.draw(text, details=details, paper=paper, **options)
    if path is not None:
        drawing.save(path)
    return drawing


def find(name: str) -> Figure:
    """The figure of this name.

    Raises:
        InputError: If there is none; it names the nearest.
    """
    if name not in FIGURES:
        close = get_close_matches(name, FIGURES, n=1)
        raise InputError(
            "no such figure",
            got=name,
            expected=f"one of {', '.join(FIGURES)}",
            fix=f"did you mean {close[0]}?" if close else None,
        )
    return FIGURES[name]


def listing() -> str:
    """The atlas as lines to read: name, title, what may be set."""
    width = max(map(len, FIGURES))
    lines = []
    for figure in FIGURES.values():
        lines.append(f"{figure.name:{width}}  {figure.title}")
        settings = [f"{name}={option.default}" for name, option in figure.options.items()]
        settings = [*(["--text"] if figure.text else []), *settings]
        if settings:
            lines.append(f"{'':{width}}  {' '.join(settings)}")
    return "\n".join(lines)


def parse_options(name: str, given: Sequence[str]) -> dict[str, Value]:
    """`key=value` words, as a command line has them, as the options of a figure.

    Raises:
        InputError: For a figure, key or value that there is not.

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
