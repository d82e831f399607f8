"""A tiny random BERT folder, as transformers writes it, with a WordPiece tokenizer of its own."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WORDS = [
    "the", "a", "cat", "dog", "sat", "ran", "good", "bad", "awful", "great", "movie", "film",
    "was", "is", "really", "very", "so", "it", "red", "blue", "green", "marker", "where",
    "one", "two", "three", "paris", "anna", "bob", "lives", "in",
]  # fmt: skip
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def tokenizer() -> Tokenizer:
    """Words, and letters for all else; lower case, accents stripped."""
    letters = string.ascii_letters + string.digits
    pieces = [*SPECIAL, *WORDS, *letters, *(f"##{letter}" for letter in letters), *".,!?'"]
    vocab = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    inner = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return inner


def save(folder: Path, architecture: str = "BertForMaskedLM", **settings: object) -> object:
    """Writes the folder; gives their model."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    inner = tokenizer()
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
             "intermediate_size": 64, "max_position_embeddings": 48,
             "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.0}  # fmt: skip
    config = transformers.BertConfig(vocab_size=inner.get_vocab_size(), **(sizes | settings))
    model = getattr(transformers, architecture)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    inner.save(str(folder / "tokenizer.json"))
    names = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL, strict=True))
    written = {f"{name}_token": symbol for name, symbol in names.items()}
    written["tokenizer_class"] = "BertTokenizer"
    (folder / "tokenizer_config.json").write_text(json.dumps(written))
    return model
