"""A snapshot as objects of networkx, igraph and scipy."""

from __future__ import annotations

import sys
from collections import Counter

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from snapdb import Database
from tests.support.refusals import refused

GRAPH = """
CREATE TABLE person AS SELECT 'p' || i AS id FROM range(6) r(i);
CREATE TABLE item AS SELECT i * 10 AS id FROM range(3) r(i);
CREATE TABLE knows AS SELECT 'p' || i % 6 AS a, 'p' || i * i % 6 AS b, i AS at, i / 2 AS w FROM range(9) r(i);
CREATE TABLE bought AS SELECT 'p' || i % 6 AS a, i % 3 * 10 AS b FROM range(5) r(i);
DELETE FROM knows WHERE a = 'p3' OR b = 'p3'; DELETE FROM bought WHERE a = 'p3'; DELETE FROM person WHERE id = 'p3';
CREATE PROPERTY GRAPH one VERTEX TABLES (person KEY (id)) EDGE TABLES (knows SOURCE KEY (a) REFERENCES person
  DESTINATION KEY (b) REFERENCES person EVENT TIME (at) WEIGHT (w));
CREATE PROPERTY GRAPH two VERTEX TABLES (person KEY (id), item KEY (id)) EDGE TABLES (
  knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (at) WEIGHT (w),
  bought SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES item);
CREATE SNAPSHOT s OF one; CREATE SNAPSHOT t OF two;
"""


@pytest.fixture
def shop(db: Database) -> Database:
    db.script(GRAPH)
    return db


def test_networkx(shop: Database) -> None:
    graph = shop.open_snapshot("s").to_networkx()
    assert isinstance(graph, nx.MultiDiGraph)
    assert sorted(graph.nodes) == ["p0", "p1", "p2", "p4", "p5"]
    rows = shop.execute("SELECT a, b, at, w FROM knows").fetchall()
    assert [(u, v, each["time"], each["weight"]) for u, v, each in graph.edges(data=True)] == sorted(
        rows, key=lambda row: list(graph.nodes).index(row[0])
    )
    both = shop.open_snapshot("t").to_networkx()
    assert ("item", 20) in both.nodes
    assert Counter(each["type"] for *_, each in both.edges(data=True)) == {"knows": len(rows), "bought": 4}
    assert both.has_edge(("person", "p0"), ("item", 0))


def test_igraph(shop: Database) -> None:
    graph = shop.open_snapshot("t").to_igraph()
    assert graph.is_directed()
    names = list(zip(graph.vs["type"], graph.vs["name"], strict=True))
    assert sorted(names, key=str) == sorted(
        [("person", f"p{i}") for i in (0, 1, 2, 4, 5)] + [("item", i) for i in (0, 10, 20)], key=str
    )
    ends = [
        (names[a][1], names[b][1])
        for (a, b), kind in zip(graph.get_edgelist(), graph.es["type"], strict=True)
        if kind == "knows"
    ]
    assert ends == shop.execute("SELECT a, b FROM knows").fetchall()


def test_scipy(shop: Database) -> None:
    opened = shop.open_snapshot("s")
    matrix = opened.to_scipy()
    assert sparse.issparse(matrix)
    keys = opened.view.keys["person"].read(np.arange(matrix.shape[0])[: opened.view.node_counts["person"]]).to_pylist()
    expected = np.zeros(matrix.shape)
    for a, b, weight in shop.execute("SELECT a, b, w FROM knows").fetchall():
        expected[keys.index(a), keys.index(b)] += weight
    assert np.allclose(matrix.toarray(), expected)
    other = shop.open_snapshot("t")
    assert other.to_scipy("bought").sum() == 4
    with refused("unknown-element", "knows"):
        other.to_scipy()
    with refused("unknown-element", "bougth", "bought"):
        other.to_scipy("bougth")


def test_what_comes_from_networkx_goes_back(db: Database) -> None:
    graph = nx.gnp_random_graph(30, 0.2, seed=3, directed=True)
    for i, (u, v) in enumerate(graph.edges):
        graph[u][v]["weight"] = i + 0.5
    db.import_graph("g", graph)
    back = db.open_snapshot("now").to_networkx()
    assert nx.utils.graphs_equal(nx.DiGraph(back), graph)
    db.import_graph("h", nx.to_scipy_sparse_array(graph), snapshot="matrix", prefix="m_")
    assert (db.open_snapshot("matrix").to_scipy() != nx.to_scipy_sparse_array(graph)).nnz == 0


def test_a_library_that_is_missing_is_named(shop: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "igraph", None)
    with refused("package-missing", "pip install igraph"):
        shop.open_snapshot("s").to_igraph()
