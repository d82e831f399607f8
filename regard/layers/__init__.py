"""The layers that all model families are built from; each can be imported on its own."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING

from regard.errors import InputError
from regard.kernels.dropout import Dropout as Dropout
from regard.layers.attention import AdditiveScore as AdditiveScore
from regard.layers.attention import Attention as Attention
from regard.layers.attention import DotScore as DotScore
from regard.layers.attention import attend_unfused as attend_unfused
from regard.layers.block import Block as Block
from regard.layers.block import BlockShape as BlockShape
from regard.layers.block import Stack as Stack
from regard.layers.block import sublayers as sublayers
from regard.layers.context import Context as Context
from regard.layers.context import Memory as Memory
from regard.layers.convolution import Convolution as Convolution
from regard.layers.convolution import GatedConvolution as GatedConvolution
from regard.layers.fronts.embed import Embed as Embed
from regard.layers.fronts.patches import cut_patches as cut_patches
from regard.layers.heads import VocabularyHead as VocabularyHead
from regard.layers.init import draw_normal as draw_normal
from regard.layers.layout import Layout as Layout
from regard.layers.layout import Windows as Windows
from regard.layers.masks import Mask as Mask
from regard.layers.masks import masked_softmax as masked_softmax
from regard.layers.mixer import Mixer as Mixer
from regard.layers.mlp import FeedForward as FeedForward
from regard.layers.norms import norm as norm
from regard.layers.positions import POSITIONS as POSITIONS
from regard.layers.positions import Buckets as Buckets
from regard.layers.positions import Learned as Learned
from regard.layers.positions import Positions as Positions
from regard.layers.positions import Rotary as Rotary
from regard.layers.positions import Sinusoidal as Sinusoidal
from regard.layers.positions import position_scheme as position_scheme
from regard.layers.positions import sinusoid as sinusoid
from regard.layers.recurrent import Recurrent as Recurrent
from regard.layers.recurrent import gates_of as gates_of
from regard.layers.recurrent_attention import AttentionCell as AttentionCell
from regard.layers.relative import RelativeBias as RelativeBias
from regard.layers.relative import RelativeBiasNet as RelativeBiasNet
from regard.layers.state import KVCache as KVCache
from regard.layers.state import RecurrentState as RecurrentState
from regard.layers.state import State as State
from regard.layers.tap.product import Product as Product
from regard.layers.tap.tap import Edit as Edit
from regard.layers.tap.tap import Tap as Tap
from regard.layers.tap.tap import knock_out as knock_out
from regard.layers.tap.tap import replace as replace
from regard.layers.tap.tap import scale_head as scale_head
from regard.layers.tap.tap import split_head as split_head

__all__ = [
    "POSITIONS",
    "AdditiveScore",
    "Attention",
    "AttentionCell",
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
    "GatedConvolution",
    "KVCache",
    "Layout",
    "Learned",
    "Mask",
    "Memory",
    "Mixer",
    "Positions",
    "Product",
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
    "attend_unfused",
    "cut_patches",
    "draw_normal",
    "gates_of",
    "knock_out",
    "masked_softmax",
    "norm",
    "plain_context",
    "position_scheme",
    "replace",
    "scale_head",
    "sinusoid",
    "split_head",
    "sublayers",
]


def plain_context(
    lengths: Sequence[int], *, causal: bool = False, tap: Tap | None = None
) -> Context:
    """A Context for sequences of these lengths, to call a single layer.

    Raises:
        InputError: The lengths are no whole numbers.

    Example:
        >>> plain_context((2, 3)).layout.longest
        3
    """
    try:
        numbers = [index(length) for length in lengths]
    except TypeError:
        numbers = [-1]
    if min(numbers, default=0) < 0:
        expected = "the number of tokens of each sequence, such as (2, 3)"
        raise InputError("lengths", got=lengths, expected=expected)
    layout = Layout(numbers)
    even = None if layout.even else layout.lengths
    mask = Mask(causal=causal, key_lengths=even, query_lengths=even)
    return Context(layout, layout.positions, mask, Positions(), tap=tap)


if not TYPE_CHECKING:  # else every name would pass the type checker

    def __getattr__(name: str) -> object:
        """Says the new name of a class that was renamed."""
        if name == "AttentiveBlock":
            raise ImportError("regard.layers.AttentiveBlock is now regard.layers.AttentionCell")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
