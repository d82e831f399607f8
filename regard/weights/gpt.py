"""GPT-2, and the Llama kind: Llama, Mistral, Qwen2, Qwen3."""

from __future__ import annotations

from typing import Any

from regard.models.config import GPTConfig, RotaryScaling
from regard.weights.kind import Kind, Names, activation_of, activation_to, only, their_activation
from regard.weights.rules import Rule, Table, same, within


def _read_gpt2(their: dict[str, Any], names: Names) -> GPTConfig:
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


def _write_gpt2(config: GPTConfig, vocab: int) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
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


def _names_gpt2(config: GPTConfig) -> Table:
    rules = [
        *same("embed", "transformer.wte", bias=False),
        Rule(("decoder.positions.table",), ("transformer.wpe.weight",)),
        *same("decoder.final_norm", "transformer.ln_f"),
        *same("head", "lm_head", bias=False),
    ]
    block = [
        *same("self_norm", "ln_1"),
        *same("self_attention.query+self_attention.key_value", "attn.c_attn", turned=True),
        *same("self_attention.out", "attn.c_proj", turned=True),
        *same("feed_norm", "ln_2"),
        *same("feed_forward.into", "mlp.c_fc", turned=True),
        *same("feed_forward.out", "mlp.c_proj", turned=True),
    ]
    for layer in range(config.layers):
        rules += within(f"decoder.blocks.{layer}.", f"transformer.h.{layer}.", block)
    ignored = ("*.attn.bias", "*.attn.masked_bias")  # the causal mask, once stored with the weights
    copies = {"lm_head.weight": "transformer.wte.weight"} if config.tied else {}
    return Table(tuple(rules), copies, ignored)


def _is_gpt2(config: GPTConfig) -> bool:
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
    """Whether nothing is set that no published decoder has."""
    return (
        config.score == "scaled_dot"
        and config.residual
        and config.feed_forward
        and config.final_norm in (None, True)
        and not (config.embedding_norm or config.scaled_embedding or config.output_bias)
        and not config.scaled_output
    )


def _read_llama(their: dict[str, Any], names: Names) -> GPTConfig:
    only(their, pretraining_tp=1, mlp_bias=False)
    kind = their["model_type"]
    rope = their.get("rope_parameters") or {}
    dim, heads = their["hidden_size"], their["num_attention_heads"]
    kv_heads = their.get("num_key_value_heads") or heads
    head_dim = their.get("head_dim") or (128 if kind == "qwen3" else dim // heads)
    return GPTConfig(
        layers=their["num_hidden_layers"],
        dim=dim,
        heads=heads,
        kv_heads=None if kv_heads == heads else kv_heads,
        head_dim=None if head_dim * heads == dim else head_dim,
        hidden=their["intermediate_size"],
        activation=activation_of("gated_" + their_activation(their, "hidden_act", "silu")),
        norm="rms",
        norm_epsilon=their.get("rms_norm_eps", 1e-6),
        positions="rotary",
        rotary_base=float(rope.get("rope_theta") or their.get("rope_theta") or 10_000.0),
        rotary_scaling=_scaling(their),
        query_key_norm=kind == "qwen3",
        bias=False,
        attention_bias=_attention_bias(their),
        window=_window(their),
        max_length=their.get("max_position_embeddings", 2048),
        dropout=0.0,
        attention_dropout=their.get("attention_dropout", 0.0),
        tied=names.tied("lm_head.weight", "model.embed_tokens.weight", usual=False),
    )


def _attention_bias(their: dict[str, Any]) -> Any:
    if their["model_type"] == "qwen2":
        return "qkv"
    return "all" if their.get("attention_bias") else "none"


def _window(their: dict[str, Any]) -> int | None:
    """The sliding window, if all layers have it."""
    kind, window = their["model_type"], their.get("sliding_window", 4096)
    if kind == "llama" or window is None:
        return None
    if kind == "mistral":
        return int(window)
    if not their.get("use_sliding_window", False):
        return None
    layers, full = int(their["num_hidden_layers"]), int(their.get("max_window_layers", 28))
    by_number = {"full_attention": full > 0, "sliding_attention": layers > full}
    kinds = set(their.get("layer_types") or [kind for kind, some in by_number.items() if some])
    if kinds == {"full_attention"}:
        return None
    if len(kinds) > 1:
        only({"layer_types": "some full, some sliding"}, layer_types="all of one kind")
    return int(window)


def _scaling(their: dict[str, Any]) -> RotaryScaling | None:
    rope = their.get("rope_parameters") or their.get("rope_scaling") or {}
    if any(isinstance(value, dict) for value in rope.values()):
        only({"rope_parameters": "some for each kind of layer"}, rope_parameters="one for all")
    only(their, partial_rotary_factor=1.0)
    only(rope, partial_rotary_factor=1.0)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return None
    if kind == "linear":
        return RotaryScaling(kind="linear", factor=float(rope["factor"]))
    if kind == "llama3":
        return RotaryScaling(
            kind="llama3",
            factor=float(rope["factor"]),
            low=float(rope["low_freq_factor"]),
            high=float(rope["high_freq_factor"]),
            original=int(
                rope.get("original_max_position_embeddings") or their["max_position_embeddings"]
            ),
        )
    only({"rope_type": kind}, rope_type="default, linear or llama3")
    return None


def _write_llama(config: GPTConfig, vocab: int) -> dict[str, Any]:
    kind = _llama_kind(config)
    rope: dict[str, Any] = {"rope_theta": config.rotary_base, "rope_type": "default"}
    if config.rotary_scaling is not None:
        scaling = config.rotary_scaling
        rope |= {"rope_type": scaling.kind, "factor": scaling.factor}
        if scaling.kind == "llama3":
            rope |= {
                "low_freq_factor": scaling.low,
                "high_freq_factor": scaling.high,
                "original_max_position_embeddings": scaling.original,
            }
    written = {
        "model_type": kind,
        "architectures": [f"{kind.capitalize()}ForCausalLM"],
        "num_hidden_layers": config.layers,
        "hidden_size": config.dim,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads or config.heads,
        "head_dim": config.head_width,
        "intermediate_size": config.hidden,
        "hidden_act": activation_to(config.activation.removeprefix("gated_")),
        "rms_norm_eps": config.norm_epsilon or 1e-6,
        "rope_parameters": rope,
        "max_position_embeddings": config.max_length,
        "attention_dropout": config.attention_dropout,
        "attention_bias": config.attention_bias == "all" or (config.bias and kind == "llama"),
        "tie_word_embeddings": config.tied,
        "vocab_size": vocab,
    }
    if kind == "mistral":
        written["sliding_window"] = config.window
    if kind.startswith("qwen"):
        written |= {
            "use_sliding_window": config.window is not None,
            "sliding_window": config.window,
            "max_window_layers": 0,
        }
    if config.rotary_scaling is not None:  # what transformers 4 reads
        written["rope_scaling"] = {k: v for k, v in rope.items() if k != "rope_theta"}
    written["rope_theta"] = config.rotary_base
    return written


def _llama_kind(config: GPTConfig) -> str:
    if config.query_key_norm:
        return "qwen3"
    if config.attention_bias == "qkv":
        return "qwen2"
    return "llama" if config.window is None else "mistral"


def _is_llama(config: GPTConfig) -> bool:
    return (
        (config.norm, config.positions, config.norm_place) == ("rms", "rotary", "pre")
        and config.activation.startswith("gated")
        and not config.bias
        # Qwen3's biases are all or none, and Mistral's none.
        and not (config.query_key_norm and config.attention_bias == "qkv")
        and not (_llama_kind(config) == "mistral" and config.attention_bias == "all")
        and plain(config)
    )


def _names_llama(config: GPTConfig) -> Table:
    rules = [
        *same("embed", "model.embed_tokens", bias=False),
        *same("decoder.final_norm", "model.norm", bias=False),
        *same("head", "lm_head", bias=False),
    ]
    some, all_ = config.attention_bias in ("qkv", "all"), config.attention_bias == "all"
    block = [
        *same("self_norm", "input_layernorm", bias=False),
        *same("self_attention.query", "self_attn.q_proj", bias=some),
        *same("self_attention.key_value", "self_attn.k_proj+self_attn.v_proj", bias=some),
        *same("self_attention.out", "self_attn.o_proj", bias=all_),
        *same("feed_norm", "post_attention_layernorm", bias=False),
        *same("feed_forward.into", "mlp.gate_proj+mlp.up_proj", bias=False),
        *same("feed_forward.out", "mlp.down_proj", bias=False),
    ]
    if config.query_key_norm:
        block += same("self_attention.query_norm", "self_attn.q_norm", bias=False)
        block += same("self_attention.key_norm", "self_attn.k_norm", bias=False)
    for layer in range(config.layers):
        rules += within(f"decoder.blocks.{layer}.", f"model.layers.{layer}.", block)
    copies = {"lm_head.weight": "model.embed_tokens.weight"} if config.tied else {}
    return Table(tuple(rules), copies, ("*.rotary_emb.inv_freq",))


GPT2 = Kind("gpt", "transformer.", _read_gpt2, _write_gpt2, _names_gpt2, _is_gpt2)
LLAMA = Kind("gpt", "model.", _read_llama, _write_llama, _names_llama, _is_llama)
