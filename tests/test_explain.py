"""EXPLAIN and DRY RUN tell what a snapshot would take, and are right about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import snapdb
from tests.test_refresh import start


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with start(tmp_path_factory.mktemp("explain") / "db", "SKIP") as db:
        db.execute("INSERT INTO bought VALUES ('nobody', 7, 3, 1, 1)")
        yield db


def explained(db: snapdb.Database, statement: str) -> dict[str, Any]:
    (text,) = db.execute(f"EXPLAIN ANALYZE (FORMAT json) {statement}").fetchone()
    plan: dict[str, Any] = json.loads(text)["plan"]
    return plan


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


def test_explain_alone_changes_nothing(shop: snapdb.Database) -> None:
    before = {p for p in shop.path.rglob("*") if "catalog" not in p.name}
    lines = shop.execute("EXPLAIN CREATE SNAPSHOT z OF shop FOR EVENT_TIME AS OF 9").fetchall()
    assert lines[0][0].startswith("CreateSnapshot z of shop at version ")
    assert {p for p in shop.path.rglob("*") if "catalog" not in p.name} == before
    assert not shop.execute("SHOW SNAPSHOTS LIKE 'z'").fetchall()


def test_a_dry_run_refuses_what_the_refresh_would(tmp_path: Path) -> None:
    with start(tmp_path / "db") as db:
        db.execute("INSERT INTO bought VALUES ('nobody', 7, 3, 1, 1)")
        for statement in ("REFRESH SNAPSHOT whole DRY RUN", "REFRESH SNAPSHOT whole"):
            with pytest.raises(snapdb.DataError, match="source that is not in customer"):
                db.execute(statement)
        with pytest.raises(snapdb.BindError, match="write one of them"):
            db.execute("EXPLAIN REFRESH SNAPSHOT whole DRY RUN")


def test_a_layout_that_cannot_hold_the_snapshot_is_refused_by_counts(tmp_path: Path) -> None:
    with start(tmp_path / "db") as db:
        with pytest.raises(snapdb.BindError, match=r"'full' holds every edge, and \d+ are left out"):
            db.execute("CREATE SNAPSHOT f OF shop WITH (layout = 'full') FOR EVENT_TIME AS OF 100")
        with pytest.raises(snapdb.BindError, match="'ends' leaves out only the latest"):
            db.execute("CREATE SNAPSHOT f OF shop WITH (layout = 'ends') FOR EVENT_TIME FROM 100 TO 300")
        db.execute("CREATE SNAPSHOT f OF shop WITH (layout = 'full') ELEMENTS (bought) FOR EVENT_TIME AS OF 100000")
        db.execute("INSERT INTO bought VALUES ('c1', 7, 200000, 1, 1)")
        with pytest.raises(snapdb.BindError, match=r"snapshot f was created WITH .*CREATE OR REPLACE SNAPSHOT f"):
            db.execute("REFRESH SNAPSHOT f")
