"""Plans of COPY … TO, which writes rows to a file, and snapshots and batches to directories."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

from snapdb.catalog.elements import shown_columns
from snapdb.catalog.system_tables import SCHEMA, SYSTEM_TABLES
from snapdb.errors import BindError, InputError, ParseError, SnapdbError, Span
from snapdb.plan.copy_from import bind_copy_from
from snapdb.plan.fits import SqlType
from snapdb.plan.names import check_new, find_named, find_table
from snapdb.plan.plan import Plan, PlanFamily, PlanNode, describe_query
from snapdb.plan.queries import BoundQuery
from snapdb.plan.samples import bind_sample
from snapdb.plan.samples.plans import SamplePlan
from snapdb.plan.scope import BindContext
from snapdb.sql.exports import CopyDatabase, CopyFrom, CopySampleTo, CopySnapshotTo, CopyTo
from snapdb.sql.syntax import ColumnList, Name, SqlFragment
from snapdb.sql_engine import Names, check_storable, qualified, quote, quote_all, quote_odd, text_literal
from snapdb.sql_engine.foreign import ForeignDatabase
from snapdb.types import Column, Snapshot, Table, by_word
from snapdb.types.lakes import about_lake
from snapdb.types.text import counted, did_you_mean

FileFormat = Literal["parquet", "csv", "tsv", "json", "jsonl", "arrow"]
SnapshotFormat = Literal["parquet", "npz", "pyg", "arrow", "safetensors", "graphar", "dgl"]
_BatchFormat = Literal["arrow", "parquet", "npz", "safetensors", "pt"]
_FILE_FORMATS: dict[str, FileFormat] = {
    "parquet": "parquet",
    "csv": "csv",
    "tsv": "tsv",
    "json": "json",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "arrow": "arrow",
}
_ENDINGS: dict[str, FileFormat] = {
    **_FILE_FORMATS,
    "pq": "parquet",
    "txt": "csv",
    "feather": "arrow",
    "arrows": "arrow",
    "ipc": "arrow",
}
"""Maps file name extensions to formats."""
_CSV_OPTIONS = (
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
_JSON_OPTIONS = ("compression", "dateformat", "timestampformat")
_FILE_OPTIONS: dict[FileFormat, tuple[str, ...]] = {
    "parquet": ("compression", "compression_level", "row_group_size", "row_group_size_bytes"),
    "csv": _CSV_OPTIONS,
    "tsv": tuple(option for option in _CSV_OPTIONS if option not in ("delim", "delimiter", "sep")),
    "json": _JSON_OPTIONS,
    "jsonl": _JSON_OPTIONS,
    "arrow": (),
}
"""The options of each format. DuckDB's writers accept them under these names or those in `_DUCKDB_NAMES`."""
_DUCKDB_NAMES = {"nullstr": "null", "delimiter": "delim", "sep": "delim"}
_WRITERS: dict[FileFormat, str] = {
    "parquet": "FORMAT parquet",
    "csv": "FORMAT csv",
    "tsv": "FORMAT csv, DELIM '\t'",
    "json": "FORMAT json, ARRAY true",
    "jsonl": "FORMAT json, ARRAY false",
    "arrow": "",
}
_FOLDER_OPTIONS = frozenset(
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
"""DuckDB's COPY options that would write a directory of files."""
_COPY_SNAPSHOT = "COPY SNAPSHOT … TO"
_SNAPSHOT_FORMATS: dict[str, SnapshotFormat] = by_word(SnapshotFormat)
_TABLES: tuple[SnapshotFormat, ...] = ("parquet", "graphar")
"""The formats that have columns instead of arrays, and therefore no masks."""
_SNAPSHOT_OPTIONS: dict[str, type] = {"format": str, "split": str, "overwrite": bool}
_SPLIT = "split"
"""The default name of the column that assigns vertices to splits."""
_COPY_SAMPLE = "COPY (SAMPLE …) TO"
_BATCH_FORMATS: dict[str, _BatchFormat] = by_word(_BatchFormat)
_BATCH_OPTIONS: dict[str, type] = {"format": str, "epochs": int, "overwrite": bool}
_VALUE_WORDS = {bool: "true or false", int: "an integer", str: "one name"}


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A table of another database that is copied."""

    source: str
    """Its name in the other database."""
    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class CopyDatabasePlan(Plan):
    """COPY FROM DATABASE: create tables with the rows of another database's tables, as one version."""

    transactional: ClassVar[bool] = True

    path: str
    tables: tuple[ForeignTable, ...]
    base: int
    """The version at which the names were checked."""
    message: str | None

    def describe(self) -> PlanNode:
        names = ", ".join(table.name for table in self.tables)
        return PlanNode("CopyDatabase", f"{self.path}: {names}")


@dataclass(frozen=True, slots=True)
class CopyToPlan(Plan):
    """COPY … TO: write rows to a file."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    query: BoundQuery
    path: str
    span: Span
    """The span of the path."""
    format: FileFormat
    writer: str
    """The parenthesized options for DuckDB's COPY, or an empty string if DuckDB does not write the file."""

    def source(self) -> BoundQuery | None:
        return self.query

    def describe(self) -> PlanNode:
        return PlanNode("CopyTo", f"'{self.path}'", (describe_query(self.query),))


@dataclass(frozen=True, slots=True)
class CopySnapshotPlan(Plan):
    """COPY SNAPSHOT … TO: write a whole snapshot to a directory."""

    reads: ClassVar[bool] = True

    snapshot: Snapshot
    path: str
    span: Span
    """The span of the path."""
    format: SnapshotFormat
    splits: Mapping[str, str]
    """Maps each vertex type that is split to the column whose values become masks."""
    split_said: bool
    """Whether the statement names the column. If it does, unusable values are an error."""
    overwrite: bool
    """Whether to replace an earlier export at the path."""

    def describe(self) -> PlanNode:
        splits = {} if self.format in _TABLES else self.splits
        graph = self.snapshot.graph
        vertices = (PlanNode("Vertices", f"{v.name}{_mask_note(splits.get(v.name))}") for v in graph.vertices)
        edges = (PlanNode("Edges", edge.name) for edge in graph.edges)
        return PlanNode("CopySnapshot", f"{self.snapshot.name} to '{self.path}' as {self.format}", (*vertices, *edges))


@dataclass(frozen=True, slots=True)
class CopySamplePlan(Plan):
    """COPY (SAMPLE …) TO: write the batches of a sampler to a directory, one file per batch."""

    reads: ClassVar[bool] = True

    sample: SamplePlan
    path: str
    span: Span
    """The span of the path."""
    format: _BatchFormat
    overwrite: bool
    """Whether to replace an earlier export at the path."""

    def describe(self) -> PlanNode:
        epochs = counted(self.sample.epochs, "epoch")
        detail = f"{epochs} to '{self.path}' as {self.format}"
        return PlanNode("CopySample", detail, (self.sample.describe(),))


def _mask_note(column: str | None) -> str:
    return "" if column is None else f", a mask for each {column}"


def _bind_copy_to(statement: CopyTo, context: BindContext) -> CopyToPlan:
    if not statement.path.strip():
        raise BindError("COPY TO must have a path", span=statement.path_span, code="bad-path")
    format_ = _file_format(statement)
    writer = [_WRITERS[format_], *_writer_options(statement, format_)]
    rows = _copied_rows(statement, context)
    return CopyToPlan(rows, statement.path, statement.path_span, format_, ", ".join(filter(None, writer)))


def _copied_rows(statement: CopyTo, context: BindContext) -> BoundQuery:
    """Bind the rows of a query, a table at a version, or a snapshot element."""
    if statement.query is not None:
        return context.bind_query(statement.query)
    assert statement.table is not None, "the parser wants one of them"
    owner, name = statement.snapshot, statement.table
    if owner is not None and ("schema", owner.text.lower()) in context.catalog.definitions:
        span = Span(owner.span.start, name.span.stop)
        name = Name(f"{owner}.{name}", span, owner.text)
    elif owner is not None:
        return _copied(statement, context, *_snapshot_element(context, owner, name))
    if context.catalog.is_defined(name.text):
        source = qualified(name.schema, name.last)
        at = "" if statement.at is None else f" AT ({statement.at.kind} => {statement.at.value.text})"
        query = context.bind_query(SqlFragment(f"FROM {source}{at}", name.span))
        source, names = query.text.removeprefix("FROM "), query.names
    else:
        table = _table_at(statement, name, context)
        source, names = quote_odd(table.name), Names({table.name: context.rows(table)})
    return _copied(statement, context, source, names)


def _copied(statement: CopyTo, context: BindContext, source: str, names: Names) -> BoundQuery:
    """Return the query of the listed columns of a source."""
    assert statement.table is not None, "a query has no list of columns"
    columns = _chosen_columns(statement, context, source, names) if statement.columns else "*"
    return BoundQuery(f"SELECT {columns} FROM {source}", statement.table.span, names)


def _table_at(statement: CopyTo, name: Name, context: BindContext) -> Table:
    if statement.at is None:
        return find_table(context, name)
    version = context.resolve_version(statement.at)
    try:
        return context.table_at(name.text, version)
    except SnapdbError as error:
        error.span = error.span or name.span
        raise


def _snapshot_element(context: BindContext, name: Name, element_name: Name) -> tuple[str, Names]:
    """Return the qualified SQL name of a snapshot element or system table, and the views that it requires."""
    if name.text.lower() == SCHEMA:
        return _system_table(context, element_name)
    snapshot = find_named(context.catalog.snapshot, name)
    known = {e.name.lower(): e.name for e in snapshot.graph.elements}
    if (element := known.get(element_name.text.lower())) is None:
        hint = did_you_mean(element_name.text, known.values()) or f"; the snapshot has {', '.join(known.values())}"
        raise BindError(
            f'element "{element_name}" does not exist in snapshot {snapshot.name}{hint}',
            span=element_name.span,
            code="unknown-element",
        )
    views = context.views(snapshot, {element})
    return f"{quote_odd(snapshot.name)}.{quote_odd(element)}", Names(schemas={snapshot.name: views})


def _system_table(context: BindContext, name: Name) -> tuple[str, Names]:
    table = name.text.lower()
    if table not in SYSTEM_TABLES:
        known = ", ".join(f"{SCHEMA}.{known}" for known in SYSTEM_TABLES)
        hint = did_you_mean(table, SYSTEM_TABLES) or f"; available: {known}"
        raise BindError(f"table {SCHEMA}.{table} does not exist{hint}", span=name.span, code="unknown-table")
    views, sources = context.facts({table})
    return f"{SCHEMA}.{table}", Names(schemas={SCHEMA: views}, sources=sources)


def _chosen_columns(statement: CopyTo, context: BindContext, source: str, names: Names) -> str:
    with context.store.sql_engine.session(names) as session:
        known = {column.name.lower(): column.name for column in session.describe(f"SELECT * FROM {source}")}
    for name in statement.columns:
        if name.text.lower() not in known:
            hint = did_you_mean(name.text, known.values()) or f"; the columns are {', '.join(known.values())}"
            raise BindError(
                f'column "{name}" does not exist in {statement.table}{hint}', span=name.span, code="unknown-column"
            )
    return quote_all(known[name.text.lower()] for name in statement.columns)


def _file_format(statement: CopyTo) -> FileFormat:
    """Return the format from FORMAT or the file name extension. The default is Parquet."""
    option = next((value for name, value in statement.options if name.text.lower() == "format"), None)
    place = next((name.span for name, _ in statement.options if name.text.lower() == "format"), statement.path_span)
    if option is None:
        ending = re.search(r"\.(\w+)(\.gz|\.zst)?$", statement.path.lower())
        if ending is None:
            return "parquet"
        if (implied := _ENDINGS.get(ending[1])) is None:
            hint = (
                did_you_mean(ending[1], _ENDINGS) or f"; specify a format, such as (FORMAT {next(iter(_FILE_FORMATS))})"
            )
            raise BindError(f"unknown file extension .{ending[1][:40]}{hint}", span=place, code="unknown-format")
        return implied
    if (format_ := _FILE_FORMATS.get(str(option).lower())) is None:
        instead = about_lake(str(option), writes=True) or f"the formats are {', '.join(_FILE_FORMATS)}"
        hint = did_you_mean(str(option), _FILE_FORMATS) or f"; {instead}"
        raise BindError(f"unknown format {str(option)[:40]!r} of COPY TO{hint}", span=place, code="unknown-format")
    return format_


def _writer_options(statement: CopyTo, format_: FileFormat) -> list[str]:
    """Return the options other than FORMAT in the syntax of DuckDB's writer."""
    options: dict[str, str] = {}
    for name, value in statement.options:
        option = name.text.lower()
        if option != "format" and option not in _FILE_OPTIONS[format_]:
            raise _unknown_option(name, format_)
        # NULLSTR and NULL set the same DuckDB option, as do SEP and DELIM, so specifying both is a duplicate.
        if (same := _DUCKDB_NAMES.get(option, option)) in options:
            raise ParseError(f"{name} is specified twice; keep one", span=name.span, code="duplicate-clause")
        options[same] = f"{same.upper()} {_option_literal(value)}"
    return [text for option, text in options.items() if option != "format"]


def _unknown_option(name: Name, format_: FileFormat) -> ParseError:
    if name.text.lower() in _FOLDER_OPTIONS:
        return ParseError(
            f"{name} is not supported, because COPY TO writes one file; leave it out, or write one COPY per part",
            span=name.span,
            code="unknown-option",
        )
    known = ("format", *_FILE_OPTIONS[format_])
    hint = did_you_mean(name.text, known) or f"; the options are {', '.join(known)}"
    return ParseError(f"unknown option {name} of COPY TO for {format_}{hint}", span=name.span, code="unknown-option")


def _option_literal(value: str | bool | int | float | ColumnList) -> str:
    match value:
        case str():
            return text_literal(value)
        case tuple():
            return f"({', '.join(quote(name.text) for name in value)})"
        case _:
            return str(value).lower()


def _bind_copy_snapshot(statement: CopySnapshotTo, context: BindContext) -> CopySnapshotPlan:
    """Bind the snapshot, its directory, and the columns that split its vertices."""
    snapshot = find_named(context.catalog.snapshot, statement.snapshot)
    options = _export_options(_COPY_SNAPSHOT, statement, _SNAPSHOT_OPTIONS)
    format_ = _SNAPSHOT_FORMATS[_chosen_format(_COPY_SNAPSHOT, options, _SNAPSHOT_FORMATS)]
    return CopySnapshotPlan(
        snapshot,
        statement.path,
        statement.path_span,
        format_,
        _split_columns(snapshot, context, options.get("split")),
        split_said="split" in options,
        overwrite=_overwrites(options),
    )


def _split_columns(snapshot: Snapshot, context: BindContext, option: _Chosen | None) -> Mapping[str, str]:
    """Return the table column that assigns vertices to splits, by vertex type, for the types that have one."""
    wanted = _SPLIT if option is None else option.value.lower()
    columns = list(_shown_columns(snapshot, context))
    matches = [(element, column) for element, name, column in columns if name.lower() == wanted]
    text = {element: column.name for element, column in matches if SqlType(column.type).key_family() == "VARCHAR"}
    # Without the option, a missing or unsuitable column is not an error, and no masks are written.
    if option is None:
        return text
    if not matches:
        known = {name for _, name, column in columns if SqlType(column.type).key_family() == "VARCHAR"}
        hint = did_you_mean(option.value, known) or "; SPLIT must be a text column of a vertex type"
        raise BindError(
            f'column "{option.value}" does not exist in the vertex types of {snapshot.name}{hint}',
            span=option.span,
            code="unknown-column",
        )
    if not text:
        element, column = matches[0]
        raise BindError(
            f'column "{column.name}" of {element} is {column.type}; a split must be text, such as train and test',
            span=option.span,
            code="column-type",
        )
    return text


def _shown_columns(snapshot: Snapshot, context: BindContext) -> Iterator[tuple[str, str, Column]]:
    """Yield the vertex type, shown name and table column of each vertex column in the snapshot."""
    tables = context.tables_under(snapshot)
    for vertex in snapshot.graph.vertices:
        columns = {column.name: column for column in tables[vertex.table.lower()].columns}
        for name, new in shown_columns(vertex, list(columns)):
            yield vertex.name, new, columns[name]


def _bind_copy_sample(statement: CopySampleTo, context: BindContext) -> CopySamplePlan:
    options = _export_options(_COPY_SAMPLE, statement, _BATCH_OPTIONS)
    sample = bind_sample(statement.sample, context)
    if (epochs := options.get("epochs")) is not None:
        _check_epochs(statement, epochs)
        sample = replace(sample, epochs=epochs.value)
    return CopySamplePlan(
        replace(sample, delivers="batches"),
        statement.path,
        statement.path_span,
        _BATCH_FORMATS[_chosen_format(_COPY_SAMPLE, options, _BATCH_FORMATS)],
        overwrite=_overwrites(options),
    )


def _check_epochs(statement: CopySampleTo, epochs: _Chosen) -> None:
    """Raise an error if the number of epochs is invalid, or if SAMPLE also specifies one."""
    if epochs.value < 1:
        raise BindError(f"EPOCHS must be at least 1, found {epochs.value}", span=epochs.span, code="out-of-range")
    if statement.sample.clauses.epochs is not None:
        raise ParseError(
            "EPOCHS is specified in SAMPLE and as an option; keep one", span=epochs.span, code="duplicate-clause"
        )


class _Chosen(NamedTuple):
    """An option's value and span."""

    value: Any
    span: Span


def _export_options(
    statement: str, copy: CopySnapshotTo | CopySampleTo, kinds: Mapping[str, type]
) -> dict[str, _Chosen]:
    """Return a statement's options by lower-case name.

    Args:
        statement: The statement name for messages.
        copy: The statement.
        kinds: The Python type of each known option.

    Raises:
        BindError: The path is empty.
        ParseError: An option is unknown, is specified twice, or has a value of the wrong type.
    """
    if not copy.path.strip():
        raise BindError(f"{statement} must have a path", span=copy.path_span, code="bad-path")
    options: dict[str, _Chosen] = {}
    for name, value in copy.options:
        option = name.text.lower()
        if option not in kinds:
            hint = did_you_mean(name.text, kinds) or f"; the options are {', '.join(kinds)}"
            raise ParseError(f"unknown option {name} of {statement}{hint}", span=name.span, code="unknown-option")
        if option in options:
            raise ParseError(f"{name} is specified twice; keep one", span=name.span, code="duplicate-clause")
        if type(value) is not kinds[option]:  # isinstance would accept True as an int
            raise ParseError(f"{name} must be {_VALUE_WORDS[kinds[option]]}", span=name.span, code="bad-option")
        options[option] = _Chosen(value, name.span)
    return options


def _chosen_format(statement: str, options: Mapping[str, _Chosen], formats: Collection[str]) -> str:
    """Return the value of FORMAT, or the first known format by default.

    Raises:
        BindError: The format is unknown.
    """
    if "format" not in options:
        return next(iter(formats))
    text, span = options["format"]
    if (format_ := text.lower()) not in formats:
        hint = did_you_mean(text, formats) or f"; the formats are {', '.join(formats)}"
        raise BindError(f"unknown format {text[:40]!r} of {statement}{hint}", span=span, code="unknown-format")
    return str(format_)


def _overwrites(options: Mapping[str, _Chosen]) -> bool:
    return "overwrite" in options and bool(options["overwrite"].value)


def _bind_copy_database(statement: CopyDatabase, context: BindContext) -> CopyDatabasePlan:
    """Read the columns of the chosen tables, and check that their names are free."""
    try:
        context.store.sql_engine.check_folder(statement.path)
        with ForeignDatabase(statement.path) as database:
            known = database.tables()
    except InputError as error:
        error.span = statement.path_span
        raise
    tables: list[ForeignTable] = []
    for source, name in statement.tables or [(Name(each, statement.path_span), None) for each in known]:
        found = next((each for each in known if each.lower() == source.text.lower()), None)
        if found is None:
            hint = did_you_mean(source.text, known) or f"; it has {', '.join(known) or 'no tables'}"
            raise BindError(
                f'table "{source}" does not exist in {statement.path}{hint}', span=source.span, code="unknown-table"
            )
        new = name or source
        check_new(context.catalog, new)
        if new.text.lower() in {table.name.lower() for table in tables}:
            raise BindError(f'table "{new}" is listed twice', span=new.span, code="duplicate-name")
        try:
            check_storable(known[found])
        except BindError as error:
            error.message = f"{found}: {error.message}"
            error.span = source.span
            raise
        columns = tuple(replace(column, field=i) for i, column in enumerate(known[found], 1))
        tables.append(ForeignTable(found, new.text, columns))
    if not tables:
        raise InputError(f"{statement.path} has no tables", span=statement.path_span, code="unreadable-database")
    return CopyDatabasePlan(statement.path, tuple(tables), context.catalog.version, statement.message)


FAMILY = PlanFamily(
    binders={
        CopyDatabase: _bind_copy_database,
        CopyFrom: bind_copy_from,
        CopyTo: _bind_copy_to,
        CopySnapshotTo: _bind_copy_snapshot,
        CopySampleTo: _bind_copy_sample,
    },
    operators={
        CopyDatabasePlan: "snapdb.execute.exports.databases:copy_database",
        CopyToPlan: "snapdb.execute.exports.files:copy_to",
        CopySnapshotPlan: "snapdb.execute.exports.snapshots:copy_snapshot",
        CopySamplePlan: "snapdb.execute.exports.samples:copy_sample",
    },
)
