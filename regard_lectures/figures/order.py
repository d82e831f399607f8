"""Figure of parts 3 and 4: without positions, a reordered sentence has the same outputs.

Self-attention is equivariant to permutations: each word's output vector moves with the word. The
encoder is untrained, so that the change comes from the positions alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.draw import BLUE, SMALLEST, Chart, positive_scale, scientific, shorten
from regard.errors import InputError
from regard.explain import Board, Drawing, Words
from regard.inputs import Ragged
from regard.models import TransformerConfig, build

SENTENCE = "he hit me with a pie"
LECTURE_ORDERS = ("a pie hit me with he", "a hit with me he pie", "he pie me with a hit")
"""The lecture's orders of the sentence that self-attention without positions cannot distinguish."""

MOST_ORDERS = 720
"""All orders of six words; of longer sentences, so many are drawn at random."""
MOST_WORDS = 8
"""The most words of a sentence that are reordered and drawn."""
SHOWN = 3
"""The number of orders that are drawn."""
SCHEMES = ("none", "sinusoidal", "rotary", "learned", "buckets")
ROUNDING, NOTICED = 1e-4, 0.01
"""Below this relative change an output is the same but for rounding; from this on it is another."""
LONGEST_TITLE = 44
"""The most characters of a sentence in the title; a longer one stands below it."""


def order(text: str | None, positions: str, seed: int) -> Drawing:
    """Draw how much each word's output vector changes when the words are reordered."""
    words = (SENTENCE if text is None else text).split()
    ids = _ids(words[:MOST_WORDS])
    orders = _orders(ids, seed)
    changes = {scheme: _changes(ids, orders, scheme, seed) for scheme in SCHEMES}
    chosen = _shown_orders(None if text is None else ids, orders)
    numbers: dict[str, Any] = {
        "words": words[:MOST_WORDS], "total": len(words), "scheme": positions,
        "orders": len(orders), "all_orders": _order_count(ids) == len(orders),
        "shown_orders": [list(orders[number]) for number in chosen],
        "shown_changes": {
            scheme: [changes[scheme][n][list(orders[n])].tolist() for n in chosen]
            for scheme in ("none", positions)
        },
        "largest_change_without_positions": float(changes["none"].max()),
        **{f"mean_change_{name}": float(change[1:].mean()) for name, change in changes.items()},
    }  # fmt: skip
    details = (
        "Shown is the change of a word's output vector when the sentence is reordered, relative to "
        "the vector's length: |output in the new order − output| / |output|, under each word at "
        "its new position. Without positions self-attention is equivariant to permutations. Right: "
        f"the mean over all words and {len(orders) - 1} other orders. Equal words, whatever their "
        "capitals and punctuation, are the same token; orders that only exchange them are no "
        "others. Learned positions are small before training; buckets are T5's relative positions."
    )
    limits = f"An untrained encoder of 2 layers, width 64 and 4 heads, seed {seed}: no training."
    with Board(words_order(numbers), (2.6, 0.8), details, limits=limits) as board:
        sentence = " ".join(numbers["words"])
        if len(sentence) > LONGEST_TITLE:
            board.lines([sentence])
        for row, scheme in enumerate(("none", positions)):
            _draw_orders(board, row, scheme, numbers)
        _draw_means(board, numbers)
        return board.drawing(**numbers)


def words_order(numbers: Mapping[str, Any]) -> Words:
    """Whether outputs notice the order of the words, without positions and with a scheme."""
    sentence, scheme = " ".join(numbers["words"]), numbers["scheme"]
    named = f"“{sentence}”" if len(sentence) <= LONGEST_TITLE else "this sentence"
    largest = numbers["largest_change_without_positions"]
    means = {name: numbers[f"mean_change_{name}"] for name in SCHEMES}
    a_bag = largest < ROUNDING
    is_seen = means[scheme] >= NOTICED
    title = (
        f"Without positions {named} is a bag of words, with {scheme} ones "
        f"{'not' if is_seen else 'hardly more'}"
        if a_bag
        else f"Without positions {named} is not a bag of words in this encoder"
    )
    others = numbers["orders"] - 1
    which = f"all {others:,} other" if numbers["all_orders"] else f"{others:,} random other"
    cannot = "no word's output changes (at most" if a_bag else "outputs change (by up to"
    caption = f"Without positions {cannot} {scientific(float(f'{largest:.1e}'))}) in {which} orders"
    unseen = [name for name in SCHEMES[1:] if means[name] < NOTICED]
    caption += (
        f"; with each scheme they change by {NOTICED:.0%} or more on average."
        if not unseen
        else f"; the mean change stays below {NOTICED:.0%} with {' and '.join(unseen)}."
    )
    if numbers["total"] > len(numbers["words"]):
        caption += f" Only the first {len(numbers['words'])} of {numbers['total']} words are read."
    return Words(title, caption)


def _ids(words: Sequence[str]) -> list[int]:
    """A number for each word; equal words have the same one.

    Raises:
        InputError: If there are not two different words.
    """
    vocabulary: dict[str, int] = {}
    folded = [word.casefold().strip(".,;:!?\"'“”„()") or word for word in words]
    ids = [vocabulary.setdefault(word, len(vocabulary)) for word in folded]
    if len(vocabulary) < 2:
        got = f"{len(words)} word{'s' * (len(words) != 1)}, {len(vocabulary)} different"
        raise InputError(
            "--text", got=got, expected="2 words or more, two of them different",
            fix="write a space between words",
        )  # fmt: skip
    return ids


def _order_count(ids: Sequence[int]) -> int:
    """The number of different orders: n! over the factorial of each word's count."""
    same = math.prod(math.factorial(ids.count(word)) for word in set(ids))
    return math.factorial(len(ids)) // same


def _orders(ids: list[int], seed: int) -> list[tuple[int, ...]]:
    """The original order, then all others or `MOST_ORDERS - 1` random ones, as word indices.

    Equal words keep their order, so that no two orders are the same sentence.
    """
    length = len(ids)
    if _order_count(ids) <= MOST_ORDERS:
        candidates = (_in_turn(chosen, ids) for chosen in itertools.permutations(range(length)))
        return list(dict.fromkeys(candidates))
    random, orders = np.random.default_rng(seed), {tuple(range(length)): None}
    while len(orders) < MOST_ORDERS:
        orders[_in_turn(tuple(random.permutation(length).tolist()), ids)] = None
    return list(orders)


def _in_turn(chosen: tuple[int, ...], ids: Sequence[int]) -> tuple[int, ...]:
    """The same sentence, with equal words in their original order.

    Example:
        >>> _in_turn((3, 1, 2, 0), [7, 8, 9, 7])
        (0, 1, 2, 3)
    """
    left = {word: iter([i for i, other in enumerate(ids) if other == word]) for word in set(ids)}
    return tuple(next(left[ids[index]]) for index in chosen)


def _shown_orders(given: list[int] | None, orders: list[tuple[int, ...]]) -> list[int]:
    """The indices of the orders to draw: the lecture's, or some from among all."""
    if given is None:
        words = SENTENCE.split()
        return [
            orders.index(tuple(words.index(word) for word in line.split()))
            for line in LECTURE_ORDERS
        ]
    last = len(orders) - 1
    return sorted({max(1, last * share // SHOWN) for share in range(1, SHOWN + 1)})


def _draw_orders(board: Board, row: int, scheme: str, numbers: Mapping[str, Any]) -> None:
    """Draw one row of cells per order; each cell has the word at that position and its change."""
    words, orders = numbers["words"], numbers["shown_orders"]
    table, scale = np.array(numbers["shown_changes"][scheme]), positive_scale(1.0)
    left, top, width, height = board.panel_box(0)
    half = top + row * height / 2
    heading = "without positions" if scheme == "none" else f"{scheme} positions"
    others = numbers["orders"] - 1
    drawn = f" in {len(orders)} of {others} orders" if len(orders) < others else ""
    start = board.heading(0, f"{heading}: each word's change{drawn}", part=row / 2)
    axes: Chart = board.sheet.axes(left, start, width, half + height / 2 - start - 8)
    axes.pcolormesh(table, cmap=scale.colormap(), vmin=0, vmax=1, edgecolors="white", linewidth=0.8)
    axes.set(xlim=(0, len(words)), ylim=(len(orders), 0))
    axes.set_axis_off()
    for line, chosen in enumerate(orders):
        for column, index in enumerate(chosen):
            value = float(table[line, column])
            said = f"{shorten(words[index], width / len(words) - 6, SMALLEST)}\n{value:.2f}"
            axes.write((column + 0.5, line + 0.5), said, ha="center", va="center",
                       color=scale.ink(value), linespacing=1.0)  # fmt: skip


def _draw_means(board: Board, numbers: Mapping[str, Any]) -> None:
    """Draw the mean change with each scheme, as bars with its name and number above."""
    means = {scheme: numbers[f"mean_change_{scheme}"] for scheme in SCHEMES}
    axes = board.chart(1, "mean change", ticks=10)
    axes.barh(range(len(SCHEMES)), list(means.values()), color=BLUE, height=0.5)
    axes.set_yticks([])
    axes.set_ylim(len(SCHEMES) - 0.4, -0.8)
    axes.set_xlim(0, max(means.values()) * 1.3)
    axes.set_xticks([])
    axes.grid(visible=False)
    for index, (scheme, mean) in enumerate(means.items()):
        said = f"{mean:.2f}" if mean > 0.005 else scientific(mean)
        axes.write((0, index - 0.29), f" {scheme}: {said}", va="bottom")


def new_transformer(vocab: int, scheme: str, *, hidden: int, layers: int, length: int) -> Any:
    """An untrained Transformer of width 64 with a position scheme, to look into its encoder."""
    config = TransformerConfig.model_validate(
        {
            "dim": 64,
            "heads": 4,
            "hidden": hidden,
            "encoder": {"layers": layers},
            "decoder": {"layers": 1},
            "positions": scheme,
            "max_length": length,
            "dropout": 0.0,
        }
    )
    return build(config, vocab, vocab).eval()


@torch.no_grad()
def _changes(ids: list[int], orders: list[tuple[int, ...]], scheme: str, seed: int) -> Tensor:
    """|output in this order - original output| / |original output| of each word: (order, word)."""
    torch.manual_seed(seed)
    model = new_transformer(max(ids) + 1, scheme, hidden=128, layers=2, length=16)
    source = Ragged.of([[ids[index] for index in chosen] for chosen in orders])
    vectors = model.encode(source).x.view(len(orders), len(ids), -1)  # (order, position, dim)
    back = torch.tensor(orders).argsort(-1)  # the position of each word in each order
    outputs = torch.stack([row[at] for row, at in zip(vectors, back, strict=True)])
    first = outputs[0]  # (word, dim)
    change: Tensor = (outputs - first).norm(dim=-1) / first.norm(dim=-1)
    return change
