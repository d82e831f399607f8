"""One call of an attention function -> the product that it computes, in our words.

In come what a `transformers` layer passes to its attention function: queries, keys, values, a mask
in one of four forms, and options. Out goes a `Product`, from which scores and weights follow:

    weights = softmax(cap(q kᵀ · scaling) + bias), over the keys that a query may look at
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.layers import Layout, Mask
from regard.layers.tap.product import Product

UNREAD = ("cu_seq_lens_q", "cu_seqlens", "cache", "head_mask", "block_table")
"""Options that change the weights in ways we do not follow."""
SITE = "layer"
"""What a tap calls the layer of the call it serves."""
ONE = Layout((1,))
"""A product has rows as people count them: every row of the batch is one."""


@dataclass(frozen=True)
class Score:
    """q kᵀ · scaling, and, if there is a cap, cap · tanh(… / cap) of it (Gemma 2)."""

    scaling: float
    cap: float | None = None

    def scores(self, q: Tensor, k: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """(batch, heads, query, key)."""
        del heads  # all have the same
        scores = (q @ k.transpose(-2, -1)) * self.scaling
        return scores if self.cap is None else self.cap * torch.tanh(scores / self.cap)


@dataclass(frozen=True)
class Call:
    """What a layer passed to its attention function.

    Attributes:
        name: The layer's.
        module: The layer.
        implementation: The name of the function: it decides what a missing mask means.
        q: Queries (batch, heads, query, head_dim).
        k: Keys (batch, kv_heads, key, head_dim).
        v: Values (batch, kv_heads, key, head_dim).
        mask: None; padding (batch, key); who may look (batch, 1, query, key); or what is added to
            the scores.
        options: The rest, by name.
    """

    name: str
    module: nn.Module
    implementation: str
    q: Tensor
    k: Tensor
    v: Tensor
    mask: Any
    options: Mapping[str, Any]

    @property
    def sinks(self) -> Tensor | None:
        """A score for each head that takes its share of the weights, and gives nothing."""
        return self.options.get("s_aux")

    @property
    def dropout(self) -> float:
        """How many of the weights are dropped in this pass."""
        return float(self.options.get("dropout") or 0.0)

    def product(self) -> Product:
        """Its scores and weights, not yet computed.

        Sinks are one more key, behind all others: drop the last column.

        Raises:
            InputError: For options that we cannot read.
        """
        self._check()
        q, k, v = self.q, self.k, self.v
        if q.dtype in (torch.bfloat16, torch.float16):  # kernels take the softmax in float32 too
            q, k, v = q.float(), k.float(), v.float()
        scaling = self.options.get("scaling")
        score = Score(
            q.shape[-1] ** -0.5 if scaling is None else float(scaling), self.options.get("softcap")
        )
        mask, bias = self._rules()
        bias = None if bias is None else bias.to(q.dtype)
        product = Product(SITE, score, q, k, v, mask, bias, ONE, ONE)
        return product if self.sinks is None else _with_sink(product, self.sinks)

    def _check(self) -> None:
        got = next((name for name in UNREAD if self.options.get(name) is not None), None)
        if got is None and self.mask is not None:
            known = (2, 4) if "flash" in self.implementation else (4,)
            if not isinstance(self.mask, Tensor):
                got = f"a mask of type {type(self.mask).__name__}"
            elif self.mask.dim() not in known:
                got = f"a mask of shape {tuple(self.mask.shape)}"
        if got is not None:
            raise InputError(
                f"{self.name} cannot be watched in this call",
                got=got,
                expected="rows of a batch, and no mask or one of (batch, heads, query, key)",
            )

    def _rules(self) -> tuple[Mask, Tensor | None]:
        """Who may look at whom, and what is added to the scores."""
        added: Tensor | None = self.options.get("position_bias")
        if self.mask is None or self.mask.dim() == 2:
            mask, bias = self._plain_rules(), added
        else:
            # a mask made for a cache may be longer than what the cache holds
            given = self.mask[..., : self.k.shape[2]]
            if given.dtype != torch.bool:
                # Where all keys are at the lowest number, they share the weight: so the model does.
                # -inf denies.
                mask, bias = (
                    Mask(extra=~given.isneginf()),
                    given if added is None else added + given,
                )
            elif added is None:
                mask, bias = Mask(extra=given), None
            else:  # beside a bias, the kernel gets a boolean mask as its lowest number
                mask, bias = Mask(), torch.where(given, added, torch.finfo(added.dtype).min)
        if bias is None:
            return mask, None
        sizes = self.q.shape[1], self.q.shape[2], self.k.shape[2]
        return mask, bias.expand(bias.shape[0], *sizes)  # (batch or 1, heads, query, key)

    def _plain_rules(self) -> Mask:
        """What the function does by itself, without a mask of (query, key)."""
        batch, _, queries, _ = self.q.shape
        keys = self.k.shape[2]
        causal = self.options.get("is_causal")
        causal = bool(getattr(self.module, "is_causal", True) if causal is None else causal)
        if "flash" in self.implementation:  # queries are the last of the keys, as with us
            window = self.options.get("sliding_window")
            real = None if self.mask is None else self.mask[:, None, None, -keys:].bool()
            return Mask(causal=causal, window=window and window - 1, extra=real)
        if self.implementation == "eager" or not causal or queries == 1:
            return Mask()
        if queries == keys:
            return Mask(causal=True)
        # queries are the *first* of the keys: the rest of a static cache is still empty
        lengths = (queries,) * batch
        return Mask(causal=True, key_lengths=lengths, query_lengths=lengths)


def _with_sink(product: Product, sinks: Tensor) -> Product:
    """One more key of zeros, with a score of its own for each head, and a value of zeros."""
    batch, heads, queries, _ = product.q.shape
    keys = product.k.shape[2]
    bias = product.q.new_zeros(batch, heads, queries, keys + 1)
    if product.bias is not None:
        bias[..., :-1] = product.bias
    bias[..., -1] = sinks.detach().float().view(1, heads, 1)
    allowed = product.mask.dense(queries, keys, product.k.device)
    mask = Mask() if allowed is None else Mask(extra=nn.functional.pad(allowed, (0, 1), value=True))
    more = [nn.functional.pad(x, (0, 0, 0, 1)) for x in (product.k, product.v)]
    return replace(product, k=more[0], v=more[1], mask=mask, bias=bias)
