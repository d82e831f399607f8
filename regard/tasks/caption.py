"""Captions: images with a text that says what they show -> loss, scores, captions.

Images come in as paths, bytes, Pillow images or arrays; out go training batches and the loss for
the trainer, exact match and BLEU for evaluation, captions for users, and for each word of a caption
the attention over the image's grid.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch, Cursor, epochs
from regard.data.config import ImageData
from regard.data.images.captioned import CaptionedImages
from regard.data.images.changes import change_batch
from regard.data.images.labelled_images import LabelledImages, statistics
from regard.data.images.sources import load_images, read_images
from regard.data.order import Batches, evaluation_batches, training_batches
from regard.data.seen import Seen
from regard.decode.config import DecodeConfig
from regard.decode.filters import Symbols
from regard.errors import InputError
from regard.inputs.arrays import Dense, Ragged
from regard.inputs.images.opening import display_image
from regard.inputs.images.reader import ImageReader, few_colours_of
from regard.inputs.processor import Processor
from regard.inputs.reader import Encoded
from regard.inputs.text import Tokenizer, TokensConfig
from regard.inputs.text.bloom import Keys
from regard.inputs.text.kinds import train as train_tokenizer
from regard.inputs.text.spelling import check_text
from regard.inputs.text.tokenizer import LEARNED
from regard.layers import Edit, Layout, Tap
from regard.models.captioner import Captioner
from regard.models.mode import evaluating
from regard.runtime.prefetch import prefetch
from regard.tasks.base_task import BaseTask, Prepared, Settings, max_lengths, spread
from regard.tasks.head_batches import HeadBatch, inputs_of, over_all_tokens
from regard.tasks.measures.captions import CaptionReport, CaptionScores, score_captions
from regard.tasks.measures.report import ExampleSet, Scoring, Selection, count_progress
from regard.tasks.picture_traces import cell_words, other_grids
from regard.tasks.trace import Captioned, ImageGrid, Trace, first_records
from regard.tasks.writing_task import Output, Result, WritingTask, check_length

FALSE_CAPTIONS = {
    "flip": "a mirrored image turns left into right, which its caption would not say",
    "mixup": "a caption cannot be blended with another",
    "cutmix": "a caption cannot be blended with another",
}
"""Changes of training images after which a caption is no longer true, and why."""
QUOTED = 40
"""A message quotes so many characters of a caption."""
MOST_LOOKED_AT = 5000
"""Training images of which colours are counted."""
DRAWING, MARGIN = 0.75, 0.06
"""Images are drawings if their four commonest colours have at least this share; and what an image
may have less than every training image."""


@dataclass(frozen=True)
class CaptionOptions:
    """How images and captions are batched, changed and learned from."""

    image_tokens: int = 1
    """The number of tokens that the model makes of an image."""
    batch_tokens: int = 4096
    smoothing: float = 0.0
    data: ImageData = field(default_factory=ImageData)
    """The data of the recipe: how images are changed, and by how many workers."""
    seed: int = 0


class Caption(WritingTask):
    """Captions of images: training, evaluation and prediction.

    Args:
        processor: Holds the model's image reader, and the tokenizer of its captions.
        train: Training images with captions; None if nothing is to be trained.
        valid: Validation images with captions.
        options: How they are learned from.
    """

    noun = "training images"
    items = "images"
    scored = "images"
    scoring = frozenset({"beam", "lowercase"})
    example_command = "caption {} YOUR_IMAGE.png"
    rows_at_once = 128  # captions are short

    def __init__(
        self,
        processor: Any,
        train: LabelledImages | None = None,
        valid: LabelledImages | None = None,
        options: CaptionOptions | None = None,
    ) -> None:
        self.options = options or CaptionOptions()
        BaseTask.__init__(self, processor, smoothing=self.options.smoothing)
        tokens = self.options.image_tokens
        self.train = None if train is None else self.encode(train, tokens)
        self.valid = None if valid is None else self.encode(valid, tokens)

    @classmethod
    def prepare(cls, settings: Settings, processor: Processor | None = None) -> Prepared:
        """Reads the images of a recipe, and learns a vocabulary from the training captions.

        A pretrained encoder comes with its reader; its captions' vocabulary is learned.

        Args:
            settings: The recipe.
            processor: The processor of a resumed run or of the pretrained model; None: make one.

        Raises:
            InputError: The data has no captions, changes images so that captions would be false, or
                has a caption longer than the model can write.
        """
        data, model = settings.data, settings.model
        _check_data(data)
        reader = _reader_for(model) if processor is None else processor.source
        tokenizer = None if processor is None else processor.target
        splits = load_images(data, reader, captions=True)
        for images in (splits.train, splits.valid):
            _check_captions(images, data.kind)
        if processor is None and data.normalise == "data":
            mean, std = statistics(splits.train.values)
            reader = reader.model_copy(update={"mean": mean, "std": std})
        if tokenizer is None:  # an encoder of drawings may now learn from photographs
            plainness = {"few_colours": 0.0, "ground": 0.0} | _plainness(splits.train.values)
            reader = reader.model_copy(update=plainness)
            texts = [text for captions in splits.train.captions for text in captions]
            tokenizer = _learn(texts, settings.tokens)
        processor = Processor(reader, tokenizer)
        options = CaptionOptions(
            image_tokens=model.max_length,
            batch_tokens=settings.train.batch_tokens,
            smoothing=settings.train.label_smoothing,
            data=data,
            seed=settings.seed,
        )
        task = cls(processor, splits.train, splits.valid, options)
        _check_lengths([task.train, task.valid], model.bound)
        seen = Seen.of("images", splits.train.keys(), len(splits.train))
        return Prepared(processor, task, splits.checksums, seen=seen)

    def encode(self, images: LabelledImages, image_tokens: int) -> CaptionedImages:
        """Encodes the captions of images to ids.

        Args:
            images: Images with captions.
            image_tokens: The number of tokens that the model makes of an image.
        """
        target: Tokenizer = self.vocabulary.target
        encoded = iter(target.encode_batch([*chain(*images.captions)]))
        return CaptionedImages(
            images,
            [[*islice(encoded, len(captions))] for captions in images.captions],
            image_tokens=image_tokens,
            begin=target.begin,
            end=target.end,
        )

    def batches(self, start: Cursor) -> Iterator[tuple[Batch[Any], Cursor]]:
        """Yields training batches without end; their order depends only on seed and epoch."""
        options, train = self.options, self.train
        if not train:
            raise InputError("training", got="no images", expected="some to learn from")

        def make(index: list[int], epoch: int) -> Batch[Any]:
            """The batch of the examples of some indices, its images changed for an epoch."""
            mean, values = self.reader.mean, train.images.values
            images, _ = train.images_of(index)  # one is changed alike for each of its captions
            changed = change_batch(values, images, options.data, options.seed, epoch, mean)
            return train.batch(index, self._normalised(changed.pixels))

        def plan(epoch: int) -> Batches:
            """The examples of each batch of an epoch."""
            budget, seed = options.batch_tokens, options.seed
            cut = partial(training_batches, budget=budget, seed=seed, epoch=epoch)
            return train.plan(cut, together=getattr(options.data, "together", True))

        batches = epochs(plan, make, start)
        return prefetch(batches) if options.data.workers else batches

    def _normalised(self, pixels: Any) -> Dense:
        """Pixels (images, channels, height, width), bytes or from 0 to 1, as the model's input."""
        return Dense(self.reader.normalised(torch.from_numpy(pixels)))

    def evaluate(self, model: Captioner) -> dict[str, float]:
        """Loss and perplexity on the validation images."""
        return self.likelihood(model, self._evaluation_batches(self.valid))

    def _evaluation_batches(self, examples: CaptionedImages) -> Iterator[Batch[Any]]:
        """Yields examples in batches of the token budget of training, in a fixed order."""
        cut = partial(evaluation_batches, budget=self.options.batch_tokens)
        for index in examples.plan(cut, together=True):
            images, _ = examples.images_of(index)
            yield examples.batch(index, self._normalised(examples.images.values[images]))

    def examples(self, settings: Settings, selection: Selection) -> dict[str, LabelledImages]:
        """The selected images: those of a file, of a split, or by default of the test sets."""
        data = settings.data
        if selection.files is not None:
            columns = selection.columns_for(data)
            images = read_images(
                selection.files, self.reader, columns=columns, for_tests=True, captions=True
            )
            _check_captions(images, selection.files)
            return {selection.files: images}
        _check_data(data)
        splits = load_images(data, self.reader, captions=True)
        sets = {"train": splits.train, "valid": splits.valid, **splits.tests}
        if selection.split is None:
            sets = splits.tests or {"valid": splits.valid}
        elif selection.split not in sets:
            raise InputError("--split", got=selection.split, expected=f"one of {', '.join(sets)}")
        else:
            sets = {selection.split: sets[selection.split]}
        for images in sets.values():
            _check_captions(images, data.kind)
        return sets

    def example_sets(self, settings: Settings, selection: Selection) -> dict[str, ExampleSet]:
        """The selected images, without files that are no images."""
        sets = self.examples(settings, selection)
        return {
            name: ExampleSet(images).without(images, "that cannot be read", images.skipped)
            for name, images in sets.items()
        }

    def scorable(self, model: Captioner, example_set: ExampleSet) -> ExampleSet:
        """The images whose captions the model could write; others are left out, and counted."""
        bound, images = model.config.bound, example_set.examples
        if bound is None:
            return example_set
        encode = self.vocabulary.target.encode_batch
        short = [
            row for row, captions in enumerate(images.captions)
            if all(len(ids) < bound for ids in encode([*captions]))
        ]  # fmt: skip
        if len(short) == len(images):
            return example_set
        reason = f"with a caption longer than the model writes ({bound:,} tokens)"
        return example_set.without(images.take(short), reason, len(images) - len(short))

    def limited(self, examples: LabelledImages, limit: int) -> LabelledImages:
        """At most `limit` images, evenly spread over a set."""
        return examples.take(spread(len(examples), limit))

    def keys(self, examples: LabelledImages, seen: Seen) -> Iterator[Keys] | None:
        """The keys of the images' pixels."""
        return examples.keys() if seen.unit == "images" else None

    def report(
        self, model: Captioner, sets: Mapping[str, LabelledImages], scoring: Scoring
    ) -> CaptionReport:
        """Scores each set of images, and reports progress and results through `scoring`."""
        reports = []
        for name, images in sets.items():
            progress = count_progress(scoring.on_progress, len(images), name)
            reports.append(self.measure(model, images, scoring, name, progress))
            scoring.keep(reports[-1].files())
        return CaptionReport(tuple(reports))

    def measure(
        self,
        model: Captioner,
        images: LabelledImages,
        scoring: Scoring,
        name: str = "",
        on_progress: Callable[[int], None] | None = None,
    ) -> CaptionScores:
        """Loss, perplexity, exact match, BLEU and CIDEr-D on images, and the captions.

        Args:
            model: The captioner.
            images: Images with captions.
            scoring: The decoding settings, and whether case counts.
            name: The name of the set.
            on_progress: Called with the number of images just captioned.
        """
        encoded = self.encode(images, model.config.max_length)
        likelihood = self.likelihood(model, self._evaluation_batches(encoded))
        pixels = [images.values[row] for row in range(len(images))]
        outputs = self.outputs(model, pixels, scoring.decode, on_progress=on_progress)
        captions = [best.text for best, *_ in outputs]
        scores = score_captions(captions, images.captions, lowercase=scoring.lowercase)
        loss, perplexity = likelihood["loss"], likelihood["perplexity"]
        return CaptionScores(name, loss, perplexity, scores, captions, images.captions)

    def head_batches(self, model: Captioner, images: LabelledImages) -> list[HeadBatch]:
        """One batch of images with captions, on which heads are measured."""
        encoded = self.encode(images, model.config.max_length)
        examples = range(len(encoded))
        source = self._normalised(images.values[encoded.image_of])
        batch: Batch[Any] = encoded.batch(examples, source).to(model.device)
        inputs, targets = inputs_of(batch), batch.targets.ids
        layout, target = model.embed.layout(batch.source), inputs[1]

        def lengths(layer: str) -> tuple[Sequence[int], Sequence[int]]:
            queries = layout if layer.startswith("encoder") else target
            keys = target if layer.startswith("decoder") and layer.endswith("self") else layout
            return queries.lengths, keys.lengths

        def loss(twin: Any) -> Tensor:
            return F.cross_entropy(twin(*inputs), targets, reduction="sum")

        def of_all_tokens(of_layer: Layout, layer: str, weights: Tensor) -> Tensor:
            if layer.startswith("decoder"):
                return weights
            return over_all_tokens(model, of_layer, layer, weights)

        read = partial(model, *inputs)
        return [HeadBatch(read, loss, targets.numel(), lengths, spread=of_all_tokens)]

    def symbols(self) -> Symbols:
        """The special tokens of decoding; `decode.banned` may ban further tokens."""
        target: Tokenizer = self.vocabulary.target
        return Symbols(target.begin, target.end, target.pad, target.specials.banned)

    def banned(self) -> Sequence[int]:
        """The ids that are never generated, such as padding."""
        return self.symbols().banned

    def decode_output(self, ids: Sequence[int]) -> str:
        """Decodes the ids of a caption to text."""
        return self.vocabulary.target.decode(ids)

    def target_ids(self, text: str, longest: int) -> list[int]:
        """Encodes a given caption; it may have `longest - 1` tokens, as the end is added.

        Raises:
            InputError: The caption has no tokens, too many, or unknown words.
        """
        unknown = self.vocabulary.target.unknown_words(text)
        if unknown:
            raise InputError("the caption has words the model cannot write", got=unknown[0])
        ids = self.vocabulary.target.encode(text)
        check_length(len(ids), "the caption", longest - 1)
        return ids

    def caption(
        self,
        model: Captioner,
        encoded: Sequence[Encoded],
        config: DecodeConfig,
        *,
        prefix: str | Sequence[str] = "",
        **_: Any,
    ) -> list[list[Output]]:
        """The n best captions of each image, with log-probabilities and scores.

        Args:
            model: The captioner.
            encoded: Images.
            config: The decoding settings.
            prefix: The text that all captions must begin with, or one text for each.

        Raises:
            InputError: There are more texts than images, or fewer.
        """
        prefixes = [prefix] * len(encoded) if isinstance(prefix, str) else prefix
        if len(prefixes) != len(encoded):
            expected = f"one text, or {len(encoded)} of them"
            raise InputError("prefix", got=f"{len(prefixes)} texts", expected=expected)
        return self.predict(model, encoded, config, prefixes=prefixes)

    def stream(
        self, model: Captioner, image: Encoded, config: DecodeConfig, *, prefix: str = "", **_: Any
    ) -> Iterator[str]:
        """Yields the caption piece by piece while it is decoded; see `stream_source`."""
        return self.stream_source(model, image, config, prefix)

    def _search(
        self,
        decode: Callable[..., Result],
        model: Any,
        ids: Sequence[Any],
        config: DecodeConfig,
        prefixes: Sequence[Sequence[int]] | None,
        tap: Tap | None = None,
    ) -> Result:
        """Calls `engine.decode` or `engine.stream`; `ids` are pixels (channels, height, width)."""
        return decode(
            model,
            self._normalised(np.stack(ids)),
            self.symbols(),
            config,
            prefixes=prefixes,
            tap=tap,
            max_lengths=max_lengths([model.config.max_length] * len(ids)),
            limit=model.config.bound,
        )

    def trace(
        self,
        model: Any,
        text: Any,
        tap: Tap,
        *,
        decode: DecodeConfig,
        target: str | None = None,
        allow_unknown: bool = True,
    ) -> Trace:
        """Reads an image, writes or forces its caption, and returns the recorded attention.

        Args:
            model: The captioner.
            text: The image.
            tap: Records the attention weights.
            decode: The decoding settings, if no caption is given; the recorded weights are then
                those of the best hypothesis.
            target: A caption to force instead of decoding one.
            allow_unknown: Images have no words that could be unknown.
        """
        del allow_unknown
        [encoded] = self.read(model, [text])
        source = self.reader.collate([encoded]).to(model.device)
        tokenizer, note = self.vocabulary.target, ""
        if target is None:
            [[best, *_]] = self.predict(model, [encoded], decode, tap=tap)
            ids, finished = list(best.hypothesis.ids), best.hypothesis.finished
            weights = first_records(tap) | tap.follow(best.hypothesis.rows)
            if not finished:
                note = "the caption did not end by itself: it was cut at the maximal length"
        else:
            ids, finished = self.target_ids(target, self.longest_output(model)), True
            with evaluating(model):
                model(source, Ragged.of([[tokenizer.begin, *ids]]).to(model.device), tap)
            weights, note = first_records(tap), "the caption was given"
        layout = model.embed.layout(source)
        weights = {
            site: over_all_tokens(model, tap.layouts[site.rpartition(".")[0]], site, value)
            if site.startswith("encoder")
            else value
            for site, value in weights.items()
        }
        # A caption cut at its maximal length has no step that writes the end symbol.
        output = [*ids, tokenizer.end] if finished else ids
        target_input = [tokenizer.begin, *ids][: len(output)]
        original = partial(_displayed_pixels, text)
        unfamiliar = self.reader.unfamiliar(encoded.values)
        note = "; ".join(filter(None, (unfamiliar, note)))
        picture = ImageGrid(
            encoded.values, layout.grid, layout.prefix, "mean", original, unfamiliar,
            other_grids(layout, tap.layouts),
        )  # fmt: skip
        cells, queries = (picture.names, range(len(picture.names))), tokenizer.words(output)
        words = {
            **cell_words(picture),
            "decoder.self": (queries, tokenizer.words(target_input)),
            "decoder.cross": (queries, cells),
        }
        pieces = tokenizer.tokens(target_input)
        pieces_of_layers = {
            **{kind: (side[0][0], side[1][0]) for kind, side in cell_words(picture).items()},
            "decoder.self": (pieces, pieces),
            "decoder.cross": (pieces, picture.names),
        }
        caption = self.decode_output(ids)
        shares = partial(_word_shares, model, tap.edits, target_input, output, queries[1])
        captioned = Captioned(source.values[0].cpu(), shares)
        return Trace(
            weights, words, caption, note, picture, captioned=captioned, pieces=pieces_of_layers
        )


def _word_shares(
    model: Captioner,
    edits: Sequence[Edit],
    read: Sequence[int],
    written: Sequence[int],
    words: Sequence[int],
    images: Tensor,
) -> Tensor:
    """The probability of each word of a caption after those before it, for several images.

    Args:
        model: The captioner.
        edits: Changes of the model, such as heads that are removed.
        read: The ids that the decoder reads: the begin symbol and the caption.
        written: The ids that it should write, one for each of those.
        words: The number of the word of each written id.
        images: (images, channels, height, width) Normalised pixels.

    Returns:
        (images, words).
    """
    count, device = len(images), model.device
    with evaluating(model):
        source, target = Dense(images.to(device)), Ragged.of([list(read)] * count).to(device)
        tap = Tap(edits=edits) if edits else None
        logprobs = model(source, target, tap).log_softmax(-1).view(count, len(read), -1)
    ids = torch.tensor(list(written), device=device).expand(count, -1)[..., None]
    of_tokens = logprobs.gather(-1, ids)[..., 0].cpu()  # (images, tokens)
    index = torch.tensor(list(words)).expand(count, -1)
    totals = of_tokens.new_zeros(count, max(words) + 1).scatter_add(1, index, of_tokens)
    return totals.exp()


def _displayed_pixels(item: Any) -> Any:
    """The image as it was: (height, width), or (height, width, channels), bytes."""
    return np.asarray(display_image(item))


def _check_data(data: Any) -> None:
    """Refuses data without images, and changes of images that make captions false."""
    if data.example_type != "pictures" or data.kind == "digits":
        expected = "scenes, or images with captions"
        raise InputError("data.kind", got=data.kind, expected=expected)
    if getattr(data, "scaling", "whole") != "whole":
        raise InputError("data.scaling", got=data.scaling, expected="whole, for captions")
    for key, reason in FALSE_CAPTIONS.items():
        if getattr(data, key):
            raise InputError(f"data.{key}", got=getattr(data, key), expected="none", fix=reason)


def _check_lengths(sets: Sequence[CaptionedImages], bound: int | None) -> None:
    """Rejects captions longer than the model can write, and quotes the longest one."""
    longest = max(sets, key=lambda images: images.longest)
    if bound is None or longest.longest <= bound:
        return
    texts = [text for captions in longest.images.captions for text in captions]
    text = texts[max(range(len(texts)), key=lambda row: len(longest.captions[row]))]
    start = text if len(text) <= QUOTED else f"{text[:QUOTED]}…"
    raise InputError(
        "a caption is too long for the model",
        got=f"{longest.longest} tokens: {start!r}",
        expected=f"at most {bound}",
        fix=f"set model.decoder.max_length={longest.longest}, shorten the caption or leave it out",
    )


def _check_captions(images: LabelledImages, name: str) -> None:
    """Refuses images that have no captions."""
    if not images.captions or not all(images.captions):
        missing = sum(not captions for captions in images.captions) or len(images)
        got = f"{missing} images without a caption"
        raise InputError(name, got=got, expected="a caption for each image")


def _reader_for(model: Any) -> ImageReader:
    """The reader of a new model: images are scaled to the model's size."""
    (height, width), channels = model.image, model.channels
    half = (0.5,) * channels
    return ImageReader(height=height, width=width, channels=channels, mean=half, std=half)


def _plainness(values: Any) -> dict[str, float]:
    """How plain all training images are, by the reader's settings; nothing of photographs."""
    count = values.shape[0]
    rows = np.unique(np.linspace(0, count - 1, min(count, MOST_LOOKED_AT)).astype(np.int64))
    few_colours, ground = np.min([few_colours_of(pixels) for pixels in values[rows]], axis=0)
    if few_colours - MARGIN < DRAWING:
        return {}
    least = {"few_colours": few_colours - MARGIN, "ground": max(0.0, ground - MARGIN)}
    return {name: round(float(value), 4) for name, value in least.items()}


def _learn(captions: Sequence[str], config: TokensConfig) -> Tokenizer:
    """Learns the vocabulary of captions."""
    inner = train_tokenizer([check_text(caption) for caption in captions], config)
    return Tokenizer(json.loads(inner.to_str()), LEARNED, sentences=True)
