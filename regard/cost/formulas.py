"""Estimates the numbers that a model stores: activations of a training step, states of decoding.

There is a formula for each kind of stack; a model is the sum of its sides. A kind without a formula
has no estimate: None is returned, and `regard plan` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from regard.kernels.cross_entropy import BLOCK
from regard.layers.config import AnyAttention, FeedForwardConfig, StackConfig
from regard.layers.grid_config import (
    GridAttentionConfig,
    PlainConvolutions,
    ResidualConvolutions,
)
from regard.layers.mlp import ACTIVATIONS
from regard.layers.recurrent_config import RecurrentDecoderConfig
from regard.layers.rows_config import RowLayers
from regard.layers.stages_config import GridStages
from regard.models.config import ModelConfig

CROSS = "cross_attention"
FUSED = {"rnn": 4, "gru": 10, "gru_before": 9, "lstm": 9}
IN_TURN = {"rnn": 5, "gru": 11, "gru_before": 14, "lstm": 13}
"""Number of vectors (of the state's width) that a recurrent layer stores per token for the backward
pass, measured on texts of different lengths: in PyTorch's kernel (`gru_before` has none), and in
the decoder's loop over time."""


class Work(NamedTuple):
    """The tokens of one example that go through one side of a model."""

    tokens: int
    memory: int
    """Number of memory tokens that it attends to; 0: there is no memory."""
    memory_dim: int


def activation_floats(config: ModelConfig, *lengths: int, targets: int | None = None) -> int | None:
    """An estimate of the numbers stored for the backward pass of one example (activations).

    Each sub-layer stores its input, the normalised input, and the dropout mask; attention also q,
    k, v, its output twice (padded, and concatenated without padding), and one number per head and
    query instead of the weights, which the fused kernel recomputes; the feed-forward its hidden
    layer. Padding and the overhead of the allocator are not included.

    Args:
        config: The model config.
        lengths: The number of tokens of source and target, or of the only text.
        targets: The number of tokens in the loss; None: all tokens of the last text.

    Returns:
        The estimate; None if there is no formula for one of the sides.
    """
    targets = lengths[-1] if targets is None else targets
    floats = 0
    for side, work in _works(config, lengths):
        formula = ACTIVATIONS_OF.get(_kind(side))
        side_floats = None if formula is None else formula(side, work)
        if side_floats is None:
            return None
        floats += side_floats
    # the input of the loss; for masked tokens also W x, f(W x) and its norm
    masks = getattr(config.head, "masked", False)
    return floats + targets * _top_width(config.last) * (4 if masks else _tops(config.last))


def _works(config: ModelConfig, lengths: Sequence[int]) -> list[tuple[Any, Work]]:
    """For each side, the tokens that an example of these lengths brings to it."""
    works, memory, memory_dim = [], 0, 0
    for side, tokens in zip(config.sides.values(), lengths, strict=True):
        works.append((side, Work(tokens, memory, memory_dim)))
        memory, memory_dim = tokens, getattr(config, "memory_dim", side.dim)
    return works


def _kind(side: Any) -> str:
    """The kind of a side: `blocks`, `recurrent`, `cnn`, `resnet`, `stages` or `mlp`."""
    return str(side.kind)


def _tops(side: Any) -> int:
    """Vectors that a side stores for each token of the loss: one, or those of a readout."""
    if _kind(side) != "recurrent":
        return 1
    return 2 if getattr(side.attention, "context", "every") == "first" else 5


def _top_width(side: Any) -> int:
    """The width of the input of the loss over tokens; 0 for networks that make none."""
    return 0 if _kind(side) in ("cnn", "resnet", "stages", "mlp") else int(side.dim)


def _activations_of_blocks(side: StackConfig, work: Work) -> int | None:
    """The activations of a stack of blocks; None if a kind of sub-layer has no formula."""
    dim, dropout_dim = side.dim, side.dim if side.dropout else 0
    layer = 0
    for part in side.block:
        formula = SUBLAYER_ACTIVATIONS.get(part.kind)
        if formula is None:
            return None
        layer += formula(side, part, work)
    # the embedding's dropout; the output of the stack and its norm. Recurrent layers alone have
    # no norm, and the dropout of their embedding is counted with their input.
    recurrent = [part.kind for part in side.block] == ["recurrent"]
    end_floats = 2 * dim if recurrent else dropout_dim + 2 * dim
    end_floats += dim if getattr(side.front, "embedding_norm", False) else 0
    return side.layers * layer + work.tokens * end_floats


def _inputs(side: StackConfig) -> int:
    """What every sub-layer stores of a token: x and norm(x), and the mask of its dropout."""
    return (1 if side.norm == "none" else 2) * side.dim + (side.dim if side.dropout else 0)


def _activations_of_recurrent(side: StackConfig, part: Any, work: Work) -> int:
    return side.dim * FUSED[part.cell] * work.tokens


def _activations_of_convolution(side: StackConfig, part: Any, work: Work) -> int:
    # the k tokens of each window, the input of the gate
    return work.tokens * (_inputs(side) + (part.kernel + 2) * side.dim)


def _activations_of_feed_forward(side: StackConfig, part: Any, work: Work) -> int:
    return work.tokens * (_inputs(side) + _hidden_copies(side, part) * part.hidden)


def _activations_of_attention(side: StackConfig, part: Any, work: Work) -> int:
    queries, keys_values = part.heads * side.head_width(part), 2 * _kv_dim(side, part)
    attention = _inputs(side) + 3 * queries + part.heads  # q, and the output twice
    if part.query_key_norm:
        # q and k before their norm (k together with v, as they are computed together), and after
        # it, before they are padded
        attention += 2 * queries + keys_values + keys_values // 2
    keys = work.memory if part.kind == CROSS else work.tokens
    weights = _stored_weights(side, part)
    return work.tokens * attention + keys * keys_values + weights * work.tokens * keys


SUBLAYER_ACTIVATIONS: dict[str, Callable[[StackConfig, Any, Work], int]] = {
    "attention": _activations_of_attention,
    "grid_attention": _activations_of_attention,
    CROSS: _activations_of_attention,
    "feed_forward": _activations_of_feed_forward,
    "convolution": _activations_of_convolution,
    "gated_convolution": _activations_of_convolution,
    "recurrent": _activations_of_recurrent,
}
"""The formula of activations for each kind of sub-layer."""


def _hidden_copies(side: StackConfig, part: FeedForwardConfig) -> int:
    """The number of vectors of hidden width that the feed-forward stores per token."""
    _, gated = ACTIVATIONS[part.activation]
    dropout = side.dropout if part.hidden_dropout is None else part.hidden_dropout
    # gated: W_1 x, f(W_1 x), W_3 x and their product; with dropout the mask, too, and the product
    # after dropout in place of the one before it
    if gated:
        return 5 if dropout else 4
    if dropout:  # what the backward pass of f needs, the dropout mask, and the dropped-out output
        return 3
    return 1 if part.activation == "relu" else 2  # ReLU needs only its output, GELU its input


def _stored_weights(side: StackConfig, part: AnyAttention) -> int:
    """Numbers stored per query and key: 0 for a fused kernel."""
    # with dropout the weights, the mask and the dropped-out weights
    weights = part.heads * (3 if part.attention_dropout else 1)
    if part.score == "additive":  # tanh(W q + U k)
        return weights + side.dim
    # Self-attention with a learned bias (T5's buckets) does not use the fused kernel.
    biased = side.positions.kind == "buckets" and part.kind != CROSS
    return weights if part.attention_dropout or biased else 0


def _kv_dim(side: StackConfig, part: AnyAttention) -> int:
    """The width of the keys, and of the values, of a token."""
    return (part.kv_heads or part.heads) * side.head_width(part)


def _activations_of_recurrent_decoder(side: RecurrentDecoderConfig, work: Work) -> int:
    """The activations of a recurrent decoder.

    Each layer stores its gates and states; attention stores tanh(W s + U h) for every pair of a
    target and a source token; the readout stores its input and output.
    """
    dim, context = side.dim, side.attention
    lowest = (FUSED if context.kind == "none" else IN_TURN)[side.cell]
    layers = (lowest + FUSED[side.cell] * (side.layers - 1)) * work.tokens
    pairs = {"additive": dim + 3, "dot": 3, "location": 3, "none": 0}[context.kind]
    every = getattr(context, "context", "every") == "every"
    return dim * (layers + (2 if every else 1) * work.tokens) + pairs * work.memory * work.tokens


def _activations_of_cnn(side: PlainConvolutions, work: Work) -> int:
    """The activations of a small CNN on one image."""
    del work
    # the output of each convolution before and after ReLU is 4 x as large as after pooling
    maps = zip(side.filters, side.map_sizes, strict=True)
    convolutions = sum(10 * width * rows * columns for width, (rows, columns) in maps)
    return convolutions + 2 * sum(side.dense)


def _activations_of_resnet(side: ResidualConvolutions, work: Work) -> int:
    """The activations of a ResNet on one image.

    Each convolution stores its output before its norm, and the norm's output.
    """
    del work
    total = 2 * side.stem_width * 5 * side.map_sizes[0][0] * side.map_sizes[0][1]
    parts = 2.0 if side.unit == "basic" else 1.5  # in widths: 1 + 1, or 1/4 + 1/4 + 1
    stages = zip(side.depths, side.filters, side.map_sizes[1:], strict=True)
    for depth, width, (height, columns) in stages:
        total += int(2 * parts * depth * width * height * columns)
    return total + _activations_between_stages(side)


def _activations_between_stages(side: ResidualConvolutions) -> int:
    """Of each attention between stages: its cells and their norm, q, k, v, its output twice, γ's.

    Also one number per head and query, as in a stack of blocks.
    """
    total = 0
    for stage in side.attention_stages:
        assert side.stage_attention is not None  # or there would be no such stage
        height, columns = side.map_sizes[stage + 1]
        total += height * columns * (8 * side.filters[stage] + side.stage_attention.heads)
    return total


def _activations_of_stages(side: GridStages, work: Work) -> int | None:
    """The activations of an encoder in stages on one image: those of its blocks, and of merges."""
    del work
    total, widths = 0, side.widths
    for stage, ((rows, columns), depth) in enumerate(zip(side.grids, side.depths, strict=True)):
        settings, cells = side.stage(stage), rows * columns
        for part in settings.block:
            formula = SUBLAYER_ACTIVATIONS.get(part.kind)
            if formula is None:
                return None
            total += depth * formula(settings, part, Work(cells, 0, 0))
            if isinstance(part, GridAttentionConfig) and part.grid_bias != "none":
                # the weights: no fused kernel computes the gradient of a bias
                total += depth * part.heads * cells * part.grid_window**2
        if stage:  # a merge: four neighbours side by side, and their norm or the output's
            total += cells * (8 if side.norm_place != "inside" else 6) * widths[stage - 1]
    rows, columns = side.grids[0]
    first, last = rows * columns * side.dim, side.grid[0] * side.grid[1] * widths[-1]
    return total + first * (3 if side.dropout else 2) + 2 * last  # the front and its norm; the end


def _activations_of_rows(side: RowLayers, work: Work) -> int:
    """The activations of an MLP: its input, and of each hidden layer what f and dropout need."""
    copies = (1 if side.activation == "relu" else 2) + (2 if side.dropout else 0)
    return work.tokens * (side.features + copies * sum(side.hidden))


ACTIVATIONS_OF: dict[str, Callable[[Any, Work], int | None]] = {
    "blocks": _activations_of_blocks,
    "recurrent": _activations_of_recurrent_decoder,
    "cnn": _activations_of_cnn,
    "resnet": _activations_of_resnet,
    "stages": _activations_of_stages,
    "mlp": _activations_of_rows,
}
"""The formula of activations for each kind of side."""


def loss_floats(config: ModelConfig, vocab: int, targets: int) -> int:
    """Additional numbers for the loss of a batch: a block of logits, and twice W's gradient."""
    return min(BLOCK, targets) * vocab + 2 * vocab * int(config.last.dim)


def cache_floats(config: ModelConfig, *, rows: int, length: int, source: int = 0) -> int | None:
    """The exact number of values that the decoding of one text stores; 0 for an encoder alone.

    Args:
        config: The model config.
        rows: The number of hypotheses (the beam).
        length: The maximal number of tokens of a hypothesis.
        source: The number of tokens of the source, whose keys and values all hypotheses share.

    Returns:
        The number; None if there is no formula for the decoder.
    """
    if "decoder" not in config.sides:
        return 0
    side, work = _works(config, (source, length)[-len(config.sides) :])[-1]
    formula = STATES_OF.get(_kind(side))
    return None if formula is None else formula(side, work, rows)


def _states_of_blocks(side: StackConfig, work: Work, rows: int) -> int | None:
    """Keys and values of each token, and of the memory; states of recurrent layers."""
    layer = 0
    for part in side.block:
        formula = SUBLAYER_STATES.get(part.kind)
        if formula is None:
            return None
        layer += formula(side, part, work, rows)
    return side.layers * layer


def _states_of_attention(side: StackConfig, part: Any, work: Work, rows: int) -> int:
    return 2 * _kv_dim(side, part) * (work.memory if part.kind == CROSS else rows * work.tokens)


def _states_of_convolution(side: StackConfig, part: Any, work: Work, rows: int) -> int:
    del work
    return rows * (part.kernel - 1) * side.dim  # the last k - 1 inputs


def _states_of_recurrent(side: StackConfig, part: Any, work: Work, rows: int) -> int:
    del work
    # Two networks beside each other decode with one of them.
    width = side.dim if part.direction == "forward" else side.dim // 2
    return rows * (2 if part.cell == "lstm" else 1) * width


SUBLAYER_STATES: dict[str, Callable[[StackConfig, Any, Work, int], int]] = {
    "attention": _states_of_attention,
    CROSS: _states_of_attention,
    "feed_forward": lambda *_: 0,
    "convolution": _states_of_convolution,
    "gated_convolution": _states_of_convolution,
    "recurrent": _states_of_recurrent,
}
"""The formula of the state of decoding for each kind of sub-layer."""


def _states_of_recurrent_decoder(side: RecurrentDecoderConfig, work: Work, rows: int) -> int:
    """States of each row, keys and values of the source; the target's length does not matter."""
    states = side.layers * (2 if side.cell == "lstm" else 1) * side.dim
    context = getattr(side.attention, "context", None)  # of one vector for the whole source
    if context is not None:
        states += work.memory_dim if context == "every" else 0
        return rows * states + work.memory * work.memory_dim
    return rows * states + work.memory * (side.dim + work.memory_dim)


STATES_OF: dict[str, Callable[[Any, Work, int], int | None]] = {
    "blocks": _states_of_blocks,
    "recurrent": _states_of_recurrent_decoder,
}
"""The formula of the state of decoding for each kind of decoder."""
