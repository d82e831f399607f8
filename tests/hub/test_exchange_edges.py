"""Checkpoints as they are found: old names, left-out settings, and what must not be let in."""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import struct
import zipfile

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import InputError
from regard.hub import pickled
from regard.hub.folder import _map_file, read_model, write_model
from regard.inputs.arrays import Ragged
from regard.models import BertConfig, GPTConfig, TransformerConfig, build
from regard.runtime import device as runtime
from tests.their_models import DECODER, DECODERS, ENCODER, ENCODERS, VOCAB, save

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

ROWS = [[5, 9, 4, 20, 7, 3, 11], [8, 6]]


@pytest.fixture
def make(tmp_path):
    """Saves a tiny random model by its name: (their model, its folder)."""
    return lambda name: (save(name, tmp_path / name), tmp_path / name)


@pytest.fixture
def make_other(tmp_path, monkeypatch):
    """The same with other settings."""

    def build(name, model_class, config_class, settings):
        table = DECODERS if config_class.startswith(("Llama", "Qwen", "Mis")) else ENCODERS
        monkeypatch.setitem(table, name, (model_class, config_class, settings))
        monkeypatch.setitem(save.__globals__["EVERY"], name, table[name])
        return save(name, tmp_path / name), tmp_path / name

    return build


def change(folder, *without, **changes):
    """Settings of a folder's config put in or taken out."""
    config = json.loads((folder / "config.json").read_text())
    kept_settings = {key: value for key, value in config.items() if key not in without}
    (folder / "config.json").write_text(json.dumps(kept_settings | changes))


def alter(folder, act):
    """A folder's tensors, changed."""
    file = folder / "model.safetensors"
    save_file({key: t.contiguous() for key, t in act(load_file(file)).items()}, file)


@torch.no_grad()
def their_logits(model, **more):
    return torch.cat([model(torch.tensor([row]), **more).logits[0] for row in ROWS])


@torch.no_grad()
def agree(model, theirs):
    rows = Ragged.of(ROWS)
    ours = model(rows)
    torch.testing.assert_close(ours, their_logits(theirs), rtol=0, atol=1e-4)


def test_the_first_berts_names_of_norms_are_known(make):
    theirs, folder = make("bert-masked")
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    alter(folder, lambda tensors: {
        next((key.replace(a, b) for a, b in old.items() if key.endswith(a)), key): tensor
        for key, tensor in tensors.items()})  # fmt: skip
    assert any("gamma" in key for key in load_file(folder / "model.safetensors"))
    agree(read_model(folder), theirs)


def test_two_labels_without_names_are_the_default(make_other):
    theirs, folder = make_other(
        "bert-two", "BertForSequenceClassification", "BertConfig", ENCODER | {"num_labels": 2}
    )
    change(folder, "id2label", "label2id", "num_labels")
    model = read_model(folder)
    assert model.config.classes == ("LABEL_0", "LABEL_1")
    with torch.no_grad():
        expected = torch.cat([theirs(torch.tensor([row])).logits for row in ROWS])
        logits = model.classify(Ragged.of(ROWS))
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("llama", "hidden_act"),
        ("bert-masked", "hidden_act"),
        ("distilbert-masked", "activation"),
        ("gpt2", "activation_function"),
    ],
)
def test_an_activation_that_is_left_out_is_the_usual_one(make, name, left_out):
    theirs, folder = make(name)
    change(folder, left_out)
    agree(read_model(folder), theirs)


def test_gpt2_has_as_many_positions_as_its_table_whatever_n_ctx_says(make):
    theirs, folder = make("gpt2")
    change(folder, n_ctx=7)
    agree(read_model(folder), theirs)


SLIDING = DECODER | {"use_sliding_window": True, "sliding_window": 3}


@pytest.mark.parametrize("kind", ["Qwen2", "Qwen3"])
def test_a_window_of_all_layers_is_computed_and_one_of_some_is_refused(make_other, kind):
    names = (f"{kind}ForCausalLM", f"{kind}Config")
    theirs, folder = make_other("all", *names, SLIDING | {"max_window_layers": 0})
    model = read_model(folder)
    assert model.config.window == 3
    agree(model, theirs)
    change(folder, "layer_types")  # as before transformers 4.53
    assert read_model(folder).config.window == 3
    for settings in (
        {"max_window_layers": 1},
        {"layer_types": ["full_attention", "sliding_attention"]},
    ):
        change(folder, "layer_types", **({"max_window_layers": 0} | settings))
        with pytest.raises(InputError, match="some full, some sliding"):
            read_model(folder)


def test_a_window_that_is_not_used_is_none(make):
    theirs, folder = make("qwen2")
    change(folder, "use_sliding_window", "layer_types", sliding_window=2)
    agree(read_model(folder), theirs)


def test_a_window_that_mistral_leaves_out_is_its_usual_one(make):
    _, folder = make("mistral")
    change(folder, "sliding_window")
    assert read_model(folder).config.window == 4096
    change(folder, sliding_window=None)
    assert read_model(folder).config.window is None


def test_waves_slowed_by_a_factor_are_theirs(make_other):
    rope = {"rope_type": "linear", "factor": 3.0, "rope_theta": 500.0}
    theirs, folder = make_other(
        "linear", "LlamaForCausalLM", "LlamaConfig", DECODER | {"rope_parameters": rope}
    )
    agree(read_model(folder), theirs)
    change(
        folder, "rope_parameters", rope_theta=500.0, rope_scaling={"type": "linear", "factor": 3}
    )
    agree(read_model(folder), theirs)  # as transformers 4 writes it


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "got yarn"),
        ({"rope_parameters": None, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, "dynamic"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}}, "one for all"),
        ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "partial_rotary"),
        ({"rope_parameters": "fast"}, "config.json"),
        ({"hidden_size": 2**20, "head_dim": 2**18}, "does not fit config.json"),
        ({"hidden_size": 2**40, "head_dim": 2**38}, "config.json"),
        ({"vocab_size": 2**40}, "does not fit config.json"),
        ({"num_hidden_layers": 10**9}, "layers: got 1000000000, expected less"),
        ({"mlp_bias": True}, "mlp_bias"),
    ],
)
def test_what_would_compute_something_else_or_fill_the_machine_is_refused(make, changes, said):
    _, folder = make("llama")
    change(folder, **changes)
    with pytest.raises(InputError, match=said):
        read_model(folder)


def test_a_body_without_a_head_is_a_model_only_where_the_head_is_the_embedding(make):
    theirs, folder = make("llama-tied")
    theirs.model.save_pretrained(folder)
    agree(read_model(folder), theirs)
    theirs, folder = make("llama")
    theirs.model.save_pretrained(folder)
    with pytest.raises(InputError, match=r"no lm_head\.weight"):
        read_model(folder)


def test_a_bart_without_a_head_has_no_bias_of_logits(make):
    theirs, folder = make("bart")
    theirs.final_logits_bias.zero_()
    theirs.model.save_pretrained(folder)
    model = read_model(folder)
    rows = Ragged.of(ROWS)
    with torch.no_grad():
        logits = model(rows, rows)
    expected = torch.cat([
        theirs(torch.tensor([row]), decoder_input_ids=torch.tensor([row])).logits[0].detach()
        for row in ROWS
    ])  # fmt: skip
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "copy", "original"),
    [
        ("bert-masked", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("roberta-masked", "lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
        ("distilbert-masked", "vocab_projector.weight",
         "distilbert.embeddings.word_embeddings.weight"),
        ("t5", "decoder.embed_tokens.weight", "shared.weight"),
        ("bart", "model.decoder.embed_tokens.weight", "model.shared.weight"),
    ],
)  # fmt: skip
def test_a_matrix_that_should_be_another_but_is_not_is_refused(make, name, copy, original):
    _, folder = make(name)
    alter(folder, lambda tensors: tensors | {copy: tensors[original].clone()})
    read_model(folder)
    alter(folder, lambda tensors: tensors | {copy: tensors[original] + 1})
    with pytest.raises(InputError, match="got other values for"):
        read_model(folder)


def test_the_head_of_roberta_has_an_activation_of_its_own(make):
    _, folder = make("roberta-masked")
    change(folder, hidden_act="relu")
    with pytest.raises(InputError, match="hidden_act: got relu, expected gelu"):
        read_model(folder)


def test_bfloat16_is_read_as_the_numbers_it_stands_for(make):
    theirs, folder = make("llama")
    theirs.bfloat16().save_pretrained(folder)
    model = read_model(folder)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    embedding = theirs.model.embed_tokens.weight.float()
    assert torch.equal(model.embed.weight, embedding)


@pytest.mark.parametrize("length", [10**12, 2**24])
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("gpt2", "n_positions"), ("llama", "max_position_embeddings"), ("t5", "n_positions"),
        ("bert-masked", "max_position_embeddings"), ("roberta", "max_position_embeddings"),
        ("bart", "max_position_embeddings"), ("marian", "max_position_embeddings"),
    ],
)  # fmt: skip
def test_a_text_length_beyond_all_measure_takes_no_memory(make, name, key, length):
    _, folder = make(name)
    change(folder, **{key: length})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if length == 2**24 and name in ("llama", "t5", "marian"):  # which have no table in the file
        assert read_model(folder).config.max_length == length
    else:
        with pytest.raises(InputError, match=r"max_length|embed|wpe") as raised:
            read_model(folder)
        assert len(str(raised.value).splitlines()) <= 2
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert more < 200_000  # kilobytes; the narrowest table of 2^24 rows has 500,000


@pytest.fixture
def two_parts(make):
    """A model in two files with an index: its folder, and the index's content."""
    theirs, folder = make("llama")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, half in halves.items():
        save_file({name: tensors[name] for name in half}, folder / file)
    index = {name: file for file, half in halves.items() for name in half}
    return theirs, folder, index


def write_index(folder, index):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def test_an_index_names_each_file_often_and_each_is_read_once(two_parts):
    theirs, folder, index = two_parts
    write_index(folder, index)
    agree(read_model(folder), theirs)


def test_a_tensor_in_two_files_is_refused(two_parts):
    _, folder, index = two_parts
    write_index(folder, index)
    first = load_file(folder / "a.safetensors")
    second = load_file(folder / "b.safetensors")
    name = next(iter(first))
    save_file(second | {name: first[name] + 1}, folder / "b.safetensors")
    with pytest.raises(InputError, match=f"got {name} again"):
        read_model(folder)


def test_an_index_of_safetensors_leads_to_no_pickle(two_parts):
    _, folder, index = two_parts
    torch.save(load_file(folder / "a.safetensors"), folder / "a.bin")
    write_index(
        folder, {name: file.replace("a.safetensors", "a.bin") for name, file in index.items()}
    )
    with pytest.raises(InputError, match=r"got a\.bin"):
        read_model(folder)


LLAMA = {"size": "nano-llama", "layers": 1}
CLASSES = {"size": "tiny", "layers": 1, "classes": ("a", "b")}


@pytest.mark.parametrize(
    "config",
    [
        GPTConfig(layers=1, query_key_norm=True),
        GPTConfig(**LLAMA, query_key_norm=True, attention_bias="qkv"),
        GPTConfig(**LLAMA, window=4, attention_bias="all"),
        BertConfig(**CLASSES, pooler="none"),
        BertConfig(**CLASSES, tags=("x", "y")),
        BertConfig(size="tiny", layers=1, next_sentence=True, pooler="none"),
        BertConfig(size="tiny", layers=1, positions_from=2, activation="relu"),
        BertConfig(size="tiny", layers=1, positions_from=2, next_sentence=True),
        BertConfig(size="tiny", layers=1, token_types=0, pooler="none", next_sentence=True),
        TransformerConfig(encoder_layers=1, decoder_layers=1, norm="rms"),
        TransformerConfig(encoder_layers=1, decoder_layers=1, tied="output"),
        TransformerConfig(encoder_layers=1, decoder_layers=1, positions="rotary"),
    ],
)
def test_what_none_of_their_models_computes_is_not_written(config, tmp_path):
    sizes = (VOCAB, VOCAB) if config.family == "transformer" else (VOCAB,)
    with pytest.raises(InputError, match="export"):
        write_model(build(config, *sizes), tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "name", ["roberta-masked", "bart", "gpt2", "bert-masked", "marian", "pegasus", "t5"]
)
def test_what_comes_in_goes_out_as_it_was_unused_rows_included(make, name, tmp_path):
    _, folder = make(name)
    out = tmp_path / "out"
    out.mkdir()
    write_model(read_model(folder), out)
    theirs, ours = (load_file(path / "model.safetensors") for path in (folder, out))
    assert ours.keys() <= theirs.keys()  # waves that are not learned may be left out
    for key, tensor in ours.items():
        assert torch.equal(tensor, theirs[key]), key


def spoil(folder, tensors):
    """The weights as a pickle, with others among them."""
    stored = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(stored | tensors, folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    "tensors",
    [
        {1: torch.zeros(2)},
        {"x": torch.zeros(1, dtype=torch.half).expand(2**40)},
        {"x": torch.zeros(2, device="meta")},
        {"x": torch.zeros(2).to_sparse()},
        {"x": 3},
    ],
    ids=["number", "huge", "meta", "sparse", "other"],
)
def test_a_pickle_of_more_than_plain_tensors_is_refused_in_no_memory(make, tensors):
    _, folder = make("gpt2")
    spoil(folder, tensors)
    with pytest.raises(InputError, match=r"got (something else|more than plain tensors)"):
        read_model(folder)


def test_an_empty_pickle_is_damaged(make):
    _, folder = make("gpt2")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(InputError, match=r"pytorch_model\.bin is damaged: got "):
        read_model(folder)


@pytest.mark.parametrize("offset", range(0, 1200, 100))
def test_a_byte_changed_in_a_pickle_is_an_error_or_a_number(make, offset):
    _, folder = make("gpt2")
    spoil(folder, {})
    file = folder / "pytorch_model.bin"
    content = bytearray(file.read_bytes())
    content[offset] ^= 0xFF
    file.write_bytes(content)
    with contextlib.suppress(InputError):
        read_model(folder)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.bool, torch.complex64])
def test_weights_that_are_no_real_numbers_are_refused(make, dtype):
    _, folder = make("gpt2")
    alter(folder, lambda tensors: {key: tensor.to(dtype) for key, tensor in tensors.items()})
    with pytest.raises(InputError, match="expected real numbers"):
        read_model(folder)


@pytest.mark.parametrize("name", [["gpt2"], {"gpt2": 1}, 3])
def test_a_kind_that_is_no_name_is_refused(make, name):
    _, folder = make("gpt2")
    change(folder, model_type=name)
    with pytest.raises(InputError, match=r"model_type: got .*, expected one of gpt2"):
        read_model(folder)


@pytest.mark.parametrize("kind", ["multi_label_classification", "regression"])
@pytest.mark.parametrize("name", ["bert-classes", "distilbert-classes"])
def test_classes_that_do_not_exclude_each_other_are_refused(make, name, kind):
    _, folder = make(name)
    change(folder, problem_type=kind)
    with pytest.raises(InputError, match=f"problem_type: got {kind}, expected single_label"):
        read_model(folder)


def packed(file, pickled=None, method=zipfile.ZIP_STORED, more=0):
    """A file of torch's with another pickle in it, packed otherwise, or with more of the same."""
    torch.save({"a": torch.zeros(4)}, file)
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in parts.items():
            inner = pickled if pickled and name.endswith("data.pkl") else data
            archive.writestr(name, inner + bytes(more) if name.endswith("data/0") else inner)


def asks(name, size=3 * 10**9):
    """A pickle of some bytes that makes something of 3 GB."""
    named = b"c" + name.replace(" ", "\n").encode() + b"\n"
    called = b"\x8a\x08" + struct.pack("<q", size) + b"\x85R"
    return b"\x80\x02}X\x01\x00\x00\x00a" + named + called + b"s."


@pytest.mark.parametrize(
    "name",
    ["builtins bytearray", "__builtin__ bytearray", "torch FloatTensor", "torch Tensor",
     "torch.storage UntypedStorage", "torch zeros", "torch._utils _rebuild_qtensor"],
)  # fmt: skip
def test_a_pickle_that_asks_for_memory_is_refused_before_it_gets_any(tmp_path, monkeypatch, name):
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was read"))
    file = tmp_path / "pytorch_model.bin"
    packed(file, asks(name))
    with pytest.raises(InputError, match="got more than plain tensors"):
        _map_file(file)
    file.write_bytes(asks(name))  # as files were before torch 1.6
    with pytest.raises(InputError, match=r"got more than plain tensors|is damaged"):
        _map_file(file)


def test_a_deflated_pickle_and_many_names_for_the_same_numbers_are_refused(tmp_path):
    file = tmp_path / "pytorch_model.bin"
    packed(file, method=zipfile.ZIP_DEFLATED, more=10**7)
    with pytest.raises(
        InputError, match=r"got compressed or overlapping parts.* at most \d+,\d+ bytes"
    ):
        _map_file(file)
    zeros = torch.zeros(1000, dtype=torch.half)
    torch.save({f"w{start}": zeros[start:] for start in range(50)}, file)
    with pytest.raises(InputError, match=r"bytes, expected at most 16,000"):
        _map_file(file)
    torch.save({"a": zeros, "b": zeros}, file)
    assert _map_file(file).keys() == {"a", "b"}
    for zipped in (True, False):
        torch.save({"a": zeros}, file, _use_new_zipfile_serialization=zipped)
        assert torch.equal(_map_file(file)["a"], zeros)


def test_names_of_parts_are_compared_without_case(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was read"))
    file = tmp_path / "pytorch_model.bin"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/version", "3\n")
        archive.writestr("a/data.PKL", asks("builtins bytearray"))
    with pytest.raises(InputError, match="got more than plain tensors"):
        _map_file(file)
    packed(file)
    with zipfile.ZipFile(file, "a") as archive:
        [name] = [name for name in archive.namelist() if name.endswith("data.pkl")]
        archive.writestr(name.replace("data.pkl", "Data.pkl"), asks("builtins bytearray"))
    with pytest.raises(InputError, match=r"names, 2 of them data\.pkl, expected another name"):
        _map_file(file)
    packed(file)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(archive.namelist()[-1].upper(), b"")
    with pytest.raises(InputError, match=r"names, 1 of them data\.pkl, expected another name"):
        _map_file(file)


def test_a_file_with_two_tables_of_parts_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was read"))
    file, other = tmp_path / "pytorch_model.bin", tmp_path / "other.bin"
    packed(file)
    packed(other, asks("builtins bytearray"))
    with zipfile.ZipFile(other) as archive:
        table = archive.start_dir  # torch reads the parts of the first half, Python the second's
    first, second = other.read_bytes(), file.read_bytes()
    end = second[:-6] + struct.pack("<IH", table, 0)
    file.write_bytes(first[:-22] + end)
    assert zipfile.is_zipfile(file)
    with pytest.raises(InputError, match="a table of parts in another place"):
        _map_file(file)


def test_a_pickle_of_too_many_steps_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(pickled, "MAX_PICKLE_STEPS", 2**10)
    file = tmp_path / "pytorch_model.bin"
    packed(file, b"\x80\x02" + b"N0" * 2**10 + b"N.")
    with pytest.raises(InputError, match="got more than plain tensors"):
        _map_file(file)


def test_a_pickle_that_claims_more_numbers_than_it_has_is_damaged(tmp_path):
    file = tmp_path / "pytorch_model.bin"
    packed(file)
    with zipfile.ZipFile(file) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("data.pkl")]
        honest = archive.read(name)
    claim = honest.replace(b"K\x04", b"J\xff\xff\xff\x7f")  # 4 -> 2^31 - 1
    assert claim != honest
    packed(file, claim)
    with pytest.raises(InputError, match="is damaged"):
        _map_file(file)


@pytest.mark.parametrize("ending", [".safetensors", ".bin"])
def test_a_pipe_among_the_parts_is_refused_and_not_waited_for(tmp_path, ending):
    os.mkfifo(tmp_path / f"part{ending}")
    with pytest.raises(InputError, match="got a named pipe, expected a regular file"):
        _map_file(tmp_path / f"part{ending}")


def test_weights_that_the_machine_cannot_hold_are_refused_with_both_sizes(make, monkeypatch):
    _, folder = make("gpt2")
    monkeypatch.setattr(runtime, "memory", lambda: 1000)
    expected = r"32 bits: got a need for .* GB of memory, expected at most the machine's 0\.0 GB"
    with pytest.raises(InputError, match=expected):
        read_model(folder)


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("mistral", {"sliding_window": 10**30}, "window: got 10{30}, expected less than or equal"),
        ("mistral", {"rms_norm_eps": math.inf}, "norm_epsilon: got inf, expected a finite number"),
        ("gpt2", {"model_type": "\ud800"}, r"model_type: got \\ud800, expected one of gpt2"),
        ("gpt2", {"model_type": "x" * 10**6}, "model_type: got xxx"),
        ("gpt2", {"n_layer": True}, "unknown tensor"),
        (
            "bert-masked",
            {"type_vocab_size": 0},
            "token_type_embeddings.weight, expected no such tensor",
        ),
    ],
)
def test_a_value_that_no_model_has_is_said_in_two_printable_lines(make, name, changes, said):
    _, folder = make(name)
    change(folder, **changes)
    with pytest.raises(InputError, match=said) as caught:
        read_model(folder)
    assert len(str(caught.value).splitlines()) <= 2
    assert len(str(caught.value)) < 1500
    str(caught.value).encode()
