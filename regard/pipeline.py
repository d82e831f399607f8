"""A model with tokenizer and recipe, ready to use: what `regard.load` and `regard.train` return.

Texts, images or token ids come in; `Pipeline.run` finds the verb (`translate`, `fill`, ...) and the
task that implements it, and returns the predictions as Python objects. The command line calls the
same methods.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, overload

from pydantic import ValidationError

from regard.checkpoint.folder import STORED, Snapshot, write_folder
from regard.checkpoint.storage import check_store
from regard.data.seen import Overlap, Seen
from regard.data.text.pairs import Pair
from regard.decode.config import SAMPLING_SETTINGS, DecodeConfig
from regard.errors import InputError
from regard.inputs.reader import Encoded
from regard.inputs.readers import READERS
from regard.inputs.text import Processor, Token, Vocabulary
from regard.inputs.text.items import are_texts, is_ids
from regard.layers import Edit, Tap
from regard.layers import knock_out as knocked_out
from regard.layers.tap.without_head import without_head
from regard.models import Model, describe
from regard.recipes import recipe as recipes
from regard.recipes.recipe import Recipe
from regard.runtime.device import runtime_on
from regard.tasks import ids as token_ids
from regard.tasks.base_task import warn_truncated
from regard.tasks.options import VerbOptions
from regard.tasks.specs import TASKS, every_verb, verbs_of
from regard.tasks.verbs import Verb

if TYPE_CHECKING:  # imported on first use, so that a verb loads only the modules it needs
    import torch

    from regard.explain.images.hiding import Hiding, HidingReport
    from regard.explain.look import Look
    from regard.inputs.text.reader import Text
    from regard.tasks.answer import FoundAnswer
    from regard.tasks.encoder_task import Labelled
    from regard.tasks.fill import Filling
    from regard.tasks.generate import Suggestion
    from regard.tasks.measures.accuracy import Measures
    from regard.tasks.measures.translation import Evaluation
    from regard.tasks.predictions import Prediction
    from regard.tasks.restore import Restored
    from regard.tasks.tag import Tagged
    from regard.tasks.translate import Translate
    from regard.tasks.words import Words
    from regard.tasks.writing_task import Output

ItemT = TypeVar("ItemT", contravariant=True)
AnswerT = TypeVar("AnswerT")

_logger = logging.getLogger(__name__)
PRECISIONS = ("fp32", "int8")


class VerbMethod(Protocol[ItemT, AnswerT]):
    """A verb as a method of `Pipeline`: one item gives its answer, several a list of answers."""

    @overload
    def __call__(self, items: ItemT, *options: Any, **named: Any) -> AnswerT: ...
    @overload
    def __call__(self, items: Sequence[ItemT], *options: Any, **named: Any) -> list[AnswerT]: ...


class Pipeline:
    """A model with its preprocessing: predicts, evaluates, and shows attention and heads.

    Each verb of the model's task is a method: `p.translate(text)`, `p.fill(text)`, and so on.

    Args:
        model: The PyTorch module.
        vocabulary: The tokenizers, or the image reader; None for a model without a tokenizer, which
            then takes token ids only.
        recipe: The recipe of the model: task, data, model and decoding settings.
        name: The name of the model in messages.
        seen: What the model was trained on; None if that is not known.
    """

    def __init__(
        self,
        model: Model,
        vocabulary: Processor | None,
        recipe: Recipe,
        name: str = "model",
        seen: Seen | None = None,
    ) -> None:
        self.model: Any = model.eval()
        self._vocabulary: Any = vocabulary
        self.recipe, self.name, self.seen = recipe, name, seen
        self.reader: Any = (  # without a tokenizer, its class
            READERS[model.config.reads].reader if vocabulary is None else vocabulary.source
        )
        """What reads the items: a tokenizer or an image reader."""
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        self.precision = "fp32"

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.model.device

    def to(self, device: str | torch.device, dtype: str = "fp32") -> Pipeline:
        """Moves the model to a device, and returns this pipeline.

        Args:
            device: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`, or a `torch.device`.
            dtype: `fp32`; on cuda also `bf16` or `fp16`: mixed precision.
        """
        if self.precision == "int8" and str(device) not in ("auto", "cpu"):
            raise InputError("precision int8", got=device, expected="the CPU")
        runtime_on("cpu" if self.precision == "int8" else device, dtype).move(self.model)
        return self

    @property
    def processor(self) -> Any:
        """The preprocessing of the model: tokenizers, or an image reader.

        Raises:
            InputError: The model has none.
        """
        if self._vocabulary is None:
            raise no_tokenizer(self.name)
        return self._vocabulary

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokenizers of the model.

        Raises:
            InputError: The model has no tokenizer, or reads images.
        """
        vocabulary: Vocabulary = self.processor
        if not vocabulary.vocabulary_sizes:
            got = f"a model of {self.reader.nouns}"
            raise InputError(self.name, got=got, expected="one that reads text")
        return vocabulary

    @property
    def reads_images(self) -> bool:
        """Whether the model reads images, given as paths, bytes, Pillow images or arrays."""
        return bool(self.reader.has_grid)

    def tokens(self, text: str, *, target: bool = False) -> list[Token]:
        """The tokens of a text, as the model reads it.

        Args:
            text: Any text.
            target: Whether to use the tokenizer of the target side, for a translation model.
        """
        return self.vocabulary.tokens(text, target=target)

    @cached_property
    def task(self) -> Any:
        """The task of the model: encodes inputs, decodes outputs, computes losses."""
        processor, spec = self.processor, TASKS[self.recipe.task]
        return spec.class_for(self.recipe.model).for_trained_model(self.recipe, processor)

    def translator(self) -> Translate:
        """The task of the model, if it is translation.

        Raises:
            InputError: The model does not translate.
        """
        self._task_of("translate")
        return self.task

    def run(self, name: str, items: Any, *positions: Any, mask: Any = None, **options: Any) -> Any:
        """Applies a verb to one item or to several.

        Args:
            name: The name of the verb: `p.run("fill", text)` is `p.fill(text)`.
            items: One item or a sequence of items: texts, images, or, for verbs that need no
                tokenizer, token ids.
            *positions: Options of the verb, in their order.
            mask: (batch, length) For ids given as rows: 1 for tokens, 0 for padding.
            **options: Options of the verb by name. A verb that decodes also takes settings that
                replace the recipe's `decode`, such as `beam=4`; `max_new_tokens` means
                `max_length`.

        Returns:
            The answer to the item; for several items a list of answers, or what the verb makes of
            them, such as a tensor (texts, dim) for `embed`.

        Raises:
            InputError: The model does not have this verb, or an item or option is not valid.
        """
        verb, reader = self._verb(name), self.reader
        verb_options, settings = verb.parse_options(positions, options)
        if isinstance(items, Iterator):
            items = list(items)
        if verb.expands and not isinstance(items, list):
            items = self.items_in(verb, items, _logger.warning) or items
        if verb.takes_ids and reader.are_ids(items):
            return self._run_ids(verb, items, mask, verb_options, settings)
        is_one = reader.is_one(name, items, verb.is_single)
        if mask is not None:
            raise InputError("mask", got=f"{reader.nouns} as items", expected="token ids")
        encoded = self.read(verb, [items] if is_one else list(items), verb_options)
        answers = self.answers(verb, encoded, verb_options, settings)
        return verb.value(answers[0]) if is_one else verb.together(answers, verb_options)

    def items_in(self, verb: Verb, argument: Any, skip: Callable[[str], None]) -> list[Any] | None:
        """The items that an argument of a verb that `expands` stands for; None: it is an item.

        Args:
            verb: The verb.
            argument: What was given, such as the path of a table.
            skip: Is told which files are left out, and why.
        """
        items: list[Any] | None = self._task_of(verb.name).items_in(argument, skip)
        return items

    def line_reader(self, verb: Verb) -> Callable[[str], Any]:
        """What makes an item of each line of a file or pipe, for a verb that `expands`.

        It returns None for a line that has no item, such as the names of the columns of a table.
        """
        line_reader: Callable[[str], Any] = self._task_of(verb.name).line_reader()
        return line_reader

    def read(self, verb: Verb, items: Sequence[Any], options: VerbOptions) -> list[Encoded]:
        """Reads the items of a verb, each once.

        Args:
            verb: The verb.
            items: Texts or images.
            options: The checked options of the verb.

        Raises:
            InputError: The model cannot read an item.
        """
        task = self._task_of(verb.name)
        self.reader.check(verb.name, items, verb.takes)
        return getattr(task, verb.reading)(self.model, items, **options.for_task())

    def answers(
        self,
        verb: Verb,
        encoded: Sequence[Encoded],
        options: VerbOptions,
        settings: Mapping[str, Any],
    ) -> Any:
        """The complete answers of the task, one per item: n-best lists, probabilities, positions.

        Args:
            verb: The verb.
            encoded: The items, from `read`.
            options: The checked options of the verb.
            settings: Decoding settings that replace those of the recipe.
        """
        task, model = self._task_of(verb.name), self._model_without_heads(options.knock_out)
        decode = [self.decoding(**settings)] if verb.decode else []
        warn_truncated(encoded)
        return getattr(task, verb.name)(model, encoded, *decode, **options.for_task())

    def stream_answer(
        self, verb: Verb, encoded: Encoded, options: VerbOptions, settings: Mapping[str, Any]
    ) -> Iterator[str]:
        """Yields the answer to one item piece by piece while it is decoded; see `answers`.

        If the task cannot stream, the answer is computed at once and its lines are yielded.
        """
        task, model = self._task_of(verb.name), self._model_without_heads(options.knock_out)
        if not hasattr(task.task_for(encoded.item), "stream"):
            [answer] = self.answers(verb, [encoded], options, settings)
            return iter(verb.lines(answer))
        config = self.decoding(**settings)
        return task.stream(model, encoded, config, **options.for_task())

    def _verb(self, name: str) -> Verb:
        """The verb of this name; raises an error if no task has it."""
        return every_verb().get(name) or self._refuse(name)

    def _task_of(self, name: str) -> Any:
        """The task that implements a verb: the model's own, or another that the model can do."""
        spec = TASKS[self.recipe.task]
        if any(verb.name == name for verb in spec.verbs):
            return self.task
        # Of a published encoder-decoder it is not known whether it translates.
        may_use_own_task = name in self.verbs or self.recipe.data.example_type == "nothing"
        config = self.model.config
        if may_use_own_task and hasattr(spec.class_for(config), name):
            return self.task
        if name not in self.verbs:
            self._refuse(name)
        return TASKS[self.verbs[name]].class_for(config)(self.processor)

    def _refuse(self, name: str) -> NoReturn:
        """Raises the error for a verb that the model does not have; it lists those it has."""
        verbs, got = [*self.verbs], f"a {self.model.config.family} model for {self.recipe.task}"
        fix = f"use `regard {verbs[0]}`" if len(verbs) == 1 else f"it can {', '.join(verbs)}"
        raise InputError(f"{self.name} cannot {name}", got=got, fix=fix)

    def __getattr__(self, name: str) -> Any:
        """A verb by its name: `p.fill(text, 3)` is `p.run("fill", text, 3)`."""
        verb = None if name.startswith("_") else every_verb().get(name)
        if verb is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        verb_method = partial(self.run, name)
        verb_method.__doc__ = verb.help
        return verb_method

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *every_verb()])

    if TYPE_CHECKING:  # the built-in verbs, for editors and type checkers
        translate: VerbMethod[str, str]
        """The best translation of a sentence, or of each of several."""
        generate: VerbMethod[Any, Any]
        """Continues a prompt, or each of several, without repeating it; ids give ids."""
        suggest: VerbMethod[str, list[Suggestion]]
        """The most probable next words with their probabilities, as on a phone keyboard."""
        fill: VerbMethod[str, list[list[Filling]]]
        """The most probable words for each `[MASK]` of a text, or of each of several."""
        restore: VerbMethod[str, Restored]
        """Fills the holes of a text (`<extra_id_0>`, or `___`), or of each of several."""
        classify: VerbMethod[Text, list[Labelled]]
        """The classes of a text or pair, or of each of several, most probable first."""
        tag: VerbMethod[str | list[str], list[Tagged]]
        """The tag of each word of a text (a string or a list of words), or of several."""
        answer: VerbMethod[str, list[FoundAnswer]]
        """The most probable answers to a question, as spans of the context, best first."""
        predict: VerbMethod[Any, Prediction]
        """A class or numbers for a row of a table or an image, or for each of several."""
        embed: VerbMethod[Any, Any]
        """A vector for a text, (dim,), or for each of several, (texts, dim)."""

    @cached_property
    def verbs(self) -> dict[str, str]:
        """The verbs of the model, each with the name of the task that implements it."""
        return dict(verbs_of(self.recipe.task, self.model.config, self._vocabulary))

    def _run_ids(
        self, verb: Verb, items: Any, mask: Any, options: Any, settings: Mapping[str, Any]
    ) -> Any:
        """Applies a verb to token ids: generated ids if it decodes, else one vector per text."""
        rows, _ = token_ids.rows_of(items, mask)
        model = self._model_without_heads(options.knock_out)
        results: Any
        if verb.decode:
            config = self.decoding(**settings)
            results = token_ids.generate_ids(model, self._vocabulary, rows, config)
        else:
            results = token_ids.embed_ids(
                model, rows, pool=options.pool, normalise=options.normalise
            )
        return results[0] if is_ids(items) else results

    def outputs(self, texts: Sequence[str], **options: Any) -> list[list[Output]]:
        """The n best translations of each sentence, with log-probabilities and scores.

        Args:
            texts: Sentences.
            **options: As for `translate`; `prefixes` are the texts that the translations of each
                sentence must begin with.
        """
        verb = self._verb("translate")
        verb_options, settings = verb.parse_options((), options)
        encoded = self.read(verb, texts, verb_options)
        return self.answers(verb, encoded, verb_options, settings)

    def stream(self, text: str, **options: Any) -> Iterator[str]:
        """Yields the translation so far while it is decoded; the last text is complete.

        Each text begins with the one before.

        Args:
            text: The sentence.
            **options: As for `translate`.

        Raises:
            InputError: As for `translate`, before anything is computed.
        """
        return accumulate(self._stream_verb("translate", text, options))

    def write(self, prompt: str, **options: Any) -> Iterator[str]:
        """Yields the continuation of a prompt piece by piece; no piece is revised later.

        Args:
            prompt: The text to continue.
            **options: As for `generate`.
        """
        return self._stream_verb("generate", prompt, options)

    def _stream_verb(self, name: str, text: str, options: Mapping[str, Any]) -> Iterator[str]:
        """Yields the answer of a verb to one text piece by piece; the text is read at once."""
        verb = self._verb(name)
        verb_options, settings = verb.parse_options((), options)
        [encoded] = self.read(verb, [text], verb_options)
        return self.stream_answer(verb, encoded, verb_options, settings)

    def decoding(self, **changes: Any) -> DecodeConfig:
        """The decoding settings of the recipe with some changes, checked.

        Args:
            **changes: Settings of `DecodeConfig`; `max_new_tokens` means `max_length`, and
                `temperature=0` greedy decoding.

        Raises:
            InputError: A setting is not known or not valid.
        """
        if not changes:
            return self.recipe.decode
        if "max_new_tokens" in changes:  # the name that transformers uses
            if "max_length" in changes:
                got = "max_length as well"
                raise InputError("max_new_tokens", got=got, expected="one of the two")
            changes["max_length"] = changes.pop("max_new_tokens")
        if changes.get("temperature") == 0:  # the limit of sampling: always the likeliest token
            other_settings = {key: changes[key] for key in changes if key not in SAMPLING_SETTINGS}
            changes = {"beam": 1, **other_settings, "sample": False}
        if changes.get("sample") is False:  # greedy decoding ignores the recipe's sampling options
            defaults = {name: DecodeConfig.model_fields[name].default for name in SAMPLING_SETTINGS}
            changes = {**defaults, **changes}
        max_length = changes.get("max_length")
        if isinstance(max_length, int) and 0 < max_length < self.recipe.decode.min_length:
            changes = {"min_length": max_length, **changes}  # min_length must not exceed max_length
        config = _change_decoding(self.recipe, changes)
        token_ids.check_roles(config, self.model)
        return config

    def measure(self, examples: Sequence[Any]) -> Measures:
        """Evaluates a classifier, tagger or question-answering model on labelled examples.

        Args:
            examples: `LabelledText`, `TaggedWords` or `Question` objects of
                `regard.data.text.annotations`.

        Raises:
            InputError: The model is for another task.
        """
        if not TASKS[self.recipe.task].head or not hasattr(self.task, "measure"):
            got, expected = f"a model for {self.recipe.task}", "one for classify, tag or answer"
            raise InputError(self.name, got=got, expected=expected)
        return self.task.measure(self.model, examples)

    def words(
        self, word: str, sentences: Sequence[str], *, layer: int | None = None, count: int = 5
    ) -> Words:
        """Compares the contextual vectors of a word in several sentences.

        Args:
            word: The word.
            sentences: Sentences that contain the word.
            layer: The block whose output is used, from 0; None: the output of the whole stack.
            count: The number of nearest words to list.

        Returns:
            The vector of each occurrence, the cosines between them, and their nearest words.
        """
        from regard.recipes.shelf import card_of, shipped
        from regard.tasks.words import compare

        tokenizer = self.vocabulary.source
        if not hasattr(tokenizer, "vocab"):
            got = f"a model of {self.reader.nouns}"
            raise InputError(self.name, got=got, expected="one that reads text")
        tokenizer.check("words", [word, *sentences])
        tests = card_of(shipped()[self.name]).senses if self.name in shipped() else ()
        senses = next((test for test in tests if test.layer == layer), None)
        return compare(
            self.model, tokenizer, word, sentences, layer=layer, count=count, senses=senses
        )

    def logits(self, ids: Any, target_ids: Any = None, *, mask: Any = None) -> Any:
        """The logits of the model for given token ids, or for the pixels of images.

        For a model that generates, these are the logits of the next token after each token; for an
        encoder, the output of its head at each token, or for a classifier of each text.

        Args:
            ids: The ids of a text, of several texts as a list of lists, or of a padded batch as a
                tensor (batch, length). For a model that reads images: normalised pixels
                (batch, channels, height, width).
            target_ids: For an encoder-decoder, the ids of the target in the same form; `ids` are
                then those of the source. For a captioner, the ids of a caption of each image.
            mask: (batch, length) For a padded batch: 1 for tokens, 0 for padding, which may stand
                on either side.

        Returns:
            For one text (tokens, vocab); for a list of texts a list of such tensors; for a padded
            batch (batch, length, vocab) with zeros at padding. A head with other outputs replaces
            `vocab`, and a classifier returns one row per text: (texts, classes).
        """
        source = self.reader.prepared_input(ids)
        if source is not None:
            return token_ids.logits_of_input(self.model, source, target_ids)
        return token_ids.logits_of(self.model, ids, target_ids, mask)

    def look(
        self,
        text: Any,
        *,
        target: str | None = None,
        knock_out: Sequence[str] = (),
        edits: Sequence[Edit] = (),
        layer: int | None = None,
        original: bool = False,
        allow_unknown: bool = False,
        **decode: Any,
    ) -> Look:
        """The attention weights of every layer and head while the model reads (and writes) a text.

        Args:
            text: The sentence; for a T5, a text with gaps (`<extra_id_0>`); for a model that reads
                images, an image or its path.
            target: The output to force, instead of decoding one; for an encoder-decoder.
            knock_out: Heads to remove, such as `decoder.1.cross.3`.
            edits: Other changes of the model, at the sites of `regard.layers.Tap`.
            layer: Record only the layer of this number, from 0: faster, for a large model.
            original: Show an image as it was, not as the model reads it, in pictures and pages.
            allow_unknown: Whether the text may contain words that are not in a word vocabulary.
            **decode: Settings that replace those of the recipe's `decode`.
        """
        from regard.explain.look import look_of

        self.reader.check("look", [text], are_texts)
        if (target is not None or decode) and not self.model.config.has_target:
            expected = "a text alone, for a single stack"
            raise InputError("look", got="a target or a search", expected=expected)
        self._check_attends("look")
        removed = _as_sequence(knock_out)
        sites = "*.weights" if layer is None else f"*.{layer}.*.weights"
        trace = self.task.task_for(text).trace(
            self.model,
            text,
            Tap(sites, edits=[*(knocked_out(head) for head in removed), *edits]),
            decode=self.decoding(**decode),
            target=target,
            allow_unknown=allow_unknown,
        )
        look = look_of(trace, text, model=self.name, without=removed)
        return replace(look, original=True) if original else look

    def hide_patches(
        self,
        images: Any,
        *,
        kind: str = "picture",
        layer: int | None = None,
        head: int | None = None,
        hiding: Hiding | None = None,
        knock_out: Sequence[str] = (),
        progress: Callable[[int], None] | None = None,
    ) -> HidingReport:
        """Tests maps of attention over many images: hides the patches that are looked at most.

        The map of an image is the row from which its class is computed. The probability of the
        class falls if patches are hidden; the report compares the patches looked at most with as
        many others, drawn at random, and with those looked at least.

        Args:
            images: Images or their paths, or examples as for `measure`.
            kind: `picture`, the row of one layer; or `rollout`, the row through all layers.
            layer: The layer of `picture`, from 0; by default the last.
            head: One head of that layer; by default the mean over its heads.
            hiding: How many patches are hidden, and how.
            knock_out: Heads to remove, such as `encoder.1.self.3`.
            progress: Called with the number of images done so far.

        Raises:
            InputError: The model does not classify images, or has no such layer or head.
        """
        from regard.explain.images.hide_many import ImageMap, hide_in_all
        from regard.explain.images.hiding import Hiding

        if not self.reader.has_grid:
            raise InputError(self.name, got="a model of text", expected="a model of images")
        self._check_attends("hide_patches")
        self.model.require_head("classes")
        image_map = ImageMap.of(self.model, kind, layer, head)
        sources = self.task.sources(self.model, images)
        model = self._model_without_heads(knock_out)
        return hide_in_all(model, sources, image_map, hiding or Hiding(), knock_out, progress)

    def _check_attends(self, what: str) -> None:
        """Raises an error if the model has no attention."""
        if self.model.heads():
            return
        config = self.model.config
        got = f"a {config.family} model without attention"
        fix = "train one with model.attention: additive" if hasattr(config, "attention") else None
        raise InputError(what, got=got, expected="a model with attention", fix=fix)

    def heads(
        self, texts: Sequence[Any], progress: Callable[[int, int], None] | None = None
    ) -> list[Any]:
        """Summarises what each head attends to on some texts, and the effect of removing it.

        Args:
            texts: Pairs of source and target; for a model of plain text, texts or their ids; for a
                classifier, tagger or question-answering model, examples as for `measure`.
            progress: Called with the number of heads done and the number of all heads.

        Returns:
            A `HeadSummary` for each head; an `ImageHeadSummary` if the model reads images.
        """
        from regard.explain.heads import summarise

        self._check_attends("heads")
        kind = TASKS[self.recipe.task].class_for(self.model.config)
        ids_alone = self._vocabulary is None and not any(isinstance(text, str) for text in texts)
        task = kind(None) if ids_alone and kind.takes_ids else self.task
        head_batches = task.head_batches(self.model, texts)
        return summarise(self.model, head_batches, progress=progress)

    def evaluate(
        self,
        pairs: Sequence[Pair | tuple[str, str]],
        *,
        limit: int | None = None,
        lowercase: bool = False,
        allow_unknown: bool = False,
        on_progress: Callable[[int], None] | None = None,
        **decode: Any,
    ) -> Evaluation:
        """Loss, perplexity, BLEU and chrF on pairs, and the translations.

        Logs a warning if pairs were in the model's training data.

        Args:
            pairs: Sources and targets; a `Pair` with `others` has several references.
            limit: Score at most this many pairs, evenly spread over all.
            lowercase: Whether to score without regard to case.
            allow_unknown: Whether to accept pairs in which most words are unknown.
            on_progress: Called with the number of pairs just translated.
            **decode: Settings that replace those of the recipe's `decode`.

        Raises:
            FoundProblems: More than half of the words of one side are unknown.
        """
        task = self.translator()
        if limit is not None:
            pairs = task.limited(pairs, limit)
        overlap = self.overlap(pairs)
        if overlap is not None and (warning := overlap.warning()):
            _logger.warning("warning: %s", warning)
        evaluation = task.measure(
            self.model, pairs, self.decoding(**decode), lowercase=lowercase, on_progress=on_progress
        )
        if not allow_unknown:
            evaluation.check()
        return evaluation

    def overlap(self, examples: Any) -> Overlap | None:
        """About how many examples were in the training data of the model.

        Args:
            examples: A set of examples as its task has them, such as pairs.

        Returns:
            The estimate; None if it is not known what the model was trained on.
        """
        keys = None if self.seen is None else self.task.keys(examples, self.seen)
        return None if self.seen is None or keys is None else self.seen.overlap(keys)

    def quantised(self) -> Pipeline:
        """A copy of the pipeline with 8-bit weights, for inference only: not to train or save."""
        from regard.models.quantise import quantise

        twin = Pipeline(quantise(self.model), self._vocabulary, self.recipe, self.name, self.seen)
        twin.parameters, twin.precision = self.parameters, "int8"
        return twin

    def save(self, folder: str | Path, *, store: str = "fp32") -> Path:
        """Writes a checkpoint folder that `regard.load` reads; none of its files can run code.

        Args:
            folder: The path of a new or empty folder.
            store: `fp32`; `fp16` for half the size; `int8` for a quarter, with matrices in 8 bits
                and a scale per row. Loading converts the rounded weights back to 32 bits.
        """
        folder = Path(folder)
        write_folder(folder, self._snapshot(check_store(store, "store")))
        return folder

    def export(self, folder: str | Path, to: str = "hf") -> Path:
        """Writes a folder that another library loads, with the same outputs.

        Args:
            folder: The path of a new or empty folder.
            to: `hf` for Hugging Face transformers; `timm`, for a ViT or DeiT.
        """
        from regard.hub.exchange import export

        decode = self.recipe.decode
        if decode.no_copy:
            _logger.warning("warning: transformers does not know decode.no_copy: it may copy")
        if self._vocabulary is not None:
            # transformers knows the banned tokens only if the exported config lists them.
            banned = {*decode.banned, *self.task.banned()}
            decode = decode.model_copy(update={"banned": tuple(sorted(banned))})
        kind = None if to == "hf" else to
        return export(self.model, self._vocabulary, decode, Path(folder), kind)

    def _snapshot(self, store: str = "fp32") -> Snapshot:
        """The contents of a checkpoint folder: weights, config, tokenizers, recipe, record."""
        return Snapshot(
            step=0,
            weights=self.model.state_dict(),
            config=describe(self.model) | ({STORED: store} if store != "fp32" else {}),
            tokenizer="{}" if self._vocabulary is None else self._vocabulary.to_json(),
            recipe=recipes.dump(self.recipe),
            seen=b"" if self.seen is None else self.seen.to_bytes(),
        )

    def _model_without_heads(self, removed: Sequence[str]) -> Any:
        """The model; if heads are named in `removed`, a version of it without them."""
        return without_head(self.model, _as_sequence(removed)) if removed else self.model

    def __repr__(self) -> str:
        size = f"{self.parameters:,} parameters"
        return f"Pipeline({self.name!r}, {self.recipe.task}, {size}, {self.precision})"


def _change_decoding(recipe: Recipe, changes: Mapping[str, Any]) -> DecodeConfig:
    """The decoding settings of a recipe with some changes, checked as a recipe's values are."""
    try:
        values = {**recipe.decode.model_dump(), **changes}
        return DecodeConfig.model_validate(values, strict=True)
    except ValidationError:  # reading it as a recipe accepts lists and gives a helpful error
        overrides = [f"decode.{key}={json.dumps(value)}" for key, value in changes.items()]
        return recipes.from_text(recipes.dump(recipe), "recipe", overrides).decode


def no_tokenizer(name: str) -> InputError:
    """The error for a model without a tokenizer."""
    expected = "tokenizer.json or a vocabulary file in its folder"
    fix = "add one; without it a model takes ids alone: p.logits(ids), p.generate(ids)"
    return InputError(f"{name} has no tokenizer", expected=expected, fix=fix)


def _as_sequence(heads: Sequence[str]) -> Sequence[str]:
    """The names of heads as a sequence, whether one name or several are given."""
    return [heads] if isinstance(heads, str) else heads
