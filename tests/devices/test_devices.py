"""Models, tasks and training on a device that is not the CPU: `checks.py` runs in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.devices.checks import names

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    command, env = [sys.executable, "-m", "tests.devices.checks"], {**os.environ, "PYTHONPATH": "."}
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", names())
def test_the_device_gives_what_the_cpu_gives(outcomes, name):
    assert outcomes[name] == "ok", outcomes[name]


def test_the_device_refuses_what_is_left_on_the_cpu():
    program = "import pretend, torch; torch.ones(2, device='pretend') + torch.ones(2)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(__file__).parent,
        check=False,
    )  # fmt: skip
    assert "tensors of the CPU met the device" in done.stderr
