"""What the verbs take beside their items: a class each, whose fields are the options.

A field's description is its help at the command line, its type and bounds are the checks.
"""

from __future__ import annotations

from pydantic import Field

from regard.config import Config


class Options(Config):
    """What every verb takes beside its items."""

    knock_out: tuple[str, ...] = Field(
        default=(),
        description="A head to take away, such as decoder.1.cross.3; repeatable.",
    )


class TranslateOptions(Options):
    """Of `translate`."""

    prefix: str | tuple[str, ...] = Field(default="", description="How translations must begin.")
    allow_unknown: bool = Field(
        default=False, description="Translate around words it does not know."
    )


class GenerateOptions(Options):
    """Of `generate`."""

    greedy: bool = Field(
        default=False, description="Always the likeliest token, instead of drawing."
    )
    samples: int = Field(default=1, ge=1, description="Texts for each prompt.")
    allow_unknown: bool = Field(
        default=False, description="Read around words it does not know, if it rewrites."
    )


class SuggestOptions(Options):
    """Of `suggest`."""

    top: int = Field(default=3, description="How many to show.")


class FillOptions(Options):
    """Of `fill`."""

    top: int = Field(default=5, ge=1, description="How many to show.")


class ClassifyOptions(Options):
    """Of `classify`."""

    top: int | None = Field(
        default=None,
        ge=1,
        description="How many classes to show; else the likeliest, in JSON all.",
    )


class AnswerOptions(Options):
    """Of `answer`."""

    context: str | tuple[str, ...] = Field(
        description="The text to find answers in.", json_schema_extra={"file": True}
    )
    top: int = Field(default=1, ge=1, description="How many to show.")
    unanswerable: bool | None = Field(
        default=None,
        description="Whether there may be no answer; if not said, as it was trained.",
    )


class EmbedOptions(Options):
    """Of `embed`."""

    pool: str = Field(default="mean", description="mean of all tokens, or cls: the first.")
    normalise: bool = Field(
        default=True, description="Vectors of length 1, so that their product is their cosine."
    )
    near: str | None = Field(
        default=None, description="The texts nearest to this one instead of vectors."
    )
    top: int = Field(default=5, ge=1, description="How many of the nearest.")
