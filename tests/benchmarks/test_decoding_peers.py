"""Decoding beside other packages: the same weights, the limit of the memory, who is measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks import int8, targets
from benchmarks.measure import command, table
from benchmarks.measure.harness import BenchLine, Experiment, Outcome
from benchmarks.measure.images import Classify, images_work
from benchmarks.measure.limits import MEMORY, blocks, fastest, readers
from benchmarks.measure.ours_text import Continue, Products
from benchmarks.measure.pictures import draw_bars
from benchmarks.measure.results import Bar, Measured, Turn
from benchmarks.measure.suite import INT8, OURS, Settings, gpt_decoding_work
from benchmarks.peers import gpt2, llamacpp, runtimes, vit
from benchmarks.run import experiments
from regard.errors import InputError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> str:
    return gpt_decoding_work(Settings(tmp_path_factory.mktemp("gpt"), quick=True), 1)[0]


def prepared(contender: Any) -> Any:
    contender.prepare(threads=1)
    return contender


def test_everybody_has_the_weights_of_the_work_file(work: str) -> None:
    ours, theirs = prepared(Continue(work)), prepared(gpt2.Decode(work))
    written = ours.written(3)
    assert theirs.written(3) == written
    assert len(set(written[0])) > 4  # a text that says something about the weights
    ours.measure("2")
    assert ours.answer == written[0]
    assert ours.measure("read") == 1
    assert ours.answer is None


def test_gpt2_as_it_is_exported_with_its_cache_writes_the_same(work: str) -> None:
    model = gpt2.build(gpt2.read(work)).eval()
    step, ids = runtimes.Cached(model), torch.tensor(gpt2.read(work)["texts"][:2])
    empty = torch.zeros(2, 4, 0, 16)
    with torch.inference_mode():
        expected = model(ids).logits[:, -1]
        torch.testing.assert_close(step(ids, *[empty] * 4)[0], expected)
        _, *past = step(ids[:, :5], *[empty] * 4)
        torch.testing.assert_close(step(ids[:, 5:], *past)[0], expected)


def test_a_classifier_of_images_is_the_same_for_both(tmp_path: Path) -> None:
    path, content = images_work(tmp_path, quick=True)
    ours, theirs = prepared(Classify(path)), prepared(vit.Classify(path))
    assert ours.measure("8") == theirs.measure("8") == 8
    assert ours.answer == theirs.answer
    assert content.flops() > 0


def test_the_products_alone_are_all_matrices_of_a_step(work: str) -> None:
    content = gpt_decoding_work(Settings(Path(work).parent, quick=True), 1)[1]
    dim, hidden, layers, vocab = 64, 256, 2, 400
    assert content.matrix_weights() == layers * (4 * dim**2 + 2 * dim * hidden) + vocab * dim
    for precision in ("float32", "int8"):
        assert prepared(Products(work, precision)).measure("3") == 3  # it checks the sizes itself


def test_tensors_have_the_names_of_gguf() -> None:
    assert llamacpp.gguf_name("transformer.h.11.mlp.c_proj.bias") == "blk.11.ffn_down.bias"
    assert llamacpp.gguf_name("transformer.wte.weight") == "token_embd.weight"


def test_all_of_a_block_is_read() -> None:
    numbers = torch.arange(1000.0)
    for way in readers(2):
        assert way(numbers) == pytest.approx(float(numbers.sum()))
    way, block = fastest(readers(1), blocks(1000))
    assert way(block) == 1000


def measured(label: str, speed: float, reads: float | None = None, answer: Any = None) -> Measured:
    return Measured(label, [Turn(1.0, speed, 0, answer)], reads=reads)


def decoded(peer: list[int]) -> Outcome:
    nobody = SimpleNamespace()
    experiment = Experiment(
        "gpt", "GPT", "rate", "tokens a second",
        entries=tuple(BenchLine(name, nobody) for name in (OURS, "peer f32", "peer q8")),
        bars=(Bar(OURS, (MEMORY,), "peak", 0.85), Bar(OURS, ("peer f32",), "speed", 1.0)),
        limit=BenchLine(MEMORY, nobody),
        exact=("peer f32",),
    )  # fmt: skip
    lines = (
        measured(OURS, 45.0, 4.0, [*range(16)]),
        measured("peer f32", 40.0, 4.0, peer),
        measured("peer q8", 100.0, 1.0, [0, 1, 9]),
        measured(MEMORY, 200.0),
    )
    return Outcome(experiment, {line.label: line for line in lines})


def test_the_memory_is_a_limit_for_each_precision(tmp_path: Path) -> None:
    outcome = decoded([*range(16)])
    assert table.ceilings(outcome) == {OURS: 50.0, "peer f32": 50.0, "peer q8": 200.0}
    assert outcome.verdicts()[0].ratio.median == pytest.approx(0.9)
    text = table.table(outcome)
    assert "90% of the memory's speed" in text
    assert "at most 50, 200 tokens a second" in text
    assert draw_bars([outcome], tmp_path / "bars.png").exists()


@pytest.mark.parametrize(
    ("peer", "same", "met"),
    [([*range(16)], 16, True), ([*range(8), *[0] * 8], 8, True), ([0, 1, 2, 9], 3, False)],
)
def test_who_computes_in_32_bits_has_to_write_the_same_first_tokens(
    peer: list[int], same: int, met: bool
) -> None:
    outcome = decoded(peer)
    agreement = table.agreement(outcome)
    assert agreement is not None
    assert agreement.tokens == {"peer f32": same, "peer q8": 2}
    assert agreement.met is met
    assert any("first answers" in message for message in command.missed([outcome])) is not met
    assert ("✗ first answers" in table.table(outcome)) is not met


def test_peers_are_chosen_by_part_of_their_names(tmp_path: Path) -> None:
    experiment = experiments({}, quick=True)["gpt-decoding-1"](Settings(tmp_path, quick=True))
    [narrow] = command.with_peers([experiment], ["llama"])
    labels = [entry.label for entry in narrow.entries]
    assert labels[0] == OURS
    assert {label for label in labels if not label.startswith(OURS)} == {
        "llama.cpp f32",
        "llama.cpp f16",
        "llama.cpp q8_0",
    }
    assert narrow.exact == ("llama.cpp f32",)
    assert all("CTranslate2" not in name for bar in narrow.bars for name in bar.against)
    assert any(bar.against == (MEMORY,) for bar in narrow.bars)
    with pytest.raises(InputError, match=r"--beside.*llama\.cpp q8_0"):
        command.with_peers([experiment], ["nobody"])


def test_the_targets_are_those_of_the_suite(tmp_path: Path) -> None:
    runs = [
        make(Settings(tmp_path, quick=True))
        for make in targets.speed(["gpt", "translation"]).values()
    ]
    bars = {(run.name, bar.label, bar.against[0], bar.limit) for run in runs for bar in run.bars}
    assert ("gpt-decoding-1", OURS, MEMORY, 0.85) in bars
    assert ("gpt-decoding-1", INT8, "llama.cpp q8_0", 1.0) in bars
    assert ("gpt-decoding-16", OURS, "Regard, one prompt", 4.5) in bars
    assert ("decoding-32", INT8, "CTranslate2 int8", 1.3) in bars
    assert not any("generate" in entry.label for run in runs for entry in run.entries)


def test_quality_without_its_files_is_left_out_by_name(tmp_path: Path) -> None:
    findings = list(int8.findings(tmp_path))
    assert [finding.met for finding in findings] == [None] * 3
    assert "weights/all-MiniLM-L6-v2" in findings[2].text
