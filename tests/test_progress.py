"""The time left: no guess from the first seconds, then the speed of the work itself."""

from __future__ import annotations

import re

import pytest

from regard.runtime import progress as bars
from regard.runtime.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that is moved by hand."""
    now = [1000.0]
    monkeypatch.setattr(bars.time, "monotonic", lambda: now[0])
    return now


def shown(capsys):
    """The time left of each line."""
    return re.findall(r"(\S+) left", capsys.readouterr().err)


def seconds(left):
    minutes, left_over = left.split(":")[-2:]
    return 60 * int(minutes) + int(left_over)


def test_a_slow_first_step_does_not_count(capsys, clock):
    with Progress(1000, interval=0.0, counted="step") as bar:
        clock[0] += 20  # the first step chooses kernels and allocates
        bar.update_to(1)
        for step in range(2, 1000):
            clock[0] += 0.1
            bar.update_to(step)
    lines = shown(capsys)
    unknown = [left for left in lines if left == "-:--"]
    assert lines[: len(unknown)] == unknown
    assert 25 <= len(unknown) <= 35  # three seconds of steps
    for step, left in enumerate(lines[len(unknown) :], start=1 + len(unknown)):
        assert seconds(left) == pytest.approx(0.1 * (1000 - step), abs=1)


def test_a_single_report_counts_once_the_start_hardly_matters(capsys, clock):
    with Progress(100, interval=0.0) as bar:
        clock[0] += 29
        bar.update_to(10)
        clock[0] += 2
        bar.update_to(10)
    assert shown(capsys) == ["-:--", "4:39"]


def test_nothing_is_guessed_of_no_work_and_the_end_is_known(capsys, clock):
    with Progress(1.0, interval=0.0) as bar:
        clock[0] += 100
        bar.update_to(0.0, "reading")
        clock[0] += 1
        bar.update_to(1.0, "done")
    assert shown(capsys) == ["-:--", "0:00"]


def test_new_work_has_a_speed_of_its_own(capsys, clock):
    with Progress(1.0, interval=0.0) as bar:
        for share in (0.5, 1.0):
            clock[0] += 50
            bar.update_to(share, "loss")
        bar.update_to(0.0, "next words")
        for share in (0.1, 0.2, 0.3):
            clock[0] += 5
            bar.update_to(share, "next words")
    assert shown(capsys) == ["0:50", "0:00", "-:--", "-:--", "0:40", "0:35"]
