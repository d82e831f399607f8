"""Figure of part 3: scores with a mask, before the softmax, and the weights after it.

Queries are the rows and keys the columns, as in softmax(QKᵀ/√d)V; `rows=keys` draws them the other
way, as one of the lectures does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.draw import positive_scale, signed_scale
from regard.explain import Board, Drawing, Numbers, Words
from regard.layers import Attention, DotScore, Mask, masked_softmax
from regard_lectures.limits import COMPUTED, model_line
from regard_lectures.map_labels import map_labels
from regard_lectures.own_words import VECTORS, input_phrase, word_vectors

LECTURE_SCORES = (
    (+3.53, +0.80, +1.96, +4.48, +3.74, -1.95),
    (0.0, -0.30, -0.21, +0.82, +0.29, +2.91),
    (0.0, 0.0, +0.89, +0.67, +2.99, -0.41),
    (0.0, 0.0, 0.0, +1.31, +1.73, -1.48),
    (0.0, 0.0, 0.0, 0.0, +3.07, +2.94),
    (0.0, 0.0, 0.0, 0.0, 0.0, +0.31),
)
"""The lecture's scores (key, query) with two decimals; masked entries are 0."""
ALIKE = 4.0
"""The factor of cosines that makes them scores: the score of a word with itself."""
MEANINGS = {
    "causal": "no query attends to a later position",
    "window": "a query attends to positions at most one away",
    "padding": "the last key is padding",
    "none": "every query attends to every key",
}
"""The rules, each with what it says."""


@dataclass(frozen=True)
class Scores:
    """Scores (query, key) before a mask, their labels, and where they come from."""

    table: Tensor
    queries: list[str]
    keys: list[str]
    origin: str
    limits: str = COMPUTED
    remark: str = ""


def mask(text: str | None, rule: str, rows: str, size: int, seed: int) -> Drawing:
    """Draw masked scores (−∞) and the weights after the softmax."""
    scores = _scores(text, rule, size, seed)
    length = len(scores.table)
    allowed = _mask_of(rule, length).dense(length, length)  # (1, 1, query, key), True = allowed
    allowed = torch.ones(length, length, dtype=torch.bool) if allowed is None else allowed
    allowed = allowed.reshape(-1, length).expand(length, length)
    weights = masked_softmax(scores.table, allowed)

    def turn(table: Tensor) -> Tensor:  # (query, key) -> the orientation of the picture
        return table.T if rows == "keys" else table

    numbers: Numbers = {
        "rule": rule,
        "rows": rows,
        "queries": scores.queries,
        "keys": scores.keys,
        "scores": turn(scores.table).tolist(),
        "may_look": turn(allowed).int().tolist(),
        "weights": turn(weights).tolist(),
        "remark": scores.remark,
    }
    details = f"Rule: {MEANINGS[rule]}. {scores.origin}"
    with Board(words_mask(numbers), (1, 1), details, limits=scores.limits) as board:
        labels = map_labels(scores.queries), map_labels(scores.keys)
        sides = ("query", "key")
        if rows == "keys":
            labels, sides = labels[::-1], sides[::-1]
        reach = float(scores.table[allowed].abs().max())
        before = turn(scores.table.masked_fill(~allowed, float("-inf")))
        board.matrix(
            0, "scores, masked", before, signed_scale(reach), labels, sides,
            "+.2f" if length <= 7 else "+.1f",
        )  # fmt: skip
        after = turn(weights.masked_fill(~allowed, float("nan")))  # grey, unlike a small weight
        board.matrix(
            1, "weights, after the softmax", after, positive_scale(1.0), labels, sides,
            ".2f" if length <= 10 else ".1f",
        )  # fmt: skip
        return board.drawing(**numbers)


def words_mask(numbers: Numbers) -> Words:
    """How many cells are masked, what their weights are, and what sums to 1."""
    allowed = np.array(numbers["may_look"], dtype=bool)
    weights = np.array(numbers["weights"])
    axis = 0 if numbers["rows"] == "keys" else 1
    masked, sums = int((~allowed).sum()), weights.sum(axis)
    side = "column" if numbers["rows"] == "keys" else "row"
    to_one = bool(np.allclose(sums, 1.0, atol=1e-5))
    total = f"each {side}, a query, still sums to 1" if to_one else f"not each {side} sums to 1"
    if not masked:
        title = f"Without a mask every query attends to every key; each {side} sums to 1"
        caption = f"No cell is masked, and no weight is 0: the smallest is {weights.min():.2g}."
        if not to_one or not weights.all():
            caption = f"No cell is masked; {int((weights == 0).sum())} weights are 0."
    else:
        zeros = int((weights[~allowed] == 0).sum())
        title = f"A mask before the softmax: {zeros} weights of {weights.size} are exactly 0"
        caption = f"{masked} scores become −∞ ({MEANINGS[numbers['rule']]}; grey cells); {total}."
    return Words(title, f"{caption} {numbers['remark']}".strip())


def _mask_of(rule: str, length: int) -> Mask:
    return {
        "causal": Mask(causal=True),
        "window": Mask(window=1),
        "padding": Mask(key_lengths=(length - 1,)),
        "none": Mask(),
    }[rule]


def _scores(text: str | None, rule: str, size: int, seed: int) -> Scores:
    """Scores (query, key) of the lecture, of a sentence's words, or random ones."""
    if text is not None:
        given = word_vectors(text)
        unit = F.normalize(given.vectors, dim=-1)  # (word, dim)
        return Scores(
            DotScore(ALIKE).scores(unit, unit),
            given.labels,
            given.labels,
            f"Scores: {ALIKE:g} times the cosine of the vectors of two words, which is largest for "
            "a word with itself.",
            model_line(VECTORS),
            input_phrase(given.total, len(given.words), given.stand_ins),
        )
    queries, keys = ([f"{side}{i + 1}" for i in range(size)] for side in "QK")
    if size == len(LECTURE_SCORES) and rule == "causal":
        return Scores(
            torch.tensor(LECTURE_SCORES).T,
            queries,
            keys,
            "The lecture's 6×6 example. 20 of its 21 weights agree with the slide to the last "
            "printed digit; 0.4652 (Q5, K1) is printed there as 0.46, because the slide was "
            "computed from scores with more digits.",
        )
    torch.manual_seed(seed)
    head, x = Attention(32, heads=1), torch.randn(size, 32)
    q, (k, _) = head.query(x), head.key_value(x).chunk(2, dim=-1)
    return Scores(
        4 * head.score.scores(q, k).detach(),
        queries,
        keys,
        f"Scores of an untrained attention head on random vectors, times 4; seed {seed}.",
        f"One untrained head, random vectors, scores times 4, seed {seed}: no training.",
    )
