"""The metrics of a database as Prometheus text, from its system tables. No table or snapshot file is read."""

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from snapdb.database import Database

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""The content type of the text."""

_SNAPSHOTS = """
    SELECT name, nodes, edges, bytes, epoch(now()) - epoch(coalesce(refreshed, created)) AS age FROM snapdb.snapshots
"""
_CACHES = "SELECT name, bytes, hit_rate FROM snapdb.caches"
_TASKS = "SELECT name, state, last_state, next_run FROM snapdb.tasks"
_TOTALS = """
    SELECT task, state, runs, epoch(last_time) AS last, last_seconds AS seconds, pending_alerts AS pending
    FROM snapdb.task_totals
"""
_VERSION = "SELECT coalesce(max(version), 0) AS version FROM snapdb.versions"

_Samples = Iterable[tuple[tuple[str, ...], float | None]]
"""Label values and a value. Samples without a value are left out."""


def metrics_text(db: Database) -> bytes:
    """Return all metrics of a database in the text format of Prometheus.

    Raises:
        SnapdbError: The database cannot be read.
    """
    return _text([*_tables(db), *_snapshots(db), *_caches(db), *_tasks(db), *_own(db), _up(1)])


def down_text() -> bytes:
    """Return the metrics of a database that cannot be read: snapdb_up is 0, and there are no others."""
    return _text([_up(0)])


class _Collected(Collector):
    """Metrics that were collected before."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def _text(metrics: list[Metric]) -> bytes:
    """Return metrics in a registry of their own, so that those of the process are not among them."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(metrics))
    return generate_latest(registry)


def _up(value: int) -> Metric:
    return _gauge("snapdb_up", "Whether the database could be read.", (), [((), value)])


def _own(db: Database) -> Iterator[Metric]:
    """Yield the metrics of the database as a whole."""
    (row,) = _rows(db, _VERSION)
    yield _gauge("snapdb_version", "The newest version of the database.", (), [((), row["version"])])


def _tables(db: Database) -> Iterator[Metric]:
    """Yield the metrics of tables, and the sizes of tables and snapshots."""
    tables = _rows(db, "SELECT name, rows, bytes FROM snapdb.tables")
    snapshots = _rows(db, "SELECT name, bytes FROM snapdb.snapshots")
    yield _gauge("snapdb_rows", "The number of rows of a table.", ("table",), _each(tables, "rows"))
    sizes = [
        ((kind, row["name"]), row["bytes"])
        for kind, rows in (("table", tables), ("snapshot", snapshots))
        for row in rows
    ]
    yield _gauge("snapdb_bytes", "The size of the files of a table or a snapshot.", ("kind", "name"), sizes)


def _snapshots(db: Database) -> Iterator[Metric]:
    """Yield the metrics of snapshots."""
    rows = _rows(db, _SNAPSHOTS)
    label = ("snapshot",)
    yield _gauge("snapdb_snapshot_nodes", "The number of nodes of a snapshot.", label, _each(rows, "nodes"))
    yield _gauge("snapdb_snapshot_edges", "The number of edges of a snapshot.", label, _each(rows, "edges"))
    help_ = "The time since a snapshot was created or last refreshed."
    yield _gauge("snapdb_snapshot_age_seconds", help_, label, _each(rows, "age"))


def _caches(db: Database) -> Iterator[Metric]:
    """Yield the metrics of caches. A cache that no stream has reported on has only its name."""
    rows = _rows(db, _CACHES)
    help_ = "The share of reads that the rows of a cache served, between 0 and 1."
    yield _gauge("snapdb_cache_hit_ratio", help_, ("cache",), _each(rows, "hit_rate"))
    yield _gauge("snapdb_cache_bytes", "The memory of the rows of a cache.", ("cache",), _each(rows, "bytes"))


def _tasks(db: Database) -> Iterator[Metric]:
    """Yield the metrics of tasks and their runs."""
    tasks, totals = _rows(db, _TASKS), _rows(db, _TOTALS)
    known = {row["name"] for row in tasks}
    runs = [((row["task"], row["state"]), row["runs"]) for row in totals]
    help_ = "The number of task runs that ended in a state: ok, failed, timeout or missed."
    counter = CounterMetricFamily("snapdb_task_runs", help_, labels=("task", "state"))
    for labels, value in runs:
        counter.add_metric(labels, value)
    yield counter
    succeeded = [((row["task"],), row["last"]) for row in totals if row["state"] == "ok"]
    help_ = "The time at which the last successful run of a task ended, in seconds since 1970 UTC."
    yield _gauge("snapdb_task_last_success_timestamp", help_, ("task",), succeeded)
    failed = [((row["task"], row["state"]), row["last"]) for row in totals if row["state"] != "ok"]
    help_ = "The time at which the last run in a state other than ok ended or was due, in seconds since 1970 UTC."
    yield _gauge("snapdb_task_last_failure_timestamp", help_, ("task", "state"), failed)
    last: dict[str, dict[str, Any]] = {}
    for row in totals:
        if row["seconds"] is not None and row["last"] > last.get(row["task"], {"last": -1})["last"]:
            last[row["task"]] = row
    durations = [((name,), row["seconds"]) for name, row in last.items()]
    help_ = "The duration of the last run of a task, without runs that were missed."
    yield _gauge("snapdb_task_last_run_duration_seconds", help_, ("task",), durations)
    running = [((row["name"],), float(row["state"] == "running")) for row in tasks]
    yield _gauge("snapdb_task_running", "Whether a run of a task is in progress.", ("task",), running)
    pending = dict.fromkeys(sorted(known), 0)
    for row in totals:
        pending[row["task"]] = pending.get(row["task"], 0) + row["pending"]
    alerts = [((name,), number) for name, number in pending.items()]
    yield _gauge("snapdb_alerts_pending", "The number of alerts of a task that are not sent yet.", ("task",), alerts)


def _rows(db: Database, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = db.execute(query).arrow().to_pylist()
    return rows


def _each(rows: list[dict[str, Any]], column: str) -> _Samples:
    """Return one sample per row, labelled with its name."""
    return [((row["name"],), row[column]) for row in rows]


def _gauge(name: str, help_: str, labels: tuple[str, ...], samples: _Samples) -> Metric:
    gauge = GaugeMetricFamily(name, help_, labels=labels)
    for values, value in samples:
        if value is not None:
            gauge.add_metric(values, value)
    return gauge
