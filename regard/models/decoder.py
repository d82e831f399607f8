"""The decoder-only model, of which GPT, Llama, Mistral and Qwen are configs.

Token ids so far -> logits of the next token. Training passes whole texts at once (`forward`);
decoding reads a prompt in one pass (`read`) and then one token per row at a time (`step`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.inputs.arrays import Ragged
from regard.layers import Context, Embed, KVCache, Layout, Stack, Tap
from regard.layers.build import make_embed, make_vocabulary_head
from regard.layers.context import make_context
from regard.layers.init import draw_normal
from regard.models.config import DecoderConfig
from regard.models.model import LOGITS, Model


class Decoder(Model):
    """A causal stack with an output head over the vocabulary.

    Args:
        config: The model's settings.
        vocab: Size of the vocabulary.

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
        self.embed = make_embed(config.decoder, vocab)
        self.decoder = Stack(config.decoder, "decoder", causal=True)
        tied = self.embed.weight if config.head.tied == "all" else None
        self.head = make_vocabulary_head(config.head, config.decoder.dim, vocab, tied)
        draw_normal(self, config.decoder.layers)

    def forward(self, texts: Ragged, tap: Tap | None = None) -> Tensor:
        """Logits of the token after each token: (tokens, vocab)."""
        ctx = self._context(texts, tap)
        return ctx.visit("logits", self.head(self._top(texts.ids, ctx)))

    def loss(self, texts: Ragged, targets: Tensor, smoothing: float = 0.0) -> Tensor:
        """Summed cross-entropy of the next tokens, targets (tokens,)."""
        return self.head.loss(self._top(texts.ids, self._context(texts)), targets, smoothing)

    def hidden(self, texts: Ragged, tap: Tap | None = None) -> Tensor:
        """The output of the stack for each token: (tokens, dim)."""
        return self._top(texts.ids, self._context(texts, tap))

    def _context(
        self, texts: Ragged, tap: Tap | None = None, cache: KVCache | None = None
    ) -> Context:
        """The stack's context for whole texts, with a causal mask."""
        if tap is not None:
            tap.begin(self.sites())
        layout = self.embed.layout(texts)
        return make_context(
            layout,
            self.decoder.positions,
            window=self.decoder.reach,
            causal=True,
            cache=cache,
            tap=tap,
        )

    def _top(self, ids: Tensor, ctx: Context) -> Tensor:
        """The output of the top block: ids (tokens,) -> (tokens, dim)."""
        x = self.embed(ids, ctx.positions, ctx.scheme)  # (tokens, dim)
        return self.decoder(ctx.visit("decoder.embedding", x), ctx)

    def encode(self, source: Ragged, tap: Tap | None = None) -> None:
        """Does nothing: the model has no encoder."""
        del source, tap

    def start(self, memory: None, rows: int, length: int) -> KVCache:
        """The empty state of `rows` rows of at most `length` tokens."""
        del memory
        return self.decoder.start(rows, length, self.embed.weight)

    def read(self, prompts: Ragged, state: KVCache, tap: Tap | None = None) -> Tensor:
        """Appends several tokens to each row of the state -> logits of the next (rows, vocab)."""
        ctx = self._context(prompts, tap, state)
        x = self._top(prompts.ids, ctx)
        state.advance(prompts.lengths)
        last_tokens = torch.tensor(prompts.lengths, device=x.device).cumsum(0) - 1  # (prompts,)
        ctx.layout = Layout((1,) * len(prompts.lengths), x.device)
        return ctx.visit("logits", self.head(x[last_tokens]))

    def step(self, ids: Tensor, state: KVCache, tap: Tap | None = None) -> Tensor:
        """Feeds one token to each row: ids (rows,) -> logits of the next (rows, vocab)."""
        if tap is not None and not any(state.lengths):  # the first step, if there was no prompt
            tap.begin(self.sites())
        new_tokens = Ragged(ids, (1,) * ids.numel())
        layout = self.embed.layout(new_tokens)
        ctx = make_context(
            layout,
            self.decoder.positions,
            window=self.decoder.reach,
            causal=True,
            cache=state,
            tap=tap,
        )
        logits = ctx.visit("logits", self.head(self._top(ids, ctx)))
        state.advance(new_tokens.lengths)
        return logits

    def embeds(self) -> list[Embed]:
        """The token embedding."""
        return [self.embed]

    def sites(self) -> dict[str, int]:
        """All tap sites of the model, with the number of heads at each (0: not per head)."""
        return self.decoder.sites() | LOGITS
