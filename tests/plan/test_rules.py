"""No rule changes a result: any of them, on any world, gives the same rows, batches, views and audits."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from inspect import isabstract
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import snapdb
from snapdb import Database
from snapdb.plan import RULES
from tests.support.graphs import EdgeList
from tests.support.inside.plan import Rule, plan_kinds, time_bounds
from tests.support.refusals import refused
from tests.support.thoroughness import some
from tests.support.waiting import interrupting
from tests.support.worlds import KNOWS, LIKES, NEAR, NODES, STATIC, world

GRAPH = """
CREATE PROPERTY GRAPH g
  VERTEX TABLES (person KEY (id) FEATURES (f AS x) TARGET (y),
                 shop KEY (id) FEATURES (f AS x) EVENT TIME (born) NULLS STATIC)
  EDGE TABLES (
    knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person
      EVENT TIME (t) WEIGHT (w) FEATURES (w AS edge_attr),
    likes SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES shop EVENT TIME {likes} NULLS STATIC,
    near SOURCE KEY (a) REFERENCES shop DESTINATION KEY (b) REFERENCES shop)
"""
METHODS = (
    "",
    "METHOD FULL",
    "METHOD LATEST",
    "METHOD BOTTOMK",
    "METHOD LABOR",
    "WITH REPLACEMENT",
    "WEIGHT BY knows.w",
    "METHOD PRIORITY WEIGHT BY knows.w, likes.w",
    "METHOD TOPK WEIGHT BY knows.w, likes.w, near.w",
    "WITH torch",
)
PEOPLE = "SEEDS (SELECT id, 4 + id % 9 AS seed_time, id % 3 AS y FROM person) AS person"
SHOPS = "SEEDS (SELECT id, 20 AS seed_time FROM shop ORDER BY id DESC) AS shop IN ORDER"
ENDS = "SEEDS EDGES knows (SELECT e_id, t AS seed_time FROM knows) NEGATIVES 2 PER POSITIVE EXCLUDE KNOWN"
FANOUTS = (
    "knows => {}",
    "knows => {}, likes OUT => {}",
    "DEFAULT => {}",
    "knows BOTH => {}, near OUT => {}",
    "likes => {}, knows OUT => {}",
    "near BOTH => {}, likes BOTH => {}",
)


def load(db: Database, seed: int) -> None:
    """A world's tables and graph, and a topology that a later one patches."""
    graph, rng = world(seed, ends=seed % 2 == 0), np.random.default_rng(seed)
    for name, count in NODES.items():
        ids = np.arange(count)
        db.register("came", {"id": ids * 3, "f": rng.random((count, 3), np.float32), "y": ids % 4, "born": ids % 6})
        db.execute(f"CREATE TABLE {name} AS SELECT * REPLACE (CASE WHEN id % 4 > 0 THEN born END AS born) FROM came")
    for edge in (KNOWS, LIKES, NEAR):
        listed: EdgeList = graph.edges[edge]
        t = np.zeros(listed.source.size, np.int64) if listed.time is None else listed.time
        columns: dict[str, Any] = {
            "a": listed.source * 3,
            "b": listed.destination * 3,
            "t": t,
            "w": rng.random(t.size) + 0.1,
        }
        columns["u"] = t if listed.until is None else np.maximum(listed.until, t)
        db.register("came", columns)
        time_ = f"CASE WHEN t > {STATIC} THEN t END" if edge is LIKES else f"greatest(t, {STATIC + 1})"
        db.execute(f"CREATE TABLE {edge.edge} AS SELECT a, b, {time_} AS t, w, u FROM came")
    db.execute(GRAPH.format(likes="(t, u)" if seed % 2 == 0 else "(t)"))
    db.execute("CREATE SNAPSHOT first OF g")
    db.execute("INSERT INTO knows SELECT (i % 14) * 3, (i * i % 14) * 3, i % 5, 0.5, 0 FROM range(9) r(i)")
    db.execute("DELETE FROM knows WHERE t = 3")


def statement(rng: np.random.Generator) -> tuple[str, str]:
    """What a snapshot chooses, and a SAMPLE of it."""
    signs = ("<", "<=", ">", ">=", "=")
    conditions = [
        f"knows.t {rng.choice(signs)} {rng.integers(-1, 11)}",
        f"{rng.integers(-1, 6)} < knows.t",
        f"knows.t BETWEEN {rng.integers(-1, 4)} AND {rng.integers(3, 11)}",
        "knows.w > 0.3",
        "likes.t < 7",
        "knows.t + 1 < 12",
        "likes.t > 0",
        "person.y < 3",
        "near.a > 2",
    ]
    said = rng.choice(conditions, int(rng.integers(0, 4)), replace=False)
    window = rng.choice(["", "FOR EVENT_TIME AS OF 9", "FOR EVENT_TIME FROM 1 TO 10"])
    chosen = window + (f" WHERE {' AND '.join(said)}" if said.size else "")
    hops = int(rng.integers(1, 4))
    counts = (f"[{', '.join(str(n) for n in rng.choice(['0', '1', '2', '5', 'FULL'], hops))}]" for _ in range(2))
    if rng.random() < 0.3:
        counts = (f"[{', '.join(['FULL'] * hops)}]" for _ in range(2))
    seeds, method = rng.choice([PEOPLE, PEOPLE, SHOPS, ENDS]), str(rng.choice(METHODS))
    fanout = str(rng.choice(FANOUTS)).format(*counts, *counts)
    if "WEIGHT" in method:
        fanout = f"knows => [2, 3], likes OUT => [3, 1]{', near => [2, 2]' if 'near' in method else ''}"
    more = [rng.choice(["", "LAYOUT BLOCKS", "REUSE HOPS"])]
    more += [] if "LATEST" in method and "knows" not in fanout else [method]
    more += [rng.choice(["", "TEMPORAL < SEED_TIME", "TEMPORAL <= SEED_TIME WITHIN 6"])]
    return chosen, f"{seeds} FANOUT ({fanout}) {' '.join(more)} BATCH 6 REPEATABLE (7)"


def plain(value: Any) -> Any:
    """A field of a batch as values that compare."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.numpy().tobytes()
    if hasattr(value, "items"):
        return {key: plain(value[key]) for key in value}
    return value


def taken(stream: snapdb.BatchStream) -> list[Any]:
    """All that an epoch's batches hold."""
    fields = (
        "n_id",
        "features",
        "y",
        "edge_index",
        "e_id",
        "edge_features",
        "edge_time",
        "edge_weight",
        "seed_time",
        "batch",
        "edge_label_index",
        "input_id",
        "num_sampled_nodes",
        "num_sampled_edges",
        "lineage",
    )
    return [[plain(getattr(batch, name)) for name in fields] for batch in stream]


def told(db: Database, chosen: str, sample: str) -> dict[str, Any]:
    """All that anybody sees of a snapshot and a sampler; an error instead of what it hides."""
    db.execute(f"CREATE OR REPLACE SNAPSHOT s OF g {chosen}")
    text = f"SAMPLE FROM s {sample}"
    found = {name: db.execute(f"SELECT * FROM s.{name} ORDER BY ALL").fetchall() for name in ("knows", "likes", "near")}
    try:
        found["rows"] = db.execute(f"{text} EPOCHS 2").fetchall()
        with db.stream(text) as stream:
            found["state"] = stream.state_dict()
            found["batches"] = taken(stream)
        found["audit"] = [row for row in db.execute(f"AUDIT {text}").fetchall() if row[-1]]
        assert not found["audit"]
    except snapdb.SnapdbError as error:
        found["error"] = str(error)
    return found


def subsets(rng: np.random.Generator, count: int) -> Iterator[tuple[Rule, ...]]:
    """All rules, then some of them, in their order."""
    yield RULES
    for _ in range(count):
        chosen = rng.random(len(RULES)) < 0.5
        yield tuple(rule for rule, keep in zip(RULES, chosen, strict=True) if keep)


@pytest.mark.parametrize("seed", some(range(3), 2))
def test_any_rules_give_the_same(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    with snapdb.connect(tmp_path / "db") as db:
        load(db, seed)
    cases = [statement(rng) for _ in range(3)]
    with Database(tmp_path / "db", rules=(), threads=1) as db:
        expected = [told(db, *case) for case in cases]
    assert sum("error" not in found for found in expected) >= 2, [found.get("error") for found in expected]
    for rules in subsets(rng, 2):
        with Database(tmp_path / "db", rules=rules, threads=int(rng.integers(1, 3))) as db:
            for case, found in zip(cases, expected, strict=True):
                assert told(db, *case) == found, (case, [rule.__name__ for rule in rules])


TIMES: dict[str, list[str]] = {
    "INTEGER": [
        "t < 3",
        "3 >= t",
        "t = -2",
        "t BETWEEN -1 AND 4",
        "(t) > 1",
        "t > 1.5",
        "t IN (1, 2)",
        "t <> 3",
        "t >= 0x2",
        "t < 2 + 1",
        "NOT t < 3",
        "t IS NOT NULL",
        "e.t <= 2",
        '"E"."T" <= 2',
        "t > 99999999999",
    ],
    "BIGINT": ["t < 9223372036854775807", "t >= -4611686018427387904", "t >= -4611686018427387905", "t>-2", "t > - 2"],
    "UTINYINT": ["t < 3", "t > 300", "t >= -1"],
    "DATE": [
        "t < DATE '2026-01-03'",
        "t >= '2026-01-02'",
        "t <= TIMESTAMP '2026-01-02 12:00'",
        "t = DATE '2026-1-2'",
        "t > '2026-01-02'::DATE",
        "t > CAST('2026-01-02' AS TIMESTAMP)",
        "'2026-01-02' >= t",
        "t BETWEEN '2026-01-01' AND '2026-01-02'",
    ],
    "TIMESTAMP": [
        "t < DATE '2026-01-02'",
        "t <= '2026-01-02 00:00:00.000001'",
        "t > TIMESTAMP '2026-01-02T00:00:00'",
        "TIMESTAMP '2026-01-02 00:00' <= t",
        "t = '2026-01-02'",
        "t >= TIMESTAMPTZ '2026-01-02 00:00+02'",
        "t < TIMESTAMP '2026-01-02 00:00:00' + INTERVAL 1 DAY",
        "t < '2026-01-02 00:00:00.1234567'",
    ],
    "TIMESTAMP WITH TIME ZONE": [
        "t < DATE '2026-01-02'",
        "t >= TIMESTAMP '2026-01-02 00:00'",
        "t = '2026-01-02'",
        "t <= '2026-01-02 00:00+02'",
        "t > '2026-01-01 23:59:59.999999'",
    ],
    "TIMESTAMP_S": ["t < DATE '2026-01-02'", "t <= '2026-01-02 00:00:00.5'"],
}
SURELY = {
    "t < 3",
    "t BETWEEN -1 AND 4",
    '"E"."T" <= 2',
    "t>-2",
    "t >= '2026-01-02'",
    "t = '2026-01-02'",
    "t < DATE '2026-01-02'",
    "TIMESTAMP '2026-01-02 00:00' <= t",
}


@pytest.mark.parametrize("type_", TIMES)
def test_bounds_hold_just_where_the_condition_does(db: Database, type_: str) -> None:
    start = datetime.datetime(2026, 1, 1)
    moments = [start + datetime.timedelta(hours=6 * i, microseconds=i % 3 - 1) for i in range(14)]
    numbers = [-(2**62) - 1, -(2**62), *range(-3, 6), 2**62, 2**63 - 1]
    values = [str(n) for n in numbers] if type_.endswith("INT") or type_ == "INTEGER" else [f"'{m}'" for m in moments]
    listed = ", ".join(f"(TRY_CAST({v} AS {type_}))" for v in values)
    moment = "t::TIMESTAMP" if type_ == "DATE" else "t"
    as_number = f"epoch_us({moment})" if values[0].startswith("'") else "t::BIGINT"
    for condition in TIMES[type_]:
        rows = db.execute(f"SELECT {as_number}, {condition} FROM (VALUES {listed}) e(t) WHERE t IS NOT NULL").fetchall()
        bounds = time_bounds(condition, "e", "t", type_)
        assert bounds is not None or condition not in SURELY or type_ == "TIMESTAMP_S", condition
        for number, holds in rows if bounds is not None else ():
            inside = (bounds.start is None or bounds.start <= number) and (bounds.stop is None or number < bounds.stop)
            assert inside is holds, (condition, number)


def test_a_pushed_filter_needs_no_rows_of_its_own(tmp_path: Path) -> None:
    forms = {}
    for name, rules in (("all", RULES), ("none", ())):
        with Database(tmp_path / name, rules=rules) as db:
            db.script("""CREATE TABLE n AS SELECT range AS id FROM range(2000);
              CREATE TABLE e AS SELECT hash(range) % 2000 AS a, range % 2000 AS b, range AS t FROM range(100000);
              CREATE PROPERTY GRAPH g VERTEX TABLES (n KEY (id)) EDGE TABLES (e SOURCE KEY (a) REFERENCES n
                DESTINATION KEY (b) REFERENCES n EVENT TIME (t));
              CREATE SNAPSHOT s OF g WHERE e.t < 90000""")
            forms[name] = db.execute("SHOW SNAPSHOTS").arrow().select(["form", "nodes", "edges"]).to_pylist()
            assert db.execute("SELECT count(*), max(t) FROM s.e").fetchone() == (90000, 89999)
    assert forms["all"] == [{"form": "ends", "nodes": 2000, "edges": 90000}]
    assert forms["none"] == [{"form": "materialized", "nodes": 2000, "edges": 90000}]


@pytest.mark.parametrize("rules", [(), RULES], ids=["plain", "optimized"])
def test_the_least_integer_is_a_time_as_others_are_to_a_condition(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    with Database(tmp_path / "db", rules=rules) as db:
        db.script(f"""CREATE TABLE n AS SELECT 1 AS id;
          CREATE TABLE e AS SELECT 1 AS a, 1 AS b, unnest([{STATIC}, -5, 7]::BIGINT[]) AS t;
          CREATE PROPERTY GRAPH g VERTEX TABLES (n KEY (id)) EDGE TABLES (e SOURCE KEY (a) REFERENCES n
            DESTINATION KEY (b) REFERENCES n EVENT TIME (t));
          CREATE SNAPSHOT s OF g WHERE e.t > -9""")
        rows = db.execute("SAMPLE FROM s SEEDS (SELECT 1 AS id) AS n FANOUT (e => [FULL])").fetchall()
        assert sorted(row[-1] for row in rows) == [1, 2]


@pytest.mark.parametrize("kind", list(plan_kinds()))
def test_every_plan_describes_itself(kind: type) -> None:
    assert not isabstract(kind)


def test_types_that_no_seed_reaches_are_not_opened(db: Database) -> None:
    load(db, 1)
    db.execute("CREATE SNAPSHOT s OF g")
    text = f"SAMPLE FROM s {PEOPLE} FANOUT (knows => [2, 2], near OUT => [2, 2]) BATCH 5"
    with db.stream(text) as stream:
        (idle,) = stream.view.adjacency.idle
        assert (idle.edge.edge, idle.direction) == ("near", "OUT")
        batch = next(iter(stream))
        assert batch.edge_index["shop", "rev_near", "shop"].shape == (2, 0)
        assert batch.x["shop"].shape == (0, 3)
        assert "shop" not in stream.view.born
    with db.stream(text.replace("near OUT => [2, 2]", "likes OUT => [2, 2]")) as stream:
        assert not stream.view.adjacency.idle


@pytest.mark.parametrize("rules", [(), RULES], ids=["plain", "optimized"])
def test_rows_of_edges_open_no_features(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    sample = f"SAMPLE FROM s {PEOPLE} FANOUT (knows => [2])"
    with Database(tmp_path / "db", rules=rules) as db:
        load(db, 1)
        db.execute("CREATE SNAPSHOT s OF g")
        expected = db.execute(sample).fetchall()
        for file in (tmp_path / "db").glob("features/**/*.npy"):
            file.write_bytes(bytes(file.stat().st_size))
        if rules:
            assert db.execute(sample).fetchall() == expected
        for ask in (db.stream, db.execute)[: 1 if rules else 2]:
            with refused("damaged-file"):
                ask(sample)


@pytest.mark.parametrize("rules", [(), RULES], ids=["plain", "optimized"])
def test_a_long_sample_stops_when_it_is_told_to(db: Database, tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    with Database(tmp_path / "long", rules=rules, threads=2) as long:
        load(long, 1)
        long.execute("CREATE SNAPSHOT s OF g")
        result = long.execute(f"SAMPLE FROM s {PEOPLE} FANOUT (knows => [3, 3]) BATCH 1 EPOCHS 1000000")
        reader = iter(result)
        next(reader)
        with interrupting(long.interrupt), refused("interrupted"):
            for _ in reader:
                pass
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("snapdb-batch")]
        assert long.execute("SELECT 1").fetchone() == (1,)


def test_rows_that_nobody_reads_end_their_threads(db: Database) -> None:
    load(db, 1)
    db.execute("CREATE SNAPSHOT s OF g")
    result = db.execute(f"SAMPLE FROM s {PEOPLE} FANOUT (knows => [3, 3]) BATCH 1 EPOCHS 1000000")
    next(iter(result))
    result.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("snapdb-batch")]


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_threads_that_are_none_are_refused(threads: Any) -> None:
    with pytest.raises(ValueError, match="threads must be 1 or more"):
        snapdb.connect(threads=threads)


def test_a_database_takes_no_more_threads_than_it_may(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "db", threads=1) as db:
        assert db.execute("SELECT current_setting('threads')").fetchone() == (1,)
        load(db, 1)
        db.execute("CREATE SNAPSHOT s OF g")
        with db.stream(f"SAMPLE FROM s {PEOPLE} FANOUT (knows => [3])") as stream:
            assert stream.threads == 1
        with db.stream(f"SAMPLE FROM s {PEOPLE} FANOUT (knows => [3])", threads=3) as stream:
            assert stream.threads == 3
