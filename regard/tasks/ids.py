"""Logits, vectors and generated ids for given token ids, without a tokenizer.

Token ids come in as a list, as lists, or as a tensor whose rows are padded on either side; results
go out in the same form. Padding has no influence on them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.decode.config import DecodeConfig
from regard.decode.engine import decode
from regard.decode.filters import Symbols
from regard.errors import InputError
from regard.inputs.arrays import Input, Ragged
from regard.inputs.text import Vocabulary
from regard.inputs.text.items import is_ids
from regard.models import Model
from regard.models.mode import evaluating
from regard.tasks.base_task import max_lengths
from regard.tasks.encoder_task import vectors_of

Ids = Sequence[int]
NO_SYMBOL = -1
"""Stands for a special token that is not known without a tokenizer; no token has this id."""


def logits_of(model: Model, ids: Any, target_ids: Any, mask: Any) -> Any:
    """The logits of the model for ids; see `Pipeline.logits`."""
    has_target = model.config.has_target
    if has_target == (target_ids is None):
        expected = "source and target ids" if has_target else "the ids of one text"
        raise InputError("logits", got="one" if has_target else "two", expected=expected)
    rows, restore = rows_of(ids if not has_target else target_ids, None if has_target else mask)
    sources = rows_of(ids, mask)[0] if has_target else None
    for row in rows:
        check_ids(row, model, side=-1)
    for row in sources or ():
        check_ids(row, model)
    with evaluating(model):
        if sources is not None:
            if len(sources) != len(rows):
                raise InputError("logits", got=f"{len(rows)} targets", expected=len(sources))
            logits = model(Ragged.of(sources).to(model.device), Ragged.of(rows).to(model.device))
        else:
            logits = _logits_function(model)(Ragged.of(rows).to(model.device))
    logits = logits.to(getattr(ids, "device", "cpu"))  # the device of the given ids
    if getattr(model.config, "classes", ()):  # one row per text, not per token
        return logits[0] if is_ids(ids) else logits
    return restore(list(torch.split(logits, [len(row) for row in rows])))


def logits_of_input(model: Any, source: Input, target_ids: Any = None) -> Any:
    """The logits of each example of an input other than token ids: (examples, classes).

    Args:
        model: The model.
        source: The input, such as the pixels of images.
        target_ids: For a model that writes, the ids of each text that it is given; the logits are
            then those of the token after each of them, in the form of these ids.
    """
    if model.config.has_target:
        return _logits_after(model, source, target_ids)
    with evaluating(model):
        has_numbers_alone = model.config.numbers and not model.config.classes
        function = model.standardised_numbers if has_numbers_alone else model.classify
        logits: Tensor = function(source.to(model.device))
    return logits.cpu()


def _logits_after(model: Any, source: Input, target_ids: Any) -> Any:
    """The logits of the token after each of the given ones."""
    if target_ids is None:
        expected = "target ids, too, or a model with classes; p.caption(image) writes a text"
        raise InputError("logits", got="a model that writes", expected=expected)
    rows, restore = rows_of(target_ids, None)
    for row in rows:
        check_ids(row, model, side=-1)
    if len(rows) != len(source):
        raise InputError("logits", got=f"{len(rows)} targets", expected=len(source))
    with evaluating(model):
        logits = model(source.to(model.device), Ragged.of(rows).to(model.device)).cpu()
    return restore(list(torch.split(logits, [len(row) for row in rows])))


def _logits_function(model: Any) -> Callable[[Ragged], Tensor]:
    """The function that computes a model's logits: of classes, tags, spans, or the vocabulary."""
    heads = {"classes": "classify", "tags": "tag", "spans": "answer"}
    methods = [
        getattr(model, method) for head, method in heads.items() if getattr(model.config, head, ())
    ]
    return next(iter(methods), model)


def embed_ids(model: Model, ids: Any, *, pool: str, normalise: bool) -> Tensor:
    """One vector for each text given as ids: (texts, dim); see `Pipeline.embed`."""
    rows, _ = rows_of(ids, None)
    for row in rows:
        check_ids(row, model)
    if "decoder" in model.config.sides and not model.config.bidirectional:
        raise InputError("embed", got="a model that generates text", expected="an encoder")
    with evaluating(model):
        texts = Ragged.of(rows).to(model.device)
        return vectors_of(model, texts, pool=pool, normalise=normalise).float().cpu()


def rows_of(ids: Any, mask: Any) -> tuple[list[list[int]], Callable[[list[Tensor]], Any]]:
    """Removes the padding from token ids.

    Args:
        ids: The ids of one text, of several as a list of lists, or a tensor (batch, length).
        mask: (batch, length) 1 for tokens, 0 for padding; None: no padding.

    Returns:
        The ids of each text without padding, and a function that converts the results of all texts
        back to the form of `ids`, with zeros at padding.

    Raises:
        InputError: The mask has another shape than the ids.
    """
    if mask is not None or getattr(ids, "ndim", 0) == 2:
        is_single = is_ids(ids)
        try:
            ids = torch.as_tensor(ids)[None] if is_single else torch.as_tensor(ids)
            mask = torch.as_tensor(mask)[None] if is_single else mask
        except (ValueError, TypeError):
            raise InputError("mask", got="texts of different lengths", expected="none") from None
        is_token = torch.ones_like(ids) if mask is None else torch.as_tensor(mask)
        if is_token.shape != ids.shape:
            raise InputError("mask", got=tuple(is_token.shape), expected=tuple(ids.shape))
        rows = [row[keep].tolist() for row, keep in zip(ids, is_token.bool(), strict=True)]

        def restore(results: list[Tensor]) -> Tensor:
            """Results of all texts, each (tokens, ...), as one tensor (batch, length, ...)."""
            out = results[0].new_zeros(*ids.shape, *results[0].shape[1:])
            out[is_token.bool()] = torch.cat(results)
            return out[0] if is_single else out

        return rows, restore
    if is_ids(ids):
        return [list(map(int, ids))], lambda results: results[0]
    return [list(map(int, row)) for row in ids], lambda results: results


def check_ids(ids: Ids, model: Model, side: int = 0) -> None:
    """Checks that a model can read some ids.

    Args:
        ids: The ids of one text.
        model: The model.
        side: 0 for a source or the only text, -1 for a target.

    Raises:
        InputError: There are no ids, more than the model has positions for, or some that are not in
            its vocabulary.
    """
    longest, vocab = model.config.bound or sys.maxsize, [*model.vocabularies().values()][side]
    if not 0 < len(ids) <= longest:
        raise InputError("ids", got=f"{len(ids)} of them", expected=f"1 to {longest}")
    unknown_ids = [token for token in ids if not 0 <= token < vocab]
    if unknown_ids:
        raise InputError("ids", got=unknown_ids[0], expected=f"0 to {vocab - 1}")


def check_roles(config: DecodeConfig, model: Model) -> None:
    """Raises an error if decoding settings name ids that are not in the model's vocabulary."""
    vocab = [1, *model.vocabularies().values()][-1]
    for name in ("begin", "forced_begin", "forced_end", "ends", "banned"):
        value = getattr(config, name)
        for token in value if isinstance(value, tuple) else (value or 0,):
            if not 0 <= token < vocab:
                raise InputError(name, got=token, expected=f"ids from 0 to {vocab - 1}")


def generate_ids(
    model: Any, vocabulary: Vocabulary | None, rows: Sequence[Ids], config: DecodeConfig
) -> list[list[int]]:
    """The best output for each row of ids: its continuation, or its translation.

    Args:
        model: A decoder or an encoder-decoder.
        vocabulary: The tokenizers, for the special tokens; None if there are none.
        rows: The ids of each prompt or source.
        config: The decoding settings.

    Raises:
        InputError: The model does not generate, ids are not valid, or no begin symbol is known.
    """
    for row in rows:
        check_ids(row, model)
    if "decoder" not in model.config.sides:
        raise InputError("generate", got="an encoder", expected="a model that generates text")
    has_target = model.config.has_target
    symbols = _decoding_symbols(vocabulary, begins=has_target)
    if has_target and symbols.with_overrides(config).begin == NO_SYMBOL:
        fix = "give one: begin=0, or add a tokenizer"
        raise InputError("generate", got="no id to begin with", fix=fix)
    with evaluating(model):
        source, prompts = (Ragged.of(rows), None) if has_target else (None, rows)
        lengths, limit = max_lengths(map(len, rows)), model.config.bound
        n_best = decode(
            model, source, symbols, config, prompts=prompts, max_lengths=lengths, limit=limit
        )
    return [list(best.ids) for best, *_ in n_best]


def _decoding_symbols(vocabulary: Vocabulary | None, *, begins: bool) -> Symbols:
    """The special tokens of decoding; a decoder that continues a prompt needs no begin symbol."""
    if vocabulary is None:
        # The padding is only fed to rows that have ended, so any token will do.
        return Symbols(NO_SYMBOL, NO_SYMBOL, pad=0)
    target = vocabulary.target
    return Symbols(target.begin if begins else NO_SYMBOL, target.end, target.pad)
