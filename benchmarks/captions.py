"""Captioners: are captions of drawn scenes true, and do their words look at what they name?

    python -m benchmarks.captions scenes small/caption --count 1000
    python -m benchmarks.captions prepare flickr8k --data ../shared/data/flickr8k_full
    regard train own/caption data.folder=flickr8k -o runs/flickr
    python -m benchmarks.captions flickr runs/flickr --data flickr8k

`scenes` measures a captioner on scenes of kinds, or pairs of kinds, that no training scene has
(`data.unseen` and `data.unseen_pairs` of its recipe): captions of which every statement is true;
how often the largest cell of a noun's map lies in the box of the object that it names, and how much
of the map's mass (beside the box's share of the area); and how often only its colour's word changes
if an object is recoloured.

`flickr` measures a captioner of photographs beside captions that need no model: the best constant
one, that of the nearest training image by pixels, and of the nearest by its own encoder.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regard
from regard.data.synthetic.scenes import (
    COLOURS,
    PARTS,
    SHAPES,
    Scene,
    Thing,
    false_statements,
    make_scene,
)
from regard.tasks.measures.captions import score_captions
from regard.tasks.measures.cider import cider_d, words_of

SIDE = 256
"""Width and height of the drawn scenes in pixels; the model scales them down."""


def unseen_scenes(count: int, seed: int, style: str, data: Any) -> list[Scene]:
    """Scenes of the test split, with kinds or pairs of kinds that training never has."""
    unseen: dict[str, Any] = {"unseen": data.unseen, "unseen_pairs": data.unseen_pairs}
    part = PARTS["test"]
    return [make_scene(seed, part, n, style=style, **unseen) for n in range(count)]


def measure_scenes(pipeline: Any, scenes: Sequence[Scene], maps: int) -> dict[str, Any]:
    """The numbers of a captioner on drawn scenes.

    Args:
        pipeline: The captioner.
        scenes: Drawn scenes.
        maps: Of so many scenes the maps are measured, and an object is recoloured.
    """
    images = [scene.draw(SIDE) for scene in scenes]
    captions = pipeline.caption(images)
    wrong = [false_statements(*pair) for pair in zip(scenes, captions, strict=True)]
    cells = [
        row
        for pair in zip(scenes[:maps], images, strict=False)
        for row in noun_maps(pipeline, *pair)
    ]
    recoloured = [recolour(scene, number) for number, scene in enumerate(scenes[:maps])]
    new = pipeline.caption([scene.draw(SIDE) for scene, *_ in recoloured])
    only_colour = [
        changes == {(old_colour, new_colour)}
        for before, after, (_, old_colour, new_colour) in zip(
            captions, new, recoloured, strict=False
        )
        for changes in [word_changes(before, after)]
    ]
    return {
        "scenes": len(scenes),
        "true": 100 * float(np.mean([not statements for statements in wrong])),
        "nouns": len(cells),
        "largest_cell_in_box": 100 * float(np.mean([row[0] for row in cells])),
        "mass_over_area": float(np.mean([row[1] / row[2] for row in cells])),
        "mass_in_box": float(np.mean([row[1] for row in cells])),
        "recoloured": len(only_colour),
        "only_its_word_changes": 100 * float(np.mean(only_colour)),
        "wrong": [
            {"caption": caption, "scene": scene.caption, "wrong": statements}
            for caption, scene, statements in zip(captions, scenes, wrong, strict=True)
            if statements
        ][:20],
    }


def noun_maps(pipeline: Any, scene: Scene, image: Any) -> Iterator[tuple[bool, float, float]]:
    """For each noun that names an object: largest cell in its box, mass in it, area of it."""
    look = pipeline.look(image)
    choice = look.choose()
    weights = look.word_maps(choice)
    words = list(choice.map.queries)
    for index, word in enumerate(words):
        if word not in SHAPES or index < 2:
            continue
        named = [t for t in scene.objects if (t.shape, t.colour) == (word, words[index - 1])]
        if len(named) == 1:
            yield compare_with_box(weights[index], named[0])


def compare_with_box(weights: Any, thing: Thing) -> tuple[bool, float, float]:
    """Whether the middle of the largest cell is in an object's box, the mass in it, its area."""
    rows, columns = weights.shape
    left, top, right, bottom = np.clip(thing.box, 0, 1)
    row, column = np.unravel_index(int(np.argmax(weights)), weights.shape)
    x, y = (column + 0.5) / columns, (row + 0.5) / rows
    across = np.clip(np.minimum(right * columns, np.arange(columns) + 1)
                     - np.maximum(left * columns, np.arange(columns)), 0, 1)  # fmt: skip
    down = np.clip(np.minimum(bottom * rows, np.arange(rows) + 1)
                   - np.maximum(top * rows, np.arange(rows)), 0, 1)  # fmt: skip
    mass = float((weights * down[:, None] * across[None]).sum() / weights.sum())
    return bool(left <= x <= right and top <= y <= bottom), mass, (right - left) * (bottom - top)


def recolour(scene: Scene, number: int) -> tuple[Scene, str, str]:
    """The scene with one object in another colour, and the old and the new colour."""
    random = np.random.default_rng(number)
    chosen = int(random.integers(len(scene.objects)))
    thing = scene.objects[chosen]
    taken = {(other.shape, other.colour) for other in scene.objects}
    free = [name for name in COLOURS if (thing.shape, name) not in taken]
    colour = free[int(random.integers(len(free)))]
    objects = list(scene.objects)
    objects[chosen] = replace(thing, colour=colour, rgb=COLOURS[colour])
    return replace(scene, objects=tuple(objects)), thing.colour, colour


def word_changes(before: str, after: str) -> set[tuple[str, str]] | None:
    """The words that differ between two captions of equal length; None if the lengths differ."""
    old, new = before.split(), after.split()
    changes = [pair for pair in zip(old, new, strict=False) if pair[0] != pair[1]]
    return set(changes) if len(old) == len(new) and len(changes) == 1 else None


def measure_flickr(pipeline: Any, folder: Path, limit: int | None) -> dict[str, Any]:
    """BLEU-4 and CIDEr-D of a captioner of photographs, and of captions that need no model."""
    from regard.data.config import ImagesData
    from regard.data.images.sources import load_images

    data = ImagesData(file=str(folder / "captions.csv"))
    splits = load_images(data, pipeline.processor.source, captions=True)
    train, test = splits.train, splits.tests["test"]
    if limit is not None:
        test = test[:limit]
    references = test.captions
    written = [
        best.text
        for best, *_ in pipeline.task.outputs(
            pipeline.model, [test.values[row] for row in range(len(test))], pipeline.recipe.decode
        )
    ]
    rows = {"captioner": written}
    rows["best constant caption"] = [best_constant(train, references)] * len(test)
    pixels = [part.values[:].reshape(len(part), -1).astype(np.float32) for part in (train, test)]
    rows["nearest by pixels"] = [train.captions[i][0] for i in nearest(*pixels)]
    vectors = [encoded(pipeline, part) for part in (train, test)]
    rows["nearest by its encoder"] = [train.captions[i][0] for i in nearest(*vectors)]
    scores = {name: score_captions(texts, references) for name, texts in rows.items()}
    return {
        "images": len(test),
        **{
            name: {"bleu_4": score.bleu_4, "cider_d": score.cider_d}
            for name, score in scores.items()
        },
        "constant": rows["best constant caption"][0],
        "examples": list(zip(written[:10], (texts[0] for texts in references[:10]), strict=True)),
    }


def prepare(source: Path, folder: Path) -> None:
    """Unpack Flickr8k into a folder: its images, and `captions.csv` with the official splits.

    Captions are in lower case and without the blank and full stop at their end.
    """
    folder.mkdir(parents=True)
    with tarfile.open(source / "images_96px.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    with gzip.open(source / "captions.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] != "none"]
    with (folder / "captions.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "split", "caption"])
        for row in rows:
            text = " ".join(words_of(row["caption"]))
            writer.writerow([f"images/{row['image']}", row["split"], text])


def best_constant(train: Any, references: Sequence[Sequence[str]], candidates: int = 200) -> str:
    """Of some captions of the training set, the one with the highest CIDEr-D for all images."""
    texts = [captions[0] for captions in train.captions]
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    tried = sorted(counts, key=lambda text: (-counts[text], len(text)))[:candidates]
    return max(tried, key=lambda text: cider_d([text] * len(references), references))


def nearest(train: Any, test: Any) -> list[int]:
    """For each test vector the index of the nearest training vector."""
    a, b = torch.from_numpy(np.asarray(train)), torch.from_numpy(np.asarray(test))
    norms = (a**2).sum(1)
    return [int((norms - 2 * a @ row).argmin()) for row in b]


@torch.no_grad()
def encoded(pipeline: Any, images: Any) -> Any:
    """The mean of the encoder's output over the cells of each image, of length 1."""
    from regard.inputs.arrays import Dense

    model, reader, rows = pipeline.model.eval(), pipeline.processor.source, []
    for first in range(0, len(images), 64):
        pixels = torch.from_numpy(images.values[first : first + 64])
        memory = model.encode(Dense(reader.normalised(pixels)))
        rows.append(memory.x.view(len(pixels), -1, memory.x.shape[-1]).mean(1))
    vectors = torch.cat(rows)
    return torch.nn.functional.normalize(vectors).numpy()


def main() -> None:
    """Measure a captioner."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("scenes", "prepare", "flickr"))
    parser.add_argument("model", help="a captioner; with `prepare` the folder to write")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--maps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--data", type=Path, help="the folder with captions.csv and the images")
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    if options.what == "prepare":
        prepare(options.data, Path(options.model))
        return
    pipeline = regard.load(options.model, device="cpu")
    if options.what == "flickr":
        result = measure_flickr(pipeline, options.data, options.count)
    else:
        result = {
            style: measure_scenes(
                pipeline,
                unseen_scenes(options.count, options.seed, style, pipeline.recipe.data),
                options.maps,
            )
            for style in ("plain", "varied")
        }
    text = json.dumps(result, indent=1, ensure_ascii=False)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
