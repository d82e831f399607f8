"""Figure of part 5: the position-wise feed-forward of a model, on a person's own text.

    h = f(x W_1 + b_1),   y = h W_2 + b_2        each word x by itself; f: ReLU, GELU, SiLU
    h = f(x W_1) ⊙ (x W_3)                        if it is gated

Shown are the hidden units that are most active for each word, how many are silent, and how likely
the model finds its output with and without each feed-forward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import Pipeline, load
from regard.draw import (
    BLUE,
    ORANGE,
    SMALLEST,
    positive_scale,
    scientific,
    shorten,
    signed_scale,
    visible,
)
from regard.draw import TEXT as SIZE
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words, in_words
from regard.inputs import TextReader
from regard.layers import FeedForward, Tap
from regard.tasks import symbols_of
from regard_lectures.limits import model_line

TEXT = "The animal didn't cross the street because it was too tired."
SILENT = 0.1
"""A unit of another function than ReLU counts as silent below this share of the largest."""
MOST_WORDS, UNITS, BARS = 10, 6, 8
"""Tokens, units and feed-forwards that are drawn."""
SAME = 1e-4
"""Outputs that differ by less than this share of the largest are the same."""
NEEDED, SPARED = 0.5, 0.95
"""The output needs a layer if less than this share of its probability is left without it; above
the second it hardly changes."""
LONGEST, LONGEST_OUTPUT = 130, 420
"""Pixels: longer tokens and longer outputs are cut."""
MEASURED = {
    "encoder-decoder": "a token of its output",
    "decoder": "the next token of the text",
    "encoder": "a masked token of the text",
}
"""Whose probability is measured, by the kind of model."""


def feed_forwards(pipeline: Pipeline) -> dict[str, FeedForward]:
    """The feed-forwards of a model by name, such as `encoder.0.feed_forward`.

    Raises:
        InputError: If the model does not read text, or has none.
    """
    layers = {m.name: m for m in pipeline.model.modules() if isinstance(m, FeedForward)}
    if not layers or not issubclass(type(pipeline.reader), TextReader):
        got = "no feed-forward" if not layers else f"a model of {pipeline.reader.nouns}"
        raise InputError(f"show feedforward: {pipeline.name}", got=got,
                         expected="a Transformer of texts, such as tiny/translate")  # fmt: skip
    return layers


def chosen(layers: Sequence[str], part: str, layer: int) -> str:
    """The name of the feed-forward of a layer of a stack.

    Raises:
        InputError: If there is none.
    """
    parts = list(dict.fromkeys(name.partition(".")[0] for name in layers))
    if part not in parts:
        raise InputError("part", got=part, expected=" or ".join(parts))
    names = {int(name.split(".")[1]): name for name in layers if name.startswith(part)}
    if layer not in names:
        raise InputError("layer", got=layer, expected=f"0 to {max(names)} of the {part}")
    return names[layer]


@contextmanager
def without(layer: FeedForward | None) -> Iterator[None]:
    """While this context is open, a feed-forward adds nothing; None: all are as they are."""
    hooks = []
    if layer is not None:
        hooks = [layer.register_forward_hook(lambda _, __, out: torch.zeros_like(out))]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class Reading:
    """A text as a model reads it, and the tokens whose probability is measured.

    An encoder-decoder: the tokens of its own output. A decoder: each next token of the text. An
    encoder: each token of the text, while it alone is masked.

    Attributes:
        tokens: The tokens of the encoder (of the only stack), and of a decoder.
        output: What the model writes, if it writes.
    """

    def __init__(self, pipeline: Pipeline, text: str) -> None:
        TextReader.check("--text", text)
        self._pipeline, self._text = pipeline, text
        tokenizer = pipeline.vocabulary.source
        model, longest = pipeline.model, pipeline.model.config.max_length
        self._ids: list[int] = tokenizer.read([text])[0].values
        if not 1 < len(self._ids) <= longest:
            raise InputError("--text", got=f"{len(self._ids)} tokens", expected=f"2 to {longest}")
        self.output, self.kind = "", "encoder"
        self.tokens = {name.partition(".")[0]: tokenizer.tokens(self._ids)
                       for name in feed_forwards(pipeline)}  # fmt: skip
        if model.config.has_target:
            task, target = pipeline.task.task_for(text), pipeline.vocabulary.target
            self._ids = task.read(model, [text], allow_unknown=True)[0].values
            self.output, self.kind = self.write(), "encoder-decoder"
            written = task.target_ids(self.output, longest)
            self._given, self._wanted = [target.begin, *written], [*written, target.end]
            self.tokens["encoder"] = tokenizer.tokens(self._ids)
            self.tokens["decoder"] = target.tokens(self._given)
        elif "decoder" in self.tokens:
            self.kind = "decoder"

    def write(self) -> str:
        """What an encoder-decoder writes for the text; empty for other models."""
        model, task = self._pipeline.model, self._pipeline.task
        if not model.config.has_target:
            return ""
        settings: dict[str, Any] = {"decode": self._pipeline.decoding(), "allow_unknown": True}
        trace = task.task_for(self._text).trace(model, self._text, Tap(), target=None, **settings)
        return str(trace.output)

    def probabilities(self) -> list[float]:
        """The probability of each token that is measured."""
        pipeline, ids = self._pipeline, self._ids
        if self.kind == "encoder-decoder":
            logits, wanted = pipeline.logits(ids, self._given), self._wanted
        elif self.kind == "decoder":
            logits, wanted = pipeline.logits(ids)[:-1], ids[1:]
        else:
            symbols = symbols_of(pipeline.vocabulary.source)
            indices = [i for i, token in enumerate(ids) if token not in symbols.special]
            rows = [[*ids[:i], symbols.mask, *ids[i + 1 :]] for i in indices]
            masked = pipeline.logits(rows)
            logits = torch.stack([row[i] for i, row in zip(indices, masked, strict=True)])
            wanted = [ids[i] for i in indices]
        shares = logits.float().softmax(-1)  # (tokens, vocabulary)
        return shares[torch.arange(len(wanted)), torch.tensor(wanted)].tolist()

    def given_to(self, layer: FeedForward) -> Tensor:
        """What enters a feed-forward for this text: (tokens, dim)."""
        entered: list[Tensor] = []
        hook = layer.register_forward_pre_hook(lambda _, given: entered.append(given[0]))
        try:
            if self.kind == "encoder-decoder":
                self._pipeline.logits(self._ids, self._given)
            else:
                self._pipeline.logits(self._ids)
        finally:
            hook.remove()
        return entered[-1]


def hidden_of(layer: FeedForward, x: Tensor) -> Tensor:
    """The hidden units of a feed-forward: (tokens, dim) -> (tokens, hidden)."""
    first, *gates = layer.into(x).chunk(2 if layer.gated else 1, dim=-1)
    hidden: Tensor = layer.function(first)  # f(x W_1 + b_1)
    return hidden * gates[0] if gates else hidden


def most_active(hidden: Tensor, count: int) -> list[int]:
    """The most active unit of each token, then the second ones, and so on, each unit once."""
    order = hidden.abs().argsort(1, descending=True)  # (tokens, hidden)
    return list(dict.fromkeys(order.T.flatten().tolist()))[:count]


@torch.inference_mode()
def measure_layer(layer: FeedForward, x: Tensor, seed: int = 0) -> Numbers:
    """What a feed-forward does with the tokens of a text.

    Args:
        layer: The feed-forward.
        x: (tokens, dim) What enters it.
        seed: The seed of another order of the tokens.
    """
    hidden, out = hidden_of(layer, x), layer(x)
    zero = layer.function is torch.nn.functional.relu and not layer.gated
    border = 0.0 if zero else SILENT * hidden.abs().amax(1, keepdim=True)
    silent = (hidden.abs() <= border).float().mean(1)  # (tokens,)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    units = most_active(hidden, UNITS)
    return {
        "dim": x.shape[1],
        "hidden": hidden.shape[1],
        "silent_is_zero": zero,
        "silent": silent.tolist(),
        "units": units,
        "activations": hidden[:, units].tolist(),
        "out_of_order": float((layer(x[order]) - out[order]).abs().max() / out.abs().max()),
    }


def effect_of(numbers: Numbers) -> str:
    """What taking the layer away does to the output, in words."""
    change, share = numbers["change"], numbers["share_left"]
    if numbers["output_without"] != numbers["output"]:
        return "without the layer the output is another"
    if SPARED < share < 2 - SPARED:
        return "the output hardly changes without the layer"
    if abs(change) < numbers["margin"]:
        return "this text cannot tell if the layer matters"
    if change > 0:
        return "the output is likelier without the layer"
    return f"the output {'needs the layer' if share < NEEDED else 'is less likely without it'}"


def words_feedforward(numbers: Numbers) -> Words:
    """How many units are silent, whether words are read apart, and whether the output needs it."""
    silent, off = float(np.mean(numbers["silent"])), numbers["out_of_order"]
    many = "Most" if silent > 0.55 else "Few" if silent < 0.45 else "Half of the"
    order = "exactly the same outputs"
    if off > 0:
        order = (
            f"{'the same' if off < SAME else 'other'} outputs, {scientific(float(f'{off:.1g}'))}"
        )
        order += " of the largest apart"
    what = "are 0" if numbers["silent_is_zero"] else f"are below {SILENT:g} of the largest"
    other = numbers["output_without"]
    writes = ""
    if numbers["output"]:
        cut = shorten(other, LONGEST_OUTPUT, SIZE)
        writes = "; it writes " + ("the same" if other == numbers["output"] else f"“{cut}”")
    caption = (
        f"{silent:.0%} of {numbers['hidden']:,} units ({numbers['hidden'] / numbers['dim']:.2g} × "
        f"the width) {what}. Words in another order get {order}. Without "
        f"{in_words(numbers['layer'])} {numbers['measured']} has a probability of "
        f"{numbers['without'][numbers['layer']]:.2f}, with it {numbers['with_all']:.2f}{writes}."
    )
    return Words(f"{many} hidden units are silent; {effect_of(numbers)}", caption)


def feedforward(text: str | None, model: str, part: str, layer: int) -> Drawing:
    """Draw the hidden units of a feed-forward, and what the output loses without it.

    Args:
        text: A text; None: the lecture's sentence.
        model: The name or folder of a model.
        part: `encoder` or `decoder`.
        layer: The layer's number, from 0.
    """
    pipeline = load(model, device="cpu")
    layers = feed_forwards(pipeline)
    if part == "encoder" and not any(name.startswith(part) for name in layers):
        part = "decoder"  # the only stack
    name, written = chosen(list(layers), part, layer), ""
    reading = Reading(pipeline, TEXT if text is None else text)
    before = np.array(reading.probabilities())
    left = {}
    for other, feed_forward in layers.items():
        with without(feed_forward):
            left[other] = np.array(reading.probabilities())
            written = reading.write() if other == name else written
    changes = left[name] - before  # of each token
    numbers: Numbers = {
        "model": pipeline.name,
        "layer": name,
        "tokens": [visible(token) for token in reading.tokens[part]],
        **measure_layer(layers[name], reading.given_to(layers[name])),
        "measured": MEASURED[reading.kind],
        "with_all": float(before.mean()),
        "without": {other: float(shares.mean()) for other, shares in left.items()},
        "share_left": float(left[name].mean() / before.mean()),
        "change": float(changes.mean()),
        "margin": 2 * float(changes.std() / max(1, len(changes) - 1) ** 0.5),
        "output": reading.output,
        "output_without": written,
    }
    details = (
        f"y = f(x W_1 + b_1) W_2 + b_2 of {name} in {pipeline.name}. Left: the units that are most "
        f"active for the words, {UNITS} of {numbers['hidden']:,}. Middle: the share of units that "
        f"are silent. Right: the probability of {numbers['measured']}, as a mean, with all "
        "feed-forwards and with one of them adding nothing; the title says that this text cannot "
        "tell if the change is less than two standard errors over the tokens. The output with all: "
        f"“{reading.output}”."
    )
    limits = model_line(pipeline)
    with Board(words_feedforward(numbers), (1.75, 0.42, 1.25), details, limits=limits) as board:
        _draw(board, numbers)
        return board.drawing(**numbers)


def _draw(board: Board, numbers: Numbers) -> None:
    """Draw units by words, the share of silent ones, and the probability without each layer."""
    tokens = [shorten(token, LONGEST, SMALLEST) for token in numbers["tokens"]][:MOST_WORDS]
    shown, total = len(tokens), len(numbers["tokens"])
    cells = np.array(numbers["activations"])[:shown]
    reach = float(np.abs(cells).max()) or 1.0
    scale = signed_scale(reach) if cells.min() < 0 else positive_scale(reach)
    cut = f", the first {shown} of {total}" if shown < total else ""
    board.matrix(0, "most active hidden units", cells, scale,
                 (tokens, [str(unit) for unit in numbers["units"]]),
                 (f"word{cut}", "unit"), ".1f")  # fmt: skip
    silent = 100 * np.array(numbers["silent"])[:shown, None]
    board.matrix(1, "silent", silent, positive_scale(100), ([""] * shown, ["%"]),
                 ("", "units"), ".0f")  # fmt: skip
    bars = {"all": numbers["with_all"], **numbers["without"]}
    name = numbers["layer"]
    others = [other for other in bars if other not in ("all", name)]
    drawn = ["all", *[other for other in bars if other == name or other in others[: BARS - 2]]]
    drawn = list(dict.fromkeys(drawn))
    heading = "probability of a token"
    left_out = len(bars) - len(drawn)
    below = f"without each; {left_out} not shown" if left_out else "with all, without each"
    axes = board.chart(2, heading, "", below, ticks=140)
    labels = [other.rpartition(".")[0].replace(".", " ") or other for other in drawn]
    colours = [ORANGE if other == name else BLUE for other in drawn]
    axes.barh(range(len(drawn)), [bars[other] for other in drawn], 0.65, color=colours)
    for index, other in enumerate(drawn):
        axes.write((bars[other] + 0.02, index), f"{bars[other]:.2f}", va="center")
    axes.set_yticks(range(len(drawn)), labels)
    axes.set(xlim=(0, 1.28), ylim=(len(drawn) - 0.4, -0.6))
    axes.set_xticks([0, 0.5, 1])
