"""What a model of a config costs: parameters, FLOPs, numbers kept, keys and values.

Comes in: a config and lengths of sentences. Go out: counts. Nothing is allocated: `sketch` builds
the real model on the meta device, whose tensors have shapes and no numbers.
"""

from __future__ import annotations

import torch
from torch import nn

from regard.errors import InputError
from regard.layers import VocabularyHead
from regard.layers.cross_entropy import BLOCK
from regard.layers.mlp import ACTIVATIONS
from regard.models.config import TransformerConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.families import build

TRAINING = 3
"""Forward is one product for each matrix; backward is two, for the input and for the matrix."""

VOCABULARY_PARTS = ("source embedding", "target embedding", "output")
"""The parts as large as the vocabulary, which counts of Transformers often leave out."""

_SUBLAYERS = {
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "feed_forward": "feed-forward",
    "self_norm": "norms",
    "cross_norm": "norms",
    "feed_norm": "norms",
}
_PARTS = (
    *VOCABULARY_PARTS[:2],
    *(f"encoder {part}" for part in ("positions", "self-attention", "feed-forward", "norms")),
    "decoder positions",
    *(f"decoder {part}" for part in dict.fromkeys(_SUBLAYERS.values())),
    VOCABULARY_PARTS[2],
)


def sketch(config: TransformerConfig, source_vocab: int, target_vocab: int) -> EncoderDecoder:
    """The model of a config without its numbers: shapes on the meta device, no memory.

    Raises:
        InputError: A matrix of it would be larger than can be addressed.
    """
    if config.positions in ("sinusoidal", "rotary"):
        # They have no weights, only tables, whose arange on meta imports the compiler: seconds.
        config = config.model_copy(update={"positions": "none"})
    try:
        with torch.device("meta"):
            return build(config, source_vocab, target_vocab)
    except (RuntimeError, TypeError) as error:  # torch's words for a size that 64 bits do not hold
        got = f"dim {config.dim}, hidden {config.hidden}, vocabulary {source_vocab}"
        raise InputError("the model", got=got, expected="matrices below 2^63 bytes") from error


def parameters(model: EncoderDecoder) -> dict[str, int]:
    """Parameters by part; a matrix that several parts share is counted in the first of them."""
    counts = dict.fromkeys(_PARTS, 0)
    for name, parameter in model.named_parameters():
        counts[_part(name)] += parameter.numel()
    return {part: n for part, n in counts.items() if n or part in VOCABULARY_PARTS}


def _part(name: str) -> str:
    """`decoder.blocks.2.cross_attention.query.weight` -> `decoder cross-attention`."""
    match name.split("."):
        case [stack, "blocks", _, module, *_]:
            return f"{stack} {_SUBLAYERS[module]}"
        case [stack, "final_norm", _]:
            return f"{stack} norms"
        case [stack, "positions", _]:
            return f"{stack} positions"
        case [("source_embed" | "target_embed") as module, _]:
            return f"{module}ding".replace("_", " ")
        case ["head", _]:
            return "output"
    raise AssertionError(f"a parameter of no part: {name}")


def forward_flops(model: EncoderDecoder, source: int, target: int) -> dict[str, int]:
    """FLOPs to read one pair of sentences: 2·m·n·k for each (m, k) times (k, n), by part.

    The products of attention are counted for every query and key, as a profiler does; a causal
    kernel may skip half of the decoder's. Norms, softmax and other sums are not counted.

    Args:
        model: What reads, on any device.
        source: Tokens of the source sentence.
        target: Tokens of the target sentence, the begin symbol included.
    """
    counts = {"encoder": 0, "decoder": 0, "attention products": 0, "output": 0}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):  # each token meets each entry of the matrix once
            of_source = name.startswith("encoder") or name.endswith("cross_attention.key_value")
            tokens = source if of_source else target
            counts[name.partition(".")[0]] += 2 * tokens * module.weight.numel()
        elif isinstance(module, VocabularyHead):
            counts["output"] += 2 * target * module.weight.numel()
    for stack, queries in ((model.encoder, source), (model.decoder, target)):
        for layer in stack.attentions():
            keys = source if layer.cross else queries
            # Q Kᵀ and weights · V: (query, head_dim) (head_dim, key) and back, for every head
            counts["attention products"] += 4 * queries * keys * layer.heads * layer.head_dim
    return counts


def kept_floats(config: TransformerConfig, source: int, target: int) -> int:
    """Numbers that one pair of sentences keeps from forward to backward: an estimate.

    Each sub-layer keeps its input, the norm of it, and the noise of its dropout; attention also q,
    k, v, its output in rows and end to end (sentences of a batch differ in length), and a number
    per head and query in place of the weights, which the fused kernel computes again; the
    feed-forward its hidden layer. Padding and what the allocator wastes come on top of it.
    """
    dim, noise = config.dim, config.dim if config.dropout else 0
    keys_values = 2 * _kv_dim(config)
    inputs = dim if config.norm == "none" else 2 * dim  # x, norm(x)
    attention = inputs + 3 * dim + noise + config.heads  # q, and the output twice
    feed_forward = inputs + noise + _hidden_copies(config) * config.hidden
    ends = noise + 2 * dim  # the dropout of the embedding; the top of the stack and its norm
    encoder = config.encoder_layers * (attention + keys_values + feed_forward) + ends
    decoder = config.decoder_layers * (2 * attention + keys_values + feed_forward) + ends
    memory = config.decoder_layers * keys_values  # of a source token, for cross-attention
    own, cross = _kept_weights(config)
    quadratic = own * (config.encoder_layers * source**2 + config.decoder_layers * target**2)
    quadratic += cross * config.decoder_layers * source * target
    return source * (encoder + memory) + target * (decoder + dim) + quadratic  # dim: the loss's


def loss_floats(config: TransformerConfig, vocab: int, targets: int) -> int:
    """Numbers that the loss of a batch holds beside: a block of logits, and W's gradient twice."""
    return min(BLOCK, targets) * vocab + 2 * vocab * config.dim


def cache_floats(config: TransformerConfig, *, rows: int, length: int, source: int) -> int:
    """Keys and values that decoding one sentence holds: exact.

    Args:
        config: Of the model.
        rows: Hypotheses under way (the beam).
        length: The most tokens of each.
        source: Tokens of the sentence, whose keys and values all hypotheses share.
    """
    return config.decoder_layers * 2 * _kv_dim(config) * (rows * length + source)


def _kv_dim(config: TransformerConfig) -> int:
    """Width of the keys, or of the values, of a token."""
    return (config.kv_heads or config.heads) * (config.dim // config.heads)


def _hidden_copies(config: TransformerConfig) -> int:
    """How many vectors as wide as its hidden layer the feed-forward keeps of a token."""
    _, gated = ACTIVATIONS[config.activation]
    if gated:  # W_1 x, f(W_1 x), W_3 x, and their product; of dropout, noise and what is left
        return 5 if config.dropout else 4
    if config.dropout:  # what f needs, the noise, and what is left
        return 3
    return 1 if config.activation == "relu" else 2  # ReLU needs only its output, GELU its input


def _kept_weights(config: TransformerConfig) -> tuple[int, int]:
    """Numbers kept for each query and key in self- and in cross-attention: 0 if it is fused."""
    weights = config.heads * (3 if config.attention_dropout else 1)  # noise, and what is left
    if config.score == "additive":  # tanh(W q + U k), and the layout that einsum makes of it
        weights += 2 * config.dim
        return weights, weights
    if config.attention_dropout:
        return weights, weights
    return (weights if config.positions == "buckets" else 0), 0  # a bias that learns is not fused
