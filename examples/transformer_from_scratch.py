"""The Transformer of "Attention is all you need" in plain PyTorch, in the order of the lectures.

    python examples/transformer_from_scratch.py FOLDER "I walk my dog every day."

FOLDER is a translator of Regard, such as `regard/shipped/small/translate`. The last line that is
printed is the translation, the same as by `regard translate FOLDER SENTENCE`. Nothing here is
imported from Regard. Regard computes the same, faster; where it does so:

    here                             there
    texts of one length in a batch   sentences of all lengths end to end: regard/layers/layout.py
    softmax(QK^T / sqrt(d)) V        a fused kernel, weights on request: regard/layers/attention.py
    the whole target in every step   keys and values are kept: regard/layers/state.py
    one beam search                  batches, sampling, filters: regard/decode/

Shapes: b texts of n source or m target tokens, d = dim, h heads of width d/h, V entries of the
vocabulary.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import torch
import yaml
from safetensors import safe_open
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

BEGIN, END = "<s>", "</s>"
SETTINGS = {"norm_place": "pre", "activation": "relu", "positions": "sinusoidal", "tied": "all"}
"""The settings of a model that this file can load."""


# 1. Tokens and embeddings: a sentence is a list of ids, an id selects a row of a matrix.


class Embedding(nn.Module):
    """x_i = sqrt(d) · E[id_i] + PE(i)"""

    def __init__(self, vocabulary: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocabulary, dim) / math.sqrt(dim))  # E, (V, d)

    def forward(self, ids: Tensor) -> Tensor:
        dim = self.weight.shape[1]
        return math.sqrt(dim) * self.weight[ids] + positions(ids.shape[1], dim)  # (b, n, d)


# 2. Positions: attention does not see the order of words, so each position adds its own vector.


def positions(length: int, dim: int) -> Tensor:
    """PE(i, 2j) = sin(i / 10000^(2j/d)),  PE(i, 2j+1) = cos(i / 10000^(2j/d))"""
    i = torch.arange(length, dtype=torch.float64)[:, None]  # (n, 1)
    angles = i / 10000 ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)  # (n, d/2)
    return torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1).float()  # (n, d)


# 3. Attention: each query takes a weighted mean of the values; similar keys have large weights.


def attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V"""
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])  # (b, h, m, n)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)  # each row sums to 1
    return weights @ values  # (b, h, m, d/h)


def causal_mask(length: int) -> Tensor:
    """Token i may attend to tokens 0 … i, and not to the future: (m, m), True where allowed."""
    return torch.ones(length, length, dtype=torch.bool).tril()


# 4. Heads: attention h times, each time on its own projections; W^O mixes the results.


class MultiHeadAttention(nn.Module):
    """MultiHead = Concat(head_1, …, head_h) W^O,  head_i = Attention(X W_i^Q, Y W_i^K, Y W_i^V)

    In self-attention Y is X; in cross-attention Y is what the encoder has made of the source.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)  # all W_i^Q side by side
        self.key_value = nn.Linear(dim, 2 * dim)  # all W_i^K, then all W_i^V
        self.out = nn.Linear(dim, dim)  # W^O

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)  # (b, n, d) -> (b, h, n, d/h)

    def forward(self, x: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        keys, values = self.key_value(y).chunk(2, dim=-1)  # (b, n, d) each
        heads = attention(self.split(self.query(x)), self.split(keys), self.split(values), mask)
        return self.out(heads.transpose(1, 2).flatten(2))  # (b, h, m, d/h) -> (b, m, d)


# 5. Blocks: attention, then a feed-forward for each token, each with a norm and a residual.


class FeedForward(nn.Module):
    """FFN(x) = W_2 max(0, W_1 x + b_1) + b_2"""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.relu(self.into(x)))


class EncoderBlock(nn.Module):
    """x = x + SelfAttention(norm(x)),  x = x + FFN(norm(x))"""

    def __init__(self, dim: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.self_norm, self.self_attention = nn.LayerNorm(dim), MultiHeadAttention(dim, heads)
        self.feed_norm, self.feed_forward = nn.LayerNorm(dim), FeedForward(dim, hidden)

    def forward(self, x: Tensor) -> Tensor:
        y = self.self_norm(x)
        x = x + self.self_attention(y, y)  # (b, n, d)
        return x + self.feed_forward(self.feed_norm(x))


class DecoderBlock(EncoderBlock):
    """As the encoder's, but masked, and with cross-attention to the encoder's output between."""

    def __init__(self, dim: int, heads: int, hidden: int) -> None:
        super().__init__(dim, heads, hidden)
        self.cross_norm, self.cross_attention = nn.LayerNorm(dim), MultiHeadAttention(dim, heads)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        y = self.self_norm(x)
        x = x + self.self_attention(y, y, causal_mask(x.shape[1]))  # (b, m, d)
        x = x + self.cross_attention(self.cross_norm(x), memory)  # queries (m), keys (n)
        return x + self.feed_forward(self.feed_norm(x))


class Stack(nn.Module):
    """Blocks one after the other, and a norm at the end."""

    def __init__(self, blocks: list[nn.Module], dim: int) -> None:
        super().__init__()
        self.blocks, self.final_norm = nn.ModuleList(blocks), nn.LayerNorm(dim)

    def forward(self, x: Tensor, *memory: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, *memory)
        return self.final_norm(x)


# 6. The Transformer: source -> memory; memory and the target so far -> logits of the next token.


class Transformer(nn.Module):
    """One matrix E embeds both languages, and gives the logits: z_i = E x_i."""

    def __init__(self, vocabulary: int, config: dict) -> None:
        super().__init__()
        dim, sizes = config["dim"], (config["dim"], config["heads"], config["hidden"])
        encoder = [EncoderBlock(*sizes) for _ in range(config["encoder_layers"])]
        decoder = [DecoderBlock(*sizes) for _ in range(config["decoder_layers"])]
        self.source_embed = Embedding(vocabulary, dim)
        self.encoder, self.decoder = Stack(encoder, dim), Stack(decoder, dim)

    def encode(self, source: Tensor) -> Tensor:
        return self.encoder(self.source_embed(source))  # (b, n) -> (b, n, d)

    def forward(self, memory: Tensor, target: Tensor) -> Tensor:
        x = self.decoder(self.source_embed(target), memory)  # (b, m, d)
        return x @ self.source_embed.weight.T  # (b, m, V)


# 7. Training: each target token is predicted from those before it (teacher forcing).


def loss(model: Transformer, source: Tensor, target: Tensor, smoothing: float = 0.1) -> Tensor:
    """Cross-entropy, -log p(y_i | y_<i, source), with label smoothing; target: <s> … </s>"""
    logits = model(model.encode(source), target[:, :-1])  # (b, m - 1, V)
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), label_smoothing=smoothing)


# 8. Decoding: a beam of the best translations so far, each continued by its best next tokens.


def beam_search(
    model: Transformer, source: Tensor, begin: int, end: int, beam: int, penalty: float
) -> list[int]:
    """The tokens with the highest sum of log p(y_i | y_<i, source) / length^penalty."""
    memory, longest = model.encode(source), 2 * source.shape[1] + 10
    running: list[tuple[float, list[int]]] = [(0.0, [begin])]
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, longest + 1):
        logits = model(memory, torch.tensor([ids for _, ids in running]))[:, -1]  # (beam, V)
        best = logits.log_softmax(dim=1).topk(2 * beam)  # (beam, 2 beam) each
        candidates = [
            (total + score, [*ids, token])
            for (total, ids), scores, tokens in zip(running, *map(Tensor.tolist, best), strict=True)
            for score, token in zip(scores, tokens, strict=True)
        ]
        candidates.sort(key=lambda pair: -pair[0])  # pairs of a sum of log p, and ids
        running = [(total, ids) for total, ids in candidates[: 2 * beam] if ids[-1] != end][:beam]
        ended = [pair for pair in candidates[:beam] if pair[1][-1] == end or length == longest]
        finished += [(total / length**penalty, ids) for total, ids in ended]
        finished = sorted(finished, key=lambda pair: -pair[0])[:beam]
        if len(finished) == beam and running[0][0] / length**penalty <= finished[-1][0]:
            break  # no translation that is still running can become better than these
    return [token for token in finished[0][1][1:] if token != end]


# 9. A trained model: its settings, weights and tokenizer are three files; none of them is code.


def load(folder: Path) -> tuple[Transformer, Tokenizer, dict]:
    """Read a folder: an 8-bit matrix is stored as integers and one scale for each row."""
    config = json.loads((folder / "config.json").read_text())
    other = {key: config["model"].get(key) for key in SETTINGS} | {"family": config["family"]}
    if other != SETTINGS | {"family": "transformer"}:
        sys.exit(f"{folder} has the settings {other}; this file is for {SETTINGS}")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = Transformer(config["source_vocab"], config["model"])
    with safe_open(folder / "model.safetensors", "pt") as file:
        weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
    for name in [name for name in weights if name.endswith(".scales")]:
        weights[name.removesuffix(".scales")] *= weights.pop(name)[:, None]
    model.load_state_dict(weights)
    return model.eval(), tokenizer, yaml.safe_load((folder / "recipe.yaml").read_text())["decode"]


@torch.inference_mode()
def translate(sentence: str, model: Transformer, tokenizer: Tokenizer, settings: dict) -> str:
    """Text -> ids -> beam search -> ids -> text."""
    source = torch.tensor([tokenizer.encode(sentence).ids])  # (1, n)
    begin, end = tokenizer.token_to_id(BEGIN), tokenizer.token_to_id(END)
    beam, penalty = settings["beam"], settings["length_penalty"]
    return tokenizer.decode(beam_search(model, source, begin, end, beam, penalty))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python transformer_from_scratch.py FOLDER SENTENCE")
    print(translate(sys.argv[2], *load(Path(sys.argv[1]))))
