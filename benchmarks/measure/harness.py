"""Run experiments: each contender in its own process, measured in interleaved rounds.

The workers of an experiment start, prepare and warm up; then they wait, and one at a time is
measured, in an order that rotates by one each round. So each contender has its own allocator,
threads and memory, as if it ran alone, and a temporary slowdown of the machine affects all alike.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from benchmarks.measure.results import Bar, Measured, Quantity, Turn, Verdict, judge
from regard.runtime.progress import Progress

PAUSE = 0.2
"""Seconds between turns, so that the threads of the previous contender stop spinning."""
AGREE = 8
"""The number of first ids that contenders with the same weights in 32 bits must agree on."""
TIMEOUT = 900.0
"""Seconds to wait for an answer of a contender."""


class Contender(Protocol):
    """Something to measure: a dataclass whose fields can be written as JSON.

    It is built again in its own process, so its module should import heavy libraries in `prepare`.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def prepare(self, threads: int) -> None:
        """Do everything that comes before the first turn; not timed."""
        ...

    def measure(self, case: str) -> float:
        """Run one turn, timed by the caller; returns the amount of work done."""
        ...


@dataclass(frozen=True)
class BenchLine:
    """A line of an experiment: a contender and the case on which it is measured.

    Lines with equal contenders share one process.
    """

    label: str
    contender: Contender
    case: str = ""
    flops: float | None = None
    """Useful FLOPs per unit of work."""
    reads: float | None = None
    """Bytes of weights that must be read from memory per unit of work."""


@dataclass(frozen=True)
class Point:
    """The position of an experiment on the axis of a sweep."""

    sweep: str
    axis: str
    x: float
    linear: tuple[str, ...] = ()
    """Labels of entries whose memory must not grow faster than linearly in x."""


@dataclass(frozen=True)
class Experiment:
    """Contenders that do the same work, and the bars they have to meet."""

    name: str
    title: str
    shows: Quantity
    unit: str
    entries: tuple[BenchLine, ...]
    bars: tuple[Bar, ...] = ()
    limit: BenchLine | None = None
    """The machine's peak rate (matrix products, or reading memory), measured in the same rounds."""
    weight: float = 10.0
    """The approximate seconds of a round, to estimate the remaining time."""
    point: Point | None = None
    comparable: bool = True
    """Whether all entries have the same unit, so that their ratios are meaningful."""
    exact: tuple[str, ...] = ()
    """Labels of entries that compute in 32 bits with the weights of the first entry, and so have
    to give the same first `AGREE` answers (ids of tokens or classes)."""

    def lines(self) -> tuple[BenchLine, ...]:
        """All entries to measure, the limit last."""
        return self.entries if self.limit is None else (*self.entries, self.limit)

    def narrowed(self, is_kept: Callable[[str], bool]) -> Experiment:
        """The experiment with some of its entries, and the bars that can be judged with them."""
        entries = tuple(entry for entry in self.entries if is_kept(entry.label))
        labels = {entry.label for entry in entries}
        if self.limit is not None:
            labels.add(self.limit.label)
        bars = tuple(
            bar for bar in self.bars if bar.label in labels and not labels.isdisjoint(bar.against)
        )
        exact = tuple(label for label in self.exact if label in labels)
        share = len(entries) / max(1, len(self.entries))
        return dataclasses.replace(
            self, entries=entries, bars=bars, exact=exact, weight=share * self.weight
        )


@dataclass
class Outcome:
    """An experiment and its measurements, by label."""

    experiment: Experiment
    measured: dict[str, Measured] = field(default_factory=dict)

    def verdicts(self) -> list[Verdict]:
        """The verdict on each bar."""
        return [judge(bar, self.measured) for bar in self.experiment.bars]


class Failed(Exception):
    """A worker crashed, raised an exception, or timed out."""


class Missing(Exception):
    """A contender's package is not installed."""


class Worker:
    """The process of a contender.

    Args:
        contender: The contender to build in it.
        threads: The number of threads for its computations.
    """

    def __init__(self, contender: Contender, threads: int) -> None:
        self.contender, self.threads = contender, threads
        self.resident = 0
        self.versions: dict[str, str] = {}
        self._problem: Failed | Missing | None = None
        self._errors = tempfile.TemporaryFile(  # noqa: SIM115 (closed by `stop`)
            "w+", encoding="utf-8", errors="replace"
        )
        self._answers: queue.Queue[str] = queue.Queue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.measure.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            env=environment(contender, threads),
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            for line in answers:
                self._answers.put(line)
        self._answers.put("")  # an empty line: the process has ended

    def begin(self) -> None:
        """Ask the process to build its contender; `await_ready` waits for it."""
        kind = type(self.contender)
        module = sys.modules[kind.__module__]
        options = {
            option.name: getattr(self.contender, option.name)
            for option in dataclasses.fields(self.contender)
            if option.init
        }
        request = {
            "module": kind.__module__,
            "file": str(getattr(module, "__file__", "")),
            "name": kind.__qualname__,
            "options": options,
            "threads": self.threads,
        }
        self._send(request)

    def await_ready(self) -> None:
        """Wait until the contender is built, then store its package versions and memory."""
        try:
            answer = self._answer()
        except (Failed, Missing) as problem:
            self._problem = problem  # it holds for every entry that shares this process
            raise
        self.resident, self.versions = answer["resident"], answer["versions"]

    def turn(self, case: str) -> Turn:
        """Measure one turn of a case."""
        if self._problem is not None:
            raise self._problem
        self._send({"case": case})
        answer = self._answer()
        return Turn(answer["seconds"], answer["work"], answer["peak"], answer.get("answer"))

    def stop(self) -> None:
        """End the process, killing it after 5 seconds if necessary."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        self._errors.close()

    def _send(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `_answer` reports that it ended
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=TIMEOUT)
        except queue.Empty:
            self._process.kill()
            self._problem = Failed(f"no answer within {TIMEOUT:.0f} seconds")
            raise self._problem from None
        if not line:
            self._problem = Failed(self._exit_message())
            raise self._problem
        answer: dict[str, Any] = json.loads(line)
        if "missing" in answer:
            hint = getattr(self.contender, "install", f"pip install {answer['missing']}")
            raise Missing(hint)
        if "failed" in answer:
            raise Failed(f"{answer['kind']}: {answer['failed']}")
        return answer

    def _exit_message(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        killed = " (killed, perhaps because memory ran out)" if code == -9 else ""
        return f"the process ended with {code}{killed}" + (f": {lines[-1]}" if lines else "")


def environment(contender: Contender, threads: int) -> dict[str, str]:
    """The environment variables of a worker, with the same number of threads for all."""
    top = sys.modules[type(contender).__module__.partition(".")[0]]
    checkout = Path(__file__).parents[2]
    roots = [str(checkout)]
    if getattr(top, "__file__", None):
        roots.append(str(Path(str(top.__file__)).parents[1]))
    roots += [str(Path(folder).resolve()) for folder in getattr(contender, "folders", ())]
    roots += filter(None, [os.environ.get("PYTHONPATH")])
    count = str(threads)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(roots)),
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }


def run(
    experiments: Sequence[Experiment], rounds: int, threads: int, progress: Progress
) -> Iterator[Outcome]:
    """Run experiments one after the other, yielding each outcome when it is done."""
    for experiment in experiments:
        yield run_one(experiment, rounds, threads, progress)
        progress.finish(experiment.weight * (rounds + 1))


def run_one(experiment: Experiment, rounds: int, threads: int, progress: Progress) -> Outcome:
    """Run one experiment: start its workers, warm up, measure all rounds, stop them."""
    lines = experiment.lines()
    outcome = Outcome(
        experiment,
        {line.label: Measured(line.label, flops=line.flops, reads=line.reads) for line in lines},
    )
    workers: dict[str, Worker] = {}
    part = experiment.weight / max(1, len(lines))
    try:
        progress.describe(f"{experiment.name}: preparing")
        for line in lines:
            key = key_of(line.contender)
            if key not in workers:
                workers[key] = Worker(line.contender, threads)
                workers[key].begin()
        for worker in workers.values():  # preparation runs in parallel, since it is not timed
            with contextlib.suppress(Failed, Missing):  # reported again by `_warm_up`
                worker.await_ready()
        for line in lines:
            progress.describe(f"{experiment.name}: warming up {line.label}")
            _warm_up(line, workers, outcome.measured[line.label])
            progress.advance(part)
        for number in range(rounds):
            for line in rotated(lines, number):
                progress.describe(
                    f"{experiment.name}: round {number + 1} of {rounds}, {line.label}"
                )
                _take_turn(line, workers, outcome.measured[line.label])
                progress.advance(part)
    finally:
        for worker in workers.values():
            worker.stop()
    return outcome


def rotated(lines: Sequence[BenchLine], by: int) -> list[BenchLine]:
    """The entries rotated by `by`, so that each round begins with another one."""
    by %= max(1, len(lines))
    return [*lines[by:], *lines[:by]]


def key_of(contender: Contender) -> str:
    """A key that is the same for equal contenders, which share a process."""
    return repr((type(contender).__module__, contender))


def _warm_up(line: BenchLine, workers: Mapping[str, Worker], measured: Measured) -> None:
    """Run a turn that does not count, so that kernels are chosen and buffers allocated."""
    worker = workers[key_of(line.contender)]
    try:
        worker.turn(line.case)
    except Missing as error:
        measured.missing = str(error)
    except Failed as error:
        measured.failed = str(error)
    measured.resident, measured.versions = worker.resident, worker.versions


def _take_turn(line: BenchLine, workers: Mapping[str, Worker], measured: Measured) -> None:
    if measured.missing or measured.failed:
        return
    time.sleep(PAUSE)
    try:
        measured.turns.append(workers[key_of(line.contender)].turn(line.case))
    except (Failed, Missing) as error:
        measured.failed = str(error)
