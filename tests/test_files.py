"""Only regular files are read, and only as much of them as was agreed."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.runtime.files import open_regular, read_regular


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
        for place, kind in [
            (tmp_path / "pipe", "a named pipe"),
            (tmp_path / "link", "a device"),
            (tmp_path / "socket", "a socket"),
            (tmp_path, "a folder"),
        ]:
            for take in (open_regular, lambda one: read_regular(one, most=10)):
                with pytest.raises(InputError, match=f"got {kind}, expected a regular file"):
                    take(place)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "nowhere", most=10)
