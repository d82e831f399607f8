"""Tiny random models of transformers that read an image and write a text, as whole folders."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCAB, END, WIDTH = 300, "<|endoftext|>", 16
ENDS = 5.0
"""By how much the logit of the end is raised: most captions then end by themselves."""
PREPROCESSOR = {
    "do_resize": True, "size": {"height": 24, "width": 24}, "resample": 2, "do_normalize": True,
    "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.25],
}  # fmt: skip
SENTENCES = ["a red bird sits on a green branch", "two dogs run over the wet grass, side by side",
             "an old man's hat lies on the table"]  # fmt: skip
CAPTIONERS = ("vit", "vit-no-pooler", "vit-wide", "vit-untied", "deit", "deit-wide")
"""Their names begin with the kind of the encoder; `wide` encoders have another width than GPT-2."""


@cache
def byte_pairs() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The vocabulary and merges of a small byte-level BPE, as GPT-2's."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - 1, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    inner.train_from_iterator(SENTENCES * 3, trainer)
    spec = json.loads(inner.to_str())["model"]
    return {**spec["vocab"], END: VOCAB - 1}, [tuple(pair) for pair in spec["merges"]]


def save_tokenizer(folder: Path) -> None:
    """Writes the older files of a GPT-2 tokenizer, `vocab.json` and `merges.txt`."""
    vocabulary, merges = byte_pairs()
    assert len(vocabulary) <= VOCAB
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("\n".join(lines))
    symbols = dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), END)
    settings = {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False, **symbols}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def build(name: str, **decoding: Any) -> Any:
    """Builds a captioner by its name, the same at every call.

    Args:
        name: One of `CAPTIONERS`.
        **decoding: Settings of generation.
    """
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    encoder = {"vit": "ViTConfig", "deit": "DeiTConfig"}[name.partition("-")[0]]
    width = 24 if name.endswith("wide") else WIDTH
    images = getattr(transformers, encoder)(
        hidden_size=width, num_hidden_layers=2, num_attention_heads=4, intermediate_size=28,
        image_size=24, patch_size=8,
    )  # fmt: skip
    texts = transformers.GPT2Config(
        n_embd=WIDTH, n_layer=2, n_head=2, n_positions=32, vocab_size=VOCAB,
        bos_token_id=VOCAB - 1, eos_token_id=VOCAB - 1, is_decoder=True, add_cross_attention=True,
        tie_word_embeddings=name != "vit-untied",
    )  # fmt: skip
    ids = dict.fromkeys(("decoder_start_token_id", "eos_token_id", "pad_token_id"), VOCAB - 1)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        images, texts, **ids
    )
    body = transformers.ViTModel(images, add_pooling_layer=False) if "no-pooler" in name else None
    writer = None if body is None else transformers.GPT2LMHeadModel(texts)
    model = transformers.VisionEncoderDecoderModel(config, body, writer).eval()
    with torch.no_grad():  # far from plain beginnings, so that each image has its own caption
        for parameter in model.parameters():
            parameter.mul_(3).add_(0.1 * torch.randn_like(parameter))
        end = model.decoder.lm_head.weight[VOCAB - 1]
        model.decoder.transformer.ln_f.bias.add_(ENDS * end / end.norm() ** 2)
    model.generation_config.update(**decoding)
    return model


def save(name: str, folder: Path, **decoding: Any) -> Any:
    """Saves a captioner with its tokenizer and its image processor: their model."""
    model = build(name, **decoding)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR))
    return model


def photo(number: int = 0) -> Image.Image:
    """An image of random colours, of another size than the model reads."""
    random = np.random.default_rng(number)
    return Image.fromarray(random.integers(0, 256, (50, 37, 3), dtype=np.uint8))
