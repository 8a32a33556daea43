"""What every plan is: a frozen value that says what it changes, what it takes its rows from, and how it is shown."""

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
    """One operator of a plan as EXPLAIN shows it, with those that it takes its rows from."""

    operator: str
    detail: str = ""
    children: tuple[PlanNode, ...] = ()
    estimates: Mapping[str, int | float] = field(default_factory=dict)
    """rows, bytes, seconds."""
    key: Hashable = None
    """By which its numbers are found; None: it gets none later."""
    actual: dict[str, object] = field(default_factory=dict)
    """What it did, by the names of `estimates` and others; empty: it was not run."""

    def walk(self) -> Iterator[PlanNode]:
        """This node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def measure(self, numbers: Mapping[str, object]) -> None:
        """Put what happened beside the estimates, with the ratio of the two wherever that is a number."""
        self.actual = dict(numbers)
        ratio = {}
        for name, estimate in self.estimates.items():
            if estimate and isinstance(measured := numbers.get(name), int | float):
                ratio[name] = round(measured / estimate, 3)
        if ratio:
            self.actual["ratio"] = ratio


@dataclass(frozen=True, slots=True)
class Plan(ABC):
    """What a statement means once its names are bound. Each kind is in the module of its family."""

    reads: ClassVar[bool] = False
    """Plans of this kind never change the database."""
    transactional: ClassVar[bool] = False
    """Plans of this kind may stand between BEGIN and COMMIT."""
    ruled: ClassVar[bool] = False
    """Rules of the optimizer apply to plans of this kind."""

    @abstractmethod
    def describe(self) -> PlanNode:
        """The plan as a tree of operators, without numbers of what it takes."""

    def children(self) -> Mapping[str, Plan]:
        """The plans that are part of this one, by the field that holds each."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Plan)}

    def with_children(self, change: Callable[[Plan], Plan]) -> Plan:
        """The same plan with each of its children changed."""
        changed = {name: change(child) for name, child in self.children().items()}
        return replace(self, **changed) if changed else self

    def is_ruled(self) -> bool:
        """Whether rules apply to this plan or to a part of it."""
        return self.ruled or any(child.is_ruled() for child in self.children().values())

    def optimized(self, rules: Sequence[Rule]) -> Plan:
        """The plan after every rule."""
        plan: Plan = self
        for rule in rules:
            plan = rule(plan)
        return plan

    def source(self) -> BoundQuery | None:
        """The query that its rows come from; None: there is none, or files are copied as they are."""
        return None

    def is_read(self) -> bool:
        """Whether this plan leaves the database as it is: kinds that do, and dry runs."""
        return self.reads

    def fits_transaction(self) -> bool:
        """Whether this plan may stand between BEGIN and COMMIT."""
        return self.transactional

    def check_allowed(self, statement: Statement, *, read_only: bool, in_transaction: bool) -> None:
        """Nothing when the plan may run.

        Raises:
            BindError: it cannot be part of a transaction, and one is open.
            DatabaseError: it writes, and the database is opened for reading only.
        """
        if read_only and not self.is_read():
            raise DatabaseError(
                "the database is opened read-only; open it without read_only (--read-only)",
                span=statement.span,
                text=statement.source,
                code="read-only",
            )
        if in_transaction and not self.fits_transaction():
            raise BindError(
                "a transaction supports only statements about tables, and queries; COMMIT it first",
                code="not-in-transaction",
                span=statement.span,
                text=statement.source,
            )


Rule = Callable[[Plan], Plan]
"""Takes a plan and returns an equivalent one: no rule changes a result."""

Binder = Callable[[Any, "BindContext"], Plan]
"""Gives the plan of a statement of one kind."""


class PlanFamily(NamedTuple):
    """A family of statements: what binds each of them, and what runs each of its plans."""

    binders: Mapping[type[Statement], Binder]
    """By the type of the statement's tree."""
    operators: Mapping[type[Plan], str]
    """Where the operator of each plan is, as 'module:function'."""


@dataclass(frozen=True, slots=True)
class QueryPlan(Plan):
    """A read that DuckDB runs as it stands."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    query: BoundQuery

    def source(self) -> BoundQuery | None:
        return self.query

    def describe(self) -> PlanNode:
        return describe_query(self.query)


@dataclass(frozen=True, slots=True)
class NothingPlan(Plan):
    """IF EXISTS or IF NOT EXISTS found nothing to do."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    why: str

    def describe(self) -> PlanNode:
        return PlanNode("Nothing", self.why)


def describe_query(query: BoundQuery) -> PlanNode:
    """A query, on one line."""
    return PlanNode("Query", " ".join(query.text.split()))
