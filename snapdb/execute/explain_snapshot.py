"""EXPLAIN CREATE SNAPSHOT and REFRESH SNAPSHOT: the forms, rows and bytes of every element, and what made them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from snapdb.catalog.windows import window_text
from snapdb.execute.create_snapshot import create_snapshot, moved_to
from snapdb.execute.explain_tree import Step
from snapdb.execute.graph_data import graph_data
from snapdb.execute.operator import Engine
from snapdb.execute.sketch import Sketch, sketched
from snapdb.execute.snapshot_files import Made
from snapdb.plan.snapshots import CreateSnapshotPlan


def explain_snapshot(engine: Engine, operator: str, create: CreateSnapshotPlan, *, full: bool, analyze: bool) -> Step:
    """What the snapshot takes; `analyze` makes it."""
    with engine.relational.session() as session:
        data = graph_data(engine, session, create.graph, create.tables)
        sketches = sketched(engine, session, create, data, full)
    root = _root(operator, create, sketches)
    if analyze:
        started = time.perf_counter()
        _, made = create_snapshot(engine, create, full=full)
        _fill(root, made, time.perf_counter() - started)
    return root


def _root(operator: str, plan: CreateSnapshotPlan, sketches: Sequence[Sketch]) -> Step:
    detail = f"{plan.name} of {plan.graph.name} at version {plan.version}, {window_text(moved_to(plan))}"
    total = {
        "rows": sum(s.rows for s in sketches),
        "bytes": sum(s.bytes + s.topology_bytes for s in sketches),
        "seconds": round(sum(s.seconds for s in sketches), 3),
    }
    return Step(operator, detail, total, [_element(sketch) for sketch in sketches])


def _element(sketch: Sketch) -> Step:
    seconds = round(sketch.seconds, 3)
    own = {"rows": sketch.rows, "bytes": sketch.bytes, "seconds": seconds}
    if sketch.kind == "vertex":
        return Step("Vertices", sketch.element, own, key=sketch.element)
    shared = {"rows": sketch.rows, "bytes": sketch.topology_bytes, "seconds": seconds}
    below = Step("Topology", sketch.topology, shared)
    return Step("Edges", f"{sketch.element} as {sketch.form}: {sketch.reason}", own, [below], key=sketch.element)


def _fill(root: Step, made: Made, seconds: float) -> None:
    """Put what happened beside what was expected, by the keys of the steps: names of elements may be any text."""
    nodes = {v.name: v.nodes for v in made.layout.vertices}
    edges = {e.name: e for e in made.layout.edges}
    rows = sum(nodes.values()) + sum(e.edges for e in edges.values())
    own = sum(e.bytes for e in edges.values()) + sum(v.count for v in made.layout.vertices if v.nodes < v.count)
    root.measured({"rows": rows, "bytes": own + sum(made.shared.values()), "seconds": round(seconds, 3)})
    for child in root.children:
        if child.key in nodes:
            child.measured({"rows": nodes[child.key]})
            continue
        layout = edges[child.key]
        child.measured({"rows": layout.edges, "bytes": layout.bytes, "form": layout.form})
        child.children[0].measured({"bytes": made.shared[layout.name], "work": made.works[layout.name]})
