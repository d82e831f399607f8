"""Names of models: a path, the shelf, a cache made by hand, a hub that is none."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

import regard as package
from regard.errors import InputError
from regard.inputs.text.published.hub import read_file
from regard.models import GPTConfig, build
from regard.pipeline import Pipeline
from regard.recipes.recipe import from_text
from regard.runs.load import import_model, load, outline, vocabulary
from regard.runs.locate import Repository, cache, find, is_cached, is_ours
from tests.commands import is_refused

COMMIT, OTHER = "607a30d783dfa663caf39e06633721c8d4cfcd7e", "a" * 40
WORDS = ["<unk>", "</s>", "once", "upon", "a", "time", "there", "was", "dog", "cat", "the", "sat"]
TOKENIZER = {
    "version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None,
    "pre_tokenizer": {"type": "Whitespace"}, "decoder": None, "truncation": None, "padding": None,
    "model": {"type": "WordLevel", "unk_token": "<unk>",
              "vocab": {word: number for number, word in enumerate(WORDS)}},
}  # fmt: skip
RECIPE = """
version: 1
task: generate
data: {kind: none}
tokens: {}
model: {family: gpt, size: gpt2, dim: 16, heads: 2, layers: 1, max_length: 32}
train: {}
decode: {max_length: 5}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A tiny GPT-2 as transformers would have saved it."""
    root = tmp_path_factory.mktemp("gpt")
    (root / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (root / "tokenizer_config.json").write_text('{"eos_token": "</s>", "unk_token": "<unk>"}')
    recipe = from_text(RECIPE, "recipe")
    assert isinstance(recipe.model, GPTConfig)
    torch.manual_seed(0)
    model = build(recipe.model, len(WORDS))
    return Pipeline(model, read_file(root / "tokenizer.json"), recipe).export(root / "gpt2")


@pytest.fixture
def hub_cache(tmp_path, monkeypatch) -> Path:
    """An empty cache, and an empty folder to work in."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("HF_HUB_CACHE", str(folder))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


def put(hub_cache: Path, name: str, folder: Path, commit: str = COMMIT, ref: str = "main") -> Path:
    """Lays a folder into a cache as the hub's library does: blobs, links to them, a ref."""
    home = hub_cache / f"models--{name.replace('/', '--')}"
    snapshot = home / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (home / "blobs").mkdir(exist_ok=True)
    for number, file in enumerate(sorted(folder.iterdir())):
        blob = home / "blobs" / f"{commit[:6]}{number}"
        shutil.copy(file, blob)
        (snapshot / file.name).symlink_to(Path("../../blobs") / blob.name)
    if ref:
        (home / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (home / "refs" / ref).write_text(commit)
    return snapshot


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("gpt2", "gpt2"),
        ("openai-community/gpt2", "gpt2"),
        ("openai-community/gpt2", "openai-community/gpt2"),
        ("gpt2", "openai-community/gpt2"),
        ("me/my_model.v1", "me/my_model.v1"),
        ("gpt2", f"gpt2@{COMMIT}"),
        ("gpt2", f"gpt2@{COMMIT[:8]}"),
        ("gpt2", "gpt2@main"),
    ],
)
def test_a_name_in_the_cache_is_a_model(hub_cache, folder, stored, asked):
    snapshot = put(hub_cache, stored, folder)
    assert find(asked) == snapshot
    assert is_cached(asked)


def test_everything_takes_a_cached_name(hub_cache, folder, regard):
    put(hub_cache, "me/gpt", folder)
    expected = load(folder).generate("once upon", max_length=4, sample=False)
    pipeline = package.load("me/gpt")
    assert pipeline.name == "me/gpt"
    assert pipeline.generate("once upon", max_length=4, sample=False) == expected
    assert package.vocabulary("me/gpt").source.encode("the dog") == [10, 8]
    assert outline("me/gpt")[1] == (len(WORDS),)
    written = regard("generate", "me/gpt", "once upon", "--greedy", "--tokens", "4")
    assert (written.code, written.out.strip()) == (0, f"once upon {expected}".strip())
    assert "dog" in regard("tokens", "me/gpt", "the dog").out
    assert regard("plan", "me/gpt", "--flops", "1e9").code == 0
    start = ["own/generate", "start.folder=me/gpt", "data.kind=python"]
    assert regard("plan", *start, "--flops", "1e9").code == 0
    assert regard("import", "me/gpt", "-o", "mine").code == 0
    assert load("mine").generate("once upon", max_length=4, sample=False) == expected


def test_a_path_goes_before_the_shelf_and_the_shelf_before_the_cache(hub_cache, folder):
    put(hub_cache, "gpt2", folder)
    Path("gpt2").mkdir()
    assert find("gpt2") == Path("gpt2")
    put(hub_cache, "tiny/translate", folder)
    put(hub_cache, "small/nothing", folder)
    assert load("tiny/translate").recipe.task == "translate"
    with pytest.raises(InputError, match="no folder small/nothing"):
        find("small/nothing")
    assert not is_cached("small/nothing")
    with pytest.raises(InputError, match=r"name tiny/translate \(did you mean that"):
        find("tinny/translate")


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"HF_HUB_CACHE": "a", "HF_HOME": "b", "XDG_CACHE_HOME": "c"}, "a"),
        ({"HUGGINGFACE_HUB_CACHE": "d", "HF_HOME": "b"}, "d"),
        ({"HF_HOME": "b", "XDG_CACHE_HOME": "c"}, "b/hub"),
        ({"HF_HOME": "", "XDG_CACHE_HOME": "c"}, "c/huggingface/hub"),
        ({"HF_HOME": "~/b"}, "home/b/hub"),
        ({"HF_HUB_CACHE": "$HOME/x"}, "home/x"),
        ({}, "home/.cache/huggingface/hub"),
    ],
)
def test_the_cache_is_where_the_hubs_own_library_has_it(monkeypatch, variables, folder):
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "home")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache() == Path(folder)


def test_of_several_snapshots_main_is_meant(hub_cache, folder):
    old = put(hub_cache, "gpt2", folder, OTHER)
    new = put(hub_cache, "gpt2", folder, COMMIT)
    put(hub_cache, "gpt2", folder, "b" * 40, ref="refs/pr/1")
    assert find("gpt2") == new
    assert find(f"gpt2@{OTHER[:7]}") == old
    assert find("gpt2@refs/pr/1").name == "b" * 40
    (hub_cache / "models--gpt2/refs/main").unlink()
    with pytest.raises(InputError, match="gpt2@bbbbbbbbbbbb"):  # which one is not known
        find("gpt2")


def test_a_name_that_the_cache_has_of_somebody_else_is_suggested_not_taken(hub_cache, folder):
    put(hub_cache, "me/gpt2", folder)
    with pytest.raises(InputError, match=r"no folder gpt2(.|\n)*did you mean me/gpt2"):
        find("gpt2")


def test_the_only_snapshot_needs_no_ref(hub_cache, folder):
    snapshot = put(hub_cache, "gpt2", folder, ref="")
    assert find("gpt2") == snapshot


@pytest.mark.parametrize("said", ["../../../here", "/etc", "", "x" * 5000, "é" * 40])
def test_a_ref_that_is_no_commit_leads_nowhere(hub_cache, folder, said):
    put(hub_cache, "gpt2", folder)
    put(hub_cache, "gpt2", folder, OTHER)
    (hub_cache / "models--gpt2/refs/main").write_text(said)
    with pytest.raises(InputError, match="gpt2"):
        find("gpt2")


@pytest.mark.parametrize("gone", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("how", ["not linked", "linked to nothing"])
def test_what_was_downloaded_in_part_is_said_to_be(hub_cache, folder, regard, gone, how):
    snapshot = put(hub_cache, "gpt2", folder)
    blob = (snapshot / gone).resolve()
    blob.rename(blob.with_name(f"{blob.name}.incomplete"))
    if how == "not linked":
        (snapshot / gone).unlink()
    is_refused(regard("generate", "gpt2", "once"), "only in part", str(snapshot), "HF_HUB_OFFLINE")
    assert vocabulary("gpt2").source.encode("dog") == [8]


def test_parts_of_weights_must_all_be_there(hub_cache, folder, tmp_path):
    split = tmp_path / "split"
    shutil.copytree(folder, split)
    (split / "model.safetensors").rename(split / "model-00001-of-00002.safetensors")
    files = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (split / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    put(hub_cache, "gpt2", split)
    with pytest.raises(InputError, match="only in part"):
        find("gpt2")


def test_pickled_weights_in_the_cache_are_read_with_advice(hub_cache, folder, tmp_path, caplog):
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    from safetensors.torch import load_file

    torch.save(load_file(old / "model.safetensors"), old / "pytorch_model.bin")
    (old / "model.safetensors").unlink()
    put(hub_cache, "gpt2", old)
    assert load("gpt2").parameters == load(folder).parameters
    [line] = caplog.messages
    assert "pytorch_model.bin: read as plain tensors" in line
    assert "`regard import gpt2 -o NEW`" in line
    assert import_model("gpt2").parameters == load(folder).parameters
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    "name",
    ["../gpt2", "/gpt2", "a/b/c", "./gpt2", "gpt2/", "~/gpt2", "a--b", "a..b", "-a", "a/.b",
     "", " ", "a b", "a\\b", "gpt2@", "gpt2@../x", "x.json", "y/model.safetensors", "é", "a" * 97,
     "a\0b", "runs/mine.git", "gpt2\n", "a//b", "https://huggingface.co/gpt2"],
)  # fmt: skip
@pytest.mark.usefixtures("hub_cache")
def test_what_can_be_no_repository_is_not_looked_up(monkeypatch, name):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub({}))
    assert Repository.of(name) is None
    with pytest.raises(InputError, match="no folder"):
        load(name)
    assert sys.modules["huggingface_hub"].asked == []


def test_a_path_object_is_a_path(hub_cache, folder):
    put(hub_cache, "gpt2", folder)
    with pytest.raises(InputError, match="no folder gpt2"):
        load(Path("gpt2"))


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("tiny/transalte", "tiny/translate"),
        ("tiny/translate-de", "tiny/translate"),
        ("own/clasify", "own/classify"),
        ("multi30k/en_de", "multi30k/en-de"),
        ("tiny", "tiny/pronoun, tiny/recurrent, tiny/steps or tiny/translate"),
        ("small", "small/caption, small/digits, small/fashion or small/fill"),
        ("own", "own/"),
    ],
)
@pytest.mark.usefixtures("hub_cache")
def test_a_misspelt_name_of_ours_is_told_the_nearest_and_looked_up_nowhere(monkeypatch, name, near):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub({}))
    assert is_ours(name)
    with pytest.raises(InputError, match=f"did you mean {near}"):
        load(name)
    assert sys.modules["huggingface_hub"].asked == []


class NotFound(Exception):
    pass


NotFound.__name__ = "RepositoryNotFoundError"


class Hub(ModuleType):
    """The hub's library, as far as it is used: repositories by name, folders on this disk."""

    def __init__(self, repositories: dict[str, Path], more: dict[str, int] | None = None) -> None:
        super().__init__("huggingface_hub")
        self.repositories, self.more = repositories, more or {}
        self.asked: list[object] = []

    def HfApi(self):  # noqa: N802
        return self

    def model_info(self, name, *, revision, files_metadata):
        del revision
        self.asked.append(name)
        if name not in self.repositories:
            raise NotFound("404")
        assert files_metadata
        sizes = {path.name: path.stat().st_size for path in self.repositories[name].iterdir()}
        files = [SimpleNamespace(rfilename=file, size=size)
                 for file, size in (sizes | self.more).items()]  # fmt: skip
        return SimpleNamespace(siblings=files, sha=COMMIT)

    def snapshot_download(self, name, *, revision, cache_dir, allow_patterns):
        self.asked.append(allow_patterns)
        folder = self.repositories[name]
        chosen = Path(cache_dir).parent / "chosen"
        shutil.rmtree(chosen, ignore_errors=True)
        chosen.mkdir()
        for file in allow_patterns:
            if (folder / file).exists():
                shutil.copy(folder / file, chosen / file)
        return str(put(Path(cache_dir), name, chosen, ref=revision or "main"))


@pytest.fixture
def online(monkeypatch, hub_cache, folder) -> Hub:  # noqa: ARG001 (it stands in an empty cache)
    """A hub that has one model, and files in it that nobody asked for."""
    monkeypatch.delenv("HF_HUB_OFFLINE")
    more = {"pytorch_model.bin": 9, "onnx/model.safetensors": 9, "run.py": 9, "README.md": 9,
            "model.fp16.safetensors": 9, "flax_model.msgpack": 9, "../x.json": 9}  # fmt: skip
    hub = Hub({"me/gpt": folder}, more)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    return hub


def test_a_name_that_nothing_here_has_is_downloaded_and_then_cached(online, folder, caplog):
    pipeline = load("me/gpt")
    assert pipeline.parameters == load(folder).parameters
    [name, files] = online.asked
    assert name == "me/gpt"
    assert sorted(files) == ["config.json", "generation_config.json", "model.safetensors",
                             "tokenizer.json", "tokenizer_config.json"]  # fmt: skip
    size = sum((folder / file).stat().st_size for file in files) / 1e6
    [message] = caplog.messages
    assert message.startswith(f"me/gpt: downloading 5 files, {size:.1f} MB, from the Hugging Face")
    load("me/gpt")
    assert len(online.asked) == 2


def test_a_tokenizer_is_downloaded_without_the_weights(online, regard):
    assert "dog" in regard("tokens", "me/gpt", "the dog").out
    assert "model.safetensors" not in online.asked[1]
    assert "tokenizer.json" in online.asked[1]


@pytest.mark.parametrize(
    "command",
    [
        ("eval", "me/gpt", "--data", "x.txt"),
        ("train", "own/generate", "start.folder=me/gpt", "data.kind=python", "-o", "run"),
        ("plan", "own/generate", "start.folder=me/gpt"),
    ],
)
def test_training_scoring_and_planning_never_download(online, regard, tmp_path, command):
    (tmp_path / "x.txt").write_text("once upon a time\n")
    is_refused(regard(*command), "no folder me/gpt", "`regard import me/gpt -o FOLDER` downloads")
    assert online.asked == []
    assert not (tmp_path / "run").exists()


def test_the_environment_can_forbid_it(online, monkeypatch):
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "yes")
        with pytest.raises(InputError, match="OFFLINE is set"):
            load("me/gpt")
        monkeypatch.delenv(name)
    with pytest.raises(InputError, match="no folder me/gpt"):
        load("me/gpt", download=False)
    assert online.asked == []


def test_without_the_hubs_library_it_is_said_what_to_install(hub_cache, monkeypatch, regard):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    is_refused(regard("generate", "gpt2", "x"), "no folder gpt2", "Hugging Face cache",
               str(hub_cache), "pip install huggingface_hub", "`regard ls` lists them")  # fmt: skip


def test_a_name_that_begins_as_a_folder_here_is_not_asked_for(online):
    Path("me").mkdir()
    with pytest.raises(InputError, match="its first part is a folder here"):
        load("me/gpt")
    assert online.asked == []


def test_what_the_hub_does_not_have_or_give_is_said(online, regard, monkeypatch):
    is_refused(regard("generate", "me/gtp", "x"), "no such shipped model", "on the hub")

    def gone(*_, **__):
        raise OSError("no route to host\nand more")

    monkeypatch.setattr(online, "model_info", gone)
    is_refused(regard("generate", "me/gpt", "x"), "hub: got no route to host")


def test_a_repository_without_safetensors_is_refused_before_a_download(online, folder, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(folder, bare)
    (bare / "model.safetensors").unlink()
    online.repositories["me/old"] = bare
    with pytest.raises(InputError, match=r"weights in model\.fp16\.safetensors, pytorch_model"):
        load("me/old")
    assert online.asked == ["me/old"]


def test_more_than_the_memory_holds_is_not_downloaded(online):
    online.more["model.safetensors"] = 10**15
    with pytest.raises(InputError, match="memory"):
        load("me/gpt")
    assert online.asked == ["me/gpt"]
    assert list(Path().iterdir()) == []
