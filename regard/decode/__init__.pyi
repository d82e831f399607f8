from regard.decode.config import DecodeConfig as DecodeConfig
from regard.decode.engine import decode as decode
from regard.decode.filters import Symbols as Symbols
from regard.decode.search import Hypothesis as Hypothesis

__all__: list[str]
