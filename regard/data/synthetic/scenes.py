"""Drawn scenes: one to three shapes of a colour and a size on a plain ground, and all that is true.

A scene is a pure function of (seed, split, number). From it come the image at any size, without
jagged edges; the mask of each object; a caption such as "a large red circle to the left of a small
blue square"; and the classes that a scene can be asked for.

In the style `varied` the same scenes look as people draw them in other programs: other reds and
greens, white grounds, stretched shapes with an outline, jagged edges.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from regard.data.config import ScenesData
from regard.data.images.labelled_images import ImageSplits, LabelledImages
from regard.data.order import generator
from regard.inputs.images.reader import ImageReader
from regard.runtime.device import check_memory

COLOURS = {
    "red": (214, 39, 40),
    "orange": (255, 140, 20),
    "yellow": (240, 210, 40),
    "green": (40, 160, 60),
    "blue": (40, 90, 210),
    "purple": (140, 60, 180),
    "black": (30, 30, 30),
}
VARIED_COLOURS = {
    "red": ((255, 0, 0), (237, 28, 36), (200, 16, 30), (230, 60, 60)),
    "orange": ((255, 165, 0), (255, 127, 39), (255, 140, 0), (240, 120, 30)),
    "yellow": ((255, 255, 0), (255, 242, 0), (250, 220, 50), (255, 215, 0)),
    "green": ((0, 128, 0), (0, 200, 0), (34, 177, 76), (0, 255, 0), (110, 190, 60)),
    "blue": ((0, 0, 255), (63, 72, 204), (30, 110, 230), (0, 60, 170), (70, 130, 220)),
    "purple": ((128, 0, 128), (163, 73, 164), (110, 40, 170), (160, 32, 240)),
    "black": ((0, 0, 0), (20, 20, 30), (45, 45, 45)),
}
"""Further values of each colour, as drawing programs have them, for the style `varied`."""
SIZES = {"small": (0.09, 0.12), "medium": (0.14, 0.17), "large": (0.2, 0.24)}
"""The smallest and largest radius, as a share of the image's side."""
SHAPES = ("circle", "ring", "square", "triangle", "star", "cross")
RELATIONS = {
    "left of": "to the left of", "right of": "to the right of", "above": "above", "below": "below",
}  # fmt: skip
"""Where an object is, seen from another: as a class, and in a caption."""
PARTS = {"train": 0, "valid": 1, "test": 2}
FINER = 4
"""Scenes are drawn this many times larger and reduced, so that edges are smooth."""
JITTER = 12
"""How much each channel of a colour may differ from the table's."""
TURN = 18
"""The largest rotation, in degrees: a square stays a square, not a diamond."""
GAP = 0.02
"""The least distance between two objects and to the border, as a share of the side."""
CLEAR = 0.1
"""By how much one of the horizontal and the vertical distance must exceed the other, so that "left
of" and "above" cannot be confused."""


@dataclass(frozen=True)
class Thing:
    """One object of a scene; positions and radius are shares of the image's side."""

    shape: str
    colour: str
    size: str
    x: float
    """Centre, from 0 (left) to 1."""
    y: float
    """Centre, from 0 (top) to 1."""
    radius: float
    turn: float
    """Rotation in degrees, clockwise."""
    rgb: tuple[int, int, int]
    stretch: float = 1.0
    """Width over height; the longer of the two is 2 · radius."""
    proportion: float = 1.0
    """Factor on a ring's hole, a star's inner radius and the width of a cross's arms."""
    outline: float = 0.0
    """Width of a dark outline, as a share of the radius."""

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the object, as shares of the image's side."""
        if self.shape in ("circle", "ring"):
            corners = [(-1.0, -1.0), (1.0, 1.0)]
        else:
            corners = _turned(_outline(self), self.turn)
        wide, high = (self.radius * scale for scale in _scales(self.stretch))
        right, down = ([corner[axis] for corner in corners] for axis in (0, 1))
        return (
            self.x + wide * min(right), self.y + high * min(down),
            self.x + wide * max(right), self.y + high * max(down),
        )  # fmt: skip

    @property
    def words(self) -> str:
        """The object in a caption."""
        return f"a {self.size} {self.colour} {self.shape}"


@dataclass(frozen=True)
class Scene:
    """What stands in a scene; the first object is the largest."""

    objects: tuple[Thing, ...]
    ground: tuple[int, int, int]
    smooth: bool = True
    """Whether edges are drawn without steps."""

    @property
    def relations(self) -> tuple[str, ...]:
        """Where the first object is, seen from each of the others."""
        first, *other_things = self.objects
        return tuple(_relation(first, other) for other in other_things)

    @property
    def caption(self) -> str:
        """The scene in words."""
        first, *other_things = self.objects
        relations = zip(self.relations, other_things, strict=True)
        phrases = [f"{RELATIONS[relation]} {other.words}" for relation, other in relations]
        return " ".join((first.words, " and ".join(phrases))).strip()

    @property
    def labels(self) -> dict[str, str]:
        """The classes that the scene has, by the values of `data.label`."""
        first = self.objects[0]
        labels = {
            "shape": first.shape,
            "colour": first.colour,
            "object": f"{first.colour} {first.shape}",
            "count": str(len(self.objects)),
        }
        return labels | ({"relation": self.relations[0]} if self.relations else {})

    def to_json(self) -> dict[str, Any]:
        """Return caption, classes, objects and relations, for a line of `captions.jsonl`."""
        return {
            "caption": self.caption,
            "labels": self.labels,
            "objects": [_stated(thing) for thing in self.objects],
            "relations": list(self.relations),
        }

    def draw(self, side: int) -> Image.Image:
        """Draw the scene: RGB, side x side."""
        finer = FINER if self.smooth else 1
        image = Image.new("RGB", (side * finer, side * finer), self.ground)
        for thing in self.objects:
            _paint_thing(image, thing, thing.rgb, self.ground)
        return image.reduce(finer) if self.smooth else image

    def mask(self, side: int) -> NDArray[np.uint8]:
        """Compute which object covers each pixel: (side, side), 0 for the ground, else from 1 on.

        A pixel belongs to an object that covers at least half of it.
        """
        mask = np.zeros((side, side), np.uint8)
        for number, thing in enumerate(self.objects, 1):
            covered = Image.new("L", (side * FINER, side * FINER))
            _paint_thing(covered, thing, 255, 0)
            mask[np.asarray(covered.reduce(FINER)) >= 128] = number
        return mask


def unseen_kinds(count: int) -> list[int]:
    """The kinds (colour and shape) that no training scene has, spread over colours and shapes.

    Example:
        >>> [SHAPES[kind // len(COLOURS)] for kind in unseen_kinds(3)]
        ['circle', 'ring', 'square']
    """
    colours = len(COLOURS)  # along the diagonals of the table of shapes and colours
    diagonal = [
        shape * colours + (shape * 2 + start) % colours
        for start in range(colours)
        for shape in range(len(SHAPES))
    ]
    return diagonal[:count]


def is_unseen_pair(first: int, second: int, share: float) -> bool:
    """Whether two kinds stand together in test scenes alone; so do about this share of all pairs.

    Example:
        >>> pairs = [(a, b) for a in range(42) for b in range(a)]
        >>> sum(is_unseen_pair(a, b, 0.2) for a, b in pairs) / len(pairs)
        0.20557491289198607
    """
    low, high = sorted((first, second))
    return zlib.crc32(f"{low} {high}".encode()) < share * 2**32


def _kinds(
    random: np.random.Generator, part: int, count: int, unseen: int, unseen_pairs: float
) -> list[int]:
    """The kinds of a scene's objects, no two alike.

    A test scene has one of the `unseen` kinds, and a pair of kinds that only test scenes have; the
    other scenes have none of them.
    """
    kinds = [int(kind) for kind in random.permutation(len(COLOURS) * len(SHAPES))]
    if not (unseen or unseen_pairs):
        return kinds[:count]
    hidden, is_test = set(unseen_kinds(unseen)), part == PARTS["test"]
    if is_test:
        kinds.sort(key=lambda kind: kind not in hidden)
    else:
        kinds = [kind for kind in kinds if kind not in hidden]
    chosen = kinds[:1]
    if is_test and unseen_pairs:
        kinds[1:] = sorted(
            kinds[1:], key=lambda kind: not is_unseen_pair(chosen[0], kind, unseen_pairs)
        )
        chosen = kinds[:2]
    others = random.permutation(kinds[len(chosen) :]).tolist() if is_test else kinds[1:]
    for kind in others:
        fits = not any(is_unseen_pair(kind, other, unseen_pairs) for other in chosen)
        if len(chosen) < count and (is_test or fits):
            chosen.append(kind)
    return [int(kind) for kind in random.permutation(chosen)]


def make_scene(
    seed: int,
    part: int,
    number: int,
    most: int = 2,
    least: int = 1,
    *,
    style: str = "plain",
    unseen: int = 0,
    unseen_pairs: float = 0.0,
) -> Scene:
    """Make one scene: a pure function of its arguments.

    Args:
        seed: Seed of the dataset.
        part: Number of the split, from `PARTS`.
        number: Number of the scene.
        most: The most objects.
        least: The fewest objects.
        style: `plain`, or `varied`: the same scene as other programs would draw it.
        unseen: How many kinds (colour and shape) only test scenes have; each has one or more.
        unseen_pairs: The share of the pairs of kinds that stand together in test scenes alone; each
            test scene has one or more.

    Example:
        >>> make_scene(0, 0, 7).caption == make_scene(0, 0, 7).caption
        True
    """
    random = generator(seed, part, number)
    if unseen_pairs and part == PARTS["test"]:
        least = max(2, least)
    count = int(random.integers(least, max(least, most) + 1))
    kinds = _kinds(random, part, count, unseen, unseen_pairs)
    sizes = sorted(random.permutation(len(SIZES))[:count].tolist(), reverse=True)
    light = int(random.integers(208, 248))
    red, green, blue = (light + random.integers(-8, 9, 3)).tolist()
    objects = [_draw_thing(random, kind, size) for kind, size in zip(kinds, sizes, strict=True)]
    edges = np.array([thing.radius + GAP for thing in objects])[:, None]
    while True:
        positions = np.round(edges + random.random((count, 2)) * (1 - 2 * edges), 4).tolist()
        if _are_apart(positions, [thing.radius for thing in objects]):
            placed = zip(objects, positions, strict=True)
            things = tuple(replace(thing, x=x, y=y) for thing, (x, y) in placed)
            scene = Scene(things, (red, green, blue))
            return _varied(random, scene) if style == "varied" else scene


def _varied(random: np.random.Generator, scene: Scene) -> Scene:
    """The scene in other colours, stretched, with outlines, on another ground, jagged or not."""
    things = []
    for thing in scene.objects:
        values = VARIED_COLOURS[thing.colour]
        number = int(random.integers(len(values) + 1))
        rgb = thing.rgb if number == len(values) else values[number]
        red, green, blue = np.clip(np.array(rgb) + random.integers(-9, 10, 3), 0, 255).tolist()
        stretch, proportion = (float(np.exp(random.uniform(-0.22, 0.22))) for _ in range(2))
        outline = float(random.uniform(0.06, 0.16)) if random.random() < 0.2 else 0.0
        varied = replace(thing, rgb=(red, green, blue), stretch=round(stretch, 4),
                         proportion=round(proportion, 4), outline=round(outline, 4))  # fmt: skip
        things.append(varied)
    white, tint = random.random() < 0.5, random.integers(200, 256, 3).tolist()
    ground = (255, 255, 255) if white else scene.ground if random.random() < 0.5 else tuple(tint)
    return Scene(tuple(things), ground, smooth=bool(random.random() < 0.6))


def _draw_thing(random: np.random.Generator, kind: int, size: int) -> Thing:
    """Draw an object's radius, rotation and colour; it is placed later."""
    colour, shape = [*COLOURS][kind % len(COLOURS)], SHAPES[kind // len(COLOURS)]
    name, (min_radius, max_radius) = [*SIZES.items()][size]
    radius, turn = random.uniform((min_radius, -TURN), (max_radius, TURN)).tolist()
    turn = 0.0 if shape in ("circle", "ring") else turn
    change = random.integers(-JITTER, JITTER + 1, 3)
    red, green, blue = np.clip(COLOURS[colour] + change, 0, 255).tolist()
    rgb = (red, green, blue)
    return Thing(shape, colour, name, 0.0, 0.0, round(radius, 4), round(turn, 2), rgb)


def _are_apart(positions: Sequence[Sequence[float]], radii: Sequence[float]) -> bool:
    """Whether no two objects overlap, and it is clear where the first is, seen from the others."""
    for i, j in combinations(range(len(positions)), 2):
        right, down = (abs(a - b) for a, b in zip(positions[i], positions[j], strict=True))
        if math.hypot(right, down) < radii[i] + radii[j] + GAP:
            return False
        if i == 0 and abs(right - down) < CLEAR:
            return False
    return True


def _relation(first: Thing, second: Thing) -> str:
    """Return where the first object is, seen from the second: along the longer distance."""
    right, down = first.x - second.x, first.y - second.y
    if abs(right) > abs(down):
        return "right of" if right > 0 else "left of"
    return "below" if down > 0 else "above"


def _stated(thing: Thing) -> dict[str, Any]:
    """An object as JSON; what is usual in the style `plain` is left out."""
    usual = {"stretch": 1.0, "proportion": 1.0, "outline": 0.0}
    return {key: value for key, value in asdict(thing).items() if usual.get(key) != value}


def _scales(stretch: float) -> tuple[float, float]:
    """The factors on width and height, of which the larger is 1."""
    return min(1.0, stretch), min(1.0, 1 / stretch)


def _turned(corners: Sequence[tuple[float, float]], turn: float) -> list[tuple[float, float]]:
    """Points, rotated clockwise by an angle in degrees."""
    cosine, sine = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    return [(cosine * x - sine * y, sine * x + cosine * y) for x, y in corners]


CAPTION = re.compile(r"a (?P<size>\w+) (?P<colour>\w+) (?P<shape>\w+)")


def false_statements(scene: Scene, caption: str) -> list[str]:
    """What a caption says that is not true of a scene, and the objects that it does not name.

    A statement is true if the scene's own caption could say it: an object by size, colour and
    shape, and where the first one is, seen from another.

    Example:
        >>> scene = make_scene(0, 2, 3)
        >>> false_statements(scene, scene.caption)
        []
        >>> false_statements(scene, "a large pink cow")[0]
        'a large pink cow'
    """
    words = {thing.words: thing for thing in scene.objects}
    phrases = [match.group() for match in CAPTION.finditer(caption)]
    wrong = [phrase for phrase in phrases if phrase not in words]
    wrong += [thing.words for thing in scene.objects if phrases.count(thing.words) != 1]
    between = CAPTION.split(caption)[4::4]  # what stands after each object
    if wrong or not phrases or len(between) != len(phrases):
        return wrong or [caption]
    first, relations = words[phrases[0]], {words: name for name, words in RELATIONS.items()}
    for phrase, said in zip(phrases[1:], between, strict=False):
        relation = relations.get(said.strip().removeprefix("and ").strip())
        if relation != _relation(first, words[phrase]):
            wrong.append(f"{first.words}{said}{phrase}")
    return wrong + ([caption] if between[-1].strip() else [])


def _paint_thing(image: Image.Image, thing: Thing, fill: Any, ground: Any) -> None:
    """Draw one object into an image of any size."""
    side, draw = image.width, ImageDraw.Draw(image)
    x, y, radius = (value * side for value in (thing.x, thing.y, thing.radius))
    wide, high = (radius * scale for scale in _scales(thing.stretch))
    dark = None if thing.outline == 0 or ground == 0 else (25, 25, 25)  # none in a mask
    edge = max(1, round(thing.outline * radius)) if dark else 1
    if thing.shape in ("circle", "ring"):
        draw.ellipse((x - wide, y - high, x + wide, y + high), fill, dark, edge)
        if thing.shape == "ring":
            hole = RING * thing.proportion
            across, down = hole * wide, hole * high
            draw.ellipse((x - across, y - down, x + across, y + down), ground, dark, edge)
        return
    corners = _turned(_outline(thing), thing.turn)
    draw.polygon([(x + wide * a, y + high * b) for a, b in corners], fill, dark, edge)


def _corners(count: int, radii: Sequence[float], first: float = -90) -> list[tuple[float, float]]:
    """Points on circles, clockwise from an angle in degrees; their radii take turns."""
    corners = []
    for number in range(count):
        radius, angle = radii[number % len(radii)], math.radians(first + 360 * number / count)
        corners.append((radius * math.cos(angle), radius * math.sin(angle)))
    return corners


RING, STAR, ARM = 0.55, 0.42, 0.33
"""A ring's hole and a star's inner radius as shares of the radius; half the width of an arm."""


def _outline(thing: Thing) -> list[tuple[float, float]]:
    """The corners of a shape in a circle of radius 1, not rotated; x to the right, y down."""
    arm = ARM * thing.proportion
    outlines = {
        "square": _corners(4, [1.0], -45),
        "triangle": _corners(3, [1.0]),
        "star": _corners(10, [1.0, STAR * thing.proportion]),
        "cross": [(-arm, -1), (arm, -1), (arm, -arm), (1, -arm), (1, arm), (arm, arm), (arm, 1),
                  (-arm, 1), (-arm, arm), (-1, arm), (-1, -arm), (-arm, -arm)],
    }  # fmt: skip
    return outlines[thing.shape]


def scenes_of(data: ScenesData, split: str) -> Iterator[Scene]:
    """Make the scenes of a split: train, valid or test."""
    count = data.pairs if split == "train" else data.held_out
    least = 2 if data.label == "relation" else 1
    most = max(least, data.objects)
    changes: dict[str, Any] = {"style": data.style, "unseen": data.unseen}
    changes["unseen_pairs"] = data.unseen_pairs
    return (
        make_scene(data.seed, PARTS[split], number, most, least, **changes)
        for number in range(count)
    )


def scene_splits(data: ScenesData, reader: ImageReader) -> ImageSplits:
    """Draw all scenes of a recipe at the model's size.

    Args:
        data: How many, of which seed, with which classes.
        reader: The model's image reader.
    """
    side = max(reader.height, reader.width)
    size = reader.channels * reader.height * reader.width
    check_memory("data.pairs", size * data.pairs, fix="draw fewer scenes")
    parts = {}
    for split in PARTS:
        scenes = tuple(scenes_of(data, split))
        values = np.empty((len(scenes), reader.channels, reader.height, reader.width), np.uint8)
        for row, scene in enumerate(scenes):
            values[row] = reader.bytes_of(scene.draw(side))
        labels = tuple(scene.labels[data.label] for scene in scenes)
        captions = tuple((scene.caption,) for scene in scenes)
        parts[split] = LabelledImages(values, labels, captions, scenes)
    settings = data.model_dump_json(include={"pairs", "held_out", "objects", "label", "seed"})
    digest = hashlib.sha256(settings.encode())
    for scene in parts["train"].scenes:
        digest.update(json.dumps(scene.to_json()).encode())
    checksums = {"scenes": digest.hexdigest()}
    return ImageSplits(parts["train"], parts["valid"], {"test": parts["test"]}, checksums)
