"""Numbers of images, such as the activity of genes in a slice of tissue: loss, R² and RMSE.

This is the task `predict` for models that read images. Images are read, batched and changed as for
classification; their targets are the numbers of a table, or those of drawn tissue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from regard.data.config import ALL_FOUND, Columns
from regard.data.images.labelled_images import ImageSplits, LabelledImages
from regard.data.images.numbered import numbers_in
from regard.data.images.sources import load_images, read_images
from regard.data.text.columns import names_text
from regard.data.text.roles import fold
from regard.data.text.windows import OnShare
from regard.errors import InputError
from regard.inputs.arrays import Dense
from regard.inputs.images.reader import ImageReader
from regard.inputs.processor import Processor
from regard.layers import Tap
from regard.models.image_encoder import ImageEncoder
from regard.tasks.base_task import Prepared, Settings
from regard.tasks.classify_images import ClassifyImages, ImageOptions
from regard.tasks.measures.accuracy import Measures
from regard.tasks.predict import PredictTask, in_units, number_targets, with_numbers
from regard.tasks.predictions import predicted_numbers
from regard.tasks.teacher import Teacher
from regard.tasks.trace import Classified

MOST_SAID = 3
"""`look` says at most so many numbers of an image."""


class PredictImages(PredictTask, ClassifyImages):
    """Numbers of images: training, evaluation and prediction.

    Args:
        processor: Holds the model's image reader.
        train: Training images with numbers; None if nothing is to be trained.
        valid: Validation images with numbers.
        options: How images are learned from.
    """

    file_option = "--data FILE, with paths and numbers"
    example_command = "predict {} YOUR_IMAGE.png"

    @classmethod
    def prepare(cls, settings: Settings, processor: Processor | None = None) -> Prepared:
        """Reads the images of a recipe with their numbers, of which the model gets a head.

        Args:
            settings: The recipe.
            processor: The processor of a resumed run or of the pretrained model; None: make one.

        Raises:
            InputError: The data has no numbers.
        """
        kind = settings.data.kind
        if kind not in ("images", "tissue"):
            raise InputError("data.kind", got=kind, expected="images or tissue, for numbers")
        return super().prepare(settings, processor)

    @classmethod
    def for_trained_model(cls, settings: Settings, vocabulary: Any) -> Self:
        """Builds the task for a trained model: its image reader and head, no data."""
        model: Any = settings.model
        return cls(vocabulary, options=ImageOptions(head=model.head))

    def learn_from(self, teacher: Teacher) -> None:
        """Refuses a teacher: it has classes.

        Raises:
            InputError: Always.
        """
        del teacher
        raise InputError("train.teacher", got="task: predict", expected="task: classify")

    @staticmethod
    def read_splits(data: Any, reader: ImageReader) -> ImageSplits:
        """The training, validation and test images of a data config, with their numbers."""
        return load_images(data, reader, numbers=True)

    @staticmethod
    def completed(model: Any, data: Any, train: LabelledImages) -> Any:
        """The model's config with a head for the numbers of the training images.

        Raises:
            InputError: There is no training image, or the model has other numbers.
        """
        del data
        if train.numbers is None:
            raise InputError("training images", got="none", expected="some, with numbers")
        if model.numbers and model.numbers != train.outputs:
            expected = f"{names_text(train.outputs)}, as in the data"
            raise InputError("model.numbers", got=names_text(model.numbers), expected=expected)
        return with_numbers(model, train.outputs, train.numbers)

    @staticmethod
    def targets_of(images: LabelledImages, head: Any) -> Tensor:
        """The standardised numbers of each image, (images, numbers)."""
        numbers = in_order(images, head.numbers).numbers
        assert numbers is not None, "images with numbers are read with them"
        return number_targets(head, numbers).values

    @staticmethod
    def mixed(
        targets: Tensor, partners: Tensor, share: Tensor, head: Any
    ) -> tuple[Tensor, Tensor | None]:
        """The numbers of images that are mixed: λ z_own + (1 - λ) z_partner, (images, numbers)."""
        del head
        return share * targets + (1 - share) * partners, None

    def load_file(self, file: str, data: Any, columns: Columns = ALL_FOUND) -> LabelledImages:
        """The images of a table of paths, relative to it, and of the model's numbers.

        Raises:
            InputError: A number that the model predicts has no column.
        """
        del data
        names = self.options.head.numbers
        columns_of_file = numbers_in(file, columns)
        missing = [name for name in names if fold(name) not in map(fold, columns_of_file)]
        if missing:
            what = f"{file}: columns of numbers"
            expected = f"{names_text(missing)}, too, which the model predicts"
            raise InputError(what, got=names_text(columns_of_file), expected=expected)
        return read_images(file, self.reader, columns=columns, for_tests=True, outputs=names)

    def measure(
        self, model: Any, examples: LabelledImages, on_progress: OnShare | None = None
    ) -> Measures:
        """Mean loss, R² and RMSE of the numbers, and those of each number."""
        if len(examples):
            examples = in_order(examples, model.config.head.numbers)
        return super().measure(model, examples, on_progress)

    def items_in(self, argument: Any, skip: Callable[[str], None]) -> list[Any] | None:
        """The images of a folder; None: the argument is an image itself."""
        if not isinstance(argument, str | Path):
            return None
        return super().items_in(str(argument), skip)

    def traced_answer(
        self, model: ImageEncoder, source: Dense, tap: Tap
    ) -> tuple[str | None, str, Classified | None]:
        """No class of an image, but a remark on its first numbers."""
        head = model.config.head
        z = model.standardised_numbers(source, tap).cpu()
        rows = torch.from_numpy(in_units(head, z))[:, :MOST_SAID].tolist()
        [prediction] = predicted_numbers(rows, head.numbers[:MOST_SAID])
        more = len(head.numbers) - MOST_SAID
        also = f", and {more} more numbers" if more > 0 else ""
        name = f"{head.numbers[0]} " if len(head.numbers) == 1 else ""
        return None, f"Predicted: {name}{prediction.line().replace('  ', ', ')}{also}.", None


def in_order(images: LabelledImages, names: tuple[str, ...]) -> LabelledImages:
    """The images with the numbers of these names, in this order.

    Raises:
        InputError: They do not have one of them.
    """
    if images.numbers is None:
        raise InputError("images", got="none with numbers", expected=names_text(names))
    missing = next((name for name in names if name not in images.outputs), None)
    if missing is not None:
        what = f"the numbers of these images lack {missing!r}, which the model predicts"
        raise InputError(what, got=names_text(images.outputs), expected=names_text(names))
    if images.outputs == names:
        return images
    columns = [images.outputs.index(name) for name in names]
    return replace(images, numbers=images.numbers[:, columns], outputs=names)
