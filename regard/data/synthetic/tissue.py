"""Drawn tissue: cells of five types in clusters on a stained ground, with the activity of genes.

An image is a pure function of (seed, split, number). The numbers to predict from it, called genes,
are a fixed function of its cells, the same for every seed: gene i is

    y_i = ln(1 + Σ_t a_it n_t + Σ_{s ≤ t} b_ist p_st)

n_t is the number of cells of type t, p_st the number of pairs of neighbours of the types s and t:
of cells whose centres are closer than `NEAR`. `gene_of` has the weights a and b of a gene; most are
0. A gene is one of three kinds, which take turns: cells alone, cells and pairs, pairs alone.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from regard.data.config import TissueData
from regard.data.images.labelled_images import ImageSplits, LabelledImages
from regard.data.order import generator
from regard.data.synthetic.scenes import FINER, PARTS
from regard.inputs.images.reader import ImageReader
from regard.runtime.device import check_memory

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class CellType:
    """What the cells of a type look like; sizes are shares of the image's side."""

    nucleus: Colour
    rim: Colour
    """The colour of the edge, around the nucleus."""
    radius: tuple[float, float]
    """The smallest and the largest radius; of a long cell half its length."""
    stretch: float
    """Length over width."""
    marks: int
    """The number of dark marks in it."""


CELL_TYPES = {
    "tumour": CellType((142, 92, 176), (205, 150, 200), (0.05, 0.06), 1.15, 1),
    "lymphocyte": CellType((52, 40, 120), (84, 70, 150), (0.03, 0.036), 1.0, 0),
    "fibroblast": CellType((168, 60, 112), (214, 128, 168), (0.058, 0.07), 2.6, 0),
    "macrophage": CellType((176, 128, 84), (216, 184, 150), (0.048, 0.056), 1.2, 4),
    "plasma cell": CellType((64, 118, 176), (140, 176, 212), (0.036, 0.042), 1.3, 0),
}
"""The types of cells, by name."""
PAIRS = tuple(combinations_with_replacement(CELL_TYPES, 2))
"""The 15 kinds of pairs of neighbours."""
NEAR = 0.15
"""Two cells are neighbours if their centres are closer than this, as a share of the side."""
MOST_GENES = 306
_GENES, _JITTER, _TRIES, _EDGE = 6073, 10, 12, 0.05
"""The seed of all genes; how much a colour may differ; attempts to place a cell; the border."""


@dataclass(frozen=True)
class Cell:
    """One cell; positions and radius are shares of the image's side."""

    type: str
    x: float
    """Centre, from 0 (left) to 1."""
    y: float
    """Centre, from 0 (top) to 1."""
    radius: float
    turn: float
    """Rotation in degrees, clockwise."""
    shade: int
    """What is added to each channel of its colours."""


@dataclass(frozen=True)
class Gene:
    """A number that the cells of an image decide."""

    name: str
    cells: Mapping[str, float]
    """The weight a of each type that it depends on."""
    pairs: Mapping[tuple[str, str], float]
    """The weight b of each kind of pair that it depends on."""

    def of(self, counts: Mapping[str, int], pairs: Mapping[tuple[str, str], int]) -> float:
        """The gene's number for these counts of cells and pairs: ln(1 + a·n + b·p)."""
        total = sum(weight * counts.get(name, 0) for name, weight in self.cells.items())
        total += sum(weight * pairs.get(pair, 0) for pair, weight in self.pairs.items())
        return math.log1p(total)

    @property
    def formula(self) -> str:
        """The gene's formula in words.

        Example:
            >>> gene_of(0).formula
            'ln(1 + 3 tumour + 2.1 fibroblast)'
        """
        terms = [f"{weight:g} {name}" for name, weight in self.cells.items()]
        terms += [f"{weight:g} {first}–{second}" for (first, second), weight in self.pairs.items()]
        return f"ln(1 + {' + '.join(terms)})"


@cache
def gene_of(number: int) -> Gene:
    """The gene of a number from 0: the same in every dataset.

    Example:
        >>> gene_of(0).name, gene_of(1).of({}, {})
        ('gene 1', 0.0)
    """
    random = generator(_GENES, number)
    types, kind = [*CELL_TYPES], number % 3
    chosen_types = sorted(random.permutation(len(types))[: int(random.integers(1, 3))].tolist())
    chosen_pairs = sorted(random.permutation(len(PAIRS))[: int(random.integers(1, 4))].tolist())
    weights = np.round(random.uniform(0.5, 3.0, len(chosen_types) + len(chosen_pairs)), 1).tolist()
    cells = {types[index]: weights.pop() for index in chosen_types} if kind < 2 else {}
    pairs = {PAIRS[index]: weights.pop() for index in chosen_pairs} if kind > 0 else {}
    return Gene(f"gene {number + 1}", cells, pairs)


def genes(count: int) -> tuple[Gene, ...]:
    """The first genes."""
    return tuple(gene_of(number) for number in range(count))


@dataclass(frozen=True)
class Tissue:
    """The cells of an image, and its ground."""

    cells: tuple[Cell, ...]
    ground: Colour
    fibres: tuple[tuple[float, float, float, float], ...]
    """Pale lines of the ground, each from one point to another."""

    @property
    def counts(self) -> dict[str, int]:
        """The number of cells of each type."""
        counted = Counter(cell.type for cell in self.cells)
        return {name: counted[name] for name in CELL_TYPES}

    @property
    def pairs(self) -> dict[tuple[str, str], int]:
        """The number of pairs of neighbours of each two types."""
        counted: Counter[tuple[str, str]] = Counter()
        order = [*CELL_TYPES]
        for first, second in combinations(self.cells, 2):
            if math.hypot(first.x - second.x, first.y - second.y) < NEAR:
                low, high = sorted((first.type, second.type), key=order.index)
                counted[low, high] += 1
        return {pair: counted[pair] for pair in PAIRS}

    def numbers(self, count: int) -> list[float]:
        """The numbers of the first genes."""
        counts, pairs = self.counts, self.pairs
        return [gene.of(counts, pairs) for gene in genes(count)]

    def to_json(self) -> dict[str, Any]:
        """All cells, and how many there are of each type and pair."""
        pairs = {f"{first}–{second}": count for (first, second), count in self.pairs.items()}
        return {"cells": self.counts, "pairs": pairs, "objects": [asdict(c) for c in self.cells]}

    def draw(self, side: int) -> Image.Image:
        """Draw the tissue: RGB, side x side."""
        size = side * FINER
        image = Image.new("RGB", (size, size), self.ground)
        pen = ImageDraw.Draw(image)
        for line in self.fibres:
            pen.line([value * size for value in line], _shaded(self.ground, 12), size // 60 + 1)
        for cell in self.cells:
            _paint_cell(image, cell)
        return image.reduce(FINER)


def make_tissue(seed: int, part: int, number: int) -> Tissue:
    """Make the tissue of one image: a pure function of its arguments.

    Each of two to five clusters has types of its own, one or a mixture; some cells stand alone.
    Cells do not overlap, except for the ends of long ones.

    Args:
        seed: Seed of the dataset.
        part: Number of the split, from `PARTS`.
        number: Number of the image.

    Example:
        >>> make_tissue(0, 0, 7).numbers(3) == make_tissue(0, 0, 7).numbers(3)
        True
    """
    random = generator(seed, part, number, _GENES)
    red, green, blue = (np.array((236, 200, 218)) + random.integers(-9, 10, 3)).tolist()
    fibres = np.round(random.random((int(random.integers(4, 9)), 4)), 3).tolist()
    cells: list[Cell] = []
    for _ in range(int(random.integers(2, 6))):
        mixture = random.dirichlet([0.35] * len(CELL_TYPES))
        centre, spread = random.uniform(0.15, 0.85, 2), float(random.uniform(0.07, 0.15))
        for kind in random.choice(len(CELL_TYPES), int(random.integers(3, 14)), p=mixture).tolist():
            _place(cells, random, kind, centre, spread)
    for kind in random.integers(0, len(CELL_TYPES), int(random.integers(0, 7))).tolist():
        _place(cells, random, kind, np.array((0.5, 0.5)), 0.0)
    return Tissue(tuple(cells), (red, green, blue), tuple(map(tuple, fibres)))


def _place(
    cells: list[Cell],
    random: np.random.Generator,
    kind: int,
    centre: NDArray[np.float64],
    spread: float,
) -> None:
    """Add a cell near a centre, with spread 0 anywhere; none if there is no room for it."""
    name = [*CELL_TYPES][kind]
    looks = CELL_TYPES[name]
    radius, turn = float(random.uniform(*looks.radius)), float(random.uniform(0, 180))
    shade = int(random.integers(-_JITTER, _JITTER + 1))
    reach = radius / math.sqrt(looks.stretch)
    for _ in range(_TRIES):
        position = random.uniform(0, 1, 2) if spread == 0 else random.normal(centre, spread)
        x, y = np.round(position, 4).tolist()
        inside = min(x, y) > _EDGE and max(x, y) < 1 - _EDGE
        if inside and all(
            _room(cell) + reach < math.hypot(x - cell.x, y - cell.y) for cell in cells
        ):
            cells.append(Cell(name, x, y, round(radius, 4), round(turn, 1), shade))
            return


def _room(cell: Cell) -> float:
    """The radius of a disc of the cell's area."""
    return cell.radius / math.sqrt(CELL_TYPES[cell.type].stretch)


def _shaded(colour: Colour, shade: int) -> Colour:
    """A colour, lighter or darker."""
    red, green, blue = (min(255, max(0, channel + shade)) for channel in colour)
    return red, green, blue


def _paint_cell(image: Image.Image, cell: Cell) -> None:
    """Draw one cell into an image of any size: an edge, a nucleus and dark marks in it."""
    size, looks, pen = image.width, CELL_TYPES[cell.type], ImageDraw.Draw(image)
    x, y, radius = (value * size for value in (cell.x, cell.y, cell.radius))
    rim, nucleus = (_shaded(colour, cell.shade) for colour in (looks.rim, looks.nucleus))
    for share, fill in ((1.0, rim), (0.78, nucleus)):
        pen.polygon(_ellipse(x, y, share * radius, looks.stretch, cell.turn), fill)
    for mark in range(looks.marks):  # around the centre; a single one stands in it
        angle = math.radians(cell.turn + 360 * mark / looks.marks)
        far = 0.4 * radius if looks.marks > 1 else 0.0
        across, down, dot = x + far * math.cos(angle), y + far * math.sin(angle), 0.2 * radius
        pen.ellipse((across - dot, down - dot, across + dot, down + dot), _shaded(nucleus, -70))


def _ellipse(
    x: float, y: float, radius: float, stretch: float, turn: float
) -> list[tuple[float, float]]:
    """The corners of a polygon that is an ellipse, rotated clockwise."""
    cosine, sine = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    corners = []
    for number in range(24):
        angle = 2 * math.pi * number / 24
        along, across = radius * math.cos(angle), radius / stretch * math.sin(angle)
        corners.append((x + cosine * along - sine * across, y + sine * along + cosine * across))
    return corners


def tissues_of(data: TissueData, split: str) -> Iterator[Tissue]:
    """Make the tissue of each image of a split: train, valid or test."""
    count = data.pairs if split == "train" else data.held_out
    return (make_tissue(data.seed, PARTS[split], number) for number in range(count))


def tissue_splits(data: TissueData, reader: ImageReader) -> ImageSplits:
    """Draw all tissue of a recipe at the model's size.

    Args:
        data: How many images, of which seed, with how many genes.
        reader: The model's image reader.
    """
    side = max(reader.height, reader.width)
    size = reader.channels * reader.height * reader.width
    check_memory("data.pairs", size * data.pairs, fix="draw fewer images")
    names = tuple(gene.name for gene in genes(data.genes))
    parts, digest = {}, hashlib.sha256()
    for split in PARTS:
        tissues = tuple(tissues_of(data, split))
        values = np.empty((len(tissues), reader.channels, reader.height, reader.width), np.uint8)
        for row, tissue in enumerate(tissues):
            values[row] = reader.bytes_of(tissue.draw(side))
        numbers = np.array([tissue.numbers(data.genes) for tissue in tissues])
        labels = ("",) * len(tissues)
        parts[split] = LabelledImages(values, labels, numbers=numbers, outputs=names)
        for tissue in tissues if split == "train" else ():
            digest.update(json.dumps(tissue.to_json()).encode())
    digest.update(data.model_dump_json(include={"pairs", "held_out", "genes", "seed"}).encode())
    checksums = {"tissue": digest.hexdigest()}
    return ImageSplits(parts["train"], parts["valid"], {"test": parts["test"]}, checksums)
