"""BART, Marian and Pegasus, the usual encoder-decoders: config and tensor names.

BART and Marian have their norms after the residual sum, Pegasus before each sub-layer.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from regard.hub.kind import (
    ACTIVATIONS,
    HubFormat,
    TensorNames,
    activation_of,
    activation_to,
    hub_activation,
    require,
)
from regard.hub.needs import BLOCKS, Need, fixed
from regard.hub.rules import ComputedTensor, Rule, Table, add_prefixes, same
from regard.layers import sinusoid
from regard.models import TransformerConfig

_POST_NORM = {"normalize_before": False, "add_final_layer_norm": False}
"""Norms after the residual sum, as old configs write it."""


def _read_bart(hub_config: dict[str, Any], names: TensorNames) -> TransformerConfig:
    require(hub_config, normalize_embedding=True, **_POST_NORM)
    return _read(hub_config, names, embedding_norm=True, positions="learned", positions_from=2)


def _read_marian(hub_config: dict[str, Any], names: TensorNames) -> TransformerConfig:
    require(hub_config, normalize_embedding=False, **_POST_NORM)
    return _read(hub_config, names, positions="sinusoidal_halves")


def _read_pegasus(hub_config: dict[str, Any], names: TensorNames) -> TransformerConfig:
    require(hub_config, normalize_embedding=False, normalize_before=True, add_final_layer_norm=True)
    require(hub_config, static_position_embeddings=True)
    return _read(hub_config, names, positions="sinusoidal_halves", norm_place="pre")


def _read(hub_config: dict[str, Any], names: TensorNames, **own_settings: Any) -> TransformerConfig:
    """Reads the settings that all three share; `own_settings` adds those of one kind."""
    for size in ("attention_heads", "ffn_dim"):
        require(hub_config, **{f"decoder_{size}": hub_config[f"encoder_{size}"]})
    shared = hub_config.get("share_encoder_decoder_embeddings", True)
    tied = names.tied("lm_head.weight", _embedding_name(shared=shared), default=True)
    return TransformerConfig(
        encoder={"layers": hub_config["encoder_layers"]},
        decoder={"layers": hub_config["decoder_layers"]},
        dim=hub_config["d_model"],
        heads=hub_config["encoder_attention_heads"],
        hidden=hub_config["encoder_ffn_dim"],
        activation=activation_of(hub_activation(hub_config, "activation_function", "gelu")),
        norm_epsilon=1e-5,
        max_length=hub_config.get("max_position_embeddings", 1024),
        scaled_embedding=hub_config.get("scale_embedding", False),
        output_bias=True,
        dropout=hub_config.get("dropout", 0.1),
        hidden_dropout=hub_config.get("activation_dropout", 0.0),
        attention_dropout=hub_config.get("attention_dropout", 0.0),
        tied={(True, True): "all", (True, False): "inputs", (False, True): "output"}.get(
            (shared, tied), "none"
        ),
        **{"norm_place": "post", **own_settings},
    )


def _embedding_name(*, shared: bool) -> str:
    return "model.shared.weight" if shared else "model.decoder.embed_tokens.weight"


def _write_bart(config: TransformerConfig, source: int, _: int) -> dict[str, Any]:
    return _write("BartForConditionalGeneration", config, source)


def _write_pegasus(config: TransformerConfig, source: int, _: int) -> dict[str, Any]:
    return _write("PegasusForConditionalGeneration", config, source)


def _write_marian(config: TransformerConfig, source: int, target: int) -> dict[str, Any]:
    return {
        **_write("MarianMTModel", config, source),
        "share_encoder_decoder_embeddings": config.tied in ("all", "inputs"),
        "decoder_vocab_size": target,
    }


def _write(architecture: str, config: TransformerConfig, source: int) -> dict[str, Any]:
    hidden_dropout = config.dropout if config.hidden_dropout is None else config.hidden_dropout
    return {
        "architectures": [architecture],
        "encoder_layers": config.encoder.layers,
        "decoder_layers": config.decoder.layers,
        "d_model": config.dim,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.hidden,
        "decoder_ffn_dim": config.hidden,
        "activation_function": activation_to(config.activation),
        "max_position_embeddings": config.max_length,
        "scale_embedding": config.scaled_embedding,
        "dropout": config.dropout,
        "activation_dropout": hidden_dropout,
        "attention_dropout": config.attention_dropout,
        "is_encoder_decoder": True,
        "tie_word_embeddings": config.tied in ("all", "output"),
        "vocab_size": source,
    }


def _names(config: TransformerConfig) -> Table:
    shared = config.tied in ("all", "inputs")
    source = "model.shared" if shared else "model.encoder.embed_tokens"
    rules = [
        *same("source_embed", source, bias=False),
        *same("target_embed", "model.decoder.embed_tokens", bias=False),
        *same("head", "lm_head", bias=False),
        Rule(("head.bias",), ("final_logits_bias",), row=True, zero=True),
    ]
    for stack, layers in config.stacks.items():
        if config.positions.kind == "learned":
            hub_name = (f"model.{stack}.embed_positions.weight",)
            rules += [Rule((f"{stack}.positions.table",), hub_name)]
            side = "source" if stack == "encoder" else "target"
            rules += same(f"{side}_embed.norm", f"model.{stack}.layernorm_embedding")
        block = _attention("self", "self_attn")
        if stack == "decoder":
            block += _attention("cross", "encoder_attn")
        block += [
            *same("feed_forward.into", "fc1"),
            *same("feed_forward.out", "fc2"),
            *same("feed_norm", "final_layer_norm"),
        ]
        if config.norm_place == "pre":
            rules += same(f"{stack}.final_norm", f"model.{stack}.layer_norm")
        for layer in range(layers):
            rules += add_prefixes(
                f"{stack}.blocks.{layer}.", f"model.{stack}.layers.{layer}.", block
            )
    copies = {
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
        "lm_head.weight": _embedding_name(shared=shared),
    }
    if not shared:
        copies = {"lm_head.weight": _embedding_name(shared=False)}
    if config.positions.kind == "learned":
        return Table(tuple(rules), copies)
    shape = config.max_length, config.dim
    stored = config.norm_place == "pre"  # Marian's are not
    sinusoids = ComputedTensor(shape, partial(sinusoid, *shape, halves=True), stored)
    computed = {f"model.{stack}.embed_positions.weight": sinusoids for stack in config.stacks}
    return Table(tuple(rules), copies, computed=computed)


def _attention(our_kind: str, hub_module: str) -> list[Rule]:
    return [
        *same(f"{our_kind}_attention.query", f"{hub_module}.q_proj"),
        *same(f"{our_kind}_attention.key_value", f"{hub_module}.k_proj+{hub_module}.v_proj"),
        *same(f"{our_kind}_attention.out", f"{hub_module}.out_proj"),
        *same(f"{our_kind}_norm", f"{hub_module}_layer_norm"),
    ]


_COMMON_NEEDS = (
    *BLOCKS,
    *fixed(norm="layer", score="scaled_dot", residual=True, scaled_output=False),
    *fixed(kv_heads=None, head_dim=None, window=None, query_key_norm=False),
    Need("norm_epsilon", (None, 1e-5)),
    Need("activation", tuple(ACTIVATIONS.values())),
)
"""What BART, Marian and Pegasus require."""
_SINUSOIDAL_NEEDS = (
    Need("positions", ("sinusoidal", "sinusoidal_halves")),
    *fixed(embedding_norm=False),
)
_BART_NEEDS = (
    *_COMMON_NEEDS,
    *fixed(norm_place="post", positions="learned", positions_from=2, embedding_norm=True),
    *fixed(tied="all"),
    Need("final_norm", (None, False)),
)
_MARIAN_NEEDS = (
    *_COMMON_NEEDS,
    *_SINUSOIDAL_NEEDS,
    *fixed(norm_place="post"),
    Need("final_norm", (None, False)),
)
_PEGASUS_NEEDS = (
    *_COMMON_NEEDS,
    *_SINUSOIDAL_NEEDS,
    *fixed(norm_place="pre", tied="all"),
    Need("final_norm", (None, True)),
)

_HEADS = ("lm_head.", "final_logits_bias")
_BODY = ("transformer", "model.")  # our family, and the prefix of their tensor names
BART = HubFormat("bart", *_BODY, _read_bart, _write_bart, _names, _BART_NEEDS, _HEADS)
MARIAN = HubFormat(
    "marian", *_BODY, _read_marian, _write_marian, _names, _MARIAN_NEEDS, _HEADS, halves=True
)
PEGASUS = HubFormat(
    "pegasus", *_BODY, _read_pegasus, _write_pegasus, _names, _PEGASUS_NEEDS, _HEADS, halves=True
)
