"""ResNet, with or without its classification head: config and tensor names."""

from __future__ import annotations

from typing import Any

from regard.hub.kind import HubFormat, TensorNames, label_maps, labels_in, require
from regard.hub.rules import Rule, Table, add_prefixes
from regard.models import ResNetConfig


def _read(hub_config: dict[str, Any], names: TensorNames) -> ResNetConfig:
    require(hub_config, hidden_act="relu")
    return ResNetConfig(
        channels=hub_config.get("num_channels", 3),
        unit=hub_config.get("layer_type", "bottleneck"),
        depths=tuple(hub_config.get("depths", (3, 4, 6, 3))),
        filters=tuple(hub_config.get("hidden_sizes", (256, 512, 1024, 2048))),
        stem_width=hub_config.get("embedding_size", 64),
        stride_first=hub_config.get("downsample_in_first_stage", False),
        stride_in_first=hub_config.get("downsample_in_bottleneck", False),
        classes=labels_in(hub_config, names, "classifier.1.weight")
        if names.has("classifier.")
        else (),
    )


def _write(config: ResNetConfig) -> dict[str, Any]:
    return {
        "architectures": ["ResNetForImageClassification" if config.classes else "ResNetModel"],
        "num_channels": config.channels,
        "layer_type": config.unit,
        "depths": list(config.depths),
        "hidden_sizes": list(config.filters),
        "embedding_size": config.stem_width,
        "hidden_act": "relu",
        "downsample_in_first_stage": config.stride_first,
        "downsample_in_bottleneck": config.stride_in_first,
        **label_maps(config.classes),
    }


_CONV_RULES = [
    Rule(("convolution.weight",), ("convolution.weight",)),
    *(
        Rule((f"norm.{name}",), (f"normalization.{name}",))
        for name in ("weight", "bias", "running_mean", "running_var")
    ),
    Rule(("norm.num_batches_tracked",), ("normalization.num_batches_tracked",), integer=True),
]
"""A convolution with its batch norm."""


def _names(config: ResNetConfig) -> Table:
    rules = add_prefixes("embed.stem.first.", "resnet.embedder.embedder.", _CONV_RULES)
    width_before = config.stem_width
    stages = zip(config.depths, config.filters, config.encoder.strides, strict=True)
    for stage, (depth, width, stride) in enumerate(stages):
        for layer in range(depth):
            our_block = f"encoder.blocks.{stage}.{layer}."
            hub_block = f"resnet.encoder.stages.{stage}.layers.{layer}."
            for part in range(2 if config.unit == "basic" else 3):
                rules += add_prefixes(
                    f"{our_block}parts.{part}.", f"{hub_block}layer.{part}.", _CONV_RULES
                )
            if layer == 0 and (width_before != width or stride != 1):
                rules += add_prefixes(f"{our_block}shortcut.", f"{hub_block}shortcut.", _CONV_RULES)
        width_before = width
    if config.classes:
        rules += [
            Rule((f"classes.{name}",), (f"classifier.1.{name}",)) for name in ("weight", "bias")
        ]
    return Table(tuple(rules), {})


RESNET = HubFormat(
    "resnet", "resnet", "resnet.", _read, _write, _names, (), ("classifier.",), any_size=True
)
