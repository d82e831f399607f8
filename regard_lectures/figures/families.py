"""Figure of part 6: the attention masks and training targets of GPT, BERT and T5.

GPT is a decoder, BERT an encoder, T5 has both. One sentence is prepared as in the training of each
family and run through a small model of each, whose attention weights a `Tap` records.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data import Batch, Corpus, Masking, Packed, SpanCorruption
from regard.draw import INK, MUTED, SMALLEST, WIDTH, positive_scale, shorten, text_width
from regard.errors import InputError
from regard.explain import Board, Drawing, Words
from regard.inputs import Ragged, TaskSymbols, Tokenizer, TokensConfig, learn_plain, sentinels_of
from regard.layers import Tap
from regard.models import BertConfig, GPTConfig, T5Config, build, evaluating
from regard.tasks import Fill, Generate, Restore, symbols_of

WALK = "I walk my dog every day"
"""A sentence of the lectures."""
WIDEST = 190
"""The width in pixels of the tokens of a row's label."""
SIZES = {"dim": 32, "heads": 4, "hidden": 64, "max_length": 32, "dropout": 0.0}
LAYERS = 2
FAMILIES = ("gpt", "bert", "t5")
MAY = 0.55
"""The value on the colour scale for cells where attention is allowed."""
FEWEST, MOST = 2, 12
"""The words of a sentence: at least, and drawn at most."""
LIMITS = (
    f"Measured in untrained models of {LAYERS} layers: the masks are part of the models, not "
    "learned."
)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A sentence prepared as in the training of one family."""

    tokenizer: Tokenizer
    row: Batch[Ragged]
    """The sentence as the only row of a batch."""
    shown: int
    """The number of words of the text that it has."""
    total: int
    """The number of words of the whole text."""

    def names(self, ids: Tensor | Sequence[int]) -> list[str]:
        """The token of each id; a sentinel is shortened to its number, such as `<0>`."""
        numbers = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        return [name.replace("<extra_id_", "<") for name in self.tokenizer.tokens(numbers)]

    def masked(self, epoch: int, seed: int) -> Batch[Ragged]:
        """The batch with tokens masked as for BERT."""
        return Masking(symbols_of(self.tokenizer), seed=seed)(self.row, epoch)

    def cut(self, epoch: int, seed: int) -> Batch[Ragged]:
        """The batch with spans removed as for T5, and the target that contains them."""
        tokenizer = self.tokenizer
        spans = SpanCorruption(
            sentinels_of(tokenizer), begin=tokenizer.begin, end=tokenizer.end, seed=seed
        )
        return spans(self.row, epoch)


def prepared(text: str, around: TaskSymbols, most: int) -> Prepared:
    """Tokenize a text with a vocabulary of its own words and make it a batch of one row.

    Args:
        text: A text of two words or more; of a longer one the first `most` are taken.
        around: Which special symbols the task puts around a text.
        most: The largest number of words.

    Raises:
        InputError: For a text of fewer words.
    """
    tokenizer = learn_plain([text], TokensConfig(kind="words", vocab=1000), around).source
    ids = tokenizer.encode(text)
    if len(ids) < FEWEST:
        fix = f"give a sentence, such as '{WALK}'"
        raise InputError("--text", got=f"{len(ids)} words", expected="two words or more", fix=fix)
    # As in training: GPT predicts the first token from a begin symbol; others add symbols later.
    begin = [] if around.holes else [tokenizer.begin]
    document = np.array([*begin, *ids[:most], tokenizer.end])
    corpus = Corpus(document, np.array([0]), np.array([len(document)]))
    row = Packed(corpus, length=64, batch_tokens=64).batch(0, 0)
    return Prepared(tokenizer, row, min(len(ids), most), len(ids))


@dataclass(frozen=True, eq=False)
class Pattern:
    """The attention pattern of one family."""

    name: str
    asked: str
    """A sentence about its training targets."""
    weights: NDArray[np.float64]
    """(token, token) The mean over heads in the first layer; NaN where there is no attention."""
    never: NDArray[np.bool_]
    """(token, token) True where the weight is exactly 0 in every layer and head."""
    rows: list[str]
    """The row labels: each token and its target."""
    columns: list[str]
    border: int = 0
    """The index of the decoder's first token, if there is an encoder before it."""


def words_families(numbers: Mapping[str, Any]) -> Words:
    """Who attends to whom, read off the cells in which the weight is 0 in every layer and head."""
    gpt, bert, t5 = (np.array(numbers[f"never_{name}"], dtype=bool) for name in FAMILIES)
    border = numbers["decoder_from"]
    encoder = t5[:border, :border]
    cross, decoder = t5[border:, :border], t5[border:, border:]
    title = (
        f"GPT looks {direction(gpt)}, BERT {direction(bert)}; T5’s encoder {direction(encoder)}, "
        f"its decoder {direction(decoder)}"
    )
    whole = "all" if not cross.any() else "a part" if not cross.all() else "nothing"
    crossing = f"T5’s decoder reads {whole} of its encoder (below the line)."
    caption = (
        "Blue: attention is allowed; pale: the weight is 0 in every layer and head; grey: there is "
        f"no attention. Columns are the same tokens as rows. {crossing}"
    )
    if numbers["total"] > numbers["shown"]:
        caption += f" Shown: the first {numbers['shown']} of {numbers['total']} words."
    return Words(title, caption)


def direction(never: NDArray[np.bool_]) -> str:
    """Where queries may look, from a mask (query, key) of the cells whose weight is always 0.

    Example:
        >>> direction(np.triu(np.ones((3, 3), dtype=bool), 1))
        'back'
    """
    later, earlier = np.triu(~never, 1).any(), np.tril(~never, -1).any()
    complete = not never.any() or not np.tril(never).any() or not np.triu(never).any()
    way = {(True, True): "both ways", (False, True): "back", (True, False): "ahead"}.get(
        (bool(later), bool(earlier)), "at itself alone"
    )
    return way if complete or way == "at itself alone" else f"{way} in part"


def families(text: str | None, seed: int) -> Drawing:
    """Draw the attention masks of small models of each family, measured on one sentence."""
    sentence = WALK if text is None else text
    torch.manual_seed(seed)
    words = prepared(sentence, Generate.around, MOST)
    gpt, bert, t5 = patterns = _gpt(words), _bert(sentence, seed), _t5(sentence, seed)
    decoder_rows = slice(t5.border, None)
    details = (
        f"“{sentence}” in untrained models of {LAYERS} layers and {SIZES['heads']} heads, seed "
        f"{seed}. A 0 is a weight of exactly 0 in every layer and head: {gpt.never.sum()} of "
        f"{gpt.never.size} cells in GPT, {bert.never.sum()} of {bert.never.size} in BERT, "
        f"{t5.never.sum()} in T5, {t5.never[decoder_rows, decoder_rows].sum()} of them among the "
        f"{t5.never[decoder_rows, decoder_rows].size} of its decoder's self-attention. T5's "
        "encoder does not attend to the decoder; the decoder attends to the encoder "
        "(cross-attention) and to its own tokens. The size of the weights is not drawn: they are "
        "not trained and mean nothing. Which attention is allowed is fixed by the family and not "
        "learned. "
        + " ".join(f"{pattern.name.split(':')[0]}: {pattern.asked}" for pattern in patterns)
    )
    numbers: dict[str, Any] = {
        **{f"weights_{_key(pattern)}": _listed(pattern.weights) for pattern in patterns},
        **{f"never_{_key(pattern)}": pattern.never.astype(int).tolist() for pattern in patterns},
        **{f"rows_{_key(pattern)}": pattern.rows for pattern in patterns},
        "decoder_from": t5.border,
        "shown": words.shown,
        "total": words.total,
    }
    with Board(words_families(numbers), (1, 1, 1.25), details, limits=LIMITS) as board:
        for panel, pattern in enumerate(patterns):
            _draw_pattern(board, panel, pattern)
        return board.drawing(**numbers)


def _key(pattern: Pattern) -> str:
    return pattern.name.split(":")[0].lower()


def _listed(weights: NDArray[np.float64]) -> list[list[float | None]]:
    """Nested lists for JSON, with None instead of NaN."""
    return [[None if np.isnan(weight) else float(weight) for weight in row] for row in weights]


def _gpt(given: Prepared) -> Pattern:
    model = build(GPTConfig(**SIZES, layers=LAYERS), given.tokenizer.vocab)
    tap = Tap("*.weights")
    with evaluating(model):
        model(given.row.source, tap)
    read, wanted = given.names(given.row.source.ids), given.names(given.row.targets.ids)
    asked = f"Each token predicts the next: {len(wanted)} targets from {len(read)} tokens."
    rows = [f"{token} → {said}" for token, said in zip(read, wanted, strict=True)]
    weights, never = _recorded(tap, "decoder", "self")
    return Pattern("GPT: a decoder", asked, weights, never, rows, read)


def _bert(sentence: str, seed: int) -> Pattern:
    given = prepared(sentence, Fill.around, MOST)
    mask = given.tokenizer.specials.mask
    draws = (given.masked(epoch, seed) for epoch in itertools.count())
    # Take a draw with a [MASK]; random and unchanged tokens are shown in the figure `objectives`.
    batch = next(draw for draw in draws if mask in draw.source.ids[draw.target_positions].tolist())
    model = build(BertConfig(**SIZES, layers=LAYERS), given.tokenizer.vocab)
    tap = Tap("*.weights")
    with evaluating(model):
        model(batch.source, tap)
    read = given.names(batch.source.ids)
    said = dict(zip(batch.target_positions.tolist(), given.names(batch.known_targets), strict=True))
    rows = [f"{token} → {said[at]}" if at in said else token for at, token in enumerate(read)]
    holes = f"{len(said)} target{'s' if len(said) > 1 else ''} from {len(read)} tokens"
    asked = f"Only masked tokens are predicted, from both sides: {holes}."
    weights, never = _recorded(tap, "encoder", "self")
    return Pattern("BERT: an encoder", asked, weights, never, rows, read)


def _t5(sentence: str, seed: int) -> Pattern:
    given = prepared(sentence, Restore.around, MOST)
    batch = given.cut(0, seed)
    vocab = given.tokenizer.vocab
    model = build(T5Config(**SIZES, layers=LAYERS), vocab, vocab)
    tap = Tap("*.weights")
    with evaluating(model):
        model(*batch.sides, tap)
    source, target = (given.names(side.ids) for side in batch.sides)
    border, count = len(source), len(source) + len(target)
    weights = np.full((count, count), np.nan)
    never = np.zeros((count, count), dtype=np.bool_)
    reader, writer = slice(0, border), slice(border, count)
    blocks = (
        (reader, reader, "encoder", "self"),
        (writer, reader, "decoder", "cross"),
        (writer, writer, "decoder", "self"),
    )
    for queries, keys, stack, kind in blocks:
        weights[queries, keys], never[queries, keys] = _recorded(tap, stack, kind)
    wanted = given.names(batch.targets.ids)
    rows = [*source, *(f"{token} → {said}" for token, said in zip(target, wanted, strict=True))]
    asked = (
        f"The encoder reads a text with spans removed; the decoder writes them: {len(wanted)} "
        f"targets from {border} + {len(target)} tokens."
    )
    name = "T5: an encoder and a decoder"
    return Pattern(name, asked, weights, never, rows, [*source, *target], border)


def _recorded(tap: Tap, stack: str, kind: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The recorded weights of one kind of attention.

    Returns:
        The mean over heads in the first layer (query, key), and a mask (query, key) that is True
        where the weight is 0 in all layers and heads.
    """
    layers = [tap.records[f"{stack}.{layer}.{kind}.weights"][0] for layer in range(LAYERS)]
    every = torch.cat(layers)  # (layers · heads, query, key)
    return layers[0].mean(0).double().numpy(), (every == 0).all(0).numpy()


def _row_label(name: str) -> str:
    """A row's token and its target, both shortened if they do not fit."""
    parts = re.split(r" → (?=.)", name, maxsplit=1)
    if sum(text_width(part, SMALLEST) for part in parts) <= WIDEST:
        return name
    return " → ".join(shorten(part, WIDEST / len(parts), SMALLEST) for part in parts)


def _draw_pattern(board: Board, panel: int, pattern: Pattern) -> None:
    """Draw where attention is allowed, in one colour: untrained weights have no meaning."""
    may = np.where(pattern.never, 0.0, np.where(np.isnan(pattern.weights), np.nan, MAY))
    labels = [_row_label(name) for name in pattern.rows]
    axes = board.matrix(
        panel, pattern.name, may, positive_scale(1.0), (labels, []),
        ("query → its target", ""),
    )  # fmt: skip
    width = axes.get_position().width * WIDTH / len(pattern.columns)  # pixels of a cell
    for row, column in np.argwhere(pattern.never) if width > SMALLEST else ():
        axes.write((column + 0.5, row + 0.5), "0", ha="center", va="center", color=MUTED)
    if pattern.border:
        for line in (axes.axhline, axes.axvline):
            line(pattern.border, color=INK, linewidth=1.6)
