"""The data types of random walks, and what both back ends derive from a statement."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from snapdb.arrays import Int64s
from snapdb.graph.view import GraphView
from snapdb.kernels.walks.pairs import NodeNumbers
from snapdb.kernels.walks.problem import BACKWARD, FORWARD, UNTIMED, WalkRule, largest_draw
from snapdb.sampling.subgraph import Ints
from snapdb.types import RandomWalk, Relation, SampleSpec

_CLOCKS = {"any": UNTIMED, "forward": FORWARD, "backward": BACKWARD}
_MOST = 2**62
"""The largest denominator and the largest bias, because kernels compute with 64 bits."""


@dataclass(frozen=True, slots=True)
class Walks:
    """The random walks of a batch, as arrays, or as tensors on a GPU. Row s * k + j is walk j of seed s."""

    nodes: Ints
    """[walks, length + 1] The vertices of each walk as dense ids, from the seed. -1 from where a walk cannot
    continue."""
    position: Ints
    """[walks, length] The position of each step's edge in its relation's Adjacency. -1 if a step has no edge: it
    restarts at the seed, or the walk has ended."""
    pairs: Ints | None = None
    """[2, pairs] The skip-gram pairs: node numbers of centers and of contexts. None without WINDOW."""
    negatives: Ints | None = None
    """[pairs, n] The node numbers of the negatives of each pair, or -1 if there is none. None without NEGATIVES."""


def walk_of(spec: SampleSpec) -> RandomWalk:
    """Return the clauses of WALK. Raises ValueError for a SAMPLE statement."""
    if spec.walk is None:
        raise ValueError("a walker needs a WALK statement")
    return spec.walk


def walk_rule(walk: RandomWalk, spec: SampleSpec, relation: Relation, reached: int) -> WalkRule:
    """Return the rule of the steps over a relation, which reaches a vertex type with `reached` dense ids.

    Raises:
        ValueError: The restart probability or the biases have too many digits.
    """
    if max(walk.restart.denominator, *walk.biases) > _MOST:
        raise ValueError("RESTART, RETURN and INOUT have too many digits; write at most 15 of each")
    restart = walk.restart.numerator if relation.reaches == spec.seed_type else 0
    back, near, far = (largest_draw(weight, max(walk.biases)) for weight in walk.biases)
    share = np.uint64(restart), np.uint64(walk.restart.denominator)
    return WalkRule(reached, *share, back, near, far, _CLOCKS[walk.clock], walk.strict)


def needs_times(spec: SampleSpec) -> bool:
    """Return whether walks read event times."""
    return spec.disjoint or walk_of(spec).clock != "any"


def node_numbers(view: GraphView, spec: SampleSpec) -> NodeNumbers:
    """Return the node numbers of the walks' vertex types, and the vertices from which negatives are drawn."""
    columns = walk_of(spec).vertex_types
    kinds = list(dict.fromkeys(columns))
    offsets = [0, *accumulate(view.node_counts[name] for name in kinds)][:-1]
    starts, counts, ids, births, held = [], [], [], [], 0
    timed = spec.disjoint and any(name in view.born for name in kinds)
    for name in kinds:
        alive, born = view.alive[name], view.born.get(name) if spec.disjoint else None
        count = view.node_counts[name]
        if alive is None and born is None:
            starts.append(-1)
            counts.append(count)
            continue
        there = np.arange(count, dtype=np.int64) if alive is None else np.flatnonzero(alive)
        times: Int64s = np.full(there.size, -(2**63), np.int64) if born is None else np.asarray(born, np.int64)[there]
        order = np.argsort(times, kind="stable")
        starts.append(held)
        counts.append(there.size)
        ids.append(there[order])
        births.append(times[order] if timed else times[:0])
        held += there.size
    none: Int64s = np.empty(0, np.int64)
    type_of = {name: at for at, name in enumerate(kinds)}
    type_columns: Int64s = np.array([type_of[name] for name in columns], np.int64)
    return NodeNumbers(
        type_columns,
        np.array(offsets, np.int64),
        np.array(starts, np.int64),
        np.array(counts, np.int64),
        np.concatenate([none, *ids]),
        np.concatenate([none, *births]),
    )
