"""A SentencePiece `.model` file -> its pieces and settings.

In: the bytes of the file, a protobuf message (sentencepiece_model.proto). Out: a `PieceModel`. The
protobuf wire format is parsed here, without generated code and without a library.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from regard.inputs.text.spec import check_lengths, file_error

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""The types of pieces."""
UNIGRAM, BPE = 1, 2
"""The supported model types. SentencePiece's other two, words and characters, are rare."""
MAX_PIECES = 2_000_000


@dataclass(frozen=True)
class Piece:
    """One entry of the vocabulary: its text, with `▁` for a space, its score and its type."""

    text: str
    score: float = 0.0
    kind: int = NORMAL


@dataclass(frozen=True)
class PieceModel:
    """The contents of a `.model` file that affect how text is encoded."""

    pieces: tuple[Piece, ...]
    algorithm: int = UNIGRAM
    byte_fallback: bool = False
    space_follows: bool = False
    """Whether the space symbol is at the end of a word instead of its beginning."""
    characters: bytes = field(default=b"", repr=False)
    """The compiled character map of the normalizer; empty if characters are not changed."""
    leading_space: bool = True
    """Whether a space is added before a text."""
    single_spaces: bool = True
    """Whether spaces at both ends are removed and repeated spaces become one."""


def read_pieces(data: bytes, file: str) -> PieceModel:
    """Parse a `.model` file.

    Raises:
        InputError: If it is truncated, damaged, or not a SentencePiece model.
    """
    pieces: list[Piece] = []
    trainer: dict[int, int | bytes] = {}
    normalizer: dict[int, int | bytes] = {}
    try:
        for number, value in _read_fields(data):
            if number == 1:
                pieces.append(_read_piece(_expect_bytes(value)))
            elif number == 2:
                trainer |= dict(_read_fields(_expect_bytes(value)))
            elif number == 3:
                normalizer |= dict(_read_fields(_expect_bytes(value)))
        model = PieceModel(
            tuple(pieces),
            algorithm=_expect_number(trainer.get(3, UNIGRAM)),
            byte_fallback=bool(trainer.get(35, 0)),
            space_follows=bool(trainer.get(24, 0)),
            characters=_expect_bytes(normalizer.get(2, b"")),
            leading_space=bool(normalizer.get(3, 1)),
            single_spaces=bool(normalizer.get(4, 1)),
        )
    except (ValueError, struct.error) as problem:
        raise file_error(file, f"no SentencePiece model ({problem})") from None
    _check_model(model, file)
    return model


def _check_model(model: PieceModel, file: str) -> None:
    """Refuse a model with bad pieces, or of a type that is not supported."""
    texts = {piece.text for piece in model.pieces}
    if not 0 < len(model.pieces) <= MAX_PIECES:
        raise file_error(file, f"{len(model.pieces)} pieces")
    if len(texts) != len(model.pieces):
        raise file_error(file, "a piece that occurs twice")
    check_lengths((piece.text for piece in model.pieces), file)
    if not all(piece.text and math.isfinite(piece.score) for piece in model.pieces):
        raise file_error(file, "a piece without text or with a score that is not a number")
    if sum(piece.kind == UNKNOWN for piece in model.pieces) != 1:
        raise file_error(file, "no unknown piece, or several")
    if model.algorithm not in (UNIGRAM, BPE) or model.space_follows:
        raise file_error(file, "a model of words or characters, or with spaces after words")


def _read_piece(data: bytes) -> Piece:
    """Parse a piece: field 1 is its text, 2 its score, 3 its type."""
    entries = dict(_read_fields(data))
    text = _expect_bytes(entries.get(1, b"")).decode("utf-8")
    [score] = struct.unpack("<f", _expect_bytes(entries.get(2, struct.pack("<f", 0.0))))
    return Piece(text, score, _expect_number(entries.get(3, NORMAL)))


def _read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message: varints (wire type 0) as integers, others as bytes."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        if wire == 2:
            size, at = _read_varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"a field of kind {wire} at byte {at}")
        if at + size > len(data):
            raise ValueError("the file is truncated")
        yield number, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a varint, seven bits per byte, lowest first; return it and the index after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("the file is truncated")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise ValueError(f"an unterminated number at byte {at}")


def _expect_bytes(value: int | bytes) -> bytes:
    """The value of a field that must be bytes."""
    if isinstance(value, int):
        raise ValueError("a number instead of text")  # noqa: TRY004 (the file is wrong, not a type)
    return value


def _expect_number(value: int | bytes) -> int:
    """The value of a field that must be a number."""
    if isinstance(value, bytes):
        raise ValueError("text instead of a number")  # noqa: TRY004 (the file is wrong, not a type)
    return value
