"""Encoders of images in stages, of which Swin and Swin-V2 are configs.

Pixels (images, channels, height, width) -> patches -> blocks within windows, and merges of patches
-> a vector for each cell of the last grid -> class logits or numbers.
"""

from __future__ import annotations

from torch import nn

from regard.layers.fronts.padded_patches import PaddedPatches
from regard.layers.init import draw_glorot
from regard.layers.stages import Stages
from regard.models.cell_encoder import CellEncoder
from regard.models.families.swin import SwinConfig


class StagedEncoder(CellEncoder):
    """Stages of blocks over the patches of an image, with a head on the mean of the last cells.

    Args:
        config: The settings of the model and the size of the images.

    Example:
        >>> import torch
        >>> from regard.inputs.arrays import Dense
        >>> from regard.models import SwinConfig
        >>> sizes = {"dim": 16, "heads": 2, "hidden": 32, "grid_window": 4, "patch": 2}
        >>> swin = StagedEncoder(SwinConfig(**sizes, image=(16, 16), classes=("cat", "dog")))
        >>> swin.hidden(Dense(torch.zeros(2, 3, 16, 16))).shape  # 2 x 4 x 4 cells, twice as wide
        torch.Size([32, 32])
        >>> swin(Dense(torch.zeros(1, 3, 17, 23))).shape  # images may have any size
        torch.Size([1, 2])
    """

    config: SwinConfig
    embed: PaddedPatches
    encoder: Stages  # type: ignore[assignment]
    missing_head_advice = "train one with model.family=swin; embed needs none"

    def __init__(self, config: SwinConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = PaddedPatches(config.encoder)
        self.encoder = Stages(config.encoder, "encoder")
        self.add_heads(config.head, config.encoder.widths[-1], config.encoder.dropout)
        draw_glorot(self, config.encoder.dim)

    def depths(self) -> list[list[nn.Module]]:
        """The modules by depth, as of all models; a merge is with the block that reads it."""
        below, *layers, top = super().depths()
        for merge, start in zip(self.encoder.merges, self.encoder.starts[1:], strict=False):
            layers[start].insert(0, merge)
        return [below, *layers, top]
