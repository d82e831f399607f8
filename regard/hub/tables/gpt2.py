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
from regard.layers.config import StackConfig
from regard.models import GPTConfig


def stack_settings(hub_config: dict[str, Any]) -> dict[str, Any]:
    """The settings of the stack, in the short form; with cross-attention they are the same."""
    require(hub_config, scale_attn_by_inverse_layer_idx=False, scale_attn_weights=True,
            reorder_and_upcast_attn=False)  # fmt: skip
    dim = hub_config["n_embd"]
    return {
        "layers": hub_config["n_layer"],
        "dim": dim,
        "heads": hub_config["n_head"],
        "hidden": hub_config.get("n_inner") or 4 * dim,
        "activation": activation_of(hub_activation(hub_config, "activation_function", "gelu_new")),
        "norm_epsilon": hub_config.get("layer_norm_epsilon", 1e-5),
        "max_length": hub_config.get("n_positions", 1024),
        "dropout": hub_config.get("resid_pdrop", 0.1),
        "hidden_dropout": 0.0,
        "attention_dropout": hub_config.get("attn_pdrop", 0.1),
    }


def _read(hub_config: dict[str, Any], names: TensorNames) -> GPTConfig:
    require(hub_config, add_cross_attention=False)
    tied = names.tied("lm_head.weight", "transformer.wte.weight", default=True)
    return GPTConfig(**stack_settings(hub_config), tied=tied)


def stack_entries(side: StackConfig, vocab: int, *, tied: bool) -> dict[str, Any]:
    """The entries of their config for a stack, with or without cross-attention.

    Args:
        side: The stack.
        vocab: Size of the vocabulary.
        tied: Whether the embedding is the matrix of the head.
    """
    assert side.attention is not None  # `StandardBlocks` is a need
    assert side.feed_forward is not None
    return {
        "n_layer": side.layers,
        "n_embd": side.dim,
        "n_head": side.attention.heads,
        "n_inner": side.feed_forward.hidden,
        "n_positions": side.front.max_length,
        "activation_function": activation_to(side.feed_forward.activation),
        "layer_norm_epsilon": side.norm_epsilon or 1e-5,
        "resid_pdrop": side.dropout,
        "embd_pdrop": side.dropout,
        "attn_pdrop": side.attention.attention_dropout,
        "tie_word_embeddings": tied,
        "vocab_size": vocab,
    }


def _write(config: GPTConfig, vocab: int) -> dict[str, Any]:
    entries = stack_entries(config.decoder, vocab, tied=config.tied == "all")
    return {"architectures": ["GPT2LMHeadModel"], **entries}


def stack_rules(layers: int, embed: str = "embed", *, cross: bool = False) -> list[Rule]:
    """The rules for all tensors of a model.

    Args:
        layers: The number of blocks.
        embed: Our name of the embedding.
        cross: Whether the blocks have cross-attention.
    """
    rules = [
        *same(embed, "transformer.wte", bias=False),
        Rule(("decoder.positions.table",), ("transformer.wpe.weight",)),
        *same("decoder.final_norm", "transformer.ln_f"),
        *same("head", "lm_head", bias=False),
    ]
    block = [
        *same("self_norm", "ln_1"),
        *same("self_attention.query+self_attention.key_value", "attn.c_attn", transposed=True),
        *same("self_attention.out", "attn.c_proj", transposed=True),
        *(_cross_rules() if cross else ()),
        *same("feed_norm", "ln_2"),
        *same("feed_forward.into", "mlp.c_fc", transposed=True),
        *same("feed_forward.out", "mlp.c_proj", transposed=True),
    ]
    for layer in range(layers):
        rules += add_prefixes(f"decoder.blocks.{layer}.", f"transformer.h.{layer}.", block)
    return rules


def _cross_rules() -> list[Rule]:
    return [
        *same("cross_norm", "ln_cross_attn"),
        *same("cross_attention.query", "crossattention.q_attn", transposed=True),
        *same("cross_attention.key_value", "crossattention.c_attn", transposed=True),
        *same("cross_attention.out", "crossattention.c_proj", transposed=True),
    ]


MASKS = ("*.attn.bias", "*.attn.masked_bias", "*.crossattention.bias",
         "*.crossattention.masked_bias")  # fmt: skip
"""Causal masks, which old versions stored."""


def _names(config: GPTConfig) -> Table:
    copies = {"lm_head.weight": "transformer.wte.weight"} if config.tied == "all" else {}
    return Table(tuple(stack_rules(config.layers)), copies, MASKS)


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
