"""COPY … TO: what is written, in which format, and with which options of the writer."""

from __future__ import annotations

import re

from snapdb.catalog.system_tables import FACTS, SCHEMA
from snapdb.errors import BindError, ParseError, SnapdbError
from snapdb.plan.asked import Asked
from snapdb.plan.exports import CopyToPlan, FileFormat
from snapdb.plan.moments import resolve_version
from snapdb.plan.names import find_snapshot, find_table
from snapdb.plan.scope import Context
from snapdb.relational import Names, quote, quote_all, quote_odd, text_literal
from snapdb.sql.ast import ColumnList, CopyTo, Name
from snapdb.types import Table
from snapdb.types.text import did_you_mean

_FORMATS: dict[str, FileFormat] = {
    "parquet": "parquet",
    "csv": "csv",
    "tsv": "tsv",
    "json": "json",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "arrow": "arrow",
}
_ENDINGS: dict[str, FileFormat] = {
    **_FORMATS,
    "pq": "parquet",
    "txt": "csv",
    "feather": "arrow",
    "arrows": "arrow",
    "ipc": "arrow",
}
"""What a file's name ends in, and its format."""
_CSV = (
    "compression",
    "dateformat",
    "delim",
    "delimiter",
    "encoding",
    "escape",
    "force_quote",
    "header",
    "null",
    "nullstr",
    "quote",
    "sep",
    "timestampformat",
)
_JSON = ("compression", "dateformat", "timestampformat")
_OPTIONS: dict[FileFormat, tuple[str, ...]] = {
    "parquet": ("compression", "compression_level", "row_group_size", "row_group_size_bytes"),
    "csv": _CSV,
    "tsv": tuple(option for option in _CSV if option not in ("delim", "delimiter", "sep")),
    "json": _JSON,
    "jsonl": _JSON,
    "arrow": (),
}
"""What may be said for each format; DuckDB's writers take them under these names or those of `_THEIRS`."""
_THEIRS = {"nullstr": "null", "delimiter": "delim", "sep": "delim"}
_WRITERS: dict[FileFormat, str] = {
    "parquet": "FORMAT parquet",
    "csv": "FORMAT csv",
    "tsv": "FORMAT csv, DELIM '\t'",
    "json": "FORMAT json, ARRAY true",
    "jsonl": "FORMAT json, ARRAY false",
    "arrow": "",
}
_MANY = frozenset(
    {
        "append",
        "file_size_bytes",
        "filename_pattern",
        "hive_file_pattern",
        "overwrite",
        "overwrite_or_ignore",
        "partition_by",
        "per_thread_output",
        "write_partition_columns",
    }
)
"""Options of DuckDB's that make a folder of files."""


def bind_copy_to(statement: CopyTo, context: Context) -> CopyToPlan:
    """The query whose rows are written, and how."""
    if not statement.path.strip():
        raise BindError("COPY TO needs a path", span=statement.path_span, code="bad-path")
    format_ = _format(statement)
    writer = [_WRITERS[format_], *_options(statement, format_)]
    asked = _asked(statement, context)
    return CopyToPlan(asked, statement.path, statement.path_span, format_, ", ".join(filter(None, writer)))


def _asked(statement: CopyTo, context: Context) -> Asked:
    """The rows of a query, of a table at some version, or of a snapshot's element."""
    if statement.query is not None:
        return context.asked(statement.query)
    assert statement.table is not None, "the parser wants one of them"
    if statement.snapshot is not None:
        source, names = _element(context, statement.snapshot, statement.table)
    else:
        table = _table(statement, statement.table, context)
        source, names = quote_odd(table.name), Names({table.name: context.rows(table)})
    columns = _columns(statement, context, source, names) if statement.columns else "*"
    return Asked(f"SELECT {columns} FROM {source}", statement.table.span, names)


def _table(statement: CopyTo, name: Name, context: Context) -> Table:
    """The table at the version that was asked for."""
    if statement.at is None:
        return find_table(context, name)
    version = resolve_version(context, statement.at)
    try:
        return context.table_at(name.text, version)
    except SnapdbError as error:
        error.span = error.span or name.span
        raise


def _element(context: Context, name: Name, said: Name) -> tuple[str, Names]:
    """What a snapshot shows of an element, or a table of facts, as SQL names it."""
    if name.text.lower() == SCHEMA:
        return _fact(context, said)
    snapshot = find_snapshot(context, name)
    known = {e.name.lower(): e.name for e in snapshot.graph.elements}
    if (element := known.get(said.text.lower())) is None:
        hint = did_you_mean(said.text, known.values()) or f"; it has {', '.join(known.values())}"
        raise BindError(
            f'snapshot {snapshot.name} has no element "{said}"{hint}', span=said.span, code="unknown-element"
        )
    views = context.views(snapshot, {element})
    return f"{quote_odd(snapshot.name)}.{quote_odd(element)}", Names(schemas={snapshot.name: views})


def _fact(context: Context, said: Name) -> tuple[str, Names]:
    """A table of facts, as SQL names it."""
    table = said.text.lower()
    if table not in FACTS:
        hint = did_you_mean(table, FACTS) or f"; there are {', '.join(f'{SCHEMA}.{fact}' for fact in FACTS)}"
        raise BindError(f"no table {SCHEMA}.{said}{hint}", span=said.span, code="unknown-table")
    views, sources = context.facts({table})
    return f"{SCHEMA}.{table}", Names(schemas={SCHEMA: views}, sources=sources)


def _columns(statement: CopyTo, context: Context, source: str, names: Names) -> str:
    with context.relational.session(names) as session:
        known = {column.name.lower(): column.name for column in session.describe(f"SELECT * FROM {source}")}
    for name in statement.columns:
        if name.text.lower() not in known:
            hint = did_you_mean(name.text, known.values()) or f"; it has {', '.join(known.values())}"
            raise BindError(f'no column "{name}" in {statement.table}{hint}', span=name.span, code="unknown-column")
    return quote_all(known[name.text.lower()] for name in statement.columns)


def _format(statement: CopyTo) -> FileFormat:
    """The format, said or told by the file's ending; Parquet where it has none."""
    said = next((value for name, value in statement.options if name.text.lower() == "format"), None)
    place = next((name.span for name, _ in statement.options if name.text.lower() == "format"), statement.path_span)
    if said is None:
        ending = re.search(r"\.(\w+)(\.gz|\.zst)?$", statement.path.lower())
        if ending is None:
            return "parquet"
        if (told := _ENDINGS.get(ending[1])) is None:
            hint = did_you_mean(ending[1], _ENDINGS) or f"; say which, e.g. (FORMAT {next(iter(_FORMATS))})"
            raise BindError(f"the ending .{ending[1][:40]} tells no format{hint}", span=place, code="unknown-format")
        return told
    if (found := _FORMATS.get(str(said).lower())) is None:
        hint = did_you_mean(str(said), _FORMATS) or f"; it writes {', '.join(_FORMATS)}"
        raise BindError(f"cannot COPY TO format {str(said)[:40]!r}{hint}", span=place, code="unknown-format")
    return found


def _options(statement: CopyTo, format_: FileFormat) -> list[str]:
    """The other options as DuckDB's writer takes them, each once."""
    found: dict[str, str] = {}
    for name, value in statement.options:
        option = name.text.lower()
        if option != "format" and option not in _OPTIONS[format_]:
            raise _unknown(name, format_)
        if (same := _THEIRS.get(option, option)) in found:
            raise ParseError(f"{name} is given twice; keep one", span=name.span, code="duplicate-clause")
        found[same] = f"{same.upper()} {_literal(value)}"
    return [said for option, said in found.items() if option != "format"]


def _unknown(name: Name, format_: FileFormat) -> ParseError:
    if name.text.lower() in _MANY:
        return ParseError(
            f"COPY TO writes one file, and {name} would make a folder of them; leave it out, or write one COPY a part",
            span=name.span,
            code="unknown-option",
        )
    known = ("format", *_OPTIONS[format_])
    hint = did_you_mean(name.text, known) or f"; it takes {', '.join(known)}"
    return ParseError(f"COPY TO has no option {name} for {format_}{hint}", span=name.span, code="unknown-option")


def _literal(value: str | bool | int | float | ColumnList) -> str:
    match value:
        case str():
            return text_literal(value)
        case tuple():
            return f"({', '.join(quote(name.text) for name in value)})"
        case _:
            return str(value).lower()
