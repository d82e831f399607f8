"""Evaluation during training, and the error that ends a training which diverges.

In: a job, its state and the average of its weights, if there is one. Out: whether the validation
loss is the lowest so far; the state records it and counts evaluations without a lower one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext

from torch import Tensor

from regard.checkpoint import run as checkpoint
from regard.checkpoint.run import Best
from regard.errors import FoundProblems
from regard.runtime.tensors import find_not_finite
from regard.train.log import RunLogs, TrainingProgress
from regard.train.moving_average import MovingAverage
from regard.train.state import Job, TrainingState


def evaluate(
    job: Job,
    state: TrainingState,
    average: MovingAverage | None,
    logs: RunLogs,
    progress: TrainingProgress,
) -> bool:
    """Evaluates on the validation set; returns whether the loss is the lowest so far.

    Raises:
        FoundProblems: The weights or the validation loss are not finite.
    """
    require_finite(job.model.state_dict(), "the weights", job, state)
    with nullcontext() if average is None else average.used_in(job.model):
        scores = job.task.evaluate(job.model)
    logs.write(state.step, {f"validation_{name}": value for name, value in scores.items()})
    loss, patience = scores["loss"], job.config.patience
    if not math.isfinite(loss):
        raise divergence_error(f"the validation loss is {loss}", job, state)
    better = state.best is None or loss < state.best.loss
    if better:
        state.best = Best(state.step, loss)
        state.evaluations_without_better = 0
    else:
        state.evaluations_without_better += 1
    mark = " (best)" if better else ""
    progress.print_line(f"step {state.step}: validation loss {loss:.4f}{mark}")
    if patience is not None and state.evaluations_without_better >= patience:
        progress.print_line(f"no improvement for {patience} evaluations: stopping early")
        state.finished = True
    return better


def require_finite(
    tensors: Mapping[str, Tensor], what: str, job: Job, state: TrainingState
) -> None:
    """Raises `FoundProblems` if a tensor holds NaN or infinity."""
    name = find_not_finite(tensors)
    if name is not None:
        raise divergence_error(f"{what} are not finite ({name})", job, state)


def divergence_error(
    what: str, job: Job, state: TrainingState, advice: str = "raise train.epsilon"
) -> FoundProblems:
    """The error that ends a training whose numbers are not finite; it names the last checkpoint."""
    step = None if job.run is None else checkpoint.summary(job.run)["step"]
    unchanged = f"the checkpoint of step {step} is unchanged"
    last_save = "nothing was saved" if step is None else unchanged
    fix = f"lower train.learning_rate, or {advice}; {last_save}"
    return FoundProblems(f"training stopped at step {state.step}: {what}", fix=fix)
