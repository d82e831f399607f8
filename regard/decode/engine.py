"""A model -> tokens: the one decoding loop, for every family and every kind of search.

In: a model that can `encode`, `start` and `step`, any input that it reads or prompts, and how long
each answer may become. Out: hypotheses, or a stream of steps while they grow. A sentence that is
done leaves the batch, and what a sentence gets does not depend on what else is in it. The model
should be in eval mode.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypedDict, TypeVar, Unpack, cast

import torch
from torch import Tensor

from regard.data.input import Input, Ragged, Source
from regard.decode.config import DRAWING, DecodeConfig
from regard.decode.filters import Symbols
from regard.decode.search import Beam, Draw, Hypothesis, Move, Search, Sentence
from regard.errors import InputError
from regard.runtime.sharing import free_cores

if TYPE_CHECKING:
    from regard.layers.context import Memory
    from regard.layers.state import State
    from regard.layers.tap.tap import Tap


MemoryT = TypeVar("MemoryT", bound="Memory | None")
StateT = TypeVar("StateT", bound="State")
Source_contra = TypeVar("Source_contra", bound=Input, contravariant=True)
StateT_contra = TypeVar("StateT_contra", bound="State", contravariant=True)


class Generative(Protocol[Source_contra, MemoryT, StateT]):
    """What a model must do to be decoded: GPT, T5, Transformer, recurrent, caption, speech."""

    def encode(self, source: Source_contra, tap: Tap | None = None) -> MemoryT:
        """Reads the sources; for a model without an encoder there is nothing to remember: None."""
        ...

    def start(self, memory: MemoryT, rows: int, length: int) -> StateT:
        """A state before the first token, with room for `length` tokens a row.

        It has `rows` rows for each sentence of the memory, those of one sentence together; without
        a memory it has `rows` rows.
        """
        ...

    def step(self, ids: Tensor, state: StateT, tap: Tap | None = None) -> Tensor:
        """Feeds one token to each row: ids (rows,) -> logits (rows, vocab); the state advances.

        The ids come on the model's device, if it says where that is, else on the source's; once
        there are logits, on theirs.
        """
        ...


class Prompted(Protocol[StateT_contra]):
    """What a model must do beside to be given prompts: GPT."""

    vocab: int

    def read(self, prompts: Ragged, state: StateT_contra, tap: Tap | None = None) -> Tensor:
        """More of each row, behind what the state holds -> logits of what follows each."""
        ...


@dataclass(frozen=True)
class Partial:
    """A hypothesis that is still growing."""

    sentence: int
    ids: tuple[int, ...]
    logprob: float


@dataclass(frozen=True, eq=False)
class Step:
    """What one step of decoding came to."""

    index: int
    done: tuple[tuple[int, list[Hypothesis]], ...]
    """The sentences that are done with this step, and their hypotheses, best first."""
    sentences: tuple[int, ...]
    """For each row of `tokens` and `logprob`, the sentence it belongs to."""
    tokens: Tensor
    """(shown, index + 1) The tokens so far: of every sample that has not ended; in beam search, of
    each sentence's best beam, which may be another one than a step before."""
    logprob: Tensor
    """(shown,)"""
    settled: tuple[tuple[int, ...], ...]
    """For each sentence under way, the tokens that its best hypothesis begins with whatever comes:
    in beam search, what all beams have in common. They only ever grow."""

    @property
    def partials(self) -> list[Partial]:
        """The hypotheses that are still growing, made into tuples when asked for."""
        rows = zip(self.sentences, self.tokens.tolist(), self.logprob.tolist(), strict=True)
        return [Partial(number, tuple(ids), logprob) for number, ids, logprob in rows]


class Options(TypedDict, Generic[MemoryT], total=False):
    """What may be given to `decode` and `stream` by name."""

    prefixes: Sequence[Sequence[int]] | None
    """Tokens that each hypothesis must begin with, such as a translation's opening. They are part
    of `ids` and `logprob`, not of `score`."""
    keys: Sequence[int] | None
    """A number for each sentence that its random numbers are made from, with the seed; by default
    from its source and prefix, so that equal sentences get equal samples."""
    tap: Tap | None
    """Records or edits inside the model; `next_step` is called after each step."""
    prompts: Sequence[Sequence[int]] | None
    """What a model without an encoder has to read, in one pass, before the first token: at least
    one token each. They are not part of `ids`, `logprob` and `score`."""
    memory: MemoryT | None
    """What `encode` gave for the source, to decode it again."""
    rooms: Sequence[int] | None
    """How many tokens each answer may have where `max_length` does not say it; they count from a
    given prefix, the end included."""
    limit: int | None
    """The most tokens the model has positions for, forced prefix included."""


def decode(
    model: Generative[Source, MemoryT, StateT],
    source: Source | None,
    symbols: Symbols,
    config: DecodeConfig,
    **options: Unpack[Options[MemoryT]],
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each sentence, best first.

    Fewer where fewer exist. `max_length` and `min_length` count the tokens after a given prefix;
    without `max_length` the caller says in `rooms` how long each answer may become.

    Args:
        model: What to decode.
        source: The sentences to read; None for a model that only continues prompts.
        symbols: The tokens that have a role.
        config: Greedy, sampling or beam search, and how.
        options: `prefixes`, `prompts`, `keys`, `tap`, `memory`, `rooms`, `limit`; see `Options`.
    """
    found: dict[int, list[Hypothesis]] = {}
    for _, move, _ in prepare(model, source, symbols, config, options):
        found.update(move.done)
    return [found[number] for number in range(len(found))]


def stream(
    model: Generative[Source, MemoryT, StateT],
    source: Source | None,
    symbols: Symbols,
    config: DecodeConfig,
    **options: Unpack[Options[MemoryT]],
) -> Iterator[Step]:
    """The same as `decode`, step by step, as tokens are chosen; the arguments are the same.

    Wrong arguments raise here, not at the first step.
    """
    moves = prepare(model, source, symbols, config, options)
    return (outcome(index, move, search) for index, move, search in moves)


def prepare(
    model: Generative[Source, MemoryT, StateT],
    source: Source | None,
    symbols: Symbols,
    config: DecodeConfig,
    options: Options[MemoryT],
) -> Iterator[tuple[int, Move, Search]]:
    """Checks all arguments; the loop that they make."""
    check(config)
    symbols, counted = symbols.as_set(config), int(config.forced_begin is not None)
    memory, prefixes, prompts = (
        options.get("memory"),
        options.get("prefixes"),
        options.get("prompts"),
    )
    if source is not None:
        count = len(source)
    else:
        count = len(prompts or prefixes or ()) if memory is None else len(memory.layout.lengths)
    openings = [()] * count if prefixes is None else [tuple(each) for each in prefixes]
    if config.forced_begin is not None:
        openings = [(config.forced_begin, *opening) for opening in openings]
    last = -1 if config.forced_end is None else config.forced_end
    check_count("prefixes", openings, sentences=count)
    before = [()] * count if prompts is None else [tuple(each) for each in prompts]
    check_count("prompts", before, sentences=count)
    if prompts is not None:
        check_prompts(model, before)
    keys = options.get("keys")
    keys = read_keys(source, [*zip(before, openings, strict=True)]) if keys is None else keys
    check_count("keys", keys, sentences=count)
    rooms = rooms_of(config, options.get("rooms"), count)
    sentences = [
        Sentence(
            number,
            prefix,
            within(options.get("limit"), wanted, len(prompt) + len(prefix) - counted),
            key,
            prompt,
            counted=counted,
            last=last,
        )
        for number, (prompt, prefix, wanted, key) in enumerate(
            zip(before, openings, rooms, keys, strict=True)
        )
    ]
    return run(model, source, sentences, symbols, config, options.get("tap"), memory)


@torch.inference_mode()
def run(
    model: Generative[Source, MemoryT, StateT],
    source: Source | None,
    sentences: Sequence[Sentence],
    symbols: Symbols,
    config: DecodeConfig,
    tap: Tap | None,
    memory: MemoryT | None,
) -> Iterator[tuple[int, Move, Search]]:
    """The loop: the model steps, the search chooses, rows move, until no sentence is left."""
    if not sentences:
        return
    device = place_of(model, source)
    if memory is None and source is not None:
        with free_cores():
            memory = model.encode(source.to(device), tap)
    length = max(each.given + each.room for each in sentences)
    prompts = [each.prompt for each in sentences]
    # The hypotheses of a sentence begin alike, so the first step has one row for all of them.
    rows = len(sentences) if memory is None else 1
    capacity = length + max(map(len, prompts))
    state = model.start(cast("MemoryT", memory), rows, capacity)  # None where there is no encoder
    kind = Beam if config.beam > 1 else Draw
    search: Search = kind(sentences, symbols, config)
    ids = torch.full((len(sentences),), symbols.begin, device=device)
    for index in range(length):
        with free_cores():
            if index == 0 and prompts[0]:
                given = Ragged.of(prompts).to(device)
                logits = cast("Prompted[StateT]", model).read(given, state, tap)
            else:
                logits = model.step(ids, state, tap)
            if tap is not None:
                tap.next_step()
            if index == 0:
                check_prefixes(sentences, vocab=logits.shape[1])
                logits = logits.repeat_interleave(search.live.width, dim=0)
            move = search.choose(logits)
        yield index, move, search
        if not move.ids.numel():
            return
        with free_cores():
            state.reorder(move.rows)  # on the CPU: the state reads them there, and takes them along
            ids = move.ids.to(logits.device)


def place_of(model: object, source: Input | None) -> torch.device:
    """Where a model reads: on its own device, or where the source is if it has none."""
    found: torch.device | None = getattr(model, "device", None)
    if found is not None:
        return found
    return torch.device("cpu") if source is None else source.device


def outcome(index: int, move: Move, search: Search) -> Step:
    """What a step came to, copied from the search's buffers, which the next step overwrites."""
    live, rows = search.live, search.leading()
    return Step(
        index=index,
        done=move.done,
        sentences=tuple(live.sentences[row // live.width].number for row in rows),
        tokens=live.said[rows],
        logprob=torch.tensor([live.logprob[row] for row in rows], dtype=torch.float64),
        settled=tuple(search.settled()),
    )


def rooms_of(config: DecodeConfig, rooms: Sequence[int] | None, count: int) -> Sequence[int]:
    """How many tokens each of the sentences may have: `max_length`, else what the caller says."""
    if config.max_length is not None:
        return [config.max_length] * count
    if rooms is None and count:
        expected = "max_length, or rooms: the most tokens of each"
        raise InputError("decode", got="answers without an end", expected=expected)
    check_count("rooms", rooms or (), sentences=count)
    return rooms or ()


def within(limit: int | None, wanted: int, given: int) -> int:
    """The room of one sentence after what it is given, in a model that holds `limit` tokens."""
    if limit is None:
        return wanted
    if given >= limit:
        raise InputError(
            "prefix",
            got=f"{given} tokens",
            expected=f"fewer than {limit}, the most this model can hold",
        )
    return min(wanted, limit - given)


def read_keys(
    source: Input | None, begun: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
) -> list[int]:
    """A number for each sentence, made from what it says, the same on every machine.

    Args:
        source: The sentences to read, if there are any.
        begun: Prompt and prefix of each.
    """
    sources = ["[]"] * len(begun) if source is None else source.keys()
    texts = [
        f"{said} {(*prompt, *prefix)}"
        for said, (prompt, prefix) in zip(sources, begun, strict=True)
    ]
    return [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") for text in texts]


def check_count(what: str, given: Sequence[object], sentences: int) -> None:
    """Refuses more or fewer than one for each sentence."""
    if len(given) != sentences:
        raise InputError(what, got=len(given), expected=f"one for each of {sentences} sentences")


def check_prompts(model: object, prompts: Sequence[tuple[int, ...]]) -> None:
    """Refuses prompts for a model that reads none, of nothing, or of tokens it does not have."""
    if not hasattr(model, "read"):
        raise InputError("prompts", got="a model with an encoder", expected="sources for it")
    vocab = cast("Prompted[State]", model).vocab
    for number, prompt in enumerate(prompts):
        if not prompt:
            raise InputError(f"prompt {number}", got="no token", expected="at least one")
        wrong = [token for token in prompt if not 0 <= token < vocab]
        if wrong:
            raise InputError(
                f"prompt {number}", got=f"token {wrong[0]}", expected=f"0 to {vocab - 1}"
            )


def check_prefixes(sentences: Sequence[Sentence], vocab: int) -> None:
    """Refuses forced tokens that the model does not have."""
    for sentence in sentences:
        for token in (*sentence.prefix, max(sentence.last, 0)):
            if not 0 <= token < vocab:
                raise InputError(
                    f"prefix of sentence {sentence.number}",
                    got=f"token {token}",
                    expected=f"0 to {vocab - 1}",
                )


def check(config: DecodeConfig) -> None:
    """Refuses settings that contradict each other."""
    if config.sample and config.beam > 1:
        raise InputError(
            "sample with a beam",
            got=f"beam {config.beam}",
            expected="one of the two",
            fix=f"beam: 1 (--beam 1) draws; n_best: {config.beam} (--n-best) for several samples",
        )
    if not config.sample and config.n_best > config.beam:
        raise InputError(
            "n_best",
            got=config.n_best,
            expected=f"at most the beam, which is {config.beam}",
            fix=f"set beam: {config.n_best} (--beam), or sample: true (--sample) for samples",
        )
    if config.max_length is not None and config.min_length > config.max_length:
        raise InputError(
            "min_length",
            got=config.min_length,
            expected=f"at most max_length, which is {config.max_length}",
        )
    for name in DRAWING:
        value = getattr(config, name)
        if not config.sample and value != DecodeConfig.model_fields[name].default:
            raise InputError(
                name,
                got=f"{value} without sampling",
                expected="sample: true with it",
                fix=f"leave {name} out, or draw: sample: true (translate --sample; "
                "generate without --greedy and --beam)",
            )
