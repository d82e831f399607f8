"""Stored results of figures that train for minutes: NAME.json, with the options it was made with.

A figure asked for with these options is drawn from its file; with others, or with `--again`, it
trains. To compute a file again after a figure has changed: `FIGURES[name].store(folder)`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.draw import write_file


def stored(name: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The stored result of a figure; None if there is none for these options."""
    file = resources.files("regard_lectures.results") / f"{name}.json"
    if not file.is_file():
        return None
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return dict(content["result"]) if content["options"] == dict(options) else None


def checksum_of(module: ModuleType) -> str:
    """A checksum of a figure's settings: the module's constants that are numbers, texts or tables.

    A stored result with another checksum was made with other settings than the code has now.
    """
    kinds = (bool, int, float, str, tuple, dict)
    constants = {
        name: value
        for name, value in vars(module).items()
        if name.isupper() and not name.startswith("_") and type(value) in kinds
    }
    return f"{zlib.crc32(repr(sorted(constants.items())).encode()):08x}"


def stored_checksum(name: str) -> str:
    """The checksum of the settings that a stored result was made with."""
    file = resources.files("regard_lectures.results") / f"{name}.json"
    return str(json.loads(file.read_text(encoding="utf-8"))["settings"])


def write(
    folder: Path, name: str, options: Mapping[str, Any], result: Mapping[str, Any], settings: str
) -> Path:
    """Write a result beside its options and settings; numbers are rounded to 5 digits."""
    content = {"options": dict(options), "settings": settings, "result": _rounded(result)}
    return write_file(folder / f"{name}.json", (json.dumps(content) + "\n").encode())


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value
