"""Items that a thread computes ahead: the same ones, in order, with their errors."""

from __future__ import annotations

import gc
import threading
import time
from itertools import count, islice

import pytest
import torch

from regard.runtime.prefetch import prefetch


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "ahead"]


def test_items_come_in_order_and_no_more_than_asked_are_computed_ahead():
    computed = []

    def items():
        for number in count():
            computed.append(number)
            yield number

    fetched = prefetch(items(), ahead=2)
    assert not computed  # it begins when the first is taken
    assert list(islice(fetched, 3)) == [0, 1, 2]
    until = time.monotonic() + 5
    while len(computed) < 6 and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(computed) <= 6  # three taken, two in the queue, one in the hand
    assert len(threads()) == 1
    fetched.close()
    assert not threads()


def test_an_end_and_an_error_come_where_they_belong():
    assert list(prefetch(iter([]))) == []

    def items():
        yield 1
        raise ValueError("the second")

    fetched = prefetch(items())
    assert next(fetched) == 1
    with pytest.raises(ValueError, match="the second"):
        next(fetched)
    assert not threads()


def test_a_thread_ends_when_nobody_takes_its_items_and_torch_keeps_its_threads():
    before = torch.get_num_threads()
    fetched = prefetch(count())
    assert next(fetched) == 0
    assert torch.get_num_threads() == before
    del fetched
    gc.collect()
    assert not threads()
