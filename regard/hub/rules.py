"""Their tensors <-> ours, by rules that hold in both directions.

A `Rule` says that some of our tensors, one below the other, are some of theirs, one below the
other: most often one is one; our keys and values stand in one matrix where they have two, and
GPT-2 has one matrix, turned, for all three. What a rule does not name is left over, and an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from regard.errors import InputError


@dataclass(frozen=True)
class Rule:
    """Our tensors, stacked along their first dimension, are theirs."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    turned: bool = False
    """Whether they keep a matrix as (in, out), as GPT-2 does."""
    row: bool = False
    """Whether they keep a vector as a matrix of one row (the bias of Marian's logits)."""
    zero: bool = False
    """Whether it is zero where they leave it out (that bias in a BART without a head)."""
    shape: tuple[int, ...] | None = None
    """The shape in which they keep one tensor that has fewer dimensions here (ViT's patches)."""

    def within(self, ours: str, theirs: str) -> Rule:
        """The same rule for what stands below a module, ours and theirs."""
        return replace(
            self,
            ours=tuple(f"{ours}{name}" for name in self.ours),
            theirs=tuple(f"{theirs}{name}" for name in self.theirs),
        )


def same(ours: str, theirs: str, *, bias: bool = True, **how: bool | int) -> list[Rule]:
    """Rules for the weight, and the bias, of a module that both have.

    Several modules that stand in one parameter are joined by `+`: `same("key_value", "key+value")`.
    """
    names = ("weight", "bias") if bias else ("weight",)
    return [
        Rule(
            tuple(f"{module}.{name}" for module in ours.split("+")),
            tuple(f"{module}.{name}" for module in theirs.split("+")),
            **how,  # type: ignore[arg-type]
        )
        for name in names
    ]


def within(ours: str, theirs: str, rules: Iterable[Rule]) -> list[Rule]:
    """Rules for what stands below a module, ours and theirs."""
    return [rule.within(ours, theirs) for rule in rules]


@dataclass(frozen=True)
class Known:
    """A tensor of theirs whose numbers are known: of what shape, and how they are computed."""

    shape: tuple[int, ...]
    compute: Callable[[], Tensor]
    """Called only for a tensor of that shape: a hostile config takes no memory."""

    def matches(self, tensor: Tensor) -> bool:
        """Whether these are the numbers, rounding aside."""
        if tuple(tensor.shape) != self.shape:
            return False
        return torch.allclose(tensor, self.compute(), rtol=0, atol=1e-3)


@dataclass(frozen=True)
class Table:
    """All there is to know about the names of one family."""

    rules: tuple[Rule, ...]
    copies: Mapping[str, str]
    """Their tensors that repeat another of theirs (tied matrices): copy -> original."""
    ignored: tuple[str, ...] = ()
    """Patterns of theirs that hold nothing learned: masks, places, rates."""
    known: Mapping[str, Known] = field(default_factory=dict)
    """Theirs that hold nothing learned but could: what they must be (Marian's waves)."""

    def bring(
        self, theirs: dict[str, Tensor], shapes: Mapping[str, torch.Size]
    ) -> dict[str, Tensor]:
        """Their tensors as ours, each laid out as torch would.

        Args:
            theirs: By their names; what is used is taken out, so that what is turned or joined is
                not held twice.
            shapes: Of all our tensors, by our names.

        Raises:
            InputError: One is missing, left over, or of another shape.
        """
        # What they leave out because it only repeats another.
        absent = {c: theirs[o] for c, o in self.copies.items() if c not in theirs and o in theirs}
        theirs |= absent
        ours: dict[str, Tensor] = {}
        waiting = Counter(name for rule in self.rules for name in rule.theirs)
        used = set(waiting)
        for rule in self.rules:
            ours |= _bring(rule, theirs, shapes)
            waiting.subtract(rule.theirs)
            for name in {*rule.theirs} - {*self.copies.values(), *+waiting}:
                theirs.pop(name, None)
        self._check_unused(theirs, used)
        missing = [name for name in shapes if name not in ours]
        if missing:
            raise InputError("the weights", got=f"nothing for {missing[0]}", expected="all of it")
        return ours

    def _check_unused(self, theirs: Mapping[str, Tensor], used: Set[str]) -> None:
        """Refuses what is left over and is neither known nor a copy nor of no consequence."""
        for name in theirs.keys() & self.known.keys():
            if not self.known[name].matches(theirs[name]):
                raise InputError(name, got="other numbers", expected="waves that are not learned")
        for name in theirs.keys() - used - self.known.keys():
            original = self.copies.get(name)
            if original is not None and original in theirs:
                if not torch.equal(theirs[name], theirs[original]):
                    raise InputError(name, got="other numbers", expected=f"those of {original}")
            elif not any(fnmatchcase(name, pattern) for pattern in self.ignored):
                known = f"{len(used)} tensors that the model has"
                raise InputError("the weights", got=f"a leftover {name}", expected=known)

    def send(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Our tensors as theirs; what is only a copy is left out, as they do."""
        left = ours.keys() - {name for rule in self.rules for name in rule.ours}
        if left:
            raise InputError("export", got=f"a {min(left)}", expected="what their model has too")
        theirs: dict[str, Tensor] = {}
        for rule in self.rules:
            whole = torch.cat([ours[name] for name in rule.ours])
            whole = whole.t() if rule.turned and whole.dim() == 2 else whole
            whole = whole[None] if rule.row else whole
            whole = whole if rule.shape is None else whole.reshape(rule.shape)
            parts = whole.chunk(len(rule.theirs)) if len(rule.theirs) > 1 else (whole,)
            theirs |= {n: p.contiguous().clone() for n, p in zip(rule.theirs, parts, strict=True)}
        places = {rule.theirs[0]: ours[rule.ours[0]].data_ptr() for rule in self.rules}
        for copy, original in self.copies.items():
            if copy in theirs and places[copy] == places.get(original):
                del theirs[copy]
        return theirs


def _bring(
    rule: Rule, theirs: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]
) -> dict[str, Tensor]:
    missing = [name for name in rule.theirs if name not in theirs]
    if missing and rule.zero:
        return {name: torch.zeros(shapes[name]) for name in rule.ours}
    if missing:
        raise InputError("the weights", got=f"no {missing[0]}", expected="it, for this config.json")
    if any(name not in shapes for name in rule.ours):
        raise InputError("the weights", got=f"a {rule.theirs[0]}", expected="none, by config.json")
    parts = [_real(name, theirs[name]) for name in rule.theirs]
    if rule.turned:
        parts = [part.t() if part.dim() == 2 else part for part in parts]
    if rule.row:
        parts = [part.flatten() for part in parts]
    if rule.shape is not None and [part.shape for part in parts] == [rule.shape]:
        parts = [parts[0].reshape(shapes[rule.ours[0]])]
    try:
        whole = torch.cat(parts) if len(parts) > 1 else parts[0]
        sizes = [shapes[name][0] for name in rule.ours]
        pieces = torch.split(whole, sizes) if len(sizes) > 1 else (whole,)
    except (RuntimeError, IndexError):
        pieces = ()
    expected = [shapes[name] for name in rule.ours]
    if [piece.shape for piece in pieces] != expected:
        got = _shapes(part.shape for part in (theirs[name] for name in rule.theirs))
        raise InputError(
            f"{rule.theirs[0]}: its shape does not fit config.json",
            got=got,
            expected=f"what gives {_shapes(expected)}",
        )
    return {name: _own(piece) for name, piece in zip(rule.ours, pieces, strict=True)}


def _real(name: str, tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point():
        got = str(tensor.dtype).removeprefix("torch.")
        raise InputError(name, got=got, expected="real numbers, such as float32 or bfloat16")
    return tensor


def _own(piece: Tensor) -> Tensor:
    """A tensor that is laid out as torch would, in memory of its own."""
    if piece.is_contiguous() and piece.nbytes == piece.untyped_storage().nbytes():
        return piece
    return piece.clone(memory_format=torch.contiguous_format)


def _shapes(shapes: Iterable[Sequence[int]]) -> str:
    return " and ".join("×".join(map(str, shape)) for shape in shapes)
