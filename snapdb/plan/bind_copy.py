"""COPY … FROM: a query over files whose columns are the table's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from snapdb.errors import BindError, ParseError, SnapdbError
from snapdb.plan.asked import Asked
from snapdb.plan.copyable import copyable
from snapdb.plan.match_columns import File, Matched, match_columns
from snapdb.plan.names import find_table, named_columns
from snapdb.plan.new_files import find_new_files
from snapdb.plan.own_files import check_foreign_path
from snapdb.plan.plan import NothingPlan, Plan
from snapdb.plan.scope import Context
from snapdb.plan.tables import InsertPlan
from snapdb.relational import Session, file_literal, files_behind, files_literal, text_literal
from snapdb.sql.ast import CopyFrom
from snapdb.types.text import did_you_mean

_CSV = (
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
_JSON = (
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
        within = text_literal(statement.path.rstrip("/") + "/*.parquet")
        raise BindError(
            f"{text_literal(statement.path)} is a folder; name the files in it, as {within}",
            span=statement.path_span,
            code="bad-path",
        )
    if not statement.new_only:  # which passes over the database's own files
        check_foreign_path(context.home.path, statement.path, statement.path_span)
    format_, options = _options(statement)
    said = "".join(f", {_THEIRS.get(k, k)} = {_literal(v)}" for k, v in options.items())
    file = File(format_, "header" in options, said, table, wanted)
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
                matched = match_columns(session, file, path, path)
                sql, supplied = matched.sql(path), matched.supplied
            if format_ == "parquet" and not options and set(supplied) == {c.name for c in table.columns}:
                files = files_behind(session, statement.path) if new is None else new.names
                copies = copyable(session, files, table.columns)
        except SnapdbError as error:
            error.span = statement.path_span
            raise
    return InsertPlan(table, supplied, Asked(sql, statement.path_span), statement.message, copies, new)


def _each(session: Session, file: File, names: Sequence[str], *, together: bool) -> tuple[str, tuple[str, ...]]:
    """A query over some files, each matched by itself as if it were alone, and the columns that it gives.

    Args:
        together: Their columns count together, as was asked for.
    """
    if together:
        literal = files_literal(names)
        matched = match_columns(session, file, literal, f"{len(names)} files, {names[0]} the first,")
        return matched.sql(literal), matched.supplied
    alike: list[tuple[Matched, list[str]]] = []
    for name in names:
        session.check_stopped()
        matched = match_columns(session, file, file_literal(name), text_literal(name))
        if not alike or alike[-1][0] != matched:
            alike.append((matched, []))
        alike[-1][1].append(name)
    return " UNION ALL ".join(matched.sql(files_literal(group)) for matched, group in alike), alike[0][0].supplied


def _options(statement: CopyFrom) -> tuple[str, dict[str, str | bool | int | float]]:
    """The format, said or told by the file's ending, and the other options."""
    given = {name.text.lower(): value for name, value in statement.options}
    format_ = str(given.pop("format", _guess_format(statement.path))).lower()
    if format_ not in _OPTIONS:
        hint = f"it reads {', '.join(_OPTIONS)}{did_you_mean(format_, _OPTIONS)}"
        said = next((name.span for name, _ in statement.options if name.text.lower() == "format"), None)
        raise BindError(
            f"cannot COPY FROM format {format_!r}; {hint}", span=said or statement.path_span, code="unknown-format"
        )
    for name, _ in statement.options:
        if name.text.lower() not in ("format", *_OPTIONS[format_]):
            hint = did_you_mean(name.text.replace("_", " "), ("format", *_OPTIONS[format_], "NEW FILES ONLY"))
            raise ParseError(f"COPY has no option {name} for {format_}{hint}", span=name.span, code="unknown-option")
    return format_, given


def _guess_format(path: str) -> str:
    found = re.search(r"\.(parquet|csv|tsv|txt|jsonl|ndjson|json)[*?]*(\.gz|\.zst)?$", path.lower())
    return "parquet" if found is None else _ENDINGS.get(found[1], "parquet")


def _literal(value: str | bool | int | float) -> str:
    return text_literal(value) if isinstance(value, str) else str(value).lower()
