"""Shared parts of the commands: common options, loading a model, messages to standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.runtime.printing import print_line as print_line
from regard.runtime.printing import print_result as print_result
from regard.runtime.printing import print_status as print_status
from regard.runtime.printing import silence_warnings as silence_warnings

if TYPE_CHECKING:
    from regard.pipeline import Pipeline

DataColumns = Annotated[
    list[str] | None,
    Argument(metavar="[KEY=COLUMN]...", help="Columns of --data, such as data.text=sentence."),
]
ModelPath = Annotated[
    str,
    Argument(
        metavar="MODEL",
        help="A run, a checkpoint, a model's folder, or a name: tiny/translate, gpt2.",
    ),
]
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
AsKind = Annotated[
    str | None,
    Option(
        "--as",
        metavar="KIND",
        help="Read another library's folder as this kind: bert, BertForTokenClassification, …",
    ),
]
KnockOut = Annotated[
    list[str] | None,
    Option("--knock-out", help="A head to remove, such as decoder.1.cross.3; repeatable."),
]
Beam = Annotated[int | None, Option("--beam", help="Beam width; 1 is greedy.")]


def load_pipeline(
    model_name: str,
    threads: int | None,
    precision: str = "fp32",
    device: str = "auto",
    dtype: str = "fp32",
    *,
    download: bool = True,
    kind: str | None = None,
) -> Pipeline:
    """Loads the model that MODEL names, on a device and with a number of threads."""
    from regard.runs.load import load
    from regard.runtime.device import setup

    setup(threads, None)
    return load(
        model_name, precision=precision, device=device, dtype=dtype, download=download, kind=kind
    )
