"""The compiled kernels for few rows: PyTorch's numbers, and the same bits in any batch."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from regard.decode import DecodeConfig, Symbols, decode
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.kernels import int8, small_batches
from regard.kernels.int8 import Int8Linear
from regard.kernels.linear import COMPILED_ROWS, linear
from regard.kernels.small_batches import LOADER, Int8Matrix, Kernels, Loader, attend_few
from regard.layers import Tap, knock_out
from regard.layers.masks import Mask
from regard.models import GPTConfig, TransformerConfig, build
from regard.models.quantise import quantise

needs_numba = pytest.mark.skipif(not small_batches.installed(), reason="needs Numba")
SHAPES = [(1, 5, 3), (2, 64, 64), (3, 100, 70), (4, 33, 2), (5, 1025, 66), (7, 2100, 130)]
SHAPES += [(16, 768, 65), (21, 96, 257), (COMPILED_ROWS, 31, 129)]
"""Rows, inputs and outputs, most of them no multiples of anything."""


@pytest.fixture(scope="module")
def kernels():
    """The kernels of this machine, compiled if they never were."""
    loader = Loader()
    loader.load()
    assert not loader.problem
    return loader.kernels


@pytest.fixture
def _in_use(kernels, monkeypatch):
    """Every matrix is multiplied by the kernels, where they can."""
    monkeypatch.setattr(LOADER, "kernels", kernels)
    for module in ("linear", "int8"):
        monkeypatch.setattr(f"regard.kernels.{module}.MIN_ELEMENTS", 0)
    with torch.inference_mode():
        yield


@needs_numba
@pytest.mark.slow
@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize(("rows", "into", "out"), SHAPES)
def test_products_are_right_and_a_row_is_the_same_alone(kernels, rows, into, out, monkeypatch):
    monkeypatch.setattr(small_batches, "SHARED", 0)
    x, weight, bias = torch.randn(rows, into), torch.randn(out, into), torch.randn(out)
    exact = x.double() @ weight.double().t() + bias
    product = kernels.linear(x, weight, bias)
    size = x.abs().double() @ weight.abs().double().t() + bias.abs()
    assert ((product - exact).abs() <= 1e-6 * size).all()
    assert torch.equal(kernels.linear(x, weight, None), kernels.linear(x, weight, 0 * bias))
    whole, scales = int8.quantise_rows(weight, 127)
    matrix = Int8Matrix(whole, scales, bias)
    rounded = kernels.linear_int8(x, matrix)
    exact = x.double() @ (whole * scales[:, None]).double().t() + bias
    step = x.abs().amax(1, keepdim=True) / 32767  # of a row in 16 bits
    off = step * (whole * scales[:, None]).abs().sum(1) / 2
    assert ((rounded - exact).abs() <= 1.01 * off + 1e-6 * size).all()
    for first in range(rows):
        for last in (first + 1, min(rows, first + 6)):
            part = x[first:last].contiguous()
            assert torch.equal(kernels.linear(part, weight, bias), product[first:last])
            assert torch.equal(kernels.linear_int8(part, matrix), rounded[first:last])


@needs_numba
@pytest.mark.slow
def test_threads_and_kept_memory_change_no_bit(kernels, monkeypatch):
    q, (k, v) = torch.randn(2, 4, 3, 40), torch.randn(2, 2, 4, 70, 40)
    x, (whole, scales) = torch.randn(5, 300), int8.quantise_rows(torch.randn(70, 300), 127)

    def both():
        attended = kernels.attend(q, k, v, (50, 60), 0.3, causal=True)
        return attended, kernels.linear_int8(x, Int8Matrix(whole, scales, None))

    before = torch.get_num_threads()
    expected = both()
    for threads, shared, kept_floats in ((1, 2**30, 0), (3, 0, 2**16), (3, 0, 0)):
        torch.set_num_threads(threads)
        for name, value in (
            ("SHARED", shared),
            ("SHARED_ATTENTION", shared),
            ("KEPT_FLOATS", kept_floats),
        ):
            monkeypatch.setattr(small_batches, name, value)
        outputs = both()
        torch.set_num_threads(before)
        assert all(map(torch.equal, outputs, expected))


@needs_numba
def test_a_copy_of_a_matrix_in_8_bits_has_its_own_memory():
    whole, scales = int8.quantise_rows(torch.randn(9, 40), 127)
    for bias in (None, torch.randn(9)):
        matrix = Int8Matrix(whole, scales, bias)
        for twin in (copy.deepcopy(matrix), pickle.loads(pickle.dumps(matrix))):  # noqa: S301
            assert torch.equal(twin.integers, whole)
            assert twin.fields[1][:2] == (twin.integers.data_ptr(), twin.scales.data_ptr())
            assert twin.fields[0] == (0 if bias is None else twin.bias.data_ptr())
            assert twin.integers.data_ptr() != whole.data_ptr()


@needs_numba
@pytest.mark.slow
def test_zeros_and_what_is_no_number(kernels):
    x = torch.randn(4, 40)
    x[0], x[1, 3], x[2, 39] = 0, torch.nan, -torch.inf
    whole, scales = int8.quantise_rows(torch.randn(9, 40), 127)
    bias = torch.randn(9)
    for out in (
        kernels.linear_int8(x, Int8Matrix(whole, scales, bias)),
        kernels.linear(x, torch.randn(9, 40), bias),
    ):
        assert torch.equal(out[0], bias)
        assert not out[1:3].isfinite().any()
        assert out[3].isfinite().all()


@needs_numba
@pytest.mark.usefixtures("_in_use")
@pytest.mark.slow
@pytest.mark.parametrize("heads", [(4, 4), (6, 2)])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("rules", "queries", "keys"),
    [
        ({"causal": True}, 1, 37),
        ({"causal": True}, 5, 5),
        ({"causal": True, "window": 3}, 4, 11),
        ({}, 4, 19),
        ({"key_lengths": (3, 9, 1)}, 2, 9),
        ({"causal": True, "key_lengths": (3, 9, 5), "query_lengths": (1, 4, 2)}, 4, 9),
    ],
)
def test_attention_of_few_queries_is_attention(heads, biased, rules, queries, keys):
    many, kv_heads = heads
    q = torch.randn(3, queries, many, 40).transpose(1, 2)
    k, v = torch.randn(2, 3, keys, kv_heads, 40).transpose(2, 3)
    bias = torch.randn(1, many, queries, keys) if biased else None
    mask = Mask(**rules)
    allowed = mask.dense(queries, keys)
    added = torch.zeros(3, many, queries, keys) if bias is None else bias.expand(3, -1, -1, -1)
    if allowed is not None:
        added = added.masked_fill(~allowed, float("-inf"))
    expected = F.scaled_dot_product_attention(
        *(x.double() for x in (q, k, v)), added.double(), scale=0.3, enable_gqa=True
    )
    out = attend_few(q, k, v, mask, bias, 0.3)
    assert out is not None
    real = torch.tensor(rules.get("query_lengths", (queries,) * 3))
    seen = (torch.arange(queries) < real[:, None])[:, None, :, None].expand_as(out)
    torch.testing.assert_close(out[seen], expected.float()[seen], rtol=0, atol=5e-6)
    if bias is None and "key_lengths" in rules and not mask.causal:
        short = attend_few(q[:1], k[:1, :, :3], v[:1, :, :3], Mask(), None, 0.3)
        assert torch.equal(out[:1], short)


@needs_numba
@pytest.mark.usefixtures("_in_use")
@pytest.mark.slow
def test_other_masks_and_training_are_left_to_pytorch():
    q = torch.randn(1, 2, 3, 16)
    segments = torch.zeros(1, 3, dtype=torch.long)
    assert attend_few(q, q, q, Mask(segments=(segments, segments)), None, 1.0) is None
    assert attend_few(q, q, q, Mask(window=1), None, 1.0) is None
    assert attend_few(q.double(), q, q, Mask(), None, 1.0) is None
    with torch.inference_mode(mode=False):
        x, weight = torch.randn(1, 300), torch.randn(256, 300, requires_grad=True)
        assert attend_few(*(torch.randn(1, 1, 1, 4) for _ in "qkv"), Mask(), None, 1.0) is None
        assert torch.equal(linear(x, weight), F.linear(x, weight))


SYMBOLS = Symbols(begin=1, end=0, pad=2, banned=(1, 2))
GPTS = {
    "gpt": {"size": "nano", "dim": 64, "heads": 4, "hidden": 128},
    "llama": {"size": "nano-llama", "dim": 64, "heads": 4, "kv_heads": 2, "hidden": 128},
}


@needs_numba
@pytest.mark.usefixtures("_in_use")
@pytest.mark.slow
@pytest.mark.parametrize("name", GPTS)
@pytest.mark.parametrize("rounded", [False, True])
def test_a_text_gets_the_same_logits_alone_and_among_others(monkeypatch, name, rounded):
    monkeypatch.setenv("REGARD_KERNELS", "always")
    monkeypatch.setattr(int8, "COMPILED_ROWS", COMPILED_ROWS)
    model = build(GPTConfig.model_validate(GPTS[name]), 90).eval()
    model = quantise(model) if rounded else model
    prompts = [[3, 4, 5], [6, 7, 8, 9, 10], [11], [12, 13, 14, 15]]

    def logits(texts):
        state = model.start(None, len(texts), 12)
        steps = [model.read(Ragged.of(texts), state)]
        tokens = (torch.full((len(texts),), token) for token in (20, 30, 40))
        return torch.stack([*steps, *(model.step(ids, state) for ids in tokens)], 1)

    together = logits(prompts)
    for row, prompt in enumerate(prompts):
        assert torch.equal(logits([prompt])[0], together[row])


@needs_numba
@pytest.mark.usefixtures("_in_use")
@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{}, {"positions": "buckets", "norm": "rms"}, {"norm_place": "post"}]
)
def test_a_translator_agrees_with_pytorch_and_taps_change_nothing(monkeypatch, changes):
    sizes = {"dim": 64, "heads": 4, "hidden": 96}
    model = build(TransformerConfig.model_validate(sizes | changes), 40, 40).eval()
    source = Ragged.of([[3, 4, 5], [6, 7], [8, 9, 10, 11]])
    target = Ragged.of([[1, 4], [1], [1, 5, 6]])
    config = DecodeConfig(beam=3, max_length=9)
    plain, tap = model(source, target), Tap("*")
    assert torch.equal(model(source, target, tap), plain), "looking changes nothing"
    edited = model(source, target, Tap(edits=[knock_out("decoder.1.cross.2")]))
    results = decode(model, source, SYMBOLS, config)
    alone = [decode(model, Ragged.of([text]), SYMBOLS, config) for text in ([3, 4, 5], [6, 7])]
    assert [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in results[:2]] == [
        [hypothesis.ids for hypothesis in hypotheses] for [hypotheses] in alone
    ]
    monkeypatch.setattr(LOADER, "kernels", None)
    torch.testing.assert_close(model(source, target), plain, rtol=0, atol=1e-5)
    torch.testing.assert_close(
        model(source, target, Tap(edits=[knock_out("decoder.1.cross.2")])), edited,
        rtol=0, atol=1e-5,
    )  # fmt: skip
    assert [best.ids for [best, *_] in decode(model, source, SYMBOLS, config)] == [
        best.ids for [best, *_] in results
    ]


@needs_numba
@pytest.mark.usefixtures("_in_use")
@pytest.mark.slow
def test_many_rows_in_8_bits_do_not_saturate(monkeypatch):
    monkeypatch.setenv("REGARD_KERNELS", "always")
    monkeypatch.setattr(int8, "MIN_8_BIT_ELEMENTS", 0)
    for sign in (1.0, -1.0):
        x, weight = torch.full((40, 512), sign), torch.ones(33, 512)
        expected = torch.full((40, 33), sign * 512)
        torch.testing.assert_close(Int8Linear(weight)(x), expected, rtol=1e-5, atol=0)
    layer, x = Int8Linear(torch.randn(70, 512)), torch.randn(40, 512)
    error = layer(x) - x @ layer.weight.t()
    assert error.abs().max() < 0.05 * x.abs().max() * layer.weight.abs().sum(1).max() / 127
    monkeypatch.setattr(int8, "MIN_8_BIT_ELEMENTS", 2**18)
    torch.testing.assert_close(layer(x), x @ layer.weight.t(), rtol=0, atol=0.01)


@needs_numba
@pytest.mark.slow
@pytest.mark.usefixtures("_threads", "_in_use")
@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize(
    ("into", "out"), [(512, 300), (70, 65), (1023, 33), (3072, 40), (9000, 16)]
)
def test_rows_in_8_bits_are_the_same_whichever_kernel_multiplies_them(into, out, wide, monkeypatch):
    monkeypatch.setenv("REGARD_KERNELS", "always")
    monkeypatch.setattr(int8, "MIN_8_BIT_ELEMENTS", 0)
    monkeypatch.setattr(int8, "has_wide_sums", lambda: wide)
    generator = torch.Generator().manual_seed(into)
    x = torch.randn(200, into, generator=generator)
    x *= 10.0 ** torch.randint(-20, 20, (200, 1), generator=generator).float()
    x[3], x[5], x[6] = 0, x[5].sign(), x[6].abs()  # sums that are far from 0, too
    for bias in (torch.randn(out, generator=generator), None):
        layer = Int8Linear(torch.randn(out, into, generator=generator).abs() + 0.1, bias)
        together = layer(x)
        for rows in (1, 3, 4, int8.COMPILED_ROWS):
            for first in range(0, 200 - rows, rows):
                assert torch.equal(layer(x[first : first + rows]), together[first : first + rows])
        with monkeypatch.context() as patched:
            patched.setattr(LOADER, "kernels", None)
            assert torch.equal(layer(x), together)


@needs_numba
@pytest.mark.slow
@pytest.mark.usefixtures("_in_use")
def test_a_translator_in_8_bits_gives_a_sentence_the_same_bits_in_any_batch(monkeypatch):
    monkeypatch.setenv("REGARD_KERNELS", "always")
    monkeypatch.setattr(
        int8, "MIN_8_BIT_ELEMENTS", 64 * 128
    )  # some matrices have rows in 8 bits, some in 16
    torch.manual_seed(0)
    model = build(TransformerConfig(dim=64, heads=4, hidden=128), 40, 40).eval()
    twin = quantise(model)
    texts = [torch.randint(3, 40, (n,)).tolist() for n in (1, 5, 30, 64, *[9] * 40)]
    target = [text[::-1][:7] for text in texts]
    together = twin(Ragged.of(texts), Ragged.of(target)).split([len(ids) for ids in target])
    for row in (0, 1, 2, 3, 20):
        alone = twin(Ragged.of(texts[row : row + 1]), Ragged.of(target[row : row + 1]))
        assert torch.equal(alone, together[row])


@needs_numba
@pytest.mark.slow
@pytest.mark.parametrize("loaded", [True, False])
def test_an_encoder_keeps_its_precision_with_many_rows(kernels, monkeypatch, loaded):
    monkeypatch.setenv("REGARD_KERNELS", "always")
    monkeypatch.setattr(int8, "MIN_8_BIT_ELEMENTS", 0)
    monkeypatch.setattr(LOADER, "kernels", kernels if loaded else None)
    layer, x = Int8Linear(torch.randn(300, 512), exact=True), torch.randn(90, 512)
    with torch.inference_mode():
        torch.testing.assert_close(layer(x), x @ layer.weight.t(), rtol=0, atol=0.02)
        assert torch.equal(layer(x[:1])[0], layer(x)[0]) or not loaded


def test_without_numba_pytorch_computes(monkeypatch):
    monkeypatch.setenv("REGARD_KERNELS", "always")
    monkeypatch.setattr(small_batches, "installed", lambda: False)
    loader = Loader()
    loader.prepare(torch.nn.Linear(300, 300), 10**9)
    assert loader.kernels is None
    assert not loader.possible()
    monkeypatch.setattr(int8, "LOADER", loader)
    assert Int8Linear(torch.randn(5, 6)).packed is not None
    assert "pip install" in small_batches.state()


def test_a_compiler_that_fails_leaves_pytorch(monkeypatch):
    monkeypatch.setattr(small_batches, "_read_code", lambda: None)
    monkeypatch.setitem(sys.modules, "regard.kernels.compiled", None)  # no import
    loader = Loader()
    loader.load()
    assert loader.kernels is None
    assert "ImportError" in loader.problem or "ModuleNotFoundError" in loader.problem
    assert not loader.possible()


@needs_numba
def test_small_work_loads_nothing(monkeypatch):
    monkeypatch.delenv("REGARD_KERNELS")
    monkeypatch.setattr(Loader, "load", lambda self: setattr(self, "problem", "loaded"))
    loader, layer = Loader(), torch.nn.Linear(512, 512)
    monkeypatch.setattr(small_batches, "code_file", lambda: small_batches.Path(os.devnull))  # there
    loader.prepare(layer, small_batches.WORTH_LOADING // 2**18 - 1)
    assert not loader.problem
    loader.prepare(torch.nn.Linear(8, 8), 10**9)  # too small for the kernels
    assert not loader.problem
    loader.prepare(layer)
    assert loader.problem
    loader = Loader()
    monkeypatch.setattr(small_batches, "code_file", lambda: small_batches.Path("not/there"))
    loader.prepare(layer, small_batches.WORTH_COMPILING // 2**18 - 1)
    assert not loader.problem
    loader.prepare(layer)
    assert loader.problem


def test_a_wrong_choice_is_explained(monkeypatch):
    monkeypatch.setenv("REGARD_KERNELS", "yes")
    with pytest.raises(InputError, match="one of auto, always, never"):
        small_batches.choice()


@needs_numba
@pytest.mark.slow
def test_damaged_machine_code_or_another_user_s_is_not_loaded(
    kernels, tmp_path, monkeypatch, caplog
):
    assert kernels is not None
    stored = small_batches.code_file().read_bytes()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    small_batches.code_file().parent.mkdir(parents=True)
    small_batches.code_file().write_bytes(stored)
    assert small_batches._read_code() == stored[32:]
    assert not caplog.messages
    for mode in (0o646, 0o664):  # another user may have written it
        small_batches.code_file().chmod(mode)
        assert small_batches._read_code() is None
        assert len(caplog.messages[-1].splitlines()) == 1
        assert f"mode {mode:o}" in caplog.text
    small_batches.code_file().chmod(0o644)
    small_batches.code_file().write_bytes(stored[:-7])
    assert small_batches._read_code() is None
    assert "is damaged" in caplog.text
    small_batches.code_file().unlink()
    monkeypatch.setattr("regard.kernels.compiled.compile_kernels", lambda _: b"code")
    assert small_batches._compile_code() == small_batches._read_code() == b"code"
    assert small_batches.code_file().stat().st_mode & 0o777 == 0o600


PROGRAM = """
import torch
from regard.kernels.small_batches import LOADER
LOADER.load()
assert LOADER.kernels is not None, LOADER.problem
x, weight = torch.ones(2, 100), torch.ones(70, 100)
assert torch.equal(LOADER.kernels.linear(x, weight, None), torch.full((2, 70), 100.0))
"""


@needs_numba
@pytest.mark.slow
def test_processes_that_compile_at_once_and_a_cache_folder_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "a-file"
    blocked.write_text("no folder")
    folders = [blocked, *[tmp_path / "shared"] * 2]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"REGARD_CACHE": str(folder), "REGARD_KERNELS": "always"},
        )
        for folder in folders
    ]
    assert [process.wait(timeout=500) for process in running] == [0] * 3
    [stored] = (tmp_path / "shared" / "kernels").iterdir()
    assert stored.suffix == ".o"
    assert isinstance(Kernels(stored.read_bytes()[32:]), Kernels)
