"""What a run stands on: device, threads and seeds, decided once, before anything is computed.

Comes in: `--device`, `--dtype`, `--threads`, `--seed` and `--quiet`, the environment, the machine.
Goes out: a `Runtime` that is passed on. torch is imported inside the functions, so that
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
"""The environment variable that gives the number of threads where `--threads` does not."""
MOST_THREADS = 1024
LARGEST_SEED = 2**32 - 1
"""numpy takes no larger one."""
DEVICES = ("auto", "cpu", "cuda", "mps")
"""What can be asked for; `cuda:1` is the second GPU. `auto` is cuda if there is one, else the CPU:
mps (Apple) has no numbers of 64 bits, and is taken only where it is named."""
DTYPES = {"fp32": None, "bf16": "bfloat16", "fp16": "float16"}
"""What matrix products are computed in, by torch's name; None: like everything else."""
LOCAL_RANK, LOCAL_WORLD = "LOCAL_RANK", "LOCAL_WORLD_SIZE"
"""Where torchrun says which of a machine's processes this is, and how many there are."""

_PACKAGES = ("regard", "torch", "numpy", "tokenizers", "safetensors", "pydantic", "sacrebleu")


@dataclass(frozen=True)
class Runtime:
    """What was decided: what computes, where randomness starts, how much is said."""

    threads: int
    seed: int
    quiet: bool
    device: str = "cpu"
    """As torch names it: `cpu`, `cuda:0`, `mps`."""
    dtype: str = "fp32"

    def place(self, model: Any) -> Any:
        """The model, its weights moved to the device, computing in the dtype from now on."""
        import torch

        name = DTYPES[self.dtype]
        model.to(self.device)
        model.mixed = None if name is None else getattr(torch, name)
        return model


def present(device: str | torch.device = "auto", dtype: str = "fp32") -> Runtime:
    """The process as it is, with a device that is chosen now; threads and seeds are left alone."""
    import torch

    where = chosen(device)
    check_dtype(dtype, where)
    return Runtime(torch.get_num_threads(), 0, quiet=False, device=where, dtype=dtype)


def setup(
    threads: int | None = None,
    seed: int | None = None,
    *,
    quiet: bool = False,
    device: str | torch.device = "cpu",
    dtype: str = "fp32",
) -> Runtime:
    """Set threads and seeds for the whole process, and choose where models compute.

    Args:
        threads: How many threads compute; by default `REGARD_THREADS`, else `OMP_NUM_THREADS`,
            else one for each core this process may use. Of several processes that torchrun
            started, each has its share of the cores.
        seed: Where torch, numpy and random start; by default 0.
        quiet: Whether to say only what went wrong.
        device: One of `DEVICES`.
        dtype: One of `DTYPES`; other than fp32 on cuda alone.

    Raises:
        InputError: A number is out of range, or there is no such device.
    """
    count = _threads(threads)
    start = 0 if seed is None else seed
    if not 0 <= start <= LARGEST_SEED:
        raise InputError("--seed", got=start, expected=f"a whole number from 0 to {LARGEST_SEED}")

    where = chosen(device)
    check_dtype(dtype, where)

    import numpy
    import torch

    from regard.runtime.garbage import settle
    from regard.runtime.sharing import MACHINE

    settle()  # what takes long to import is there
    asked = (threads, os.environ.get(VARIABLE), os.environ.get("OMP_NUM_THREADS"))
    MACHINE.threads_are_set = any(asked)
    torch.set_num_threads(count)
    torch.manual_seed(start)
    numpy.random.seed(start)
    random.seed(start)
    if not torch.cuda.is_available():
        # On a CPU this costs nothing measurable, as long as fresh memory is not filled; on a GPU
        # it would warn about kernels that have no deterministic form. It sets the same flag as
        # torch.use_deterministic_algorithms, which imports the compiler: seconds.
        torch.set_deterministic_debug_mode("warn")
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    return Runtime(count, start, quiet, where, dtype)


def chosen(asked: str | torch.device) -> str:
    """The device that is meant, as torch names it.

    Args:
        asked: One of `DEVICES`; a `torch.device` is taken as it is.

    Raises:
        InputError: There is no such device here.
    """
    if not isinstance(asked, str):
        return str(asked)
    there = devices()
    if asked == "auto":
        asked = "cuda" if any(name.startswith("cuda") for name in there) else "cpu"
    found = [name for name in there if asked in (name, name.partition(":")[0])]
    if not found:
        kind = asked.partition(":")[0]
        known = kind in DEVICES
        raise InputError(
            "--device",
            got=asked if known else repr(asked),
            expected=f"auto, or what is here: {', '.join(there)}",
            fix=f"PyTorch {_version('torch')} finds no {asked} on this machine"
            if known
            else f"known are {', '.join(DEVICES)}",
        )
    return found[int(os.environ.get(LOCAL_RANK, "0")) % len(found)]  # a GPU for each process


def devices() -> list[str]:
    """The devices that PyTorch can compute on here, such as `cpu` and `cuda:0`."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gpus = [f"cuda:{number}" for number in range(count)]
    return ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]


def check_dtype(dtype: str, device: str) -> None:
    """Refuses mixed precision that is unknown, or that a device has not.

    Args:
        dtype: As `--dtype` has it.
        device: As `chosen` gives it.
    """
    if dtype not in DTYPES:
        raise InputError("--dtype", got=dtype, expected=f"one of {', '.join(DTYPES)}")
    if dtype != "fp32" and not device.startswith("cuda"):
        raise InputError(
            "--dtype",
            got=f"{dtype} on {device}",
            expected="fp32",
            fix="mixed precision is for cuda: --device cuda, or leave --dtype out",
        )


def cores() -> int:
    """How many cores this process may use: its CPUs, two on one core counted once."""
    if not hasattr(os, "sched_getaffinity"):  # macOS and Windows
        return os.cpu_count() or 1
    topology = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    allowed = os.sched_getaffinity(0)
    distinct = {_first_line(topology.format(number)) or str(number) for number in allowed}
    return max(1, min(len(distinct), _quota()))


def describe(*, kernels: bool = False) -> dict[str, str]:
    """What `regard env` prints: versions, and what the machine offers.

    Args:
        kernels: Whether torch is asked what it computes with: it has to be imported for that.
    """
    return {
        "python": platform.python_version(),
        **{package: _version(package) for package in _PACKAGES},
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": str(cores()),
        "threads": str(_threads(None)),  # as every command: REGARD_THREADS counts
        "memory": _memory(),
        "devices": _devices(),
        **(_kernels() if kernels else {}),
    }


def _devices() -> str:
    """What `--device` can be; torch is asked only where it may know more than the CPU."""
    if _version("torch").endswith("+cpu") and platform.system() != "Darwin":
        return "cpu"
    import torch

    return ", ".join(
        f"{name} ({torch.cuda.get_device_name(name)})" if name.startswith("cuda") else name
        for name in devices()
    )


def _kernels() -> dict[str, str]:
    import torch

    there = {
        "flash attention": torch.backends.cuda.flash_sdp_enabled(),  # type: ignore[no-untyped-call]
        "MKL": torch.backends.mkl.is_available(),  # type: ignore[no-untyped-call]
        "oneDNN": torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
    }
    return {
        "CPU capability": torch.backends.cpu.get_cpu_capability(),
        "kernels": ", ".join(name for name, known in there.items() if known) or "none",
    }


def _threads(asked: int | None) -> int:
    what, got = "--threads", str(asked)
    if asked is None:
        own = bool(os.environ.get(VARIABLE, "").strip())
        sharing = os.environ.get(LOCAL_WORLD, "")
        if not own and sharing.isdigit() and int(sharing) > 1:
            # torchrun sets OMP_NUM_THREADS to 1 by itself, so that it says nothing
            return max(1, cores() // int(sharing))
        what = VARIABLE if own else "OMP_NUM_THREADS"
        got = os.environ.get(what, "").partition(",")[0].strip()  # OpenMP's may name levels
        if not got:
            return cores()
    expected = f"a whole number from 1 to {MOST_THREADS}"
    if not (got.isascii() and got.isdigit() and len(got) < 10 and 1 <= int(got) <= MOST_THREADS):
        raise InputError(what, got=got, expected=expected)
    return int(got)


def _quota() -> int:
    """How many CPUs a container's quota allows, at least in part; without one, any number."""
    quota, _, period = _first_line("/sys/fs/cgroup/cpu.max").partition(" ")
    if not (quota.isdigit() and period.isdigit()):
        return MOST_THREADS
    return -(-int(quota) // int(period))


def _first_line(path: str) -> str:
    """The first line of a file of the kernel, empty where there is none."""
    try:
        return Path(path).read_text("ascii").partition("\n")[0].strip()
    except OSError:
        return ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def memory() -> int | None:
    """Bytes of memory that this process may use at most; None where the system does not say."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return None
    limit = _first_line("/sys/fs/cgroup/memory.max")  # of a container; "max" where there is none
    return min(total, int(limit)) if limit.isdigit() else total


def check_memory(what: str, needed: int, fix: str | None = None) -> None:
    """Refuses what this machine has not the memory for, before any of it is taken.

    Args:
        what: What would take it.
        needed: How many bytes.
        fix: What to do about it.
    """
    most = memory()
    if most is not None and needed > most:
        got, expected = (f"{size / 1e9:,.1f} GB of memory" for size in (needed, most))
        raise InputError(
            what, got=f"a need for {got}", expected=f"at most the machine's {expected}", fix=fix
        )


def _memory() -> str:
    total = memory()
    return "unknown" if total is None else f"{total / 2**30:.1f} GiB"
