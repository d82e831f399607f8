"""The accuracy of image models: train a shipped recipe, choose on validation, read the test once.

    python -m benchmarks.accuracy cifar/convolution --data FOLDER
    python -m benchmarks.accuracy small/digits              five folds; the data are included

FOLDER has a folder of images for each class in `train` and `test` (CIFAR-10), or IDX files
(Fashion-MNIST). Writes `accuracy-NAME.json` and the confusion matrix into `benchmarks/results/`.
A run that was stopped goes on where it was; one that is complete is only scored.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean

import regard
from regard.recipes import recipe as recipes
from regard.runs.evaluate import evaluate
from regard.runtime.device import cores
from regard.runtime.files import write_file
from regard.train.log import read_metrics

BARS = {
    "cifar/vit": (75.5, 80.0),
    "cifar/convolution": (77.8, 84.0),
    "small/fashion": (93.0, None),
    "small/digits": (98.5, None),
}
"""By recipe: the least accuracy on the test images, in percent, and what is aimed for."""
FOLDS = 5


def measure(name: str, run: Path, threads: int, overrides: list[str], output: Path) -> dict:
    """Trains one model, or goes on, and scores its best checkpoint."""
    pipeline = regard.train(
        recipes.load(name, overrides), run, resume=run.exists(), threads=threads
    )
    [valid] = evaluate(pipeline, split="valid").to_json()
    [test] = evaluate(pipeline, split="test", out=output).to_json()
    seconds = max(row.get("seconds", 0.0) for row in read_metrics(run / "metrics.jsonl"))
    return {
        "run": run.name,
        "validation_accuracy": valid["accuracy"],
        "accuracy": test["accuracy"],
        "images": test["examples"],
        "parameters": sum(parameter.numel() for parameter in pipeline.model.parameters()),
        "minutes": seconds / 60,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=BARS)
    parser.add_argument("--data", type=Path, help="the folder of the images")
    parser.add_argument("--run", type=Path)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("overrides", nargs="*", metavar="a.b=value")
    given = parser.parse_intermixed_args()
    short = given.name.replace("/", "-")
    run = given.run or Path("runs") / short
    data = [f"data.folder={given.data}"] if given.data else []
    parts = (
        {f"{run}-{fold}": [f"data.fold={fold}"] for fold in range(FOLDS)}
        if given.name == "small/digits"
        else {str(run): data}
    )
    runs = [
        measure(
            given.name, Path(part), given.threads, [*more, *given.overrides], given.output / short
        )
        for part, more in parts.items()
    ]
    least, aim = BARS[given.name]
    accuracy = mean(run["accuracy"] for run in runs)
    report = {"recipe": given.name, "accuracy": accuracy, "least": least, "aim": aim, "runs": runs}
    write_file(given.output / f"accuracy-{short}.json", json.dumps(report, indent=2).encode())
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
