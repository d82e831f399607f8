"""The captioner: an image's grid of vectors is the memory of a decoder that writes its caption.

    h_1 … h_N = encoder(image)          a vector for each cell of a grid: patches, or a feature map
    logits_t  = head(decoder(y_<t, h))  of the caption's token t, given those before it

With a recurrent decoder this is Show, Attend and Tell with soft attention (Xu et al. 2015), without
its gate β on the context and its doubly stochastic penalty:

    e_ti = v·tanh(W s_{t-1} + U h_i)    α_t = softmax(e_t)    c_t = Σ_i α_ti h_i     (section 4.2)
    s_0  = tanh(W mean_i h_i)                                                        (section 3.1.2)

The mean's layer makes h and the LSTM's cell from one matrix. With a stack of blocks it is a Vision
Transformer whose patches are the memory of a Transformer's decoder.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from regard.inputs.arrays import Shared
from regard.kernels.linear import Linear
from regard.layers import Dropout, Memory, Stack, Tap
from regard.layers.build import make_embed, make_vocabulary_head
from regard.layers.convnets import FeatureMaps, make_convolutions
from regard.layers.fronts.front import Front
from regard.layers.grid_config import GridStack, ResidualConvolutions
from regard.layers.init import draw_glorot, draw_he
from regard.layers.recurrent_config import RecurrentDecoderConfig
from regard.layers.state import DecoderState
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.families.captioner import CaptionerConfig
from regard.models.image_encoder import make_patches
from regard.models.model import Model
from regard.models.recurrent import RecurrentDecoder, make_recurrent_decoder


class Captioner(EncoderDecoder):
    """An encoder of images and a decoder of text, each of any kind and width.

    Args:
        config: The model's settings.
        target_vocab: Size of the captions' vocabulary.

    Example:
        >>> from regard.inputs.arrays import Dense, Ragged
        >>> from regard.models.families.captioner import CaptionerConfig
        >>> sides = {"encoder": {"kind": "cnn", "filters": (6, 8)}, "decoder": {"dim": 24}}
        >>> captioner = Captioner(CaptionerConfig(**sides), target_vocab=11)
        >>> captioner(Dense(torch.zeros(2, 3, 32, 32)), Ragged.of([[1, 5, 6], [1, 5]])).shape
        torch.Size([5, 11])
    """

    config: CaptionerConfig
    encoder: Any
    """A `Stack` over patches, or the `FeatureMaps` of a convolutional network."""

    def __init__(self, config: CaptionerConfig, target_vocab: int) -> None:
        Model.__init__(self)  # that of an encoder-decoder makes an embedding of the source
        self.config, self.target_vocab = config, target_vocab
        front, encoder = _make_encoder(config)
        # The order of the parts decides the random numbers that they draw.
        self.embed = front
        self.target_embed = make_embed(config.decoder, target_vocab)
        self.encoder = encoder
        convolutional = not isinstance(config.encoder, GridStack)
        self.dropout = Dropout(config.encoder.dropout if convolutional else 0.0)
        widths = config.encoder.dim, config.decoder.dim
        self.bridge = Linear(*widths) if config.bridge else None
        self.decoder = self._make_decoder()
        output = self.target_embed.weight if config.head.tied == "all" else None
        dim = config.decoder.dim
        self.head = make_vocabulary_head(config.head, dim, target_vocab, output)
        draw_glorot(self, dim)
        if isinstance(config.encoder, ResidualConvolutions):
            draw_he(self.encoder)
            self.encoder.add_attention(config.encoder)
        for table in self.encoder.positions.parameters():
            nn.init.normal_(table, std=1.0)  # as large as the patch vectors: `ImageEncoder`

    def _make_decoder(self) -> Any:
        """Builds the decoder, which attends to the cells of the image."""
        config = self.config
        if isinstance(config.decoder, RecurrentDecoderConfig):
            return make_recurrent_decoder(config, config.memory_dim)
        return Stack(config.decoder, "decoder", causal=True, memory_dim=config.memory_dim)

    def encode(self, source: Any, tap: Tap | None = None) -> Memory:
        """Encodes images into the memory: a vector for each cell of their grids.

        Args:
            source: `Dense` images; or `Shared` ones, of which each is encoded once.
            tap: Sees the encoder's layers.
        """
        if isinstance(source, Shared):
            return self.encode(source.inputs, tap).select(torch.tensor(source.rows))
        if tap is not None:
            tap.begin(self.sites())
        memory = self.encoder.read(self.embed, source, tap)
        x = self.dropout(memory.x)  # (cells, dim of the encoder)
        return Memory(x if self.bridge is None else self.bridge(x), memory.layout)

    def start(self, memory: Memory, rows: int, length: int) -> DecoderState:
        """The state before the first token: `rows` rows per image, of up to `length` tokens."""
        decoder = self.decoder
        if isinstance(decoder, RecurrentDecoder):
            return DecoderState(decoder.begin(memory, rows), decoder.project_memory(memory), rows)
        return super().start(memory, rows, length)

    def embeds(self) -> list[Any]:
        """The fronts: of images, and of the captions' tokens."""
        return [self.embed, self.target_embed]


def _make_encoder(config: CaptionerConfig) -> tuple[Front, Stack | FeatureMaps]:
    """The part that reads images, and the layers above it."""
    if isinstance(config.encoder, GridStack):
        return make_patches(config.encoder), Stack(config.encoder, "encoder")
    return make_convolutions(config.encoder)
