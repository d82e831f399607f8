"""Figure of part 6: examples in the prompt, and steps written before the answer, at three sizes.

*Examples.* A rule gives each of 8 letters one of 4 colours; the models are trained on 16 rules. A
prompt is the name of a rule or a blank, and then letters, each followed by itself with its colour
(`a`, `a=red`), all different. The more examples precede a letter, the better its colour can be
predicted, up to a computed bound: the best guess given all 16 rules and the examples.

*Steps.* The last digit of a sum of several digits, answered at once, or after the last digits of
all partial sums, which the model writes itself. Each step is then one sum of two digits.

Every training is repeated with other seeds, so that a difference between sizes can be told from one
between seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.draw import BLUE, INK, LINE_STYLES, MUTED, PURPLE, SKY, LineStyle
from regard.explain import Board, Drawing, Numbers, Words
from regard.inputs import Ragged
from regard.models import Decoder, GPTConfig
from regard_lectures.figures.descent import Descent, draw_for_narrow, warming
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import draw_spread, listed, spread_of, trainings


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
SUMS = ("at_once", "written")
"""The two ways to answer a sum."""
MARGIN = 5
"""Smaller differences, in percent of the answers, are not called any."""


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


def measure(steps: int, tries: int, seed: int) -> dict[str, Any]:
    """Train three sizes on rules, on sums, and on sums with written steps, by several seeds.

    Returns:
        Percentages by size: `examples` (tries, letters), `named`, `at_once` and `written` (tries);
        `best` (tries, letters), and the `parameters` of each size.
    """
    names = [size.name for size in SIZES]
    result: dict[str, Any] = {
        "sizes": names, "best": [], "parameters": {},
        **{what: {name: [] for name in names} for what in ("examples", "named", *SUMS)},
    }  # fmt: skip
    with training_progress(3 * len(SIZES) * tries * steps) as on_step:
        for one_seed in range(seed, seed + tries):
            _measure_once(result, steps, one_seed, on_step)
    return result


def _measure_once(result: dict[str, Any], steps: int, seed: int, on_step: OnStep) -> None:
    """Train everything with one seed, and add what is measured to the result."""
    rules, data = draw_rules(seed), torch.Generator().manual_seed(seed + 1)
    shown, _ = draw_prompts(rules, UNSEEN, data, named=False)
    named, _ = draw_prompts(rules, UNSEEN, data, named=True)
    result["best"].append(best_by_shots(rules, shown))
    for size in SIZES:
        model = learn_rules(size, steps, seed, on_step)
        result["parameters"][size.name] = sum(p.numel() for p in model.parameters())
        result["examples"][size.name].append(right_by_shots(model, shown))
        result["named"][size.name].append(right_by_shots(model, named)[0])
        for way in SUMS:
            written = way == "written"
            model = learn_sums(size, steps, seed, on_step, written=written)
            result[way][size.name].append(right_sums(model, seed, written=written))


def numbers_of(measured: dict[str, Any], steps: int, tries: int) -> Numbers:
    """What the picture shows and its words say."""
    names = measured["sizes"]
    return {
        "steps": steps,
        "tries": tries,
        "sizes": names,
        "best_possible": spread_of(measured["best"]).mean,
        **{f"right_by_examples_{name}": measured["examples"][name] for name in names},
        "right_by_name": [measured["named"][name] for name in names],
        "sums_at_once": [measured["at_once"][name] for name in names],
        "sums_with_steps": [measured["written"][name] for name in names],
        "parameters": [measured["parameters"][name] for name in names],
    }


def is_above(higher: Sequence[float], lower: Sequence[float]) -> bool:
    """Whether one of two measured things is larger in every training, by `MARGIN` on average."""
    return min(higher) > max(lower) and _mean(higher) - _mean(lower) >= MARGIN


def words_prompts(numbers: Numbers) -> Words:
    """Whether examples and written steps help, and whether the size of the model matters."""
    names = numbers["sizes"]
    by_examples = [list(zip(*numbers[f"right_by_examples_{name}"], strict=True)) for name in names]
    at_once, written = numbers["sums_at_once"], numbers["sums_with_steps"]
    helps = {
        "examples": [is_above(line[-1], line[0]) for line in by_examples],
        "steps": [is_above(*pair) for pair in zip(written, at_once, strict=True)],
    }
    parts = [f"{what} {_where(holds, names)}" for what, holds in helps.items()]
    if len({_where(holds, names) for holds in helps.values()}) == 1:
        parts = [f"{listed(list(helps))} {_where(helps['examples'], names)}"]
    small, large = by_examples[0], by_examples[-1]
    gaps = [_mean(b) - _mean(a) for a, b in zip(small, large, strict=True)]
    widest = max(range(len(gaps)), key=gaps.__getitem__)
    matters = {
        "rules": is_above(large[widest], small[widest]),
        "sums": any(is_above(line[-1], line[0]) for line in (at_once, written)),
    }
    effect = listed([task for task, holds in matters.items() if holds])
    if not effect:
        parts.append("no effect of size was seen")
    elif all(matters.values()):
        parts.append("size matters")
    else:
        other = next(task for task, holds in matters.items() if not holds)
        parts.append(f"size matters for {effect}, not for {other}")
    title = "; ".join(parts)
    shots = listed([f"{_mean(large[n]):.0f}" for n in (0, 2, SHOTS)])
    side = "below" if gaps[widest] >= 0 else "above"
    caption = (
        f"With 0, 2 and {SHOTS} examples {names[-1]} models are right in {shots}%, {names[0]} ones "
        f"{abs(gaps[widest]):.0f} points {side} at {widest}. Sums at once "
        f"{_means(at_once)}, with steps {_means(written)}: "
        f"{'an' if matters['sums'] else 'no'} effect of size was seen."
    )
    return Words(title[0].upper() + title[1:], caption)


def _where(helps: Sequence[bool], names: Sequence[str]) -> str:
    """At which sizes something helps, as a predicate.

    Example:
        >>> _where([True, False], ["small", "large"])
        'help at small size only'
    """
    if all(helps):
        return "help at every size"
    sizes = [name for name, helped in zip(names, helps, strict=True) if helped]
    return f"help at {listed(sizes)} size only" if sizes else "help at no size"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _means(table: Sequence[Sequence[float]]) -> str:
    """The mean of each row of percentages.

    Example:
        >>> _means([[8, 10], [9, 9], [100, 98]])
        '9, 9 and 99%'
    """
    return listed([f"{_mean(row):.0f}" for row in table]) + "%"


def prompts(measured: dict[str, Any], steps: int, tries: int, seed: int) -> Drawing:
    """Draw accuracy by number of examples, and sums with and without written steps."""
    numbers = numbers_of(measured, steps, tries)
    names = numbers["sizes"]
    sizes = "; ".join(
        f"{size.name}: {size.layers} layer{'s' * (size.layers > 1)}, width {size.dim}, "
        f"{measured['parameters'][size.name]:,} parameters"
        for size in SIZES
    )
    details = (
        f"Decoders of three sizes ({sizes}), one for each task, {steps} steps of Adam at {RATE:g} "
        f"with {BATCH} new texts each, seeds from {seed}; measured on {UNSEEN} others. Left: a "
        f"rule gives each of {LETTERS} letters one of {COLOURS} colours, and {RULES} rules are "
        "learned; a prompt shows letters with their colours and asks for another letter's colour. "
        "The weights do not change, only the prompt. By the rule's name alone "
        f"{_means(numbers['right_by_name'])} are right. Dotted: the best guess, given all rules "
        f"and the examples. Right: the last digit of a sum of {TERMS} digits, at once, or after "
        "the last digits of the partial sums, which the model writes itself; a guess is right in "
        "10%. Lines and bars: the mean over the seeds; vertical lines: from the least to the "
        f"largest. A difference counts from {MARGIN} points on, if every seed has it."
    )
    counts = listed([f"{count:,}" for count in numbers["parameters"]])
    limits = f"Decoders of {counts} parameters, {steps:,} steps each, {trainings(tries)}."
    with Board(words_prompts(numbers), (1.15, 1), details, limits=limits) as board:
        styles = dict(zip(names, LINE_STYLES, strict=False))
        board.legend({**styles, "the best possible": LineStyle(MUTED, ":")})
        axes = board.chart(0, "a rule shown by examples", "examples in the prompt", "right, %")
        for name, style in styles.items():
            draw_spread(axes, range(SHOTS + 1), spread_of(measured["examples"][name]), style)
        axes.curve(numbers["best_possible"], style=LineStyle(MUTED, ":"))
        axes.set(ylim=(0, 112), xticks=range(SHOTS + 1))
        _draw_sums(board, numbers)
        return board.drawing(**numbers)


def _draw_sums(board: Board, numbers: Numbers) -> None:
    """Bars of sums that are right, for each size at once and with written steps."""
    names = numbers["sizes"]
    axes = board.chart(
        1, f"the last digit of a sum of {TERMS}", "size of the model", "right, %; dotted: a guess"
    )
    for shift, what, colour in ((-0.2, "at_once", SKY), (0.2, "with_steps", PURPLE)):
        for index, shares in enumerate(numbers[f"sums_{what}"]):
            x, mean = index + shift, _mean(shares)
            axes.bar(x, mean, 0.38, color=colour)
            axes.vlines(x, min(shares), max(shares), color=INK, linewidth=2)
            axes.write((x, max(*shares, 10) + 1.5), f"{mean:.0f}", ha="center")
    axes.axhline(10, color=MUTED, linestyle=":", linewidth=1.8)  # a guess
    axes.set_xticks(range(len(names)), names)
    axes.set_ylim(0, 128)
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.write((-0.4, 118), "at once", color=BLUE, weight="bold")
    axes.write((len(names) - 0.6, 118), "with written steps", color=PURPLE, weight="bold",
          ha="right")  # fmt: skip
