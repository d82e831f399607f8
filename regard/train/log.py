"""The logs of a training run: metrics, TensorBoard events, the loss curve and progress.

In: numbers by step, from the trainer. Out: `RUN/metrics.jsonl` (one JSON object per line, always),
TensorBoard events (optional), `RUN/loss.png`, and progress on standard error. When a run is
resumed, entries after the checkpoint's step are dropped, so that no step is logged twice.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.errors import InputError, UserError, WriteError
from regard.runtime.files import open_own, refuse_link, reporting, write_file
from regard.runtime.progress import Progress

TRAIN_LOSS, VALIDATION_LOSS = "loss", "validation_loss"
"""The keys of `metrics.jsonl` that `plot_losses` draws."""

Value = float | int | str | bool | None


class MetricsLog:
    """Writes `metrics.jsonl`: `{"step": 20, "loss": 3.2, ...}` per line, flushed line by line.

    NaN and infinity are written as null, since JSON has no numbers for them.

    Args:
        path: The file.
        after: Append after this step, dropping later lines; -1 starts an empty file.
    """

    def __init__(self, path: Path, *, after: int = -1) -> None:
        self.path = path
        refuse_link(path)
        remove_later_lines(path, after)
        with reporting(str(path), _ADVICE):
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: each line is one write, so a killed run cuts off at most the last line.
            descriptor = open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            self._file = os.fdopen(descriptor, "ab", buffering=0)

    def write(self, step: int, values: Mapping[str, Value]) -> None:
        """Add one line."""
        line = {"step": step} | {name: _null_if_not_finite(value) for name, value in values.items()}
        data = json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        with reporting(str(self.path), _ADVICE):
            written = self._file.write(data)
        if written != len(data):
            raise WriteError(f"could not write {self.path}: only part of a line", fix=_ADVICE)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


_ADVICE = "the checkpoints are intact; fix the cause, then continue with --resume"


class TensorBoardLog:
    """Writes every number as a TensorBoard scalar of the same name.

    Args:
        folder: Where the event files go.
        after: Append after this step; TensorBoard hides later steps of earlier event files.
    """

    def __init__(self, folder: Path, *, after: int = -1) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            what = "train.tensorboard: the package tensorboard is not installed"
            raise UserError(what, fix="pip install 'regard[tensorboard]'") from error
        self._writer: Any = SummaryWriter(str(folder), purge_step=after + 1)

    def write(self, step: int, values: Mapping[str, Value]) -> None:
        """Add the values that are numbers; TensorBoard scalars cannot be texts."""
        for name, value in values.items():
            if isinstance(value, int | float):
                self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class RunLogs:
    """The log files of a run: `metrics.jsonl`, TensorBoard events, and the picture of its losses.

    Args:
        run: The run's folder; None writes nothing.
        tensorboard: Whether to write TensorBoard events.
    """

    def __init__(self, run: Path | None, *, tensorboard: bool) -> None:
        self.run, self.tensorboard = run, tensorboard
        self._open_logs: list[MetricsLog | TensorBoardLog] = []

    @contextmanager
    def open(self, *, after: int) -> Iterator[None]:
        """Opens the files for the body of a `with`, and closes them in any case.

        Args:
            after: Append after this step; -1 starts empty files.
        """
        self._open_logs = []
        if self.run is not None:
            self._open_logs.append(MetricsLog(self.run / "metrics.jsonl", after=after))
            if self.tensorboard:
                self._open_logs.append(TensorBoardLog(self.run / "tensorboard", after=after))
        try:
            yield
        finally:
            for log in self._open_logs:
                log.close()

    def write(self, step: int, values: Mapping[str, Value]) -> None:
        """Writes values of a step to all open logs."""
        for log in self._open_logs:
            log.write(step, values)

    def plot_losses(self) -> None:
        """Draws the loss curves of the run so far into `loss.png`."""
        if self.run is not None:
            plot_losses(read_metrics(self.run / "metrics.jsonl"), self.run / "loss.png")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read `metrics.jsonl`; a last line without a line end, which may be cut off, is left out."""
    return [line for line, _ in _parse_lines(path)]


def remove_later_lines(path: Path, step: int) -> None:
    """Drop all lines of `metrics.jsonl` later than a step, and a last line that is cut off.

    Args:
        path: The file; nothing happens if it does not exist.
        step: The step of the checkpoint that training resumes from.
    """
    if not path.exists():
        return
    kept_lines = b"".join(raw for line, raw in _parse_lines(path) if line["step"] <= step)
    if len(kept_lines) != path.stat().st_size:
        write_file(path, kept_lines)


def _parse_lines(path: Path) -> list[tuple[dict[str, Any], bytes]]:
    """Parse the file: for each line its JSON object and its bytes."""
    lines = []
    # Bytes after the last line end were being written when the run was killed. They are ignored,
    # even if they happen to be valid JSON.
    *complete_lines, _ = path.read_bytes().split(b"\n")
    for number, raw in enumerate(complete_lines, start=1):
        try:
            line = json.loads(raw)
            if not (isinstance(line["step"], int) and 0 <= line["step"] < 2**63):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            what, got = f"{path}, line {number}", repr(raw[:40].decode(errors="replace"))
            expected = 'a JSON object with a "step"'
            raise InputError(what, got=got, expected=expected, fix="remove the line") from error
        lines.append((line, raw + b"\n"))
    return lines


def _null_if_not_finite(value: Value) -> Value:
    """The value; None instead of NaN or infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


class TrainingProgress(Progress):
    """The progress display of a training run.

    Args:
        total: The last step.
        start: The step that training resumes from.
        quiet: Show nothing at all.
        unit: What is counted per second: targets, or examples for a classifier.
    """

    def __init__(
        self, total: int, start: int = 0, *, quiet: bool = False, unit: str = "targets"
    ) -> None:
        super().__init__(total, start=start, quiet=quiet, interval=10.0, counted="step")
        self.unit = unit

    def update(self, step: int, loss: float, targets_per_second: float) -> None:
        """Shows the present step, its loss and the speed."""
        self.update_to(step, f"loss {loss:.3f}", f"{targets_per_second:,.0f} {self.unit}/s")


def plot_losses(metrics: list[dict[str, Any]], path: Path) -> None:
    """Draw training and validation loss against the step, 1280 by 720 pixels.

    Args:
        metrics: The lines of `metrics.jsonl`; a loss of null leaves a gap in the curve.
        path: The PNG file.
    """
    # Figure instead of pyplot: no global state and no search for a display; Agg draws the PNG.
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(12.8, 7.2), dpi=100, layout="constrained")
    axes = figure.add_subplot()
    training, validation = (_loss_curve(metrics, key) for key in (TRAIN_LOSS, VALIDATION_LOSS))
    axes.plot(*training, color="#0072b2", linewidth=1.5, label="training (with label smoothing)")
    axes.plot(*validation, color="#d55e00", linewidth=2.5, marker="o", label="validation (without)")
    # 11 points are 15 pixels at 100 dots per inch.
    axes.set_xlabel("step", fontsize=14)
    axes.set_ylabel("loss per target", fontsize=14)
    axes.tick_params(labelsize=11)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=True, color="#dddddd")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=14, frameon=False)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=100)
    write_file(path, picture.getvalue())


def _loss_curve(metrics: list[dict[str, Any]], key: str) -> tuple[list[int], list[float]]:
    """The steps and losses of the lines that have this key."""
    points = [(line["step"], line[key]) for line in metrics if key in line]
    # Values that are not numbers, or too large for 64-bit floats, leave a gap.
    losses = [
        float(loss) if isinstance(loss, int | float) and abs(loss) < 1e300 else math.nan
        for _, loss in points
    ]
    return [step for step, _ in points], losses
