"""Other programs on the machine: how much they compute, and how our threads wait beside them.

OpenMP's threads wait for each other by spinning: on a quiet machine that is the fastest way, but
beside other programs a thread spins while the one it waits for has no core. So while others
compute, our threads are made to sleep instead, and decoding takes no more threads than cores are
free. A training keeps its threads, since the last bits of a sum depend on them; only the way they
wait changes. The training loop and the decoding loop start the looking, which ends by itself
when they are over.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

INTERVAL = 0.2
"""Seconds between two looks at the machine. Its clock counts hundredths."""
NOTICED, FORGOTTEN = 0.5, 0.3
"""Cores that others must take for a quiet machine to count as busy, and a busy one as still so."""
PATIENCE = 60.0
"""Seconds without a step of training or decoding after which nobody looks any more."""
MOST_PROCESSORS = 256
"""On a larger machine threads wait as they always do: see `Sleep`."""
SET_BY_USER = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""Environment variables that say how threads wait; who sets one has decided."""


class Machine:
    """How many cores other programs take, looked at every `INTERVAL` seconds while we compute."""

    def __init__(self) -> None:
        self.others = 0.0
        """Cores, as a mean since the look before."""
        self.busy = False
        self.threads_are_set = "OMP_NUM_THREADS" in os.environ
        """Whether the user has said how many threads compute: then decoding takes as many."""
        self._seen, self._asked, self._wanted = self._read(), 0.0, 1
        self._sleep, self._watcher = Sleep(), threading.Thread()

    def watch(self, wanted: int) -> None:
        """Looks at the machine from now on, for as long as this is called now and then.

        Args:
            wanted: How many threads compute on a quiet machine.
        """
        self._asked, self._wanted = time.monotonic(), wanted
        if not self._watcher.is_alive():
            self._look()
            self._watcher = threading.Thread(target=self._keep_looking, daemon=True)
            self._watcher.start()

    def threads(self, wanted: int) -> int:
        """How many threads to decode with: as many as are wanted and have a core of their own."""
        self.watch(wanted)
        if wanted == 1 or not self.busy or self.threads_are_set:
            return wanted
        return max(1, min(wanted, round(_processors() - self.others)))

    def _keep_looking(self) -> None:
        while time.monotonic() - self._asked < PATIENCE:
            time.sleep(INTERVAL)
            self._look()
        self._sleep.set(on=False)

    def _look(self) -> None:
        now, before = self._read(), self._seen
        if now is None or before is None or now[0] - before[0] < INTERVAL / 2:
            return
        seconds, everyone, own = (new - old for new, old in zip(now, before, strict=True))
        self._seen, self.others = now, max(0.0, everyone - own) / seconds
        spare = max(0, _processors() - self._wanted)  # cores that we leave to others anyway
        self.busy = self.others >= spare + (FORGOTTEN if self.busy else NOTICED)
        self._sleep.set(on=self.busy)

    @staticmethod
    def _read() -> tuple[float, float, float] | None:
        """The time, the seconds that all programs have computed, and our own; None: not known."""
        everyone = seconds_computed()
        return None if everyone is None else (time.monotonic(), everyone, time.process_time())


class Sleep:
    """Makes OpenMP's threads sleep while they wait for each other, and spin again.

    GNU's OpenMP lets its threads spin for some milliseconds, but sleep almost at once where it has
    more threads than processors. There is no other way to change that while a program runs. So a
    team of one thread too many is made, which never does anything; ending it ends the sleep.
    """

    def __init__(self) -> None:
        self._over: threading.Event | None = None

    def set(self, *, on: bool) -> None:
        """Sleep, or spin."""
        if on and self._over is None and (library := gnu_openmp()) is not None:
            over = self._over = threading.Event()
            threading.Thread(target=_idle_team, args=(library, over), daemon=True).start()
        elif not on and self._over is not None:
            self._over.set()  # the team ends with the thread that made it
            self._over = None


def _idle_team(library: ctypes.CDLL, over: threading.Event) -> None:
    nothing = ctypes.cast(library.omp_get_num_threads, ctypes.c_void_p)
    library.GOMP_parallel(nothing, None, library.omp_get_num_procs() + 1, 0)
    over.wait()


@functools.cache
def gnu_openmp() -> ctypes.CDLL | None:
    """The OpenMP that PyTorch computes with; None if its waiting is not ours to change."""
    if any(name in os.environ for name in SET_BY_USER) or _processors() > MOST_PROCESSORS:
        return None
    try:
        mapped = Path("/proc/self/maps").read_text("utf-8", "replace").splitlines()
        path = next(line.split(maxsplit=5)[5] for line in mapped if "/libgomp" in line)
        library = ctypes.CDLL(path)
        return library if hasattr(library, "GOMP_parallel") else None
    except (OSError, StopIteration, IndexError):
        return None


def seconds_computed() -> float | None:
    """Seconds that programs have computed on the processors we may use, since the machine started.

    Programs that gave way to all others (`nice`) do not count, unless ours is one of them. None
    where the system does not tell: there the machine always counts as quiet.
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
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


MACHINE = Machine()
"""The one that this process runs on."""


@contextmanager
def free_cores() -> Iterator[None]:
    """Computes with the threads of this thread, or with fewer while others take the cores."""
    wanted = torch.get_num_threads()
    threads = MACHINE.threads(wanted)
    if threads == wanted:
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(wanted)
