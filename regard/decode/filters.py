"""What a model thinks of each next token -> what may be chosen: the adjustments between the two.

In: scores (rows, vocab), either logits or log-probabilities, and what each row has been fed so far.
Out: scores of the same shape; a token at -inf cannot be chosen. Each filter is a pure function that
computes what the processor of the same name in Hugging Face transformers computes. `constrain` and
`sharpen` put them together, in the order in which transformers applies them.
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

NEVER = float("-inf")
NOTHING = -1
"""In a history, where a row has no token because its prompt is shorter than another's."""


@dataclass(frozen=True)
class Symbols:
    """The tokens that have a role in decoding."""

    begin: int
    end: int
    pad: int
    banned: tuple[int, ...] = ()
    """Tokens that are never generated: usually padding and begin, perhaps unknown."""
    other_ends: tuple[int, ...] = ()
    """Tokens that end a text as well."""

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """All tokens that end a text; none where the end is below 0."""
        return tuple(token for token in (self.end, *self.other_ends) if token >= 0)

    def as_set(self, config: DecodeConfig) -> Symbols:
        """These symbols, with what the settings put in their place."""
        begin = self.begin if config.begin is None else config.begin
        end, *others = config.ends or (self.end, *self.other_ends)
        return replace(self, begin=begin, end=end, other_ends=tuple(others))


def repetition_penalty(scores: Tensor, history: Tensor, penalty: float) -> Tensor:
    """Makes tokens that a row already holds less likely, whatever the sign of their score.

    CTRL (Keskar et al. 2019, section 4.1) divides by the penalty; a negative score is multiplied.

    Args:
        scores: (rows, vocab)
        history: (rows, length), all that was fed to the model, begin included.
        penalty: 1 changes nothing, more discourages.
    """
    # The last token of a row is always one; it may count twice.
    history = torch.where(history == NOTHING, history[:, -1:], history)
    seen = scores.gather(1, history)  # (rows, length)
    return scores.scatter(1, history, torch.where(seen < 0, seen * penalty, seen / penalty))


def no_repeat_ngram(scores: Tensor, history: Tensor, size: int) -> Tensor:
    """Bans each token that would complete a run of `size` tokens that the row already holds.

    Args:
        scores: (rows, vocab)
        history: (rows, length), all that was fed to the model, begin included.
        size: Tokens in a run; with 1 no token comes twice.
    """
    length = history.shape[1]
    if length < size:
        return scores
    runs = history.unfold(1, size, 1)  # (rows, runs, size)
    opening = history[:, length + 1 - size :]  # (rows, size - 1): what the next token would close
    same = (runs[..., :-1] == opening[:, None]).all(-1) & (runs[..., -1] != NOTHING)
    row, run = same.nonzero(as_tuple=True)
    return scores.index_put((row, runs[row, run, -1]), scores.new_tensor(NEVER))


def ban(scores: Tensor, tokens: Sequence[int], ends: Sequence[int], early: Tensor | None) -> Tensor:
    """Bans tokens in every row, and what ends a text in rows that are still `early`: (rows,)."""
    scores = scores.clone()
    for token in tokens:
        scores[:, token] = NEVER
    if early is not None:
        for end in ends:
            scores[:, end].masked_fill_(early, NEVER)
    return scores


def leave_a_way_out(scores: Tensor, before: Tensor, ends: Sequence[int]) -> Tensor:
    """Where every token is banned, lets the row end, at the score the end had `before`."""
    stuck = scores.amax(dim=1) == NEVER
    if not ends or not stuck.any():
        return scores
    scores, end = scores.clone(), ends[0]
    # If the model itself rules the end out, ending is still better than a token that is banned.
    scores[stuck, end] = before[stuck, end].clamp(min=torch.finfo(scores.dtype).min)
    return scores


def temperature(scores: Tensor, value: float) -> Tensor:
    """Flattens (above 1) or sharpens (below 1): softmax(scores / T)."""
    return scores / value


def top_k(scores: Tensor, count: int) -> Tensor:
    """Keeps the `count` likeliest tokens, and those that tie with the last of them."""
    last = scores.topk(min(count, scores.shape[1])).values[:, -1:]
    return scores.masked_fill(scores < last, NEVER)


def top_p(scores: Tensor, mass: float) -> Tensor:
    """Keeps the fewest likeliest tokens that together have at least this probability.

    Nucleus sampling (Holtzman et al. 2020, equation 2).
    """
    ordered, token = scores.sort(dim=1, descending=True, stable=True)
    probability = ordered.softmax(dim=1)
    before = probability.cumsum(dim=1) - probability  # mass of the tokens that are likelier
    drop = before >= mass
    drop[:, 0] = False
    return scores.masked_fill(drop.scatter(1, token, drop), NEVER)


def min_p(scores: Tensor, share: float) -> Tensor:
    """Keeps tokens that have at least this share of the likeliest token's probability."""
    probability = scores.softmax(dim=1)
    return scores.masked_fill(probability < share * probability.amax(dim=1, keepdim=True), NEVER)


def constrain(
    scores: Tensor, history: Tensor, early: Tensor | None, config: DecodeConfig, symbols: Symbols
) -> Tensor:
    """Applies what every search obeys: repetition control, banned tokens, the minimal length.

    Args:
        scores: (rows, vocab); left as it is, and returned itself if no filter acts.
        history: (rows, length), all that was fed to the model, begin included.
        early: (rows,) True while a row may not end yet; None if all may.
        config: Which filters act, and how strongly.
        symbols: The end symbol and the banned tokens.
    """
    given = scores
    if config.repetition_penalty != 1:
        scores = repetition_penalty(scores, history, config.repetition_penalty)
    if config.no_repeat_ngram:
        scores = no_repeat_ngram(scores, history, config.no_repeat_ngram)
    banned = (*symbols.banned, *config.banned)
    if banned or early is not None:
        scores = ban(scores, banned, symbols.ends, early)
    return scores if scores is given else leave_a_way_out(scores, given, symbols.ends)


def sharpen(scores: Tensor, config: DecodeConfig) -> Tensor:
    """Applies what sampling adds: temperature, top-k, top-p, min-p, in this order."""
    if config.temperature != 1:
        scores = temperature(scores, config.temperature)
    if config.top_k:
        scores = top_k(scores, config.top_k)
    if config.top_p < 1:
        scores = top_p(scores, config.top_p)
    if config.min_p:
        scores = min_p(scores, config.min_p)
    return scores
