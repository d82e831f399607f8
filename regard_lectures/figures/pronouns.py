"""Find the heads that decide a pronoun (the lecture's animal and street) by knocking heads out.

Input: sentence pairs whose pronoun has two candidate nouns of different gender. A head is judged
by how its knock-out changes the margin log p(right pronoun) - log p(wrong one) at the step that
predicts the pronoun; a smallest set of heads without which the pronoun fails is called its
carriers. Attention maps only suggest such a role; knocking heads out tests it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from regard.data import Pair
from regard.errors import InputError
from regard.explain import Look
from regard.layers import Tap, knock_out
from regard.models import EncoderDecoder, evaluating
from regard.tasks import Translate

PRONOUNS = ("er", "sie", "es")
SEARCHED = 50
"""The number of pairs used in the search: enough to rank heads within seconds."""
HARM = 100
"""The weight of harm to other words: losing 1% of them counts as much as one nat of margin."""
COSTLY = 10.0
"""A head counts as a carrier if knocking it out alone costs this percentage of the pronouns."""


class PronounTest:
    """Measures the pronouns of sentence pairs with heads knocked out.

    Args:
        model: The translation model.
        task: The task, which encodes the pairs.
        pairs: Pairs whose reference has exactly one of er, sie, es; others are left out.
    """

    def __init__(self, model: EncoderDecoder, task: Translate, pairs: Sequence[Pair]) -> None:
        target = task.vocabulary.target
        ids = {word: target.encode(word)[0] for word in PRONOUNS}
        self.model = model
        self.pairs = [pair for pair in pairs if _pronoun(pair) is not None]
        self.batch = task.encode(self.pairs).batch(range(len(self.pairs)))
        self.choices = torch.tensor([ids[word] for word in PRONOUNS])  # (3,)
        self.right = torch.tensor([PRONOUNS.index(_pronoun(pair) or "") for pair in self.pairs])
        # The index of each pronoun in the concatenated target tokens.
        is_pronoun = torch.isin(self.batch.targets.ids, self.choices)
        self.steps = is_pronoun.nonzero().flatten()

    def measure(self, without: Sequence[str] = ()) -> tuple[Tensor, float]:
        """The effect of knocking heads out on the pronouns and on all other tokens.

        Returns:
            log p(right) - log p(best wrong pronoun) of each pair (pairs,), and the accuracy of
            the argmax on all other target tokens.
        """
        tap = Tap(edits=[knock_out(head) for head in without]) if without else None
        with evaluating(self.model):
            sides = (side.to(self.model.device) for side in self.batch.sides)
            logits = self.model(*sides, tap).cpu()
        three = logits[self.steps][:, self.choices]  # (pairs, 3)
        right = three.gather(1, self.right[:, None])[:, 0]
        wrong = three.scatter(1, self.right[:, None], float("-inf")).amax(1)
        correct = logits.argmax(-1) == self.batch.targets.ids
        correct[self.steps] = False
        others = float(correct.sum()) / (correct.numel() - self.steps.numel())
        return right - wrong, others

    def margins(self, without: Sequence[str] = ()) -> Tensor:
        """The margins of `measure` (pairs,)."""
        return self.measure(without)[0]

    def right_share(self, without: Sequence[str] = ()) -> float:
        """The percentage of pairs whose right pronoun is the most likely of the three."""
        return 100 * float((self.margins(without) > 0).float().mean())


def _pronoun(pair: Pair) -> str | None:
    """The pronoun of a pair; None unless there is exactly one."""
    words = pair.target.replace(",", " ").replace(".", " ").split()
    pronouns = [word for word in words if word in PRONOUNS]
    return pronouns[0] if len(pronouns) == 1 else None


@dataclass(frozen=True)
class Carriers:
    """The heads that carry a pronoun, and the effect of knocking them out."""

    heads: tuple[str, ...]
    pairs: int
    """The number of held-out pronouns behind the following percentages."""
    right_before: float
    """Percentage of pronouns right with all heads."""
    right_without: float
    """Percentage of pronouns right without the carriers."""
    right_without_others: tuple[float, ...]
    """Percentages of pronouns right without as many other heads, for several random draws."""
    others: tuple[tuple[str, ...], ...]
    """The other heads of each draw."""


def find_carriers(
    model: EncoderDecoder,
    task: Translate,
    shown: Sequence[Pair],
    unseen: Sequence[Pair],
    *,
    most: int = 4,
    draws: int = 8,
    seed: int = 0,
) -> Carriers:
    """Greedily find a small set of heads without which a shown pronoun fails.

    Each round adds the head whose knock-out, together with those already chosen, lowers the
    margins most and harms other words least. Heads whose knock-out alone costs many pronouns are
    added as well. For comparison, random sets are drawn from the heads that were not chosen.

    Args:
        model: The translation model.
        task: The task, which encodes the pairs.
        shown: A few pairs; the search stops when the pronoun of one of them fails.
        unseen: Held-out pairs: the first SEARCHED are used in the search, the rest are reported.
        most: The largest number of heads.
        draws: The number of random sets of other heads.
        seed: The seed of those draws.

    Raises:
        InputError: The model has too few heads.
    """
    must_fail, search = PronounTest(model, task, shown), PronounTest(model, task, unseen[:SEARCHED])
    test = PronounTest(model, task, unseen[SEARCHED:])
    heads, taken = model.heads(), list[str]()
    if len(heads) < 2 * most:
        got, expected = f"a model with {len(heads)}", f"{most} to remove and {most} others"
        raise InputError("heads that carry a pronoun", got=got, expected=expected)
    while len(taken) < most:
        remaining = [head for head in heads if head not in taken]
        taken.append(min(remaining, key=lambda head: _judge(search, must_fail, [*taken, head])))
        if float(must_fail.margins(taken).amin()) < 0:
            break
    enough = search.right_share() - COSTLY
    also = (head for head in heads if head not in taken and search.right_share([head]) < enough)
    taken += islice(also, most - len(taken))
    draw = random.Random(seed)
    remaining = [head for head in heads if head not in taken]
    others = tuple(tuple(draw.sample(remaining, len(taken))) for _ in range(draws))
    return Carriers(
        tuple(taken),
        len(test.pairs),
        test.right_share(),
        test.right_share(taken),
        tuple(test.right_share(drawn) for drawn in others),
        others,
    )


def _judge(test: PronounTest, shown: PronounTest, without: Sequence[str]) -> float:
    """The objective of the search, to be minimised: pronoun margins minus harm to other words."""
    margins, others = test.measure(without)
    return float(margins.clamp(max=4).mean() + shown.margins(without).amin()) - HARM * others


@dataclass(frozen=True)
class Shift:
    """How a head's weights move from one noun to the other when one word of the input changes."""

    head: str
    query: str
    """The query word."""
    before: tuple[float, float]
    """The weights on the two nouns in the first sentence."""
    after: tuple[float, float]
    """The weights on the two nouns in the second sentence."""

    @property
    def size(self) -> float:
        """The smaller of the first noun's loss and the second noun's gain, at most 1."""
        return min(self.before[0] - self.after[0], self.after[1] - self.before[1])


def strongest_shift(
    first: Look, second: Look, nouns: tuple[str, str], queries: dict[str, tuple[str, str]]
) -> Shift:
    """The head whose weights move most from one noun to the other.

    Args:
        first: The look of the first sentence.
        second: The look of the second sentence.
        nouns: The two key words.
        queries: For each stack (`encoder.self`, `decoder.cross`) the query word in the first and
            in the second sentence.
    """
    shifts = []
    for first_map, second_map in zip(first.maps, second.maps, strict=True):
        if first_map.stack not in queries:
            continue
        columns = [first_map.keys.index(noun) for noun in nouns]
        word, other = queries[first_map.stack]
        rows = first_map.queries.index(word), second_map.queries.index(other)
        for head in range(first_map.heads):
            before = [float(first_map.weights[head, rows[0], column]) for column in columns]
            after = [float(second_map.weights[head, rows[1], column]) for column in columns]
            query = word if word == other else f"{word}/{other}"
            shifts.append(
                Shift(
                    f"{first_map.site}.{head}", query, (before[0], before[1]), (after[0], after[1])
                )
            )
    return max(shifts, key=lambda shift: shift.size)
