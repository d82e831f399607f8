"""The commands that answer lines of text: one line in, one line out, whatever a line holds."""

from __future__ import annotations

import io
import json
import math
import os
import re
import shlex
import sys
from dataclasses import asdict, replace

import pytest
import torch

from regard import cli
from regard.checkpoint.run import write_folder
from regard.cli import line_processor
from regard.cli.line_processor import read_lines
from regard.data.text import records
from regard.data.text.labelled import read_labelled
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.layers import Tap, knock_out
from regard.layers.tap.without_head import without_head
from regard.pipeline import Pipeline
from regard.recipes import recipe as recipes
from regard.runs.evaluate import first_try
from regard.runs.load import load, vocabulary
from regard.runtime import progress
from regard.tasks import Translate, generate
from tests import tiny_t5
from tests.commands import Result, is_refused
from tests.test_other_peoples_models import add_tokenizer
from tests.their_models import save

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
SPECIALS = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
LINES = b"the cat\n\nthe \xff cat\na dog\n"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder of transformers for each kind of question."""
    root = tmp_path_factory.mktemp("theirs")
    kinds = {"generate": "gpt2", "fill": "bert-masked", "classify": "bert-classes",
             "tag": "bert-tags", "answer": "bert-spans", "embed": "bert"}  # fmt: skip
    for name, kind in kinds.items():
        save(kind, root / name)
        if name == "generate":
            add_tokenizer(root / name, SPECIALS[:-1])
        else:
            add_tokenizer(root / name, SPECIALS, post="<s> $A </s>")
    return root


COMMANDS = {
    "generate": ("--tokens", "3", "--greedy"),
    "suggest": (),
    "classify": (),
    "tag": (),
    "answer": ("--context", "the cat sat on the mat"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_stream_gives_one_line_for_each_line(regard, folders, command):
    model_name = str(folders / ("generate" if command == "suggest" else command))
    result = regard(command, model_name, *COMMANDS[command], feed=LINES)
    assert result.code == 0, result.err
    lines = result.out.split("\n")
    assert len(lines) == 5
    assert not lines[1]
    assert not lines[2]
    assert lines[3]
    assert not lines[4]
    assert "line 3: not UTF-8" in result.err
    told = regard(command, model_name, *COMMANDS[command], "--json", feed=LINES)
    rows = [json.loads(line) for line in told.out.splitlines()]
    assert [row["text"] for row in rows] == ["the cat", "", "the \ufffd cat", "a dog"]
    assert [len(row) > 1 for row in rows] == [True, False, False, True]


def test_a_line_without_a_mask_is_a_warning_on_a_stream_and_an_error_as_an_argument(
    regard, folders
):
    result = regard("fill", str(folders / "fill"), feed=b"the <mask> sat\nthe cat\n")
    assert result.code == 0
    assert "line 2" in result.err
    assert [bool(line) for line in result.out.split("\n")] == [True, False, False]
    alone = regard("fill", str(folders / "fill"), "the cat")
    is_refused(alone)


def test_vectors_of_lines_are_those_of_each_alone(regard, folders):
    result = regard("embed", str(folders / "fill"), feed=b"the cat\n\na dog ran\n")
    rows = result.out.split("\n")
    assert len(rows) == 4
    assert not rows[1]
    p = load(str(folders / "fill"))
    for row, text in ((rows[0], "the cat"), (rows[2], "a dog ran")):
        assert [float(number) for number in row.split()] == pytest.approx(p.embed(text), abs=2e-5)


def test_greedy_sets_aside_how_the_recipe_samples(regard, folders, tmp_path):
    p = load(str(folders / "generate"))
    drawing = p.recipe.decode.model_copy(update={"sample": True, "temperature": 0.8, "top_k": 5})
    p.recipe = p.recipe.model_copy(update={"decode": drawing})
    p.save(tmp_path / "drawn")
    greedy = regard("generate", str(tmp_path / "drawn"), "the cat", "--tokens", "4", "--greedy")
    assert greedy.code == 0, greedy.err
    plain = regard("generate", str(folders / "generate"), "the cat", "--tokens", "4", "--greedy")
    assert greedy.out == plain.out


@pytest.mark.parametrize(
    "words", [("translate", "x"), ("eval",), ("suggest", "x"), ("tag", "x"), ("restore", "a ___")]
)
def test_what_a_model_cannot_do_is_refused_with_what_it_can(regard, folders, words):
    command, *arguments = words
    result = regard(command, str(folders / "fill"), *arguments)
    is_refused(result, "eval" if command == "eval" else "embed, fill")


def test_nothing_is_written_before_wrong_options_are_refused(regard, folders):
    model_name = str(folders / "generate")
    result = regard("generate", model_name, "the cat", "--greedy", "--temperature", "2")
    is_refused(result, "temp", "leave temperature out", "generate without --greedy")


def test_heads_of_a_model_without_text_ask_for_some(regard, folders):
    result = regard("heads", str(folders / "generate"))
    is_refused(result, "error: heads: ", "--data")


@pytest.mark.parametrize("task", ["generate", "fill", "classify", "tag", "answer", "restore"])
def test_what_is_advised_after_a_training_works_as_it_is_typed(regard, folders, tmp_path, task):
    run = tmp_path / "a run"
    if task == "restore":
        tiny_t5.save(run, n_positions=24)
    else:
        run.symlink_to(folders / task)
    p = load(run)
    p.recipe = p.recipe.model_copy(update={"task": task})
    first, second = first_try(p, "a run").split("   ")
    assert shlex.split(second) == ["regard", "eval", "a run"]
    result = regard(*shlex.split(first)[1:])
    assert result.code == 0, result.err
    assert task == "answer" or result.out.strip()


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_what_is_advised_for_pairs_is_a_sentence_that_the_model_knows(regard, tmp_path, kind):
    shipped = first_try(load("tiny/translate"), "tiny/translate").split("   ")[0]
    assert regard(*shlex.split(shipped)[1:]).code == 0
    text = "it's $HOME and `more`"
    (tmp_path / "my.tsv").write_text(f"never seen words\t\n{text}\tx\n" + "a b\tx y\n" * 3)
    overrides = ["data.train=my.tsv", "data.on_bad=skip", f"tokens.kind={kind}", "tokens.vocab=300"]
    recipe = recipes.load("own/translate", overrides)
    p = Pipeline(torch.nn.Linear(1, 1), Translate.prepare(recipe).vocabulary, recipe)
    words = shlex.split(first_try(p, "run").split("   ")[0])
    assert words[:3] == ["regard", "translate", "run"]
    assert words[3:] == ["a b" if kind == "words" else text]  # the other pair was held out


def test_an_encoder_without_a_head_is_not_scored(regard, folders):
    result = regard("eval", str(folders / "embed"))
    is_refused(result, "cannot be scored: got a bert model for embed", "it can embed")


def test_masked_tokens_of_a_text_are_scored(regard, folders, tmp_path):
    (tmp_path / "my.txt").write_text("the cat sat on the mat\n" * 20)
    result = regard("eval", str(folders / "fill"), "--data", "my.txt", "--json")
    assert result.code == 0, result.err
    row = json.loads(result.out)
    assert row["loss"] == pytest.approx(math.log(row["perplexity"]))
    assert 0 <= row["masked"] <= 100


def test_of_a_line_without_end_no_more_is_kept_than_a_line_may_have(regard, folders, monkeypatch):
    monkeypatch.setattr(line_processor, "LONGEST_LINE", 1000)
    model_name, feed = str(folders / "classify"), b"the cat\n" + b"x" * 300_000 + b"\na dog\n"
    result = regard("classify", model_name, feed=feed)
    first, second, third, end = result.out.split("\n")
    assert first
    assert third
    assert (result.code, second, end) == (0, "", "")
    assert "line 2: too long: expected at most 1,000 bytes; printed an empty line" in result.err


def test_the_tokens_of_a_long_text_are_not_listed(regard):
    long = "a b " * 2**16 + "c"
    result = regard("tokens", "small/write", feed=f"a dog\n{long}\n".encode())
    assert "262,145 characters, expected at most 262,144; printed an empty line" in result.err
    assert result.out.endswith("\n\n")
    assert result.code == 0
    is_refused(regard("tokens", "small/write", long), "cut it into lines")


def test_a_context_may_come_through_a_pipe_and_is_bounded(regard, folders, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "LONGEST_LINE", 1000)
    monkeypatch.setattr(line_processor, "LONGEST_LINE", 1000)
    (tmp_path / "context").write_text("the cat sat on the mat")
    model_name = str(folders / "answer")
    with (tmp_path / "context").open() as opened:
        through = f"/dev/fd/{opened.fileno()}"
        assert regard("answer", model_name, "the", "--context-file", through).code == 0
    (tmp_path / "context").write_text("the " * 1000)
    result = regard("answer", model_name, "the", "--context-file", "context")
    is_refused(result, "context: too long: expected at most 1,000 bytes")


def test_the_loss_of_a_text_is_said_first_and_suggestions_on_request(
    regard, folders, tmp_path, monkeypatch, capsys
):
    (tmp_path / "my.txt").write_text("the cat sat on the mat\n" * 9)
    model_name, said = str(folders / "generate"), []
    counted = generate.word_accuracy

    def asked(*given, **more):
        said.append(capsys.readouterr().out)
        return counted(*given, **more)

    monkeypatch.setattr(generate, "word_accuracy", asked)
    plain = regard("eval", model_name, "--data", "my.txt")
    assert plain.code == 0, plain.err
    assert not said
    first, *others = plain.out.splitlines()
    assert first.startswith("my.txt: 56 tokens, loss ")
    assert others == ["unknown tokens: 0.0%", "scored all 2 passages"]
    more = regard("eval", model_name, "--data", "my.txt", "--suggest")
    assert said == [f"{first}\n"]
    assert "next word among 3 suggested: " in more.out
    assert "words" not in json.loads(regard("eval", model_name, "--data", "my.txt", "--json").out)
    is_refused(regard("eval", str(folders / "fill"), "--data", "my.txt", "--suggest"), "--suggest")


def test_an_evaluation_says_how_far_it_is_where_it_takes_long(
    regard, folders, tmp_path, monkeypatch
):
    (tmp_path / "my.txt").write_text("the cat sat on the mat\n" * 20)
    monkeypatch.setattr(progress.Progress, "_time_left", lambda *_: "1:23")
    clock = iter(range(0, 10_000, 20))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    for kind in ("generate", "fill"):
        result = regard("eval", str(folders / kind), "--data", "my.txt")
        assert "0%  1:23 left  reading the text\n" in result.err
        assert re.search(r"(99|100)%  1:23 left  loss\n", result.err)
        assert not regard("eval", str(folders / kind), "--data", "my.txt", "--quiet").err


def test_a_text_of_unknown_words_is_scored_with_exit_1(regard, folders, tmp_path):
    (tmp_path / "my.txt").write_text("zork blib the blub\n" * 9)
    for kind in ("generate", "fill"):
        result = regard("eval", str(folders / kind), "--data", "my.txt")
        assert result.code == 1
        assert "loss " in result.out
        assert re.search("the model's vocabulary lacks [0-9]+% of my.txt", result.err)
        assert regard("eval", str(folders / kind), "--data", "my.txt", "--allow-unknown").code == 0


@pytest.mark.parametrize("command", ["classify", "embed", "fill"])
def test_what_is_not_read_of_a_long_text_is_said_in_one_line(regard, folders, caplog, command):
    model_name = str(folders / ("fill" if command == "embed" else command))
    longest = load(model_name).model.config.max_length
    mask = "<mask> " if command == "fill" else ""
    for words in (longest - 2, longest - 3):
        assert regard(command, model_name, f"{mask}{'the cat ' * words}"[: 4 * words - 1]).code == 0
    assert not caplog.messages
    texts = ("the cat", "a dog " * longest, "the cat " * longest)
    assert regard(command, model_name, *(f"{mask}{text}" for text in texts)).code == 0
    left = longest + 2 + bool(mask)
    assert f"its last {left} tokens are left out, the model reads {longest}" in caplog.messages[0]
    assert f"'{mask}a dog a dog" in caplog.messages[0]
    if command == "embed":  # all texts at once
        assert caplog.messages[0].startswith("warning: text 2, ")
        assert caplog.messages[0].endswith("; so are parts of 1 more")
        assert len(caplog.messages) == 1


def test_a_long_question_is_cut_with_a_warning_and_a_long_context_is_read_in_windows(
    regard, folders, caplog
):
    model_name = str(folders / "answer")
    long = "the cat sat on the mat " * 20
    assert regard("answer", model_name, "the cat", "--context", long).code == 0
    assert not caplog.messages
    assert regard("answer", model_name, long, "--context", "the cat").code == 0
    assert "tokens are left out" in caplog.messages[0]
    caplog.clear()
    assert regard("tag", str(folders / "tag"), long).code == 0
    assert not caplog.messages


def test_no_more_words_are_suggested_than_can_be_read(regard, folders):
    result = regard("suggest", str(folders / "generate"), "the", "--top", "60000")
    is_refused(result, "--top", "60000", "1 to 1000")
    assert regard("suggest", str(folders / "generate"), "the", "--top", "1000").code == 0


EMPTY = {
    "generate": ("generate",), "suggest": ("generate",), "fill": ("fill",), "embed": ("fill",),
    "classify": ("classify",), "tag": ("tag",),
    "answer": ("answer", "--context", "the cat sat"), "look": ("fill",),
}  # fmt: skip


@pytest.mark.parametrize("text", ["", "  "])
@pytest.mark.parametrize("verb", [*EMPTY, "translate"])
def test_an_empty_text_is_an_error_in_every_verb_and_in_python(regard, folders, verb, text):
    kind, *more = EMPTY.get(verb, ("",))
    model_name = "tiny/translate" if verb == "translate" else str(folders / kind)
    is_refused(regard(verb, model_name, text, *more), "an empty text", "some words")
    p = load(model_name)
    given = (text, "the cat sat") if verb == "answer" else (text,)
    with pytest.raises(InputError, match="an empty text"):
        getattr(p, verb)(*given)
    if verb not in ("answer", "look", "suggest", "tag"):
        with pytest.raises(InputError, match="an empty text"):
            getattr(p, verb)(["the cat", text])


@pytest.mark.parametrize("verb", ["generate", "suggest", "fill", "embed", "classify", "tag",
                                  "answer"])  # fmt: skip
def test_a_head_can_be_taken_away_in_every_verb(regard, folders, verb):
    kind, *more = EMPTY[verb]
    model_name, text = str(folders / kind), "the <mask> sat on" if verb == "fill" else "the cat sat"
    more += ["--tokens", "9", "--samples", "3"] if verb == "generate" else []
    stack = "decoder" if kind == "generate" else "encoder"
    gone = [f"{stack}.{layer}.self.{head}" for layer in range(2) for head in (0, 2, 3)]
    words = [word for head in gone for word in ("--knock-out", head)]
    plain = regard(verb, model_name, text, *more, "--json")
    without = regard(verb, model_name, text, *more, "--json", *words)
    assert without.code == 0, without.err
    assert without.out != plain.out
    assert regard(verb, model_name, text, *more, "--json").out == plain.out
    wrong = regard(verb, model_name, text, *more, "--knock-out", f"{stack}.7.self.0")
    is_refused(wrong, "no such site", f"{stack}.7.self")


def test_without_heads_a_model_computes_what_a_tap_makes_of_it(folders):
    p = load(str(folders / "generate"))
    gone, ids = ["decoder.1.self.2", "decoder.0.self.0"], Ragged.of([[5, 6, 7, 8], [9, 10]])
    tap = Tap(edits=[knock_out(head) for head in gone])
    with torch.no_grad():
        for model in (p.model, p.quantised().model):
            expected = model(ids, tap)
            twin = without_head(model, gone)
            assert torch.equal(twin(ids), expected)
            assert not torch.equal(model(ids), expected)
        every = without_head(p.model, ["decoder.*.self.1"])
        tap = Tap(edits=[knock_out("decoder.0.self.1"), knock_out("decoder.1.self.1")])
        assert torch.equal(every(ids), p.model(ids, tap))
    shared = dict(p.model.named_parameters())
    twin = without_head(p.model, gone)
    assert all(parameter is shared[name.replace(".out.out.", ".out.")]
               for name, parameter in twin.named_parameters())  # fmt: skip
    written = "".join(p.write("the cat", max_length=5, knock_out=gone))
    assert written.strip() == p.generate("the cat", max_length=5, knock_out=gone).strip()
    assert p.suggest("the", knock_out="decoder.0.self.0") == p.suggest("the", knock_out=gone[1:])


def test_new_tokens_have_the_name_that_transformers_gives_them(folders):
    p = load(str(folders / "generate"))
    for count in (1, 4):
        assert p.generate([5, 6], max_new_tokens=count) == p.generate([5, 6], max_length=count)
        assert len(p.generate([5, 6], max_new_tokens=count, min_length=count)) == count
    assert list(p.write("the cat", max_new_tokens=3)) == list(p.write("the cat", max_length=3))
    with pytest.raises(InputError, match="max_new_tokens: got max_length as well"):
        p.generate("the cat", max_new_tokens=3, max_length=3)
    t = load("tiny/translate")
    assert t.translate("The dog sleeps.", max_new_tokens=2) == t.translate(
        "The dog sleeps.", max_length=2
    )


@pytest.fixture
def typed(regard, monkeypatch, capsys):  # noqa: ARG001 (the folder and the threads of a command)
    """Runs a command at a terminal where somebody types."""

    def run(*words, keys: bytes):
        ours, theirs = os.openpty()
        os.write(ours, keys)
        monkeypatch.setattr(sys, "argv", ["regard", *words])
        code = 0
        with open(theirs, encoding="utf-8") as stdin:  # noqa: PTH123 (a descriptor)
            monkeypatch.setattr(sys, "stdin", stdin)
            try:
                cli.main()
            except SystemExit as stop:
                code = stop.code
        os.close(ours)
        return Result(code, *capsys.readouterr())

    return run


CTRL_D = b"\x04"


@pytest.mark.parametrize("end", [CTRL_D, b"\n"])
def test_at_a_terminal_a_line_is_asked_for_and_answered(typed, end):
    keys = b"The dog sleeps.\nThe xyz sleeps.\nThe cat sees a bird.\n" + end
    result = typed("translate", "tiny/translate", keys=keys)
    assert result.code == 0
    assert result.out == "Der Hund schläft.\nDie Katze sieht einen Vogel.\n"
    assert result.err.count("> ") == 4
    assert "error: the model does not know: xyz" in result.err
    assert result.err.endswith("> \n" if end == CTRL_D else "> ")
    grown = typed("translate", "tiny/translate", "--stream", "--beam", "1", keys=keys)
    assert grown.out == result.out


@pytest.mark.parametrize("verb", ["generate", "suggest", "fill", "embed", "classify", "tag",
                                  "answer"])  # fmt: skip
def test_every_verb_of_text_asks_at_a_terminal(regard, typed, folders, verb):
    kind, *more = EMPTY[verb]
    more += ["--greedy", "--tokens", "3"] if verb == "generate" else []
    text = "the <mask> sat" if verb == "fill" else "the cat sat"
    model_name, wrong = str(folders / kind), b"the cat\n" if verb == "fill" else b"the \xff cat\n"
    result = typed(verb, model_name, *more, keys=wrong + text.encode() + b"\n" + CTRL_D)
    assert result.code == 0
    assert result.out == regard(verb, model_name, text, *more).out
    assert result.err.count("error: ") == 1
    assert result.err.count("> ") == 3


def test_ctrl_c_at_the_prompt_ends_with_130(typed, monkeypatch):
    class Interrupted(io.StringIO):
        buffer = property(lambda self: self)

        def readline(self, *_):
            raise KeyboardInterrupt

        def isatty(self):
            return True

    def leave(code):
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr("builtins.open", lambda *_, **__: Interrupted())
    assert typed("translate", "tiny/translate", keys=b"").code == 130


EXAMPLES = {
    "fill": ("my.txt", "the cat sat on the mat\na dog ran after the cat\n" * 4),
    "embed": ("my.txt", "the cat sat on the mat\na dog ran after the cat\n" * 4),
    "restore": ("my.txt", "the cat sat on the mat . a dog ran . the cow ate grass\n" * 4),
    "classify": ("my.csv", '"the cat, sat",LABEL_0\na dog ran,LABEL_2\n'),
    "tag": ("my.conll", "the LABEL_0\ncat LABEL_1\nsat LABEL_2\n\na LABEL_0\ndog LABEL_1\n"),
    "answer": ("my.jsonl", json.dumps({"context": "the cat sat", "question": "a dog",
                                       "answers": [{"text": "cat", "start": 4}]}) + "\n"),
}  # fmt: skip


@pytest.mark.parametrize("task", EXAMPLES)
def test_heads_of_encoders_and_of_a_restorer(regard, folders, tmp_path, task):
    """Each effect is what the loss becomes without the head, less what it was."""
    name, content = EXAMPLES[task]
    (tmp_path / name).write_text(content)
    folder = tmp_path / "model"
    if task == "restore":
        tiny_t5.save(folder, n_positions=24)
        p = load(folder)
        recipe = recipes.load("tiny/restore")
        p.recipe = p.recipe.model_copy(update={"task": task, "data": recipe.data})
        p.save(tmp_path / "own")
        folder = tmp_path / "own"
    elif task == "embed":
        save("bert", folder)
        add_tokenizer(folder, SPECIALS, post="<s> $A </s>")
    else:
        folder = folders / task
    asked = regard("heads", str(folder), "--data", name, "--pairs", "3", "--json")
    assert asked.code == 0, asked.err
    rows = [json.loads(line) for line in asked.out.splitlines()]
    p = load(folder)
    assert [row["head"] for row in rows] == p.model.heads()
    assert all(0 <= row["first"] <= 1 and 0 <= row["positional"] <= 1 for row in rows)
    assert any(abs(row["effect"]) > 1e-6 for row in rows)
    if task in ("classify", "tag", "answer"):
        examples = read_labelled(name, task)[0]
        before = p.measure(examples).overall["loss"]
        for row in (rows[0], rows[-1]):
            p.model = without_head(load(folder).model, [row["head"]])
            after = p.measure(examples).overall["loss"]
            # an answer's loss here is of both its ends together
            assert row["effect"] == pytest.approx(after - before, abs=1e-5)
    table = regard("heads", str(folder), "--data", name, "--pairs", "3").out
    assert table.splitlines()[0].split()[:3] == ["head", "effect", "previous"]
    for column in ("effect  ", "previous, first  ", "positional, at  ", "entropy  "):
        assert f"\n{column}" in table


def test_a_closed_standard_input_is_told(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="no text"):
        list(read_lines(None))


def test_tokens_of_a_translators_two_sides(regard):
    result = regard("tokens", "tiny/translate", "The dog sleeps.")
    [_, dog] = vocabulary("tiny/translate").source.encode("The dog")
    assert result.out.splitlines()[2].split() == ["dog", str(dog), "4-7"]
    other = regard("tokens", "tiny/translate", "--target", "Der Hund schläft.")
    lines = other.out.splitlines()
    assert [lines[1].split()[0], lines[-1].split()[0]] == ["<s>", "</s>"]
    assert lines[1].split()[-1] == "special"
    assert "unknown: xyz" in regard("tokens", "tiny/translate", "The xyz sleeps.").out


def test_tokens_as_json_are_those_of_python(regard):
    text = "The  dog xyz."
    [line] = regard("tokens", "tiny/translate", text, "--json").out.splitlines()
    row = json.loads(line)
    assert list(row) == ["text", "tokens", "decoded", "unknown", "lost"]
    assert row["tokens"] == [asdict(token) for token in load("tiny/translate").tokens(text)]
    assert row["tokens"] == [asdict(token) for token in vocabulary("tiny/translate").tokens(text)]
    assert [text[entry["start"] : entry["end"]] for entry in row["tokens"]] == [
        "The", "dog", "xyz", "."]  # fmt: skip
    assert row["unknown"] == ["xyz"]


def test_tokenizers_side_by_side(regard, folders):
    gpt = str(folders / "generate")
    words = ("tokens", "tiny/translate", "the cat", "--compare", gpt, "--compare", gpt)
    assert regard(*words).out.splitlines()[0].split() == ["tiny/translate", *["id", gpt] * 2, "id"]
    row = json.loads(regard(*words, "--json").out)
    assert [compared["place"] for compared in row["compared"]] == [gpt, gpt]
    alone = json.loads(regard("tokens", gpt, "the cat", "--json").out)
    assert row["compared"][0] == {"place": gpt, **alone}


def test_tokens_decode_ids(regard):
    source = vocabulary("tiny/translate").source
    the, dog = map(str, source.encode("The dog"))
    result = regard("tokens", "tiny/translate", "--decode", the, dog, "2")
    assert result.out.splitlines()[0] == "The dog"
    assert result.out.splitlines()[-1].split() == ["</s>", "2", "special"]
    piped = regard(
        "tokens",
        "tiny/translate",
        "--decode",
        "--json",
        feed=f"{the} {dog}\n\n7 x\n{the}\n".encode(),
    )
    rows = [json.loads(line) for line in piped.out.splitlines()]
    assert [row.get("decoded") for row in rows] == ["The dog", None, None, "The"]
    assert "line 3: an id: got x" in piped.err
    wrong = str(source.vocab)
    is_refused(
        regard("tokens", "tiny/translate", "--decode", wrong), wrong, f"0 to {source.vocab - 1}"
    )
    both = ("--decode", "6", "--compare", "tiny/translate")
    is_refused(regard("tokens", "tiny/translate", *both), "--compare")


def test_tokens_of_lines_and_of_wrong_input(regard, tmp_path):
    result = regard("tokens", "tiny/translate", "--json", feed=b"The dog\n\nThe \xff\nA cat\n")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [len(row.get("tokens", ())) for row in rows] == [2, 0, 0, 2]
    assert "line 3: not UTF-8" in result.err
    is_refused(regard("tokens", "tiny/translate", ""), "an empty text")
    is_refused(regard("tokens", "nowhere", "x"), "no folder nowhere", "`regard ls` lists them")
    is_refused(regard("tokens", "tiny/translate", "x", "--compare", "nowhere"), "nowhere")
    (tmp_path / "notes.txt").write_text("no JSON")
    is_refused(regard("tokens", "notes.txt", "x"), "notes.txt", "not JSON")
    (tmp_path / "empty").mkdir()
    is_refused(regard("tokens", "empty", "x"), "empty")


def test_tokens_are_asked_for_at_a_terminal(regard, typed):
    result = typed("tokens", "tiny/translate", keys=b"The \xff\nThe dog\n" + CTRL_D)
    assert result.out == regard("tokens", "tiny/translate", "The dog").out
    assert result.err.count("error: ") == 1


@pytest.fixture
def tiny(tmp_path):
    """The shipped model as a checkpoint whose weights are gone, as its manifest does not know."""
    folder = tmp_path / "copy"
    load("tiny/translate").save(folder)
    (folder / "model.safetensors").write_bytes(b"no weights")
    return folder


def test_tokens_need_no_weights_but_a_tokenizer_as_it_was_written(regard, tiny):
    plain = regard("tokens", "tiny/translate", "The dog").out
    assert regard("tokens", str(tiny), "The dog").out == plain
    file = tiny / "tokenizer.json"
    assert regard("tokens", str(file), "The dog").out == plain
    file.write_text(file.read_text().replace('"dog":', '"cog":', 1))
    for path in (tiny, file):
        is_refused(regard("tokens", str(path), "The dog"), "damaged", "tokenizer.json")
    (tiny / "manifest.json").unlink()
    is_refused(regard("tokens", str(tiny), "The dog"), "copy")


def test_tokens_of_a_run_are_of_its_sound_checkpoint(tiny, tmp_path, caplog):
    first, second = ((tmp_path / "run" / "checkpoints" / name) for name in ("00000001", "00000002"))
    snapshot = replace(load("tiny/translate")._snapshot(), training={"place": {"best": None}})
    for step, folder in enumerate((first, second), start=1):
        write_folder(folder, replace(snapshot, step=step))
    (second / "tokenizer.json").write_text("{}")
    assert vocabulary(tmp_path / "run").tokens("The dog") == vocabulary(tiny).tokens("The dog")
    assert "00000002 is damaged (tokenizer.json" in caplog.text


def test_tokens_of_folders_without_weights_or_config(regard, folders, tmp_path):
    whole, bare = folders / "fill", tmp_path / "bare"
    bare.mkdir()
    for file in whole.glob("*token*.json"):
        (bare / file.name).write_bytes(file.read_bytes())
    shown = regard("tokens", str(whole), "the cat").out
    assert shown.splitlines()[1].split()[-1] == "special"
    assert regard("tokens", str(bare), "the cat").out == shown
    assert regard("tokens", str(bare / "tokenizer.json"), "the cat").out == shown
    (bare / "config.json").write_text((whole / "config.json").read_text())
    for file in bare.glob("*token*.json"):
        file.unlink()
    is_refused(regard("tokens", str(bare), "the cat"), "has no tokenizer")
