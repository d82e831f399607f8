"""Folders as on the Hub, each with a small tokenizer of one kind, written by transformers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from regard.inputs.text import read_folder

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: nothing asks the network

SUBJECTS = ("The dog", "A cat", "Das Tier", "Le café", "El niño", "The old man's horse", "Šárka")
VERBS = ("crosses", "doesn't see", "überquert", "a déjà vu", "likes", "has 12 of")
OBJECTS = ("the street.", "die Straße!", "3.14 apples, too?", "東京 und 京都", "naïve “words” …")
CORPUS = [f"{who} {verb} {what}" for who in SUBJECTS for verb in VERBS for what in OBJECTS]
QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@pytest.fixture(scope="session")
def corpus() -> list[str]:
    return CORPUS


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes the folder of one kind, once."""
    pytest.importorskip("transformers")
    folders: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in folders:
            path = folders[kind] = tmp_path_factory.mktemp(kind)
            PUBLISHED[kind](path)
            family = kind.split("-")[0]
            (path / "config.json").write_text(json.dumps({"model_type": family}))
        return folders[kind]

    return folder


@pytest.fixture(scope="session")
def reference() -> Callable[[Path], Any]:
    """The same folder as transformers reads it."""

    def load(folder: Path) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(folder)

    return load


def _byte_pairs(split: Any, specials: list[str], normalizer: Any = None) -> Tokenizer:
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = split
    if normalizer:
        inner.normalizer = normalizer
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator(CORPUS, trainer)
    return inner


def _vocab_and_merges(inner: Tokenizer) -> dict[str, Any]:
    model = json.loads(inner.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(merge) for merge in model["merges"]]}


def _gpt2(path: Path) -> None:
    from transformers import GPT2Tokenizer

    inner = _byte_pairs(pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"])
    GPT2Tokenizer(**_vocab_and_merges(inner)).save_pretrained(path)


def _roberta(path: Path) -> None:
    from transformers import RobertaTokenizer

    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    inner = _byte_pairs(pre_tokenizers.ByteLevel(add_prefix_space=False), specials)
    mask = AddedToken("<mask>", lstrip=True, special=True)
    RobertaTokenizer(**_vocab_and_merges(inner), mask_token=mask).save_pretrained(path)


def _roberta_prefix(path: Path) -> None:
    from transformers import RobertaTokenizer

    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    inner = _byte_pairs(pre_tokenizers.ByteLevel(add_prefix_space=True), specials)
    RobertaTokenizer(**_vocab_and_merges(inner), add_prefix_space=True).save_pretrained(path)


def _qwen2(path: Path) -> None:
    from transformers import Qwen2Tokenizer

    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner = _byte_pairs(split, [], normalizers.NFC())
    more = ["<|im_start|>", "<|im_end|>"]
    tokenizer = Qwen2Tokenizer(**_vocab_and_merges(inner), additional_special_tokens=more)
    tokenizer.add_tokens([AddedToken("<think>", special=False)])
    tokenizer.save_pretrained(path)


def _llama3(path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner = _byte_pairs(split, [])
    spec = json.loads(inner.to_str())
    spec["model"]["ignore_merges"] = True
    inner = Tokenizer.from_str(json.dumps(spec))
    inner.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    begin = ("<|begin_of_text|>", inner.token_to_id("<|begin_of_text|>"))
    inner.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(
                single=f"{begin[0]} $A",
                pair=f"{begin[0]} $A {begin[0]}:1 $B:1",
                special_tokens=[begin],
            ),
        ]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token=begin[0], eos_token="<|end_of_text|>"
    ).save_pretrained(path)


def _llama(path: Path) -> None:
    from transformers import LlamaTokenizer

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence(  # no piece reaches over the end of a word
        [pre_tokenizers.Metaspace(split=True), pre_tokenizers.Punctuation("isolated")]
    )
    specials = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=specials, min_frequency=2, show_progress=False
    )
    inner.train_from_iterator(CORPUS, trainer)
    LlamaTokenizer(**_vocab_and_merges(inner), add_bos_token=True).save_pretrained(path)


def _word_pieces(path: Path, *, lower: bool, clean: bool = False) -> None:
    from transformers import BertTokenizer

    inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=lower)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=specials, show_progress=False
    )
    inner.train_from_iterator(CORPUS, trainer)
    BertTokenizer(
        vocab=inner.get_vocab(), do_lower_case=lower, clean_up_tokenization_spaces=clean
    ).save_pretrained(path)


def _bert(path: Path) -> None:
    _word_pieces(path, lower=True)


def _bert_cased(path: Path) -> None:
    _word_pieces(path, lower=False, clean=True)


def _t5(path: Path) -> None:
    from transformers import T5Tokenizer

    inner = Tokenizer(models.Unigram())
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300,
        special_tokens=["<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
        show_progress=False,
    )
    inner.train_from_iterator(CORPUS, trainer)
    vocab = [tuple(entry) for entry in json.loads(inner.to_str())["model"]["vocab"]]
    vocab += [(f"<extra_id_{number}>", 0.0) for number in range(9, -1, -1)]
    T5Tokenizer(vocab=vocab, extra_ids=10).save_pretrained(path)


PUBLISHED: dict[str, Callable[[Path], None]] = {
    "gpt2": _gpt2,
    "roberta": _roberta,
    "roberta-prefix": _roberta_prefix,
    "qwen2": _qwen2,
    "llama": _llama,
    "llama-3": _llama3,
    "bert": _bert,
    "bert-cased": _bert_cased,
    "t5": _t5,
}


@pytest.fixture(scope="module")
def read(published):
    """Their tokenizers by kind, each read once for a file of tests."""
    loaded = {}

    def loaded_once(kind):
        if kind not in loaded:
            loaded[kind] = read_folder(published(kind)).source
        return loaded[kind]

    return loaded_once
