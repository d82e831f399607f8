"""timm's ViT with the work's weights: classes of images, and a training step.

timm stands in a folder of its own, without what it depends on. It imports torchvision, of which no
build for this torch on a CPU exists; its ViTs use nothing of it, so a stand-in for the names that
timm imports is enough. It is in the processes of this peer only.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from benchmarks.measure.images import IMAGES, most_probable, random_images, random_labels
from benchmarks.peers.loop import Loop, Training, start
from benchmarks.peers.work import read

FOLDER = Path(sys.prefix) / "timm"
"""In the environment that runs the suite."""
STOOD_IN = (
    "torchvision", "torchvision.ops", "torchvision.ops.misc", "torchvision.transforms",
    "torchvision.transforms.functional", "torchvision.datasets", "torchvision.models",
    "torchvision.models.feature_extraction",
)  # fmt: skip


class _Anything(type):
    """A class whose attributes are their names, such as `InterpolationMode.BICUBIC`."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _StandIn(ModuleType):
    """A module that has every name, as an empty class."""

    __version__ = "0.0"
    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = sys.modules.get(f"{self.__name__}.{name}") or _Anything(name, (), {})
        setattr(self, name, value)
        return value


def timm() -> Any:
    """The library, imported with the stand-in."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    for name in STOOD_IN:
        sys.modules.setdefault(name, _StandIn(name))
    import timm as found

    return found


def build(folder: str) -> Any:
    """The model of a folder that `regard export --to timm` wrote."""
    from safetensors.torch import load_file

    said = json.loads((Path(folder) / "config.json").read_text())
    model = timm().create_model(
        said["architecture"], num_classes=said["num_classes"], **said["model_args"]
    )
    model.load_state_dict(load_file(Path(folder) / "model.safetensors"))
    return model


@dataclass
class Classify:
    """Logits of the classes; the case: how many images at once. Work: images."""

    work: str
    packages: ClassVar = ("timm", "torch")
    folders: ClassVar = (str(FOLDER),)
    install: ClassVar = "make bench"

    def prepare(self, threads: int) -> None:
        import torch

        start(threads)
        work = read(self.work)
        self.model = build(work["timm"]).eval()
        self.images = torch.from_numpy(random_images(work["model"], max(IMAGES)))

    def logits(self, images: Any) -> Any:
        """(images, channels, height, width) -> (images, classes)."""
        import torch

        with torch.inference_mode():
            return self.model(images)

    def measure(self, case: str) -> float:
        logits = self.logits(self.images[: int(case)])
        self.answer = most_probable(logits)
        return len(logits)


class ImageLoop(Loop):
    """On one batch of images, whatever the case."""

    def __init__(self, work: dict[str, Any], model: Any) -> None:
        import torch

        super().__init__(model)
        self.images = torch.from_numpy(random_images(work["model"], work["count"]))
        self.wanted = torch.tensor(random_labels(work["model"], work["count"]))

    def loss(self) -> Any:
        """The mean over the images."""
        import torch.nn.functional as F

        return F.cross_entropy(self.model(self.images), self.wanted)

    def run(self, case: str) -> float:
        del case
        self.step(self.loss)
        return len(self.wanted)


class Train(Training):
    """A training step. Work: images."""

    packages: ClassVar = ("timm", "torch")
    folders: ClassVar = (str(FOLDER),)
    install: ClassVar = "make bench"

    def made(self, work: dict[str, Any]) -> ImageLoop:
        return ImageLoop(work, build(work["timm"]).train())
