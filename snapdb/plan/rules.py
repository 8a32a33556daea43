"""The optimizer rules. Each rule makes some plans faster without changing their results."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TypeVar

from snapdb.plan.plan import Plan, Rule
from snapdb.plan.samples import SamplePlan
from snapdb.plan.samples.plans import reached_relations, seed_types
from snapdb.plan.snapshots import CreateSnapshotPlan, Pushed
from snapdb.plan.times import Bounds, time_bounds
from snapdb.types import FULL, Drawing, EdgeElement, Filter, Relation, SampleSpec

_P = TypeVar("_P", bound=Plan)


def _rule_of(kind: type[_P]) -> Callable[[Callable[[_P], _P]], Rule]:
    """Turn a function over one plan type into a rule that also applies to such plans inside other plans."""

    def decorate(change: Callable[[_P], _P]) -> Rule:
        @wraps(change)
        def rule(plan: Plan) -> Plan:
            return change(plan) if isinstance(plan, kind) else plan.with_children(rule)

        rule.__name__ = change.__name__.lstrip("_")  # the name that EXPLAIN shows
        return rule

    return decorate


@_rule_of(CreateSnapshotPlan)
def _distinct_filters(plan: CreateSnapshotPlan) -> CreateSnapshotPlan:
    """Remove duplicate filters. The remaining ones are in the order of the statement."""
    return replace(plan, filters=tuple(dict.fromkeys(plan.filters)))


@_rule_of(CreateSnapshotPlan)
def _push_filters(plan: CreateSnapshotPlan) -> CreateSnapshotPlan:
    """Turn filters on event times into time bounds of the topology, so that the build does not read the table.

    Bounds include edges without a time, whereas a condition excludes them, and bounds do not restrict end times. Edge
    types with static edges or end times therefore keep their conditions.
    """
    bounds = (_pushed_filters(plan, edge) for edge in plan.graph.edges)
    return replace(plan, pushed=tuple(pushed for pushed in bounds if pushed.filters))


def _pushed_filters(plan: CreateSnapshotPlan, edge: EdgeElement) -> Pushed:
    """Return the event-time bounds that the conditions on one edge type imply."""
    pushed = Pushed(edge.name)
    if edge.event_end is not None or edge.nulls_static:
        return pushed
    for condition in plan.filters_of(edge.name):
        # If there are several conditions on the time, the latest start and the earliest stop apply.
        if (bounds := _filter_bounds(plan, edge, condition)) is not None:
            starts = [moment for moment in (pushed.start, bounds.start) if moment is not None]
            stops = [moment for moment in (pushed.stop, bounds.stop) if moment is not None]
            filters = (*pushed.filters, condition)
            pushed = Pushed(edge.name, max(starts, default=None), min(stops, default=None), filters)
    return pushed


def _filter_bounds(plan: CreateSnapshotPlan, edge: EdgeElement, condition: Filter) -> Bounds | None:
    table = plan.tables[edge.table.lower()]
    column = None if edge.event_time is None else table.column(edge.event_time)
    if column is None or table.column(edge.name) is not None:  # else "name.time" could be a field of that struct column
        return None
    return time_bounds(condition.condition, edge.name, column.name, column.type)


@_rule_of(SamplePlan)
def _prune_types(plan: SamplePlan) -> SamplePlan:
    """Prune the relations that expand no node at any hop. Batches keep empty entries for them."""
    traversed = reached_relations(plan.spec)
    idle = _prunable_relations(plan.spec) - traversed
    met = seed_types(plan.spec) | {name for relation in traversed for name in (relation.expands, relation.reaches)}
    meets = None if met >= {vertex.name for vertex in plan.snapshot.graph.vertices} else frozenset(met)
    return replace(plan, hints=replace(plan.hints, idle=frozenset(idle), meets=meets))


def _prunable_relations(spec: SampleSpec) -> set[Relation]:
    """Return the relations that can be skipped if they do not sample any edge.

    Three kinds are never skipped: weighted relations, because invalid weights must be reported, the edge type of the
    seeds, and edge types with known negatives.
    """
    weighed = {name for name, _ in spec.drawing.weights} if spec.drawing.weighted else set()
    linked = set() if spec.link is None else {spec.link.edge, *spec.link.known_types}
    return {
        relation
        for fanout in spec.fanouts
        for relation in fanout.relations
        if relation.edge.edge not in weighed and relation.edge not in linked
    }


@_rule_of(SamplePlan)
def _prune_columns(plan: SamplePlan) -> SamplePlan:
    """Skip reading features that are not delivered. Rows of edges do not include features."""
    reads = set() if plan.delivers == "rows" else _delivered_elements(plan.spec)
    every = {element.name for element in plan.snapshot.graph.elements}
    return plan if reads >= every else replace(plan, hints=replace(plan.hints, reads=frozenset(reads)))


def _delivered_elements(spec: SampleSpec) -> set[str]:
    """Return the elements for which batches have entries."""
    types = [fanout.edge for fanout in spec.fanouts] + ([] if spec.link is None else [spec.link.edge])
    return {spec.seed_type, *(name for type_ in types for name in type_)}


@_rule_of(CreateSnapshotPlan)
def _choose_form(plan: CreateSnapshotPlan) -> CreateSnapshotPlan:
    """Choose the cheapest encoding for each edge type instead of materialized rows for all of them."""
    # The cheapest encoding depends on the number of selected edges, which is only known during the build.
    return plan if plan.layout is not None else replace(plan, cheapest=True)


@_rule_of(SamplePlan)
def _choose_method(plan: SamplePlan) -> SamplePlan:
    """Use METHOD FULL if all fanouts are FULL, and the back end that suits the device."""
    drawing = Drawing("FULL") if _takes_all(plan.spec) else plan.hints.drawing
    return replace(plan, hints=replace(plan.hints, drawing=drawing, backend=None))


def _takes_all(spec: SampleSpec) -> bool:
    """Return whether all fanouts deliver whole rows. Weights prevent this, because invalid weights must be reported."""
    counts = {count for fanout in spec.fanouts for count in fanout.counts}
    drawing = spec.drawing
    return counts <= {0, FULL} and not drawing.weighted and drawing.method not in ("FULL", "PRIORITY")


@_rule_of(SamplePlan)
def _choose_threads(plan: SamplePlan) -> SamplePlan:
    """Use all threads instead of one. The order of batches and rows does not change."""
    return replace(plan, hints=replace(plan.hints, threads=None))


@_rule_of(SamplePlan)
def _fuse_gather(plan: SamplePlan) -> SamplePlan:
    """Let the threads that sample a stream's batches also read the features, instead of the reader's thread."""
    return plan if plan.delivers == "rows" else replace(plan, hints=replace(plan.hints, fused=True))


RULES: tuple[Rule, ...] = (
    _distinct_filters,
    _push_filters,
    _prune_types,
    _prune_columns,
    _choose_form,
    _choose_method,
    _choose_threads,
    _fuse_gather,
)
"""All rules, in execution order."""
