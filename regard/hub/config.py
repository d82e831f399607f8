"""Reads the `config.json` of a folder, and determines whether it is Hugging Face's or Regard's.

This module imports little on purpose, so that a model of Regard is loaded without the code for
Hugging Face models. In this folder "their" means Hugging Face's, and "our" means Regard's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from regard.runtime.files import parse_json, read_small

CONFIG = "config.json"


class ConfigFile(NamedTuple):
    """The `config.json` of a folder as bytes and parsed; empty if there is none."""

    data: bytes = b""
    values: dict[str, Any] | None = None

    @classmethod
    def of(cls, folder: Path) -> ConfigFile:
        """Reads the `config.json` of a folder, Hugging Face's or Regard's."""
        file = folder / CONFIG
        if not file.is_file():
            return cls()
        data = read_small(file)
        return cls(data, parse_json(file, data))

    @property
    def theirs(self) -> dict[str, Any] | None:
        """The contents, if it is a Hugging Face config; None for Regard's or if there is none."""
        return None if self.values is None or "regard" in self.values else self.values
