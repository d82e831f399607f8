"""Figure of part 9: the scores of a head before the softmax, as a map beside its weights after it.

    scores = q kᵀ / √d_k + bias, −∞ where masked        weights = softmax(scores), by row

Both are recorded in one forward pass of a model on a text. Queries are the rows, keys the columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from regard import Pipeline, load
from regard.draw import TEXT as TEXT_HEIGHT
from regard.draw import positive_scale, shorten, signed_scale, visible
from regard.explain import Board, Drawing, Numbers, Words, in_words
from regard.inputs import TextReader
from regard.layers import Tap
from regard_lectures.limits import model_line
from regard_lectures.map_labels import map_labels
from regard_lectures.steps import choose_site

MODEL = "tiny/translate"
TEXT = "The animal was tired."
OTHER_TEXTS = ("Thinking Machines", "The bank of the river", "the cat sat")
"""Texts for models that do not know the words of `TEXT`."""
MOST_TOKENS = 10
"""The most queries and keys in the picture."""
MOST = 0.5
"""From this weight on, one key gets most of a query's weight."""
EVEN = 1.25
"""Weights are nearly equal if the largest is less than so many times what equal ones are."""
WIDEST_TEXT = 560
"""Pixels of the text in the caption; a longer one is cut."""
Array = npt.NDArray[np.float64]


def scores(text: str | None, model: str, part: str, layer: int, head: int, target: str) -> Drawing:
    """Draw the scores and the weights of one head of a model on a text.

    Args:
        text: The text.
        model: A model that reads text.
        part: `encoder`, `decoder` or `cross`, or a layer's name.
        layer: The number of the layer in this part, from 0.
        head: The number of the head, from 0.
        target: A translation to use instead of the translator's own.
    """
    pipeline = load(model or MODEL, device="cpu")
    site = choose_site(pipeline.model, part, layer, head)
    read = _readable(pipeline, text)
    before, after, labels = record(pipeline, read, site, head, target)
    numbers: Numbers = {
        "model": pipeline.name,
        "text": read,
        "layer": site,
        "head": head,
        "queries": labels[0],
        "keys": labels[1],
        "scores": np.where(np.isfinite(before), before, 0.0).tolist(),
        "may_look": np.isfinite(before).astype(int).tolist(),
        "weights": after.tolist(),
    }
    details = (
        f"{pipeline.name} on “{read}”. Scores: q·k / √d_k of this head, with the bias of relative "
        "positions if the model has one; masked ones are −∞. Weights: the softmax of each row. "
        "In a decoder, a query is labelled with the token that is read there."
    )
    limits = model_line(pipeline)
    with Board(words_scores(numbers), (1, 1), details, limits=limits) as board:
        rows, columns = (map_labels(side[:MOST_TOKENS]) for side in labels)
        shown = before[:MOST_TOKENS, :MOST_TOKENS]
        reach = float(np.abs(shown[np.isfinite(shown)]).max())
        sides = ("query", "key")
        board.matrix(
            0, "scores, before the softmax", shown, signed_scale(reach or 1.0), (rows, columns),
            sides, "+.1f",
        )  # fmt: skip
        weights = after[:MOST_TOKENS, :MOST_TOKENS]
        weights = np.where(np.isfinite(shown), weights, np.nan)  # grey, unlike a small weight
        board.matrix(
            1, "weights, after it", weights, positive_scale(), (rows, columns), sides, ".2f"
        )
        return board.drawing(**numbers)


def record(
    pipeline: Pipeline, text: str, site: str, head: int, target: str = ""
) -> tuple[Array, Array, tuple[list[str], list[str]]]:
    """The scores and weights (query, key) of one head on a text, and the tokens of both sides.

    Args:
        pipeline: The model.
        text: The text that it reads.
        site: The layer.
        head: The number of the head.
        target: The translation to read, for a translator; empty: its own.
    """
    task: Any = pipeline.task.task_for(text)
    settings = {"decode": pipeline.decoding(), "allow_unknown": True}
    forced = target or None
    if pipeline.model.config.has_target and forced is None:
        forced = task.trace(pipeline.model, text, Tap(), target=None, **settings).output or ""
    tap = Tap(f"{site}.scores", f"{site}.weights")
    trace = task.trace(pipeline.model, text, tap, target=forced, **settings)
    stack, _, kind = site.split(".")
    queries, keys = ([visible(token) for token in side] for side in trace.pieces[f"{stack}.{kind}"])
    before, after = (
        tap.records[f"{site}.{what}"][0, head].double().cpu().numpy()
        for what in ("scores", "weights")
    )
    return before, after, (queries, keys)


def _readable(pipeline: Pipeline, text: str | None) -> str:
    """The given text, or an example whose words the model knows."""
    if text is not None:
        TextReader.check("--text", text)
        return text
    known = pipeline.vocabulary.source
    return next((text for text in (TEXT, *OTHER_TEXTS) if not known.unknown_words(text)), TEXT)


def words_scores(numbers: Numbers) -> Words:
    """Whether the softmax picks a key or spreads over all, and what is masked."""
    weights = np.array(numbers["weights"])
    allowed = np.array(numbers["may_look"], dtype=bool)
    free = allowed.sum(1)
    rows = np.flatnonzero(free > 1)  # a query with one key has no choice
    named = in_words(f"{numbers['layer']}.{numbers['head']}")
    if not len(rows):
        title = f"{named}: no query has a choice between keys"
        return Words(title[0].upper() + title[1:], _caption(numbers, allowed))
    largest = [float(weights[row].max()) for row in rows]
    middle = float(np.median(largest))
    ratio = float(np.median([weights[row].max() * free[row] for row in rows]))  # 1: all equal
    if middle >= MOST:
        verdict = f"one key gets most, {middle:.2f} at the median"
    elif ratio < EVEN:
        verdict = f"nearly equal weights, the largest {middle:.2f} at the median"
    else:
        verdict = f"no key gets most, the largest {middle:.2f} at the median"
    title = f"{named}: {verdict}"
    return Words(title[0].upper() + title[1:], _caption(numbers, allowed))


def _caption(numbers: Numbers, allowed: npt.NDArray[np.bool_]) -> str:
    """The range of the scores, the largest weight, and what is masked or left out."""
    table, weights = np.array(numbers["scores"]), np.array(numbers["weights"])
    low, high = (f"{pick(table[allowed]):+.1f}".replace("-", "−") for pick in (np.min, np.max))
    masked = int((~allowed).sum())
    said = f"{masked} masked cells are grey" if masked else "no cell is masked"
    text = shorten(numbers["text"], WIDEST_TEXT, TEXT_HEIGHT)
    caption = f"On “{text}”: scores from {low} to {high}; {said}."
    choice = np.where(allowed.sum(1, keepdims=True) > 1, weights, 0.0)
    if choice.any():
        query, key = (int(index) for index in np.unravel_index(choice.argmax(), choice.shape))
        pair = f"“{numbers['queries'][query]}” to “{numbers['keys'][key]}”"
        caption += f" Largest where a query has a choice: {choice[query, key]:.2f}, {pair}."
    queries, keys = numbers["queries"], numbers["keys"]
    return " ".join(filter(None, (caption, _left_out(len(queries), len(keys)))))


def _left_out(queries: int, keys: int) -> str:
    """What the picture leaves out; empty if nothing."""
    if max(queries, keys) <= MOST_TOKENS:
        return ""
    return f"Shown: the first {MOST_TOKENS} of {queries} queries and {keys} keys."
