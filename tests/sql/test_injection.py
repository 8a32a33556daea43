"""A name or a text is only ever that: whatever it holds, what is made has that name, and nothing else happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import snapdb
from snapdb import Database
from tests.support.inside import catalog_db_of
from tests.support.refusals import refused

NASTY = [
    "it's",
    'say "hi"',
    "a;b",
    "x; DROP TABLE kept; --",
    '"; DROP TABLE kept; --',
    "'; DROP TABLE kept; --",
    "');DROP TABLE kept;--",
    "]]; /* */ --",
    "$$; DROP TABLE kept; $$",
    "{date}",
    "%s ? $x :y",
    "back\\slash",
    "\u202egnirts",
    "zero\u200bwidth",
    "名前 😀",
    "select",
    "AT",
    "e_id'",
]
TEXTS = [*NASTY, "new\nline", "tab\tand\r\n", "\x01\x7f"]
"""Names hold no control characters; texts do."""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def table(db: Database, name: str) -> list[tuple[object, ...]]:
    return db.execute(f"SELECT * FROM {quoted(name)} ORDER BY ALL").fetchall()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with snapdb.connect(tmp_path_factory.mktemp("injection") / "d.snapdb") as db:
        db.execute("CREATE TABLE kept AS SELECT 1 AS a")
        yield db


@pytest.fixture
def db(shared: Database) -> Iterator[Database]:
    """A database with one table, which holds the same after each test, and nothing beside it."""
    yield shared
    assert shared.execute("SELECT a FROM kept").fetchall() == [(1,)]
    assert shown(shared, "TABLES") == {"kept"}


def shown(db: Database, what: str) -> set[str]:
    rows = db.execute(f"SHOW {what}").arrow().to_pylist()
    return {row.get("name") or row.get("tag") or row.get("table") for row in rows}


@pytest.mark.parametrize("name", NASTY)
def test_a_table_and_its_columns_have_exactly_the_names_that_were_written(db: Database, name: str) -> None:
    q = quoted(name)
    db.execute(f"CREATE TABLE {q} ({q} BIGINT, other VARCHAR) MESSAGE {text(name)}")
    db.execute(f"INSERT INTO {q} ({q}, other) VALUES (1, {text(name)})")
    db.execute(f"INSERT INTO {q} SELECT 2, ?", [name])
    db.execute(f"UPDATE {q} AS {quoted(name + '2')} SET {q} = {q} + 1, other = {text(name)} WHERE other = {text(name)}")
    assert table(db, name) == [(2, name), (3, name)]
    db.execute(f"ALTER TABLE {q} RENAME {q} TO {quoted(name + ' again')}")
    db.execute(f"ALTER TABLE {q} ADD COLUMN {q} VARCHAR DEFAULT {text(name)}")
    result = db.execute(f"SELECT * FROM {q} AS {quoted(name + ' alias')}")
    assert list(result.columns) == [name + " again", "other", name]
    db.execute(f"DELETE FROM {q} WHERE other <> {text(name)} OR {quoted(name + ' again')} = 3")
    assert table(db, name) == [(2, name, name)]
    assert shown(db, "TABLES") == {"kept", name}
    assert name in {row["message"] for row in db.execute("SHOW VERSIONS").arrow().to_pylist()}
    db.execute(f"DROP TABLE {q}")
    assert shown(db, "TABLES") == {"kept"}


def test_names_of_tags_are_those_of_anything_else_and_odd_ones_of_older_databases_stay(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "d.snapdb") as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS a")
        odd = ("line\nend", "\x1b[31mred", "nul\x7f", "c1\x9b", "x" * 5000, "")
        for name in odd:
            for statement in ("CREATE TAG {}", "CREATE OR REPLACE TAG {}", "CREATE TABLE {} (a INTEGER)"):
                with refused("bad-name" if name else "empty-name", at=quoted(name)):
                    db.execute(statement.format(quoted(name)))
        db.execute(f"CREATE TAG {quoted('x' * 200)}")
        with catalog_db_of(db).writing() as connection:  # as an older snapdb made them
            connection.executemany("INSERT INTO tags VALUES (?, ?, 1)", [(name, name) for name in odd if name])
        db.execute("INSERT INTO t VALUES (2)")
        for name in filter(None, odd):
            assert (name,) in db.execute("SELECT name FROM snapdb.tags").fetchall()
            literal = name.replace("'", "''")
            assert db.execute(f"SELECT count(*) FROM t AT (TAG => '{literal}')").fetchone() == (1,)
            db.execute(f"CREATE OR REPLACE TAG {quoted(name)}")
            assert db.execute(f"SELECT count(*) FROM t AT (TAG => '{literal}')").fetchone() == (2,)
            db.execute(f"DROP TAG {quoted(name)}")
        assert len(db.execute("SHOW TAGS").fetchall()) == 1


@pytest.mark.parametrize("name", NASTY[::4])
def test_graphs_snapshots_tags_and_samplers_have_exactly_their_names(db: Database, name: str) -> None:
    q, edge, graph, snapshot = quoted(name), quoted(name + " e"), quoted(name + " g"), quoted(name + " s")
    db.execute(f"CREATE TABLE {q} AS SELECT range AS {q} FROM range(4)")
    db.execute(f"CREATE TABLE {edge} AS SELECT range AS {q}, range AS b FROM range(4)")
    db.execute(f"CREATE TAG {q}")
    db.execute(
        f"CREATE PROPERTY GRAPH {graph} VERTEX TABLES ({q} KEY ({q})) EDGE TABLES ({edge} SOURCE KEY ({q}) "
        f"REFERENCES {q} ({q}) DESTINATION KEY (b) REFERENCES {q} ({q}))"
    )
    db.execute(f"CREATE SNAPSHOT {snapshot} OF {graph} ELEMENTS ({q}, {edge}) WHERE {edge}.{q} >= 0")
    sample = f"SAMPLE FROM {snapshot} SEEDS (SELECT {q} FROM {q}) AS {q} FANOUT ({edge} => [2]) BATCH 2"
    db.execute(f"CREATE SAMPLER {q} AS {sample}")
    assert shown(db, "TAGS") == shown(db, "SAMPLERS") == {name}
    assert shown(db, "GRAPHS") == {name + " g"}
    assert shown(db, "SNAPSHOTS") == {name + " s"}
    assert {row[2] for row in db.execute(f"SAMPLE USING {q}").fetchall()} == {name + " e"}
    assert len(db.execute(f"SELECT * FROM {snapshot}.{edge}").fetchall()) == 4
    assert len(table(db, name)) == len(db.execute(f"SELECT * FROM {q} AT (TAG => {text(name)})").fetchall()) == 4
    assert [row["name"] for row in db.execute(f"SHOW TAGS LIKE {text(name)}").arrow().to_pylist()] == [name]
    for kind, dropped in (("SAMPLER", q), ("SNAPSHOT", snapshot), ("GRAPH", graph), ("TAG", q)):
        db.execute(f"DROP {kind} {dropped}")
    db.script(f"DROP TABLE {q}; DROP TABLE {edge};")
    assert shown(db, "GRAPHS") == shown(db, "SNAPSHOTS") == shown(db, "TAGS") == shown(db, "SAMPLERS") == set()


@pytest.mark.parametrize("name", [name for name in NASTY if not set(name) & set("*?[{")])
def test_a_file_is_read_and_written_by_exactly_its_path(db: Database, tmp_path: Path, name: str) -> None:
    plain = name.replace("/", "_")
    path = tmp_path / "files" / f"{plain}.csv"
    path.parent.mkdir()
    db.execute(f"COPY kept TO {text(str(path))}")
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    db.execute("CREATE TABLE back (a BIGINT)")
    db.execute(f"COPY back FROM {text(str(path))} MESSAGE {text(name)}")
    assert table(db, "back") == [(1,)]
    db.execute("DROP TABLE back")


@pytest.mark.parametrize("name", NASTY)
def test_registered_data_has_exactly_its_name(db: Database, name: str) -> None:
    db.register(name, pa.table({name: [7]}))
    result = db.execute(f"SELECT * FROM {quoted(name)}")
    assert (list(result.columns), result.fetchall()) == ([name], [(7,)])
    db._session.sources.clear()


@pytest.mark.parametrize("value", [*TEXTS, "a" * 10**6, "'" * 10**6])
def test_a_parameter_is_a_value_whatever_it_holds(db: Database, value: str) -> None:
    assert db.execute("SELECT $x || '', length($x)", {"x": value}).fetchone() == (value, len(value))
    assert db.execute(f"SELECT {text(value)}").fetchone() == (value,)


def test_a_name_that_is_too_long_is_an_error(db: Database) -> None:
    long = "a" * 10**5
    with pytest.raises(snapdb.SnapdbError):
        db.execute(f"SELECT * FROM {long}")
    with pytest.raises(snapdb.SnapdbError) as error:
        db.execute(f"DROP TABLE {quoted(long)}")
    assert len(str(error.value)) < 2000 + len(long)


def test_a_variable_of_python_is_no_table_where_variables_are_hidden(db: Database) -> None:
    batch = pa.table({"secret": [1]})
    assert batch.num_rows == 1
    db.variables = False
    for query in ("SELECT * FROM batch", "FROM batch", "SELECT (SELECT count(*) FROM batch)"):
        with refused("unknown-table", at="batch"):
            db.execute(query)
    with refused("unknown-table", at="batch"):
        db.execute("INSERT INTO kept SELECT secret FROM batch")


@pytest.mark.parametrize("scheme", ["http://127.0.0.1:9", "https://127.0.0.1:9", "s3://bucket", "hf://datasets"])
def test_nothing_is_read_from_the_network(db: Database, scheme: str) -> None:
    with pytest.raises(snapdb.SnapdbError):
        db.execute(f"SELECT * FROM '{scheme}/x.parquet'").fetchall()
    with pytest.raises(snapdb.SnapdbError):
        db.execute(f"COPY kept FROM '{scheme}/x.parquet'")


@pytest.mark.parametrize(
    "statement",
    [
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET autoload_known_extensions = true",
        "PRAGMA enable_profiling",
        "ATTACH 'x.db'",
        "SELECT 1; LOAD httpfs",
        "EXPLAIN ANALYZE LOAD httpfs",
        "EXPLAIN SET threads = 1",
        "COPY (LOAD httpfs) TO 'x.csv'",
        "(WITH a AS (SELECT 1) INSERT INTO kept SELECT 2)",
        "EXPLAIN ANALYZE INSERT INTO nothing SELECT 2",
    ],
)
def test_extensions_settings_and_hidden_writes_are_refused(db: Database, statement: str) -> None:
    with pytest.raises(snapdb.SnapdbError):
        db.script(statement)


def test_extensions_load_by_themselves_nowhere(db: Database) -> None:
    off = (
        "allow_community_extensions",
        "autoinstall_known_extensions",
        "autoload_known_extensions",
        "python_enable_replacements",
    )
    rows = db.execute("SELECT name, value FROM duckdb_settings() WHERE name IN (SELECT unnest(?))", [off]).fetchall()
    assert dict(rows) == dict.fromkeys(off, "false")


def test_files_are_read_as_the_user_may(db: Database, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("hello; DROP TABLE kept;")
    query = f"SELECT content FROM read_text('{tmp_path / 'plain.txt'}')"
    assert db.execute(query).fetchone() == ("hello; DROP TABLE kept;",)


@pytest.mark.parametrize("odd", ["\x00", "\ud800"], ids=["NUL", "surrogate"])
def test_what_nothing_can_hold_is_refused_where_it_stands(db: Database, odd: str) -> None:
    for statement in (f"SELECT 'a{odd}b'", f'CREATE TAG "a{odd}"', f"COPY kept TO 'a{odd}b.csv'", f"DROP TABLE{odd} t"):
        with refused("bad-character") as error:
            db.execute(statement)
        assert error.value.span == (statement.index(odd), statement.index(odd) + 1)
        assert str(error.value).encode()


def test_what_nothing_can_hold_is_a_value_or_an_error_as_a_parameter(db: Database) -> None:
    assert db.execute("SELECT ?", ["a\x00b"]).fetchone() == ("a\x00b",)
    with pytest.raises(snapdb.SnapdbError):
        db.execute("SELECT ?", ["\ud800"]).fetchone()
