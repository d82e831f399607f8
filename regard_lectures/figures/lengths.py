"""Figure of part 4: train on short texts, test on longer ones, with each position scheme.

The texts repeat random patterns, so the next token can be copied: it followed the previous
occurrence of the current token. The models are trained on texts of 32 tokens, in which a pattern of
4 to 16 tokens is repeated and, from a random position on, another one. Two tests follow:

- *further on*: texts of 128 tokens in eight parts of 16; each part repeats a different pattern.
  Only the positions are new; the distance from a token to its previous occurrence is one that
  training had. (If the whole text repeated one pattern, all models would do well: they would attend
  to its first occurrence, at positions that were trained.)
- *further apart*: a pattern of half the text, twice. Now the distances are new as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.draw import LINE_STYLES, MUTED, LineStyle
from regard.explain import Board, Drawing
from regard.inputs import Ragged
from regard.models import Decoder, GPTConfig
from regard_lectures.figures.descent import Descent, next_token_loss, warming
from regard_lectures.progress import OnStep, training_progress

SCHEMES = {
    "buckets": "T5's relative",
    "rotary": "rotary",
    "sinusoidal": "sinusoidal",
    "learned": "learned",
    "none": "none",
}
"""The position schemes of `regard.layers.positions`, and their names in the picture."""
VOCAB, DIM, HEADS, LAYERS, HIDDEN = 64, 64, 4, 2, 128
TRAINED, LONGEST = 32, 128
"""Tokens of a training text, and of the longest test text."""
PERIODS = (4, 16)
"""The shortest and the longest pattern in training."""
BATCH, UNSEEN = 32, 256
"""Texts of a training step, and of a test."""
FARTHEST = 24
"""Distances from this one on share one of T5's buckets. T5 has 128 for texts of 512; here, a bucket
of distances that training never has would keep its random initial bias."""
RATE, WARMUP = 0.003, 50
PART = 16
"""Tokens of a part of the first test; each part repeats a different pattern."""
APART = (16, 24, 32, 48, 64, 96, 128)
"""Lengths of the second test, in which a pattern of half the length comes twice."""


def draw_texts(count: int, data: torch.Generator) -> Tensor:
    """Training texts: a repeated pattern and, from a random position on, another one.

    The tokens of both patterns differ, so that the previous occurrence of a token is unique.

    Returns:
        (count, TRAINED + 1).
    """
    tokens = torch.rand(count, VOCAB, generator=data).argsort(1)
    index = torch.arange(TRAINED + 1)
    first, second = torch.randint(PERIODS[0], PERIODS[1] + 1, (2, count, 1), generator=data)
    turn = torch.randint(PERIODS[0], TRAINED + 1, (count, 1), generator=data)
    after = PERIODS[1] + (index - turn) % second  # the second pattern begins where the first ends
    return tokens.gather(1, torch.where(index < turn, index % first, after))


def draw_twice(count: int, length: int, data: torch.Generator) -> Tensor:
    """Texts of one pattern of half the length, twice, and its first token: (count, length + 1)."""
    patterns = torch.rand(count, VOCAB, generator=data).argsort(1)[:, : length // 2]
    return torch.cat((patterns, patterns, patterns[:, :1]), dim=1)


def draw_parts(count: int, data: torch.Generator) -> tuple[Tensor, Tensor]:
    """Long texts of parts with a pattern each, no token in two parts.

    Returns:
        The texts (count, LONGEST), and whether each token occurred before in its part, so that the
        next one is known (count, LONGEST).
    """
    parts = LONGEST // PART
    most = VOCAB // parts  # different tokens of a part
    patterns = torch.rand(count, VOCAB, generator=data).argsort(1).view(count, parts, most)
    periods = torch.randint(PERIODS[0], most + 1, (count, parts, 1), generator=data)
    index = torch.arange(PART)
    told = (index >= periods) & (index < PART - 1)  # the last one is followed by another part
    return patterns.gather(2, index % periods).flatten(1), told.flatten(1)


def train(scheme: str, steps: int, seed: int, on_step: OnStep) -> Decoder:
    """Train a decoder with a position scheme on texts of `TRAINED` tokens."""
    torch.manual_seed(seed)
    positions = {"kind": scheme, **({"farthest": FARTHEST} if scheme == "buckets" else {})}
    config = GPTConfig(
        layers=LAYERS, dim=DIM, heads=HEADS, hidden=HIDDEN, positions=positions, dropout=0.0,
        tied=False, scaled_embedding=True, max_length=LONGEST,
    )  # fmt: skip
    model = Decoder(config, VOCAB)
    descent = Descent(model.parameters(), RATE, on_step, warming(WARMUP, steps), beta=0.98)
    data = torch.Generator().manual_seed(seed)  # the same texts for every scheme
    for _ in range(steps):
        descent.step(next_token_loss(model, draw_texts(BATCH, data)), BATCH * TRAINED)
    return model.eval()


@torch.no_grad()
def right(model: Decoder, text: Tensor) -> Tensor:
    """Whether the token after each token is predicted: (count, length) -> (count, length - 1)."""
    ids = text[:, :-1]
    logits = model(Ragged(ids.flatten(), (ids.shape[1],) * len(ids)))
    return logits.argmax(-1).view(ids.shape) == text[:, 1:]


def further_on(model: Decoder, seed: int) -> list[float]:
    """The percentage of next tokens that are right, by part of a long text: (parts,)."""
    text, told = draw_parts(UNSEEN, torch.Generator().manual_seed(seed + 1))
    hit = torch.nn.functional.pad(right(model, text), (0, 1))  # nothing follows the last token
    counts = (hit & told).view(UNSEEN, -1, PART).sum((0, 2))
    shares: list[float] = (100 * counts / told.view(UNSEEN, -1, PART).sum((0, 2))).tolist()
    return shares


def further_apart(model: Decoder, seed: int) -> list[float]:
    """The same by length of text, where a pattern of half the length comes twice: (lengths,)."""
    data, shares = torch.Generator().manual_seed(seed + 1), []
    for length in APART:
        text = draw_twice(UNSEEN, length, data)
        shares.append(100 * float(right(model, text)[:, length // 2 :].float().mean()))
    return shares


def measure(steps: int, seed: int) -> dict[str, Any]:
    """Train a model with each scheme and test it on longer texts."""
    result: dict[str, Any] = {"further_on": {}, "further_apart": {}}
    with training_progress(len(SCHEMES) * steps) as on_step:
        for scheme in SCHEMES:
            model = train(scheme, steps, seed, on_step)
            result["further_on"][scheme] = further_on(model, seed)
            result["further_apart"][scheme] = further_apart(model, seed)
    return result


def long(measured: dict[str, Any], steps: int, seed: int) -> Drawing:
    """Draw both tests of the measured schemes."""
    on, apart = measured["further_on"], measured["further_apart"]
    caption = (
        f"At four times the length {_ends(on)} (left); four times further apart {_ends(apart)} "
        "(right)."
    )
    details = (
        f"Decoders of {LAYERS} layers, width {DIM} and {HEADS} heads, one for each scheme, read "
        f"texts of {TRAINED} tokens in which a pattern of {PERIODS[0]} to {PERIODS[1]} random "
        f"tokens of {VOCAB} is repeated, and another from a random position on; {steps} steps of "
        f"Adam at {RATE:g}, seed {seed}. Only tokens that follow from the text count: the current "
        f"one has occurred before. Left: {UNSEEN} new texts of {LONGEST} tokens, in parts of "
        f"{PART}, each with another pattern. Right: a pattern of half the text, twice. Distances "
        f"from {FARTHEST} on share one of T5's buckets. Learned vectors of positions beyond the "
        "training length keep their random initial values."
    )
    with Board(caption, (1, 1), details) as board:
        styles = dict(zip(SCHEMES.values(), LINE_STYLES, strict=False))
        board.legend(styles)
        ends = list(range(PART, LONGEST + 1, PART))
        heading = ("further on: a new pattern every 16", "position in the text")
        _draw(board, 0, heading, ends, on, styles)
        heading = ("further apart: half the text, twice", "length of the text")
        _draw(board, 1, heading, APART, apart, styles)
        numbers = {
            "trained_length": TRAINED,
            "positions": ends,
            **{f"further_on_{scheme}": values for scheme, values in on.items()},
            "lengths": list(APART),
            **{f"further_apart_{scheme}": values for scheme, values in apart.items()},
        }
        return board.drawing(**numbers)


def _ends(curves: dict[str, list[float]]) -> str:
    """The last accuracy of the schemes, in words."""
    last = {name: line[-1] for name, line in curves.items()}
    absolute = max(last.get(name, 0.0) for name in ("sinusoidal", "learned"))
    told = {"T5's": "buckets", "rotary": "rotary", "none": "none"}
    shares = [f"{name} {last[scheme]:.0f}%" for name, scheme in told.items() if scheme in last]
    return f"{', '.join(shares)}, absolute ones at most {absolute:.0f}%"


def _draw(
    board: Board,
    panel: int,
    names: tuple[str, str],
    across: Sequence[float],
    curves: dict[str, list[float]],
    styles: dict[str, LineStyle],
) -> None:
    axes = board.chart(panel, names[0], names[1], "next token right, %")
    axes.axvspan(0, TRAINED, color=MUTED, alpha=0.12, linewidth=0)
    axes.write((TRAINED / 2, 104), "trained", ha="center")
    for scheme, name in SCHEMES.items():
        style = styles[name]
        axes.curve(across, curves[scheme], style=style, marker=style.marker, markersize=7)
    axes.set(xlim=(0, LONGEST + 2), ylim=(0, 114), xticks=[0, 32, 64, 96, 128])
