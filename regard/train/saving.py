"""Checkpoints of a training: what is saved, and how a run continues from it bit for bit.

In: a job with its state, optimizer and averages. Out: a checkpoint with everything the next step
depends on; or, from a checkpoint, all of these as they were. No checkpoint holds NaN or infinity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
from torch import Tensor

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
from regard.checkpoint.run import Best
from regard.data.batch import Cursor
from regard.errors import InputError
from regard.runtime.device import MOST_THREADS
from regard.runtime.tensors import find_not_finite
from regard.train import optim
from regard.train.evaluation import require_finite
from regard.train.log import RunLogs, TrainingProgress
from regard.train.moving_average import MovingAverage
from regard.train.state import Job, TrainingState, read_count
from regard.train.step import MOST_PARTS, PlainGradients, ThreadedGradients, parts_for


def save(
    job: Job,
    state: TrainingState,
    optimizer: torch.optim.Optimizer,
    average: MovingAverage | None,
    parts: int,
    logs: RunLogs,
    progress: TrainingProgress,
) -> None:
    """Writes a checkpoint of the present step; at the end, with averaged weights if better.

    Nothing is written if the logs have no folder, as in other processes than the first.
    """
    if logs.run is None:
        return
    weights, raw_weights, averaged = job.model.state_dict(), {}, None
    optimizer_state = optim.optimizer_tensors(job.model, optimizer)
    require_finite(weights, "the weights", job, state)
    require_finite(optimizer_state, "the optimizer's averages", job, state)
    if average is not None:
        averaged = average.weights
        require_finite(averaged, "the averaged weights", job, state)
    elif state.finished and job.config.average > 1:
        averaged = average_checkpoints(job, state, logs, progress)
    if averaged is not None:
        # The mean is the model to use; a resumed training continues from the raw weights.
        raw_weights = {f"{RAW_WEIGHTS}{name}": tensor for name, tensor in weights.items()}
        weights = averaged
    snapshot = Snapshot(
        step=state.step,
        weights=weights,
        config=job.describe,
        tokenizer=job.tokenizer,
        recipe=job.recipe,
        training_tensors={"random": torch.get_rng_state(), **optimizer_state, **raw_weights},
        training={"place": state.to_json(), "parts": parts, **job.facts},
        seen=job.seen,
    )
    checkpoint.save(logs.run, snapshot, job.config.keep, state.best, averaged_steps(job))
    if raw_weights and average is None:
        job.model.load_state_dict(weights)


def averaged_steps(job: Job) -> checkpoint.AveragedSteps:
    """The earlier checkpoints that are averaged with the last one."""
    return checkpoint.AveragedSteps(job.config.average - 1, job.config.save_every)


def average_checkpoints(
    job: Job, state: TrainingState, logs: RunLogs, progress: TrainingProgress
) -> dict[str, Tensor] | None:
    """Averages the weights of the last checkpoints and the present ones.

    Returns:
        The mean if its validation loss is lower than the best so far, else None.
    """
    assert logs.run is not None
    raw_weights = {name: tensor.clone() for name, tensor in job.model.state_dict().items()}
    earlier = checkpoint.last_weights(logs.run, averaged_steps(job), state.step)
    for weights in earlier:
        check_tensors("the weights of a checkpoint to be averaged", weights, raw_weights)
    sets = [raw_weights, *earlier]
    mean = {
        name: torch.stack([weights[name].to(tensor.device) for weights in sets]).mean(0)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in raw_weights.items()
    }
    job.model.load_state_dict(mean)
    loss = job.task.evaluate(job.model)["loss"]
    logs.write(state.step, {"averaged": len(sets), "averaged_loss": loss})
    finite = math.isfinite(loss) and find_not_finite(mean) is None
    better = finite and (state.best is None or loss < state.best.loss)
    mark = " (best)" if better else ", not better: not used"
    progress.print_line(f"average of {len(sets)} checkpoints: validation loss {loss:.4f}{mark}")
    job.model.load_state_dict(raw_weights)
    if not better:
        return None
    state.best = Best(state.step, loss)
    return mean


def count_parts(job: Job, resume: Snapshot | None) -> int:
    """The number of parts a micro-batch is split into; a resumed run keeps its number.

    The number decides the order of the sums and so the last bits of the weights. Checkpoints of
    older versions do not store it; then it is computed as those versions did.
    """
    training = {"threads": job.threads} if resume is None else resume.training
    parts = read_count(training, "parts", MOST_PARTS)
    if parts is not None:
        return parts
    if resume is None and job.ranks.world > 1:
        return job.ranks.world
    weights = sum(parameter.numel() for parameter in job.model.parameters())
    threads = read_count(training, "threads", MOST_THREADS) or job.threads
    tokens, older_version = job.config.batch_tokens, resume is not None
    return parts_for(threads, tokens, job.dim, weights, before=older_version)


def restore(
    job: Job,
    snapshot: Snapshot,
    optimizer: torch.optim.Optimizer,
    average: MovingAverage | None,
    strategy: ThreadedGradients | PlainGradients,
) -> TrainingState:
    """Restores weights, optimizer, average and random state from a checkpoint.

    Names, shapes and types of all tensors are compared with the model's before any is used.

    Returns:
        The state of the training.
    """
    step, folder = snapshot.step, folder_name(snapshot.step)
    values, batches = snapshot.training.get("place"), step * job.config.accumulate
    state = TrainingState.from_json(values, f"{folder}/{TRAINING}", step=step, batches=batches)
    file, own_weights = f"{folder}/{TRAINING_TENSORS}", job.model.state_dict()
    raw_weights, tensors = snapshot.split_tensors()
    check_tensors(f"{folder}/{MODEL}", snapshot.weights, own_weights)
    check_tensors(f"{file}: weights", raw_weights, own_weights if raw_weights else {})
    random = tensors.pop("random", torch.empty(0))
    _check_random(file, random)
    optim.check_optimizer(file, job.model, tensors, step, job.config.optimizer)
    job.model.load_state_dict(raw_weights or snapshot.weights)
    if average is not None:
        average.restore(snapshot.weights, own_weights)
    missing = optim.parameters_without_state(job.model, tensors)
    if missing and state.bad_in_a_row != state.step:  # else every step so far was skipped
        # One batch's gradients show which parameters the loss depends on.
        first_batch, _ = next(batches_from(job, state))
        strategy.gradients(job.task, job.model, [first_batch], f"{job.seed} {state.step}")
        _check_missing_state(job, file, missing)
        optimizer.zero_grad(set_to_none=True)
    optim.restore_optimizer(job.model, optimizer, tensors)
    torch.set_rng_state(random)
    return state


def batches_from(job: Job, state: TrainingState) -> Iterator[tuple[Any, Cursor]]:
    """The micro-batches from the state's position in the data on, each with its cursor.

    Raises:
        InputError: The checkpoint's position is beyond the end of its epoch.
    """
    batches = job.task.batches(state.cursor)
    if not state.step:
        return batches
    cursor, first = state.cursor, next(batches)
    if first[1] not in (Cursor(cursor.epoch, cursor.batch + 1), Cursor(cursor.epoch + 1, 0)):
        what = f"{folder_name(state.step)}/{TRAINING}: place.cursor.batch"
        expected = f"a smaller number: epoch {cursor.epoch} has fewer batches"
        raise InputError(what, got=cursor.batch, expected=expected)
    return chain([first], batches)


def _check_missing_state(job: Job, file: str, names: list[str]) -> None:
    """Refuses a checkpoint without the optimizer's state of the parameters `names`.

    It may be missing for those that the loss does not depend on, which are never updated: a batch
    gives them no gradient.
    """
    parameters = dict(job.model.named_parameters())
    for name in names:
        if parameters[name].grad is not None:
            raise InputError(file, got=f"no optimizer.{name}", expected="its optimizer state")


def _check_random(file: str, state: Tensor) -> None:
    """Refuses a tensor that is not a valid state of PyTorch's random number generator."""
    check_tensors(file, {"random": state}, {"random": torch.get_rng_state()})
    try:
        torch.Generator().set_state(state)
    except RuntimeError as error:
        got = str(error).partition("\n")[0]
        raise InputError(f"{file}: random", got=got, expected="a random state") from None
