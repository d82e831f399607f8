"""Figure of part 3: does dropout make the heads of a layer differ?

Small translators are trained without dropout, with dropout of what each sub-layer adds, and with
dropout of the attention weights. Afterwards, without any dropout and on unseen sentences, the
weights p and q of two heads, of one query over its keys, are compared by the Jensen-Shannon
divergence in bits,

    JS(p, q) = H((p + q) / 2) − (H(p) + H(q)) / 2        H(p) = −Σ_k p_k · log₂ p_k

which is 0 if the heads attend alike and 1 if they have no key in common. The distance of a layer's
heads is its mean over all pairs of heads, all queries and all sentences. A query that sees a single
key is left out: there heads cannot differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data import grammar
from regard.draw import LINE_STYLES, positive_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard.inputs import TokensConfig, learn
from regard.layers import Tap
from regard.models import TransformerConfig, build, evaluating
from regard.tasks import Translate
from regard_lectures.claims import interval, numbers_of
from regard_lectures.claims.journal import Journal
from regard_lectures.figures.descent import Descent, train_on
from regard_lectures.limits import model_line
from regard_lectures.own_looks import look_at
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import listed, span, trainings

WITHOUT, WITH, OF_WEIGHTS = "no dropout", "dropout", "dropout of weights"
KINDS = (WITHOUT, WITH, OF_WEIGHTS)
DIM, HEADS, LAYERS, HIDDEN = 64, 4, 2, 128
UNSEEN, BATCH_TOKENS, RATE, WARMUP = 200, 1024, 0.006, 50
MOST_LAYERS = 11
"""The most layers that are drawn."""
ALIKE = 0.02
"""Distances that differ by less are as large as each other, if they come from one model."""


def settings_of(kind: str, dropout: float) -> dict[str, float]:
    """The rates of dropout of a kind: of what sub-layers add, and of attention weights."""
    return {
        "dropout": dropout if kind == WITH else 0.0,
        "attention_dropout": dropout if kind == OF_WEIGHTS else 0.0,
    }


def measure(
    text: str | None, model: str, dropout: float, steps: int, pairs: int, tries: int, seed: int
) -> dict[str, Any]:
    """Train translators with and without dropout; a model of one's own is only looked at."""
    if model or text is not None:
        return measure_model(model, text)
    return measure_trained(dropout, steps, pairs, tries, seed)


# What is computed.


def entropy(weights: Tensor) -> Tensor:
    """H in bits of each row: (…, key) -> (…)."""
    return -torch.special.xlogy(weights, weights).sum(-1) / math.log(2)


def divergences(weights: Tensor) -> Tensor:
    """JS of each two heads for each query: (…, heads, query, key) -> (…, heads, heads, query)."""
    p, q = weights.unsqueeze(-3), weights.unsqueeze(-4)  # p_i beside q_j: (…, i, j, query, key)
    return entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2


def distances(weights: Tensor, lengths: Sequence[int]) -> tuple[Tensor, float]:
    """The mean distance of each two heads of a layer.

    Args:
        weights: (texts, heads, query, key) Rows of padding are ignored, and 0 where a key is
            masked.
        lengths: The number of queries of each text.

    Returns:
        JS (heads, heads), and the mean of 1 − cosine over all pairs of different heads.
    """
    real = torch.arange(weights.shape[2]) < torch.tensor(lengths)[:, None]  # (texts, query)
    several = (weights > 0).any(1).sum(-1) > 1  # more keys than one
    counted = weights.transpose(1, 2)[real & several].transpose(0, 1)  # (heads, rows, key)
    if not counted.shape[1]:
        return torch.zeros(len(counted), len(counted)), 0.0
    table = divergences(counted.double()).mean(-1)
    pairs = list(combinations(range(len(counted)), 2))
    cosines = [F.cosine_similarity(counted[i], counted[j], dim=-1).mean() for i, j in pairs]
    return table, 1 - float(torch.stack(cosines).mean()) if pairs else 0.0


def mean_distance(table: Tensor) -> float:
    """The mean over the pairs of different heads of JS (heads, heads); 0 for a single head."""
    count = len(table)
    return float(table.sum() / (count * (count - 1))) if count > 1 else 0.0


def measure_trained(
    dropout: float, steps: int, pairs: int, tries: int, seed: int
) -> dict[str, Any]:
    """Train each kind with several seeds, and measure its heads on unseen sentences.

    Returns:
        `distance`, `cosine` and `sharpness`: by kind, for each seed the values of all layers;
        `right`: by kind, for each seed the percentage of unseen sentences translated rightly.
    """
    kinds = ("distance", "cosine", "sharpness", "right")
    result: dict[str, Any] = {what: {kind: [] for kind in KINDS} for what in kinds}
    settings = {"dropout": dropout, "steps": steps, "pairs": pairs}
    count = steps * tries * len(KINDS)
    with Journal("diversity", settings) as journal, training_progress(count) as on_step:
        for number in range(seed, seed + tries):
            splits = grammar.splits(pairs=pairs, held_out=UNSEEN, seed=number)
            for kind in KINDS:
                rates = settings_of(kind, dropout)
                run = partial(train, rates, splits, steps, number, on_step)
                trained = journal.get(f"{kind} {number}", run)
                result["layers"] = trained["layers"]
                for what in kinds:
                    result[what][kind].append(trained[what])
    means = {kind: np.mean(result["distance"][kind], 1) for kind in KINDS}
    differences = (means[WITH] - means[WITHOUT]).tolist()
    return {"trained": True, **result, "differences": {"heads": differences}}


def train(
    rates: Mapping[str, float], splits: Any, steps: int, seed: int, on_step: OnStep
) -> dict[str, Any]:
    """Train a translator; its heads' distances and how often it is right on unseen sentences."""
    torch.manual_seed(seed)
    tokens = TokensConfig(kind="words", vocab=4000, shared=False)
    task: Any = Translate(
        learn(splits.train, tokens), splits.train, batch_tokens=BATCH_TOKENS, seed=seed
    )
    vocabulary = task.vocabulary
    config = TransformerConfig.model_validate(
        {
            "dim": DIM, "heads": HEADS, "hidden": HIDDEN, "layers": LAYERS, "max_length": 64,
            "tied": "output", **rates,
        }
    )  # fmt: skip
    model: Any = build(config, vocabulary.source.vocab, vocabulary.target.vocab)

    def course(step: int) -> float:  # a linear warm-up, then half a cosine down to 0
        return min((step + 1) / WARMUP, 0.5 + 0.5 * math.cos(math.pi * step / steps))

    train_on(task, model, Descent(model.parameters(), RATE, on_step, course, beta=0.98), steps)
    unseen = splits.tests["combinations"]
    batch, tap = task.encode(unseen).batch(range(len(unseen))), Tap("*.weights")
    with evaluating(model):  # no dropout
        best = model(*batch.sides, tap).argmax(-1)  # (tokens,)
    rows = (best == batch.targets.ids).split(batch.targets.lengths)
    source, target = (side.lengths for side in batch.sides)
    values: dict[str, Any] = {"layers": [], "distance": [], "cosine": [], "sharpness": []}
    for name, weights in tap.records.items():
        lengths = source if name.startswith("encoder") else target
        table, cosine = distances(weights, lengths)
        values["layers"].append(name.removesuffix(".weights"))
        values["distance"].append(mean_distance(table))
        values["cosine"].append(cosine)
        real = torch.arange(weights.shape[2]) < torch.tensor(lengths)[:, None]
        values["sharpness"].append(float(weights.amax(-1).transpose(1, 2)[real].mean()))
    return {**values, "right": 100 * sum(bool(row.all()) for row in rows) / len(rows)}


def measure_model(model: str, text: str | None) -> dict[str, Any]:
    """The distances between the heads of a trained model, layer by layer.

    Raises:
        InputError: If no layer of the model has several heads.
    """
    pipeline, looks, read = look_at(model, text)
    tables: dict[str, list[Tensor]] = {}
    for look in looks:
        for layer in look.maps:
            rows = divergences(torch.as_tensor(np.array(layer.weights)).double())
            several = (torch.as_tensor(np.array(layer.weights)) > 0).any(0).sum(-1) > 1
            if layer.heads > 1 and bool(several.any()):
                tables.setdefault(layer.site, []).append(rows[..., several])
    if not tables:
        raise InputError(
            f"show diversity: {pipeline.name}", got="one head in each layer",
            expected="a model with several heads, and a text of several words",
        )  # fmt: skip
    means = {site: torch.cat(rows, -1).mean(-1) for site, rows in tables.items()}
    by_layer = {site: mean_distance(table) for site, table in means.items()}
    widest = max(by_layer, key=by_layer.__getitem__)
    return {
        "trained": False, "model": pipeline.name, "read": read, "limits": model_line(pipeline),
        "layers": list(by_layer), "distance": list(by_layer.values()),
        "shown": widest, "between": means[widest].tolist(),
    }  # fmt: skip


# Its words.


def words_diversity(numbers: Numbers) -> Words:
    """Whether heads differ more with dropout; of a model, in which layers they differ most."""
    return _words_trained(numbers) if numbers["trained"] else _words_model(numbers)


def _words_trained(numbers: Numbers) -> Words:
    titles = {
        "holds": "With dropout the heads of a layer differ more",
        "does not hold": "With dropout the heads of a layer differ less, not more",
        "cannot tell": "Whether dropout makes heads differ, these trainings cannot tell",
    }
    judged = interval(numbers["differences_heads"])
    distance = ", ".join(f"{kind} {np.mean(numbers['mean_distance'][kind]):.3f}" for kind in KINDS)
    right = ", ".join(f"{span(numbers['right'][kind], '.0f')}%" for kind in KINDS)
    against = interval(numbers["differences_of_weights"])
    verb = {"holds": "more", "does not hold": "less"}.get(against.verdict, "not surely more")
    caption = (
        f"Mean distance of two heads: {distance}; dropout changes it by "
        f"{judged.shown('+.3f')}. Dropout of attention weights: {verb} "
        f"({against.mean:+.3f}). Right on unseen sentences: {right}."
    )
    return Words(titles[judged.verdict], caption)


def _words_model(numbers: Numbers) -> Words:
    by_layer = dict(zip(numbers["layers"], numbers["distance"], strict=True))
    most, least = (pick(by_layer, key=by_layer.__getitem__) for pick in (max, min))
    if by_layer[most] - by_layer[least] < ALIKE:
        title = f"{numbers['model']}: heads differ about as much in each layer"
        if len(by_layer) == 1:
            title = f"{numbers['model']}: how much the heads of its layer differ"
    else:
        title = f"{numbers['model']}: heads differ most in {most}, least in {least}"
    table = np.array(numbers["between"])
    heads = range(len(table))
    i, j = max(combinations(heads, 2), key=lambda pair: table[pair])
    caption = (
        f"Mean distance of two heads on {numbers['read']}: {span(by_layer.values(), '.2f')}; 0: "
        f"alike, 1: no key in common. In {numbers['shown']} heads {i} and {j} differ most: "
        f"{table[i, j]:.2f}."
    )
    return Words(title, caption)


# The picture.


def diversity(
    measured: dict[str, Any], *, dropout: float, steps: int, pairs: int, tries: int, seed: int,
    **_: Any,
) -> Drawing:  # fmt: skip
    """Draw the distance of heads layer by layer, beside how often the models are right."""
    if not measured["trained"]:
        return _draw_model(measured)
    means = {kind: np.mean(measured["distance"][kind], 1).tolist() for kind in KINDS}
    sharp = {kind: np.mean(measured["sharpness"][kind], 1).tolist() for kind in KINDS}
    cosine = np.subtract(*(np.mean(measured["cosine"][kind], 1) for kind in (WITH, WITHOUT)))
    numbers: Numbers = {
        **{key: value for key, value in measured.items() if key != "differences"},
        "mean_distance": means,
        "differences_of_weights": np.subtract(means[OF_WEIGHTS], means[WITHOUT]).tolist(),
        "differences_by_cosine": cosine.tolist(),
        **numbers_of("diversity", measured["differences"]),
    }
    sharpness = listed([f"{kind} {np.mean(sharp[kind]):.2f}" for kind in KINDS])
    details = (
        f"Translators of {LAYERS} + {LAYERS} layers, width {DIM}, {HEADS} heads, pre-norm: without "
        f"dropout, with {dropout:.0%} of what each sub-layer adds and of the embeddings dropped in "
        f"training, or with {dropout:.0%} of the attention weights dropped. {steps:,} steps on "
        f"{pairs:,} pairs of the grammar, seeds from {seed}, the same data and first weights for "
        f"all three. Measured without dropout on {UNSEEN} pairs with unseen combinations of words, "
        "while the right translation is read: the Jensen-Shannon divergence in bits of two heads' "
        "weights, as a mean over pairs of heads, queries and sentences (0: alike, 1: no key in "
        "common). By 1 − cosine in its place dropout changes the distance by "
        f"{interval(cosine.tolist()).shown('+.3f')}. Mean largest weight of a query: {sharpness}. "
        "Right: every token is, given those before. Intervals: 95%, of differences of the same "
        "seed."
    )
    limits = f"Translators of width {DIM}, {steps:,} steps on {pairs:,} pairs of a small grammar, "
    limits += f"{dropout:.0%} dropped, {trainings(tries)}."
    styles = dict(zip(KINDS, LINE_STYLES, strict=False))
    with Board(words_diversity(numbers), (1.45, 1), details, limits=limits) as board:
        board.legend(styles)
        _draw_layers(board, measured["layers"], measured["distance"], styles)
        axes = board.chart(1, "beside accuracy", "sentences right, %", "mean distance of heads")
        for kind, style in styles.items():
            axes.plot(measured["right"][kind], means[kind], linestyle="none", marker=style.marker,
                      color=style.colour, markersize=11)  # fmt: skip
        axes.set_xlim(0, 104)
        axes.set_ylim(0, 1.3 * max(max(line) for line in means.values()) or 1)
        return board.drawing(**numbers)


def _draw_layers(
    board: Board, layers: Sequence[str], lines: Mapping[str, Sequence[Sequence[float]]],
    styles: Mapping[str, Any],
) -> None:  # fmt: skip
    """Draw a row for each layer, with a mark for each training."""
    widest = max((value for line in lines.values() for row in line for value in row), default=0.0)
    axes = board.chart(0, "distance of two heads", "JS in bits, 0: alike", ticks=230)
    for offset, (kind, style) in zip((-0.24, 0.0, 0.24), styles.items(), strict=False):
        for row, values in enumerate(zip(*lines[kind], strict=True)):
            axes.plot(values, [row + offset] * len(values), linestyle="none", marker=style.marker,
                      color=style.colour, markersize=8)  # fmt: skip
    axes.set_yticks(range(len(layers)), layers)
    axes.set(xlim=(0, min(1.0, 1.15 * widest) or 1), ylim=(len(layers) - 0.5, -0.5))


def _draw_model(measured: dict[str, Any]) -> Drawing:
    """Draw the distances of a trained model's heads, by layer and between the heads of one."""
    numbers: Numbers = dict(measured)
    layers, values = measured["layers"], measured["distance"]
    step = math.ceil(len(layers) / MOST_LAYERS)
    chosen = [*range(0, len(layers), step)]
    heading = f"1 in {step} of {len(layers)} layers" if step > 1 else "distance of two heads"
    details = (
        f"{measured['model']} reads {measured['read']}, without dropout. Distance: the "
        "Jensen-Shannon divergence in bits of two heads' weights, as a mean over queries that see "
        "more than one key, over pairs of heads, and over what is read. Right: the layer whose "
        "heads differ most."
    )
    table = np.array(measured["between"])
    names = [str(head) for head in range(len(table))]
    with Board(words_diversity(numbers), (1.3, 1), details, limits=measured["limits"]) as board:
        axes = board.chart(0, heading, "JS in bits, 0: alike", ticks=230)
        axes.barh(range(len(chosen)), [values[index] for index in chosen],
                  color=LINE_STYLES[0].colour, height=0.6)  # fmt: skip
        axes.set_yticks(range(len(chosen)), [layers[index] for index in chosen])
        widest = max(values)
        axes.set(xlim=(0, min(1.0, 1.15 * widest) or 1), ylim=(len(chosen) - 0.5, -0.5))
        board.matrix(1, measured["shown"], table, positive_scale(max(float(table.max()), 1e-9)),
                     (names, names), ("head", "head"), ".2f")  # fmt: skip
        return board.drawing(**numbers)
