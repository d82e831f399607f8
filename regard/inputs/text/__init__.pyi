from regard.inputs.processor import Processor as Processor
from regard.inputs.processor import Vocabulary as Vocabulary
from regard.inputs.text.config import TokensConfig as TokensConfig
from regard.inputs.text.learn import TaskSymbols as TaskSymbols
from regard.inputs.text.learn import learn as learn
from regard.inputs.text.learn import learn_plain as learn_plain
from regard.inputs.text.learn import sentinels_of as sentinels_of
from regard.inputs.text.listing import Token as Token
from regard.inputs.text.published.hub import read_file as read_file
from regard.inputs.text.published.hub import read_folder as read_folder
from regard.inputs.text.stream import StreamDecoder as StreamDecoder
from regard.inputs.text.tokenizer import Roles as Roles
from regard.inputs.text.tokenizer import Tokenizer as Tokenizer

__all__: list[str]
