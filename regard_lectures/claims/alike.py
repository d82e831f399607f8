"""Scenes of four objects: two pairs alike in colour, two alike in shape, and two of neighbours.

The three pairings are drawn independently, so each object has one partner by colour, one by shape
and one by place. To answer these questions about an object, one must look at its partner:

    colour    which shape has the other object of its colour?
    shape     which colour has the other object of its shape?
    place     which colour has its neighbour?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regard.data import make_scene

QUESTIONS = ("colour", "shape", "place")
OBJECTS, CELLS = 4, 5
"""Objects of a scene; rows and columns of the grid on which they stand."""
GROUND = (228, 228, 228)
RADIUS, JITTER = 0.38, 0.06
"""Of an object, and how far it may be from the middle of its cell, as shares of the cell's side."""
POOL = 1_500
"""Objects of which scenes are put together; those for tests are others."""
PAIRINGS = np.array([[1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])
"""The three ways to pair four objects: the partner of each."""
Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Tiles:
    """Drawn objects, each on a tile of the size of a cell.

    Attributes:
        pictures: (objects, 3, side, side), bytes.
        members: The numbers of the objects of each colour and shape: [colour][shape].
        colours: The names of the colours.
        shapes: The names of the shapes.
    """

    pictures: Bytes
    members: list[list[Integers]]
    colours: tuple[str, ...]
    shapes: tuple[str, ...]


@dataclass(frozen=True)
class Scenes:
    """Scenes of four objects each.

    Attributes:
        pictures: (scenes, 3, side, side), bytes.
        cells: (scenes, 4) The cell of each object, row by row.
        partners: (questions, scenes, 4) The number of each object's partner.
        answers: (questions, scenes, 4) The number of the shape or colour that is the answer.
    """

    pictures: Bytes
    cells: Integers
    partners: Integers
    answers: Integers

    def __len__(self) -> int:
        return len(self.pictures)


def draw_tiles(side: int, seed: int, part: int) -> Tiles:
    """Draw objects of all colours and shapes.

    Args:
        side: Height and width of a cell, in pixels.
        seed: Of the objects.
        part: 0 for training, 2 for tests.
    """
    things, pictures = [], []
    random = np.random.default_rng((seed, part))
    for number in range(POOL):
        scene = make_scene(seed, part, number, most=1)
        x, y = (0.5 + random.uniform(-JITTER, JITTER, 2)).tolist()
        thing = replace(scene.objects[0], x=x, y=y, radius=RADIUS)
        image = replace(scene, objects=(thing,), ground=GROUND).draw(side)
        pictures.append(np.asarray(image).transpose(2, 0, 1))
        things.append(thing)
    colours, shapes = ({thing.colour for thing in things}, {thing.shape for thing in things})
    members = [
        [
            np.array([i for i, t in enumerate(things) if (t.colour, t.shape) == (colour, shape)])
            for shape in sorted(shapes)
        ]
        for colour in sorted(colours)
    ]
    return Tiles(np.stack(pictures), members, tuple(sorted(colours)), tuple(sorted(shapes)))


def draw_scenes(tiles: Tiles, count: int, random: np.random.Generator) -> Scenes:
    """Put scenes together from drawn objects."""
    side = tiles.pictures.shape[2]
    scenes = np.arange(count)[:, None]
    pairings = PAIRINGS[random.integers(0, len(PAIRINGS), (len(QUESTIONS), count))]
    colours, shapes = (
        _of_pairs(pairings[index], _two_of(len(names), count, random))
        for index, names in enumerate((tiles.colours, tiles.shapes))
    )
    cells = _of_pairs_apart(pairings[2], count, random)
    partners: Integers = pairings.astype(np.int64)
    answers = np.stack(
        [shapes[scenes, partners[0]], colours[scenes, partners[1]], colours[scenes, partners[2]]]
    )
    grid = np.empty((count, 3, CELLS, side, CELLS, side), np.uint8)
    grid[:] = np.array(GROUND, np.uint8)[None, :, None, None, None, None]
    for scene in range(count):
        for cell, colour, shape in zip(cells[scene], colours[scene], shapes[scene], strict=True):
            tile = tiles.pictures[random.choice(tiles.members[colour][shape])]
            row, column = divmod(int(cell), CELLS)
            grid[scene, :, row, :, column, :] = tile
    pictures = grid.reshape(count, 3, CELLS * side, CELLS * side)
    return Scenes(pictures, cells, partners, answers)


def _two_of(many: int, count: int, random: np.random.Generator) -> Integers:
    """Two different numbers below `many` for each scene: (count, 2)."""
    first = random.integers(0, many, count)
    return np.stack([first, (first + random.integers(1, many, count)) % many], axis=1)


def _second_pair(pairing: Integers) -> Integers:
    """For each object 0 if it is in the pair of object 0, else 1: (scenes, 4)."""
    numbers = np.arange(OBJECTS)[None]
    return np.asarray((numbers != 0) & (numbers != pairing[:, :1]), np.int64)


def _of_pairs(pairing: Integers, values: Integers) -> Integers:
    """The value of each object's pair: pairing (scenes, 4), values (scenes, 2) -> (scenes, 4)."""
    return np.take_along_axis(values, _second_pair(pairing), axis=1)


def _of_pairs_apart(pairing: Integers, count: int, random: np.random.Generator) -> Integers:
    """A cell for each object, so that partners are neighbours and others are not: (scenes, 4)."""
    options = _two_dominoes()
    chosen = options[random.integers(0, len(options), count)]  # (scenes, pairs, 2)
    second = _second_pair(pairing)
    numbers = np.arange(OBJECTS)[None]
    later = np.asarray(numbers > pairing, np.int64)  # which of the two objects of its pair
    cells: Integers = chosen[np.arange(count)[:, None], second, later]
    return cells


def _two_dominoes() -> Integers:
    """All ways to put two pairs of neighbouring cells onto the grid, not touching: (ways, 2, 2)."""
    points = [divmod(cell, CELLS) for cell in range(CELLS**2)]

    def distance(a: int, b: int) -> int:
        return max(abs(points[a][axis] - points[b][axis]) for axis in (0, 1))

    steps = [(cell, cell + 1) for cell, (_, column) in enumerate(points) if column < CELLS - 1]
    steps += [(cell, cell + CELLS) for cell, (row, _) in enumerate(points) if row < CELLS - 1]
    dominoes = [*steps, *[(b, a) for a, b in steps]]
    ways = [
        (first, second)
        for first in dominoes
        for second in dominoes
        if min(distance(a, b) for a in first for b in second) > 1
    ]
    return np.array(ways)


def names_of(tiles: Tiles) -> dict[str, Sequence[str]]:
    """The possible answers to each question."""
    return {"colour": tiles.shapes, "shape": tiles.colours, "place": tiles.colours}


def share_of_patches(grid: tuple[int, int], cells: Integers) -> NDArray[np.float32]:
    """Which patches belong to each object, as weights that sum to 1: (scenes, 4, patches).

    A patch belongs to the cell in which its middle is.

    Args:
        grid: Rows and columns of patches.
        cells: (scenes, 4).
    """
    rows, columns = ((np.arange(many) + 0.5) * CELLS // many for many in grid)
    of_patch = (rows[:, None] * CELLS + columns[None]).ravel()  # the cell of each patch
    inside = (of_patch[None, None] == cells[:, :, None]).astype(np.float32)
    return np.asarray(inside / np.maximum(inside.sum(2, keepdims=True), 1))
