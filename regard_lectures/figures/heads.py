"""Figure of part 3: one head against several heads with the same number of parameters.

The task needs two tokens at once: at each position, predict the token one back and the token three
back. A head has only one set of attention weights. With one head, both tokens arrive as one
weighted sum, from which their order can hardly be read: a guess between the two costs ln 2. With
several heads, each can attend to one of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.draw import LINE_STYLES, MUTED, positive_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, Words
from regard.layers import Attention, Context, Embed, Layout, Mask, Positions, Tap, position_scheme
from regard_lectures.figures.descent import Descent, running_median
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import span, spread_of, trainings

DIM, VOCAB, LENGTH, BATCH = 32, 16, 12, 32
BACK = (1, 3)  # the distances of the tokens to predict
EVERY = 20
"""Steps between two points of a curve."""
AT_THE_END = 20
"""The last steps, whose mean loss is compared."""
MARGIN = 0.1
"""Losses that differ by less are taken as equal."""
SHARED = 0.2
"""One head mixes both tokens if its mean weight on each is at least this."""


class Finder(nn.Module):
    """Embedding, positions, one causal attention layer without residual, one linear layer."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.embed = Embed(VOCAB, DIM)
        nn.init.normal_(self.embed.weight, std=DIM**-0.5)
        self.positions = position_scheme(
            "learned", dim=DIM, heads=heads, max_length=LENGTH, causal=True
        )
        self.attention = Attention(DIM, heads, "finder.0.self")
        self.head = nn.Linear(DIM, len(BACK) * VOCAB)

    def forward(self, ids: Tensor, tap: Tap | None = None) -> Tensor:
        """ids (batch, length) -> logits (batch, length, which, vocab)."""
        layout = Layout((ids.shape[1],) * ids.shape[0])
        ctx = Context(layout, layout.positions, Mask(causal=True), Positions(), tap=tap)
        x = self.attention(self.embed(ids.flatten(), ctx.positions, self.positions), ctx)
        return self.head(x).view(*ids.shape, len(BACK), VOCAB)


def measure(heads: int, steps: int, tries: int, seed: int) -> dict[str, Any]:
    """Train one head of width 32 and several narrower ones, with several seeds.

    Returns:
        For each number of heads the loss every `EVERY` steps and at the end, and the weights on
        both tokens, by seed; and the maps of one new sequence of the first seed.

    Raises:
        InputError: If the width cannot be divided by the number of heads.
    """
    if DIM % heads:
        raise InputError("heads", got=heads, expected=f"a divisor of {DIM}: 2, 4, 8 or 16")
    counts = (1, heads)
    result: dict[str, Any] = {
        what: {str(count): [] for count in counts} for what in ("curves", "final", "weights")
    }
    result["maps"] = {}
    with training_progress(2 * tries * steps) as on_step:
        for one_seed in range(seed, seed + tries):
            for count in counts:
                model, losses = _train(count, steps, one_seed, on_step)
                table = _look(model, one_seed)  # (heads, query, key)
                result["curves"][str(count)].append(running_median(losses)[::EVERY])
                last = losses[-AT_THE_END:]
                result["final"][str(count)].append(sum(last) / len(last))
                result["weights"][str(count)].append(_shares(table, max(BACK)).tolist())
                result["maps"].setdefault(str(count), table.tolist())
                result["parameters"] = sum(p.numel() for p in model.parameters())
    return result


def best_heads(weights: list[list[float]]) -> list[int]:
    """For each of the two tokens, the head with the largest mean weight (heads, which) on it."""
    return [
        max(range(len(weights)), key=lambda head: weights[head][which])
        for which in range(len(BACK))
    ]


def words_heads(numbers: Mapping[str, Any]) -> Words:
    """Which of the two learns the task better, and whether the one head mixes both tokens."""
    count, one_head, many = numbers["heads"], numbers["loss_one"], numbers["loss_many"]
    # (tries, which): in each training, on each of the two tokens
    mixed = all(min(pair) >= SHARED for pair in numbers["weights_one"])
    learned = max(many) < MARGIN
    if max(many) < min(one_head) - MARGIN and mixed and learned:
        title = f"One wide head mixes two tokens; {count} narrow heads tell them apart"
    elif max(many) < min(one_head) - MARGIN:
        title = f"{count} narrow heads learn the task better than one wide head"
    elif max(one_head) < min(many) - MARGIN:
        title = f"One wide head learns the task better than {count} narrow ones"
    else:
        title = f"These trainings cannot tell one wide head from {count} narrow ones"

    def weights(pairs: list[list[float]]) -> str:
        return " and ".join(span(side, ".2f") for side in zip(*pairs, strict=True))

    beside = "better than" if max(one_head) < math.log(2) - MARGIN else "no better than"
    caption = (
        f"The task: predict the tokens {BACK[0]} and {BACK[1]} back. Loss at the end: one head "
        f"{span(one_head, '.2f')}, {beside} guessing which is which (ln 2 = {math.log(2):.2f}), "
        f"{count} heads {span(many, '.2f')}. Mean weight {BACK[0]} and {BACK[1]} back: one head "
        f"{weights(numbers['weights_one'])}, "
        f"the best of {count} {weights(numbers['weights_many'])}."
    )
    return Words(title, caption)


def heads(measured: dict[str, Any], heads: int, steps: int, tries: int, seed: int) -> Drawing:
    """Draw losses and attention maps of one head of width 32 and of several narrower ones."""
    maps = {int(count): torch.tensor(table) for count, table in measured["maps"].items()}
    by_head = measured["weights"][str(heads)]  # (tries, heads, which)
    best = best_heads(by_head[0])
    numbers: dict[str, Any] = {
        "heads": heads,
        "steps": steps,
        "loss_one": measured["final"]["1"],
        "loss_many": measured["final"][str(heads)],
        "guess": math.log(2),
        "weights_one": [table[0] for table in measured["weights"]["1"]],
        "weights_many": [
            [table[head][which] for which, head in enumerate(best_heads(table))]
            for table in by_head
        ],
        "heads_shown": best,
        "curve_one": measured["curves"]["1"],
        "curve_many": measured["curves"][str(heads)],
    }
    details = (
        f"At each position the model predicts the token {BACK[0]} back and the token {BACK[1]} "
        f"back, in random sequences over {VOCAB} tokens. It is one causal attention layer of width "
        f"{DIM} with {measured['parameters']:,} parameters, as 1 head of width {DIM} or {heads} "
        f"heads of width {DIM // heads}. One head adds both tokens into one vector, in which their "
        "order can hardly be read; guessing between the two costs ln 2. Loss: the mean of the last "
        f"{AT_THE_END} steps, each with new sequences; seeds {seed} to {seed + tries - 1}; curves: "
        "mean over the seeds, shaded from the least to the largest. The maps are those of "
        f"one new sequence of seed {seed}; of {heads} heads the two with the largest mean weight "
        "on each of the tokens are drawn."
    )
    limits = (
        f"One attention layer of width {DIM}, {steps:,} steps on random tokens, {trainings(tries)}."
    )
    with Board(words_heads(numbers), (1.25, 1, 1, 1), details, limits=limits) as board:
        _draw_curves(board, numbers)
        named = ([f"{i}" for i in range(LENGTH)], ["0", *[""] * (LENGTH - 2), f"{LENGTH - 1}"])
        panels = [("the one head", maps[1][0])] + [
            (f"head {head} of {heads}: {back} back", maps[heads][head])
            for head, back in zip(best, BACK, strict=True)
        ]
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)  # never attended to
        for panel, (heading, table) in enumerate(panels, start=1):
            values = table.masked_fill(later, math.nan)
            board.matrix(panel, heading, values, positive_scale(), named, ("query", "key"))
        return board.drawing(**numbers)


def _draw_curves(board: Board, numbers: Mapping[str, Any]) -> None:
    """Draw the losses of one head and of several in training."""
    axes = board.chart(0, "learning", "step", "cross-entropy")
    names = {"curve_one": "1 head", "curve_many": f"{numbers['heads']} heads"}
    for (key, name), style in zip(names.items(), LINE_STYLES[1::-1], strict=True):
        spread = spread_of(numbers[key])
        x = [EVERY * point for point in range(len(spread.mean))]
        axes.curve(x, spread.mean, style=style, width=2.2, label=name)
        axes.fill_between(x, spread.least, spread.largest, color=style.colour, alpha=0.2)
    axes.axhline(math.log(2), color=MUTED, linewidth=1.2, linestyle=":", label="guess, ln 2")
    axes.set(xlim=(0, numbers["steps"]), ylim=(0, math.log(VOCAB) * 1.05))
    axes.set_xticks([0, numbers["steps"]])
    axes.draw_legend("upper right")


def _train(count: int, steps: int, seed: int, on_step: OnStep) -> tuple[Finder, list[float]]:
    torch.manual_seed(seed)
    model = Finder(count)
    descent = Descent(model.parameters(), 0.01, on_step)
    data = torch.Generator().manual_seed(seed)  # the same sequences for both
    first = max(BACK)
    for _ in range(steps):
        ids = torch.randint(VOCAB, (BATCH, LENGTH), generator=data)
        wanted = torch.stack([ids[:, first - back : LENGTH - back] for back in BACK], dim=-1)
        loss = F.cross_entropy(model(ids)[:, first:].flatten(0, 2), wanted.flatten())
        descent.step(loss, BATCH * LENGTH)
    return model, descent.losses


@torch.no_grad()
def _look(model: Finder, seed: int) -> Tensor:
    """The attention weights of one new sequence: (heads, query, key)."""
    tap = Tap("finder.0.self.weights")
    data = torch.Generator().manual_seed(seed + 1)
    model(torch.randint(VOCAB, (1, LENGTH), generator=data), tap)
    return tap.records["finder.0.self.weights"][0]


def _shares(table: Tensor, first: int) -> Tensor:
    """The mean weight of each head at each wanted distance: (heads, which)."""
    rows = torch.arange(first, LENGTH)
    return torch.stack([table[:, rows, rows - back].mean(-1) for back in BACK], dim=-1)
