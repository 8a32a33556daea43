"""Random graphs and statements of random walks, and their clauses for the oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from snapdb.sampling import SamplerInput, vertex_input
from snapdb.types import Backend, Drawing, EdgeType, Fanout, RandomWalk, Relation, SampleSpec
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec
from tests.support.oracle import walks as oracle

KNOWS = EdgeType("person", "knows", "person")
BOUGHT = EdgeType("person", "bought", "item")
MADE = EdgeType("maker", "made", "item")
COUNTS = {"person": 17, "item": 11, "maker": 5}
STATIC = -(2**63)
BACKENDS = get_args(Backend)
METAPATHS = {
    "out": (Relation(KNOWS, "OUT"),),
    "in": (Relation(KNOWS, "IN"),),
    "both": (Relation(KNOWS, "BOTH"),),
    "mixed": (Relation(KNOWS, "OUT"), Relation(KNOWS, "IN")),
    "types": (Relation(BOUGHT, "OUT"), Relation(MADE, "IN"), Relation(MADE, "OUT"), Relation(BOUGHT, "IN")),
    "long": (Relation(KNOWS, "BOTH"), Relation(BOUGHT, "OUT"), Relation(BOUGHT, "IN")),
}
ALONE = ("out", "in", "both")


class Case(NamedTuple):
    """A graph, a statement and the input of a batch."""

    graph: MemoryGraph
    spec: SampleSpec
    entry: SamplerInput
    batch: int


def random_graph(rng: np.random.Generator, features: str) -> MemoryGraph:
    """Return a multigraph with loops and dead ends. `features` names what its edges have: times, weights, …"""

    def edges(source: str, destination: str, count: int) -> EdgeList:
        one, other = rng.integers(0, COUNTS[source] - 1, count), rng.integers(0, COUNTS[destination], count)
        time = rng.integers(0, 12, count)
        time[rng.random(count) < 0.15] = STATIC
        until = np.where(rng.random(count) < 0.4, 2**63 - 1, time.clip(0) + rng.integers(1, 6, count))
        weight = np.where(rng.random(count) < 0.2, 0.0, rng.random(count) * 10.0 ** rng.integers(-11, 3, count))
        return EdgeList(
            one,
            other,
            time if "time" in features else None,
            weight if "weight" in features else None,
            until=until if "until" in features else None,
            ids=rng.permutation(count),
        )

    born = {}
    if "born" in features:
        born = {name: rng.integers(-2, 9, COUNTS[name]) for name in ("person", "item")}
        born["person"][:5] = STATIC
    return MemoryGraph(
        COUNTS,
        {KNOWS: edges("person", "person", 45), BOUGHT: edges("person", "item", 30), MADE: edges("maker", "item", 20)},
        born=born,
        alive={"item": rng.random(COUNTS["item"]) < 0.8} if "dead" in features else {},
        indices=np.int64 if "wide" in features else np.int32,
    )


def walk_spec(walk: RandomWalk, seed_type: str, **further: Any) -> SampleSpec:
    """Return a bound WALK statement."""
    fanouts = [Fanout(relation.edge, relation.direction, (1,)) for relation in dict.fromkeys(walk.steps)]
    return sample_spec(seed_type, *fanouts, walk=walk, **further)


WEIGHTED = Drawing(
    "UNIFORM", replace=True, weights=tuple((name, "w") for name in ("knows", "bought", "made")), weighted=True
)


def random_case(seed: int, path: str, features: str, **clauses: Any) -> Case:
    """Return a random graph with a statement of these clauses."""
    rng = np.random.default_rng(seed)
    steps = METAPATHS[path]
    walk = RandomWalk(int(rng.integers(4, 9)), steps, per_seed=int(rng.integers(1, 4)))
    fields = {name: value for name, value in clauses.items() if hasattr(walk, name)}
    others = {name: value for name, value in clauses.items() if name not in fields}
    if "weight" in features:
        others["drawing"] = WEIGHTED
    spec = walk_spec(replace(walk, **fields), steps[0].expands, seed=int(rng.integers(2**63)), **others)
    count = COUNTS[spec.seed_type]
    ids = rng.permutation(count)[: count - 2]
    times = rng.integers(2, 14, ids.size) if spec.temporal else None
    entry = vertex_input(spec.seed_type, ids, rng.permutation(ids.size * 3)[: ids.size], times)
    return Case(random_graph(rng, features), spec, entry, int(rng.integers(5)))


def options_of(spec: SampleSpec) -> oracle.WalkOptions:
    """Return the clauses for the oracle."""
    walk, temporal = spec.walk, spec.temporal
    assert walk is not None
    return oracle.WalkOptions(
        walk.length,
        [(tuple(relation.edge), relation.direction) for relation in walk.steps],
        walk.per_seed,
        walk.back,
        walk.inout,
        walk.restart,
        walk.clock,
        walk.strict,
        spec.drawing.weighted,
        None if temporal is None else temporal.inclusive,
        None if temporal is None else temporal.within,
    )


def values(array: Any) -> npt.NDArray[np.int64]:
    """Return the array or tensor in host memory."""
    return np.array(array.tolist(), np.int64).reshape(tuple(array.shape))
