"""A synchronous English-German grammar that generates pairs of sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.runtime.lazy import lazy_getattr, modules_by_name

if TYPE_CHECKING:
    from regard.data.synthetic.grammar.corpus import DEMO as DEMO
    from regard.data.synthetic.grammar.corpus import sample as sample
    from regard.data.synthetic.grammar.corpus import splits as splits
    from regard.data.synthetic.grammar.gloss import translate_words as translate_words
    from regard.data.synthetic.grammar.lexicon import ADJECTIVES as ADJECTIVES
    from regard.data.synthetic.grammar.lexicon import NOUNS as NOUNS

_MODULES = modules_by_name(
    {
        "regard.data.synthetic.grammar.corpus": "DEMO sample splits",
        "regard.data.synthetic.grammar.gloss": "translate_words",
        "regard.data.synthetic.grammar.lexicon": "ADJECTIVES NOUNS",
    }
)
__all__ = [*_MODULES]
if not TYPE_CHECKING:  # else every name would pass the type checker
    __getattr__ = lazy_getattr(__name__, _MODULES)
