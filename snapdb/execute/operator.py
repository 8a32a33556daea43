"""The context that operators run in, what they return, and where each is.

An operator is a function of a plan and a context that returns `Rows`, in the module of its family.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pyarrow as pa

from snapdb.catalog import Catalog
from snapdb.errors import QueryError
from snapdb.execute.transactions import Review, TransactionManager
from snapdb.loading.shelf import CacheShelf
from snapdb.plan import FAMILIES, Plan
from snapdb.plan.plan import NothingPlan
from snapdb.plan.rules import Rule
from snapdb.plan.scope import BindContext
from snapdb.sql_engine import Session
from snapdb.storage.catalog_db.locks import TablesLock
from snapdb.storage.store import Store
from snapdb.storage.tables.changes import Change

Progress = Callable[[str, float | None], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement that is not a query did."""

    message: str
    """One line for a person."""
    rows: int = 0
    """Rows added or removed."""


Rows = Generator[pa.RecordBatch, None, Outcome | None]
"""A query yields at least one batch, which tells its schema; any other statement yields none and returns an Outcome."""


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """What operators work on: an open database, and the statement that is run."""

    store: Store
    bind_context: BindContext
    """The catalog as it was when the statement was bound."""
    transactions: TransactionManager
    """Where changes go: to a version each, or to the open transaction."""
    tables: TablesLock
    """Held shared since before the catalog was read."""
    caches: CacheShelf
    """What streams of this process leave of their caches."""
    rules: Sequence[Rule]
    """What plans are optimized by."""
    progress: Progress | None = None
    """Called with what is being done, and how much of it is done (0 to 1) where that is known."""
    stopped: threading.Event = field(default_factory=threading.Event)
    threads: int | None = None
    """That may be taken at most; None: all cores."""

    @property
    def catalog(self) -> Catalog:
        """The catalog as it was when the statement was bound."""
        return self.bind_context.catalog

    def report(self, what: str, share: float | None) -> None:
        """Tell what is being done, and how much of it is."""
        if self.progress is not None:
            self.progress(what, share)

    def step(self, what: str, share: float | None) -> None:
        """Report, and stop where that was asked for: between two steps of long work of our own."""
        self.check_stopped()
        self.report(what, share)

    def watching(self, session: Session, what: str) -> AbstractContextManager[None]:
        """Report how far the session's query has come while the block runs, where somebody listens."""
        if self.progress is None:
            return nullcontext()
        self.report(what, None)
        return session.watched(lambda share: self.report(what, share))

    def check_stopped(self) -> None:
        """Raises QueryError with code 'interrupted' after a request to stop."""
        if self.stopped.is_set():
            raise QueryError("interrupted", code="interrupted")


def publish(
    context: ExecutionContext,
    changes: Sequence[Change],
    message: str | None,
    did: str,
    rows: int,
    review: Review | None = None,
) -> Outcome:
    """Commit the changes, or add them to the open transaction.

    Args:
        did: What they do, for a person.
        rows: How many rows they add or remove.
        review: Told, before the commit, how many new keys the id maps of the tables get.
    """
    version = context.transactions.add(changes, message, review)
    return Outcome(f"{did}, when the transaction commits" if version is None else f"version {version}: {did}", rows)


def nothing(plan: NothingPlan, context: ExecutionContext) -> Rows:
    """Do nothing, and report why there is nothing to do."""
    yield from ()
    return Outcome(plan.why)


OPERATORS = {plan: operator for family in FAMILIES for plan, operator in family.operators.items()}
"""Plan → the operator that runs it, as 'module:name': a function of the plan and the context.

Its module is imported when the first such plan runs, so that a SELECT loads no numba.
"""


def run(plan: Plan, context: ExecutionContext) -> Rows:
    """Run a plan in a context. Nothing happens before the first item is requested."""
    rows: Rows = operator_of(type(plan))(plan, context)
    return rows


def operator_of(plan: type) -> Any:
    """The operator that runs plans of a type."""
    module, _, name = OPERATORS[plan].partition(":")
    return getattr(import_module(module), name)
