"""Folders of the cache: whole or not there, also if two processes fill the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.text.cache import new_folder

STATE = "nothing is stored"


def is_whole(folder: Path) -> bool:
    return (folder / "done").is_file()


def fill(folder: Path, content: str) -> None:
    (folder / "done").write_text(content)


def test_a_whole_folder_of_a_faster_process_is_never_removed(tmp_path):
    folder = tmp_path / "cache" / "key"
    asked = []

    def is_whole_now(path: Path) -> bool:
        asked.append(is_whole(path))
        return asked[-1]

    with new_folder(folder, is_whole_now, STATE) as temporary:
        fill(temporary, "this process")
        folder.mkdir()
        fill(folder, "another process")
    assert asked == [True]
    assert (folder / "done").read_text() == "another process"
    assert [path.name for path in folder.parent.iterdir()] == ["key"]


def test_a_folder_that_comes_while_it_is_looked_for_is_not_removed(tmp_path, monkeypatch):
    folder, removed = tmp_path / "key", []
    monkeypatch.setattr(
        "regard.data.text.cache.shutil.rmtree", lambda path, **_: removed.append(path)
    )

    def is_whole_a_moment_ago(path: Path) -> bool:
        whole = is_whole(path)
        if not whole:  # another process is done just now
            path.mkdir()
            fill(path, "another process")
        return whole

    with new_folder(folder, is_whole_a_moment_ago, STATE) as temporary:
        fill(temporary, "this process")
    assert is_whole(folder)
    assert folder not in removed


def test_a_damaged_folder_is_replaced(tmp_path):
    folder = tmp_path / "key"
    folder.mkdir()
    (folder / "half").touch()
    with new_folder(folder, is_whole, STATE) as temporary:
        fill(temporary, "new")
    assert [path.name for path in folder.iterdir()] == ["done"]


def test_a_failure_leaves_nothing(tmp_path):
    def fail() -> None:
        with new_folder(tmp_path / "key", is_whole, STATE) as temporary:
            fill(temporary, "half")
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        fail()
    assert not list(tmp_path.iterdir())
