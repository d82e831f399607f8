"""The `data:` section of a recipe: where the examples come from."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from regard.config import Config

Files = str | tuple[str, str]
"""One TSV, CSV or JSONL file, or two line-aligned files (source, target); plain or `.gz`."""
Group = Literal["pair", "source"]
"""What stays together when pairs are set aside: copies of a pair, or all pairs of one source."""
Gives = Literal["pairs", "text", "labels", "pictures", "nothing"]
"""What a kind of data gives to learn from; a task takes one of these."""


class GrammarData(Config):
    """English-German pairs from the embedded synchronous grammar."""

    gives: ClassVar[Gives] = "pairs"
    kind: Literal["grammar"] = "grammar"
    pairs: int = Field(default=60_000, ge=1)
    """How many training pairs to generate."""
    held_out: int = Field(default=500, ge=1)
    """How many pairs of each held-out kind to generate, and of the validation split."""
    seed: int = 0


class ToyData(Config):
    """Sequences of symbols to copy, reverse or sort."""

    gives: ClassVar[Gives] = "pairs"
    kind: Literal["copy", "reverse", "sort"]
    pairs: int = Field(default=10_000, ge=1)
    held_out: int = Field(default=500, ge=1)
    symbols: int = Field(default=20, ge=2, le=1000)
    longest: int = Field(default=10, ge=1)
    seed: int = 0


class FileData(Config):
    """A person's own parallel text."""

    gives: ClassVar[Gives] = "pairs"
    kind: Literal["files"] = "files"
    train: Files
    valid: Files | None = None
    """Without it, `held_out` training pairs are set aside, chosen by `seed`, and not trained on."""
    test: Files | None = None
    held_out: int = Field(default=500, ge=1)
    held_out_test: int = Field(default=0, ge=0)
    """Without `test`, so many training pairs are set aside for it, too."""
    group: Group = "pair"
    """`source`: all pairs of one source stay in one split; `held_out` then counts sources, and
    `regard eval` takes all targets of a source for right."""
    on_bad: Literal["stop", "skip"] = "stop"
    """What to do with empty lines, bad UTF-8 and over-long pairs. Unequal lengths always stop."""
    max_words: int = Field(default=250, ge=1)
    """A pair with more words than this on a side is over-long."""
    seed: int = 0


class TextData(Config):
    """Plain text to learn a language from."""

    gives: ClassVar[Gives] = "text"
    kind: Literal["text"] = "text"
    files: tuple[str, ...]
    """Files, folders or patterns: `.txt`, `.jsonl` with a `text` in each line, or `.tsv` of whose
    lines the first column is taken; plain or `.gz`."""
    valid: tuple[str, ...] = ()
    """Without it, `held_out` of the documents are set aside, or the end of a single one."""
    held_out: float = Field(default=0.05, gt=0, lt=1)
    separator: str | None = None
    """The line between two documents of a file, `""` for an empty line; None: a file is one."""
    rows: Literal["packed", "stream"] = "packed"
    """`packed`: documents apart from each other; `stream`: rows from anywhere in the text."""
    on_bad: Literal["stop", "skip"] = "stop"
    """What to do with empty documents, bad UTF-8 and lines that are no JSON."""
    seed: int = 0

    @field_validator("files", "valid", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value


class PythonData(Config):
    """The documentation inside Python's own standard library: English that every machine has."""

    gives: ClassVar[Gives] = "text"
    kind: Literal["python"] = "python"
    held_out: float = Field(default=0.05, gt=0, lt=1)
    rows: Literal["packed", "stream"] = "packed"
    seed: int = 0


class LabelledData(Config):
    """Examples with labels, to fine-tune on: which format, the task and the file's name tell."""

    gives: ClassVar[Gives] = "labels"
    kind: Literal["labelled"] = "labelled"
    train: str
    """classify: `.tsv`, `.csv` (text, perhaps a second, label) or `.jsonl` (text, pair, label);
    tag: a word a line with its tag in the last column, or `.jsonl` (words, tags);
    answer: SQuAD's `.json`, or `.jsonl` (context, question, answers)."""
    valid: str | None = None
    """Without it, `held_out` examples are set aside, chosen by `seed`, and not trained on."""
    test: str | None = None
    header: bool = False
    """Whether the first line of a `.tsv` or `.csv` names its columns."""
    held_out: int = Field(default=500, ge=1)
    on_bad: Literal["stop", "skip"] = "stop"
    """What to do with examples that cannot be used."""
    longest: int | None = Field(default=None, ge=16)
    """The most tokens that are read at once. None: as many as the model can."""
    overlap: int = Field(default=64, ge=0)
    """tag, answer: how many tokens two windows of a text that is longer share."""
    unanswerable: bool = False
    """answer: whether a question may have no answer in its text."""
    seed: int = 0


class DigitsData(Config):
    """1,797 handwritten digits of 8 x 8 pixels, which ship (UCI, CC BY 4.0)."""

    gives: ClassVar[Gives] = "pictures"
    kind: Literal["digits"] = "digits"
    fold: int = Field(default=0, ge=0, le=4)
    """Which fifth is the test; each class is dealt out evenly. A tenth of the rest validates."""
    augment: float = Field(default=0.5, ge=0, le=1)
    """How far training images are moved, turned, scaled and made thicker or thinner; 0: not."""


class PartData(Config):
    """One set of pairs of a mixture."""

    kind: Literal["files", "grammar", "summaries", "questions"] = "files"
    """Where its pairs come from: files, or a generator: of translations, of reports with a
    one-sentence summary, of remarks with whether (yes, no) they are toxic."""
    train: Files | None = None
    """files: as with `kind: files`."""
    pairs: int = Field(default=60_000, ge=1)
    """A generator: how many training pairs."""
    valid: Files | None = None
    """Without it, some training pairs are set aside, as with `kind: files`."""
    test: Files | None = None
    prefix: str = ""
    """What to do with a source, put before it: `translate to German: `."""
    weight: float = Field(default=1.0, gt=0)
    """Its share of the pairs that are trained on, beside those of the others."""
    unpunctuated: float = Field(default=0.0, ge=0, le=1)
    """The share of its training pairs that lose their final marks (. ! ?) on both sides, so that a
    model learns to read what people type."""

    @model_validator(mode="after")
    def _files_or_generated(self) -> PartData:
        if self.kind == "files" and self.train is None:
            raise ValueError("a part of kind: files needs train: FILE")
        if self.kind != "files" and (self.train or self.valid or self.test):
            raise ValueError(f"a part of kind: {self.kind} is generated and takes no files")
        return self


Parts = dict[str, PartData]
"""Sets of pairs, by name."""


class MixtureData(Config):
    """Several tasks as text to text, in given proportions (T5)."""

    gives: ClassVar[Gives] = "pairs"
    kind: Literal["mixture"] = "mixture"
    parts: Parts = Field(min_length=1)
    held_out: int = Field(default=500, ge=1)
    """How many training pairs of each part are set aside where it has no `valid`."""
    held_out_test: int = Field(default=0, ge=0)
    """The same for its `test`."""
    group: Group = "pair"
    on_bad: Literal["stop", "skip"] = "stop"
    """What to do with empty lines, bad UTF-8 and over-long pairs. Unequal lengths always stop."""
    max_words: int = Field(default=250, ge=1)
    seed: int = 0


class NoData(Config):
    """Of a model that came from elsewhere, with its weights."""

    gives: ClassVar[Gives] = "nothing"
    kind: Literal["none"] = "none"


DataConfig = Annotated[
    GrammarData
    | ToyData
    | FileData
    | TextData
    | PythonData
    | LabelledData
    | DigitsData
    | MixtureData
    | NoData,
    Field(discriminator="kind"),
]
