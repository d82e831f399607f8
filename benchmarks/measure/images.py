"""Classifying images with a Vision Transformer: the work file, our contender, the experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from benchmarks.measure.harness import BenchLine, Experiment
from benchmarks.measure.limits import matrix_limit
from benchmarks.measure.ours import in_precision
from benchmarks.measure.results import Bar
from benchmarks.measure.work import WorkFile
from benchmarks.peers.work import flat
from regard.cost.count import forward_flops
from regard.models import ViTConfig
from regard.models.meta_model import meta_model

IMAGES = (1, 8)
"""The numbers of images classified at once."""
OURS, INT8 = "Regard", "Regard int8"
TOP = 8
"""The number of most probable classes that contenders show, to be compared."""


@dataclass(frozen=True)
class ImageWork(WorkFile):
    """A Vision Transformer with its weights, and the size of the images."""

    model: dict[str, Any]
    weights: str
    """A Hugging Face folder with the model."""
    timm: str = ""
    """A folder with the same model for timm."""
    count: int = 0
    """Number of images of a training step."""

    @property
    def config(self) -> ViTConfig:
        """The config of the model."""
        return ViTConfig.model_validate(self.model)

    def flops(self) -> float:
        """FLOPs of one image."""
        config = self.config
        return float(sum(forward_flops(meta_model(config), config.max_length).values()))


def random_images(model: dict[str, Any], count: int) -> npt.NDArray[np.float32]:
    """Normal noise (count, channels, height, width), the same for all contenders."""
    random = np.random.default_rng(0)
    return random.standard_normal((count, model["channels"], *model["image"]), dtype=np.float32)


def random_labels(model: dict[str, Any], count: int) -> list[int]:
    """A class for each image, the same for all contenders."""
    return [7 * number % len(model["classes"]) for number in range(count)]


def most_probable(logits: Any) -> list[int]:
    """The `TOP` largest classes of the first image, the largest first."""
    classes: list[int] = np.argsort(-np.asarray(logits)[0])[:TOP].tolist()
    return classes


@dataclass
class Classify:
    """Logits of the classes of images; the case is the number of images at once. Work: images."""

    work: str
    precision: str = "float32"
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """Load the model, and draw the images."""
        import torch

        from regard.hub.folder import read_model
        from regard.inputs.arrays import Dense
        from regard.runtime.device import setup

        setup(threads, 0)
        work = ImageWork.read(self.work)
        self.model = in_precision(read_model(Path(work.weights)).eval(), self.precision)
        images = torch.from_numpy(random_images(flat(work.model), max(IMAGES)))
        self.batches = {str(count): Dense(images[:count]) for count in IMAGES}

    def measure(self, case: str) -> float:
        """Classify the images once; returns their number."""
        from regard.models.mode import evaluating

        with evaluating(self.model):
            logits = self.model(self.batches[case])
        self.answer = most_probable(logits)
        return len(logits)


@dataclass
class TrainImages:
    """A training step on one batch of images; the case is not used. Work: images."""

    work: str
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """Load the model, build the trainer, and draw the batch."""
        import torch

        from benchmarks.measure.ours import make_trainer
        from regard.data.batch import Batch
        from regard.hub.folder import read_model
        from regard.inputs.arrays import Dense, Ragged
        from regard.inputs.images.reader import ImageReader
        from regard.inputs.text import Processor
        from regard.runtime.device import setup
        from regard.tasks.classify_images import ClassifyImages

        setup(threads, 0)
        work = ImageWork.read(self.work)
        model = read_model(Path(work.weights))
        height, width = work.config.image
        # The reader is unused, since pixels are given.
        task = ClassifyImages(Processor(ImageReader(height=height, width=width)))
        source = Dense(torch.from_numpy(random_images(flat(work.model), work.count)))
        labels = torch.tensor(random_labels(flat(work.model), work.count))
        self.batch = Batch(source, Ragged(labels, (1,) * work.count), tuple(range(work.count)))
        self.trainer = make_trainer(model, task, work.count * work.config.max_length, threads)

    def measure(self, case: str) -> float:
        """Run one step; returns the number of images."""
        from benchmarks.measure.ours import train_on

        del case
        return train_on(self.trainer, [self.batch])  # type: ignore[list-item]


def image_training(folder: Path, *, quick: bool) -> Experiment:
    """A step of ViT-Ti on 16 images, without dropout."""
    path, work = images_work(folder, quick=quick, size="Ti", count=4 if quick else 16)
    config = work.config
    return Experiment(
        name="image-training",
        title=f"A training step on {work.count} images, ViT {config.layers}×{config.dim}",
        shows="rate",
        unit="images a second",
        entries=(BenchLine(OURS, TrainImages(path), flops=3 * work.flops()),),
        limit=matrix_limit(quick=quick),
        weight=4.0,
    )


def images_work(
    folder: Path, *, quick: bool, size: str = "B", count: int = 0
) -> tuple[str, ImageWork]:
    """The work file and its content: ViT-B/16 with random weights, or a toy size if `quick`.

    Args:
        folder: Where the weights and the work file are written.
        quick: Whether to take a toy size.
        size: The size of the ViT.
        count: The number of images of a training step.
    """
    import torch

    from regard.hub.folder import write_model
    from regard.models import build

    classes = tuple(str(number) for number in range(10 if quick else 1000))
    toy: dict[str, Any] = {"size": "nano", "image": (16, 16), "patch": 4}
    fields: dict[str, Any] = toy if quick else {"size": size}
    config = ViTConfig.model_validate({"classes": classes, "dropout": 0.0, **fields})
    weights, timm = folder / f"vit-{size}", folder / f"timm-{size}"
    if not weights.exists():
        torch.manual_seed(0)
        model = build(config)
        for path, kind in ((weights, None), (timm, "timm")):
            path.mkdir()
            write_model(model, path, kind)
    work = ImageWork(config.model_dump(), str(weights), str(timm), count)
    return work.save(folder / f"images-{size}.json"), work


def images(folder: Path, count: int, *, quick: bool) -> Experiment:
    """Classifying so many images at once, in float32 and int8."""
    path, work = images_work(folder, quick=quick)
    config, flops = work.config, work.flops()
    size = f"{config.image[0]}×{config.image[1]}"
    what = "image" if count == 1 else "images"
    return Experiment(
        name=f"images-{count}",
        title=f"Classifying {count} {what} of {size}, ViT {config.layers}×{config.dim}",
        shows="rate",
        unit="images a second",
        entries=(
            BenchLine(OURS, Classify(path), str(count), flops=flops),
            BenchLine(INT8, Classify(path, "int8"), str(count)),
        ),
        bars=(Bar(INT8, (OURS,), "speed", 1.3),) if count == 1 else (),
        limit=matrix_limit(quick=quick),
        weight=2.0 if count == 1 else 6.0,
    )
