"""Toy tasks: sequences of symbols to copy, to reverse or to sort.

The start of the data path for a recipe with `kind: copy`, `reverse` or `sort`. In: how many pairs,
and a seed. Out: `Splits` of pairs of texts, symbols separated by spaces, for the tokenizers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from regard.data.text.pairs import Pair, Splits
from regard.errors import InputError
from regard.runtime.device import check_memory

PAIR_BYTES, SYMBOL_BYTES = 400, 14
"""Memory of a generated pair, beside that of each of its symbols; measured."""
TOYS: dict[str, Callable[[Sequence[int]], Sequence[int]]] = {
    "copy": lambda symbols: symbols,
    "reverse": lambda symbols: symbols[::-1],
    "sort": sorted,
}


def toy_splits(
    kind: str, pairs: int, held_out: int, symbols: int, longest: int, seed: int
) -> Splits:
    """Generate random sequences and their targets; no sequence is in two splits.

    Args:
        kind: "copy", "reverse" or "sort".
        pairs: How many training pairs.
        held_out: How many validation pairs, and how many test pairs.
        symbols: The number of different symbols, which are the numbers from 0 on.
        longest: The most symbols in a sequence; each length from 1 is equally likely until all
            of its sequences are used.
        seed: Seed of the random choice.

    Returns:
        Splits with one test split, "test".

    Raises:
        InputError: If there is no such task, or fewer different sequences than requested.
    """
    if kind not in TOYS:
        raise InputError("data.kind", got=kind, expected=f"one of {', '.join(TOYS)}")
    total = pairs + 2 * held_out
    check_memory(
        f"data.pairs={pairs} of data.longest={longest}",
        total * (PAIR_BYTES + SYMBOL_BYTES * longest // 2),
        fix="generate fewer or shorter sequences",
    )
    unused = {length: _count_sequences(symbols, length, total) for length in range(1, longest + 1)}
    if total > sum(unused.values()):
        raise InputError(
            f"data.pairs: no more than {sum(unused.values())} different sequences of up to "
            f"{longest} of {symbols} symbols",
            got=f"{pairs} + 2 x {held_out} held out",
            fix="ask for fewer pairs, more symbols, or a greater longest",
        )
    rng = random.Random(f"{seed} {kind}")
    sources = _draw_distinct(rng, total, symbols, unused)
    examples = tuple(Pair(_text(source), _text(TOYS[kind](source)), (kind,)) for source in sources)
    valid, test = examples[:held_out], examples[held_out : 2 * held_out]
    return Splits(examples[2 * held_out :], valid, {"test": test})


def _count_sequences(symbols: int, length: int, limit: int) -> int:
    """The number of different sequences of a length, but no more than `limit`."""
    # 2 ** length > most if length is its number of bits: without computing a huge power
    return limit if length >= limit.bit_length() else min(symbols**length, limit)


def _draw_distinct(
    rng: random.Random, count: int, symbols: int, unused: dict[int, int]
) -> list[tuple[int, ...]]:
    """Draw different sequences in random order; a length with none left is no longer drawn."""
    drawn: dict[tuple[int, ...], None] = {}  # a dict keeps the order, a set does not
    lengths = list(unused)
    while len(drawn) < count:
        length = rng.choice(lengths)
        sequence = tuple(rng.randrange(symbols) for _ in range(length))
        if sequence in drawn:
            continue
        drawn[sequence] = None
        unused[length] -= 1
        if not unused[length]:
            lengths.remove(length)
    sequences = list(drawn)
    rng.shuffle(sequences)  # short ones are drawn early: without this most would be held out
    return sequences


def _text(symbols: Sequence[int]) -> str:
    return " ".join(map(str, symbols))
