"""Introspection: SHOW, DESCRIBE, SUMMARIZE and DROP."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from snapdb.errors import BindError, SnapdbError
from snapdb.plan.constraints import check_unreferenced
from snapdb.plan.names import find_named, find_table, find_tag, tables_of
from snapdb.plan.plan import NothingPlan, Plan, PlanFamily, PlanNode, QueryPlan
from snapdb.plan.scope import BindContext
from snapdb.sql.lexer import scan
from snapdb.sql.show import Describe, Drop, Kind, Show, Shown, Summarize
from snapdb.sql.syntax import Name, SqlFragment
from snapdb.sql_engine import qualified
from snapdb.types import Cache, Definition, PropertyGraph, Sampler, Snapshot, Table, Tag, Task

Target = Table | Definition | PropertyGraph | Snapshot | Sampler | Cache | Task | Tag
"""An object that DROP can drop."""
Dependant = Table | Definition | PropertyGraph | Snapshot | Sampler | Cache
"""An object that CASCADE can drop too."""
_NAMED = 8
"""The maximum number of dependants that an error message names."""
KINDS: dict[type, str] = {
    Table: "table",
    Definition: "definition",
    PropertyGraph: "graph",
    Snapshot: "snapshot",
    Sampler: "sampler",
    Cache: "cache",
}
"""Maps each class of dependants to its name in messages, in listing order."""


def kind_of(thing: Dependant) -> str:
    """Return the kind of an object for messages."""
    return thing.kind if isinstance(thing, Definition) else KINDS[type(thing)]


@dataclass(frozen=True, slots=True)
class ShowPlan(Plan):
    """SHOW: list the objects of one kind."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    what: Shown
    like: str | None
    tables: tuple[Table, ...]
    """The tables to list, at the version specified by AT."""
    of: str | None
    """The table whose versions or columns are listed, the graph whose snapshots are listed, or None for all."""

    def describe(self) -> PlanNode:
        of = "" if self.of is None else f" of {self.of}"
        like = "" if self.like is None else f" like {self.like!r}"
        return PlanNode("Show", f"{self.what.lower()}{of}{like}")


@dataclass(frozen=True, slots=True)
class DescribePlan(Plan):
    """DESCRIBE: show the parts of one object."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    target: Table | PropertyGraph | Snapshot | Sampler | Cache | Task

    def describe(self) -> PlanNode:
        return PlanNode("Describe", self.target.name)


@dataclass(frozen=True, slots=True)
class SummarizePlan(Plan):
    """SUMMARIZE: compute a snapshot's statistics."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    snapshot: Snapshot

    def describe(self) -> PlanNode:
        return PlanNode("Summarize", self.snapshot.name)


@dataclass(frozen=True, slots=True)
class DropPlan(Plan):
    """DROP: remove a table, definition, graph, snapshot, sampler, cache, task or tag."""

    transactional: ClassVar[bool] = True

    target: Target
    base: int
    dependants: tuple[Dependant, ...] = ()
    """The objects that CASCADE drops too, dependants first."""
    rows: Table | None = None
    """The table with the rows of a view for graphs, which is dropped with the view."""

    def fits_transaction(self) -> bool:
        return all(isinstance(each, Table | Definition) for each in (self.target, *self.dependants))

    def is_read(self) -> bool:
        return isinstance(self.target, Definition) and self.target.temporary

    def describe(self) -> PlanNode:
        return PlanNode("Drop", self.target.name, tuple(PlanNode("Drop", each.name) for each in self.dependants))


def _bind_show(statement: Show, context: BindContext) -> ShowPlan:
    tables: tuple[Table, ...] = tuple(context.catalog.tables.values())
    if statement.at is not None:
        tables = tuple(context.tables_at(context.resolve_version(statement.at)).values())
    return ShowPlan(statement.what, statement.like, tables, _shown_of(statement, context))


def _shown_of(statement: Show, context: BindContext) -> str | None:
    """Return the object whose versions, columns, snapshots or runs are listed. Versions and runs outlive it."""
    if statement.of is None:
        return None
    if statement.what == "SNAPSHOTS":
        return find_named(context.catalog.graph, statement.of).name
    if statement.what == "TASK RUNS":
        return (
            statement.of.text
            if context.had_runs(statement.of.text)
            else find_named(context.catalog.task, statement.of).name
        )
    if statement.what == "VERSIONS" and context.was_table(statement.of.text):
        return statement.of.text
    if statement.what == "COLUMNS" and context.catalog.is_defined(statement.of.text):
        return statement.of.text
    return find_table(context, statement.of).name


def _bind_describe(statement: Describe, context: BindContext) -> Plan:
    """Bind the object, or a table at the version specified by AT. Without a kind, any object with that name matches."""
    name = statement.name
    if statement.at is not None:
        version = context.resolve_version(statement.at)
        try:
            return DescribePlan(context.table_at(name.text, version))
        except SnapdbError as error:
            error.span = name.span
            raise
    match statement.kind or _kind(context, name.text):
        case "GRAPH":
            return DescribePlan(find_named(context.catalog.graph, name))
        case "SNAPSHOT":
            return DescribePlan(find_named(context.catalog.snapshot, name))
        case "SAMPLER":
            return DescribePlan(find_named(context.catalog.sampler, name))
        case "CACHE":
            return DescribePlan(find_named(context.catalog.cache, name))
        case "TASK":
            return DescribePlan(find_named(context.catalog.task, name))
        case "VIEW":
            find_named(partial(context.catalog.definition, "view"), name)
            source = qualified(name.schema, name.last)
            return QueryPlan(context.bind_query(SqlFragment(f"DESCRIBE {source}", statement.span)))
        case "TABLE" if statement.kind is None:  # DuckDB also describes registered data without a keyword
            return QueryPlan(context.bind_query(SqlFragment(statement.text, statement.span)))
        case _:
            return DescribePlan(find_table(context, name))


def _kind(context: BindContext, name: str) -> str:
    """Return the kind of the object with that name. Samplers, caches and tasks are looked up last."""
    if (kind := context.catalog.kind_of(name)) is not None:
        return kind.upper()
    registered = name.lower() in {source.lower() for source in context.sources}
    catalog = context.catalog
    own = {"SAMPLER": catalog.samplers, "CACHE": catalog.caches, "TASK": catalog.tasks}
    kinds = (kind for kind, known in own.items() if name.lower() in known and not registered)
    return next(kinds, "TABLE")


def _bind_drop(statement: Drop, context: BindContext) -> Plan:
    """Bind the object to drop, with its dependants under CASCADE."""
    kind, name = statement.kind.lower(), statement.name
    try:
        target = _find_target(context, statement.kind, name)
    except BindError as error:
        # Only a missing object is ignored: IF EXISTS must not hide other errors, such as a name of another kind.
        if statement.if_exists and error.code == f"unknown-{kind}":
            return NothingPlan(f'{kind} "{name}" does not exist')
        raise
    if isinstance(target, Table):
        check_unreferenced(context.catalog, target, name, "drop")
    if isinstance(target, Definition) and target.kind == "sequence":
        _check_no_default(context, target, name)
    dependants = _dependants(context, target)
    if dependants and not statement.cascade:
        way = "drop them first" if len(dependants) > 1 else "drop it first"
        raise BindError(
            f"{kind} {target.name} is used by {_dependants_text(dependants)}; {way}, or write DROP {statement.kind} "
            f"{target.name} CASCADE",
            span=name.span,
            code="in-use",
        )
    rows = context.catalog.tables.get(target.name.lower()) if kind == "view" else None
    return DropPlan(target, context.catalog.version, dependants, rows)


def _check_no_default(context: BindContext, sequence: Definition, name: Name) -> None:
    """Raise BindError if the default of a column takes values of a sequence that is to be dropped."""
    for table in context.catalog.tables.values():
        for column in table.columns:
            texts = (t.string_value for t in scan(column.default_expression or "") if t.kind == "string")
            if any(text.lower() == sequence.name.lower() for text in texts):
                raise BindError(
                    f"sequence {sequence.name} is used by the default of {table.name}.{column.name}; drop the column "
                    "or the table first",
                    span=name.span,
                    code="in-use",
                )


def _dependants(context: BindContext, target: Target) -> tuple[Dependant, ...]:
    """Return the dependants of an object: caches first, followed by samplers, snapshots and graphs."""
    match target:
        case Definition(kind="schema"):
            return _objects_of(context, target)
        case Table() | Definition(kind="view"):
            graphs = [g for g in context.catalog.graphs.values() if target.name.lower() in tables_of(g)]
            return (*_snapshots_of(context, graphs), *graphs)
        case Definition():
            return ()
        case PropertyGraph():
            return _snapshots_of(context, [target])
        case Snapshot():
            return _samplers_of(context, [target])
        case Sampler():
            return _caches_of(context, [target])
        case Cache() | Task() | Tag():
            return ()


def _objects_of(context: BindContext, schema: Definition) -> tuple[Dependant, ...]:
    """Return the tables and definitions of a schema, after the objects that depend on them."""
    prefix, catalog = f"{schema.name.lower()}.", context.catalog
    tables = [table for folded, table in catalog.tables.items() if folded.startswith(prefix)]
    definitions = [one for one in catalog.definitions.values() if one.name.lower().startswith(prefix)]
    own: list[Dependant] = [*tables, *definitions]
    others = dict.fromkeys(other for each in own for other in _dependants(context, each))
    return (*others, *own)


def _snapshots_of(context: BindContext, graphs: Sequence[PropertyGraph]) -> tuple[Snapshot | Sampler | Cache, ...]:
    names = {graph.name.lower() for graph in graphs}
    snapshots = [s for s in context.catalog.snapshots.values() if s.graph.name.lower() in names]
    return (*_samplers_of(context, snapshots), *snapshots)


def _samplers_of(context: BindContext, snapshots: Sequence[Snapshot]) -> tuple[Sampler | Cache, ...]:
    names = {snapshot.name.lower() for snapshot in snapshots}
    samplers = [s for s in context.catalog.samplers.values() if s.snapshot.lower() in names]
    return (*_caches_of(context, samplers), *samplers)


def _caches_of(context: BindContext, samplers: Sequence[Sampler]) -> tuple[Cache, ...]:
    names = {sampler.name.lower() for sampler in samplers}
    return tuple(c for c in context.catalog.caches.values() if c.sampler.lower() in names)


def _dependants_text(dependants: Sequence[Dependant]) -> str:
    """Return the kinds and names of the first dependants, and the number of remaining ones."""
    order = list(KINDS)
    named = [f"{kind_of(d)} {d.name}" for d in sorted(dependants, key=lambda d: order.index(type(d)))]
    more = [f"{len(named) - _NAMED} more"] if len(named) > _NAMED else []
    return ", ".join([*named[:_NAMED], *more])


def _find_target(context: BindContext, kind: Kind, name: Name) -> Target:
    match kind:
        case "VIEW" | "MACRO" | "TYPE" | "SEQUENCE" | "SCHEMA":
            return find_named(partial(context.catalog.definition, kind.lower()), name)
        case "TABLE":
            temporary = context.catalog.definitions.get(("table", name.text.lower()))
            return find_table(context, name) if temporary is None else temporary
        case "GRAPH":
            return find_named(context.catalog.graph, name)
        case "SNAPSHOT":
            return find_named(context.catalog.snapshot, name)
        case "SAMPLER":
            return find_named(context.catalog.sampler, name)
        case "TAG":
            return find_tag(context, name)
        case "CACHE":
            return find_named(context.catalog.cache, name)
        case "TASK":
            return find_named(context.catalog.task, name)


FAMILY = PlanFamily(
    binders={
        Show: _bind_show,
        Describe: _bind_describe,
        Summarize: lambda statement, context: SummarizePlan(find_named(context.catalog.snapshot, statement.name)),
        Drop: _bind_drop,
    },
    operators={
        ShowPlan: "snapdb.execute.show.operators:show",
        DescribePlan: "snapdb.execute.show.operators:describe",
        SummarizePlan: "snapdb.execute.show.summarize:summarize",
        DropPlan: "snapdb.execute.show.operators:drop",
    },
)
