"""Sharing the machine with other programs: measures their load and adapts our threads to it.

OpenMP's threads wait for each other by spinning. On a quiet machine that is fastest, but beside
other programs a thread spins while the thread it waits for has no core. So while other programs
compute, our threads sleep while they wait, and decoding uses no more threads than there are free
cores. A training keeps its number of threads, since the last bits of a sum depend on it; only the
way of waiting changes. The training loop and the decoding loop start the measuring, which stops by
itself after they end.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path

import torch

from regard.runtime.cores import torch_threads

INTERVAL = 0.2
"""Seconds between two measurements. The system counts CPU time in hundredths of a second."""
BUSY_CORES, QUIET_CORES = 0.5, 0.3
"""A quiet machine becomes busy if other programs use at least the first number of cores, and a busy
one stays busy while they use at least the second."""
PATIENCE = 60.0
"""Seconds without a step of training or decoding after which measuring stops."""
MOST_PROCESSORS = 256
"""On a larger machine the way of waiting is not changed, see `Sleep`."""
SET_BY_USER = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""Environment variables that set how threads wait; if the user sets one, nothing is changed."""


class Machine:
    """Measures how many cores other programs use, every `INTERVAL` seconds while we compute."""

    def __init__(self) -> None:
        self.others = 0.0
        """Number of cores that other programs used, averaged since the measurement before."""
        self.busy = False
        self.threads_are_set = "OMP_NUM_THREADS" in os.environ
        """Whether the user has set the number of threads; then decoding uses that number."""
        self._last_reading, self._last_use, self._thread_count = self._read(), 0.0, 1
        self._sleep, self._watcher = Sleep(), threading.Thread()

    def watch(self, threads: int) -> None:
        """Measures from now on in a background thread, until `PATIENCE` seconds without a call.

        Args:
            threads: Number of threads that compute on a quiet machine.
        """
        self._last_use, self._thread_count = time.monotonic(), threads
        if not self._watcher.is_alive():
            self._measure()
            self._watcher = threading.Thread(target=self._keep_measuring, daemon=True)
            self._watcher.start()

    def threads(self, count: int) -> int:
        """The number of threads to decode with: at most `count`, and at most the free cores."""
        self.watch(count)
        if count == 1 or not self.busy or self.threads_are_set:
            return count
        return max(1, min(count, round(_processors() - self.others)))

    def _keep_measuring(self) -> None:
        """Measures until nothing was computed for `PATIENCE` seconds; then threads may spin."""
        while time.monotonic() - self._last_use < PATIENCE:
            time.sleep(INTERVAL)
            self._measure()
        self._sleep.set(on=False)

    def _measure(self) -> None:
        """Computes how many cores others used since the last reading, and whether that is busy."""
        now, before = self._read(), self._last_reading
        if now is None or before is None or now[0] - before[0] < INTERVAL / 2:
            return
        seconds, everyone, own_seconds = (new - old for new, old in zip(now, before, strict=True))
        self._last_reading, self.others = now, max(0.0, everyone - own_seconds) / seconds
        spare = max(0, _processors() - self._thread_count)  # cores that our threads leave free
        self.busy = self.others >= spare + (QUIET_CORES if self.busy else BUSY_CORES)
        self._sleep.set(on=self.busy)

    @staticmethod
    def _read() -> tuple[float, float, float] | None:
        """The time, the CPU seconds of all programs, and those of this process; None if unknown."""
        everyone = seconds_computed()
        return None if everyone is None else (time.monotonic(), everyone, time.process_time())


class Sleep:
    """Switches whether OpenMP's threads sleep or spin while they wait for each other.

    GNU's OpenMP lets waiting threads spin for some milliseconds, but lets them sleep almost at once
    if it has more threads than processors. There is no other way to switch this in a running
    program. So for sleeping, an idle team with one thread more than processors is created; ending
    that team lets threads spin again.
    """

    def __init__(self) -> None:
        self._team_end: threading.Event | None = None

    def set(self, *, on: bool) -> None:
        """Lets waiting threads sleep (on) or spin (off)."""
        if on and self._team_end is None and (library := gnu_openmp()) is not None:
            over = self._team_end = threading.Event()
            threading.Thread(target=_idle_team, args=(library, over), daemon=True).start()
        elif not on and self._team_end is not None:
            self._team_end.set()  # the team ends with the thread that made it
            self._team_end = None


def _idle_team(library: ctypes.CDLL, over: threading.Event) -> None:
    """Holds a team of more threads than processors until the event is set."""
    nothing = ctypes.cast(library.omp_get_num_threads, ctypes.c_void_p)
    library.GOMP_parallel(nothing, None, library.omp_get_num_procs() + 1, 0)
    over.wait()


@functools.cache
def gnu_openmp() -> ctypes.CDLL | None:
    """The GNU OpenMP library that PyTorch has loaded, to switch how its threads wait.

    None if PyTorch uses another, if the user has set how threads wait, or on a large machine.
    """
    if any(name in os.environ for name in SET_BY_USER) or _processors() > MOST_PROCESSORS:
        return None
    return openmp()


@functools.cache
def openmp() -> ctypes.CDLL | None:
    """The GNU OpenMP library that PyTorch has loaded; None if PyTorch uses another."""
    try:
        mapped = Path("/proc/self/maps").read_text("utf-8", "replace").splitlines()
        path = next(line.split(maxsplit=5)[5] for line in mapped if "/libgomp" in line)
        library = ctypes.CDLL(path)
        return library if hasattr(library, "GOMP_parallel") else None
    except (OSError, StopIteration, IndexError):
        return None


def seconds_computed() -> float | None:
    """CPU seconds of all programs since boot, on the processors that this process may use.

    Programs of low priority (`nice`) are not counted, unless this one has low priority, too. None
    if the system does not provide the numbers; the machine then always counts as quiet.
    """
    try:
        lines = Path("/proc/stat").read_text("ascii").splitlines()
        allowed = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        tick = os.sysconf("SC_CLK_TCK")
        polite = os.nice(0) > 0
    except (OSError, AttributeError, ValueError):
        return None
    total = 0
    for line in lines:
        name, *fields = line.split()
        if name in allowed:
            user, nice, system, _, _, interrupts, soft, stolen = map(int, fields[:8])
            total += user + system + interrupts + soft + stolen + (nice if polite else 0)
    return total / tick


@functools.cache
def _processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


MACHINE = Machine()
"""The machine that this process runs on."""


def free_cores() -> AbstractContextManager[None]:
    """Limits PyTorch's threads to the free cores for the body of a `with`."""
    return torch_threads(MACHINE.threads(torch.get_num_threads()))
