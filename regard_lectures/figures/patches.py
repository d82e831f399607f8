"""Figures of parts 1 and 7: patches as tokens, other inputs as tokens, and what attention takes.

Each is computed by the layer that the models use (`regard.layers.cut_patches`), or by the formula
beside it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard import load
from regard.data import make_scene
from regard.draw import LINE_STYLES, ORANGE, Chart, signed_scale
from regard.errors import InputError
from regard.explain import Board, Drawing
from regard.inputs import ImageReader
from regard.layers import cut_patches

BYTES = 4
"""Of a number in 32 bits."""
UNITS = {"GB": 2**30, "MB": 2**20, "KB": 2**10}
"""Binary units, as the lectures have them."""
SCENE = 7
"""The number of the drawn scene: three shapes of different colours."""
Image = NDArray[np.float32]


def patches(text: str | None, patch: int, dim: int, model: str, seed: int) -> Drawing:
    """Draw an image, its patches in a row, and the vectors to which one matrix turns them.

    Args:
        text: The path of an image; None: a drawn scene.
        patch: The side of a patch in pixels, of images of 64 x 64.
        dim: The width of a token.
        model: A model of images, whose size, patches and matrix are used; empty: a random matrix.
        seed: Seed of the scene and of the random matrix.
    """
    torch.manual_seed(seed)
    pixels, patch, weight, bias, whose = _front(text, patch, dim, model, seed)
    chopped = cut_patches(torch.from_numpy(pixels)[None], patch)[0]  # (patches, channels · patch²)
    tokens = chopped @ weight.T + bias  # (patches, dim)
    rows, columns = pixels.shape[1] // patch, pixels.shape[2] // patch
    width = chopped.shape[1]
    caption = (
        f"{rows} × {columns} patches of {patch} × {patch} pixels are {len(chopped)} tokens: each "
        f"is {width} numbers, multiplied by one matrix {width} × {tokens.shape[1]}, {whose}."
    )
    details = (
        "Step 1, chop: patches are read row by row. Step 2, project: x_i = W p_i + b, with p_i the "
        "pixels of patch i, channel by channel; that is a convolution whose stride is its size. "
        "The lecture's image of 224 × 224 has 14 × 14 patches of 3 × 16 × 16 = 768 numbers. Then a "
        "position is added to each token, and the same blocks as for words follow."
    )
    with Board(caption, (1, 0.4, 1.15), details) as board:
        axes = _bare(board, 0, "1  chop the image", (0, 1))
        _image(axes, pixels, (0, columns, rows, 0))
        _lines(axes, rows, columns)
        _draw_row(board, 1, pixels, patch)
        values = tokens.numpy()
        reach = float(np.abs(values).max()) or 1.0
        names = [f"{i // columns},{i % columns}" for i in range(len(values))]
        labels = [str(j + 1) for j in range(values.shape[1])]
        board.matrix(2, "2  project: the tokens", values, signed_scale(reach), (names, labels),
                     ("patch", "feature"))  # fmt: skip
        return board.drawing(
            patches=len(chopped), grid=[rows, columns], numbers_of_a_patch=width,
            dim=int(tokens.shape[1]), tokens=values.tolist(),
        )  # fmt: skip


def _front(
    text: str | None, patch: int, dim: int, model: str, seed: int
) -> tuple[Image, int, Tensor, Tensor, str]:
    """Pixels (channels, height, width), the patch, the matrix with its bias, and whose it is."""
    if model:
        pipeline = load(model)
        if not pipeline.reads_images or not hasattr(pipeline.model, "embed"):
            raise InputError("model", got=model, expected="a Transformer that reads images")
        front = pipeline.model.embed
        if getattr(front, "projection", None) is None:
            raise InputError("model", got="a convolution stem", expected="a model with patches")
        reader = pipeline.processor.source
        source = text if text is not None else _scene(seed, max(reader.height, 64))
        pixels = reader.pixels(source)
        weight, bias = front.projection.weight.detach(), front.projection.bias
        bias = torch.zeros(len(weight)) if bias is None else bias.detach()
        return pixels, front.patch, weight, bias, f"that of {model}"
    if 64 % patch:
        raise InputError("patch", got=patch, expected="1, 2, 4, 8, 16 or 32, which divide 64")
    reader = ImageReader(height=64, width=64)
    pixels = reader.pixels(text if text is not None else _scene(seed, 64))
    width = 3 * patch * patch
    weight = torch.randn(dim, width) / math.sqrt(width)
    return pixels, patch, weight, torch.zeros(dim), "here a random one"


def _scene(seed: int, side: int) -> Any:
    return make_scene(seed, 0, SCENE, most=3, least=3).draw(side)


def _draw_row(board: Board, panel: int, pixels: Image, patch: int) -> None:
    """Draw the first patches, one below the other, as they are read."""
    shown = 6
    rows, columns = pixels.shape[1] // patch, pixels.shape[2] // patch
    axes = _bare(board, panel, "patches in order", (0, 1))
    axes.set(xlim=(-0.1, 2.6), ylim=(shown + 0.6, -0.1))
    for index in range(min(shown, rows * columns)):
        down, right = divmod(index, columns)
        part = pixels[:, down * patch : (down + 1) * patch, right * patch : (right + 1) * patch]
        _image(axes, part, (0, 0.9, index + 0.9, index))
        axes.write((1.1, index + 0.45), f"{down},{right}", va="center")
    axes.write((0.45, shown + 0.25), "…", ha="center")
    axes.set(xlim=(-0.1, 2.6), ylim=(shown + 0.6, -0.1))
    axes.set_aspect("equal", anchor="NW")


def anything(dim: int, seed: int) -> Drawing:
    """Draw an image, a spectrogram and a table, each chopped and projected to tokens."""
    torch.manual_seed(seed)
    scene = ImageReader(height=32, width=32).pixels(_scene(seed, 64))
    sound = spectrogram()  # (frequencies, frames)
    table = _table()  # (rows, columns)
    inputs = {
        "an image: patches": cut_patches(torch.from_numpy(scene)[None], 8)[0],
        # (frequencies, slices, 8) -> (slices, frequencies · 8)
        "a sound: slices of time": torch.from_numpy(sound)
        .view(len(sound), -1, 8).transpose(0, 1).flatten(1),
        "a table: rows": torch.from_numpy(table),
    }  # fmt: skip
    tokens = {}
    for name, chunks in inputs.items():
        matrix = torch.randn(chunks.shape[1], dim) / math.sqrt(chunks.shape[1])
        tokens[name] = chunks.float() @ matrix  # (chunks, dim)
    caption = (
        "Chop the input into chunks, project each chunk to a vector: patches, slices of a "
        "spectrogram and rows of a table all become tokens."
    )
    details = (
        "The image has 4 × 4 patches of 8 × 8 × 3 = 192 numbers; the sound is a chirp from 200 to "
        f"3,000 Hz, one second at 8,000 Hz, whose spectrogram of {sound.shape[0]} frequencies is "
        f"cut into {sound.shape[1] // 8} slices of 8 frames; the table has a row for "
        "each of 12 months with five columns, each scaled to mean 0 and deviation 1. The matrices "
        "are random here; a model learns them."
    )
    with Board(caption, (1, 1, 1), details) as board:
        for panel, (name, values) in enumerate(tokens.items()):
            axes = _bare(board, panel, name, (0, 0.52))
            if panel == 0:
                _image(axes, scene, (0, 4, 4, 0))
                _lines(axes, 4, 4)
                for index in range(16):  # the order of the tokens
                    axes.write((index % 4 + 0.05, index // 4 + 0.05), str(index + 1), va="top")
            elif panel == 1:
                slices = sound.shape[1] // 8
                axes.imshow(sound[::-1], cmap="gray_r", aspect="auto", extent=(0, slices, 1, 0))
                _lines(axes, 1, slices)
            else:
                reach = float(np.abs(table).max())
                axes.imshow(table, signed_scale(reach).colormap(), vmin=-reach, vmax=reach,
                            aspect="auto", extent=(0, table.shape[1], len(table), 0))  # fmt: skip
                _lines(axes, len(table), 1)
            axes = _bare(board, panel, f"{len(values)} tokens of {dim} numbers", (0.52, 1))
            array = values.numpy()
            reach = float(np.abs(array).max())
            axes.imshow(array, signed_scale(reach).colormap(), vmin=-reach, vmax=reach,
                        aspect="auto", interpolation="nearest",
                        extent=(0, dim, len(array), 0))  # fmt: skip
        return board.drawing(
            inputs=list(tokens),
            chunks=[len(vectors) for vectors in tokens.values()],
            numbers_of_a_chunk=[int(chunks.shape[1]) for chunks in inputs.values()],
            dim=dim,
        )


def spectrogram() -> NDArray[np.float32]:
    """The spectrogram of a chirp from 200 to 3,000 Hz: log magnitudes (frequencies, frames)."""
    rate, low, high = 8000, 200.0, 3000.0
    time = torch.arange(rate, dtype=torch.float64) / rate
    # the phase is the integral of the frequency: 2π (low t + (high - low) t² / 2)
    wave = torch.sin(2 * math.pi * (low * time + (high - low) * time**2 / 2))
    window = torch.hann_window(256, dtype=torch.float64)
    amplitudes = torch.stft(wave, 256, hop_length=125, window=window, return_complex=True).abs()
    log = (amplitudes + 1e-3).log()[:, :64]  # (129 frequencies, 64 frames)
    array: NDArray[np.float32] = log.numpy().astype(np.float32)
    return array


def _table() -> NDArray[np.float64]:
    """A drawn table: 12 months, five columns that rise and fall with the year, standardised."""
    month = np.arange(12)[:, None]
    values = np.cos(2 * np.pi * (month - np.array([0, 1, 6, 3, 9])) / 12) * [9, 60, 5, 3, 120]
    values = values + np.array([10, 70, 5, 8, 160])
    return np.asarray((values - values.mean(0)) / values.std(0))


def entries(image: int, layers: int, heads: int) -> Drawing:
    """Draw how many entries attention matrices have, and the memory that all of them take."""
    cases = [
        _case("pixels", 128, 1, layers, heads),
        _case("pixels", image, 1, layers, heads),
        _case("patches of 16", image, 16, layers, heads),
        _case("patches of 14", image, 14, layers, heads),
    ]
    small = cases[2]
    caption = (
        f"tokens = (side / patch)², entries = tokens², memory = {BYTES} bytes · entries · layers · "
        f"heads: {in_units(small['all_bytes'])} for patches, {in_units(cases[0]['all_bytes'])} for "
        "pixels at 128."
    )
    details = (
        f"One image, {layers} layers of {heads} heads, numbers of 4 bytes, without [CLS]; KB, MB "
        "and GB are binary and rounded down, as in the lectures. A matrix on pixels has R⁴ "
        "entries; one on 14 × 14 patches has 14⁴ = 38,416. An image of 224 × 224 pixels would be "
        "50,176 tokens."
    )
    with Board(caption, (1.75, 1), details) as board:
        columns = [("tokens are", 0.0), ("side", 0.31), ("tokens", 0.44)]
        columns += [("entries of\na matrix", 0.67), ("its\nbytes", 0.81), ("of all", 1.0)]
        rows = [
            [case["kind"], str(case["side"]), f"{case['tokens']:,}", f"{case['entries']:,}",
             in_units(case["bytes"]), in_units(case["all_bytes"])]
            for case in cases
        ]  # fmt: skip
        board.table(0, f"{layers} layers × {heads} heads", columns, rows, bold=(2,))
        axes = board.chart(1, "memory of all matrices", "side of the image, pixels", "", ticks=84)
        sides = np.array([32, 64, 128, 256, 512])
        for (name, patch), style in zip((("pixels", 1), ("patches of 16", 16)), LINE_STYLES,
                                        strict=False):  # fmt: skip
            all_bytes = BYTES * (sides / patch) ** 4 * layers * heads
            axes.curve(sides, all_bytes, style=style, label=name, marker=style.marker)
        axes.log_axis("x", sides.tolist())
        axes.set_yscale("log", base=2)
        ticks = [2**exponent for exponent in (10, 20, 30, 40)]
        axes.set_yticks(ticks, [in_units(tick) for tick in ticks])
        axes.draw_legend("upper left")
        return board.drawing(
            **{name: [case[name] for case in cases] for name in cases[0]},
            layers=layers, heads=heads,
        )  # fmt: skip


def _case(kind: str, side: int, patch: int, layers: int, heads: int) -> dict[str, Any]:
    """Tokens, entries and bytes of attention on one image of side × side pixels."""
    tokens = (side // patch) ** 2
    cells = tokens * tokens  # R⁴ for pixels
    return {
        "kind": kind, "side": side, "patch": patch, "tokens": tokens, "entries": cells,
        "bytes": BYTES * cells, "all_bytes": BYTES * cells * layers * heads,
    }  # fmt: skip


def in_units(count: float) -> str:
    """Bytes in binary units, rounded down, as the lectures do.

    Example:
        >>> in_units(4 * 14**4), in_units(4 * 14**4 * 768), in_units(4 * 128**4 * 768)
        ('150 KB', '112 MB', '768 GB')
    """
    for unit, size in UNITS.items():
        if count >= size:
            return f"{int(count // size):,} {unit}"
    return f"{count:.0f} B"


def _bare(board: Board, panel: int, heading: str, part: tuple[float, float]) -> Chart:
    """Axes without ticks that fill a part of a panel below its heading."""
    left, top, width, height = board.panel_box(panel)
    start = board.heading(panel, heading, part=part[0])
    end = top + part[1] * height - (12 if part[1] < 1 else 0)
    side = min(width, end - start)
    square = part == (0, 1)
    wide, tall = (side, side) if square else (width, end - start)
    return board.sheet.axes(left, start, wide, tall)


def _image(axes: Chart, pixels: Image, extent: tuple[float, float, float, float]) -> None:
    """Draw pixels (channels, height, width) from 0 to 1 at a place of the axes."""
    shown = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    axes.imshow(shown, cmap="gray", vmin=0, vmax=1, aspect="auto", extent=extent,
                interpolation="nearest")  # fmt: skip


def _lines(axes: Chart, rows: int, columns: int) -> None:
    """Draw the lines along which an input is chopped."""
    limits = axes.get_xlim(), axes.get_ylim()
    extent = max(limits[0]), max(limits[1])
    for column in range(1, columns):
        axes.axvline(column * extent[0] / columns, color=ORANGE, linewidth=2)
    for row in range(1, rows):
        axes.axhline(row * extent[1] / rows, color=ORANGE, linewidth=2)
    axes.set(xlim=limits[0], ylim=limits[1])
