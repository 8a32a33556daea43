"""Commits: changes as values, and their application to the catalog as one version."""

import getpass
import json
import os
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from snapdb.errors import BindError, CommitConflict, moved
from snapdb.storage.catalog_db.codec import decode, decode_columns, encode, encode_columns, facts_text, link
from snapdb.storage.catalog_db.connection import CatalogDb, add_pending_deletes
from snapdb.storage.tables.definitions import Define, Undefine, define, has_definitions, undefine
from snapdb.storage.tables.loaded_files import LoadedFile
from snapdb.types import Cache, Column, PropertyGraph, Sampler, Segment, Snapshot


class AddTable(NamedTuple):
    """A new table with its first rows. The name must be unused, or be the name of the replaced table."""

    table_id: int
    """A negative number with which other changes in the same commit refer to the table. The commit assigns the real
    id."""
    name: str
    """The name of the table."""
    columns: tuple[Column, ...]
    """The columns of the table."""
    files: tuple[Segment, ...]
    """The files with its rows."""
    replaces: int | None = None
    """The id of the replaced table. There is a conflict if that table was changed since `base`."""
    base: int = 0
    """The version at which the replaced table was read."""
    of_view: bool = False
    """Whether it contains the rows of the view with its name, for graphs."""


class Append(NamedTuple):
    """New rows for a table. Appends commute, so they conflict only if the table was dropped or its columns changed."""

    table_id: int
    """The id of the table."""
    columns: tuple[Column, ...]
    """The columns of the table when the rows were written."""
    files: tuple[Segment, ...]
    """The files with the rows."""


class RemoveRows(NamedTuple):
    """Removed rows. There is a conflict if one of them was removed since `base`."""

    table_id: int
    """The id of the table."""
    file: Segment
    """The file of removed rows, with a single column `row_id`."""
    base: int
    """The version at which the rows were read."""
    checked: int
    """The version up to which these rows were compared with the rows that other commits removed, without a match."""
    own: bool = False
    """Whether some of the rows were added by the same commit. Their ids are then valid only if no other commit adds
    rows."""


class AlterColumns(NamedTuple):
    """New columns for a table. There is a conflict if the table was changed since `base`."""

    table_id: int
    """The id of the table."""
    columns: tuple[Column, ...]
    base: int
    """The version at which the table was read."""


class DropTable(NamedTuple):
    """A dropped table, which older versions still contain. There is a conflict if it was changed since `base`."""

    table_id: int
    """The id of the table."""
    base: int
    """The version at which the table was read."""


class DropNames(NamedTuple):
    """Dropped graphs, snapshots (with their files), samplers and caches, which are not versioned.

    There is a conflict if one of them was changed concurrently, or if a new snapshot, sampler or cache was created for
    one of them.
    """

    graphs: tuple[str, ...]
    snapshots: tuple[Snapshot, ...]
    samplers: tuple[Sampler, ...] = ()
    caches: tuple[Cache, ...] = ()


class AssignIds(NamedTuple):
    """Dense ids, starting at `limit`, for new keys of an id map.

    There is a conflict if ids were assigned concurrently.
    """

    map_id: int
    """The id of the id map."""
    table_id: int
    """The id of the table to which the keys belong."""
    limit: int
    """The number of ids assigned so far, which is the first new id."""
    file: Segment | None
    """The file with the new keys, which follow the keys of the replaced files. None if the append has no new keys."""
    merged: tuple[str, ...] = ()
    """The map's last, small files, which are merged into the new file."""


class Loaded(NamedTuple):
    """The files whose rows the same commit appends. There is a conflict if one of them was already loaded."""

    table_id: int
    """The id of the table."""
    files: tuple[LoadedFile, ...]


class Unchanged(NamedTuple):
    """A table whose rows a constraint was checked against. There is a conflict if other commits changed them since."""

    table_id: int
    """The id of the table."""
    base: int
    """The version at which the rows were read."""
    kinds: tuple[str, ...]
    """The kinds of changes that conflict: 'append', 'delete' or 'alter'."""


Change = (
    AddTable
    | Append
    | RemoveRows
    | AlterColumns
    | DropTable
    | DropNames
    | AssignIds
    | Loaded
    | Unchanged
    | Define
    | Undefine
)


def files_of(change: Change) -> tuple[Segment, ...]:
    """Return the new files of a change."""
    match change:
        case AddTable() | Append():
            return change.files
        case RemoveRows():
            return (change.file,)
        case AssignIds():
            return () if change.file is None else (change.file,)
        case _:
            return ()


# A transaction's changes are written to the catalog as one version, after the requirements of each change have been
# checked. This is optimistic concurrency control. The write transaction serializes commits.


_ROWS = ("append", "delete")
"""Kinds of changes to the rows of a table."""
_DEFINITION = ("alter", "drop")
"""Kinds of changes to the definition of a table."""
_T = TypeVar("_T", Cache, Sampler)


def now() -> int:
    """Return the current time, in microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def commit(catalog_db: CatalogDb, changes: Sequence[Change], message: str | None) -> int:
    """Publish the changes as one version and return its number.

    Raises:
        CommitConflict: A requirement of a change no longer holds. Nothing was changed. With code 'ids-moved', keys need
            new ids. With 'deletes-moved', rows must be compared with rows that other commits removed.
        BindError: A table name was taken concurrently.
    """
    by = author()
    with catalog_db.writing(publishes=True) as connection:
        (head, then, parent) = _head(connection)
        # Times increase strictly, even if the clock is set back, so that a time identifies one version (time travel).
        version, moment = head + 1, max(now(), then + 1)
        _check_new_ids(connection, changes)
        row = (version, moment, message, by, parent, "", "")
        connection.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        applier = _CommitApplier(connection, version, moment)
        for change in changes:
            applier.apply(change)
        facts = {"version": version, "time": moment, "message": message, "author": by, "changes": applier.facts}
        text = facts_text(facts)
        connection.execute(
            "UPDATE versions SET hash = ?, facts = ? WHERE version = ?", (link(parent, text), text, version)
        )
    return version


def _head(connection: sqlite3.Connection) -> tuple[int, int, str]:
    """Return the newest version, its time and its hash."""
    row = connection.execute("SELECT version, time, hash FROM versions ORDER BY version DESC LIMIT 1").fetchone()
    return (row["version"], row["time"], row["hash"]) if row else (0, 0, "")


def author() -> str:
    """Return the author to record for versions and samplers."""
    if name := os.environ.get("SNAPDB_AUTHOR"):
        return name
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())


def _check_new_ids(connection: sqlite3.Connection, changes: Sequence[Change]) -> None:
    """Check that appends assign ids to the new keys in every id map of their table, starting at the end of the map."""
    new = {change.table_id for change in changes if isinstance(change, AddTable)}
    appended = {change.table_id for change in changes if isinstance(change, Append)} - new
    for table in appended:
        assigned = {c.map_id for c in changes if isinstance(c, AssignIds) and c.table_id == table}
        if assigned != set(active_maps(connection, table)):
            raise moved("a graph started to use it concurrently", code="ids-moved")
    for change in changes:
        if not isinstance(change, AssignIds):
            continue
        (limit,) = connection.execute(
            "SELECT coalesce(max(first + rows), 0) FROM id_segments WHERE map_id = ?", (change.map_id,)
        ).fetchone()
        if limit != change.limit:
            raise CommitConflict(
                f"keys were added concurrently: expected {change.limit}, found {limit}; run the statement again",
                code="ids-moved",
            )


def active_maps(connection: sqlite3.Connection, table_id: int) -> list[int]:
    """Return the id maps of a table that still has their key columns. Rows without a key column have no keys."""
    fields = {c.field for c in current_columns(connection, table_id)}
    rows = connection.execute("SELECT id, key FROM id_maps WHERE table_id = ? ORDER BY id", (table_id,)).fetchall()
    return [row["id"] for row in rows if all(field in fields for field, _ in json.loads(row["key"]))]


def current_columns(connection: sqlite3.Connection, table_id: int) -> tuple[Column, ...]:
    """Return the current columns of a table, or an empty tuple if the table does not exist."""
    query = "SELECT columns FROM shapes WHERE table_id = ? ORDER BY id DESC LIMIT 1"
    row = connection.execute(query, (table_id,)).fetchone()
    return () if row is None else decode_columns(row["columns"])


# Each change is written after its requirements have been checked.


@dataclass(slots=True)
class _CommitApplier:
    """Writes the changes of a commit to the catalog, inside its transaction."""

    connection: sqlite3.Connection
    version: int
    """The number of the new version."""
    time: int
    """The time of the new version."""
    facts: list[dict[str, Any]] = field(default_factory=list)
    """The commit record, which contains all changes and is covered by the version's hash."""
    own: dict[int, int] = field(default_factory=dict)
    """The negative id with which changes refer to a new table → the table's real id."""

    def apply(self, change: Change) -> None:
        """Write one change.

        Raises:
            CommitConflict: A requirement no longer holds.
            BindError: A table name was taken concurrently.
        """
        match change:
            case AddTable():
                self._add_table(change)
            case Append():
                table = self._live(change.table_id)
                shape = self._require_shape(table, change.columns)
                for file in change.files:
                    self._add_rows(table, file, shape)
                self._note(table, "append", sum(f.rows for f in change.files), 0)
            case RemoveRows():
                self._remove_rows(change)
            case AlterColumns():
                table = self._live(change.table_id)
                self._require_unmoved(table, change.base, (*_ROWS, *_DEFINITION))
                self._require_no_references(table, change.base)
                self._set_columns(table, change.columns)
                self._note(table, "alter", 0, 0)
            case DropTable():
                table = self._live(change.table_id)
                self._require_unmoved(table, change.base, (*_ROWS, *_DEFINITION))
                self._require_no_references(table, change.base)
                self._drop(table)
                (name,) = self.connection.execute("SELECT name FROM tables WHERE id = ?", (table,)).fetchone()
                _check_unused(self.connection, name)
            case DropNames():
                drop_names(self.connection, change)
            case AssignIds():
                self._assign_ids(change)
            case Loaded():
                self._record_loaded(change)
            case Unchanged():
                self._require_unmoved(self._live(change.table_id), change.base, change.kinds, code="keys-moved")
            case _:
                self._define(change)

    def _define(self, change: Define | Undefine) -> None:
        """Add or drop a view or another definition."""
        if isinstance(change, Undefine):
            self.facts.append(undefine(self.connection, change, self.version))
            return
        if change.definition.kind == "view" and change.replaces is None:
            check_free(self.connection, change.definition.name)
        self.facts.append(define(self.connection, change, self.version))

    def _add_table(self, change: AddTable) -> None:
        """Create a table with its first rows, after dropping the table that it replaces."""
        if change.replaces is not None:
            replaced = self._live(change.replaces)
            self._require_unmoved(replaced, change.base, (*_ROWS, *_DEFINITION))
            self._require_no_references(replaced, change.base)
            self._drop(replaced)
        check_free(self.connection, change.name, of_view=change.of_view)
        table = self.connection.execute(
            "INSERT INTO tables (name, folded, created) VALUES (?, ?, ?)",
            (change.name, change.name.lower(), self.version),
        ).lastrowid
        assert table is not None
        self.own[change.table_id] = table
        columns = json.loads(encode_columns(change.columns))
        self.facts.append({"change": "create", "table": table, "name": change.name, "columns": columns})
        shape = self._add_shape(table, change.columns)
        for file in change.files:
            self._add_rows(table, file, shape)
        self._note(table, "create", sum(f.rows for f in change.files), 0)

    def _remove_rows(self, change: RemoveRows) -> None:
        """Remove rows, unless another commit removed one of them."""
        table = self._live(change.table_id)
        self._require_unmoved(table, change.base, ("append", *_DEFINITION) if change.own else _DEFINITION)
        self._require_unmoved(table, change.checked, ("delete",), code="deletes-moved")
        self._require_no_references(table, change.base)
        shape = self._shape(table)["id"]
        self._add_file(table, "deletes", change.file, self.version, shape)
        self._note(table, "delete", 0, change.file.rows)

    def _assign_ids(self, change: AssignIds) -> None:
        """Write the new keys of an id map, and replace the small files that were merged with them."""
        if (file := change.file) is None:
            return
        first = change.limit
        for path in change.merged:
            row = self.connection.execute("DELETE FROM id_segments WHERE path = ? RETURNING first", (path,)).fetchone()
            if row is None:  # a concurrent VACUUM merged it, so the new file's ids would be wrong
                raise CommitConflict(
                    "the id files of a table were merged concurrently; run the statement again", code="ids-moved"
                )
            first = min(first, row["first"])
            self.connection.execute("INSERT INTO garbage VALUES (?, ?)", (path, self.time))
        self.connection.execute(
            "INSERT INTO id_segments VALUES (?, ?, ?, ?, ?, ?)",
            (change.map_id, file.path, file.rows, file.bytes, file.sha256, first),
        )
        facts = {"change": "ids", "map": change.map_id, **file_facts(file), "first": first}
        self.facts.append({**facts, "merged": list(change.merged)})

    def _record_loaded(self, change: Loaded) -> None:
        """Record files as loaded. The records can outlive the table, because its id is never reused."""
        table = self._live(change.table_id)
        for path, bytes_, modified in (files := [[f.path, f.bytes, f.modified] for f in change.files]):
            query = "SELECT version FROM loaded WHERE table_id = ? AND path = ?"
            if (before := self.connection.execute(query, (table, path)).fetchone()) is not None:
                raise moved(
                    f"{path} was loaded concurrently, by version {before['version']}",
                    code="file-loaded",
                    more=", which skips it",
                )
            row = (table, path, bytes_, modified, self.version)
            self.connection.execute("INSERT INTO loaded VALUES (?, ?, ?, ?, ?)", row)
        self.facts.append({"change": "loaded", "table": table, "files": files})

    def _live(self, table_id: int) -> int:
        """Return the id of a table. Raises CommitConflict if the table was dropped."""
        table = self.own.get(table_id, table_id)
        require_table(self.connection, table)
        return table

    def _drop(self, table: int) -> None:
        """Mark a table as dropped."""
        self.connection.execute("UPDATE tables SET dropped = ? WHERE id = ?", (self.version, table))
        self.facts.append({"change": "drop", "table": table})
        self._note(table, "drop", 0, 0)

    def _shape(self, table: int) -> sqlite3.Row:
        """Return the current columns of a table."""
        row: sqlite3.Row = self.connection.execute(
            "SELECT id, since, columns FROM shapes WHERE table_id = ? ORDER BY id DESC LIMIT 1", (table,)
        ).fetchone()
        return row

    def _require_shape(self, table: int, columns: tuple[Column, ...]) -> int:
        """Return the id of the current columns. Raises CommitConflict if they are not `columns`."""
        newest = self._shape(table)
        if newest["columns"] != encode_columns(columns):
            raise _moved(self.connection, table, f"its columns were altered by version {newest['since']}")
        return int(newest["id"])

    def _add_shape(self, table: int, columns: tuple[Column, ...]) -> int:
        """Record columns and return their id."""
        row = (table, self.version, encode_columns(columns))
        shape = self.connection.execute("INSERT INTO shapes (table_id, since, columns) VALUES (?, ?, ?)", row).lastrowid
        assert shape is not None
        return shape

    def _set_columns(self, table: int, columns: tuple[Column, ...]) -> None:
        """Change the columns of a table."""
        self._add_shape(table, columns)
        self.facts.append({"change": "columns", "table": table, "columns": json.loads(encode_columns(columns))})

    def _add_rows(self, table: int, file: Segment, shape: int) -> None:
        """Add a file of rows, whose ids continue those of the table's last file."""
        (first,) = self.connection.execute(
            "SELECT coalesce(max(first + rows), 0) FROM segments WHERE table_id = ? AND kind = 'rows'", (table,)
        ).fetchone()
        self._add_file(table, "rows", file, first, shape)

    def _add_file(self, table: int, kind: str, file: Segment, first: int, shape: int) -> None:
        """Add a file to the catalog and to the commit record."""
        self.connection.execute(
            "INSERT INTO segments (table_id, kind, path, rows, bytes, sha256, first, added, shape) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (table, kind, file.path, file.rows, file.bytes, file.sha256, first, self.version, shape),
        )
        self.facts.append({"change": kind, "table": table, **file_facts(file), "first": first})

    def _note(self, table: int, kind: str, added: int, removed: int) -> None:
        """Add to the numbers of rows that the version added to and removed from a table."""
        self.connection.execute(
            "INSERT INTO changes VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET rows_added = rows_added + excluded.rows_added, rows_removed = rows_removed + excluded.rows_removed",
            (self.version, table, kind, added, removed),
        )

    def _require_unmoved(self, table: int, base: int, kinds: tuple[str, ...], code: str = "table-moved") -> None:
        """Check that no version after `base` contains a change of these kinds. Ignores changes in this commit."""
        marks = ", ".join("?" * len(kinds))
        other = self.connection.execute(
            f"SELECT version, kind FROM changes WHERE table_id = ? AND version > ? AND version < ? "
            f"AND kind IN ({marks}) ORDER BY version DESC LIMIT 1",
            (table, base, self.version, *kinds),
        ).fetchone()
        if other is not None:
            did = {"append": "added rows", "delete": "removed rows", "alter": "altered its columns"}[other["kind"]]
            raise _moved(
                self.connection, table, f"expected version {base}, found {other['version']}, which {did}", code
            )

    def _require_no_references(self, table: int, base: int) -> None:
        """Check that no foreign key of another commit references the table since `base`."""
        (name,) = self.connection.execute("SELECT name FROM tables WHERE id = ?", (table,)).fetchone()
        rows = self.connection.execute(
            "SELECT t.name, s.since, s.columns FROM shapes s JOIN tables t ON t.id = s.table_id "
            "WHERE s.since > ? AND s.since < ? AND s.columns LIKE '%\"FOREIGN KEY\"%'",
            (base, self.version),
        )
        for row in rows:
            keys = (key for column in decode_columns(row["columns"]) for key in column.constraints)
            if any(key.table is not None and key.table.lower() == name.lower() for key in keys):
                reason = f"version {row['since']} created table {row['name']}, which references it"
                raise _moved(self.connection, table, reason, code="keys-moved")


def require_table(connection: sqlite3.Connection, table_id: int) -> None:
    """Raise CommitConflict if the table was dropped or replaced."""
    row = connection.execute("SELECT dropped FROM tables WHERE id = ?", (table_id,)).fetchone()
    if row["dropped"] is not None:
        raise _moved(connection, table_id, f"it was dropped or replaced by version {row['dropped']}")


def check_free(connection: sqlite3.Connection, name: str, *, of_view: bool = False) -> None:
    """Check that no table, view, graph or snapshot has this name. They share one namespace.

    Args:
        connection: The connection, inside a transaction.
        name: The name.
        of_view: Whether the view with this name is the one whose rows a table will contain.

    Raises:
        BindError: The name is taken.
    """
    view = ("view", "SELECT name FROM definitions WHERE kind = 'view' AND folded = ? AND dropped IS NULL")
    for kind, query in (
        *((view,) if not of_view and has_definitions(connection) else ()),
        ("table", "SELECT name FROM tables WHERE folded = ? AND dropped IS NULL"),
        ("graph", "SELECT name FROM graphs WHERE folded = ?"),
        ("snapshot", "SELECT name FROM snapshots WHERE folded = ?"),
    ):
        if row := connection.execute(query, (name.lower(),)).fetchone():
            raise BindError(f'{kind} "{row[0]}" already exists; choose another name, or drop it', code="exists")


def _moved(connection: sqlite3.Connection, table_id: int, how: str, code: str = "table-moved") -> CommitConflict:
    """Return the conflict to raise if a table was changed."""
    (name,) = connection.execute("SELECT name FROM tables WHERE id = ?", (table_id,)).fetchone()
    return moved(f"table {name} was changed concurrently: {how}", code=code)


def file_facts(file: Segment) -> dict[str, str | int]:
    """Return a file's entry in a commit record."""
    return {"path": file.path, "rows": file.rows, "bytes": file.bytes, "sha256": file.sha256}


# Graphs, snapshots, samplers and caches. None of them can be dropped while another one uses it.


class _OwnedKind(NamedTuple):
    """A kind of named row that refers by name to an owner of another kind."""

    word: str
    moved: str
    """The code of a conflict about a row of this kind."""
    of: str
    """The owner's kind, which is also the name of the column and the field that contain the owner's name."""
    of_moved: str
    """The code of a conflict about the owner."""


_KINDS: dict[type, _OwnedKind] = {
    Sampler: _OwnedKind("sampler", "sampler-moved", "snapshot", "snapshot-moved"),
    Cache: _OwnedKind("cache", "cache-moved", "sampler", "sampler-moved"),
}


def put_name(connection: sqlite3.Connection, thing: _T, before: _T | None) -> _T:
    """Insert a sampler or cache, which replaces `before`, inside a transaction. Returns it with its id.

    Raises:
        CommitConflict: `before` was changed, the owner was dropped, or the name was taken concurrently.
    """
    kind = _KINDS[type(thing)]
    if before is not None:
        _remove(connection, before)
    owner: str = getattr(thing, kind.of)
    if not connection.execute(f"SELECT 1 FROM {kind.of}s WHERE folded = ?", (owner.lower(),)).fetchone():
        raise CommitConflict(f"{kind.of} {owner} was dropped concurrently; nothing was changed", code=kind.of_moved)
    row = (thing.name, thing.name.lower(), owner.lower())
    sql = f"INSERT INTO {kind.word}s (name, folded, {kind.of}, definition) VALUES (?, ?, ?, '') ON CONFLICT DO NOTHING"
    added = connection.execute(sql, row)
    if not added.rowcount or added.lastrowid is None:
        raise _replaced(thing, "created")
    put = replace(thing, id=added.lastrowid)
    connection.execute(f"UPDATE {kind.word}s SET definition = ? WHERE id = ?", (encode(put), put.id))
    return put


def _remove(connection: sqlite3.Connection, thing: Cache | Sampler) -> None:
    """Delete a sampler or cache, after checking that it is unchanged."""
    if not connection.execute(f"DELETE FROM {_KINDS[type(thing)].word}s WHERE id = ?", (thing.id,)).rowcount:
        raise _replaced(thing, "replaced or dropped")


def _replaced(thing: Cache | Sampler, what: str) -> CommitConflict:
    """Return the conflict to raise if a sampler or cache was changed."""
    kind = _KINDS[type(thing)]
    return moved(f"{kind.word} {thing.name} was {what} concurrently", code=kind.moved)


def drop_names(connection: sqlite3.Connection, change: DropNames) -> None:
    """Delete the rows of graphs, snapshots, samplers and caches inside a transaction.

    Raises:
        CommitConflict: A row was changed concurrently, or one that depends on it was created.
    """
    for cache in change.caches:
        _remove(connection, cache)
    for sampler in change.samplers:
        _remove(connection, sampler)
        _check_no_dependent(connection, sampler, Cache)
    for snapshot in change.snapshots:
        deleted = connection.execute("DELETE FROM snapshots WHERE id = ? AND path = ?", (snapshot.id, snapshot.path))
        if not deleted.rowcount:
            raise moved(
                f"snapshot {snapshot.name} was refreshed, replaced or dropped concurrently", code="snapshot-moved"
            )
        _check_no_dependent(connection, snapshot, Sampler)
    add_pending_deletes(connection, [snapshot.path for snapshot in change.snapshots])
    for graph in change.graphs:
        if not connection.execute("DELETE FROM graphs WHERE folded = ?", (graph.lower(),)).rowcount:
            raise moved(f"graph {graph} was dropped concurrently", code="graph-moved")
    dropped = {graph.lower() for graph in change.graphs}
    for row in connection.execute("SELECT definition FROM snapshots").fetchall() if dropped else ():
        snapshot = decode(Snapshot, row["definition"])
        if snapshot.graph.name.lower() in dropped:
            raise moved(
                f"snapshot {snapshot.name} of graph {snapshot.graph.name} was created concurrently", code="graph-moved"
            )


def _check_no_dependent(connection: sqlite3.Connection, owner: Snapshot | Sampler, of: type) -> None:
    """Raise CommitConflict if a dropped snapshot or sampler still has a sampler or cache."""
    kind = _KINDS[of]
    query = f"SELECT name FROM {kind.word}s WHERE {kind.of} = ?"
    if (used := connection.execute(query, (owner.name.lower(),)).fetchone()) is not None:
        raise moved(f"{kind.word} {used['name']} of {owner.name} was created concurrently", code=kind.of_moved)


def _check_unused(connection: sqlite3.Connection, table: str) -> None:
    """Check that no graph uses a dropped table.

    Raises:
        CommitConflict: A graph that was created concurrently uses the table.
    """
    for row in connection.execute("SELECT definition FROM graphs").fetchall():
        graph = decode(PropertyGraph, row["definition"])
        if table.lower() in map(str.lower, graph.tables):
            raise moved(f"graph {graph.name} started to use table {table} concurrently", code="graph-moved")
