"""A text -> a list of its tokens: the piece, id and span of characters of each.

In: a tokenizer and a text, or ids. Out: `Token`s, what the tokenizer lost of the text (unknown
words, case, accents, forms of letters, spaces), and tables of these to print.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import accumulate, combinations, zip_longest
from typing import TYPE_CHECKING, Any

from regard.errors import InputError, escaped
from regard.inputs.text.kinds import CONTINUES, SPACE
from regard.inputs.text.spelling import Span
from regard.runtime.units import aligned

if TYPE_CHECKING:
    from regard.inputs.text.tokenizer import Tokenizer

_TEXT_PLACE = -1
"""Placeholder id of the text in a template; no symbol has this id."""
LONGEST_ID = 9
"""The most digits of an id; no vocabulary is that large."""


@dataclass(frozen=True)
class Token:
    r"""One token of a text.

    Attributes:
        token: The piece in printable characters: spaces as `▁`, partial characters as `\xc3`.
        id: Its id in the vocabulary.
        start: The token stands for `text[start:end]`, which is empty for symbols around the text.
        end: See `start`.
        special: Whether it is a special symbol such as `</s>` or `[MASK]`, or the unknown symbol.
    """

    token: str
    id: int
    start: int
    end: int
    special: bool


@dataclass(frozen=True)
class Tokenization:
    """A text, its tokens, and what the tokenizer lost of it.

    Attributes:
        text: The text before tokenizing.
        tokens: The model's input, including the symbols around the text.
        decoded: The text decoded from the ids.
        unknown: The words that the vocabulary cannot represent.
        lost: Other differences of `decoded`: spaces, case, accents, forms or characters.
    """

    text: str
    tokens: tuple[Token, ...]
    decoded: str
    unknown: tuple[str, ...]
    lost: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return all fields as a dict."""
        return asdict(self)


def tokens_of(tokenizer: Tokenizer, text: str, *, target: bool = False) -> list[Token]:
    """Tokenize a text, with the symbols that the model needs around it.

    Args:
        tokenizer: The tokenizer of one side.
        text: Any text.
        target: Whether the text is for a decoder, with begin and end symbols around it instead of
            the tokenizer's template.
    """
    ids, spans = tokenizer.encode_with_spans(text)
    around = _around_target(tokenizer) if target else tokenizer.template([_TEXT_PLACE])
    tokens: list[Token] = []
    position = 0
    for symbol in around:
        if symbol != _TEXT_PLACE:
            [piece] = tokenizer.tokens([symbol])
            tokens.append(Token(piece, symbol, position, position, special=True))
            continue
        for piece, token, (start, end) in zip(tokenizer.tokens(ids), ids, spans, strict=True):
            special = tokenizer.is_special(token)
            tokens.append(Token(piece, token, start, end, special))
        position = len(text)
    return tokens


def tokenize(tokenizer: Tokenizer, text: str, *, target: bool = False) -> Tokenization:
    """Tokenize a text, and find out what the tokenizer lost of it.

    Args:
        tokenizer: The tokenizer of one side.
        text: Any text.
        target: Whether the text is for a decoder, as in `tokens_of`.
    """
    ids, spans = tokenizer.encode_with_spans(text)
    unknown = tuple(tokenizer.unknown_words(text))
    decoded = tokenizer.decode(ids)
    known_text, known_output = text, decoded
    if unknown:
        pairs = zip(ids, spans, strict=True)
        unknown_spans = [span for token, span in pairs if tokenizer.is_unknown(token)]
        known_text = _remove_spans(text, unknown_spans)
        known_output = tokenizer.decode([token for token in ids if not tokenizer.is_unknown(token)])
    lost = _lost_features(known_text, known_output)
    if unknown:  # without the unknown words, spaces differ anyway
        lost = tuple(change for change in lost if change != "spaces")
    tokens = tuple(tokens_of(tokenizer, text, target=target))
    return Tokenization(text, tokens, decoded, unknown, lost)


def read_ids(tokenizer: Tokenizer, line: str) -> list[int]:
    """Parse a line of ids, separated by spaces or commas.

    Raises:
        InputError: If one is not an integer, or not in the vocabulary.
    """
    ids = []
    for word in line.replace(",", " ").split():
        is_number = word.isascii() and word.isdecimal() and len(word) <= LONGEST_ID
        if not is_number or int(word) >= tokenizer.vocab:
            raise InputError("an id", got=word, expected=f"0 to {tokenizer.vocab - 1}")
        ids.append(int(word))
    return ids


def table(tokenized: Tokenization) -> str:
    """Format tokens as aligned lines of token, id, span and a note; then what was lost."""
    rows = [_token_row(tokenized.text, token) for token in tokenized.tokens]
    lines = aligned([("token", "id", "characters", ""), *rows])
    return "\n".join([*lines, *_loss_lines(tokenized)])


def id_table(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Format ids as aligned lines of token, id, and whether it is a special symbol."""
    marks = ("special" if tokenizer.is_special(token) else "" for token in ids)
    rows = zip(map(escaped, tokenizer.tokens(ids)), map(str, ids), marks, strict=True)
    return "\n".join(aligned([("token", "id", ""), *rows]))


def side_by_side(names: Sequence[str], results: Sequence[Tokenization]) -> str:
    """Format the tokens of several tokenizers in columns, aligned where tokens begin together."""
    edges = _common_edges(results)
    rows = [tuple(cell for name in names for cell in (name, "id"))]
    buckets = [_buckets(result, edges) for result in results]
    for group in zip(*buckets, strict=True):
        for line in zip_longest(*group):
            cells = (("", "") if token is None else _token_cells(token) for token in line)
            rows.append(tuple(cell for pair in cells for cell in pair))
    counts = (f"{len(result.tokens)} tokens" for result in results)
    rows.append(tuple(cell for count in counts for cell in (count, "")))
    losses = [f"{name} {line}" for name, result in zip(names, results, strict=True)
              for line in _loss_lines(result)]  # fmt: skip
    return "\n".join([*aligned(rows), *losses])


def _around_target(tokenizer: Tokenizer) -> list[int]:
    """Return the template of a decoder's text: the begin symbol, the text, the end symbol."""
    around = [_TEXT_PLACE]
    with suppress(InputError):  # a vocabulary may have no begin or end symbol
        around = [*around, tokenizer.end]
    with suppress(InputError):
        around = [tokenizer.begin, *around]
    return around


def _token_row(text: str, token: Token) -> tuple[str, str, str, str]:
    return (*_token_cells(token), f"{token.start}-{token.end}", _token_note(text, token))


def _token_cells(token: Token) -> tuple[str, str]:
    return escaped(token.token), str(token.id)


def _token_note(text: str, token: Token) -> str:
    """Say whether a token is a symbol, and which text it stands for if it is spelled otherwise."""
    source_text = text[token.start : token.end].strip()
    if token.special:  # of these, only the unknown symbol stands for text
        return f"unknown: {escaped(source_text)}" if source_text else "special"
    spellings = token.token.replace(SPACE, " ").strip(), token.token.removeprefix(CONTINUES)
    return "" if source_text in ("", token.token, *spellings) else f"for {escaped(source_text)}"


def _loss_lines(tokenized: Tokenization) -> list[str]:
    """Return a line that says what was lost; no line if nothing was."""
    parts = [", ".join(tokenized.lost)] if tokenized.lost else []
    if tokenized.unknown:
        parts.append(f"unknown words ({escaped(', '.join(tokenized.unknown))})")
    if not parts:
        return []
    return [f"lost: {', '.join(parts)}; decoded: {escaped(tokenized.decoded)}"]


def _remove_spans(text: str, spans: Sequence[Span]) -> str:
    """Remove spans of characters from a text."""
    lost = {i for start, end in spans for i in range(start, end)}
    return "".join(letter for i, letter in enumerate(text) if i not in lost)


def _remove_accents(text: str) -> str:
    """Replace letters with accents by those without."""
    letters = unicodedata.normalize("NFD", text)
    base_letters = (letter for letter in letters if not unicodedata.combining(letter))
    return unicodedata.normalize("NFC", "".join(base_letters))


_REMOVE: dict[str, Callable[[str], str]] = {
    "forms": lambda text: unicodedata.normalize("NFKC", text),
    "accents": _remove_accents,
    "case": str.casefold,
    "spaces": lambda text: "".join(text.split()),
}
"""Differences that a tokenizer may remove, each with a function that removes it, in the order in
which they are applied."""


def _lost_features(text: str, decoded: str) -> tuple[str, ...]:
    """Find the fewest of `_REMOVE` that make two texts equal; `characters` if none do."""
    for count in range(len(_REMOVE) + 1):
        for names in combinations(_REMOVE, count):
            changed, changed_decoded = text, decoded
            for name in names:
                changed, changed_decoded = _REMOVE[name](changed), _REMOVE[name](changed_decoded)
            if changed == changed_decoded:
                return names
    return ("characters",)


def _token_starts(tokenized: Tokenization) -> list[int]:
    """Return the start of each token without leading spaces, which tokenizers treat differently."""
    starts = []
    for token in tokenized.tokens:
        source_text = tokenized.text[token.start : token.end]
        spaces = len(source_text) - len(source_text.lstrip())
        starts.append(token.start + (spaces if source_text.strip() else 0))
    return list(accumulate(starts, max))


def _common_edges(results: Sequence[Tokenization]) -> list[int]:
    """Find the positions at which a token of every tokenizer begins and none continues."""
    edges = []
    for result in results:
        starts = _token_starts(result)
        ends = [0, *accumulate((token.end for token in result.tokens), max)]
        edges.append({start for start, end in zip(starts, ends, strict=False) if end <= start})
    return sorted(set.intersection(*edges))


def _buckets(tokenized: Tokenization, edges: Sequence[int]) -> list[list[Token]]:
    """Group tokens by the last edge at or before their start; the first group is before all edges.

    Returns:
        One list of tokens more than there are edges.
    """
    buckets: list[list[Token]] = [[] for _ in range(len(edges) + 1)]
    for token, start in zip(tokenized.tokens, _token_starts(tokenized), strict=True):
        buckets[bisect_right(edges, start)].append(token)
    return buckets
