"""The commands of the verbs (`regard translate`, `regard fill`, ...), made from their options.

The fields of a verb's options and its decoding settings become the options of the command. The
command loads the model, reads its items through `regard/cli/line_processor.py` and prints the
answers.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer import Argument, Option

from regard.cli.late import LateCommand
from regard.cli.options import AsJson, Input, ModelPath, Quiet, loads_model, set_signature
from regard.errors import InputError
from regard.runtime.printing import print_result, print_status, silence_warnings
from regard.tasks.specs import every_verb
from regard.tasks.verbs import Verb

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from regard.cli.line_processor import LineProcessor
    from regard.inputs.reader import Encoded
    from regard.pipeline import Pipeline
    from regard.tasks.options import VerbOptions

Strict = Annotated[bool, Option("--strict", help="Stop at a line that cannot be read.")]
Stream = Annotated[bool, Option("--stream", help="Print the answer while it is generated.")]
_logger = logging.getLogger(__name__)
COMMAND_KEYS = ("model", "texts", "source", "load")
"""The parameters of a command that are no options of its verb, beside its switches."""
FILE_SUFFIX = "_file"
"""The suffix of the name of an option whose value is read from a file."""


class VerbCommand(LateCommand):
    """The command of a verb."""

    def function(self) -> Callable[..., None]:
        """Makes its options."""
        verb = every_verb()[self.name or ""]
        return command_of(verb, verb.options)


def command_of(verb: Verb, options_class: type[VerbOptions]) -> Callable[..., None]:
    """The function of a verb's command, with a signature from which typer reads the options.

    Args:
        verb: The verb.
        options_class: The class of its options, `verb.options`.
    """

    def command(**values: Any) -> None:
        from regard.cli.line_processor import is_interactive

        model, texts, source, load = (values.pop(key) for key in COMMAND_KEYS)
        switches = {key: values.pop(key, False) for key in ("strict", "as_json", "quiet", "stream")}
        out = values.pop("out", None)
        silence_warnings(quiet=switches["quiet"])
        values = {key: value for key, value in values.items() if value is not None}
        values = _with_file_contents(verb.name, options_class, values)
        options, settings = verb.parse_options((), values)
        out = _checked_out(verb, out, texts, stream=switches["stream"])
        pipeline = load(model)
        settings = verb.command_settings(options, settings, pipeline.recipe.decode)
        call = VerbCall(pipeline, verb, options, settings, **switches)
        if out is not None:
            draw_answer(call, texts[0], out)
            return
        skip = partial(print_status, quiet=call.quiet)
        if texts and verb.expands:
            texts = _expanded(call, texts, skip)
        elif texts and verb.ranks(options):
            texts = pipeline.reader.files_in(texts, skip)
        call.line_processor(all_known=bool(texts) or not is_interactive(source)).run(texts, source)

    command.__name__, command.__doc__ = verb.name, verb.help
    set_signature(command, list(_parameters(verb, options_class)))
    return loads_model(command)


def _expanded(call: VerbCall, arguments: list[Any], skip: Callable[[str], None]) -> list[Any]:
    """The items that arguments stand for: the rows of a table, the images of a folder."""
    items = []
    for argument in arguments:
        in_argument = call.pipeline.items_in(call.verb, argument, skip)
        items += [argument] if in_argument is None else in_argument
    return items


def _checked_out(
    verb: Verb, out: Path | None, items: Sequence[str] | None, *, stream: bool
) -> Path | None:
    """The file to draw to, checked before the model is loaded."""
    if out is None:
        return None
    from regard.explain.look import picture_ending

    picture_ending(out, verb.pictures, verb.name)
    if items is None or len(items) != 1:
        got = f"{len(items or ())} of them"
        raise InputError(f"{verb.name} -o", got=got, expected=f"one {verb.noun} as an argument")
    if stream:
        raise InputError("--stream with -o", expected="one of the two")
    return out


def draw_answer(call: VerbCall, argument: str, out: Path) -> None:
    """Prints the answer to one item, and draws where the model looked while it wrote it.

    The maps stand beside their test, which hides what was looked at.
    """
    pipeline, verb = call.pipeline, call.verb
    item = pipeline.reader.item(argument, verb.item)
    [encoded] = pipeline.read(verb, [item], call.options)
    [answer] = pipeline.answers(verb, [encoded], call.options, call.settings)
    begun = bool(getattr(call.options, "prefix", ""))  # what was asked for is not decoded again
    forced: dict[str, Any] = {"target": verb.value(answer)} if begun else call.settings
    silence_warnings(quiet=True)  # the item is read again: what there is to say was said above
    look = pipeline.look(item, knock_out=call.options.knock_out, **forced)
    choice = look.choose()
    test = look.test(choice) if look.testable(choice) else None
    look.save_choice(out, choice, test)
    row = {verb.key: argument, **verb.to_json(answer), "picture": str(out), "map": choice.short}
    row |= {} if test is None else {"test": test.to_json()}
    print_result("\n".join(verb.lines(answer)), row, as_json=call.as_json)
    quiet = call.quiet or call.as_json
    print_status(f"{out} shows {choice.name}", quiet=quiet)
    if test is not None:
        print_status(test.verdict, quiet=quiet)


@dataclass(frozen=True, eq=False)
class VerbCall:
    """One call of a verb's command: the model, the verb and all options."""

    pipeline: Pipeline
    verb: Verb
    options: Any
    settings: dict[str, Any]
    strict: bool = False
    as_json: bool = False
    quiet: bool = False
    stream: bool = False

    def line_processor(self, *, all_known: bool) -> LineProcessor[Encoded]:
        """The `LineProcessor` of the command.

        Args:
            all_known: Whether all items are available before the first is answered.
        """
        from regard.cli.line_processor import BATCH_SIZE, LineProcessor

        if self.stream and self.as_json:
            raise InputError("--stream with --json", expected="one of the two")
        streams = self.stream or (self.verb.streams == "always" and not self.as_json)
        batch_size = None if self.verb.needs_all_items and all_known else BATCH_SIZE
        return LineProcessor(
            self._stream_answers if streams else self._answer_lines,
            self._blank_line,
            self._read,
            strict=self.strict,
            batch_size=1 if streams else batch_size,
            ranked=self.verb.ranks(self.options),
            quiet=self.quiet,
            dash_is_lines=not self.pipeline.reader.dash_is_item,
            read_line=self._line_reader() if self.verb.expands else None,
        )

    def _line_reader(self) -> Callable[[str], Encoded | None]:
        """Reads a line, which may have no item, as the first line of a table has names."""
        item_of = self.pipeline.line_reader(self.verb)

        def read_line(line: str) -> Encoded | None:
            item = item_of(line)
            return None if item is None else self._read(item)

        return read_line

    def _read(self, text: Any) -> Encoded:
        """Reads an argument or a line; warns about its unknown words."""
        item = self.pipeline.reader.item(text, self.verb.item)
        [encoded] = self.pipeline.read(self.verb, [item], self.options)
        if encoded.unknown:
            _logger.warning("warning: the model does not know: %s", ", ".join(encoded.unknown))
        return encoded

    def _answer_lines(self, texts: list[str], encoded: list[Encoded]) -> Iterable[Iterable[str]]:
        """The output lines of the answer to each text."""
        answers = self.pipeline.answers(self.verb, encoded, self.options, self.settings)
        if self.verb.needs_all_items:
            answers = self.verb.together(answers, self.options)
        if self.verb.ranks(self.options):
            return [self._output_lines(answer.text, answer) for answer in answers]
        rows = zip(texts, answers, encoded, strict=True)
        return [self._output_lines(text, answer, read.unknown) for text, answer, read in rows]

    def _output_lines(self, text: str, answer: Any, unknown: Sequence[str] = ()) -> list[str]:
        """The lines of output for one answer, as text or as JSON."""
        if not self.as_json:
            return [f"{line}\n" for line in self.verb.command_lines(answer, self.options)]
        return [self._json_line(text, row, unknown) for row in self.verb.rows(answer)]

    def _json_line(self, text: str, row: dict[str, Any], unknown: Sequence[str]) -> str:
        """A JSON object on one line: the item, its answer, and its unknown words."""
        row = {self.pipeline.reader.key or self.verb.key: text, **row}
        if self.verb.lists_unknown:
            row["unknown"] = list(unknown)
        return json.dumps(row, ensure_ascii=False) + "\n"

    def _blank_line(self, text: str) -> str:
        """The output in place of an answer for a text that cannot be read."""
        if self.as_json:
            lists = self.verb.lists_unknown
            unknown = self.pipeline.vocabulary.source.unknown_words(text) if lists else ()
            return self._json_line(text, dict(self.verb.empty_row), unknown)
        return "".join(f"{line}\n" for line in self.verb.blank(self.settings))

    def _stream_answers(self, texts: list[str], encoded: list[Encoded]) -> Iterable[Iterable[str]]:
        """The streamed answers to each text; errors are raised before the first is written."""
        streams = []
        for text, read in zip(texts, encoded, strict=True):
            samples = [self._stream_answer(text, read, settings) for settings in self._configs()]
            streams.append(piece for pieces in samples for piece in pieces)
        return streams

    def _configs(self) -> Iterator[dict[str, Any]]:
        """Yields the decoding settings of each sample of one item; each has its own seed."""
        first = self.settings.get("seed", self.pipeline.recipe.decode.seed)
        for sample in range(getattr(self.options, "samples", 1)):
            yield {**self.settings, "seed": first + sample} if sample else self.settings

    def _stream_answer(
        self, text: str, encoded: Encoded, settings: dict[str, Any]
    ) -> Iterator[str]:
        """Yields one streamed answer in pieces; its first piece is computed in this call."""
        pieces = self.pipeline.stream_answer(self.verb, encoded, self.options, settings)
        first = next(pieces, "")  # raises errors before anything is written

        def write() -> Iterator[str]:
            yield text + first if self._echoes_prompt() else first
            yield from pieces
            yield "\n"

        return write()

    def _echoes_prompt(self) -> bool:
        """Whether the answer is printed after its item; not for an encoder-decoder."""
        goes_on = not self.pipeline.model.config.has_target
        return self.verb.echoes_prompt and goes_on and not self.quiet


def _parameters(verb: Verb, options_class: type[VerbOptions]) -> Iterator[inspect.Parameter]:
    """Yields the parameters of the function of a verb's command, for typer."""
    from regard.decode.config import DecodeConfig

    texts = Annotated[
        list[str] | None, Argument(metavar=f"[{verb.noun}]...", help="One or several.")
    ]
    yield _keyword_parameter("model", ModelPath)
    yield _keyword_parameter("texts", texts, None)
    yield _keyword_parameter("source", Input, None)
    fields = dict(options_class.model_fields)
    last = {"knock_out": fields.pop("knock_out")}
    decode = {name: DecodeConfig.model_fields[name] for name in verb.decode}
    for name, field in (fields | decode | last).items():
        yield from _option_parameters(verb, name, field, is_setting=name in decode)
    yield _keyword_parameter("strict", Strict, default=False)
    if verb.pictures:
        yield _keyword_parameter("out", Annotated[Path | None, _out_option(verb)], None)
    if verb.streams == "optional":
        yield _keyword_parameter("stream", Stream, default=False)
    yield _keyword_parameter("as_json", AsJson, default=False)
    yield _keyword_parameter("quiet", Quiet, default=False)


def _out_option(verb: Verb) -> Any:
    """The option for a file to draw to."""
    endings = ", ".join(verb.pictures)
    return Option(
        "-o", "--out", help=f"Draw where the model looked, for one {verb.noun}: {endings}"
    )


def _option_parameters(
    verb: Verb, name: str, field: FieldInfo, *, is_setting: bool
) -> Iterator[inspect.Parameter]:
    """Yields the option of a command for a field; if it is not given, its value is None.

    Args:
        verb: The verb.
        name: The name of the field.
        field: The field.
        is_setting: Whether it is a decoding setting, which is checked as in a recipe.
    """
    from annotated_types import Ge

    flag = f"--{name.replace('_', '-')}"
    kind = _option_type(field.annotation)
    bounds = [bound.ge for bound in field.metadata if not is_setting and isinstance(bound, Ge)]
    least: Any = bounds[0] if bounds else None
    names = [flag, *verb.other_flags.get(name, ())]
    if kind is bool and field.default is not False:
        names = [f"{flag}/--no-{name.replace('_', '-')}"]
    default = verb.command_defaults.get(name, None if is_setting else field.default)
    help_text = field.description or ""
    if default and isinstance(default, int | float | str) and not isinstance(default, bool):
        help_text = f"{help_text.removesuffix('.')} ({default})."
    option = Option(*names, help=help_text, min=least, show_default=False)
    yield _keyword_parameter(name, Annotated[kind | None, option], None)
    if (field.json_schema_extra or {}).get("file"):  # type: ignore[union-attr]
        path = Option(f"{flag}-file", help="The same from a file.", show_default=False)
        yield _keyword_parameter(name + FILE_SUFFIX, Annotated[Path | None, path], None)


def _option_type(annotation: Any) -> Any:
    """The type of an option for a field's type: the first of a union, a list for a tuple."""
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    if annotation == tuple[str, ...]:
        return list[str]
    return kinds[0] if kinds else annotation


def _keyword_parameter(
    name: str, annotation: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    """A keyword parameter of a signature; without a default it is required."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _with_file_contents(
    verb_name: str, options_class: type[VerbOptions], values: dict[str, Any]
) -> dict[str, Any]:
    """The options, with the contents of files for those that were given as files."""
    for name, field in options_class.model_fields.items():
        if not (field.json_schema_extra or {}).get("file"):  # type: ignore[union-attr]
            continue
        text, file = values.get(name), values.pop(name + FILE_SUFFIX, None)
        if (text is None) == (file is None):
            got = "none" if text is None else "two"
            expected = f"--{name} or --{name}-file"
            raise InputError(verb_name, got=f"{got} of them", expected=expected)
        if file is not None:
            values[name] = _read_text(file)
    return values


def _read_text(file: Path) -> str:
    """The text of a file; raises an error if it is too long."""
    from regard.cli.line_processor import decode_text
    from regard.data.text.records import LONGEST_LINE

    try:
        with file.open("rb") as stream:
            return decode_text(stream.read(LONGEST_LINE + 1))
    except InputError as error:
        raise InputError(f"{file}: {error.what}", expected=error.expected) from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(str(file), got="another encoding", expected="UTF-8") from None


def add_verbs(app: typer.Typer) -> None:
    """Adds the commands of all verbs to the app."""
    for verb in every_verb().values():
        app.command(verb.name, cls=VerbCommand, help=verb.help)(lambda: None)
