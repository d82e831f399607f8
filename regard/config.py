"""The base class of the sections of a recipe, and the strict checking of JSON values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from reprlib import Repr
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import PydanticKnownError, core_schema

from regard.errors import InputError

Result = TypeVar("Result")

_SHOWN = Repr()  # shortens a value for an error
_SHOWN.maxlevel = 2
_SHOWN.maxlong = _SHOWN.maxstring = 40


class Config(BaseModel):
    """Base class of configs: immutable, with an error for unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class NameIn:
    """Marks a field whose value must be a key of a table, looked up when a value is checked."""

    table: Mapping[str, Any]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, name: str) -> str:
        if name not in self.table:
            *others, last = map(repr, self.table)
            expected = f"{', '.join(others)} or {last}"
            raise PydanticKnownError("literal_error", {"expected": expected})
        return name


def checked(kind: TypeAdapter[Result], values: Any, what: str) -> Result:
    """Converts JSON values to a type, strictly: without conversions between types of values.

    Args:
        kind: The adapter of a `Config`, a dataclass or another type.
        values: The values, as `json.loads` returns them.
        what: The name of the file or value, for the error.

    Raises:
        InputError: A value is not allowed; the message names the first one.

    Example:
        >>> checked(TypeAdapter(dict[str, int]), {"a": 1}, "a.json")
        {'a': 1}
    """
    try:
        return kind.validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise input_error(error, what) from None
    except (ValueError, RecursionError):  # nested too deeply for json.dumps
        raise InputError(what, got=_SHOWN.repr(values), expected="less nesting") from None


def input_error(error: ValidationError, what: str) -> InputError:
    """Converts a validation error to an `InputError` about the first wrong value.

    Args:
        error: The error of pydantic.
        what: The name of the file or value, for the message.
    """
    fault = error.errors(include_url=False)[0]
    location = f"{what}: {'.'.join(map(str, fault['loc']))}" if fault["loc"] else what
    if fault["type"] == "missing":
        return InputError(location, got="nothing", expected="a value")
    if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return InputError(location, got="an unknown key", expected="only known keys")
    usual = "Input should be "
    if not fault["msg"].startswith(usual):
        return InputError(location, got=fault["msg"].removeprefix("Value error, "))
    got = _SHOWN.repr(fault["input"])
    return InputError(location, got=got, expected=fault["msg"].removeprefix(usual))
