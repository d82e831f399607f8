"""The parent of every typed section of a recipe."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from regard.errors import InputError


class Config(BaseModel):
    """A frozen, closed set of fields: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def refused(error: ValidationError, what: str) -> InputError:
    """What is wrong in a config that a program wrote: the first field that is not as it should be.

    Args:
        error: What pydantic found.
        what: Where the config stands.
    """
    fault = error.errors()[0]
    where = ".".join(map(str, fault["loc"])) or "the sizes"
    usual = "Input should be "
    if not fault["msg"].startswith(usual):
        return InputError(f"{what}: {where}", got=fault["msg"])
    expected = fault["msg"].removeprefix(usual)
    return InputError(f"{what}: {where}", got=fault["input"], expected=expected)
