"""GPT-2: config and tensor names."""

from __future__ import annotations

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
from regard.hub.rules import Rule, Table, add_prefixes, same
from regard.models import GPTConfig


def _read(hub_config: dict[str, Any], names: TensorNames) -> GPTConfig:
    require(hub_config, scale_attn_by_inverse_layer_idx=False, scale_attn_weights=True,
            add_cross_attention=False, reorder_and_upcast_attn=False)  # fmt: skip
    dim = hub_config["n_embd"]
    return GPTConfig(
        layers=hub_config["n_layer"],
        dim=dim,
        heads=hub_config["n_head"],
        hidden=hub_config.get("n_inner") or 4 * dim,
        activation=activation_of(hub_activation(hub_config, "activation_function", "gelu_new")),
        norm_epsilon=hub_config.get("layer_norm_epsilon", 1e-5),
        max_length=hub_config.get("n_positions", 1024),
        dropout=hub_config.get("resid_pdrop", 0.1),
        hidden_dropout=0.0,
        attention_dropout=hub_config.get("attn_pdrop", 0.1),
        tied=names.tied("lm_head.weight", "transformer.wte.weight", default=True),
    )


def _write(config: GPTConfig, vocab: int) -> dict[str, Any]:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "n_layer": config.layers,
        "n_embd": config.dim,
        "n_head": config.heads,
        "n_inner": config.hidden,
        "n_positions": config.max_length,
        "activation_function": activation_to(config.activation),
        "layer_norm_epsilon": config.norm_epsilon or 1e-5,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "tie_word_embeddings": config.tied == "all",
        "vocab_size": vocab,
    }


def _names(config: GPTConfig) -> Table:
    rules = [
        *same("embed", "transformer.wte", bias=False),
        Rule(("decoder.positions.table",), ("transformer.wpe.weight",)),
        *same("decoder.final_norm", "transformer.ln_f"),
        *same("head", "lm_head", bias=False),
    ]
    block = [
        *same("self_norm", "ln_1"),
        *same("self_attention.query+self_attention.key_value", "attn.c_attn", transposed=True),
        *same("self_attention.out", "attn.c_proj", transposed=True),
        *same("feed_norm", "ln_2"),
        *same("feed_forward.into", "mlp.c_fc", transposed=True),
        *same("feed_forward.out", "mlp.c_proj", transposed=True),
    ]
    for layer in range(config.layers):
        rules += add_prefixes(f"decoder.blocks.{layer}.", f"transformer.h.{layer}.", block)
    ignored = ("*.attn.bias", "*.attn.masked_bias")  # causal masks, stored by old versions
    copies = {"lm_head.weight": "transformer.wte.weight"} if config.tied == "all" else {}
    return Table(tuple(rules), copies, ignored)


DECODER_NEEDS = (
    *BLOCKS,
    *fixed(score="scaled_dot", residual=True, norm_place="pre"),
    *fixed(embedding_norm=False, scaled_embedding=False, output_bias=False, scaled_output=False),
    Need("final_norm", (None, True)),
)
"""What GPT-2 and Llama both require."""
_NEEDS = (
    *fixed(positions="learned", positions_from=0, norm="layer"),
    Need("activation", ("gelu_tanh", *ACTIVATIONS.values())),
    *fixed(kv_heads=None, head_dim=None, window=None, query_key_norm=False),
    *DECODER_NEEDS,
)

GPT2 = HubFormat("gpt2", "gpt", "transformer.", _read, _write, _names, _NEEDS)
