"""Attention step by step: every number of one head of one layer, from one forward pass.

Input: a task, its model and a text. The model reads the text once, with a tap that records
queries, keys, values, weights, the heads' outputs and the layer's output. Output: `Steps`, whose
arrays follow from one another in the order of the paper:

    q = x W_Q + b_Q,   k = y W_K + b_K,   v = y W_V + b_V        y is x, or the memory (cross)
    scores = q kᵀ,   scaled = scores / √d_k,   weights = softmax(scaled + bias, masked)
    sum = weights v,   joined = Concat(sums of all heads),   out = joined W_O + b_O

and then those of the rest of the block: residual connection, norm, feed-forward (`sublayers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.errors import InputError
from regard.explain import find_word
from regard.layers import Product, Tap
from regard.tasks import Trace
from regard_lectures.sublayers import (
    Sublayer,
    array_of,
    block_of,
    passed_through,
    sublayers_of,
)

Array = npt.NDArray[np.float32]
PARTS = {"encoder": "encoder.self", "decoder": "decoder.self", "cross": "decoder.cross"}
"""Short names of the three kinds of attention of a Transformer."""
MOST_NUMBERS = 200_000
"""Matrices with more numbers than this are left out of the JSON by default."""


@dataclass(frozen=True, eq=False)
class Steps:
    """All numbers of one attention head for one text, with n queries and m keys.

    Attributes:
        site: The layer, such as `encoder.0.self`.
        head: The number of the head.
        heads: The number of heads of the layer.
        tokens: The n tokens of the queries.
        keys: The m tokens of the keys; in self-attention the same.
        row: The index of the query token that is followed.
        whole_word: The word that this token ends, if it has several tokens and was chosen as a
            word; else empty.
        x: (n, dim) The layer's input.
        memory: (m, dim) The input of keys and values if it is not x (cross-attention).
        projections: (n, d_k) and (m, d_k): x W_Q + b_Q and y W_K + b_K before norms and positions
            are applied; None if q and k are the plain projections.
        q: (n, d_k) The queries as used in the product.
        k: (m, d_k) The keys as used in the product.
        v: (m, d_v) The values.
        scores: (n, m) q·k, or v·tanh(q + k) in additive attention.
        scale: The factor of the scores: 1/√d_k, or 1.
        bias: (n, m) The bias added to the scaled scores (relative positions), if there is one.
        mask: (n, m) True where attention is allowed.
        weights: (n, m) The attention weights.
        sums: (n, heads · d_v) The outputs of all heads, concatenated.
        out: (n, dim) The layer's output.
        matrices: W_Q, W_K, W_V of this head, (dim, d_k), and W_O (heads · d_v, dim), by name, with
            their biases.
        vector: (d_k,) The vector v of additive attention.
        changed: A sentence on what is applied to q and k between projection and product.
        note: A remark about the text.
        attention_layer: The sub-layer of this attention: residual connection and norm; None in a
            model without blocks.
        feed_forward: The feed-forward sub-layer that follows it in its block, if there is one.
    """

    site: str
    head: int
    heads: int
    tokens: tuple[str, ...]
    keys: tuple[str, ...]
    row: int
    x: Array
    memory: Array | None
    projections: tuple[Array, Array] | None
    q: Array
    k: Array
    v: Array
    scores: Array
    scale: float
    bias: Array | None
    mask: npt.NDArray[np.bool_]
    weights: Array
    sums: Array
    out: Array
    matrices: Mapping[str, Array]
    vector: Array | None
    changed: str = ""
    note: str = ""
    whole_word: str = ""
    attention_layer: Sublayer | None = None
    feed_forward: Sublayer | None = None

    @property
    def label(self) -> str:
        """What is followed, for titles: the token, or the whole word that it ends."""
        return self.whole_word or self.tokens[self.row]

    @property
    def scaled(self) -> Array:
        """scores / √d_k: (n, m)."""
        return (self.scores * np.float32(self.scale)).astype(np.float32)

    @property
    def sum(self) -> Array:
        """The output of this head, weights v: (n, d_v)."""
        width = self.v.shape[1]
        return self.sums[:, self.head * width : (self.head + 1) * width]

    @property
    def cross(self) -> bool:
        """Whether keys and values come from another sequence."""
        return self.memory is not None

    def to_json(self, *, matrices: bool | None = None) -> dict[str, Any]:
        """All numbers in a form that JSON can hold, without loss of precision.

        Args:
            matrices: Whether to include W_Q, W_K, W_V and W_O; None: if they have at most
                `MOST_NUMBERS` numbers.
        """
        sublayers = {"": self.attention_layer, "feed_": self.feed_forward}
        known = {prefix: layer for prefix, layer in sublayers.items() if layer is not None}
        learned = dict(self.matrices)
        for prefix, layer in known.items():
            learned |= {f"{prefix}{name}": matrix for name, matrix in layer.matrices.items()}
        size = sum(matrix.size for matrix in learned.values())
        with_matrices = size <= MOST_NUMBERS if matrices is None else matrices
        q_projected, k_projected = self.projections or (None, None)
        arrays = {
            "x": self.x, "memory": self.memory, "q_projected": q_projected,
            "k_projected": k_projected, "q": self.q, "k": self.k, "v": self.v,
            "scores": self.scores, "scaled": self.scaled, "vector": self.vector,
            "bias": self.bias, "mask": self.mask, "weights": self.weights, "sum": self.sum,
            "joined": self.sums, "out": self.out, **(learned if with_matrices else {}),
        }  # fmt: skip
        for prefix, layer in known.items():
            arrays |= layer.to_arrays(prefix)
        return {
            "layer": self.site,
            "head": self.head,
            "heads": self.heads,
            "word": self.tokens[self.row],
            **({"whole_word": self.whole_word} if self.whole_word else {}),
            "row": self.row,
            "tokens": list(self.tokens),
            "key_tokens": list(self.keys),
            "note": self.remarks,
            "scale": self.scale,
            **({"norm_place": self.attention_layer.norm_place} if self.attention_layer else {}),
            **({"activation": self.feed_forward.activation} if self.feed_forward else {}),
            **{name: _plain(array) for name, array in arrays.items() if array is not None},
        }

    @property
    def remarks(self) -> str:
        """The remarks `changed` and `note` as one text."""
        return " ".join(part for part in (self.changed, self.note) if part)


def _plain(values: npt.NDArray[Any]) -> Any:
    """Nested lists; nine digits identify any 32-bit float exactly."""
    if values.ndim > 1:
        return [_plain(row) for row in values]
    if values.dtype == np.bool_:
        return values.tolist()
    return [float(f"{value:.9g}") for value in values.tolist()]


class _Recorder(Tap):
    """A tap that also keeps the input of one layer's attention kernel.

    Args:
        site: The layer, such as `encoder.0.self`.
    """

    def __init__(self, site: str) -> None:
        super().__init__(f"{site}.weights", f"{site}.heads", f"{site}.out")
        self.site = site
        self.product: Product | None = None

    def attention(self, product: Product, out: Tensor) -> Tensor:
        """Keep the queries, keys, values, mask and bias of the layer; the output is unchanged."""
        if product.name == self.site:
            self.product = product
        return super().attention(product, out)


def choose_site(model: Any, part: str = "", layer: int = 0, head: int = 0) -> str:
    """The name of the attention layer that the options select.

    Args:
        model: The model.
        part: `encoder`, `decoder` or `cross`, or a layer's name such as `decoder.1.cross`; by
            default the model's first stack.
        layer: The layer's number within the part, from 0; ignored if `part` names a layer.
        head: The head's number, from 0.

    Raises:
        InputError: If there is no such layer or head; the message lists the existing ones.
    """
    heads = {
        site.removesuffix(".weights"): count
        for site, count in model.sites().items()
        if site.endswith(".weights")
    }
    if not heads:
        raise InputError("steps", got="a model without attention", expected="one with it")
    stacks = list(dict.fromkeys(_stack(name) for name in heads))
    known = [name for name, stack in PARTS.items() if stack in stacks]
    if part in heads:
        site = part
    else:
        stack = PARTS.get(part, part) if part else stacks[0]
        layers = [name for name in heads if _stack(name) == stack]
        if not layers:
            raise InputError(
                "part", got=part, expected=f"{', '.join(known)}, or one of {', '.join(heads)}"
            )
        if not 0 <= layer < len(layers):
            raise InputError(
                "layer", got=layer, expected=f"0 to {len(layers) - 1} of {stack} ({len(layers)})"
            )
        site = layers[layer]
    if not 0 <= head < heads[site]:
        raise InputError("head", got=head, expected=f"0 to {heads[site] - 1} of {site}")
    return site


def _stack(site: str) -> str:
    """The stack and kind of a site: `decoder.1.cross` -> `decoder.cross`."""
    stack, _, kind = site.split(".")
    return f"{stack}.{kind}"


def record(
    task: Any,
    model: Any,
    text: str,
    site: str,
    head: int,
    *,
    word: str = "",
    decode: Any = None,
    target: str | None = None,
) -> Steps:
    """Run the model on a text and record everything that one head of one layer computes.

    Args:
        task: The task, which encodes the text for the model.
        model: The model.
        text: The input text; for an encoder-decoder, the source.
        site: The layer, as returned by `choose_site`.
        head: The number of the head.
        word: The query to follow: a word, a token, or a token's index from 0; by default the last
            word.
        decode: The decoding options that produce the target of an encoder-decoder.
        target: A target to force instead of decoding one.

    Raises:
        InputError: If the text cannot be encoded, or the word is not in it.
    """
    settings: dict[str, Any] = {"decode": decode, "allow_unknown": False}
    searched = model.config.has_target and target is None
    if searched:  # decode a target first, then run source and target in one pass
        target = task.trace(model, text, Tap(), target=None, **settings).output or ""
    layer = next(
        module
        for module in model.modules()
        if getattr(module, "name", "") == site and hasattr(module, "matrices")
    )
    tap, entered, block = _Recorder(site), [], block_of(model, site)
    hook = layer.register_forward_pre_hook(lambda _, given: entered.append(given))
    try:
        with passed_through(block) as passed:
            trace = task.trace(model, text, tap, target=target, **settings)
    finally:
        hook.remove()
    assert tap.product is not None
    x, context = entered[-1]
    tokens, keys = (tuple(labels) for labels in trace.pieces[_stack(site)])
    memory = context.memory.x if layer.cross else None
    row, note, whole = _find(tokens, _words(trace, _stack(site)), word)
    notes = [note, "" if searched else trace.note]
    with torch.inference_mode():
        numbers = _numbers(layer, head, tap.product, tap.records, x, memory)
    attention_layer, feed_forward = sublayers_of(block, site, passed)
    return Steps(
        site, head, layer.heads, tokens, keys, row, **numbers, note=" ".join(filter(None, notes)),
        whole_word=whole, attention_layer=attention_layer, feed_forward=feed_forward,
    )  # fmt: skip


def _numbers(
    layer: Any,
    head: int,
    product: Product,
    records: Mapping[str, Tensor],
    x: Tensor,
    memory: Tensor | None,
) -> dict[str, Any]:
    """The arrays of `Steps` for one head of a recorded layer, by name; the batch size is 1.

    Args:
        layer: The attention layer.
        head: The number of the head.
        product: The input of the attention kernel.
        records: The recorded weights, heads' outputs and layer output, by site.
        x: (n, dim) The layer's input.
        memory: (m, dim) The encoder's output, for cross-attention.
    """
    group = head * layer.kv_heads // layer.heads  # the key-value head of this head
    q, k, v = product.q[0, head], product.k[0, group], product.v[0, group]
    matrices = _matrices(layer, head, group)
    scores, scale = q @ k.T, float(getattr(product.score, "scale", 1.0))
    vector = getattr(product.score, "vector", None)
    if vector is not None:  # additive attention
        scores, scale = product.score.scores(q[None, None], k[None, None], [head])[0, 0], 1.0
        vector = vector[head].view(layer.head_dim)
    mask = product.mask.dense(len(q), len(k))
    mask = torch.ones(1, dtype=torch.bool) if mask is None else mask
    bias = None if product.bias is None else product.bias[0, head].expand(len(q), len(k))
    projections = (
        x @ matrices["w_q"] + matrices.get("b_q", 0.0),
        (x if memory is None else memory) @ matrices["w_k"] + matrices.get("b_k", 0.0),
    )
    as_they_are = _alike(projections[0], q) and _alike(projections[1], k)
    tensors = {
        "x": x, "memory": memory, "q": q, "k": k, "v": v, "scores": scores, "bias": bias,
        "vector": vector, "weights": records[f"{layer.name}.weights"][0, head],
        "sums": records[f"{layer.name}.heads"][0].transpose(0, 1).flatten(1),  # (n, heads · d_v)
        "out": records[f"{layer.name}.out"][0],
    }  # fmt: skip
    return {
        **{name: None if tensor is None else array_of(tensor) for name, tensor in tensors.items()},
        "projections": None if as_they_are else tuple(map(array_of, projections)),
        "scale": scale,
        "mask": mask.expand(1, 1, len(q), len(k))[0, 0].numpy().copy(),
        "matrices": {name: array_of(matrix) for name, matrix in matrices.items()},
        "changed": "" if as_they_are else _what_changed(layer, x, q, head),
    }


def _matrices(layer: Any, head: int, group: int) -> dict[str, Tensor]:
    """W_Q, W_K, W_V of this head in the orientation of x W, W_O of all heads, and the biases."""
    width = layer.head_dim
    head_rows, group_rows = (
        slice(number * width, (number + 1) * width) for number in (head, group)
    )
    matrices = {"w_q": layer.query.weight[head_rows].T}
    keys = layer.key_value.weight[: layer.kv_heads * width]
    values = layer.key_value.weight[layer.kv_heads * width :]
    matrices["w_k"] = keys[group_rows].T
    if layer.own_values:
        matrices |= {"w_v": values[group_rows].T, "w_o": layer.out.weight.T}
    if layer.query.bias is not None:
        matrices["b_q"] = layer.query.bias[head_rows]
    if layer.key_value.bias is not None:
        matrices["b_k"] = layer.key_value.bias[: layer.kv_heads * width][group_rows]
        if layer.own_values:
            matrices["b_v"] = layer.key_value.bias[layer.kv_heads * width :][group_rows]
    if getattr(layer.out, "bias", None) is not None:
        matrices["b_o"] = layer.out.bias
    return matrices


def _what_changed(layer: Any, x: Tensor, q: Tensor, head: int) -> str:
    """A sentence on why q and k differ from x W: norms, then positions."""
    ways = []
    if layer.query_norm is not None:
        ways.append("normed")
        normed = layer.query_norm(layer.query(x).view(-1, layer.heads, layer.head_dim))[:, head]
        turned = not _alike(normed, q)
    else:
        turned = True
    ways += ["turned by their positions"] if turned else []
    return f"q and k are those that meet in the product: after x W they are {' and '.join(ways)}."


def _alike(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors are equal up to rounding."""
    return torch.allclose(first, second, rtol=1e-4, atol=1e-5 * float(second.abs().max()) + 1e-6)


def _words(trace: Trace, stack: str) -> tuple[Sequence[str], Sequence[int]]:
    """The words of the query side, and for each query token the number of its word."""
    if stack == "decoder.self" or len(trace.pieces) == 1:
        return trace.words[stack][1]  # the words read; query labels would be the words predicted
    return trace.words[stack][0] if stack == "encoder.self" else trace.words["decoder.self"][1]


def _find(
    tokens: Sequence[str], words: tuple[Sequence[str], Sequence[int]], word: str
) -> tuple[int, str, str]:
    """The index of the token that `word` selects, a note on the choice, and the whole word.

    The whole word is empty if the token is one, or was chosen itself. Of a word of several tokens
    it is the last token, which in a decoder attends to the others.

    Args:
        tokens: The query tokens.
        words: The words, and for each token the number of its word.
        word: A word, a token, or a token's index; empty for the last word.
    """
    names, index = words
    last_of = {number: position for position, number in enumerate(index)}
    if not word:
        spoken = [number for number in last_of if any(map(str.isalnum, names[number]))]
        plain = [number for number in spoken if not names[number].startswith(("<", "["))]
        chosen = (plain or spoken or list(last_of))[-1]
        return last_of[chosen], *_pieces(tokens, names[chosen], index, chosen)
    if word.isdecimal() and word not in names and int(word) < len(tokens):
        return int(word), "", ""
    bare = [token.strip("▁ ") for token in tokens]
    if word not in names and word in bare:
        return bare.index(word), "", ""
    try:
        number, note = find_word([*names], word)
    except InputError as error:
        known = " ".join(dict.fromkeys(names))
        raise InputError(
            "word",
            got=repr(word),
            expected=f"one of: {known}",
            fix=f"or a number: 0 to {len(tokens) - 1}",
        ) from error
    said, whole = _pieces(tokens, word, index, number)
    return last_of[number], f"{note} {said}".strip(), whole


def _pieces(tokens: Sequence[str], word: str, index: Sequence[int], number: int) -> tuple[str, str]:
    """A note on the tokens of a word of several tokens, and the word; empty for one token."""
    pieces = [
        token for token, word_number in zip(tokens, index, strict=True) if word_number == number
    ]
    if len(pieces) == 1:
        return "", ""
    said = " · ".join(piece.strip("▁ ") for piece in pieces)
    return f"{said}: the last token.", word
