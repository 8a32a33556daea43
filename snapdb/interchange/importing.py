"""`db.import_graph`: reads a graph of any form, and makes tables, a property graph and a snapshot of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypedDict

from snapdb.errors import InputError
from snapdb.execute.results import Result
from snapdb.interchange import files, frames
from snapdb.interchange.networks import read_igraph, read_matrix, read_networkx
from snapdb.interchange.stores import read_dgl, read_pyg
from snapdb.interchange.tables import GraphTables
from snapdb.plan.queries import Parameters
from snapdb.plan.variables import caller_variables
from snapdb.sql_engine import quote
from snapdb.types.text import counted, did_you_mean

_LIBRARIES: Mapping[str, Callable[[Any], GraphTables]] = {
    "torch_geometric": read_pyg,
    "dgl": read_dgl,
    "networkx": read_networkx,
    "igraph": read_igraph,
    "scipy": read_matrix,
}
"""The package of a graph's class → the function that reads it."""
_ROWS = "snapdb imported rows"
"""The variable that CREATE TABLE reads."""


class _Runs(Protocol):
    """A database, as imports use it."""

    def execute(self, sql: str, params: Parameters = None) -> Result: ...

    def transaction(self, message: str | None = None) -> AbstractContextManager[Any]: ...


@dataclass(frozen=True, slots=True)
class ImportedGraph:
    """The objects that an import created. `print` lists them, with the statement that declares the graph."""

    graph: str
    """The name of the property graph."""
    snapshot: str
    """The name of its snapshot."""
    tables: Mapping[str, int]
    """The tables, with their numbers of rows."""
    statement: str
    """The CREATE PROPERTY GRAPH statement."""
    notes: tuple[str, ...] = ()
    """What was changed or left out."""

    def __str__(self) -> str:
        tables = [f"  {name}: {counted(rows, 'row')}" for name, rows in self.tables.items()]
        head = f"graph {self.graph} and snapshot {self.snapshot} over {counted(len(tables), 'table')}:"
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join((head, *tables, *notes, "", self.statement))

    __repr__ = __str__


class ImportOptions(TypedDict, total=False):
    """The options of `Database.import_graph`."""

    prefix: str
    """Precedes the names of all tables."""
    source_column: str | None
    """The column of the sources in an edge list or a frame of edges. Defaults to the first column."""
    destination_column: str | None
    """The column of the destinations. Defaults to the second column."""
    time: str | None
    """The column of the event times in an edge list or a frame of edges."""
    weight: str | None
    """The column of the weights in an edge list or a frame of edges."""
    keys: Mapping[str, str] | None
    """The key column of each frame of vertices, by its name. Defaults to `id`."""
    edges: Mapping[str, frames.Ends] | None
    """The ends of each frame of edges, by its name: (source column, source frame, destination column, destination
    frame)."""


def read_graph(db: _Runs, source: Any, options: ImportOptions) -> GraphTables:
    """Return the tables of a graph of any form.

    Raises:
        InputError: The form is unknown.
    """
    # Subclasses of a library's classes are recognised by their bases.
    for base in type(source).__mro__:
        if (known := _LIBRARIES.get(base.__module__.partition(".")[0])) is not None:
            return known(source)
    named = options.get("source_column"), options.get("destination_column"), options.get("time"), options.get("weight")
    columns = frames.EdgeColumns(*named)
    if isinstance(source, str | Path):
        return files.read_file(lambda text: db.execute(text).arrow(), Path(source), columns)
    if isinstance(source, Mapping) and (edges := options.get("edges")):
        return frames.read_frames(source, options.get("keys") or {}, edges)
    if isinstance(source, Mapping) and any(hasattr(each, "columns") for each in source.values()):
        raise InputError(
            "named frames need edges={'table': ('source column', 'table', 'destination column', 'table')}, which says "
            "how they form a graph",
            code="not-a-graph",
        )
    return frames.read_edges(source, columns)


def import_graph(db: _Runs, name: str, source: Any, snapshot: str, options: ImportOptions) -> ImportedGraph:
    """Make tables, a property graph and a snapshot. A failure leaves nothing behind."""
    if unknown := options.keys() - ImportOptions.__annotations__.keys():
        hint = did_you_mean(min(unknown), ImportOptions.__annotations__)
        raise InputError(f"import_graph has no option {min(unknown)!r}{hint}", code="not-a-graph")
    tables = _renamed(read_graph(db, source, options), options.get("prefix", ""))
    statement = tables.graph(name)
    created: list[str] = []
    with db.transaction(f"imported {name}"):
        for table in tables.all_tables:
            with caller_variables({_ROWS: table.rows}.get):
                db.execute(f"CREATE TABLE {quote(table.name)} AS FROM {quote(_ROWS)}")
            created.append(f"TABLE {quote(table.name)}")
    try:
        db.execute(statement)
        created.append(f"PROPERTY GRAPH {quote(name)}")
        db.execute(f"CREATE SNAPSHOT {quote(snapshot)} OF {quote(name)}")
    except BaseException:
        for thing in reversed(created):
            db.execute(f"DROP {thing}")
        raise
    rows = {table.name: table.rows.num_rows for table in tables.all_tables}
    return ImportedGraph(name, snapshot, rows, statement, tuple(tables.notes))


def _renamed(tables: GraphTables, prefix: str) -> GraphTables:
    """Return the tables with a prefix before their names."""
    if not prefix:
        return tables
    vertices = [replace(each, name=f"{prefix}{each.name}") for each in tables.vertices]
    edges = [
        replace(each, name=f"{prefix}{each.name}", ends=(f"{prefix}{each.ends[0]}", f"{prefix}{each.ends[1]}"))
        for each in tables.edges
    ]
    return GraphTables(vertices, edges, tables.notes)
