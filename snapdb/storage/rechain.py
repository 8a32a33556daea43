"""The step from format 1 to 2: columns get fields, and versions the facts that their hashes are of."""

from __future__ import annotations

import json
from sqlite3 import Connection
from typing import Any

from snapdb.storage.chain import facts_text, link
from snapdb.storage.shapes import encode_columns
from snapdb.types import Column


def add_fields(connection: Connection) -> None:
    """Number the columns of every table in order, and let id maps name their keys by these numbers."""
    fields: dict[int, dict[str, int]] = {}
    for shape, table, text in connection.execute("SELECT id, table_id, columns FROM shapes").fetchall():
        columns = [Column(name, type_, nullable, i) for i, (name, type_, nullable) in enumerate(json.loads(text), 1)]
        fields[table] = {c.name: c.field for c in columns}
        connection.execute("UPDATE shapes SET columns = ? WHERE id = ?", (encode_columns(columns), shape))
    for map_id, table, text in connection.execute("SELECT id, table_id, key FROM id_maps").fetchall():
        key = [[fields[table][name], type_] for name, type_ in json.loads(text)]
        connection.execute("UPDATE id_maps SET key = ? WHERE id = ?", (json.dumps(key), map_id))


def rechain(connection: Connection) -> None:
    """Write down what each version changed, and hash it anew; the old hash stays among the facts."""
    parent = ""
    rows = connection.execute("SELECT version, time, message, author, hash FROM versions ORDER BY version").fetchall()
    for version, time, message, author, old in rows:
        changes = _changes(connection, version)
        if version == rows[-1][0]:  # which version brought which ids was not written down
            changes += _ids(connection)
        facts = {"version": version, "time": time, "message": message, "author": author, "format 1": old}
        text = facts_text({**facts, "changes": changes})
        digest = link(parent, text)
        connection.execute(
            "UPDATE versions SET parent = ?, hash = ?, facts = ? WHERE version = ?", (parent, digest, text, version)
        )
        parent = digest


def _changes(connection: Connection, version: int) -> list[dict[str, Any]]:
    """A version's changes in the form that a commit writes."""
    found: list[dict[str, Any]] = [
        {"change": "drop", "table": table}
        for (table,) in connection.execute("SELECT id FROM tables WHERE dropped = ? ORDER BY id", (version,))
    ]
    for table, name, columns in connection.execute(
        "SELECT t.id, t.name, s.columns FROM tables t JOIN shapes s ON s.table_id = t.id AND s.since = t.created "
        "WHERE t.created = ? ORDER BY t.id",
        (version,),
    ):
        found.append({"change": "create", "table": table, "name": name, "columns": json.loads(columns)})
    for row in connection.execute(
        "SELECT kind, table_id, path, rows, bytes, sha256, first FROM segments WHERE added = ? ORDER BY id", (version,)
    ):
        kind, table, path, rows, size, sha256, first = row
        facts = {"path": path, "rows": rows, "bytes": size, "sha256": sha256, "first": first}
        found.append({"change": kind, "table": table, **facts})
    return found


def _ids(connection: Connection) -> list[dict[str, Any]]:
    """The files of all id maps, as one commit would have brought them."""
    found = connection.execute(
        "SELECT map_id, path, rows, bytes, sha256, first FROM id_segments ORDER BY map_id, first"
    )
    return [
        {
            "change": "ids",
            "map": map_id,
            "path": path,
            "rows": rows,
            "bytes": size,
            "sha256": sha256,
            "first": first,
            "merged": [],
        }
        for map_id, path, rows, size, sha256, first in found
    ]
