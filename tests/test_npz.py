"""Arrays of `.npz` files: sizes are checked before memory is taken."""

from __future__ import annotations

import io
import resource
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from regard.data.images.arrays import read_npz
from regard.errors import InputError
from regard.runtime import npz

IMAGES, LABELS = np.zeros((3, 4, 5), np.uint8), np.array(["a", "b", "c"])


def header(shape: tuple[int, ...], kind: str = "|u1") -> bytes:
    """The header of an array, without its numbers."""
    stream = io.BytesIO()
    fields = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, fields)
    return stream.getvalue()


def stored(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def write(path: Path, method: int = zipfile.ZIP_DEFLATED, **parts: bytes) -> Path:
    given = {"images": stored(IMAGES), "labels": stored(LABELS)} | parts
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in given.items():
            archive.writestr(f"{name}.npy", data)
    return path


def test_arrays_are_read_whatever_their_order(tmp_path):
    values = np.arange(24).reshape(2, 3, 4)
    np.savez(tmp_path / "a.npz", rows=values, columns=np.asfortranarray(values), one=np.array(3.5))
    with (tmp_path / "a.npz").open("rb") as file, npz.open_npz(tmp_path / "a.npz", file) as arrays:
        assert arrays.keys() == {"rows", "columns", "one"}
        assert np.array_equal(arrays["rows"].read(), values)
        assert np.array_equal(arrays["columns"].read(), values)
        assert arrays["one"].read() == 3.5


BAD = {
    "a shape without numbers": ({"images": header((10**6, 10**6, 10**6))}, "expected at most"),
    "a negative size": ({"images": header((-3, -4, 5))}, "an array of"),
    "names that are not there": ({"names": header((10**9,), "<U1000")}, "names: got an array"),
    "many names": ({"names": stored(np.zeros(2**25, np.uint8))}, r"names: .* at most 16,777,216"),
    "objects": ({"labels": stored(np.array([None, {}, 3]))}, "could run code"),
    "structures": ({"labels": stored(np.zeros(3, "i4,f8"))}, "expected numbers or texts"),
    "no header": ({"labels": b"\x93NUMPY\x01\x00\xff\xff{"}, "expected an array"),
    "another case": ({"Images": stored(IMAGES)}, "a name twice among images, labels, Images"),
    "too few labels": ({"labels": stored(LABELS[:2])}, "2 labels for 3 images"),
    "two channels": ({"images": stored(np.zeros((3, 6, 5, 2)))}, "expected 1, 3 or 4 channels"),
    "no characters": ({"labels": header((3,), "<U1") + b"\xff" * 12}, "that do not exist"),
    "one number": ({"labels": stored(np.array(3))}, "no labels for 3 images"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_claimed_is_checked(tmp_path, name):
    parts, message = BAD[name]
    with pytest.raises(InputError, match=message) as caught:
        read_npz(write(tmp_path / "a.npz", **parts))
    assert len(str(caught.value).splitlines()) <= 2


def test_packed_zeros_are_refused_in_little_memory(tmp_path):
    size = 2**28
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("images.npy", "w") as file:
            file.write(header((2**8, 2**10, 2**10)))
            for _ in range(size >> 20):
                file.write(bytes(2**20))
        archive.writestr("labels.npy", stored(np.zeros(2**8, np.uint8)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=r"images: got 268,435,456 bytes, expected at most 100 t"):
        read_npz(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**16  # in KiB


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 99])
def test_other_compressions_are_named(tmp_path, method):
    path = write(tmp_path / "a.npz", method if method < 99 else zipfile.ZIP_STORED)
    if method == 99:  # in the table of parts at the end of the file
        data = bytearray(path.read_bytes())
        struct.pack_into("<H", data, data.index(b"PK\x01\x02") + 10, method)
        path.write_bytes(data)
    with pytest.raises(InputError, match=f"images: got compression method {method}, expected none"):
        read_npz(path)
