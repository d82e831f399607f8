"""A CNN and a Vision Transformer of about as many parameters, for the claims that compare them."""

from __future__ import annotations

from typing import Any

from regard.models import build
from regard_lectures.claims.layers import cnn_config, vit_config

CNN, VIT = "CNN", "ViT"
FILTERS = (24, 48, 96)
"""Channels of the CNN's convolutions: about as many parameters as the ViT's three blocks have."""
RATES = {CNN: 2e-3, VIT: 3e-3}
"""Learning rates at their peak, equal in all figures."""


def two_configs(channels: int, canvas: tuple[int, int]) -> dict[str, Any]:
    """The configs of a CNN without padding and of a ViT on patches of 4 x 4.

    Args:
        channels: 1 for grey images, 3 for images in colour.
        canvas: Their height and width; multiples of 4, of 24 or more.

    Example:
        >>> counts = parameters_of(two_configs(3, (24, 48)), ("a", "b"))
        >>> 0.8 < counts["CNN"] / counts["ViT"] < 1.25
        True
    """
    side = min(canvas)
    return {
        CNN: cnn_config(channels, side).changed(image=canvas, filters=FILTERS),
        VIT: vit_config(channels, side).changed(image=canvas, dropout=0.0),
    }


def parameters_of(configs: dict[str, Any], classes: tuple[str, ...]) -> dict[str, int]:
    """The number of parameters of each model with these classes."""
    models = {kind: build(config.changed(classes=classes)) for kind, config in configs.items()}
    return {
        kind: sum(parameter.numel() for parameter in model.parameters())
        for kind, model in models.items()
    }
