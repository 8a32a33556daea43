"""BACKUP DATABASE: whole, checked, and of one moment, whatever is written meanwhile."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

import snapdb
from snapdb import Database
from snapdb.storage.check import backup as storage_backup
from snapdb_cli.main import main
from tests.support.crashing import Crash, CrashingDisk
from tests.support.refusals import refused

pytestmark = pytest.mark.slow

GRAPH = """
CREATE TABLE person AS SELECT range AS id, [range]::FLOAT[1] AS f FROM range(20);
CREATE TABLE knows AS SELECT range % 20 AS a, (range * 7) % 20 AS b, range AS t FROM range(100);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id) FEATURES (f AS x))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t));
CREATE SNAPSHOT s OF g;
CREATE SAMPLER train AS SAMPLE FROM s SEEDS (SELECT id FROM person) AS person FANOUT (knows => [3, 3]) BATCH 5;
INSERT INTO knows VALUES (1, 2, 1000);
CREATE TAG done;
"""


@pytest.fixture
def db(tmp_path: Path) -> Database:
    database = snapdb.connect(tmp_path / "shop.snapdb")
    database.script(GRAPH)
    return database


def content(path: Path) -> dict[str, object]:
    with snapdb.connect(path, verify=True) as database:
        assert database.execute("CHECK DATABASE").fetchall() == []
        return {
            "versions": database.execute("SELECT version, message FROM snapdb.versions").fetchall(),
            "rows": database.execute("SELECT count(*), sum(t) FROM knows").fetchone(),
            "before": database.execute("SELECT count(*) FROM knows AT (VERSION => 2)").fetchone(),
            "batches": [batch.edge_index["person", "knows", "person"].tolist() for batch in database.stream("train")],
        }


@pytest.mark.parametrize("option", ["", " (COPY)"])
def test_a_backup_is_the_database_and_goes_on_by_itself(db: Database, tmp_path: Path, option: str) -> None:
    result = db.execute(f"BACKUP DATABASE TO '{tmp_path}/copy.snapdb'{option}")
    assert result.message is not None
    assert result.message.startswith("backup of version 3 at ")
    assert ("hard links" in result.message) is not bool(option)
    db.execute("DROP SNAPSHOT s CASCADE")
    db.execute("INSERT INTO knows VALUES (3, 4, 2000)")
    db.execute("VACUUM RETAIN INTERVAL '0 seconds'").fetchall()
    db.close()
    shutil.move(tmp_path / "shop.snapdb", tmp_path / "gone")
    copied = content(tmp_path / "copy.snapdb")
    assert [row[0] for row in copied["versions"]] == [1, 2, 3]  # type: ignore[attr-defined]
    assert copied["rows"] == (101, 5950)
    with snapdb.connect(tmp_path / "copy.snapdb") as copy:
        copy.execute("INSERT INTO knows VALUES (5, 6, 3000)")
        copy.execute("REFRESH SNAPSHOT s")
        assert copy.execute("CHECK DATABASE").fetchall() == []
    with snapdb.connect(tmp_path / "gone") as original:
        assert original.execute("SELECT max(t) FROM knows").fetchone() == (2000,)
        assert original.execute("CHECK DATABASE").fetchall() == []


def test_a_backup_is_of_one_moment_while_others_write(db: Database, tmp_path: Path) -> None:
    """Writers insert, refresh, drop and vacuum for as long as backups are made; each backup is whole."""
    done = threading.Event()

    def write() -> None:
        with snapdb.connect(db.path) as other:
            number = 0
            while not done.is_set():
                number += 1
                other.execute(f"INSERT INTO knows VALUES ({number % 20}, 0, {2000 + number})")
                other.execute("CREATE OR REPLACE SNAPSHOT moving OF g")
                if number % 3 == 0:
                    other.execute("VACUUM RETAIN INTERVAL '0 seconds'").fetchall()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(4):
            db.execute(f"BACKUP DATABASE TO '{tmp_path}/copy{number}'")
    finally:
        done.set()
        writer.join()
    for number in range(4):
        with snapdb.connect(tmp_path / f"copy{number}", verify=True) as copy:
            assert copy.execute("CHECK DATABASE").fetchall() == []
            newest = copy.execute("SELECT max(version) FROM snapdb.versions").fetchone()
            logged = (tmp_path / f"copy{number}" / "versions.log").read_text().splitlines()
            assert (len(logged),) == newest


def test_a_damaged_file_is_named_and_nothing_is_left(db: Database, tmp_path: Path) -> None:
    segment = next(iter((db.path / "tables").rglob("*.parquet")))
    content_ = bytearray(segment.read_bytes())
    content_[len(content_) // 2] ^= 1
    segment.write_bytes(bytes(content_))
    with refused("damaged-file", segment.name, recorded=False):
        db.execute(f"BACKUP DATABASE TO '{tmp_path}/copy'")
    segment.unlink()
    with refused("missing-file", segment.name, recorded=False):
        db.execute(f"BACKUP DATABASE TO '{tmp_path}/copy'")
    assert os.listdir(tmp_path) == ["shop.snapdb"]


def test_a_place_that_is_taken_or_wrong_is_refused(db: Database, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "x").touch()
    (tmp_path / "empty").mkdir()
    for path, code in (
        ("taken", "folder-exists"),
        ("taken/x", "folder-exists"),
        ("no/where", "unwritable-file"),
        ("shop.snapdb/inside", "unwritable-file"),
    ):
        with pytest.raises(snapdb.InputError) as caught:
            db.execute(f"BACKUP DATABASE TO '{tmp_path}/{path}'")
        assert caught.value.code == code
        assert caught.value.span is not None
    db.execute(f"BACKUP DATABASE TO '{tmp_path}/empty'")
    assert content(tmp_path / "empty")["rows"] == (101, 5950)
    assert sorted(os.listdir(tmp_path)) == ["empty", "shop.snapdb", "taken"]


def test_another_file_system_gets_copies(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def across_devices(source: Path, target: Path) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(storage_backup.os, "link", across_devices)
    message = db.execute(f"BACKUP DATABASE TO '{tmp_path}/copy'").message
    assert message is not None
    assert "hard links" not in message
    assert content(tmp_path / "copy")["rows"] == (101, 5950)


def test_a_crash_leaves_no_backup_or_a_whole_one(tmp_path: Path) -> None:
    source, target = tmp_path / "shop.snapdb", tmp_path / "copy"
    with snapdb.connect(source) as database:
        database.script(GRAPH)
    for step in range(1, 1000):
        disk = CrashingDisk(tmp_path, step)
        with contextlib.suppress(Crash), Database(source, disk=disk) as database:
            database.execute(f"BACKUP DATABASE TO '{target}' (COPY)")
        if target.exists():
            assert content(target)["rows"] == (101, 5950)
            shutil.rmtree(target)
        if not disk.dead:
            break
    assert step > 10
    assert content(source)["rows"] == (101, 5950)


def test_the_command_line_and_read_only_connections_make_backups(db: Database, tmp_path: Path) -> None:
    db.close()
    done = CliRunner().invoke(main, ["backup", str(tmp_path / "shop.snapdb"), str(tmp_path / "it's"), "--copy"])
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("backup of version 3 at ")
    assert content(tmp_path / "it's")["rows"] == (101, 5950)
    again = CliRunner().invoke(main, ["backup", str(tmp_path / "shop.snapdb"), str(tmp_path / "it's")])
    assert again.exit_code == 1
    assert "already exists" in again.stderr


def test_a_task_makes_backups_where_its_body_says(db: Database, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    db.execute(
        f"CREATE TASK nightly SCHEDULE EVERY INTERVAL '1 day' AS BACKUP DATABASE TO '{tmp_path}/kept/{{run}}.snapdb'"
    )
    db.execute("EXECUTE TASK nightly")
    ((state,),) = db.execute("SELECT state FROM snapdb.task_runs").fetchall()
    assert state == "ok"
    (made,) = (tmp_path / "kept").iterdir()
    assert content(made)["rows"] == (101, 5950)


def test_a_backup_whose_process_was_killed_leaves_the_database_as_it_was(db: Database, tmp_path: Path) -> None:
    db.close()
    code = f"""
import os, signal
import snapdb
from snapdb.storage.check import backup
backup._verify = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
snapdb.connect({str(tmp_path / "shop.snapdb")!r}).execute("BACKUP DATABASE TO '{tmp_path}/copy'")
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, timeout=300)
    assert ended.returncode == -9
    assert not (tmp_path / "copy").exists()
    assert content(tmp_path / "shop.snapdb")["rows"] == (101, 5950)
