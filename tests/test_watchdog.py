"""A process that waits in vain ends: by a signal in C, by the end of torchrun, by a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from regard.runtime.watchdog import Watchdog

# Python runs no signal handler during this call; it would take days.
STUCK = "__import__('hashlib').pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)"
START = (
    "import os, signal, sys, time\n"
    "from regard.runtime.stopping import exit_on_signal, set_handlers\n"
    "from regard.runtime.watchdog import Watchdog\n"
    "set_handlers(lambda number, frame: None)\n"
    "dog = Watchdog(lambda number: exit_on_signal(number, None), 0.2)\n"
    "print('ready', flush=True)\n"
)


def started(code: str, **variables: str) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ | variables, **pipes)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_process_that_is_stuck(number: signal.Signals) -> None:
    process = started(START + STUCK)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    name = "Ctrl-C" if number == signal.SIGINT else number.name
    assert said == f"stopped by {name}; nothing was left half-written\n"
    assert process.returncode == 128 + number


@pytest.mark.slow
def test_a_process_that_moves_is_left_to_end_by_itself() -> None:
    process = started(START + "dog.patience = 1.0\n" + "time.sleep(0.3)\n" * 6 + "sys.exit(3)")
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 3


def test_the_end_of_torchrun_is_the_end_of_its_processes() -> None:
    parent = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {START + STUCK!r}])\n"
        "child.wait()"
    )
    process = started(parent, TORCHELASTIC_RUN_ID="none", LOCAL_RANK="0")
    process.kill()
    _, said = process.communicate(timeout=20)  # until the child has closed the pipe as well
    assert said == (
        "torchrun has ended, so its processes end as well\n"
        "stopped by SIGTERM; nothing was left half-written\n"
    )


@pytest.mark.slow
def test_a_process_that_torchrun_did_not_start_outlives_its_parent() -> None:
    before = "import os; parent = os.getppid()\n"
    code = before + START + "time.sleep(1.5)\nprint(os.getppid() != parent)"
    parent = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {code!r}]).wait()"
    process = started(parent)
    process.kill()
    out, said = process.communicate(timeout=20)
    assert (out, said) == ("True\n", "")


def test_a_time_limit() -> None:
    process = started(START + f"with dog.at_most(0.3, 'it took too long'): {STUCK}")
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (1, "error: it took too long\n")


def test_a_stopped_watchdog_leaves_nothing_behind() -> None:
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    dog = Watchdog(lambda _: None, 0.1)
    with dog.at_most(0.05, "not any more"):
        pass
    assert not dog.is_orphan()
    dog.stop()
    assert not dog._thread.is_alive()
    assert signal.set_wakeup_fd(before) == before
