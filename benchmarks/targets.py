"""Fast decoding beside its targets: every figure in one run, each reached or missed.

    python -m benchmarks.targets --data FOLDER        8 minutes on two quiet cores
    python -m benchmarks.targets --quick              toy sizes: does everything run?
    python -m benchmarks.targets --parts gpt busy     some parts only

Parts: `gpt` (GPT-2 small after 1 and 16 prompts, beside llama.cpp, CTranslate2 and the memory),
`translation` (6+6×512, beam 4, 1 and 32 sentences, beside CTranslate2), `quality` (what int8 costs;
see `python -m benchmarks.int8`), and `busy` (beside 1, 2 and 4 busy programs, as a share of the
better of one and two threads). Writes `targets.md` and the files of `python -m benchmarks` into
`benchmarks/results/targets`. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import busy, decoding, gpt, int8
from benchmarks.int8 import Finding
from benchmarks.measure.command import Request, bench
from benchmarks.measure.harness import Experiment
from benchmarks.measure.suite import Makers, Settings, gpt_decoding
from benchmarks.run import RESULTS
from regard.errors import UserError
from regard.runtime.files import write_file

PARTS = ("gpt", "translation", "quality", "busy")
BESIDE = ("Regard", "llama.cpp", "CTranslate2")
"""The beginnings of the labels of those who are measured; `generate` is slower than each."""


def narrowed(experiment: Experiment) -> Experiment:
    return experiment.narrowed(lambda label: label.startswith(BESIDE))


def speed(parts: list[str]) -> Makers:
    """The experiments of the parts."""

    def translation(chosen: Settings, sentences: int) -> Experiment:
        return narrowed(decoding.decoding(chosen, sentences, {}))

    makers: Makers = {}
    if "gpt" in parts:
        makers["gpt-decoding-1"] = lambda chosen: narrowed(gpt.decoding(chosen, 1))
        makers["gpt-decoding-16"] = lambda chosen: gpt_decoding(chosen, 16)
    if "translation" in parts:
        makers["decoding-1"] = lambda chosen: translation(chosen, 1)
        makers["decoding-32"] = lambda chosen: translation(chosen, 32)
    return makers


def speed_findings(asked: argparse.Namespace) -> list[Finding]:
    """Measures speed and prints the tables; a finding for each bar."""
    makers = speed(asked.parts)
    if not makers:
        return []
    request = Request(
        quick=asked.quick,
        rounds=asked.rounds,
        threads=asked.threads,
        output=asked.output,
        quiet=asked.quiet,
    )
    result = bench(makers, request)
    print(result.report, flush=True)
    return [
        Finding(f"{experiment['name']}: {bar['says'][2:]}", bar["met"])
        for experiment in result.json["experiments"]
        for bar in experiment["bars"]
    ]


def busy_findings(*, quick: bool) -> list[Finding]:
    """Decoding beside busy programs: the default as a share of the better of 1 and 2 threads."""
    works = ["one sentence"] if quick else ["GPT-2", "GPT-2 int8"]
    loads, rounds, seconds = ([1], 1, 0.5) if quick else ([1, 2, 4], 2, 2.0)
    # Threads that spin beside busy programs are never the better ones, and take minutes.
    names = [name for name in busy.CONTENDERS if "spinning" not in name]
    busy.print_header(names)
    return [
        Finding(
            f"{work}, busy programs beside it: {load}; share {share:.2f}, at least {busy.BAR}",
            share >= busy.BAR,
        )
        for work in works
        for load, share in zip(
            loads, busy.measure(work, loads, rounds, seconds, names), strict=True
        )
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    add("--data", type=Path, default=Path(int8.FOLDER), metavar="FOLDER")
    add("--quick", action="store_true", help="toy sizes, 2 rounds; the numbers mean nothing")
    add("--rounds", type=int, help="rounds of each experiment (5)")
    add("--threads", type=int, default=2, help="threads for everybody (2)")
    add("--output", type=Path, default=RESULTS / "targets", metavar="DIR")
    add("--quiet", action="store_true", help="no progress")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    try:
        findings = speed_findings(asked)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if "busy" in asked.parts:
        findings += busy_findings(quick=asked.quick)
    if "quality" in asked.parts:
        findings += int8.findings(asked.data, 4 if asked.quick else 20)
    words = {True: "reached", False: "missed", None: "not measured"}
    if asked.quick:  # toy sizes reach and miss nothing
        words |= {True: "measured", False: "measured"}
    lines = [f"{words[finding.met]:<12}  {finding.text}" for finding in findings]
    print("\nTargets\n" + "\n".join(lines))
    write_file(asked.output / "targets.md", "\n".join(["```text", *lines, "```", ""]).encode())
    return int(not asked.quick and any(finding.met is False for finding in findings))


if __name__ == "__main__":
    raise SystemExit(main())
