"""The system tables that SHOW and queries of `snapdb.<table>` read, and the text of the values in their rows."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from snapdb.catalog.state import Catalog, VersionHistory, moment
from snapdb.error_codes import load_codes
from snapdb.storage.cache_reports import CacheReport, CacheReports
from snapdb.storage.catalog_db.alert_rows import AlertRows
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.catalog_db.task_rows import LeaderLease, RunRows, TaskRows
from snapdb.storage.publication_records import PublicationRecords
from snapdb.storage.tables.commit import now
from snapdb.types import Cache, CacheStats, EdgeElement, Properties, Schedule, Snapshot, Table, TimeUnit, VertexElement

MOMENT = pa.timestamp("us", tz="UTC")

_Fields = Sequence[tuple[str, pa.DataType]]
"""The names and types of columns."""

_LITERAL = re.compile(r"\s*(INTERVAL\s*('[^']*'|-?\s*[\d.]+|\([^()]*\))\s*\w*|-?\s*\w+)\s*", re.IGNORECASE)
"""A window length that is a literal rather than an expression."""

_TYPES = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMPTZ": MOMENT,
    "VARCHAR[]": pa.list_(pa.string()),
    "BIGINT[]": pa.list_(pa.int64()),
}


def fields(columns: str) -> _Fields:
    """Parse column names and types, written as in CREATE TABLE.

    >>> fields("name VARCHAR, rows BIGINT")
    [('name', DataType(string)), ('rows', DataType(int64))]
    """
    return [(name, _TYPES[type_]) for name, type_ in (column.split() for column in columns.split(","))]


def listing(fields: _Fields, rows: Iterable[Sequence[object]]) -> pa.RecordBatch:
    """Return a batch with these columns and rows.

    >>> listing([("name", pa.string())], [["a"], ["b"]]).to_pydict()
    {'name': ['a', 'b']}
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(list(values), type_) for values, (_, type_) in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(fields)))


def time_text(time: int | None, unit: TimeUnit | None) -> str | None:
    """Return an event time as text (ISO 8601 in UTC, or the user's integer). Returns None for None.

    >>> time_text(1_500_000, "timestamp"), time_text(-7, "integer")
    ('1970-01-01 00:00:01.500000', '-7')
    """
    if time is None or unit == "integer":
        return None if time is None else str(time)
    try:
        return moment(time).replace(tzinfo=None).isoformat(sep=" ")
    except OverflowError:  # the year is outside the range of Python's calendar
        return f"{time} us since 1970"


def _bounds_text(snapshot: Snapshot) -> tuple[str | None, str | None]:
    """Return the first and last time of a snapshot's window, as specified in the statement."""
    window = snapshot.window
    stop = window.stop - 1 if window.stop is not None and window.closed else window.stop
    return time_text(window.start, snapshot.unit), time_text(stop, snapshot.unit)


def window_text(snapshot: Snapshot) -> str:
    """Return a snapshot's window as specified in the statement, with the current bounds of a relative window."""
    prefix = f"WINDOW {_length(snapshot.pin.window)}: " if snapshot.pin.window is not None else ""
    return prefix + _window_now(snapshot)


def _tracks_text(snapshot: Snapshot) -> str | None:
    """Return the bounds that REFRESH resolves again (head, tag, relative window), or None for a pinned snapshot."""
    pin = snapshot.pin
    parts = ["head"] if pin.head else []
    parts += [f"tag {pin.tag}"] if pin.tag is not None else []
    parts += [f"window {_length(pin.window)}"] if pin.window is not None else []
    return " + ".join(parts) or None


def _age_text(microseconds: int) -> str:
    """Return a duration as text.

    >>> _age_text(0), _age_text(86_400_000_000 * 3 + 7_500_000_000)
    ('00:00', '3 days 02:05')
    """
    minutes = max(microseconds, 0) // 60_000_000
    days, minutes = divmod(minutes, 1440)
    clock = f"{minutes // 60:02}:{minutes % 60:02}"
    return f"{days} day{'' if days == 1 else 's'} {clock}" if days else clock


def _window_now(snapshot: Snapshot) -> str:
    start, stop = _bounds_text(snapshot)
    if stop is None:
        return "all time"
    if start is None:
        return f"AS OF {stop}"
    return f"BETWEEN {start} AND {stop}" if snapshot.window.closed else f"FROM {start} TO {stop}"


def _length(window: str | None) -> str:
    """Return a window's length without SQL syntax.

    >>> _length("INTERVAL '7 days'"), _length("interval (36) HOUR"), _length("400"), _length("2 * (3 + 4)")
    ('7 days', '36 hour', '400', '2 * (3 + 4)')
    """
    if window is not None and not _LITERAL.fullmatch(window):
        return " ".join(window.split())  # an expression, in which parentheses are significant
    return " ".join(re.sub(r"(?i)\binterval\b|['()]", " ", window or "").split()).lower()


SCHEMA = "snapdb"
"""The schema name of the system tables in queries."""

Due = Callable[[Schedule, int], int | None]
"""A function that returns when a schedule starts its next run after a time. It is a parameter, because schedules are in
a layer above the catalog."""

_Rows = Iterable[Sequence[Any]]


class _SystemTable(NamedTuple):
    """The columns of a system table, and the function that builds its rows."""

    fields: _Fields
    rows: Callable[[Catalog, CatalogDb, Due], _Rows]


def system_table(name: str, catalog: Catalog, catalog_db: CatalogDb, due: Due) -> pa.RecordBatch:
    """Return the system table with this name, including the uncommitted changes in the catalog."""
    table = SYSTEM_TABLES[name]
    return listing(table.fields, table.rows(catalog, catalog_db, due))


_TABLES = fields("name VARCHAR, rows BIGINT, columns BIGINT, segments BIGINT, bytes BIGINT, version BIGINT")
_COLUMNS = fields("table VARCHAR, name VARCHAR, position BIGINT, type VARCHAR, nullable BOOLEAN, default_value VARCHAR")


def _tables(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    for t in _shown_tables(catalog):
        bytes_ = sum(s.bytes for s in (*t.segments, *t.deletes))
        yield t.name, t.rows, len(t.columns), len(t.segments), bytes_, t.state
    for one in catalog.definitions.values():
        if one.kind == "table":
            yield one.name, None, len(one.columns), None, None, None


def _columns(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    for table in _shown_tables(catalog):
        for position, c in enumerate(table.columns, 1):
            yield table.name, c.name, position, c.type, c.nullable, c.default_text
    for one in catalog.definitions.values():
        for position, c in enumerate(one.columns, 1):
            yield one.name, c.name, position, c.type, True, None


def _shown_tables(catalog: Catalog) -> Iterator[Table]:
    """Yield the tables other than those that contain the rows of views for graphs."""
    yield from (t for folded, t in catalog.tables.items() if ("view", folded) not in catalog.definitions)


DEFINED = ("VIEW", "MACRO", "TYPE", "SEQUENCE", "SCHEMA")
"""The kinds of definitions that SHOW lists."""
_SHOWN_DEFINITIONS = "name VARCHAR, definition VARCHAR, version BIGINT"
_DEFINITIONS = fields(f"kind VARCHAR, {_SHOWN_DEFINITIONS}")
SHOWN_DEFINITIONS = tuple(name for name, _ in fields(_SHOWN_DEFINITIONS))
"""The columns that SHOW VIEWS and the like list."""


def _definitions(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    """Yield the views, macros, types, sequences and schemas. Temporary ones have no version."""
    for one in sorted(catalog.definitions.values(), key=lambda one: one.key):
        if one.kind == "table":
            continue
        yield one.kind, one.name, one.body or None, None if one.temporary else one.since or None


_CONSTRAINTS = fields(
    "table VARCHAR, name VARCHAR, kind VARCHAR, columns VARCHAR[], references VARCHAR, enforced BOOLEAN, "
    "definition VARCHAR"
)


def _constraints(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    for t in catalog.tables.values():
        for c in t.constraints:
            yield t.name, c.name, c.kind, list(t.names_of(c)), c.table, c.enforced, t.definition_of(c)


_GRAPHS = fields("name VARCHAR, vertex_types VARCHAR[], edge_types VARCHAR[], retention VARCHAR")
_ELEMENTS = fields("""
    graph VARCHAR, element VARCHAR, kind VARCHAR, table VARCHAR, key VARCHAR[], source VARCHAR, source_key VARCHAR[],
    destination VARCHAR, destination_key VARCHAR[], event_time VARCHAR, event_end VARCHAR, weight VARCHAR,
    target VARCHAR, classes VARCHAR[], features VARCHAR[], labels VARCHAR[], properties VARCHAR
""")
_FEATURES = fields("""
    graph VARCHAR, element VARCHAR, kind VARCHAR, feature VARCHAR, columns VARCHAR[], type VARCHAR, sparse BOOLEAN,
    width BIGINT, default_value DOUBLE, history VARCHAR, history_key VARCHAR[], history_time VARCHAR
""")


def _graphs(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    for g in catalog.graphs.values():
        retention = catalog.retentions.get(g.name.lower())
        types = [v.name for v in g.vertices], [e.name for e in g.edges]
        yield g.name, *types, None if retention is None else str(retention)


def _elements(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    for graph in catalog.graphs.values():
        for element in graph.elements:
            features, labels = [spec.name for spec in element.features], element.labels or (element.name,)
            shown = str(element.properties or Properties(excepted=()))
            yield graph.name, element.name, *_element(element), features, labels, shown


def _element(element: VertexElement | EdgeElement) -> Sequence[Any]:
    match element:
        case VertexElement() as v:
            ends = (None, None, None, None)
            return ("vertex", v.table, v.key, *ends, v.event_time, None, None, v.target, v.classes)
        case EdgeElement() as e:
            ends_ = (e.source, e.source_key, e.destination, e.destination_key)
            return ("edge", e.table, None, *ends_, e.event_time, e.event_end, e.weight, None, None)


def _features(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    for graph in catalog.graphs.values():
        for element in graph.elements:
            kind = "vertex" if isinstance(element, VertexElement) else "edge"
            for s in element.features:
                h = s.history
                history = (None, None, None) if h is None else (h.table, h.key, h.event_time)
                own = (s.name, s.columns, s.dtype, s.sparse, s.width, s.default)
                yield graph.name, element.name, kind, *own, *history


_SNAPSHOTS = fields("""
    name VARCHAR, graph VARCHAR, version BIGINT, from_time VARCHAR, to_time VARCHAR, nodes BIGINT, edges BIGINT,
    age VARCHAR, tracks VARCHAR, tag VARCHAR, bytes BIGINT, form VARCHAR, created TIMESTAMPTZ, refreshed TIMESTAMPTZ
""")
_SAMPLERS = fields("""
    name VARCHAR, snapshot VARCHAR, batch BIGINT, hops BIGINT, method VARCHAR, seeds VARCHAR, kind VARCHAR,
    created TIMESTAMPTZ, statement VARCHAR, author VARCHAR
""")


def _snapshots(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    by_version: dict[int, list[str]] = {}
    for tag in VersionHistory(catalog_db).tags():
        by_version.setdefault(tag.version, []).append(tag.name)
    today = now()
    for s in catalog.snapshots.values():
        own = (s.name, s.graph.name, s.version, *_bounds_text(s), s.nodes, s.edges)
        tagged = ", ".join(by_version.get(s.version, ())) or None
        state = (_age_text(today - s.built_at), _tracks_text(s), tagged)
        yield *own, *state, s.bytes, s.form, moment(s.created), _moment(s.refreshed)


def _samplers(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    for s in catalog.samplers.values():
        kind = "edge" if s.edges else "vertex"
        yield s.name, s.snapshot, s.batch, s.hops, s.method, s.seeds, kind, moment(s.created), s.text, s.author


_CACHES = fields("""
    name VARCHAR, sampler VARCHAR, what VARCHAR, place VARCHAR, room BIGINT, spill VARCHAR,
    bytes BIGINT, rows BIGINT, hit_rate DOUBLE, age DOUBLE,
    bytes_read BIGINT, bytes_saved BIGINT, generation BIGINT, streams BIGINT, created TIMESTAMPTZ
""")
_SUMMED = (
    *("bytes", "rows", "filled", "edges", "hits", "misses"),
    *("bytes_read", "bytes_filled", "bytes_saved", "refills", "drawn"),
)
"""The counts of `CacheStats` that are summed over the streams of a cache."""


class _CacheStatus(NamedTuple):
    """The status of a cache, without its definition."""

    streams: int
    """The number of streams that have the cache open."""
    stats: CacheStats | None
    """The sums over the open streams, or over all streams with a report if none is open. None if there are no
    reports."""
    generations: tuple[int, ...]
    """The generations of the rows in these streams, in ascending order."""


def _caches(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    for c in catalog.caches.values():
        streams, s, _ = cache_status(catalog_db.db_dir, c)
        numbers: Sequence[Any] = (None,) * 6
        if s is not None:
            ratios = (_rounded(s.hit_rate, 4), _rounded(s.age, 1))
            numbers = (s.bytes, s.filled, *ratios, s.bytes_read, s.bytes_saved)
        features, generation = c.features, catalog.sampler(c.sampler).generation
        spill = None if features is None or features.spill is None else str(features.spill)
        definition = (c.name, c.sampler, c.what, c.place, c.room, spill)
        yield *definition, *numbers, None if features else generation, streams, moment(c.created)


_PUBLICATIONS = fields("""
    url VARCHAR, generation BIGINT, version BIGINT, published TIMESTAMPTZ, files BIGINT, bytes BIGINT
""")


def _publications(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    for url, p in sorted(PublicationRecords.read(catalog_db.db_dir).by_url.items()):
        yield url, p.generation, p.version, datetime.fromisoformat(p.published), p.files, p.bytes


def cache_status(db_dir: DatabaseDir, cache: Cache) -> _CacheStatus:
    """Return the status of a cache, from the reports of its streams."""
    reports = CacheReports(db_dir).read(cache.id)
    live = [report for report in reports if report.lives]
    latest = live or reports
    return _CacheStatus(len(live), _sum_stats(latest), tuple(sorted({report.generation for report in latest})))


def _rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else round(number, digits)


def _sum_stats(reports: Sequence[CacheReport]) -> CacheStats | None:
    """Combine the statistics of several streams. The age is the average over all rows."""
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


_SHOWN_TASKS = """
    name VARCHAR, state VARCHAR, next_run TIMESTAMPTZ, last_state VARCHAR, last_run TIMESTAMPTZ, schedule VARCHAR,
    runs BIGINT, created TIMESTAMPTZ, notify VARCHAR
"""
_TASKS = fields(f"""
    {_SHOWN_TASKS}, last_error VARCHAR, suspended BOOLEAN, zone VARCHAR, condition VARCHAR, timeout DOUBLE,
    retries BIGINT, overlap VARCHAR, catch_up VARCHAR, folder VARCHAR, body VARCHAR, author VARCHAR
""")
_SHOWN_RUNS = """
    task VARCHAR, run BIGINT, state VARCHAR, scheduled TIMESTAMPTZ, error VARCHAR, rows BIGINT, bytes BIGINT,
    started TIMESTAMPTZ, ended TIMESTAMPTZ, notified VARCHAR
"""
_TASK_RUNS = fields(f"""
    {_SHOWN_RUNS}, attempt BIGINT, cause VARCHAR, version BIGINT, published BIGINT[], retry_at TIMESTAMPTZ,
    seconds DOUBLE, log VARCHAR
""")
_TASK_TOTALS = fields("""
    task VARCHAR, state VARCHAR, runs BIGINT, last_time TIMESTAMPTZ, last_seconds DOUBLE, pending_alerts BIGINT
""")
_LEADER = fields("host VARCHAR, pid BIGINT, since TIMESTAMPTZ, beat BIGINT")
SHOWN_TASKS = tuple(name for name, _ in fields(_SHOWN_TASKS))
"""The columns that SHOW TASKS lists."""
SHOWN_RUNS = tuple(name for name, _ in fields(_SHOWN_RUNS))
"""The columns that SHOW TASK RUNS lists."""

_LAST_RUNS = """
    WITH last AS (SELECT task, max(run) AS run, count(DISTINCT run) AS runs FROM runs GROUP BY task)
    SELECT task, runs.state, scheduled, started, error, retry, last.runs AS runs
    FROM last JOIN runs USING (task, run) ORDER BY attempt
"""
"""Selects the attempts of each task's last run."""


class TaskStatus(NamedTuple):
    """The status of a task, without its definition."""

    state: str
    """'suspended', 'running' or 'active'."""
    next: int | None
    """The time of the next scheduled run, or None if the task is suspended or has no further runs."""
    runs: int
    """The number of recorded runs."""
    last: int | None
    """The start of its last run, or the scheduled time if the run was missed. None if the task has had no run."""
    last_state: str | None
    last_error: str | None
    retry: int | None
    """The time of the next attempt of its last run, or None if there is none."""


def _tasks(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    status = task_status(catalog, catalog_db, due)
    for t in catalog.tasks.values():
        s = status[t.id]
        last = (s.last_state, _moment(s.last), t.schedule.text, s.runs, moment(t.created), t.notify, s.last_error)
        timeout = None if t.timeout is None else t.timeout / 1e6
        policies = (timeout, t.retries, t.overlap, t.catch_up, t.folder, t.body, t.author)
        schedule = (t.suspended, t.schedule.zone, t.condition)
        yield t.name, s.state, _moment(s.next), *last, *schedule, *policies


def task_status(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> dict[int, TaskStatus]:
    """Return the status of every task, by task id.

    Raises:
        CorruptError: A row is not valid.
    """
    with catalog_db.db_dir.raise_if_misread():
        with catalog_db.reading() as connection:
            settled = TaskRows(connection).considered()
            last = {row["task"]: row for row in connection.execute(_LAST_RUNS).fetchall()}
            running = {task for (task,) in connection.execute("SELECT task FROM runs WHERE state = 'running'")}
        today = now()
        status = {}
        for task in catalog.tasks.values():
            state = "running" if task.id in running else "suspended" if task.suspended else "active"
            next_ = None if task.suspended else due(task.schedule, max(today, settled.get(task.id, 0)))
            if (row := last.get(task.id)) is None:
                status[task.id] = TaskStatus(state, next_, 0, None, None, None, None)
            else:
                began = row["scheduled"] if row["started"] is None else row["started"]
                status[task.id] = TaskStatus(state, next_, row["runs"], began, row["state"], row["error"], row["retry"])
        return status


def _task_runs(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    """Yield the runs in start order, including runs of dropped tasks."""
    with catalog_db.db_dir.raise_if_misread(), catalog_db.reading() as connection:
        runs, alerts = list(RunRows(connection).read()), AlertRows(connection).states()
    runs.sort(key=lambda r: (r.scheduled if r.started is None else r.started, r.task, r.run, r.attempt))
    for r in runs:
        alert = alerts.get((r.task, r.run, r.attempt))
        shown = (moment(r.scheduled), r.error, r.rows, r.bytes, _moment(r.started), _moment(r.ended), alert)
        seconds = None if r.started is None or r.ended is None else (r.ended - r.started) / 1e6
        own = (r.attempt, r.cause, r.version, list(r.published), _moment(r.retry), seconds, r.log)
        yield r.name, r.run, r.state, *shown, *own


def _task_totals(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    """Yield the number of runs by task and state, including runs of dropped tasks."""
    with catalog_db.db_dir.raise_if_misread(), catalog_db.reading() as connection:
        totals, pending = RunRows(connection).totals(), AlertRows(connection).pending()
    for t in totals:
        seconds = None if t.started is None or t.ended is None else (t.ended - t.started) / 1e6
        yield t.task, t.state, t.runs, _moment(t.last), seconds, pending.get((t.task, t.state), 0)


def _leader(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    """Yield the leading scheduler, alive or dead. A dead scheduler's heartbeat does not change."""
    if (leader := LeaderLease(catalog_db).read()) is not None:
        yield leader.host, leader.pid, moment(leader.since), leader.beat


def _moment(microseconds: int | None) -> Any:
    return None if microseconds is None else moment(microseconds)


_VERSIONS = fields("""
    version BIGINT, time TIMESTAMPTZ, message VARCHAR, table VARCHAR, rows_added BIGINT, rows_removed BIGINT,
    tag VARCHAR, author VARCHAR
""")
_TAGS = fields("name VARCHAR, version BIGINT, time TIMESTAMPTZ")
_LOADED_FILES = fields(
    "table VARCHAR, path VARCHAR, bytes BIGINT, modified TIMESTAMPTZ, version BIGINT, time TIMESTAMPTZ"
)
_LOADED = "SELECT * FROM loaded JOIN versions USING (version) WHERE version <= ? ORDER BY version, path"
_ERRORS = fields("code VARCHAR, kind VARCHAR, meaning VARCHAR, remedy VARCHAR")


def _versions(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    for v in VersionHistory(catalog_db).versions():
        if v.version <= catalog.version:
            yield v.version, moment(v.time), v.message, v.table, v.rows_added, v.rows_removed, v.tag, v.author


def _tags(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    # Other processes may have committed since the catalog was read, but a statement reads everything at one version.
    return [
        (t.name, t.version, moment(t.time)) for t in VersionHistory(catalog_db).tags() if t.version <= catalog.version
    ]


def _loaded_files(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    """Yield a row for each file loaded into an existing table, ordered by version.

    Uncommitted files have no version.
    """
    names = {table.id: table.name for table in catalog.tables.values()}
    for row in catalog_db.rows(_LOADED, (catalog.version,)):
        if (name := names.get(row["table_id"])) is not None:
            modified = moment(row["modified"] // 1000)
            yield name, row["path"], row["bytes"], modified, row["version"], moment(row["time"])
    for table_id, file in catalog.loading:
        if (name := names.get(table_id)) is not None:
            yield name, file.path, file.bytes, moment(file.modified // 1000), None, None


def _errors(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> _Rows:
    return [(code.code, code.kind, code.meaning, code.remedy) for code in load_codes()]


SYSTEM_TABLES: Mapping[str, _SystemTable] = {
    "tables": _SystemTable(_TABLES, _tables),
    "columns": _SystemTable(_COLUMNS, _columns),
    "constraints": _SystemTable(_CONSTRAINTS, _constraints),
    "definitions": _SystemTable(_DEFINITIONS, _definitions),
    "graphs": _SystemTable(_GRAPHS, _graphs),
    "elements": _SystemTable(_ELEMENTS, _elements),
    "features": _SystemTable(_FEATURES, _features),
    "snapshots": _SystemTable(_SNAPSHOTS, _snapshots),
    "samplers": _SystemTable(_SAMPLERS, _samplers),
    "caches": _SystemTable(_CACHES, _caches),
    "publications": _SystemTable(_PUBLICATIONS, _publications),
    "tasks": _SystemTable(_TASKS, _tasks),
    "task_runs": _SystemTable(_TASK_RUNS, _task_runs),
    "task_totals": _SystemTable(_TASK_TOTALS, _task_totals),
    "leader": _SystemTable(_LEADER, _leader),
    "versions": _SystemTable(_VERSIONS, _versions),
    "loaded_files": _SystemTable(_LOADED_FILES, _loaded_files),
    "tags": _SystemTable(_TAGS, _tags),
    "errors": _SystemTable(_ERRORS, _errors),
}
"""The system tables by name."""
