"""Scenes of the gallery that a translator shows: two dogs, her and teacher, a flipped gender.

Each function takes a translator and a sentence, and returns a `Drawing` whose numbers have `holds`
(whether the lectures' claim about the sentence holds in this model) and `says` (what the picture
shows, in a sentence).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import Pipeline
from regard.draw import BLUE, MUTED, ORANGE, LineStyle, positive_scale
from regard.errors import InputError
from regard.explain import AttentionMap, Board, Drawing, Look, in_words
from regard.inputs import Ragged
from regard.layers import Positions, Tap, knock_out

PRONOUNS = ("her", "him", "she", "he", "it", "them", "they", "his", "its")
SWAPPED = {"her": "him", "him": "her", "she": "he", "he": "she", "his": "her"}
"""Pronouns and those of the other gender."""
DETERMINERS = frozenset(
    [
        "a",
        "an",
        "the",
        "this",
        "that",
        "my",
        "your",
        "his",
        "her",
        "its",
        "our",
        "their",
        "another",
        "every",
    ]
)
"""Words before a noun, by which the nouns of a sentence are found."""


# Two words that are the same.


def dogs(pipeline: Pipeline, text: str) -> Drawing:
    """The vectors of a word that comes twice, layer by layer, with positions and without."""
    tokens = [token.token for token in pipeline.tokens(text)]
    word, indices = _twice(tokens)
    layers = pipeline.model.encoder.layers()
    sites = ["encoder.embedding", *(f"{layer.name}.residual" for layer in layers)]
    with_them = _vectors(pipeline, text, sites)
    with _without_positions(pipeline.model):
        without = _vectors(pipeline, text, sites)
    apart = [_apart(vectors, sites, indices) for vectors in (with_them, without)]
    plain = [token.replace("▁", "").strip() for token in tokens]
    holds = max(apart[1]) < 1e-3 < 1 < min(apart[0])
    says = (
        f"Without positions the two “{word}”s have the same vector in every layer; with them they "
        f"differ by {apart[0][0]:.0f}% of their length at the input and by {apart[0][-1]:.0f}% at "
        "the top."
    )
    details = (
        f"{pipeline.name} reads “{text}” with positions and without them. Left: "
        f"|a − b| of the vectors of the two “{word}”s, in percent of their mean length, at the "
        "input and after each layer of the encoder. Right: where each of them looks in the first "
        "layer, mean over the heads. Two equal tokens differ only in their positions."
    )
    title = f"Without positions, “{word}” and “{word}” are one"
    with Board(says, (1.1, 1, 1), details, title) as board:
        board.legend({"with positions": LineStyle(BLUE), "without": LineStyle(ORANGE)})
        axes = board.chart(0, "how different they are, %", "layer of the encoder", "")
        across = np.arange(len(sites))
        axes.bar(across - 0.2, apart[0], 0.38, color=BLUE)
        axes.bar(across + 0.2, apart[1], 0.38, color=ORANGE)
        for index, height in enumerate(apart[0]):
            axes.write((index - 0.2, height + 1.5), f"{height:.0f}", ha="center")
            axes.write((index + 0.2, 1.5), "0" if apart[1][index] < 0.05 else
                  f"{apart[1][index]:.1f}", ha="center")  # fmt: skip
        axes.set_xticks(across, ["input", *(str(i) for i in range(1, len(sites)))])
        axes.set_ylim(0, 1.2 * max(apart[0]))
        for number, vectors, name in ((1, with_them, "with"), (2, without, "without")):
            rows = vectors["encoder.0.self.weights"].mean(0)[list(indices)]  # (2, key)
            board.matrix(
                number, f"where they look, {name}", rows, positive_scale(float(rows.max())),
                (["1st", "2nd"], plain), ("", ""), ".2f",
            )  # fmt: skip
        return board.drawing(
            holds=holds,
            says=says,
            word=word,
            tokens=plain,
            apart_with_positions=apart[0],
            apart_without=apart[1],
        )


def _twice(tokens: Sequence[str]) -> tuple[str, tuple[int, int]]:
    """The longest token that occurs twice, and its first two positions.

    Raises:
        InputError: If no word occurs twice.
    """
    words = [token for token in tokens if any(letter.isalpha() for letter in token)]
    repeated = sorted(
        {word for word in words if words.count(word) > 1}, key=lambda word: -len(word)
    )
    if not repeated:
        expected = "a sentence in which a word occurs twice"
        raise InputError("gallery: dogs", got="no word twice", expected=expected)
    first = tokens.index(repeated[0])
    return repeated[0].replace("▁", "").strip(), (first, tokens.index(repeated[0], first + 1))


def _source(pipeline: Pipeline, text: str) -> Ragged:
    return Ragged.of([pipeline.vocabulary.source.encode(text)])


def _vectors(pipeline: Pipeline, text: str, sites: Sequence[str]) -> dict[str, Tensor]:
    """What the encoder computes at some sites, and its first layer's weights, of one sentence."""
    tap = Tap(*sites, "encoder.0.self.weights")
    with torch.inference_mode():
        pipeline.model.encode(_source(pipeline, text), tap)
    return {site: record[0] for site, record in tap.records.items()}


@contextmanager
def _without_positions(model: Any) -> Iterator[None]:
    """The encoder without its position scheme, within this context."""
    before = model.encoder.positions
    model.encoder.positions = Positions()
    try:
        yield
    finally:
        model.encoder.positions = before


def _apart(
    vectors: dict[str, Tensor], sites: Sequence[str], indices: tuple[int, int]
) -> list[float]:
    """|a - b| in percent of the mean length of a and b, at each site."""
    shares = []
    for site in sites:
        a, b = (vectors[site][index] for index in indices)
        shares.append(100 * float((a - b).norm() / (0.5 * (a.norm() + b.norm()))))
    return shares


# Whom a pronoun looks at.


def her(pipeline: Pipeline, text: str) -> Drawing:
    """Where the pronoun looks in each head of the encoder, and the translation without the best."""
    look = pipeline.look(text)
    maps = [block for block in look.maps if block.stack == "encoder.self"]
    row = _pronoun(maps[0].queries)
    word = maps[0].queries[row]
    site, head, column = _best(maps, row)
    noun, name = maps[0].keys[column], f"{site}.{head}"
    table = np.concatenate([block.weights[:, row] for block in maps])  # (all heads, key)
    most = float(look.site(site).weights[head, row, column])
    broken = pipeline.translate(text, knock_out=[name])
    # of all words, the one that this head looks at most
    holds = int(look.site(site).weights[head, row].argmax()) == column
    same = "stays the same" if broken == look.target else f"becomes “{broken}”"
    far = "most" if holds else "more than in any other, but not most"
    says = (
        f"In {in_words(name)} “{word}” looks at “{noun}” {far}, by {most:.0%}; without that head "
        f"the translation {same}."
    )
    details = (
        f"{pipeline.name}: “{text}” → “{look.target}” Each row is a head of the encoder (layer, "
        f"head), and shows where “{word}” looks. Without {in_words(name)}: “{broken}” The weights "
        "are a hint, removing the head is the test: the next scene shows what decides the gender."
    )
    with Board(says, (1,), details, f"“{word}” looks at “{noun}”") as board:
        names = [f"{block.layer + 1}, {n + 1}" for block in maps for n in range(block.heads)]
        axes = board.matrix(
            0, f"where “{word}” looks", table, positive_scale(),
            (names, maps[0].keys), ("layer, head", "the words looked at"),
        )  # fmt: skip
        mark = sum(block.heads for block in maps if block.layer < look.site(site).layer) + head
        _frame(axes, column, mark)
        return board.drawing(
            holds=holds,
            says=says,
            word=word,
            noun=noun,
            head=name,
            weight=most,
            translation=look.target,
            without=broken,
        )


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
    flips, breaks = looks[0].target != looks[1].target, broken[0] != looks[0].target
    changed = _changed(looks[0].target, looks[1].target)
    lost = _changed(looks[0].target, broken[0])
    asker = maps[0].queries[row]
    says = (
        f"“{words[0]}” gives {changed[0]}, “{words[1]}” gives {changed[1]}; without the head in "
        f"which “{asker}” looks at “{words[0]}” it is {lost[1]} with “{words[0]}”, too."
        if breaks
        else f"“{words[0]}” gives {changed[0]}, “{words[1]}” gives {changed[1]}; no single head of "
        "the encoder decides it alone."
    )
    details = (
        f"{pipeline.name}: “{text}” → “{looks[0].target}” “{other}” → “{looks[1].target}” Without "
        f"{in_words(name)}: “{broken[0]}” “{broken[1]}” Left: that head, the one of the encoder "
        f"without which the two differ least. Right: log p({margin.names[0]}) − log "
        f"p({margin.names[1]}) at the first word in which the translations differ; above 0 means "
        f"{margin.names[0]}."
    )
    title = f"{changed[0]} or {changed[1]}? “{words[0]}” decides" if flips else "No word flips"
    with Board(says, (2.1, 1), details, title) as board:
        columns = [f"{words[0]} / {words[1]}" if key == words[0] else key for key in maps[0].keys]
        board.matrix(
            0, f"where “{asker}” looks: {in_words(name)}", rows, positive_scale(),
            ([f"… {word}" for word in words[: len(rows)]], columns), ("", "the words looked at"),
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
        return board.drawing(
            holds=flips and breaks,
            says=says,
            head=name,
            asker=asker,
            weights_on_pronoun=[float(row[maps[0].keys.index(words[0])]) for row in rows],
            margins=all_heads,
            margins_without=fewer,
            translations=[look.target for look in looks],
            without=broken,
        )


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
        self.model, self.texts = pipeline.model, [_source(pipeline, text) for text in texts]
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


# A sentence and its translation.


def walk(pipeline: Pipeline, text: str) -> Drawing:
    """The alignment of a sentence and its translation, in the sharpest layer."""
    look: Look = pipeline.look(text)
    chosen = look.choose("alignment")
    weights = chosen.map.matrix()
    pairs = [
        (word, chosen.map.keys[int(row.argmax())], float(row.max()))
        for word, row in zip(chosen.map.queries, weights, strict=True)
        if word.isalpha()
    ]
    sure = [pair for pair in pairs if pair[2] > 0.5]
    told = ", ".join(f"{word} looks at {key}" for word, key, _ in sure)
    says = (
        f"With a weight above one half: {told}."
        if sure
        else "No German word looks at an English word with a weight above one half."
    )
    details = (
        f"{pipeline.name}: “{text}” → “{look.target}” The layer of cross-attention whose rows are "
        f"sharpest, {chosen.name}: each German word as it is written, and the English words it "
        "looks at. The order is German's; what German says in two words (walk: gehe … spazieren) "
        "is looked at twice."
    )
    with Board(says, (1,), details, look.target) as board:
        board.matrix(
            0, chosen.name, weights, positive_scale(), (chosen.map.queries, chosen.map.keys),
            ("the German word being written", "the English words"), ".2f",
        )  # fmt: skip
        return board.drawing(
            holds=2 * len(sure) > len(pairs),
            says=says,
            translation=look.target,
            pairs=[list(pair) for pair in pairs],
        )
