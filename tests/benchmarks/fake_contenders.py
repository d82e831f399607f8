"""Contenders for the tests of the harness: each does one thing that a real one might."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


@dataclass
class Logged:
    """Writes its name into a file at each turn; its work is the number of its process."""

    name: str
    log: str

    def prepare(self, threads: int) -> None:
        assert os.environ["OMP_NUM_THREADS"] == str(threads)

    def measure(self, case: str) -> float:
        with Path(self.log).open("a") as file:
            file.write(self.name + case + "\n")
        time.sleep(0.21)
        return os.getpid()


@dataclass
class Absent:
    install: ClassVar = "pip install something-that-is-absent"

    def prepare(self, threads: int) -> None:
        del threads
        import something_that_is_absent  # noqa: F401

    def measure(self, case: str) -> float:
        raise AssertionError(case)


@dataclass
class Crashing:
    """Ends its process in the turn that is named: a segmentation fault, or no memory left."""

    turn: int

    def prepare(self, threads: int) -> None:
        del threads
        self.turns = 0

    def measure(self, case: str) -> float:
        del case
        self.turns += 1
        if self.turns == self.turn:
            sys.stderr.write("no room left for the matrix\n")
            sys.stderr.flush()
            os._exit(3)
        time.sleep(0.21)
        return 1


@dataclass
class Raising:
    def prepare(self, threads: int) -> None:
        del threads

    def measure(self, case: str) -> float:
        raise ValueError(f"cannot do {case}\nand more")


@dataclass
class Hungry:
    """Holds so many MiB when it is ready, and so many more during a turn."""

    before: int
    more: int

    def prepare(self, threads: int) -> None:
        del threads
        assert len(b"z" * (500 * 2**20))  # while it prepares it needs more, which does not count
        self.held = b"x" * (self.before * 2**20)
        sys.stdout.write("libraries print, too\n")

    def measure(self, case: str) -> float:
        del case
        return len(b"y" * (self.more * 2**20))


@dataclass
class Silent:
    def prepare(self, threads: int) -> None:
        time.sleep(60 * threads)

    def measure(self, case: str) -> float:
        raise AssertionError(case)
