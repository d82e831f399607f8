"""Figure of part 5: what “it” looks at, in the encoder as the lectures show it, or in the decoder.

"The animal didn't cross the street because it was too tired", and "… too wide". In the encoder: the
head whose largest weight from "it" is most often on the noun that is meant, found on some sentences
and measured on others, and the pronouns without it. In the decoder: the head that moves from one
noun to the other while the pronoun is written, and the heads without which the pronoun fails.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np

from regard import Pipeline
from regard.data import Pair, grammar
from regard.draw import BLUE, MUTED, ORANGE, positive_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, Look, Words, in_words
from regard_lectures.figures.pronouns import PronounTest
from regard_lectures.figures.sentences import (
    Intervention,
    check_pronouns,
    has_pronouns,
    intervene,
    translator,
)
from regard_lectures.limits import model_line

SEARCHED, REPORTED = 48, 48
"""Sentences to find the head with, and others to measure it with."""
OFTEN, RIGHT, WRONG = 0.8, 95.0, 60.0
"""The claim holds if the head is on the noun so often, and pronouns fall from RIGHT to WRONG %."""
CONTROLS = 6
"""The most other heads that are taken away for comparison, one at a time."""
MOST_WORDS = 14
"""The most words of a sentence in the picture."""
SWAPPED = {"tired": "wide", "wide": "tired"}
"""Words at the end of a sentence that are exchanged for a second one."""
SEEDS = "pronoun_seeds.json"
"""What three trainings of tiny/pronoun measured: `python -m benchmarks.pronoun` writes it."""


def animal(text: str | None, model: str, part: str, seed: int) -> Drawing:
    """Draw what “it” looks at, and what happens to pronouns without the head that does so."""
    pipeline = translator(model, text or "")
    if part == "encoder":
        return _draw_encoder(measure_encoder(pipeline, _sentences(text), seed), pipeline)
    if text is not None:
        raise InputError("--text", got="a text with part=decoder", expected="part=encoder")
    check_pronouns(pipeline)
    return _draw_decoder(intervene(pipeline, seed), pipeline, seed)


def _sentences(text: str | None) -> list[str]:
    """The sentences to draw: the lecture's two, or a person's, with its other ending if it has one.

    Raises:
        InputError: If the text has no “it”.
    """
    if text is None:
        return [pair.source for pair in grammar.DEMO]
    if not re.search(r"\bit\b", text, re.IGNORECASE):
        fix = "such as: The dog didn't chase the cat because it was too tired."
        raise InputError("--text", got="no “it”", expected="a sentence with “it”", fix=fix)
    ending = re.search(rf"\b({'|'.join(SWAPPED)})\b(?=\W*$)", text)
    if ending is None:
        return [text]
    return [text, text[: ending.start()] + SWAPPED[ending[1]] + text[ending.end() :]]


def measure_encoder(pipeline: Pipeline, texts: Sequence[str], seed: int) -> dict[str, Any]:
    """Find the encoder head that is most often on the noun of “it”, and take it away.

    Args:
        pipeline: An English–German translator.
        texts: Sentences with “it”.
        seed: The seed of the sentences of the grammar.
    """
    contests = grammar.contests(SEARCHED + REPORTED, seed + 1)
    # alternately, so that in both groups half of the sentences mean the first noun
    searched, reported = contests[::2], contests[1::2]
    hits = {name: _hits(pipeline, group) for name, group in (("s", searched), ("r", reported))}
    head = max(hits["s"], key=lambda name: (np.mean(hits["s"][name]), name))
    right = _right_share(pipeline, [contest.pair for contest in reported])
    others = [name for name in hits["s"] if name != head]
    random.Random(seed).shuffle(others)
    looks = [pipeline.look(text, allow_unknown=True) for text in texts]
    site, _, number = head.rpartition(".")
    sentences = []
    for text, look in zip(texts, looks, strict=True):
        words, row = _row_of_it(look, site, int(number))
        sentences.append(
            {
                "text": text,
                "words": [*words],
                "weights": [float(weight) for weight in row],
                "translation": look.target,
                "without": pipeline.translate(text, knock_out=[head], allow_unknown=True),
            }
        )
    return {
        "model": pipeline.name,
        "part": "encoder",
        "head": head,
        "sentences": sentences,
        "on_noun": float(np.mean(hits["r"][head])),
        "chance": float(np.mean([1 / len(c.pair.source.split()) for c in reported])),
        "nearest_noun": float(np.mean([contest.meant for contest in reported])),
        "count": len(reported),
        "all_heads": {name: float(np.mean(hits["r"][name])) for name in hits["r"]},
        "right": right(()),
        "right_without": right([head]),
        "right_without_others": {name: right([name]) for name in others[:CONTROLS]},
        "other_heads": len(others),
        "trainings": _trainings(pipeline.name),
    }


def _right_share(pipeline: Pipeline, pairs: Sequence[Pair]) -> Callable[[Sequence[str]], float]:
    """A function: the percentage of pronouns that are right without some heads.

    By the logits of the three pronouns if each is a token; else by whole translations.
    """
    if has_pronouns(pipeline):
        return PronounTest(pipeline.model, pipeline.task, pairs).right_share

    def by_translations(without: Sequence[str]) -> float:
        texts = [pair.source for pair in pairs]
        answers = pipeline.translate(texts, knock_out=list(without))
        right = [grammar.pronoun_is_right(*both) for both in zip(pairs, answers, strict=True)]
        return 100 * sum(right) / len(right)

    return by_translations


def _trainings(name: str) -> list[dict[str, float]]:
    """What several trainings of the shipped model measured; empty for other models."""
    if name != "tiny/pronoun":
        return []
    file = resources.files("regard_lectures.results") / SEEDS
    trainings: list[dict[str, float]] = json.loads(file.read_text("utf-8"))
    return trainings


def _hits(pipeline: Pipeline, contests: Sequence[grammar.Contest]) -> dict[str, list[bool]]:
    """For each encoder head and sentence, whether its largest weight from “it” is on the noun."""
    hits: dict[str, list[bool]] = {}
    for contest in contests:
        look = pipeline.look(contest.pair.source, target=contest.pair.target)
        noun = contest.nouns[contest.meant]
        for attention_map in look.maps:
            if attention_map.stack != "encoder.self":
                continue
            for head in range(attention_map.heads):
                words, row = _row_of_it(look, attention_map.site, head)
                name = f"{attention_map.site}.{head}"
                hits.setdefault(name, []).append(words[int(row.argmax())].lower() == noun)
    if not hits:
        raise InputError(
            f"show animal: {pipeline.name}", got="an encoder without attention",
            expected="a Transformer", fix="part=decoder shows a decoder's heads",
        )  # fmt: skip
    return hits


def _row_of_it(look: Look, site: str, head: int) -> tuple[Sequence[str], Any]:
    """The words of a sentence, and the weights of one head from the first “it” in it."""
    attention_map = look.site(site)
    queries = [word.lower() for word in attention_map.queries]
    return attention_map.keys, attention_map.weights[head, queries.index("it")]


def words_animal(numbers: Mapping[str, Any]) -> Words:
    """Whether “it” looks at its noun, and whether pronouns need the head."""
    return (_words_encoder if numbers["part"] == "encoder" else _words_decoder)(numbers)


def _words_encoder(numbers: Mapping[str, Any]) -> Words:
    often, right, without = (numbers[key] for key in ("on_noun", "right", "right_without"))
    holds = often >= OFTEN and right >= RIGHT and without <= WRONG
    shown = []
    for sentence in numbers["sentences"]:
        best = int(np.argmax(sentence["weights"]))
        last = re.findall(r"\w+", sentence["text"])[-1]
        shown.append(f"“{sentence['words'][best]}” ({last})")
    if holds:
        title = f"“it” looks at its noun: here {' and '.join(shown)}"
    elif often >= OFTEN:
        title = f"“it” looks at its noun in {often:.0%}, but pronouns do not depend on this head"
    else:
        title = f"No head of this encoder finds the noun of “it”: the best in {often:.0%}"
    others = list(numbers["right_without_others"].values())
    which = "any other encoder head"
    if len(others) < numbers["other_heads"]:
        which = f"one of {len(others)} others, drawn at random,"
    control = f", without {which} at least {min(others):.0f}%" if others else ""
    caption = (
        f"Of {numbers['count']} unseen sentences this head's largest weight from “it” is on the "
        f"noun that is meant in {often:.0%} (any word: {numbers['chance']:.0%}). Pronouns right: "
        f"{right:.0f}%, without it {without:.0f}%{control}."
    )
    if numbers["trainings"]:
        falls = ", ".join(f"{run['right_without']:.0f}" for run in numbers["trainings"])
        least = min(run["on_noun"] for run in numbers["trainings"])
        caption += (
            f" {len(numbers['trainings'])} trainings: on the noun in at least {least:.0%}; "
            f"without the head {falls}% right."
        )
    return Words(title, caption)


def _draw_encoder(numbers: dict[str, Any], pipeline: Pipeline) -> Drawing:
    """Draw the weights of “it” in each sentence, and pronouns with and without the head."""
    details = (
        f"The head of {pipeline.name} whose largest weight from “it” is on the noun that is meant "
        f"most often in {SEARCHED} sentences of the grammar; the numbers are those of "
        f"{numbers['count']} others, in which training never has the noun with its adjective. Half "
        "of them mean the first noun and half the second, so that the nearest noun is right in "
        f"{numbers['nearest_noun']:.0%}. Attention itself was no target of the training. "
        + " ".join(f"{s['text']} → {s['translation']} Without the head: {s['without']}"
                   for s in numbers["sentences"])
    )  # fmt: skip
    sentences = numbers["sentences"]
    words = list(sentences[0]["words"][:MOST_WORDS])
    rows = [[*sentence["weights"], *[np.nan] * MOST_WORDS][: len(words)] for sentence in sentences]
    if len(sentences) == 2:
        words = [
            first if first == second else f"{first} / {second}"
            for first, second in zip(words, sentences[1]["words"], strict=False)
        ]
    left_out = len(sentences[0]["words"]) - len(words)
    below = f"the first {len(words)} words of {len(words) + left_out}" if left_out else ""
    with Board(words_animal(numbers), (2.3, 1), details, limits=model_line(pipeline)) as board:
        names = [f"… {re.findall(r'[^ ]+', s['text'])[-1]}" for s in sentences]
        board.matrix(
            0, f"weights of “it”: {in_words(numbers['head'])}", rows, positive_scale(),
            (names, words), ("", below or "the words looked at"), ".2f",
        )  # fmt: skip
        others = list(numbers["right_without_others"].values())
        shares = [numbers["right"], numbers["right_without"], *([min(others)] if others else [])]
        bars = ["all\nheads", "this\none out", "other\nout"][: len(shares)]
        _draw_bars(board, shares, bars)
    return board.drawing(**numbers)


def _draw_bars(board: Board, shares: Sequence[float], names: Sequence[str]) -> None:
    """Draw the share of right pronouns as bars, with a line for guessing."""
    axes = board.chart(1, "pronouns right, %", " ", "")
    axes.bar(range(len(shares)), shares, 0.6, color=[BLUE, ORANGE, BLUE][: len(shares)])
    for index, share in enumerate(shares):
        axes.write((index, share + 1.5), f"{share:.0f}", ha="center")
    axes.axhline(50, color=MUTED, linestyle=":", linewidth=1.8)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylim(0, 114)


def _words_decoder(numbers: Mapping[str, Any]) -> Words:
    before, after = numbers["before"], numbers["after"]
    moves = before[0] > before[1] and after[1] > after[0]
    right, without = numbers["right"], numbers["right_without_carriers"]
    others = min(numbers["right_without_others"])
    title = "One word moves a head of the decoder from *animal* to *street*".replace("*", "")
    if not moves:
        title = "No head of the decoder moves from animal to street with the last word"
    verdict = "need" if without < others - 10 and without <= WRONG else "do not need"
    caption = (
        f"Weights on animal and street: {before[0]:.2f} and {before[1]:.2f} for tired, "
        f"{after[0]:.2f} and {after[1]:.2f} for wide. Pronouns {verdict} the "
        f"{len(numbers['carriers'])} heads that were found: {right:.1f}% of {numbers['pairs']} are "
        f"right, without them {without:.1f}%, without as many others at least {others:.1f}%."
    )
    return Words(title, caption)


def _draw_decoder(result: Intervention, pipeline: Pipeline, seed: int) -> Drawing:
    """Draw one head's weights in both sentences, and the pronoun accuracy without the carriers."""
    shift, carriers = result.shift, result.carriers
    site, _, head = shift.head.rpartition(".")
    maps = [look.site(site) for look in result.looks]
    rows = [m.queries.index(q) for m, q in zip(maps, shift.query.split("/") * 2, strict=False)]
    weights = [m.weights[int(head), row].tolist() for m, row in zip(maps, rows, strict=True)]
    numbers = {
        "model": pipeline.name,
        "part": "decoder",
        "head": shift.head,
        "before": list(shift.before),
        "after": list(shift.after),
        "weights": weights,
        "pairs": carriers.pairs,
        "carriers": list(carriers.heads),
        "right": carriers.right_before,
        "right_without_carriers": carriers.right_without,
        "right_without_others": list(carriers.right_without_others),
        "translations": [look.target for look in result.looks],
        "broken": [look.target for look in result.broken],
    }
    details = (
        f"{result.looks[0].source} → {result.looks[0].target} {result.looks[1].source} → "
        f"{result.looks[1].target} Left: the head whose weights change most. Right: pronouns with "
        f"all heads; without {'; '.join(map(in_words, carriers.heads))}; and without as many "
        f"others, drawn at random {len(carriers.others)} times (seed {seed}; the bar is the worst "
        "draw). Two pronouns are possible each time, so a guess is right half of the time (dotted "
        f"line). Without these heads: {result.broken[0].target} {result.broken[1].target}"
    )
    with Board(words_animal(numbers), (2.3, 1), details, limits=model_line(pipeline)) as board:
        names = [f"… {look.source.split()[-1]}" for look in result.looks]
        words = [*maps[0].keys[:-2], "tired / wide", maps[0].keys[-1]]
        heading = f"weights of “{shift.query}”: {in_words(shift.head)}"
        board.matrix(0, heading, weights, positive_scale(), (names, words),
                     ("", "the words looked at"), ".2f")  # fmt: skip
        count = len(carriers.heads)
        bars = ["all\nheads", f"these\n{count} out", f"{count} others\nout"]
        shares = [carriers.right_before, carriers.right_without, min(carriers.right_without_others)]
        _draw_bars(board, shares, bars)
    return board.drawing(**numbers)
