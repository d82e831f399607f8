"""Commands as a person types them, in this process and an empty folder."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from regard import cli


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def regard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Runs a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_THREADS", "1")

    def run(*words: str, feed: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["regard", *words])
        (tmp_path / ".stdin").write_bytes(feed)
        code = 0
        with (tmp_path / ".stdin").open() as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            try:
                cli.main()
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        logging.getLogger("regard").setLevel(logging.NOTSET)  # --quiet is for a process
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return run


def is_refused(result: Result, *words: str) -> None:
    """Exit 2, two lines at most, no traceback, and the words that help."""
    assert result.code == 2
    assert result.out == ""
    assert "Traceback" not in result.err
    assert len(result.err.strip().splitlines()) <= 2
    for word in words:
        assert word in result.err
