"""Tiny random models of `transformers`, one of each kind, and inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")

VERSION = tuple(map(int, transformers.__version__.split(".")[:2]))
SINCE = {"bert": (5, 0), "roberta": (5, 0), "distilbert": (5, 0), "t5": (5, 15)}
"""The first version whose model asks the registry; before it, attention is code of its own."""
IDS = torch.tensor([[5, 6, 7, 8, 9, 4], [10, 11, 12, 13, 2, 3]])
RIGHT = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
LEFT = RIGHT.flip(1)
TARGET = torch.tensor([[2, 20, 21, 22], [2, 23, 24, 25]])

DECODER = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 40, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 39,
}  # fmt: skip
ENCODER = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "vocab_size": 40, "pad_token_id": 0, "hidden_dropout_prob": 0.0,
}  # fmt: skip
PAIRED = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "vocab_size": 40,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 39, "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}  # fmt: skip
T5 = {
    "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 40,
    "pad_token_id": 0, "eos_token_id": 39, "decoder_start_token_id": 2,
}  # fmt: skip
GPT2 = {
    "n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 40, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 39,
}  # fmt: skip
WHISPER = {**PAIRED, "num_mel_bins": 8, "max_source_positions": 6, "max_target_positions": 20}
VIT = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "image_size": 8, "patch_size": 4,
}  # fmt: skip
VIT_GPT2 = {
    "encoder": {**VIT, "model_type": "vit"},
    "decoder": {**GPT2, "model_type": "gpt2", "is_decoder": True, "add_cross_attention": True},
    "pad_token_id": 0, "eos_token_id": 39, "decoder_start_token_id": 2,
}  # fmt: skip

MODELS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    # name: model, config, its values, and where a layer's output projection is, from the layer
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2, "c_proj"),
    "llama": ("LlamaForCausalLM", "LlamaConfig", DECODER, "o_proj"),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**DECODER, "sliding_window": 3}, "o_proj"),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", DECODER, "o_proj"),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**DECODER, "head_dim": 8}, "o_proj"),
    "bert": ("BertForMaskedLM", "BertConfig", ENCODER, "../output.dense"),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", ENCODER, "../output.dense"),
    "distilbert": (
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        {"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4, "vocab_size": 40},
        "out_lin",
    ),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5, "o"),
    "bart": ("BartForConditionalGeneration", "BartConfig", PAIRED, "out_proj"),
    "marian": ("MarianMTModel", "MarianConfig", PAIRED, "out_proj"),
    "vit": ("ViTModel", "ViTConfig", VIT, "o_proj"),
    "vit-gpt2": ("VisionEncoderDecoderModel", "VisionEncoderDecoderConfig", VIT_GPT2, "c_proj"),
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig", WHISPER, "out_proj"),
}
CAUSAL = ("gpt2", "llama", "mistral", "qwen2", "qwen3")
TEXT_PAIRS = ("t5", "bart", "marian")


@dataclass
class Case:
    """A model, an input, and what it takes to compare it."""

    name: str
    model: Any
    inputs: dict[str, torch.Tensor]
    projection: str

    def run(self, model: Any = None, **more: Any) -> torch.Tensor:
        """Logits, or the last hidden state."""
        out = (model or self.model)(**self.inputs, **more)
        return out.logits if "logits" in out else out.last_hidden_state

    def eager(self) -> Any:
        """The same model with the attention that returns its weights."""
        twin = type(self.model)._from_config(self.model.config, attn_implementation="eager")
        twin.load_state_dict(self.model.state_dict())
        return twin.eval()

    def projection_of(self, layer: str) -> torch.nn.Module:
        """What a layer's heads go into."""
        of_vit = layer.startswith("encoder") and self.name == "vit-gpt2"
        path, where = layer.split("."), (vit_projection(self.model) if of_vit else self.projection)
        where = where.split("/")
        path = path[: len(path) - where.count("..")]
        return self.model.get_submodule(".".join([*path, where[-1]]))


def vit_projection(model: Any) -> str:
    """Where the output projection of a ViT's layer is: its name changed in some 5.x."""
    return "o_proj" if "o_proj" in str(model) else "../output.dense"


def build(name: str, padding: torch.Tensor = RIGHT) -> Case:
    """One of `MODELS`, the same at every call."""
    if SINCE.get(name, VERSION) > VERSION:
        pytest.skip(f"{name} cannot be watched in transformers {transformers.__version__}")
    torch.manual_seed(0)
    model_name, config_name, values, projection = MODELS[name]
    config = getattr(transformers, config_name)(**values)
    config._attn_implementation = "sdpa"
    model = getattr(transformers, model_name)(config).eval()
    with torch.no_grad():  # sharper than new models are (T5 is), so that a mistake shows
        for parameter in model.parameters() if name != "t5" else ():
            parameter.mul_(3.0)
    if name == "vit":
        projection = vit_projection(model)
        inputs = {"pixel_values": torch.randn(2, 3, 8, 8)}
    elif name == "vit-gpt2":
        inputs = {"pixel_values": torch.randn(2, 3, 8, 8), "decoder_input_ids": TARGET}
    elif name == "whisper":
        inputs = {"input_features": torch.randn(2, 8, 12), "decoder_input_ids": TARGET}
    else:
        inputs = {"input_ids": IDS, "attention_mask": padding}
        if name in TEXT_PAIRS:
            inputs["decoder_input_ids"] = TARGET
    return Case(name, model, inputs, projection)


@pytest.fixture(params=list(MODELS))
def case(request: pytest.FixtureRequest) -> Case:
    """Each model, its batch padded on the right."""
    return build(request.param)


@pytest.fixture
def make() -> Callable[..., Case]:
    """Builds one model by name."""
    return build


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    """The models are too small for more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
