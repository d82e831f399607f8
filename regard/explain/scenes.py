"""The numbers of `Steps` as scenes: the content of each step, for pages and pictures.

A scene has a title, a formula, a sentence, and rows with a word, a vector, a number or a bar. The
page (`slides`) and the pictures (`strip`) draw the same scenes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.explain.maps import visible
from regard.explain.names import in_words
from regard.explain.steps import Steps

Vector = npt.NDArray[Any]

MOST_WORDS, MOST_HEADS = 7, 8
"""The largest number of rows of words and of heads in a scene."""
KEYS = {
    "q·k": "scores", "score": "scores", "/ √d_k": "scaled", "+ bias": "bias", "softmax": "weights",
    "× v": "weighted", "Σ": "sum", "heads": "joined", "× W_O": "out",
}  # fmt: skip
"""The name of a step in options and JSON, if it differs from its name in the list of steps."""


@dataclass(frozen=True, eq=False)
class Row:
    """One line of a scene.

    Attributes:
        label: A word, or the name of a vector.
        values: A vector, drawn as cells.
        lead: Text before the vector, such as `0.31 ×`.
        number: Text after the vector, such as a score.
        bar: The length of a bar, from -1 to 1.
        kind: `chosen` for the query word, `hidden` for a masked word, `result` for the result of
            the step.
    """

    label: str
    values: Vector | None = None
    lead: str = ""
    number: str = ""
    bar: float | None = None
    kind: str = ""


@dataclass(frozen=True, eq=False)
class Scene:
    """One step of the computation.

    Attributes:
        name: A short name for the list of steps.
        title: What happens in this step.
        formula: The formula of the paper.
        says: A sentence that explains the rows.
        rows: The rows.
        hand: A worked example: how one of the numbers is computed.
        more: A sentence about how many rows are left out.
    """

    name: str
    title: str
    formula: str
    says: str
    rows: tuple[Row, ...]
    hand: str = ""
    more: str = ""

    @property
    def key(self) -> str:
        """The name of the step in options, the same as its result has in the JSON."""
        return KEYS.get(self.name, self.name)

    @property
    def reach(self) -> float:
        """The largest absolute value of all vectors: the end of the colour scale."""
        sizes = [float(np.abs(row.values).max()) for row in self.rows if row.values is not None]
        return max(sizes, default=0.0) or 1.0

    @property
    def signed(self) -> bool:
        """Whether any bar is negative."""
        return any(row.bar is not None and row.bar < 0 for row in self.rows)


def written(value: float, digits: int = 2) -> str:
    """A number as text, with a typographic minus sign.

    Example:
        >>> written(-0.125, 2), written(1234.5), written(0.0)
        ('−0.12', '1234', '0.00')
    """
    if abs(value) >= 1000:
        digits = 0
    text = f"{value:.{digits}f}"
    return ("0." + "0" * digits if float(text) == 0 else text).replace("-", "−")


def where(steps: Steps) -> str:
    """Layer and head as a phrase."""
    return in_words(f"{steps.site}.{steps.head}")


def scenes_of(steps: Steps) -> list[Scene]:
    """The scenes of all steps of one query through one head, in order."""
    made = [_x(steps), _query(steps), _keys(steps), _values(steps), _scores(steps), _scaled(steps)]
    if steps.bias is not None:
        made.append(_biased(steps))
    made += [_masked(steps), _softmax(steps), _weighted(steps), _summed(steps)]
    return [*made, _joined(steps), _out(steps)]


def shown_keys(steps: Steps) -> list[int]:
    """The indices of the keys that get a row, ascending: all, or those with the largest weights.

    The query word itself (in self-attention) and the first masked key, if any, are included.
    """
    count = len(steps.keys)
    if count <= MOST_WORDS:
        return list(range(count))
    kept = [] if steps.cross else [steps.row]
    kept += np.flatnonzero(~steps.mask[steps.row])[:1].tolist()
    by_weight = np.argsort(-steps.weights[steps.row], kind="stable").tolist()
    kept += [place for place in by_weight if place not in kept]
    return sorted(kept[:MOST_WORDS])


def _more(steps: Steps) -> str:
    left = len(steps.keys) - len(shown_keys(steps))
    return f"{left} more words, looked at less, are not shown." if left else ""


def _word(steps: Steps) -> str:
    return visible(steps.tokens[steps.row])


def _kind(steps: Steps, key: int) -> str:
    if not steps.mask[steps.row, key]:
        return "hidden"
    return "chosen" if key == steps.row and not steps.cross else ""


def _final(steps: Steps) -> Vector:
    """The scores that enter the softmax, before masking: (m,)."""
    found: Vector = steps.scaled[steps.row]
    return found if steps.bias is None else found + steps.bias[steps.row]


def _strongest(steps: Steps) -> int:
    return int(np.argmax(steps.weights[steps.row]))


def _products(left: Vector, right: Vector, total: float, name: str, digits: int = 2) -> str:
    """A dot product as text: `name: a·b + c·d + … = total`.

    Args:
        left: The first factors; the first three are written.
        right: The second factors.
        total: The result.
        name: The text before.
        digits: Decimal places of the second factors.
    """
    parts = [
        f"{written(a)}·{_bracketed(b, digits)}" for a, b in zip(left[:3], right[:3], strict=True)
    ]
    rest = " + …" if len(left) > 3 else ""
    return f"{name}{' + '.join(parts)}{rest} = {written(total)}"


def _bracketed(value: float, digits: int = 2) -> str:
    text = written(value, digits)
    return f"({text})" if text.startswith("−") else text


def _x(steps: Steps) -> Scene:
    rows = [Row(_word(steps), steps.x[steps.row], kind="chosen")]
    if steps.memory is None:
        rows = [
            Row(
                visible(steps.keys[key]), steps.x[key], kind=_kind(steps, key).replace("hidden", "")
            )
            for key in shown_keys(steps)
        ]
    else:
        rows += [Row(visible(steps.keys[key]), steps.memory[key]) for key in shown_keys(steps)]
    width = steps.x.shape[1]
    first = steps.site.split(".")[1] == "0"
    comes = "its meaning and its position" if first else "made by the layers below"
    says = f"Every word enters {in_words(steps.site)} as {width} numbers, {comes}."
    if steps.memory is not None:
        says = (
            f"“{_word(steps)}” asks; below it, what the encoder made of the words it may look at."
        )
    return Scene("x", "Words are vectors", "x", says, tuple(rows), more=_more(steps))


def _changed(steps: Steps) -> str:
    return f" {steps.changed}" if steps.changed else ""


def _query(steps: Steps) -> Scene:
    x, q = steps.x[steps.row], steps.q[steps.row]
    rows = [Row(f"x of {_word(steps)}", x, kind="chosen")]
    plain = q if steps.projections is None else steps.projections[0][steps.row]
    if steps.projections is not None:
        rows.append(Row("x W_Q", plain))
    rows.append(Row("q", q, kind="result"))
    bias = " + b" if "b_q" in steps.matrices else ""
    hand = _products(x, steps.matrices["w_q"][:, 0], float(plain[0]), "first number: ", 3)
    return Scene(
        "q",
        f"The query: what “{_word(steps)}” is looking for",
        f"q = x W_Q{bias}" if steps.projections is None else f"x W_Q{bias} → q",
        f"One matrix, {len(x)} × {len(q)}, learned, and the same for every word.{_changed(steps)}",
        tuple(rows),
        hand,
    )


def _keys(steps: Steps) -> Scene:
    rows = [
        Row(visible(steps.keys[key]), steps.k[key], kind=_kind(steps, key).replace("hidden", ""))
        for key in shown_keys(steps)
    ]
    source = "y" if steps.cross else "x"
    bias = " + b" if "b_k" in steps.matrices else ""
    return Scene(
        "k",
        "The keys: what each word can be found by",
        f"k = {source} W_K{bias}" if steps.projections is None else f"{source} W_K{bias} → k",
        f"Another matrix makes a key of {steps.k.shape[1]} numbers of every word.{_changed(steps)}",
        tuple(rows),
        more=_more(steps),
    )


def _values(steps: Steps) -> Scene:
    rows = [
        Row(visible(steps.keys[key]), steps.v[key], kind=_kind(steps, key).replace("hidden", ""))
        for key in shown_keys(steps)
    ]
    source = "y" if steps.cross else "x"
    bias = " + b" if "b_v" in steps.matrices else ""
    own = "w_v" in steps.matrices
    return Scene(
        "v",
        "The values: what each word passes on",
        f"v = {source} W_V{bias}" if own else f"v = {source}",
        f"A third matrix makes a value of {steps.v.shape[1]} numbers of every word."
        if own
        else "The values are the memory itself.",
        tuple(rows),
        more=_more(steps),
    )


def _scores(steps: Steps) -> Scene:
    scores, best = steps.scores[steps.row], _strongest(steps)
    q = steps.q[steps.row]
    rows = [Row(f"q of {_word(steps)}", q, kind="result")]
    rows += [
        Row(visible(steps.keys[key]), steps.k[key], "k", written(scores[key]), None,
            _kind(steps, key).replace("hidden", ""))
        for key in shown_keys(steps)
    ]  # fmt: skip
    additive = steps.vector is not None
    hand = _products(q, steps.k[best], float(scores[best]), f"{visible(steps.keys[best])}: ")
    return Scene(
        "q·k" if not additive else "score",
        "The query meets every key",
        "q · k" if not additive else "v · tanh(q + k)",
        "One number for each word: the larger, the better its key answers the query.",
        tuple(rows),
        "" if additive else hand,
        _more(steps),
    )


def _bars(steps: Steps, values: Vector) -> list[Row]:
    keys = shown_keys(steps)
    reach = float(np.abs(values[keys]).max()) or 1.0
    return [
        Row(visible(steps.keys[key]), None, "", written(float(values[key])),
            float(values[key]) / reach, _kind(steps, key).replace("hidden", ""))
        for key in keys
    ]  # fmt: skip


def _scaled(steps: Steps) -> Scene:
    scores, scaled, best = steps.scores[steps.row], steps.scaled[steps.row], _strongest(steps)
    width = steps.q.shape[1]
    if math.isclose(steps.scale, width**-0.5, rel_tol=1e-5):
        root = written(math.sqrt(width)).removesuffix(".00")
        formula = f"q · k / √d_k = q · k / √{width}"
        says = f"Divided by {root}: large scores would leave the softmax nothing to learn from."
        hand = f"{visible(steps.keys[best])}: {written(scores[best])} / {root} = "
        hand += written(scaled[best])
    else:
        formula, hand = f"q · k × {steps.scale:g}", ""
        says = "This model does not divide by √d_k."
        if steps.vector is not None:
            formula, says = "v · tanh(q + k)", "Additive scores are not divided."
    return Scene("/ √d_k", "Scaled", formula, says, tuple(_bars(steps, scaled)), hand, _more(steps))


def _biased(steps: Steps) -> Scene:
    assert steps.bias is not None
    final, best = _final(steps), _strongest(steps)
    parts = steps.scaled[steps.row][best], steps.bias[steps.row][best]
    hand = f"{visible(steps.keys[best])}: {written(parts[0])} + {_bracketed(parts[1])} = "
    return Scene(
        "+ bias",
        "Positions are added to the scores",
        "q · k + b",
        "This model adds a learned number for how far apart two words stand.",
        tuple(_bars(steps, final)),
        hand + written(final[best]),
        _more(steps),
    )


def _masked(steps: Steps) -> Scene:
    final, allowed = _final(steps), steps.mask[steps.row]
    reach = float(np.abs(final[shown_keys(steps)]).max()) or 1.0
    rows = [
        Row(
            visible(steps.keys[key]),
            None,
            "",
            written(float(final[key])) if allowed[key] else "−∞",
            float(final[key]) / reach if allowed[key] else None,
            _kind(steps, key),
        )
        for key in shown_keys(steps)
    ]
    hidden = int((~allowed).sum())
    causal = not steps.cross and steps.site.startswith("decoder")
    if hidden:
        says = f"{hidden} of {len(allowed)} words come later: they get −∞, and no weight."
    elif causal:
        says = f"Later words would get −∞; “{_word(steps)}” is the last, and sees all before it."
    else:
        says = "Nothing is hidden here: every word may look at every word."
    return Scene(
        "mask",
        "The mask: who may be looked at",
        "−∞ where a word may not look",
        says,
        tuple(rows),
        more=_more(steps),
    )


def _softmax(steps: Steps) -> Scene:
    weights, final, best = steps.weights[steps.row], _final(steps), _strongest(steps)
    rows = [
        Row(
            visible(steps.keys[key]),
            None,
            "" if _kind(steps, key) == "hidden" else f"e^{written(float(final[key]))}",
            written(float(weights[key]), 3),
            float(weights[key]),
            _kind(steps, key),
        )
        for key in shown_keys(steps)
    ]
    others = [key for key in shown_keys(steps) if key != best and steps.mask[steps.row, key]][:2]
    below = " + ".join(f"e^{written(float(final[key]))}" for key in (best, *others))
    more = " + …" if int(steps.mask[steps.row].sum()) > len(others) + 1 else ""
    hand = f"{visible(steps.keys[best])}: e^{written(float(final[best]))} / ({below}{more}) = "
    return Scene(
        "softmax",
        "Scores become shares",
        "softmax(q · k / √d_k)" if steps.vector is None else "softmax(scores)",
        f"All positive, and together 1: “{_word(steps)}” looks most at "
        f"“{visible(steps.keys[best])}”.",
        tuple(rows),
        hand + written(float(weights[best]), 3),
        _more(steps),
    )


def _weighted(steps: Steps) -> Scene:
    weights, best = steps.weights[steps.row], _strongest(steps)
    rows = [
        Row(visible(steps.keys[key]), weights[key] * steps.v[key],
            f"{written(float(weights[key]), 3)} × v", "", None, _kind(steps, key))
        for key in shown_keys(steps)
    ]  # fmt: skip
    share, value = float(weights[best]), float(steps.v[best][0])
    hand = f"{visible(steps.keys[best])}, first number: {written(share, 3)} · {_bracketed(value)}"
    return Scene(
        "× v",
        "Each value, as much of it as its share",
        "weight × v",
        "What gets a small weight fades; what gets a large one stays.",
        tuple(rows),
        f"{hand} = {written(share * value)}",
        _more(steps),
    )


def _summed(steps: Steps) -> Scene:
    weights, total = steps.weights[steps.row], steps.sum[steps.row]
    parts = [(key, weights[key] * steps.v[key]) for key in shown_keys(steps)]
    rows = [Row(visible(steps.keys[key]), part, kind=_kind(steps, key)) for key, part in parts]
    rows.append(Row("sum", total, kind="result"))
    largest = sorted(parts, key=lambda part: -weights[part[0]])[:3]
    firsts = " + ".join(_bracketed(float(part[0])) for _, part in sorted(largest, key=_place))
    more = " + …" if len(steps.keys) > len(largest) else ""
    return Scene(
        "Σ",
        f"Together: what this head tells “{_word(steps)}”",
        "z = Σ weight × v",
        "The columns added up: a mean of the values, by attention.",
        tuple(rows),
        f"first number: {firsts}{more} = {written(float(total[0]))}",
        _more(steps),
    )


def _place(part: tuple[int, Vector]) -> int:
    return part[0]


def _joined(steps: Steps) -> Scene:
    width, sums = steps.v.shape[1], steps.sums[steps.row]
    heads = list(range(steps.heads))
    if steps.heads > MOST_HEADS:
        start = min(max(0, steps.head - MOST_HEADS // 2), steps.heads - MOST_HEADS)
        heads = heads[start : start + MOST_HEADS]
    rows = [
        Row(f"head {head + 1}", sums[head * width : (head + 1) * width],
            kind="chosen" if head == steps.head else "")
        for head in heads
    ]  # fmt: skip
    left = steps.heads - len(heads)
    return Scene(
        "heads",
        "All heads side by side",
        "Concat(z_1 … z_h)",
        f"{steps.heads} heads did the same with matrices of their own: "
        f"{steps.heads} × {width} = {sums.size} numbers.",
        tuple(rows),
        more=f"{left} more heads are not shown." if left else "",
    )


def _out(steps: Steps) -> Scene:
    sums, out = steps.sums[steps.row], steps.out[steps.row]
    rows = [Row("joined", sums, kind="chosen"), Row("out", out, kind="result")]
    if "w_o" not in steps.matrices:
        return Scene("out", "What leaves the layer", "out = z", "No matrix follows.", tuple(rows))
    matrix = steps.matrices["w_o"]
    bias = " + b" if "b_o" in steps.matrices else ""
    return Scene(
        "× W_O",
        "One more matrix mixes the heads",
        f"out = Concat(z_1 … z_h) W_O{bias}",
        f"{matrix.shape[0]} × {matrix.shape[1]}: the layer's answer to “{_word(steps)}”, "
        f"which is added to what came in.",
        tuple(rows),
        _products(sums, matrix[:, 0], float(out[0]), "first number: ", 3),
    )
