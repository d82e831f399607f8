"""Fresh weights of a whole model, drawn in one go from torch's present random state."""

from __future__ import annotations

from torch import nn

from regard.layers.fronts.embed import Embed
from regard.layers.heads import VocabularyHead
from regard.layers.mixer import Mixer


def draw_glorot(model: nn.Module, dim: int) -> None:
    """Fresh weights: Glorot-uniform for every matrix, zero for every bias of a projection.

    A vocabulary's matrix is kept within ±1/√(2 dim). Glorot's bound is wider than that where
    entries are few, and then the first logits are far from even (that of the token just read
    above all, if the matrix is tied), and the first loss is far from ln(vocab).
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
    """Fresh weights as GPT-2 and BERT have them: N(0, 0.02²), zero for every bias.

    What adds to the residual stream, the last matrix of each sub-layer, is smaller by √(2 layers),
    so that the sum of all does not grow with the depth (GPT-2, section 2.3).
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
