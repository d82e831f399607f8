from regard.data.synthetic.grammar.corpus import DEMO as DEMO
from regard.data.synthetic.grammar.corpus import Contest as Contest
from regard.data.synthetic.grammar.corpus import contests as contests
from regard.data.synthetic.grammar.corpus import pronoun_is_right as pronoun_is_right
from regard.data.synthetic.grammar.corpus import sample as sample
from regard.data.synthetic.grammar.corpus import splits as splits
from regard.data.synthetic.grammar.gloss import translate_words as translate_words
from regard.data.synthetic.grammar.lexicon import ADJECTIVES as ADJECTIVES
from regard.data.synthetic.grammar.lexicon import NOUNS as NOUNS

__all__: list[str]
