"""Convolutions and batch norm over the pixels of images, for stems and CNNs."""

from __future__ import annotations

from typing import Self

from torch import nn


class Convolution2d(nn.Conv2d):
    """`nn.Conv2d` of a square kernel, padded so that stride 1 keeps height and width.

    Args:
        before: Channels of the input.
        after: Channels of the output.
        kernel: Side of the kernel.
        stride: Step between the positions of the kernel, in both directions.
        bias: Whether it has a bias.
        padded: Whether to pad with zeros on all sides; otherwise the kernel stays inside.
        output_cells: Number of cells of the output, for images of the model's size: what it costs.
    """

    def __init__(
        self,
        before: int,
        after: int,
        kernel: int,
        *,
        stride: int = 1,
        bias: bool = False,
        padded: bool = True,
        output_cells: int = 0,
    ) -> None:
        padding = kernel // 2 if padded else 0
        super().__init__(before, after, kernel, stride=stride, padding=padding, bias=bias)
        self.output_cells = output_cells


class BatchNorm(nn.BatchNorm2d):
    """`nn.BatchNorm2d` that can be frozen: then it keeps its statistics, in training too."""

    frozen: bool = False

    def train(self, mode: bool = True) -> Self:
        """Sets training mode; a frozen norm stays in evaluation mode."""
        return super().train(mode and not self.frozen)

    def freeze(self) -> None:
        """Normalises by the stored mean and variance from now on."""
        self.frozen = True
        self.eval()
