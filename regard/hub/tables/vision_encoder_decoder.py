"""A ViT or DeiT whose patches a GPT-2 with cross-attention reads: config and tensor names.

transformers calls it `VisionEncoderDecoderModel`. Each side has the config and the tensor names of
its own kind, in a section; where the widths differ, a linear layer stands between the sides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch

from regard.errors import InputError
from regard.hub.kind import ACTIVATIONS, HubFormat, TensorNames, require
from regard.hub.needs import BLOCK, Need, OfSide, fixed, override
from regard.hub.rules import ComputedTensor, Rule, Table, add_prefixes, same
from regard.hub.tables.gpt2 import MASKS, stack_entries, stack_rules, stack_settings
from regard.hub.tables.vit import DEIT, VIT
from regard.layers.config import WritingStack
from regard.layers.grid_config import GridStack
from regard.models import CaptionerConfig, ViTConfig

ENCODERS = {kind.name: kind for kind in (VIT, DEIT)}
"""The kinds of their encoders."""
DECODER = "gpt2"
"""The kind of their decoder."""
ADVICE = "a ViT or DeiT with a GPT-2 that has cross-attention, as in vit-gpt2, is read"
_UNUSED = ("encoder.pooler.*", "encoder.embeddings.mask_token")
"""Tensors of the encoder that captions do not depend on."""


def _read(hub_config: dict[str, Any], names: TensorNames) -> CaptionerConfig:
    encoder, decoder = (_section(hub_config, side) for side in ("encoder", "decoder"))
    for side, section, known in (
        ("encoder", encoder, [*ENCODERS]),
        ("decoder", decoder, [DECODER]),
    ):
        kind = section.get("model_type")
        if kind not in known:
            what, expected = f"config.json: {side}.model_type", " or ".join(known)
            raise InputError(what, got=kind, expected=expected, fix=ADVICE)
    require(decoder, add_cross_attention=True, cross_attention_hidden_size=None)
    settings = stack_settings(decoder)
    # Without its tensors: heads and poolers of the encoder are not part of a captioner.
    images: Any = ENCODERS[encoder["model_type"]].read(encoder, TensorNames(encoder, {}))
    tied = names.section(decoder).tied(_HEAD, _EMBEDDING, default=True)
    return CaptionerConfig(
        encoder=images.encoder.model_dump(),
        decoder={**settings, "positions": "learned", "scaled_embedding": False},
        tied="all" if tied else "none",
        bridge=images.encoder.dim != settings["dim"],
    )


_HEAD, _EMBEDDING = "decoder.lm_head.weight", "decoder.transformer.wte.weight"


def _section(hub_config: dict[str, Any], side: str) -> dict[str, Any]:
    """The config of one side."""
    section = hub_config[side]
    if not isinstance(section, dict):
        raise InputError(f"config.json: {side}", got=section, expected="the config of a model")
    return section


def _kind_of(encoder: GridStack) -> HubFormat:
    """The kind of a captioner's encoder: DeiT has a second token before the patches."""
    return VIT if encoder.front.distillation == "none" else DEIT


def _write(config: CaptionerConfig, vocab: int) -> dict[str, Any]:
    encoder, decoder = config.encoder, config.decoder
    assert isinstance(encoder, GridStack)  # `SideKind` is a need
    assert isinstance(decoder, WritingStack)
    kind = _kind_of(encoder)
    images = kind.write(ViTConfig(encoder=encoder))
    del images["architectures"]
    texts = stack_entries(decoder, vocab, tied=config.head.tied == "all")
    roles = {"is_decoder": True, "add_cross_attention": True}
    return {
        "architectures": ["VisionEncoderDecoderModel"],
        "encoder": {**images, "model_type": kind.name},
        "decoder": {**texts, **roles, "model_type": DECODER},
        "is_encoder_decoder": True,
        "tie_word_embeddings": False,  # of the two sides: the decoder's own section says its own
    }


def _names(config: CaptionerConfig) -> Table:
    encoder = config.encoder
    assert isinstance(encoder, GridStack)  # `SideKind` is a need
    kind = _kind_of(encoder)
    images = [_without_prefix(rule, kind.prefix)
              for rule in kind.names(ViTConfig(encoder=encoder)).rules]  # fmt: skip
    texts = stack_rules(config.decoder.layers, "target_embed", cross=True)
    rules = [
        *add_prefixes("", "encoder.", images),
        *add_prefixes("", "decoder.", texts),
        *(same("bridge", "enc_to_dec_proj") if config.bridge else ()),
    ]
    copies = {_HEAD: _EMBEDDING} if config.head.tied == "all" else {}
    return Table(tuple(rules), copies, (*MASKS, *_UNUSED), _poolers(encoder.dim))


def _poolers(dim: int) -> dict[str, ComputedTensor]:
    """Zeros for the pooler, which their encoder always has and nothing reads."""
    shapes = {"weight": (dim, dim), "bias": (dim,)}
    return {
        f"encoder.pooler.dense.{name}": ComputedTensor(
            shape, partial(torch.zeros, shape), stored=True
        )
        for name, shape in shapes.items()
    }


def _without_prefix(rule: Rule, prefix: str) -> Rule:
    return replace(rule, hub_names=tuple(name.removeprefix(prefix) for name in rule.hub_names))


@dataclass(frozen=True)
class SideKind(Need):
    """Blocks on both sides, over patches and over words."""

    by_overrides: ClassVar[bool] = False  # other kinds have keys of their own

    def is_met(self, config: Any) -> bool:
        """Whether a side is a stack of blocks."""
        return bool(config.sides[self.key].kind == "blocks")

    def got(self, config: Any) -> str:
        """The kind of the side."""
        return override(f"model.{self.key}.kind", config.sides[self.key].kind)

    def wanted(self, config: Any) -> str:
        """The usual kind, and what else the side must have in place of its defaults."""
        del config
        fresh = CaptionerConfig()
        more = {n.key: n.wanted(fresh) for n in _SIDES[self.key] if not n.is_met(fresh)}
        return " ".join([override(f"model.{self.key}.kind", "blocks"), *more.values()])


class Bridge(Need):
    """A linear layer between the sides if their widths differ, and only then."""

    def is_met(self, config: Any) -> bool:
        """Whether the config has the layer where theirs has it."""
        has_blocks = all(side.kind == "blocks" for side in config.sides.values())
        return not has_blocks or config.bridge == self._is_needed(config)

    def _is_needed(self, config: Any) -> bool:
        return bool(config.encoder.dim != config.decoder.dim)

    def got(self, config: Any) -> str:
        """Whether the config has the layer."""
        return override("model.bridge", config.bridge)

    def wanted(self, config: Any) -> str:
        """Whether theirs has it."""
        return override("model.bridge", self._is_needed(config))


_BOTH = {
    "norm": ("layer",),
    "norm_place": ("pre",),
    "final_norm": (None, True),
    "block_norm": (False,),
    "score": ("scaled_dot",),
    "residual": (True,),
    "positions_from": (0,),
    "layer_scale": (None,),
    "kv_heads": (None,),
    "head_dim": (None,),
    "window": (None,),
    "query_key_norm": (False,),
}
"""What both sides require."""
_SIDES = {
    "encoder": tuple(
        OfSide(f"encoder.{key}", values)
        for key, values in {
            "stem": ("patches",),
            "class_token": (True,),
            "positions": ("learned", "sinusoidal_2d"),
            "activation": ("gelu", *ACTIVATIONS.values()),
            **_BOTH,
        }.items()
    ),
    "decoder": tuple(
        OfSide(f"decoder.{key}", values)
        for key, values in {
            "positions": ("learned",),
            "scaled_embedding": (False,),
            "embedding_norm": (False,),
            "activation": ("gelu_tanh", *ACTIVATIONS.values()),
            "heads": (),
            **_BOTH,
        }.items()
    ),
}
_NEEDS = (
    SideKind("encoder", ()),
    SideKind("decoder", ()),
    BLOCK,
    *_SIDES["encoder"],
    *_SIDES["decoder"],
    *fixed(output_bias=False, scaled_output=False),
    Bridge("bridge", ()),
)

VISION_ENCODER_DECODER = HubFormat(
    "vision-encoder-decoder",
    "captioner",
    "encoder.",
    _read,
    _write,
    _names,
    _NEEDS,
    heads=("decoder.", "enc_to_dec_proj."),
    writer="decoder",
)
