"""EXPLAIN: a plan as a tree of operators with what each is expected to do and, after ANALYZE, with what it did."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from snapdb.execute.create_snapshot import create_snapshot, moved_to
from snapdb.execute.explain_sample import explain_sample
from snapdb.execute.explain_tree import Step
from snapdb.execute.graph_data import graph_data
from snapdb.execute.listing import listing
from snapdb.execute.operator import Engine, Rows
from snapdb.execute.show import window_text
from snapdb.execute.sketch import Sketch, sketched
from snapdb.execute.snapshot_files import Made
from snapdb.plan.logical import CreateSnapshotPlan, ExplainPlan, RefreshPlan, SamplePlan

__all__ = ["Explain"]


@dataclass(frozen=True, slots=True)
class Explain:
    """Explains CREATE SNAPSHOT, REFRESH SNAPSHOT and SAMPLE."""

    plan: ExplainPlan

    def run(self, engine: Engine) -> Rows:
        root = self._explained(engine)
        lines = [root.json(self.plan.text)] if self.plan.json else root.lines()
        yield listing([("plan", pa.string())], [(line,) for line in lines])
        return None

    def _explained(self, engine: Engine) -> Step:
        match self.plan.plan:
            case SamplePlan() as sample:
                return explain_sample(engine, sample, analyze=self.plan.analyze)
            case CreateSnapshotPlan() as create:
                return _explain_snapshot(engine, "CreateSnapshot", create, full=False, analyze=self.plan.analyze)
            case RefreshPlan(create, _, full, _):
                return _explain_snapshot(engine, "RefreshSnapshot", create, full=full, analyze=self.plan.analyze)
            case other:
                raise AssertionError(f"the binder lets no {type(other).__name__} through")


def _explain_snapshot(engine: Engine, operator: str, create: CreateSnapshotPlan, *, full: bool, analyze: bool) -> Step:
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
        return Step("Vertices", sketch.element, own)
    shared = {"rows": sketch.rows, "bytes": sketch.topology_bytes, "seconds": seconds}
    below = Step("Topology", sketch.topology, shared)
    return Step("Edges", f"{sketch.element} as {sketch.form}: {sketch.reason}", own, [below])


def _fill(root: Step, made: Made, seconds: float) -> None:
    """Put what happened beside what was expected."""
    counts = [v.nodes for v in made.layout.vertices] + [e.edges for e in made.layout.edges]
    own = sum(e.bytes for e in made.layout.edges) + sum(v.count for v in made.layout.vertices if v.nodes < v.count)
    total = {"rows": sum(counts), "bytes": own + sum(made.shared.values()), "seconds": round(seconds, 3)}
    root.measured(total)
    edges = {e.name: e for e in made.layout.edges}
    for child, rows in zip(root.children, counts, strict=True):
        if child.operator == "Vertices":
            child.measured({"rows": rows})
            continue
        layout = edges[child.detail.partition(" as ")[0]]
        child.measured({"rows": rows, "bytes": layout.bytes, "form": layout.form})
        child.children[0].measured({"bytes": made.shared[layout.name], "work": made.works[layout.name]})
