"""EXPLAIN tells what a sampler's rows cost and save; the period AUTO and the variance are told by counts alone."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import snapdb
from snapdb import Database
from snapdb.types import FULL, EdgeType, Fanout, Link, Negatives, Refresh, Temporal
from tests.support.graphs import EdgeList, MemoryGraph, sample_spec
from tests.support.inside.sampling import _draw_correlation, auto_every, variance_factor
from tests.support.plans import explained, steps
from tests.support.waiting import until

CITES = EdgeType("paper", "cites", "paper")
WROTE = EdgeType("author", "wrote", "paper")
FCR, OTF = Refresh("FCR", None), Refresh("OTF", None, share=Fraction("0.15"))


def library() -> MemoryGraph:
    """Paper p is cited by p others, of 60; author a wrote the papers from a on, of 20."""
    cites = [((paper + i) % 60, paper) for paper in range(60) for i in range(1, paper + 1)]
    wrote = [(author, paper) for author in range(20) for paper in range(author, 60)]
    return MemoryGraph({"paper": 60, "author": 20}, {CITES: EdgeList.of(cites), WROTE: EdgeList.of(wrote)})


def rows_of(degrees: list[int], size: int, above: int = 0) -> int:
    return size * sum(degree > max(size, above) for degree in degrees)


CITED = list(range(60))
WRITERS = [min(paper + 1, 20) for paper in range(60)]


def test_auto_is_the_batches_that_draw_as_many_edges_as_the_rows_hold() -> None:
    spec = sample_spec("paper", Fanout(CITES, "IN", (3, 2)), batch_size=2, refresh=FCR)
    rows = rows_of(CITED, 6) + rows_of(CITED, 4)
    assert auto_every(library().view(), spec, 5) == -(-rows // (2 * 3 + 6 * 2)) == 30
    assert auto_every(library().view(), spec, 80) == 80


def test_a_share_of_the_rows_is_drawn_anew_over_a_share_of_the_batches() -> None:
    spec = sample_spec("paper", Fanout(CITES, "IN", (3, 2)), batch_size=2, refresh=OTF)
    assert auto_every(library().view(), spec, 5) == 5  # 4.5, rounded up
    assert auto_every(library().view(), spec, 110) == 17  # 16.5
    assert auto_every(library().view(), spec, 109) == 16


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ({"shared": True}, rows_of(CITED, 6)),
        ({"amplify": Fraction("1.5")}, rows_of(CITED, 5) + rows_of(CITED, 3)),
        ({"above": 40}, rows_of(CITED, 6, 40) + rows_of(CITED, 4, 40)),
    ],
)
def test_rows_are_counted_as_the_clause_says(changes: dict[str, object], rows: int) -> None:
    refresh = Refresh("FCR", None, **changes)  # type: ignore[arg-type]
    spec = sample_spec("paper", Fanout(CITES, "IN", (3, 2)), batch_size=2, refresh=refresh)
    assert auto_every(library().view(), spec, 1) == -(-rows // 18)


def test_hops_that_are_alike_have_their_rows_in_common() -> None:
    spec = sample_spec("paper", Fanout(CITES, "IN", (3, 3)), batch_size=2, refresh=FCR, reuse_hops=True)
    assert auto_every(library().view(), spec, 1) == -(-rows_of(CITED, 6) // (6 + 18))


def test_a_batch_expands_no_more_nodes_than_there_are_and_full_hops_have_no_rows() -> None:
    spec = sample_spec("paper", Fanout(CITES, "IN", (FULL, 2)), batch_size=40, refresh=FCR)
    drawn = sum(CITED) + 60 * 2
    assert auto_every(library().view(), spec, 1) == max(1, -(-rows_of(CITED, 4) // drawn))
    few = sample_spec("paper", Fanout(CITES, "IN", (FULL, 2)), batch_size=1, refresh=FCR)
    assert auto_every(library().view(), few, 1) == -(-rows_of(CITED, 4) // (59 + 59 * 2))


def test_what_no_seed_leads_to_is_not_counted() -> None:
    cites = Fanout(CITES, "IN", (3,))
    both = (cites, Fanout(WROTE, "OUT", (5, 5)))
    alone, beside = (sample_spec("paper", *fanouts, batch_size=2, refresh=FCR) for fanouts in ((cites,), both))
    assert auto_every(library().view(), beside, 1) == auto_every(library().view(), alone, 1)


def test_trees_links_and_blocks_expand_as_their_batches_do() -> None:
    view, cites, wrote = library().view(), Fanout(CITES, "IN", (3, 2)), Fanout(WROTE, "IN", (2, 2))
    rows = rows_of(CITED, 6) + rows_of(CITED, 4) + 2 * rows_of(WRITERS, 4)
    linked = sample_spec(
        "author", cites, wrote, batch_size=2, refresh=FCR, link=Link(WROTE, Negatives(2, None, None), "PAIR")
    )
    papers, cited = 2 * 3, 2 * 3 * 3
    assert auto_every(view, linked, 1) == -(-rows // (papers * 5 + cited * 4))
    blocks = sample_spec("paper", cites, wrote, batch_size=2, refresh=FCR, layout="BLOCKS")
    assert auto_every(view, blocks, 1) == -(-rows // (2 * 5 + (2 + 6) * 4))
    trees = sample_spec("paper", cites, batch_size=40, refresh=FCR, temporal=Temporal(False, None))
    assert auto_every(view, trees, 1) == -(-(rows_of(CITED, 6) + rows_of(CITED, 4)) // (40 * 3 + 120 * 2))


def test_visited_rows_and_none_have_the_period_of_the_epoch() -> None:
    visited = Refresh("OTF", None, share=Fraction("0.15"), visited=True)
    spec = sample_spec("paper", Fanout(CITES, "IN", (3, 2)), batch_size=2, refresh=visited)
    assert auto_every(library().view(), spec, 30) == 30
    small = sample_spec("paper", Fanout(CITES, "IN", (30,)), batch_size=2, refresh=FCR)
    assert auto_every(library().view(), small, 7) == 7
    assert auto_every(library().view(), small, 0) == 1


@pytest.mark.parametrize(("degree", "size", "fanout", "kept", "draws"), [(40, 20, 10, 10, 20), (30, 12, 6, 3, 8)])
def test_draws_of_one_row_vary_together_as_much_as_is_told(
    degree: int, size: int, fanout: int, kept: int, draws: int
) -> None:
    rng = np.random.default_rng(7)
    values = rng.normal(size=degree)
    values -= values.mean()
    means = np.empty(2500)
    for i in range(means.size):
        taken = np.zeros((draws, degree), np.bool_)
        row = rng.choice(degree, size, replace=False)
        np.put_along_axis(taken, rng.permuted(np.tile(row, (draws, 1)), axis=1)[:, :kept], True, axis=1)
        late = np.argsort(rng.random((draws, degree)) + taken, axis=1)[:, : fanout - kept]
        np.put_along_axis(taken, late, True, axis=1)
        means[i] = np.broadcast_to(values, taken.shape)[taken].mean()
    fbl = values.var(ddof=1) * (1 / fanout - 1 / degree) / draws
    assert means.var() / fbl == pytest.approx(variance_factor(degree, size, fanout, draws, kept).item(), rel=0.1)


def test_a_row_costs_no_variance_where_it_is_everything_or_serves_one_draw() -> None:
    assert variance_factor(40, 20, 10, 20).item() == pytest.approx(22 / 3)
    assert variance_factor(np.array([5, 10, 15]), 20, 10, 50).tolist() == [1.0, 1.0, 1.0]
    assert variance_factor(40, 20, 10, np.array([0, 0.5, 1])).tolist() == [1.0, 1.0, 1.0]
    assert _draw_correlation(40, 20, 10, 0).item() == 0.0


PAPERS = """
  CREATE TABLE paper AS SELECT range AS id FROM range(60);
  CREATE TABLE cites AS SELECT (p.range + i.range + 1) % 60 AS a, p.range AS b, 1 + i.range % 3 AS strength
    FROM range(60) p, range(40) i WHERE p.range < 50 OR i.range < 5;
  CREATE PROPERTY GRAPH papers VERTEX TABLES (paper KEY (id))
    EDGE TABLES (cites SOURCE KEY (a) REFERENCES paper DESTINATION KEY (b) REFERENCES paper WEIGHT (strength));
  CREATE SNAPSHOT s OF papers;
"""
SEEDS = "SAMPLE FROM s SEEDS (SELECT id FROM paper) AS paper"
ONE_HOP = f"{SEEDS} FANOUT (cites => [10]) BATCH 20"


@pytest.fixture(scope="module")
def papers() -> Iterator[Database]:
    """Fifty papers with 40 edges, ten with 5."""
    with snapdb.connect() as db:
        db.script(PAPERS)
        db.script(f"""
          CREATE SAMPLER kept AS {SEEDS} FANOUT (cites => [10, 5]) BATCH 10 REFRESH FCR EVERY 600 BATCHES;
          CREATE CACHE whole ON SAMPLER kept IN MEMORY '1MB';
          CREATE CACHE scarce ON SAMPLER kept IN FILE '4KB';
          CREATE SAMPLER tight AS SAMPLE USING kept;
          CREATE CACHE part ON SAMPLER tight IN MEMORY '5KB';
        """)
        yield db


def refresh_step(db: Database, statement: str) -> dict[str, Any]:
    (step,) = steps(explained(db, statement, analyze=False), "Refresh")
    numbers: dict[str, Any] = step["estimates"]
    return numbers


def test_the_variance_of_rows_is_told_at_the_visits_of_their_life(papers: Database) -> None:
    told = refresh_step(papers, f"{ONE_HOP} REFRESH FCR EVERY 60 BATCHES")  # a third of the papers each batch
    assert told["variance"] == 7.33
    assert (told["rows"], told["held"], told["aliased"]) == (50, 50, 10)
    assert told["bytes"] == 50 * 20 * 4
    assert told["batch_bytes"] == round(50 * 20 * 4 / 60)
    assert told["age"] == 29.5
    fetched = refresh_step(papers, f"{ONE_HOP} REFRESH OTF 25 PERCENT EVERY 15 BATCHES FETCH 60 PERCENT")
    assert fetched["variance"] == pytest.approx(variance_factor(40, 20, 10, 20, 6).item(), abs=0.005)
    assert (fetched["rows"], fetched["held"], fetched["age"]) == (12, 50, 29.5)


def test_rows_are_told_as_they_were_asked_for(papers: Database) -> None:
    def detail(statement: str) -> str:
        (step,) = steps(explained(papers, statement, analyze=False), "Refresh")
        found: str = step["detail"]
        return found

    rows = "rows of 20 edges of cites IN at hop 0, of 10 edges of cites IN at hop 1"
    assert detail("SAMPLE USING kept") == f"FCR EVERY 600 BATCHES, AMPLIFY 2: {rows}"
    auto = detail("SAMPLE USING kept REFRESH OTF 15 PERCENT FETCH 60 PERCENT AMPLIFY 1.5 SHARED")
    assert auto.startswith(
        "OTF 15 PERCENT EVERY 1 BATCHES, by AUTO, AMPLIFY 1.5, FETCH 60 PERCENT, SHARED: rows of 15 "
    )
    assert auto.endswith(" edges of cites IN at all hops")
    assert detail(f"{SEEDS} FANOUT (cites => [FULL]) REFRESH FCR EVERY 5 BATCHES").endswith(": no hop uses pool rows")


def test_under_scope_visited_the_first_batches_tell_the_epoch(papers: Database) -> None:
    statement = f"{SEEDS} FANOUT (cites => [10]) BATCH 6 REFRESH OTF 100 PERCENT EVERY 2 BATCHES SCOPE VISITED"
    plan = explained(papers, statement)
    assert steps(plan, "Sample")[0]["actual"]["rows"] == 50 * 10 + 10 * 5
    (step,) = steps(plan, "Refresh")
    chance = 1 - np.exp(-2 * 6 / 60)
    assert step["estimates"]["rows"] == round(50 * chance)
    assert step["estimates"]["age"] == pytest.approx(0.5 + 2 * (1 - chance) / chance, abs=0.05)
    assert step["actual"] == {}


def test_by_weight_all_edges_of_a_node_are_read_for_its_row(papers: Database) -> None:
    told = refresh_step(papers, f"{ONE_HOP} REFRESH FCR EVERY 60 BATCHES METHOD PRIORITY WEIGHT BY strength")
    assert told["bytes"] == 50 * 40 * 4


def test_a_cache_is_told_before_it_is_filled_and_measured_when_it_is(papers: Database) -> None:
    whole, scarce = steps(explained(papers, "SAMPLE USING kept", analyze=False), "Cache")
    assert whole["detail"] == "whole IN MEMORY, room for 1,000,000 bytes"
    assert scarce["detail"] == "scarce IN FILE, room for 4,000 bytes; not used by batches"
    assert whole["estimates"]["rows"] == 50 + 50 + 10
    assert (whole["estimates"]["hit_rate"], whole["estimates"]["batch_read"]) == (1.0, 0)
    assert whole["estimates"]["batch_pages"] == 0
    assert scarce["estimates"]["bytes"] <= 4000
    assert 0 < scarce["estimates"]["hit_rate"] < 1
    assert scarce["estimates"]["batch_pages"] >= mmap.PAGESIZE  # the topology has three pages of neighbours
    assert papers.execute("SELECT sum(streams) FROM snapdb.caches WHERE hit_rate IS NOT NULL").fetchone() == (None,)
    beside = steps(explained(papers, "SAMPLE USING kept WITH torch", analyze=False), "Cache")[0]
    assert beside["detail"].endswith("not used by batches")
    assert "batch_pages" not in beside["estimates"]


def test_a_full_cache_is_hit_as_often_as_was_told(papers: Database) -> None:
    (cache,) = steps(explained(papers, "SAMPLE USING tight", analyze=False), "Cache")
    told = cache["estimates"]
    with papers.stream("tight", threads=1) as stream:
        list(stream)
        before = filled(stream)
        for _ in range(5):
            list(stream)
        after = stream.cache_stats() or {}
        found = {name: after[name] - before[name] for name in ("hits", "misses", "bytes_read", "bytes_saved", "drawn")}
    assert (before["rows"], found["drawn"]) == (told["rows"], 0)
    assert told["bytes"] * 0.9 <= before["bytes"] <= min(told["bytes"], 5000)
    assert 0.1 < told["hit_rate"] < 0.9
    assert found["hits"] / (found["hits"] + found["misses"]) == pytest.approx(told["hit_rate"], abs=0.05)
    assert found["bytes_read"] / 30 == pytest.approx(told["batch_read"], rel=0.1)
    assert found["bytes_saved"] / 30 == pytest.approx(told["batch_saved"], rel=0.1)


def filled(stream: Any) -> dict[str, Any]:
    """What the stream's cache tells once it holds all that it has room for."""
    return dict(until(lambda: (stats := stream.cache_stats()) and 0 < stats["rows"] <= stats["filled"] and stats))


def test_analyze_measures_the_cache_that_serves(papers: Database) -> None:
    plan = explained(papers, "SAMPLE USING kept BATCH 15")
    assert steps(plan, "Sample")[0]["actual"]["rows"] == steps(plan, "Sample")[0]["estimates"]["rows"]
    whole, scarce = steps(plan, "Cache")
    assert scarce["actual"] == {}
    assert set(whole["actual"]) - {"age", "ratio"} == set(whole["estimates"]) - {"age"}
    assert whole["actual"]["bytes"] <= whole["estimates"]["bytes"]
    assert 0 <= whole["actual"]["hit_rate"] <= 1
    (counted,) = papers.execute("SELECT bytes_saved FROM snapdb.caches WHERE name = 'whole'").fetchone()
    assert round(counted / 4) == whole["actual"]["batch_saved"]  # of the four batches, whatever was looked at besides
