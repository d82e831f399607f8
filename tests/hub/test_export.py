"""Every shipped recipe's model goes where docs/export.md says, with the same numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
import yaml

from regard.data.text.pairs import Pair
from regard.errors import InputError
from regard.hub.choice import choose_kind
from regard.hub.equal import sines_first
from regard.inputs.images.reader import ImageReader
from regard.inputs.text import Processor
from regard.inputs.text.learn import learn, learn_plain
from regard.layers import sinusoid
from regard.layers.short import values_of, with_value
from regard.models import BertConfig, GPTConfig, T5Config, TransformerConfig, ViTConfig, build
from regard.pipeline import Pipeline
from regard.recipes import recipe as recipes
from regard.recipes import shelf
from regard.recipes.recipe import TASKS_WITH_OWN_FORMAT, shipped, task_of
from regard.runs.load import load
from regard.tasks.encoder_task import ENCODER_SYMBOLS
from regard.tasks.specs import TASKS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

PAGE = Path(__file__).parents[2] / "docs/export.md"
TEXTS = ("The dog, the cat and the cow sleep.", "A tree doesn't walk; it grows (slowly)!")
SENTENCES = (
    "Good morning!", "He hit me with a pie.", "The dog chased another dog.",
    "“Who’s there?” she asked, but nobody answered.", "I'd like to know why you didn't come.",
    "The animal didn't cross the street because it was too tired.", "3.5 % of 1,000 is 35.",
    "Zürich lies on a lake", "How long have you been learning French, and do you like it so far?",
)  # fmt: skip
SMALL = {"size": None, "dim": 32, "heads": 4, "hidden": 48, "layers": 2, "stem_width": 8}
"""Sizes, which decide nothing here."""


def rows():
    """The table of the page: recipe -> (kind of model, overrides)."""
    lines = re.findall(
        r"^\| `(\w+/[\w-]+)` \| ([^|]*) \|([^|]*)\|$", PAGE.read_text(), re.MULTILINE
    )
    return {name: (kind.strip("`"), changes.strip(" `")) for name, kind, changes in lines}


ROWS = rows()
NOWHERE = {name for name, (kind, _) in ROWS.items() if kind.startswith("nowhere: ")}
TRAINED = [name for name in ROWS if name not in NOWHERE]


def vocabulary_of(recipe):
    """A vocabulary of the recipe's kind, learned from two sentences."""
    task = TASKS[recipe.task]
    if task.ability == "writes" and not task.needs:
        return learn([Pair(text, text) for text in TEXTS], recipe.tokens)
    around = getattr(task.first_class, "around", ENCODER_SYMBOLS)
    return learn_plain(TEXTS, recipe.tokens.model_copy(update={"vocab": 400}), around)


def pipeline_of(name, overrides=()):
    """The pipeline of a shipped recipe with random weights, in a small size."""
    recipe = recipes.load(name, overrides)
    values = dict(SMALL)
    head = TASKS[recipe.task].head
    if head:
        values["masked"] = False
        values[head] = ("a", "b", "c") if head in ("classes", "tags") else True
    if recipe.task == "caption":  # the widths of its sides decide whether there is a bridge
        del values["dim"], values["heads"]
    own_keys = {key for key in values if list(values_of(recipe.model, key))}
    config = recipe.model.changed(**{key: values[key] for key in values if key in own_keys})
    if config.reads == "images":
        height, width = config.image
        half = (0.5,) * config.channels
        reader = ImageReader(height=height, width=width, channels=len(half), mean=half, std=half)
        processor = Processor(reader, vocabulary_of(recipe).target if config.has_target else None)
    else:
        processor = vocabulary_of(recipe)
    torch.manual_seed(0)
    model = build(config, *processor.vocabulary_sizes[: len(config.VOCABULARIES)]).eval()
    with torch.no_grad():  # norms and biases away from their plain beginnings
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return Pipeline(model, processor, recipe.model_copy(update={"model": config}))


def inputs_of(config):
    """Random pixels, perhaps with ids; ids of a text, or ids of a source and a target."""
    random = torch.Generator().manual_seed(1)
    if config.reads == "images":
        pixels = torch.randn(2, config.channels, *config.image, generator=random)
        return [pixels, torch.randint(4, 20, (2, 5))] if config.has_target else [pixels]
    return [torch.randint(4, 20, (length,), generator=random).tolist() for length in (9, 6)][
        : 1 + config.has_target
    ]


@torch.no_grad()
def their_logits(folder, inputs):
    transformers = pytest.importorskip("transformers")
    [name] = json.loads((folder / "config.json").read_text())["architectures"]
    model, report = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    # an encoder's pooler is kept, though heads on tokens do not use it
    assert not {key for key in report["unexpected_keys"] if ".pooler." not in key}
    assert not {key for key in report["missing_keys"] if "embed_positions" not in key}
    keys = ("pixel_values" if torch.is_tensor(inputs[0]) else "input_ids", "decoder_input_ids")
    given = [value if torch.is_tensor(value) else torch.tensor([value]) for value in inputs]
    out = model.eval()(**dict(zip(keys, given, strict=False)))
    if "start_logits" in out:
        return torch.stack((out.start_logits, out.end_logits), -1)[0]
    return out.logits if torch.is_tensor(inputs[0]) or out.logits.dim() == 2 else out.logits[0]


def is_theirs(pipeline, kind, folder):
    """Exports a pipeline; transformers, and Regard itself, then give the same numbers and texts."""
    to = "timm" if kind == "timm" else "hf"
    pipeline.export(folder, to)
    their = json.loads((folder / "config.json").read_text())
    assert their.get("model_type", "timm") == kind
    inputs = inputs_of(pipeline.model.config)
    ours = pipeline.logits(*inputs)
    again = load(folder)
    torch.testing.assert_close(again.logits(*inputs), ours, rtol=0, atol=1e-4)
    if kind != "timm":
        torch.testing.assert_close(
            their_logits(folder, inputs).reshape(ours.shape), ours, rtol=0, atol=1e-4
        )
    if pipeline.model.config.has_target and pipeline.model.config.reads == "images":
        same_captions(pipeline, again, folder)
    elif pipeline.model.config.reads == "text":
        same_tokenizer(pipeline.vocabulary, again.vocabulary, folder)


def same_captions(ours, again, folder):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.VisionEncoderDecoderModel.from_pretrained(folder).eval()
    banned = ours.processor.target.specials.banned
    assert model.generation_config.suppress_tokens == list(banned) != []
    images = [torch.randint(256, (40, 30, 3), dtype=torch.uint8).numpy() for _ in range(3)]
    pixels = ours.reader.collate(ours.reader.read(images)).values
    for beam in (1, 4):
        texts = ours.caption(images, beam=beam)
        assert again.caption(images, beam=beam) == texts
        rows = model.generate(pixels, num_beams=beam)
        assert [ours.processor.target.decode(row) for row in rows.tolist()] == texts
        written = theirs.batch_decode(rows, skip_special_tokens=True)
        # of whole words they have spaces around brackets
        assert ["".join(text.split()) for text in written] == ["".join(t.split()) for t in texts]


def same_tokenizer(ours, again, folder):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        ids = ours.source.template(ours.source.encode(text))
        assert again.source.template(again.source.encode(text)) == ids
        assert theirs(text)["input_ids"] == ids
        assert again.target.decode(ids) == ours.target.decode(ids)
    # of whole words they do not close brackets
    ids = ours.target.encode(TEXTS[0])
    assert theirs.decode(ids, skip_special_tokens=True) == ours.target.decode(ids)


def test_the_docs_have_a_row_for_every_recipe():
    assert sorted(ROWS) == sorted(shipped())
    assert {name for name in ROWS if task_of(name) in TASKS_WITH_OWN_FORMAT} <= NOWHERE


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_a_shipped_recipe_goes_where_the_docs_say(name, tmp_path):
    kind, changes = ROWS[name]
    pipeline = pipeline_of(name)
    if changes:
        with pytest.raises(InputError) as refused:
            pipeline.export(tmp_path / "out")
        said = f"trained with {changes} it can be exported, as {kind}"
        assert refused.value.fix.split(";")[0] == said
        assert not (tmp_path / "out").exists()
        pipeline = pipeline_of(name, changes.split())
    is_theirs(pipeline, kind, tmp_path / "out")


def chosen_for(name, overrides):
    recipe = recipes.load(name, overrides)
    return choose_kind(recipe.model, separate=not recipe.tokens.shared)


@pytest.mark.parametrize("name", [name for name in TRAINED if ROWS[name][1]])
def test_every_override_is_needed_and_names_a_setting_that_was_said(name):
    recipe, overrides = recipes.load(name), ROWS[name][1].split()
    with pytest.raises(InputError) as refused:
        chosen_for(name, ())
    keys = [override.partition("=")[0] for override in overrides]
    if "model.family" in keys:
        assert str(refused.value.got).startswith(f"a {recipe.model.family}, which")
    else:
        assert re.findall(r"[\w.]+(?==)", str(refused.value.got)) == keys
    for left_out in overrides:
        with pytest.raises(InputError):
            chosen_for(name, [override for override in overrides if override != left_out])


def test_sinusoids_of_an_image_become_a_table(tmp_path):
    changes = ["model.class_token=true", "model.pool=first"]
    with pytest.raises(InputError, match=f"trained with {' '.join(changes)} .*; or `--to timm`"):
        pipeline_of("cifar/vit").export(tmp_path / "out")
    is_theirs(pipeline_of("cifar/vit", changes), "vit", tmp_path / "out")


@pytest.mark.parametrize("dim", [6, 7])
def test_moving_the_channels_makes_waves_in_turn_waves_in_halves(dim):
    table = sinusoid(5, dim)
    [moved] = sines_first({"source_embed.weight": table}, dim).values()
    assert torch.equal(moved, sinusoid(5, dim, halves=True))


def test_tied_matrices_are_moved_once_and_stay_tied():
    matrix = torch.randn(9, 6)
    moved = sines_first({"source_embed.weight": matrix, "head.weight": matrix}, 6)
    assert moved["source_embed.weight"] is moved["head.weight"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tiny/copy", "as a Pegasus with its tokenizer: transformers.AutoModelForSeq2SeqLM."),
        ("own/base", "as a Marian with its tokenizer: transformers.AutoModelForSeq2SeqLM."),
        ("small/write", "as a GPT2 with its tokenizer: transformers.AutoModelForCausalLM."),
        ("small/fill", "as a Bert with its tokenizer: transformers.AutoModelForMaskedLM."),
        ("own/classify", "as a Bert with its tokenizer: "
                         "transformers.AutoModelForSequenceClassification."),
        ("tiny/digits", "as a ViT with its image processor: "
                        "transformers.AutoModelForImageClassification."),
    ],
)  # fmt: skip
def test_the_command_says_how_the_folder_is_loaded(name, said, tmp_path, regard):
    pipeline_of(name).save(tmp_path / "ours")
    result = regard("export", "ours", "-o", "theirs", "--to", "hf")
    assert (result.code, result.out) == (0, "")
    assert result.err.splitlines()[-1] == f'ours is in theirs, {said}from_pretrained("theirs")'


def test_what_is_for_timm_is_loaded_by_its_name(tmp_path, regard):
    pipeline_of("cifar/vit").save(tmp_path / "ours")
    said = 'as a vit_base_patch16_224: timm.create_model("local-dir:theirs", pretrained=True)'
    assert said in regard("export", "ours", "-o", "theirs", "--to", "timm").err


@pytest.mark.slow
@pytest.mark.parametrize("beam", [4, 1])
def test_the_shipped_translator_writes_the_same_text_there(beam, tmp_path):
    transformers = pytest.importorskip("transformers")
    if "small/translate" not in shelf.shipped():
        pytest.skip("small/translate is not on the shelf")
    ours = load("small/translate")
    ours.export(tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    # without an option, the beam and the length penalty are those of the recipe
    options = {} if beam == 4 else {"num_beams": 1, "length_penalty": None, "early_stopping": None}
    expected = ours.translate(SENTENCES, beam=beam)
    for sentence, text in zip(SENTENCES, expected, strict=True):
        ids = model.generate(**tokenizer(sentence, return_tensors="pt"), **options)
        assert tokenizer.decode(ids[0], skip_special_tokens=True) == text
    assert load(tmp_path / "out").translate(SENTENCES, beam=beam) == expected


@pytest.mark.parametrize(
    "config",
    [
        TransformerConfig(norm="rms", positions="rotary", activation="gated_silu", tied="none"),
        TransformerConfig(norm_place="post", positions="learned", final_norm=True),
        TransformerConfig(
            encoder={"block": ("feed_forward", "attention")},
            decoder={"block": ("feed_forward", "attention", "cross_attention")},
            block_norm=True,
        ),
        GPTConfig(positions="sinusoidal", scaled_embedding=True, kv_heads=2, norm_place="post"),
        GPTConfig(size="nano-llama", query_key_norm=True, window=4, attention_bias="qkv"),
        GPTConfig(decoder={"block": ("attention",)}, positions_from=2, final_norm=False),
        BertConfig(pooler="relu", next_sentence=True, token_types=0, positions="rotary"),
        BertConfig(classes=("a", "b"), tags=("x", "y"), pooler="none", norm_place="pre"),
        T5Config(buckets=32, farthest=16, tied="none", norm="layer", bias=True),
        ViTConfig(head_hidden=8, layer_scale=0.1, pool="mean", classes=("a", "b")),
    ],
    ids=lambda config: config.family,
)  # fmt: skip
def test_what_the_message_recommends_can_be_exported(config):
    with pytest.raises(InputError) as refused:
        choose_kind(config)
    overrides, kind = re.findall(
        r"^trained with (.*) it can be exported, as (\w+)", refused.value.fix
    )[0]
    changes = re.findall(r"model\.([\w.]+)=(.*?)(?= model\.|$)", overrides)
    values = config.model_dump()
    for key, value in changes:
        values = with_value(values, key.split("."), yaml.safe_load(value))
    assert choose_kind(type(config).model_validate(values)).name == kind
    got = str(refused.value.got)
    assert {key for key, _ in changes} == {*re.findall(r"model\.([\w.]+)=", got)}


def test_how_a_published_tokenizer_spaces_a_text_is_kept(tmp_path):
    first, second, file = tmp_path / "first", tmp_path / "second", "tokenizer_config.json"
    pipeline_of("small/fill").export(first)
    settings = json.loads((first / file).read_text())
    assert settings["clean_up_tokenization_spaces"] is False
    (first / file).write_text(json.dumps(settings | {"clean_up_tokenization_spaces": True}))
    load(first).export(second)
    assert json.loads((second / file).read_text())["clean_up_tokenization_spaces"] is True


def test_sides_that_differ_are_named():
    config = TransformerConfig(
        encoder={"dim": 32, "positions": "learned"}, dim=16, heads=2, tied="output"
    )
    with pytest.raises(InputError) as refused:
        choose_kind(config)
    assert "model.encoder.dim=32, model.decoder.dim=16" in str(refused.value.got)
    assert "model.dim=32" in str(refused.value.fix)
