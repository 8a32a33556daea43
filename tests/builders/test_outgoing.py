"""Out-neighbours of large topologies lie on the disk: made on first need, shared, and the same as those in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

import snapdb
from snapdb.builders import outgoing
from tests.support.refreshing import fingerprint, start


def sorted_by_source(db: snapdb.Database) -> set[str]:
    """The topologies that are rows of sources, by their place."""
    paths = {str(p.parent.relative_to(db.path)) for p in db.path.glob("topology/*/*/indptr.npy")}
    rows = db.execute("VACUUM RETAIN INTERVAL '0 seconds' DRY RUN").fetchall()
    return paths - {row[1] for row in rows}


def test_out_neighbours_on_the_disk_are_those_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with start(tmp_path / "db") as db:
        db.execute("CREATE SNAPSHOT early OF shop FOR EVENT_TIME AS OF 250")
        db.execute("INSERT INTO bought SELECT 'c' || i, 7 * i, 100 + i, 2, 5 FROM range(9) t(i)")
        db.execute("REFRESH SNAPSHOT whole")
        names = ("whole", "early", "week", "picked")
        before, made = {name: fingerprint(db, name) for name in names}, sorted_by_source(db)
        monkeypatch.setattr(outgoing, "_WORTH", 1)
        assert {name: fingerprint(db, name) for name in names} == before
        # both edge types of `whole`, and the one of `early` that holds moments
        assert len(sorted_by_source(db) - made) == 3
        db.execute("VACUUM RETAIN INTERVAL '0 seconds'")
        assert len(sorted_by_source(db)) >= 5
        assert db.execute("CHECK DATABASE").fetchall() == []


def test_out_neighbours_go_with_the_topology_they_are_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "_WORTH", 1)
    with start(tmp_path / "db") as db:
        fingerprint(db, "whole")
        db.script("DROP SNAPSHOT whole; DROP SNAPSHOT week; DROP SNAPSHOT picked; VACUUM RETAIN INTERVAL '0 seconds'")
        assert list(db.path.glob("topology/*/*")) == []


def test_a_database_opened_for_reading_sorts_them_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with start(tmp_path / "db") as db:
        before = fingerprint(db, "whole")
    monkeypatch.setattr(outgoing, "_WORTH", 1)
    with snapdb.connect(tmp_path / "db", read_only=True) as db:
        assert fingerprint(db, "whole") == before
