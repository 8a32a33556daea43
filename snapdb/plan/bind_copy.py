"""COPY … FROM: a file's columns matched with the table's."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snapdb.errors import BindError, ParseError, SnapdbError
from snapdb.plan.asked import Asked
from snapdb.plan.copyable import copyable
from snapdb.plan.logical import InsertPlan, Plan
from snapdb.plan.names import find_table, named_columns
from snapdb.plan.scope import Context
from snapdb.relational import Session, quote, text_literal
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
    format_, options = _options(statement)
    said = "".join(f", {_THEIRS.get(k, k)} = {_literal(v)}" for k, v in options.items())
    path = text_literal(statement.path)
    with context.relational.session() as session:
        try:
            match format_:
                case "csv":
                    sql, supplied = _from_csv(session, path, table, wanted, options, said)
                case "json":
                    sql, supplied = _from_json(session, path, table, wanted, said)
                case _:
                    sql, supplied = _from_parquet(session, path, table, wanted, said)
            whole = format_ == "parquet" and not options and set(supplied) == {c.name for c in table.columns}
            copies = copyable(session, statement.path, table.columns) if whole else ()
        except SnapdbError as error:
            error.span = statement.path_span
            raise
    return InsertPlan(table, tuple(supplied), Asked(sql, statement.path_span), statement.message, copies)


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
            hint = did_you_mean(name.text, ("format", *_OPTIONS[format_]))
            raise ParseError(f"COPY has no option {name} for {format_}{hint}", span=name.span, code="unknown-option")
    return format_, given


def _guess_format(path: str) -> str:
    found = re.search(r"\.(parquet|csv|tsv|txt|jsonl|ndjson|json)[*?]*(\.gz|\.zst)?$", path.lower())
    return "parquet" if found is None else _ENDINGS.get(found[1], "parquet")


def _from_parquet(session: Session, path: str, table: Table, wanted: Sequence[str], said: str) -> tuple[str, list[str]]:
    source = f"read_parquet({path}{said})"
    file = [c.name for c in session.describe(f"SELECT * FROM {source}")]
    return _by_name(source, path, file, table, wanted)


def _from_json(session: Session, path: str, table: Table, wanted: Sequence[str], said: str) -> tuple[str, list[str]]:
    """JSON objects, one a line or in an array; a key that some lack is NULL there."""
    file = {c.name.lower(): c.name for c in session.describe(f"SELECT * FROM read_json({path}{said})")}
    if "json" in file and len(file) == 1 and table.column("json") is None:
        raise BindError(
            f"{path} holds no JSON objects, whose keys would be the columns of {table.name}", code="file-columns"
        )
    extra = [name for folded, name in file.items() if table.column(folded) is None]
    types = {file.get(w.lower(), w): column.type for w in wanted if (column := table.column(w)) is not None}
    # Bytes are written as in SQL, '\\xFF', which DuckDB reads in a text but not in JSON.
    read = {name: "VARCHAR" if type_ == "BLOB" else type_ for name, type_ in types.items()}
    columns = ", ".join(f"{text_literal(name)}: {text_literal(type_)}" for name, type_ in read.items())
    source = f"read_json({path}, columns = {{{columns}}}{said})"
    return _by_name(source, path, [*types, *extra], table, wanted)


def _by_name(source: str, path: str, file: Sequence[str], table: Table, wanted: Sequence[str]) -> tuple[str, list[str]]:
    """Columns matched by name, whatever their case and order; all that are wanted, and no others, must be there."""
    named = {name.lower(): name for name in file}
    if missing := [w for w in wanted if w.lower() not in named]:
        hint = did_you_mean(missing[0], file) or f"; it has {', '.join(file)}"
        raise BindError(f'{path} has no column "{missing[0]}" for table {table.name}{hint}', code="unknown-column")
    extra = [name for name in file if table.column(name) is None]
    if extra:
        hint = f"name the columns to load: COPY {table.name} ({', '.join(wanted)}) FROM {path}"
        raise BindError(
            f'{path} has a column "{extra[0]}" that table {table.name} has not; {hint}', code="file-columns"
        )
    chosen = ", ".join(quote(named[w.lower()]) for w in wanted)
    return f"SELECT {chosen} FROM {source}", list(wanted)


def _from_csv(
    session: Session,
    path: str,
    table: Table,
    wanted: Sequence[str],
    options: dict[str, str | bool | int | float],
    said: str,
) -> tuple[str, list[str]]:
    """A CSV with a header that names the columns is read by name, any other by position."""
    file = session.describe(f"SELECT * FROM read_csv({path}{said})")
    types = {w: column.type for w in wanted if (column := table.column(w)) is not None}
    known = {c.name.lower(): c.name for c in file}
    if any(w.lower() in known for w in wanted):
        cast = ", ".join(
            f"{text_literal(known[w.lower()])}: {text_literal(t)}" for w, t in types.items() if w.lower() in known
        )
        source = f"read_csv({path}, types = {{{cast}}}{said})"
        return _by_name(source, path, [c.name for c in file], table, wanted)
    if "header" not in options and any(not re.fullmatch(r"column\d+", c.name) for c in file):
        names = ", ".join(c.name for c in file)
        raise BindError(f"{path} seems to begin with names ({names}) of which table {table.name} has none; say HEADER "
                        "false if they are data, HEADER true to load by position", code="file-columns")  # fmt: skip
    if len(file) != len(wanted):
        raise BindError(f"{path} has {len(file)} columns without the names of table {table.name}, which takes "
                        f"{len(wanted)} here ({', '.join(wanted)})", code="file-columns")  # fmt: skip
    columns = ", ".join(f"{text_literal(w)}: {text_literal(t)}" for w, t in types.items())
    said += "" if "header" in options else ", header = false"
    return f"SELECT * FROM read_csv({path}, columns = {{{columns}}}, auto_detect = true{said})", list(wanted)


def _literal(value: str | bool | int | float) -> str:
    return text_literal(value) if isinstance(value, str) else str(value).lower()
