"""The work file, and what a peer counts; without torch, which not every peer has loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read(path: str) -> dict[str, Any]:
    """The work file."""
    return json.loads(Path(path).read_text("utf-8"))


def counted(rows: list[list[int]], work: dict[str, Any]) -> int:
    """The tokens of all rows, each of which has as many as it should."""
    lengths = {len(row) for row in rows}
    assert lengths == {work["written"]}, lengths
    return sum(map(len, rows))
