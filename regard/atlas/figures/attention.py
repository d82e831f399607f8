"""Figures of part 3: softmax, √d_k, the learned similarity, masks.

Each is computed by the layers that the models are made of: `DotScore`, `masked_softmax`, `Mask`,
`Attention`.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.atlas.drawing import (
    BLUE,
    ORANGE,
    STROKES,
    Board,
    Drawing,
    floats,
    key,
    power,
    powers,
    signed_scale,
    weights_scale,
)
from regard.atlas.figures.descent import descend
from regard.errors import InputError
from regard.explain.colours import INK, MUTED
from regard.explain.sheet import points
from regard.layers import Attention, DotScore, Mask, masked_softmax
from regard.train.adam import Adam

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
"""The lecture's scores, keys × queries, to two decimals; zeros stand where its mask is."""

PAIRS = "fluffy creature blue sky verdant forest old king"


def softmax(text: str | None) -> Drawing:
    """Shares exp(x_i) / Σ_j exp(x_j) of the lecture's numbers or one's own."""
    x = torch.tensor(_numbers(text), dtype=torch.float64)
    weights = masked_softmax(x, None)
    own = text is not None
    positive = "Every share is positive" if weights.all() else "A share below 10⁻³⁰⁸ is 0 here"
    caption = (
        "softmax(x)ᵢ = exp(xᵢ) / Σⱼ exp(xⱼ), computed in double precision. "
        f"{positive}, and they sum to {float(weights.sum()):.6g}."
    )
    wrong = masked_softmax(-x, None)
    if not own:
        caption += (
            " The slide writes exp(−x) and so prints the shares on the right: its smallest number "
            f"gets nearly everything. Rightly, the largest does: 8.84 gets {float(weights[1]):.4f}."
        )
    with Board(
        "Softmax: any numbers become shares that sum to 1", caption, (1, 1) if own else (1, 1, 1)
    ) as board:
        names = [f"{value:g}".replace("-", "−") for value in x.tolist()]
        panels = [("the numbers x", x, BLUE), ("softmax(x): exp(x) / sum", weights, BLUE)]
        if not own:
            panels.append(("the slide: exp(−x) / sum", wrong, ORANGE))
        for place, (heading, values, colour) in enumerate(panels):
            axes = board.chart(place, heading, "x" if place else "", "x" if place == 0 else "share")
            axes.bar(range(len(x)), values.tolist(), color=colour, width=0.6)
            axes.set_xticks(range(len(x)), names if place else [f"x{i + 1}" for i in range(len(x))])
            axes.grid(visible=False, axis="x")
            axes.margins(y=0.12)
            for i, value in enumerate(values.tolist()):
                written = f"{value:g}" if place == 0 else _share(value, len(x))
                axes.annotate(
                    written.replace("-", "−"),
                    (i, value),
                    xytext=(0, 4 if value >= 0 else -4),
                    textcoords="offset points",
                    ha="center",
                    fontsize=points(14),
                    color=INK,
                    va="bottom" if value >= 0 else "top",
                )
            if place == 0:
                axes.axhline(0, color=MUTED, linewidth=1)
            else:
                axes.set_ylim(0, 1.1)
        numbers = {"x": floats(x), "weights": floats(weights), "sum": float(weights.sum())}
        return board.drawing(numbers if own else {**numbers, "slide_exp_of_minus_x": floats(wrong)})


def _share(value: float, count: int) -> str:
    """A share in as many digits as there is room for."""
    if count > 6:
        return f"{value:.2f}"
    return f"{value:.4f}" if value > 1e-4 else power(value)


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
    """Variance of q·k, largest weight and gradient of the softmax, with and without 1/√d."""
    torch.manual_seed(seed)
    dims = [2**power for power in range(2, 11)]  # 4 … 1024
    queries = 512
    kinds = {"q·k": "plain", "q·k / √d": "scaled"}
    found: dict[str, list[list[float]]] = {kind: [] for kind in kinds.values()}
    for dim in dims:
        q, k = torch.randn(queries, dim), torch.randn(keys, dim)
        for kind, scale in (("plain", 1.0), ("scaled", dim**-0.5)):
            scores = DotScore(scale).scores(q, k)  # (query, key)
            found[kind].append(_softmax_at(scores))
    caption = (
        f"Queries and keys with independent normal components; {queries} queries, {keys} keys, "
        f"seed {seed}. The variance of q·k is d, so the softmax puts all its weight on one key, "
        "and the gradient that comes back through it, ∂(u·softmax(s))/∂s for a random u, "
        "vanishes. Lines: median over the queries; bands: the middle half. Divided by √d, nothing "
        "changes with d. Gradients by autograd."
    )
    with Board(
        "Why √d_k: large products saturate the softmax, and its gradient vanishes",
        caption,
        (1, 1, 1),
    ) as board:
        panels = [
            ("variance of the scores", "variance", 0),
            ("largest softmax weight", "weight", 1),
            ("gradient through the softmax", "norm", 2),
        ]
        for place, (heading, up, column) in enumerate(panels):
            axes = board.chart(place, heading, "width d of q and k", up)
            for (label, kind), (colour, dash) in zip(kinds.items(), STROKES[1::-1], strict=True):
                middle = [row[column] for row in found[kind]]
                axes.plot(
                    dims,
                    middle,
                    color=colour,
                    linestyle=dash,
                    linewidth=2.4,
                    marker="o",
                    label=label,
                )
                if column:
                    low, high = ([row[column + shift] for row in found[kind]] for shift in (2, 4))
                    axes.fill_between(dims, low, high, color=colour, alpha=0.15, linewidth=0)
            powers(axes, "x", [4, 16, 64, 256, 1024])
            if column == 0:
                axes.plot(dims, dims, color=MUTED, linewidth=1, linestyle=":", label="d")
                powers(axes, "y", [1, 10, 100, 1000])
            elif column == 1:
                axes.set_ylim(0, 1.02)
            else:
                powers(axes, "y", [10.0**e for e in range(-7, 1)])
            key(axes, "center right" if column == 1 else "best")
        return board.drawing(
            {
                "dims": dims,
                **{
                    f"{name}_{kind}": [row[column] for row in found[kind]]
                    for kind in kinds.values()
                    for column, name in enumerate(("variance", "largest_weight", "gradient"))
                },
            }
        )


def _softmax_at(scores: Tensor) -> list[float]:
    """Variance; largest weight and gradient norm, each its median, then their quartiles."""
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
    """What matters to whom by x xᵀ, and by x W_q W_kᵀ xᵀ after training W_q and W_k."""
    words = (text or PAIRS).split()
    if len(words) % 2 or not 2 <= len(words) <= 16 or len(set(words)) < len(words):
        raise InputError(
            "--text",
            got=repr(text),
            expected="1 to 8 pairs of adjective and noun, all words different",
            fix=f"as in '{PAIRS}'",
        )
    torch.manual_seed(seed)
    x = F.normalize(torch.randn(len(words), dim), dim=-1) * dim**0.5  # (word, dim), all as long
    nouns = torch.arange(1, len(words), 2)
    target = torch.zeros(len(words), len(words))  # (query, key)
    target[nouns, nouns - 1] = 1.0  # its adjective matters to a noun; nothing else to anything
    plain = DotScore(dim**-0.5).scores(x, x)
    shared, shared_losses = _train_scores(x, target, steps, shared=True)
    learned, losses = _train_scores(x, target, steps, shared=False)
    tables = plain, shared, learned
    right = [float((table > 0).eq(target > 0).float().mean()) for table in tables]
    fixed = float(F.binary_cross_entropy_with_logits(plain, target))
    caption = (
        "The question of every cell: does this key matter to this query? Wanted: its adjective to "
        f"a noun, not the noun to its adjective. {len(words)} random word vectors of {dim}, all of "
        "one length. x xᵀ is symmetric and largest of a word with itself: nothing to learn, "
        f"{right[0]:.0%} of the cells judged rightly. W_q and W_k of one attention head, {steps} "
        f"steps of Adam: {right[2]:.0%}. With W_q = W_k it stays symmetric: {right[1]:.0%}. "
        f"σ turns a score into the probability that it matters. Seed {seed}."
    )
    with Board(
        "A learned similarity: the dot product has nothing to learn", caption, (1, 1, 0.8)
    ) as board:
        headings = "σ(x xᵀ / √d)", "σ(x W_q W_kᵀ xᵀ / √d), learned"
        labels, sides = (words, words), ("query", "key")
        written = ".2f" if len(words) <= 8 else ""
        for place, table in enumerate((plain, learned)):
            board.matrix(
                place, headings[place], table.sigmoid(), weights_scale(), labels, sides, written
            )
        axes = board.chart(2, "learning what matters", "step", "cross-entropy")
        lines = {"x xᵀ": [fixed] * steps, "W_q = W_k": shared_losses, "W_q and W_k": losses}
        for (label, line), (colour, dash) in zip(lines.items(), STROKES[2::-1], strict=True):
            axes.plot(
                range(1, steps + 1), line, color=colour, linestyle=dash, linewidth=2.4, label=label
            )
        axes.set_ylim(0, max(fixed, losses[0], shared_losses[0]) * 1.35)
        key(axes, "upper right")
        return board.drawing(
            {
                "right_plain": right[0],
                "right_shared": right[1],
                "right_learned": right[2],
                "asymmetry_plain": float((plain - plain.T).abs().max()),
                "asymmetry_learned": float((learned - learned.T).abs().max()),
                "loss_plain": fixed,
                "loss_shared": shared_losses[-1],
                "loss_learned": losses[-1],
                "scores_plain": floats(plain),
                "scores_learned": floats(learned),
            }
        )


def _train_scores(
    x: Tensor, target: Tensor, steps: int, *, shared: bool
) -> tuple[Tensor, list[float]]:
    """Trains one head's query and key matrices to tell what matters: (scores, losses)."""
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
    """Scores with a mask's −∞, and the weights after the softmax."""
    words = text.split() if text is not None else []
    if text is not None and not 2 <= len(words) <= 12:
        raise InputError("--text", got=f"{len(words)} words", expected="2 to 12")
    length = len(words) or size
    lecture = not words and size == len(LECTURE_SCORES) and rule == "causal"
    if lecture:
        scores = torch.tensor(LECTURE_SCORES).T  # (query, key)
        origin = (
            "The lecture's 6×6 example. Its weights are the slide's: 20 of 21 agree to the last "
            "printed digit; 0.4652 (Q5, K1) is printed as 0.46: the slide's own scores had more "
            "digits."
        )
    else:
        torch.manual_seed(seed)
        head = Attention(32, heads=1)
        x = torch.randn(length, 32)
        q, (k, _) = head.query(x), head.key_value(x).chunk(2, dim=-1)
        scores = 4 * head.score.scores(q, k).detach()
        origin = f"Scores of a fresh attention head on random vectors, times 4; seed {seed}."
    rules = {
        "causal": (Mask(causal=True), "a query looks at no later position"),
        "window": (Mask(window=1), "a query looks at most one position away"),
        "padding": (Mask(key_lengths=(length - 1,)), "the last key is padding"),
        "none": (Mask(), "all may look"),
    }
    chosen, meaning = rules[rule]
    allowed = chosen.dense(length, length)  # (1, 1, query, key), True = may look
    allowed = torch.ones(length, length, dtype=torch.bool) if allowed is None else allowed
    allowed = allowed.reshape(-1, length).expand(length, length)
    weights = masked_softmax(scores, allowed)
    before = scores.masked_fill(~allowed, float("-inf"))
    sums = "columns" if rows == "keys" else "rows"

    def turn(table: Tensor) -> Tensor:  # from (query, key) to what is drawn
        return table.T if rows == "keys" else table

    caption = (
        f"Rows are {rows}, as "
        + ("the lecture draws it" if rows == "keys" else "softmax(QKᵀ/√d)V computes it")
        + f": the {sums} sum to 1. Rule: {meaning}. Where a query may not look, the score becomes "
        f"−∞ and the weight exactly 0. {origin}"
    )
    with Board("A mask before and after the softmax", caption, (1, 1)) as board:
        q_names = words or [f"Q{i + 1}" for i in range(length)]
        k_names = words or [f"K{i + 1}" for i in range(length)]
        labels = (k_names, q_names) if rows == "keys" else (q_names, k_names)
        sides = ("keys", "queries") if rows == "keys" else ("queries", "keys")
        reach = float(scores[allowed].abs().max())
        written = "+.2f" if length <= 8 else "+.1f"
        board.matrix(0, "scores, masked", turn(before), signed_scale(reach), labels, sides, written)
        board.matrix(
            1, "weights, after the softmax", turn(weights), weights_scale(1.0), labels, sides, ".2f"
        )
        return board.drawing(
            {
                "scores": floats(turn(scores)),
                "may_look": floats(turn(allowed).int()),
                "weights": floats(turn(weights)),
            }
        )
