"""Scenes of the gallery that a writer shows: the next words of a text, with their probabilities.

Each function takes a model that suggests words and a text, and returns a `Drawing`; what it says is
computed from its numbers in `scene_words.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from regard import Pipeline
from regard.draw import BLUE, MUTED, ORANGE, SMALLEST, points, shorten
from regard.errors import InputError
from regard.explain import Board, Drawing
from regard.tasks import Suggestion
from regard_lectures.figures.scene_words import verdict_numbers, words_gallery
from regard_lectures.limits import model_line

EXPECTED = {"Once": ["upon", "a", "time"], "Hello, how are": "you"}
"""The lectures' words after their beginnings."""
STEPS = 3
"""The words that are chosen one after the other."""
BEGINNINGS = (
    "The {} said that", "The {} was tired because", "The {} thought that", "The {} smiled when",
    "The {} came home before",
)  # fmt: skip
"""Beginnings of sentences after which “he” and “she” are compared."""
SUGGESTED = 60
"""The likeliest words, among which “he” and “she” are looked up."""


def once(pipeline: Pipeline, text: str) -> Drawing:
    """Three words one after the other, each the likeliest after those before."""
    read, steps = text, list[tuple[str, list[Suggestion]]]()
    for _ in range(STEPS):
        guesses = pipeline.suggest(read, 5)
        steps.append((read, guesses))
        read = f"{read} {guesses[0].word}"
    numbers = {
        "scene": "once",
        "text": text,
        "expected": EXPECTED.get(text),
        "words": [guesses[0].word for _, guesses in steps],
        "suggestions": [_plain(guesses) for _, guesses in steps],
    }
    details = (
        f"{pipeline.name} reads the text so far and gives every word a probability; shown are the "
        "likeliest five. The likeliest is appended to the text, and the whole is read again."
    )
    words, line = words_gallery(numbers), model_line(pipeline)
    with Board(words, (1, 1, 1), details, limits=line) as board:
        for number, (so_far, guesses) in enumerate(steps):
            _bars(board, number, f"“{so_far}” …", guesses)
        return board.drawing(**verdict_numbers(numbers))


def hello(pipeline: Pipeline, text: str) -> Drawing:
    """The three likeliest next words, as a phone suggests them."""
    guesses = pipeline.suggest(text, 8)
    numbers = {
        "scene": "hello",
        "text": text,
        "expected": EXPECTED.get(text),
        "suggestions": _plain(guesses),
    }
    details = (
        f"{pipeline.name} gives every word of its vocabulary a probability; a phone shows three. "
        "Shown are eight."
    )
    words, line = words_gallery(numbers), model_line(pipeline)
    with Board(words, (1,), details, limits=line) as board:
        _bars(board, 0, "the likeliest next words; a phone shows three", guesses, 3)
        return board.drawing(**verdict_numbers(numbers))


def nurse(pipeline: Pipeline, text: str) -> Drawing:
    """“he” or “she” after two beginnings that differ in a noun, and after others with the nouns."""
    texts, nouns = _two_nouns(text)
    shown = [_he_and_she(pipeline, beginning) for beginning in texts]
    odds = [
        [_log_odds(pipeline, beginning.format(noun)) for beginning in BEGINNINGS] for noun in nouns
    ]
    numbers = {
        "scene": "nurse",
        "texts": texts,
        "nouns": nouns,
        "shown": [list(pair) for pair in shown],
        "beginnings": list(BEGINNINGS),
        "log_odds": odds,
    }
    details = (
        f"{pipeline.name} gives every word a probability; a word that is not among the likeliest "
        f"{SUGGESTED} counts as the least likely of them. Right: log p(she) − log p(he), above 0 "
        "if “she” is likelier."
    )
    words, line = words_gallery(numbers), model_line(pipeline)
    with Board(words, (1, 1.6), details, limits=line) as board:
        styles = dict(zip(nouns, (BLUE, ORANGE), strict=True))
        axes = board.chart(
            0, f"after “{texts[0]}” and after “{texts[1]}”", "probability, %", "", ticks=60
        )
        for shift, (noun, colour), pair in zip((-0.2, 0.2), styles.items(), shown, strict=True):
            for row, share in enumerate(pair):
                axes.barh(row + shift, 100 * share, 0.36, color=colour)
                axes.write((100 * share + 1, row + shift), f"{100 * share:.0f} {noun}", va="center")
        axes.set_yticks(range(2), ["he", "she"])
        axes.set(ylim=(1.6, -0.6), xlim=(0, 190 * max(max(pair) for pair in shown)))
        axes.grid(visible=False, axis="y")
        axes = board.chart(1, "log p(she) − log p(he)", "", "", ticks=330)
        for shift, colour, values in zip((-0.2, 0.2), styles.values(), odds, strict=True):
            rows = [row + shift for row in range(len(values))]
            axes.barh(rows, values, 0.36, color=colour)
        axes.axvline(0, color=MUTED, linewidth=1)
        axes.set_yticks(range(len(BEGINNINGS)), [b.replace("{}", "…") for b in BEGINNINGS])
        axes.set(ylim=(len(BEGINNINGS) - 0.4, -0.6))
        axes.grid(visible=False, axis="y")
        return board.drawing(**verdict_numbers(numbers))


def _two_nouns(text: str) -> tuple[list[str], list[str]]:
    """Two beginnings of sentences, and the word in which they differ.

    Raises:
        InputError: Unless they differ in exactly one word.
    """
    texts = [part.strip() for part in text.split("/")]
    words = [re.findall(r"\w+", part) for part in texts]
    differing = [pair for pair in zip(*words, strict=False) if len(set(pair)) == 2]
    if len(texts) != 2 or len(words[0]) != len(words[1]) or len(differing) != 1:
        raise InputError(
            "gallery: nurse", got=repr(text),
            expected="two beginnings that differ in one word, with a slash between them",
            fix="such as: The doctor said that / The nurse said that",
        )  # fmt: skip
    return texts, list(differing[0])


def _he_and_she(pipeline: Pipeline, text: str) -> tuple[float, float]:
    """The probabilities of “he” and of “she” as the next word."""
    guesses = pipeline.suggest(text, SUGGESTED)
    least = guesses[-1].probability
    probabilities = {guess.word: guess.probability for guess in guesses}
    return probabilities.get("he", least), probabilities.get("she", least)


def _log_odds(pipeline: Pipeline, text: str) -> float:
    he, she = _he_and_she(pipeline, text)
    return math.log(she / he)


def _plain(guesses: Sequence[Suggestion]) -> list[list[str | float]]:
    return [[guess.word, guess.probability] for guess in guesses]


def _bars(
    board: Board, number: int, heading: str, guesses: Sequence[Suggestion], bold: int = 1
) -> None:
    """Bars of probabilities, the likeliest on top; the first `bold` ones stand out."""
    width = board.panel_box(number)[2]
    axes = board.chart(number, heading, "probability, %", "", ticks=min(150, 0.34 * width))
    shares = [100 * guess.probability for guess in guesses]
    colours = [ORANGE if index < bold else BLUE for index in range(len(guesses))]
    axes.barh(range(len(guesses)), shares, 0.62, color=colours)
    for index, share in enumerate(shares):
        axes.write((share + 1.5, index), f"{share:.0f}" if share >= 1 else "<1", va="center")
    names = [shorten(guess.word, 0.32 * width, SMALLEST) for guess in guesses]
    axes.set_yticks(range(len(guesses)), names)
    axes.set(ylim=(len(guesses) - 0.5, -0.5), xlim=(0, 115))
    axes.set_xticks([0, 50, 100])
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0, labelsize=points(SMALLEST + 2))
    axes.spines["left"].set_color(MUTED)
