"""`regard look` and `regard heads`: what a model attends to, and what each head is for."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from regard.cli.options import (
    AsJson,
    Beam,
    DataColumns,
    Details,
    KnockOut,
    Load,
    ModelPath,
    Paper,
    Quiet,
    loads_model,
)
from regard.errors import InputError
from regard.runtime.printing import print_result, print_status

if TYPE_CHECKING:
    from regard.explain.images.hiding import Hiding, HidingReport
    from regard.explain.look import Look, LookSelection
    from regard.pipeline import Pipeline

Split = Annotated[str | None, Option(help="A split of the run's data; by default valid.")]
Data = Annotated[
    str | None, Option("--data", help="Pairs, or labelled examples; text for a GPT, BERT or T5.")
]
Count = Annotated[int, Option("--pairs", help="How many pairs, images, or pieces of text.", min=1)]


@loads_model
def look(
    model_name: ModelPath,
    text: Annotated[
        str | None, Argument(metavar="[TEXT|FILE]", help="The sentence, or an image's path.")
    ] = None,
    out: Annotated[
        Path | None, Option("-o", "--out", help="out.html, out.png, out.svg or out.pdf")
    ] = None,
    kind: Annotated[
        str | None,
        Option(
            help="alignment, grid, self or positions; for an image also picture, rollout or maps."
        ),
    ] = None,
    layer: Annotated[str | None, Option(help="A number, or a name such as encoder.1")] = None,
    head: Annotated[
        int | None, Option(help="A head's number, from 0; by default the mean of all heads.")
    ] = None,
    word: Annotated[
        str | None,
        Option(help="The word whose attention to highlight; for an image, a patch: 2,3."),
    ] = None,
    target: Annotated[str | None, Option(help="A translation to follow (forced decoding).")] = None,
    knock_out: KnockOut = None,
    beam: Beam = None,
    allow_unknown: Annotated[
        bool, Option("--allow-unknown", help="Allow words that the model does not know.")
    ] = False,
    hide: Annotated[
        float, Option(help="Images: share of patches hidden to test the map; 0: no test.")
    ] = 0.2,
    fill: Annotated[
        str, Option(help="What hides a patch: mean (colour of the image) or blur.")
    ] = "mean",
    draws: Annotated[int, Option(help="How many random choices of other patches to hide.")] = 20,
    seed: Annotated[int, Option(help="Random seed of these choices.", min=0)] = 0,
    original: Annotated[
        bool, Option("--original", help="Show an image as it was, not as the model reads it.")
    ] = False,
    test: Annotated[
        bool, Option("--test", help="Test the maps of many images (--split, --data, --pairs).")
    ] = False,
    split: Split = None,
    files: Data = None,
    count: Count = 200,
    details: Details = False,
    paper: Paper = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    *,
    load: Load,
) -> None:
    """Draw a model's attention while it reads, translates or restores a text, or an image.

    The map of an image stands beside its test: the probability of the class with the patches hidden
    that are looked at most, with as many others hidden, and with those looked at least. --test
    measures that on many images.
    """
    from regard.explain.look import picture_ending

    number: int | str | None = int(layer) if layer is not None and layer.isdigit() else layer
    default = None if test else Path("look.html")
    out = default if out is None else out
    if out is not None:
        # raise errors before the work, not after it
        picture_ending(out, (".png", ".svg", ".pdf") if test else PICTURES)
    if (text is None) != test:
        got = "--test and an input" if test else "no input"
        raise InputError("look", got=got, expected="a text or an image, or --test for many images")
    hiding = None if hide == 0 else _make_hiding(hide, fill, draws, seed)
    pipeline = load(model_name)
    if test or text is None:
        if not (number is None or isinstance(number, int)) or word or target or original:
            got = "--word, --target, --original or the name of a layer"
            raise InputError("look --test", got=got, expected="--kind, a number as --layer, --head")
        report = pipeline.hide_patches(
            _examples(pipeline, "look", count, split, files, ()),
            kind=kind or "picture", layer=number, head=head, hiding=hiding,
            knock_out=knock_out or (),
        )  # fmt: skip
        _print_test(report, out, as_json=as_json, quiet=quiet)
        return
    search: dict[str, Any] = {} if beam is None else {"beam": beam}
    record = pipeline.look(
        text, target=target, knock_out=knock_out or (), original=original,
        allow_unknown=allow_unknown, **search,
    )  # fmt: skip
    assert out is not None
    choice = record.choose(kind, number, head, word)
    result = None if hiding is None or not record.testable(choice) else record.test(choice, hiding)
    record.save_choice(out, choice, result, details=details, paper=paper)
    row = _look_to_json(record, choice, text)
    row |= {} if result is None else {"test": result.to_json()}
    print_result(record.target or text, row, as_json=as_json)
    print_status(f"{out} shows {choice.name}: {choice.short}", quiet=quiet or as_json)
    if result is not None:
        print_status(result.verdict, quiet=quiet or as_json)


PICTURES = (".html", ".png", ".svg", ".pdf")
"""Endings of the files that `regard look` can write."""


def _make_hiding(share: float, fill: Any, draws: int, seed: int) -> Hiding:
    """The settings of a test of maps; imported here, because it imports torch."""
    from regard.explain.images.hiding import Hiding

    return Hiding(share, fill, draws, seed)


def _examples(
    pipeline: Pipeline, command: str, count: int, split: str | None, files: str | None, columns: Any
) -> Any:
    """The first examples of a split, or of a file of one's own."""
    from regard.recipes.recipe import parse_columns
    from regard.tasks.measures.report import Selection

    selection = Selection(split, files, command, pipeline.name, parse_columns(columns))
    return pipeline.task.head_examples(pipeline.recipe, selection, count)


def _print_test(report: HidingReport, out: Path | None, *, as_json: bool, quiet: bool) -> None:
    """Prints the report of a test of maps, and draws it if a file is given."""
    if out is not None:
        from regard.explain.plot_reports import save_report

        save_report(report, out)
    print_result(report.table(), report.to_json(), as_json=as_json)
    if out is not None:
        print_status(f"{out} is drawn", quiet=quiet or as_json)


def _look_to_json(look: Look, choice: LookSelection, text: str) -> dict[str, Any]:
    """What is shown, as JSON: the weights of the map, or those over the patches of an image."""
    if look.picture is None:
        weights = choice.map.matrix(choice.head, look.knocked_out_in(choice.map))
        axes = {"queries": list(choice.map.queries), "keys": list(choice.map.keys)}
        row = {"text": text, "output": look.target or None, "map": choice.short, **axes}
        return {**row, "weights": _to_lists(weights)}
    from regard.explain.images.patches import chosen_row, over_patches, picture_of

    weights, picture = chosen_row(look, choice), picture_of(look, choice)
    return {
        "file": text,
        "class": look.target or None,
        "map": choice.short.removeprefix("--kind "),
        "query": None if choice.row is None else choice.maps[-1].queries[choice.row],
        "grid": list(picture.grid),
        "before_patches": _to_lists(weights[: picture.first]),
        "weights": _to_lists(over_patches(picture, weights)),
    }


def _to_lists(values: Any) -> Any:
    """Nested lists of numbers; a head that was knocked out has none."""
    import numpy as np

    rounded = np.round(values, 6).astype(object)
    rounded[np.isnan(values)] = None
    return rounded.tolist()


@loads_model
def heads(
    model_name: ModelPath,
    columns: DataColumns = None,
    split: Split = None,
    files: Data = None,
    count: Count = 100,
    out: Annotated[
        Path | None,
        Option("-o", "--out", help="A picture for a model of images: heads.png, .svg, .pdf"),
    ] = None,
    as_json: AsJson = False,
    *,
    load: Load,
) -> None:
    """List what each attention head does, and the effect of removing it.

    One line per head: effect is the rise of the loss without the head; previous, first and
    positional (with the distance) say where it attends, entropy how spread out its attention is.
    For encoders the loss is that of masked tokens, classes, tags or answers. For images, how far
    apart the patches are that attend to each other, in pixels and in patches.
    """
    from regard.explain.heads import heads_table
    from regard.explain.look import picture_ending

    if out is not None:
        picture_ending(out, (".png", ".svg", ".pdf"), "heads")
    pipeline = load(model_name)
    if out is not None and not pipeline.reader.has_grid:
        raise InputError("heads -o", got="a model of texts", expected="a model of images")
    texts = _examples(pipeline, "heads", count, split, files, columns or ())
    summaries = pipeline.heads(texts)
    measured_on = f"{len(texts)} {pipeline.task.items}"
    table = heads_table(summaries, measured_on, pipeline.task.effect)
    if out is not None:
        from regard.explain.plot_reports import save_heads

        save_heads(summaries, measured_on, out)
    print_result(table, *map(asdict, summaries), as_json=as_json)
