"""One call of a `transformers` attention function as a `Product` of `regard.layers`.

Input: the arguments that a `transformers` layer passes to its attention function: queries, keys,
values, a mask in one of four forms, and options. Output: a `Product`, which computes

    weights = softmax(cap(q kᵀ · scaling) + bias), over the keys that the mask allows
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

UNSUPPORTED = ("cu_seq_lens_q", "cu_seqlens", "cache", "head_mask", "block_table")
"""Options that change the weights in ways we do not support."""
SITE = "layer"
"""The layer's name in the sites of a tap: each call has its own tap, so one name is enough."""
ONE_TEXT = Layout((1,))
"""Both layouts of a product: they are equal, so each row of the batch is recorded as it is."""


@dataclass(frozen=True)
class Score:
    """The score q kᵀ · scaling; with a cap, cap · tanh(q kᵀ · scaling / cap) (Gemma 2)."""

    scaling: float
    cap: float | None = None
    hard: bool = False

    def scores(self, q: Tensor, k: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """The scores (batch, heads, query, key)."""
        del heads  # all heads share scaling and cap
        scores = (q @ k.transpose(-2, -1)) * self.scaling
        return scores if self.cap is None else self.cap * torch.tanh(scores / self.cap)


@dataclass(frozen=True)
class Call:
    """The arguments that a layer passed to its attention function.

    Attributes:
        name: The layer's name.
        module: The layer.
        implementation: The name of the attention function; it decides what a missing mask means.
        q: Queries (batch, heads, query, head_dim).
        k: Keys (batch, kv_heads, key, head_dim).
        v: Values (batch, kv_heads, key, head_dim).
        mask: None; a padding mask (batch, key); a boolean mask (batch, 1, query, key); or a float
            mask that is added to the scores.
        options: The remaining arguments, by name.
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
        """The attention sinks: one more score per head that enters the softmax with value 0."""
        return self.options.get("s_aux")

    @property
    def dropout(self) -> float:
        """The dropout probability of the weights in this call."""
        return float(self.options.get("dropout") or 0.0)

    def product(self) -> Product:
        """The product from which scores and weights are computed on demand.

        Sinks are one more key after all others: the caller drops the last column.

        Raises:
            InputError: For options or masks that are not supported.
        """
        self._check()
        q, k, v = self.q, self.k, self.v
        if q.dtype in (torch.bfloat16, torch.float16):  # as kernels do for the softmax
            q, k, v = q.float(), k.float(), v.float()
        scaling = self.options.get("scaling")
        scaling = q.shape[-1] ** -0.5 if scaling is None else float(scaling)
        score = Score(scaling, self.options.get("softcap"))
        mask, bias = self._mask_and_bias()
        bias = None if bias is None else bias.to(q.dtype)
        product = Product(SITE, score, q, k, v, mask, bias, ONE_TEXT, ONE_TEXT)
        return product if self.sinks is None else _with_sink(product, self.sinks)

    def _check(self) -> None:
        got = next((name for name in UNSUPPORTED if self.options.get(name) is not None), None)
        if got is None and self.mask is not None:
            supported_dims = (2, 4) if "flash" in self.implementation else (4,)
            if not isinstance(self.mask, Tensor):
                got = f"a mask of type {type(self.mask).__name__}"
            elif self.mask.dim() not in supported_dims:
                got = f"a mask of shape {tuple(self.mask.shape)}"
        if got is not None:
            what = f"{self.name} cannot be watched in this call"
            expected = "rows of a batch, and no mask or one of (batch, heads, query, key)"
            raise InputError(what, got=got, expected=expected)

    def _mask_and_bias(self) -> tuple[Mask, Tensor | None]:
        """The mask, and the bias that is added to the scores: (batch or 1, heads, query, key)."""
        position_bias: Tensor | None = self.options.get("position_bias")
        if self.mask is None or self.mask.dim() == 2:
            mask, bias = self._default_mask(), position_bias
        else:
            # a mask made for a static cache may be longer than the keys
            key_mask = self.mask[..., : self.k.shape[2]]
            if key_mask.dtype != torch.bool:
                # Only -inf masks a key. In a row where all keys have finfo.min, the weights are
                # uniform, as in the model.
                mask = Mask(extra=~key_mask.isneginf())
                bias = key_mask if position_bias is None else position_bias + key_mask
            elif position_bias is None:
                mask, bias = Mask(extra=key_mask), None
            else:  # with a bias, masked keys get finfo.min, as in the kernel
                lowest = torch.finfo(position_bias.dtype).min
                mask, bias = Mask(), torch.where(key_mask, position_bias, lowest)
        if bias is None:
            return mask, None
        sizes = self.q.shape[1], self.q.shape[2], self.k.shape[2]
        return mask, bias.expand(bias.shape[0], *sizes)  # (batch or 1, heads, query, key)

    def _default_mask(self) -> Mask:
        """The mask that the function applies by itself if it gets no mask of (query, key)."""
        batch, _, queries, _ = self.q.shape
        keys = self.k.shape[2]
        causal = self.options.get("is_causal")
        causal = bool(getattr(self.module, "is_causal", True) if causal is None else causal)
        if "flash" in self.implementation:  # queries are the last of the keys, as in Mask
            window = self.options.get("sliding_window")
            real = None if self.mask is None else self.mask[:, None, None, -keys:].bool()
            return Mask(causal=causal, window=window and window - 1, extra=real)
        if self.implementation == "eager" or not causal or queries == 1:
            return Mask()
        if queries == keys:
            return Mask(causal=True)
        # queries are the *first* of the keys: the rest of the static cache is still empty
        lengths = (queries,) * batch
        return Mask(causal=True, key_lengths=lengths, query_lengths=lengths)


def _with_sink(product: Product, sinks: Tensor) -> Product:
    """Append a key and a value of zeros, with the sink of each head as its score (a bias)."""
    batch, heads, queries, _ = product.q.shape
    keys = product.k.shape[2]
    bias = product.q.new_zeros(batch, heads, queries, keys + 1)
    if product.bias is not None:
        bias[..., :-1] = product.bias
    bias[..., -1] = sinks.detach().float().view(1, heads, 1)
    allowed = product.mask.dense(queries, keys, product.k.device)
    mask = Mask() if allowed is None else Mask(extra=nn.functional.pad(allowed, (0, 1), value=True))
    padded = [nn.functional.pad(x, (0, 0, 0, 1)) for x in (product.k, product.v)]
    return replace(product, k=padded[0], v=padded[1], mask=mask, bias=bias)
