"""Text <-> ids, and ids -> the words a person sees.

In: sentences. Out: ids without begin and end symbols; and back. One `Tokenizer` serves one side,
a `Vocabulary` both; `learn` makes one from the training split, and a checkpoint keeps its JSON.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Any

from tokenizers import Tokenizer as Inner

from regard.data.pair import Pair
from regard.errors import InputError
from regard.tokens.config import TokensConfig
from regard.tokens.kinds import (
    BEGIN,
    CONTINUES,
    END,
    PAD,
    SPACE,
    SPECIAL,
    UNKNOWN,
    byte_symbols,
    split_words,
    train,
)
from regard.tokens.saved import parse, read
from regard.tokens.spacing import join_words

Span = tuple[int, int]
_BYTES = {symbol: bytes([byte]) for byte, symbol in enumerate(byte_symbols())}
_UNDECODED = re.compile("[\udc80-\udcff]")
"""What Python makes of a byte that is no UTF-8."""
_CHUNK = 10_000
"""Sentences encoded at once: enough for all cores, few enough to hold."""


def _whole_word(piece: str) -> bytes:
    return b" " + piece.encode()


def _part_of_word(piece: str) -> bytes:
    goes_on = piece.startswith(CONTINUES) and piece != CONTINUES
    return piece.removeprefix(CONTINUES).encode() if goes_on else _whole_word(piece)


def _character(piece: str) -> bytes:
    return piece.encode()


def _byte_level(piece: str) -> bytes:
    return b"".join(_BYTES[symbol] for symbol in piece)


def _with_space_mark(piece: str) -> bytes:
    return piece.replace(SPACE, " ").encode()


WRITTEN: dict[str, Callable[[str], bytes]] = {
    "words": _whole_word,
    "characters": _character,
    "bpe": _byte_level,
    "wordpiece": _part_of_word,
    "unigram": _with_space_mark,
}
"""What a piece of each kind adds to the text, spaces included. `bytes` is `bpe` without merges."""


class Tokenizer:
    """Turns the text of one side into ids and back.

    Args:
        inner: The library's tokenizer, with the special symbols at ids 0 to 3.
        kind: What its pieces are: a key of `WRITTEN`.
    """

    pad, begin, end, unknown = PAD, BEGIN, END, UNKNOWN

    def __init__(self, inner: Inner, kind: str) -> None:
        # A person may type "</s>": it is text, and never the end symbol.
        inner.encode_special_tokens = True
        self._inner = inner
        self._kind = kind
        self._splitter = split_words()
        by_id = sorted(inner.get_vocab().items(), key=lambda entry: entry[1])
        self._pieces = [piece for piece, _ in by_id]
        self._written = [b""] * len(SPECIAL)
        self._written += [WRITTEN[kind](piece) for piece in self._pieces[len(SPECIAL) :]]

    @property
    def vocab(self) -> int:
        """The number of entries, special symbols included."""
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without begin and end."""
        return self._encode(text).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, on all cores."""
        rows: list[list[int]] = []
        for start in range(0, len(texts), _CHUNK):
            chunk = [_checked(text) for text in texts[start : start + _CHUNK]]
            encodings = self._inner.encode_batch_fast(chunk, add_special_tokens=False)
            rows.extend(encoding.ids for encoding in encodings)
        return rows

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special symbols are left out."""
        if self._kind in ("words", "wordpiece"):
            return join_words(self.words([token for token in ids if token >= len(SPECIAL)])[0])
        return self._inner.decode(list(ids), skip_special_tokens=True)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        r"""One printable piece for each id: spaces as `▁`, half characters as `\xc3`."""
        return [self._printable(token) for token in ids]

    def pieces(self, text: str) -> list[tuple[str, int]]:
        """The printable pieces of a text, each with the number of the word it belongs to.

        A space belongs to the word after it.

        Example:
            With pieces "Stra", "ße" and ".", "Straße." is [("Stra", 0), ("ße", 0), (".", 1)].
        """
        encoding = self._encode(text)
        _, index = self._group(text, encoding.offsets)
        return list(zip(self.tokens(encoding.ids), index, strict=True))

    def words(self, ids: Sequence[int]) -> tuple[list[str], list[int]]:
        """The words that ids spell, and for each id the number of its word.

        It needs no text, so it serves generated ids too. Each special symbol is a word of its own.
        """
        words: list[str] = []
        index: list[int] = []
        for special, run in groupby(ids, key=lambda token: token < len(SPECIAL)):
            if special:
                found = [SPECIAL[token] for token in run]
                places = list(range(len(found)))
            else:
                found, places = self._group(*self._spelled(run))
            index += [len(words) + place for place in places]
            words += found
        return words, index

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text that become `<unk>`, whole or in part: each once, in order."""
        encoding = self._encode(text)
        words, index = self._group(text, encoding.offsets)
        lost = [at for token, at in zip(encoding.ids, index, strict=True) if token == UNKNOWN]
        return list(dict.fromkeys(words[at] for at in lost))

    def to_json(self) -> str:
        """The whole tokenizer as the text of a `tokenizer.json` that Hugging Face can read."""
        return self._inner.to_str()

    @staticmethod
    def from_json(text: str) -> Tokenizer:
        """Undo `to_json`.

        Raises:
            InputError: If the text is damaged, or is a tokenizer that `learn` does not make.
        """
        return Tokenizer(*read(parse(text)))

    def _encode(self, text: str) -> Any:
        return self._inner.encode(_checked(text), add_special_tokens=False)

    def _printable(self, token: int) -> str:
        if self._kind in ("words", "wordpiece") or token < len(SPECIAL):
            return self._pieces[token]
        shown = self._written[token].decode("utf-8", "backslashreplace").replace(" ", SPACE)
        return "".join(
            letter if letter.isprintable() else letter.encode("unicode_escape").decode()
            for letter in shown
        )

    def _spelled(self, ids: Iterator[int]) -> tuple[str, list[Span]]:
        """The text that ids spell, and from which to which character of it each id reaches."""
        parts = [self._written[token] for token in ids]
        text = b"".join(parts).decode("utf-8", "surrogateescape")
        # A piece may end within a character: it reaches over all characters it has a part in.
        sizes = (len(letter.encode("utf-8", "surrogateescape")) for letter in text)
        edges = list(accumulate(sizes, initial=0))
        ends = accumulate(map(len, parts), initial=0)
        spans = [
            (bisect_right(edges, start) - 1, bisect_left(edges, end))
            for start, end in pairwise(ends)
        ]
        return _UNDECODED.sub("\N{REPLACEMENT CHARACTER}", text), spans

    def _group(self, text: str, spans: Sequence[Span]) -> tuple[list[str], list[int]]:
        """The words of a text, and for each span the number of its word.

        Words that one piece reaches over ("?!" as one piece) are one word.
        """
        found = [span for _, span in self._splitter.pre_tokenize_str(text)]
        if not found:  # nothing, or only spaces
            return ([text] if spans else []), [0] * len(spans)
        starts, ends = [start for start, _ in found], [end for _, end in found]
        firsts = [min(bisect_right(ends, start), len(found) - 1) for start, _ in spans]
        joined = {
            word
            for first, (_, end) in zip(firsts, spans, strict=True)
            for word in range(first + 1, bisect_left(starts, end))
        }
        words: list[str] = []
        number: list[int] = []
        begin = 0
        for place, (start, end) in enumerate(found):
            if place in joined:
                words[-1] = text[begin:end]
            else:
                begin = start
                words.append(text[start:end])
            number.append(len(words) - 1)
        return words, [number[first] for first in firsts]


@dataclass(frozen=True)
class Vocabulary:
    """The tokenizers of both sides; with a shared vocabulary they are one."""

    source: Tokenizer
    target: Tokenizer

    @property
    def shared(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.source is self.target

    def to_json(self) -> str:
        """Both as one text: shared, a plain `tokenizer.json`; else `{"source": …, "target": …}`."""
        if self.shared:
            return self.source.to_json()
        return f'{{"source":{self.source.to_json()},"target":{self.target.to_json()}}}'

    @staticmethod
    def from_json(text: str) -> Vocabulary:
        """Undo `to_json`.

        Raises:
            InputError: If the text is damaged, or is a tokenizer that `learn` does not make.
        """
        spec = parse(text)
        if "source" in spec or "target" in spec:
            source, target = (Tokenizer(*read(spec.get(side))) for side in ("source", "target"))
            return Vocabulary(source, target)
        both = Tokenizer(*read(spec))
        return Vocabulary(both, both)


def learn(pairs: Sequence[Pair], config: TokensConfig) -> Vocabulary:
    """Learn the vocabulary of a corpus: from its training split only.

    Args:
        pairs: The training pairs.
        config: Which kind, how large, one for both sides or one each.

    Returns:
        The same, to the last byte of its JSON, in every process.
    """
    if not pairs:
        raise InputError("tokens", got="no training pairs", expected="at least one to learn from")

    def one(texts: list[str]) -> Tokenizer:
        inner = train([_checked(text) for text in texts], config)
        return Tokenizer(inner, "bpe" if config.kind == "bytes" else config.kind)

    source, target = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if config.shared:
        both = one(source + target)
        return Vocabulary(both, both)
    return Vocabulary(one(source), one(target))


def _checked(text: str) -> str:
    """The text itself if it can be UTF-8; an undecoded byte or half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise InputError(
            "the text is not valid Unicode",
            got=f"{text[problem.start]!r} at character {problem.start + 1}",
            expected="text that can be written as UTF-8",
        ) from None
    return text
