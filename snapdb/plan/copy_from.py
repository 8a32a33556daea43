"""COPY … FROM: a file's rows and columns, bound as an INSERT."""

import re
from collections.abc import Sequence
from pathlib import Path

from snapdb.errors import BindError, ParseError, SnapdbError
from snapdb.plan.fragment_checks import check_foreign_path
from snapdb.plan.input_files import File, Matched, copyable, find_new_files, match_columns
from snapdb.plan.names import find_table, named_columns
from snapdb.plan.plan import NothingPlan, Plan
from snapdb.plan.queries import BoundQuery
from snapdb.plan.scope import BindContext
from snapdb.plan.tables.columns import with_column_names
from snapdb.plan.tables.plans import InsertPlan
from snapdb.sql.exports import CopyFrom
from snapdb.sql_engine import SqlSession, file_literal, files_literal, text_literal
from snapdb.types.lakes import about_lake
from snapdb.types.text import did_you_mean

_CSV_OPTIONS = (
    "header",
    "delimiter",
    "delim",
    "sep",
    "quote",
    "escape",
    "nullstr",
    "null",
    "skip",
    "dateformat",
    "timestampformat",
    "decimal_separator",
    "ignore_errors",
    "encoding",
    "comment",
    "union_by_name",
    "hive_partitioning",
    "compression",
    "sample_size",
    "strict_mode",
    "null_padding",
    "max_line_size",
)
_JSON_OPTIONS = (
    "ignore_errors",
    "records",
    "dateformat",
    "timestampformat",
    "maximum_object_size",
    "compression",
    "union_by_name",
    "hive_partitioning",
    "sample_size",
)
_COPY_OPTIONS = {
    "parquet": ("union_by_name", "hive_partitioning", "filename"),
    "csv": _CSV_OPTIONS,
    "json": _JSON_OPTIONS,
}
"""The options of each format. DuckDB's readers accept them under these names or those in `_DUCKDB_NAMES`."""
_DUCKDB_NAMES = {"delimiter": "delim", "null": "nullstr"}
_ENDINGS = {"csv": "csv", "tsv": "csv", "txt": "csv", "json": "json", "jsonl": "json", "ndjson": "json"}


def bind_copy_from(statement: CopyFrom, context: BindContext) -> Plan:
    """Match a file's columns with the table's columns, by name if the file has names, otherwise by position."""
    table = find_table(context, statement.table)
    wanted = named_columns(table, statement.columns)
    if not statement.path.strip():
        raise BindError("COPY FROM requires the path of a file, found ''", span=statement.path_span, code="bad-path")
    if statement.new_only and Path(statement.path).expanduser().is_dir():
        within = text_literal(statement.path.rstrip("/") + "/*.parquet")
        raise BindError(
            f"{text_literal(statement.path)} is a folder; write a pattern for the files in it, such as {within}",
            span=statement.path_span,
            code="bad-path",
        )
    if not statement.new_only:  # NEW FILES ONLY skips the database's own files instead
        check_foreign_path(context.store.db_dir.path, statement.path, statement.path_span)
    format_, options = _copy_options(statement)
    reader_options = "".join(f", {_DUCKDB_NAMES.get(k, k)} = {_option_literal(v)}" for k, v in options.items())
    file = File(format_, "header" in options, reader_options, table, wanted)
    new, copies = None, tuple[str, ...]()
    with context.store.sql_engine.session() as session:
        try:
            if statement.new_only:
                new = find_new_files(session, context, table, statement.path, format_)
                if not new.names:
                    return NothingPlan(f"no new files match {text_literal(statement.path)}{new.notes()}")
                sql, supplied = _select_files(session, file, new.names, together="union_by_name" in options)
            else:
                path = text_literal(statement.path)
                matched = match_columns(session, file, path, path)
                sql, supplied = matched.sql(path), matched.supplied
            if format_ == "parquet" and not options and set(supplied) == {c.name for c in table.columns}:
                files = session.files_behind(statement.path) if new is None else new.names
                copies = copyable(session, files, table.columns)
        except SnapdbError as error:
            error.span = statement.path_span
            raise
    query = with_column_names(context, table, BoundQuery(sql, statement.path_span))
    return InsertPlan(table, supplied, query, statement.message, copies, new)


def _select_files(
    session: SqlSession, file: File, names: Sequence[str], *, together: bool
) -> tuple[str, tuple[str, ...]]:
    """Return a query over the given files (each matched separately) and the columns it returns.

    Args:
        session: The session that reads the files.
        file: The declared properties of the files.
        names: The paths of the files.
        together: Whether to match the union of all columns instead, if the statement requests it.
    """
    if together:
        literal = files_literal(names)
        matched = match_columns(session, file, literal, f"{len(names)} files, {names[0]} the first,")
        return matched.sql(literal), matched.supplied
    # Consecutive files with the same columns share one reader, so thousands of such files require only one scan.
    alike: list[tuple[Matched, list[str]]] = []
    for name in names:
        session.check_stopped()
        matched = match_columns(session, file, file_literal(name), text_literal(name))
        if not alike or alike[-1][0] != matched:
            alike.append((matched, []))
        alike[-1][1].append(name)
    return " UNION ALL ".join(matched.sql(files_literal(group)) for matched, group in alike), alike[0][0].supplied


def _copy_options(statement: CopyFrom) -> tuple[str, dict[str, str | bool | int | float]]:
    """Return the format (from FORMAT or the file name extension) and the other options."""
    given = {name.text.lower(): value for name, value in statement.options}
    format_ = str(given.pop("format", _format_of_path(statement.path))).lower()
    if format_ not in _COPY_OPTIONS:
        known = f"the formats are {', '.join(_COPY_OPTIONS)}{did_you_mean(format_, _COPY_OPTIONS)}"
        hint = about_lake(format_) or known
        span = next((name.span for name, _ in statement.options if name.text.lower() == "format"), None)
        raise BindError(
            f"unknown format {format_!r} of COPY FROM; {hint}", span=span or statement.path_span, code="unknown-format"
        )
    for name, _ in statement.options:
        if name.text.lower() not in ("format", *_COPY_OPTIONS[format_]):
            hint = did_you_mean(name.text.replace("_", " "), ("format", *_COPY_OPTIONS[format_], "NEW FILES ONLY"))
            raise ParseError(
                f"unknown option {name} of COPY FROM for {format_}{hint}", span=name.span, code="unknown-option"
            )
    return format_, given


def _format_of_path(path: str) -> str:
    match = re.search(r"\.(parquet|csv|tsv|txt|jsonl|ndjson|json)[*?]*(\.gz|\.zst)?$", path.lower())
    return "parquet" if match is None else _ENDINGS.get(match[1], "parquet")


def _option_literal(value: str | bool | int | float) -> str:
    return text_literal(value) if isinstance(value, str) else str(value).lower()
