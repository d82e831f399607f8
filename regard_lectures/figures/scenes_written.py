"""Scenes of the gallery that a writer shows: the next words of a text, with their probabilities.

Each function takes a model that suggests words and a text, and returns a `Drawing` whose numbers
have `holds` (whether the words are those of the lectures) and `says` (what the picture shows, in a
sentence).
"""

from __future__ import annotations

from collections.abc import Sequence

from regard import Pipeline
from regard.draw import BLUE, MUTED, ORANGE, SMALLEST, points, shorten
from regard.explain import Board, Drawing
from regard.tasks import Suggestion

STORY = ("upon", "a", "time")
"""The lectures' words after “Once”."""
GREETING = "you"
"""The lectures' word after “Hello, how are”."""


def once(pipeline: Pipeline, text: str) -> Drawing:
    """Three words one after the other, each the likeliest after those before."""
    read, steps = text, list[tuple[str, list[Suggestion]]]()
    for _ in STORY:
        guesses = pipeline.suggest(read, 5)
        steps.append((read, guesses))
        read = f"{read} {guesses[0].word}"
    words = [guesses[0].word for _, guesses in steps]
    chances = ", ".join(f"“{guesses[0].word}” {guesses[0].probability:.0%}" for _, guesses in steps)
    holds = tuple(words) == STORY
    says = f"After “{text}” come {chances}: each word is read back in before the next is chosen."
    details = (
        f"{pipeline.name} reads the text so far and gives every word a probability; shown are the "
        "likeliest five. The likeliest is appended to the text, and the whole is read again."
    )
    with Board(says, (1, 1, 1), details, f"“{read}”: one word at a time") as board:
        for number, (so_far, guesses) in enumerate(steps):
            _bars(board, number, f"“{so_far}” …", guesses)
        return board.drawing(
            holds=holds,
            says=says,
            words=words,
            suggestions=[_plain(guesses) for _, guesses in steps],
        )


def hello(pipeline: Pipeline, text: str) -> Drawing:
    """The three likeliest next words, as a phone suggests them."""
    guesses = pipeline.suggest(text, 8)
    three = ", ".join(f"“{guess.word}” {guess.probability:.0%}" for guess in guesses[:3])
    says = f"After “{text}” the three likeliest words are {three}."
    details = (
        f"{pipeline.name} gives every word of its vocabulary a probability; a phone shows three. "
        "Shown are eight."
    )
    with Board(says, (1,), details, f"“{text} …”: three words, as on a phone") as board:
        _bars(
            board, 0, "the likeliest next words, the first three as a phone shows them", guesses, 3
        )
        return board.drawing(
            holds=guesses[0].word == GREETING, says=says, suggestions=_plain(guesses)
        )


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
