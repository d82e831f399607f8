"""BLEU and chrF of translations, computed by sacrebleu, with its signatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest


@dataclass(frozen=True)
class Scores:
    """The scores of a set of translations, with the signatures needed to reproduce them."""

    sentences: int
    bleu: float
    chrf: float
    exact: float
    """Percentage of translations that equal a reference."""
    bleu_signature: str
    chrf_signature: str


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    lowercase: bool = False,
) -> Scores:
    """Corpus BLEU (13a), chrF and exact match of detokenised text.

    Args:
        hypotheses: The translations.
        references: For each translation one reference, or several.
        lowercase: Whether to score without regard to case.

    Example:
        >>> score_translations(["Das Tier ist müde."], ["Das Tier ist müde."]).bleu
        100.0
    """
    from sacrebleu.metrics.bleu import BLEU  # slow to import, so imported only when used
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = BLEU(lowercase=lowercase), CHRF(lowercase=lowercase)
    all_references = [(texts,) if isinstance(texts, str) else tuple(texts) for texts in references]
    pairs = list(zip(hypotheses, all_references, strict=True))
    # sacrebleu takes a list of the first references of all sentences, then one of the second, and
    # so on, with None for sentences that have fewer.
    streams = [list(stream) for stream in zip_longest(*all_references)] or [[]]
    bleu_score = bleu.corpus_score(list(hypotheses), streams)
    chrf_score = chrf.corpus_score(list(hypotheses), streams)
    fold = str.lower if lowercase else str
    exact_count = sum(fold(hypothesis) in map(fold, texts) for hypothesis, texts in pairs)
    return Scores(
        sentences=len(pairs),
        bleu=round(bleu_score.score, 4),
        chrf=round(chrf_score.score, 4),
        exact=round(100 * exact_count / max(1, len(pairs)), 4),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


def by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    groups: int = 6,
    lowercase: bool = False,
) -> list[tuple[str, int, float]]:
    """BLEU by the length of the source, in groups of about equally many sentences.

    Args:
        sources: The sources.
        hypotheses: Their translations.
        references: For each translation one reference, or several.
        groups: The maximal number of groups.
        lowercase: Whether to score without regard to case.

    Returns:
        For each group its range of lengths in words, its number of sentences, and its BLEU.
    """
    words = [len(source.split()) for source in sources]
    edges = sorted({sorted(words)[len(words) * g // groups] for g in range(groups)})
    rows = []
    for group, low in enumerate(edges):
        high = edges[group + 1] - 1 if group + 1 < len(edges) else max(words)
        indices = [i for i, count in enumerate(words) if low <= count <= high]
        refs = [references[i] for i in indices]
        bleu = score_translations([hypotheses[i] for i in indices], refs, lowercase=lowercase).bleu
        rows.append((f"{low}–{high}" if high > low else str(low), len(indices), bleu))
    return rows
