"""Figures of part 1: words as vectors: one-hot × matrix = row, neighbours and analogies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from regard import vectors
from regard.draw import (
    PURPLE,
    SMALLEST,
    Chart,
    points,
    positive_scale,
    shorten,
    signed_scale,
    text_width,
)
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard.vectors import pca
from regard_lectures.limits import model_line
from regard_lectures.map_labels import map_labels
from regard_lectures.own_words import WORD, input_phrase, word_vectors
from regard_lectures.tries import listed

WORDS = "king queen man woman tower sushi"
SHOWN = 6
"""The number of components of a vector that are drawn."""
ANALOGIES = ("king - man + woman", "hitler + italy - germany", "sushi - japan + germany")
SAID = {ANALOGIES[0]: "queen", ANALOGIES[1]: "mussolini", ANALOGIES[2]: "bratwurst"}
"""The answers on the slides."""
STEPS = (("man", "woman"), ("father", "mother"), ("king", "queen"),
         ("actor", "actress"))  # fmt: skip
ASKED, ANSWERS = 3, 6
"""The most questions of a person's own, and the answers to each."""
COMMON = 100
"""The commonest words, such as “the”, come after the other words of a sentence."""
CLOSE = 0.02
"""The first answer is not told from the second if their cosines differ by less."""
ABOVE = 0.2
"""Two differences have a common direction if their cosine is above chance by this."""


def onehot(text: str | None, word: int, model: str) -> Drawing:
    """Draw that a one-hot vector times the embedding matrix is one row of the matrix."""
    given = word_vectors(WORDS if text is None else text, model=model)
    rows = [number for number, name in enumerate(given.words) if name not in given.words[:number]]
    words, count = [given.labels[row] for row in rows], len(rows)  # a vocabulary has a word once
    if word > count:
        raise InputError("word", got=word, expected=f"1 to {count}")
    matrix = given.vectors[rows, :SHOWN]  # (words, numbers)
    one_hot = F.one_hot(torch.tensor(word - 1), count).float()
    product = one_hot @ matrix
    numbers: Numbers = {
        "words": words,
        "word": word,
        "one_hot": one_hot.tolist(),
        "row": product.tolist(),
        "difference": float((product - matrix[word - 1]).abs().max()),
        "multiplications": matrix.numel(),
        "note": input_phrase(given.total, len(given.words), given.stand_ins),
    }
    details = (
        f"“{words[word - 1]}” is word {word} of {count}: its one-hot vector has a 1 at this "
        f"position and zeros elsewhere. The product with the matrix is row {word} (largest "
        f"difference {numbers['difference']:g}), so an embedding layer reads the row instead of "
        f"multiplying. The vectors are those of {model}; {matrix.shape[1]} of their "
        f"{given.vectors.shape[1]} numbers are shown."
    )
    names = [f"{number}" for number in range(1, matrix.shape[1] + 1)]
    scale = signed_scale(float(matrix.abs().max()))
    of_all = f"{len(names)} of {given.vectors.shape[1]} numbers"
    labels = map_labels(words, 120)
    with Board(words_onehot(numbers), (0.75, 2.1, 1.3), details, limits=model_line(model)) as board:
        board.matrix(0, "one-hot", one_hot[:, None].numpy(), positive_scale(), (labels, [""]),
                     ("words", ""), ".0f")  # fmt: skip
        board.matrix(1, "the matrix", matrix.numpy().round(1) + 0.0, scale, (labels, names),
                     ("words", of_all), ".1f")  # fmt: skip
        board.matrix(2, "their product", product[None].numpy().round(1) + 0.0, scale,
                     ([labels[word - 1]], names), ("", of_all), ".1f")  # fmt: skip
        return board.drawing(**numbers)


def words_onehot(numbers: Mapping[str, Any]) -> Words:
    """Whether the product is the row of the word."""
    word, number = numbers["words"][numbers["word"] - 1], numbers["word"]
    count = numbers["multiplications"]
    if numbers["difference"] < 1e-6:
        title = f"One-hot × matrix is a row of the matrix: “{word}” is row {number}"
        caption = f"Reading row {number} gives the same numbers as these {count} multiplications."
    else:
        title = f"One-hot × matrix is not row {number} of the matrix, that of “{word}”"
        caption = f"They differ by up to {numbers['difference']:g}, in {count} multiplications."
    return Words(title, f"{caption} {numbers['note']}".strip())


# Neighbours and analogies.


def analogies(text: str | None, model: str) -> Drawing:
    """Draw the lectures' examples of word vectors, or the answers to a person's own questions.

    Args:
        text: Words, or sums such as `paris - france + germany = berlin`, with commas between.
        model: Word vectors: a shipped name, a run, or a file.
    """
    table = vectors(model)
    return _draw_lecture(table, model) if text is None else _draw_own(table, text, model)


def read_questions(table: Any, text: str) -> tuple[list[tuple[str, str]], list[str]]:
    """The questions of a text with the answers that it expects, and the words without a vector.

    A question is a word or a sum; words in a row are questions of their own.
    """
    questions: list[tuple[str, str]] = []
    unknown: list[str] = []
    for part in re.split(r"[,;\n]+", text.replace("−", "-")):
        terms, _, expected = part.partition("=")
        if re.search(r"(?:^|\s)[+-]\s", terms):
            questions.append((" ".join(terms.lower().split()), expected.strip().lower()))
            continue
        words = WORD.findall(terms.lower())
        words.sort(key=lambda word: word in table.words[:COMMON])  # rarer words first
        questions += [(word, expected.strip().lower()) for word in words if word in table]
        unknown += [word for word in words if word not in table]
    if not questions:
        table.rows(unknown or [text])  # says what is unknown
    return list(dict.fromkeys(questions)), unknown


def ask(table: Any, question: str, expected: str, top: int) -> Numbers:
    """The answers to a question: the words nearest to a word or a sum."""
    near = table.analogy(question, top) if " " in question else table.nearest(question, top)
    return {
        "question": question.replace("-", "−"),
        "expected": expected,
        "answers": [neighbour.word for neighbour in near],
        "cosines": [neighbour.cosine for neighbour in near],
    }


def words_analogies(numbers: Mapping[str, Any]) -> Words:
    """Which answers are as expected, and how clearly."""
    asked = numbers["asked"]
    expected = [question for question in asked if question["expected"]]
    right = [question for question in expected if question["answers"][0] == question["expected"]]
    wrong = [question for question in expected if question not in right]
    if numbers["of_the_lecture"]:
        title = f"{len(right)} of {len(asked)} analogies come out as on the slides"
    elif expected:
        title = f"{len(right)} of {len(expected)} answers are as expected"
    else:
        shown = [f"{question['question']} → {question['answers'][0]}" for question in asked]
        title = f"Nearest: {shorten_list(shown, 66)}"
    return Words(title, " ".join(filter(None, (_misses(wrong, asked), _also(numbers)))))


def shorten_list(items: Sequence[str], most: int) -> str:
    """Items with semicolons, as many as are no longer than so many letters; at least one.

    Example:
        >>> shorten_list(["one", "two", "three"], 9)
        'one; two'
    """
    count = len(items)
    while count > 1 and len("; ".join(items[:count])) > most:
        count -= 1
    return "; ".join(items[:count])


def _misses(wrong: Sequence[Mapping[str, Any]], asked: Sequence[Mapping[str, Any]]) -> str:
    """A sentence: which answers are others, and which are hardly nearer than the next."""
    close = [
        f"“{question['answers'][0]}” is hardly nearer than “{question['answers'][1]}”"
        for question in asked
        if question["cosines"][0] - question["cosines"][1] < CLOSE
    ]
    other = [f"{question['answers'][0]} instead of {question['expected']}" for question in wrong]
    parts = [f"Hatched: {listed(other)}"] if other else []
    if close:
        parts.append(listed(close))
    if not parts:
        return "Each first answer is clearly nearer than the second."
    return "; ".join(parts) + "."


def _also(numbers: Mapping[str, Any]) -> str:
    """A sentence: the difference of differences of the lecture, or what is left out."""
    if not numbers["of_the_lecture"]:
        return str(numbers["note"])
    cosine, chance = numbers["mother_father"], numbers["by_chance"]
    verdict = "have" if cosine - chance >= ABOVE else "do not have"
    return (
        f"mother − father and woman − man {verdict} a common direction: cosine {cosine:.2f}, "
        f"differences of random words {chance:.2f}."
    ).replace("-0", "−0")


def _draw_own(table: Any, text: str, model: str) -> Drawing:
    questions, unknown = read_questions(table, text)
    asked = [ask(table, question, said, ANSWERS) for question, said in questions[:ASKED]]
    left_out = len(questions) - len(asked)
    notes = [f"Shown: the first {ASKED} of {len(questions)} questions."] if left_out else []
    if unknown:
        few = listed(unknown[:3])
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        notes.append(f"No vector: {few}{more}.")
    numbers = {"of_the_lecture": False, "asked": asked, "note": " ".join(notes)}
    details = (
        f"{_METHOD} The vectors are those of {model} ({len(table):,} words, {table.dim} wide)."
    )
    with Board(words_analogies(numbers), (1,) * len(asked), details,
               limits=model_line(model)) as board:  # fmt: skip
        for panel, question in enumerate(asked):
            heading = question["question"]
            heading = heading if " " in heading else f"nearest to {heading}"
            _draw_bars(board.chart(panel, heading, "cosine", "", ticks=8), question)
        return board.drawing(**numbers)


_METHOD = (
    "Cosines between vectors; a sum is one of vectors of length 1, and the words of a question are "
    "excluded from its answers."
)


def _draw_lecture(table: Any, model: str) -> Drawing:
    tower = ask(table, "tower", "", ANSWERS)
    asked = [ask(table, terms, SAID[terms], 4) for terms in ANALOGIES]
    difference = table.difference("mother", "father", "woman", "man")
    words = list(dict.fromkeys(word for pair in STEPS for word in pair))
    spots, share = pca(table.unit[table.rows(words)])
    numbers = {
        "of_the_lecture": True,
        "asked": asked,
        "tower": tower["answers"],
        "mother_father": difference.cosine,
        "by_chance": difference.by_chance,
        "map": dict(zip(words, spots.tolist(), strict=True)),
        "share_of_variance": float(share),
    }
    details = (
        f"{_METHOD} The vectors are those of {model} ({len(table):,} words, {table.dim} wide). "
        "Chance: the mean absolute cosine of the differences of two random pairs of words. Right: "
        "arrows from the male to the female word, on the first two principal components of these "
        "words."
    )
    with Board(words_analogies(numbers), (0.9, 1.25, 1.2), details,
               limits=model_line(model)) as board:  # fmt: skip
        _draw_bars(board.chart(0, "nearest to tower", "cosine", "", ticks=8), tower)
        for number, question in enumerate(asked):
            part = (number / ASKED, (number + 1) / ASKED)
            axes = board.chart(1, question["question"], "", "", part, ticks=8)
            axes.tick_params(labelbottom=False)
            _draw_bars(axes, question)
        _draw_map(board, numbers)
        return board.drawing(**numbers)


def _draw_map(board: Board, numbers: Numbers) -> None:
    """Draw arrows between words on a plane."""
    spots = numbers["map"]
    axes = board.chart(2, f"map: {numbers['share_of_variance']:.0%} of variance")
    for man, woman in STEPS:
        axes.annotate("", spots[woman], spots[man], arrowprops={"arrowstyle": "->",
                      "color": PURPLE})  # fmt: skip
    corners = np.array([*spots.values()])
    low, high = corners.min(0), corners.max(0)
    (left, bottom), (right, top) = low - 0.3 * (high - low), high + 0.3 * (high - low)
    axes.set(xlim=(left, right), ylim=(bottom, top))
    boxes: list[tuple[float, float, float, float]] = []
    for man, woman in STEPS:
        away = np.subtract(spots[woman], spots[man])  # labels stand beyond the ends of the arrow
        _write_beside(axes, woman, spots[woman], away, boxes)
        _write_beside(axes, man, spots[man], -away, boxes)


def _write_beside(
    axes: Chart,
    word: str,
    spot: Sequence[float],
    away: npt.NDArray[Any],
    boxes: list[tuple[float, float, float, float]],
) -> None:
    """Write a word beside its point, in a direction if it is not over one of the boxes there.

    Args:
        axes: The axes.
        word: The word.
        spot: Its point.
        away: The direction, (2,).
        boxes: Left, low, right and high of the words that are written; that of this one is added.
    """
    scale = points(1) * axes.figure.dpi / 72  # screen pixels of a pixel of the sheet
    x, y = axes.transData.transform(tuple(spot)) / scale
    width, height = text_width(word, SMALLEST), 1.15 * SMALLEST
    sides = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1), (1, -1), (-1, 1)]
    sides.sort(key=lambda side: -float(np.dot(side, away)) / float(np.hypot(*side)))
    for right, up in sides:
        left, low = x + right * (width / 2 + 8) - width / 2, y + up * (height / 2 + 5) - height / 2
        box = (left, low, left + width, low + height)
        if not any(box[0] < other[2] and other[0] < box[2] and box[1] < other[3]
                   and other[1] < box[3] for other in boxes):  # fmt: skip
            break
    boxes.append(box)
    centre = axes.transData.inverted().transform(
        (scale * (left + width / 2), scale * (low + height / 2))
    )
    axes.write(tuple(centre), word, ha="center", va="center")


def _draw_bars(axes: Chart, question: Mapping[str, Any]) -> None:
    """Draw words with their cosines, nearest on top; hatched if another answer was expected."""
    words, cosines = question["answers"], question["cosines"]
    is_wrong = bool(question["expected"]) and words[0] != question["expected"]
    axes.barh(
        range(len(words)), cosines, height=0.84, edgecolor="white",
        color="#f6c9a8" if is_wrong else "#b9d7ee", hatch="//" if is_wrong else "",
    )  # fmt: skip
    axes.set_yticks([])
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75])
    axes.set_ylim(len(words) - 0.4, -0.6)
    for index, (word, cosine) in enumerate(zip(words, cosines, strict=True)):
        label = f"{shorten(word, 220, SMALLEST)} {cosine:.2f}".replace("-0", "−0")
        axes.write((0.02, index), label, va="center")
