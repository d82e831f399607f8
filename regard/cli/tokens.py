"""`regard tokens`: shows how a tokenizer splits a text, or decodes ids."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.cli.options import AsJson, Input, Texts
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.inputs.text import Tokenizer

MAX_CHARACTERS = 2**18
"""The most characters of a text: each token is a row of a table, with hundreds of bytes."""


def tokens(
    model_name: Annotated[
        str, Argument(metavar="MODEL", help="A model, as in other commands, or a tokenizer.json.")
    ],
    texts: Texts = None,
    source: Input = None,
    target: Annotated[
        bool, Option("--target", help="Use the tokenizer of the target side.")
    ] = False,
    compare: Annotated[
        list[str] | None,
        Option(metavar="MODEL", help="Another tokenizer to compare with; repeatable."),
    ] = None,
    decode: Annotated[
        bool, Option("--decode", help="Convert ids, given as arguments or lines, to text.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the tokens of a text with their ids and positions.

    One line per token: the token (spaces as ▁), its id, and the characters of the text that it
    covers. If decoding the ids does not give the text back, a last line says what is lost. Weights
    are not loaded.
    """
    from regard.cli.line_processor import LineProcessor
    from regard.runs.load import vocabulary

    if decode and compare:
        raise InputError("--decode", got="--compare", expected="one of the two",
                         fix="the same id is another token in another vocabulary")  # fmt: skip
    names = [model_name, *(compare or ())]
    vocabularies = [vocabulary(name) for name in names]
    tokenizers = [sides.tokenizer(target=target) for sides in vocabularies]
    if decode:
        show = partial(_format_ids, tokenizers[0], as_json=as_json)
        texts = texts if texts == ["-"] or not texts else [" ".join(texts)]
    else:
        show = partial(_format_tokens, names, tokenizers, target=target, as_json=as_json)
    LineProcessor(
        lambda texts, _: [[f"{show(text)}\n"] for text in texts],
        lambda text: json.dumps({"text": text}, ensure_ascii=False) + "\n" if as_json else "\n",
        _check_length,
    ).run(texts, source)


def _check_length(text: str) -> None:
    """Raises an error if a text has more than `MAX_CHARACTERS`."""
    if len(text) > MAX_CHARACTERS:
        got, expected = f"a text of {len(text):,} characters", f"at most {MAX_CHARACTERS:,}"
        fix = "cut it into lines: each line is a text"
        raise InputError("tokens", got=got, expected=expected, fix=fix)


def _format_ids(tokenizer: Tokenizer, line: str, *, as_json: bool) -> str:
    """Formats a line of ids as text and tokens."""
    from regard.inputs.text.listing import id_table, read_ids

    ids = read_ids(tokenizer, line)
    decoded = tokenizer.decode(ids)
    if as_json:
        row = {"text": line, "ids": ids, "tokens": tokenizer.tokens(ids), "decoded": decoded}
        return json.dumps(row, ensure_ascii=False)
    return f"{decoded}\n{id_table(tokenizer, ids)}"


def _format_tokens(
    names: list[str], tokenizers: list[Tokenizer], text: str, *, target: bool, as_json: bool
) -> str:
    """Formats the tokens of a text, of one tokenizer or of several in columns."""
    from regard.inputs.text.listing import side_by_side, table, tokenize

    if not text:
        raise InputError("tokens", got="an empty text", expected="some characters")
    results = [tokenize(tokenizer, text, target=target) for tokenizer in tokenizers]
    if not as_json:
        return side_by_side(names, results) if len(results) > 1 else table(results[0])
    row, *compared = (result.to_json() for result in results)
    if compared:
        pairs = zip(names[1:], compared, strict=True)
        row["compared"] = [{"place": name, **values} for name, values in pairs]
    return json.dumps(row, ensure_ascii=False)
