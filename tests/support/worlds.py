"""Random small graphs, statements and seeds for every method, direction and setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from snapdb.sampling import vertex_input
from snapdb.types import FULL, Direction, Drawing, EdgeType, Fanout, Link, Negatives, SampleSpec, Temporal
from tests.support.graphs import EdgeList, Floats, Ints, MemoryGraph, sample_spec
from tests.support.inside.sampling import ExcludedEdges, SamplerInput, SeedGroup

KNOWS = EdgeType("person", "knows", "person")
LIKES = EdgeType("person", "likes", "shop")
NEAR = EdgeType("shop", "near", "shop")
NODES = {"person": 14, "shop": 10}
STATIC = -(2**63)
OPEN = 2**63 - 1
LATE = 2**63 - 9
"""Times near the upper limit of 64 bits."""

_WEIGHED = (("knows", "closeness"), ("likes", "stars"))
DRAWINGS: Mapping[str, Drawing] = {
    "uniform": Drawing(),
    "with replacement": Drawing(replace=True),
    "weighted": Drawing(weights=_WEIGHED, weighted=True),
    "partly weighted": Drawing(weights=_WEIGHED[1:], weighted=True),
    "weighted with replacement": Drawing(replace=True, weights=_WEIGHED, weighted=True),
    "priority": Drawing("PRIORITY", weights=_WEIGHED, weighted=True),
    "topk": Drawing("TOPK", weights=_WEIGHED, weighted=True),
    "latest": Drawing("LATEST"),
    "full": Drawing("FULL"),
    "bottomk": Drawing("BOTTOMK"),
    "labor": Drawing("LABOR"),
    "labor dependent": Drawing("LABOR", dependent=7),
}
"""Every drawing method."""


def _link(exclude: str, edge: EdgeType = KNOWS) -> Link:
    return Link(edge, Negatives(2, None, None), exclude)  # type: ignore[arg-type]


SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "blocks": {"layout": "BLOCKS"},
    "reuse hops": {"reuse_hops": True},
    "before": {"temporal": Temporal(False, None)},
    "until": {"temporal": Temporal(True, None), "layout": "BLOCKS"},
    "within": {"temporal": Temporal(False, 3)},
    "within until": {"temporal": Temporal(True, 3), "reuse_hops": True},
    "links": {"link": _link("PAIR")},
    "links both ways": {"link": _link("BOTH"), "layout": "BLOCKS"},
    "links kept": {"link": _link("NONE")},
    "links across types": {"link": _link("PAIR", LIKES)},
    "links across types until": {"link": _link("PAIR", LIKES), "temporal": Temporal(True, None)},
    "links before": {"link": _link("PAIR"), "temporal": Temporal(False, None)},
    "links until": {"link": _link("BOTH"), "temporal": Temporal(True, 4)},
}
"""Every other clause that affects draws."""


class Case(NamedTuple):
    """One batch of one statement over one graph."""

    graph: MemoryGraph
    spec: SampleSpec
    entry: SamplerInput
    batch: int


def weights(rng: np.random.Generator, source: Ints, destination: Ints) -> Floats:
    """Return random weights with ties and zeros. Some rows have only zeros."""
    found = rng.choice([0.0, 0.5, 1.0, 1.0, 3.0, 1e-12, 7.25e9], source.size)
    for ends in (source, destination):
        barren = rng.random(max(ends, default=0) + 1) < 0.1
        found[barren[ends]] = 0.0
    return found


def _edges(rng: np.random.Generator, sources: int, destinations: int, *, timed: bool, ends: bool) -> EdgeList:
    """Return many parallel edges and self loops, and sometimes a hub. Some edges are static, and some end."""
    count, hub = int(rng.choice([0, 9, 40, 60, 80])), int(rng.choice([0, 0, 64, 65, 140]))
    source = rng.integers(0, sources, count + hub)
    destination = rng.integers(0, destinations, count + hub)
    side = source if rng.random() < 0.5 else destination
    side[count:] = 1
    size = source.size
    time = np.where(rng.random(size) < 0.1, STATIC, rng.integers(-2, 11, size))
    time[rng.random(size) < 0.03] = LATE
    until = np.where(rng.random(size) < 0.3, OPEN, np.minimum(time, 99) + rng.integers(1, 7, size))
    return EdgeList(
        source, destination, time if timed else None, weights(rng, source, destination), until=until if ends else None
    )


def world(seed: int, *, ends: bool = False) -> MemoryGraph:
    """Return people who know each other and like shops that are near each other. With `ends`, some edges end."""
    rng = np.random.default_rng(seed)
    people, shops = NODES["person"], NODES["shop"]
    likes = _edges(rng, people, shops, timed=True, ends=ends)
    near = _edges(rng, shops, shops, timed=False, ends=False)
    stars = likes.weight
    assert stars is not None
    return MemoryGraph(
        NODES,
        {
            LIKES: replace(likes, weight=None),
            KNOWS: _edges(rng, people, people, timed=True, ends=ends),
            NEAR: replace(near, weight=None),
        },
        weights={"likes": stars},
    )


def _born(rng: np.random.Generator) -> dict[str, Ints]:
    """Return the birth times of vertices, some of which always exist."""
    return {name: np.where(rng.random(n) < 0.4, STATIC, rng.integers(-2, 9, n)) for name, n in NODES.items()}


def _seed_times(rng: np.random.Generator, count: int) -> Ints:
    """Return seed times, some of which are near the limits of 64 bits."""
    found = rng.integers(-1, 12, count)
    return np.where(rng.random(count) < 0.1, rng.choice([STATIC + 1, LATE, OPEN], count), found)


def link_entry(
    rng: np.random.Generator, graph: MemoryGraph, link: Link, times: Ints | None, count: int
) -> SamplerInput:
    """Return the sampler's input for seed edges with negatives."""
    listed = graph.edges[link.edge]
    chosen = rng.integers(0, listed.source.size, count) if listed.source.size else np.empty(0, np.int64)
    source, destination, trees = listed.source[chosen], listed.destination[chosen], np.arange(chosen.size)
    far = link.edge.destination
    others = rng.integers(0, graph.nodes[far], 2 * chosen.size)
    groups = (
        SeedGroup(link.edge.source, source, trees),
        SeedGroup(far, destination, trees),
        SeedGroup(far, others, np.repeat(trees, 2)),
    )
    excluded = ExcludedEdges(link.edge, source, destination, trees)
    if link.exclude == "BOTH":
        ends = np.concatenate([source, destination]), np.concatenate([destination, source])
        excluded = ExcludedEdges(link.edge, *ends, np.concatenate([trees, trees]))
    ordinals = rng.permutation(1000)[: chosen.size]
    seen = None if times is None else times[: chosen.size]
    return SamplerInput(groups, ordinals, seen, None if link.exclude == "NONE" else excluded)


def case(drawing: str, setting: str, direction: Direction, seed: int) -> Case:
    """Return a random batch, with or without a hub, with one to three hops, and with repeated seeds.

    Seeds have times if the setting requires them.
    """
    rng = np.random.default_rng([seed, *drawing.encode(), *setting.encode(), *direction.encode()])
    fields = SETTINGS[setting]
    temporal = "temporal" in fields
    graph = world(int(rng.integers(2**32)), ends=bool(rng.random() < 0.3))
    if temporal and rng.random() < 0.5:
        graph = replace(graph, born=_born(rng))
    hops, how = int(rng.integers(1, 4)), DRAWINGS[drawing]
    fanouts = []
    for edge in rng.permutation([KNOWS, LIKES, NEAR])[: int(rng.choice([1, 3, 3, 3]))].tolist():
        counts = [int(n) for n in rng.choice([0, 1, 2, 3, 3, 5, 20, 64, 65, FULL], hops)]
        traversed = direction if edge[1] == "knows" else rng.choice(["IN", "OUT", "BOTH"])
        if how.method == "FULL":
            counts = [FULL if n else 0 for n in counts]
        fanouts.append(Fanout(EdgeType(*edge), str(traversed), tuple(counts)))  # type: ignore[arg-type]
    kind, count = str(rng.choice(["person", "person", "shop"])), int(rng.choice([0, 1, *[8] * 9]))
    link = fields.get("link")
    spec = sample_spec(
        link.edge.source if link else kind,
        *fanouts,
        seed=int(rng.integers(2**64, dtype=np.uint64)),
        drawing=how,
        allow_duplicates=True,
        **fields,
    )
    times = _seed_times(rng, count) if temporal else None
    if link:
        entry = link_entry(rng, graph, link, times, count)
    else:
        entry = vertex_input(kind, rng.integers(0, NODES[kind], count), rng.permutation(1000)[:count], times)
    return Case(graph, spec, entry, int(rng.integers(2**40)))
