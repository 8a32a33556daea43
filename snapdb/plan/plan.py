"""The base class of plans: immutable values that have effects, a row source, and a tree for EXPLAIN."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple

from snapdb.errors import BindError, DatabaseError
from snapdb.plan.queries import BoundQuery
from snapdb.plan.scope import BindContext
from snapdb.sql.syntax import Statement


@dataclass(slots=True)
class PlanNode:
    """An operator in the tree that EXPLAIN shows, with the operators that supply its rows."""

    operator: str
    detail: str = ""
    children: tuple[PlanNode, ...] = ()
    estimates: Mapping[str, int | float] = field(default_factory=dict)
    """The estimated rows, bytes and seconds by name."""
    key: Hashable = None
    """The key by which the measured numbers are assigned later, or None."""
    actual: dict[str, object] = field(default_factory=dict)
    """The measured numbers by name, including the names in `estimates`. Empty if the operator did not run."""

    def walk(self) -> Iterator[PlanNode]:
        """Yield this node and its descendants, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def measure(self, numbers: Mapping[str, object]) -> None:
        """Set the measured numbers, and their ratios to the estimates where both exist."""
        self.actual = dict(numbers)
        ratio = {}
        for name, estimate in self.estimates.items():
            if estimate and isinstance(measured := numbers.get(name), int | float):
                ratio[name] = round(measured / estimate, 3)
        if ratio:
            self.actual["ratio"] = ratio


@dataclass(frozen=True, slots=True)
class Plan(ABC):
    """A bound statement. The module of each statement family defines its plan types."""

    reads: ClassVar[bool] = False
    """Whether plans of this type never change the database."""
    transactional: ClassVar[bool] = False
    """Whether plans of this type are allowed between BEGIN and COMMIT."""
    ruled: ClassVar[bool] = False
    """Whether the optimizer rules apply to plans of this type."""

    @abstractmethod
    def describe(self) -> PlanNode:
        """Return the plan as a tree of operators, without estimates."""

    def children(self) -> Mapping[str, Plan]:
        """Return the child plans by field name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Plan)}

    def with_children(self, change: Callable[[Plan], Plan]) -> Plan:
        """Return the same plan with `change` applied to each child."""
        changed = {name: change(child) for name, child in self.children().items()}
        return replace(self, **changed) if changed else self

    def is_ruled(self) -> bool:
        """Return whether the rules apply to this plan or to a part of it."""
        return self.ruled or any(child.is_ruled() for child in self.children().values())

    def optimized(self, rules: Sequence[Rule]) -> Plan:
        """Return the plan after applying every rule."""
        plan: Plan = self
        for rule in rules:
            plan = rule(plan)
        return plan

    def source(self) -> BoundQuery | None:
        """Return the query that supplies the rows, or None if there is none or if files are copied unchanged."""
        return None

    def is_read(self) -> bool:
        """Return whether this plan leaves the database unchanged, because of its type or because it is a dry run."""
        return self.reads

    def fits_transaction(self) -> bool:
        """Return whether this plan is allowed between BEGIN and COMMIT."""
        return self.transactional

    def check_allowed(
        self, statement: Statement, *, read_only: bool, in_transaction: bool, url: str | None = None
    ) -> None:
        """Raise an error unless the plan may run.

        Raises:
            BindError: A transaction is open, and the statement is not allowed in it.
            DatabaseError: The plan writes, and the database is open read-only, or is a copy of the one published at
                `url`.
        """
        if url is not None and not self.is_read():
            raise DatabaseError(
                f"{url} is a published database, which is read-only; write to the database that publishes it",
                span=statement.span,
                text=statement.source,
                code="read-only-remote",
            )
        if read_only and not self.is_read():
            raise DatabaseError(
                "the database was opened read-only; open it without read_only (--read-only)",
                span=statement.span,
                text=statement.source,
                code="read-only",
            )
        if in_transaction and not self.fits_transaction():
            raise BindError(
                "a transaction can contain only queries and statements about tables; COMMIT it first",
                code="not-in-transaction",
                span=statement.span,
                text=statement.source,
            )


Rule = Callable[[Plan], Plan]
"""Maps a plan to an equivalent one. A rule never changes the result."""

Binder = Callable[[Any, "BindContext"], Plan]
"""Maps a statement of one type to its plan."""


class PlanFamily(NamedTuple):
    """A family of statements, with its binders and the operators of its plans."""

    binders: Mapping[type[Statement], Binder]
    """Maps each statement class to its binder."""
    operators: Mapping[type[Plan], str]
    """Maps each plan class to its operator, as 'module:function'."""


@dataclass(frozen=True, slots=True)
class QueryPlan(Plan):
    """A query that DuckDB runs."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    query: BoundQuery

    def source(self) -> BoundQuery | None:
        return self.query

    def describe(self) -> PlanNode:
        return describe_query(self.query)


@dataclass(frozen=True, slots=True)
class NothingPlan(Plan):
    """A statement with IF EXISTS or IF NOT EXISTS that has no effect."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    why: str

    def describe(self) -> PlanNode:
        return PlanNode("Nothing", self.why)


def describe_query(query: BoundQuery) -> PlanNode:
    """Describe a query on a single line."""
    return PlanNode("Query", " ".join(query.text.split()))
