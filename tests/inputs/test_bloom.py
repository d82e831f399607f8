"""Bloom filters: every key is found, few others are, and the bits are those of the definition."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from regard.inputs.text import bloom
from regard.inputs.text.bloom import Bloom, keys_of


def digests(first, count):
    return [
        hashlib.blake2b(str(i).encode(), digest_size=16).digest()
        for i in range(first, first + count)
    ]


def filled(inside, bits_per_key=10):
    bloom = Bloom.empty(len(inside), bits_per_key)
    for keys in keys_of(inside):
        bloom.add(keys)
    return bloom


def test_the_bits_are_those_of_two_hashes():
    inside = digests(0, 300)
    bloom = filled(inside)
    assert bloom.hashes == 7
    bits = bytearray(len(bloom.bits))
    for digest in inside:
        first, second = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big") | 1
        for bit in ((first + i * second) % (8 * len(bits)) for i in range(7)):
            bits[bit >> 3] |= 1 << (bit & 7)
    assert bloom.bits.tobytes() == bytes(bits)


@pytest.mark.parametrize(("bits", "share"), [(4, 0.147), (10, 0.0082), (14, 0.0012)])
def test_all_that_was_added_is_found_and_of_others_the_share_that_is_said(bits, share):
    bloom = filled(digests(0, 20_000), bits)
    assert all(bloom.holds(keys).all() for keys in keys_of(digests(0, 20_000)))
    [others] = keys_of(digests(20_000, 50_000))
    assert bloom.false_share == pytest.approx(share, rel=0.1)
    assert bloom.holds(others).mean() == pytest.approx(bloom.false_share, rel=0.25)


def test_keys_come_some_at_a_time(monkeypatch):
    monkeypatch.setattr(bloom, "KEYS_AT_ONCE", 3)
    parts = list(keys_of(digests(0, 7)))
    assert [len(part) for part in parts] == [3, 3, 1]
    monkeypatch.undo()
    assert np.array_equal(np.concatenate(parts), next(keys_of(digests(0, 7))))
