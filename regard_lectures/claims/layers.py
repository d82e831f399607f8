"""The layers of a model of images, as maps over the image; and the small models of the claims.

A CNN's layer is a map of its cells, and so is a Vision Transformer's: the vectors of its patches,
without the tokens before them. Both are (images, channels, rows, columns), and gradients flow back
from them to the pixels.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard import load
from regard.data import LabelledImages, make_scene
from regard.errors import InputError
from regard.inputs import Dense
from regard.layers import Edit, Tap
from regard.models import CNNConfig, ViTConfig, build
from regard_lectures.claims.classifiers import labelled, read_splits

_logger = logging.getLogger("regard.lectures")

SHIPPED = ("small/caption", "small/fashion")
"""A ResNet and a Vision Transformer with a convolutional stem, for images of a person's own."""
SCENES = 8
"""How many scenes are drawn for a model without images."""


@dataclass(frozen=True)
class Reach:
    """How far a cell of a CNN's layer sees, by arithmetic.

    Attributes:
        side: The side of its receptive field in pixels.
        stride: The distance between the fields of two neighbouring cells.
        start: Where the field of the first cell begins; negative if the layers are padded.
    """

    side: int = 1
    stride: int = 1
    start: int = 0

    def then(self, kernel: int, stride: int, padding: int) -> Reach:
        """The reach after a further convolution or pooling.

            side' = side + (kernel - 1) · stride        stride' = stride · step of the kernel

        Example:
            >>> Reach().then(3, 1, 0).then(2, 2, 0)
            Reach(side=4, stride=2, start=0)
        """
        return Reach(
            self.side + (kernel - 1) * self.stride,
            self.stride * stride,
            self.start - padding * self.stride,
        )

    def span(self, cell: int, size: int) -> tuple[int, int]:
        """First pixel and end of a cell's field, cut at the border of an image of this size."""
        first = self.start + cell * self.stride
        return max(0, first), min(size, first + self.side)


def is_convolutional(model: Any) -> bool:
    """Whether a model of images is a CNN."""
    return not hasattr(model.embed, "patch")


def feature_maps(model: Any, pixels: Tensor) -> dict[str, Tensor]:
    """The maps of all layers, by name.

    Args:
        model: A CNN, a ResNet or a Vision Transformer, with or without a decoder of text.
        pixels: (images, channels, height, width) As its reader gives them.

    Returns:
        (images, channels, rows, columns) of each layer, in order.
    """
    source = Dense(pixels)
    if is_convolutional(model):
        return dict(_walk(model, source))
    layout = model.embed.layout(source)
    rows, columns = layout.grid
    maps: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[Tensor], Tensor]:
        def keep_maps(x: Tensor) -> Tensor:  # (images, tokens, dim)
            cells = x[:, model.embed.tokens_before :]  # (images, rows · columns, dim)
            maps[name] = cells.transpose(1, 2).reshape(len(x), -1, rows, columns)
            return x

        return keep_maps

    front = "stem" if hasattr(model.embed, "stem") else "patches"
    names = {"encoder.embedding": front}
    names |= {f"encoder.{n}.residual": f"layer {n + 1}" for n in range(len(model.encoder.blocks))}
    tap = Tap(edits=[Edit(site, keep(name)) for site, name in names.items()])
    model.encoder.read(model.embed, source, tap)
    return maps


def _walk(model: Any, source: Dense) -> Iterator[tuple[str, Tensor]]:
    """The layers of a CNN one after another; a unit of a ResNet counts as a layer."""
    x = model.embed.maps(source)
    if model.embed.stem is not None:
        yield "stem", x
    for number, (block, _) in enumerate(_blocks(model)):
        x = block(x)
        yield f"layer {number + 1}", x if x.dim() == 4 else x[:, :, None, None]


def _blocks(model: Any) -> list[tuple[Any, list[tuple[int, int, int]] | None]]:
    """The layers of a CNN with kernel, stride and padding of what they do; None: a dense layer."""
    blocks: list[tuple[Any, list[tuple[int, int, int]] | None]] = []
    for stage in model.encoder.blocks:
        units: Any = stage if isinstance(stage, torch.nn.Sequential) else [stage]
        for block in units:
            if hasattr(block, "parts"):
                blocks.append((block, [_window(part.convolution) for part in block.parts]))
            elif hasattr(block, "convolution"):  # followed by max-pooling by 2
                blocks.append((block, [_window(block.convolution), (2, 2, 0)]))
            else:
                blocks.append((block, None))
    return blocks


def _window(convolution: Any) -> tuple[int, int, int]:
    return convolution.kernel_size[0], convolution.stride[0], convolution.padding[0]


def reaches(model: Any) -> dict[str, Reach]:
    """The receptive fields of a CNN's layers by the formula; nothing for other models.

    A dense layer sees the whole image and has no entry.
    """
    if not is_convolutional(model):
        return {}
    reach, named = Reach(), {}
    if model.embed.stem is not None:
        reach = reach.then(*_window(model.embed.stem.first.convolution)).then(3, 2, 1)
        named["stem"] = reach
    for number, (_, windows) in enumerate(_blocks(model)):
        if windows is None:
            break
        for window in windows:
            reach = reach.then(*window)
        named[f"layer {number + 1}"] = reach
    return named


def untrained(model: Any, seed: int) -> Any:
    """A model of the same encoder with weights drawn at random."""
    torch.manual_seed(seed)
    config = model.config
    vocabulary = [model.target_vocab] if hasattr(model, "target_vocab") else []
    return build(config, *vocabulary).eval()


def as_input(values: NDArray[Any]) -> Tensor:
    """Bytes, or floats from 0 to 1, as `train_classifier` reads them: from -1 to 1."""
    pixels = torch.from_numpy(np.ascontiguousarray(values)).float()
    pixels = pixels / 255 if values.dtype == np.uint8 else pixels
    return 2 * pixels - 1


def cnn_config(channels: int, side: int, kernel: int = 3) -> CNNConfig:
    """Three convolutions, each with ReLU and max-pooling by 2; no padding, no dense layers."""
    return CNNConfig.model_validate({
        "image": (side, side), "channels": channels, "filters": (16, 32, 64),
        "filter_side": kernel, "dense": (),
    })  # fmt: skip


def vit_config(channels: int, side: int, *, stem: bool = False) -> ViTConfig:
    """Three blocks on patches of 4 x 4; the classes are read from the mean of the patches."""
    return ViTConfig.model_validate({
        "image": (side, side), "channels": channels, "patch": 4, "dim": 48, "heads": 4,
        "hidden": 96, "layers": 3, "pool": "mean", "class_token": False,
        "stem": "convolution" if stem else "patches", "stem_width": 16,
    })  # fmt: skip


@dataclass(frozen=True)
class Pictures:
    """Labelled images in two parts, and their name."""

    train: LabelledImages
    unseen: LabelledImages
    name: str


def read_pictures(data: str, *, train: int, unseen: int, side: int, seed: int) -> Pictures:
    """Images with classes: some to train on, others to measure on.

    Args:
        data: As in `read_splits`.
        train: How many to train on, at most.
        unseen: How many others, at most a quarter of all.
        side: Smaller images are put into the middle of a square of this side, whose border repeats
            their edge.
        seed: Of the order of the images.
    """
    splits, name = read_splits(data, held_out=1, most=train + unseen, seed=seed)
    count = len(splits.train)
    order = np.random.default_rng(seed).permutation(count).tolist()
    unseen = max(1, min(unseen, count // 4))
    parts = splits.train.take(order[unseen : unseen + train]), splits.train.take(order[:unseen])
    framed = [labelled(framed_in(np.asarray(part.values[:]), side), part.labels) for part in parts]
    return Pictures(framed[0], framed[1], name)


def framed_in(values: NDArray[Any], side: int, right: int = 0) -> NDArray[Any]:
    """Images in the middle of a square, or so many pixels to the right of it.

    Args:
        values: (images, channels, height, width).
        side: The side of the square. The border repeats the edge.
        right: By how much they are shifted; negative: to the left.
    """
    height, width = values.shape[2:]
    top, left = (side - height) // 2, (side - width) // 2 + right
    borders = ((0, 0), (0, 0), (top, side - height - top), (left, side - width - left))
    return np.pad(values, borders, mode="edge")


@dataclass(frozen=True)
class Viewer:
    """A loaded model of images, and the images that it is shown."""

    name: str
    model: Any
    pixels: Tensor
    """(images, channels, height, width) As the model's reader gives them."""
    pictures: NDArray[np.float32]
    """The same from 0 to 1."""
    pipeline: Any


def viewers(model: str, text: str | None, scenes: int = SCENES) -> list[Viewer]:
    """A person's model, or those that ship, with their images, or drawn scenes.

    Args:
        model: Its name or folder; empty: a ResNet and a Vision Transformer that ship.
        text: The path of an image or of a folder of images; None: drawn scenes.
        scenes: How many scenes are drawn.

    Raises:
        InputError: If the model does not read images, or there is no such image.
    """
    return [_viewer(name, text, scenes) for name in ((model,) if model else SHIPPED)]


def _viewer(name: str, text: str | None, scenes: int) -> Viewer:
    pipeline = load(name, device="cpu")
    model: Any = pipeline.model.eval()
    if not pipeline.reads_images or not hasattr(model.encoder, "blocks"):
        fix = f"{' and '.join(SHIPPED)} are included"
        raise InputError("model", got=name, expected="a CNN or a ViT that reads images", fix=fix)
    for parameter in model.parameters():
        parameter.requires_grad = False
    reader = pipeline.processor.source
    items: Sequence[Any]
    if text is None:
        items = [make_scene(0, 2, number, most=2).draw(reader.height) for number in range(scenes)]
    else:
        items = reader.files_in([text], _logger.warning)
    pictures = np.stack([image.values for image in reader.read(items)])
    return Viewer(name, model, reader.normalised(torch.from_numpy(pictures)), pictures, pipeline)
