"""Convolutional networks, as teachers and baselines: a small CNN, and ResNets.

Pixels (images, channels, height, width) -> feature maps -> a vector for each cell -> class logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from regard.inputs.arrays import Dense
from regard.kernels.linear import Linear
from regard.layers import Attention, Dropout, Layout, Mixer, Positions, Tap
from regard.layers.convolution_2d import BatchNorm, Convolution2d
from regard.layers.fronts.pixels import Pixels
from regard.layers.init import draw_he
from regard.models.encoder import BaseEncoder
from regard.models.families.cnn import CNNConfig
from regard.models.families.images import ConvolutionalConfig
from regard.models.families.resnet import ResNetConfig


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

    def attentions(self) -> list[Attention]:
        """None: there is no attention in these networks."""
        return []

    def mixers(self) -> list[Mixer]:
        """None: there are no sub-layers that mix tokens."""
        return []

    def sites(self) -> dict[str, int]:
        """The tap sites: the output of each stage, with as many tokens as it has cells."""
        return {f"{self.name}.{number}.residual": 0 for number in range(len(self.blocks))}

    def forward(self, x: Tensor, tap: Tap | None = None) -> Tensor:
        """(images, channels, height, width) -> the output of the last stage."""
        for number, block in enumerate(self.blocks):
            x = block(x)
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


class ConvolutionalEncoder(BaseEncoder):
    """A convolutional network with a classification head on the mean of its cells."""

    config: ConvolutionalConfig
    embed: Pixels
    encoder: FeatureMaps  # type: ignore[assignment]
    missing_head_advice = "train one with model.family=resnet; embed needs none"

    def hidden(self, source: Dense, tap: Tap | None = None) -> Tensor:
        """The vector of each cell of each image after the last stage: (cells, dim)."""
        if tap is not None:
            tap.begin(self.sites())
        self.embed.layout(source)  # refuses other sizes
        maps = self.encoder(self.embed.maps(source), tap)
        if maps.dim() == 2:
            return maps
        return maps.flatten(2).transpose(1, 2).flatten(0, 1)  # (images · cells, dim)

    def pooled(self, source: Dense, hidden: Tensor) -> Tensor:
        """The mean over the cells of each image: hidden (cells, dim) -> (images, dim)."""
        return hidden.view(len(source), -1, hidden.shape[-1]).mean(dim=1)

    def class_logits(self, source: Dense, tap: Tap | None = None) -> tuple[Tensor, Tensor]:
        """Logits for the classes, (images, classes), twice: the same learn from a teacher."""
        logits = self.classify(source, tap)
        return logits, logits

    def forward(self, source: Dense, tap: Tap | None = None) -> Tensor:
        """Logits of the classes of each image: (images, classes)."""
        return self.classify(source, tap)


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


class SmallCNN(ConvolutionalEncoder):
    """Convolutions with ReLU and max-pooling, then dense layers, in the shape of LeNet-5.

    Args:
        config: The settings of the model and the size of the images.

    Example:
        >>> import torch
        >>> cnn = SmallCNN(CNNConfig(classes=tuple("0123456789")))
        >>> sum(parameter.numel() for parameter in cnn.parameters())
        62006
        >>> cnn(Dense(torch.zeros(2, 3, 32, 32))).shape
        torch.Size([2, 10])
    """

    config: CNNConfig

    def __init__(self, config: CNNConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = Pixels(config.channels, config.image)
        stages: list[nn.Module] = []
        for (before, after), (height, width) in zip(
            pairwise((config.channels, *config.filters)), config.map_sizes, strict=True
        ):
            cells = 4 * height * width  # before pooling
            convolution = Convolution2d(
                before, after, config.kernel, bias=True, padded=False, output_cells=cells
            )
            stages.append(Pooled(convolution))
        height, width = config.map_sizes[-1]
        widths = (config.filters[-1] * height * width, *config.dense)
        stages += [HiddenLayer(*pair) for pair in pairwise(widths)]
        self.encoder = FeatureMaps(stages)
        self.dropout = Dropout(config.dropout)
        self.classes = Linear(config.dim, len(config.classes)) if config.classes else None


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
        config: The settings of the model.
        before: Channels of the input.
        after: Channels of the output.
        stride: By how much height and width are divided.
        cells: Number of cells of the input and of the output.
    """

    def __init__(
        self, config: ResNetConfig, before: int, after: int, stride: int, cells: tuple[int, int]
    ) -> None:
        super().__init__()
        input_cells, output_cells = cells
        if config.block == "basic":
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


class ResNetStem(nn.Module):
    """A convolution of 7 x 7 with stride 2, batch norm, ReLU, and max-pooling by 2."""

    def __init__(self, channels: int, width: int, cells: int) -> None:
        super().__init__()
        self.first = Normed(channels, width, 7, 2, cells=cells)

    def forward(self, x: Tensor) -> Tensor:
        """(images, channels, height, width) -> (images, width, height / 4, width / 4)."""
        return F.max_pool2d(self.first(x), 3, stride=2, padding=1)


class ResNet(ConvolutionalEncoder):
    """A residual network (He et al. 2016).

    Args:
        config: The settings of the model and the size of the images.

    Example:
        >>> from regard.models.meta_model import meta_model
        >>> classes = tuple(str(number) for number in range(1000))
        >>> big = meta_model(ResNetConfig(size="50", classes=classes))
        >>> sum(parameter.numel() for parameter in big.parameters())  # 25.6 million
        25557032
    """

    config: ResNetConfig

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.config = config
        half_sides = [(side + 1) // 2 for side in config.image]
        stem = ResNetStem(config.channels, config.stem_width, half_sides[0] * half_sides[1])
        stride = 4 * (2 if config.stride_first else 1) * 2 ** (len(config.depths) - 1)
        self.embed = Pixels(config.channels, config.image, stride, stem)
        areas = [height * width for height, width in config.map_sizes]
        widths = [config.stem_width, *config.filters]
        stages = []
        for number, (depth, stride) in enumerate(zip(config.depths, config.strides, strict=True)):
            before, after = widths[number : number + 2]
            cells = areas[number], areas[number + 1]  # before and after the first block
            blocks = [Residual(config, before, after, stride, cells)]
            cells = cells[1], cells[1]
            blocks += [Residual(config, after, after, 1, cells) for _ in range(depth - 1)]
            stages.append(nn.Sequential(*blocks))
        self.encoder = FeatureMaps(stages)
        self.dropout = Dropout(config.dropout)
        self.classes = Linear(config.dim, len(config.classes)) if config.classes else None
        draw_he(self)
