"""Counts the parameters and FLOPs of a model.

A config or model of any family and the lengths of texts come in (source and target, or the only
text); counts go out. No memory is allocated: `meta_model` builds the real model on the meta device,
whose tensors have shapes but no data.
"""

from __future__ import annotations

from torch import nn

from regard.layers import Layout, RelativeBias, VocabularyHead
from regard.layers.convnets import FeatureMaps
from regard.layers.convolution_2d import Convolution2d
from regard.layers.grid_config import Convolutions
from regard.layers.stages import Stages
from regard.layers.stages_config import GridStages
from regard.models.config import EncoderConfig, ModelConfig
from regard.models.model import Model

TRAINING = 3
"""Training FLOPs per forward FLOPs: for each matrix product, the backward pass computes two more,
for the gradients of the input and of the matrix."""

VOCABULARY_PARTS = ("embedding", "source embedding", "target embedding", "output")
"""The parts whose size depends on the vocabulary, often left out of published parameter counts."""

RELATIVE = "relative positions"
"""The part of the matrices for relative positions that some published models have."""

_EMBEDDING_PARTS = {
    "embed": "embedding",
    "source_embed": "source embedding",
    "target_embed": "target embedding",
}
_FRONT_PARTS = {
    "projection": "patch embedding",
    "stem": "stem",
    "first": "class token",
    "types": "token types",
    "norm": "embedding norms",
}
"""The parts of an embedding module other than its matrix, by the names of their parameters."""
_SUBLAYER_PARTS = {
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "convolution": "convolution",
    "recurrent": "recurrence",
    "feed_forward": "feed-forward",
    "norm": "norms",
    "gain": "layer scales",
    "linear": "dense layers",
}
"""The parts of a block, by the end of the names of its modules; names may also have a prefix."""
_BETWEEN_BLOCKS = {"merges": "merging", "first": "first state", "readout": "readout"}
"""The parts between stages, and those below and above the layers of a recurrent decoder."""
_STACK_PARTS = ("positions", *dict.fromkeys(_SUBLAYER_PARTS.values()), *_BETWEEN_BLOCKS.values())
_ALL_PARTS = (
    *_EMBEDDING_PARTS.values(),
    *_FRONT_PARTS.values(),
    *(f"encoder {part}" for part in _STACK_PARTS),
    "bridge",
    *(f"decoder {part}" for part in _STACK_PARTS),
    "task heads",
    "output",
)
"""The parts of all families, in the order of the forward pass."""


def parameters(model: Model) -> dict[str, int]:
    """The number of parameters of each part; a shared matrix is counted in its first part.

    Example:
        >>> from regard.models import GPTConfig
        >>> from regard.models.meta_model import meta_model
        >>> sum(parameters(meta_model(GPTConfig(size="gpt2"), 50257)).values())
        124439808
    """
    counts: dict[str, int] = {}
    counted: set[int] = set()  # ids of parameters
    for name, parameter in model.named_parameters(remove_duplicate=False):
        part = _part_of(name)
        counts[part] = counts.get(part, 0) + (id(parameter) not in counted) * parameter.numel()
        counted.add(id(parameter))
    return {part: counts[part] for part in dict.fromkeys((*_ALL_PARTS, *counts)) if part in counts}


def shared_parts(model: Model) -> dict[str, str]:
    """The parts that share a matrix, each with the part that the matrix belongs to."""
    owners: dict[int, str] = {}
    shared = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        part = _part_of(name)
        owner = owners.setdefault(id(parameter), part)
        if owner != part:
            shared[part] = owner
    return shared


def _part_of(name: str) -> str:
    """`decoder.blocks.2.cross_attention.query.weight` -> `decoder cross-attention`."""
    match name.split("."):
        case [stack, "blocks", _, module, *_]:
            module_words = module.replace("_", " ")  # a sub-layer of one family only
            if module.isdigit():  # a block of a ResNet
                return f"{stack} convolution"
            kinds = (part for end, part in _SUBLAYER_PARTS.items() if module.endswith(end))
            return f"{stack} {next(kinds, module_words)}"
        case [stack, "final_norm", _]:
            return f"{stack} norms"
        case [stack, module, _, *_] if module in _BETWEEN_BLOCKS:
            return f"{stack} {_BETWEEN_BLOCKS[module]}"
        case [stack, "positions", _]:
            return f"{stack} positions"
        case [module, "weight"] if module in _EMBEDDING_PARTS:
            return _EMBEDDING_PARTS[module]
        case [module, inner, *_] if module in _EMBEDDING_PARTS and inner in _FRONT_PARTS:
            return _FRONT_PARTS[inner]
        case ["head", _] | ["masked", "vocabulary", _]:
            return "output"
        case [module, *_] if module in ("pooler", "numbers", *EncoderConfig.HEADS):
            return "task heads"
    return name.partition(".")[0].replace("_", " ")  # a part of one family only


def forward_flops(model: Model, *lengths: int, targets: int | None = None) -> dict[str, int]:
    """The FLOPs of a forward pass of one example by part: 2·m·n·k for each (m, k) times (k, n).

    The products of attention are counted for every query and key, as by a profiler, although a
    causal kernel may skip half of the decoder's, and a window most of them; those of an encoder in
    stages for every query and the cells of its window. Norms, softmax and
    other sums are not counted. All heads of an encoder that the config names are counted; the
    pooler only if one of them reads its output.

    Args:
        model: The model, on any device.
        lengths: The number of tokens of source and target (its begin symbol included), or of the
            only text.
        targets: The number of tokens whose logits over the vocabulary are computed: for a masked
            text the masked ones. None: all tokens of the last text.
    """
    targets = lengths[-1] if targets is None else targets
    config = model.config
    parts = ("embed", "encoder", "bridge", "decoder", "attention products", "task heads", "output")
    counts = dict.fromkeys(parts, 0)
    # The dense layers of a convolutional model are applied once to an image.
    is_convolutional = isinstance(config.first, Convolutions | GridStages)
    tokens = {"encoder": 1 if is_convolutional else lengths[0], "decoder": lengths[-1]}
    tokens["bridge"] = lengths[0]
    tokens["embed"] = lengths[0] - getattr(config.first.front, "tokens_before", 0)  # patches
    tokens |= _head_tokens(config, lengths[-1], targets)
    cells, window = _cells_of_stages(model), _window_of_stages(model)
    for name, module in model.named_modules():
        top = name.partition(".")[0]
        if isinstance(module, VocabularyHead):
            counts["output"] += 2 * targets * module.weight.numel()
        elif isinstance(module, Convolution2d):  # at each place of its output
            counts[top] += 2 * module.output_cells * module.weight.numel()
        elif isinstance(module, nn.Linear | nn.RNNBase | nn.Conv1d):
            part = top if top in counts else "task heads"
            of_source = name.endswith("cross_attention.key_value")
            token_count = lengths[0] if of_source else tokens.get(top, lengths[-1])
            token_count = 1 if top in ("pooled_norm", "pooling_layer") else token_count
            token_count = cells.get(id(module), token_count)
            # Each token is multiplied once with each entry of a matrix, also in RNN cells and
            # convolution kernels.
            entries = sum(w.numel() for w in module.parameters() if w.dim() > 1)
            counts[part] += 2 * token_count * entries
    for name in config.stacks:
        for layer in getattr(model, name).attentions():
            queries = cells.get(id(layer), tokens[name])
            keys = lengths[0] if layer.cross else window.get(id(layer), queries)
            # For every head Q Kᵀ: (query, head_dim) (head_dim, key), and weights · V:
            # (query, key) (key, head_dim).
            counts["attention products"] += 4 * queries * keys * layer.heads * layer.head_dim
    front = "stem" if hasattr(getattr(model, "embed", None), "stem") else "patch embedding"
    counts = {front: counts.pop("embed"), **counts}
    return {part: count for part, count in counts.items() if count}


def _cells_of_stages(model: Model) -> dict[int, int]:
    """The id of a module that is applied to the cells of a stage -> their number.

    These are the attentions between the stages of a ResNet, and all parts of an encoder in stages.
    """
    encoder = getattr(model, "encoder", None)
    parts: list[tuple[nn.Module, int]] = []
    if isinstance(encoder, FeatureMaps):
        parts = [(part, part.cells) for part in encoder.stage_attentions()]
    elif isinstance(encoder, Stages):
        areas = [rows * columns for rows, columns in encoder.config.grids]
        parts = [(model.embeds()[0], areas[0])]
        parts += list(zip(encoder.merges, areas[1:], strict=True))
        parts += [(block, areas[encoder.stage_of(i)]) for i, block in enumerate(encoder.layers())]
        # The net of a bias is applied to offsets, once for a whole batch: it is not counted.
        parts += [(module, 0) for module in encoder.modules() if isinstance(module, RelativeBias)]
    return {id(module): cells for part, cells in parts for module in part.modules()}


def _window_of_stages(model: Model) -> dict[int, int]:
    """The id of each attention within windows of an encoder in stages -> the cells of a window."""
    encoder, windows = getattr(model, "encoder", None), {}
    if not isinstance(encoder, Stages):
        return {}
    for number, layer in enumerate(encoder.attentions()):
        grid = encoder.config.grids[encoder.stage_of(number)]
        of_layer = encoder.windows(Layout((grid[0] * grid[1],), grid=grid), number)
        if of_layer is not None:
            windows[id(layer)] = of_layer.longest
    return windows


def _head_tokens(config: ModelConfig, length: int, targets: int) -> dict[str, int]:
    """The number of tokens of a text that each output head of an encoder reads."""
    heads = {"next_sentence", "classes"}  # the heads that read the pooler's output
    return {
        "masked": targets,
        "pooler": int(any(getattr(config, head, False) for head in heads)),
        "next_sentence": 1,
        "classes": 1,
        "numbers": 1,
        "tags": length,
        "spans": length,
    }
