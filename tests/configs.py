"""Configs of any family from sizes that not all families have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.models.config import ModelConfig


def fitting(kind: type[ModelConfig], sizes: Mapping[str, Any], **settings: Any) -> Any:
    """A config with these settings and with those of the sizes that a part of the model has."""
    unused = {path[0] for path in kind.resolve({**sizes, **settings}).unused} - {*settings}
    known = {key: value for key, value in sizes.items() if key not in unused}
    return kind.model_validate({**known, **settings})
