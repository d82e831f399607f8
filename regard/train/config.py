"""The `train:` section of a recipe: how the weights get better."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from regard.config import Config

Freeze = int | Literal["none", "embeddings", "all"]
"""What stays as it is: so many of the lowest layers and what is below them, or a name."""


class StartConfig(Config):
    """Begin from a model that was trained before: its config, tokenizer and weights are taken.

    The `model` section then only says what is to differ: dropout, and the names of classes or tags.
    """

    folder: str
    """A run, a checkpoint, a Hugging Face folder or a shipped model. Only the first start reads
    it: a checkpoint of the run is complete in itself."""
    freeze: Freeze = "none"
    """`embeddings`; a number: they and so many of the lowest layers; `all`: they and every layer
    of the encoder (of a decoder alone: its own). What is frozen has no dropout."""


class TrainConfig(Config):
    """One training run of the one trainer."""

    steps: int = Field(default=2000, ge=1)
    batch_tokens: int = Field(default=4096, ge=1)
    """Token budget of a micro-batch: the sum over its sentences of source and target tokens."""
    accumulate: int = Field(default=1, ge=1)
    """Micro-batches per step; their gradients are weighted by their tokens, exactly."""
    optimizer: Literal["adam", "adamw", "muon"] = "adamw"
    """`muon`: the matrices inside the blocks by Muon, all else by AdamW. A step takes longer, and
    a small model learns as much in far fewer of them."""
    learning_rate: float = Field(default=1e-3, gt=0)
    """The peak; with `schedule: paper` a factor on the paper's own rate."""
    schedule: Literal["paper", "cosine", "constant"] = "cosine"
    warmup: int = Field(default=200, ge=0)
    final_fraction: float = Field(default=0.05, ge=0, le=1)
    """Where cosine ends, as a fraction of the peak."""
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = Field(default=1e-9, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    clip: float | None = Field(default=1.0, gt=0)
    """Largest gradient norm; null turns clipping off."""
    log_every: int = Field(default=20, ge=1)
    evaluate_every: int = Field(default=500, ge=1)
    save_every: int = Field(default=500, ge=1)
    keep: int = Field(default=2, ge=1)
    """How many of the last checkpoints stay; the best one always does."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after this many evaluations without a better loss."""
    average: int = Field(default=0, ge=0)
    """At the end, average the weights of this many last checkpoints, which are kept for it; the
    mean is taken if its validation loss is lower (0 or 1: no averaging)."""
    tensorboard: bool = False

    @model_validator(mode="after")
    def _betas_and_factor(self) -> TrainConfig:
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas {self.betas}: each must be at least 0 and below 1")
        if self.schedule == "paper" and self.learning_rate < 0.01:
            raise ValueError(
                f"learning_rate {self.learning_rate:g} with schedule: paper is a factor on the "
                "paper's own rate; 1 is the paper's"
            )
        return self
