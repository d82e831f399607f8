"""What a model of a config costs: parameters, FLOPs, numbers kept, keys and values.

Comes in: a config of any family and lengths of texts: of source and target where there are two
sides, of the only text where there is one. Go out: counts. Nothing is allocated: `sketch` builds
the real model on the meta device, whose tensors have shapes and no numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.errors import InputError
from regard.layers import Stack, VocabularyHead
from regard.layers.cross_entropy import BLOCK
from regard.layers.mlp import ACTIVATIONS
from regard.models.config import (
    BertConfig,
    BlocksConfig,
    GPTConfig,
    ModelConfig,
    T5Config,
    TransformerConfig,
)
from regard.models.families import Model, build

TRAINING = 3
"""Forward is one product for each matrix; backward is two, for the input and for the matrix."""

VOCABULARY_PARTS = ("embedding", "source embedding", "target embedding", "output")
"""The parts as large as the vocabulary, which counts of Transformers often leave out."""

_EMBEDDINGS = {
    "embed": "embedding",
    "source_embed": "source embedding",
    "target_embed": "target embedding",
}
_SUBLAYERS = {
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "feed_forward": "feed-forward",
    "self_norm": "norms",
    "cross_norm": "norms",
    "feed_norm": "norms",
}
_OF_A_STACK = ("positions", *dict.fromkeys(_SUBLAYERS.values()))
_PARTS = (
    *_EMBEDDINGS.values(),
    "token types",
    "embedding norms",
    *(f"{stack} {part}" for stack in ("encoder", "decoder") for part in _OF_A_STACK),
    "task heads",
    "output",
)
"""Every part of every family, in the order in which data meets them."""


class _Reading(NamedTuple):
    """One stack and the tokens of one example that go through it."""

    stack: str
    layers: int
    tokens: int
    memory: int
    """Tokens of the other stack that it looks at; 0: none."""


def _readings(config: ModelConfig, lengths: Sequence[int]) -> list[_Reading]:
    """The stacks of a model, with what an example of these lengths brings to each."""
    if isinstance(config, TransformerConfig | T5Config):
        source, target = lengths
        return [
            _Reading("encoder", config.encoder_layers, source, 0),
            _Reading("decoder", config.decoder_layers, target, source),
        ]
    [length] = lengths
    stack = "decoder" if isinstance(config, GPTConfig) else "encoder"
    return [_Reading(stack, config.layers, length, 0)]


def sides(config: BlocksConfig) -> int:
    """How many texts an example has: a source and a target, or one alone."""
    return 2 if isinstance(config, TransformerConfig | T5Config) else 1


class _NothingDrawn(TorchFunctionMode):
    """Leaves out the drawing of fresh weights, for which meta tensors import the compiler too."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        del types
        kwargs = kwargs or {}
        if getattr(func, "__name__", "").endswith(("normal_", "uniform_")):
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def sketch(config: BlocksConfig, *vocabularies: int) -> Any:
    """The model of a config without its numbers: shapes on the meta device, no memory.

    Args:
        config: Of a family.
        vocabularies: Entries of the source's and the target's vocabulary, or of the only one.

    Raises:
        InputError: A matrix of it would be larger than can be addressed.
    """
    if config.positions in ("sinusoidal", "sinusoidal_halves", "rotary"):
        # They have no weights, only tables, whose arange on meta imports the compiler: seconds.
        config = config.model_copy(update={"positions": "none"})
    try:
        with torch.device("meta"), _NothingDrawn():
            return build(config, *vocabularies)
    except (RuntimeError, TypeError) as error:  # torch's words for a size that 64 bits do not hold
        got = f"dim {config.dim}, hidden {config.hidden}, vocabulary {vocabularies[0]}"
        raise InputError("the model", got=got, expected="matrices below 2^63 bytes") from error


def shapes(
    config: BlocksConfig, vocabularies: Sequence[int], tensors: int, what: str
) -> dict[str, torch.Size]:
    """The shape of every tensor of a config's model, by name; a hostile config takes no memory.

    Args:
        config: Of a family.
        vocabularies: As for `sketch`.
        tensors: How many there are to fill it.
        what: Where the config stands, for an error.

    Raises:
        InputError: There are more layers than that, or a matrix is larger than can be addressed.
    """
    for name in ("layers", "encoder_layers", "decoder_layers"):
        if getattr(config, name, 0) > tensors:
            got = f"{getattr(config, name)} layers"
            raise InputError(what, got=got, expected=f"what {tensors} tensors can fill")
    try:
        model = sketch(config, *vocabularies)
    except InputError as error:
        raise InputError(what, got=error.got, expected=error.expected) from None
    return {name: tensor.shape for name, tensor in model.state_dict().items()}


def parameters(model: Model) -> dict[str, int]:
    """Parameters by part; a matrix that several parts share is counted in the first of them.

    Example:
        >>> from regard.models import GPTConfig
        >>> sum(parameters(sketch(GPTConfig(size="gpt2"), 50257)).values())
        124439808
    """
    counts: dict[str, int] = {}
    seen: set[int] = set()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        part = _part(name)
        counts[part] = counts.get(part, 0) + (id(parameter) not in seen) * parameter.numel()
        seen.add(id(parameter))
    return {part: counts[part] for part in _PARTS if part in counts}


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
            return f"{stack} {_SUBLAYERS[module]}"
        case [stack, "final_norm", _]:
            return f"{stack} norms"
        case [stack, "positions", _]:
            return f"{stack} positions"
        case [module, "weight"] if module in _EMBEDDINGS:
            return _EMBEDDINGS[module]
        case [module, "types"] if module in _EMBEDDINGS:
            return "token types"
        case [module, "norm", _] if module in _EMBEDDINGS:
            return "embedding norms"
        case ["head", _] | ["masked", "vocabulary", _]:
            return "output"
        case ["masked" | "pooler" | "next_sentence" | "classes" | "tags" | "spans", *_]:
            return "task heads"
    raise AssertionError(f"a parameter of no part: {name}")


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
    counts = dict.fromkeys(("encoder", "decoder", "attention products", "task heads", "output"), 0)
    tokens = {"encoder": lengths[0], "decoder": lengths[-1]} | _head_tokens(
        config, lengths[-1], targets
    )
    for name, module in model.named_modules():
        top = name.partition(".")[0]
        if isinstance(module, VocabularyHead):
            counts["output"] += 2 * targets * module.weight.numel()
        elif isinstance(module, nn.Linear):  # each token meets each entry of the matrix once
            of_source = name.endswith("cross_attention.key_value")
            part = top if top in counts else "task heads"
            met = lengths[0] if of_source else tokens[top]
            counts[part] += 2 * met * module.weight.numel()
    for name, stack in model.named_children():
        for layer in stack.attentions() if isinstance(stack, Stack) else ():
            keys = lengths[0] if layer.cross else tokens[name]
            # Q Kᵀ and weights · V: (query, head_dim) (head_dim, key) and back, for every head
            counts["attention products"] += 4 * tokens[name] * keys * layer.heads * layer.head_dim
    return {part: count for part, count in counts.items() if count}


def _head_tokens(config: BlocksConfig, length: int, targets: int) -> dict[str, int]:
    """How many tokens of a text each of an encoder's heads reads."""
    if not isinstance(config, BertConfig):
        return {}
    pooled = int(config.next_sentence or bool(config.classes))
    return {
        "masked": targets,
        "pooler": pooled,
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
    dim, noise = config.dim, config.dim if config.dropout else 0
    keys_values = 2 * _kv_dim(config)
    inputs = dim if config.norm == "none" else 2 * dim  # x, norm(x)
    queries = config.heads * config.head_width
    attention = inputs + 3 * queries + noise + config.heads  # q, and the output twice
    if config.query_key_norm:
        # q and k as they were (k with v, which it was computed with), and before they are in rows
        attention += 2 * queries + keys_values + keys_values // 2
    feed_forward = inputs + noise + _hidden_copies(config) * config.hidden
    if isinstance(config, GPTConfig) and not config.feed_forward:
        feed_forward = 0
    ends = noise + 2 * dim  # the dropout of the embedding; the top of the stack and its norm
    ends += dim if config.embedding_norm else 0
    own, cross = _kept_weights(config)
    # the loss's own input; before a masked token's stand W x, f(W x), its norm
    total = (lengths[-1] if targets is None else targets) * dim * (4 if _masks(config) else 1)
    for _, layers, tokens, memory in _readings(config, lengths):
        linear = tokens * (layers * (attention + keys_values + feed_forward) + ends)
        total += linear + own * layers * tokens**2
        if memory:
            total += layers * (tokens * attention + memory * keys_values + cross * tokens * memory)
    return total


def _masks(config: BlocksConfig) -> bool:
    return isinstance(config, BertConfig) and config.masked


def loss_floats(config: BlocksConfig, vocab: int, targets: int) -> int:
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
    if isinstance(config, BertConfig):
        return 0
    if isinstance(config, GPTConfig):
        return config.layers * 2 * _kv_dim(config) * rows * length
    return config.decoder_layers * 2 * _kv_dim(config) * (rows * length + source)


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
