"""The position-wise feed-forward: each token by itself, through a wider hidden layer.

plain:  W_2 f(W_1 x)                    f = ReLU (the paper) or GELU (GPT, BERT)
gated:  W_2 (f(W_1 x) ⊙ W_3 x)          f = GELU (T5 1.1) or SiLU (Llama)
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError
from regard.kernels.dropout import Dropout
from regard.kernels.linear import Linear, gelu_tanh, linear_activation
from regard.layers.context import Context
from regard.layers.mixer import Mixer

ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
    "relu": (F.relu, False),
    "gelu": (F.gelu, False),
    "gelu_tanh": (gelu_tanh, False),
    "silu": (F.silu, False),
    "gated_relu": (F.relu, True),
    "gated_gelu": (F.gelu, True),
    "gated_gelu_tanh": (gelu_tanh, True),
    "gated_silu": (F.silu, True),
}
"""Name -> (function, gated)."""


class FeedForward(Mixer):
    """The feed-forward sub-layer.

    Args:
        dim: Width of x.
        hidden: Width of the hidden layer (the paper: 4 · dim).
        activation: One of `ACTIVATIONS`.
        dropout: Dropout rate on the hidden layer.
        bias: Whether the projections have a bias.
        name: The layer's name in taps.
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        activation: str = "relu",
        dropout: float = 0.0,
        *,
        bias: bool = True,
        name: str = "feed_forward",
    ) -> None:
        super().__init__()
        self.name, self.input_width = name, dim
        if activation not in ACTIVATIONS:
            raise InputError(
                "activation", got=activation, expected=f"one of {', '.join(ACTIVATIONS)}"
            )
        self.function, self.gated = ACTIVATIONS[activation]
        self.into = Linear(dim, hidden * (2 if self.gated else 1), bias=bias)
        self.out = Linear(hidden, dim, bias=bias)
        self.dropout = Dropout(dropout)

    def matrices(self) -> tuple[Tensor, ...]:
        """W_1, (W_3 if gated) and W_2, each (out, in), as views: W_1 and W_3 share a parameter."""
        return (*self.into.weight.chunk(2 if self.gated else 1), self.out.weight)

    def forward(self, x: Tensor, ctx: Context | None = None) -> Tensor:
        """(tokens, dim) -> (tokens, dim); of the context, only the tap is used."""
        if ctx is not None:
            ctx.check(self, x)
        if self.gated:
            open_, value = self.into(x).chunk(2, dim=-1)  # (tokens, hidden) each
            hidden = self.function(open_) * value
        else:
            hidden = linear_activation(self.into, x, self.function)  # (tokens, hidden)
        out = self.out(self.dropout(hidden) if self.training else hidden)
        return out if ctx is None else ctx.visit(self.name, out)
