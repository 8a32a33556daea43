"""The formats that programs read: each is a function from record batches to pieces of text or bytes, streamed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq

from snapdb.errors import InputError
from snapdb.execute.rendering import JSON, PLAIN, Spelling, spell, type_name


@dataclass(frozen=True, slots=True)
class OutputStyle:
    """How results are shown, for the formats that have a choice."""

    null: str | None = None
    """What stands for NULL; None: the format's own way."""
    header: bool = True
    """Whether csv and tsv begin with the names of the columns."""
    max_rows: int | None = None
    """The most rows of a table; the rest is counted. None: all."""
    screen_rows: int | None = 40
    """The same limit for a table on a terminal."""
    expanded: bool | None = False
    """Whether a row is shown as lines of name and value; None: on a terminal where the table is too wide."""
    hint: str = ""
    """How to see what a table on a terminal leaves out."""


_Writer = Callable[[pa.Schema, Iterable[pa.RecordBatch], OutputStyle], Iterator[str]]
"""Pieces of text for a schema and its batches; the first comes without waiting for a batch."""

_FLAT = Spelling(str, "", " ", PLAIN.not_finite, nested=JSON)
"""Values of a delimited file: as in a table, but blobs are bare hexadecimal digits and nested values strict JSON."""


def _rows(batch: pa.RecordBatch, spelling: Spelling) -> Iterator[tuple[str | None, ...]]:
    columns = [spell(column, spelling) for column in batch.columns]
    return zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)


def _delimited(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], style: OutputStyle, *, delimiter: str
) -> Iterator[str]:
    """RFC 4180 with a header and plain line feeds: NULL is an empty field, or the text asked for; a text that is the
    same stands in quotes.
    """
    null = style.null or ""
    if style.header:
        yield delimiter.join(_field(name, delimiter, null) for name in schema.names) + "\n"
    for batch in batches:
        lines = (delimiter.join(_field(text, delimiter, null) for text in row) for row in _rows(batch, _FLAT))
        yield "".join(f"{line}\n" for line in lines)


def _field(text: str | None, delimiter: str, null: str) -> str:
    if text is None:
        return null
    if text == null or delimiter in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


def _objects(schema: pa.Schema, batch: pa.RecordBatch) -> Iterator[str]:
    names = [json.dumps(name, ensure_ascii=False) for name in _distinct(schema.names)]
    for row in _rows(batch, JSON):
        yield "{" + ", ".join(f"{n}: {'null' if v is None else v}" for n, v in zip(names, row, strict=True)) + "}"


def _distinct(names: Iterable[str]) -> list[str]:
    """The names, numbered where one comes again: most readers of JSON keep only the last value of a key.

    >>> _distinct(["a", "b", "a", "a_1"])
    ['a', 'b', 'a_1', 'a_1_1']
    """
    distinct: list[str] = []
    for name in names:
        numbered = chain([name], (f"{name}_{i}" for i in count(1)))
        distinct.append(next(n for n in numbered if n not in distinct))
    return distinct


def _json(schema: pa.Schema, batches: Iterable[pa.RecordBatch], style: OutputStyle) -> Iterator[str]:
    """One array of objects: NaN and infinities are null, decimals numbers, blobs hexadecimal, times ISO 8601."""
    yield "["
    separator = "\n  "
    for batch in batches:
        if batch.num_rows:
            yield separator + ",\n  ".join(_objects(schema, batch))
            separator = ",\n  "
    yield "]\n" if separator == "\n  " else "\n]\n"


def _jsonl(schema: pa.Schema, batches: Iterable[pa.RecordBatch], style: OutputStyle) -> Iterator[str]:
    """One object a line."""
    for batch in batches:
        yield "".join(f"{item}\n" for item in _objects(schema, batch))


def _markdown(schema: pa.Schema, batches: Iterable[pa.RecordBatch], style: OutputStyle) -> Iterator[str]:
    """A table of GitHub's Markdown, numbers to the right."""
    null = "NULL" if style.null is None else style.null
    yield _bars(schema.names) + "\n"
    yield "|" + "|".join("---:" if _is_number(kind) else "---" for kind in schema.types) + "|\n"
    for batch in batches:
        yield "".join(f"{_bars(null if text is None else text for text in row)}\n" for row in _rows(batch, PLAIN))


def _bars(cells: Iterable[str]) -> str:
    escaped = (cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells)
    return "| " + " | ".join("<br>".join(cell.splitlines()) for cell in escaped) + " |"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


TEXTUAL: Mapping[str, _Writer] = MappingProxyType(
    {
        "csv": partial(_delimited, delimiter=","),
        "tsv": partial(_delimited, delimiter="\t"),
        "json": _json,
        "jsonl": _jsonl,
        "markdown": _markdown,
    }
)


# Formats that keep types: functions from record batches to bytes


_Packer = Callable[[pa.Schema, Iterable[pa.RecordBatch]], Iterator[bytes]]
"""Pieces of a file for a schema and its batches; a file that was not finished cannot be read."""

_GROUP_ROWS = 122_880
"""Rows in a row group, as DuckDB writes them."""
_GROUP_BYTES = 64 << 20


class _Drain:
    """A file that hands over what was written to it."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def write(self, piece: bytes) -> int:
        self._pieces.append(bytes(piece))
        self._length += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        """Does nothing: nothing is buffered."""

    def close(self) -> None:
        """Does nothing: the pieces are in memory."""

    def taken(self) -> bytes:
        """What was written since the last time."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """A stream of Arrow IPC, batch by batch."""
    drain = _Drain()
    writer = pa.ipc.new_stream(drain, schema)
    for batch in batches:
        writer.write_batch(batch)
        yield drain.taken()
    writer.close()
    yield drain.taken()


def _parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """A Parquet file, one row group after another; HUGEINT is DECIMAL(38, 0).

    Raises:
        InputError: Parquet has no such type as a column's.
    """
    drain = _Drain()
    for field in schema:
        _check(field)
    writer = pq.ParquetWriter(drain, schema, compression="zstd")
    for group in _groups(batches):
        table = pa.Table.from_batches(group, schema=schema)
        writer.write_table(table, row_group_size=max(len(table), 1))
        yield drain.taken()
    writer.close()
    yield drain.taken()


def _check(field: pa.Field) -> None:
    """Raise for a type that Parquet has no room for, before anything is written."""
    try:
        pq.write_table(pa.table({field.name: pa.array([], field.type)}), pa.BufferOutputStream())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InputError(
            f"parquet has no type for column {field.name} ({type_name(field.type)}); cast it, e.g. to VARCHAR, or take "
            "--format arrow",
            code="output-format",
        ) from error


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches enough for a row group each."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


BINARY: Mapping[str, _Packer] = MappingProxyType({"parquet": _parquet, "arrow": _arrow})
