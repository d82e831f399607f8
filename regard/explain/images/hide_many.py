"""Maps of attention over many images, each tested by hiding patches.

Input: a classifier of images, batches of images, and which map is meant. Output: a `HidingReport`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.draw.labels import Weights
from regard.errors import InputError
from regard.explain.images.hiding import (
    HiddenPatches,
    Hiding,
    HidingReport,
    hidden_images,
    hidden_result,
)
from regard.explain.images.patches import over_patches, row_over_tokens
from regard.explain.maps import AttentionMap
from regard.explain.names import in_words
from regard.inputs.arrays import Dense
from regard.layers import Layout, Tap
from regard.layers.tap.tap import split_head
from regard.models.image_encoder import ImageEncoder
from regard.models.mode import evaluating
from regard.tasks.encoder_task import TOKENS_AT_ONCE
from regard.tasks.head_batches import over_all_tokens
from regard.tasks.picture_traces import classifier, image_grid


@dataclass(frozen=True)
class ImageMap:
    """Which map of attention over an image: of one layer and head, or rolled out through all.

    Attributes:
        layers: The sites of the layers, such as `encoder.3.self`; one, or all for a rollout.
        head: One head of the layer; None: the mean over heads.
        through: Whether it is a rollout.
    """

    layers: tuple[str, ...]
    head: int | None = None
    through: bool = False

    @classmethod
    def of(cls, model: Any, kind: str, layer: int | None, head: int | None) -> ImageMap:
        """The map of a kind, `picture` or `rollout`; by default that of the last layer.

        Raises:
            InputError: For another kind, or a layer or head that the model does not have.
        """
        if kind not in ("picture", "rollout"):
            raise InputError("--kind", got=kind, expected="picture or rollout")
        sites = [site.removesuffix(".weights") for site in model.sites() if ".weights" in site]
        if kind == "rollout":
            if layer is not None or head is not None:
                raise InputError("--kind rollout", got="--layer or --head", expected="neither")
            return cls(tuple(sites), through=True)
        layer = len(sites) - 1 if layer is None else layer
        if not 0 <= layer < len(sites):
            raise InputError("--layer", got=layer, expected=f"0 to {len(sites) - 1}")
        heads = model.sites()[f"{sites[layer]}.weights"]
        if head is not None and not 0 <= head < heads:
            raise InputError("--head", got=head, expected=f"0 to {heads - 1}")
        return cls((sites[layer],), head)

    def __str__(self) -> str:
        """The map in words."""
        if self.through:
            return "attention rollout"
        heads = "mean over heads" if self.head is None else f"head {self.head}"
        return in_words(self.layers[0], heads)


def hide_in_all(
    model: ImageEncoder,
    sources: Iterable[Dense],
    which: ImageMap,
    hiding: Hiding,
    knock_out: Collection[str] = (),
    progress: Callable[[int], None] | None = None,
) -> HidingReport:
    """Test the map of each image by hiding patches.

    Args:
        model: The classifier, without the heads that are knocked out.
        sources: Batches of images.
        which: The map that is tested.
        hiding: How patches are hidden.
        knock_out: The heads that are knocked out; their weights do not count.
        progress: Called with the number of images done so far.
    """
    silenced_heads = [split_head(head) for head in knock_out]
    tests: list[HiddenPatches] = []
    for source in sources:
        layers, layouts = _layer_weights(model, source, which, silenced_heads)
        picture = image_grid(model, source, np.zeros((1, 1, 1), dtype=np.float32), layouts=layouts)
        if len({layer.shape for layer in layers}) > 1 and not picture.merged:
            got, expected = "layers over different grids", "one layer: --kind picture"
            raise InputError("--kind rollout", got=got, expected=expected)
        for indices in _image_batches(len(source), (3 + hiding.draws) * model.config.max_length):
            maps: list[Weights] = []
            images: list[Tensor] = []
            for index in indices:
                rows = [layer[index] for layer in layers]
                row = row_over_tokens(
                    picture, rows, picture.class_row, through=which.through, sites=which.layers
                )
                maps.append(over_patches(picture.at(which.layers[0]), row))
                number = len(tests) + len(images)
                images.append(hidden_images(source.values[index], maps[-1], hiding, number))
            shares = classifier(model, source).shares(torch.cat(images))  # (images, classes)
            parts = shares.view(len(maps), -1, shares.shape[1])  # (images, choices, classes)
            for part, weights in zip(parts, maps, strict=True):
                tests.append(hidden_result(part, weights, hiding, model.config.head.classes))
            if progress is not None:
                progress(len(tests))
    if not tests:
        raise InputError("images", got="none", expected="some to test")
    return HidingReport(str(which), hiding, tuple(tests))


def _image_batches(count: int, tokens: int) -> Iterator[range]:
    """The numbers of `count` images, as many at once as have about `TOKENS_AT_ONCE` tokens.

    Args:
        count: The number of images.
        tokens: The number of tokens that each of them takes.
    """
    size = max(1, TOKENS_AT_ONCE // tokens)
    return (range(first, min(count, first + size)) for first in range(0, count, size))


def _layer_weights(
    model: ImageEncoder, source: Dense, which: ImageMap, silenced_heads: list[tuple[str, int]]
) -> tuple[list[Weights], dict[str, Layout]]:
    """The weights of each layer of a map, (images, tokens, tokens), and the layers' layouts."""
    tap = Tap(*(f"{site}.weights" for site in which.layers))
    with evaluating(model):
        model.hidden(source.to(model.device), tap)
    layers = []
    for site in which.layers:
        weights = tap.records[f"{site}.weights"]  # (images, heads, query, key)
        array = over_all_tokens(model, tap.layouts[site], site, weights).cpu().double().numpy()
        silenced = [head for layer, head in silenced_heads if layer == site]
        names = ("",) * array.shape[2]
        maps = [AttentionMap(site, weights, names, names) for weights in array]
        layers.append(np.stack([m.matrix(which.head, silenced) for m in maps]))
    return layers, tap.layouts
