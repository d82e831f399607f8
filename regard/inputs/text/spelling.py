"""Pieces -> text and words, with the word that each piece belongs to.

In: the bytes that each piece adds to a text, or a text and the span of characters of each piece.
Out: words, and for each piece the number of its word.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, groupby, pairwise

from regard.errors import InputError, escaped
from regard.inputs.text.kinds import CONTINUES, SPACE, byte_symbols, split_words

Span = tuple[int, int]
FALLBACK = {f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)}
"""The pieces for single bytes in vocabularies with byte fallback."""
_BYTES = {symbol: bytes([byte]) for byte, symbol in enumerate(byte_symbols())}
_SPLITTER = split_words()
_INVALID_BYTES = re.compile("[\udc80-\udcff]")
"""The characters that Python's `surrogateescape` makes of invalid UTF-8 bytes."""


def _wordpiece_bytes(piece: str) -> bytes:
    """The bytes of a WordPiece; one that begins a word has a space before it."""
    goes_on = piece.startswith(CONTINUES) and piece != CONTINUES
    return (piece.removeprefix(CONTINUES) if goes_on else f" {piece}").encode()


def _byte_level_bytes(piece: str) -> bytes:
    """The bytes that the symbols of a byte-level piece stand for."""
    # added tokens may be written as plain text instead of byte symbols
    is_byte_level = all(symbol in _BYTES for symbol in piece)
    return b"".join(_BYTES[symbol] for symbol in piece) if is_byte_level else piece.encode()


def _unigram_bytes(piece: str) -> bytes:
    """The bytes of a Unigram piece, with spaces for `▁`."""
    return piece.replace(SPACE, " ").encode()


TO_BYTES: dict[str, Callable[[str], bytes]] = {
    "words": lambda piece: f" {piece}".encode(),
    "characters": str.encode,
    "bpe": _byte_level_bytes,
    "wordpiece": _wordpiece_bytes,
    "unigram": _unigram_bytes,
    "fallback": lambda piece: FALLBACK.get(piece) or _unigram_bytes(piece),
}
"""By kind: piece -> the bytes it adds to the text, spaces included. `bytes` is `bpe` without
merges."""


def check_text(text: str) -> str:
    """Return the text if it can be encoded as UTF-8.

    Raises:
        InputError: If it contains an undecoded byte or half a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        what, expected = "the text is not valid Unicode", "text that can be written as UTF-8"
        got = f"{text[problem.start]!r} at character {problem.start + 1}"
        raise InputError(what, got=got, expected=expected) from None
    return text


def printable_piece(written: bytes) -> str:
    r"""Make a piece printable: spaces as `▁`, partial characters as `\xc3`."""
    return escaped(written.decode("utf-8", "backslashreplace").replace(" ", SPACE))


def correct_spans(text: str, spans: Sequence[Span], blank: Sequence[bool]) -> list[Span]:
    """Correct the spans of characters that the library gives for pieces.

    Args:
        text: The text before normalising.
        spans: The library's span of each piece.
        blank: For each piece, whether it adds only spaces.

    Returns:
        The corrected spans, in characters of `text`.
    """
    corrected = []
    for i, (start, end) in enumerate(spans):
        after = spans[i + 1][0] if i + 1 < len(spans) else len(text)
        if blank[i] and i + 1 < len(spans) and start == after:
            end = start  # a space that the tokenizer added before the text
        while start < end < after and unicodedata.combining(text[end]):
            end += 1  # include an accent that normalising removed
        corrected.append((start, end))
    return corrected


def words_of(
    ids: Iterable[int], special: Mapping[int, str], bytes_of: Callable[[int], bytes]
) -> tuple[list[str], list[int]]:
    """Return the words that ids spell, and for each id the number of its word.

    Args:
        ids: Any ids.
        special: Special symbols by id; each is always a word of its own.
        bytes_of: Id -> the bytes it adds to the text.
    """
    words: list[str] = []
    index: list[int] = []
    for is_special, run in groupby(ids, key=special.__contains__):
        if is_special:
            new_words = [special[token] for token in run]
            numbers = list(range(len(new_words)))
        else:
            new_words, numbers = group_words(*spell([bytes_of(token) for token in run]))
        index += [len(words) + number for number in numbers]
        words += new_words
    return words, index


def spell(parts: Sequence[bytes]) -> tuple[str, list[Span]]:
    """Return the text that pieces spell, and the span of characters of each piece."""
    text = b"".join(parts).decode("utf-8", "surrogateescape")
    # A piece may end within a character: its span includes every character it has a byte of.
    sizes = (len(letter.encode("utf-8", "surrogateescape")) for letter in text)
    edges = list(accumulate(sizes, initial=0))
    ends = pairwise(accumulate(map(len, parts), initial=0))
    spans = [(bisect_right(edges, start) - 1, bisect_left(edges, end)) for start, end in ends]
    return _INVALID_BYTES.sub("\N{REPLACEMENT CHARACTER}", text), spans


def group_words(text: str, spans: Sequence[Span]) -> tuple[list[str], list[int]]:
    """Return the words of a text, and for each piece's span the number of its word.

    Words that one piece spans ("?!" as one piece) are merged into one word.
    """
    word_spans = [span for _, span in _SPLITTER.pre_tokenize_str(text)]
    if not word_spans:  # the text is empty, or only spaces
        return ([text] if spans else []), [0] * len(spans)
    starts, ends = [start for start, _ in word_spans], [end for _, end in word_spans]
    firsts = [min(bisect_right(ends, start), len(word_spans) - 1) for start, _ in spans]
    merged_words = {
        word
        for first, (_, end) in zip(firsts, spans, strict=True)
        for word in range(first + 1, bisect_left(starts, end))
    }
    words: list[str] = []
    number: list[int] = []
    begin = 0
    for i, (start, end) in enumerate(word_spans):
        if i in merged_words:
            words[-1] = text[begin:end]
        else:
            begin = start
            words.append(text[start:end])
        number.append(len(words) - 1)
    return words, [number[first] for first in firsts]
