"""Training text -> a learned vocabulary.

In: training pairs, or plain text. Out: a `Vocabulary`. Pieces are learned in the same way from
both. Vocabularies of plain text also have the symbols that pretraining needs, a mask or sentinels,
and a template around a text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tokenizers import AddedToken
from tokenizers.processors import TemplateProcessing

from regard.errors import InputError
from regard.inputs import processor as processors  # which needs this folder itself
from regard.inputs.text.config import TokensConfig
from regard.inputs.text.kinds import BEGIN, END, PAD, SPECIAL, UNKNOWN, train
from regard.inputs.text.spelling import check_text
from regard.inputs.text.tokenizer import LEARNED, Roles, Tokenizer

MASK = "<mask>"
SENTINEL = "<extra_id_{}>"
"""T5's symbol for a hidden span, by its number."""
SENTINELS = 100
"""Number of sentinels, as in T5; in a vocabulary below 800 entries, an eighth of its size."""
KINDS_WITH_SPACES = ("bpe", "unigram")
"""Kinds in which a space belongs to the piece after it; a mask or sentinel then includes the space
before it."""


@dataclass(frozen=True)
class TaskSymbols:
    """The symbols that a task needs: templates around one and two texts, and mask or sentinels."""

    single: str
    """Template of one text: `$A` for the text, begin symbol `<s>` and end symbol `</s>`."""
    pair: str
    holes: Literal["mask", "sentinels"] | None = None


class TextPair(Protocol):
    """A text and its translation."""

    @property
    def source(self) -> str:
        """The text."""

    @property
    def target(self) -> str:
        """Its translation."""


def learn(pairs: Sequence[TextPair], config: TokensConfig) -> processors.Vocabulary:
    """Learn a vocabulary from training pairs.

    Args:
        pairs: The training pairs.
        config: TokenizerKind and size, and whether source and target share one vocabulary.

    Returns:
        The vocabulary. It is deterministic: its JSON is byte for byte the same in every process.

    Raises:
        InputError: If there are no pairs, or a text is not valid Unicode.
    """
    if not pairs:
        raise InputError("tokens", got="no training pairs", expected="at least one to learn from")

    def train_tokenizer(texts: list[str]) -> Tokenizer:
        """Learn the tokenizer of one side, or of both."""
        inner = train([check_text(text) for text in texts], config)
        return Tokenizer(json.loads(inner.to_str()), LEARNED, sentences=True)

    source, target = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if config.shared:
        tokenizer = train_tokenizer(source + target)
        return processors.Vocabulary(tokenizer, tokenizer)
    return processors.Vocabulary(train_tokenizer(source), train_tokenizer(target))


def learn_plain(
    texts: Sequence[str], config: TokensConfig, around: TaskSymbols
) -> processors.Vocabulary:
    """Learn a vocabulary from plain text.

    Args:
        texts: A sample of the training text.
        config: TokenizerKind and size; the size includes the symbols.
        around: The templates around texts, and whether mask or sentinels are needed.

    Raises:
        InputError: If there is no text.
    """
    if not texts:
        raise InputError("tokens", got="no text", expected="some to learn from")
    holes = _hole_symbols(around, config.vocab)
    reduced_config = config.model_copy(update={"vocab": max(8, config.vocab - len(holes))})
    inner = train(texts, reduced_config)
    has_spaces = config.kind in KINDS_WITH_SPACES
    inner.add_special_tokens([AddedToken(hole, special=True, lstrip=has_spaces) for hole in holes])
    symbols = [(SPECIAL[BEGIN], BEGIN), (SPECIAL[END], END)]
    inner.post_processor = TemplateProcessing(around.single, around.pair, symbols)
    roles = Roles(BEGIN, END, PAD, UNKNOWN, BEGIN, END, inner.token_to_id(MASK))
    # T5 has no begin symbol: its decoder starts with the padding.
    if not around.single.startswith(SPECIAL[BEGIN]):
        roles = Roles(end=END, pad=PAD, unknown=UNKNOWN, start=PAD)
    tokenizer = Tokenizer(json.loads(inner.to_str()), roles)
    return processors.Vocabulary(tokenizer, tokenizer)


def sentinels_of(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the ids of `<extra_id_0>`, `<extra_id_1>` and so on, up to the first missing one."""
    ids: list[int] = []
    while (token := tokenizer.id_of(SENTINEL.format(len(ids)))) is not None:
        ids.append(token)
    return tuple(ids)


def has_sentinels(processor: processors.Vocabulary) -> bool:
    """Whether a vocabulary has sentinels, as T5's has, whichever task the model is trained for."""
    return bool(sentinels_of(processor.source))


def _hole_symbols(around: TaskSymbols, vocab: int) -> list[str]:
    """Return the symbols for hidden text: the mask, the sentinels, or none."""
    if around.holes == "mask":
        return [MASK]
    if around.holes == "sentinels":
        return [SENTINEL.format(number) for number in range(min(SENTINELS, max(1, vocab // 8)))]
    return []
