"""Reads a model file of llama2.c and its tokenizer.

In: `model.bin` of version 0 (written by `export.py` of llama2.c; all of its published story models)
and `tok512.bin` or `tokenizer.bin`. Out: a `Decoder` in 32 bits and a `Vocabulary`.

    model      7 × int32: dim, hidden, layers, heads, kv_heads, vocab (negative: untied), length;
               then float32, one kind of tensor after another, each for all layers
    tokenizer  int32: bytes of the longest piece; then for each piece (float32 score, int32 bytes,
               text)

The seven numbers of the header determine the file's length. It is compared before anything is
allocated.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from regard.errors import InputError
from regard.inputs.text import Roles, Tokenizer, Vocabulary
from regard.inputs.text.published.folder import LARGEST
from regard.inputs.text.published.legacy import build_spec
from regard.inputs.text.published.sentencepiece import (
    BPE,
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    Piece,
    PieceModel,
)
from regard.inputs.text.spelling import FALLBACK
from regard.models import GPTConfig
from regard.models.decoder import Decoder
from regard.runtime.device import check_memory
from regard.runtime.files import open_regular, read_regular

_HEADER = struct.Struct("<7i")
_ENTRY = struct.Struct("<fi")
_LATER_VERSIONS_MAGIC = 0x616B3432
"""The first number in files of version 1 and later: `ak42`."""
_SYMBOLS = (("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL))
"""The tokens of the first three ids. llama2.c writes the last two with line ends around them."""
_LAYER_TENSORS = (
    "self_norm", "query", "key", "value", "out", "feed_norm", "gate", "down", "up",
)  # fmt: skip
_SPACE = "▁"
"""SentencePiece's character for a space; llama2.c's pieces have plain spaces instead."""


@dataclass(frozen=True)
class Header:
    """The header of a model file."""

    dim: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    tied: bool
    max_length: int

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all tensors by name, in the order of the file."""
        layers, dim, hidden = self.layers, self.dim, self.hidden
        head_dim = dim // self.heads
        kv_dim = self.kv_heads * head_dim
        angles = (self.max_length, head_dim // 2)
        return {
            "embed": (self.vocab, dim),
            "self_norm": (layers, dim),
            "query": (layers, dim, dim),
            "key": (layers, kv_dim, dim),
            "value": (layers, kv_dim, dim),
            "out": (layers, dim, dim),
            "feed_norm": (layers, dim),
            "gate": (layers, hidden, dim),
            "down": (layers, dim, hidden),
            "up": (layers, hidden, dim),
            "final_norm": (dim,),
            "cosine": angles,  # rotary tables; llama2.c itself no longer reads these two
            "sine": angles,
            **({} if self.tied else {"head": (self.vocab, dim)}),
        }

    @property
    def size(self) -> int:
        """The size in bytes of the whole file."""
        return _HEADER.size + 4 * sum(map(math.prod, self.shapes().values()))


def read_llama2c(file: Path, tokenizer: Path | None = None) -> tuple[Decoder, Vocabulary]:
    """Reads the model of a llama2.c file and its vocabulary.

    Args:
        file: A `.bin` file of version 0.
        tokenizer: Its tokenizer file; by default `tok512.bin` (for a vocabulary of 512) or
            `tokenizer.bin` beside the model.

    Raises:
        InputError: A file is damaged, missing, of another version, or its length does not fit its
            header.
    """
    header = _read_header(file)
    vocabulary = _read_tokenizer(tokenizer or _find_tokenizer(file, header.vocab), header.vocab)
    try:
        config = GPTConfig(
            layers=header.layers,
            dim=header.dim,
            heads=header.heads,
            kv_heads=None if header.kv_heads == header.heads else header.kv_heads,
            hidden=header.hidden,
            activation="gated_silu",
            norm="rms",
            norm_epsilon=1e-5,
            bias=False,
            positions="rotary",
            max_length=header.max_length,
            dropout=0.0,
            tied=header.tied,
        )
    except ValidationError as error:
        raise _damaged_file_error(file, str(error.errors()[0]["msg"])) from None
    model = Decoder(config, header.vocab)
    model.load_state_dict(dict(_our_tensors(_read_tensors(file, header), header)))
    return model.eval(), vocabulary


def _read_header(file: Path) -> Header:
    """Reads the header and checks that it fits the file's length and the machine's memory."""
    try:
        size = file.stat().st_size
        with open_regular(file) as stream:
            header_bytes = stream.read(_HEADER.size)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    if len(header_bytes) < _HEADER.size:
        raise _damaged_file_error(file, f"{size} bytes")
    dim, hidden, layers, heads, kv_heads, vocab, max_length = _HEADER.unpack(header_bytes)
    if dim == _LATER_VERSIONS_MAGIC:
        raise InputError(
            str(file),
            got=f"version {hidden} of llama2.c's format",
            expected="version 0",
            fix="export it again with `python export.py model.bin --version 0`",
        )
    sizes = (dim, hidden, layers, heads, kv_heads, abs(vocab), max_length)
    if min(sizes) < 1 or dim % heads or heads % kv_heads:
        raise _damaged_file_error(file, f"sizes of {', '.join(map(str, sizes))}")
    header = Header(dim, hidden, layers, heads, kv_heads, abs(vocab), vocab > 0, max_length)
    if size != header.size:
        raise _damaged_file_error(file, f"{size} bytes where its sizes need {header.size}")
    check_memory(f"{file}: its weights", size)
    return header


def _read_tensors(file: Path, header: Header) -> dict[str, Tensor]:
    try:
        numbers = np.fromfile(file, dtype="<f4", offset=_HEADER.size)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    shapes = header.shapes()
    if numbers.size != sum(map(math.prod, shapes.values())):
        raise _damaged_file_error(file, "a length that changed while it was read")
    parts = torch.split(torch.from_numpy(numbers), [*map(math.prod, shapes.values())])
    return {
        name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


def _our_tensors(file_tensors: dict[str, Tensor], header: Header) -> Iterator[tuple[str, Tensor]]:
    """Yields their tensors by our names."""
    yield "embed.weight", file_tensors["embed"]
    yield "head.weight", file_tensors["embed" if header.tied else "head"]
    yield "decoder.final_norm.weight", file_tensors["final_norm"]
    for layer in range(header.layers):
        tensors = {name: file_tensors[name][layer] for name in _LAYER_TENSORS}
        query = halves_first(tensors["query"], header.heads)
        key = halves_first(tensors["key"], header.kv_heads)
        block = f"decoder.blocks.{layer}."
        yield f"{block}self_norm.weight", tensors["self_norm"]
        yield f"{block}self_attention.query.weight", query
        yield f"{block}self_attention.key_value.weight", torch.cat((key, tensors["value"]))
        yield f"{block}self_attention.out.weight", tensors["out"]
        yield f"{block}feed_norm.weight", tensors["feed_norm"]
        yield f"{block}feed_forward.into.weight", torch.cat((tensors["gate"], tensors["up"]))
        yield f"{block}feed_forward.out.weight", tensors["down"]


def halves_first(matrix: Tensor, heads: int) -> Tensor:
    """Reorders the rows of a query or key matrix for rotary positions on pairs (j, j + half).

    llama2.c rotates the pairs (2j, 2j + 1) of a head's features. The dot product of a query and a
    key does not change if the features of both are reordered in the same way.

    Args:
        matrix: (heads * head_dim, dim)
        heads: Number of heads.

    Returns:
        (heads * head_dim, dim)

    Example:
        >>> halves_first(torch.arange(4.0).view(4, 1), heads=1).flatten()
        tensor([0., 2., 1., 3.])
    """
    rows, dim = matrix.shape
    pairs = matrix.view(heads, rows // heads // 2, 2, dim)  # (heads, pair, which, dim)
    return pairs.transpose(1, 2).reshape(rows, dim)


def _find_tokenizer(file: Path, vocab: int) -> Path:
    """The tokenizer file beside a model, by the names that llama2.c uses."""
    names = (f"tok{vocab}.bin", "tokenizer.bin")
    for name in names:
        if file.with_name(name).is_file():
            return file.with_name(name)
    raise InputError(f"{file.parent}: no tokenizer", expected=" or ".join(names))


def _read_tokenizer(file: Path, vocab: int) -> Vocabulary:
    try:
        data = read_regular(file, most=LARGEST)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    pieces = list(_read_pieces(data, file))
    if len(pieces) != vocab:
        raise _damaged_file_error(file, f"{len(pieces)} pieces for a model with {vocab}")
    if len({piece.text for piece in pieces}) < len(pieces):
        raise _damaged_file_error(file, "a piece twice")
    model = PieceModel(tuple(pieces), algorithm=BPE, byte_fallback=True, single_spaces=False)
    spec = build_spec(model, str(file))
    spec["post_processor"] = _begin_token_processor()
    tokenizer = Tokenizer(spec, Roles(begin=1, end=2, unknown=0), file=str(file))
    return Vocabulary(tokenizer, tokenizer)


def _read_pieces(data: bytes, file: Path) -> Iterator[Piece]:
    """Yields the pieces of a tokenizer file in SentencePiece's form."""
    offset = struct.calcsize("<i")  # skips the length of the longest piece, which only C needs
    number = 0
    while offset < len(data):
        if offset + _ENTRY.size > len(data):
            raise _damaged_file_error(file, f"piece {number} cut off")
        score, length = _ENTRY.unpack_from(data, offset)
        offset += _ENTRY.size
        if not 0 <= length <= len(data) - offset or not math.isfinite(score):
            raise _damaged_file_error(
                file, f"piece {number} with {length} bytes and the score {score}"
            )
        try:
            text = data[offset : offset + length].decode()
        except UnicodeDecodeError:
            raise _damaged_file_error(file, f"piece {number} that is not UTF-8") from None
        yield _make_piece(number, text, score)
        offset += length
        number += 1


def _make_piece(number: int, text: str, score: float) -> Piece:
    if number < len(_SYMBOLS):
        name, kind = _SYMBOLS[number]
        return Piece(name, score, kind)
    return Piece(text.replace(" ", _SPACE), score, BYTE if text in FALLBACK else NORMAL)


def _begin_token_processor() -> dict[str, Any]:
    """A post-processor that puts `<s>` before each text, as in the model's training."""
    begin, text, pair = (
        {"SpecialToken": {"id": "<s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 0}},
    )
    return {
        "type": "TemplateProcessing",
        "single": [begin, text],
        "pair": [begin, text, begin, pair],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }


def _damaged_file_error(file: Path, got: str) -> InputError:
    return InputError(
        f"{file} is damaged, or no file of llama2.c",
        got=got,
        expected="its version 0",
        fix="take the file from another copy of the model",
    )
