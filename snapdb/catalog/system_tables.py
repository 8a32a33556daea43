"""The system tables: the one source of SHOW and of `snapdb.<table>` in a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from snapdb.catalog.listing import MOMENT, Fields, listing
from snapdb.catalog.state import Catalog, tags, versions
from snapdb.catalog.task_tables import LEADER, TASK_RUNS, TASKS, Due, leader_rows, run_rows, task_rows
from snapdb.catalog.windows import age_text, bounds_text, moment, moves_text
from snapdb.error_codes import load_codes
from snapdb.storage.cache_reports import CacheReport, read_reports
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.tables.commit import now
from snapdb.types import Cache, CacheStats, EdgeElement, FeatureSpec, Properties, Snapshot, VertexElement

_TEXT, _COUNT = pa.string(), pa.int64()
_TEXTS = pa.list_(_TEXT)

GRAPHS = (("name", _TEXT), ("vertex_types", _TEXTS), ("edge_types", _TEXTS), ("retention", _TEXT))
ELEMENTS = (
    ("graph", _TEXT),
    ("element", _TEXT),
    ("kind", _TEXT),
    ("table", _TEXT),
    ("key", _TEXTS),
    ("source", _TEXT),
    ("source_key", _TEXTS),
    ("destination", _TEXT),
    ("destination_key", _TEXTS),
    ("event_time", _TEXT),
    ("event_end", _TEXT),
    ("weight", _TEXT),
    ("target", _TEXT),
    ("classes", _TEXTS),
    ("features", _TEXTS),
    ("labels", _TEXTS),
    ("properties", _TEXT),
)
FEATURES = (
    ("graph", _TEXT),
    ("element", _TEXT),
    ("kind", _TEXT),
    ("feature", _TEXT),
    ("columns", _TEXTS),
    ("type", _TEXT),
    ("sparse", pa.bool_()),
    ("width", _COUNT),
    ("default_value", pa.float64()),
    ("history", _TEXT),
    ("history_key", _TEXTS),
    ("history_time", _TEXT),
)

Rows = Iterable[Sequence[Any]]


def _graph_rows(catalog: Catalog) -> Rows:
    """A row a graph."""
    for g in catalog.graphs.values():
        retention = catalog.retentions.get(g.name.lower())
        types = [v.name for v in g.vertices], [e.name for e in g.edges]
        yield g.name, *types, None if retention is None else str(retention)


def _element_rows(catalog: Catalog) -> Rows:
    """A row an element of a graph: its vertex types, then its edge types."""
    for graph in catalog.graphs.values():
        for element in graph.elements:
            features, labels = [spec.name for spec in element.features], element.labels or (element.name,)
            shown = str(element.properties or Properties(excepted=()))
            yield graph.name, element.name, *_element(element), features, labels, shown


def _element(element: VertexElement | EdgeElement) -> Sequence[Any]:
    match element:
        case VertexElement():
            ends = (None, None, None, None)
            return (
                "vertex",
                element.table,
                element.key,
                *ends,
                element.event_time,
                None,
                None,
                element.target,
                element.classes,
            )
        case EdgeElement() as e:
            ends_ = (e.source, e.source_key, e.destination, e.destination_key)
            return ("edge", e.table, None, *ends_, e.event_time, e.event_end, e.weight, None, None)


def _feature_rows(catalog: Catalog) -> Rows:
    """A row a feature of an element."""
    for graph in catalog.graphs.values():
        for element in graph.elements:
            kind = "vertex" if isinstance(element, VertexElement) else "edge"
            for spec in element.features:
                yield graph.name, element.name, kind, *_feature(spec)


def _feature(spec: FeatureSpec) -> Sequence[Any]:
    history = spec.history
    since = (None, None, None) if history is None else (history.table, history.key, history.event_time)
    return (spec.name, spec.columns, spec.dtype, spec.sparse, spec.width, spec.default, *since)


_NUMBER = pa.float64()

CACHES = (
    ("name", _TEXT),
    ("sampler", _TEXT),
    ("place", _TEXT),
    ("room", _COUNT),
    ("bytes", _COUNT),
    ("rows", _COUNT),
    ("hit_rate", _NUMBER),
    ("age", _NUMBER),
    ("bytes_read", _COUNT),
    ("bytes_saved", _COUNT),
    ("generation", _COUNT),
    ("streams", _COUNT),
    ("created", MOMENT),
)

_SUMMED = (
    "bytes",
    "rows",
    "filled",
    "edges",
    "hits",
    "misses",
    "bytes_read",
    "bytes_filled",
    "bytes_saved",
    "refills",
    "drawn",
)
"""What several streams of a cache have together."""


class _Told(NamedTuple):
    """What is known of a cache beside its definition."""

    streams: int
    """That have it at this moment."""
    stats: CacheStats | None
    """Of all of them together, or of the last ones where none is open; None: it had none yet."""
    generations: tuple[int, ...]
    """Of the rows that these streams have or had, in order."""


def _cache_rows(catalog: Catalog, db_dir: DatabaseDir) -> Iterator[Sequence[Any]]:
    """A row a cache."""
    for cache in catalog.caches.values():
        streams, stats, _ = told(db_dir, cache)
        numbers: Sequence[Any] = (None,) * 6
        if stats is not None:
            hit_rate, age = _rounded(stats.hit_rate, 4), _rounded(stats.age, 1)
            numbers = (stats.bytes, stats.filled, hit_rate, age, stats.bytes_read, stats.bytes_saved)
        generation = catalog.sampler(cache.sampler).generation
        yield (cache.name, cache.sampler, cache.place, cache.room, *numbers, generation, streams, moment(cache.created))


def told(db_dir: DatabaseDir, cache: Cache) -> _Told:
    """What the streams of a cache say of it."""
    reports = read_reports(db_dir, cache.id)
    live = [report for report in reports if report.lives]
    heard = live or reports
    return _Told(len(live), _together(heard), tuple(sorted({report.generation for report in heard})))


def _rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else round(number, digits)


def _together(reports: Sequence[CacheReport]) -> CacheStats | None:
    """The numbers of several streams as those of one: a row's age is that of the average row."""
    stats = [report.stats for report in reports]
    if not stats:
        return None
    aged = [(one.age, one.filled) for one in stats if one.age is not None]
    rows = sum(filled for _, filled in aged)
    return CacheStats(
        **{name: sum(getattr(one, name) for one in stats) for name in _SUMMED},
        age=sum(age * filled for age, filled in aged) / rows if rows else None,
        batch=max((one.batch for one in stats if one.batch is not None), default=None),
        error=next((one.error for one in stats if one.error is not None), None),
    )


_LOADED = (
    ("table", pa.string()),
    ("path", pa.string()),
    ("bytes", pa.int64()),
    ("modified", MOMENT),
    ("version", pa.int64()),
    ("time", MOMENT),
)
_QUERY = "SELECT * FROM loaded JOIN versions USING (version) WHERE version <= ? ORDER BY version, path"


def _loaded_rows(catalog: Catalog, catalog_db: CatalogDb) -> Iterable[Sequence[Any]]:
    """A row for each file in a table that is there, in the order of versions; an open transaction's have none yet."""
    names = {table.id: table.name for table in catalog.tables.values()}
    for row in catalog_db.rows(_QUERY, (catalog.version,)):
        if (name := names.get(row["table_id"])) is not None:
            modified = moment(row["modified"] // 1000)
            yield name, row["path"], row["bytes"], modified, row["version"], moment(row["time"])
    for table_id, file in catalog.loading:
        if (name := names.get(table_id)) is not None:
            yield name, file.path, file.bytes, moment(file.modified // 1000), None, None


SCHEMA = "snapdb"
"""The schema under which queries read the tables."""


_TABLES = (
    ("name", _TEXT),
    ("rows", _COUNT),
    ("columns", _COUNT),
    ("segments", _COUNT),
    ("bytes", _COUNT),
    ("version", _COUNT),
)
_COLUMNS = (
    ("table", _TEXT),
    ("name", _TEXT),
    ("position", _COUNT),
    ("type", _TEXT),
    ("nullable", pa.bool_()),
    ("default_value", _TEXT),
)
_SNAPSHOTS = (
    ("name", _TEXT),
    ("graph", _TEXT),
    ("version", _COUNT),
    ("from_time", _TEXT),
    ("to_time", _TEXT),
    ("form", _TEXT),
    ("nodes", _COUNT),
    ("edges", _COUNT),
    ("bytes", _COUNT),
    ("created", MOMENT),
    ("refreshed", MOMENT),
    ("age", _TEXT),
    ("tag", _TEXT),
    ("moves", _TEXT),
)
_SAMPLERS = (
    ("name", _TEXT),
    ("snapshot", _TEXT),
    ("batch", _COUNT),
    ("hops", _COUNT),
    ("method", _TEXT),
    ("seeds", _TEXT),
    ("kind", _TEXT),
    ("created", MOMENT),
    ("statement", _TEXT),
    ("author", _TEXT),
)
_ERRORS = (("code", _TEXT), ("kind", _TEXT), ("meaning", _TEXT), ("remedy", _TEXT))
_TAGS = (("name", _TEXT), ("version", _COUNT), ("time", MOMENT))
_VERSIONS = (
    ("version", _COUNT),
    ("time", MOMENT),
    ("message", _TEXT),
    ("tag", _TEXT),
    ("author", _TEXT),
    ("table", _TEXT),
    ("rows_added", _COUNT),
    ("rows_removed", _COUNT),
)


@dataclass(frozen=True, slots=True)
class Facts:
    """One of the tables."""

    about: str
    """What a row of it is."""
    fields: Fields
    rows: Callable[[Catalog, CatalogDb, Due], Rows]


def facts(name: str, catalog: Catalog, catalog_db: CatalogDb, due: Due) -> pa.RecordBatch:
    """The table of that name, one of `FACTS`, as the catalog has it: an open transaction's own changes are in it.

    Args:
        due: When a task's schedule fires next.
    """
    table = FACTS[name]
    return listing(table.fields, table.rows(catalog, catalog_db, due))


def _tables(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> Rows:
    for t in catalog.tables.values():
        bytes_ = sum(s.bytes for s in (*t.segments, *t.deletes))
        yield t.name, t.rows, len(t.columns), len(t.segments), bytes_, t.state


def _columns(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> Rows:
    for table in catalog.tables.values():
        for position, c in enumerate(table.columns, 1):
            yield table.name, c.name, position, c.type, c.nullable, c.default


def _snapshots(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> Rows:
    named: dict[int, list[str]] = {}
    for tag in tags(catalog_db):
        named.setdefault(tag.version, []).append(tag.name)
    today = now()
    for s in catalog.snapshots.values():
        yield *_snapshot(s), age_text(today - (s.refreshed or s.created)), _joined(named.get(s.version)), moves_text(s)


def _snapshot(s: Snapshot) -> Sequence[Any]:
    refreshed = None if s.refreshed is None else moment(s.refreshed)
    counts = (s.form, s.nodes, s.edges, s.bytes)
    return (s.name, s.graph.name, s.version, *bounds_text(s), *counts, moment(s.created), refreshed)


def _joined(names: Sequence[str] | None) -> str | None:
    return ", ".join(names or ()) or None


def _samplers(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> Rows:
    for s in catalog.samplers.values():
        kind = "edge" if s.edges else "vertex"
        yield s.name, s.snapshot, s.batch, s.hops, s.method, s.seeds, kind, moment(s.created), s.text, s.author


def _errors(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> Rows:
    return [(code.code, code.kind, code.meaning, code.remedy) for code in load_codes()]


def _tags(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> Rows:
    # Others may have committed since the catalog was read: all that a statement reads is of one moment.
    return [(t.name, t.version, moment(t.time)) for t in tags(catalog_db) if t.version <= catalog.version]


def _versions(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> Rows:
    for v in versions(catalog_db):
        if v.version <= catalog.version:
            yield v.version, moment(v.time), v.message, v.tag, v.author, v.table, v.rows_added, v.rows_removed


FACTS: Mapping[str, Facts] = {
    "tables": Facts("a table", _TABLES, _tables),
    "columns": Facts("a column of a table", _COLUMNS, _columns),
    "graphs": Facts("a property graph", GRAPHS, lambda catalog, catalog_db, due: _graph_rows(catalog)),
    "elements": Facts(
        "a vertex or edge type of a graph", ELEMENTS, lambda catalog, catalog_db, due: _element_rows(catalog)
    ),
    "features": Facts("a feature of an element", FEATURES, lambda catalog, catalog_db, due: _feature_rows(catalog)),
    "snapshots": Facts("a snapshot", _SNAPSHOTS, _snapshots),
    "samplers": Facts("a sampler", _SAMPLERS, _samplers),
    "caches": Facts(
        "a cache of a sampler's rows", CACHES, lambda catalog, catalog_db, due: _cache_rows(catalog, catalog_db.db_dir)
    ),
    "tasks": Facts("a task", TASKS, task_rows),
    "task_runs": Facts("an attempt of a task's run", TASK_RUNS, lambda catalog, catalog_db, due: run_rows(catalog_db)),
    "leader": Facts("the daemon that fires tasks", LEADER, lambda catalog, catalog_db, due: leader_rows(catalog_db)),
    "versions": Facts("a version and a table that it changed", _VERSIONS, _versions),
    "loaded_files": Facts(
        "a file that COPY … (NEW FILES ONLY) loaded",
        _LOADED,
        lambda catalog, catalog_db, due: _loaded_rows(catalog, catalog_db),
    ),
    "tags": Facts("a name for a version", _TAGS, _tags),
    "errors": Facts("a code of an error", _ERRORS, _errors),
}
"""The tables by name."""
