"""The Conformer's convolution module: mixes each token with its neighbours, feature by feature.

    W_2 swish(norm(depthwise(glu(W_1 x))))            the Conformer's module (Gulati et al. 2020)

A depthwise convolution has k weights per feature, y_t = Σ_j w_j x_{t+j}. Each sequence is padded
with zeros on its own, so that the result does not depend on the others in the batch.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.layers.context import Context
from regard.layers.kernels.linear import Linear
from regard.layers.mixer import Mixer
from regard.layers.norms import norm


class Convolution(Mixer):
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
        super().__init__()
        if kernel < 1 or not (causal or kernel % 2):
            raise InputError("kernel", got=kernel, expected="an odd number, a token in its middle")
        self.name, self.kernel, self.has_state = name, kernel, causal
        self.into = Linear(dim, 2 * dim, bias=bias)
        self.depthwise = nn.Conv1d(dim, dim, kernel, groups=dim, bias=bias)
        self.norm = nn.BatchNorm1d(dim) if norm_kind == "batch" else norm(norm_kind, dim)
        self.out = Linear(dim, dim, bias=bias)

    def matrices(self) -> tuple[Tensor, ...]:
        """Both halves of W_1, and W_2, each (out, in)."""
        return (*self.into.weight.chunk(2), self.out.weight)

    def start(self, rows: int, like: Tensor) -> tuple[Tensor, ...]:
        """The initial state: zeros (rows, k - 1, dim) for the k - 1 inputs before the first."""
        return (like.new_zeros(rows, self.kernel - 1, self.into.in_features),)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """(tokens, dim) -> (tokens, dim)."""
        x = self._along(F.glu(self.into(x), dim=-1), ctx)
        return ctx.visit(self.name, self.out(F.silu(self.norm(x))))

    def _along(self, x: Tensor, ctx: Context) -> Tensor:
        """The depthwise convolution: (tokens, dim) -> (tokens, dim)."""
        layout, rows = ctx.layout, ctx.layout.pad(x)  # (batch, length, dim)
        if not self.has_state:
            side = self.kernel // 2
            rows = F.pad(rows, (0, 0, side, side))
        elif ctx.cache is None:
            rows = F.pad(rows, (0, 0, self.kernel - 1, 0))
        else:
            rows = torch.cat((ctx.cache.states[self.slot][0], rows), 1)
            ctx.cache.states[self.slot] = (self._last(rows, layout.lengths),)
        return layout.unpad(self.depthwise(rows.transpose(1, 2)).transpose(1, 2))

    def _last(self, rows: Tensor, lengths: tuple[int, ...]) -> Tensor:
        """The last k - 1 inputs of each row, of (batch, k - 1 + length, dim)."""
        place = torch.tensor(lengths)[:, None] + torch.arange(self.kernel - 1)  # (batch, k - 1)
        row = torch.arange(len(lengths), device=rows.device)[:, None]
        return rows[row, place.to(rows.device)]
