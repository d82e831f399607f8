"""BERT, RoBERTa and DistilBERT with the heads that a checkpoint has: config and tensor names."""

from __future__ import annotations

from typing import Any

from regard.errors import InputError
from regard.hub.kind import (
    ACTIVATIONS,
    HubFormat,
    TensorNames,
    activation_of,
    activation_to,
    architecture_in,
    hub_activation,
    label_maps,
    labels_in,
    require,
)
from regard.hub.needs import BLOCKS, Need, fixed
from regard.hub.rules import Rule, Table, add_prefixes, same
from regard.models import BertConfig


def _label_settings(
    hub_config: dict[str, Any],
    names: TensorNames,
    layer_before: str,
    matrix: str = "classifier.weight",
) -> dict[str, Any]:
    """The names of the classes or tags, with the key of our config; empty without such a head.

    Without `architectures`, it is a head of classes if the layer before it is there.

    Args:
        hub_config: The contents of `config.json`.
        names: The tensors.
        layer_before: The name of the layer before the head of classes.
        matrix: The name of the matrix of classes; that of tags is always `classifier.weight`.
    """
    if not names.has("classifier."):
        return {}
    default = "ForSequenceClassification" if names.has(layer_before) else "ForTokenClassification"
    architecture = architecture_in(hub_config) or default
    if "ForTokenClassification" in architecture:
        return {"tags": labels_in(hub_config, names, "classifier.weight")}
    if "ForSequenceClassification" not in architecture:
        return {}
    labels = labels_in(hub_config, names, matrix)
    supported = "single_label_classification"
    problem = hub_config.get("problem_type") or (supported if len(labels) > 1 else "regression")
    if problem != supported:
        raise InputError("config.json: problem_type", got=problem, expected=supported)
    return {"classes": labels}


def _read_bert(hub_config: dict[str, Any], names: TensorNames) -> BertConfig:
    labels = _label_settings(hub_config, names, "bert.pooler")
    if "classes" in labels and not architecture_in(hub_config):  # old models of tags have a pooler
        names.notes.append(
            "no architectures: its classifier is taken for one of whole texts "
            "(--as BertForTokenClassification: of tokens)"
        )
    return _read(
        hub_config,
        names,
        pooled=names.has("bert.pooler"),
        masked=names.has("cls.predictions."),
        next_sentence=names.has("cls.seq_relationship."),
        **labels,
    )


def _read_roberta(hub_config: dict[str, Any], names: TensorNames) -> BertConfig:
    masked = names.has("lm_head.")
    if masked:  # the activation inside this head is always gelu
        require(hub_config, hidden_act="gelu")
    labels = _label_settings(hub_config, names, "classifier.dense", "classifier.out_proj.weight")
    pooled = names.has("classifier.dense" if "classes" in labels else "roberta.pooler")
    # Positions are counted from the padding id plus one.
    first = int(hub_config.get("pad_token_id", 1)) + 1
    return _read(hub_config, names, pooled=pooled, masked=masked, first=first, **labels)


def _read(
    hub_config: dict[str, Any],
    names: TensorNames,
    *,
    pooled: bool,
    first: int = 0,
    **own_settings: Any,
) -> BertConfig:
    """Reads the settings that BERT and RoBERTa share; `own_settings` adds the heads of one kind."""
    require(
        hub_config, position_embedding_type="absolute", is_decoder=False, add_cross_attention=False
    )
    return BertConfig(
        layers=hub_config["num_hidden_layers"],
        dim=hub_config["hidden_size"],
        heads=hub_config["num_attention_heads"],
        hidden=hub_config["intermediate_size"],
        activation=activation_of(hub_activation(hub_config, "hidden_act", "gelu")),
        norm_epsilon=hub_config.get("layer_norm_eps", 1e-12),
        token_types=hub_config.get("type_vocab_size", 2),
        max_length=hub_config["max_position_embeddings"] - first,
        positions_from=first,
        dropout=hub_config.get("hidden_dropout_prob", 0.1),
        hidden_dropout=0.0,
        attention_dropout=hub_config.get("attention_probs_dropout_prob", 0.1),
        pooler="tanh" if pooled else "none",
        spans=names.has("qa_outputs."),
        **own_settings,
    )


def _architecture(config: BertConfig, name: str) -> str:
    """The class of transformers that has the heads of a config; `name` is its beginning."""
    for head, ending in (
        (config.classes, "ForSequenceClassification"),
        (config.tags, "ForTokenClassification"),
        (config.spans, "ForQuestionAnswering"),
        (config.next_sentence and config.masked, "ForPreTraining"),
        (config.next_sentence, "ForNextSentencePrediction"),
        (config.masked, "ForMaskedLM"),
    ):
        if head:
            return name + ending
    return f"{name}Model"


def _write_bert(config: BertConfig, vocab: int) -> dict[str, Any]:
    return _write("Bert", config, vocab) | label_maps(config.classes or config.tags)


def _write_roberta(config: BertConfig, vocab: int) -> dict[str, Any]:
    pad = {"pad_token_id": config.positions_from - 1}
    return _write("Roberta", config, vocab) | pad | label_maps(config.classes or config.tags)


def _write(name: str, config: BertConfig, vocab: int) -> dict[str, Any]:
    return {
        "architectures": [_architecture(config, name)],
        "num_hidden_layers": config.layers,
        "hidden_size": config.dim,
        "num_attention_heads": config.heads,
        "intermediate_size": config.hidden,
        "hidden_act": activation_to(config.activation),
        "layer_norm_eps": config.norm_epsilon or 1e-5,
        "type_vocab_size": config.token_types,
        "max_position_embeddings": config.max_length + config.positions_from,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "vocab_size": vocab,
        "tie_word_embeddings": True,
    }


def _body_rules(config: BertConfig, root: str) -> list[Rule]:
    """The rules for embeddings and blocks; `root` is the prefix of their names."""
    embeddings = f"{root}embeddings."
    rules = [
        *same("embed", f"{embeddings}word_embeddings", bias=False),
        Rule(("encoder.positions.table",), (f"{embeddings}position_embeddings.weight",)),
        Rule(("embed.types",), (f"{embeddings}token_type_embeddings.weight",)),
        *same("embed.norm", f"{embeddings}LayerNorm"),
    ]
    block = [
        *same("self_attention.query", "attention.self.query"),
        *same("self_attention.key_value", "attention.self.key+attention.self.value"),
        *same("self_attention.out", "attention.output.dense"),
        *same("self_norm", "attention.output.LayerNorm"),
        *same("feed_forward.into", "intermediate.dense"),
        *same("feed_forward.out", "output.dense"),
        *same("feed_norm", "output.LayerNorm"),
    ]
    for layer in range(config.layers):
        rules += add_prefixes(f"encoder.blocks.{layer}.", f"{root}encoder.layer.{layer}.", block)
    return rules


def _tag_and_span_rules(config: BertConfig) -> list[Rule]:
    rules = []
    if config.tags:
        rules += same("tags", "classifier")
    if config.spans:
        rules += same("spans", "qa_outputs")
    return rules


def _names_bert(config: BertConfig) -> Table:
    rules = _body_rules(config, "bert.") + _tag_and_span_rules(config)
    if config.pooler != "none":
        rules += same("pooler", "bert.pooler.dense")
    if config.masked:
        rules += same("masked.transform", "cls.predictions.transform.dense")
        rules += same("masked.norm", "cls.predictions.transform.LayerNorm")
        rules += [Rule(("masked.vocabulary.bias",), ("cls.predictions.bias",))]
        rules += same("masked.vocabulary", "cls.predictions.decoder", bias=False)
    if config.next_sentence:
        rules += same("next_sentence", "cls.seq_relationship")
    if config.classes:
        rules += same("classes", "classifier")
    copies = {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    return Table(tuple(rules), copies, ("*position_ids",))


def _names_roberta(config: BertConfig) -> Table:
    rules = _body_rules(config, "roberta.") + _tag_and_span_rules(config)
    if config.masked:
        rules += same("masked.transform", "lm_head.dense")
        rules += same("masked.norm", "lm_head.layer_norm")
        rules += [Rule(("masked.vocabulary.bias",), ("lm_head.bias",))]
        rules += same("masked.vocabulary", "lm_head.decoder", bias=False)
    if config.classes:
        rules += same("pooler", "classifier.dense")
        rules += same("classes", "classifier.out_proj")
    elif config.pooler != "none":
        rules += same("pooler", "roberta.pooler.dense")
    copies = {
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    }
    return Table(tuple(rules), copies, ("*position_ids",))


_COMMON_NEEDS = (
    *BLOCKS,
    *fixed(norm="layer", norm_place="post", positions="learned", score="scaled_dot"),
    *fixed(kv_heads=None, head_dim=None, window=None, query_key_norm=False),
    *fixed(embedding_norm=True, residual=True, scaled_embedding=False),
    Need("final_norm", (None, False)),
    Need("activation", ("gelu", *ACTIVATIONS.values())),
    Need("tags", ((),), lambda config: config.classes),  # both heads are named "classifier"
)
"""What BERT, RoBERTa and DistilBERT require."""
_BERT_AND_ROBERTA_NEEDS = (
    *_COMMON_NEEDS,
    Need("token_types", (2,), lambda config: config.token_types == 0),
    Need("pooler", ("none", "tanh")),
    Need("pooler", ("tanh",), lambda config: config.classes or config.next_sentence),
)
_BERT_NEEDS = (*_BERT_AND_ROBERTA_NEEDS, *fixed(positions_from=0))
_ROBERTA_NEEDS = (
    *_BERT_AND_ROBERTA_NEEDS,
    *fixed(next_sentence=False),
    Need("positions_from", (2,), lambda config: getattr(config, "positions_from", 0) == 0),
    Need("activation", ("gelu",), lambda config: config.masked),  # that head always uses gelu
)
_DISTILBERT_NEEDS = (
    *_COMMON_NEEDS,
    # its config has no key for epsilon
    *fixed(token_types=0, positions_from=0, next_sentence=False, norm_epsilon=1e-12),
    Need("pooler", ("relu",), lambda config: config.classes),
    Need("pooler", ("none",), lambda config: not config.classes),
)


def _read_distilbert(hub_config: dict[str, Any], names: TensorNames) -> BertConfig:
    require(hub_config, sinusoidal_pos_embds=False)
    return BertConfig(
        layers=hub_config["n_layers"],
        dim=hub_config["dim"],
        heads=hub_config["n_heads"],
        hidden=hub_config["hidden_dim"],
        activation=activation_of(hub_activation(hub_config, "activation", "gelu")),
        norm_epsilon=1e-12,
        token_types=0,
        max_length=hub_config["max_position_embeddings"],
        dropout=hub_config.get("dropout", 0.1),
        hidden_dropout=0.0,
        attention_dropout=hub_config.get("attention_dropout", 0.1),
        pooler="relu" if names.has("pre_classifier.") else "none",
        masked=names.has("vocab_transform."),
        spans=names.has("qa_outputs."),
        **_label_settings(hub_config, names, "pre_classifier."),
    )


def _write_distilbert(config: BertConfig, vocab: int) -> dict[str, Any]:
    return {
        "architectures": [_architecture(config, "DistilBert")],
        "n_layers": config.layers,
        "dim": config.dim,
        "n_heads": config.heads,
        "hidden_dim": config.hidden,
        "activation": activation_to(config.activation),
        "max_position_embeddings": config.max_length,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "vocab_size": vocab,
        "tie_word_embeddings": True,
        **label_maps(config.classes or config.tags),
    }


def _names_distilbert(config: BertConfig) -> Table:
    embeddings = "distilbert.embeddings."
    rules = [
        *same("embed", f"{embeddings}word_embeddings", bias=False),
        Rule(("encoder.positions.table",), (f"{embeddings}position_embeddings.weight",)),
        *same("embed.norm", f"{embeddings}LayerNorm"),
        *_tag_and_span_rules(config),
    ]
    block = [
        *same("self_attention.query", "attention.q_lin"),
        *same("self_attention.key_value", "attention.k_lin+attention.v_lin"),
        *same("self_attention.out", "attention.out_lin"),
        *same("self_norm", "sa_layer_norm"),
        *same("feed_forward.into", "ffn.lin1"),
        *same("feed_forward.out", "ffn.lin2"),
        *same("feed_norm", "output_layer_norm"),
    ]
    for layer in range(config.layers):
        root = f"distilbert.transformer.layer.{layer}."
        rules += add_prefixes(f"encoder.blocks.{layer}.", root, block)
    if config.masked:
        rules += same("masked.transform", "vocab_transform")
        rules += same("masked.norm", "vocab_layer_norm")
        rules += same("masked.vocabulary", "vocab_projector")
    if config.pooler != "none":
        rules += same("pooler", "pre_classifier")
    if config.classes:
        rules += same("classes", "classifier")
    copies = {"vocab_projector.weight": f"{embeddings}word_embeddings.weight"}
    return Table(tuple(rules), copies, ("*position_ids",))


def _skips_padding(hub_config: dict[str, Any], names: TensorNames, root: str) -> bool:
    """Whether the position of padding has a vector of zeros, as in every RoBERTa and in no BERT."""
    pad = hub_config.get("pad_token_id", 1)
    table = f"{root}embeddings.position_embeddings.weight"
    return isinstance(pad, int) and names.is_zero(table, pad)


_HEAD_PREFIXES = ("cls.", "lm_head.", "classifier.", "qa_outputs.", "vocab_", "pre_classifier.")
BERT = HubFormat(
    "bert",
    "bert",
    "bert.",
    _read_bert,
    _write_bert,
    _names_bert,
    _BERT_NEEDS,
    _HEAD_PREFIXES,
    recognised=lambda hub_config, names: (
        not _skips_padding(hub_config, names, "bert.") and hub_config.get("type_vocab_size", 2) > 1
    ),
)
ROBERTA = HubFormat(
    "roberta",
    "bert",
    "roberta.",
    _read_roberta,
    _write_roberta,
    _names_roberta,
    _ROBERTA_NEEDS,
    _HEAD_PREFIXES,
    recognised=lambda hub_config, names: _skips_padding(hub_config, names, "roberta."),
)
DISTILBERT = HubFormat(
    "distilbert",
    "bert",
    "distilbert.",
    _read_distilbert,
    _write_distilbert,
    _names_distilbert,
    _DISTILBERT_NEEDS,
    _HEAD_PREFIXES,
)
