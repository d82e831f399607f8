"""Figure of part 1: an embedding is multiplied by √d_model before its position is added.

Input: a sentence and a translator. Shown: how long the embeddings of its tokens are, before and
after the factor, beside the position vectors; and what happens to the model's own translation if
the factor is another one, so that words or positions drown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from regard import Pipeline, load
from regard.data import Pair
from regard.draw import LINE_STYLES, MUTED, SMALLEST, positive_scale, shorten
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard.models import evaluating
from regard_lectures.limits import model_line

TEXT = "The dog didn't chase the cat because it was too tired."
SHOWN = 8
"""The most tokens in the picture."""
STEPS = (0.25, 0.5, 1, 2, 4)
"""The factors beside 1 and d, in parts of √d."""
SURE, KEPT, LOST = 0.25, 0.9, 0.5
"""A model is sure of its translation from SURE on; below LOST of that it fails, above KEPT not."""
SHORT = 0.5
"""Words drown if their vectors are shorter than this part of the position vectors, or positions."""


def embedding(text: str | None, model: str) -> Drawing:
    """Draw the lengths of embeddings and positions, and a translation with other factors."""
    pipeline = load(model, device="cpu")
    pipeline.translator()
    numbers = measure_embedding(pipeline, TEXT if text is None else text)
    root = numbers["root"]
    details = (
        f"|E|: the length (Euclidean norm) of each token's row of the embedding matrix; |PE|: that "
        f"of the position vector that is added to √d E, with d = {numbers['dim']}. Right: the "
        "probability of each token of the model's own translation, given those before, as a "
        "geometric mean, when encoder and decoder multiply by another factor. Length kept: the sum "
        "is then scaled to its old mean length, so that only the proportion of word to position is "
        "different. The model was trained with the factor √d; one that is trained without it "
        f"may learn longer rows instead. Translations: {_translations(numbers)}"
    )
    with Board(words_embedding(numbers), (1, 1.1), details, limits=model_line(pipeline)) as board:
        width = board.sheet.width - 180
        board.lines(
            [
                f"× {shown:.3g}: {shorten(numbers['answers'][index], width, SMALLEST)}"
                for index, shown in ((0, 1), (_at(numbers, root), root), (-1, numbers["dim"]))
            ]
        )
        tokens, rows = numbers["tokens"][:SHOWN], torch.tensor(numbers["lengths"])
        count = len(numbers["tokens"])
        below = f"the first {SHOWN} of {count} tokens" if count > SHOWN else ""
        columns = ("|E|", "|√d E|", "|PE|")
        board.matrix(0, "lengths of vectors", rows.T[:SHOWN].numpy(),
                     positive_scale(float(rows.max())), (tokens, columns), (below, ""),
                     ".1f")  # fmt: skip
        _draw_factors(board, numbers)
        return board.drawing(**numbers)


def measure_embedding(pipeline: Pipeline, text: str) -> Numbers:
    """The lengths of the vectors of a text, and how a translation fares with other factors.

    Raises:
        InputError: If the model has no such factor, or adds no positions.
    """
    model: Any = pipeline.model
    embeds = model.embeds()
    root, dim = embeds[0].scale, embeds[0].weight.shape[1]
    tokenizer = pipeline.vocabulary.source
    ids = torch.tensor(tokenizer.template(tokenizer.encode(text)))
    rows = embeds[0].weight.detach()[ids]  # E[id], (tokens, dim)
    scheme = getattr(getattr(model, "encoder", None), "positions", None)
    positions = torch.zeros_like(rows)
    if scheme is not None:
        positions = scheme.add(positions, torch.arange(len(ids))).detach()
    if root == 1 or not float(positions.norm()):
        got = "no factor √d" if root == 1 else "no positions that are added to embeddings"
        fix = "try small/translate or tiny/translate"
        raise InputError(f"model: {pipeline.name}", got=got, expected="a Transformer of the paper",
                         fix=fix)  # fmt: skip
    factors = [1.0, *(part * root for part in STEPS), float(dim)]
    translation = pipeline.translate(text, allow_unknown=True)
    batch = pipeline.task.encode([Pair(text, translation)]).batch([0])
    whole = float((rows * root + positions).norm(dim=1).mean())
    answers, changed, length_kept = [], [], []
    for factor in factors:
        with multiplied(embeds, factor):
            answers.append(pipeline.translate(text, allow_unknown=True))
            changed.append(_probability(model, batch))
        now = float((rows * factor + positions).norm(dim=1).mean())
        with multiplied(embeds, factor, whole / now):
            length_kept.append(_probability(model, batch))
    lengths = [rows.norm(dim=1), rows.norm(dim=1) * root, positions.norm(dim=1)]
    return {
        "model": pipeline.name,
        "text": text,
        "dim": dim,
        "root": root,
        "tokens": [token.strip("▁ ") or token for token in tokenizer.tokens(ids.tolist())],
        "lengths": [line.tolist() for line in lengths],
        "factors": factors,
        "answers": answers,
        "probability": changed,
        "probability_length_kept": length_kept,
    }


@contextmanager
def multiplied(embeds: Sequence[Any], factor: float, whole: float = 1.0) -> Iterator[None]:
    """Within this context embeddings are multiplied by another factor.

    Args:
        embeds: The embedding layers of a model.
        factor: The factor of the embedding alone, before the position is added.
        whole: The factor of the sum of embedding and position.
    """
    before = [embed.scale for embed in embeds]
    with ExitStack() as hooks:
        for embed in embeds:
            embed.scale = factor
            hook = embed.register_forward_hook(lambda _, __, output: output * whole)
            hooks.callback(hook.remove)
        try:
            yield
        finally:
            for embed, scale in zip(embeds, before, strict=True):
                embed.scale = scale


def _probability(model: Any, batch: Any) -> float:
    """The geometric mean of the probabilities of the tokens of a translation."""
    with evaluating(model):
        logits: Tensor = model(*batch.sides)
    log_probabilities = logits.log_softmax(-1).gather(1, batch.targets.ids[:, None])
    return float(log_probabilities.mean().exp())


def _at(numbers: Mapping[str, Any], factor: float) -> int:
    """The index of a factor."""
    return int(numbers["factors"].index(factor))


def words_embedding(numbers: Mapping[str, Any]) -> Words:
    """Whether words drown without the factor, and whether the translation needs it."""
    at = _at(numbers, numbers["root"])
    shares = numbers["probability"]
    usual, without = shares[at], shares[0]
    rows, scaled, positions = (sum(line) / len(line) for line in numbers["lengths"])
    drowned = rows < SHORT * positions
    if usual < SURE:
        title = f"The model is unsure of its own translation ({usual:.0%} per token): cannot tell"
    elif without < LOST * usual:
        title = f"Without × √d the translation fails: {usual:.0%} per token fall to {without:.0%}"
    elif without < KEPT * usual:
        title = f"Without × √d the translation suffers: {usual:.0%} per token, then {without:.0%}"
    else:
        title = f"This translation does not need × √d: {usual:.0%} and {without:.0%} per token"
    stand = "drown beside" if drowned else "stand beside"
    first = f"The rows of the embedding ({rows:.1f} long on average) {stand} positions of "
    first += f"{positions:.1f}"
    length_kept = numbers["probability_length_kept"]
    ends = [_verdict(share, usual) for share in (length_kept[0], length_kept[-1])]
    caption = (
        f"{first}; times √d they are {scaled:.1f} long. With the length of the sum kept, the "
        f"translation {ends[0]} for × 1, where words are faint ({length_kept[0]:.0%}), and "
        f"{ends[1]} for × {numbers['dim']}, where positions are ({length_kept[-1]:.0%})."
    )
    return Words(title, caption)


def _verdict(share: float, usual: float) -> str:
    """What became of a translation, as a predicate."""
    if share < LOST * usual:
        return "fails"
    return "suffers" if share < KEPT * usual else "holds"


def _translations(numbers: Numbers) -> str:
    pairs = zip(numbers["factors"], numbers["answers"], strict=True)
    return "; ".join(f"× {factor:.3g}: {answer or 'nothing'}" for factor, answer in pairs)


def _draw_factors(board: Board, numbers: Numbers) -> None:
    """Draw the probability of the translation's tokens by factor, with a line at √d."""
    axes = board.chart(1, "probability of its translation, per token", "factor (dotted: √d)")
    lines = {
        "factor changed": numbers["probability"],
        "and length kept": numbers["probability_length_kept"],
    }
    for (name, line), line_style in zip(lines.items(), LINE_STYLES, strict=False):
        axes.curve(numbers["factors"], line, style=line_style, marker=line_style.marker, label=name,
                   markersize=8)  # fmt: skip
    axes.axvline(numbers["root"], color=MUTED, linestyle=":", linewidth=2)
    ticks = [1, numbers["root"], numbers["dim"]]
    axes.log_axis(
        "x", [round(tick, 1) if not math.isclose(tick % 1, 0) else tick for tick in ticks]
    )
    axes.set_ylim(-0.04, 1.5)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.draw_legend("upper left")
