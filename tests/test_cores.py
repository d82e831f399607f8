"""Parts of a work on cores of their own: the same results, in order, in the same mode."""

from __future__ import annotations

import threading

import pytest
import torch

from regard.runtime.cores import Cores, parallel_map


@pytest.fixture(autouse=True)
def _three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    assert torch.get_num_threads() == 3  # whatever was spread, this thread still has all of them
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_results_come_in_the_order_of_the_items(count):
    assert parallel_map(lambda n: n * n, list(range(count))) == [n * n for n in range(count)]


def test_items_are_taken_side_by_side_with_a_share_of_the_cores_each():
    meet = threading.Barrier(3, timeout=20)  # breaks unless all three wait at once

    def work(_):
        meet.wait()
        return torch.get_num_threads()

    assert parallel_map(work, [1, 2, 3]) == [1, 1, 1]


def test_the_mode_goes_along():
    def mode(_):
        return torch.is_inference_mode_enabled(), torch.is_grad_enabled()

    assert parallel_map(mode, [1, 2]) == [(False, True)] * 2
    with torch.inference_mode():
        assert parallel_map(mode, [1, 2]) == [(True, False)] * 2
    with torch.no_grad():
        assert parallel_map(mode, [1, 2]) == [(False, False)] * 2


def test_what_goes_wrong_in_a_part_is_said():
    with pytest.raises(ZeroDivisionError), Cores(2, 2) as cores:
        cores.map(lambda n: 1 // n, [1, 0])
    torch.set_num_threads(3)
