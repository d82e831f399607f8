"""The decoder alone, which GPT, Llama, Mistral and Qwen are configs of.

Ids so far -> logits of the next. Training sees whole texts at once (`forward`); decoding reads a
prompt in one pass (`read`) and then goes on by one token a row (`step`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.data.input import Ragged
from regard.layers import Context, Embed, KVCache, Layout, Tap
from regard.layers.init import draw_normal
from regard.models.config import DecoderConfig
from regard.models.model import Model
from regard.models.parts import (
    LOGITS,
    embed_of,
    head_of,
    reading,
    stack_of,
)


class Decoder(Model):
    """A stack in which tokens look back, and a head over the vocabulary.

    Args:
        config: Sizes and kinds.
        vocab: Entries of the vocabulary.

    Example:
        >>> from regard.models import GPTConfig
        >>> gpt = Decoder(GPTConfig(size="nano"), vocab=100)
        >>> gpt(Ragged.of([[5, 6, 7], [8]])).shape                # two texts, four tokens in all
        torch.Size([4, 100])
    """

    config: DecoderConfig

    def __init__(self, config: DecoderConfig, vocab: int) -> None:
        super().__init__()
        self.config, self.vocab = config, vocab
        self.embed = embed_of(config, vocab)
        self.decoder = stack_of(
            config, config.layers, "decoder", causal=True, feed_forward=config.feed_forward
        )
        self.head = head_of(config, vocab, self.embed.weight if config.tied else None)
        draw_normal(self, config.layers)

    def forward(self, texts: Ragged, tap: Tap | None = None) -> Tensor:
        """Logits of the token after each token: (tokens, vocab)."""
        ctx = self._given(texts, tap)
        return ctx.visit("logits", self.head(self._top(texts.ids, ctx)))

    def loss(self, texts: Ragged, wanted: Tensor, smoothing: float = 0.0) -> Tensor:
        """Cross-entropy of the tokens that should follow, wanted (tokens,), summed."""
        return self.head.loss(self._top(texts.ids, self._given(texts)), wanted, smoothing)

    def hidden(self, texts: Ragged, tap: Tap | None = None) -> Tensor:
        """What leaves the stack for each token: (tokens, dim)."""
        return self._top(texts.ids, self._given(texts, tap))

    def _given(
        self, texts: Ragged, tap: Tap | None = None, cache: KVCache | None = None
    ) -> Context:
        """What the stack needs to read whole texts, each token looking back alone."""
        if tap is not None:
            tap.begin(self.sites())
        layout = self.embed.layout(texts)
        return reading(self.config, self.decoder, layout, causal=True, cache=cache, tap=tap)

    def _top(self, ids: Tensor, ctx: Context) -> Tensor:
        x = self.embed(ids, ctx.where, ctx.positions)  # (tokens, dim)
        return self.decoder(ctx.visit("decoder.embedding", x), ctx)

    def encode(self, source: Ragged, tap: Tap | None = None) -> None:
        """There is no source to read: it has no encoder."""
        del source, tap

    def start(self, memory: None, rows: int, length: int) -> KVCache:
        """The state before the first token: `rows` rows of at most `length` tokens."""
        del memory
        return self.decoder.start(rows, length, self.embed.weight)

    def read(self, prompts: Ragged, state: KVCache, tap: Tap | None = None) -> Tensor:
        """More of each row, behind what the state holds -> logits of the next (rows, vocab)."""
        ctx = self._given(prompts, tap, state)
        x = self._top(prompts.ids, ctx)
        state.advance(prompts.lengths)
        last = torch.tensor(prompts.lengths, device=x.device).cumsum(0) - 1  # of each prompt
        ctx.layout = Layout((1,) * len(prompts.lengths), x.device)
        return ctx.visit("logits", self.head(x[last]))

    def step(self, ids: Tensor, state: KVCache, tap: Tap | None = None) -> Tensor:
        """One more token for each row: ids (rows,) -> logits of the next (rows, vocab)."""
        if tap is not None and not any(state.lengths):  # the first step, where no prompt was read
            tap.begin(self.sites())
        more = Ragged(ids, (1,) * ids.numel())
        layout = self.embed.layout(more)
        ctx = reading(self.config, self.decoder, layout, causal=True, cache=state, tap=tap)
        logits = ctx.visit("logits", self.head(self._top(ids, ctx)))
        state.advance(more.lengths)
        return logits

    def embeds(self) -> list[Embed]:
        """What gives each token its first vector."""
        return [self.embed]

    def vocabularies(self) -> dict[str, int]:
        """What it was built with beside its config, by name."""
        return {"vocab": self.vocab}

    def sites(self) -> dict[str, int]:
        """Every site a tap can name, with its number of heads (0 where there are none)."""
        return self.decoder.sites() | LOGITS
