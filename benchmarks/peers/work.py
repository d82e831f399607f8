"""The work file, and what a peer counts; without torch, which not every peer has loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read(path: str) -> dict[str, Any]:
    """The work file, with the model's settings as in `flat`."""
    work = json.loads(Path(path).read_text("utf-8"))
    return {**work, "model": flat(work["model"])}


def flat(model: dict[str, Any]) -> dict[str, Any]:
    """A model's settings without their nesting; of a key of several parts, the first one's value.

    Example:
        >>> flat({"dim": 8, "encoder": {"layers": 2, "positions": {"kind": "rotary"}}})
        {'dim': 8, 'encoder_layers': 2, 'layers': 2, 'positions': 'rotary'}
    """
    sections = {
        key: value if isinstance(value, list | tuple) else [value]
        for key, value in model.items()
        if isinstance(value, dict) or (isinstance(value, list | tuple) and _has_parts(value))
    }
    settings = {key: value for key, value in model.items() if key not in sections}
    for name, parts in sections.items():
        for part in parts:
            if "layers" in part:
                settings[f"{name}_layers"] = part["layers"]
            elif "kind" in part and len(parts) == 1:
                settings.setdefault(name, part["kind"])
            below = flat({key: value for key, value in part.items() if key != "kind"})
            settings |= {key: value for key, value in below.items() if key not in settings}
    return settings


def _has_parts(values: Any) -> bool:
    return bool(values) and all(isinstance(value, dict) for value in values)


def counted(rows: list[list[int]], work: dict[str, Any]) -> int:
    """The tokens of all rows, each of which has as many as it should."""
    lengths = {len(row) for row in rows}
    assert lengths == {work["written"]}, lengths
    return sum(map(len, rows))
