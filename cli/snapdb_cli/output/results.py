"""Results as bytes: the only writer of stdout."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TextIO, TypeVar

import pyarrow as pa
from rich.cells import cell_len

from snapdb.errors import InputError
from snapdb.execute.rendering import printable, render, spell
from snapdb.types.text import counted
from snapdb_cli.output.formats import BINARY, TEXTUAL, OutputStyle

_Piece = TypeVar("_Piece", str, bytes)

FORMATS = ("table", *TEXTUAL, *BINARY)


class Output:
    """Where results go, and in which format."""

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
        """Send results to a new file from now on; None: back to stdout."""
        file = None if path is None else path.open("w", encoding="utf-8", newline="")
        if self._file is not None:
            self._file.close()
        self._file, self._written = file, 0

    @property
    def terminal(self) -> bool:
        """Whether a person reads this."""
        return self._file is None and self._stdout.isatty()

    @property
    def written(self) -> int:
        """How many results went to where they go now."""
        return self._written

    def write(
        self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], before: Callable[[], None] = lambda: None
    ) -> None:
        """Write one result; `before` is called once, when its first piece is there and nothing is written yet.

        Raises:
            InputError: the format is for programs, and a person reads, or there is a result before it.
        """
        stream = self._stdout if self._file is None else self._file
        if self.format in BINARY:
            self._check_binary()
            packed = BINARY[self.format](schema, _begun(batches))
            _send(packed, stream.buffer.write, before)
        else:
            _send(self._pieces(schema, batches), lambda piece: _put(stream, piece), before)
        stream.flush()
        self._written += 1

    def _check_binary(self) -> None:
        if self.terminal:
            raise InputError(
                f"{self.format} is for programs and stdout is a terminal; send it to a file (-o FILE, > FILE) or "
                f"choose one of {', '.join(('table', *TEXTUAL))}",
                code="output-format",
            )
        if self._written:
            raise InputError(
                f"{self.format} holds one result, and this is another; write each to a file of its own, or take jsonl",
                code="output-format",
            )

    def _pieces(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
        if self.format in TEXTUAL:
            yield from TEXTUAL[self.format](schema, _begun(batches), self.style)
        elif self.style.expanded:
            yield from _records(schema, batches, self._null)
        else:
            yield from self._table(schema, batches)

    @property
    def _null(self) -> str:
        return "NULL" if self.style.null is None else self.style.null

    def _table(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
        limits = (self.style.max_rows, self.style.screen_rows if self.terminal else None)
        limit = min((rows for rows in limits if rows is not None), default=None)
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
            color=self.terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
            unicode=self._file is not None or _draws_boxes(self._stdout),
            null=self._null,
            hint=self.style.hint if self.terminal else "",
        )
        width = shutil.get_terminal_size().columns if self.terminal else None
        if width is not None and self.style.expanded is None and cell_len(shown(width=None).partition("\n")[0]) > width:
            yield from _records(schema, table.slice(0, limit).to_batches(), self._null, total)
        else:
            yield shown(width=width) + "\n"


def _begun(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """The same batches, with the first computed: a statement that fails at once writes nothing."""
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
    except UnicodeEncodeError:  # a stdout that cannot hold the text, such as LC_ALL=C without UTF-8 mode
        stream.write(piece.encode("ascii", "backslashreplace").decode("ascii"))


def _draws_boxes(stream: TextIO) -> bool:
    try:
        "│─┼…".encode(stream.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def _records(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], null: str, total: int | None = None
) -> Iterator[str]:
    """One line per value, for rows that are too wide for a table; `total` rows where these are the first ones."""
    width = max((len(name) for name in schema.names), default=0)
    number = 0
    for batch in batches:
        columns = [spell(column) for column in batch.columns]
        for row in range(batch.num_rows):
            number += 1
            values = (null if column[row] is None else printable(str(column[row])) for column in columns)
            lines = (f"{name:<{width}} | {value}" for name, value in zip(schema.names, values, strict=True))
            yield f"-[ row {number} ]".ljust(width + 12, "-") + "\n" + "".join(f"{line}\n" for line in lines)
    cut = f" ({number} shown)" if total is not None and number < total else ""
    yield counted(number if total is None else total, "row") + cut + "\n"
