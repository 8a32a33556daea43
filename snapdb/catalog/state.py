"""What the database holds at one moment, as a frozen value."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from snapdb.errors import BindError
from snapdb.storage.codec import decode
from snapdb.storage.ledger import Ledger
from snapdb.types import Column, PropertyGraph, Segment, Snapshot, Table, Version
from snapdb.types.suggest import did_you_mean

T = TypeVar("T")

__all__ = ["Catalog", "load", "tables_at", "version_at", "versions"]


@dataclass(frozen=True, slots=True)
class Catalog:
    """Tables, graphs and snapshots at the head. Names are looked up whatever their case."""

    version: int
    """The head; 0 before the first commit."""
    tables: Mapping[str, Table]
    """By case-folded name, as are the others."""
    graphs: Mapping[str, PropertyGraph]
    snapshots: Mapping[str, Snapshot]

    def table(self, name: str) -> Table:
        """The table of that name.

        Raises:
            BindError: there is none; it suggests the nearest.
        """
        return self._find("table", self.tables, name)

    def graph(self, name: str) -> PropertyGraph:
        """The property graph of that name, or BindError."""
        return self._find("graph", self.graphs, name)

    def snapshot(self, name: str) -> Snapshot:
        """The snapshot of that name, or BindError."""
        return self._find("snapshot", self.snapshots, name)

    def kind_of(self, name: str) -> str | None:
        """'table', 'graph' or 'snapshot'; None when the name is free."""
        folded = name.lower()
        kinds = {"table": self.tables, "graph": self.graphs, "snapshot": self.snapshots}
        return next((kind for kind, known in kinds.items() if folded in known), None)

    def names(self) -> list[str]:
        """Every name in use, as it was written."""
        tables = [t.name for t in self.tables.values()]
        return tables + [g.name for g in self.graphs.values()] + [s.name for s in self.snapshots.values()]

    def _find(self, kind: str, known: Mapping[str, T], name: str) -> T:
        if (found := known.get(name.lower())) is not None:
            return found
        other = self.kind_of(name)
        hint = f"; {name} is a {other}" if other else _near(name, known)
        raise BindError(f'no {kind} "{name}"{hint}', code=f"unknown-{kind}")


def load(ledger: Ledger) -> Catalog:
    """The catalog now."""
    with ledger.reading() as connection:
        (head,) = connection.execute("SELECT coalesce(max(version), 0) FROM versions").fetchone()
        graphs = connection.execute("SELECT folded, definition FROM graphs ORDER BY folded").fetchall()
        snapshots = connection.execute("SELECT folded, definition, id FROM snapshots ORDER BY id").fetchall()
        return Catalog(
            version=head,
            tables=_tables(connection, head),
            graphs={row["folded"]: decode(PropertyGraph, row["definition"]) for row in graphs},
            snapshots={row["folded"]: decode(Snapshot, row["definition"]) for row in snapshots},
        )


def tables_at(ledger: Ledger, version: int) -> dict[str, Table]:
    """The tables of an older version, by case-folded name."""
    with ledger.reading() as connection:
        return _tables(connection, version)


def version_at(ledger: Ledger, time: int) -> int:
    """The last version committed at or before `time` (microseconds since 1970 UTC).

    Raises:
        BindError: there was none yet.
    """
    found = ledger.rows("SELECT version FROM versions WHERE time <= ? ORDER BY version DESC LIMIT 1", (time,))
    if not found:
        first = ledger.rows("SELECT time FROM versions ORDER BY version LIMIT 1")
        said = f"; the first was at {_iso(first[0]['time'])}" if first else ""
        raise BindError(f"there was no version yet at {_iso(time)}{said}")
    return int(found[0]["version"])


def versions(ledger: Ledger) -> list[Version]:
    """Every version, oldest first, one entry a table it changed."""
    query = """
        SELECT v.version, v.time, v.message, v.author, t.name, sum(c.rows_added) added, sum(c.rows_removed) removed
        FROM versions v LEFT JOIN changes c USING (version) LEFT JOIN tables t ON t.id = c.table_id
        GROUP BY v.version, t.name ORDER BY v.version, t.name
    """
    return [
        Version(r["version"], r["time"], r["message"], None, r["author"], r["name"], r["added"] or 0, r["removed"] or 0)
        for r in ledger.rows(query)
    ]


def _near(name: str, known: Iterable[str]) -> str:
    known = list(known)
    return did_you_mean(name, known) or (f"; there are: {', '.join(known[:8])}" if known else "; there is none yet")


def _tables(connection: sqlite3.Connection, version: int) -> dict[str, Table]:
    rows = connection.execute(
        """
        SELECT t.id, t.name, t.folded,
               (SELECT columns FROM columns c WHERE table_id = t.id AND since <= :v ORDER BY since DESC LIMIT 1) cols,
               (SELECT max(version) FROM changes c WHERE c.table_id = t.id AND c.version <= :v) state
        FROM tables t WHERE t.created <= :v AND (t.dropped IS NULL OR t.dropped > :v) ORDER BY t.id
        """,
        {"v": version},
    ).fetchall()
    return {row["folded"]: _table(connection, row, version) for row in rows}


def _table(connection: sqlite3.Connection, row: sqlite3.Row, version: int) -> Table:
    found = connection.execute(
        "SELECT * FROM segments WHERE table_id = ? AND added <= ? AND (removed IS NULL OR removed > ?) ORDER BY first",
        (row["id"], version, version),
    ).fetchall()
    kinds: dict[str, list[Segment]] = {"rows": [], "deletes": []}
    for s in found:
        kinds[s["kind"]].append(Segment(s["path"], s["rows"], s["bytes"], s["sha256"], s["first"]))
    return Table(
        id=row["id"],
        name=row["name"],
        columns=tuple(Column(*entry) for entry in json.loads(row["cols"])),
        segments=tuple(kinds["rows"]),
        deletes=tuple(kinds["deletes"]),
        rows=sum(s.rows for s in kinds["rows"]) - sum(s.rows for s in kinds["deletes"]),
        state=row["state"],
    )


def _iso(time: int) -> str:
    return datetime.fromtimestamp(time / 1e6, UTC).isoformat(sep=" ")
