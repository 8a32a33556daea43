"""A plan in words: an operator, what it does, and those that it takes its rows from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from snapdb.plan import logical
from snapdb.plan.asked import Asked
from snapdb.plan.moments import spelled
from snapdb.plan.reached import unreached_fanouts
from snapdb.types import FULL, Fanout, Relation, TimeUnit
from snapdb.types.text import counted


@dataclass(frozen=True, slots=True)
class Words:
    """One operator of a plan."""

    operator: str
    detail: str = ""
    children: tuple[Words, ...] = ()


def in_words(plan: logical.Plan) -> Words:
    """The plan as a tree, without numbers of what it takes.

    >>> in_words(logical.CommitPlan("day 324"))
    Words(operator='Commit', detail="with message 'day 324'", children=())
    """
    return WORDS[type(plan)](plan)


def _query(asked: Asked) -> Words:
    return Words("Query", " ".join(asked.text.split()))


def _found(asked: Asked) -> Words:
    """A query that we composed, by the parts of it that the user wrote."""
    parts = (asked.text[piece.start : piece.stop].split() for piece in asked.pieces)
    return Words("Find", ", ".join(" ".join(part) for part in parts if part) or "every row")


def _create_table(plan: logical.CreateTablePlan) -> Words:
    columns = ", ".join(f"{column.name} {column.type}" for column in plan.columns)
    source = () if plan.query is None else (_source(plan.query, plan.copies),)
    return Words("CreateTable", f"{plan.name} ({columns})", source)


def _insert(plan: logical.InsertPlan) -> Words:
    detail = f"into {plan.table.name} ({', '.join(plan.supplied)})"
    if (new := plan.new) is None:
        return Words("Insert", detail, (_source(plan.query, plan.copies),))
    how = "CopyFiles" if plan.copies else "ReadFiles"
    return Words("Insert", detail + new.notes(), (Words(how, f"new ones: {', '.join(new.names)}"),))


def _source(asked: Asked, copies: tuple[str, ...]) -> Words:
    """Where rows come from: files that are copied as they are, or a query."""
    return Words("CopyFiles", ", ".join(copies)) if copies else _query(asked)


def _alter(plan: logical.AlterPlan) -> Words:
    return Words("AlterTable", f"{plan.table.name}: {plan.did}")


def _create_snapshot(plan: logical.CreateSnapshotPlan) -> Words:
    vertices = (_vertices(plan, vertex.name) for vertex in plan.graph.vertices)
    edges = (_edges(plan, edge.name) for edge in plan.graph.edges)
    bounds = _between(plan.window.start, plan.window.stop, plan.unit)
    return Words(
        "Snapshot", f"{plan.name} of {plan.graph.name}{f' for {bounds}' if bounds else ''}", (*vertices, *edges)
    )


def _vertices(plan: logical.CreateSnapshotPlan, name: str) -> Words:
    conditions = [f.condition for f in plan.filters_of(name)]
    return Words("Vertices", f"{name}{_where(conditions)}")


def _edges(plan: logical.CreateSnapshotPlan, name: str) -> Words:
    pushed = plan.bounds_of(name)
    conditions = [f.condition for f in plan.filters_of(name) if f not in pushed.filters]
    bounds = _between(pushed.start, pushed.stop, plan.unit)
    form = plan.layout or ("the form that costs least" if plan.cheapest else "rows of its own")
    return Words("Edges", f"{name} as {form}{f', by their order {bounds}' if bounds else ''}{_where(conditions)}")


def _between(start: int | None, stop: int | None, unit: TimeUnit | None) -> str:
    """Bounds of event times as a person reads them; nothing where there are none."""
    begin, end = (
        moment if moment is None or unit != "timestamp" else f"'{spelled(moment)}'" for moment in (start, stop)
    )
    said = [f">= {begin}"] * (begin is not None) + [f"< {end}"] * (end is not None)
    return f"event time {' and '.join(said)}" if said else ""


def _where(conditions: list[str]) -> str:
    return f", where {' and '.join(conditions)}" if conditions else ""


def _refresh(plan: logical.RefreshPlan) -> Words:
    how = "from the tables" if plan.full else "from what is there"
    return Words("Refresh", f"{plan.before.name} {how}", (_create_snapshot(plan.create),))


def _refresh_cache(plan: logical.RefreshCachePlan) -> Words:
    return Words("RefreshCache", f"{plan.cache.name}: generation {plan.sampler.generation + 1} of {plan.sampler.name}")


def _sample(plan: logical.SamplePlan) -> Words:
    spec, way = plan.spec, plan.way
    drawing = way.drawing or spec.drawing
    idle = way.idle | {relation for fanout in unreached_fanouts(spec) for relation in fanout.relations}
    expands = [Words("Expand", text) for fanout in spec.fanouts for text in _expanded(fanout, idle)]
    seeds = Words(
        "Seeds", f"{spec.seed_type if spec.link is None else spec.link.edge.edge}, {spec.order}", (_query(plan.seeds),)
    )
    sample = Words("Sample", f"{spec.snapshot}: METHOD {drawing.method}{_back_end(plan)}", (*expands, seeds))
    threads = "one thread" if way.threads == 1 else "all threads"
    top = ("Rows", "of edges") if plan.delivers == "rows" else ("Stream", "of batches")
    below = sample if way.reads == frozenset() else Words("Gather", _gathered(plan), (sample,))
    return Words(top[0], f"{top[1]}, by {threads}", (below,))


def _back_end(plan: logical.SamplePlan) -> str:
    backend = plan.way.applied(plan.spec).backend
    return f", WITH {backend}" if backend is not None else ""


def _gathered(plan: logical.SamplePlan) -> str:
    what = "all features and targets" if plan.way.reads is None else f"features of {', '.join(sorted(plan.way.reads))}"
    when = "while their ids are warm" if plan.way.fused else "when a batch is handed over"
    return what if plan.delivers == "rows" else f"{what}, {when}"


def _expanded(fanout: Fanout, idle: frozenset[Relation]) -> Iterator[str]:
    counts = ", ".join("FULL" if count == FULL else str(count) for count in fanout.counts)
    for relation in fanout.relations:
        unreached = ", never reached from the seeds" if relation in idle else ""
        yield f"{relation.edge.edge} {relation.direction} => [{counts}]{unreached}"


def _copy_sample(plan: logical.CopySamplePlan) -> Words:
    epochs = counted(plan.sample.epochs, "epoch")
    return Words("CopySample", f"{epochs} to '{plan.path}' as {plan.format}", (_sample(plan.sample),))


def _copy_snapshot(plan: logical.CopySnapshotPlan) -> Words:
    splits = {} if plan.format == "parquet" else plan.splits
    graph = plan.snapshot.graph
    vertices = (Words("Vertices", f"{v.name}{_masked(splits.get(v.name))}") for v in graph.vertices)
    edges = (Words("Edges", edge.name) for edge in graph.edges)
    return Words("CopySnapshot", f"{plan.snapshot.name} to '{plan.path}' as {plan.format}", (*vertices, *edges))


def _masked(column: str | None) -> str:
    return "" if column is None else f", a mask for each {column}"


def _drop(plan: logical.DropPlan) -> Words:
    return Words("Drop", plan.target.name, tuple(Words("Drop", each.name) for each in plan.dependants))


def _show(plan: logical.ShowPlan) -> Words:
    of = "" if plan.of is None else f" of {plan.of}"
    return Words("Show", f"{plan.what.lower()}{of}{f' like {plan.like!r}' if plan.like is not None else ''}")


def _expire(plan: logical.ExpirePlan) -> Words:
    gone = (snapshot.name for snapshot, stays in plan.snapshots if stays is None)
    return Words("Expire", ", ".join(gone) or "nothing")


def _retain(plan: logical.RetainPlan) -> Words:
    rules = (Words("Retention", f"of {graph}: {retention}") for graph, retention in plan.retentions.items())
    return Words("Expire", "what retention does not keep", tuple(rules))


def _set_retention(plan: logical.SetRetentionPlan) -> Words:
    return Words("SetRetention", f"of {plan.graph.name}: {plan.retention or 'none'}")


def _explain(plan: logical.ExplainPlan) -> Words:
    return Words("Explain", "and do it" if plan.analyze else "", (in_words(plan.plan),))


def _diff_table(plan: logical.DiffTablePlan) -> Words:
    return Words("DiffTable", f"{plan.name}, {'rows' if plan.rows else 'counts'}")


def _diff_graph(plan: logical.DiffGraphPlan) -> Words:
    return Words("DiffGraph", f"{plan.graph.name} from version {plan.before} to {plan.after}, {plan.detail.lower()}")


def _diff_snapshot(plan: logical.DiffSnapshotPlan) -> Words:
    return Words("DiffSnapshot", f"{plan.after.name} with {plan.before.name}, {plan.detail.lower()}")


def _commit(plan: logical.CommitPlan) -> Words:
    return Words("Commit", "" if plan.message is None else f"with message {plan.message!r}")


WORDS: dict[type, Callable[[Any], Words]] = {
    logical.QueryPlan: lambda plan: _query(plan.query),
    logical.CreateTablePlan: _create_table,
    logical.InsertPlan: _insert,
    logical.DeletePlan: lambda plan: Words("Delete", f"from {plan.table.name}", (_found(plan.find),)),
    logical.UpdatePlan: lambda plan: Words("Update", plan.table.name, (_found(plan.find),)),
    logical.AlterPlan: _alter,
    logical.CopySamplePlan: _copy_sample,
    logical.CopySnapshotPlan: _copy_snapshot,
    logical.CopyToPlan: lambda plan: Words("CopyTo", f"'{plan.path}'", (_query(plan.query),)),
    logical.CreateGraphPlan: lambda plan: Words("CreateGraph", plan.graph.name),
    logical.CreateSnapshotPlan: _create_snapshot,
    logical.RefreshPlan: _refresh,
    logical.ExpirePlan: _expire,
    logical.RetainPlan: _retain,
    logical.SetRetentionPlan: _set_retention,
    logical.SamplePlan: _sample,
    logical.CreateSamplerPlan: lambda plan: Words("CreateSampler", plan.sampler.name, (_sample(plan.sample),)),
    logical.CreateCachePlan: lambda plan: Words("CreateCache", f"{plan.cache.name} on sampler {plan.cache.sampler}"),
    logical.RefreshCachePlan: _refresh_cache,
    logical.CreateTaskPlan: lambda plan: Words("CreateTask", f"{plan.task.name}: {plan.task.schedule.text}"),
    logical.ExecuteTaskPlan: lambda plan: Words("ExecuteTask", plan.task.name),
    logical.AlterTaskPlan: lambda plan: Words("AlterTask", f"{plan.before.name}: {plan.did}"),
    logical.AuditPlan: lambda plan: Words("Audit", "every batch against the tables", (_sample(plan.sample),)),
    logical.ShowPlan: _show,
    logical.DescribePlan: lambda plan: Words("Describe", plan.target.name),
    logical.SummarizePlan: lambda plan: Words("Summarize", plan.snapshot.name),
    logical.DropPlan: _drop,
    logical.CreateTagPlan: lambda plan: Words("CreateTag", f"{plan.tag.name} for version {plan.tag.version}"),
    logical.DiffTablePlan: _diff_table,
    logical.DiffGraphPlan: _diff_graph,
    logical.DiffSnapshotPlan: _diff_snapshot,
    logical.ExplainPlan: _explain,
    logical.BeginPlan: lambda plan: Words("Begin"),
    logical.CommitPlan: _commit,
    logical.RollbackPlan: lambda plan: Words("Rollback"),
    logical.CheckPlan: lambda plan: Words("Check", "every file and every row of the catalog"),
    logical.BackupPlan: lambda plan: Words("Backup", f"to {plan.path}"),
    logical.VacuumPlan: lambda plan: Words("Vacuum", "every table" if plan.table is None else plan.table.name),
    logical.NothingPlan: lambda plan: Words("Nothing", plan.why),
}
"""The words of each kind of plan."""
