"""Several shells on one directory, and a machine that refuses: full disks, permissions, files that go away."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import snapdb
from snapdb import Database
from tests.support.refusals import refused
from tests.support.waiting import PATIENCE, until


def shell(*words: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    command = [sys.executable, "-m", "snapdb_cli", *map(str, words)]
    return subprocess.run(command, input=text or "", capture_output=True, text=True, timeout=PATIENCE, check=False)


def limited(code: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Python that can write files of at most 64 KiB, as on a disk that is about full; `db` is open on the path."""
    program = f"""
import resource, signal, snapdb
db = snapdb.connect({str(path)!r})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
try:
{code}
except snapdb.SnapdbError as error:
    print(type(error).__name__, error.message)
"""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def files(path: Path) -> set[str]:
    """Every file of a database but the catalog's own."""
    found = {str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()}
    return {name for name in found if not name.startswith("catalog.sqlite")}


def test_two_shells_one_writing_and_one_reading(tmp_path: Path) -> None:
    path = tmp_path / "team.snapdb"
    with snapdb.connect(path) as writer, snapdb.connect(path, read_only=True) as reader:
        writer.execute("CREATE TABLE log (line VARCHAR)")
        for n in range(3):
            writer.execute(f"INSERT INTO log VALUES ('{n}')")
            assert reader.execute("SELECT count(*) FROM log").fetchone() == (n + 1,)
        writer.script("BEGIN; INSERT INTO log VALUES ('unseen')")
        assert reader.execute("SELECT count(*) FROM log").fetchone() == (3,)
        writer.execute("COMMIT")
        assert reader.execute("SELECT count(*) FROM log AT (VERSION => 2)").fetchone() == (1,)
        assert shell(path, "-c", "SELECT count(*) AS n FROM log", "--format", "csv").stdout == "n\n4\n"


def test_a_lost_race_ends_a_script_with_code_3(tmp_path: Path) -> None:
    path = tmp_path / "race.snapdb"
    with snapdb.connect(path) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS a")
        slow = f"BEGIN; DELETE FROM t; SELECT count(*) FROM range({10**9}) r(a) WHERE hash(a) = 7; COMMIT"
        command = [sys.executable, "-m", "snapdb_cli", str(path), "-c", slow]
        late = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: any(name.startswith("tables/1/") for name in files(path)))
        db.execute("UPDATE t SET a = 2")
        _, said = late.communicate(timeout=PATIENCE)
        assert (
            "CommitConflict: table t was changed concurrently: expected version 1, found 2, which removed 1 of the rows"
            in said
        )
        assert late.returncode == 3
        assert db.execute("SELECT a FROM t").fetchall() == [(2,)]


def test_a_script_that_ends_inside_a_transaction_is_rolled_back_and_fails(tmp_path: Path) -> None:
    path = tmp_path / "open.snapdb"
    done = shell(path, text="CREATE TABLE t (a INT); BEGIN; INSERT INTO t VALUES (1)")
    assert done.returncode == 1
    assert "the script ended inside a transaction, which was rolled back; add COMMIT" in done.stderr
    script = "BEGIN; INSERT INTO t VALUES (2); SELECT * FROM gone; INSERT INTO t VALUES (3); ROLLBACK; FROM t"
    kept = shell(path, "--on-error", "continue", "--format", "csv", text=script)
    assert (kept.returncode, kept.stdout) == (1, "a\n")
    assert "its changes are discarded; write ROLLBACK" in kept.stderr


def test_an_interrupted_load_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "stopped.snapdb"
    with snapdb.connect(path) as db:
        db.execute("CREATE TABLE t (a INT)")
    before = files(path)
    load = "CREATE TABLE big AS SELECT range AS a, hash(range) AS b FROM range(1000000000)"
    loading = subprocess.Popen([sys.executable, "-m", "snapdb_cli", str(path), "-c", load], stderr=subprocess.PIPE)
    until(lambda: files(path) != before)
    loading.send_signal(signal.SIGINT)
    assert loading.wait(timeout=PATIENCE) == 130
    assert loading.stderr is not None
    loading.stderr.close()
    assert files(path) == before
    with snapdb.connect(path, verify=True) as db:
        assert [row[0] for row in db.execute("SHOW TABLES").fetchall()] == ["t"]


def test_long_loads_tell_how_far_they_are(db: Database) -> None:
    said: list[tuple[str, float | None]] = []
    db.progress = lambda what, share: said.append((what, share))
    db.execute("CREATE TABLE t AS SELECT range AS a, hash(range) AS b, hash(range + 1) AS c FROM range(12000000)")
    shares = [share for what, share in said if what == "writing t" and share is not None]
    assert shares == sorted(shares)
    assert shares
    assert 0 <= shares[0] <= shares[-1] <= 1


def test_a_full_disk_is_one_clear_error_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "full.snapdb"
    with snapdb.connect(path) as db:
        db.execute("CREATE TABLE t AS SELECT range AS a FROM range(100)")
    before = files(path)
    big = "SELECT (hash(range) >> 2)::BIGINT FROM range(100000)"
    for statement in (f"INSERT INTO t {big}", f"CREATE TABLE u AS {big}", f"UPDATE t SET a = h FROM ({big}) u(h)"):
        refused = limited(f"    db.execute({statement!r})", path)
        assert refused.stderr == ""
        assert refused.stdout.startswith(("DatabaseError cannot write", "DataError"))
        assert "Traceback" not in refused.stdout
    assert files(path) == before
    with snapdb.connect(path, verify=True) as db:
        assert db.execute("SELECT count(*) FROM t").fetchone() == (100,)
        assert db.execute("CHECK DATABASE").fetchall() == []


def test_a_file_that_goes_away_is_named_and_other_tables_go_on(db: Database) -> None:
    db.script("CREATE TABLE t AS SELECT 1 AS a; CREATE TABLE u AS SELECT 2 AS a; INSERT INTO t VALUES (3)")
    (lost,) = (db.path / "tables" / "1").iterdir()
    lost.unlink()
    with refused("damaged-table", f"{lost.name}, a file of table t", recorded=False):
        db.execute("SELECT * FROM t")
    assert db.execute("SELECT * FROM u").fetchall() == [(2,)]
    assert db.execute("SELECT * FROM t AT (VERSION => 1)").fetchall() == [(1,)]
    ((kind, path, problem, _),) = db.execute("CHECK DATABASE").fetchall()
    assert (kind, Path(path).name) == ("missing", lost.name)
    assert problem


def test_a_folder_that_cannot_be_written_is_one_clear_error() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "locked.snapdb"
        with snapdb.connect(path) as db:
            db.execute("CREATE TABLE t AS SELECT 1 AS a")
        root = os.geteuid() == 0
        for place in (Path(folder), path, *path.rglob("*")):
            if root:  # root may write everywhere, so somebody else does the work
                os.chown(place, 65534, 65534)
        (path / "tables").chmod(0o500)
        become = "os.setuid(65534)" if root else ""
        program = f"""import os, snapdb
with snapdb.connect() as first:  # loads what a statement needs while all of it may be read
    first.execute("CREATE TABLE t AS SELECT 1 AS a")
    first.execute("SELECT * FROM t").fetchall()
{become}
with snapdb.connect({str(path)!r}) as db:
    try:
        db.execute("CREATE TABLE u AS SELECT 2 AS a")
    except snapdb.DatabaseError as error:
        print(error.message)
    print(db.execute("SELECT * FROM t").fetchall())"""
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        (path / "tables").chmod(0o700)
        assert done.stderr == ""
        assert re.fullmatch(r"cannot write .*/tables/.*nothing was changed\n\[\(1,\)\]\n", done.stdout, re.DOTALL)


def test_batches_are_read_as_they_come_and_once(db: Database) -> None:
    table = pa.table({"a": range(1000), "b": [str(n) for n in range(1000)]})
    db.register("coming", table.to_reader(max_chunksize=100))
    with refused("unknown-column", '"c"', at="c"):
        db.execute("SELECT c FROM coming")
    assert db.execute("CREATE TABLE t AS SELECT * FROM coming WHERE a >= 10").rowcount == 990
    with refused("consumed-source", at="SELECT * FROM coming"):
        db.execute("SELECT * FROM coming")


def test_a_dataset_of_many_files_is_read_in_parts(db: Database, tmp_path: Path) -> None:
    table = pa.table({"a": range(1000)})
    ds.write_dataset(table, tmp_path / "parts", format="parquet", max_rows_per_file=100, max_rows_per_group=100)
    db.register("parts", ds.dataset(tmp_path / "parts"))
    assert db.execute("SELECT count(*), sum(a) FROM parts").fetchone() == (1000, 499500)
    assert db.execute("SELECT count(*) FROM parts WHERE a > 989").fetchone() == (10,)


def test_a_parquet_file_that_needs_no_change_is_copied_and_never_linked(db: Database, tmp_path: Path) -> None:
    source = tmp_path / "edges.parquet"
    with snapdb.connect() as other:
        big = "SELECT hash(range)::UBIGINT AS a, hash(range + 1)::UBIGINT AS b FROM range(800000)"
        other.execute(f"CREATE TABLE t AS {big}")
        (made,) = (other.path / "tables").iterdir()
        source.write_bytes(made.read_bytes())
    assert source.stat().st_size > 8 << 20
    db.execute("CREATE TABLE t (b UBIGINT, a UBIGINT)")
    assert db.execute(f"COPY t FROM '{source}'").rowcount == 800000
    (copy,) = (db.path / "tables" / "1").iterdir()
    assert copy.read_bytes() == source.read_bytes()
    assert copy.stat().st_ino != source.stat().st_ino
    expected = db.execute(f"SELECT sum(a), sum(b) FROM '{source}'").fetchone()
    source.write_bytes(b"gone")
    assert db.execute("SELECT sum(a), sum(b) FROM t").fetchone() == expected
    assert db.execute("CHECK DATABASE").fetchall() == []
    # so does a table made of the file, or an INSERT of all of it, where the columns are in order
    source.write_bytes(copy.read_bytes())
    db.execute(f"CREATE TABLE u AS FROM '{source}'")
    db.execute(f"INSERT INTO u SELECT * FROM '{source}'")
    db.execute(f"INSERT INTO t SELECT * FROM '{source}'")  # t has b before a
    assert db.execute("SELECT sum(a), sum(b) FROM u AT (VERSION => 3)").fetchone() == expected
    sizes = dict(row[:5:4] for row in db.execute("SHOW TABLES").fetchall())
    assert sizes["u"] == 2 * len(copy.read_bytes())
    assert sizes["t"] != 2 * len(copy.read_bytes())
    swapped = db.execute("SELECT sum(a), sum(b) FROM t").fetchone()
    assert swapped is not None
    assert swapped[0] == swapped[1] == sum(expected)  # type: ignore[arg-type]
    # one column in another type, or fewer: the rows are written anew
    source.write_bytes(copy.read_bytes())
    db.execute("CREATE TABLE wide (a HUGEINT, b UBIGINT)")
    db.execute(f"COPY wide FROM '{source}'")
    assert db.execute("SELECT sum(a), sum(b) FROM wide").fetchone() == expected


def test_a_large_parquet_file_cut_short_is_refused(db: Database, tmp_path: Path) -> None:
    source = tmp_path / "cut.parquet"
    with snapdb.connect() as other:
        other.execute("CREATE TABLE t AS SELECT hash(range)::UBIGINT AS a FROM range(1500000)")
        (made,) = (other.path / "tables").iterdir()
        whole = made.read_bytes()
    db.execute("CREATE TABLE t (a UBIGINT)")
    for damaged, code in ((whole[: 10 << 20], "unreadable-file"), (whole[: 4 << 20] + whole[8 << 20 :], "query")):
        source.write_bytes(damaged)
        with refused(code, "cut"):
            db.execute(f"COPY t FROM '{source}'")
    assert db.execute("SELECT count(*) FROM t").fetchone() == (0,)
    assert not (db.path / "tables" / "1").exists() or not list((db.path / "tables" / "1").iterdir())


def test_json_and_globs_load(db: Database, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "tags": ["x"]}\n{"id": 2}\n')
    (tmp_path / "b.json").write_text('[{"tags": [], "id": 3}]')
    db.execute("CREATE TABLE t (id INT, tags VARCHAR[], note VARCHAR DEFAULT 'none')")
    assert db.execute(f"COPY t (id, tags) FROM '{tmp_path}/*.json*'").rowcount == 3
    found = db.execute("SELECT * FROM t ORDER BY id").fetchall()
    assert found == [(1, ["x"], "none"), (2, None, "none"), (3, [], "none")]
    (tmp_path / "c.json").write_text('{"id": 4, "other": 5}')
    with refused("file-columns", '"other"'):
        db.execute(f"COPY t (id, tags) FROM '{tmp_path}/c.json'")
    (tmp_path / "d.json").write_text('{"id": ')
    with pytest.raises(snapdb.SnapdbError):
        db.execute(f"COPY t (id) FROM '{tmp_path}/d.json'")
    with refused("unknown-option", "COPY", "DELIMITER", at="DELIMITER"):
        db.execute(f"COPY t (id) FROM '{tmp_path}/c.json' (DELIMITER ';')")


def test_a_failed_statement_inside_the_block_of_a_transaction_rolls_it_back(db: Database) -> None:
    db.execute("CREATE TABLE t (a INT)")

    def half() -> None:
        with db.transaction():
            db.execute("INSERT INTO t VALUES (1)")
            db.execute("INSERT INTO nowhere VALUES (1)")

    with pytest.raises(snapdb.BindError):
        half()
    assert db.transaction_state == "idle"
    with db.transaction("two at once"):
        db.execute("INSERT INTO t VALUES (1)")
        db.execute("INSERT INTO t VALUES (2) MESSAGE 'not this one'")
        assert db.transaction_state == "open"
    assert db.execute("SHOW VERSIONS").fetchall()[-1][2:7] == ("two at once", "t", 2, 0, None)
    assert len(db.execute("SHOW VERSIONS").fetchall()) == 2


def test_ids_of_many_small_commits_stay_in_few_files(db: Database) -> None:
    db.execute("CREATE TABLE v (k VARCHAR)")
    db.execute("CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (k))")
    for n in range(30):
        db.execute(f"INSERT INTO v VALUES ('b{n}'), ('a{n}'), ('b0')")
    db.execute("DELETE FROM v WHERE k = 'b0'")
    db.execute("CREATE SNAPSHOT s OF g")
    assert db.execute("SELECT count(*) FROM s.v").fetchone() == (59,)
    assert db.execute("CHECK DATABASE").fetchall() == []
    named = [f for f in files(db.path) if f.startswith("ids/")]
    assert len(named) == 30  # one is named, 29 wait for a VACUUM
    db.execute("VACUUM RETAIN INTERVAL '0 seconds'")
    assert len([f for f in files(db.path) if f.startswith("ids/")]) == 1
    assert db.execute("CHECK DATABASE").fetchall() == []


def test_a_second_connection_leaves_the_first_ones_locks_alone(tmp_path: Path) -> None:
    path = tmp_path / "test.snapdb"
    with snapdb.connect(path) as first:
        first.execute("CREATE TABLE t AS SELECT 1 AS a")
        log = (path / "catalog.sqlite-wal").stat().st_ino
        with snapdb.connect(path):
            pass
        code = f"import snapdb\nwith snapdb.connect({str(path)!r}) as db: db.execute('INSERT INTO t VALUES (2)')"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)
        # Had it found nobody else there, it would have taken the log away under the first connection.
        assert (path / "catalog.sqlite-wal").stat().st_ino == log
        assert first.execute("SELECT count(*) FROM t").fetchone() == (2,)
