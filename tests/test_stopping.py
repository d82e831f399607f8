"""Signals before a training has taken them over: one line, the right code, nothing swallowed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.runtime import stopping
from regard.train.signals import stop_requests

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}

# The command until it has imported `regard`, without what it would import after that.
START = "import os, sys; sys.argv[0] = '/somewhere/bin/regard'; import regard\n"
SWALLOWING = START + (
    "try:\n    os.kill(os.getpid(), int(sys.argv[1]))\n    sum(range(1000))\n"
    "except BaseException: pass\nprint('went on')"
)


def python(code: str, *words: str, closed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("number", CODES)
def test_a_signal_is_not_swallowed_by_what_is_imported(number: signal.Signals) -> None:
    done = python(SWALLOWING, str(int(number)))
    assert (done.returncode, done.stdout) == (CODES[number], "")
    assert done.stderr == f"stopped by {NAMES[number]}; nothing was left half-written\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_neither_code_nor_files(closed: str, tmp_path: Path) -> None:
    opens = f"file = os.open({str(tmp_path / 'x')!r}, os.O_RDWR | os.O_CREAT); assert file > 2\n"
    done = python(SWALLOWING.replace("try:", opens + "print('x', file=sys.stderr)\ntry:"), "15",
                  closed=closed)  # fmt: skip
    assert done.returncode == 143
    assert done.stdout == ""
    assert done.stderr in ("", "x\nstopped by SIGTERM; nothing was left half-written\n")
    assert (tmp_path / "x").read_bytes() == b""


def test_a_program_that_imports_regard_keeps_its_handlers() -> None:
    code = (
        "import signal; before = [signal.getsignal(n) for n in (1, 2, 15)]\n"
        "import regard, regard.cli, regard.runtime.stopping\n"
        "assert before == [signal.getsignal(n) for n in (1, 2, 15)]"
    )
    assert python(code).returncode == 0


def test_a_command_in_a_program_gives_the_handlers_back(regard) -> None:
    before = [signal.getsignal(number) for number in CODES]
    assert regard("recipe").code == 0
    assert [signal.getsignal(number) for number in CODES] == before


def test_under_nohup_a_hangup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_requests() as request:
            os.kill(os.getpid(), signal.SIGHUP)
            assert request.signal is None
            os.kill(os.getpid(), signal.SIGTERM)
            assert request.signal == signal.SIGTERM
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_is_half_written_when_a_signal_comes_is_removed(tmp_path: Path) -> None:
    code = START + (
        "from pathlib import Path\nfrom regard.runtime.files import temporary_beside, write_file\n"
        f"place = Path({str(tmp_path)!r})\nwrite_file(place / 'old', b'old')\n"
        "with temporary_beside(place / 'old') as one, temporary_beside(place / 'new') as two:\n"
        "    one.write_text('half')\n    two.mkdir()\n    (two / 'x').write_text('half')\n"
        "    os.kill(os.getpid(), 15)\n    sum(range(1000))"
    )
    assert python(code).returncode == 143
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text() == "old"


def test_only_regard_itself_is_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, expected in {"/usr/bin/regard": True, "regard": True, "x/regard.py": False}.items():
        monkeypatch.setattr(sys, "argv", [name])
        assert stopping.is_command() == expected
    monkeypatch.setattr(sys, "argv", [])
    assert not stopping.is_command()


def listens(process: int) -> bool:
    """Whether a process catches SIGTERM."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    caught = next(line for line in lines if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux who listens")
@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("seconds", [0, 0.2, 0.9])
def test_a_command_stops_while_it_imports(number: signal.Signals, seconds: float) -> None:
    words = ["translate", "tiny/translate", "-"]
    with subprocess.Popen(
        [sys.executable, "-m", "regard", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as going:
        until = time.monotonic() + 60
        while not listens(going.pid) and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(seconds)
        going.send_signal(number)
        out, said = going.communicate(timeout=60)
    assert (going.returncode, out) == (CODES[number], "")
    assert said == f"stopped by {NAMES[number]}; nothing was left half-written\n"
