"""Eligible edges in torch: ranges within nodes' rows, or lists if the edges are not contiguous."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from snapdb.kernels.torch_ops import counts_of, lower_bound, place, spread
from snapdb.sampling.subgraph import ExcludedEdges, SamplerInput
from snapdb.sampling.torch_traversals import TorchTraversal, tensor_on
from snapdb.sampling.traversals import time_bounds
from snapdb.types import Temporal

_ALWAYS = -(2**63)
"""The event time that represents static edges."""


class Frontier(NamedTuple):
    """The nodes whose edges are drawn."""

    nodes: Tensor
    """[nodes] dense ids."""
    trees: Tensor
    """[nodes] the seed whose tree each node is in. Empty if trees are not disjoint."""

    def part(self, low: int, high: int) -> Frontier:
        """Return the nodes low ≤ i < high."""
        return Frontier(self.nodes[low:high], self.trees[low:high])


class Limits(NamedTuple):
    """The time bounds of each disjoint tree, which follow from the seeds' times."""

    low: Tensor
    """[trees] the inclusive lower time bound of edges without an end time."""
    high: Tensor
    """[trees] the exclusive upper bound of edge times and neighbour birth times."""
    after: Tensor
    """[trees] edges with an end time must end after this time."""
    since: Tensor
    """[trees] the time from which the tree's own pairs are excluded."""
    ordinals: Tensor
    """[trees] the seeds' ordinals."""

    @classmethod
    def of(cls, entry: SamplerInput, temporal: Temporal | None, device: torch.device) -> Self | None:
        """Return the limits of a batch's trees, or None for statements without time bounds."""
        if temporal is None:
            return None
        return cls(*(tensor_on(bound, device) for bound in time_bounds(entry, temporal)))


class Hidden(NamedTuple):
    """Pairs of ends between which no edge may be drawn. A disjoint tree excludes only the pairs of its seed."""

    nodes: Tensor
    """(tree, vertex) pairs whose rows may contain such an edge, as tree * `base` + vertex."""
    base: int
    """The number of vertices."""
    sources: Tensor
    """Sources, ascending and distinct."""
    destinations: Tensor
    """Destinations, ascending and distinct."""
    pairs: Tensor
    """(tree, source, destination) encoded as one number, ascending, from positions in `sources` and `destinations`."""

    @classmethod
    def of(cls, excluded: ExcludedEdges, traversal: TorchTraversal, disjoint: bool, device: torch.device) -> Self:
        """Return the pairs that are excluded from a traversal."""
        source, destination = excluded.source, excluded.destination
        trees = excluded.trees if disjoint else np.zeros_like(excluded.trees)
        near = {"IN": [destination], "OUT": [source], "BOTH": [source, destination]}[traversal.relation.direction]
        base = traversal.indptr.numel() - 1
        sources, s = np.unique(source, return_inverse=True)
        destinations, d = np.unique(destination, return_inverse=True)
        # Encode the three numbers as one int64, so that a membership test is one binary search.
        pairs = np.unique((trees * sources.size + s) * destinations.size + d)
        nodes, *columns = (
            tensor_on(values, device)
            for values in (np.concatenate([trees * base + end for end in near]), sources, destinations, pairs)
        )
        return cls(nodes, base, *columns)

    def may_meet(self, frontier: Frontier) -> Tensor:
        """Return a [nodes] mask of the nodes whose row may contain an excluded edge."""
        keys = frontier.trees * self.base + frontier.nodes if frontier.trees.numel() else frontier.nodes
        return torch.isin(keys, self.nodes)

    def holds(self, source: Tensor, destination: Tensor, trees: Tensor | int) -> Tensor:
        """Return an [edges] mask of the excluded edges."""
        s, is_source = _find(self.sources, source)
        d, is_destination = _find(self.destinations, destination)
        _, is_pair = _find(self.pairs, (trees * self.sources.numel() + s) * self.destinations.numel() + d)
        return is_source & is_destination & is_pair


class Eligible(NamedTuple):
    """The eligible edges of a set of rows, in row order."""

    held: int
    """The number of positions in the flat rows."""
    starts: Tensor
    """[pieces, rows] positions where pieces start. Values from `held` on are indices into `listed`."""
    counts: Tensor
    """[pieces, rows] the length of each piece."""
    listed: Tensor | None = None
    """Positions of listed rows, ascending in each row."""

    @property
    def degrees(self) -> Tensor:
        """[rows] the number of eligible edges."""
        return self.counts.sum(0)

    def part(self, low: int, high: int) -> Eligible:
        """Return the eligible edges of the rows low ≤ row < high."""
        return self._replace(starts=self.starts[:, low:high], counts=self.counts[:, low:high])

    def of(self, rows: Tensor) -> Eligible:
        """Return the eligible edges of these rows."""
        return self._replace(starts=self.starts[:, rows], counts=self.counts[:, rows])

    def only(self, which: Tensor, positions: Tensor, kept: Tensor) -> Eligible:
        """Return the same edges, but the rows of `which` become lists of the positions that `kept` marks."""
        left = counts_of(kept, torch.where(which, self.degrees, 0))
        listed = positions[kept] if self.listed is None else torch.cat((self.listed, positions[kept]))
        starts, counts = self.starts.clone(), torch.where(which, 0, self.counts)
        starts[0] = torch.where(which, self.held + listed.numel() - left.sum() + left.cumsum(0) - left, starts[0])
        counts[0] += left
        return self._replace(starts=starts, counts=counts, listed=listed)

    def ranks(self, rows: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ranks of positions among the eligible edges of their rows, and whether each position is eligible.

        `positions` has shape [rows, n].
        """
        before = torch.zeros_like(rows)[:, None]
        inside_any, ranks = torch.zeros_like(positions, dtype=torch.bool), torch.zeros_like(positions)
        for start, count in zip(self.starts[:, rows, None], self.counts[:, rows, None], strict=True):
            inside = (positions >= start) & (positions < start + count)
            ranks = torch.where(inside, before + positions - start, ranks)
            inside_any |= inside
            before = before + count
        if self.listed is None or self.listed.numel() == 0:
            return ranks, inside_any
        # A listed row has one piece, whose start is beyond `held`. Its ranks are found by binary search in the list.
        start, count = self.starts[0][rows, None] - self.held, self.counts[0][rows, None]
        low, count = start.clamp(min=0), torch.where(start < 0, 0, count)
        steps = int(count.max()).bit_length() if count.numel() else 0
        at = lower_bound(self.listed, low, low + count, positions, steps)
        inside = (at < low + count) & (self.listed[at.clamp(max=self.listed.numel() - 1)] == positions)
        return torch.where(inside, at - low, ranks), inside_any | inside

    def positions(self, rows: Tensor, ranks: Tensor) -> Tensor:
        """Return the positions of ranks among the eligible edges of rows."""
        positions = place(self.starts, self.counts, rows, ranks)
        if self.listed is None or self.listed.numel() == 0:
            return positions
        return torch.where(positions < self.held, positions, self.listed[(positions - self.held).clamp(min=0)])


def stretches(traversal: TorchTraversal, frontier: Frontier, limits: Limits | None) -> Eligible:
    """Return the ranges of edges within the time bounds of each node's tree, without checking end and birth times."""
    start, end = traversal.indptr[frontier.nodes], traversal.indptr[frontier.nodes + 1]
    if limits is None or traversal.time is None:
        return Eligible(traversal.held, start[None], (end - start)[None])
    turn = None if traversal.turn is None else traversal.turn[frontier.nodes]
    # A row of direction BOTH is time-sorted only within each half, so each half is searched separately.
    halves = [(start, end)] if turn is None else [(start, turn), (turn, end)]
    low, high = limits.low[frontier.trees], limits.high[frontier.trees]
    starts, ends = [], []
    for first, last in halves:
        # Static edges come first, and are within all time bounds.
        static = lower_bound(traversal.time, first, last, _ALWAYS + 1, traversal.steps)
        stop = lower_bound(traversal.time, static, last, high, traversal.steps)
        if traversal.until is None:
            starts += [first, lower_bound(traversal.time, static, stop, low, traversal.steps)]
            ends += [static, stop]
        else:
            starts.append(first)
            ends.append(stop)
    begin = torch.stack(starts)
    return Eligible(traversal.held, begin, torch.stack(ends) - begin)


def eligible_edges(
    traversal: TorchTraversal,
    frontier: Frontier,
    limits: Limits | None,
    hidden: Hidden | None,
    eligible: Eligible,
    which: Tensor,
) -> Eligible:
    """Return the edges of `eligible` that have not ended, lead to nodes that are already born, and are not excluded.

    Only the rows of `which` are searched, and then listed.
    """
    rows, slots = spread(torch.where(which, eligible.degrees, 0))
    positions = eligible.positions(rows, slots)
    trees = frontier.trees[rows] if limits is not None else None
    kept = _visible(traversal, positions, limits, trees)
    if hidden is not None:
        kept &= ~_hidden(traversal, hidden, frontier.nodes[rows], positions, limits, trees)
    return eligible.only(which, positions, kept)


def eligible_by_weight(traversal: TorchTraversal, eligible: Eligible, which: Tensor) -> Eligible:
    """Return the edges of `eligible`, except edges of weight 0 in the rows of `which`."""
    if traversal.weight is None:
        return eligible
    rows, slots = spread(torch.where(which, eligible.degrees, 0))
    positions = eligible.positions(rows, slots)
    return eligible.only(which, positions, traversal.weight[positions] > 0)


class Candidates(NamedTuple):
    """All eligible edges of a set of rows, concatenated."""

    counts: Tensor
    """[rows] the number of edges of each row."""
    rows: Tensor
    """[edges] the row of each edge."""
    ranks: Tensor
    """[edges] ranks among the eligible edges of the row."""
    positions: Tensor
    """[edges] positions in the flat rows."""
    weights: Tensor
    """[edges] weights, or 1 if edges have no weights."""

    def of_weight(self) -> Candidates:
        """Return the candidates of positive weight."""
        kept = self.weights > 0
        return Candidates(counts_of(kept, self.counts), *(column[kept] for column in self[1:]))


def candidates(traversal: TorchTraversal, eligible: Eligible) -> Candidates:
    """Return the eligible edges of all rows."""
    rows, ranks = spread(eligible.degrees)
    positions = eligible.positions(rows, ranks)
    weights = torch.ones(ranks.shape, dtype=torch.float64, device=ranks.device)
    if traversal.weight is not None:
        weights = traversal.weight[positions]
    return Candidates(eligible.degrees, rows, ranks, positions, weights)


# Conditions that no range can express are checked edge by edge, for all edges of a chunk at once.
def _visible(traversal: TorchTraversal, positions: Tensor, limits: Limits | None, trees: Tensor | None) -> Tensor:
    """Return an [edges] mask of the edges that have not ended and lead to a node that has been born."""
    kept = torch.ones_like(positions, dtype=torch.bool)
    if limits is None or trees is None:
        return kept
    if traversal.time is not None and traversal.until is not None:
        kept &= (traversal.time[positions] == _ALWAYS) | (traversal.until[positions] > limits.after[trees])
    if traversal.born is not None:
        kept &= traversal.born[traversal.indices[positions]] < limits.high[trees]
    return kept


def _hidden(
    traversal: TorchTraversal,
    hidden: Hidden,
    nodes: Tensor,
    positions: Tensor,
    limits: Limits | None,
    trees: Tensor | None,
) -> Tensor:
    """Return an [edges] mask of the excluded edges. A disjoint tree does not exclude edges before its seed's time."""
    far = traversal.indices[positions].to(torch.int64)
    outward: Tensor | bool = traversal.relation.direction == "OUT"
    if traversal.outward is not None:
        outward = traversal.outward[positions]
        source, destination = torch.where(outward, nodes, far), torch.where(outward, far, nodes)
    else:
        source, destination = (nodes, far) if outward else (far, nodes)
    hides = hidden.holds(source, destination, 0 if trees is None else trees)
    if limits is not None and trees is not None and traversal.time is not None:
        times = traversal.time[positions]
        hides &= (times >= limits.since[trees]) | (times == _ALWAYS)
    return hides


def _find(values: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the position of each value among the non-empty ascending `values`, and whether it is one of them."""
    at = torch.searchsorted(values, wanted).clamp(max=values.numel() - 1)
    return at, values[at] == wanted
