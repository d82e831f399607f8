"""Llama, and Mistral, Qwen2 and Qwen3, which differ from it in biases, norms and windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from regard.hub.kind import (
    ACTIVATIONS,
    HubFormat,
    TensorNames,
    activation_of,
    activation_to,
    hub_activation,
    require,
)
from regard.hub.needs import Need, fixed
from regard.hub.rules import Table, add_prefixes, same
from regard.hub.tables.gpt2 import DECODER_NEEDS
from regard.layers.config import RotaryScaling
from regard.models import GPTConfig


@dataclass(frozen=True)
class _Window:
    """How a kind's config expresses sliding-window attention."""

    read: Callable[[dict[str, Any]], int | None]
    """Their config -> the size of the window; None for full attention."""
    write: Callable[[int | None], dict[str, Any]]
    """The size of the window -> values of their config."""


@dataclass(frozen=True)
class _LlamaVariant:
    """The properties in which one kind differs from the others.

    Attributes:
        name: Their `model_type`.
        biases: Which projections of attention have a bias: first without `attention_bias` in the
            config, last with it.
        window: How its config expresses a sliding window; None if it has none.
        query_key_norm: Whether each head's queries and keys are normalized.
        head_dim: The default width of a head; None means dim / heads.
    """

    name: str
    biases: tuple[Literal["none", "qkv", "all"], ...] = ("none", "all")
    window: _Window | None = None
    query_key_norm: bool = False
    head_dim: int | None = None

    def kind(self) -> HubFormat:
        """The `HubFormat` with these properties."""
        read, write, needs = partial(_read, self), partial(_write, self), _needs(self)
        return HubFormat(
            self.name, "gpt", "model.", read, write, _names, needs, recognised=self._recognised
        )

    def _recognised(self, hub_config: dict[str, Any], names: TensorNames) -> bool:
        """Whether a config without `model_type` may be of this kind: no window if it has none."""
        del names
        return self.window is not None or "sliding_window" not in hub_config


def _read(variant: _LlamaVariant, hub_config: dict[str, Any], names: TensorNames) -> GPTConfig:
    require(hub_config, pretraining_tp=1, mlp_bias=False)
    rope = hub_config.get("rope_parameters") or {}
    dim, heads = hub_config["hidden_size"], hub_config["num_attention_heads"]
    kv_heads = hub_config.get("num_key_value_heads") or heads
    head_dim = hub_config.get("head_dim") or variant.head_dim or dim // heads
    return GPTConfig(
        layers=hub_config["num_hidden_layers"],
        dim=dim,
        heads=heads,
        kv_heads=None if kv_heads == heads else kv_heads,
        head_dim=None if head_dim * heads == dim else head_dim,
        hidden=hub_config["intermediate_size"],
        activation=activation_of("gated_" + hub_activation(hub_config, "hidden_act", "silu")),
        norm="rms",
        norm_epsilon=hub_config.get("rms_norm_eps", 1e-6),
        positions="rotary",
        rotary_base=float(rope.get("rope_theta") or hub_config.get("rope_theta") or 10_000.0),
        rotary_scaling=_read_rotary_scaling(hub_config),
        query_key_norm=variant.query_key_norm,
        bias=False,
        attention_bias=variant.biases[-1 if hub_config.get("attention_bias") else 0],
        window=variant.window.read(hub_config) if variant.window else None,
        max_length=hub_config.get("max_position_embeddings", 2048),
        dropout=0.0,
        attention_dropout=hub_config.get("attention_dropout", 0.0),
        tied=names.tied("lm_head.weight", "model.embed_tokens.weight", default=False),
    )


def _read_rotary_scaling(hub_config: dict[str, Any]) -> RotaryScaling | None:
    """The scaling of rotary positions; None without. Refuses kinds that Regard does not have."""
    rope = hub_config.get("rope_parameters") or hub_config.get("rope_scaling") or {}
    if any(isinstance(value, dict) for value in rope.values()):
        require({"rope_parameters": "some for each kind of layer"}, rope_parameters="one for all")
    require(hub_config, partial_rotary_factor=1.0)
    require(rope, partial_rotary_factor=1.0)
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
                rope.get("original_max_position_embeddings")
                or hub_config["max_position_embeddings"]
            ),
        )
    require({"rope_type": kind}, rope_type="default, linear or llama3")
    return None


def _write(variant: _LlamaVariant, config: GPTConfig, vocab: int) -> dict[str, Any]:
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
    hub_config = {
        "architectures": [f"{variant.name.capitalize()}ForCausalLM"],
        "num_hidden_layers": config.layers,
        "hidden_size": config.dim,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads or config.heads,
        "head_dim": config.head_dim or config.dim // config.heads,
        "intermediate_size": config.hidden,
        "hidden_act": activation_to(config.activation.removeprefix("gated_")),
        "rms_norm_eps": config.norm_epsilon or 1e-6,
        "rope_parameters": rope,
        "max_position_embeddings": config.max_length,
        "attention_dropout": config.attention_dropout,
        "attention_bias": config.attention_bias == "all",
        "tie_word_embeddings": config.tied == "all",
        "vocab_size": vocab,
        **(variant.window.write(config.window) if variant.window else {}),
    }
    if config.rotary_scaling is not None:  # the key that transformers 4 reads
        hub_config["rope_scaling"] = {k: v for k, v in rope.items() if k != "rope_theta"}
    hub_config["rope_theta"] = config.rotary_base
    return hub_config


def _needs(variant: _LlamaVariant) -> tuple[Need, ...]:
    biases = variant.biases if "none" not in variant.biases else (None, *variant.biases)
    return (
        *fixed(positions="rotary", norm="rms"),
        Need("activation", tuple(f"gated_{name}" for name in ("silu", *ACTIVATIONS.values()))),
        Need("attention_bias", biases),
        *fixed(bias=False, query_key_norm=variant.query_key_norm),
        *(fixed(window=None) if variant.window is None else ()),
        *DECODER_NEEDS,
    )


def _names(config: GPTConfig) -> Table:
    rules = [
        *same("embed", "model.embed_tokens", bias=False),
        *same("decoder.final_norm", "model.norm", bias=False),
        *same("head", "lm_head", bias=False),
    ]
    qkv_bias, out_bias = config.attention_bias in ("qkv", "all"), config.attention_bias == "all"
    block = [
        *same("self_norm", "input_layernorm", bias=False),
        *same("self_attention.query", "self_attn.q_proj", bias=qkv_bias),
        *same("self_attention.key_value", "self_attn.k_proj+self_attn.v_proj", bias=qkv_bias),
        *same("self_attention.out", "self_attn.o_proj", bias=out_bias),
        *same("feed_norm", "post_attention_layernorm", bias=False),
        *same("feed_forward.into", "mlp.gate_proj+mlp.up_proj", bias=False),
        *same("feed_forward.out", "mlp.down_proj", bias=False),
    ]
    if config.query_key_norm:
        block += same("self_attention.query_norm", "self_attn.q_norm", bias=False)
        block += same("self_attention.key_norm", "self_attn.k_norm", bias=False)
    for layer in range(config.layers):
        rules += add_prefixes(f"decoder.blocks.{layer}.", f"model.layers.{layer}.", block)
    copies = {"lm_head.weight": "model.embed_tokens.weight"} if config.tied == "all" else {}
    return Table(tuple(rules), copies, ("*.rotary_emb.inv_freq",))


def _read_window(hub_config: dict[str, Any]) -> int | None:
    window = hub_config.get("sliding_window", 4096)
    return None if window is None else int(window)


def _read_window_if_used(hub_config: dict[str, Any]) -> int | None:
    """The sliding window if it is used; refuses configs where only some layers use it."""
    window = _read_window(hub_config)
    if window is None or not hub_config.get("use_sliding_window", False):
        return None
    layers = int(hub_config["num_hidden_layers"])
    full = int(hub_config.get("max_window_layers", 28))  # the first layers attend to everything
    by_number = {"full_attention": full > 0, "sliding_attention": layers > full}
    kinds = set(hub_config.get("layer_types") or [kind for kind, used in by_number.items() if used])
    if kinds == {"full_attention"}:
        return None
    if len(kinds) > 1:
        require({"layer_types": "some full, some sliding"}, layer_types="all of one kind")
    return window


def _write_window_if_used(window: int | None) -> dict[str, Any]:
    sizes = {"sliding_window": window, "max_window_layers": 0}
    return {"use_sliding_window": window is not None, **sizes}


WINDOW_ALWAYS = _Window(_read_window, lambda window: {"sliding_window": window})
WINDOW_IF_USED = _Window(_read_window_if_used, _write_window_if_used)

LLAMA = _LlamaVariant("llama").kind()
MISTRAL = _LlamaVariant("mistral", ("none",), WINDOW_ALWAYS).kind()
QWEN2 = _LlamaVariant("qwen2", ("qkv",), WINDOW_IF_USED).kind()
QWEN3 = _LlamaVariant("qwen3", window=WINDOW_IF_USED, query_key_norm=True, head_dim=128).kind()
