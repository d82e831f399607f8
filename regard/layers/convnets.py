"""Convolutional networks: a small CNN, and ResNets, which may have attention between their stages.

Pixels (images, channels, height, width) -> feature maps -> a vector for each cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.inputs.arrays import Dense
from regard.kernels.linear import Linear
from regard.layers.attention import Attention
from regard.layers.context import Memory, make_context
from regard.layers.convolution_2d import BatchNorm, Convolution2d
from regard.layers.fronts.pixels import Pixels
from regard.layers.grid_config import (
    Convolutions,
    PlainConvolutions,
    ResidualConvolutions,
    StageAttention,
)
from regard.layers.init import draw_glorot
from regard.layers.layout import Layout
from regard.layers.mixer import Mixer
from regard.layers.norms import norm
from regard.layers.positions import Positions, position_scheme
from regard.layers.tap.tap import Tap


class FeatureMaps(nn.Module):
    """Modules applied to feature maps one after another; the counterpart of a stack of blocks.

    Args:
        stages: Each maps (images, channels, height, width) to such maps, or to (images, dim).
        name: The name in taps.
    """

    def __init__(self, stages: Sequence[nn.Module], name: str = "encoder") -> None:
        super().__init__()
        self.name = name
        self.blocks = nn.ModuleList(stages)
        self.positions, self.final_norm = Positions(), nn.Identity()

    def add_attention(self, config: ResidualConvolutions) -> None:
        """Puts attention after the stages of a residual network that the config names.

        To be called when all other weights of the model are drawn: from one seed, they are then
        those of the network without attention.
        """
        for stage in config.attention_stages:
            assert config.stage_attention is not None  # or there would be no such stage
            attention = StageSelfAttention(
                config.stage_attention,
                config.filters[stage],
                config.map_sizes[stage + 1],
                f"{self.name}.{stage}",
            )
            self.blocks[stage].add_module("self_attention", attention)

    def stage_attentions(self) -> list[StageSelfAttention]:
        """What follows the stages of a ResNet with attention, in order."""
        return [part for part in self.modules() if isinstance(part, StageSelfAttention)]

    def attentions(self) -> list[Attention]:
        """The attention layers between the stages of a ResNet; mostly none."""
        return [part.attention for part in self.stage_attentions()]

    def mixers(self) -> list[Mixer]:
        """The sub-layers that mix tokens: the attention layers."""
        return [*self.attentions()]

    def sites(self) -> dict[str, int]:
        """The tap sites: attention, and the output of each stage, a token for each of its cells."""
        layers = {layer.name: layer for layer in self.attentions()}
        sites: dict[str, int] = {}
        for number in range(len(self.blocks)):
            layer = layers.get(f"{self.name}.{number}.self")
            sites |= {} if layer is None else layer.sites()
            sites[f"{self.name}.{number}.residual"] = 0
        return sites

    def windows(self, layout: Layout, layer: int) -> None:
        """None: attention between stages sees all cells of an image."""
        del layout, layer

    def read(self, front: Pixels, source: Dense, tap: Tap | None = None) -> Memory:
        """The vector of each cell of each image after the last stage, with their layout."""
        layout = front.layout(source)  # refuses other sizes
        maps = self(front.maps(source), tap)
        if maps.dim() == 4:
            maps = maps.flatten(2).transpose(1, 2).flatten(0, 1)  # (images · cells, dim)
        return Memory(maps, layout)

    def forward(self, x: Tensor, tap: Tap | None = None) -> Tensor:
        """(images, channels, height, width) -> the output of the last stage."""
        for number, block in enumerate(self.blocks):
            x = block(x, tap) if isinstance(block, Stage) else block(x)
            if tap is not None:
                x = _visit_cells(tap, f"{self.name}.{number}.residual", x)
        return x


def _visit_cells(tap: Tap, site: str, x: Tensor) -> Tensor:
    """Lets a tap see or change feature maps as tokens (cells of all images, channels)."""
    maps = x if x.dim() == 4 else x[:, :, None, None]
    count, _, height, width = maps.shape
    tokens = maps.permute(0, 2, 3, 1).reshape(-1, maps.shape[1])
    layout = Layout((height * width,) * count, x.device, (height, width))
    changed = tap.visit_tokens(site, tokens, layout)
    if changed is tokens:  # the same memory layout as without a tap, and so the same bits
        return x
    return changed.view(count, height, width, -1).permute(0, 3, 1, 2).reshape(x.shape)


class Pooled(nn.Module):
    """max-pool(relu(convolution(x))), with half the height and width."""

    def __init__(self, convolution: Convolution2d) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, x: Tensor) -> Tensor:
        """(images, channels, height, width) -> maps of about half the height and width."""
        return F.max_pool2d(self.convolution(x).relu(), 2)


class HiddenLayer(nn.Module):
    """relu(W x + b); feature maps are flattened to vectors first."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.linear = Linear(before, after)

    def forward(self, x: Tensor) -> Tensor:
        """(images, channels, height, width) or (images, before) -> (images, after)."""
        return self.linear(x.flatten(1)).relu()


class Normed(nn.Module):
    """activation(norm(convolution(x))), with batch norm."""

    def __init__(
        self,
        before: int,
        after: int,
        kernel: int = 3,
        stride: int = 1,
        *,
        cells: int,
        activated: bool = True,
    ) -> None:
        super().__init__()
        self.convolution = Convolution2d(before, after, kernel, stride=stride, output_cells=cells)
        self.norm = BatchNorm(after)
        self.activated = activated

    def forward(self, x: Tensor) -> Tensor:
        """(images, before, height, width) -> (images, after, height / stride, width / stride)."""
        x = self.norm(self.convolution(x))
        return F.relu(x, inplace=True) if self.activated else x


class Residual(nn.Module):
    """relu(x + f(x)), with f of two or three convolutions; x is projected if its shape changes.

    Args:
        config: The settings of the network.
        before: Channels of the input.
        after: Channels of the output.
        stride: By how much height and width are divided.
        cells: Number of cells of the input and of the output.
    """

    def __init__(
        self,
        config: ResidualConvolutions,
        before: int,
        after: int,
        stride: int,
        cells: tuple[int, int],
    ) -> None:
        super().__init__()
        input_cells, output_cells = cells
        if config.unit == "basic":
            parts = [
                Normed(before, after, stride=stride, cells=output_cells),
                Normed(after, after, cells=output_cells, activated=False),
            ]
        else:
            inner = after // 4
            first_stride, second_stride = (stride, 1) if config.stride_in_first else (1, stride)
            inner_cells = output_cells if first_stride > 1 else input_cells
            parts = [
                Normed(before, inner, 1, first_stride, cells=inner_cells),
                Normed(inner, inner, stride=second_stride, cells=output_cells),
                Normed(inner, after, 1, cells=output_cells, activated=False),
            ]
        self.parts = nn.Sequential(*parts)
        same_shape = before == after and stride == 1
        self.shortcut: nn.Module | None = None
        if not same_shape:
            self.shortcut = Normed(before, after, 1, stride, cells=output_cells, activated=False)

    def forward(self, x: Tensor) -> Tensor:
        """(images, before, height, width) -> (images, after, height / stride, width / stride)."""
        short = x if self.shortcut is None else self.shortcut(x)
        return F.relu(self.parts(x) + short)


class Stage(nn.Sequential):
    """Residual units one after another, and then self-attention if there is any."""

    def forward(self, x: Tensor, tap: Tap | None = None) -> Tensor:
        """(images, before, height, width) -> (images, after, height / stride, width / stride)."""
        for part in self:
            x = part(x, tap) if isinstance(part, StageSelfAttention) else part(x)
        return x


class StageSelfAttention(nn.Module):
    """x + γ · attention(norm(x) + positions) over the cells of feature maps.

    γ is one learned number that begins at 0 (Zhang et al. 2019, SAGAN), so that the network begins
    as the one without attention.

    Args:
        config: The settings of the attention.
        width: Number of channels of the maps.
        grid: Rows and columns of the maps, for images of the network's own size.
        name: The stage's name, such as `encoder.1`; the attention is `encoder.1.self` in taps.
    """

    def __init__(
        self, config: StageAttention, width: int, grid: tuple[int, int], name: str
    ) -> None:
        super().__init__()
        self.cells = grid[0] * grid[1]
        self.norm = norm("layer", width)
        self.positions = position_scheme(
            config.positions.kind,
            dim=width,
            heads=config.heads,
            max_length=self.cells,
            causal=False,
            grid=grid,
        )
        self.attention = Attention(width, config.heads, f"{name}.self")
        draw_glorot(self.attention, width)
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, tap: Tap | None = None) -> Tensor:
        """(images, width, rows, columns) -> the same shape."""
        images, width, rows, columns = x.shape
        cells = x.permute(0, 2, 3, 1).reshape(-1, width)  # (images · rows · columns, width)
        layout = Layout((rows * columns,) * images, x.device, (rows, columns))
        ctx = make_context(layout, Positions(), causal=False, tap=tap)
        change = self.attention(self.positions.add_grid(self.norm(cells), layout), ctx)
        change = change.view(images, rows, columns, width).permute(0, 3, 1, 2)
        return x + self.gamma * change


class ResNetStem(nn.Module):
    """A convolution of 7 x 7 with stride 2, batch norm, ReLU, and max-pooling by 2."""

    def __init__(self, channels: int, width: int, cells: int) -> None:
        super().__init__()
        self.first = Normed(channels, width, 7, 2, cells=cells)

    def forward(self, x: Tensor) -> Tensor:
        """(images, channels, height, width) -> (images, width, height / 4, width / 4)."""
        return F.max_pool2d(self.first(x), 3, stride=2, padding=1)


def make_convolutions(config: Convolutions) -> tuple[Pixels, FeatureMaps]:
    """Builds the front and the layers of a convolutional network."""
    if isinstance(config, ResidualConvolutions):
        return _make_residual(config)
    assert isinstance(config, PlainConvolutions)
    return _make_plain(config)


def _make_plain(config: PlainConvolutions) -> tuple[Pixels, FeatureMaps]:
    """Builds convolutions with ReLU and max-pooling, then dense layers, in the shape of LeNet-5."""
    stages: list[nn.Module] = []
    for (before, after), (height, width) in zip(
        pairwise((config.channels, *config.filters)), config.map_sizes, strict=True
    ):
        cells = 4 * height * width  # before pooling
        convolution = Convolution2d(
            before, after, config.filter_side, bias=True, padded=False, output_cells=cells
        )
        stages.append(Pooled(convolution))
    height, width = config.map_sizes[-1]
    widths = (config.filters[-1] * height * width, *config.dense)
    stages += [HiddenLayer(*pair) for pair in pairwise(widths)]
    return Pixels(config.channels, config.image, grid=config.grid), FeatureMaps(stages)


def _make_residual(config: ResidualConvolutions) -> tuple[Pixels, FeatureMaps]:
    """Builds the stem and the stages of a residual network (He et al. 2016)."""
    half_sides = [(side + 1) // 2 for side in config.image]
    stem = ResNetStem(config.channels, config.stem_width, half_sides[0] * half_sides[1])
    stride = 4 * (2 if config.stride_first else 1) * 2 ** (len(config.depths) - 1)
    areas = [height * width for height, width in config.map_sizes]
    widths = [config.stem_width, *config.filters]
    stages = []
    for number, (depth, stage_stride) in enumerate(zip(config.depths, config.strides, strict=True)):
        before, after = widths[number : number + 2]
        cells = areas[number], areas[number + 1]  # before and after the first unit
        units = [Residual(config, before, after, stage_stride, cells)]
        cells = cells[1], cells[1]
        units += [Residual(config, after, after, 1, cells) for _ in range(depth - 1)]
        stages.append(Stage(*units))
    return Pixels(config.channels, config.image, stride, stem), FeatureMaps(stages)
