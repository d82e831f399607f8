"""Figures of part 3: softmax, √d_k, the learned similarity, masks.

Each is computed with the layers of the models: `DotScore`, `masked_softmax`, `Mask`, `Attention`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard import vectors
from regard.draw import (
    BLUE,
    LINE_STYLES,
    MUTED,
    ORANGE,
    SMALLEST,
    Chart,
    LineStyle,
    positive_scale,
    scientific,
    signed_scale,
    text_width,
)
from regard.errors import InputError
from regard.explain import Board, Drawing
from regard.layers import Attention, DotScore, Mask, masked_softmax
from regard.train import Adam
from regard_lectures.figures.descent import descend

LECTURE_NUMBERS = (-8.96, 8.84, -2.15, 4.1)
"""The lecture's example of a softmax, whose slide computes exp(-x) by mistake."""

LECTURE_SCORES = (
    (+3.53, +0.80, +1.96, +4.48, +3.74, -1.95),
    (0.0, -0.30, -0.21, +0.82, +0.29, +2.91),
    (0.0, 0.0, +0.89, +0.67, +2.99, -0.41),
    (0.0, 0.0, 0.0, +1.31, +1.73, -1.48),
    (0.0, 0.0, 0.0, 0.0, +3.07, +2.94),
    (0.0, 0.0, 0.0, 0.0, 0.0, +0.31),
)
"""The lecture's scores (key, query) with two decimals; masked entries are 0."""

MARKS_OF_TEXT = ".,;:!?"
"""Punctuation that is stripped from a word before its vector is looked up."""

ALIKE = 4.0
"""The factor of cosines that makes them scores: the score of a word with itself."""

PAIRS = "fluffy creature blue sky verdant forest old king"


def softmax(text: str | None) -> Drawing:
    """The softmax exp(x_i) / Σ_j exp(x_j) of the lecture's numbers or the user's own."""
    x = torch.tensor(_numbers(text), dtype=torch.float64)
    weights = masked_softmax(x, None)
    is_given = text is not None
    positive = "Every share is positive" if weights.all() else "Shares below 10⁻³⁰⁸ are 0 here"
    caption = f"{positive}, and their sum is {float(weights.sum()):.6g}."
    details = "softmax(x)ᵢ = exp(xᵢ) / Σⱼ exp(xⱼ), computed in double precision."
    wrong = masked_softmax(-x, None)
    if not is_given:
        caption = (
            f"The largest number gets a share of {float(weights[1]):.4f}; the slide computes "
            "exp(−x) by mistake, so that the smallest number gets it."
        )
        details += (
            f" {positive}, and their sum is {float(weights.sum()):.6g}. The slide computes exp(−x) "
            "and prints the shares on the right, where the smallest number gets nearly everything."
        )
    panels = [("the numbers x", x, BLUE), ("softmax(x)", weights, BLUE)]
    panels += [] if is_given else [("the slide: exp(−x)", wrong, ORANGE)]
    with Board(caption, [1] * len(panels), details) as board:
        for panel, (heading, values, colour) in enumerate(panels):
            axes = board.chart(panel, heading)
            _draw_numbers(axes, x, values, colour, shares=panel > 0)
        numbers = {"x": x.tolist(), "weights": weights.tolist(), "sum": float(weights.sum())}
        slide = {} if is_given else {"slide_exp_of_minus_x": wrong.tolist()}
        return board.drawing(**(numbers | slide))


def _draw_numbers(axes: Chart, x: Tensor, values: Tensor, colour: str, *, shares: bool) -> None:
    """Draw a bar per value, with the value above it if it fits.

    Args:
        axes: The axes.
        x: The input numbers, as tick labels.
        values: The heights of the bars: the numbers, or their softmax.
        colour: The colour of the bars.
        shares: Whether the values are a softmax.
    """
    count = len(x)
    bar_width = axes.get_window_extent().width / count
    names = [f"{value:g}".replace("-", "−") for value in x.tolist()]
    if not shares or max(text_width(name, SMALLEST) for name in names) > bar_width:
        names = [f"x{number + 1}" for number in range(count)]
    axes.bar(range(count), values.tolist(), color=colour, width=0.6)
    axes.set_xticks(range(count), names)
    axes.grid(visible=False, axis="x")
    written = [_share(value, count) if shares else f"{value:.4g}" for value in values.tolist()]
    if max(text_width(text, SMALLEST) for text in written) <= bar_width:
        for index, (value, text) in enumerate(zip(values.tolist(), written, strict=True)):
            up = value >= 0
            axes.write_beside((index, value), text.replace("-", "−"), xytext=(0, 4 if up else -4),
                   va="bottom" if up else "top")  # fmt: skip
    if shares:
        axes.set_ylim(0, 1.1)
    else:
        axes.margins(y=0.14)
        axes.axhline(0, color=MUTED, linewidth=1)


def _share(value: float, count: int) -> str:
    """A softmax value as text: two digits if there are many, else four or a power of ten."""
    if count > 6:
        return f"{value:.2f}"
    if value > 1e-4 or value == 0:
        return f"{value:.4f}"
    exponent = math.floor(math.log10(value))
    return scientific(round(value / 10**exponent) * 10.0**exponent)


def _numbers(text: str | None) -> list[float]:
    if text is None:
        return list(LECTURE_NUMBERS)
    try:
        numbers = [float(word) for word in text.replace(",", " ").split()]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 12 or not all(map(math.isfinite, numbers)):
        raise InputError("--text", got=repr(text), expected="1 to 12 numbers, as in '1.0 2.5 -3'")
    return numbers


def scaling(keys: int, seed: int) -> Drawing:
    """Draw the variance of q·k, and the softmax's largest weight and gradient, with and without √d.

    Args:
        keys: The number of keys.
        seed: The seed of queries and keys.
    """
    torch.manual_seed(seed)
    dims = [2**power for power in range(2, 11)]  # 4 … 1024
    queries = 512
    kinds = {"q·k": "plain", "q·k / √d": "scaled"}
    curves: dict[str, list[list[float]]] = {kind: [] for kind in kinds.values()}
    for dim in dims:
        q, k = torch.randn(queries, dim), torch.randn(keys, dim)
        for kind, scale in (("plain", 1.0), ("scaled", dim**-0.5)):
            scores = DotScore(scale).scores(q, k)  # (query, key)
            curves[kind].append(_softmax_at(scores))
    caption = (
        "The variance of q·k is d, so for large d the softmax saturates and its gradient vanishes; "
        "divided by √d, both are independent of d."
    )
    details = (
        f"{queries} queries and {keys} keys with independent normal components, seed {seed}. With "
        "a variance of d, the softmax puts all its weight on one key, and the gradient through "
        "it, ∂(u·softmax(s))/∂s for a random u, vanishes. Lines: the median over the queries. "
        "Bands: the middle half. Dotted: d itself. Gradients are computed by autograd."
    )
    styles = dict(zip(kinds, LINE_STYLES[1::-1], strict=True))
    with Board(caption, (1, 1, 1), details) as board:
        board.legend({**styles, "d": LineStyle(MUTED, ":")})
        headings = "variance of scores", "largest weight", "size of the gradient"
        for column, heading in enumerate(headings):
            axes = board.chart(column, heading, "width d of q and k", "")
            for label, kind in kinds.items():
                style = styles[label]
                middle = [row[column] for row in curves[kind]]
                axes.curve(dims, middle, style=style, marker=style.marker)
                if column:
                    low, high = ([row[column + shift] for row in curves[kind]] for shift in (2, 4))
                    axes.fill_between(dims, low, high, color=style.colour, alpha=0.15, linewidth=0)
            axes.log_axis("x", [4, 16, 64, 256, 1024])
            if column == 0:
                axes.plot(dims, dims, color=MUTED, linewidth=1.6, linestyle=":")
                axes.log_axis("y", [1, 10, 100, 1000])
            elif column == 1:
                axes.set_ylim(0, 1.02)
            else:
                axes.log_axis("y", [10.0**e for e in range(-7, 1)])
        return board.drawing(
            dims=dims,
            **{
                f"{name}_{kind}": [row[column] for row in curves[kind]]
                for kind in kinds.values()
                for column, name in enumerate(("variance", "largest_weight", "gradient"))
            },
        )


def _softmax_at(scores: Tensor) -> list[float]:
    """Statistics of a softmax over scores (query, key), with a random upstream gradient.

    Returns:
        Variance of the scores, median largest weight, median gradient norm; then the first
        quartiles of the latter two, then their third quartiles.
    """
    scores = scores.detach().requires_grad_()
    weights = masked_softmax(scores, None)
    upstream = torch.randn_like(weights)
    (gradient,) = torch.autograd.grad((weights * upstream).sum(), scores)
    largest, norm = weights.amax(-1).detach(), gradient.norm(dim=-1)
    quartiles = torch.tensor([0.25, 0.75])
    (low, high), (small, great) = largest.quantile(quartiles), norm.quantile(quartiles)
    figures = [scores.detach().var(), largest.median(), norm.median(), low, small, high, great]
    return [float(figure) for figure in figures]


def bilinear(text: str | None, dim: int, steps: int, seed: int) -> Drawing:
    """Compare the similarity x xᵀ with x W_q W_kᵀ xᵀ after training W_q and W_k."""
    words = (text or PAIRS).split()
    if len(words) % 2 or not 2 <= len(words) <= 16 or len(set(words)) < len(words):
        raise InputError(
            "--text",
            got=repr(text),
            expected="1 to 8 pairs of adjective and noun, all words different",
            fix=f"as in '{PAIRS}'",
        )
    torch.manual_seed(seed)
    x = F.normalize(torch.randn(len(words), dim), dim=-1) * dim**0.5  # (word, dim), equal lengths
    nouns = torch.arange(1, len(words), 2)
    target = torch.zeros(len(words), len(words))  # (query, key)
    target[nouns, nouns - 1] = 1.0  # a noun attends to its adjective; all other pairs are 0
    plain = DotScore(dim**-0.5).scores(x, x)
    shared, shared_losses = _train_scores(x, target, steps, shared=True)
    learned, losses = _train_scores(x, target, steps, shared=False)
    judged = {
        name: _judged(table, target)
        for name, table in (("plain", plain), ("shared", shared), ("learned", learned))
    }
    fixed = float(F.binary_cross_entropy_with_logits(plain, target))
    pairs, never = len(nouns), float((target == 0).float().mean())
    caption, details = _bilinear_texts(judged, pairs, never)
    details += (
        f" {len(words)} random word vectors of width {dim} and equal length; W_q and W_k of one "
        f"attention head, {steps} steps of Adam, seed {seed}."
    )
    with Board(caption, (1, 1, 0.8), details) as board:
        headings = "dot product: x xᵀ", "learned: x W_q W_kᵀ xᵀ"
        labels, sides = (words, words), ("query", "key")
        for panel, table in enumerate((plain, learned)):
            board.matrix(
                panel, headings[panel], table.sigmoid(), positive_scale(), labels, sides, ".1f"
            )
        axes = board.chart(2, "learning", "step", "cross-entropy")
        lines = {"x xᵀ": [fixed] * steps, "W_q = W_k": shared_losses, "W_q, W_k": losses}
        for (label, line), style in zip(lines.items(), LINE_STYLES[2::-1], strict=True):
            axes.curve(range(1, steps + 1), line, style=style, label=label)
        axes.set_ylim(0, max(fixed, losses[0], shared_losses[0]) * 1.6)
        axes.draw_legend("upper right")
        return board.drawing(
            **{f"right_{name}": judgement.right for name, judgement in judged.items()},
            **{f"found_{name}": judgement.hits for name, judgement in judged.items()},
            **{f"false_{name}": judgement.false for name, judgement in judged.items()},
            pairs=pairs,
            right_always_no=never,
            asymmetry_plain=float((plain - plain.T).abs().max()),
            asymmetry_learned=float((learned - learned.T).abs().max()),
            loss_plain=fixed,
            loss_shared=shared_losses[-1],
            loss_learned=losses[-1],
            scores_plain=plain.tolist(),
            scores_learned=learned.tolist(),
        )


@dataclass(frozen=True)
class Judged:
    """Scores above 0 as binary predictions, compared with the targets."""

    right: float
    """The accuracy over all cells; most cells are negative."""
    hits: int
    """The number of true positives."""
    false: int
    """The number of false positives."""


def _bilinear_texts(judged: dict[str, Judged], pairs: int, never: float) -> tuple[str, str]:
    """The caption and the details."""
    plain, shared, learned = judged["plain"], judged["shared"], judged["learned"]
    caption = (
        f"The dot product finds {plain.hits} of {pairs} pairs with {plain.false} false alarms; "
        f"with learned matrices it finds {learned.hits}, with {learned.false} false alarms."
    )
    details = (
        "Each cell answers: does this key matter to this query? An adjective matters to its noun, "
        "the noun does not matter to its adjective. x xᵀ is symmetric and largest for a word with "
        f"itself, and has nothing to learn: {plain.right:.0%} of the cells are right, which is "
        f"little, since always answering no is right in {never:.0%}. With learned W_q and W_k, "
        f"{learned.right:.0%} are right. With W_q = W_k the scores stay symmetric: {shared.hits} "
        f"pairs found, {shared.false} false alarms. Shown is the sigmoid of the score, the "
        "probability that the key matters."
    )
    return caption, details


def _judged(scores: Tensor, target: Tensor) -> Judged:
    yes, wanted = scores > 0, target > 0
    return Judged(
        float(yes.eq(wanted).float().mean()), int((yes & wanted).sum()), int((yes & ~wanted).sum())
    )


def _train_scores(
    x: Tensor, target: Tensor, steps: int, *, shared: bool
) -> tuple[Tensor, list[float]]:
    """Train the query and key matrices of one head to predict the targets.

    Args:
        x: (word, dim)
        target: (query, key) 1 where the key matters to the query, else 0.
        steps: The number of training steps.
        shared: Use the same matrix for queries and keys.

    Returns:
        The final scores (query, key), and the loss of each step.
    """
    head = Attention(x.shape[-1], heads=1, bias=False)
    trained = [head.query.weight] if shared else [head.query.weight, head.key_value.weight]
    optimizer = Adam(trained, lr=0.02)

    def scores() -> Tensor:
        q = head.query(x)
        k = q if shared else head.key_value(x).chunk(2, dim=-1)[0]
        return head.score.scores(q, k)  # (query, key)

    losses = []
    for _ in range(steps):
        loss = F.binary_cross_entropy_with_logits(scores(), target)
        losses.append(descend(optimizer, loss))
    return scores().detach(), losses


def mask(text: str | None, rule: str, rows: str, size: int, seed: int) -> Drawing:
    """Draw masked scores (−∞) and the weights after the softmax."""
    words = text.split() if text is not None else []
    if text is not None and not 2 <= len(words) <= 12:
        raise InputError("--text", got=f"{len(words)} words", expected="2 to 12")
    length = len(words) or size
    lecture = not words and size == len(LECTURE_SCORES) and rule == "causal"
    scores, origin = _scores_to_mask(words, length, seed, lecture=lecture)
    rules = {
        "causal": (Mask(causal=True), "no query attends to a later position"),
        "window": (Mask(window=1), "a query attends to positions at most one away"),
        "padding": (Mask(key_lengths=(length - 1,)), "the last key is padding"),
        "none": (Mask(), "every query attends to every key"),
    }
    chosen, meaning = rules[rule]
    allowed = chosen.dense(length, length)  # (1, 1, query, key), True = allowed
    allowed = torch.ones(length, length, dtype=torch.bool) if allowed is None else allowed
    allowed = allowed.reshape(-1, length).expand(length, length)
    weights = masked_softmax(scores, allowed)
    before = scores.masked_fill(~allowed, float("-inf"))
    sums = "columns" if rows == "keys" else "rows"

    def turn(table: Tensor) -> Tensor:  # (query, key) -> the orientation of the picture
        return table.T if rows == "keys" else table

    shape = "in the lecture" if rows == "keys" else "in softmax(QKᵀ/√d)V"
    said = f" ({meaning})" if rule != "none" else ""
    caption = (
        f"Where attention is not allowed{said}, the score becomes −∞ and the weight exactly 0; "
        f"{sums} sum to 1."
    )
    details = f"The rows are {rows}, as {shape}. Rule: {meaning}. {origin}"
    with Board(caption, (1, 1), details) as board:
        q_names = words or [f"Q{i + 1}" for i in range(length)]
        k_names = words or [f"K{i + 1}" for i in range(length)]
        labels = (k_names, q_names) if rows == "keys" else (q_names, k_names)
        sides = ("keys", "queries") if rows == "keys" else ("queries", "keys")
        reach = float(scores[allowed].abs().max())
        written = "+.2f" if length <= 7 else "+.1f"
        board.matrix(0, "scores, masked", turn(before), signed_scale(reach), labels, sides, written)
        board.matrix(
            1, "weights, after the softmax", turn(weights), positive_scale(1.0), labels, sides,
            ".2f" if length <= 10 else ".1f",
        )  # fmt: skip
        return board.drawing(
            scores=turn(scores).tolist(),
            may_look=turn(allowed).int().tolist(),
            weights=turn(weights).tolist(),
        )


def _scores_to_mask(
    words: list[str], length: int, seed: int, *, lecture: bool
) -> tuple[Tensor, str]:
    """Scores (query, key) of the lecture, of words, or random ones; and where they come from."""
    if lecture:
        return torch.tensor(LECTURE_SCORES).T, (
            "The lecture's 6×6 example. 20 of its 21 weights agree with the slide to the last "
            "printed digit; 0.4652 (Q5, K1) is printed there as 0.46, because the slide was "
            "computed from scores with more digits."
        )
    if words:
        table = vectors("words/glove")
        x = torch.from_numpy(np.stack([table[word.strip(MARKS_OF_TEXT)] for word in words]))
        unit = F.normalize(x, dim=-1)  # (word, dim)
        return DotScore(ALIKE).scores(unit, unit), (
            f"Scores: {ALIKE:g} times the cosine of the GloVe vectors of two words, which is "
            "largest for a word with itself."
        )
    torch.manual_seed(seed)
    head = Attention(32, heads=1)
    x = torch.randn(length, 32)
    q, (k, _) = head.query(x), head.key_value(x).chunk(2, dim=-1)
    origin = f"Scores of an untrained attention head on random vectors, times 4; seed {seed}."
    return 4 * head.score.scores(q, k).detach(), origin
