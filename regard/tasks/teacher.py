"""A teacher: a trained classifier of images, from which another model learns (distillation).

Images as the student reads them come in; the teacher's logits for the student's classes go out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError
from regard.inputs.arrays import Dense, digest
from regard.inputs.images.reader import ImageReader

GREY = (0.299, 0.587, 0.114)
"""The weights of red, green and blue in grey, as Pillow has them."""


class Teacher:
    """A classifier of images with its reader, and how it is learned from.

    Args:
        model: Any model of images with classes, in evaluation mode.
        reader: Its image reader.
        distillation: `hard` or `soft`, as `train.distillation`.
        weight: The weight of the loss to the teacher.
        temperature: As `train.temperature`.
    """

    def __init__(
        self,
        model: Any,
        reader: ImageReader,
        *,
        distillation: str = "hard",
        weight: float = 0.5,
        temperature: float = 3.0,
    ) -> None:
        self.model, self.reader = model.eval().requires_grad_(requires_grad=False), reader
        self.hard, self.weight, self.temperature = distillation == "hard", weight, temperature
        self.order: list[int] = []
        """The index of each class of the student among the teacher's classes; set by `check`."""

    def checksum(self) -> str:
        """SHA-256 of all that the teacher's answers depend on: config, reader and weights."""
        config = json.dumps(self.model.config.model_dump(mode="json"), sort_keys=True)
        checksum = hashlib.sha256(f"{config} {self.reader.to_json()}".encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            checksum.update(f"{name} {digest(tensor)}".encode())
        return checksum.hexdigest()

    def check(self, classes: Sequence[str]) -> None:
        """Compares the student's classes with the teacher's, which may be in another order.

        Raises:
            InputError: The teacher has other classes.
        """
        own_classes = list(self.model.config.head.classes)
        if sorted(own_classes) != sorted(classes):
            missing = next((name for name in classes if name not in own_classes), None)
            got = f"{len(own_classes)} classes" + (f", without {missing}" if missing else "")
            expected = f"the same {len(classes)} classes as the student"
            raise InputError("train.teacher", got=got, expected=expected)
        self.order = [own_classes.index(name) for name in classes]

    @torch.no_grad()
    def logits(self, source: Dense, reader: ImageReader) -> Tensor:
        """The logits of the student's classes: (images, classes).

        Args:
            source: Images as the student reads them.
            reader: The student's reader.
        """
        mean, std = source.values.new_tensor([reader.mean, reader.std]).view(2, -1, 1, 1)
        pixels = source.values * std + mean  # from 0 to 1
        channels, size = self.reader.channels, (self.reader.height, self.reader.width)
        if channels > pixels.shape[1]:
            pixels = pixels.expand(-1, channels, -1, -1)
        elif channels < pixels.shape[1]:
            pixels = (pixels * pixels.new_tensor(GREY).view(-1, 1, 1)).sum(1, keepdim=True)
        if pixels.shape[2:] != size:
            pixels = F.interpolate(pixels, size, mode="bilinear", antialias=True)
        mean, std = pixels.new_tensor([self.reader.mean, self.reader.std]).view(2, -1, 1, 1)
        return self.model.classify(Dense((pixels - mean) / std))[:, self.order]

    def loss(self, logits: Tensor, source: Dense, reader: ImageReader) -> Tensor:
        """The loss of a student's logits (images, classes) to the teacher, summed over the images.

        hard: -log p(c) of the teacher's class c. soft: τ² KL(teacher || student), both sides with
        logits / τ.
        """
        teacher_logits = self.logits(source, reader)
        if self.hard:
            return F.cross_entropy(logits, teacher_logits.argmax(dim=1), reduction="sum")
        student = (logits / self.temperature).log_softmax(dim=1)
        teacher = (teacher_logits / self.temperature).log_softmax(dim=1)
        return self.temperature**2 * F.kl_div(student, teacher, reduction="sum", log_target=True)
