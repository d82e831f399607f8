"""Fine-tuning a real encoder: Regard beside transformers, the same rows, steps, rates and dropout.

    python -m benchmarks.finetune sst2 --data ../shared/data
    python -m benchmarks.finetune wnut17 --data ../shared/data

Both begin from the same folder, read the same micro-batches in the same order (theirs as padded
rows, ours without padding) and are scored after their last step. Prints a line a training, the mean
over the seeds, and how much faster Regard trains; exits with 1 if it scores less and `--strict` is
given. The default takes some ten minutes a seed on two cores.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F

import regard
from regard.data.batch import Batch, Cursor
from regard.data.text.labelled import read_labelled
from regard.data.text.windows import batch_of, evaluation
from regard.recipes import recipe as recipes
from regard.runtime.device import setup
from regard.runtime.progress import Progress
from regard.tasks import TASKS
from regard.tasks.measures.accuracy import class_scores, entity_scores
from regard.tasks.tag import NO_TAG, joined
from regard.train.log import read_metrics
from regard.train.optim import learning_rate, optimizer

SETS = {
    "sst2": ("own/classify", "sst2/train.tsv.gz", "sst2/dev.tsv.gz", "sst2/test.tsv.gz"),
    "wnut17": (
        "own/tag",
        "wnut17/wnut17train.conll.gz",
        "wnut17/emerging.dev.conll.gz",
        "wnut17/emerging.test.annotated.gz",
    ),
}
"""The recipe, and the files to train on, to validate with and to test with."""
SCORE = {"sst2": "accuracy", "wnut17": "f1"}
WEIGHTS = "weights/all-MiniLM-L6-v2"


def recipe_for(name: str, data: Path, steps: int, seed: int):
    recipe, *files = SETS[name]
    train, valid, test = (str(data / file) for file in files)
    return recipes.load(
        recipe,
        [
            f"start.folder={json.dumps(str(data / WEIGHTS))}",
            f"data.train={json.dumps(train)}",
            f"data.valid={json.dumps(valid)}",
            f"data.test={json.dumps(test)}",
            f"train.steps={steps}",
            f"train.warmup={min(100, steps // 10)}",
            f"train.evaluate_every={steps}",  # the last step's weights, as theirs
            f"train.save_every={steps}",
            f"seed={seed}",
        ],
    )


def padded(batch: Batch) -> tuple[dict, torch.Tensor]:
    """What transformers takes, and where real tokens stand."""
    rows = torch.split(batch.source.ids, list(batch.source.lengths))
    types = torch.split(batch.source.types, list(batch.source.lengths))
    ids, kinds = (
        torch.nn.utils.rnn.pad_sequence(list(part), batch_first=True) for part in (rows, types)
    )
    mask = torch.arange(ids.shape[1]) < torch.tensor(batch.source.lengths)[:, None]
    return {"input_ids": ids, "token_type_ids": kinds, "attention_mask": mask.long()}, mask


def their_logits(model, batch: Batch, task: str) -> torch.Tensor:
    inputs, mask = padded(batch)
    logits = model(**inputs).logits
    return logits if task == "classify" else logits[mask]  # (texts or tokens, labels)


def theirs(recipe, prepared, labels: tuple[str, ...]):
    """Their model, trained on our batches with our rates; and the seconds it took."""
    import transformers

    kind = {
        "classify": transformers.AutoModelForSequenceClassification,
        "tag": transformers.AutoModelForTokenClassification,
    }[recipe.task]
    torch.manual_seed(recipe.seed)
    dropout = prepared.model.attention_dropout
    model = kind.from_pretrained(
        recipe.start.folder,
        num_labels=len(labels),
        attention_probs_dropout_prob=dropout,
        dtype=torch.float32,  # the file holds 16 bits, in which a CPU trains 25 x slower
    ).train()
    config, dim = recipe.train, prepared.model.dim
    steps = optimizer(model, config)
    batches = itertools.islice(prepared.task.batches(Cursor()), config.steps)
    with Progress(config.steps) as progress:
        start = time.perf_counter()
        for number, (batch, _) in enumerate(batches, start=1):
            for group in steps.param_groups:
                group["lr"] = learning_rate(number, config, dim)
            steps.zero_grad()
            logits = their_logits(model, batch, recipe.task)
            F.cross_entropy(logits, batch.targets.ids, ignore_index=NO_TAG).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip or float("inf"))
            steps.step()
            progress.advance(1)
            progress.print_line("transformers")
        seconds = time.perf_counter() - start
    return model.eval(), seconds


def their_scores(model, ours, longest, examples, labels: tuple[str, ...], task: str) -> dict:
    """Their predictions on our rows, scored by our metrics."""
    predicted: dict[int, str] = {}
    with torch.inference_mode():
        if task == "classify":
            rows = ours.rows(examples, labels, longest)
            for batch in evaluation(rows, 4096):
                best = their_logits(model, batch, task).argmax(1).tolist()
                predicted |= {i: labels[b] for i, b in zip(batch.index, best, strict=True)}
            said = [predicted[i] for i in range(len(examples))]
            return class_scores([example.label for example in examples], said, labels).overall
        said_all = []
        for example in examples:
            numbers = range(len(example.words))
            rows = list(ours._cut(*joined(example.words), numbers, longest))
            batch = batch_of(rows, range(len(rows)))
            best = their_logits(model, batch, task).argmax(1).tolist()
            tags = ["O"] * len(example.words)
            for word, tag in zip(batch.targets.ids.tolist(), best, strict=True):
                if word != NO_TAG:
                    tags[word] = labels[tag]
            said_all.append(tags)
    return entity_scores([example.tags for example in examples], said_all).overall


def one_seed(name: str, data: Path, steps: int, seed: int, threads: int | None) -> dict:
    """Both trainings, ours first; their scores on the test set and seconds."""
    recipe = recipe_for(name, data, steps, seed)
    setup(threads, seed)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        pipeline = regard.train(recipe, run, threads=threads)
        logged = [line["seconds"] for line in read_metrics(run / "metrics.jsonl")
                  if "seconds" in line]  # fmt: skip
    examples, _ = read_labelled(recipe.data.test, recipe.task)
    ours = {**pipeline.measure(examples).overall, "seconds": logged[-1]}
    labels = pipeline.model.config.classes or pipeline.model.config.tags
    task_class = TASKS[recipe.task].class_for(recipe.model)
    prepared = task_class.prepare(pipeline.recipe, pipeline.vocabulary)
    model, seconds = theirs(recipe, prepared, labels)
    longest = recipe.data.longest
    scores = their_scores(model, prepared.task, longest, examples, labels, recipe.task)
    return {"regard": ours, "transformers": {**scores, "seconds": seconds}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--output", type=Path, help="a file for the figures, as JSON")
    parser.add_argument("--strict", action="store_true")
    arguments = parser.parse_args()
    score, runs = SCORE[arguments.set], []
    for seed in range(arguments.seeds):
        runs.append(
            one_seed(arguments.set, arguments.data, arguments.steps, seed, arguments.threads)
        )
        for who, result in runs[-1].items():
            print(f"seed {seed}: {who}: " + json.dumps(result), flush=True)
    means = {who: statistics.mean(run[who][score] for run in runs) for who in runs[0]}
    faster = statistics.median(
        run["transformers"]["seconds"] / run["regard"]["seconds"] for run in runs
    )
    print(
        f"{arguments.set}, {arguments.steps} steps, {arguments.seeds} seeds: {score} "
        f"{means['regard']:.2f}, transformers {means['transformers']:.2f}; {faster:.2f} x as fast"
    )
    if arguments.output:
        arguments.output.write_text(json.dumps({"runs": runs, "mean": means}, indent=1) + "\n")
    sys.exit(1 if means["regard"] < means["transformers"] and arguments.strict else 0)


if __name__ == "__main__":
    main()
