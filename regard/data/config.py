"""The `data:` section of a recipe: which dataset to read or generate, and how to split it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, field_validator, model_validator

from regard.config import Config

Files = str | tuple[str, str]
"""One table, or two line-aligned files (source, target). A table is a TSV, CSV or JSONL file, plain
or `.gz`, a Parquet file, or a folder that `datasets` wrote with `save_to_disk`."""
Column = str | int
"""A column of a table: its name, or its number from 1 in a file without names."""
Group = Literal["pair", "source"]
"""Which pairs stay in one split when pairs are held out: copies of a pair, or all pairs of one
source."""
OnBad = Literal["stop", "skip"]
"""What to do with lines that cannot be used: `stop` at the first, or `skip` them. They are empty,
not UTF-8, over-long or in a wrong format; two files of different lengths are always an error."""
ExampleType = Literal["pairs", "text", "labels", "pictures", "rows", "nothing"]
"""The type of a dataset's examples; each task needs one of these."""


@dataclass(frozen=True)
class Columns:
    """Which columns of a table to read, and whether its first line has their names."""

    named: Mapping[str, Column] = field(default_factory=dict)
    """The columns that are named, by key of `data:`; the others are found by their names."""
    header: bool | None = None
    """None: the file decides."""


ALL_FOUND = Columns()
"""No column is named: each is found by its name or its place."""


class ReadsTables:
    """Base class of data that is read from tables: the columns that its keys name."""

    COLUMNS: ClassVar[tuple[str, ...]] = ()
    """The keys that name columns."""

    @property
    def columns(self) -> Columns:
        """The columns that are named, and `header`."""
        column_by_key = {key: getattr(self, key) for key in self.COLUMNS}
        named_columns = {key: column for key, column in column_by_key.items() if column is not None}
        return Columns(named_columns, getattr(self, "header", None))


MOST_PAIRS = 10_000_000
"""The most examples of a split that is generated: some gigabytes, and minutes to generate."""
LONGEST = 22
"""The most English words of a training sentence of the grammar, unless a recipe allows more."""


class GrammarData(Config):
    """English-German pairs from the embedded synchronous grammar."""

    example_type: ClassVar[ExampleType] = "pairs"
    kind: Literal["grammar"] = "grammar"
    pairs: int = Field(default=60_000, ge=1, le=MOST_PAIRS)
    """How many training pairs to generate."""
    held_out: int = Field(default=500, ge=1, le=MOST_PAIRS)
    """How many pairs to generate for the validation split and for each test split."""
    longest: int = Field(default=LONGEST, ge=LONGEST, le=100)
    """The most English words of a training sentence. Above 22, half of the sentences are chains of
    clauses joined by "and" or "but", of all lengths up to it, and the test "long" has chains of
    more than 22 words."""
    seed: int = 0


class ToyData(Config):
    """Sequences of symbols to copy, reverse or sort."""

    example_type: ClassVar[ExampleType] = "pairs"
    kind: Literal["copy", "reverse", "sort"]
    pairs: int = Field(default=10_000, ge=1, le=MOST_PAIRS)
    held_out: int = Field(default=500, ge=1, le=MOST_PAIRS)
    symbols: int = Field(default=20, ge=2, le=1000)
    longest: int = Field(default=10, ge=1, le=10_000)
    seed: int = 0


class FileData(Config, ReadsTables):
    """Parallel text from your own files."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("source", "target")
    example_type: ClassVar[ExampleType] = "pairs"
    kind: Literal["files"] = "files"
    train: Files
    valid: Files | None = None
    """Validation file. Without it, `held_out` training pairs, chosen by `seed`, are held out."""
    test: Files | None = None
    held_out: int = Field(default=500, ge=1)
    held_out_test: int = Field(default=0, ge=0)
    """Without `test`, this many training pairs are held out as the test split."""
    source: Column | None = None
    """The column of sources in a table. None: as its name says, or the first of two."""
    target: Column | None = None
    header: bool | None = None
    """Whether the first line of a CSV or TSV file has the names of its columns. None: found out."""
    group: Group = "pair"
    """`source`: all pairs of one source stay in one split; `held_out` then counts sources, and
    `regard eval` accepts every target of a source as correct."""
    on_bad: OnBad = "stop"
    max_words: int = Field(default=250, ge=1)
    """A pair with more words than this on either side is over-long."""
    seed: int = 0


class TextData(Config, ReadsTables):
    """Plain text for pretraining."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("text",)
    example_type: ClassVar[ExampleType] = "text"
    kind: Literal["text"] = "text"
    files: tuple[str, ...]
    """Files, folders or glob patterns: `.txt`, `.jsonl` with a `text` in each line, or `.tsv`, of
    which the first column is read; plain or `.gz`. Of a table, the column `text` is read."""
    text: Column | None = None
    """The column of texts in a table. None: as its name says."""
    header: bool | None = None
    """Whether the first line of a CSV or TSV file has the names of its columns. None: found out."""
    valid: tuple[str, ...] = ()
    """Validation files. Without them, the fraction `held_out` of the text is held out: whole
    documents, or the end of each if no document is that short."""
    held_out: float = Field(default=0.05, gt=0, lt=1)
    separator: str | None = None
    """The line that separates two documents of a file, `""` for an empty line. None: a file is one
    document."""
    rows: Literal["packed", "stream"] = "packed"
    """`packed`: no sequence crosses the border of two documents. `stream`: sequences start anywhere
    in the text and cross documents."""
    masked: float = Field(default=0.15, gt=0, lt=1)
    """fill: the share of the training tokens that are masked. BERT has 0.15; a short training gains
    from more (Wettig et al. 2023). Validation text always has 0.15."""
    on_bad: OnBad = "stop"
    seed: int = 0

    @field_validator("files", "valid", mode="before")
    @classmethod
    def _as_tuple(cls, value: object) -> object:
        """Accept a single name in place of a list of names."""
        return (value,) if isinstance(value, str) else value


class PythonData(Config):
    """The docstrings and comments of Python's standard library: English text on every machine."""

    example_type: ClassVar[ExampleType] = "text"
    kind: Literal["python"] = "python"
    held_out: float = Field(default=0.05, gt=0, lt=1)
    rows: Literal["packed", "stream"] = "packed"
    seed: int = 0


class LabelledData(Config, ReadsTables):
    """Examples with labels, for fine-tuning. The task and the file's suffix decide the format."""

    COLUMNS: ClassVar[tuple[str, ...]] = (
        "text", "pair", "label", "words", "tags", "context", "question", "answers", "start",
    )  # fmt: skip
    example_type: ClassVar[ExampleType] = "labels"
    kind: Literal["labelled"] = "labelled"
    train: str
    """classify: a table of text, optional second text, and label; tag: one word per line with its
    tag in the last column, or a table with lists of words and tags; answer: SQuAD's `.json`, or a
    table of context, question and answers. A table is `.tsv`, `.csv`, `.jsonl`, `.parquet`, or a
    folder that `datasets` wrote with `save_to_disk`."""
    valid: str | None = None
    """Validation file. Without it, `held_out` training examples, chosen by `seed`, are held out."""
    test: str | None = None
    text: Column | None = None
    """classify: the column of texts. None, here and below: as its name says."""
    pair: Column | None = None
    """classify: the column of second texts."""
    label: Column | None = None
    words: Column | None = None
    """tag: the column of words."""
    tags: Column | None = None
    context: Column | None = None
    """answer: the column of the texts that questions are about."""
    question: Column | None = None
    answers: Column | None = None
    start: Column | None = None
    """answer: the column of the index of an answer's first character, if it is not in `answers`."""
    header: bool | None = None
    """Whether the first line of a CSV or TSV file has the names of its columns. None: found out."""
    held_out: int = Field(default=500, ge=1)
    on_bad: OnBad = "stop"
    longest: int | None = Field(default=None, ge=16)
    """The most tokens of an input. None: as many as the model can read."""
    overlap: int = Field(default=64, ge=0)
    """tag, answer: how many tokens two neighbouring windows of a longer text share."""
    unanswerable: bool = False
    """answer: whether a question may have no answer in its context."""
    seed: int = 0


class TableData(Config, ReadsTables):
    """Rows of a table of numbers and categories, with a column to predict from the others."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("target",)
    example_type: ClassVar[ExampleType] = "rows"
    kind: Literal["table"] = "table"
    train: str
    """A CSV or TSV file, plain or `.gz`, whose first line has the names of its columns."""
    target: Column | None = None
    """The column that is predicted. None: the one called target, label, class or y."""
    predict: Literal["classes", "numbers"] | None = None
    """What the target is. None: classes if its cells are texts, or at most 20 whole numbers that
    have five rows each on average; else numbers."""
    inputs: tuple[Column, ...] = ()
    """The columns that are read. None named: all others, except those that number the rows."""
    leave_out: tuple[Column, ...] = ()
    """Columns that are not read."""
    categories: tuple[Column, ...] = ()
    """Columns whose numbers are names of categories, such as postcodes. Columns of texts are
    categories anyway."""
    header: bool | None = None
    """Whether the first line has the names of the columns; `false`: columns are named by their
    numbers. None: it has them, and must have no numbers."""
    valid: str | None = None
    """Validation file. Without it, `held_out` training rows, chosen by `seed`, are held out."""
    test: str | None = None
    held_out: int = Field(default=500, ge=1)
    """How many rows to hold out for validation, at most a tenth. Copies of a row stay in one split.
    """
    held_out_test: int = Field(default=0, ge=0)
    """Without `test`, this many training rows are held out as the test split."""
    on_bad: OnBad = "stop"
    """What to do with rows that have an empty cell, or a text in a column of numbers."""
    seed: int = 0


class ImageData(Config):
    """The keys that all datasets of images share: how training images are changed at random.

    Each change is a pure function of (seed, epoch, image). `regard/data/images/changes.py` and
    `regard/data/images/randaugment.py` compute them.
    """

    example_type: ClassVar[ExampleType] = "pictures"
    shift: int = Field(default=0, ge=0, le=512)
    """Shift by up to this many pixels in each direction; pixels of the edge are repeated."""
    crop: float = Field(default=1.0, gt=0, le=1)
    """Cut out a part of the image and scale it to the whole size; this is the smallest share of the
    area, 1 turns it off."""
    flip: bool = False
    """Mirror every second image from left to right."""
    colour: float = Field(default=0.0, ge=0, le=1)
    """Change brightness, contrast and saturation, each by a factor of 1 - colour to 1 + colour."""
    randaugment: int = Field(default=0, ge=0, le=10)
    """The number of random operations of RandAugment (Cubuk et al. 2019) on each image."""
    magnitude: float = Field(default=9.0, ge=0, le=30)
    """How strong the operations of RandAugment are."""
    erase: float = Field(default=0.0, ge=0, le=1)
    """The share of images in which a random rectangle is erased (Zhong et al. 2017)."""
    mixup: float = Field(default=0.0, ge=0, le=10)
    """Above 0: blend each image and its class with another image, with a weight drawn from
    Beta(mixup, mixup) (Zhang et al. 2018)."""
    cutmix: float = Field(default=0.0, ge=0, le=10)
    """Above 0: paste a rectangle of another image into each image; its share of the area is drawn
    from Beta(cutmix, cutmix) (Yun et al. 2019). With `mixup`, too, each image gets one of them."""
    workers: Literal[0, 1] = 1
    """1: a thread beside the training prepares the next batches; 0: the training waits for each.
    The batches are the same."""


class DigitsData(ImageData):
    """1,797 handwritten digits of 8 x 8 pixels, included in the package (UCI, CC BY 4.0)."""

    kind: Literal["digits"] = "digits"
    fold: int = Field(default=0, ge=0, le=4)
    """Which fifth is the test split, with an equal share of each class. A tenth of the rest is the
    validation split."""
    augment: float = Field(default=0.5, ge=0, le=1)
    """How strongly training images are shifted, rotated, scaled and made thicker or thinner; 0: not
    at all."""


class ImagesData(ImageData, ReadsTables):
    """Your own images with classes, from a folder or a file."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("image", "label", "caption")
    kind: Literal["images"] = "images"
    folder: str | None = None
    """A folder with a folder of images for each class, or with `train`, `valid` and `test` folders
    that have such folders; or the folder of IDX files."""
    file: str | None = None
    """A `.csv`, `.tsv`, `.jsonl` or `.parquet` file of paths (relative to it) and labels, or a
    folder that `datasets` wrote; an `.npz` file of images and labels; an IDX file; or a `.tar` or
    `.zip` archive of a folder of folders."""
    image: Column | None = None
    """The column of paths or images in a table. None: as its name says."""
    label: Column | None = None
    caption: Column | None = None
    outputs: tuple[Column, ...] = ()
    """predict: the columns of the numbers to predict in a table. None named: all columns but those
    of paths, splits and row numbers."""
    together: bool = True
    """All captions of an image are in one batch, so that it is encoded once for them; `false`: each
    caption is an example of its own, in any batch."""
    header: bool | None = None
    """Whether the first line of a CSV or TSV file has the names of its columns. None: found out."""
    valid: str | None = None
    """Validation images: a folder or file as above. Without it, and without a validation split in
    the data, `held_out` training images, chosen by `seed`, are held out."""
    test: str | None = None
    """Test images: a folder or file as above."""
    held_out: int = Field(default=500, ge=1)
    """How many images to hold out for validation, at most a tenth. Images with the same pixels stay
    in one split."""
    held_out_test: int = Field(default=0, ge=0)
    """Without test images, this many training images are held out as the test split."""
    names: tuple[str, ...] = ()
    """Names of the classes 0, 1, … of labels that are numbers."""
    normalise: Literal["data", "half"] = "data"
    """What is subtracted from pixels (from 0 to 1), and what they are divided by: mean and standard
    deviation of each channel in the training images, or 0.5 and 0.5."""
    scaling: Literal["whole", "object"] = "whole"
    """`object`: what stands on a plain background is cropped and put light on dark, as the images
    of Fashion-MNIST; of one channel. An image of the model's own size is left as it is."""
    on_bad: OnBad = "skip"
    """What to do with files that are no whole images: `skip` and count them, or `stop`."""
    seed: int = 0

    @model_validator(mode="after")
    def _check_one_source(self) -> ImagesData:
        """Check that either a folder or a file is named."""
        if (self.folder is None) == (self.file is None):
            raise ValueError("kind: images needs folder: FOLDER or file: FILE, one of them")
        return self


class ScenesData(ImageData):
    """Drawn scenes: shapes of a colour, a size and a place, with captions, masks and positions."""

    kind: Literal["scenes"] = "scenes"
    pairs: int = Field(default=10_000, ge=1, le=MOST_PAIRS)
    """How many training scenes to draw."""
    held_out: int = Field(default=500, ge=1, le=MOST_PAIRS)
    """How many scenes to draw for the validation split and for the test split."""
    objects: int = Field(default=2, ge=1, le=3)
    """The most objects of a scene; the first one is the largest."""
    label: Literal["shape", "colour", "object", "count", "relation"] = "shape"
    """The class of a scene: of its largest object the shape, the colour, or both (`red circle`);
    the number of objects; or where the largest is, seen from the second (`left of`)."""
    style: Literal["plain", "varied"] = "plain"
    """`varied`: the same scenes as people draw them in other programs: other values of each colour,
    white or tinted grounds, stretched shapes, outlines, jagged edges."""
    unseen: int = Field(default=0, ge=0, le=30)
    """How many of the 42 kinds, a colour and a shape, no training or validation scene has; each
    test scene has at least one of them."""
    unseen_pairs: float = Field(default=0.0, ge=0, le=0.5)
    """The share of the pairs of kinds that stand together in test scenes alone; each test scene has
    at least one such pair."""
    normalise: Literal["data", "half"] = "half"
    seed: int = 0


class TissueData(ImageData):
    """Drawn tissue: cells of five types in clusters, with numbers that they decide, as of genes."""

    kind: Literal["tissue"] = "tissue"
    pairs: int = Field(default=4000, ge=1, le=MOST_PAIRS)
    """How many training images to draw."""
    held_out: int = Field(default=500, ge=1, le=MOST_PAIRS)
    """How many images to draw for the validation split and for the test split."""
    genes: int = Field(default=30, ge=1, le=306)
    """How many numbers an image has: each is ln(1 + a·n + b·p) of its cells n by type and of its
    pairs p of neighbours by types, with weights of its own that no seed changes."""
    normalise: Literal["data", "half"] = "data"
    seed: int = 0


class PartData(Config, ReadsTables):
    """One dataset of pairs in a mixture."""

    COLUMNS: ClassVar[tuple[str, ...]] = FileData.COLUMNS
    kind: Literal["files", "grammar", "pronouns", "summaries", "questions"] = "files"
    """The origin of the pairs: `files`, or a generator: `grammar` for translations, `pronouns` for
    translations of "it" by what it stands for, `summaries` for reports with a one-sentence summary,
    `questions` for remarks that are toxic or not (yes, no)."""
    train: Files | None = None
    """files: the training file, as with `kind: files`."""
    pairs: int = Field(default=60_000, ge=1, le=MOST_PAIRS)
    """Generators: how many training pairs to generate."""
    valid: Files | None = None
    """Validation file. Without it, some training pairs are held out, as with `kind: files`."""
    test: Files | None = None
    source: Column | None = None
    """files: the column of sources, as with `kind: files`."""
    target: Column | None = None
    header: bool | None = None
    """Whether the first line of a CSV or TSV file has the names of its columns. None: found out."""
    prefix: str = ""
    """The instruction put before each source, such as `translate to German: `."""
    weight: float = Field(default=1.0, gt=0)
    """Its share of the training pairs, relative to the weights of the other parts."""
    unpunctuated: float = Field(default=0.0, ge=0, le=1)
    """The share of its training pairs whose final punctuation (. ! ?) is removed on both sides, so
    that the model learns to read what people type."""
    lowercase: float = Field(default=0.0, ge=0, le=1)
    """The share of its training pairs whose source is in lower case; the target stays as it is."""

    @model_validator(mode="after")
    def _check_files_of_kind(self) -> PartData:
        """Check that files are named if, and only if, the part is read from files."""
        if self.kind == "files" and self.train is None:
            raise ValueError("a part of kind: files needs train: FILE")
        if self.kind != "files" and (self.train or self.valid or self.test):
            raise ValueError(f"a part of kind: {self.kind} is generated and takes no files")
        return self


Parts = dict[str, PartData]
"""The parts of a mixture, by name."""


class MixtureData(Config):
    """Several text-to-text tasks, mixed in given proportions (T5)."""

    example_type: ClassVar[ExampleType] = "pairs"
    kind: Literal["mixture"] = "mixture"
    parts: Parts = Field(min_length=1)
    held_out: int = Field(default=500, ge=1, le=MOST_PAIRS)
    """How many training pairs of each part without `valid` are held out for validation."""
    held_out_test: int = Field(default=0, ge=0)
    """How many training pairs of each part without `test` are held out as its test split."""
    group: Group = "pair"
    on_bad: OnBad = "stop"
    max_words: int = Field(default=250, ge=1)
    seed: int = 0


class NoData(Config):
    """No dataset: for a model whose weights were imported."""

    example_type: ClassVar[ExampleType] = "nothing"
    kind: Literal["none"] = "none"


DataConfig = Annotated[
    GrammarData
    | ToyData
    | FileData
    | TextData
    | PythonData
    | LabelledData
    | TableData
    | DigitsData
    | ImagesData
    | ScenesData
    | TissueData
    | MixtureData
    | NoData,
    Field(discriminator="kind"),
]
DATA_KINDS: dict[str, type[Config]] = {
    kind: config
    for config in get_args(get_args(DataConfig)[0])
    for kind in get_args(config.model_fields["kind"].annotation)
}
"""The config of each `data.kind`."""
