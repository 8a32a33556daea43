"""The catalog's schema, as an ordered tuple of migrations. A catalog of format n has the first n migrations applied."""

import json
import re
import sqlite3
from collections.abc import Callable
from sqlite3 import Connection
from typing import Any, NamedTuple

from snapdb.storage.catalog_db.codec import encode_columns, facts_text, link
from snapdb.storage.disk import Disk
from snapdb.types import Column

_PUT = re.compile(r'^(\d+) puts (".*"), whose manifest has sha256 ([0-9a-f]{64})$', re.MULTILINE)
_REPLACED = "its task was replaced meanwhile"

APPLICATION_ID = 0x534E4150  # "SNAP" identifies a SQLite file as a snapdb catalog
_FIRST = """
    CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    INSERT INTO facts VALUES ('changes', '0');

    CREATE TABLE versions (
        version INTEGER PRIMARY KEY,
        time    INTEGER NOT NULL UNIQUE,          -- microseconds since 1970 UTC, grows with every version
        message TEXT,
        author  TEXT NOT NULL,
        parent  TEXT NOT NULL,                    -- the hash of the version before
        hash    TEXT NOT NULL                     -- of parent, version, time, message, author and the changes
    );
    CREATE TABLE tables (
        id      INTEGER PRIMARY KEY AUTOINCREMENT,
        name    TEXT NOT NULL,
        folded  TEXT NOT NULL,
        created INTEGER NOT NULL REFERENCES versions,
        dropped INTEGER REFERENCES versions       -- NULL while it is there
    );
    CREATE UNIQUE INDEX live_tables ON tables (folded) WHERE dropped IS NULL;
    CREATE TABLE columns (
        table_id INTEGER NOT NULL REFERENCES tables,
        since    INTEGER NOT NULL REFERENCES versions,
        columns  TEXT NOT NULL,                   -- JSON: [[name, type, nullable], …]
        PRIMARY KEY (table_id, since)
    ) WITHOUT ROWID;
    CREATE TABLE segments (
        id       INTEGER PRIMARY KEY,
        table_id INTEGER NOT NULL REFERENCES tables,
        kind     TEXT NOT NULL CHECK (kind IN ('rows', 'deletes')),
        path     TEXT NOT NULL UNIQUE,
        rows     INTEGER NOT NULL,
        bytes    INTEGER NOT NULL,
        sha256   TEXT NOT NULL,
        first    INTEGER NOT NULL,                -- row id of the file's first row
        added    INTEGER NOT NULL REFERENCES versions,
        removed  INTEGER REFERENCES versions
    );
    CREATE INDEX segments_of_table ON segments (table_id, added);
    CREATE TABLE changes (
        version      INTEGER NOT NULL REFERENCES versions,
        table_id     INTEGER NOT NULL REFERENCES tables,
        kind         TEXT NOT NULL,               -- create, append, delete, drop
        rows_added   INTEGER NOT NULL,
        rows_removed INTEGER NOT NULL,
        PRIMARY KEY (version, table_id, kind)
    ) WITHOUT ROWID;

    CREATE TABLE id_maps (
        id       INTEGER PRIMARY KEY,
        table_id INTEGER NOT NULL REFERENCES tables,
        key      TEXT NOT NULL,                   -- JSON: the key's columns, [[name, type], …]
        UNIQUE (table_id, key)
    );
    CREATE TABLE id_segments (
        map_id INTEGER NOT NULL REFERENCES id_maps,
        path   TEXT NOT NULL UNIQUE,
        rows   INTEGER NOT NULL,
        bytes  INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        first  INTEGER NOT NULL,                  -- dense id of the file's first key
        PRIMARY KEY (map_id, first)
    );

    CREATE TABLE graphs (
        name       TEXT NOT NULL,
        folded     TEXT PRIMARY KEY,
        definition TEXT NOT NULL,                 -- JSON of types.PropertyGraph
        created    INTEGER NOT NULL
    );
    CREATE TABLE artefacts (
        digest TEXT PRIMARY KEY,                  -- of everything its content follows from
        kind   TEXT NOT NULL CHECK (kind IN ('topology', 'features')),
        path   TEXT NOT NULL UNIQUE,
        bytes  INTEGER NOT NULL
    );
    CREATE TABLE snapshots (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        name       TEXT NOT NULL,
        folded     TEXT NOT NULL UNIQUE,
        definition TEXT NOT NULL,                 -- JSON of types.Snapshot
        path       TEXT NOT NULL UNIQUE
    );
"""
_VERSIONED = """
    -- JSON: what the hash is of, beside the parent
    ALTER TABLE versions ADD COLUMN facts TEXT NOT NULL DEFAULT '';
    CREATE TABLE tags (
        folded  TEXT PRIMARY KEY,
        name    TEXT NOT NULL,
        version INTEGER NOT NULL REFERENCES versions
    ) WITHOUT ROWID;
    CREATE TABLE shapes (                         -- the columns of a table, from a version on
        id       INTEGER PRIMARY KEY,
        table_id INTEGER NOT NULL REFERENCES tables,
        since    INTEGER NOT NULL REFERENCES versions,
        columns  TEXT NOT NULL                    -- JSON: [[name, type, nullable, field, default], …]
    );
    CREATE INDEX shapes_of_table ON shapes (table_id);
    INSERT INTO shapes (table_id, since, columns) SELECT table_id, since, columns FROM columns ORDER BY since, table_id;
    DROP TABLE columns;
    CREATE TABLE files (
        id       INTEGER PRIMARY KEY,
        table_id INTEGER NOT NULL REFERENCES tables,
        kind     TEXT NOT NULL CHECK (kind IN ('rows', 'deletes')),
        path     TEXT NOT NULL UNIQUE,
        rows     INTEGER NOT NULL,
        bytes    INTEGER NOT NULL,
        sha256   TEXT NOT NULL,
        first    INTEGER NOT NULL,                -- row id of the first row, of deletes the oldest version in the file
        added    INTEGER NOT NULL REFERENCES versions,  -- the newest version in the file
        shape    INTEGER NOT NULL REFERENCES shapes     -- the table's columns when it was written
    );
    INSERT INTO files SELECT id, table_id, kind, path, rows, bytes, sha256, iif(kind = 'rows', first, added), added,
        (SELECT max(s.id) FROM shapes s WHERE s.table_id = segments.table_id AND s.since <= segments.added)
        FROM segments ORDER BY id;
    DROP TABLE segments;
    ALTER TABLE files RENAME TO segments;
    CREATE INDEX segments_of_table ON segments (table_id, added);
    CREATE TABLE upkeep (                         -- what VACUUM put in the place of what, in a chain of its own
        number INTEGER PRIMARY KEY,
        parent TEXT NOT NULL,
        hash   TEXT NOT NULL,
        facts  TEXT NOT NULL
    );
    CREATE TABLE garbage (                        -- paths that nothing points at any more
        path  TEXT PRIMARY KEY,
        since INTEGER NOT NULL                    -- microseconds since 1970 UTC
    ) WITHOUT ROWID;
"""
_PATCHED = """
    -- what all share that differ only by version
    ALTER TABLE artefacts ADD COLUMN family TEXT;
    -- of the tables that it was made from
    ALTER TABLE artefacts ADD COLUMN version INTEGER;
    -- the path of what it is a patch of; NULL: it is whole
    ALTER TABLE artefacts ADD COLUMN base TEXT;
    CREATE INDEX artefacts_of_family ON artefacts (family, version);
"""
_SAMPLED = """
    CREATE TABLE samplers (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        name       TEXT NOT NULL,
        folded     TEXT NOT NULL UNIQUE,
        snapshot   TEXT NOT NULL,                 -- its snapshot's name, case-folded
        definition TEXT NOT NULL                  -- JSON of types.Sampler
    );
"""
_CACHED = """
    CREATE TABLE caches (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        name       TEXT NOT NULL,
        folded     TEXT NOT NULL UNIQUE,
        sampler    TEXT NOT NULL,                 -- its sampler's name, case-folded
        definition TEXT NOT NULL                  -- JSON of types.Cache
    );
"""
_SCHEDULED = """
    CREATE TABLE tasks (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        name       TEXT NOT NULL,
        folded     TEXT NOT NULL UNIQUE,
        definition TEXT NOT NULL,                 -- JSON of types.Task
        considered INTEGER NOT NULL               -- microseconds since 1970 UTC: firings up to then are settled
    );
    CREATE TABLE runs (
        task       INTEGER NOT NULL,              -- tasks.id, which is never given twice: runs outlive their task
        name       TEXT NOT NULL,                 -- the task's, then
        run        INTEGER NOT NULL,              -- from 1 for each task
        attempt    INTEGER NOT NULL,              -- from 1 for each run
        cause      TEXT NOT NULL CHECK (cause IN ('schedule', 'manual')),
        state      TEXT NOT NULL CHECK (state IN ('running', 'ok', 'failed', 'timeout', 'missed')),
        holder     TEXT,                          -- who runs it: of the leader, or of who ran it by hand
        scheduled  INTEGER NOT NULL,              -- these three in microseconds since 1970 UTC
        started    INTEGER,
        ended      INTEGER,
        version    INTEGER NOT NULL,              -- the head when the run began
        step       INTEGER NOT NULL DEFAULT 0,    -- so many statements of the body are done, in all attempts
        published  TEXT NOT NULL DEFAULT '[]',    -- JSON: the versions that it made
        retry      INTEGER,                       -- when it is to be tried again; NULL: it is not
        rows       INTEGER NOT NULL DEFAULT 0,
        bytes      INTEGER NOT NULL DEFAULT 0,
        error      TEXT,
        log        TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (task, run, attempt)
    ) WITHOUT ROWID;
    CREATE UNIQUE INDEX firings ON runs (task, scheduled, attempt) WHERE cause = 'schedule';
    CREATE INDEX unfinished_runs ON runs (state, retry) WHERE state = 'running' OR retry IS NOT NULL;
    CREATE TABLE leader (                         -- the one process that fires tasks
        one    INTEGER PRIMARY KEY CHECK (one = 1),
        holder TEXT NOT NULL,                     -- a token that no other process has
        beat   INTEGER NOT NULL,                  -- grows while it lives
        host   TEXT NOT NULL,
        pid    INTEGER NOT NULL,
        since  INTEGER NOT NULL                   -- microseconds since 1970 UTC
    );
    -- JSON of types.Retention: how long which snapshots stay; NULL: until they are dropped
    ALTER TABLE graphs ADD COLUMN retention TEXT;
    CREATE TABLE loaded (                         -- files that COPY … (NEW FILES ONLY) has taken in
        table_id INTEGER NOT NULL REFERENCES tables,
        path     TEXT NOT NULL,                   -- absolute
        bytes    INTEGER NOT NULL,
        modified INTEGER NOT NULL,                -- nanoseconds since 1970 UTC, as the file system said
        version  INTEGER NOT NULL REFERENCES versions,
        PRIMARY KEY (table_id, path)
    ) WITHOUT ROWID;
"""
_SEVENTH = """
    CREATE TABLE exports (                        -- folders that runs of tasks were about to put elsewhere
        task      INTEGER NOT NULL,               -- task, run, attempt: of runs
        run       INTEGER NOT NULL,
        attempt   INTEGER NOT NULL,
        statement INTEGER NOT NULL,               -- from 1
        path      TEXT NOT NULL,                  -- absolute
        sha256    TEXT NOT NULL,                  -- of the folder's manifest
        PRIMARY KEY (task, run, attempt, statement, path)
    ) WITHOUT ROWID;
    -- 1: its task was replaced while it went on
    ALTER TABLE runs ADD COLUMN replaced INTEGER NOT NULL DEFAULT 0;
"""


def _read_logs(connection: Connection) -> None:
    """Record the exports and replaced tasks that the logs of format 6 mention. The logs remain unchanged."""
    rows = connection.execute("SELECT task, run, attempt, log FROM runs WHERE log <> ''").fetchall()
    for task, run, attempt, log in rows:
        if _REPLACED in log.splitlines():
            connection.execute(
                "UPDATE runs SET replaced = 1 WHERE task = ? AND run = ? AND attempt = ?", (task, run, attempt)
            )
        exports = [(task, run, attempt, int(put[1]), _path(put[2]), put[3]) for put in _PUT.finditer(log)]
        connection.executemany("INSERT OR REPLACE INTO exports VALUES (?, ?, ?, ?, ?, ?)", exports)


def _path(text: str) -> str:
    """Return the path in a log line, or the text itself if an error message only looks like such a line."""
    try:
        return str(json.loads(text))
    except ValueError:
        return text


# Migration from format 1 to 2: columns get field numbers, and versions get hashed commit records.


def _add_fields(connection: Connection) -> None:
    """Number the columns of every table in order, and replace the names in id map keys with these numbers."""
    fields: dict[int, dict[str, int]] = {}
    for shape, table, text in connection.execute("SELECT id, table_id, columns FROM shapes").fetchall():
        columns = [Column(name, type_, nullable, i) for i, (name, type_, nullable) in enumerate(json.loads(text), 1)]
        fields[table] = {c.name: c.field for c in columns}
        connection.execute("UPDATE shapes SET columns = ? WHERE id = ?", (encode_columns(columns), shape))
    for map_id, table, text in connection.execute("SELECT id, table_id, key FROM id_maps").fetchall():
        key = [[fields[table][name], type_] for name, type_ in json.loads(text)]
        connection.execute("UPDATE id_maps SET key = ? WHERE id = ?", (json.dumps(key), map_id))


def _rechain(connection: Connection) -> None:
    """Write each version's commit record, including the version's old hash, and hash the record."""
    parent = ""
    rows = connection.execute("SELECT version, time, message, author, hash FROM versions ORDER BY version").fetchall()
    for version, time, message, author, old in rows:
        changes = _changes(connection, version)
        # Format 1 did not record the versions of ids, so the newest version gets all of them.
        if version == rows[-1][0]:
            changes += _ids(connection)
        facts = {"version": version, "time": time, "message": message, "author": author, "format 1": old}
        text = facts_text({**facts, "changes": changes})
        digest = link(parent, text)
        connection.execute(
            "UPDATE versions SET parent = ?, hash = ?, facts = ? WHERE version = ?", (parent, digest, text, version)
        )
        parent = digest


def _changes(connection: Connection, version: int) -> list[dict[str, Any]]:
    """Return the changes of a version, in the format of commit records."""
    changes: list[dict[str, Any]] = [
        {"change": "drop", "table": table}
        for (table,) in connection.execute("SELECT id FROM tables WHERE dropped = ? ORDER BY id", (version,))
    ]
    for table, name, columns in connection.execute(
        "SELECT t.id, t.name, s.columns FROM tables t JOIN shapes s ON s.table_id = t.id AND s.since = t.created "
        "WHERE t.created = ? ORDER BY t.id",
        (version,),
    ):
        changes.append({"change": "create", "table": table, "name": name, "columns": json.loads(columns)})
    for row in connection.execute(
        "SELECT kind, table_id, path, rows, bytes, sha256, first FROM segments WHERE added = ? ORDER BY id", (version,)
    ):
        kind, table, path, rows, size, sha256, first = row
        facts = {"path": path, "rows": rows, "bytes": size, "sha256": sha256, "first": first}
        changes.append({"change": kind, "table": table, **facts})
    return changes


def _ids(connection: Connection) -> list[dict[str, Any]]:
    """Return the files of all id maps, in the format of commit records."""
    keys = ("map", "path", "rows", "bytes", "sha256", "first")
    rows = connection.execute("SELECT map_id, path, rows, bytes, sha256, first FROM id_segments ORDER BY map_id, first")
    return [{"change": "ids", **dict(zip(keys, row, strict=True)), "merged": []} for row in rows]


class _Migration(NamedTuple):
    """A migration from one catalog format to the next."""

    sql: str
    """SQL statements, each of which ends with a semicolon and a newline."""
    then: tuple[Callable[[Connection], None], ...] = ()
    """The functions that complete the migration after the SQL statements."""


_MIGRATIONS: tuple[_Migration, ...] = (
    _Migration(_FIRST),
    _Migration(_VERSIONED, (_add_fields, _rechain)),
    _Migration(_PATCHED),
    _Migration(_SAMPLED),
    _Migration(_CACHED),
    _Migration(_SCHEDULED),
    _Migration(_SEVENTH, (_read_logs,)),
)

FORMAT = len(_MIGRATIONS)
"""The catalog format of this release, which is the number of migrations."""


def migrate(connection: sqlite3.Connection, disk: Disk) -> None:
    """Apply the missing migrations in one transaction.

    If two processes create the same database at once, only the first one applies them.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for step in _MIGRATIONS[version:]:
            for statement in filter(str.strip, step.sql.split(";\n")):
                connection.execute(statement)
            for more in step.then:
                more(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        disk.commit(connection)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
