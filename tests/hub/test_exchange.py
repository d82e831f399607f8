"""Their models as ours, and ours as theirs: the same numbers, and token for token the same text."""

from __future__ import annotations

import json

import pytest
import torch

from regard.decode import DecodeConfig, decode
from regard.decode.filters import Symbols
from regard.errors import InputError
from regard.hub.folder import read_model, write_model
from regard.hub.tables import KINDS
from regard.inputs.arrays import Ragged
from tests.their_models import DECODERS, EVERY, TRANSLATORS, VOCAB, save

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

LENGTHS = (5, 2, 9)


@pytest.fixture
def make(tmp_path):
    """Saves a tiny random model by its name: (their model, its folder)."""

    def build(name, **options):
        return save(name, tmp_path / name, **options), tmp_path / name

    return build


def rows(lengths=LENGTHS, seed=3, vocab=VOCAB):
    """Random ids: a list for each length, padded rows, and their mask, real tokens first."""
    random = torch.Generator().manual_seed(seed)
    ids = [torch.randint(4, vocab, (length,), generator=random).tolist() for length in lengths]
    padded = torch.zeros(len(ids), max(lengths), dtype=torch.long)
    mask = torch.zeros_like(padded)
    for row, tokens in enumerate(ids):
        padded[row, : len(tokens)], mask[row, : len(tokens)] = torch.tensor(tokens), 1
    return ids, padded, mask


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


@torch.no_grad()
def their_logits(model, name):
    """What they give for each real token (or text), end to end."""
    _, padded, mask = rows()
    if name in TRANSLATORS:
        _, target, target_mask = rows((4, 6, 1), seed=4)
        out = model(input_ids=padded, attention_mask=mask, decoder_input_ids=target)
        return out.logits[target_mask.bool()]
    out = model(input_ids=padded, attention_mask=mask)
    real = mask.bool()
    if name.endswith("-classes"):
        return out.logits
    if name.endswith("-spans"):
        return torch.stack((out.start_logits, out.end_logits), -1)[real]
    if name == "bert-both":
        return torch.cat(
            (out.prediction_logits[real].flatten(), out.seq_relationship_logits.flatten())
        )
    return (out.logits if "logits" in out else out.last_hidden_state)[real]


@torch.no_grad()
def our_logits(model, name):
    ids, _, _ = rows()
    if name in TRANSLATORS:
        return model(Ragged.of(ids), Ragged.of(rows((4, 6, 1), seed=4)[0]))
    if name in DECODERS:
        return model(Ragged.of(ids))
    texts = Ragged.of(ids)
    for ending, forward in {"-classes": model.classify, "-tags": model.tag, "-spans": model.answer,
                            "-masked": model}.items():  # fmt: skip
        if name.endswith(ending):
            return forward(texts)
    hidden = model.hidden(texts)
    if name == "bert-both":
        follows = model.next_sentence(model.pooled(texts, hidden))
        return torch.cat((model(texts).flatten(), follows.flatten()))
    return hidden


@pytest.mark.parametrize("name", EVERY)
def test_their_model_gives_the_same_numbers_here(make, name):
    theirs, folder = make(name)
    close(our_logits(read_model(folder), name), their_logits(theirs, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_what_is_written_is_read_by_transformers_and_gives_the_same_numbers(make, name, tmp_path):
    theirs, folder = make(name)
    out = tmp_path / "written"
    out.mkdir()
    ours = read_model(folder)
    roles = {key: value for key, value in json.loads((folder / "config.json").read_text()).items()
             if key.endswith("_token_id")}  # fmt: skip
    write_model(ours, out, **roles)
    again, report = type(theirs).from_pretrained(out, output_loading_info=True)
    unexplained = {key for key in report["missing_keys"] if "embed_positions" not in key}
    assert not unexplained
    assert not report["unexpected_keys"]
    close(their_logits(again.eval(), name), their_logits(theirs, name))
    once_more = read_model(out)
    assert once_more.config == ours.config
    for key, tensor in ours.state_dict().items():
        assert torch.equal(tensor, once_more.state_dict()[key]), key


GENERATION = {"greedy": {}, "beam": {"beam": 3}}


@pytest.mark.slow
@pytest.mark.parametrize("search", GENERATION)
@pytest.mark.parametrize("name", DECODERS)
def test_a_prompt_goes_on_token_for_token(make, name, search):
    theirs, folder = make(name)
    ids, _, _ = rows()
    config = DecodeConfig(max_length=12, beam=GENERATION[search].get("beam", 1))
    hypotheses = decode(read_model(folder), None, Symbols(1, 2, 0), config, prompts=ids)
    for prompt, [best, *_] in zip(ids, hypotheses, strict=True):
        expected = theirs.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)).long(),
            max_new_tokens=12, num_beams=config.beam, do_sample=False,
        )[0, len(prompt):].tolist()  # fmt: skip
        assert list(best.ids) == expected[: expected.index(2) if 2 in expected else None]


@pytest.mark.slow
@pytest.mark.parametrize("search", GENERATION)
@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_source_is_translated_token_for_token(make, name, search):
    theirs, folder = make(name)
    ids, _, _ = rows()
    settings = theirs.config
    end, start, pad = settings.eos_token_id, settings.decoder_start_token_id, settings.pad_token_id
    config = DecodeConfig(max_length=12, beam=GENERATION[search].get("beam", 1))
    symbols = Symbols(start, end, pad)
    hypotheses = decode(read_model(folder), Ragged.of(ids), symbols, config)
    for source, [best, *_] in zip(ids, hypotheses, strict=True):
        expected = theirs.generate(
            torch.tensor([source]), attention_mask=torch.ones(1, len(source)).long(),
            max_new_tokens=12, num_beams=config.beam, do_sample=False, forced_eos_token_id=None,
        )[0, 1:].tolist()  # fmt: skip
        ended = expected.index(end) if end in expected else len(expected)
        assert list(best.ids) == expected[:ended]


def test_every_kind_is_under_test():
    tried = {name.partition("-")[0] for name in EVERY}
    of_images = {"vit", "deit", "dinov2", "resnet", "timm"}  # test_vit.py, test_image_models.py
    of_images |= {"vision-encoder-decoder", "swin", "swinv2"}  # test_captions.py, test_swin.py
    assert {name.replace("llama3", "llama") for name in tried} | of_images == set(KINDS)


def test_parts_with_an_index_are_read_as_one(make):
    theirs, folder = make("llama", max_shard_size="5KB")
    assert (folder / "model.safetensors.index.json").exists()
    close(our_logits(read_model(folder), "llama"), their_logits(theirs, "llama"))


def test_half_precision_is_read_as_full(make):
    theirs, folder = make("gpt2")
    theirs.half().save_pretrained(folder)
    model = read_model(folder)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_names_without_the_models_own_prefix_are_known(make):
    theirs, folder = make("gpt2")
    theirs.transformer.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["GPT2LMHeadModel"]}))
    close(our_logits(read_model(folder), "gpt2"), their_logits(theirs, "gpt2"))


def change(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "mamba"}, "one of gpt2, llama"),
        ({"n_embd": 32}, "does not fit config.json"),
        ({"n_layer": 3}, "no transformer.h.2.ln_1.weight"),
        ({"n_layer": 1}, "an unknown tensor transformer.h.1"),
        ({"n_head": 5}, "not a multiple of heads"),
        ({"activation_function": "mish"}, "mish"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ({"n_embd": "many"}, "config.json"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(make, changes, said):
    _, folder = make("gpt2")
    change(folder, **changes)
    with pytest.raises(InputError, match=said):
        read_model(folder)


def test_damaged_files_are_named(make):
    _, folder = make("gpt2")
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"model\.safetensors is damaged"):
        read_model(folder)
    weights.unlink()
    with pytest.raises(InputError, match="no weights"):
        read_model(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(InputError, match="invalid JSON"):
        read_model(folder)


def test_an_index_does_not_lead_out_of_the_folder(make):
    _, folder = make("llama", max_shard_size="5KB")
    index = folder / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"] = dict.fromkeys(content["weight_map"], "../secret.safetensors")
    index.write_text(json.dumps(content))
    with pytest.raises(InputError, match="a file beside it"):
        read_model(folder)


class Evil:
    def __reduce__(self):
        return (print, ("ran",))


def test_a_pickle_is_read_and_never_runs(make, capsys):
    theirs, folder = make("gpt2")
    (folder / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), folder / "pytorch_model.bin")
    close(our_logits(read_model(folder), "gpt2"), their_logits(theirs, "gpt2"))
    torch.save({"weight": Evil()}, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="more than plain tensors"):
        read_model(folder)
    assert "ran" not in capsys.readouterr().out


def test_a_model_that_none_of_theirs_computes_is_not_written(tmp_path):
    from regard.models import GPTConfig, build

    with pytest.raises(InputError, match="gpt2, llama"):
        write_model(build(GPTConfig(positions="sinusoidal"), 9), tmp_path)
