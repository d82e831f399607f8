"""Plain text -> a vocabulary for models that learn from it, learned from a sample of it.

The pieces are those that `learn` makes for pairs; around them come the symbols that such models
need: a mask, sentinels, and what stands before and after a text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tokenizers import AddedToken
from tokenizers.processors import TemplateProcessing

from regard.errors import InputError
from regard.tokens.config import TokensConfig
from regard.tokens.foreign import Foreign, Roles
from regard.tokens.kinds import BEGIN, END, PAD, SPECIAL, UNKNOWN, train
from regard.tokens.tokenizer import Vocabulary

MASK = "<mask>"
SENTINEL = "<extra_id_{}>"
"""What T5 writes for a hole, by its number."""
SENTINELS = 100
"""As many as T5 has; a vocabulary of less than 800 has an eighth of itself."""
AROUND = {
    "generate": ("<s> $A", "<s> $A $B"),
    "fill": ("<s> $A </s>", "<s> $A </s> $B:1 </s>:1"),
    "restore": ("$A </s>", "$A </s> $B </s>"),
}
"""What stands around a text, and around a pair, by the task."""
SPACED = ("bpe", "unigram")
"""Kinds in which a space belongs to the piece after it: one before a hole is then in the hole."""


def learn_plain(texts: Sequence[str], config: TokensConfig, task: str) -> Vocabulary:
    """Learns the vocabulary of plain text.

    Args:
        texts: A sample of the training text.
        config: Which kind, and how large, the symbols included.
        task: What the model is for: a key of `AROUND`.
    """
    if not texts:
        raise InputError("tokens", got="no text", expected="some to learn from")
    extra = _holes(task, config.vocab)
    smaller = config.model_copy(update={"vocab": max(8, config.vocab - len(extra))})
    inner = train(texts, smaller)
    spaced = config.kind in SPACED
    inner.add_special_tokens([AddedToken(hole, special=True, lstrip=spaced) for hole in extra])
    single, pair = AROUND[task]
    inner.post_processor = TemplateProcessing(
        single=single,
        pair=pair,
        special_tokens=[(SPECIAL[BEGIN], BEGIN), (SPECIAL[END], END)],
    )
    tokenizer = Foreign(json.loads(inner.to_str()), _roles(task, inner.token_to_id(MASK)))
    return Vocabulary(tokenizer, tokenizer)


def sentinels_of(tokenizer: Foreign) -> tuple[int, ...]:
    """The ids of `<extra_id_0>` and all that follow it without a gap, in their order."""
    by_name = {tokenizer.symbol(token): token for token in range(tokenizer.vocab)}
    found: list[int] = []
    while (name := SENTINEL.format(len(found))) in by_name:
        found.append(by_name[name])
    return tuple(found)


def _holes(task: str, vocab: int) -> list[str]:
    """The symbols that stand for what is hidden."""
    if task == "fill":
        return [MASK]
    if task == "restore":
        return [SENTINEL.format(number) for number in range(min(SENTINELS, max(1, vocab // 8)))]
    return []


def _roles(task: str, mask: int | None) -> Roles:
    if task == "restore":
        # T5 has no begin symbol: its decoder starts with the padding.
        return Roles(end=END, pad=PAD, unknown=UNKNOWN, start=PAD)
    return Roles(BEGIN, END, PAD, UNKNOWN, classifier=BEGIN, separator=END, mask=mask)
