"""Tasks and their runs, as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from snapdb.catalog.listing import MOMENT
from snapdb.catalog.state import Catalog
from snapdb.catalog.windows import moment
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import raise_if_misread
from snapdb.storage.catalog_db.task_rows import considered, read_leader, read_runs
from snapdb.storage.tables.commit import now
from snapdb.types import Run, Schedule

_TEXT, _COUNT, _NUMBER, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()

_SHOWN_TASKS = (
    ("name", _TEXT),
    ("schedule", _TEXT),
    ("state", _TEXT),
    ("next_run", MOMENT),
    ("last_run", MOMENT),
    ("last_state", _TEXT),
    ("runs", _COUNT),
    ("created", MOMENT),
)
TASKS = (
    *_SHOWN_TASKS,
    ("last_error", _TEXT),
    ("suspended", _FLAG),
    ("zone", _TEXT),
    ("condition", _TEXT),
    ("timeout", _NUMBER),
    ("retries", _COUNT),
    ("overlap", _TEXT),
    ("catch_up", _TEXT),
    ("folder", _TEXT),
    ("body", _TEXT),
    ("author", _TEXT),
)
_SHOWN_RUNS = (
    ("task", _TEXT),
    ("run", _COUNT),
    ("state", _TEXT),
    ("scheduled", MOMENT),
    ("started", MOMENT),
    ("ended", MOMENT),
    ("rows", _COUNT),
    ("bytes", _COUNT),
    ("error", _TEXT),
)
TASK_RUNS = (
    *_SHOWN_RUNS,
    ("attempt", _COUNT),
    ("cause", _TEXT),
    ("version", _COUNT),
    ("published", pa.list_(_COUNT)),
    ("retry_at", MOMENT),
    ("seconds", _NUMBER),
    ("log", _TEXT),
)
LEADER = (("host", _TEXT), ("pid", _COUNT), ("since", MOMENT), ("beat", _COUNT))
SHOWN_TASKS = tuple(name for name, _ in _SHOWN_TASKS)
SHOWN_RUNS = tuple(name for name, _ in _SHOWN_RUNS)
"""The columns that SHOW lists."""

_LAST = """
    WITH last AS (SELECT task, max(run) AS run, count(DISTINCT run) AS runs FROM runs GROUP BY task)
    SELECT task, runs.state, scheduled, started, error, retry, last.runs AS runs
    FROM last JOIN runs USING (task, run) ORDER BY attempt
"""
"""The attempts of the last run of each task."""

Due = Callable[[Schedule, int], int | None]
"""When a schedule fires next after a moment: what knows it stands above the catalog, and is given."""


class Look(NamedTuple):
    """What is to be told of a task beside its definition."""

    state: str
    """'suspended', 'running' or 'active'."""
    next: int | None
    """When it fires next; None: it is suspended, or never fires again."""
    runs: int
    """On record."""
    last: int | None
    """When its last run began or, of one that was missed, was due; None: it had none."""
    last_state: str | None
    last_error: str | None
    retry: int | None
    """When its last run is tried again; None: it is not."""


def task_rows(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> Iterator[Sequence[Any]]:
    """A row a task."""
    seen = look(catalog, catalog_db, due)
    for task in catalog.tasks.values():
        s, schedule = seen[task.id], task.schedule
        last = (_moment(s.last), s.last_state, s.runs, moment(task.created), s.last_error)
        timeout = None if task.timeout is None else task.timeout / 1e6
        policies = (timeout, task.retries, task.overlap, task.catch_up, task.folder, task.body, task.author)
        yield (
            task.name,
            schedule.text,
            s.state,
            _moment(s.next),
            *last,
            task.suspended,
            schedule.zone,
            task.condition,
            *policies,
        )


def look(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> dict[int, Look]:
    """How all tasks fare, by their ids.

    Raises:
        CorruptError: a row cannot be what was written.
    """
    with raise_if_misread(catalog_db.db_dir):
        return _look(catalog, catalog_db, due)


def _look(catalog: Catalog, catalog_db: CatalogDb, due: Due) -> dict[int, Look]:
    with catalog_db.reading() as connection:
        settled = considered(connection)
        last = {row["task"]: row for row in connection.execute(_LAST).fetchall()}
        running = {task for (task,) in connection.execute("SELECT task FROM runs WHERE state = 'running'")}
    today = now()
    found = {}
    for task in catalog.tasks.values():
        after = max(today, settled.get(task.id, 0))
        state = "running" if task.id in running else "suspended" if task.suspended else "active"
        fires = None if task.suspended else due(task.schedule, after)
        if (row := last.get(task.id)) is None:
            found[task.id] = Look(state, fires, 0, None, None, None, None)
        else:
            began = row["scheduled"] if row["started"] is None else row["started"]
            found[task.id] = Look(state, fires, row["runs"], began, row["state"], row["error"], row["retry"])
    return found


def run_rows(catalog_db: CatalogDb) -> Iterator[Sequence[Any]]:
    """A row an attempt of a run, those that began first in front; runs of tasks that were dropped are among them."""
    with raise_if_misread(catalog_db.db_dir), catalog_db.reading() as connection:
        found = sorted(read_runs(connection), key=_began)
    for r in found:
        times = (moment(r.scheduled), _moment(r.started), _moment(r.ended))
        seconds = None if r.started is None or r.ended is None else (r.ended - r.started) / 1e6
        own = (r.attempt, r.cause, r.version, list(r.published), _moment(r.retry), seconds, r.log)
        yield (r.name, r.run, r.state, *times, r.rows, r.bytes, r.error, *own)


def leader_rows(catalog_db: CatalogDb) -> Iterator[Sequence[Any]]:
    """The daemon that leads, dead or alive: a beat that stands still for seconds is of a dead one."""
    if (leader := read_leader(catalog_db)) is not None:
        yield leader.host, leader.pid, moment(leader.since), leader.beat


def _began(run: Run) -> tuple[int, int, int, int]:
    return run.scheduled if run.started is None else run.started, run.task, run.run, run.attempt


def _moment(microseconds: int | None) -> Any:
    return None if microseconds is None else moment(microseconds)
