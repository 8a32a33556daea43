"""The formats of results, textual and binary: whole, streamed, with their types."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import snapdb
from snapdb_cli.main import FORMATS, main
from tests.support.inside.cli import _TEXTUAL, BINARY, Output, OutputStyle
from tests.support.refusals import refused

TYPES = """SELECT 170141183460469231731687303715884105727::HUGEINT % 10**30 AS huge, 1.50::DECIMAL(9, 2) AS price,
  18446744073709551615::UBIGINT AS big, 1.5::FLOAT AS f, true AS flag, 'é' AS word, '\\xDE'::BLOB AS blob,
  DATE '2026-07-01' AS day, TIME '12:30:00.5' AS clock, TIMESTAMP '2026-07-01 12:00:00.000001' AS ts,
  TIMESTAMPTZ '2026-07-01 12:00:00+02' AS tz, TIMESTAMP_NS '2026-07-01 12:00:00.000000001' AS ns,
  [1, NULL] AS list, {'k': DATE '2026-07-01', 'v': [1.5]} AS struct, MAP {'a': 1} AS map,
  [1, 2, 3]::FLOAT[3] AS vector, 'low'::ENUM ('low', 'high') AS level, NULL::INTEGER AS nothing"""


COLUMNS = ("parquet", "arrow")
"""The binary formats that Arrow reads."""


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def read(kind: str, data: bytes) -> pa.Table:
    """What another program reads."""
    return pq.read_table(io.BytesIO(data)) if kind == "parquet" else pa.ipc.open_stream(data).read_all()


@pytest.mark.parametrize("kind", COLUMNS)
def test_binary_formats_keep_every_type(kind: str, db: snapdb.Database) -> None:
    done = run("--format", kind, "-c", TYPES)
    assert (done.exit_code, done.stderr) == (0, "")
    table, expected = read(kind, done.stdout_bytes), db.execute(TYPES).arrow()
    assert table.to_pylist() == expected.to_pylist()
    for field, wanted in zip(table.schema, expected.schema, strict=True):
        assert field.type == wanted.type, field.name


def test_an_interval_fits_arrow_and_is_refused_by_name_for_parquet() -> None:
    query = ["-c", "SELECT 1 AS n, INTERVAL '1 month' AS gap"]
    table = read("arrow", run("--format", "arrow", *query).stdout_bytes)
    assert table["gap"].to_pylist()[0].months == 1
    failed = run("--format", "parquet", *query)
    assert (failed.exit_code, failed.stdout_bytes) == (1, b"")
    assert "parquet has no type for column gap (interval); cast it, e.g. to VARCHAR" in failed.stderr


@pytest.mark.parametrize("kind", COLUMNS)
def test_an_empty_result_has_its_columns(kind: str) -> None:
    table = read(kind, run("--format", kind, "-c", "SELECT 1 AS n, 'x' AS t WHERE false").stdout_bytes)
    assert (table.num_rows, table.column_names) == (0, ["n", "t"])


def test_many_small_batches_make_few_row_groups() -> None:
    schema = pa.schema({"i": pa.int64()})
    batches = (pa.record_batch({"i": range(i, i + 1000)}, schema=schema) for i in range(0, 300_000, 1000))
    data = b"".join(BINARY["parquet"](schema, batches))
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    assert (metadata.num_rows, metadata.num_row_groups) == (300_000, 3)


@pytest.mark.parametrize("kind", [*COLUMNS, *_TEXTUAL])
def test_a_large_result_goes_out_while_it_is_made(kind: str) -> None:
    schema, made = pa.schema({"i": pa.int64()}), 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal made
        for i in range(20):
            made += 1
            yield pa.record_batch({"i": range(i * 100_000, (i + 1) * 100_000)}, schema=schema)

    source = batches()
    pieces = iter(BINARY[kind](schema, source) if kind in BINARY else _TEXTUAL[kind](schema, source, OutputStyle()))
    size = 0
    while size < 10_000:
        size += len(next(pieces))
    assert made <= 3


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_binary_file_holds_one_result(kind: str, tmp_path: Path) -> None:
    two = run("--format", kind, "-c", "SELECT 1 AS a", "-c", "SELECT 2 AS b")
    assert two.exit_code == 1
    assert f"{kind} can hold only one result" in two.stderr
    assert read(kind, two.stdout_bytes).column_names == ["a"]
    path = tmp_path / f"out.{kind}"
    assert run("-c", "SELECT 1 AS a; SELECT 2 AS b", "-o", path).exit_code == 1
    assert not path.exists()
    none = run("-c", "CREATE TABLE t (a INTEGER)", "-o", path)
    assert none.exit_code == 1
    assert f"no statement returned rows, so no {kind} file was written to {path}" in none.stderr
    assert not path.exists()
    one = run("-c", "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1); SELECT * FROM t", "-o", path)
    assert one.exit_code == 0, one.stderr
    assert read(kind, path.read_bytes()).to_pylist() == [{"a": 1}]


@pytest.mark.parametrize("kind", BINARY)
def test_bytes_do_not_go_to_a_terminal(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapdb_cli.output.Output.terminal", True)
    with refused("output-format", kind):
        Output(kind).write(pa.schema({"i": pa.int64()}), [])


def test_a_file_that_was_not_finished_cannot_be_read_as_if_it_were() -> None:
    late = "SELECT CASE WHEN i = 250000 THEN error('late') ELSE i END AS i FROM range(300000) r(i)"
    failed = run("--format", "parquet", "-c", late)
    assert failed.exit_code == 1
    with pytest.raises(pa.ArrowInvalid):
        read("parquet", failed.stdout_bytes)


def test_columns_of_one_name_keep_their_values_in_json() -> None:
    assert run("--format", "jsonl", "-c", "SELECT 1 AS a, 2 AS a, 3 AS b").stdout == '{"a": 1, "a_1": 2, "b": 3}\n'


def test_a_row_of_markdown_is_one_line() -> None:
    shown = run("--format", "markdown", "-c", "SELECT E'one\\r\\ntwo|three' AS t").stdout.splitlines()
    assert shown == ["| t |", "|---|", "| one<br>two\\|three |"]


def test_every_format_of_the_help_is_written() -> None:
    assert set(FORMATS) == {"table", *_TEXTUAL, *BINARY}
    for kind in FORMATS:
        done = run("--format", kind, "-c", "SELECT 1 AS n")
        assert done.exit_code == 0, done.stderr
        assert done.stdout_bytes


def test_a_result_is_what_other_libraries_read(db: snapdb.Database) -> None:
    query = "SELECT i, 'x' || i AS t FROM range(5) r(i)"
    assert pa.table(db.execute(query)).num_rows == 5
    streamed = pa.RecordBatchReader.from_stream(db.execute("SELECT i FROM range(300000) r(i)"))
    assert sum(batch.num_rows for batch in streamed) == 300_000
    assert db.execute(query).df()["t"].tolist() == ["x0", "x1", "x2", "x3", "x4"]


def test_rows_are_fetched_one_after_another_and_whole(db: snapdb.Database) -> None:
    result = db.execute("SELECT i FROM range(5) r(i)")
    assert result.fetchone() == (0,)
    assert result.fetchmany(2) == [(1,), (2,)]
    assert result.fetchall() == [(3,), (4,)]
    assert result.fetchall() == [(3,), (4,)]
    assert result.fetchmany(10) == [(3,), (4,)]
    assert result.fetchone() is None
    assert result.arrow().num_rows == 5


def test_a_table_is_shown_as_wide_and_long_as_asked(db: snapdb.Database, capsys: pytest.CaptureFixture[str]) -> None:
    db.execute("SELECT i, repeat('x', 100) AS long FROM range(50) r(i)").show(max_rows=2, max_width=40)
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1] == "50 rows (2 shown), 2 cells cut"
    assert max(map(len, shown)) == 40
