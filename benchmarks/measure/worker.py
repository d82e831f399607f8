"""The worker process of one contender: it prepares, waits for its turns, and is timed here.

Input: one JSON object per line on standard input, first the contender, then the case of each turn.
Output: one JSON object per line on standard output, first ready, missing or failed, then seconds,
work and memory of each turn. Apart from `memory` only the standard library is imported here, so
that a contender may run in an environment without our other dependencies.
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

from benchmarks.measure import memory

SHORTEST = 0.2
"""The minimum duration of a turn in seconds: a shorter turn would measure clock and scheduler. A
contender that needs more precision sets its own `shortest`."""


def main() -> None:
    """Answer requests until standard input ends."""
    # Redirect what libraries print to standard error, so that it does not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    contender, answer = guarded(lambda: prepared(json.loads(sys.stdin.readline())))
    send(answers, answer)
    if contender is None:
        return
    for line in sys.stdin:
        case = json.loads(line)["case"]
        answer = guarded(lambda case=case: (contender, turn(contender, case)))[1]  # type: ignore[misc]
        send(answers, answer)


def prepared(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Build and prepare the contender; returns it and the answer with memory and versions."""
    module = import_contender(request["module"], request["file"])
    contender = getattr(module, request["name"])(**request["options"])
    contender.prepare(request["threads"])
    gc.collect()
    versions = {name: version(name) for name in getattr(contender, "packages", ())}
    return contender, {"ready": True, "resident": memory.resident(), "versions": versions}


def turn(contender: Any, case: str) -> dict[str, Any]:
    """Measure one turn: seconds, work, and peak memory.

    A short measurement is repeated for at least `shortest` seconds, and the mean is returned.
    """
    gc.collect()
    memory.forget_peak()
    calls, work, start = 0, 0.0, time.perf_counter()
    shortest = getattr(contender, "shortest", SHORTEST)
    while calls == 0 or time.perf_counter() - start < shortest:
        work += contender.measure(case)
        calls += 1
    seconds = time.perf_counter() - start
    result = {"seconds": seconds / calls, "work": work / calls, "peak": memory.peak()}
    # A contender that writes tokens may show them, so that the harness can compare.
    answer = getattr(contender, "answer", None)
    return result if answer is None else {**result, "answer": answer}


def guarded(
    action: Callable[[], tuple[Any, dict[str, Any]]],
) -> tuple[Any, dict[str, Any]]:
    """Run an action and turn any exception into an answer, so that other contenders go on."""
    try:
        return action()
    except ModuleNotFoundError as error:
        traceback.print_exc()
        return None, {"missing": error.name or str(error)}
    except BaseException as error:  # also SystemExit and panics of libraries
        traceback.print_exc()
        text = str(error).strip() or type(error).__name__
        return None, {"failed": text.splitlines()[0], "kind": type(error).__name__}


def import_contender(module: str, file: str) -> ModuleType:
    """The contender's module, imported by name or, if that is not importable, from its file."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # a dependency of the module is missing
    return from_file(file)


def from_file(file: str) -> ModuleType:
    """Import a module that is not on the path, such as a user's own contender."""
    spec = importlib.util.spec_from_file_location(f"peer_{Path(file).stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def version(package: str) -> str:
    """The version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def send(answers: TextIO, answer: dict[str, Any]) -> None:
    """Write one answer as a line and flush it."""
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
