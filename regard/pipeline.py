"""A model with all it needs to be used: what `regard.load` and `regard.train` return."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

from torch import Tensor

from regard import recipe as recipes
from regard.data.batch import Ragged
from regard.data.config import LabelledData
from regard.data.pair import Pair
from regard.decode.config import DRAWING, DecodeConfig
from regard.decode.engine import Step, stream
from regard.errors import InputError
from regard.exchange import export
from regard.explain.heads import (
    HeadSummary,
    Passages,
    holes_for,
    labels_for,
    masks_for,
    pairs_for,
    summarise,
    texts_for,
    vectors_for,
)
from regard.explain.look import Look
from regard.explain.record import record, record_text
from regard.ids import check_ids, check_roles, embed_ids, generate_ids, is_ids, logits_of, rows_of
from regard.layers import Tap, knock_out
from regard.layers.int8 import quantise
from regard.layers.without import without
from regard.models import Decoder, EncoderDecoder, Model, describe
from regard.recipe import Recipe
from regard.tasks import (
    TASKS,
    Answer,
    Classify,
    Filling,
    FoundAnswer,
    Generate,
    Labelled,
    Output,
    Reader,
    Restore,
    Restored,
    Suggestion,
    Tag,
    Tagged,
    Translate,
)
from regard.tasks.accuracy import Measures
from regard.tasks.metrics import Scores, score
from regard.tasks.reader import Text
from regard.tasks.supervised import Course, Supervised
from regard.tasks.unknown import Unknown
from regard.tasks.words import Words, compare
from regard.tokens import Token, Vocabulary, only_foreign
from regard.train import checkpoint
from regard.train.checkpoint import Snapshot

PRECISIONS = ("fp32", "int8")
AROUND = 3
"""Symbols that stand around a text, at most."""
TaskT = TypeVar("TaskT", Translate, Generate, Reader, Restore, Tag, Answer)
VERBS: dict[type, tuple[str, ...]] = {
    Translate: ("translate",),
    Generate: ("generate", "suggest"),
    Restore: ("generate", "restore"),
    Reader: ("embed",),
    Classify: ("classify", "embed"),
    Tag: ("tag", "embed"),
    Answer: ("answer", "embed"),
}
"""What a model of each kind of task can do."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How a pipeline does on a set of pairs."""

    loss: float
    perplexity: float
    scores: Scores
    hypotheses: tuple[str, ...]
    unknown_source: Unknown
    """How much of the sources the vocabulary does not have."""
    unknown_target: Unknown
    """The same of the targets."""
    lowercase: bool = False
    """Whether targets were scored without regard to case."""

    def to_json(self) -> dict[str, Any]:
        """The numbers, without the hypotheses."""
        found = {"loss": self.loss, "perplexity": self.perplexity}
        sides = {"source": self.unknown_source.share, "target": self.unknown_target.share}
        return {**found, **asdict(self.scores), "unknown": sides}

    def check(self) -> None:
        """Refuses scores of texts that the model cannot read.

        Raises:
            FoundProblems: More than half of the words of one side are unknown.
        """
        self.unknown_source.check("the words of the sources")
        if not self.lowercase:  # else words may be unknown for their case alone
            self.unknown_target.check("the words of the targets")


class Pipeline:
    """Text in, text out, and everything in between to look at.

    Args:
        model: The plain module.
        vocabulary: Text <-> ids; None for a model that came without, which then takes ids alone.
        recipe: What it was made by.
        name: What to call it.
    """

    def __init__(
        self, model: Model, vocabulary: Vocabulary | None, recipe: Recipe, name: str = "model"
    ) -> None:
        self.model: Any = model.eval()
        self._vocabulary, self.recipe, self.name = vocabulary, recipe, name
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        self.precision = "fp32"

    @property
    def vocabulary(self) -> Vocabulary:
        """Text <-> ids.

        Raises:
            InputError: The model came without.
        """
        if self._vocabulary is None:
            raise no_tokenizer(self.name)
        return self._vocabulary

    def tokens(self, text: str, *, target: bool = False) -> list[Token]:
        """The tokens of a text as the model gets it: the first step of all the others.

        Args:
            text: Any text.
            target: Whether to read it as the side that a translator writes.
        """
        return self.vocabulary.tokens(text, target=target)

    @cached_property
    def task(self) -> Any:
        """How text becomes what the model reads, and back."""
        kind, data = TASKS[self.recipe.task], self.recipe.data
        if issubclass(kind, Supervised) and isinstance(data, LabelledData):
            read = Course(data.longest, data.overlap, data.unanswerable)  # as in training
            return kind(self.vocabulary, course=read)
        return kind(self.vocabulary)

    @cached_property
    def _restore(self) -> Restore | None:
        """How holes are filled; a model of text to text whose vocabulary has sentinels can, too."""
        if isinstance(self.task, Translate) and Restore.can(self.vocabulary):
            return Restore(self.vocabulary)
        return self.task if isinstance(self.task, Restore) else None

    def has_holes(self, text: str) -> bool:
        """Whether a text is one to restore: all are to a model for that, else those with a hole."""
        found = self._restore
        return found is not None and (found is self.task or found.has_sentinel(text))

    def _verbs(self) -> list[str]:
        """What the model can do."""
        more = ["restore"] if isinstance(self.task, Translate) and self._restore else []
        if type(self.task) is Reader:
            heads = {"fill": self.model.masked, "classify": self.model.classes}
            more = [verb for verb, head in heads.items() if head is not None]
        return [*VERBS[type(self.task)], *more]

    def _able(self, kind: type[TaskT], verb: str) -> TaskT:
        """The task, if the model is of the kind that can do this."""
        if not isinstance(self.task, kind):
            can = ", ".join(self._verbs())
            raise InputError(
                f"{self.name} cannot {verb}",
                got=f"a {self.model.config.family} model for {self.recipe.task}",
                fix=f"it can {can}",
            )
        return self.task

    def translator(self) -> Translate:
        """How sentences are read and translated.

        Raises:
            InputError: The model does something else.
        """
        return self._able(Translate, "translate")

    @overload
    def translate(self, texts: str, **decode: Any) -> str: ...
    @overload
    def translate(self, texts: Sequence[str], **decode: Any) -> list[str]: ...
    def translate(self, texts: str | Sequence[str], **decode: Any) -> str | list[str]:
        """The best translation of a sentence, or of each of several.

        Args:
            texts: One sentence or several.
            **decode: What differs from the recipe's `decode`, such as `beam=4`; also
                `prefixes`, `knock_out` and `allow_unknown`.
        """
        if isinstance(texts, str):
            return self.outputs([texts], **decode)[0][0].text
        return [best.text for best, *_ in self.outputs(texts, **decode)]

    def outputs(
        self,
        texts: Sequence[str],
        *,
        prefixes: Sequence[str] | None = None,
        knock_out: Sequence[str] = (),
        allow_unknown: bool = False,
        **decode: Any,
    ) -> list[list[Output]]:
        """The n best translations of each sentence, with log-probabilities and scores.

        Args:
            texts: Sentences.
            prefixes: How each translation is to begin.
            knock_out: Heads to take away, such as `decoder.1.cross.3`.
            allow_unknown: Go on around words that a vocabulary of words does not have.
            **decode: What differs from the recipe's `decode`.

        Raises:
            InputError: A text is empty or too long, or has unknown words that are not allowed.
        """
        check_texts("translate", texts)
        return self.translator().predict(
            self.model,
            texts,
            self.decoding(**decode),
            prefixes=prefixes,
            tap=self._without(knock_out) if knock_out else None,
            allow_unknown=allow_unknown,
        )

    def stream(
        self,
        text: str,
        *,
        prefix: str = "",
        knock_out: Sequence[str] = (),
        allow_unknown: bool = False,
        **decode: Any,
    ) -> Iterator[str]:
        """The translation as it grows: each text begins with the one before, the last is whole.

        Nothing is taken back. In beam search a word is shown once all beams have it, so that a
        translation grows by several words at a time.

        Args:
            text: The sentence.
            prefix: How the translation is to begin.
            knock_out: Heads to take away, such as `decoder.1.cross.3`.
            allow_unknown: Go on around words that a vocabulary of words does not have.
            **decode: What differs from the recipe's `decode`.

        Raises:
            InputError: As `outputs`, before anything is computed.
        """
        check_texts("translate", text)
        longest, task = self.model.config.max_length, self.translator()
        source = Ragged.of([task.source_ids(text, longest, allow_unknown=allow_unknown)])
        return self._grown(
            stream(
                self.model,
                source,
                task.symbols(),
                self.decoding(**decode),
                prefixes=[task.opening(prefix, longest)],
                tap=self._without(knock_out) if knock_out else None,
                limit=longest,
            )
        )

    def _grown(self, steps: Iterator[Step]) -> Iterator[str]:
        """The text of one sentence, whenever more of it is certain; at the end, all of it."""
        writer, shown, said = self.vocabulary.target.writer(), "", 0
        for step in steps:
            for ids in step.settled:
                more = "".join(map(writer.push, ids[said:]))
                said = len(ids)
                if more:
                    shown += more
                    yield shown
            for _, hypotheses in step.done:
                whole = self.translator().written(hypotheses[0].ids)
                if whole != shown or not shown:
                    yield whole

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
        overrides = [f"decode.{key}={json.dumps(value)}" for key, value in changes.items()]
        config = recipes.from_text(recipes.dump(self.recipe), "recipe", overrides).decode
        check_roles(config, self.model)
        return config

    def generate(
        self, prompts: Any, *, mask: Any = None, knock_out: Sequence[str] = (), **decode: Any
    ) -> Any:
        """What follows a prompt, or each of several, without the prompt itself.

        Args:
            prompts: A text, texts, the ids of one, or the ids of several. Ids give ids. An
                encoder-decoder reads them as sources.
            mask: (batch, length) Beside ids in rows: 1 for real ones, 0 for padding, on either
                side.
            knock_out: Heads to take away, such as `decoder.1.self.3`.
            **decode: What differs from the recipe's `decode`, such as `sample=True`;
                `max_new_tokens` is another name of `max_length`.
        """
        one = isinstance(prompts, str) or is_ids(prompts)
        several = [prompts] if one else list(prompts)
        check_texts("generate", several)
        model = self._model(knock_out)
        found: list[Any]
        if mask is not None and several and isinstance(several[0], str):
            raise InputError("mask", got="texts", expected="ids beside it")
        if several and is_ids(several[0]):
            rows, _ = rows_of(prompts, mask)
            found = generate_ids(model, self._vocabulary, rows, self.decoding(**decode))
        elif isinstance(self.model, EncoderDecoder):
            found = self._rewritten(several, knock_out=knock_out, **decode)
        else:
            task, longest = self._able(Generate, "generate"), self.model.config.max_length
            config = self.decoding(**decode)
            ids = [task.begun(text, longest, config) for text in several]
            outputs = task.predict(model, ids, config)
            found = [best.text for best, *_ in outputs]
        return found[0] if one else found

    def restore(self, text: str, *, knock_out: Sequence[str] = (), **decode: Any) -> Restored:
        """A text whose holes (`<extra_id_0>`, or `___`) are filled, and what was put into each.

        Args:
            text: With holes.
            knock_out: Heads to take away, such as `decoder.1.cross.3`.
            **decode: What differs from the recipe's `decode`, such as `beam=4`.
        """
        check_texts("restore", text)
        task = self._restore or self._able(Restore, "restore")
        if not task.has_hole(text):
            raise InputError("restore", got="no hole in the text", expected="___ where words miss")
        model = self._model(knock_out)
        [[best, *_]] = task.predict(model, [text], self.decoding(**decode))
        return task.restored(text, best, self.model.config.max_length)

    def _rewritten(
        self,
        texts: Sequence[str],
        *,
        knock_out: Sequence[str],
        allow_unknown: bool = False,
        **decode: Any,
    ) -> list[str]:
        """What an encoder-decoder makes of each text: of one with holes, what is missing there."""
        holed = [self.has_holes(text) for text in texts]
        plain = [text for text, hole in zip(texts, holed, strict=True) if not hole]
        known = {**decode, "knock_out": knock_out, "allow_unknown": allow_unknown}
        translated = iter(self.translate(plain, **known) if plain else ())
        if self._restore is None or len(plain) == len(texts):
            return list(translated)
        torn = [text for text, hole in zip(texts, holed, strict=True) if hole]
        model = self._model(knock_out)
        restored = iter(self._restore.predict(model, torn, self.decoding(**decode)))
        return [next(restored)[0].text if hole else next(translated) for hole in holed]

    def write(self, prompt: str, *, knock_out: Sequence[str] = (), **decode: Any) -> Iterator[str]:
        """The same for one prompt, piece by piece, as the text becomes certain."""
        check_texts("generate", prompt)
        task = self._able(Generate, "generate")
        config, model = self.decoding(**decode), self._model(knock_out)
        return task.write(model, task.begun(prompt, model.config.max_length, config), config)

    def suggest(
        self, text: str, count: int = 3, *, knock_out: Sequence[str] = ()
    ) -> list[Suggestion]:
        """The likeliest next words with their probabilities, as a phone offers them."""
        check_texts("suggest", text)
        return self._able(Generate, "suggest").suggest(self._model(knock_out), text, count)

    @overload
    def fill(
        self, texts: str, count: int = 5, *, knock_out: Sequence[str] = ()
    ) -> list[list[Filling]]: ...
    @overload
    def fill(
        self, texts: list[str], count: int = 5, *, knock_out: Sequence[str] = ()
    ) -> list[list[list[Filling]]]: ...
    def fill(
        self, texts: str | list[str], count: int = 5, *, knock_out: Sequence[str] = ()
    ) -> list[list[Filling]] | list[list[list[Filling]]]:
        """For each `[MASK]` of a text, or of each of several, the likeliest words."""
        check_texts("fill", texts)
        one, task = isinstance(texts, str), self._able(Reader, "fill")
        found = task.fill(
            self._model(knock_out), [texts] if isinstance(texts, str) else texts, count
        )
        return found[0] if one else found

    @overload
    def classify(self, texts: Text, *, knock_out: Sequence[str] = ()) -> list[Labelled]: ...
    @overload
    def classify(
        self, texts: list[Text], *, knock_out: Sequence[str] = ()
    ) -> list[list[Labelled]]: ...
    def classify(
        self, texts: Text | list[Text], *, knock_out: Sequence[str] = ()
    ) -> list[Labelled] | list[list[Labelled]]:
        """The classes of a text (or pair), or of each of several, likeliest first."""
        check_texts("classify", texts)
        task, several = self._able(Reader, "classify"), isinstance(texts, list)
        found = task.classify(self._model(knock_out), texts if isinstance(texts, list) else [texts])
        return found if several else found[0]

    @overload
    def tag(self, text: str | list[str], *, knock_out: Sequence[str] = ()) -> list[Tagged]: ...
    @overload
    def tag(
        self, text: list[list[str]], *, knock_out: Sequence[str] = ()
    ) -> list[list[Tagged]]: ...
    def tag(
        self, text: str | list[str] | list[list[str]], *, knock_out: Sequence[str] = ()
    ) -> list[Tagged] | list[list[Tagged]]:
        """The tag of each word of a text with its probability; longer texts are read in windows.

        Args:
            text: A text, or its words; or the words of each of several.
            knock_out: Heads to take away, such as `encoder.1.self.3`.
        """
        if isinstance(text, str):
            check_texts("tag", text)
        one = isinstance(text, str) or not text or isinstance(text[0], str)
        several: Any = [text] if one else text
        spaced = [word for words in several if not isinstance(words, str)
                  for word in words if not word or set(word) & set(" \t\r\n")]  # fmt: skip
        if spaced:
            fix = "for several texts: p.tag([text.split() for text in texts])"
            raise InputError("tag", got=f"the word {spaced[0]!r}", expected="one word", fix=fix)
        found = self._able(Tag, "tag").tag(self._model(knock_out), several)
        return found[0] if one else found

    @overload
    def answer(
        self, question: str, context: str, count: int = 1, *, unanswerable: bool | None = None,
        knock_out: Sequence[str] = (),
    ) -> list[FoundAnswer]: ...  # fmt: skip
    @overload
    def answer(
        self, question: list[str], context: str | list[str], count: int = 1,
        *, unanswerable: bool | None = None, knock_out: Sequence[str] = (),
    ) -> list[list[FoundAnswer]]: ...  # fmt: skip
    def answer(
        self,
        question: str | list[str],
        context: str | list[str],
        count: int = 1,
        *,
        unanswerable: bool | None = None,
        knock_out: Sequence[str] = (),
    ) -> list[FoundAnswer] | list[list[FoundAnswer]]:
        """The likeliest answers to a question, cut out of a text, best first; or to several.

        Args:
            question: What to look for.
            context: Where to look, for all questions or for each; a longer one than the model
                reads is read in windows.
            count: How many answers.
            unanswerable: Whether "no answer", an empty one, is allowed. None: as trained.
            knock_out: Heads to take away, such as `encoder.1.self.3`.
        """
        task = self._able(Answer, "answer")
        questions = [question] if isinstance(question, str) else list(question)
        contexts = [context] * len(questions) if isinstance(context, str) else list(context)
        if len(contexts) != len(questions):
            raise InputError("contexts", got=len(contexts), expected=f"one, or {len(questions)}")
        for name, given in (("the question", questions), ("the context", contexts)):
            check_texts(name, given)
        pairs = list(zip(questions, contexts, strict=True))
        found = task.answer(self._model(knock_out), pairs, count, unanswerable=unanswerable)
        return found[0] if isinstance(question, str) else found

    def measure(self, examples: Sequence[Any]) -> Measures:
        """How good a classifier, tagger or answerer is on examples with labels.

        Args:
            examples: `LabelledText`s, `TaggedWords` or `Question`s of `regard.data.annotations`.
        """
        if not isinstance(self.task, Supervised):
            raise InputError(f"{self.name}", got=f"a model for {self.recipe.task}",
                             expected="one for classify, tag or answer")  # fmt: skip
        return self.task.measure(self.model, examples)

    def embed(
        self,
        texts: Any,
        *,
        pool: str = "mean",
        normalise: bool = True,
        knock_out: Sequence[str] = (),
    ) -> Tensor:
        """A vector for a text, (dim,), or for each of several, (texts, dim).

        Args:
            texts: One or several, or the ids of one or several.
            pool: `mean` of all tokens, or `cls`: the first.
            normalise: Whether vectors have length 1, so that their product is their cosine.
            knock_out: Heads to take away, such as `encoder.1.self.3`.
        """
        one = isinstance(texts, str) or is_ids(texts)
        several = [texts] if one else list(texts)
        check_texts("embed", several)
        model = self._model(knock_out)
        if several and is_ids(several[0]):
            found = embed_ids(model, several, pool=pool, normalise=normalise)
        else:
            task = self._able(Reader, "embed")
            found = task.embed(model, several, pool=pool, normalise=normalise)
        return found[0] if one else found

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
        check_texts("words", [word, *sentences])
        tokenizer = self.vocabulary.source
        return compare(self.model, tokenizer, word, sentences, layer=layer, count=count)

    def logits(self, ids: Any, target_ids: Any = None, *, mask: Any = None) -> Any:
        """Logits of the token after each token (an encoder: at each token, or what its head gives).

        Args:
            ids: The ids of a text: (tokens, vocab) comes out. Of several, as lists: a list of
                these. As a tensor (batch, length): (batch, length, vocab), zeros at padding. With
                a head for classes, one row a text comes out.
            target_ids: The same of the target, for an encoder-decoder, whose source `ids` are.
            mask: (batch, length) With a tensor: 1 for real tokens, 0 for padding, on either side.
        """
        return logits_of(self.model, ids, target_ids, mask)

    def look(
        self,
        text: str,
        *,
        target: str | None = None,
        knock_out: Sequence[str] = (),
        allow_unknown: bool = False,
        **decode: Any,
    ) -> Look:
        """The attention of every layer and head while this sentence is translated, or restored.

        Args:
            text: The sentence; a text with holes, if the model restores such.
            target: What to follow instead of searching for it.
            knock_out: Heads to take away, such as `decoder.1.cross.3`.
            allow_unknown: Look at words that a vocabulary of words does not have, too.
            **decode: What differs from the recipe's `decode`.
        """
        check_texts("look", text)
        if not isinstance(self.model, EncoderDecoder):
            if target is not None or decode:
                raise InputError(
                    "look", got="a target or a search", expected="a text alone, for a single stack"
                )
            return record_text(
                self.model, only_foreign(self.vocabulary), text, without=knock_out, name=self.name
            )
        holes = self._restore if self.has_holes(text) else None
        if holes is None:
            most = self.model.config.max_length
            self.translator().source_ids(text, most, allow_unknown=allow_unknown)
        return record(
            self.model,
            holes or self.translator(),
            text,
            decode=self.decoding(**decode),
            target=target,
            without=knock_out,
            name=self.name,
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
        model, passages = self.model, list[Passages]()
        if isinstance(model, Decoder):
            passages = texts_for(model, self._plain(texts, model.config.max_length + 1))
        elif isinstance(task := self.task, Supervised):
            if not texts:
                raise InputError("heads", got="no example", expected="some, with labels")
            passages = labels_for(model, task, texts)
        elif isinstance(task, Restore):
            rows = self._plain(texts, task.room(model.config.max_length))
            passages = holes_for(model, task, rows)
        elif isinstance(task, Reader):
            rows = self._plain(texts, model.config.max_length - AROUND)
            masked = model.masked is not None
            passages = (
                masks_for(model, task.tokenizer, rows) if masked else vectors_for(model, task, rows)
            )
        else:
            passages = pairs_for(model, self.translator(), _pairs(texts))
        return summarise(model, passages, progress=progress)

    def _plain(self, texts: Sequence[Any], most: int) -> list[list[int]]:
        """Texts or their ids as rows of ids, at least two of each and at most as many as said."""
        several: Sequence[Any] = [texts] if isinstance(texts, str) or is_ids(texts) else texts
        check_texts("heads", several)
        rows = [each if is_ids(each) else self._encoded(each, most) for each in several]
        rows = [list(row[:most]) for row in rows if len(row) > 1]
        for row in rows:
            check_ids(row[1:], self.model)
            check_ids(row[:1], self.model)
        if not rows:
            raise InputError("heads", got="no text of two tokens", expected="some")
        return rows

    def _encoded(self, text: str, most: int) -> list[int]:
        if isinstance(self.task, Generate):
            return self.task.prompt(text, most)
        return self.vocabulary.source.encode(text)[:most]

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
            pairs: Sources and targets.
            lowercase: Score without regard to case.
            allow_unknown: Score also what is mostly unknown words.
            tell: Told of the pairs that are done.
            **decode: What differs from the recipe's `decode`.

        Raises:
            FoundProblems: More than half of the words of one side are unknown.
        """
        pairs = _pairs(pairs)
        task, both = self.translator(), self.vocabulary
        sources, targets = [each.source for each in pairs], [each.target for each in pairs]
        encoded = task.readable(pairs, self.model.config.max_length)
        measured = task.evaluate(self.model, encoded)
        outputs = task.predict(self.model, sources, self.decoding(**decode), tell=tell)
        hypotheses = [best.text for best, *_ in outputs]
        found = Evaluation(
            measured["loss"],
            measured["perplexity"],
            score(hypotheses, targets, lowercase=lowercase),
            tuple(hypotheses),
            Unknown.of(both.source, sources),
            Unknown.of(both.target, targets),
            lowercase=lowercase,
        )
        if not allow_unknown:
            found.check()
        return found

    def quantised(self) -> Pipeline:
        """The same in 8 bits: to decode, score and look into, not to train or save."""
        twin = Pipeline(quantise(self.model), self._vocabulary, self.recipe, self.name)
        twin.parameters, twin.precision = self.parameters, "int8"
        return twin

    def save(self, folder: str | Path) -> Path:
        """Writes a checkpoint folder that `regard.load` reads; nothing in it can run code."""
        folder = Path(folder)
        checkpoint.write_folder(folder, self._snapshot())
        return folder

    def export(self, folder: str | Path) -> Path:
        """Writes a folder that Hugging Face transformers loads, with the same outputs."""
        decode = self.recipe.decode
        if self._vocabulary is not None and isinstance(self.task, Translate):
            banned = {*decode.banned, *self.task.symbols().banned}  # there, its config must say so
            decode = decode.model_copy(update={"banned": tuple(sorted(banned))})
        return export(self.model, self._vocabulary, decode, Path(folder))

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            step=0,
            weights=self.model.state_dict(),
            config=describe(self.model),
            tokenizer="{}" if self._vocabulary is None else self._vocabulary.to_json(),
            recipe=recipes.dump(self.recipe),
        )

    def _without(self, heads: Sequence[str]) -> Tap:
        return Tap(edits=[knock_out(head) for head in _names(heads)])

    def _model(self, gone: Sequence[str]) -> Any:
        """The model, without these heads if there are any."""
        return without(self.model, _names(gone)) if gone else self.model

    def __repr__(self) -> str:
        size = f"{self.parameters:,} parameters"
        return f"Pipeline({self.name!r}, {self.recipe.task}, {size}, {self.precision})"


def no_tokenizer(name: str) -> InputError:
    """The error for a model that came without."""
    return InputError(
        f"{name} has no tokenizer",
        expected="tokenizer.json or a vocabulary file in its folder",
        fix="add one; without it a model takes ids alone: p.logits(ids), p.generate(ids)",
    )


def check_texts(verb: str, texts: Any) -> None:
    """Refuses an empty text among one or several, or pairs of them; ids are no texts."""
    for text in [texts] if isinstance(texts, str | tuple) else texts:
        for part in text if isinstance(text, tuple) else (text,):
            if isinstance(part, str) and not part.strip():
                raise InputError(verb, got="an empty text", expected="some words")


def _names(heads: Sequence[str]) -> Sequence[str]:
    """The names of heads, given as one or several."""
    return [heads] if isinstance(heads, str) else heads


def _pairs(pairs: Sequence[Pair | tuple[str, str]]) -> list[Pair]:
    """Pairs of (source, target) as `Pair`s; at least one."""
    if not pairs:
        raise InputError("pairs", got="none", expected="at least one (source, target)")
    return [pair if isinstance(pair, Pair) else Pair(*pair) for pair in pairs]
