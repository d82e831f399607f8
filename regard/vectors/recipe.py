"""The recipe of word vectors: which text, which words, how they are learned."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from regard.config import Config
from regard.data.config import NoData
from regard.recipes.messages import Keys
from regard.recipes.recipe import Form


class SentencesData(Config):
    """Plain text. A line is a sentence: windows do not reach beyond it."""

    kind: Literal["text"] = "text"
    files: tuple[str, ...]
    """Files, folders or patterns: `.txt`, `.txt.gz`, or `.jsonl` with a `text` in each line."""
    on_bad: Literal["stop", "skip"] = "stop"
    """What to do with bad UTF-8, lines that are no JSON, and empty files."""

    @field_validator("files", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value


class LibraryData(Config):
    """The documentation inside Python's own standard library: English that every machine has."""

    kind: Literal["python"] = "python"


class WordsConfig(Config):
    """The `tokens:` section: what counts as a word, and which words get a vector."""

    split: Literal["words", "spaces"] = "words"
    """`words`: punctuation marks stand alone, as everywhere; `spaces`: the text is already cut, and
    words are what stands between white space."""
    lowercase: bool = True
    min_count: int = Field(default=5, ge=1)
    """Words that are rarer get no vector, and are passed over."""
    vocab: int | None = Field(default=None, ge=2)
    """The largest number of words: the most frequent. None: all that are frequent enough."""


class VectorsConfig(Config):
    """The `model:` section."""

    family: Literal["vectors"] = "vectors"
    kind: Literal["skip-gram", "cbow"] = "skip-gram"
    """`skip-gram`: each word near another is to tell it; `cbow`: their mean is to."""
    dim: int = Field(default=100, ge=1, le=2**14)
    """Numbers of a vector."""


class VectorsTrainConfig(Config):
    """The `train:` section: negative sampling (Mikolov et al. 2013)."""

    epochs: int = Field(default=5, ge=1, le=10_000)
    """How often the text is read."""
    window: int = Field(default=5, ge=1, le=31)
    """Words on either side that count, at most; for each word the number is drawn, from 1 on."""
    negatives: int = Field(default=5, ge=1, le=1000)
    """Words that are not there, for each that is."""
    subsample: float = Field(default=1e-3, ge=0, le=1)
    """Words of a larger share of the text are left out at random, the more the more frequent they
    are; 0: none."""
    power: float = Field(default=0.75, ge=0, le=2)
    """Negatives are drawn by count ** power."""
    learning_rate: float | None = Field(default=None, gt=0, le=1)
    """At the beginning; it falls to `final_rate` with the words that are read. None: as in
    word2vec's code, 0.025 of skip-gram, 0.05 of cbow."""
    final_rate: float = Field(default=1e-4, ge=0, le=1)
    save_every: int = Field(default=50, ge=1)
    """Steps between two checkpoints. A step is 65,536 words of the text, or what is left of it."""
    keep: int = Field(default=2, ge=1)
    """How many of the last checkpoints stay."""


class VectorsRecipe(Config):
    """Everything a run depends on."""

    version: Literal[1]
    task: Literal["vectors"]
    data: Annotated[SentencesData | LibraryData | NoData, Field(discriminator="kind")]
    tokens: WordsConfig = WordsConfig()
    model: VectorsConfig = VectorsConfig()
    train: VectorsTrainConfig = VectorsTrainConfig()
    seed: int = Field(default=0, ge=0, lt=2**32)


RATES = {"skip-gram": 0.025, "cbow": 0.05}
"""Learning rates where a recipe names none."""
FORM = Form(
    VectorsRecipe,
    Keys(
        top={name: VectorsRecipe.model_fields[name] for name in ("version", "task", "seed")},
        sections={
            "data": {"text": SentencesData, "python": LibraryData, "none": NoData},
            "tokens": {"": WordsConfig},
            "model": {"": VectorsConfig},
            "train": {"": VectorsTrainConfig},
        },
        tags={"data": "kind"},
    ),
)
"""What a recipe of word vectors can say."""
