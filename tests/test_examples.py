"""The notebooks: stored with outputs, small, and each runs from an empty folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def test_there_is_one_for_each_lecture() -> None:
    from regard_lectures.lectures import decks

    assert [path.name.partition("-")[0] for path in NOTEBOOKS] == sorted(decks())
    page = (ROOT / "examples" / "README.md").read_text()
    assert all(f"`{path.name}`" in page for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_small_and_has_its_outputs(path: Path) -> None:
    assert path.stat().st_size < 300_000
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert 5 <= len(cells) <= 12
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", ()) for output in outputs)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_from_an_empty_folder(path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "run.py"), "--check", path.stem]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
