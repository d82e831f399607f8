"""Shared parts of the commands: common options, loading a model, messages to standard error."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

if TYPE_CHECKING:
    from regard.pipeline import Pipeline

DataColumns = Annotated[
    list[str] | None,
    Argument(metavar="[KEY=COLUMN]...", help="Columns of --data, such as data.text=sentence."),
]
MODELS = "A run, a checkpoint, a model's folder, or a name: tiny/translate, gpt2."
ModelPath = Annotated[str, Argument(metavar="MODEL", help=MODELS)]
Texts = Annotated[list[str] | None, Argument(metavar="[TEXT]...", help="Sentences.")]
Input = Annotated[
    str | None,
    Option("--input", "-i", help="A file, one text or path a line; - is standard input."),
]
AsJson = Annotated[bool, Option("--json", help="Print one JSON object per line.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print only results and errors.")]
Details = Annotated[
    bool, Option("--details", help="Describe what was computed and how, also in the picture.")
]
Paper = Annotated[
    bool, Option("--paper", help="For print: 160 mm wide, 300 dpi, no title, no caption.")
]
Threads = Annotated[int | None, Option("--threads", help="Number of threads.")]
Precision = Annotated[
    str, Option("--precision", help="fp32, or int8: matrices in 8 bits, faster to decode.")
]
Device = Annotated[
    str, Option("--device", help="auto (cuda if there is one), cpu, cuda, cuda:1, mps.")
]
Dtype = Annotated[str, Option("--dtype", help="fp32; on cuda also bf16 or fp16: mixed precision.")]
TrainingDtype = Annotated[
    str, Option("--dtype", help="fp32; mixed precision: bf16 on cuda, and on CPUs that have it.")
]
Seed = Annotated[int | None, Option("--seed", help="Random seed.")]
KINDS = "Read another library's folder as this kind: bert, BertForTokenClassification, …"
AsKind = Annotated[str | None, Option("--as", metavar="KIND", help=KINDS)]
KnockOut = Annotated[
    list[str] | None,
    Option("--knock-out", help="A head to remove, such as decoder.1.cross.3; repeatable."),
]
Beam = Annotated[int | None, Option("--beam", help="Beam width; 1 is greedy.")]


def load_pipeline(
    model_name: str,
    *,
    threads: Threads = None,
    precision: Precision = "fp32",
    device: Device = "auto",
    dtype: Dtype = "fp32",
    as_kind: AsKind = None,
    **how: Any,
) -> Pipeline:
    """Loads the model that MODEL names, on a device and with a number of threads."""
    from regard.runs.load import load
    from regard.runtime.device import setup

    setup(threads, None)
    return load(model_name, precision=precision, device=device, dtype=dtype, kind=as_kind, **how)


Load = Callable[..., "Pipeline"]
"""Loads a model by its name, as the options of a command say."""


def loads_model(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `load_pipeline`, after its own.

    The command has none of them, but a parameter `load`: a function that loads a model by its name.
    """
    unread = {"Pipeline": Any}  # it is imported for type checkers only
    signature = inspect.signature(load_pipeline, locals=unread, eval_str=True)
    _, *options, _ = signature.parameters.values()
    own_parameters = inspect.signature(command, eval_str=True).parameters.values()

    @wraps(command)
    def with_options(*arguments: Any, **values: Any) -> None:
        names = [option.name for option in options if option.name in values]
        load = partial(load_pipeline, **{name: values.pop(name) for name in names})
        command(*arguments, load=load, **values)

    parameters = [parameter for parameter in own_parameters if parameter.name != "load"]
    set_signature(with_options, [*parameters, *options])
    return with_options


def set_signature(function: Callable[..., None], parameters: list[inspect.Parameter]) -> None:
    """Gives a function a signature from which typer reads the options."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
