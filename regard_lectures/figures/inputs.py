"""Figure of part 1: numbers, categories, words and images as vectors.

Without input the lecture's three examples are drawn. A person's own input is a table of numbers,
a row of categories, a single word, or an image; what it is follows from the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.patches import Rectangle
from PIL import Image, ImageOps
from torch import Tensor

from regard import vectors
from regard.draw import ORANGE, SMALLEST, positive_scale, shorten, signed_scale
from regard.explain import Board, Drawing, Numbers, Words
from regard.inputs import ImageReader
from regard_lectures.limits import COMPUTED, model_line
from regard_lectures.own_tables import read_categories, read_table
from regard_lectures.own_words import VECTORS

PEOPLE = ((23, 1200, 200), (34, 2000, 200), (55, 1500, 300))
COLUMNS = ("age", "salary", "savings")
"""The people of lecture D2."""
HAIR = ("blond", "black", "brown", "blue")
PIXELS = ((25, 51, 76), (102, 127, 153), (178, 204, 229))
"""The grey image of lecture D2: tenths of 255; the slide prints 178 twice, in place of 204."""
MOST_ROWS, MOST_COLUMNS, MOST_VALUES = 10, 5, 8
"""The most rows and columns of a table, and the most categories, in the picture."""
COMPARED = 4
"""The most categories whose distances are drawn."""
LABEL = 130.0
"""The most pixels of a category's name."""
SHOWN = 8
"""The number of components of a word's vector that are drawn."""
DOMINATES = 0.8
"""A column dominates if it makes this part of the squared distances."""
PUNCTUATION = ".,:;!?\"'“”()"


def inputs(text: str | None) -> Drawing:
    """Draw the lecture's numbers, categories and image as vectors, or a person's own input.

    Args:
        text: Rows of numbers with semicolons between them, categories, a word, or the path of an
            image.
    """
    if text is None:
        return _draw_lecture()
    given = text.strip()
    if Path(given).suffix.lower() in Image.registered_extensions() or Path(given).is_file():
        return _draw_image(given)
    if (table := read_table(given)) is not None:
        return _draw_table(table)
    values = read_categories(given)
    return (
        _draw_word(values[0].strip(PUNCTUATION)) if len(values) == 1 else _draw_categories(values)
    )


# What is computed.


def table_numbers(table: Sequence[Sequence[float]]) -> Numbers:
    """A table, standardized, and what part of its squared distances each column makes."""
    values = torch.tensor(table, dtype=torch.float64)
    spread = values.std(0, correction=0)
    scaled = (values - values.mean(0)) / spread.clamp(min=1e-300)
    variance = spread.square()
    return {
        "table": values.tolist(),
        "scaled": torch.where(spread > 0, scaled, 0.0).tolist(),
        "share_of_distance": (variance / variance.sum().clamp(min=1e-300)).tolist(),
    }


def category_numbers(values: Sequence[str]) -> Numbers:
    """Categories, and their distances as numbers and as one-hot vectors."""
    numbered = torch.arange(len(values), dtype=torch.float64)[:, None]
    one_hot = torch.eye(len(values), dtype=torch.float64)
    return {
        "categories": list(values),
        "compared": min(len(values), COMPARED),
        "distance_number": torch.cdist(numbered, numbered).tolist(),
        "distance_one_hot": torch.cdist(one_hot, one_hot).tolist(),
    }


# Its words.


def words_inputs(numbers: Mapping[str, Any]) -> Words:
    """What each kind of input becomes, and what an encoding adds that is not in the data."""
    kind = numbers["kind"]
    compute: Callable[[Mapping[str, Any]], Words] = {
        "lecture": _words_lecture,
        "table": _words_table,
        "categories": _words_categories,
        "word": _words_word,
        "image": _words_image,
    }[kind]
    return compute(numbers)


def _order_phrase(numbers: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether numbered categories have unequal distances where one-hot ones are equal; how."""
    values = numbers["categories"]
    numbered, one_hot = (np.array(numbers[f"distance_{how}"]) for how in ("number", "one_hot"))
    first = numbered[0, 1 : numbers["compared"]]  # those in the picture
    equal = one_hot[~np.eye(len(values), dtype=bool)]
    together = (
        f"one-hot vectors are all {equal[0]:.2f} apart"
        if np.allclose(equal, equal[0])
        else f"one-hot vectors are {equal.min():.2f} to {equal.max():.2f} apart"
    )
    near, far = values[1 + int(first.argmin())], values[1 + int(first.argmax())]
    ratio = first.max() / first.min()
    if ratio <= 1:
        return (
            False,
            (f"“{values[0]}” and “{values[1]}” are {first[0]:g} apart as numbers; {together}"),
        )
    return True, (
        f"numbered, “{values[0]}” is {ratio:g} times as far from “{far}” as from “{near}”; "
        f"{together}"
    )


def _words_lecture(numbers: Mapping[str, Any]) -> Words:
    has_order, phrase = _order_phrase(numbers)
    order = "numbers give categories an order" if has_order else "here numbers give no order"
    which, share = _dominant(numbers, COLUMNS)
    before = f"Unscaled, {share:.0%} of the squared distance of people is {which}"
    caption = f"{before}; {phrase}; the image is {len(numbers['image'])} numbers."
    return Words(f"Vectors of people, colours, an image: {order}", caption)


def _dominant(numbers: Mapping[str, Any], names: Sequence[str]) -> tuple[str, float]:
    """The column that makes the largest part of the squared distances, and this part."""
    shares = numbers["share_of_distance"]
    best = int(np.argmax(shares))
    return names[best], shares[best]


def _words_table(numbers: Mapping[str, Any]) -> Words:
    rows, columns = len(numbers["table"]), len(numbers["table"][0])
    which, share = _dominant(numbers, [f"column {number}" for number in range(1, columns + 1)])
    row_phrase = f"{rows} {'row is a vector' if rows == 1 else 'rows are vectors'} of {columns}"
    if rows == 1:
        title = f"{row_phrase}: one row has no distances, and no mean to subtract"
        return Words(title, "With more rows each column can be scaled by its standard deviation.")
    if not share:
        return Words(f"{row_phrase}, all alike", "Nothing can be scaled: no column has two values.")
    if columns == 1:
        return Words(f"{row_phrase}: a single column", "Scaled: mean 0, standard deviation 1.")
    verdict = "dominates" if share >= DOMINATES else "does not dominate"
    title = f"{row_phrase}; unscaled, {which} {verdict} the distances"
    constant = sum(not value for value in numbers["share_of_distance"])
    after = f"scaled, each of {columns - constant} columns counts the same"
    also = f"; {constant} without differences stay 0" if constant else ""
    return Words(title, f"It makes {share:.1%} of the squared distances; {after}{also}.")


def _words_categories(numbers: Mapping[str, Any]) -> Words:
    has_order, phrase = _order_phrase(numbers)
    count = len(numbers["categories"])
    if has_order:
        title = f"{count} categories: numbers give them an order, one-hot vectors do not"
    else:
        title = "Two categories: numbers and one-hot vectors both give no order"
    return Words(title, f"{phrase[0].upper()}{phrase[1:]}.")


def _words_word(numbers: Mapping[str, Any]) -> Words:
    word, vocabulary, dim = (numbers[key] for key in ("word", "vocabulary", "dim"))
    if numbers["index"] is None:
        title = f"“{word}” is not among {vocabulary:,} words: it has no number and no vector"
        return Words(title, "Its one-hot vector would be zeros; sub-words have vectors for it.")
    title = f"“{word}”: number {numbers['index']:,} of {vocabulary:,}, one-hot, and {dim} numbers"
    nearest, cosine = numbers["nearest"], numbers["cosine"]
    return Words(
        title,
        f"One-hot, it is as far from every other word: cosine {numbers['one_hot_cosine']:g}. As an "
        f"embedding it has a cosine of {cosine:.2f} with “{nearest}”, the nearest.",
    )


def _words_image(numbers: Mapping[str, Any]) -> Words:
    height, width, channels = numbers["size"]
    total = height * width * channels
    colours = "red, green and blue" if channels == 3 else "grey"
    title = f"An image of {width:,} × {height:,} pixels is a vector of {total:,} numbers"
    values = np.array(numbers["pixels"])
    spread = values.max() - values.min()
    alike = f"differ by up to {spread:g}" if spread else "are all equal"
    return Words(
        title,
        f"Width × height; each pixel is {channels} number{'s'[: channels > 1]} from 0 to 255 "
        f"({colours}). The 9 pixels in the middle are shown; their values {alike}.",
    )


# The pictures.


def _draw_lecture() -> Drawing:
    numbers = {
        "kind": "lecture",
        **table_numbers(PEOPLE),
        **category_numbers(HAIR),
        "image": [value for row in PIXELS for value in row],
    }
    details = (
        "Left: the lecture's three people. Each column is standardized (minus its mean, divided by "
        "its standard deviation), because distances would otherwise depend on the salary alone. "
        "Middle: distances between hair colours, encoded as a number and one-hot. Right: the "
        "lecture's image of 3 × 3 grey values, row by row, as a vector of 9 numbers: tenths of 255 "
        "(the slide has 178 in place of 204)."
    )
    with Board(words_inputs(numbers), (1.25, 1.35, 0.8), details, limits=COMPUTED) as board:
        rows = [" ".join(map(str, person)) for person in PEOPLE]
        board.matrix(0, "numbers, scaled", numbers["scaled"], signed_scale(1.5), (rows, COLUMNS),
                     ("", ""), ".1f")  # fmt: skip
        _draw_distances(board, 1, numbers)
        cells = [f"row {row}, {column}" for row in (1, 2, 3) for column in (1, 2, 3)]
        board.matrix(2, "an image", np.array(numbers["image"])[:, None], positive_scale(255.0),
                     (cells, [""]), ("", ""), ".0f")  # fmt: skip
        return board.drawing(**numbers)


def _draw_distances(board: Board, panel: int, numbers: Numbers) -> None:
    """Draw the distances of categories, as numbers above and one-hot below."""
    names = [shorten(value, LABEL, SMALLEST) for value in numbers["categories"]]
    tables = [
        np.array(numbers[f"distance_{how}"])[:COMPARED, :COMPARED] for how in ("number", "one_hot")
    ]
    labels = [f"{name}, {how}" for how in ("number", "one-hot") for name in names[:COMPARED]]
    left_out = len(names) - COMPARED
    below = f"the first {COMPARED} of {len(names)}" if left_out > 0 else ""
    both = np.concatenate(tables)
    board.matrix(panel, "distances", both, positive_scale(float(both.max())),
                 (labels, names[:COMPARED]), (below, ""), ".2f")  # fmt: skip


def _draw_table(table: Sequence[Sequence[float]]) -> Drawing:
    numbers = {"kind": "table", **table_numbers(table)}
    count, columns = len(table), len(table[0])
    rows, names = range(1, count + 1)[:MOST_ROWS], range(1, columns + 1)[:MOST_COLUMNS]
    labels = [str(row) for row in rows], [f"column {name}" for name in names]
    parts = []
    if count > len(rows):
        parts.append(f"the first {len(rows)} of {count} rows")
    if columns > len(names):
        parts.append(f"{len(names)} of {columns} columns")
    details = (
        "Standardized: each column minus its mean, divided by its standard deviation. The squared "
        "distance of two rows is the sum over columns; a column's part of it, over all pairs, is "
        "its part of the sum of variances."
    )
    with Board(words_inputs(numbers), (1, 1), details, limits=COMPUTED) as board:
        for panel, (heading, key) in enumerate((("as given", "table"), ("scaled", "scaled"))):
            shown = np.array(numbers[key])[: len(rows), : len(names)]
            form = ".2f" if key == "scaled" else ".0f" if np.all(shown == shown.round()) else ".4g"
            scale = signed_scale(max(float(np.abs(shown).max()), 1e-9))
            board.matrix(panel, heading, shown, scale, labels, (", ".join(parts), ""), form)
        return board.drawing(**numbers)


def _draw_categories(values: Sequence[str]) -> Drawing:
    numbers = {"kind": "categories", **category_numbers(values)}
    shown = values[:MOST_VALUES]
    names = [shorten(value, LABEL, SMALLEST) for value in shown]
    details = (
        "Left: the one-hot vector of each category, beside its number. Right: distances between "
        "categories, encoded as a number and one-hot; a model that gets numbers is told an order."
    )
    below = f"the first {len(shown)} of {len(values)}" if len(values) > len(shown) else ""
    with Board(words_inputs(numbers), (1, 1.2), details, limits=COMPUTED) as board:
        one_hot = torch.eye(len(shown)).numpy()
        labels = [f"{number} {name}" for number, name in enumerate(names)]
        columns = [str(number) for number in range(len(shown))]
        board.matrix(0, "number, and one-hot vector", one_hot, positive_scale(),
                     (labels, columns), (below, ""), ".0f")  # fmt: skip
        _draw_distances(board, 1, numbers)
        return board.drawing(**numbers)


def _draw_word(word: str) -> Drawing:
    table = vectors(VECTORS)
    known = {entry: index for index, entry in enumerate(table.words)}
    index = known.get(word, known.get(word.lower()))
    near = None if index is None else table.nearest(table.words[index], 1)[0]
    row = torch.zeros(table.dim) if index is None else torch.from_numpy(table.vectors[index])
    numbers: Numbers = {
        "kind": "word",
        "word": word if index is None else table.words[index],
        "index": None if index is None else index + 1,
        "vocabulary": len(table),
        "dim": table.dim,
        "embedding": row.tolist(),
        "one_hot_cosine": 0.0,
        "nearest": near.word if near else None,
        "cosine": near.cosine if near else None,
    }
    first = 0 if index is None else max(0, min(index - MOST_VALUES // 2, len(table) - MOST_VALUES))
    around = list(table.words[first : first + MOST_VALUES])
    one_hot = torch.zeros(MOST_VALUES) if index is None else F.one_hot(
        torch.tensor(index - first), MOST_VALUES).float()  # fmt: skip
    details = (
        f"Words are numbered by how common they are in the text that the vectors of {VECTORS} are "
        f"from. Of the {len(table):,} numbers of the one-hot vector {MOST_VALUES} are shown; the "
        f"embedding has {table.dim}, of which {SHOWN} are shown."
    )
    with Board(words_inputs(numbers), (1, 1), details, limits=model_line(VECTORS)) as board:
        labels = [f"{first + 1 + n:,} {name}" for n, name in enumerate(around)]
        board.matrix(0, "one-hot", one_hot[:, None].numpy(), positive_scale(), (labels, [""]),
                     (f"{MOST_VALUES} of {len(table):,} numbers", ""), ".0f")  # fmt: skip
        scale = signed_scale(max(float(row.abs().max()), 1e-9))
        board.matrix(1, "embedding", row[:SHOWN, None].numpy(), scale,
                     ([str(n) for n in range(1, SHOWN + 1)], [""]),
                     (f"{SHOWN} of {table.dim} numbers", ""), ".2f")  # fmt: skip
        return board.drawing(**numbers)


def _draw_image(path: str) -> Drawing:
    ImageReader(height=8, width=8).pixels(path)  # says what is wrong with a file
    with Image.open(path) as file:
        upright = ImageOps.exif_transpose(file)
        picture = upright.convert("L" if upright.mode in ("1", "L", "I;16") else "RGB")
    pixels: Tensor = torch.from_numpy(np.array(picture)).view(picture.height, picture.width, -1)
    height, width, channels = pixels.shape
    top, left = max(0, height // 2 - 1), max(0, width // 2 - 1)
    middle = pixels[top : top + 3, left : left + 3]
    numbers: Numbers = {
        "kind": "image",
        "size": [height, width, channels],
        "corner": [top, left],
        "pixels": middle.flatten(0, 1).tolist(),
    }
    details = (
        f"Row by row, the {channels} values of each pixel one after the other. The 9 begin at "
        f"row {top}, column {left}, counted from 0."
    )
    with Board(words_inputs(numbers), (1.3, 1), details, limits=COMPUTED) as board:
        start = board.heading(0, "the image; in the square: its middle")
        left_edge, up, panel_width, high = board.panel_box(0)
        factor = min(panel_width / width, (up + high - start) / height)
        axes = board.sheet.axes(left_edge, start, width * factor, height * factor)
        axes.imshow(np.array(picture), cmap="gray", vmin=0, vmax=255, aspect="auto")
        side = max(3, 24 / factor)  # seen from afar
        corner = (left + 1 - side / 2, top + 1 - side / 2)
        axes.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=ORANGE, linewidth=3))
        rows, columns = middle.shape[:2]
        cells = [f"row {top + r}, {left + c}" for r in range(rows) for c in range(columns)]
        names = ["red", "green", "blue"] if channels == 3 else ["grey"]
        board.matrix(1, f"9 of {height * width:,} pixels", middle.flatten(0, 1).numpy(),
                     positive_scale(255.0), (cells, names), ("", ""), ".0f")  # fmt: skip
        return board.drawing(**numbers)
