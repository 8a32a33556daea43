"""What the database holds at one moment, as a frozen value."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from snapdb.catalog.tables import damaged, read_tables
from snapdb.errors import BindError
from snapdb.storage.codec import decode
from snapdb.storage.home import Home
from snapdb.storage.ledger import Ledger
from snapdb.types import PropertyGraph, Snapshot, Table
from snapdb.types.suggest import did_you_mean

T = TypeVar("T")

__all__ = ["Catalog", "load"]


@dataclass(frozen=True, slots=True)
class Catalog:
    """Tables, graphs and snapshots at the head. Names are looked up whatever their case."""

    version: int
    """The head; 0 before the first commit."""
    tables: Mapping[str, Table]
    """By case-folded name, as are the others."""
    graphs: Mapping[str, PropertyGraph]
    snapshots: Mapping[str, Snapshot]
    stamp: tuple[int, int] = (0, 0)
    """How often the catalog was written, and how often files were put in the place of others."""

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


def load(home: Home, ledger: Ledger, known: Catalog | None = None) -> Catalog:
    """The catalog now; `known`, one that was loaded before, spares reading what has not changed.

    Raises:
        CorruptError: the catalog cannot be read.
    """
    with ledger.reading() as connection, damaged(home):
        stamp = _stamp(connection)
        if known is not None and known.stamp == stamp:
            return known
        (head,) = connection.execute("SELECT coalesce(max(version), 0) FROM versions").fetchone()
        graphs = connection.execute("SELECT folded, definition FROM graphs ORDER BY folded").fetchall()
        start = known if known is not None and known.stamp[1] == stamp[1] else Catalog(0, {}, {}, {})
        return Catalog(
            version=head,
            tables=read_tables(connection, head, start.tables, start.version),
            graphs={row["folded"]: decode(PropertyGraph, row["definition"]) for row in graphs},
            snapshots=_snapshots(connection, known),
            stamp=stamp,
        )


def _snapshots(connection: sqlite3.Connection, known: Catalog | None) -> dict[str, Snapshot]:
    """The snapshots; one keeps its id as long as it says the same, so that only new ones are read."""
    read = {} if known is None else {s.id: s for s in known.snapshots.values()}
    rows = connection.execute("SELECT id, folded FROM snapshots ORDER BY id").fetchall()
    found = {}
    for row in rows:
        if row["id"] not in read:
            query = "SELECT definition FROM snapshots WHERE id = ?"
            read[row["id"]] = decode(Snapshot, connection.execute(query, (row["id"],)).fetchone()["definition"])
        found[row["folded"]] = read[row["id"]]
    return found


def _stamp(connection: sqlite3.Connection) -> tuple[int, int]:
    (written,) = connection.execute("SELECT value FROM facts WHERE name = 'changes'").fetchone()
    (replaced,) = connection.execute("SELECT coalesce(max(number), 0) FROM upkeep").fetchone()
    return int(written), int(replaced)


def _near(name: str, known: Iterable[str]) -> str:
    known = list(known)
    return did_you_mean(name, known) or (f"; there are: {', '.join(known[:8])}" if known else "; there is none yet")
