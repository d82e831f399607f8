"""Figure of part 4: the same words in two sentences, and whether their scores are the same.

“I walk my dog” stands at the beginning of one sentence and at the end of another. Input: two
sentences. The scores q·k / √d_k of the words that they share, in the first attention layer, are
compared for several schemes of positions: absolute ones are added to the words' vectors, so the
scores depend on where the words stand; relative and rotary ones depend on their distance alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import torch
from torch import Tensor

from regard import load
from regard.draw import SMALLEST, Chart, positive_scale, shorten, text_width
from regard.errors import InputError
from regard.explain import Board, Drawing
from regard.inputs import Ragged
from regard.layers import Tap
from regard.models import evaluating
from regard_lectures.figures.positions import new_transformer

TEXT = "I walk my dog every day / every single day I walk my dog"
SCHEMES = ("sinusoidal", "learned", "buckets", "rotary")
SITE = "encoder.0.self.scores"
MOST = 6
"""The most shared words that are drawn."""


@dataclass(frozen=True)
class Shared:
    """Two sentences and the longest run of words that both have."""

    sentences: tuple[list[str], list[str]]
    starts: tuple[int, int]
    """The index of its first word in either sentence."""
    count: int

    @property
    def words(self) -> list[str]:
        """The shared words, as in the first sentence."""
        return self.sentences[0][self.starts[0] : self.starts[0] + self.count]


def shared_words(text: str) -> Shared:
    """Read two sentences with a slash between them, and find what they share.

    Example:
        >>> shared_words(TEXT).words, shared_words(TEXT).starts
        (['I', 'walk', 'my', 'dog'], (0, 3))

    Raises:
        InputError: If there are not two sentences, or they share fewer than two words in a row.
    """
    first, slash, second = (part.strip() for part in text.partition("/"))
    words = first.split(), second.split()
    folded = [[word.casefold().strip(".,;!?") for word in sentence] for sentence in words]
    match = SequenceMatcher(None, folded[0], folded[1], autojunk=False).find_longest_match()
    if not slash or match.size < 2:
        raise InputError(
            "--text", got=repr(text), expected="two sentences that share two words in a row",
            fix=f"write a slash between them, as in '{TEXT}'",
        )  # fmt: skip
    return Shared(words, (match.a, match.b), min(match.size, MOST))


def pair(text: str | None, model: str, head: int, seed: int) -> Drawing:
    """Draw the scores of the shared words in both sentences, scheme by scheme.

    Args:
        text: Two sentences with a slash between them.
        model: A model with an encoder, which is compared in place of the absolute schemes.
        head: The head whose scores are drawn.
        seed: The seed of the new models.
    """
    shared = shared_words(TEXT if text is None else text)
    schemes = SCHEMES[2:] if model else SCHEMES
    scores = {scheme: fresh_scores(shared, scheme, seed) for scheme in schemes}
    if model:
        scores = {model: model_scores(shared, model), **scores}
    heads = min(table.shape[1] for table in scores.values())
    if head >= heads:
        raise InputError("head", got=head, expected=f"0 to {heads - 1}")
    apart = {name: float((table[0] - table[1]).abs().max()) for name, table in scores.items()}
    same = [name for name, difference in apart.items() if difference < 1e-4]
    changed = [name for name in scores if name not in same]
    caption = (
        f"“{' '.join(shared.words)}” in another place: the scores among these words "
        f"{_named('stay', same)}{' and ' if same and changed else ''}{_named('change', changed)}."
    )
    details = (
        "Upper number: the score of query and key in the first sentence; lower: in the second; "
        f"colour: by how much they differ. First attention layer, head {head}, before the softmax; "
        f"new encoders of width 64 with {heads} heads, seed {seed}"
        + (f"; {model} as it was trained. " if model else ". ")
        + "Largest difference of any head: "
        + ", ".join(f"{name} {difference:.2g}" for name, difference in apart.items())
        + ". Sinusoidal and learned positions are added to the words' vectors: absolute. Buckets "
        "(T5) add a number for the distance to the score; rotary positions rotate q and k, so that "
        "q·k depends only on the distance."
    )
    with Board(caption, [1] * len(scores), details) as board:
        board.lines([" ".join(sentence) for sentence in shared.sentences])
        for panel, (name, table) in enumerate(scores.items()):
            _draw_scores(board, panel, name, table[:, head], shared.words)
        return board.drawing(
            words=shared.words,
            starts=list(shared.starts),
            **{f"scores_{name}": table[:, head].tolist() for name, table in scores.items()},
            **{f"largest_difference_{name}": difference for name, difference in apart.items()},
        )


def _named(verb: str, names: Sequence[str]) -> str:
    """A phrase about some schemes and models.

    Example:
        >>> _named("stay", ["buckets", "rotary"]), _named("change", ["small/translate"])
        ('stay with buckets and rotary positions', 'change in small/translate')
    """
    if not names:
        return ""
    schemes, models = (
        [name for name in names if (name in SCHEMES) == known] for known in (True, False)
    )
    parts = [f"with {' and '.join(schemes)} positions"] * bool(schemes)
    return f"{verb} {' and '.join([*parts, *(f'in {model}' for model in models)])}"


def fresh_scores(shared: Shared, scheme: str, seed: int) -> Tensor:
    """The scores of a new encoder: (2 sentences, heads, shared query, shared key)."""
    torch.manual_seed(seed)
    vocabulary: dict[str, int] = {}
    rows = [
        [vocabulary.setdefault(word.casefold(), len(vocabulary)) for word in sentence]
        for sentence in shared.sentences
    ]
    length = max(16, *map(len, rows))
    model = new_transformer(len(vocabulary), scheme, hidden=64, layers=1, length=length)
    positions = [range(start, start + shared.count) for start in shared.starts]
    return _scores(model, rows, positions)


def model_scores(shared: Shared, name: str) -> Tensor:
    """The scores of a model's first encoder layer, as `fresh_scores`; a word is its first token.

    Raises:
        InputError: If the model has no encoder that attends, or cannot read the sentences.
    """
    pipeline = load(name, device="cpu")
    if SITE not in pipeline.model.sites():
        raise InputError("model", got=name, expected="a model with self-attention in its encoder")
    tokenizer, rows, positions = pipeline.vocabulary.source, [], []
    for sentence, start in zip(shared.sentences, shared.starts, strict=True):
        text = " ".join(sentence)
        if unknown := tokenizer.unknown_words(text):
            raise InputError(f"{name} does not know {unknown[0]!r}", fix="use other words")
        ids = tokenizer.template(tokenizer.encode(text))
        first = len(ids) - len(tokenizer.encode(text))  # symbols before and after the text
        before = [len(tokenizer.encode(" ".join(sentence[:n]))) for n in range(len(sentence) + 1)]
        lead = tokenizer.template([]).index(tokenizer.end) if first > 1 else 0
        rows.append(ids)
        positions.append([lead + before[start + n] for n in range(shared.count)])
    return _scores(pipeline.model, rows, positions)


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
    short = [shorten(word, 64, SMALLEST) for word in words]
    axes: Chart = board.matrix(panel, name, difference, scale, (short, short), ("query", "key"))
    cell_width = axes.get_window_extent().width / len(words)
    if text_width("−0.00", SMALLEST) > cell_width:
        return
    for (row, column), value in _cells(difference):
        both = (round(float(scores[row, column]), 2) + 0.0 for scores in table)  # + 0.0: no −0.00
        said = "\n".join(f"{score:.2f}".replace("-", "−") for score in both)
        axes.write((column + 0.5, row + 0.5), said, ha="center", va="center",
                   color=scale.ink(value), linespacing=1.1)  # fmt: skip


def _cells(table: Tensor) -> list[tuple[tuple[int, int], float]]:
    rows, columns = table.shape
    return [((r, c), float(table[r, c])) for r in range(rows) for c in range(columns)]
