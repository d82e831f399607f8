"""Beside other programs threads sleep while they wait, and decoding takes fewer of them."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time

import pytest
import torch

from regard.runtime import sharing
from regard.runtime.sharing import Machine, Sleep, free_cores, gnu_openmp, seconds_computed

needs_gnu = pytest.mark.skipif(gnu_openmp() is None, reason="PyTorch without GNU's OpenMP")


def machine_with(monkeypatch, others, processors=2, wanted=2):
    """A machine after two looks, a second apart, in which others took so many cores."""
    clock = [(0.0, 0.0, 0.0), (1.0, others + 0.7, 0.7)]  # time, everyone's seconds, our own
    monkeypatch.setattr(sharing, "_processors", lambda: processors)
    monkeypatch.setattr(Machine, "_read", staticmethod(lambda: clock[0]))
    machine = Machine()
    slept = []
    machine._sleep.set = lambda *, on: slept.append(on)
    machine._thread_count = wanted
    clock.pop(0)
    machine._measure()
    assert machine.others == pytest.approx(others)
    return machine, slept


@pytest.mark.parametrize(
    ("others", "processors", "threads"),
    [(0.0, 2, 2), (0.4, 2, 2), (0.7, 2, 1), (1.0, 2, 1), (1.9, 2, 1), (3.0, 8, 5), (7.9, 8, 1)],
)
def test_decoding_takes_the_cores_that_are_free(monkeypatch, others, processors, threads):
    machine, slept = machine_with(monkeypatch, others, processors, wanted=processors)
    machine.watch = lambda _: None
    machine.threads_are_set = False
    assert machine.threads(processors) == threads
    assert slept == [others >= sharing.BUSY_CORES]


def test_others_that_have_cores_of_their_own_change_nothing(monkeypatch):
    machine, slept = machine_with(monkeypatch, others=5.0, processors=8, wanted=2)
    assert not machine.busy
    assert slept == [False]


def test_a_busy_machine_counts_as_quiet_again_only_when_others_take_clearly_less(monkeypatch):
    machine, _ = machine_with(monkeypatch, others=0.6)
    for now, everyone, busy in [(2.0, 0.6 + 0.4, True), (3.0, 1.0 + 0.2, False)]:
        monkeypatch.setattr(
            Machine, "_read", staticmethod(lambda now=now, all_=everyone: (now, all_ + 0.7, 0.7))
        )
        machine._measure()
        assert machine.busy is busy


def test_threads_that_the_user_has_set_are_kept(monkeypatch):
    machine, _ = machine_with(monkeypatch, others=2.0)
    machine.watch = lambda _: None
    machine.threads_are_set = True
    assert machine.threads(2) == 2


def test_fewer_threads_are_for_the_block_alone(monkeypatch):
    monkeypatch.setattr(sharing.MACHINE, "threads", lambda _: 1)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with free_cores():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        with pytest.raises(ZeroDivisionError), free_cores():
            raise ZeroDivisionError
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_what_the_machine_computes_is_read_with_our_own_share_in_it():
    before, ours = seconds_computed(), time.process_time()
    if before is None:
        pytest.skip("this system does not tell what its processors do")
    while time.process_time() - ours < 0.3:
        sum(range(1000))
    assert seconds_computed() - before >= 0.2


def test_the_machine_stops_being_watched_when_nothing_is_computed(monkeypatch):
    monkeypatch.setattr(sharing, "PATIENCE", 0.05)
    monkeypatch.setattr(sharing, "INTERVAL", 0.01)
    machine = Machine()
    for _ in range(2):
        machine.watch(2)
        first = machine._watcher
        first.join(timeout=5)
        assert not first.is_alive()


MEASURE = """
import ctypes, sys, time
import torch
from regard.runtime.sharing import Sleep, gnu_openmp

torch.set_num_threads(2)
library, x = gnu_openmp(), torch.ones(1 << 20)

def waiting():
    '''CPU seconds a waiting thread burns in a wall second after a shared operation.'''
    burnt = 0.0
    for _ in range(60):
        x.add_(0)  # both threads take part; then the second waits for more
        before = time.process_time()
        time.sleep(0.003)
        burnt += time.process_time() - before
    return burnt / 0.18

sleep = Sleep()
spinning = waiting()
sleep.set(on=True); time.sleep(0.2)
sleeping = waiting()
sleep.set(on=False); time.sleep(0.2)
again = waiting()
print(spinning, sleeping, again)
"""


@pytest.mark.slow
@needs_gnu
def test_threads_that_wait_burn_a_core_on_a_quiet_machine_and_none_on_a_busy_one():
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True
    )
    spinning, sleeping, again = map(float, ran.stdout.split())
    assert sleeping < min(spinning, again) / 3  # others may have the cores just now


def test_who_set_how_threads_wait_is_obeyed(monkeypatch):
    gnu_openmp.cache_clear()
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    try:
        assert gnu_openmp() is None
        sleep = Sleep()
        sleep.set(on=True)
        assert sleep._team_end is None
    finally:
        gnu_openmp.cache_clear()


def test_a_library_without_gnu_openmp_is_left_alone(monkeypatch):
    monkeypatch.setattr(sharing, "gnu_openmp", lambda: None)
    sleep = Sleep()
    sleep.set(on=True)
    assert sleep._team_end is None
    assert isinstance(gnu_openmp(), ctypes.CDLL | None)
