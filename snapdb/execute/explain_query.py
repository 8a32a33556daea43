"""DuckDB's own plan of a query, as our operators: estimates, and after ANALYZE what it did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from snapdb.execute.explain_tree import Step
from snapdb.execute.operator import Engine
from snapdb.plan.asked import Asked

_OUTER = ("RESULT_COLLECTOR", "EXPLAIN_ANALYZE")
"""What ANALYZE itself adds."""
_ESTIMATE = "Estimated Cardinality"
_BITMAP = "get_bit('"
"""In the condition that leaves deleted rows out, a bit for each row: nothing to show."""
_LIVE = "the row is not deleted"


def explain_query(engine: Engine, asked: Asked, *, analyze: bool) -> list[Step]:
    """The operators of a query, a tree for each; `analyze` runs it. None where DuckDB tells nothing."""
    said = "EXPLAIN (ANALYZE, FORMAT json) " if analyze else "EXPLAIN (FORMAT json) "
    with engine.context.session(asked) as session, engine.watching(session, "running the query"):
        ((_, text),) = session.wrap(said, asked.text, "", asked.parameters)
    found = json.loads(text)
    if isinstance(found, dict):
        found = found.get("operator", [])
    return [_step(node, analyze) for node in _inner(found)]


def _inner(nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        if _name(node) in _OUTER:
            yield from _inner(node["children"])
        else:
            yield node


def _step(node: Mapping[str, Any], analyze: bool) -> Step:
    facts = dict(node.get("extra_info") or {})
    expected = str(facts.pop(_ESTIMATE, ""))
    estimates = {"rows": int(expected)} if expected.isdecimal() else {}
    step = Step(_name(node), _detail(facts), estimates, [_step(child, analyze) for child in node.get("children", [])])
    if analyze:
        seconds = round(float(node.get("timing", 0.0)), 6)
        step.measured(
            {
                "rows": int(node.get("intermediate_rows", 0)),
                "bytes": int(node.get("intermediate_size_bytes", 0)),
                "seconds": seconds,
            }
        )
    return step


def _name(node: Mapping[str, Any]) -> str:
    return str(node.get("name") or node.get("type") or "").strip()


def _detail(facts: Mapping[str, Any]) -> str:
    """What DuckDB says of an operator, on one line."""
    said = ((name, ", ".join(map(str, value)) if isinstance(value, list) else value) for name, value in facts.items())
    return "; ".join(f"{name}: {_LIVE if _BITMAP in str(value) else value}" for name, value in said if value)
