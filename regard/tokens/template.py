"""The post-processor of a `tokenizer.json` -> what a model's own symbols do around a text.

In: its JSON. Out: a `Template`, which puts `[CLS] a [SEP] b [SEP]`, `<s> a </s></s> b </s>`,
`a </s>`, `<s> a` or nothing around the ids of a text or of a pair, and numbers the two texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from regard.errors import InputError

MOST_PARTS = 64
"""Of a template: each may be a whole text again."""


@dataclass(frozen=True)
class Part:
    """One place of a template: a text (0 for the first, 1 for the second) or a symbol's id."""

    text: int | None
    symbol: int
    segment: int


@dataclass(frozen=True)
class Template:
    """What stands around one text, and around two."""

    single: tuple[Part, ...] = (Part(0, 0, 0),)
    pair: tuple[Part, ...] = (Part(0, 0, 0), Part(1, 0, 1))

    def fill(
        self, ids: Sequence[int], pair: Sequence[int] | None = None
    ) -> tuple[list[int], list[int]]:
        """The ids with the symbols around them, and for each the number of its segment."""
        texts = [ids] if pair is None else [ids, pair]
        filled: list[int] = []
        segments: list[int] = []
        for part in self.single if pair is None else self.pair:
            added = [part.symbol] if part.text is None else texts[part.text]
            filled.extend(added)
            segments.extend([part.segment] * len(added))
        return filled, segments


def read_template(processor: object, file: str) -> Template:
    """Understand a post-processor.

    Raises:
        InputError: If it is damaged, or does something that no template can say.
    """
    try:
        steps = _steps(processor)
        if not steps:
            return Template()
        if len(steps) > 1:
            raise _refused(file, "several templates, one after the other")
        return _template(steps[0], file)
    except (KeyError, TypeError, ValueError, IndexError, RecursionError) as problem:
        raise _refused(file, f"one that is damaged ({problem!r})") from None


def _template(step: Any, file: str) -> Template:
    match step["type"]:
        case "TemplateProcessing":
            symbols = step["special_tokens"]
            single, pair = (
                tuple(islice(_parts(step[name], symbols), MOST_PARTS + 1))
                for name in ("single", "pair")
            )
            if max(len(single), len(pair)) > MOST_PARTS:
                raise _refused(file, f"one of more than {MOST_PARTS} parts")
            return Template(single, pair)
        case "BertProcessing":
            return _around(int(step["cls"][1]), int(step["sep"][1]), second=1)
        case "RobertaProcessing":
            return _around(int(step["cls"][1]), int(step["sep"][1]), second=0)
    raise _refused(file, f"a {step['type']}")


def _steps(processor: Any) -> list[Any]:
    """The steps that add symbols; byte-level post-processing only trims offsets."""
    if processor is None or processor["type"] == "ByteLevel":
        return []
    if processor["type"] == "Sequence":
        return [step for each in processor["processors"] for step in _steps(each)]
    return [processor]


def _parts(pieces: Any, symbols: Any) -> Iterator[Part]:
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


def _around(first: int, separator: int, *, second: int) -> Template:
    """BERT's `[CLS] a [SEP] b [SEP]`, or RoBERTa's, which has no segments and two separators."""
    opening = (Part(None, first, 0), Part(0, 0, 0), Part(None, separator, 0))
    again = () if second else (Part(None, separator, 0),)
    closing = (Part(1, 0, second), Part(None, separator, second))
    return Template(opening, opening + again + closing)


def _refused(file: str, got: str) -> InputError:
    return InputError(
        f"{file}: the post-processor",
        got=got,
        expected="a template, BERT's, RoBERTa's, or none",
    )
