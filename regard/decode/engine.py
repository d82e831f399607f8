"""Decoding for all model families: greedy decoding, sampling and beam search.

In: a model with `encode`, `start` and `step`, its source or prompts, and the maximum length of each
output. Out: hypotheses, or a stream of steps while they grow; all arguments are checked before the
loop (`regard.decode.loop`) begins. The model should be in eval mode.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypedDict, Unpack, cast

import torch
from torch import Tensor

from regard.decode.config import SAMPLING_SETTINGS, DecodeConfig
from regard.decode.filters import Symbols
from regard.decode.loop import (
    Generative,
    MemoryT,
    Prompted,
    StateT,
    run,
)
from regard.decode.search import Choice, Forbidden, Hypothesis, Request, Search
from regard.errors import InputError
from regard.inputs.arrays import Input, Source

if TYPE_CHECKING:
    from regard.layers.state import State
    from regard.layers.tap.tap import Tap


@dataclass(frozen=True)
class Partial:
    """An unfinished hypothesis."""

    sentence: int
    ids: tuple[int, ...]
    logprob: float


@dataclass(frozen=True, eq=False)
class Step:
    """The result of one decoding step."""

    index: int
    done: tuple[tuple[int, list[Hypothesis]], ...]
    """The numbers of the sequences finished at this step, with their hypotheses, best first."""
    sentences: tuple[int, ...]
    """For each row of `tokens` and `logprob`, the number of its sequence."""
    tokens: Tensor
    """(shown, index + 1) The tokens so far: of every unfinished sample; in beam search, of each
    sequence's best beam, which may differ from the best beam of the step before."""
    logprob: Tensor
    """(shown,) The log-probability of each row of `tokens`."""
    stable_prefixes: tuple[tuple[int, ...], ...]
    """For each unfinished sequence, the first tokens of its output that can no longer change: in
    beam search, the common prefix of all beams. Later steps only extend them."""

    @property
    def partials(self) -> list[Partial]:
        """The unfinished hypotheses, converted to tuples on demand."""
        rows = zip(self.sentences, self.tokens.tolist(), self.logprob.tolist(), strict=True)
        return [Partial(number, tuple(ids), logprob) for number, ids, logprob in rows]


class DecodeInputs(TypedDict, Generic[MemoryT], total=False):
    """The keyword arguments of `decode` and `stream`."""

    prefixes: Sequence[Sequence[int]] | None
    """Tokens that each hypothesis must begin with, such as the start of a translation. They are
    part of `ids` and `logprob`, not of `score`."""
    keys: Sequence[int] | None
    """A number for each sequence, from which, with the seed, its random numbers are made. Default:
    a hash of its source, prompt and prefix, so that equal sequences get equal samples."""
    tap: Tap | None
    """Records or edits tensors inside the model; `next_step` is called after each step."""
    prompts: Sequence[Sequence[int]] | None
    """The tokens, at least one each, that a model without an encoder continues. They are read in
    one pass, and are not part of `ids`, `logprob` and `score`."""
    memory: MemoryT | None
    """The result of `encode` for the source, if it was computed before."""
    max_lengths: Sequence[int] | None
    """The maximum number of tokens of each output if `max_length` is not set: those after a given
    prefix, end symbol included."""
    limit: int | None
    """The maximum number of tokens for which the model has positions, prefix included."""
    forbidden: Forbidden | None
    """Says of a row's tokens so far, prompt included, and a next token whether the latter must not
    be chosen."""


def decode(
    model: Generative[Source, MemoryT, StateT],
    source: Source | None,
    symbols: Symbols,
    config: DecodeConfig,
    **options: Unpack[DecodeInputs[MemoryT]],
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each sequence, best first; fewer if fewer exist.

    `max_length` and `min_length` count the tokens after a given prefix. Without `max_length`, the
    option `max_lengths` gives the maximum length of each output.

    Args:
        model: The model.
        source: The source sequences; None for a model that only continues prompts.
        symbols: The special tokens, such as begin and end.
        config: Settings of greedy decoding, sampling or beam search.
        options: Further inputs, such as `prefixes`, `prompts`, `keys` and `tap`: `DecodeInputs`.
    """
    hypotheses: dict[int, list[Hypothesis]] = {}
    for _, choice, _ in prepare(model, source, symbols, config, options):
        hypotheses.update(choice.done)
    return [hypotheses[number] for number in range(len(hypotheses))]


def stream(
    model: Generative[Source, MemoryT, StateT],
    source: Source | None,
    symbols: Symbols,
    config: DecodeConfig,
    **options: Unpack[DecodeInputs[MemoryT]],
) -> Iterator[Step]:
    """Decodes like `decode`, with the same arguments, and yields a `Step` after each token.

    Wrong arguments raise an error in this call, not at the first step.
    """
    moves = prepare(model, source, symbols, config, options)
    return (make_step(index, choice, search) for index, choice, search in moves)


def prepare(
    model: Generative[Source, MemoryT, StateT],
    source: Source | None,
    symbols: Symbols,
    config: DecodeConfig,
    options: DecodeInputs[MemoryT],
) -> Iterator[tuple[int, Choice, Search]]:
    """Checks all arguments and returns the iterator of the decoding loop (see `run`)."""
    check(config)
    symbols, counted = symbols.with_overrides(config), int(config.forced_begin is not None)
    memory, prefixes = options.get("memory"), options.get("prefixes")
    prompts, keys = options.get("prompts"), options.get("keys")
    if source is not None:
        count = len(source)
    else:
        count = len(prompts or prefixes or ()) if memory is None else len(memory.layout.lengths)
    openings = [()] * count if prefixes is None else [tuple(tokens) for tokens in prefixes]
    if config.forced_begin is not None:
        openings = [(config.forced_begin, *opening) for opening in openings]
    forced_end = -1 if config.forced_end is None else config.forced_end
    check_count("prefixes", openings, count=count)
    prompt_tokens = [()] * count if prompts is None else [tuple(tokens) for tokens in prompts]
    check_count("prompts", prompt_tokens, count=count)
    if prompts is not None:
        check_prompts(model, prompt_tokens)
    if keys is None:
        keys = sampling_keys(source, [*zip(prompt_tokens, openings, strict=True)])
    check_count("keys", keys, count=count)
    max_lengths = choose_max_lengths(config, options.get("max_lengths"), count)
    requests = []
    sequences = zip(prompt_tokens, openings, max_lengths, keys, strict=True)
    for number, (prompt, prefix, max_length, key) in enumerate(sequences):
        used_positions = len(prompt) + len(prefix) - counted
        length = clip_to_limit(options.get("limit"), max_length, used_positions)
        requests.append(Request(number, prefix, length, key, prompt, counted, forced_end))
    return run(model, source, requests, symbols, config, options)


def make_step(index: int, choice: Choice, search: Search) -> Step:
    """The result of a step, copied from the search's buffers, which the next step overwrites."""
    running, rows = search.running, search.best_rows()
    return Step(
        index=index,
        done=choice.done,
        sentences=tuple(running.requests[row // running.width].number for row in rows),
        tokens=running.generated[rows],
        logprob=torch.tensor([running.logprob[row] for row in rows], dtype=torch.float64),
        stable_prefixes=tuple(search.stable_prefixes()),
    )


def choose_max_lengths(
    config: DecodeConfig, max_lengths: Sequence[int] | None, count: int
) -> Sequence[int]:
    """The maximum number of tokens of each output: `max_length` if set, else `max_lengths`."""
    if config.max_length is not None:
        return [config.max_length] * count
    if max_lengths is None and count:
        expected = "max_length, or max_lengths: the most tokens of each"
        raise InputError("decode", got="no maximum length", expected=expected)
    check_count("max_lengths", max_lengths or (), count=count)
    return max_lengths or ()


def clip_to_limit(limit: int | None, requested_length: int, used_positions: int) -> int:
    """The maximum output length of one sequence, in a model with `limit` positions.

    Args:
        limit: The maximum number of tokens that the model has positions for; None: any number.
        requested_length: The maximum output length that was asked for.
        used_positions: Number of tokens of prompt and prefix, which take positions, too.
    """
    if limit is None:
        return requested_length
    if used_positions >= limit:
        expected = f"fewer than {limit}, the model's maximum length"
        raise InputError("prefix", got=f"{used_positions} tokens", expected=expected)
    return min(requested_length, limit - used_positions)


def sampling_keys(
    source: Input | None, beginnings: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
) -> list[int]:
    """A hash of each sequence's source, prompt and prefix; the same on every machine.

    Args:
        source: The source sequences, if there are any.
        beginnings: Prompt and prefix of each sequence.
    """
    sources = ["[]"] * len(beginnings) if source is None else source.keys()
    texts = [
        f"{source_key} {(*prompt, *prefix)}"
        for source_key, (prompt, prefix) in zip(sources, beginnings, strict=True)
    ]
    return [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") for text in texts]


def check_count(what: str, items: Sequence[object], count: int) -> None:
    """Raises InputError unless there is one item for each sequence."""
    if len(items) != count:
        raise InputError(what, got=len(items), expected=f"one for each of {count} sentences")


def check_prompts(model: object, prompts: Sequence[tuple[int, ...]]) -> None:
    """Raises InputError if the model takes no prompts, or a prompt is empty or has wrong tokens."""
    if not hasattr(model, "read"):
        raise InputError("prompts", got="a model with an encoder", expected="sources for it")
    vocab = cast("Prompted[State]", model).vocab
    for number, prompt in enumerate(prompts):
        if not prompt:
            raise InputError(f"prompt {number}", got="no token", expected="at least one")
        wrong = [token for token in prompt if not 0 <= token < vocab]
        if wrong:
            got, expected = f"token {wrong[0]}", f"0 to {vocab - 1}"
            raise InputError(f"prompt {number}", got=got, expected=expected)


def check(config: DecodeConfig) -> None:
    """Raises InputError if settings contradict each other."""
    if config.sample and config.beam > 1:
        got, expected = f"beam {config.beam}", "one of the two"
        fix = f"beam: 1 (--beam 1) draws; n_best: {config.beam} (--n-best) for several samples"
        raise InputError("sample with a beam", got=got, expected=expected, fix=fix)
    if not config.sample and config.n_best > config.beam:
        expected = f"at most the beam, which is {config.beam}"
        fix = f"set beam: {config.n_best} (--beam), or sample: true (--sample) for samples"
        raise InputError("n_best", got=config.n_best, expected=expected, fix=fix)
    if config.max_length is not None and config.min_length > config.max_length:
        expected = f"at most max_length, which is {config.max_length}"
        raise InputError("min_length", got=config.min_length, expected=expected)
    for name in SAMPLING_SETTINGS:
        value = getattr(config, name)
        if not config.sample and value != DecodeConfig.model_fields[name].default:
            draw = "sample: true (translate --sample; generate without --greedy and --beam)"
            got, fix = f"{value} without sampling", f"leave {name} out, or draw: {draw}"
            raise InputError(name, got=got, expected="sample: true with it", fix=fix)
