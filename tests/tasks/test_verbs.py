"""The table of verbs: what it says is what tasks, the command line and Python do."""

from __future__ import annotations

import inspect
import json
from typing import ClassVar

import pytest
from pydantic import Field

from regard.decode.config import DecodeConfig
from regard.errors import InputError
from regard.pipeline import Pipeline
from regard.runs.load import load
from regard.tasks import specs
from regard.tasks.options import VerbOptions
from regard.tasks.specs import TASKS, every_verb
from regard.tasks.translate import Translate
from regard.tasks.verbs import TRANSLATE, Verb
from tests.commands import is_refused


@pytest.mark.parametrize("name", TASKS)
def test_a_verb_is_a_method_of_its_task_that_takes_its_options(name):
    for verb in TASKS[name].verbs:
        taken = inspect.signature(getattr(TASKS[name].first_class, verb.name)).parameters
        option_names = set(verb.options.model_fields) - {"knock_out"}
        free = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
        assert free or option_names <= set(taken)
        assert set(verb.decode) <= set(DecodeConfig.model_fields)
        assert ("config" in taken) == bool(verb.decode)


def test_positions_and_former_names_fill_options():
    parse = every_verb()["answer"].parse_options
    assert parse(("where", 2), {})[0].model_dump(exclude={"knock_out"}) == {
        "context": "where", "top": 2, "unanswerable": None}  # fmt: skip
    assert parse(("where",), {"count": 3})[0].top == 3
    assert parse((["one", "two"],), {})[0].context == ("one", "two")
    options, settings = TRANSLATE.parse_options((), {"beam": 2, "knock_out": "decoder.0.self.1"})
    assert (options.knock_out, settings) == (("decoder.0.self.1",), {"beam": 2})


@pytest.mark.parametrize(
    ("verb", "positions", "given", "message"),
    [
        ("fill", (1, 2), {}, "2 options"),
        ("fill", (), {"tpo": 1}, "got tpo, expected top, knock_out"),
        ("fill", (), {"top": 0}, "top"),
        ("answer", (), {}, "context"),
        ("embed", (), {"pool": 3}, "pool"),
    ],
)
def test_wrong_options_are_refused(verb, positions, given, message):
    with pytest.raises(InputError, match=message):
        every_verb()[verb].parse_options(positions, given)


class ShoutOptions(VerbOptions):
    """Of the test's own verb."""

    marks: int = Field(default=1, ge=1, description="How many exclamation marks.")


class Shout(Verb):
    name = "shout"
    help = "Each text, loudly."
    options_at = "tests.tasks.test_verbs.ShoutOptions"
    decode: ClassVar[tuple[str, ...]] = ()

    def lines(self, answer):
        return [answer]

    def to_json(self, answer):
        return {"loud": answer}


class Shouting(Translate):
    """A task with a verb of its own."""

    def shout(self, model, encoded, marks=1):
        del model
        if any("quiet" in text.item for text in encoded):
            raise InputError("shout", got="quiet", expected="noise")
        return [text.item.upper() + "!" * marks for text in encoded]


@pytest.fixture
def shouting(monkeypatch):
    homes = {"text": "tests.tasks.test_verbs.Shouting"}
    spec = specs.TaskSpec(homes, "writes", "transformer", (TRANSLATE, Shout()))
    monkeypatch.setitem(TASKS, "translate", spec)


@pytest.mark.usefixtures("shouting")
def test_a_verb_of_ones_own_is_a_method_of_the_pipeline():
    p = load("tiny/translate")
    assert p.shout("hey") == "HEY!"
    assert p.shout(["hey", "you"], 2) == ["HEY!!", "YOU!!"]
    assert p.shout("hey", marks=3) == p.run("shout", "hey", 3) == "HEY!!!"
    assert p.shout.__doc__ == "Each text, loudly."
    assert "shout" in dir(p)
    assert p.translate("The dog sleeps.") == "Der Hund schläft."


@pytest.fixture
def with_commands(monkeypatch):
    """The command line, made anew: it has the verbs of the tasks that there are now."""
    import typer

    from regard import cli
    from regard.cli.verbs import add_verbs

    app = typer.Typer(context_settings=cli.app.info.context_settings, rich_markup_mode=None)
    app.registered_commands = [
        command for command in cli.app.registered_commands if command.name not in every_verb()
    ]
    add_verbs(app)
    monkeypatch.setattr(cli, "app", app)


@pytest.mark.usefixtures("shouting", "with_commands")
def test_and_a_command_that_reads_lines(regard):
    model_name = "tiny/translate"
    assert regard("shout", model_name, "hey", "you", "--marks", "2").out == "HEY!!\nYOU!!\n"
    result = regard("shout", model_name, feed=b"hey\n\nbe quiet\nyou\n")
    assert result.out == "HEY!\n\n\nYOU!\n"
    assert "line 3: shout: got quiet, expected noise; printed an empty line" in result.err
    rows = regard("shout", model_name, "--json", feed=b"hey\n\nbe quiet\n").out.splitlines()
    assert [json.loads(row) for row in rows] == [
        {"text": "hey", "loud": "HEY!"}, {"text": ""}, {"text": "be quiet"}]  # fmt: skip
    stopped = regard("shout", model_name, "--strict", feed=b"hey\nbe quiet\nyou\n")
    assert (stopped.code, stopped.out) == (2, "HEY!\n")
    assert "error: line 2: shout: got quiet" in stopped.err
    is_refused(regard("shout", model_name, "hey", "--marks", "0"), "--marks")
    assert "How many exclamation marks (1)." in regard("shout", "--help").out


QUESTION = "Is this toxic: You are an idiot."
"""A text for `small/jobs`, whose recipe searches with a beam of 4."""


def test_what_is_rewritten_is_not_shown_behind_its_source(regard):
    result = regard("generate", "small/jobs", QUESTION, "--greedy")
    assert result.out == "yes\n", result.err


def test_a_model_whose_recipe_searches_samples_only_if_asked_to(regard):
    searched = {regard("generate", "small/jobs", QUESTION, "--seed", seed).out for seed in "123"}
    assert len(searched) == 1
    drawn = {
        regard("generate", "small/jobs", QUESTION, "--temperature", "9", "--seed", seed).out
        for seed in "123"
    }
    assert len(drawn) == 3


def test_a_translator_does_not_generate_and_says_what_to_use(regard):
    result = regard("generate", "small/translate", "The dog sleeps.")
    is_refused(result, "small/translate cannot generate", "use `regard translate`")
    with pytest.raises(InputError, match=r"cannot generate: got .*\nuse `regard translate`$"):
        load("tiny/translate").generate("The dog sleeps.")


@pytest.mark.parametrize("flag", ["--max-length", "--max-new-tokens"])
def test_the_length_of_a_translation_has_two_names(regard, flag):
    result = regard("translate", "tiny/translate", "The dog sleeps.", flag, "2")
    assert result.out == "Der Hund\n", result.err


def test_a_temperature_of_0_is_greedy(regard):
    text = "The old woman sees the dog."
    greedy = regard("translate", "tiny/translate", text, "--beam", "1", "--json").out
    for words in ((), ("--sample",), ("--top-k", "5")):
        result = regard("translate", "tiny/translate", text, "--temperature", "0", *words, "--json")
        assert result.out == greedy, result.err
    p = load("small/write")
    settings = {"max_length": 8}
    plain = p.generate("Once upon", sample=False, **settings)
    assert p.generate("Once upon", temperature=0, **settings) == plain
    assert p.generate("Once upon", temperature=0.0, sample=True, top_p=0.5, **settings) == plain
    typed = [regard("generate", "small/write", "Once upon", "--max-new-tokens", "8", *words).out
             for words in (("--temperature", "0"), ("--greedy",))]  # fmt: skip
    assert typed[0] == typed[1] == f"Once upon{plain}\n"
    result = regard("generate", "small/write", "Once upon", "--temperature", "-1")
    is_refused(result, "temperature", "got -1")


def test_a_model_does_not_have_the_verbs_of_others():
    p = load("tiny/translate")
    with pytest.raises(InputError, match="cannot tag"):
        p.tag("The dog")
    with pytest.raises(AttributeError, match="no attribute 'sing'"):
        p.sing("The dog")
    assert isinstance(p, Pipeline)
    assert list(p.verbs) == ["translate"]
