"""Every name that a statement can use, by kind, for completion."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from snapdb.catalog.elements import shown_columns
from snapdb.catalog.state import Catalog, VersionHistory
from snapdb.catalog.system_tables import SCHEMA, SYSTEM_TABLES
from snapdb.storage.catalog_db.codec import decode_columns
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.types import Snapshot


class Vocabulary(TypedDict):
    """Names as written by the user. No list contains duplicates."""

    tables: list[str]
    """The tables and registered data."""
    views: list[str]
    """The views. Like tables, those in a schema have its name before a dot."""
    graphs: list[str]
    snapshots: list[str]
    samplers: list[str]
    caches: list[str]
    tasks: list[str]
    tags: list[str]
    columns: list[str]
    """The columns of all tables."""
    types: list[str]
    """The vertex and edge types of all graphs."""
    functions: list[str]
    """DuckDB's functions, and the macros."""
    columns_of: dict[str, list[str]]
    """The columns of `table`, `snapshot.element`, `element` (if no table has that name) and `snapdb.<table>`."""


class _Shape(NamedTuple):
    """The columns that a table has had since a version."""

    table: int
    id: int
    since: int
    created: int
    dropped: int | None


def vocabulary(
    catalog: Catalog, catalog_db: CatalogDb, sources: Mapping[str, object], functions: Sequence[str]
) -> Vocabulary:
    """Return the names of a database.

    Args:
        catalog: The catalog.
        catalog_db: The database from which the catalog was read.
        sources: Registered data, by name.
        functions: DuckDB's functions.
    """
    graphs = catalog.graphs.values()
    tables = {t.name: [c.name for c in t.columns] for f, t in catalog.tables.items() if catalog.view(f) is None}
    tables |= _defined(catalog, "table")
    views = _defined(catalog, "view")
    tables |= {name: _columns_of_source(data) for name, data in sources.items()}
    columns_of = dict(_facts()) | dict(_elements(catalog)) | dict(_snapshot_elements(catalog, catalog_db))
    columns_of |= tables | views
    return {
        "tables": list(tables),
        "views": list(views),
        "graphs": [g.name for g in graphs],
        "snapshots": [s.name for s in catalog.snapshots.values()],
        "samplers": [s.name for s in catalog.samplers.values()],
        "caches": [c.name for c in catalog.caches.values()],
        "tasks": [t.name for t in catalog.tasks.values()],
        "tags": [t.name for t in VersionHistory(catalog_db).tags()],
        "columns": _distinct(column for columns in (*tables.values(), *views.values()) for column in columns),
        "types": _distinct(e.name for g in graphs for e in g.elements),
        "functions": [*functions, *(one.name for one in catalog.definitions.values() if one.kind == "macro")],
        "columns_of": columns_of,
    }


def _defined(catalog: Catalog, kind: str) -> dict[str, list[str]]:
    """Return the columns of views or temporary tables."""
    return {one.name: [c.name for c in one.columns] for one in catalog.definitions.values() if one.kind == kind}


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _columns_of_source(data: Any) -> list[str]:
    schema = getattr(getattr(data, "batches", data), "schema", None)
    return [] if schema is None else list(schema.names)


def _facts() -> Iterator[tuple[str, list[str]]]:
    for name, table in SYSTEM_TABLES.items():
        yield f"{SCHEMA}.{name}", [column for column, _ in table.fields]


def _elements(catalog: Catalog) -> Iterator[tuple[str, list[str]]]:
    for graph in catalog.graphs.values():
        for element in graph.elements:
            if (table := catalog.tables.get(element.table.lower())) is not None:
                yield element.name, [c.name for c in table.columns]


def _snapshot_elements(catalog: Catalog, catalog_db: CatalogDb) -> Iterator[tuple[str, list[str]]]:
    """Yield the columns of each element of a snapshot, from its table at the snapshot's version."""
    shapes = _shapes(catalog_db)
    newest = {shape.table: shape.id for of_name in shapes.values() for shape in of_name}
    known = {t.id: [c.name for c in t.columns] for t in catalog.tables.values()}
    read: dict[int, list[str]] = {}
    for snapshot in catalog.snapshots.values():
        for element in snapshot.graph.elements:
            shape = _shape_at(shapes.get(element.table.lower(), ()), snapshot)
            if shape is None:
                continue
            if shape.id not in read:  # most shapes are current and have already been read
                now = known.get(shape.table) if newest[shape.table] == shape.id else None
                read[shape.id] = now if now is not None else _read_shape(catalog_db, shape.id)
            yield f"{snapshot.name}.{element.name}", [name for _, name in shown_columns(element, read[shape.id])]


def _shapes(catalog_db: CatalogDb) -> dict[str, list[_Shape]]:
    """Return the shapes of the tables with each name, oldest first."""
    query = """
        SELECT t.folded, t.id, s.id shape, s.since, t.created, t.dropped
        FROM tables t JOIN shapes s ON s.table_id = t.id ORDER BY s.since
    """
    shapes: dict[str, list[_Shape]] = {}
    for row in catalog_db.rows(query):
        shape = _Shape(row["id"], row["shape"], row["since"], row["created"], row["dropped"])
        shapes.setdefault(row["folded"], []).append(shape)
    return shapes


def _shape_at(shapes: Sequence[_Shape], snapshot: Snapshot) -> _Shape | None:
    at = snapshot.version
    there = [s for s in shapes if s.created <= at and s.since <= at and (s.dropped is None or s.dropped > at)]
    return there[-1] if there else None


def _read_shape(catalog_db: CatalogDb, id_: int) -> list[str]:
    (row,) = catalog_db.rows("SELECT columns FROM shapes WHERE id = ?", (id_,))
    return [c.name for c in decode_columns(row["columns"])]
