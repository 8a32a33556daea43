"""What a person is asked before something goes that does not come back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from snapdb.database import Database
from snapdb.errors import SnapdbError
from snapdb.plan.show import DropPlan
from snapdb.sql.maintenance import ExpireSnapshots, Vacuum
from snapdb.sql.show import Drop
from snapdb.sql.syntax import Statement
from snapdb.types.text import counted

_NAMED = 8
"""So many things are named, the rest counted."""


def question(database: Database, statement: Statement) -> str | None:
    """What to ask before a statement runs; None when it takes nothing away, or will say itself what is wrong."""
    idle = database.transaction_state == "idle"  # where the others are refused anyway
    try:
        match statement:
            case Drop():
                return _drop(database, statement)
            case ExpireSnapshots(dry_run=False) if idle:
                return _expire(database, statement)
            case Vacuum(dry_run=False) if idle:
                return _vacuum(database, statement)
    except SnapdbError:
        pass
    return None


def _drop(database: Database, statement: Drop) -> str | None:
    plan = database.plan(statement)
    if not isinstance(plan, DropPlan):
        return None  # there is nothing of that name
    kind = statement.kind.lower()
    names = sorted(f"{type(d).__name__.removeprefix('Property').lower()} {d.name}" for d in plan.dependants)
    also = f", and with it {_listed(names)}" if names else ""
    return f"drop {kind} {plan.target.name}{also}?"


def _expire(database: Database, statement: ExpireSnapshots) -> str | None:
    rows = _rows(database, replace(statement, dry_run=True))
    names = [str(row["snapshot"]) for row in rows if row["action"] == "expire"]
    return f"expire {counted(len(names), 'snapshot')}: {_listed(names)}?" if names else None


def _vacuum(database: Database, statement: Vacuum) -> str | None:
    rows = [row for row in _rows(database, replace(statement, dry_run=True)) if row["action"] != "keep"]
    size = sum(row["bytes"] or 0 for row in rows)
    return f"merge or remove {counted(len(rows), 'thing')}, {size:,} bytes?" if rows else None


def _rows(database: Database, statement: Statement) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = database.run(statement).arrow().to_pylist()
    return rows


def _listed(names: list[str]) -> str:
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])
