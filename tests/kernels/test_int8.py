"""Products in 8 bits: how far off they may be, that nothing saturates, that rows stay apart."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.decode import DecodeConfig, Symbols, decode
from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.kernels import int8
from regard.kernels.int8 import ROW_STEPS, WEIGHT_STEPS, Int8Linear
from regard.layers import Tap, knock_out
from regard.models import BertConfig, TransformerConfig, ViTConfig, build
from regard.models.quantise import quantise

pytestmark = pytest.mark.skipif(
    int8.ENGINE not in torch.backends.quantized.supported_engines, reason="needs x86 with AVX2"
)


def whole(x, scale):
    """To the nearest whole number of steps, those halfway to the even one."""
    return (x.double() / scale).round()


@st.composite
def products(draw):
    rows, into, out = draw(st.integers(1, 9)), draw(st.integers(1, 70)), draw(st.integers(1, 40))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn(rows, into, generator=generator) ** draw(st.sampled_from([1, 3]))
    weight = torch.randn(out, into, generator=generator) * 10.0 ** draw(st.integers(-3, 3))
    return x * 10.0 ** draw(st.integers(-6, 6)), weight, torch.randn(out, generator=generator)


@given(products())
def test_the_error_is_at_most_what_rounding_to_steps_allows(drawn):
    x, weight, bias = drawn
    exact = x.double() @ weight.double().T + bias
    off_x = x.abs().amax(1, keepdim=True) / ROW_STEPS / 2  # half a step of each row
    off_w = weight.abs().amax(1) / WEIGHT_STEPS / 2  # … and of each output
    bound = x.abs().sum(1, keepdim=True) * off_w + off_x * (weight.abs() + off_w[:, None]).sum(1)
    bound = 1.001 * bound + 1e-6 * exact.abs() + 1e-6  # and of 32 bits
    assert ((Int8Linear(weight, bias)(x) - exact).abs() <= bound).all()


@given(products())
def test_it_is_the_sum_of_whole_numbers(drawn):
    x, weight, bias = drawn
    off_x, off_w = x.abs().amax(1, keepdim=True) / ROW_STEPS, weight.abs().amax(1) / WEIGHT_STEPS
    q_w = whole(weight, off_w[:, None])
    # Where x is halfway between two steps, 32 bits decide; leave those rows out.
    halfway = ((x.double() / off_x.double()) % 1 - 0.5).abs().amin(1) < 1e-4
    sums = whole(x, off_x) @ q_w.T
    expected = sums * off_x.double() * off_w.double() + bias
    got = Int8Linear(weight, bias)(x)
    size = (x.abs().double() @ weight.abs().double().T) + bias.abs()
    assert ((got - expected).abs() <= 1e-5 * size)[~halfway].all()


@pytest.mark.parametrize("into", [2, 64, 512, 2048])
@pytest.mark.parametrize("sign_x", [1.0, -1.0])
@pytest.mark.parametrize("sign_w", [1.0, -1.0])
def test_nothing_saturates_where_all_numbers_are_the_largest(into, sign_x, sign_w):
    x, weight = torch.full((5, into), sign_x), torch.full((33, into), sign_w)
    expected = torch.full((5, 33), sign_x * sign_w * into)
    torch.testing.assert_close(Int8Linear(weight)(x), expected, rtol=1e-6, atol=0)


def test_a_row_is_the_same_bit_for_bit_alone_and_among_any_others():
    torch.manual_seed(0)
    layer, x = Int8Linear(torch.randn(300, 512), torch.randn(300)), torch.randn(128, 512)
    together = layer(x)
    for row in range(0, 128, 17):
        assert torch.equal(layer(x[row : row + 1])[0], together[row])
    others = x * 10.0 ** torch.randint(-20, 20, (128, 1)).float()  # huge and tiny neighbours
    others[::3] = x[::3]
    others[1], others[2] = 0, torch.nan
    assert torch.equal(layer(others)[::3], together[::3])
    assert torch.equal(layer(x.flip(0)).flip(0), together)


def test_a_row_of_zeros_gives_the_bias_and_one_that_is_no_number_says_so():
    bias = torch.tensor([0.25, -3.0])
    layer, x = Int8Linear(torch.randn(2, 5), bias), torch.randn(4, 5)
    x[0], x[1, 3], x[2, 0] = 0, torch.nan, torch.inf
    out = layer(x)
    assert torch.equal(out[0], bias)
    assert not out[1:3].isfinite().any()
    assert out[3].isfinite().all()
    assert torch.equal(Int8Linear(torch.zeros(2, 5), bias)(torch.ones(1, 5))[0], bias)


def test_the_weights_can_be_read_again():
    weight = torch.randn(7, 9)
    half = weight.abs().amax(1, keepdim=True) / WEIGHT_STEPS / 2
    assert ((Int8Linear(weight).weight - weight).abs() <= half * 1.001).all()


VARIANTS = [
    {},
    {"norm_place": "post", "kv_heads": 2},
    {"activation": "gated_silu", "norm": "rms", "positions": "rotary", "bias": False},
    {"score": "additive", "positions": "buckets", "tied": "none"},
]


@pytest.fixture(params=VARIANTS, ids=str)
def model(request):
    torch.manual_seed(0)
    sizes = {"dim": 32, "heads": 4, "hidden": 48}
    return build(TransformerConfig.model_validate(sizes | request.param), 20, 20).eval()


SOURCE, TARGET = Ragged.of([[3, 4, 5], [6, 7], [8, 9, 10, 11]]), Ragged.of([[1, 4], [1], [1, 5, 6]])
SYMBOLS = Symbols(begin=1, end=0, pad=2, banned=(1, 2))


@torch.inference_mode()
def test_a_model_in_8_bits_says_nearly_the_same(model):
    exact, rounded = model(SOURCE, TARGET), quantise(model)(SOURCE, TARGET)
    assert not torch.equal(exact, rounded)
    assert (exact - rounded).norm() < 0.06 * exact.norm()
    wanted = torch.arange(6)
    losses = [float(m.loss(SOURCE, TARGET, wanted, 0.1)) for m in (model, quantise(model))]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


@torch.inference_mode()
def test_the_loss_is_that_of_the_logits(model):
    twin, wanted = quantise(model), torch.arange(6)
    logits = twin(SOURCE, TARGET)
    expected = torch.nn.functional.cross_entropy(logits, wanted, reduction="sum")
    torch.testing.assert_close(twin.loss(SOURCE, TARGET, wanted), expected)


def test_all_matrices_are_in_8_bits_and_the_rest_is_shared(model):
    before = copy.deepcopy(model.state_dict())
    twin = quantise(model)
    assert {name: value.tolist() for name, value in model.state_dict().items()} == {
        name: value.tolist() for name, value in before.items()
    }, "the model itself stays as it was"
    assert not any(isinstance(module, torch.nn.Linear) for module in twin.modules())
    left = {name: value.data_ptr() for name, value in twin.named_parameters()}
    addresses = {name: value.data_ptr() for name, value in model.named_parameters()}
    assert left.items() <= addresses.items()
    matrices = [name for name, value in twin.named_parameters() if value.dim() == 2]
    assert all("embed" in name or "positions" in name or "score" in name for name in matrices)


@torch.inference_mode()
def test_decoding_steps_agree_with_whole_sentences_in_8_bits(model):
    twin = quantise(model)
    state = twin.start(twin.encode(SOURCE), 1, 4)
    twin.step(torch.tensor([1, 1, 1]), state)
    logits = twin.step(torch.tensor([4, 4, 4]), state)
    whole = twin(SOURCE, Ragged.of([[1, 4]] * 3))[1::2]
    torch.testing.assert_close(logits, whole, rtol=0, atol=0.05)


@pytest.mark.slow
def test_a_sentence_gets_the_same_alone_and_in_a_batch(model):
    twin = quantise(model)
    sentences = [[3 + (5 * i + j) % 16 for j in range(2 + i % 5)] for i in range(12)]
    config = DecodeConfig(beam=3, n_best=3, max_length=9)
    together = decode(twin, Ragged.of(sentences), SYMBOLS, config)
    for sentence, hypotheses in zip(sentences, together, strict=True):
        [alone] = decode(twin, Ragged.of([sentence]), SYMBOLS, config)
        assert [hypothesis.ids for hypothesis in hypotheses] == [
            hypothesis.ids for hypothesis in alone
        ]


@torch.inference_mode()
def test_taps_look_and_edits_act_in_8_bits_too(model):
    twin = quantise(model)
    plain, tap = twin(SOURCE, TARGET), Tap("*")
    assert torch.equal(twin(SOURCE, TARGET, tap), plain), "looking changes nothing"
    assert set(tap.records) == set(twin.sites())
    weights, v, heads = (
        tap.records[f"decoder.0.self.{site}"][2] for site in ("weights", "v", "heads")
    )  # the longest sentence: no padding
    v = v.repeat_interleave(len(weights) // len(v), dim=0)
    torch.testing.assert_close(weights @ v, heads)
    without = twin(SOURCE, TARGET, Tap(edits=[knock_out("decoder.1.cross.2")]))
    assert not torch.equal(without, plain)


def test_a_model_in_8_bits_is_not_trained_or_saved(model):
    twin = quantise(model)
    with pytest.raises(InputError, match="a model to be trained"):
        twin.train()
    with pytest.raises(InputError, match="a model to be saved"):
        twin.state_dict()
    assert not twin.eval().training


def test_a_machine_without_the_kernels_is_told_so(model, monkeypatch):
    monkeypatch.setattr("regard.models.quantise.ENGINE", "none")
    with pytest.raises(InputError, match="expected an x86 processor with AVX2"):
        quantise(model)


def test_packing_leaves_pytorchs_engine_as_it_was():
    before = torch.backends.quantized.engine
    Int8Linear(torch.ones(2, 2))
    assert torch.backends.quantized.engine == before


def test_rows_of_texts_that_are_read_stay_exact_and_those_of_images_do_not():
    sizes = {"dim": 16, "heads": 2, "hidden": 16, "layers": 1}
    bert = build(BertConfig(**sizes, max_length=8), 30)
    vit = build(ViTConfig(**sizes, image=(8, 8), patch=2, classes=("a", "b")))
    for model, exact in ((bert, True), (vit, False)):
        layers = [layer for layer in quantise(model).modules() if isinstance(layer, Int8Linear)]
        assert layers
        assert {layer.exact for layer in layers} == {exact}
