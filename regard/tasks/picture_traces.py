"""What a model of images computes from one image: its classes, its patches, its attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.inputs.arrays import Dense
from regard.layers import Edit, Layout, Tap
from regard.layers.stages import Stages
from regard.models.image_encoder import ImageEncoder
from regard.models.mode import evaluating
from regard.tasks.head_batches import over_all_tokens
from regard.tasks.trace import Classified, ImageGrid, Words, first_records


def classifier(model: ImageEncoder, source: Dense, edits: Sequence[Edit] = ()) -> Classified:
    """One image, and the model's classes of changed versions of it, computed with the same edits.

    Args:
        model: The classifier.
        source: (1, channels, height, width) The normalised image.
        edits: Changes of the model, such as heads that are removed.
    """

    def probabilities(images: Tensor) -> Tensor:
        with evaluating(model):
            inputs = Dense(images.to(model.device))
            return model.classify(inputs, Tap(edits=edits) if edits else None).softmax(1).cpu()

    return Classified(source.values[0].cpu(), model.config.head.classes, probabilities)


def image_grid(
    model: ImageEncoder,
    source: Dense,
    pixels: NDArray[np.float32],
    original: Callable[[], NDArray[np.uint8]] | None = None,
    layouts: Mapping[str, Layout] | None = None,
) -> ImageGrid:
    """The image that a model reads, with its grid of patches and which tokens they are.

    Args:
        model: The model.
        source: The normalised image.
        pixels: (channels, height, width) The same from 0 to 1.
        original: Opens the image as it was before it was cropped and scaled.
        layouts: The layouts of its attention layers that a tap has seen.
    """
    layout = model.embed.layout(source)
    assert layout.grid is not None  # the layout of an image
    first = getattr(model.config.head, "pool", "mean") == "first"
    pool: Literal["first", "mean"] = "first" if first else "mean"
    grids, merged = other_grids(layout, layouts or {}), isinstance(model.encoder, Stages)
    return ImageGrid(pixels, layout.grid, layout.prefix, pool, original, grids=grids, merged=merged)


def other_grids(layout: Layout, layouts: Mapping[str, Layout]) -> dict[str, tuple[int, int]]:
    """The grids of the encoder's layers that are not that of its output, by layer."""
    return {
        layer: other.grid
        for layer, other in layouts.items()
        if layer.startswith("encoder.") and other.grid not in (None, layout.grid)
    }


def cell_words(picture: ImageGrid) -> dict[str, tuple[Words, Words]]:
    """The names of an image's cells as queries and keys: in general, and by layer with others."""
    names = {"encoder.self": picture.names}
    names |= {layer: picture.at(layer).names for layer in picture.grids}
    return {
        kind: ((cells, range(len(cells))), (cells, range(len(cells))))
        for kind, cells in names.items()
    }


def dense_records(model: ImageEncoder, layout: Layout, tap: Tap) -> dict[str, Tensor]:
    """The recorded weights of the first image by site, over all its tokens: (heads, query, key).

    Weights within windows of an image are 0 at the tokens outside.
    """
    return {
        site: over_all_tokens(
            model, tap.layouts.get(site.rpartition(".")[0], layout), site, weights
        )
        for site, weights in first_records(tap).items()
    }
