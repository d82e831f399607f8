"""Convolutional networks with a head for classes or numbers, as teachers and baselines.

Pixels (images, channels, height, width) -> feature maps -> a vector for each cell -> class logits
or numbers.
"""

from __future__ import annotations

from regard.layers.convnets import FeatureMaps, make_convolutions
from regard.layers.fronts.pixels import Pixels
from regard.layers.grid_config import ResidualConvolutions
from regard.layers.init import draw_he
from regard.models.cell_encoder import CellEncoder
from regard.models.families.images import ConvolutionalConfig


class ConvolutionalEncoder(CellEncoder):
    """A convolutional network with a classification head on the mean of its cells."""

    config: ConvolutionalConfig
    embed: Pixels
    encoder: FeatureMaps  # type: ignore[assignment]
    missing_head_advice = "train one with model.family=resnet; embed needs none"

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.config = config
        self.embed, self.encoder = make_convolutions(config.encoder)
        self.add_heads(config.head, config.encoder.dim, config.encoder.dropout)


class SmallCNN(ConvolutionalEncoder):
    """Convolutions with ReLU and max-pooling, then dense layers, in the shape of LeNet-5.

    Args:
        config: The settings of the model and the size of the images.

    Example:
        >>> import torch
        >>> from regard.inputs.arrays import Dense
        >>> from regard.models import CNNConfig
        >>> cnn = SmallCNN(CNNConfig(classes=tuple("0123456789")))
        >>> sum(parameter.numel() for parameter in cnn.parameters())
        62006
        >>> cnn(Dense(torch.zeros(2, 3, 32, 32))).shape
        torch.Size([2, 10])
    """


class ResNet(ConvolutionalEncoder):
    """A residual network (He et al. 2016), which may have attention between its stages.

    Args:
        config: The settings of the model and the size of the images.

    Example:
        >>> from regard.models import ResNetConfig
        >>> from regard.models.meta_model import meta_model
        >>> classes = tuple(str(number) for number in range(1000))
        >>> big = meta_model(ResNetConfig(size="50", classes=classes))
        >>> sum(parameter.numel() for parameter in big.parameters())  # 25.6 million
        25557032
    """

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__(config)
        draw_he(self)
        assert isinstance(config.encoder, ResidualConvolutions)
        self.encoder.add_attention(config.encoder)
