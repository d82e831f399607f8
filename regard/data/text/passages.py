"""A corpus -> the keys of its passages, by which copies of text are found in other text.

A passage is a stretch of tokens of about `PASSAGE` bytes, which may begin at any token of a
document; a shorter document is one passage. Its key is a hash of its tokens, so that the same text
has the same key wherever it stands, if it is encoded by the same tokenizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from regard.data.order import mix_bits
from regard.data.seen import Seen
from regard.data.text.corpus import Corpus
from regard.data.text.ranges import Ranges
from regard.inputs.text.bloom import Keys

PASSAGE = 128
"""The bytes of a passage: some 25 words, so that common phrases are none."""
LEAST_TOKENS = 8
LOOKED_AT = 2**14
"""Tokens from which the mean number of bytes of a token is computed."""
KEPT, EVERY = 2**14, 16
"""Of a short text this many passages are kept, of a longer one every sixteenth: passages overlap,
so that a copied sentence has many."""
AT_ONCE = 2**18
"""Passages whose keys are computed together."""

_BASE = 0x9E3779B97F4A7C15
"""An odd number of 64 bits, the base b of the hashes."""
_INVERSE = pow(_BASE, -1, 2**64)


def passage_tokens(corpus: Corpus, bytes_of: Callable[[int], bytes]) -> int:
    """The number of tokens of a passage.

    Args:
        corpus: The training text.
        bytes_of: Token -> the bytes that it writes.
    """
    beginning = corpus.between(0, min(LOOKED_AT, corpus.tokens))
    tokens, counts = np.unique(beginning, return_counts=True)
    sizes = np.array([len(bytes_of(token)) for token in tokens.tolist()])
    mean = float((sizes * counts).sum()) / max(1, len(beginning))
    return max(LEAST_TOKENS, round(PASSAGE / max(1.0, mean)))


def seen_text(corpus: Corpus, bytes_of: Callable[[int], bytes]) -> Seen:
    """The passages of a training text, as a set.

    Args:
        corpus: The training text.
        bytes_of: Token -> the bytes that it writes.
    """
    length = passage_tokens(corpus, bytes_of)
    count = int(_starts(corpus, length).sizes.sum())
    limit = max(KEPT, count // EVERY)
    return Seen.of("passages", keys_of_passages(corpus, length), count, most=limit, window=length)


def keys_of_passages(corpus: Corpus, length: int) -> Iterator[Keys]:
    """Yields the keys of all passages of a corpus, some at a time: (passages, 1, 2).

    The hash of the tokens t₀ … tₙ₋₁ is Σ h(tᵢ) bⁱ mod 2⁶⁴ (Rabin and Karp 1987), computed for all
    passages from the running sums of h(tᵢ) bⁱ over the whole text.

    Args:
        corpus: The documents.
        length: The number of tokens of a passage.
    """
    starts = _starts(corpus, length)
    for first in range(0, int(starts.sizes.sum()), AT_ONCE):
        part = starts.between(first, first + AT_ONCE)
        documents = np.searchsorted(corpus.starts, part.starts, side="right") - 1
        lengths = np.minimum(length, corpus.stops[documents] - part.starts)
        text = Ranges(part.starts, part.sizes + lengths - 1)
        sums, inverses = _running_sums(corpus.ids[text.indices()])
        begins = Ranges(text.ends - text.sizes, part.sizes).indices()
        sizes = np.repeat(lengths, part.sizes)
        hashes = (sums[begins + sizes] - sums[begins]) * inverses[begins]
        first_half = mix_bits(hashes ^ mix_bits(sizes.astype(np.uint64)))
        yield np.stack([first_half, mix_bits(first_half)], axis=1)[:, None]


def _starts(corpus: Corpus, length: int) -> Ranges:
    """The tokens at which a passage begins: all from which on there are enough, or the first."""
    sizes = corpus.documents.sizes
    return Ranges(corpus.starts, np.where(sizes > 0, np.maximum(1, sizes - length + 1), 0))


def _running_sums(ids: NDArray[np.integer]) -> tuple[Keys, Keys]:
    """The sums of h(tᵢ) bⁱ before each token and at the end, and b⁻ⁱ; all mod 2⁶⁴."""
    terms = mix_bits(ids.astype(np.uint64)) * _powers(_BASE, len(ids))
    return np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms)]), _powers(_INVERSE, len(ids))


def _powers(base: int, count: int) -> Keys:
    """Return base⁰, base¹, … mod 2⁶⁴."""
    factors = np.full(count, base, np.uint64)
    factors[:1] = 1
    return np.cumprod(factors)
