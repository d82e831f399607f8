"""Somebody's folder and one's own data, by the command line: trained, asked, scored, kept."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from regard.runs.load import load
from tests import tiny_bert, tiny_t5
from tests.commands import is_refused
from tests.test_other_peoples_models import add_tokenizer
from tests.their_models import save

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.slow,
]
SHORT = ("train.steps=3", "train.warmup=1", "train.batch_tokens=200", "train.evaluate_every=3",
         "train.save_every=3", "--quiet")  # fmt: skip
QUESTION = {"context": "anna lives in paris", "question": "where ?",
            "answers": {"text": ["paris"], "start": [14]}}  # fmt: skip
LABELLED = {
    "classify": ("train.tsv", "the cat was good\tpos\na dog was bad\tneg\n" * 6),
    "tag": ("train.conll", "Anna B-person\nlives O\nin O\nParis B-place\n\n" * 12),
    "answer": ("train.jsonl", (json.dumps(QUESTION) + "\n") * 12),
}
ASKED = {
    "classify": ("the cat was good",),
    "tag": ("Anna lives in Paris",),
    "answer": ("--context", "anna lives in paris", "where ?"),
}
MEASURES = {"classify": "accuracy", "tag": "f1", "answer": "exact"}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """Folders of transformers: a BERT, a GPT-2 and a T5, each with its tokenizer."""
    root = tmp_path_factory.mktemp("theirs")
    tiny_bert.save(root / "bert")
    save("gpt2", root / "gpt2")
    add_tokenizer(root / "gpt2", ["<pad>", "<s>", "</s>", "<unk>"])
    tiny_t5.save(root / "t5")
    return root


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def done(result):
    assert result.code == 0, result.err
    return result.out


@pytest.mark.parametrize("task", LABELLED)
def test_a_bert_is_given_a_head_and_answers(regard, theirs, tmp_path, task):
    file, content = LABELLED[task]
    (tmp_path / file).write_text(content)
    start = (f"start.folder={theirs / 'bert'}", f"data.train={file}", f"data.valid={file}")
    done(regard("train", f"own/{task}", *start, *SHORT, "-o", "run"))
    said = done(regard(task, "run", *ASKED[task]))
    assert said.strip()
    row = json.loads(done(regard(task, "run", "--json", *ASKED[task])))
    assert row["text"] == ASKED[task][-1]
    scores = [
        json.loads(done(regard("eval", "run", "--json", *more))) for more in ((), ("--data", file))
    ]
    assert [scored.pop("set") for scored in scores] == ["valid", file]
    assert scores[0] == scores[1]
    assert scores[0]["examples"] == 12
    assert 0 <= scores[0][MEASURES[task]] <= 100
    p = load("run")
    assert p.recipe.task == task
    p.save(tmp_path / "kept")
    assert done(regard(task, "kept", *ASKED[task])) == said


@pytest.mark.parametrize("task", LABELLED)
def test_a_model_that_writes_is_given_no_head(regard, theirs, tmp_path, task):
    file, content = LABELLED[task]
    (tmp_path / file).write_text(content)
    start = (f"start.folder={theirs / 'gpt2'}", f"data.train={file}")
    result = regard("train", f"own/{task}", *start, *SHORT, "-o", "run")
    assert result.code == 2
    assert "a gpt model, to start from, expected an encoder: BERT, RoBERTa" in result.err
    assert not (tmp_path / "run").exists()


def test_one_class_alone_is_refused(regard, theirs, tmp_path):
    (tmp_path / "one.tsv").write_text("the cat\tx\na dog\tx\n" * 4)
    start = (f"start.folder={theirs / 'bert'}", "data.train=one.tsv", "data.held_out=2")
    result = regard("train", "own/classify", *start, *SHORT, "-o", "run")
    assert result.code == 2
    assert "got 'x' alone, expected at least two" in result.err


GPT = ("data.files=my.txt", "data.separator=''", "data.held_out=0.3")


SIZES = {"dim", "layers", "heads", "hidden", "max_length", "positions"}


def test_a_gpt_2_goes_on_learning_from_a_text_file(regard, theirs, tmp_path):
    (tmp_path / "my.txt").write_text("the cat sat on the mat\n\na dog ran after the cat\n\n" * 4)
    shutil.copytree(theirs / "gpt2", "gpt2")
    command = ("train", "own/generate", "start.folder=gpt2", *GPT, *SHORT, "-o", "run")
    done(regard(*command, "train.learning_rate=1e-2"))
    before, after = load("gpt2"), load("run")
    assert not torch.equal(after.model.embed.weight, before.model.embed.weight)
    losses = [
        json.loads(done(regard("eval", model_name, "--data", "my.txt", "--json")))["loss"]
        for model_name in ("gpt2", "run")
    ]
    assert losses[1] < losses[0] - 0.1
    assert "held out: " in done(regard("eval", "run"))
    assert done(regard("generate", "run", "the cat", "--tokens", "3")).startswith("the cat")
    assert done(regard("suggest", "run", "the")).strip()
    shutil.rmtree("gpt2")  # a run that goes on needs it no more
    longer = [word.replace("steps=3", "steps=4") for word in command]
    done(regard(*longer, "train.learning_rate=1e-2", "--resume"))


def test_a_recipe_from_nothing_leaves_sizes_and_tokens_to_the_folder(regard, theirs, tmp_path):
    (tmp_path / "my.txt").write_text("the cat sat\n\na dog ran\n\n" * 9)
    start = (f"start.folder={theirs / 'gpt2'}", "data.kind=text", "data.files=[my.txt]")
    done(regard("train", "tiny/generate", *start, *GPT[1:], *SHORT, "-o", "run"))
    before, after = load(theirs / "gpt2"), load("run")
    sizes = [pipeline.model.config.model_dump(include=SIZES) for pipeline in (before, after)]
    assert sizes[0] == sizes[1]
    assert after.recipe.decode.temperature == 0.8  # the rest is the recipe's
    assert after.vocabulary.to_json() == before.vocabulary.to_json()


def test_a_vocabulary_without_a_begin_symbol_is_learned_with_and_asked(regard, theirs, tmp_path):
    shutil.copytree(theirs / "gpt2", "qwen")
    settings = json.loads((tmp_path / "qwen/tokenizer_config.json").read_text())
    del settings["bos_token"]  # as in Qwen
    (tmp_path / "qwen/tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "my.txt").write_text("the cat sat\n\na dog ran\n\n" * 9)
    done(regard("train", "own/generate", "start.folder=qwen", *GPT, *SHORT, "-o", "run"))
    done(regard("generate", "run", "the cat", "--tokens", "3"))
    p = load("run")
    nothing = p.task.read(p.model, [""])[0].values
    assert nothing == [p.vocabulary.source.end]  # what ended the text before
    assert len(p.generate(nothing, max_length=3)) <= 3


def test_what_the_folder_decides_is_refused_if_it_is_asked_for(regard, theirs, tmp_path):
    (tmp_path / "my.txt").write_text("the cat sat\n\n" * 9)
    start = ("train", "tiny/generate", f"start.folder={theirs / 'gpt2'}", *GPT, *SHORT, "-o", "run")
    is_refused(regard(*start, "model.dim=64"), "model.dim: got 64, expected 16")
    is_refused(regard(*start, "tokens.vocab=300"), "tokens.vocab: got 300, expected none")
    is_refused(regard(*start, "start.freeze=all"), "some parameters left to train")


MIXTURE = """\
version: 1
task: rewrite
start: {{folder: {folder}}}
data:
  kind: mixture
  held_out: 2
  parts:
    copy: {{train: pairs.tsv, prefix: "copy : "}}
    turn: {{train: pairs.tsv, prefix: "turn : ", weight: 2}}
train: {{steps: 3, batch_tokens: 100, warmup: 1, evaluate_every: 3, save_every: 3}}
"""


@pytest.mark.parametrize("kind", ["files", "mixture"])
def test_a_t5_learns_pairs_and_still_fills_holes(regard, theirs, tmp_path, kind):
    pairs = ["the cat\tdie Katze", "a dog\tHund", "the red cat\tdie Katze", "a cat\tKatze"]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs * 3) + "\n")
    if kind == "files":
        start = (f"start.folder={theirs / 't5'}", "data.train=pairs.tsv", "data.held_out=2")
        done(regard("train", "own/rewrite", *start, *SHORT, "-o", "run"))
    else:
        (tmp_path / "mixed.yaml").write_text(MIXTURE.format(folder=theirs / "t5"))
        done(regard("train", "mixed.yaml", "--quiet", "-o", "run"))
    before, after = load(theirs / "t5").model.state_dict(), load("run").model.state_dict()
    assert before.keys() == after.keys()
    assert not any(torch.equal(before[name], after[name]) for name in before)
    regard("translate", "run", "turn : the cat")
    scored = [json.loads(line) for line in done(regard("eval", "run", "--json")).splitlines()]
    assert all(row["loss"] > 0 and row["sentences"] >= 1 for row in scored)
    torn = "the <extra_id_0> sat on <extra_id_1> ."
    row = json.loads(done(regard("restore", "run", "--json", torn)))
    assert len(row["spans"]) == 2
    done(regard("look", "run", torn, "-o", "seen.html"))
    assert "extra_id_1" in (tmp_path / "seen.html").read_text()
