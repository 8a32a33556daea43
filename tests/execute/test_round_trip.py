"""Every value comes back as it went in, with its type: what plain DuckDB holds is the oracle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import snapdb
from snapdb import Database
from tests.support.refusals import refused
from tests.support.thoroughness import SOAK

Literals = SearchStrategy[str]


class Kind(NamedTuple):
    """A type, as SQL, with literals of it."""

    type: str
    edges: tuple[str, ...]
    """Extremes, each a SQL literal."""
    some: Literals

    def literals(self) -> Literals:
        """NULL, extremes and other values, each cast to the type."""
        plain = st.just("NULL") | st.sampled_from(self.edges) | self.some
        return plain.map(lambda text: f"CAST({text} AS {self.type})")


def text(value: object) -> str:
    """A SQL string."""
    return "'" + str(value).replace("'", "''") + "'"


def integers(type_: str, low: int, high: int) -> Kind:
    return Kind(type_, (text(low), text(high), "0"), st.integers(low, high).map(text))


def decimals(width: int, scale: int) -> Kind:
    """Texts are put together by hand: Python's Decimal rounds to 28 digits."""

    def spelled(digits: int) -> str:
        whole, part = divmod(abs(digits), 10**scale)
        return text(f"{'-' if digits < 0 else ''}{whole}.{part:0{scale}}" if scale else str(digits))

    top = 10**width - 1
    return Kind(f"DECIMAL({width},{scale})", (spelled(top), spelled(-top), "0"), st.integers(-top, top).map(spelled))


def moments(type_: str, spec: str, edges: tuple[str, ...]) -> Kind:
    between = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))
    return Kind(type_, tuple(map(text, edges)), between.map(lambda moment: text(moment.isoformat(" ", spec))))


WIDE = 10**38 - 1
WORDS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
FLOATS = st.floats(allow_nan=True, width=64)
INFINITE = ("infinity", "-infinity", "1970-01-01", "1969-12-31 23:59:59")

LEAVES = (
    Kind("BOOLEAN", ("true", "false"), st.booleans().map(str)),
    integers("TINYINT", -(2**7), 2**7 - 1),
    integers("SMALLINT", -(2**15), 2**15 - 1),
    integers("INTEGER", -(2**31), 2**31 - 1),
    integers("BIGINT", -(2**63), 2**63 - 1),
    integers("HUGEINT", -WIDE, WIDE),
    integers("UTINYINT", 0, 2**8 - 1),
    integers("USMALLINT", 0, 2**16 - 1),
    integers("UINTEGER", 0, 2**32 - 1),
    integers("UBIGINT", 0, 2**64 - 1),
    integers("UHUGEINT", 0, WIDE),
    Kind("FLOAT", ("'nan'", "'inf'", "'-inf'", "'-0.0'", "'1e-45'", "'3.4028235e38'"), st.floats(width=32).map(text)),
    Kind("DOUBLE", ("'nan'", "'inf'", "'-inf'", "'-0.0'", "'5e-324'", "'1.7976931348623157e308'"), FLOATS.map(text)),
    decimals(4, 1),
    decimals(9, 9),
    decimals(18, 3),
    decimals(38, 0),
    decimals(38, 37),
    Kind(
        "VARCHAR",
        ("''", "' '", "'NULL'", "chr(0) || 'nul'", "'é ☃ 😀 \u202e'", "repeat('long ', 2000)"),
        WORDS.map(text),
    ),
    Kind(
        "BLOB",
        ("''", r"'\x00\xFF'", "'NULL'"),
        st.binary(max_size=12).map(lambda b: text("".join(f"\\x{x:02X}" for x in b))),
    ),
    Kind(
        "DATE",
        ("'infinity'", "'-infinity'", "'0001-01-01'", "'5877642-06-25 (BC)'", "'5881580-07-10'"),
        st.dates().map(text),
    ),
    Kind("TIME", ("'00:00:00'", "'23:59:59.999999'", "'24:00:00'"), st.times().map(text)),
    Kind(
        "TIME_NS",
        ("'00:00:00'", "'23:59:59.999999999'"),
        st.times().map(lambda t: text(f"{t.isoformat('microseconds')}001")),
    ),
    Kind(
        "TIMETZ",
        ("'00:00:00+00'", "'23:59:59.999999+15:59'", "'12:00:00-15:59:59'", "'24:00:00+02'"),
        st.times().map(lambda t: text(f"{t}-05:30")),
    ),
    moments("TIMESTAMP", "microseconds", (*INFINITE, "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806")),
    moments("TIMESTAMP_S", "seconds", (*INFINITE, "290309-12-22 (BC) 00:00:00")),
    moments("TIMESTAMP_MS", "milliseconds", (*INFINITE, "294247-01-10 04:00:54.775")),
    moments(
        "TIMESTAMP_NS",
        "microseconds",
        (*INFINITE[:3], "1677-09-22 00:12:43.145224193", "2262-04-11 23:47:16.854775806"),
    ),
    moments("TIMESTAMPTZ", "microseconds", (*INFINITE, "2026-03-01 00:00:00+14", "290309-12-22 (BC) 00:00:00+00")),
    Kind(
        "INTERVAL",
        ("'1 month'", "'-1 month'", "'1 microsecond'", "'-3 days 2 months -1 microsecond'", "'0 days'"),
        st.tuples(st.integers(-100_000, 100_000), st.integers(-100_000, 100_000), st.integers(-(10**15), 10**15)).map(
            lambda p: text(f"{p[0]} months {p[1]} days {p[2]} microseconds")
        ),
    ),
    Kind(
        "UUID",
        ("'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
        st.uuids().map(text),
    ),
    Kind(
        """ENUM('sad', 'it''s', '', '☃ "q"')""", ("'sad'", "''", """'☃ "q"'"""), st.sampled_from(("'it''s'", "'sad'"))
    ),
)

KEYS = tuple(k for k in LEAVES if k.type in ("VARCHAR", "BIGINT", "UUID", "DATE", "HUGEINT"))
FIELDS = ("a", "B", "two words", 'a "quote"', "at", "ключ")


def list_of(item: Kind) -> Kind:
    return Kind(f"{item.type}[]", ("[]", "[NULL]"), st.lists(item.literals(), max_size=4).map(bracketed))


def array_of(item: Kind, length: int) -> Kind:
    def of(values: Literals) -> Literals:
        return st.lists(values, min_size=length, max_size=length).map(bracketed)

    return Kind(f"{item.type}[{length}]", (f"[{', '.join(['NULL'] * length)}]",), of(item.literals()))


def struct_of(items: tuple[Kind, ...]) -> Kind:
    names = ['"' + name.replace('"', '""') + '"' for name in FIELDS[: len(items)]]
    fields = ", ".join(f"{name} {item.type}" for name, item in zip(names, items, strict=True))
    values = st.tuples(*(item.literals() for item in items))
    return Kind(f"STRUCT({fields})", (_struct(["NULL"] * len(items)),), values.map(_struct))


def union_of(items: tuple[Kind, ...]) -> Kind:
    names = ['"' + name.replace('"', '""') + '"' for name in FIELDS[: len(items)]]
    members = ", ".join(f"{name} {item.type}" for name, item in zip(names, items, strict=True))
    empty = tuple(f"union_value({name} := NULL::{item.type})" for name, item in zip(names, items, strict=True))
    values = [
        item.literals().map(lambda value, name=name: f"union_value({name} := {value})")
        for name, item in zip(names, items, strict=True)
    ]
    return Kind(f"UNION({members})", empty, st.one_of(values))


def map_of(key: Kind, item: Kind) -> Kind:
    keys = (st.sampled_from(key.edges) | key.some).map(lambda k: f"CAST({k} AS {key.type})")
    pairs = st.lists(st.tuples(keys, item.literals()), max_size=3, unique_by=lambda pair: pair[0])
    return Kind(
        f"MAP({key.type}, {item.type})",
        ("MAP {}",),
        pairs.map(lambda found: "MAP {" + ", ".join(f"{k}: {v}" for k, v in found) + "}"),
    )


def bracketed(values: list[str]) -> str:
    return f"[{', '.join(values)}]"


def _struct(values: Any) -> str:
    names = [text(name) for name in FIELDS]
    return "{" + ", ".join(f"{n}: {v}" for n, v in zip(names, values, strict=False)) + "}"


def nested(inner: SearchStrategy[Kind]) -> SearchStrategy[Kind]:
    return st.one_of(
        inner.map(list_of),
        st.builds(array_of, inner, st.integers(1, 3)),
        st.lists(inner, min_size=1, max_size=3).map(tuple).map(struct_of),
        st.lists(inner, min_size=1, max_size=3).map(tuple).map(union_of),
        st.builds(map_of, st.sampled_from(KEYS), inner),
    )


KINDS = st.recursive(st.sampled_from(LEAVES), nested, max_leaves=4)
BY_NAME = {kind.type.split("(")[0]: kind for kind in LEAVES}
CHANGED = tuple(BY_NAME[name] for name in ("HUGEINT", "TIMESTAMP_S", "TIMESTAMP_MS", "INTERVAL", "TIMETZ", "ENUM"))
"""Leaves that Parquet itself would give back as another type or value."""
NESTED = (
    array_of(BY_NAME["FLOAT"], 3),
    array_of(BY_NAME["DOUBLE"], 2),
    list_of(BY_NAME["FLOAT"]),
    struct_of(tuple(BY_NAME[name] for name in ("FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "BLOB"))),
    *(struct_of((kind,)) for kind in CHANGED),
    *(list_of(list_of(kind)) for kind in CHANGED),
    union_of(CHANGED),
    union_of((array_of(BY_NAME["FLOAT"], 2), BY_NAME["HUGEINT"], BY_NAME["HUGEINT"])),
    union_of((union_of((BY_NAME["DATE"], list_of(union_of(CHANGED[:2])))), struct_of((union_of(CHANGED[2:]),)))),
    *(map_of(BY_NAME["UUID"], struct_of((BY_NAME["DATE"], kind))) for kind in CHANGED),
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Database]]:
    """One database for the module, in a list because tests open it anew."""
    held = [snapdb.connect(tmp_path_factory.mktemp("types") / "types.snapdb")]
    yield held
    held[0].close()


def reopened(held: list[Database]) -> Database:
    path = held[0].path
    held[0].close()
    held[0] = snapdb.connect(path)
    return held[0]


def seen(rows: Any, columns: int) -> list[tuple[Any, ...]]:
    """The values as text and hash, which in DuckDB tell all values of a type apart, with their types."""
    parts = "".join(f", typeof(v{i}), v{i}::VARCHAR, hash(v{i}), v{i} IS NULL" for i in range(columns))
    return rows.execute(f"SELECT id{parts} FROM t ORDER BY id").fetchall()


def check_round_trip(held: list[Database], columns: Sequence[tuple[Kind, list[str]]]) -> None:
    """The whole life of columns: two segments, a new process's view, an UPDATE beside them, and compaction.

    Args:
        held: The database of the module.
        columns: Of each column, its type and its values. Shorter columns end with NULL.
    """
    count = max(len(literals) for _, literals in columns)
    filled = [[*literals, *[f"CAST(NULL AS {kind.type})"] * (count - len(literals))] for kind, literals in columns]
    rows = [f"({i}, 0, {', '.join(values)})" for i, values in enumerate(zip(*filled, strict=True))]
    create = f"TABLE t (id INTEGER, other INTEGER, {', '.join(f'v{i} {k.type}' for i, (k, _) in enumerate(columns))})"
    half = count // 2
    inserts = [f"INSERT INTO t VALUES {', '.join(part)}" for part in (rows[:half], rows[half:]) if part]
    with duckdb.connect() as plain:
        for statement in (f"CREATE {create}", *inserts):
            plain.execute(statement)
        wanted = seen(plain, len(columns))
    db = held[0]
    for statement in (f"CREATE OR REPLACE {create}", *inserts):
        db.execute(statement)
    assert seen(db, len(columns)) == wanted
    assert seen(reopened(held), len(columns)) == wanted
    held[0].execute("UPDATE t SET other = 1 WHERE id % 2 = 0")
    assert seen(held[0], len(columns)) == wanted
    held[0].execute("VACUUM t RETAIN INTERVAL '0 seconds'")
    assert seen(held[0], len(columns)) == wanted
    assert seen(reopened(held), len(columns)) == wanted


FEW = settings(
    max_examples=2 if SOAK else 1,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
MORE = settings(FEW, max_examples=15 if SOAK else 5)


TYPES = LEAVES + NESTED
TABLES = 6
"""The number of tables among which the types are divided."""


@pytest.mark.parametrize("kinds", [TYPES[i::TABLES] for i in range(TABLES)], ids=lambda kinds: kinds[0].type)
@FEW
@given(data=st.data())
def test_values_of_every_type_come_back_as_they_went_in(
    kinds: tuple[Kind, ...], shared: list[Database], data: st.DataObject
) -> None:
    extremes = [[f"CAST({value} AS {kind.type})" for value in ("NULL", *kind.edges)] for kind in kinds]
    drawn = [data.draw(st.lists(kind.literals(), min_size=4, max_size=8)) for kind in kinds]
    check_round_trip(shared, [(k, [*e, *d]) for k, e, d in zip(kinds, extremes, drawn, strict=True)])


@MORE
@given(data=st.data())
def test_a_value_of_any_nested_type_comes_back_as_it_went_in(shared: list[Database], data: st.DataObject) -> None:
    kind = data.draw(nested(KINDS))
    check_round_trip(shared, [(kind, data.draw(st.lists(kind.literals(), min_size=1, max_size=5)))])


PARAMETERS: dict[str, tuple[str, list[Any]]] = {
    "bool": ("BOOLEAN", [True, False, None]),
    "int": ("BIGINT", [2**63 - 1, -(2**63), 0, None]),
    "wide int": ("HUGEINT", [WIDE, -WIDE, None]),
    "float": ("DOUBLE", [float("inf"), float("-inf"), -0.0, 5e-324, None]),
    "str": ("VARCHAR", ["", "naïve ☃ 😀", "it's; -- no comment", "a\nb", None]),
    "bytes": ("BLOB", [b"", b"\x00\xff", None]),
    "Decimal": ("DECIMAL(38,9)", [Decimal("-12345678901234567890.123456789"), Decimal("0E-9"), None]),
    "date": ("DATE", [date.min, date.max, None]),
    "time": ("TIME", [time.min, time.max, None]),
    "datetime": ("TIMESTAMP", [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), None]),
    "datetime with a zone": (
        "TIMESTAMPTZ",
        [
            datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=14))),
            datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            None,
        ],
    ),
    "timedelta": ("INTERVAL", [timedelta(days=3), timedelta(days=40, hours=1), timedelta(microseconds=1), None]),
    "UUID": ("UUID", [UUID(int=0), UUID(int=2**128 - 1), None]),
    "list": ("BIGINT[]", [[], [1, None, 3], None]),
    "dict": ("STRUCT(a BIGINT, b VARCHAR)", [{"a": 1, "b": "x"}, {"a": None, "b": None}, None]),
}


@pytest.mark.parametrize("case", PARAMETERS, ids=str)
def test_a_python_value_given_as_parameter_comes_back_equal(case: str, db: Database) -> None:
    type_, values = PARAMETERS[case]
    db.execute(f"CREATE TABLE t (id INTEGER, v {type_})")
    for i, value in enumerate(values):
        db.execute("INSERT INTO t VALUES (?, ?)", [i, value])
        db.execute("INSERT INTO t VALUES ($id, $v)", {"id": i, "v": value})
    found = db.execute("SELECT id, v, v FROM t ORDER BY id").fetchall()
    assert [row[1] for row in found] == [value for value in values for _ in range(2)]
    count = "SELECT count(*) FROM t WHERE v IS NOT DISTINCT FROM CAST(? AS " + type_ + ")"
    assert [db.execute(count, [value]).fetchone() for value in values] == [(2,)] * len(values)


@pytest.mark.parametrize("type_", ["UNION(a INTEGER, Element1 VARCHAR)", 'UNION(a UNION("element1" INTEGER))'])
def test_a_union_whose_tag_would_have_the_name_of_a_member_is_refused(type_: str, db: Database) -> None:
    for column in (type_, f"{type_}[]", f"STRUCT(a {type_})"):
        with refused("unstorable-type"):
            db.execute(f"CREATE TABLE t (v {column})")
    assert db.execute("SHOW TABLES").fetchall() == []


@pytest.mark.parametrize(("type_", "value"), [("HUGEINT", 10**38), ("UHUGEINT", 2**128 - 1), ("HUGEINT[]", [10**38])])
def test_a_number_too_wide_to_be_kept_is_an_error_and_changes_nothing(type_: str, value: Any, db: Database) -> None:
    db.execute(f"CREATE TABLE t (v {type_})")
    with pytest.raises(snapdb.SnapdbError):
        db.execute(f"INSERT INTO t VALUES ({value})")
    assert db.execute("SELECT * FROM t").fetchall() == []
