"""The state of a database as a frozen value, its versions and tags, and the changes of an open transaction."""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Self, TypeVar

from snapdb.errors import BindError
from snapdb.storage.catalog_db.codec import decode, decode_columns
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.task_rows import TaskRows
from snapdb.storage.tables.commit import (
    AddTable,
    AlterColumns,
    Append,
    AssignIds,
    Change,
    DropNames,
    DropTable,
    Loaded,
    RemoveRows,
    Unchanged,
)
from snapdb.storage.tables.definitions import Define, Undefine, read_definitions
from snapdb.storage.tables.loaded_files import LoadedFile
from snapdb.types import (
    Cache,
    Column,
    Definition,
    PropertyGraph,
    Retention,
    Sampler,
    Segment,
    Snapshot,
    Table,
    Tag,
    Task,
    Version,
)
from snapdb.types.text import did_you_mean

_T = TypeVar("_T")
_N = TypeVar("_N", Sampler, Cache, Task, Tag, Definition)
_S = TypeVar("_S", Snapshot, Sampler, Cache)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Catalog:
    """The tables, graphs, snapshots, samplers, caches and tasks at the head. Lookups ignore case."""

    version: int
    """The version at the head, or 0 before the first commit."""
    tables: Mapping[str, Table]
    """The tables by case-folded name. The other mappings also use case-folded names as keys."""
    graphs: Mapping[str, PropertyGraph]
    snapshots: Mapping[str, Snapshot]
    stamp: tuple[int, int] = (0, 0)
    """The number of catalog writes, and the number of compactions that replaced files with merged ones."""
    samplers: Mapping[str, Sampler] = field(default_factory=dict)
    """The samplers. Samplers, caches and tasks have separate namespaces, so a table can have the same name."""
    caches: Mapping[str, Cache] = field(default_factory=dict)
    """The caches."""
    tasks: Mapping[str, Task] = field(default_factory=dict)
    """The tasks."""
    definitions: Mapping[tuple[str, str], Definition] = field(default_factory=dict)
    """The views, macros, types, sequences and schemas by kind and case-folded name."""
    retentions: Mapping[str, Retention] = field(default_factory=dict)
    """Case-folded graph name → its retention, for graphs that have one."""
    loading: tuple[tuple[int, LoadedFile], ...] = ()
    """The files that an open transaction loads, with the ids of their tables. Committed files are in the catalog
    database."""
    past: dict[int, Mapping[str, Table]] = field(default_factory=dict, compare=False)
    """A cache of the tables at recently read versions, without uncommitted changes."""

    def table(self, name: str) -> Table:
        """Return the table with this name.

        Raises:
            BindError: The table does not exist, or is a view. The message suggests the nearest name.
        """
        if (view := self.view(name)) is not None:
            message = f"{view.name} is a view, which has no rows of its own; name a table that it reads"
            raise BindError(message, code="unknown-table")
        if ("table", name.lower()) in self.definitions:
            message = f"{name} is a temporary table, which only statements of tables can use; create it as a table"
            raise BindError(message, code="temporary-table")
        return self._find("table", self.tables, name)

    def is_defined(self, name: str) -> bool:
        """Return whether the name is that of a view or a temporary table."""
        return not self.definitions.keys().isdisjoint((("view", name.lower()), ("table", name.lower())))

    def view(self, name: str) -> Definition | None:
        """Return the view with this name, or None."""
        return self.definitions.get(("view", name.lower()))

    def definition(self, kind: str, name: str) -> Definition:
        """Return the view, macro, type, sequence or schema with this name, or raise BindError."""
        known = {folded: each for (of, folded), each in self.definitions.items() if of == kind}
        return self._find("view", known, name) if kind == "view" else _find(kind, known, name)

    def graph(self, name: str) -> PropertyGraph:
        """Return the property graph with this name, or raise BindError."""
        return self._find("graph", self.graphs, name)

    def snapshot(self, name: str) -> Snapshot:
        """Return the snapshot with this name, or raise BindError."""
        return self._find("snapshot", self.snapshots, name)

    def sampler(self, name: str) -> Sampler:
        """Return the sampler with this name, or raise BindError."""
        hint = f"; {name} is a snapshot: write SAMPLE FROM {name}" if name.lower() in self.snapshots else None
        return _find("sampler", self.samplers, name, hint)

    def cache(self, name: str) -> Cache:
        """Return the cache with this name, or raise BindError."""
        is_sampler = name.lower() in self.samplers
        hint = f"; {name} is a sampler: write CREATE CACHE {name} ON SAMPLER {name}" if is_sampler else None
        return _find("cache", self.caches, name, hint)

    def task(self, name: str) -> Task:
        """Return the task with this name, or raise BindError."""
        return _find("task", self.tasks, name)

    def kind_of(self, name: str) -> str | None:
        """Return 'view', 'table', 'graph' or 'snapshot', or None if the name is free."""
        folded = name.lower()
        if self.is_defined(name):
            return "view" if ("view", folded) in self.definitions else "table"
        kinds = {"table": self.tables, "graph": self.graphs, "snapshot": self.snapshots}
        return next((kind for kind, known in kinds.items() if folded in known), None)

    def names(self) -> list[str]:
        """Return the names of all tables, views, graphs and snapshots, in their original case."""
        views = {folded: each.name for (kind, folded), each in self.definitions.items() if kind in ("view", "table")}
        tables = [t.name for folded, t in self.tables.items() if folded not in views] + [*views.values()]
        return tables + [g.name for g in self.graphs.values()] + [s.name for s in self.snapshots.values()]

    def _find(self, kind: str, known: Mapping[str, _T], name: str) -> _T:
        """Return a table, graph or snapshot. If the name belongs to another kind, the error message names that kind."""
        if (thing := known.get(name.lower())) is not None:
            return thing
        other = self.kind_of(name)
        hint = self._other_kind(kind, other, name) if other else _near(name, known)
        if kind == "snapshot" and not other and name.lower() in self.samplers:
            hint = f"; {name} is a sampler: write {self.samplers[name.lower()].verb} USING {name}"
        raise BindError(f'{kind} "{name}" does not exist{hint}', code=f"unknown-{kind}")

    def _other_kind(self, kind: str, other: str, name: str) -> str:
        """Return a hint for a name that belongs to another kind, with the statement for that kind."""
        match kind, other:
            case "table", "snapshot":
                graph = self.snapshots[name.lower()].graph
                return f"; {name} is a snapshot, which is read-only: change its tables ({_tables_of(graph)})"
            case "table", "graph":
                graph = self.graphs[name.lower()]
                return f"; {name} is a property graph, whose tables are {_tables_of(graph)}"
            case "snapshot", "graph":
                return f"; {name} is a property graph; create a snapshot of it: CREATE SNAPSHOT s OF {name}"
            case "graph", "snapshot":
                return f"; {name} is a snapshot of graph {self.snapshots[name.lower()].graph.name}"
        return f"; {name} is a {'property graph' if other == 'graph' else other}"

    def with_changes(self, changes: Iterable[Change]) -> Self:
        """Return the catalog with uncommitted changes. New rows follow the existing rows of their tables."""
        tables = {table.id: table for table in self.tables.values()}
        loaded, definitions = list(self.loading), dict(self.definitions)
        for change in changes:
            match change:
                case AddTable():
                    if change.replaces is not None:
                        del tables[change.replaces]
                    empty = Table(
                        change.table_id, change.name, change.columns, (), (), 0, self.version, 0, len(change.columns)
                    )
                    tables[change.table_id] = _appended(empty, change.columns, change.files)
                case Append():
                    tables[change.table_id] = _appended(tables[change.table_id], change.columns, change.files)
                case RemoveRows():
                    table = tables[change.table_id]
                    removed = (*table.deletes, change.file)
                    tables[change.table_id] = replace(table, deletes=removed, rows=table.rows - change.file.rows)
                case AlterColumns():
                    table = tables[change.table_id]
                    # Existing files are not rewritten, so they keep their original columns.
                    kept = tuple(replace(s, columns=s.columns or table.columns) for s in table.segments)
                    fields = max(table.fields, *(c.field for c in change.columns))
                    tables[change.table_id] = replace(table, columns=change.columns, segments=kept, fields=fields)
                case DropTable():
                    del tables[change.table_id]
                case DropNames() | AssignIds() | Unchanged():
                    pass  # graphs and snapshots are not transactional, and the others apply to the commit
                case Loaded():
                    loaded += ((change.table_id, file) for file in change.files)
                case Define():
                    definitions[change.definition.key] = change.definition
                case Undefine():
                    del definitions[change.definition.key]
        by_name = {table.name.lower(): table for table in tables.values()}
        return replace(self, tables=by_name, loading=tuple(loaded), definitions=definitions)


def _find(kind: str, known: Mapping[str, _N], name: str, hint: str | None = None) -> _N:
    """Return the sampler, cache, task, tag or definition with this name.

    The error contains the hint, or suggests the nearest name.
    """
    if (thing := known.get(name.lower())) is not None:
        return thing
    hint = hint or _near(name, [one.name for one in known.values()])
    raise BindError(f'{kind} "{name}" does not exist{hint}', code=f"unknown-{kind}")


def load(catalog_db: CatalogDb, known: Catalog | None = None) -> Catalog:
    """Return the current catalog. Unchanged parts of `known`, an earlier catalog, are reused.

    Raises:
        CorruptError: The catalog cannot be read.
    """
    with catalog_db.reading() as connection, catalog_db.db_dir.raise_if_misread():
        stamp = _stamp(connection)
        # This is the usual case between two statements, and reads only two SQLite rows.
        if known is not None and known.stamp == stamp:
            return known
        (head,) = connection.execute("SELECT coalesce(max(version), 0) FROM versions").fetchone()
        graphs = connection.execute("SELECT folded, definition, retention FROM graphs ORDER BY folded").fetchall()
        # Merged files replace the segments of known tables, so all tables are read again.
        start = known if known is not None and known.stamp[1] == stamp[1] else Catalog(0, {}, {}, {})
        tables = _read_tables(connection, head, start.tables, start.version)
        return Catalog(
            version=head,
            tables=tables,
            graphs={row["folded"]: decode(PropertyGraph, row["definition"]) for row in graphs},
            snapshots=_kept(connection, "snapshots", Snapshot, () if known is None else known.snapshots.values()),
            samplers=_kept(connection, "samplers", Sampler, () if known is None else known.samplers.values()),
            caches=_kept(connection, "caches", Cache, () if known is None else known.caches.values()),
            tasks=TaskRows(connection).read(),
            definitions=read_definitions(connection),
            retentions={g["folded"]: decode(Retention, g["retention"]) for g in graphs if g["retention"] is not None},
            stamp=stamp,
            past={head: tables},
        )


def tables_at(catalog_db: CatalogDb, version: int) -> dict[str, Table]:
    """Return the tables at a version, by case-folded name."""
    with catalog_db.reading() as connection, catalog_db.db_dir.raise_if_misread():
        return _read_tables(connection, version)


def definitions_at(catalog_db: CatalogDb, version: int) -> dict[tuple[str, str], Definition]:
    """Return the definitions at a version, by kind and case-folded name."""
    with catalog_db.reading() as connection, catalog_db.db_dir.raise_if_misread():
        return read_definitions(connection, version)


def _read_tables(
    connection: sqlite3.Connection, version: int, known: Mapping[str, Table] | None = None, since: int = 0
) -> dict[str, Table]:
    """Return the tables at a version. Reading starts from `known`, the tables at the earlier version `since`."""
    rows = connection.execute(
        """
        SELECT t.id, t.name, t.folded, d.state, d.added, d.removed, d.altered
        FROM tables t LEFT JOIN (
            SELECT table_id, max(version) state, sum(rows_added) added, sum(rows_removed) removed,
                   max(kind = 'alter') altered
            FROM changes WHERE version > :since AND version <= :v GROUP BY table_id
        ) d ON d.table_id = t.id
        WHERE t.created <= :v AND (t.dropped IS NULL OR t.dropped > :v) ORDER BY t.id
        """,
        {"since": since, "v": version},
    ).fetchall()
    before = {table.id: table for table in (known or {}).values()}
    return {row["folded"]: _table(connection, row, version, before.get(row["id"]), since) for row in rows}


def _table(connection: sqlite3.Connection, row: sqlite3.Row, version: int, known: Table | None, since: int) -> Table:
    if known is not None and row["state"] is None:
        return known
    # Without ALTER, a table only gains files, so the files of later versions follow the known ones.
    if known is not None and not row["altered"]:
        files = _files(connection, row["id"], known.next_row + row["added"], version, since)
        rows, deletes = ([s for s in files if s["kind"] == kind] for kind in ("rows", "deletes"))
        return replace(
            known,
            segments=known.segments + tuple(_rows(s, None) for s in rows),
            deletes=known.deletes + tuple(_deletes(s, version) for s in deletes),
            rows=known.rows + row["added"] - row["removed"],
            state=row["state"],
            next_row=known.next_row + row["added"],
        )
    if known is not None:  # after ALTER, the whole table is read, including its totals since creation
        (row,) = connection.execute(
            "SELECT t.id, t.name, max(c.version) state, sum(c.rows_added) added, sum(c.rows_removed) removed "
            "FROM tables t JOIN changes c ON c.table_id = t.id WHERE t.id = ? AND c.version <= ?",
            (row["id"], version),
        ).fetchall()
    return _whole(connection, row, version)


def _whole(connection: sqlite3.Connection, row: sqlite3.Row, version: int) -> Table:
    shapes = {
        s["id"]: (s["since"], decode_columns(s["columns"]))
        for s in connection.execute("SELECT id, since, columns FROM shapes WHERE table_id = ?", (row["id"],))
    }
    columns = shapes[max(shape for shape, (since, _) in shapes.items() if since <= version)][1]
    then = {shape: None if known == columns else known for shape, (_, known) in shapes.items()}
    files = _files(connection, row["id"], row["added"], version, 0)
    return Table(
        id=row["id"],
        name=row["name"],
        columns=columns,
        segments=tuple(_rows(s, then[s["shape"]]) for s in files if s["kind"] == "rows"),
        deletes=tuple(_deletes(s, version) for s in files if s["kind"] == "deletes"),
        rows=row["added"] - row["removed"],
        state=row["state"],
        next_row=row["added"],
        fields=max(c.field for _, shape in shapes.values() for c in shape),
    )


def _files(connection: sqlite3.Connection, table: int, next_row: int, version: int, since: int) -> list[sqlite3.Row]:
    """Return the files of a table that a version reads but `since` did not.

    A merged file can also contain later rows.
    """
    return connection.execute(
        """
        SELECT * FROM segments WHERE table_id = :t AND added > :since AND CASE kind
            WHEN 'rows' THEN first < :next OR added <= :v ELSE first <= :v END ORDER BY first, id
        """,
        {"t": table, "next": next_row, "v": version, "since": since},
    ).fetchall()


def _rows(row: sqlite3.Row, columns: tuple[Column, ...] | None) -> Segment:
    return Segment(row["path"], row["rows"], row["bytes"], row["sha256"], row["first"], columns)


def _deletes(row: sqlite3.Row, version: int) -> Segment:
    # A merged file can also contain later deletes, which this version must ignore.
    until = version if row["added"] > version else None
    return Segment(row["path"], row["rows"], row["bytes"], row["sha256"], row["first"], None, until)


def _appended(table: Table, columns: tuple[Column, ...], files: Iterable[Segment]) -> Table:
    for file in files:
        segment = replace(file, first=table.next_row, columns=None if columns == table.columns else columns)
        segments, added = (*table.segments, segment), file.rows
        table = replace(table, segments=segments, rows=table.rows + added, next_row=table.next_row + added)
    return table


def _kept(connection: sqlite3.Connection, table: str, kind: type[_S], known: Iterable[_S]) -> dict[str, _S]:
    """Return snapshots, samplers or caches. The row with a given id never changes, so only new rows are decoded."""
    read = {one.id: one for one in known}
    rows = connection.execute(f"SELECT id, folded FROM {table} ORDER BY id").fetchall()
    kept = {}
    for row in rows:
        if row["id"] not in read:
            query = f"SELECT definition FROM {table} WHERE id = ?"
            read[row["id"]] = decode(kind, connection.execute(query, (row["id"],)).fetchone()["definition"])
        kept[row["folded"]] = read[row["id"]]
    return kept


def _stamp(connection: sqlite3.Connection) -> tuple[int, int]:
    (written,) = connection.execute("SELECT value FROM facts WHERE name = 'changes'").fetchone()
    # Compaction replaces files without a new version, so it is counted separately.
    (replaced,) = connection.execute("SELECT coalesce(max(number), 0) FROM upkeep").fetchone()
    return int(written), int(replaced)


def _tables_of(graph: PropertyGraph) -> str:
    tables = list(dict.fromkeys(element.table for element in graph.elements))
    return ", ".join(tables[:8]) + ", …" * (len(tables) > 8)


def _near(name: str, known: Iterable[str]) -> str:
    known = list(known)
    return did_you_mean(name, known) or (f"; available: {', '.join(known[:8])}" if known else "; none exists yet")


@dataclass(frozen=True, slots=True)
class VersionHistory:
    """The committed versions of a database and their tags."""

    catalog_db: CatalogDb

    def version_at(self, time: int) -> int:
        """Return the last version committed at or before `time`, in microseconds since 1970 UTC.

        Raises:
            BindError: No version existed yet.
        """
        rows = self.catalog_db.rows(
            "SELECT version FROM versions WHERE time <= ? ORDER BY version DESC LIMIT 1", (time,)
        )
        if not rows:
            first = self.catalog_db.rows("SELECT time FROM versions ORDER BY version LIMIT 1")
            hint = f"; the first version was created at {_iso(first[0]['time'])}" if first else ""
            raise BindError(f"no version existed at {_iso(time)}{hint}", code="unknown-version")
        return int(rows[0]["version"])

    def version_of_tag(self, name: str) -> int:
        """Return the version of a tag.

        Raises:
            BindError: The tag does not exist. The message suggests the nearest name.
        """
        return _find("tag", {tag.name.lower(): tag for tag in self.tags()}, name).version

    def tags(self) -> list[Tag]:
        """Return all tags, sorted by version, then by name."""
        query = (
            "SELECT t.name, t.version, v.time FROM tags t JOIN versions v USING (version) ORDER BY t.version, t.folded"
        )
        return [Tag(row["name"], row["version"], row["time"]) for row in self.catalog_db.rows(query)]

    def versions(self) -> list[Version]:
        """Return all versions, oldest first, with one entry per changed table."""
        query = """
            SELECT v.version, v.time, v.message, v.author, t.name, sum(c.rows_added) added, sum(c.rows_removed) removed,
                   (SELECT group_concat(g.name, ', ') FROM (SELECT * FROM tags ORDER BY folded) g
                    WHERE g.version = v.version) tag
            FROM versions v LEFT JOIN changes c USING (version) LEFT JOIN tables t ON t.id = c.table_id
            GROUP BY v.version, t.folded ORDER BY v.version, t.folded
        """
        return [
            Version(
                r["version"],
                r["time"],
                r["message"],
                r["tag"],
                r["author"],
                r["name"],
                r["added"] or 0,
                r["removed"] or 0,
            )
            for r in self.catalog_db.rows(query)
        ]


def _iso(time: int) -> str:
    try:
        return moment(time).isoformat(sep=" ")
    except OverflowError:
        return str(time)


def moment(microseconds: int) -> datetime:
    """Convert microseconds since 1970 UTC to a datetime in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)
