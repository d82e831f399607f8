"""Text <-> token ids, and token ids -> words.

In: a parsed `tokenizer.json`, learned by Regard or published by others, and the roles of its
special symbols. Out: a `Tokenizer` for one side of a model. It encodes and decodes as the
`tokenizers` library does, with one difference: a special symbol such as `</s>` in the input text is
encoded as ordinary text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter
from tokenizers import Tokenizer as Inner

from regard.config import Config
from regard.config import checked as checked_values
from regard.errors import InputError
from regard.inputs.text.kinds import BEGIN, CONTINUES, END, PAD, UNKNOWN
from regard.inputs.text.reader import TextReader
from regard.inputs.text.saved import check_learned, parse
from regard.inputs.text.spacing import join_words
from regard.inputs.text.spec import (
    HIDDEN,
    Spec,
    build,
    file_error,
    guarded,
    kind_of,
    pieces_of,
    special_symbols,
)
from regard.inputs.text.spelling import (
    FALLBACK,
    TO_BYTES,
    Span,
    check_text,
    correct_spans,
    group_words,
    printable_piece,
    words_of,
)
from regard.inputs.text.stream import CLEANED_PATTERNS, StreamDecoder
from regard.inputs.text.template import read_template

_CHUNK = 10_000
"""Texts encoded at once: enough to use all cores, few enough to keep in memory."""


@dataclass(frozen=True)
class Roles:
    """The id of the symbol of each role; None for a role without a symbol."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    begin: int | None = None
    end: int | None = None
    pad: int | None = None
    unknown: int | None = None
    classifier: int | None = None
    separator: int | None = None
    mask: int | None = None
    start: int | None = None
    """The first input of a decoder, from the model's config, not the tokenizer's files."""
    banned: tuple[int, ...] = ()
    """Ids that a translator never generates; most models have them in their generation config."""


LEARNED = Roles(BEGIN, END, PAD, UNKNOWN, start=BEGIN, banned=(PAD, BEGIN, UNKNOWN))
"""The roles of every vocabulary that is learned from pairs."""


class Tokenizer(TextReader):
    """Encodes the text of one side of a model into token ids, and decodes ids into text.

    Args:
        spec: A parsed `tokenizer.json`; its post-processor is the template around a text.
        roles: The ids of the symbols with a role.
        file: Name of the file in errors.
        clean: Whether decoding removes spaces before punctuation.
        sentences: Whether decoding joins words and word pieces into a sentence with normal spacing;
            otherwise the decoder in `spec` is used.
        vocab: Number of ids that the model knows, if fewer than the tokenizer has; higher ids
            become the unknown symbol.

    Attributes:
        vocab: The number of ids, including special symbols and unused ids.
        specials: The ids of the symbols with a role.
        is_word_level: Whether all entries are whole words, so that an unknown word is lost as a
            whole.
        learned_from_pairs: Whether roles and settings are those of `learn`: `tokenizer.json` alone
            then suffices.
        cleans: Whether decoding removes spaces before punctuation, as a published tokenizer says.
        joins_words: Whether decoding joins words and word pieces into a sentence with normal
            spacing.

    Raises:
        InputError: If `spec` is damaged, or a role has an id outside the vocabulary.
    """

    def __init__(
        self,
        spec: Spec,
        roles: Roles,
        *,
        file: str = "tokenizer.json",
        clean: bool = False,
        sentences: bool = False,
        vocab: int | None = None,
    ) -> None:
        spec = {**spec, "truncation": None, "padding": None}
        self._file, self.cleans, self.specials, self._sentences = file, clean, roles, sentences
        self._guarded = guarded(file)
        self._template = read_template(spec.get("post_processor"), file)
        self._special = special_symbols(spec, file)
        self._inner = build(spec, file)
        self._inner.post_processor = None  # `_template` replaces it; some would trim offsets
        self._pieces = pieces_of(self._inner, spec, file)
        self.vocab = len(self._pieces) if vocab is None else vocab
        self._kind = kind_of(spec)
        self.is_word_level = self._kind == "words" and spec["model"].get("type") == "WordLevel"
        self.joins_words = sentences and self._kind in ("words", "wordpiece")
        self._bytes = [TO_BYTES[self._kind](piece) if piece else b"" for piece in self._pieces]
        self._json = json.dumps(spec, separators=(",", ":"))
        self._check_ids()
        settings = roles, clean, sentences, self.vocab, spec.get("post_processor")
        self.learned_from_pairs = settings == (LEARNED, False, True, len(self._pieces), None)

    @property
    def pad(self) -> int:
        """The padding id. Padding is masked, so a vocabulary without one uses any other id."""
        return self._first_id("pad", self.specials.pad, self.specials.end, 0)

    @property
    def begin(self) -> int:
        """The id that generation starts with: the decoder's start, begin or classifier symbol."""
        roles = self.specials
        return self._first_id("begin", roles.start, roles.begin, roles.classifier)

    @property
    def end(self) -> int:
        """The id that ends a text: the end symbol, or else the separator."""
        return self._first_id("end", self.specials.end, self.specials.separator)

    @property
    def unknown(self) -> int:
        """The id of the unknown symbol, for text that the vocabulary cannot represent."""
        return self._first_id("unknown", self.specials.unknown)

    @property
    def has_all_bytes(self) -> bool:
        """Whether the vocabulary has every byte, so that no text is unknown."""
        return self._kind in ("bpe", "fallback")

    def encode(self, text: str) -> list[int]:
        """Encode a text, without symbols around it."""
        return self._limit_ids(self._encode(text).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts on all cores, without symbols around them."""
        rows: list[list[int]] = []
        for start in range(0, len(texts), _CHUNK):
            chunk = [self._check_text(text) for text in texts[start : start + _CHUNK]]
            with self._guarded:
                encodings = self._inner.encode_batch_fast(chunk, add_special_tokens=False)
            rows.extend(self._limit_ids(encoding.ids) for encoding in encodings)
        return rows

    def encode_with_specials(self, text: str) -> list[int]:
        """Encode a text in which symbols such as `[MASK]` or `<extra_id_0>` count as symbols."""
        with self._guarded:
            encoding = self._with_specials.encode(check_text(text), add_special_tokens=False)
        return self._limit_ids(encoding.ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids into text, without special symbols."""
        if self.joins_words:
            return join_words(self.words([token for token in ids if token not in self._special])[0])
        with self._guarded:
            text: str = self._inner.decode(list(ids), skip_special_tokens=True)
        if self.cleans:
            for pattern in CLEANED_PATTERNS:
                text = text.replace(pattern, pattern.strip())
        return text

    def template(self, ids: Sequence[int], pair: Sequence[int] | None = None) -> list[int]:
        """Add the model's symbols, such as `[CLS]`, around the ids of one text or of two."""
        return self._template.fill(ids, pair)[0]

    def token_types(self, ids: Sequence[int], pair: Sequence[int] | None = None) -> list[int]:
        """Return the segment, 0 or 1, of each id of `template(ids, pair)`."""
        return self._template.fill(ids, pair)[1]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        r"""Return a printable piece for each id: spaces as `▁`, partial characters as `\xc3`."""
        return [self._printable_token(token) for token in ids]

    def pieces(self, text: str) -> list[tuple[str, int]]:
        """Return the printable pieces of a text, each with the number of its word.

        A space belongs to the word after it.

        Example:
            With pieces "Stra", "ße" and ".", "Straße." is [("Stra", 0), ("ße", 0), (".", 1)].
        """
        ids, spans = self.encode_with_spans(text)
        return list(zip(self.tokens(ids), group_words(text, spans)[1], strict=True))

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span]]:
        """Encode a text, with the span of characters of each id, spaces included."""
        encoding = self._encode(text)
        blank = [self._is_blank(token) for token in encoding.ids]
        return self._limit_ids(encoding.ids), correct_spans(text, encoding.offsets, blank)

    def spans(self, text: str) -> tuple[list[int], list[Span]]:
        """Encode a text, with the span of characters of each id, without surrounding spaces.

        A piece with a part of a character covers the whole character; a piece of only spaces has an
        empty span.
        """
        ids, spans = self.encode_with_spans(text)
        pairs = zip(ids, spans, strict=True)
        return ids, [self._trim_span(text, token, *span) for token, span in pairs]

    def is_special(self, token: int) -> bool:
        """Whether an id is a special symbol or the unknown symbol, not text."""
        return token in self._special or self.is_unknown(token)

    def is_unknown(self, token: int) -> bool:
        """Whether an id is the unknown symbol."""
        return token == self.specials.unknown

    def words(self, ids: Sequence[int]) -> tuple[list[str], list[int]]:
        """Return the words that ids spell, and for each id the number of its word.

        No text is needed, so this works for generated ids, too. Each special symbol is a word.
        """
        return words_of(ids, self._special, self._bytes_of)

    def unknown_words(self, text: str) -> list[str]:
        """Return the words of a text that have unknown parts: each once, in order."""
        return list(dict.fromkeys(word for word, lost in self.mark_unknown_words(text) if lost))

    def mark_unknown_words(self, text: str) -> list[tuple[str, bool]]:
        """Return the words of a text, each with whether it is unknown, whole or in part."""
        ids, spans = self.encode_with_spans(text)
        words, index = group_words(text, spans)
        unknown_words = {at for token, at in zip(ids, index, strict=True) if self.is_unknown(token)}
        return [(word, i in unknown_words) for i, word in enumerate(words)]

    def stream_decoder(self) -> StreamDecoder:
        """Return a `StreamDecoder`, which decodes ids one by one as they are generated."""
        silent = frozenset(self._special)
        if self.joins_words:
            suffixes = [i for i, piece in enumerate(self._pieces) if piece.startswith(CONTINUES)]
            continuing = frozenset(suffixes if self._kind == "wordpiece" else ())
            return StreamDecoder(self.decode, silent, continuing=continuing, quote=self.id_of("'"))
        byte_tokens = [token for token, piece in enumerate(self._pieces) if piece in FALLBACK]
        joined = frozenset(byte_tokens if self._kind == "fallback" else ())
        return StreamDecoder(self.decode, silent, joined, clean=self.cleans)

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes that an id adds to the text, with the space before a word.

        A special symbol adds none.
        """
        return b"" if token in self._special else self._bytes_of(token)

    def symbol(self, token: int) -> str:
        """Return the piece of an id, as written in `tokenizer.json`."""
        return self._pieces[token]

    def id_of(self, symbol: str) -> int | None:
        """Return the id of a piece, or None: the inverse of `symbol`."""
        ids = map(self._inner.token_to_id, (HIDDEN + symbol, symbol))
        return next((token for token in ids if token is not None and token < self.vocab), None)

    def library_json(self) -> str:
        """Return the text of a `tokenizer.json` that Hugging Face can read."""
        return self._with_specials.to_str() if self.learned_from_pairs else self._json

    def to_json(self) -> str:
        """Return the whole tokenizer as JSON, as a Regard checkpoint keeps it."""
        if self.learned_from_pairs:
            return self.library_json()
        roles = {role: value for role, value in asdict(self.specials).items() if value != ()}
        settings = {"roles": roles, "clean": self.cleans, "vocab": self.vocab}
        settings |= {"sentences": True} if self._sentences else {}
        return f'{{"foreign":{self._json},{json.dumps(settings)[1:]}'

    @staticmethod
    def from_json(text: str) -> Tokenizer:
        """Build a tokenizer from the result of `to_json`.

        Raises:
            InputError: If the text is damaged, or is not a tokenizer of a checkpoint.
        """
        return Tokenizer.from_spec(parse(text))

    @classmethod
    def from_spec(cls, spec: object) -> Tokenizer:
        """Build a tokenizer from the parsed result of `to_json`.

        Raises:
            InputError: If it is damaged, or is not a tokenizer of a checkpoint.
        """
        if not isinstance(spec, dict) or "foreign" not in spec:
            return Tokenizer(check_learned(spec), LEARNED, sentences=True)
        inner = spec["foreign"]
        if not isinstance(inner, dict):
            raise file_error("tokenizer.json", f"foreign: {type(inner).__name__}")
        settings = {key: value for key, value in spec.items() if key != "foreign"}
        saved = checked_values(TypeAdapter(_Saved), settings, "tokenizer.json")
        inner = check_learned(inner) if saved.sentences else inner
        return Tokenizer(
            inner, saved.roles, clean=saved.clean, sentences=saved.sentences, vocab=saved.vocab
        )

    @cached_property
    def _with_specials(self) -> Inner:
        """The library's tokenizer without our changes: symbols in a text count as symbols."""
        return Inner.from_str(self._json)

    def _encode(self, text: str) -> Any:
        """Encode a text with the library: ids and offsets, without symbols around it."""
        with self._guarded:
            return self._inner.encode(self._check_text(text), add_special_tokens=False)

    def _check_text(self, text: str) -> str:
        """Check a text, and remove `HIDDEN` from it, so that it cannot spell a special symbol."""
        if self.learned_from_pairs:  # punctuation is split off there: no piece can spell a symbol
            return check_text(text)
        return check_text(text).replace(HIDDEN, "\N{REPLACEMENT CHARACTER}")

    def _limit_ids(self, ids: list[int]) -> list[int]:
        """Replace ids that the model does not know by that of the unknown symbol."""
        if self.vocab >= len(self._pieces):
            return ids
        return [token if token < self.vocab else self.unknown for token in ids]

    def _bytes_of(self, token: int) -> bytes:
        """The bytes that an id adds to the text; those of its name for a special symbol."""
        # a model's output may have more ids than the tokenizer, and a generated id may be one
        return self._bytes[token] if token < len(self._bytes) else b""

    def _printable_token(self, token: int) -> str:
        """The printable piece of an id; `<id>` for one without a piece."""
        if token >= len(self._pieces):
            return f"<{token}>"
        if self._kind in ("words", "wordpiece") or token in self._special:
            return self._pieces[token]
        return printable_piece(self._bytes[token])

    def _is_blank(self, token: int) -> bool:
        """Whether a piece adds only spaces to the text."""
        return token not in self._special and not self._bytes_of(token).strip()

    def _trim_span(self, text: str, token: int, start: int, end: int) -> Span:
        """Return the span of a piece without surrounding spaces."""
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        # the space that some tokenizers add before the first word is not in the text
        return start, start if self._is_blank(token) else end

    def _first_id(self, role: str, *candidates: int | None) -> int:
        """The first candidate that is not None; an error that names the role if there is none."""
        for token in candidates:
            if token is not None:
                return token
        what = f"{self._file}: the {role} symbol"
        raise InputError(what, got="none", expected="one: the model needs it here")

    def _check_ids(self) -> None:
        """Check that the number of ids and the ids of all roles fit the pieces."""
        if not 0 < self.vocab <= len(self._pieces):
            raise file_error(self._file, f"{len(self._pieces)} pieces for {self.vocab} ids")
        roles = asdict(self.specials)
        roles.pop("start")  # from the model's config: it may be an id without a piece
        banned = [("banned", token) for token in roles.pop("banned")]
        for role, token in [*roles.items(), *banned]:
            if token is not None and not 0 <= token < self.vocab:
                raise file_error(self._file, f"the id {token} for {role}, of {self.vocab}")


class _Saved(Config):
    """What a checkpoint keeps beside the `tokenizer.json` of others."""

    roles: Roles
    clean: bool = False
    vocab: int | None = None
    sentences: bool = False
