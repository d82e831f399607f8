"""The model's logits at one step -> the next token of every row: greedy, sampling, beam search.

In: logits (rows, vocab). Out: a `Move`: which rows go on, with which tokens, and the hypotheses of
the sentences that are done. The engine feeds the tokens back to the model. Bookkeeping is on the
CPU, so that a step costs one transfer each way wherever the model is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

import torch
from torch import Tensor

from regard.decode.config import DecodeConfig
from regard.decode.filters import NEVER, Symbols, constrain, sharpen
from regard.errors import FoundProblems


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
    room: int
    """The most tokens that may follow the prefix, end included."""
    key: int
    """Names the sentence to the random numbers, wherever it stands and whatever is beside it."""


@dataclass(frozen=True)
class Choice:
    """For each row of the next step, the row it comes from, its token, and its sums."""

    parents: Tensor  # (sentences, width) int64
    tokens: Tensor  # (sentences, width) int64
    logprob: Tensor  # (sentences, width) float64
    total: Tensor  # (sentences, width) float64


@dataclass(frozen=True)
class Move:
    """What a step leads to."""

    rows: Tensor
    """(new rows,) The present row that each new row continues."""
    ids: Tensor
    """(new rows,) The tokens to feed next; empty when every sentence is done."""
    done: tuple[tuple[int, list[Hypothesis]], ...]
    """The numbers of the sentences that are done, with their hypotheses, best first."""


class Live:
    """The hypotheses under way: `width` rows for each sentence that is not done.

    Args:
        sentences: The sentences of the batch.
        width: Rows for each.
        begin: What every row starts from.
        length_penalty: alpha in sum / length ** alpha.
    """

    def __init__(
        self, sentences: Sequence[Sentence], width: int, begin: int, length_penalty: float
    ) -> None:
        rows = len(sentences) * width
        steps = max(len(sentence.prefix) + sentence.room for sentence in sentences)
        self.sentences, self.width, self.length_penalty = list(sentences), width, length_penalty
        self.length = 0
        self.tokens = torch.full((rows, steps + 1), begin)
        self.places = torch.zeros((rows, steps), dtype=torch.int64)
        self.logprob = torch.zeros(rows, dtype=torch.float64)
        self.total = torch.zeros(rows, dtype=torch.float64)

    @property
    def fed(self) -> Tensor:
        """(rows, length + 1) What each row has been fed, begin first."""
        return self.tokens[:, : self.length + 1]

    @property
    def chosen(self) -> Tensor:
        """(sentences,) How many tokens were chosen so far; below 0 inside a forced prefix."""
        return torch.tensor([self.length - len(sentence.prefix) for sentence in self.sentences])

    @property
    def forced(self) -> Tensor:
        """(sentences,) The token that the prefix forces now, -1 where there is none."""
        at = self.length
        return torch.tensor(
            [each.prefix[at] if at < len(each.prefix) else -1 for each in self.sentences]
        )

    @property
    def full(self) -> Tensor:
        """(sentences,) Whether the next token is the last there is room for."""
        return self.chosen + 1 == torch.tensor([each.room for each in self.sentences])

    def spread(self, values: Tensor) -> Tensor:
        """(sentences,) -> (rows,)."""
        return values.repeat_interleave(self.width)

    def filtered(self, scores: Tensor, config: DecodeConfig, symbols: Symbols) -> Tensor:
        """The scores (rows, vocab) after the filters that every search obeys."""
        early = self.spread(self.chosen < config.min_length)
        device = scores.device
        return constrain(scores, self.fed.to(device), early.to(device), config, symbols)

    def hypothesis(
        self, row: int, token: int, logprob: float, total: float, *, ended: bool
    ) -> Hypothesis:
        """The hypothesis of a row that gets its last token."""
        sentence = self.sentences[row // self.width]
        count = self.length + 1 - len(sentence.prefix)
        ids = self.tokens[row, 1 : self.length + 1].tolist()
        return Hypothesis(
            ids=tuple(ids if ended else [*ids, token]),
            logprob=logprob,
            score=total / count**self.length_penalty,
            finished=ended,
            rows=(*self.places[row, : self.length].tolist(), row),
        )

    def follow(self, choice: Choice, keep: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Goes on with the choice, for the sentences at places `keep` alone.

        Returns:
            For each new row, the row it comes from and its token.
        """
        kept = torch.tensor(keep, dtype=torch.int64)
        parents, tokens = choice.parents[kept].flatten(), choice.tokens[kept].flatten()
        count, length = parents.numel(), self.length
        # The buffers stay; what a row held moves to its children.
        self.tokens[:count, : length + 1] = self.tokens[parents, : length + 1]
        self.places[:count, :length] = self.places[parents, :length]
        self.tokens, self.places = self.tokens[:count], self.places[:count]
        self.tokens[:, length + 1], self.places[:, length] = tokens, parents
        self.logprob = choice.logprob[kept].flatten()
        self.total = choice.total[kept].flatten()
        self.sentences = [self.sentences[place] for place in keep]
        self.length += 1
        return parents, tokens


class Search(Protocol):
    """A way to choose tokens."""

    live: Live

    def choose(self, logits: Tensor) -> Move:
        """Takes one step with what the model gave, logits (rows, vocab)."""
        ...

    def leading(self) -> list[int]:
        """The rows worth showing while decoding goes on."""
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
        self.open = torch.ones(len(sentences) * config.n_best, dtype=torch.bool)
        self.found: dict[int, list[Hypothesis]] = {each.number: [] for each in sentences}
        self.dice = {
            each.number: [seeded(config.seed, each.key, i) for i in range(config.n_best)]
            for each in sentences
        }

    def choose(self, logits: Tensor) -> Move:
        """Takes one step; a sentence is done when all its rows are."""
        live = self.live
        log_probs = log_probabilities(logits)  # (rows, vocab)
        # As in transformers, greedy and sampling filter logits, beam search log-probabilities.
        scores = live.filtered(logits.float(), self.config, self.symbols)
        drawn = self._sample(scores) if self.config.sample else scores.argmax(dim=1)
        forced = live.spread(live.forced)
        free = forced < 0
        tokens = torch.where(free, drawn.cpu(), forced)
        gained = log_probs.gather(1, tokens[:, None].to(logits.device))[:, 0].cpu().double()
        logprob, total = live.logprob + gained, live.total + gained.where(free, 0)

        ended = (tokens == self.symbols.end) & free
        stopped = (ended | live.spread(live.full)) & self.open
        for row in stopped.nonzero().flatten().tolist():
            self.found[live.sentences[row // live.width].number].append(
                live.hypothesis(
                    row,
                    int(tokens[row]),
                    float(logprob[row]),
                    float(total[row]),
                    ended=bool(ended[row]),
                )
            )
        self.open &= ~stopped
        # A row that ended waits beside its sisters; what it is fed meanwhile does not matter.
        tokens = tokens.where(self.open, self.symbols.pad)
        here = torch.arange(len(tokens))
        return self._move(
            Choice(*(each.view(-1, live.width) for each in (here, tokens, logprob, total)))
        )

    def leading(self) -> list[int]:
        """The rows that have not ended."""
        return self.open.nonzero().flatten().tolist()

    def _move(self, choice: Choice) -> Move:
        live = self.live
        going = self.open.view(-1, live.width).any(dim=1).tolist()
        over = [each.number for each, goes in zip(live.sentences, going, strict=True) if not goes]
        keep = [place for place, goes in enumerate(going) if goes]
        self.open = self.open.view(-1, live.width)[torch.tensor(keep, dtype=torch.int64)].flatten()
        rows, ids = live.follow(choice, keep)
        best_first = {number: sorted(self.found[number], key=by_score) for number in over}
        return Move(rows, ids, tuple(best_first.items()))

    def _sample(self, scores: Tensor) -> Tensor:
        """(rows, vocab) -> (rows,): the token at which the running sum of probability passes u."""
        live = self.live
        reached = sharpen(scores, self.config).double().softmax(dim=1).cumsum(dim=1)
        dice = [die for each in live.sentences for die in self.dice[each.number]]
        rolls = (self.open & (live.spread(live.forced) < 0)).tolist()
        # One number a step and row, of 32 bits: times the total it stays below the total.
        u = [
            die.getrandbits(32) / 2**32 if rolls_now else 0.0
            for die, rolls_now in zip(dice, rolls, strict=True)
        ]
        point = torch.tensor(u, dtype=torch.float64, device=scores.device)[:, None]
        return torch.searchsorted(reached, point * reached[:, -1:], right=True)[:, 0]


class Beam:
    """Beam search: the `beam` best beginnings of each sentence go on together.

    The same hypotheses as transformers' beam search: of the 2·beam best continuations, those among
    the first `beam` that end are kept as finished, and the first `beam` that do not end go on. A
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
        self.live.total.view(-1, config.beam)[:, 1:] = NEVER
        self.found: dict[int, list[Hypothesis]] = {each.number: [] for each in sentences}

    def choose(self, logits: Tensor) -> Move:
        """Takes one step for all beams of all sentences with one top-k."""
        live, width, vocab = self.live, self.live.width, logits.shape[1]
        log_probs = log_probabilities(logits)  # (rows, vocab)
        ranked = live.filtered(log_probs, self.config, self.symbols)
        forced = live.forced
        if (forced >= 0).any():
            ranked = force(ranked, live.spread(forced).to(logits.device))
        sums = live.total.to(ranked)[:, None] + ranked
        total, index = best(sums.view(-1, width * vocab), min(2 * width, width * vocab))
        gained = log_probs.view(-1, width * vocab).gather(1, index).cpu().double()
        total, index = total.cpu().double(), index.cpu()  # (sentences, 2 width), best first
        parents = index // vocab + torch.arange(len(index))[:, None] * width
        tokens = index % vocab

        candidates = Choice(parents, tokens, live.logprob[parents] + gained, total)
        ended = (tokens == self.symbols.end) & (forced < 0)[:, None]
        stopped = ended | live.full[:, None]
        self._collect(candidates, ended, stopped)
        # The first `width` that go on, in their order; where there are fewer, dead ones.
        order = stopped.int().argsort(dim=1, stable=True)[:, :width]
        return self._move(
            Choice(
                parents.gather(1, order),
                tokens.gather(1, order),
                candidates.logprob.gather(1, order),
                total.masked_fill(stopped, NEVER).gather(1, order),
            )
        )

    def leading(self) -> list[int]:
        """The best beam of each sentence."""
        return list(range(0, len(self.live.tokens), self.live.width))

    def _collect(self, candidates: Choice, ended: Tensor, stopped: Tensor) -> None:
        """Keeps the `width` best hypotheses of each sentence, those that just stopped included."""
        live, width = self.live, self.live.width
        arrived = stopped[:, :width] & (candidates.total[:, :width] > NEVER)
        for place, rank in arrived.nonzero().tolist():
            found = self.found[live.sentences[place].number]
            arrival = live.hypothesis(
                int(candidates.parents[place, rank]),
                int(candidates.tokens[place, rank]),
                float(candidates.logprob[place, rank]),
                float(candidates.total[place, rank]),
                ended=bool(ended[place, rank]),
            )
            if len(found) < width or arrival.score > found[-1].score:
                found.append(arrival)
                found.sort(key=by_score)
                del found[width:]

    def _move(self, choice: Choice) -> Move:
        live, done, keep = self.live, [], []
        leaders = choice.total[:, 0].tolist()
        for place, (sentence, leader) in enumerate(zip(live.sentences, leaders, strict=True)):
            if self._over(sentence, leader):
                done.append((sentence.number, self.found[sentence.number][: self.config.n_best]))
            else:
                keep.append(place)
        rows, ids = live.follow(choice, keep)
        return Move(rows, ids, tuple(done))

    def _over(self, sentence: Sentence, leader: float) -> bool:
        """Whether no beam can go on, or none is expected to beat what was found."""
        found, stop, alpha = self.found[sentence.number], self.config.stop, self.live.length_penalty
        if leader == NEVER:
            return True
        if len(found) < self.live.width:
            return False
        if stop == "first":
            return True
        length = self.live.length + 1 - len(sentence.prefix)
        if stop == "never" and alpha > 0:
            length = sentence.room  # the kindest length that a continuation may reach
        return leader / length**alpha <= found[-1].score


def log_probabilities(logits: Tensor) -> Tensor:
    """log softmax in 32 bits; raises FoundProblems where the model's numbers are not finite."""
    log_probs = logits.float().log_softmax(dim=1)
    # One NaN or +inf, or a row of nothing but -inf, makes the whole row NaN: a column tells.
    if log_probs[:, 0].isnan().any():
        raise FoundProblems(
            "the model gave numbers that are not finite",
            fix="its training may have diverged: take an earlier checkpoint",
        )
    return log_probs


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest scores of each row and where they are; of equals the first comes first.

    `topk` alone may take any of several equals, another one each time the batch changes.

    Example:
        >>> best(torch.tensor([[1.0, 3.0, 1.0, 1.0]]), 2)
        (tensor([[3., 1.]]), tensor([[1, 0]]))
    """
    values, index = scores.topk(min(count + 1, scores.shape[1]))
    if values.shape[1] > count:
        last, next_one = values[:, count - 1], values[:, count]
        if ((last == next_one) & (last > NEVER)).any():  # equals on both sides of the cut
            values, index = scores.sort(dim=1, descending=True, stable=True)
        values, index = values[:, :count], index[:, :count]
    index, order = index.sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, index.gather(1, order)


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
