"""COPY … FROM: a file's columns matched with the table's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from snapdb.errors import BindError, ParseError, SnapdbError
from snapdb.plan.asked import Asked
from snapdb.plan.copyable import copyable
from snapdb.plan.logical import InsertPlan, NothingPlan, Plan
from snapdb.plan.names import find_table, named_columns
from snapdb.plan.new_files import find_new_files
from snapdb.plan.scope import Context
from snapdb.relational import Session, file_literal, files_behind, files_literal, quote, text_literal
from snapdb.sql.ast import CopyFrom
from snapdb.types import Table
from snapdb.types.suggest import did_you_mean

__all__ = ["bind_copy"]

_CSV = ("header", "delimiter", "delim", "sep", "quote", "escape", "nullstr", "null", "skip", "dateformat",
        "timestampformat", "decimal_separator", "ignore_errors", "encoding", "comment", "union_by_name",
        "hive_partitioning", "compression", "sample_size", "strict_mode", "null_padding", "max_line_size")  # fmt: skip
_JSON = ("ignore_errors", "records", "dateformat", "timestampformat", "maximum_object_size", "compression",
         "union_by_name", "hive_partitioning", "sample_size")  # fmt: skip
_OPTIONS = {"parquet": ("union_by_name", "hive_partitioning", "filename"), "csv": _CSV, "json": _JSON}
"""What may be said for each format; DuckDB's readers take them under these names or those of `_THEIRS`."""
_THEIRS = {"delimiter": "delim", "null": "nullstr"}
_ENDINGS = {"csv": "csv", "tsv": "csv", "txt": "csv", "json": "json", "jsonl": "json", "ndjson": "json"}


def bind_copy(statement: CopyFrom, context: Context) -> Plan:
    """A file's columns matched with the table's: by name where the file has names, else by position."""
    table = find_table(context, statement.table)
    wanted = named_columns(table, statement.columns)
    if not statement.path.strip():
        raise BindError(
            "COPY FROM needs a path, found ''; write that of a file", span=statement.path_span, code="bad-path"
        )
    if statement.new_only and Path(statement.path).expanduser().is_dir():
        files = text_literal(statement.path.rstrip("/") + "/*.parquet")
        raise BindError(f"{text_literal(statement.path)} is a folder; name the files in it, as {files}",
                        span=statement.path_span, code="bad-path")  # fmt: skip
    format_, options = _options(statement)
    said = "".join(f", {_THEIRS.get(k, k)} = {_literal(v)}" for k, v in options.items())
    file = _File(format_, "header" in options, said, table, wanted)
    new, copies = None, tuple[str, ...]()
    with context.relational.session() as session:
        try:
            if statement.new_only:
                new = find_new_files(session, context, table, statement.path, format_)
                if not new.names:
                    return NothingPlan(f"no new files behind {text_literal(statement.path)}{new.notes()}")
                sql, supplied = _each(session, file, new.names, together="union_by_name" in options)
            else:
                path = text_literal(statement.path)
                matched = _matched(session, file, path, path)
                sql, supplied = matched.sql(path), matched.supplied
            if format_ == "parquet" and not options and set(supplied) == {c.name for c in table.columns}:
                files = files_behind(session, statement.path) if new is None else new.names
                copies = copyable(session, files, table.columns)
        except SnapdbError as error:
            error.span = statement.path_span
            raise
    return InsertPlan(table, supplied, Asked(sql, statement.path_span), statement.message, copies, new)


@dataclass(frozen=True, slots=True)
class _File:
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
class _Matched:
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


def _each(session: Session, file: _File, names: Sequence[str], *, together: bool) -> tuple[str, tuple[str, ...]]:
    """A query over some files, each matched by itself as if it were alone, and the columns that it gives.

    Args:
        together: Their columns count together, as was asked for.
    """
    if together:
        literal = files_literal(names)
        matched = _matched(session, file, literal, f"{len(names)} files, {names[0]} the first,")
        return matched.sql(literal), matched.supplied
    alike: list[tuple[_Matched, list[str]]] = []
    for name in names:
        matched = _matched(session, file, file_literal(name), text_literal(name))
        if not alike or alike[-1][0] != matched:
            alike.append((matched, []))
        alike[-1][1].append(name)
    return " UNION ALL ".join(matched.sql(files_literal(group)) for matched, group in alike), alike[0][0].supplied


def _matched(session: Session, file: _File, path: str, label: str) -> _Matched:
    """How to read what `path`, SQL, stands for; errors call it `label`."""
    match file.format:
        case "csv":
            return _from_csv(session, file, path, label)
        case "json":
            return _from_json(session, file, path, label)
        case _:
            return _from_parquet(session, file, path, label)


def _options(statement: CopyFrom) -> tuple[str, dict[str, str | bool | int | float]]:
    """The format, said or told by the file's ending, and the other options."""
    given = {name.text.lower(): value for name, value in statement.options}
    format_ = str(given.pop("format", _guess_format(statement.path))).lower()
    if format_ not in _OPTIONS:
        hint = f"it reads {', '.join(_OPTIONS)}{did_you_mean(format_, _OPTIONS)}"
        said = next((name.span for name, _ in statement.options if name.text.lower() == "format"), None)
        raise BindError(f"cannot COPY FROM format {format_!r}; {hint}", span=said or statement.path_span,
                        code="unknown-format")  # fmt: skip
    for name, _ in statement.options:
        if name.text.lower() not in ("format", *_OPTIONS[format_]):
            hint = did_you_mean(name.text.replace("_", " "), ("format", *_OPTIONS[format_], "NEW FILES ONLY"))
            raise ParseError(f"COPY has no option {name} for {format_}{hint}", span=name.span, code="unknown-option")
    return format_, given


def _guess_format(path: str) -> str:
    found = re.search(r"\.(parquet|csv|tsv|txt|jsonl|ndjson|json)[*?]*(\.gz|\.zst)?$", path.lower())
    return "parquet" if found is None else _ENDINGS.get(found[1], "parquet")


def _from_parquet(session: Session, file: _File, path: str, label: str) -> _Matched:
    found = session.describe(f"SELECT * FROM read_parquet({path}{file.said})")
    return _by_name(file, label, [c.name for c in found], "read_parquet", file.said, tuple(c.type for c in found))


def _from_json(session: Session, file: _File, path: str, label: str) -> _Matched:
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
    file: _File, label: str, found: Sequence[str], reader: str, said: str, types: tuple[str, ...] = ()
) -> _Matched:
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
    return _Matched(chosen, reader, said, tuple(wanted), types)


def _from_csv(session: Session, file: _File, path: str, label: str) -> _Matched:
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
        raise BindError(f"{label} seems to begin with names ({names}) of which table {table.name} has none; say HEADER "
                        "false if they are data, HEADER true to load by position", code="file-columns")  # fmt: skip
    if len(found) != len(wanted):
        raise BindError(f"{label} has {len(found)} columns without the names of table {table.name}, which takes "
                        f"{len(wanted)} here ({', '.join(wanted)})", code="file-columns")  # fmt: skip
    header = "" if file.headed else ", header = false"
    said = f", columns = {_struct(types)}, auto_detect = true{file.said}{header}"
    return _Matched("*", "read_csv", said, tuple(wanted))


def _struct(types: Mapping[str, str]) -> str:
    """Columns and their types, as DuckDB's readers take them."""
    return f"{{{', '.join(f'{text_literal(name)}: {text_literal(type_)}' for name, type_ in types.items())}}}"


def _literal(value: str | bool | int | float) -> str:
    return text_literal(value) if isinstance(value, str) else str(value).lower()
