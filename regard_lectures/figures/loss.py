"""Figure of part 5: the loss of one word as a picture, before and after training.

A small French–English translator is trained on the phrases of `french.txt`. Input: a pair such as
“merci = thanks”. For one word of the translation, the model's distribution over its vocabulary is
compared with the target: one-hot, 1 at the right word, or smoothed, 1 - ε more than ε / |V|
everywhere. In numbers, with p the target and q the model's distribution:

    cross-entropy  H(p, q) = -Σ p log q         KL divergence  KL(p‖q) = H(p, q) - H(p)
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data import Pair
from regard.draw import BLUE, LINE_STYLES, MUTED, ORANGE, SMALLEST, Chart, shorten
from regard.errors import InputError
from regard.explain import Board, Drawing
from regard.inputs import TokensConfig, learn
from regard.models import EncoderDecoder, TransformerConfig, build, evaluating
from regard.tasks import Translate
from regard_lectures.figures.descent import Descent, running_median, train_on
from regard_lectures.progress import training_progress

PHRASES = Path(__file__).parents[1] / "french.txt"
TEXT = "merci = thanks"
RATE, BATCH_TOKENS = 5e-3, 512
SHOWN = 7
"""The number of words whose probabilities are drawn."""


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
        raise InputError("--text", got=repr(text), expected=f"source = target, as in '{TEXT}'")
    return Pair(source, target)


def measure(text: str | None, word: int, steps: int, smoothing: float, seed: int) -> dict[str, Any]:
    """Train the translator, and measure one word of a pair before and after.

    Args:
        text: A pair, as in `merci = thanks`.
        word: Which word of the translation, from 1; one more than it has is the end symbol.
        steps: The number of training steps.
        smoothing: Label smoothing ε, in training and in the smoothed target.
        seed: The seed of weights and order.
    """
    pair = read_pair(TEXT if text is None else text)
    torch.manual_seed(seed)
    pairs = phrases()
    vocabulary = learn(pairs, TokensConfig(kind="words", vocab=1000, shared=False, lowercase=True))
    task = Translate(vocabulary, pairs, batch_tokens=BATCH_TOKENS, smoothing=smoothing, seed=seed)
    ids, index = _target(task, pair, word)
    config = TransformerConfig(
        dim=64, heads=4, hidden=128, layers=1, tied="output", dropout=0.0, max_length=32,
    )  # fmt: skip
    model: EncoderDecoder = build(config, vocabulary.source.vocab, vocabulary.target.vocab)
    before = _distribution(model, task, pair, index)
    warm, fall = max(1, steps // 10), max(1, steps // 2)
    with training_progress(steps) as on_step:
        descent = Descent(
            model.parameters(),
            RATE,
            on_step,
            lambda step: min((step + 1) / warm, 1.0, (steps - step) / fall),
            beta=0.98,
        )
        train_on(task, model, descent, steps)
    after = _distribution(model, task, pair, index)
    names = vocabulary.target.tokens(range(len(after)))
    return {
        "source": pair.source,
        "target": pair.target,
        "right": ids[index],
        "vocabulary": names,
        "before": before.tolist(),
        "after": after.tolist(),
        **measures(before, ids[index], smoothing, "before"),
        **measures(after, ids[index], smoothing, "after"),
        "phrases": len(pairs),
        "curve": descent.losses,
    }


def _target(task: Translate, pair: Pair, word: int) -> tuple[list[int], int]:
    """The ids of the translation with its end symbol, and the position of a word, from 0.

    Raises:
        InputError: If the model does not know a word, or the translation has no such word.
    """
    both = task.vocabulary
    for tokenizer, text in ((both.source, pair.source), (both.target, pair.target)):
        if unknown := tokenizer.unknown_words(text):
            examples = ", ".join(
                f"“{phrase.source} = {phrase.target}”" for phrase in phrases()[7:10]
            )
            raise InputError(
                "--text",
                got=f"the word {unknown[0]!r}",
                expected="words of the training phrases",
                fix=f"try some of {examples}",
            )
    ids = [*both.target.encode(pair.target), both.target.end]
    if word > len(ids):
        raise InputError("word", got=word, expected=f"1 to {len(ids)}")
    return ids, word - 1


def _distribution(model: EncoderDecoder, task: Translate, pair: Pair, index: int) -> Tensor:
    """The probabilities (vocab,) of the token at an index, given source and words before."""
    batch = task.encode([pair]).batch([0])
    with evaluating(model):
        logits = model(*batch.sides)  # (target tokens, vocab)
    return logits[index].double().softmax(-1)


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


def loss(numbers: dict[str, Any], word: int, steps: int, smoothing: float, seed: int) -> Drawing:
    """Draw the target and the model's distribution of one word, before and after training."""
    right, names = numbers["right"], numbers["vocabulary"]
    vocab, name = len(names), names[right]
    lists = numbers["before"], numbers["after"]
    others = sorted(
        (token for token in range(vocab) if token != right),
        key=lambda token: -max(values[token] for values in lists),
    )
    shown = [right, *others[: SHOWN - 1]]
    caption = (
        f"“{numbers['source']}”: the cross-entropy of “{name}” is −ln {lists[0][right]:.4f} = "
        f"{numbers['cross_entropy_one_hot_before']:.2f} before training and "
        f"{numbers['cross_entropy_one_hot_after']:.2f} after {steps} steps; KL to the smoothed "
        f"target: {numbers['kl_smoothed_before']:.2f} and {numbers['kl_smoothed_after']:.2f}."
    )
    entropy = numbers["cross_entropy_smoothed_after"] - numbers["kl_smoothed_after"]
    details = (
        f"A Transformer of width 64, one encoder and one decoder layer, trained on "
        f"{numbers['phrases']} French phrases; {steps} steps of Adam, label smoothing "
        f"{smoothing:g}, seed {seed}. Word {word} of “{numbers['target']}”, "
        f"given “{numbers['source']}” and the words before, among {vocab} words; drawn are the "
        f"{len(shown)} of most interest. To the one-hot target cross-entropy and KL divergence are "
        "the same number, as its entropy is 0: "
        f"{numbers['kl_one_hot_before']:.3f} before, {numbers['kl_one_hot_after']:.3f} after. The "
        f"smoothed target has the entropy {entropy:.3f}; cross-entropy "
        f"{numbers['cross_entropy_smoothed_before']:.3f} and KL {numbers['kl_smoothed_before']:.3f}"
        f" before, {numbers['cross_entropy_smoothed_after']:.3f} and "
        f"{numbers['kl_smoothed_after']:.3f} after: the loss of training ends near this entropy, "
        f"not near 0."
    )
    title = f"The loss as a picture: “{numbers['source']}” → “{numbers['target']}”"
    with Board(caption, (1.35, 1, 1, 1.1), details, title) as board:
        one_hot = [float(token == right) for token in range(vocab)]
        smoothed = [(1 - smoothing) * value + smoothing / vocab for value in one_hot]
        for panel, (heading, values) in enumerate(
            (("the target", smoothed), ("before", lists[0]), ("after", lists[1]))
        ):
            when = heading if panel else ""
            below = (
                f"KL {numbers[f'kl_smoothed_{when}']:.2f}" if when else "smoothed; line: one-hot"
            )
            axes = board.chart(panel, heading, "", below, ticks=110 if panel == 0 else 8)
            _draw_bars(axes, [values[token] for token in shown], ORANGE if panel == 0 else BLUE)
            if panel == 0:  # the one-hot target, as an outline
                axes.barh([0], [1.0], 0.84, fill=False, edgecolor=MUTED, linewidth=1.6)
                labels = [shorten(names[token], 104, SMALLEST) for token in shown]
                axes.set_yticks(range(len(shown)), labels)
        _draw_curve(board.chart(3, "learning", "step", "cross-entropy"), numbers["curve"], entropy)
        return board.drawing(**numbers)


def _draw_bars(axes: Chart, values: list[float], colour: str) -> None:
    """Draw a bar for each word, with its probability beside it."""
    axes.barh(range(len(values)), values, 0.6, color=colour)
    for row, value in enumerate(values):
        said = f"{value:.3f}" if value < 0.995 else f"{value:.2f}"
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
    if math.isfinite(entropy):
        axes.write((len(curve), entropy - 0.02 * top), "entropy of the target", ha="right",
                   va="top", color=MUTED)  # fmt: skip
