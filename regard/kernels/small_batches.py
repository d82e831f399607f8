"""Products for few rows by compiled kernels, if Numba is installed (the extra `fast`).

The kernels are those of `compiled.py`. They are compiled once, which takes seconds; the machine
code is kept in the cache folder, and loading it takes a tenth of a second. A process loads them
when it has computed so much, or is about to, that they earn this back: `prepare` counts. From then
on every product that they are faster for takes them; `linear.py` and `int8.py` decide which.

Each kernel runs on PyTorch's own threads, so that two pools of threads never wait for one core.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import threading
from array import array
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.errors import InputError, WriteError
from regard.runtime.files import cache_folder, read_private, write_private
from regard.runtime.sharing import openmp

VARIABLE = "REGARD_KERNELS"
"""The environment variable that sets when the kernels are used."""
CHOICES = ("auto", "always", "never")
"""Its values: when they earn their loading back, from the first product on, or never."""
WORTH_LOADING, WORTH_COMPILING = 2**30, 2**36
"""Weights to multiply with in a process, summed over its passes, that make up for loading the
kernels, and for compiling them: about as many as PyTorch takes that time for."""
MIN_ELEMENTS = 2**15
"""Minimum number of elements of a matrix that the kernels are used for."""
SHARED, SHARED_ATTENTION = 2**16, 2**14
"""Minimum number of multiplications that are shared between threads: of a product with a matrix,
and of attention, whose keys and values are seldom in the processor's cache."""
PARTS = 8
"""Into how many parts a product is cut; threads take one at a time. Memory is read fastest in a few
large parts."""
QUERIES = 64
"""The maximum number of queries for which the compiled attention is used: of a batch, or of each of
its rows in a model in 8 bits."""
MAX_CODE_BYTES = 2**24
"""Largest file of machine code in bytes."""
KEPT_FLOATS = 2**16
"""Number of floats of memory that each thread keeps for its kernels."""

_logger = logging.getLogger(__name__)


class Space(threading.local):
    """Memory for what a kernel computes in between; up to `KEPT_FLOATS` floats are used again."""

    def __init__(self) -> None:
        self._kept = torch.empty(KEPT_FLOATS)

    def of(self, floats: int) -> Tensor:
        """Memory for so many 32-bit floats."""
        return self._kept if floats <= KEPT_FLOATS else torch.empty(floats)


class Int8Matrix:
    """A matrix in 8 bits, and what a product with it needs.

    Its addresses are looked up once: in a decoding step every weight comes from memory, and so does
    all that PyTorch knows about the tensors of a layer.

    Args:
        integers: (out, into) The integers.
        scales: (out,) The scale of each output.
        bias: (out,) Added to the outputs.
    """

    __slots__ = ("bias", "fields", "integers", "into", "out", "scales")

    def __init__(self, integers: Tensor, scales: Tensor, bias: Tensor | None) -> None:
        self.integers, self.scales, self.bias = integers.contiguous(), scales, bias
        self.out, self.into = integers.shape
        addend = 0 if bias is None else bias.data_ptr()
        matrix = self.integers.data_ptr(), scales.data_ptr()
        self.fields = addend, (*matrix, self.into, self.out, self.out // PARTS + 4)

    def __reduce__(self) -> tuple[Any, ...]:  # a copy has other addresses
        return Int8Matrix, (self.integers, self.scales, self.bias)


class Kernels:
    """The loaded kernels.

    Args:
        code: The object file from `compiled.compile_kernels`.
    """

    def __init__(self, code: bytes) -> None:
        from llvmlite import binding

        self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target_machine())
        self._engine.add_object_file(binding.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self._space = Space()
        self.product_fp32 = self._make_runner("product_fp32")
        self.product_int8 = self._make_runner("product_int8")
        self.attention = self._make_runner("attend")

    def _make_runner(self, name: str) -> Callable[[Iterable[int], bool], None]:
        """A function that runs a kernel on a job (see `compiled.py`), perhaps on all threads."""
        code = self._engine.get_function_address(name)
        call: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code)
        library, kind = openmp(), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        parallel: Any = library and ctypes.CFUNCTYPE(None, *kind)(("GOMP_parallel", library))

        def run(fields: Iterable[int], shared: bool) -> None:
            job = array("q", fields)
            address, _ = job.buffer_info()
            if shared and parallel is not None and (count := torch.get_num_threads()) > 1:
                parallel(code, address, count, 0)
            else:
                call(address)

        return run

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x (rows, into) times a matrix (out, into) in 32 bits, plus a bias (out,): (rows, out)."""
        (rows, into), out = x.shape, weight.shape[0]
        y = x.new_empty(rows, out)
        bias_address = 0 if bias is None else bias.data_ptr()
        job = (
            0, 0, 0, x.data_ptr(), y.data_ptr(), bias_address, rows,
            weight.data_ptr(), 0, into, out, out // PARTS + 4, 0,
        )  # fmt: skip
        self.product_fp32(job, rows * into * out >= SHARED)
        return y

    def linear_int8(self, x: Tensor, matrix: Int8Matrix, levels: int = 0) -> Tensor:
        """The same with a matrix in 8 bits.

        Args:
            x: (rows, into)
            matrix: The matrix.
            levels: 0 for rows in 16 bits; for rows in 8 bits the integer for their largest value.
        """
        rows, into, (bias_address, fields) = x.shape[0], matrix.into, matrix.fields
        y = x.new_empty(rows, matrix.out)
        # For each thread: x in integers of 16 bits, and a scale for each row.
        space = self._space.of(torch.get_num_threads() * (rows + (rows * into + 1) // 2))
        job = (
            0, 0, space.data_ptr(), x.data_ptr(), y.data_ptr(), bias_address, rows, *fields, levels,
        )  # fmt: skip
        self.product_int8(job, rows * into * matrix.out >= SHARED)
        return y

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, counts: tuple[int, ...], scale: float, *,
        causal: bool = False, reach: int | None = None, bias: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """softmax(q kᵀ · scale + bias) v of few queries: (batch, heads, query, head_dim).

        Args:
            q: (batch, heads, query, head_dim)
            k: (batch, kv_heads, key, head_dim)
            v: The values, of the same shape.
            counts: How many keys the first query of each row attends to.
            scale: The factor on the products.
            causal: Whether each further query attends to one key more.
            reach: At most so many keys, the last ones.
            bias: (batch or 1, heads, query, key) Added to the scores.
        """
        (batch, heads, queries, dim), (_, kv_heads, keys, _) = q.shape, k.shape
        y = q.new_empty(batch, queries, heads, dim)
        bias_address, strides = 0, tuple[int, ...]((0, 0, 0, 0))
        if bias is not None:
            bias_address, strides = bias.data_ptr(), bias.expand(batch, -1, -1, -1).stride()
        (q_row, q_head, q_stride, _), (k_row, k_head, k_stride, _) = q.stride(), k.stride()
        v_row, v_head, v_stride, _ = v.stride()
        space, first_counts = self._space.of(torch.get_num_threads() * keys), _integer_array(counts)
        scale_address, _ = _float_array(scale).buffer_info()
        job = (
            0, 0, space.data_ptr(), q.data_ptr(), y.data_ptr(), bias_address, batch,
            k.data_ptr(), v.data_ptr(), first_counts.buffer_info()[0], scale_address,
            heads, heads // kv_heads, queries, keys, dim, causal, reach or keys,
            q_row, q_head, q_stride, k_row, k_head, k_stride, v_row, v_head, v_stride, *strides,
        )  # fmt: skip
        self.attention(job, batch * heads * queries * keys * dim >= SHARED_ATTENTION)
        return y.transpose(1, 2)


class Rules(Protocol):
    """Which keys a query may look at: what the kernel asks of a mask."""

    @property
    def causal(self) -> bool:
        """Whether a query sees no later keys."""

    @property
    def window(self) -> int | None:
        """How far a query looks, in tokens; None: without limit."""

    def first_counts(self, batch: int, queries: int, keys: int) -> tuple[int, ...] | None:
        """How many keys, from the first on, the first query of each row may look at.

        None if the rules are not of that kind.
        """


def attend_few(
    q: Tensor, k: Tensor, v: Tensor, rules: Rules, bias: Tensor | None, scale: float, *,
    by_row: bool = False,
) -> Tensor | None:  # fmt: skip
    """Attention of few queries by the compiled kernel; None if it is not for this case.

    Each query is computed over its own keys only, so that padding changes no bit of the result.
    With `by_row`, the number of rows does not decide.
    """
    kernels, (batch, _, queries, _) = LOADER.kernels, q.shape
    query_count = queries if by_row else batch * queries
    if kernels is None or query_count > QUERIES or not torch.is_inference_mode_enabled():
        return None
    if not (q.is_cpu and q.dtype == k.dtype == v.dtype == torch.float32 and k.shape == v.shape):
        return None
    if not q.stride(3) == k.stride(3) == v.stride(3) == 1:
        return None
    if bias is not None and bias.dtype != torch.float32:
        return None
    counts = rules.first_counts(batch, queries, k.shape[2])
    if counts is None:
        return None
    reach = None if rules.window is None else rules.window + 1
    return kernels.attend(q, k, v, counts, scale, causal=rules.causal, reach=reach, bias=bias)


@lru_cache(maxsize=16)
def _integer_array(numbers: tuple[int, ...]) -> array[int]:
    """The numbers as an array of 64-bit integers."""
    return array("q", numbers)


@cache
def _float_array(value: float) -> array[float]:
    """A number as a 32-bit float, in an array that is kept for ever, at the same address."""
    return array("f", (value,))


class Loader:
    """Decides when the kernels of this process are loaded."""

    def __init__(self) -> None:
        self.kernels: Kernels | None = None
        """The kernels, once they are loaded."""
        self.problem = ""
        """Why they cannot be loaded."""
        self._work, self._lock = 0, threading.Lock()

    def possible(self) -> bool:
        """Whether the kernels are loaded, or can be."""
        return self.kernels is not None or (
            not self.problem and choice() != "never" and installed()
        )

    def prepare(self, model: object, passes: int = 1) -> None:
        """Loads the kernels if the work so far, with that of a model's next passes, is worth it.

        It is called between passes, never within one, so that each is computed in one way.
        """
        if self.kernels is not None or not isinstance(model, nn.Module) or not self.possible():
            return
        sizes = [weight.numel() for weight in model.parameters() if weight.dim() == 2]
        # Those of matrices in 8 bits:
        sizes += [getattr(module, "elements", 0) for module in model.modules()]
        self._work += passes * sum(size for size in sizes if size >= MIN_ELEMENTS)
        enough = self._work >= WORTH_COMPILING or choice() == "always"
        if enough or (self._work >= WORTH_LOADING and code_file().exists()):
            self.load()

    def load_stored(self) -> None:
        """Loads the kernels if they are compiled."""
        if self.kernels is None and self.possible() and code_file().exists():
            self.load()

    def load(self) -> None:
        """Loads the kernels, and compiles them if they are not in the cache folder."""
        with self._lock:
            if self.kernels is not None:
                return
            try:
                self.kernels = Kernels(_read_code() or _compile_code())
            except Exception as error:  # whatever is wrong with the compiler, PyTorch computes
                self.problem = f"{type(error).__name__}: {error}"


LOADER = Loader()
"""The kernels of this process."""


def choice() -> str:
    """The value of `REGARD_KERNELS`."""
    value = os.environ.get(VARIABLE) or "auto"
    if value not in CHOICES:
        raise InputError(VARIABLE, got=value, expected=f"one of {', '.join(CHOICES)}")
    return value


def state() -> str:
    """Whether the kernels are there, for `regard env`."""
    if choice() == "never":
        return f"by PyTorch: {VARIABLE} is never"
    if not installed():
        return "by PyTorch; with Numba they are faster: pip install 'regard[fast]'"
    if LOADER.problem:
        return f"by PyTorch: {LOADER.problem}"
    compiled = "compiled" if code_file().exists() else "compiled when that pays"
    return f"by Numba {version('numba')}, {compiled}: {code_file()}"


@cache
def installed() -> bool:
    """Whether Numba is installed; it is not imported."""
    return find_spec("numba") is not None and find_spec("llvmlite") is not None


def code_file() -> Path:
    """The file of the machine code: its name changes with the source, compiler and processor."""
    from llvmlite import binding

    here = Path(__file__)
    sources = [here.with_name(name).read_bytes() for name in ("compiled.py", "simd.py")]
    features = binding.get_host_cpu_features().flatten()
    parts = (version("numba"), version("llvmlite"), platform.platform(), features)
    key = hashlib.sha256(b"\0".join([*sources, *map(str.encode, parts)])).hexdigest()[:16]
    return cache_folder() / "kernels" / f"{binding.get_host_cpu_name()}-{key}.o"


def _read_code() -> bytes | None:
    """The machine code in the cache folder; None if there is none, or if it is damaged.

    A file that another user may have written is not used: it would run their code.
    """
    file = code_file()
    try:
        stored = read_private(file, MAX_CODE_BYTES)
    except FileNotFoundError:
        return None
    except (OSError, InputError) as error:
        _logger.warning("kernels are compiled anew, since this cannot be trusted: %s", error)
        return None
    digest, code = stored[:32], stored[32:]
    if hashlib.sha256(code).digest() != digest:
        _logger.warning("kernels are compiled anew, since %s is damaged", file)
        return None
    return code


def _compile_code() -> bytes:
    """Compiles the kernels, and stores the machine code if the cache folder can be written."""
    from regard.kernels.compiled import compile_kernels

    code = compile_kernels(_target_machine())
    with suppress(WriteError):  # then each process compiles its own
        write_private(code_file(), hashlib.sha256(code).digest() + code)
    return code


def _target_machine() -> Any:
    """llvmlite's description of this processor."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(), opt=3
    )
