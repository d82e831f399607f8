"""Does everything compute what it computed before? For changes that must change no bit.

    python -m benchmarks.same store before.json           at the old commit
    python -m benchmarks.same compare before.json         at the new one: prints what differs

Stored are, for each shipped recipe, the loss of each of its first steps and a hash of the weights
after them, with one thread and with two; and for each included model the names and shapes of its
tensors, and the text and JSON of its verbs on five items. Only commands are used, so that code may
move. Recipes that need files get small generated ones. `--only tiny/` takes names that begin so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from safetensors import safe_open

WORDS = tuple(
    word + end for word in ("dog", "cat", "house", "tree", "sees", "likes") for end in "abc"
)
SENTENCES = (
    "The animal didn't cross the street because it was too tired.",
    "I walk my dog every day.",
    "The old man likes the small house.",
    "Once upon a time there was a king",
    "The dog is [MASK] now.",
)
STARTS = {"own/generate": "small/write", "own/rewrite": "small/jobs", "own/images": None}
"""What a recipe starts from that needs a trained model; others `small/fill`."""
LARGE = {"own/base": 2}
"""Fewer steps, for a recipe of a large model."""
LEFT_OUT = ("own/big", "own/vectors", "tiny/compare")
"""Too large for this; word vectors and comparisons have loops of their own."""
VERBS = ("translate", "generate", "suggest", "fill", "embed", "classify", "look", "heads", "words")


def regard(folder: Path, *words: str, threads: int = 1) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder."""
    root = str(Path(__file__).parents[1])
    variables = os.environ | {"REGARD_THREADS": str(threads), "PYTHONPATH": root}
    return subprocess.run(
        [sys.executable, "-m", "regard", *words],
        cwd=folder, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip


def write_files(folder: Path) -> None:
    """Write a small file for each kind of data."""
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(3, 12))) for _ in range(600)]
    pairs = "".join(f"{text}\t{' '.join(reversed(text.split()))}\n" for text in texts)
    (folder / "pairs.tsv").write_text(pairs)
    (folder / "text.txt").write_text("\n".join(texts * 5))
    labels = "".join(f"{text}\t{'dog' if 'dog' in text else 'other'}\n" for text in texts)
    (folder / "labels.tsv").write_text(labels)
    tags = "\n\n".join("\n".join(f"{w}\t{w[0].upper()}" for w in text.split()) for text in texts)
    (folder / "tags.tsv").write_text(tags + "\n")
    questions = [
        {"context": text, "question": "which?", "answers": [{"text": text.split()[0], "start": 0}]}
        for text in texts
    ]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)))
    pixels = np.random.default_rng(0).integers(0, 256, (60, 32, 32, 3), dtype=np.uint8)
    for number, image in enumerate(pixels):
        path = folder / "images" / ("dark" if number % 2 else "light") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image // 2 if number % 2 else image).save(path)


def overrides(recipe: str, text: str) -> list[str]:
    """The generated files in place of a recipe's own, and what it starts from."""
    start = [f"start.folder={STARTS.get(recipe, 'small/fill')}"] if "\nstart:" in text else []
    if "\ntask: tag" in text:
        return [*start, "data.train=tags.tsv"]
    if "\ntask: answer" in text:
        return [*start, "data.train=questions.jsonl"]
    if "kind: labelled" in text:
        return [*start, "data.train=labels.tsv"]
    if "kind: images" in text:
        return [*start, "data.folder=images", "data.held_out=6"]
    if "kind: mixture" in text:
        name = "everyday" if "everyday:" in text else "translate"
        return [*start, f"data.parts.{name}.train=pairs.tsv"]
    if "kind: files" in text:
        given = [name for name in ("train", "valid", "test") if f"\n  {name}:" in text]
        return [*start, *(f"data.{name}=pairs.tsv" for name in given)]
    if "kind: text" in text:
        return [*start, "data.files=text.txt"]
    return start


def trained(folder: Path, recipe: str, steps: int) -> Iterator[tuple[str, Any]]:
    """Yield the losses and the hash of the weights of a recipe, by number of threads."""
    text = regard(folder, "recipe", recipe).stdout
    steps = min(steps, LARGE.get(recipe, steps))
    for threads in (1, 2):
        run = f"runs/{recipe.replace('/', '-')}-{threads}"
        settings = [f"train.steps={steps}", "train.log_every=1", f"train.evaluate_every={steps}"]
        result = regard(
            folder, "train", recipe, *overrides(recipe, text), *settings, "-o", run, threads=threads
        )
        key = f"{recipe}, {threads} threads"
        if result.returncode:
            yield key, result.stderr.strip()
            continue
        lines = (folder / run / "metrics.jsonl").read_text().splitlines()
        yield f"{key}: losses", [json.loads(line).get("loss") for line in lines]
        weights = sorted((folder / run).rglob("model.safetensors"))[-1]
        yield f"{key}: weights", hashlib.sha256(weights.read_bytes()).hexdigest()


def asked(folder: Path, model: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of a model, and the answers of its verbs as text and as JSON."""
    import regard as package

    name = model["name"]
    weights = Path(package.__file__).parent / "shipped" / name / "model.safetensors"
    if weights.exists():
        with safe_open(weights, "numpy") as file:
            yield f"{name}: tensors", {key: file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118
    paths = sorted((folder / "images").rglob("*.png"))[:5]
    images = [
        str(path.relative_to(folder)) for path in paths
    ]  # the folder has another name each time
    items = images if model["model"] in ("vit", "cnn", "resnet") else list(SENTENCES)
    for verb in (verb for verb in VERBS if verb in model["verbs"]):
        chosen = [item for item in items if verb != "fill" or "[MASK]" in item]
        for form in ([], ["--json"]):
            words = [name, *(chosen[:1] if verb == "look" else chosen)]
            if verb == "heads":
                words = [name, "--pairs", "5"] if model["verbs"][0] == "translate" else [name]
            if verb == "words":
                words = [name, *(f"--in={text}" for text in SENTENCES[:2]), "the"]
            result = regard(folder, verb, *words, *form)
            yield f"{name}: {' '.join([verb, *form])}", result.stdout or result.stderr


def everything(steps: int, only: str) -> Iterator[tuple[str, Any]]:
    """Yield all that is stored."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        listing = regard(folder, "recipe").stdout.splitlines()
        for recipe in sorted(line.split()[0] for line in listing if "/" in line.split(" ")[0]):
            if recipe.startswith(only) and recipe not in LEFT_OUT:
                yield from trained(folder, recipe, steps)
        for line in regard(folder, "ls", "--json").stdout.splitlines():
            model = json.loads(line)
            if model["name"].startswith(only) and model["kind"] == "shipped":
                yield from asked(folder, model)


def main(arguments: list[str] | None = None) -> None:
    """Store, or compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=("store", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--only", default="")
    options = parser.parse_args(arguments)
    before = {} if options.action == "store" else json.loads(options.file.read_text())
    now = {}
    for key, value in everything(options.steps, options.only):
        now[key] = value
        same = before.get(key, value) == value
        print(f"{'' if same else 'DIFFERS: '}{key}", flush=True)
    if options.action == "store":
        options.file.write_text(json.dumps(now, indent=1))
        return
    missing = [key for key in before if key.startswith(options.only) and key not in now]
    differing = [key for key in now if before.get(key) != now[key]]
    print(f"{len(now)} compared, {len(differing)} differ or are new, {len(missing)} are gone")
    sys.exit(bool(missing or differing))


if __name__ == "__main__":
    main()
