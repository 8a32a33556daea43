"""`snapdb doctor`: facts for a bug report, also where packages or the database are broken."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import snapdb
from snapdb.diagnosis import diagnose
from snapdb.errors import FormatError
from snapdb_cli.main import main


def doctor(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["doctor", *map(str, words)])


def values(result: Result) -> dict[str, tuple[str, str]]:
    """The value and status of each item of a report in JSON."""
    return {row["item"]: (row["value"], row["status"]) for row in json.loads(result.stdout)}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with snapdb.connect(tmp_path / "shop.snapdb") as db:
        db.execute("CREATE TABLE item AS SELECT 1 AS id")
    return tmp_path / "shop.snapdb"


def test_a_report_has_versions_devices_the_kernel_cache_and_the_database(shop: Path) -> None:
    result = doctor(shop, "--json")
    assert result.exit_code == 0, result.stderr
    report = values(result)
    assert report["snapdb"] == (snapdb.__version__, "ok")
    assert {"torch", "numba", "CPUs", "memory", "huge pages", "cache", "file system"} <= report.keys()
    assert report["tables"] == ("1", "ok")
    assert report["head version"] == ("1", "ok")
    assert report["journal"] == ("wal", "ok")
    assert report["running statements"] == ("none", "ok")


def test_packages_that_fail_to_import_are_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "numba"):
        monkeypatch.setitem(sys.modules, name, None)
    findings = {finding.item: finding for finding in diagnose()}
    assert findings["torch"].status == findings["numba"].status == "problem"
    assert findings["torch"].advice is not None


def test_an_older_format_is_a_problem_with_its_remedy(shop: Path) -> None:
    with closing(sqlite3.connect(shop / "catalog.sqlite")) as catalog:
        catalog.execute("PRAGMA user_version = 1")
    with pytest.raises(FormatError):
        snapdb.connect(shop, read_only=True)
    result = doctor(shop)
    assert result.exit_code == 1
    assert f"snapdb upgrade {shop}" in result.stderr


def test_a_missing_database_is_a_problem_and_is_not_created(tmp_path: Path) -> None:
    result = doctor(tmp_path / "none.snapdb", "--format", "json")
    assert result.exit_code == 1
    assert values(result)["state"] == ("cannot be read", "problem")
    assert not (tmp_path / "none.snapdb").exists()
