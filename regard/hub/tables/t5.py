"""T5 and T5 1.1: config and tensor names."""

from __future__ import annotations

from typing import Any

from regard.hub.kind import HubFormat, TensorNames, activation_of, activation_to
from regard.hub.needs import BLOCKS, Need, fixed
from regard.hub.rules import Rule, Table, add_prefixes, same
from regard.models import T5Config


def _read(hub_config: dict[str, Any], names: TensorNames) -> T5Config:
    tied = names.tied("lm_head.weight", "shared.weight", default=True)
    stated = str(hub_config.get("feed_forward_proj", "relu"))
    gate, name = ("gated_", stated[6:]) if stated.startswith("gated-") else ("", stated)
    if stated == "gated-gelu":
        name = "gelu_new"
    return T5Config(
        encoder={"layers": hub_config["num_layers"]},
        decoder={"layers": hub_config.get("num_decoder_layers") or hub_config["num_layers"]},
        dim=hub_config["d_model"],
        heads=hub_config["num_heads"],
        head_dim=hub_config["d_kv"],
        hidden=hub_config["d_ff"],
        activation=activation_of(gate + name),
        norm_epsilon=hub_config.get("layer_norm_epsilon", 1e-6),
        buckets=hub_config.get("relative_attention_num_buckets", 32),
        farthest=hub_config.get("relative_attention_max_distance", 128),
        max_length=hub_config.get("n_positions", 512),
        dropout=hub_config.get("dropout_rate", 0.1),
        attention_dropout=hub_config.get("dropout_rate", 0.1),
        tied="all" if tied else "inputs",
        # T5 scales the decoder's output before the tied output matrix; T5 1.1, which is not tied,
        # does not.
        scaled_output=hub_config.get(
            "scale_decoder_outputs", hub_config.get("tie_word_embeddings", True)
        ),
    )


def _write(config: T5Config, vocab: int, _: int) -> dict[str, Any]:
    name = config.activation.removeprefix("gated_")
    hub_name = "gelu" if config.activation == "gated_gelu_tanh" else activation_to(name)
    gate = "gated-" if config.activation.startswith("gated_") else ""
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "num_layers": config.encoder.layers,
        "num_decoder_layers": config.decoder.layers,
        "d_model": config.dim,
        "num_heads": config.heads,
        "d_kv": config.head_dim or config.dim // config.heads,
        "d_ff": config.hidden,
        "feed_forward_proj": gate + hub_name,
        "layer_norm_epsilon": config.norm_epsilon or 1e-6,
        "relative_attention_num_buckets": config.buckets,
        "relative_attention_max_distance": config.farthest,
        "n_positions": config.max_length,
        "dropout_rate": config.dropout,
        "tie_word_embeddings": config.tied == "all",
        "scale_decoder_outputs": config.scaled_output,
        "is_encoder_decoder": True,
        "vocab_size": vocab,
    }


def _names(config: T5Config) -> Table:
    rules = [
        *same("source_embed", "shared", bias=False),
        *same("target_embed", "decoder.embed_tokens", bias=False),
        *same("head", "lm_head", bias=False),
    ]
    gated = config.activation.startswith("gated_")
    into = "DenseReluDense.wi_0+DenseReluDense.wi_1" if gated else "DenseReluDense.wi"
    for stack, layers in config.stacks.items():
        first = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        rules += [Rule((f"{stack}.positions.table",), (first,))]
        rules += same(f"{stack}.final_norm", f"{stack}.final_layer_norm", bias=False)
        block = _attention("self", "layer.0.", "SelfAttention")
        if stack == "decoder":
            block += _attention("cross", "layer.1.", "EncDecAttention")
        feed = [
            *same("feed_norm", "layer_norm", bias=False),
            *same("feed_forward.into", into, bias=False),
            *same("feed_forward.out", "DenseReluDense.wo", bias=False),
        ]
        last = "layer.2." if stack == "decoder" else "layer.1."
        block += [rule.add_prefixes("", last) for rule in feed]
        for layer in range(layers):
            rules += add_prefixes(f"{stack}.blocks.{layer}.", f"{stack}.block.{layer}.", block)
    copies = {
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    }
    ignored = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)
    return Table(tuple(rules), copies, ignored)


def _attention(our_kind: str, layer: str, hub_module: str) -> list[Rule]:
    return [
        *same(f"{our_kind}_norm", f"{layer}layer_norm", bias=False),
        *same(f"{our_kind}_attention.query", f"{layer}{hub_module}.q", bias=False),
        *same(
            f"{our_kind}_attention.key_value",
            f"{layer}{hub_module}.k+{layer}{hub_module}.v",
            bias=False,
        ),
        *same(f"{our_kind}_attention.out", f"{layer}{hub_module}.o", bias=False),
    ]


_NEEDS = (
    *BLOCKS,
    *fixed(norm="rms", norm_place="pre", positions="buckets", score="dot", residual=True),
    *fixed(bias=False, attention_bias=None, kv_heads=None, window=None, query_key_norm=False),
    *fixed(embedding_norm=False, scaled_embedding=False, output_bias=False),
    Need("final_norm", (None, True)),
    Need("tied", ("all", "inputs")),
    # their logarithm of farthest / (buckets / 2) must not be zero
    Need("farthest", (128,), lambda config: config.farthest <= config.buckets // 2),
)

T5 = HubFormat("t5", "t5", "", _read, _write, _names, _NEEDS)
