"""Recurrent models of one stack: a language model, ELMo, and an encoder for classes and tags.

    language model   p(x_{t+1} | x_1 … x_t) = softmax(E h_t), with h_t the state after token t
    ELMo             the same, and p(x_{t-1} | x_t … x_n) = softmax(E h'_t) of a network that reads
                     from the end; the vector of token t is [h_t; h'_t]        (Peters et al. 2018)
    classifier       softmax(W h_n + b); both ways, W [h_n; h'_1]
    tagger           softmax(W h_t + b) of each token; both ways, W [h_t; h'_t]

The layers are `regard.layers.recurrent`: packed tokens, without work on padding.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.inputs.arrays import Ragged
from regard.kernels.linear import Linear
from regard.layers import Context, Dropout, Embed, Positions, Stack, Tap, VocabularyHead
from regard.layers.init import draw_glorot
from regard.models.decoder import Decoder
from regard.models.encoder import BaseEncoder
from regard.models.families.rnn import RNNConfig
from regard.models.model import Model
from regard.models.recurrent import last_states


class EmbedTwice(Embed):
    """The embedding of two language models beside each other: a copy of E[id] for each."""

    def forward(
        self, ids: Tensor, positions: Tensor, scheme: Positions, types: Tensor | None = None
    ) -> Tensor:
        """ids (tokens,), or (tokens, 2) if each network reads other ids -> (tokens, 2 · dim)."""
        del positions, scheme, types  # a recurrent network has no positions
        pairs = ids[:, None].expand(-1, 2) if ids.dim() == 1 else ids
        return self.dropout(F.embedding(pairs, self.weight).flatten(1) * self.scale)

    def table(self) -> Tensor:
        """The vector of each token without its context: (vocab, 2 · dim)."""
        return self.weight.repeat(1, 2)


class RecurrentLM(Decoder):
    """A recurrent language model; with `direction: both` two of them, which do not see each other.

    Decoding, logits and suggestions are those of the forward network. The vectors of tokens
    (`hidden`) are the states of both.

    Args:
        config: The model's settings.
        vocab: Size of the vocabulary.

    Example:
        >>> elmo = RecurrentLM(RNNConfig(dim=8, direction="both"), vocab=20)
        >>> elmo.hidden(Ragged.of([[5, 6, 7], [8]])).shape        # two texts, four tokens in all
        torch.Size([4, 8])
    """

    config: Any
    """An `RNNConfig`."""

    def __init__(self, config: RNNConfig, vocab: int) -> None:
        Model.__init__(self)
        self.config, self.vocab = config, vocab
        both = config.bidirectional
        layers = config.changed(direction="apart").decoder if both else config.decoder
        self.embed = (EmbedTwice if both else Embed)(vocab, config.width, layers.dropout)
        self.decoder = Stack(layers, "decoder")
        tied = self.embed.weight if config.head.tied == "all" else None
        self.head = VocabularyHead(config.width, vocab, tied, bias=True)
        draw_glorot(self, config.width)
        # Larger than for Transformers, which normalize x: from vectors as small as those, the gates
        # hardly differ from word to word, and the loss stays at that of word frequencies for long.
        bound = (6 / config.width) ** 0.5
        torch.nn.init.uniform_(self.embed.weight, -bound, bound)

    def loss(self, texts: Ragged, targets: Tensor, smoothing: float = 0.0) -> Tensor:
        """Summed cross-entropy of the next tokens, targets (tokens,).

        Both ways, it is the mean of two sums: the forward network reads the texts and predicts
        `targets`; the backward one reads `targets` from the end and predicts the texts. So both
        predict the same number of tokens, and none sees a token that it predicts.
        """
        if not self.config.bidirectional:
            return super().loss(texts, targets, smoothing)
        ids = torch.stack((texts.ids, targets), 1)  # (tokens, 2)
        states = self._states(ids, self._context(texts))
        forward, backward = states.chunk(2, 1)  # (tokens, width) each
        after = self.head.loss(forward, targets, smoothing)
        before = self.head.loss(backward, texts.ids, smoothing)
        return (after + before) / 2

    def hidden(self, texts: Ragged, tap: Tap | None = None) -> Tensor:
        """The states of each token, [forward; backward] if there are two: (tokens, dim)."""
        return self._states(texts.ids, self._context(texts, tap))

    def _states(self, ids: Tensor, ctx: Context) -> Tensor:
        """The states of both networks, or of the only one: (tokens, dim)."""
        return super()._top(ids, ctx)

    def _top(self, ids: Tensor, ctx: Context) -> Tensor:
        """The states that predict the next token: (tokens, width)."""
        return self._states(ids, ctx)[:, : self.config.width]


class RecurrentEncoder(BaseEncoder):
    """Recurrent layers with a head for the classes of a text or the tags of its tokens.

    Args:
        config: The model's settings, with `classes` or `tags`.
        vocab: Size of the vocabulary.

    Example:
        >>> reader = RecurrentEncoder(RNNConfig(dim=8, classes=("bad", "good")), vocab=20)
        >>> reader.classify(Ragged.of([[5, 6, 7], [8]])).shape
        torch.Size([2, 2])
    """

    config: Any
    """An `RNNConfig`."""
    embed: Embed
    missing_head_advice = "train one: own/rnn with data.train=FILE, for tags with task=tag"

    def __init__(self, config: RNNConfig, vocab: int) -> None:
        super().__init__()
        self.config, self.vocab = config, vocab
        layers, head, dim = config.decoder, config.head, config.decoder.dim
        self.direction = "both" if config.bidirectional else "forward"
        self.embed = Embed(vocab, dim, layers.dropout)
        self.encoder = Stack(layers, "encoder")
        self.dropout = Dropout(layers.dropout)
        self.classes = Linear(dim, len(head.classes)) if head.classes else None
        self.tags = Linear(dim, len(head.tags)) if head.tags else None
        draw_glorot(self, dim)

    def pooled(self, source: Ragged, hidden: Tensor) -> Tensor:
        """The vector of each text: hidden (tokens, dim) -> (texts, dim)."""
        layout = self.embed.layout(source)
        if self.config.head.pool == "last":
            return last_states(hidden, layout, self.direction)
        return last_states(hidden, layout, None)

    def tag(self, texts: Ragged, tap: Tap | None = None) -> Tensor:
        """Logits of the tags of each token: (tokens, tags)."""
        return self.require_head("tags")(self.dropout(self.hidden(texts, tap)))

    def vocabularies(self) -> dict[str, int]:
        """The size of the vocabulary that the model was built with."""
        return {"vocab": self.vocab}
