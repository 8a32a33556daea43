"""Rows that a cache keeps: batches are the same with them, whatever it holds and whoever writes to it meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from snapdb.kernels.neighbor_pool.cache import HEAD, TAG
from snapdb.sampling import NeighborSampler, Subgraph, numba_sampler, vertex_input
from snapdb.types import Drawing, EdgeType, Fanout, Refresh, Relation, SampleSpec, Temporal
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec
from tests.support.inside.kernels import (
    CachedRows,
    RowCopies,
    degrees_of,
    draw_ranks_sorted,
    record_width,
    row_lengths,
    table_size,
)
from tests.support.inside.sampling import Draft, RowTable, _Filled, fill_copies, fill_rows, row_keys, row_tables
from tests.support.oracle.numbers import floyd
from tests.support.refusals import refused

KNOWS = EdgeType("person", "knows", "person")
NODES, EDGES = 24, 900
SEEDS, TIMES = np.array([0, 5, 7, 23]), np.array([40, 10, 25, 50])
WEIGHED = Drawing("PRIORITY", weights=(("knows", "closeness"),), weighted=True)
REFRESHES = {
    "full": Refresh("FCR", 3),
    "full, the row itself": Refresh("FCR", 3, amplify=Fraction(1)),
    "full shared": Refresh("FCR", 3, shared=True, above=40),
    "partial": Refresh("OTF", 3, Fraction("0.4")),
    "partial fetch": Refresh("OTF", 3, Fraction("0.4"), fetch=Fraction("0.6")),
}


def graph() -> MemoryGraph:
    """Some rows are longer than any kept row, some as long as a fanout; many edges weigh nothing."""
    rng = np.random.default_rng(8)
    ends = rng.integers(0, NODES, EDGES), (rng.integers(0, NODES, EDGES) * rng.random(EDGES) ** 2).astype(np.int64)
    weight = np.maximum(rng.random(EDGES) - 0.4, 0.0)
    return MemoryGraph({"person": NODES}, {KNOWS: EdgeList(*ends, rng.integers(0, 50, EDGES), weight)})


def statement(refresh: Refresh | None, **further: object) -> SampleSpec:
    return sample_spec("person", Fanout(KNOWS, "IN", (6, 4)), refresh=refresh, **further)


class Kept:
    """A cache of all rows that are drawn, and where `whole`, of the others as they lie."""

    def __init__(self, sampler: NeighborSampler, *, whole: bool) -> None:
        self.counts, self.draft, self.spec = np.zeros(4, np.int64), Draft(), sampler.spec
        self.tables = {
            (t.traversal.relation, t.slot, t.size): (t, *self._empty(t))
            for t in row_tables(self.spec, sampler.traversals)
        }
        self.bases = (
            {traversal.relation: self._copied(traversal.relation, sampler) for traversal in sampler.traversals}
            if whole
            else {}
        )

    def _empty(self, table: RowTable) -> tuple[npt.NDArray[np.int64], CachedRows]:
        assert self.spec.refresh is not None
        degrees, weighted = degrees_of(table.traversal.arrays.rows), self.spec.drawing.weighted
        nodes = np.flatnonzero(degrees > max(table.size, self.spec.refresh.above))
        places = np.full(degrees.size, -1, np.int32)
        places[nodes] = np.arange(nodes.size)
        records = np.zeros((nodes.size, record_width(table.size, weighted)), np.int32)
        return nodes, CachedRows(places, records, np.zeros((nodes.size if weighted else 0, 2)))

    def _copied(self, relation: Relation, sampler: NeighborSampler) -> RowCopies:
        traversal = next(traversal for traversal in sampler.traversals if traversal.relation == relation)
        lengths = np.empty(traversal.arrays.rows.nodes, np.int64)
        assert row_lengths(traversal.arrays.rows, True, lengths)
        nodes = np.flatnonzero(lengths < 20)
        starts = np.concatenate([[0], np.cumsum(lengths[nodes])])
        places, shifts = np.full(lengths.size, -1, np.int32), np.empty((nodes.size, 2), np.int64)
        base = RowCopies(places, shifts, np.empty(starts[-1], np.int32))
        assert fill_copies(traversal, nodes, starts, 0, nodes.size, base) == starts[-1]
        return base

    def fill(self, batch: int) -> _Filled:
        """Draws what a batch asks for."""
        found = []
        for (relation, slot, _), (table, nodes, cached) in self.tables.items():
            keys = row_keys(self.spec, relation, 0 if slot > 1 else slot, batch)
            found.append(fill_rows(table, keys, nodes, 0, nodes.size, cached, self.draft))
        return _Filled(sum(part.rows for part in found), sum(part.edges for part in found))

    def rows(self, relation: Relation, slot: int, size: int) -> CachedRows | None:
        found = self.tables.get((relation, slot, size))
        return None if found is None else found[2]

    def copies(self, relation: Relation) -> RowCopies | None:
        return self.bases.get(relation)

    def count(self, counts: npt.NDArray[np.int64]) -> None:
        self.counts += counts


def told(found: Subgraph) -> list[bytes]:
    """All that a batch says."""
    edges = [part for each in found.edges.values() for part in (each.index, each.position, each.weight)]
    return [part.tobytes() for part in [*found.nodes.values(), *edges] if part is not None]


def drawn(sampler: NeighborSampler, batch: int) -> list[bytes]:
    times = None if sampler.spec.temporal is None else TIMES
    return told(sampler.sample(vertex_input("person", SEEDS, times=times), batch, sampler.scratch()))


@pytest.mark.parametrize("temporal", [None, Temporal(True, 30)], ids=["always", "temporal"])
@pytest.mark.parametrize("drawing", [Drawing(), WEIGHED], ids=["uniform", "priority"])
@pytest.mark.parametrize("name", REFRESHES)
def test_batches_are_the_same_with_any_rows_kept(name: str, drawing: Drawing, temporal: Temporal | None) -> None:
    sampler = numba_sampler(graph().view(), statement(REFRESHES[name], drawing=drawing, temporal=temporal))
    plain = [drawn(sampler, batch) for batch in range(5)]
    for whole in (False, True):
        kept = sampler.cache = Kept(sampler, whole=whole)
        for filled in (None, 0, 3, 4):
            if filled is not None:
                kept.fill(filled)
            assert [drawn(sampler, batch) for batch in range(5)] == plain
        assert kept.counts[0] > 0
        assert kept.counts[2] > 0


@pytest.mark.parametrize("temporal", [None, Temporal(False, None)], ids=["always", "temporal"])
def test_whole_rows_serve_batches_that_draw_afresh(temporal: Temporal | None) -> None:
    sampler = numba_sampler(graph().view(), statement(None, temporal=temporal))
    plain = drawn(sampler, 2)
    kept = sampler.cache = Kept(sampler, whole=True)
    assert drawn(sampler, 2) == plain
    hits, misses, cached, read = kept.counts.tolist()
    assert min(hits, misses) > 0
    assert (
        cached + read
        == next(
            iter(sampler.sample(vertex_input("person", SEEDS, times=TIMES), 2, sampler.scratch()).edges.values())
        ).position.size
    )


def test_only_rows_whose_round_has_passed_are_drawn_again() -> None:
    sampler = numba_sampler(graph().view(), statement(Refresh("OTF", 4, Fraction("0.5"), shared=True)))
    kept = Kept(sampler, whole=False)
    every = kept.fill(0)
    assert every.rows == sum(nodes.size for _, nodes, _ in kept.tables.values())
    assert every.edges == sum(size * nodes.size for (_, _, size), (_, nodes, _) in kept.tables.items())
    assert kept.fill(0) == (0, 0)
    assert 0 < kept.fill(4).rows < every.rows
    assert kept.fill(8).rows > 0


def test_a_torn_row_is_never_delivered() -> None:
    sampler = numba_sampler(graph().view(), statement(Refresh("FCR", 1)))
    plain = [drawn(sampler, batch) for batch in range(2)]
    kept = sampler.cache = Kept(sampler, whole=False)
    with _filling(kept):
        for turn in range(600):
            assert drawn(sampler, turn % 2) == plain[turn % 2]
    assert min(kept.counts[:2]) > 0


@contextmanager
def _filling(kept: Kept) -> Iterator[None]:
    """Another thread draws all rows again and again, for two rounds in turn."""
    over = threading.Event()

    def fill() -> None:
        batch = 0
        while not over.is_set():
            kept.fill(batch)
            batch = 1 - batch

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_neighbour_that_is_not_one_is_refused() -> None:
    sampler = numba_sampler(graph().view(), replace(statement(Refresh("FCR", 3))))
    kept = sampler.cache = Kept(sampler, whole=False)
    kept.fill(0)
    for table, _, cached in kept.tables.values():
        assert (cached.records[:, TAG] == 1).all()
        cached.records[:, HEAD + table.size :] = NODES
    with refused("damaged-snapshot"):
        drawn(sampler, 0)


def test_sorted_draws_are_floyds() -> None:
    for degree, count in ((21, 20), (5000, 130), (40, 1), (1000, 999)):
        ranks, table = np.empty(count, np.int64), np.empty(table_size(count), np.int64)
        draw_ranks_sorted(np.uint64(degree), degree, count, table, ranks)
        assert ranks.tolist() == sorted(floyd(degree, degree, count))
