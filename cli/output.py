"""Results as bytes: the only writer of stdout."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from snapdb.execute.render import printable, render
from snapdb.execute.spell import spell
from snapdb.types.words import counted

from .formats import STREAMING

__all__ = ["FORMATS", "Output"]

FORMATS = ("table", *STREAMING)
_SHOWN_ROWS = 40
"""A table on a terminal shows so many rows; anywhere else it shows all."""


class Output:
    """Where results go, and in which format."""

    def __init__(self, format: str = "table", stream: TextIO | None = None) -> None:  # noqa: A002  # the option's name
        self.format = format
        self.expanded = False
        self._stdout = sys.stdout if stream is None else stream
        self._file: TextIO | None = None

    def redirect(self, path: Path | None) -> None:
        """Send results to a new file from now on; None: back to stdout."""
        file = None if path is None else path.open("w", encoding="utf-8", newline="")
        if self._file is not None:
            self._file.close()
        self._file = file

    @property
    def terminal(self) -> bool:
        """Whether a person reads this."""
        return self._file is None and self._stdout.isatty()

    def write(
        self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], before: Callable[[], None] = lambda: None
    ) -> None:
        """Write one result; `before` is called once, when its first piece is there and nothing is written yet."""
        pieces = self._pieces(schema, batches)
        stream = self._stdout if self._file is None else self._file
        first = next(pieces, "")
        before()
        for piece in chain([first], pieces):
            try:
                stream.write(piece)
            except UnicodeEncodeError:  # a stdout that cannot hold the text, such as LC_ALL=C without UTF-8 mode
                stream.write(piece.encode("ascii", "backslashreplace").decode("ascii"))
        stream.flush()

    def _pieces(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
        if self.format in STREAMING:
            # The first batch is computed before anything is written: a statement that fails at once writes nothing
            rest = iter(batches)
            first = next(rest, None)
            yield from STREAMING[self.format](schema, rest if first is None else chain([first], rest))
        elif self.expanded:
            yield from _records(schema, batches)
        else:
            yield self._table(schema, batches) + "\n"

    def _table(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> str:
        limit = _SHOWN_ROWS if self.terminal else None
        kept: list[pa.RecordBatch] = []
        total = 0
        for batch in batches:
            if limit is None or total < limit:
                kept.append(batch)
            total += batch.num_rows
        return render(
            pa.Table.from_batches(kept, schema=schema),
            width=shutil.get_terminal_size().columns if self.terminal else None,
            max_rows=limit,
            total_rows=total,
            color=self.terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
            unicode=self._file is not None or _draws_boxes(self._stdout),
        )


def _draws_boxes(stream: TextIO) -> bool:
    try:
        "│─┼…".encode(stream.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def _records(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """One line per value, for rows that are too wide for a table."""
    width = max((len(name) for name in schema.names), default=0)
    number = 0
    for batch in batches:
        columns = [spell(column) for column in batch.columns]
        for row in range(batch.num_rows):
            number += 1
            values = ("NULL" if column[row] is None else printable(str(column[row])) for column in columns)
            lines = (f"{name:<{width}} | {value}" for name, value in zip(schema.names, values, strict=True))
            yield f"-[ row {number} ]".ljust(width + 12, "-") + "\n" + "".join(f"{line}\n" for line in lines)
    yield counted(number, "row") + "\n"
