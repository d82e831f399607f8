"""`regard tokens`: what a model reads of a text, before any of it is computed with."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import AsJson, Input, Texts
from regard.cli.text import each
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tokens import Foreign, Tokenizer


def tokens(
    place: Annotated[
        str, typer.Argument(metavar="DIR", help="A model, as everywhere, or a tokenizer.json.")
    ],
    texts: Texts = None,
    source: Input = None,
    target: Annotated[
        bool, typer.Option("--target", help="The side that a translator writes.")
    ] = False,
    compare: Annotated[
        list[str] | None,
        typer.Option("--compare", metavar="DIR", help="Another tokenizer beside it; repeatable."),
    ] = None,
    decode: Annotated[
        bool, typer.Option("--decode", help="The arguments, or each line, are ids.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """The tokens of a text, their ids and places: the first step of everything else.

    A line a token: the token (spaces as ▁), its id, and which characters of the text it stands
    for. What the ids cannot give back is said below. Weights are not read.
    """
    if decode and compare:
        raise InputError("--decode", got="--compare", expected="one of the two",
                         fix="an id means something in one vocabulary alone")  # fmt: skip
    names = [place, *(compare or ())]
    sides = [_side(name, target=target) for name in names]
    if decode:
        show = _decoder(sides[0], as_json=as_json)
        texts = texts if texts == ["-"] or not texts else [" ".join(texts)]
    else:
        show = _cutter(names, sides, target=target, as_json=as_json)
    each(texts, source, show, as_json=as_json)


def _side(place: str, *, target: bool) -> Tokenizer | Foreign:
    from regard.loading import vocabulary

    found = vocabulary(place)
    return found.target if target else found.source


def _decoder(tokenizer: Tokenizer | Foreign, *, as_json: bool) -> Callable[[str], None]:
    """What shows a line of ids as text and tokens."""
    from regard.tokens.listing import id_table, read_ids

    def show(line: str) -> None:
        ids = read_ids(tokenizer, line)
        decoded = tokenizer.decode(ids)
        if as_json:
            row = {"text": line, "ids": ids, "tokens": tokenizer.tokens(ids), "decoded": decoded}
            print(json.dumps(row, ensure_ascii=False))
        else:
            print(decoded, id_table(tokenizer, ids), sep="\n")

    return show


def _cutter(
    names: list[str], sides: list[Tokenizer | Foreign], *, target: bool, as_json: bool
) -> Callable[[str], None]:
    """What shows the tokens of a text, of one tokenizer or of several side by side."""
    from regard.tokens.listing import cut, side_by_side, table

    def show(text: str) -> None:
        if not text:
            raise InputError("tokens", got="an empty text", expected="some characters")
        first, *others = (cut(side, text, target=target) for side in sides)
        if as_json:
            row: dict[str, Any] = first.to_json()
            if others:
                row["compared"] = [
                    {"place": name, **other.to_json()}
                    for name, other in zip(names[1:], others, strict=True)
                ]
            print(json.dumps(row, ensure_ascii=False))
        else:
            print(side_by_side(names, [first, *others]) if others else table(first))

    return show
