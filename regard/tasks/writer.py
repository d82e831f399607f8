"""Base class of the tasks whose models write text: their loss per token, and decoding in batches.

Token ids come in, of sources to translate or of prompts to continue; hypotheses go out, decoded to
text, or one after the other the steps in which they are decoded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from regard.data.batch import Batch
from regard.data.input import Ragged
from regard.decode import engine
from regard.decode.config import DecodeConfig
from regard.decode.engine import Step
from regard.decode.filters import Symbols
from regard.decode.many import decode_many
from regard.decode.search import Forbidden, Hypothesis
from regard.errors import InputError
from regard.layers import Tap
from regard.models.mode import evaluating
from regard.tasks.head_batches import inputs_of
from regard.tasks.task import BaseTask, max_lengths, per_token

Found = TypeVar("Found")
Ids = Sequence[int]


@dataclass(frozen=True)
class Output:
    """One output for one source or prompt: its text, and its hypothesis."""

    text: str
    hypothesis: Hypothesis

    @property
    def logprob(self) -> float:
        """The log-probability of the tokens."""
        return self.hypothesis.logprob

    @property
    def score(self) -> float:
        """The score by which the search ranks hypotheses."""
        return self.hypothesis.score


class WritesText(BaseTask, ABC):
    """Base class of the tasks whose models write text."""

    smoothing: float
    """Label smoothing ε in training."""
    rows_at_once: ClassVar[int] = 32
    """Hypotheses per decoding batch."""

    @abstractmethod
    def symbols(self) -> Symbols:
        """The special tokens of decoding."""

    @abstractmethod
    def written(self, ids: Ids) -> str:
        """Decodes the ids of an output to text."""

    def forbidden(self, config: DecodeConfig) -> Forbidden | None:
        """A function that forbids tokens, depending on those before them; None: none is."""
        del config
        return None

    def targets(self, batch: Batch[Ragged]) -> int:
        """The number of target tokens, end symbols included; batches have no padding."""
        return batch.targets.ids.numel()

    def loss(self, model: Any, batch: Batch[Ragged]) -> Tensor:
        """Cross-entropy with label smoothing, summed over the target tokens: a scalar.

        The smoothed target has 1 - ε on the right token and ε spread over all tokens. The
        cross-entropy differs from the KL divergence only by a constant.
        """
        return model.loss(*inputs_of(batch), batch.targets.ids, self.smoothing)

    def likelihood(
        self,
        model: Any,
        batches: Iterable[Batch[Ragged]],
        on_progress: Callable[[int], None] | None = None,
    ) -> dict[str, float]:
        """Mean negative log-likelihood per target token (without smoothing), and perplexity.

        Args:
            model: The model.
            batches: The texts, or the sources and targets.
            on_progress: Called after each batch with its number of tokens that the model reads.
        """
        total, count = 0.0, 0
        with evaluating(model):
            for made in batches:
                batch = made.to(model.device)
                total += float(model.loss(*inputs_of(batch), batch.targets.ids))
                count += self.targets(batch)
                if on_progress is not None:
                    on_progress(sum(each.ids.numel() for each in inputs_of(batch)))
        return per_token(total, count)

    def outputs(
        self,
        model: Any,
        ids: Sequence[Ids],
        config: DecodeConfig,
        *,
        prefixes: Sequence[Ids] | None = None,
        tap: Tap | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> list[list[Output]]:
        """The best outputs for each source or prompt, best first, in their order.

        Args:
            model: The model.
            ids: The ids of each source of an encoder-decoder, or of each prompt of a decoder.
            config: The decoding settings.
            prefixes: The ids that each output must begin with.
            tap: Records or edits activations. A record belongs to one batch, with rows in the order
                of `ids`; so with a tap everything is decoded in a single batch.
            on_progress: Called with the number of sources or prompts just decoded.
        """

        def some(part: list[int]) -> list[list[Hypothesis]]:
            chosen = None if prefixes is None else [prefixes[i] for i in part]
            return self._run(engine.decode, model, [ids[i] for i in part], config, chosen, tap)

        with evaluating(model):
            lengths, rows = [*map(len, ids)], self.rows_at_once
            found = decode_many(lengths, some, config, rows=rows, tap=tap, on_progress=on_progress)
        return [[Output(self.written(each.ids), each) for each in some] for some in found]

    def steps(self, model: Any, ids: Ids, config: DecodeConfig, prefix: Ids = ()) -> Iterator[Step]:
        """The steps in which the output for one source or prompt is decoded; see `outputs`."""
        return self._run(engine.stream, model, [ids], config, [prefix])

    def _run(
        self,
        decode: Callable[..., Found],
        model: Any,
        ids: Sequence[Ids],
        config: DecodeConfig,
        prefixes: Sequence[Ids] | None,
        tap: Tap | None = None,
    ) -> Found:
        """Calls `engine.decode` or `engine.stream` with the arguments that both take."""
        reads = model.config.sides == 2
        return decode(
            model,
            Ragged.of(ids) if reads else None,
            self.symbols(),
            config,
            prompts=None if reads else ids,
            prefixes=prefixes,
            tap=tap,
            max_lengths=max_lengths(map(len, ids)),
            limit=model.config.max_length,
            forbidden=self.forbidden(config),
        )


def check_length(ids: list[int], what: str, longest: int) -> list[int]:
    """Returns the ids; raises an error if there are none or more than `longest`."""
    if not ids:
        raise InputError(what, got="nothing", expected="some words")
    if len(ids) > longest:
        raise InputError(
            f"{what} is too long",
            got=f"{len(ids)} tokens",
            expected=f"at most {longest} (model.max_length)",
            fix="give it in parts",
        )
    return ids
