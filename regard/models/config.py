"""The `model:` section of a recipe: what the configs of all families share.

A model has an encoder, a decoder or both, and a head; the configs of these parts are in
`regard/layers/config.py`. A family (`regard/models/families/`) says which parts its models can
have, its defaults and its named sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, ModelWrapValidatorHandler, model_validator
from pydantic_core import PydanticCustomError

from regard.config import Config
from regard.layers import short
from regard.layers.config import (
    ConvolutionConfig,
    GatedConvolutionConfig,
    PairHead,
    SentencesStack,
    SequenceStack,
    TokenHead,
    WritingStack,
)
from regard.models import version_1

Short = dict[str, Any]
"""A part of a config in the short form."""
Sizes = dict[str, Short]


class ModelConfig(Config):
    """The settings of a model of any family.

    A setting may be written without its nesting, and read so, too, if all parts share its value:
    `TransformerConfig(dim=64).dim` is that of encoder and decoder.
    """

    # Keys that no part has are refused by `_resolve`, before pydantic sees them.
    model_config = ConfigDict(extra="ignore")
    DEFAULTS: ClassVar[Short] = {}
    """The family's defaults, where they differ from those of its parts."""
    SIZES: ClassVar[Sizes] = {}
    """The named sizes."""
    HEADS: ClassVar[tuple[str, ...]] = ()
    """Keys that name the model's heads, apart from the language-model head."""
    has_target: ClassVar[bool] = False
    """Whether an example is a source and a target, not one text."""
    reads: ClassVar[str] = "text"
    """What the model reads: the name of its reader in `regard.inputs.reader.READERS`."""
    VOCABULARIES: ClassVar[tuple[str, ...]] = ("vocab",)
    """Names of the vocabulary sizes that a model is built with, the source's first."""
    RESIZABLE: ClassVar[tuple[str, ...]] = ()
    """Keys that may be others than those of a trained model that a training starts from: its
    weights are interpolated."""
    SAME_FOR_BOTH: ClassVar[tuple[str, ...] | None] = None
    """The short keys that may reach both sides, if these have different modalities; None: all."""
    family: str
    size: str | None = None
    """A named size, which gives the defaults of all fields that are not set."""

    @model_validator(mode="wrap")
    @classmethod
    def _resolve(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Reads the short form."""
        if not isinstance(values, dict):
            return handler(values)
        resolved = cls.resolve(values)
        if cls.SAME_FOR_BOTH is not None:
            cls._check_sides(resolved, cls.SAME_FOR_BOTH)
        config = handler(resolved.checked())
        config.__dict__["origins"] = resolved.origins  # as a cached_property stores its value
        return config

    @cached_property
    def origins(self) -> dict[short.Path, short.Statement]:
        """Where each value was written, by its path; empty if the config was not made of values."""
        return {}

    @model_validator(mode="after")
    def _check_kernels(self) -> Self:
        """Refuses an encoder's convolution without a middle token."""
        kinds = ConvolutionConfig, GatedConvolutionConfig
        for part in getattr(self.sides.get("encoder"), "block", ()):
            if isinstance(part, kinds) and part.kernel % 2 == 0:
                raise ValueError(
                    f"kernel {part.kernel}: an encoder needs an odd one, with a middle"
                )
        return self

    @classmethod
    def resolve(cls, values: Short) -> short.Resolved:
        """Puts the keys of a short form where they belong, with those of the size and family."""
        values = version_1.with_new_keys(cls, values)
        size = cls.SIZES.get(str(values.get("size")), {})
        return short.resolve(cls, [cls.DEFAULTS, size, values])

    @classmethod
    def _check_sides(cls, resolved: short.Resolved, same_for_both: Sequence[str]) -> None:
        """Refuses a short key that would reach two sides which it cannot mean alike."""
        sides: dict[str | int, set[str | int]] = {}
        for path, statement in resolved.origins.items():
            if statement.source == GIVEN and len(statement.origin) == 1:
                sides.setdefault(statement.origin[0], set()).add(path[0])
        for key, reached in sides.items():
            if {"encoder", "decoder"} <= reached and key not in same_for_both:
                raise PydanticCustomError(
                    "sections_disagree",
                    "{key} would reach encoder and decoder, which differ: write it below one of "
                    "them, as encoder.{key}",
                    {"key": key, "keys": (("model", str(key)),)},
                )

    def __getattr__(self, name: str) -> Any:
        """The value of a short key, if all parts that have it share it."""
        if name.startswith("_"):
            return super().__getattr__(name)  # type: ignore[misc]
        return short.shared(self, name)

    def written(self) -> dict[short.Path, short.Statement]:
        """The values that a person or a named size has set, by their paths, not the defaults."""
        return {path: statement for path, statement in self.origins.items() if statement.source > 0}

    def changed(self, **values: Any) -> Self:
        """A copy with other values of short keys.

        Example:
            >>> from regard.models import GPTConfig
            >>> GPTConfig(size="nano").changed(dropout=0.3).decoder.dropout
            0.3
        """
        nested: Short = self.model_dump()
        for key, value in values.items():
            nested = short.with_value(nested, [key], value)
        config = type(self).model_validate(nested)
        written = {path: statement for path, statement in config.origins.items()
                   if statement.origin[0] in values}  # fmt: skip
        config.__dict__["origins"] = {**self.origins, **written}
        return config

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values; short keys are read as in `changed`."""
        if update and not update.keys() <= type(self).model_fields.keys():
            return self.changed(**update)
        return super().model_copy(update=update, deep=deep)

    @property
    def sides(self) -> dict[str, Any]:
        """The configs of encoder and decoder by name, in the order in which data passes them."""
        names = [name for name in ("encoder", "decoder") if name in type(self).model_fields]
        return {name: side for name in names if (side := getattr(self, name)) is not None}

    @property
    def first(self) -> Any:
        """The config of the side that reads the input."""
        return next(iter(self.sides.values()))

    @property
    def last(self) -> Any:
        """The config of the side that the head is on."""
        return [*self.sides.values()][-1]

    @property
    def abilities(self) -> frozenset[str]:
        """What a model can do, in words that tasks ask for.

        `vectors`: make a vector of each token; `encodes`: one that depends on all tokens;
        `writes`: write a text for an input; `continues`: continue a text; and the name of each
        head that it has, such as `classes`.
        """
        words = {"vectors", *(name for name in self.HEADS if getattr(self, name))}
        if "encoder" in self.sides:
            words.add("encodes")
        if "decoder" in self.sides:
            words.add("writes" if self.has_target else "continues")
        return frozenset(words)

    @property
    def dim(self) -> int:
        """Width of the vectors that the first side makes."""
        width: int = self.first.dim
        return width

    @property
    def max_length(self) -> int:
        """The maximum number of tokens of an input."""
        length: int = self.first.front.max_length
        return length

    @property
    def output_length(self) -> int:
        """The maximum number of tokens of a text that it writes, with its end."""
        return self.max_length

    @property
    def least_examples(self) -> int:
        """The fewest examples of a batch that the model can learn from."""
        return 1

    @property
    def bidirectional(self) -> bool:
        """Whether a language model reads both ways, so that vectors depend on both sides (ELMo)."""
        return False

    @property
    def stacks(self) -> dict[str, int]:
        """Stack name -> number of layers, in the order in which data passes them."""
        return {name: side.layers for name, side in self.sides.items()}

    @property
    def bound(self) -> int | None:
        """The maximum number of tokens that have positions; None: unlimited."""
        bounds = [side.bound for side in self.sides.values() if side.bound is not None]
        return min(bounds, default=None)

    @property
    def summary(self) -> str:
        """A short description of the model's widths and kinds, without its layers."""
        summaries = dict.fromkeys(side.summary for side in self.sides.values())
        return " + ".join(summaries)


GIVEN = 2
"""The number of the source that a person wrote, after family and size."""


class EncoderDecoderConfig(ModelConfig):
    """The settings of families with an encoder and a decoder of text."""

    has_target: ClassVar[bool] = True
    VOCABULARIES: ClassVar[tuple[str, ...]] = ("source_vocab", "target_vocab")
    encoder: SequenceStack = SequenceStack()
    decoder: WritingStack = WritingStack()
    head: PairHead = PairHead()

    @model_validator(mode="after")
    def _check_tied(self) -> Self:
        """Refuses one matrix for two sides of different widths."""
        if self.head.tied in ("all", "inputs") and self.encoder.dim != self.decoder.dim:
            raise ValueError(
                f"tied: {self.head.tied} needs one width, got encoder {self.encoder.dim} and "
                f"decoder {self.decoder.dim}; tied: output would fit"
            )
        return self


class DecoderConfig(ModelConfig):
    """The settings of decoder-only families."""

    decoder: SequenceStack = SequenceStack()
    head: TokenHead = TokenHead()

    @model_validator(mode="after")
    def _check_direction(self) -> Self:
        """Refuses recurrent layers that would see the tokens to be predicted."""
        recurrent = self.decoder.recurrent
        if recurrent is not None and recurrent.direction != "forward":
            raise ValueError(f"direction: a decoder reads forward, not {recurrent.direction}")
        return self


class TextHeads(Config):
    """The heads of an encoder of text."""

    pooler: Literal["tanh", "relu", "none"] = "tanh"
    """The function f of the pooled vector f(W x), where x is the first token's vector; `none`: the
    pooled vector is x itself."""
    masked: bool = True
    """Whether there is a head that predicts masked tokens; the embedding is its matrix."""
    next_sentence: bool = False
    """Whether there is a head that predicts if the second sentence follows the first."""
    classes: tuple[str, ...] = ()
    """Names of the classes of an input, for a head on the pooled vector; empty: no such head."""
    tags: tuple[str, ...] = ()
    """Names of the tags of a token, for a head on every token; empty: no such head."""
    spans: bool = False
    """Whether there is a head that predicts the first and last token of an answer."""


class NumbersHead(Config):
    """A head that predicts numbers, which are standardised: z = (y - mean) / deviation."""

    numbers: tuple[str, ...] = ()
    """Names of the numbers to predict, for a head on the pooled vector; empty: no such head."""
    number_means: tuple[float, ...] = ()
    """Mean of each of these numbers in the training data."""
    number_deviations: tuple[float, ...] = ()
    """Standard deviation of each of these numbers in the training data."""

    @model_validator(mode="after")
    def _check_numbers(self) -> Self:
        means, deviations = len(self.number_means), len(self.number_deviations)
        if means != deviations or (self.numbers and means not in (0, len(self.numbers))):
            raise ValueError("numbers need as many number_means and number_deviations, or none")
        return self


class EncoderConfig(ModelConfig):
    """The settings of encoder-only families, with their heads."""

    HEADS: ClassVar[tuple[str, ...]] = ("masked", "next_sentence", "classes", "tags", "spans")
    encoder: SentencesStack = SentencesStack()
    head: TextHeads = TextHeads()
