"""Device, threads and seeds of a process, and the memory of the machine.

In: `--device`, `--dtype`, `--threads`, `--seed` and `--quiet`, the environment, the machine. Out: a
`Runtime`, decided once before anything is computed. torch is imported inside the functions, so that
`regard --help` need not wait.
"""

from __future__ import annotations

import os
import platform
import random
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError

if TYPE_CHECKING:
    import torch

VARIABLE = "REGARD_THREADS"
"""The environment variable for the number of threads if `--threads` is not given."""
MOST_THREADS = 1024
LARGEST_SEED = 2**32 - 1
"""NumPy accepts no larger seed."""
DEVICES = ("auto", "cpu", "cuda", "mps")
"""Values of `--device`; `cuda:1` is the second GPU. `auto` is cuda if there is one, else the CPU;
mps (Apple) has no 64-bit floats and is used only if it is named."""
DTYPES = {"fp32": None, "bf16": "bfloat16", "fp16": "float16"}
"""Values of `--dtype` -> PyTorch's name of the type of matrix products in mixed precision; None
means 32 bits throughout."""
LOCAL_RANK, LOCAL_WORLD = "LOCAL_RANK", "LOCAL_WORLD_SIZE"
"""Environment variables of torchrun: this process's number on the machine, and their count."""

_PACKAGES = ("regard", "torch", "numpy", "tokenizers", "safetensors", "pydantic", "sacrebleu")


@dataclass(frozen=True)
class Runtime:
    """Threads, seed, verbosity, device and dtype of a process."""

    threads: int
    seed: int
    quiet: bool
    device: str = "cpu"
    """As torch names it: `cpu`, `cuda:0`, `mps`."""
    dtype: str = "fp32"

    def move(self, model: Any) -> Any:
        """Moves a model to the device and sets its dtype for mixed precision; returns the model."""
        import torch

        name = DTYPES[self.dtype]
        model.to(self.device)
        model.mixed = None if name is None else getattr(torch, name)
        return model


def runtime_on(device: str | torch.device = "auto", dtype: str = "fp32") -> Runtime:
    """A `Runtime` with a device and dtype; threads and seeds of the process are not changed."""
    import torch

    device_name = choose_device(device)
    check_dtype(dtype, device_name)
    return Runtime(torch.get_num_threads(), 0, quiet=False, device=device_name, dtype=dtype)


def setup(
    threads: int | None = None,
    seed: int | None = None,
    *,
    quiet: bool = False,
    device: str | torch.device = "cpu",
    dtype: str = "fp32",
    training: bool = False,
) -> Runtime:
    """Set threads and seeds for the whole process, and choose where models compute.

    Args:
        threads: Number of threads; by default `REGARD_THREADS`, else `OMP_NUM_THREADS`, else one
            for each core that this process may use. If torchrun started several processes, each
            has its share of the cores.
        seed: Seed of torch, numpy and random; by default 0.
        quiet: Whether to print errors only.
        device: One of `DEVICES`.
        dtype: One of `DTYPES`; other values than fp32 on cuda only, bf16 also to train on a CPU.
        training: Whether a model is trained.

    Raises:
        InputError: A number is out of range, or there is no such device.
    """
    count = _choose_threads(threads)
    seed = 0 if seed is None else seed
    if not 0 <= seed <= LARGEST_SEED:
        raise InputError("--seed", got=seed, expected=f"a whole number from 0 to {LARGEST_SEED}")

    device_name = choose_device(device)
    check_dtype(dtype, device_name, training=training)

    import numpy
    import torch

    from regard.runtime.garbage import collect_as_usual
    from regard.runtime.sharing import MACHINE

    collect_as_usual()  # the large imports are over
    requested = (threads, os.environ.get(VARIABLE), os.environ.get("OMP_NUM_THREADS"))
    MACHINE.threads_are_set = any(requested)
    torch.set_num_threads(count)
    torch.manual_seed(seed)
    numpy.random.seed(seed)
    random.seed(seed)
    if not torch.cuda.is_available():
        # On a CPU this costs nothing measurable as long as new memory is not filled; on a GPU it
        # would warn about kernels that have no deterministic form. It sets the same flag as
        # torch.use_deterministic_algorithms, which would import the compiler and take seconds.
        torch.set_deterministic_debug_mode("warn")
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    return Runtime(count, seed, quiet, device_name, dtype)


def choose_device(requested: str | torch.device) -> str:
    """Chooses a device; returns its name in PyTorch.

    Args:
        requested: One of `DEVICES`, or such as `cuda:1`; a `torch.device` is not checked.

    Raises:
        InputError: This machine has no such device.
    """
    if not isinstance(requested, str):
        return str(requested)
    devices_here = devices()
    if requested == "auto":
        requested = "cuda" if any(name.startswith("cuda") for name in devices_here) else "cpu"
    matching = [name for name in devices_here if requested in (name, name.partition(":")[0])]
    if not matching:
        got, fix = repr(requested), f"known are {', '.join(DEVICES)}"
        if requested.partition(":")[0] in DEVICES:
            got = requested
            fix = f"PyTorch {_version('torch')} finds no {requested} on this machine"
        expected = f"auto, or a device of this machine: {', '.join(devices_here)}"
        raise InputError("--device", got=got, expected=expected, fix=fix)
    return matching[int(os.environ.get(LOCAL_RANK, "0")) % len(matching)]  # a GPU for each process


def devices() -> list[str]:
    """The devices of this machine that PyTorch can use, such as `cpu` and `cuda:0`."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = [f"cuda:{number}" for number in range(count)]
    return ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]


def check_dtype(dtype: str, device: str, *, training: bool = False) -> None:
    """Refuses an unknown dtype, and mixed precision where it does not exist or gains nothing.

    Args:
        dtype: The value of `--dtype`.
        device: As `choose_device` returns it.
        training: Whether a model is trained: on some CPUs, bf16 is for training alone.
    """
    if dtype not in DTYPES:
        raise InputError("--dtype", got=dtype, expected=f"one of {', '.join(DTYPES)}")
    if training and (dtype, device) == ("bf16", "cpu"):
        if not bf16_is_fast():
            fix = "this processor has no instructions for bf16, which would be slower than fp32"
            raise InputError("--dtype", got="bf16 on cpu", expected="fp32", fix=fix)
        return
    if dtype != "fp32" and not device.startswith("cuda"):
        fix = "mixed precision is for cuda: --device cuda, or leave --dtype out"
        raise InputError("--dtype", got=f"{dtype} on {device}", expected="fp32", fix=fix)


def bf16_is_fast() -> bool:
    """Whether this processor has instructions for products of bf16 numbers."""
    import torch

    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def cores() -> int:
    """The number of physical cores that this process may use, within a container's quota."""
    if not hasattr(os, "sched_getaffinity"):  # macOS and Windows
        return os.cpu_count() or 1
    topology = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    allowed = os.sched_getaffinity(0)
    distinct = {_first_line(topology.format(number)) or str(number) for number in allowed}
    return max(1, min(len(distinct), _cpu_quota()))


def describe(*, kernels: bool = False) -> dict[str, str]:
    """The rows of `regard env`: versions of packages, and properties of the machine.

    Args:
        kernels: Whether to add PyTorch's kernels, for which torch must be imported.
    """
    return {
        "python": platform.python_version(),
        **{package: _version(package) for package in _PACKAGES},
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": str(cores()),
        "threads": str(_choose_threads(None)),  # as for every command, so REGARD_THREADS counts
        "memory": _memory_text(),
        "devices": _devices_text(),
        **(_kernel_rows() if kernels else {}),
    }


def _devices_text() -> str:
    """The devices as text; torch is imported only if it may have others than the CPU."""
    if _version("torch").endswith("+cpu") and platform.system() != "Darwin":
        return "cpu"
    import torch

    return ", ".join(
        f"{name} ({torch.cuda.get_device_name(name)})" if name.startswith("cuda") else name
        for name in devices()
    )


def _kernel_rows() -> dict[str, str]:
    """The rows of `regard env` about PyTorch's kernels."""
    import torch

    availability = {
        "flash attention": torch.backends.cuda.flash_sdp_enabled(),  # type: ignore[no-untyped-call]
        "MKL": torch.backends.mkl.is_available(),  # type: ignore[no-untyped-call]
        "oneDNN": torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
    }
    return {
        "CPU capability": torch.backends.cpu.get_cpu_capability(),
        "kernels": ", ".join(name for name in availability if availability[name]) or "none",
    }


def _choose_threads(requested: int | None) -> int:
    """The number of threads: as requested, else from the environment, else one for each core."""
    what, got = "--threads", str(requested)
    if requested is None:
        is_set = bool(os.environ.get(VARIABLE, "").strip())
        sharing = os.environ.get(LOCAL_WORLD, "")
        if not is_set and sharing.isdigit() and int(sharing) > 1:
            # torchrun sets OMP_NUM_THREADS to 1 by default, so it is not the user's choice.
            return max(1, cores() // int(sharing))
        what = VARIABLE if is_set else "OMP_NUM_THREADS"
        # OMP_NUM_THREADS may be a list, one number for each level of nesting.
        got = os.environ.get(what, "").partition(",")[0].strip()
        if not got:
            return cores()
    expected = f"a whole number from 1 to {MOST_THREADS}"
    if not (got.isascii() and got.isdigit() and len(got) < 10 and 1 <= int(got) <= MOST_THREADS):
        raise InputError(what, got=got, expected=expected)
    return int(got)


def _cpu_quota() -> int:
    """The CPUs that a container's quota allows, rounded up; `MOST_THREADS` without a quota."""
    quota, _, period = _first_line("/sys/fs/cgroup/cpu.max").partition(" ")
    if not (quota.isdigit() and period.isdigit()):
        return MOST_THREADS
    return -(-int(quota) // int(period))


def _first_line(path: str) -> str:
    """The first line of a file in /sys; an empty text if there is no such file."""
    try:
        return Path(path).read_text("ascii").partition("\n")[0].strip()
    except OSError:
        return ""


def _version(package: str) -> str:
    """The version of an installed package, for `regard env`."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def memory() -> int | None:
    """Bytes of memory that this process may use at most; None if unknown."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return None
    limit = _first_line("/sys/fs/cgroup/memory.max")  # a container's limit; "max" means none
    return min(total, int(limit)) if limit.isdigit() else total


def check_memory(what: str, needed: int, fix: str | None = None) -> None:
    """Raises an error if more memory is needed than the machine has.

    Args:
        what: What needs the memory, for the message.
        needed: Number of bytes.
        fix: Advice for the message.

    Raises:
        InputError: The machine has less memory.
    """
    available = memory()
    if available is not None and needed > available:
        need, limit = (f"{size / 1e9:,.1f} GB of memory" for size in (needed, available))
        got, expected = f"a need for {need}", f"at most the machine's {limit}"
        raise InputError(what, got=got, expected=expected, fix=fix)


def _memory_text() -> str:
    """The memory that this process may use, for `regard env`."""
    total = memory()
    return "unknown" if total is None else f"{total / 2**30:.1f} GiB"
