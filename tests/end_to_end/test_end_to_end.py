"""From Parquet to batches through SQL, held against the oracle: same rows, in every form, thread count and process."""

from __future__ import annotations

import hashlib
import io
import random
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import snapdb
from snapdb import Database
from tests.support import oracle
from tests.support.processes import FreshProcess
from tests.support.thoroughness import SOAK, examples

KINDS = ("BIGINT", "VARCHAR", "UUID")


@dataclass(frozen=True)
class World:
    """Two vertex types and three edge types, as a user has them: with keys, times and no ids."""

    people: list[Any]
    pages: list[Any]
    edges: dict[tuple[str, str, str], list[tuple[Any, Any, int]]]


def make_world(seed: int, kind: str) -> World:
    """A small random graph with parallel edges, self-loops, ties in time and nodes without edges."""
    rng = random.Random(seed)

    def key(n: int) -> Any:
        digest = hashlib.md5(f"{n}".encode()).hexdigest()
        return {"BIGINT": n * 7919 % 10007, "VARCHAR": f"k{n * 37 % 101}é", "UUID": str(pa_uuid(digest))}[kind]

    people, pages = [key(n) for n in range(30)], [key(n) for n in range(100, 112)]
    ends = {
        ("person", "knows", "person"): (people, people),
        ("person", "visits", "page"): (people, pages),
        ("page", "links", "page"): (pages, pages),
    }
    edges = {
        type_: [(rng.choice(a[:20]), rng.choice(b), rng.randrange(40)) for _ in range(150)]
        for type_, (a, b) in ends.items()
    }
    return World(people, pages, edges)


def pa_uuid(digest: str) -> str:
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"


def load(db: Database, world: World, kind: str, folder: Path) -> None:
    """Write Parquet, load it, and define the graph."""
    for name, keys in (("person", world.people), ("page", world.pages)):
        pq.write_table(pa.table({"k": pa.array(keys)}), folder / f"{name}.parquet")
        db.execute(f"CREATE TABLE {name} AS SELECT k::{kind} AS k FROM '{folder}/{name}.parquet'")
    for (_, name, _), rows in world.edges.items():
        columns = dict(zip(("a", "b", "ts"), map(list, zip(*rows, strict=True)), strict=True))
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
        db.execute(f"CREATE TABLE {name} AS SELECT a::{kind} AS a, b::{kind} AS b, ts FROM '{folder}/{name}.parquet'")
    db.execute("""
        CREATE PROPERTY GRAPH web VERTEX TABLES (person KEY (k), page KEY (k)) EDGE TABLES (
          knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (ts),
          visits SOURCE KEY (a) REFERENCES person (k) DESTINATION KEY (b) REFERENCES page (k) EVENT TIME (ts),
          links SOURCE KEY (a) REFERENCES page DESTINATION KEY (b) REFERENCES page EVENT TIME (ts))
    """)


def as_oracle(world: World, low: int | None, high: int | None, *, keep: str | None = None) -> oracle.Graph:
    """The world as the oracle sees it: dense ids in key order, edge ids in file order."""
    dense = {"person": dense_ids(world.people), "page": dense_ids(world.pages)}
    edges = {}
    for (source, name, destination), rows in world.edges.items():
        edges[source, name, destination] = [
            oracle.Edge(dense[source][a], dense[destination][b], i, t)
            for i, (a, b, t) in enumerate(rows)
            if (low is None or t >= low) and (high is None or t < high) and (keep != name or t % 2 == 0)
        ]
    return oracle.Graph({"person": len(world.people), "page": len(world.pages)}, edges)


def dense_ids(keys: list[Any]) -> dict[Any, int]:
    ordered = sorted(keys, key=lambda k: k.encode() if isinstance(k, str) else k)
    return {k: i for i, k in enumerate(ordered)}


WINDOWS = {
    "": (None, None, "full"),
    "FOR EVENT_TIME AS OF 25": (None, 26, "ends"),
    "FOR EVENT_TIME FROM 10 TO 30": (10, 30, "materialized"),
    "FOR EVENT_TIME BETWEEN 10 AND 30": (10, 31, "materialized"),
}

FANOUTS: list[tuple[str, list[tuple[tuple[str, str, str], str, list[int]]]]] = [
    (
        "knows => [3, 2], DEFAULT => [2, FULL]",
        [
            (("person", "knows", "person"), "IN", [3, 2]),
            (("person", "visits", "page"), "IN", [2, -1]),
            (("page", "links", "page"), "IN", [2, -1]),
        ],
    ),
    (
        "knows BOTH => [4, 1], visits OUT => [3, 3], visits => [0, 2]",
        [
            (("person", "knows", "person"), "BOTH", [4, 1]),
            (("person", "visits", "page"), "OUT", [3, 3]),
            (("person", "visits", "page"), "IN", [0, 2]),
        ],
    ),
    (
        "visits BOTH => [2, 2, 2], links OUT => [1, 5, 0]",
        [(("person", "visits", "page"), "BOTH", [2, 2, 2]), (("page", "links", "page"), "OUT", [1, 5, 0])],
    ),
]


@pytest.fixture(scope="module", params=KINDS)
def web(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("web")
    world = make_world(7, request.param)
    with snapdb.connect(folder / "web.snapdb") as db:
        load(db, world, request.param, folder)
        for number, window in enumerate(WINDOWS):
            db.execute(f"CREATE SNAPSHOT s{number} OF web {window}")
        db.execute("CREATE SNAPSHOT even OF web WHERE knows.ts % 2 = 0")
        yield db, world


ASKED = [
    (kind, window, fanout)
    for number, kind in enumerate(KINDS)
    for place, window in enumerate(WINDOWS)
    for fanout in range(len(FANOUTS))
    if SOAK or number == 0 or fanout == (number + place) % len(FANOUTS)
]
"""Samples of every window. With keys of all types but the first, `make soak` tries every fanout, and other test runs
one."""


@pytest.mark.parametrize(("web", "window", "fanout"), ASKED, indirect=["web"])
def test_sample_rows_equal_the_oracle(web: tuple[Database, World], window: str, fanout: int) -> None:
    db, world = web
    low, high, form = WINDOWS[window]
    name = f"s{list(WINDOWS).index(window)}"
    assert db.execute(f"SHOW SNAPSHOTS LIKE '{name}'").arrow()["form"].to_pylist() == [form]
    compare(db, name, as_oracle(world, low, high), world, *FANOUTS[fanout])


def test_a_filter_samples_only_what_it_admits(web: tuple[Database, World]) -> None:
    db, world = web
    compare(db, "even", as_oracle(world, None, None, keep="knows"), world, *FANOUTS[0])


def compare(db: Database, snapshot: str, graph: oracle.Graph, world: World, text: str, fanouts: Any) -> None:
    """The rows of a SAMPLE over two epochs, and what the stream gives, against the oracle."""
    sample = f"SAMPLE FROM {snapshot} SEEDS (SELECT k FROM person) AS person FANOUT ({text}) BATCH 7 REPEATABLE (42)"
    seeds = range(len(world.people))
    expected = oracle.rows(graph, seeds, "person", fanouts, 42, 7, epochs=2)
    keys = {
        "person": sorted(dense_ids(world.people), key=dense_ids(world.people).__getitem__),
        "page": sorted(dense_ids(world.pages), key=dense_ids(world.pages).__getitem__),
    }
    ends = {name: (source, destination) for source, name, destination in graph.edges}
    wanted = [
        (
            r.batch,
            r.hop,
            r.type,
            r.direction,
            keys[ends[r.type][0]][r.source],
            keys[ends[r.type][1]][r.destination],
            r.e_id,
        )
        for r in expected
    ]
    got = [
        tuple(str(v) if hasattr(v, "hex") and not isinstance(v, int) else v for v in row)
        for row in db.execute(f"{sample} EPOCHS 2").fetchall()
    ]
    assert got == wanted
    edges = [edge for batch in db.stream(sample, threads=2) for k in batch.e_id for edge in batch.e_id[k].tolist()]
    first = [r.e_id for r in expected if r.batch < 5]
    assert sorted(edges) == sorted(first)


DIGEST = """
import hashlib, sys, snapdb
with snapdb.connect({path!r}, read_only=True) as db:
    stream = db.stream("SAMPLE FROM s1 SEEDS (SELECT k FROM person) AS person FANOUT (knows BOTH => [4, 2], "
                       "DEFAULT => [3, 3]) BATCH 4 REPEATABLE (9)", threads={threads})
    digest = hashlib.sha256()
    for batch in stream:
        for part in (batch.n_id, batch.edge_index, batch.e_id):
            for key in part:
                digest.update(str(key).encode() + part[key].contiguous().numpy().tobytes())
    print(digest.hexdigest())
"""


@pytest.mark.parametrize("web", KINDS if SOAK else KINDS[:1], indirect=True)
def test_batches_are_the_same_bytes_on_any_threads_and_in_any_process(
    web: tuple[Database, World], fresh_process: FreshProcess
) -> None:
    db, _ = web
    other = fresh_process(DIGEST.format(path=str(db.path), threads=1))
    with redirect_stdout(io.StringIO()) as here:
        exec(DIGEST.format(path=str(db.path), threads=2), {})
    assert (other.stderr, other.stdout) == ("", here.getvalue())
    assert len(other.stdout.strip()) == 64


@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), low=st.integers(0, 39), width=st.integers(0, 39))
def test_what_sql_sees_is_what_is_sampled(
    tmp_path_factory: pytest.TempPathFactory, seed: int, low: int, width: int
) -> None:
    folder = tmp_path_factory.mktemp("world")
    world = make_world(seed, "BIGINT")
    with snapdb.connect(folder / "w.snapdb") as db:
        load(db, world, "BIGINT", folder)
        db.execute(f"CREATE SNAPSHOT s OF web FOR EVENT_TIME FROM {low} TO {low + width} WHERE person.k % 3 > 0")
        rows = db.execute(
            "SAMPLE FROM s SEEDS (SELECT k FROM person) AS person "
            "FANOUT (knows BOTH => [FULL], visits BOTH => [FULL]) BATCH 1000"
        ).fetchall()
        for name in ("knows", "visits"):
            sampled = {row[6] for row in rows if row[2] == name}
            assert sampled == {e for (e,) in db.execute(f"SELECT e_id FROM s.{name}").fetchall()}
            wanted = {
                i
                for i, (a, b, t) in enumerate(next(v for k, v in world.edges.items() if k[1] == name))
                if low <= t < low + width and a % 3 and (name != "knows" or b % 3)
            }
            assert sampled == wanted
