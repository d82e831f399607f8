"""Runs the notebooks of this folder, each in an empty folder of its own.

`python examples/run.py` stores the outputs in the notebooks; with `--check` it only runs them.
Names, such as D2, select some.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
SECONDS = 300
"""The longest that one cell may take, on a busy machine."""


def executed(path: Path) -> nbformat.NotebookNode:
    """A notebook with the outputs of all its cells; an error in a cell is raised."""
    book = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as sockets:
        resources = {"metadata": {"path": empty}}
        client = NotebookClient(
            book,
            timeout=SECONDS,
            startup_timeout=SECONDS,
            resources=resources,
            record_timing=False,
            coalesce_streams=True,  # one output for all that a cell prints
        )
        client.create_kernel_manager()
        if os.name == "posix":
            client.km.transport, client.km.ip = "ipc", f"{sockets}/kernel"  # opens no port
        client.execute()
    for cell in book.cells:
        cell.metadata.clear()  # no times: a second run changes nothing
    return book


def main(names: list[str]) -> None:
    """Runs the notebooks whose names begin with one of `names`, or all."""
    check = "--check" in names
    chosen = tuple(name for name in names if name != "--check") or ("D",)
    for path in sorted(HERE.glob("*.ipynb")):
        if path.name.startswith(chosen):
            book = executed(path)
            if not check:
                nbformat.write(book, path)
            print(path.name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
