from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy
import pytest
import torch

from regard.errors import InputError
from regard.runtime import device as runtime


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """The settings of the process as they were, and no REGARD_THREADS from outside."""
    monkeypatch.delenv("REGARD_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    threads = torch.get_num_threads()
    mode = torch.get_deterministic_debug_mode()
    fill = torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.set_num_threads(threads)
    torch.set_deterministic_debug_mode(mode)
    torch.utils.deterministic.fill_uninitialized_memory = fill


def test_threads_and_seed_are_set_and_returned():
    assert runtime.setup(1, 7, quiet=True) == runtime.Runtime(threads=1, seed=7, quiet=True)
    assert torch.get_num_threads() == 1
    assert torch.initial_seed() == 7


def test_the_same_seed_gives_the_same_numbers_everywhere():
    def draw(seed):
        runtime.setup(1, seed)
        return torch.rand(1).item(), numpy.random.rand(), random.random()

    first, again, other = draw(3), draw(3), draw(4)
    assert first == again
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_without_a_seed_it_is_zero_and_not_another_one_each_time():
    assert runtime.setup(1).seed == 0
    first = torch.rand(1)
    runtime.setup(1)
    assert torch.equal(first, torch.rand(1))


@pytest.mark.skipif(torch.cuda.is_available(), reason="only on a CPU")
def test_kernels_are_deterministic_and_fresh_memory_is_not_filled():
    runtime.setup(1)
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    assert not torch.utils.deterministic.fill_uninitialized_memory


def test_the_argument_outvotes_the_variable_and_the_variable_the_machine(monkeypatch):
    monkeypatch.setattr(runtime, "cores", lambda: 2)
    assert runtime.setup().threads == 2
    monkeypatch.setenv("REGARD_THREADS", "1")
    assert runtime.setup().threads == 1
    assert runtime.setup(3).threads == 3
    monkeypatch.setenv("REGARD_THREADS", "")
    assert runtime.setup().threads == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "3,1")
    assert runtime.setup().threads == 3
    monkeypatch.setenv("REGARD_THREADS", "1")
    assert runtime.setup().threads == 1


@pytest.mark.parametrize("threads", [0, -1, 1025])
def test_a_wrong_number_of_threads_is_refused(threads):
    with pytest.raises(InputError) as caught:
        runtime.setup(threads)
    assert str(caught.value) == f"--threads: got {threads}, expected a whole number from 1 to 1024"


@pytest.mark.parametrize("text", ["0", "-2", "many", "1.5", "²", "9" * 5000])
def test_a_wrong_variable_is_refused_by_its_name(monkeypatch, text):
    monkeypatch.setenv("REGARD_THREADS", text)
    with pytest.raises(InputError) as caught:
        runtime.setup()
    message = str(caught.value)
    shown = text if len(text) < 100 else f"{text[:250]}…{text[-249:]}"
    assert message == f"REGARD_THREADS: got {shown}, expected a whole number from 1 to 1024"


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_numpy_could_not_take_is_refused(seed):
    with pytest.raises(InputError) as caught:
        runtime.setup(1, seed)
    assert str(caught.value) == f"--seed: got {seed}, expected a whole number from 0 to 4294967295"


def test_a_refused_setting_changes_nothing():
    runtime.setup(1, 5)
    with pytest.raises(InputError):
        runtime.setup(2, -1)
    assert torch.get_num_threads() == 1
    assert torch.initial_seed() == 5


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity here")
@pytest.mark.parametrize(
    ("siblings", "quota", "expected"),
    [
        (["0", "1", "2", "3"], "", 4),
        (["0-1", "0-1", "2-3", "2-3"], "", 2),  # two threads on each core
        (["", "", "", ""], "", 4),  # topology unknown
        (["0", "1", "2", "3"], "max 100000", 4),
        (["0", "1", "2", "3"], "150000 100000", 2),  # a CPU and a half
        (["0", "1", "2", "3"], "50000 100000", 1),
        (["0", "1", "2", "3"], "900000 100000", 4),
    ],
)
def test_cores_are_those_the_process_may_use(monkeypatch, siblings, quota, expected):
    def first_line(path):
        return quota if "cgroup" in path else siblings[int(path.split("/cpu/cpu")[1][0])]

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(runtime, "_first_line", first_line)
    assert runtime.cores() == expected


def test_cores_without_affinity_are_all_of_them(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert runtime.cores() == 1


def test_what_is_described_is_what_there_is(monkeypatch):
    monkeypatch.setenv("REGARD_THREADS", "1")
    shown = runtime.describe(kernels=True)
    assert shown["torch"] == torch.__version__
    assert shown["python"] == sys.version.split()[0]
    assert shown["threads"] == "1"
    assert int(shown["cores"]) >= 1
    assert shown["CPU capability"] == torch.backends.cpu.get_cpu_capability()
    assert all(isinstance(value, str) and value for value in shown.values())
    assert runtime.describe().items() < shown.items()


def test_a_package_that_is_missing_is_said_to_be():
    assert runtime._version("no-such-package-at-all") == "not installed"


def test_memory_is_unknown_where_the_system_does_not_say(monkeypatch):
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert runtime._memory_text() == "unknown"


def test_importing_it_does_not_import_torch():
    code = "import sys, regard.runtime.device; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_neither_setting_up_nor_training_imports_the_compiler():
    code = """if True:
        import sys
        import torch
        from regard.runtime import device as runtime
        from regard.train.config import TrainConfig
        from regard.train.optim import optimizer
        runtime.setup(1)
        model = torch.nn.Linear(2, 2)
        memory = optimizer(model, TrainConfig())
        memory.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        memory.step()
        sys.exit("torch._dynamo" in sys.modules or "torch._inductor" in sys.modules)
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_a_gpu_auto_is_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert runtime.setup(1, device="auto").device == "cpu"
    assert runtime.runtime_on().device == "cpu"
    assert runtime.devices() == ["cpu"]


@pytest.mark.parametrize("asked", ["cuda", "cuda:3", "mps", "tpu", "cpu:1", ""])
def test_a_device_that_is_not_there_is_refused_in_two_lines(monkeypatch, asked):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError) as error:
        runtime.setup(1, device=asked)
    first, second = str(error.value).splitlines()
    assert first.startswith(f"--device: got {asked or repr(asked)}") or repr(asked) in first
    assert first.endswith("expected auto, or a device of this machine: cpu")
    assert "PyTorch" in second or "known are auto, cpu, cuda, mps" in second


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.mark.usefixtures("two_gpus")
def test_with_gpus_auto_is_the_first_and_each_process_has_its_own(monkeypatch):
    assert runtime.choose_device("auto") == runtime.choose_device("cuda") == "cuda:0"
    assert runtime.choose_device("cuda:1") == "cuda:1"
    assert runtime.choose_device("cpu") == "cpu"
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert runtime.choose_device("cuda") == "cuda:1"
    with pytest.raises(InputError, match="a device of this machine: cpu, cuda:0, cuda:1"):
        runtime.choose_device("cuda:2")


@pytest.mark.usefixtures("two_gpus")
def test_mixed_precision_is_for_cuda():
    assert runtime.runtime_on("cuda", "bf16").dtype == "bf16"
    with pytest.raises(InputError, match="--dtype: got bf16 on cpu, expected fp32\nmixed"):
        runtime.runtime_on("cpu", "bf16")
    with pytest.raises(InputError, match="--dtype: got int4, expected one of fp32, bf16, fp16"):
        runtime.runtime_on("cuda", "int4")


@pytest.mark.parametrize("fast", [True, False])
def test_a_cpu_trains_in_bf16_if_its_processor_can(monkeypatch, fast):
    monkeypatch.setattr(runtime, "bf16_is_fast", lambda: fast)
    if fast:
        assert runtime.setup(dtype="bf16", training=True).dtype == "bf16"
    else:
        with pytest.raises(InputError, match="got bf16 on cpu, expected fp32\nthis processor"):
            runtime.setup(dtype="bf16", training=True)
    with pytest.raises(InputError, match="got fp16 on cpu, expected fp32\nmixed"):
        runtime.setup(dtype="fp16", training=True)


def test_processes_of_one_machine_share_its_cores(monkeypatch):
    monkeypatch.setattr(runtime, "cores", lambda: 8)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # torchrun's own
    assert runtime.setup().threads == 2
    assert runtime.setup(5).threads == 5
    monkeypatch.setenv("REGARD_THREADS", "4")
    assert runtime.setup().threads == 4
