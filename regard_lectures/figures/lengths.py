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

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.draw import LINE_STYLES, MUTED
from regard.explain import Board, Drawing, Numbers, Words
from regard.inputs import Ragged
from regard.models import Decoder, GPTConfig
from regard_lectures.figures.descent import Descent, next_token_loss, warming
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import draw_spread, listed, span, spread_of, trainings

SCHEMES = {
    "buckets": "T5's relative",
    "rotary": "rotary",
    "sinusoidal": "sinusoidal",
    "learned": "learned",
    "none": "no positions",
}
"""The position schemes of `regard.layers.positions`, and their names in the picture."""
ABSOLUTE = ("sinusoidal", "learned")
"""The schemes that are added to the words' vectors."""
TESTS = ("on", "apart")
"""The tests: further on in a text, and further apart."""
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
ENOUGH = 90
"""A scheme holds as long as this percentage of the tokens is right."""
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


def measure(steps: int, tries: int, seed: int) -> dict[str, Any]:
    """Train a model with each scheme and several seeds, and test each on longer texts.

    Returns:
        `on` and `apart`: for each scheme its percentages, (tries, parts) and (tries, lengths).
    """
    result: dict[str, dict[str, list[list[float]]]] = {
        test: {scheme: [] for scheme in SCHEMES} for test in TESTS
    }
    with training_progress(len(SCHEMES) * tries * steps) as on_step:
        for scheme in SCHEMES:
            for one_seed in range(seed, seed + tries):
                model = train(scheme, steps, one_seed, on_step)
                result["on"][scheme].append(further_on(model, one_seed))
                result["apart"][scheme].append(further_apart(model, one_seed))
    return result


def holds_to(across: Sequence[int], line: Sequence[float]) -> int:
    """The length up to which `ENOUGH` percent are right; 0 if they never are.

    Example:
        >>> holds_to([16, 32, 48], [99.0, 95.0, 40.0])
        32
    """
    longest = 0
    for length, share in zip(across, line, strict=True):
        if share < ENOUGH:
            break
        longest = length
    return longest


def numbers_of(measured: Mapping[str, Any], steps: int, tries: int) -> Numbers:
    """What the picture shows and its words say."""
    across = {"on": list(range(PART, LONGEST + 1, PART)), "apart": list(APART)}
    numbers: Numbers = {"steps": steps, "tries": tries, "trained_length": TRAINED}
    for test in TESTS:
        numbers[f"lengths_{test}"] = across[test]
        for scheme in SCHEMES:
            lines = measured[test][scheme]
            numbers[f"further_{test}_{scheme}"] = lines
            numbers[f"holds_{test}_{scheme}"] = [holds_to(across[test], line) for line in lines]
    return numbers


def words_long(numbers: Mapping[str, Any]) -> Words:
    """Which schemes hold at which length, and whether one holds longer than all others."""
    holds = {test: {s: numbers[f"holds_{test}_{s}"] for s in SCHEMES} for test in TESTS}
    trained, best = numbers["trained_length"], {test: _best(holds[test]) for test in TESTS}
    title = f"Trained on {trained} tokens, "
    if best["on"] and best["on"] == best["apart"]:
        title += f"{SCHEMES[best['on']]} positions hold furthest"
    elif any(best.values()):
        parts = [f"{SCHEMES[best[t]]} positions hold longest further {t}" for t in TESTS if best[t]]
        parts += [f"further {t} cannot tell" for t in TESTS if not best[t]]
        title += "; ".join(parts)
    else:
        title = "These trainings cannot tell which positions hold furthest"
    told = [
        f"{name} {' / '.join(span(holds[test][scheme]) for test in TESTS)}"
        if max(*holds["on"][scheme], *holds["apart"][scheme])
        else f"{name} never"
        for scheme, name in SCHEMES.items()
    ]
    caption = (
        f"{ENOUGH}% right up to token (left) / in texts up to (right), 0 where training failed: "
        f"{', '.join(told)}."
    )
    return Words(f"{title}{_rotary(holds)}", caption)


def _best(holds: Mapping[str, Sequence[int]]) -> str:
    """The scheme that in its worst training holds longer than all others in their best; or ""."""
    for scheme, lengths in holds.items():
        if all(min(lengths) > max(other) for name, other in holds.items() if name != scheme):
            return scheme
    return ""


def _rotary(holds: Mapping[str, Mapping[str, Sequence[int]]]) -> str:
    """Whether rotary positions hold longer than the absolute ones, in each test; "" if unknown."""
    if not {"rotary", *ABSOLUTE} <= set(holds["on"]):
        return ""
    verdicts: dict[str, list[str]] = {}
    for test in TESTS:
        rotary = holds[test]["rotary"]
        absolute = [length for s in ABSOLUTE for length in holds[test][s]]
        verdict = (
            "longer than absolute ones"
            if min(rotary) > max(absolute)
            else "shorter than absolute ones"
            if max(rotary) < min(absolute)
            else "not clearly longer than absolute ones"
        )
        verdicts.setdefault(verdict, []).append(f"further {test}")
    if len(verdicts) == 1:
        return f"; rotary {next(iter(verdicts))}"
    return f"; rotary {listed([f'{v} {t[0]}' for v, t in verdicts.items()])}"


def long(measured: dict[str, Any], steps: int, tries: int, seed: int) -> Drawing:
    """Draw both tests of the measured schemes."""
    numbers = numbers_of(measured, steps, tries)
    details = (
        f"Decoders of {LAYERS} layers, width {DIM} and {HEADS} heads, one for each scheme, read "
        f"texts of {TRAINED} tokens in which a pattern of {PERIODS[0]} to {PERIODS[1]} random "
        f"tokens of {VOCAB} is repeated, and another from a random position on; {steps} steps of "
        f"Adam at {RATE:g}, seeds from {seed}. Lines: the mean over the seeds; vertical lines: "
        "from the least to the largest. Only tokens that follow from the text count: the current "
        f"one has occurred before. Left: {UNSEEN} new texts of {LONGEST} tokens, in parts of "
        f"{PART}, each with another pattern. Right: a pattern of half the text, twice. A scheme "
        f"holds up to the length from which on less than {ENOUGH}% are right; 0: never; one holds "
        "longer than another if its worst training holds longer than the other's best. Distances "
        f"from {FARTHEST} on share one of T5's buckets. Learned vectors of positions beyond the "
        "training length keep their random initial values; rotary angles are not stretched."
    )
    limits = f"Decoders of {LAYERS} layers and width {DIM}, {steps:,} steps on repeated random "
    limits += f"patterns, {trainings(tries)}."
    with Board(words_long(numbers), (1, 1), details, limits=limits) as board:
        board.legend(dict(zip(SCHEMES.values(), LINE_STYLES, strict=False)))
        _draw(board, 0, ("further on: a new pattern every 16", "position in the text"), numbers)
        _draw(board, 1, ("further apart: half the text, twice", "length of the text"), numbers)
        return board.drawing(**numbers)


def _draw(board: Board, panel: int, names: tuple[str, str], numbers: Numbers) -> None:
    """Draw one test: for each scheme the mean of its trainings, and their range."""
    test = TESTS[panel]
    axes = board.chart(panel, names[0], names[1], "next token right, %")
    axes.axvspan(0, TRAINED, color=MUTED, alpha=0.12, linewidth=0)
    axes.write((TRAINED / 2, 104), "trained", ha="center")
    axes.axhline(ENOUGH, color=MUTED, linewidth=1.4, linestyle=":")
    for scheme, style in zip(SCHEMES, LINE_STYLES, strict=False):
        spread = spread_of(numbers[f"further_{test}_{scheme}"])
        draw_spread(axes, numbers[f"lengths_{test}"], spread, style)
    axes.set(xlim=(0, LONGEST + 2), ylim=(0, 114), xticks=[0, 32, 64, 96, 128])
