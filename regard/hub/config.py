"""The `config.json` of a folder: whether a model is one of Hugging Face, or of ours.

Light on purpose: a model of ours is loaded without what is known of theirs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from regard.runtime.files import parse_json, read_small

CONFIG = "config.json"


class ConfigFile(NamedTuple):
    """The `config.json` of a folder, read once; empty where there is none."""

    data: bytes = b""
    values: dict[str, Any] | None = None

    @classmethod
    def of(cls, folder: Path) -> ConfigFile:
        """That of a folder, of theirs or of ours."""
        file = folder / CONFIG
        if not file.is_file():
            return cls()
        data = read_small(file)
        return cls(data, parse_json(file, data))

    @property
    def theirs(self) -> dict[str, Any] | None:
        """What it says, if it is that of a Hugging Face model and not of one of ours."""
        return None if self.values is None or "regard" in self.values else self.values
