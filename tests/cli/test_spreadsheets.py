"""Results as Excel workbooks."""

from __future__ import annotations

import sys
from datetime import date, datetime, time
from io import BytesIO
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from click.testing import CliRunner

from snapdb_cli.main import main

QUERY = """SELECT 7 AS i, 9007199254740993 AS wide, 1.25::DECIMAL(9, 2) AS n, 0.5 AS f, 'nan'::DOUBLE AS x,
  '=1+1' AS formula, 'é' || chr(7) AS text, true AS yes, DATE '2026-01-02' AS d, DATE '1850-01-02' AS old,
  TIMESTAMP '2026-01-02 03:04:05' AS at, TIMESTAMPTZ '2026-01-02 03:04:05+02' AS zoned, TIME '01:02:03' AS t,
  NULL::INT AS none, [1, 2] AS l, {'a': 'b'} AS s, '\\x00'::BLOB AS b, INTERVAL '2 days' AS span, sum(3) AS h"""


def written(*words: str) -> bytes:
    done = CliRunner().invoke(main, [*words])
    assert done.exit_code == 0, done.stderr
    return done.stdout_bytes


def rows(content: Any) -> list[tuple[Any, ...]]:
    return list(openpyxl.load_workbook(content).active.iter_rows(values_only=True))


def test_cells_have_the_types_of_columns_and_text_is_no_formula(tmp_path: Path) -> None:
    out = tmp_path / "out.xlsx"
    written("-c", QUERY, "-o", str(out))
    names, values = rows(out)
    assert dict(zip(names, values, strict=True)) == {
        "i": 7,
        "wide": "9007199254740993",
        "n": 1.25,
        "f": 0.5,
        "x": "nan",
        "formula": "=1+1",
        "text": "é\ufffd",
        "yes": True,
        "d": datetime(2026, 1, 2),  # Excel has no zones
        "old": "1850-01-02",
        "at": datetime(2026, 1, 2, 3, 4, 5),
        "zoned": datetime(2026, 1, 2, 1, 4, 5),
        "t": time(1, 2, 3),
        "none": None,
        "l": "[1, 2]",
        "s": '{"a": "b"}',
        "b": "00",
        "span": "2 days",
        "h": 3,
    }
    cell = openpyxl.load_workbook(out).active["F2"]
    assert (cell.value, cell.data_type) == ("=1+1", "s")
    assert isinstance(openpyxl.load_workbook(out).active["I2"].value, date)


def test_the_format_can_be_named() -> None:
    assert rows(BytesIO(written("--format", "xlsx", "-c", "SELECT i FROM range(3) r(i)"))) == [("i",), (0,), (1,), (2,)]


def test_more_rows_than_a_sheet_has_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("snapdb_cli.spreadsheets.ROWS", 3)
    out = tmp_path / "out.xlsx"
    assert len(rows(BytesIO(written("--format", "xlsx", "-c", "FROM range(2)")))) == 3
    failed = CliRunner().invoke(main, ["-c", "FROM range(3)", "-o", str(out)])
    assert (failed.exit_code, out.exists()) == (1, False)
    assert "at most 2 rows" in failed.stderr


def test_the_package_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    failed = CliRunner().invoke(main, ["--format", "xlsx", "-c", "SELECT 1"])
    assert "pip install 'snapdb[excel]'" in failed.stderr
