"""Any input, chopped into chunks of equal size: an image, a sound, a table of numbers, or a text.

A sound is read by the standard library's `wave`, a table by its `csv`.
"""

from __future__ import annotations

import csv
import io
import math
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regard.draw import read_regular
from regard.errors import InputError
from regard.inputs import ImageReader
from regard.layers import cut_patches
from regard_lectures.figures.patches import size_of, whole_patches

PATCH, MOST_PATCHES = 16, 8
"""The side of a patch, and the most patches of the longer side of an own image."""
SLICES, WINDOW, LONGEST = 16, 0.032, 60
"""Slices of an own sound, seconds of a window of its spectrogram, the most seconds that it has."""
ROWS, COLUMNS, WORDS = 12, 12, 16
"""The most rows and columns of a table, and words of a text, that are chunks."""
MOST_BYTES = 50 * 2**20
"""The largest file of a sound, a table or a text."""
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
TABLES, SOUNDS, TEXTS = (".csv", ".tsv"), (".wav",), (".txt", ".md")
Array = NDArray[np.float32]


@dataclass(frozen=True)
class Chunks:
    """An input and its chunks.

    Attributes:
        kind: image, sound, table or text.
        chunk: What a chunk is, as `slice of 0.06 s`.
        picture: What is drawn: pixels (channels, height, width) of an image; else (row, column).
        grid: Rows and columns of chunks in that picture.
        values: (chunks, numbers of a chunk).
        labels: The words of a text, or the columns of a table.
        left_out: What of the input is not in the chunks, in words; empty if nothing.
    """

    kind: str
    chunk: str
    picture: Array
    grid: tuple[int, int]
    values: Array
    labels: tuple[str, ...] = ()
    left_out: str = ""


def chunks_of(given: str) -> Chunks:
    """Read what a person gave, the path of a file or a text, and chop it.

    Raises:
        InputError: If there is no such file, or it cannot be read.
    """
    path = Path(given)
    ending = path.suffix.lower()
    files = (*IMAGES, *TABLES, *SOUNDS, *TEXTS)
    if ending not in files:
        if len(given) < 256 and path.is_file():
            expected = "an image, .wav, .csv, .tsv or .txt"
            raise InputError("--text", got=given, expected=expected)
        return chop_text(given)
    if ending in IMAGES:
        return chop_image(given)
    if not path.is_file():
        raise InputError(f"{given}: no such file", expected=f"the path of a {ending} file")
    content = read_regular(path, MOST_BYTES)
    if ending in SOUNDS:
        return chop_sound(*read_sound(content, given))
    text = content.decode("utf-8-sig", errors="replace")
    return chop_text(text) if ending in TEXTS else chop_table(text, given)


def chop_image(path: str) -> Chunks:
    """Chop an image into patches, at its own size if that fits."""
    own_size = size_of(path)
    height, width = whole_patches(own_size, PATCH, MOST_PATCHES)
    pixels = ImageReader(height=height, width=width).pixels(path)
    values = cut_patches(torch.from_numpy(pixels)[None], PATCH)[0].numpy()
    image_size, size = (f"{wide} × {high}" for high, wide in (own_size, (height, width)))
    left_out = (
        "" if image_size == size else f"The image was brought from {image_size} to {size} pixels."
    )
    grid = height // PATCH, width // PATCH
    return Chunks("image", f"patch of {PATCH} × {PATCH} pixels", pixels, grid, values, (), left_out)


def read_sound(content: bytes, name: str) -> tuple[Array, int, float]:
    """The samples of a .wav file, the mean of its channels, from -1 to 1.

    Returns:
        At most `LONGEST` seconds of samples, samples a second, and the seconds of the whole sound.

    Raises:
        InputError: If it is no uncompressed .wav file, or it is empty.
    """
    try:
        with wave.open(io.BytesIO(content)) as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            seconds = file.getnframes() / rate
            data = file.readframes(min(file.getnframes(), LONGEST * rate))
    except (wave.Error, EOFError, ZeroDivisionError) as error:
        expected = "an uncompressed .wav file (PCM)"
        raise InputError(name, got=str(error) or "no sound", expected=expected) from None
    parts = np.frombuffer(data[: len(data) // (width * channels) * width * channels], np.uint8)
    if not len(parts):
        raise InputError(name, got="no samples", expected="a sound")
    # little-endian numbers of 1 to 4 bytes, moved to the upper end of 32 bits; 8 bits have no sign
    samples = np.zeros((len(parts) // width, 4), np.uint8)
    samples[:, 4 - width :] = parts.reshape(-1, width) ^ (0x80 if width == 1 else 0)
    whole = samples.view("<i4")[:, 0].astype(np.float32) / 2**31
    return whole.reshape(-1, channels).mean(1), rate, seconds


def chop_sound(samples: Array, rate: int, seconds: float) -> Chunks:
    """Chop the spectrogram of a sound into slices of time of equal length."""
    size = 2 ** max(4, round(math.log2(WINDOW * rate)))  # samples of a window
    signal = torch.from_numpy(np.pad(samples, (0, max(0, size - len(samples)))))
    hop = max(1, min(size // 2, len(signal) // (SLICES * 4)))
    table = torch.stft(signal, size, hop, window=torch.hann_window(size), return_complex=True)
    log = (table.abs() + 1e-3).log()  # (frequencies, frames)
    frames = max(1, log.shape[1] // SLICES)  # of a slice
    count = min(SLICES, log.shape[1] // frames)
    shown = log[:, : count * frames].numpy()
    read = len(samples) / rate
    left_out = f"Read: the first {read:.0f} of {seconds:.0f} s." if seconds > read + 0.5 else ""
    chunk = f"slice of {frames * hop / rate:.2g} s"
    return Chunks("sound", chunk, shown, (1, count), slices(shown, frames), (), left_out)


def slices(spectrogram: Array, frames: int) -> Array:
    """(frequencies, slices · frames) -> (slices, frequencies · frames)."""
    parts = spectrogram.reshape(len(spectrogram), -1, frames)
    return np.ascontiguousarray(parts.transpose(1, 0, 2)).reshape(parts.shape[1], -1)


def chop_table(text: str, name: str) -> Chunks:
    """Chop a table into its rows; columns of numbers are scaled to mean 0 and deviation 1.

    Raises:
        InputError: If no column has numbers.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    delimiter = max(",;\t", key=lines[0].count) if lines else ","
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error as error:
        raise InputError(name, got=str(error), expected="a table (.csv)") from None
    if delimiter != ",":  # then a comma may stand before decimals
        rows = [[_with_point(cell) for cell in row] for row in rows]
    has_head = bool(rows) and not any(_is_number(cell) for cell in rows[0])
    head, body = (rows[0], rows[1:]) if has_head else ([], rows)
    width = max(map(len, body), default=0)
    cells = [[*row, *[""] * (width - len(row))] for row in body]
    numeric = [
        column
        for column in range(width)
        if any(row[column].strip() for row in cells)
        and all(_is_number(row[column]) or not row[column].strip() for row in cells)
    ]
    if not numeric:
        raise InputError(name, got="no column of numbers", expected="a table of numbers (.csv)")
    table = np.array([[float(row[c]) if row[c].strip() else np.nan for c in numeric]
                      for row in cells])  # fmt: skip
    empty = int(np.isnan(table).sum())
    deviation = np.nanstd(table, axis=0)
    scaled = (table - np.nanmean(table, axis=0)) / np.where(deviation > 0, deviation, 1)
    values = np.nan_to_num(scaled).astype(np.float32)[:ROWS, :COLUMNS]
    names = [head[c] if c < len(head) else str(c + 1) for c in range(width)]
    others = [names[c] for c in range(width) if c not in numeric] + [
        names[c] for c in numeric[COLUMNS:]
    ]
    left_out = _left_out(
        f"the first {len(values)} of {len(table):,} rows" if len(table) > ROWS else "",
        f"without {len(others)} column{'s' * (len(others) > 1)} ({_some(others)})"
        if others
        else "",
        f"{empty} empty cells count as the mean" if empty else "",
    )
    labels = tuple(names[c] for c in numeric[:COLUMNS])
    return Chunks("table", "row", values, (len(values), 1), values, labels, left_out)


def chop_text(text: str) -> Chunks:
    """Chop a text into words; each is a 1 at the number of the word, else 0.

    Raises:
        InputError: If there is no word.
    """
    words = text.split()
    if not words:
        raise InputError("--text", got=repr(text), expected="a file, or a text with words")
    first_words = words[:WORDS]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    values = np.zeros((len(first_words), len(vocabulary)), np.float32)
    values[range(len(first_words)), [vocabulary[word] for word in first_words]] = 1
    more = (
        f"the first {len(first_words)} of {len(words):,} words"
        if len(words) > len(first_words)
        else ""
    )
    return Chunks(
        "text", "word", values, (len(first_words), 1), values, tuple(first_words), _left_out(more)
    )


def _with_point(cell: str) -> str:
    """A cell with a point before its decimals, if it is a number with a comma."""
    return changed if _is_number(changed := cell.replace(",", ".", 1)) else cell


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _some(names: Sequence[str], most: int = 3) -> str:
    """Some names in a row, each not too long."""
    short = [name if len(name) <= 16 else name[:15] + "…" for name in names[:most]]
    return ", ".join([*short, *["…"] * (len(names) > most)])


def _left_out(*parts: str) -> str:
    """One sentence of what is shown, of the parts that are not empty."""
    said = "; ".join(filter(None, parts))
    return f"Shown: {said}." if said else ""
