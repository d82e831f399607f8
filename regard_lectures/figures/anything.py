"""Figure of part 1: you can tokenize anything: chop it, project each chunk to a vector."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.draw import SMALLEST, Chart, shorten, signed_scale
from regard.explain import Board, Drawing, Words
from regard.inputs import ImageReader
from regard.layers import cut_patches
from regard_lectures.figures.chunks import Chunks, chunks_of, slices
from regard_lectures.figures.patches import bare, draw_image, draw_lines, draw_tokens, scene
from regard_lectures.tries import listed

LIMITS = "Random matrices: no training. A model learns them."
KINDS = {"image": "an image", "sound": "a sound", "table": "a table", "text": "a text"}
"""Kinds of input, with their articles."""
UNITS = {"image": "patches", "sound": "slices", "table": "rows", "text": "words"}
"""What their chunks are."""


def anything(text: str | None, dim: int, seed: int) -> Drawing:
    """Draw an image, a spectrogram and a table, or a person's own input, chopped and projected.

    Args:
        text: The path of an image, a sound, a table or a text, or a text; None: all three.
        dim: The width of a token.
        seed: Seed of the scene and of the random matrices.
    """
    inputs = lecture_inputs(seed) if text is None else [chunks_of(text)]
    torch.manual_seed(seed)
    tokens = []
    for chunks in inputs:
        width = chunks.values.shape[1]
        matrix = torch.randn(width, dim) / math.sqrt(width)
        tokens.append((torch.from_numpy(chunks.values) @ matrix).numpy())  # (chunks, dim)
    numbers: dict[str, Any] = {
        "inputs": [chunks.kind for chunks in inputs],
        "chunk": [chunks.chunk for chunks in inputs],
        "chunks": [len(chunks.values) for chunks in inputs],
        "numbers_of_a_chunk": [chunks.values.shape[1] for chunks in inputs],
        "left_out": [chunks.left_out for chunks in inputs],
        "equal": [_equal_tokens(vectors) for vectors in tokens],
        "dim": dim,
        "tokens": [np.round(vectors, 4).tolist() for vectors in tokens],
    }
    details = (
        "Each chunk is flattened to its numbers and multiplied by one matrix (numbers × width), "
        "the same for all chunks of the input. A sound is a spectrogram: log magnitudes of each "
        "frequency in short windows of time; without an own input it is a chirp from 200 to 3,000 "
        "Hz, one second at 8,000 Hz. A column of a table is scaled to mean 0 and deviation 1; "
        "without an own input it has 12 months and five columns. A word is a 1 at its number in a "
        "list of the text's words, so that the product is a row of the matrix. "
        f"Seed {seed}."
    )
    widths = [1] * 3 if text is None else [1, 1.1]
    with Board(words_anything(numbers), widths, details, limits=LIMITS) as board:
        if text is None:
            for panel, (chunks, vectors) in enumerate(zip(inputs, tokens, strict=True)):
                _draw_small(board, panel, chunks, vectors)
        else:
            _draw_own(board, inputs[0], tokens[0])
        return board.drawing(**numbers)


def words_anything(numbers: Mapping[str, Any]) -> Words:
    """How many tokens each input becomes, of which width, and what was left out."""
    kinds = [KINDS[kind] for kind in numbers["inputs"]]
    counts, dim = numbers["chunks"], numbers["dim"]
    said = listed(kinds)
    title = f"{said[0].upper()}{said[1:]} as tokens: {listed([str(n) for n in counts])} "
    title += f"vector{'s' * (sum(counts) > 1)} of {dim} numbers"
    chunks = zip(numbers["chunk"], numbers["numbers_of_a_chunk"], strict=True)
    told = ", ".join(f"a {chunk} has {count:,}" for chunk, count in chunks)
    caption = f"Chop, then project each chunk by a matrix to {dim} numbers: {told} numbers."
    if len(kinds) == 1 and (equal := numbers["equal"][0]):
        caption += f" Equal to an earlier token: {equal}."
    caption += "".join(f" {remark}" for remark in numbers["left_out"] if remark)
    return Words(title, caption)


def _equal_tokens(vectors: NDArray[np.float32]) -> int:
    """How many tokens are the same as an earlier one."""
    return len(vectors) - len(np.unique(np.round(vectors, 6), axis=0))


def lecture_inputs(seed: int) -> list[Chunks]:
    """A drawn image, a chirp and a drawn table, chopped."""
    pixels = ImageReader(height=32, width=32).pixels(scene(seed, 64))
    patched = cut_patches(torch.from_numpy(pixels)[None], 8)[0].numpy()
    sound, frames = spectrogram(), 8
    table = drawn_table()
    return [
        Chunks("image", "patch of 8 × 8 pixels", pixels, (4, 4), patched),
        Chunks(
            "sound", "slice of 0.13 s", sound, (1, sound.shape[1] // frames), slices(sound, frames)
        ),
        Chunks("table", "row", table, (len(table), 1), table),
    ]


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


def drawn_table() -> NDArray[np.float32]:
    """A drawn table: 12 months, five columns that rise and fall with the year, standardised."""
    month = np.arange(12)[:, None]
    values = np.cos(2 * np.pi * (month - np.array([0, 1, 6, 3, 9])) / 12) * [9, 60, 5, 3, 120]
    values = values + np.array([10, 70, 5, 8, 160])
    return np.asarray((values - values.mean(0)) / values.std(0), np.float32)


def _draw_small(board: Board, panel: int, chunks: Chunks, vectors: NDArray[np.float32]) -> None:
    """Draw an input and, below it, its tokens."""
    left, top, width, height = board.panel_box(panel)
    start = board.heading(panel, f"{KINDS[chunks.kind]}: {len(vectors)} {UNITS[chunks.kind]}")
    axes = board.sheet.axes(left, start, width, top + 0.5 * height - start)
    _draw_input(axes, chunks)
    if chunks.kind == "image":
        for index in range(len(vectors)):  # the order of the tokens
            down, right = divmod(index, chunks.grid[1])
            axes.write((right + 0.05, down + 0.05), str(index + 1), va="top")
    start = board.heading(panel, f"{len(vectors)} tokens of {vectors.shape[1]}", part=0.53)
    axes = board.sheet.axes(left, start, width, top + height - 4 - start)
    reach = float(np.abs(vectors).max()) or 1.0
    axes.imshow(vectors, signed_scale(reach).colormap(), vmin=-reach, vmax=reach,
                aspect="auto", interpolation="nearest")  # fmt: skip


def _draw_own(board: Board, chunks: Chunks, vectors: NDArray[np.float32]) -> None:
    """Draw one input, and its tokens beside it."""
    heading = f"1  chop: {len(vectors)} {UNITS[chunks.kind]}"
    draw_tokens(board, 1, "2  project: the tokens", vectors, chunks.chunk.split()[0])
    left, top, width, height = board.panel_box(0)
    if chunks.kind == "image":
        axes = bare(board, 0, heading, chunks.picture.shape[1] / chunks.picture.shape[2])
    elif chunks.kind == "table":
        _draw_table(board, heading, chunks)
        return
    else:
        below = "time →, frequency ↑" if chunks.kind == "sound" else ""
        start = board.heading(0, heading, below)
        axes = board.sheet.axes(left, start, width, top + height - start - 4)
    if chunks.kind == "text":
        _write_words(axes, chunks.labels, width)
    else:
        _draw_input(axes, chunks)


def _draw_table(board: Board, heading: str, chunks: Chunks) -> None:
    """Draw a table's scaled numbers, with lines between its rows."""
    rows = [str(number) for number in range(len(chunks.values))]
    columns = [shorten(name, 130, SMALLEST) or str(n) for n, name in enumerate(chunks.labels, 1)]
    reach = float(np.abs(chunks.values).max()) or 1.0
    axes = board.matrix(
        0, heading, np.round(chunks.values, 1) + 0.0, signed_scale(1.3 * reach), (rows, columns),
        ("row", "column, scaled"), ".1f",
    )  # fmt: skip
    draw_lines(axes, len(chunks.values), 1)


def _write_words(axes: Chart, words: Sequence[str], width: float) -> None:
    """Write the words of a text one below the other, with their numbers."""
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(len(words), 0))
    for number, word in enumerate(words):
        said = f"{number}  {shorten(word, width - 60, SMALLEST)}"
        axes.write((0, number + 0.5), said, va="center")


def _draw_input(axes: Chart, chunks: Chunks) -> None:
    """Draw an input with the lines along which it is chopped."""
    rows, columns = chunks.grid
    extent = (0, columns, rows, 0)
    if chunks.kind == "image":
        draw_image(axes, chunks.picture, extent)
    elif chunks.kind == "sound":
        axes.imshow(chunks.picture[::-1], cmap="gray_r", aspect="auto", extent=extent)
    else:
        reach = float(np.abs(chunks.picture).max()) or 1.0
        axes.imshow(chunks.picture, signed_scale(reach).colormap(), vmin=-reach, vmax=reach,
                    aspect="auto", interpolation="nearest", extent=extent)  # fmt: skip
    axes.set_axis_off()
    draw_lines(axes, rows, columns)
