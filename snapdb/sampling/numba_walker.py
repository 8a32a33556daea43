"""The numba back end of walks, which calls a kernel for each relation of the metapath."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from snapdb.arrays import Int64s, UInt64s
from snapdb.graph.view import GraphView
from snapdb.kernels import buffers
from snapdb.kernels.adjacency.forms import column_arrays, has_values
from snapdb.kernels.adjacency.spans import BLOCK, FIELDS
from snapdb.kernels.draw.eligible import WINDOW_FIELDS, Eligibility, TimeBounds
from snapdb.kernels.rng import Domain, fold_parts
from snapdb.kernels.walks import biased
from snapdb.kernels.walks.biased import walk_biased
from snapdb.kernels.walks.limited import StepArrays, WalkRows, walk_limited
from snapdb.kernels.walks.neighbors import NO_SETS, neighbor_sets, weight_sums
from snapdb.kernels.walks.pairs import count_pairs, write_negatives, write_pairs
from snapdb.kernels.walks.plain import walk_uniform
from snapdb.kernels.walks.problem import FIRST_TIME, LAST_TIME, WalkArrays, WalkRule, key_walks
from snapdb.sampling.subgraph import SamplerInput
from snapdb.sampling.traversals import NO_PAIRS, Traversal, damaged, open_traversals, time_bounds
from snapdb.sampling.walks import Walks, needs_times, node_numbers, walk_of, walk_rule
from snapdb.types import SampleSpec

_NONE: Int64s = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Step:
    """One relation of the metapath, prepared for walks."""

    traversal: Traversal
    rule: WalkRule
    rows: WalkRows
    direct: bool
    """Whether rows are plain, and all edges of a row are eligible and have the same weight."""
    longest: int
    """The length of the longest row if rows may be listed, otherwise 1."""


class WalkScratch:
    """The scratch memory of one thread for any number of batches: proportional to the longest row that is listed."""

    def __init__(self, longest: int, *, timed: bool) -> None:
        """Allocate memory for rows of at most `longest` edges. `timed` specifies whether steps have time bounds."""
        self.biased: Int64s = np.empty((biased.BLOCK, biased.STEP_FIELDS), np.int64)
        self.biased_keys: UInt64s = np.empty(biased.BLOCK, np.uint64)
        walks, nodes, before, trees, second = (np.empty(BLOCK, np.int64) for _ in range(5))
        bounds = (np.empty(BLOCK if timed else 0, np.int64) for _ in range(5))
        self.steps = StepArrays(
            walks,
            nodes,
            np.arange(BLOCK, dtype=np.int64),
            before,
            trees,
            second,
            np.empty(BLOCK, np.uint64),
            TimeBounds(*bounds),
            np.empty((BLOCK, FIELDS), np.int64),
            np.empty((BLOCK, WINDOW_FIELDS), np.int64),
            np.empty((BLOCK, WINDOW_FIELDS), np.int64),
            np.empty(longest, np.int64),
            np.empty(longest, np.int64),
        )


class NumbaWalker:
    """The relations of a metapath as the arrays that kernels read."""

    on_gpu = False

    def __init__(self, view: GraphView, spec: SampleSpec) -> None:
        """Open the relations. Raises the same errors as `open_walker`."""
        self._spec, self._walk = spec, walk_of(spec)
        self.traversals: tuple[Traversal, ...] = open_traversals(view, spec)
        opened = {
            traversal.relation: _open(traversal, spec, view.node_counts[traversal.relation.reaches])
            for traversal in self.traversals
        }
        self._steps = [opened[relation] for relation in self._walk.steps]
        self._numbers = None if self._walk.window is None else node_numbers(view, spec)

    def scratch(self) -> WalkScratch:
        """Return scratch memory for one thread."""
        return WalkScratch(max(step.longest for step in self._steps), timed=needs_times(self._spec))

    def sample(self, entry: SamplerInput, number: int, scratch: WalkScratch) -> Walks:
        """Return the walks of a batch."""
        walk, steps = self._walk, self._steps
        walks = self._begin(entry, number)
        limits = Eligibility(time_bounds(entry, self._spec.temporal), NO_PAIRS)
        # A metapath of one relation takes all steps in one call, so that a block of walks stays in the CPU cache.
        stops = (0, walk.length) if len(steps) == 1 else range(walk.length + 1)
        for first, last in pairwise(stops):
            step = steps[first % len(steps)]
            if not self._advance(step, limits, walks, first, last, scratch):
                raise damaged(step.traversal.relation)
        return self._with_pairs(walks, entry, number, limits.bounds.high)

    def _begin(self, entry: SamplerInput, number: int) -> WalkArrays:
        """Return the walks before their first steps."""
        walk, ids = self._walk, entry.groups[0].ids
        count = ids.size * walk.per_seed
        nodes = buffers.empty((count, walk.length + 1), np.int64)
        positions = buffers.empty((count, walk.length), np.int64)
        nodes[:, 0] = np.repeat(ids, walk.per_seed)
        low, high = _NONE, _NONE
        if walk.clock != "any":
            low, high = np.full(count, FIRST_TIME), np.full(count, LAST_TIME)
        return WalkArrays(nodes, positions, self._keys(entry, Domain.WALK, number), low, high)

    def _keys(self, entry: SamplerInput, domain: Domain, number: int) -> UInt64s:
        """Return [walks], the keys of all walks for a purpose."""
        keys = np.empty(entry.ordinals.size * self._walk.per_seed, np.uint64)
        prefix = np.array([fold_parts(self._spec.seed, domain, number)], np.uint64)
        key_walks(prefix, np.array(entry.ordinals, np.int64), self._walk.per_seed, keys)
        return keys

    def _advance(
        self, step: _Step, limits: Eligibility, walks: WalkArrays, first: int, last: int, scratch: WalkScratch
    ) -> bool:
        """Take the steps first ≤ i < last. Returns whether all rows and neighbours are within their arrays."""
        rows, rule = step.rows, step.rule
        if not step.direct:
            per_seed = self._walk.per_seed
            return bool(walk_limited(rows, limits, rule, per_seed, walks, first, last, scratch.steps))
        plain = rows.whole.rows
        if self._walk.second_order:
            return bool(walk_biased(plain, rows.sets, rule, walks, first, last, scratch.biased, scratch.biased_keys))
        return bool(walk_uniform(plain, rule, walks, first, last))

    def _with_pairs(self, walks: WalkArrays, entry: SamplerInput, number: int, high: Int64s) -> Walks:
        """Return the walks with their skip-gram pairs and negatives, if the statement requests them."""
        walk, numbers, nodes = self._walk, self._numbers, walks.nodes
        if walk.window is None or numbers is None:
            return Walks(nodes, walks.positions)
        window = min(walk.window, walk.length)
        count = int(count_pairs(nodes, window))
        pairs, negatives = buffers.empty((2, count), np.int64), None
        write_pairs(nodes, window, numbers, pairs)
        if walk.negatives:
            negatives = buffers.empty((count, walk.negatives), np.int64)
            keys = self._keys(entry, Domain.PAIR, number)
            write_negatives(nodes, window, numbers, keys, high, walk.per_seed, negatives)
        return Walks(nodes, walks.positions, pairs, negatives)


def _open(traversal: Traversal, spec: SampleSpec, reached: int) -> _Step:
    """Return one relation of the metapath. Builds the structures that make its steps fast."""
    walk, adjacency, whole = walk_of(spec), traversal.adjacency, traversal.arrays
    if needs_times(spec):
        whole = whole._replace(times=column_arrays(adjacency.time, np.int64, whole.rows))
    rule = walk_rule(walk, spec, traversal.relation, reached)
    weighted = has_values(whole.weights)
    bounded = spec.disjoint and (has_values(whole.times) or whole.born.size > 0)
    timed = bounded or walk.clock != "any"
    sets, sums, longest = NO_SETS, _NONE, 1
    if walk.second_order and traversal.plain and not bounded:
        sets = neighbor_sets(whole.rows)
    if weighted and traversal.plain and not timed:
        sums = weight_sums(whole.rows, whole.weights)
    elif weighted or whole.born.size or has_values(whole.ends):
        longest = max(int(adjacency.degrees().max(initial=0)), 1)
    cut = whole._replace(ends=column_arrays(None, np.int64, whole.rows))
    direct = traversal.plain and not weighted and not timed
    return _Step(traversal, rule, WalkRows(whole, cut, sets, sums), direct, longest)
