"""Training and decoding beside other busy programs.

    python -m benchmarks.busy                 a quarter of an hour on two cores
    python -m benchmarks.busy --loads 0 2 --seconds 2 --rounds 1

For each number of busy programs: the shipped recipe's training, translating one sentence or 32 at a
time, and GPT-2 small writing one text in fp32 and in int8; by Regard as it is (`default`), by one
thread, by two threads that spin while they wait (GNU OpenMP's own way) and by two that sleep. Each
contender is a process that waits for its turn; rounds are interleaved. Prints medians as shares of
the better of one and two threads at that load, whose own rates a second stand in brackets; exits
with 1 if the default is below 0.8 of it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count

CONTENDERS: dict[str, tuple[int | None, dict[str, str]]] = {
    "default": (None, {}),
    "1 thread": (1, {}),
    "2, spinning": (2, {"GOMP_SPINCOUNT": "300000"}),
    "2, asleep": (2, {"OMP_WAIT_POLICY": "passive"}),
}
"""How many threads, and what stands in the environment before torch is imported."""
BAR = 0.8
SENTENCES = [
    "The old dog didn't see the cat.",
    "The animal didn't cross the street because it was too wide.",
    "The animal was tired.",
    "The cat sees the dog.",
]


def training(threads: int | None) -> Iterator[float]:
    """Steps of training, one at a time; gives the clock after each."""
    import threading

    import regard

    turn, done = threading.Semaphore(0), threading.Semaphore(0)

    def watch(step: int, _: object) -> None:
        if step > 3:
            done.release()
            turn.acquire()

    def run() -> None:
        changes = {"steps": 10**6, "evaluate_every": 10**6, "save_every": 10**6}
        regard.train(
            "tiny/translate",
            quiet=True,
            threads=threads,
            watch=watch,
            data={"pairs": 10000},
            train=changes,
        )

    threading.Thread(target=run, daemon=True).start()
    while True:
        done.acquire()
        yield time.perf_counter()
        turn.release()


def decoding(threads: int | None, at_once: int) -> Iterator[float]:
    """Translations, as many at once as asked for; gives the clock after each."""
    import regard
    from regard.runtime.device import setup

    setup(threads)
    pipeline = regard.load("tiny/translate")
    for number in count():
        sentence = SENTENCES[number % len(SENTENCES)]
        pipeline.translate(sentence if at_once == 1 else SENTENCES * (at_once // len(SENTENCES)))
        yield time.perf_counter()


def writing(threads: int | None, precision: str) -> Iterator[float]:
    """Texts of GPT-2 small, 8 tokens after 4, random weights; gives the clock after each."""
    import tempfile
    from pathlib import Path

    from benchmarks.measure.ours_text import Continue
    from benchmarks.measure.texts import TextWork, random_rows
    from regard.models import GPTConfig

    config, vocab = GPTConfig(size="gpt2", dropout=0.0), 50_257
    work = TextWork(config.model_dump(), vocab, random_rows(1, 4, vocab), 8, end=vocab - 1)
    with tempfile.TemporaryDirectory() as folder:
        contender = Continue(work.save(Path(folder) / "work.json"), precision)
        contender.prepare(threads)
    while True:
        contender.measure("1")
        yield time.perf_counter()


WORK: dict[str, Callable[[int | None], Iterator[float]]] = {
    "training": training,
    "one sentence": lambda threads: decoding(threads, 1),
    "32 sentences": lambda threads: decoding(threads, 32),
    "GPT-2": lambda threads: writing(threads, "float32"),
    "GPT-2 int8": lambda threads: writing(threads, "int8"),
}


def serve(name: str, contender: str) -> None:
    """Works for as many seconds as each line of standard input says; answers with the rate."""
    work = WORK[name](CONTENDERS[contender][0])
    next(work)
    print("ready", flush=True)
    for line in sys.stdin:
        start = now = time.perf_counter()
        done = 0
        while now - start < float(line):
            now = next(work)
            done += 1
        print(done / (now - start), flush=True)


class Contender:
    """A process that waits for its turns."""

    def __init__(self, work: str, name: str) -> None:
        given = {
            key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_"))
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.busy", "--serve", work, name],
            env=given | CONTENDERS[name][1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def turn(self, seconds: float) -> float:
        assert self.process.stdin is not None
        print(seconds, file=self.process.stdin, flush=True)
        return float(self.read())

    def __enter__(self) -> Contender:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def busy(programs: int) -> Iterator[None]:
    """So many programs that do nothing but compute."""
    running = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(programs)
    ]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def measure(
    work: str,
    loads: list[int],
    rounds: int,
    seconds: float,
    names: Collection[str] = tuple(CONTENDERS),
) -> list[float]:
    """Prints a row for each load, by the contenders with these names; the default's shares."""
    shares = []
    with ExitStack() as stack:
        contenders = {name: stack.enter_context(Contender(work, name)) for name in names}
        for contender in contenders.values():
            contender.read()
        for load in loads:
            rates: dict[str, list[float]] = {name: [] for name in contenders}
            with busy(load):
                for _ in range(rounds):
                    for name, contender in contenders.items():
                        contender.turn(0.5)  # time to notice what the machine does
                        rates[name].append(contender.turn(seconds))
            middle = {name: statistics.median(values) for name, values in rates.items()}
            best = max(value for name, value in middle.items() if name != "default")
            cells = [f"{value / best:.2f} ({value:.1f})" for value in middle.values()]
            print(f"| {work} | {load} | {' | '.join(cells)} |", flush=True)
            shares.append(middle["default"] / best)
    return shares


def print_header(names: Collection[str] = tuple(CONTENDERS)) -> None:
    print(f"| work | busy programs | {' | '.join(names)} |")
    print("|---" * (len(names) + 2) + "|", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--loads", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--only", choices=WORK, nargs="+", default=list(WORK))
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(*arguments.serve)
        return 0
    print_header()
    shares: list[float] = []
    for work in arguments.only:
        shares += measure(work, arguments.loads, arguments.rounds, arguments.seconds)
    return int(min(shares) < BAR)


if __name__ == "__main__":
    raise SystemExit(main())
