"""The decoding loop of all model families, for greedy decoding, sampling and beam search.

In: a model with `encode`, `start` and `step`, its source, and a `Request` for each output. Out: the
choice of tokens of each step, and the search with the hypotheses so far. A finished sequence leaves
the batch, and the output of a sequence does not depend on the others in the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import torch
from torch import Tensor

from regard.decode.config import DecodeConfig
from regard.decode.filters import Symbols
from regard.decode.search import BeamSearch, Choice, Request, Sampling, Search
from regard.errors import InputError
from regard.inputs.arrays import Input, Ragged, Source
from regard.kernels.small_batches import LOADER
from regard.runtime.sharing import free_cores

if TYPE_CHECKING:
    from regard.decode.engine import DecodeInputs
    from regard.layers.context import Memory
    from regard.layers.state import State
    from regard.layers.tap.tap import Tap


MemoryT = TypeVar("MemoryT", bound="Memory | None")
StateT = TypeVar("StateT", bound="State")
Source_contra = TypeVar("Source_contra", bound=Input, contravariant=True)
StateT_contra = TypeVar("StateT_contra", bound="State", contravariant=True)


class Generative(Protocol[Source_contra, MemoryT, StateT]):
    """The methods that a model needs to be decoded (GPT, T5, Transformer, recurrent, captions)."""

    def encode(self, source: Source_contra, tap: Tap | None = None) -> MemoryT:
        """Encodes the sources into a memory; None for a model without an encoder."""

    def start(self, memory: MemoryT, rows: int, length: int) -> StateT:
        """The state before the first token, with capacity for `length` tokens per row.

        It has `rows` adjacent rows for each sequence of the memory; without a memory it has `rows`
        rows in all.
        """

    def step(self, ids: Tensor, state: StateT, tap: Tap | None = None) -> Tensor:
        """Feeds one token to each row: ids (rows,) -> logits (rows, vocab); updates the state.

        At the first step the ids are on the model's `device`, or on the source's if the model has
        no such attribute; later they are on the device of the logits.
        """


class Prompted(Protocol[StateT_contra]):
    """What a model must have in addition to continue prompts (GPT)."""

    vocab: int

    def read(self, prompts: Ragged, state: StateT_contra, tap: Tap | None = None) -> Tensor:
        """Appends several tokens to each row of the state -> logits of the next (rows, vocab)."""


@torch.inference_mode()
def run(
    model: Generative[Source, MemoryT, StateT],
    source: Source | None,
    requests: Sequence[Request],
    symbols: Symbols,
    config: DecodeConfig,
    options: DecodeInputs[MemoryT],
) -> Iterator[tuple[int, Choice, Search]]:
    """The decoding loop: model step, choice of tokens, reordering of rows, until all are done.

    Yields:
        The step's index, its choice, and the search with the hypotheses so far.
    """
    if not requests:
        return
    length = max(request.uncounted + request.max_length for request in requests)
    device, tap, memory = input_device(model, source), options.get("tap"), options.get("memory")
    LOADER.prepare(model, length)
    if memory is None and source is not None:
        with free_cores():
            memory = model.encode(source.to(device), tap)
    prompts = [request.prompt for request in requests]
    # All hypotheses of a sequence begin with the same token, so the first step has one row for it.
    rows = len(requests) if memory is None else 1
    capacity = length + max(map(len, prompts))
    state = model.start(cast("MemoryT", memory), rows, capacity)  # None where there is no encoder
    search_class = BeamSearch if config.beam > 1 else Sampling
    search: Search = search_class(requests, symbols, config, options.get("forbidden"))
    ids = torch.full((len(requests),), symbols.begin, device=device)
    for index in range(length):
        with free_cores():
            if index == 0 and prompts[0]:
                prompt_ids = Ragged.of(prompts).to(device)
                logits = cast("Prompted[StateT]", model).read(prompt_ids, state, tap)
            else:
                logits = model.step(ids, state, tap)
            if tap is not None:
                tap.next_step()
            if index == 0:
                check_prefixes(requests, vocab=logits.shape[1])
                logits = logits.repeat_interleave(search.running.width, dim=0)
            choice = search.choose(logits)
        yield index, choice, search
        if not choice.ids.numel():
            return
        with free_cores():
            state.reorder(choice.rows)  # a CPU tensor: see State.reorder
            ids = choice.ids.to(logits.device)


def input_device(model: object, source: Input | None) -> torch.device:
    """The device of the model's input: `model.device`, or the source's if there is none."""
    device: torch.device | None = getattr(model, "device", None)
    if device is not None:
        return device
    return torch.device("cpu") if source is None else source.device


def check_prefixes(requests: Sequence[Request], vocab: int) -> None:
    """Raises InputError if a forced token is not in the model's vocabulary."""
    for request in requests:
        for token in (*request.prefix, max(request.forced_end, 0)):
            if not 0 <= token < vocab:
                what, expected = f"prefix of sentence {request.number}", f"0 to {vocab - 1}"
                raise InputError(what, got=f"token {token}", expected=expected)
