"""What a training is: the job, and the state that its steps change.

In: the parts that `regard.runs.train` puts together, or the values of a checkpoint's
`training.json`. Out: a `Job` and a checked `TrainingState`, both for the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter
from torch import nn

from regard.checkpoint.run import Best, Loss
from regard.config import checked
from regard.data.batch import Cursor
from regard.errors import InputError
from regard.runtime.ranks import SINGLE_PROCESS, Ranks
from regard.train.config import TrainConfig
from regard.train.task import Learnable

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
