"""`regard import` and `regard export`: models from and for other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import ModelPath, Quiet, load_pipeline, print_status
from regard.errors import InputError


def import_model(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A Hugging Face folder or name, or llama2.c's .bin."),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="A new folder.")],
    tokenizer: Annotated[
        Path | None, typer.Option(help="llama2.c's tokenizer.bin, if it is in another folder.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Convert a model of another library to a Regard checkpoint, without running its code."""
    from regard.runs.load import import_model

    pipeline = import_model(source, tokenizer)
    pipeline.save(out)
    print_status(f"{pipeline} is in {out}", quiet=quiet)


def export_model(
    place: ModelPath,
    out: Annotated[Path, typer.Option("-o", "--out", help="A new folder.")],
    to: Annotated[
        str | None,
        typer.Option("--to", help="hf: for transformers; regard: as a Regard checkpoint."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option("--store", help="For Regard: fp32, fp16 (half the size), int8 (a quarter)."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write a model for transformers (--to hf), or as a smaller Regard checkpoint (--store)."""
    to = to or ("hf" if store is None else "regard")
    if to not in ("hf", "regard"):
        raise InputError("--to", got=to, expected="hf or regard")
    if store is not None and to == "hf":
        raise InputError("--store", got="--to hf", expected="--to regard")
    pipeline = load_pipeline(place, None, device="cpu")
    if to == "regard":
        pipeline.save(out, store=store or "fp32")
        print_status(f"{pipeline.name} is in {out}, in {store or 'fp32'}", quiet=quiet)
        return
    pipeline.export(out)
    print_status(f"{pipeline.name} is in {out}, for transformers", quiet=quiet)
