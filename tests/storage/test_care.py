"""CHECK DATABASE, VACUUM, upgrade and network disks: what a team relies on when something went wrong."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import snapdb
from snapdb import Database
from tests.support.checks import problems
from tests.support.format_one import UNSCHEDULED, write_format_one
from tests.support.inside.storage import CatalogDb, _file_system, _network_disk, open_db_dir
from tests.support.refusals import refused
from tests.support.waiting import PATIENCE

SHOP = """
CREATE TABLE person (name VARCHAR, weight DOUBLE);
INSERT INTO person SELECT 'p' || range, range FROM range(5000);
INSERT INTO person VALUES ('q', 1);
CREATE TABLE knows AS SELECT 'p' || range AS a, 'p' || (range + 1) % 10 AS b, range AS t FROM range(10);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (name) FEATURES (weight AS x))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t));
INSERT INTO knows VALUES ('p1', 'p5', 20), ('p2', 'p6', 21) MESSAGE 'more';
DELETE FROM knows WHERE t = 3;
INSERT INTO knows SELECT 'p7', 'p8', 22;
INSERT INTO person VALUES ('r', 2);
INSERT INTO person VALUES ('s', 2);
DELETE FROM knows WHERE t > 8 AND t < 21;
CREATE SNAPSHOT s OF g FOR EVENT_TIME AS OF 21;
CREATE TAG base AT (VERSION => 3);
"""
NOW = "VACUUM RETAIN INTERVAL '0 seconds'"
SAMPLE = "SAMPLE FROM s SEEDS (SELECT name FROM person) AS person FANOUT (knows => [2]) BATCH 10000 REPEATABLE (1)"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.script(SHOP)
    return path


@pytest.fixture
def shop(made: Path, tmp_path: Path) -> Path:
    """A database directory of its own for each test."""
    return Path(shutil.copytree(made, tmp_path / "shop.snapdb"))


def change(path: Path, statement: str) -> None:
    """Change the catalog behind the engine's back."""
    with closing(sqlite3.connect(path / "catalog.sqlite")) as connection, connection:
        connection.execute(statement)


def named(path: Path, query: str) -> Path:
    """The file that the catalog's answer names."""
    with closing(sqlite3.connect(path / "catalog.sqlite")) as connection:
        return path / connection.execute(query).fetchone()[0]


def actions(rows: list[tuple[Any, ...]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        found[row[0]] = found.get(row[0], 0) + 1
    return found


def files(path: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file() and "sqlite-" not in p.name
    }


def history(db: Database) -> list[Any]:
    """Every table at every version, with what a snapshot of each version says of row ids."""
    head = len({row[0] for row in db.execute("SHOW VERSIONS").fetchall()})
    seen: list[Any] = []
    for version in range(1, head + 1):
        for name, *_ in db.execute(f"SHOW TABLES AT (VERSION => {version})").fetchall():
            seen.append((version, name, db.execute(f"SELECT * FROM {name} AT (VERSION => {version})").fetchall()))
    seen.append(db.execute("SELECT *, e_id FROM s.knows ORDER BY e_id").fetchall())
    return seen


def test_nothing_is_wrong_with_what_nobody_touched(shop: Path) -> None:
    assert problems(shop) == []
    with snapdb.connect(shop, verify=True) as db:
        result = db.execute("CHECK DATABASE")
        assert (result.columns, result.fetchall()) == (["kind", "path", "problem", "remedy"], [])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("pattern", "harm", "kind", "says"),
    [
        ("tables/*/*.parquet", _flip, "damaged", "bytes differ from those"),
        ("tables/*/*.parquet", _cut, "damaged", "bytes instead of"),
        ("tables/*/*.parquet", Path.unlink, "missing", "was published"),
        ("ids/*/*.parquet", _flip, "damaged", "bytes differ from those"),
        ("topology/*/*/indices.npy", _flip, "damaged", "bytes differ from those"),
        ("topology/*/*/indices.npy", Path.unlink, "missing", "was published"),
        ("features/*/*/feature-x.npy", _flip, "damaged", "bytes differ from those"),
        ("snapshots/*/ends-0.npy", _flip, "damaged", "bytes differ from those"),
        ("snapshots/*/manifest.json", Path.unlink, "missing", "was published"),
        ("snapshots/*/manifest.json", _cut, "damaged", "cannot read"),
        ("features/*/*/manifest.json", _cut, "damaged", "cannot read"),
        ("topology/*/*", shutil.rmtree, "missing", "was published"),
    ],
)
def test_a_check_names_the_file_that_is_damaged(
    shop: Path, pattern: str, harm: Callable[[Path], object], kind: str, says: str
) -> None:
    with closing(sqlite3.connect(shop / "catalog.sqlite")) as connection:
        garbage = {shop / path for (path,) in connection.execute("SELECT path FROM garbage")}
    found = sorted(set(shop.glob(pattern)) - garbage)
    harm(found[0])
    path = str(found[0].relative_to(shop))
    rows = problems(shop)
    assert any(r.kind == kind and r.path.startswith(path) and says in r.problem for r in rows), rows
    assert all((r.path.startswith(path) or path in r.problem) and r.is_damage and r.remedy for r in rows), rows
    with refused("damaged-file", found[0].name, recorded=False):
        snapdb.connect(shop, verify=True)


@pytest.mark.parametrize(
    ("statement", "kind", "says"),
    [
        ("UPDATE versions SET message = 'x' WHERE version = 5", "chain", "version 5 has message 'x'"),
        ("UPDATE versions SET time = time + 1 WHERE version = 2", "chain", "version 2 has time"),
        ("UPDATE versions SET time = -time WHERE version = 2", "chain", "version 2 is not later"),
        ("UPDATE versions SET author = 'x' WHERE version = 1", "chain", "version 1 has author"),
        ("UPDATE versions SET hash = 'x' WHERE version = 3", "chain", "version 3 differs from what was committed"),
        ("UPDATE versions SET facts = replace(facts, 'person', 'parson')", "chain", "version 1 differs from what"),
        ("UPDATE versions SET facts = '[' WHERE version = 2", "chain", "cannot read the commit record of version 2"),
        ("DELETE FROM versions WHERE version = 4", "chain", "version 4 does not exist"),
        ("UPDATE segments SET rows = rows + 1 WHERE id = 2", "catalog", "file tables/"),
        ("UPDATE segments SET sha256 = 'x' WHERE id = 2", "catalog", "file tables/"),
        ("UPDATE segments SET first = 0", "catalog", "file tables/"),
        ("UPDATE segments SET shape = 2 WHERE id = 1", "catalog", "file tables/"),
        ("DELETE FROM segments WHERE id = 2", "catalog", "does not exist, but is in the commit records"),
        ("UPDATE segments SET path = '/etc/passwd' WHERE id = 2", "catalog", "it refers to '/etc/passwd'"),
        ("UPDATE segments SET path = x'00ff' WHERE id = 2", "catalog", "a row of segments is damaged"),
        ("UPDATE tables SET name = 'parson' WHERE id = 1", "catalog", "table 1 is ['parson'"),
        ("UPDATE tables SET folded = 'parson' WHERE id = 1", "catalog", "table 'person' has the lookup name 'parson'"),
        ("UPDATE tables SET dropped = 5 WHERE id = 1", "catalog", "table 1 is ['person', 1, 5]"),
        ("UPDATE shapes SET columns = replace(columns, 'DOUBLE', 'FLOAT')", "catalog", "the columns of table 1"),
        ("UPDATE changes SET rows_added = 7 WHERE version = 2", "catalog", "what (version, table) changed: (2, 1)"),
        ("DELETE FROM changes WHERE kind = 'create'", "catalog", "create of table 1 in version 1"),
        ("UPDATE tags SET version = 99", "catalog", "tag 'base' refers to version 99"),
        ("UPDATE id_maps SET table_id = 99", "catalog", "of table 99, which does not exist"),
        ("UPDATE id_segments SET first = first + 50 WHERE first > 0", "catalog", "of map 1 are in no file"),
        ("DELETE FROM id_segments WHERE first > 0", "catalog", "does not exist, but is in the commit records"),
        ("UPDATE graphs SET definition = '{'", "catalog", "cannot read the definition of graph 'g'"),
        ("UPDATE graphs SET retention = '{}'", "catalog", "cannot read the retention of graph 'g'"),
        ("UPDATE snapshots SET definition = '{'", "catalog", "cannot read the definition of snapshot 's'"),
        ("UPDATE snapshots SET path = 'snapshots/x'", "missing", "it was published"),
        ("DELETE FROM artefacts", "catalog", "no row of artefacts refers to"),
        ("UPDATE artefacts SET digest = digest || 'x'", "damaged", "the manifest of another directory"),
        ("INSERT INTO garbage SELECT path, 0 FROM segments WHERE id = 1", "catalog", "but also a pending delete"),
        ("UPDATE tags SET folded = 'x'", "catalog", "tag 'base' has the lookup name 'x'"),
        ("UPDATE graphs SET name = 'G'", "catalog", "graph 'G' is defined as 'g'"),
        ("UPDATE id_maps SET key = '[[9, \"VARCHAR\"]]'", "catalog", "which table 1 never had"),
        ("INSERT INTO garbage VALUES ('catalog.sqlite', 0)", "catalog", "a row of garbage is damaged"),
        ("INSERT INTO garbage VALUES ('../x', 0)", "catalog", "a row of garbage is damaged"),
        (
            "UPDATE changes SET kind = 'x' WHERE version = 3",
            "catalog",
            "x of table 1 in version 3 has no commit record",
        ),
        ("UPDATE facts SET value = 'x'", "catalog", "counter of changes is 'x'"),
        ("DROP TABLE tags", "catalog", "cannot read its table tags"),
        ("UPDATE segments SET rows = 'many' WHERE id = 2", "catalog", ""),
        (
            "INSERT INTO upkeep VALUES (1, '', 'x', '{\"number\":1,\"changes\":[]}')",
            "chain",
            "upkeep 1 differs from what",
        ),
    ],
)
def test_a_check_finds_a_catalog_that_contradicts_itself(shop: Path, statement: str, kind: str, says: str) -> None:
    change(shop, statement)
    rows = problems(shop)
    assert any(row.kind == kind and says in row.problem for row in rows), rows
    with pytest.raises(snapdb.CorruptError):
        snapdb.connect(shop, verify=True)


def test_a_check_of_a_catalog_of_noise_says_so(shop: Path) -> None:
    catalog = shop / "catalog.sqlite"
    content = bytearray(catalog.read_bytes())
    for page in range(1, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = os.urandom(64)
        catalog.write_bytes(content)
        try:
            rows = problems(shop)
        except snapdb.SnapdbError:
            continue
        assert any(row.is_damage for row in rows)


def test_a_check_finds_old_files_that_nothing_points_at(shop: Path) -> None:
    old = [
        "tables/1/x.parquet",
        "tables/y.parquet",
        "ids/7/x.parquet",
        "topology/2/x/manifest.json",
        "topology/2/.x.tmp/indptr.npy",
        "features/1/y/feature-x.npy",
        "snapshots/.x.tmp/ends.npy",
        "snapshots/y/manifest.json",
        ".spill-999999999-af/a.block",
        ".catalog.sqlite.format-1.tmp",
    ]
    young = ["tables/1/young.parquet", "snapshots/.young.tmp/a.npy", f".spill-{os.getpid()}-1/a.block", "notes.txt"]
    for name in (*old, *young):
        (shop / name).parent.mkdir(parents=True, exist_ok=True)
        (shop / name).write_text("xyz")
        if name in old or name.startswith(".spill"):
            os.utime(shop / name, (time.time() - 7200,) * 2)
    found = problems(shop)
    named = sorted(
        str(Path(n).parent)
        if n.count("/") > 1 + n.startswith(("tables", "ids")) or n.startswith(("snapshots", ".spill"))
        else n
        for n in old
    )
    assert sorted(row.path for row in found) == named
    assert {row.kind for row in found} == {"orphan"}
    with snapdb.connect(shop, verify=True) as db:
        assert sorted(r[1] for r in db.execute("VACUUM").fetchall() if r[0] == "remove") == named
    assert all((shop / name).exists() for name in young)
    assert not any((shop / name).exists() for name in old)


def test_vacuum_merges_files_and_no_version_reads_otherwise(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        db.script("""
        ALTER TABLE knows ADD COLUMN c INTEGER DEFAULT 5; INSERT INTO knows VALUES ('p1', 'p2', 30, 1);
        INSERT INTO knows VALUES ('p1', 'p3', 31, NULL); UPDATE knows SET c = 9 WHERE t = 30;
        CREATE TABLE types AS SELECT 1::HUGEINT AS h, [1, 2]::FLOAT[2] AS f, 'a'::ENUM('a', 'b') AS e,
          DATE '2026-01-01' AS d, {'x': 'y'} AS s;
        INSERT INTO types SELECT h + 1, [3, NULL]::FLOAT[2], 'b', NULL, NULL FROM types;
        CREATE TABLE empty (a INT); INSERT INTO empty SELECT 1 WHERE false; INSERT INTO empty VALUES (1), (2);
        BEGIN; DELETE FROM person WHERE name = 'q'; DELETE FROM person WHERE name = 'r'; COMMIT;
        """)
        before, sampled = history(db), db.execute(SAMPLE).fetchall()
        done = db.execute(NOW).fetchall()
        compacted = [(row[1], row[3]) for row in done if row[0] == "compact"]
        assert ("tables/1", "4 files with rows of person merged into one") in compacted
        assert ("tables/1", "2 files with deleted rows of person merged into one") in compacted
        assert ("tables/2", "3 files with rows of knows merged into one") in compacted
        assert ("ids/1", "2 files with keys of person merged into one") in compacted
        assert (
            actions(done)["remove"] == sum(int(text.split()[0]) for _, text in compacted) + 1
        )  # ids merged by an INSERT
        assert (history(db), db.execute(SAMPLE).fetchall()) == (before, sampled)
        assert db.execute("CHECK DATABASE").fetchall() == []
        assert db.execute(NOW).fetchall() == []
        db.script(
            "DELETE FROM knows WHERE t = 1; INSERT INTO person VALUES ('z', 3); DELETE FROM person WHERE weight = 3"
        )
        again = history(db)
        assert actions(db.execute(NOW).fetchall()) == {"compact": 4, "remove": 8}
        assert history(db) == again
        db.execute("CREATE SNAPSHOT s2 OF g AT (VERSION => 9)")
    assert problems(shop) == []


def test_a_check_replays_what_vacuum_did(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        db.execute("VACUUM").fetchall()
    change(shop, "UPDATE upkeep SET facts = replace(facts, '\"first\":0', '\"first\":1')")
    assert {row.kind for row in problems(shop)} == {"chain", "catalog"}
    change(shop, "DELETE FROM upkeep")
    assert any("but is in the commit records" in row.problem for row in problems(shop))


def test_a_dry_run_says_the_same_and_changes_nothing(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        before = files(shop)
        said = db.execute(f"{NOW} DRY RUN").fetchall()
        assert files(shop) == before
        assert sorted(db.execute(NOW).fetchall()) == sorted(said)
        assert actions(said)["compact"] == 4
        assert db.execute("VACUUM DRY RUN").columns == ["action", "path", "bytes", "reason"]


def test_vacuum_of_a_table_merges_files_of_that_table_only(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        done = db.execute("VACUUM knows").fetchall()
    assert {row[1] for row in done if row[0] == "compact"} == {"tables/2"}


def test_replaced_files_stay_for_the_grace_period(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        kept = [row for row in db.execute("VACUUM").fetchall() if row[0] == "keep"]
        assert len(kept) > 5
        assert all((shop / row[1]).exists() and "less than 1:00:00 ago" in row[3] for row in kept)
        assert [row[0] for row in db.execute("VACUUM RETAIN INTERVAL '2 hours'").fetchall()] == ["keep"] * len(kept)
        time.sleep(0.01)
        gone = db.execute("VACUUM RETAIN INTERVAL '10 milliseconds'").fetchall()
        assert {row[1:3] for row in gone} == {row[1:3] for row in kept}
        assert actions(gone) == {"remove": len(kept)}
        assert not any((shop / row[1]).exists() for row in kept)


def test_a_reader_keeps_the_files_it_may_be_reading(shop: Path) -> None:
    with snapdb.connect(shop) as db, snapdb.connect(shop) as other:
        reading = other.execute("SELECT * FROM knows, range(200000)")
        done = db.execute(NOW).fetchall()
        assert set(actions(done)) == {"compact", "keep"}
        assert all("a reader uses it" in row[3] for row in done if row[0] == "keep")
        assert sum(batch.num_rows for batch in reading) == db.execute("SELECT * FROM knows").rowcount * 200000
        del reading
        assert set(actions(db.execute(NOW).fetchall())) == {"remove"}


def test_an_open_transaction_keeps_its_files(shop: Path) -> None:
    with snapdb.connect(shop) as db, snapdb.connect(shop) as other:
        other.script("BEGIN; INSERT INTO person VALUES ('in', 1)")
        for path in shop.rglob("*.parquet"):
            os.utime(path, (1, 1))
        assert "remove" not in actions(db.execute(NOW).fetchall())
        other.execute("COMMIT")
        assert db.execute("SELECT name FROM person WHERE name = 'in'").fetchall() == [("in",)]
        assert db.execute("CHECK DATABASE").fetchall() == []


def test_what_a_stream_reads_stays_and_its_keys_are_read_late(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        expected = [batch.ids("person").to_pylist() for batch in db.stream(SAMPLE)]
        stream = db.stream(SAMPLE)
        db.execute("DROP SNAPSHOT s")
        done = db.execute(NOW).fetchall()
        held = {row[1].split("/")[0] for row in done if row[0] == "keep"}
        assert held == {"ids", "topology", "features", "snapshots"}
        assert [batch.ids("person").to_pylist() for batch in stream] == expected
        stream.close()
        gone = {row[1].split("/")[0] for row in db.execute(NOW).fetchall() if row[0] == "remove"}
        assert gone == {"ids", "topology", "features", "snapshots"}
        assert not list((shop / "topology").rglob("*.npy"))
    assert problems(shop) == []


def test_vacuum_removes_what_no_snapshot_uses_and_nothing_else(shop: Path) -> None:
    with snapdb.connect(shop) as db:
        db.script("CREATE SNAPSHOT second OF g; DROP SNAPSHOT s")
        expected = db.execute(SAMPLE.replace("FROM s", "FROM second")).fetchall()
        assert "no snapshot uses it" not in {row[3] for row in db.execute("VACUUM").fetchall()}
        db.execute(NOW).fetchall()
        assert db.execute(SAMPLE.replace("FROM s", "FROM second")).fetchall() == expected
        db.execute("DROP SNAPSHOT second")
        assert {row[3] for row in db.execute(NOW).fetchall()} == {"no snapshot uses it"}


def test_vacuum_keeps_what_a_damaged_catalog_forgot(shop: Path) -> None:
    manifest = next((shop / "snapshots").glob("*/manifest.json"))
    whole = manifest.read_bytes()
    change(shop, "DELETE FROM artefacts")
    with snapdb.connect(shop) as db:
        assert not any(row[1].startswith("topology") for row in db.execute(NOW).fetchall())
        manifest.write_bytes(whole[:-2])
        kept = [row for row in db.execute(NOW).fetchall() if row[1].startswith("topology")]
        assert [(row[0], row[3]) for row in kept] == [("keep", "snapshot s may use it; cannot read its manifest")]


def test_a_damaged_file_is_not_merged(shop: Path) -> None:
    path = named(shop, "SELECT path FROM segments WHERE table_id = 2 AND kind = 'rows' AND first > 0")
    _flip(path)
    before = files(shop)
    with snapdb.connect(shop) as db, refused("damaged-table", path.name, recorded=False):
        db.execute("VACUUM knows").fetchall()
    assert files(shop).keys() == before.keys()


WRITER = """
import sys, snapdb
with snapdb.connect({path!r}) as db:
    for i in range(12):
        db.execute(f"INSERT INTO person VALUES ('{name}' || {{i}}, {{i}})")
        db.execute(f"DELETE FROM person WHERE name = '{name}' || {{i}} AND {{i}} % 3 = 0")
"""


def test_two_vacuums_and_two_writers_at_once_lose_nothing(shop: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER.format(path=str(shop), name=name)], stderr=subprocess.PIPE)
        for name in ("x", "y")
    ]

    def vacuum() -> int:
        done = 0
        with snapdb.connect(shop) as db:
            while any(writer.poll() is None for writer in writers):
                done += actions(db.execute(NOW).fetchall()).get("compact", 0)
                assert db.execute("SELECT count(*) FROM person").fetchone() >= (5003,)
            return done + actions(db.execute(NOW).fetchall()).get("compact", 0)  # the writers may have been quicker

    with ThreadPoolExecutor(2) as pool:
        merged = [future.result() for future in [pool.submit(vacuum), pool.submit(vacuum)]]
    assert [writer.communicate(timeout=PATIENCE)[1] for writer in writers] == [b"", b""]
    assert sum(merged) > 0
    with snapdb.connect(shop) as db:
        assert db.execute("SELECT count(*) FROM person WHERE name SIMILAR TO '[xy][0-9]+'").fetchone() == (16,)
        db.execute(NOW).fetchall()
        assert actions(db.execute(f"{NOW} DRY RUN").fetchall()) == {}
        db.execute("CREATE SNAPSHOT after OF g")
        assert len(next(iter(db.stream(SAMPLE.replace("FROM s", "FROM after")))).ids("person")) == 5003 + 16
    assert problems(shop) == []


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
31 22 0:9 / /home rw - nfs4 host:/home rw,addr=10.0.0.1
32 31 8:2 / /home/me/scratch rw - xfs /dev/sdb rw
33 22 0:8 / /mnt/with\\040space rw - fuse.sshfs me@host: rw
34 22 0:7 / /mnt/cloud rw - cifs //host/x rw
35 22 0:6 / /mnt/cloud rw master:1 - tmpfs tmpfs rw
36 22 0:5 / /mnt/lustre rw - lustre host:/fs rw
half a line
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/me/x.snapdb", "nfs4"),
        ("/home", "nfs4"),
        ("/homework/x.snapdb", "ext4"),
        ("/home/me/scratch/x.snapdb", "xfs"),
        ("/mnt/with space/x", "fuse.sshfs"),
        ("/mnt/cloud/x", "tmpfs"),
        ("/mnt/lustre/a/b", "lustre"),
        ("/", "ext4"),
    ],
)
def test_the_longest_mount_point_tells_the_file_system(path: str, expected: str) -> None:
    assert _file_system(path, MOUNTS) == expected


def test_a_network_disk_is_refused_except_to_read_what_nobody_writes(shop: Path, tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 22 0:9 / {tmp_path} rw - nfs4 host:/home rw\n")
    with refused("network-disk"):
        open_db_dir(shop, read_only=False, mounts=mounts)
    with refused("network-disk"):
        open_db_dir(tmp_path / "new.snapdb", read_only=False, mounts=mounts)
    assert not (tmp_path / "new.snapdb").exists()
    db_dir = open_db_dir(shop, read_only=True, mounts=mounts)
    catalog_db = CatalogDb(db_dir)
    assert len(catalog_db.rows("SELECT * FROM versions")) == 10
    catalog_db.close()
    assert not (shop / "catalog.sqlite-shm").exists()
    (shop / "catalog.sqlite-wal").touch()
    with refused("network-disk"):
        open_db_dir(shop, read_only=True, mounts=mounts)
    assert _network_disk(shop, tmp_path / "no such file") is None
    assert _network_disk(shop) is None


def test_a_database_of_the_first_format_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "old.snapdb"
    write_format_one(path)
    original = (path / "catalog.sqlite").read_bytes()
    with refused("old-format", "format 1", f"snapdb upgrade {path}"):
        snapdb.connect(path)
    assert (path / "catalog.sqlite").read_bytes() == original
    assert snapdb.upgrade(path) == f"{path}: format 1 → 7; the old catalog was saved as catalog.sqlite.format-1"
    with snapdb.connect(path, verify=True) as db:
        assert db.execute("SELECT * FROM t").fetchall() == [(a,) for a in range(5)]
        assert db.execute("SELECT count(*) FROM t AT (VERSION => 2)").fetchone() == (6,)
        assert db.execute("SELECT * FROM gone AT (VERSION => 4)").fetchall() == [("y",)]
        versions = db.execute("SHOW VERSIONS").fetchall()
        assert [row[0] for row in versions] == [1, 2, 3, 4, 5, 6, 7]
        assert (versions[0][2], versions[5][2], versions[0][7]) == ("the first", "é", "ann")
        assert db.execute("CHECK DATABASE").fetchall() == []
        db.script("""INSERT INTO person VALUES ('d', 4); ALTER TABLE person ADD COLUMN x INT DEFAULT 1;
                     CREATE SNAPSHOT s OF g; INSERT INTO t VALUES (9); DELETE FROM t WHERE a = 0;""")
        (batch,) = db.stream("SAMPLE FROM s SEEDS (SELECT name FROM person) AS person FANOUT (DEFAULT => [1])")
        assert dict(zip(batch.ids("person").to_pylist(), batch.n_id["person"].tolist(), strict=True)) == {
            "a": 0,
            "b": 1,
            "c": 2,
            "d": 3,
        }
        db.execute(NOW).fetchall()
        assert db.execute("SELECT * FROM t").fetchall() == [(a,) for a in (1, 2, 3, 4, 9)]
        assert db.execute("CHECK DATABASE").fetchall() == []
    assert snapdb.upgrade(path).startswith("nothing to do: ")


def test_a_database_of_the_fifth_format_gets_room_for_tasks_and_stays_as_it_was(shop: Path) -> None:
    def seen() -> list[list[Any]]:
        with snapdb.connect(shop) as db:
            asked = ("FROM person", "SHOW VERSIONS", "SHOW GRAPHS", SAMPLE)
            return [db.execute(query).fetchall() for query in asked]

    before = seen()
    with closing(sqlite3.connect(shop / "catalog.sqlite")) as connection, connection:
        connection.executescript(f"{UNSCHEDULED} PRAGMA user_version = 5")
    with refused("old-format"):
        snapdb.connect(shop)
    assert "format 5 → 7" in snapdb.upgrade(shop)
    assert problems(shop) == []
    assert seen() == before
    (shop.parent / "day.csv").write_text("name,weight\nnew,1\n", encoding="utf-8")
    with snapdb.connect(shop) as db:
        rows = "SELECT count(*) FROM tasks UNION ALL SELECT count(*) FROM runs UNION ALL SELECT count(*) FROM leader"
        with closing(sqlite3.connect(f"file:{shop}/catalog.sqlite?mode=ro", uri=True)) as connection:
            assert connection.execute(rows).fetchall() == [(0,), (0,), (0,)]
            assert connection.execute("SELECT retention FROM graphs").fetchall() == [(None,)]
        load = f"COPY person FROM '{shop.parent}/*.csv' (NEW FILES ONLY)"
        assert [db.execute(load).rowcount for _ in range(2)] == [1, 0]
        assert db.execute("CHECK DATABASE").fetchall() == []


def test_an_upgrade_keeps_the_old_catalog_and_every_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "old.snapdb"
    write_format_one(path)
    (path / "catalog.sqlite.format-1").write_text("an earlier one")
    assert snapdb.upgrade(path).endswith("saved as catalog.sqlite.format-1.2")
    assert (path / "catalog.sqlite.format-1").read_text() == "an earlier one"
    (path / "catalog.sqlite.format-1.2").rename(path / "catalog.sqlite")
    assert "format 1 → 7" in snapdb.upgrade(path)
    with snapdb.connect(path) as db:
        assert db.execute("SELECT count(*) FROM t").fetchone() == (5,)


def test_an_upgrade_that_cannot_be_is_refused(tmp_path: Path, made: Path) -> None:
    with refused("no-database"):
        snapdb.upgrade(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    path = tmp_path / "old.snapdb"
    write_format_one(path)
    change(path, "PRAGMA user_version = 99")
    with refused("newer-format"):
        snapdb.upgrade(path)
    newer = Path(shutil.copytree(made, tmp_path / "now.snapdb"))
    with snapdb.connect(newer) as db:
        reading = db.execute("SELECT * FROM range(1000000)")
        with refused("catalog-busy"):
            snapdb.upgrade(newer)
        reading.close()


def _snapdb(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "snapdb_cli", *words], capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.mark.slow
def test_the_command_line_checks_and_upgrades(shop: Path, tmp_path: Path) -> None:
    fine = _snapdb("check", str(shop), "--format", "csv")
    assert (fine.returncode, fine.stdout, fine.stderr) == (0, "kind,path,problem,remedy\n", "")
    orphan = shop / "tables" / "1" / "left.parquet"
    orphan.write_text("x")
    os.utime(orphan, (1, 1))
    noted = _snapdb("check", str(shop), "--format", "json")
    assert (noted.returncode, json.loads(noted.stdout)[0]["path"]) == (0, "tables/1/left.parquet")
    damaged = named(shop, "SELECT path FROM id_segments")
    damaged.unlink()
    change(shop, "UPDATE graphs SET definition = '{'")
    bad = _snapdb("check", str(shop))
    assert bad.returncode == 1
    assert damaged.name in bad.stdout
    assert "cannot read the definition of graph 'g'" in bad.stdout
    none = _snapdb("check", str(tmp_path / "none"))
    assert (none.returncode, none.stdout) == (1, "")
    assert "no database exists at" in none.stderr
    write_format_one(tmp_path / "old")
    old = _snapdb("check", str(tmp_path / "old"))
    assert (old.returncode, "snapdb upgrade" in old.stderr) == (1, True)
    assert "format 1 → 7" in _snapdb("upgrade", str(tmp_path / "old")).stderr
    assert _snapdb("check", str(tmp_path / "old")).returncode == 0
