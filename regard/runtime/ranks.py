"""Several processes that train one model together: ranks, communication and orderly ending.

`torchrun --nproc-per-node 2 -m regard train …` starts the processes and sets their ranks in the
environment. In: that environment. Out: a `Ranks`. Process 0 writes files, evaluates and prints. If
one process has died, the others end with one message in total; if torchrun has, all end. A signal
ends a process also while it waits for others (see `watchdog.py`). torch is imported only if there
are several processes.
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any, NoReturn

from regard.errors import FoundProblems, InputError, Interrupted, UserError
from regard.runtime.stopping import exit_on_signal, restore_handlers, set_handlers
from regard.runtime.watchdog import Watchdog, speaks_for_machine

LONGEST_WAIT = timedelta(hours=12)
"""Timeout for other processes; process 0 may be evaluating a large validation set meanwhile."""
CONNECT_WAIT = 30.0
"""Seconds to connect to processes that are known to run: to torchrun, and to those that arrived."""
ARRIVAL_WAIT = 600.0
"""Seconds to wait for processes that are still to be started or importing; torchrun waits as long
for other machines."""
JOIN_PATIENCE = 1.0
"""Seconds after which a signal ends a process that waits in C++ while the processes join."""
PATIENCE = 20.0
"""The same afterwards: time to finish a step and to save. torchrun kills after 30 seconds."""
ARRIVED = "arrived"
"""The key of the shared store that counts the processes that have connected to it."""
ARRIVAL_INTERVAL = 0.1
"""Seconds between two looks at that number."""
REPORT_DELAY = 1.0
"""Seconds for which the other processes let one that knows the cause of a failure print it."""
REPORTED = "reported"
"""The key of the shared store that counts the processes that have printed an error."""
LOST_MESSAGES = ("gloo", "Connection closed", "Connection reset", "Broken pipe", "NCCL")
"""Parts of error messages after another process has ended; gloo has no error type of its own."""


@dataclass(frozen=True)
class Ranks:
    """The rank of this process among `world` processes; by default it is the only one."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this is process 0, which writes files, evaluates and prints."""
        return self.rank == 0

    def total(self, value: float) -> float:
        """The sum of a number over all processes."""
        return self._reduce(value, "SUM")

    def largest(self, value: float) -> float:
        """The maximum of a number over all processes."""
        return self._reduce(value, "MAX")

    def _reduce(self, value: float, how: str) -> float:
        """The values of all processes combined by `how`, the name of a `ReduceOp` of PyTorch."""
        if self.world == 1:
            return value
        import torch
        import torch.distributed as dist

        tensor = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(tensor, getattr(dist.ReduceOp, how))
        return float(tensor)

    def shared(self, value: Any) -> Any:
        """Returns the value of process 0 in all processes."""
        if self.world == 1:
            return value
        import torch
        import torch.distributed as dist

        values = [value]
        dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def wait(self) -> None:
        """Waits until all processes have called this method."""
        self.largest(0.0)

    def check_alike(self, what: str, value: str) -> None:
        """Raises an error in all processes if one has another value than process 0.

        Args:
            what: Name of the value, for the error message.
            value: The value in this process.
        """
        differs = self.shared(value) != value
        if self.largest(float(differs)):
            fix = "give every machine the same files and the same version of Regard"
            raise InputError(f"{what} is not the same in all processes", fix=fix)


SINGLE_PROCESS = Ranks()

_joins = itertools.count(1)  # a program may train several times; each has its own keys


def ranks_here() -> Ranks:
    """The rank of this process, from the environment variables that torchrun sets."""
    rank, world = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE"))
    if rank.isdigit() and world.isdigit() and int(world) > 1:
        return Ranks(int(rank), int(world))
    return SINGLE_PROCESS


@contextmanager
def process_group(device: str) -> Iterator[Ranks]:
    """Joins the process group for the body of a `with`, if torchrun started several processes.

    An error in the body is reported by one process, the first that meets it, and ends all.

    Args:
        device: The device of this process. GPUs exchange gradients by NCCL, CPUs by gloo.

    Raises:
        FoundProblems: Another process has died.
    """
    ranks = ranks_here()
    if ranks.world == 1:
        yield ranks
        return
    with _join_group(ranks, device) as ending:
        if not ranks.first:
            logging.getLogger("regard").setLevel(logging.ERROR)
        try:
            yield ranks
        except Interrupted as error:  # a signal that all processes know of
            if ranks.first:
                raise
            raise SystemExit(error.exit_code) from None
        except UserError as error:
            if ending.reports_first():
                raise
            raise SystemExit(error.exit_code) from None
        except RuntimeError as error:
            if not is_lost(error):
                ending.reports_first()
                raise
            ending.leave()


class _Ending:
    """Coordinates how the processes end, so that one of them prints the reason.

    Args:
        ranks: The rank of this process.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.leaving = ranks, False
        self.store: Any = None
        """PyTorch's key-value store that all processes share; None until it is connected."""

    def receive(self, number: int, frame: FrameType | None) -> None:
        """The signal handler: ends the process, unless it is ending already.

        In that case torchrun has sent the signal to the processes that remain.
        """
        del frame
        if not self.leaving:
            self.end(number)

    def end(self, number: int) -> NoReturn:
        """Ends the process because of a signal; only process 0 prints a message."""
        if self.ranks.first and not self.leaving:
            exit_on_signal(number, None)
        os._exit(128 + number)

    def reports_first(self) -> bool:
        """Whether this process is the first to report an error; may be called once."""
        self.leaving = True
        try:
            return self.store.add(REPORTED, 1) == 1
        except RuntimeError:  # the process that held the store has ended
            return True

    def leave(self) -> NoReturn:
        """Ends this process because another has died."""
        self.leaving = True
        time.sleep(REPORT_DELAY)  # the other process may report the cause itself
        if not self.reports_first():
            raise SystemExit(1) from None
        problem = f"training stopped: another of its {self.ranks.world} processes has ended"
        fix = "the checkpoints are intact: continue with the same command and --resume"
        raise FoundProblems(problem, fix=fix) from None


@contextmanager
def _join_group(ranks: Ranks, device: str) -> Iterator[_Ending]:
    """Joins the process group, and handles signals by `_Ending` until the body ends."""
    import torch
    import torch.distributed as dist

    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    ending = _Ending(ranks)
    before = set_handlers(ending.receive)
    watchdog = Watchdog(ending.end, JOIN_PATIENCE)
    try:
        ending.store = store = _open_store(ranks, watchdog)
        _connect_processes(ranks, backend, store, watchdog)
        watchdog.patience = PATIENCE
        yield ending
        dist.destroy_process_group()
    finally:
        if not ending.leaving:
            watchdog.stop()
            restore_handlers(before)


def _open_store(ranks: Ranks, watchdog: Watchdog) -> Any:
    """Connects to the shared store, and waits until all processes have done so.

    torchrun has started the store before its processes. Without torchrun, process 0 starts it.

    Raises:
        FoundProblems: The store does not answer, or a process did not come.
    """
    from torch.distributed import DistError, PrefixStore, TCPStore  # type: ignore[attr-defined]

    host, port = _store_address()
    has_torchrun = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)
    starts = ranks.first and not has_torchrun
    try:
        if not starts:
            _wait_for_port(host, port, CONNECT_WAIT if has_torchrun else ARRIVAL_WAIT)
        connection = TCPStore(
            host,
            port,
            ranks.world,
            is_master=starts,
            timeout=timedelta(seconds=CONNECT_WAIT),
            wait_for_workers=False,
            multi_tenant=not has_torchrun,
        )
        connection.set_timeout(LONGEST_WAIT)
        store = PrefixStore(f"regard/{next(_joins)}", connection)
        count, until = store.add(ARRIVED, 1), time.monotonic() + ARRIVAL_WAIT
        while count < ranks.world and time.monotonic() < until:
            time.sleep(ARRIVAL_INTERVAL)
            if not watchdog.is_orphan():  # else the store is gone, and the watchdog says why
                count = store.add(ARRIVED, 0)
    except (DistError, OSError) as error:
        name = "torchrun" if has_torchrun else "process 0"
        reason = error.strerror if isinstance(error, OSError) else "the connection was lost"
        _end_without_start(f"{name} does not answer at {host}:{port} ({reason or error})")
    if count < ranks.world:
        _end_without_start(f"only {count} of {ranks.world} processes came")
    return store


def _connect_processes(ranks: Ranks, backend: str, store: Any, watchdog: Watchdog) -> None:
    """Connects the processes, which have all arrived, with each other."""
    import torch.distributed as dist

    lost = f"process {ranks.rank} could not connect to the other {ranks.world - 1}"
    rank, world = ranks.rank, ranks.world
    try:
        with watchdog.at_most(CONNECT_WAIT, lost):
            dist.init_process_group(
                backend, store=store, rank=rank, world_size=world, timeout=LONGEST_WAIT
            )
    except RuntimeError as error:
        _end_without_start(f"{lost} ({str(error).partition(chr(10))[0]})")


def _wait_for_port(host: str, port: int, seconds: float) -> None:
    """Waits until a port answers.

    `TCPStore` would wait as well, but in C++, much longer than it is told, and with stack traces.

    Raises:
        OSError: It did not answer in that time.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, port), timeout=seconds).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(ARRIVAL_INTERVAL)
        else:
            return


def _store_address() -> tuple[str, int]:
    """The host and the port of the shared store, from the environment."""
    host, port = (os.environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT"))
    if not host or not (port.isdigit() and int(port) < 2**16):
        what = "several processes (RANK and WORLD_SIZE are set)"
        got = f"MASTER_ADDR={host} MASTER_PORT={port}"
        fix = "start them by torchrun, which sets these variables; or unset WORLD_SIZE"
        raise InputError(what, got=got, expected="the address of process 0", fix=fix)
    return host, int(port)


def _end_without_start(problem: str) -> NoReturn:
    """Ends a process that could not join the others; one of each machine says why."""
    if not speaks_for_machine():
        raise SystemExit(1) from None
    fix = "start all processes again, by torchrun"
    raise FoundProblems(f"training did not start: {problem}", fix=fix) from None


def is_lost(error: BaseException) -> bool:
    """Whether an error was caused by the end of another process."""
    from torch.distributed import DistError

    return isinstance(error, DistError) or any(sign in str(error) for sign in LOST_MESSAGES)


@contextmanager
def first_process_reports() -> Iterator[None]:
    """A context for errors that occur in all processes: only process 0 reports them."""
    try:
        yield
    except UserError as error:
        if ranks_here().first:
            raise
        raise SystemExit(error.exit_code) from None
