"""What a network holds at a cut: its vectors there, a linear probe on them, a decoder from them.

A cut after a layer gives each image one vector: all numbers of the layer's maps. The last cut is
the pooled vector, which the classes are read from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.inputs import Dense
from regard.train import Adam
from regard_lectures.claims.layers import feature_maps
from regard_lectures.progress import OnStep

Matrix = NDArray[np.float64]

STRENGTHS = tuple(10.0**power for power in range(-5, 3))
"""The strengths λ of ridge regression to choose from, in units of the mean squared length."""
AT_ONCE = 250
"""Images that a network reads together."""


def pooled_vectors(model: Any, pixels: Tensor) -> Tensor:
    """The vector of each image that a model's head reads: (images, dim).

    Args:
        model: A CNN, a ResNet or a Vision Transformer; of one without such a head, the mean of the
            cells of its last maps.
        pixels: (images, channels, height, width) As its reader gives them.
    """
    if hasattr(model, "pooled"):
        source = Dense(pixels)
        vectors: Tensor = model.pooled(source, model.hidden(source))
        return vectors
    return list(feature_maps(model, pixels).values())[-1].mean((2, 3))


@torch.no_grad()
def cut_vectors(model: Any, pixels: Tensor) -> dict[str, Tensor]:
    """All numbers that pass each cut: (images, numbers) by the name of the cut, in order.

    `pixels` is the image itself, before any layer; `pooled` the vector at the end.
    """
    parts: dict[str, list[Tensor]] = {}
    for batch in torch.split(pixels, AT_ONCE):
        layers = {
            name: maps for name, maps in feature_maps(model, batch).items() if name != "patches"
        }
        for name, maps in {
            "pixels": batch,
            **layers,
            "pooled": pooled_vectors(model, batch),
        }.items():
            parts.setdefault(name, []).append(maps.flatten(1))
    return {name: torch.cat(vectors) for name, vectors in parts.items()}


@dataclass(frozen=True)
class Probe:
    """A linear classifier: ridge regression on a number for each class, 1 for its own images."""

    classes: tuple[str, ...]
    weight: Matrix
    """(numbers, classes)"""
    bias: Matrix
    """(classes,)"""

    def accuracy(self, vectors: Tensor, labels: tuple[str, ...]) -> float:
        """The share of vectors (images, numbers) whose class is right, in percent."""
        scores = vectors.double().numpy() @ self.weight + self.bias
        named = np.array(self.classes)[scores.argmax(1)]
        return 100 * float((named == np.array(labels)).mean())


def fit_probe(vectors: Tensor, labels: tuple[str, ...]) -> Probe:
    """Fit a linear probe; λ is the one with the least squared error of images left out.

        W = argmin |Y - X W|² + λ |W|²  = Xᵀ (X Xᵀ + λ)⁻¹ Y        X and Y less their means

    The error of an image left out is (y - ŷ) / (1 - h), h its diagonal entry of the matrix H in
    ŷ = H y, so that no image must be set aside to choose λ.

    Args:
        vectors: (images, numbers).
        labels: The class of each image.
    """
    classes = tuple(sorted(set(labels)))
    x = vectors.double().numpy()
    y = (np.array(labels)[:, None] == np.array(classes)).astype(float)  # (images, classes)
    x_mean, y_mean = x.mean(0), y.mean(0)
    x, y = x - x_mean, y - y_mean
    squares, vectors_of = np.linalg.eigh(x @ x.T)  # X Xᵀ = Q diag(squares) Qᵀ
    squares = squares.clip(min=0)
    projected = vectors_of.T @ y  # Qᵀ Y: (images, classes)

    def error_without(strength: float) -> float:
        shares = squares / (squares + strength)
        fitted = vectors_of @ (shares[:, None] * projected)
        h = 1 / len(x) + (vectors_of**2) @ shares
        return float((((y - fitted) / (1 - h).clip(min=1e-9)[:, None]) ** 2).sum())

    unit = max(float(squares.mean()), 1e-12)
    strength = min((unit * factor for factor in STRENGTHS), key=error_without)
    weight = x.T @ (vectors_of @ (projected / (squares + strength)[:, None]))
    return Probe(classes, weight, y_mean - x_mean @ weight)


class ImageDecoder(nn.Module):
    """Two layers that rebuild an image from the numbers at a cut.

    Args:
        vectors: (images, numbers) Those that it learns from; they are centred and scaled.
        images: (images, channels, height, width) From 0 to 1. At first it answers their mean.
        width: Of the hidden layer.
    """

    def __init__(self, vectors: Tensor, images: Tensor, width: int) -> None:
        super().__init__()
        self.mean = vectors.mean(0)
        self.scale = (vectors - self.mean).pow(2).mean().sqrt().clamp(min=1e-6)
        self.shape = images.shape[1:]
        self.hidden = nn.Linear(vectors.shape[1], width)
        self.output = nn.Linear(width, images[0].numel())
        with torch.no_grad():
            self.output.bias.copy_(images.mean(0).flatten())

    def forward(self, vectors: Tensor) -> Tensor:
        """(images, numbers) -> (images, channels, height, width)."""
        hidden = F.gelu(self.hidden((vectors - self.mean) / self.scale))
        rebuilt: Tensor = self.output(hidden).view(-1, *self.shape)
        return rebuilt


def train_decoder(
    vectors: Tensor, images: Tensor, *, width: int, steps: int, batch: int, seed: int,
    on_step: OnStep,
) -> ImageDecoder:  # fmt: skip
    """Train a decoder by the squared error of its pixels.

    Args:
        vectors: (images, numbers) What passes the cut.
        images: (images, channels, height, width) From 0 to 1.
        width: Of its hidden layer.
        steps: Training steps; the learning rate falls as a cosine.
        batch: Images of a step.
        seed: Of weights and batches.
        on_step: Called after each step.
    """
    torch.manual_seed(seed)
    decoder = ImageDecoder(vectors, images, width)
    optimizer = Adam(decoder.parameters(), lr=1e-3, fused=True)
    draws = torch.Generator().manual_seed(seed)
    for step in range(steps):
        rows = torch.randint(len(images), (batch,), generator=draws)
        loss = F.mse_loss(decoder(vectors[rows]), images[rows])
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * (1 + math.cos(math.pi * step / steps)) / 2
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        on_step(float(loss.detach()), batch)
    return decoder.eval()


@torch.no_grad()
def rebuilding_error(decoder: ImageDecoder, vectors: Tensor, images: Tensor) -> float:
    """The squared error of rebuilt images, in percent of that of their mean image.

    100: no better than the same grey ghost for all.
    """
    spread = (images - images.mean(0)).pow(2).mean().clamp(min=1e-12)
    return 100 * float((decoder(vectors) - images).pow(2).mean() / spread)
