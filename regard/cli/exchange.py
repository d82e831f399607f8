"""`regard import` and `regard export`: models from and for other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.cli.options import AsKind, ModelPath, Quiet, load_pipeline
from regard.errors import InputError
from regard.runtime.printing import print_status


def import_model(
    source: Annotated[
        str,
        Argument(
            metavar="SOURCE",
            help="A folder or name of Hugging Face or timm, llama2.c's .bin, a ViT's .pth.",
        ),
    ],
    out: Annotated[Path, Option("-o", "--out", help="A new folder.")],
    tokenizer: Annotated[
        Path | None, Option(help="llama2.c's tokenizer.bin, if it is in another folder.")
    ] = None,
    heads: Annotated[
        int | None, Option(help="Attention heads of a ViT whose weights stand alone.", min=1)
    ] = None,
    mean: Annotated[
        str | None, Option(help="Mean of a ViT's images, by channel: 0.1307, or 0.5,0.4,0.4.")
    ] = None,
    std: Annotated[str | None, Option(help="Standard deviation, as --mean.")] = None,
    as_kind: AsKind = None,
    quiet: Quiet = False,
) -> None:
    """Convert a model of another library to a Regard checkpoint, without running its code."""
    from regard.runs.load import import_model

    images = {"mean": _parse_numbers("--mean", mean), "std": _parse_numbers("--std", std)}
    pipeline = import_model(source, tokenizer, kind=as_kind, heads=heads, **images)
    pipeline.save(out)
    print_status(f"{pipeline} is in {out}", quiet=quiet)


def _parse_numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    """The numbers of an option, separated by commas."""
    try:
        return None if text is None else tuple(float(number) for number in text.split(","))
    except ValueError:
        expected = "numbers, separated by commas"
        raise InputError(option, got=text, expected=expected) from None


def export_model(
    model_name: ModelPath,
    out: Annotated[Path, Option("-o", "--out", help="A new folder.")],
    to: Annotated[
        str | None, Option(help="hf: for transformers; timm: a ViT for timm; regard.")
    ] = None,
    store: Annotated[
        str | None, Option(help="For Regard: fp32, fp16 (half the size), int8 (a quarter).")
    ] = None,
    as_kind: AsKind = None,
    quiet: Quiet = False,
) -> None:
    """Write a model for transformers or timm (--to), or as a small Regard checkpoint (--store)."""
    to = to or ("hf" if store is None else "regard")
    if to not in ("hf", "timm", "regard"):
        raise InputError("--to", got=to, expected="hf, timm or regard")
    if store is not None and to != "regard":
        raise InputError("--store", got=f"--to {to}", expected="--to regard")
    from regard.hub.exchange import how_to_load

    pipeline = load_pipeline(model_name, device="cpu", as_kind=as_kind)
    if to == "regard":
        pipeline.save(out, store=store or "fp32")
        print_status(f"{pipeline.name} is in {out}, in {store or 'fp32'}", quiet=quiet)
        return
    pipeline.export(out, to)
    print_status(f"{pipeline.name} is in {out}, {how_to_load(out)}", quiet=quiet)
