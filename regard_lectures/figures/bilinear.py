"""Figure of part 3: a similarity that is learned, q W_q W_kᵀ kᵀ, beside the dot product q kᵀ.

The question that is learned: does this key, an adjective, matter to this query, its noun? The words
are word vectors; which adjectives go with which nouns is labelled in `adjectives.txt`. W_q and W_k
of one attention head are trained on some of the words and measured on others. A right pair, noun
and adjective, is compared with three wrong ones: the noun with an adjective that does not go with
it, the noun with another noun of its group, and the pair turned round.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard import vectors
from regard.draw import LINE_STYLES, MUTED, positive_scale
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard.layers import Attention, DotScore
from regard.train import Adam
from regard_lectures.figures.descent import descend
from regard_lectures.map_labels import map_labels
from regard_lectures.own_words import FEWEST, VECTORS, word_vectors
from regard_lectures.tries import trainings

LABELS = Path(__file__).parents[1] / "adjectives.txt"
TEXT = "steep hill blue jacket royal palace"
MOST_WORDS = 6
"""The most words of a text in the picture."""
HELD_OUT = 0.2
"""The share of the words that is left out of training."""
RATE, PENALTY = 0.001, 0.01
FORMS = {"plain": "dot product", "shared": "W_q = W_k", "learned": "W_q, W_k"}
"""The three forms, and their names in the picture."""
WRONG = {
    "adjective": "another adjective",
    "noun": "a noun of its group",
    "turned": "itself turned round",
}
"""What a right pair is compared with, in the picture."""


@dataclass(frozen=True)
class Group:
    """Adjectives and nouns of which every adjective goes with every noun."""

    adjectives: tuple[str, ...]
    nouns: tuple[str, ...]


@dataclass(frozen=True)
class Labelled:
    """Words, their vectors, and which of them go together.

    Attributes:
        x: (word, dim) Vectors of length 1.
        right: (query, key) True for a noun and an adjective that go together.
        same: (query, key) True for two different nouns of one group.
        is_adjective: (word,)
    """

    x: Tensor
    right: Tensor
    same: Tensor
    is_adjective: Tensor


@cache
def groups() -> tuple[Group, ...]:
    """The labelled words."""
    lines = LABELS.read_text(encoding="utf-8").splitlines()
    sides = (line.split(":") for line in lines if not line.startswith("#"))
    return tuple(Group(tuple(first.split()), tuple(second.split())) for first, second in sides)


def labelled(words: Iterable[str]) -> Labelled:
    """The labels of some of the words of the file."""
    chosen, table = sorted(set(words)), vectors(VECTORS)
    number = {word: index for index, word in enumerate(chosen)}
    right, same = (torch.zeros(len(chosen), len(chosen), dtype=torch.bool) for _ in range(2))
    is_adjective = torch.zeros(len(chosen), dtype=torch.bool)
    for group in groups():
        nouns = [number[word] for word in group.nouns if word in number]
        adjectives = [number[word] for word in group.adjectives if word in number]
        is_adjective[adjectives] = True
        for noun in nouns:
            right[noun, adjectives] = True
            same[noun, nouns] = True
    same.fill_diagonal_(0)
    x = torch.from_numpy(np.stack([table[word] for word in chosen])).float()
    return Labelled(F.normalize(x, dim=-1), right, same, is_adjective)


def split_words(left_out: Iterable[str], seed: int) -> tuple[list[str], list[str]]:
    """The words to train on, and those to measure on; words of the user's text are in neither."""
    every = {word for group in groups() for word in (*group.adjectives, *group.nouns)}
    words = sorted(every - set(left_out))
    random.Random(seed).shuffle(words)
    border = int(HELD_OUT * len(words))
    return words[border:], words[:border]


class Form:
    """A bilinear form x W_q W_kᵀ xᵀ / √d, learned by one attention head.

    Args:
        dim: The width of a word vector.
        shared: Whether W_k is W_q.
    """

    def __init__(self, dim: int, *, shared: bool) -> None:
        self.head = Attention(dim, heads=1, bias=False)
        self.shared = shared

    def scores(self, x: Tensor) -> Tensor:
        """Words (word, dim) -> scores (query, key)."""
        x = x * x.shape[-1] ** 0.5  # components of about 1
        q = self.head.query(x)
        k = q if self.shared else self.head.key_value(x).chunk(2, dim=-1)[0]
        return self.head.score.scores(q, k)


def train(form: Form, words: Labelled, steps: int) -> list[float]:
    """Train W_q and W_k on all pairs of words; right and wrong pairs weigh the same.

    Large weights are penalized: with 100 × 100 numbers in each matrix and few words, a form
    would learn its words by heart.
    """
    weights = [form.head.query.weight]
    weights += [] if form.shared else [form.head.key_value.weight]
    optimizer, losses = Adam(weights, lr=RATE), list[float]()
    for _ in range(steps):
        scores = form.scores(words.x)
        right, wrong = scores[words.right], scores[~words.right]
        loss = F.softplus(-right).mean() + F.softplus(wrong).mean()  # -log σ(s), -log(1 - σ(s))
        size = sum((weight.square().sum() for weight in weights), torch.zeros(()))
        losses.append(descend(optimizer, loss + PENALTY * size))
    return losses


def judged(scores: Tensor, words: Labelled) -> dict[str, float]:
    """How often a right pair scores higher than a wrong one, in percent; a tie counts half.

    Args:
        scores: (query, key)
        words: The labels of these words.
    """
    wrong_adjective = words.is_adjective[None] & ~words.is_adjective[:, None] & ~words.right
    shares: dict[str, list[Tensor]] = {kind: [] for kind in WRONG}
    for noun, adjective in words.right.nonzero().tolist():
        score = scores[noun, adjective]
        others = {
            "adjective": scores[noun, wrong_adjective[noun]],
            "noun": scores[noun, words.same[noun]],
            "turned": scores[adjective, noun][None],
        }
        for kind, other in others.items():
            shares[kind].append(_above(score, other))
    return {kind: 100 * float(torch.cat(parts).mean()) for kind, parts in shares.items()}


def _above(score: Tensor, others: Tensor) -> Tensor:
    """1 where the score is above the other, 0 where it is below, ½ where they are equal."""
    gap = score - others
    return torch.where(gap.abs() < 1e-5, 0.5, (gap > 0).float())


@dataclass(frozen=True)
class Trained:
    """What one seed measures, and the scores of the user's words."""

    shares: dict[str, dict[str, float]]
    """For each form, what `judged` says of the held-out words."""
    own_words: dict[str, Tensor]
    """For each form, the scores (query, key) of the user's words."""
    counts: tuple[int, int]
    """Words trained on, and held-out words."""


def measure_seed(own_words: Tensor, left_out: Iterable[str], steps: int, seed: int) -> Trained:
    """Train the forms on some words, and judge them on others.

    Args:
        own_words: (word, dim) Vectors of length 1 of the user's words.
        left_out: The user's words, which are not trained on.
        steps: Training steps.
        seed: The seed of the split and of the first weights.
    """
    sides = split_words(left_out, seed)
    seen, unseen = map(labelled, sides)
    torch.manual_seed(seed)
    plain = DotScore(1.0)
    shares = {"plain": judged(plain.scores(unseen.x, unseen.x), unseen)}
    scores = {"plain": plain.scores(own_words, own_words)}
    for name in ("shared", "learned"):
        form = Form(own_words.shape[1], shared=name == "shared")
        train(form, seen, steps)
        with torch.no_grad():
            shares[name] = judged(form.scores(unseen.x), unseen)
            scores[name] = form.scores(own_words)
    return Trained(shares, scores, (len(sides[0]), len(sides[1])))


@dataclass(frozen=True)
class KnownWords:
    """The first words of a text that have a vector, their vectors, and what is left out."""

    words: tuple[str, ...]
    vectors: Tensor
    remark: str


def _known_words(text: str) -> KnownWords:
    """The words of a text with a vector; a stand-in would get scores that say nothing.

    Raises:
        InputError: If fewer than two words have one.
    """
    given = word_vectors(text, most=len(text))
    known = [index for index, has in enumerate(given.has_vector) if has]
    if len(known) < FEWEST:
        got = f"no vector for {', '.join(given.stand_ins)}"
        fix = f"such as '{TEXT}'"
        raise InputError("--text", got=got, expected=f"{FEWEST} words of words/glove", fix=fix)
    first, remark = known[:MOST_WORDS], ""
    if len(known) > MOST_WORDS:
        remark = f"Shown: the first {MOST_WORDS} of {len(known)} words with a vector."
    if given.stand_ins:
        remark += f" Without a vector: {', '.join(given.stand_ins)}."
    words = tuple(given.words[index] for index in first)
    return KnownWords(words, given.vectors[first], remark.strip())


def bilinear(text: str | None, steps: int, tries: int, seed: int) -> Drawing:
    """Draw the scores of words by the dot product and by a learned form, and how both do."""
    given = _known_words(TEXT if text is None else text)
    own_words = F.normalize(given.vectors, dim=-1)
    seeds = range(seed, seed + tries)
    runs = [measure_seed(own_words, given.words, steps, one_seed) for one_seed in seeds]
    probabilities = torch.stack([run.own_words["learned"].sigmoid() for run in runs]).mean(0)
    numbers: Numbers = {
        "words": list(given.words),
        **{
            f"{form}_{kind}": [run.shares[form][kind] for run in runs]
            for form in FORMS
            for kind in WRONG
        },
        "scores_plain": runs[0].own_words["plain"].tolist(),
        "probabilities_learned": probabilities.tolist(),
        "remark": given.remark,
    }
    trained, held_out = runs[0].counts
    details = (
        f"Trained: {trained} words of a hand-made list of adjectives and nouns, {steps} steps of "
        f"Adam; measured: {held_out} other words, anew for each seed; the words shown are in "
        "neither. An adjective matters to a noun of its group, no other word matters. With W_q = "
        "W_k the form stays symmetric and cannot tell a pair from the pair turned round. Vectors "
        "have length 1, so that a word's dot product with itself is 1; σ of a learned score, the "
        "probability that the key matters, is a mean over the seeds. Dots: means; lines: from the "
        "least to the largest seed."
    )
    limits = (
        f"Vectors: words/glove. W_q, W_k: {trained} labelled words, {steps} steps, "
        f"{trainings(tries)}."
    )
    with Board(words_bilinear(numbers), (1, 1, 0.72), details, limits=limits) as board:
        headings = "dot product: x xᵀ", "learned: σ(x W_q W_kᵀ xᵀ)"
        labels, scale = (map_labels(given.words, 100),) * 2, positive_scale()
        for panel, table in enumerate((runs[0].own_words["plain"], probabilities)):
            shown = table.round(decimals=1) + 0.0  # no -0.0
            board.matrix(panel, headings[panel], shown, scale, labels, ("query", "key"), ".1f")
        _draw_shares(board, numbers)
        return board.drawing(**numbers)


def _draw_shares(board: Board, numbers: Numbers) -> None:
    """Draw, for each kind of wrong pair, how often the right one scores higher."""
    styles = dict(zip(FORMS, (LINE_STYLES[1], LINE_STYLES[2], LINE_STYLES[0]), strict=True))
    axes = board.chart(2, "right pair above, %", ticks=10)
    for row, (kind, name) in enumerate(WRONG.items()):
        axes.write((0, row - 0.34), name, va="bottom")
        for shift, (form, style) in enumerate(styles.items()):
            values, y = numbers[f"{form}_{kind}"], row - 0.22 + 0.2 * shift
            axes.vlines(50, row - 0.3, row + 0.26, color=MUTED, linestyle=":", linewidth=1.4)
            axes.hlines(y, min(values), max(values), color=style.colour, linewidth=3)
            axes.plot([np.mean(values)], [y], style.marker, color=style.colour, markersize=9)
    axes.set(xlim=(0, 104), ylim=(len(WRONG) + 0.9, -0.75))
    axes.set_xticks([0, 50, 100])
    axes.set_yticks([])
    axes.grid(visible=False, axis="y")
    for row, (form, style) in enumerate(styles.items()):
        y = len(WRONG) - 0.2 + 0.4 * row
        axes.plot([8], [y], style.marker, color=style.colour, markersize=9)
        axes.write((15, y), FORMS[form], va="center")


def words_bilinear(numbers: Numbers) -> Words:
    """Whether a learned form is better than the dot product, and against which wrong pairs."""
    means = {
        form: np.mean([numbers[f"{form}_{kind}"] for kind in WRONG], axis=0)
        for form in ("plain", "learned")
    }  # over the kinds of wrong pairs, for each seed
    plain, learned = (f"{means[form].mean():.0f}%" for form in ("plain", "learned"))
    verdict = _verdict(means["plain"], means["learned"])
    if verdict == "worse":
        title = f"A learned form beats the dot product: {learned} of comparisons right, not {plain}"
    elif verdict == "better":
        title = f"The dot product beats a learned form: {plain} of comparisons right, not {learned}"
    else:
        title = f"Dot product {plain}, learned form {learned}: these seeds cannot tell them apart"
    parts: list[str] = []
    for kind, name in WRONG.items():
        first, second = (numbers[f"{form}_{kind}"] for form in ("learned", "plain"))
        said = _verdict(second, first)
        parts.append(f"{name} {np.mean(first):.0f}% ({np.mean(second):.0f}%, {said})")
    caption = (
        f"Right above wrong, learned form (dot product): {', '.join(parts)}. {_highest(numbers)}"
    )
    return Words(title, " ".join(filter(None, (caption.strip(), numbers["remark"]))))


def _verdict(first: Sequence[float], second: Sequence[float]) -> str:
    """Whether the first values are better than the second: all seeds must say so."""
    if min(first) > max(second):
        return "better"
    return "worse" if max(first) < min(second) else "unclear"


def _highest(numbers: Numbers) -> str:
    """Which two words score highest, by the dot product and by the learned form."""
    names = numbers["words"]

    def pair(name: str) -> str:
        table = np.array(numbers[name]).round(5)
        query, key = (int(index) for index in np.unravel_index(table.argmax(), table.shape))
        if (table.diagonal() == table.max()).all():
            return "each word with itself"
        other = "itself" if query == key else f"“{names[key]}”"
        return f"“{names[query]}” with {other}"

    return f"Highest here: {pair('probabilities_learned')}; dot product: {pair('scores_plain')}."
