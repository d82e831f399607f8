"""Figures of part 1: data and words as vectors, and the number of nearly orthogonal directions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard import vectors
from regard.draw import BLUE, GREEN, MUTED, ORANGE, PURPLE, Chart, positive_scale, signed_scale
from regard.errors import InputError
from regard.explain import Board, Drawing
from regard.vectors import Neighbour, pca

SHOWN = 8
"""The number of components of a vector that are drawn."""
PEOPLE = ((23, 1200, 200), (34, 2000, 200), (55, 1500, 300))
"""The people of lecture D2: age, monthly salary, monthly savings."""
HAIR = ("blond", "black", "brown", "blue")
PIXELS = ((25, 51, 76), (102, 127, 153), (178, 178, 229))
"""The grey image of lecture D2."""
ANALOGIES = ("king - man + woman", "hitler + italy - germany", "sushi - japan + germany")
SAID = {ANALOGIES[0]: "queen", ANALOGIES[1]: "mussolini", ANALOGIES[2]: "bratwurst"}
"""The answers on the slides."""
STEPS = (("man", "woman"), ("father", "mother"), ("king", "queen"),
         ("actor", "actress"))  # fmt: skip


def onehot(text: str | None, word: int, model: str) -> Drawing:
    """Draw that a one-hot vector times the embedding matrix is one row of the matrix."""
    table = vectors(model)
    words = (text or "king queen man woman tower sushi").split()
    if not 2 <= len(words) <= 12:
        raise InputError("--text", got=f"{len(words)} words", expected="2 to 12")
    if word > len(words):
        raise InputError("word", got=word, expected=f"1 to {len(words)}")
    matrix = torch.from_numpy(np.stack([table[entry] for entry in words])[:, :SHOWN])
    one_hot = F.one_hot(torch.tensor(word - 1), len(words)).float()
    product = one_hot @ matrix
    apart = float((product - matrix[word - 1]).abs().max())
    caption = (
        f"The one-hot vector of “{words[word - 1]}” times the matrix of word vectors is row {word} "
        f"of the matrix: reading the row replaces {matrix.numel()} multiplications."
    )
    details = (
        f"“{words[word - 1]}” is word {word} of {len(words)}: its one-hot vector has a 1 at this "
        f"position and zeros elsewhere. The product with the matrix equals row {word} (largest "
        f"difference {apart:g}), so an embedding layer reads the row instead of multiplying. The "
        f"vectors are those of {model}; {SHOWN} of their {table.dim} numbers are shown."
    )
    names = [f"{number}" for number in range(1, SHOWN + 1)]
    scale = signed_scale(float(matrix.abs().max()))
    with Board(caption, (0.7, 1.6, 1.6), details) as board:
        board.matrix(0, "one-hot", one_hot[:, None].numpy(), positive_scale(), (words, [""]),
                     ("words", ""), ".0f")  # fmt: skip
        board.matrix(1, "the matrix", matrix.numpy(), scale, (words, names),
                     ("words", "numbers"), ".1f")  # fmt: skip
        board.matrix(2, "their product", product[None].numpy(), scale,
                     ([words[word - 1]], names), ("", "numbers"), ".1f")  # fmt: skip
    return board.drawing(one_hot=one_hot.tolist(), row=product.tolist(), difference=apart)


def inputs() -> Drawing:
    """Draw numbers, categories and an image as vectors, and the distances that encodings imply."""
    people = torch.tensor(PEOPLE, dtype=torch.float64)
    scaled = (people - people.mean(0)) / people.std(0, correction=0)
    numbered = torch.arange(len(HAIR), dtype=torch.float64)[:, None]
    one_hot = torch.eye(len(HAIR), dtype=torch.float64)
    distances = {"number": torch.cdist(numbered, numbered)}
    distances["one_hot"] = torch.cdist(one_hot, one_hot)
    image = torch.tensor(PIXELS, dtype=torch.float64)
    caption = (
        "Numbered 0 to 3, blond is three times as far from blue as from black, which has no "
        "meaning; one-hot vectors are all √2 apart."
    )
    details = (
        "Left: the lecture's three people. Each column is standardized (minus its mean, divided by "
        "its standard deviation), because distances would otherwise depend on the salary alone. "
        "Middle: distances between hair colours, encoded as a number and one-hot. Right: the "
        "lecture's image of 3 × 3 grey values, row by row, as a vector of 9 numbers."
    )
    with Board(caption, (1.25, 1.35, 0.8), details) as board:
        columns = ("age", "salary", "savings")
        rows = [" ".join(map(str, person)) for person in PEOPLE]
        board.matrix(0, "numbers, scaled", scaled.numpy(), signed_scale(1.5), (rows, columns),
                     ("", ""), ".1f")  # fmt: skip
        both = torch.cat([distances["number"], distances["one_hot"]])
        labels = [f"{colour}, {how}" for how in ("number", "one-hot") for colour in HAIR]
        board.matrix(1, "distances of colours", both.numpy(), positive_scale(3.0),
                     (labels, HAIR), ("", ""), ".2f")  # fmt: skip
        flat = image.flatten()
        cells = [f"row {row}, {column}" for row in (1, 2, 3) for column in (1, 2, 3)]
        board.matrix(2, "an image", flat[:, None].numpy(), positive_scale(255.0),
                     (cells, [""]), ("", ""), ".0f")  # fmt: skip
    return board.drawing(
        scaled=scaled.tolist(),
        distance_number=distances["number"].tolist(),
        distance_one_hot=distances["one_hot"].tolist(),
        image=flat.tolist(),
    )


def analogies(model: str) -> Drawing:
    """Draw the lectures' examples of word vectors with their real results, right or wrong."""
    table = vectors(model)
    tower = table.nearest("tower", 6)
    answers = {terms: table.analogy(terms, 4) for terms in ANALOGIES}
    difference = table.difference("mother", "father", "woman", "man")
    right = {terms: near[0].word == SAID[terms] for terms, near in answers.items()}
    missed = [terms for terms in ANALOGIES if not right[terms]]
    wrong = [f"“{terms}” the slide says {SAID[terms]}, the vectors {answers[terms][0].word}"
             for terms in missed]  # fmt: skip
    caption = (
        f"{sum(right.values())} of 3 analogies agree with the slides"
        + (f" (hatched: {answers[missed[0]][0].word}, not {SAID[missed[0]]})" if missed else "")
        + f"; mother − father and woman − man have a cosine of {difference.cosine:.2f}."
    )
    details = (
        f"Cosines between the vectors of {model} ({len(table):,} words, {table.dim} dimensions). "
        "The words of a question are excluded from its answers. "
        f"{'For ' + '; for '.join(wrong) + '. ' if wrong else ''}"
        "The differences of two random pairs of words have an absolute cosine of "
        f"{difference.by_chance:.2f} on average. Right: arrows from the male to the female word, "
        "on the first two principal components of these words."
    )
    words = list(dict.fromkeys(word for pair in STEPS for word in pair))
    spots, share = pca(table.unit[table.rows(words)])
    at = dict(zip(words, spots.tolist(), strict=True))
    with Board(caption, (0.9, 1.25, 1.2), details) as board:
        _bars(board.chart(0, "nearest to tower", "cosine", "", ticks=8), tower)
        for number, (terms, near) in enumerate(answers.items()):
            part = (number / 3, (number + 1) / 3)
            axes = board.chart(1, terms.replace("-", "−"), "", "", part, ticks=8)
            axes.tick_params(labelbottom=False)
            _bars(axes, near, wrong=not right[terms])
        axes = board.chart(2, f"map: {share:.0%} of variance")
        for man, woman in STEPS:
            axes.annotate("", at[woman], at[man], arrowprops={"arrowstyle": "->", "color": PURPLE})
        for man, woman in STEPS:  # labels beyond the ends of the arrow, to avoid overlap
            up = at[woman][1] >= at[man][1]
            for word, above in ((man, not up), (woman, up)):
                axes.write_beside(tuple(at[word]), word, xytext=(0, 3 if above else -3),
                       va="bottom" if above else "top")  # fmt: skip
        axes.update_datalim(list(at.values()))
        axes.margins(0.18, 0.1)
        axes.autoscale_view()
    return board.drawing(
        tower=[near.word for near in tower],
        **{terms: [near.word for near in answers[terms]] for terms in ANALOGIES},
        mother_father=difference.cosine,
        by_chance=difference.by_chance,
        right=sum(right.values()),
    )


def _bars(axes: Chart, neighbours: list[Neighbour], *, wrong: bool = False) -> None:
    """Draw words with their cosines, nearest on top; hatched if the slide has another answer."""
    axes.barh(
        range(len(neighbours)), [near.cosine for near in neighbours], height=0.84,
        color="#f6c9a8" if wrong else "#b9d7ee", hatch="//" if wrong else "", edgecolor="white",
    )  # fmt: skip
    axes.set_yticks([])
    axes.set_xlim(0, 1)
    axes.set_ylim(len(neighbours) - 0.4, -0.6)
    for index, near in enumerate(neighbours):
        axes.write((0.02, index), f"{near.word} {near.cosine:.2f}", va="center")


DIMS = (3, 10, 30, 100, 300, 1000, 3000, 10_000)
DRAWN = 200
"""The number of random vectors whose pairwise angles are measured."""
FITTED = (4, 8, 12, 16, 24, 32)
MOST = 1024
"""The largest number of vectors that are pushed apart."""
BINS, SPAN = 40, (50, 130)
"""The histogram of angles: the number of its bins, and its range in degrees."""


def measure_orthogonal(degrees: float, steps: int, seed: int) -> dict[str, Any]:
    """Measure the angles of random directions, and how many nearly orthogonal ones fit."""
    torch.manual_seed(seed)
    spread, within = [], []
    for dim in DIMS:
        angles = _angles(torch.randn(DRAWN, dim))
        spread.append(float(angles.sub(90).square().mean().sqrt()))
        within.append(float((angles.sub(90).abs() < 1).double().mean()))
    reach = math.sin(math.radians(degrees))
    drawn = [_drawn(dim, reach) for dim in FITTED]
    pushed = [_most(dim, reach, steps) for dim in FITTED]
    slope, start = np.polyfit(FITTED, np.log(pushed), 1)
    before = _angles(torch.randn(2 * FITTED[-1], FITTED[-1]))
    after = _angles(_pushed(2 * FITTED[-1], FITTED[-1], steps))
    return {
        "spread": spread,
        "within": within,
        "drawn": drawn,
        "pushed": pushed,
        "slope": float(slope),
        "start": float(start),
        "shares": {"random": _shares(before), "optimized": _shares(after)},
        "widest_random": float(before.sub(90).abs().max()),
        "widest_pushed": float(after.sub(90).abs().max()),
    }


def _shares(angles: Tensor) -> list[float]:
    """The share of angles in each of the histogram's `BINS` between `SPAN` degrees."""
    counts, _ = np.histogram(angles.numpy(), bins=BINS, range=SPAN)
    return [float(count) / len(angles) for count in counts]


def orthogonal(measured: dict[str, Any], degrees: float, steps: int, seed: int) -> Drawing:
    """Draw the angles of random directions, and how many nearly orthogonal ones fit."""
    within, drawn, pushed, slope = (measured[key] for key in ("within", "drawn", "pushed", "slope"))
    reach = math.sin(math.radians(degrees))
    caption = (
        f"Random directions are nearly at right angles; optimized, {pushed[-1]} directions in "
        f"{FITTED[-1]} dimensions have all angles within 90° ± {degrees:g}°."
    )
    details = (
        f"Left: all pairs of {DRAWN} random vectors have angles of 90° ± 57°/√N; "
        f"{within[-1]:.0%} are between 89° and 91° at N = 10,000, {within[3]:.0%} at N = 100. "
        f"Middle: {2 * FITTED[-1]} vectors in {FITTED[-1]} dimensions, before and after gradient "
        "descent on the largest cosines. Right: the number of vectors found with all angles "
        f"within 90° ± {degrees:g}°, selected from 20,000 random ones or optimized; the latter "
        f"grows as exp({slope:.2f} N). The lecture's exp(εN) with ε = sin {degrees:g}° = "
        f"{reach:.2f} has the right form, not the right constant; for random vectors alone, "
        f"exp(ε²N/4) is guaranteed. {steps} steps of descent, seed {seed}."
    )
    with Board(caption, (1, 1, 1.1), details) as board:
        axes = board.chart(0, "random directions", "dimension N", "degrees from 90°")
        axes.plot(DIMS, measured["spread"], "o-", color=BLUE, label="measured")
        axes.plot(DIMS, [math.degrees(1) / math.sqrt(dim) for dim in DIMS], "--", color=MUTED,
                  label="57°/√N")  # fmt: skip
        axes.log_axis("x", (10, 100, 1000, 10_000))
        axes.log_axis("y", (1, 10, 30))
        axes.draw_legend()
        axes = board.chart(1, "angles of pairs", "angle in degrees", "share of pairs")
        edges = np.linspace(*SPAN, BINS + 1)
        for (name, shares), colour, hatch in zip(
            measured["shares"].items(), (ORANGE, BLUE), ("//", ""), strict=True
        ):
            axes.hist(edges[:-1], bins=list(edges), weights=shares, color=colour, alpha=0.7,
                      label=name, hatch=hatch, edgecolor="white")  # fmt: skip
        axes.set_ylim(0, 1.35 * axes.get_ylim()[1])
        axes.draw_legend("upper left")
        _fits(board.chart(2, f"how many fit, ± {degrees:g}°", "dimension N", "vectors"),
              drawn, pushed, reach)  # fmt: skip
    return board.drawing(
        dimensions=list(DIMS),
        degrees_from_90=measured["spread"],
        share_within_1_degree=within,
        widest_random=measured["widest_random"],
        widest_pushed=measured["widest_pushed"],
        fitted_dimensions=list(FITTED),
        kept_of_random=drawn,
        pushed_apart=pushed,
        slope=slope,
        start=measured["start"],
    )


def _fits(axes: Chart, drawn: list[int], pushed: list[int], reach: float) -> None:
    dims = np.array(FITTED)
    axes.plot(dims, pushed, "o-", color=BLUE, label="optimized")
    axes.plot(dims, drawn, "s-.", color=GREEN, label="random, selected")
    axes.plot(dims, np.exp(reach * dims), "--", color=ORANGE, label="exp(εN)")
    axes.plot(dims, np.exp(reach**2 * dims / 4), ":", color=MUTED, label="exp(ε²N/4)")
    axes.log_axis("y", (1, 10, 100, 1000, 10_000))
    axes.set_ylim(0.8, 3e6)
    axes.draw_legend("upper left")


def _angles(rows: Tensor) -> Tensor:
    """The angles in degrees between all pairs of rows: (pairs,)."""
    unit = F.normalize(rows.double(), dim=1)
    above = torch.triu_indices(len(unit), len(unit), 1)
    cosines = (unit @ unit.T)[above[0], above[1]]
    return cosines.clamp(-1, 1).arccos().rad2deg()


def _drawn(dim: int, reach: float, candidates: int = 20_000) -> int:
    """How many random vectors can be kept if each must fit all kept before.

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
