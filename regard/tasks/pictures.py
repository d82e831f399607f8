"""Classification of images: images with a class -> loss, accuracy, classes.

This is the task `classify` for models that read images. Images come in as paths, bytes, Pillow
images or arrays; the model's image reader converts them to pixels of the model's size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch, Cursor, epochs
from regard.data.images.augment import augmented
from regard.data.images.digits import CLASSES, SIDE, Pictures, splits
from regard.data.images.reader import ImageReader
from regard.data.input import Dense, Ragged
from regard.data.order import training_batches
from regard.data.text.labelled import read_labelled
from regard.errors import InputError
from regard.layers import Tap
from regard.models.image_encoder import ImageEncoder
from regard.models.mode import evaluating
from regard.runtime.cores import parallel_map
from regard.tasks.head_batches import HeadBatch, of_texts
from regard.tasks.labelled import numbered
from regard.tasks.measures.accuracy import Measures, class_scores
from regard.tasks.measures.labelled import LabelledReport
from regard.tasks.measures.report import Scoring, Selection
from regard.tasks.reader import TOKENS_AT_ONCE, Labelled, likeliest, vectors_of
from regard.tasks.task import BaseTask, Prepared, Settings, rise
from regard.tasks.trace import Picture, Trace, firsts
from regard.tasks.verbs import Closeness
from regard.tokens.processor import Processor


@dataclass(frozen=True)
class PictureOptions:
    """How images are batched, augmented and learned from."""

    classes: tuple[str, ...] = ()
    tokens: int = 1
    """The number of tokens of an image."""
    batch_tokens: int = 4096
    smoothing: float = 0.0
    augment: float = 0.0
    seed: int = 0


class ClassifyPictures(BaseTask):
    """Image classification: training, evaluation and prediction.

    Args:
        processor: Holds the model's image reader.
        train: Training images; None if nothing is to be trained.
        valid: Validation images.
        options: How images are learned from.
    """

    noun = "training images"
    items = "images"
    example_command = "heads {}"
    effect = rise("image")
    unit = "images"

    def __init__(
        self,
        processor: Any,
        train: Pictures | None = None,
        valid: Pictures | None = None,
        options: PictureOptions | None = None,
    ) -> None:
        super().__init__(processor)
        self.reader: ImageReader = processor.source
        self.train, self.valid = train, valid
        self.options = options or PictureOptions()

    @classmethod
    def prepare(cls, settings: Settings, processor: Processor | None = None) -> Prepared:
        """Reads the images of a recipe, and determines the classes of the model.

        Args:
            settings: The recipe.
            processor: The processor of a resumed run or of the pretrained model; None: make one.

        Raises:
            InputError: The data holds no images, or images of another size than the model's.
        """
        data, train = settings.data, settings.train
        model: Any = settings.model
        if data.example_type != "pictures":
            raise InputError("data.kind", got=data.kind, expected="digits, for a model of images")
        if (model.image, model.channels) != ((SIDE, SIDE), 1):
            got = f"{model.image[0]} x {model.image[1]}, {model.channels} channels"
            raise InputError("model.image", got=got, expected=f"{SIDE} x {SIDE}, 1 channel")
        found = splits(data)
        if processor is None:
            reader = ImageReader(
                height=SIDE, width=SIDE, channels=1, mean=(0.5,), std=(0.5,), scaling="ink"
            )
            processor = Processor(reader)
        completed = model.model_copy(update={"classes": model.classes or CLASSES})
        options = PictureOptions(
            classes=completed.classes,
            tokens=completed.tokens,
            batch_tokens=train.batch_tokens,
            smoothing=train.label_smoothing,
            augment=data.augment,
            seed=settings.seed,
        )
        task = cls(processor, found.train, found.valid, options)
        return Prepared(processor, task, found.checksums, completed)

    def check(self, model: Any, item: Any, **options: Any) -> None:
        """Raises an error if a path or bytes are not an image."""
        del model, options
        self.reader.check(item)

    def batches(self, start: Cursor) -> Iterator[tuple[Batch[Dense], Cursor]]:
        """Yields training batches without end; their order depends only on seed and epoch."""
        options, train = self.options, self.train
        if not train:
            raise InputError("training", got="no images", expected="some to learn from")
        pixels = torch.from_numpy(train.values)
        wanted = torch.tensor(numbered(options.classes, train.labels))

        def make(index: list[int], epoch: int) -> Batch[Dense]:
            chosen = augmented(pixels[index], index, options.seed, epoch, options.augment)
            source = Dense(self.reader.normalised(chosen))
            return Batch(source, Ragged(wanted[index], (1,) * len(index)), tuple(index))

        lengths = [options.tokens] * len(train)
        plan = partial(training_batches, lengths, options.batch_tokens, options.seed)
        return epochs(plan, make, start)

    def targets(self, batch: Batch[Dense]) -> int:
        """The number of images in a batch: each has one class."""
        return len(batch.index)

    def loss(self, model: ImageEncoder, batch: Batch[Dense]) -> Tensor:
        """Cross-entropy of the classes with label smoothing, summed over the images: a scalar."""
        return F.cross_entropy(
            model.classify(batch.source),  # (images, classes)
            batch.targets.ids,
            reduction="sum",
            label_smoothing=self.options.smoothing,
        )

    def evaluate(self, model: Any) -> dict[str, float]:
        """Metrics on the validation images."""
        if self.valid is None:
            raise InputError("validation", got="no images", expected="some")
        return self.measure(model, self.valid).overall

    def measure(self, model: ImageEncoder, examples: Pictures) -> Measures:
        """Mean loss (without smoothing), accuracy and macro-averaged F1, and scores per class."""
        model.require_head("classes")
        classes = model.config.classes
        wanted = torch.tensor(numbered(classes, examples.labels))
        with evaluating(model):
            parts = [batch.source for batch in self._held(model, examples)]
            logits = torch.cat(parallel_map(model.classify, parts)).cpu()  # (images, classes)
        loss = float(F.cross_entropy(logits, wanted))
        found = [classes[best] for best in logits.argmax(1).tolist()]
        scores = class_scores(examples.labels, found, classes)
        return Measures({"loss": loss, **scores.overall}, scores.by_label)

    def _held(self, model: ImageEncoder, examples: Pictures) -> list[Batch[Dense]]:
        """Batches of images with their classes, in their order, on the model's device."""
        if not len(examples):
            raise InputError("images", got="none", expected="some, with classes")
        numbers = torch.tensor(numbered(model.config.classes, examples.labels))
        source = Dense(self.reader.normalised(torch.from_numpy(examples.values)))
        batches = (
            Batch(source.take(rows), Ragged(numbers[rows], (1,) * len(rows)), tuple(rows))
            for rows in _some(len(examples), model)
        )
        return [batch.to(model.device) for batch in batches]

    def examples(self, settings: Settings, selection: Selection) -> dict[str, Pictures]:
        """The selected images: of a list of files, of a split, or by default of the test split.

        Args:
            settings: The recipe.
            selection: The selection; `files` is a TSV or CSV of paths (relative to it) and classes.
        """
        if selection.files is not None and selection.split is not None:
            raise InputError("--data with --split", expected="one of the two")
        if selection.files is not None:
            return {selection.files: self._listed(Path(selection.files))}
        if settings.data.example_type != "pictures":
            got = f"{selection.model} without data"
            raise InputError(
                selection.verb, got=got, expected="--data FILE, with paths and classes"
            )
        found = splits(settings.data)
        known = {"train": found.train, "valid": found.valid, **found.tests}
        name = selection.split or "test"
        if name not in known:
            raise InputError("--split", got=name, expected=f"one of {', '.join(known)}")
        return {name: known[name]}

    def _listed(self, file: Path) -> Pictures:
        rows, _ = read_labelled(str(file), "classify")
        pixels = [self.reader.pixels(file.parent / row.text) for row in rows]
        return Pictures(np.stack(pixels), tuple(row.label for row in rows))

    def report(
        self, model: ImageEncoder, sets: Mapping[str, Pictures], scoring: Scoring
    ) -> LabelledReport:
        """Scores each set of images."""
        found = {}
        for done, (name, examples) in enumerate(sets.items()):
            scoring.on_progress(done / len(sets), name)
            found[name] = len(examples), self.measure(model, examples)
        return LabelledReport(found, {})

    def head_batches(self, model: ImageEncoder, examples: Pictures) -> list[HeadBatch]:
        """Batches of images with their classes on which heads are measured."""
        return [
            of_texts(model, batch.source, partial(self._loss, batch), self.targets(batch))
            for batch in self._held(model, examples)
        ]

    def _loss(self, batch: Batch[Dense], model: ImageEncoder) -> Tensor:
        return self.loss(model, batch)

    def classify(
        self, model: ImageEncoder, images: Sequence[Any], top: int | None = None
    ) -> list[list[Labelled]]:
        """The classes of each image, most probable first; at most `top` of them."""
        model.require_head("classes")
        shares = self._each(model, images, lambda part: model.classify(part).softmax(dim=1))
        return likeliest(model.config.classes, shares, top)

    def embed(
        self,
        model: ImageEncoder,
        images: Sequence[Any],
        pool: str = "mean",
        normalise: bool = True,
        near: Any = None,
        **_: Any,
    ) -> Any:
        """A vector for each image, (images, dim); or the similarity of each image to another.

        Args:
            model: The encoder.
            images: Paths, bytes, Pillow images or arrays.
            pool: `mean` averages the hidden states of an image, `cls` takes that of its first
                token.
            normalise: Whether to scale vectors to length 1, so that their dot product is the
                cosine.
            near: Another image; if given, the result is one `Closeness` per image, the dot product
                of its vector with that of `near`.
        """
        vectors = partial(vectors_of, model, pool=pool, normalise=normalise)
        found = self._each(model, images, vectors)
        if near is None:
            return found
        [other] = self._each(model, [near], vectors)
        closeness = (found @ other).tolist()
        return [Closeness(image, each) for image, each in zip(images, closeness, strict=True)]

    def _each(
        self, model: ImageEncoder, images: Sequence[Any], answer: Callable[[Dense], Tensor]
    ) -> Tensor:
        """Applies `answer` to all images in batches: (images, …), in their order, on the CPU."""
        parts = [self.reader.read([images[i] for i in rows]) for rows in _some(len(images), model)]
        with evaluating(model):
            return torch.cat(parallel_map(answer, [part.to(model.device) for part in parts])).cpu()

    def trace(self, model: ImageEncoder, image: Any, tap: Tap, **_: Any) -> Trace:
        """Reads one image, and returns what the tap records and the predicted class."""
        pixels = self.reader.pixels(image)
        source = Dense(self.reader.normalised(torch.from_numpy(pixels)[None])).to(model.device)
        written, note = None, ""
        with evaluating(model):
            if model.config.classes:
                [shares] = model.classify(source, tap).softmax(dim=1)
                share, best = shares.max(dim=0)
                written = model.config.classes[int(best)]
                note = f"It is read as {written}, with a probability of {float(share):.3f}."
            else:
                model.hidden(source, tap)
        layout = model.embed.layout(source)
        picture = Picture(pixels, model.config.grid, layout.first)
        words = picture.names, range(len(picture.names))
        return Trace(firsts(tap), {"encoder.self": (words, words)}, written, note, picture)


def _some(count: int, model: ImageEncoder) -> Iterator[list[int]]:
    """Yields the indices of the images of each batch."""
    size = max(1, TOKENS_AT_ONCE // model.config.tokens)
    return ([*range(first, min(count, first + size))] for first in range(0, count, size))
