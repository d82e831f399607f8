"""The `train:` and `start:` sections of a recipe."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from regard.config import Config

Freeze = int | Literal["none", "embeddings", "all"]
"""What to freeze: a name, or the number of lowest layers to freeze with the embeddings."""


class StartConfig(Config):
    """Training starts from a trained model: from all of it, or from its encoder.

    With `folder` the `model` section only sets what may differ: dropout, the names of classes or
    tags, and the widths of a head for numbers. With `encoder` that holds for `model.encoder` alone.
    """

    folder: str | None = None
    """A run, a checkpoint, a Hugging Face folder or a shipped model, whose config, tokenizer and
    weights are used. It is read only when the run starts; a resumed run reads its own
    checkpoint."""
    encoder: str | None = None
    """As `folder`, but only the encoder and what it reads are used, for a model whose other parts
    are new: a trained classifier of images becomes the eyes of a captioner."""
    freeze: Freeze = "none"
    """`embeddings`; a number n: embeddings and the n lowest layers; `all`: embeddings and every
    layer of the encoder (or of the decoder, if there is no encoder). Frozen parts have no
    dropout."""

    @model_validator(mode="after")
    def _check_source(self) -> StartConfig:
        """Checks that either a whole model or its encoder is named."""
        if (self.folder is None) == (self.encoder is None):
            raise ValueError("start needs folder: DIR or encoder: DIR, one of them")
        return self

    @property
    def source(self) -> str:
        """The model to start from."""
        return self.folder or self.encoder or ""


class TrainConfig(Config):
    """The settings of a training run."""

    steps: int = Field(default=2000, ge=1)
    batch_tokens: int = Field(default=4096, ge=1)
    """Token budget of a micro-batch: the sum over its sentences of source and target tokens."""
    accumulate: int = Field(default=1, ge=1)
    """Micro-batches per step. Gradients are divided by the targets of the whole step, so the result
    equals that of one large batch."""
    optimizer: Literal["adam", "adamw", "muon"] = "adamw"
    """`muon` updates the matrices inside the blocks by Muon, all else by AdamW. A step takes
    longer, but a small model needs far fewer steps."""
    learning_rate: float = Field(default=1e-3, gt=0)
    """The peak learning rate; with `schedule: paper` a factor on the paper's rate."""
    schedule: Literal["paper", "cosine", "constant"] = "cosine"
    warmup: int = Field(default=200, ge=0)
    final_fraction: float = Field(default=0.05, ge=0, le=1)
    """Final learning rate of the cosine schedule, as a fraction of the peak."""
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = Field(default=1e-9, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    clip: float | None = Field(default=1.0, gt=0)
    """Gradients with a larger norm are scaled down to this norm; null turns clipping off."""
    log_every: int = Field(default=20, ge=1)
    evaluate_every: int = Field(default=500, ge=1)
    save_every: int = Field(default=500, ge=1)
    keep: int = Field(default=2, ge=1)
    """Number of last checkpoints to keep; the best one is always kept."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after this many evaluations without a better loss."""
    average: int = Field(default=0, ge=0)
    """At the end, average the weights of this many last checkpoints, which are kept for that. The
    mean is used if its validation loss is lower than the best (0 or 1: no averaging)."""
    tensorboard: bool = False
    ema: float = Field(default=0.0, ge=0, lt=1)
    """Decay of a moving average of the weights, which is evaluated and saved in their place; 0: no
    average. In step t the decay is at most (1 + t) / (10 + t)."""
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    """Factor on the learning rate for each layer below the heads: the block under them learns at
    this fraction of the rate, the one below at its square, and so on."""
    teacher: str | None = None
    """A classifier of images with the same classes, from which the model learns, too: a run, a
    checkpoint, a Hugging Face folder or a shipped model."""
    distillation: Literal["hard", "soft"] = "hard"
    """What is learned from the teacher: its most probable class (DeiT), or its probabilities."""
    teacher_weight: float = Field(default=0.5, gt=0, le=1)
    """The weight of the loss to the teacher; that of the loss to the classes is the rest."""
    temperature: float = Field(default=3.0, gt=0)
    """`distillation: soft`: both sides' logits are divided by it, and the loss is multiplied by its
    square (Hinton et al. 2015)."""

    @model_validator(mode="after")
    def _check_settings(self) -> TrainConfig:
        """Refuses settings out of range, and settings that contradict each other."""
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas {self.betas}: each must be at least 0 and below 1")
        if self.ema and self.average > 1:
            raise ValueError("ema and average are two ways to average weights: set one of them")
        if self.layer_decay < 1 and self.optimizer == "muon":
            raise ValueError("layer_decay needs optimizer: adam or adamw")
        if self.schedule == "paper" and self.learning_rate < 0.01:
            rate = f"learning_rate {self.learning_rate:g} with schedule: paper"
            raise ValueError(f"{rate} is a factor on the paper's own rate; 1 is the paper's")
        return self
