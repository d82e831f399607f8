"""Text <-> ids, and ids -> the words a person sees.

In: a parsed `tokenizer.json`, learned here or somebody else's, and which of its symbols has which
role. Out: a `Tokenizer`, for one side of a model. It encodes and decodes as the `tokenizers`
library does, with one difference: a special symbol in a text that a person typed is text.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer as Inner

from regard.errors import InputError
from regard.tokens.kinds import BEGIN, CONTINUES, END, PAD, UNKNOWN
from regard.tokens.saved import check_learned, parse
from regard.tokens.spacing import join_words
from regard.tokens.spec import (
    HIDDEN,
    Spec,
    build,
    damaged,
    guarded,
    kind_of,
    pieces_of,
    special_symbols,
)
from regard.tokens.spelling import (
    FALLBACK,
    WRITTEN,
    Span,
    checked,
    covers,
    group,
    lost_words,
    printable,
    words_of,
)
from regard.tokens.template import read_template
from regard.tokens.writer import CLEANED, Writer

_CHUNK = 10_000
"""Texts encoded at once: enough for all cores, few enough to hold."""


@dataclass(frozen=True)
class Roles:
    """The ids of the symbols that have a role; None where there is none."""

    begin: int | None = None
    end: int | None = None
    pad: int | None = None
    unknown: int | None = None
    classifier: int | None = None
    separator: int | None = None
    mask: int | None = None
    start: int | None = None
    """What a decoder is fed first; the model's configuration says it, not the tokenizer's."""
    banned: tuple[int, ...] = ()
    """What a translator never writes; for most models their generation settings say it."""


LEARNED = Roles(BEGIN, END, PAD, UNKNOWN, start=BEGIN, banned=(PAD, BEGIN, UNKNOWN))
"""Those of every vocabulary that is learned from pairs."""


class Tokenizer:
    """Turns the text of one side into ids and back.

    Args:
        spec: A parsed `tokenizer.json`; its post-processor says what stands around a text.
        roles: Which of its symbols has which role.
        file: What to call it in errors.
        clean: Whether decoding takes spaces before punctuation away.
        sentences: Whether words and parts of words are decoded as a sentence, with spaces where a
            person writes them; else as the file itself says.
        vocab: The ids that a model knows, if fewer: those beyond become the unknown symbol.
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
        self._file, self._clean, self._roles, self._sentences = file, clean, roles, sentences
        self._guarded = guarded(file)
        self._template = read_template(spec.get("post_processor"), file)
        self._special = special_symbols(spec, file)
        self._inner = build(spec, file)
        self._inner.post_processor = None  # the template is ours; some would trim offsets
        self._pieces = pieces_of(self._inner, spec, file)
        self._vocab = len(self._pieces) if vocab is None else vocab
        self._kind = kind_of(spec)
        self._whole = self._kind == "words" and spec["model"].get("type") == "WordLevel"
        self._joins = sentences and self._kind in ("words", "wordpiece")
        self._written = [WRITTEN[self._kind](piece) if piece else b"" for piece in self._pieces]
        self._json = json.dumps(spec, separators=(",", ":"))
        self._check_ids()
        settings = roles, clean, sentences, self._vocab, spec.get("post_processor")
        self._of_pairs = settings == (LEARNED, False, True, len(self._pieces), None)

    @property
    def vocab(self) -> int:
        """The number of ids, special symbols and gaps included."""
        return self._vocab

    @property
    def specials(self) -> Roles:
        """The ids of the symbols that have a role."""
        return self._roles

    @property
    def pad(self) -> int:
        """What fills rows; nothing looks at it, so any id serves a vocabulary without one."""
        found = (self._roles.pad, self._roles.end, 0)
        return next(token for token in found if token is not None)

    @property
    def begin(self) -> int:
        """What generation starts from: the decoder's start symbol, else the begin of a text."""
        roles = self._roles
        return self._first("begin", roles.start, roles.begin, roles.classifier)

    @property
    def end(self) -> int:
        """What ends a text."""
        return self._first("end", self._roles.end, self._roles.separator)

    @property
    def unknown(self) -> int:
        """What stands for what the vocabulary cannot spell."""
        return self._first("unknown", self._roles.unknown)

    @property
    def holds_words(self) -> bool:
        """Whether its entries are whole words, so that nothing is left of an unknown one."""
        return self._whole

    @property
    def spells_all(self) -> bool:
        """Whether it has every byte, so that nothing is unknown."""
        return self._kind in ("bpe", "fallback")

    @property
    def of_pairs(self) -> bool:
        """Whether it is as pairs are learned with: its `tokenizer.json` then says all of it."""
        return self._of_pairs

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without anything around them."""
        return self._known(self._encode(text).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, on all cores."""
        rows: list[list[int]] = []
        for start in range(0, len(texts), _CHUNK):
            chunk = [self._typed(text) for text in texts[start : start + _CHUNK]]
            with self._guarded:
                encodings = self._inner.encode_batch_fast(chunk, add_special_tokens=False)
            rows.extend(self._known(encoding.ids) for encoding in encodings)
        return rows

    def encode_with_specials(self, text: str) -> list[int]:
        """The ids of a text in which symbols such as `[MASK]` or `<extra_id_0>` are meant."""
        with self._guarded:
            encoding = self._outspoken.encode(checked(text), add_special_tokens=False)
        return self._known(encoding.ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special symbols are left out."""
        if self._joins:
            return join_words(self.words([each for each in ids if each not in self._special])[0])
        with self._guarded:
            text: str = self._inner.decode(list(ids), skip_special_tokens=True)
        if self._clean:
            for pattern, written in CLEANED.items():
                text = text.replace(pattern, written)
        return text

    def template(self, ids: Sequence[int], pair: Sequence[int] | None = None) -> list[int]:
        """The ids of a text, or of two, with what a model of this kind wants around them."""
        return self._template.fill(ids, pair)[0]

    def token_types(self, ids: Sequence[int], pair: Sequence[int] | None = None) -> list[int]:
        """For each id of `template(ids, pair)`, 0 or 1: which of the two segments it is in."""
        return self._template.fill(ids, pair)[1]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        r"""One printable piece for each id: spaces as `▁`, half characters as `\xc3`."""
        return [self._printable(token) for token in ids]

    def pieces(self, text: str) -> list[tuple[str, int]]:
        """The printable pieces of a text, each with the number of the word it belongs to.

        A space belongs to the word after it.

        Example:
            With pieces "Stra", "ße" and ".", "Straße." is [("Stra", 0), ("ße", 0), (".", 1)].
        """
        ids, spans = self.located(text)
        return list(zip(self.tokens(ids), group(text, spans)[1], strict=True))

    def located(self, text: str) -> tuple[list[int], list[Span]]:
        """The ids of a text, and the characters of it that each stands for, spaces included."""
        encoding = self._encode(text)
        blank = [self._is_blank(token) for token in encoding.ids]
        return self._known(encoding.ids), covers(text, encoding.offsets, blank)

    def spans(self, text: str) -> tuple[list[int], list[Span]]:
        """The ids of a text, and the characters of it that each covers, without spaces around.

        Each piece of a character covers all of it; a mere space covers nothing.
        """
        encoding = self._encode(text)
        nexts = [*(start for start, _ in encoding.offsets), len(text)][1:]
        spans = [
            self._trimmed(text, token, span, after)
            for token, span, after in zip(encoding.ids, encoding.offsets, nexts, strict=False)
        ]
        return self._known(encoding.ids), spans

    def is_special(self, token: int) -> bool:
        """Whether an id is a symbol and no text."""
        return token in self._special or self.is_unknown(token)

    def is_unknown(self, token: int) -> bool:
        """Whether an id stands for what the vocabulary cannot spell."""
        return token == self._roles.unknown

    def words(self, ids: Sequence[int]) -> tuple[list[str], list[int]]:
        """The words that ids spell, and for each id the number of its word.

        It needs no text, so it serves generated ids too. Each special symbol is a word of its own.
        """
        return words_of(ids, self._special, self._bytes_of)

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text that the vocabulary cannot spell: each once, in order."""
        return list(dict.fromkeys(word for word, lost in self.reading(text) if lost))

    def reading(self, text: str) -> list[tuple[str, bool]]:
        """The words of a text, each with whether it cannot be spelled, whole or in part."""
        return lost_words(text, *self.located(text), self._roles.unknown)

    def writer(self) -> Writer:
        """What turns ids that come one by one into text."""
        silent = frozenset(self._special)
        if self._joins:
            parts = [each for each, piece in enumerate(self._pieces) if piece.startswith(CONTINUES)]
            more = frozenset(parts if self._kind == "wordpiece" else ())
            return Writer(self.decode, silent, more=more, quote=self.id_of("'"))
        alone = [token for token, piece in enumerate(self._pieces) if piece in FALLBACK]
        joined = frozenset(alone if self._kind == "fallback" else ())
        return Writer(self.decode, silent, joined, clean=self._clean)

    def bytes_of(self, token: int) -> bytes:
        """What an id adds to the text, the space before a word included; of a symbol nothing."""
        return b"" if token in self._special else self._bytes_of(token)

    def symbol(self, token: int) -> str:
        """The piece of an id, as `tokenizer.json` has it."""
        return self._pieces[token]

    def id_of(self, symbol: str) -> int | None:
        """Undo `symbol`: the id of a piece, or None."""
        ids = map(self._inner.token_to_id, (HIDDEN + symbol, symbol))
        return next((each for each in ids if each is not None and each < self._vocab), None)

    def library_json(self) -> str:
        """The text of the `tokenizer.json` that Hugging Face reads."""
        return self._outspoken.to_str() if self.of_pairs else self._json

    def to_json(self) -> str:
        """All of it, as a Regard checkpoint keeps it."""
        if self.of_pairs:
            return self.library_json()
        roles = {role: each for role, each in asdict(self._roles).items() if each != ()}
        rest = {"roles": roles, "clean": self._clean, "vocab": self._vocab}
        rest |= {"sentences": True} if self._sentences else {}
        return f'{{"foreign":{self._json},{json.dumps(rest)[1:]}'

    @staticmethod
    def from_json(text: str) -> Tokenizer:
        """Undo `to_json`.

        Raises:
            InputError: If the text is damaged, or is a tokenizer that no checkpoint keeps.
        """
        return Tokenizer.from_spec(parse(text))

    @staticmethod
    def from_spec(spec: object) -> Tokenizer:
        """Undo `to_json`, once it is parsed.

        Raises:
            InputError: If it is damaged, or is a tokenizer that no checkpoint keeps.
        """
        if not isinstance(spec, dict) or "foreign" not in spec:
            return Tokenizer(check_learned(spec), LEARNED, sentences=True)
        inner, vocab = spec["foreign"], spec.get("vocab")
        clean, sentences = spec.get("clean") is True, spec.get("sentences") is True
        if not isinstance(inner, dict):
            raise damaged("tokenizer.json", f"foreign: {type(inner).__name__}")
        if not (vocab is None or type(vocab) is int):
            raise damaged("tokenizer.json", "ids that are no whole numbers")
        inner = check_learned(inner) if sentences else inner
        roles = _read_roles(spec.get("roles"))
        return Tokenizer(inner, roles, clean=clean, sentences=sentences, vocab=vocab)

    @cached_property
    def _outspoken(self) -> Inner:
        """The library's tokenizer as its maker meant it: symbols in a text are symbols."""
        return Inner.from_str(self._json)

    def _encode(self, text: str) -> Any:
        with self._guarded:
            return self._inner.encode(self._typed(text), add_special_tokens=False)

    def _typed(self, text: str) -> str:
        """A text that a person typed: none of its characters can be mistaken for a symbol's."""
        if self._of_pairs:  # marks stand apart there: no piece can spell a symbol
            return checked(text)
        return checked(text).replace(HIDDEN, "\N{REPLACEMENT CHARACTER}")

    def _known(self, ids: list[int]) -> list[int]:
        if self._vocab >= len(self._pieces):
            return ids
        return [token if token < self._vocab else self.unknown for token in ids]

    def _bytes_of(self, token: int) -> bytes:
        # a model may have more rows than its tokenizer has ids, and generate one of them
        return self._written[token] if token < len(self._written) else b""

    def _printable(self, token: int) -> str:
        if token >= len(self._pieces):
            return f"<{token}>"
        if self._kind in ("words", "wordpiece") or token in self._special:
            return self._pieces[token]
        return printable(self._written[token])

    def _is_blank(self, token: int) -> bool:
        """Whether a piece writes nothing but spaces."""
        return token not in self._special and not self._bytes_of(token).strip()

    def _trimmed(self, text: str, token: int, span: Span, after: int) -> Span:
        """What a piece covers of a text, by the library's account of it and the next piece's."""
        start, end = span
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        if self._is_blank(token):
            # a space that stands before the first word in the tokenizer's eyes only
            return start, start
        while start < end < after and unicodedata.combining(text[end]):
            end += 1  # an accent that was stripped still belongs to its letter
        return start, end

    def _first(self, role: str, *found: int | None) -> int:
        for token in found:
            if token is not None:
                return token
        raise InputError(
            f"{self._file}: the {role} symbol",
            got="none",
            expected="one, for what is asked of this model",
        )

    def _check_ids(self) -> None:
        if not 0 < self._vocab <= len(self._pieces):
            raise damaged(self._file, f"{len(self._pieces)} pieces for {self._vocab} ids")
        roles = asdict(self._roles)
        roles.pop("start")  # the model's own affair: it may be a row that has no piece
        banned = [("banned", token) for token in roles.pop("banned")]
        for role, token in [*roles.items(), *banned]:
            if token is not None and not 0 <= token < self._vocab:
                raise damaged(self._file, f"the id {token} for {role}, of {self._vocab}")


def _read_roles(stated: object) -> Roles:
    if not isinstance(stated, dict) or not stated.keys() <= {each.name for each in fields(Roles)}:
        raise damaged("tokenizer.json", "roles that are not known")
    roles = dict(stated)
    banned = roles.pop("banned", [])
    single = all(token is None or type(token) is int for token in roles.values())
    if not single or not isinstance(banned, list) or not all(type(each) is int for each in banned):
        raise damaged("tokenizer.json", "ids that are no whole numbers")
    return Roles(**roles, banned=tuple(banned))
