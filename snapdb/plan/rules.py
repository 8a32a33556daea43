"""The part of a plan that a rule speaks of, wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from snapdb.plan.explain import ExplainPlan
from snapdb.plan.exports import CopySamplePlan
from snapdb.plan.fits import key_family
from snapdb.plan.plan import Plan
from snapdb.plan.samples import AuditPlan, CreateSamplerPlan, SamplePlan
from snapdb.plan.samples.plans import reached_relations, seed_types
from snapdb.plan.snapshots import CreateSnapshotPlan, Pushed, RefreshPlan
from snapdb.sql.lexer import Token, identifier, scan, string_value
from snapdb.types import FULL, Drawing, EdgeElement, Filter, Relation, SampleSpec


def on_sample(plan: Plan, change: Callable[[SamplePlan], SamplePlan]) -> Plan:
    """The plan with its sampler changed, if it has one."""
    if isinstance(plan, AuditPlan | CopySamplePlan | CreateSamplerPlan):
        return replace(plan, sample=change(plan.sample))
    return change(plan) if isinstance(plan, SamplePlan) else plan


def on_snapshot(plan: Plan, change: Callable[[CreateSnapshotPlan], CreateSnapshotPlan]) -> Plan:
    """The plan with the snapshot that it makes changed, if it makes one."""
    if isinstance(plan, RefreshPlan):
        return replace(plan, create=change(plan.create))
    return change(plan) if isinstance(plan, CreateSnapshotPlan) else plan


def distinct_filters(plan: Plan) -> Plan:
    """A snapshot's plan with each of its filters once, in the order in which they were first said."""
    return on_snapshot(plan, _distinct_filters)


def _distinct_filters(plan: CreateSnapshotPlan) -> CreateSnapshotPlan:
    return replace(plan, filters=tuple(dict.fromkeys(plan.filters)))


def push_filters(plan: Plan) -> Plan:
    """A snapshot's plan whose edges are left out by their times in the topology, instead of by reading the table.

    A condition drops what has no time, which bounds keep, and bounds tell nothing of ends: edge types with static
    edges or with ends keep their conditions.
    """
    return on_snapshot(plan, _pushed)


def _pushed(plan: CreateSnapshotPlan) -> CreateSnapshotPlan:
    found = (_of_edges(plan, edge) for edge in plan.graph.edges)
    return replace(plan, pushed=tuple(pushed for pushed in found if pushed.filters))


def _of_edges(plan: CreateSnapshotPlan, edge: EdgeElement) -> Pushed:
    """What times tell of one edge type's conditions."""
    pushed = Pushed(edge.name)
    if edge.event_end is not None or edge.nulls_static:
        return pushed
    for condition in plan.filters_of(edge.name):
        if (bounds := _bounds(plan, edge, condition)) is not None:
            starts = [moment for moment in (pushed.start, bounds.start) if moment is not None]
            stops = [moment for moment in (pushed.stop, bounds.stop) if moment is not None]
            filters = (*pushed.filters, condition)
            pushed = Pushed(edge.name, max(starts, default=None), min(stops, default=None), filters)
    return pushed


def _bounds(plan: CreateSnapshotPlan, edge: EdgeElement, condition: Filter) -> Bounds | None:
    table = plan.tables[edge.table.lower()]
    column = None if edge.event_time is None else table.column(edge.event_time)
    if column is None or table.column(edge.name) is not None:  # then "name.time" may be a field of that column
        return None
    return time_bounds(condition.condition, edge.name, column.name, column.type)


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?", re.ASCII)
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_MOST = 2**62
"""Integers from here on are left to DuckDB: bounds and their neighbours must fit into 64 bits."""
_MICROSECONDS = 1_000_000
_DAY = 86_400 * _MICROSECONDS
_TYPES = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
"""Of event times that count in microseconds; sessions take times without a zone as UTC."""


class Bounds(NamedTuple):
    """start ≤ event time < stop; None is unbounded."""

    start: int | None
    stop: int | None


def time_bounds(condition: str, element: str, column: str, type_: str) -> Bounds | None:
    """The bounds that a condition sets to an element's event time; None: it says something else, or maybe so.

    Args:
        column: The event time's column.
        type_: Its type.

    >>> time_bounds("bought.day <= 9", "bought", "day", "BIGINT")
    Bounds(start=None, stop=10)
    >>> time_bounds("(ts >= CAST('1970-01-02' AS DATE))", "bought", "ts", "TIMESTAMP")
    Bounds(start=86400000000, stop=None)
    >>> time_bounds("day + 1 > 9", "bought", "day", "BIGINT")
    """
    tokens = _bare(scan(condition))
    names = {(column.lower(),), (element.lower(), column.lower())}
    for size in (1, 3):
        if _name(tokens[:size]) in names:
            return _compared(tokens[size:], type_)
        if _name(tokens[-size:]) in names and (found := _sign(tokens[:-size])) is not None:
            return _bounded(_TURNED[found[0]], _literal(found[1], type_))
    return None


def _compared(tokens: Sequence[Token], type_: str) -> Bounds | None:
    """What stands after the column: a sign and a literal, or BETWEEN two of them."""
    words = [token.word for token in tokens]
    if words[:1] == ["BETWEEN"] and words.count("AND") == 1:
        middle = words.index("AND")
        low, high = _literal(tokens[1:middle], type_), _literal(tokens[middle + 1 :], type_)
        return None if low is None or high is None else Bounds(low, high + 1)
    for size in (2, 1):
        sign = _spelled(tokens[:size])
        if sign in _TURNED:
            return _bounded(sign, _literal(tokens[size:], type_))
    return None


def _sign(tokens: Sequence[Token]) -> tuple[str, Sequence[Token]] | None:
    """The comparison that some tokens end in, and what stands before it."""
    for size in (2, 1):
        sign = _spelled(tokens[-size:])
        if sign in _TURNED:
            return sign, tokens[:-size]
    return None


def _bounded(sign: str, value: int | None) -> Bounds | None:
    if value is None:
        return None
    start = {">": value + 1, ">=": value, "=": value}.get(sign)
    stop = {"<": value, "<=": value + 1, "=": value + 1}.get(sign)
    return Bounds(start, stop)


def _bare(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens without brackets around all of them."""
    while len(tokens) > 1 and tokens[0].text == "(" and tokens[-1].text == ")" and _closes(tokens):
        tokens = tokens[1:-1]
    return tokens


def _closes(tokens: Sequence[Token]) -> bool:
    """Whether the first bracket is closed by the last one."""
    depth = 0
    for token in tokens[:-1]:
        depth += (token.text == "(") - (token.text == ")")
        if not depth:
            return False
    return True


def _name(tokens: Sequence[Token]) -> tuple[str, ...]:
    """The name that tokens spell, case-folded: one word, or two with a dot between; else nothing."""
    if any(token.kind not in ("word", "quoted") for token in tokens[::2]) or any(t.text != "." for t in tokens[1::2]):
        return ()
    return tuple(identifier(token).lower() for token in tokens[::2])


def _spelled(tokens: Sequence[Token]) -> str:
    """The text of tokens."""
    return "".join(token.text for token in tokens)


def _literal(tokens: Sequence[Token], type_: str) -> int | None:
    """A literal as the column's event times count; None for anything else, and for what DuckDB might read otherwise."""
    tokens = _bare(tokens)
    if key_family(type_) == "integer":
        text = _spelled(tokens)
        return int(text) if re.fullmatch(r"-?\d{1,19}", text, re.ASCII) and abs(int(text)) < _MOST else None
    if type_ not in _TYPES:
        return None
    match [token.word or token.kind for token in tokens]:
        case ["DATE" | "TIMESTAMP" as kind, "string"]:
            return _moment(tokens[1], kind)
        case ["CAST", "(", "string", "AS", "DATE" | "TIMESTAMP" as kind, ")"]:
            return _moment(tokens[2], kind)
        case ["string", ":", ":", "DATE" | "TIMESTAMP" as kind]:
            return _moment(tokens[0], kind)
        case ["string"]:
            return _moment(tokens[0], "DATE" if type_ == "DATE" else "TIMESTAMP")
    return None


def _moment(token: Token, kind: str) -> int | None:
    """A date or a moment without a zone, as microseconds; None when it is written in another way, or is none."""
    text = string_value(token)
    if not _MOMENT.fullmatch(text) or (kind == "DATE" and len(text) > len("2026-07-01")):
        return None
    try:
        found = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None
    passed = found - datetime(1970, 1, 1, tzinfo=UTC)
    return passed.days * _DAY + passed.seconds * _MICROSECONDS + passed.microseconds


def prune_types(plan: Plan) -> Plan:
    """A sampler's plan without the relations that expand no node at any hop; batches keep empty entries for them."""
    return on_sample(plan, _idle_types)


def _idle_types(plan: SamplePlan) -> SamplePlan:
    walked = reached_relations(plan.spec)
    idle = _unneeded(plan.spec) - walked
    met = seed_types(plan.spec) | {name for relation in walked for name in (relation.expands, relation.reaches)}
    meets = None if met >= {vertex.name for vertex in plan.snapshot.graph.vertices} else frozenset(met)
    return replace(plan, way=replace(plan.way, idle=frozenset(idle), meets=meets))


def _unneeded(spec: SampleSpec) -> set[Relation]:
    """The relations that are of no use when they draw no edge.

    Weights may be wrong, seeds are edges of their own type, and negatives know some: all are looked at wherever the
    fanouts lead.
    """
    weighed = {name for name, _ in spec.drawing.weights} if spec.drawing.weighted else set()
    linked = set() if spec.link is None else {spec.link.edge, *spec.link.known_types}
    return {
        relation
        for fanout in spec.fanouts
        for relation in fanout.relations
        if relation.edge.edge not in weighed and relation.edge not in linked
    }


def prune_columns(plan: Plan) -> Plan:
    """A sampler's plan that reads features of what is delivered with them only: none for rows of edges."""
    return on_sample(plan, _unread_columns)


def _unread_columns(plan: SamplePlan) -> SamplePlan:
    reads = set() if plan.delivers == "rows" else _delivered(plan.spec)
    every = {element.name for element in plan.snapshot.graph.elements}
    return plan if reads >= every else replace(plan, way=replace(plan.way, reads=frozenset(reads)))


def _delivered(spec: SampleSpec) -> set[str]:
    """The elements that batches have entries for."""
    types = [fanout.edge for fanout in spec.fanouts] + ([] if spec.link is None else [spec.link.edge])
    return {spec.seed_type, *(name for type_ in types for name in type_)}


def choose_form(plan: Plan) -> Plan:
    """A snapshot's plan in which what it takes decides the form, instead of rows of its own for every edge type."""
    return on_snapshot(plan, _cheapest)


def _cheapest(plan: CreateSnapshotPlan) -> CreateSnapshotPlan:
    return plan if plan.layout is not None else replace(plan, cheapest=True)


def choose_method(plan: Plan) -> Plan:
    """A sampler's plan with METHOD FULL where all fanouts are, and with the back end that fits the device."""
    return on_sample(plan, _chosen)


def _chosen(plan: SamplePlan) -> SamplePlan:
    drawing = Drawing("FULL") if _takes_all(plan.spec) else plan.way.drawing
    return replace(plan, way=replace(plan.way, drawing=drawing, backend=None))


def _takes_all(spec: SampleSpec) -> bool:
    """Whether each row is delivered whole, whatever the method. Weights are looked at, because they may be wrong."""
    counts = {count for fanout in spec.fanouts for count in fanout.counts}
    drawing = spec.drawing
    return counts <= {0, FULL} and not drawing.weighted and drawing.method not in ("FULL", "PRIORITY")


def choose_threads(plan: Plan) -> Plan:
    """A sampler's plan with all threads at work, instead of one; batches and rows keep their order."""
    return on_sample(plan, lambda sample: replace(sample, way=replace(sample.way, threads=None)))


def fuse_gather(plan: Plan) -> Plan:
    """A stream's plan whose threads gather what they sampled, instead of the reader when a batch is handed over."""
    return on_sample(plan, _fused)


def _fused(plan: SamplePlan) -> SamplePlan:
    return plan if plan.delivers == "rows" else replace(plan, way=replace(plan.way, fused=True))


Rule = Callable[[Plan], Plan]
"""Takes a plan and gives an equivalent one: no rule changes a result."""

RULES: tuple[Rule, ...] = (
    distinct_filters,
    push_filters,
    prune_types,
    prune_columns,
    choose_form,
    choose_method,
    choose_threads,
    fuse_gather,
)


def optimize(plan: Plan, rules: Sequence[Rule] = RULES) -> Plan:
    """The plan after every rule; one that is explained remembers what it was, and which rules changed it."""
    if isinstance(plan, ExplainPlan):
        return _explained(plan, rules)
    for rule in rules:
        plan = rule(plan)
    return plan


def _explained(plan: ExplainPlan, rules: Sequence[Rule]) -> ExplainPlan:
    found, names = plan.plan, []
    if isinstance(found, ExplainPlan):
        return replace(plan, bound=found, plan=_explained(found, rules))
    for rule in rules:
        changed = rule(found)
        if changed != found:
            names.append(rule.__name__)
        found = changed
    return replace(plan, bound=plan.plan, plan=found, rules=tuple(names))
