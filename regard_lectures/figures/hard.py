"""Figure of part 2: soft and hard attention, by content and by location, side by side.

    soft       α = softmax(e)                                    e_ti = v·tanh(W s_{t-1} + U h_i)
    hard       α is 1 at the largest e, else 0; gradients are those of soft attention
    sampled    α is 1 at an i drawn from softmax(e) in training, at the largest e afterwards
    location   α = softmax(e)                                    e_ti = W s_{t-1} · p_i

The last score has a learned vector p_i for each place i, and does not see the word h_i there. Each
kind is trained to reverse a row of symbols, with several seeds. A sentence of one's own goes to a
translator that is trained already: in place of its weights α_ti come their largest entry alone, and
the mean of α_ti over other sentences, which depends on the places t and i alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import Pipeline, load
from regard.data import Pair, grammar
from regard.draw import BLUE, ORANGE, TEXT, WIDTH, positive_scale, wrap
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words, look_of
from regard.inputs import TokensConfig, learn
from regard.layers import Edit, Tap, split_head
from regard.models import Seq2SeqConfig, build, evaluating
from regard.tasks import Translate
from regard_lectures.figures.descent import Descent, train_on
from regard_lectures.figures.lookup import look_up
from regard_lectures.limits import model_line
from regard_lectures.map_labels import map_labels
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import listed, span, trainings

KINDS: dict[str, dict[str, Any]] = {
    "soft": {"attention": "additive"},
    "hard": {"attention": "additive", "hard_attention": True},
    "sampled": {"attention": "additive", "hard_attention": "sampled"},
    "location": {"attention": "location"},
}
"""Each kind with its settings of `model:` in a recipe."""
SYMBOLS, LONGEST = "0123456789", 10
ROW = "3 1 4 1 5 9 2 6"
"""The row of symbols that is drawn; it is left out of training."""
SENTENCE = "The old woman gave the child a red apple."
PAIRS, UNSEEN = 6000, 200
DIM, BATCH_TOKENS, RATE, WARMUP = 64, 800, 0.01, 30
APART = 1.0
"""Percentage points by which ranges must be apart for a verdict."""
OTHERS, TRANSLATED = 200, 40
"""Sentences of the grammar for the mean weights by place, and others to translate."""
MOST_WORDS = 10
"""The most queries and keys of a map."""
MARGIN = 24
"""Pixels on either side of the lines above the maps."""


def measure(text: str | None, model: str, steps: int, tries: int, seed: int) -> dict[str, Any]:
    """Train each kind on rows of symbols; a sentence goes to a trained translator instead."""
    given = ROW if text is None else text
    symbols = list(given) if given.isdecimal() else given.split()  # 731 as 7 3 1
    if set(symbols) <= set(SYMBOLS) and not model:
        if not 2 <= len(symbols) <= LONGEST:
            raise InputError(
                "--text", got=f"{len(symbols)} symbols", expected=f"2 to {LONGEST}, as in '{ROW}'"
            )
        return measure_trained(symbols, steps, tries, seed)
    pipeline = load(model or "tiny/recurrent", device="cpu")
    return measure_translator(pipeline, SENTENCE if text is None else text)


def rows_of_symbols(held_out: Sequence[str], seed: int) -> list[Pair]:
    """Different random rows of symbols and their reversals, without one that is held out."""
    draw, rows = random.Random(seed), {tuple(held_out): None}
    while len(rows) <= PAIRS + UNSEEN:
        rows[tuple(draw.choices(SYMBOLS, k=draw.randint(1, LONGEST)))] = None
    return [Pair(" ".join(row), " ".join(row[::-1])) for row in list(rows)[1:]]


def measure_trained(symbols: Sequence[str], steps: int, tries: int, seed: int) -> dict[str, Any]:
    """Train each kind with several seeds: rows reversed rightly, and the weights on one row."""
    result: dict[str, Any] = {"right": {}, "weights": {}}
    with training_progress(steps * tries * len(KINDS)) as on_step:
        for kind, settings in KINDS.items():
            runs = [
                _train(settings, symbols, steps, one_seed, on_step)
                for one_seed in range(seed, seed + tries)
            ]
            result["right"][kind] = [run.right for run in runs]
            result["weights"][kind] = runs[0].weights
    return {
        "trained": True, "source": " ".join(symbols), "count": UNSEEN,
        "target": " ".join(symbols[::-1]), "keys": [*symbols], "queries": [*symbols[::-1], "end"],
        "limits": "", **result,
    }  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What one trained translator does."""

    right: float
    """The percentage of unseen rows whose reversal is right."""
    weights: list[list[float]]
    """(query, key) On the row that is drawn."""


def _train(
    settings: Mapping[str, Any], symbols: Sequence[str], steps: int, seed: int, on_step: OnStep
) -> Run:
    """Train a recurrent translator to reverse rows of symbols."""
    torch.manual_seed(seed)
    pairs = rows_of_symbols(symbols, seed)
    seen, unseen = pairs[:PAIRS], pairs[PAIRS:]
    tokens = TokensConfig(kind="words", vocab=64, shared=True)
    task: Any = Translate(learn(seen, tokens), seen, batch_tokens=BATCH_TOKENS, seed=seed)
    vocabulary = task.vocabulary
    config = Seq2SeqConfig.model_validate(
        {"dim": DIM, "dropout": 0.0, "max_length": LONGEST + 2, "tied": "all", **settings}
    )
    model: Any = build(config, vocabulary.source.vocab, vocabulary.target.vocab)

    def course(step: int) -> float:  # a linear warm-up, then half a cosine down to 0
        return min((step + 1) / WARMUP, 0.5 + 0.5 * math.cos(math.pi * step / steps))

    train_on(task, model, Descent(model.parameters(), RATE, on_step, course, beta=0.98), steps)
    row, reversal = " ".join(symbols), " ".join(symbols[::-1])
    trace = task.trace(model, row, Tap("*.weights"), decode=None, target=reversal)
    [attention_map] = look_of(trace, row).maps
    return Run(_right(task, model, unseen), attention_map.weights[0].tolist())


def _right(task: Translate, model: Any, pairs: Sequence[Pair]) -> float:
    """The percentage of pairs whose target would be written greedily.

    It is if, given the target so far, each next token is the likeliest one.
    """
    batch = task.encode(pairs).batch(range(len(pairs)))
    with evaluating(model):
        best = model(*batch.sides).argmax(-1)  # (tokens,)
    rows = (best == batch.targets.ids).split(batch.targets.lengths)
    return 100 * sum(bool(row.all()) for row in rows) / len(rows)


def by_place(pipeline: Pipeline, site: str, pairs: Sequence[Pair]) -> Callable[[Tensor], Tensor]:
    """A function that replaces weights by their mean over some sentences, place by place.

    Places that no sentence had get equal weights; those of padding stay 0.
    """
    batch = pipeline.translator().readable(pairs, pipeline.model.config.max_length)
    tap, sides = Tap(f"{site}.weights"), batch.batch(range(len(pairs))).sides
    with torch.inference_mode():
        pipeline.model.eval()(*sides, tap)
    recorded = tap.records[f"{site}.weights"]  # (sentence, heads, query, key)
    rows = torch.zeros(recorded.shape[0], recorded.shape[2])
    for sentence, length in enumerate(sides[1].lengths):
        rows[sentence, :length] = 1.0
    total = torch.einsum("bhqk,bq->hqk", recorded, rows)
    mean = total / rows.sum(0).clamp(min=1)[:, None]  # (heads, query, key)

    def change(weights: Tensor) -> Tensor:  # (batch, heads, query, key)
        queries, keys = weights.shape[2:]
        placed = torch.full((*mean.shape[:1], queries, keys), 1e-6)
        q, k = min(queries, mean.shape[1]), min(keys, mean.shape[2])
        placed[:, :q, :k] += mean[:, :q, :k]
        placed = placed * (weights > 0)  # no weight on padding
        return placed / placed.sum(-1, keepdim=True).clamp(min=1e-30)

    return change


def measure_translator(pipeline: Pipeline, text: str) -> dict[str, Any]:
    """A trained translator with its own weights, their largest entry, and their mean by place."""
    task, heads = pipeline.translator(), pipeline.model.heads()
    if len(heads) != 1 or not heads[0].endswith(".cross.0"):
        raise InputError(
            f"show hard: {pipeline.name}", got=f"{len(heads)} heads", fix="such as tiny/recurrent",
            expected="a recurrent translator, with one head that attends to the source",
        )  # fmt: skip
    site, _ = split_head(heads[0])
    splits = grammar.splits(pairs=OTHERS, held_out=TRANSLATED, seed=0)
    unseen = splits.tests["combinations"]
    edits = {
        "soft": [],
        "hard": [look_up(site)],
        "location": [Edit(f"{site}.weights", by_place(pipeline, site, splits.train))],
    }
    result: dict[str, Any] = {"right": {}, "weights": {}, "answers": {}}
    decoding, target = pipeline.decoding(beam=1), None
    for kind, changes in edits.items():
        tap = Tap(edits=changes)
        predictions = task.predict(
            pipeline.model,
            task.read(pipeline.model, [text, *(pair.source for pair in unseen)]),
            decoding,
            tap=tap,
        )
        answer, *others = (best.text for best, *_ in predictions)
        right = [said in pair.references for said, pair in zip(others, unseen, strict=True)]
        target = target or answer
        trace = task.trace(
            pipeline.model, text, Tap("*.weights", edits=changes), decode=decoding, target=target
        )
        [attention_map] = look_of(trace, text).maps
        result["right"][kind] = [100 * sum(right) / len(right)]
        result["weights"][kind] = attention_map.weights[0].tolist()
        result["answers"][kind] = answer
        result |= {"queries": [*attention_map.queries], "keys": [*attention_map.keys]}
    return {
        "trained": False, "source": text, "target": target, "count": len(unseen),
        "limits": model_line(pipeline), **result,
        "unknown": task.vocabulary.source.unknown_words(text),
    }  # fmt: skip


def bounds(measured: Mapping[str, Any], kind: str) -> tuple[float, float]:
    """Between which percentages a kind is: of all seeds, or by Wilson's 95% interval of one."""
    right, count = measured["right"][kind], measured["count"]
    if len(right) > 1:
        return min(right), max(right)
    share, z = right[0] / 100, 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count**2)) / (1 + z * z / count)
    return 100 * (middle - half), 100 * (middle + half)


def words_hard(numbers: Numbers) -> Words:
    """Which kinds do better or worse than soft attention, and how sharp the weights are."""
    kinds = list(numbers["right"])
    low, high = bounds(numbers, "soft")
    verdicts = {}
    for kind in kinds[1:]:
        least, most = bounds(numbers, kind)
        verdicts[kind] = (
            "worse" if most + APART < low else "better" if least > high + APART else "cannot tell"
        )
    does = {"worse": "worse", "better": "better", "cannot tell": "too close to tell"}
    parts = [
        f"{listed([kind for kind in verdicts if verdicts[kind] == verdict])} {phrase}"
        for verdict, phrase in does.items()
        if verdict in verdicts.values()
    ]
    against = "Against" if numbers["trained"] else "Put in place of"
    title = f"{against} soft attention: {', '.join(parts)}"
    shares = ", ".join(f"{kind} {span(numbers['right'][kind], '.0f')}%" for kind in kinds)
    sharp = ", ".join(f"{kind} {numbers['sharpness'][kind]:.2f}" for kind in kinds)
    done = "rows reversed" if numbers["trained"] else "sentences translated rightly"
    caption = (
        f"Of {numbers['count']} unseen {done}: {shares}. Largest weight of a query here, on "
        f"average: {sharp}."
    )
    return Words(title, " ".join(filter(None, (caption, _said(numbers)))))


def _said(numbers: Numbers) -> str:
    """What changes in the translation, and what the picture leaves out."""
    parts, answers = [], numbers.get("answers", {})
    changed = [kind for kind, answer in answers.items() if answer != answers["soft"]]
    if answers:
        parts.append(f"The translation changes with {listed(changed)}." if changed else
                     "The translation stays.")  # fmt: skip
    if numbers.get("unknown"):
        parts.append(f"Unknown to the model: {', '.join(numbers['unknown'])}.")
    queries, keys = len(numbers["queries"]), len(numbers["keys"])
    if max(queries, keys) > MOST_WORDS:
        parts.append(f"Maps: the first {MOST_WORDS} of {queries} queries and {keys} keys.")
    return " ".join(parts)


def hard(measured: dict[str, Any], *, steps: int, tries: int, seed: int, **_: Any) -> Drawing:
    """Draw the weights of each kind on one text, and how often each is right."""
    numbers: Numbers = {
        **measured,
        "sharpness": {
            kind: sum(max(row) for row in rows) / len(rows)
            for kind, rows in measured["weights"].items()
        },
    }
    kinds = list(numbers["weights"])
    limits = numbers["limits"] or (
        f"Recurrent translators of width {DIM}, {steps:,} steps on {PAIRS:,} rows of digits, "
        f"{trainings(tries)}."
    )
    with Board(
        words_hard(numbers),
        (1.3, *[1.0] * (len(kinds) - 1), 1.05),
        _details(numbers, seed),
        limits=limits,
    ) as board:
        lines = [f"{numbers['source']} → {numbers['target']}"]
        lines += [
            f"{kind}: {answer}"
            for kind, answer in numbers.get("answers", {}).items()
            if answer != numbers["target"]
        ]
        board.lines([part for line in lines for part in wrap(line, WIDTH - 2 * MARGIN, TEXT)])
        queries, keys = (
            map_labels(numbers[side][:MOST_WORDS], 110) for side in ("queries", "keys")
        )
        for panel, kind in enumerate(kinds):
            table = np.array(numbers["weights"][kind])[:MOST_WORDS, :MOST_WORDS]
            names = queries if not panel else [""] * len(queries)  # the same for all
            board.matrix(panel, kind, table, positive_scale(), (names, keys), ("query", "key"))
        _draw_right(board, len(kinds), numbers)
        return board.drawing(**numbers)


def _details(numbers: Numbers, seed: int) -> str:
    if numbers["trained"]:
        return (
            "Hard: the softmax's largest weight becomes 1, with the gradients of the softmax. "
            "Sampled: in training a key is drawn from the softmax (Gumbel noise), afterwards it is "
            "the largest. Location: the score sees the decoder's state and the place of a key, not "
            f"the word there. Maps: seed {seed}, while the right answer is read. Dots: the seeds."
        )
    return (
        "One translator, trained with soft attention. Hard: the largest weight in place of all, "
        f"after training. Location: the mean weights of {OTHERS} other sentences, by the places of "
        "query and key alone. Maps: while the translation with soft attention is read. Lines: 95% "
        "intervals (Wilson)."
    )


def _draw_right(board: Board, panel: int, numbers: Numbers) -> None:
    """Draw how often each kind is right: a dot for each seed, a line from `bounds`."""
    axes = board.chart(panel, "right, %", ticks=10)
    for row, (kind, right) in enumerate(numbers["right"].items()):
        colour = BLUE if kind == "soft" else ORANGE
        axes.write((0, row - 0.12), f"{kind}: {span(right, '.0f')}", va="bottom")
        axes.hlines(row + 0.1, *bounds(numbers, kind), color=colour, linewidth=3)
        axes.plot(right, [row + 0.1] * len(right), "o", color=colour, markersize=8)
    axes.set(xlim=(0, 104), ylim=(len(numbers["right"]) - 0.5, -0.75))
    axes.set_xticks([0, 50, 100])
    axes.set_yticks([])
    axes.grid(visible=False)
