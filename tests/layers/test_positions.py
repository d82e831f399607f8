"""Position schemes, against their formulas as loops, complex numbers, and `transformers`."""

from __future__ import annotations

import itertools
import math
from functools import partial

import pytest
import torch

from regard.errors import InputError
from regard.layers import POSITIONS, position_scheme, sinusoid
from regard.layers.positions import (
    INITIAL_ROWS,
    Buckets,
    Learned,
    Rotary,
    Sinusoidal,
    interpolate_table,
    linear_scaling,
    llama3_scaling,
    sinusoid_2d,
)


@pytest.mark.parametrize("dim", [8, 7, 2])
def test_sinusoid_is_the_papers_formula(dim):
    table = sinusoid(40, dim)
    for position in range(40):
        for feature in range(dim):
            angle = position / 10000 ** (2 * (feature // 2) / dim)
            expected = math.cos(angle) if feature % 2 else math.sin(angle)
            assert table[position, feature].item() == pytest.approx(expected, abs=1e-6)


def test_a_shift_is_the_same_linear_map_everywhere():
    """PE(i + k) = M_k PE(i) with M_k made of rotations, whatever i."""
    dim, shift = 16, 5
    table = sinusoid(60, dim).double()
    turn = torch.zeros(dim, dim, dtype=torch.float64)
    for j in range(0, dim, 2):
        angle = shift / 10000 ** (j / dim)
        cosine, sine = math.cos(angle), math.sin(angle)
        turn[j : j + 2, j : j + 2] = torch.tensor([[cosine, sine], [-sine, cosine]])
    torch.testing.assert_close(table[shift:], table[:-shift] @ turn.T, rtol=0, atol=1e-5)


def test_wavelengths_grow_from_2_pi_to_10000_times_that():
    table = sinusoid(6300, 8)
    for j in (1, 2, 3):  # the first, 2 π, is too short to be met by a whole place
        wavelength = 2 * math.pi * 10000 ** (2 * j / 8)
        rounding = math.pi / wavelength  # of a place that is half a place off, as an angle
        whole, half = table[round(wavelength)], table[round(wavelength / 2)]
        wave = slice(2 * j, 2 * j + 2)
        torch.testing.assert_close(whole[wave], table[0, wave], rtol=0, atol=rounding)
        torch.testing.assert_close(half[wave], -table[0, wave], rtol=0, atol=rounding)


def test_sinusoids_are_added_and_not_learned_or_saved():
    scheme = Sinusoidal(8, 2, 20)
    where = torch.tensor([0, 1, 0, 7])
    x = torch.randn(4, 8)
    torch.testing.assert_close(scheme.add(x, where), x + sinusoid(20, 8)[where])
    assert not list(scheme.parameters())
    assert not scheme.state_dict()


def test_learned_positions_are_an_embedding_of_the_place():
    scheme = Learned(8, 2, 20)
    where = torch.tensor([0, 1, 0, 7])
    x = torch.randn(4, 8)
    expected = x + torch.nn.functional.embedding(where, scheme.table)
    torch.testing.assert_close(scheme.add(x, where), expected)
    scheme.add(x, where).sum().backward()
    assert scheme.table.grad[:, 0].tolist()[:9] == [2, 1, 0, 0, 0, 0, 0, 1, 0]


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_multiplies_complex_numbers(interleaved):
    scheme = Rotary(16, 2, 50, interleaved=interleaved)
    where = torch.tensor([0, 3, 49])
    x = torch.randn(3, 2, 8)
    pairs = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :4], x[..., 4:])
    number = torch.complex(*pairs)
    rate = 10000.0 ** (-torch.arange(4, dtype=torch.float64) / 4)
    turned = number * torch.exp(1j * where[:, None, None] * rate)
    out = scheme.rotate(x, where).double()
    mine = (out[..., 0::2], out[..., 1::2]) if interleaved else (out[..., :4], out[..., 4:])
    torch.testing.assert_close(torch.complex(*mine), turned, rtol=0, atol=1e-5)


def test_rotary_is_llamas():
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import (
        LlamaRotaryEmbedding,
        apply_rotary_pos_emb,
    )

    config = LlamaConfig(hidden_size=16, num_attention_heads=2, max_position_embeddings=64)
    q, k = torch.randn(1, 2, 30, 8), torch.randn(1, 2, 30, 8)
    where = torch.arange(30)
    cosine, sine = LlamaRotaryEmbedding(config)(q, where[None])
    expected = apply_rotary_pos_emb(q, k, cosine, sine)
    scheme = Rotary(16, 2, 64)
    for x, reference in zip((q, k), expected, strict=True):
        mine = scheme.rotate(x[0].transpose(0, 1), where).transpose(0, 1)
        torch.testing.assert_close(mine, reference[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("interleaved", [False, True])
def test_a_rotary_product_depends_on_the_distance_alone(interleaved):
    scheme = Rotary(8, 1, 100, interleaved=interleaved)
    q, k = torch.randn(8), torch.randn(8)
    products = [
        scheme.rotate(q.view(1, 1, 8), torch.tensor([m])).flatten()
        @ scheme.rotate(k.view(1, 1, 8), torch.tensor([m + 7])).flatten()
        for m in (0, 1, 30, 92)
    ]
    torch.testing.assert_close(torch.stack(products), products[0].expand(4), rtol=0, atol=1e-5)
    other = scheme.rotate(k.view(1, 1, 8), torch.tensor([8])).flatten()
    assert abs(q @ other - products[0]) > 1e-3


@pytest.mark.parametrize("both_sides", [False, True])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (16, 50)])
def test_buckets_are_t5s(both_sides, buckets, farthest):
    from transformers.models.t5.modeling_t5 import T5Attention

    scheme = Buckets(8, 2, 10, both_sides=both_sides, buckets=buckets, farthest=farthest)
    offset = torch.arange(-1000, 1001)
    expected = T5Attention._relative_position_bucket(offset, both_sides, buckets, farthest)
    assert torch.equal(scheme.bucket(offset), expected)


@pytest.mark.parametrize("decoder", [False, True])
def test_the_bias_of_buckets_is_t5s(decoder):
    from transformers.models.t5.configuration_t5 import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(d_model=8, num_heads=2, d_kv=4, is_decoder=decoder)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    scheme = Buckets(8, 2, 10, both_sides=not decoder)
    scheme.table.data.copy_(theirs.relative_attention_bias.weight)
    mine = scheme.bias(torch.arange(200)[None], 200)
    torch.testing.assert_close(mine, theirs.compute_bias(200, 200))
    last = scheme.bias(torch.tensor([[199]]), 200)  # one new token beside a cache
    torch.testing.assert_close(last, mine[:, :, -1:])


@pytest.mark.parametrize("kind", POSITIONS)
def test_every_scheme_fills_one_plug_point_and_leaves_the_others(kind):
    scheme = position_scheme(kind, dim=8, heads=2, max_length=20, causal=False)
    x, where = torch.randn(3, 8), torch.tensor([1, 2, 3])
    filled = {
        "add": not torch.equal(scheme.add(x, where), x),
        "rotate": not torch.equal(scheme.rotate(x.view(3, 2, 4), where), x.view(3, 2, 4)),
        "bias": scheme.bias(where[None], 4) is not None,
    }
    plug_point = {
        "sinusoidal": "add",
        "sinusoidal_halves": "add",
        "sinusoidal_2d": "add",
        "learned": "add",
        "rotary": "rotate",
        "buckets": "bias",
    }
    assert [name for name, used in filled.items() if used] == (
        [plug_point[kind]] if kind != "none" else []
    )


def test_sinusoids_of_row_and_column_are_those_of_the_formula():
    table = sinusoid_2d((3, 5), 12, before=2)
    assert table.shape == (17, 12)
    assert not table[:2].any()
    for row, column, k in itertools.product(range(3), range(5), range(3)):
        rate = 10000 ** (-k / 3)
        waves = [
            wave(coordinate * rate) for coordinate in (row, column) for wave in (math.sin, math.cos)
        ]
        assert table[2 + 5 * row + column, k::3].tolist() == pytest.approx(waves, abs=1e-6)


def test_tables_are_interpolated_for_another_grid():
    table = torch.randn(1 + 4 * 4, 8)
    assert torch.equal(interpolate_table(table, (4, 4), (4, 4), 1), table)
    larger = interpolate_table(table, (4, 4), (6, 3), 1)
    assert larger.shape == (1 + 18, 8)
    assert torch.equal(larger[0], table[0])
    flat = interpolate_table(torch.ones(1 + 16, 8), (4, 4), (7, 9), 1)
    torch.testing.assert_close(flat, torch.ones(64, 8))


def test_an_unknown_scheme_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="got alibi, expected one of none, sinusoidal"):
        position_scheme("alibi", dim=8, heads=2, max_length=20, causal=False)


@pytest.mark.parametrize("dim", [8, 7])
def test_halves_are_marians_sines_first_then_cosines(dim):
    table = sinusoid(40, dim, halves=True)
    interleaved = sinusoid(40, dim)
    assert torch.equal(table[:, : (dim + 1) // 2], interleaved[:, 0::2])
    assert torch.equal(table[:, (dim + 1) // 2 :], interleaved[:, 1::2])
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    theirs = MarianSinusoidalPositionalEmbedding(40, dim).create_weight()
    torch.testing.assert_close(table, theirs, rtol=0, atol=1e-5)
    scheme = position_scheme("sinusoidal_halves", dim=dim, heads=1, max_length=40, causal=True)
    assert torch.equal(scheme.add(torch.zeros(2, dim), torch.tensor([3, 39])), table[[3, 39]])


@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal_halves", "rotary"])
def test_a_computed_table_grows_with_the_texts_and_has_the_same_numbers(kind):
    make = partial(position_scheme, kind, dim=8, heads=2, causal=True)
    scheme, whole = make(max_length=2**24), make(max_length=5000)
    rows = lambda table_of: len(table_of.table if kind != "rotary" else table_of.sine)  # noqa: E731
    assert rows(scheme) == INITIAL_ROWS
    whole.extend_to(5000)
    with torch.inference_mode():
        scheme.extend_to(3000)
    assert 3000 <= rows(scheme) <= 5000 == rows(whole)
    where, x = torch.tensor([0, 1023, 1024, 2999]), torch.randn(4, 2, 4, requires_grad=True)
    grown_output, expected = (
        table_of.rotate(x, where) if kind == "rotary" else table_of.add(x.flatten(1), where)
        for table_of in (scheme, whole)
    )
    assert torch.equal(grown_output, expected)
    grown_output.sum().backward()  # what grew while nothing was learned can be learned with
    bounded = make(max_length=1500)
    bounded.extend_to(9000)
    assert rows(bounded) == 1500


ROPES = {
    "linear": ({"factor": 3.0}, linear_scaling(3.0)),
    "llama3": (
        {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 128},
        llama3_scaling(4.0, 1.0, 4.0, 128),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ROPES)
@pytest.mark.parametrize("base", [10_000.0, 300.0])
def test_stretched_rotary_is_llamas(kind, base):
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    theirs, scaling = ROPES[kind]
    config = LlamaConfig(
        hidden_size=64, num_attention_heads=2, head_dim=24, max_position_embeddings=512,
        rope_parameters={"rope_type": kind, "rope_theta": base, **theirs},
    )  # fmt: skip
    where = torch.tensor([0, 1, 100, 511])
    cosine, sine = LlamaRotaryEmbedding(config)(torch.zeros(1), where[None])
    scheme = Rotary(64, 2, 512, head_dim=24, rate=base, scaling=scaling)
    torch.testing.assert_close(scheme.cosine[where], cosine[0, :, :12], rtol=0, atol=1e-4)
    torch.testing.assert_close(scheme.sine[where], sine[0, :, :12], rtol=0, atol=1e-4)
    plain = Rotary(64, 2, 512, head_dim=24, rate=base)
    assert not torch.allclose(scheme.sine[where], plain.sine[where], atol=1e-2)


def test_llama3_leaves_short_waves_and_slows_long_ones():
    frequencies = torch.tensor([1.0, 2 * math.pi * 4 / 100, 2 * math.pi * 2 / 100, 1e-4])
    stretched = llama3_scaling(8.0, 1.0, 4.0, 100)(frequencies) / frequencies
    torch.testing.assert_close(stretched, torch.tensor([1, 1, 1 / 3 + 2 / 3 / 8, 1 / 8]))
