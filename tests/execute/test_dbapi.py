"""`snapdb.dbapi`, as PEP 249 asks, and SQLAlchemy and pandas over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy as sa

import snapdb
from snapdb import dbapi
from tests.support.refusals import refused


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dbapi.Connection]:
    opened = dbapi.connect(tmp_path / "shop.snapdb")
    opened.execute("CREATE TABLE t (a INT NOT NULL, b VARCHAR)")
    opened.commit()
    yield opened
    opened.close()


def versions(connection: dbapi.Connection) -> int:
    (count,) = connection.execute("SELECT count(*) FROM snapdb.versions").fetchall()[0]
    return int(count)


def test_the_module_says_what_it_is() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 1, "qmark")
    assert issubclass(dbapi.IntegrityError, dbapi.DatabaseError)
    assert issubclass(dbapi.DatabaseError, dbapi.Error)
    assert issubclass(dbapi.InterfaceError, dbapi.Error)
    assert dbapi.DateFromTicks(0).year in (1969, 1970)
    assert dbapi.TimestampFromTicks(0).date() == dbapi.DateFromTicks(0)
    assert dbapi.TimeFromTicks(0).second == 0


def test_rows_and_their_description(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    cursor.executemany("INSERT INTO t VALUES (?, ?)", [(i, str(i)) for i in range(5)])
    assert (cursor.rowcount, cursor.description) == (5, None)
    cursor.execute("SELECT a, b FROM t WHERE a >= ? ORDER BY a", [1])
    assert cursor.description is not None
    assert [(column[0], column[1]) for column in cursor.description] == [("a", "INTEGER"), ("b", "VARCHAR")]
    assert cursor.description[0][1] == dbapi.NUMBER
    assert cursor.description[1][1] == dbapi.STRING
    assert cursor.description[1][1] != dbapi.BINARY
    assert cursor.rowcount == -1
    cursor.arraysize = 2
    assert (cursor.fetchone(), cursor.fetchmany(), cursor.fetchall(), cursor.fetchone()) == (
        (1, "1"),
        [(2, "2"), (3, "3")],
        [(4, "4")],
        None,
    )
    assert list(cursor.execute("SELECT a FROM t WHERE a = $a", {"a": 3})) == [(3,)]
    assert cursor.execute("FROM t").fetch_arrow_table().num_rows == 5


def test_changes_wait_for_a_commit(connection: dbapi.Connection) -> None:
    before = versions(connection)
    connection.execute("INSERT INTO t VALUES (1, 'x')")
    connection.execute("UPDATE t SET b = 'y'")
    assert connection.execute("FROM t").fetchall() == [(1, "y")]
    connection.rollback()
    assert connection.execute("FROM t").fetchall() == []
    with connection:
        connection.execute("INSERT INTO t VALUES (1, 'x')")
        connection.execute("INSERT INTO t VALUES (2, 'x')")
    assert versions(connection) == before + 1
    with suppress(KeyError), connection:
        connection.execute("DELETE FROM t")
        raise KeyError
    assert len(connection.execute("FROM t").fetchall()) == 2


def test_what_no_transaction_can_contain_commits_before(connection: dbapi.Connection) -> None:
    connection.execute("INSERT INTO t VALUES (1, 'x')")
    connection.execute("CREATE PROPERTY GRAPH g VERTEX TABLES (t KEY (a))")
    connection.execute("CREATE SNAPSHOT s OF g")
    connection.rollback()
    assert connection.execute("SELECT a FROM s.t").fetchall() == [(1,)]


def test_autocommit_makes_each_statement_a_version(tmp_path: Path) -> None:
    connection = dbapi.connect(tmp_path / "own.snapdb", autocommit=True)
    connection.execute("CREATE TABLE t (a INT)")
    connection.execute("INSERT INTO t VALUES (1)")
    before = versions(connection)
    connection.cursor().executemany("UPDATE t SET a = a + ?", [(1,), (2,)])
    assert versions(connection) == before + 1
    connection.rollback()
    assert connection.execute("FROM t").fetchall() == [(4,)]
    connection.close()


@pytest.mark.parametrize(
    ("statement", "kind", "code"),
    [
        ("SELEC 1", dbapi.ProgrammingError, "unknown-statement"),
        ("SELECT z FROM t", dbapi.ProgrammingError, "unknown-column"),
        ("INSERT INTO t VALUES ('q', 'x')", dbapi.DataError, "bad-value"),
        ("INSERT INTO t VALUES (NULL, 'x')", dbapi.IntegrityError, "not-null-broken"),
        ("CREATE INDEX i ON t (a)", dbapi.NotSupportedError, "refused"),
    ],
)
def test_errors_are_those_of_the_api(
    connection: dbapi.Connection, statement: str, kind: type[dbapi.Error], code: str
) -> None:
    with refused(code, kind=kind, recorded=False) as caught:
        connection.execute(statement)
    assert isinstance(caught.value.__cause__, snapdb.SnapdbError) or caught.value.__cause__ is None
    connection.rollback()


def test_a_wrong_use_is_an_interface_error(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    with refused("no-rows", kind=dbapi.InterfaceError):
        cursor.fetchone()
    cursor.close()
    with refused("closed-cursor", kind=dbapi.InterfaceError):
        cursor.execute("FROM t")


@pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy")
def test_variables_of_the_caller_are_tables(connection: dbapi.Connection) -> None:
    df = pd.DataFrame({"n": [3]})
    assert connection.execute("FROM df").fetchall() == [(3,)]
    assert connection.cursor().execute("FROM df").fetchall() == [(3,)]
    assert pd.read_sql("SELECT 1 AS one", connection).to_dict("list") == {"one": [1]}
    del df


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    made = sa.create_engine(f"snapdb:///{tmp_path / 'alchemy.snapdb'}")
    yield made
    made.dispose()


def test_pandas_writes_and_reads_tables(engine: sa.Engine) -> None:
    frame = pd.DataFrame(
        {"a": range(1200), "f": 0.1, "s": "x", "d": pd.Timestamp("2026-01-01 01:02:03.000004"), "b": True}
    )
    assert frame.to_sql("t", engine, index=False) == 1200
    frame.to_sql("t", engine, index=False, if_exists="append")
    back = pd.read_sql_table("t", engine)
    assert len(back) == 2400
    assert back.iloc[:1200].to_dict("list") == frame.to_dict("list")


def test_pandas_asks_for_indexes_in_vain(engine: sa.Engine) -> None:
    frame = pd.DataFrame({"a": [1, 2]})
    frame.to_sql("frame", engine)  # whose index would be an index of the table
    assert pd.read_sql("FROM frame", engine)["index"].tolist() == [0, 1]
    with engine.begin() as connection:
        sa.Index("by_a", sa.Table("frame", sa.MetaData(), autoload_with=engine).c.a).drop(connection)


def test_primary_keys_are_reflected(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (b, a))"))
    table = sa.Table("T", sa.MetaData(), autoload_with=engine)
    assert [column.name for column in table.primary_key] == ["b", "a"]
    with engine.begin() as connection:
        connection.execute(sa.insert(table).values(a=1, b=2, c=3))
        assert connection.execute(sa.select(table)).all() == [(1, 2, 3)]


def test_core_statements_and_reflection(engine: sa.Engine) -> None:
    made = sa.Table(
        "item",
        sa.MetaData(),
        sa.Column("k", sa.Integer, nullable=False),
        sa.Column("price", sa.Numeric(9, 2)),
        sa.Column("share", sa.Float),
        sa.Column("at", sa.DateTime(timezone=True)),
        sa.Column("note", sa.Text),
    )
    made.create(engine)
    table = sa.Table("item", sa.MetaData(), autoload_with=engine)
    assert [str(column.type) for column in table.columns] == [
        "INTEGER",
        "NUMERIC(9, 2)",
        "DOUBLE",
        "TIMESTAMP",
        "VARCHAR",
    ]
    assert not table.c.k.nullable
    with engine.begin() as connection:
        connection.execute(sa.insert(table), [{"k": 1, "note": "a"}, {"k": 2, "note": "b"}])
        connection.execute(sa.update(table).where(table.c.k == 1).values(note="c"))
        assert connection.execute(sa.delete(table).where(table.c.k == 2)).rowcount == 1
        assert connection.execute(sa.select(table.c.k, table.c.note)).all() == [(1, "c")]
    with suppress(KeyError), engine.begin() as connection:
        connection.execute(sa.insert(table).values(k=9))
        raise KeyError
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT max(k) FROM item WHERE k > :low"), {"low": 0}).scalar() == 1
        assert sa.inspect(connection).get_table_names() == ["item"]
        assert not sa.inspect(connection).has_table("nothing")
    with pytest.raises(sa.exc.ProgrammingError, match="nothing"), engine.connect() as connection:
        connection.execute(sa.text("FROM nothing"))
    with pytest.raises(sa.exc.NoSuchTableError):
        sa.Table("nothing", sa.MetaData(), autoload_with=engine)


def test_options_follow_the_path(tmp_path: Path) -> None:
    snapdb.connect(tmp_path / "shop.snapdb").close()
    engine = sa.create_engine(f"snapdb:///{tmp_path}/shop.snapdb?read_only=true&threads=1")
    with pytest.raises(sa.exc.DatabaseError, match="read-only"), engine.connect() as connection:
        connection.execute(sa.text("CREATE TABLE t (a INT)"))
    engine.dispose()
