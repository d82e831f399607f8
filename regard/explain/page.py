"""Looks, text, tables and pictures as one self-contained HTML file that needs no network.

Input: a list of sections. Output: the text of the page. Style, script and data are part of the
file, and its content security policy forbids everything else: no URL is ever requested, and the
only script that may run is ours, which the policy names by its hash. Weights are stored as one or
two bytes each, in base64, and drawn on a canvas by `viewer.js`, so that an input of 500 words
opens without delay. SVG pictures are inlined: sharp at any size, with searchable text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.draw.colours import hexadecimal, sequential
from regard.draw.labels import Weights, visible
from regard.errors import InputError
from regard.explain.look import IMAGE_KINDS, Comparison, Look, LookSelection
from regard.explain.maps import AttentionMap
from regard.runtime.files import write_file

if TYPE_CHECKING:
    from regard.explain.images.hiding import HiddenPatches

FINE_BYTES = 6_000_000  # up to this size two bytes per weight, beyond it one
# Beyond this size only the mean over heads is stored. Base64 adds a third: the file is < 30 MB.
MOST_BYTES = 21_000_000
VIEWS = {"alignment": "matrix", "self": "matrix", "grid": "grid", "positions": "positions"}


@dataclass(frozen=True)
class Prose:
    """Paragraphs, separated by empty lines, under an optional heading."""

    text: str
    heading: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under headers; columns of numbers are right-aligned."""

    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""


@dataclass(frozen=True)
class Picture:
    """A PNG (bytes) or an SVG (text), embedded in the page.

    Attributes:
        content: The picture.
        caption: The text below it; empty if the picture itself has one.
        alt: What it shows, for those who cannot see it; by default the caption.
    """

    content: bytes | str
    caption: str = ""
    alt: str = ""


@dataclass(frozen=True)
class Looks:
    """Several looks as tabs of one viewer, and what the viewer shows when opened.

    Attributes:
        tabs: The name and the look of each tab.
        site: The layer to open at; by default the one that the first look chooses.
        head: The head to open at; by default the mean over heads.
        word: The word to open at: a query label of the chosen map.
        view: `matrix`, `sentence`, `grid` or `positions`; with a word, by default `sentence`.
    """

    tabs: Sequence[tuple[str, Look]]
    site: str | None = None
    head: int | None = None
    word: str | None = None
    view: str | None = None


Section = Prose | Table | Picture | Looks


def page(heading: str, sections: Sequence[Section]) -> str:
    """The text of a complete, self-contained HTML page.

    Raises:
        InputError: If the site, head or word to open at does not exist, or the looks are too large.
    """
    scales = {"light": hexadecimal(sequential()), "dark": hexadecimal(sequential(dark=True))}
    return fill_template(
        "viewer",
        heading=escaped(heading),
        sections="\n".join(WRITERS[type(section)](section) for section in sections),
        scales=page_json(scales),
    )


def fill_template(
    name: str, *, schemes: str = "light dark", package: str = "regard.explain", **parts: str
) -> str:
    """The text of frame.html around NAME.html, styled by theme.css and NAME.css, with NAME.js.

    The content security policy allows this script and no other, and no network.

    Args:
        name: The name of the three files.
        schemes: The colour schemes that the page has.
        package: The package that has the three files.
        parts: The texts in place of `{{NAME}}` in the templates.
    """
    script = _resource(f"{name}.js", package)
    digest = base64.b64encode(hashlib.sha256(f"\n{script}\n".encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    style = f"{_resource('theme.css')}\n{_resource(f'{name}.css', package)}"
    parts |= {"policy": policy, "style": style, "script": script, "schemes": schemes}
    template = _resource("frame.html").replace("{{body}}", _resource(f"{name}.html", package))
    # A single pass, so that braces in the inserted text are not taken for placeholders.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def save_page(path: str | os.PathLike[str], heading: str, sections: Sequence[Section]) -> Path:
    """Write a page to a file.

    Raises:
        WriteError: If the file cannot be written; the old file is unchanged.
    """
    return write_file(path, page(heading, sections).encode())


def look_page(look: Look, choice: LookSelection, test: HiddenPatches | None = None) -> str:
    """The page of one look, opened at the choice; that of an image shows the weights over it.

    Args:
        look: The recorded attention of one input.
        choice: What the page shows when it is opened.
        test: What hiding patches of an image does.
    """
    if choice.kind in IMAGE_KINDS:
        from regard.explain.images.page import image_page  # it imports this module

        return image_page(look, choice, test)
    word = None if choice.row is None else choice.map.queries[choice.row]
    view = None if word else VIEWS[choice.kind]
    looks = Looks([("", look)], choice.map.site, choice.head, word, view)
    return page(look.title, [looks])


def comparison_page(comparison: Comparison, before: LookSelection, after: LookSelection) -> str:
    """A page with both looks as tabs and, below, the picture of their difference."""
    from regard.explain.plot import draw_comparison, render  # matplotlib is slow to import

    figure = render(draw_comparison(comparison, before, after), ".svg").decode()
    tabs = list(zip(comparison.names, (comparison.before, comparison.after), strict=True))
    caption = f"{comparison.names[0]}, {comparison.names[1]}, and what changed: {before.name}"
    sections: list[Section] = [Looks(tabs, before.map.site, before.head), Picture(figure, caption)]
    return page(comparison.before.title, sections)


def framed(text: str) -> str:
    """A page inside a sandboxed iframe, isolated from the notebook that shows it."""
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(text)}" title="attention" '
        'style="width:100%;height:720px;border:0"></iframe>'
    )


@cache
def _resource(name: str, package: str = "regard.explain") -> str:
    return (resources.files(package) / name).read_text(encoding="utf-8").strip()


def escaped(text: object) -> str:
    """Any text, escaped for HTML, with control characters made visible."""
    return html.escape(visible(str(text)) if str(text) else "")


def page_json(value: Any) -> str:
    """JSON that is safe inside a script element: `&`, `<` and `>` are escaped."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # ASCII only
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _write_prose(prose: Prose) -> str:
    heading = f"<h2>{escaped(prose.heading)}</h2>\n" if prose.heading else ""
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", prose.text))
    return heading + "\n".join(f"<p>{escaped(text)}</p>" for text in paragraphs if text)


def _write_table(table: Table) -> str:
    if any(len(row) != len(table.headers) for row in table.rows):
        raise ValueError(f"table: expected {len(table.headers)} cells in every row")
    is_number = [
        all(isinstance(row[column], int | float | np.number) for row in table.rows)
        for column in range(len(table.headers))
    ]

    def line(tag: str, cells: Sequence[object]) -> str:
        classes = [' class="number"' if right else "" for right in is_number]
        items = (f"<{tag}{m}>{escaped(c)}</{tag}>" for m, c in zip(classes, cells, strict=True))
        return f"<tr>{''.join(items)}</tr>"

    body = "\n".join(line("td", row) for row in table.rows)
    caption = f"<figcaption>{escaped(table.caption)}</figcaption>" if table.caption else ""
    head = line("th", table.headers)
    return (
        f'<figure class="wide"><table><thead>{head}</thead>\n'
        f"<tbody>\n{body}\n</tbody></table>{caption}</figure>"
    )


def _write_picture(picture: Picture) -> str:
    alt = escaped(picture.alt or picture.caption)
    if isinstance(picture.content, str):
        content = _inline_svg(picture.content, alt)
    else:
        data = base64.b64encode(picture.content).decode()
        content = f'<img src="data:image/png;base64,{data}" alt="{alt}">'
    caption = f"<figcaption>{escaped(picture.caption)}</figcaption>" if picture.caption else ""
    return f'<figure class="picture"><div>{content}</div>{caption}</figure>'


def _inline_svg(svg: str, caption: str) -> str:
    """An SVG file as an element of an HTML page.

    The XML declaration, the namespaces and the metadata (which contain URLs) are removed.
    """
    text = svg[svg.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{caption}"', 1).strip()


def _write_looks(looks: Looks) -> str:
    if not looks.tabs:
        raise ValueError("looks: expected at least one tab")
    first = looks.tabs[0][1]
    site = looks.site or first.choose(word=looks.word or None).map.site
    kind = "alignment" if site.endswith(".cross") else "self"
    choice = first.choose(kind, first.site(site).site, looks.head, looks.word)
    tabs = [tab for _, tab in looks.tabs]
    size = sum(m.weights.size for tab in tabs for m in tab.maps)
    width = 2 if 2 * size <= FINE_BYTES else 1
    means_only = size > MOST_BYTES
    if means_only and sum(m.weights[0].size for tab in tabs for m in tab.maps) > MOST_BYTES:
        longest = max(max(m.weights.shape[1:]) for tab in tabs for m in tab.maps)
        got, fix = f"{longest} words", "draw one layer: -o look.png"
        raise InputError("page", got=got, expected="fewer", fix=fix)
    data = {
        "bytes": width,
        "start": {
            "site": site,
            "head": None if means_only else looks.head,
            "row": choice.row,
            "view": looks.view or ("matrix" if looks.word is None else "sentence"),
        },
        "tabs": [_look_data(name, look, width, means_only=means_only) for name, look in looks.tabs],
    }
    script = f'<script type="application/json">{page_json(data)}</script>'
    return f'<section class="look">{script}</section>'


def _look_data(name: str, look: Look, width: int, *, means_only: bool) -> dict[str, Any]:
    return {
        "name": name,
        "title": look.title,
        "model": look.model,
        "note": look.note,
        "knockedOut": list(look.knocked_out),
        "maps": [_map_data(look, m, width, means_only=means_only) for m in look.maps],
    }


def _map_data(look: Look, m: AttentionMap, width: int, *, means_only: bool) -> dict[str, Any]:
    weights = np.nan_to_num(look.matrix(m))[None] if means_only else m.weights
    top = max(1.0, float(weights.max()))  # an edited pattern may exceed 1
    return {
        "site": m.site,
        "heads": m.heads,
        "stored": len(weights),
        "queries": [visible(label) for label in m.queries],
        "keys": [visible(label) for label in m.keys],
        "orientation": look.orientation(m),
        "top": top,
        "data": base64.b64encode(quantise(weights / top, width)).decode(),
    }


def quantise(shares: Weights, width: int) -> bytes:
    """Encode numbers p from 0 to 1 as one or two bytes each, little-endian.

    Two bytes store round(65535 p). One byte stores round(255 √p): the error is at most 0.004 at
    p = 1, but 0.0002 at p = 0.002, in the range of most weights of long inputs.
    """
    shares = np.clip(shares, 0.0, 1.0)
    if width == 2:
        return np.rint(shares * 65535).astype("<u2").tobytes()
    return np.rint(np.sqrt(shares) * 255).astype(np.uint8).tobytes()


WRITERS: dict[type, Callable[[Any], str]] = {
    Prose: _write_prose,
    Table: _write_table,
    Picture: _write_picture,
    Looks: _write_looks,
}
