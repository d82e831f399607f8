"""The recipe for word vectors: the text, the vocabulary, the model and the training options."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from regard.config import Config
from regard.data.config import Column, NoData, ReadsTables
from regard.recipes.keys import Keys
from regard.recipes.recipe import RecipeFormat


class SentencesData(Config, ReadsTables):
    """Plain text files. Each line is a sentence: context windows do not cross line ends."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("text",)
    kind: Literal["text"] = "text"
    files: tuple[str, ...]
    """Files, folders or patterns: `.txt`, `.txt.gz`, or tables with a column of texts, as with
    `kind: text` in other recipes."""
    text: Column | None = None
    """The column of texts in a table. None: as its name says."""
    header: bool | None = None
    """Whether the first line of a CSV or TSV file has the names of its columns. None: found out."""
    on_bad: Literal["stop", "skip"] = "stop"
    """What to do with invalid UTF-8, invalid JSON lines, and empty files."""

    @field_validator("files", mode="before")
    @classmethod
    def _as_tuple(cls, value: object) -> object:
        """Accept a single name in place of a list of names."""
        return (value,) if isinstance(value, str) else value


class LibraryData(Config):
    """The documentation in Python's standard library: English text that every machine has."""

    kind: Literal["python"] = "python"


class WordsConfig(Config):
    """The `tokens:` section: what counts as a word, and which words get a vector."""

    split: Literal["words", "spaces"] = "words"
    """`words`: split off punctuation marks, as Regard's word tokenizer does; `spaces`: the text is
    already tokenized, and words are separated by white space."""
    lowercase: bool = True
    min_count: int = Field(default=5, ge=1)
    """Words that occur less often get no vector and are removed from the text."""
    vocab: int | None = Field(default=None, ge=2)
    """The vocabulary size: only the most frequent words are kept. None: no limit."""


class VectorsConfig(Config):
    """The `model:` section."""

    family: Literal["vectors"] = "vectors"
    kind: Literal["skip-gram", "cbow"] = "skip-gram"
    """`skip-gram`: each context word predicts the word; `cbow`: the mean of the context does."""
    dim: int = Field(default=100, ge=1, le=2**14)
    """The dimension of a vector."""


class VectorsTrainConfig(Config):
    """The `train:` section: negative sampling (Mikolov et al. 2013)."""

    epochs: int = Field(default=5, ge=1, le=10_000)
    """The number of passes over the text."""
    window: int = Field(default=5, ge=1, le=31)
    """The largest context size on either side; for each word it is drawn from 1 to `window`."""
    negatives: int = Field(default=5, ge=1, le=1000)
    """The number of negative samples per word pair."""
    subsample: float = Field(default=1e-3, ge=0, le=1)
    """Subsampling threshold: words with a larger share of the text are dropped at random, frequent
    ones more often; 0: no subsampling."""
    power: float = Field(default=0.75, ge=0, le=2)
    """Negatives are drawn with probability proportional to count ** power."""
    learning_rate: float | None = Field(default=None, gt=0, le=1)
    """The initial learning rate; it decays linearly, not below `final_rate`. None: as in word2vec's
    code, 0.025 for skip-gram and 0.05 for cbow."""
    final_rate: float = Field(default=1e-4, ge=0, le=1)
    save_every: int = Field(default=50, ge=1)
    """Steps between two checkpoints. A step reads 65,536 words of the text, or the rest of it."""
    keep: int = Field(default=2, ge=1)
    """The number of recent checkpoints that are kept."""


class VectorsRecipe(Config):
    """The complete recipe of a training run."""

    version: Literal[2]
    task: Literal["vectors"]
    data: Annotated[SentencesData | LibraryData | NoData, Field(discriminator="kind")]
    tokens: WordsConfig = WordsConfig()
    model: VectorsConfig = VectorsConfig()
    train: VectorsTrainConfig = VectorsTrainConfig()
    seed: int = Field(default=0, ge=0, lt=2**32)


RATES = {"skip-gram": 0.025, "cbow": 0.05}
"""Default learning rates by kind of model."""
FORM = RecipeFormat(
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
"""The schema of a recipe for word vectors and its known keys."""
