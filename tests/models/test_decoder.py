"""The decoder alone, against PyTorch's layers with the same weights; its sizes, weights, names."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.layers import Tap
from regard.models import GPTConfig, build

LENGTHS = (4, 2, 7)


def tiny(**fields):
    sizes = {"dim": 16, "heads": 4, "hidden": 24, "layers": 2, "dropout": 0.0, "max_length": 32}
    return build(GPTConfig.model_validate(sizes | fields), 11)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("norm_place", ["pre", "post"])
@pytest.mark.parametrize("tied", [True, False])
def test_it_is_pytorchs_layers_under_a_causal_mask(norm_place, tied, copy_block, ragged):
    ours = tiny(norm_place=norm_place, tied=tied, final_norm=True)
    layer = nn.TransformerEncoderLayer(
        16, 4, 24, 0.0, lambda x: F.gelu(x, approximate="tanh"),
        batch_first=True, norm_first=norm_place == "pre",
    )  # fmt: skip
    theirs = nn.TransformerEncoder(layer, 2, nn.LayerNorm(16))
    for block, other in zip(ours.decoder.blocks, theirs.layers, strict=True):
        copy_block(block, other)
    nn.init.normal_(theirs.norm.weight)
    ours.decoder.final_norm.load_state_dict(theirs.norm.state_dict())
    texts = ragged(LENGTHS)
    for ids, logits in zip(texts.split(), ours(texts).split(LENGTHS), strict=True):
        x = F.embedding(torch.tensor([ids]), ours.embed.weight)
        x = x + ours.decoder.positions.table[: len(ids)]
        future = torch.ones(len(ids), len(ids)).triu(1).bool()
        matrix = ours.embed.weight if tied else ours.head.weight
        expected = theirs(x, future)[0] @ matrix.T
        torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "vocab", "weights"),
    [
        ("gpt2", 50257, 124_439_808),
        ("gpt2-medium", 50257, 354_823_168),
        ("gpt2-large", 50257, 774_030_080),
        ("gpt2-xl", 50257, 1_557_611_200),
        ("llama-7b", 32000, 6_738_415_616),
    ],
)
def test_named_sizes_have_as_many_weights_as_were_published(size, vocab, weights):
    with torch.device("meta"):
        model = build(GPTConfig(size=size), vocab)
    assert sum(parameter.numel() for parameter in model.parameters()) == weights


def test_fresh_weights_are_gpt2s():
    """N(0, 0.02²), and less by √(2 layers) for what adds to the residual stream."""
    model = build(GPTConfig(dim=128, heads=4, hidden=512, layers=8), 300)
    for block in model.decoder.blocks:
        attention, feed = block.self_attention, block.feed_forward
        for linear in (attention.query, attention.key_value, feed.into):
            assert linear.weight.std().item() == pytest.approx(0.02, rel=0.05)
        for linear in (attention.out, feed.out):
            assert linear.weight.std().item() == pytest.approx(0.02 / 4, rel=0.05)
            assert not linear.bias.any()
    assert model.embed.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert model.decoder.positions.table.std().item() == pytest.approx(0.02, rel=0.05)


def test_a_tied_head_is_the_embedding_and_an_untied_one_is_not():
    tied, untied = tiny(tied=True), tiny(tied=False)
    assert tied.head.weight is tied.embed.weight
    assert untied.head.weight is not untied.embed.weight
    names = {name for name, _ in untied.named_parameters()}
    assert "head.weight" in names
    assert "head.weight" not in {name for name, _ in tied.named_parameters()}


def test_without_feed_forward_a_block_has_attention_alone():
    config = GPTConfig(dim=16, heads=4, layers=2, decoder={"block": ("attention",)})
    model = build(config, 11)
    assert not [name for name in model.state_dict() if "feed" in name]
    assert not [site for site in model.sites() if "feed" in site]


def test_heads_and_sites_have_names():
    model = tiny(kv_heads=2)
    assert model.heads()[:5] == [
        *(f"decoder.0.self.{head}" for head in range(4)),
        "decoder.1.self.0",
    ]
    assert model.sites()["decoder.1.self.k"] == 2
    assert model.sites()["decoder.1.self.weights"] == 4
    assert model.sites()["logits"] == 0


def test_a_site_that_it_does_not_have_is_refused_wherever_reading_begins(ragged):
    model, wrong = tiny().eval(), Tap("decoder.0.cross.weights")
    texts = ragged(LENGTHS)
    with pytest.raises(InputError, match=r"decoder\.0\.cross"):
        model(texts, wrong)
    with pytest.raises(InputError, match=r"decoder\.0\.cross"):
        model.read(texts, model.start(None, 3, 8), wrong)
    with pytest.raises(InputError, match=r"decoder\.0\.cross"):
        model.step(torch.tensor([1, 2]), model.start(None, 2, 8), wrong)


@torch.no_grad()
def test_what_leaves_the_stack_is_what_the_head_reads(ragged):
    model, texts = tiny(output_bias=True, scaled_output=True).eval(), ragged(LENGTHS)
    hidden = model.hidden(texts)
    expected = hidden / math.sqrt(16) @ model.head.weight.T + model.head.bias
    torch.testing.assert_close(model(texts), expected)


@torch.no_grad()
def test_a_window_counts_the_token_itself():
    """One layer: a token sees itself and the one before, so the one before that does not matter."""
    model = tiny(layers=1, window=2, positions="none").eval()
    [first, second] = (model(Ragged.of([[start, 5, 6]])) for start in (1, 2))
    torch.testing.assert_close(first[2], second[2])
    assert not torch.allclose(first[1], second[1], atol=1e-6)


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal"])
def test_a_text_longer_than_the_first_table_is_read_at_once_and_step_by_step(positions):
    model = tiny(positions=positions, max_length=2**24, layers=1).eval()
    ids = torch.randint(11, (1030,), generator=torch.Generator().manual_seed(1)).tolist()
    with torch.no_grad():
        state = model.start(None, 1, 1030)
        model.read(Ragged.of([ids[:1020]]), state)
        steps = torch.cat([model.step(torch.tensor([token]), state) for token in ids[1020:]])
        whole = tiny(positions=positions, max_length=2**24, layers=1).eval()
        whole.load_state_dict(model.state_dict())
        torch.testing.assert_close(steps, whole(Ragged.of([ids]))[1020:], rtol=0, atol=1e-4)


@pytest.mark.parametrize("positions", ["learned", "rotary", "sinusoidal", "buckets"])
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("cuts", [(2, 2, 2), (1, 2, 4), (3, 1, 6)], ids=["even", "odd", "most"])
def test_a_text_read_in_pieces_is_the_text_read_at_once(positions, window, cuts):
    model = tiny(positions=positions, window=window).eval()
    texts = [[1, 2, 3, 4], [5, 6, 7], [8, 9, 10, 1, 2, 3, 4]]
    with torch.inference_mode():
        whole = model.read(Ragged.of(texts), model.start(None, 3, 16))
        state = model.start(None, 3, 16)
        model.read(Ragged.of([ids[:cut] for ids, cut in zip(texts, cuts, strict=True)]), state)
        mark, second_parts = state.mark(), [ids[cut:] for ids, cut in zip(texts, cuts, strict=True)]
        for _ in range(2):  # and read again
            torch.testing.assert_close(
                model.read(Ragged.of(second_parts), state), whole, rtol=0, atol=1e-5
            )
            assert state.lengths == (4, 3, 7)
            state.rewind(mark)
            assert state.lengths == cuts
