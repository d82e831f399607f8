"""The scenes after attention: residual connection, norm, feed-forward, and again both."""

from __future__ import annotations

import math

import numpy as np

from regard.draw import visible
from regard_lectures.scene import Scene, SceneRow, bracketed, written
from regard_lectures.steps import Steps
from regard_lectures.sublayers import Sublayer


def sublayer_scenes(steps: Steps) -> list[Scene]:
    """The scenes after attention: residual connection, norm, feed-forward and again both."""
    attention, feed, row, word = (
        steps.attention_layer,
        steps.feed_forward,
        steps.row,
        visible(steps.label),
    )
    scenes = []
    if attention is not None:
        came = "the stream, whose norm was x" if attention.norm_place == "pre" else "x"
        says = f"The output of attention is added to what came in ({came}): nothing is lost."
        scenes.append(
            _added("+ x", "The residual connection", "x + out", says, attention, row, "out")
        )
        if attention.norm_place == "post":
            scenes.append(_normed("norm", attention, row, word))
    if feed is None:
        return scenes
    given, change = feed.given[row], feed.change[row]
    if feed.norm_place == "pre":
        scenes.append(_normed("norm", feed, row, word))
    hidden = feed.hidden[row] if feed.hidden is not None else change
    zeros = int((hidden == 0).sum())
    says = f"Each word by itself: {len(given)} numbers become {len(hidden)}" + (
        f", and {feed.activation} sets {zeros} of them to 0."
        if zeros
        else f", by {feed.activation}."
    )
    if steps.site.endswith(".self") and steps.site.startswith("decoder") and attention is not None:
        before = attention.result[row]
        if feed.norm_place == "post" and not np.allclose(before, given, atol=1e-5):
            says += " Between: cross-attention."
    rows = [SceneRow("x", given, role="query"), SceneRow("hidden", hidden, role="result")]
    scenes.append(Scene("hidden", "The feed-forward widens", "h = f(x W_1 + b_1)", says, rows))
    rows = [SceneRow("hidden", hidden, role="query"), SceneRow("out", change, role="result")]
    says = f"And back to {len(change)} numbers: what the feed-forward adds to “{word}”."
    scenes.append(Scene("feed_change", "The feed-forward narrows", "h W_2 + b_2", says, rows))
    says = "Again the input is added: what the layer passes on"
    says += ", before its norm." if feed.norm_place == "post" else "."
    scenes.append(
        _added("+ feed-forward", "The second residual", "x + feed-forward", says, feed, row, "out")
    )
    if feed.norm_place == "post":
        scenes.append(_normed("norm 2", feed, row, word))
    return scenes


def _added(
    name: str, title: str, formula: str, says: str, layer: Sublayer, row: int, change: str
) -> Scene:
    """The scene of a residual connection: stream, change, sum."""
    stream, out, added = layer.stream[row], layer.change[row], layer.added[row]
    rows = [
        SceneRow("x", stream, role="query"),
        SceneRow(change, out),
        SceneRow("sum", added, role="result"),
    ]
    first = f"{written(float(stream[0]))} + {bracketed(float(out[0]))} = {written(float(added[0]))}"
    return Scene(name, title, formula, says, rows, f"first number: {first}")


def _normed(name: str, layer: Sublayer, row: int, word: str) -> Scene:
    """The scene of a norm: of the sum (post-norm), or of the stream (pre-norm)."""
    post = layer.norm_place == "post"
    before = (layer.added if post else layer.stream)[row]
    after = (layer.result if post else layer.given)[row]
    is_layer_norm = "norm_bias" in layer.matrices
    mean, spread = float(before.mean()), float(before.std())
    if is_layer_norm:
        formula = "(x − mean) / √(var + ε) · g + b"
        says = f"Over the numbers of “{word}” alone: mean {written(mean)}, deviation "
        says += f"{written(spread)}; then a learned gain and bias for each."
    else:
        formula = "x / √(mean x² + ε) · g"
        root = math.sqrt(float(np.square(before).mean()))
        says = f"Divided by the root of the mean square, {written(root)}; times a learned gain."
    rows = [SceneRow("x", before, role="query"), SceneRow("normed", after, role="result")]
    return Scene(name, "The norm", formula, says, rows)
