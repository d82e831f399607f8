"""Figure of part 2: what a recurrent cell still remembers after n steps, beside attention.

A text of n random symbols is read, and at its end the first symbol is asked. One layer of each kind
is trained anew for each n. The gradient of the loss says why some do not learn it: before training,
how much of it reaches the first token, in relation to the last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.draw import LINE_STYLES, MUTED, LineStyle, scientific
from regard.explain import Board, Drawing, Numbers, Words
from regard.layers import Attention, Embed, Mixer, Recurrent, plain_context, position_scheme
from regard_lectures.figures.costs import decades
from regard_lectures.figures.descent import Descent
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import draw_spread, listed, span, spread_of, trainings

KINDS = ("rnn", "gru", "lstm", "attention")
LENGTHS = (4, 8, 16, 32, 64, 128)
SYMBOLS, DIM, BATCH, UNSEEN, RATE = 8, 32, 32, 512, 0.005
SMALLEST = 1e-12
"""Smaller gradients are drawn as this."""
ENOUGH = 90
"""The percentage of texts from which on the first symbol counts as remembered."""
FAINT = 1e-6
"""The share of the last token's gradient below which hardly any reaches the first."""


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


def measure(steps: int, tries: int, seed: int) -> dict[str, Any]:
    """Train every kind of layer on every length, with several seeds."""
    result: dict[str, Any] = {"right": {}, "reaching": {}}
    with training_progress(steps * tries * len(KINDS) * len(LENGTHS)) as on_step:
        for kind in KINDS:
            pairs = [
                [train(kind, length, steps, one_seed, on_step) for length in LENGTHS]
                for one_seed in range(seed, seed + tries)
            ]
            result["right"][kind] = [[right for right, _ in line] for line in pairs]
            result["reaching"][kind] = [[before for _, before in line] for line in pairs]
    return result


def longest(right: list[float]) -> int:
    """The longest text up to which `ENOUGH` percent are right; 0 if there is none."""
    most = 0
    for length, share in zip(LENGTHS, right, strict=False):
        if share < ENOUGH:
            break
        most = length
    return most


def numbers_of(measured: dict[str, Any], steps: int, tries: int) -> Numbers:
    """What the picture shows and its words say."""
    right, reaching = measured["right"], measured["reaching"]
    points = [
        (share, before)
        for kind in KINDS
        for shares, befores in zip(right[kind], reaching[kind], strict=True)
        for share, before in zip(shares, befores, strict=True)
    ]
    faint = [share for share, before in points if before < FAINT]
    other = [share for share, before in points if before >= FAINT]
    return {
        "steps": steps,
        "tries": tries,
        "lengths": list(LENGTHS),
        **{f"right_{kind}": right[kind] for kind in KINDS},
        **{f"reaching_{kind}": reaching[kind] for kind in KINDS},
        **{f"remembers_{kind}": [longest(line) for line in right[kind]] for kind in KINDS},
        "trainings_with_a_faint_gradient": len(faint),
        "learned_with_a_faint_gradient": sum(share >= ENOUGH for share in faint),
        "other_trainings": len(other),
        "learned_of_the_others": sum(share >= ENOUGH for share in other),
    }


def words_recall(numbers: Numbers) -> Words:
    """Up to which length the first symbol is remembered, and whether attention gets further."""
    lengths = {kind: numbers[f"remembers_{kind}"] for kind in KINDS}
    named = {kind: kind if kind == "attention" else kind.upper() for kind in KINDS}
    attention = lengths["attention"]
    shorter = [named[kind] for kind in KINDS[:-1] if max(lengths[kind]) < min(attention)]
    as_long = [named[kind] for kind in KINDS[:-1] if min(lengths[kind]) >= max(attention)]
    after = f"After {numbers['steps']:,} training steps"
    if shorter:
        title = f"{after} attention remembers the first symbol for longer than {listed(shorter)}"
    elif as_long:
        title = f"{after} attention does not remember the first symbol longer than"
        title += f" {listed(as_long)}"
    else:
        title = (
            f"{after} these trainings cannot tell which layer remembers the first symbol longest"
        )
    spans = ", ".join(f"{named[kind]} {span(lengths[kind])}" for kind in KINDS)
    faint, learned = (numbers[f"{what}_with_a_faint_gradient"] for what in ("trainings", "learned"))
    rate = f"{numbers['learned_of_the_others']} of the other {numbers['other_trainings']}"
    if faint:
        reached = (
            f"Of {faint} trainings in which less than {scientific(FAINT)} of the gradient reaches "
            f"the first token {learned or 'none'} learned it, {rate}."
        )
    else:
        reached = f"In no training less than {scientific(FAINT)} of the gradient reaches it."
    caption = f"Right in {ENOUGH}% or more, up to so many tokens: {spans}. {reached}"
    return Words(title, caption)


def recall(measured: dict[str, Any], steps: int, tries: int, seed: int) -> Drawing:
    """Draw how often the first symbol is remembered, and how much of the gradient reaches it."""
    numbers = numbers_of(measured, steps, tries)
    details = (
        f"At the end of a text of n random symbols of {SYMBOLS}, the first one is asked. One layer "
        f"of width {DIM} of each kind, trained anew for each n: {steps} steps of {BATCH} texts, "
        f"Adam at {RATE:g}, seeds from {seed}; {UNSEEN} unseen texts. Lines: the mean over the "
        "seeds; vertical lines: from the least to the largest. Attention is one causal head with "
        "sinusoidal positions. Right: before training, the length of the loss's gradient at the "
        f"first token over that at the last, a geometric mean; below {scientific(SMALLEST)} it is "
        "drawn there. More steps and other settings, such as a bias that opens the forget gate "
        "(Jozefowicz et al. 2015), move these borders."
    )
    limits = f"One layer of width {DIM}, {steps:,} training steps for each length, "
    limits += f"{trainings(tries)}: more steps move the borders."
    styles = dict(zip(KINDS, LINE_STYLES, strict=False))
    with Board(words_recall(numbers), (1, 1), details, limits=limits) as board:
        board.legend({**styles, "guessing": LineStyle(MUTED, ":")})
        axes = board.chart(0, "first symbol right, %", "tokens n", "")
        for kind, style in styles.items():
            draw_spread(axes, LENGTHS, spread_of(numbers[f"right_{kind}"]), style)
        axes.axhline(100 / SYMBOLS, color=MUTED, linewidth=1.4, linestyle=":")
        axes.log_axis("x", LENGTHS)
        axes.set_ylim(0, 106)
        axes = board.chart(1, "gradient at the first / last token", "tokens n", "")
        drawn: list[float] = []
        for kind, style in styles.items():
            lines = np.maximum(numbers[f"reaching_{kind}"], SMALLEST)
            mean = np.exp(np.log(lines).mean(0)).tolist()
            drawn += lines.flatten().tolist()
            draw_spread(axes, LENGTHS, spread_of(lines)._replace(mean=mean), style)
        axes.log_axis("x", LENGTHS)
        axes.log_axis("y", decades(drawn)[::3])
        return board.drawing(**numbers)
