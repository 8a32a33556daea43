"""The operator of EXPLAIN: the bound plan, the applied rules and estimates for every operator. ANALYZE also runs it."""

import json
import os
import re
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snapdb.builders.estimates import Sketch, sketched
from snapdb.builders.files import SnapshotFiles
from snapdb.builders.graph_data import graph_data
from snapdb.catalog.system_tables import window_text
from snapdb.execute.explain.samples import explain_sample
from snapdb.execute.rendering import PLAN
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext, run
from snapdb.execute.snapshots import moved_to, publish_snapshot
from snapdb.on_first_use import module_on_first_use
from snapdb.plan.explain import ExplainPlan
from snapdb.plan.exports import CopySamplePlan, CopySnapshotPlan, CopyToPlan
from snapdb.plan.plan import Plan, PlanNode, QueryPlan
from snapdb.plan.queries import BoundQuery
from snapdb.plan.samples import AuditPlan, SamplePlan
from snapdb.plan.snapshots import CreateSnapshotPlan, RefreshPlan
from snapdb.storage.gc import size_of

if TYPE_CHECKING:
    from snapdb.execute.explain import algorithms, searches
else:
    algorithms = module_on_first_use("snapdb.execute.explain.algorithms")  # only graph algorithms need numba
    searches = module_on_first_use("snapdb.execute.explain.searches")  # only path searches need numba


def explain(plan: ExplainPlan, context: ExecutionContext) -> Rows:
    """Run EXPLAIN: return the bound plan of a statement, the rules that changed it, and the operators that run it."""
    bound = (plan.plan if plan.bound is None else plan.bound).describe()
    root = _explained(context, plan.plan, analyze=plan.analyze)
    if plan.json:
        explained = {"statement": plan.text, "bound": _node_json(bound, numbers=False), "rules": list(plan.rules)}
        lines = [json.dumps({**explained, "plan": _node_json(root)}, indent=2)]
    else:
        rules = f"Rules: {', '.join(plan.rules) or 'none applied'}"
        lines = ["Bound", *_tree_lines(bound), rules, "Plan", *_tree_lines(root)]
    yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], schema=PLAN)
    return None


def _explained(context: ExecutionContext, plan: Plan, *, analyze: bool) -> PlanNode:
    """Return the operators of a plan with their estimates. With `analyze`, also run the plan."""
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


def _explained_query(context: ExecutionContext, query: BoundQuery, *, analyze: bool) -> PlanNode:
    started = time.perf_counter()
    below = _query_nodes(context, query, analyze=analyze)
    root = PlanNode("Query", "by DuckDB", below, dict(below[0].estimates) if below else {})
    if analyze and below:
        seconds = round(time.perf_counter() - started, 6)
        root.measure({"rows": below[0].actual["rows"], "bytes": below[0].actual["bytes"], "seconds": seconds})
    elif analyze:  # DuckDB reports no operators for a query without tables
        _measure(context, root, run(QueryPlan(query), context))
    return root


def _explained_other(context: ExecutionContext, plan: Plan, *, analyze: bool) -> PlanNode:
    """Return a plan and the queries that supply its rows. With `analyze`, also run the plan."""
    root = plan.describe()
    if isinstance(plan, AuditPlan):
        root.children = (explain_sample(context, plan.sample, analyze=False),)
    elif isinstance(plan, CopySnapshotPlan):
        root.estimates = {"rows": plan.snapshot.nodes + plan.snapshot.edges}
    elif isinstance(plan, CopySamplePlan):
        below = explain_sample(context, plan.sample, analyze=False)
        root.children = (below,)
        root.estimates = {name: number * plan.sample.epochs for name, number in below.estimates.items()}
    elif (query := plan.source()) is not None:
        root.children = _query_nodes(context, query, analyze=False)
        root.estimates = dict(root.children[0].estimates) if root.children else {}
    if analyze:
        _measure(context, root, run(plan, context))
        if isinstance(plan, CopyToPlan | CopySamplePlan | CopySnapshotPlan):
            root.measure({**root.actual, "bytes": size_of(Path(os.path.realpath(os.path.expanduser(plan.path))))})
    return root


def _measure(context: ExecutionContext, root: PlanNode, running: Rows) -> None:
    """Run the plan, and set the measured rows, bytes and seconds next to the estimates."""
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
    rows = rows if outcome is None else outcome.rows or rows
    seconds = round(time.perf_counter() - started, 6)
    root.measure({"rows": rows, "bytes": size + context.transactions.brought - before, "seconds": seconds})


def _explain_snapshot(
    context: ExecutionContext, operator: str, create: CreateSnapshotPlan, *, full: bool, analyze: bool
) -> PlanNode:
    """Return the estimates for building a snapshot. With `analyze`, also build it."""
    with context.store.sql_engine.session() as session:
        data = graph_data(context, session, create.graph, create.tables)
        sketches = sketched(context, session, create, data, full)
    root = _root(operator, create, sketches)
    if analyze:
        started = time.perf_counter()
        _, built = publish_snapshot(context, create, full=full)
        _fill(root, built, time.perf_counter() - started)
    return root


def _root(operator: str, plan: CreateSnapshotPlan, sketches: Sequence[Sketch]) -> PlanNode:
    detail = f"{plan.name} of {plan.graph.name} at version {plan.version}, {window_text(moved_to(plan))}"
    total = {
        "rows": sum(s.rows for s in sketches),
        "bytes": sum(s.bytes + s.topology_bytes for s in sketches),
        "seconds": round(sum(s.seconds for s in sketches), 3),
    }
    return PlanNode(operator, detail, tuple(map(_element, sketches)), total)


def _element(sketch: Sketch) -> PlanNode:
    seconds = round(sketch.seconds, 3)
    own = {"rows": sketch.rows, "bytes": sketch.bytes, "seconds": seconds}
    if sketch.kind == "vertex":
        return PlanNode("Vertices", sketch.element, (), own, ("vertices", sketch.element))
    shared = {"rows": sketch.rows, "bytes": sketch.topology_bytes, "seconds": seconds}
    below = PlanNode("Topology", sketch.topology, (), shared, ("topology", sketch.element))
    detail = f"{sketch.element} as {sketch.form}: {sketch.reason}"
    return PlanNode("Edges", detail, (below,), own, ("edges", sketch.element))


def _fill(root: PlanNode, built: SnapshotFiles, seconds: float) -> None:
    """Set the measurements next to the estimates. Nodes are matched by key."""
    vertices, edges = built.layout.vertices, built.layout.edges
    size = sum(e.bytes for e in edges) + sum(v.count for v in vertices if v.nodes < v.count)
    rows = sum(v.nodes for v in vertices) + sum(e.edges for e in edges)
    root.measure({"rows": rows, "bytes": size + sum(built.shared.values()), "seconds": round(seconds, 3)})
    numbers: dict[Hashable, dict[str, Any]] = {("vertices", v.name): {"rows": v.nodes} for v in vertices}
    for edge in edges:
        numbers["edges", edge.name] = {"rows": edge.edges, "bytes": edge.bytes, "form": edge.form}
        numbers["topology", edge.name] = {"bytes": built.shared[edge.name], "work": built.works[edge.name]}
    for node in root.walk():
        if node.key in numbers:
            node.measure(numbers[node.key])


_UNKNOWN: Mapping[str, None] = {"rows": None, "bytes": None, "seconds": None}
_OUTER = ("RESULT_COLLECTOR", "EXPLAIN_ANALYZE")
"""The operators that EXPLAIN ANALYZE itself adds."""
_ESTIMATE = "Estimated Cardinality"
_BITMAP = "get_bit('"
"""The function in the condition that excludes deleted rows. Its argument has one bit per row and is not shown."""
_LIVE = "the row is not deleted"


def _node_json(node: PlanNode, *, numbers: bool = True) -> dict[str, Any]:
    """Return a node and its children as JSON-serializable values. An unknown number is None."""
    shown = {"estimates": {**_UNKNOWN, **node.estimates}, "actual": node.actual} if numbers else {}
    children = [_node_json(child, numbers=numbers) for child in node.children]
    return {"operator": node.operator, "detail": node.detail, **shown, "children": children}


def _tree_lines(node: PlanNode, before: str = "  ", *, last: bool = True) -> list[str]:
    """Return a node and its children as a tree, each with a line for its estimates and one for its measurements.

    The lines can have any length; `render` wraps them to the width of the terminal. The last child of a node is marked
    with `└`, its siblings with `├`, and `│` joins a node to its next sibling or to its first child.

    >>> scan = PlanNode("Scan", "of t", estimates={"rows": 1200})
    >>> scan.measure({"rows": 1500})
    >>> for line in _tree_lines(PlanNode("Join", "", (scan, PlanNode("Values")), {"rows": 9})):
    ...     print(line)
      └ Join
        │   expected rows 9
        ├ Scan of t
        │     expected rows 1,200
        │     actual rows 1,500 (1.25 of expected)
        └ Values
    """
    inside = before + ("  " if last else "│ ")
    under = inside + ("│   " if node.children else "    ")
    text = re.sub(r"\s*\n\s*", " ", f"{node.operator} {node.detail}".strip())
    lines = [before + ("└ " if last else "├ ") + text]
    for when, numbers in (("expected", node.estimates), ("actual", node.actual)):
        lines += [f"{under}{when} {_numbers(numbers)}"] if numbers else []
    for child in node.children:
        lines += _tree_lines(child, inside, last=child is node.children[-1])
    return lines


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
        text = f"{name} {_value_text(value)}"
        shown.append(f"{text} ({ratio[name]} of expected)" if name in ratio else text)
    return ", ".join(shown)


def _value_text(value: Any) -> str:
    """
    >>> _value_text(1200), _value_text(0.000076), _value_text(1.0)
    ('1,200', '0.000076', '1.0')
    """
    if isinstance(value, float):
        digits = f"{value:,f}".rstrip("0")
        return digits + "0" if digits.endswith(".") else digits
    return f"{value:,}" if isinstance(value, int) else str(value)


def _query_nodes(context: ExecutionContext, query: BoundQuery, *, analyze: bool) -> tuple[PlanNode, ...]:
    """Return DuckDB's operator trees for a query, or none if DuckDB reports none. With `analyze`, run the query."""
    explain = "EXPLAIN (ANALYZE, FORMAT json) " if analyze else "EXPLAIN (FORMAT json) "
    with context.bind_context.opened_sources(query) as opened:
        names = replace(query.names, sources={**query.names.sources, **opened}) if opened else query.names
        with (
            context.bind_context.session(replace(query, names=names)) as session,
            context.watching(session, "running the query"),
        ):
            ((_, text),) = session.wrap(explain, query.text, "", query.parameters)
        operators: tuple[PlanNode, ...] = ()
        if opened:
            operators = searches.search_nodes(opened, analyze=analyze)
            operators += algorithms.algorithm_nodes(opened, analyze=analyze)
    nodes = json.loads(text)
    if isinstance(nodes, dict):
        nodes = nodes.get("operator", [])
    return (*(_query_node(node, analyze) for node in _inner(nodes)), *operators)


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
    """Return DuckDB's details of an operator as one line."""
    facts_text = (
        (name, ", ".join(map(str, value)) if isinstance(value, list) else value) for name, value in facts.items()
    )
    return "; ".join(f"{name}: {_LIVE if _BITMAP in str(value) else value}" for name, value in facts_text if value)
