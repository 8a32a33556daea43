"""The numbered statements about GraphSnapShot's caches and streams; the others are in the module beside.

Caches are filled by hand where what they hold is counted, and by their own threads where streams are read.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch.utils.data import DataLoader

import snapdb
from snapdb.sampling import open_sampler, vertex_input
from snapdb.types import EdgeType, Fanout, Refresh
from tests.support import graphsnapshot_original as original
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec
from tests.support.stars import DEGREES, EVERY, FCR, KEPT, MODES, OF, cache_of, filled, sampled, stars_of
from tests.support.streams import prints, settles

Ints = npt.NDArray[np.int64]

CITES = EdgeType("paper", "cites", "paper")


def power_law(nodes: int, edges: int) -> MemoryGraph:
    """Papers of which few are cited by many."""
    rng = np.random.default_rng(2)
    rank = np.arange(1, nodes + 1) ** -0.7
    cited = np.repeat(rng.permutation(nodes), rng.multinomial(edges, rank / rank.sum()))
    return MemoryGraph({"paper": nodes}, {CITES: EdgeList(rng.integers(0, nodes, edges), cited)})


G1 = functools.cache(power_law)
"""The specification's graph, or as much of it as is asked for."""


def degrees_of(graph: MemoryGraph) -> Ints:
    """How often each paper is cited."""
    return np.bincount(graph.edges[CITES].destination, minlength=graph.nodes["paper"])


def held(graph: MemoryGraph, fanouts: tuple[int, ...], refresh: Refresh) -> tuple[int, int]:
    """(edges, bytes) of a full cache."""
    sampler = open_sampler(graph.view(), sample_spec("paper", Fanout(CITES, "IN", fanouts), refresh=refresh))
    assert sampler.backend.name == "numba"
    stats = filled(cache_of(sampler), sampler, 0).stats(0)
    return stats.edges, stats.bytes


def rows_hold(degrees: Ints, *sizes: int) -> int:
    """Edges of a row for each node and size."""
    return int(sum(np.minimum(degrees, size).sum() for size in sizes))


@pytest.mark.parametrize(("fanouts", "amplify"), [((10,), "2"), ((10, 10), "2"), ((15, 10, 5), "1.5")])
def test_statement_01_a_cache_holds_the_edges_of_its_rows(fanouts: tuple[int, ...], amplify: str) -> None:
    """A full cache holds min(degree, ⌈AMPLIFY · fanout⌉) edges per node and hop, with at most 10 % overhead."""
    graph = G1(20_000, 800_000)
    edges, size = held(graph, fanouts, replace(FCR, amplify=Fraction(amplify)))
    degrees, sizes = degrees_of(graph), [math.ceil(Fraction(amplify) * fanout) for fanout in fanouts]
    few = [degrees[row >= degrees].sum() for row in sizes]  # these alias one copy, whatever the hop
    assert edges == rows_hold(degrees, *sizes) - sum(few) + max(few)
    assert size <= 1.1 * (8 * rows_hold(degrees, *sizes) + 8 * len(sizes) * (degrees.size + 1))
    assert original.cached_edges(degrees, fanouts, float(amplify)) != rows_hold(degrees, *sizes)


def test_statement_02_a_shared_cache_holds_one_row_a_node() -> None:
    """A shared cache holds min(degree, ⌈AMPLIFY · largest fanout⌉) edges per node: with 3 equal hops, a third."""
    graph, shared = G1(20_000, 800_000), replace(FCR, shared=True)
    degrees = degrees_of(graph)
    assert held(graph, (15, 10, 5), replace(shared, amplify=Fraction("1.5")))[0] == rows_hold(degrees, 23)
    edges, _ = held(graph, (10, 10, 10), shared)
    assert edges == rows_hold(degrees, 20) <= (1 / 3 + 0.02) * rows_hold(degrees, 20, 20, 20)


@pytest.mark.parametrize("mode", KEPT.values(), ids=KEPT.keys())
def test_statement_20_a_cache_neither_grows_nor_shrinks(mode: Refresh) -> None:
    """After 1,000 refreshes, a cache has the same number of edges and bytes as after the first."""
    spec = sample_spec("hub", Fanout(OF, "IN", (10,)), refresh=replace(mode, every=1))
    sampler = open_sampler(stars_of(DEGREES, 2).view, spec)
    assert sampler.backend.name == "numba"
    cache, sizes = cache_of(sampler), set()
    for batch in range(0, 1001, 20):
        stats = filled(cache, sampler, batch).stats(batch)
        sizes.add((stats.edges, stats.bytes, stats.filled))
    assert len(sizes) == 1
    assert sizes.pop()[0] == np.minimum(stars_of(DEGREES, 2).degrees, 20).sum()


def test_statement_20_sees_rows_that_are_written_beside_themselves() -> None:
    rng, edges = np.random.default_rng(8), np.arange(40)
    row = edges[:20]
    for _ in range(30):
        row = original.written_back(row, edges, 20, 6, rng)
    assert row.size == 20 + 30 * 20 > 20 * np.unique(row).size / 2


def test_statement_21_a_degree_decides_over_single_rows_and_loses_no_edge() -> None:
    """With any DEGREE ABOVE, batches return the same number of edges as without it, and every edge over time."""
    stars = stars_of(DEGREES, 5)
    few = stars.degrees <= 40
    for above in (0, 10, 30, 100, 1000):
        sampler = stars.sampler(10, Refresh("FCR", 1, above=above))
        batches = [stars.of(sampler, batch) for batch in range(100)]
        assert all((np.bincount(b.hubs) == np.minimum(stars.degrees, 10)).all() for b in batches)
        met = np.unique(np.concatenate([b.hubs << 32 | b.ranks for b in batches]))
        assert np.bincount(met >> 32)[few].tolist() == stars.degrees[few].tolist()
    listed = G1(20_000, 800_000).edges[CITES]
    assert original.edges_of_the_split(listed.source, listed.destination, 30) < 0.75 * listed.source.size


SEEDS = "SEEDS (SELECT id FROM paper) AS paper FANOUT (cites => [10, 5]) BATCH 40 REPEATABLE (7)"
HUB = "SEEDS (SELECT id FROM paper WHERE id = 0) AS paper FANOUT (cites => [10]) BATCH 1 REPEATABLE (7)"


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[snapdb.Database]:
    """200 papers: paper b is cited by b % 40 others, by 200 where b is divided by 50."""
    with snapdb.connect(tmp_path_factory.mktemp("papers") / "papers.snapdb") as db:
        db.script("""
            CREATE TABLE paper AS SELECT range AS id FROM range(210);
            CREATE TABLE cites AS SELECT (b + 1 + j) % 210 AS a, b FROM range(210) t(b), range(200) s(j)
                WHERE j < b % 40 OR b % 50 = 0;
            CREATE PROPERTY GRAPH papers VERTEX TABLES (paper KEY (id))
                EDGE TABLES (cites SOURCE KEY (a) REFERENCES paper DESTINATION KEY (b) REFERENCES paper);
            CREATE SNAPSHOT now OF papers;
        """)
        yield db


def cached(db: snapdb.Database, sample: str, place: str | None = "IN MEMORY '8MB'", **options: Any) -> Any:
    """A stream of a sampler with a cache; with none where no place is said."""
    db.execute(f"CREATE OR REPLACE SAMPLER train AS {sample}")
    if place is not None:
        db.execute(f"CREATE OR REPLACE CACHE near ON SAMPLER train {place}")
    return db.stream("train", **options)


def epochs(stream: Any, count: int) -> list[Any]:
    """The batches of so many epochs, all but the first with a full cache, if any; the stream is then closed."""
    found = list(stream)
    if (stats := stream.cache_stats()) is not None:
        assert settles(lambda: stream.cache_stats()["filled"] == stream.cache_stats()["rows"] > 0)
    found += [batch for _ in range(count - 1) for batch in stream]
    assert stats is None or count == 1 or stream.cache_stats()["hits"] > stats["hits"]
    stream.close()
    return found


def ends(batches: list[Any]) -> Ints:
    """[2, edges] the source and destination of every edge."""
    return np.concatenate([b.n_id["paper"].numpy()[b.edge_index[CITES].numpy()] for b in batches], axis=1)


WORKED = (
    "FBL",
    "FCR EVERY 5 BATCHES",
    "OTF 15 PERCENT EVERY 5 BATCHES FETCH 40 PERCENT SHARED",
    "OTF 15 PERCENT EVERY 5 BATCHES SCOPE VISITED SHARED",
)

PATHS: dict[str, Callable[[snapdb.Database, str], Any]] = {
    "alone": lambda db, sample: cached(db, sample, None, threads=0),
    "threads": lambda db, sample: cached(db, sample, None, threads=3),
    "torch": lambda db, sample: cached(db, f"{sample} ON 'cpu' WITH torch", None),
    "memory": lambda db, sample: cached(db, sample, "IN MEMORY '8MB'", threads=0),
    "memory and threads": lambda db, sample: cached(db, sample, "IN MEMORY '8MB'", threads=3),
    "file": lambda db, sample: cached(db, sample, "IN FILE '8MB'", threads=2),
}
"""Every way in which batches are made here; a GPU has statement 30."""


def test_statement_07_a_period_draws_from_the_row_and_from_nothing_else(papers: snapdb.Database) -> None:
    """Within a period, a node with 200 edges gets only its row's 20 neighbours, with any cache and back end."""

    def met(path: str, clause: str) -> set[int]:
        batches = epochs(PATHS[path](papers, f"SAMPLE FROM now {HUB} REFRESH {clause}"), 40)
        return set(np.concatenate([batch.n_id["paper"][1:].numpy() for batch in batches]).tolist())

    rows = [met(path, "FCR EVERY 40 BATCHES") for path in PATHS]
    assert len(rows[0]) == 20
    assert all(row == rows[0] for row in rows)
    assert len(met("threads", "FBL")) > 150  # as where the original's fused operator passes by the cache


@pytest.fixture(scope="module")
def made(papers: snapdb.Database) -> Callable[[str], list[Any]]:
    """The batches of two epochs by a clause, from a cache."""

    @functools.cache
    def batches(clause: str) -> list[Any]:
        return epochs(cached(papers, f"SAMPLE FROM now {SEEDS} LAYOUT BLOCKS REFRESH {clause}", threads=2), 2)

    return batches


@pytest.mark.parametrize("clause", MODES)
def test_statement_15_blocks_of_a_batch_are_a_chain(made: Callable[[str], list[Any]], clause: str) -> None:
    """The destinations of a layer are the sources of the next one; the first layer's sources are the batch's nodes."""
    for batch in made(clause):
        outer, inner = batch.to_blocks()
        assert outer.num_sources["paper"] == batch.n_id["paper"].numel()
        assert outer.num_destinations == inner.num_sources
        assert inner.num_destinations["paper"] == batch.batch_size
        for block in (outer, inner):
            source, destination = block.edge_index[CITES]
            assert (source < block.num_sources["paper"]).all()
            assert (destination < block.num_destinations["paper"]).all()


@pytest.mark.parametrize("clause", MODES)
def test_statement_16_edge_ids_are_those_of_the_snapshot(
    papers: snapdb.Database, made: Callable[[str], list[Any]], clause: str
) -> None:
    """Every edge id in a batch, cached or not, identifies an edge between the same two nodes in the snapshot."""
    columns = papers.execute("SELECT a, b FROM now.cites ORDER BY e_id").arrow()
    ends = np.stack([columns.column(name).to_numpy() for name in ("a", "b")])
    for batch in made(clause):
        local = batch.edge_index[CITES].numpy()
        assert (ends[:, batch.e_id[CITES].numpy()] == batch.n_id["paper"].numpy()[local]).all()


def test_statement_16_sees_ids_that_count_through_the_cache() -> None:
    rows = np.sort(np.random.default_rng(8).permutation(8000)[:4000].reshape(-1, 20), axis=1)
    assert (original.local_ids(rows) == rows).mean() < 0.12


MOVED = ("FCR EVERY 1000 BATCHES", "OTF 50 PERCENT EVERY 1000 BATCHES FETCH 40 PERCENT SHARED", "FBL")
"""Rows that stay the same while a snapshot moves, but for what has changed."""


@pytest.mark.parametrize("clause", MOVED)
def test_statement_29_deleted_edges_are_gone_and_old_batches_are_made_again(tmp_path: Path, clause: str) -> None:
    """Streams opened after REFRESH SNAPSHOT return new edges and no deleted edges; old batches can be replayed."""
    with snapdb.connect(tmp_path / "papers.snapdb") as db:
        db.script("""
            CREATE TABLE paper AS SELECT range AS id FROM range(60);
            CREATE TABLE cites AS SELECT (b + 1 + j) % 50 AS a, b FROM range(20) t(b), range(40) s(j);
            CREATE PROPERTY GRAPH papers VERTEX TABLES (paper KEY (id))
                EDGE TABLES (cites SOURCE KEY (a) REFERENCES paper DESTINATION KEY (b) REFERENCES paper);
            CREATE SNAPSHOT now OF papers;
        """)
        seeds = "SEEDS (SELECT id FROM paper WHERE id < 20) AS paper FANOUT (cites => [10]) BATCH 10 REPEATABLE (7)"
        before = epochs(cached(db, f"SAMPLE FROM now {seeds} REFRESH {clause}", threads=2), 12)
        db.script("""
            DELETE FROM cites WHERE b = 0 AND a % 3 = 0;
            INSERT INTO cites SELECT 50 + j, b FROM range(4) t(b), range(5) s(j);
            REFRESH SNAPSHOT now;
        """)
        source, destination = ends(epochs(db.stream("train", threads=2), 12))
        assert not ((destination == 0) & (source % 3 == 0) & (source < 50)).any()
        assert set(destination[source >= 50].tolist()) == {0, 1, 2, 3}
        old = ends(before)
        assert ((old[1] == 0) & (old[0] % 3 == 0)).any()
        db.execute(f"CREATE SNAPSHOT was OF papers AT (VERSION => {before[0].lineage['version']})")
        again = epochs(cached(db, f"SAMPLE FROM was {seeds} REFRESH {clause}", threads=2), 12)
        assert prints(again) == prints(before)


@pytest.mark.parametrize("clause", WORKED)
def test_statement_32_any_number_of_workers_makes_the_same_batches(papers: snapdb.Database, clause: str) -> None:
    """The random seed, version and statement determine the batches, with any threads, processes, ranks and caches."""
    sample = f"SAMPLE FROM now {SEEDS} REFRESH {clause}"
    wanted = prints(epochs(PATHS["alone"](papers, sample), 2))
    for opened in PATHS.values():
        assert prints(epochs(opened(papers, sample), 2)) == wanted
    if clause.startswith("FCR"):
        stream = cached(papers, sample, threads=1)
        loader = DataLoader(stream, batch_size=None, num_workers=2, multiprocessing_context="fork")
        assert prints(sorted(loader, key=lambda batch: batch.index)) == wanted[: len(wanted) // 2]
        stream.close()
    ranks = [cached(papers, sample, threads=1, rank=rank, world_size=2) for rank in range(2)]
    shares = [batch for rank in ranks for batch in epochs(rank, 2)]
    assert prints(sorted(shares, key=lambda batch: batch.index)) == wanted


def told(db: snapdb.Database, operator: str, sample: str) -> dict[str, Any]:
    """What EXPLAIN estimates of an operator."""
    steps = [json.loads(db.execute(f"EXPLAIN (FORMAT json) {sample}").fetchone()[0])["plan"]]
    for step in steps:
        steps += step["children"]
    return next(step["estimates"] for step in steps if step["operator"] == operator)


def test_statement_12_explain_tells_the_variance(db: snapdb.Database) -> None:
    db.script("""
        CREATE TABLE hub AS SELECT range AS id FROM range(20);
        CREATE TABLE leaf AS SELECT range AS id FROM range(800);
        CREATE TABLE edge AS SELECT range AS leaf, range // 40 AS hub FROM range(800);
        CREATE PROPERTY GRAPH stars VERTEX TABLES (hub KEY (id), leaf KEY (id))
            EDGE TABLES (edge SOURCE KEY (leaf) REFERENCES leaf DESTINATION KEY (hub) REFERENCES hub);
        CREATE SNAPSHOT now OF stars;
    """)
    sample = "SAMPLE FROM now SEEDS (SELECT id FROM hub) AS hub FANOUT (edge => [10]) BATCH 20"
    assert told(db, "Refresh", f"{sample} REFRESH FCR EVERY 20 BATCHES")["variance"] == 7.33


def test_statement_21_explain_finds_the_degree_that_takes_least_bytes(papers: snapdb.Database) -> None:
    columns = papers.execute("SELECT count(*) AS degree FROM now.cites GROUP BY b").arrow()
    degrees = columns.column("degree").to_numpy()
    taken, held, explained = {}, {}, {}
    for above in (0, 20, 30, 40, 200):
        rows = [8 * size * np.count_nonzero(degrees > max(size, above)) for size in (20, 10)]
        taken[above] = sum(rows) + 4 * degrees[degrees <= max(20, above)].sum()
        stream = cached(papers, f"SAMPLE FROM now {SEEDS} REFRESH FCR EVERY 5 BATCHES DEGREE ABOVE {above}", threads=0)
        explained[above] = told(papers, "Cache", "SAMPLE USING train")["bytes"]
        assert next(iter(stream)) is not None
        assert settles(lambda: (stream.cache_stats() or {}).get("bytes", 0) > 0)  # noqa: B023  # called at once
        held[above] = stream.cache_stats()["bytes"]
        stream.close()
        assert abs(explained[above] / held[above] - 1) < 0.05
    assert min(taken, key=taken.__getitem__) == min(explained, key=explained.__getitem__) == 40
    assert min(held, key=held.__getitem__) == 40


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason=f"torch {torch.__version__} finds no CUDA device")
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
def test_statement_30_a_gpu_draws_what_a_processor_draws(mode: Refresh | None) -> None:
    """A GPU returns the same batches as the CPU, with degrees of 0 and above 1,024 and edge ids above 2^31."""
    degrees = np.array([0, 1, 10, 11, 20, 21, 1500, 70_000])
    hubs = np.repeat(np.arange(degrees.size), degrees)
    listed = EdgeList(np.arange(hubs.size), hubs, ids=2**40 + np.arange(hubs.size))
    view = MemoryGraph({"hub": degrees.size, "leaf": hubs.size}, {OF: listed}, indices=np.int64).view()
    for batch in (0, 3, 7 * EVERY, 2**33):
        found = []
        for device in (None, "cuda"):
            spec = sample_spec("hub", Fanout(OF, "IN", (10,)), refresh=mode, device=device)
            drawn = sampled(open_sampler(view, spec), vertex_input("hub", np.arange(degrees.size)), batch)
            found.append([values.tolist() for e in drawn.edges.values() for values in (e.position, *e.index)])
        assert found[0] == found[1]
