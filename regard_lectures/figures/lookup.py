"""Figure of part 3: attention beside a look-up that takes the value of the nearest key.

A look-up gives a query the value of one key, the one with the largest product q·k. Attention gives
it the mean of all values, weighted by softmax(q·k / √d_k). Input: a translator and a sentence. Its
weights are replaced by a one at their largest entry and zeros elsewhere, in one head, in a kind of
attention or everywhere, and the translations and the loss are compared with those of the softmax.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard import Pipeline, load
from regard.data import Pair, grammar, load_pairs, split_files
from regard.draw import BLUE, ORANGE, positive_scale
from regard.explain import AttentionMap, Board, Drawing, Look, in_words, look_of
from regard.layers import Edit, Tap, split_head
from regard.models import evaluating

TEXT = "The old woman gave the small child a red apple."
KINDS = {
    "encoder": "encoder.*.self",
    "decoder": "decoder.*.self",
    "cross": "decoder.*.cross",
}
"""The kinds of attention, each with the pattern of its layers' names."""


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

    exact: float
    """The percentage of translations that equal the reference."""
    loss: float
    """The mean cross-entropy of the reference's tokens."""


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
    return _draw(model, shown, scores, len(held_out), origin)


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
    return Score(100 * sum(right) / len(right), float(loss))


def _draw(model: str, shown: Shown, scores: dict[str, Score], count: int, origin: str) -> Drawing:
    soft, hard, alone = scores["softmax"], scores["all heads"], scores["one head"]
    number = split_head(shown.head)[1]
    tables = [torch.as_tensor(site_map.weights[number]) for site_map in shown.maps]
    why = "" if shown.named else ", the head whose output changes most"
    caption = (
        "Attention is a weighted mean. If every head takes only the value of its nearest key, "
        f"{hard.exact:.0f}% of {count} translations are right instead of {soft.exact:.0f}%."
    )
    details = (
        f"{model}. Nearest: the key with the largest q·k; its weight becomes 1, all others 0. "
        f"Maps: {in_words(shown.head)}{why}. Bars: the share of {count} translations that equal "
        f"the reference ({origin}, decoded greedily), with a look-up in that head alone, in all "
        "heads of a kind of attention, in all heads of the model. Loss by token: "
        f"{soft.loss:.3f} with softmax, {alone.loss:.3f} with one head changed, {hard.loss:.3f} "
        f"with all. The largest weight of a query is {shown.largest:.2f} on average over the heads "
        "of this sentence: where it is near 1, a look-up does the same as the softmax."
    )
    with Board(caption, (1.1, 1.1, 0.75), details) as board:
        board.lines([f"softmax: {shown.targets[0]}", f"nearest key: {shown.targets[1]}"])
        queries, keys = list(shown.maps[0].queries), list(shown.maps[0].keys)
        sides = ("query", "key")
        for panel, (heading, table) in enumerate(
            zip(("softmax", "the nearest key alone"), tables, strict=True)
        ):
            board.matrix(panel, heading, table, positive_scale(), (queries, keys), sides)
        axes = board.chart(2, "translations right, %", ticks=10)
        bars = [score.exact for score in scores.values()]
        colours = [BLUE] + [ORANGE] * (len(bars) - 1)
        axes.barh(range(len(bars)), bars, 0.5, color=colours)
        for row, (name, score) in enumerate(scores.items()):
            said = name if row == 0 else f"look-up: {name}"
            axes.write((0, row - 0.3), f"{said}: {score.exact:.0f}", va="bottom")
        axes.set(xlim=(0, 104), ylim=(len(bars) - 0.5, -0.8))
        axes.set_yticks([])
        axes.grid(visible=False, axis="y")
        return board.drawing(
            head=shown.head,
            translations=list(shown.targets),
            weights_softmax=tables[0].tolist(),
            weights_nearest=tables[1].tolist(),
            pairs=count,
            sets=list(scores),
            exact=[score.exact for score in scores.values()],
            loss=[score.loss for score in scores.values()],
        )
