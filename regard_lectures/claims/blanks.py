"""Texts with a blank that need words before or after it, or both; encoders trained on them.

A text has digits and one blank, `?`, where the sum of two of the digits is to be said. These are
known by a mark, as in `2 3* 0 ? 1 4*`, or by their place on the left and right of the blank, as in
`2 3 ? 4 1`: 7 in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError
from regard.inputs import Ragged
from regard.layers import Tap
from regard.models import BertConfig, build
from regard_lectures.figures.descent import Descent, draw_for_narrow, warming
from regard_lectures.progress import OnStep

BEFORE, BOTH, AFTER = "before", "both", "after"
"""Which sides of the blank a text needs."""
MARK, PLACE = "mark", "place"
"""How the needed words are known."""
DIGITS, LENGTH, SIDE = 5, 12, 2
"""Digits are 0 to 4; words of a text; the fewest words on each side of the blank."""
BLANK = 2 * DIGITS
DIM, HEADS, LAYERS, HIDDEN = 64, 4, 2, 128
BATCH, RATE, WARMUP = 64, 3e-3, 50


def draw_texts(
    known: str, kind: str, count: int, data: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Texts with a blank, where the sum of two digits is to be said.

    Args:
        known: How the two digits are known: `MARK`, or `PLACE` beside the blank.
        kind: Which sides of the blank are needed. By a mark: the sides where the marked digits
            are. By their place: the digit on a side that is not needed is 0.
        count: How many texts.
        data: The source of chance.

    Returns:
        Ids (count, LENGTH): 0 to 4 digits, 5 to 9 marked ones, 10 the blank; the position of the
        blank and the sum, (count,).
    """
    rows = torch.arange(count)
    blank = torch.randint(SIDE, LENGTH - SIDE, (count,), generator=data)
    ids = torch.randint(DIGITS, (count, LENGTH), generator=data)
    chance = torch.rand(count, LENGTH, generator=data)
    if known == PLACE:
        chosen = torch.stack((blank - 1, blank + 1), 1)  # (count, 2)
        if kind != BOTH:
            ids[rows, blank + (1 if kind == BEFORE else -1)] = 0
        total = ids.gather(1, chosen).sum(1)
    else:
        positions = torch.arange(LENGTH)
        sides = (positions < blank[:, None], positions > blank[:, None])  # (count, LENGTH)
        picks = {BEFORE: (2, 0), BOTH: (1, 1), AFTER: (0, 2)}[kind]
        chosen = torch.cat(
            [
                chance.masked_fill(~side, -1).topk(number, dim=1).indices
                for side, number in zip(sides, picks, strict=True)
            ],
            dim=1,
        )  # (count, 2)
        total = ids.gather(1, chosen).sum(1)
        ids.scatter_add_(1, chosen, torch.full_like(chosen, DIGITS))
    ids[rows, blank] = BLANK
    return ids, blank, total


def read_text(words: Sequence[str]) -> tuple[str, Tensor]:
    """How the digits of a text of one's own are known, and its ids (1, words).

    Raises:
        InputError: If it is not a text of one of the tasks.
    """
    of_word = {str(digit): digit for digit in range(DIGITS)}
    of_word |= {f"{digit}*": DIGITS + digit for digit in range(DIGITS)} | {"?": BLANK}
    ids = [of_word.get(word, -1) for word in words]
    marked = sum(DIGITS <= number < BLANK for number in ids)
    inside = BLANK in ids[1:-1]  # with a digit on each side
    fits = -1 not in ids and ids.count(BLANK) == 1 and len(ids) <= LENGTH
    if not fits or not (marked == 2 or (marked == 0 and inside)):
        raise InputError(
            "--text",
            got=repr(" ".join(words)),
            expected=f"up to {LENGTH} digits from 0 to {DIGITS - 1}, and one ? between two of "
            "them, or two of them with *",
            fix="such as '2 3 ? 4 1' or '2 3* 0 ? 1 4*'; for a sentence add model=small/fill",
        )
    return (MARK if marked else PLACE), torch.tensor([ids])


def sum_of(known: str, ids: Tensor) -> int:
    """The sum that is to be said at the blank of a text (1, words)."""
    row: list[int] = ids[0].tolist()
    if known == MARK:
        return sum(number - DIGITS for number in row if DIGITS <= number < BLANK)
    blank = row.index(BLANK)
    return row[blank - 1] + row[blank + 1]


def train(known: str, name: str, steps: int, seed: int, on_step: OnStep) -> Any:
    """Train one encoder.

    Args:
        known: How the digits are known: `MARK` or `PLACE`.
        name: What its training examples need: `BEFORE` or `BOTH`.
        steps: The number of training steps.
        seed: Of the weights and of the texts.
        on_step: Called after each step.
    """
    torch.manual_seed(seed)
    config = BertConfig.model_validate(
        {
            "dim": DIM, "heads": HEADS, "hidden": HIDDEN, "layers": LAYERS, "dropout": 0.0,
            "max_length": LENGTH, "masked": False, "pooler": "none", "token_types": 0,
            "tags": tuple(map(str, range(2 * DIGITS - 1))),
        }
    )  # fmt: skip
    model: Any = build(config, BLANK + 1)
    draw_for_narrow(model)
    descent = Descent(model.parameters(), RATE, on_step, warming(WARMUP, steps), beta=0.98)
    data = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        ids, blank, total = draw_texts(known, name, BATCH, data)
        descent.step(F.cross_entropy(logits_at(model, ids, blank), total), ids.numel())
    return model.eval()


def logits_at(model: Any, ids: Tensor, blank: Tensor, tap: Tap | None = None) -> Tensor:
    """The logits of the sums at the blanks of texts (count, words): (count, sums)."""
    count, length = ids.shape
    logits = model.tag(Ragged(ids.flatten(), (length,) * count), tap)  # (count · words, sums)
    chosen: Tensor = logits[torch.arange(count) * length + blank]
    return chosen
