"""Several processes that train one model together: ranks, communication and orderly ending.

`torchrun --nproc-per-node 2 -m regard train …` starts the processes and sets their ranks in the
environment. In: that environment. Out: a `Ranks`. Process 0 writes files, evaluates and prints. If
one process has died, the others end with one message in total. torch is imported only if there are
several processes.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any, NoReturn

from regard.errors import FoundProblems, InputError, Interrupted, UserError
from regard.runtime.stopping import exit_on_signal, restore_handlers, set_handlers

LONGEST_WAIT = timedelta(hours=12)
"""Timeout for other processes; process 0 may be evaluating a large validation set meanwhile."""
REPORT_DELAY = 1.0
"""Seconds for which the other processes let one that knows the cause of a failure print it."""
REPORTED = "regard/reported"
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
        return self._reduced(value, "SUM")

    def largest(self, value: float) -> float:
        """The maximum of a number over all processes."""
        return self._reduced(value, "MAX")

    def _reduced(self, value: float, how: str) -> float:
        if self.world == 1:
            return value
        import torch
        import torch.distributed as dist

        box = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(box, getattr(dist.ReduceOp, how))
        return float(box)

    def shared(self, value: Any) -> Any:
        """Returns the value of process 0 in all processes."""
        if self.world == 1:
            return value
        import torch
        import torch.distributed as dist

        box = [value]
        dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        return box[0]

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
            raise InputError(
                f"{what} is not the same in all processes",
                fix="give every machine the same files and the same version of Regard",
            )


SINGLE_PROCESS = Ranks()


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
    with _joined(ranks, device) as ending:
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
            ending.leave(ranks)


class _Ending:
    """Coordinates how the processes end, so that one of them prints the reason.

    Args:
        ranks: The rank of this process.
        store: PyTorch's key-value store that all processes share.
    """

    def __init__(self, ranks: Ranks, store: Any) -> None:
        self.ranks, self._store, self.leaving = ranks, store, False

    def receive(self, number: int, frame: FrameType | None) -> None:
        """The signal handler: ends the process; only process 0 prints a message."""
        if self.leaving:  # already ending; torchrun sends signals to the remaining processes
            return
        if self.ranks.first:
            exit_on_signal(number, frame)
        os._exit(128 + number)

    def reports_first(self) -> bool:
        """Whether this process is the first to report an error; may be called once."""
        self.leaving = True
        try:
            return self._store.add(REPORTED, 1) == 1
        except RuntimeError:  # the process that held the store has ended
            return True

    def leave(self, ranks: Ranks) -> NoReturn:
        """Ends this process because another has died."""
        self.leaving = True
        time.sleep(REPORT_DELAY)  # the other process may report the cause itself
        if not self.reports_first():
            raise SystemExit(1) from None
        raise FoundProblems(
            f"training stopped: another of its {ranks.world} processes has ended",
            fix="the checkpoints are intact: continue with the same command and --resume",
        ) from None


@contextmanager
def _joined(ranks: Ranks, device: str) -> Iterator[_Ending]:
    """Joins the process group, and handles signals by `_Ending.receive` until the body ends."""
    import torch
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    store, _, _ = next(iter(rendezvous("env://", timeout=LONGEST_WAIT)))
    dist.init_process_group(
        backend, store=store, rank=ranks.rank, world_size=ranks.world, timeout=LONGEST_WAIT
    )
    ending = _Ending(ranks, store)
    before = set_handlers(ending.receive)
    try:
        yield ending
        dist.destroy_process_group()
    finally:
        if not ending.leaving:
            restore_handlers(before)


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
