"""One contender in a process of its own: it prepares, waits for its turns, and is timed here.

Comes in, a JSON object a line on standard input: first which contender, then whose turn it is.
Goes out, on standard output: ready, missing or failed; then seconds, work and memory of each turn.
Only the standard library is imported here: what a contender needs is its own affair, and it may
run under an interpreter that has nothing else of ours.
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from regard.bench import memory

SHORTEST = 0.2
"""Seconds that a turn lasts at least: a shorter one would measure the clock and the scheduler. A
contender whose bar is a matter of a few per cent asks for more (`shortest`)."""


def main() -> None:
    """Answers requests until standard input ends."""
    # What a library prints must not get between the answers: its output goes where errors go.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    contender, answer = guarded(lambda: prepared(json.loads(sys.stdin.readline())))
    tell(answers, answer)
    if contender is None:
        return
    for line in sys.stdin:
        case = json.loads(line)["case"]
        answer = guarded(lambda case=case: (contender, turn(contender, case)))[1]  # type: ignore[misc]
        tell(answers, answer)


def prepared(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The contender, ready for its first turn; and the memory it holds by then."""
    module = found(request["module"], request["file"])
    contender = getattr(module, request["name"])(**request["options"])
    contender.prepare(request["threads"])
    gc.collect()
    versions = {name: version(name) for name in getattr(contender, "packages", ())}
    return contender, {"ready": True, "resident": memory.resident(), "versions": versions}


def turn(contender: Any, case: str) -> dict[str, Any]:
    """One measurement: how long it took, how much was done, how much memory was held.

    What is over in a moment is done again and again, and the mean is given.
    """
    gc.collect()
    memory.forget_peak()
    calls, work, start = 0, 0.0, time.perf_counter()
    shortest = getattr(contender, "shortest", SHORTEST)
    while calls == 0 or time.perf_counter() - start < shortest:
        work += contender.measure(case)
        calls += 1
    seconds = time.perf_counter() - start
    return {"seconds": seconds / calls, "work": work / calls, "peak": memory.peak()}


def guarded(
    action: Callable[[], tuple[Any, dict[str, Any]]],
) -> tuple[Any, dict[str, Any]]:
    """Whatever a contender raises becomes an answer; the others' turns go on."""
    try:
        return action()
    except ModuleNotFoundError as error:
        traceback.print_exc()
        return None, {"missing": error.name or str(error)}
    except BaseException as error:  # a library's SystemExit or panic is an answer too
        traceback.print_exc()
        text = str(error).strip() or type(error).__name__
        return None, {"failed": text.splitlines()[0], "kind": type(error).__name__}


def found(module: str, file: str) -> ModuleType:
    """The contender's module by name; one that has no importable name by its file."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # something that the module itself needs
    return from_file(file)


def from_file(file: str) -> ModuleType:
    """A module that is not on the path: somebody's own contender."""
    spec = importlib.util.spec_from_file_location(f"peer_{Path(file).stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def version(package: str) -> str:
    """Of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def tell(answers: TextIO, answer: dict[str, Any]) -> None:
    """One line, at once."""
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
