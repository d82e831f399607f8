"""Figure of part 5: which numbers layer norm and batch norm average over.

    layer norm   (x_{i,j} − mean_j x_{i,j}) / √(var_j x_{i,j} + ε)   over the features j of one word
    batch norm   (x_{i,j} − mean_i x_{i,j}) / √(var_i x_{i,j} + ε)   over the words i of the batch

So batch norm makes of one sentence something else if its neighbours in the batch change. Measured
on word vectors of a person's own sentences, with PyTorch's two layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from regard.draw import ACCENT, scientific, signed_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard_lectures.map_labels import map_labels
from regard_lectures.own_words import VECTORS, WordInput, input_phrase, word_vectors

SENTENCES = "the dog runs / oil prices fell again / the storm hit the coast"
FIRST, OTHERS, MOST = 5, 5, 2
"""The most words of the first sentence and of each other one, and the most other sentences."""
FEATURES = 3
"""Features that are drawn; all are computed."""
SAME = 1e-6
"""Numbers that differ by less are the same."""
LONGEST = 150
"""Pixels: longer words are cut in labels."""


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
    """Words (n, dim) after layer norm and after batch norm, as in training and without weights."""
    layer = nn.LayerNorm(x.shape[1], elementwise_affine=False)
    batch = nn.BatchNorm1d(x.shape[1], affine=False, track_running_stats=False)
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
        title = "With these neighbours neither norm changes the first sentence"
    layer, batch = (scientific(float(f"{change:.2g}")) for change in changes.values())
    verb = "changes" if changing else "does not change"
    caption = (
        f"Layer norm averages over all {numbers['features']} features of a word (framed row), "
        f"batch norm over all {numbers['rows']} words (framed column). {numbers['other_batch']} "
        f"the first sentence {verb}: by at most {layer} after layer norm, {batch} after batch norm."
    )
    return Words(title, f"{caption} {numbers['note']}".strip())


def batchnorm(text: str | None) -> Drawing:
    """Draw a batch of words before and after each norm, and the first sentence in another batch.

    Args:
        text: Sentences with slashes between them; None: the example.
    """
    first, neighbour, *others = read_sentences(text)
    count = len(first.words)
    x = torch.cat((first.vectors, neighbour.vectors))  # (words, features)
    other = torch.cat((first.vectors, *(sentence.vectors for sentence in others)))
    layer, batch = normalized(x)
    other_layer, other_batch = normalized(other)
    labels = [*first.labels, *neighbour.labels]
    stand_ins = [word for sentence in (first, neighbour, *others) for word in sentence.stand_ins]
    cut = [
        f"Of sentence {number} the first {len(sentence.words)} of {sentence.total} words are read."
        for number, sentence in enumerate((first, neighbour, *others), 1)
        if sentence.total > len(sentence.words)
    ]
    notes = [*cut, input_phrase(0, 0, list(dict.fromkeys(stand_ins)))]
    numbers: Numbers = {
        "words": labels,
        "other_words": [word for sentence in others for word in sentence.labels],
        "of_the_first_sentence": count,
        "rows": len(x),
        "features": x.shape[1],
        "other_batch": f"With “{' '.join(others[0].words)}” in place of the second sentence"
        if others
        else "Alone in its batch",
        "change_layer": float((layer[:count] - other_layer[:count]).abs().max()),
        "change_batch": float((batch[:count] - other_batch[:count]).abs().max()),
        "largest_mean_of_a_word": float(layer.mean(1).abs().max()),
        "largest_mean_of_a_feature": float(batch.mean(0).abs().max()),
        "features_shown": FEATURES,
        "before": x[:, :FEATURES].tolist(),
        "layer_norm": layer[:, :FEATURES].tolist(),
        "batch_norm": batch[:, :FEATURES].tolist(),
        "batch_norm_otherwise": other_batch[:count, :FEATURES].tolist(),
        "note": " ".join(filter(None, notes)),
    }
    details = (
        f"Vectors of {VECTORS}, (words, features) = {tuple(x.shape)}; drawn are the first "
        f"{FEATURES} features. PyTorch's LayerNorm and BatchNorm1d without learned weights, as in "
        "training; once trained, batch norm uses averages over all batches of the training in "
        "place of those of this batch, which is why a model of texts whose batches differ behaves "
        "otherwise than in training. After layer norm the mean of each word is 0 (largest: "
        f"{scientific(numbers['largest_mean_of_a_word'])}), after batch norm that of each feature "
        f"({scientific(numbers['largest_mean_of_a_feature'])}). Right: the first sentence in the "
        "other batch. Which norm the original Transformer has and where it stands: `regard show "
        "norms`."
    )
    limits = f"Computed from vectors of {VECTORS} by norms without learned weights; no training."
    with Board(words_batchnorm(numbers), (1.55, 1, 1, 1), details, limits=limits) as board:
        _draw(board, numbers)
        return board.drawing(**numbers)


def _draw(board: Board, numbers: dict[str, Any]) -> None:
    """Draw the batch before, after layer norm, after batch norm, and in the other batch."""
    labels = map_labels(numbers["words"], LONGEST)
    rows, count = numbers["rows"], numbers["of_the_first_sentence"]
    otherwise = np.full((rows, FEATURES), np.nan)  # the other sentence is not drawn
    otherwise[:count] = numbers["batch_norm_otherwise"]
    names = ("before", "layer_norm", "batch_norm")
    tables = [*(np.array(numbers[name]) for name in names), otherwise]
    headings = ["the batch", "layer norm", "batch norm", "in another batch"]
    reach = max(float(np.nanmax(np.abs(table))) for table in tables)
    frames = {1: ((0, 0), FEATURES, 1), 2: ((0, 0), 1, rows)}
    below = ("word", f"{FEATURES} of {numbers['features']} features")
    for panel, (heading, table) in enumerate(zip(headings, tables, strict=True)):
        row_names = labels if panel == 0 else [""] * rows
        sides = below if panel == 0 else ("", "batch norm" if panel == 3 else "features")
        axes = board.matrix(panel, heading, table.round(1) + 0.0, signed_scale(reach),
                            (row_names, [""] * FEATURES), sides, ".1f")  # fmt: skip
        axes.axhline(count, color="black", linewidth=2)  # where the first sentence ends
        if panel in frames:
            corner, width, height = frames[panel]
            axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=ACCENT,
                                     linewidth=4, clip_on=False))  # fmt: skip
