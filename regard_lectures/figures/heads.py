"""Figure of part 3: one head against several heads with the same number of parameters.

The task needs two tokens at once: at each position, predict the token one back and the token three
back. A head has only one set of attention weights. With one head, both tokens arrive as one
weighted sum, from which their order can hardly be read: a guess between the two costs ln 2. With
several heads, each can attend to one of them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.draw import LINE_STYLES, MUTED, positive_scale
from regard.errors import InputError
from regard.explain import Board, Drawing
from regard.layers import Attention, Context, Embed, Layout, Mask, Positions, Tap, position_scheme
from regard_lectures.figures.descent import Descent, running_median
from regard_lectures.progress import OnStep, training_progress

DIM, VOCAB, LENGTH, BATCH = 32, 16, 12, 32
BACK = (1, 3)  # the distances of the tokens to predict


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


def measure(heads: int, steps: int, seed: int) -> dict[str, Any]:
    """Train one head of width 32 and several narrower ones: losses, and maps of a new sequence.

    Raises:
        InputError: If the width cannot be divided by the number of heads.
    """
    if DIM % heads:
        raise InputError("heads", got=heads, expected=f"a divisor of {DIM}: 2, 4, 8 or 16")
    result: dict[str, Any] = {"curves": {}, "maps": {}}
    with training_progress(2 * steps) as on_step:
        for count in (1, heads):
            model, result["curves"][str(count)] = _train(count, steps, seed, on_step)
            result["maps"][str(count)] = _look(model, seed).tolist()  # (heads, query, key)
            result["parameters"] = sum(p.numel() for p in model.parameters())
    return result


def heads(measured: dict[str, Any], heads: int, steps: int, seed: int) -> Drawing:
    """Draw losses and attention maps of one head of width 32 and of several narrower ones."""
    curves = {int(count): line for count, line in measured["curves"].items()}
    maps = {int(count): torch.tensor(table) for count, table in measured["maps"].items()}
    first = max(BACK)
    shares = {count: _shares(table, first) for count, table in maps.items()}
    # For each of the two distances, the head with the largest weight on it.
    best = [int(shares[heads][:, distance].argmax()) for distance in range(len(BACK))]
    final = {count: sum(line[-20:]) / len(line[-20:]) for count, line in curves.items()}
    caption = (
        "The task is to predict two earlier tokens at once. One head mixes both and ends at a "
        f"loss of {final[1]:.2f}; {heads} heads end at {final[heads]:.3f}."
    )
    size = measured["parameters"]
    details = (
        f"At each position the model predicts the token {BACK[0]} back and the token {BACK[1]} "
        f"back, in random sequences over {VOCAB} tokens. It is one causal attention layer of width "
        f"{DIM} with {size:,} parameters, as 1 head of width {DIM} or {heads} heads of "
        f"width {DIM // heads}. One head adds both tokens into one vector, in which their order is "
        f"nearly lost; guessing between the two costs ln 2 = {math.log(2):.2f}. {steps} steps "
        f"of Adam, seed {seed}. The maps are those of one new sequence."
    )
    with Board(caption, (1.25, 1, 1, 1), details) as board:
        axes = board.chart(0, "learning", "step", "cross-entropy")
        for (count, line), style in zip(curves.items(), LINE_STYLES[1::-1], strict=True):
            name = "1 head" if count == 1 else f"{count} heads"
            axes.curve(running_median(line), style=style, width=2.2, label=name)
        axes.axhline(math.log(2), color=MUTED, linewidth=1.2, linestyle=":", label="guess, ln 2")
        axes.set_ylim(0, math.log(VOCAB) * 1.05)
        axes.draw_legend("upper right")
        named = ([f"{i}" for i in range(LENGTH)],) * 2
        panels = [("the one head", maps[1][0])] + [
            (f"head {number}: {back} back", maps[heads][number])
            for number, back in zip(best, BACK, strict=True)
        ]
        for panel, (heading, table) in enumerate(panels, start=1):
            board.matrix(panel, heading, table, positive_scale(), named, ("query", "key"))
        return board.drawing(
            loss_one=final[1],
            loss_many=final[heads],
            toss=math.log(2),
            weight_one=shares[1][0].tolist(),
            weight_many=[float(shares[heads][n, i]) for i, n in enumerate(best)],
            curve_one=curves[1],
            curve_many=curves[heads],
        )


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
