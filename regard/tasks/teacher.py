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

    def checksum(self) -> str:
        """SHA-256 of all that the teacher's answers depend on: config, reader and weights."""
        said = json.dumps(self.model.config.model_dump(mode="json"), sort_keys=True)
        found = hashlib.sha256(f"{said} {self.reader.to_json()}".encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            found.update(f"{name} {digest(tensor)}".encode())
        return found.hexdigest()

    def check(self, classes: Sequence[str]) -> None:
        """Compares the student's classes with the teacher's, which may be in another order.

        Raises:
            InputError: The teacher has other classes.
        """
        own = list(self.model.config.classes)
        if sorted(own) != sorted(classes):
            missing = next((name for name in classes if name not in own), None)
            got = f"{len(own)} classes" + (f", without {missing}" if missing else "")
            expected = f"the same {len(classes)} classes as the student"
            raise InputError("train.teacher", got=got, expected=expected)
        self.order = [own.index(name) for name in classes]

    @torch.no_grad()
    def logits(self, source: Dense, reader: ImageReader) -> Tensor:
        """The logits of the student's classes: (images, classes).

        Args:
            source: Images as the student reads them.
            reader: The student's reader.
        """
        mean, std = (source.values.new_tensor(each) for each in (reader.mean, reader.std))
        pixels = source.values * std.view(-1, 1, 1) + mean.view(-1, 1, 1)  # from 0 to 1
        own = self.reader
        if own.channels > pixels.shape[1]:
            pixels = pixels.expand(-1, own.channels, -1, -1)
        elif own.channels < pixels.shape[1]:
            pixels = (pixels * pixels.new_tensor(GREY).view(-1, 1, 1)).sum(1, keepdim=True)
        if pixels.shape[2:] != (own.height, own.width):
            pixels = F.interpolate(pixels, (own.height, own.width), mode="bilinear", antialias=True)
        mean, std = (pixels.new_tensor(each).view(-1, 1, 1) for each in (own.mean, own.std))
        return self.model.classify(Dense((pixels - mean) / std))[:, self.order]

    def loss(self, logits: Tensor, source: Dense, reader: ImageReader) -> Tensor:
        """The loss of a student's logits (images, classes) to the teacher, summed over the images.

        hard: -log p(c) of the teacher's class c. soft: τ² KL(teacher || student), both sides with
        logits / τ.
        """
        taught = self.logits(source, reader)
        if self.hard:
            return F.cross_entropy(logits, taught.argmax(dim=1), reduction="sum")
        cool = self.temperature
        student, teacher = ((each / cool).log_softmax(dim=1) for each in (logits, taught))
        return cool**2 * F.kl_div(student, teacher, reduction="sum", log_target=True)
