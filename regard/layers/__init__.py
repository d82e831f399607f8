"""The layers that all model families are built from; each can be imported on its own."""

from __future__ import annotations

from collections.abc import Sequence

from regard.layers.attention import AdditiveScore, Attention, DotScore
from regard.layers.attentive import AttentiveBlock
from regard.layers.block import Block, BlockShape, Stack, sublayers
from regard.layers.context import Context, Memory
from regard.layers.convolution import Convolution
from regard.layers.fronts.embed import Embed
from regard.layers.heads import VocabularyHead
from regard.layers.kernels.dropout import Dropout
from regard.layers.layout import Layout, Windows
from regard.layers.masks import Mask, masked_softmax
from regard.layers.mixer import Mixer
from regard.layers.mlp import FeedForward
from regard.layers.norms import norm
from regard.layers.positions import (
    POSITIONS,
    Buckets,
    Learned,
    Positions,
    Rotary,
    Sinusoidal,
    position_scheme,
    sinusoid,
)
from regard.layers.recurrent import Recurrent
from regard.layers.relative import RelativeBias, RelativeBiasNet
from regard.layers.state import KVCache, RecurrentState, State
from regard.layers.tap.tap import Edit, Tap, knock_out, replace, scale_head

__all__ = [
    "POSITIONS",
    "AdditiveScore",
    "Attention",
    "AttentiveBlock",
    "Block",
    "BlockShape",
    "Buckets",
    "Context",
    "Convolution",
    "DotScore",
    "Dropout",
    "Edit",
    "Embed",
    "FeedForward",
    "KVCache",
    "Layout",
    "Learned",
    "Mask",
    "Memory",
    "Mixer",
    "Positions",
    "Recurrent",
    "RecurrentState",
    "RelativeBias",
    "RelativeBiasNet",
    "Rotary",
    "Sinusoidal",
    "Stack",
    "State",
    "Tap",
    "VocabularyHead",
    "Windows",
    "knock_out",
    "masked_softmax",
    "norm",
    "plain_context",
    "position_scheme",
    "replace",
    "scale_head",
    "sinusoid",
    "sublayers",
]


def plain_context(
    lengths: Sequence[int], *, causal: bool = False, tap: Tap | None = None
) -> Context:
    """A Context for sequences of these lengths, to call a single layer.

    Example:
        >>> plain_context((2, 3)).layout.longest
        3
    """
    layout = Layout(lengths)
    even = None if layout.even else layout.lengths
    mask = Mask(causal=causal, key_lengths=even, query_lengths=even)
    return Context(layout, layout.where, mask, Positions(), tap=tap)
