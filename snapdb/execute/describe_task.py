"""DESCRIBE TASK: what runs when, how it fared, and who fires it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice

import pyarrow as pa

from snapdb.catalog.listing import listing
from snapdb.catalog.task_tables import Look, look
from snapdb.catalog.windows import moment
from snapdb.execute.operator import Engine
from snapdb.execute.tasks.leader import leads
from snapdb.plan.times import spelled
from snapdb.schedule import firings
from snapdb.types import Task

_FIELDS = (("property", pa.string()), ("value", pa.string()))
_NEXT = 3
"""So many firings are foretold."""


def describe_task(engine: Engine, task: Task) -> pa.RecordBatch:
    """A row a property; what is not said or did not happen is NULL."""
    seen = look(engine.context.catalog, engine.ledger, engine.context.due)[task.id]
    return listing(_FIELDS, [*_defined(task), *_fared(task, seen), ("daemon", leads(engine.home, engine.ledger))])


def _defined(task: Task) -> Iterator[tuple[str, str | None]]:
    """What the statement says."""
    yield "schedule", task.schedule.text
    yield "zone", task.schedule.zone
    yield "when", task.condition
    yield "timeout", None if task.timeout is None else str(timedelta(microseconds=task.timeout))
    yield "retries", str(task.retries)
    yield "overlap", task.overlap
    yield "catch_up", task.catch_up
    yield "folder", task.folder
    yield "statements", task.body
    yield "created", f"{moment(task.created):%Y-%m-%d %H:%M:%S}+00:00 by {task.author}"


def _fared(task: Task, seen: Look) -> Iterator[tuple[str, str | None]]:
    """What became of it, and what is to come."""
    yield "state", f"{seen.state}, and suspended" if task.suspended and seen.state == "running" else seen.state
    coming = [] if seen.next is None else list(islice(firings(task.schedule, seen.next - 1), _NEXT))
    yield "next_runs", ", ".join(map(spelled, coming)) or None
    yield "runs", f"{seen.runs:,}"
    last = None if seen.last is None else f"{seen.last_state}, {spelled(seen.last)}"
    again = "" if seen.retry is None else f"; tried again at {spelled(seen.retry)}"
    yield "last_run", None if last is None else f"{last}{again}"
    yield "last_error", seen.last_error
