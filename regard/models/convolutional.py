"""Convolutional networks with a head for classes or numbers, as teachers and baselines.

Pixels (images, channels, height, width) -> feature maps -> a vector for each cell -> class logits
or numbers.
"""

from __future__ import annotations

from torch import Tensor

from regard.inputs.arrays import Dense
from regard.kernels.linear import Linear
from regard.layers import Dropout, Tap
from regard.layers.convnets import FeatureMaps, make_convolutions
from regard.layers.fronts.pixels import Pixels
from regard.layers.grid_config import ResidualConvolutions
from regard.layers.init import draw_he
from regard.models.encoder import BaseEncoder
from regard.models.families.images import ConvolutionalConfig
from regard.models.numbers_head import make_numbers_head


class ConvolutionalEncoder(BaseEncoder):
    """A convolutional network with a classification head on the mean of its cells."""

    config: ConvolutionalConfig
    embed: Pixels
    encoder: FeatureMaps  # type: ignore[assignment]
    missing_head_advice = "train one with model.family=resnet; embed needs none"

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.config = config
        self.embed, self.encoder = make_convolutions(config.encoder)
        self.dropout = Dropout(config.encoder.dropout)
        classes, dim = config.head.classes, config.encoder.dim
        self.classes = Linear(dim, len(classes)) if classes else None
        self.numbers = make_numbers_head(config.head, dim)

    def pooled(self, source: Dense, hidden: Tensor) -> Tensor:
        """The mean over the cells of each image: hidden (cells, dim) -> (images, dim)."""
        return hidden.view(len(source), -1, hidden.shape[-1]).mean(dim=1)

    def class_logits(self, source: Dense, tap: Tap | None = None) -> tuple[Tensor, Tensor]:
        """Logits for the classes, (images, classes), twice: the same learn from a teacher."""
        logits = self.classify(source, tap)
        return logits, logits

    def forward(self, source: Dense, tap: Tap | None = None) -> Tensor:
        """Logits of the classes of each image, (images, classes), or its numbers, standardised."""
        has_numbers_alone = self.classes is None and self.numbers is not None
        function = self.standardised_numbers if has_numbers_alone else self.classify
        return function(source, tap)


class SmallCNN(ConvolutionalEncoder):
    """Convolutions with ReLU and max-pooling, then dense layers, in the shape of LeNet-5.

    Args:
        config: The settings of the model and the size of the images.

    Example:
        >>> import torch
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
