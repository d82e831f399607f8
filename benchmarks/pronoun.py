"""Three trainings of tiny/pronoun: what “it” looks at in the encoder, with and without that head.

    python -m benchmarks.pronoun RUN [RUN …] -o regard_lectures/results/pronoun_seeds.json

Each RUN is a training with another seed: `regard train tiny/pronoun seed=1 -o RUN`, about three
minutes. Prints and writes what `regard show animal` states: how often the largest weight from “it”
is on its noun in unseen sentences, and how many pronouns are right with and without that head.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from regard import load
from regard.data import grammar
from regard_lectures.figures.animal import measure_encoder

KEYS = ("head", "on_noun", "chance", "count", "right", "right_without")


def main() -> None:
    """Measure the given runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args()
    measured = []
    for run in options.runs:
        pipeline = load(run, device="cpu")
        numbers = measure_encoder(pipeline, [pair.source for pair in grammar.DEMO], 0)
        measured.append({"seed": pipeline.recipe.seed, **{key: numbers[key] for key in KEYS}})
        print(measured[-1], flush=True)
    options.out.write_text(json.dumps(measured) + "\n")


if __name__ == "__main__":
    main()
