"""COPY … TO writes one whole file, in every format, or leaves what was there."""

from __future__ import annotations

import json
import os
import resource
import shutil
import threading
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import snapdb
from snapdb import Database
from snapdb.sql_engine import text_literal
from tests.support.refusals import refused

SETUP = """
CREATE TABLE bought (id BIGINT, what VARCHAR, price DECIMAL(9, 2), day DATE);
INSERT INTO bought VALUES (1, 'a "b", c', 1.50, '2026-01-01'), (2, NULL, 2.25, NULL), (3, 'dé', 0, '2026-01-03');
INSERT INTO bought VALUES (4, 'late', 4, '2026-02-01');
CREATE TABLE newer (a INTEGER);
CREATE PROPERTY GRAPH shop VERTEX TABLES (bought AS item KEY (id) PROPERTIES (what AS name));
CREATE SNAPSHOT q OF shop AT (VERSION => 2);
"""
ROWS = [
    (1, 'a "b", c', Decimal("1.50"), date(2026, 1, 1)),
    (2, None, Decimal("2.25"), None),
    (3, "dé", Decimal("0.00"), date(2026, 1, 3)),
    (4, "late", Decimal("4.00"), date(2026, 2, 1)),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database that every test starts from; it is made once and copied."""
    path = tmp_path_factory.mktemp("made") / "test.snapdb"
    with snapdb.connect(path) as db:
        db.script(SETUP)
    return path


@pytest.fixture
def shop(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    with snapdb.connect(shutil.copytree(made, tmp_path / "test.snapdb")) as db:
        yield db
    assert [name for name in os.listdir() if name.startswith(".")] == []  # nothing half-written stays


def read(path: str, how: str = "SELECT * FROM {}") -> list[tuple[object, ...]]:
    return duckdb.sql(how.format(text_literal(path))).fetchall()


@pytest.mark.parametrize(
    ("path", "options", "how"),
    [
        ("a.parquet", "", "SELECT * FROM {}"),
        ("a", "", "SELECT * FROM read_parquet({})"),
        ("a.pq", "(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 2048)", "SELECT * FROM read_parquet({})"),
        ("a.csv", "", "SELECT * FROM read_csv({}, types = {{'price': 'DECIMAL(9,2)'}})"),
        ("A.CSV.gz", "", "SELECT * FROM read_csv({}, types = {{'price': 'DECIMAL(9,2)'}})"),
        ("a.tsv", "", "SELECT * FROM read_csv({}, delim = '\t', types = {{'price': 'DECIMAL(9,2)'}})"),
        (
            "a.txt",
            "(DELIMITER ';', NULLSTR 'none')",
            "SELECT * FROM read_csv({}, delim = ';', nullstr = 'none', types = {{'price': 'DECIMAL(9,2)'}})",
        ),
        ("a.json", "", "SELECT id, what, price::DECIMAL(9,2), day FROM read_json({}, format = 'array')"),
        ("a.jsonl", "", "SELECT id, what, price::DECIMAL(9,2), day FROM read_json({}, format = 'newline_delimited')"),
        ("a.x", "WITH (FORMAT ndjson)", "SELECT id, what, price::DECIMAL(9,2), day FROM read_json({})"),
    ],
)
def test_a_table_comes_back_out_of_every_format(shop: Database, path: str, options: str, how: str) -> None:
    done = shop.execute(f"COPY bought TO '{path}' {options}")
    assert (done.message, done.rowcount) == (f"4 rows to {path}", 4)
    assert read(path, how) == ROWS


def test_arrow_files_keep_types(shop: Database) -> None:
    shop.execute("COPY bought TO 'a.arrow'")
    with pa.memory_map("a.arrow") as source:
        table = pa.ipc.open_file(source).read_all()
    assert table.equals(shop.execute("FROM bought").arrow())
    shop.execute("COPY (FROM bought WHERE false) TO 'none.arrow'")
    with pa.memory_map("none.arrow") as source:
        assert pa.ipc.open_file(source).read_all().schema == table.schema


def test_sums_stay_whole_in_parquet(shop: Database) -> None:
    shop.execute("COPY (SELECT sum(id) AS s, 'x' AS \"odd \"\"name\" FROM bought) TO 'sum.parquet'")
    assert read("sum.parquet") == [(10, "x")]
    assert duckdb.sql("FROM 'sum.parquet'").columns == ["s", 'odd "name']


def test_columns_versions_elements_and_queries_are_written(shop: Database) -> None:
    shop.execute("COPY bought AT (VERSION => 2) (what, ID) TO 'columns.csv'")
    assert Path("columns.csv").read_text() == 'what,id\n"a ""b"", c",1\n,2\ndé,3\n'
    shop.execute("COPY q.ITEM TO 'element.csv' (HEADER false)")
    assert Path("element.csv").read_text() == '1,"a ""b"", c"\n2,\n3,dé\n'
    shop.execute("COPY (SELECT count(*) AS n FROM bought AT (VERSION => 2) WHERE id > $least) TO 'n.csv'", {"least": 1})
    assert Path("n.csv").read_text() == "n\n2\n"
    shop.execute("COPY (WITH o AS (FROM q.item) SELECT max(name) AS m FROM o -- the last\n) TO 'with.json'")
    assert json.loads(Path("with.json").read_text()) == [{"m": "dé"}]


def test_a_file_that_is_there_is_replaced_only_by_a_whole_one(shop: Database) -> None:
    Path("kept.csv").write_text("old")
    with refused("query"):
        shop.execute("COPY (SELECT CASE WHEN range > 500000 THEN error('boom') END FROM range(600000)) TO 'kept.csv'")
    assert Path("kept.csv").read_text() == "old"
    shop.execute("COPY (SELECT 1 AS a) TO 'kept.csv'")
    assert Path("kept.csv").read_text() == "a\n1\n"


@pytest.mark.parametrize("path", ["huge.csv", "huge.arrow"])
def test_a_stopped_copy_leaves_nothing(shop: Database, path: str) -> None:
    stopper = threading.Timer(0.3, shop.interrupt)
    stopper.start()
    try:
        with pytest.raises(snapdb.QueryError) as raised:
            shop.execute(f"COPY (SELECT a.range, b.range FROM range(1000000) a, range(100000) b) TO '{path}'")
    finally:
        stopper.cancel()
    assert raised.value.code == "interrupted"
    assert not Path(path).exists()
    assert shop.execute("SELECT count(*) FROM bought").fetchone() == (4,)


def test_a_link_is_written_through(shop: Database) -> None:
    Path("real.csv").write_text("")
    Path("link.csv").symlink_to("real.csv")
    shop.execute("COPY (SELECT 1 AS a) TO 'link.csv'")
    assert Path("link.csv").is_symlink()
    assert Path("real.csv").read_text() == "a\n1\n"


def test_a_link_to_no_file_is_no_way_round(shop: Database) -> None:
    Path("link.csv").symlink_to("next")
    Path("next").symlink_to("/dev/stdout")
    Path("devices").symlink_to("/dev")
    for path in ("link.csv", "devices/stdout"):
        with refused("unwritable-file"):
            shop.execute(f"COPY bought TO '{path}'")


def test_a_name_may_be_as_long_as_names_are(shop: Database) -> None:
    shop.execute(f"COPY bought TO '{'ü' * 125}.csv'")
    with refused("unwritable-file"):
        shop.execute(f"COPY bought TO '{'a' * 256}.csv'")
    assert os.listdir() == [f"{'ü' * 125}.csv"]


def test_a_disk_that_is_full_is_said(shop: Database) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        for ending in ("csv", "parquet", "arrow", "json"):
            with refused("unwritable-file"):
                shop.execute(f"COPY (SELECT hash(range) AS h FROM range(100000)) TO 'big.{ending}'")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir() == []


def test_facts_are_written_as_tables_are(shop: Database) -> None:
    assert shop.execute("COPY SNAPDB.Tables (name, rows) TO 'facts.csv'").rowcount == 2
    assert Path("facts.csv").read_text() == "name,rows\nbought,4\nnewer,0\n"
    with refused("unknown-table", at="tabls"):
        shop.execute("COPY snapdb.tabls TO 'facts.csv'")


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_bytes_come_back(shop: Database, ending: str) -> None:
    shop.execute("CREATE TABLE raw (a BLOB)")
    shop.execute("INSERT INTO raw VALUES ('\\x00\\xFF\\x5Cab\\x22'), (NULL)")
    rows = shop.execute("FROM raw").fetchall()
    shop.script(f"COPY raw TO 'raw.{ending}'; DELETE FROM raw; COPY raw FROM 'raw.{ending}'")
    assert shop.execute("FROM raw").fetchall() == rows


def test_names_of_files_are_only_names(shop: Database) -> None:
    path = "it's; DROP TABLE bought;--\"ü.csv"
    shop.execute(f"COPY bought TO {text_literal(path)}")
    assert os.listdir() == [path]
    assert len(shop.execute("FROM bought").fetchall()) == 4


def test_a_transaction_writes_what_it_sees(shop: Database) -> None:
    shop.script("BEGIN; DELETE FROM bought WHERE id > 1; COPY bought (id) TO 'seen.csv'; ROLLBACK;")
    assert Path("seen.csv").read_text() == "id\n1\n"
    assert len(shop.execute("FROM bought").fetchall()) == 4


def test_a_database_that_is_only_read_can_be_copied_out(shop: Database) -> None:
    shop.close()
    with snapdb.connect(Path("..") / "test.snapdb", read_only=True) as reader:
        assert reader.execute("COPY bought TO 'out.csv'").rowcount == 4


@pytest.mark.parametrize(
    ("statement", "place", "code"),
    [
        ("COPY bought TO ''", "''", "bad-path"),
        ("COPY bought TO '.'", "'.'", "unwritable-file"),
        ("COPY bought TO '/dev/null'", "'/dev/null'", "unwritable-file"),
        ("COPY bought TO 'no/such.csv'", "'no/such.csv'", "unwritable-file"),
        ("COPY bought TO 'no/such.arrow'", "'no/such.arrow'", "unwritable-file"),
        ("COPY bought TO '../test.snapdb/new.csv'", "'../test.snapdb/new.csv'", "unwritable-file"),
        ("COPY bought TO 'x' (FORMAT parqet)", "FORMAT", "unknown-format"),
        ("COPY bought TO 'x.csv' (HEADR)", "HEADR", "unknown-option"),
        ("COPY bought TO 'x.arrow' (COMPRESSION zstd)", "COMPRESSION", "unknown-option"),
        ("COPY bought TO 'x.csv' (DELIM ';', SEP ',')", "SEP", "duplicate-clause"),
        ("COPY bought TO 'x.csv' (FORMAT csv, FORMAT json)", "FORMAT", "duplicate-clause"),
        ("COPY bought TO 'x' (PARTITION_BY (day))", "PARTITION_BY", "unknown-option"),
        ("COPY bougth TO 'x'", "bougth", "unknown-table"),
        ("COPY bought (wat) TO 'x'", "wat", "unknown-column"),
        ("COPY bought AT (VERSION => 99) TO 'x'", "99", "unknown-version"),
        ("COPY newer AT (VERSION => 1) TO 'x'", "newer", "unknown-table"),
        ("COPY q.itm TO 'x'", "itm", "unknown-element"),
        ("COPY z.item TO 'x'", "z", "unknown-snapshot"),
        ("COPY q.item AT (VERSION => 1) TO 'x'", "AT (VERSION => 1)", "at-place"),
        ("COPY (SELECT nope FROM bought) TO 'x.csv'", "nope", "unknown-column"),
        ("COPY (DELETE FROM bought) TO 'x.csv'", "DELETE", "unexpected-word"),
        ("COPY () TO 'x.csv'", ")", "unexpected-word"),
        ("COPY bought TO x", "x", "unexpected-word"),
        ("COPY (SELECT '12:00+02'::TIMETZ AS t) TO 'x.arrow'", "SELECT '12:00+02'::TIMETZ AS t", "column-type"),
        ("COPY bought FROM 'x' (FORCE_QUOTE (id))", "id", "bad-option"),
    ],
)
def test_what_cannot_be_written_is_said_at_its_place(shop: Database, statement: str, place: str, code: str) -> None:
    with refused(code, at=place):
        shop.execute(statement)
    assert os.listdir() == []


def test_arrow_files_refuse_an_integer_beyond_their_own(shop: Database, tmp_path: Path) -> None:
    path = tmp_path / "large.arrow"
    with refused("not-in-arrow", "127") as caught:
        shop.execute(f"COPY (SELECT 340282366920938463463374607431768211455::UHUGEINT AS a) TO '{path}'")
    assert caught.value.code == "not-in-arrow"
    assert not path.exists()
