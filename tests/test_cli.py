"""The commands as a person types them: right input, wrong input, pipes, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from regard.recipes.shelf import shipped
from regard.runs.load import load
from regard.runtime.printing import print_result
from tests.commands import is_refused

TINY = "tiny/translate"
SENTENCE = "The animal didn't cross the street because it was too wide."


def test_translates_arguments(regard) -> None:
    result = regard("translate", "tiny/translate", "The dog sleeps.", "The cat sees a bird.")
    assert (result.code, result.out) == (0, "Der Hund schläft.\nDie Katze sieht einen Vogel.\n")
    assert result.err == ""


def test_json_has_its_documented_shape(regard) -> None:
    result = regard("translate", "tiny/translate", "The dog sleeps.", "--n-best", "2", "--json")
    entry = json.loads(result.out)
    assert entry.keys() == {"source", "translations", "unknown"}
    best, second = entry["translations"]
    assert best.keys() == {"text", "logprob", "score", "finished"}
    assert best["text"] == "Der Hund schläft."
    assert best["score"] == pytest.approx(best["logprob"] / 5)  # four tokens and the end
    assert best["score"] >= second["score"]


def test_a_stream_gives_a_line_for_a_line(regard) -> None:
    feed = b"The dog sleeps.\n\nbad \xff byte\nThe zebra sleeps.\nThe cat sees a bird."
    result = regard("translate", "tiny/translate", feed=feed)
    assert result.code == 0
    assert result.out == "Der Hund schläft.\n\n\n\nDie Katze sieht einen Vogel.\n"


def test_a_stream_names_what_it_could_not_read(regard) -> None:
    feed = b"ok\xff\n\n" + b"dog " * 2000 + b"\nThe zebra sleeps.\n"
    said = regard("translate", "tiny/translate", feed=feed).err
    assert "line 1: not UTF-8" in said
    assert "line 3: the sentence to translate is too long" in said
    assert "line 4: the model does not know: zebra" in said
    assert "line 2" not in said
    assert not regard("translate", "tiny/translate", "--quiet", feed=feed).err


def test_strict_stops_at_the_line(regard) -> None:
    result = regard("translate", "tiny/translate", "--strict", feed=b"bad \xff byte\n")
    is_refused(result, "line 1", "UTF-8")


def test_input_file_and_windows_line_ends(regard, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"The dog sleeps.\r\nThe dog sleeps.\r\n")
    result = regard("translate", "tiny/translate", "--input", "in.txt")
    assert result.out == "Der Hund schläft.\n" * 2


def test_a_text_is_never_guessed_to_be_a_file(regard, tmp_path: Path) -> None:
    (tmp_path / "dog").write_text("The dog sleeps.")
    assert regard("translate", "tiny/translate", "dog").out != "Der Hund schläft.\n"


def test_streaming_ends_with_the_translation(regard) -> None:
    result = regard("translate", "tiny/translate", "The dog sleeps.", "--stream", "--beam", "1")
    assert result.out == "Der Hund schläft.\n"


def test_prefix_and_sampling(regard) -> None:
    forced = regard("translate", "tiny/translate", "The dog sleeps.", "--prefix", "Die")
    assert forced.out.startswith("Die ")
    draw = ["translate", "tiny/translate", "The dog sleeps.", "--sample", "--seed", "3"]
    assert regard(*draw).out == regard(*draw).out


@pytest.mark.parametrize(
    ("words", "helps"),
    [
        (["translate"], ["MODEL"]),
        (["translate", "nowhere", "x"], ["nowhere", "`regard ls` lists them"]),
        (["translate", "tiny/translate", ""], ["an empty text"]),
        (["translate", "tiny/translate", "The zebra sleeps."], ["zebra", "--allow-unknown"]),
        (["translate", TINY, "The dog.", "--beam", "0"], ["beam", "got 0"]),
        (["translate", TINY, "The dog.", "--beam", "x"], ["--beam"]),
        (["translate", TINY, "The dog.", "--top-p", "1.5", "--sample"], ["top_p"]),
        (["translate", TINY, "The dog.", "--temperature", "2"], ["sample"]),
        (["translate", TINY, "The dog.", "--knock-out", "decoder.9.cross.1"], ["decoder"]),
        (["translate", TINY, "The dog.", "--knock-out", "decoder.1.cross.99"], ["head 0 to"]),
        (["translate", TINY, "The dog.", "--knock-out", "head"], ["decoder.1.cross.3"]),
        (["translate", "tiny/translate", "--input", "missing.txt"], ["missing.txt"]),
        (["translate", "tiny/translate", "--input", "."], ["--input"]),
        (["translate", TINY, "The dog.", "--threads", "0"], ["threads"]),
        (["trnslate"], ["translate"]),
        (["look", TINY, "The dog sleeps.", "-o", "x.gif"], [".png"]),
        (["look", TINY, "The dog sleeps.", "--layer", "7", "-o", "x.png"], ["7"]),
        (["look", TINY, "The dog sleeps.", "--head", "99", "-o", "x.png"], ["99"]),
        (["look", TINY, "The dog sleeps.", "--word", "cat", "-o", "x.png"], ["cat"]),
        (["look", TINY, "The dog sleeps.", "--kind", "map", "-o", "x.png"], ["alignment"]),
        (["look", TINY, "The dog sleeps.", "--target", "Qwertz.", "-o", "x.png"], ["Qwertz"]),
        (["train", "tiny/copy"], ["-o"]),
        (["train", "tiny/copi", "-o", "run"], ["tiny/copy"]),
        (["train", "tiny/copy", "train.stepz=3", "-o", "run"], ["steps"]),
        (["train", "tiny/copy", "--seed", "-1", "-o", "run"], ["seed"]),
        (["train", "own/translate", "-o", "run"], ["train.tsv"]),
        (["train", "own/translate", "data.train=missing.tsv", "-o", "run"], ["missing.tsv"]),
        (["data", "sample", "tiny/copy", "--split", "nope"], ["valid"]),
        (["eval", "tiny/translate", "--data", "missing.tsv"], ["missing.tsv"]),
        (["show", "nope"], ["nope"]),
        (["plan", "nope"], ["base", "`regard plan` lists all"]),
        (["recipe", "nope"], ["nope"]),
        (["data", "check", "missing.tsv"], ["missing.tsv"]),
        (["ls", "missing"], ["missing"]),
    ],
)  # fmt: skip
def test_wrong_input_gets_two_lines_that_help(regard, words: list[str], helps: list[str]) -> None:
    is_refused(regard(*words), *helps)


def test_nothing_is_left_behind_by_a_refused_training(regard, tmp_path: Path) -> None:
    regard("train", "own/translate", "data.train=missing.tsv", "-o", "run")
    assert not (tmp_path / "run").exists()


def test_data_check_says_file_and_line_and_exits_1(regard, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_bytes(b"a b\tc d\nno tab\n\tempty\n\xff\tx\n")
    result = regard("data", "check", "pairs.tsv")
    assert result.code == 1
    for line in ("pairs.tsv:2", "pairs.tsv:3", "pairs.tsv:4"):
        assert line in result.out


def test_data_check_of_sound_files_exits_0(regard, tmp_path: Path) -> None:
    (tmp_path / "x.en").write_text("a b\nc\n")
    (tmp_path / "x.de").write_text("d e\nf\n")
    result = regard("data", "check", "x.en", "x.de")
    assert result.code == 0
    assert "2 pairs" in result.out


def test_unequal_files_always_stop(regard, tmp_path: Path) -> None:
    (tmp_path / "x.en").write_text("a\nb\nc\n")
    (tmp_path / "x.de").write_text("d\ne\n")
    for words in (
        ["data", "check", "x.en,x.de"],
        ["train", "own/translate", "data.train=x.en,x.de", "data.on_bad=skip", "-o", "run"],
    ):
        is_refused(regard(*words), "x.en", "x.de", "3", "2")


def test_look_refuses_an_empty_text_in_its_own_name(regard) -> None:
    result = regard("look", "tiny/translate", "")
    assert result.code == 2
    assert "look: got an empty text" in result.err


def test_look_draws_and_says_what(regard, tmp_path: Path) -> None:
    result = regard("look", "tiny/translate", SENTENCE, "-o", "a.png")
    assert result.out == "Das Tier überquerte die Straße nicht, weil sie zu breit war.\n"
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "cross" in result.err


def test_unwritable_output_exits_74(regard, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = regard("look", "tiny/translate", "The dog sleeps.", "-o", "file/x.png")
    assert result.code == 74
    assert "Traceback" not in result.err


def test_eval_scores_own_pairs_and_writes_them(regard, tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("The dog sleeps.\tDer Hund schläft.\nThe cat runs.\tx y z\n")
    result = regard("eval", "tiny/translate", "--data", "p.tsv", "-o", "out", "--json")
    entry = json.loads(result.out)
    assert entry["sentences"] == 2
    assert entry["exact"] == 50
    assert "version:" in entry["bleu_signature"]
    assert (tmp_path / "out" / "p.tsv.hypotheses.txt").read_text().startswith("Der Hund schläft.\n")
    assert (tmp_path / "out" / "bleu-by-length.png").stat().st_size > 1000


def test_recipe_is_printed_as_it_stands(regard) -> None:
    assert "version: 2" in regard("recipe", "tiny/copy").out
    assert "tiny/translate" in regard("recipe").out


def test_env_and_ls_answer(regard) -> None:
    assert "torch" in regard("env").out
    assert "tiny/translate" in regard("ls").out
    assert "torch" in json.loads(regard("env", "--json").out)


def test_help_does_not_load_torch() -> None:
    code = (
        "import sys; sys.argv=['regard','--help']\n"
        "from regard import cli\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "recipe tiny/copy", "data check p.tsv", "env", "ls", "ls --json", "ls tiny/translate",
        "translate", "translate --bogus x",
    ],
)  # fmt: skip
def test_what_needs_no_model_does_not_load_torch(tmp_path: Path, command: str) -> None:
    (tmp_path / "p.tsv").write_text("a\tb\n")
    (tmp_path / "run/checkpoints/00000001").mkdir(parents=True)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/config.json").write_text('{"model_type": "gpt2"}')
    code = (
        f"import sys; sys.argv={['regard', *command.split()]}\n"
        "from regard import cli\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=tmp_path)


NOT_FOR_TRANSLATING = (
    "sacrebleu", "matplotlib", "PIL", "rich", "regard.explain", "regard.watch", "regard_lectures",
    "regard.data.synthetic.grammar", "regard.data.synthetic.jobs",
    "regard.cost", "regard.hub.folder", "regard.hub.tables", "regard.inputs.text.published",
    "regard.train.loop", "regard.train.optim", "regard.tasks.words",
)  # fmt: skip


@pytest.mark.slow
def test_translating_imports_what_it_needs_and_looks_for_garbage_seldom_until_then() -> None:
    code = (
        "import gc, runpy, sys\n"
        "usual = gc.get_threshold()\n"
        "sys.argv = ['regard', 'translate', 'tiny/translate', 'A dog.']\n"
        "runpy.run_module('regard', run_name='__main__')\n"
        "assert gc.get_threshold() == usual and gc.get_freeze_count() > 100_000\n"
        "print(*sys.modules, sep='\\n')"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    said, *modules = ran.stdout.splitlines()
    assert said == "Ein Hund."
    needless = [name for name in modules if f"{name}.".startswith(tuple(
        f"{package}." for package in NOT_FOR_TRANSLATING))]  # fmt: skip
    assert needless == []


@pytest.mark.slow
def test_help_is_quick() -> None:
    def seconds(code: str) -> float:
        script = f"import time; t=time.perf_counter()\n{code}\n"
        best = []
        for _ in range(5):
            start = os.times().elapsed
            subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
            best.append(os.times().elapsed - start)
        return min(best)

    ours = (
        "import sys; sys.argv=['regard','--help']\nfrom regard.cli import main\n"
        "try: main()\nexcept SystemExit: pass"
    )
    assert seconds(ours) <= 3 * seconds("import typer")


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly() -> None:
    line = f"{sys.executable} -m regard recipe tiny/translate | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.startswith("#")


def test_streaming_keeps_the_rules_of_a_stream(regard) -> None:
    result = regard(
        "translate", TINY, "--stream", feed=b"The dog sleeps.\n\n\xff\nThe dog sleeps.\n"
    )
    assert result.code == 0
    assert result.out == "Der Hund schläft.\n\n\nDer Hund schläft.\n"
    forced = regard("translate", TINY, "The dog sleeps.", "--stream", "--prefix", "Die")
    assert forced.out.startswith("Die ")
    is_refused(regard("translate", TINY, "The dog.", "--stream", "--knock-out", "x"), "decoder.1")
    is_refused(regard("translate", TINY, "The dog.", "--stream", "--json"), "--json")


def test_a_prefix_the_model_cannot_write_is_refused(regard) -> None:
    is_refused(regard("translate", TINY, "The dog sleeps.", "--prefix", "Xyzzy"), "Xyzzy")


def test_n_best_on_a_stream_gives_as_many_lines_for_every_line(regard) -> None:
    result = regard("translate", TINY, "--n-best", "2", feed=b"The dog sleeps.\n\nThe cat runs.\n")
    lines = result.out.split("\n")
    assert len(lines) == 7
    assert lines[2:4] == ["", ""]


def test_too_long_a_pair_is_refused_by_eval_and_heads(regard, tmp_path: Path) -> None:
    (tmp_path / "long.tsv").write_text("the dog " * 600 + "\tder Hund\n")
    for command in ("eval", "heads"):
        is_refused(regard(command, TINY, "--data", "long.tsv"), "too long", "1200")


def test_scores_of_foreign_text_say_so_and_exit_1(regard, tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("Bonjour le monde\tHallo Welt\nThe dog sleeps.\tDer Hund.\n")
    result = regard("eval", TINY, "--data", "p.tsv")
    assert result.code == 0
    assert "50.0% of the sources" in result.out
    (tmp_path / "p.tsv").write_text("Bonjour le monde\tDer Hund schläft.\n")
    result = regard("eval", TINY, "--data", "p.tsv")
    assert result.code == 1
    assert "100.0% of the sources, 0.0% of the targets" in result.out
    assert "100% of the words of the sources" in result.err
    result = regard("eval", TINY, "--data", "p.tsv", "--json", "--allow-unknown")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out)["unknown"] == {"source": 1.0, "target": 0.0}


def test_a_stream_is_one_line_of_what_is_said_without_it(regard) -> None:
    text = "The animal didn't cross the street because it was too tired."
    streamed = regard("translate", TINY, text, "--stream", feed=b"")
    assert streamed.out == regard("translate", TINY, text).out
    assert "\r" not in streamed.out


def test_lowercase_reaches_every_score(regard, tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text("The dog sleeps.\tder hund SCHLÄFT.\n")
    entry = json.loads(regard("eval", TINY, "--data", "p.tsv", "--lowercase", "--json").out)
    assert entry["exact"] == 100
    assert entry["by_length"][0]["bleu"] == pytest.approx(100)


def test_a_recipe_that_somebody_wrote_is_not_overwritten(regard, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("# mine\n" + regard("recipe", "tiny/copy").out)
    is_refused(regard("train", "recipe.yaml", "-o", "."), "recipe.yaml", "-o")
    assert (tmp_path / "recipe.yaml").read_text().startswith("# mine")


def test_a_name_with_a_line_break_stays_on_its_line(regard) -> None:
    is_refused(regard("translate", "no\nsuch", "hi"), "no\\nsuch")


@pytest.mark.slow
def test_umlauts_are_written_whatever_the_locale(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "regard", "translate", TINY, "The dog sleeps."],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.decode() == "Der Hund schläft.\n"


def test_json_of_a_refused_line_keeps_it(regard) -> None:
    result = regard("translate", TINY, "--json", feed=b"The zebra.\n\n")
    zebra, empty = map(json.loads, result.out.splitlines())
    assert (zebra["source"], zebra["translations"], zebra["unknown"]) == (
        "The zebra.",
        [],
        ["zebra"],
    )
    assert empty["source"] == ""


def test_a_dash_is_standard_input_and_two_inputs_are_refused(regard, tmp_path: Path) -> None:
    assert regard("translate", TINY, "-", feed=b"The dog sleeps.\n").out == "Der Hund schläft.\n"
    (tmp_path / "in.txt").write_text("The dog sleeps.\n")
    is_refused(regard("translate", TINY, "The dog.", "--input", "in.txt"), "--input")
    is_refused(regard("eval", TINY, "--data", "in.txt", "--split", "valid"), "--split")
    is_refused(regard("train", "tiny/copy", "-o", ""), "-o")


def test_a_command_without_its_second_word_gets_help(regard) -> None:
    result = regard("data")
    assert result.code == 2
    assert "check" in result.err


def test_the_version_is_said_at_once(regard):
    from regard import __version__

    result = regard("--version")
    assert (result.code, result.out) == (0, f"regard {__version__}\n")


def test_env_tells_the_threads_that_a_command_would_use(regard, monkeypatch):
    monkeypatch.setenv("REGARD_THREADS", "3")
    assert json.loads(regard("env", "--json").out)["threads"] == "3"
    torch.set_num_threads(1)  # as in all tests
    monkeypatch.setenv("REGARD_THREADS", "many")
    is_refused(regard("env"), "REGARD_THREADS", "many")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("tiny/copy", "regard train tiny/copy -o runs/copy"),
        ("own/base", "regard train own/base data.train=FILE -o runs/base"),
        ("own/answer", "start.folder=DIR data.train=FILE -o runs/answer"),
    ],
)
def test_a_recipe_is_told_from_a_model(regard, name, command):
    is_refused(regard("translate", name, "1 2 3"), f"{name} is a recipe, not a model", command)


@pytest.mark.parametrize("name", ["x.pth", "x.pt", "x.safetensors", "zipped.bin"])
def test_a_file_of_weights_alone_is_said_to_be_one(regard, tmp_path, name):
    save = save_file if name.endswith("safetensors") else torch.save
    save({"weight": torch.ones(2, 3)}, tmp_path / name)
    is_refused(regard("import", name, "-o", "new"), "weights alone", "folder that has config.json")
    assert not (tmp_path / "new").exists()


def test_runs_checkpoints_and_other_peoples_folders_are_listed_under_headings(regard, tmp_path):
    load("tiny/translate").save(tmp_path / "mine")
    (tmp_path / "runs/begun/checkpoints").mkdir(parents=True)
    (tmp_path / "their").mkdir()
    (tmp_path / "their/config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/config.json").write_text('{"model_type": ')
    lines = [line.split() for line in regard("ls").out.splitlines()]
    shelf, _, scores, _, runs = ([*group] for _, group in groupby(lines, bool))
    assert shelf[0] == ["name", "kind", "size", "verbs"]
    tiny = "tiny/translate shipped (transformer) 2.9 MB translate, words, look, heads"
    assert tiny.split() in shelf
    assert scores[0] == ["name", "score", "measured", "on"]
    assert "tiny/translate BLEU 99.4 500 sentences" in " ".join(map(" ".join, scores))
    assert runs == [
        ["name", "kind", "last", "step", "best", "loss"],
        ["mine", "checkpoint", "(transformer)", "-", "-"],
        ["runs/begun", "run", "-", "-"],
        ["their", "Hugging", "Face", "(gpt2)", "-", "-"],
    ]
    rows = [json.loads(line) for line in regard("ls", "--json").out.splitlines()]
    assert {row["name"] for row in rows if row["kind"] == "shipped"} == set(shipped())
    assert [row["name"] for row in rows[-3:]] == ["mine", "runs/begun", "their"]
    assert rows[-2] == {"name": "runs/begun", "kind": "run", "step": None, "best_loss": None}


def test_a_folder_is_listed_alone_and_a_model_in_it_shows_its_card(regard, tmp_path):
    models = tmp_path / "models"
    load("tiny/translate").save(models / "mine")
    (models / "their").mkdir(parents=True)
    (models / "their/config.json").write_text('{"model_type": "gpt2"}')
    (models / "their/README.md").write_text("# Their model\n")
    rows = [json.loads(line) for line in regard("ls", "models", "--json").out.splitlines()]
    assert [row["name"] for row in rows] == ["models/mine", "models/their"]
    assert "shipped" not in regard("ls", "models").out
    card = dict(line.split(maxsplit=1) for line in regard("ls", "models/mine").out.splitlines()[2:])
    assert card["task"] == "translate"
    assert card["verbs"] == "translate, words, look, heads"
    assert card["sizes"].startswith("1 encoder layers, 2 decoder layers, 128 wide")
    [facts] = [json.loads(line) for line in regard("ls", "models/mine", "--json").out.splitlines()]
    assert facts["bytes"] == sum(file.stat().st_size for file in (models / "mine").iterdir())
    assert regard("ls", "models/their").out.endswith("# Their model\n")
    (tmp_path / "empty").mkdir()
    assert regard("ls", "empty").err.startswith("empty has no runs, checkpoints")


def test_a_shelf_is_a_folder_too(regard):
    names = [json.loads(line)["name"] for line in regard("ls", "small", "--json").out.splitlines()]
    assert names == [name for name in shipped() if name.startswith("small/")]
    assert regard("ls", "small/").out == regard("ls", "small").out


def test_file_names_that_are_not_utf8_are_printed(capsys) -> None:
    for as_json in (False, True):
        print_result("r\udcff", {"name": "r\udcff"}, as_json=as_json)
    text, row = capsys.readouterr().out.splitlines()
    assert text == "r\\udcff"
    assert json.loads(row) == {"name": "r\udcff"}
