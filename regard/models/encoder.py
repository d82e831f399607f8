"""The encoder-only model with its heads, of which BERT, RoBERTa and DistilBERT are configs.

`BaseEncoder` is the part that it shares with the image encoder (`image_encoder.py`).

Token ids -> a contextual vector for each token (tokens, dim); and from these the logits of the
heads: masked tokens, classes of a text, tags of tokens, the first and last token of an answer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.inputs.arrays import Ragged
from regard.kernels.linear import Linear
from regard.layers import Dropout, Embed, Stack, Tap, VocabularyHead
from regard.layers.build import make_embed, make_norm
from regard.layers.config import SequenceStack
from regard.layers.fronts.front import Front
from regard.layers.init import draw_normal
from regard.layers.mlp import ACTIVATIONS
from regard.models.config import EncoderConfig
from regard.models.model import Model


class MaskedHead(nn.Module):
    """norm(f(W x)), then logits over the vocabulary with the embedding's matrix (BERT)."""

    def __init__(self, config: SequenceStack, vocab: int, tied: nn.Parameter) -> None:
        super().__init__()
        hidden = config.feed_forward
        self.function, _ = ACTIVATIONS["gelu" if hidden is None else hidden.activation]
        self.transform = Linear(config.dim, config.dim)
        self.norm = make_norm(config)
        self.vocabulary = VocabularyHead(config.dim, vocab, tied, bias=True)

    def _transform(self, x: Tensor) -> Tensor:
        """norm(f(W x)): (tokens, dim) -> (tokens, dim)."""
        return self.norm(self.function(self.transform(x)))

    def forward(self, x: Tensor) -> Tensor:
        """(tokens, dim) -> (tokens, vocab)."""
        return self.vocabulary(self._transform(x))

    def loss(self, x: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
        """Summed cross-entropy of x (tokens, dim) to targets (tokens,)."""
        return self.vocabulary.loss(self._transform(x), targets, smoothing)


class BaseEncoder(Model):
    """A front, a stack without a causal mask, and heads on its output.

    A subclass creates `embed`, `encoder`, `dropout` and its heads.
    """

    config: Any
    embed: Front
    encoder: Stack
    dropout: nn.Module
    missing_head_advice: ClassVar[str]
    """The advice in the error message for a missing head."""

    def hidden(self, source: Any, tap: Tap | None = None) -> Tensor:
        """The output of the stack for each token: (tokens, dim)."""
        if tap is not None:
            tap.begin(self.sites())
        return self.encoder.read(self.embed, source, tap).x

    @abstractmethod
    def pooled(self, source: Any, hidden: Tensor) -> Tensor:
        """The pooled vector of each example: hidden (tokens, dim) -> (examples, dim)."""

    def classify(self, source: Any, tap: Tap | None = None) -> Tensor:
        """Logits of the classes of each example: (examples, classes)."""
        pooled = self.pooled(source, self.hidden(source, tap))
        return self.require_head("classes")(self.dropout(pooled))

    def standardised_numbers(self, source: Any, tap: Tap | None = None) -> Tensor:
        """The predicted numbers z of each example, as they are learned: (examples, numbers)."""
        pooled = self.pooled(source, self.hidden(source, tap))
        return self.require_head("numbers")(self.dropout(pooled))

    def forward(self, source: Any, tap: Tap | None = None) -> Tensor:
        """Logits of the classes of each example, (examples, classes), or its standardised numbers.

        Args:
            source: Examples as the model reads them.
            tap: Sees the layers.
        """
        has_numbers_alone = self.classes is None and self.numbers is not None
        function = self.standardised_numbers if has_numbers_alone else self.classify
        return function(source, tap)

    def require_head(self, head: str) -> nn.Module:
        """The head of that name.

        Raises:
            InputError: If the model has no such head.
        """
        module = getattr(self, head, None)
        if module is None:
            raise InputError(
                f"this encoder has no head for {head.replace('_', ' ')}",
                fix=self.missing_head_advice,
            )
        return module

    def embeds(self) -> Sequence[Front]:
        """The front."""
        return [self.embed]

    def sites(self) -> dict[str, int]:
        """All tap sites of the model, with the number of heads at each (0: not per head)."""
        return self.encoder.sites()


class Encoder(BaseEncoder):
    """A bidirectional stack over a text, with the heads that the config names.

    Args:
        config: The model's settings and heads.
        vocab: Size of the vocabulary.

    Example:
        >>> from regard.models import BertConfig
        >>> bert = Encoder(BertConfig(size="tiny"), vocab=100)
        >>> bert.hidden(Ragged.of([[5, 6, 7], [8]])).shape            # two texts, four tokens
        torch.Size([4, 128])
    """

    config: EncoderConfig
    embed: Embed
    missing_head_advice = (
        "train one: own/classify, own/tag or own/answer with start.folder=DIR, or "
        "tiny/fill; embed and words need none"
    )

    def __init__(self, config: EncoderConfig, vocab: int) -> None:
        super().__init__()
        self.config, self.vocab = config, vocab
        self.embed = make_embed(config.encoder, vocab)
        self.encoder = Stack(config.encoder, "encoder")
        dim, heads = config.encoder.dim, config.head
        self.pooler = Linear(dim, dim) if heads.pooler != "none" else None
        self.masked = None
        if heads.masked:
            self.masked = MaskedHead(config.encoder, vocab, self.embed.weight)
        self.next_sentence = Linear(dim, 2) if heads.next_sentence else None
        self.dropout = Dropout(config.encoder.dropout)
        self.classes = Linear(dim, len(heads.classes)) if heads.classes else None
        self.tags = Linear(dim, len(heads.tags)) if heads.tags else None
        self.spans = Linear(dim, 2) if heads.spans else None
        draw_normal(self, config.encoder.layers)

    def pooled(self, texts: Ragged, hidden: Tensor) -> Tensor:
        """The pooled vector of each text, f(W x) of its first token: (texts, dim)."""
        first = hidden[texts.first_tokens]
        if self.pooler is None:
            return first
        function = torch.tanh if self.config.head.pooler == "tanh" else torch.relu
        return function(self.pooler(first))

    def forward(self, texts: Ragged, tap: Tap | None = None) -> Tensor:
        """Logits over the vocabulary at each token: (tokens, vocab)."""
        return self.require_head("masked")(self.hidden(texts, tap))

    def tag(self, texts: Ragged, tap: Tap | None = None) -> Tensor:
        """Logits of the tags of each token: (tokens, tags)."""
        return self.require_head("tags")(self.dropout(self.hidden(texts, tap)))

    def answer(self, texts: Ragged, tap: Tap | None = None) -> Tensor:
        """Logits of each token as the first and as the last of an answer: (tokens, 2)."""
        return self.require_head("spans")(self.hidden(texts, tap))
