"""Results as text tables."""

from __future__ import annotations

import datetime as dt
import decimal
import json

import pyarrow as pa
import pytest
from rich.cells import cell_len

from tests.support.inside.execute import JSON, PLAN, printable, render, spell, type_name


def lines(table: pa.Table, **options: object) -> list[str]:
    arguments = {"width": 80} | options
    return render(table, **arguments).splitlines()  # type: ignore[arg-type]


def test_numbers_stand_to_the_right_and_texts_to_the_left() -> None:
    drawn = lines(pa.table({"name": ["a", "long name"], "n": [5, 12345], "x": [0.5, 10.25]}))
    assert drawn[4] == "│ a         │      5 │    0.5 │"
    assert drawn[5] == "│ long name │  12345 │  10.25 │"


def test_the_header_names_columns_and_types() -> None:
    drawn = lines(pa.table({"emb": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)), "day": [dt.date(2026, 7, 1)]}))
    assert drawn[1:3] == ["│ emb        │ day        │", "│ float[2]   │ date       │"]


def test_null_the_text_null_and_an_empty_text_look_different() -> None:
    drawn = lines(pa.table({"s": [None, "NULL", ""]}))
    assert [line.strip("│ ") for line in drawn[4:7]] == ["NULL", "'NULL'", ""]


def test_rows_left_out_are_counted() -> None:
    table = pa.table({"n": list(range(50))})
    assert lines(table)[-1] == "50 rows (40 shown)"
    assert lines(table, total_rows=1000)[-1] == "1,000 rows (40 shown)"
    assert lines(table, max_rows=None)[-1] == "50 rows"
    assert lines(pa.table({"n": [1]}))[-1] == "1 row"


def test_columns_left_out_are_counted() -> None:
    drawn = lines(pa.table({f"c{i}": [i] for i in range(30)}), width=60)
    assert drawn[-1] == "1 row, 30 columns (10 shown)"
    assert drawn[1].endswith("│ … │")


def test_types_are_cut_before_values_and_long_texts_before_columns_are_dropped() -> None:
    table = pa.table({"n": [1], "name": ["june"], "at": pa.array([0], pa.timestamp("us")), "text": ["x" * 60]})
    drawn = lines(table, width=50)
    assert drawn[1].split() == ["│", "n", "│", "name", "│", "at", "│", "text", "│"]
    assert "june" in drawn[4]
    assert "1970-01-01 00:00:00" in drawn[4]
    assert drawn[-1] == "1 row, 1 cell cut"
    assert lines(table, width=40)[-1] == "1 row, 4 columns (3 shown)"


def test_times_end_at_the_second_where_that_is_asked_for() -> None:
    at = dt.datetime(2026, 7, 1, 12, 30, 0, 500_000)
    table = pa.table({"a": pa.array([at]), "b": pa.array([at], pa.timestamp("us", "UTC")), "c": [[at]]})
    shown = lines(table, seconds=True)[4].split("│")[1:4]
    assert [text.strip() for text in shown] == [
        "2026-07-01 12:30:00",
        "2026-07-01 12:30:00+00",
        '["2026-07-01 12:30:00"]',
    ]
    assert "12:30:00.5" in lines(table)[4]


def test_a_table_that_is_too_wide_can_be_turned() -> None:
    table = pa.table({"element": ["person", "called"], "count": [7, None], "growth": [list(range(30)), [1]]})
    drawn = lines(table, width=60, turn=True)
    assert drawn[1].split() == ["│", "element", "│", "person", "│", "called", "│"]
    assert drawn[3].split() == ["│", "count", "│", "7", "│", "NULL", "│"]
    assert drawn[-1] == "2 rows"
    assert " 29]" in "\n".join(drawn)
    assert lines(table, width=200, turn=True) == lines(table, width=200)
    many = pa.table({"element": [f"e{i}" for i in range(5)], **{f"c{i}": ["x" * 30] * 5 for i in range(4)}})
    assert sum(line.startswith("┌") for line in lines(many, width=60, turn=True)) == 3


def test_a_plan_is_wrapped_under_its_nodes() -> None:
    plan = ["Bound", "  └ Join of many tables by key", "    ├ Scan of a table", "    └ Values of several rows"]
    drawn = lines(pa.Table.from_arrays([pa.array(plan)], schema=PLAN), width=28)
    assert drawn == [
        "Bound",
        "  └ Join of many tables by",
        "    │   key",
        "    ├ Scan of a table",
        "    └ Values of several rows",
    ]
    ascii_ = render(pa.Table.from_arrays([pa.array(plan)], schema=PLAN), width=None, unicode=False)
    assert ascii_.isascii()
    assert render(pa.table({"plan": plan}), width=None).startswith("┌")


def test_cells_that_are_cut_are_counted() -> None:
    drawn = lines(pa.table({"n": [1, 2], "text": ["x" * 500, "short"]}), width=40)
    assert drawn[-1] == "2 rows, 1 cell cut"
    assert "x… │" in drawn[4]


@pytest.mark.parametrize("width", [12, 20, 33, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    table = pa.table({"城市": ["東京" * 30, "x"], "n": [1, 2], "long": ["y" * 90, None], "emb": [[0.5] * 128] * 2})
    assert max(cell_len(line) for line in lines(table, width=width)[:-1]) <= width


def test_without_a_width_nothing_is_cut() -> None:
    drawn = render(pa.table({"emb": [[0.5] * 128], "text": ["z" * 5000]}), width=None)
    assert "…" not in drawn
    assert drawn.endswith("\n1 row")


def test_a_cell_of_several_lines_keeps_its_lines() -> None:
    drawn = lines(pa.table({"plan": ["SCAN\n  FILTER"], "n": [7]}))
    assert drawn[4:6] == ["│ SCAN     │      7 │", "│   FILTER │        │"]


def test_control_characters_cannot_reach_the_terminal() -> None:
    assert printable("\x1b[2J\x07") == "\\x1b[2J\\x07"
    assert "\x1b" not in render(pa.table({"\x1b[31mred": ["\x1b[0m"]}), width=80)


def test_colour_is_asked_for() -> None:
    table = pa.table({"n": [None, 1]})
    assert "\x1b" not in render(table, width=80)
    assert "\x1b[2mNULL\x1b[0m" in render(table, width=80, color=True)


def test_an_ascii_table_is_ascii() -> None:
    assert render(pa.table({"text": ["x" * 500]}), width=40, unicode=False).isascii()


def test_a_result_without_rows_shows_its_columns() -> None:
    drawn = lines(pa.table({"n": pa.array([], pa.int64())}))
    assert drawn[1] == "│      n │"
    assert drawn[-1] == "0 rows"


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([1.0, 0.1, float("nan"), float("-inf")]), ["1.0", "0.1", "NaN", "-Infinity"]),
        (pa.array([0.1, 16777216.0], pa.float32()), ["0.1", "16777216.0"]),
        (pa.array([True, None]), ["true", None]),
        (pa.array([decimal.Decimal("0.0000000001")]), ["0.0000000001"]),
        (pa.array([b"\xde\xad"]), ["\\xdead"]),
        (pa.array([dt.datetime(2026, 7, 1, 12, 30)]), ["2026-07-01 12:30:00"]),
        (pa.array([dt.datetime(2026, 7, 1, 12, 30, 0, 500_000)]), ["2026-07-01 12:30:00.5"]),
        (pa.array([0], pa.timestamp("us", "UTC")), ["1970-01-01 00:00:00+00:00"]),
        (pa.array([2**63 - 1, 1 - 2**63], pa.timestamp("us")), ["infinity", "-infinity"]),
        (pa.array([1_500_000_000_123_456_789], pa.timestamp("ns")), ["2017-07-14 02:40:00.123456789"]),
        (pa.array([dt.date(2026, 7, 1)]), ["2026-07-01"]),
        (pa.array([dt.time(10, 0)]), ["10:00:00"]),
        (pa.array([(14, 2, 3_500_000_000)], pa.month_day_nano_interval()), ["14 months 2 days 00:00:03.5"]),
        (pa.array([[1, None], None, []]), ["[1, null]", None, "[]"]),
        (pa.array([{"a": 1, "b": "x"}, None]), ['{"a": 1, "b": "x"}', None]),
        (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())), ['{"k": 1}', None]),
        (pa.array(["x", None, "x"]).dictionary_encode(), ["x", None, "x"]),
        (pa.array([None, None]), [None, None]),
    ],
)
def test_every_type_has_a_readable_text(values: pa.Array, texts: list[str | None]) -> None:
    assert spell(values) == texts
    assert spell(pa.chunked_array([values.slice(0, 1), values.slice(1)])) == texts


def test_json_texts_are_strict_json() -> None:
    columns = [
        pa.array([float("nan"), 1.5]),
        pa.array([b"\x01", None]),
        pa.array([dt.datetime(2026, 7, 1), None]),
        pa.array([{"x": [float("inf"), 1.0], "s": 'q"\n'}, None]),
    ]
    assert [[None if t is None else json.loads(t) for t in spell(column, JSON)] for column in columns] == [
        [None, 1.5],
        ["01", None],
        ["2026-07-01T00:00:00", None],
        [{"x": [None, 1.0], "s": 'q"\n'}, None],
    ]


def test_types_have_their_sql_names() -> None:
    kinds = [pa.int64(), pa.string(), pa.decimal128(38, 0), pa.decimal128(10, 2), pa.list_(pa.int32()), pa.binary()]
    assert [type_name(kind) for kind in kinds] == ["bigint", "varchar", "hugeint", "decimal(10,2)", "integer[]", "blob"]
    assert type_name(pa.struct([("a", pa.bool_()), ("b", pa.timestamp("s"))])) == "struct(a boolean, b timestamp_s)"
