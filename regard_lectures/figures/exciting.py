"""Figure of part 2: what excites channels of an early and of a late layer of a network.

For a channel: the patches of images to which it answers most, each from another image, as large as
the channel's receptive field; and an input that gradients grow for it (activation maximisation,
Erhan et al. 2009): from noise x, in each step

    x ← blur(x + rate · g / rms(g)),    g = ∂ f(jitter(x)) / ∂x,    f the channel's centre cell

with x cut to 0 … 1. Where the noise does not excite the cell at all there is no gradient: x is then
at first the image that excites the channel most, moved so that it does so in the centre. How alike
the patches of a channel are is the mean correlation of their pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard_lectures.claims.layers import Reach, Viewer, feature_maps, reaches, viewers
from regard_lectures.limits import model_line

MODEL = "small/caption"
"""The ResNet whose channels are shown if no model is named."""
SCENES = 120
"""How many scenes are drawn if there are no images of one's own."""
MOST_IMAGES = 500
TOP = 4
"""Patches of a channel."""
CHANNELS = 4
"""Channels that are drawn of each layer."""
COMPARED = 24
"""Channels of a layer whose patches are compared, at most."""
NOISE, RATE, JITTER, BLUR, BLUR_EVERY = 0.2, 0.03, 2, 0.7, 4
"""Of growing an input: deviation of the noise at first, step, pixels that it is moved at random,
the blur's width, and every how many steps it is blurred."""
MARGIN = 0.1
"""Correlations that differ by less are as large as each other."""


@dataclass(frozen=True)
class Layer:
    """A layer, where its channels are excited most, and what it sees.

    Attributes:
        name: The name of the layer.
        reach: Its receptive field; None: the whole image.
        peaks: (images, channels) The largest answer in each image.
        cells: (images, channels, 2) Row and column of that cell.
        grid: Rows and columns of the maps.
    """

    name: str
    reach: Reach | None
    peaks: Tensor
    cells: Tensor
    grid: tuple[int, int]

    def best_images(self, channel: int) -> list[int]:
        """The images that excite a channel most."""
        return list(self.peaks[:, channel].argsort(descending=True)[:TOP].tolist())


def find_peaks(name: str, maps: Tensor, reach: Reach | None) -> Layer:
    """Where each channel answers most in each image: maps (images, channels, rows, columns)."""
    peaks, at = maps.flatten(2).max(-1)
    columns = maps.shape[3]
    cells = torch.stack((at // columns, at % columns), -1)
    return Layer(name, reach, peaks, cells, (maps.shape[2], columns))


def field_of(picture: Tensor, reach: Reach | None, cell: tuple[int, int]) -> Tensor:
    """What a cell sees of a picture (channels, height, width).

    A field beyond the border is filled by repeating the edge; one that is larger than the picture
    is the picture.
    """
    height, width = picture.shape[1:]
    if reach is None or reach.side >= min(height, width):
        return picture
    border = reach.side
    padded = F.pad(picture[None], (border,) * 4, mode="replicate")[0]
    top, left = (reach.start + at * reach.stride + border for at in cell)
    top = min(max(top, 0), padded.shape[1] - border)
    left = min(max(left, 0), padded.shape[2] - border)
    return padded[:, top : top + border, left : left + border]


def likeness(patches: list[Tensor]) -> float:
    """The mean correlation of the pixels of all pairs of patches; of an even patch it is 0.

    Example:
        >>> round(likeness([torch.tensor([0.0, 1.0]), torch.tensor([2.0, 4.0])]), 3)
        1.0
    """
    centred = [(patch - patch.mean()).flatten().double() for patch in patches]
    pairs = [
        float(one_patch @ other / (one_patch.norm() * other.norm()).clamp(min=1e-9))
        for one_patch, other in combinations(centred, 2)
    ]
    return float(np.mean(pairs))


def blurred(pixels: Tensor) -> Tensor:
    """Images (images, channels, height, width) through a Gaussian of 3 x 3."""
    side = math.exp(-1 / (2 * BLUR**2))
    line = torch.tensor([side, 1.0, side]) / (1 + 2 * side)
    kernel = (line[:, None] * line).expand(pixels.shape[1], 1, 3, 3)
    return F.conv2d(F.pad(pixels, (1,) * 4, mode="replicate"), kernel, groups=pixels.shape[1])


def grow(
    viewer: Viewer, layers: dict[str, Layer], wanted: list[tuple[str, int]], steps: int, seed: int
) -> tuple[Tensor, list[float]]:
    """Grow an input for each channel by gradients.

    Args:
        viewer: The model, and its images.
        layers: The layers by name.
        wanted: The layer and the number of each channel.
        steps: Steps of ascent.
        seed: Of the noise and of the jitter.

    Returns:
        (channels, colours, height, width) from 0 to 1, and the channel's centre cell for it.
    """
    torch.manual_seed(seed)
    reader: Any = viewer.pipeline.processor.source
    shape = viewer.pictures.shape[1:]
    x = (0.5 + NOISE * torch.randn(len(wanted), *shape)).clamp(0, 1)

    def answers(pixels: Tensor) -> Tensor:
        maps = feature_maps(viewer.model, reader.normalised(pixels))
        cells = [
            maps[name][row, channel, maps[name].shape[2] // 2, maps[name].shape[3] // 2]
            for row, (name, channel) in enumerate(wanted)
        ]
        return torch.stack(cells)

    def gradient_at(pixels: Tensor, moves: tuple[int, int]) -> Tensor:
        pixels = pixels.detach().requires_grad_()
        moved = torch.roll(pixels, moves, (2, 3))
        (gradient,) = torch.autograd.grad(answers(moved).sum(), pixels)
        return gradient

    silent = gradient_at(x, (0, 0)).abs().amax((1, 2, 3)) == 0  # behind a ReLU
    for row in silent.nonzero().flatten().tolist():
        name, channel = wanted[row]
        x[row] = _centred_best(viewer, layers[name], channel)
    for step in range(steps):
        down, right = torch.randint(-JITTER, JITTER + 1, (2,)).tolist()
        gradient = gradient_at(x, (down, right) if step < steps - JITTER else (0, 0))
        size = gradient.pow(2).mean((1, 2, 3), keepdim=True).sqrt()
        x = x + RATE * gradient / (size + 1e-12)
        if step % BLUR_EVERY == 0 and step < 0.8 * steps:
            x = blurred(x)
        x = x.clamp(0, 1)
    with torch.no_grad():
        return x, answers(x).tolist()


def _centred_best(viewer: Viewer, layer: Layer, channel: int) -> Tensor:
    """The image that excites a channel most, moved so that its cell is in the centre."""
    image = layer.best_images(channel)[0]
    picture = torch.from_numpy(viewer.pictures[image])
    sizes = zip(layer.grid, layer.cells[image, channel].tolist(), picture.shape[1:], strict=True)
    moves = [round((cells // 2 - cell) * size / cells) for cells, cell, size in sizes]
    return torch.roll(picture, tuple(moves), (1, 2))


def choose_channels(layer: Layer) -> list[int]:
    """The channels whose best images stand out most from the others; dead ones last."""
    peaks = layer.peaks
    best = peaks.sort(0, descending=True).values[:TOP].mean(0)
    spread = peaks.std(0).clamp(min=1e-9)
    selective = (best - peaks.mean(0)) / spread
    selective[peaks.std(0) < 1e-6] = -1.0
    return list(selective.argsort(descending=True)[:COMPARED].tolist())


def _layer_numbers(viewer: Viewer, layer: Layer, seed: int) -> dict[str, Any]:
    """How alike the patches of a layer's channels are, beside patches drawn at random."""
    pictures = torch.from_numpy(viewer.pictures)
    draws = np.random.default_rng(seed)
    chosen = choose_channels(layer)
    alike, random = [], []
    for channel in chosen:
        images = layer.best_images(channel)
        cells = [tuple(layer.cells[image, channel].tolist()) for image in images]
        alike.append(
            likeness(
                [field_of(pictures[i], layer.reach, c) for i, c in zip(images, cells, strict=True)]
            )
        )
        images = draws.choice(len(pictures), TOP, replace=False).tolist()
        cells = [tuple(draws.integers(0, layer.grid).tolist()) for _ in images]
        random.append(
            likeness(
                [field_of(pictures[i], layer.reach, c) for i, c in zip(images, cells, strict=True)]
            )
        )
    side = layer.reach.side if layer.reach else None
    return {
        "layer": layer.name, "channels": chosen[:CHANNELS], "compared": len(chosen), "field": side,
        "alike": float(np.mean(alike)), "random": float(np.mean(random)),
    }  # fmt: skip


def front_reach(model: Any) -> Reach:
    """What a cell of a Vision Transformer sees before its first layer: a patch, or more."""
    stem = getattr(model.embed, "stem", None)
    if stem is None:
        return Reach().then(model.embed.patch, model.embed.patch, 0)
    reach = Reach()
    for convolution in stem.convolutions:
        side = convolution.kernel_size[0]
        reach = reach.then(side, convolution.stride[0], convolution.padding[0])
        reach = reach.then(3, 2, 1) if stem.halve else reach  # max-pooling
    return reach


def _layers(viewer: Viewer, number: int) -> list[Layer]:
    """The first layer and the one that is asked for.

    Raises:
        InputError: If the model has no such layer.
    """
    with torch.no_grad():
        parts = [feature_maps(viewer.model, batch) for batch in torch.split(viewer.pixels, 100)]
    names = list(parts[0])
    later = f"layer {number}" if number else names[-1]
    if later not in names[1:]:
        listed = ", ".join(name.removeprefix("layer ") for name in names[1:])
        raise InputError("layer", got=number, expected=f"one of {listed}; 0: the last")
    fields = reaches(viewer.model) or {names[0]: front_reach(viewer.model)}
    return [
        find_peaks(name, torch.cat([part[name] for part in parts]), fields.get(name))
        for name in (names[0], later)
    ]


def words_exciting(numbers: Numbers) -> Words:
    """How alike the patches are in both layers, and how the grown inputs compare with images."""
    first, last = numbers["layers"]
    early, late = (layer["alike"] - layer["random"] for layer in (first, last))
    if early > late + MARGIN:
        told = "are alike" if early > MARGIN else "are hardly alike"
        told += f" ({early:+.2f}), in {last['layer']} less so ({late:+.2f})"
    elif late > early + MARGIN:
        told = f"are less alike ({early:+.2f}) than in {last['layer']} ({late:+.2f})"
    else:
        told = f"are as alike as in {last['layer']} ({early:+.2f} and {late:+.2f})"
    title = f"{numbers['model']}: patches that excite {_front(first['layer'])} {told}"
    beaten = sum(
        grown > peak for grown, peak in zip(numbers["grown"], numbers["peaks"], strict=True)
    )
    count = len(numbers["grown"])
    more = {count: "all of them", 0: "none of them"}.get(beaten, f"{beaten} of {count}")
    caption = (
        f"Each row is a channel: the patches of {numbers['images']} images that it answers to "
        f"most, and an input that gradients grew for it; {more} excite the channel more than any "
        f"image does. How alike: correlation over that of patches drawn at random, "
        f"{first['random']:.2f} and {last['random']:.2f}."
    )
    return Words(title, caption)


def _front(name: str) -> str:
    """The name of the first layer in a sentence."""
    return name if name.startswith("layer") else f"the {name}"


def exciting(text: str | None, model: str, layer: int, steps: int, seed: int) -> Drawing:
    """Draw the patches and the grown inputs of some channels of two layers."""
    viewer = viewers(model or MODEL, text, SCENES)[0]
    if len(viewer.pixels) < TOP:
        got = f"{len(viewer.pixels)} image{'s'[: len(viewer.pixels) > 1]}"
        raise InputError("--text", got=got, expected=f"a folder of {TOP} images or more")
    layers = _layers(viewer, layer)
    told = [_layer_numbers(viewer, part, seed) for part in layers]
    wanted = [(part["layer"], channel) for part in told for channel in part["channels"]]
    by_name = {part.name: part for part in layers}
    grown, answers = grow(viewer, by_name, wanted, steps, seed)
    numbers: Numbers = {
        "model": viewer.name, "images": len(viewer.pixels), "layers": told, "steps": steps,
        "grown": answers,
        "peaks": [float(by_name[name].peaks[:, channel].max()) for name, channel in wanted],
    }  # fmt: skip
    source = "drawn scenes" if text is None else "own images"
    details = (
        f"{len(viewer.pixels)} {source}; of each channel the {TOP} images with the largest answer, "
        "cut to the receptive field of that cell (the border repeated), or whole if the field is "
        f"larger. Shown are the {CHANNELS} channels whose best images stand out most; the "
        f"correlations are means over the {told[0]['compared']} and {told[1]['compared']} channels "
        f"that do. Grown: {steps} steps from noise, or from the best image where noise has no "
        f"gradient, moved at random by up to {JITTER} pixels, "
        f"blurred every {BLUR_EVERY} steps; seed {seed}."
    )
    with Board(
        words_exciting(numbers), (1, 1), details, limits=model_line(viewer.pipeline)
    ) as board:
        for panel, part in enumerate(layers):
            rows = grown[panel * CHANNELS :][: len(told[panel]["channels"])]
            _draw_layer(board, panel, viewer, part, told[panel], rows)
        return board.drawing(**numbers)


def _draw_layer(
    board: Board, panel: int, viewer: Viewer, layer: Layer, told: dict[str, Any], grown: Tensor
) -> None:
    """Draw a row for each channel: its patches, and the input that was grown."""
    left, top, width, height = board.panel_box(panel)
    side_of_image = min(viewer.pictures.shape[2:])
    is_whole = told["field"] is None or told["field"] >= side_of_image
    field = "sees the whole image" if is_whole else f"sees {told['field']} × {told['field']} pixels"
    start = board.heading(panel, f"{layer.name}: {field}")
    gap, line = 8.0, 32.0
    pitch = min((width - gap) / (TOP + 1.2), (top + height - start - line) / CHANNELS)
    last = left + (TOP + 0.2) * pitch
    board.sheet.text((left, start), "each row: a channel's patches")
    board.sheet.text((last + (pitch - gap) / 2, start), "grown", align="center top")
    pictures = torch.from_numpy(viewer.pictures)
    centre = (layer.grid[0] // 2, layer.grid[1] // 2)
    for row, channel in enumerate(told["channels"]):
        y = start + line + row * pitch
        for column, image in enumerate(layer.best_images(channel)):
            cell = tuple(layer.cells[image, channel].tolist())
            _draw_patch(board, field_of(pictures[image], layer.reach, cell),
                        (left + column * pitch, y), pitch - gap)  # fmt: skip
        _draw_patch(board, field_of(grown[row], layer.reach, centre), (last, y), pitch - gap)


def _draw_patch(board: Board, patch: Tensor, corner: tuple[float, float], side: float) -> None:
    """Draw pixels (channels, height, width) from 0 to 1 in a square."""
    axes = board.sheet.axes(*corner, side, side)
    pixels: NDArray[np.float32] = patch.permute(1, 2, 0).squeeze(-1).numpy()
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
