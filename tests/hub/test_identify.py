"""Folders that do not say what they hold: inferred, asked for, or refused with the candidates."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.errors import InputError
from regard.hub.folder import describe_folder, read_model
from regard.hub.identify import kind_of_class
from regard.inputs.arrays import Ragged
from regard.runs.list import models_in
from regard.runs.load import import_model, outline
from tests.hub.test_exchange import close, our_logits, their_logits
from tests.their_models import ENCODER, EVERY, save

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

AMBIGUOUS = ("llama", "llama-tied", "llama3", "roberta")
"""Models whose tensors have the names of another kind's, without anything that tells them apart."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Saves each tiny random model once: (their model, its folder)."""
    known = {}

    def build(name):
        if name not in known:
            folder = tmp_path_factory.mktemp("their") / name
            known[name] = save(name, folder), folder
        return known[name]

    return build


@pytest.fixture
def make(saved, tmp_path):
    """A copy of a saved model, to be changed, its config without the given keys."""

    def build(name, *without, **changes):
        theirs, folder = saved(name)
        copied = tmp_path / name
        shutil.copytree(folder, copied, dirs_exist_ok=True)
        change(copied, *without, **changes)
        return theirs, copied

    return build


def change(folder, *without, **changes):
    config = json.loads((folder / "config.json").read_text())
    left = {key: value for key, value in config.items() if key not in without}
    (folder / "config.json").write_text(json.dumps(left | changes))


def rename(folder, to):
    """Renames the tensors of a folder; those that become None are left out."""
    file = folder / "model.safetensors"
    save_file({to(k): t.contiguous() for k, t in load_file(file).items() if to(k)}, file)


def pickle(folder, parts=1):
    """Writes the weights as `.bin` files, as old versions did."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    file.unlink()
    if parts == 1:
        torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
        return
    files = {name: f"pytorch_model-{i % parts}.bin" for i, name in enumerate(tensors)}
    for part in set(files.values()):
        torch.save({n: tensors[n] for n in tensors if files[n] == part}, folder / part)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": files}))


@pytest.mark.parametrize("name", EVERY)
def test_architectures_name_the_kind(make, name, caplog):
    theirs, folder = make(name, "model_type")
    close(our_logits(read_model(folder), name), their_logits(theirs, name))
    kind = name.partition("-")[0].replace("llama3", "llama")
    [line] = caplog.messages
    assert f"no model_type: read as {kind}, by its architectures (--as KIND insists" in line


@pytest.mark.parametrize("name", [name for name in EVERY if name not in AMBIGUOUS])
def test_tensors_show_the_kind_and_the_head(make, name, caplog):
    theirs, folder = make(name, "model_type", "architectures")
    close(our_logits(read_model(folder), name), their_logits(theirs, name))
    [line] = caplog.messages
    assert f"read as {name.partition('-')[0]}, by its tensors" in line
    assert ("its classifier is taken for one of whole texts" in line) == (name == "bert-classes")


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_several_candidates_are_an_error_until_one_is_asked_for(make, name):
    theirs, folder = make(name, "model_type", "architectures")
    with pytest.raises(InputError) as error:
        read_model(folder)
    kind = name.partition("-")[0].replace("llama3", "llama")
    both = "bert and roberta" if kind == "roberta" else "llama and mistral"
    assert f"got none, and tensors as both {both} have them" in str(error.value)
    assert f"--as {kind}" in error.value.fix
    asked = read_model(folder, describe_folder(folder, kind_name=kind))
    close(our_logits(asked, name), their_logits(theirs, name))


@torch.no_grad()
def test_a_bare_roberta_is_known_by_its_position_of_padding(make, caplog):
    theirs, folder = make("roberta", "model_type", "architectures", type_vocab_size=1)
    table = "embeddings.position_embeddings.weight"
    tensors = load_file(folder / "model.safetensors")
    tensors[table][1] = theirs.embeddings.position_embeddings.weight[1] = 0
    save_file(tensors, folder / "model.safetensors")
    close(our_logits(read_model(folder), "roberta"), their_logits(theirs, "roberta"))
    assert "read as roberta, by its tensors; bert would fit their names" in caplog.text


OLD = {
    "bare": lambda name: name.removeprefix("bert."),
    "parallel": lambda name: f"module.{name}",
    "gamma": lambda name: name.replace("Norm.weight", "Norm.gamma").replace("m.bias", "m.beta"),
}


@pytest.mark.parametrize("names", OLD)
@pytest.mark.parametrize("kind", ["bert-both", "bert-classes"])
def test_old_names_of_tensors_are_known(make, kind, names):
    theirs, folder = make(kind, "model_type", "architectures")
    rename(folder, OLD[names])
    pickle(folder)
    close(our_logits(read_model(folder), kind), their_logits(theirs, kind))


def test_gpt2_is_known_without_its_prefix_and_with_its_masks(make):
    theirs, folder = make("gpt2", "model_type", "architectures")
    rename(folder, lambda name: name.removeprefix("transformer."))
    tensors = load_file(folder / "model.safetensors")
    masks = {f"h.{layer}.attn.bias": torch.ones(1, 1, 40, 40).tril() for layer in range(2)}
    save_file(tensors | masks, folder / "model.safetensors")
    close(our_logits(read_model(folder), "gpt2"), their_logits(theirs, "gpt2"))


def test_a_config_may_have_its_name_of_2018(make):
    theirs, folder = make("bert-both", "model_type", "architectures", "layer_norm_eps")
    (folder / "config.json").rename(folder / "bert_config.json")
    pickle(folder)
    loaded = regard.load(folder)
    close(our_logits(loaded.model, "bert-both"), their_logits(theirs, "bert-both"))


@pytest.mark.parametrize("parts", [1, 3])
def test_pickled_weights_load_with_one_line_of_advice(make, parts, caplog):
    theirs, folder = make("gpt2")
    pickle(folder, parts)
    close(our_logits(regard.load(folder).model, "gpt2"), their_logits(theirs, "gpt2"))
    [line] = caplog.messages
    assert "read as plain tensors, no code in it was run" in line
    assert f"`regard import {folder} -o NEW` converts it" in line
    import_model(folder)
    assert outline(str(folder))[1] == (23,)
    assert len(caplog.messages) == 1


def test_a_folder_without_a_kind_is_listed(make):
    _, folder = make("gpt2", "model_type")
    pickle(folder)
    row = {"name": str(folder), "kind": "Hugging Face", "model": "no model_type"}
    assert row in list(models_in(folder.parent))


def test_weights_by_another_name_are_named(make):
    _, folder = make("gpt2")
    (folder / "model.safetensors").rename(folder / "tf_model.h5")
    with pytest.raises(
        InputError, match=r"no weights: got tf_model.h5, expected model.safetensors"
    ):
        read_model(folder)


def labelled(folder, **changes):
    change(folder, "id2label", "label2id", "num_labels", **changes)
    return read_model(folder).config.classes


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"num_labels": 3}, None),
        ({"id2label": {"0": "a", "1": "b", "2": "c"}}, None),
        ({}, "3 labels, as classifier.weight has rows, not 2: LABEL_0 to LABEL_2"),
        ({"num_labels": 50}, "3 labels, as classifier.weight has rows, not 50"),
        ({"id2label": {"0": "a", "1": "b"}, "num_labels": 3}, "rows, not 2"),
    ],
)
def test_the_classifier_has_the_last_word_on_the_number_of_labels(make, stated, said, caplog):
    _, folder = make("bert-classes")
    named = "abc" if len(stated.get("id2label", ())) == 3 else [f"LABEL_{n}" for n in range(3)]
    assert labelled(folder, **stated) == tuple(named)
    assert ([said in line for line in caplog.messages] == [True]) if said else not caplog.messages


def test_what_is_asked_for_is_read_and_says_what_does_not_fit(make):
    theirs, folder = make("roberta-masked", model_type="camembert")
    with pytest.raises(InputError, match=r"got camembert(.|\n)*--as roberta \(kind= in Python\)"):
        regard.load(folder)
    close(
        our_logits(regard.load(folder, kind="roberta").model, "roberta-masked"),
        their_logits(theirs, "roberta-masked"),
    )
    with pytest.raises(InputError) as error:
        regard.load(folder, kind="bert")
    assert "as bert: got no bert.embeddings.word_embeddings.weight" in str(error.value)
    assert error.value.fix == "its tensors are named as those of roberta"
    with pytest.raises(InputError, match=r"as t5: got no num_layers in config\.json"):
        regard.load(folder, kind="t5")
    with pytest.raises(InputError, match=r"got robrta(.|\n)*did you mean roberta\?"):
        import_model(folder, kind="robrta")
    with pytest.raises(InputError, match="as bert: got a model of Regard"):
        regard.load("tiny/translate", kind="bert")


def test_a_class_can_be_asked_for(make):
    theirs, folder = make("bert-classes", "architectures")
    model = read_model(folder, describe_folder(folder, kind_name="BertForTokenClassification"))
    assert (model.config.classes, len(model.config.tags)) == ((), 3)
    rows = [[5, 9, 4], [8, 6]]
    with torch.no_grad():
        hidden = theirs.bert(torch.tensor(rows[:1])).last_hidden_state[0]
        close(model.tag(Ragged.of(rows))[:3], theirs.classifier(hidden))


def test_a_config_that_no_kind_has_says_how_to_go_on(make):
    _, folder = make("gpt2", "model_type", "architectures", "n_embd")
    with pytest.raises(InputError, match=r"no kind has together with this config(.|\n)*--as KIND"):
        read_model(folder)
    with pytest.raises(InputError, match=r"as gpt2: got no n_embd in config\.json"):
        regard.load(folder, kind="gpt2")


@pytest.mark.parametrize("odd", ["BertModel", ["x" * 10**6], [3], {"a": 1}, 3, [None], []])
def test_odd_architectures_are_no_harm(make, odd):
    theirs, folder = make("bert", "model_type", architectures=odd, pad_token_id=None)
    close(our_logits(read_model(folder), "bert"), their_logits(theirs, "bert"))


def test_other_classes_are_no_kind_of_ours():
    for name in ("Qwen2MoeForCausalLM", "AlbertForMaskedLM", "ViTMAEForPreTraining", None, 3):
        assert kind_of_class(name) is None
    assert kind_of_class("MarianMTModel").name == "marian"
    assert kind_of_class("DeiTForImageClassificationWithTeacher").name == "deit"


@pytest.fixture
def vit(tmp_path):
    """A tiny ViT without an image processor's file."""
    transformers = pytest.importorskip("transformers")
    sizes = {key: value for key, value in ENCODER.items() if key not in ("vocab_size",)}
    config = transformers.ViTConfig(**sizes, image_size=8, patch_size=4, num_labels=3)
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "vit")
    return tmp_path / "vit"


def test_a_vit_without_its_processor_says_how_images_are_read(vit, caplog):
    regard.load(vit)
    [line] = caplog.messages
    assert "no preprocessor_config.json: images are scaled to 8 x 8 (bilinear)" in line
    assert "mean 0.5, 0.5, 0.5 and std 0.5, 0.5, 0.5, ViT's defaults" in line
    caplog.clear()
    mean, std = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
    reader = import_model(vit, mean=mean, std=std).processor.source
    assert (reader.mean, reader.std, caplog.messages) == (mean, std, [])
    with pytest.raises(InputError, match="--mean and --std"):
        import_model(vit, mean=(0.1, 0.2))


def test_a_model_of_texts_has_no_mean(make):
    _, folder = make("gpt2")
    with pytest.raises(InputError, match=r"--mean and --std: got a model of texts"):
        import_model(folder, mean=(0.5,))
