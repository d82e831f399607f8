"""Models of tables in the folders of others: there are none, and the error says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.errors import InputError


def write(model: Any, processor: Any, decode: Any, folder: Path, kind: str | None) -> None:
    """Refuses to write a model of tables; see `exchange.export`.

    Raises:
        InputError: Always.
    """
    del processor, decode, folder, kind
    raise InputError(
        "export",
        got=f"a {model.config.family} model of tables",
        expected="a model of texts or images",
        fix="its weights are in the run's model.safetensors; regard.load(RUN).model has them, too",
    )
