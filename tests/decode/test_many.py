"""Many sequences at once: batches of like length, results in the order that was asked for."""

from __future__ import annotations

import pytest

from regard.decode.config import DecodeConfig
from regard.decode.many import decode_many
from regard.layers import Tap


@pytest.mark.parametrize(("beam", "sizes"), [(1, [4, 1]), (2, [2, 2, 1]), (9, [1] * 5)])
def test_like_lengths_go_together_and_results_come_back_in_order(beam, sizes):
    lengths, batches, reported = [5, 1, 4, 2, 3], [], []

    def decode_some(part):
        batches.append(part)
        return [[f"hypothesis {index}"] for index in part]

    config = DecodeConfig(beam=beam)
    results = decode_many(lengths, decode_some, config, rows=4, on_progress=reported.append)
    assert results == [[f"hypothesis {index}"] for index in range(5)]
    assert [len(part) for part in batches] == reported == sizes
    assert [lengths[index] for part in batches for index in part] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("tap", "batches"), [(Tap("*.weights"), [[0, 1, 2]]), (Tap(), [[1], [2], [0]])]
)
def test_what_a_tap_records_is_one_batch_in_the_order_given(tap, batches):
    seen = []

    def decode_some(part):
        seen.append(part)
        return [[] for _ in part]

    decode_many([9, 1, 5], decode_some, DecodeConfig(), rows=1, tap=tap)
    assert seen == batches


def test_nothing_gives_nothing():
    assert decode_many([], pytest.fail, DecodeConfig(), rows=4) == []
