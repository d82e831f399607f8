"""Scenes of the gallery about a pronoun: whom it looks at, and the word that it flips.

Each function takes a translator and a sentence, and returns a `Drawing`; what it says is computed
from its numbers in `scene_words.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from regard import Pipeline
from regard.draw import BLUE, MUTED, ORANGE, positive_scale
from regard.errors import InputError
from regard.explain import AttentionMap, Board, Drawing, in_words
from regard.inputs import Ragged
from regard.layers import Tap, knock_out
from regard_lectures.figures.scene_words import verdict_numbers, words_gallery
from regard_lectures.figures.scenes_translated import source_of
from regard_lectures.limits import model_line

TEACHER = "The teacher asked the class a question, and everyone turned to look at her."
MEANT = {TEACHER: "teacher"}
"""Whom the pronoun means in the lectures' sentence."""
MOST_HEADS = 12
"""The most heads in the picture."""
PRONOUNS = ("her", "him", "she", "he", "it", "them", "they", "his", "its")
SWAPPED = {"her": "him", "him": "her", "she": "he", "he": "she", "his": "her"}
"""Pronouns and those of the other gender."""
DETERMINERS = frozenset(
    "a an the this that my your his her its our their another every".split()  # noqa: SIM905
)
"""Words before a noun, by which the nouns of a sentence are found."""


# Whom a pronoun looks at.


def her(pipeline: Pipeline, text: str) -> Drawing:
    """Where the pronoun looks in the heads of the encoder, and the translation without the best."""
    look = pipeline.look(text)
    maps = [block for block in look.maps if block.stack == "encoder.self"]
    row = _pronoun(maps[0].queries)
    word, keys = maps[0].queries[row], maps[0].keys
    site, head, column = _best(maps, row)
    name = f"{site}.{head}"
    heads = [f"{block.site}.{number}" for block in maps for number in range(block.heads)]
    table = np.concatenate([block.weights[:, row] for block in maps])  # (all heads, key)
    best = heads.index(name)
    whole = _log_probability(pipeline, text, look.target)
    lost = [whole - _log_probability(pipeline, text, look.target, [other]) for other in heads]
    numbers = {
        "scene": "her",
        "text": text,
        "word": word,
        "noun": keys[column],
        "meant": MEANT.get(text, ""),
        "head": name,
        "weight": float(table[best, column]),
        # of all words, the one that this head looks at most
        "is_largest": int(table[best].argmax()) == column,
        "translation": look.target,
        "without": pipeline.translate(text, knock_out=[name]),
        "log_p_lost": lost[best],
        "log_p_lost_of_others": [*lost[:best], *lost[best + 1 :]],
    }
    details = (
        f"{pipeline.name}: “{text}” → “{look.target}” Each row is a head of the encoder (layer, "
        f"head), and shows where “{word}” looks. Without {in_words(name)}: “{numbers['without']}” "
        "log p is that of the translation with all heads. The weights are a hint, removing the "
        "head is the test: the next scene shows what decides the gender."
    )
    # the heads with the largest weight on a noun before the pronoun
    shown = sorted(sorted(range(len(heads)), key=lambda n: -table[n, column])[:MOST_HEADS])
    words, line = words_gallery(numbers), model_line(pipeline)
    with Board(words, (1,), details, limits=line) as board:
        part = ""
        if len(shown) < len(heads):
            part = f": those {len(shown)} of {len(heads)} that look at “{keys[column]}” most"
        names = [".".join(heads[n].removeprefix("encoder.").split(".self.")) for n in shown]
        axes = board.matrix(
            0, f"where “{word}” looks", table[shown], positive_scale(),
            (names, keys), (f"layer.head{part}", "key"),
        )  # fmt: skip
        _frame(axes, column, shown.index(best))
        return board.drawing(**verdict_numbers(numbers))


def _log_probability(
    pipeline: Pipeline, text: str, translation: str, without: Sequence[str] = ()
) -> float:
    """log p of a translation, with some heads knocked out."""
    target = pipeline.vocabulary.target
    ids = target.encode(translation)
    prefix = Ragged.of([[target.begin, *ids]])
    tap = Tap(edits=[knock_out(head) for head in without])
    with torch.inference_mode():
        logits = pipeline.model(source_of(pipeline, text), prefix, tap)  # (tokens, vocab)
    scores = logits.log_softmax(-1)
    return float(scores[range(len(ids) + 1), [*ids, target.end]].sum())


def _frame(axes: Any, column: int, row: int) -> None:
    """Draw a frame around one cell of a matrix."""
    ends = [column, column + 1, column + 1, column, column], [row, row, row + 1, row + 1, row]
    axes.plot(*ends, color=ORANGE, linewidth=3, clip_on=False)


def _pronoun(words: Sequence[str]) -> int:
    """The index of the last pronoun.

    Raises:
        InputError: If there is none.
    """
    indices = [index for index, word in enumerate(words) if word.lower() in PRONOUNS]
    if not indices:
        raise InputError(
            "gallery: her", got="no pronoun", expected=f"one of {', '.join(PRONOUNS[:6])}"
        )
    return indices[-1]


def _best(maps: Sequence[AttentionMap], row: int) -> tuple[str, int, int]:
    """Site, head and column of the largest weight on an earlier noun.

    Raises:
        InputError: If there is none.
    """
    words = maps[0].keys
    columns = [
        index for index in range(1, row) if words[index].isalpha()
        and words[index - 1].lower() in DETERMINERS
    ]  # fmt: skip
    if not columns:
        raise InputError(
            "gallery: her",
            got="no noun before the pronoun",
            expected="one with an article, such as the teacher",
        )
    _, site, head, column = max(
        (float(block.weights[head, row, column]), block.site, head, column)
        for block in maps for head in range(block.heads) for column in columns
    )  # fmt: skip
    return site, head, column


# One word flips a gender.


def gender(pipeline: Pipeline, text: str) -> Drawing:
    """Two sentences that differ in a pronoun, their translations, and the head that decides."""
    other, words = _swapped(text)
    looks = pipeline.look(text), pipeline.look(other)
    margin = _Margin(pipeline, (text, other), (looks[0].target, looks[1].target))
    heads = [head for head in pipeline.model.heads() if head.startswith("encoder")]
    # the head without which the margins of the two sentences differ least
    name = min(heads, key=lambda head: margin.told_apart([head]))
    site, _, number = name.rpartition(".")
    maps = [look.site(site) for look in looks]
    row, gaze = _asking(maps[0], int(number), words[0])
    rows = (
        [gaze, maps[1].weights[int(number), row]] if len(maps[1].queries) == len(gaze) else [gaze]
    )
    all_heads, fewer = margin.of(), margin.of([name])
    broken = [pipeline.translate(source, knock_out=[name]) for source in (text, other)]
    asker = maps[0].queries[row]
    numbers = {
        "scene": "gender",
        "text": text,
        "words": list(words),
        "changed": list(_changed(looks[0].target, looks[1].target)),
        "head": name,
        "asker": asker,
        "weights_on_pronoun": [float(row[maps[0].keys.index(words[0])]) for row in rows],
        "margins": all_heads,
        "margins_without": fewer,
        "translations": [look.target for look in looks],
        "without": broken,
    }
    details = (
        f"{pipeline.name}: “{text}” → “{looks[0].target}” “{other}” → “{looks[1].target}” Without "
        f"{in_words(name)}: “{broken[0]}” “{broken[1]}” Left: that head, the one of the encoder "
        f"without which the two differ least. Right: log p({margin.names[0]}) − log "
        f"p({margin.names[1]}) at the first word in which the translations differ; above 0 means "
        f"{margin.names[0]}."
    )
    line = model_line(pipeline)
    with Board(words_gallery(numbers), (2.1, 1), details, limits=line) as board:
        columns = [f"{words[0]} / {words[1]}" if key == words[0] else key for key in maps[0].keys]
        board.matrix(
            0, f"where “{asker}” looks: {in_words(name)}", rows, positive_scale(),
            ([f"… {word}" for word in words[: len(rows)]], columns), ("", "key"),
            ".2f",
        )  # fmt: skip
        axes = board.chart(1, f"log p({margin.names[0]}) − log p({margin.names[1]})", " ", "")
        for shift, values, colour in ((-0.2, all_heads, BLUE), (0.2, fewer, ORANGE)):
            axes.bar(np.arange(2) + shift, values, 0.38, color=colour)
            for index, value in enumerate(values):
                at = (index + shift, value + (0.25 if value >= 0 else -0.25))
                axes.write(at, f"{value:+.1f}".replace("-", "−"), ha="center",
                      va="bottom" if value >= 0 else "top")  # fmt: skip
        axes.axhline(0, color=MUTED, linewidth=1)
        reach = 1.35 * max(map(abs, (*all_heads, *fewer)))
        axes.set(ylim=(-reach, reach))
        axes.set_xticks(range(2), [f"… {word}" for word in words])
        axes.write((-0.45, 0.95 * reach), "all heads", color=BLUE, va="top", weight="bold")
        axes.write((1.45, 0.95 * reach), "without it", color=ORANGE, va="top", ha="right",
              weight="bold")  # fmt: skip
        return board.drawing(**verdict_numbers(numbers))


def _swapped(text: str) -> tuple[str, tuple[str, str]]:
    """The sentence with its last pronoun of the other gender, and both pronouns.

    Raises:
        InputError: If there is no such pronoun.
    """
    matches = list(re.finditer(rf"\b({'|'.join(SWAPPED)})\b", text))
    if not matches:
        raise InputError(
            "gallery: gender", got="no pronoun to swap", expected=f"one of {', '.join(SWAPPED)}"
        )
    last = matches[-1]
    new = SWAPPED[last[0]]
    return text[: last.start()] + new + text[last.end() :], (last[0], new)


def _asking(attention: AttentionMap, head: int, word: str) -> tuple[int, Any]:
    """The other word that looks at a word most in a head: its place, and its weights (key,)."""
    column = attention.keys.index(word)
    weights = attention.weights[head].copy()
    weights[column, column] = -1
    row = int(weights[:, column].argmax())
    return row, attention.weights[head, row]


def _changed(first: str, second: str) -> tuple[str, str]:
    """The longest word in which two sentences differ, in each of them."""
    pairs = [
        (a.strip(",."), b.strip(",."))
        for a, b in zip(first.split(), second.split(), strict=False)
        if a != b
    ]
    return max(pairs, key=lambda pair: len(pair[0]), default=("the same", "the same"))


class _Margin:
    """The difference of two logits where two translations part.

    Args:
        pipeline: The translator.
        texts: Two sentences.
        targets: Their translations.
    """

    def __init__(
        self, pipeline: Pipeline, texts: tuple[str, str], targets: tuple[str, str]
    ) -> None:
        target = pipeline.vocabulary.target
        first, second = (target.encode(text) for text in targets)
        same = 0
        while same < min(len(first), len(second)) - 1 and first[same] == second[same]:
            same += 1
        self.model, self.texts = pipeline.model, [source_of(pipeline, text) for text in texts]
        self.prefix = Ragged.of([[target.begin, *first[:same]]])
        self.ids = first[same], second[same]
        self.names = tuple(target.decode([token]).strip() for token in self.ids)

    def of(self, without: Sequence[str] = ()) -> list[float]:
        """The margin of each sentence, with some heads knocked out."""
        margins = []
        for source in self.texts:
            tap = Tap(edits=[knock_out(head) for head in without])
            with torch.inference_mode():
                logits = self.model(source, self.prefix, tap)[-1]
            margins.append(float(logits[self.ids[0]] - logits[self.ids[1]]))
        return margins

    def told_apart(self, without: Sequence[str]) -> float:
        """The difference of the two margins, with some heads knocked out."""
        first, second = self.of(without)
        return first - second
