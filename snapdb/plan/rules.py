"""The rules of the optimizer: each makes a plan faster, and none changes a result."""

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
    """Make a rule of a function of one plan type; it applies to such plans inside others too."""

    def decorate(change: Callable[[_P], _P]) -> Rule:
        @wraps(change)
        def rule(plan: Plan) -> Plan:
            return change(plan) if isinstance(plan, kind) else plan.with_children(rule)

        rule.__name__ = change.__name__.lstrip("_")  # as EXPLAIN names it
        return rule

    return decorate


@_rule_of(CreateSnapshotPlan)
def _distinct_filters(plan: CreateSnapshotPlan) -> CreateSnapshotPlan:
    """The plan with each distinct filter once, in the order of the statement."""
    return replace(plan, filters=tuple(dict.fromkeys(plan.filters)))


@_rule_of(CreateSnapshotPlan)
def _push_filters(plan: CreateSnapshotPlan) -> CreateSnapshotPlan:
    """The plan with filters on event times as time bounds on the topology, which need no read of the table.

    A condition excludes edges without a time, which bounds include, and bounds do not constrain ends: edge types with
    static edges or with ends keep their conditions.
    """
    bounds = (_pushed_filters(plan, edge) for edge in plan.graph.edges)
    return replace(plan, pushed=tuple(pushed for pushed in bounds if pushed.filters))


def _pushed_filters(plan: CreateSnapshotPlan, edge: EdgeElement) -> Pushed:
    """Return the event-time bounds that one edge type's conditions imply."""
    pushed = Pushed(edge.name)
    if edge.event_end is not None or edge.nulls_static:
        return pushed
    for condition in plan.filters_of(edge.name):
        if (bounds := _filter_bounds(plan, edge, condition)) is not None:
            starts = [moment for moment in (pushed.start, bounds.start) if moment is not None]
            stops = [moment for moment in (pushed.stop, bounds.stop) if moment is not None]
            filters = (*pushed.filters, condition)
            pushed = Pushed(edge.name, max(starts, default=None), min(stops, default=None), filters)
    return pushed


def _filter_bounds(plan: CreateSnapshotPlan, edge: EdgeElement, condition: Filter) -> Bounds | None:
    table = plan.tables[edge.table.lower()]
    column = None if edge.event_time is None else table.column(edge.event_time)
    if column is None or table.column(edge.name) is not None:  # then "name.time" may be a field of that struct column
        return None
    return time_bounds(condition.condition, edge.name, column.name, column.type)


@_rule_of(SamplePlan)
def _prune_types(plan: SamplePlan) -> SamplePlan:
    """A sampler's plan without the relations that expand no node at any hop; batches keep empty entries for them."""
    walked = reached_relations(plan.spec)
    idle = _prunable_relations(plan.spec) - walked
    met = seed_types(plan.spec) | {name for relation in walked for name in (relation.expands, relation.reaches)}
    meets = None if met >= {vertex.name for vertex in plan.snapshot.graph.vertices} else frozenset(met)
    return replace(plan, hints=replace(plan.hints, idle=frozenset(idle), meets=meets))


def _prunable_relations(spec: SampleSpec) -> set[Relation]:
    """The relations that may be skipped when they draw no edge.

    Not skipped: weighted ones, as invalid weights must be reported, the seeds' edge type, and those with known
    negatives.
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
    """The plan without reads of features that are not delivered: rows of edges have none."""
    reads = set() if plan.delivers == "rows" else _delivered_elements(plan.spec)
    every = {element.name for element in plan.snapshot.graph.elements}
    return plan if reads >= every else replace(plan, hints=replace(plan.hints, reads=frozenset(reads)))


def _delivered_elements(spec: SampleSpec) -> set[str]:
    """Return the elements that batches have entries for."""
    types = [fanout.edge for fanout in spec.fanouts] + ([] if spec.link is None else [spec.link.edge])
    return {spec.seed_type, *(name for type_ in types for name in type_)}


@_rule_of(CreateSnapshotPlan)
def _choose_form(plan: CreateSnapshotPlan) -> CreateSnapshotPlan:
    """The plan with the cheapest encoding of each edge type, instead of materialized rows for all."""
    return plan if plan.layout is not None else replace(plan, cheapest=True)


@_rule_of(SamplePlan)
def _choose_method(plan: SamplePlan) -> SamplePlan:
    """The plan with METHOD FULL where all fanouts are FULL, and with the back end that suits the device."""
    drawing = Drawing("FULL") if _takes_all(plan.spec) else plan.hints.drawing
    return replace(plan, hints=replace(plan.hints, drawing=drawing, backend=None))


def _takes_all(spec: SampleSpec) -> bool:
    """Return whether every method delivers whole rows; weights are still read, as they may be invalid."""
    counts = {count for fanout in spec.fanouts for count in fanout.counts}
    drawing = spec.drawing
    return counts <= {0, FULL} and not drawing.weighted and drawing.method not in ("FULL", "PRIORITY")


@_rule_of(SamplePlan)
def _choose_threads(plan: SamplePlan) -> SamplePlan:
    """The plan with all threads instead of one; batches and rows keep their order."""
    return replace(plan, hints=replace(plan.hints, threads=None))


@_rule_of(SamplePlan)
def _fuse_gather(plan: SamplePlan) -> SamplePlan:
    """A stream's plan whose sampling threads also read features, instead of the reader's thread."""
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
"""All rules, in the order in which they run."""
