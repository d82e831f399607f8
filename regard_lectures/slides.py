"""Slides that the arrow keys step through, as one self-contained HTML file.

A page consists of scenes (attention step by step) or of pictures and text (the slides of a
lecture). Style and script are part of the file; the content security policy forbids everything
else. Without JavaScript the sections are shown one below the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from regard.draw import Colours, diverging
from regard.explain import escaped, fill_template
from regard_lectures.scene import Scene, SceneRow, Vector, written

LISTED = 20
"""Up to this number, sections are listed by name; otherwise there is a slider."""


@dataclass(frozen=True)
class Slide:
    """One section.

    Attributes:
        name: A short name for the list.
        body: Its HTML.
    """

    name: str
    body: str


def slides_page(heading: str, subtitle: str, slides: Sequence[Slide], start: int = 1) -> str:
    """The text of a complete, self-contained HTML page.

    Args:
        heading: The heading.
        subtitle: A short description beside the heading.
        slides: The sections, in order.
        start: The section to open at, from 1.
    """
    sections = "\n".join(
        f'<section class="slide" aria-label="{number} of {len(slides)}">\n{slide.body}\n</section>'
        for number, slide in enumerate(slides, start=1)
    )
    page = fill_template(
        "slides",
        package="regard_lectures",
        heading=escaped(heading),
        subtitle=escaped(subtitle),
        slides=sections,
        list=_list(slides),
    )
    return page.replace('<main id="stage"', f'<main id="stage" data-start="{start}"', 1)


def _list(slides: Sequence[Slide]) -> str:
    if len(slides) > LISTED:
        return f'<input type="range" min="0" max="{len(slides) - 1}" value="0" aria-label="slide">'
    names = "".join(f'<button type="button">{subscripts(s.name)}</button>' for s in slides)
    return f'<nav aria-label="steps">{names}</nav>'


def subscripts(text: str) -> str:
    """A formula as HTML: `_` becomes a subscript, `e^` an exponent.

    Example:
        >>> subscripts("q W_Q / √d_k, e^0.52")
        'q W<sub>Q</sub> / √d<sub>k</sub>, e<sup>0.52</sup>'
    """
    text = re.sub(r"(?<=[Wdbz])_(\w)", r"<sub>\1</sub>", escaped(text))
    return re.sub(r"e\^(−?[\d.]+\d)", r"e<sup>\1</sup>", text)


def scene_slide(scene: Scene) -> Slide:
    """The section of one scene."""
    rows = "\n".join(_row(row, scene) for row in scene.rows)
    left_out = " ".join(filter(None, (scene.cut, scene.omitted)))
    parts = [
        f'<div class="head"><h2>{subscripts(scene.title)}</h2>'
        f'<p class="formula">{subscripts(scene.formula)}</p></div>',
        f'<p class="says">{subscripts(scene.explanation)}</p>',
        f'<div class="rows" style="--n:{len(scene.rows)}">\n{rows}\n</div>',
        f'<p class="hand">{subscripts(scene.example)}</p>' if scene.example else "",
        f'<p class="more">{escaped(left_out)}</p>' if left_out else "",
    ]
    return Slide(scene.name, "\n".join(part for part in parts if part))


def _row(row: SceneRow, scene: Scene) -> str:
    full = "full" if row.values is not None else ""
    kinds = " ".join(filter(None, ("row", row.role, full)))
    middle = ""
    if row.values is not None:
        middle = _vector(row.values, scene)
    elif row.bar is not None:
        middle = _bar(row.bar, signed=scene.signed)
    return (
        f'<div class="{kinds}"><span class="label">{subscripts(row.label)}</span>'
        f'<span class="lead">{subscripts(row.lead)}</span>'
        f'<div class="vector">{middle}</div>'
        f'<span class="number">{escaped(row.number)}</span></div>'
    )


def colour(value: float, reach: float) -> str:
    """The colour of a signed number on a scale from -reach to reach; 0 is white."""
    share = min(1.0, max(-1.0, value / reach))
    scale: Colours = diverging()
    red, green, blue = (round(255 * part) for part in scale[round((share + 1) / 2 * 255)])
    return f"#{red:02x}{green:02x}{blue:02x}"


def is_deep(value: float, reach: float) -> bool:
    """Whether the colour of a number is so dark that its text must be white."""
    return abs(value / reach) > 0.72


def _vector(values: Vector, scene: Scene) -> str:
    """The written numbers as coloured cells; of a longer vector, all as a strip below."""
    numbers, reach = [float(value) for value in values], scene.reach
    cells = "".join(
        f"<i{' class=deep' if is_deep(value, reach) else ''} "
        f'style="background:{colour(value, reach)}">{written(value)}</i>'
        for value in numbers[: scene.written]
    )
    strip = ""
    if len(numbers) > scene.written:
        bars = "".join(
            f'<rect x="{index}" width="1.02" height="1" fill="{colour(value, reach)}"/>'
            for index, value in enumerate(numbers)
        )
        strip = (
            f'<svg viewBox="0 0 {len(numbers)} 1" preserveAspectRatio="none" role="img" '
            f'aria-label="all {len(numbers)} numbers as colours">{bars}</svg>'
        )
    return f'<div class="cells">{cells}</div>{strip}'


def _bar(share: float, *, signed: bool) -> str:
    """A bar that starts at the left, or in the middle if some bars are negative."""
    zero, scale = (50, 50) if signed else (0, 100)
    left = zero + min(0.0, share) * scale
    return (
        f'<div class="track" style="--zero:{zero}%"><b style="left:{left:.2f}%;'
        f'width:{abs(share) * scale:.2f}%"></b></div>'
    )
