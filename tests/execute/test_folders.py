"""A database that may read and write only some folders: whatever a statement says, nothing else is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import snapdb
from snapdb import Database
from snapdb.errors import InputError, SnapdbError
from tests.support.inside.sql_engine import Folders, resolved
from tests.support.refusals import refused
from tests.support.thoroughness import examples

SECRET = 271_828


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with in/, which is allowed, and others about it, which hold a secret."""
    root = tmp_path_factory.mktemp("folders")
    for name in ("in/deep", "in-secret", "out"):
        (root / name).mkdir(parents=True)
    for name in ("in", "in/deep"):
        pq.write_table(pa.table({"a": [1, 2]}), root / name / "x.parquet")
    for folder in (root, root / "in-secret"):
        pq.write_table(pa.table({"a": [SECRET]}), folder / "x.parquet")
        (folder / "x.csv").write_text(f"a\n{SECRET}\n")
    (root / "in/away").symlink_to(root / "in-secret")
    (root / "in/away.csv").symlink_to(root / "in-secret/x.csv")
    (root / "linked").symlink_to(root / "in")
    return root


@pytest.fixture(scope="module")
def db(place: Path) -> Iterator[Database]:
    with Database(place / "db", folders=[place / "in"], threads=1) as database:
        database.execute("CREATE TABLE t AS SELECT 1 AS a")
        yield database


def outside(db: Database, statement: str) -> InputError:
    """The error of a statement that would read or write outside of the folders."""
    with refused("folder-not-allowed") as caught:
        db.execute(statement).arrow()
    assert isinstance(caught.value, InputError)
    return caught.value


@pytest.mark.parametrize("path", ["in/x.parquet", "in/*.parquet", "in/deep/../x.parquet", "linked/x.parquet"])
def test_what_lies_in_a_folder_is_read(db: Database, place: Path, path: str) -> None:
    assert db.execute(f"SELECT sum(a) FROM '{place}/{path}'").fetchall() == [(3,)]


READS = (
    "SELECT * FROM '{}'",
    "SELECT * FROM read_parquet(['{}'])",
    "SELECT * FROM read_csv('{}')",
    "SELECT * FROM read_text('{}')",
    "SELECT * FROM read_blob('{}')",
    "SELECT * FROM parquet_metadata('{}')",
    "SELECT * FROM sniff_csv('{}')",
    "SELECT * FROM query_table('{}')",
    "CREATE TABLE taken AS FROM '{}'",
    "INSERT INTO t SELECT * FROM '{}'",
    "COPY t FROM '{}'",
    "UPDATE t SET a = x.a FROM '{}' x",
    "DELETE FROM t USING '{}' x WHERE t.a = x.a",
)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("path", ["in-secret/x.parquet", "in/../x.parquet", "in/away/x.parquet", "in*/../x.parquet"])
def test_nothing_else_is_read(db: Database, place: Path, read: str, path: str) -> None:
    assert outside(db, read.format(place / path)).span is not None


def test_files_cannot_be_listed(db: Database, place: Path) -> None:
    for path in (f"{place}/*", f"{place}/in-secret/*", f"{place}/in/away/*", "/etc/*", f"{place}/in/../*"):
        outside(db, f"SELECT * FROM glob('{path}')")
    deep = db.execute(f"SELECT file FROM glob('{place}/in/**/*.parquet')").fetchall()
    assert deep == [(f"{place}/in/deep/x.parquet",), (f"{place}/in/x.parquet",)]


def test_a_link_that_leads_away_is_no_half_written_file(db: Database, place: Path) -> None:
    assert "away" in outside(db, f"COPY t FROM '{place}/in/away/*.parquet' (NEW FILES ONLY)").message
    outside(db, f"COPY t FROM '{place}/in/aw*/*.parquet' (NEW FILES ONLY)")


def test_urls_and_relative_paths_are_refused(db: Database, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    for path in ("https://example.org/x.parquet", "s3://bucket/x.parquet", "x.parquet", "~/x.parquet", "file:x.csv"):
        outside(db, f"SELECT * FROM read_parquet('{path}')")


WRITES = (
    "COPY t TO '{}.csv'",
    "COPY t TO '{}.arrow'",
    "COPY (SELECT 1 AS a) TO '{}.parquet'",
    "COPY SNAPSHOT s TO '{}' (FORMAT npz)",
    "COPY (SAMPLE FROM s SEEDS (SELECT id FROM v) AS v FANOUT (e => [2])) TO '{}' (FORMAT npz)",
)


@pytest.fixture(scope="module")
def graph(db: Database) -> Database:
    db.script(
        "CREATE TABLE v AS SELECT range AS id FROM range(9);"
        "CREATE TABLE e AS SELECT range AS s, (range + 1) % 9 AS d FROM range(9);"
        "CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id)) EDGE TABLES "
        "(e SOURCE KEY (s) REFERENCES v DESTINATION KEY (d) REFERENCES v); CREATE SNAPSHOT s OF g;"
    )
    return db


@pytest.mark.parametrize("write", WRITES)
def test_files_are_written_in_a_folder_and_nowhere_else(graph: Database, place: Path, write: str) -> None:
    name = f"w{WRITES.index(write)}"
    graph.execute(write.format(place / "in" / name))
    for path in ("in-secret", "out", "in/../out", "in/away"):
        assert outside(graph, write.format(place / path / name)).span is not None
    assert [found.parent for found in place.rglob(f"{name}*")] == [place / "in"]


def test_a_file_that_is_named_is_allowed_and_none_beside_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("x", "it's", "y", "x.csv"):
        (tmp_path / f"in/{name}.csv").write_text("a\n7\n")
    (tmp_path / "in/same.csv").symlink_to("x.csv")
    (tmp_path / "in/away.csv").symlink_to("/etc/passwd")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    files = [tmp_path / f"in/{name}.csv" for name in ("it's", "later", "same", "away")]
    with Database(tmp_path / "db", folders=[*files, tmp_path / "link/y.csv"]) as db:
        db.execute("CREATE TABLE t (a BIGINT)")
        (tmp_path / "in/later.csv").write_text("a\n7\n")  # it was not there when the run began
        for name in ("in/it''s", "link/later", "in/same", "in/x", "in/y", "in/../in/y"):
            assert db.execute(f"SELECT a FROM '{tmp_path}/{name}.csv'").fetchall() == [(7,)]
            assert db.execute(f"COPY t FROM '{tmp_path}/{name}.csv'").rowcount == 1
        db.execute(f"COPY t FROM '{tmp_path}/in/y.csv' (NEW FILES ONLY)")
        for name in ("in/x.csv.csv", "in/*.csv", "in/away.csv", "in/none.csv"):
            outside(db, f"COPY t FROM '{tmp_path}/{name}'")
            outside(db, f"COPY t FROM '{tmp_path}/{name}' (NEW FILES ONLY)")
        (tmp_path / "in/y.csv").unlink()
        (tmp_path / "in/y.csv").symlink_to("/etc/passwd")
        outside(db, f"SELECT * FROM read_text('{tmp_path}/in/y.csv')")


def test_the_name_of_a_folder_stands_for_its_files(db: Database, place: Path) -> None:
    for name in ("in", "in/", "in/deep", "linked"):
        assert db.execute(f"SELECT DISTINCT a FROM read_parquet('{place}/{name}') ORDER BY a").fetchall() == [
            (1,),
            (2,),
        ]
    outside(db, f"SELECT * FROM read_parquet('{place}/in-secret')")


def test_the_folder_of_all_folders_is_none(tmp_path: Path) -> None:
    with refused("folder-not-allowed"):
        Folders.of(tmp_path, ["/tmp/.."])


def test_the_catalog_is_no_file_of_a_run(db: Database) -> None:  # to close it again would drop SQLite's locks
    with refused("own-file"):
        db.execute(f"SELECT * FROM read_blob('{db.path}/catalog.sqlite')")
    with refused("own-file"):
        db.execute(f"SELECT * FROM read_blob('{db.path}/*')")


def test_connect_takes_folders_that_count_from_the_directory_of_the_process(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    with snapdb.connect("reached", folders=["in", Path("new/")]) as db:
        assert db.execute("SELECT sum(a) FROM 'in/x.parquet'").fetchall() == [(3,)]
        outside(db, "SELECT * FROM 'x.parquet'")
        outside(db, "SELECT * FROM read_text('in-secret/*')")
        outside(db, "COPY (SELECT 1 AS a) TO 'out/a.csv'")
        db.execute("COPY (SELECT 1 AS a) TO 'in/a.csv'")
    with snapdb.connect("reached", read_only=True, folders=[]) as db:
        outside(db, "SELECT * FROM 'in/x.parquet'")
    with pytest.raises(TypeError, match="a list of paths"):
        snapdb.connect("reached", folders="in")


def test_the_command_line_restricts_statements_to_folders(place: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "snapdb_cli", *words]
        return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=300)

    run("told", "-c", "CREATE TABLE t AS SELECT 1 AS a")
    read = run("told", "--folder", "in", "--format", "csv", "-c", "SELECT sum(a) AS s FROM 'in/x.parquet'")
    assert (read.returncode, read.stdout) == (0, "s\n3\n")
    kept = run("told", "--read-only", "--folder", "in", "-c", "COPY t TO 'out/t.csv'")
    assert kept.returncode == 1
    assert "is not allowed: connections can be restricted to folders" in kept.stderr
    assert not (place / "out/t.csv").exists()


def test_a_folder_itself_is_not_replaced(graph: Database, place: Path) -> None:
    outside(graph, f"COPY SNAPSHOT s TO '{place}/in' (FORMAT npz, OVERWRITE)")


def test_no_function_writes_a_log(db: Database, place: Path) -> None:
    for where in (place / "log", db.path / "log", place / "in/log"):  # the first ended the process
        with refused("refused", "enable_logging"):
            db.execute(f"SELECT * FROM enable_logging(storage = 'file', storage_path = '{where}')").fetchall()
        assert db.execute("SELECT 42").fetchall() == [(42,)]
        assert not where.exists()


def test_everything_else_works_as_ever(graph: Database) -> None:
    head = graph.execute("SELECT max(version) FROM snapdb.versions").fetchall()[0][0]
    graph.progress = lambda what, share: None
    graph.execute("INSERT INTO v VALUES (100)")
    for statement in (
        "REFRESH SNAPSHOT s",
        f"DIFF GRAPH g FROM VERSION {head} TO VERSION {head + 1} FEATURES",
        "SUMMARIZE SNAPSHOT s",
        "VACUUM",
        "CHECK DATABASE",
        "SELECT * FROM range(300000) ORDER BY hash(range)",
    ):
        graph.execute(statement).arrow()
    assert len(list(graph.stream("SAMPLE FROM s SEEDS (SELECT id FROM v) AS v FANOUT (e => [2]) BATCH 4"))) == 3


def test_the_database_may_stand_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with Database(tmp_path / "link" / "db", folders=()) as db:
        db.execute("CREATE TABLE t AS SELECT 7 AS a")
        assert db.execute("SELECT a FROM t").fetchall() == [(7,)]
        outside(db, f"COPY t TO '{tmp_path}/real/t.csv'")
    with Database(tmp_path / "link" / "db", folders=(), read_only=True) as db:
        assert db.execute("SELECT a FROM t").fetchall() == [(7,)]


def test_a_path_is_resolved_part_by_part_and_no_link_leads_out_of_its_directory(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path))
    (root / "in/deep").mkdir(parents=True)
    for link, target in {
        "in/here": ".",
        "in/down": "deep",
        "in/back": "../in/deep",
        "in/again": "down/../down",
        "in/full": str(root / "in/deep"),
        "in/up": "..",
        "in/out": "../else",
        "in/etc": "/etc",
        "in/late": "out",
        "in/round": "round",
        "in/gone": "nothing",
    }.items():
        (root / link).symlink_to(target)
    deep = str(root / "in/deep")
    for name in (
        "down",
        "back",
        "again",
        "full",
        "here/down",
        "here/here/deep",
        "../in/down",
        "down/../down",
        "/./down",
    ):
        assert resolved(f"{root}/in/{name}") == deep, name
        assert resolved(f"{root}/in/{name}/x/") == f"{deep}/x/"
    for name in ("up", "out", "etc", "late", "round", "here/etc", "up/in/deep", "down/../../in/etc"):
        assert resolved(f"{root}/in/{name}") is None, name
        assert resolved(f"{root}/in/{name}/x") is None, name
    assert resolved(f"{root}/in/gone") == f"{root}/in/nothing"
    assert (resolved("/"), resolved("//etc/../..")) == ("/", "/")


def test_folders_are_absolute(tmp_path: Path) -> None:
    for folders in (["in"], "/in", [Path("in")]):
        with pytest.raises(ValueError, match="absolute"):
            Folders.of(tmp_path, folders)


parts = st.sampled_from(
    [
        "in",
        "in-secret",
        "..",
        ".",
        "away",
        "deep",
        "*",
        "in*",
        "**",
        "?n",
        "x.csv",
        "x.parquet",
        "away.csv",
        "[i]n",
        "",
        "linked",
        "it''s",
        "nothere",
    ]
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(parts, min_size=1, max_size=6), st.sampled_from(["", "file://", "file:", "//"]))
def test_no_path_leads_to_the_secret(db: Database, place: Path, names: list[str], scheme: str) -> None:
    path = scheme + os.path.join(str(place), *filter(None, names))
    for query in (f"SELECT content FROM read_text('{path}')", f"SELECT a FROM read_csv('{path}', header = true)"):
        try:
            rows = db.execute(query).fetchall()
        except SnapdbError:
            continue
        assert not any(str(SECRET) in str(row) for row in rows)
