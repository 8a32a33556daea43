"""Python values of results: type by type those of DuckDB's own Python client, and Arrow as its Arrow."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import snapdb
from snapdb import Database
from tests.support.refusals import refused

duckdb = pytest.importorskip("duckdb")

VALUES = r"""
NULL
NULL::INTEGER
true
1::TINYINT
-1::SMALLINT
7::INTEGER
9::BIGINT
170141183460469231731687303715884105727::HUGEINT
-5::HUGEINT
1::UTINYINT
2::USMALLINT
3::UINTEGER
18446744073709551615::UBIGINT
5::UHUGEINT
340282366920938463463374607431768211455::UHUGEINT
123456789012345678901234567890123456789012345::BIGNUM
1.5::FLOAT
0.1::FLOAT
1.5::DOUBLE
'nan'::DOUBLE
'-inf'::DOUBLE
1.50::DECIMAL(4,2)
1.50::DECIMAL(9,2)
1.50::DECIMAL(18,2)
1.50::DECIMAL(38,2)
3::DECIMAL(38,0)
'a'::VARCHAR
''
'naïve 日本'
chr(0) || 'after NUL'
'{"a": 1}'::JSON
'\x00\xff'::BLOB
'10101'::BIT
'a'::ENUM('a', 'it''s')
'aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee'::UUID
'POINT(1 2)'::GEOMETRY
DATE '2020-01-02'
DATE '0044-03-15 (BC)'
DATE '20000-01-01'
DATE 'infinity'
DATE '-infinity'
TIME '01:02:03.5'
TIME '24:00:00'
TIME_NS '01:02:03.123456789'
TIMETZ '01:02:03.5+02'
TIMETZ '01:02:03-05:30'
TIMESTAMP '2020-01-02 03:04:05.6'
TIMESTAMP '0044-03-15 (BC) 01:00:00'
TIMESTAMP '20000-01-01'
TIMESTAMP 'infinity'
TIMESTAMP '-infinity'
TIMESTAMP_S '2020-01-02 03:04:05'
TIMESTAMP_S 'infinity'
TIMESTAMP_MS '2020-01-02 03:04:05.6'
TIMESTAMP_MS '-infinity'
TIMESTAMP_NS '2020-01-02 03:04:05.123456789'
TIMESTAMP_NS 'infinity'
TIMESTAMPTZ '2020-01-02 03:04:05+02'
TIMESTAMPTZ 'infinity'
TIMESTAMPTZ '0044-03-15 (BC) 01:00:00+00'
TIMESTAMPTZ '20000-01-01 00:00:00+00'
INTERVAL '1 month 2 days 3 seconds'
INTERVAL '-1 year'
INTERVAL '3 microseconds'
[1, 2, NULL]
[]::INTEGER[]
[1, 2]::INTEGER[2]
[[1], [2]]::INTEGER[1][2]
{'a': 1, 'b': 'x'}
{'element1': 1}
row(1, 'x')
MAP {'a': 1, 'b': 2}
MAP {[1]: 2}
MAP {{'a': 1}: 2}
MAP {}
union_value(num := 2)::UNION(num INTEGER, word VARCHAR)
union_value(word := 'q')::UNION(num INTEGER, word VARCHAR)
{'a': 1}::VARIANT
[1, 'a'::VARIANT]
""".strip().splitlines()

WITHIN: dict[str, Callable[[str], str]] = {
    "alone": str,
    "in a list": lambda value: f"[{value}, NULL]",
    "in an array": lambda value: f"array_value({value})",
    "in a struct": lambda value: f"{{'a': {value}}}",
    "in a row": lambda value: f"row({value})",
    "in a map": lambda value: f"MAP {{1: {value}}}",
    "as a key": lambda value: f"MAP {{{value}: 1}}",
    "deep": lambda value: f"[{{'a': [row({value})]}}]",
}


@pytest.fixture(scope="module")
def snap() -> Iterator[Database]:
    with snapdb.connect() as db:
        yield db


@pytest.fixture(scope="module")
def duck() -> Any:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def result(read: Callable[[], Any]) -> Any:
    """What reading gives, as text, which keeps types apart and NaN equal to itself; or its error."""
    try:
        return repr(read())
    except (duckdb.Error, snapdb.SnapdbError) as error:
        return error


def test_there_are_enough_values() -> None:
    assert len(set(VALUES)) == len(VALUES) >= 69


@pytest.mark.parametrize("place", WITHIN)
@pytest.mark.parametrize("value", VALUES)
def test_python_values_are_those_of_duckdb(value: str, place: str, snap: Database, duck: Any) -> None:
    query = f"SELECT {WITHIN[place](value)} AS v"
    wanted, given = (result(lambda db=db: db.execute(query).fetchall()) for db in (duck, snap))
    if isinstance(wanted, duckdb.Error) and "pytz" in str(wanted):  # what DuckDB's client cannot do without a package
        assert "zoneinfo.ZoneInfo(key='UTC')" in given
    elif isinstance(wanted, duckdb.Error):  # NULL is no key of a map
        assert isinstance(given, snapdb.SnapdbError)
    else:
        assert given == wanted


@pytest.mark.parametrize("value", VALUES)
def test_arrow_is_that_of_duckdb(value: str, snap: Database, duck: Any) -> None:
    for place in ("alone", "in a list", "deep"):
        query = f"SELECT {WITHIN[place](value)} AS v, 1 AS one"
        wanted, given = duck.sql(query).to_arrow_table(), snap.execute(query)
        assert given.schema.equals(wanted.schema, check_metadata=True)
        if "340282" not in value:  # UHUGEINT beyond what Arrow carries
            assert given.arrow().equals(wanted) or "nan" in value


@pytest.mark.skipif(importlib.util.find_spec("pytz") is not None, reason="DuckDB's own client gives the zones")
def test_moments_with_a_zone_need_no_package(snap: Database) -> None:
    at = datetime(2020, 1, 2, 1, 4, 5, tzinfo=ZoneInfo("UTC"))
    moment = "TIMESTAMPTZ '2020-01-02 03:04:05+02'"
    query = f"""SELECT {moment}, [{moment}], array_value({moment}), {{'a': {moment}, 'TIME "x': 1}}, row(1, {moment}),
        MAP {{{moment}: {moment}}}, MAP {{[{moment}]: 1}}, NULL::TIMESTAMPTZ, NULL::TIMESTAMPTZ[],
        TIMESTAMPTZ 'infinity', TIMESTAMPTZ '0044-03-15 (BC) 01:00:00+00'"""
    assert snap.execute(query).fetchall() == [
        (
            at,
            [at],
            (at,),
            {"a": at, 'TIME "x': 1},
            (1, at),
            {at: at},
            {"key": [[at]], "value": [1]},
            None,
            None,
            datetime.max,
            "0044-03-15 (BC) 01:00:00+00",
        )
    ]
    with refused("package-missing"):
        snap.execute(f"SELECT union_value(at := {moment})").fetchall()


def test_rows_come_one_some_or_all(snap: Database, duck: Any) -> None:
    query = "SELECT range AS i, DATE '2020-01-01' + range::INTEGER AS d, range AS i FROM range(2500)"
    rows = duck.execute(query).fetchall()
    shown = snap.execute(query)
    assert (shown.fetchone(), shown.fetchmany(), shown.fetchmany(2)) == (rows[0], rows[1:2], rows[2:4])
    assert shown.fetchmany(2000) == rows[4:2004]
    assert shown.fetchmany(0) == []
    assert shown.fetchall() == rows[2004:]
    assert shown.fetchmany(1000) == rows[2004:]
    assert (shown.fetchone(), shown.fetchmany(3)) == (None, [])
    assert shown.arrow().num_rows == 2500
    with pytest.raises(ValueError, match="size must be 0 or more"):
        shown.fetchmany(-1)
    one = snap.execute(query)
    assert list(iter(one.fetchone, None)) == rows


def test_batches_and_tables_are_the_same_whatever_is_read_first(snap: Database, duck: Any) -> None:
    query = """SELECT i * 3::HUGEINT AS h, i % 2 = 0 AS b, [i % 3 = 0] AS l, row(i) AS r, 'a'::ENUM('a') AS e
        FROM range(150_000) t(i)"""
    wanted = duck.sql(query).to_arrow_table()
    assert pa.Table.from_batches(list(snap.execute(query))).equals(wanted)
    read = snap.execute(query)
    assert read.fetchone() == (0, True, [True], (0,), "a")
    assert pa.Table.from_batches(list(read)).equals(wanted)
    assert pa.table(read).equals(wanted)
    assert snap.execute(query).arrow().equals(wanted)


def test_no_rows_have_the_columns_of_duckdb(snap: Database, duck: Any) -> None:
    query = "SELECT true AS b, [1::HUGEINT] AS h, [union_value(a := true)] AS u, row(1) AS r WHERE false"
    none = snap.execute(query)
    assert none.schema == duck.sql(query).to_arrow_table().schema
    assert (none.fetchall(), none.arrow().num_rows, none.columns) == ([], 0, ["b", "h", "u", "r"])


@pytest.mark.parametrize("place", ["alone", "in a list", "deep"])
def test_a_uhugeint_that_arrow_cannot_carry_says_so(place: str, snap: Database) -> None:
    query = f"SELECT {WITHIN[place]('(2::UHUGEINT ** 1)::UHUGEINT + 340282366920938463463374607431768211453')} AS u"
    kept = snap.execute(query)
    assert "340282366920938463463374607431768211455" in str(kept.fetchall())
    for read in (kept.arrow, kept.df, lambda: list(snap.execute(query))):
        with refused("not-in-arrow", "127", "VARCHAR") as error:
            read()
        assert error.value.code == "not-in-arrow"


def test_settings_of_one_query_leave_the_next_as_it_was(snap: Database) -> None:
    half_read = iter(snap.execute("SELECT true AS b FROM range(500_000)"))
    next(half_read)
    del half_read
    snap.execute("CREATE TABLE kept AS SELECT range % 2 = 0 AS b, range AS i FROM range(10)")
    assert snap.execute("SELECT * FROM kept WHERE b").arrow().schema.field("b").type == pa.bool_()
    assert snap.execute("DELETE FROM kept WHERE b").rowcount == 5


def test_changed_rows_have_the_same_values(snap: Database) -> None:
    snap.script(
        "CREATE TABLE day (id BIGINT, at TIMETZ, key UUID); INSERT INTO day VALUES "
        "(1, '01:02:03+02', 'aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee')"
    )
    rows = snap.execute("SELECT * FROM day").fetchall()
    assert repr(rows[0][1:]).count("UUID(") == 1
