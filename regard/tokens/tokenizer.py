"""Text <-> ids, and ids -> the words a person sees.

In: sentences. Out: ids without begin and end symbols; and back. One `Tokenizer` serves one side,
a `Vocabulary` both; `learn` makes one from the training split, and a checkpoint keeps its JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenizers import Tokenizer as Inner

from regard.data.pair import Pair
from regard.errors import InputError
from regard.tokens.config import TokensConfig
from regard.tokens.foreign import Foreign, Roles
from regard.tokens.kinds import (
    BEGIN,
    CONTINUES,
    END,
    PAD,
    SPECIAL,
    UNKNOWN,
    train,
)
from regard.tokens.listing import Token, tokens_of
from regard.tokens.saved import parse, read
from regard.tokens.spacing import join_words
from regard.tokens.spec import damaged
from regard.tokens.spelling import (
    WRITTEN,
    Span,
    checked,
    covers,
    group,
    lost_words,
    printable,
    words_of,
)
from regard.tokens.writer import Writer

_SPECIAL = dict(enumerate(SPECIAL))
KEPT = ("vocab.json", "target_vocab.json", "source.spm", "target.spm", "tokenizer_config.json",
        "special_tokens_map.json", "added_tokens.json")  # fmt: skip
"""The files of a folder with a tokenizer for each side: no `tokenizer.json` holds two."""
_CHUNK = 10_000
"""Sentences encoded at once: enough for all cores, few enough to hold."""


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
            chunk = [checked(text) for text in texts[start : start + _CHUNK]]
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
        _, index = group(text, encoding.offsets)
        return list(zip(self.tokens(encoding.ids), index, strict=True))

    def located(self, text: str) -> tuple[list[int], list[Span]]:
        """The ids of a text, and the characters of it that each stands for, spaces included."""
        encoding = self._encode(text)
        blank = [self._is_blank(token) for token in encoding.ids]
        return encoding.ids, covers(text, encoding.offsets, blank)

    def is_special(self, token: int) -> bool:
        """Whether an id is a symbol and no text."""
        return token < len(SPECIAL)

    def is_unknown(self, token: int) -> bool:
        """Whether an id stands for what the vocabulary cannot spell."""
        return token == UNKNOWN

    def words(self, ids: Sequence[int]) -> tuple[list[str], list[int]]:
        """The words that ids spell, and for each id the number of its word.

        It needs no text, so it serves generated ids too. Each special symbol is a word of its own.
        """
        return words_of(ids, _SPECIAL, self._written.__getitem__)

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text that become `<unk>`, whole or in part: each once, in order."""
        return list(dict.fromkeys(word for word, lost in self.reading(text) if lost))

    def reading(self, text: str) -> list[tuple[str, bool]]:
        """The words of a text, each with whether it becomes `<unk>`, whole or in part."""
        encoding = self._encode(text)
        return lost_words(text, encoding.ids, encoding.offsets, UNKNOWN)

    def writer(self) -> Writer:
        """What turns ids that come one by one into text."""
        silent = frozenset(range(len(SPECIAL)))
        if self._kind not in ("words", "wordpiece"):
            return Writer(self.decode, silent)
        more = [token for token, piece in enumerate(self._pieces) if piece.startswith(CONTINUES)]
        return Writer(
            self.decode,
            silent,
            more=frozenset(more if self._kind == "wordpiece" else ()),
            quote=self._inner.token_to_id("'"),
        )

    @property
    def holds_words(self) -> bool:
        """Whether its entries are whole words, so that nothing is left of an unknown one."""
        return self._kind == "words"

    @property
    def specials(self) -> Roles:
        """The ids of the symbols that have a role."""
        return Roles(BEGIN, END, PAD, UNKNOWN, start=BEGIN)

    def template(self, ids: Sequence[int]) -> list[int]:
        """The ids of a source as the model reads them: nothing stands around them."""
        return list(ids)

    def symbol(self, token: int) -> str:
        """The piece of an id, as `tokenizer.json` has it."""
        return self._pieces[token]

    def library_json(self) -> str:
        """The text of the `tokenizer.json` that Hugging Face reads."""
        return self._inner.to_str()

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
        return self._inner.encode(checked(text), add_special_tokens=False)

    def _is_blank(self, token: int) -> bool:
        return token >= len(SPECIAL) and not self._written[token].strip()

    def _printable(self, token: int) -> str:
        if self._kind in ("words", "wordpiece") or token < len(SPECIAL):
            return self._pieces[token]
        return printable(self._written[token])


@dataclass(frozen=True)
class Vocabulary:
    """The tokenizers of both sides; with a shared vocabulary they are one."""

    source: Tokenizer | Foreign
    target: Tokenizer | Foreign
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Of two that came from a folder: its files, among `KEPT`, as they were."""

    @property
    def shared(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.source is self.target

    def tokens(self, text: str, *, target: bool = False) -> list[Token]:
        """The tokens of a text, one by one: symbol, id and place in the text.

        Args:
            text: Any text.
            target: Whether to read it as the other side, which a translator writes.
        """
        return tokens_of(self.target if target else self.source, text, target=target)

    def to_json(self) -> str:
        """Both as one text: shared, that of the one; else `{"source": …, "target": …}`."""
        if self.shared:
            return self.source.to_json()
        packed = {name: base64.b64encode(data).decode() for name, data in self.files.items()}
        files = f',"files":{json.dumps(packed)}' if packed else ""
        return f'{{"source":{self.source.to_json()},"target":{self.target.to_json()}{files}}}'

    @staticmethod
    def from_json(text: str) -> Vocabulary:
        """Undo `to_json`.

        Raises:
            InputError: If the text is damaged, or is neither a tokenizer that `learn` makes nor
                one that `read_folder` read.
        """
        spec = parse(text)
        if "source" in spec or "target" in spec:
            sides = _side(spec.get("source")), _side(spec.get("target"))
            return Vocabulary(*sides, _unpacked(spec.get("files", {})))
        both = _side(spec)
        return Vocabulary(both, both)


def only_foreign(vocabulary: Vocabulary) -> Foreign:
    """The one tokenizer of a model of one stack, which has symbols with roles and a template."""
    if not isinstance(vocabulary.source, Foreign):
        raise InputError(
            "the tokenizer", got="one that pairs were learned with", expected="one for plain text"
        )
    return vocabulary.source


def _side(spec: object) -> Tokenizer | Foreign:
    if isinstance(spec, dict) and "foreign" in spec:
        return Foreign.from_spec(spec)
    return Tokenizer(*read(spec))


def _unpacked(files: object) -> dict[str, bytes]:
    """The kept files of a folder from their text; no other name is ever written."""
    if not isinstance(files, dict) or not files.keys() <= set(KEPT):
        raise damaged("tokenizer.json", "files that no tokenizer has")
    try:
        return {name: base64.b64decode(text, validate=True) for name, text in files.items()}
    except (TypeError, ValueError):
        raise damaged("tokenizer.json", "files that are no base64") from None


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
        inner = train([checked(text) for text in texts], config)
        return Tokenizer(inner, "bpe" if config.kind == "bytes" else config.kind)

    source, target = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if config.shared:
        both = one(source + target)
        return Vocabulary(both, both)
    return Vocabulary(one(source), one(target))
