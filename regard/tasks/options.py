"""The options of the verbs: one class per verb, whose fields are the options.

A field's description is the help of the option at the command line; its type and bounds are checked
there and in Python.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.config import Config

ALLOW_UNKNOWN = Field(default=False, description="Allow words that are not in the vocabulary.")


class VerbOptions(Config):
    """The options that every verb takes."""

    knock_out: tuple[str, ...] = Field(
        default=(), description="A head to remove, such as decoder.1.cross.3; repeatable."
    )

    def for_task(self) -> dict[str, Any]:
        """The options that the task is given: all but `knock_out`, which changes the model."""
        return {name: value for name, value in self if name != "knock_out"}


class TranslateOptions(VerbOptions):
    """The options of `translate`."""

    prefix: str | tuple[str, ...] = Field(default="", description="How translations must begin.")
    allow_unknown: bool = ALLOW_UNKNOWN


class CaptionOptions(VerbOptions):
    """The options of `caption`."""

    prefix: str | tuple[str, ...] = Field(default="", description="How captions must begin.")


class GenerateOptions(VerbOptions):
    """The options of `generate`."""

    greedy: bool = Field(
        default=False, description="Take the most probable token instead of sampling."
    )
    samples: int = Field(default=1, ge=1, description="Texts for each prompt.")
    allow_unknown: bool = ALLOW_UNKNOWN


class SuggestOptions(VerbOptions):
    """The options of `suggest`."""

    top: int = Field(default=3, description="How many to show.")


class FillOptions(VerbOptions):
    """The options of `fill`."""

    top: int = Field(default=5, ge=1, description="How many to show.")


class ClassifyOptions(VerbOptions):
    """The options of `classify`."""

    top: int | None = Field(
        default=None,
        ge=1,
        description="Classes to show; by default the most probable, in JSON all.",
    )


class AnswerOptions(VerbOptions):
    """The options of `answer`."""

    context: str | tuple[str, ...] = Field(
        description="The text to find answers in.", json_schema_extra={"file": True}
    )
    top: int = Field(default=1, ge=1, description="How many to show.")
    unanswerable: bool | None = Field(
        default=None, description="Whether there may be no answer; by default as in training."
    )


class EmbedOptions(VerbOptions):
    """The options of `embed`."""

    pool: str = Field(default="mean", description="mean of all tokens, or cls: the first.")
    normalise: bool = Field(
        default=True, description="Vectors of length 1, so that their product is their cosine."
    )
    near: str | None = Field(
        default=None, description="The texts or images nearest to this one instead of vectors."
    )
    top: int = Field(default=5, ge=1, description="How many of the nearest.")
