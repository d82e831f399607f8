"""Figure of part 6: examples in the prompt, and steps written before the answer, at three sizes.

*Examples.* A rule gives each of 8 letters one of 4 colours; the models are trained on 16 rules. A
prompt is the name of a rule or a blank, and then letters, each followed by itself with its colour
(`a`, `a=red`), all different. The more examples precede a letter, the better its colour can be
predicted, up to a computed bound: the best guess given all 16 rules and the examples.

*Steps.* The last digit of a sum of several digits, answered at once, or after the last digits of
all partial sums, which the model writes itself. Each step is then one sum of two digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.draw import BLUE, LINE_STYLES, MUTED, PURPLE, SKY, LineStyle
from regard.explain import Board, Drawing
from regard.inputs import Ragged
from regard.models import Decoder, GPTConfig
from regard_lectures.figures.descent import Descent, draw_for_narrow, warming
from regard_lectures.progress import OnStep, training_progress


class Size(NamedTuple):
    """The size of a model."""

    name: str
    layers: int
    dim: int
    heads: int


SIZES = (Size("small", 1, 16, 2), Size("middle", 2, 32, 2), Size("large", 3, 64, 4))
RULES, LETTERS, COLOURS = 16, 8, 4
SHOTS = LETTERS - 1
"""The largest number of examples before a letter."""
NAMES = LETTERS + LETTERS * COLOURS
"""The first name of a rule. Tokens: letters, letters with a colour, names of rules, a blank."""
BLANK = NAMES + RULES
"""The token in the place of a rule's name."""
TERMS = 5
"""Digits that are added."""
EQUALS = 10
BATCH, UNSEEN = 128, 1000
RATE, WARMUP = 0.005, 50


def draw_rules(seed: int) -> Tensor:
    """The colour of each letter by each rule: (rules, letters)."""
    data = torch.Generator().manual_seed(seed)
    return torch.randint(COLOURS, (RULES, LETTERS), generator=data)


def draw_prompts(
    rules: Tensor, count: int, data: torch.Generator, *, named: bool | None
) -> tuple[Tensor, Tensor]:
    """Prompts of one rule each: name or blank, then all letters, each with its colour.

    Args:
        rules: (rules, letters) The colours.
        count: How many prompts.
        data: The source of random numbers.
        named: Whether each begins with its rule's name; None: every other one.

    Returns:
        The tokens (count, 1 + 2 letters), and the rule of each prompt (count,).
    """
    chosen = torch.randint(RULES, (count,), generator=data)
    letters = torch.rand(count, LETTERS, generator=data).argsort(1)
    colours = rules[chosen].gather(1, letters)  # (count, letters)
    coloured = LETTERS + COLOURS * letters + colours
    told = torch.arange(count) % 2 == 0 if named is None else torch.full((count,), named)
    first = torch.where(told, NAMES + chosen, BLANK)
    pairs = torch.stack((letters, coloured), dim=-1).flatten(1)
    return torch.cat((first[:, None], pairs), dim=1), chosen


def draw_sums(count: int, data: torch.Generator, *, written: bool) -> Tensor:
    """Sums as tokens: digits, =, and the last digit of the sum, or of each partial sum.

    Returns:
        (count, TERMS + 1 + answers): with `written` TERMS - 1 answers, without 1.
    """
    digits = torch.randint(10, (count, TERMS), generator=data)
    partial = digits.cumsum(1)[:, 1:] % 10  # (count, TERMS - 1)
    answers = partial if written else partial[:, -1:]
    return torch.cat((digits, torch.full((count, 1), EQUALS), answers), dim=1)


def build(size: Size, vocab: int, length: int, seed: int) -> Decoder:
    """A decoder of this size."""
    torch.manual_seed(seed)
    config = GPTConfig(
        layers=size.layers, dim=size.dim, heads=size.heads, hidden=4 * size.dim, dropout=0.0,
        positions="learned", tied=False, max_length=length,
    )  # fmt: skip
    model = Decoder(config, vocab)
    draw_for_narrow(model)
    return model


def fit(
    model: Decoder, batches: Callable[[], Tensor], asked: slice, steps: int, on_step: OnStep
) -> Decoder:
    """Train a decoder on the tokens that follow some positions of each text.

    Args:
        model: The model.
        batches: A function without arguments that draws texts: (count, length + 1).
        asked: The positions whose next token is to be predicted.
        steps: Training steps.
        on_step: Called after each step.
    """
    descent = Descent(model.parameters(), RATE, on_step, warming(WARMUP, steps), beta=0.98)
    for _ in range(steps):
        text = batches()
        hidden = _hidden(model, text[:, :-1])[:, asked]
        wanted = text[:, 1:][:, asked]
        total = model.head.loss(hidden.flatten(0, 1), wanted.flatten())
        descent.step(total / wanted.numel(), text.numel())
    return model.eval()


def _hidden(model: Decoder, ids: Tensor) -> Tensor:
    """ids (count, length) -> (count, length, dim)."""
    x = model.hidden(Ragged(ids.flatten(), (ids.shape[1],) * len(ids)))
    return x.view(*ids.shape, -1)


def learn_rules(size: Size, steps: int, seed: int, on_step: OnStep) -> Decoder:
    """Train a model to predict colours by the rule that a prompt names or shows by examples."""
    rules, data = draw_rules(seed), torch.Generator().manual_seed(seed)
    model = build(size, BLANK + 1, 2 * SHOTS + 2, seed)
    asked = slice(1, None, 2)  # at each letter, its colour
    return fit(
        model, lambda: draw_prompts(rules, BATCH, data, named=None)[0], asked, steps, on_step
    )


def learn_sums(size: Size, steps: int, seed: int, on_step: OnStep, *, written: bool) -> Decoder:
    """Train a model to add, with or without written steps."""
    data = torch.Generator().manual_seed(seed)
    length = TERMS + (TERMS - 1 if written else 1)
    model = build(size, EQUALS + 1, length, seed)
    return fit(
        model, lambda: draw_sums(BATCH, data, written=written), slice(TERMS, None), steps, on_step
    )


@torch.no_grad()
def right_by_shots(model: Decoder, prompts: Tensor) -> list[float]:
    """The percentage of colours that are right after 0, 1, 2, … examples: (letters,)."""
    logits = model.head(_hidden(model, prompts[:, :-1])[:, 1::2])  # (count, shots, vocab)
    right = (logits.argmax(-1) == prompts[:, 2::2]).float().mean(0)  # (letters,)
    return _percent(right)


def best_by_shots(rules: Tensor, prompts: Tensor) -> list[float]:
    """The percentage that is right if the likeliest colour is chosen among rules that still fit.

    Every rule is equally likely before the examples. A rule fits if it agrees with all of them.
    """
    letters = prompts[:, 1::2]  # (count, letters)
    colours = (prompts[:, 2::2] - LETTERS) % COLOURS
    said = rules[:, letters]  # (rules, count, letters)
    agrees = (said == colours).long().cumprod(-1)
    fits = torch.cat((torch.ones_like(agrees[..., :1]), agrees[..., :-1]), dim=-1)
    votes = torch.stack([(fits * (said == colour)).sum(0) for colour in range(COLOURS)], dim=-1)
    return _percent((votes.amax(-1) / votes.sum(-1)).mean(0))


def _percent(shares: Tensor) -> list[float]:
    percent: list[float] = (100 * shares).tolist()
    return percent


@torch.no_grad()
def right_sums(model: Decoder, seed: int, *, written: bool) -> float:
    """The percentage of new sums whose last digit is right; steps are the model's own."""
    sums = draw_sums(UNSEEN, torch.Generator().manual_seed(seed + 1), written=written)
    text = sums[:, : TERMS + 1]
    while text.shape[1] < sums.shape[1]:
        following = model.head(_hidden(model, text)[:, -1]).argmax(-1)
        text = torch.cat((text, following[:, None]), dim=1)
    return 100 * float((text[:, -1] == sums[:, -1]).float().mean())


def measure(steps: int, seed: int) -> dict[str, Any]:
    """Train three sizes on rules, on sums, and on sums with written steps; and test them."""
    rules, data = draw_rules(seed), torch.Generator().manual_seed(seed + 1)
    shown, _ = draw_prompts(rules, UNSEEN, data, named=False)
    named, _ = draw_prompts(rules, UNSEEN, data, named=True)
    result: dict[str, Any] = {
        "sizes": [size.name for size in SIZES],
        "best": best_by_shots(rules, shown),
        "examples": {}, "named": {}, "at_once": {}, "written": {}, "parameters": {},
    }  # fmt: skip
    with training_progress(3 * len(SIZES) * steps) as on_step:
        for size in SIZES:
            model = learn_rules(size, steps, seed, on_step)
            result["parameters"][size.name] = sum(p.numel() for p in model.parameters())
            result["examples"][size.name] = right_by_shots(model, shown)
            result["named"][size.name] = right_by_shots(model, named)[0]
            for written in (False, True):
                model = learn_sums(size, steps, seed, on_step, written=written)
                share = right_sums(model, seed, written=written)
                result["written" if written else "at_once"][size.name] = share
    return result


def prompts(measured: dict[str, Any], steps: int, seed: int) -> Drawing:
    """Draw accuracy by number of examples, and sums with and without written steps."""
    names, best = measured["sizes"], measured["best"]
    last = names[-1]
    caption = (
        f"With 0, 2 and {SHOTS} examples the {last} model is right in "
        f"{_listed(measured['examples'][last][n] for n in (0, 2, SHOTS))}, by the rule's name "
        f"alone in {measured['named'][last]:.0f}%; sums: at once "
        f"{_listed(measured['at_once'].values())}, with steps "
        f"{_listed(measured['written'].values())}."
    )
    sizes = "; ".join(
        f"{size.name}: {size.layers} layer{'s' * (size.layers > 1)}, width {size.dim}, "
        f"{measured['parameters'][size.name]:,} parameters"
        for size in SIZES
    )
    details = (
        f"Decoders of three sizes ({sizes}), one for each task, {steps} steps of Adam at {RATE:g} "
        f"with {BATCH} new texts each, seed {seed}; measured on {UNSEEN} others. Left: a rule "
        f"gives each of {LETTERS} letters one of {COLOURS} colours, and {RULES} rules are learned; "
        "a prompt shows letters with their colours and asks for another letter's colour. The "
        "weights do not change, only the prompt. Dotted: the best guess, given all rules and the "
        f"examples. Right: the last digit of a sum of {TERMS} digits, at once, or after the "
        "last digits of the partial sums, which the model writes itself; a guess is right in 10%."
    )
    with Board(caption, (1.15, 1), details) as board:  # fmt: skip
        styles = dict(zip(names, LINE_STYLES, strict=False))
        board.legend({**styles, "the best possible": LineStyle(MUTED, ":")})
        axes = board.chart(0, "a rule shown by examples", "examples in the prompt", "right, %")
        for name, style in styles.items():
            axes.curve(measured["examples"][name], style=style, marker=style.marker, markersize=7)
        axes.curve(best, style=LineStyle(MUTED, ":"))
        axes.set(ylim=(0, 112), xticks=range(SHOTS + 1))
        _draw_sums(board, measured, names)
        return board.drawing(
            sizes=names,
            best_possible=best,
            **{f"right_by_examples_{name}": measured["examples"][name] for name in names},
            right_by_name=[measured["named"][name] for name in names],
            sums_at_once=[measured["at_once"][name] for name in names],
            sums_with_steps=[measured["written"][name] for name in names],
            parameters=[measured["parameters"][name] for name in names],
        )


def _draw_sums(board: Board, measured: dict[str, Any], names: Sequence[str]) -> None:
    """Bars of sums that are right, for each size at once and with written steps."""
    axes = board.chart(
        1, f"the last digit of a sum of {TERMS}", "size of the model", "right, %; dotted: a guess"
    )
    for shift, what, colour in ((-0.2, "at_once", SKY), (0.2, "written", PURPLE)):
        shares = [measured[what][name] for name in names]
        axes.bar([index + shift for index in range(len(names))], shares, 0.38, color=colour)
        for index, share in enumerate(shares):
            axes.write((index + shift, max(share, 10) + 1.5), f"{share:.0f}", ha="center")
    axes.axhline(10, color=MUTED, linestyle=":", linewidth=1.8)  # a guess
    axes.set_xticks(range(len(names)), names)
    axes.set_ylim(0, 128)
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.write((-0.4, 118), "at once", color=BLUE, weight="bold")
    axes.write((len(names) - 0.6, 118), "with written steps", color=PURPLE, weight="bold",
          ha="right")  # fmt: skip


def _listed(shares: Iterable[float]) -> str:
    """Shares as text.

    Example:
        >>> _listed([40.2, 70.0, 99.6])
        '40, 70 and 100%'
    """
    *first, last = (f"{share:.0f}" for share in shares)
    return f"{', '.join(first)} and {last}%"
