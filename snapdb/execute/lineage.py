"""What a lineage says of the statement that opened a stream: the tables it read, its parameters, seeds from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snapdb.execute.operator import Engine
from snapdb.execute.plain_parameters import plain
from snapdb.plan.asked import Parameters
from snapdb.plan.samples import SamplePlan
from snapdb.sql.tokens import scan


def sample_lineage(engine: Engine, plan: SamplePlan) -> dict[str, Any]:
    """Where a sampler's seeds come from, as plain values for JSON."""
    version = engine.context.catalog.version
    said = {"seed_query": plan.outside} if plan.outside else {}
    return {
        "tables_version": version,
        "tables_digest": tables_digest(engine, version),
        "given_seeds": plan.outside is not None,
        **said,
        **_parameters(engine.context.parameters, named_parameters(plan.spec.text, plan.outside)),
    }


def tables_digest(engine: Engine, version: int) -> str | None:
    """The hash of a version, which stands for those before it too; None when there is no such version."""
    rows = engine.ledger.rows("SELECT hash FROM versions WHERE version = ?", (version,))
    return rows[0]["hash"] if rows else None


def named_parameters(*texts: str | None) -> set[str]:
    """The parameters in some texts as they are written there: $name, ?, $1."""
    return {token.text for text in texts if text for token in scan(text) if token.kind == "parameter"}


def _parameters(given: Parameters, named: set[str]) -> dict[str, Any]:
    """Those of the values given that are named; nothing where one has no plain form."""
    if given is None or not named:
        return {}
    try:
        if isinstance(given, Mapping):
            return {"parameters": {name: plain(value) for name, value in given.items() if f"${name}" in named}}
        return {"parameters": plain([*given])}
    except TypeError:
        return {}
