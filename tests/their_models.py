"""Tiny random models of every kind that transformers has and Regard reads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

VOCAB, LENGTH = 23, 40
DECODER = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
    "num_key_value_heads": 2, "vocab_size": VOCAB, "max_position_embeddings": LENGTH,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
ENCODER = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
    "vocab_size": VOCAB, "max_position_embeddings": LENGTH,
}  # fmt: skip
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "vocab_size": VOCAB,
          "max_position_embeddings": LENGTH}  # fmt: skip
BOTH = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
    "vocab_size": VOCAB, "max_position_embeddings": LENGTH,
}  # fmt: skip
T5 = {"d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2, "num_decoder_layers": 1,
      "num_heads": 4, "vocab_size": VOCAB, "decoder_start_token_id": 0}  # fmt: skip
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 4, "vocab_size": VOCAB, "n_positions": LENGTH,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e4, "factor": 4.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}  # fmt: skip
SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}

DECODERS = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "gpt2-untied": ("GPT2LMHeadModel", "GPT2Config", GPT2 | {"tie_word_embeddings": False}),
    "gpt2-wide": ("GPT2LMHeadModel", "GPT2Config", GPT2 | {"n_inner": 20}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", DECODER),
    "llama-tied": ("LlamaForCausalLM", "LlamaConfig", DECODER | {"tie_word_embeddings": True}),
    "llama-biased": ("LlamaForCausalLM", "LlamaConfig", DECODER | {"attention_bias": True}),
    "llama3": ("LlamaForCausalLM", "LlamaConfig", DECODER | {"rope_parameters": LLAMA3}),
    "mistral": ("MistralForCausalLM", "MistralConfig", DECODER | {"sliding_window": 4}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", DECODER),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", DECODER | {"head_dim": 6}),
}
SEQUENCE = {"num_labels": 3}
ENCODERS = {
    "bert": ("BertModel", "BertConfig", ENCODER),
    "bert-masked": ("BertForMaskedLM", "BertConfig", ENCODER),
    "bert-both": ("BertForPreTraining", "BertConfig", ENCODER),
    "bert-classes": ("BertForSequenceClassification", "BertConfig", ENCODER | SEQUENCE),
    "bert-tags": ("BertForTokenClassification", "BertConfig", ENCODER | SEQUENCE),
    "bert-spans": ("BertForQuestionAnswering", "BertConfig", ENCODER),
    "roberta": ("RobertaModel", "RobertaConfig", ENCODER | {"type_vocab_size": 1}),
    "roberta-masked": ("RobertaForMaskedLM", "RobertaConfig", ENCODER | {"type_vocab_size": 1}),
    "roberta-classes": ("RobertaForSequenceClassification", "RobertaConfig", ENCODER | SEQUENCE),
    "roberta-tags": ("RobertaForTokenClassification", "RobertaConfig", ENCODER | SEQUENCE),
    "distilbert": ("DistilBertModel", "DistilBertConfig", DISTIL),
    "distilbert-masked": ("DistilBertForMaskedLM", "DistilBertConfig", DISTIL),
    "distilbert-classes": (
        "DistilBertForSequenceClassification", "DistilBertConfig", DISTIL | SEQUENCE),
    "distilbert-spans": ("DistilBertForQuestionAnswering", "DistilBertConfig", DISTIL),
}  # fmt: skip
TRANSLATORS = {
    "t5": ("T5ForConditionalGeneration", "T5Config", T5),
    "t5-1.1": ("T5ForConditionalGeneration", "T5Config",
               T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "bart": ("BartForConditionalGeneration", "BartConfig", BOTH),
    "bart-scaled": ("BartForConditionalGeneration", "BartConfig", BOTH | {"scale_embedding": True}),
    "pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", BOTH | {
        "eos_token_id": 2, "forced_eos_token_id": None, "scale_embedding": True}),
    "marian": ("MarianMTModel", "MarianConfig", BOTH | {
        "pad_token_id": 3, "decoder_start_token_id": 3, "activation_function": "swish",
        "scale_embedding": True}),
    "marian-two": ("MarianMTModel", "MarianConfig", BOTH | {
        "pad_token_id": 3, "decoder_start_token_id": 3, "share_encoder_decoder_embeddings": False,
        "decoder_vocab_size": 29}),
}  # fmt: skip
EVERY = {**DECODERS, **ENCODERS, **TRANSLATORS}


def save(name: str, folder: Path, **options: object) -> object:
    """Builds a tiny random model by its name and saves it: their model."""
    transformers = pytest.importorskip("transformers")
    model_class, config_class, settings = EVERY[name]
    torch.manual_seed(0)
    config = getattr(transformers, config_class)(**settings)
    model = getattr(transformers, model_class)(config).eval()
    model.save_pretrained(folder, **options)
    names = {name for file in folder.glob("*.safetensors") for name in load_file(file)}
    saved = {t.data_ptr() for name, t in model.state_dict().items() if name in names}
    with torch.no_grad():  # norms, biases and tables away from their plain beginnings
        for parameter in model.parameters():
            # Not the sinusoids: they are parameters, but not learned, and Marian's never saved.
            if parameter.data_ptr() in saved and parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    model.save_pretrained(folder, **options)
    return model
