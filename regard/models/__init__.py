"""Model families: most of them are configs of the same blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr, modules_by_name

if TYPE_CHECKING:
    from regard.models.config import BlocksConfig as BlocksConfig
    from regard.models.convolutional import ResNet as ResNet
    from regard.models.convolutional import SmallCNN as SmallCNN
    from regard.models.decoder import Decoder as Decoder
    from regard.models.encoder import Encoder as Encoder
    from regard.models.encoder_decoder import DecoderState as DecoderState
    from regard.models.encoder_decoder import EncoderDecoder as EncoderDecoder
    from regard.models.families import FAMILIES as FAMILIES
    from regard.models.families import build as build
    from regard.models.families import describe as describe
    from regard.models.families import parse_description as parse_description
    from regard.models.families import rebuild as rebuild
    from regard.models.families import vocabularies_in as vocabularies_in
    from regard.models.families.bert import BertConfig as BertConfig
    from regard.models.families.cnn import CNNConfig as CNNConfig
    from regard.models.families.gpt import GPTConfig as GPTConfig
    from regard.models.families.resnet import ResNetConfig as ResNetConfig
    from regard.models.families.rnn import RNNConfig as RNNConfig
    from regard.models.families.seq2seq import Seq2SeqConfig as Seq2SeqConfig
    from regard.models.families.t5 import T5Config as T5Config
    from regard.models.families.transformer import SIZES as SIZES
    from regard.models.families.transformer import TransformerConfig as TransformerConfig
    from regard.models.families.vit import ViTConfig as ViTConfig
    from regard.models.image_encoder import ImageEncoder as ImageEncoder
    from regard.models.mode import evaluating as evaluating
    from regard.models.model import Model as Model
    from regard.models.recurrent import Seq2Seq as Seq2Seq
    from regard.models.rnn import RecurrentEncoder as RecurrentEncoder
    from regard.models.rnn import RecurrentLM as RecurrentLM

_MODULES = modules_by_name(
    {
        "regard.models.config": "BlocksConfig",
        "regard.models.convolutional": "ResNet SmallCNN",
        "regard.models.decoder": "Decoder",
        "regard.models.encoder": "Encoder",
        "regard.models.encoder_decoder": "DecoderState EncoderDecoder",
        "regard.models.families": (
            "FAMILIES build describe parse_description rebuild vocabularies_in"
        ),
        "regard.models.families.bert": "BertConfig",
        "regard.models.families.cnn": "CNNConfig",
        "regard.models.families.gpt": "GPTConfig",
        "regard.models.families.resnet": "ResNetConfig",
        "regard.models.families.rnn": "RNNConfig",
        "regard.models.families.seq2seq": "Seq2SeqConfig",
        "regard.models.families.t5": "T5Config",
        "regard.models.families.transformer": "SIZES TransformerConfig",
        "regard.models.families.vit": "ViTConfig",
        "regard.models.image_encoder": "ImageEncoder",
        "regard.models.mode": "evaluating",
        "regard.models.model": "Model",
        "regard.models.recurrent": "Seq2Seq",
        "regard.models.rnn": "RecurrentEncoder RecurrentLM",
    }
)
__all__ = [*_MODULES]
if not TYPE_CHECKING:  # else every name would pass the type checker
    __getattr__ = lazy_getattr(__name__, _MODULES)
