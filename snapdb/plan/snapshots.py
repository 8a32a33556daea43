"""Snapshots: CREATE SNAPSHOT and REFRESH SNAPSHOT, and the choice of an encoding for each edge type."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from snapdb.catalog.elements import time_expression
from snapdb.catalog.state import VersionHistory
from snapdb.errors import BindError, SnapdbError, Span
from snapdb.plan.fits import graph_times, misfits
from snapdb.plan.fragment_checks import check_repeatable
from snapdb.plan.names import check_new, find_named
from snapdb.plan.plan import NothingPlan, Plan, PlanFamily, PlanNode
from snapdb.plan.queries import BoundQuery, written
from snapdb.plan.scope import INTEGERS, BindContext
from snapdb.plan.times import LAST, spelled
from snapdb.plan.view_rows import over_views, tables_named
from snapdb.sql.lexer import scan
from snapdb.sql.pattern_tokens import find_patterns
from snapdb.sql.queries import bare_ats
from snapdb.sql.snapshots import CreateSnapshot, RefreshSnapshot
from snapdb.sql.syntax import Name, SqlFragment, TimeBound, WindowBound
from snapdb.sql_engine import Conjunct, Names, SqlSession, no_rows, quote, quote_all
from snapdb.types import (
    ALL_TIME,
    FORMS,
    PINNED,
    Column,
    EdgeElement,
    Filter,
    Form,
    Pin,
    PropertyGraph,
    Snapshot,
    Table,
    TimeUnit,
    VertexElement,
    Window,
)
from snapdb.types.text import did_you_mean

_SMALL_ROWS = 1 << 20
"""The size of materialized rows, in bytes, up to which no other encoding is worthwhile."""
_DEAD_SHARE = 0.01
"""The maximum share of edges outside the snapshot for which a bitmap is chosen.

Sampling through a bitmap takes about 1.5 to 1.7 times as long as sampling from materialized rows, but uses a hundredth
of the space. These are CPU times, measured with 20 million edges, 1 million nodes, fanouts 15, 10, 5 and one thread:
1.5 times at 1 % excluded edges, 1.5 to 1.85 times at 2 %, 1.8 at 5 % and 2.1 to 2.3 at 10 %; with a delta of 1 %, 1.85
times at 1 %.
"""
_OWN_ROWS: tuple[Form, str] = ("materialized", "rows of its own, as no rule chooses an encoding")
_FIRST_MOMENT = 1 - 2**63
"""The earliest event time. The next smaller integer marks edges without a time."""


class Pushed(NamedTuple):
    """The conditions on an edge type that are equivalent to start ≤ event time < stop."""

    element: str
    """The name of the edge type."""
    start: int | None = None
    stop: int | None = None
    filters: tuple[Filter, ...] = ()
    """The conditions."""


@dataclass(frozen=True, slots=True)
class CreateSnapshotPlan(Plan):
    """CREATE SNAPSHOT: pin the elements of a graph at a version and in a time window."""

    ruled: ClassVar[bool] = True

    name: str
    graph: PropertyGraph
    version: int
    tables: Mapping[str, Table]
    """The tables at that version by case-folded name."""
    window: Window
    unit: TimeUnit | None
    filters: tuple[Filter, ...]
    replaces: Snapshot | None
    pin: Pin = PINNED
    layout: Form | None = None
    """The encoding from WITH (layout = …), or None for the cheapest one for each edge type."""
    refreshes: bool = False
    """Whether this is a refresh of `replaces` instead of a new snapshot with the same name."""
    pushed: tuple[Pushed, ...] = ()
    """The conditions of `filters` that are pushed down to event times, with at most one entry per edge type."""
    cheapest: bool = False
    """Whether edge types without `layout` get the cheapest encoding, instead of materialized rows."""

    def filters_of(self, element: str) -> tuple[Filter, ...]:
        """Return the conditions on an element."""
        return tuple(f for f in self.filters if f.element == element)

    def bounds_of(self, element: str) -> Pushed:
        """Return the pushed conditions of an element, without bounds if there are none."""
        return next((p for p in self.pushed if p.element == element), Pushed(element))

    def describe(self) -> PlanNode:
        vertices = (self._describe_vertices(vertex.name) for vertex in self.graph.vertices)
        edges = (self._describe_edges(edge.name) for edge in self.graph.edges)
        bounds = _time_bounds_text(self.window.start, self.window.stop, self.unit)
        detail = f"{self.name} of {self.graph.name}{f' for {bounds}' if bounds else ''}"
        return PlanNode("Snapshot", detail, (*vertices, *edges))

    def _describe_vertices(self, name: str) -> PlanNode:
        conditions = [f.condition for f in self.filters_of(name)]
        return PlanNode("Vertices", f"{name}{_conditions_text(conditions)}")

    def _describe_edges(self, name: str) -> PlanNode:
        pushed = self.bounds_of(name)
        conditions = [f.condition for f in self.filters_of(name) if f not in pushed.filters]
        bounds = _time_bounds_text(pushed.start, pushed.stop, self.unit)
        form = self.layout or ("the cheapest encoding" if self.cheapest else "rows of its own")
        order = f", by time order {bounds}" if bounds else ""
        return PlanNode("Edges", f"{name} as {form}{order}{_conditions_text(conditions)}")


@dataclass(frozen=True, slots=True)
class RefreshPlan(Plan):
    """REFRESH SNAPSHOT: resolve a snapshot again, and replace its previous state."""

    create: CreateSnapshotPlan
    before: Snapshot
    full: bool
    """Whether to rebuild everything from the tables, without reusing existing artifacts."""
    dry_run: bool
    """Whether the statement only reports the changes."""

    def is_read(self) -> bool:
        return self.dry_run

    def describe(self) -> PlanNode:
        how = "from the tables" if self.full else "incrementally"
        return PlanNode("Refresh", f"{self.before.name} {how}", (self.create.describe(),))


def _time_bounds_text(start: int | None, stop: int | None, unit: TimeUnit | None) -> str:
    """Format event-time bounds as text, or return an empty string if there are none."""
    begin, end = (
        moment if moment is None or unit != "timestamp" else f"'{spelled(moment)}'" for moment in (start, stop)
    )
    bounds = [f">= {begin}"] * (begin is not None) + [f"< {end}"] * (end is not None)
    return f"event time {' and '.join(bounds)}" if bounds else ""


def _conditions_text(conditions: list[str]) -> str:
    return f", where {' and '.join(conditions)}" if conditions else ""


def _bind_create_snapshot(statement: CreateSnapshot, context: BindContext) -> Plan:
    """Bind a snapshot. Relative versions and windows are resolved, and the pin records them for REFRESH."""
    replacing = ("snapshot",) if statement.or_replace or statement.if_not_exists else ()
    exists = check_new(context.catalog, statement.name, replacing) is not None
    if exists and statement.if_not_exists:
        return NothingPlan(f'snapshot "{statement.name}" already exists')
    if ("schema", statement.name.text.lower()) in context.catalog.definitions:
        raise BindError(
            f'schema "{statement.name}" already exists, and the name of a snapshot is one, too; choose another name',
            span=statement.name.span,
            code="exists",
        )
    graph = _reduced(find_named(context.catalog.graph, statement.graph), statement.elements)
    version = context.catalog.version if statement.at is None else context.resolve_version(statement.at)
    tables = _check_tables(context, graph, version, statement)
    bound = statement.event_time
    unit = event_unit(graph, tables, None if bound is None else bound.span)
    window = ALL_TIME if bound is None else _bind_window(context, bound, unit, graph, tables)
    filters = _filters(context, graph, tables, statement.where) if statement.where else ()
    return CreateSnapshotPlan(
        name=statement.name.text,
        graph=graph,
        version=version,
        tables=tables,
        window=window,
        unit=unit,
        filters=filters,
        replaces=context.catalog.snapshots.get(statement.name.text.lower()),
        pin=_pin(statement),
        layout=None if statement.layout is None else statement.layout.value,
    )


def _reduced(graph: PropertyGraph, elements: Sequence[Name]) -> PropertyGraph:
    """Return the graph reduced to these elements and the vertex types at the ends of its edges."""
    if not elements:
        return graph
    wanted: set[str] = set()
    for name in elements:
        meant = graph.labelled(name.text)
        if not meant:
            known = [label for e in graph.elements for label in (e.name, *e.labels)]
            hint = did_you_mean(name.text, known) or f"; the graph has {', '.join(known)}"
            raise BindError(
                f'element "{name}" does not exist in graph {graph.name}{hint}', span=name.span, code="unknown-element"
            )
        for element in meant:
            ends = {element.source, element.destination} if isinstance(element, EdgeElement) else set()
            # An edge without its end types could not be sampled, so they are included.
            wanted |= {element.name, *ends}
    return replace(
        graph,
        vertices=tuple(v for v in graph.vertices if v.name in wanted),
        edges=tuple(e for e in graph.edges if e.name in wanted),
    )


def _check_tables(
    context: BindContext, graph: PropertyGraph, version: int, statement: CreateSnapshot
) -> Mapping[str, Table]:
    """Return the tables at the version. Raises BindError if they do not fit the graph."""
    tables = context.tables_at(version)
    if problem := next(misfits(graph, tables), None):
        raise BindError(
            f"version {version} does not match graph {graph.name}: {problem}; choose another version, or "
            "create the graph again",
            span=statement.at.span if statement.at else statement.graph.span,
            code="does-not-fit",
        )
    return tables


def _pin(statement: CreateSnapshot) -> Pin:
    """Return the parts that REFRESH resolves again: the newest version or a tag, and a window to the latest event."""
    at, bound = statement.at, statement.event_time
    # Only a TAG can move to another version. VERSION and TIMESTAMP are pinned for good.
    tag = scan(at.value.text)[0].string_value if at is not None and at.kind == "TAG" else None
    trails = isinstance(bound, WindowBound) and bound.ending is None
    length = bound.length.text if isinstance(bound, WindowBound) and trails else None
    return Pin(at is None, tag, length)


def _element_shapes(graph: PropertyGraph, tables: Mapping[str, Table]) -> Names:
    """Return every element of a graph as a view with its columns and without rows."""
    views = {e.name: no_rows(_shape_columns(e, tables[e.table.lower()])) for e in graph.elements}
    return Names(views, lasting=True)


def _shape_columns(element: VertexElement | EdgeElement, table: Table) -> tuple[Column, ...]:
    """Return the columns that a condition can name. PROPERTIES only affects which of them are shown."""
    return (*table.columns, Column("e_id", "BIGINT")) if isinstance(element, EdgeElement) else table.columns


def _check_filters(session: SqlSession, filters: Sequence[Filter]) -> None:
    """Raise an error if the conditions are not valid in their stored form."""
    selects = (f"SELECT 1 FROM {quote(f.element)} WHERE {f.condition}" for f in filters)
    session.describe("\nUNION ALL ".join(selects))


def _filters(
    context: BindContext, graph: PropertyGraph, tables: Mapping[str, Table], where: SqlFragment
) -> tuple[Filter, ...]:
    """Split a condition into parts, each of which names columns of a single element."""
    tokens = scan(where.text)
    for first, last in find_patterns(tokens):
        raise BindError(
            "a subquery is not supported here, and GRAPH_TABLE is one; load its result as a column",
            span=Span(where.span.start + tokens[first].span.start, where.span.start + tokens[last].span.stop),
            code="subquery-here",
        )
    shapes = _element_shapes(graph, tables)
    query = written(where, shapes, replacements=[(span, '"at"') for span in bare_ats(where.text)])
    with context.session(query) as session:
        check_repeatable(context.store.sql_engine, where, "the content of a snapshot must not change")
        session.describe(query.text, around=(f"SELECT 1 FROM {quote_all(shapes.views)} WHERE (", ")"))
        columns = {e.name: {c.name.lower() for c in _shape_columns(e, tables[e.table.lower()])} for e in graph.elements}
        filters = tuple(_filter(part, columns, where.span) for part in session.conjuncts(query.text))
        _check_filters(session, filters)  # checks the form in which they are stored
        return filters


def _element_of(parts: tuple[str, ...], columns: Mapping[str, set[str]]) -> str | None:
    """Return the element to which a reference to a column or row belongs, or None for a parameter of a lambda."""
    names = [name.lower() for name in parts]
    for name in names[:-1] or names:
        if owner := next((element for element in columns if element.lower() == name), None):
            return owner
    return next((element for element, known in columns.items() if names[0] in known), None)


def _filter(part: Conjunct, columns: Mapping[str, set[str]], span: Span) -> Filter:
    condition = part.sql
    try:
        named = part.references
    except BindError as error:
        error.span = span
        raise
    owners = {owner for parts in named if (owner := _element_of(parts, columns)) is not None}
    # A condition filters the rows of one element. A condition over two elements would be a join.
    if len(owners) != 1:
        problem = (
            f"{condition} refers to {' and '.join(sorted(owners))}" if owners else f"{condition} refers to no column"
        )
        raise BindError(
            f"each condition of WHERE, between ANDs, must refer to exactly one element; {problem}",
            span=span,
            code="mixed-condition",
        )
    return Filter(owners.pop(), condition)


def event_unit(graph: PropertyGraph, tables: Mapping[str, Table], bound: Span | None) -> TimeUnit | None:
    """Return the unit of the graph's event times.

    Args:
        graph: The graph.
        tables: The tables of the graph.
        bound: The span of FOR EVENT_TIME, which requires event times of one unit, or None without the clause.
    """
    units: dict[TimeUnit, str] = {}
    for name, _, unit in graph_times(graph, tables):
        units.setdefault(unit, name)
    if bound is not None and len(units) > 1:
        raise BindError(
            f"event times must be of the same kind: {units['integer']} has integers, {units['timestamp']} has "
            "timestamps; "
            "choose "
            "elements by ELEMENTS, or cast one of them when loading",
            span=bound,
            code="mixed-times",
        )
    if bound is not None and not units:
        raise BindError(
            f"this clause needs event times, but no element of graph {graph.name} has an EVENT TIME",
            span=bound,
            code="needs-event-time",
        )
    return next(iter(units), None)


def _bind_window(
    context: BindContext,
    bound: TimeBound | WindowBound,
    unit: TimeUnit | None,
    graph: PropertyGraph,
    tables: Mapping[str, Table],
) -> Window:
    """Return the window as half-open integer bounds."""
    if isinstance(bound, WindowBound):
        ending = None if bound.ending is None else context.time_value(bound.ending, unit)
        return _trailing_window(context, context.bind_query(bound.length), unit, graph, tables, ending)
    start = None if bound.start is None else context.time_value(bound.start, unit)
    stop = context.time_value(bound.stop, unit)
    if start is not None and stop < start:
        raise BindError(
            "the window ends before it starts; write the earlier time first", span=bound.span, code="empty-window"
        )
    closed = bound.kind != "FROM"
    return _closed_window(start, stop) if closed else Window(start, stop)


def _trailing_window(
    context: BindContext,
    length: BoundQuery,
    unit: TimeUnit | None,
    graph: PropertyGraph,
    tables: Mapping[str, Table],
    ending: int | None = None,
) -> Window:
    """Return the window of that length up to and including a time, by default the time of the latest event.

    Raises:
        BindError: The length is not positive or has the wrong unit, or the graph has no event.
    """
    check_length(context, length, unit, "WINDOW")
    last = _latest_event(context, graph, tables, length.span) if ending is None else ending
    if unit == "integer":
        before = last - context.whole(length)
    else:
        # DuckDB subtracts the interval, because months differ in length.
        before = context.number(length, f"SELECT epoch_us(make_timestamp({last}) - (", "))")
    if before >= last:
        raise BindError("the length of WINDOW must be greater than zero", span=length.span, code="out-of-range")
    return _closed_window(max(before + 1, _FIRST_MOMENT), last)


def _closed_window(start: int | None, last: int) -> Window:
    """Return the window up to and including a time."""
    return Window(start, None if last == LAST else last + 1, closed=True)  # no event time is later than LAST


def check_length(context: BindContext, length: BoundQuery, unit: TimeUnit | None, keyword: str) -> None:
    """Raise an error unless the length after a keyword has the unit of the graph's event times."""
    type_ = context.type_of(length)
    if unit == "integer" and type_ not in INTEGERS:
        raise BindError(
            f"this graph's event times are integers: write {keyword} 100, not {length.text}",
            span=length.span,
            code="time-kind",
        )
    if unit == "timestamp" and type_ != "INTERVAL":
        raise BindError(
            f"this graph's event times are timestamps: write {keyword} INTERVAL '7 days', not {length.text}",
            span=length.span,
            code="time-kind",
        )


def _latest_event(context: BindContext, graph: PropertyGraph, tables: Mapping[str, Table], span: Span) -> int:
    """Return the greatest event time of the graph's edges. Edges without a time do not count."""
    latest = []
    for edge in graph.edges:
        table = tables[edge.table.lower()]
        if edge.event_time is None or (column := table.column(edge.event_time)) is None:
            continue
        greatest = BoundQuery(
            f"SELECT max({time_expression(column)}) FROM ({context.rows(table, ordered=False)})", span
        )
        with context.session(greatest) as session:
            latest += [value for (value,) in session.rows(greatest.text) if value is not None]
    if not latest:
        raise BindError(
            f"graph {graph.name} has no edge with an event time, so WINDOW has no latest event to "
            "end at; add ENDING and a time",
            span=span,
            code="needs-event-time",
        )
    return int(max(latest))


def _bind_refresh(statement: RefreshSnapshot, context: BindContext) -> Plan:
    """Resolve the snapshot again. Returns a NothingPlan if no part of it is relative, unless FULL is specified."""
    name = statement.name
    snapshot = find_named(context.catalog.snapshot, name)
    if not snapshot.pin.moves and not statement.full:
        return NothingPlan(
            f"nothing to refresh: {snapshot.name} is pinned at version {snapshot.version} and its window is "
            "fixed; write CREATE OR REPLACE SNAPSHOT to change it"
        )
    version = _refreshed_version(context, snapshot, name)
    tables = context.tables_at(version)
    _check_fits(context, snapshot, version, tables, name)
    window, length = snapshot.window, snapshot.pin.window
    if length is not None:
        # The length's text is stored and is not part of this statement, so its errors point to the snapshot's name.
        query = replace(context.bind_query(SqlFragment(length, name.span)), pieces=())
        try:
            window = _trailing_window(context, query, snapshot.unit, snapshot.graph, tables)
        except BindError as error:
            gone = f"the window of snapshot {snapshot.name} ends at the latest event, but the graph has no events now"
            error.message = f"{gone}; load edges first, or drop the snapshot"
            raise
    create = CreateSnapshotPlan(
        name=snapshot.name,
        graph=snapshot.graph,
        version=version,
        tables=tables,
        window=window,
        unit=event_unit(snapshot.graph, tables, None),
        filters=snapshot.filters,
        replaces=snapshot,
        pin=snapshot.pin,
        layout=next((form for form in FORMS if form == snapshot.layout), None),
        refreshes=True,
    )
    return RefreshPlan(create, snapshot, statement.full, statement.dry_run)


def _refreshed_version(context: BindContext, snapshot: Snapshot, name: Name) -> int:
    if snapshot.pin.tag is not None:
        try:
            return VersionHistory(context.store.catalog_db).version_of_tag(snapshot.pin.tag)
        except SnapdbError as error:
            error.message = f"snapshot {snapshot.name} follows a tag that was dropped: {error.message}"
            error.span = name.span
            raise
    return context.catalog.version if snapshot.pin.head else snapshot.version


def _check_fits(
    context: BindContext, snapshot: Snapshot, version: int, tables: Mapping[str, Table], name: Name
) -> None:
    """Raise an error unless the tables at the version fit the snapshot."""
    problem = next(misfits(snapshot.graph, tables), None)
    if problem is None and snapshot.window != ALL_TIME:
        unit = event_unit(snapshot.graph, tables, None)
        if unit != snapshot.unit:
            problem = f"its event times are {unit}s now, but its window has {snapshot.unit}s"
    if problem is None and snapshot.filters:
        problem = _wrong_filter(context, snapshot, tables)
    if problem is not None:
        raise BindError(
            f"version {version} no longer matches snapshot {snapshot.name}: {problem}; create it again",
            span=name.span,
            code="does-not-fit",
        )


def _wrong_filter(context: BindContext, snapshot: Snapshot, tables: Mapping[str, Table]) -> str | None:
    """Return why a condition is not valid at the version, or None if all are valid."""
    with context.store.sql_engine.session(_element_shapes(snapshot.graph, tables)) as session:
        for condition in snapshot.filters:
            try:
                _check_filters(session, [condition])
            except SnapdbError as error:
                return f"its condition {condition.condition} is not valid: {error.message}"
    return None


class Encoding(NamedTuple):
    """An encoding, its size in bytes on disk in addition to the topology, and the reason for choosing it."""

    form: Form
    bytes: int
    reason: str


class EdgeShape(NamedTuple):
    """The numbers that determine the encoding of one edge type."""

    element: str
    """The name of the edge type."""
    nodes: int
    """The number of nodes with a row."""
    edges: int
    """The number of edges in the snapshot."""
    held: int
    """The number of edges in the topology."""
    width: int
    """The bytes per edge in materialized rows: neighbour, edge id, times and weight."""
    prefix: bool
    """Whether the snapshot contains a prefix of every row."""
    patched: bool = False
    """Whether the topology has a delta, which makes a bitmap slower."""

    def choose_encoding(self, layout: Form | None, *, cheapest: bool = True) -> Encoding:
        """Return the encoding specified by WITH, or else the cheapest one.

        Args:
            layout: The encoding, or None to choose one.
            cheapest: Whether to choose the cheapest encoding instead of materialized rows, which can represent any
                snapshot.

        Raises:
            BindError: The encoding cannot represent this snapshot.

        >>> EdgeShape("bought", 1000, 90_000, 100_000, 16, True).choose_encoding(None).form
        'ends'
        """
        form, reason = (
            (_cheapest_form(self) if cheapest else _OWN_ROWS) if layout is None else (layout, "set by WITH (layout)")
        )
        instead = f"leave WITH (layout) out for {self.element}, or write 'bitmap' or 'materialized'"
        if form == "full" and self.edges < self.held:
            raise BindError(
                f"layout 'full' cannot exclude edges, but the snapshot excludes {self.held - self.edges:,}; {instead}",
                code="layout-does-not-fit",
            )
        if form == "ends" and not self.prefix:
            raise BindError(
                "layout 'ends' can exclude only the latest edges of each node, but the snapshot excludes others; "
                f"{instead}",
                code="layout-does-not-fit",
            )
        return Encoding(form, _encoding_bytes(form, self), reason)


def _encoding_bytes(form: Form, shape: EdgeShape) -> int:
    """Return the size in bytes of an encoding on disk, in addition to the topology.

    >>> shape = EdgeShape("e", 10, 50, 100, 16, True)
    >>> _encoding_bytes("ends", shape), _encoding_bytes("bitmap", shape)
    (40, 16)
    """
    match form:
        case "full":
            return 0
        case "ends":
            return 4 * shape.nodes
        case "bitmap":
            return 8 * ((shape.held + 63) // 64)
        case "materialized":
            return shape.width * shape.edges + 8 * (shape.nodes + 1)


def _cheapest_form(shape: EdgeShape) -> tuple[Form, str]:
    # In order of sampling cost: full and ends read the topology directly, whereas a bitmap tests every edge.
    if shape.edges == shape.held:
        return "full", "it contains all edges of the topology"
    own = _encoding_bytes("materialized", shape)
    if shape.prefix:
        ends = _encoding_bytes("ends", shape)
        if own <= ends:
            return "materialized", f"rows of its own take fewer bytes ({own:,}) than one end offset per node ({ends:,})"
        return "ends", f"adjacency is time-sorted, one end offset per node: {ends:,} bytes instead of {own:,}"
    dead = 1 - shape.edges / shape.held
    if own <= _SMALL_ROWS:
        return "materialized", f"rows of its own are small: {own:,} bytes"
    if dead <= _DEAD_SHARE and not shape.patched:
        bits = _encoding_bytes("bitmap", shape)
        return "bitmap", f"only {dead:.1%} of the edges are excluded: {bits:,} bytes instead of {own:,}"
    return "materialized", f"{dead:.1%} of the edges are excluded: skipping them would slow down every batch"


def _views_of_created(statement: CreateSnapshot, context: BindContext) -> tuple[list[str], int | None]:
    version = None if statement.at is None else context.resolve_version(statement.at)
    return tables_named(context.catalog.graphs.get(statement.graph.text.lower())), version


def _views_of_refreshed(statement: RefreshSnapshot, context: BindContext) -> tuple[list[str], int | None]:
    """Return the tables of a snapshot that follows the head. Others keep the rows of their version."""
    snapshot = context.catalog.snapshots.get(statement.name.text.lower())
    follows = snapshot is not None and snapshot.pin.head
    version = context.catalog.version if statement.dry_run else None
    return tables_named(snapshot.graph if snapshot is not None and follows else None), version


FAMILY = PlanFamily(
    binders={
        CreateSnapshot: over_views(_bind_create_snapshot, _views_of_created),
        RefreshSnapshot: over_views(_bind_refresh, _views_of_refreshed),
    },
    operators={
        CreateSnapshotPlan: "snapdb.execute.snapshots:create_snapshot",
        RefreshPlan: "snapdb.execute.snapshots:refresh_snapshot",
    },
)
