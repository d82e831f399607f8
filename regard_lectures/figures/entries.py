"""Figure of part 7: what attention on pixels and on patches takes, by the formulas beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.draw import LINE_STYLES, MUTED, scientific
from regard.explain import Board, Drawing, Words
from regard_lectures.limits import COMPUTED

BYTES = 4
"""Of a number in 32 bits."""
UNITS = {"GB": 2**30, "MB": 2**20, "KB": 2**10}
"""Binary units, as the lectures have them."""
LECTURE = 128
"""The side of the lecture's image of pixels."""
MEMORY = 80
"""GB of a large GPU."""
SIDES = (32, 64, 128, 256, 512)
"""The sides of the images of the curves."""


def entries(image: int, layers: int, heads: int) -> Drawing:
    """Draw how many entries attention matrices have, and the memory that all of them take."""
    cases = [
        _case("pixels", LECTURE, 1, layers, heads),
        _case("pixels", image, 1, layers, heads),
        _case("16 × 16", image, 16, layers, heads),
        _case("14 × 14", image, 14, layers, heads),
    ]
    numbers: dict[str, Any] = {
        **{name: [case[name] for case in cases] for name in cases[0]},
        "image": image, "layers": layers, "heads": heads,
    }  # fmt: skip
    details = (
        f"One image, {layers} layers of {heads} heads, numbers of 4 bytes, without [CLS]; KB, MB "
        "and GB are binary and rounded down, as in the lectures. tokens = (side / patch)², entries "
        f"= tokens², memory = {BYTES} bytes · entries · layers · heads. A matrix on pixels has R⁴ "
        "entries. Pixels beyond the last whole patch are cut off."
    )
    with Board(words_entries(numbers), (1.85, 1), details, limits=COMPUTED) as board:
        columns = [("tokens are", 0.0), ("side", 0.24), ("tokens", 0.4)]
        columns += [("entries of\na matrix", 0.66), ("its\nbytes", 0.81), ("of all", 1.0)]
        rows = [
            [case["kind"], str(case["side"]), in_count(case["tokens"], 10**7),
             in_count(case["entries"]), in_units(case["bytes"]), in_units(case["all_bytes"])]
            for case in cases
        ]  # fmt: skip
        board.table(0, f"{layers} layers × {heads} heads", columns, rows, bold=(2,))
        _draw_curves(board, image, layers, heads)
        return board.drawing(**numbers)


def words_entries(numbers: Mapping[str, Any]) -> Words:
    """Whether all matrices fit into the memory of a large GPU, on pixels and on patches."""
    side, of_all = numbers["image"], numbers["all_bytes"]
    pixels, patched = of_all[1], of_all[2]
    fits = [taken <= MEMORY * UNITS["GB"] for taken in (pixels, patched)]
    taken = f"{in_units(pixels)} on pixels, {in_units(patched)} on patches"
    verdict = {
        (False, True): f"only these fit {MEMORY} GB",
        (True, True): f"both fit {MEMORY} GB",
        (False, False): f"neither fits {MEMORY} GB",
        (True, False): f"only pixels fit {MEMORY} GB",
    }[fits[0], fits[1]]
    title = f"Attention on {side} × {side}: {taken}; {verdict}"
    times = numbers["entries"][1] / max(1, numbers["entries"][2])
    ratio = f"{times:,.0f} times as many entries as" if times > 1 else "as many entries as"
    more = "more" if of_all[0] > MEMORY * UNITS["GB"] else "no more"
    caption = (
        f"Memory = {BYTES} bytes · tokens² · layers · heads, for one image, rounded down: pixels "
        f"have {ratio} patches of 16. Pixels at {LECTURE} take {in_units(of_all[0])}, {more} than "
        f"{MEMORY} GB."
    )
    return Words(title, caption)


def _draw_curves(board: Board, image: int, layers: int, heads: int) -> None:
    """Draw the memory of all matrices by the side of the image, for pixels and for patches."""
    axes = board.chart(1, "memory of all matrices", f"side (dotted: {image})", "", ticks=132)
    kinds = (("pixels", 1), ("patches of 16", 16))
    larger = (2**exponent for exponent in range(10, 60) if 2 ** (exponent - 1) < image)
    sides = np.array([*SIDES, *larger], dtype=float)  # up to the image of the table
    axes.axvline(image, color=MUTED, linewidth=1.6, linestyle=":")
    highest = 0.0
    for (name, patch), style in zip(kinds, LINE_STYLES, strict=False):
        all_bytes = BYTES * (sides / patch) ** 4 * layers * heads
        axes.curve(sides, all_bytes, style=style, label=name, marker=style.marker)
        highest = max(highest, float(all_bytes.max()))
    named = sides[:: -(-len(sides) // 5)].tolist()
    axes.log_axis("x", named)
    axes.set_xticks(named, [f"{side:.0f}" for side in named])
    axes.set_yscale("log", base=2)
    low, high = BYTES * (SIDES[0] / 16) ** 4 * layers * heads / 2, highest * 2**9
    ticks = [tick for tick in (2.0**exponent for exponent in range(0, 71, 10)) if low < tick < high]
    axes.set_yticks(ticks, [in_units(tick) for tick in ticks])
    axes.set_ylim(low, high)  # with room for the legend
    axes.draw_legend("upper left")


def _case(kind: str, side: int, patch: int, layers: int, heads: int) -> dict[str, Any]:
    """Tokens, entries and bytes of attention on one image of side × side pixels."""
    tokens = (side // patch) ** 2
    cells = tokens * tokens  # R⁴ for pixels
    return {
        "kind": kind, "side": side, "patch": patch, "tokens": tokens, "entries": cells,
        "bytes": BYTES * cells, "all_bytes": BYTES * cells * layers * heads,
    }  # fmt: skip


def in_count(count: int, long: int = 3 * 10**9) -> str:
    """A count, with a power of ten where it would be long.

    Example:
        >>> in_count(38_416), in_count(224**4), in_count(4096**4)
        ('38,416', '2,517,630,976', '2.8·10¹⁴')
    """
    return f"{count:,}" if count < long else scientific(float(f"{count:.1e}"))


def in_units(count: float) -> str:
    """Bytes in binary units, rounded down, as the lectures do.

    Example:
        >>> in_units(4 * 14**4), in_units(4 * 14**4 * 768), in_units(4 * 128**4 * 768)
        ('150 KB', '112 MB', '768 GB')
    """
    for unit, size in UNITS.items():
        if count >= 10**5 * UNITS["GB"]:
            rounded = float(f"{count / UNITS['GB']:.1e}")
            return f"{scientific(rounded)} GB"
        if count >= size:
            return f"{int(count // size):,} {unit}"
    return f"{count:.0f} B"
