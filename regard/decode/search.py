"""Chooses the next token of every row from the logits: greedy, sampling, beam search.

In: logits (rows, vocab) of one step. Out: a `Choice`: which rows continue, with which tokens, and
the hypotheses of the finished sequences. The engine feeds the tokens back to the model. Bookkeeping
is on the CPU, so that a step costs one transfer in each direction if the model is on another
device.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from random import Random
from typing import ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor

from regard.decode.config import DecodeConfig
from regard.decode.filters import (
    MINUS_INF,
    NO_TOKEN,
    Symbols,
    allow_end_if_stuck,
    constrain,
    filter_for_sampling,
)
from regard.errors import FoundProblems

BLOCK = 64
"""Block size of `shortlist`, which compares the maxima of blocks of scores first."""

ValueT = TypeVar("ValueT")
Forbidden = Callable[[Sequence[int], int], bool]
"""Whether a token must not follow the tokens of a row, prompt included."""


@dataclass(frozen=True)
class Hypothesis:
    """One output for one sequence."""

    ids: tuple[int, ...]
    """The tokens without begin and end symbols; a forced prefix is part of them."""
    logprob: float
    """Sum of log-probabilities of all tokens, forced prefix and end symbol included, under the
    unfiltered model at temperature 1."""
    score: float
    """The ranking score: the sum of log-probabilities of the chosen tokens, without a forced
    prefix, divided by (their number, end included) ** length_penalty. Beam search sums the filtered
    log-probabilities, as transformers does; greedy and sampling the unfiltered ones."""
    finished: bool
    """Whether it ended with an end symbol, and not because of the maximum length."""
    rows: tuple[int, ...]
    """For each token, end included, the row of that step's batch which it came from: the argument
    of `Tap.follow`."""


@dataclass(frozen=True)
class Request:
    """The settings of one sequence of the batch."""

    number: int
    prefix: tuple[int, ...]
    """Tokens that the output must begin with."""
    max_length: int
    """Maximum number of tokens after the `uncounted` ones, end symbol included."""
    key: int
    """Seeds the sequence's random numbers, independently of the rest of the batch."""
    prompt: tuple[int, ...] = ()
    """Tokens that the model reads before the first output; if empty, the begin symbol."""
    counted: int = 0
    """How many tokens of the prefix count as chosen ones: 1 with `forced_begin`, else 0."""
    forced_end: int = -1
    """The token that is forced at the maximum length (`forced_end`); -1: none."""

    @property
    def uncounted(self) -> int:
        """Number of prefix tokens that count neither for `max_length` nor for the score."""
        return len(self.prefix) - self.counted


class Branch(NamedTuple):
    """The continuation of a row by one token."""

    parent: int
    """The row that is continued."""
    token: int
    logprob: float
    """Sum of log-probabilities under the unfiltered model, this token included."""
    total: float
    """The sum used for ranking; -inf: no valid continuation."""


@dataclass(frozen=True)
class Choice:
    """The choice made at one step."""

    rows: Tensor
    """(new rows,) The row of the model's batch that each new row continues."""
    ids: Tensor
    """(new rows,) The tokens to feed next; empty when every sequence is finished."""
    done: tuple[tuple[int, list[Hypothesis]], ...]
    """The numbers of the finished sequences, with their hypotheses, best first."""


class RunningRows:
    """The unfinished hypotheses: `width` rows for each unfinished sequence.

    Args:
        requests: The sequences of the batch.
        width: Number of rows (beams or samples) for each sequence.
        begin: The begin symbol, which a row without a prompt starts from.
        length_penalty: alpha in sum / length ** alpha.
    """

    def __init__(
        self, requests: Sequence[Request], width: int, begin: int, length_penalty: float
    ) -> None:
        rows = len(requests) * width
        steps = max(request.uncounted + request.max_length for request in requests)
        self.requests, self.width, self.length_penalty = list(requests), width, length_penalty
        self.length = 0
        prompts = self.per_row([request.prompt or (begin,) for request in requests])
        self.prompt_width = max(map(len, prompts))  # columns before the first token
        # For each row its tokens, and the row of the model's batch that each of them came from.
        buffer = torch.full((2, rows, self.prompt_width + steps), NO_TOKEN)
        for row, prompt in enumerate(prompts):
            first = self.prompt_width - len(prompt)
            buffer[0, row, first : self.prompt_width] = torch.tensor(prompt)
        self.tokens_and_parents = buffer
        self.logprob, self.total = [0.0] * rows, [0.0] * rows

    @property
    def inputs(self) -> Tensor:
        """(rows, prompt_width + length) Prompt and tokens so far; left-padded with `NO_TOKEN`."""
        return self.tokens_and_parents[0, :, : self.prompt_width + self.length]

    @property
    def generated(self) -> Tensor:
        """(rows, length) The tokens of each row so far, without its prompt or begin symbol."""
        return self.inputs[:, self.prompt_width :]

    @property
    def chosen(self) -> list[int]:
        """For each sequence, the number of chosen tokens; negative within a forced prefix."""
        return [self.length - request.uncounted for request in self.requests]

    @property
    def forced(self) -> list[int]:
        """For each sequence, the token that is forced at this step; -1: none."""
        return [self._forced_token(request) for request in self.requests]

    def _forced_token(self, request: Request) -> int:
        """The token that a sequence must take at this step; -1: none."""
        if not self.free(request):
            return request.prefix[self.length]
        return request.forced_end if self.full(request) else -1

    def free(self, request: Request) -> bool:
        """Whether the forced prefix is complete, so that the sequence may end."""
        return self.length >= len(request.prefix)

    def full(self, request: Request) -> bool:
        """Whether the next token is the last one within the maximum length."""
        return self.length + 1 - request.uncounted == request.max_length

    def per_row(self, values: Sequence[ValueT]) -> list[ValueT]:
        """Repeats values given per sequence, so that there is one per row."""
        return [value for value in values for _ in range(self.width)]

    def filter_scores(self, scores: Tensor, config: DecodeConfig, symbols: Symbols) -> Tensor:
        """Scores (rows, vocab) after the filters common to all searches (see `constrain`)."""
        device, early = scores.device, None
        waits = [count < config.min_length for count in self.chosen]
        if any(waits):
            early = torch.tensor(self.per_row(waits), device=device)
        reads_history = config.repetition_penalty != 1 or config.no_repeat_ngram
        history = self.inputs.to(device) if reads_history else self.inputs
        return constrain(scores, history, early, config, symbols)

    def _parents(self, row: int) -> list[int]:
        """For each token of a row so far, the row of that step's batch that it came from."""
        return self.tokens_and_parents[1, row, self.prompt_width :][: self.length].tolist()

    def history(self, row: int) -> list[int]:
        """The tokens of a row so far, its prompt or begin symbol included."""
        return [token for token in self.inputs[row].tolist() if token != NO_TOKEN]

    def hypothesis(self, branch: Branch, *, ended: bool) -> Hypothesis:
        """Makes a hypothesis of a row and its last token."""
        row, length = branch.parent, self.length
        request = self.requests[row // self.width]
        ids = self.generated[row].tolist()
        return Hypothesis(
            ids=tuple(ids if ended else [*ids, branch.token]),
            logprob=branch.logprob,
            score=branch.total / (length + 1 - request.uncounted) ** self.length_penalty,
            finished=ended,
            # At the first step the model's batch has one row per sequence.
            rows=(*self._parents(row), row if length else row // self.width),
        )

    def follow(self, branches: Sequence[Branch], keep: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Replaces the rows by these branches of the sequences with indices `keep`.

        Returns:
            For each new row, the row of the model's batch that it continues, and its token;
            (new rows,) each.
        """
        order, tokens = [b.parent for b in branches], [b.token for b in branches]
        parents = order if self.length else [parent // self.width for parent in order]
        count, filled = len(branches), self.prompt_width + self.length
        buffer = self.tokens_and_parents
        # The buffer is reused: the contents of each parent are copied to its continuations.
        if order != list(range(count)):
            rows = torch.tensor(order, dtype=torch.int64)
            buffer[:, :count, :filled] = buffer[:, :, :filled].index_select(1, rows)
        self.tokens_and_parents = buffer[:, :count]
        added = torch.tensor((tokens, parents), dtype=torch.int64)
        self.tokens_and_parents[:, :, filled] = added
        self.logprob = [branch.logprob for branch in branches]
        self.total = [branch.total for branch in branches]
        self.requests = [self.requests[index] for index in keep]
        self.length += 1
        return added[1], added[0]


class Search(ABC):
    """A search method: chooses the next tokens from the logits.

    Args:
        requests: The sequences of the batch.
        symbols: The special tokens.
        config: The decoding settings.
        forbidden: Tokens that must not be chosen.
    """

    width_setting: ClassVar[str]
    """The setting that is the number of rows for each sequence."""

    def __init__(
        self,
        requests: Sequence[Request],
        symbols: Symbols,
        config: DecodeConfig,
        forbidden: Forbidden | None = None,
    ) -> None:
        self.symbols, self.config, self.forbidden = symbols, config, forbidden
        width = getattr(config, self.width_setting)
        self.running = RunningRows(requests, width, symbols.begin, config.length_penalty)
        self.hypotheses: dict[int, list[Hypothesis]] = {request.number: [] for request in requests}
        self.start()

    @abstractmethod
    def start(self) -> None:
        """Sets what the search remembers in addition to the running hypotheses."""

    @abstractmethod
    def choose(self, logits: Tensor) -> Choice:
        """Takes one step with the model's logits (rows, vocab)."""

    @abstractmethod
    def best_rows(self) -> list[int]:
        """The rows to show while decoding continues."""

    @abstractmethod
    def continued_flags(self) -> Sequence[bool]:
        """For each row, whether it is still continued."""

    def stable_prefixes(self) -> list[tuple[int, ...]]:
        """For each unfinished sequence, the first output tokens that can no longer change.

        They are the common prefix of all hypotheses that may still become its best: the running
        ones and the best finished one.
        """
        running, continued = self.running, self.continued_flags()
        rows, width = running.generated.tolist(), running.width
        prefixes = []
        for index, request in enumerate(running.requests):
            sequence_rows = range(index * width, (index + 1) * width)
            hypotheses = [rows[row] for row in sequence_rows if continued[row]]
            if self.hypotheses[request.number]:
                hypotheses.append(list(min(self.hypotheses[request.number], key=by_score).ids))
            columns = zip(*hypotheses, strict=False)  # the tokens of all at each position
            common = takewhile(lambda column: len(set(column)) == 1, columns)
            prefixes.append(tuple(column[0] for column in common))
        return prefixes


class Sampling(Search):
    """Greedy decoding or sampling: each row continues independently with one token."""

    width_setting = "n_best"

    def start(self) -> None:
        """All rows are open; each has a random generator."""
        requests, config = self.running.requests, self.config
        self.open = [True] * (len(requests) * config.n_best)
        self.generators = {
            request.number: [generator(config.seed, request.key, i) for i in range(config.n_best)]
            for request in requests
        }

    def choose(self, logits: Tensor) -> Choice:
        """Takes one step; a sequence is finished when all its rows are."""
        running = self.running
        log_probs = logits.float().log_softmax(dim=1)  # (rows, vocab)
        # As in transformers, greedy and sampling filter logits, beam search log-probabilities.
        scores = running.filter_scores(logits.float(), self.config, self.symbols)
        forced = running.per_row(running.forced)
        free = [row for row, token in enumerate(forced) if token < 0]
        drawn = self._pick_tokens(scores, free)
        while self.forbidden is not None and (rejected := self._find_forbidden(drawn, free)):
            # Drawing again without the forbidden token is drawing from the other tokens.
            ruled_out = scores.clone()
            ruled_out[rejected, drawn[rejected]] = MINUS_INF
            scores = allow_end_if_stuck(ruled_out, scores, self.symbols.ends)
            # Without an end symbol, a row may have no other token left: it keeps the last one.
            free = [row for row in rejected if scores[row].amax() > MINUS_INF]
            drawn[free] = self._pick_tokens(scores, free)[free] if free else drawn[free]
        past_prefix = running.per_row([*map(running.free, running.requests)])
        tokens = [
            free_token if forced_token < 0 else forced_token
            for free_token, forced_token in zip(drawn.tolist(), forced, strict=True)
        ]
        column = torch.tensor(tokens, device=logits.device)[:, None]
        branches, gained = [], log_probs.gather(1, column)[:, 0].tolist()
        check_finite(gained)
        for row, gain in enumerate(gained):
            total = running.total[row] + (gain if past_prefix[row] else 0.0)
            branch = Branch(row, tokens[row], running.logprob[row] + gain, total)
            branches.append(self._finish_if_ended(branch, free=past_prefix[row]))
        return self._make_choice(branches)

    def _pick_tokens(self, scores: Tensor, rows: Sequence[int]) -> Tensor:
        """(rows, vocab) -> (rows,): a token for each row; random numbers are drawn for `rows`."""
        if self.config.sample:
            return self._sample_tokens(scores, rows)
        if scores.is_cpu:  # the first of the largest, as in PyTorch, in a tenth of the time
            return torch.from_numpy(scores.numpy().argmax(axis=1))
        return scores.argmax(dim=1)

    def _find_forbidden(self, drawn: Tensor, rows: Sequence[int]) -> list[int]:
        """The unfinished rows among `rows` whose token is forbidden; an end never is."""
        assert self.forbidden is not None
        tokens = drawn.tolist()
        return [
            row
            for row in rows
            if self.open[row]
            and tokens[row] not in self.symbols.ends
            and self.forbidden(self.running.history(row), tokens[row])
        ]

    def best_rows(self) -> list[int]:
        """The unfinished rows."""
        return [row for row, open_ in enumerate(self.open) if open_]

    def continued_flags(self) -> Sequence[bool]:
        """The unfinished samples."""
        return self.open

    def _finish_if_ended(self, branch: Branch, *, free: bool) -> Branch:
        """Stores the hypothesis if this token ends it; returns the branch to continue with."""
        row, running = branch.parent, self.running
        request = running.requests[row // running.width]
        ended = free and branch.token in self.symbols.ends
        if self.open[row] and (ended or running.full(request)):
            self.hypotheses[request.number].append(running.hypothesis(branch, ended=ended))
            self.open[row] = False
        # A finished row stays in the batch until the other rows of its sequence are finished.
        # Its tokens are ignored meanwhile.
        return branch if self.open[row] else branch._replace(token=self.symbols.pad)

    def _make_choice(self, branches: Sequence[Branch]) -> Choice:
        """Drops the sequences whose rows are all finished, and continues the rows of the others."""
        running, width = self.running, self.running.width
        is_open = [any(self.open[row : row + width]) for row in range(0, len(branches), width)]
        finished = [r.number for r, goes in zip(running.requests, is_open, strict=True) if not goes]
        rows = [row for row, goes in enumerate(running.per_row(is_open)) if goes]
        self.open = [self.open[row] for row in rows]
        keep = [index for index, goes in enumerate(is_open) if goes]
        parents, ids = running.follow([branches[row] for row in rows], keep)
        best_first = {number: sorted(self.hypotheses[number], key=by_score) for number in finished}
        return Choice(parents, ids, tuple(best_first.items()))

    def _sample_tokens(self, scores: Tensor, rows: Sequence[int]) -> Tensor:
        """(rows, vocab) -> (rows,): the token at which the cumulative probability exceeds u.

        u is 0 for the rows that are not among `rows`, or are finished: they need no random number.
        """
        running = self.running
        if scores.device.type == "mps":  # MPS has no float64
            scores = scores.cpu()
        reached = filter_for_sampling(scores, self.config).double().softmax(dim=1).cumsum(dim=1)
        check_finite(reached[:, -1].tolist())
        generators = [g for request in running.requests for g in self.generators[request.number]]
        # With 32 bits, u * total is less than total.
        u = [0.0] * len(generators)
        for row in rows:
            if self.open[row]:
                u[row] = generators[row].getrandbits(32) / 2**32
        point = torch.tensor(u, dtype=torch.float64, device=scores.device)[:, None]
        return torch.searchsorted(reached, point * reached[:, -1:], right=True)[:, 0]


class BeamSearch(Search):
    """Beam search: continues the `beam` best unfinished hypotheses of each sequence.

    The hypotheses are those of transformers' beam search: of the 2·beam best continuations (more
    with several end symbols), those among the first `beam` that end are stored as finished, and the
    first `beam` that do not end are continued. If there are fewer continuations than beams, as with
    a vocabulary smaller than the beam, the remaining beams have the sum -inf.
    """

    width_setting = "beam"

    def start(self) -> None:
        """All beams start equal. Only the first may be continued, or all would stay equal."""
        running = self.running
        running.total = [0.0, *[MINUS_INF] * (running.width - 1)] * len(running.requests)

    def choose(self, logits: Tensor) -> Choice:
        """Takes one step for all beams of all sequences with one top-k."""
        running, width, vocab = self.running, self.running.width, logits.shape[1]
        log_probs = logits.float().log_softmax(dim=1)  # (rows, vocab)
        ranked = running.filter_scores(log_probs, self.config, self.symbols)
        forced = running.forced
        if max(forced) >= 0:
            ranked = force(ranked, torch.tensor(running.per_row(forced), device=logits.device))
        before = torch.tensor(running.total, dtype=ranked.dtype, device=ranked.device)[:, None]
        sums = log_probs + before if ranked is log_probs else ranked.add_(before)
        # Enough for `width` unfinished ones, even if every beam's end symbols are among the best.
        count = max(2, 1 + len(self.symbols.ends)) * width
        sums = sums.view(-1, width * vocab)  # (sequences, width · vocab)
        totals, index = self._best_continuations(sums, min(count, width * vocab))
        gained = log_probs.view(-1, width * vocab).gather(1, index)
        candidates = [*zip(totals.tolist(), index.tolist(), gained.tolist(), strict=True)]
        check_finite([best_total for (best_total, *_), _, _ in candidates])

        running_branches, keep, done = [], [], []
        for i, request in enumerate(running.requests):
            branches = self._make_branches(i * width, vocab, *candidates[i])
            branches = self._store_ended(request, branches)
            if self._is_finished(request, branches[0].total):
                done.append((request.number, self.hypotheses[request.number][: self.config.n_best]))
            else:
                keep.append(i)
                running_branches += branches
        rows, ids = running.follow(running_branches, keep)
        return Choice(rows, ids, tuple(done))

    def best_rows(self) -> list[int]:
        """The row of the best beam of each sequence."""
        return list(range(0, len(self.running.total), self.running.width))

    def continued_flags(self) -> Sequence[bool]:
        """The beams that can still be continued."""
        return [total > MINUS_INF for total in self.running.total]

    def _best_continuations(self, sums: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The best allowed continuations of each sequence (see `best`): (sequences, count) each.

        Args:
            sums: (sequences, width · vocab) The ranking sum of every continuation.
            count: How many of them.
        """
        totals, index = best(sums, count)
        while forbidden := self._find_forbidden(totals, index, sums.shape[1] // self.running.width):
            sums = sums.clone()
            for row, at in forbidden:
                sums[row, at] = MINUS_INF
            totals, index = best(sums, count)
        return totals, index

    def _find_forbidden(self, totals: Tensor, index: Tensor, vocab: int) -> list[tuple[int, int]]:
        """The forbidden ones among the best continuations; an end or a forced token never is.

        Args:
            totals: (sequences, count) Their ranking sums.
            index: (sequences, count) Their indices in the flattened scores (width · vocab).
            vocab: Size of the vocabulary.

        Returns:
            The number of the sequence and the index of each.
        """
        if self.forbidden is None:
            return []
        running = self.running
        histories = [running.history(row) for row in range(len(running.total))]
        ranked = enumerate(zip(totals.tolist(), index.tolist(), strict=True))
        return [
            (number, at)
            for number, (sums, indices) in ranked
            for total, at in zip(sums, indices, strict=True)
            if total > MINUS_INF
            and at % vocab not in self.symbols.ends
            and running.forced[number] < 0
            and self.forbidden(histories[number * running.width + at // vocab], at % vocab)
        ]

    def _make_branches(
        self, first_row: int, vocab: int, totals: list[float], index: list[int], gained: list[float]
    ) -> list[Branch]:
        """The candidates of a sequence with the first row `first_row`, best first.

        Args:
            first_row: The sequence's first row.
            vocab: Size of the vocabulary.
            totals: The ranking sums of the candidates.
            index: Their indices in the flattened scores (width · vocab).
            gained: The unfiltered log-probabilities of their tokens.
        """
        logprob = self.running.logprob
        branches = []
        for total, at, gain in zip(totals, index, gained, strict=True):
            row = first_row + at // vocab
            branches.append(Branch(row, at % vocab, logprob[row] + gain, total))
        return branches

    def _store_ended(self, request: Request, branches: Sequence[Branch]) -> list[Branch]:
        """Stores ended branches among the first `width`; returns the first `width` others."""
        running, width = self.running, self.running.width
        free, full = running.free(request), running.full(request)
        running_branches, stopped = [], []
        for rank, branch in enumerate(branches):
            ended = free and branch.token in self.symbols.ends
            if not (ended or full):
                running_branches.append(branch)
                continue
            stopped.append(branch._replace(total=MINUS_INF))
            if rank < width and branch.total > MINUS_INF:
                self._store_hypothesis(request, running.hypothesis(branch, ended=ended))
        # If too few continue, fill up with branches whose total is -inf.
        return [*running_branches, *stopped][:width]

    def _store_hypothesis(self, request: Request, arrival: Hypothesis) -> None:
        """Adds a finished hypothesis to the `width` best ones of its sequence."""
        hypotheses, width = self.hypotheses[request.number], self.running.width
        if len(hypotheses) < width or arrival.score > hypotheses[-1].score:
            hypotheses.append(arrival)
            hypotheses.sort(key=by_score)
            del hypotheses[width:]

    def _is_finished(self, request: Request, leader: float) -> bool:
        """Whether the sequence is finished: no beam can continue, or the stopping rule applies.

        Args:
            request: The sequence.
            leader: The ranking sum of its best beam.
        """
        hypotheses, stop = self.hypotheses[request.number], self.config.stop
        alpha = self.running.length_penalty
        if leader == MINUS_INF:
            return True
        if len(hypotheses) < self.running.width:
            return False
        if stop == "first":
            return True
        length = self.running.length + 1 - request.uncounted
        if stop == "never" and alpha > 0:
            length = request.max_length  # the length with the best possible score of a continuation
        return leader / length**alpha <= hypotheses[-1].score


def check_finite(values: Sequence[float]) -> None:
    """Raises FoundProblems if the model's logits are not finite, given one value of each row.

    A NaN or +inf among the logits of a row, or all of them -inf, makes all its log-probabilities
    NaN; and the maximum over rows with a NaN is NaN. So one value of each row is enough.
    """
    if any(map(math.isnan, values)):
        fix = "its training may have diverged: take an earlier checkpoint"
        raise FoundProblems("the model gave numbers that are not finite", fix=fix)


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest scores of each row and their indices; of equal scores, the first ones.

    `topk` alone returns equal scores in an order that may change with the batch.

    Example:
        >>> best(torch.tensor([[1.0, 3.0, 1.0, 1.0]]), 2)
        (tensor([[3., 1.]]), tensor([[1, 0]]))
    """
    values, index = shortlist(scores, min(count + 1, scores.shape[1]))
    tied = [row for row, row_values in enumerate(values.tolist()) if _has_ties(row_values)]
    if tied:
        sorted_scores = scores[tied].sort(dim=1, descending=True, stable=True)
        values[tied], index[tied] = (tensor[:, : values.shape[1]] for tensor in sorted_scores)
    return values[:, :count], index[:, :count]


def _has_ties(values: Sequence[float]) -> bool:
    """Whether two neighbours are equal, and not -inf."""
    return any(value == next_ > MINUS_INF for value, next_ in pairwise(values))


def shortlist(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest scores of each row, in order, and their indices; ties in any order.

    Only the `count` blocks with the highest maxima can hold them. Computing the maxima of all
    blocks takes one fast pass; `topk` over a whole vocabulary takes several times as long.
    """
    rows, width = scores.shape
    blocks = width // BLOCK
    if blocks <= 2 * count:
        return scores.topk(count)
    last = blocks * BLOCK
    block_scores = scores[:, :last].view(rows, blocks, BLOCK)
    best_blocks = block_scores.amax(dim=2).topk(count).indices[..., None]  # (rows, count, 1)
    indices = (best_blocks * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    finalists = block_scores.gather(1, best_blocks.expand(-1, -1, BLOCK))
    finalists = finalists.flatten(1)  # (rows, count · BLOCK)
    if last < width:  # the incomplete last block is always included
        last_block = torch.arange(last, width, device=scores.device).expand(rows, -1)
        indices = torch.cat((indices, last_block), dim=1)
        finalists = torch.cat((finalists, scores[:, last:]), dim=1)
    values, index = finalists.topk(count)
    return values, indices.gather(1, index)


def force(scores: Tensor, tokens: Tensor) -> Tensor:
    """Forces tokens (rows,): the token's score becomes 0, all others -inf; -1 leaves the row."""
    forced = tokens >= 0
    scores = scores.masked_fill(forced[:, None], MINUS_INF)
    scores[forced, tokens[forced]] = 0
    return scores


def generator(seed: int, key: int, sample: int) -> Random:
    """The random generator of one sample of one sequence, independent of the batch."""
    digest = hashlib.sha256(f"{seed} {key} {sample}".encode()).digest()
    return Random(int.from_bytes(digest, "big"))


def by_score(hypothesis: Hypothesis) -> float:
    """Sort key: highest score first."""
    return -hypothesis.score
