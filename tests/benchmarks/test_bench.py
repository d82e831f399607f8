"""The harness with contenders that are made up; the bars, the tables, the work."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
import torch
from torch import Tensor

from benchmarks.measure import command, harness, table
from benchmarks.measure.harness import BenchLine, Experiment, Outcome, Point, run_one
from benchmarks.measure.ours import Decode, Encode, Train
from benchmarks.measure.results import Bar, Measured, Turn, compare, judge, slope
from benchmarks.measure.suite import select
from benchmarks.measure.work import RANDOM, SAME, Corpus, Work, like_multi30k
from benchmarks.measure.worker import from_file
from benchmarks.run import main
from regard.errors import InputError
from regard.layers.tap.product import Pattern
from regard.models import TransformerConfig
from regard.runtime.progress import Progress

pytestmark = pytest.mark.slow

fakes = from_file(str(Path(__file__).with_name("fake_contenders.py")))


def experiment(*entries: BenchLine, **more: object) -> Experiment:
    return Experiment("fake", "Fakes", "rate", "a second", entries, **more)


def run(experiment: Experiment, rounds: int = 2) -> Outcome:
    return run_one(experiment, rounds, threads=1, progress=Progress(1, quiet=True))


def measured(label: str, speeds: list[float], peaks: list[int] | None = None) -> Measured:
    sizes = peaks or [0] * len(speeds)
    return Measured(label, [Turn(1.0, s, p) for s, p in zip(speeds, sizes, strict=True)])


def test_rounds_are_interleaved_and_another_one_begins_each(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    lines = [BenchLine(name, fakes.Logged(name, log)) for name in "ABC"]
    outcome = run(experiment(*lines), rounds=3)
    order = [name for name, _ in groupby(Path(log).read_text().split())]
    assert order == [*"ABC", *"ABC", *"BCA", *"CAB"]  # a warm-up, and three rounds
    assert [len(line.turns) for line in outcome.measured.values()] == [3, 3, 3]


def test_contenders_have_their_own_processes_and_equal_ones_share(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    outcome = run(
        experiment(
            BenchLine("one", fakes.Logged("A", log), "x"),
            BenchLine("same", fakes.Logged("A", log), "y"),
            BenchLine("other", fakes.Logged("B", log)),
        ),
        rounds=1,
    )
    pids = [line.turns[0].work for line in outcome.measured.values()]
    assert pids[0] == pids[1] != pids[2]
    assert {"Ax", "Ay", "B"} == set(Path(log).read_text().split())


def test_what_is_missing_or_breaks_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    outcome = run(
        experiment(
            BenchLine("absent", fakes.Absent()),
            BenchLine("crash", fakes.Crashing(turn=2)),
            BenchLine("raise", fakes.Raising(), "this"),
            BenchLine("well", fakes.Logged("A", str(tmp_path / "log"))),
            bars=(Bar("well", ("absent", "raise"), "speed", 1.0),),
        )
    )
    lines = outcome.measured
    assert lines["absent"].note == "not installed: pip install something-that-is-absent"
    assert lines["crash"].note == "failed: the process ended with 3: no room left for the matrix"
    assert lines["raise"].note == "failed: ValueError: cannot do this"
    assert lines["well"].ok
    assert len(lines["well"].turns) == 2
    assert outcome.verdicts()[0].met is None
    text = table.table(outcome)
    assert "not installed: pip install" in text
    assert "not measured" in text


def test_who_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "TIMEOUT", 0.5)
    outcome = run(experiment(BenchLine("silent", fakes.Silent())))
    assert "no answer within" in outcome.measured["silent"].failed


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can forget a peak")
def test_memory_is_what_a_turn_needs_on_top_of_what_was_held() -> None:
    outcome = run(experiment(BenchLine("hungry", fakes.Hungry(before=100, more=200))), rounds=1)
    line = outcome.measured["hungry"]
    assert 100 * 2**20 < line.resident < 160 * 2**20
    assert 190 * 2**20 < line.memory < 260 * 2**20


def test_ratios_are_taken_round_by_round() -> None:
    # The machine is four times slower in the second round, for both.
    ours, theirs = measured("a", [200, 50, 220]), measured("b", [100, 25, 100])
    ratio = compare(ours, theirs, "speed")
    assert (ratio.median, ratio.low, ratio.high) == (2.0, 2.0, 2.2)
    assert compare(ours, theirs, "time").median == 0.5


@pytest.mark.parametrize(("limit", "met"), [(1.9, True), (2.1, False)])
def test_the_better_of_two_is_what_counts(limit: float, met: bool) -> None:
    lines = {"a": [200.0], "slow": [50.0], "fast": [100.0]}
    results = {label: measured(label, speeds) for label, speeds in lines.items()}
    verdict = judge(Bar("a", ("slow", "fast"), "speed", limit), results)
    assert (verdict.met, verdict.against) == (met, "fast")


@pytest.mark.parametrize(("peak", "met"), [(119, True), (121, False)])
def test_memory_must_stay_below_its_bar(peak: int, met: bool) -> None:
    results = {"tap": measured("tap", [1.0], [peak]), "plain": measured("plain", [1.0], [100])}
    assert judge(Bar("tap", ("plain",), "all memory", 1.2), results).met is met


@pytest.mark.parametrize(("bleu", "met"), [(29.8, True), (29.6, False), (31.0, True)])
def test_points_that_are_lost_count_and_points_that_are_won_do_not(bleu: float, met: bool) -> None:
    results = {"int8": measured("int8", [bleu]), "fp32": measured("fp32", [30.0])}
    assert judge(Bar("int8", ("fp32",), "points", 0.3), results).met is met


def test_the_share_of_the_peak_counts_useful_flops() -> None:
    ours = measured("a", [10.0])
    ours.flops = 8.0
    verdict = judge(Bar("a", ("peak",), "peak", 0.8), {"a": ours, "peak": measured("peak", [100])})
    assert verdict.ratio is not None
    assert verdict.ratio.median == pytest.approx(0.8)


def test_a_bar_is_drawn_with_the_place_to_reach() -> None:
    assert table.bar(0.5) == "█" * 12 + " " * 13
    assert table.bar(1.0, 0.5)[12] == "┃"
    outcome = Outcome(
        experiment(
            BenchLine("a", fakes.Raising()),
            BenchLine("b", fakes.Raising()),
            bars=(Bar("a", ("b",), "speed", 1.5),),
        ),
        {"a": measured("a", [100.0]), "b": measured("b", [80.0])},
    )
    assert table.marks(outcome) == {"a": pytest.approx(120.0)}
    text = table.table(outcome)
    assert "✗" in text
    assert "measured 1.25" in text
    assert "✗" not in table.table(outcome, judged=False)


def test_exponents_tell_linear_from_quadratic() -> None:
    assert slope([(x, 3 * x**2) for x in (1, 2, 4)]) == pytest.approx(2)
    assert math.isnan(slope([(1, 1)]))

    def point(x: int, peak: int) -> Outcome:
        swept = experiment(point=Point("sweep", "tokens", x, ("a",)))
        return Outcome(swept, {"a": measured("a", [1.0], [peak])})

    linear = table.growths([point(x, 100 + 8 * x) for x in (1000, 2000, 4000)])["a"]
    square = table.growths([point(x, x * x) for x in (1000, 2000, 4000)])["a"]
    assert (linear.met, square.met) == (True, False)


def test_results_survive_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_or_stop(experiment: Experiment, *arguments: object) -> Outcome:
        if experiment.name == "second":
            raise KeyboardInterrupt
        return run_one(experiment, *arguments)

    monkeypatch.setattr(harness, "run_one", run_or_stop)
    first = experiment(BenchLine("well", fakes.Logged("A", str(tmp_path / "log"))))
    makers = {"first": lambda _: first, "second": lambda _: replace(first, name="second")}
    request = command.Request(quick=True, rounds=1, threads=1, output=tmp_path, quiet=True)
    with pytest.raises(KeyboardInterrupt):
        command.bench(makers, request)
    saved = json.loads((tmp_path / "results.json").read_text())
    assert [entry["name"] for entry in saved["experiments"]] == ["fake"]
    assert saved["experiments"][0]["entries"][0]["status"] == "measured"
    assert "Fakes" in (tmp_path / "results.md").read_text()
    assert (tmp_path / "results.png").exists()


def test_names_are_chosen_by_their_beginning() -> None:
    makers = {"training-demo": len, "training-base": max, "decoding-1": min}
    assert select(makers, ["training"]) == [len, max]
    assert select(makers, []) == [len, max, min]
    with pytest.raises(InputError, match="decoding-1"):
        select(makers, ["looking"])


def test_batches_hold_the_same_pairs_under_the_budget() -> None:
    corpus = like_multi30k(400, vocab=50)
    batches = corpus.batches(tokens=300, count=4)
    pairs = {id(pair) for pair in corpus.pairs}
    for case in (SAME, RANDOM):
        assert all(id(pair) in pairs for batch in batches[case] for pair in batch)
    assert all(sum(len(s) + len(t) + 1 for s, t in batch) <= 300 for batch in batches[SAME])
    assert {len(batch) for batch in batches[RANDOM]} == {32}
    assert {token for s, t in corpus.pairs for token in s + t} <= set(range(4, 50))
    mean = sum(len(t) for _, t in corpus.pairs) / len(corpus.pairs)
    assert 12 < mean < 15.5  # Multi30k's German has 13.7


def test_useful_flops_do_not_count_padding(tmp_path: Path) -> None:
    config = TransformerConfig(dim=8, heads=2, hidden=16, layers=1)
    corpus = Corpus([([4], [5]), ([4, 5, 6, 7], [5, 6])], 10, 10)

    def flops(*pairs: tuple[list[int], list[int]]) -> float:
        return Work(config.model_dump(), 10, 10, {SAME: [pairs]}).flops(SAME)

    first, second = (flops(pair) for pair in corpus.pairs)  # for a target token: 2 and 3 of them
    assert flops(*corpus.pairs) == pytest.approx((2 * first + 3 * second) / 5)
    # 3 × 2 FLOPs for each entry of each matrix that a token meets, and the products of attention
    encoder, decoder, head = 4 * 64 + 2 * 128, 6 * 64 + 2 * 128, 80
    products = 4 * 8 * (1 * 1 + 2 * 2 + 2 * 1)
    # of the source's one token: the encoder, and the keys and values that the decoder looks at
    by_hand = 3 * (2 * (encoder + 128) + 2 * 2 * (decoder + head) + products) / 2
    assert first == pytest.approx(by_hand)
    work = Work(config.model_dump(), 10, 10, corpus.batches(100, 1))
    path = work.save(tmp_path / "work.json")
    assert Work.read(path).flops(SAME) == pytest.approx(work.flops(SAME))


@pytest.mark.parametrize(
    ("look", "read"),
    [("nothing", 0), ("unread", 0), ("one head", 256), ("by blocks", 256), ("whole", 256)],
)
def test_looking_is_measured_with_the_weights_read(
    look: str, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []
    write = Pattern._write

    def counted(pattern: Pattern, rows: slice, out: Tensor) -> None:
        computed.append(out.shape[2])
        write(pattern, rows, out)

    monkeypatch.setattr(Pattern, "_write", counted)
    contender = Encode(256, look, quick=True)
    contender.prepare(threads=1)
    assert contender.measure("") == 256
    assert sum(computed) == read  # queries


def test_a_turn_of_ours_is_a_step_of_the_trainer_for_each_batch(tmp_path: Path) -> None:
    config = TransformerConfig(dim=8, heads=2, hidden=16, layers=1)
    batches = {SAME: [[([4, 5], [6])], [([4], [5, 6, 7]), ([8], [9])]]}
    work = Work(config.model_dump(), 10, 10, batches, batch_tokens=100)
    contender = Train(work.save(tmp_path / "work.json"))
    contender.prepare(threads=1)
    before = [weights.clone() for weights in contender.trainer.model.parameters()]
    assert contender.measure(SAME) == 2 + 4 + 2
    assert contender.trainer.state.step == 2
    after = list(contender.trainer.model.parameters())
    assert all(not torch.equal(a, b) for a, b in zip(after, before, strict=True) if a.dim() > 1)


def test_ours_decodes_as_many_tokens_as_the_peers(tmp_path: Path) -> None:
    config = TransformerConfig(dim=8, heads=2, hidden=16, layers=1)
    batches = {"decode": [[([4, 5], [6]), ([7], [8]), ([9], [4])]]}
    contender = Decode(Work(config.model_dump(), 10, 10, batches).save(tmp_path / "work.json"))
    contender.prepare(threads=1)
    assert contender.measure("2") == 2  # it checks itself that each has 30 tokens


def test_the_command_measures_our_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--quick --rounds 1 --threads 1 --quiet --beside Regard"
    only = ["--only", "limits", "--only", "training-base", "--only", "decoding-1"]
    assert main([*words.split(), *only, "--output", str(tmp_path)]) == 0
    assert "matrix product" in capsys.readouterr().out
    results = json.loads((tmp_path / "results.json").read_text())
    status = {
        entry["label"]: entry["status"]
        for experiment in results["experiments"]
        for entry in experiment["entries"]
    }
    assert status["Regard"] == status["matrix product"] == "measured"
    assert results["experiments"][1]["entries"][0]["flops_per_second"] > 0
    assert (tmp_path / "results.png").exists()
