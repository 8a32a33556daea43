"""Comparison of the batches of both back ends, which must be equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, get_args

import numpy as np

from snapdb.sampling import NeighborSampler, SamplerInput, Subgraph, numba_sampler, open_sampler
from snapdb.types import Backend, Direction, Refresh, SampleSpec
from tests.support.graphs import Rounds, compared, expected
from tests.support.inside.graph import GraphView
from tests.support.inside.sampling import TorchBackend
from tests.support.oracle.numbers import NO_HOP
from tests.support.worlds import NODES, Case, case

EDGES_OF_RANGE = [0, 1, 2, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]


def words(seed: int, count: int = 200) -> list[int]:
    """Return unsigned 64-bit integers, including the limits of common ranges."""
    drawn = np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)
    return [*EDGES_OF_RANGE, *drawn.tolist()]


def seen(sampler: Any, found: Subgraph) -> dict[str, Any]:
    """Return everything that a user can see of a batch, as lists. Positions are represented by the values at them."""
    columns: dict[str, Any] = {
        "nodes": {name: ids.tolist() for name, ids in found.nodes.items()},
        "nodes per hop": {name: tuple(counts) for name, counts in found.nodes_per_hop.items()},
        "entered": [ids.tolist() for ids in found.entered],
        "trees": None if found.trees is None else {name: ids.tolist() for name, ids in found.trees.items()},
        "blocks": [[(b.relation, b.neighbor.tolist(), b.seed_side.tolist()) for b in hop] for hop in found.hops],
    }
    for traversal in sampler.traversals:
        edges, rows = found.edges[traversal.relation], traversal.adjacency
        position = np.array(edges.position.tolist(), np.int64)
        read = {"e_id": rows.edge_id, "time": rows.time, "weight": rows.weight, "until": rows.until}
        columns[str(traversal.relation)] = {
            "index": edges.index.tolist(),
            "drawn weight": None if edges.weight is None else edges.weight.tolist(),
            "outward": None if rows.outward is None else rows.outward[position].tolist(),
            **{name: None if column is None else column.read(position).tolist() for name, column in read.items()},
        }
    return columns


def torch_sampler(view: GraphView, spec: SampleSpec, device: str = "cpu", room: int | None = None) -> NeighborSampler:
    """Return the torch sampler on a device where its rows may use `room` bytes."""
    return NeighborSampler(view, spec, TorchBackend(view, spec, device, room))


def same_batches(
    view: GraphView, spec: SampleSpec, entry: SamplerInput, device: str, *batches: int, rounds: Rounds | None = None
) -> None:
    """Compare everything that a user can see of these batches between both back ends."""
    one, other = numba_sampler(view, spec), torch_sampler(view, spec, device)
    assert (one.node_types, one.relations) == (other.node_types, other.relations)
    for batch in batches:
        wanted, found = (seen(s, s.sample(entry, batch, s.scratch(), rounds)) for s in (one, other))
        for name, values in wanted.items():
            assert found[name] == values, name


BACKENDS = get_args(Backend)


ONE, HALF = Fraction(1), Fraction(1, 2)


REFRESHES: Mapping[str, Refresh] = {
    "full": Refresh("FCR", 3),
    "full of the fanout": Refresh("FCR", 1, amplify=ONE),
    "full shared": Refresh("FCR", 3, amplify=Fraction(3, 2), shared=True),
    "full above": Refresh("FCR", 7, amplify=ONE, above=66),
    "partial": Refresh("OTF", 5, Fraction("0.15")),
    "partial shared above": Refresh("OTF", 5, Fraction("0.333"), amplify=ONE, shared=True, above=9),
    "partial fetch": Refresh("OTF", 2, HALF, amplify=Fraction(3, 2), fetch=HALF),
    "partial fetch of the fanout": Refresh("OTF", 2, amplify=ONE, fetch=Fraction("0.85")),
    "partial fetch shared": Refresh("OTF", 4, Fraction("0.9"), fetch=Fraction("0.3"), shared=True),
    "nothing fetched": Refresh("OTF", 2, fetch=Fraction(0)),
    "all fetched": Refresh("OTF", 2, fetch=ONE, amplify=ONE),
    "visited": Refresh("OTF", 2, visited=True, amplify=ONE),
    "visited shared": Refresh("OTF", 2, fetch=HALF, visited=True, shared=True),
}
"""Refresh policies that cover every clause."""


def rounds_of(spec: SampleSpec, rng: np.random.Generator) -> Rounds | None:
    """Return random rounds for all rows that a statement may draw from, or None without SCOPE VISITED."""
    assert spec.refresh is not None
    if not spec.refresh.visited:
        return None
    slots = (*range(spec.hops), NO_HOP)
    relations = [relation for fanout in spec.fanouts for relation in fanout.relations]
    return {
        (relation, slot): rng.integers(0, 4, NODES[relation.expands]).astype(np.int32)
        for relation in relations
        for slot in slots
    }


def refreshed(how: str, method: str, setting: str, direction: Direction, seed: int) -> tuple[Case, Rounds | None]:
    """Return a random case with this refresh policy."""
    found = case(method, setting, direction, seed)
    rng = np.random.default_rng(seed)
    spec = replace(found.spec, refresh=REFRESHES[how], generation=int(rng.integers(3)))
    return found._replace(spec=spec), rounds_of(spec, rng)


def both_agree(found: Case, rounds: Rounds | None = None, *, view: GraphView | None = None) -> None:
    """Compare the draws of each back end with the oracle's. `view` is the same graph in another physical form."""
    graph, spec, entry, batch = found
    view, wanted = view or graph.view(), expected(graph.oracle(), spec, entry, batch, rounds)
    for backend in BACKENDS:
        sampler = open_sampler(view, replace(spec, backend=backend))
        compared(sampler, sampler.sample(entry, batch, sampler.scratch(), rounds), wanted)
