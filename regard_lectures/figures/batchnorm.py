"""Figure of part 5: which numbers layer norm and batch norm average over.

    layer norm   (x_{i,j} − mean_j x_{i,j}) / √(var_j x_{i,j} + ε)   over the features j of one word
    batch norm   (x_{i,j} − mean_i x_{i,j}) / √(var_i x_{i,j} + ε)   over the words i of the batch

So batch norm makes of one sentence something else if its neighbours in the batch change, and 0 of
all that is alone in its batch. Computed by PyTorch's two layers of word vectors of a person's own
sentences, or of a person's own numbers, where each row is an example.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from regard.draw import ACCENT, scientific, signed_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard_lectures.limits import COMPUTED
from regard_lectures.map_labels import map_labels
from regard_lectures.own_tables import read_table
from regard_lectures.own_words import VECTORS, WordInput, input_phrase, word_vectors

SENTENCES = "the dog runs / oil prices fell again / the storm hit the coast"
FIRST, OTHERS, MOST = 5, 5, 2
"""The most words of the first sentence and of each other one, and the most other sentences."""
MOST_ROWS = 8
"""The most rows of numbers."""
LETTER = re.compile(r"[^\W\d_]{2}|[^\W\d_eE]")
"""What a text of words has, and numbers such as 1e3 have not."""
FEATURES = 3
"""Features that are drawn; all are computed."""
SAME = 1e-6
"""Numbers that differ by less are the same."""
LONGEST = 150
"""Pixels: longer words are cut in labels."""


@dataclass(frozen=True)
class Batch:
    """A batch whose first example is looked at, and another batch that begins with it."""

    x: Tensor
    """(rows, features)"""
    other: Tensor
    """(rows, features) The other batch."""
    count: int
    """How many rows are of the first example."""
    labels: list[str]
    other_labels: list[str]
    """Labels of the rows of the other batch after the first example."""
    other_batch: str
    """The other batch in words."""
    item: str
    """What a row is: a word, or a row of numbers."""
    whole: str
    """What an example is: a sentence, or a row of numbers."""
    source: str
    """Where the numbers are from; empty: they were given."""
    note: str = ""


def read_batch(text: str | None) -> Batch:
    """A person's own sentences or numbers as two batches.

    Args:
        text: Sentences with slashes between them, or rows of numbers; None: the example.

    Raises:
        InputError: For what cannot be a batch.
    """
    if text is not None and not LETTER.search(text):
        table = read_table(text)
        if table:
            return number_batch(torch.tensor(table, dtype=torch.float64))
    return sentence_batch(read_sentences(text))


def number_batch(x: Tensor) -> Batch:
    """Rows of numbers, and the first of them alone, or beside zeros if it is alone."""
    rows, features = x.shape
    if rows > MOST_ROWS or features < 2 or not bool(x.isfinite().all()):
        raise InputError(
            "--text",
            got=f"{rows} rows of {features} numbers",
            expected=f"1 to {MOST_ROWS} rows of 2 finite numbers or more",
            fix="such as '2 4 9; 1 0 4; 7 7 1'",
        )
    other = x[:1] if rows > 1 else torch.cat((x, torch.zeros_like(x)))
    return Batch(
        x,
        other,
        count=1,
        labels=[f"row {number}" for number in range(1, rows + 1)],
        other_labels=[] if rows > 1 else ["zeros"],
        other_batch="Alone in its batch" if rows > 1 else "Beside a row of zeros",
        item="row",
        whole="row",
        source="",
    )


def sentence_batch(sentences: Sequence[WordInput]) -> Batch:
    """The words of the first two sentences; and of the first and the third, or of it alone."""
    first, neighbour, *others = sentences
    x = torch.cat((first.vectors, neighbour.vectors))  # (words, features)
    other = torch.cat((first.vectors, *(sentence.vectors for sentence in others)))
    stand_ins = [word for sentence in sentences for word in sentence.stand_ins]
    cut = [
        f"Of sentence {number} the first {len(sentence.words)} of {sentence.total} words are read."
        for number, sentence in enumerate(sentences, 1)
        if sentence.total > len(sentence.words)
    ]
    notes = [*cut, input_phrase(0, 0, list(dict.fromkeys(stand_ins)))]
    return Batch(
        x,
        other,
        count=len(first.words),
        labels=[*first.labels, *neighbour.labels],
        other_labels=[word for sentence in others for word in sentence.labels],
        other_batch=f"With “{' '.join(others[0].words)}” in place of the second sentence"
        if others
        else "Alone in its batch",
        item="word",
        whole="sentence",
        source=VECTORS,
        note=" ".join(filter(None, notes)),
    )


def read_sentences(text: str | None) -> list[WordInput]:
    """The sentences of a batch as word vectors: the first one, and one or two neighbours.

    Args:
        text: Sentences with slashes between them; a single one gets the example's neighbours.

    Raises:
        InputError: For more than three sentences, or one of a single word.
    """
    parts = [part.strip() for part in (text or SENTENCES).split("/") if part.strip()]
    if len(parts) == 1:
        parts += [part.strip() for part in SENTENCES.split("/")[1:]]
    if not 1 < len(parts) <= 1 + MOST:
        got, fix = f"{len(parts)} sentences", f"such as {SENTENCES!r}"
        raise InputError("--text", got=got, expected=f"1 to {1 + MOST}", fix=fix)
    return [word_vectors(part, OTHERS if index else FIRST) for index, part in enumerate(parts)]


@torch.no_grad()
def normalized(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (n, dim) after layer norm and after batch norm, as in training and without weights."""
    layer = nn.LayerNorm(x.shape[1], elementwise_affine=False)
    batch = nn.BatchNorm1d(x.shape[1], affine=False, track_running_stats=False)
    if len(x) == 1:  # PyTorch refuses it: x − mean = 0
        return layer(x), torch.zeros_like(x)
    return layer(x), batch(x)


def words_batchnorm(numbers: Numbers) -> Words:
    """Which of the two norms changes a sentence when its neighbours change."""
    changes = {"layer norm": numbers["change_layer"], "batch norm": numbers["change_batch"]}
    changing = [name for name, change in changes.items() if change > SAME]
    same = [name for name in changes if name not in changing]
    if changing and same:
        title = f"{changing[0].capitalize()} depends on the neighbours in the batch, {same[0]} not"
    elif changing:
        title = "Both norms depend on the neighbours in the batch"
    else:
        title = f"With these neighbours neither norm changes the first {numbers['whole']}"
    layer, batch = (scientific(float(f"{change:.2g}")) for change in changes.values())
    verb = "changes" if changing else "does not change"
    item, whole = numbers["item"], numbers["whole"]
    items = f"all {numbers['rows']} {item}s" if numbers["rows"] > 1 else "its single row"
    caption = (
        f"Layer norm averages over all {numbers['features']} features of a {item} (framed row), "
        f"batch norm over {items} (framed column). {numbers['other_batch']} "
        f"the first {whole} {verb}: by at most {layer} after layer norm, {batch} after batch norm."
    )
    if numbers["batch_of_one"]:
        caption += " In a batch of 1 batch norm makes every number 0."
    return Words(title, f"{caption} {numbers['note']}".strip())


def batchnorm(text: str | None) -> Drawing:
    """Draw a batch before and after each norm, and its first example in another batch.

    Args:
        text: Sentences with slashes between them, or rows of numbers; None: the example.
    """
    given = read_batch(text)
    x, count = given.x, given.count
    layer, batch = normalized(x)
    other_layer, other_batch = normalized(given.other)
    shown = min(x.shape[1], FEATURES)
    numbers: Numbers = {
        "item": given.item,
        "whole": given.whole,
        "words": given.labels,
        "other_words": given.other_labels,
        "of_the_first_sentence": count,
        "rows": len(x),
        "features": x.shape[1],
        "other_batch": given.other_batch,
        "batch_of_one": 1 in (len(x), len(given.other)),
        "change_layer": float((layer[:count] - other_layer[:count]).abs().max()),
        "change_batch": float((batch[:count] - other_batch[:count]).abs().max()),
        "largest_mean_of_a_word": float(layer.mean(1).abs().max()),
        "largest_mean_of_a_feature": float(batch.mean(0).abs().max()),
        "features_shown": shown,
        "before": x[:, :shown].tolist(),
        "layer_norm": layer[:, :shown].tolist(),
        "batch_norm": batch[:, :shown].tolist(),
        "batch_norm_otherwise": other_batch[:count, :shown].tolist(),
        "note": given.note,
    }
    source = f"Vectors of {given.source}" if given.source else "Your numbers"
    details = (
        f"{source}, ({given.item}s, features) = {tuple(x.shape)}; drawn are the first "
        f"{shown} features. PyTorch's LayerNorm and BatchNorm1d without learned weights, as in "
        "training, where BatchNorm1d refuses a batch of 1; once trained, batch norm uses averages "
        "over all batches of the training in place of those of this batch, which is why a model of "
        "texts whose batches differ behaves otherwise than in training. After layer norm the mean "
        f"of each {given.item} is 0 (largest: "
        f"{scientific(numbers['largest_mean_of_a_word'])}), after batch norm that of each feature "
        f"({scientific(numbers['largest_mean_of_a_feature'])}). Right: the first {given.whole} in "
        "the other batch. Which norm the original Transformer has and where it stands: `regard "
        "show norms`."
    )
    limits = f"Computed from vectors of {VECTORS} by norms without learned weights; no training."
    if not given.source:
        limits = COMPUTED
    with Board(words_batchnorm(numbers), (1.55, 1, 1, 1), details, limits=limits) as board:
        _draw(board, numbers, of_numbers=not given.source)
        return board.drawing(**numbers)


def _draw(board: Board, numbers: dict[str, Any], *, of_numbers: bool) -> None:
    """Draw the batch before, after layer norm, after batch norm, and in the other batch."""
    labels = map_labels(numbers["words"], LONGEST)
    rows, count = numbers["rows"], numbers["of_the_first_sentence"]
    features = numbers["features_shown"]
    otherwise = np.full((rows, features), np.nan)  # the other examples are not drawn
    otherwise[:count] = numbers["batch_norm_otherwise"]
    names = ("before", "layer_norm", "batch_norm")
    tables = [*(np.array(numbers[name]) for name in names), otherwise]
    headings = ["the batch", "layer norm", "batch norm", "in another batch"]
    normed = max(float(np.nanmax(np.abs(table))) for table in tables[1:])
    reach = max(normed, float(np.abs(tables[0]).max()))
    reaches = [reach if panel == 0 or not of_numbers else normed for panel in range(4)]
    frames = {1: ((0, 0), features, 1), 2: ((0, 0), 1, rows)}
    below = (numbers["item"], f"{features} of {numbers['features']} features")
    for panel, (heading, table) in enumerate(zip(headings, tables, strict=True)):
        row_names = labels if panel == 0 else [""] * rows
        sides = below if panel == 0 else ("", "batch norm" if panel == 3 else "features")
        form = ".4g" if of_numbers and panel == 0 else ".1f"
        values = table if form == ".4g" else table.round(1) + 0.0
        axes = board.matrix(panel, heading, values, signed_scale(max(reaches[panel], 1e-9)),
                            (row_names, [""] * features), sides, form)  # fmt: skip
        axes.axhline(count, color="black", linewidth=2)  # where the first example ends
        if panel in frames:
            corner, width, height = frames[panel]
            axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=ACCENT,
                                     linewidth=4, clip_on=False))  # fmt: skip
