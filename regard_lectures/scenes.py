"""The numbers of `Steps` as scenes: the content of each step, for pages and pictures."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from regard.draw import visible
from regard.explain import in_words
from regard_lectures.block_scenes import sublayer_scenes
from regard_lectures.scene import Scene, SceneRow, Vector, bracketed, dot_product, written
from regard_lectures.steps import Steps

MOST_WORDS, MOST_HEADS = 9, 10
"""The largest number of rows of words and of heads in a scene."""


def scenes_of(steps: Steps) -> list[Scene]:
    """The scenes of all steps of one query through one head, in order."""
    make = _SceneMaker(steps)
    scenes = [make.x(), make.query(), make.keys(), make.values(), make.scores(), make.scaled()]
    if steps.bias is not None:
        scenes.append(make.biased(steps.bias[steps.row]))
    scenes += [make.masked(), make.softmax(), make.weighted(), make.summed()]
    return [*scenes, make.joined(), make.out(), *sublayer_scenes(steps)]


def shown_keys(steps: Steps) -> list[int]:
    """The indices of the keys that get a row, ascending: all, or those with the largest weights.

    The query word itself (in self-attention) and the first masked key, if any, are included.
    """
    count = len(steps.keys)
    if count <= MOST_WORDS + 1:  # a row for the others would take as much room as the last word
        return list(range(count))
    keys = [] if steps.cross else [steps.row]
    keys += np.flatnonzero(~steps.mask[steps.row])[:1].tolist()
    by_weight = np.argsort(-steps.weights[steps.row], kind="stable").tolist()
    keys += [key for key in by_weight if key not in keys]
    return sorted(keys[:MOST_WORDS])


class _SceneMaker:
    """Makes the scenes of one query.

    Attributes:
        word: The query word.
        shown: The indices of the keys that get a row.
        best: The index of the key with the largest weight.
        allowed: (m,) Which keys the mask allows.
        weights: (m,) The weights of the query.
        final: (m,) The scores that enter the softmax, before masking.
    """

    def __init__(self, steps: Steps) -> None:
        self.steps, self.row = steps, steps.row
        self.word, self.names = visible(steps.label), list(map(visible, steps.keys))
        self.shown, self.allowed = shown_keys(steps), steps.mask[steps.row]
        self.weights: Vector = steps.weights[steps.row]
        self.best = int(np.argmax(self.weights))
        self.final: Vector = steps.scaled[steps.row]
        if steps.bias is not None:
            self.final = self.final + steps.bias[steps.row]
        self.others = [key for key in range(len(steps.keys)) if key not in self.shown]
        self.omitted = f"{len(self.others)} more tokens are not shown." if self.others else ""
        self.source = "y" if steps.cross else "x"  # what keys and values are made of

    def _rows(
        self,
        vectors: Vector | None = None,
        *,
        lead: Callable[[int], str] = lambda _: "",
        number: Callable[[int], str] = lambda _: "",
        bar: Callable[[int], float | None] = lambda _: None,
        masked: bool = False,
        together: bool = False,
    ) -> list[SceneRow]:
        """One row per shown key, and one for all others together, so that sums are complete.

        Args:
            vectors: (m, width) A vector for each key.
            lead: The text before the vector of a key.
            number: The text after it.
            bar: The length of its bar.
            masked: Mark the keys that the mask excludes.
            together: Add a row for the sum of the other keys, if there are any.
        """
        rows = []
        for key in self.shown:
            role = "query" if key == self.row and not self.steps.cross else ""
            if not self.allowed[key]:
                role = "masked" if masked else ""
            values = None if vectors is None else vectors[key]
            rows.append(SceneRow(self.names[key], values, lead(key), number(key), bar(key), role))
        if together and self.others:
            share = float(self.weights[self.others].sum())
            label = f"{len(self.others)} others"
            values = None if vectors is None else vectors[self.others].sum(0)
            text = written(share, 3) if values is None else ""
            rows.append(SceneRow(label, values, "", text, share if values is None else None))
        return rows

    def _bars(self, values: Vector, *, masked: bool = False) -> list[SceneRow]:
        """One row per shown key with its value as number and bar; masked keys have −∞."""
        reach = float(np.abs(values[self.shown]).max()) or 1.0
        drawn = [not masked or bool(allowed) for allowed in self.allowed]
        return self._rows(
            number=lambda key: written(float(values[key])) if drawn[key] else "−∞",
            bar=lambda key: float(values[key]) / reach if drawn[key] else None,
            masked=masked,
        )

    def x(self) -> Scene:
        steps = self.steps
        if steps.memory is None:
            rows = self._rows(steps.x)
            first = steps.site.split(".")[1] == "0"
            comes = "its embedding and its position" if first else "the output of the layer below"
            says = (
                f"Every word enters {in_words(steps.site)} as {steps.x.shape[1]} numbers, {comes}."
            )
        else:
            rows = [SceneRow(self.word, steps.x[self.row], role="query"), *self._rows(steps.memory)]
            says = f"“{self.word}” is the query. Below it: the encoder's outputs, one per word."
        return Scene("x", "Words are vectors", "x", says, rows, omitted=self.omitted)

    def _projection(self, name: str, source: str) -> str:
        """The formula of the query, key or value: `q = x W_Q + b`."""
        bias = " + b" if f"b_{name}" in self.steps.matrices else ""
        product = f"{source} W_{name.upper()}{bias}"
        # with norms or positions in between, q and k are not the plain projections
        changed = self.steps.projections is not None and name != "v"
        return f"{product} → {name}" if changed else f"{name} = {product}"

    def query(self) -> Scene:
        steps = self.steps
        x, q = steps.x[self.row], steps.q[self.row]
        rows = [SceneRow(f"x of {self.word}", x, role="query")]
        plain = q
        if steps.projections is not None:
            plain = steps.projections[0][self.row]
            rows.append(SceneRow("x W_Q", plain))
        rows.append(SceneRow("q", q, role="result"))
        first = dot_product(x, steps.matrices["w_q"][:, 0], float(plain[0]), 3)
        says = f"One learned matrix, {len(x)} × {len(q)}, the same for every word. "
        return Scene(
            "q",
            f"The query: what “{self.word}” is looking for",
            self._projection("q", "x"),
            (says + steps.changed).strip(),
            rows,
            f"first number: {first}",
        )

    def keys(self) -> Scene:
        width = self.steps.k.shape[1]
        says = f"A second matrix turns every word into a key of {width} numbers. "
        return Scene(
            "k",
            "The keys: what each word can be found by",
            self._projection("k", self.source),
            (says + self.steps.changed).strip(),
            self._rows(self.steps.k),
            omitted=self.omitted,
        )

    def values(self) -> Scene:
        formula, says = f"v = {self.source}", "The values are the memory itself."
        if "w_v" in self.steps.matrices:
            formula = self._projection("v", self.source)
            width = self.steps.v.shape[1]
            says = f"A third matrix turns every word into a value of {width} numbers."
        rows = self._rows(self.steps.v)
        title = "The values: what each word passes on"
        return Scene("v", title, formula, says, rows, omitted=self.omitted)

    def scores(self) -> Scene:
        steps, q = self.steps, self.steps.q[self.row]
        scores, additive = steps.scores[self.row], steps.vector is not None
        rows = [SceneRow(f"q of {self.word}", q, role="result")]
        rows += self._rows(steps.k, lead=lambda _: "k", number=lambda key: written(scores[key]))
        product = dot_product(q, steps.k[self.best], float(scores[self.best]))
        return Scene(
            "score" if additive else "q·k",
            "The query is compared with every key",
            "v · tanh(q + k)" if additive else "q · k",
            "One number for each word: the larger, the better its key matches the query.",
            rows,
            "" if additive else f"{self.names[self.best]}: {product}",
            self.omitted,
        )

    def scaled(self) -> Scene:
        steps, best = self.steps, self.best
        scaled, width, example = steps.scaled[self.row], steps.q.shape[1], ""
        if math.isclose(steps.scale, width**-0.5, rel_tol=1e-5):
            root = written(math.sqrt(width)).removesuffix(".00")
            formula = f"q · k / √d_k = q · k / √{width}"
            says = f"Divided by {root}: large scores would saturate the softmax."
            score = written(steps.scores[self.row][best])
            example = f"{self.names[best]}: {score} / {root} = {written(scaled[best])}"
        elif steps.vector is None:
            formula, says = f"q · k × {steps.scale:g}", "This model does not divide by √d_k."
        else:
            formula, says = "v · tanh(q + k)", "Additive scores are not divided."
        return Scene("/ √d_k", "Scaled", formula, says, self._bars(scaled), example, self.omitted)

    def biased(self, bias: Vector) -> Scene:
        score, best = self.steps.scaled[self.row][self.best], self.best
        parts = f"{written(score)} + {bracketed(bias[best])} = {written(self.final[best])}"
        return Scene(
            "+ bias",
            "Positions are added to the scores",
            "q · k + b",
            "This model adds a learned number that depends on how far apart two words are.",
            self._bars(self.final),
            f"{self.names[best]}: {parts}",
            self.omitted,
        )

    def masked(self) -> Scene:
        hidden = int((~self.allowed).sum())
        if hidden:
            says = f"{hidden} of {len(self.allowed)} words come later: score −∞, weight 0."
        elif not self.steps.cross and self.steps.site.startswith("decoder"):
            says = f"Later words would get −∞; “{self.word}” is the last and may attend to all."
        else:
            says = "Nothing is masked here: every word may attend to every word."
        return Scene(
            "mask",
            "The mask: which words may be attended to",
            "−∞ where attention is not allowed",
            says,
            self._bars(self.final, masked=True),
            omitted=self.omitted,
        )

    def softmax(self) -> Scene:
        def power(key: int) -> str:
            return f"e^{written(float(self.final[key]))}"

        rows = self._rows(
            lead=lambda key: power(key) if self.allowed[key] else "",
            number=lambda key: written(float(self.weights[key]), 3),
            bar=lambda key: float(self.weights[key]),
            masked=True,
            together=True,
        )
        best, weight = self.names[self.best], written(float(self.weights[self.best]), 3)
        others = [key for key in self.shown if key != self.best and self.allowed[key]][:2]
        more = " + …" if int(self.allowed.sum()) > len(others) + 1 else ""
        below = " + ".join(map(power, (self.best, *others))) + more
        return Scene(
            "softmax",
            "Scores become weights",
            "softmax(q · k / √d_k)" if self.steps.vector is None else "softmax(scores)",
            f"None is negative; they sum to {written(float(self.weights.sum()), 3)}. "
            f"“{self.word}” attends most to “{best}”.",
            rows,
            f"{best}: {power(self.best)} / ({below}) = {weight}",
        )

    def weighted(self) -> Scene:
        share, value = float(self.weights[self.best]), float(self.steps.v[self.best][0])
        product = f"{written(share, 3)} · {bracketed(value)} = {written(share * value)}"
        return Scene(
            "× v",
            "Each value is multiplied by its weight",
            "weight × v",
            "A value with a small weight fades; one with a large weight stays.",
            self._rows(
                self.weights[:, None] * self.steps.v,
                lead=lambda key: f"{written(float(self.weights[key]), 3)} v",
                masked=True,
                together=True,
            ),
            f"{self.names[self.best]}, first number: {product}",
        )

    def summed(self) -> Scene:
        total, parts = self.steps.sum[self.row], self.weights[:, None] * self.steps.v
        largest = sorted(self.shown, key=lambda key: -self.weights[key])[:3]
        firsts = " + ".join(bracketed(float(parts[key][0])) for key in sorted(largest))
        more = " + …" if len(self.names) > len(largest) else ""
        return Scene(
            "Σ",
            f"The sum: what this head passes to “{self.word}”",
            "z = Σ weight × v",
            "The columns added up: the mean of the values, weighted by attention.",
            [*self._rows(parts, masked=True, together=True), SceneRow("sum", total, role="result")],
            f"first number: {firsts}{more} = {written(float(total[0]))}",
        )

    def joined(self) -> Scene:
        steps, sums = self.steps, self.steps.sums[self.row]
        width, heads = steps.v.shape[1], steps.heads
        start = max(0, min(steps.head - MOST_HEADS // 2, heads - MOST_HEADS))
        rows = [
            SceneRow(f"head {head}", sums[head * width : (head + 1) * width],
                     role="query" if head == steps.head else "")
            for head in range(heads)[start : start + MOST_HEADS]
        ]  # fmt: skip
        left = heads - len(rows)
        return Scene(
            "heads",
            "All heads side by side",
            "Concat(z_1 … z_h)",
            f"Each of {heads} heads has its own matrices: {heads} × {width} = {sums.size} numbers.",
            rows,
            omitted=f"{left} more heads are not shown." if left else "",
        )

    def out(self) -> Scene:
        sums, out = self.steps.sums[self.row], self.steps.out[self.row]
        rows = [SceneRow("joined", sums, role="query"), SceneRow("out", out, role="result")]
        if "w_o" not in self.steps.matrices:
            return Scene("out", "The output of the layer", "out = z", "No matrix follows.", rows)
        matrix = self.steps.matrices["w_o"]
        bias = " + b" if "b_o" in self.steps.matrices else ""
        return Scene(
            "× W_O",
            "One more matrix mixes the heads",
            f"out = Concat(z_1 … z_h) W_O{bias}",
            f"A matrix of {matrix.shape[0]} × {matrix.shape[1]} gives the output for "
            f"“{self.word}”.",
            rows,
            f"first number: {dot_product(sums, matrix[:, 0], float(out[0]), 3)}",
        )
