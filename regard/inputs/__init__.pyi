from regard.inputs.arrays import Dense as Dense
from regard.inputs.arrays import Ragged as Ragged
from regard.inputs.images.reader import ImageReader as ImageReader
from regard.inputs.processor import Processor as Processor
from regard.inputs.processor import Vocabulary as Vocabulary
from regard.inputs.reader import Encoded as Encoded
from regard.inputs.reader import Reader as Reader
from regard.inputs.readers import READERS as READERS
from regard.inputs.readers import ReaderEntry as ReaderEntry
from regard.inputs.text.config import TokensConfig as TokensConfig
from regard.inputs.text.learn import TaskSymbols as TaskSymbols
from regard.inputs.text.learn import learn as learn
from regard.inputs.text.learn import learn_plain as learn_plain
from regard.inputs.text.learn import sentinels_of as sentinels_of
from regard.inputs.text.reader import TextReader as TextReader
from regard.inputs.text.tokenizer import Tokenizer as Tokenizer

__all__: list[str]
