"""The tree of operators that EXPLAIN shows, with estimates and measured numbers, as text and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from snapdb.execute.operator import ExecutionContext
from snapdb.plan.queries import BoundQuery

WIDTH = 76
"""Columns of the text: with the table around it, a terminal of 80."""
_UNKNOWN: Mapping[str, None] = {"rows": None, "bytes": None, "seconds": None}


@dataclass(slots=True)
class Step:
    """One operator, with those that it takes its rows from."""

    operator: str
    detail: str
    estimates: Mapping[str, int | float]
    """rows, bytes, seconds."""
    children: list[Step] = field(default_factory=list)
    actual: dict[str, Any] = field(default_factory=dict)
    """What it did, by the same names and others; empty: it was not done."""
    key: Any = None
    """What its numbers are found by."""

    def every(self) -> Iterator[Step]:
        """This step and all below it."""
        yield self
        for child in self.children:
            yield from child.every()

    def measured(self, found: Mapping[str, Any]) -> None:
        """Put what happened beside what was expected, with the ratio of the two wherever that is a number."""
        self.actual = dict(found)
        ratio = {
            name: round(found[name] / expected, 3)
            for name, expected in self.estimates.items()
            if name in found and expected
        }
        if ratio:
            self.actual["ratio"] = ratio

    def tree(self, *, numbers: bool = True) -> dict[str, Any]:
        """Plain values for JSON; what is not known is None."""
        told = {"estimates": {**_UNKNOWN, **self.estimates}, "actual": self.actual} if numbers else {}
        children = [child.tree(numbers=numbers) for child in self.children]
        return {"operator": self.operator, "detail": self.detail, **told, "children": children}

    def lines(self, depth: int = 0) -> list[str]:
        """The tree as text that fits a terminal: each operator, under it what was expected and what happened.

        >>> scan = Step("Scan", "of t", {"rows": 1200})
        >>> scan.measured({"rows": 1500})
        >>> for line in Step("Limit", "to 9", {"rows": 9}, [scan]).lines():
        ...     print(line)
        Limit to 9
          expected rows 9
          └ Scan of t
              expected rows 1,200
              actual rows 1,500 (1.25 of expected)
        """
        mark = "  " * depth + ("└ " if depth else "")
        under = " " * len(mark) + "  "
        said = f"{self.operator} {self.detail}".rstrip()
        own = textwrap.wrap(said, WIDTH, initial_indent=mark, subsequent_indent=under)
        for when, numbers in (("expected", self.estimates), ("actual", self.actual)):
            if numbers:
                text = f"{when} {_numbers(numbers)}"
                own += textwrap.wrap(text, WIDTH, initial_indent=under, subsequent_indent=under + "  ")
        return [*own, *(below for child in self.children for below in child.lines(depth + 1))]


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


# The plan of DuckDB for a query, in operators of ours


_OUTER = ("RESULT_COLLECTOR", "EXPLAIN_ANALYZE")
"""What ANALYZE itself adds."""
_ESTIMATE = "Estimated Cardinality"
_BITMAP = "get_bit('"
"""In the condition that leaves deleted rows out, a bit for each row: nothing to show."""
_LIVE = "the row is not deleted"


def explain_query(context: ExecutionContext, asked: BoundQuery, *, analyze: bool) -> list[Step]:
    """The operators of a query, a tree for each; `analyze` runs it. None where DuckDB tells nothing."""
    said = "EXPLAIN (ANALYZE, FORMAT json) " if analyze else "EXPLAIN (FORMAT json) "
    with context.bind_context.session(asked) as session, context.watching(session, "running the query"):
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
