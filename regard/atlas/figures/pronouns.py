"""Which heads decide a pronoun: the lecture's animal and street, tested by taking heads away.

In come pairs whose pronoun has two candidates of different gender. A head is judged by what its
absence does to the margin log p(right pronoun) - log p(wrong one) at the step that writes it; the
fewest heads whose absence makes the pronoun fail are its carriers. A map only suggests; this tests.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from regard.data.text.pairs import Pair
from regard.explain.look import Look
from regard.layers import Tap, knock_out
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.mode import evaluating
from regard.tasks.translate import Translate

PRONOUNS = ("er", "sie", "es")
SEARCHED = 50
"""Pairs that judge a head while searching: enough to rank heads, few enough for seconds."""
HARM = 100
"""One percent of the other words lost weighs as much as one nat of margin."""
COSTLY = 10.0
"""Percent of the pronouns that one head must cost by itself to count as one that carries them."""


class PronounTest:
    """Sentences with a pronoun, ready to be asked for it with heads taken away.

    Args:
        model: What translates.
        task: How text becomes ids.
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
        # The step that writes the pronoun, among the target tokens laid end to end.
        is_pronoun = torch.isin(self.batch.wanted.ids, self.choices)
        self.steps = is_pronoun.nonzero().flatten()

    def measure(self, without: Sequence[str] = ()) -> tuple[Tensor, float]:
        """What taking heads away does to the pronouns, and to all else.

        Returns:
            log p(right) - log p(best wrong pronoun) of each pair, (pairs,); and the share of all
            other target tokens that are still the likeliest.
        """
        tap = Tap(edits=[knock_out(head) for head in without]) if without else None
        with evaluating(self.model):
            sides = (side.to(self.model.device) for side in self.batch.sides)
            logits = self.model(*sides, tap).cpu()
        three = logits[self.steps][:, self.choices]  # (pairs, 3)
        right = three.gather(1, self.right[:, None])[:, 0]
        wrong = three.scatter(1, self.right[:, None], float("-inf")).amax(1)
        correct = logits.argmax(-1) == self.batch.wanted.ids
        correct[self.steps] = False
        others = float(correct.sum()) / (correct.numel() - self.steps.numel())
        return right - wrong, others

    def margins(self, without: Sequence[str] = ()) -> Tensor:
        """The first of what `measure` gives."""
        return self.measure(without)[0]

    def right_share(self, without: Sequence[str] = ()) -> float:
        """Percentage of pairs whose right pronoun is the likeliest of the three."""
        return 100 * float((self.margins(without) > 0).float().mean())


def _pronoun(pair: Pair) -> str | None:
    """The one pronoun of a pair, if there is exactly one."""
    words = pair.target.replace(",", " ").replace(".", " ").split()
    found = [word for word in words if word in PRONOUNS]
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class Carriers:
    """The heads that carry a pronoun, and what their absence does."""

    heads: tuple[str, ...]
    pairs: int
    """How many unseen pronouns the following speak of."""
    right_before: float
    """Percentage of pronouns right with all heads."""
    right_without: float
    """… without the carriers."""
    right_without_others: tuple[float, ...]
    """… without as many others, drawn at random, several times."""
    others: tuple[tuple[str, ...], ...]
    """Those others."""


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
    """The fewest heads without which a shown pronoun fails, found one after another.

    Each round takes the head whose absence, beside those already taken, lowers the margins most
    and harms other words least. A head whose absence alone costs many pronouns carries them, too.
    Others are drawn from the heads that were not taken.

    Args:
        model: Whose heads.
        task: How text becomes ids.
        shown: The few pairs one of which must fail.
        unseen: Many pairs: the first SEARCHED judge heads, the others are reported.
        most: Stop at this many heads.
        draws: How many times to take as many other heads away.
        seed: Of those draws.
    """
    must_fail, search = PronounTest(model, task, shown), PronounTest(model, task, unseen[:SEARCHED])
    test = PronounTest(model, task, unseen[SEARCHED:])
    heads, taken = model.heads(), list[str]()
    while len(taken) < most:
        rest = [head for head in heads if head not in taken]
        taken.append(min(rest, key=lambda head: _judge(search, must_fail, [*taken, head])))
        if float(must_fail.margins(taken).amin()) < 0:
            break
    enough = search.right_share() - COSTLY
    also = (head for head in heads if head not in taken and search.right_share([head]) < enough)
    taken += islice(also, most - len(taken))
    draw = random.Random(seed)
    rest = [head for head in heads if head not in taken]
    others = tuple(tuple(draw.sample(rest, len(taken))) for _ in range(draws))
    return Carriers(
        tuple(taken),
        len(test.pairs),
        test.right_share(),
        test.right_share(taken),
        tuple(test.right_share(each) for each in others),
        others,
    )


def _judge(test: PronounTest, shown: PronounTest, without: Sequence[str]) -> float:
    """Lower is worse for the pronouns, of all pairs and of the shown ones, and for them alone."""
    margins, others = test.measure(without)
    return float(margins.clamp(max=4).mean() + shown.margins(without).amin()) - HARM * others


@dataclass(frozen=True)
class Shift:
    """How far a head's gaze moves from one noun to the other when one word of the input changes."""

    head: str
    query: str
    """The word whose gaze it is."""
    before: tuple[float, float]
    """Weight on the two nouns in the first sentence."""
    after: tuple[float, float]
    """… in the second."""

    @property
    def size(self) -> float:
        """Up to 1: the less of what the first noun lost and what the second gained."""
        return min(self.before[0] - self.after[0], self.after[1] - self.before[1])


def strongest_shift(
    first: Look, second: Look, nouns: tuple[str, str], queries: dict[str, tuple[str, str]]
) -> Shift:
    """The head whose gaze moves most from one noun to the other.

    Args:
        first: The look at the first sentence.
        second: The look at the second.
        nouns: The two words looked at.
        queries: For each stack (`encoder.self`, `decoder.cross`) the word that looks, in the first
            and in the second sentence.
    """
    found = []
    for one, two in zip(first.maps, second.maps, strict=True):
        if one.stack not in queries:
            continue
        columns = [one.keys.index(noun) for noun in nouns]
        word, other = queries[one.stack]
        rows = one.queries.index(word), two.queries.index(other)
        for head in range(one.heads):
            before = [float(one.weights[head, rows[0], column]) for column in columns]
            after = [float(two.weights[head, rows[1], column]) for column in columns]
            query = word if word == other else f"{word}/{other}"
            found.append(
                Shift(f"{one.site}.{head}", query, (before[0], before[1]), (after[0], after[1]))
            )
    return max(found, key=lambda shift: shift.size)
