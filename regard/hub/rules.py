"""Converts Hugging Face's tensors to ours and back, by rules that hold in both directions.

A `Rule` says that some of our tensors, concatenated along the first dimension, equal some of theirs
concatenated. Most rules have one tensor on each side. Our keys and values are one matrix where
theirs are two, and GPT-2 has one transposed matrix for queries, keys and values. Tensors that no
rule names are an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from regard.errors import InputError
from regard.runtime.tensors import empty_pages


@dataclass(frozen=True)
class Rule:
    """Our tensors concatenated along the first dimension equal theirs concatenated."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    transposed: bool = False
    """Whether their matrix is transposed, (in, out), as in GPT-2."""
    row: bool = False
    """Whether their vector is a matrix of one row, as the bias of Marian's logits."""
    zero: bool = False
    """Whether ours is zero if theirs is missing, as that bias in a BART without a head."""
    shape: tuple[int, ...] | None = None
    """The shape of each of their tensors if ours have fewer dimensions (ViT's patches)."""
    integer: bool = False
    """Whether it is an integer, such as the count of batches of a batch norm."""

    def within(self, ours: str, theirs: str) -> Rule:
        """The same rule with a prefix before our names and one before theirs."""
        return replace(
            self,
            ours=tuple(f"{ours}{name}" for name in self.ours),
            theirs=tuple(f"{theirs}{name}" for name in self.theirs),
        )


def same(ours: str, theirs: str, *, bias: bool = True, **how: bool | int) -> list[Rule]:
    """Rules for the weight and bias of a module that both models have.

    Modules whose parameters are concatenated are joined by `+`: `same("key_value", "key+value")`.

    Args:
        ours: Our name of the module.
        theirs: Their name of the module.
        bias: Whether the module has a bias.
        **how: Further fields of `Rule`.
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
    """The same rules with a prefix before our names and one before theirs."""
    return [rule.within(ours, theirs) for rule in rules]


@dataclass(frozen=True)
class ComputedTensor:
    """The expected shape and values of a tensor of theirs that is computed, not learned."""

    shape: tuple[int, ...]
    compute: Callable[[], Tensor]
    """Called only if the tensor has that shape, so a malicious config cannot allocate memory."""
    stored: bool = False
    """Whether their checkpoints contain it."""

    def matches(self, tensor: Tensor) -> bool:
        """Whether a tensor has these values, up to rounding."""
        if tuple(tensor.shape) != self.shape:
            return False
        return torch.allclose(tensor, self.compute(), rtol=0, atol=1e-3)


@dataclass(frozen=True)
class Table:
    """The rules for all tensors of one model."""

    rules: tuple[Rule, ...]
    copies: Mapping[str, str]
    """Their tensors that may repeat another of theirs (tied matrices): copy -> original."""
    ignored: tuple[str, ...] = ()
    """Patterns of their tensors that are not learned: masks, position ids, rotary frequencies."""
    computed: Mapping[str, ComputedTensor] = field(default_factory=dict)
    """Their tensors that must have certain values, such as Marian's sinusoidal positions."""

    def import_tensors(
        self, theirs: dict[str, Tensor], shapes: Mapping[str, torch.Size]
    ) -> dict[str, Tensor]:
        """Converts their tensors to ours.

        Args:
            theirs: Tensors by their names. Used tensors are removed from the dict, so that those
                that are transposed or concatenated are not in memory twice.
            shapes: The shapes of all our tensors by our names.

        Returns:
            Contiguous tensors by our names.

        Raises:
            InputError: A tensor is missing, left over, or of another shape.
        """
        # Copies that are not stored because they repeat another tensor.
        absent = {c: theirs[o] for c, o in self.copies.items() if c not in theirs and o in theirs}
        theirs |= absent
        ours: dict[str, Tensor] = {}
        waiting = Counter(name for rule in self.rules for name in rule.theirs)
        used = set(waiting)
        for rule in self.rules:
            ours |= _import(rule, theirs, shapes)
            waiting.subtract(rule.theirs)
            for name in {*rule.theirs} - {*self.copies.values(), *+waiting}:
                theirs.pop(name, None)
        self._check_unused(theirs, used)
        missing = [name for name in shapes if name not in ours]
        if missing:
            raise InputError(
                "the weights", got=f"no tensor for {missing[0]}", expected="all tensors"
            )
        return ours

    def misfit(self, theirs: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]) -> str | None:
        """What keeps tensors of theirs from being these, by names and sizes; None if nothing does.

        Args:
            theirs: Tensors by their names; their values are not read.
            shapes: The shapes of all our tensors by our names.
        """
        available = theirs.keys() | {c for c, o in self.copies.items() if o in theirs}
        for rule in self.rules:
            missing = [name for name in rule.theirs if name not in available]
            if missing and not rule.zero:
                return f"no {missing[0]}"
            stored = [theirs[self.copies.get(n, n) if n not in theirs else n] for n in rule.theirs
                      if not missing]  # fmt: skip
            wanted = sum(shapes[name].numel() for name in rule.ours if name in shapes)
            if stored and sum(tensor.numel() for tensor in stored) != wanted:
                return f"{rule.theirs[0]} of {_shapes(tensor.shape for tensor in stored)}"
        used = {name for rule in self.rules for name in rule.theirs}
        unknown = [name for name in theirs if name not in used and not self._known(name)]
        return f"an unknown tensor {unknown[0]}" if unknown else None

    def _known(self, name: str) -> bool:
        """Whether a tensor that no rule names may be there: computed, a copy, or ignored."""
        ignored = any(fnmatchcase(name, pattern) for pattern in self.ignored)
        return ignored or name in self.computed or name in self.copies

    def _check_unused(self, theirs: Mapping[str, Tensor], used: Set[str]) -> None:
        """Refuses tensors left over that are neither computed, nor copies, nor ignored."""
        for name in theirs.keys() & self.computed.keys():
            if not self.computed[name].matches(theirs[name]):
                raise InputError(
                    name, got="other values", expected="sinusoidal positions, which are not learned"
                )
        for name in theirs.keys() - used - self.computed.keys():
            original = self.copies.get(name)
            if original is not None and original in theirs:
                if not torch.equal(theirs[name], theirs[original]):
                    raise InputError(name, got="other values", expected=f"those of {original}")
            elif not any(fnmatchcase(name, pattern) for pattern in self.ignored):
                expected = f"only the {len(used)} tensors of the model"
                raise InputError("the weights", got=f"an unknown tensor {name}", expected=expected)

    def _zero_biases(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Zeros for the biases of modules whose weight we have, and whose bias only they have."""
        names = [name for rule in self.rules for name in rule.ours if name.endswith(".bias")]
        weights = {name: ours.get(f"{name.removesuffix('bias')}weight") for name in names}
        return {
            name: weight.new_zeros(len(weight))
            for name, weight in weights.items() if name not in ours and weight is not None
        }  # fmt: skip

    def export_tensors(self, ours: dict[str, Tensor]) -> dict[str, Tensor]:
        """Converts our tensors to theirs.

        Copies of tied matrices are left out, as they do. A bias that only their module has is
        zero.
        """
        ours = ours | self._zero_biases(ours)
        left = ours.keys() - {name for rule in self.rules for name in rule.ours}
        if left:
            raise InputError(
                "export", got=f"a {min(left)}", expected="only tensors that transformers' model has"
            )
        computed = self.computed.items()
        theirs = {name: tensor.compute() for name, tensor in computed if tensor.stored}
        for rule in self.rules:
            whole = ours[rule.ours[0]]
            whole = torch.cat([ours[name] for name in rule.ours]) if len(rule.ours) > 1 else whole
            whole = whole.t() if rule.transposed and whole.dim() == 2 else whole
            whole = whole[None] if rule.row else whole
            parts = whole.chunk(len(rule.theirs)) if len(rule.theirs) > 1 else (whole,)
            if rule.shape is not None:
                parts = tuple(part.reshape(rule.shape) for part in parts)
            theirs |= {n: p.contiguous().clone() for n, p in zip(rule.theirs, parts, strict=True)}
        pointers = {rule.theirs[0]: ours[rule.ours[0]].data_ptr() for rule in self.rules}
        for copy, original in self.copies.items():
            if copy in theirs and pointers[copy] == pointers.get(original):
                del theirs[copy]
        return theirs


def _import(
    rule: Rule, theirs: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]
) -> dict[str, Tensor]:
    missing = [name for name in rule.theirs if name not in theirs]
    if missing and rule.zero:
        return {name: torch.zeros(shapes[name]) for name in rule.ours}
    if missing:
        raise InputError(
            "the weights", got=f"no {missing[0]}", expected="all tensors of config.json"
        )
    if any(name not in shapes for name in rule.ours):
        raise InputError(
            "the weights",
            got=f"a tensor {rule.theirs[0]}",
            expected="no such tensor, by config.json",
        )
    parts = [theirs[name] if rule.integer else _real(name, theirs[name]) for name in rule.theirs]
    if rule.transposed:
        parts = [part.t() if part.dim() == 2 else part for part in parts]
    if rule.row:
        parts = [part.flatten() for part in parts]
    if rule.shape is not None and {part.shape for part in parts} == {torch.Size(rule.shape)}:
        parts = [part.reshape(-1, *shapes[rule.ours[0]][1:]) for part in parts]
    try:
        whole = torch.cat(parts) if len(parts) > 1 else parts[0]
        several = len(rule.ours) > 1
        pieces = torch.split(whole, [shapes[n][0] for n in rule.ours]) if several else (whole,)
    except (RuntimeError, IndexError):
        pieces = ()
    expected = [shapes[name] for name in rule.ours]
    if [piece.shape for piece in pieces] != expected:
        got = _shapes(part.shape for part in (theirs[name] for name in rule.theirs))
        raise InputError(
            f"{rule.theirs[0]}: its shape does not fit config.json",
            got=got,
            expected=f"shapes that give {_shapes(expected)}",
        )
    return {name: _contiguous(piece) for name, piece in zip(rule.ours, pieces, strict=True)}


def _real(name: str, tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point():
        got = str(tensor.dtype).removeprefix("torch.")
        raise InputError(name, got=got, expected="real numbers, such as float32 or bfloat16")
    return tensor


def _contiguous(piece: Tensor) -> Tensor:
    """A contiguous tensor in its own memory; copied only if necessary."""
    if piece.is_contiguous() and piece.nbytes == piece.untyped_storage().nbytes():
        return piece
    return empty_pages(piece.numel(), piece.dtype).view(piece.shape).copy_(piece)


def _shapes(shapes: Iterable[Sequence[int]]) -> str:
    return " and ".join("×".join(map(str, shape)) for shape in shapes)
