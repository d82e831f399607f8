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
    """Our tensors concatenated along the first dimension equal theirs, the hub's, concatenated."""

    our_names: tuple[str, ...]
    hub_names: tuple[str, ...]
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

    def add_prefixes(self, our_prefix: str, hub_prefix: str) -> Rule:
        """The same rule with a prefix before our names and one before theirs."""
        return replace(
            self,
            our_names=tuple(f"{our_prefix}{name}" for name in self.our_names),
            hub_names=tuple(f"{hub_prefix}{name}" for name in self.hub_names),
        )


def same(our_module: str, hub_module: str, *, bias: bool = True, **how: bool | int) -> list[Rule]:
    """Rules for the weight and bias of a module that both models have.

    Modules whose parameters are concatenated are joined by `+`: `same("key_value", "key+value")`.

    Args:
        our_module: Our name of the module.
        hub_module: Their name of the module.
        bias: Whether the module has a bias.
        **how: Further fields of `Rule`.
    """
    names = ("weight", "bias") if bias else ("weight",)
    return [
        Rule(
            tuple(f"{module}.{name}" for module in our_module.split("+")),
            tuple(f"{module}.{name}" for module in hub_module.split("+")),
            **how,  # type: ignore[arg-type]
        )
        for name in names
    ]


def add_prefixes(our_prefix: str, hub_prefix: str, rules: Iterable[Rule]) -> list[Rule]:
    """The same rules with a prefix before our names and one before theirs."""
    return [rule.add_prefixes(our_prefix, hub_prefix) for rule in rules]


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
    """Their tensors that must have certain values, such as Marian's sinusoidal positions; if they
    are ignored, too, any values."""

    def import_tensors(
        self, hub_tensors: dict[str, Tensor], shapes: Mapping[str, torch.Size]
    ) -> dict[str, Tensor]:
        """Converts their tensors to ours.

        Args:
            hub_tensors: Tensors by their names. Used tensors are removed from the dict, so that
                those that are transposed or concatenated are not in memory twice.
            shapes: The shapes of all our tensors by our names.

        Returns:
            Contiguous tensors by our names.

        Raises:
            InputError: A tensor is missing, left over, or of another shape.
        """
        # A checkpoint may leave out copies of a tensor: they are added.
        copies = {c: hub_tensors[o] for c, o in self.copies.items() if o in hub_tensors}
        hub_tensors |= {c: tensor for c, tensor in copies.items() if c not in hub_tensors}
        our_tensors: dict[str, Tensor] = {}
        pending_uses = Counter(name for rule in self.rules for name in rule.hub_names)
        used = set(pending_uses)
        for rule in self.rules:
            our_tensors |= _apply_rule(rule, hub_tensors, shapes)
            pending_uses.subtract(rule.hub_names)
            for name in {*rule.hub_names} - {*self.copies.values(), *+pending_uses}:
                hub_tensors.pop(name, None)
        self._check_unused(hub_tensors, used)
        missing = [name for name in shapes if name not in our_tensors]
        if missing:
            raise InputError(
                "the weights", got=f"no tensor for {missing[0]}", expected="all tensors"
            )
        return our_tensors

    def misfit(
        self, hub_tensors: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]
    ) -> str | None:
        """Why their tensors do not fit this table, by names and sizes; None if they fit.

        Args:
            hub_tensors: Tensors by their names; their values are not read.
            shapes: The shapes of all our tensors by our names.
        """
        available = hub_tensors.keys() | {c for c, o in self.copies.items() if o in hub_tensors}
        for rule in self.rules:
            missing = [name for name in rule.hub_names if name not in available]
            if missing and not rule.zero:
                return f"no {missing[0]}"
            names = [n if n in hub_tensors else self.copies.get(n, n) for n in rule.hub_names]
            hub_parts = [] if missing else [hub_tensors[name] for name in names]
            expected_count = sum(shapes[name].numel() for name in rule.our_names if name in shapes)
            if hub_parts and sum(part.numel() for part in hub_parts) != expected_count:
                return f"{rule.hub_names[0]} of {_format_shapes(part.shape for part in hub_parts)}"
        used = {name for rule in self.rules for name in rule.hub_names}
        unused = [name for name in hub_tensors if name not in used]
        unknown = [name for name in unused if not self._may_be_unused(name)]
        return f"an unknown tensor {unknown[0]}" if unknown else None

    def _may_be_unused(self, name: str) -> bool:
        """Whether a tensor that no rule names may be there: computed, a copy, or ignored."""
        return self._is_ignored(name) or name in self.computed or name in self.copies

    def _is_ignored(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.ignored)

    def _check_unused(self, hub_tensors: Mapping[str, Tensor], used: Set[str]) -> None:
        """Refuses tensors left over that are neither computed, nor copies, nor ignored."""
        for name in hub_tensors.keys() & self.computed.keys():
            if not self._is_ignored(name) and not self.computed[name].matches(hub_tensors[name]):
                raise InputError(
                    name, got="other values", expected="sinusoidal positions, which are not learned"
                )
        for name in hub_tensors.keys() - used - self.computed.keys():
            original = self.copies.get(name)
            if original is not None and original in hub_tensors:
                if not torch.equal(hub_tensors[name], hub_tensors[original]):
                    raise InputError(name, got="other values", expected=f"those of {original}")
            elif not self._is_ignored(name):
                expected = f"only the {len(used)} tensors of the model"
                raise InputError("the weights", got=f"an unknown tensor {name}", expected=expected)

    def _zero_biases(self, our_tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Zeros for the biases that their modules have and ours do not."""
        names = [name for rule in self.rules for name in rule.our_names if name.endswith(".bias")]
        weights = {name: our_tensors.get(f"{name.removesuffix('bias')}weight") for name in names}
        return {
            name: weight.new_zeros(len(weight))
            for name, weight in weights.items() if name not in our_tensors and weight is not None
        }  # fmt: skip

    def export_tensors(self, our_tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Converts our tensors to theirs.

        Copies of tied matrices are left out, as transformers does. A bias that only their module
        has is zero.
        """
        our_tensors = our_tensors | self._zero_biases(our_tensors)
        unmatched = our_tensors.keys() - {name for rule in self.rules for name in rule.our_names}
        if unmatched:
            raise InputError(
                "export",
                got=f"a {min(unmatched)}",
                expected="only tensors that transformers' model has",
            )
        computed = self.computed.items()
        hub_tensors = {name: tensor.compute() for name, tensor in computed if tensor.stored}
        for rule in self.rules:
            our_parts = [our_tensors[name] for name in rule.our_names]
            joined = torch.cat(our_parts) if len(our_parts) > 1 else our_parts[0]
            joined = joined.t() if rule.transposed and joined.dim() == 2 else joined
            joined = joined[None] if rule.row else joined
            names = rule.hub_names
            hub_parts = joined.chunk(len(names)) if len(names) > 1 else (joined,)
            if rule.shape is not None:
                hub_parts = tuple(part.reshape(rule.shape) for part in hub_parts)
            hub_tensors |= {
                n: p.contiguous().clone() for n, p in zip(names, hub_parts, strict=True)
            }
        first_names = {rule.hub_names[0]: rule.our_names[0] for rule in self.rules}
        pointers = {hub: our_tensors[our].data_ptr() for hub, our in first_names.items()}
        for copy, original in self.copies.items():
            if copy in hub_tensors and pointers[copy] == pointers.get(original):
                del hub_tensors[copy]
        return hub_tensors


def _apply_rule(
    rule: Rule, hub_tensors: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]
) -> dict[str, Tensor]:
    """Converts the tensors of one rule to ours, by our names; checks their types and shapes."""
    missing = [name for name in rule.hub_names if name not in hub_tensors]
    if missing and rule.zero:
        return {name: torch.zeros(shapes[name]) for name in rule.our_names}
    if missing:
        raise InputError(
            "the weights", got=f"no {missing[0]}", expected="all tensors of config.json"
        )
    if any(name not in shapes for name in rule.our_names):
        raise InputError(
            "the weights",
            got=f"a tensor {rule.hub_names[0]}",
            expected="no such tensor, by config.json",
        )
    hub_parts = [hub_tensors[name] for name in rule.hub_names]
    _check_type(rule, hub_parts)
    if rule.transposed:
        hub_parts = [part.t() if part.dim() == 2 else part for part in hub_parts]
    if rule.row:
        hub_parts = [part.flatten() for part in hub_parts]
    if rule.shape is not None and {part.shape for part in hub_parts} == {torch.Size(rule.shape)}:
        hub_parts = [part.reshape(-1, *shapes[rule.our_names[0]][1:]) for part in hub_parts]
    try:
        joined = torch.cat(hub_parts) if len(hub_parts) > 1 else hub_parts[0]
        our_parts: tuple[Tensor, ...] = (joined,)
        if len(rule.our_names) > 1:
            our_parts = torch.split(joined, [shapes[name][0] for name in rule.our_names])
    except (RuntimeError, IndexError):
        our_parts = ()
    expected = [shapes[name] for name in rule.our_names]
    if [part.shape for part in our_parts] != expected:
        got = _format_shapes(hub_tensors[name].shape for name in rule.hub_names)
        raise InputError(
            f"{rule.hub_names[0]}: its shape does not fit config.json",
            got=got,
            expected=f"shapes that give {_format_shapes(expected)}",
        )
    return {n: _own_contiguous(p) for n, p in zip(rule.our_names, our_parts, strict=True)}


def _check_type(rule: Rule, hub_parts: Sequence[Tensor]) -> None:
    for name, tensor in zip(rule.hub_names, hub_parts, strict=True):
        if not rule.integer and not tensor.is_floating_point():
            got = str(tensor.dtype).removeprefix("torch.")
            raise InputError(name, got=got, expected="real numbers, such as float32 or bfloat16")


def _own_contiguous(part: Tensor) -> Tensor:
    """A contiguous tensor in its own memory; copied only if necessary."""
    if part.is_contiguous() and part.nbytes == part.untyped_storage().nbytes():
        return part
    return empty_pages(part.numel(), part.dtype).view(part.shape).copy_(part)


def _format_shapes(shapes: Iterable[Sequence[int]]) -> str:
    return " and ".join("×".join(map(str, shape)) for shape in shapes)
