"""Figure of part 2: from the gates of a GRU to multi-head attention in four steps, each trained.

    0  h_t = Σ_i (∏_{j=i+1..t} u_j)(1 - u_i) h̃_i               a GRU, unrolled; h̃_i needs h_{i-1}
    1  h_t = Σ_i α_ti h̃_i        α_ti ∝ exp(h̃_i · x_t)         the weights are free of each other
    2  h_t = Σ_i α_ti f(x_i)     α_ti ∝ exp(f(x_i) · x_t)      the candidates need no earlier state
    3  h_t = Σ_i α_ti V f(x_i)   α_ti ∝ exp(K f(x_i) · Q x_t)  keys and values are separate
    4  h_t = W [h_t^1; …; h_t^H] each as in 3                  several heads

i runs from 1 to t. All products are divided by the root of their width. f is the GRU's candidate
without a state. The task: a text of pairs, such as b7 a3 d1, ends with a question of two letters,
ab, and the answer is the digit of each, 3 and 7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.draw import positive_scale, scientific
from regard.errors import InputError
from regard.explain import Board, Drawing, Numbers, Words
from regard.layers import (
    Attention,
    DotScore,
    Mask,
    Memory,
    Recurrent,
    Tap,
    gates_of,
    masked_softmax,
    plain_context,
)
from regard_lectures.figures.descent import Descent
from regard_lectures.figures.recurrence import unrolled
from regard_lectures.progress import OnStep, training_progress
from regard_lectures.tries import listed, span, trainings

NAMES = ("gates", "free weights", "free candidates", "keys and values", "heads")
"""The steps from 0 to 4."""
LETTERS, DIGITS = "abcdefgh", "0123456789"
PAIRS = 6
"""Pairs of a training text; each letter occurs once."""
TEXT = "b7 e2 a3 h0 d1 c5 ab"
DIM, BATCH, UNSEEN, RATE = 32, 64, 1000, 0.01
BOTH = 95.0
"""The percentage of digits from which on all count as answered."""


class Gated(nn.Module):
    """Step 0: a GRU. Texts x (batch, n, dim) -> states (batch, n, dim)."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = Recurrent(DIM, "gru", cell="gru")

    def gru_states(self, x: Tensor) -> Tensor:
        """The states of the GRU: (batch, n, dim)."""
        out: Tensor = self.gru(x.flatten(0, 1), plain_context((x.shape[1],) * len(x)))
        return out.view(x.shape)

    def gates(self, x: Tensor, before: Tensor) -> dict[str, Tensor]:
        """The GRU's gates, (batch, n, dim) each, given the state before each token."""
        cells = self.gru.cells
        from_x = F.linear(x, cells.weight_ih_l0, cells.bias_ih_l0)  # (batch, n, 3 · dim)
        hidden = cells.weight_hh_l0, cells.bias_hh_l0
        return gates_of("gru", from_x, before, hidden, lambda _, gate: gate)

    def forward(self, x: Tensor) -> Tensor:
        """The states of all tokens."""
        return self.gru_states(x)

    def before(self, x: Tensor) -> Tensor:
        """The state of the GRU before each token: (batch, n, dim)."""
        states = self.gru_states(x)
        return torch.cat((torch.zeros_like(states[:, :1]), states[:, :-1]), 1)

    def candidates(self, x: Tensor) -> Tensor:
        """h̃, (batch, n, dim)."""
        return self.gates(x, self.before(x))["candidate"]

    def weights(self, x: Tensor) -> Tensor:
        """The weights of all candidates in all states of one text: (features, n, n)."""
        return unrolled(self.gates(x, self.before(x))["update"][0])[0].permute(2, 0, 1)

    def rebuilt(self, x: Tensor) -> Tensor:
        """The states of one text as weighted sums of the candidates: (n, dim)."""
        return torch.einsum("dti,id->td", self.weights(x), self.candidates(x)[0])


class Freed(Gated):
    """Steps 1 and 2: x_t attends to the candidates up to t, which are keys and values.

    Args:
        candidates_free: Whether the candidates are f(x), computed without the state before.
    """

    def __init__(self, *, candidates_free: bool) -> None:
        super().__init__()
        self.free, self.score, self.mask = candidates_free, DotScore(DIM**-0.5), Mask(causal=True)

    def candidates(self, x: Tensor) -> Tensor:
        """h̃ or f(x), (batch, n, dim)."""
        if self.free:
            return self.gates(x, torch.zeros_like(x))["candidate"]
        return super().candidates(x)

    def forward(self, x: Tensor) -> Tensor:
        """The states of all tokens."""
        k = self.candidates(x)[:, None]  # (batch, 1, n, dim)
        return self.score.attend(x[:, None], k, k, self.mask, None, 0.0)[:, 0]

    def weights(self, x: Tensor) -> Tensor:
        """The weights of one text: (1, n, n)."""
        scores = self.score.scores(x[:, None], self.candidates(x)[:, None])
        return masked_softmax(scores, self.mask.dense(x.shape[1], x.shape[1]))[0]

    def rebuilt(self, x: Tensor) -> Tensor:
        """The states of one text as weighted sums of the candidates: (n, dim)."""
        return self.weights(x)[0] @ self.candidates(x)[0]


class Attended(Freed):
    """Steps 3 and 4: an attention layer with queries of x, and keys and values of f(x)."""

    def __init__(self, heads: int) -> None:
        super().__init__(candidates_free=True)
        self.attention = Attention(DIM, heads, "attention", cross=True, bias=False)

    def forward(self, x: Tensor, tap: Tap | None = None) -> Tensor:
        """The states of all tokens."""
        plain = plain_context((x.shape[1],) * len(x), tap=tap)
        memory = Memory(self.candidates(x).flatten(0, 1), plain.layout)
        memory.mask = self.mask
        out: Tensor = self.attention(x.flatten(0, 1), replace(plain, memory=memory))
        return out.view(x.shape)

    def weights(self, x: Tensor) -> Tensor:
        """The weights of one text: (heads, n, n)."""
        tap = Tap("attention.weights")
        self(x, tap)
        return tap.records["attention.weights"][0]

    def rebuilt(self, x: Tensor) -> Tensor:
        """W of the heads' weighted sums of V f(x), side by side: (n, dim)."""
        _, _, of_values, of_output = self.attention.matrices()
        values = F.linear(self.candidates(x)[0], of_values)
        values = values.view(x.shape[1], self.attention.heads, -1)  # (n, heads, dim / heads)
        sums = torch.einsum("hti,ihd->thd", self.weights(x), values)  # (n, heads, dim / heads)
        return F.linear(sums.flatten(1), of_output)


class Answerer(nn.Module):
    """Vectors of pairs and questions, one of the steps, and an output for each of two digits."""

    def __init__(self, step: Gated) -> None:
        super().__init__()
        self.step = step
        self.letters, self.digits = nn.Embedding(len(LETTERS), DIM), nn.Embedding(len(DIGITS), DIM)
        self.first, self.second = (nn.Embedding(len(LETTERS), DIM) for _ in range(2))
        self.out = nn.Linear(DIM, 2 * len(DIGITS))

    def embed(self, letters: Tensor, digits: Tensor, question: Tensor) -> Tensor:
        """Letters and digits (batch, n), questions (batch, 2) -> (batch, n + 1, dim)."""
        pairs = self.letters(letters) + self.digits(digits)
        asked = self.first(question[:, 0]) + self.second(question[:, 1])
        return torch.cat((pairs, asked[:, None]), 1)

    def forward(self, letters: Tensor, digits: Tensor, question: Tensor) -> Tensor:
        """The logits of both digits: (batch, 2, digits)."""
        last = self.step(self.embed(letters, digits, question))[:, -1]
        return self.out(last).view(-1, 2, len(DIGITS))


def draw_texts(count: int, data: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Letters and digits (count, PAIRS), questions and their answers (count, 2)."""
    letters = torch.rand(count, len(LETTERS), generator=data).argsort(1)[:, :PAIRS]
    digits = torch.randint(len(DIGITS), (count, PAIRS), generator=data)
    asked = torch.rand(count, PAIRS, generator=data).argsort(1)[:, :2]
    return letters, digits, letters.gather(1, asked), digits.gather(1, asked)


def train(step: Gated, steps: int, seed: int, on_step: OnStep) -> tuple[Answerer, float]:
    """Train one step; returns the model, and the percentage of digits that are right."""
    model = Answerer(step)
    descent = Descent(model.parameters(), RATE, on_step, lambda done: 1 - done / steps)
    data = torch.Generator().manual_seed(seed)  # the same texts for every step
    for _ in range(steps):
        *text, wanted = draw_texts(BATCH, data)
        loss = F.cross_entropy(model(*text).flatten(0, 1), wanted.flatten())
        descent.step(loss, BATCH * (PAIRS + 1))
    with torch.no_grad():
        *text, wanted = draw_texts(UNSEEN, torch.Generator().manual_seed(seed + 1))
        hits = model(*text).argmax(-1) == wanted
    return model, 100 * float(hits.float().mean())


def read_text(text: str | None) -> tuple[list[str], tuple[Tensor, Tensor, Tensor]]:
    """The words of a text, and its letters, digits and question, for a batch of one.

    Raises:
        InputError: If it is not pairs of a letter and a digit, and a question of two letters.
    """
    words = (text or TEXT).split()
    *pairs, question = words or [""]
    known = {pair[0]: pair[1:] for pair in pairs}
    fits = (
        2 <= len(pairs) == len(known)
        and all(pair[0] in LETTERS and pair[1:] in DIGITS and len(pair) == 2 for pair in pairs)
        and len(question) == 2
        and set(question) <= set(known)
    )
    if not fits:
        raise InputError(
            "--text",
            got=repr(text),
            expected=f"pairs of different letters ({LETTERS[0]} to {LETTERS[-1]}) and digits, and "
            f"two of the letters, such as {TEXT!r}",
        )
    letters, digits, asked = (
        torch.tensor([[symbols.index(symbol) for symbol in side]])
        for symbols, side in (
            (LETTERS, [pair[0] for pair in pairs]),
            (DIGITS, [pair[1] for pair in pairs]),
            (LETTERS, list(question)),
        )
    )
    return words, (letters, digits, asked)


def _seen(model: Answerer, inputs: tuple[Tensor, Tensor, Tensor]) -> dict[str, Any]:
    """What a trained step does with one text."""
    x = model.embed(*inputs).detach().requires_grad_()  # (1, n, dim)
    candidates = model.step.candidates(x)
    [gradient] = torch.autograd.grad(candidates[0, -1].sum(), [x])
    with torch.no_grad():
        weights = model.step.weights(x)  # (heads or features, n, n)
        older = torch.ones(x.shape[1] - 1, x.shape[1]).tril() > 0  # words of the earlier state
        growth = (weights[:, 1:] / weights[:, :-1])[:, older]
        error = (model.step.rebuilt(x) - model.step(x)[0]).abs().max()
        answer = model(*inputs)[0].argmax(-1)
        shown = weights.mean(0, keepdim=True) if len(weights) == DIM else weights
    return {
        "weights": shown[:, -1].tolist(),
        "words_needed": int((gradient[0].abs().sum(1) > 0).sum()),
        "growth": float(growth.max()),
        "error": float(error),
        "answer": "".join(DIGITS[digit] for digit in answer.tolist()),
    }


def build(name: str, heads: int) -> Gated:
    """A step that is not trained, by its name."""
    builders: dict[str, Callable[[], Gated]] = {
        "gates": Gated,
        "free weights": lambda: Freed(candidates_free=False),
        "free candidates": lambda: Freed(candidates_free=True),
        "keys and values": lambda: Attended(1),
        "heads": lambda: Attended(heads),
    }
    return builders[name]()


def measure(text: str | None, heads: int, steps: int, tries: int, seed: int) -> dict[str, Any]:
    """Train all five with several seeds, and look at what each does with one text.

    Returns:
        The words of the text, and by the name of each step: what it does with the text if trained
        with the first seed, and as `right` the percentages of digits of all seeds.
    """
    words, inputs = read_text(text)
    result: dict[str, Any] = {"words": words}
    with training_progress(steps * tries * len(NAMES)) as on_step:
        for name in NAMES:
            shares = []
            for one_seed in range(seed, seed + tries):
                torch.manual_seed(one_seed)
                model, right = train(build(name, heads), steps, one_seed, on_step)
                shares.append(right)
                if one_seed == seed:
                    result[name] = _seen(model, inputs)
            result[name]["right"] = shares
    return result


def words_road(numbers: Numbers) -> Words:
    """Whether free weights answer more than gates, and several heads more than one."""
    gates, *single_heads, heads = numbers["right"]
    count = numbers["heads"]
    several = f"{count} heads" if count > 1 else "one head"
    freed = [share for shares in single_heads for share in shares]
    noise = 200 * (0.5 / (2 * UNSEEN)) ** 0.5  # two standard errors of a difference of two shares
    more = "more" if min(freed) > max(gates) + noise else "not surely more"
    best = "more still" if min(heads) > max(freed) + noise else "not surely more than one"
    both = min(heads) >= BOTH
    title = f"Free weights find {more} digits than gates; {several} {best}"
    if more == "more" and both:
        title = f"Gates find at most {max(gates):.0f}% of the digits, free weights more, "
        title += f"{several} all"
    if min(gates) >= BOTH:
        title = f"Gates find all digits, {several} {'as well' if both else 'do not'}"
    needed = numbers["words_needed"]
    alone = [str(index) for index, count in enumerate(needed) if count == 1]
    at_once = "No candidate can be computed without the words before it"
    if alone:
        at_once = f"All words can be computed at once in step {listed(alone)}"
    caption = (
        f"Digits right: gates {span(gates, '.0f')}%, one set of free weights (steps 1 to 3) "
        f"{span(freed, '.0f')}%, {several} {span(heads, '.0f')}%. {at_once}."
    )
    return Words(title, caption)


def road(measured: dict[str, Any], heads: int, steps: int, tries: int, seed: int) -> Drawing:
    """Draw the weights at the question in each step from a gate to multi-head attention."""
    words, stages = measured["words"], [measured[name] for name in NAMES]
    rows = [f"{index} {name}" for index, name in enumerate(NAMES[:4])]
    rows += [f"4 head {head}" for head in range(heads)]
    cells = [line for step in stages for line in step["weights"]]
    numbers: Numbers = {
        "heads": heads,
        "steps": steps,
        "words": words,
        "rows": rows,
        "weights": cells,
        **{
            what: [step[what] for step in stages]
            for what in ("right", "answer", "words_needed", "growth", "error")
        },
    }
    details = (
        "A text of pairs ends with two letters, whose digits are asked. All weights are those of "
        "the last state. 0: h_t = Σ_i (∏_{j=i+1..t} u_j)(1 − u_i) h̃_i, a GRU unrolled; the mean "
        "over its features. 1: α_i ∝ exp(h̃_i · x_t), free of the gates in between. 2: f(x_i) in "
        "place of h̃_i, the candidate without the state before it. 3: V f(x_i) is summed, and "
        "K f(x_i) compared with Q x_t. 4: the same in several heads. Words needed: on how many "
        "words the last candidate depends, by its gradient; if on one, all are computed at once. "
        f"Each is {DIM} wide and trained for {steps} steps on {BATCH} texts with {tries} seeds "
        f"from {seed}; weights are those of seed {seed}. Digits right: of {UNSEEN} new texts; a "
        f"guess is right in {100 / len(DIGITS):.0f}%. The states are rebuilt from the weights with "
        f"an error of at most {scientific(max(step['error'] for step in stages))}. Heads count "
        f"from 0. Answers to this text: {', '.join(numbers['answer'])}. From one word to the next "
        f"a weight of a gate is multiplied by at most {stages[0]['growth']:.2f}, a free one by up "
        f"to {max(step['growth'] for step in stages[1:]):,.0f}."
    )
    limits = f"Width {DIM}, {steps:,} training steps on such texts, {trainings(tries)}; weights of "
    limits += f"seed {seed}."
    with Board(words_road(numbers), (1.5, 1), details, limits=limits) as board:
        sides = "step", "pairs and question"
        labels = rows, [*words[:-1], f"{words[-1]}?"]
        heading = f"weights at the question {words[-1]}?"
        board.matrix(0, heading, cells, positive_scale(1.0), labels, sides, ".2f")
        board.table(
            1,
            "what each step needs and gets right",
            (("step", 0), ("words\nneeded", 0.64), ("digits\nright, %", 1.0)),
            [
                (f"{index} {name}", str(step["words_needed"]), span(step["right"], ".0f"))
                for index, (name, step) in enumerate(zip(NAMES, stages, strict=True))
            ],
        )
        return board.drawing(**numbers)
