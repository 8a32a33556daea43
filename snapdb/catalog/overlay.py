"""The catalog as an open transaction sees it: the head it began at, with its own changes on top."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from snapdb.catalog.state import Catalog
from snapdb.storage.tables.changes import (
    AddTable,
    AlterTable,
    Append,
    AssignIds,
    Change,
    DropNames,
    DropTable,
    Loaded,
    RemoveRows,
)
from snapdb.types import Column, Segment, Table


def with_changes(catalog: Catalog, changes: Iterable[Change]) -> Catalog:
    """The catalog after changes that are not committed. New rows follow the table's own, as if they were next."""
    tables = {table.id: table for table in catalog.tables.values()}
    loaded = list(catalog.loading)
    for change in changes:
        match change:
            case AddTable():
                if change.replaces is not None:
                    del tables[change.replaces]
                empty = Table(
                    change.table_id, change.name, change.columns, (), (), 0, catalog.version, 0, len(change.columns)
                )
                tables[change.table_id] = _appended(empty, change.columns, change.files)
            case Append():
                tables[change.table_id] = _appended(tables[change.table_id], change.columns, change.files)
            case RemoveRows():
                table = tables[change.table_id]
                gone = (*table.deletes, change.file)
                tables[change.table_id] = replace(table, deletes=gone, rows=table.rows - change.file.rows)
            case AlterTable():
                table = tables[change.table_id]
                kept = tuple(replace(s, columns=s.columns or table.columns) for s in table.segments)
                fields = max(table.fields, *(c.field for c in change.columns))
                tables[change.table_id] = replace(table, columns=change.columns, segments=kept, fields=fields)
            case DropTable():
                del tables[change.table_id]
            case DropNames():
                pass  # graphs and snapshots stand outside transactions
            case AssignIds():
                pass  # ids are allotted when the transaction commits
            case Loaded():
                loaded += ((change.table_id, file) for file in change.files)
    by_name = {table.name.lower(): table for table in tables.values()}
    return replace(catalog, tables=by_name, loading=tuple(loaded))


def _appended(table: Table, columns: tuple[Column, ...], files: Iterable[Segment]) -> Table:
    for file in files:
        segment = replace(file, first=table.next_row, columns=None if columns == table.columns else columns)
        segments, added = (*table.segments, segment), file.rows
        table = replace(table, segments=segments, rows=table.rows + added, next_row=table.next_row + added)
    return table
