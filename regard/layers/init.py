"""Initial weights of a whole model, drawn from torch's current random state."""

from __future__ import annotations

from torch import nn

from regard.layers.convolution_2d import Convolution2d
from regard.layers.fronts.embed import Embed
from regard.layers.heads import VocabularyHead
from regard.layers.mixer import Mixer


def draw_glorot(model: nn.Module, dim: int) -> None:
    """Initializes every matrix Glorot-uniform, and every bias of a projection with zero.

    A vocabulary matrix (embedding or output) stays within ±1/√(2 dim). For a small vocabulary
    Glorot's bound is wider, and then the first logits are far from uniform (above all that of the
    token just read, if the matrix is tied), and the first loss is far from ln(vocab).
    """
    for module in model.modules():
        if isinstance(module, Mixer):
            for matrix in module.matrices():
                nn.init.xavier_uniform_(matrix)
        elif isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        elif isinstance(module, Embed | VocabularyHead):
            glorot = (6 / sum(module.weight.shape)) ** 0.5
            bound = min(glorot, (2 * dim) ** -0.5)
            nn.init.uniform_(module.weight, -bound, bound)


def draw_normal(model: nn.Module, layers: int, std: float = 0.02) -> None:
    """Initializes weights as GPT-2 and BERT do: N(0, 0.02²), and zero for every bias.

    The last matrix of each sub-layer, whose output is added to the residual stream, is divided by
    √(2 layers), so that the sum does not grow with the depth (GPT-2, section 2.3).
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Embed | VocabularyHead):
            nn.init.normal_(module.weight, std=std)
            if isinstance(module, Embed) and module.types is not None:
                nn.init.normal_(module.types, std=std)
    for module in model.modules():
        if isinstance(module, Mixer) and isinstance(out := getattr(module, "out", None), nn.Linear):
            nn.init.normal_(out.weight, std=std * (2 * layers) ** -0.5)


def draw_he(model: nn.Module) -> None:
    """Initializes every kernel of a convolution as ResNets do (He et al. 2015)."""
    for module in model.modules():
        if isinstance(module, Convolution2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
