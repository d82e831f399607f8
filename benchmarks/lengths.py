"""One fixed vector against attention, by the length of the sentence (docs/compare.md).

    python -m benchmarks.lengths -o runs/lengths

Trains the two recurrent translators of `tiny/compare` with three seeds each, on the grammar with
sentences of up to 50 words, and translates 300 unseen sentences of each bin of ten words. Intervals
are bootstrap intervals: BLEU of 300 sentences drawn with replacement, a thousand times; the middle
95%. Bar: above 30 words the intervals of attention lie above those of the fixed vector, for every
seed. Writes `lengths.json`, `.md` and `.png`; stopped at any moment, the same command continues.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sacrebleu.metrics import BLEU

import regard
from regard.data.sources import load_splits
from regard.data.text.pairs import Pair
from regard.recipes import recipe as recipes
from regard.runs.compare import FORMAT
from regard.runtime.files import write_file
from regard.tasks.measures.translators import BIN

FIXED, ATTENTION = "one fixed vector", "recurrence with attention"
BINS = (10, 20, 30, 40, 50)
"""The most words of each bin."""
PER_BIN = 300
RESAMPLES = 1000
ABOVE = 30
"""Sentences with more words than this must show the difference."""
HELD_OUT = 1000
"""Sentences of each test split, from which the bins are filled."""


def overrides(seed: int) -> list[str]:
    """Those of `tiny/compare`, with more test sentences and another seed."""
    listed = recipes.load_form(FORMAT, "tiny/compare").overrides
    return [*listed, f"data.held_out={HELD_OUT}", "train.evaluate_every=300", f"seed={seed}"]


def by_bin(pairs: Sequence[Pair]) -> dict[int, list[Pair]]:
    """The first `PER_BIN` pairs of each bin, by the number of words of the source."""
    bins: dict[int, list[Pair]] = {most: [] for most in BINS}
    for pair in pairs:
        chosen = bins.get(-(-len(pair.source.split()) // BIN) * BIN, [])
        if len(chosen) < PER_BIN:
            chosen.append(pair)
    return bins


def statistics(hypotheses: Sequence[str], pairs: Sequence[Pair]) -> np.ndarray:
    """What BLEU adds up over sentences: (sentences, 10).

    The columns are matches and n-grams for n = 1 to 4, and both lengths.
    """
    bleu = BLEU()
    rows = []
    for hypothesis, pair in zip(hypotheses, pairs, strict=True):
        score = bleu.corpus_score([hypothesis], [[reference] for reference in pair.references])
        rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len])
    return np.array(rows)


def bleu_of(sums: np.ndarray) -> float:
    """BLEU from summed statistics."""
    result = BLEU.compute_bleu(
        sums[:4].tolist(), sums[4:8].tolist(), int(sums[8]), int(sums[9]), smooth_method="exp"
    )
    return float(result.score)


def interval(rows: np.ndarray) -> tuple[float, float, float]:
    """BLEU of all sentences, and the bounds of its bootstrap interval."""
    random = np.random.default_rng(0)
    drawn = random.integers(len(rows), size=(RESAMPLES, len(rows)))
    scores = [bleu_of(rows[indices].sum(0)) for indices in drawn]
    low, high = np.percentile(scores, [2.5, 97.5])
    return bleu_of(rows.sum(0)), float(low), float(high)


def measure(recipe: str, seed: int, run: Path, threads: int | None) -> dict[str, list[float]]:
    """Trains one model; returns by bin its BLEU with the bounds."""
    name, *own_overrides = recipe.split()
    chosen = recipes.load(name, [*own_overrides, *overrides(seed)])
    tests = load_splits(chosen.data).splits.tests
    bins = by_bin([pair for pairs in tests.values() for pair in pairs])
    for most, pairs in bins.items():
        assert len(pairs) == PER_BIN, f"{len(pairs)} sentences of {most - BIN + 1} to {most} words"
    begun = (run / "checkpoints").is_dir()
    pipeline = regard.train(chosen, run, resume=begun, threads=threads)
    intervals = {}
    for most, pairs in bins.items():
        texts = pipeline.translate([pair.source for pair in pairs], allow_unknown=True)
        intervals[str(most)] = list(interval(statistics(texts, pairs)))
    return intervals


def apart(results: dict[str, dict[str, dict[str, list[float]]]]) -> bool:
    """Whether above `ABOVE` words every interval of attention lies above the fixed vector's."""
    return all(
        results[ATTENTION][seed][str(most)][1] > results[FIXED][seed][str(most)][2]
        for seed in results[ATTENTION]
        for most in BINS
        if most > ABOVE
    )


def table(results: dict[str, dict[str, dict[str, list[float]]]]) -> str:
    """BLEU with its interval: a line for each model and seed, a column for each bin."""
    head = " | ".join(f"{most - BIN + 1}–{most}" for most in BINS)
    lines = [f"| | seed | {head} |", "|---" * (len(BINS) + 2) + "|"]
    for name, seeds in results.items():
        for seed, bins in seeds.items():
            cells = (bins[str(most)] for most in BINS)
            shown = " | ".join(f"{bleu:.1f} ({low:.1f}–{high:.1f})" for bleu, low, high in cells)
            lines.append(f"| {name} | {seed} | {shown} |")
    return "\n".join(lines) + "\n"


def draw(results: dict[str, dict[str, dict[str, list[float]]]], path: Path) -> None:
    """A curve for each seed, with its intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.8), dpi=150, layout="constrained")
    axes = figure.subplots()
    for (name, seeds), colour, marker in zip(
        results.items(), ("#b5541c", "#1c5fb5"), ("s", "o"), strict=True
    ):
        for number, bins in enumerate(seeds.values()):
            at = [most - BIN / 2 + 0.7 * (number - 1) for most in BINS]
            bleu, low, high = np.array([bins[str(most)] for most in BINS]).T
            axes.errorbar(
                at, bleu, (bleu - low, high - bleu), color=colour, marker=marker, markersize=4,
                linewidth=1, capsize=2, label=name if number == 0 else None,
            )  # fmt: skip
    axes.set(xlabel="words of the sentence", ylabel="BLEU", ylim=(0, 100), xlim=(0, max(BINS)))
    axes.legend(loc="center right")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/lengths"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    file = given.output / "lengths.json"
    results = json.loads(file.read_text("utf-8")) if file.exists() else {FIXED: {}, ATTENTION: {}}
    listed = recipes.load_form(FORMAT, "tiny/compare").compare
    for seed in range(1, given.seeds + 1):
        for name in (FIXED, ATTENTION):
            if str(seed) in results[name]:
                continue
            run = given.output / f"{name.replace(' ', '-')}-{seed}"
            results[name][str(seed)] = measure(listed[name], seed, run, given.threads)
            write_file(file, json.dumps(results, indent=1).encode())
    text = table(results)
    verdict = "do not touch" if apart(results) else "touch"
    text += f"\nAbove {ABOVE} words the intervals {verdict}, for every seed.\n"
    write_file(given.output / "lengths.md", text.encode())
    draw(results, given.output / "lengths.png")
    print(text)


if __name__ == "__main__":
    main()
