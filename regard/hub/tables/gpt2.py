"""GPT-2: config and tensor names."""

from __future__ import annotations

from typing import Any

from regard.hub.kind import Kind, Names, activation_of, activation_to, only, their_activation
from regard.hub.rules import Rule, Table, same, within
from regard.models import GPTConfig


def _read(their: dict[str, Any], names: Names) -> GPTConfig:
    only(their, scale_attn_by_inverse_layer_idx=False, scale_attn_weights=True,
         add_cross_attention=False, reorder_and_upcast_attn=False)  # fmt: skip
    dim = their["n_embd"]
    return GPTConfig(
        layers=their["n_layer"],
        dim=dim,
        heads=their["n_head"],
        hidden=their.get("n_inner") or 4 * dim,
        activation=activation_of(their_activation(their, "activation_function", "gelu_new")),
        norm_epsilon=their.get("layer_norm_epsilon", 1e-5),
        max_length=their.get("n_positions", 1024),
        dropout=their.get("resid_pdrop", 0.1),
        hidden_dropout=0.0,
        attention_dropout=their.get("attn_pdrop", 0.1),
        tied=names.tied("lm_head.weight", "transformer.wte.weight", usual=True),
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
        "tie_word_embeddings": config.tied,
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
        rules += within(f"decoder.blocks.{layer}.", f"transformer.h.{layer}.", block)
    ignored = ("*.attn.bias", "*.attn.masked_bias")  # causal masks, stored by old versions
    copies = {"lm_head.weight": "transformer.wte.weight"} if config.tied else {}
    return Table(tuple(rules), copies, ignored)


def _fits(config: GPTConfig) -> bool:
    return (
        (config.norm, config.positions, config.norm_place) == ("layer", "learned", "pre")
        and not config.activation.startswith("gated")
        and config.bias
        and config.attention_bias in (None, "all")
        and (config.kv_heads, config.head_dim, config.window) == (None, None, None)
        and not config.query_key_norm
        and plain(config)
    )


def plain(config: GPTConfig) -> bool:
    """Whether all settings that GPT-2 and Llama share have the values that both require."""
    return (
        config.score == "scaled_dot"
        and config.residual
        and config.feed_forward
        and config.final_norm in (None, True)
        and not (config.embedding_norm or config.scaled_embedding or config.output_bias)
        and not config.scaled_output
    )


GPT2 = Kind("gpt2", "gpt", "transformer.", _read, _write, _names, _fits)
