"""Small classifiers of images, trained with Regard's own task and batches for the claims.

In: images with classes, a model's config, and a `Course`: how many images are seen, and how. Out: a
`Classifier`, whose accuracy can be measured on other images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim.lr_scheduler import LambdaLR

from regard.data import (
    Cursor,
    DigitsData,
    ImagesData,
    ImageSplits,
    LabelledImages,
    ScenesData,
    load_images,
)
from regard.errors import InputError
from regard.inputs import ImageReader, Processor
from regard.models import build
from regard.tasks import ClassifyImages, ImageOptions, Teacher
from regard.train import Adam
from regard_lectures.progress import OnStep

WARMUP = 0.05
"""The share of the steps in which the learning rate rises; then it falls as a cosine, to 0."""
SIDE = 32
"""Height and width of the drawn scenes, and of a person's own images in colour."""
FOLDS = 5
"""Test splits of the included digits."""
FASHION, DIGITS = "fashion-mnist", "digits"
"""Images that are read if a folder of this name is here, and images that are included."""


@dataclass(frozen=True)
class Course:
    """How a classifier is trained."""

    images: int
    """How many images it sees, counted again in each epoch."""
    rate: float = 1e-3
    """Adam's learning rate at its peak."""
    batch: int = 64
    weight_decay: float = 0.0
    """Of all weights, separate from the gradient (AdamW)."""
    changes: Any = field(default_factory=lambda: ImagesData(folder="-", workers=0))
    """The `data:` section of a recipe that says how training images are changed at random."""

    @property
    def steps(self) -> int:
        """The number of training steps."""
        return max(1, self.images // self.batch)

    def share(self, step: int) -> float:
        """The learning rate of a step, from 0, relative to its peak."""
        warmup = max(1, round(WARMUP * self.steps))
        if step < warmup:
            return (step + 1) / warmup
        return (1 + math.cos(math.pi * (step - warmup) / max(1, self.steps - warmup))) / 2


@dataclass(frozen=True)
class Classifier:
    """A trained model with what reads its images."""

    model: Any
    task: ClassifyImages

    def accuracy(self, images: LabelledImages) -> float:
        """The share of images whose class is right, in percent."""
        accuracy: float = self.task.measure(self.model, images).overall["accuracy"]
        return accuracy


def labelled(pixels: NDArray[Any], labels: Sequence[Any]) -> LabelledImages:
    """Images (count, channels, height, width), bytes or floats from 0 to 1, with their classes."""
    return LabelledImages(np.ascontiguousarray(pixels), tuple(map(str, labels)))


def train_classifier(
    config: Any,
    images: LabelledImages,
    course: Course,
    seed: int,
    on_step: OnStep,
    *,
    classes: Sequence[str] = (),
    teacher: Teacher | None = None,
) -> Classifier:
    """Train a model of images from scratch.

    Args:
        config: The model's config, without classes.
        images: The training images.
        course: How it is trained.
        seed: Of the weights, of the order of the images and of their changes.
        on_step: Called after each step.
        classes: All classes; by default those of the training images.
        teacher: A classifier to learn from, too.
    """
    torch.manual_seed(seed)
    names = tuple(classes) or tuple(sorted(set(images.labels)))
    config = config.changed(classes=names)
    model: Any = build(config)
    channels, height, width = images.values.shape[1:]
    half = (0.5,) * channels
    reader = ImageReader(height=height, width=width, channels=channels, mean=half, std=half)
    options = ImageOptions(
        head=config.head,
        tokens=config.max_length,
        batch_tokens=course.batch * config.max_length,
        data=course.changes,
        seed=seed,
        least=config.least_examples,
    )
    task = ClassifyImages(Processor(reader), images, images, options)
    if teacher is not None:
        task.learn_from(teacher)
    optimizer = Adam(
        model.parameters(),
        lr=course.rate,
        weight_decay=course.weight_decay,
        decoupled_weight_decay=True,
        fused=True,
    )
    schedule = LambdaLR(optimizer, course.share)
    model.train()
    for _, (batch, _) in zip(range(course.steps), task.batches(Cursor()), strict=False):
        count = task.targets(batch)
        loss = task.loss(model, batch) / count
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        on_step(float(loss.detach()), count)
    model.eval()
    return Classifier(model, task)


def read_splits(data: str, *, held_out: int, most: int, seed: int) -> tuple[ImageSplits, str]:
    """The images that a claim is measured on, and their name.

    Args:
        data: A folder or file of images with classes, such as Fashion-MNIST's IDX files; or
            `digits`, the included ones, 4 times as large. If it is `fashion-mnist` and there is no
            such folder, or if it is empty, scenes are drawn, and the classes are the shapes.
        held_out: How many images to set aside for validation.
        most: How many training images to draw, if scenes are drawn.
        seed: Of the images that are set aside, or of the scenes.

    Raises:
        InputError: There is no such folder or file, or it has no images with classes.
    """
    path = Path(data)
    if data and path.exists():
        source = {"folder": str(path)} if path.is_dir() else {"file": str(path)}
        section: Any = ImagesData(**source, held_out=held_out, seed=seed)
        return with_tests(load_images(section, _reader_of(path)), seed), path.resolve().name
    if data == DIGITS:
        splits = load_images(DigitsData(fold=seed % FOLDS), reader_of(8, 1))
        tests = {name: _enlarged(images) for name, images in splits.tests.items()}
        train, valid = _enlarged(splits.train), _enlarged(splits.valid)
        return replace(splits, train=train, valid=valid, tests=tests), "digits"
    if data not in ("", FASHION):
        raise InputError(
            "data", got=data, expected="a folder or file of images with classes, or digits"
        )
    section = ScenesData(pairs=most, held_out=held_out, seed=seed)
    return with_tests(load_images(section, reader_of(SIDE, 3)), seed), "drawn scenes"


def _enlarged(images: LabelledImages) -> LabelledImages:
    """Digits of 8 x 8 with each pixel repeated 4 x 4 times."""
    pixels = np.asarray(images.values[:])
    return labelled(pixels.repeat(SIDE // 8, axis=2).repeat(SIDE // 8, axis=3), images.labels)


def with_tests(splits: ImageSplits, seed: int) -> ImageSplits:
    """Splits with test images: if there are none, a sixth of the training images, drawn at random.

    Images of a person's own are mostly in one folder.
    """
    if "test" in splits.tests:
        return splits
    order = np.random.default_rng(seed).permutation(len(splits.train)).tolist()
    count = max(1, round(len(order) / 6))
    test, train = splits.train.take(order[:count]), splits.train.take(order[count:])
    return replace(splits, train=train, tests={**splits.tests, "test": test})


def _reader_of(path: Path) -> ImageReader:
    """A reader for grey images of 28 x 28 of IDX files, or else for images in colour of 32 x 32."""
    names = [file.name for file in path.iterdir()] if path.is_dir() else [path.name]
    return reader_of(28, 1) if any("idx" in name for name in names) else reader_of(SIDE, 3)


def reader_of(side: int, channels: int) -> ImageReader:
    """A reader of square images, whose values become -1 to 1."""
    half = (0.5,) * channels
    return ImageReader(height=side, width=side, channels=channels, mean=half, std=half)
