"""The whole suite: `python -m benchmarks`, or `make bench`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from benchmarks import decoding, embedding, gpt, growth, images, looking, recurrent, training
from benchmarks.measure.command import Request, bench
from benchmarks.measure.images import IMAGES
from benchmarks.measure.limits import limits
from benchmarks.measure.suite import LONG, PROMPTS, SENTENCES, Makers, quality
from benchmarks.measure.worker import from_file
from regard.data.text.files import split_files
from regard.errors import InputError, UserError

RESULTS = Path(__file__).parent / "results"


def experiments(others: Mapping[str, ModuleType], *, quick: bool = False) -> Makers:
    """Everything that is measured, in this order."""
    return {
        "limits": lambda chosen: limits(quick=chosen.quick),
        "training-demo": lambda chosen: training.demo(chosen, others),
        "training-base": lambda chosen: training.base(chosen, others),
        **{
            f"decoding-{n}": lambda chosen, n=n: decoding.decoding(chosen, n, others)
            for n in SENTENCES
        },
        "int8-quality": quality,
        "gpt-training": gpt.training,
        **{f"gpt-decoding-{n}": lambda chosen, n=n: gpt.decoding(chosen, n) for n in PROMPTS},
        "recurrent-training": recurrent.training,
        **{
            f"recurrent-decoding-{n}": lambda chosen, n=n: recurrent.decoding(chosen, n)
            for n in SENTENCES
        },
        "recurrent-language": recurrent.language_model,
        "embedding": embedding.embedding,
        **{f"images-{n}": lambda chosen, n=n: images.images(chosen, n) for n in IMAGES},
        "image-training": images.training,
        **{f"looking-{n}": lambda chosen, n=n: looking.looking(chosen, n) for n in LONG},
        **growth.sweeps(quick=quick),
    }


def other(text: str) -> tuple[str, ModuleType]:
    """`NAME=FILE.py` -> somebody's own contenders, to stand beside ours."""
    name, _, file = text.rpartition("=")
    if not Path(file).is_file():
        raise InputError("--peer", got=text, expected="NAME=FILE.py, a file that is there")
    return name or Path(file).stem, from_file(str(Path(file).resolve()))


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="toy sizes and 2 rounds: does everything run?")
    add("--rounds", type=int, help="rounds of each experiment (5)")
    add("--threads", type=int, help="threads for everybody (all cores)")
    add("--only", action="append", default=[], metavar="NAME", help="only these; repeatable")
    add(
        "--beside",
        action="append",
        default=[],
        metavar="PEER",
        help="only these peers beside ours, such as llama.cpp; repeatable",
    )
    add("--data", metavar="FILES", help="own parallel text: x.tsv, x.jsonl, or x.en,x.de")
    add("--peer", action="append", default=[], metavar="NAME=FILE.py", help="one more contender")
    add("--output", type=Path, default=RESULTS, metavar="DIR", help="benchmarks/results")
    add("--strict", action="store_true", help="exit with 1 if a bar is missed")
    add("--list", action="store_true", help="print the names and stop")
    add("--quiet", action="store_true", help="no progress")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Runs what was asked for; the exit code."""
    try:
        asked = arguments(given)
        makers = experiments(dict(map(other, asked.peer)), quick=asked.quick)
        if asked.list:
            print("\n".join(makers))
            return 0
        request = Request(
            quick=asked.quick,
            rounds=asked.rounds,
            threads=asked.threads,
            only=tuple(asked.only),
            beside=tuple(asked.beside),
            data=split_files([asked.data]) if asked.data else None,
            output=asked.output,
            strict=asked.strict,
            quiet=asked.quiet,
        )
        result = bench(makers, request)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("stopped; the experiments that were done are saved", file=sys.stderr)
        return 130
    print(result.report)
    print(f"\nwritten to {asked.output}", file=sys.stderr)
    return result.exit_code
