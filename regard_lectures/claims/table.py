"""All claims: what the lectures say, and the differences that decide it.

This table was written before anything was trained for it. Each part is a difference that is above 0
if the part is right; how it is measured is said by the figure of the claim's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """One claim of the lectures.

    Attributes:
        says: The claim in one sentence.
        row: Its row in the ledger of the lectures.
        parts: What must hold, by name: "A over B" is the difference A - B.
    """

    says: str
    row: str
    parts: Mapping[str, str]


CLAIMS = {
    "hunger": Claim(
        "On little data a Vision Transformer loses to a CNN of equal parameters; on much it wins.",
        "7.4b",
        {
            "little": "accuracy on 300 training images: CNN over ViT",
            "shrinks": "the CNN's lead: on 300 training images over 10,000",
            "much": "accuracy on 10,000 training images: ViT over CNN",
        },
    ),
    "remedies": Claim(
        "Weight decay, drop-path, mixup, RandAugment and a CNN as teacher help a Vision "
        "Transformer on little data.",
        "7.4d",
        {
            "weight_decay": "accuracy: with weight decay over without any remedy",
            "drop_path": "accuracy: with drop-path over without any remedy",
            "mixup": "accuracy: with mixup over without any remedy",
            "randaugment": "accuracy: with RandAugment over without any remedy",
            "teacher": "accuracy: with a CNN as teacher over without any remedy",
            "all": "accuracy: with all of them over without any remedy",
        },
    ),
    "flops": Claim(
        "At equal multiply-adds a Vision Transformer runs faster than a CNN.",
        "7.4c",
        {
            "training": "log of the time of a training step: ResNet over ViT",
            "inference": "log of the time of an inference: ResNet over ViT",
            "product": "log of the time: convolution over matrix product of equal arithmetic",
        },
    ),
    "invariance": Claim(
        "A Vision Transformer must learn from examples that a moved object is the same; a CNN "
        "need not.",
        "7.11",
        {
            "built_in": "accuracy lost where training had no objects: ViT over CNN",
            "learned": "accuracy there: ViT trained with shifts over ViT trained without",
        },
    ),
    "scale": Claim(
        "Objects come at various scales, and small ones are harder.",
        "7.11",
        {
            "cnn": "accuracy of a CNN: on the largest objects over the smallest",
            "vit": "accuracy of a ViT: on the largest objects over the smallest",
        },
    ),
    "distant": Claim(
        "If two distant things decide together, a convolution must be deep enough to see both; "
        "one attention layer sees them at once.",
        "7.11",
        {
            "attention": "accuracy: one attention layer over a CNN whose field is too small",
            "field": "accuracy: a CNN whose field is large enough over one whose field is not",
        },
    ),
    "attributes": Claim(
        "Heads attend by colour, by shape and by place.",
        "7.11",
        {
            "colour": "loss of the colour probe without the head that follows colour most, over "
            "the mean of the other heads",
            "shape": "the same of shape",
            "place": "the same of place",
        },
    ),
    "receptive": Claim(
        "A CNN's receptive field grows with depth; one attention layer sees the whole image.",
        "7.10",
        {
            "whole": "share of the image with a gradient after the first layer: ViT over CNN",
            "grows": "share of the image with a gradient in a CNN: last layer over first",
            "effective": "share of the image in a CNN's last layer: reached over that with 90% of "
            "the gradient",
        },
    ),
    "slicing": Claim(
        "A good place to cut a network holds few numbers that are well organised, and can be "
        "reused for another task.",
        "7.9b",
        {
            "organised_cnn": "accuracy of a linear probe on a CNN: last cut over first",
            "organised_vit": "accuracy of a linear probe on a ViT: last cut over first",
            "lost_cnn": "error of an image rebuilt from a CNN: last cut over first",
            "lost_vit": "error of an image rebuilt from a ViT: last cut over first",
            "reused": "accuracy on another task with few labels: from the best cut over from "
            "scratch",
        },
    ),
    "equivariance": Claim(
        "If an image is shifted, a CNN's feature maps shift with it, and its pooled vector stays.",
        "2.11",
        {
            "maps": "relative error of the shifted maps: ViT over CNN, mean over the layers",
            "pooled": "relative change of the pooled vector: ViT over CNN",
        },
    ),
    "idea1": Claim(
        "Self-attention between the stages of a ResNet helps it.",
        "7.1",
        {"attention": "accuracy: ResNet with attention over the plain one"},
    ),
    "pixels": Claim(
        "A Transformer on pixels takes memory that grows as R⁴.",
        "7.3",
        {"memory": "measured memory at 2R over 8 times that at R, in units of the latter"},
    ),
    "diversity": Claim(
        "Dropout makes heads differ.",
        "3.4",
        {"heads": "distance between the heads' weights: trained with dropout over without"},
    ),
    "direction": Claim(
        "Trained on examples that need only the words before, attention learns one direction and "
        "generalises less.",
        "6.2b",
        {
            "before": "share of attention on the words before: trained on examples that need "
            "only these over examples that need both sides",
            "generalises": "accuracy on examples that need the words after: trained on examples "
            "that need both sides over those that need only the words before",
        },
    ),
}
