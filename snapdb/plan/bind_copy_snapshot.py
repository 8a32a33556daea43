"""COPY SNAPSHOT … TO: which snapshot goes into which folder, and the columns that say who trains and who tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from snapdb.catalog.elements import shown_columns
from snapdb.errors import BindError
from snapdb.plan.export_options import Chosen, chosen_format, export_options, overwrites
from snapdb.plan.exports import CopySnapshotPlan, SnapshotFormat
from snapdb.plan.fits import key_family
from snapdb.plan.names import find_snapshot
from snapdb.plan.scope import Context
from snapdb.sql.ast import CopySnapshotTo
from snapdb.types import Column, Snapshot, by_word
from snapdb.types.text import did_you_mean

_STATEMENT = "COPY SNAPSHOT … TO"
_FORMATS: dict[str, SnapshotFormat] = by_word(SnapshotFormat)
_OPTIONS: dict[str, type] = {"format": str, "split": str, "overwrite": bool}
_SPLIT = "split"
"""The column that tells splits where nothing else was said."""


def bind_copy_snapshot(statement: CopySnapshotTo, context: Context) -> CopySnapshotPlan:
    """The snapshot, its folder, and the columns that split its vertices."""
    snapshot = find_snapshot(context, statement.snapshot)
    options = export_options(_STATEMENT, statement, _OPTIONS)
    format_ = _FORMATS[chosen_format(_STATEMENT, options, _FORMATS)]
    return CopySnapshotPlan(
        snapshot,
        statement.path,
        statement.path_span,
        format_,
        _splits(snapshot, context, options.get("split")),
        split_said="split" in options,
        overwrite=overwrites(options),
    )


def _splits(snapshot: Snapshot, context: Context, said: Chosen | None) -> Mapping[str, str]:
    """Vertex type → the column of its table that splits its vertices, of those that have one."""
    wanted = _SPLIT if said is None else said.value.lower()
    columns = list(_shown(snapshot, context))
    found = [(element, column) for element, name, column in columns if name.lower() == wanted]
    text = {element: column.name for element, column in found if key_family(column.type) == "VARCHAR"}
    if said is None:
        return text
    if not found:
        known = {name for _, name, column in columns if key_family(column.type) == "VARCHAR"}
        hint = did_you_mean(said.value, known) or "; SPLIT names a column of text of a vertex type"
        raise BindError(
            f'no vertex type of {snapshot.name} shows a column "{said.value}"{hint}',
            span=said.span,
            code="unknown-column",
        )
    if not text:
        element, column = found[0]
        raise BindError(
            f'column "{column.name}" of {element} is {column.type}; a split is text, such as train and test',
            span=said.span,
            code="column-type",
        )
    return text


def _shown(snapshot: Snapshot, context: Context) -> Iterator[tuple[str, str, Column]]:
    """Every column of a vertex type that the snapshot shows: the type, its name there, and the table's column."""
    tables = context.tables_under(snapshot)
    for vertex in snapshot.graph.vertices:
        columns = {column.name: column for column in tables[vertex.table.lower()].columns}
        for name, new in shown_columns(vertex, list(columns)):
            yield vertex.name, new, columns[name]
