"""Fine-tuning a real encoder: Regard beside transformers, the same rows, steps, rates and dropout.

    python -m benchmarks.finetune sst2 --data ../shared/data --steps 40
    python -m benchmarks.finetune wnut17 --data ../shared/data --steps 40

Both begin from the same folder and read the same micro-batches in the same order; theirs as padded
rows, ours without padding. Prints one JSON object: scores on the test set and seconds of training.
The default is small enough for a coffee; the recipes' own 1,500 steps give the scores to quote.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F

import regard
from regard import recipe as recipes
from regard.data.batch import Cursor
from regard.data.labelled import read_labelled
from regard.data.rows import RowBatch, batch_of, evaluation
from regard.materials import gather
from regard.runtime import setup
from regard.tasks.accuracy import class_scores, entity_scores
from regard.tasks.tag import LEFT_OUT, joined
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
WEIGHTS = "weights/all-MiniLM-L6-v2"


def recipe_for(name: str, data: Path, steps: int):
    recipe, *files = SETS[name]
    train, valid, test = (str(data / file) for file in files)
    every = max(1, steps // 2)
    return recipes.load(
        recipe,
        [
            f"start.folder={json.dumps(str(data / WEIGHTS))}",
            f"data.train={json.dumps(train)}",
            f"data.valid={json.dumps(valid)}",
            f"data.test={json.dumps(test)}",
            f"train.steps={steps}",
            f"train.warmup={min(100, steps // 10)}",
            f"train.evaluate_every={every}",
            f"train.save_every={every}",
        ],
    )


def padded(batch: RowBatch) -> tuple[dict, torch.Tensor]:
    """What transformers takes, and where real tokens stand."""
    rows = torch.split(batch.ids.ids, list(batch.ids.lengths))
    types = torch.split(batch.types, list(batch.ids.lengths))
    ids, kinds = (
        torch.nn.utils.rnn.pad_sequence(list(part), batch_first=True) for part in (rows, types)
    )
    mask = torch.arange(ids.shape[1]) < torch.tensor(batch.ids.lengths)[:, None]
    return {"input_ids": ids, "token_type_ids": kinds, "attention_mask": mask.long()}, mask


def their_logits(model, batch: RowBatch, task: str) -> torch.Tensor:
    inputs, mask = padded(batch)
    logits = model(**inputs).logits
    return logits if task == "classify" else logits[mask]  # (texts or tokens, labels)


def theirs(recipe, materials, labels: tuple[str, ...]):
    """Their model, trained on our batches with our rates; and the seconds it took."""
    import transformers

    kind = {
        "classify": transformers.AutoModelForSequenceClassification,
        "tag": transformers.AutoModelForTokenClassification,
    }[recipe.task]
    torch.manual_seed(recipe.seed)
    dropout = materials.recipe.model.attention_dropout
    model = kind.from_pretrained(
        recipe.start.folder, num_labels=len(labels), attention_probs_dropout_prob=dropout
    ).train()
    config, dim = recipe.train, materials.recipe.model.dim
    steps = optimizer(model, config)
    start = time.perf_counter()
    batches = itertools.islice(materials.task.batches(Cursor()), config.steps)
    for number, (batch, _) in enumerate(batches, start=1):
        for group in steps.param_groups:
            group["lr"] = learning_rate(number, config, dim)
        steps.zero_grad()
        logits = their_logits(model, batch, recipe.task)
        F.cross_entropy(logits, batch.targets.ids, ignore_index=LEFT_OUT).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip or float("inf"))
        steps.step()
    return model.eval(), time.perf_counter() - start


def their_scores(model, materials, examples, labels: tuple[str, ...], task: str) -> dict:
    """Their predictions on our rows, scored by our metrics."""
    longest = materials.recipe.data.longest
    found: dict[int, str] = {}
    with torch.inference_mode():
        if task == "classify":
            rows = materials.task.rows(examples, labels, longest)
            for batch in evaluation(rows, 4096):
                best = their_logits(model, batch, task).argmax(1).tolist()
                found |= {i: labels[b] for i, b in zip(batch.index, best, strict=True)}
            said = [found[i] for i in range(len(examples))]
            return class_scores([each.label for each in examples], said, labels).overall
        said_all = []
        for example in examples:
            numbers = range(len(example.words))
            rows = list(materials.task._cut(*joined(example.words), numbers, longest))
            batch = batch_of(rows, range(len(rows)))
            best = their_logits(model, batch, task).argmax(1).tolist()
            tags = ["O"] * len(example.words)
            for word, tag in zip(batch.targets.ids.tolist(), best, strict=True):
                if word != LEFT_OUT:
                    tags[word] = labels[tag]
            said_all.append(tags)
    return entity_scores([each.tags for each in examples], said_all).overall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--alone", action="store_true", help="without transformers")
    arguments = parser.parse_args()
    recipe = recipe_for(arguments.set, arguments.data, arguments.steps)
    setup(arguments.threads, recipe.seed)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        pipeline = regard.train(recipe, run, quiet=True, threads=arguments.threads)
        logged = [line["seconds"] for line in read_metrics(run / "metrics.jsonl")
                  if "seconds" in line]  # fmt: skip
    examples, _ = read_labelled(recipe.data.test, recipe.task)
    result = {
        "set": arguments.set,
        "steps": arguments.steps,
        "regard": {**pipeline.measure(examples).overall, "seconds": logged[-1]},
    }
    if not arguments.alone:
        labels = pipeline.model.config.classes or pipeline.model.config.tags
        materials = gather(pipeline.recipe, pipeline.vocabulary)
        model, seconds = theirs(recipe, materials, labels)
        scores = their_scores(model, materials, examples, labels, recipe.task)
        result["transformers"] = {**scores, "seconds": seconds}
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
