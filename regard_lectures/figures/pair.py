"""Figure of part 4: the same words in two sentences, and whether their scores are the same.

“I walk my dog” stands at the beginning of one sentence and at the end of another. Input: two
sentences, or one whose second half is moved to the front. The scores q·k / √d_k of the words that
they share, in the first attention layer, are compared for several schemes of positions: absolute
ones are added to the words' vectors, so the scores depend on where the words stand; relative and
rotary ones depend on their distance alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import load
from regard.draw import BLUE, SMALLEST, Chart, positive_scale, scientific, shorten
from regard.errors import InputError
from regard.explain import Board, Drawing, Words
from regard.inputs import Ragged
from regard.layers import Tap
from regard.models import evaluating
from regard_lectures.figures.order import new_transformer
from regard_lectures.tries import listed

TEXT = "I walk my dog every day / every single day I walk my dog"
SCHEMES = ("sinusoidal", "learned", "buckets", "rotary")
SITE = "encoder.0.self.scores"
MOST = 4
"""The most shared words that are drawn."""
SAME = 1e-4
"""Scores that differ by less are the same but for rounding."""
LONGEST_TITLE = 30
"""The most characters of the shared words in the title."""


@dataclass(frozen=True)
class Shared:
    """Two sentences and the longest run of words that both have."""

    sentences: tuple[list[str], list[str]]
    starts: tuple[int, int]
    """The index of its first word in either sentence."""
    count: int
    """The number of shared words that are drawn."""
    run: int
    """The number of words that they share in a row."""

    @property
    def words(self) -> list[str]:
        """The shared words, as in the first sentence."""
        return self.sentences[0][self.starts[0] : self.starts[0] + self.count]


def folded(word: str) -> str:
    """A word without capitals and punctuation: new encoders read `Dog.` as `dog`."""
    return word.casefold().strip(".,;:!?\"'“”„()") or word


def shared_words(text: str, *, exact: bool = False) -> Shared:
    """Read two sentences with a slash between them, and find what they share.

    Of a single sentence the second half is moved to the front: that is the second sentence.

    Args:
        text: A sentence, or two with a slash between them.
        exact: Whether `The` and `the`, and `dog` and `dog.`, are different words, as for a model.

    Example:
        >>> shared_words(TEXT).words, shared_words(TEXT).starts
        (['I', 'walk', 'my', 'dog'], (0, 3))
        >>> shared_words("The old dog sleeps today.").sentences[1]
        ['sleeps', 'today.', 'The', 'old', 'dog']

    Raises:
        InputError: If the sentences share fewer than two words in a row, or one is too short.
    """
    first, slash, second = (part.strip() for part in text.partition("/"))
    words = first.split(), second.split()
    if not slash:
        half = (len(words[0]) + 1) // 2
        words = words[0], [*words[0][half:], *words[0][:half]]
    sides = [[word if exact else folded(word) for word in side] for side in words]
    match = SequenceMatcher(None, sides[0], sides[1], autojunk=False).find_longest_match()
    if match.size < 2 or words[0] == words[1]:
        raise InputError(
            "--text", got=repr(text),
            expected="three words or more, or two sentences that share two words in a row",
            fix=f"write a slash between two sentences, as in '{TEXT}'",
        )  # fmt: skip
    return Shared(words, (match.a, match.b), min(match.size, MOST), match.size)


def pair(text: str | None, model: str, head: int, seed: int) -> Drawing:
    """Draw the scores of the shared words in both sentences, scheme by scheme.

    Args:
        text: A sentence, or two with a slash between them.
        model: A model with an encoder, which is compared in place of the absolute schemes.
        head: The head whose scores are drawn.
        seed: The seed of the new models.
    """
    shared = shared_words(TEXT if text is None else text, exact=bool(model))
    schemes = SCHEMES[2:] if model else SCHEMES
    scores = {scheme: fresh_scores(shared, scheme, seed) for scheme in schemes}
    words, remarks = shared.words, list[str]()
    if model:
        table, same, remarks = model_scores(shared, model)
        words = [words[index] for index in same]
        scores = {name: table[:, :, same][..., same] for name, table in scores.items()}
        scores = {model: table, **scores}
    heads = min(table.shape[1] for table in scores.values())
    if head >= heads:
        raise InputError("head", got=head, expected=f"0 to {heads - 1}")
    numbers: dict[str, Any] = {
        "sentences": [" ".join(sentence) for sentence in shared.sentences],
        "words": words, "starts": list(shared.starts), "run": shared.run, "head": head,
        "names": list(scores), "remarks": remarks, "model": model,
        **{f"scores_{name}": table[:, head].tolist() for name, table in scores.items()},
        **{f"largest_difference_{name}": float((table[0] - table[1]).abs().max())
           for name, table in scores.items()},
    }  # fmt: skip
    details = (
        "Upper number: the score q·k / √d_k of query and key in the first sentence; lower: in the "
        f"second; colour: by how much they differ. First attention layer, head {head}, before the "
        "softmax. Right: the largest difference of any head. Sinusoidal and learned positions are "
        "added to the words' vectors: absolute. Buckets (T5) add a number for the distance to the "
        "score; rotary positions rotate q and k, so that q·k depends only on the distance. Scores "
        f"below {SAME:g} apart are the same but for rounding."
    )
    limits = f"New, untrained encoders of width 64 with {heads} heads, seed {seed}."
    if model:
        limits = f"{model} as it was trained; rotary and buckets: untrained, seed {seed}."
    with Board(words_pair(numbers), (1, 1, 0.72), details, limits=limits) as board:
        board.lines(numbers["sentences"])
        for panel, name in enumerate((next(iter(scores)), "rotary")):
            _draw_scores(board, panel, name, scores[name][:, head], words)
        _draw_differences(board, numbers)
        return board.drawing(**numbers)


def words_pair(numbers: Mapping[str, Any]) -> Words:
    """With which positions the scores among the shared words stay, and where they change most."""
    apart = {name: numbers[f"largest_difference_{name}"] for name in numbers["names"]}
    same = [name for name, difference in apart.items() if difference < SAME]
    changed = [name for name in apart if name not in same]
    said, words = " ".join(numbers["words"]), numbers["words"]
    subject = f"“{said}”" if len(said) <= LONGEST_TITLE else "The same words"
    title = (
        f"{subject} in another place: scores {_named('stay', same)}"
        f"{', ' if same and changed else ''}{_named('change', changed)}"
    )
    first = numbers["names"][0]
    table = np.array(numbers[f"scores_{first}"])  # (2, query, key)
    difference = np.abs(table[0] - table[1])
    query, key = np.unravel_index(int(difference.argmax()), difference.shape)
    before, after = (f"{score + 0.0:.2f}".replace("-", "−") for score in table[:, query, key])
    moved = f"{words[query]} → {words[key]} from {before} to {after}"
    caption = (
        f"In each cell the score in the first sentence, below it in the second; darker: further "
        f"apart. With {first}, head {numbers['head']} changes most for {moved}."
        if difference.max() >= SAME
        else f"In each cell the score in the first sentence, below it in the second: head "
        f"{numbers['head']} with {first} has the same scores in both."
    )
    if numbers["run"] > MOST:
        caption += f" Drawn: the first {MOST} of {numbers['run']} shared words."
    caption += "".join(f" {remark}" for remark in numbers["remarks"])
    return Words(title, caption)


def _named(verb: str, names: Sequence[str]) -> str:
    """A phrase about some schemes and models.

    Example:
        >>> _named("stay", ["buckets", "rotary"]), _named("change", ["small/translate"])
        ('stay with buckets and rotary', 'change in small/translate')
    """
    if not names:
        return ""
    schemes, models = (
        [name for name in names if (name in SCHEMES) == known] for known in (True, False)
    )
    parts = [f"with {listed(schemes)}"] * bool(schemes)
    return f"{verb} {' and '.join([*parts, *(f'in {model}' for model in models)])}"


def fresh_scores(shared: Shared, scheme: str, seed: int) -> Tensor:
    """The scores of a new encoder: (2 sentences, heads, shared query, shared key)."""
    torch.manual_seed(seed)
    vocabulary: dict[str, int] = {}
    rows = [
        [vocabulary.setdefault(folded(word), len(vocabulary)) for word in sentence]
        for sentence in shared.sentences
    ]
    length = max(16, *map(len, rows))
    model = new_transformer(len(vocabulary), scheme, hidden=64, layers=1, length=length)
    positions = [range(start, start + shared.count) for start in shared.starts]
    return _scores(model, rows, positions)


def model_scores(shared: Shared, name: str) -> tuple[Tensor, list[int], list[str]]:
    """The scores of a model's first encoder layer, where a word is its first token.

    Returns:
        The scores, as those of `fresh_scores`, of the shared words that begin with the same token
        in both sentences; the indices of these words; and remarks on the others, and on words that
        the model does not know.

    Raises:
        InputError: If the model has no encoder that attends.
    """
    pipeline = load(name, device="cpu")
    if SITE not in pipeline.model.sites():
        raise InputError("model", got=name, expected="a model with self-attention in its encoder")
    tokenizer, rows, positions = pipeline.vocabulary.source, [], []
    unknown: dict[str, None] = {}
    for sentence, start in zip(shared.sentences, shared.starts, strict=True):
        text = " ".join(sentence)
        unknown |= dict.fromkeys(tokenizer.unknown_words(text))
        ids = tokenizer.template(tokenizer.encode(text))
        first = len(ids) - len(tokenizer.encode(text))  # symbols before and after the text
        before = [len(tokenizer.encode(" ".join(sentence[:n]))) for n in range(len(sentence) + 1)]
        lead = tokenizer.template([]).index(tokenizer.end) if first > 1 else 0
        rows.append(ids)
        positions.append([lead + before[start + n] for n in range(shared.count)])
    first_tokens = [[row[at] for at in where] for row, where in zip(rows, positions, strict=True)]
    same = [index for index, (a, b) in enumerate(zip(*first_tokens, strict=True)) if a == b]
    if len(same) < 2:
        got = f"{len(same)} shared word{'s' * (len(same) != 1)} with the same token in both"
        raise InputError(f"--text in {name}", got=got, expected="two or more")
    other = [word for index, word in enumerate(shared.words) if index not in same]
    remarks = [f"Unknown to {name}: {', '.join(unknown)}."] if unknown else []
    remarks += [f"Left out, another token there: {', '.join(other)}."] if other else []
    table = _scores(pipeline.model, rows, [[where[index] for index in same] for where in positions])
    return table, same, remarks


def _scores(model: Any, rows: list[list[int]], positions: Sequence[Sequence[int]]) -> Tensor:
    """Scores of the first layer at some positions of each row: (rows, heads, query, key)."""
    tap = Tap(SITE)
    with evaluating(model):
        model.hidden(Ragged.of(rows), tap)
    table = tap.records[SITE]  # (rows, heads, query, key)
    return torch.stack(
        [table[row][:, list(at)][:, :, list(at)] for row, at in enumerate(positions)]
    )


def _draw_scores(board: Board, panel: int, name: str, table: Tensor, words: list[str]) -> None:
    """Draw the two scores of each pair of words; table is (2, query, key)."""
    difference = (table[0] - table[1]).abs()
    scale = positive_scale(max(0.5, float(difference.max())))
    short = [shorten(word, 70, SMALLEST) for word in words]
    axes: Chart = board.matrix(panel, name, difference, scale, (short, short), ("query", "key"))
    for (row, column), value in _cells(difference):
        both = (round(float(scores[row, column]), 2) + 0.0 for scores in table)  # + 0.0: no −0.00
        said = "\n".join(f"{score:.2f}".replace("-", "−") for score in both)
        axes.write((column + 0.5, row + 0.5), said, ha="center", va="center",
                   color=scale.ink(value), linespacing=1.05)  # fmt: skip


def _draw_differences(board: Board, numbers: Mapping[str, Any]) -> None:
    """Draw the largest difference of each scheme or model as a bar."""
    names = numbers["names"]
    apart = [numbers[f"largest_difference_{name}"] for name in names]
    axes = board.chart(2, "largest difference", ticks=10)
    axes.barh(range(len(names)), apart, color=BLUE, height=0.4)
    axes.set_yticks([])
    axes.set_xticks([])
    axes.set_ylim(len(names) - 0.5, -0.7)
    axes.set_xlim(0, max(*apart, SAME) * 1.3)
    axes.grid(visible=False)
    for index, (name, difference) in enumerate(zip(names, apart, strict=True)):
        said = f"{difference:.2f}" if difference > 0.005 else scientific(float(f"{difference:.1e}"))
        width = axes.get_window_extent().width
        axes.write((0, index - 0.24), shorten(f" {name}: {said}", width, SMALLEST), va="bottom")


def _cells(table: Tensor) -> list[tuple[tuple[int, int], float]]:
    rows, columns = table.shape
    return [((r, c), float(table[r, c])) for r in range(rows) for c in range(columns)]
