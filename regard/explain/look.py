"""Everything seen of one input, and the choice of what to show of it.

In come the maps of all sites. `Look` picks a layer and a head and saves itself as a page or a
picture; `Comparison` does so for two looks side by side. The drawing is in `plot` (PNG, SVG,
PDF) and `page` (HTML).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from regard.errors import InputError
from regard.explain.maps import (
    AttentionMap,
    Weights,
    merge_words,
    row_entropy,
    shortened,
    visible,
)
from regard.explain.names import in_words
from regard.runtime.files import write_file

if TYPE_CHECKING:
    from regard.tasks.trace import Picture, Trace

Kind = Literal["alignment", "grid", "self", "positions", "picture"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Choice:
    """What of a look is shown.

    Attributes:
        kind: The kind of picture.
        maps: The layers of a stack for `grid` and `positions`; one map for the other kinds.
        head: One head, or None for all of them: their mean, or in `grid` and `positions` each.
        reason: Why this layer, if nobody asked for it.
        row: The query of the word that was asked for.
        note: What to know about that word.
    """

    kind: Kind
    maps: tuple[AttentionMap, ...]
    head: int | None = None
    reason: str = ""
    row: int | None = None
    note: str = ""

    @property
    def map(self) -> AttentionMap:
        """The chosen map, or the first of several."""
        return self.maps[0]

    @property
    def name(self) -> str:
        """Layer and head in words, for titles."""
        if self.kind in ("grid", "positions"):
            name, kind = self.map.stack.split(".")
            site, heads = f"{name}.{self.map.layer}-{self.maps[-1].layer}.{kind}", "all heads"
        else:
            one = self.map.heads == 1
            site, heads = (
                self.map.site,
                "its one head" if one else f"mean over {self.map.heads} heads",
            )
        return in_words(site, heads if self.head is None else f"head {self.head + 1}")

    @property
    def short(self) -> str:
        """The same to type: `decoder.1.cross.7`; `decoder.cross` for all of its layers."""
        site = self.map.stack if len(self.maps) > 1 else self.map.site
        return site if self.head is None else f"{site}.{self.head}"


@dataclass(frozen=True, eq=False)
class Look:
    """Everything seen of one input; in a notebook it shows itself.

    Attributes:
        maps: The maps of all sites, in the order of the model.
        title: A few words over the picture.
        model: The name of the model.
        source: The text that went in.
        target: The text that came out or was forced.
        knocked_out: The heads that were silenced, such as `decoder.2.cross.3`.
        note: One sentence more for the caption.
        source_language: What the keys of cross-attention are written in, such as `English`.
        target_language: What the decoder writes, such as `German`.
        picture: The image that went in, if it was one.
    """

    maps: tuple[AttentionMap, ...]
    title: str = "Attention"
    model: str = ""
    source: str = ""
    target: str = ""
    knocked_out: tuple[str, ...] = ()
    note: str = ""
    source_language: str = ""
    target_language: str = ""
    picture: Picture | None = None

    def __post_init__(self) -> None:
        if not self.maps:
            raise ValueError("a look needs at least one map")

    def site(self, name: str) -> AttentionMap:
        """The map of one site.

        Raises:
            InputError: If no such site was recorded.
        """
        found = [m for m in self.maps if m.site == name]
        if not found:
            raise InputError("site", got=name, expected=_sites(self.maps))
        return found[0]

    def away(self, attention_map: AttentionMap) -> tuple[int, ...]:
        """The heads of a map that were taken away, by their numbers."""
        heads = range(attention_map.heads)
        return tuple(n for n in heads if f"{attention_map.site}.{n}" in self.knocked_out)

    def orientation(self, attention_map: AttentionMap) -> tuple[str, str]:
        """What the rows and what the columns of a map are."""
        if self.picture is not None:
            return "the patch that looks", "the patches looked at"
        written = f"the {self.target_language} word".replace("  ", " ") + " being written"
        if attention_map.stack.endswith(".cross"):
            kind = self.source_language or "source"
            return written, f"the {kind} words looked at"
        if attention_map.writes:
            return written, "the words before it that are looked at"
        return "the word that looks", "the words looked at"

    def choose(
        self,
        kind: str | None = None,
        layer: int | str | None = None,
        head: int | None = None,
        word: str | None = None,
    ) -> Choice:
        """Pick what to show.

        Without a layer, the one whose drawn rows have the lowest mean entropy: the sharpest.

        Args:
            kind: One of `KINDS`; by default `alignment`, or `self` if there is no
                cross-attention or the word stands only in the source; `picture` of an image.
            layer: A number, or a name: `decoder`, `decoder.1`, `decoder.1.self`; also
                `decoder.1.self.3`, with the head.
            head: A head's number; by default the mean over heads.
            word: The row to bring out; in a `picture` [CLS]'s, or that of a patch: `2,3`.

        Raises:
            InputError: For a kind, layer, head or word that is not there; it names those that are.
        """
        kind = _known_kind(kind) if kind is not None else self._usual_kind(layer, word)
        candidates, named_head = _matching(self.maps, kind, layer)
        head = named_head if head is None else head
        heads = min(m.heads for m in candidates)
        if head is not None and not 0 <= head < heads:
            raise InputError("--head", got=head, expected=f"0 to {heads - 1}")
        if kind in ("grid", "positions"):
            if word is not None:
                raise InputError(
                    f"--word with --kind {kind}", expected="alignment or self", fix="leave one out"
                )
            return Choice(kind, candidates, head)
        if kind == "picture":
            return self._choose_picture(candidates, head, word)
        entropies = [_mean_entropy(m.seen(head, self.away(m))) for m in candidates]
        best = int(np.argmin(entropies))
        sharpest = f"the sharpest layer: row entropy {entropies[best]:.2f} nats"
        reason = sharpest if len(candidates) > 1 else ""
        if word is None:
            return Choice(kind, (candidates[best],), head, reason)
        row, note = find_word(candidates[best].queries, word)
        return Choice(kind, (candidates[best],), head, reason, row, note)

    def _choose_picture(
        self, candidates: Sequence[AttentionMap], head: int | None, word: str | None
    ) -> Choice:
        """The layer whose row of [CLS] (else of all patches), or of a patch, is the sharpest."""
        if self.picture is None:
            raise InputError("--kind picture", got="a text", expected="an image")
        row = 0 if self.picture.first else None
        if word is not None:
            row, _ = find_word(candidates[0].queries, word)
        rows = slice(None) if row is None else slice(row, row + 1)
        entropies = [_mean_entropy(m.seen(head)[rows]) for m in candidates]
        best = int(np.argmin(entropies))
        sharpest = f"the sharpest layer: row entropy {entropies[best]:.2f} nats"
        reason = sharpest if len(candidates) > 1 else ""
        return Choice("picture", (candidates[best],), head, reason, row)

    def save(
        self,
        path: str | os.PathLike[str],
        kind: str | None = None,
        layer: int | str | None = None,
        head: int | None = None,
        word: str | None = None,
        *,
        details: bool = False,
        paper: bool = False,
    ) -> Path:
        """Write a page (.html) or a picture (.png, .svg, .pdf).

        Args:
            path: The file, by its ending.
            kind: As the other three, an argument of `choose`.
            layer: As there.
            head: As there.
            word: As there.
            details: Write under the picture what the page says, such as the name of the model.
            paper: Draw the picture for print: 160 mm wide, without title and caption.

        Raises:
            InputError: For another ending, or for what `choose` refuses.
            WriteError: If the file cannot be written; the old file is unchanged.
        """
        ending = picture_ending(path)
        choice = self.choose(kind, layer, head, word)
        # Drawing is imported on use: matplotlib alone takes most of a second.
        if ending == ".html":
            from regard.explain.page import look_page

            return write_file(path, look_page(self, choice).encode())
        from regard.explain.plot import draw, render

        figure = draw(self, choice, details=details, paper=paper)
        return write_file(path, render(figure, ending, paper=paper))

    def __repr__(self) -> str:
        """What is in it and how to see it, in a few lines: its weights would fill pages."""
        lines = [f"Look of {self.model}" if self.model else "Look"]
        texts = {"source": self.source, "target": self.target} if self.source else {}
        for name, text in (texts or {"title": self.title}).items():
            lines += [f"  {name:<14} {visible(shortened(text, 80))}"] if text else []
        for stack in dict.fromkeys(each.stack for each in self.maps):
            maps = [each for each in self.maps if each.stack == stack]
            size = f"{len(maps)} × {max(each.heads for each in maps)} (layers × heads)"
            lines.append(f"  {stack:<14} {size}, from {maps[0].site} on")
        lines += [f"  without        {', '.join(self.knocked_out)}"] if self.knocked_out else []
        shown = '.save("look.html") for a page, .png, .svg or .pdf for a picture'
        return "\n".join([*lines, f"  to see it      {shown}"])

    def _usual_kind(self, layer: int | str | None, word: str | None) -> Kind:
        if self.picture is not None:
            return "picture"
        cross = [m for m in self.maps if m.stack.endswith(".cross")]
        parts = layer.split(".") if isinstance(layer, str) else []
        if not cross or "self" in parts or "encoder" in parts:
            return "self"
        if word is not None and not _places(cross[0].queries, word):
            in_source = any(
                _places(m.queries, word) for m in self.maps if m.stack == "encoder.self"
            )
            return "self" if in_source else "alignment"
        return "alignment"

    def _repr_html_(self) -> str:
        from regard.explain.page import framed, look_page

        return framed(look_page(self, self.choose()))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two looks at the same place: before and after a knock-out, or two sentences.

    Attributes:
        before: The first look; it decides which layer is the sharpest.
        after: The second look.
        names: What to call the two.
    """

    before: Look
    after: Look
    names: tuple[str, str] = ("before", "after")

    def choose(
        self,
        kind: str | None = None,
        layer: int | str | None = None,
        head: int | None = None,
    ) -> tuple[Choice, Choice]:
        """The same layer and head of both, so that what differs is not the choice.

        Raises:
            InputError: As `Look.choose`, and for `grid` and `positions`.
        """
        first = self.before.choose(kind, layer, head)
        if first.kind not in ("alignment", "self"):
            raise InputError("compare --kind", got=first.kind, expected="alignment or self")
        return first, self.after.choose(first.kind, first.map.site, first.head)

    def save(
        self,
        path: str | os.PathLike[str],
        kind: str | None = None,
        layer: int | str | None = None,
        head: int | None = None,
        *,
        details: bool = False,
        paper: bool = False,
    ) -> Path:
        """Write both and their difference, as a page (.html) or a picture (.png, .svg, .pdf)."""
        ending = picture_ending(path)
        if ending == ".html":
            from regard.explain.page import comparison_page

            return write_file(path, comparison_page(self, *self.choose(kind, layer, head)).encode())
        from regard.explain.plot import draw_comparison, render

        chosen = self.choose(kind, layer, head)
        figure = draw_comparison(self, *chosen, details=details, paper=paper)
        return write_file(path, render(figure, ending, paper=paper))

    def _repr_html_(self) -> str:
        from regard.explain.page import comparison_page, framed

        return framed(comparison_page(self, *self.choose()))


def look_of(trace: Trace, item: Any, *, model: str = "", without: Sequence[str] = ()) -> Look:
    """What was recorded of a text as maps: sub-words are merged into words, which name the rows.

    Args:
        trace: What a task recorded.
        item: What was read: a text, or an image or its path.
        model: What to call the model.
        without: The heads that were taken away.
    """
    maps = []
    for site, value in trace.weights.items():
        layer = site.removesuffix(".weights")
        stack, _, kind = layer.split(".")
        (rows, row_index), (columns, column_index) = trace.words[f"{stack}.{kind}"]
        shape = len(row_index), len(column_index)
        array = value[:, : shape[0], : shape[1]].cpu().double().numpy()  # (heads, query, key)
        pieces = AttentionMap(layer, array, ("",) * shape[0], ("",) * shape[1])
        maps.append(merge_words(pieces, row_index, column_index, rows, columns))
    written = "" if trace.written is None else f" → {trace.written}"
    text = str(item) if isinstance(item, str | os.PathLike) else "an image"
    return Look(
        maps=tuple(maps),
        title=shortened(f"{text}{written}"),
        model=model,
        source=text,
        target=trace.written or "",
        knocked_out=tuple(without),
        note=trace.note,
        picture=trace.picture,
    )


def compare(before: Look, after: Look, names: tuple[str, str] = ("before", "after")) -> Comparison:
    """Put two looks side by side."""
    return Comparison(before, after, names)


def find_word(labels: Sequence[str], word: str) -> tuple[int, str]:
    """Where a word stands, and a note if it stands there more than once.

    Raises:
        InputError: If it does not; the message lists the words.
    """
    places = _places(labels, word)
    if not places:
        known = " ".join(dict.fromkeys(visible(label) for label in labels))
        known = known if len(known) <= 300 else known[:300] + "…"
        raise InputError(
            "--word", got=repr(word), expected="a word of this side", fix=f"try {known}"
        )
    times = f"“{visible(word)}” stands there {len(places)} times; this is the first."
    return places[0], times if len(places) > 1 else ""


def picture_ending(path: str | os.PathLike[str]) -> str:
    """The ending of a file that a picture can be written to, in lower case.

    Raises:
        InputError: For any other.
    """
    ending = Path(path).suffix.lower()
    if ending not in (".html", ".png", ".svg", ".pdf"):
        raise InputError(
            str(path),
            got=ending or "no ending",
            expected=".html, .png, .svg or .pdf",
            fix="name the kind by the ending, as in -o look.html",
        )
    return ending


def _places(labels: Sequence[str], word: str) -> list[int]:
    """Where a word stands; capitals matter only if it also stands there with the right ones."""
    same: tuple[Callable[[str], str], ...] = (str, str.casefold)
    for form in same:
        places = [place for place, label in enumerate(labels) if form(label) == form(word)]
        if places:
            return places
    return []


def _known_kind(kind: str) -> Kind:
    for known in KINDS:
        if kind == known:
            return known
    raise InputError("--kind", got=kind, expected=", ".join(KINDS))


def _mean_entropy(weights: Weights) -> float:
    rows = row_entropy(weights)
    rows = rows[~np.isnan(rows)]
    return float(rows.mean()) if rows.size else float("inf")  # nothing to see comes last


def _sites(maps: Sequence[AttentionMap]) -> str:
    return ", ".join(m.site for m in maps)


def _matching(
    maps: Sequence[AttentionMap], kind: Kind, layer: int | str | None
) -> tuple[tuple[AttentionMap, ...], int | None]:
    """The maps of one stack that a kind can show and `layer` names, and the head it names."""
    ending = {"alignment": ".cross", "self": ".self", "picture": ".self"}.get(kind, "")
    possible = [m for m in maps if m.stack.endswith(ending)]
    if not possible:
        other = "self" if kind == "alignment" else "alignment"
        raise InputError(
            f"--kind {kind}",
            got="a model without cross-attention" if kind == "alignment" else "no self-attention",
            fix=f"try --kind {other}",
        )
    parts = [] if layer is None else str(layer).split(".")
    numbers = [int(part) for part in parts if part.isdecimal()]
    names = {part for part in parts if not part.isdecimal()}
    found = [
        m
        for m in possible
        if names <= set(m.site.split(".")) and m.layer in (numbers or [m.layer])[:1]
    ]
    if not found or len(numbers) > 2:
        raise InputError("--layer", got=layer, expected=f"one of {_sites(possible)}")
    # What a kind shows unless told otherwise: positions are about a sequence and itself.
    usual = (
        ("decoder.cross",) if kind in ("alignment", "grid") else ("encoder.self", "decoder.self")
    )
    stacks = [m.stack for m in found]
    stack = next((name for name in usual if name in stacks), stacks[0])
    return tuple(m for m in found if m.stack == stack), numbers[1] if len(numbers) == 2 else None
