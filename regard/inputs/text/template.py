"""The post-processor of a `tokenizer.json` -> the symbols that a model needs around a text.

In: the post-processor's JSON. Out: a `Template`, which makes `[CLS] a [SEP] b [SEP]`,
`<s> a </s></s> b </s>`, `a </s>`, `<s> a` or just `a` from the ids of one text or a pair of texts,
and gives each id its segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from regard.errors import InputError

MOST_PARTS = 64
"""The most parts of a template: each part may be a copy of the whole text."""


@dataclass(frozen=True)
class Part:
    """One part of a template: a text (`text` is 0 or 1), or the id of a symbol (`text` is None)."""

    text: int | None
    symbol: int
    segment: int


@dataclass(frozen=True)
class Template:
    """The templates for one text and for a pair of texts."""

    single: tuple[Part, ...] = (Part(0, 0, 0),)
    pair: tuple[Part, ...] = (Part(0, 0, 0), Part(1, 0, 1))

    def fill(
        self, ids: Sequence[int], pair: Sequence[int] | None = None
    ) -> tuple[list[int], list[int]]:
        """Return the ids with the symbols around them, and the segment of each."""
        texts = [ids] if pair is None else [ids, pair]
        filled: list[int] = []
        segments: list[int] = []
        for part in self.single if pair is None else self.pair:
            added = [part.symbol] if part.text is None else texts[part.text]
            filled.extend(added)
            segments.extend([part.segment] * len(added))
        return filled, segments


def read_template(processor: object, file: str) -> Template:
    """Convert a post-processor into a template.

    Args:
        processor: The parsed JSON of the post-processor; None if there is none.
        file: Name of the file in errors.

    Raises:
        InputError: If it is damaged, or cannot be expressed as a template.
    """
    try:
        steps = _symbol_steps(processor)
        if not steps:
            return Template()
        if len(steps) > 1:
            raise _template_error(file, "several templates, one after the other")
        return _build_template(steps[0], file)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, RecursionError) as problem:
        raise _template_error(file, f"one that is damaged ({problem!r})") from None


def _build_template(step: Any, file: str) -> Template:
    """Build the template of a post-processor that is a single step."""
    match step["type"]:
        case "TemplateProcessing":
            symbols = step["special_tokens"]
            single, pair = (
                tuple(islice(_read_parts(step[name], symbols), MOST_PARTS + 1))
                for name in ("single", "pair")
            )
            if max(len(single), len(pair)) > MOST_PARTS:
                raise _template_error(file, f"one of more than {MOST_PARTS} parts")
            return Template(single, pair)
        case "BertProcessing":
            return _bert_template(int(step["cls"][1]), int(step["sep"][1]), second=1)
        case "RobertaProcessing":
            return _bert_template(int(step["cls"][1]), int(step["sep"][1]), second=0)
    raise _template_error(file, f"a {step['type']}")


def _symbol_steps(processor: Any) -> list[Any]:
    """Return the steps that add symbols; byte-level post-processing only trims offsets."""
    if processor is None or processor["type"] == "ByteLevel":
        return []
    if processor["type"] == "Sequence":
        return [step for inner in processor["processors"] for step in _symbol_steps(inner)]
    return [processor]


def _read_parts(pieces: Any, symbols: Any) -> Iterator[Part]:
    """Yield the parts of a template; a symbol may have several ids."""
    for piece in pieces:
        [(kind, value)] = piece.items()
        segment = int(value["type_id"])
        if segment < 0:
            raise ValueError(f"type_id {segment}")
        if kind == "Sequence":
            yield Part({"A": 0, "B": 1}[value["id"]], 0, segment)
        else:
            for symbol in symbols[value["id"]]["ids"]:
                yield Part(None, int(symbol), segment)


def _bert_template(first: int, separator: int, *, second: int) -> Template:
    """Make BERT's template `[CLS] a [SEP] b [SEP]`, or RoBERTa's.

    RoBERTa's (`second` is 0) has no segments, and two separators between the texts.
    """
    opening = (Part(None, first, 0), Part(0, 0, 0), Part(None, separator, 0))
    again = () if second else (Part(None, separator, 0),)
    closing = (Part(1, 0, second), Part(None, separator, second))
    return Template(opening, opening + again + closing)


def _template_error(file: str, got: str) -> InputError:
    """The error for a post-processor that cannot be read as a template."""
    expected = "a template, BERT's, RoBERTa's, or none"
    return InputError(f"{file}: the post-processor", got=got, expected=expected)
