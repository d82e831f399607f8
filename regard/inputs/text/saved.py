"""The text of a checkpoint's `tokenizer.json` -> its parsed and checked JSON.

In: the text, which may be truncated, edited, or from another program. Out: the JSON of a tokenizer
of a kind that `learn` makes, checked so that using it cannot fail later; or an `InputError` that
says what is damaged.
"""

from __future__ import annotations

from typing import Any

from regard.errors import InputError
from regard.inputs.text.kinds import CHARACTER, SPECIAL, UNKNOWN, WORD, byte_symbols
from regard.inputs.text.spec import Spec, guarded, parse_object, piece_ids

COPY = "take the file from another copy of the checkpoint"
"""What to do about a damaged file."""
FORMS: dict[tuple[object, ...], tuple[str, object]] = {
    ("WordLevel", "Split", WORD): ("unk_token", SPECIAL[UNKNOWN]),
    ("WordLevel", "Split", CHARACTER): ("unk_token", SPECIAL[UNKNOWN]),
    ("WordPiece", "Split", WORD): ("unk_token", SPECIAL[UNKNOWN]),
    ("BPE", "ByteLevel", None): ("unk_token", None),
    ("Unigram", "Sequence", None): ("unk_id", UNKNOWN),
}
"""The model, pre-tokenizer and pattern of each kind that `learn` makes, with the model's field for
the unknown symbol and the value it must have."""


def parse(text: str) -> dict[str, Any]:
    """Parse the text of a `tokenizer.json`, a JSON object."""
    return parse_object(text, _checkpoint_error)


def check_learned(spec: object) -> Spec:
    """Check that a parsed tokenizer cannot fail later or change ids unnoticed; return it.

    Raises:
        InputError: If anything in it is damaged, or it is not of a kind that `learn` makes.
    """
    name, expected = _find_form(spec)
    assert isinstance(spec, dict)  # checked by _form_of
    for setting in ("truncation", "padding", "post_processor"):
        if spec.get(setting) is not None:
            raise _checkpoint_error(f"a setting for {setting}")
    normalizer, model = spec.get("normalizer"), spec["model"]
    if normalizer is not None and normalizer != {"type": "Lowercase"}:
        raise _checkpoint_error(f"the normalizer {_field(normalizer, 'type')}")
    if model.get(name) != expected:
        raise _checkpoint_error(f"{name} {model.get(name)!r}")
    with guarded("tokenizer.json"):
        pieces = piece_ids(spec) | {entry["content"]: entry["id"] for entry in spec["added_tokens"]}
        special = [pieces.get(symbol) for symbol in SPECIAL]
        if special != [0, 1, 2, 3]:
            raise _checkpoint_error(f"ids {special} for {' '.join(SPECIAL)}")
        if sorted(pieces.values()) != list(range(len(pieces))):
            raise _checkpoint_error("ids with gaps or repeats")
        letters = set("".join(pieces.keys() - set(SPECIAL)))
        if model["type"] == "BPE" and not letters <= set(byte_symbols()):
            raise _checkpoint_error("byte-level pieces with characters that stand for no byte")
    return spec


def _find_form(spec: object) -> tuple[str, object]:
    """Look up the kind of tokenizer in `FORMS`, by its model and pre-tokenizer."""
    model, split = _field(spec, "model"), _field(spec, "pre_tokenizer")
    fields = _field(model, "type"), _field(split, "type"), _field(_field(split, "pattern"), "Regex")
    key = tuple(value if isinstance(value, str) else None for value in fields)
    if key not in FORMS:
        raise _checkpoint_error(f"a model {key[0]} with the split {key[2] or key[1]}")
    return FORMS[key]


def _field(section: object, name: str) -> object:
    """A field of a JSON object; None if it has none, or is no object."""
    return section.get(name) if isinstance(section, dict) else None


def _checkpoint_error(got: str) -> InputError:
    """The error for a `tokenizer.json` that is not that of a checkpoint."""
    expected = "the vocabulary of a Regard checkpoint"
    return InputError("tokenizer.json", got=got, expected=expected, fix=COPY)
