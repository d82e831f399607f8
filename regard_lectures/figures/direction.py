"""Figure of part 6: does a model whose examples need only the words before attend in one direction?

A text has digits and one blank, where the sum of two of the digits is to be said. These are known
by a mark, as in `2 3* 0 ? 1 4*`, or by their place on the left and right of the blank, as in
`2 3 ? 4 1`: 7 in both. For each there are two bidirectional encoders with the same first weights.
One is trained on texts that need only the words before: both marked digits are before the blank, or
the digit after it is always 0. The other is trained on texts that need the words on both sides. The
rule is the same, and nothing is masked. Of the attention of the blank q

    share before = Σ_{k < q} a_qk / Σ_{k ≠ q} a_qk

goes to the words before it, as a mean over layers and heads, on texts that need both sides. Whether
a model generalises is measured on texts that need only the words after.
"""

from __future__ import annotations

import math
import re
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.draw import LINE_STYLES, MUTED, Chart, LineStyle
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words, in_words
from regard.layers import Tap
from regard_lectures import results
from regard_lectures.claims import claimed, interval, numbers_of
from regard_lectures.claims.blanks import (
    AFTER,
    BATCH,
    BEFORE,
    BLANK,
    BOTH,
    DIGITS,
    DIM,
    HEADS,
    LAYERS,
    LENGTH,
    MARK,
    PLACE,
    draw_texts,
    logits_at,
    read_text,
    sum_of,
    train,
)
from regard_lectures.claims.journal import Journal
from regard_lectures.limits import model_line
from regard_lectures.own_looks import look_at
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import trainings

TRAINED = {BEFORE: "words before", BOTH: "both sides"}
"""What the training examples need."""
TESTED = {BEFORE: "needs before", BOTH: "needs both", AFTER: "needs after"}
"""What the test texts need."""
KNOWN = {MARK: "a mark", PLACE: "place"}
"""How the needed words are known."""
DECIDES = MARK
"""The texts that decide the claim; the others were added when these were measured."""
TEXT = "2 0 3 1 4 2 ? 1 3 4 2 0"
UNSEEN, UNSEEN_SEED = 2_000, 1_000_000
EVEN = (0.4, 0.6)
"""A model whose share before is between these looks to both sides."""
SPECIAL = re.compile(r"[<\[].+[>\]]")
"""Tokens that no one wrote, such as [CLS]: they are left out."""
MOST_LAYERS = 12


def measure(text: str | None, model: str, steps: int, tries: int, seed: int) -> dict[str, Any]:
    """Train encoders with several seeds; a model of one's own is only looked at.

    With a text of one's own only those that read it are trained, if the others are stored.
    """
    if model:
        return measure_model(model, text)
    words = (TEXT if text is None else text).split()
    known, ids = read_text(words)
    asked = {"model": model, "steps": steps, "tries": tries, "seed": seed}
    result = results.stored("direction", asked) if text is not None else None
    trained = len(TRAINED) * (1 + (len(KNOWN) * tries if result is None else 0))
    with training_progress(steps * trained) as on_step:
        result = train_all(steps, tries, seed, on_step) if result is None else result
        shown = {
            name: attention_on(ids, train(known, name, steps, seed, on_step)) for name in TRAINED
        }
    total = sum_of(known, ids)
    return {**result, "words": words, "known": known, "total": total, "shown": shown}


def train_all(steps: int, tries: int, seed: int, on_step: OnStep) -> dict[str, Any]:
    """Train all encoders with several seeds.

    Returns:
        `accuracies`: in percent, by how the digits are known, what the training needs and what the
        test needs; `share`: before the blank, in percent, by the first two. (tries,) each.
    """
    tasks: dict[str, Any] = {
        known: {
            "accuracies": {name: {kind: [] for kind in TESTED} for name in TRAINED},
            "share": {name: [] for name in TRAINED},
        }
        for known in KNOWN
    }
    with Journal("direction", {"steps": steps}) as journal:
        for known, number, name in product(KNOWN, range(seed, seed + tries), TRAINED):
            run = partial(train_and_test, known, name, steps, number, on_step)
            tested = journal.get(f"{known} {number} {name}", run)
            tasks[known]["share"][name].append(tested["share"])
            for kind in TESTED:
                tasks[known]["accuracies"][name][kind].append(tested["right"][kind])
    by_task = {known: differences_of(task) for known, task in tasks.items()}
    return {"trained": True, **tasks, "by_task": by_task, "differences": by_task[DECIDES]}


def differences_of(task: dict[str, Any]) -> dict[str, list[float]]:
    """The differences of the claim's parts in points, one for each seed."""
    right, share = task["accuracies"], task["share"]
    return {
        "before": np.subtract(share[BEFORE], share[BOTH]).tolist(),
        "generalises": np.subtract(right[BOTH][AFTER], right[BEFORE][AFTER]).tolist(),
    }


# Measurement.


def train_and_test(known: str, name: str, steps: int, seed: int, on_step: OnStep) -> dict[str, Any]:
    """Train one encoder; its accuracies by what texts need, and its share before, in percent."""
    model = train(known, name, steps, seed, on_step)
    data = torch.Generator().manual_seed(seed + UNSEEN_SEED)
    right, share = {}, 0.0
    with torch.no_grad():
        for kind in TESTED:
            ids, blank, total = draw_texts(known, kind, UNSEEN, data)
            tap = Tap("*.weights")
            hits = logits_at(model, ids, blank, tap).argmax(1) == total
            right[kind] = 100 * float(hits.float().mean())
            if kind == BOTH:
                share = 100 * float(share_before(blank_rows(tap, blank), blank).mean())
    return {"right": right, "share": share}


@torch.no_grad()
def attention_on(ids: Tensor, model: Any) -> dict[str, Any]:
    """The attention of the blank of a text (1, words), a mean over layers and heads; the answer."""
    tap, blank = Tap("*.weights"), (ids == BLANK).int().argmax(1)
    answer = int(logits_at(model, ids, blank, tap).argmax())
    return {"weights": blank_rows(tap, blank).mean((1, 2))[0].tolist(), "answer": answer}


def blank_rows(tap: Tap, blank: Tensor) -> Tensor:
    """The attention of the blanks: (texts, layers, heads, key)."""
    layers = torch.stack(list(tap.records.values()), 1)  # (texts, layers, heads, query, key)
    return layers[torch.arange(len(blank)), :, :, blank]


def share_before(rows: Tensor, query: Tensor) -> Tensor:
    """The share of attention before the query, of that on other words.

    Args:
        rows: (texts, layers, heads, key) The attention of one query of each text.
        query: (texts,) Its position.

    Returns:
        (texts, layers, heads)
    """
    positions = torch.arange(rows.shape[-1])
    earlier, later = (side[:, None, None] for side in (positions < query[:, None],
                                                       positions > query[:, None]))  # fmt: skip
    before, after = (rows * earlier).sum(-1), (rows * later).sum(-1)
    return before / (before + after).clamp(min=1e-9)


def measure_model(model: str, text: str | None) -> dict[str, Any]:
    """The share of attention before each word, by layer, of a model on texts of one's own.

    Of a translator the encoder is measured: its decoder has a mask.

    Raises:
        InputError: If the model has no self-attention over a text, or no text has three words.
    """
    pipeline, looks, read = look_at(model, text)
    by_layer: dict[str, list[float]] = {}
    looks_at_words = False
    coded = any(layer.site.startswith("encoder") for layer in looks[0].maps)
    for look in [] if pipeline.reads_images else looks:
        for layer in look.maps:
            if not layer.site.endswith("self") or (coded and layer.site.startswith("decoder")):
                continue
            looks_at_words = True
            written = [n for n, key in enumerate(layer.keys) if not SPECIAL.fullmatch(key)]
            weights = torch.as_tensor(np.array(layer.weights)).double()
            weights = weights[:, written][:, :, written]  # (heads, words, words)
            query = torch.arange(1, max(1, len(written) - 1))  # with words on both sides
            if len(query):
                shares = share_before(weights[:, query].transpose(0, 1)[:, None], query)
                by_layer.setdefault(layer.site, []).append(100 * float(shares.mean()))
    if not looks_at_words:
        raise InputError(
            f"show direction: {pipeline.name}, {read}",
            got="no self-attention between words",
            expected="a model of texts with self-attention",
            fix="such as model=small/fill",
        )
    if not by_layer:
        raise InputError("--text", got=read, expected="a text of three words or more")
    return {
        "trained": False,
        "model": pipeline.name,
        "read": read,
        "limits": model_line(pipeline),
        "layers": [in_words(site) for site in by_layer],
        "share": [float(np.mean(shares)) for shares in by_layer.values()],
    }


# Its words.


def words_direction(numbers: Numbers) -> Words:
    """Whether examples decide the direction of attention, and what is lost; or a model's."""
    return _words_trained(numbers) if numbers["trained"] else _words_model(numbers)


def _words_trained(numbers: Numbers) -> Words:
    sided = [
        known
        for known in KNOWN
        if all(interval(values).verdict == "holds" for values in numbers["by_task"][known].values())
    ]
    if len(sided) == len(KNOWN):
        title = "Examples that need only the words before teach one direction"
    elif sided:
        other = next(phrase for known, phrase in KNOWN.items() if known not in sided)
        title = f"Examples teach one direction if words are known by {KNOWN[sided[0]]}, not {other}"
    else:
        title = "Examples that need only the words before do not surely teach one direction"
    shares, right = (
        [" and ".join(f"{np.mean(value):.0f}%" for value in row) for row in rows]
        for rows in (
            [[numbers[known]["share"][name] for name in TRAINED] for known in KNOWN],
            [[numbers[known]["accuracies"][name][AFTER] for name in TRAINED] for known in KNOWN],
        )
    )
    first, second = KNOWN.values()
    verdict = claimed(numbers["verdict"])
    caption = (
        f"Attention before the blank, trained on words before and on both sides: by {first} "
        f"{shares[0]}, by {second} {shares[1]}. Right if only words after matter: {right[0]}; "
        f"{right[1]}. The texts with marks decide: {verdict[0].lower()}{verdict[1:]}"
    )
    return Words(title, caption)


def _words_model(numbers: Numbers) -> Words:
    shares = numbers["share"]
    mean = float(np.mean(shares))
    low, high = (100 * edge for edge in EVEN)
    if min(shares) > 99.5:
        title = f"{numbers['model']} attends to the words before, and to none after"
    elif low <= mean <= high:
        title = f"{numbers['model']} attends to both sides"
    else:
        title = (
            f"{numbers['model']} attends more to the words {'before' if mean > high else 'after'}"
        )
    most = int(np.argmax(shares))
    caption = (
        f"Of the attention on other words {mean:.0f}% goes to those before, on {numbers['read']}; "
        f"most in {numbers['layers'][most]}, {shares[most]:.0f}%, least "
        f"{min(shares):.0f}%. Even attention would be 50%."
    )
    return Words(title, caption)


# The picture.


def direction(measured: dict[str, Any], *, steps: int, tries: int, seed: int, **_: Any) -> Drawing:
    """Draw accuracies by what a text needs, and the attention of the blank of a text."""
    if not measured["trained"]:
        return _draw_model(measured)
    numbers: Numbers = {
        **{key: value for key, value in measured.items() if key != "differences"},
        **numbers_of("direction", measured["differences"]),
    }
    styles = {f"trained on {TRAINED[name]}": style for name, style in _styles().items()}
    limits = f"Encoders of width {DIM}, {steps:,} steps on random digits, {trainings(tries)}; "
    limits += f"attention of seed {seed}."
    details = _details(measured, steps, seed)
    with Board(words_direction(numbers), (1.15, 0.75, 1.5), details, limits=limits) as board:
        board.legend(styles)
        for panel, (known, phrase) in enumerate(KNOWN.items()):
            axes = board.chart(
                panel,
                f"known by {phrase}" if panel == 0 else f"by {phrase}",
                "right, %",
                ticks=185 if panel == 0 else 10,
            )
            _draw_accuracies(axes, measured[known]["accuracies"])
            axes.set_yticks(range(len(TESTED)), TESTED.values() if panel == 0 else [""] * 3)
        words = measured["words"]
        axes = board.chart(2, "attention of the blank", "", "")
        for offset, (name, style) in zip((-0.2, 0.2), _styles().items(), strict=True):
            heights = measured["shown"][name]["weights"]
            axes.bar(np.arange(len(words)) + offset, heights, 0.38, color=style.colour)
        axes.axvline(words.index("?"), color=MUTED, linewidth=1.4, linestyle=":")
        axes.set_xticks(range(len(words)), words)
        return board.drawing(**numbers)


def _styles() -> dict[str, LineStyle]:
    """The style of each training."""
    return dict(zip(TRAINED, LINE_STYLES, strict=False))


def _draw_accuracies(axes: Chart, right: dict[str, dict[str, list[float]]]) -> None:
    """Draw a bar for each training and each kind of texts, with a mark for each seed."""
    for offset, (name, style) in zip((-0.18, 0.18), _styles().items(), strict=True):
        for row, kind in enumerate(TESTED):
            values = right[name][kind]
            axes.barh(row + offset, np.mean(values), 0.32, color=style.colour, alpha=0.45)
            axes.plot(values, [row + offset] * len(values), linestyle="none", markersize=8,
                      marker=style.marker, color=style.colour)  # fmt: skip
    axes.set(xlim=(0, 112), ylim=(len(TESTED) - 0.5, -0.5))
    axes.set_xticks([0, 50, 100])


def _details(measured: dict[str, Any], steps: int, seed: int) -> str:
    """What was trained and measured, and the differences that decide."""
    answers = [measured["shown"][name]["answer"] for name in TRAINED]
    spans = " ".join(
        f"Known by {phrase}: share before {interval(parts['before']).shown(unit=' points')}, right "
        f"{interval(parts['generalises']).shown(unit=' points')}."
        for (known, phrase), parts in zip(KNOWN.items(), measured["by_task"].values(), strict=True)
    )
    return (
        f"Encoders of {LAYERS} layers, width {DIM}, {HEADS} heads, learned positions, no mask; "
        f"{steps:,} steps of {BATCH} texts of {LENGTH} words, digits 0 to {DIGITS - 1}. At the "
        "blank the sum of two digits is to be said: of the marked ones, or of its neighbours. "
        "Words before: both marks are before the blank, or the digit after it is always 0; words "
        f"after: the reverse. Right: of {UNSEEN:,} new texts; {1 / DIGITS:.0%} by always saying "
        "the most frequent sum. Attention: mean over layers and heads, share on texts that need "
        f"both sides. Both trainings differ, with seeds from {seed}: {spans} The texts with marks "
        "decide the claim, as they were set up first. Right: a text; these say "
        f"{answers[0]} and {answers[1]}, the sum is {measured['total']}."
    )


def _draw_model(measured: dict[str, Any]) -> Drawing:
    """Draw the share of attention before a word, by layer of a trained model."""
    numbers: Numbers = dict(measured)
    layers, shares = measured["layers"], measured["share"]
    step = math.ceil(len(layers) / MOST_LAYERS)
    chosen = [*range(0, len(layers), step)]
    heading = "attention on the words before" + (f", 1 in {step} layers" if step > 1 else "")
    details = (
        f"{measured['model']} reads {measured['read']}. For each word with others on both sides: "
        "the share of its attention on other words that goes to those before, as a mean over "
        "heads, words and texts; tokens that no one wrote, such as [CLS], are left out. Attention "
        "that is the same everywhere has 50%."
    )
    limits = measured["limits"]
    with Board(words_direction(numbers), (1,), details, limits=limits) as board:
        axes = board.chart(0, heading, "% of that on other words", ticks=330)
        axes.barh(range(len(chosen)), [shares[index] for index in chosen], 0.6,
                  color=LINE_STYLES[0].colour)  # fmt: skip
        axes.axvline(50, color=MUTED, linewidth=1.4)
        axes.set_yticks(range(len(chosen)), [layers[index] for index in chosen])
        axes.set(xlim=(0, 105), ylim=(len(chosen) - 0.5, -0.5))
        return board.drawing(**numbers)
