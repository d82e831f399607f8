"""Figure of part 1: how many nearly orthogonal directions fit in N dimensions.

The slide asks for directions each two of which are 89° to 91° apart, and says that exp(εN) fit.
Shown: the angles of random directions; a set that can be written down, whose angles all lie in the
range; how many directions gradient descent finds; and the most that any set can have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.draw import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, Chart, LineStyle, scientific
from regard.explain import Board, Drawing, Numbers, Words
from regard_lectures.figures.constructed import smallest_full, written_in, written_sample
from regard_lectures.tries import listed

DIMS = (3, 10, 30, 100, 300, 1000, 3000, 10_000)
DRAWN = 200
"""The number of random vectors whose pairwise angles are measured in these dimensions."""
SAMPLE = 1500
"""The most vectors of the written set, and random ones beside it, whose angles are measured."""
PARTS = (0.25, 0.5, 0.75, 1, 1.5, 2)
"""The dimensions of the right panel, in parts of the smallest one that has a written set."""
DESCENDED = 64
"""The largest dimension in which vectors are pushed apart or selected."""
MOST = 1024
"""The largest number of vectors that are pushed apart."""
BINS = 41
STYLES = {
    "proven: no more": LineStyle(INK, "-", ""),
    "the slide: exp(εN)": LineStyle(ORANGE, "--", ""),
    "constructed": LineStyle(PURPLE, "-", "^"),
    "optimized": LineStyle(BLUE, "-", "o"),
    "random, selected": LineStyle(GREEN, "-.", "s"),
}


def measure_orthogonal(degrees: float, steps: int, seed: int) -> dict[str, Any]:
    """Measure the angles of random directions, and how many nearly orthogonal ones fit.

    Args:
        degrees: The largest difference of an angle from 90°.
        steps: Steps of gradient descent.
        seed: The seed of random directions.
    """
    torch.manual_seed(seed)
    spread, within = [], []
    for dim in DIMS:
        angles = _angles(torch.randn(DRAWN, dim))
        spread.append(float(angles.sub(90).square().mean().sqrt()))
        within.append(float((angles.sub(90).abs() <= degrees).double().mean()))
    reach = math.sin(math.radians(degrees))  # ε, the largest cosine
    full = smallest_full(reach)
    dims = [round(part * full) for part in PARTS if part * full >= 2]
    small = [dim for dim in dims if dim <= DESCENDED]
    sample = {
        "random": _angles(torch.randn(min(SAMPLE, written_in(full, reach)), full)),
        "constructed": _angles(written_sample(full, SAMPLE, seed)),
    }
    half = 3.5 * math.degrees(1) / math.sqrt(full)
    edges = np.linspace(90 - half, 90 + half, BINS + 1)
    return {
        "spread": spread,
        "within": within,
        "dims": dims,
        "drawn": [_drawn(dim, reach) for dim in small],
        "pushed": [_most(dim, reach, steps) for dim in small],
        "full": full,
        "sampled": min(SAMPLE, written_in(full, reach)),
        "edges": edges.tolist(),
        "shares": {name: _shares(angles, edges) for name, angles in sample.items()},
        "widest": {name: float(angles.sub(90).abs().max()) for name, angles in sample.items()},
        "inside": {
            name: float((angles.sub(90).abs() <= degrees + 1e-4).double().mean())
            for name, angles in sample.items()
        },
    }


def bound(dim: int, reach: float) -> int | None:
    """The most directions that any set with cosines within reach can have, if the bounds say it.

    The linear programming bound (Delsarte et al. 1977; Levenshtein) with f = t² − ε² and with
    f = t² (t² − ε²): N (1 − ε²) / (1 − N ε²) and N (N + 2) (1 − ε²) / (3 − (N + 2) ε²).
    """
    square = reach**2
    bounds = []
    if dim * square < 1:
        bounds.append(dim * (1 - square) / (1 - dim * square))
    if (dim + 2) * square < 3:
        bounds.append(dim * (dim + 2) * (1 - square) / (3 - (dim + 2) * square))
    return math.floor(min(bounds) + 1e-9) if bounds else None


def _angles(rows: Tensor) -> Tensor:
    """The angles in degrees between all pairs of rows: (pairs,)."""
    unit = F.normalize(rows, dim=1)
    above = torch.triu_indices(len(unit), len(unit), 1)
    cosines = (unit @ unit.T)[above[0], above[1]].double()
    return cosines.clamp(-1, 1).arccos().rad2deg()


def _shares(angles: Tensor, edges: npt.NDArray[Any]) -> list[float]:
    """The share of angles between each two edges."""
    counts, _ = np.histogram(angles.numpy(), bins=edges)
    return [float(count) / len(angles) for count in counts]


def _drawn(dim: int, reach: float, candidates: int = 20_000) -> int:
    """How many random vectors can be kept if each must fit all before.

    Args:
        dim: The dimension.
        reach: The largest allowed absolute cosine.
        candidates: The number of random vectors.
    """
    chosen = torch.empty(0, dim)
    for batch in torch.split(F.normalize(torch.randn(candidates, dim), dim=1), 500):
        fits = batch[((batch @ chosen.T).abs() <= reach).all(1)]
        for vector in fits:
            if ((chosen @ vector).abs() <= reach).all():
                chosen = torch.cat([chosen, vector[None]])
    return len(chosen)


def _most(dim: int, reach: float, steps: int) -> int:
    """The largest number of vectors that `_pushed` brings to absolute cosines of at most `reach`.

    It is at least `dim`, since that many fit at right angles.
    """
    low, high = dim, dim + 1
    while high <= MOST and _largest(_pushed(high, dim, steps)) <= reach:
        low, high = high, math.ceil(high * 1.5)
    while high - low > max(1, low // 16):
        middle = (low + high) // 2
        if _largest(_pushed(middle, dim, steps)) <= reach:
            low = middle
        else:
            high = middle
    return low


def _largest(rows: Tensor) -> float:
    cosines = rows @ rows.T
    return float(cosines.fill_diagonal_(0).abs().max())


def _pushed(count: int, dim: int, steps: int) -> Tensor:
    """Random unit vectors (count, dim), pushed apart by gradient steps on their largest cosines."""
    rows = F.normalize(torch.randn(count, dim), dim=1)
    for step in range(steps):
        cosines = (rows @ rows.T).fill_diagonal_(0)
        sharp = 4 + 28 * step / steps  # large cosines count more over time
        weights = torch.softmax(sharp * cosines.abs() / cosines.abs().max(), dim=1)
        push = (weights * cosines.sign()) @ rows
        rows = F.normalize(rows - 0.5 * (1 - step / steps) * push, dim=1)
    return rows


def numbers_of(measured: Mapping[str, Any], degrees: float, steps: int) -> Numbers:
    """What the picture shows and its words say."""
    reach = math.sin(math.radians(degrees))
    dims = measured["dims"]
    return {
        "degrees": degrees,
        "steps": steps,
        "dimensions": list(DIMS),
        "degrees_from_90": measured["spread"],
        "share_within_range": measured["within"],
        "written_dimension": measured["full"],
        "written": written_in(measured["full"], reach),
        "written_sampled": measured["sampled"],
        "widest_random": measured["widest"]["random"],
        "widest_written": measured["widest"]["constructed"],
        "inside_random": measured["inside"]["random"],
        "inside_written": measured["inside"]["constructed"],
        "fitted_dimensions": dims,
        "selected_of_random": measured["drawn"],
        "pushed_apart": measured["pushed"],
        "written_down": [written_in(dim, reach) for dim in dims],
        "bound": [bound(dim, reach) for dim in dims],
        "log10_exp": [reach * dim / math.log(10) for dim in dims],
    }


def words_orthogonal(numbers: Mapping[str, Any]) -> Words:
    """How many directions fit within the range, and whether exp(εN) is right."""
    degrees = numbers["degrees"]
    dim = numbers["written_dimension"]
    at = numbers["fitted_dimensions"].index(dim)
    optimized = numbers["pushed_apart"][at : at + 1]
    largest_set = max(numbers["written"], *optimized, 0)
    between = f"{90 - degrees:g}° to {90 + degrees:g}°"
    all_inside = numbers["inside_written"] == 1
    if all_inside:
        title = f"{largest_set:,} directions fit in {dim:,} dimensions, each two {between} apart"
    else:
        title = f"Not all angles of the constructed directions in {dim:,} dimensions are {between}"
    exponent, most = numbers["log10_exp"][at], numbers["bound"][at]
    lecture = f"The slide's exp(εN) would be {power_of_ten(exponent)}"
    if most is not None and exponent > math.log10(most):
        verdict = f"{lecture}; no set can have more than {most:,}, so it is too many"
    elif exponent > math.log10(largest_set):
        verdict = f"{lecture}, more than were found"
    else:
        verdict = f"{lecture}, fewer than were found, so it is no upper limit"
    others = _other_dimensions(numbers, dim)
    caption = (
        f"{verdict}{others}. Of random directions in {dim:,} dimensions "
        f"{numbers['inside_random']:.0%} of the pairs are {between} apart, of the constructed ones "
        f"{numbers['inside_written']:.0%} ({numbers['written_sampled']:,} measured)."
    )
    return Words(title, caption)


def _other_dimensions(numbers: Mapping[str, Any], dim: int) -> str:
    """A phrase: in which of the other dimensions exp(εN) is impossible, and where it is beaten."""
    rows = list(
        zip(
            numbers["fitted_dimensions"],
            numbers["log10_exp"],
            numbers["bound"],
            best_found(numbers),
            strict=True,
        )
    )
    rows = [row for row in rows if row[0] != dim]
    groups = {
        "it is too many": [row[0] for row in rows if row[2] and row[1] > math.log10(row[2])],
        "more were found": [row[0] for row in rows if row[1] < math.log10(row[3])],
    }
    phrases = [
        f"at N = {listed([f'{dim:,}' for dim in dims])} {verdict}"
        if len(dims) < len(rows)
        else f"at every other N shown {verdict}"
        for verdict, dims in groups.items()
        if dims
    ]
    return "".join(f"; {phrase}" for phrase in phrases)


def best_found(numbers: Mapping[str, Any]) -> list[int]:
    """For each dimension the most directions that were found or written down."""
    pushed: Sequence[int] = numbers["pushed_apart"]
    return [
        max(written, *pushed[index : index + 1], 0)
        for index, written in enumerate(numbers["written_down"])
    ]


def power_of_ten(exponent: float) -> str:
    """10 to a power as text: a whole number below a million, else with an exponent.

    Example:
        >>> power_of_ten(2), power_of_ten(31.05)
        ('100', '1.1·10³¹')
    """
    return f"{10**exponent:,.0f}" if exponent < 6 else scientific(10**exponent)


def orthogonal(measured: dict[str, Any], degrees: float, steps: int, seed: int) -> Drawing:
    """Draw the angles of random directions, and how many nearly orthogonal ones fit."""
    numbers = numbers_of(measured, degrees, steps)
    reach = math.sin(math.radians(degrees))
    full = numbers["written_dimension"]
    details = (
        f"Left: the root mean square of (angle − 90°) of all pairs of {DRAWN} random directions; "
        f"57°/√N is one radian over √N. Middle: {numbers['written_sampled']:,} directions of "
        f"the constructed set in N = {full:,} dimensions, and as many random ones. The set has "
        f"{numbers['written']:,} directions, N/2 + 1 bases of N, with cosines of 0 and ±1/√N "
        "(Kerdock 1972; Calderbank et al. 1997); it exists for N = 4, 16, 64, …; larger spaces are "
        f"cut into such parts. Right: ε = sin {degrees:g}° = {reach:.4f}. Optimized: gradient "
        f"descent on the largest cosines, {steps} steps, up to {MOST} vectors, in up to "
        f"{DESCENDED} dimensions; selected: of 20,000 random ones. Proven: the linear programming "
        "bound min(N(1−ε²)/(1−Nε²), N(N+2)(1−ε²)/(3−(N+2)ε²)), where these are positive. The "
        "lemma of Johnson and Lindenstrauss guarantees exp(ε²N/4), here "
        f"{power_of_ten(reach**2 * full / 4 / math.log(10))}. Seed {seed}."
    )
    theorem = (
        "; a theorem has the others" if numbers["written_sampled"] < numbers["written"] else ""
    )
    limits = (
        f"No model. {numbers['written_sampled']:,} constructed directions are measured{theorem}."
    )
    with Board(words_orthogonal(numbers), (1, 1, 1.35), details, limits=limits) as board:
        _draw_spread(board, numbers)
        _draw_angles(board, measured, degrees, full)
        _draw_fits(board, numbers)
        return board.drawing(**numbers)


def _draw_spread(board: Board, numbers: Numbers) -> None:
    axes = board.chart(0, "random directions", "dimension N", "degrees from 90°")
    axes.plot(DIMS, numbers["degrees_from_90"], "o", color=BLUE, label="measured")
    axes.plot(DIMS, [math.degrees(1) / math.sqrt(dim) for dim in DIMS], "--", color=MUTED,
              label="57°/√N")  # fmt: skip
    axes.log_axis("x", (10, 100, 1000, 10_000))
    axes.log_axis("y", (1, 10, 30))
    axes.draw_legend("lower left")


def _draw_angles(board: Board, measured: Mapping[str, Any], degrees: float, full: int) -> None:
    """Draw the histogram of angles; vertical lines: the ends of the range."""
    axes = board.chart(1, f"angles, N = {full:,}", "angle in degrees", "share of pairs")
    edges = measured["edges"]
    styles = zip(measured["shares"].items(), (ORANGE, BLUE), ("//", ""), strict=True)
    for (name, shares), colour, hatch in styles:
        axes.hist(edges[:-1], bins=edges, weights=shares, color=colour, alpha=0.7, label=name,
                  hatch=hatch, edgecolor="white")  # fmt: skip
    for end in (90 - degrees, 90 + degrees):
        axes.axvline(end, color=MUTED, linestyle=":", linewidth=2)
    axes.set_ylim(0, 1.4 * axes.get_ylim()[1])
    axes.draw_legend("upper left")


def _draw_fits(board: Board, numbers: Numbers) -> None:
    """Draw how many directions fit; exp(εN) ends where it leaves the chart."""
    axes: Chart = board.chart(2, f"how many fit, ± {numbers['degrees']:g}°", "dimension N", "")
    dims = numbers["fitted_dimensions"]
    pushed, drawn = numbers["pushed_apart"], numbers["selected_of_random"]
    most = [value or math.nan for value in numbers["bound"]]
    lecture = [10 ** min(exponent, 300) for exponent in numbers["log10_exp"]]
    lines = (most, lecture, numbers["written_down"], pushed, drawn)
    for (name, line_style), line in zip(STYLES.items(), lines, strict=True):
        if line:
            axes.curve(dims[: len(line)], line, style=line_style, marker=line_style.marker,
                       label=name, markersize=8)  # fmt: skip
    high = np.nanmax([*most, *numbers["written_down"]])
    low = min(dims[0], *(drawn or dims))
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    axes.log_axis("y", [10.0**power for power in decades])
    axes.set_ylim(low * 0.7, high * (high / low) ** 0.9)
    axes.set_xticks(dims[1::2], [f"{dim:,}" for dim in dims[1::2]])
    axes.draw_legend("upper left")
