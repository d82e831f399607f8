"""The scores of attention: how much each query takes of each key, and the weighted sum of values.

In: q, k and v (batch, heads, length, head_dim), a mask, and a bias on the scores. Out: for each
query softmax(score(q, k) + bias) v, by PyTorch's fused kernel where there is one, else in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.kernels.dropout import drop, gumbel
from regard.kernels.small_batches import attend_few
from regard.layers.masks import Mask

SCORES = ("scaled_dot", "dot", "additive", "cosine", "location")


class DotScore(nn.Module):
    """Dot-product score scale · q·k, computed by PyTorch's fused kernel.

    Args:
        scale: Factor on the product: 1/√d_k for the scaled dot product, 1 for the plain one.
        hard: Whether each query takes the value of its best key alone (`hardmax`).
        sampled: Whether that key is drawn from the softmax in training, if hard.
    """

    by_row = False
    """Whether the kernel is chosen by the queries of a row, not of a batch; so in 8 bits, where a
    difference of the last bit is rounded to a whole step now and then."""

    def __init__(self, scale: float, *, hard: bool = False, sampled: bool = False) -> None:
        super().__init__()
        self.scale, self.hard, self.sampled = scale, hard, sampled

    def scores(self, q: Tensor, k: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """q kᵀ · scale: (batch, heads, query, key)."""
        del heads
        return (q * self.scale) @ k.transpose(-2, -1)  # scaling q costs less than the scores

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, dropout: float
    ) -> Tensor:
        """softmax(q kᵀ · scale + bias) v: (batch, heads, query, head_dim).

        Uses the fused kernel, except with dropout or if hard: these are computed step by step.
        """
        if dropout or self.hard:
            choice = _key_choice(self)
            return attend_unfused(self.scores, q, k, v, mask, bias, dropout, choice=choice)
        few_queries_out = attend_few(q, k, v, mask, bias, self.scale, by_row=self.by_row)
        if few_queries_out is not None:
            return few_queries_out
        outs = []
        for queries, keys, allowed, causal in mask.kernel_calls(q.shape[2], k.shape[2], q.device):
            if bias is not None:  # the kernel takes one tensor only: merge the mask into the bias
                if causal:
                    allowed, causal = mask.dense(q.shape[2], k.shape[2], q.device), False
                added = bias[:, :, queries, keys]
                allowed = added if allowed is None else added.masked_fill(~allowed, float("-inf"))
            out = F.scaled_dot_product_attention(
                _select_positions(q, queries),
                _select_positions(k, keys),
                _select_positions(v, keys),
                attn_mask=allowed,
                is_causal=causal,
                scale=self.scale,
                enable_gqa=q.shape[1] != k.shape[1],
            )
            outs.append(out)
        return outs[0] if len(outs) == 1 else torch.cat(outs, dim=2)  # along the queries


def _select_positions(x: Tensor, positions: slice) -> Tensor:
    """x[:, :, positions] of x (batch, heads, length, head_dim); x itself if that is all of it."""
    return x if positions == slice(0, x.shape[2]) else x[:, :, positions]


class AdditiveScore(nn.Module):
    """v·tanh(W q + U k) (Bahdanau et al. 2015). W and U are the layer's query and key matrices."""

    def __init__(
        self, heads: int, head_dim: int, *, hard: bool = False, sampled: bool = False
    ) -> None:
        super().__init__()
        self.hard, self.sampled = hard, sampled
        self.vector = nn.Parameter(torch.empty(heads, head_dim))
        nn.init.xavier_uniform_(self.vector)

    def scores(self, q: Tensor, k: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """v·tanh(q + k): (batch, heads, query, key).

        The intermediate tensor is (batch, heads, query, key, head_dim). `heads` selects rows of
        the vector v if q and k hold only some of the layer's heads.
        """
        vector = self.vector if heads is None else self.vector[list(heads)]
        return torch.einsum(
            "bhqkd,hd->bhqk", (q[..., :, None, :] + k[..., None, :, :]).tanh(), vector
        )

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, dropout: float
    ) -> Tensor:
        """softmax(scores + bias) v, step by step: no fused kernel supports this score."""
        choice = _key_choice(self)
        return attend_unfused(self.scores, q, k, v, mask, bias, dropout, choice=choice)


def _key_choice(score: DotScore | AdditiveScore) -> str:
    """How keys are chosen now: `soft`, `best`, or `sampled` in training."""
    if not score.hard:
        return "soft"
    return "sampled" if score.sampled and score.training else "best"


def attend_unfused(
    score: Callable[[Tensor, Tensor], Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    bias: Tensor | None,
    dropout: float,
    *,
    choice: str = "soft",
) -> Tensor:
    """dropout(softmax(score(q, k) + bias)) v, step by step, where no fused kernel applies.

    With the choice `best`, the largest weight of each query becomes 1 and all others 0. With
    `sampled`, Gumbel noise is added to the scores before: the best key of scores + noise is a draw
    from softmax(scores), and the gradient is that of softmax(scores + noise) (straight-through
    Gumbel-softmax at temperature 1, Jang et al. 2017).

    Returns:
        (batch, heads, query, head_dim).
    """
    if k.shape[1] != q.shape[1]:  # grouped heads
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scores = score(q, k) if bias is None else score(q, k) + bias
    scores = scores + gumbel(scores) if choice == "sampled" else scores
    weights = masked_softmax(scores, mask.dense(q.shape[2], k.shape[2], q.device))
    weights = weights if choice == "soft" else hardmax(weights)
    return drop(weights, dropout) @ v


def make_score(
    score: str, heads: int, head_dim: int, *, hard: bool | str
) -> DotScore | AdditiveScore:
    """Builds the score function; raises InputError if its name or `hard` is unknown."""
    if score not in SCORES:
        raise InputError("score", got=score, expected=f"one of {', '.join(SCORES)}")
    if hard not in (False, True, "sampled"):
        raise InputError("hard", got=hard, expected="True, False or sampled")
    choice = {"hard": bool(hard), "sampled": hard == "sampled"}
    if score == "additive":
        return AdditiveScore(heads, head_dim, **choice)
    return DotScore(head_dim**-0.5 if score == "scaled_dot" else 1.0, **choice)


def hardmax(weights: Tensor) -> Tensor:
    """Hard attention: 1 at the largest weight of each query, 0 elsewhere; the same shape.

    The gradient is straight-through: that of the weights, as if attention were soft. A row of zeros
    stays zeros.

    Example:
        >>> hardmax(torch.tensor([[0.2, 0.5, 0.3], [0.0, 0.0, 0.0]]))
        tensor([[0., 1., 0.],
                [0., 0., 0.]])
    """
    best_key = weights.argmax(-1, keepdim=True)
    one_hot = torch.zeros_like(weights).scatter(
        -1, best_key, (weights.gather(-1, best_key) > 0).to(weights)
    )
    # The value is exactly `one_hot`; the gradient is that of `weights`.
    return one_hot + (weights - weights.detach())


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the allowed keys of each query: (batch, heads, query, key).

    Rows without an allowed key become zeros.

    Example:
        >>> nothing = torch.tensor([[True, True], [False, False]])
        >>> masked_softmax(torch.zeros(2, 2), nothing)
        tensor([[0.5000, 0.5000],
                [0.0000, 0.0000]])
    """
    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
    return weights.masked_fill(~mask, 0.0)  # the NaN of a fully masked row becomes 0
