"""How much memory loading takes, and how long the first translation of a fresh process.

    python -m benchmarks.loading              a few minutes; 2 GB of disk, given back
    python -m benchmarks.loading --rounds 3 --size tiny

Memory: a random GPT-2 (500 MB in 32 bits) in each way it can be stored, loaded by a process of its
own. Printed is the most that was held above what `import torch, regard` takes, as a share of the
weights in 32 bits. Start: `regard translate tiny/translate "…"` beside `python -c "import torch,
tokenizers, pydantic"`, in turns; printed is the ratio of the medians. Exits with 1 if a bar is
missed.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEMORY, START = 1.1, 1.5
"""The bars."""
SIZES = {"gpt2": {}, "tiny": {"dim": 128, "heads": 4, "layers": 2, "hidden": 512}}
LOAD = """
import sys, torch, regard
from benchmarks.measure.memory import peak
before = peak()
parameters = regard.load(sys.argv[1]).parameters
print((peak() - before) / (4 * parameters))
"""
STARTS = {
    "imports": ["-c", "import torch, tokenizers, pydantic"],
    "translate": ["-m", "regard", "translate", "tiny/translate", "The dog sleeps."],
}


def stored(root: Path, size: str) -> dict[str, Path]:
    """The same random model in each way it can be stored."""
    import safetensors.torch
    import torch

    from regard.hub.exchange import recipe_of
    from regard.models import GPTConfig, build
    from regard.pipeline import Pipeline

    config = GPTConfig(size="gpt2", **SIZES[size])
    model = Pipeline(build(config, 50257), None, recipe_of(config, (50257,), root))
    folders = {store: model.save(root / store, store=store) for store in ("fp32", "fp16", "int8")}
    folders["Hugging Face, fp32"] = theirs = model.export(root / "theirs")
    tensors = safetensors.torch.load_file(theirs / "model.safetensors")
    for name, kind in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        folder = folders[f"Hugging Face, {name}"] = root / f"theirs-{name}"
        folder.mkdir()
        for file in theirs.glob("*.json"):
            (folder / file.name).write_bytes(file.read_bytes())
        small = {key: tensor.to(kind) for key, tensor in tensors.items()}
        safetensors.torch.save_file(small, folder / "model.safetensors")
    return folders


def memory(folder: Path) -> float:
    """The most that loading holds, in a fresh process, as a share of the weights."""
    command = [sys.executable, "-c", LOAD, str(folder)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def took(arguments: list[str]) -> tuple[float, float]:
    """The seconds of a fresh process: of its processors, and of the clock."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, clock


def start(rounds: int) -> tuple[float, float]:
    """How much longer a translation takes than its imports: by processors, and by the clock."""
    for arguments in STARTS.values():
        took(arguments)  # the first reads from the disk
    turns = [[took(arguments) for arguments in STARTS.values()] for _ in range(rounds)]
    imports, translate = (
        [statistics.median(turn[which][clock] for turn in turns) for clock in (0, 1)]
        for which in (0, 1)
    )
    return translate[0] / imports[0], translate[1] / imports[1]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--rounds", type=int, default=15, help="of the start")
    asked.add_argument("--size", choices=SIZES, default="gpt2")
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as root:
        shares = {name: memory(at) for name, at in stored(Path(root), options.size).items()}
    for name, share in shares.items():
        print(f"{name:<20}{share:6.2f} × the weights in 32 bits")
    by_processor, by_clock = start(options.rounds)
    print(
        f"{'first translation':<20}{by_processor:6.2f} × its imports ({by_clock:.2f} by the clock)"
    )
    if max(shares.values()) > MEMORY or by_processor > START:
        sys.exit(f"a bar is missed: {MEMORY} of memory, {START} of the start")


if __name__ == "__main__":
    main()
