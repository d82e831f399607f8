"""The text of a checkpoint's `tokenizer.json` -> its parsed and checked JSON.

In: the text, which may be truncated, edited, or from another program. Out: the JSON of a tokenizer
of a kind that `learn` makes, checked so that using it cannot fail later; or an `InputError` that
says what is damaged.
"""

from __future__ import annotations

import json
from typing import Any

from regard.errors import InputError
from regard.tokens.kinds import CHARACTER, SPECIAL, UNKNOWN, WORD, byte_symbols
from regard.tokens.spec import Spec, guarded

KINDS = {
    ("WordLevel", "Split", WORD): "words",
    ("WordLevel", "Split", CHARACTER): "characters",
    ("WordPiece", "Split", WORD): "wordpiece",
    ("BPE", "ByteLevel", None): "bpe",
    ("Unigram", "Sequence", None): "unigram",
}
"""The kind of each combination of model, pre-tokenizer and pattern. `bytes` is `bpe` without
merges."""

UNKNOWN_FIELD: dict[str, tuple[str, object]] = {
    "words": ("unk_token", SPECIAL[UNKNOWN]),
    "characters": ("unk_token", SPECIAL[UNKNOWN]),
    "wordpiece": ("unk_token", SPECIAL[UNKNOWN]),
    "bpe": ("unk_token", None),
    "unigram": ("unk_id", UNKNOWN),
}
"""For each kind, the model's field for the unknown symbol, and the value it must have."""


def parse(text: str) -> dict[str, Any]:
    """Parse the text of a `tokenizer.json`, a JSON object."""
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise _damaged(f"text that is not JSON ({problem})") from None
    if not isinstance(spec, dict):
        raise _damaged(f"a JSON {type(spec).__name__}")
    return spec


def check_learned(spec: object) -> Spec:
    """Check that a parsed tokenizer cannot fail later or change ids unnoticed; return it.

    Raises:
        InputError: If anything in it is damaged, or it is not of a kind that `learn` makes.
    """
    kind = _kind_of(spec)
    assert isinstance(spec, dict)  # checked by _kind_of
    _check_settings(spec, kind)
    with guarded("tokenizer.json"):
        vocab = spec["model"]["vocab"]
        pieces = (
            vocab if isinstance(vocab, dict) else {each[0]: at for at, each in enumerate(vocab)}
        )
        pieces = pieces | {entry["content"]: entry["id"] for entry in spec["added_tokens"]}
        special = [pieces.get(symbol) for symbol in SPECIAL]
        if special != [0, 1, 2, 3]:
            raise _damaged(f"ids {special} for {' '.join(SPECIAL)}")
        if sorted(pieces.values()) != list(range(len(pieces))):
            raise _damaged("ids with gaps or repeats")
        if kind == "bpe" and not set("".join(pieces.keys() - set(SPECIAL))) <= set(byte_symbols()):
            raise _damaged("byte-level pieces with characters that stand for no byte")
    return spec


def _kind_of(spec: object) -> str:
    """Determine the kind of tokenizer from its model and pre-tokenizer."""
    model, split = _field(spec, "model"), _field(spec, "pre_tokenizer")
    regex = _field(_field(split, "pattern"), "Regex")
    key = tuple(
        value if isinstance(value, str) else None
        for value in (_field(model, "type"), _field(split, "type"), regex)
    )
    for known, kind in KINDS.items():
        if known == key:
            return kind
    raise _damaged(f"a model {key[0]} with the split {key[2] or key[1]}")


def _check_settings(spec: object, kind: str) -> None:
    """Refuse settings that `learn` never writes and that would change ids or lose text."""
    for name in ("truncation", "padding", "post_processor"):
        if _field(spec, name) is not None:
            raise _damaged(f"a setting for {name}")
    normalizer = _field(spec, "normalizer")
    if normalizer is not None and normalizer != {"type": "Lowercase"}:
        raise _damaged(f"the normalizer {_field(normalizer, 'type')}")
    model = _field(spec, "model")
    name, expected = UNKNOWN_FIELD[kind]
    if _field(model, name) != expected:
        raise _damaged(f"{name} {_field(model, name)!r}")


def _field(section: object, name: str) -> object:
    return section.get(name) if isinstance(section, dict) else None


def _damaged(got: str) -> InputError:
    return InputError(
        "tokenizer.json",
        got=got,
        expected="the vocabulary of a Regard checkpoint",
        fix="take the file from another copy of the checkpoint",
    )
