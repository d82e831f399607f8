"""A model with all it needs to be used: what `regard.load` and `regard.train` return."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, overload

from pydantic import ValidationError

from regard.data.text.pairs import Pair
from regard.decode.config import DRAWING, DecodeConfig
from regard.errors import InputError
from regard.layers import Tap
from regard.layers import knock_out as knocked_out
from regard.layers.tap.without import without
from regard.models import Model, describe
from regard.recipes import recipe as recipes
from regard.recipes.recipe import Recipe
from regard.runtime.device import present
from regard.tasks.entries import TASKS, every_verb, verbs_of
from regard.tasks.ids import (
    check_roles,
    embed_ids,
    generate_ids,
    is_ids,
    logits_of,
    rows_of,
)
from regard.tasks.options import Options
from regard.tasks.task import check_texts
from regard.tasks.verbs import Verb
from regard.tokens import Processor, Token, Vocabulary
from regard.train.checkpoint import run as checkpoint
from regard.train.checkpoint.folder import STORED
from regard.train.checkpoint.run import Snapshot
from regard.train.checkpoint.storage import check_store

if TYPE_CHECKING:  # what a verb does not need is not imported before it is used
    import torch

    from regard.explain.heads import HeadSummary
    from regard.explain.look import Look
    from regard.tasks import (
        Filling,
        FoundAnswer,
        Labelled,
        Output,
        Restored,
        Suggestion,
        Tagged,
        Translate,
    )
    from regard.tasks.measures.accuracy import Measures
    from regard.tasks.measures.translation import Evaluation
    from regard.tasks.reader import Text
    from regard.tasks.words import Words

PRECISIONS = ("fp32", "int8")


class Pipeline:
    """Text or images in, text out, and everything in between to look at.

    Args:
        model: The plain module.
        vocabulary: Text <-> ids, or what reads images; None for a model that came without, which
            then takes ids alone.
        recipe: What it was made by.
        name: What to call it.
    """

    def __init__(
        self, model: Model, vocabulary: Processor | None, recipe: Recipe, name: str = "model"
    ) -> None:
        self.model: Any = model.eval()
        self._vocabulary: Any = vocabulary
        self.recipe, self.name = recipe, name
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        self.precision = "fp32"

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.model.device

    def to(self, device: str | torch.device, dtype: str = "fp32") -> Pipeline:
        """Moves the model to a device; gives this pipeline.

        Args:
            device: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`, or a `torch.device`.
            dtype: `fp32`; on cuda also `bf16` or `fp16`: mixed precision.
        """
        if self.precision == "int8" and str(device) not in ("auto", "cpu"):
            raise InputError("precision int8", got=device, expected="the CPU")
        present("cpu" if self.precision == "int8" else device, dtype).place(self.model)
        return self

    @property
    def processor(self) -> Any:
        """What makes items into what the model reads: tokenizers, or an image reader.

        Raises:
            InputError: The model came without.
        """
        if self._vocabulary is None:
            raise no_tokenizer(self.name)
        return self._vocabulary

    @property
    def vocabulary(self) -> Vocabulary:
        """Text <-> ids.

        Raises:
            InputError: The model came without, or reads images.
        """
        if self.reads_images:
            raise InputError(self.name, got="a model of images", expected="one that reads text")
        found: Vocabulary = self.processor
        return found

    @property
    def reads_images(self) -> bool:
        """Whether an item is an image: a path, bytes, a Pillow image or an array."""
        return bool(self.model.config.reads == "images")

    def tokens(self, text: str, *, target: bool = False) -> list[Token]:
        """The tokens of a text as the model gets it: the first step of all the others.

        Args:
            text: Any text.
            target: Whether to read it as the side that a translator writes.
        """
        return self.vocabulary.tokens(text, target=target)

    @cached_property
    def task(self) -> Any:
        """How text or images become what the model reads, and back."""
        return TASKS[self.recipe.task].kind.ready(self.recipe, self.processor)

    def translator(self) -> Translate:
        """How sentences are read and translated.

        Raises:
            InputError: The model does something else.
        """
        self._asked("translate")
        return self.task

    def run(self, name: str, items: Any, *positions: Any, mask: Any = None, **options: Any) -> Any:
        """What a verb gives for an item, or for each of several.

        Args:
            name: Of the verb: `p.run("fill", text)` is `p.fill(text)`.
            items: One or several; ids, too, where the model alone can do it.
            *positions: Options of the verb, in their order.
            mask: (batch, length) Beside ids in rows: 1 for real ones, 0 for padding.
            **options: Of the verb, and, of one that decodes, what differs from the recipe's
                `decode`, such as `beam=4`; `max_new_tokens` is another name of `max_length`.

        Raises:
            InputError: The model does something else; an item or an option is not as it should be.
        """
        verb = self._verb(name)
        if self.reads_images:
            return self._run_images(verb, items, verb.read(positions, options))
        some = items if is_ids(items) or isinstance(items, str) else [*items][:1]
        if verb.takes_ids and (is_ids(some) or (some and is_ids(some[0]))):
            return self._run_ids(verb, items, mask, verb.read(positions, options))
        if mask is not None:
            raise InputError("mask", got="texts", expected="ids beside it")
        one = verb.is_one(items)
        several = [items] if one else list(items)
        read, settings = verb.read(positions, options)
        answers = self.answers(verb, several, read, settings)
        return verb.value(answers[0]) if one else verb.together(answers, read)

    def _run_images(self, verb: Verb, items: Any, read: tuple[Any, dict[str, Any]]) -> Any:
        one = self.processor.source.is_one(items)
        answers = self.answers(verb, [items] if one else list(items), *read)
        return verb.value(answers[0]) if one else verb.together(answers, read[0])

    def answers(
        self, verb: Verb, items: Sequence[Any], options: Options, settings: Mapping[str, Any]
    ) -> Any:
        """What a task answers to each item, whole: n-best lists, probabilities, positions.

        Args:
            verb: What is asked.
            items: Of it.
            options: Of it.
            settings: What differs from the recipe's way of decoding.
        """
        self._check_items(verb.name, items)
        task, model = self._asked(verb.name), self._model(options.knock_out)
        decode = [self.decoding(**verb.settled(options, settings))] if verb.decode else []
        return getattr(task, verb.name)(model, items, *decode, **_own(options))

    def pieces(
        self, verb: Verb, item: Any, options: Options, settings: Mapping[str, Any]
    ) -> Iterator[str]:
        """The same for one item, as the answer grows; see `answers`."""
        check_texts(verb.name, item)
        task, model = self._asked(verb.name), self._model(options.knock_out)
        if not hasattr(task.asked_of(item), "grow"):
            [answer] = self.answers(verb, [item], options, settings)
            return iter(verb.lines(answer))
        config = self.decoding(**verb.settled(options, settings))
        return task.grow(model, item, config, **_own(options))

    def check(self, verb: Verb, item: Any, options: Options) -> None:
        """Refuses an item that the model cannot read; warns of what is lost of it."""
        self._check_items(verb.name, item)
        self._asked(verb.name).check(self.model, item, **_own(options))

    def item(self, verb: Verb, line: str) -> Any:
        """What a line of a file, or an argument, means: a text, or the path of an image."""
        return line if self.reads_images else verb.item(line)

    def _check_items(self, what: str, items: Any) -> None:
        """Refuses empty texts; what is wrong with an image, its reader says."""
        if not self.reads_images:
            check_texts(what, items)

    def _verb(self, name: str) -> Verb:
        return every_verb().get(name) or self._refuse(name)

    def _asked(self, name: str) -> Any:
        """The task that a verb is asked of: the model's own, or another that it is able to do."""
        if hasattr(TASKS[self.recipe.task].kind, name) and hasattr(self.task, name):
            return self.task
        if name not in self.verbs:
            self._refuse(name)
        return TASKS[self.verbs[name]].kind(self.processor)

    def _refuse(self, name: str) -> NoReturn:
        raise InputError(
            f"{self.name} cannot {name}",
            got=f"a {self.model.config.family} model for {self.recipe.task}",
            fix=f"it can {', '.join(self.verbs)}",
        )

    def __getattr__(self, name: str) -> Any:
        """A verb by its name: `p.fill(text, 3)` is `p.run("fill", text, 3)`."""
        verb = None if name.startswith("_") else every_verb().get(name)
        if verb is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        ask = partial(self.run, name)
        ask.__doc__ = verb.help
        return ask

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *every_verb()])

    if TYPE_CHECKING:  # the verbs that ship, for editors and checkers

        @overload
        def translate(self, texts: str, **options: Any) -> str: ...
        @overload
        def translate(self, texts: Sequence[str], **options: Any) -> list[str]: ...
        def translate(self, texts: Any, **options: Any) -> Any:
            """The best translation of a sentence, or of each of several."""

        def generate(self, prompts: Any, **options: Any) -> Any:
            """What follows a prompt, or each of several, without the prompt; ids give ids."""

        @overload
        def suggest(self, texts: str, top: int = 3, **options: Any) -> list[Suggestion]: ...
        @overload
        def suggest(
            self, texts: Sequence[str], top: int = 3, **options: Any
        ) -> list[list[Suggestion]]: ...
        def suggest(self, texts: Any, top: int = 3, **options: Any) -> Any:
            """The likeliest next words with their probabilities, as a phone offers them."""

        @overload
        def fill(self, texts: str, top: int = 5, **options: Any) -> list[list[Filling]]: ...
        @overload
        def fill(
            self, texts: Sequence[str], top: int = 5, **options: Any
        ) -> list[list[list[Filling]]]: ...
        def fill(self, texts: Any, top: int = 5, **options: Any) -> Any:
            """For each `[MASK]` of a text, or of each of several, the likeliest words."""

        @overload
        def restore(self, texts: str, **options: Any) -> Restored: ...
        @overload
        def restore(self, texts: Sequence[str], **options: Any) -> list[Restored]: ...
        def restore(self, texts: Any, **options: Any) -> Any:
            """A text whose holes (`<extra_id_0>`, or `___`) are filled, and what was put there."""

        @overload
        def classify(self, texts: Text, **options: Any) -> list[Labelled]: ...
        @overload
        def classify(self, texts: list[Text], **options: Any) -> list[list[Labelled]]: ...
        def classify(self, texts: Any, **options: Any) -> Any:
            """The classes of a text (or pair), or of each of several, likeliest first."""

        @overload
        def tag(self, texts: str | list[str], **options: Any) -> list[Tagged]: ...
        @overload
        def tag(self, texts: list[list[str]], **options: Any) -> list[list[Tagged]]: ...
        def tag(self, texts: Any, **options: Any) -> Any:
            """The tag of each word of a text, given as such or as its words, or of several."""

        @overload
        def answer(
            self, questions: str, context: str, top: int = 1, **options: Any
        ) -> list[FoundAnswer]: ...
        @overload
        def answer(
            self, questions: list[str], context: str | list[str], top: int = 1, **options: Any
        ) -> list[list[FoundAnswer]]: ...
        def answer(self, questions: Any, context: Any, top: int = 1, **options: Any) -> Any:
            """The likeliest answers to a question, cut out of a text, best first."""

        def embed(self, texts: Any, **options: Any) -> Any:
            """A vector for a text, (dim,), or for each of several, (texts, dim)."""

    @cached_property
    def verbs(self) -> dict[str, str]:
        """What the model can do by itself, each with the task that it is asked of."""
        return dict(verbs_of(self.recipe.task, self.model.config, self._vocabulary))

    def _run_ids(self, verb: Verb, items: Any, mask: Any, read: tuple[Any, dict[str, Any]]) -> Any:
        options, settings = read
        rows, _ = rows_of(items, mask)
        model = self._model(options.knock_out)
        found: Any
        if verb.decode:
            config = self.decoding(**verb.settled(options, settings))
            found = generate_ids(model, self._vocabulary, rows, config)
        else:
            found = embed_ids(model, rows, pool=options.pool, normalise=options.normalise)
        return found[0] if is_ids(items) else found

    def outputs(self, texts: Sequence[str], **options: Any) -> list[list[Output]]:
        """The n best translations of each sentence, with log-probabilities and scores.

        Args:
            texts: Sentences.
            **options: As of `translate`; `prefixes` says how each is to begin.
        """
        verb = self._verb("translate")
        return self.answers(verb, texts, *verb.read((), options))

    def stream(self, text: str, **options: Any) -> Iterator[str]:
        """The translation as it grows: each text begins with the one before, the last is whole.

        Args:
            text: The sentence.
            **options: As of `translate`.

        Raises:
            InputError: As `translate`, before anything is computed.
        """
        verb = self._verb("translate")
        return accumulate(self.pieces(verb, text, *verb.read((), options)))

    def write(self, prompt: str, **options: Any) -> Iterator[str]:
        """What follows a prompt, piece by piece, as the text becomes certain.

        Args:
            prompt: What to go on from.
            **options: As of `generate`.
        """
        verb = self._verb("generate")
        return self.pieces(verb, prompt, *verb.read((), options))

    def decoding(self, **changes: Any) -> DecodeConfig:
        """The recipe's way of decoding with some changes, checked."""
        if not changes:
            return self.recipe.decode
        if "max_new_tokens" in changes:  # as transformers calls it
            if "max_length" in changes:
                raise InputError(
                    "max_new_tokens", got="max_length beside it", expected="one of the two"
                )
            changes["max_length"] = changes.pop("max_new_tokens")
        if changes.get("sample") is False:  # then how the recipe draws has nothing to say
            changes = {
                **{name: DecodeConfig.model_fields[name].default for name in DRAWING},
                **changes,
            }
        most = changes.get("max_length")
        if isinstance(most, int) and 0 < most < self.recipe.decode.min_length:
            changes = {"min_length": most, **changes}  # a short text is not asked to be long
        config = _changed(self.recipe, changes)
        check_roles(config, self.model)
        return config

    def measure(self, examples: Sequence[Any]) -> Measures:
        """How good a classifier, tagger or answerer is on examples with labels.

        Args:
            examples: `LabelledText`s, `TaggedWords` or `Question`s, of
                `regard.data.text.annotations`.
        """
        if not TASKS[self.recipe.task].head or not hasattr(self.task, "measure"):
            raise InputError(f"{self.name}", got=f"a model for {self.recipe.task}",
                             expected="one for classify, tag or answer")  # fmt: skip
        found: Measures = self.task.measure(self.model, examples)
        return found

    def words(
        self, word: str, sentences: Sequence[str], *, layer: int | None = None, count: int = 5
    ) -> Words:
        """A word's vector in each of several sentences, how alike these are, and what is near them.

        Args:
            word: The word.
            sentences: Where it occurs.
            layer: Take what leaves this block, from 0; None: the top.
            count: How many near words to list.
        """
        from regard.tasks.words import compare

        check_texts("words", [word, *sentences])
        tokenizer = self.vocabulary.source
        return compare(self.model, tokenizer, word, sentences, layer=layer, count=count)

    def logits(self, ids: Any, target_ids: Any = None, *, mask: Any = None) -> Any:
        """Logits of the token after each token (an encoder: at each token, or what its head gives).

        Args:
            ids: The ids of a text: (tokens, vocab) comes out. Of several, as lists: a list of
                these. As a tensor (batch, length): (batch, length, vocab), zeros at padding. With
                a head for classes, one row a text comes out. For a model of images: pixels as
                its reader normalises them, (batch, channels, height, width).
            target_ids: The same of the target, for an encoder-decoder, whose source `ids` are.
            mask: (batch, length) With a tensor: 1 for real tokens, 0 for padding, on either side.
        """
        return logits_of(self.model, ids, target_ids, mask)

    def look(
        self,
        text: Any,
        *,
        target: str | None = None,
        knock_out: Sequence[str] = (),
        allow_unknown: bool = False,
        **decode: Any,
    ) -> Look:
        """The attention of every layer and head while this sentence is translated, or restored.

        Args:
            text: The sentence; a text with holes, if the model restores such; an image's path or
                the image itself, if the model reads images.
            target: What to follow instead of searching for it.
            knock_out: Heads to take away, such as `decoder.1.cross.3`.
            allow_unknown: Look at words that a vocabulary of words does not have, too.
            **decode: What differs from the recipe's `decode`.
        """
        from regard.explain.look import look_of

        self._check_items("look", text)
        if (target is not None or decode) and self.model.config.sides == 1:
            raise InputError(
                "look", got="a target or a search", expected="a text alone, for a single stack"
            )
        self._check_attends("look")
        gone = _names(knock_out)
        trace = self.task.asked_of(text).trace(
            self.model,
            text,
            Tap("*.weights", edits=[knocked_out(head) for head in gone]),
            decode=self.decoding(**decode),
            target=target,
            allow_unknown=allow_unknown,
        )
        return look_of(trace, text, model=self.name, without=gone)

    def _check_attends(self, what: str) -> None:
        """Refuses a model that has no attention to look at."""
        if not self.model.heads():
            raise InputError(
                what,
                got=f"a {self.model.config.family} model without attention",
                expected="a model that attends",
                fix="train one with model.attention: additive"
                if hasattr(self.model.config, "attention")
                else None,
            )

    def heads(
        self, texts: Sequence[Any], progress: Callable[[int, int], None] | None = None
    ) -> list[HeadSummary]:
        """What each head does on these texts, and what breaks without it.

        Args:
            texts: Pairs of source and target; for a model of plain text, texts or their ids; for a
                classifier, tagger or answerer, examples as `measure` takes them.
            progress: Told how many heads of how many are done.
        """
        from regard.explain.heads import summarise

        self._check_attends("heads")
        kind = TASKS[self.recipe.task].kind
        ids_alone = self._vocabulary is None and not any(isinstance(each, str) for each in texts)
        task = kind(None) if ids_alone and kind.takes_ids else self.task
        passages = task.passages(self.model, texts)
        return summarise(self.model, passages, progress=progress)

    def evaluate(
        self,
        pairs: Sequence[Pair | tuple[str, str]],
        *,
        lowercase: bool = False,
        allow_unknown: bool = False,
        tell: Callable[[int], None] | None = None,
        **decode: Any,
    ) -> Evaluation:
        """Loss, perplexity, BLEU and chrF on pairs, and the translations.

        Args:
            pairs: Sources and targets; a `Pair` with `others` has several right targets.
            lowercase: Score without regard to case.
            allow_unknown: Score also what is mostly unknown words.
            tell: Told of the pairs that are done.
            **decode: What differs from the recipe's `decode`.

        Raises:
            FoundProblems: More than half of the words of one side are unknown.
        """
        found = self.translator().measure(
            self.model, pairs, self.decoding(**decode), lowercase=lowercase, tell=tell
        )
        if not allow_unknown:
            found.check()
        return found

    def quantised(self) -> Pipeline:
        """The same in 8 bits: to decode, score and look into, not to train or save."""
        from regard.layers.kernels.int8 import quantise

        twin = Pipeline(quantise(self.model), self._vocabulary, self.recipe, self.name)
        twin.parameters, twin.precision = self.parameters, "int8"
        return twin

    def save(self, folder: str | Path, *, store: str = "fp32") -> Path:
        """Writes a checkpoint folder that `regard.load` reads; nothing in it can run code.

        Args:
            folder: A new name, or an empty folder.
            store: `fp32`; `fp16` for half the size; `int8` for a quarter, matrices in 8 bits with
                a scale for each row. What is loaded is in 32 bits again, rounded so.
        """
        folder = Path(folder)
        checkpoint.write_folder(folder, self._snapshot(check_store(store, "store")))
        return folder

    def export(self, folder: str | Path) -> Path:
        """Writes a folder that Hugging Face transformers loads, with the same outputs."""
        from regard.hub.exchange import export

        decode = self.recipe.decode
        if self._vocabulary is not None:
            banned = {*decode.banned, *self.task.banned()}  # there, its config must say so
            decode = decode.model_copy(update={"banned": tuple(sorted(banned))})
        return export(self.model, self._vocabulary, decode, Path(folder))

    def _snapshot(self, store: str = "fp32") -> Snapshot:
        return Snapshot(
            step=0,
            weights=self.model.state_dict(),
            config=describe(self.model) | ({STORED: store} if store != "fp32" else {}),
            tokenizer="{}" if self._vocabulary is None else self._vocabulary.to_json(),
            recipe=recipes.dump(self.recipe),
        )

    def _model(self, gone: Sequence[str]) -> Any:
        """The model, without these heads if there are any."""
        return without(self.model, _names(gone)) if gone else self.model

    def __repr__(self) -> str:
        size = f"{self.parameters:,} parameters"
        return f"Pipeline({self.name!r}, {self.recipe.task}, {size}, {self.precision})"


def _changed(recipe: Recipe, changes: Mapping[str, Any]) -> DecodeConfig:
    """The recipe's decoding with some changes, each checked as a recipe's values are."""
    try:
        values = {**recipe.decode.model_dump(), **changes}
        return DecodeConfig.model_validate(values, strict=True)
    except ValidationError:  # the recipe has the words for what is wrong, and reads lists
        overrides = [f"decode.{key}={json.dumps(value)}" for key, value in changes.items()]
        return recipes.from_text(recipes.dump(recipe), "recipe", overrides).decode


def _own(options: Options) -> dict[str, Any]:
    """The options that a task takes by name; the heads that are away are the model's."""
    return {name: value for name, value in options if name != "knock_out"}


def no_tokenizer(name: str) -> InputError:
    """The error for a model that came without."""
    return InputError(
        f"{name} has no tokenizer",
        expected="tokenizer.json or a vocabulary file in its folder",
        fix="add one; without it a model takes ids alone: p.logits(ids), p.generate(ids)",
    )


def _names(heads: Sequence[str]) -> Sequence[str]:
    """The names of heads, given as one or several."""
    return [heads] if isinstance(heads, str) else heads
