"""`WritingTask`, the base class of the tasks whose models write text.

It has their loss per token, decoding in batches, and the attention while a text is written. Token
ids come in, of sources to translate or of prompts to continue; hypotheses go out, decoded to text,
or one after the other the steps in which they are decoded.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from regard.data.batch import Batch
from regard.decode import engine
from regard.decode.config import DecodeConfig
from regard.decode.engine import Step
from regard.decode.filters import Symbols
from regard.decode.many import decode_many
from regard.decode.search import Forbidden, Hypothesis
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.inputs.reader import Encoded
from regard.layers import Tap
from regard.models.mode import evaluating
from regard.tasks.base_task import BaseTask, max_lengths, per_token
from regard.tasks.head_batches import inputs_of
from regard.tasks.trace import Trace, first_records

Result = TypeVar("Result")
Ids = Sequence[int]
_logger = logging.getLogger(__name__)


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


class WritingTask(BaseTask, ABC):
    """Base class of the tasks whose models write text."""

    smoothing: float
    """Label smoothing ε in training."""
    rows_at_once: ClassVar[int] = 32
    """Hypotheses per decoding batch."""

    @abstractmethod
    def symbols(self) -> Symbols:
        """The special tokens of decoding."""

    @abstractmethod
    def decode_output(self, ids: Ids) -> str:
        """Decodes the ids of an output to text."""

    def target_ids(self, text: str, longest: int) -> list[int]:
        """Encodes a given target; raises an error if the model cannot write it."""
        raise NotImplementedError

    def longest_output(self, model: Any) -> int:
        """The most tokens of an output, with its end."""
        longest: int = model.config.output_length
        return longest

    def opening(self, text: str, longest: int) -> list[int]:
        """Encodes the prefix that an output must begin with; no ids for an empty text."""
        return self.target_ids(text, longest) if text else []

    def read_prompts(self, model: Any, items: Sequence[str], **options: Any) -> list[Encoded]:
        """Reads texts to be continued or completed; by default as `read` does."""
        return self.read(model, items, **options)

    def predict(
        self,
        model: Any,
        encoded: Sequence[Encoded],
        config: DecodeConfig,
        *,
        prefixes: Sequence[str] | None = None,
        tap: Tap | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> list[list[Output]]:
        """The best outputs for each text, best first; see `outputs`.

        `prefixes` are the texts that the outputs must begin with.
        """
        ids, longest = [text.values for text in encoded], self.longest_output(model)
        openings = None if prefixes is None else [self.opening(text, longest) for text in prefixes]
        return self.outputs(model, ids, config, prefixes=openings, tap=tap, on_progress=on_progress)

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
            for batch in (batch.to(model.device) for batch in batches):
                total += float(model.loss(*inputs_of(batch), batch.targets.ids))
                count += self.targets(batch)
                if on_progress is not None:
                    on_progress(sum(side.ids.numel() for side in inputs_of(batch)))
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

        def decode(rows: list[int]) -> list[list[Hypothesis]]:
            begins = None if prefixes is None else [prefixes[i] for i in rows]
            return self._search(engine.decode, model, [ids[i] for i in rows], config, begins, tap)

        with evaluating(model):
            lengths = [*map(len, ids)]
            n_best = decode_many(
                lengths, decode, config, rows=self.rows_at_once, tap=tap, on_progress=on_progress
            )
        return [
            [Output(self.decode_output(hypothesis.ids), hypothesis) for hypothesis in hypotheses]
            for hypotheses in n_best
        ]

    def steps(self, model: Any, ids: Ids, config: DecodeConfig, prefix: Ids = ()) -> Iterator[Step]:
        """The steps in which the output for one source or prompt is decoded; see `outputs`."""
        return self._search(engine.stream, model, [ids], config, [prefix])

    def stream_source(
        self, model: Any, encoded: Encoded, config: DecodeConfig, prefix: str = ""
    ) -> Iterator[str]:
        """Yields the output for a source piece by piece while it is decoded; none is revised later.

        In beam search a token is final once all beams agree on it, so an output may grow by several
        words at a time.
        """
        begin = self.opening(prefix, self.longest_output(model))
        return self.stream_pieces(model, self.steps(model, encoded.values, config, begin))

    def stream_pieces(self, model: Any, steps: Iterator[Step]) -> Iterator[str]:
        """Yields the text of the ids that each decoding step settles, and the rest at the end."""
        writer, yielded_text, decoded = self.vocabulary.target.stream_decoder(), "", 0
        with evaluating(model):
            for step in steps:
                for ids in step.stable_prefixes:
                    new_text = "".join(map(writer.push, ids[decoded:]))
                    decoded = len(ids)
                    if new_text:
                        yielded_text += new_text
                        yield new_text
                for _, hypotheses in step.done:
                    final_text = self.decode_output(hypotheses[0].ids)
                    if final_text != yielded_text or not yielded_text:
                        yield final_text[len(yielded_text) :]

    def _search(
        self,
        decode: Callable[..., Result],
        model: Any,
        ids: Sequence[Ids],
        config: DecodeConfig,
        prefixes: Sequence[Ids] | None,
        tap: Tap | None = None,
    ) -> Result:
        """Calls `engine.decode` or `engine.stream` with the arguments that both take."""
        has_source = model.config.has_target
        return decode(
            model,
            Ragged.of(ids) if has_source else None,
            self.symbols(),
            config,
            prompts=None if has_source else ids,
            prefixes=prefixes,
            tap=tap,
            max_lengths=max_lengths(map(len, ids)),
            limit=model.config.max_length,
            forbidden=self.forbidden(config),
        )

    def trace(
        self,
        model: Any,
        text: str,
        tap: Tap,
        *,
        decode: DecodeConfig,
        target: str | None = None,
        allow_unknown: bool = True,
    ) -> Trace:
        """Reads a source, decodes or forces its target, and returns the recorded attention.

        Args:
            model: The encoder-decoder.
            text: The source.
            tap: Records the attention weights.
            decode: The decoding settings, if no target is given; the recorded weights are then
                those of the best hypothesis.
            target: A target to force instead of decoding one.
            allow_unknown: Whether the source may contain unknown words.
        """
        longest, vocabulary, note = model.config.max_length, self.vocabulary, ""
        [encoded] = self.read(model, [text], allow_unknown=allow_unknown)
        warn_unknown(encoded)
        source = encoded.values
        if target is None:
            [[best, *_]] = self.predict(model, [encoded], decode, tap=tap)
            ids, finished = list(best.hypothesis.ids), best.hypothesis.finished
            weights = first_records(tap) | tap.follow(best.hypothesis.rows)
            if not finished:
                note = "the output did not end by itself: it was cut at the maximal length"
        else:
            ids, finished = self.target_ids(target, longest), True
            with evaluating(model):
                sides = Ragged.of([source]), Ragged.of([[vocabulary.target.begin, *ids]])
                model(*(side.to(model.device) for side in sides), tap)
            weights, note = first_records(tap), "the output was given"
        # An output cut at its maximal length has no step that writes the end symbol, so its
        # last token is never read.
        output = [*ids, vocabulary.target.end] if finished else ids
        target_input = [vocabulary.target.begin, *ids][: len(output)]
        keys, queries = vocabulary.source.words(source), vocabulary.target.words(output)
        words = {
            "encoder.self": (keys, keys),
            "decoder.self": (queries, vocabulary.target.words(target_input)),
            "decoder.cross": (queries, keys),
        }
        inputs, outputs = vocabulary.source.tokens(source), vocabulary.target.tokens(target_input)
        pieces = {
            "encoder.self": (inputs, inputs),
            "decoder.self": (outputs, outputs),
            "decoder.cross": (outputs, inputs),
        }
        return Trace(weights, words, self.decode_output(ids), note, pieces=pieces)


def warn_unknown(encoded: Encoded) -> None:
    """Logs a warning about the words of a text that the vocabulary does not have."""
    if encoded.unknown:
        _logger.warning("warning: the model does not know: %s", ", ".join(encoded.unknown))


def check_length(tokens: int, what: str, longest: int) -> None:
    """Raises an error if a text has no tokens, or more than `longest`."""
    if not tokens:
        raise InputError(what, got="nothing", expected="some words")
    if tokens > longest:
        got, expected = f"{tokens} tokens", f"at most {longest} (model.max_length)"
        raise InputError(f"{what} is too long", got=got, expected=expected, fix="give it in parts")
