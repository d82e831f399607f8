"""Figure of part 3: attention beside a look-up that takes the value of the nearest key.

A look-up gives a query the value of one key, the one with the largest product q·k. Attention gives
it the mean of all values, weighted by softmax(q·k / √d_k). Input: a translator and a sentence. Its
weights are replaced by a one at their largest entry and zeros elsewhere, in one head, in a kind of
attention or everywhere, and the translations and the loss are compared with those of the softmax.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard import Pipeline, load
from regard.data import Pair, grammar, load_pairs, split_files
from regard.draw import BLUE, ORANGE, WIDTH, positive_scale, wrap
from regard.draw import TEXT as TEXT_HEIGHT
from regard.explain import AttentionMap, Board, Drawing, Look, Numbers, Words, in_words, look_of
from regard.layers import Edit, Tap, split_head
from regard.models import evaluating
from regard_lectures.limits import model_line
from regard_lectures.map_labels import map_labels
from regard_lectures.tries import listed

TEXT = "The old woman gave us apples."
KINDS = {
    "encoder": "encoder.*.self",
    "decoder": "decoder.*.self",
    "cross": "decoder.*.cross",
}
"""The kinds of attention, each with the pattern of its layers' names."""
MOST_WORDS = 8
"""The most queries and keys of the maps."""
DOUBT = 0.05
"""The p-value from which on a difference may be chance."""
MARGIN = 24
"""Pixels on either side of the lines above the maps."""


def nearest(weights: Tensor) -> Tensor:
    """A one at the largest weight of each query, zeros elsewhere: (…, query, key).

    If all keys are masked, all weights of the query stay zero.
    """
    best = weights.argmax(-1, keepdim=True)
    return torch.zeros_like(weights).scatter_(-1, best, 1.0) * (weights.sum(-1, keepdim=True) > 0)


def look_up(layers: str, head: int | None = None) -> Edit:
    """An edit that makes attention a look-up.

    Args:
        layers: A layer's name or a pattern, such as `decoder.*.cross`.
        head: The only head that is changed; None: all of them.
    """

    def change(weights: Tensor) -> Tensor:  # (batch, heads, query, key)
        if head is None:
            return nearest(weights)
        changed = weights.clone()
        changed[:, head] = nearest(weights[:, head])
        return changed

    return Edit(f"{layers}.weights", change, head)


@dataclass(frozen=True)
class Score:
    """How a translator does on held-out pairs."""

    right: list[bool]
    """For each pair, whether the translation equals the reference."""
    loss: float
    """The mean cross-entropy of the reference's tokens."""

    @property
    def exact(self) -> float:
        """The percentage of translations that equal the reference."""
        return 100 * sum(self.right) / len(self.right)


@dataclass(frozen=True)
class Shown:
    """What is shown of the sentence."""

    head: str
    targets: tuple[str, str]
    """Its translations: with softmax, and with a look-up in all heads."""
    maps: tuple[AttentionMap, AttentionMap]
    """The weights of the head's layer: with softmax, and with a look-up in this head."""
    largest: float
    """The largest weight of a query, on average over all heads."""
    named: bool
    """Whether the user named the head."""


def lookup(text: str | None, model: str, head: str, data: str, pairs: int) -> Drawing:
    """Draw the weights of a head with softmax and as a look-up, and the scores of both.

    Args:
        text: The sentence to translate.
        model: A translator.
        head: The head to show, and to change alone; by default the one that changes most.
        data: A file of pairs; by default held-out sentences of the grammar.
        pairs: How many of the pairs are translated.
    """
    pipeline = load(model, device="cpu")
    pipeline.translator()
    sentence = TEXT if text is None else text
    kinds = {kind: layers for kind, layers in KINDS.items() if _sites(pipeline, layers)}
    edits = [look_up(layers) for layers in kinds.values()]
    soft = _seen(pipeline, sentence)
    hard = _seen(pipeline, sentence, edits)
    chosen = head or _most_changed(pipeline, sentence, soft.target)
    layer, number = split_head(chosen)
    # Changed alone and reading the same translation, the head has the scores of the softmax.
    alone = _seen(pipeline, sentence, [look_up(layer, number)], target=soft.target)
    sets: dict[str, list[Edit]] = {
        "softmax": [],
        "one head": [look_up(layer, number)],
        **{kind: [look_up(layers)] for kind, layers in kinds.items()},
        "all heads": edits,
    }
    held_out = _pairs(data, pairs)
    scores = {name: _score(pipeline, held_out, chosen_edits) for name, chosen_edits in sets.items()}
    largest = sum(float(site_map.weights.max(-1).mean()) for site_map in soft.maps) / len(soft.maps)
    shown = Shown(
        chosen,
        (soft.target, hard.target),
        (soft.site(layer), alone.site(layer)),
        largest,
        bool(head),
    )
    origin = f"pairs of {data}" if data else "sentences of the grammar with new combinations"
    return _draw(pipeline, shown, scores, origin)


def _sites(pipeline: Pipeline, layers: str) -> bool:
    """Whether the model has layers of this kind."""
    first, _, last = layers.split(".")
    names = [split_head(head)[0].split(".") for head in pipeline.model.heads()]
    return any(name[0] == first and name[-1] == last for name in names)


def _seen(
    pipeline: Pipeline, text: str, edits: Sequence[Edit] = (), target: str | None = None
) -> Look:
    """Translate a sentence greedily, or force a translation, and record all weights."""
    trace = pipeline.translator().trace(
        pipeline.model,
        text,
        Tap("*.weights", edits=edits),
        decode=pipeline.decoding(beam=1),
        target=target,
    )
    return look_of(trace, text, model=pipeline.name)


def _most_changed(pipeline: Pipeline, source: str, target: str) -> str:
    """The head whose output on a pair changes most if it is a look-up: |soft V - hard V|."""
    batch = _batch(pipeline, [Pair(source, target)])
    tap = Tap("*.weights", "*.v")
    with evaluating(pipeline.model):
        pipeline.model(*batch.sides, tap)
    changes = {}
    for head in pipeline.model.heads():
        layer, number = split_head(head)
        weights = tap.records[f"{layer}.weights"][0, number]  # (query, key)
        values = tap.records[f"{layer}.v"][0]  # (kv_heads, key, head_dim)
        group = tap.records[f"{layer}.weights"].shape[1] // values.shape[0]
        moved = (weights - nearest(weights)) @ values[number // group]  # (query, head_dim)
        changes[head] = float(moved.norm(dim=-1).mean())
    return max(changes, key=changes.__getitem__)


def _pairs(data: str, count: int) -> Sequence[Pair]:
    """The pairs to translate: those of a file, or of the grammar, whose combinations are new."""
    if data:
        pairs, _ = load_pairs(split_files([data]), max_words=10_000, on_bad="stop")
        return tuple(pairs)[:count]
    return grammar.splits(pairs=2000, held_out=count, seed=0).tests["combinations"]


def _batch(pipeline: Pipeline, pairs: Sequence[Pair]) -> Any:
    encoded = pipeline.translator().readable(pairs, pipeline.model.config.max_length)
    return encoded.batch(range(len(pairs)))


def _score(pipeline: Pipeline, pairs: Sequence[Pair], edits: Sequence[Edit]) -> Score:
    """Translate the pairs greedily and compute the loss, with the edits."""
    task, sources = pipeline.translator(), [pair.source for pair in pairs]
    encoded = task.read(pipeline.model, sources)
    decoding = pipeline.decoding(beam=1)
    outputs = task.predict(pipeline.model, encoded, decoding, tap=Tap(edits=edits))
    right = [best.text in pair.references for (best, *_), pair in zip(outputs, pairs, strict=True)]
    batch = _batch(pipeline, pairs)
    with evaluating(pipeline.model):
        logits = pipeline.model(*batch.sides, Tap(edits=edits))
    loss = F.cross_entropy(logits, batch.targets.ids)
    return Score(right, float(loss))


def numbers_of(shown: Shown, scores: dict[str, Score]) -> Numbers:
    """What the picture shows and its words say."""
    number, soft = split_head(shown.head)[1], scores["softmax"].right
    return {
        "head": shown.head,
        "translations": list(shown.targets),
        "weights_softmax": shown.maps[0].weights[number].tolist(),
        "weights_nearest": shown.maps[1].weights[number].tolist(),
        "words": max(len(shown.maps[0].queries), len(shown.maps[0].keys)),
        "largest": shown.largest,
        "pairs": len(soft),
        "sets": list(scores),
        "exact": [score.exact for score in scores.values()],
        "loss": [score.loss for score in scores.values()],
        "gained": [
            sum(now and not before for now, before in zip(score.right, soft, strict=True))
            for score in scores.values()
        ],
        "lost": [
            sum(before and not now for now, before in zip(score.right, soft, strict=True))
            for score in scores.values()
        ],
    }


def sign_test(gained: int, lost: int) -> float:
    """How often chance alone makes so uneven a split: the p-value of a two-sided sign test.

    Example:
        >>> sign_test(2, 0), round(sign_test(1, 9), 3)
        (0.5, 0.021)
    """
    count, fewer = gained + lost, min(gained, lost)
    tail = sum(math.comb(count, hits) for hits in range(fewer + 1)) / 2**count
    return float(min(1.0, 2 * tail))


def verdict(numbers: Numbers, name: str) -> str:
    """Whether a look-up is better or worse than the softmax, or the pairs cannot tell."""
    index = numbers["sets"].index(name)
    gained, lost = numbers["gained"][index], numbers["lost"][index]
    if sign_test(gained, lost) >= DOUBT:
        return "cannot tell"
    return "better" if gained > lost else "worse"


def words_lookup(numbers: Numbers) -> Words:
    """What is lost, or not, if heads take the value of the nearest key alone."""
    exact = dict(zip(numbers["sets"], numbers["exact"], strict=True))
    count, said = numbers["pairs"], verdict(numbers, "all heads")
    soft, hard = f"{exact['softmax']:.0f}%", f"{exact['all heads']:.0f}%"
    if said == "worse":
        title = f"Attention is no search: by the nearest key alone {hard} are right, not {soft}"
    elif said == "better":
        title = f"Here a search for the nearest key does better than attention: {hard}, not {soft}"
    else:
        title = f"By the nearest key alone {hard} are right, not {soft}: {count} texts cannot tell"
        title = title.replace(", not ", ", by softmax ")
    groups = {
        "worse": "Worse than the softmax",
        "better": "better than it",
        "cannot tell": f"too close to tell from {count} texts",
    }
    parts = []
    for judgement, phrase in groups.items():
        names = [name for name in numbers["sets"][1:] if verdict(numbers, name) == judgement]
        if names:
            named = listed([f"{name} ({exact[name]:.0f}%)" for name in names])
            parts.append(f"{phrase}: {named}")
    caption = "; ".join(parts) + "."
    first, second = numbers["translations"]
    same = "stays" if first == second else "changes"
    shown = f" Maps: the first {MOST_WORDS} words." if numbers["words"] > MOST_WORDS else ""
    return Words(title, f"{caption[0].upper()}{caption[1:]} The translation {same}.{shown}")


def _draw(pipeline: Pipeline, shown: Shown, scores: dict[str, Score], origin: str) -> Drawing:
    numbers = numbers_of(shown, scores)
    count = numbers["pairs"]
    why = "" if shown.named else ", the head whose output changes most"
    losses = ", ".join(
        f"{name} {loss:.3f}" for name, loss in zip(numbers["sets"], numbers["loss"], strict=True)
    )
    details = (
        "Nearest: the key with the largest q·k; its weight becomes 1, all others 0. "
        f"Maps: {in_words(shown.head)}{why}. Bars: the share of {count} translations that equal "
        f"the reference ({origin}, decoded greedily), with a look-up in that head alone, in all "
        "heads of a kind of attention, in all heads of the model. Better and worse: by a sign test "
        f"on the texts that are right with one and wrong with the other, p < {DOUBT:g}. Loss by "
        f"token: {losses}. The largest weight of a query is {shown.largest:.2f} on average over "
        "the heads of this sentence: where it is near 1, a look-up does the same as the softmax."
    )
    limits = model_line(pipeline)
    with Board(words_lookup(numbers), (1.15, 1.15, 0.75), details, limits=limits) as board:
        written = (
            f"softmax: {shown.targets[0]}",
            f"nearest key: {shown.targets[1]}",
            f"maps: {in_words(shown.head)}; layers and heads count from 0",
        )
        width = WIDTH - 2 * MARGIN
        board.lines([line for text in written for line in wrap(text, width, TEXT_HEIGHT)])
        masked = np.array(numbers["weights_softmax"]) == 0  # a softmax is positive elsewhere
        headings = {"softmax": "softmax", "nearest": "the nearest key alone"}
        for panel, (name, heading) in enumerate(headings.items()):
            weights, drawn_map = np.array(numbers[f"weights_{name}"]), shown.maps[panel]
            if weights.shape == masked.shape:  # else the two wrote words of other tokens
                weights[masked] = np.nan  # grey, unlike a small weight
            sides = drawn_map.queries, drawn_map.keys
            queries, keys = (map_labels(side[:MOST_WORDS], 100) for side in sides)
            table = weights[:MOST_WORDS, :MOST_WORDS]
            board.matrix(panel, heading, table, positive_scale(), (queries, keys), ("query", "key"))
        _draw_bars(board, numbers)
        return board.drawing(**numbers)


def _draw_bars(board: Board, numbers: Numbers) -> None:
    """Draw the share of right translations for the softmax and each look-up."""
    axes = board.chart(2, "translations right, %", ticks=10)
    bars = numbers["exact"]
    axes.barh(
        [row + 0.18 for row in range(len(bars))],
        bars,
        0.28,
        color=[BLUE] + [ORANGE] * (len(bars) - 1),
    )
    for row, (name, share) in enumerate(zip(numbers["sets"], bars, strict=True)):
        said = name if row == 0 else f"look-up: {name}"
        axes.write((0, row), f"{said}: {share:.0f}", va="bottom")
    axes.set(xlim=(0, 104), ylim=(len(bars) - 0.5, -0.8))
    axes.set_yticks([])
    axes.grid(visible=False, axis="y")
