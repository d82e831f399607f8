"""Several processes that train one model together: who this one is, and what they tell each other.

`torchrun --nproc-per-node 2 -m regard train …` starts them, and says in the environment who each
is. In: that environment. Out: a `Ranks` to ask. Process 0 writes, measures and speaks; where one
has died, those that are left end with one message among them. torch is imported only where there
are several.
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
from regard.runtime.stopping import end_at_once, give_back, handle

LONGEST_WAIT = timedelta(hours=12)
"""For the others: process 0 may score a large validation set meanwhile."""
FIRST_WORD = 1.0
"""Seconds in which a process that knows what went wrong may say so before the others do."""
SAID = "regard/said"
"""The key under which the processes count who has spoken."""
SIGNS = ("gloo", "Connection closed", "Connection reset", "Broken pipe", "NCCL")
"""What an error says when another process is gone; gloo has no kind of error of its own."""


@dataclass(frozen=True)
class Ranks:
    """One of `world` processes, by default the only one."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes, measures and speaks."""
        return self.rank == 0

    def total(self, value: float) -> float:
        """The sum of a number over all processes."""
        return self._reduced(value, "SUM")

    def largest(self, value: float) -> float:
        """The largest number that a process has."""
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
        """What process 0 has for it."""
        if self.world == 1:
            return value
        import torch
        import torch.distributed as dist

        box = [value]
        dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        return box[0]

    def wait(self) -> None:
        """Until all processes are here."""
        self.largest(0.0)

    def check_alike(self, what: str, value: str) -> None:
        """Refuses to go on where a process has another value than process 0.

        Args:
            what: What it is, for the error.
            value: This process's.
        """
        differs = self.shared(value) != value
        if self.largest(float(differs)):
            raise InputError(
                f"{what}: the processes do not have the same",
                fix="give every machine the same files and the same version of Regard",
            )


ALONE = Ranks()


def ranks_here() -> Ranks:
    """Who this process is, as torchrun says it in the environment."""
    rank, world = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE"))
    if rank.isdigit() and world.isdigit() and int(world) > 1:
        return Ranks(int(rank), int(world))
    return ALONE


@contextmanager
def together(device: str) -> Iterator[Ranks]:
    """Joins the processes that torchrun has started, if it has, and parts from them afterwards.

    Inside, an error is said by one of them: by the first that knows of it. All end.

    Args:
        device: Where this one computes. GPUs add their gradients by NCCL, CPUs by gloo.

    Raises:
        FoundProblems: Another process has died.
    """
    ranks = ranks_here()
    if ranks.world == 1:
        yield ranks
        return
    with _joined(ranks, device) as crowd:
        if not ranks.first:
            logging.getLogger("regard").setLevel(logging.ERROR)
        try:
            yield ranks
        except Interrupted as error:  # a signal, on which all have agreed
            if ranks.first:
                raise
            raise SystemExit(error.exit_code) from None
        except UserError as error:
            if crowd.may_speak():
                raise
            raise SystemExit(error.exit_code) from None
        except RuntimeError as error:
            if not is_lost(error):
                crowd.may_speak()
                raise
            crowd.leave(ranks)


class _Crowd:
    """The processes as seen from one of them, to end in good order.

    Args:
        ranks: Who this one is.
        store: Where they can leave each other notes.
    """

    def __init__(self, ranks: Ranks, store: Any) -> None:
        self.ranks, self._store, self.leaving = ranks, store, False

    def receive(self, number: int, frame: FrameType | None) -> None:
        """The handler of a signal: process 0 says that it ends."""
        if self.leaving:  # torchrun ends those that are left
            return
        if self.ranks.first:
            end_at_once(number, frame)
        os._exit(128 + number)

    def may_speak(self) -> bool:
        """Whether nobody has said before what went wrong; asked once."""
        self.leaving = True
        try:
            return self._store.add(SAID, 1) == 1
        except RuntimeError:  # whoever kept the notes is gone
            return True

    def leave(self, ranks: Ranks) -> NoReturn:
        """Ends because another process has died."""
        self.leaving = True
        time.sleep(FIRST_WORD)  # it may have a reason to give
        if not self.may_speak():
            raise SystemExit(1) from None
        raise FoundProblems(
            f"training stopped: another of its {ranks.world} processes has ended",
            fix="checkpoints are whole: go on with the same command and --resume",
        ) from None


@contextmanager
def _joined(ranks: Ranks, device: str) -> Iterator[_Crowd]:
    """Joins the process group; signals are the crowd's until it is over."""
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
    crowd = _Crowd(ranks, store)
    before = handle(crowd.receive)
    try:
        yield crowd
        dist.destroy_process_group()
    finally:
        if not crowd.leaving:
            give_back(before)


def is_lost(error: BaseException) -> bool:
    """Whether an error comes from another process that is gone."""
    from torch.distributed import DistError

    return isinstance(error, DistError) or any(sign in str(error) for sign in SIGNS)


@contextmanager
def silenced() -> Iterator[None]:
    """Inside, a process that is not the first says nothing of errors that all of them have."""
    try:
        yield
    except UserError as error:
        if ranks_here().first:
            raise
        raise SystemExit(error.exit_code) from None
