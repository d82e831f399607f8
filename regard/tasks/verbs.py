"""The verbs: what a model can be asked to do, with the options and how answers are shown.

A verb is listed in the `TaskSpec` of each task that has it, and is a method of the task's class.
Its options are defined once, in `options.py`, for the command line, for Python and for the checks.
`Pipeline.run` calls the method; `regard/cli/verbs.py` makes a command of the verb. This file is
loaded by `regard --help` and therefore imports almost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from regard.errors import InputError
from regard.runtime.lazy import imported

if TYPE_CHECKING:
    from regard.decode.config import DecodeConfig
    from regard.tasks.options import VerbOptions

SAMPLING_SETTINGS = ("temperature", "top_k", "top_p", "min_p")
"""As in `decode.config`, which imports pydantic: `regard --help` does without it."""
REPETITION_SETTINGS = ("repetition_penalty", "no_repeat_ngram")
MAX_NEW_TOKENS = "--max-new-tokens"
"""The name that transformers uses for the maximum length of an output."""
OTHER_NAMES = {"count": "top", "prefixes": "prefix"}
"""Former names of options, which still work."""


class Verb:
    """Something that a model can do with texts or images.

    Attributes:
        name: The name of the command, of the method of `Pipeline`, and of the method of the task.
        help: What the verb does, in a sentence.
        options_at: The import path of the class of its options, imported on use. In Python,
            positional arguments after the items fill the fields in order.
        decode: The decoding settings that the command offers. If there are any, the Python method
            takes all decoding settings.
        command_defaults: The command's own defaults of decoding settings.
        reading: The method of the task that reads the items, before the verb's own is called.
        noun: The name of an item in the help of the command.
        key: The key of an item in JSON output.
        other_flags: Additional flags of options at the command line, by option.
        takes_ids: Whether items may be token ids, as for a model without a tokenizer.
        streams: When the command streams answers: `never`, `optional` (with --stream) or `always`.
        echoes_prompt: Whether a streamed answer is printed after its item, which it continues.
        needs_all_items: Whether the command needs all items before it can print an answer.
        expands: Whether an argument may stand for several items: a table for its rows, a folder for
            its images.
        empty_row: The JSON fields printed in place of an answer for a line that cannot be read.
        lists_unknown: Whether JSON output lists the unknown words of an item.
        pictures: The endings of files to which the command can draw where the model looked; empty
            if it draws nothing.
    """

    name: ClassVar[str]
    help: ClassVar[str]
    options_at: ClassVar[str] = "regard.tasks.options.VerbOptions"
    decode: ClassVar[tuple[str, ...]] = ()
    command_defaults: ClassVar[Mapping[str, Any]] = {}
    reading: ClassVar[str] = "read"
    noun: ClassVar[str] = "TEXT"
    key: ClassVar[str] = "text"
    other_flags: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    takes_ids: ClassVar[bool] = False
    streams: ClassVar[str] = "never"
    echoes_prompt: ClassVar[bool] = False
    needs_all_items: ClassVar[bool] = False
    expands: ClassVar[bool] = False
    empty_row: ClassVar[Mapping[str, Any]] = {}
    lists_unknown: ClassVar[bool] = False
    pictures: ClassVar[tuple[str, ...]] = ()

    @property
    def options(self) -> type[VerbOptions]:
        """The class of the verb's options."""
        return imported(self.options_at)

    def parse_options(
        self, positions: Sequence[Any], named_options: Mapping[str, Any]
    ) -> tuple[VerbOptions, dict[str, Any]]:
        """Separates and checks the options of a call.

        Args:
            positions: Positional options, in the order of the fields of `options`.
            named_options: Options by name; names that are not the verb's own are decoding settings.

        Returns:
            The checked options of the verb, and the decoding settings, not yet checked.

        Raises:
            InputError: An option is not known or not valid.
        """
        by_position = [name for name in self.options.model_fields if name != "knock_out"]
        names = [*by_position, "knock_out"]
        if len(positions) > len(by_position):
            expected_count = f"at most {len(by_position)}: {', '.join(by_position)}"
            expected = expected_count if by_position else "none"
            raise InputError(self.name, got=f"{len(positions)} options", expected=expected)
        values = dict(zip(by_position, positions, strict=False))
        settings = dict[str, Any]()
        for name, value in named_options.items():
            option = OTHER_NAMES.get(name, name)
            if option not in names:
                settings[name] = value
            elif value is not None or option == "unanswerable":
                values[option] = tuple(value) if isinstance(value, list) else value
        if settings and not self.decode:
            got, expected = next(iter(settings)), ", ".join(names)
            raise InputError(f"an option of {self.name}", got=got, expected=expected)
        if isinstance(head := values.get("knock_out"), str):
            values["knock_out"] = (head,)
        from pydantic import ValidationError

        from regard.config import input_error

        try:
            options = self.options.model_validate(values)
        except ValidationError as error:
            raise input_error(error, self.name) from None
        return options, self.decode_settings(options, settings)

    def decode_settings(self, options: Any, settings: dict[str, Any]) -> dict[str, Any]:
        """The decoding settings, completed by options of the verb that imply some."""
        del options
        return settings

    def command_settings(
        self, options: Any, settings: Mapping[str, Any], config: DecodeConfig
    ) -> dict[str, Any]:
        """The decoding settings of a command: those that were typed, and the command's defaults."""
        del options, config
        return {**self.command_defaults, **settings}

    def is_single(self, items: Any) -> bool:
        """Whether `items` is a single item rather than a sequence of items."""
        return isinstance(items, str)

    def takes(self, item: Any) -> bool:
        """Whether something that is no text can be an item, such as a pair of texts."""
        del item
        return False

    def item(self, line: str) -> Any:
        """Converts a line of a file to an item."""
        return line

    def lines(self, answer: Any) -> list[str]:
        """Formats an answer as lines of text."""
        raise NotImplementedError

    def command_lines(self, answer: Any, options: Any) -> list[str]:
        """Formats an answer for the command line, where options may select parts of it."""
        del options
        return self.lines(answer)

    def to_json(self, answer: Any) -> dict[str, Any]:
        """Converts an answer to JSON fields, which are printed together with the item."""
        raise NotImplementedError

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        """Converts an answer to JSON objects: one, unless an item has several answers."""
        return [self.to_json(answer)]

    def ranks(self, options: Any) -> bool:
        """Whether the output ranks the items, best first, instead of one answer per item."""
        del options
        return False

    def blank(self, settings: Mapping[str, Any]) -> list[str]:
        """The lines of text printed in place of an answer for a line that cannot be read."""
        del settings
        return [""]

    def value(self, answer: Any) -> Any:
        """Converts an answer to the return value of the Python method."""
        return answer

    def together(self, answers: Sequence[Any], options: Any) -> Any:
        """Converts the answers to several items to the return value of the Python method."""
        del options
        return [self.value(answer) for answer in answers]


def is_pair(item: Any) -> bool:
    """Whether an item is a pair of texts; the second may be None."""
    if not isinstance(item, list | tuple) or len(item) != 2:
        return False
    return isinstance(item[0], str) and isinstance(item[1], str | None)


def format_words(words: Sequence[Any]) -> str:
    """Formats words with their probabilities on one line."""
    return "  ".join(f"{word.word} {word.probability:.0%}" for word in words)


class _Translate(Verb):
    name = "translate"
    help = "Translate sentences, the lines of a file, or those of a pipe."
    options_at = "regard.tasks.options.TranslateOptions"
    decode = (
        "beam", "n_best", "sample", *SAMPLING_SETTINGS, "max_length", "min_length",
        "length_penalty", *REPETITION_SETTINGS, "seed",
    )  # fmt: skip
    other_flags: ClassVar[Mapping[str, tuple[str, ...]]] = {"max_length": (MAX_NEW_TOKENS,)}
    key = "source"
    streams = "optional"
    empty_row: ClassVar[Mapping[str, Any]] = {"translations": []}
    lists_unknown = True

    def command_settings(
        self, options: Any, settings: Mapping[str, Any], config: DecodeConfig
    ) -> dict[str, Any]:
        del options
        settings = dict(settings)
        if "beam" not in settings and settings.get("sample"):
            settings["beam"] = 1
        elif "beam" not in settings and "n_best" in settings:
            settings["beam"] = max(config.beam, settings["n_best"])
        return settings

    def lines(self, answer: Any) -> list[str]:
        return [output.text for output in answer]

    def to_json(self, answer: Any) -> dict[str, Any]:
        return {
            "translations": [
                {
                    "text": output.text,
                    "logprob": output.logprob,
                    "score": output.score,
                    "finished": output.hypothesis.finished,
                }
                for output in answer
            ]
        }

    def blank(self, settings: Mapping[str, Any]) -> list[str]:
        return [""] * settings.get("n_best", 1)  # keeps the number of lines per input constant

    def value(self, answer: Any) -> Any:
        return answer[0].text


class _Caption(_Translate):
    name = "caption"
    help = "Write a caption for each image file."
    options_at = "regard.tasks.options.CaptionOptions"
    noun = "FILE"
    key = "file"
    empty_row: ClassVar[Mapping[str, Any]] = {"captions": []}
    lists_unknown = False
    pictures = (".html", ".png", ".gif", ".svg", ".pdf")

    def to_json(self, answer: Any) -> dict[str, Any]:
        return {"captions": super().to_json(answer)["translations"]}


class _Generate(Verb):
    name = "generate"
    help = "Continue each prompt; the text is printed while it is generated."
    options_at = "regard.tasks.options.GenerateOptions"
    decode = ("max_length", "beam", *SAMPLING_SETTINGS, *REPETITION_SETTINGS, "no_copy", "seed")
    command_defaults: ClassVar[Mapping[str, Any]] = {"max_length": 200}
    other_flags: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "max_length": ("--tokens", MAX_NEW_TOKENS)
    }
    reading = "read_prompts"
    takes_ids = True
    streams = "always"
    echoes_prompt = True

    def decode_settings(self, options: Any, settings: dict[str, Any]) -> dict[str, Any]:
        return {"sample": False, **settings} if options.greedy else settings

    def command_settings(
        self, options: Any, settings: Mapping[str, Any], config: DecodeConfig
    ) -> dict[str, Any]:
        values = super().command_settings(options, settings, config)
        # If the recipe sets a beam, as for a translator, the model samples only if asked to.
        searches = "beam" in values or (config.beam > 1 and not {*SAMPLING_SETTINGS} & {*values})
        if options.greedy or searches:
            return {**values, "sample": False}
        return {**values, "sample": True, "beam": 1}

    def lines(self, answer: Any) -> list[str]:
        return list(answer)

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return [{"more": text} for text in answer]

    def value(self, answer: Any) -> Any:
        return answer[0] if len(answer) == 1 else list(answer)


class _Suggest(Verb):
    name = "suggest"
    help = "Suggest the most probable next words, as a phone keyboard does."
    options_at = "regard.tasks.options.SuggestOptions"
    reading = "read_beginnings"

    def lines(self, answer: Any) -> list[str]:
        return [format_words(answer)]

    def to_json(self, answer: Any) -> dict[str, Any]:
        return {"words": [asdict(word) for word in answer]}


class _Fill(Verb):
    name = "fill"
    help = "Print the most probable words for each [MASK] in a text."
    options_at = "regard.tasks.options.FillOptions"
    reading = "read_masks"

    def lines(self, answer: Any) -> list[str]:
        return [" | ".join(map(format_words, answer))]

    def to_json(self, answer: Any) -> dict[str, Any]:
        return {"masks": [[asdict(word) for word in mask] for mask in answer]}


class _Restore(Verb):
    name = "restore"
    help = "Fill the gaps in each text, written <extra_id_0>, <extra_id_1>, …, or ___."
    decode = ("beam",)

    def lines(self, answer: Any) -> list[str]:
        return [" ".join(answer.text.split())]

    def to_json(self, answer: Any) -> dict[str, Any]:
        return {"restored": answer.text, "spans": answer.spans}


class _Classify(Verb):
    name = "classify"
    help = "Classify each text or image file; a tab separates the two texts of a pair."
    options_at = "regard.tasks.options.ClassifyOptions"
    noun = "TEXT|FILE"

    def is_single(self, items: Any) -> bool:
        return not isinstance(items, list)  # a pair of texts is a single item

    def takes(self, item: Any) -> bool:
        return is_pair(item)

    def item(self, line: str) -> Any:
        first, tab, second = line.partition("\t")
        return (first, second) if tab else first

    def lines(self, answer: Any) -> list[str]:
        return [f"{answer[0].label}\t{answer[0].probability:.3f}"]

    def command_lines(self, answer: Any, options: Any) -> list[str]:
        if options.top is None:
            return self.lines(answer)
        return ["  ".join(f"{label.label} {label.probability:.3f}" for label in answer)]

    def to_json(self, answer: Any) -> dict[str, Any]:
        return {"classes": {label.label: label.probability for label in answer}}


class _Tag(Verb):
    name = "tag"
    help = "Tag each word; with --json also list the named entities."

    def is_single(self, items: Any) -> bool:
        is_sequence = isinstance(items, list | tuple)
        return not is_sequence or not items or isinstance(items[0], str)

    def takes(self, item: Any) -> bool:
        return isinstance(item, list | tuple) and all(isinstance(word, str) for word in item)

    def lines(self, answer: Any) -> list[str]:
        return [" ".join(f"{tagged.word}/{tagged.tag}" for tagged in answer)]

    def to_json(self, answer: Any) -> dict[str, Any]:
        from regard.tasks.measures.accuracy import entities, has_entities

        tags, found_entities = [tagged.tag for tagged in answer], []
        for entity in entities(tags) if has_entities(tags) else ():
            start, end = answer[entity.first].start, answer[entity.last - 1].end
            found_entities.append(
                {"kind": entity.kind, "text": answer.text[start:end], "start": start, "end": end}
            )
        return {"words": [asdict(tagged) for tagged in answer], "entities": found_entities}


class _Answer(Verb):
    name = "answer"
    help = "Find the answer to each question in a text; an empty line if there is none."
    options_at = "regard.tasks.options.AnswerOptions"
    noun = "QUESTION"

    def lines(self, answer: Any) -> list[str]:
        texts = [" ".join(span.text.split()) for span in answer]
        if len(answer) > 1:
            texts = [f"{text} {span.probability:.0%}"
                     for text, span in zip(texts, answer, strict=True)]  # fmt: skip
        return ["  ".join(texts)]

    def to_json(self, answer: Any) -> dict[str, Any]:
        return {"answers": [asdict(span) for span in answer]}


class _Predict(Verb):
    name = "predict"
    help = "Predict a column for each row of a CSV file, or numbers for each image file."
    noun = "FILE"
    expands = True
    empty_row: ClassVar[Mapping[str, Any]] = {"predicted": None}

    def lines(self, answer: Any) -> list[str]:
        return [answer.line()]

    def to_json(self, answer: Any) -> dict[str, Any]:
        fields: dict[str, Any] = answer.to_json()
        return fields


@dataclass(frozen=True)
class Closeness:
    """An item, and the cosine of its vector with that of another item."""

    text: Any
    closeness: float


class _Embed(Verb):
    name = "embed"
    help = "Print a vector for each text or image file, or those nearest to a text."
    options_at = "regard.tasks.options.EmbedOptions"
    takes_ids = True
    needs_all_items = True

    def takes(self, item: Any) -> bool:
        return is_pair(item)

    def lines(self, answer: Any) -> list[str]:
        if isinstance(answer, Closeness):
            return [f"{answer.closeness:.3f}  {answer.text}"]
        return [" ".join(f"{number:.5f}" for number in answer.tolist())]

    def to_json(self, answer: Any) -> dict[str, Any]:
        if isinstance(answer, Closeness):
            return {"closeness": answer.closeness}
        return {"vector": answer.tolist()}

    def ranks(self, options: Any) -> bool:
        return options.near is not None

    def together(self, answers: Sequence[Any], options: Any) -> Any:
        if options.near is None:
            return answers  # (texts, dim)
        return sorted(answers, key=lambda answer: -answer.closeness)[: options.top]


TRANSLATE, GENERATE, SUGGEST, FILL = _Translate(), _Generate(), _Suggest(), _Fill()
RESTORE, CLASSIFY, TAG, ANSWER, EMBED = _Restore(), _Classify(), _Tag(), _Answer(), _Embed()
CAPTION, PREDICT = _Caption(), _Predict()
