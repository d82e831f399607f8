"""The training loop, one for all model families.

In: a `Job` (model, task, training config) and, if the run is resumed, a checkpoint. Out: trained
weights in the model and, if the run has a folder, checkpoints, metrics and a loss curve in it.

One step takes `accumulate` micro-batches, counts their targets, adds up the gradients of
loss / targets, clips them, and updates the weights unless the loss or the gradient norm is not
finite. Weights are checked for NaN and infinity before they are evaluated or saved, so no
checkpoint holds such a number. A checkpoint holds everything the next step depends on, so a run
that was killed at any moment can be resumed bit for bit.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from pydantic import ConfigDict, Field, TypeAdapter
from torch import Tensor, nn

from regard.checkpoint import run as checkpoint
from regard.checkpoint.folder import (
    MODEL,
    RAW_WEIGHTS,
    TRAINING,
    TRAINING_TENSORS,
    Snapshot,
    check_tensors,
    folder_name,
)
from regard.checkpoint.run import Best, Loss
from regard.config import checked
from regard.data.batch import Cursor
from regard.errors import FoundProblems, InputError, Interrupted
from regard.runtime.device import MOST_THREADS
from regard.runtime.ranks import SINGLE_PROCESS, Ranks
from regard.runtime.sharing import MACHINE
from regard.runtime.stopping import signal_name
from regard.runtime.tensors import find_not_finite
from regard.train import optim
from regard.train.config import TrainConfig
from regard.train.log import (
    MetricsLog,
    TensorBoardLog,
    TrainingProgress,
    Value,
    plot_losses,
    read_metrics,
)
from regard.train.moving_average import MovingAverage
from regard.train.signals import StopRequest, stop_requests
from regard.train.step import MOST_PARTS, choose_strategy, parts_for
from regard.train.task import Learnable

_logger = logging.getLogger(__name__)

BAD_STEPS_ALLOWED = 2
"""How many steps in a row may be skipped because the loss or the gradient norm was not finite.
One more stops the training."""


Count = Annotated[int, Field(ge=0, le=2**53)]
Seconds = Annotated[float, Field(ge=0, le=1e12)]


@dataclass
class TrainingState:
    """The training state that is not a tensor, as `training.json` of a checkpoint stores it."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    step: Count = 0
    cursor: Cursor = field(default_factory=Cursor)
    best: Best | None = None
    evaluations_without_better: Count = 0
    bad_in_a_row: Count = 0
    loss_since_log: Loss = 0.0
    targets_since_log: Count = 0
    seconds_since_log: Seconds = 0.0
    seconds: Seconds = 0.0
    finished: bool = False

    def to_json(self) -> dict[str, Any]:
        """Returns the values as a dict that can be written to training.json."""
        return asdict(self)

    @staticmethod
    def from_json(values: Any, file: str, *, step: int, batches: int) -> TrainingState:
        """Reads and checks the values of training.json.

        Args:
            values: The value under the key "place".
            file: Name of the file, for error messages.
            step: Step of the checkpoint.
            batches: Number of micro-batches that a run has taken after that many steps.

        Raises:
            InputError: A value is missing, or no run can have these values at this step.
        """
        what = f"{file}: place"
        state = checked(_STATE, values, what)
        for section, expected_values, file_values in (
            ("", state.to_json(), values),
            (".cursor", asdict(state.cursor), values.get("cursor", {})),
        ):
            if missing := sorted(expected_values.keys() - file_values.keys()):
                raise InputError(f"{what}{section}.{missing[0]}", got="nothing", expected="a value")
        for key, value, limit in (
            ("best.step", 0 if state.best is None else state.best.step, step),
            ("cursor.epoch", state.cursor.epoch, batches),
            ("cursor.batch", state.cursor.batch, batches - state.cursor.epoch),
            ("evaluations_without_better", state.evaluations_without_better, step),
            ("bad_in_a_row", state.bad_in_a_row, step),
        ):
            if not 0 <= value <= limit:
                raise InputError(f"{what}.{key}", got=value, expected=f"a number from 0 to {limit}")
        if state.cursor.epoch == 0 and state.cursor.batch != batches:
            expected = f"{batches}, in epoch 0"
            raise InputError(f"{what}.cursor.batch", got=state.cursor.batch, expected=expected)
        if state.step != step:
            expected = f"{step}, as in manifest.json"
            raise InputError(f"{what}.step", got=state.step, expected=expected)
        return state


_STATE = TypeAdapter(TrainingState)


def read_count(training: Mapping[str, Any], key: str, limit: int) -> int | None:
    """Reads a count from training.json.

    Args:
        training: The contents of training.json.
        key: Which value to read.
        limit: Largest value allowed.

    Returns:
        The count; None if the key is missing, as in files written by older versions.

    Raises:
        InputError: The value is not a whole number from 1 to `limit`.
    """
    value = training.get(key)
    if value is not None and not (type(value) is int and 1 <= value <= limit):
        expected = f"a number from 1 to {limit}"
        raise InputError(f"training.json: {key}", got=repr(value)[:40], expected=expected)
    return value


@dataclass
class Job:
    """Everything that one training run needs."""

    model: nn.Module
    task: Learnable
    config: TrainConfig
    dim: int
    """The model's width (d_model), which the paper's learning rate schedule depends on."""
    describe: dict[str, Any]
    """The contents of config.json in each checkpoint."""
    tokenizer: str
    recipe: str
    seen: bytes = b""
    """The contents of seen.bin in each checkpoint; empty writes none."""
    run: Path | None = None
    """The run's folder for checkpoints and metrics; None writes nothing to disk."""
    facts: dict[str, Any] = field(default_factory=dict)
    """More values for training.json: threads, PyTorch version, checksums of the data."""
    watch: Callable[[int, nn.Module], None] | None = None
    """Called after every step with the step's number and the model."""
    quiet: bool = False
    threads: int = 1
    """Number of threads that compute; they share the parts of each micro-batch."""
    seed: int = 0
    """Together with the step's number, the seed of dropout's random numbers."""
    ranks: Ranks = SINGLE_PROCESS
    """The processes that train together. Only the first writes files, evaluates and prints."""


class Trainer:
    """Runs a training job from its first step, or from a checkpoint, to its end.

    Args:
        job: What to train.
        resume: The checkpoint to continue from; None starts at step 0.
    """

    def __init__(self, job: Job, resume: Snapshot | None = None) -> None:
        self.job, self.model, self.task, self.config = job, job.model, job.task, job.config
        self.optimizer = optim.optimizer(job.model, job.config)
        self.ranks = job.ranks
        self.parts = self._parts(resume)
        self.strategy = choose_strategy(
            job.task, job.model, threads=job.threads, parts=self.parts, ranks=job.ranks
        )
        self.state = TrainingState()
        self.average = MovingAverage(job.model, job.config.ema) if job.config.ema else None
        self._run = job.run if job.ranks.first else None  # only the first process writes
        if resume is not None:
            self._restore(resume)
        self._best_weights: dict[str, Tensor] = {}  # used only if no checkpoints are written
        self._clock = 0.0
        self._waited = 0.0  # seconds since the last log in which the next batch was not ready

    def _parts(self, resume: Snapshot | None) -> int:
        """The number of parts a micro-batch is split into; a resumed run keeps its number.

        The number decides the order of the sums and so the last bits of the weights. Checkpoints
        of older versions do not store it; then it is computed as those versions did.
        """
        training = {"threads": self.job.threads} if resume is None else resume.training
        parts = read_count(training, "parts", MOST_PARTS)
        if parts is not None:
            return parts
        if resume is None and self.ranks.world > 1:
            return self.ranks.world
        weights = sum(parameter.numel() for parameter in self.model.parameters())
        threads = read_count(training, "threads", MOST_THREADS) or self.job.threads
        tokens, older_version = self.config.batch_tokens, resume is not None
        return parts_for(threads, tokens, self.job.dim, weights, before=older_version)

    def run(self) -> TrainingState:
        """Trains until the last step or early stopping.

        Returns:
            The training state at the end.

        Raises:
            Interrupted: A signal asked to stop; the state was saved before, if the run has a
                folder.
        """
        state, config = self.state, self.config
        if self._run is not None and state.step:
            state.best = checkpoint.refresh_best(self._run, state.best)
        self._copy_state_from_first()
        patience = math.inf if config.patience is None else config.patience
        stopped_early = state.evaluations_without_better >= patience
        if state.finished and (state.step >= config.steps or stopped_early):
            return state
        state.finished = False
        batches = self._batches()
        self.model.train()
        self._clock = time.perf_counter()
        with (
            stop_requests(may_repeat=self.ranks.world > 1) as request,
            self._progress() as progress,
            self._logs(),
        ):
            while state.step < config.steps and not state.finished:
                MACHINE.watch(self.job.threads)
                self.step(batches, progress)
                self._after_step(progress, request)
        self._plot_losses()
        self._stop_if_asked(self._received_signal(request))
        if self._best_weights or self.average is not None:
            weights = {} if self.average is None else self.average.weights
            self.model.load_state_dict(self._best_weights or weights)
        self.model.eval()
        return state

    def _batches(self) -> Iterator[tuple[Any, Cursor]]:
        """The micro-batches from the present position in the data on, each with its cursor.

        Raises:
            InputError: The checkpoint's position is beyond the end of its epoch.
        """
        state, batches = self.state, self.task.batches(self.state.cursor)
        if not state.step:
            return batches
        cursor, first = state.cursor, next(batches)
        if first[1] not in (Cursor(cursor.epoch, cursor.batch + 1), Cursor(cursor.epoch + 1, 0)):
            what = f"{folder_name(state.step)}/{TRAINING}: place.cursor.batch"
            expected = f"a smaller number: epoch {cursor.epoch} has fewer batches"
            raise InputError(what, got=cursor.batch, expected=expected)
        return chain([first], batches)

    def _copy_state_from_first(self) -> None:
        """Copies the training state from the first process, which alone evaluates."""
        vars(self.state).update(vars(self.ranks.shared(self.state)))

    def _progress(self) -> TrainingProgress:
        """The progress display; it shows nothing in other processes than the first."""
        unit = getattr(self.task, "unit", "targets")
        quiet = self.job.quiet or not self.ranks.first
        return TrainingProgress(self.config.steps, self.state.step, quiet=quiet, unit=unit)

    @contextmanager
    def _logs(self) -> Iterator[None]:
        """Opens the run's log files for the body of a `with`, and closes them in any case."""
        run, after = self._run, self.state.step or -1
        self._open_logs: list[MetricsLog | TensorBoardLog] = []
        if run is not None:
            self._open_logs.append(MetricsLog(run / "metrics.jsonl", after=after))
            if self.config.tensorboard:
                self._open_logs.append(TensorBoardLog(run / "tensorboard", after=after))
        try:
            yield
        finally:
            for log in self._open_logs:
                log.close()

    def _plot_losses(self) -> None:
        """Draws the loss curves of the run so far into `loss.png`."""
        if self._run is not None:
            plot_losses(read_metrics(self._run / "metrics.jsonl"), self._run / "loss.png")

    def _write_logs(self, values: dict[str, Value]) -> None:
        """Writes values of the present step to all open logs."""
        for log in self._open_logs:
            log.write(self.state.step, values)

    def step(self, batches: Iterator[tuple[Any, Cursor]], progress: TrainingProgress) -> None:
        """Updates the weights once.

        The gradients of all micro-batches are divided by the number of targets in the whole step,
        so accumulation gives the same gradient as one large batch.

        Args:
            batches: Micro-batches with the cursor behind each; `accumulate` of them are taken.
            progress: Where to show what happens.
        """
        state, config = self.state, self.config
        started = time.perf_counter()
        parts = [next(batches) for _ in range(config.accumulate)]
        self._waited += time.perf_counter() - started
        state.step += 1
        state.cursor = parts[-1][1]
        rate = optim.learning_rate(state.step, config, self.job.dim)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("scale", 1.0)
        self.optimizer.zero_grad(set_to_none=True)
        loss, targets = self._gradients([batch for batch, _ in parts])
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), config.clip or math.inf)
        if not (math.isfinite(loss) and math.isfinite(float(norm))):
            self._skip(loss, float(norm), [batch for batch, _ in parts], progress)
            return
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.model, state.step)
        state.bad_in_a_row = 0
        state.loss_since_log += loss
        state.targets_since_log += targets
        if state.step % config.log_every == 0 or state.step == config.steps:
            self._log(rate, float(norm), progress)

    def _gradients(self, batches: list[Any]) -> tuple[float, int]:
        """Adds up the gradients of (sum of losses) / (targets of the whole step).

        Returns:
            The sum of the losses, and the number of targets.
        """
        seed = f"{self.job.seed} {self.state.step}"
        return self.strategy.gradients(self.task, self.model, batches, seed)

    def _skip(
        self, loss: float, norm: float, batches: list[Any], progress: TrainingProgress
    ) -> None:
        """Logs a step whose loss or gradient norm is not finite; its update is not applied.

        Raises:
            FoundProblems: More than `BAD_STEPS_ALLOWED` steps in a row were skipped.
        """
        state = self.state
        state.bad_in_a_row += 1
        names = "; ".join(self.task.name(batch) for batch in batches)
        self._write_logs({"skipped": names, "bad_loss": str(loss), "bad_gradient_norm": str(norm)})
        message = f"step {state.step} skipped: loss {loss:g}, gradient norm {norm:g} ({names})"
        if self.job.quiet:
            _logger.warning(message)
        else:
            progress.print_line(message)
        if state.bad_in_a_row > BAD_STEPS_ALLOWED:
            problem = f"{state.bad_in_a_row} steps in a row were not finite"
            raise self._divergence_error(problem, "set train.clip")

    def _stop_clock(self) -> None:
        """Adds the time since the last call to the training time, and restarts the clock."""
        now = time.perf_counter()
        self.state.seconds_since_log += now - self._clock
        self._clock = now

    def _log(self, rate: float, norm: float, progress: TrainingProgress) -> None:
        """Logs mean loss, speed and waiting time since the last log, and starts to count anew."""
        state = self.state
        self._stop_clock()
        state.seconds += state.seconds_since_log
        mean = state.loss_since_log / max(1, state.targets_since_log)
        speed = state.targets_since_log / max(state.seconds_since_log, 1e-9)
        waiting = self._waited / max(state.seconds_since_log, 1e-9)
        state.loss_since_log, state.targets_since_log, state.seconds_since_log = 0.0, 0, 0.0
        self._waited = 0.0
        values: dict[str, Value] = {
            "loss": mean,
            "learning_rate": rate,
            "gradient_norm": norm,
            "targets_per_second": round(speed, 1),
            "seconds": round(state.seconds, 3),
            "waiting_for_data": round(waiting, 4),
            "epoch": state.cursor.epoch,
        }
        self._write_logs(values)
        progress.update(state.step, mean, speed)

    def _after_step(self, progress: TrainingProgress, request: StopRequest) -> None:
        """Evaluates, saves a checkpoint and stops, each if it is due after this step."""
        state, config = self.state, self.config
        is_last = state.step == config.steps
        better = False
        if self.job.watch is not None and self.ranks.first:
            self.job.watch(state.step, self.model)
        self._stop_clock()
        if state.step % config.evaluate_every == 0 or is_last:
            if self.ranks.first:
                self._require_finite(self.model.state_dict(), "the weights")
                better = self._evaluate(progress)
            self._copy_state_from_first()
            if self.job.run is None and state.best is not None and state.best.step == state.step:
                weights = self.model.state_dict() if self.average is None else self.average.weights
                self._best_weights = {k: v.clone() for k, v in weights.items()}
        state.finished = is_last or state.finished
        number = self._received_signal(request)
        stopping = number is not None and not state.finished
        # After a skipped step the run may have diverged, so a regular checkpoint is left out.
        save_is_due = state.step % config.save_every == 0 and not state.bad_in_a_row
        if save_is_due or better or state.finished or stopping:
            self._save(progress)
        if state.finished or stopping:
            self.ranks.wait()  # until the first process has written its checkpoint
        self._clock = time.perf_counter()  # evaluating and saving do not count as training time
        if stopping:
            self._plot_losses()
            self._stop_if_asked(number)

    def _received_signal(self, request: StopRequest) -> int | None:
        """The signal that any of the processes has received, the same in all of them.

        It is not written into the request: a signal that arrives while the processes exchange
        theirs would be overwritten and lost.
        """
        return int(self.ranks.largest(request.signal or 0)) or None

    def _stop_if_asked(self, number: int | None) -> None:
        """Ends the training with a message if a signal was received."""
        if number is None:
            return
        message = f"stopped by {signal_name(number)} after step {self.state.step}"
        if self.job.run is not None:
            advice = "continue with the same command and --resume"
            message += ", saved; " + ("the run is complete" if self.state.finished else advice)
        raise Interrupted(message, signal=number)

    def _evaluate(self, progress: TrainingProgress) -> bool:
        """Evaluates on the validation set; returns whether the loss is the lowest so far."""
        state, config = self.state, self.config
        with nullcontext() if self.average is None else self.average.used_in(self.model):
            scores = self.task.evaluate(self.model)
        self._write_logs({f"validation_{name}": value for name, value in scores.items()})
        loss = scores["loss"]
        if not math.isfinite(loss):
            raise self._divergence_error(f"the validation loss is {loss}")
        better = state.best is None or loss < state.best.loss
        if better:
            state.best = Best(state.step, loss)
            state.evaluations_without_better = 0
        else:
            state.evaluations_without_better += 1
        mark = " (best)" if better else ""
        progress.print_line(f"step {state.step}: validation loss {loss:.4f}{mark}")
        if config.patience is not None and state.evaluations_without_better >= config.patience:
            progress.print_line(f"no improvement for {config.patience} evaluations: stopping early")
            state.finished = True
        return better

    def _require_finite(self, tensors: dict[str, Tensor], what: str) -> None:
        """Raises `FoundProblems` if a tensor holds NaN or infinity."""
        name = find_not_finite(tensors)
        if name is not None:
            raise self._divergence_error(f"{what} are not finite ({name})")

    def _divergence_error(self, what: str, advice: str = "raise train.epsilon") -> FoundProblems:
        """The error that ends a training whose numbers are not finite."""
        fix = f"lower train.learning_rate, or {advice}; {self._last_save_text()}"
        return FoundProblems(f"training stopped at step {self.state.step}: {what}", fix=fix)

    def _last_save_text(self) -> str:
        """The end of an error message: which checkpoint the run still has."""
        run = self.job.run
        step = None if run is None else checkpoint.summary(run)["step"]
        unchanged = f"the checkpoint of step {step} is unchanged"
        return "nothing was saved" if step is None else unchanged

    def _save(self, progress: TrainingProgress) -> None:
        """Writes a checkpoint of the present step; at the end, with averaged weights if better."""
        if self._run is None:
            return
        state = self.state
        weights, raw_weights, averaged = self.model.state_dict(), {}, None
        optimizer_state = optim.optimizer_tensors(self.model, self.optimizer)
        self._require_finite(weights, "the weights")
        self._require_finite(optimizer_state, "the optimizer's averages")
        if self.average is not None:
            averaged = self.average.weights
            self._require_finite(averaged, "the averaged weights")
        elif state.finished and self.config.average > 1:
            averaged = self._average_checkpoints(progress)
        if averaged is not None:
            # The mean is the model to use; a resumed training continues from the raw weights.
            raw_weights = {f"{RAW_WEIGHTS}{name}": tensor for name, tensor in weights.items()}
            weights = averaged
        snapshot = Snapshot(
            step=state.step,
            weights=weights,
            config=self.job.describe,
            tokenizer=self.job.tokenizer,
            recipe=self.job.recipe,
            training_tensors={"random": torch.get_rng_state(), **optimizer_state, **raw_weights},
            training={"place": state.to_json(), "parts": self.parts, **self.job.facts},
            seen=self.job.seen,
        )
        config = self.config
        averaged_steps = checkpoint.AveragedSteps(config.average - 1, config.save_every)
        checkpoint.save(self._run, snapshot, config.keep, state.best, averaged_steps)
        if raw_weights and self.average is None:
            self.model.load_state_dict(weights)

    def _average_checkpoints(self, progress: TrainingProgress) -> dict[str, Tensor] | None:
        """Averages the weights of the last checkpoints and the present ones.

        Returns:
            The mean if its validation loss is lower than the best so far, else None.
        """
        assert self._run is not None
        state, raw_weights = self.state, {k: v.clone() for k, v in self.model.state_dict().items()}
        averaged_steps = checkpoint.AveragedSteps(self.config.average - 1, self.config.save_every)
        earlier = checkpoint.last_weights(self._run, averaged_steps, state.step)
        for weights in earlier:
            check_tensors("the weights of a checkpoint to be averaged", weights, raw_weights)
        sets = [raw_weights, *earlier]
        mean = {
            name: torch.stack([weights[name].to(tensor.device) for weights in sets]).mean(0)
            if tensor.is_floating_point()
            else tensor
            for name, tensor in raw_weights.items()
        }
        self.model.load_state_dict(mean)
        loss = self.task.evaluate(self.model)["loss"]
        self._write_logs({"averaged": len(sets), "averaged_loss": loss})
        finite = math.isfinite(loss) and find_not_finite(mean) is None
        better = finite and (state.best is None or loss < state.best.loss)
        mark = " (best)" if better else ", not better: not used"
        progress.print_line(f"average of {len(sets)} checkpoints: validation loss {loss:.4f}{mark}")
        self.model.load_state_dict(raw_weights)
        if not better:
            return None
        state.best = Best(state.step, loss)
        return mean

    def _restore(self, snapshot: Snapshot) -> None:
        """Restores state, weights, optimizer and random state from a checkpoint.

        Names, shapes and types of all tensors are compared with the model's before any is used.
        """
        step, folder = snapshot.step, folder_name(snapshot.step)
        values, batches = snapshot.training.get("place"), step * self.config.accumulate
        self.state = TrainingState.from_json(
            values, f"{folder}/{TRAINING}", step=step, batches=batches
        )
        file, own_weights = f"{folder}/{TRAINING_TENSORS}", self.model.state_dict()
        raw_weights, tensors = snapshot.split_tensors()
        check_tensors(f"{folder}/{MODEL}", snapshot.weights, own_weights)
        check_tensors(f"{file}: weights", raw_weights, own_weights if raw_weights else {})
        random = tensors.pop("random", torch.empty(0))
        _check_random(file, random)
        optim.check_optimizer(file, self.model, tensors, step, self.config.optimizer)
        self.model.load_state_dict(raw_weights or snapshot.weights)
        if self.average is not None:
            self.average.restore(snapshot.weights, own_weights)
        self._check_missing_state(file, optim.parameters_without_state(self.model, tensors))
        optim.restore_optimizer(self.model, self.optimizer, tensors)
        torch.set_rng_state(random)

    def _check_missing_state(self, file: str, names: list[str]) -> None:
        """Refuses a checkpoint that lacks the optimizer's state of some parameters.

        It may be missing for parameters that the loss does not depend on, which are never updated,
        and for all parameters if every step so far was skipped. One batch's gradients show which
        parameters the loss depends on.

        Args:
            file: Name of the file, for error messages.
            names: Parameters without optimizer state.
        """
        if not names or self.state.bad_in_a_row == self.state.step:
            return
        parameters = dict(self.model.named_parameters())
        self._gradients([next(self._batches())[0]])
        for name in names:
            if parameters[name].grad is not None:
                raise InputError(file, got=f"no optimizer.{name}", expected="its optimizer state")
        self.optimizer.zero_grad(set_to_none=True)


def _check_random(file: str, state: Tensor) -> None:
    """Refuses a tensor that is not a valid state of PyTorch's random number generator."""
    check_tensors(file, {"random": state}, {"random": torch.get_rng_state()})
    try:
        torch.Generator().set_state(state)
    except RuntimeError as error:
        got = str(error).partition("\n")[0]
        raise InputError(f"{file}: random", got=got, expected="a random state") from None
