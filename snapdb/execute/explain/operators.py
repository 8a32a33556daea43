"""EXPLAIN: the bound plan, the rules that changed it, and the estimates of every operator; ANALYZE also runs it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from snapdb.builders.estimates import Sketch, sketched
from snapdb.builders.files import Made
from snapdb.builders.graph_data import graph_data
from snapdb.catalog.listing import listing, window_text
from snapdb.execute.explain.samples import explain_sample
from snapdb.execute.explain.tree import Step, explain_query, wrapped
from snapdb.execute.operator import ExecutionContext, Outcome, Rows, run
from snapdb.execute.snapshots import moved_to, publish_snapshot
from snapdb.plan.explain import ExplainPlan
from snapdb.plan.exports import CopySamplePlan, CopySnapshotPlan, CopyToPlan
from snapdb.plan.plan import Plan, PlanNode, QueryPlan
from snapdb.plan.queries import BoundQuery
from snapdb.plan.samples import AuditPlan, SamplePlan
from snapdb.plan.snapshots import CreateSnapshotPlan, RefreshPlan
from snapdb.storage.gc import size_of


def explain(plan: ExplainPlan, context: ExecutionContext) -> Rows:
    """EXPLAIN: any statement as it was bound, the rules that changed it, and the operators that run it."""
    bound = _step((plan.plan if plan.bound is None else plan.bound).describe())
    root = _explained(context, plan.plan, analyze=plan.analyze)
    if plan.json:
        said = {"statement": plan.text, "bound": bound.tree(numbers=False), "rules": list(plan.rules)}
        lines = [json.dumps({**said, "plan": root.tree()}, indent=2)]
    else:
        rules = f"Rules: {', '.join(plan.rules) or 'none changed it'}"
        lines = ["Bound", *bound.lines(1), *wrapped(rules), "Plan", *root.lines(1)]
    yield listing([("plan", pa.string())], [(line,) for line in lines])
    return None


def _explained(context: ExecutionContext, plan: Plan, *, analyze: bool) -> Step:
    """The operators of a plan with their estimates; `analyze` runs it."""
    match plan:
        case SamplePlan():
            return explain_sample(context, plan, analyze=analyze)
        case CreateSnapshotPlan():
            return _explain_snapshot(context, "CreateSnapshot", plan, full=False, analyze=analyze)
        case RefreshPlan(create, _, full, _):
            return _explain_snapshot(context, "RefreshSnapshot", create, full=full, analyze=analyze)
        case QueryPlan(query):
            return _explained_query(context, query, analyze=analyze)
        case _:
            return _explained_other(context, plan, analyze=analyze)


def _explained_query(context: ExecutionContext, query: BoundQuery, *, analyze: bool) -> Step:
    started = time.perf_counter()
    below = explain_query(context, query, analyze=analyze)
    root = Step("Query", "by DuckDB", dict(below[0].estimates) if below else {}, below)
    if analyze and below:
        seconds = round(time.perf_counter() - started, 6)
        root.measured({"rows": below[0].actual["rows"], "bytes": below[0].actual["bytes"], "seconds": seconds})
    elif analyze:  # DuckDB reports nothing of a query that reads no table
        _measure(context, root, run(QueryPlan(query), context))
    return root


def _explained_other(context: ExecutionContext, plan: Plan, *, analyze: bool) -> Step:
    """A plan with the queries that it takes rows from; `analyze` runs it."""
    root = _step(plan.describe())
    if isinstance(plan, AuditPlan):
        root.children = [explain_sample(context, plan.sample, analyze=False)]
    elif isinstance(plan, CopySnapshotPlan):
        root.estimates = {"rows": plan.snapshot.nodes + plan.snapshot.edges}
    elif isinstance(plan, CopySamplePlan):
        below = explain_sample(context, plan.sample, analyze=False)
        root.children = [below]
        root.estimates = {name: number * plan.sample.epochs for name, number in below.estimates.items()}
    elif (asked := plan.source()) is not None:
        root.children = explain_query(context, asked, analyze=False)
        root.estimates = dict(root.children[0].estimates) if root.children else {}
    if analyze:
        _measure(context, root, run(plan, context))
        if isinstance(plan, CopyToPlan | CopySamplePlan | CopySnapshotPlan):
            root.measured({**root.actual, "bytes": size_of(Path(os.path.realpath(os.path.expanduser(plan.path))))})
    return root


def _measure(context: ExecutionContext, root: Step, running: Rows) -> None:
    """Do it, and put what happened beside what was expected: rows given or changed, bytes of them or of new files."""
    started, before, rows, size = time.perf_counter(), context.transactions.brought, 0, 0
    outcome: Outcome | None = None
    while True:
        try:
            batch = next(running)
        except StopIteration as end:
            outcome = end.value
            break
        rows, size = rows + batch.num_rows, size + batch.nbytes
        context.check_stopped()
    rows = rows if outcome is None else rows + outcome.rows
    seconds = round(time.perf_counter() - started, 6)
    root.measured({"rows": rows, "bytes": size + context.transactions.brought - before, "seconds": seconds})


def _step(node: PlanNode) -> Step:
    return Step(node.operator, node.detail, {}, [_step(child) for child in node.children])


def _explain_snapshot(
    context: ExecutionContext, operator: str, create: CreateSnapshotPlan, *, full: bool, analyze: bool
) -> Step:
    """What the snapshot takes; `analyze` makes it."""
    with context.store.sql_engine.session() as session:
        data = graph_data(context, session, create.graph, create.tables)
        sketches = sketched(context, session, create, data, full)
    root = _root(operator, create, sketches)
    if analyze:
        started = time.perf_counter()
        _, made = publish_snapshot(context, create, full=full)
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
