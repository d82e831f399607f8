"""Figure of part 2: what a recurrent cell still remembers after n steps, beside attention.

A text of n random symbols is read, and at its end the first symbol is asked. One layer of each kind
is trained anew for each n. The gradient of the loss says why some do not learn it: before training,
how much of it reaches the first token, in relation to the last.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.draw import LINE_STYLES, MUTED, LineStyle, scientific
from regard.explain import Board, Drawing
from regard.layers import Attention, Embed, Mixer, Recurrent, plain_context, position_scheme
from regard_lectures.figures.costs import decades
from regard_lectures.figures.descent import Descent
from regard_lectures.progress import OnStep, training_progress

KINDS = ("rnn", "gru", "lstm", "attention")
LENGTHS = (4, 8, 16, 32, 64, 128)
SYMBOLS, DIM, BATCH, UNSEEN, RATE = 8, 32, 32, 512, 0.005
SMALLEST = 1e-12
"""Smaller gradients are drawn as this."""


class Rememberer(nn.Module):
    """An embedding, one layer, and an output that names the first symbol."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.embed = Embed(SYMBOLS, DIM)
        nn.init.normal_(self.embed.weight, std=1 / self.embed.scale)
        attends = kind == "attention"  # the others know positions by counting steps
        self.positions = position_scheme(
            "sinusoidal" if attends else "none", dim=DIM, heads=1, max_length=LENGTHS[-1],
            causal=True,
        )  # fmt: skip
        self.layer: Mixer = Attention(DIM, 1) if attends else Recurrent(DIM, cell=kind)
        self.out = nn.Linear(DIM, SYMBOLS)

    def vectors(self, ids: Tensor) -> Tensor:
        """Symbols (batch, n) -> (batch · n, dim)."""
        where = torch.arange(ids.shape[1]).repeat(len(ids))
        x: Tensor = self.embed(ids.flatten(), where, self.positions)
        return x

    def answer(self, x: Tensor, shape: torch.Size) -> Tensor:
        """The logits of the first symbol after the last token: (batch, symbols)."""
        y = self.layer(x, plain_context((shape[1],) * shape[0], causal=True))
        logits: Tensor = self.out(y.view(*shape, DIM)[:, -1])
        return logits

    def forward(self, ids: Tensor) -> Tensor:
        """Symbols (batch, n) -> logits (batch, symbols)."""
        return self.answer(self.vectors(ids), ids.shape)


def reaching(model: Rememberer, ids: Tensor) -> float:
    """The loss's gradient at the first token over that at the last, as a mean over texts."""
    x = model.vectors(ids).detach().requires_grad_()
    loss = F.cross_entropy(model.answer(x, ids.shape), ids[:, 0])
    [gradient] = torch.autograd.grad(loss, [x])
    norms = gradient.view(*ids.shape, DIM).norm(dim=2).clamp(min=1e-30)  # (batch, n)
    return float((norms[:, 0] / norms[:, -1]).log().mean().exp())


def train(kind: str, length: int, steps: int, seed: int, on_step: OnStep) -> tuple[float, float]:
    """Train one layer on texts of one length.

    Returns:
        The percentage of unseen texts whose first symbol is right, and `reaching` before training.
    """
    torch.manual_seed(seed)
    model, data = Rememberer(kind), torch.Generator().manual_seed(seed)
    before = reaching(model, torch.randint(SYMBOLS, (BATCH, length), generator=data))
    descent = Descent(model.parameters(), RATE, on_step)
    for _ in range(steps):
        ids = torch.randint(SYMBOLS, (BATCH, length), generator=data)
        descent.step(F.cross_entropy(model(ids), ids[:, 0]), ids.numel())
    with torch.no_grad():
        ids = torch.randint(SYMBOLS, (UNSEEN, length), generator=data)
        right = (model(ids).argmax(1) == ids[:, 0]).float().mean()
    return 100 * float(right), before


def measure(steps: int, seed: int) -> dict[str, Any]:
    """Train every kind of layer on every length."""
    result: dict[str, Any] = {"right": {}, "reaching": {}}
    with training_progress(steps * len(KINDS) * len(LENGTHS)) as on_step:
        for kind in KINDS:
            pairs = [train(kind, length, steps, seed, on_step) for length in LENGTHS]
            result["right"][kind] = [right for right, _ in pairs]
            result["reaching"][kind] = [before for _, before in pairs]
    return result


def longest(right: list[float], enough: float = 90) -> int:
    """The longest text up to which at least so many percent are right; 0 if there is none."""
    most = 0
    for length, share in zip(LENGTHS, right, strict=False):
        if share < enough:
            break
        most = length
    return most


def recall(measured: dict[str, Any], steps: int, seed: int) -> Drawing:
    """Draw how often the first symbol is remembered, and how much of the gradient reaches it."""
    most = {kind: longest(line) for kind, line in measured["right"].items()}
    told = ", ".join(f"{kind.upper()} {most[kind]}" for kind in KINDS[:3])
    caption = (
        f"The first symbol is remembered in 90% of texts of up to so many tokens: {told}, "
        f"attention {most['attention']}. Where no gradient reaches the first token, nothing is "
        "learned."
    )
    details = (
        f"At the end of a text of n random symbols of {SYMBOLS}, the first one is asked. One layer "
        f"of width {DIM} of each kind, trained anew for each n: {steps} steps of {BATCH} texts, "
        f"Adam at {RATE:g}, seed {seed}; {UNSEEN} unseen texts. Attention is one causal head with "
        "sinusoidal positions. Right: before training, the length of the loss's gradient at the "
        f"first token over that at the last, a geometric mean; below {scientific(SMALLEST)} it is "
        "drawn there. Other settings, such as a bias that opens the forget gate (Jozefowicz et al. "
        "2015), move these borders."
    )
    styles = dict(zip(KINDS, LINE_STYLES, strict=False))
    with Board(caption, (1, 1), details) as board:
        board.legend({**styles, "guessing": LineStyle(MUTED, ":")})
        axes = board.chart(0, "first symbol right, %", "tokens n", "")
        for kind, style in styles.items():
            axes.curve(LENGTHS, measured["right"][kind], style=style, marker=style.marker)
        axes.axhline(100 / SYMBOLS, color=MUTED, linewidth=1.4, linestyle=":")
        axes.log_axis("x", LENGTHS)
        axes.set_ylim(0, 106)
        axes = board.chart(1, "gradient at the first / last token", "tokens n", "")
        shown = {
            kind: [max(value, SMALLEST) for value in line]
            for kind, line in measured["reaching"].items()
        }
        for kind, style in styles.items():
            axes.curve(LENGTHS, shown[kind], style=style, marker=style.marker)
        axes.log_axis("x", LENGTHS)
        axes.log_axis("y", decades([value for line in shown.values() for value in line])[::3])
        return board.drawing(
            lengths=list(LENGTHS),
            **{f"right_{kind}": line for kind, line in measured["right"].items()},
            **{f"reaching_{kind}": line for kind, line in measured["reaching"].items()},
            **{f"remembers_{kind}": length for kind, length in most.items()},
        )
