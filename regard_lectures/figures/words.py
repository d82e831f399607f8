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
