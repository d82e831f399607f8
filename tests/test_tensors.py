"""Files of tensors, read straight into memory: as the library reads them, and what is refused."""

from __future__ import annotations

import io
import json
import random

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.runtime import tensors as module
from regard.runtime.tensors import FLOAT_TYPES, KINDS, TensorFile

SHAPES = [(), (0, 3), (2, 3), (5,)]


def opened(data: bytes) -> TensorFile:
    return TensorFile(io.BytesIO(data), len(data))


def written(header: object, numbers: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + numbers


def entry(kind: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict:
    return {"dtype": kind, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_the_library_writes_is_read_as_the_library_reads_it(kind, monkeypatch):
    monkeypatch.setattr(module, "PIECE", 16)  # several pieces a tensor
    monkeypatch.setattr(module, "LARGE", 32)
    numbers = torch.randint(0, 2, (7, 16)) if kind == torch.bool else torch.randn(7, 16) * 3
    tensors = {str(shape): torch.ones(shape).to(kind) for shape in SHAPES}
    tensors["many"] = numbers.abs().to(kind)
    data = safetensors.torch.save(tensors, {"said": "größer"})
    file = opened(data)
    assert file.metadata == {"said": "größer"}
    assert file.numbers == sum(tensor.numel() for tensor in tensors.values())
    tensors_read, theirs = file.read(), safetensors.torch.load(data)
    assert tensors_read.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert (tensors_read[name].dtype, tensors_read[name].shape) == (kind, tensor.shape)
        ours, expected = (
            values.flatten().view(torch.uint8) for values in (tensors_read[name], tensor)
        )
        assert torch.equal(ours, expected)


@pytest.mark.parametrize("kind", sorted(FLOAT_TYPES, key=str), ids=str)
def test_numbers_are_widened_while_they_are_read(kind, monkeypatch):
    monkeypatch.setattr(module, "PIECE", 64)
    tensors = {"a": torch.randn(70, 3).to(kind), "b": torch.randn(2).to(kind)}
    widened = opened(safetensors.torch.save(tensors)).read(wide=FLOAT_TYPES)
    for name, tensor in tensors.items():
        assert widened[name].dtype == torch.float32
        assert torch.equal(widened[name], tensor.float())


def test_only_what_is_asked_for_is_widened_and_each_has_memory_of_its_own():
    tensors = {"h": torch.ones(3).half(), "b": torch.ones(3).bfloat16(), "i": torch.arange(3)}
    widened = opened(safetensors.torch.save(tensors)).read(wide={torch.float16})
    assert [widened[name].dtype for name in "hbi"] == [torch.float32, torch.bfloat16, torch.int64]
    large = opened(safetensors.torch.save({"a": torch.ones(2**16), "b": torch.ones(9)})).read()
    assert all(tensor.untyped_storage().nbytes() == tensor.nbytes for tensor in large.values())
    assert all(tensor.data_ptr() % 64 == 0 for tensor in large.values())
    large["a"][3] = 7  # and it can be written to


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "too few"),
        (b"1234567", "too few"),
        (b"\xff" * 8 + b"{}", "header of 18,446,744,073,709,551,615 bytes"),
        ((9).to_bytes(8, "little") + b"{}", "header of 9 bytes, where at most 2"),
        (written(b"\xff\xfe"), "not JSON"),
        (written(b"[" * 100_000), "not JSON"),
        (written([1]), "not a JSON object"),
        (written({"__metadata__": {"a": 1}}), "metadata"),
        (written({"__metadata__": ["a"]}), "metadata"),
        (written({"a": 1}), "no dtype, shape and data_offsets of a"),
        (written({"a": {}}), "no dtype"),
        (written({"a": entry(offsets=(0, 4, 8))}, b"x" * 8), "no dtype"),
        (written({"a": entry(shape=2)}, b"x" * 8), "no dtype"),
        (written({"a": entry(kind="F3")}, b"x" * 8), "unknown dtype F3"),
        (written({"a": entry(kind=["F32"])}, b"x" * 8), "unknown dtype"),
        (written({"a": entry(shape=(-2,))}, b"x" * 8), "not a whole number"),
        (written({"a": entry(shape=(2.0,))}, b"x" * 8), "not a whole number"),
        (written({"a": entry(shape=(True, 2))}, b"x" * 8), "not a whole number"),
        (written({"a": entry(shape=(10**30,))}, b"x" * 8), "not a whole number"),
        (written({"a": entry(shape=[2**62] * 10**5)}, b"x" * 8), "100000 dimensions"),
        (written({"a": entry(shape=(3,))}, b"x" * 8), r"\(3,\) F32 in 8 bytes"),
        (written({"a": entry(offsets=(8, 0))}, b"x" * 8), "in -8 bytes"),
        (written({"a": entry(offsets=(4, 12))}, b"x" * 12), "at byte 4 instead of 0"),
        (written({"a": entry(), "b": entry()}, b"x" * 8), "at byte 0 instead of 8"),
        (written({"a": entry()}, b"x" * 7), "7 bytes of tensors where the header has 8"),
        (written({"a": entry()}, b"x" * 9), "9 bytes of tensors where the header has 8"),
        (written({}, b"x"), "1 bytes of tensors"),
    ],
)
def test_a_header_that_does_not_fit_the_file_is_refused(data, said):
    with pytest.raises(ValueError, match=said):
        opened(data)


def test_sizes_that_no_tensor_has_are_refused_in_no_memory():
    data = written({"a": entry(shape=[2**62, 2**62, 0], offsets=(0, 0))})
    with pytest.raises(ValueError, match="a tensor of"):
        opened(data).read()


def test_a_file_that_ends_while_it_is_read_is_refused():
    data = safetensors.torch.save({"a": torch.ones(100)})
    file = TensorFile(io.BytesIO(data[:-1]), len(data))
    with pytest.raises(ValueError, match="a file that ends before its tensors"):
        file.read()


@given(st.randoms(use_true_random=False))
def test_any_changed_header_gives_tensors_or_a_value_error(chance: random.Random):
    data = bytearray(safetensors.torch.save({"a": torch.ones(3, 2), "bc": torch.ones(4).half()}))
    length = 8 + int.from_bytes(data[:8], "little")
    for _ in range(chance.randint(1, 3)):
        data[chance.randrange(length)] = chance.randrange(256)
    try:
        tensors_read = opened(bytes(data)).read(wide=FLOAT_TYPES)
    except ValueError:
        return
    assert sum(tensor.numel() for tensor in tensors_read.values()) <= len(data)
