"""SHOW: what there is, a row each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from snapdb.catalog.system_tables import facts
from snapdb.catalog.task_tables import SHOWN_RUNS, SHOWN_TASKS
from snapdb.execute.operator import Engine, Rows
from snapdb.plan.show import ShowPlan


class _List(NamedTuple):
    """Where in the facts a list comes from."""

    facts: str
    named: str = "name"
    """The column that LIKE looks at."""
    of: str | None = None
    """The column that OF looks at."""
    columns: tuple[str, ...] | None = None
    """Those that are listed; None: all."""


_LISTS: Mapping[str, _List] = {
    "TABLES": _List("tables"),
    "COLUMNS": _List("columns", of="table"),
    "GRAPHS": _List("graphs"),
    "SNAPSHOTS": _List("snapshots", of="graph"),
    "SAMPLERS": _List("samplers"),
    "CACHES": _List("caches"),
    "TASKS": _List("tasks", columns=SHOWN_TASKS),
    "TASK RUNS": _List("task_runs", "task", "task", SHOWN_RUNS),
    "TAGS": _List("tags"),
    "VERSIONS": _List("versions", "table", "table"),  # versions have no name; LIKE looks at their table
}


@dataclass(frozen=True, slots=True)
class Show:
    """Lists one kind of thing."""

    plan: ShowPlan

    def run(self, engine: Engine) -> Rows:
        plan, list_ = self.plan, _LISTS[self.plan.what]
        tables = {table.name.lower(): table for table in plan.tables}  # those of the version that was asked for
        found = facts(list_.facts, replace(engine.context.catalog, tables=tables), engine.ledger, engine.context.due)
        kept = [_like(name, plan.like) for name in found.column(list_.named).to_pylist()]
        if list_.of is not None and plan.of is not None:
            of = plan.of.lower()
            owners = found.column(list_.of).to_pylist()
            kept = [keep and (owner or "").lower() == of for keep, owner in zip(kept, owners, strict=True)]
        shown = found if list_.columns is None else found.select(list_.columns)
        yield shown.filter(pa.array(kept, pa.bool_()))
        return None


def _like(name: str | None, pattern: str | None) -> bool:
    """SQL's LIKE: % is any text, _ any character; case does not count, as in names."""
    if pattern is None:
        return True
    expression = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
    return re.fullmatch(expression, name or "", re.IGNORECASE | re.DOTALL) is not None
