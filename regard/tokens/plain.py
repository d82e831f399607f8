"""Plain text -> a vocabulary for models of one stack, learned from a sample of it.

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
AROUND = {
    "generate": ("<s> $A", "<s> $A $B"),
    "fill": ("<s> $A </s>", "<s> $A </s> $B:1 </s>:1"),
}
"""What stands around a text, and around a pair, by the task."""


def learn_plain(texts: Sequence[str], config: TokensConfig, task: str) -> Vocabulary:
    """Learns the vocabulary of plain text.

    Args:
        texts: A sample of the training text.
        config: Which kind, and how large, the symbols included.
        task: What the model is for: a key of `AROUND`.
    """
    if not texts:
        raise InputError("tokens", got="no text", expected="some to learn from")
    extra = [MASK] if task == "fill" else []
    smaller = config.model_copy(update={"vocab": max(8, config.vocab - len(extra))})
    inner = train(texts, smaller)
    inner.add_special_tokens([AddedToken(symbol, special=True) for symbol in extra])
    single, pair = AROUND[task]
    inner.post_processor = TemplateProcessing(
        single=single,
        pair=pair,
        special_tokens=[(SPECIAL[BEGIN], BEGIN), (SPECIAL[END], END)],
    )
    mask = inner.token_to_id(MASK) if extra else None
    roles = Roles(BEGIN, END, PAD, UNKNOWN, classifier=BEGIN, separator=END, mask=mask)
    tokenizer = Foreign(json.loads(inner.to_str()), roles)
    return Vocabulary(tokenizer, tokenizer)
