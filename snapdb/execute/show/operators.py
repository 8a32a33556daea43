"""The operators of SHOW, DESCRIBE and DROP: list the system tables, describe one object, or remove it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from snapdb.catalog.state import moment
from snapdb.catalog.system_tables import (
    DEFINED,
    SHOWN_DEFINITIONS,
    SHOWN_RUNS,
    SHOWN_TASKS,
    TaskStatus,
    cache_status,
    listing,
    system_table,
    task_status,
    window_text,
)
from snapdb.errors import moved
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext
from snapdb.execute.tasks.operators import describe_leader
from snapdb.graph.layout import raise_if_snapshot_replaced
from snapdb.plan.caches import room_words, spill_words
from snapdb.plan.samples.bind import BATCH, EPOCHS, LAYOUT, ORDER, REPEATABLE, statement_of
from snapdb.plan.show import KINDS, Dependant, DescribePlan, DropPlan, ShowPlan, kind_of
from snapdb.plan.times import spelled
from snapdb.schedule import firings
from snapdb.sql.lexer import scan
from snapdb.sql.sample_clauses import print_refresh_clause
from snapdb.sql_engine import temporary_name, text_literal
from snapdb.storage.catalog_db.connection import delete_unless_held
from snapdb.storage.catalog_db.task_rows import TaskRows
from snapdb.storage.manifests import read_manifest
from snapdb.storage.tables.commit import Change, DropNames, DropTable, drop_names
from snapdb.storage.tables.definitions import Undefine
from snapdb.types import (
    Cache,
    CacheStats,
    Definition,
    EdgeElement,
    FeatureSpec,
    Properties,
    PropertyGraph,
    Sampler,
    Snapshot,
    Table,
    Tag,
    Task,
    VertexElement,
)
from snapdb.types.text import counted, size_words


class _List(NamedTuple):
    """The system table that a list reads, and the columns for LIKE, OF and the list itself."""

    facts: str
    """The name of the system table."""
    named: str = "name"
    """The column that LIKE matches."""
    of: str | None = None
    """The column that OF matches."""
    columns: tuple[str, ...] | None = None
    """The columns of the list, or None for all of them."""


_LISTS: Mapping[str, _List] = {
    "TABLES": _List("tables"),
    **{f"{kind}S": _List("definitions", of="kind", columns=SHOWN_DEFINITIONS) for kind in DEFINED},
    "COLUMNS": _List("columns", of="table"),
    "GRAPHS": _List("graphs"),
    "SNAPSHOTS": _List("snapshots", of="graph"),
    "SAMPLERS": _List("samplers"),
    "CACHES": _List("caches"),
    "TASKS": _List("tasks", columns=SHOWN_TASKS),
    "TASK RUNS": _List("task_runs", "task", "task", SHOWN_RUNS),
    "PUBLICATIONS": _List("publications", "url"),
    "TAGS": _List("tags"),
    "VERSIONS": _List("versions", "table", "table"),  # versions have no name, so LIKE matches the name of their table
}


def show(plan: ShowPlan, context: ExecutionContext) -> Rows:
    """Run SHOW: return one row per table, graph, snapshot or other object, from the system tables."""
    list_ = _LISTS[plan.what]
    tables = {table.name.lower(): table for table in plan.tables}  # the tables at the version specified by AT
    rows = system_table(
        list_.facts, replace(context.catalog, tables=tables), context.store.catalog_db, context.bind_context.due
    )
    kept = [_like(name, plan.like) for name in rows.column(list_.named).to_pylist()]
    of = plan.what[:-1].lower() if plan.what[:-1] in DEFINED else (plan.of or "").lower()
    if list_.of is not None and of:
        owners = rows.column(list_.of).to_pylist()
        kept = [keep and (owner or "").lower() == of for keep, owner in zip(kept, owners, strict=True)]
    shown = rows if list_.columns is None else rows.select(list_.columns)
    yield shown.filter(pa.array(kept, pa.bool_()))
    return None


def _like(name: str | None, pattern: str | None) -> bool:
    """Return whether a name matches a LIKE pattern, in which % is any text and _ any character. Case is ignored."""
    if pattern is None:
        return True
    expression = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
    return re.fullmatch(expression, name or "", re.IGNORECASE | re.DOTALL) is not None


_TEXT = pa.string()

_DIRECTORIES = {"vertex": (("features", "patch"),), "edge": (("topology", "patch"), ("features", "feature_patch"))}
"""Maps each element kind to the fields that name the element's directories, each with the field of its patch."""


def describe(plan: DescribePlan, context: ExecutionContext) -> Rows:
    """Run DESCRIBE: return the parts of a table, graph, snapshot, sampler, cache or task."""
    match plan.target:
        case Table() as table:
            yield _table(table)
        case PropertyGraph() as graph:
            yield _graph(graph)
            retention = context.catalog.retentions.get(graph.name.lower())
            notes = ["writes are validated"] if graph.validates else []
            notes += [] if retention is None else [f"keeps {retention} of its snapshots"]
            return Outcome("; ".join(notes)) if notes else None
        case Snapshot() as snapshot:
            yield _snapshot(context, snapshot)
        case Sampler() as sampler:
            yield _describe_sampler(sampler)
        case Cache() as cache:
            yield _describe_cache(context, cache)
        case Task() as task:
            yield _describe_task(context, task)
    return None


def _table(table: Table) -> pa.RecordBatch:
    fields = [("column", _TEXT), ("type", _TEXT), ("nullable", pa.bool_()), ("default", _TEXT)]
    rows: list[tuple[object, ...]] = [(c.name, c.type, c.nullable, c.default_text) for c in table.columns]
    if table.constraints:
        fields.append(("constraints", _TEXT))
        texts = [[table.definition_of(k) for k in table.constraints if c.field in k.fields] for c in table.columns]
        rows = [(*row, "; ".join(text) or None) for row, text in zip(rows, texts, strict=True)]
    return listing(fields, rows)


def _graph(graph: PropertyGraph) -> pa.RecordBatch:
    names = (
        "element",
        "kind",
        "table",
        "key",
        "connects",
        "event_time",
        "weight",
        "features",
        "target",
        "labels",
        "properties",
    )
    vertices = [
        (
            v.name,
            "vertex",
            v.table,
            ", ".join(v.key),
            None,
            _event_time(v),
            None,
            _features(v.features),
            _target(v),
            *_labels(v),
        )
        for v in graph.vertices
    ]
    edges = [
        (
            e.name,
            "edge",
            e.table,
            f"{', '.join(e.source_key)} → {', '.join(e.destination_key)}",
            f"{e.source} → {e.destination}",
            _event_time(e),
            e.weight,
            _features(e.features),
            None,
            *_labels(e),
        )
        for e in graph.edges
    ]
    return listing([(name, _TEXT) for name in names], [*vertices, *edges])


def _labels(element: VertexElement | EdgeElement) -> tuple[str, str]:
    """Return the labels of an element, and the properties in the snapshot other than keys and times."""
    labels = ", ".join(element.labels or (element.name,))
    return labels, str(element.properties or Properties(excepted=()))


def _target(vertex: VertexElement) -> str | None:
    """Return the target as declared in the graph, with the declared classes."""
    if vertex.target is None or vertex.classes is None:
        return vertex.target
    return f"{vertex.target} CLASSES ({', '.join(map(text_literal, vertex.classes))})"


def _event_time(element: VertexElement | EdgeElement) -> str | None:
    if element.event_time is None:
        return None
    end = element.event_end if isinstance(element, EdgeElement) else None
    columns = element.event_time if end is None else f"{element.event_time} → {end}"
    return f"{columns}, nulls static" if element.nulls_static else columns


def _features(specs: tuple[FeatureSpec, ...]) -> str | None:
    return "; ".join(map(_feature, specs)) or None


def _feature(spec: FeatureSpec) -> str:
    """Return a feature as declared in the graph. The defaults (float32 and the element's own table) are omitted."""
    parts = [f"{spec.name} = {', '.join(spec.columns)}"]
    if spec.history is not None:
        parts.append(f"from {spec.history.table} ({', '.join(spec.history.key)}; since {spec.history.event_time})")
    if spec.sparse:
        parts.append("sparse" if spec.width is None else f"sparse [{spec.width}]")
    if spec.dtype != "float32":
        parts.append(spec.dtype)
    if spec.stored is not None:
        parts.append(f"stored {spec.stored}")
    return " ".join(parts)


def _snapshot(context: ExecutionContext, snapshot: Snapshot) -> pa.RecordBatch:
    """Return the snapshot as the first row, followed by its elements."""
    what = ("name", "kind", "count", "version", "event_time", "filter")
    how_stored = ("form", "bytes", "reason", "features", "stored")
    numbers = {"count", "version", "bytes"}
    columns = [(name, pa.int64() if name in numbers else _TEXT) for name in (*what, *how_stored)]
    with raise_if_snapshot_replaced(context.store.catalog_db, snapshot):
        layout = read_manifest(context.store.db_dir.inside(snapshot.path))["layout"]
    head = (snapshot.name, f"snapshot of {snapshot.graph.name}", snapshot.nodes, snapshot.version)
    stored = (snapshot.form, snapshot.bytes, None, None, None)
    rows: list[tuple[Any, ...]] = [(*head, window_text(snapshot), None, *stored)]
    specs = {element.name: element.features for element in snapshot.graph.elements}
    for kind, elements, count in (("vertex", layout["vertices"], "nodes"), ("edge", layout["edges"], "edges")):
        for e in elements:
            layouts = (e.get("form"), e.get("bytes"), e.get("reason") or None)
            how = (*layouts, _features(specs.get(e["name"], ())), _stored(kind, e))
            rows.append((e["name"], kind, e[count], None, None, _filter(snapshot, e["name"]), *how))
    return listing(columns, rows)


def _stored(kind: str, layout: Mapping[str, Any]) -> str | None:
    parts = [" + ".join(layout[name] for name in names if layout.get(name)) for names in _DIRECTORIES[kind]]
    return "; ".join([part for part in parts if part] + list(layout.get("history") or ())) or None


def _filter(snapshot: Snapshot, element: str) -> str | None:
    return " AND ".join(f.condition for f in snapshot.filters if f.element == element) or None


_PROPERTIES = (("property", pa.string()), ("value", pa.string()))


def _describe_cache(context: ExecutionContext, cache: Cache) -> pa.RecordBatch:
    """Return one row per property. Properties that streams report are NULL until the first report."""
    catalog = context.catalog
    streams, stats, generations = cache_status(context.store.db_dir, cache)
    sampler = catalog.sampler(cache.sampler)
    having = f"{streams}{'' if cache.features else _elsewhere(generations, sampler.generation)}"
    shown = _cache_stats(stats or CacheStats(), features=cache.features is not None)
    of_streams = [(name, None if stats is None else value) for name, value in shown]
    return listing(_PROPERTIES, [*_cache_properties(cache, sampler), ("streams", having), *of_streams])


def _elsewhere(generations: Sequence[int], now: int) -> str:
    """Return the generation of the rows that the streams report, if it differs from the sampler's."""
    if not generations or generations == (now,):
        return ""
    return f"; the numbers below are of generation {', '.join(map(str, generations))}"


def _cache_properties(cache: Cache, sampler: Sampler) -> Iterator[tuple[str, str | None]]:
    """Yield the properties that the catalog contains."""
    yield "sampler", sampler.name
    yield "snapshot", sampler.snapshot
    yield "what", cache.what
    if cache.features is None:
        refresh = statement_of(sampler).clauses.refresh
        yield "refresh", "FBL" if refresh is None else print_refresh_clause(refresh).removeprefix("REFRESH ")
        yield "generation", str(sampler.generation)
    yield "place", cache.place
    yield "room", room_words(cache)
    if cache.features is not None:
        yield "spill", spill_words(cache.features)
        yield "used", "always" if cache.features.always else "if the features do not fit in memory"
    yield "created", f"{moment(cache.created):%Y-%m-%d %H:%M:%S} by {cache.author}"


def _cache_stats(stats: CacheStats, *, features: bool) -> Iterator[tuple[str, str | None]]:
    """Yield the properties that streams report."""
    yield "bytes", size_words(stats.bytes)
    yield "rows", f"{stats.filled:,} of {stats.rows:,}"
    if not features:
        yield "edges", f"{stats.edges:,}"
    yield "hit_rate", None if stats.hit_rate is None else f"{stats.hit_rate:.1%}"
    if features:
        yield "bytes_read", size_words(stats.bytes_read)
        yield "bytes_saved", size_words(stats.bytes_saved)
    else:
        yield "age", None if stats.age is None else f"{stats.age:.1f} batches"
        yield "bytes_read", f"{size_words(stats.bytes_read)}, {size_words(stats.bytes_filled)} of them to fill it"
        yield "bytes_saved", size_words(stats.bytes_saved)
        unfinished = stats.drawn and not stats.refills
        passes = "an unfinished pass" if unfinished else counted(stats.refills, "pass", "passes")
        yield "drawn", f"{counted(stats.drawn, 'row')} in {passes}"
        yield "batch", None if stats.batch is None else str(stats.batch)
    yield "error", stats.error


_CLAUSE_FIELDS = (("clause", pa.string()), ("value", pa.string()), ("said", pa.bool_()))

_Clauses = dict[str, tuple[str, str | None]]
_CLAUSES: _Clauses = {
    "seeds": ("SEEDS", None),
    "fanouts": ("FANOUT", None),
    "method": ("METHOD", "UNIFORM"),
    "weights": ("WEIGHT BY", None),
    "replace": ("REPLACEMENT", "WITHOUT REPLACEMENT"),
    "temporal": ("TEMPORAL", None),
    "within": ("WITHIN", None),
    "negatives": ("NEGATIVES", None),
    "known": ("EXCLUDE KNOWN", None),
    "exclude": ("EXCLUDE SEEDS", None),
    "subset": ("SUBSET", "100 PERCENT PER EPOCH"),
    "allow_duplicates": ("ALLOW DUPLICATES", "false"),
    "layout": ("LAYOUT", LAYOUT),
    "reuse_hops": ("REUSE HOPS", "false"),
    "order": ("ORDER", ORDER),
    "batch": ("BATCH", str(BATCH)),
    "repeatable": ("REPEATABLE", f"({REPEATABLE})"),
    "epochs": ("EPOCHS", str(EPOCHS)),
    "refresh": ("REFRESH", "FBL"),
    "device": ("ON", "'cpu'"),
    "backend": ("WITH", "numba on a CPU, torch on a GPU"),
    "memory": ("WITH (memory)", None),
    "ids": ("WITH (ids)", "int64"),
}
"""Maps each field of `Clauses` to the clause's name and its default, or None if it has no default."""
_NOT_OF_WALKS = ("fanouts", "method", "replace", "negatives", "known", "exclude", "layout", "reuse_hops", "refresh")
_WALK_CLAUSES: _Clauses = {
    "seeds": _CLAUSES["seeds"],
    "walk.length": ("LENGTH", None),
    "walk.per_seed": ("PER SEED", "1"),
    "walk.along": ("ALONG", None),
    "walk.direction": ("DIRECTION", None),
    "walk.back": ("RETURN", "1"),
    "walk.inout": ("INOUT", "1"),
    "walk.restart": ("RESTART", "0"),
    "walk.clock": ("TIME RESPECTING", "false"),
    "walk.window": ("WINDOW", None),
    "walk.contrasts": ("NEGATIVES", None),
    **{name: clause for name, clause in _CLAUSES.items() if name not in ("seeds", "ids", *_NOT_OF_WALKS)},
}
"""The same for a sampler of random walks. The fields of `WalkClauses` have the prefix `walk.`."""


def _describe_sampler(sampler: Sampler) -> pa.RecordBatch:
    """Return one row per clause, with its name, its value or default, and whether the sampler sets it."""
    return listing(_CLAUSE_FIELDS, list(_clause_rows(sampler)))


def _clause_rows(sampler: Sampler) -> Iterator[tuple[str, str | None, bool]]:
    clauses = statement_of(sampler).clauses
    spans = clauses.spans
    yield "FROM", sampler.snapshot, True
    for field, (clause, default) in (_CLAUSES if clauses.walk is None else _WALK_CLAUSES).items():
        if (span := spans.get(field)) is not None:
            yield clause, _clause_value(field, clause, sampler.text[span.start : span.stop]), True
        else:
            yield clause, "EXCLUDE SEEDS" if field == "exclude" and sampler.edges else default, False


def _clause_value(field: str, clause: str, text: str) -> str:
    """Return the text of a clause after its name, or the whole text if it does not begin with the name.

    >>> _clause_value("batch", "BATCH", "BATCH 512"), _clause_value("replace", "REPLACEMENT", "WITH REPLACEMENT")
    ('512', 'WITH REPLACEMENT')
    """
    words, tokens = clause.split(), scan(text)
    if field == "exclude" or [token.word for token in tokens[: len(words)]] != words:
        return text
    if len(tokens) > len(words):
        return text[tokens[len(words)].span.start :]
    return "EVER" if clause == "EXCLUDE KNOWN" else "true"


_NEXT = 3
"""The number of future scheduled runs that are listed."""


def _describe_task(context: ExecutionContext, task: Task) -> pa.RecordBatch:
    """Return one row per property. A value is NULL if it is not set, or if the event has not happened yet."""
    seen = task_status(context.catalog, context.store.catalog_db, context.bind_context.due)[task.id]
    daemon = ("daemon", describe_leader(context.store.catalog_db))
    return listing(_PROPERTIES, [*_task_properties(task), *_task_state(task, seen), daemon])


def _task_properties(task: Task) -> Iterator[tuple[str, str | None]]:
    """Yield the properties that the CREATE or ALTER statement sets."""
    yield "schedule", task.schedule.text
    yield "zone", task.schedule.zone
    yield "when", task.condition
    yield "timeout", None if task.timeout is None else str(timedelta(microseconds=task.timeout))
    yield "retries", str(task.retries)
    yield "overlap", task.overlap
    yield "catch_up", task.catch_up
    yield "notify", task.notify
    yield "folder", task.folder
    yield "statements", task.body
    yield "created", f"{moment(task.created):%Y-%m-%d %H:%M:%S}+00:00 by {task.author}"


def _task_state(task: Task, seen: TaskStatus) -> Iterator[tuple[str, str | None]]:
    """Yield the state of the task, and its last and next runs."""
    yield "state", f"{seen.state}, and suspended" if task.suspended and seen.state == "running" else seen.state
    coming = [] if seen.next is None else list(islice(firings(task.schedule, seen.next - 1), _NEXT))
    yield "next_runs", ", ".join(map(spelled, coming)) or None
    yield "runs", f"{seen.runs:,}"
    last = None if seen.last is None else f"{seen.last_state}, {spelled(seen.last)}"
    again = "" if seen.retry is None else f"; next attempt at {spelled(seen.retry)}"
    yield "last_run", None if last is None else f"{last}{again}"
    yield "last_error", seen.last_error


def drop(plan: DropPlan, context: ExecutionContext) -> Rows:
    """Run DROP: remove an object and its dependent objects. Dropping a table creates a new version."""
    yield from ()
    match plan.target:
        case Table() | Definition() as table:
            return _drop_versioned(context, table, plan)
        case PropertyGraph() | Snapshot() | Sampler() | Cache() as target:
            return _drop_names(context, target, plan)
        case Task() as task:
            return _drop_task(context, task)
        case Tag() as tag:
            return _drop_tag(context, tag)


def _drop_versioned(context: ExecutionContext, target: Table | Definition, plan: DropPlan) -> Outcome:
    """Drop a table or definition, which earlier versions still contain."""
    did = f"{kind_of(target)} {target.name} dropped{_with(plan)}"
    if isinstance(target, Definition) and target.temporary:
        if target.kind == "table":
            with context.store.sql_engine.session() as session:
                session.rows(f"DROP TABLE {temporary_name(target.name)}")
        del context.objects.definitions[target.key]
        return Outcome(did)
    names = _names(plan.dependants)
    changes: list[Change] = [names] if any(names) else []
    for each in (*plan.dependants, target, plan.rows):
        if isinstance(each, Table):
            changes.append(DropTable(each.id, plan.base))
        elif isinstance(each, Definition):
            changes.append(Undefine(each))
    outcome = context.publish(changes, None, did, 0)
    _remove(context, names)
    return outcome


def _drop_names(
    context: ExecutionContext, target: PropertyGraph | Snapshot | Sampler | Cache, plan: DropPlan
) -> Outcome:
    names = _names((*plan.dependants, target))
    with context.store.catalog_db.writing(publishes=True) as connection:
        drop_names(connection, names)
    _remove(context, names)
    return Outcome(f"{KINDS[type(target)]} {target.name} dropped{_with(plan)}")


def _drop_task(context: ExecutionContext, task: Task) -> Outcome:
    with context.store.catalog_db.writing(publishes=True) as connection:
        TaskRows(connection).drop(task)
    return Outcome(f"task {task.name} dropped; its run history is kept")


def _drop_tag(context: ExecutionContext, tag: Tag) -> Outcome:
    with context.store.catalog_db.writing(publishes=True) as connection:
        row = (tag.name.lower(), tag.version)
        if not connection.execute("DELETE FROM tags WHERE folded = ? AND version = ?", row).rowcount:
            raise moved(f"tag {tag.name} was replaced or dropped concurrently", code="tag-moved")
    return Outcome(f"tag {tag.name} dropped; version {tag.version} is kept")


def _names(things: Sequence[Dependant]) -> DropNames:
    graphs = tuple(thing.name for thing in things if isinstance(thing, PropertyGraph))
    snapshots = tuple(thing for thing in things if isinstance(thing, Snapshot))
    samplers = tuple(thing for thing in things if isinstance(thing, Sampler))
    return DropNames(graphs, snapshots, samplers, tuple(thing for thing in things if isinstance(thing, Cache)))


def _with(plan: DropPlan) -> str:
    """Return the dependent objects that are also dropped, for a message."""
    named = [f"{kind_of(d)} {d.name}" for d in plan.dependants]
    return f", with {', '.join(named)}" if named else ""


def _remove(context: ExecutionContext, names: DropNames) -> None:
    """Remove files that the catalog no longer names, unless a process is reading them, and free cache memory."""
    for snapshot in names.snapshots:
        delete_unless_held(context.store.db_dir, snapshot.path)
    for cache in names.caches:
        context.caches.drop(cache)
