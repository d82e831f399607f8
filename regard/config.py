"""The parent of every typed section of a recipe, and values of JSON as a type has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from reprlib import Repr
from typing import Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticKnownError, core_schema

from regard.errors import InputError

Result = TypeVar("Result")

_SHOWN = Repr()  # a value in an error, cut short
_SHOWN.maxlevel = 2
_SHOWN.maxlong = _SHOWN.maxstring = 40


class Config(BaseModel):
    """A frozen, closed set of fields: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class NameIn:
    """Marks a field whose value is a name in a table, as the table is when a value is checked."""

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
    """Values as JSON has them -> what they are of; nothing is converted, nothing left over.

    Args:
        kind: Of a `Config` or a dataclass.
        values: As `json.loads` gives them.
        what: Where they stand, for the error.

    Raises:
        InputError: About the first value that is not allowed.

    Example:
        >>> checked(TypeAdapter(dict[str, int]), {"a": 1}, "a.json")
        {'a': 1}
    """
    try:
        return kind.validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise refused(error, what) from None
    except (ValueError, RecursionError):  # nested so deeply that it cannot be written
        raise InputError(what, got=_SHOWN.repr(values), expected="less nesting") from None


def refused(error: ValidationError, what: str) -> InputError:
    """What is wrong in values that a program wrote: the first that is not as it should be.

    Args:
        error: What pydantic found.
        what: Where the values stand.
    """
    fault = error.errors(include_url=False)[0]
    place = f"{what}: {'.'.join(map(str, fault['loc']))}" if fault["loc"] else what
    if fault["type"] == "missing":
        return InputError(place, got="nothing", expected="a value")
    if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return InputError(place, got="an unknown key", expected="none of that name")
    usual = "Input should be "
    if not fault["msg"].startswith(usual):
        return InputError(place, got=fault["msg"])
    got = _SHOWN.repr(fault["input"])
    return InputError(place, got=got, expected=fault["msg"].removeprefix(usual))
