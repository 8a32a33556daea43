"""COPY … (NEW FILES ONLY): every file's rows exactly once, whoever else loads and whatever happens to files."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import snapdb
from snapdb import Database
from snapdb.sql import parse
from tests.support.inside.plan import InsertPlan
from tests.support.inside.storage import Disk
from tests.support.refusals import refused
from tests.support.waiting import PATIENCE


def write(path: Path, *ids: int) -> Path:
    """A Parquet file with a column `id`."""
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)
    return path


def load(folder: Path, files: str = "*.parquet") -> str:
    return f"COPY t FROM '{folder}/{files}' (NEW FILES ONLY)"


def ids(db: Database) -> list[int]:
    return [row[0] for row in db.execute("FROM t").fetchall()]


def segments(db: Database) -> list[str]:
    """The names of all files with rows of tables."""
    return sorted(str(path.relative_to(db.path)) for path in (db.path / "tables").rglob("*.parquet"))


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """A folder with two files."""
    folder = tmp_path / "days"
    folder.mkdir()
    write(folder / "day1.parquet", 1, 2)
    write(folder / "day2.parquet", 3)
    return folder


@pytest.fixture
def table(db: Database) -> Database:
    """A database with an empty table."""
    db.execute("CREATE TABLE t (id BIGINT)")
    return db


def test_a_load_tells_what_came_and_what_was_left(table: Database, days: Path) -> None:
    whole = (days / "day1.parquet").read_bytes()
    (days / "cut.parquet").write_bytes(whole[:-1])
    (days / "none.parquet").touch()
    assert table.execute(load(days)).message == (
        f"version 2: 2 files, 3 rows added to t; postponed to the next run: {days}/cut.parquet (half written), "
        f"{days}/none.parquet (empty)"
    )
    (days / "cut.parquet").write_bytes(whole)
    (days / "none.parquet").unlink()
    write(days / "day2.parquet", 3, 4, 5)
    again = f"changed, but not loaded again: {days}/day2.parquet (since version 2 loaded it)"
    assert table.execute(load(days)).message == f"version 3: 1 file, 2 rows added to t; {again}"
    assert table.execute(load(days)).message == f"no new files match '{days}/*.parquet'; {again}"
    assert table.execute(load(days, "night*")).message == f"no new files match '{days}/night*'"
    assert ids(table) == [1, 2, 3, 1, 2]
    explained = table.execute(f"EXPLAIN {load(days)}").fetchall()
    assert any("no new files match" in line for (line,) in explained)


def test_of_many_unfinished_files_five_are_named(table: Database, days: Path) -> None:
    for n in range(7):
        (days / f"x{n}.parquet").touch()
    said = str(table.execute(load(days)).message)
    assert said.endswith("x4.parquet (empty) and 2 more")
    assert said.count("(empty)") == 5


def _longer_footer(whole: bytes) -> bytes:
    return whole[:-8] + (1 << 30).to_bytes(4, "little") + whole[-4:]


def _strange_footer(whole: bytes) -> bytes:
    length = int.from_bytes(whole[-8:-4], "little")
    return whole[: -8 - length] + b"\xff" * length + whole[-8:]


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-4],
        lambda whole: b"PAR1",
        lambda whole: b"PAR1PAR1",
        _longer_footer,
        _strange_footer,
        lambda whole: b"\0" * 4 + whole[4:],
    ],
    ids=["cut", "begun", "without rows", "longer than the file", "unreadable", "not yet begun"],
)
def test_parquet_without_a_good_footer_is_left(table: Database, days: Path, damage: Callable[[bytes], bytes]) -> None:
    path = days / "day2.parquet"
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert "day2.parquet (half written)" in str(table.execute(load(days)).message)
    assert ids(table) == [1, 2]
    path.write_bytes(whole)
    assert table.execute(load(days)).rowcount == 1


def test_a_file_is_one_whatever_links_lead_to_it(table: Database, days: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (days / "link.parquet").symlink_to(days / "day1.parquet")
    (days.parent / "linked").symlink_to(days)
    (days / "dangling.parquet").symlink_to(days / "gone")
    assert table.execute(load(days.parent / "linked")).rowcount == 3
    monkeypatch.chdir(days.parent)
    assert table.execute("COPY t FROM 'days/*.parquet' (NEW FILES ONLY)").rowcount == 0
    assert table.execute("COPY t FROM './linked/../days/day1.parquet' (NEW FILES ONLY)").rowcount == 0
    paths = table.execute("SELECT path FROM snapdb.loaded_files").fetchall()
    assert paths == [(str(days / "day1.parquet"),), (str(days / "day2.parquet"),)]


def test_what_is_hidden_is_being_written_or_put_aside(table: Database, days: Path) -> None:
    """COPY … TO writes `.….day3.parquet` first; whoever loaded that would load its rows again under their name."""
    seen: list[str] = []

    class Between(Disk):
        def settle(self, path: Path) -> None:  # the file is whole, and not at its place
            super().settle(path)
            if path.parent == days:
                seen.append(path.name)
                assert table.execute(load(days)).rowcount == 3
                assert table.execute(load(days, "**")).rowcount == 0

    with Database(days.parent / "other", disk=Between()) as other:
        other.execute(f"COPY (SELECT 4::BIGINT AS id) TO '{days}/day3.parquet'")
    assert seen[0].startswith(".")
    assert seen[0].endswith(".day3.parquet")
    assert table.execute(load(days)).rowcount == 1
    write(days / ".own.parquet", 5)
    assert table.execute(load(days, ".*.parquet")).rowcount == 1
    assert ids(table) == [1, 2, 3, 4, 5]


def test_what_the_database_wrote_for_itself_is_not_loaded(table: Database, days: Path) -> None:
    loaded = table.execute(load(days.parent, "**"))
    assert loaded.message == "version 2: 2 files, 3 rows added to t"
    assert table.execute(load(days.parent, "**/*.parquet")).rowcount == 0
    assert table.execute(load(table.path, "tables/*/*")).rowcount == 0


@pytest.mark.parametrize("place", ["input_files.stat_file", "copy_from.match_columns"])
def test_an_interrupt_ends_it_between_two_files(
    table: Database, days: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0

    def look(*given: object) -> object:
        nonlocal seen
        seen += 1
        found = plain(*given)
        table.interrupt()  # no query runs that it could end
        return found

    module, name = place.split(".")
    plain = getattr(sys.modules[f"snapdb.plan.{module}"], name)
    monkeypatch.setattr(f"snapdb.plan.{place}", look)
    with refused("interrupted"):
        table.execute(load(days))
    assert seen == 1


def test_a_name_that_is_no_utf8_is_told(table: Database, days: Path) -> None:
    (days / os.fsdecode(b"\xff.parquet")).touch()
    with refused("unreadable-file"):
        table.execute(load(days))


def test_large_files_are_copied_as_they_are(table: Database, days: Path) -> None:
    table.execute(f"COPY (SELECT (hash(range) >> 2)::BIGINT AS id FROM range(1500000)) TO '{days}/big [1].parquet'")
    (days / "big 1.parquet").write_bytes(b"another")
    statement = load(days, "big*.parquet")
    plan = table.plan(parse(statement)[0])
    assert isinstance(plan, InsertPlan)
    assert plan.copies == (f"{days}/big [1].parquet",)
    assert table.execute(statement).rowcount == 1_500_000
    whole = (days / "big [1].parquet").read_bytes()
    assert any((table.path / path).read_bytes() == whole for path in segments(table))
    assert table.execute(statement).rowcount == 0


class Meddling(Disk):
    """Does something to the user's files when the rows read from them are written."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        self._meddle = meddle

    def settle(self, path: Path) -> None:
        super().settle(path)
        if path.suffix == ".parquet":
            self._meddle()


@pytest.mark.parametrize("how", ["grows", "goes", "is touched"])
@pytest.mark.parametrize("place", ["alone", "in a transaction"])
def test_a_file_that_changes_while_it_is_read_is_a_conflict(tmp_path: Path, days: Path, how: str, place: str) -> None:
    path = days / "day2.parquet"
    meddle = {
        "grows": lambda: write(path, 3, 4, 5, 6),
        "goes": path.unlink,
        "is touched": lambda: os.utime(path, (7, 7)),
    }[how]
    with snapdb.connect(tmp_path / "test.snapdb") as db:
        db.execute("CREATE TABLE t (id BIGINT)")
        before = segments(db)
    with Database(tmp_path / "test.snapdb", disk=Meddling(meddle)) as db:
        if place != "alone":
            db.execute("BEGIN")
        with refused("file-moved", "day2.parquet") as caught:
            db.execute(load(days)).fetchall()
        assert caught.value.code == "file-moved"
        assert segments(db) == before
    with snapdb.connect(tmp_path / "test.snapdb") as db:
        assert db.execute("SELECT max(version) FROM snapdb.versions").fetchone() == (1,)
        expected = {"grows": [1, 2, 3, 4, 5, 6], "goes": [1, 2], "is touched": [1, 2, 3]}
        assert db.execute(load(days)).rowcount == len(expected[how])
        assert ids(db) == expected[how]


def test_who_comes_second_is_told_so_and_loads_nothing(table: Database, days: Path) -> None:
    with snapdb.connect(table.path) as other:
        table.execute("BEGIN")
        assert table.execute(load(days, "day1.parquet")).rowcount == 2
        assert other.execute(load(days)).rowcount == 3
        kept = segments(other)
        with pytest.raises(snapdb.CommitConflict) as caught:
            table.execute("COMMIT").fetchall()
        assert caught.value.code == "file-loaded"
        assert caught.value.message == (
            f"{days}/day1.parquet was loaded concurrently, by version 2; run the transaction again, which skips it"
        )
        assert ids(table) == [1, 2, 3]
        assert len(segments(table)) == len(kept) - 1  # the transaction's own went
        assert table.execute(load(days)).rowcount == 0


LOADER = """
import snapdb, sys
with snapdb.connect(sys.argv[1]) as db:
    for n in range(5):
        print("ready", flush=True)
        input()
        while True:
            try:
                db.execute(sys.argv[2]).fetchall()
                break
            except snapdb.CommitConflict as conflict:
                assert conflict.code == "file-loaded", conflict
print("done")
"""


def test_two_processes_that_load_one_folder_load_each_file_once(table: Database, days: Path) -> None:
    table.execute("CREATE PROPERTY GRAPH g VERTEX TABLES (t KEY (id))")  # keys that are loaded get ids, in turn
    command = [sys.executable, "-c", LOADER, str(table.path), load(days)]
    both = [subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, text=True) for _ in range(2)]
    for n in range(5):
        for loader in both:
            assert loader.stdout is not None
            assert loader.stdout.readline() == "ready\n"
        for more in range(3):
            write(days / f"more{n}-{more}.parquet", 100 + 10 * n + more)
        for loader in both:
            assert loader.stdin is not None
            loader.stdin.write("\n")
            loader.stdin.flush()
    for loader in both:
        _, errors = loader.communicate(timeout=PATIENCE)
        assert (loader.returncode, errors) == (0, "")
    assert sorted(ids(table)) == [1, 2, 3, *(100 + 10 * n + more for n in range(5) for more in range(3))]
    assert table.execute("SELECT count(*) FROM snapdb.loaded_files").fetchone() == (17,)
    assert table.execute("CHECK DATABASE").fetchall() == []


def test_what_the_versions_do_not_tell_of_loaded_files_is_damage(table: Database, days: Path) -> None:
    table.execute(load(days))
    table.close()
    for said, statement in {
        "does not exist, but is in the commit records": "DELETE FROM loaded WHERE path LIKE '%day1%'",
        "in the commit records": "UPDATE loaded SET bytes = 1 WHERE path LIKE '%day1%'",
        "exists, but is not in the commit records": "UPDATE loaded SET path = '/' WHERE path LIKE '%day1%'",
        "rows of loaded refer to rows of versions that do not exist": "UPDATE loaded SET version = 9",
    }.items():
        copy = Path(shutil.copytree(table.path, days / "copy.snapdb"))
        with closing(sqlite3.connect(copy / "catalog.sqlite")) as connection, connection:
            connection.execute(statement)
        with snapdb.connect(copy) as db:
            found = db.execute("CHECK DATABASE").fetchall()
            assert any(said in row[2] for row in found), (statement, found)
        shutil.rmtree(copy)


def test_only_files_in_allowed_folders_are_loaded(table: Database, days: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    write(tmp_path / "secret" / "day3.parquet", 9)
    (days / "day3.parquet").symlink_to(tmp_path / "secret" / "day3.parquet")
    with Database(table.path, folders=(days,)) as db:
        with refused("folder-not-allowed"):
            db.execute(load(days)).fetchall()
        (days / "day3.parquet").unlink()
        assert db.execute(load(days)).rowcount == 3
        with refused("folder-not-allowed"):
            db.execute(load(tmp_path / "secret")).fetchall()
