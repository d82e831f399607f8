"""Formats a plan as an aligned table with units and the origin of each number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from regard.cost.count import RELATIVE
from regard.cost.names import unit_tokens
from regard.runtime.units import duration, short

if TYPE_CHECKING:
    from regard.cost.plan import Plan

PlanLine = tuple[str, str, str]
"""A row of the table: a label, a number with its unit, and a note on where it comes from."""


def plan_table(plan: Plan) -> str:
    """The table of a plan."""
    config = plan.recipe.model
    layers = " + ".join(map(str, config.stacks.values()))
    is_resnet = getattr(config.first, "kind", "") == "resnet"
    kind = "stages" if is_resnet else "layers"  # a stage has several layers
    trained = "" if plan.what == plan.recipe_name else f", trained as {plan.recipe_name}"
    sections = (
        _parameter_rows(plan),
        _flops_rows(plan),
        *_memory_rows(plan),
        _training_rows(plan),
    )
    return "\n".join(
        [
            f"{plan.what}: {layers} {kind}, {config.summary}{trained}",
            _input_line(plan),
            *(f"\n{_align_rows(rows)}" for rows in sections),
        ]
    )


def _input_line(plan: Plan) -> str:
    """A line about the input of the model: vocabulary and lengths, or image size."""
    model: Any = plan.recipe.model
    if hasattr(model.first, "grid"):
        tokens = "" if plan.unit == "image" else f": {plan.lengths[0]:,} tokens"
        return f"{model.reads} of {model.first.front.image_summary}{tokens}"
    if plan.unit == "row":
        return f"rows of {model.features:,} numbers"
    shared = " for both sides" if plan.recipe.tokens.shared else " for each side"
    sides = shared if model.has_target else ""
    source, target = plan.lengths[0], plan.lengths[-1]
    texts = f"{'texts' if len(plan.lengths) == 1 else 'sentences'} of {source:,} tokens"
    if source != target:
        texts = f"{source:,} tokens in, {target:,} out"
    return f"vocabulary of {plan.vocab:,}{sides} ({plan.vocab_from}), {texts}"


def _parameter_rows(plan: Plan) -> list[PlanLine]:
    notes = {part: f"the {owner}'s matrix" for part, owner in plan.shared.items()}
    notes |= {part: f"{note}, and a bias" for part, note in notes.items() if plan.parameters[part]}
    notes[RELATIVE] = "dim × dim in each layer, as in Transformer-XL"
    body = short(plan.without_vocabulary)
    return [
        *_total_and_parts("parameters", plan.parameters, notes=notes),
        ("  without embeddings and output", body, ""),
    ]


def _flops_rows(plan: Plan) -> list[PlanLine]:
    body, unit = plan.without_vocabulary, plan.unit
    forward = f"FLOPs per {unit}, forward"
    notes = {forward: f"{short(plan.multiply_adds)} multiply-adds, two FLOPs each"}
    if RELATIVE in plan.parameters:
        notes[forward] = f"without {RELATIVE}"
    rows = _total_and_parts(forward, plan.forward, notes=notes)
    is_image = hasattr(plan.recipe.model.first, "grid") and len(plan.lengths) == 1
    if is_image and unit == "token":
        image = sum(plan.forward.values()) * plan.lengths[0]
        rows.append(("FLOPs per image, forward", short(image),
                     f"{short(image / 2)} multiply-adds"))  # fmt: skip
    rows.append((f"FLOPs per {unit}, training", short(plan.flops_per_token), "3 × forward"))
    if unit == "token":  # a weight of a convolution meets every place of an image, not one
        is_estimate = len(plan.lengths) > 1 or RELATIVE in plan.parameters
        meets = "as if every token met all" if is_estimate else "every token meets all"
        rows.append(("  by the rule 6N", short(6 * body), f"{meets} {short(body)}"))
    return rows


def _memory_rows(plan: Plan) -> tuple[list[PlanLine], list[PlanLine]]:
    count = plan.recipe.train.batch_tokens // unit_tokens(plan.recipe.model)
    batch = f"estimate, {count:,} {plan.unit}s at a time"
    decoding = f"beam {plan.rows}, up to {plan.max_output_tokens:,} tokens"
    training = plan.training_memory
    unknown = [("  activations", "", "not counted: no formula for a part of this model")]
    return (
        [
            *_total_and_parts("memory, training", training, "B", {"activations": batch}),
            *(unknown if "activations" not in training else ()),
        ],
        _total_and_parts(
            "memory, inference", plan.inference_memory, "B", {"keys and values": decoding}
        ),
    )


def _training_rows(plan: Plan) -> list[PlanLine]:
    """The rows about the whole training: FLOPs, tokens, rate, time and, with a price, cost."""
    counted = "counted: every matrix product, forward and backward"
    rows = [("training", _format_flops(plan.training_flops), counted)]
    if plan.published_with_source is not None:
        count, note = plan.published_with_source
        rows.append(("  published", _format_flops(count), note))
    rows += [
        (f"  {plan.unit}s", short(plan.tokens), plan.tokens_from),
        ("  rate", short(plan.rate, "FLOP/s"), plan.rate_from),
        ("  time", duration(plan.hours), "at this rate throughout, which no training reaches"),
        ("  time at half of it", duration(2 * plan.hours), ""),
    ]
    if plan.price_per_hour is not None:
        cost = plan.price_per_hour * plan.hours
        rows += [
            ("  cost", f"{cost:,.2f}", f"at {plan.price_per_hour:g} an hour"),
            ("  cost at half of it", f"{2 * cost:,.2f}", ""),
        ]
    return rows


def _total_and_parts(
    name: str, parts: Mapping[str, float], unit: str = "", notes: Mapping[str, str] | None = None
) -> list[PlanLine]:
    """A row with the sum of all parts, then an indented row for each part."""
    notes = notes or {}
    rows = [(part, size, notes.get(part, "")) for part, size in parts.items()]
    return [
        (name, short(sum(parts.values()), unit), notes.get(name, "")),
        *((f"  {part}", short(size, unit) if size else "", note) for part, size, note in rows),
    ]


def _align_rows(rows: Sequence[PlanLine]) -> str:
    return "\n".join(f"{label:<32}{value:>14}  {note}".rstrip() for label, value, note in rows)


def _format_flops(number: float) -> str:
    """FLOPs with a power of ten: 3.3e18 -> `3.30e18 FLOPs`."""
    return f"{number:.2e} FLOPs".replace("e+", "e")
