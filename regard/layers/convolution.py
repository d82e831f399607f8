"""Convolutions over the tokens of a text: each token is mixed with its neighbours.

    glu(W [x_{t-k+1}; …; x_t])                        ConvS2S, in a decoder (Gehring et al. 2017)
    W_2 swish(norm(depthwise(glu(W_1 x))))            the Conformer's module (Gulati et al. 2020)

A depthwise convolution has k weights per feature, y_t = Σ_j w_j x_{t+j}. Each sequence is padded
with zeros on its own, so that the result does not depend on the others in the batch.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.kernels.linear import Linear
from regard.layers.context import Context
from regard.layers.mixer import Mixer
from regard.layers.norms import norm


class OverTime(Mixer):
    """Base class of convolutions: k tokens around each token, or the token and the k - 1 before it.

    Args:
        dim: Width of x.
        name: The layer's name, such as `encoder.2.convolution`.
        kernel: Kernel size in tokens, the token itself included.
        causal: Whether the kernel covers only the token and those before it.
    """

    def __init__(self, dim: int, name: str, kernel: int, *, causal: bool) -> None:
        super().__init__()
        if kernel < 1 or not (causal or kernel % 2):
            raise InputError("kernel", got=kernel, expected="an odd number, to have a middle")
        self.input_width, self.name, self.kernel, self.has_state = dim, name, kernel, causal

    def start(self, rows: int, like: Tensor) -> tuple[Tensor, ...]:
        """The initial state: zeros (rows, k - 1, dim) for the k - 1 inputs before the first."""
        return (like.new_zeros(rows, self.kernel - 1, self.input_width),)

    def pad_rows(self, x: Tensor, ctx: Context) -> Tensor:
        """Packed tokens (tokens, dim) -> rows with k - 1 more tokens, (batch, length + k - 1, dim).

        Zeros are added on both sides. A causal convolution adds only before the tokens: the last
        k - 1 inputs of the cache, or zeros without a cache.
        """
        layout, rows = ctx.layout, ctx.layout.pad(x)  # (batch, length, dim)
        if not self.has_state:  # not causal
            side = self.kernel // 2
            return F.pad(rows, (0, 0, side, side))
        if ctx.cache is None:
            return F.pad(rows, (0, 0, self.kernel - 1, 0))
        rows = torch.cat((ctx.cache.states[self.slot][0], rows), 1)
        ctx.cache.states[self.slot] = (self._last_inputs(rows, layout.lengths),)
        return rows

    def _last_inputs(self, rows: Tensor, lengths: tuple[int, ...]) -> Tensor:
        """The last k - 1 inputs of each row, of (batch, k - 1 + length, dim)."""
        indices = torch.tensor(lengths)[:, None] + torch.arange(self.kernel - 1)  # (batch, k - 1)
        row = torch.arange(len(lengths), device=rows.device)[:, None]
        return rows[row, indices.to(rows.device)]


class GatedConvolution(OverTime):
    """ConvS2S's convolution: one half of its output gates the other, a ⊗ σ(b).

    Args:
        dim: Width of x.
        name: The layer's name, such as `encoder.2.gated_convolution`.
        kernel: Kernel size in tokens, the token itself included.
        causal: Whether the kernel covers only the token and those before it.
        bias: Whether the convolution has a bias.

    Example:
        >>> from regard.layers import plain_context
        >>> GatedConvolution(8, kernel=3)(torch.randn(5, 8), plain_context((2, 3))).shape
        torch.Size([5, 8])
    """

    def __init__(
        self,
        dim: int,
        name: str = "gated_convolution",
        *,
        kernel: int = 3,
        causal: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__(dim, name, kernel, causal=causal)
        self.into = Linear(kernel * dim, 2 * dim, bias=bias)

    def matrices(self) -> tuple[Tensor, ...]:
        """The matrices of the values and of the gates, (dim, k · dim) each."""
        return self.into.weight.chunk(2)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """(tokens, dim) -> (tokens, dim)."""
        ctx.check(self, x)
        # A convolution is a matrix product with the k concatenated tokens of each window. Padding
        # is removed before it, so that nothing is computed for padding.
        windows = self.pad_rows(x, ctx).unfold(1, self.kernel, 1)  # (batch, length, dim, k)
        windows = windows.transpose(2, 3).flatten(2)  # (batch, length, k · dim)
        return ctx.visit(self.name, F.glu(self.into(ctx.layout.unpad(windows)), dim=-1))


class TokenBatchNorm(nn.BatchNorm1d):
    """`nn.BatchNorm1d` over the tokens of a batch; a single token has no statistics of its own."""

    def forward(self, x: Tensor) -> Tensor:
        """(tokens, dim) -> (tokens, dim); one token is normalised by the stored statistics."""
        if len(x) > 1:
            return super().forward(x)
        mean, variance = self.running_mean, self.running_var
        return F.batch_norm(x, mean, variance, self.weight, self.bias, eps=self.eps)


class Convolution(OverTime):
    """The Conformer's convolution over packed sequences.

    Args:
        dim: Width of x.
        name: The layer's name, such as `encoder.2.convolution`.
        kernel: Kernel size in tokens, the token itself included.
        norm_kind: The norm inside: `layer`, `rms`, `none`, or `batch` as published, which in
            training uses the statistics of the batch's tokens.
        causal: Whether the kernel covers only the token and those before it.
        bias: Whether the projections and the convolution have a bias.

    Example:
        >>> from regard.layers import plain_context
        >>> Convolution(8, kernel=3)(torch.randn(5, 8), plain_context((2, 3))).shape
        torch.Size([5, 8])
    """

    def __init__(
        self,
        dim: int,
        name: str = "convolution",
        *,
        kernel: int = 31,
        norm_kind: str = "layer",
        causal: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__(dim, name, kernel, causal=causal)
        self.into = Linear(dim, 2 * dim, bias=bias)
        self.depthwise = nn.Conv1d(dim, dim, kernel, groups=dim, bias=bias)
        self.norm = TokenBatchNorm(dim) if norm_kind == "batch" else norm(norm_kind, dim)
        self.out = Linear(dim, dim, bias=bias)

    def matrices(self) -> tuple[Tensor, ...]:
        """Both halves of W_1, and W_2, each (out, in)."""
        return (*self.into.weight.chunk(2), self.out.weight)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """(tokens, dim) -> (tokens, dim)."""
        ctx.check(self, x)
        rows = self.pad_rows(F.glu(self.into(x), dim=-1), ctx)  # (batch, length + k - 1, dim)
        x = ctx.layout.unpad(self.depthwise(rows.transpose(1, 2)).transpose(1, 2))
        return ctx.visit(self.name, self.out(F.silu(self.norm(x))))
