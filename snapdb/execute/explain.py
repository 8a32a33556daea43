"""EXPLAIN: a plan as a tree of operators with what each is expected to do and, after ANALYZE, with what it did."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from snapdb.execute.create_snapshot import create_snapshot, moved_to
from snapdb.execute.graph_data import graph_data
from snapdb.execute.listing import listing
from snapdb.execute.operator import Engine, Rows
from snapdb.execute.show import window_text
from snapdb.execute.sketch import Sketch, sketched
from snapdb.execute.snapshot_files import Made
from snapdb.plan.logical import CreateSnapshotPlan, ExplainPlan, RefreshPlan

__all__ = ["Explain"]

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Explain:
    """Explains CREATE SNAPSHOT and REFRESH SNAPSHOT."""

    plan: ExplainPlan

    def run(self, engine: Engine) -> Rows:
        inner = self.plan.plan
        assert isinstance(inner, CreateSnapshotPlan | RefreshPlan), "the binder lets no other through"
        create, full = (inner, False) if isinstance(inner, CreateSnapshotPlan) else (inner.create, inner.full)
        with engine.relational.session() as session:
            data = graph_data(engine, session, create.graph, create.tables)
            sketches = sketched(engine, session, create, data, full)
        operator = "CreateSnapshot" if isinstance(inner, CreateSnapshotPlan) else "RefreshSnapshot"
        tree = _root(operator, create, sketches)
        if self.plan.analyze:
            started = time.perf_counter()
            _, made = create_snapshot(engine, create, full=full)
            _fill(tree, made, time.perf_counter() - started)
        lines = _lines(tree)
        if self.plan.json:
            lines = [json.dumps({"statement": self.plan.text, "plan": tree}, indent=2)]
        yield listing([("plan", pa.string())], [(line,) for line in lines])
        return None


def _root(operator: str, plan: CreateSnapshotPlan, sketches: Sequence[Sketch]) -> Tree:
    detail = f"{plan.name} of {plan.graph.name} at version {plan.version}, {window_text(moved_to(plan))}"
    children = [_element(sketch) for sketch in sketches]
    total = {
        "rows": sum(s.rows for s in sketches),
        "bytes": sum(s.bytes + s.topology_bytes for s in sketches),
        "seconds": round(sum(s.seconds for s in sketches), 3),
    }
    return {"operator": operator, "detail": detail, "estimates": total, "actual": {}, "children": children}


def _element(sketch: Sketch) -> Tree:
    seconds = round(sketch.seconds, 3)
    if sketch.kind == "vertex":
        own = {"rows": sketch.rows, "bytes": sketch.bytes, "seconds": seconds}
        return {"operator": "Vertices", "detail": sketch.element, "estimates": own, "actual": {}, "children": []}
    shared = {"rows": sketch.rows, "bytes": sketch.topology_bytes, "seconds": seconds}
    below = {"operator": "Topology", "detail": sketch.topology, "estimates": shared, "actual": {}, "children": []}
    own = {"rows": sketch.rows, "bytes": sketch.bytes, "seconds": seconds}
    detail = f"{sketch.element} as {sketch.form}: {sketch.reason}"
    return {"operator": "Edges", "detail": detail, "estimates": own, "actual": {}, "children": [below]}


def _fill(tree: Tree, made: Made, seconds: float) -> None:
    """Put what happened beside what was expected."""
    counts = [v.nodes for v in made.layout.vertices] + [e.edges for e in made.layout.edges]
    own = sum(e.bytes for e in made.layout.edges) + sum(v.count for v in made.layout.vertices if v.nodes < v.count)
    tree["actual"] = {"rows": sum(counts), "bytes": own + sum(made.shared.values()), "seconds": round(seconds, 3)}
    edges = {e.name: e for e in made.layout.edges}
    for child, rows in zip(tree["children"], counts, strict=True):
        child["actual"] = {"rows": rows}
        name = child["detail"].partition(" as ")[0]
        if child["operator"] == "Edges":
            layout = edges[name]
            child["actual"] |= {"bytes": layout.bytes, "form": layout.form}
            child["children"][0]["actual"] = {"bytes": made.shared[name], "work": made.works[name]}


def _lines(tree: Tree, depth: int = 0) -> list[str]:
    """The tree as text, a node a line."""
    mark = "  " * depth + ("" if depth == 0 else "└ ")
    line = f"{mark}{tree['operator']} {tree['detail']}  ({_numbers(tree['estimates'])})"
    if tree["actual"]:
        line += f"  actual: {_numbers(tree['actual'])}"
    return [line, *(below for child in tree["children"] for below in _lines(child, depth + 1))]


def _numbers(numbers: Tree) -> str:
    """
    >>> _numbers({"rows": 1200, "bytes": 0, "seconds": 0.5})
    'rows 1,200, bytes 0, seconds 0.5'
    """
    return ", ".join(f"{k} {v:,}" if isinstance(v, int) else f"{k} {v}" for k, v in numbers.items())
