"""Experiments -> measurements: every contender in a process of its own, in interleaved rounds.

The workers of an experiment start, prepare and warm up; then they wait, and one at a time has its
turn, in an order that moves on by one each round. So each has the allocator, the threads and the
memory that a user of that tool alone would have, and a slow minute of the machine hits all alike.
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from regard.bench.results import Bar, Measured, Quantity, Turn, Verdict, judge
from regard.runtime.progress import Progress

PAUSE = 0.2
"""Seconds between turns: the threads of who had the last one stop spinning meanwhile."""
PATIENCE = 900.0
"""Seconds after which a contender that does not answer is given up."""


class Contender(Protocol):
    """What is measured: a dataclass whose fields fit into JSON.

    It is built again in its own process, so its module imports what is heavy inside `prepare`.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def prepare(self, threads: int) -> None:
        """Everything before the first turn; not timed."""
        ...

    def measure(self, case: str) -> float:
        """One turn, timed from outside; returns how much work was done."""
        ...


@dataclass(frozen=True)
class Entry:
    """A line of an experiment: a contender and the case that it is measured on.

    Entries whose contenders are equal share one process.
    """

    label: str
    contender: Contender
    case: str = ""
    flops: float | None = None
    """Useful FLOPs for a unit of work."""


@dataclass(frozen=True)
class Point:
    """Where an experiment stands on the axis of a sweep."""

    sweep: str
    axis: str
    x: float
    linear: tuple[str, ...] = ()
    """Labels of those whose memory may grow no faster than x."""


@dataclass(frozen=True)
class Experiment:
    """Contenders that do the same work, and what is expected of them."""

    name: str
    title: str
    shows: Quantity
    unit: str
    entries: tuple[Entry, ...]
    bars: tuple[Bar, ...] = ()
    limit: Entry | None = None
    """The machine's own rate at what the work is made of, measured in the same rounds."""
    weight: float = 10.0
    """About how many seconds a round takes: for the time left."""
    point: Point | None = None
    comparable: bool = True
    """Whether all entries have one unit, so that their ratios mean something."""

    def lines(self) -> tuple[Entry, ...]:
        """All that is measured, the limit last."""
        return self.entries if self.limit is None else (*self.entries, self.limit)


@dataclass
class Outcome:
    """An experiment that was run."""

    experiment: Experiment
    measured: dict[str, Measured] = field(default_factory=dict)

    def verdicts(self) -> list[Verdict]:
        """What came of each bar."""
        return [judge(bar, self.measured) for bar in self.experiment.bars]


class Failed(Exception):
    """A worker has no answer: it crashed, raised, or took too long."""


class Missing(Exception):
    """A contender's package is not installed."""


class Worker:
    """A contender's process.

    Args:
        contender: What to build in it.
        threads: How many threads it may compute with.
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
            [sys.executable, "-m", "regard.bench.worker"],
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
        self._answers.put("")  # the process has ended

    def begin(self) -> None:
        """Lets the process build its contender; `await_ready` waits for it."""
        kind = type(self.contender)
        module = sys.modules[kind.__module__]
        options = {
            each.name: getattr(self.contender, each.name)
            for each in dataclasses.fields(self.contender)
            if each.init
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
        """Waits until the contender is built; then its versions and memory are known."""
        try:
            answer = self._answer()
        except (Failed, Missing) as problem:
            self._problem = problem  # the same for every line that shares this process
            raise
        self.resident, self.versions = answer["resident"], answer["versions"]

    def turn(self, case: str) -> Turn:
        """One measurement."""
        if self._problem is not None:
            raise self._problem
        self._send({"case": case})
        answer = self._answer()
        return Turn(answer["seconds"], answer["work"], answer["peak"])

    def stop(self) -> None:
        """Ends the process, whatever it is doing."""
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
        with contextlib.suppress(BrokenPipeError):  # that it ended is its answer
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=PATIENCE)
        except queue.Empty:
            self._process.kill()
            self._problem = Failed(f"no answer within {PATIENCE:.0f} seconds")
            raise self._problem from None
        if not line:
            self._problem = Failed(self._last_words())
            raise self._problem
        answer: dict[str, Any] = json.loads(line)
        if "missing" in answer:
            hint = getattr(self.contender, "install", f"pip install {answer['missing']}")
            raise Missing(hint)
        if "failed" in answer:
            raise Failed(f"{answer['kind']}: {answer['failed']}")
        return answer

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        killed = " (killed, perhaps for want of memory)" if code == -9 else ""
        return f"the process ended with {code}{killed}" + (f": {lines[-1]}" if lines else "")


def environment(contender: Contender, threads: int) -> dict[str, str]:
    """The environment of a worker: the same number of threads for everybody."""
    top = sys.modules[type(contender).__module__.partition(".")[0]]
    own = Path(__file__).parents[2]
    roots = [str(own)]
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
    """All experiments, one after the other, each as soon as it is done."""
    for experiment in experiments:
        yield run_one(experiment, rounds, threads, progress)
        progress.finish(experiment.weight * (rounds + 1))


def run_one(experiment: Experiment, rounds: int, threads: int, progress: Progress) -> Outcome:
    """Starts the workers of an experiment, gives each its turns, and stops them."""
    lines = experiment.lines()
    outcome = Outcome(
        experiment, {line.label: Measured(line.label, flops=line.flops) for line in lines}
    )
    workers: dict[str, Worker] = {}
    part = experiment.weight / max(1, len(lines))
    try:
        progress.turn_to(f"{experiment.name}: preparing")
        for line in lines:
            key = key_of(line.contender)
            if key not in workers:
                workers[key] = Worker(line.contender, threads)
                workers[key].begin()
        for worker in workers.values():  # they prepare side by side, but nobody is timed yet
            with contextlib.suppress(Failed, Missing):  # each line says so when it warms up
                worker.await_ready()
        for line in lines:
            progress.turn_to(f"{experiment.name}: warming up {line.label}")
            _warm_up(line, workers, outcome.measured[line.label])
            progress.advance(part)
        for number in range(rounds):
            for line in rotated(lines, number):
                progress.turn_to(f"{experiment.name}: round {number + 1} of {rounds}, {line.label}")
                _take_turn(line, workers, outcome.measured[line.label])
                progress.advance(part)
    finally:
        for worker in workers.values():
            worker.stop()
    return outcome


def rotated(lines: Sequence[Entry], by: int) -> list[Entry]:
    """The same lines, beginning with another one each round."""
    by %= max(1, len(lines))
    return [*lines[by:], *lines[:by]]


def key_of(contender: Contender) -> str:
    """Equal contenders have equal keys, and share a process."""
    return repr((type(contender).__module__, contender))


def _warm_up(line: Entry, workers: Mapping[str, Worker], found: Measured) -> None:
    """A turn that does not count: kernels are chosen, buffers grow."""
    worker = workers[key_of(line.contender)]
    try:
        worker.turn(line.case)
    except Missing as error:
        found.missing = str(error)
    except Failed as error:
        found.failed = str(error)
    found.resident, found.versions = worker.resident, worker.versions


def _take_turn(line: Entry, workers: Mapping[str, Worker], found: Measured) -> None:
    if found.missing or found.failed:
        return
    time.sleep(PAUSE)
    try:
        found.turns.append(workers[key_of(line.contender)].turn(line.case))
    except (Failed, Missing) as error:
        found.failed = str(error)
