"""Hugging Face transformers' ViT with the work's weights: classes of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from benchmarks.measure.images import IMAGES, most_probable, random_images
from benchmarks.peers.loop import start
from benchmarks.peers.work import read


@dataclass
class Classify:
    """Logits of the classes; the case: how many images at once. Work: images."""

    work: str
    packages: ClassVar = ("transformers", "torch")
    install: ClassVar = "pip install transformers"

    def prepare(self, threads: int) -> None:
        import torch
        from transformers import ViTForImageClassification

        start(threads)
        work = read(self.work)
        self.model = ViTForImageClassification.from_pretrained(
            work["weights"], attn_implementation="sdpa"
        ).eval()
        self.images = torch.from_numpy(random_images(work["model"], max(IMAGES)))

    def logits(self, images: Any) -> Any:
        """(images, channels, height, width) -> (images, classes)."""
        import torch

        with torch.inference_mode():
            return self.model(pixel_values=images).logits

    def measure(self, case: str) -> float:
        logits = self.logits(self.images[: int(case)])
        self.answer = most_probable(logits)
        return len(logits)
