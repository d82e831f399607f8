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
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from regard.checkpoint import run as checkpoint
from regard.checkpoint.folder import Snapshot
from regard.data.batch import Cursor
from regard.runtime.sharing import MACHINE
from regard.train import optim, saving
from regard.train.evaluation import divergence_error, evaluate
from regard.train.log import RunLogs, TrainingProgress, Value
from regard.train.moving_average import MovingAverage
from regard.train.signals import StopRequest, stop_if_asked, stop_requests
from regard.train.state import Job, TrainingState
from regard.train.step import choose_strategy

_logger = logging.getLogger(__name__)

BAD_STEPS_ALLOWED = 2
"""How many steps in a row may be skipped because the loss or the gradient norm was not finite.
One more stops the training."""


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
        self.parts = saving.count_parts(job, resume)
        self.strategy = choose_strategy(
            job.task, job.model, threads=job.threads, parts=self.parts, ranks=job.ranks
        )
        self.state = TrainingState()
        self.average = MovingAverage(job.model, job.config.ema) if job.config.ema else None
        run = job.run if job.ranks.first else None  # only the first process writes
        self.logs = RunLogs(run, tensorboard=job.config.tensorboard)
        if resume is not None:
            self.state = saving.restore(job, resume, self.optimizer, self.average, self.strategy)
        self._best_weights: dict[str, Tensor] = {}  # used only if no checkpoints are written
        self._clock = 0.0
        self._waited = 0.0  # seconds since the last log in which the next batch was not ready

    def run(self) -> TrainingState:
        """Trains until the last step or early stopping.

        Returns:
            The training state at the end.

        Raises:
            Interrupted: A signal asked to stop; the state was saved before, if the run has a
                folder.
        """
        state, config = self.state, self.config
        if self.logs.run is not None and state.step:
            state.best = checkpoint.refresh_best(self.logs.run, state.best)
        self._copy_state_from_first()
        patience = math.inf if config.patience is None else config.patience
        stopped_early = state.evaluations_without_better >= patience
        if state.finished and (state.step >= config.steps or stopped_early):
            return state
        state.finished = False
        batches = saving.batches_from(self.job, state)
        self.model.train()
        self._clock = time.perf_counter()
        with (
            stop_requests(may_repeat=self.ranks.world > 1) as request,
            self._progress() as progress,
            self.logs.open(after=state.step or -1),
        ):
            while state.step < config.steps and not state.finished:
                MACHINE.watch(self.job.threads)
                self.step(batches, progress)
                self._after_step(progress, request)
        self.logs.plot_losses()
        stop_if_asked(request.shared(self.ranks), self.job, state)
        if self._best_weights or self.average is not None:
            weights = {} if self.average is None else self.average.weights
            self.model.load_state_dict(self._best_weights or weights)
        self.model.eval()
        return state

    def _copy_state_from_first(self) -> None:
        """Copies the training state from the first process, which alone evaluates."""
        vars(self.state).update(vars(self.ranks.shared(self.state)))

    def _progress(self) -> TrainingProgress:
        """The progress display; it shows nothing in other processes than the first."""
        unit = getattr(self.task, "unit", "targets")
        quiet = self.job.quiet or not self.ranks.first
        return TrainingProgress(self.config.steps, self.state.step, quiet=quiet, unit=unit)

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
        values = {"skipped": names, "bad_loss": str(loss), "bad_gradient_norm": str(norm)}
        self.logs.write(state.step, values)
        message = f"step {state.step} skipped: loss {loss:g}, gradient norm {norm:g} ({names})"
        if self.job.quiet:
            _logger.warning(message)
        else:
            progress.print_line(message)
        if state.bad_in_a_row > BAD_STEPS_ALLOWED:
            problem = f"{state.bad_in_a_row} steps in a row were not finite"
            raise divergence_error(problem, self.job, state, "set train.clip")

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
        self.logs.write(state.step, values)
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
                better = evaluate(self.job, state, self.average, self.logs, progress)
            self._copy_state_from_first()
            if self.job.run is None and state.best is not None and state.best.step == state.step:
                weights = self.model.state_dict() if self.average is None else self.average.weights
                self._best_weights = {k: v.clone() for k, v in weights.items()}
        state.finished = is_last or state.finished
        number = request.shared(self.ranks)
        stopping = number is not None and not state.finished
        # After a skipped step the run may have diverged, so a regular checkpoint is left out.
        save_is_due = state.step % config.save_every == 0 and not state.bad_in_a_row
        if save_is_due or better or state.finished or stopping:
            saving.save(
                self.job, state, self.optimizer, self.average, self.parts, self.logs, progress
            )
        if state.finished or stopping:
            self.ranks.wait()  # until the first process has written its checkpoint
        self._clock = time.perf_counter()  # evaluating and saving do not count as training time
        if stopping:
            self.logs.plot_losses()
            stop_if_asked(number, self.job, state)
