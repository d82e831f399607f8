"""The commands. Each is thin: it reads its arguments and calls the Pipeline.

Nothing heavy is imported at the top: `regard --help` answers before torch would have loaded.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from regard.cli import text
from regard.cli.options import (
    AsJson,
    Beam,
    Input,
    KnockOut,
    Place,
    Precision,
    Quiet,
    Seed,
    Texts,
    Threads,
    chosen,
    hush,
    open_pipeline,
    say,
)
from regard.cli.tokens import tokens
from regard.errors import InputError, Interrupted, UserError, WriteError
from regard.stopping import be_the_command, end, end_at_once, give_back

if TYPE_CHECKING:
    from regard.pipeline import Pipeline
    from regard.tasks import Output

app = typer.Typer(
    name="regard",
    help="Attention models that can be trained, run, looked into, edited and watched change.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Look at data before training on it.", no_args_is_help=True)
app.add_typer(data_app, name="data")

USAGE: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""What typer raises for a wrong option; its home differs between versions of typer."""


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"regard {version('regard')}")
        raise typer.Exit


@app.callback()
def _regard(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Attention models that can be trained, run, looked into, edited and watched change."""
    del version  # said before anything else is done


@app.command()
def demo(
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the shipped model: no training.")
    ] = False,
    quiet: Quiet = False,
    threads: Threads = None,
) -> None:
    """The guided tour: translate, look inside, take a head away, train from scratch."""
    from regard.demo import run

    run(Path("regard-demo"), quick=quick, quiet=quiet, threads=threads)


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A file, or a shipped name.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Such as train.steps=500.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("-o", "--out", metavar="RUN", help="The run's folder.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint.")
    ] = False,
    quiet: Quiet = False,
    threads: Threads = None,
    seed: Seed = None,
) -> None:
    """Train a recipe; a run that was stopped, even by kill -9, goes on with --resume."""
    from regard import recipe as recipes
    from regard.training import train as run

    if not out:
        raise InputError(
            "train", got="no -o", expected="a folder for the run", fix="add -o runs/first"
        )
    changes = [*(overrides or ()), *(() if seed is None else (f"seed={seed}",))]
    if seed is not None and seed < 0:
        raise InputError("--seed", got=seed, expected="0 or more")
    pipeline = run(recipes.load(recipe, changes), out, resume=resume, quiet=quiet, threads=threads)
    say(f"{pipeline} is in {out}", quiet=quiet)
    if not quiet:
        from regard.scoring import first_try

        say(f"try: {first_try(pipeline, out)}")


@app.command("eval")
def evaluate(
    place: Place,
    split: Annotated[
        str | None, typer.Option(help="A split of the run's data: valid, test, …")
    ] = None,
    files: Annotated[
        str | None, typer.Option("--data", help="Other pairs: x.tsv, x.csv, x.jsonl, x.en,x.de")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="A folder for hypotheses and picture.")
    ] = None,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Score without regard to case.")
    ] = False,
    beam: Beam = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Of a GPT: how often it suggests the next word, too.")
    ] = False,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Exit 0 even if most words are unknown.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    threads: Threads = None,
    precision: Precision = "fp32",
) -> None:
    """Loss, perplexity, and the measures of the task: BLEU and chrF (sacrebleu), accuracy, F1."""
    from regard.bench.progress import Progress
    from regard.scoring import evaluate_sets, pairs_to_score

    pipeline = open_pipeline(place, threads, precision)
    if suggest and pipeline.recipe.task != "generate":
        raise InputError("--suggest", got=f"{pipeline}", expected="a model that writes on")
    if pipeline.recipe.task in ("generate", "restore", "fill"):
        asked = {"suggest": suggest, "allow_unknown": allow_unknown}
        _evaluate_text(pipeline, files, **asked, as_json=as_json, quiet=quiet)
        return
    if pipeline.recipe.task in ("classify", "tag", "answer"):
        from regard.scoring import evaluate_labelled

        labelled = evaluate_labelled(pipeline, split, files, out)
        rows = [json.dumps(entry, ensure_ascii=False) for entry in labelled.to_json()]
        print("\n".join(rows) if as_json else labelled.table())
        if not allow_unknown:
            labelled.check()
        return
    sets = pairs_to_score(pipeline, split, files)
    with Progress(1.0, quiet=quiet, at_once=False) as bar:
        more = chosen(beam=beam)
        report = evaluate_sets(pipeline, sets, out, lowercase=lowercase, tell=bar.reach, **more)
    rows = [json.dumps(entry, ensure_ascii=False) for entry in report.to_json()]
    print("\n".join(rows) if as_json else report.table())
    if out is not None:
        say(f"hypotheses and pictures are in {out}", quiet=quiet)
    if not allow_unknown:
        report.check()


def _evaluate_text(
    pipeline: Pipeline,
    files: str | None,
    *,
    suggest: bool,
    allow_unknown: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Prints the loss of a model of plain text as soon as it is known, then what else there is."""
    from regard.bench.progress import Progress
    from regard.text_scores import SUGGESTED, evaluate_text

    with Progress(1.0, quiet=quiet, at_once=False) as bar:
        first = None if as_json else lambda early: bar.show(early.headline())
        asked = SUGGESTED if suggest else 0
        found = evaluate_text(pipeline, files, words=asked, tell=bar.reach, first=first)
    rest = [json.dumps(found.to_json(), ensure_ascii=False)] if as_json else found.details()
    for line in rest:
        print(line)
    if not allow_unknown:
        found.check()


@app.command()
def translate(
    place: Place,
    texts: Texts = None,
    source: Input = None,
    beam: Beam = None,
    n_best: Annotated[
        int | None, typer.Option("--n-best", help="How many translations of each.")
    ] = None,
    sample: Annotated[bool | None, typer.Option("--sample", help="Draw instead of search.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Of sampling.")] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Sample from the k likeliest.")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", help="Sample from this much probability.")
    ] = None,
    min_p: Annotated[
        float | None, typer.Option("--min-p", help="… from those this close to the best.")
    ] = None,
    max_length: Annotated[int | None, typer.Option("--max-length", help="Most tokens.")] = None,
    min_length: Annotated[int | None, typer.Option("--min-length", help="Fewest tokens.")] = None,
    length_penalty: Annotated[
        float | None, typer.Option("--length-penalty", help="Exponent α.")
    ] = None,
    no_repeat_ngram: Annotated[int | None, typer.Option("--no-repeat-ngram", help="Size.")] = None,
    repetition_penalty: Annotated[float | None, typer.Option("--repetition-penalty")] = None,
    prefix: Annotated[
        str | None, typer.Option("--prefix", help="How translations must begin.")
    ] = None,
    knock_out: KnockOut = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Translate around words it does not know.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a line that cannot be read.")
    ] = False,
    streaming: Annotated[
        bool, typer.Option("--stream", help="Show the translation as it grows.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    threads: Threads = None,
    precision: Precision = "fp32",
    seed: Seed = None,
) -> None:
    """Translate sentences, a file, or what comes through a pipe."""
    from regard.lines import Lines

    hush(quiet=quiet)

    pipeline = open_pipeline(place, threads, precision)
    options = chosen(
        beam=beam, n_best=n_best, sample=sample, temperature=temperature, top_k=top_k, top_p=top_p,
        min_p=min_p, max_length=max_length, min_length=min_length, length_penalty=length_penalty,
        no_repeat_ngram=no_repeat_ngram, repetition_penalty=repetition_penalty, seed=seed,
    )  # fmt: skip
    if sample and beam is None:
        options["beam"] = 1
    if n_best is not None and beam is None and not sample:
        options["beam"] = max(pipeline.recipe.decode.beam, n_best)
    lines = Lines(
        pipeline,
        allow_unknown=allow_unknown,
        strict=strict,
        as_json=as_json,
        n_best=n_best or 1,
    )

    def work(sentences: list[str]) -> list[list[Output]]:
        prefixes = None if prefix is None else [prefix] * len(sentences)
        given = {"prefixes": prefixes, "knock_out": knock_out or (), **options}
        return pipeline.outputs(sentences, allow_unknown=True, **given)  # `lines` has refused them

    if texts == ["-"]:
        texts, source = None, "-"
    if texts and source is not None:
        raise InputError("translate", got="sentences and --input", expected="one of the two")
    if streaming:
        lines.grow(texts, source, {**options, "prefix": prefix or "", "knock_out": knock_out or ()})
    elif texts:
        lines.answer(texts, work)
    else:
        lines.pipe(source, work)


@app.command()
def look(
    place: Place,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The sentence.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="out.html, out.png or out.svg")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="alignment, grid, self or positions")] = None,
    layer: Annotated[str | None, typer.Option(help="A number, or a name such as encoder.1")] = None,
    head: Annotated[
        int | None, typer.Option(help="A head's number; by default their mean.")
    ] = None,
    word: Annotated[str | None, typer.Option(help="The word whose gaze to bring out.")] = None,
    target: Annotated[
        str | None, typer.Option(help="A translation to follow (forced decoding).")
    ] = None,
    knock_out: KnockOut = None,
    beam: Beam = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Look at words it does not know, too.")
    ] = False,
    quiet: Quiet = False,
    threads: Threads = None,
    precision: Precision = "fp32",
) -> None:
    """Draw what a model looks at while it reads, translates or restores a text."""
    from regard.explain.look import picture_ending
    from regard.lines import Lines

    out = Path("look.html") if out is None else out
    picture_ending(out)  # refuse before the work, not after it
    pipeline = open_pipeline(place, threads, precision)
    if pipeline.recipe.task in ("translate", "rewrite") and not pipeline.has_holes(text):
        Lines(pipeline, allow_unknown=allow_unknown).check(text, "look")
    given = {"target": target, "knock_out": knock_out or (), **chosen(beam=beam)}
    seen = pipeline.look(text, allow_unknown=True, **given)  # refused before, or allowed
    number: int | str | None = int(layer) if layer is not None and layer.isdigit() else layer
    seen.save(out, kind=kind, layer=number, head=head, word=word)
    print(seen.target or text)
    say(f"{out} shows {seen.choose(kind, number, head, word).name}", quiet=quiet)


@app.command()
def heads(
    place: Place,
    split: Annotated[
        str | None, typer.Option(help="A split of the run's data; by default valid.")
    ] = None,
    files: Annotated[
        str | None,
        typer.Option("--data", help="Pairs, or labelled examples; text for a GPT, BERT or T5."),
    ] = None,
    count: Annotated[
        int, typer.Option("--pairs", help="How many pairs, or pieces of text.", min=1)
    ] = 100,
    as_json: AsJson = False,
    threads: Threads = None,
    precision: Precision = "fp32",
) -> None:
    """What each head does, and what breaks when it is knocked out.

    A line a head: effect is the rise of the loss without it; previous, first, positional (at which
    distance) say where it looks, entropy how spread out. Encoders count, too: by the loss of hidden
    tokens, classes, tags or answers.
    """
    from dataclasses import asdict

    from regard.scoring import heads_table, pairs_to_score

    pipeline = open_pipeline(place, threads, precision)
    texts: Any
    task = pipeline.recipe.task
    if task in ("generate", "restore", "fill", "embed"):
        from regard.text_scores import passages

        if split is not None:
            got, expected = "a model of plain text", "--data FILES, or what was held out"
            raise InputError("--split", got=got, expected=expected)
        texts = passages(pipeline, files, count)
    elif task in ("classify", "tag", "answer"):
        from regard.scoring import labelled_sets

        split = split if files else split or "valid"
        [examples] = labelled_sets(pipeline, split, files, "heads").values()
        texts = examples[:count]
    else:
        split = split if files else split or "valid"
        [pairs] = pairs_to_score(pipeline, split, files).values()
        texts = pairs[:count]
    found = pipeline.heads(texts)
    if as_json:
        for each in found:
            print(json.dumps(asdict(each)))
    else:
        print(heads_table(found, len(texts), task))


@app.command()
def show(
    name: Annotated[
        str | None, typer.Argument(metavar="[FIGURE]", help="Without it: the list.")
    ] = None,
    options: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")] = None,
    text: Annotated[
        str | None, typer.Option(help="Your own input, where the figure takes one.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="FIGURE.png, .svg or .html")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    threads: Threads = None,
) -> None:
    """Draw a figure of the lectures from a live model or computation."""
    from regard.atlas import listing, parse_options
    from regard.atlas import show as draw

    if name is None:
        print(listing())
        return
    settings = parse_options(name, options or [])
    from regard.runtime import setup

    hush(quiet=quiet)
    setup(threads, None)
    drawing = draw(name, None, text=text, **settings)
    path = drawing.save(Path(f"{name}.png") if out is None else out)
    if as_json:
        print(
            json.dumps({"figure": name, "file": str(path), **drawing.numbers}, ensure_ascii=False)
        )
    else:
        print(drawing.caption)
        say(f"{path} is drawn", quiet=quiet)


@app.command()
def plan(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[RECIPE|SIZE|DIR]",
            help="A recipe, a size (base, gpt2, …), or a model's folder.",
        ),
    ] = None,
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")] = None,
    tokens: Annotated[
        float | None, typer.Option(help="Token budget of a training, such as 1e9.")
    ] = None,
    flops: Annotated[
        float | None, typer.Option(help="Matrix rate in FLOP/s; measured here if not given.")
    ] = None,
    price: Annotated[float | None, typer.Option("--price-per-hour", help="For the cost.")] = None,
    vocab: Annotated[int | None, typer.Option(help="Entries of the vocabulary.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens of a text.", min=1)] = None,
    sizes: Annotated[
        bool, typer.Option("--table", help="The lectures' table of sizes, computed.")
    ] = False,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Parameters, FLOPs, memory, time and cost of a model before any of it is spent."""
    from regard.plan import plan as compute
    from regard.runtime import setup

    if sizes:
        from regard.atlas.sizes import table

        print(table())
        return
    if what is None:
        raise InputError("plan", got="nothing", expected="a recipe, a size or a folder",
                         fix="try plan gpt2")  # fmt: skip

    setup(threads, None)
    found = compute(
        what,
        overrides or (),
        tokens=tokens,
        flops=flops,
        price_per_hour=price,
        vocab=vocab,
        length=length,
        threads=threads,
    )
    print(json.dumps(found.to_json()) if as_json else found.table())


@app.command("bench")
def bench_command(
    quick: Annotated[
        bool, typer.Option("--quick", help="Toy sizes, to see that everything runs.")
    ] = False,
    rounds: Annotated[int | None, typer.Option(help="Of each experiment; by default 5.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Such as training-base, or decoding; repeatable.")
    ] = None,
    files: Annotated[
        str | None, typer.Option("--data", help="Own parallel text: x.tsv, x.jsonl, or x.en,x.de")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="A folder for results and pictures.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    threads: Threads = None,
) -> None:
    """How fast this machine trains, decodes and looks, beside what the machine itself can do."""
    from regard.bench.command import Request, bench
    from regard.bench.suite import EXPERIMENTS
    from regard.scoring import split_files

    request = Request(
        quick=quick,
        rounds=rounds,
        threads=threads,
        only=tuple(only or ()),
        data=split_files([files]) if files else None,
        output=out,
        quiet=quiet,
    )
    found = bench(EXPERIMENTS, request)
    print(json.dumps(found.json, ensure_ascii=False) if as_json else found.report)
    if out is not None:
        say(f"results and pictures are in {out}", quiet=quiet)


@app.command("recipe")
def recipe_command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Without it: the list.")
    ] = None,
) -> None:
    """Print a shipped recipe, to read or to start your own from."""
    from regard import recipe as recipes

    if name is not None:
        print(recipes.text_of(name), end="")
        return
    names = recipes.shipped()
    width = max(map(len, names))
    for each, description in names.items():
        print(f"{each:<{width}}  {description}")


@app.command("ls")
def list_runs(
    folder: Annotated[Path, typer.Argument(help="Where runs are.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """List shipped models, and a folder's runs, checkpoints and Hugging Face folders."""
    from regard.scoring import runs_in, runs_table

    found = list(runs_in(folder))
    for entry in found if as_json else ():
        print(json.dumps(entry))
    if not as_json:
        print(runs_table(found))


@app.command()
def env(as_json: AsJson = False) -> None:
    """Versions, threads and what this machine can do."""
    from regard.runtime import describe, setup

    setup()  # as every command: REGARD_THREADS counts
    found = describe()
    if as_json:
        print(json.dumps(found))
        return
    width = max(map(len, found))
    for key, value in found.items():
        print(f"{key:<{width}}  {value}")


@data_app.command("check")
def data_check(
    files: Annotated[
        list[str], typer.Argument(help="x.tsv, x.csv, x.jsonl, or two aligned files.")
    ],
    max_words: Annotated[
        int, typer.Option("--max-words", help="More words a side is over-long.", min=1)
    ] = 250,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with parallel text, by file and line; exit 1 if anything is."""
    from dataclasses import asdict

    from regard.data.text import check
    from regard.scoring import split_files

    report = check(split_files(files), max_words)
    print(json.dumps(asdict(report), ensure_ascii=False) if as_json else report.describe())
    if report.problems:
        raise typer.Exit(1)


@data_app.command("sample")
def data_sample(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE")] = "tiny/translate",
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")] = None,
    split: Annotated[str, typer.Option(help="train, valid, or a test's name.")] = "train",
    count: Annotated[int, typer.Option("--pairs", help="How many.", min=1)] = 10,
) -> None:
    """Print pairs of a recipe's data, source and target with a tab between."""
    from regard import recipe as recipes
    from regard.scoring import pairs_of

    for pair in pairs_of(recipes.load(recipe, overrides or ()), split)[:count]:
        print(f"{pair.source}\t{pair.target}")


for name, command in text.COMMANDS.items():
    app.command(name)(command)
app.command("tokens")(tokens)


def fail(error: UserError) -> NoReturn:
    """Two lines at most, no traceback, the exit code of the error."""
    if isinstance(error, Interrupted):  # another signal must not interrupt the interpreter's end
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        end(error.exit_code, str(error))
    say(f"error: {error}")
    raise SystemExit(error.exit_code)


def write_utf8() -> None:
    """Whatever the locale says: translations have umlauts."""
    for out in (sys.stdout, sys.stderr):
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(encoding="utf-8")


def misused(error: Any) -> NoReturn:
    """A wrong option, or a command that needs another word after it."""
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)
        raise SystemExit(2)
    fail(InputError(error.format_message(), fix="regard --help, or regard COMMAND --help"))


def main() -> None:
    """Runs a command; anything a user can cause ends in two lines and an exit code."""
    before = be_the_command()
    try:
        run_command()
    finally:
        give_back(before)


def run_command() -> None:
    """What was typed; an error is said, and becomes an exit code."""
    write_utf8()
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        code = app(standalone_mode=False)  # a command's typer.Exit comes back as its code
    except UserError as error:
        fail(error)
    except USAGE as error:
        misused(error)
    except typer.Abort:
        raise SystemExit(130) from None
    except KeyboardInterrupt:
        end_at_once(signal.SIGINT, None)
    except BrokenPipeError:
        # Whoever read our output has enough; nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except OSError as error:
        name = f" {error.filename}" if error.filename else ""
        fail(WriteError(f"could not read or write{name}: {error.strerror or error}"))
    except SystemExit:
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # typer met a closed pipe
            raise SystemExit(0) from None
        raise
    if code:
        raise SystemExit(code)
