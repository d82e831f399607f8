"""Reads the `config.json` of a folder, and determines whether it is Hugging Face's or Regard's.

This module imports little on purpose, so that a model of Regard is loaded without the code for
Hugging Face models. In this folder `hub_…` and "their" mean Hugging Face's, "our" means Regard's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from regard.runtime.files import parse_json, read_small

CONFIG = "config.json"
OLD_CONFIG = "bert_config.json"
"""The name of the file in folders of 2018 and 2019."""


def config_path(folder: Path) -> Path:
    """The config of a folder, which need not exist."""
    file, old = folder / CONFIG, folder / OLD_CONFIG
    return old if old.is_file() and not file.is_file() else file


class ConfigFile(NamedTuple):
    """The `config.json` of a folder as bytes and parsed; empty if there is none."""

    data: bytes = b""
    values: dict[str, Any] | None = None

    @classmethod
    def of(cls, folder: Path) -> ConfigFile:
        """Reads the `config.json` of a folder, Hugging Face's or Regard's."""
        file = config_path(folder)
        if not file.is_file():
            return cls()
        data = read_small(file)
        return cls(data, parse_json(file, data))

    @property
    def hub_config(self) -> dict[str, Any] | None:
        """The contents, if it is a Hugging Face config; None for Regard's or if there is none."""
        return None if self.values is None or "regard" in self.values else self.values
