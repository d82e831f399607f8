"""The commands of `regard`. Each one reads its arguments and calls the Pipeline or another module.

Heavy modules such as torch are imported inside the commands, so that `regard --help` is fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from regard import __version__
from regard.cli.compare import compare
from regard.cli.exchange import export_model, import_model
from regard.cli.look import heads, look
from regard.cli.options import (
    AsJson,
    Beam,
    DataColumns,
    Device,
    Load,
    ModelPath,
    Quiet,
    Seed,
    Threads,
    TrainingDtype,
    loads_model,
)
from regard.cli.plugins import add_plugin
from regard.cli.tokens import tokens
from regard.cli.vectors import vectors
from regard.cli.verbs import add_verbs
from regard.errors import InputError
from regard.runtime.printing import print_line, print_result, print_status, silence_warnings
from regard.runtime.units import aligned

app = typer.Typer(
    name="regard",
    help="Train, run, look into and edit attention models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Look at data before training on it.", no_args_is_help=True)
app.add_typer(data_app, name="data")


def _version(is_requested: bool) -> None:
    """Prints the version and exits, if the option is given."""
    if is_requested:
        print_line(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def _regard(
    version: Annotated[
        bool,
        Option("--version", callback=_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Train, run, look into and edit attention models."""
    del version  # handled by its callback


add_plugin(app, "demo")


@app.command()
def train(
    recipe: Annotated[
        str | None, Argument(metavar="[RECIPE]", help="A file or a shipped name; to resume, a run.")
    ] = None,
    overrides: Annotated[
        list[str] | None, Argument(metavar="[KEY=VALUE]...", help="Such as train.steps=500.")
    ] = None,
    out: Annotated[
        str | None, Option("-o", "--out", metavar="RUN", help="The run's folder.")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Continue from the last checkpoint.")] = False,
    quiet: Quiet = False,
    threads: Threads = None,
    seed: Seed = None,
    device: Device = "auto",
    dtype: TrainingDtype = "fp32",
) -> None:
    """Train a model from a recipe; --resume continues a run that was stopped, even by kill -9.

    To resume, the run's folder suffices: regard train RUN --resume
    In several processes: torchrun --nproc-per-node 2 -m regard train RECIPE -o RUN
    """
    from regard.recipes import recipe as recipes
    from regard.runs.resume import recipe_and_run
    from regard.runtime.ranks import first_process_reports, ranks_here

    silence_warnings(quiet=quiet)
    with first_process_reports():
        if recipe is not None and "=" in recipe and not Path(recipe).exists():
            overrides = [recipe, *(overrides or ())]
            recipe = None
        recipe, out = recipe_and_run(recipe, out, resume=resume)
        if not out:
            expected, fix = "a folder for the run", "add -o runs/first"
            raise InputError("train", got="no -o", expected=expected, fix=fix)
        if seed is not None and seed < 0:
            raise InputError("--seed", got=seed, expected="0 or more")
        changes = [*(overrides or ()), *(() if seed is None else (f"seed={seed}",))]
        if recipes.task_of(recipe) == "vectors":
            from regard.cli.vectors import train_vectors

            train_vectors(
                recipe, changes, out, resume=resume, quiet=quiet, threads=threads, device=device
            )
            return
        loaded_recipe = recipes.load(recipe, changes)
    from regard.runs.train import train as run

    pipeline = run(
        loaded_recipe, out, resume=resume, quiet=quiet, threads=threads, device=device, dtype=dtype
    )
    if quiet or not ranks_here().first:
        return
    from regard.runs.evaluate import first_try

    print_status(f"{pipeline} is in {out}")
    print_status(f"try: {first_try(pipeline, out)}")


@app.command("eval")
@loads_model
def evaluate(
    model_name: ModelPath,
    columns: DataColumns = None,
    split: Annotated[str | None, Option(help="A split of the run's data: valid, test, …")] = None,
    files: Annotated[
        str | None,
        Option("--data", help="Other data: x.csv, x.tsv, x.jsonl, x.parquet, or x.en,x.de"),
    ] = None,
    out: Annotated[
        Path | None, Option("-o", "--out", help="A folder for hypotheses and picture.")
    ] = None,
    lowercase: Annotated[bool, Option("--lowercase", help="Ignore case in the scores.")] = False,
    beam: Beam = None,
    limit: Annotated[
        int | None,
        Option(help="Score only so many examples of each set, evenly spread over it.", min=1),
    ] = None,
    suggest: Annotated[
        bool, Option("--suggest", help="Also measure how often the next word is suggested (GPT).")
    ] = False,
    allow_unknown: Annotated[
        bool, Option("--allow-unknown", help="Exit 0 even if most words are unknown.")
    ] = False,
    analogies: Annotated[
        list[str] | None,
        Option(help="Word vectors: a file with four words per line, such as questions-words.txt."),
    ] = None,
    similarity: Annotated[
        list[str] | None,
        Option(help="Word vectors: a file with two words and a score per line; repeatable."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    *,
    load: Load,
) -> None:
    """Score a model: loss, perplexity, and the task's metrics (BLEU and chrF, accuracy, F1).

    For word vectors: the share of analogies solved, and Spearman correlations with human scores.
    """
    from regard.cli.vectors import evaluate_vectors
    from regard.recipes.recipe import parse_columns
    from regard.runs.evaluate import evaluate as score
    from regard.runtime.progress import Progress

    values = {"--split": split, "--data": files, "-o": out, "--beam": beam, "--limit": limit}
    switches = {"--suggest": suggest or None, "--lowercase": lowercase or None}
    options = [option for option, value in {**values, **switches}.items() if value is not None]
    if evaluate_vectors(model_name, analogies or [], similarity or [], options, as_json=as_json):
        return
    pipeline = load(model_name, download=False)
    printed: list[str] = []

    with Progress(1.0, quiet=quiet, at_once=False) as bar:

        def print_at_once(line: str) -> None:
            bar.show(line)
            printed.append(line)

        report = score(
            pipeline,
            out=out,
            split=split,
            files=files,
            columns=parse_columns(columns or ()),
            beam=beam,
            suggest=suggest,
            limit=limit,
            lowercase=lowercase,
            on_progress=bar.update_to,
            on_headline=None if as_json else print_at_once,
        )
    for line in report.rows() if as_json else report.text().split("\n")[len(printed) :]:
        print_line(line)
    if out is not None and report.curves():
        print_status(f"hypotheses and pictures are in {out}", quiet=quiet)
    if not allow_unknown:
        report.check()


add_verbs(app)


app.command()(look)


@app.command()
@loads_model
def words(
    model_name: ModelPath,
    word: Annotated[str, Argument(metavar="WORD", help="The word to compare.")],
    sentences: Annotated[
        list[str], Option("--in", help="A sentence with the word in it; repeatable.")
    ],
    layer: Annotated[
        int | None,
        Option(help="The block whose output is used, from 0; by default the whole stack."),
    ] = None,
    top: Annotated[int, Option(help="How many to show.", min=1)] = 5,
    as_json: AsJson = False,
    *,
    load: Load,
) -> None:
    """Compare a word's vectors in several sentences, and list the nearest words."""
    comparison = load(model_name).words(word, sentences, layer=layer, count=top)
    print_result(comparison.table(), comparison.to_json(), as_json=as_json)


app.command()(heads)
add_plugin(app, "show")


@app.command()
def plan(
    what: Annotated[
        str | None,
        Argument(
            metavar="[RECIPE|SIZE|MODEL]",
            help="A recipe, a size (base, gpt2, …), or a model's folder or cached name; by "
            "default, the sizes are listed.",
        ),
    ] = None,
    overrides: Annotated[list[str] | None, Argument(metavar="[KEY=VALUE]...")] = None,
    tokens: Annotated[
        float | None, Option(help="Tokens of a training, such as 1e9; images for convolutions.")
    ] = None,
    flops: Annotated[
        float | None, Option(help="Matrix rate in FLOP/s; measured here if not given.")
    ] = None,
    price: Annotated[float | None, Option("--price-per-hour", help="To estimate the cost.")] = None,
    vocab: Annotated[int | None, Option(help="Entries of the vocabulary.")] = None,
    length: Annotated[int | None, Option(help="Tokens of a text.", min=1)] = None,
    sizes: Annotated[
        bool, Option("--table", help="The lectures' table of sizes, computed.")
    ] = False,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Estimate parameters, FLOPs, memory, time and cost of a model before training it."""
    from regard.cost.plan import plan as compute
    from regard.runtime.device import setup

    if sizes:
        from regard.cost.sizes import table

        print_line(table())
        return
    if what is None:
        from regard.cost.names import listing

        print_line(listing())
        return
    setup(threads, None)
    estimate = compute(
        what,
        overrides or (),
        tokens=tokens,
        flops=flops,
        price_per_hour=price,
        vocab=vocab,
        length=length,
        threads=threads,
    )
    print_result(estimate.table(), estimate.to_json(), as_json=as_json)


@app.command("recipe")
def recipe_command(
    name: Annotated[
        str | None, Argument(metavar="[NAME]", help="A recipe's name; by default, all are listed.")
    ] = None,
    keys: Annotated[
        bool, Option("--keys", help="List the keys of a recipe; NAME: only those of a section.")
    ] = False,
    full: Annotated[
        bool, Option("--full", help="Print every value of NAME, nested, and where it comes from.")
    ] = False,
    overrides: Annotated[
        list[str] | None, Argument(metavar="[KEY=VALUE]...", help="Changes, with --full.")
    ] = None,
) -> None:
    """Print a shipped recipe, to read it or to start your own from it."""
    from regard.recipes import recipe as recipes

    if (full and name is None) or (overrides and not full):
        raise InputError("regard recipe", expected="--full NAME [KEY=VALUE]...")
    if keys:
        print_line(recipes.KEYS.listing(name))
    elif full and name is not None:
        from regard.recipes.full import full_text

        print_line(full_text(name, overrides or ()), end="")
    elif name is not None:
        print_line(recipes.text_of(name), end="")
    else:
        print_line(_two_columns(recipes.shipped()))


@app.command("ls")
def list_runs(
    name: Annotated[
        str | None,
        Argument(
            metavar="[FOLDER|NAME]",
            help="A folder to list, or a model or run whose card to show; by default, the shelf "
            "and this folder are listed.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List shipped models and the models and runs of a folder, or show the card of one."""
    from regard.runs.list import list_models

    text, rows = list_models(name)
    if not rows:
        print_status(f"{name or 'this folder'} has no runs, checkpoints or Hugging Face folders")
        return
    print_result(text, *rows, as_json=as_json)


@app.command()
def env(
    kernels: Annotated[
        bool, Option("--kernels", help="Also list the kernels in use; it takes a second.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show versions, threads and the capabilities of this machine."""
    from regard.runtime.device import describe

    facts = describe(kernels=kernels)
    if kernels:
        from regard.kernels.small_batches import state

        facts["few rows"] = state()
    print_result(_two_columns(facts), facts, as_json=as_json)


def _two_columns(values: Mapping[str, Any]) -> str:
    """Names and values in two columns."""
    return "\n".join(aligned([(name, str(value)) for name, value in values.items()]))


@data_app.command("check")
def data_check(
    files: Annotated[
        list[str],
        Argument(
            metavar="FILES|RECIPE [KEY=VALUE]...",
            help="A table (.tsv, .csv, .jsonl, .parquet, a dataset folder), two aligned files, or "
            "images; with columns such as data.text=sentence. Or a recipe as for `train`.",
        ),
    ],
    task: Annotated[
        str | None,
        Option(help="What the file is for: translate, classify, tag, answer; or predict."),
    ] = None,
    max_words: Annotated[
        int, Option(help="Report sentences with more words as too long.", min=1)
    ] = 250,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Report columns and problems of texts, labels or images; exit with 1 if there are any."""
    from regard.cli.data import check_data

    if check_data(files, task, max_words, as_json=as_json, quiet=quiet):
        raise typer.Exit(1)


@data_app.command("sample")
def data_sample(
    recipe: Annotated[
        str, Argument(metavar="RECIPE", help="A recipe; or `scenes` or `tissue`, drawn.")
    ] = "tiny/translate",
    overrides: Annotated[list[str] | None, Argument(metavar="[KEY=VALUE]...")] = None,
    split: Annotated[str, Option(help="train, valid, or the name of a test set.")] = "train",
    count: Annotated[int, Option("--pairs", help="How many.", min=1)] = 10,
    out: Annotated[
        Path | None, Option("-o", "--out", metavar="FOLDER", help="Write images into this folder.")
    ] = None,
    side: Annotated[int, Option(help="Width and height of drawings.", min=16, max=4096)] = 128,
) -> None:
    """Print examples of a recipe's data, separated by tabs; with -o, write its images as PNG."""
    from regard.data.sources import pairs_of
    from regard.recipes import recipe as recipes

    name, changes = recipe, overrides or []
    if recipe == "scenes":
        name, changes = "own/images", ["data.kind=scenes", *changes]
    elif recipe == "tissue":
        name = "small/tissue"
    loaded_recipe = recipes.load(name, changes)
    if loaded_recipe.data.example_type == "pictures":
        _sample_images(loaded_recipe, split, count, out, side)
        return
    if out is not None:
        raise InputError("-o", got=f"{recipe}, which has no images", expected="a recipe of images")
    if loaded_recipe.data.example_type == "labels":
        from regard.cli.data import labelled_lines

        for line in labelled_lines(loaded_recipe, split, count):
            print_line(line)
        return
    if loaded_recipe.data.example_type == "rows":
        from regard.cli.data import row_lines

        for line in row_lines(loaded_recipe.data, split, count):
            print_line(line)
        return
    for pair in pairs_of(loaded_recipe.data, split)[:count]:
        print_line(f"{pair.source}\t{pair.target}")


def _sample_images(recipe: Any, split: str, count: int, out: Path | None, side: int) -> None:
    """Print the labels, captions or numbers of images; with a folder, write the images, too."""
    from regard.data.images.sample import iter_samples, write_samples
    from regard.inputs.images.reader import ImageReader

    (height, width), channels = recipe.model.image, recipe.model.channels
    if recipe.data.kind in ("scenes", "tissue"):
        (height, width), channels = (side, side), 3
    half = (0.5,) * channels
    reader = ImageReader(height=height, width=width, channels=channels, mean=half, std=half)
    numbers = recipe.task == "predict"
    samples = iter_samples(recipe.data, split, count, reader, numbers=numbers)
    rows = (row for row, *_ in samples) if out is None else write_samples(samples, out)
    for row in rows:
        cells = [row[key] for key in ("path", "label", "caption") if row.get(key)]
        cells += [f"{name} {value:.4g}" for name, value in row.get("numbers", {}).items()]
        print_line("\t".join(cells))
    if out is not None:
        print_status(f"images and {'outputs.csv' if numbers else 'captions.jsonl'} are in {out}")


app.command("tokens")(tokens)
app.command("compare")(compare)
add_plugin(app, "lecture")
app.command("import")(import_model)
app.command("export")(export_model)
app.command("vectors")(vectors)
