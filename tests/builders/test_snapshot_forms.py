"""Every layout of a snapshot delivers the oracle's edges and the same bytes, whatever its tables went through."""

from __future__ import annotations

import hashlib
import random
import re
from typing import Any, get_args

import pytest

import snapdb
from snapdb import Database
from snapdb.types import FORMS
from tests.support.oracle import FULL, Direction, Edge, EdgeKey, Fanout, Graph, rows
from tests.support.thoroughness import some

EDGES: tuple[EdgeKey, ...] = (("u", "a", "u"), ("u", "b", "v"), ("v", "C", "u"))
"""Moments, some of them always there; times with an end; no times at all."""
START = """
CREATE TABLE u AS SELECT i * 3 AS id, i % 4 AS team, [i, -i]::FLOAT[2] AS emb FROM range(14) t(i);
CREATE TABLE v AS SELECT 'v' || lpad(i::VARCHAR, 4, '0') AS id, i % 20 AS born, i % 3 AS y FROM range(9) t(i);
CREATE TABLE a (x INTEGER, y INTEGER, t BIGINT, size INTEGER);
CREATE TABLE b (x INTEGER, y VARCHAR, t BIGINT, til BIGINT, size INTEGER);
CREATE TABLE C (x VARCHAR, y INTEGER, size INTEGER);
INSERT INTO a SELECT i * 3, (i * 5 % 14) * 3, CASE WHEN i % 5 > 0 THEN i % 20 END, i % 5 FROM range(14) t(i);
INSERT INTO b SELECT i * 3, 'v000' || i % 9, i, CASE WHEN i % 3 > 0 THEN i + i % 6 END, i % 4 FROM range(14) t(i);
CREATE PROPERTY GRAPH g
  VERTEX TABLES (u KEY (id) FEATURES (emb), v KEY (id) TARGET (y) EVENT TIME (born))
  EDGE TABLES (
    a SOURCE KEY (x) REFERENCES u DESTINATION KEY (y) REFERENCES u EVENT TIME (t) NULLS STATIC WEIGHT (size),
    b SOURCE KEY (x) REFERENCES u DESTINATION KEY (y) REFERENCES v EVENT TIME (t, til) FEATURES (size) ON DANGLING SKIP,
    C SOURCE KEY (x) REFERENCES v DESTINATION KEY (y) REFERENCES u ON DANGLING SKIP);
"""
WINDOWS = (
    "",
    "FOR EVENT_TIME AS OF ({t})",
    "FOR EVENT_TIME FROM ({t} - 6) TO ({t})",
    "FOR EVENT_TIME BETWEEN ({t}) AND ({t} + 4)",
    "FOR EVENT_TIME WINDOW 7 ENDING ({t})",
    "FOR EVENT_TIME AS OF ({t})",
    "FOR EVENT_TIME FROM ({t}) TO ({t})",
)
FILTERS = ("", "", "WHERE a.size >= 2", "WHERE v.y > 0 AND b.size < 4", "WHERE u.team < 3 AND C.size > 0")


def step(db: Database, r: random.Random, number: int) -> None:
    """Something happens to the tables: edges now or late, parallel ones, loops, deletes, updates, new vertices."""
    now = 20 + number // 4
    some_u = "(SELECT id FROM u ORDER BY hash(id + {}) LIMIT 1)".format
    some_v = "(SELECT id FROM v ORDER BY hash(id || {}) LIMIT 1)".format
    one, other = (r.randrange(10**6) for _ in range(2))
    count, late = r.randint(1, 40), r.randrange(-2, 20)
    at = r.choice([f"{now} + i % 3", f"{late} - i % 2", f"CASE WHEN i % 3 > 0 THEN {late} END", f"{late}"])
    spread_u, other_u = (f"(hash(i + {salt}) % 14 * 3)::INTEGER" for salt in (one, other))
    spread_v = f"'v' || lpad((hash(i + {other}) % 9)::VARCHAR, 4, '0')"
    size = f"(hash(i * {other}) % 5)::INTEGER"
    began = f"(hash(i - {one}) % 20)::BIGINT"
    statements = [
        f"INSERT INTO a SELECT {spread_u}, ({some_u(one)}), {at}, {size} FROM range({count}) t(i)",
        f"INSERT INTO a SELECT {spread_u}, {other_u}, {at}, {size} FROM range({count}) t(i)",
        f"INSERT INTO a SELECT {some_u(other)}, {some_u(other)}, {late}, 3 FROM range(3)",
        f"INSERT INTO b SELECT {spread_u}, {spread_v}, {began}, CASE WHEN i % 4 > 0 THEN {began} + i % 6 END, {size} "
        f"FROM range({count}) t(i)",
        f"INSERT INTO b SELECT {spread_u}, {some_v(one)}, {late}, {late}, {size} FROM range({count}) t(i)",
        f"INSERT INTO C SELECT {spread_v}, {spread_u}, {size} FROM range({count}) t(i)",
        f"DELETE FROM a WHERE (t + size) % 5 = {one % 5}",
        f"DELETE FROM b WHERE size = {one % 5}",
        f"UPDATE a SET t = {late}, size = size + 1 WHERE x % 5 = {one % 5} AND t IS NOT NULL",
        f"UPDATE b SET til = NULL WHERE size = {other % 5}",
        f"UPDATE C SET size = size + 1 WHERE y % 4 = {one % 4}",
        f"UPDATE v SET born = {late} WHERE y = {one % 3}",
        f"INSERT INTO u SELECT 1000 * {number + 1} + i, i % 4, [i, {one}]::FLOAT[2] FROM range(3) t(i)",
        f"INSERT INTO v SELECT 'w' || lpad({number}::VARCHAR, 4, '0') || i, {late}, i FROM range(3) t(i)",
        f"DELETE FROM v WHERE id = {some_v(one)}",
    ]
    db.execute(r.choice(statements))


def keys_of(db: Database, name: str) -> dict[str, dict[Any, int]]:
    """Vertex type → the user's id of each vertex of the snapshot → its dense id."""
    found: dict[str, dict[Any, int]] = {}
    for kind, fanout in (("u", "C => [0]"), ("v", "b => [0]")):
        found[kind] = {}
        seeds = f"(SELECT id FROM {name}.{kind}) AS {kind}"
        if db.execute(f"SELECT count(*) FROM {name}.{kind}").fetchone() != (0,):
            batch = db.stream(f"SAMPLE FROM {name} SEEDS {seeds} FANOUT ({fanout}) BATCH 5000")[0]
            found[kind] = dict(zip(batch.ids(kind).to_pylist(), batch.n_id[kind].tolist(), strict=True))
    return found


def graph_of(db: Database, name: str, keys: dict[str, dict[Any, int]]) -> Graph:
    """What SQL sees of a snapshot."""
    edges = {}
    for key in EDGES:
        source, edge, destination = key
        seen = db.execute(f"SELECT x, y, e_id, {'NULL' if edge == 'C' else 't'} FROM {name}.{edge}").fetchall()
        edges[key] = [Edge(keys[source][x], keys[destination][y], i, t) for x, y, i, t in seen]
    return Graph({kind: len(found) for kind, found in keys.items()}, edges)


def asked(r: random.Random) -> tuple[str, list[Fanout], int, int]:
    """A random sample: its seeds' type, its fanouts, its seed and its batch size."""
    chosen = r.sample(EDGES, r.randint(1, 3))
    hops = r.randint(1, 3)
    fanouts: list[Fanout] = [(e, r.choice(get_args(Direction)), r.choices([0, 1, 2, 3, FULL], k=hops)) for e in chosen]
    return r.choice(["u", "u", "v"]), fanouts, r.choice([0, 42, 2**64 - 1]), r.choice([3, 8, 100])


def check(db: Database, r: random.Random, layouts: list[str]) -> None:
    """One random sample gives of every layout the oracle's rows, and batches of the same bytes."""
    kind, fanouts, seed, size = asked(r)
    keys = keys_of(db, layouts[0])
    if not keys[kind]:
        kind = "u"
    text = ", ".join(f"{edge[1]} {direction} => {counts}" for edge, direction, counts in fanouts)
    queries = [
        f"SAMPLE FROM {n} SEEDS (SELECT id FROM {n}.{kind}) AS {kind} FANOUT ({text}) BATCH {size} REPEATABLE ({seed})"
        for n in layouts
    ]
    graph = graph_of(db, layouts[0], keys)
    names = {k: {dense: key for key, dense in found.items()} for k, found in keys.items()}
    ends = {edge: (names[source], names[destination]) for source, edge, destination in EDGES}
    expected = [
        (*row[:4], str(ends[row.type][0][row.source]), str(ends[row.type][1][row.destination]), str(row.e_id))
        for row in rows(graph, sorted(keys[kind].values()), kind, fanouts, seed, size)
    ]
    assert [(*row[:4], *map(str, row[4:])) for row in db.execute(queries[0]).fetchall()] == expected
    digests = {name: digest_of(db, query) for name, query in zip(layouts, queries, strict=True)}
    assert len(set(digests.values())) == 1, (digests, queries[0])


def digest_of(db: Database, query: str) -> str:
    """A digest of all that the batches of a sample hold."""
    digest = hashlib.sha256()
    with db.stream(query, threads=1) as stream:
        for batch in stream:
            tensors = [*batch.n_id.values(), *batch.edge_index.values(), *batch.e_id.values(), *batch.x.values()]
            for columns in (batch.edge_time, batch.edge_weight, batch.edge_attr):
                tensors += [columns[edge] for edge in columns]
            for values in (*tensors, *([] if batch.y is None else [batch.y])):
                digest.update(str(tuple(values.shape)).encode() + values.numpy().tobytes())
    return digest.hexdigest()


def fits(db: Database, statement: str) -> bool:
    """Run a statement about a snapshot with a layout; False where that layout cannot hold it."""
    try:
        db.execute(statement)
    except snapdb.BindError as error:
        if re.search(r"layout '(full|ends)'", str(error)):
            return False
        raise
    return True


def make(db: Database, name: str, clauses: str, filters: str) -> list[str]:
    """The names of snapshots that are the same but for their layout: one for each that can hold it."""
    said = {name: "", **{f"{name}_{layout}": f"WITH (layout = '{layout}')" for layout in FORMS}}
    return [n for n, layout in said.items() if fits(db, f"CREATE SNAPSHOT {n} OF g {clauses} {layout} {filters}")]


@pytest.mark.parametrize("seed", some(range(3), 1))
def test_every_layout_of_a_changing_graph_delivers_what_the_oracle_does(db: Database, seed: int) -> None:
    r = random.Random(seed)
    db.script(START)
    first = db.execute("SHOW VERSIONS").fetchall()[-1][0]
    followers = []
    for number in range(24):
        step(db, r, number)
        if number == 7:
            followers = make(db, "follower", "FOR EVENT_TIME WINDOW 12", "WHERE a.size < 4")
        if number % 6 == 5:
            window, back = r.choice(WINDOWS).format(t=r.randrange(-1, 27)), r.choice(["", "", "AT (VERSION => {})"])
            clauses = f"{back.format(r.randint(first, first + number // 2))} {window}"
            check(db, r, make(db, f"s{number}", clauses, r.choice(FILTERS)))
    check(db, r, [name for name in followers if fits(db, f"REFRESH SNAPSHOT {name}")])
    assert db.execute("CHECK DATABASE").fetchall() == []


def test_a_vertex_whose_key_came_between_others_has_its_own_edges(db: Database) -> None:
    db.script("""
        CREATE TABLE n AS SELECT range * 2 AS id FROM range(5);
        CREATE TABLE e AS SELECT 2 AS x, 4 AS y;
        CREATE PROPERTY GRAPH h VERTEX TABLES (n KEY (id))
          EDGE TABLES (e SOURCE KEY (x) REFERENCES n DESTINATION KEY (y) REFERENCES n);
        CREATE SNAPSHOT before OF h;
        INSERT INTO n SELECT range * 2 + 1 FROM range(5); INSERT INTO e VALUES (1, 4), (3, 4), (9, 3);
        CREATE SNAPSHOT after OF h; CREATE SNAPSHOT anew OF h; REFRESH SNAPSHOT anew FULL;
    """)
    for name in ("after", "anew"):
        sample = f"SAMPLE FROM {name} SEEDS (SELECT id FROM {name}.n) AS n FANOUT (e => [FULL]) BATCH 20"
        found = sorted(row[4:] for row in db.execute(sample).fetchall())
        assert found == db.execute(f"SELECT x, y, e_id FROM {name}.e ORDER BY ALL").fetchall()
