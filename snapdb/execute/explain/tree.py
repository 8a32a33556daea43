"""A tree of plan nodes as text and as JSON, and the nodes of the plan that DuckDB has for a query."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from snapdb.execute.session import ExecutionContext
from snapdb.plan.plan import PlanNode
from snapdb.plan.queries import BoundQuery

WIDTH = 76
"""Columns of the text: with the table around it, a terminal of 80."""
_UNKNOWN: Mapping[str, None] = {"rows": None, "bytes": None, "seconds": None}
_OUTER = ("RESULT_COLLECTOR", "EXPLAIN_ANALYZE")
"""What ANALYZE itself adds."""
_ESTIMATE = "Estimated Cardinality"
_BITMAP = "get_bit('"
"""In the condition that leaves deleted rows out, a bit for each row: nothing to show."""
_LIVE = "the row is not deleted"


def node_json(node: PlanNode, *, numbers: bool = True) -> dict[str, Any]:
    """A node and those below it as plain values for JSON; an unknown number is None."""
    shown = {"estimates": {**_UNKNOWN, **node.estimates}, "actual": node.actual} if numbers else {}
    children = [node_json(child, numbers=numbers) for child in node.children]
    return {"operator": node.operator, "detail": node.detail, **shown, "children": children}


def node_lines(node: PlanNode, depth: int = 0) -> list[str]:
    """A node and those below it as text that fits a terminal: each operator, under it its estimates and measures.

    >>> scan = PlanNode("Scan", "of t", estimates={"rows": 1200})
    >>> scan.measure({"rows": 1500})
    >>> for line in node_lines(PlanNode("Limit", "to 9", (scan,), {"rows": 9})):
    ...     print(line)
    Limit to 9
      expected rows 9
      └ Scan of t
          expected rows 1,200
          actual rows 1,500 (1.25 of expected)
    """
    mark = "  " * depth + ("└ " if depth else "")
    under = " " * len(mark) + "  "
    text = f"{node.operator} {node.detail}".rstrip()
    lines = textwrap.wrap(text, WIDTH, initial_indent=mark, subsequent_indent=under)
    for when, numbers in (("expected", node.estimates), ("actual", node.actual)):
        if numbers:
            text = f"{when} {_numbers(numbers)}"
            lines += textwrap.wrap(text, WIDTH, initial_indent=under, subsequent_indent=under + "  ")
    return [*lines, *(below for child in node.children for below in node_lines(child, depth + 1))]


def wrapped(text: str) -> list[str]:
    """A line of text as lines that fit a terminal."""
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")


def _numbers(numbers: Mapping[str, Any]) -> str:
    """
    >>> _numbers({"rows": 1200, "bytes": 0, "seconds": 0.5, "ratio": {"rows": 1.5}})
    'rows 1,200 (1.5 of expected), bytes 0, seconds 0.5'
    """
    ratio = numbers.get("ratio", {})
    shown = []
    for name, value in numbers.items():
        if name == "ratio":
            continue
        said = f"{name} {_said(value)}"
        shown.append(f"{said} ({ratio[name]} of expected)" if name in ratio else said)
    return ", ".join(shown)


def _said(value: Any) -> str:
    """
    >>> _said(1200), _said(0.000076), _said(1.0)
    ('1,200', '0.000076', '1.0')
    """
    if isinstance(value, float):
        digits = f"{value:,f}".rstrip("0")
        return digits + "0" if digits.endswith(".") else digits
    return f"{value:,}" if isinstance(value, int) else str(value)


def query_nodes(context: ExecutionContext, query: BoundQuery, *, analyze: bool) -> tuple[PlanNode, ...]:
    """The operators of a query in DuckDB, a tree for each; `analyze` runs it. None where DuckDB reports nothing."""
    explain = "EXPLAIN (ANALYZE, FORMAT json) " if analyze else "EXPLAIN (FORMAT json) "
    with context.bind_context.session(query) as session, context.watching(session, "running the query"):
        ((_, text),) = session.wrap(explain, query.text, "", query.parameters)
    nodes = json.loads(text)
    if isinstance(nodes, dict):
        nodes = nodes.get("operator", [])
    return tuple(_query_node(node, analyze) for node in _inner(nodes))


def _inner(nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        if _name(node) in _OUTER:
            yield from _inner(node["children"])
        else:
            yield node


def _query_node(node: Mapping[str, Any], analyze: bool) -> PlanNode:
    info = dict(node.get("extra_info") or {})
    expected = str(info.pop(_ESTIMATE, ""))
    estimates = {"rows": int(expected)} if expected.isdecimal() else {}
    children = tuple(_query_node(child, analyze) for child in node.get("children", []))
    operator = PlanNode(_name(node), _detail(info), children, estimates)
    if analyze:
        operator.measure(
            {
                "rows": int(node.get("intermediate_rows", 0)),
                "bytes": int(node.get("intermediate_size_bytes", 0)),
                "seconds": round(float(node.get("timing", 0.0)), 6),
            }
        )
    return operator


def _name(node: Mapping[str, Any]) -> str:
    return str(node.get("name") or node.get("type") or "").strip()


def _detail(facts: Mapping[str, Any]) -> str:
    """What DuckDB says of an operator, on one line."""
    said = ((name, ", ".join(map(str, value)) if isinstance(value, list) else value) for name, value in facts.items())
    return "; ".join(f"{name}: {_LIVE if _BITMAP in str(value) else value}" for name, value in said if value)
