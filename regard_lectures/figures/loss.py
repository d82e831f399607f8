"""Figure of part 5: the loss of one word as a picture, before and after training.

A small French–English translator is trained on the phrases of `french.txt`. Input: a pair such as
“merci = thanks”; with words that the phrases do not have, it becomes one of the phrases. For one
word of the translation, the model's distribution over its vocabulary is compared with the target:
one-hot, 1 at the right word, or smoothed, 1 - ε more than ε / |V| everywhere. With `model=` the
distribution is that of a trained translator. In numbers, with p the target and q the model's:

    cross-entropy  H(p, q) = -Σ p log q         KL divergence  KL(p‖q) = H(p, q) - H(p)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import Pipeline, load
from regard.data import Pair
from regard.draw import BLUE, LINE_STYLES, MUTED, ORANGE, SMALLEST, Chart, shorten
from regard.errors import InputError
from regard.explain import Board, Drawing, Words
from regard.inputs import TokensConfig, learn
from regard.models import EncoderDecoder, TransformerConfig, build, evaluating
from regard.tasks import Translate
from regard_lectures.figures.descent import Descent, running_median, train_on
from regard_lectures.limits import model_line
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import span, trainings

PHRASES = Path(__file__).parents[1] / "french.txt"
TEXT = "merci = thanks"
RATE, BATCH_TOKENS, MOST_TOKENS = 5e-3, 512, 30
SHOWN, MOST_BARS = 7, 9
"""The number of words whose probabilities are drawn, and of tokens whose losses are."""
CLOSE, NEARER = 0.2, 0.1
"""A KL divergence below CLOSE is close to the target; differences below NEARER count as none."""
LONGEST = 44
"""The most characters of the source in the caption."""


@cache
def phrases() -> tuple[Pair, ...]:
    """The French phrases and their translations."""
    lines = PHRASES.read_text(encoding="utf-8").splitlines()
    return tuple(read_pair(line) for line in lines if not line.startswith("#"))


def read_pair(text: str) -> Pair:
    """The pair of a line `source = target`.

    Raises:
        InputError: If one side is missing.
    """
    source, _, target = (part.strip() for part in text.partition("="))
    if not source or not target:
        raise InputError(
            "--text", got=repr(text), expected="a sentence = its translation",
            fix=f"such as '{TEXT}'",
        )  # fmt: skip
    return Pair(source, target)


def measure(
    text: str | None, word: int, model: str, steps: int, smoothing: float, tries: int, seed: int
) -> dict[str, Any]:
    """Measure one word of a pair in a trained translator, or before and after training one.

    Args:
        text: A pair, as in `merci = thanks`.
        word: Which word of the translation, from 1; one more than it has is the end symbol.
        model: A translator; empty to train one.
        steps: The number of training steps.
        smoothing: Label smoothing ε, in training and in the smoothed target.
        tries: The number of trainings, with the seeds `seed`, `seed + 1`, and so on.
        seed: The seed of weights and order.
    """
    pair = read_pair(TEXT if text is None else text)
    if model:
        return _measure_translator(load(model, device="cpu"), pair, word, smoothing)
    pairs = phrases()
    is_new = bool(_unknown_words(_task(pairs, smoothing, seed), pair))
    pairs = (*pairs, pair) if is_new else pairs
    with training_progress(steps * tries) as on_step:
        runs = [
            _measure_training(pairs, pair, word, smoothing, (steps, seed + run), on_step)
            for run in range(tries)
        ]
    numbers = runs[0]
    for when in ("before", "after"):
        numbers[f"probability_{when}"] = [run[when][run["right"]] for run in runs]
        numbers[f"kl_smoothed_{when}_of_all"] = [run[f"kl_smoothed_{when}"] for run in runs]
    return {**numbers, "phrases": len(pairs), "is_new": is_new, "steps": steps, "word": word}


def _task(pairs: Sequence[Pair], smoothing: float, seed: int) -> Translate:
    config = TokensConfig(kind="words", vocab=1000, shared=False, lowercase=True)
    return Translate(
        learn(pairs, config), pairs, batch_tokens=BATCH_TOKENS, smoothing=smoothing, seed=seed
    )


def _unknown_words(task: Translate, pair: Pair) -> list[str]:
    """The words of a pair that a translator does not know."""
    both = task.vocabulary
    return [*both.source.unknown_words(pair.source), *both.target.unknown_words(pair.target)]


def _measure_training(
    pairs: Sequence[Pair],
    pair: Pair,
    word: int,
    smoothing: float,
    training: tuple[int, int],
    on_step: OnStep,
) -> dict[str, Any]:
    """Train a translator by so many steps with a seed; one word of a pair before and after."""
    steps, seed = training
    torch.manual_seed(seed)
    task = _task(pairs, smoothing, seed)
    ids, index = _target(task, pair, word)
    config = TransformerConfig(
        dim=64, heads=4, hidden=128, layers=1, tied="output", dropout=0.0, max_length=32,
    )  # fmt: skip
    both = task.vocabulary
    model: EncoderDecoder = build(config, both.source.vocab, both.target.vocab)
    before = _distributions(model, task, pair)[index]
    warm, fall = max(1, steps // 10), max(1, steps // 2)
    descent = Descent(
        model.parameters(),
        RATE,
        on_step,
        lambda step: min((step + 1) / warm, 1.0, (steps - step) / fall),
        beta=0.98,
    )
    train_on(task, model, descent, steps)
    after = _distributions(model, task, pair)[index]
    return {
        "source": pair.source,
        "target": pair.target,
        "right": ids[index],
        "vocabulary": both.target.tokens(range(len(after))),
        "before": before.tolist(),
        "after": after.tolist(),
        **measures(before, ids[index], smoothing, "before"),
        **measures(after, ids[index], smoothing, "after"),
        "curve": descent.losses,
    }


def _measure_translator(
    pipeline: Pipeline, pair: Pair, word: int, smoothing: float
) -> dict[str, Any]:
    """The distribution of one token of a pair in a trained translator, and the loss of each."""
    task: Any = pipeline.translator()
    ids, index = _target(task, pair, word)
    table = _distributions(pipeline.model, task, pair)  # (target tokens, vocab)
    names = [_plain(name) for name in task.vocabulary.target.tokens(ids)]
    right, q = ids[index], table[index]
    likeliest = [int(token) for token in q.topk(SHOWN).indices]
    shown = [right, *[token for token in likeliest if token != right]][:SHOWN]
    losses = -table[range(len(ids)), ids].log()
    return {
        "model": pipeline.name,
        "limits": model_line(pipeline),
        "source": pair.source,
        "target": pair.target,
        "word": word,
        "tokens": names,
        "losses": losses.tolist(),
        "shown": [_plain(name) for name in task.vocabulary.target.tokens(shown)],
        "q": q[shown].tolist(),
        "is_likeliest": likeliest[0] == right,
        "vocab": len(q),
        "unknown": _unknown_words(task, pair),
        **measures(q, right, smoothing, "after"),
    }


def _plain(name: str) -> str:
    """A token without the mark of a word's beginning; a token that is nothing else stays."""
    return name.replace("▁", "").strip() or name


def _target(task: Translate, pair: Pair, word: int) -> tuple[list[int], int]:
    """The ids of the translation with its end symbol, and the position of a word, from 0.

    Raises:
        InputError: If a side is too long, or the translation has no such word.
    """
    both = task.vocabulary
    ids = [*both.target.encode(pair.target), both.target.end]
    longest = max(len(ids), len(both.source.encode(pair.source)))
    if longest > MOST_TOKENS:
        raise InputError("--text", got=f"{longest} tokens", expected=f"at most {MOST_TOKENS}")
    if word > len(ids):
        raise InputError("word", got=word, expected=f"1 to {len(ids)}")
    return ids, word - 1


def _distributions(model: EncoderDecoder, task: Translate, pair: Pair) -> Tensor:
    """The probabilities (target tokens, vocab) of each token, given source and tokens before."""
    batch = task.encode([pair]).batch([0])
    with evaluating(model):
        logits = model(*batch.sides)  # (target tokens, vocab)
    return logits.double().softmax(-1)


def measures(probabilities: Tensor, right: int, smoothing: float, when: str) -> dict[str, float]:
    """Cross-entropy and KL divergence of a distribution to both targets.

    Args:
        probabilities: (vocab,) The model's distribution q.
        right: The id of the right word.
        smoothing: ε of the smoothed target.
        when: The end of the names.
    """
    one_hot = torch.zeros_like(probabilities)
    one_hot[right] = 1.0
    smoothed = (1 - smoothing) * one_hot + smoothing / len(one_hot)
    logs, values = probabilities.log(), {}
    for name, target in (("one_hot", one_hot), ("smoothed", smoothed)):
        cross_entropy = -(target * logs).sum()
        entropy = -torch.special.xlogy(target, target).sum()
        values[f"cross_entropy_{name}_{when}"] = float(cross_entropy)
        values[f"kl_{name}_{when}"] = float(cross_entropy - entropy)
    return values


def words_loss(numbers: Mapping[str, Any]) -> Words:
    """Whether the model's distribution is close to its target: after training, or as shipped."""
    return (_words_translator if "model" in numbers else _words_training)(numbers)


def _words_training(numbers: Mapping[str, Any]) -> Words:
    name = numbers["vocabulary"][numbers["right"]]
    before, after = (numbers[f"kl_smoothed_{when}_of_all"] for when in ("before", "after"))
    nearer = [a < b - NEARER for a, b in zip(after, before, strict=True)]
    if all(nearer) and max(after) < CLOSE:
        title = f"Training brings the distribution of “{name}” close to its target"
    elif all(nearer):
        title = f"Training brings the distribution of “{name}” nearer to its target, not close"
    else:
        title = f"Training does not bring the distribution of “{name}” nearer to its target"
    first, last = (numbers[f"probability_{when}"] for when in ("before", "after"))
    caption = (
        f"Given “{_cut(numbers['source'])}”, the cross-entropy of “{name}” goes from −ln "
        f"{first[0]:.2g} = {-math.log(first[0]):.2f} to −ln {last[0]:.2g} = "
        f"{-math.log(last[0]):.2f} in {numbers['steps']} steps. KL to the smoothed target: "
        f"{before[0]:.2f}, then {after[0]:.2f}"
    )
    if len(after) > 1:
        caption += f" ({len(after)} seeds: {span(before, '.2f')}, then {span(after, '.2f')})"
    return Words(title, f"{caption}.{_left_out(len(numbers['vocabulary']), 'words')}")


def _words_translator(numbers: Mapping[str, Any]) -> Words:
    losses, tokens, index = numbers["losses"], numbers["tokens"], numbers["word"] - 1
    model, name, right = numbers["model"], tokens[index], math.exp(-losses[index])
    if numbers["is_likeliest"]:
        title = f"{model} expects “{name}”, with probability {right:.2f}"
    else:
        title = f"{model} does not expect “{name}” ({right:.2g}) but “{numbers['shown'][1]}”"
        title += f" ({numbers['q'][1]:.2f})"
    before = f" and “{' '.join(tokens[:index])}”" if index else ""
    hardest = max(range(len(losses)), key=losses.__getitem__)
    caption = (
        f"Given “{_cut(numbers['source'])}”{_cut(before)}, the cross-entropy of “{name}” is "
        f"−ln {right:.2g} = {losses[index]:.2f}, KL to the smoothed target "
        f"{numbers['kl_smoothed_after']:.2f}. Mean of the {len(losses)} tokens: "
        f"{sum(losses) / len(losses):.2f}; “{tokens[hardest]}” costs most."
    )
    if numbers["unknown"]:
        caption += f" Unknown to the model: {', '.join(numbers['unknown'])}."
    return Words(title, caption + _left_out(numbers["vocab"], "tokens"))


def _left_out(count: int, what: str) -> str:
    """A sentence that says how many of a vocabulary are drawn; empty if all are.

    Example:
        >>> _left_out(7, "words"), _left_out(4000, "tokens")
        ('', ' Drawn: 7 of 4,000 tokens.')
    """
    return f" Drawn: {SHOWN} of {count:,} {what}." if count > SHOWN else ""


def _cut(text: str) -> str:
    """A text of at most `LONGEST` characters; an ellipsis says that it was longer."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def loss(
    numbers: dict[str, Any],
    word: int,
    model: str,
    steps: int,
    smoothing: float,
    tries: int,
    seed: int,
) -> Drawing:
    """Draw the target and the model's distribution of one word."""
    if model:
        return _draw_translator(numbers, smoothing)
    right, names = numbers["right"], numbers["vocabulary"]
    vocab, lists = len(names), (numbers["before"], numbers["after"])
    others = sorted(
        (token for token in range(vocab) if token != right),
        key=lambda token: -max(values[token] for values in lists),
    )
    shown = [right, *others[: SHOWN - 1]]
    entropy = numbers["cross_entropy_smoothed_after"] - numbers["kl_smoothed_after"]
    details = (
        f"Label smoothing {smoothing:g}, seeds from {seed}; drawn is seed {seed}. Word {word} of "
        f"“{numbers['target']}”, given “{numbers['source']}” and the words before, among {vocab} "
        f"words; drawn are the {len(shown)} of most interest. To the one-hot target cross-entropy "
        "and KL divergence are the same number, as its entropy is 0: "
        f"{numbers['kl_one_hot_before']:.3f} before, {numbers['kl_one_hot_after']:.3f} after. The "
        f"smoothed target has the entropy {entropy:.3f}; cross-entropy "
        f"{numbers['cross_entropy_smoothed_before']:.3f} and KL {numbers['kl_smoothed_before']:.3f}"
        f" before, {numbers['cross_entropy_smoothed_after']:.3f} and "
        f"{numbers['kl_smoothed_after']:.3f} after. Training cannot get below this entropy."
    )
    phrases_read = "phrases, French ones and yours" if numbers["is_new"] else "French phrases"
    limits = (
        f"1 + 1 layers, 64 wide: {steps:,} steps on {numbers['phrases']} {phrases_read}, "
        f"{trainings(tries)}."
    )
    with Board(words_loss(numbers), (1.35, 1, 1, 1.1), details, limits=limits) as board:
        labels = [names[token] for token in shown]
        _draw_target(board, labels, vocab, smoothing)
        for panel, (when, values) in enumerate(zip(("before", "after"), lists, strict=True), 1):
            below = f"KL {numbers[f'kl_smoothed_{when}']:.2f}"
            axes = board.chart(panel, f"{when} training", "", below, ticks=8)
            _draw_bars(axes, [values[token] for token in shown], BLUE)
        _draw_curve(board.chart(3, "learning", "step", "cross-entropy"), numbers["curve"], entropy)
        return board.drawing(**numbers)


def _draw_translator(numbers: dict[str, Any], smoothing: float) -> Drawing:
    """Draw the target, a translator's distribution, and the loss of each token."""
    tokens, losses = numbers["tokens"], numbers["losses"]
    details = (
        f"Token {numbers['word']} of “{numbers['target']}”, given “{numbers['source']}” and the "
        f"tokens before, among {numbers['vocab']:,} tokens; drawn are the right one and the "
        f"likeliest others. Label smoothing {smoothing:g}. Cross-entropy to the smoothed target "
        f"{numbers['cross_entropy_smoothed_after']:.3f}. A token may be a part of a word."
    )
    index = numbers["word"] - 1
    start = max(0, min(index - MOST_BARS // 2, len(tokens) - MOST_BARS))
    chosen = range(start, min(len(tokens), start + MOST_BARS))
    below = "cross-entropy"
    if len(chosen) < len(tokens):
        below += f", tokens {start + 1} to {chosen[-1] + 1} of {len(tokens)}"
    with Board(words_loss(numbers), (1.4, 1, 1.5), details, limits=numbers["limits"]) as board:
        _draw_target(board, numbers["shown"], numbers["vocab"], smoothing)
        axes = board.chart(1, "the model", "", f"KL {numbers['kl_smoothed_after']:.2f}", ticks=8)
        _draw_bars(axes, numbers["q"], BLUE)
        axes = board.chart(2, "each token’s loss", "", below, ticks=130)
        values = [losses[position] for position in chosen]
        colours = [ORANGE if position == index else BLUE for position in chosen]
        axes.barh(range(len(values)), values, 0.6, color=colours)
        high = max(1.0, *values)
        for row, value in enumerate(values):
            axes.write((value + 0.03 * high, row), f"{value:.2f}", va="center")
        axes.set(xlim=(0, 1.4 * high), ylim=(max(SHOWN, len(values)) - 0.4, -0.6))
        labels = [shorten(tokens[position], 120, SMALLEST) for position in chosen]
        axes.set_yticks(range(len(labels)), labels)
        axes.grid(visible=False, axis="y")
        return board.drawing(**numbers)


def _draw_target(board: Board, labels: Sequence[str], vocab: int, smoothing: float) -> None:
    """Draw the smoothed target of the first word among some, and the one-hot one as an outline."""
    axes = board.chart(0, "the target", "", "smoothed; line: one-hot", ticks=130)
    low = smoothing / vocab
    _draw_bars(axes, [1 - smoothing + low, *[low] * (len(labels) - 1)], ORANGE)
    axes.barh([0], [1.0], 0.84, fill=False, edgecolor=MUTED, linewidth=1.6)
    axes.set_yticks(range(len(labels)), [shorten(name, 122, SMALLEST) for name in labels])


def _draw_bars(axes: Chart, values: Sequence[float], colour: str) -> None:
    """Draw a bar for each word, with its probability beside it."""
    axes.barh(range(len(values)), values, 0.6, color=colour)
    for row, value in enumerate(values):
        said = f"{value:.3f}" if value < 0.995 else f"{value:.2f}"
        said = "<0.001" if 0 < value < 0.0005 else said
        inside = value > 0.6
        axes.write((value - 0.02 if inside else value + 0.03, row), said,
                   ha="right" if inside else "left", va="center",
                   color="white" if inside else "black")  # fmt: skip
    axes.set(xlim=(0, 1.04), ylim=(len(values) - 0.4, -0.6))
    axes.set_xticks([0, 0.5, 1])
    axes.set_yticks([])
    axes.grid(visible=False, axis="y")


def _draw_curve(axes: Chart, curve: list[float], entropy: float) -> None:
    """Draw the training loss, to the smoothed target, and the entropy of the target."""
    axes.curve(range(1, len(curve) + 1), running_median(curve), style=LINE_STYLES[0])
    axes.axhline(entropy, color=MUTED, linewidth=1.6, linestyle=":")
    top = max(curve) * 1.05
    axes.set_ylim(0, top)
    axes.write((len(curve), entropy - 0.02 * top), "target’s entropy", ha="right", va="top",
               color=MUTED)  # fmt: skip
