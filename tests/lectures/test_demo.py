"""The tour end to end, with a training cut short."""

from __future__ import annotations

import io
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from regard.data.synthetic.grammar import corpus as grammar
from regard.pipeline import Pipeline
from regard.runs.load import load
from regard.runs.train import train
from regard_lectures import demo
from regard_lectures.figures.pronouns import PronounTest, strongest_shift
from regard_lectures.figures.sentences import Intervention, intervene


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return load("tiny/translate")


@cache
def intervened() -> Intervention:
    """What the demo finds in the shipped model: the same each time, and it takes seconds."""
    return intervene(load("tiny/translate"))


@pytest.fixture(autouse=True)
def _intervene_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "intervene", lambda _: intervened())


@pytest.mark.slow
def test_heads_that_carry_the_pronoun_matter_and_others_do_not(pipeline: Pipeline) -> None:
    carriers = intervened().carriers
    assert carriers.pairs >= 50
    assert len(carriers.heads) <= 4
    assert carriers.right_before >= 90
    assert carriers.right_without <= 75  # two candidates: a guess is right half of the time
    assert min(carriers.right_without_others) >= carriers.right_before - 10
    assert all(set(carriers.heads).isdisjoint(others) for others in carriers.others)
    tired, wide = (
        pipeline.translate(pair.source, knock_out=carriers.heads) for pair in grammar.DEMO
    )
    assert (tired, wide) != tuple(pair.target for pair in grammar.DEMO)


def test_a_head_moves_from_animal_to_street(pipeline: Pipeline) -> None:
    tired, wide = (pipeline.look(pair.source) for pair in grammar.DEMO)
    queries = {"encoder.self": ("it", "it"), "decoder.cross": ("es", "sie")}
    shift = strongest_shift(tired, wide, ("animal", "street"), queries)
    assert shift.before[0] > 0.5 > shift.before[1]
    assert shift.after[1] > 0.5 > shift.after[0]


def test_margins_are_those_of_the_pronoun_s_step(pipeline: Pipeline) -> None:
    import torch

    test = PronounTest(pipeline.model, pipeline.task, grammar.DEMO)
    vocabulary = pipeline.vocabulary.target
    for pair, margin in zip(grammar.DEMO, test.margins().tolist(), strict=True):
        before = pair.target.split(" weil ")[0] + " weil"
        ids = [vocabulary.begin, *vocabulary.encode(before)]
        logits = pipeline.logits(pipeline.vocabulary.source.encode(pair.source), ids)[-1]
        three = {word: float(logits[vocabulary.encode(word)[0]]) for word in ("er", "sie", "es")}
        right = three.pop("es" if "müde" in pair.target else "sie")
        assert margin == pytest.approx(right - max(three.values()), abs=1e-4)
    assert torch.all(test.margins() > 0)


@pytest.mark.slow
def test_the_demo_writes_its_folder_and_never_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    monkeypatch.setattr(demo, "MOMENTS", (5, 10))
    monkeypatch.setattr(demo, "SCORED", 10)

    def shortened(recipe: str, out: Path, **more: object) -> Pipeline:
        small = {"data": {"pairs": 2000, "held_out": 50}}
        return train(recipe, out, **small, train={"steps": 20, "evaluate_every": 10}, **more)

    monkeypatch.setattr(demo, "train", shortened)
    monkeypatch.setattr(demo, "_command", lambda: "regard")
    for _ in range(2):  # a second time over the first
        demo.run(Path("regard-demo"), threads=1)
    said = capsys.readouterr().out
    assert "weil es zu müde war" in said
    assert "weil sie zu breit war" in said
    page = (tmp_path / "regard-demo" / "index.html").read_text()
    assert "http://" not in page
    assert "https://" not in page
    for name in ("one-word.png", "alignment.png", "run/loss.png", "run/best.json"):
        assert (tmp_path / "regard-demo" / name).is_file(), name
    commands = re.findall(r"^  (regard .*)$", said, re.M)
    assert len(commands) >= 5


class Reached(Exception):
    """The demo came as far as its first act."""


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs the demo up to its first act, with lines that are typed: what it said until then."""

    def begin(*lines: str, terminal: bool = True, **options: bool) -> str:
        waiting = iter(lines)

        def stop(*_: object) -> None:
            raise Reached

        monkeypatch.setattr(demo, "TRANSLATORS", ("tiny/translate",))
        monkeypatch.setattr(demo, "_one_word", stop)
        monkeypatch.setattr("builtins.input", lambda _: next(waiting))
        for stream in (sys.stdin, sys.stdout):
            monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
        with pytest.raises(Reached):
            demo.run(tmp_path / "demo", threads=1, **options)
        assert next(waiting, None) is None
        return capsys.readouterr().out

    return begin


def test_the_demo_begins_with_the_readers_own_sentence(begun) -> None:
    said = begun("The dog sleeps.", "The zebra [b]sleeps.", "The cat sees a bird.", "")
    assert "An English sentence" in said
    assert "→ Der Hund schläft." in said
    assert "It does not know: zebra" in said
    assert "Die Katze sieht einen Vogel." in said


def test_enter_alone_goes_on_and_without_a_terminal_nothing_is_asked(begun) -> None:
    assert "→" not in begun("")
    assert begun(terminal=False) == ""
    assert begun(quiet=True) == ""


def test_the_best_translator_of_the_shelf_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "shipped", lambda: {"tiny/translate": 1, "small/translate": 2})
    assert demo.translator() == "small/translate"
    monkeypatch.setattr(demo, "shipped", lambda: {"tiny/translate": 1})
    assert demo.translator() == "tiny/translate"


@pytest.mark.slow
def test_the_commands_it_ends_with_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import shlex

    from regard import cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_THREADS", "1")
    monkeypatch.setattr(demo, "_command", lambda: "regard")
    demo.run(Path("regard-demo"), quick=True, threads=1)
    commands = re.findall(r"^  (regard .*)$", capsys.readouterr().out, re.M)
    (tmp_path / "few.tsv").write_text("The dog sleeps.\tDer Hund schläft.\n")
    shorter = {
        "eval": ["--data", "few.tsv"],
        "heads": ["--pairs", "4"],
        "compare": ["train.steps=2", "train.evaluate_every=2", "data.pairs=300", "data.held_out=4"],
    }
    for command in commands:
        words = shlex.split(command)
        monkeypatch.setattr(sys, "argv", [*words, *shorter.get(words[1], [])])
        cli.main()
        assert capsys.readouterr().out
