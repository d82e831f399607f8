"""A person's own encoder, for figures that read texts with one."""

from __future__ import annotations

from regard import Pipeline, load
from regard.errors import InputError

SHIPPED = "small/fill"
"""The shipped encoder, which reads English."""


def load_encoder(name: str) -> Pipeline:
    """An encoder with its tokenizer: shipped, a run, or a folder.

    Raises:
        InputError: If the model is not an encoder with a tokenizer.
    """
    pipeline = load(name, device="cpu")
    if "decoder" in pipeline.model.config.sides or pipeline.vocabulary is None:
        raise InputError(
            "model", got=f"{name}, a {pipeline.model.config.family}", expected="a BERT's folder"
        )
    return pipeline
