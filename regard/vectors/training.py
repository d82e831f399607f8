"""Train word vectors on text: skip-gram and CBOW with negative sampling (Mikolov et al. 2013).

This is a training loop of its own, since an update touches only the rows of the words it read,
whereas the general loop updates every weight. The text is read in blocks, and a block is divided
into pieces of some tens of words. All pairs of a piece are computed as one matrix product, with
negatives shared by the piece (after Ji et al. 2016, who share them over a window). 16 pieces make
one update.

The random draws of a block depend only on seed, epoch and block. One thread computes the updates
while another one draws for the next block. So the vectors are a function of text, recipe and seed
for any number of threads, and a resumed run continues bit for bit.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, TypeAdapter
from torch import Tensor

from regard.checkpoint import run as checkpoint
from regard.checkpoint.folder import (
    MODEL,
    TRAINING,
    TRAINING_TENSORS,
    Snapshot,
    check_tensors,
    folder_name,
)
from regard.checkpoint.run import RunLock
from regard.config import Config, checked
from regard.data.text.documents import TextFiles
from regard.errors import FoundProblems, InputError, Interrupted
from regard.recipes import recipe as recipes
from regard.runtime.cores import torch_threads
from regard.runtime.device import check_memory
from regard.runtime.files import write_file
from regard.runtime.ranks import ranks_here
from regard.runtime.sharing import MACHINE
from regard.runtime.stopping import signal_name
from regard.train.log import MetricsLog, TrainingProgress
from regard.train.signals import StopRequest, stop_requests
from regard.vectors.recipe import FORM, RATES, VectorsRecipe, VectorsTrainConfig
from regard.vectors.store import TENSOR, config_of, from_snapshot, words_in, words_json
from regard.vectors.table import WordVectors
from regard.vectors.text import END, TokenizedText, read_text, text_of

BLOCK = 2**16
"""Words per step."""
PIECES = 16
"""Pieces per update."""
OUTPUTS = "outputs"
"""The output vector of each word, used to predict it; only training needs it."""
MAX_MOVE = 1.0
"""The largest length by which an update moves a vector. All gradients of an update are taken at the
same point; for a very frequent word in a small vocabulary their sum would diverge."""
MAY_CHANGE = {"train.save_every", "train.keep"}
"""The keys of the recipe that may change when a run is resumed."""

_logger = logging.getLogger(__name__)

Ids = npt.NDArray[np.int64]


class _Progress(Config):
    """The progress of a run in `training.json`."""

    step: int = Field(ge=1, le=2**53)
    seconds: float = Field(ge=0, le=1e12)
    best: None = None


class _Facts(Config):
    """The contents of `training.json`: progress, torch version, and checksums of the data."""

    place: _Progress
    torch: str
    data: dict[str, Annotated[str, Field(max_length=64)]]


def check_device(device: Any) -> None:
    """Reject devices other than the CPU, and several processes, which are not supported here."""
    if str(device) not in ("auto", "cpu"):
        raise InputError("device", got=device, expected="auto or cpu, for word vectors")
    if ranks_here().world > 1:
        got = f"{ranks_here().world} processes"
        raise InputError("train", got=got, expected="one, for word vectors")


def train_vectors(
    recipe: VectorsRecipe,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    quiet: bool = False,
    threads: int = 2,
) -> WordVectors:
    """Train word vectors on the text of a recipe.

    Args:
        recipe: A recipe with `task: vectors`.
        out: The folder of the run; without one, nothing is written to disk.
        resume: Continue from the run's last checkpoint.
        quiet: Show no progress.
        threads: With 2 or more, random draws run in a second thread; the result is the same.
    """
    text = text_of(recipe)
    if not resume and isinstance(text, TextFiles) and (lines := text.describe()):
        _logger.warning("data: %s", "; ".join(lines))
    if out is None:
        return _Training(recipe, None, quiet=quiet, threads=threads).run()
    run = Path(out)
    with RunLock(run):
        start = _checkpoint_to_resume(run, recipe, resume=resume)
        return _Training(recipe, run, start, quiet=quiet, threads=threads).run()


def _checkpoint_to_resume(run: Path, recipe: VectorsRecipe, *, resume: bool) -> Snapshot | None:
    """The checkpoint to resume from; None if the run starts from step 0.

    Raises:
        InputError: If a new run's folder already holds a run, or a resumed run's recipe changed.
    """
    if not resume:
        recipes.check_unused(run, FORM)
        return None

    def changed_keys(text: str, file: str) -> list[str]:
        old = recipes.form_from_text(FORM, text, file)
        return [key for key in recipes.changed(old, recipe) if key not in MAY_CHANGE]

    return checkpoint.to_resume(run, changed_keys)


@dataclass(frozen=True, eq=False)
class _Rows:
    """The distinct table rows of each update, so that gradients of the same row can be summed."""

    rows: list[Tensor]
    """For each update, its distinct rows (rows,)."""
    index: Tensor
    """(update, position) For each position in the update, the index of its row in `rows`."""

    @staticmethod
    def of(ids: Ids, words: int) -> _Rows:
        """From word ids (update, position) and the vocabulary size."""
        keys = ids + words * np.arange(len(ids))[:, None]
        distinct, inverse = np.unique(keys, return_inverse=True)
        starts = np.searchsorted(distinct, words * np.arange(len(ids) + 1))
        rows = np.split(distinct % words, starts[1:-1])
        index = inverse.reshape(ids.shape) - starts[:-1, None]
        return _Rows([torch.from_numpy(part) for part in rows], torch.from_numpy(index))

    def move(self, table: Tensor, update: int, steps: Tensor, rate: float) -> None:
        """Add rate × steps (position, dim) to the rows of a table (words, dim), in place.

        The summed step of each row is clipped to the length `MAX_MOVE`.
        """
        rows = self.rows[update]
        row_steps = torch.zeros(len(rows), table.shape[1])
        row_steps.index_add_(0, self.index[update], steps, alpha=rate)
        length = torch.linalg.vector_norm(row_steps, dim=1, keepdim=True)
        table.index_add_(0, rows, row_steps.mul_((MAX_MOVE / length).clamp_(max=1)))


@dataclass(frozen=True, eq=False)
class _Batches:
    """The training data drawn for one block of text, divided into updates and pieces."""

    tokens: Tensor
    """(update, piece × word) Word ids; unused positions have id 0 and no pairs."""
    negatives: Tensor
    """(update, piece × negative) Word ids of the negative samples."""
    pairs: Tensor
    """(update, piece, input, output) 1 where the input word is to predict the output word."""
    inputs: _Rows
    """The rows of the input vectors that are updated."""
    outputs: _Rows
    """The rows of the output vectors that are updated: those of words, then of negatives."""


class _Sampler:
    """Draws words, context sizes and negatives for each block.

    Args:
        text: The text as word ids.
        config: Window, negatives, subsampling.
        seed: The seed of the run.
    """

    def __init__(self, text: TokenizedText, config: VectorsTrainConfig, seed: int) -> None:
        self.stream, self.config, self.seed = text.stream, config, seed
        self.length = piece_length(config.window)
        counts = text.counts.astype(np.float64)
        self.keep = keep_probability(counts, config.subsample).astype(np.float32)
        totals = np.cumsum(counts**config.power)
        self.cumulative = totals / totals[-1]
        apart = np.abs(np.subtract.outer(np.arange(self.length), np.arange(self.length)))
        self.apart = apart.astype(np.int16)

    @property
    def blocks(self) -> int:
        """The number of blocks of an epoch."""
        return math.ceil(len(self.stream) / BLOCK)

    def block(self, step: int) -> _Batches | None:
        """The training data of a step; None if subsampling leaves no words."""
        epoch, block = divmod(step, self.blocks)
        draw = np.random.Generator(np.random.PCG64([self.seed, epoch, block]))
        ids = self.stream[block * BLOCK : (block + 1) * BLOCK]
        line_numbers = np.cumsum(ids == END, dtype=np.int32)
        is_drawn = draw.random(len(ids), np.float32) < self.keep[ids]
        kept_indices = np.flatnonzero(is_drawn & (ids != END))
        if not len(kept_indices):
            return None
        # Pieces begin at a random offset, so that the pairs lost at piece ends differ by epoch.
        offset = int(draw.integers(self.length))
        end = offset + len(kept_indices)
        updates = math.ceil(end / (PIECES * self.length))
        tokens = np.zeros(updates * PIECES * self.length, np.int64)
        tokens[offset:end] = ids[kept_indices]
        lines = np.full(len(tokens), -1, np.int32)
        lines[offset:end] = line_numbers[kept_indices]
        reach = np.zeros(len(tokens), np.int16)
        reach[offset:end] = draw.integers(1, self.config.window + 1, len(kept_indices), np.int16)
        shape = (updates, PIECES, self.length)
        pairs = _pair_mask(lines.reshape(shape), reach.reshape(shape), self.apart)
        negatives = np.searchsorted(self.cumulative, draw.random(len(tokens)), side="right")
        negatives = np.minimum(negatives, len(self.cumulative) - 1)
        # (update, piece × word)
        word_ids, negative_ids = tokens.reshape(updates, -1), negatives.reshape(updates, -1)
        output_ids, vocabulary = np.concatenate([word_ids, negative_ids], 1), len(self.cumulative)
        inputs, outputs = _Rows.of(word_ids, vocabulary), _Rows.of(output_ids, vocabulary)
        words, drawn, is_pair = map(torch.from_numpy, (word_ids, negative_ids, pairs))
        return _Batches(words, drawn, is_pair, inputs, outputs)


def _pair_mask(
    lines: npt.NDArray[np.int32], reach: npt.NDArray[np.int16], apart: npt.NDArray[np.int16]
) -> npt.NDArray[np.float32]:
    """Which words form pairs: within reach of the output word and in the same line.

    Args:
        lines: (update, piece, word) The number of each word's line.
        reach: (update, piece, word) The context size drawn for each word.
        apart: (word, word) The distance of two positions in a piece.

    Returns:
        (update, piece, input, output) 1 for a pair, else 0.
    """
    is_pair = (apart <= reach[..., None, :]) & (apart > 0)
    is_pair &= lines[..., :, None] == lines[..., None, :]
    return is_pair.astype(np.float32)


def piece_length(window: int) -> int:
    """The number of words of a piece: several windows, since windows are cut off at its ends."""
    return 32 * math.ceil(window / 8)


def keep_probability(counts: npt.NDArray[np.float64], subsample: float) -> npt.NDArray[np.float64]:
    """The probability to keep a word: min(1, √(t/f) + t/f) for share f, as in word2vec's code.

    Example:
        >>> keep_probability(np.array([900.0, 90.0, 10.0]), 0.01).round(3).tolist()
        [0.117, 0.444, 1.0]
    """
    if not subsample:
        return np.ones_like(counts)
    ratio = subsample * counts.sum() / counts
    return np.minimum(1, np.sqrt(ratio) + ratio)


class _Training:
    """One training run, from its start or a checkpoint to its last step.

    Args:
        recipe: The recipe of the run.
        run: The folder for checkpoints and metrics; None writes nothing.
        start: The checkpoint to resume from.
        quiet: Show no progress.
        threads: The number of threads; with 2 or more, draws run in a second thread.
    """

    def __init__(
        self,
        recipe: VectorsRecipe,
        run: Path | None,
        start: Snapshot | None = None,
        *,
        quiet: bool,
        threads: int,
    ) -> None:
        self.recipe, self.path, self.quiet, self.threads = recipe, run, quiet, threads
        source = text_of(recipe)
        sums = source.checksums() if run is not None else {}
        self.text = read_text(source, recipe.tokens)
        self.facts = {"torch": str(torch.__version__), "data": sums}
        self.sampler = _Sampler(self.text, recipe.train, recipe.seed)
        self.steps = self.sampler.blocks * recipe.train.epochs
        self.step, self.seconds, self._clock = 0, 0.0, 0.0
        words, dim = len(self.text.words), recipe.model.dim
        check_memory(f"{words:,} words of {dim:,} numbers", words * dim * 4 * 4)
        draw = np.random.Generator(np.random.PCG64([recipe.seed, 2**32]))
        initial_vectors = (draw.random((words, dim), np.float32) - 0.5) / dim
        self.vectors, self.outputs = torch.from_numpy(initial_vectors), torch.zeros(words, dim)
        if start is not None:
            self._restore(start)

    def run(self) -> WordVectors:
        """Train until the last step or a stop signal; returns the vectors."""
        if self.step == self.steps and self.step:
            _logger.warning("the run was complete at step %d; nothing was left to do", self.step)
            return self._to_vectors()
        if self.path is not None:
            write_file(self.path / "recipe.yaml", recipes.dump(self.recipe).encode())
        bar = TrainingProgress(self.steps, self.step, quiet=self.quiet, unit="words")
        # With one thread the results are the same bit for bit, whatever the machine.
        one_thread = torch_threads(1)
        with stop_requests() as request, bar, one_thread, torch.no_grad(), self._open_log() as log:
            self._clock = time.perf_counter()
            for batches in self._draw_ahead():
                self._run_step(batches, bar, log)
                self._save_or_stop(request)
        return self._to_vectors()

    def _draw_ahead(self) -> Iterator[_Batches | None]:
        """The training data of each remaining step; a second thread draws one step ahead."""
        steps = range(self.step, self.steps)
        if self.threads < 2:
            yield from map(self.sampler.block, steps)
            return
        with ThreadPoolExecutor(1) as pool:
            next_batches = pool.submit(self.sampler.block, self.step)
            for step in steps:
                batches = next_batches.result()
                if step + 1 < self.steps:
                    next_batches = pool.submit(self.sampler.block, step + 1)
                yield batches

    def _run_step(
        self, batches: _Batches | None, bar: TrainingProgress, log: MetricsLog | None
    ) -> None:
        """Run one step, all updates of a block, and log its loss and speed."""
        MACHINE.watch(1)
        loss = math.nan
        if batches is not None:
            loss, updates = self._loss(batches), len(batches.tokens)
            for update in range(updates):
                self._update(batches, update, self._rate(self.step + update / updates))
        now = time.perf_counter()
        spent, self._clock = now - self._clock, now
        self.step, self.seconds = self.step + 1, self.seconds + spent
        epoch, block = divmod(self.step - 1, self.sampler.blocks)
        share = min(BLOCK, len(self.text.stream) - block * BLOCK) / len(self.text.stream)
        speed = share * self.text.total / max(spent, 1e-9)
        values = {
            "loss": loss,
            "learning_rate": self._rate(self.step - 1),
            "words_per_second": round(speed, 1),
            "seconds": round(self.seconds, 3),
            "epoch": epoch,
        }
        if log is not None:
            log.write(self.step, values)
        bar.update(self.step, loss, speed)

    def _rate(self, done: float) -> float:
        """The learning rate after `done` steps: linear decay down to `final_rate`."""
        config = self.recipe.train
        first = config.learning_rate or RATES[self.recipe.model.kind]
        return max(config.final_rate, first * (1 - done / self.steps))

    def _vectors_of(self, batches: _Batches, update: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The vectors of one update.

        Returns:
            Input vectors, output vectors and output vectors of the negatives, each (piece, word,
            dim), and the pairs (piece, input, output).
        """
        words, negatives = batches.tokens[update], batches.negatives[update]
        shape = (PIECES, self.sampler.length, -1)
        return (
            self.vectors.index_select(0, words).view(shape),
            self.outputs.index_select(0, words).view(shape),
            self.outputs.index_select(0, negatives).view(shape),
            batches.pairs[update],
        )

    def _update(self, batches: _Batches, update: int, rate: float) -> None:
        """Apply one update to the vectors of its words and negatives."""
        inputs, outputs, negatives, pairs = self._vectors_of(batches, update)
        share = self.recipe.train.negatives / self.sampler.length
        step = skip_gram if self.recipe.model.kind == "skip-gram" else cbow
        for_inputs, for_outputs, for_negatives = step(inputs, outputs, negatives, pairs, share)
        dim = self.vectors.shape[1]
        output_steps = torch.cat([for_outputs.view(-1, dim), for_negatives.view(-1, dim)])
        batches.inputs.move(self.vectors, update, for_inputs.view(-1, dim), rate)
        batches.outputs.move(self.outputs, update, output_steps, rate)

    def _loss(self, batches: _Batches) -> float:
        """The mean loss of a pair with its negatives, over the first update of a block."""
        inputs, outputs, negatives, pairs = self._vectors_of(batches, 0)
        if self.recipe.model.kind == "cbow":
            inputs, has_input = context(inputs, pairs)
            positive = (inputs * outputs).sum(2, keepdim=True)
            pairs = has_input
        else:
            positive = inputs @ outputs.transpose(1, 2)
            has_input = pairs.sum(2, keepdim=True)
        log_of = torch.nn.functional.logsigmoid
        negative = inputs @ negatives.transpose(1, 2)
        share = self.recipe.train.negatives / self.sampler.length
        total = (log_of(positive) * pairs).sum() + (log_of(-negative) * has_input * share).sum()
        return float(-total / pairs.sum().clamp(min=1))

    def _save_or_stop(self, request: StopRequest) -> None:
        """Save a checkpoint if one is due or a stop was requested, then stop if requested."""
        stopping = request.signal is not None and self.step < self.steps
        due = self.step % self.recipe.train.save_every == 0 or self.step == self.steps
        if due or stopping:
            self._save()
            self._clock = time.perf_counter()  # saving does not count as training time
        if stopping and request.signal is not None:
            message = f"stopped by {signal_name(request.signal)} after step {self.step}"
            if self.path is not None:
                message += ", saved; continue with the same command and --resume"
            raise Interrupted(message, signal=request.signal)

    def _save(self) -> None:
        """Write a checkpoint; raise an error if the vectors are not finite."""
        if not all(bool(table.isfinite().all()) for table in (self.vectors, self.outputs)):
            problem = f"training stopped at step {self.step}: the vectors are not finite"
            fix = "lower train.learning_rate; earlier checkpoints are unchanged"
            raise FoundProblems(problem, fix=fix)
        if self.path is not None:
            checkpoint.save(self.path, self._snapshot(), self.recipe.train.keep, None)

    def _snapshot(self) -> Snapshot:
        """Collect all that a checkpoint stores."""
        progress = {"step": self.step, "seconds": round(self.seconds, 3), "best": None}
        words = self.text.words
        return Snapshot(
            step=self.step,
            weights={TENSOR: self.vectors},
            config=config_of(len(words), self.recipe.model.dim) | {"kind": self.recipe.model.kind},
            tokenizer=words_json(words, self.text.counts.tolist()),
            recipe=recipes.dump(self.recipe),
            training_tensors={OUTPUTS: self.outputs},
            training={"place": progress, **self.facts},
        )

    def _restore(self, start: Snapshot) -> None:
        """Load a checkpoint after checking it against the text and the recipe.

        Raises:
            InputError: If data, words or shapes differ from those of the run.
        """
        folder = folder_name(start.step)
        facts = checked(TypeAdapter(_Facts), dict(start.training), f"{folder}/{TRAINING}")
        if facts.data != self.facts["data"]:
            what = "--resume with other data: the text changed since the run began"
            raise InputError(what, fix="put the data back as it was, or start a new run")
        if facts.place.step != start.step or start.step > self.steps:
            got, expected = facts.place.step, f"{start.step}, of {self.steps}"
            raise InputError(f"{folder}/{TRAINING}: place.step", got=got, expected=expected)
        if words_in(start.tokenizer, folder) != self.text.words:
            raise InputError(f"{folder}/tokenizer.json", got="other words than the text's",
                             expected="the same")  # fmt: skip
        check_tensors(f"{folder}/{MODEL}", start.weights, {TENSOR: self.vectors})
        outputs = {OUTPUTS: self.outputs}
        check_tensors(f"{folder}/{TRAINING_TENSORS}", start.training_tensors, outputs)
        self.vectors, self.outputs = start.weights[TENSOR], start.training_tensors[OUTPUTS]
        self.step, self.seconds = start.step, facts.place.seconds

    def _open_log(self) -> AbstractContextManager[MetricsLog | None]:
        """Open the metrics log; without a folder, a context that gives None."""
        if self.path is None:
            return nullcontext()
        return closing(MetricsLog(self.path / "metrics.jsonl", after=self.step or -1))

    def _to_vectors(self) -> WordVectors:
        name = "vectors" if self.path is None else str(self.path)
        return from_snapshot(self._snapshot(), name)


Gradients = tuple[Tensor, Tensor, Tensor]
"""Gradients of the log-likelihood for inputs, outputs and negatives: (piece, word, dim) each."""


def skip_gram(
    inputs: Tensor, outputs: Tensor, negatives: Tensor, pairs: Tensor, share: float
) -> Gradients:
    """The gradients of skip-gram with negative sampling, to be added (gradient ascent).

    The objective is Σ log σ(in · out) over pairs + share × Σ log σ(−in · negative) over pairs and
    all negatives of their piece.

    Args:
        inputs: (piece, word, dim)
        outputs: (piece, word, dim)
        negatives: (piece, negative, dim)
        pairs: (piece, word, word) 1 where an input is to predict an output.
        share: The weight of each negative: negatives per pair / negatives per piece.
    """
    positive = (inputs @ outputs.transpose(1, 2)).neg_().sigmoid_().mul_(pairs)  # 1 − σ(in · out)
    negative = (inputs @ negatives.transpose(1, 2)).sigmoid_()
    negative.mul_(pairs.sum(2, keepdim=True).mul_(-share))
    for_inputs = torch.baddbmm(negative @ negatives, positive, outputs)
    return for_inputs, positive.transpose(1, 2) @ inputs, negative.transpose(1, 2) @ inputs


def context(inputs: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """The CBOW context of each output: the mean of the inputs that are to predict it.

    Returns:
        The means (piece, word, dim), and (piece, word, 1) with 1 where there is any input, else 0.
    """
    count = pairs.sum(1).unsqueeze(2)
    return (pairs.transpose(1, 2) @ inputs) / count.clamp(min=1), count.clamp(max=1)


def cbow(
    inputs: Tensor, outputs: Tensor, negatives: Tensor, pairs: Tensor, share: float
) -> Gradients:
    """The gradients of CBOW with negative sampling; arguments as for `skip_gram`.

    The mean of the inputs predicts the output. Each input gets the whole gradient of the mean, as
    in word2vec's code; the exact gradient would be divided by the number of inputs.
    """
    mean, has_input = context(inputs, pairs)
    positive = (mean * outputs).sum(2, keepdim=True).neg_().sigmoid_().mul_(has_input)
    negative = (mean @ negatives.transpose(1, 2)).sigmoid_().mul_(has_input * -share)
    for_mean = torch.baddbmm(positive * outputs, negative, negatives)
    return pairs @ for_mean, positive * mean, negative.transpose(1, 2) @ mean
