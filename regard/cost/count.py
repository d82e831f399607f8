"""What a model of a config costs: parameters, FLOPs, numbers kept, keys and values.

Comes in: a config of any family and lengths of texts: of source and target where there are two
sides, of the only text where there is one. Go out: counts. Nothing is allocated: `sketch` builds
the real model on the meta device, whose tensors have shapes and no numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import nn

from regard.layers import VocabularyHead
from regard.layers.kernels.cross_entropy import BLOCK
from regard.layers.mlp import ACTIVATIONS
from regard.models.config import BlocksConfig, EncoderConfig, ModelConfig
from regard.models.model import Model

TRAINING = 3
"""Forward is one product for each matrix; backward is two, for the input and for the matrix."""

VOCABULARY_PARTS = ("embedding", "source embedding", "target embedding", "output")
"""The parts as large as the vocabulary, which counts of Transformers often leave out."""

_EMBEDDINGS = {
    "embed": "embedding",
    "source_embed": "source embedding",
    "target_embed": "target embedding",
}
_OF_FRONTS = {
    "projection": "patch embedding",
    "first": "class token",
    "types": "token types",
    "norm": "embedding norms",
}
"""What a front has beside its matrix, by the names of its parameters."""
_SUBLAYERS = {
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "convolution": "convolution",
    "recurrent": "recurrence",
    "feed_forward": "feed-forward",
    "norm": "norms",
}
"""How the names of a block's parameters end, after a word that tells two of a kind apart."""
_ENDS = {"first": "first state", "readout": "readout"}
"""What stands below and above the layers of a recurrent decoder."""
_OF_A_STACK = ("positions", *dict.fromkeys(_SUBLAYERS.values()), *_ENDS.values())
_PARTS = (
    *_EMBEDDINGS.values(),
    *_OF_FRONTS.values(),
    *(f"{stack} {part}" for stack in ("encoder", "decoder") for part in _OF_A_STACK),
    "task heads",
    "output",
)
"""Every part of every family, in the order in which data meets them."""


def parameters(model: Model) -> dict[str, int]:
    """Parameters by part; a matrix that several parts share is counted in the first of them.

    Example:
        >>> from regard.models import GPTConfig
        >>> from regard.models.sketch import sketch
        >>> sum(parameters(sketch(GPTConfig(size="gpt2"), 50257)).values())
        124439808
    """
    counts: dict[str, int] = {}
    seen: set[int] = set()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        part = _part(name)
        counts[part] = counts.get(part, 0) + (id(parameter) not in seen) * parameter.numel()
        seen.add(id(parameter))
    return {part: counts[part] for part in dict.fromkeys((*_PARTS, *counts)) if part in counts}


def shared_parts(model: Model) -> dict[str, str]:
    """The parts that have no matrix of their own, and the part whose matrix they use."""
    owners: dict[int, str] = {}
    shared = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        part = _part(name)
        owner = owners.setdefault(id(parameter), part)
        if owner != part:
            shared[part] = owner
    return shared


def _part(name: str) -> str:
    """`decoder.blocks.2.cross_attention.query.weight` -> `decoder cross-attention`."""
    match name.split("."):
        case [stack, "blocks", _, module, *_]:
            plain = module.replace("_", " ")  # a sub-layer that only its own family has
            kinds = (part for end, part in _SUBLAYERS.items() if module.endswith(end))
            return f"{stack} {next(kinds, plain)}"
        case [stack, "final_norm", _]:
            return f"{stack} norms"
        case [stack, module, _] if module in _ENDS:
            return f"{stack} {_ENDS[module]}"
        case [stack, "positions", _]:
            return f"{stack} positions"
        case [module, "weight"] if module in _EMBEDDINGS:
            return _EMBEDDINGS[module]
        case [module, inner, *_] if module in _EMBEDDINGS and inner in _OF_FRONTS:
            return _OF_FRONTS[inner]
        case ["head", _] | ["masked", "vocabulary", _]:
            return "output"
        case [module, *_] if module in ("pooler", *EncoderConfig.HEADS):
            return "task heads"
    return name.partition(".")[0].replace("_", " ")  # a part that only its own family has


def forward_flops(model: Model, *lengths: int, targets: int | None = None) -> dict[str, int]:
    """FLOPs to read one example: 2·m·n·k for each (m, k) times (k, n), by part.

    The products of attention are counted for every query and key, as a profiler does; a causal
    kernel may skip half of the decoder's, and a window most of them. Norms, softmax and other sums
    are not counted. Of an encoder's heads each is counted that the config names; the pooler only
    where one of them reads what it gives.

    Args:
        model: What reads, on any device.
        lengths: Tokens of source and target (its begin symbol included), or of the only text.
        targets: Tokens whose logits over the vocabulary are computed: of a masked text those
            that are hidden. None: all of the last text.
    """
    targets = lengths[-1] if targets is None else targets
    config = model.config
    parts = ("embed", "encoder", "decoder", "attention products", "task heads", "output")
    counts = dict.fromkeys(parts, 0)
    tokens = {"encoder": lengths[0], "decoder": lengths[-1]}
    tokens["embed"] = lengths[0] - int(getattr(config, "class_token", False))  # patches
    tokens |= _head_tokens(config, lengths[-1], targets)
    for name, module in model.named_modules():
        top = name.partition(".")[0]
        if isinstance(module, VocabularyHead):
            counts["output"] += 2 * targets * module.weight.numel()
        elif isinstance(module, nn.Linear | nn.RNNBase | nn.Conv1d):
            part = top if top in counts else "task heads"
            of_source = name.endswith("cross_attention.key_value")
            met = lengths[0] if of_source else tokens.get(top, lengths[-1])
            # each token meets each entry of a matrix once, a cell's and a kernel's too
            counts[part] += 2 * met * sum(w.numel() for w in module.parameters() if w.dim() > 1)
    for name in config.stacks:
        for layer in getattr(model, name).attentions():
            keys = lengths[0] if layer.cross else tokens[name]
            # Q Kᵀ and weights · V: (query, head_dim) (head_dim, key) and back, for every head
            counts["attention products"] += 4 * tokens[name] * keys * layer.heads * layer.head_dim
    counts = {"patch embedding": counts.pop("embed"), **counts}
    return {part: count for part, count in counts.items() if count}


def _head_tokens(config: ModelConfig, length: int, targets: int) -> dict[str, int]:
    """How many tokens of a text each of an encoder's heads reads."""
    heads = {"next_sentence", "classes"}  # those that read what the pooler gives
    return {
        "masked": targets,
        "pooler": int(any(getattr(config, head, False) for head in heads)),
        "next_sentence": 1,
        "classes": 1,
        "tags": length,
        "spans": length,
    }


def kept_floats(config: ModelConfig, *lengths: int, targets: int | None = None) -> int:
    """Numbers that one example keeps from forward to backward: an estimate.

    Each sub-layer keeps its input, the norm of it, and the noise of its dropout; attention also q,
    k, v, its output in rows and end to end (texts of a batch differ in length), and a number
    per head and query in place of the weights, which the fused kernel computes again; the
    feed-forward its hidden layer. Padding and what the allocator wastes come on top of it.

    Args:
        config: Of the model.
        lengths: Tokens of source and target, or of the only text.
        targets: Tokens that the loss is of; None: all of the last text.
    """
    targets = lengths[-1] if targets is None else targets
    own = config.kept_numbers(lengths, targets)
    return own if own is not None else _kept_by_blocks(cast(BlocksConfig, config), lengths, targets)


def _kept_by_blocks(config: BlocksConfig, lengths: Sequence[int], targets: int) -> int:
    """The same, of stacks of blocks of attention and feed-forward."""
    dim, noise = config.dim, config.dim if config.dropout else 0
    keys_values = 2 * _kv_dim(config)
    inputs = dim if config.norm == "none" else 2 * dim  # x, norm(x)
    queries = config.heads * config.head_width
    attention = inputs + 3 * queries + noise + config.heads  # q, and the output twice
    if config.query_key_norm:
        # q and k as they were (k with v, which it was computed with), and before they are in rows
        attention += 2 * queries + keys_values + keys_values // 2
    feed_forward = inputs + noise + _hidden_copies(config) * config.hidden
    if not getattr(config, "feed_forward", True):
        feed_forward = 0
    ends = noise + 2 * dim  # the dropout of the embedding; the top of the stack and its norm
    ends += dim if config.embedding_norm else 0
    own, cross = _kept_weights(config)
    masks = getattr(config, "masked", False)
    # the loss's own input; before a masked token's stand W x, f(W x), its norm
    total = targets * dim * (4 if masks else 1)
    for _, layers, tokens, memory in config.readings(lengths):
        linear = tokens * (layers * (attention + keys_values + feed_forward) + ends)
        total += linear + own * layers * tokens**2
        if memory:
            total += layers * (tokens * attention + memory * keys_values + cross * tokens * memory)
    return total


def loss_floats(config: ModelConfig, vocab: int, targets: int) -> int:
    """Numbers that the loss of a batch holds beside: a block of logits, and W's gradient twice."""
    return min(BLOCK, targets) * vocab + 2 * vocab * config.dim


def cache_floats(config: ModelConfig, *, rows: int, length: int, source: int = 0) -> int:
    """Keys and values that decoding one text holds: exact. An encoder alone holds none.

    Args:
        config: Of the model.
        rows: Hypotheses under way (the beam).
        length: The most tokens of each.
        source: Tokens of the sentence, whose keys and values all hypotheses share.
    """
    own = config.held_numbers(rows, length, source)
    if own is not None:
        return own
    readings = config.readings((source, length)[-config.sides :])
    width = _kv_dim(cast(BlocksConfig, config))
    return sum(
        layers * 2 * width * (rows * tokens + memory)
        for stack, layers, tokens, memory in readings
        if stack == "decoder"
    )


def _kv_dim(config: BlocksConfig) -> int:
    """Width of the keys, or of the values, of a token."""
    return (config.kv_heads or config.heads) * config.head_width


def _hidden_copies(config: BlocksConfig) -> int:
    """How many vectors as wide as its hidden layer the feed-forward keeps of a token."""
    _, gated = ACTIVATIONS[config.activation]
    dropout = config.dropout if config.hidden_dropout is None else config.hidden_dropout
    if gated:  # W_1 x, f(W_1 x), W_3 x, and their product; of dropout, noise and what is left
        return 5 if dropout else 4
    if dropout:  # what f needs, the noise, and what is left
        return 3
    return 1 if config.activation == "relu" else 2  # ReLU needs only its output, GELU its input


def _kept_weights(config: BlocksConfig) -> tuple[int, int]:
    """Numbers kept for each query and key in self- and in cross-attention: 0 if it is fused."""
    weights = config.heads * (3 if config.attention_dropout else 1)  # noise, and what is left
    if config.score == "additive":  # tanh(W q + U k), and the layout that einsum makes of it
        weights += 2 * config.dim
        return weights, weights
    if config.attention_dropout:
        return weights, weights
    return (weights if config.positions == "buckets" else 0), 0  # a bias that learns is not fused
