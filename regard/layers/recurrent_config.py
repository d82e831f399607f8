"""The config of a recurrent decoder, and of what it gets from the source at each step."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from regard.config import Config
from regard.layers.config import DEEPEST, Cell, WordsFront
from regard.layers.short import ShortForm


class AttentiveContext(Config):
    """A context vector for each word: the mean of the memory, weighted by attention.

    Scores are v·tanh(W s + U h_i) (`additive`), W s · U h_i (`dot`), or W s · p_i with a learned
    vector p_i for each place i of the source (`location`).
    """

    kind: Literal["additive", "dot", "location"] = "additive"
    last_word: bool = False
    """Whether the score sees the last word, too: W [s; y] in place of W s."""
    hard_attention: bool | Literal["sampled"] = False
    """Hard attention: the context is the one source token with the highest score. Gradients are
    straight-through: those of soft attention. `sampled`: in training the source token is drawn from
    the softmax (straight-through Gumbel-softmax); in decoding it is the one with the highest."""
    context_gate: bool = False
    """Whether a gate scales each context vector: β c_t with β = σ(w · s_{t-1} + b), so that a word
    may need the source little (Xu et al. 2015, section 4.2.1)."""
    doubly_stochastic: float = Field(default=0.0, ge=0, le=100)
    """λ of the penalty λ Σ_i (1 - Σ_t α_ti)² in training, so that all source tokens together get
    about equal attention over time (Xu et al. 2015, equation 14); 0: none."""

    @property
    def summary(self) -> str:
        """A short description."""
        hard = {"sampled": "sampled hard ", True: "hard ", False: ""}[self.hard_attention]
        return f"{hard}{self.kind} attention"


class OneContext(Config):
    """One context vector of the whole source: the encoder's final states, without attention."""

    kind: Literal["none"] = "none"
    context: Literal["every", "first"] = "every"
    """Whether the one context vector enters every step (Cho et al. 2014), or is only the decoder's
    initial state (Sutskever et al. 2014)."""

    @property
    def summary(self) -> str:
        """A short description."""
        return "no attention"


class RecurrentDecoderConfig(ShortForm):
    """Recurrent layers, the first of which gets a context vector of the source with each word."""

    kind: Literal["recurrent"] = "recurrent"
    front: WordsFront = WordsFront()
    dim: int = Field(default=128, ge=1)
    """Width of the vectors."""
    layers: int = Field(default=1, ge=1, le=DEEPEST)
    """Number of blocks."""
    cell: Cell = "gru"
    """`gru_before`: a GRU whose reset gate acts before the matrix (Chung et al. 2014)."""
    attention: Annotated[AttentiveContext | OneContext, Field(discriminator="kind")] = (
        AttentiveContext()
    )
    """What each step gets from the source."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout rate on embedding plus position, and on each sub-layer's output; in a convolutional
    network, on the input of the head."""

    @property
    def reach(self) -> None:
        """Attention reaches the whole memory."""
        return

    @property
    def bound(self) -> int:
        """The maximum number of tokens; nothing in the model depends on it."""
        return self.front.max_length

    @property
    def summary(self) -> str:
        """A short description of width, cells and attention."""
        return f"{self.dim} wide, {self.cell} cells, {self.attention.summary}"
