"""Filters on the scores of the next token: repetition penalty, banned tokens, top-k, top-p, min-p.

In: scores (rows, vocab), either logits or log-probabilities, and the tokens of each row so far.
Out: scores of the same shape; a token with -inf cannot be chosen. Each filter is a pure function
that computes the same as the processor of that name in Hugging Face transformers. `constrain` and
`filter_for_sampling` combine them, in the order in which transformers applies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from regard.decode.config import DecodeConfig

MINUS_INF = float("-inf")
NO_TOKEN = -1
"""Left padding in a history, where a prompt is shorter than the longest one."""


@dataclass(frozen=True)
class Symbols:
    """The special tokens of decoding."""

    begin: int
    end: int
    pad: int
    banned: tuple[int, ...] = ()
    """Tokens that are never generated: usually padding and begin, perhaps unknown."""
    other_ends: tuple[int, ...] = ()
    """Further tokens that end a text."""

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """All tokens that end a text; negative ones are left out."""
        return tuple(token for token in (self.end, *self.other_ends) if token >= 0)

    def with_overrides(self, config: DecodeConfig) -> Symbols:
        """These symbols, with `begin` and `ends` replaced where the config sets them."""
        begin = self.begin if config.begin is None else config.begin
        end, *other_ends = config.ends or (self.end, *self.other_ends)
        return replace(self, begin=begin, end=end, other_ends=tuple(other_ends))


def repetition_penalty(scores: Tensor, history: Tensor, penalty: float) -> Tensor:
    """Lowers the scores of tokens that a row already contains.

    Positive scores are divided by the penalty (CTRL, Keskar et al. 2019, section 4.1), negative
    ones multiplied.

    Args:
        scores: (rows, vocab)
        history: (rows, length), all tokens that were fed to the model, begin included.
        penalty: 1 changes nothing, more makes repetition less likely.
    """
    # Replace padding by the row's last token, which is never padding; a duplicate has no effect.
    history = torch.where(history == NO_TOKEN, history[:, -1:], history)
    before = scores.gather(1, history)  # (rows, length)
    return scores.scatter(1, history, torch.where(before < 0, before * penalty, before / penalty))


def no_repeat_ngram(scores: Tensor, history: Tensor, size: int) -> Tensor:
    """Bans each token that would complete an n-gram of `size` tokens that the row already contains.

    Args:
        scores: (rows, vocab)
        history: (rows, length), all tokens that were fed to the model, begin included.
        size: n of the n-grams; with 1 no token occurs twice.
    """
    length = history.shape[1]
    if length < size:
        return scores
    runs = history.unfold(1, size, 1)  # (rows, runs, size)
    opening = history[:, length + 1 - size :]  # (rows, size - 1): the next n-gram's beginning
    matches = (runs[..., :-1] == opening[:, None]).all(-1) & (runs[..., -1] != NO_TOKEN)
    row, run = matches.nonzero(as_tuple=True)
    return scores.index_put((row, runs[row, run, -1]), scores.new_tensor(MINUS_INF))


def ban(scores: Tensor, tokens: Sequence[int], ends: Sequence[int], early: Tensor | None) -> Tensor:
    """Bans `tokens` in every row, and `ends` in the rows where `early` (rows,) is True."""
    scores = scores.clone()
    for token in tokens:
        scores[:, token] = MINUS_INF
    if early is not None:
        for end in ends:
            scores[:, end].masked_fill_(early, MINUS_INF)
    return scores


def allow_end_if_stuck(scores: Tensor, before: Tensor, ends: Sequence[int]) -> Tensor:
    """Where every token is banned, allows the end symbol again, with its score from `before`."""
    best = scores.amax(dim=1)
    if not ends or MINUS_INF not in best.tolist():
        return scores
    scores, end, stuck = scores.clone(), ends[0], best == MINUS_INF
    # If the model itself gives the end -inf, ending is still better than a banned token.
    scores[stuck, end] = before[stuck, end].clamp(min=torch.finfo(scores.dtype).min)
    return scores


def temperature(scores: Tensor, value: float) -> Tensor:
    """Flattens (above 1) or sharpens (below 1): softmax(scores / T)."""
    return scores / value


def top_k(scores: Tensor, count: int) -> Tensor:
    """Keeps the `count` most likely tokens, and those that tie with the last of them."""
    threshold = scores.topk(min(count, scores.shape[1])).values[:, -1:]
    return scores.masked_fill(scores < threshold, MINUS_INF)


def top_p(scores: Tensor, mass: float) -> Tensor:
    """Keeps the smallest set of most likely tokens with at least this total probability.

    Nucleus sampling (Holtzman et al. 2020, equation 2).
    """
    ordered, token = scores.sort(dim=1, descending=True, stable=True)
    probability = ordered.softmax(dim=1)
    before = probability.cumsum(dim=1) - probability  # total probability of more likely tokens
    drop = before >= mass
    drop[:, 0] = False
    return scores.masked_fill(drop.scatter(1, token, drop), MINUS_INF)


def min_p(scores: Tensor, share: float) -> Tensor:
    """Keeps tokens with at least this fraction of the most likely token's probability."""
    probability = scores.softmax(dim=1)
    return scores.masked_fill(
        probability < share * probability.amax(dim=1, keepdim=True), MINUS_INF
    )


def constrain(
    scores: Tensor, history: Tensor, early: Tensor | None, config: DecodeConfig, symbols: Symbols
) -> Tensor:
    """Applies the filters of all searches: repetition control, banned tokens, minimum length.

    Args:
        scores: (rows, vocab); not modified, and returned itself if no filter applies.
        history: (rows, length), all tokens that were fed to the model, begin included.
        early: (rows,) True where a row is too short to end; None if no row is.
        config: The settings of the filters.
        symbols: The end symbols and the banned tokens.
    """
    unfiltered = scores
    if config.repetition_penalty != 1:
        scores = repetition_penalty(scores, history, config.repetition_penalty)
    if config.no_repeat_ngram:
        scores = no_repeat_ngram(scores, history, config.no_repeat_ngram)
    banned = (*symbols.banned, *config.banned)
    if banned or early is not None:
        scores = ban(scores, banned, symbols.ends, early)
    return scores if scores is unfiltered else allow_end_if_stuck(scores, unfiltered, symbols.ends)


def filter_for_sampling(scores: Tensor, config: DecodeConfig) -> Tensor:
    """Applies the filters of sampling: temperature, top-k, top-p, min-p, in this order."""
    if config.temperature != 1:
        scores = temperature(scores, config.temperature)
    if config.top_k:
        scores = top_k(scores, config.top_k)
    if config.top_p < 1:
        scores = top_p(scores, config.top_p)
    if config.min_p:
        scores = min_p(scores, config.min_p)
    return scores
