"""EXPLAIN and DRY RUN tell what a snapshot would take, and are right about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import snapdb
from tests.support.refreshing import start
from tests.support.refusals import refused


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with start(tmp_path_factory.mktemp("explain") / "db", "SKIP") as db:
        db.execute("INSERT INTO bought VALUES ('nobody', 7, 3, 1, 1)")
        yield db


def explained(db: snapdb.Database, statement: str) -> dict[str, Any]:
    (text,) = db.execute(f"EXPLAIN ANALYZE (FORMAT json) {statement}").fetchone()
    plan: dict[str, Any] = json.loads(text)["plan"]
    return plan


def steps(root: dict[str, Any]) -> list[dict[str, Any]]:
    """A step of a plan and all below it."""
    return [root, *(below for child in root["children"] for below in steps(child))]


@pytest.mark.parametrize(
    "asked",
    [
        "CREATE SNAPSHOT a OF shop",
        "CREATE SNAPSHOT b OF shop FOR EVENT_TIME AS OF 300 ELEMENTS (bought)",
        "CREATE SNAPSHOT c OF shop FOR EVENT_TIME FROM 10 TO 20 ELEMENTS (bought)",
        "CREATE SNAPSHOT d OF shop WITH (layout = 'materialized') WHERE customer.y > 1",
        "CREATE SNAPSHOT e OF shop WITH (layout = 'bitmap')",
        "REFRESH SNAPSHOT whole FULL",
    ],
)
def test_the_predicted_rows_and_forms_are_those_that_come(shop: snapdb.Database, asked: str) -> None:
    tree = explained(shop, asked)
    assert tree["estimates"]["rows"] == tree["actual"]["rows"]
    for child in tree["children"]:
        assert child["estimates"]["rows"] == child["actual"]["rows"], child
        if child["operator"] == "Edges":
            assert f" as {child['actual']['form']}:" in child["detail"]
            assert child["estimates"]["bytes"] == child["actual"]["bytes"]


@pytest.mark.parametrize("edge", ["known as friend", "a of b", "follows as full: rows", "likes => [2], form"])
def test_names_that_read_like_the_plan_are_only_names(tmp_path: Path, edge: str) -> None:
    with snapdb.connect(tmp_path / "db") as db:
        db.script(f"""CREATE TABLE p AS SELECT range AS id, 1.5 AS x FROM range(4);
            CREATE TABLE k AS SELECT range AS a, 3 - range AS b FROM range(4);
            CREATE PROPERTY GRAPH g VERTEX TABLES (p AS "{edge}s" KEY (id) FEATURES (x))
              EDGE TABLES (k AS "{edge}" SOURCE KEY (a) REFERENCES "{edge}s" DESTINATION KEY (b) REFERENCES "{edge}s");
        """)
        made = [explained(db, "CREATE SNAPSHOT s OF g"), explained(db, "REFRESH SNAPSHOT s FULL")]
        for tree in made:
            vertices, edges = tree["children"]
            assert (vertices["actual"]["rows"], edges["actual"]["rows"]) == (4, 4)
            assert edges["actual"]["form"] == "full"
            assert edges["children"][0]["actual"]["work"] == "built"
        drawn = explained(db, f'SAMPLE FROM s SEEDS (SELECT id FROM p) AS "{edge}s" FANOUT ("{edge}" => [2])')
        (expand,) = [step for step in steps(drawn) if step["operator"] == "Expand"]
        assert expand["actual"]["rows"] == 4


def test_a_file_is_measured_where_copy_has_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~nobody-has-this-name").mkdir()
    with snapdb.connect(tmp_path / "db") as db:
        root = explained(db, "COPY (SELECT 1 AS a) TO '~nobody-has-this-name/a.csv'")
    assert root["actual"]["bytes"] == (tmp_path / "~nobody-has-this-name" / "a.csv").stat().st_size


def test_explain_alone_changes_nothing(shop: snapdb.Database) -> None:
    before = {p for p in shop.path.rglob("*") if "catalog" not in p.name}
    lines = shop.execute("EXPLAIN CREATE SNAPSHOT z OF shop FOR EVENT_TIME AS OF 9").fetchall()
    assert any(line.startswith("  └ CreateSnapshot z of shop at version ") for (line,) in lines)
    assert {p for p in shop.path.rglob("*") if "catalog" not in p.name} == before
    assert not shop.execute("SHOW SNAPSHOTS LIKE 'z'").fetchall()


def test_a_dry_run_refuses_what_the_refresh_would(tmp_path: Path) -> None:
    with start(tmp_path / "db") as db:
        db.execute("INSERT INTO bought VALUES ('nobody', 7, 3, 1, 1)")
        for statement in ("REFRESH SNAPSHOT whole DRY RUN", "REFRESH SNAPSHOT whole"):
            with refused("dangling-edges"):
                db.execute(statement)
        with refused("explained-twice", at="REFRESH SNAPSHOT whole DRY RUN"):
            db.execute("EXPLAIN REFRESH SNAPSHOT whole DRY RUN")


def test_a_layout_that_cannot_hold_the_snapshot_is_refused_by_counts(tmp_path: Path) -> None:
    with start(tmp_path / "db") as db:
        with refused("layout-does-not-fit", "'full'"):
            db.execute("CREATE SNAPSHOT f OF shop WITH (layout = 'full') FOR EVENT_TIME AS OF 100")
        with refused("layout-does-not-fit", "'ends'"):
            db.execute("CREATE SNAPSHOT f OF shop WITH (layout = 'ends') FOR EVENT_TIME FROM 100 TO 300")
        db.execute("CREATE SNAPSHOT f OF shop WITH (layout = 'full') ELEMENTS (bought) FOR EVENT_TIME AS OF 100000")
        db.execute("INSERT INTO bought VALUES ('c1', 7, 200000, 1, 1)")
        with refused("layout-does-not-fit", "WITH", "CREATE OR REPLACE SNAPSHOT", at="REFRESH SNAPSHOT f"):
            db.execute("REFRESH SNAPSHOT f")


TOLD = {
    "SELECT count(*) FROM bought WHERE qty > 1": "Query",
    "VALUES (1), (2)": "Query",
    "CREATE TABLE copied AS SELECT * FROM bought": "CreateTable",
    "INSERT INTO customer SELECT 'x' || range, [0, 0]::FLOAT[2], 1, 1 FROM range(3)": "Insert",
    "DELETE FROM bought WHERE ts < 30": "Delete",
    "UPDATE bought SET qty = qty + 1 WHERE ts < 50": "Update",
    "ALTER TABLE bought ADD COLUMN note VARCHAR": "AlterTable",
    "CREATE TAG now": "CreateTag",
    "SHOW TABLES": "Show",
    "DESCRIBE TABLE bought": "Describe",
    "SUMMARIZE SNAPSHOT whole": "Summarize",
    "DIFF SNAPSHOT whole WITH whole": "DiffSnapshot",
    "DIFF GRAPH shop FROM VERSION 4": "DiffGraph",
    "DROP TABLE IF EXISTS nothing": "Nothing",
    "DROP SNAPSHOT whole": "Drop",
    "VACUUM": "Vacuum",
    "CHECK DATABASE": "Check",
    "AUDIT SAMPLE FROM whole SEEDS (SELECT cid FROM customer) AS customer FANOUT (bought OUT => [2])": "Audit",
}
"""Statements and the operator that does each."""


@pytest.mark.parametrize("statement", TOLD)
def test_every_statement_is_told_of_and_done_only_by_analyze(tmp_path: Path, statement: str) -> None:
    with start(tmp_path / "db", "SKIP") as db:
        before = db.execute("SHOW VERSIONS").rowcount
        (text,) = db.execute(f"EXPLAIN (FORMAT json) {statement}").fetchone()
        found = json.loads(text)
        assert list(found) == ["statement", "bound", "rules", "plan"]
        assert (found["statement"], found["plan"]["operator"]) == (statement, TOLD[statement])
        assert set(found["plan"]["estimates"]) == {"rows", "bytes", "seconds"}
        assert set(found["bound"]) == {"operator", "detail", "children"}
        assert found["plan"]["actual"] == {}
        assert db.execute("SHOW VERSIONS").rowcount == before
        lines = [line for (line,) in db.execute(f"EXPLAIN {statement}").fetchall()]
        assert lines[0] == "Bound"
        assert "Plan" in lines
        done = explained(db, statement)["actual"]
        assert {"rows", "bytes", "seconds"} <= set(done)
        changing = ("CREATE TABLE", "INSERT", "DELETE", "UPDATE", "ALTER")
        assert db.execute("SHOW VERSIONS").rowcount == before + statement.startswith(changing)


def test_analyze_tells_the_rows_and_bytes_that_were_written(tmp_path: Path) -> None:
    with start(tmp_path / "db") as db:
        files = set((db.path / "tables").rglob("*.parquet"))
        done = explained(db, "INSERT INTO customer SELECT 'x' || range, [0, 0]::FLOAT[2], 1, 1 FROM range(30)")[
            "actual"
        ]
        (new,) = set((db.path / "tables").rglob("*.parquet")) - files
        assert (done["rows"], done["bytes"]) == (30, new.stat().st_size)
        assert db.execute("SELECT count(*) FROM customer WHERE cid LIKE 'x%'").fetchone() == (30,)


def test_a_transaction_may_be_explained(tmp_path: Path) -> None:
    with start(tmp_path / "db") as db:
        (rows,) = db.execute("SELECT count(*) FROM bought").fetchone()
        assert ("  └ Begin",) in db.execute("EXPLAIN BEGIN").fetchall()
        assert db.transaction_state == "idle"
        db.execute("BEGIN")
        assert explained(db, "DELETE FROM bought WHERE true")["actual"]["rows"] == rows
        with refused("not-in-transaction", at="EXPLAIN ANALYZE CREATE SNAPSHOT x OF shop"):
            db.execute("EXPLAIN ANALYZE CREATE SNAPSHOT x OF shop")
        db.execute("ROLLBACK")
        assert db.execute("SELECT count(*) FROM bought").fetchone() == (rows,)


def test_a_reader_may_explain_and_not_analyze_what_writes(tmp_path: Path) -> None:
    start(tmp_path / "db").close()
    with snapdb.connect(tmp_path / "db", read_only=True) as db:
        assert db.execute("EXPLAIN DELETE FROM bought WHERE ts < 30").rowcount > 3
        with refused("read-only", at="EXPLAIN ANALYZE DELETE FROM bought WHERE ts < 30"):
            db.execute("EXPLAIN ANALYZE DELETE FROM bought WHERE ts < 30")


def test_the_plan_before_and_after_the_rules_is_told(shop: snapdb.Database) -> None:
    text = (
        "CREATE SNAPSHOT early OF shop ELEMENTS (bought) WHERE bought.ts < 100 AND bought.ts < 100 AND bought.qty > 0"
    )
    (answer,) = shop.execute(f"EXPLAIN (FORMAT json) {text}").fetchone()
    found = json.loads(answer)
    assert found["rules"] == ["distinct_filters", "push_filters", "choose_form"]
    (edges,) = [step["detail"] for step in found["bound"]["children"] if step["operator"] == "Edges"]
    assert edges == "bought as rows of its own, where (bought.ts < 100) and (bought.ts < 100) and (bought.qty > 0)"
