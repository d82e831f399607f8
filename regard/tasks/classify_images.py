"""Classification of images: images with a class -> loss, accuracy, classes.

This is the task `classify` for models that read images. Images come in as paths, bytes, Pillow
images or arrays; the model's image reader converts them to pixels of the model's size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from threading import Lock
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch, Cursor, epochs
from regard.data.config import ALL_FOUND, Columns, ImageData
from regard.data.images.augment import augment
from regard.data.images.changes import change_batch
from regard.data.images.labelled_images import ImageSplits, LabelledImages, statistics
from regard.data.images.sources import load_images, read_images, sort_classes
from regard.data.order import equal_length_batches, training_batches
from regard.data.seen import Seen
from regard.data.synthetic.digits import SIDE
from regard.data.text.windows import OnShare
from regard.errors import InputError
from regard.inputs.arrays import Dense, Ragged
from regard.inputs.images.opening import display_image
from regard.inputs.images.reader import ImageReader
from regard.inputs.processor import Processor
from regard.inputs.reader import Encoded
from regard.inputs.text.bloom import Keys
from regard.inputs.text.items import kind_of
from regard.layers import Tap
from regard.models.image_encoder import ImageEncoder
from regard.models.mode import evaluating
from regard.runtime.cores import parallel_map
from regard.runtime.prefetch import prefetch
from regard.tasks.base_task import BaseTask, Prepared, Settings, loss_unit, spread
from regard.tasks.encoder_task import TOKENS_AT_ONCE
from regard.tasks.labelled_task import LabelledTask, class_loss, label_indices, logits_loss
from regard.tasks.measures.accuracy import Measures, class_scores
from regard.tasks.measures.report import ExampleSet, Selection
from regard.tasks.picture_traces import cell_words, classifier, dense_records, image_grid
from regard.tasks.teacher import Teacher
from regard.tasks.trace import Classified, Trace


@dataclass(frozen=True)
class ImageOptions:
    """How images are batched, augmented and learned from."""

    head: Any = None
    """The config of the model's head; None if nothing is to be trained."""
    tokens: int = 1
    """The number of tokens of an image."""
    batch_tokens: int = 4096
    smoothing: float = 0.0
    augment: float = 0.0
    """How strongly digits are changed."""
    data: ImageData = field(default_factory=ImageData)
    """The data of the recipe: how images are augmented, and by how many workers."""
    seed: int = 0
    least: int = 1
    """The fewest images of a batch."""


class ClassifyImages(LabelledTask[Any]):
    """Image classification: training, evaluation and prediction.

    Args:
        processor: Holds the model's image reader.
        train: Training images; None if nothing is to be trained.
        valid: Validation images.
        options: How images are learned from.
    """

    noun = "training images"
    items = "images"
    scored = "images"
    example_type = "pictures"
    file_option = "--data FILE, with paths and classes"
    example_command = "classify {} YOUR_IMAGE.png"
    effect = loss_unit("image")
    unit = "images"

    def __init__(
        self,
        processor: Any,
        train: LabelledImages | None = None,
        valid: LabelledImages | None = None,
        options: ImageOptions | None = None,
    ) -> None:
        BaseTask.__init__(self, processor)
        self.train, self.valid = train, valid
        self.options = options or ImageOptions()
        self.least = self.options.least
        self.teacher: Teacher | None = None

    @property
    def reader(self) -> ImageReader:
        """The image reader of the model."""
        reader: Any = self.vocabulary.source
        return reader

    @classmethod
    def for_trained_model(cls, settings: Settings, vocabulary: Any) -> Self:
        """Builds the task for a trained model: its image reader, no data."""
        del settings
        return cls(vocabulary)

    def unknown(self, examples: LabelledImages) -> None:
        """None: images have no words."""

    def read(self, model: ImageEncoder, items: Sequence[Any], **_: Any) -> list[Encoded]:
        """Reads images: paths, bytes, Pillow images or arrays."""
        del model
        return self.reader.read(items)

    def lengths(self, model: ImageEncoder, encoded: Sequence[Encoded]) -> list[int]:
        """The number of tokens of each image."""
        return [model.config.max_length] * len(encoded)

    def learn_from(self, teacher: Teacher) -> None:
        """Sets a teacher, whose answers become a part of the loss.

        Raises:
            InputError: The teacher has other classes.
        """
        teacher.check(self.options.head.classes)
        self.teacher = teacher

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
            expected = "images, scenes, tissue or digits, for a model of images"
            raise InputError("data.kind", got=data.kind, expected=expected)
        reader = _reader_for(data, model) if processor is None else processor.source
        splits = cls.read_splits(data, reader)
        if processor is None:
            if getattr(data, "normalise", "half") == "data":
                mean, std = statistics(splits.train.values)
                reader = reader.model_copy(update={"mean": mean, "std": std})
            processor = Processor(reader)
        completed = cls.completed(model, data, splits.train)
        _check_batches(completed, train.batch_tokens, len(splits.train))
        options = ImageOptions(
            head=completed.head,
            tokens=completed.max_length,
            batch_tokens=train.batch_tokens,
            smoothing=train.label_smoothing,
            augment=getattr(data, "augment", 0.0),
            data=data,
            seed=settings.seed,
            least=completed.least_examples,
        )
        task = cls(processor, splits.train, splits.valid, options)
        seen = Seen.of("images", splits.train.keys(), len(splits.train))
        return Prepared(processor, task, splits.checksums, completed, seen)

    @staticmethod
    def read_splits(data: Any, reader: ImageReader) -> ImageSplits:
        """The training, validation and test images of a data config."""
        return load_images(data, reader)

    @staticmethod
    def completed(model: Any, data: Any, train: LabelledImages) -> Any:
        """The model's config with the classes: its own, those of the data, or those of images."""
        classes = model.classes or getattr(data, "names", ()) or sort_classes(train.labels)
        return model.changed(classes=classes)

    @staticmethod
    def targets_of(images: LabelledImages, head: Any) -> Tensor:
        """The index of each image's class, (images,)."""
        return torch.tensor(label_indices(head.classes, images.labels))

    @staticmethod
    def mixed(
        targets: Tensor, partners: Tensor, share: Tensor, head: Any
    ) -> tuple[Tensor, Tensor | None]:
        """The targets of images that are mixed with others, and the shares of their classes.

        Args:
            targets: Those of the images.
            partners: Those of the images that they are mixed with.
            share: (images, 1) The share λ of an image itself.
            head: The config of the model's head.

        Returns:
            The targets, and λ e_own + (1 - λ) e_partner: (images, classes).
        """
        count = len(head.classes)
        return targets, share * F.one_hot(targets, count) + (1 - share) * F.one_hot(partners, count)

    def batches(self, start: Cursor) -> Iterator[tuple[Batch[Dense], Cursor]]:
        """Yields training batches without end; their order depends only on seed and epoch."""
        options, train = self.options, self.train
        seed, head = options.seed, options.head
        if not train:
            raise InputError("training", got="no images", expected="some to learn from")
        targets = self.targets_of(train, head)

        def augment_digits(pixels: Any, index: Sequence[int], epoch: int) -> Any:
            """Digits (images, ...) distorted at random, in each epoch differently."""
            digits = torch.from_numpy(pixels)
            return augment(digits, index, seed, epoch, options.augment).numpy()

        def make(index: list[int], epoch: int) -> Batch[Dense]:
            """The batch of the images of some indices, augmented for an epoch."""
            change = augment_digits if options.augment else None
            mean = self.reader.mean
            changed = change_batch(train.values, index, options.data, seed, epoch, mean, change)
            source = Dense(self.reader.normalised(torch.from_numpy(changed.pixels)))
            labels, shares = targets[index], None
            if changed.partners is not None and changed.shares is not None:
                share = torch.from_numpy(changed.shares)[:, None]  # (images, 1)
                labels, shares = self.mixed(labels, targets[changed.partners], share, head)
            return Batch(source, Ragged(labels, (1,) * len(index)), tuple(index), shares=shares)

        lengths = [options.tokens] * len(train)
        plan = partial(training_batches, lengths, options.batch_tokens, seed, least=options.least)
        batches = epochs(plan, make, start)
        return prefetch(batches) if options.data.workers else batches

    def targets(self, batch: Batch[Dense]) -> int:
        """The number of images in a batch: each has one class."""
        return len(batch.index)

    def loss(self, model: ImageEncoder, batch: Batch[Dense]) -> Tensor:
        """Cross-entropy of the classes with label smoothing, summed over the images: a scalar.

        With a teacher (1 - λ) of it, and λ of the loss to the teacher (DeiT, equations 2 and 3).
        """
        teacher, smoothing = self.teacher, self.options.smoothing
        if teacher is None:
            return class_loss(model, batch, smoothing)
        logits, distilled_logits = model.class_logits(batch.source)  # (images, classes) each
        loss = logits_loss(logits, batch, smoothing)
        teacher_loss = teacher.loss(distilled_logits, batch.source, self.reader)
        return (1 - teacher.weight) * loss + teacher.weight * teacher_loss

    def measure(
        self, model: ImageEncoder, examples: LabelledImages, on_progress: OnShare | None = None
    ) -> Measures:
        """Mean loss (without smoothing), accuracy and macro-averaged F1, and scores per class."""
        model.require_head("classes")
        if not len(examples):
            raise InputError("images", got="none", expected="some, with classes")
        classes = model.config.head.classes
        labels = torch.tensor(label_indices(classes, examples.labels))
        with evaluating(model):
            batches = self.labelled_batches(model, examples)
            parts = [batch.source.to(model.device) for batch in batches]
            shares, lock = accumulate([1 / len(parts)] * len(parts)), Lock()

            def classify(part: Dense) -> Tensor:
                logits: Tensor = model.classify(part)
                if on_progress is not None:
                    with lock:  # several threads classify; shares are reported in their order
                        on_progress(next(shares))
                return logits

            logits = torch.cat(parallel_map(classify, parts)).cpu()  # (images, classes)
        loss = float(F.cross_entropy(logits, labels))
        predicted = [classes[best] for best in logits.argmax(1).tolist()]
        scores = class_scores(examples.labels, predicted, classes)
        return scores.with_loss(loss)

    def labelled_batches(
        self, model: ImageEncoder, examples: LabelledImages
    ) -> Iterator[Batch[Dense]]:
        """Batches of images with their classes, in their order."""
        if not isinstance(examples, LabelledImages):
            raise InputError("images", got=kind_of(examples), expected="images with their classes")
        targets = self.targets_of(examples, model.config.head)
        for rows in equal_length_batches([model.config.max_length] * len(examples), TOKENS_AT_ONCE):
            source = Dense(self.reader.normalised(torch.from_numpy(examples.values[rows])))
            yield Batch(source, Ragged(targets[rows], (1,) * len(rows)), tuple(rows))

    def load(self, data: Any) -> ImageSplits:
        """The training, validation and test images of a data config."""
        return self.read_splits(data, self.reader)

    def load_file(self, file: str, data: Any, columns: Columns = ALL_FOUND) -> LabelledImages:
        """The images of a folder, an archive or a table of paths (relative to it) and classes."""
        names = getattr(data, "names", ())
        return read_images(file, self.reader, names, columns=columns, for_tests=True)

    def example_sets(self, settings: Settings, selection: Selection) -> dict[str, ExampleSet]:
        """The selected images, without files that are no images."""
        sets = self.examples(settings, selection)
        return {
            name: ExampleSet(images).without(images, "that cannot be read", images.skipped)
            for name, images in sets.items()
        }

    def limited(self, examples: LabelledImages, limit: int) -> LabelledImages:
        """At most `limit` images, evenly spread over a set."""
        return examples.take(spread(len(examples), limit))

    def keys(self, examples: LabelledImages, seen: Seen) -> Iterator[Keys] | None:
        """The keys of the images' pixels."""
        return examples.keys() if seen.unit == "images" else None

    def sources(self, model: ImageEncoder, images: Any) -> Iterator[Dense]:
        """Images, or examples with their classes, as batches of the model's input."""
        if isinstance(images, LabelledImages):
            return (batch.source for batch in self.labelled_batches(model, images))
        if not isinstance(images, Iterable) or isinstance(images, str | bytes | Mapping):
            raise InputError("images", got=kind_of(images), expected="a list of images or paths")
        images = list(images)
        batches = equal_length_batches([model.config.max_length] * len(images), TOKENS_AT_ONCE)
        return (self.reader.collate(self.reader.read([images[i] for i in b])) for b in batches)

    def traced_answer(
        self, model: ImageEncoder, source: Dense, tap: Tap
    ) -> tuple[str | None, str, Classified | None]:
        """The class of one image, a remark on it, and the classifier, all for `trace`."""
        if not model.config.head.classes:
            model.hidden(source, tap)
            return None, "", None
        [probabilities] = model.classify(source, tap).softmax(dim=1)
        probability, best = probabilities.max(dim=0)
        label = model.config.head.classes[int(best)]
        note = f"It is read as {label}, with a probability of {float(probability):.3f}."
        return label, note, classifier(model, source, tap.edits)

    def trace(self, model: ImageEncoder, item: Any, tap: Tap, **_: Any) -> Trace:
        """Reads one image, and returns what the tap records and what is predicted."""
        [encoded] = self.reader.read([item])
        source, pixels = self.reader.collate([encoded]).to(model.device), encoded.values
        with evaluating(model):
            label, note, classified = self.traced_answer(model, source, tap)
        picture = image_grid(
            model, source, pixels, lambda: np.asarray(display_image(item)), tap.layouts
        )
        weights = dense_records(model, model.embed.layout(source), tap)
        return Trace(weights, cell_words(picture), label, note, picture, classified)


def _reader_for(data: Any, model: Any) -> ImageReader:
    """The reader of a new model: images are scaled to the model's size.

    Raises:
        InputError: The digits have another size than the model's.
    """
    (height, width), channels = model.image, model.channels
    half, scaling = (0.5,) * channels, getattr(data, "scaling", "whole")
    if data.kind == "digits":
        scaling = "ink"
        if (height, width, channels) != (SIDE, SIDE, 1):
            got = f"{height} x {width}, {channels} channels"
            raise InputError("model.image", got=got, expected=f"{SIDE} x {SIDE}, 1 channel")
    elif scaling == "object" and channels != 1:
        raise InputError("data.scaling: object", got="model.channels: 3", expected="1")
    return ImageReader(
        height=height, width=width, channels=channels, mean=half, std=half, scaling=scaling
    )


def _check_batches(model: Any, batch_tokens: int, images: int) -> None:
    """Refuses batches of fewer images than the model can learn from.

    Raises:
        InputError: The budget or the training split has room for fewer images.
    """
    least, (height, width) = model.least_examples, model.image
    if least == 1:
        return
    why = f"its batch norm cannot learn from one image of {height} x {width}"
    if batch_tokens < least * model.max_length:
        got = f"{batch_tokens}, which is one image for family {model.family}"
        expected = f"at least {least * model.max_length}: {least} images"
        fix = f"{why}; raise train.batch_tokens, or take a larger model.image"
        raise InputError("train.batch_tokens", got=got, expected=expected, fix=fix)
    if images < least:
        raise InputError("training images", got=images, expected=f"at least {least}", fix=why)
