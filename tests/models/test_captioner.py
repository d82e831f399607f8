"""The captioner: an encoder of images and a decoder of text, each of either kind and any width."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError

from regard.data.synthetic.scenes import make_scene
from regard.decode import DecodeConfig, Symbols, decode
from regard.inputs.arrays import Dense, Ragged, Shared
from regard.inputs.images.reader import ImageReader
from regard.layers import Tap, knock_out
from regard.layers.tap.without_head import without_head
from regard.models import CaptionerConfig, TransformerConfig, build, describe, rebuild
from regard.train.adam import Adam

VOCAB = 11
TARGET = (5, 3, 1)
PATCHES = {"image": (16, 24), "patch": 8, "dim": 24, "heads": 3, "hidden": 32, "layers": 2}
RESNET = {"kind": "resnet", "unit": "basic", "depths": (1, 1), "filters": (8, 12),
          "stem_width": 8, "image": (16, 24)}  # fmt: skip
CNN = {"kind": "cnn", "filters": (6, 10), "filter_side": 3, "image": (16, 24)}
BLOCKS = {"dim": 16, "heads": 2, "hidden": 24, "layers": 2}
LSTM = {"kind": "recurrent", "dim": 20, "cell": "lstm", "attention": "additive"}
KINDS = {
    "vit-transformer": {"encoder": PATCHES, "decoder": BLOCKS},
    "resnet-lstm": {"encoder": RESNET, "decoder": LSTM},
    "cnn-gru": {
        "encoder": CNN,
        "decoder": {"kind": "recurrent", "dim": 14, "last_word": True, "layers": 2},
    },
    "vit-location": {
        "encoder": PATCHES | {"class_token": True, "positions": "sinusoidal_2d"},
        "decoder": {"kind": "recurrent", "dim": 12, "attention": "location"},
        "tied": False,
    },
    "cnn-one-vector": {"encoder": CNN, "decoder": {"kind": "recurrent", "attention": "none"}},
    "cnn-transformer": {"encoder": CNN, "decoder": BLOCKS | {"positions": "rotary"}},
    "bridge": {"encoder": PATCHES, "decoder": BLOCKS, "bridge": True},
    "bridge-gru": {
        "encoder": RESNET,
        "decoder": {"kind": "recurrent", "dim": 14, "attention": "dot"},
        "bridge": True,
    },
    "windows": {
        "encoder": PATCHES
        | {"patch": 4, "block": ("grid_attention", "feed_forward"), "grid_window": 2},
        "decoder": BLOCKS,
    },
}


@pytest.fixture(params=KINDS)
def model(request):
    captioner = build(CaptionerConfig(**KINDS[request.param]), VOCAB).eval()
    for name, statistic in captioner.named_buffers():
        if "running" in name:  # of batch norm, away from 0 and 1
            statistic.add_(0.2 * torch.rand_like(statistic))
    return captioner


@pytest.fixture
def images():
    return Dense(torch.randn(3, 3, 16, 24))


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=2e-6)


@torch.no_grad()
def steps(model, images, rows, beams=1):
    """The logits of whole rows of tokens, one step at a time: (rows, steps, vocab)."""
    state = model.start(model.encode(images), beams, rows.shape[1])
    return torch.stack([model.step(ids, state) for ids in rows.T], dim=1)


def test_the_sides_have_their_own_widths():
    vit, resnet = (build(CaptionerConfig(**KINDS[name]), VOCAB) for name in [*KINDS][:2])
    assert (vit.config.dim, vit.config.decoder.dim) == (24, 16)
    assert vit.decoder.blocks[0].cross_attention.key_value.weight.shape == (2 * 16, 24)
    assert (resnet.config.dim, resnet.config.decoder.dim) == (12, 20)
    assert vit.target_embed.weight is vit.head.weight
    assert vit.config.max_length == 2 * 3  # patches, which are the memory
    assert resnet.config.max_length == 2 * 3  # cells of the last feature map


@torch.no_grad()
def test_a_bridge_takes_the_vectors_to_the_width_of_the_decoder(images):
    model = build(CaptionerConfig(**KINDS["bridge"]), VOCAB).eval()
    vectors = model.encoder.read(model.embed, images).x
    close(model.encode(images).x, vectors @ model.bridge.weight.T + model.bridge.bias)
    assert model.decoder.blocks[0].cross_attention.key_value.weight.shape == (2 * 16, 16)
    assert build(CaptionerConfig(**KINDS["vit-transformer"]), VOCAB).bridge is None


@torch.no_grad()
def test_cached_is_uncached_and_beams_share_a_memory(model, images):
    rows = torch.randint(VOCAB, (6, 5))
    repeated = images.take([0, 0, 1, 1, 2, 2])
    whole = model(repeated, Ragged(rows.flatten(), (5,) * 6)).view(6, 5, VOCAB)
    close(steps(model, repeated, rows), whole)
    close(steps(model, images, rows, beams=2), whole)


def test_an_image_is_encoded_once_for_all_its_captions(model, images):
    """The same loss and the same gradients as with a copy of the image for each caption."""
    rows, lengths = (0, 0, 2, 1, 0), (4, 2, 3, 1, 5)
    target = Ragged(torch.randint(VOCAB, (sum(lengths),)), lengths)
    expected = torch.randint(VOCAB, (sum(lengths),))
    parameters = list(model.parameters())
    results = []
    for source in (images.take(rows), Shared(images, rows)):
        loss = model.loss(source, target, expected)
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        results.append((loss, [g for g in gradients if g is not None]))
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=2e-5)
    with torch.no_grad():
        memory = model.encode(images)
        close(model.encode(Shared(images, rows)).x, memory.select(torch.tensor(rows)).x)


@torch.no_grad()
def test_rows_that_move_and_images_that_leave_keep_their_past(model, images):
    past = torch.randint(VOCAB, (6, 2))
    state = model.start(model.encode(images), 2, 3)
    for ids in past.T:
        model.step(ids, state)
    order = [1, 1, 5, 4]  # the second image leaves
    state.reorder(torch.tensor(order))
    ids = torch.randint(VOCAB, (4,))
    rows = torch.cat((past[order], ids[:, None]), 1)
    whole = model(images.take([0, 0, 2, 2]), Ragged(rows.flatten(), (3,) * 4)).view(4, 3, VOCAB)
    close(model.step(ids, state), whole[:, -1])


@torch.no_grad()
def test_a_batch_is_its_images_one_by_one(model, images, ragged):
    target = ragged(TARGET)
    together = model(images, target).split(TARGET)
    for row, ids in enumerate(target.split()):
        close(model(images.take([row]), Ragged.of([ids])), together[row])


@torch.no_grad()
def test_a_word_sees_neither_the_future_nor_other_images(model, images, ragged):
    target = ragged(TARGET)
    before = model(images, target)
    ids = target.ids.clone()
    ids[3] = (ids[3] + 1) % VOCAB  # the fourth word of the first caption
    after = model(images, Ragged(ids, TARGET))
    close(after[:3], before[:3])
    close(after[5:], before[5:])
    assert not torch.allclose(after[3], before[3], atol=1e-4)
    pixels = images.values.clone()
    pixels[1] += 1
    after = model(Dense(pixels), target)
    close(after[:5], before[:5])
    close(after[8:], before[8:])
    assert not torch.allclose(after[5:8], before[5:8], atol=1e-4)


@torch.no_grad()
def test_a_tap_changes_no_bit_and_sees_every_site(model, images, ragged):
    target, tap = ragged(TARGET), Tap("*")
    assert torch.equal(model(images, target, tap), model(images, target))
    assert set(tap.records) == set(model.sites())
    hidden = model.hidden(images)
    assert hidden.shape == (3 * model.config.max_length, model.config.memory_dim)
    for head in model.heads()[-1:]:
        edited = model(images, target, Tap(edits=[knock_out(head)]))
        close(without_head(model, [head])(images, target), edited)
        assert not torch.allclose(edited, model(images, target), atol=1e-5)


def test_the_loss_is_that_of_the_logits_and_every_weight_takes_part(model, images, ragged):
    target, wanted = ragged(TARGET), ragged(TARGET, seed=1).ids
    loss = model.loss(images, target, wanted)
    whole = F.cross_entropy(model(images, target), wanted, reduction="sum")
    close(loss / sum(TARGET), whole / sum(TARGET))
    model.train().loss(images, target, wanted).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@torch.no_grad()
def test_what_describe_says_builds_the_same_model_again(model, images, ragged):
    target = ragged(TARGET)
    again = rebuild(json.loads(json.dumps(describe(model)))).eval()
    assert again.config == model.config
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(images, target), model(images, target))


def test_the_same_seed_draws_the_same_weights():
    config = CaptionerConfig(**KINDS["resnet-lstm"])
    states = []
    for _ in range(2):
        torch.manual_seed(3)
        states.append(build(config, VOCAB).state_dict())
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())


def test_dropout_is_that_of_each_side(images, ragged):
    """A convolutional network drops parts of what the decoder reads."""
    for sides in (KINDS["vit-transformer"], KINDS["resnet-lstm"]):
        config = CaptionerConfig(**sides, dropout=0.0)
        for side in ("encoder", "decoder"):
            values = {**config.model_dump(), side: {**sides[side], "dropout": 0.5}}
            model = build(CaptionerConfig.model_validate(values), VOCAB).train()
            outputs = [model(images, ragged(TARGET)) for _ in range(2)]
            assert not torch.equal(*outputs), side


def test_defaults_and_the_named_size():
    config = CaptionerConfig(size="tiny")
    assert (config.encoder.dim, config.decoder.dim, config.image) == (64, 64, (32, 32))
    assert config.abilities == {"vectors", "encodes", "writes"}
    assert CaptionerConfig(encoder={"kind": "cnn"}).encoder.dense == ()
    assert CaptionerConfig(dim=32, encoder={"layers": 3}).decoder.dim == 32
    assert CaptionerConfig(decoder={"max_length": 40}).bound == 40


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"positions": "learned"}, "positions would reach encoder and decoder, which differ"),
        ({"activation": "relu"}, "write it below one of them, as encoder.activation"),
        ({"encoder": {"kind": "cnn", "dense": (12,)}}, r"dense: \[\] leaves its grid"),
        ({"encoder": {"image": (16, 16), "patch": 16}}, "a single cell, .* smaller patches"),
        ({"encoder": {"kind": "gru"}}, "expected tags: 'blocks', 'cnn', 'resnet'"),
        ({"decoder": {"kind": "recurrent", "positions": "rotary"}}, r"has decoder\.positions"),
        ({"decoder": {"patch": 4}}, r"no part of this model has decoder\.patch"),
        ({"cell": "lstm"}, "no part of this model has cell"),
        ({"decoder": {"block": ("attention", "feed_forward")}}, "needs a cross_attention"),
        ({"tied": "inputs"}, "'all' or 'none'"),
        (
            {"decoder": {"kind": "recurrent", "attention": "location", "max_length": 30}},
            "vectors for max_length 30 places, but an image has 196",
        ),
    ],
)
def test_wrong_configs_are_refused(given, words):
    with pytest.raises(ValidationError, match=words):
        CaptionerConfig(**given)


def test_a_short_key_of_one_modality_still_reaches_both_sides():
    assert TransformerConfig(positions="learned").decoder.positions.kind == "learned"


@pytest.mark.parametrize("name", ["vit-transformer", "resnet-lstm"])
def test_six_captions_are_learned_by_heart(name):
    scenes = [make_scene(0, 0, number) for number in range(6)]
    captions = [scene.caption.split() for scene in scenes]
    words = ["<pad>", "<s>", "</s>", *sorted({word for caption in captions for word in caption})]
    ids = [[words.index(word) for word in caption] for caption in captions]
    reader = ImageReader(height=16, width=24)
    images = reader.collate(reader.read([scene.draw(24) for scene in scenes]))
    target = Ragged.of([[1, *caption] for caption in ids])
    wanted = Ragged.of([[*caption, 2] for caption in ids]).ids
    model = build(CaptionerConfig(**KINDS[name], dropout=0.0), len(words)).train()
    optimizer = Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        loss = model.loss(images, target, wanted) / len(wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.02:
            break
    assert loss.item() < 0.1
    symbols = Symbols(begin=1, end=2, pad=0)
    for beam in (1, 3):
        config = DecodeConfig(beam=beam, max_length=20)
        best = [hypotheses[0].ids for hypotheses in decode(model.eval(), images, symbols, config)]
        assert [list(caption) for caption in best] == ids


def show_attend_and_tell(model, memory, tokens):
    """The logits of one image's caption, as equations: memory (cells, dim), tokens of the caption.

    e_ti = v·tanh(W s + U h_i), α = softmax(e), c = σ(w · s + b) Σ_i α_i h_i, (s, m) = LSTM([y; c])
    """
    cell, weights = model.decoder.blocks[0], []
    layer = cell.recurrent.cells
    lstm = torch.nn.LSTMCell(layer.input_size, layer.hidden_size)
    lstm.load_state_dict(
        {name.removesuffix("_l0"): value for name, value in layer.named_parameters()}
    )
    s, m = model.decoder.first(memory.mean(0)).tanh().view(2, -1)
    keys, vector = cell.cross_attention.key_value(memory), cell.cross_attention.score.vector[0]
    logits = []
    for y in model.target_embed.weight[torch.tensor(tokens)] * model.target_embed.scale:
        alpha = ((cell.cross_attention.query(s) + keys).tanh() @ vector).softmax(0)
        context = cell.gate(s).sigmoid() * (alpha @ memory)
        s, m = lstm(torch.cat((y, context)), (s, m))
        logits.append(model.head(model.decoder.readout(torch.cat((s, context, y))).tanh()))
        weights.append(alpha)
    return torch.stack(logits), torch.stack(weights)


GATED = LSTM | {"dropout": 0.0, "context_gate": True, "doubly_stochastic": 0.7}


@torch.no_grad()
def test_a_gate_scales_the_context_as_in_the_paper(images):
    model = build(CaptionerConfig(encoder=RESNET, decoder=GATED, tied=False), VOCAB).eval()
    torch.nn.init.normal_(model.decoder.blocks[0].gate.weight, std=2.0)
    memory = model.encode(images.take([1]))
    expected, _ = show_attend_and_tell(model, memory.x, [1, 5, 6, 2])
    close(model(images.take([1]), Ragged.of([[1, 5, 6, 2]])), expected)
    rows = torch.tensor([[1, 5, 6, 2]])
    close(steps(model, images.take([1]), rows)[0], expected)


def test_a_doubly_stochastic_penalty_is_that_of_the_paper_and_only_in_training(images):
    model = build(CaptionerConfig(encoder=CNN | {"dropout": 0.0}, decoder=GATED), VOCAB).train()
    captions, targets = Ragged.of([[1, 5, 6], [1, 5]]), torch.tensor([5, 6, 2, 5, 2])
    images = images.take([0, 1])
    loss = model.loss(images, captions, targets)
    memory = model.encode(images)
    cells = memory.layout.lengths[0]
    penalty = sum(
        (
            (1 - show_attend_and_tell(model, memory.x[row * cells :][:cells], tokens)[1].sum(0))
            ** 2
        ).sum()
        for row, tokens in enumerate(([1, 5, 6], [1, 5]))
    )
    plain = model.eval().loss(images, captions, targets)
    torch.testing.assert_close(loss - plain, 0.7 * penalty, rtol=1e-5, atol=1e-5)
    vector = model.decoder.blocks[0].cross_attention.score.vector
    grads = [torch.autograd.grad(value, vector, retain_graph=True)[0] for value in (loss, plain)]
    assert not torch.allclose(*grads)  # the penalty changes what the scores learn
