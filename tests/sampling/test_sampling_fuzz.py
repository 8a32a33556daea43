"""Anything that a statement may say, over graphs at the ends of what numbers hold: both back ends and the oracle agree.

`tests.support.worlds` draws a table of settings; here every clause is drawn for itself. SNAPDB_FUZZ=n tries n cases of
each test instead of a few; SNAPDB_FUZZ_FROM=n begins at another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest

from snapdb.sampling import SeedExpansion, Seeds, batches_before, epoch_order, torch_backend, vertex_input
from snapdb.types import FULL, Backend, Direction, Drawing, EdgeType, Fanout, Link, Negatives, SampleSpec, Temporal
from tests.support import oracle
from tests.support.forms import FORMS, KNOWS, changing, view_of
from tests.support.graphs import EdgeList, MemoryGraph, compared, expected, sample_spec
from tests.support.inside.sampling import _LIMIT, NodeMap, SamplerInput, open_sampler
from tests.support.methods import Weighed
from tests.support.negatives import drawn
from tests.support.negatives import expected as expected_negatives

Ints = npt.NDArray[np.int64]
Rng = np.random.Generator

CASES = int(os.environ.get("SNAPDB_FUZZ", "0"))
FIRST = int(os.environ.get("SNAPDB_FUZZ_FROM", "0"))

ALWAYS, OPEN = -(2**63), 2**63 - 1
TIMES = np.array([ALWAYS, ALWAYS + 1, -(2**62), -3, -1, 0, 0, 1, 2, 3, 4, 5, 6, 2**62, OPEN - 1, OPEN])
MOMENTS = TIMES[1:]
"""Of seeds: the number before them stands for what has no time."""
LENGTHS = (None, 0, 1, 3, 2**62, OPEN)
HEAVY = np.array([1e-250, 1e-249, 1e-12, 0.5, 1.0, 1.0, 1.0 + 2**-52, 3.0, 7.25e9, 1.7e308])
SEEDS = (0, 42, 2**63 - 1, 2**63, 2**64 - 1)
TYPES = (
    EdgeType("person", "knows", "person"),
    EdgeType("person", "Likes", "shop"),
    EdgeType("shop", "near", "shop"),
    EdgeType("shop", "hires", "person"),
)
METHODS = ("UNIFORM", "UNIFORM", "UNIFORM", "LATEST", "TOPK", "FULL", "PRIORITY", "BOTTOMK", "LABOR")


def cases(few: int) -> Iterator[Rng]:
    """One source of randomness for each case."""
    for number in range(FIRST, FIRST + (CASES or few)):
        yield np.random.default_rng(number)


def chance(rng: Rng, share: float) -> bool:
    return bool(rng.random() < share)


def some_weights(rng: Rng, source: Ints, destination: Ints, *, signed: bool) -> npt.NDArray[np.float64]:
    """Of any size, with ties and both zeros, some rows of zeros alone; they may be `signed`."""
    found = np.where(
        rng.random(source.size) < 0.3, rng.choice([0.0, -0.0], source.size), rng.choice(HEAVY, source.size)
    )
    if signed:
        return np.where(rng.random(source.size) < 0.4, -found, found)
    for ends in (source, destination):
        barren = rng.random(max(ends, default=0) + 1) < 0.1
        found[barren[ends]] = 0.0
    return found


def some_edges(rng: Rng, sources: int, destinations: int, *, signed: bool) -> EdgeList:
    """Many parallel edges, loops and ties, a hub or none, ids in any order, of either size."""
    count, hub = (int(rng.choice(sizes)) for sizes in ([0, 1, 20, 60], [0, 0, 64, 66, 150, 300]))
    size = count + hub
    source, destination = rng.integers(0, sources, size), rng.integers(0, destinations, size)
    (source if chance(rng, 0.5) else destination)[count:] = 0
    ids = rng.permutation(2 * size)[:size]
    wide = chance(rng, 0.3)
    ids = ids * 2**33 + rng.integers(0, 2**33) if wide else ids.astype(np.int32 if chance(rng, 0.5) else np.int64)
    time = rng.choice(TIMES, size) if chance(rng, 0.7) else None
    until = rng.choice(TIMES[1:], size) if time is not None and chance(rng, 0.3) else None
    return EdgeList(
        source, destination, time, some_weights(rng, source, destination, signed=signed), until=until, ids=ids
    )


def some_graph(rng: Rng, method: str) -> MemoryGraph:
    """Persons and shops, and some of the types of edges between them."""
    nodes = {"person": int(rng.integers(1, 15)), "shop": int(rng.integers(1, 9))}
    chosen = [TYPES[i] for i in rng.permutation(4)[: rng.integers(1, 4)]]
    born = {name: rng.choice(TIMES, count) for name, count in nodes.items() if chance(rng, 0.3)}
    return MemoryGraph(
        nodes,
        {e: some_edges(rng, nodes[e.source], nodes[e.destination], signed=method == "TOPK") for e in chosen},
        indices=np.int64 if chance(rng, 0.3) else np.int32,
        born=born,
    )


def some_drawing(rng: Rng, method: str, edges: list[EdgeType]) -> Drawing:
    """A way to draw; some edge types may be drawn as if all weights were 1."""
    weighted = method in ("TOPK", "PRIORITY") or (method == "UNIFORM" and chance(rng, 0.5))
    named = tuple((e.edge, "w") for e in edges if weighted and chance(rng, 0.8))
    exact = method == "UNIFORM" and chance(rng, 0.4)
    dependent = int(2 ** (31 * rng.random())) if chance(rng, 0.5) else 1
    return Drawing(method, exact, named, weighted, dependent if method == "LABOR" else 1)  # type: ignore[arg-type]


def some_statement(rng: Rng, graph: MemoryGraph, method: str) -> SampleSpec:
    """Every clause, or not."""
    hops, edges = int(rng.integers(1, 4)), list(graph.edges)
    fanouts = []
    for edge in edges:
        counts = tuple(int(n) for n in rng.choice([0, 1, 2, 3, 5, 20, 63, 64, 65, 129, FULL], hops))
        if method == "FULL":
            counts = tuple(FULL if n else 0 for n in counts)
        ways = ["IN", "OUT"] if chance(rng, 0.2) else [str(rng.choice(get_args(Direction)))]
        fanouts += [Fanout(edge, way, counts) for way in ways]  # type: ignore[arg-type]
    links = chance(rng, 0.4)
    link = Link(edges[0], None, str(rng.choice(["NONE", "PAIR", "BOTH"]))) if links else None  # type: ignore[arg-type]
    within = LENGTHS[int(rng.integers(len(LENGTHS)))]
    return sample_spec(
        edges[0].source if link else str(rng.choice(list(graph.nodes))),
        *fanouts,
        seed=int(rng.integers(2**64, dtype=np.uint64)) if chance(rng, 0.5) else int(rng.choice(np.array(SEEDS, "u8"))),
        drawing=some_drawing(rng, method, edges),
        temporal=Temporal(chance(rng, 0.5), within) if chance(rng, 0.5) else None,
        link=link,
        layout="BLOCKS" if chance(rng, 0.3) else "NODES",
        reuse_hops=chance(rng, 0.2),
        allow_duplicates=True,
    )


def some_entry(rng: Rng, graph: MemoryGraph, spec: SampleSpec) -> SamplerInput:
    """Vertices, the same ones twice or not, or edges with their ends."""
    count = int(rng.choice([0, 1, 2, 6, 6, 6]))
    ordinals = rng.integers(0, 2**40, count)
    times = rng.choice(MOMENTS, count) if spec.temporal or chance(rng, 0.2) else None
    if spec.link is None:
        return vertex_input(spec.seed_type, rng.integers(0, graph.nodes[spec.seed_type], count), ordinals, times)
    listed = graph.edges[spec.link.edge]
    if not listed.source.size:
        count = 0
    chosen = rng.integers(0, max(listed.source.size, 1), count)
    seeds = Seeds(
        spec.seed_type,
        np.arange(count),
        None,
        None,
        None if times is None else times[:count],
        (listed.source[chosen], listed.destination[chosen]),
    )
    entry = SeedExpansion(graph.view(), spec, seeds).entry(rng.permutation(count), 0)
    return replace(entry, ordinals=ordinals[:count])


def batch_number(rng: Rng) -> int:
    return int(2 ** (62 * rng.random()))


def check(spec: SampleSpec, entry: SamplerInput, batch: int, graph: oracle.Graph, *views: Any) -> None:
    """Both back ends over every view give the oracle's batch."""
    wanted = expected(graph, spec, entry, batch)
    for view in views:
        for backend in get_args(Backend):
            sampler = open_sampler(view, replace(spec, backend=backend))
            compared(sampler, sampler.sample(entry, batch, sampler.scratch()), wanted)


def test_any_statement_over_any_graph_draws_what_the_oracle_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    for rng in cases(60):
        method = str(rng.choice(METHODS))
        graph = some_graph(rng, method)
        spec = some_statement(rng, graph, method)
        entry, batch = some_entry(rng, graph, spec), batch_number(rng)
        monkeypatch.setattr(torch_backend, "_LOOKED_THROUGH", int(rng.choice([1, 70, 1 << 24])))
        check(spec, entry, batch, graph.oracle(), graph.view())


def some_changes(rng: Rng, *, signed: bool) -> Weighed:
    """Edges that came and went, of which some are in a root and some in its patch."""
    graph = changing(int(rng.integers(2**32)), int(rng.integers(1, 13)), 50, int(rng.choice([0, 0, 65, 150])))
    e = graph.edges
    assert e.time is not None
    time = np.where(e.time == ALWAYS, ALWAYS, e.time - 4) if chance(rng, 0.5) else e.time
    edges = replace(
        e,
        time=time,
        weight=some_weights(rng, e.source, e.destination, signed=signed) if signed else rng.choice(HEAVY, time.size),
        until=rng.choice(TIMES[1:], time.size) if chance(rng, 0.4) else None,
    )
    return Weighed(graph.nodes, edges, graph.old, graph.gone, graph.kept)


def test_any_form_of_rows_draws_what_the_oracle_draws() -> None:
    for rng in cases(6):
        method = str(rng.choice(METHODS))
        graph = some_changes(rng, signed=method == "TOPK")
        for form in FORMS:
            held = graph.listed(form)
            held = replace(held, edges={KNOWS: held.edges[EdgeType("customer", "knows", "customer")]})
            spec = some_statement(rng, held, method)
            born = {"customer": rng.choice(TIMES, graph.nodes)} if chance(rng, 0.3) else {}
            views = [
                replace(view_of(graph.adjacency(form, patched=patched), graph.nodes), born=born)
                for patched in (False, True)
            ]
            listed = replace(held, born=born).oracle()
            check(spec, some_entry(rng, held, spec), batch_number(rng), listed, *views)


def test_a_scratch_serves_any_batches_one_after_another() -> None:
    for rng in cases(12):
        method = str(rng.choice(METHODS))
        graph = some_graph(rng, method)
        spec = replace(some_statement(rng, graph, method), backend="numba")
        sampler, listed = open_sampler(graph.view(), spec), graph.oracle()
        scratch: Any = sampler.scratch()
        for number in range(4):
            entry = some_entry(rng, graph, spec)
            for nodes in scratch.nodes.values():
                if isinstance(nodes, NodeMap) and chance(rng, 0.5):
                    nodes.first_stamp = max(nodes.first_stamp, _LIMIT - int(rng.integers(0, 40)))
            compared(sampler, sampler.sample(entry, number, scratch), expected(listed, spec, entry, number))


def test_any_negatives_are_the_oracles() -> None:
    for rng in cases(40):
        graph = some_graph(rng, "UNIFORM")
        edge, listed = next(iter(graph.edges.items()))
        count = graph.nodes[edge.destination]
        held = np.isin(np.arange(count), listed.destination)
        graph = replace(
            graph,
            alive={edge.destination: held | (rng.random(count) < 0.5)} if chance(rng, 0.5) else {},
            destination_weights=np.where(rng.random(count) < 0.3, 0.0, rng.choice(HEAVY, count)),
        )
        times = rng.choice(MOMENTS, listed.source.size) if chance(rng, 0.7) else None
        known = rng.choice(np.array([None, "EVER", "BEFORE", "AT"] if times is not None else [None, "EVER"]))
        asked = Negatives(int(rng.integers(1, 6)), "w" if chance(rng, 0.4) else None, known)
        seed = int(rng.integers(2**64, dtype=np.uint64))
        spec = sample_spec(edge.source, Fanout(edge, "IN", (1,)), seed=seed, link=Link(edge, asked, "PAIR"))
        seeds = Seeds(
            edge.source, listed.edge_id.astype(np.int64), None, None, times, (listed.source, listed.destination)
        )
        ordinals, epoch = rng.permutation(listed.source.size)[:9], int(2 ** (62 * rng.random()))
        wanted = expected_negatives(graph, spec, ordinals, times, epoch, edge)
        assert drawn(SeedExpansion(graph.view(), spec, seeds), ordinals, epoch) == wanted


def test_any_epochs_take_the_oracles_seeds() -> None:
    for rng in cases(100):
        count, size = int(rng.integers(0, 40)), int(rng.integers(1, 12))
        share = Fraction(int(rng.integers(1, 10**6)), 10**6) if chance(rng, 0.8) else None
        seed, order = int(rng.integers(2**64, dtype=np.uint64)), str(rng.choice(get_args(oracle.Order)))
        wanted_order = rng.permutation(count)
        seeds = Seeds("person", np.arange(count), None, wanted_order)
        spec = sample_spec("person", Fanout(TYPES[0], "IN", (1,)), batch_size=size, subset=share)
        for epoch in rng.integers(0, 60, 3).tolist():
            found = epoch_order(seeds, seed, epoch, order, share).tolist()  # type: ignore[arg-type]
            assert found == oracle.epoch_seeds(count, seed, epoch, order, wanted_order.tolist(), share)  # type: ignore[arg-type]
            assert batches_before(count, spec, epoch) == oracle.batches_before(count, size, epoch, share)
