"""Training text -> a vocabulary, learned from it.

In: pairs, or plain text. Out: a `Vocabulary`. The pieces are the same for both; plain text has
symbols beside them that its models need: a mask, sentinels, and what stands around a text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tokenizers import AddedToken
from tokenizers.processors import TemplateProcessing

from regard.data.text.pairs import Pair
from regard.errors import InputError
from regard.tokens.config import TokensConfig
from regard.tokens.kinds import BEGIN, END, PAD, SPECIAL, UNKNOWN, train
from regard.tokens.processor import Vocabulary
from regard.tokens.spelling import checked
from regard.tokens.tokenizer import LEARNED, Roles, Tokenizer

MASK = "<mask>"
SENTINEL = "<extra_id_{}>"
"""What T5 writes for a hole, by its number."""
SENTINELS = 100
"""As many as T5 has; a vocabulary of less than 800 has an eighth of itself."""
SPACED = ("bpe", "unigram")
"""Kinds in which a space belongs to the piece after it: one before a hole is then in the hole."""


@dataclass(frozen=True)
class Around:
    """What stands around a text, around a pair of texts, and for what is hidden in them."""

    single: str
    """The begin symbol `<s>`, the end `</s>`, and `$A` for the text."""
    pair: str
    holes: Literal["mask", "sentinels"] | None = None

    @property
    def begins(self) -> bool:
        """Whether a begin symbol stands before a text."""
        return self.single.startswith(SPECIAL[BEGIN])


def learn(pairs: Sequence[Pair], config: TokensConfig) -> Vocabulary:
    """Learn the vocabulary of a corpus: from its training split only.

    Args:
        pairs: The training pairs.
        config: Which kind, how large, one for both sides or one each.

    Returns:
        The same, to the last byte of its JSON, in every process.
    """
    if not pairs:
        raise InputError("tokens", got="no training pairs", expected="at least one to learn from")

    def one(texts: list[str]) -> Tokenizer:
        inner = train([checked(text) for text in texts], config)
        return Tokenizer(json.loads(inner.to_str()), LEARNED, sentences=True)

    source, target = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if config.shared:
        both = one(source + target)
        return Vocabulary(both, both)
    return Vocabulary(one(source), one(target))


def learn_plain(texts: Sequence[str], config: TokensConfig, around: Around) -> Vocabulary:
    """Learn the vocabulary of plain text.

    Args:
        texts: A sample of the training text.
        config: Which kind, and how large, the symbols included.
        around: What stands around a text.
    """
    if not texts:
        raise InputError("tokens", got="no text", expected="some to learn from")
    extra = _holes(around, config.vocab)
    smaller = config.model_copy(update={"vocab": max(8, config.vocab - len(extra))})
    inner = train(texts, smaller)
    spaced = config.kind in SPACED
    inner.add_special_tokens([AddedToken(hole, special=True, lstrip=spaced) for hole in extra])
    inner.post_processor = TemplateProcessing(
        single=around.single,
        pair=around.pair,
        special_tokens=[(SPECIAL[BEGIN], BEGIN), (SPECIAL[END], END)],
    )
    roles = Roles(BEGIN, END, PAD, UNKNOWN, BEGIN, END, inner.token_to_id(MASK))
    if not around.begins:  # T5 has no begin symbol: its decoder starts with the padding
        roles = Roles(end=END, pad=PAD, unknown=UNKNOWN, start=PAD)
    tokenizer = Tokenizer(json.loads(inner.to_str()), roles)
    return Vocabulary(tokenizer, tokenizer)


def sentinels_of(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The ids of `<extra_id_0>` and all that follow it without a gap, in their order."""
    found: list[int] = []
    while (token := tokenizer.id_of(SENTINEL.format(len(found)))) is not None:
        found.append(token)
    return tuple(found)


def has_sentinels(processor: Vocabulary) -> bool:
    """Whether a vocabulary has symbols for holes, as T5's has, whatever a model is trained for."""
    return bool(sentinels_of(processor.source))


def _holes(around: Around, vocab: int) -> list[str]:
    """The symbols that stand for what is hidden."""
    if around.holes == "mask":
        return [MASK]
    if around.holes == "sentinels":
        return [SENTINEL.format(number) for number in range(min(SENTINELS, max(1, vocab // 8)))]
    return []
