"""The encoder-decoder, against PyTorch's own with the same weights; its sizes and names."""

from __future__ import annotations

import math
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.layers import sinusoid
from regard.models import TransformerConfig, build

SOURCE, TARGET = (4, 2, 7), (5, 6, 1)


def tiny(**fields):
    sizes = {"dim": 16, "heads": 4, "hidden": 24, "dropout": 0.0}
    return TransformerConfig.model_validate(sizes | fields)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("norm_place", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_it_is_pytorchs_transformer(norm_place, activation, copy_block, padding, ragged):
    config = tiny(norm_place=norm_place, activation=activation, final_norm=True)
    ours = build(config, 11, 11)
    theirs = nn.Transformer(
        16, 4, 2, 2, 24, 0.0, activation, batch_first=True, norm_first=norm_place == "pre"
    )
    for mine, other in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for block, layer in zip(mine.blocks, other.layers, strict=True):
            copy_block(block, layer)
        nn.init.normal_(other.norm.weight)
        mine.final_norm.load_state_dict(other.norm.state_dict())
    source, target = ragged(SOURCE), ragged(TARGET, seed=1)

    def embedded(sentences):
        """Padded rows of √dim · E[id] + PE, made one sentence at a time."""
        rows = [
            F.embedding(torch.tensor(ids), ours.source_embed.weight) * 4 + sinusoid(len(ids), 16)
            for ids in sentences.split()
        ]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True)

    out = theirs(
        embedded(source),
        embedded(target),
        tgt_mask=torch.ones(6, 6).triu(1).bool(),
        src_key_padding_mask=padding(SOURCE),
        tgt_key_padding_mask=padding(TARGET),
        memory_key_padding_mask=padding(SOURCE),
    )
    real = torch.cat([row[:length] for row, length in zip(out, TARGET, strict=True)])
    expected = real @ ours.head.weight.T
    torch.testing.assert_close(ours(source, target), expected, rtol=0, atol=1e-5)


def test_base_has_the_papers_44_million_weights_beside_the_embeddings():
    with torch.device("meta"):
        model = build(TransformerConfig(size="base"), 37000, 37000)
    dim, hidden = 512, 2048
    attention = 4 * (dim * dim + dim)
    feed_forward = dim * hidden + hidden + hidden * dim + dim
    encoder = 6 * (attention + feed_forward + 2 * 2 * dim)
    decoder = 6 * (2 * attention + feed_forward + 3 * 2 * dim)
    assert encoder + decoder == 44_138_496
    total = sum(parameter.numel() for parameter in model.parameters())
    assert total == encoder + decoder + 37000 * dim  # one matrix for three roles: 63 million


@pytest.mark.parametrize("fields", [{}, {"kv_heads": 2}, {"activation": "gated_gelu"}])
@pytest.mark.parametrize("hidden", [48, 64])
def test_every_matrix_fills_its_own_glorot_bound(fields, hidden):
    """Joined matrices each have their own; hidden = 2 dim must not look like a joined one."""
    dim = 32
    model = build(tiny(dim=dim, hidden=hidden, **fields), 50, 50)
    block = model.decoder.blocks[1]
    attention, feed = block.cross_attention, block.feed_forward
    narrow = attention.kv_heads * attention.head_dim
    hidden_parts = feed.into.weight.split(hidden)
    assert len(hidden_parts) == (2 if "activation" in fields else 1)
    matrices = [
        (attention.query.weight, dim, dim),
        (attention.key_value.weight[:narrow], narrow, dim),
        (attention.key_value.weight[narrow:], narrow, dim),
        (attention.out.weight, dim, dim),
        *((part, hidden, dim) for part in hidden_parts),
        (feed.out.weight, dim, hidden),
    ]
    for matrix, rows, columns in matrices:
        assert matrix.shape == (rows, columns)
        bound = math.sqrt(6 / (rows + columns))
        assert 0.97 * bound < matrix.abs().max() <= bound
    for module in model.modules():
        if isinstance(module, nn.Linear):
            assert not module.bias.any()


@pytest.mark.parametrize("tied", ["all", "output", "none"])
@pytest.mark.parametrize("norm_place", ["pre", "post"])
@pytest.mark.parametrize("vocab", [12, 24, 260, 4000])
def test_the_first_loss_is_that_of_an_even_guess(tied, norm_place, vocab, ragged):
    config = TransformerConfig(size="tiny", tied=tied, norm_place=norm_place, dropout=0.0)
    model = build(config, vocab, vocab)
    source, target = ragged((9,) * 24, vocab), ragged((9,) * 24, vocab, seed=1)
    with torch.no_grad():
        loss = F.cross_entropy(model(source, target), ragged((216,), vocab, seed=2).ids)
    assert loss.item() == pytest.approx(math.log(vocab), abs=0.3)


TIED = {
    "all": [{"source_embed.weight", "target_embed.weight", "head.weight"}],
    "output": [{"source_embed.weight"}, {"target_embed.weight", "head.weight"}],
    "none": [{"source_embed.weight"}, {"target_embed.weight"}, {"head.weight"}],
}


@pytest.mark.parametrize("tied", TIED)
def test_tying_shares_what_it_says_and_nothing_else(tied):
    model = build(tiny(tied=tied), 11, 11)
    sharing = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        sharing.setdefault(parameter.data_ptr(), set()).add(name)
    groups = [names for names in sharing.values() if any(".blocks." not in n for n in names)]
    groups = [names for names in groups if not any("final_norm" in n for n in names)]
    assert sorted(groups, key=sorted) == sorted(TIED[tied], key=sorted)
    assert all(len(names) == 1 for names in sharing.values() if names not in TIED[tied])


def test_one_matrix_for_two_vocabularies_is_refused():
    with pytest.raises(InputError, match="vocabularies of 11 and 12"):
        build(tiny(tied="all"), 11, 12)
    assert build(tiny(tied="output"), 11, 12).head.weight.shape == (12, 16)


ATTENTION = [
    "query.weight", "query.bias", "key_value.weight", "key_value.bias", "out.weight", "out.bias",
]  # fmt: skip
FEED = ["into.weight", "into.bias", "out.weight", "out.bias"]


def test_parameter_names_are_the_checkpoints_and_do_not_change():
    model = build(tiny(encoder_layers=1, decoder_layers=1), 11, 11)
    norms = ["weight", "bias"]
    encoder = [
        *(f"self_norm.{n}" for n in norms),
        *(f"self_attention.{n}" for n in ATTENTION),
        *(f"feed_norm.{n}" for n in norms),
        *(f"feed_forward.{n}" for n in FEED),
    ]
    decoder = [
        *encoder,
        *(f"cross_norm.{n}" for n in norms),
        *(f"cross_attention.{n}" for n in ATTENTION),
    ]
    golden = [
        "source_embed.weight",
        "target_embed.weight",
        "head.weight",
        *(f"encoder.blocks.0.{n}" for n in encoder),
        *(f"decoder.blocks.0.{n}" for n in decoder),
        *(f"{stack}.final_norm.{n}" for stack in ("encoder", "decoder") for n in norms),
    ]
    assert sorted(model.state_dict()) == sorted(golden)


@pytest.mark.parametrize(
    ("fields", "added", "dropped"),
    [
        ({"positions": "learned"}, r"(en|de)coder\.positions\.table", None),
        ({"positions": "buckets"}, r"(en|de)coder\.positions\.table", None),
        ({"positions": "rotary"}, None, None),
        ({"norm_place": "post"}, None, r".*\.final_norm\..*"),
        ({"bias": False}, None, r".*(query|key_value|out|into)\.bias"),
        ({"norm": "rms"}, None, r".*norm\.bias"),
        ({"score": "additive"}, r".*(self|cross)_attention\.score\.vector", None),
    ],
)
def test_variants_add_or_drop_exactly_their_own_parameters(fields, added, dropped):
    plain = set(build(tiny(), 11, 11).state_dict())
    changed = set(build(tiny(**fields), 11, 11).state_dict())
    assert bool(changed - plain) == bool(added)
    assert all(re.fullmatch(added, name) for name in changed - plain)
    assert plain - changed == {name for name in plain if dropped and re.fullmatch(dropped, name)}


def test_norms_at_the_top_are_chosen_by_norm_place_unless_said():
    def tops(**fields):
        model = build(tiny(**fields), 11, 11)
        return [type(stack.final_norm).__name__ for stack in (model.encoder, model.decoder)]

    assert tops(norm_place="pre") == ["LayerNorm"] * 2
    assert tops(norm_place="post") == ["Identity"] * 2
    assert tops(norm_place="post", final_norm=True) == ["LayerNorm"] * 2
    assert tops(norm_place="pre", final_norm=False) == ["Identity"] * 2


def test_only_the_encoder_has_buckets_for_later_keys():
    model = build(tiny(positions="buckets"), 11, 11)
    assert model.encoder.positions.both_sides
    assert not model.decoder.positions.both_sides


def test_heads_are_named_one_by_one():
    names = build(tiny(), 11, 11).heads()
    assert len(names) == 2 * 4 + 2 * 2 * 4
    assert names[0] == "encoder.0.self.0"
    assert "decoder.1.cross.3" in names


def test_sites_name_everything_and_grouped_heads_by_their_number():
    sites = build(tiny(kv_heads=2, encoder_layers=1, decoder_layers=1), 11, 11).sites()
    assert sites["decoder.0.cross.k"] == sites["encoder.0.self.v"] == 2
    assert sites["decoder.0.cross.weights"] == sites["decoder.0.self.q"] == 4
    assert sites["decoder.0.residual"] == sites["logits"] == 0
    assert len(sites) == 3 + 3 * 7 + 2 * 2


def test_a_state_has_the_models_precision(ragged):
    model = build(tiny(), 11, 11).double()
    with torch.no_grad():
        state = model.start(model.encode(ragged((3, 2))), 1, 4)
        model.step(torch.tensor([1, 2]), state)
        cached = model.step(torch.tensor([3, 4]), state)
        whole = model(ragged((3, 2)), Ragged.of([[1, 3], [2, 4]]))[1::2]
    assert state.cache.layers[0].dtype == torch.float64
    torch.testing.assert_close(cached, whole, rtol=0, atol=1e-12)


def test_an_empty_source_gives_finite_logits_and_gradients(ragged):
    model = build(tiny(), 11, 11)
    for lengths in ((0, 3), (0, 0)):
        logits = model(ragged(lengths), ragged((2, 2)))
        assert logits.isfinite().all()
        logits.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_a_fresh_model_depends_on_the_seed_alone():
    torch.manual_seed(3)
    first = build(tiny(), 11, 11).state_dict()
    torch.manual_seed(3)
    second = build(tiny(), 11, 11).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
