"""Writes results, either as tables for display or streamed in a machine-readable format."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, TextIO, TypeVar, runtime_checkable

import pyarrow as pa
from rich.cells import cell_len

from snapdb.errors import InputError
from snapdb.execute.rendering import JSON, PLAIN, SECONDS, Spelling, is_plan, printable, render, spell, type_name
from snapdb.on_first_use import module_on_first_use
from snapdb.types.text import counted
from snapdb_cli.spreadsheets import workbook

pq = module_on_first_use("pyarrow.parquet")


@dataclass(frozen=True, slots=True)
class OutputStyle:
    """The result style, for formats that support one."""

    null: str | None = None
    """The text for NULL, or None for the format's default."""
    header: bool = True
    """Whether CSV and TSV output begins with the column names."""
    max_rows: int | None = None
    """The maximum number of table rows, or None for all. Any further rows are only counted."""
    screen_rows: int | None = 40
    """The same limit for a table on a terminal."""
    seconds: bool = True
    """Whether times on a terminal are truncated to seconds."""
    expanded: bool | None = False
    """Whether rows are shown with one line per column. None means only on a terminal, for tables that are too wide."""
    hint: str = ""
    """A hint on how to see the parts that a table on a terminal omits."""


_Writer = Callable[[pa.Schema, Iterable[pa.RecordBatch], OutputStyle], Iterator[str]]
"""Yields pieces of text for a schema and its batches. The first piece does not depend on a batch."""

_FLAT = Spelling(str, "", " ", PLAIN.not_finite, nested=JSON)
"""The spelling of values in delimited files: as in tables, except that blobs are bare hexadecimal digits and nested
values are strict JSON."""


def _rows(batch: pa.RecordBatch, spelling: Spelling) -> Iterator[tuple[str | None, ...]]:
    columns = [spell(column, spelling) for column in batch.columns]
    return zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)


def _delimited(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], style: OutputStyle, *, delimiter: str
) -> Iterator[str]:
    """Yield RFC 4180 text with plain line feeds.

    NULL is an empty field or the given text. An equal text value is quoted.
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
    """Number repeated names to make them unique, because most JSON readers keep only the last value of a key.

    >>> _distinct(["a", "b", "a", "a_1"])
    ['a', 'b', 'a_1', 'a_1_1']
    """
    distinct: list[str] = []
    for name in names:
        numbered = chain([name], (f"{name}_{i}" for i in count(1)))
        distinct.append(next(n for n in numbered if n not in distinct))
    return distinct


def _json(schema: pa.Schema, batches: Iterable[pa.RecordBatch], style: OutputStyle) -> Iterator[str]:
    """Yield one array of objects. NaN and infinities are null, blobs are hexadecimal, and times are ISO 8601."""
    yield "["
    separator = "\n  "
    for batch in batches:
        if batch.num_rows:
            yield separator + ",\n  ".join(_objects(schema, batch))
            separator = ",\n  "
    yield "]\n" if separator == "\n  " else "\n]\n"


def _jsonl(schema: pa.Schema, batches: Iterable[pa.RecordBatch], style: OutputStyle) -> Iterator[str]:
    """Yield one object per line."""
    for batch in batches:
        yield "".join(f"{item}\n" for item in _objects(schema, batch))


def _markdown(schema: pa.Schema, batches: Iterable[pa.RecordBatch], style: OutputStyle) -> Iterator[str]:
    """Yield a table in GitHub's Markdown, with numbers right-aligned."""
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


_TEXTUAL: Mapping[str, _Writer] = MappingProxyType(
    {
        "csv": partial(_delimited, delimiter=","),
        "tsv": partial(_delimited, delimiter="\t"),
        "json": _json,
        "jsonl": _jsonl,
        "markdown": _markdown,
    }
)

_Packer = Callable[[pa.Schema, Iterable[pa.RecordBatch]], Iterator[bytes]]
"""Yields pieces of a file for a schema and its batches. An incomplete file cannot be read."""

_TEXT_WIDTH = 80
"""The width of charts if the destination is not a terminal."""
_GROUP_ROWS = 122_880
"""The number of rows per row group, as in DuckDB."""
_GROUP_BYTES = 64 << 20


class _Drain:
    """An in-memory file whose content is read piece by piece."""

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
        """Do nothing, because nothing is buffered."""

    def close(self) -> None:
        """Do nothing, because the pieces are in memory."""

    def taken(self) -> bytes:
        """Return the bytes written since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield an Arrow IPC stream, batch by batch."""
    drain = _Drain()
    writer = pa.ipc.new_stream(drain, schema)
    for batch in batches:
        writer.write_batch(batch)
        yield drain.taken()
    writer.close()
    yield drain.taken()


def _parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield a Parquet file, one row group after another. HUGEINT is written as DECIMAL(38, 0).

    Raises:
        InputError: Parquet does not support the type of a column.
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
    """Raise InputError for a type that Parquet does not support, before anything is written."""
    try:
        pq.write_table(pa.table({field.name: pa.array([], field.type)}), pa.BufferOutputStream())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InputError(
            f"parquet has no type for column {field.name} ({type_name(field.type)}); cast it, e.g. to VARCHAR, "
            "or use --format arrow",
            code="output-format",
        ) from error


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield lists of batches, each list with enough rows for one row group."""
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


BINARY: Mapping[str, _Packer] = MappingProxyType({"parquet": _parquet, "arrow": _arrow, "xlsx": workbook})

_Piece = TypeVar("_Piece", str, bytes)


@runtime_checkable
class _Pager(Protocol):
    """A stream that can show a result in a pager."""

    waited: float
    """The number of seconds that this process has waited for the pager so far."""

    def takes_wide(self, lines: int) -> bool:
        """Return whether the next result, which has `lines` lines, may be wider than the screen."""


class Output:
    """The destination and format of results."""

    def __init__(
        self,
        format: str = "table",  # noqa: A002  # the option's name
        stream: TextIO | None = None,
        *,
        style: OutputStyle | None = None,
    ) -> None:
        self.format = format
        self.style = style or OutputStyle()
        self._stdout = sys.stdout if stream is None else stream
        self._file: TextIO | None = None
        self._written = 0

    def redirect(self, path: Path | None) -> None:
        """Write further results to a new file, or to stdout if `path` is None."""
        file = None if path is None else path.open("w", encoding="utf-8", newline="")
        if self._file is not None:
            self._file.close()
        self._file, self._written = file, 0

    @property
    def terminal(self) -> bool:
        """Whether the destination is a terminal."""
        return self._file is None and self._stdout.isatty()

    @property
    def written(self) -> int:
        """The number of results written to the current destination."""
        return self._written

    @property
    def waited(self) -> float:
        """The number of seconds that this process has waited so far for readers of results, such as a pager."""
        return self._stdout.waited if isinstance(self._stdout, _Pager) else 0.0

    def write(
        self,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        before: Callable[[], None] = lambda: None,
        *,
        turn: bool = False,
    ) -> None:
        """Write one result.

        Args:
            schema: The columns of the result.
            batches: The rows of the result.
            before: Called once, after the first piece is computed and before it is written.
            turn: Whether a table that is too wide for the terminal may be transposed, with one line per column.

        Raises:
            InputError: The format cannot be written to a terminal, or allows only one result per file.
        """
        stream = self._stdout if self._file is None else self._file
        if self.format in BINARY:
            self._check_binary()
            packed = BINARY[self.format](schema, _begun(batches))
            _send(packed, stream.buffer.write, before)
        else:
            _send(self._pieces(schema, batches, turn), lambda piece: _put(stream, piece), before)
        stream.flush()
        self._written += 1

    def draw(self, drawn: Callable[[int, bool, bool], str]) -> None:
        """Write a text that depends on the destination.

        Args:
            drawn: Returns the text for a width in cells, whether colours are used, and whether block characters are.
        """
        stream = self._stdout if self._file is None else self._file
        width = shutil.get_terminal_size().columns if self.terminal else _TEXT_WIDTH
        _put(stream, drawn(width, self._colored, self._unicode) + "\n")
        stream.flush()
        self._written += 1

    @property
    def _colored(self) -> bool:
        return self.terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    @property
    def _unicode(self) -> bool:
        return self._file is not None or _draws_boxes(self._stdout)

    def _check_binary(self) -> None:
        if self.terminal:
            raise InputError(
                f"{self.format} is a binary format, and stdout is a terminal; write it to a file (-o FILE, > FILE), "
                f"or choose one of {', '.join(('table', *_TEXTUAL))}",
                code="output-format",
            )
        if self._written:
            raise InputError(
                f"{self.format} can hold only one result, but there is another one; write each result to a separate "
                "file, or use jsonl",
                code="output-format",
            )

    def _pieces(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], turn: bool) -> Iterator[str]:
        if self.format in _TEXTUAL:
            yield from _TEXTUAL[self.format](schema, _begun(batches), self.style)
        elif self.style.expanded and not is_plan(schema):
            yield from _records(schema, batches, self._null, self._spelling)
        else:
            yield from self._table(schema, batches, turn)

    @property
    def _spelling(self) -> Spelling:
        return SECONDS if self.terminal and self.style.seconds else PLAIN

    @property
    def _null(self) -> str:
        return "NULL" if self.style.null is None else self.style.null

    def _table(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], turn: bool) -> Iterator[str]:
        limits = (self.style.max_rows, self.style.screen_rows if self.terminal else None)
        limit = min((rows for rows in limits if rows is not None), default=None)
        # All rows are counted, but only the displayed ones are kept in memory.
        kept: list[pa.RecordBatch] = []
        total = 0
        for batch in batches:
            if limit is None or total < limit:
                kept.append(batch)
            total += batch.num_rows
        table = pa.Table.from_batches(kept, schema=schema)
        shown = partial(
            render,
            table,
            max_rows=limit,
            total_rows=total,
            color=self._colored,
            unicode=self._unicode,
            null=self._null,
            hint=self.style.hint if self.terminal else "",
            seconds=self._spelling is SECONDS,
        )
        width = shutil.get_terminal_size().columns if self.terminal else None
        if width is None or is_plan(schema):
            yield shown(width=width) + "\n"
            return
        whole = shown(width=None)
        if cell_len(whole.partition("\n")[0]) <= width:
            yield whole + "\n"
        elif self.style.expanded is None and not turn:
            yield from _records(schema, table.slice(0, limit).to_batches(), self._null, self._spelling, total)
        elif not turn and isinstance(self._stdout, _Pager) and self._stdout.takes_wide(whole.count("\n") + 1):
            yield whole + "\n"
        else:
            yield shown(width=width, turn=turn) + "\n"


def _begun(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Compute the first batch and return all batches, so that nothing is written if a statement fails immediately."""
    rest = iter(batches)
    first = next(rest, None)
    return rest if first is None else chain([first], rest)


def _send(pieces: Iterator[_Piece], put: Callable[[_Piece], object], before: Callable[[], None]) -> None:
    first = next(pieces, None)
    before()
    if first is not None:
        for piece in chain([first], pieces):
            put(piece)


def _put(stream: TextIO, piece: str) -> None:
    try:
        stream.write(piece)
    except UnicodeEncodeError:  # stdout's encoding lacks a character, as with LC_ALL=C without UTF-8 mode
        stream.write(piece.encode("ascii", "backslashreplace").decode("ascii"))


def _draws_boxes(stream: TextIO) -> bool:
    try:
        "│─┼…".encode(stream.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def _records(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], null: str, spelling: Spelling, total: int | None = None
) -> Iterator[str]:
    """Yield one line per value, for rows that are too wide for a table. `total` is the total row count, if known."""
    width = max((len(name) for name in schema.names), default=0)
    number = 0
    for batch in batches:
        columns = [spell(column, spelling) for column in batch.columns]
        for row in range(batch.num_rows):
            number += 1
            values = (null if column[row] is None else printable(str(column[row])) for column in columns)
            lines = (f"{name:<{width}} | {value}" for name, value in zip(schema.names, values, strict=True))
            yield f"-[ row {number} ]".ljust(width + 12, "-") + "\n" + "".join(f"{line}\n" for line in lines)
    cut = f" ({number} shown)" if total is not None and number < total else ""
    yield counted(number if total is None else total, "row") + cut + "\n"
