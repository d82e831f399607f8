"""A tiny random T5 folder, as transformers writes it; its vocabulary is words and sentinels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

WORDS = [
    "the", "a", "cat", "dog", "cow", "sat", "ran", "ate", "fish", "grass", "on", "mat", "red",
    "copy", "turn", ":", ".", "translate", "to", "German", "die", "Katze", "Hund",
]  # fmt: skip
SPECIAL = ["<pad>", "</s>", "<unk>"]
SENTINELS = [f"<extra_id_{number}>" for number in range(6)]


def tokenizer() -> Tokenizer:
    """Words between spaces; sentinels have the last ids, in reverse, as in T5."""
    vocab = {piece: number for number, piece in enumerate([*SPECIAL, *WORDS])}
    inner = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.decoder = decoders.WordPiece(prefix="##")
    inner.add_special_tokens([AddedToken(name, special=True) for name in SENTINELS[::-1]])
    inner.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return inner


def save(folder: Path, **settings: object) -> object:
    """Writes the folder; gives their model."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    inner = tokenizer()
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_decoder_layers": 1,
             "num_heads": 2, "decoder_start_token_id": 0}  # fmt: skip
    config = transformers.T5Config(vocab_size=inner.get_vocab_size(), **(sizes | settings))
    model = transformers.T5ForConditionalGeneration(config).eval()
    with torch.no_grad():  # away from the plain beginnings, so that it says more than one word
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    inner.save(str(folder / "tokenizer.json"))
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    written = {**names, "additional_special_tokens": SENTINELS}
    written["tokenizer_class"] = "PreTrainedTokenizerFast"
    (folder / "tokenizer_config.json").write_text(json.dumps(written))
    return model
