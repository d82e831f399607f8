"""Captioners of transformers (ViT or DeiT, and GPT-2): the same captions here, and back again."""

from __future__ import annotations

import json
import logging
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from regard.errors import InputError
from regard.hub.captions import PREPROCESSOR as FILE
from regard.hub.choice import choose_kind
from regard.models import CaptionerConfig
from regard.runs.load import load, outline, vocabulary
from tests.commands import is_refused
from tests.their_captioners import CAPTIONERS, PREPROCESSOR, SENTENCES, VOCAB, photo, save

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]
PHOTOS = [photo(number) for number in range(5)]
WRITTEN = 14


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """A folder and their model by name, each made once; nobody writes into the folders."""
    models = {}

    def get(name):
        if name not in models:
            folder = tmp_path_factory.mktemp("theirs") / name
            models[name] = folder, save(name, folder, max_new_tokens=WRITTEN)
        return models[name]

    return get


@pytest.fixture
def changed(theirs, tmp_path):
    """Copies a folder, and changes keys of one of its files (None: deletes the file)."""

    def copy(file, changes, section=None, name="vit"):
        folder = tmp_path / f"changed-{len([*tmp_path.iterdir()])}"
        shutil.copytree(theirs(name)[0], folder)
        if changes is None:
            (folder / file).unlink()
            return folder
        settings = json.loads((folder / file).read_text())
        (settings[section] if section else settings).update(changes)
        (folder / file).write_text(json.dumps(settings))
        return folder

    return copy


def pixels_of(pipeline, images):
    return pipeline.reader.collate(pipeline.reader.read(images)).values


def their_ids(model, pixels, **how):
    """What transformers writes about each image, up to the end."""
    rows = model.generate(pixels, do_sample=False, **how)[:, 1:].tolist()
    end = model.generation_config.eos_token_id
    return [row[: row.index(end)] if end in row else row for row in rows]


def our_ids(pipeline, images, **how):
    [*read] = (encoded.values for encoded in pipeline.reader.read(images))
    outputs = pipeline.task.outputs(pipeline.model, read, pipeline.decoding(**how))
    return [list(best.hypothesis.ids) for best, *_ in outputs]


@pytest.mark.parametrize("name", CAPTIONERS)
@torch.no_grad()
def test_logits_and_captions_are_theirs(theirs, name):
    from transformers import AutoTokenizer

    folder, model = theirs(name)
    ours, pixels = load(folder), torch.randn(3, 3, 24, 24)
    ids = torch.randint(VOCAB, (3, 7))
    expected = model(pixel_values=pixels, decoder_input_ids=ids).logits
    torch.testing.assert_close(ours.logits(pixels, ids), expected, rtol=0, atol=1e-4)
    assert (ours.model.bridge is None) == (not name.endswith("wide"))
    assert ours.model.config.encoder.front.tokens_before == (2 if name.startswith("deit") else 1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for beam in (1, 4):
        rows = their_ids(model, pixels_of(ours, PHOTOS), num_beams=beam)
        assert our_ids(ours, PHOTOS, beam=beam) == rows
        assert ours.caption(PHOTOS, beam=beam) == tokenizer.batch_decode(rows)


def test_captions_under_test_differ_and_some_end_by_themselves(theirs):
    rows = our_ids(load(theirs("vit")[0]), PHOTOS)
    assert len({tuple(row) for row in rows}) > 2
    assert min(map(len, rows)) < WRITTEN
    assert any(len(row) > 3 for row in rows)


def test_the_tokenizer_is_theirs(theirs):
    from transformers import AutoTokenizer

    folder, _ = theirs("vit")
    tokenizer, target = AutoTokenizer.from_pretrained(folder), load(folder).processor.target
    for text in (*SENTENCES, "An unseen Zebra, naïve?"):
        assert target.encode(text) == tokenizer(text)["input_ids"]
        assert target.decode(target.encode(text)) == text
    assert target.begin == target.end == VOCAB - 1
    assert vocabulary(folder).target.encode("a red bird") == target.encode("a red bird")


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("vit", {}),
        ("vit", {"resample": 3, "do_normalize": False}),
        ("vit", {"size": 24, "feature_extractor_type": "ViTFeatureExtractor"}),
        ("deit", {"size": {"height": 30, "width": 30}, "crop_size": {"height": 24, "width": 24},
                  "do_center_crop": True, "image_processor_type": "DeiTImageProcessor"}),
    ],
)  # fmt: skip
def test_images_are_prepared_as_theirs_are(changed, kind, changes):
    from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    folder = changed(FILE, changes, name=kind)
    processors = {"vit": ViTImageProcessorPil, "deit": DeiTImageProcessorPil}
    expected = processors[kind].from_pretrained(folder)(PHOTOS, return_tensors="pt")
    pixels = pixels_of(load(folder), PHOTOS)
    torch.testing.assert_close(pixels, expected["pixel_values"], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"num_beams": 3, "length_penalty": 2.0, "early_stopping": True},
        {"no_repeat_ngram_size": 2, "min_new_tokens": 6},
        {"max_new_tokens": None, "max_length": 6},
        {"forced_eos_token_id": VOCAB - 1, "suppress_tokens": [5, 6]},
        {"eos_token_id": [VOCAB - 1, 158]},
        {"decoder_start_token_id": 7},
    ],
)
def test_the_settings_of_generation_are_followed(changed, settings):
    from transformers import VisionEncoderDecoderModel

    folder = changed("generation_config.json", settings)
    model, ours = VisionEncoderDecoderModel.from_pretrained(folder).eval(), load(folder)
    rows = model.generate(pixels_of(ours, PHOTOS)).tolist()
    ends = {VOCAB - 1, 158} if isinstance(settings.get("eos_token_id"), list) else {VOCAB - 1}
    expected = [row[1 : next((i for i, token in enumerate(row) if i and token in ends), None)]
                for row in rows]  # fmt: skip
    assert our_ids(ours, PHOTOS) == expected
    assert ours.task.vocabulary.target.begin == settings.get("decoder_start_token_id", VOCAB - 1)


def test_an_old_folder_is_read(theirs, tmp_path):
    """Of 2022: settings of generation in config.json, masks among the weights of a `.bin` file."""
    folder, model = tmp_path / "old", theirs("vit")[1]
    shutil.copytree(theirs("vit")[0], folder)
    saved = load_file(folder / "model.safetensors")
    for name in ("generation_config.json", "model.safetensors"):
        (folder / name).unlink()
    config = json.loads((folder / "config.json").read_text())
    config |= {"num_beams": 3, "max_length": 9, "decoder_start_token_id": None,
               "bos_token_id": None, "eos_token_id": None}  # fmt: skip
    config["decoder"] |= {"max_length": 20, "num_beams": 1, "task_specific_params": {"x": 1}}
    del config["model_type"]  # the class of the model says it
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {key: tensor for key, tensor in saved.items() if ".pooler." not in key}
    tensors["decoder.lm_head.weight"] = tensors["decoder.transformer.wte.weight"]
    for layer in range(2):
        for part in ("attn", "crossattention"):
            before = f"decoder.transformer.h.{layer}.{part}"
            tensors[f"{before}.bias"] = torch.ones(1, 1, 32, 32, dtype=torch.bool).tril()
            tensors[f"{before}.masked_bias"] = torch.tensor(-1e4)
    torch.save(tensors, folder / "pytorch_model.bin")
    ours = load(folder)
    decode = ours.recipe.decode
    assert (decode.beam, decode.max_length, decode.begin) == (3, 8, VOCAB - 1)
    rows = their_ids(model, pixels_of(ours, PHOTOS), num_beams=3, max_new_tokens=8)
    assert our_ids(ours, PHOTOS) == rows


@pytest.mark.parametrize("name", CAPTIONERS)
@torch.no_grad()
def test_in_and_out_is_the_identity(theirs, name, tmp_path):
    from transformers import AutoTokenizer, VisionEncoderDecoderModel

    folder, model = theirs(name)
    ours = load(folder)
    ours.export(tmp_path / "out")
    before, after = (load_file(path / "model.safetensors") for path in (folder, tmp_path / "out"))
    poolers = {f"encoder.pooler.dense.{part}" for part in ("weight", "bias")}
    assert before.keys() | poolers == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before.keys() - poolers)
    again = load(tmp_path / "out")
    assert again.model.config == ours.model.config
    assert all(
        map(torch.equal, again.model.state_dict().values(), ours.model.state_dict().values())
    )
    assert again.processor.source == ours.processor.source
    assert again.processor.target.to_json() == ours.processor.target.to_json()
    assert again.recipe.decode == ours.recipe.decode
    section = json.loads((tmp_path / "out" / "config.json").read_text())["decoder"]
    assert (section["eos_token_id"], section["bos_token_id"]) == (VOCAB - 1, VOCAB - 1)
    written, report = VisionEncoderDecoderModel.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    pixels = pixels_of(ours, PHOTOS)
    rows = their_ids(model, pixels)
    assert their_ids(written.eval(), pixels) == rows
    texts = AutoTokenizer.from_pretrained(tmp_path / "out").batch_decode(rows)
    assert texts == again.caption(PHOTOS)


@torch.no_grad()
def test_maps_are_their_weights_and_leave_out_the_class_token(theirs):
    folder, model = theirs("deit-wide")
    ours = load(folder)
    look = ours.look(PHOTOS[0], target=SENTENCES[0])
    ids = [VOCAB - 1, *ours.processor.target.encode(SENTENCES[0])]
    model.set_attn_implementation("eager")
    out = model(
        pixel_values=pixels_of(ours, PHOTOS[:1]), decoder_input_ids=torch.tensor([ids]),
        output_attentions=True,
    )  # fmt: skip
    model.set_attn_implementation("sdpa")
    words = SENTENCES[0].split()
    for layer, [expected] in enumerate(out.cross_attentions):
        cross = look.site(f"decoder.{layer}.cross")
        assert cross.keys[:3] == ("[CLS]", "[DIST]", "0,0")
        assert [*cross.queries] == [*words, "<|endoftext|>"]
        first = expected[:, 0].numpy()  # before the first word, a single token
        np.testing.assert_allclose(cross.weights[:, 0], first, rtol=0, atol=1e-5)
        maps = look.word_maps(look.choose(layer=layer))  # the mean over heads
        assert {word.shape for word in maps} == {(3, 3)}
        mean = first.mean(0)[2:].reshape(3, 3)
        np.testing.assert_allclose(maps[0] / maps[0].sum(), mean / mean.sum(), rtol=0, atol=1e-5)
        one = look.word_maps(look.choose(layer=layer, head=1))[0]
        np.testing.assert_allclose(
            one / one.sum(), first[1, 2:].reshape(3, 3) / first[1, 2:].sum(), rtol=0, atol=1e-5
        )


@pytest.mark.slow
def test_commands_read_it(theirs, tmp_path, regard):
    folder, _ = theirs("vit-wide")
    PHOTOS[0].save(tmp_path / "photo.png")
    caption = load(folder).caption(PHOTOS[0])
    for ending in ("png", "gif", "html"):
        drawn = regard("caption", str(folder), "photo.png", "-o", f"words.{ending}")
        assert drawn.code == 0, drawn.err
        assert drawn.out == f"{caption}\n"
        assert "mean over 2 heads (cross)" in drawn.err
        assert (tmp_path / f"words.{ending}").stat().st_size > 1000
    chosen = "--layer", "1", "--head", "1"
    one = regard("look", str(folder), "photo.png", "-o", "one.png", *chosen)
    assert (one.code, one.out) == (0, f"{caption}\n"), one.err
    assert "shows decoder layer 1, head 1 (cross)" in one.err
    imported = regard("import", str(folder), "-o", "ours")
    assert imported.code == 0, imported.err
    exported = regard("export", "ours", "-o", "again", "--to", "hf")
    assert 'VisionEncoderDecoderModel.from_pretrained("again")' in exported.err
    assert "with its image processor and tokenizer" in exported.err
    for name in ("ours", "again"):
        assert regard("caption", name, "photo.png").out == f"{caption}\n"
    recipe, sizes = outline(str(folder))
    assert (recipe.task, sizes) == ("caption", (VOCAB,))
    assert recipe.model == load(folder).model.config
    assert regard("plan", str(folder)).code == 0


@pytest.mark.parametrize(
    ("section", "changes", "words"),
    [
        ("decoder", {"model_type": "bert"}, ("decoder.model_type: got bert, expected gpt2",
                                             "a ViT or DeiT with a GPT-2")),
        ("decoder", {"model_type": "llama"}, ("got llama, expected gpt2",)),
        ("encoder", {"model_type": "swin"}, ("encoder.model_type: got swin, expected vit or deit",
                                             "a ViT or DeiT with a GPT-2")),
        ("decoder", {"add_cross_attention": False}, ("add_cross_attention: got False",)),
        ("decoder", {"cross_attention_hidden_size": 9}, ("cross_attention_hidden_size: got 9",)),
        ("decoder", {"scale_attn_by_inverse_layer_idx": True}, ("inverse_layer_idx: got True",)),
        ("decoder", {"n_layer": 1}, ("an unknown tensor decoder.transformer.h.1.",)),
        ("encoder", {"hidden_size": 24}, ("does not fit config.json",)),
        ("encoder", {"image_size": 32}, ("position_embeddings: its shape does not fit",)),
    ],
)  # fmt: skip
def test_another_model_is_refused_by_name(changed, regard, section, changes, words):
    folder = changed("config.json", changes, section)
    is_refused(regard("caption", str(folder), "x.png"), *words)


def test_a_section_that_is_none_is_refused(changed):
    with pytest.raises(InputError, match="decoder: got gpt2, expected the config of a model"):
        load(changed("config.json", {"decoder": "gpt2"}))


def test_a_folder_without_its_files_is_refused(changed, regard, tmp_path, caplog):
    folder = changed(FILE, None)
    is_refused(
        regard("caption", str(folder), "x.png"),
        "how images are scaled and normalised: got no preprocessor_config.json",
        "regard import FOLDER -o NEW --mean 0.5 --std 0.5",
    )
    numbers = {"--mean": PREPROCESSOR["image_mean"], "--std": PREPROCESSOR["image_std"]}
    said = [word for key, values in numbers.items() for word in (key, ",".join(map(str, values)))]
    with caplog.at_level(logging.WARNING):
        assert regard("import", str(folder), "-o", "ours", *said).code == 0
    assert load(tmp_path / "ours").processor.source.mean == tuple(PREPROCESSOR["image_mean"])
    folder = changed("vocab.json", None)
    for name in ("merges.txt", "tokenizer_config.json"):
        (folder / name).unlink()
    is_refused(
        regard("caption", str(folder), "x.png"),
        "how captions are spelled: got no tokenizer, expected tokenizer.json, or vocab.json",
        "AutoTokenizer.from_pretrained(NAME).save_pretrained",
    )
    folder = changed("vocab.json", {f"more{number}": VOCAB + number for number in range(3)})
    is_refused(regard("caption", str(folder), "x.png"), "got 303 entries, expected at most 300")


SIDES = {
    "encoder": {"class_token": True, "image": (16, 16), "patch": 8, "dim": 16},
    "decoder": {"positions": "learned", "scaled_embedding": False, "dim": 16},
}


@pytest.mark.parametrize(
    ("changes", "got", "wanted"),
    [
        ({"encoder": {"class_token": False}}, "model.encoder.class_token=false",
         "model.encoder.class_token=true"),
        ({"decoder": {"positions": "rotary"}}, "model.decoder.positions=rotary",
         "model.decoder.positions=learned"),
        ({"decoder": {"dim": 32}}, "model.bridge=false", "model.bridge=true"),
        ({"bridge": True}, "model.bridge=true", "model.bridge=false"),
        ({"encoder": {"layer_scale": 1.0}}, "model.encoder.layer_scale=1.0",
         "model.encoder.layer_scale=null"),
        ({"decoder": {"block": ("cross_attention", "attention", "feed_forward")}},
         "model.decoder.block=", "model.decoder.block=[attention,cross_attention,feed_forward]"),
        ({"decoder": {"block": ("attention", {"kind": "cross_attention", "heads": 2},
                                "feed_forward")}},
         "model.decoder.heads=2", "model.decoder.heads=4"),
        ({"output_bias": True}, "model.output_bias=true", "model.output_bias=false"),
        ({"encoder": {"kind": "resnet"}},
         "model.encoder.kind=resnet", "a captioner with model.encoder.kind=blocks"),
        ({"decoder": {"kind": "recurrent"}}, "model.decoder.kind=recurrent",
         "model.decoder.kind=blocks model.decoder.positions=learned"),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_named(changes, got, wanted):
    assert choose_kind(CaptionerConfig(**SIDES)).name == "vision-encoder-decoder"
    plain = {key: changes[key] for key in changes if key not in SIDES}
    sides = {side: changes[side] if "kind" in changes.get(side, {})
             else {**SIDES[side], **changes.get(side, {})} for side in SIDES}  # fmt: skip
    with pytest.raises(InputError) as refused:
        choose_kind(CaptionerConfig(**sides, **plain))
    assert got in str(refused.value.got)
    assert wanted in refused.value.fix
    assert refused.value.fix.endswith("can be exported, as vision-encoder-decoder")
