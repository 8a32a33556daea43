"""EXPLAIN results, for tests of several layers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from snapdb import Database
from tests.support.inside import engine_of
from tests.support.inside.execute import ExecutionContext
from tests.support.inside.execute import run as run_plan


def planned(db: Database, plan_of: Callable[[ExecutionContext], Any]) -> Callable[[], list[tuple[Any, ...]]]:
    """Bind a statement now and return a function that runs it later."""
    engine = engine_of(db)
    plan = plan_of(engine)

    def run() -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for batch in run_plan(plan, engine) for row in batch.to_pylist()]

    return run


def explained(db: Database, statement: str, *, analyze: bool = True) -> dict[str, Any]:
    (text,) = db.execute(f"EXPLAIN {'ANALYZE ' if analyze else ''}(FORMAT json) {statement}").fetchone()
    found: dict[str, Any] = json.loads(text)
    assert set(found) == {"statement", "bound", "rules", "plan"}
    plan: dict[str, Any] = found["plan"]
    return plan


def steps(plan: dict[str, Any], operator: str | None = None) -> list[dict[str, Any]]:
    """Return the plan steps with this operator, or all steps, from top to bottom."""
    below = [step for child in plan["children"] for step in steps(child, operator)]
    return ([plan] if operator in (None, plan["operator"]) else []) + below
