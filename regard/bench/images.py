"""Classifying images with a Vision Transformer: the work file, our contender, the experiment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from regard.bench.harness import Entry, Experiment
from regard.bench.limits import matrix_limit
from regard.bench.ours import in_precision
from regard.bench.results import Bar
from regard.bench.work import WorkFile
from regard.cost.count import forward_flops
from regard.models import ViTConfig
from regard.models.sketch import sketch

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

    @property
    def config(self) -> ViTConfig:
        """The config of the model."""
        return ViTConfig.model_validate(self.model)

    def flops(self) -> float:
        """FLOPs of one image."""
        config = self.config
        patches = config.image[0] * config.image[1] // config.patch**2
        length = patches + int(config.class_token)
        return float(sum(forward_flops(sketch(config), length).values()))


def random_images(model: dict[str, Any], count: int) -> npt.NDArray[np.float32]:
    """Normal noise (count, channels, height, width), the same for all contenders."""
    random = np.random.default_rng(0)
    return random.standard_normal((count, model["channels"], *model["image"]), dtype=np.float32)


def most_probable(logits: Any) -> list[int]:
    """The `TOP` largest classes of the first image, the largest first."""
    found: list[int] = np.argsort(-np.asarray(logits)[0])[:TOP].tolist()
    return found


@dataclass
class Classify:
    """Logits of the classes of images; the case is the number of images at once. Work: images."""

    work: str
    precision: str = "float32"
    packages: ClassVar = ("torch",)

    def prepare(self, threads: int) -> None:
        """Load the model, and draw the images."""
        import torch

        from regard.data.input import Dense
        from regard.hub.folder import read_model
        from regard.runtime.device import setup

        setup(threads, 0)
        work = ImageWork.read(self.work)
        self.model = in_precision(read_model(Path(work.weights)).eval(), self.precision)
        images = torch.from_numpy(random_images(work.model, max(IMAGES)))
        self.batches = {str(count): Dense(images[:count]) for count in IMAGES}

    def measure(self, case: str) -> float:
        """Classify the images once; returns their number."""
        from regard.models.mode import evaluating

        with evaluating(self.model):
            logits = self.model(self.batches[case])
        self.answer = most_probable(logits)
        return len(logits)


def images_work(folder: Path, *, quick: bool) -> tuple[str, ImageWork]:
    """The work file and its content: ViT-B/16 with random weights, or a toy size if `quick`."""
    import torch

    from regard.hub.folder import write_model
    from regard.models import build

    classes = tuple(str(number) for number in range(10 if quick else 1000))
    toy: dict[str, Any] = {"size": "nano", "image": (16, 16), "patch": 4}
    config = ViTConfig(classes=classes, **(toy if quick else {"size": "B"}))
    weights = folder / "vit"
    if not weights.exists():
        torch.manual_seed(0)
        weights.mkdir()
        write_model(build(config), weights)
    work = ImageWork(config.model_dump(), str(weights))
    return work.save(folder / "images.json"), work


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
            Entry(OURS, Classify(path), str(count), flops=flops),
            Entry(INT8, Classify(path, "int8"), str(count)),
        ),
        bars=(Bar(INT8, (OURS,), "speed", 1.3),) if count == 1 else (),
        limit=matrix_limit(quick=quick),
        weight=2.0 if count == 1 else 6.0,
    )
