"""The model's logits at one step -> the next token of every row: greedy, sampling, beam search.

In: logits (rows, vocab). Out: a `Move`: which rows go on, with which tokens, and the hypotheses of
the sentences that are done. The engine feeds the tokens back to the model. Bookkeeping is on the
CPU, so that a step costs one transfer each way wherever the model is.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from random import Random
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from regard.decode.config import DecodeConfig
from regard.decode.filters import NEVER, NOTHING, Symbols, constrain, sharpen
from regard.errors import FoundProblems

BLOCK = 64
"""Scores that compete by their maximum when the best of a vocabulary are sought."""

ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class Hypothesis:
    """One output for one sentence."""

    ids: tuple[int, ...]
    """The tokens without begin and end; a forced prefix is part of them."""
    logprob: float
    """Sum of log-probabilities under the unfiltered model at temperature 1, of all tokens: those
    of a forced prefix and the end symbol included."""
    score: float
    """What ranked it: the sum over the tokens that were chosen, so without a forced prefix,
    divided by (their number, end included) ** length_penalty. Beam search sums the filtered
    log-probabilities, as transformers does; greedy and sampling the unfiltered ones."""
    finished: bool
    """Whether it ended with the end symbol and not for want of room."""
    rows: tuple[int, ...]
    """For each step, which row of that step's batch gave its token: the trail by which records
    of a tap are followed. One entry for each token, end included."""


@dataclass(frozen=True)
class Sentence:
    """What a search knows of one sentence of the batch."""

    number: int
    prefix: tuple[int, ...]
    """What it must begin with."""
    room: int
    """The most tokens that may follow what is given, end included."""
    key: int
    """Names the sentence to the random numbers, wherever it stands and whatever is beside it."""
    prompt: tuple[int, ...] = ()
    """What the model has read before the first token; without it, the begin symbol."""
    counted: int = 0
    """Tokens of the prefix that count as the sentence's own: one that every text begins with."""
    last: int = -1
    """What it must end with where there is room for one more; -1: anything."""

    @property
    def given(self) -> int:
        """Tokens of the prefix that count neither for room nor in a score."""
        return len(self.prefix) - self.counted


class Branch(NamedTuple):
    """A row that goes on by one token."""

    parent: int
    """The present row."""
    token: int
    logprob: float
    """Sum of log-probabilities under the unfiltered model, this token included."""
    total: float
    """The sum that ranks it; -inf: dead."""


@dataclass(frozen=True)
class Move:
    """What a step leads to."""

    rows: Tensor
    """(new rows,) The row of the model's batch that each new row continues."""
    ids: Tensor
    """(new rows,) The tokens to feed next; empty when every sentence is done."""
    done: tuple[tuple[int, list[Hypothesis]], ...]
    """The numbers of the sentences that are done, with their hypotheses, best first."""


class Live:
    """The hypotheses under way: `width` rows for each sentence that is not done.

    Args:
        sentences: The sentences of the batch.
        width: Rows for each.
        begin: What a row without a prompt starts from.
        length_penalty: alpha in sum / length ** alpha.
    """

    def __init__(
        self, sentences: Sequence[Sentence], width: int, begin: int, length_penalty: float
    ) -> None:
        rows = len(sentences) * width
        steps = max(sentence.given + sentence.room for sentence in sentences)
        self.sentences, self.width, self.length_penalty = list(sentences), width, length_penalty
        self.length = 0
        prompts = self.spread([sentence.prompt or (begin,) for sentence in sentences])
        self.opening = max(map(len, prompts))  # columns before the first token
        self.tokens = torch.full((rows, self.opening + steps), NOTHING)
        for row, prompt in enumerate(prompts):
            self.tokens[row, self.opening - len(prompt) : self.opening] = torch.tensor(prompt)
        self.places = torch.zeros((rows, steps), dtype=torch.int64)
        self.logprob, self.total = [0.0] * rows, [0.0] * rows

    @property
    def fed(self) -> Tensor:
        """(rows, opening + length) What each row has been fed; `NOTHING` before a short prompt."""
        return self.tokens[:, : self.opening + self.length]

    @property
    def said(self) -> Tensor:
        """(rows, length) The tokens of each row so far, without its prompt or begin symbol."""
        return self.fed[:, self.opening :]

    @property
    def chosen(self) -> list[int]:
        """For each sentence, how many tokens are its own; below 0 inside a forced prefix."""
        return [self.length - sentence.given for sentence in self.sentences]

    @property
    def forced(self) -> list[int]:
        """For each sentence, the token that it must have now, -1 where it may choose."""
        return [self._forced(sentence) for sentence in self.sentences]

    def _forced(self, sentence: Sentence) -> int:
        if not self.free(sentence):
            return sentence.prefix[self.length]
        return sentence.last if self.full(sentence) else -1

    def free(self, sentence: Sentence) -> bool:
        """Whether its prefix is behind it, so that it may end."""
        return self.length >= len(sentence.prefix)

    def full(self, sentence: Sentence) -> bool:
        """Whether the next token is the last there is room for."""
        return self.length + 1 - sentence.given == sentence.room

    def spread(self, values: Sequence[ValueT]) -> list[ValueT]:
        """One for each sentence -> one for each row."""
        return [value for value in values for _ in range(self.width)]

    def filtered(self, scores: Tensor, config: DecodeConfig, symbols: Symbols) -> Tensor:
        """The scores (rows, vocab) after the filters that every search obeys."""
        device, early = scores.device, None
        waits = [chosen < config.min_length for chosen in self.chosen]
        if any(waits):
            early = torch.tensor(self.spread(waits), device=device)
        asked = config.repetition_penalty != 1 or config.no_repeat_ngram
        history = self.fed.to(device) if asked else self.fed
        return constrain(scores, history, early, config, symbols)

    def hypothesis(self, last: Branch, *, ended: bool) -> Hypothesis:
        """The hypothesis of a row that gets its last token."""
        row, length = last.parent, self.length
        sentence = self.sentences[row // self.width]
        ids = self.said[row].tolist()
        return Hypothesis(
            ids=tuple(ids if ended else [*ids, last.token]),
            logprob=last.logprob,
            score=last.total / (length + 1 - sentence.given) ** self.length_penalty,
            finished=ended,
            # At the first step the model's batch has one row a sentence.
            rows=(*self.places[row, :length].tolist(), row if length else row // self.width),
        )

    def follow(self, branches: Sequence[Branch], keep: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Goes on with the branches of the sentences at places `keep`.

        Returns:
            For each new row, the row of the model's batch that it continues, and its token.
        """
        parents = torch.tensor([branch.parent for branch in branches], dtype=torch.int64)
        tokens = torch.tensor([branch.token for branch in branches], dtype=torch.int64)
        places = parents if self.length else parents // self.width
        count, length, fed = len(branches), self.length, self.opening + self.length
        # The buffers stay; what a row held moves to its children.
        self.tokens[:count, :fed] = self.tokens[parents, :fed]
        self.places[:count, :length] = self.places[parents, :length]
        self.tokens, self.places = self.tokens[:count], self.places[:count]
        self.tokens[:, fed], self.places[:, length] = tokens, places
        self.logprob = [branch.logprob for branch in branches]
        self.total = [branch.total for branch in branches]
        self.sentences = [self.sentences[place] for place in keep]
        self.length += 1
        return places, tokens


class Search(Protocol):
    """A way to choose tokens."""

    live: Live

    def choose(self, logits: Tensor) -> Move:
        """Takes one step with what the model gave, logits (rows, vocab)."""
        ...

    def leading(self) -> list[int]:
        """The rows worth showing while decoding goes on."""
        ...

    def settled(self) -> list[tuple[int, ...]]:
        """For each sentence under way, the tokens its best hypothesis begins with for sure."""
        ...


class Draw:
    """Every row goes its own way: greedy takes the likeliest token, sampling draws one.

    Args:
        sentences: The sentences of the batch.
        symbols: The tokens that have a role.
        config: How to draw; `n_best` rows for each sentence.
    """

    def __init__(
        self, sentences: Sequence[Sentence], symbols: Symbols, config: DecodeConfig
    ) -> None:
        self.symbols, self.config = symbols, config
        self.live = Live(sentences, config.n_best, symbols.begin, config.length_penalty)
        self.open = [True] * (len(sentences) * config.n_best)
        self.found: dict[int, list[Hypothesis]] = {each.number: [] for each in sentences}
        self.dice = {
            each.number: [seeded(config.seed, each.key, i) for i in range(config.n_best)]
            for each in sentences
        }

    def choose(self, logits: Tensor) -> Move:
        """Takes one step; a sentence is done when all its rows are."""
        live = self.live
        log_probs = logits.float().log_softmax(dim=1)  # (rows, vocab)
        check_finite(log_probs[:, 0].tolist())
        # As in transformers, greedy and sampling filter logits, beam search log-probabilities.
        scores = live.filtered(logits.float(), self.config, self.symbols)
        drawn = self._sample(scores) if self.config.sample else scores.argmax(dim=1)
        forced, frees = live.spread(live.forced), live.spread([*map(live.free, live.sentences)])
        tokens = [
            token if held < 0 else held for token, held in zip(drawn.tolist(), forced, strict=True)
        ]
        column = torch.tensor(tokens, device=logits.device)[:, None]
        branches = []
        for row, gained in enumerate(log_probs.gather(1, column)[:, 0].tolist()):
            total = live.total[row] + (gained if frees[row] else 0.0)
            branch = Branch(row, tokens[row], live.logprob[row] + gained, total)
            branches.append(self._taken(branch, free=frees[row]))
        return self._move(branches)

    def leading(self) -> list[int]:
        """The rows that have not ended."""
        return [row for row, open_ in enumerate(self.open) if open_]

    def settled(self) -> list[tuple[int, ...]]:
        """What all samples of a sentence have in common; of one sample, all of it."""
        return agreed(self.live, self.open, self.found)

    def _taken(self, branch: Branch, *, free: bool) -> Branch:
        """Keeps the hypothesis if it ends with this; returns what to go on with."""
        row, live = branch.parent, self.live
        sentence = live.sentences[row // live.width]
        ended = free and branch.token in self.symbols.ends
        if self.open[row] and (ended or live.full(sentence)):
            self.found[sentence.number].append(live.hypothesis(branch, ended=ended))
            self.open[row] = False
        # A row that ended waits beside its sisters; what it is fed meanwhile does not matter.
        return branch if self.open[row] else branch._replace(token=self.symbols.pad)

    def _move(self, branches: Sequence[Branch]) -> Move:
        live, width = self.live, self.live.width
        going = [any(self.open[row : row + width]) for row in range(0, len(branches), width)]
        over = [each.number for each, goes in zip(live.sentences, going, strict=True) if not goes]
        rows = [row for row, goes in enumerate(live.spread(going)) if goes]
        self.open = [self.open[row] for row in rows]
        keep = [place for place, goes in enumerate(going) if goes]
        parents, ids = live.follow([branches[row] for row in rows], keep)
        best_first = {number: sorted(self.found[number], key=by_score) for number in over}
        return Move(parents, ids, tuple(best_first.items()))

    def _sample(self, scores: Tensor) -> Tensor:
        """(rows, vocab) -> (rows,): the token at which the running sum of probability passes u."""
        live = self.live
        if scores.device.type == "mps":  # which has no numbers of 64 bits
            scores = scores.cpu()
        reached = sharpen(scores, self.config).double().softmax(dim=1).cumsum(dim=1)
        check_finite(reached[:, -1].tolist())
        dice = [die for each in live.sentences for die in self.dice[each.number]]
        # One number a step and row, of 32 bits: times the total it stays below the total.
        u = [
            die.getrandbits(32) / 2**32 if open_ and forced < 0 else 0.0
            for die, open_, forced in zip(dice, self.open, live.spread(live.forced), strict=True)
        ]
        point = torch.tensor(u, dtype=torch.float64, device=scores.device)[:, None]
        return torch.searchsorted(reached, point * reached[:, -1:], right=True)[:, 0]


class Beam:
    """Beam search: the `beam` best beginnings of each sentence go on together.

    The same hypotheses as transformers' beam search: of the 2·beam best continuations (with several
    end symbols, more), those among the first `beam` that end are kept as finished, and the first
    `beam` that do not end go on. A
    beam for which there is no continuation, as in a vocabulary smaller than the beam, is dead: its
    sum is -inf.

    Args:
        sentences: The sentences of the batch.
        symbols: The tokens that have a role.
        config: Width, length penalty and when to stop.
    """

    def __init__(
        self, sentences: Sequence[Sentence], symbols: Symbols, config: DecodeConfig
    ) -> None:
        self.symbols, self.config = symbols, config
        self.live = Live(sentences, config.beam, symbols.begin, config.length_penalty)
        # All beams start alike: only the first may be continued, or all would stay alike.
        self.live.total = [0.0, *[NEVER] * (config.beam - 1)] * len(sentences)
        self.found: dict[int, list[Hypothesis]] = {each.number: [] for each in sentences}

    def choose(self, logits: Tensor) -> Move:
        """Takes one step for all beams of all sentences with one top-k."""
        live, width, vocab = self.live, self.live.width, logits.shape[1]
        log_probs = logits.float().log_softmax(dim=1)  # (rows, vocab)
        ranked = live.filtered(log_probs, self.config, self.symbols)
        forced = live.forced
        if max(forced) >= 0:
            ranked = force(ranked, torch.tensor(live.spread(forced), device=logits.device))
        before = torch.tensor(live.total, dtype=ranked.dtype, device=ranked.device)[:, None]
        sums = log_probs + before if ranked is log_probs else ranked.add_(before)
        # Enough that `width` go on even if each of the best ends in every way it can.
        count = max(2, 1 + len(self.symbols.ends)) * width
        totals, index = best(sums.view(-1, width * vocab), min(count, width * vocab))
        check_finite(totals[:, 0].tolist())
        gained = log_probs.view(-1, width * vocab).gather(1, index)

        going, keep, done = [], [], []
        found = zip(totals.tolist(), index.tolist(), gained.tolist(), strict=True)
        for place, (sentence, candidates) in enumerate(zip(live.sentences, found, strict=True)):
            branches = self._sort_out(sentence, self._branches(place * width, vocab, *candidates))
            if self._over(sentence, branches[0].total):
                done.append((sentence.number, self.found[sentence.number][: self.config.n_best]))
            else:
                keep.append(place)
                going += branches
        rows, ids = live.follow(going, keep)
        return Move(rows, ids, tuple(done))

    def leading(self) -> list[int]:
        """The best beam of each sentence."""
        return list(range(0, len(self.live.tokens), self.live.width))

    def settled(self) -> list[tuple[int, ...]]:
        """What all beams that go on, and the best hypothesis found so far, have in common."""
        return agreed(self.live, [total > NEVER for total in self.live.total], self.found)

    def _branches(
        self, first: int, vocab: int, totals: list[float], index: list[int], gained: list[float]
    ) -> list[Branch]:
        """The candidates of a sentence whose rows begin at `first`, best first."""
        logprob = self.live.logprob
        found = []
        for total, at, gain in zip(totals, index, gained, strict=True):
            row = first + at // vocab
            found.append(Branch(row, at % vocab, logprob[row] + gain, total))
        return found

    def _sort_out(self, sentence: Sentence, branches: Sequence[Branch]) -> list[Branch]:
        """Keeps what ends among the first `width`; the first `width` that do not end go on."""
        live, width = self.live, self.live.width
        free, full = live.free(sentence), live.full(sentence)
        going, stopped = [], []
        for rank, branch in enumerate(branches):
            ended = free and branch.token in self.symbols.ends
            if not (ended or full):
                going.append(branch)
                continue
            stopped.append(branch._replace(total=NEVER))
            if rank < width and branch.total > NEVER:
                self._collect(sentence, live.hypothesis(branch, ended=ended))
        return [*going, *stopped][:width]  # where too few go on, dead ones

    def _collect(self, sentence: Sentence, arrival: Hypothesis) -> None:
        """Keeps the `width` best hypotheses of a sentence."""
        found, width = self.found[sentence.number], self.live.width
        if len(found) < width or arrival.score > found[-1].score:
            found.append(arrival)
            found.sort(key=by_score)
            del found[width:]

    def _over(self, sentence: Sentence, leader: float) -> bool:
        """Whether no beam can go on, or none is expected to beat what was found."""
        found, stop, alpha = self.found[sentence.number], self.config.stop, self.live.length_penalty
        if leader == NEVER:
            return True
        if len(found) < self.live.width:
            return False
        if stop == "first":
            return True
        length = self.live.length + 1 - sentence.given
        if stop == "never" and alpha > 0:
            length = sentence.room  # the kindest length that a continuation may reach
        return leader / length**alpha <= found[-1].score


def agreed(
    live: Live, goes_on: Sequence[bool], found: Mapping[int, Sequence[Hypothesis]]
) -> list[tuple[int, ...]]:
    """For each sentence, the tokens that all hypotheses begin with that may still be its best.

    Args:
        live: The hypotheses under way.
        goes_on: Which of its rows may still become a hypothesis.
        found: The finished ones of each sentence; only the best of them can stay the best.
    """
    rows, width = live.said.tolist(), live.width
    settled = []
    for place, sentence in enumerate(live.sentences):
        here = range(place * width, (place + 1) * width)
        ways = [rows[row] for row in here if goes_on[row]]
        if found[sentence.number]:
            ways.append(list(min(found[sentence.number], key=by_score).ids))
        alike = takewhile(lambda column: len(set(column)) == 1, zip(*ways, strict=False))
        settled.append(tuple(column[0] for column in alike))
    return settled


def check_finite(some: Sequence[float]) -> None:
    """Raises FoundProblems if the model's numbers are not finite, given one of each row.

    One NaN or +inf among logits, or nothing but -inf, makes all log-probabilities of a row NaN; and
    the best of rows of which one is NaN is NaN.
    """
    if any(map(math.isnan, some)):
        raise FoundProblems(
            "the model gave numbers that are not finite",
            fix="its training may have diverged: take an earlier checkpoint",
        )


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest scores of each row and where they are; of equals the first comes first.

    `topk` alone may take any of several equals, another one each time the batch changes.

    Example:
        >>> best(torch.tensor([[1.0, 3.0, 1.0, 1.0]]), 2)
        (tensor([[3., 1.]]), tensor([[1, 0]]))
    """
    values, index = shortlist(scores, min(count + 1, scores.shape[1]))
    equal = (values[:, 1:] == values[:, :-1]) & (values[:, 1:] > NEVER)
    if equal.any():
        tied = equal.any(dim=1)
        again = scores[tied].sort(dim=1, descending=True, stable=True)
        values[tied], index[tied] = (each[:, : values.shape[1]] for each in again)
    return values[:, :count], index[:, :count]


def shortlist(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest scores of each row, best first, and where they are; equals in any order.

    A tournament: only the blocks with the highest maxima can hold them. Their maxima cost one quick
    pass; `topk` over a vocabulary costs several times as much.
    """
    rows, width = scores.shape
    blocks = width // BLOCK
    if blocks <= 2 * count:
        return scores.topk(count)
    last = blocks * BLOCK
    inside = scores[:, :last].view(rows, blocks, BLOCK)
    ahead = inside.amax(dim=2).topk(count).indices[..., None]  # (rows, count, 1)
    places = (ahead * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    finalists = inside.gather(1, ahead.expand(-1, -1, BLOCK)).flatten(1)  # (rows, count · BLOCK)
    if last < width:  # a block that is not full is always in
        rest = torch.arange(last, width, device=scores.device).expand(rows, -1)
        places = torch.cat((places, rest), dim=1)
        finalists = torch.cat((finalists, scores[:, last:]), dim=1)
    values, index = finalists.topk(count)
    return values, places.gather(1, index)


def force(scores: Tensor, tokens: Tensor) -> Tensor:
    """Leaves only the token of `tokens` (rows,), at no cost, in the rows where it is not -1."""
    held = tokens >= 0
    scores = scores.masked_fill(held[:, None], NEVER)
    scores[held, tokens[held]] = 0
    return scores


def seeded(seed: int, key: int, sample: int) -> Random:
    """Random numbers that belong to one sample of one sentence, wherever it is decoded."""
    digest = hashlib.sha256(f"{seed} {key} {sample}".encode()).digest()
    return Random(int.from_bytes(digest, "big"))


def by_score(hypothesis: Hypothesis) -> float:
    """Sorts the best first; equals stay in their order."""
    return -hypothesis.score
