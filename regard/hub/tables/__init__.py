"""The kinds of Hugging Face models that Regard reads and writes; similar kinds share a file."""

from __future__ import annotations

from regard.hub.kind import HubFormat
from regard.hub.tables.bart import BART, MARIAN, PEGASUS
from regard.hub.tables.bert import BERT, DISTILBERT, ROBERTA
from regard.hub.tables.gpt2 import GPT2
from regard.hub.tables.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from regard.hub.tables.resnet import RESNET
from regard.hub.tables.swin import SWIN, SWIN_V2
from regard.hub.tables.t5 import T5
from regard.hub.tables.timm import TIMM
from regard.hub.tables.vision_encoder_decoder import VISION_ENCODER_DECODER
from regard.hub.tables.vit import DEIT, DINOV2, VIT

KINDS: dict[str, HubFormat] = {
    kind.name: kind
    for kind in (
        GPT2, LLAMA, MISTRAL, QWEN2, QWEN3, BERT, ROBERTA, DISTILBERT, T5, BART, PEGASUS, MARIAN,
        VIT, DEIT, DINOV2, RESNET, SWIN, SWIN_V2, VISION_ENCODER_DECODER, TIMM,
    )
}  # fmt: skip
"""Their `model_type` -> its `HubFormat`; timm's configs have none. A model is exported as the first
that fits it, unless another is asked for."""
