"""Recurrence: the kernel, the loop, what passes the gates, and edits of them."""

from __future__ import annotations

import pytest
import torch

from regard.errors import InputError
from regard.layers import Edit, Recurrent, Tap, knock_out, plain_context, recurrent, replace
from regard.layers.recurrent import CELLS, DIRECTIONS, GATES

LENGTHS = (3, 5, 1)


@pytest.fixture(params=[(cell, way) for cell in CELLS for way in DIRECTIONS], ids="-".join)
def layer(request):
    cell, direction = request.param
    return Recurrent(8, "encoder.0.recurrent", cell=cell, direction=direction)


@torch.no_grad()
@pytest.mark.parametrize("lengths", [LENGTHS, (4, 4), (1, 1, 1)])
def test_the_loop_is_the_kernel(layer, lengths):
    x, ctx = torch.randn(sum(lengths), 8), plain_context(lengths)
    torch.testing.assert_close(
        layer.step_by_step(x, ctx.layout)[0], layer(x, ctx), rtol=0, atol=1e-6
    )


def by_hand(cells, texts):
    """`gru_before`, as the lecture writes it, a token and a gate at a time."""
    w_r, w_z, w_n = cells.weight_ih_l0.chunk(3)
    u_r, u_z, u_n = cells.weight_hh_l0.chunk(3)
    b_r, b_z, b_n = (cells.bias_ih_l0 + cells.bias_hh_l0).chunk(3)
    states = []
    for text in texts:
        h = torch.zeros(cells.hidden_size)
        for x in text:
            z = torch.sigmoid(w_z @ x + u_z @ h + b_z)
            r = torch.sigmoid(w_r @ x + u_r @ h + b_r)
            candidate = torch.tanh(w_n @ x + u_n @ (r * h) + b_n)
            h = (1 - z) * h + z * candidate
            states.append(h)
    return torch.stack(states)


def test_a_gru_that_resets_before_the_matrix_is_the_lectures_with_its_gradients():
    layer, x = Recurrent(8, cell="gru_before"), torch.randn(9, 8, requires_grad=True)
    weights = torch.randn(9, 8)
    ours, plain = layer(x, plain_context(LENGTHS)), by_hand(layer.cells, x.split(LENGTHS))
    torch.testing.assert_close(ours, plain, rtol=0, atol=1e-6)
    inputs = [x, *layer.parameters()]
    mine, theirs = (torch.autograd.grad((out * weights).sum(), inputs) for out in (ours, plain))
    for tensor, expected in zip(mine, theirs, strict=True):
        torch.testing.assert_close(tensor, expected, rtol=0, atol=2e-6)
    after = Recurrent(8, cell="gru")  # it is another function than PyTorch's
    after.load_state_dict(layer.state_dict())
    assert not torch.allclose(after(x, plain_context(LENGTHS)), ours, atol=1e-2)


@torch.no_grad()
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_a_layer_that_reads_from_the_end_is_pytorchs_on_the_reversed_text(cell):
    back = Recurrent(8, cell=cell, direction="backward")
    apart, x = Recurrent(16, cell=cell, direction="apart"), torch.randn(9, 8)
    apart.backward_cells = back.cells
    out, texts = back(x, plain_context(LENGTHS)), x.split(LENGTHS)
    expected = torch.cat([back.cells(text.flip(0))[0].flip(0) for text in texts])
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-6)
    both = apart(torch.cat((2 * x, x), 1), plain_context(LENGTHS))
    forward = torch.cat([apart.cells(2 * text)[0] for text in texts])
    torch.testing.assert_close(both, torch.cat((forward, expected), 1), rtol=0, atol=1e-6)


@torch.no_grad()
def test_the_loop_computes_no_padding():
    layer, computed = Recurrent(8, cell="gru_before"), []
    real = recurrent.gates_of

    def counted(cell, from_x, *others):
        computed.append(len(from_x))
        return real(cell, from_x, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recurrent, "gates_of", counted)
        layer(torch.randn(9, 8), plain_context(LENGTHS))
    assert computed == [3, 2, 2, 1, 1]  # texts of 3, 5 and 1 tokens


@torch.no_grad()
def test_a_text_is_read_by_itself(layer):
    x, ctx = torch.randn(9, 8), plain_context(LENGTHS)
    alone = [layer(text, plain_context((len(text),))) for text in x.split(LENGTHS)]
    torch.testing.assert_close(layer(x, ctx), torch.cat(alone), rtol=0, atol=1e-6)


@torch.no_grad()
def test_a_text_without_tokens_gives_none(layer):
    x = torch.randn(5, 8)
    out = layer(x, plain_context((2, 0, 3)))
    torch.testing.assert_close(out, layer(x, plain_context((2, 3))), rtol=0, atol=1e-6)


@torch.no_grad()
def test_what_a_tap_sees_beside_the_kernel_is_what_the_loop_computes(layer):
    x, tap, edited = torch.randn(9, 8), Tap("*"), Tap("*", edits=[Edit("*", lambda value: value)])
    out = layer(x, plain_context(LENGTHS, tap=tap))
    assert torch.equal(out, layer(x, plain_context(LENGTHS)))
    assert set(tap.records) == set(layer.sites())
    layer(x, plain_context(LENGTHS, tap=edited))  # an edit takes the loop
    assert set(edited.records) == set(tap.records)
    for site, seen in tap.records.items():
        assert seen.shape == (3, 5, 8 if site == layer.name else layer.width)
        torch.testing.assert_close(edited.records[site], seen, rtol=0, atol=1e-6)
        assert not seen[2, 1:].any()  # where there is no token


@torch.no_grad()
def test_a_gate_that_is_shut_keeps_what_was_held():
    layer, x = Recurrent(8, "decoder.0.recurrent", cell="gru"), torch.randn(9, 8)

    def shut_at_two(update):
        update = update.clone()
        update[:, 2] = 1  # h = h as it was
        return update

    tap = Tap("*.state", edits=[Edit("decoder.0.recurrent.update", shut_at_two)])
    layer(x, plain_context(LENGTHS, tap=tap))
    states, plain = tap.records["decoder.0.recurrent.state"], layer(x, plain_context(LENGTHS))
    assert torch.equal(states[1, 2], states[1, 1])
    torch.testing.assert_close(states[1, 1], plain[4], rtol=0, atol=1e-6)
    assert not torch.allclose(states[1, 3], plain[6], atol=1e-3)  # and it is felt afterwards


@torch.no_grad()
def test_a_recorded_gate_can_be_put_into_another_run():
    layer = Recurrent(8, "decoder.0.recurrent", cell="lstm", direction="both")
    x, other, tap = torch.randn(9, 8), torch.randn(9, 8), Tap("*.state", "*.cell")
    layer(x, plain_context(LENGTHS, tap=tap))
    edits = [replace(site, value) for site, value in tap.records.items()]
    out = layer(other, plain_context(LENGTHS, tap=Tap(edits=edits)))
    torch.testing.assert_close(out, layer(x, plain_context(LENGTHS)), rtol=0, atol=1e-6)


def test_gates_have_the_names_that_sites_say():
    sites = Recurrent(8, "a", cell="lstm").sites()
    assert list(sites) == ["a", *(f"a.{gate}" for gate in GATES["lstm"])]
    with pytest.raises(InputError, match="no such site"):
        Tap(edits=[knock_out("decoder.0.recurrent.1")]).begin(sites)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cell": "mamba"}, "cell: got mamba, expected one of rnn, gru, gru_before, lstm"),
        ({"direction": "both"}, "both ways: got dim 7"),
        ({"direction": "sideways"}, "direction: got sideways, expected one of forward"),
    ],
)
def test_a_layer_that_cannot_be_is_refused(given, says):
    with pytest.raises(InputError, match=says):
        Recurrent(7, **given)
