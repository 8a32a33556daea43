"""How a file's columns become those of a table: by name where the file has names, else by position."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from snapdb.errors import BindError
from snapdb.relational import Session, quote, text_literal
from snapdb.types import Table
from snapdb.types.text import did_you_mean


@dataclass(frozen=True, slots=True)
class File:
    """What is known of a file before anybody looks into it."""

    format: str
    headed: bool
    """The option HEADER says whether its first line is one."""
    said: str
    """Its other options, for DuckDB's reader."""
    table: Table
    wanted: Sequence[str]
    """The table's columns that it is to fill."""


@dataclass(frozen=True, slots=True)
class Matched:
    """How a file is read so that its columns are those that are wanted; equal for files that can be read together."""

    select: str
    reader: str
    said: str
    supplied: tuple[str, ...]
    types: tuple[str, ...] = ()
    """Of all columns in the file, where the reader is not told them."""

    def sql(self, path: str) -> str:
        """The query over a path, a glob or a list of them."""
        return f"SELECT {self.select} FROM {self.reader}({path}{self.said})"


def match_columns(session: Session, file: File, path: str, label: str) -> Matched:
    """How to read what `path`, SQL, stands for; errors call it `label`.

    Raises:
        BindError: the table has other columns.
    """
    match file.format:
        case "csv":
            return _from_csv(session, file, path, label)
        case "json":
            return _from_json(session, file, path, label)
        case _:
            return _from_parquet(session, file, path, label)


def _from_parquet(session: Session, file: File, path: str, label: str) -> Matched:
    found = session.describe(f"SELECT * FROM read_parquet({path}{file.said})")
    return _by_name(file, label, [c.name for c in found], "read_parquet", file.said, tuple(c.type for c in found))


def _from_json(session: Session, file: File, path: str, label: str) -> Matched:
    """JSON objects, one a line or in an array; a key that some lack is NULL there."""
    table = file.table
    found = {c.name.lower(): c.name for c in session.describe(f"SELECT * FROM read_json({path}{file.said})")}
    if "json" in found and len(found) == 1 and table.column("json") is None:
        raise BindError(
            f"{label} holds no JSON objects, whose keys would be the columns of {table.name}", code="file-columns"
        )
    extra = [name for folded, name in found.items() if table.column(folded) is None]
    types = {found.get(w.lower(), w): c.type for w in file.wanted if (c := table.column(w)) is not None}
    # Bytes are written as in SQL, '\\xFF', which DuckDB reads in a text but not in JSON.
    read = {name: "VARCHAR" if type_ == "BLOB" else type_ for name, type_ in types.items()}
    said = f", columns = {_struct(read)}{file.said}"
    return _by_name(file, label, [*types, *extra], "read_json", said)


def _by_name(
    file: File, label: str, found: Sequence[str], reader: str, said: str, types: tuple[str, ...] = ()
) -> Matched:
    """Columns matched by name, whatever their case and order; all that are wanted, and no others, must be there."""
    table, wanted = file.table, file.wanted
    named = {name.lower(): name for name in found}
    if missing := [w for w in wanted if w.lower() not in named]:
        hint = did_you_mean(missing[0], found) or f"; it has {', '.join(found)}"
        raise BindError(f'{label} has no column "{missing[0]}" for table {table.name}{hint}', code="unknown-column")
    extra = [name for name in found if table.column(name) is None]
    if extra:
        hint = f"name the columns to load: COPY {table.name} ({', '.join(wanted)}) FROM {label}"
        raise BindError(
            f'{label} has a column "{extra[0]}" that table {table.name} has not; {hint}', code="file-columns"
        )
    chosen = ", ".join(quote(named[w.lower()]) for w in wanted)
    return Matched(chosen, reader, said, tuple(wanted), types)


def _from_csv(session: Session, file: File, path: str, label: str) -> Matched:
    """A CSV with a header that names the columns is read by name, any other by position."""
    table, wanted = file.table, file.wanted
    found = session.describe(f"SELECT * FROM read_csv({path}{file.said})")
    types = {w: column.type for w in wanted if (column := table.column(w)) is not None}
    known = {c.name.lower(): c.name for c in found}
    if any(w.lower() in known for w in wanted):
        cast = {known[w.lower()]: type_ for w, type_ in types.items() if w.lower() in known}
        said = f", types = {_struct(cast)}{file.said}"
        return _by_name(file, label, [c.name for c in found], "read_csv", said)
    if not file.headed and any(not re.fullmatch(r"column\d+", c.name) for c in found):
        names = ", ".join(c.name for c in found)
        raise BindError(
            f"{label} seems to begin with names ({names}) of which table {table.name} has none; say HEADER "
            "false if they are data, HEADER true to load by position",
            code="file-columns",
        )
    if len(found) != len(wanted):
        raise BindError(
            f"{label} has {len(found)} columns without the names of table {table.name}, which takes "
            f"{len(wanted)} here ({', '.join(wanted)})",
            code="file-columns",
        )
    header = "" if file.headed else ", header = false"
    said = f", columns = {_struct(types)}, auto_detect = true{file.said}{header}"
    return Matched("*", "read_csv", said, tuple(wanted))


def _struct(types: Mapping[str, str]) -> str:
    """Columns and their types, as DuckDB's readers take them."""
    return f"{{{', '.join(f'{text_literal(name)}: {text_literal(type_)}' for name, type_ in types.items())}}}"
