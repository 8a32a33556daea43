"""DIFF SNAPSHOT and DIFF GRAPH against brute force: the sets of rows that SQL sees of either side."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import snapdb
from snapdb import Database
from snapdb.catalog import tables_at
from snapdb.execute.diff.rows import ElementRows
from tests.support.inside import catalog_db_of, engine_of
from tests.support.inside.catalog import snapshot_rows
from tests.support.inside.execute import _quantile_bins, degree_bins, difference, stability
from tests.support.thoroughness import SOAK

SETUP = """
CREATE TABLE person AS SELECT range::INTEGER AS id, 0 AS v, range % 7 AS team FROM range(40);
CREATE TABLE page AS SELECT 'p' || range AS id, 0 AS v, (range * 3)::BIGINT AS born FROM range(12);
CREATE TABLE likes AS SELECT (hash(range) % 40)::INTEGER AS a, (hash(range, 1) % 40)::INTEGER AS b, range % 50 AS t,
                             0 AS v FROM range(150);
CREATE TABLE reads AS SELECT (hash(range) % 40)::INTEGER AS a, 'p' || hash(range, 2) % 12 AS b,
                             (hash(range, 3) % 50)::BIGINT AS since,
                             CASE WHEN range % 5 > 0 THEN (hash(range, 3) % 50 + hash(range, 4) % 20)::BIGINT END AS til
                             FROM range(120);
CREATE TABLE owns AS SELECT (hash(range) % 45)::INTEGER AS a, 'p' || hash(range, 2) % 14 AS b, 0 AS v FROM range(60);
UPDATE reads SET since = NULL WHERE since % 9 = 4;
CREATE PROPERTY GRAPH web
  VERTEX TABLES (person KEY (id) FEATURES (team AS x DEFAULT 0), page KEY (id) EVENT TIME (born))
  EDGE TABLES (
    likes SOURCE KEY (a) REFERENCES person (id) DESTINATION KEY (b) REFERENCES person (id) EVENT TIME (t),
    reads SOURCE KEY (a) REFERENCES person (id) DESTINATION KEY (b) REFERENCES page (id)
      EVENT TIME (since, til) NULLS STATIC,
    owns SOURCE KEY (a) REFERENCES person (id) DESTINATION KEY (b) REFERENCES page (id) ON DANGLING SKIP);
"""

Seen = dict[str, dict[Any, tuple[Any, ...]]]
"""The rows of a snapshot, by the element and what tells them apart."""
ELEMENTS = {"person": "id", "page": "id", "likes": "e_id", "reads": "e_id", "owns": "e_id"}

SUMMARY = (
    "element, kind, added, removed, changed, before, after, degree_before, degree_after, degree_psi, feature, "
    "mean_before, mean_after, std_before, std_after, psi"
)


def change(rng: random.Random) -> str:
    """A statement that makes another version; values only grow, so that a row that was written anew is another."""
    n, r = rng.randrange(1, 9), rng.randrange(5)
    return rng.choice(
        [
            f"INSERT INTO likes SELECT (hash(range, {n}) % 40)::INT, (hash(range) % 40)::INT, {r} * 11, 0 "
            f"FROM range({n})",
            f"INSERT INTO reads SELECT {n}, 'p{n}', {r * 9}, {r * 9 + n} FROM range({n})",
            f"INSERT INTO person SELECT (SELECT max(id) FROM person) + 1 + range, 0, {r} FROM range({n})",
            f"DELETE FROM likes WHERE (t + a) % 17 = {n}",
            f"DELETE FROM owns WHERE a % 9 = {n}",
            f"UPDATE likes SET v = v + 1, t = t + 1 WHERE b % 13 = {n}",
            f"UPDATE person SET v = v + 1, team = team + 1 WHERE id % 6 = {r}",
            f"UPDATE page SET v = v + 1, born = born + 4 WHERE v % 5 = {r} AND id <> 'p{n}'",
            f"DELETE FROM reads WHERE a % 11 = {n}",
        ]
    )


def window(rng: random.Random) -> str:
    low, high = sorted(rng.sample(range(60), 2))
    return rng.choice(
        [
            "",
            f"FOR EVENT_TIME AS OF {high}",
            f"FOR EVENT_TIME AS OF {low}",
            f"FOR EVENT_TIME FROM {low} TO {high}",
            f"FOR EVENT_TIME BETWEEN {low} AND {high}",
        ]
    )


FILTERS = ["", "", "WHERE person.team < 4", "WHERE likes.t % 3 > 0", "WHERE person.team < 4 AND reads.a > 7"]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, dict[str, Seen]]]:
    """A graph after a row of changes, with snapshots of many moments, windows and filters; their rows, by name."""
    rng = random.Random(11)
    names = []
    with snapdb.connect(tmp_path_factory.mktemp("web") / "web.snapdb") as db:
        db.script(SETUP)
        for number in range(9):
            for _ in range(rng.randrange(2)):
                db.execute(change(rng))
            names.append(f"s{number}")
            where = rng.choice(FILTERS)
            db.execute(f"CREATE SNAPSHOT s{number} OF web {window(rng)} {where}")
        yield db, {name: {element: seen(db, name, element) for element in ELEMENTS} for name in names}


def seen(db: Database, snapshot: str, element: str) -> dict[Any, tuple[Any, ...]]:
    """The rows of an element by what tells them apart."""
    result = db.execute(f"SELECT * FROM {snapshot}.{element}")
    at = result.columns.index(ELEMENTS[element])
    return {row[at]: row for row in result.fetchall()}


def brute(before: dict[Any, Any], after: dict[Any, Any]) -> tuple[int, int, int]:
    """Added, removed and changed."""
    common = before.keys() & after.keys()
    changed = sum(before[key] != after[key] for key in common)
    return len(after) - len(common), len(before) - len(common), changed


def test_a_difference_of_snapshots_is_that_of_the_rows_that_sql_sees(web: tuple[Database, dict[str, Seen]]) -> None:
    """`make soak` compares each snapshot with each other, and other test runs with every third."""
    db, views = web
    for number, old in enumerate(views):
        for new in views if SOAK else list(views)[number % 3 :: 3]:
            found = {row[0]: row[1:7] for row in db.execute(f"DIFF SNAPSHOT {new} WITH {old}").fetchall()}
            for element, key in ELEMENTS.items():
                before, after = views[old][element], views[new][element]
                kind = "vertex" if key == "id" else "edge"
                expected = (kind, *brute(before, after), len(before), len(after))
                assert found[element] == expected, (old, new, element)


def test_the_rows_of_a_difference_are_those_that_came_and_went(web: tuple[Database, dict[str, Seen]]) -> None:
    db, views = web
    names = list(views)
    for old, new in zip(names, names[1:] + names[:1], strict=True):
        result = db.execute(f"DIFF SNAPSHOT {new} WITH {old} ROWS")
        assert result.columns == ["change", "element", "id", "v", "team", "born", "a", "b", "t", "e_id", "since", "til"]
        rows = result.arrow().to_pylist()
        for element, key in ELEMENTS.items():
            before, after = views[old][element], views[new][element]
            for sign, mine, other in (("-", before, after), ("+", after, before)):
                expected = {str(k) for k, row in mine.items() if other.get(k) != row}
                got = [str(row[key]) for row in rows if row["element"] == element and row["change"] == sign]
                assert sorted(got) == sorted(expected), (old, new, element, sign)


def test_a_difference_of_a_graph_is_that_of_its_tables(web: tuple[Database, dict[str, Seen]]) -> None:
    db, _ = web
    last = db.execute("SHOW VERSIONS").fetchall()[-1][0]
    first = 6
    for old, new in ((first, last), (last, first), (last - 1, last), (last, last)):
        db.execute(f"CREATE OR REPLACE SNAPSHOT old OF web AT (VERSION => {old})")
        db.execute(f"CREATE OR REPLACE SNAPSHOT new OF web AT (VERSION => {new})")
        whole = db.execute(f"DIFF PROPERTY GRAPH web FROM VERSION {old} TO VERSION {new}")
        assert ", ".join(whole.columns) == SUMMARY
        pinned = db.execute("DIFF SNAPSHOT new WITH old")
        for one, other in zip(whole.fetchall(), pinned.fetchall(), strict=True):
            assert one == pytest.approx(other, nan_ok=True)
        for detail in ("ROWS", "FEATURES"):
            one = db.execute(f"DIFF GRAPH web FROM VERSION {old} TO VERSION {new} {detail}").fetchall()
            assert one == db.execute(f"DIFF SNAPSHOT new WITH old {detail}").fetchall()


def test_an_element_of_one_side_or_of_another_table_differs_as_a_whole(db: Database) -> None:
    db.script(SETUP)
    db.script("""CREATE SNAPSHOT old OF web ELEMENTS (likes);
        CREATE OR REPLACE TABLE likes AS SELECT a, b, t, v FROM likes LIMIT 10; CREATE SNAPSHOT new OF web""")
    found = {row[0]: row[2:7] for row in db.execute("DIFF SNAPSHOT new WITH old").fetchall()}
    assert found["likes"] == (10, 150, 0, 150, 10)
    assert found["person"] == (0, 0, 0, 40, 40)
    assert found["page"] == (12, 0, 0, 0, 12)
    gone = {row[0]: row[2:7] for row in db.execute("DIFF SNAPSHOT old WITH new").fetchall()}
    assert gone["page"] == (0, 12, 0, 12, 0)
    assert db.execute("DIFF SNAPSHOT old WITH old ROWS").fetchall() == []
    assert "e_id" in db.execute("DIFF SNAPSHOT old WITH old ROWS").columns


def test_degrees_are_told_by_their_mean_and_their_distribution(db: Database) -> None:
    db.script("""CREATE TABLE n AS SELECT range::INT AS id FROM range(10);
        CREATE TABLE e AS SELECT 0 AS a, (range % 5)::INT AS b, range AS t FROM range(40);
        CREATE PROPERTY GRAPH g VERTEX TABLES (n KEY (id))
          EDGE TABLES (e SOURCE KEY (a) REFERENCES n DESTINATION KEY (b) REFERENCES n EVENT TIME (t));
        CREATE SNAPSHOT early OF g FOR EVENT_TIME AS OF 9; CREATE SNAPSHOT late OF g""")
    (row,) = [r for r in db.execute("DIFF SNAPSHOT late WITH early").fetchall() if r[0] == "e"]
    few = np.bincount(degree_bins(np.array([2] * 5 + [0] * 5)), minlength=5)
    many = np.bincount(degree_bins(np.array([8] * 5 + [0] * 5)), minlength=5)
    assert row[2:10] == (30, 0, 0, 10, 40, 1.0, 4.0, stability(few, many))
    assert row[9] > 1


def test_features_are_told_by_component_and_the_summary_names_the_one_that_drifted_most(db: Database) -> None:
    db.script("""CREATE TABLE n AS SELECT range::INT AS id, [range % 10, range]::FLOAT[2] AS emb, 1.5 AS same
                 FROM range(1000);
        CREATE TABLE e (a INT, b INT);
        CREATE PROPERTY GRAPH g VERTEX TABLES (n KEY (id) FEATURES (emb AS x, same AS flat))
          EDGE TABLES (e SOURCE KEY (a) REFERENCES n DESTINATION KEY (b) REFERENCES n);
        CREATE SNAPSHOT old OF g;
        UPDATE n SET emb = [emb[1], emb[2] + 500]::FLOAT[2] WHERE id % 2 = 0; CREATE SNAPSHOT new OF g""")
    rows = db.execute("DIFF SNAPSHOT new WITH old FEATURES").fetchall()
    assert [row[:3] for row in rows] == [("n", "x", 0), ("n", "x", 1), ("n", "flat", 0)]
    then, now = np.arange(1000.0), np.arange(1000.0) + 500 * (np.arange(1000) % 2 == 0)
    cuts = _quantile_bins(then)
    psi = stability(*(np.bincount(np.searchsorted(cuts, v, side="right"), minlength=10) for v in (then, now)))
    assert rows[1][3:] == pytest.approx((then.mean(), now.mean(), then.std(), now.std(), psi))
    assert rows[0][7] == 0
    assert rows[2][3:] == (1.5, 1.5, 0.0, 0.0, 0.0)
    (summary,) = [r for r in db.execute("DIFF SNAPSHOT new WITH old").fetchall() if r[0] == "n"]
    assert (summary[2:7], summary[10], summary[15]) == ((0, 0, 500, 1000, 1000), "x[1]", pytest.approx(psi))
    (unmoved,) = [r for r in db.execute("DIFF SNAPSHOT old WITH old").fetchall() if r[0] == "n"]
    assert unmoved[10:] == (None, None, None, None, None, 0.0)


def test_columns_of_one_name_and_other_types_become_text(db: Database) -> None:
    db.script("""CREATE TABLE n (id INT, w INT); INSERT INTO n VALUES (1, 7);
        CREATE TABLE e (a INT, b INT, w VARCHAR); INSERT INTO e VALUES (1, 1, 'heavy');
        CREATE PROPERTY GRAPH g VERTEX TABLES (n KEY (id))
          EDGE TABLES (e SOURCE KEY (a) REFERENCES n DESTINATION KEY (b) REFERENCES n);
        CREATE SNAPSHOT old OF g; INSERT INTO n VALUES (2, 8); INSERT INTO e VALUES (2, 1, 'light');
        CREATE SNAPSHOT new OF g""")
    result = db.execute("DIFF SNAPSHOT new WITH old ROWS")
    assert result.columns == ["change", "element", "id", "w", "a", "b", "e_id"]
    assert result.fetchall() == [("+", "n", 2, "8", None, None, None), ("+", "e", None, "light", 2, 1, 1)]


def test_a_filter_on_a_column_that_changed_its_meaning_is_read_again(db: Database) -> None:
    db.script("""CREATE TABLE n AS SELECT range::INT AS id, range AS w FROM range(6);
        CREATE TABLE e (a INT, b INT);
        CREATE PROPERTY GRAPH g VERTEX TABLES (n KEY (id))
          EDGE TABLES (e SOURCE KEY (a) REFERENCES n DESTINATION KEY (b) REFERENCES n);
        CREATE SNAPSHOT old OF g WHERE n.w > 3;
        ALTER TABLE n RENAME COLUMN w TO gone; ALTER TABLE n ADD COLUMN w BIGINT DEFAULT 9;
        CREATE SNAPSHOT new OF g WHERE n.w > 3""")
    found = {row[0]: row[2:7] for row in db.execute("DIFF SNAPSHOT new WITH old").fetchall()}
    assert found["n"] == (4, 0, 0, 2, 6)


def test_only_files_and_times_that_differ_are_looked_at(db: Database) -> None:
    db.script(SETUP)
    db.script("""CREATE SNAPSHOT early OF web FOR EVENT_TIME AS OF 10;
        CREATE SNAPSHOT late OF web FOR EVENT_TIME AS OF 20;
        CREATE SNAPSHOT old OF web; INSERT INTO likes VALUES (1, 2, 3, 0); CREATE SNAPSHOT new OF web""")
    catalog = engine_of(db).bind_context.catalog

    def rows(name: str, element: str) -> ElementRows:
        snapshot = catalog.snapshot(name)
        return snapshot_rows(snapshot, tables_at(catalog_db_of(db), snapshot.version), db.path)[element]

    with db._session.store.sql_engine.session() as session:
        files = [str(db.path / s.path) for s in rows("new", "likes").table.segments]
        found = difference(session, rows("old", "likes"), rows("new", "likes"))
        assert found.removed == ()
        assert [[path in part for path in files] for part in found.added] == [[False, True]]
        assert difference(session, rows("old", "reads"), rows("new", "reads")).added == ()
        for element in ELEMENTS.keys() - {"reads"}:  # AS OF holds what an earlier one holds, but for what has ended
            assert difference(session, rows("early", element), rows("late", element)).removed == ()


def test_sparse_features_and_those_with_a_history_drift_too(db: Database) -> None:
    db.script("""CREATE TABLE n AS SELECT range::INT AS id, [range % 4] AS idx, [range::DOUBLE] AS val FROM range(20);
        CREATE TABLE rated AS SELECT range::INT AS id, 10 AS t, range::DOUBLE AS score FROM range(20);
        CREATE TABLE e (a INT, b INT, t BIGINT);
        CREATE PROPERTY GRAPH g VERTEX TABLES (n KEY (id) FEATURES ((idx, val) AS bag SPARSE [6],
            score AS score FROM rated KEY (id) EVENT TIME (t) DEFAULT -1))
          EDGE TABLES (e SOURCE KEY (a) REFERENCES n DESTINATION KEY (b) REFERENCES n EVENT TIME (t));
        CREATE SNAPSHOT first OF g FOR EVENT_TIME AS OF 15; CREATE SNAPSHOT old OF g;
        INSERT INTO rated SELECT id, 20, score * 2 FROM rated; UPDATE n SET val = [val[1] + 1] WHERE id % 4 = 2;
        CREATE SNAPSHOT new OF g; CREATE SNAPSHOT early OF g FOR EVENT_TIME AS OF 15""")
    rows = db.execute("DIFF SNAPSHOT new WITH old FEATURES").fetchall()
    assert rows == db.execute("DIFF GRAPH g FROM VERSION 3 FEATURES").fetchall()
    bags = [np.where(np.arange(20) % 4 == i, np.arange(20.0), 0) for i in range(6)]
    assert [row[1:3] for row in rows] == [("bag", i) for i in range(6)] + [("score", 0)]
    for i, row in enumerate(rows[:6]):
        moved = bags[i] + (np.arange(20) % 4 == 2) * (i == 2)
        assert row[3:] == pytest.approx((bags[i].mean(), moved.mean(), bags[i].std(), moved.std(), None))
    assert rows[6][3:5] == (9.5, 19.0)
    (score,) = [r for r in db.execute("DIFF SNAPSHOT early WITH first FEATURES").fetchall() if r[1] == "score"]
    assert score[3:5] == (9.5, 9.5)
