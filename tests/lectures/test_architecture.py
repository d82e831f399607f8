"""The diagram of a model: its boxes, their parameters, and what is refused."""

from __future__ import annotations

import pytest

from regard import plan
from regard.errors import InputError
from regard_lectures import show
from tests.legible import problems


@pytest.mark.parametrize("model", ["base", "gpt2", "bert-base", "t5-small", "vit-b"])
def test_the_parameters_of_the_boxes_are_those_of_the_model(model):
    numbers = show("architecture", model=model).numbers
    cost = plan(model, flops=1e12)
    assert numbers["total"] == cost.total == sum(numbers["groups"].values())
    for name, side in numbers["sides"].items():
        labels = dict(zip(side["parts"], side["parameters"], strict=True))
        [feed] = [count for label, count in labels.items() if label.startswith("feed-forward")]
        assert feed * side["count"] == cost.parameters[f"{name} feed-forward"]
        attention = [count for label, count in labels.items() if "self-attention" in label]
        assert sum(attention) * side["count"] == cost.parameters[f"{name} self-attention"]


def test_only_a_model_with_both_sides_says_where_its_decoder_reads():
    assert "reads the top of the encoder" in show("architecture").caption
    assert "reads the top" not in show("architecture", model="gpt2").caption


@pytest.mark.parametrize(
    "model", ["resnet-50", "cnn-lenet", "tiny/recurrent", "tiny/caption-rnn", "small/translate"]
)
def test_every_kind_of_model_has_a_diagram_that_can_be_read(model):
    drawing = show("architecture", model=model)
    assert problems(drawing.figure) == []
    assert model in drawing.title


def test_settings_can_be_changed_and_wrong_ones_are_refused():
    drawing = show("architecture", model="tiny/recurrent", change="model.attention=none")
    assert "one context vector" in drawing.numbers["sides"]["decoder"]["parts"]
    with pytest.raises(InputError, match="no such size or recipe"):
        show("architecture", model="nothing")


def test_a_network_of_rows_is_drawn_by_its_hidden_layers():
    drawing = show("architecture", model="own/table", change="model.hidden=[8,3]")
    parts = drawing.numbers["sides"]["encoder"]["parts"]
    assert parts[1:3] == ["linear 4 → 8, relu", "linear 8 → 3, relu"]
    assert "2 encoder hidden layers" in drawing.title
    assert problems(drawing.figure) == []
