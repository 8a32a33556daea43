"""SUMMARIZE SNAPSHOT against plain SQL over the snapshot's views, and at the edges of what a snapshot can be."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import snapdb
from tests.support.refusals import refused
from tests.support.thoroughness import some

MOST = 2**63 - 1

GRAPH = """
CREATE PROPERTY GRAPH town
  VERTEX TABLES (person KEY (id) EVENT TIME (born) NULLS STATIC FEATURES (x AS x DEFAULT 0, age AS age DEFAULT 1),
                 shop KEY (name))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person (id) DESTINATION KEY (b) REFERENCES person (id)
                     EVENT TIME (t) NULLS STATIC FEATURES (w AS w),
               likes SOURCE KEY (who) REFERENCES person (id) DESTINATION KEY (what) REFERENCES shop (name));
"""

SNAPSHOTS = {
    "now": "",
    "old": "AT (VERSION => 4) ELEMENTS (knows)",
    "upto": "FOR EVENT_TIME AS OF 4",
    "part": "FOR EVENT_TIME FROM -10 TO 9",
    "bits": "WITH (layout = 'bitmap') WHERE knows.w > 1 AND person.id % 3 < 2",
    "rows": "WITH (layout = 'materialized') WHERE shop.name <> 's0' AND person.id > 1",
    "none": "WHERE person.id < 0",
}
"""Ways to pin the graph, and to lie on the disk."""


def summary(db: snapdb.Database, snapshot: str) -> dict[str, dict[str, Any]]:
    """The rows of SUMMARIZE SNAPSHOT by element."""
    rows = db.execute(f"SUMMARIZE SNAPSHOT {snapshot}").arrow().to_pylist()
    return {row["element"]: row for row in rows}


def one(db: snapdb.Database, query: str) -> Any:
    row = db.execute(query).fetchone()
    assert row is not None
    return row[0] if len(row) == 1 else row


def town(db: snapdb.Database, seed: int, snapshots: Sequence[str] = ("now",)) -> None:
    """A random graph whose tables have several versions: rows came late, others are gone."""
    rng = random.Random(seed)
    people, shops = rng.randint(1, 30), rng.randint(1, 6)

    def time() -> int | None:
        return rng.choice([None, rng.randint(-40, 40), rng.randint(0, 9)])

    def edges(count: int) -> str:
        rows = [(rng.randrange(people), rng.randrange(people), time(), rng.choice(("1", "2.5"))) for _ in range(count)]
        return ", ".join(f"({a}, {b}, {'NULL' if t is None else t}, {w})" for a, b, t, w in rows)

    def person(i: int) -> str:
        x = rng.choice(["NULL", f"[{rng.uniform(-2, 2):.3f}, 'inf'::FLOAT]", "[1, NULL]", "[0.5, 7]"])
        born = time()
        return f"({i}, {'NULL' if born is None else born}, {x}, {rng.choice(('NULL', '30', '41'))})"

    likes = ", ".join(f"({rng.randrange(people)}, 's{rng.randrange(shops)}')" for _ in range(rng.randint(1, 40)))
    db.script(f"""
        CREATE TABLE person (id INTEGER, born BIGINT, x FLOAT[2], age TINYINT);
        INSERT INTO person VALUES {", ".join(map(person, range(people)))};
        CREATE TABLE shop AS SELECT 's' || i AS name FROM range({shops}) r(i);
        CREATE TABLE knows (a INTEGER, b INTEGER, t BIGINT, w DOUBLE);
        INSERT INTO knows VALUES {edges(rng.randint(1, 80))};
        CREATE TABLE likes (who INTEGER, what VARCHAR);
        INSERT INTO likes VALUES {likes};
        {GRAPH}
        INSERT INTO knows VALUES {edges(5)};
        DELETE FROM knows WHERE (a + b) % 7 = 0;
        DELETE FROM likes WHERE who % 5 = 4;
        {"; ".join(f"CREATE SNAPSHOT {name} OF town {SNAPSHOTS[name]}" for name in snapshots)};
    """)


def degrees(db: snapdb.Database, vertices: str, key: str, ends: str) -> tuple[Any, ...]:
    """min, median, mean and max of how often each vertex is among the ends."""
    query = f"""
        SELECT min(n), median(n)::DOUBLE, avg(n), max(n)
        FROM (SELECT v.{key}, count(e.k) AS n FROM {vertices} v LEFT JOIN ({ends}) e ON e.k = v.{key} GROUP BY ALL)
    """
    return tuple(one(db, query))


def histogram(db: snapdb.Database, vertices: str, key: str, ends: str) -> list[int]:
    """How many vertices are among the ends 0, 1, 2, 3-4, 5-8, … times."""
    query = f"""
        SELECT CASE WHEN n < 2 THEN n ELSE 1 + ceil(log2(n))::BIGINT END AS bin, count(*)
        FROM (SELECT v.{key}, count(e.k) AS n FROM {vertices} v LEFT JOIN ({ends}) e ON e.k = v.{key} GROUP BY ALL)
        GROUP BY bin
    """
    counts = dict(db.execute(query).fetchall())
    return [counts.get(place, 0) for place in range(max(counts, default=-1) + 1)]


def growth(db: snapdb.Database, element: str, column: str) -> list[int] | None:
    """Counts in at most 20 bins of one width from the first to the last time."""
    times = [t for (t,) in db.execute(f"SELECT {column} FROM {element} WHERE {column} IS NOT NULL").fetchall()]
    if not times:
        return None
    span = max(times) - min(times) + 1
    width = next(w for w in range(1, span + 1) if w * 20 >= span)
    counts = [0] * (-(-span // width))
    for t in times:
        counts[(t - min(times)) // width] += 1
    return counts


def check(db: snapdb.Database, s: str) -> None:
    found = summary(db, s)
    version = one(db, f"SELECT version FROM snapdb.snapshots WHERE name = '{s}'")
    keys = {"person": "id", "shop": "name"}
    ends = {"knows": ("person", "a", "person", "b"), "likes": ("person", "who", "shop", "what")}
    times = {"person": "born", "knows": "t"}
    there = [element for element in (*keys, *ends) if element in found]
    assert list(found) == there
    touching: dict[str, dict[str, list[str]]] = {v: {"in": [], "out": []} for v in keys}
    for e, (source, a, target, b) in ends.items():
        if e in found:
            touching[source]["out"].append(f"SELECT {a} AS k FROM {s}.{e}")
            touching[target]["in"].append(f"SELECT {b} AS k FROM {s}.{e}")
    for element in there:
        row = found[element]
        count = one(db, f"SELECT count(*) FROM {s}.{element}")
        whole = one(db, f"SELECT count(*) FROM {element} AT (VERSION => {version})")
        assert (row["count"], row["share"]) == (count, count / whole if whole else None)
        column = times.get(element)
        counts = None if column is None else growth(db, f"{s}.{element}", column)
        assert row["growth"] == counts
        nothing = row["in_max"] is None and (element in ends or row["out_max"] is None)
        assert (row["chart"] is None) == (counts is None and nothing)
        bounds = (None, None) if counts is None else one(db, f"SELECT min({column}), max({column}) FROM {s}.{element}")
        assert (row["from_time"], row["to_time"]) == tuple(None if t is None else str(t) for t in bounds)
        if element in keys:
            sides = [("in", element, touching[element]["in"]), ("out", element, touching[element]["out"])]
        else:
            source, a, target, b = ends[element]
            sides = [
                ("in", target, [f"SELECT {b} AS k FROM {s}.{element}"]),
                ("out", source, [f"SELECT {a} AS k FROM {s}.{element}"]),
            ]
        for side, vertices, parts in sides:
            wanted: tuple[Any, ...] = (None,) * 4
            if parts:
                wanted = degrees(db, f"{s}.{vertices}", keys[vertices], " UNION ALL ".join(parts))
            got = [row[f"{side}_{name}"] for name in ("min", "median", "mean", "max")]
            assert got == pytest.approx(wanted, nan_ok=False) if wanted[0] is not None else got == [None] * 4
        by_type: dict[str, list[str]] = {}
        for _, vertices, parts in sides:
            by_type.setdefault(vertices, []).extend(parts)
        lonely = 0
        for vertices, parts in by_type.items():
            touched = " UNION ALL ".join(parts) or "SELECT NULL AS k WHERE false"
            lonely += one(
                db, f"SELECT count(*) FROM {s}.{vertices} WHERE {keys[vertices]} NOT IN (SELECT k FROM ({touched}))"
            )
        assert row["isolated"] == lonely
        _, vertices, parts = sides[0]
        counted = " UNION ALL ".join(parts + sides[1][2] if element in keys else parts)
        drawn = histogram(db, f"{s}.{vertices}", keys[vertices], counted) if counted else []
        assert row["degrees"] == (drawn or None)
        assert row["bytes"] >= 0
    check_features(db, s, found)


def check_features(db: snapdb.Database, s: str, found: dict[str, dict[str, Any]]) -> None:
    said = {name: row["features"] for name, row in found.items()}
    query = f"""
        WITH v AS (SELECT unnest(coalesce(x::FLOAT[], [0, 0])) AS n FROM {s}.person),
             filled AS (SELECT coalesce(n, 0) AS n FROM v)
        SELECT avg(n) FILTER (isfinite(n)), stddev_pop(n) FILTER (isfinite(n)), count_if(isinf(n)) FROM filled
    """
    mean, std, infinite = one(db, query)
    holes = one(
        db, f"SELECT count_if(x IS NULL OR len(list_filter(x::FLOAT[], lambda v: v IS NULL)) > 0) FROM {s}.person"
    )
    parts = [] if mean is None else [f"mean {mean:.4g}", f"std {std:.4g}"]
    parts += [f"{infinite} infinite"] if infinite else []
    assert said["person"].split("; ")[0] == f"x [2] float32: {', '.join([*parts, f'{holes or 0} missing'])}"
    mean, std, holes = one(
        db, f"SELECT avg(coalesce(age, 1)), stddev_pop(coalesce(age, 1)), count_if(age IS NULL) FROM {s}.person"
    )
    parts = [] if mean is None else [f"mean {mean:.4g}", f"std {std:.4g}"]
    assert said["person"].split("; ")[1] == f"age [1] float32: {', '.join([*parts, f'{holes or 0} missing'])}"
    mean, std = one(db, f"SELECT avg(w), stddev_pop(w) FROM {s}.knows")
    parts = [] if mean is None else [f"mean {mean:.4g}", f"std {std:.4g}"]
    assert said["knows"] == f"w [1] float32: {', '.join([*parts, '0 missing'])}"
    assert said.get("shop") is None is said.get("likes")


@pytest.mark.parametrize("seed", some(range(2), 1))
def test_every_number_is_what_sql_finds_in_the_views(db: snapdb.Database, seed: int) -> None:
    town(db, seed, tuple(SNAPSHOTS))
    for snapshot in SNAPSHOTS:
        check(db, snapshot)


def test_a_summary_stays_right_after_a_refresh_that_patched(db: snapdb.Database) -> None:
    town(db, 9)
    db.script("INSERT INTO knows VALUES (0, 0, 3, 9), (0, 0, -99, 1); REFRESH SNAPSHOT now;")
    check(db, "now")


def test_a_graph_of_one_node_and_no_edge(db: snapdb.Database) -> None:
    db.script("""
        CREATE TABLE n AS SELECT 1 AS id; CREATE TABLE e (a INTEGER, b INTEGER, t TIMESTAMP);
        CREATE PROPERTY GRAPH g VERTEX TABLES (n KEY (id)) EDGE TABLES (e SOURCE KEY (a) REFERENCES n (id)
          DESTINATION KEY (b) REFERENCES n (id) EVENT TIME (t));
        CREATE SNAPSHOT s OF g;
    """)
    rows = summary(db, "s")
    assert (rows["n"]["count"], rows["n"]["share"], rows["n"]["isolated"], rows["n"]["chart"]) == (1, 1.0, 1, "█")
    assert (rows["e"]["count"], rows["e"]["share"], rows["e"]["in_max"], rows["e"]["growth"]) == (0, None, 0, None)


def test_a_snapshot_of_nothing_has_rows_of_nothing(db: snapdb.Database) -> None:
    db.script("""
        CREATE TABLE n (id INTEGER); CREATE PROPERTY GRAPH g VERTEX TABLES (n KEY (id)); CREATE SNAPSHOT s OF g;
    """)
    row = summary(db, "s")["n"]
    assert (row["count"], row["share"], row["isolated"], row["chart"], row["in_min"]) == (0, None, 0, None, None)


def times_of(db: snapdb.Database, type_: str, *values: str) -> dict[str, Any]:
    """The summary of an edge type with these event times."""
    rows = ", ".join(f"(1, 1, {value})" for value in values)
    db.script(f"""
        CREATE TABLE n AS SELECT 1 AS id; CREATE TABLE e (a INTEGER, b INTEGER, t {type_}); INSERT INTO e VALUES {rows};
        CREATE PROPERTY GRAPH g VERTEX TABLES (n KEY (id)) EDGE TABLES (e SOURCE KEY (a) REFERENCES n (id)
          DESTINATION KEY (b) REFERENCES n (id) EVENT TIME (t) NULLS STATIC);
        CREATE SNAPSHOT s OF g;
    """)
    return summary(db, "s")["e"]


def test_times_that_are_all_null_are_no_times(db: snapdb.Database) -> None:
    row = times_of(db, "TIMESTAMP", "NULL", "NULL")
    assert (row["from_time"], row["to_time"], row["growth"], row["chart"]) == (None, None, None, "▁▁█")


def test_times_as_far_apart_as_numbers_reach_fall_into_bins(db: snapdb.Database) -> None:
    row = times_of(db, "BIGINT", f"{1 - 2**63}", "-1", "0", f"{MOST - 1}")
    assert (row["from_time"], row["to_time"]) == (str(1 - 2**63), str(MOST - 1))
    assert row["growth"] == [1, *[0] * 8, 2, *[0] * 9, 1]
    assert row["chart"] == "▅▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▅"


def test_dates_are_told_as_dates_are_said(db: snapdb.Database) -> None:
    row = times_of(db, "DATE", "'2026-01-01'", "'2026-01-20'", "NULL")
    assert (row["from_time"], row["to_time"]) == ("2026-01-01 00:00:00", "2026-01-20 00:00:00")
    assert sum(row["growth"]) == 2
    assert len(row["growth"]) == 20


def test_a_single_moment_is_one_bin(db: snapdb.Database) -> None:
    row = times_of(db, "INTEGER", "7", "7", "7")
    assert (row["growth"], row["chart"], row["from_time"], row["to_time"]) == ([3], "█", "7", "7")


def test_features_that_are_sparse_or_change_in_time_are_told_too(db: snapdb.Database) -> None:
    db.script("""
        CREATE TABLE n AS SELECT i AS id, [i % 3] AS at, [i::FLOAT] AS value FROM range(4) r(i);
        CREATE TABLE h AS SELECT * FROM (VALUES (0, 5, 1.0), (0, 9, 3.0), (1, 20, 8.0)) v(id, t, level);
        CREATE PROPERTY GRAPH g VERTEX TABLES (n KEY (id) FEATURES ((at, value) AS words SPARSE,
          level AS level FROM h KEY (id) EVENT TIME (t) DEFAULT 0));
        CREATE SNAPSHOT s OF g;
    """)
    words, level = summary(db, "s")["n"]["features"].split("; ")
    assert words == "words sparse [3] float32: mean 0.5, std 0.9574, 0 missing"
    assert level == "level [1] float32: mean 2.75, std 3.269, 2 missing"


def test_numbers_too_great_to_be_squared_are_no_crash(db: snapdb.Database) -> None:
    db.script("""
        CREATE TABLE n AS SELECT * FROM (VALUES (1, 1e308::DOUBLE), (2, -1e308::DOUBLE), (3, 'nan'::DOUBLE)) v(id, z);
        CREATE PROPERTY GRAPH g VERTEX TABLES (n KEY (id) FEATURES (z AS z TYPE float64 DEFAULT 0));
        CREATE SNAPSHOT s OF g;
    """)
    assert summary(db, "s")["n"]["features"] == "z [1] float64: mean 0, std inf, 1 missing"


def test_a_summary_may_stand_in_a_transaction_and_needs_no_right_to_write(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "d") as db:
        town(db, 1)
        outside = db.execute("SUMMARIZE SNAPSHOT now").fetchall()
        db.execute("BEGIN")
        db.execute("DELETE FROM knows")
        assert db.execute("SUMMARIZE SNAPSHOT now").fetchall() == outside
        db.execute("ROLLBACK")
    with snapdb.connect(tmp_path / "d", read_only=True) as db:
        assert db.execute("SUMMARIZE SNAPSHOT now").fetchall() == outside


def test_an_edge_that_begins_nowhere_is_damage_and_no_crash(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "d") as db:
        town(db, 2)
        place = next((tmp_path / "d" / "topology").rglob("indices.npy"))
        data = bytearray(place.read_bytes())
        data[-4:] = b"\xff\xff\xff\x7f"
        place.chmod(0o644)
        place.write_bytes(data)
        with refused("damaged-file"):
            summary(db, "now")


def test_a_summary_stops_when_it_is_told_to(db: snapdb.Database) -> None:
    town(db, 3)
    seen: list[str] = []

    def stop(what: str, share: float | None) -> None:
        seen.append(what)
        if share is not None:
            db.interrupt()

    db.progress = stop
    with refused("interrupted"):
        db.execute("SUMMARIZE SNAPSHOT now")
    db.progress = None
    assert any(what.startswith("summarising") for what in seen)
    check(db, "now")


def test_a_misspelt_snapshot_is_named(db: snapdb.Database) -> None:
    town(db, 3, ("upto",))
    with refused("unknown-snapshot", '"uptoo"', '"upto"', at="uptoo"):
        db.execute("SUMMARIZE SNAPSHOT uptoo")
