"""`regard compare`: trains several recipes on the same data and budget, side by side."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.cli.options import AsJson, Quiet, Threads
from regard.errors import InputError
from regard.runtime.printing import print_line, print_result, print_status


def compare(
    words: Annotated[
        list[str],
        Argument(
            metavar="RECIPE... [KEY=VALUE]... | DIR",
            help="Recipes, or one that lists several (tiny/compare); or a finished comparison.",
        ),
    ],
    out: Annotated[
        Path | None, Option("-o", "--out", metavar="DIR", help="The folder for models and results.")
    ] = None,
    text: Annotated[list[str] | None, Option(help="A sentence for all models; repeatable.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    threads: Threads = None,
) -> None:
    """Train several translators on the same data and budget, and put them side by side.

    Writes compare.html, compare.png and compare.json. Run again, it continues where it stopped;
    on a finished comparison, --text translates a sentence by all its models.
    """
    from regard.runs import compare as comparing
    from regard.runtime.device import setup

    setup(threads, None, quiet=quiet)
    texts = text or []
    finished = len(words) == 1 and out is None and (Path(words[0]) / comparing.FILE).is_file()
    if finished:
        compared = comparing.read_comparison(words[0])
        missing = [model.name for model in compared.models if model.name not in compared.results]
        if missing:
            got = f"no results of {missing[0]} yet"
            fix = "run the command with the recipes again: it continues"
            raise InputError(words[0], got=got, expected="a finished comparison", fix=fix)
    elif out is None:
        expected = "a folder for the comparison"
        fix = "add -o runs/compare, or name the folder of a finished one"
        raise InputError("compare", got="no -o", expected=expected, fix=fix)
    else:
        report = partial(print_status, quiet=quiet)
        compared = comparing.compare(words, out, threads=threads, quiet=quiet, on_status=report)
    from regard.explain import comparison

    if as_json:
        results = {name: result.model_dump() for name, result in compared.results.items()}
        translations = compared.translations(texts) if texts else {}
        print_result("", {"results": results, "translations": translations}, as_json=True)
        return
    if finished and texts:
        for sentence in texts:
            print_line(sentence)
            for name, [translation] in compared.translations([sentence]).items():
                print_line(f"  {name}: {translation}")
    else:
        print_line(comparison.table(compared))
    print_status(f"{comparison.write_page(compared, texts)} shows it", quiet=quiet)
