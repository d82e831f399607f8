"""Only regular files are read, and only as much of them as was agreed."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.runtime.files import open_regular, read_private, read_regular, write_private


def test_a_file_and_a_link_to_it_are_read_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "empty").write_bytes(b"")
    assert read_regular(tmp_path / "file", most=5) == b"12345"
    assert read_regular(str(tmp_path / "link"), most=6) == b"12345"
    assert read_regular(tmp_path / "empty", most=0) == b""
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"12345"


def test_a_larger_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    with pytest.raises(InputError, match="file: got 5 bytes, expected at most 4"):
        read_regular(tmp_path / "file", most=4)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match="got 1,099,511,627,776 bytes, expected at most 1,000"):
        read_regular(tmp_path / "sparse", most=1000)
    with pytest.raises(InputError, match="at most 10"):
        read_regular("/proc/self/status", most=10)  # its size is 0, and it has more than 10 bytes
    assert read_regular("/proc/self/status", most=1 << 20).startswith(b"Name:")


def test_nothing_but_regular_files_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for path, kind in [
            (tmp_path / "pipe", "a named pipe"),
            (tmp_path / "link", "a device"),
            (tmp_path / "socket", "a socket"),
            (tmp_path, "a folder"),
        ]:
            for take in (open_regular, lambda p: read_regular(p, most=10)):
                with pytest.raises(InputError, match=f"got {kind}, expected a regular file"):
                    take(path)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "nowhere", most=10)


@pytest.fixture
def private(tmp_path):
    before = os.umask(0o002)  # a group may write what is created
    try:
        yield write_private(tmp_path / "kernels" / "code.o", b"code")
    finally:
        os.umask(before)


def test_a_private_file_is_for_its_user_alone_whatever_the_umask(private):
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE(private.parent.stat().st_mode) == 0o700
    assert read_private(private, 4) == b"code"
    private.parent.chmod(0o775)
    private.chmod(0o664)
    write_private(private, b"new")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE(private.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_private_file_that_others_may_write_is_refused(private, mode):
    private.chmod(mode)
    with pytest.raises(InputError, match=f"mode {mode:o}, expected owner .* no other can write"):
        read_private(private, 4)
    private.chmod(0o600)
    private.parent.chmod(mode | 0o100)
    with pytest.raises(InputError, match="kernels: got owner"):
        read_private(private, 4)


def test_a_private_file_is_checked_as_it_was_opened(private, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="got 4 bytes, expected at most 3"):
        read_private(private, 3)
    (tmp_path / "folder").symlink_to(private.parent)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        read_private(tmp_path / "folder" / private.name, 4)
    (private.parent / "link").symlink_to(private)
    with pytest.raises(OSError, match="Too many levels"):
        read_private(private.parent / "link", 4)
    os.mkfifo(private.parent / "pipe", 0o600)
    with pytest.raises(InputError, match="got a named pipe, expected a regular file"):
        read_private(private.parent / "pipe", 4)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(InputError, match="expected owner 12345"):
        read_private(private, 4)
