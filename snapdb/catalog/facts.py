"""What there is, as tables: the one source of SHOW and of `snapdb.<table>` in a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from snapdb.catalog.facts_caches import CACHES, cache_rows
from snapdb.catalog.facts_graphs import ELEMENTS, FEATURES, GRAPHS, element_rows, feature_rows, graph_rows
from snapdb.catalog.facts_loaded import LOADED, loaded_rows
from snapdb.catalog.facts_tasks import LEADER, TASK_RUNS, TASKS, Due, leader_rows, run_rows, task_rows
from snapdb.catalog.history import tags, versions
from snapdb.catalog.listing import MOMENT, Fields, listing
from snapdb.catalog.state import Catalog
from snapdb.catalog.windows import age_text, bounds_text, moment, moves_text
from snapdb.error_codes import CODES
from snapdb.storage.commit import now
from snapdb.storage.ledger import Ledger
from snapdb.types import Snapshot

SCHEMA = "snapdb"
"""The schema under which queries read the tables."""

_TEXT, _COUNT = pa.string(), pa.int64()

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

Rows = Iterable[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Facts:
    """One of the tables."""

    about: str
    """What a row of it is."""
    fields: Fields
    rows: Callable[[Catalog, Ledger, Due], Rows]


def facts(name: str, catalog: Catalog, ledger: Ledger, due: Due) -> pa.RecordBatch:
    """The table of that name, one of `FACTS`, as the catalog has it: an open transaction's own changes are in it.

    Args:
        due: When a task's schedule fires next.
    """
    table = FACTS[name]
    return listing(table.fields, table.rows(catalog, ledger, due))


def _tables(catalog: Catalog, ledger: Ledger, due: Due) -> Rows:
    for t in catalog.tables.values():
        bytes_ = sum(s.bytes for s in (*t.segments, *t.deletes))
        yield t.name, t.rows, len(t.columns), len(t.segments), bytes_, t.state


def _columns(catalog: Catalog, ledger: Ledger, due: Due) -> Rows:
    for table in catalog.tables.values():
        for position, c in enumerate(table.columns, 1):
            yield table.name, c.name, position, c.type, c.nullable, c.default


def _snapshots(catalog: Catalog, ledger: Ledger, due: Due) -> Rows:
    named: dict[int, list[str]] = {}
    for tag in tags(ledger):
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


def _samplers(catalog: Catalog, ledger: Ledger, due: Due) -> Rows:
    for s in catalog.samplers.values():
        kind = "edge" if s.edges else "vertex"
        yield s.name, s.snapshot, s.batch, s.hops, s.method, s.seeds, kind, moment(s.created), s.text, s.author


def _errors(catalog: Catalog, ledger: Ledger, due: Due) -> Rows:
    return [(code.code, code.kind, code.meaning, code.remedy) for code in CODES]


def _tags(catalog: Catalog, ledger: Ledger, due: Due) -> Rows:
    # Others may have committed since the catalog was read: all that a statement reads is of one moment.
    return [(t.name, t.version, moment(t.time)) for t in tags(ledger) if t.version <= catalog.version]


def _versions(catalog: Catalog, ledger: Ledger, due: Due) -> Rows:
    for v in versions(ledger):
        if v.version <= catalog.version:
            yield v.version, moment(v.time), v.message, v.tag, v.author, v.table, v.rows_added, v.rows_removed


FACTS: Mapping[str, Facts] = {
    "tables": Facts("a table", _TABLES, _tables),
    "columns": Facts("a column of a table", _COLUMNS, _columns),
    "graphs": Facts("a property graph", GRAPHS, lambda catalog, ledger, due: graph_rows(catalog)),
    "elements": Facts("a vertex or edge type of a graph", ELEMENTS, lambda catalog, ledger, due: element_rows(catalog)),
    "features": Facts("a feature of an element", FEATURES, lambda catalog, ledger, due: feature_rows(catalog)),
    "snapshots": Facts("a snapshot", _SNAPSHOTS, _snapshots),
    "samplers": Facts("a sampler", _SAMPLERS, _samplers),
    "caches": Facts(
        "a cache of a sampler's rows", CACHES, lambda catalog, ledger, due: cache_rows(catalog, ledger.home)
    ),
    "tasks": Facts("a task", TASKS, task_rows),
    "task_runs": Facts("an attempt of a task's run", TASK_RUNS, lambda catalog, ledger, due: run_rows(ledger)),
    "leader": Facts("the daemon that fires tasks", LEADER, lambda catalog, ledger, due: leader_rows(ledger)),
    "versions": Facts("a version and a table that it changed", _VERSIONS, _versions),
    "loaded_files": Facts(
        "a file that COPY … (NEW FILES ONLY) loaded", LOADED, lambda catalog, ledger, due: loaded_rows(catalog, ledger)
    ),
    "tags": Facts("a name for a version", _TAGS, _tags),
    "errors": Facts("a code of an error", _ERRORS, _errors),
}
"""The tables by name."""
