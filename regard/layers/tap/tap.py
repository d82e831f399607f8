"""A Tap records tensors at named sites inside a model; an Edit changes them there.

    site                     what                                    shape
    encoder.embedding        token vectors plus positions            (batch, length, dim)
    encoder.0.self.q .k .v   what enters the product                 (batch, heads, query, head_dim)
    encoder.0.self.scores    before the softmax, masked ones -inf    (batch, heads, query, key)
    encoder.0.self.weights   after the softmax, before any dropout   (batch, heads, query, key)
    encoder.0.self.heads     each head's output                      (batch, heads, query, head_dim)
    encoder.0.self.out       after the output projection             (batch, length, dim)
    encoder.0.feed_forward   the feed-forward's output               (batch, length, dim)
    encoder.0.residual       what leaves the block                   (batch, length, dim)
    logits                   before the softmax over the vocabulary  (batch, length, vocab)

and the same for `decoder.N.self` and `decoder.N.cross`. Patterns may use `*`. In decoding, a row is
a hypothesis; but the beams of a sequence share the keys and values of the memory, so an edit of
`cross.k` or `cross.v` gets one row for each sequence. If attention stays within windows of an
image, scores and weights are (batch, heads, query, cell of the query's window);
`layout.keys(query)` of the windows names the tokens at these cells.

Recording never changes the output: it still comes from the fused kernel, and scores and weights
are computed separately for the requested heads and queries, for long inputs only when they are
read (see `Records`). Only if the scores or weights of a layer are *edited* is its output computed
from them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from difflib import get_close_matches
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from regard.errors import InputError
from regard.layers.layout import Layout
from regard.layers.tap.product import Product as Product
from regard.layers.tap.product import Records, select

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Edit:
    """A change of the tensor at a site: `change` gets the tensor and returns its replacement."""

    site: str
    change: Callable[[Tensor], Tensor]
    head: int | None = None
    """The head that is changed, if it is a single one."""


def split_head(head: str) -> tuple[str, int]:
    """Splits a head's name into layer and number: `decoder.2.cross.3` -> (`decoder.2.cross`, 3)."""
    layer, _, number = head.rpartition(".") if isinstance(head, str) else ("", "", "")
    # A layer on its own may have a name without dots.
    if not number.isdigit() or not layer or layer.count(".") not in (0, 2):
        raise InputError("head", got=repr(head), expected="a head such as decoder.1.cross.3")
    return layer, int(number)


def scale_head(head: str, factor: float) -> Edit:
    """Multiplies one head's output by a factor; `decoder.2.cross.3` is head 3 of that layer."""
    layer, number = split_head(head)

    def change(out: Tensor) -> Tensor:
        out = out.clone()
        out[:, number] *= factor
        return out

    return Edit(f"{layer}.heads", change, number)


def knock_out(head: str) -> Edit:
    """Removes a head: its output becomes zero."""
    return scale_head(head, 0.0)


def replace(site: str, value: Tensor) -> Edit:
    """Replaces the tensor at a site by a value, for instance one recorded in another run."""

    def change(present: Tensor) -> Tensor:
        try:
            return value.to(present).expand_as(present)
        except RuntimeError as error:
            shapes = tuple(value.shape), tuple(present.shape)
            raise InputError(site, got=f"shape {shapes[0]}", expected=shapes[1]) from error

    return Edit(site, change)


class Tap:
    """Records the tensors at the named sites, and applies edits.

    Args:
        sites: Names or patterns of sites to record.
        heads: Record only these heads of scores and weights.
        queries: Record only these query positions of scores and weights.
        edits: Changes to make.

    After a forward pass `records[site]` is the tensor; for long inputs, `records.part(site, …)` and
    `records.blocks(site)` read parts of it. In decoding, the engine ends each step with
    `next_step`; `follow(rows)` then concatenates the steps of one hypothesis.
    """

    def __init__(
        self,
        *sites: str,
        heads: Sequence[int] | None = None,
        queries: Sequence[int] | None = None,
        edits: Iterable[Edit] = (),
    ) -> None:
        for site in sites:
            if not isinstance(site, str):
                expected = 'names, such as Tap("*.weights", "*.scores")'
                raise InputError("sites of a tap", got=repr(site), expected=expected)
        self.sites = sites
        self.heads, self.queries, self.edits = heads, queries, tuple(edits)
        self.records = Records()
        self.steps: list[dict[str, Tensor]] = []
        self.layouts: dict[str, Layout] = {}
        """Of each attention layer that was called, the layout of its records' queries."""
        self._known_sites: dict[str, int] = {}  # site -> its number of heads, of what was called
        self._warned: set[str] = set()

    def begin(self, sites: dict[str, int]) -> None:
        """Checks all names before a model runs, and drops the steps of an earlier decoding.

        Args:
            sites: Every site of the model, with its number of heads.

        Raises:
            InputError: If the model does not have a site or head.
        """
        self.steps = []
        self._known_sites = dict(sites)
        for pattern, head in self._unmatched_patterns():
            raise InputError("no such site", **self._message_parts(pattern, head, "this model"))
        self._check_heads()

    def check_layer(self, name: str, sites: dict[str, int]) -> None:
        """Checks the names of this tap when a layer is called on its own.

        A tap may be passed to several layers in turn; so a name that may be another layer's is a
        warning, and only a wrong or misspelt site or a wrong head of this layer is an error.

        Args:
            name: The layer's name.
            sites: Its sites, with the number of heads at each.

        Raises:
            InputError: If this layer does not have a site or head.
        """
        if sites.keys() <= self._known_sites.keys():  # part of a model or layer that was checked
            return
        self._known_sites |= sites
        owners = {name, *(site.rpartition(".")[0] for site in sites)}
        for pattern, head in self._unmatched_patterns():
            message = self._message_parts(pattern, head, name)
            layer, _, word = pattern.rpartition(".")
            misspelt = "*" in layer and get_close_matches(word, _sites_by_last_word(sites), n=1)
            if layer in owners or misspelt:
                raise InputError("no such site", **message)
            if pattern not in self._warned:
                self._warned.add(pattern)
                _logger.warning("%s", InputError("the tap names no site so far", **message))
        self._check_heads()

    def _unmatched_patterns(self) -> list[tuple[str, int | None]]:
        """The patterns that match no known site, each with the head of its edit, if it has one."""
        patterns: list[tuple[str, int | None]] = [(site, None) for site in self.sites]
        patterns += [(edit.site, edit.head) for edit in self.edits]
        return [
            (pattern, head) for pattern, head in patterns
            if not any(fnmatchcase(site, pattern) for site in self._known_sites)
        ]  # fmt: skip

    def _message_parts(self, pattern: str, head: int | None, owner: str) -> dict[str, str]:
        """The parts of the error for an unknown name: what was got, and the nearest name."""
        heads = [site for site in self._known_sites if site.endswith(".heads")]
        got = pattern if head is None else f"{pattern.removesuffix('.heads')}.{head}"
        if head is not None and heads:
            nearest_site = (get_close_matches(pattern, heads, n=1) or heads)[0]
            number = min(head, self._known_sites[nearest_site] - 1)
            name = f"{nearest_site.removesuffix('.heads')}.{number}"
            return {"got": got, "expected": f"a head of {owner}, such as {name}"}
        words = _sites_by_last_word(self._known_sites)
        close_sites = get_close_matches(pattern, self._known_sites, n=1)
        close_sites += [
            words[word] for word in get_close_matches(pattern.rpartition(".")[2], words, n=1)
        ]
        nearest_site = (close_sites or list(self._known_sites))[0]
        return {"got": got, "expected": f"a site of {owner}, such as {nearest_site}"}

    def _check_heads(self) -> None:
        """Refuses heads that the known sites do not have."""
        heads = max(self._known_sites.values())
        for head in self.heads or ():
            if heads and not 0 <= head < heads:
                raise InputError("no such head", got=head, expected=f"0 to {heads - 1}")
        for edit in self.edits:
            matched = [
                self._known_sites[site]
                for site in self._known_sites
                if fnmatchcase(site, edit.site)
            ]
            if edit.head is not None and matched and edit.head >= min(matched):
                got = f"{edit.site.removesuffix('.heads')}.{edit.head}"
                expected = f"head 0 to {min(matched) - 1}"
                raise InputError("no such head", got=got, expected=expected)

    def _check_queries(self, name: str, count: int) -> None:
        """Refuses requested queries that a layer with `count` queries does not have."""
        for query in self.queries or ():
            if count > 1 and not -count <= query < count:  # a decoding step has one query only
                raise InputError(
                    f"no such query in {name}", got=query, expected=f"0 to {count - 1}"
                )

    def wants(self, site: str) -> bool:
        """Whether the value at this site is to be recorded."""
        return any(fnmatchcase(site, pattern) for pattern in self.sites)

    def edits_at(self, site: str) -> list[Edit]:
        """The edits that act at this site."""
        return [edit for edit in self.edits if fnmatchcase(site, edit.site)]

    def visit(self, site: str, value: Tensor) -> Tensor:
        """Edits, then records, a tensor of padded rows; returns the edited tensor."""
        for edit in self.edits_at(site):
            value = edit.change(value)
        if self.wants(site):
            self.records[site] = value.detach().clone()
        return value

    def visit_tokens(self, site: str, x: Tensor, layout: Layout) -> Tensor:
        """`visit` for packed tokens (tokens, dim); edits and records get (batch, length, dim)."""
        if self.edits_at(site):
            return layout.unpad(self.visit(site, layout.pad(x)))
        if self.wants(site):
            self.visit(site, layout.pad(x))
        return x

    def visit_heads(self, site: str, x: Tensor, layout: Layout, record_layout: Layout) -> Tensor:
        """`visit` for (batch, heads, query, …); edits and records get the rows of `record_layout`.

        In cross-attention the beams of a sequence are the queries of one row (`layout`); a record
        has one row for each beam (`record_layout`).
        """
        if layout is record_layout or not (self.wants(site) or self.edits_at(site)):
            return self.visit(site, x)
        heads = x.shape[1]
        rows = self.visit(site, record_layout.rows(layout.tokens(x), heads))
        return layout.rows(record_layout.tokens(rows), heads)

    def visit_memory(self, site: str, value: Tensor, rows: int) -> Tensor:
        """`visit` for keys and values of the memory, which the beams of a sequence share.

        Edits get one row for each sequence; records get `rows` rows, one for each beam.
        """
        for edit in self.edits_at(site):
            value = edit.change(value)
        if self.wants(site):
            self.records[site] = value.detach().repeat_interleave(rows // value.shape[0], dim=0)
        return value

    def attention(self, product: Product, out: Tensor) -> Tensor:
        """Records scores, weights and heads of an attention layer where requested.

        out: the kernel's output (batch, heads, query, head_dim); returned unchanged unless edited.
        """
        name = product.name
        self.layouts[name] = product.record_layout
        scores_at, weights_at = f"{name}.scores", f"{name}.weights"
        if self.wants(scores_at) or self.wants(weights_at):
            self._check_queries(name, product.record_layout.longest)
        if self.edits_at(scores_at) or self.edits_at(weights_at):
            out = self._attend_with_edits(product)
        else:
            self._record_pattern(product, scores_at, softmax=False)
            self._record_pattern(product, weights_at, softmax=True)
        return self.visit_heads(f"{name}.heads", out, product.layout, product.record_layout)

    def _record_pattern(self, product: Product, site: str, *, softmax: bool) -> None:
        """Records the scores or weights of the requested heads and queries."""
        if not self.wants(site):
            return
        # If the layouts differ, the queries of a row are those of several beams: the requested ones
        # are selected when each beam has its own row.
        same_layout = product.layout is product.record_layout
        pattern = product.pattern(self.heads, self.queries if same_layout else None)
        pattern = replace_fields(pattern, softmax=softmax)
        if same_layout:
            self.records.keep(site, pattern)
        else:
            self.visit_heads(site, pattern.whole(), product.layout, product.record_layout)
            self.records[site] = select(self.records[site], None, self.queries)

    def _attend_with_edits(self, product: Product) -> Tensor:
        """Each head's output, from edited scores or weights: (batch, heads, query, head_dim).

        All scores and weights are computed, since an edit may use any of them.
        """
        layouts = product.layout, product.record_layout
        scores_at, weights_at = f"{product.name}.scores", f"{product.name}.weights"
        if self.edits_at(scores_at):
            scores, mask = product.scores()
            weights = product.weights_of(self.visit_heads(scores_at, scores, *layouts), mask)
            self._reduce_record(scores_at)
        else:
            self._record_pattern(product, scores_at, softmax=False)
            weights = product.weights()
        weights = self.visit_heads(weights_at, weights, *layouts)
        self._reduce_record(weights_at)
        return weights @ product.v.repeat_interleave(weights.shape[1] // product.v.shape[1], dim=1)

    def _reduce_record(self, site: str) -> None:
        """Reduces the record of a site to the requested heads and queries."""
        if site in self.records:
            self.records[site] = select(self.records[site], self.heads, self.queries)

    def next_step(self) -> None:
        """Ends a decoding step: moves the decoder's records into `steps`.

        The encoder runs once, before the first step; its records stay in `records`.
        """
        step_sites = [site for site in self.records if not site.startswith("encoder.")]
        self.steps.append({site: self.records.pop(site) for site in step_sites})

    def follow(self, rows: Sequence[int]) -> dict[str, Tensor]:
        """Concatenates the steps of one hypothesis, which was in row rows[t] at step t.

        Returns:
            Site -> tensor without the batch dimension: weights are (heads, query, key), with one
            query for each step; keys that did not exist at a step have weight 0 (and score -inf).
        """
        joined: dict[str, Tensor] = {}
        for site in self.steps[0] if rows else ():
            values = [step[site][row] for step, row in zip(self.steps, rows, strict=False)]
            if site.endswith((".cross.k", ".cross.v")):
                joined[site] = values[0]  # the same at every step
                continue
            empty = float("-inf") if site.endswith(".scores") else 0.0
            widest = values[-1].shape[-1]
            values = [
                torch.nn.functional.pad(value, (0, widest - value.shape[-1]), value=empty)
                for value in values
            ]
            joined[site] = torch.cat(values, dim=-2)
        return joined


def _sites_by_last_word(sites: Iterable[str]) -> dict[str, str]:
    """The last word of each site, such as `weights` -> the first site that ends in it."""
    words: dict[str, str] = {}
    for site in sites:
        words.setdefault(site.rpartition(".")[2], site)
    return words
