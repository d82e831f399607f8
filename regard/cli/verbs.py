"""The commands of the verbs (`regard translate`, `regard fill`, ...), made from their options.

The fields of a verb's options and its decoding settings become the options of the command. The
command loads the model, reads its items through `regard/cli/line_processor.py` and prints the
answers.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer import Argument, Option

from regard.cli.late import LateCommand
from regard.cli.options import (
    AsJson,
    AsKind,
    Device,
    Dtype,
    Input,
    ModelPath,
    Precision,
    Quiet,
    Threads,
    load_pipeline,
    print_status,
    silence_warnings,
)
from regard.errors import InputError
from regard.tasks.entries import every_verb
from regard.tasks.verbs import Verb

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from regard.cli.line_processor import LineProcessor
    from regard.pipeline import Pipeline

Strict = Annotated[bool, Option("--strict", help="Stop at a line that cannot be read.")]
Stream = Annotated[bool, Option("--stream", help="Print the answer while it is generated.")]
FILE = "_file"
"""The suffix of the name of an option whose value is read from a file."""


class VerbCommand(LateCommand):
    """The command of a verb."""

    def function(self) -> Callable[..., None]:
        """Makes its options."""
        return command_of(every_verb()[self.name or ""])


def command_of(verb: Verb) -> Callable[..., None]:
    """The function of a verb's command, with a signature from which typer reads the options."""

    def command(**given: Any) -> None:
        from regard.cli.line_processor import is_interactive

        place, texts, source = (given.pop(key) for key in ("place", "texts", "source"))
        switches = {key: given.pop(key, False) for key in ("strict", "as_json", "quiet", "stream")}
        silence_warnings(quiet=switches["quiet"])
        threads, precision = given.pop("threads"), given.pop("precision")
        device, dtype = given.pop("device", "auto"), given.pop("dtype", "fp32")
        kind = given.pop("as_kind", None)
        given = _with_files(verb, {key: value for key, value in given.items() if value is not None})
        options, settings = verb.read((), given)
        pipeline = load_pipeline(place, threads, precision, device, dtype, kind=kind)
        settings = verb.command_settings(options, settings, pipeline.recipe.decode)
        call = VerbCall(pipeline, verb, options, settings, **switches)
        texts = call.with_files_of_folders(texts)
        call.line_processor(whole=bool(texts) or not is_interactive(source)).run(texts, source)

    command.__name__, command.__doc__ = verb.name, verb.help
    parameters = list(_parameters(verb))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


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

    def with_files_of_folders(self, texts: list[str] | None) -> list[str] | None:
        """The arguments, with the images in a folder in place of its name, if images are ranked.

        Files that are no whole images are left out with a warning.

        Raises:
            InputError: A folder has no images.
        """
        ranked = self.pipeline.reads_images and self.verb.ranks(self.options)
        if not texts or not ranked:
            return texts
        from regard.data.images.listing import SUFFIXES

        reader = self.pipeline.processor.source
        found: list[str] = []
        for text in texts:
            if not Path(text).is_dir():
                found.append(text)
                continue
            files = sorted(each for each in Path(text).rglob("*") if each.is_file())
            images = [str(each) for each in files if each.name.lower().endswith(SUFFIXES)]
            for image in images:
                try:
                    reader.pixels(image)  # decoded to the end: it may be cut short
                except InputError as error:
                    print_status(f"skipped: {error}".partition("\n")[0], quiet=self.quiet)
                else:
                    found.append(image)
            if not images:
                raise InputError(text, got="a folder without images", expected="some in it")
        return found

    def line_processor(self, *, whole: bool) -> LineProcessor:
        """The `LineProcessor` of the command.

        Args:
            whole: Whether all items are available before the first is answered.
        """
        from regard.cli.line_processor import BATCH_SIZE, LineProcessor

        if self.stream and self.as_json:
            raise InputError("--stream with --json", expected="one of the two")
        streams = self.stream or (self.verb.streams == "always" and not self.as_json)
        batch_size = None if self.verb.needs_all_items and whole else BATCH_SIZE
        return LineProcessor(
            self._stream_answers if streams else self._show,
            self._blank,
            lambda text: self.pipeline.check(self.verb, self._item(text), self.options),
            strict=self.strict,
            batch_size=1 if streams else batch_size,
            ranked=self.verb.ranks(self.options),
            quiet=self.quiet,
            dash_is_lines=not self.pipeline.reads_images,
        )

    def _item(self, text: str) -> Any:
        """Converts an argument or a line to an item.

        For a model that reads images, `-` means the image on standard input.
        """
        if self.pipeline.reads_images and text == "-":
            return self._piped
        return self.pipeline.item(self.verb, text)

    @cached_property
    def _piped(self) -> bytes:
        """The bytes of the image on standard input."""
        from regard.data.images.opening import MOST_BYTES

        return b"" if sys.stdin is None else sys.stdin.buffer.read(MOST_BYTES + 1)

    def _show(self, texts: list[str]) -> Iterable[Iterable[str]]:
        """The output lines of the answer to each text."""
        options = self._allowing()
        items = [self._item(text) for text in texts]
        answers = self.pipeline.answers(self.verb, items, options, self.settings)
        together = self.verb.together(answers, options) if self.verb.needs_all_items else answers
        if self.verb.ranks(options):
            texts = [each.text for each in together]
        return [self._lines(text, answer) for text, answer in zip(texts, together, strict=True)]

    def _lines(self, text: str, answer: Any) -> list[str]:
        if not self.as_json:
            return [f"{line}\n" for line in self.verb.shown(answer, self.options)]
        return [self._json(text, row) for row in self.verb.rows(answer)]

    def _json(self, text: str, row: dict[str, Any]) -> str:
        row = {"file" if self.pipeline.reads_images else self.verb.key: text, **row}
        if self.verb.lists_unknown:
            row["unknown"] = self.pipeline.vocabulary.source.unknown_words(text)
        return json.dumps(row, ensure_ascii=False) + "\n"

    def _blank(self, text: str) -> str:
        if self.as_json:
            return self._json(text, dict(self.verb.empty_row))
        return "".join(f"{line}\n" for line in self.verb.blank(self.settings))

    def _stream_answers(self, texts: list[str]) -> Iterable[Iterable[str]]:
        """The streamed answers to each text; errors are raised before the first is written."""
        found = []
        for text in texts:
            grown = [self._stream_answer(text, settings) for settings in self._draws()]
            found.append(piece for pieces in grown for piece in pieces)
        return found

    def _draws(self) -> Iterator[dict[str, Any]]:
        """Yields the decoding settings of each sample of one item; each has its own seed."""
        first = self.settings.get("seed", self.pipeline.recipe.decode.seed)
        for sample in range(getattr(self.options, "samples", 1)):
            yield {**self.settings, "seed": first + sample} if sample else self.settings

    def _stream_answer(self, text: str, settings: dict[str, Any]) -> Iterator[str]:
        pieces = self.pipeline.stream_answer(self.verb, text, self._allowing(), settings)
        first = next(pieces, "")  # raises errors before anything is written

        def write() -> Iterator[str]:
            yield text + first if self._echoes_prompt() else first
            yield from pieces
            yield "\n"

        return write()

    def _echoes_prompt(self) -> bool:
        """Whether the answer is printed after its item; not for an encoder-decoder."""
        goes_on = self.pipeline.model.config.sides == 1
        return self.verb.echoes_prompt and goes_on and not self.quiet

    def _allowing(self) -> Any:
        """The options with unknown words allowed, because `check` has already checked them."""
        if not self.verb.lists_unknown:
            return self.options
        return self.options.model_copy(update={"allow_unknown": True})


def _parameters(verb: Verb) -> Iterator[inspect.Parameter]:
    """Yields the parameters of the function of a verb's command, for typer."""
    from regard.decode.config import DecodeConfig

    texts = Annotated[
        list[str] | None, Argument(metavar=f"[{verb.noun}]...", help="One or several.")
    ]
    yield _keyword("place", ModelPath)
    yield _keyword("texts", texts, None)
    yield _keyword("source", Input, None)
    fields = dict(verb.options.model_fields)
    last = {"knock_out": fields.pop("knock_out")}
    decode = {name: DecodeConfig.model_fields[name] for name in verb.decode}
    for name, field in (fields | decode | last).items():
        yield from _option(verb, name, field)
    yield _keyword("strict", Strict, default=False)
    if verb.streams == "optional":
        yield _keyword("stream", Stream, default=False)
    for name, kind, default in (
        ("as_json", AsJson, False),
        ("quiet", Quiet, False),
        ("threads", Threads, None),
        ("precision", Precision, "fp32"),
        ("device", Device, "auto"),
        ("dtype", Dtype, "fp32"),
        ("as_kind", AsKind, None),
    ):
        yield _keyword(name, kind, default)


def _option(verb: Verb, name: str, field: FieldInfo) -> Iterator[inspect.Parameter]:
    """Yields the option of a command for a field; if it is not given, its value is None."""
    from annotated_types import Ge

    flag = f"--{name.replace('_', '-')}"
    kind = _option_type(field.annotation)
    own = name in verb.options.model_fields  # decoding settings are checked as in a recipe
    least: Any = next((each.ge for each in field.metadata if own and isinstance(each, Ge)), None)
    names = [flag, *verb.other_flags.get(name, ())]
    if kind is bool and field.default is not False:
        names = [f"{flag}/--no-{name.replace('_', '-')}"]
    default = verb.command_defaults.get(name, field.default if own else None)
    help_text = field.description or ""
    if default and isinstance(default, int | float | str) and not isinstance(default, bool):
        help_text = f"{help_text.removesuffix('.')} ({default})."
    option = Option(*names, help=help_text, min=least, show_default=False)
    yield _keyword(name, Annotated[kind | None, option], None)
    if (field.json_schema_extra or {}).get("file"):  # type: ignore[union-attr]
        path = Option(f"{flag}-file", help="The same from a file.", show_default=False)
        yield _keyword(name + FILE, Annotated[Path | None, path], None)


def _option_type(annotation: Any) -> Any:
    """The type of an option for a field's type: the first of a union, a list for a tuple."""
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    if annotation == tuple[str, ...]:
        return list[str]
    return kinds[0] if kinds else annotation


def _keyword(
    name: str, annotation: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _with_files(verb: Verb, given: dict[str, Any]) -> dict[str, Any]:
    """The options, with the contents of files for those that were given as files."""
    for name, field in verb.options.model_fields.items():
        if not (field.json_schema_extra or {}).get("file"):  # type: ignore[union-attr]
            continue
        text, file = given.get(name), given.pop(name + FILE, None)
        if (text is None) == (file is None):
            got = "none" if text is None else "two"
            expected = f"--{name} or --{name}-file"
            raise InputError(verb.name, got=f"{got} of them", expected=expected)
        if file is not None:
            given[name] = _content(file)
    return given


def _content(file: Path) -> str:
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
