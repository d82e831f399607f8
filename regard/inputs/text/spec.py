"""A parsed `tokenizer.json` -> the `tokenizers` object, its pieces and its special symbols.

In: the parsed JSON, from a trusted or untrusted source. Out: the library's tokenizer, changed so
that no text can spell a special symbol, and the other properties that `Tokenizer` needs. A damaged
file is an `InputError` with the file's name, never a panic of the library.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from tokenizers import Tokenizer as Inner

from regard.errors import InputError, UserError

Spec = dict[str, Any]

HIDDEN = "\U0010ffff"
"""A Unicode noncharacter, put before special symbols inside the library, so that no text can spell
one. Without it a Unigram model finds "</s>" in a text like any other piece."""
MOST_IDS = 4_000_000
"""The most ids: more than any published vocabulary has; beyond it a file is damaged or hostile."""
LONGEST_PIECE = 4096
"""The most characters of a piece; the longest published ones have some hundred. The work of
encoding grows with the square of the length."""
MOST_GROWTH = 4096
"""The most times that normalising may lengthen a text; published tokenizers stay below 100."""
_KINDS = {
    '"ByteLevel"': "bpe",
    '"WordPiece"': "wordpiece",
    '"ByteFallback"': "fallback",
    '"Metaspace"': "unigram",
    '"▁"': "unigram",
    '"Fuse"': "characters",
}
"""What a decoder's JSON contains -> how its pieces spell text; the first that is in it counts."""
_PROBE_TEXT = "Probe: é 東京 👩 </s>\t1"
"""A text with accents, other scripts, an emoji and a symbol, to try a tokenizer out."""


class guarded:  # noqa: N801 (as `contextlib.suppress`; entered with every text, so no generator)
    """Turn any exception of the library into an `InputError` that names the damaged file."""

    def __init__(self, file: str) -> None:
        self._file = file

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, problem: BaseException | None, traceback: object) -> None:
        if problem is None or isinstance(problem, UserError):
            return
        # The library's `PanicException` is not a subclass of `Exception`.
        if isinstance(problem, Exception) or type(problem).__name__ == "PanicException":
            message = " ".join(str(problem).split())[:160] or type(problem).__name__
            raise file_error(self._file, f"content that cannot be read ({message})") from None


def file_error(file: str, got: str) -> InputError:
    """Return the error for a damaged file."""
    fix = "take the file from another copy of the model"
    return InputError(file, got=got, expected="a tokenizer in Hugging Face's format", fix=fix)


def parse_object(text: str, make_error: Callable[[str], InputError]) -> dict[str, Any]:
    """Parse a JSON object; `make_error` makes the error from what was found instead."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise make_error(f"text that is not JSON ({problem})") from None
    if not isinstance(value, dict):
        raise make_error(f"a JSON {type(value).__name__}")
    return value


def build(spec: Spec, file: str) -> Inner:
    """Build the library's tokenizer; it encodes special symbols in a text as text.

    Raises:
        InputError: If the file is damaged, or would take too much time or memory.
    """
    with guarded(file):
        check_growth(spec.get("normalizer"), file)
        check_growth(spec.get("decoder"), file)
        added = (entry["content"] for entry in spec.get("added_tokens") or [])
        check_lengths(chain(piece_ids(spec), added), file)
        inner = Inner.from_str(json.dumps(_hide_symbols(spec)))
        inner.encode_special_tokens = True
        inner.decode(inner.encode(_PROBE_TEXT).ids)  # some damage shows only when encoding
    return inner


def check_lengths(pieces: Iterable[str], file: str) -> None:
    """Refuse pieces that are so long that encoding would take too much time and memory."""
    longest = max(map(len, pieces), default=0)
    if longest > LONGEST_PIECE:
        raise file_error(file, f"a piece of {longest:,} characters, more than {LONGEST_PIECE:,}")


def check_growth(step: Any, file: str) -> None:
    """Refuse a normalizer or decoder that would make a text many times as long."""
    if _max_growth(step, file) > MOST_GROWTH:
        raise file_error(file, f"steps that make a text more than {MOST_GROWTH:,} times as long")


def _max_growth(step: Any, file: str) -> int:
    """Bound how many times as long a normalizer or decoder can make a text."""
    match step:
        case {"normalizers": [*steps]} | {"decoders": [*steps]}:
            return math.prod(_max_growth(inner, file) for inner in steps)
        case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if old:
            return max(1, -(-len(new) // len(old)))
        case {"type": "Replace", "content": str(new)}:
            return 1 + len(new)  # a pattern may match between any two characters
        case {"type": "Prepend", "prepend": str(new)}:
            return 1 + len(new)
        case {"precompiled_charsmap": characters}:
            return check_characters(base64.b64decode(characters, validate=True), file)
    return 1


def check_characters(data: bytes, file: str) -> int:
    """Return the most bytes that a compiled character map makes of one character.

    Raises:
        InputError: If the map is shorter than its size field claims; the library would allocate
            the claimed size.
    """
    size = 4 + int.from_bytes(data[:4], "little")
    if size > len(data) or size % 4:
        raise file_error(file, f"a character map of {len(data):,} bytes that claims {size:,}")
    return max(1, *map(len, data[size:].split(b"\0")))


def pieces_of(inner: Inner, spec: Spec, file: str) -> list[str]:
    """Return the piece of each id, as named in the file; unused ids have an empty piece.

    Raises:
        InputError: If an id is too large, or an added symbol does not have its stated id.
    """
    entries = inner.get_vocab()
    highest = max(entries.values(), default=-1)
    if not 0 <= highest < MOST_IDS:
        raise file_error(file, f"{highest + 1} ids")
    pieces = [""] * (highest + 1)
    for piece, token in entries.items():
        pieces[token] = piece.removeprefix(HIDDEN) or piece  # a piece may be `HIDDEN` itself
    for entry in spec.get("added_tokens") or []:
        name, token = entry["content"], entry["id"]
        if not (0 <= token <= highest and pieces[token] == name):
            raise file_error(file, f"{name!r} with the id {token}, which it cannot have")
    return pieces


def piece_ids(spec: Spec) -> dict[str, int]:
    """Return the id of each piece of the model section, without added symbols."""
    vocab = spec["model"]["vocab"]
    return vocab if isinstance(vocab, dict) else {piece[0]: i for i, piece in enumerate(vocab)}


def special_symbols(spec: Spec, file: str) -> dict[int, str]:
    """Return the special symbols by id."""
    added = spec.get("added_tokens") or []
    with guarded(file):
        return {int(entry["id"]): str(entry["content"]) for entry in added if entry.get("special")}


def kind_of(spec: Spec) -> str:
    """Determine how pieces spell text, a key of `TO_BYTES`, from the decoder in the file."""
    decoder = json.dumps(spec.get("decoder"), ensure_ascii=False)
    return next((kind for mark, kind in _KINDS.items() if mark in decoder), "words")


def _hide_symbols(spec: Spec) -> Spec:
    """Put `HIDDEN` before the names of the special symbols, so that no text contains them."""
    added = spec.get("added_tokens") or []
    special = {entry["content"] for entry in added if entry.get("special")}

    def hide(name: str) -> str:
        return HIDDEN + name if name in special else name

    model = dict(spec["model"])
    if isinstance(model["vocab"], dict):
        model["vocab"] = {hide(piece): token for piece, token in model["vocab"].items()}
    else:
        model["vocab"] = [[hide(piece), score] for piece, score in model["vocab"]]
    if isinstance(model.get("unk_token"), str):
        model["unk_token"] = hide(model["unk_token"])
    if model.get("merges"):
        # SentencePiece never merges pieces into a control symbol, but converted files may have
        # such merges
        model["merges"] = [merge for merge in model["merges"] if _piece_of(merge) not in special]
    hidden = [{**entry, "content": hide(entry["content"])} for entry in added]
    return {**spec, "model": model, "added_tokens": hidden}


def _piece_of(merge: str | list[str]) -> str:
    """The piece that a merge makes; files have merges as "a b" or as ["a", "b"]."""
    return "".join(merge.split(" ") if isinstance(merge, str) else merge)
