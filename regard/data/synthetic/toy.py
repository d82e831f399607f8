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
    wanted = pairs + 2 * held_out
    check_memory(
        f"data.pairs={pairs} of data.longest={longest}",
        wanted * (PAIR_BYTES + SYMBOL_BYTES * longest // 2),
        fix="generate fewer or shorter sequences",
    )
    left = {length: _sequences(symbols, length, wanted) for length in range(1, longest + 1)}
    if wanted > sum(left.values()):
        raise InputError(
            f"data.pairs: no more than {sum(left.values())} different sequences of up to "
            f"{longest} of {symbols} symbols",
            got=f"{pairs} + 2 x {held_out} held out",
            fix="ask for fewer pairs, more symbols, or a greater longest",
        )
    rng = random.Random(f"{seed} {kind}")
    drawn = _distinct(rng, wanted, symbols, left)
    examples = tuple(Pair(_text(source), _text(TOYS[kind](source)), (kind,)) for source in drawn)
    valid, test = examples[:held_out], examples[held_out : 2 * held_out]
    return Splits(examples[2 * held_out :], valid, {"test": test})


def _sequences(symbols: int, length: int, most: int) -> int:
    """The number of different sequences of a length, but no more than `most`."""
    # 2 ** length > most if length is its number of bits: without computing a huge power
    return most if length >= most.bit_length() else min(symbols**length, most)


def _distinct(
    rng: random.Random, count: int, symbols: int, left: dict[int, int]
) -> list[tuple[int, ...]]:
    """Draw different sequences in random order; a length with none left is no longer drawn."""
    seen: dict[tuple[int, ...], None] = {}  # a dict keeps the order, a set does not
    lengths = list(left)
    while len(seen) < count:
        length = rng.choice(lengths)
        sequence = tuple(rng.randrange(symbols) for _ in range(length))
        if sequence in seen:
            continue
        seen[sequence] = None
        left[length] -= 1
        if not left[length]:
            lengths.remove(length)
    sequences = list(seen)
    rng.shuffle(sequences)  # short ones are drawn early: without this most would be held out
    return sequences


def _text(symbols: Sequence[int]) -> str:
    return " ".join(map(str, symbols))
