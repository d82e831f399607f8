"""T5, BART and Marian: encoder-decoders."""

from __future__ import annotations

from functools import partial
from typing import Any

from regard.layers import sinusoid
from regard.models.config import T5Config, TransformerConfig
from regard.weights.kind import (
    ACTIVATIONS,
    Kind,
    Names,
    activation_of,
    activation_to,
    only,
    their_activation,
)
from regard.weights.rules import Known, Rule, Table, same, within


def _read_t5(their: dict[str, Any], names: Names) -> T5Config:
    tied = names.tied("lm_head.weight", "shared.weight", usual=True)
    given = str(their.get("feed_forward_proj", "relu"))
    gate, plain = ("gated_", given[6:]) if given.startswith("gated-") else ("", given)
    if given == "gated-gelu":
        plain = "gelu_new"
    return T5Config(
        encoder_layers=their["num_layers"],
        decoder_layers=their.get("num_decoder_layers") or their["num_layers"],
        dim=their["d_model"],
        heads=their["num_heads"],
        head_dim=their["d_kv"],
        hidden=their["d_ff"],
        activation=activation_of(gate + plain),
        norm_epsilon=their.get("layer_norm_epsilon", 1e-6),
        buckets=their.get("relative_attention_num_buckets", 32),
        farthest=their.get("relative_attention_max_distance", 128),
        max_length=their.get("n_positions", 512),
        dropout=their.get("dropout_rate", 0.1),
        attention_dropout=their.get("dropout_rate", 0.1),
        tied="all" if tied else "inputs",
        # The first T5 scaled what the output matrix multiplies; 1.1, which unties it, does not.
        scaled_output=their.get("scale_decoder_outputs", their.get("tie_word_embeddings", True)),
    )


def _write_t5(config: T5Config, vocab: int, _: int) -> dict[str, Any]:
    name = config.activation.removeprefix("gated_")
    theirs = "gelu" if config.activation == "gated_gelu_tanh" else activation_to(name)
    gate = "gated-" if config.activation.startswith("gated_") else ""
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "num_layers": config.encoder_layers,
        "num_decoder_layers": config.decoder_layers,
        "d_model": config.dim,
        "num_heads": config.heads,
        "d_kv": config.head_width,
        "d_ff": config.hidden,
        "feed_forward_proj": gate + theirs,
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


def _names_t5(config: T5Config) -> Table:
    rules = [
        *same("source_embed", "shared", bias=False),
        *same("target_embed", "decoder.embed_tokens", bias=False),
        *same("head", "lm_head", bias=False),
    ]
    gated = config.activation.startswith("gated_")
    into = "DenseReluDense.wi_0+DenseReluDense.wi_1" if gated else "DenseReluDense.wi"
    stacks = (("encoder", config.encoder_layers), ("decoder", config.decoder_layers))
    for stack, layers in stacks:
        first = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        rules += [Rule((f"{stack}.positions.table",), (first,))]
        rules += same(f"{stack}.final_norm", f"{stack}.final_layer_norm", bias=False)
        block = _t5_attention("self", "layer.0.", "SelfAttention")
        if stack == "decoder":
            block += _t5_attention("cross", "layer.1.", "EncDecAttention")
        feed = [
            *same("feed_norm", "layer_norm", bias=False),
            *same("feed_forward.into", into, bias=False),
            *same("feed_forward.out", "DenseReluDense.wo", bias=False),
        ]
        last = "layer.2." if stack == "decoder" else "layer.1."
        block += [rule.within("", last) for rule in feed]
        for layer in range(layers):
            rules += within(f"{stack}.blocks.{layer}.", f"{stack}.block.{layer}.", block)
    copies = {
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    }
    ignored = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)
    return Table(tuple(rules), copies, ignored)


def _t5_attention(ours: str, layer: str, theirs: str) -> list[Rule]:
    return [
        *same(f"{ours}_norm", f"{layer}layer_norm", bias=False),
        *same(f"{ours}_attention.query", f"{layer}{theirs}.q", bias=False),
        *same(f"{ours}_attention.key_value", f"{layer}{theirs}.k+{layer}{theirs}.v", bias=False),
        *same(f"{ours}_attention.out", f"{layer}{theirs}.o", bias=False),
    ]


def _is_t5(config: T5Config) -> bool:
    return (
        (config.norm, config.norm_place, config.positions) == ("rms", "pre", "buckets")
        and (config.score, config.bias, config.residual) == ("dot", False, True)
        and (config.kv_heads, config.window, config.attention_bias) == (None, None, None)
        and not (config.embedding_norm or config.scaled_embedding or config.output_bias)
        and not config.query_key_norm
        and config.final_norm in (None, True)
        and config.tied in ("all", "inputs")
    )


def _read_bart(their: dict[str, Any], names: Names) -> TransformerConfig:
    bart = their["model_type"] == "bart"
    only(their, normalize_before=False, add_final_layer_norm=False, normalize_embedding=bart)
    for size in ("attention_heads", "ffn_dim"):
        only(their, **{f"decoder_{size}": their[f"encoder_{size}"]})
    shared = their.get("share_encoder_decoder_embeddings", True)
    tied = names.tied("lm_head.weight", _embedding(shared=shared), usual=True)
    return TransformerConfig(
        encoder_layers=their["encoder_layers"],
        decoder_layers=their["decoder_layers"],
        dim=their["d_model"],
        heads=their["encoder_attention_heads"],
        hidden=their["encoder_ffn_dim"],
        activation=activation_of(their_activation(their, "activation_function", "gelu")),
        norm_place="post",
        norm_epsilon=1e-5,
        embedding_norm=bart,
        positions="learned" if bart else "sinusoidal_halves",
        positions_from=2 if bart else 0,
        max_length=their.get("max_position_embeddings", 1024),
        scaled_embedding=their.get("scale_embedding", False),
        output_bias=True,
        dropout=their.get("dropout", 0.1),
        hidden_dropout=their.get("activation_dropout", 0.0),
        attention_dropout=their.get("attention_dropout", 0.0),
        tied={(True, True): "all", (True, False): "inputs", (False, True): "output"}.get(
            (shared, tied), "none"
        ),
    )


def _embedding(*, shared: bool) -> str:
    return "model.shared.weight" if shared else "model.decoder.embed_tokens.weight"


def _write_bart(config: TransformerConfig, source: int, target: int) -> dict[str, Any]:
    bart = config.positions == "learned"
    return {
        "model_type": "bart" if bart else "marian",
        "architectures": ["BartForConditionalGeneration" if bart else "MarianMTModel"],
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "d_model": config.dim,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.hidden,
        "decoder_ffn_dim": config.hidden,
        "activation_function": activation_to(config.activation),
        "max_position_embeddings": config.max_length,
        "scale_embedding": config.scaled_embedding,
        "dropout": config.dropout,
        "activation_dropout": config.dropout
        if config.hidden_dropout is None
        else config.hidden_dropout,
        "attention_dropout": config.attention_dropout,
        "is_encoder_decoder": True,
        "tie_word_embeddings": config.tied in ("all", "output"),
        "vocab_size": source,
        **({} if bart else {
            "share_encoder_decoder_embeddings": config.tied in ("all", "inputs"),
            "decoder_vocab_size": target,
        }),
    }  # fmt: skip


def _names_bart(config: TransformerConfig) -> Table:
    shared = config.tied in ("all", "inputs")
    source = "model.shared" if shared else "model.encoder.embed_tokens"
    rules = [
        *same("source_embed", source, bias=False),
        *same("target_embed", "model.decoder.embed_tokens", bias=False),
        *same("head", "lm_head", bias=False),
        Rule(("head.bias",), ("final_logits_bias",), row=True, zero=True),
    ]
    stacks = (("encoder", config.encoder_layers), ("decoder", config.decoder_layers))
    for stack, layers in stacks:
        if config.positions == "learned":
            places = (f"model.{stack}.embed_positions.weight",)
            rules += [Rule((f"{stack}.positions.table",), places)]
            side = "source" if stack == "encoder" else "target"
            rules += same(f"{side}_embed.norm", f"model.{stack}.layernorm_embedding")
        block = _bart_attention("self", "self_attn")
        if stack == "decoder":
            block += _bart_attention("cross", "encoder_attn")
        block += [
            *same("feed_forward.into", "fc1"),
            *same("feed_forward.out", "fc2"),
            *same("feed_norm", "final_layer_norm"),
        ]
        for layer in range(layers):
            rules += within(f"{stack}.blocks.{layer}.", f"model.{stack}.layers.{layer}.", block)
    copies = {
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
        "lm_head.weight": _embedding(shared=shared),
    }
    if not shared:
        copies = {"lm_head.weight": _embedding(shared=False)}
    if config.positions == "learned":
        return Table(tuple(rules), copies)
    shape = config.max_length, config.dim
    waves = Known(shape, partial(sinusoid, *shape, halves=True))
    known = {f"model.{stack}.embed_positions.weight": waves for stack, _ in stacks}
    return Table(tuple(rules), copies, known=known)


def _bart_attention(ours: str, theirs: str) -> list[Rule]:
    return [
        *same(f"{ours}_attention.query", f"{theirs}.q_proj"),
        *same(f"{ours}_attention.key_value", f"{theirs}.k_proj+{theirs}.v_proj"),
        *same(f"{ours}_attention.out", f"{theirs}.out_proj"),
        *same(f"{ours}_norm", f"{theirs}_layer_norm"),
    ]


def _is_bart(config: TransformerConfig) -> bool:
    return _plain(config) and config.positions == "learned" and config.embedding_norm and (
        config.positions_from == 2 and config.tied == "all"
    )  # fmt: skip


def _is_marian(config: TransformerConfig) -> bool:
    return _plain(config) and config.positions == "sinusoidal_halves" and not config.embedding_norm


def _plain(config: TransformerConfig) -> bool:
    """Whether nothing is set that neither BART nor Marian has."""
    return (
        (config.norm, config.norm_place, config.norm_epsilon) == ("layer", "post", 1e-5)
        and (config.score, config.bias, config.residual) == ("scaled_dot", True, True)
        and (config.kv_heads, config.head_dim, config.window) == (None, None, None)
        and config.attention_bias in (None, "all")
        and not (config.final_norm or config.scaled_output or config.query_key_norm)
        and config.output_bias
        and config.activation in ACTIVATIONS.values()
    )


_HEADS = ("lm_head.", "final_logits_bias")
T5 = Kind("t5", "", _read_t5, _write_t5, _names_t5, _is_t5)
BART = Kind("transformer", "model.", _read_bart, _write_bart, _names_bart, _is_bart, _HEADS)
MARIAN = Kind("transformer", "model.", _read_bart, _write_bart, _names_bart, _is_marian, _HEADS)
