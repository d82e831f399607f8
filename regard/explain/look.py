"""The attention recorded for one input, and the choice of which part of it to show.

Input: the attention maps of all layers (`maps.AttentionMap`). A `Look` holds them, picks a layer
and a head, and writes an HTML page or a picture; a `Comparison` does the same for two looks side
by side. The drawing is done in `plot` (PNG, SVG, PDF) and `page` (HTML).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from regard.draw.labels import Weights, visible
from regard.errors import InputError
from regard.explain.maps import AttentionMap, merge_words, row_entropy, shortened
from regard.explain.names import in_words
from regard.runtime.files import write_file

if TYPE_CHECKING:
    from regard.explain.images.hiding import HiddenPatches, Hiding
    from regard.tasks.trace import Classified, ImageGrid, Trace

PictureKind = Literal["alignment", "grid", "self", "positions", "picture", "rollout", "maps"]
KINDS: tuple[PictureKind, ...] = get_args(PictureKind)
IMAGE_KINDS = ("picture", "rollout", "maps")
"""The kinds that draw weights over an image."""
STACK_KINDS = ("grid", "positions", "rollout", "maps")
"""The kinds that show all layers of a stack."""


@dataclass(frozen=True)
class LookSelection:
    """Which part of a look is shown.

    Attributes:
        kind: The kind of picture, one of `KINDS`.
        maps: All layers of a stack for `STACK_KINDS`; a single map for the other kinds.
        head: The number of one head; in a rollout, of the last layer. None: each head on its own in
            `grid`, `positions` and `maps`, the mean over heads in the other kinds.
        reason: Why this layer was chosen, if the user did not name one.
        row: The query index of the word the user asked for; None if no word was asked for.
        note: A remark about that word, for example that it occurs more than once.
    """

    kind: PictureKind
    maps: tuple[AttentionMap, ...]
    head: int | None = None
    reason: str = ""
    row: int | None = None
    note: str = ""

    @property
    def map(self) -> AttentionMap:
        """The chosen map; the first one if there are several."""
        return self.maps[0]

    @property
    def name(self) -> str:
        """Layer and head in words, for titles."""
        if self.kind in STACK_KINDS:
            name, kind = self.map.stack.split(".")
            site, heads = f"{name}.{self.map.layer}-{self.maps[-1].layer}.{kind}", "all heads"
            if self.kind == "rollout":
                head = "" if self.head is None else f", head {self.head} of the last"
                return f"attention rollout, {in_words(site)}{head}"
        else:
            site, count = self.map.site, self.map.heads
            heads = "its one head" if count == 1 else f"mean over {count} heads"
        return in_words(site, heads if self.head is None else f"head {self.head}")

    @property
    def short(self) -> str:
        """Layer and head as typed in options: `decoder.1.cross.7`, or `decoder.cross` for all."""
        site = self.map.stack if len(self.maps) > 1 else self.map.site
        if self.kind == "rollout":
            return "--kind rollout"
        return site if self.head is None else f"{site}.{self.head}"


@dataclass(frozen=True, eq=False)
class Look:
    """The attention recorded for one input; a notebook displays it as an interactive page.

    Attributes:
        maps: The attention maps of all layers, in the order of the model.
        title: The title of the picture.
        model: The name of the model.
        source: The input text.
        target: The output text, generated or forced.
        knocked_out: The heads whose output was set to zero, such as `decoder.2.cross.3`.
        note: An additional sentence for the caption.
        source_language: The language of the keys of cross-attention, such as `English`.
        target_language: The language that the decoder writes, such as `German`.
        picture: The input image, if the input is an image.
        classified: The image and its classifier, by which a map can be tested.
        original: Whether an image is shown as it was, not as the model reads it.
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
    picture: ImageGrid | None = None
    classified: Classified | None = None
    original: bool = False
    endings: ClassVar[tuple[str, ...]] = (".html", ".png", ".svg", ".pdf")

    def __post_init__(self) -> None:
        if not self.maps:
            raise ValueError("a look needs at least one map")

    def site(self, name: str) -> AttentionMap:
        """The map of one layer, by its site name such as `decoder.2.cross`.

        Raises:
            InputError: If no such site was recorded.
        """
        matching = [m for m in self.maps if m.site == name]
        if not matching:
            raise InputError("site", got=name, expected=_site_list(self.maps))
        return matching[0]

    def knocked_out_in(self, attention_map: AttentionMap) -> tuple[int, ...]:
        """The numbers of the heads of a map that were knocked out."""
        heads = range(attention_map.heads)
        return tuple(n for n in heads if f"{attention_map.site}.{n}" in self.knocked_out)

    def matrix(self, attention_map: AttentionMap, head: int | None = None) -> Weights:
        """The weights of one head, or the mean over those not knocked out: (query, key)."""
        return attention_map.matrix(head, self.knocked_out_in(attention_map))

    def orientation(self, attention_map: AttentionMap) -> tuple[str, str]:
        """Two phrases: what the rows of a map are, and what its columns are."""
        if self.picture is not None:
            return "the query patch", "the patches attended to"
        written = f"the {self.target_language} word".replace("  ", " ") + " being written"
        if attention_map.stack.endswith(".cross"):
            kind = self.source_language or "source"
            return written, f"the {kind} words attended to"
        if attention_map.writes:
            return written, "the earlier words attended to"
        return "the query word", "the words attended to"

    def choose(
        self,
        kind: str | None = None,
        layer: int | str | None = None,
        head: int | None = None,
        word: str | None = None,
    ) -> LookSelection:
        """Choose kind, layer, head and word to show, filling in what the caller leaves open.

        If no layer is given, the layer whose drawn rows have the lowest mean entropy (the
        sharpest one) is chosen.

        Args:
            kind: One of `KINDS`. Default: `picture` for an image; otherwise `alignment`, or `self`
                if there is no cross-attention or the word occurs only in the source.
            layer: A number, or a name: `decoder`, `decoder.1`, `decoder.1.self`; also
                `decoder.1.self.3`, which names the head as well.
            head: The number of a head. Default: the mean over heads.
            word: The query whose row is shown. For an image it is a patch such as `2,3`; by
                default that from which the class is computed: [CLS], or the mean of the patches.

        Raises:
            InputError: For an unknown kind, layer, head or word; the message lists the valid ones.
        """
        if kind is None:
            kind = self._default_kind(layer, word)
        elif kind not in KINDS:
            raise InputError("--kind", got=kind, expected=", ".join(KINDS))
        candidates, named_head = _matching_maps(self.maps, kind, layer)
        head = named_head if head is None else head
        heads = min(m.heads for m in candidates)
        if head is not None and not 0 <= head < heads:
            raise InputError("--head", got=head, expected=f"0 to {heads - 1}")
        if kind in IMAGE_KINDS:
            return self._choose_picture(kind, candidates, head, layer, word)
        if kind in ("grid", "positions"):
            if word is not None:
                what, fix = f"--word with --kind {kind}", "leave one out"
                raise InputError(what, expected="alignment or self", fix=fix)
            return LookSelection(kind, candidates, head)
        best, reason = _sharpest_map(candidates, [self.matrix(m, head) for m in candidates])
        row, note = (None, "") if word is None else find_word(best.queries, word)
        return LookSelection(kind, (best,), head, reason, row, note)

    def _choose_picture(
        self,
        kind: PictureKind,
        candidates: tuple[AttentionMap, ...],
        head: int | None,
        layer: int | str | None,
        word: str | None,
    ) -> LookSelection:
        """Choose the row to draw over the image and, for `picture`, the layer.

        The row is the patch named by `word`, otherwise that from which the class is computed. The
        layer is the one in which that row has the lowest entropy.
        """
        if self.picture is None:
            raise InputError(f"--kind {kind}", got="a text", expected="an image")
        follows = kind == "rollout" and self.picture.merged
        if follows and layer is not None:  # the layers up to this one
            last = candidates[-1].layer
            candidates = tuple(m for m in self.maps if m.layer <= last)
        elif kind == "rollout" and (layer is not None or head is not None) and not follows:
            expected = "neither: all layers and heads"
            raise InputError("--kind rollout", got="--layer or --head", expected=expected)
        if kind != "picture" and (word is not None or kind == "rollout") and not follows:
            _check_one_grid(kind, candidates)
        row = self.picture.class_row
        if word is not None and follows:
            row, _ = find_word(candidates[-1].queries, word)
        elif word is not None:  # in a ResNet, layers before the last one may have further cells
            candidates = tuple(m for m in candidates if word in m.queries) or candidates[-1:]
            row, _ = find_word(candidates[0].queries, word)
            candidates = tuple(m for m in candidates if m.queries == candidates[0].queries)
        if kind != "picture":
            return LookSelection(kind, candidates, head, "", row)
        rows = slice(self.picture.first, None) if row is None else slice(row, row + 1)
        drawn_weights = [self.matrix(m, head)[rows] for m in candidates]
        best, reason = _sharpest_map(candidates, drawn_weights)
        return LookSelection("picture", (best,), head, reason, row)

    def testable(self, choice: LookSelection) -> bool:
        """Whether a choice is a map of what the class of an image is computed from."""
        if self.picture is None or self.classified is None or choice.kind not in IMAGE_KINDS:
            return False
        patches = self.picture.at(choice.map.site).patches
        return choice.row == self.picture.class_row and patches > 1

    def test(
        self, choice: LookSelection | None = None, hiding: Hiding | None = None
    ) -> HiddenPatches:
        """Test a map of an image: hide the patches that are looked at most, and as many others.

        Args:
            choice: The map, as `choose` returns it; by default the one that `save` draws.
            hiding: How patches are hidden; by default a fifth of them, by the mean colour.

        Raises:
            InputError: If this is not the look of an image that was classified.
        """
        # imported here: they import torch
        from regard.explain.images.hiding import Hiding, hide_patches
        from regard.explain.images.patches import chosen_row, over_patches, picture_of

        if self.picture is None or self.classified is None:
            raise InputError("test", got="no classified image", expected="an image and its classes")
        choice = choice or self.choose()
        weights = over_patches(picture_of(self, choice), chosen_row(self, choice))
        return hide_patches(self.classified, weights, hiding or Hiding())

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
        hiding: Hiding | bool = True,
    ) -> Path:
        """Write a page (.html) or a picture (.png, .svg, .pdf).

        Args:
            path: The output file; its ending selects the format.
            kind: See `choose`.
            layer: See `choose`.
            head: See `choose`.
            word: See `choose`.
            details: Also write the page's details, such as the model's name, below the picture.
            paper: Draw the picture for print: 160 mm wide, without title and caption.
            hiding: How patches are hidden in the test beside the map of a classified image (see
                `test`). True: as usual. False: no test.

        Raises:
            InputError: For another ending, or for arguments that `choose` rejects.
            WriteError: If the file cannot be written; the old file is unchanged.
        """
        picture_ending(path, self.endings)  # raise errors before the work, not after it
        choice = self.choose(kind, layer, head, word)
        settings = None if isinstance(hiding, bool) else hiding
        test = self.test(choice, settings) if hiding and self.testable(choice) else None
        return self.save_choice(path, choice, test, details=details, paper=paper)

    def save_choice(
        self,
        path: str | os.PathLike[str],
        choice: LookSelection,
        test: HiddenPatches | None = None,
        *,
        details: bool = False,
        paper: bool = False,
    ) -> Path:
        """Write a page or a picture of what `choose` returned, with the result of `test`."""
        ending = picture_ending(path)
        # Imported here because importing matplotlib takes most of a second.
        if ending == ".html":
            from regard.explain.page import look_page

            return write_file(path, look_page(self, choice, test).encode())
        from regard.explain.plot import draw, render

        figure = draw(self, choice, test, details=details, paper=paper)
        return write_file(path, render(figure, ending, paper=paper))

    def __repr__(self) -> str:
        """A summary of a few lines without the weights: texts, stacks, and how to save a page."""
        lines = [f"Look of {self.model}" if self.model else "Look"]
        texts = {"source": self.source, "target": self.target} if self.source else {}
        for name, text in (texts or {"title": self.title}).items():
            lines += [f"  {name:<14} {visible(shortened(text, 80))}"] if text else []
        for stack in dict.fromkeys(m.stack for m in self.maps):
            maps = [m for m in self.maps if m.stack == stack]
            size = f"{len(maps)} × {max(m.heads for m in maps)} (layers × heads)"
            lines.append(f"  {stack:<14} {size}, from {maps[0].site} on")
        lines += [f"  without        {', '.join(self.knocked_out)}"] if self.knocked_out else []
        hint = '.save("look.html") for a page, .png, .svg or .pdf for a picture'
        return "\n".join([*lines, f"  to see it      {hint}"])

    def _default_kind(self, layer: int | str | None, word: str | None) -> PictureKind:
        if self.picture is not None:
            return "picture"
        cross = [m for m in self.maps if m.stack.endswith(".cross")]
        parts = layer.split(".") if isinstance(layer, str) else []
        if not cross or "self" in parts or "encoder" in parts:
            return "self"
        if word is not None and not _indices(cross[0].queries, word):
            sources = [m.queries for m in self.maps if m.stack == "encoder.self"]
            return "self" if any(_indices(words, word) for words in sources) else "alignment"
        return "alignment"

    def _repr_html_(self) -> str:
        from regard.explain.page import framed, look_page

        choice = self.choose()
        return framed(look_page(self, choice, self.test(choice) if self.testable(choice) else None))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two looks shown at the same layer: before and after a knock-out, or for two sentences.

    Attributes:
        before: The first look; the sharpest layer is chosen from it.
        after: The second look.
        names: The labels of the two looks.
    """

    before: Look
    after: Look
    names: tuple[str, str] = ("before", "after")

    def choose(
        self, kind: str | None = None, layer: int | str | None = None, head: int | None = None
    ) -> tuple[LookSelection, LookSelection]:
        """Choose the same kind, layer and head in both looks, so that they can be compared.

        Raises:
            InputError: As `Look.choose`, and for kinds other than `alignment` and `self`.
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
        """Write both maps and their difference as a page (.html) or picture (.png, .svg, .pdf)."""
        ending = picture_ending(path)
        if ending == ".html":
            from regard.explain.page import comparison_page

            return write_file(path, comparison_page(self, *self.choose(kind, layer, head)).encode())
        from regard.explain.plot import draw_comparison, render

        choices = self.choose(kind, layer, head)
        figure = draw_comparison(self, *choices, details=details, paper=paper)
        return write_file(path, render(figure, ending, paper=paper))

    def _repr_html_(self) -> str:
        from regard.explain.page import comparison_page, framed

        return framed(comparison_page(self, *self.choose()))


def look_of(trace: Trace, item: Any, *, model: str = "", without: Sequence[str] = ()) -> Look:
    """Turn the recorded weights of one input into a look, with sub-words merged into words.

    Args:
        trace: The weights (heads, query, key) per layer that a task recorded, and its words.
        item: The input: a text, or an image or its path.
        model: The name of the model.
        without: The heads that were knocked out.
    """
    maps = []
    for site, value in trace.weights.items():
        layer = site.removesuffix(".weights")
        stack, _, kind = layer.split(".")
        words = trace.words.get(layer, trace.words.get(f"{stack}.{kind}"))
        assert words is not None  # a trace has the words of all that it recorded
        (rows, row_index), (columns, column_index) = words
        shape = len(row_index), len(column_index)
        array = value[:, : shape[0], : shape[1]].cpu().double().numpy()  # (heads, query, key)
        pieces = AttentionMap(layer, array, ("",) * shape[0], ("",) * shape[1])
        maps.append(merge_words(pieces, row_index, column_index, rows, columns))
    written = "" if trace.output is None else f" → {trace.output}"
    text = str(item) if isinstance(item, str | os.PathLike) else "an image"
    fields: dict[str, Any] = {
        "maps": tuple(maps),
        "title": shortened(f"{text}{written}"),
        "model": model,
        "source": text,
        "target": trace.output or "",
        "knocked_out": tuple(without),
        "note": trace.note,
    }
    if trace.picture is not None and "decoder.cross" in trace.words:
        from regard.explain.images.caption_look import CaptionLook  # it imports this module

        return CaptionLook(**fields, image=trace.picture, captioned=trace.captioned)
    return Look(**fields, picture=trace.picture, classified=trace.classified)


def compare(before: Look, after: Look, names: tuple[str, str] = ("before", "after")) -> Comparison:
    """Compare two looks; returns a `Comparison` that draws both side by side."""
    return Comparison(before, after, names)


def find_word(labels: Sequence[str], word: str) -> tuple[int, str]:
    """The index of the first occurrence of a word, and a note if it occurs more than once.

    Raises:
        InputError: If the word does not occur; the message lists the words that do.
    """
    indices = _indices(labels, word)
    if not indices:
        words = shortened(" ".join(dict.fromkeys(map(visible, labels))), 300)
        expected, fix = "one of the words in the rows", f"try {words}"
        raise InputError("--word", got=repr(word), expected=expected, fix=fix)
    times = f"“{visible(word)}” occurs {len(indices)} times; this is the first."
    return indices[0], times if len(indices) > 1 else ""


def picture_ending(
    path: str | os.PathLike[str],
    endings: Sequence[str] = (".html", ".png", ".svg", ".pdf"),
    example: str = "look",
) -> str:
    """The suffix of an output file in lower case, which selects the format.

    Raises:
        InputError: For any other than `endings`; the message names the file `example`.
    """
    ending = Path(path).suffix.lower()
    if ending not in endings:
        expected = f"{', '.join(endings[:-1])} or {endings[-1]}"
        fix = f"name the file by its format, as in -o {example}{endings[0]}"
        raise InputError(str(path), got=ending or "no file suffix", expected=expected, fix=fix)
    return ending


def _indices(labels: Sequence[str], word: str) -> list[int]:
    """All indices of a word: exact matches, or matches ignoring case if there is no exact one."""
    forms: tuple[Callable[[str], str], ...] = (str, str.casefold)
    for form in forms:
        indices = [index for index, label in enumerate(labels) if form(label) == form(word)]
        if indices:
            return indices
    return []


def _sharpest_map(
    maps: Sequence[AttentionMap], drawn_weights: Sequence[Weights]
) -> tuple[AttentionMap, str]:
    """The map whose drawn rows have the lowest mean entropy, and this reason if there are others.

    Args:
        maps: The candidates.
        drawn_weights: The weights (query, key) that would be drawn of each.
    """

    def mean_entropy(weights: Weights) -> float:
        rows = row_entropy(weights)
        rows = rows[~np.isnan(rows)]
        return float(rows.mean()) if rows.size else float("inf")  # an empty map is chosen last

    entropies = list(map(mean_entropy, drawn_weights))
    best = int(np.argmin(entropies))
    reason = f"the sharpest layer: row entropy {entropies[best]:.2f} nats"
    return maps[best], reason if len(maps) > 1 else ""


def _check_one_grid(kind: str, maps: Sequence[AttentionMap]) -> None:
    """Refuses layers over different grids of an image, of which no row has the cells of another."""
    if len({m.queries for m in maps}) > 1:
        got = f"layers over different grids: {_site_list(maps)}"
        raise InputError(f"--kind {kind}", got=got, expected="one grid", fix="try --kind picture")


def _site_list(maps: Sequence[AttentionMap]) -> str:
    return ", ".join(m.site for m in maps)


def _matching_maps(
    maps: Sequence[AttentionMap], kind: PictureKind, layer: int | str | None
) -> tuple[tuple[AttentionMap, ...], int | None]:
    """The maps of one stack that fit `kind` and `layer`, and the head if `layer` names one."""
    ending = {"alignment": ".cross", "self": ".self"}.get(kind, "")
    ending = ".self" if kind in IMAGE_KINDS else ending
    maps_of_kind = [m for m in maps if m.stack.endswith(ending)]
    if not maps_of_kind:
        got, other = "no self-attention", "alignment"
        if kind == "alignment":
            got, other = "a model without cross-attention", "self"
        raise InputError(f"--kind {kind}", got=got, fix=f"try --kind {other}")
    parts = [] if layer is None else str(layer).split(".")
    numbers = [int(part) for part in parts if part.isdecimal()]
    names = {part for part in parts if not part.isdecimal()}
    number = numbers[0] if numbers else None  # a second number is the head
    matching = [
        m for m in maps_of_kind if names <= set(m.site.split(".")) and number in (None, m.layer)
    ]
    if not matching or len(numbers) > 2:
        raise InputError("--layer", got=layer, expected=f"one of {_site_list(maps_of_kind)}")
    # The default stack of a kind; `positions` compares positions within one sequence.
    default_stacks = (
        ("decoder.cross",) if kind in ("alignment", "grid") else ("encoder.self", "decoder.self")
    )
    stacks = [m.stack for m in matching]
    stack = next((name for name in default_stacks if name in stacks), stacks[0])
    return tuple(m for m in matching if m.stack == stack), numbers[1] if len(numbers) == 2 else None
