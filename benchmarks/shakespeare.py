"""Shakespeare by characters in nanoGPT's CPU setting: its own recipe, and ours.

    python -m benchmarks.shakespeare --data ../shared/data

4 layers, 4 heads, 128 wide, 64 characters of context, 12 rows a step, 2,000 steps; the loss is over
the whole last tenth of the text in rows that do not overlap, the mean of three seeds. Prints a
table and writes JSON; exits with 1 if a bar is missed and `--strict` is given.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import regard
from regard.recipes import recipe as recipes
from regard.runs.evaluate import evaluate

BARS = {"shakespeare/nanogpt": (1.87, 1.91), "shakespeare/characters": (0.0, 1.74)}
"""Between what and what the mean loss is to be."""


def train(name: str, data: Path, seed: int, threads: int | None) -> dict[str, float]:
    """One training: parameters and the loss on the held-out tenth."""
    file = data / "tinyshakespeare" / "input.txt.gz"
    changes = [f"data.files={json.dumps([str(file)])}", f"seed={seed}"]
    with tempfile.TemporaryDirectory() as folder:
        recipe = recipes.load(name, changes)
        pipeline = regard.train(recipe, Path(folder) / "run", threads=threads)
    return {"parameters": pipeline.parameters, "loss": evaluate(pipeline).loss}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--only", choices=BARS)
    parser.add_argument("--output", type=Path, help="a file for the figures, as JSON")
    parser.add_argument("--strict", action="store_true")
    arguments = parser.parse_args()
    results, missed = {}, False
    for name, (low, high) in BARS.items():
        if arguments.only not in (None, name):
            continue
        runs = [
            train(name, arguments.data, seed, arguments.threads) for seed in range(arguments.seeds)
        ]
        losses = [run["loss"] for run in runs]
        mean = statistics.mean(losses)
        results[name] = {**runs[0], "loss": mean, "losses": losses}
        missed |= not low <= mean <= high
        text = " ".join(f"{loss:.4f}" for loss in losses)
        bar = f"{low:g} to {high:g}" if low else f"at most {high:g}"
        print(f"{name}: {runs[0]['parameters']:,} parameters, loss {mean:.4f} ({text}), bar {bar}")
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if missed and arguments.strict else 0)


if __name__ == "__main__":
    main()
