"""The session, which runs the statements of one user of a database, and the context of each statement.

An operator is a function that takes a plan and an execution context and returns `Rows`. It is defined in the module of
its statement family.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from snapdb import schedule
from snapdb.builders.context import BuildContext, Progress
from snapdb.catalog import Catalog, load
from snapdb.errors import BindError, SnapdbError
from snapdb.execute.results import Outcome, Result, Rows
from snapdb.execute.session_objects import SessionObjects
from snapdb.execute.transactions import Review, TransactionManager, diagnose_corruption, retry_if_replaced
from snapdb.kernels import buffers
from snapdb.kernels.compilation import reporting_compilation
from snapdb.loading.budgets import CacheBudget
from snapdb.on_first_use import module_on_first_use
from snapdb.plan import Plan, bind, optimize
from snapdb.plan.algorithm_sources import AlgorithmSource
from snapdb.plan.computed import ComputedRows, ComputedSource
from snapdb.plan.plan import NothingPlan, QueryPlan, Rule
from snapdb.plan.planner import operator_of
from snapdb.plan.queries import Parameters
from snapdb.plan.scope import BindContext
from snapdb.plan.searches import PathSearch
from snapdb.remote import attach, attachment_of
from snapdb.sql.syntax import Statement
from snapdb.sql_engine import SqlEngine
from snapdb.storage import check
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import open_db_dir
from snapdb.storage.catalog_db.locks import TablesLock
from snapdb.storage.disk import Disk
from snapdb.storage.store import Store
from snapdb.storage.tables.commit import Change
from snapdb.types import Schedule

if TYPE_CHECKING:
    from snapdb.algorithms import rows as algorithm_rows
    from snapdb.paths import search as path_searches
else:
    algorithm_rows = module_on_first_use("snapdb.algorithms.rows")
    path_searches = module_on_first_use("snapdb.paths.search")  # only queries that search paths need numba

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ExecutionContext(BuildContext):
    """The context of an operator: an open database and the state of the running statement."""

    bind_context: BindContext
    """The catalog at the time when the statement was bound."""
    transactions: TransactionManager
    """The transaction manager, which commits changes immediately or adds them to the open transaction."""
    tables: TablesLock
    """The shared table lock, which was acquired before the catalog was read."""
    caches: CacheBudget
    """The memory that this process's streams can use for caches."""
    rules: Sequence[Rule] | None
    """The optimizer rules, or None for all of them."""
    threads: int | None
    """The maximum number of threads, or None for one per core."""
    objects: SessionObjects
    """The prepared statements and temporary definitions of the session."""

    @property
    def catalog(self) -> Catalog:
        """The catalog at the time when the statement was bound."""
        return self.bind_context.catalog

    def publish(
        self, changes: Sequence[Change], message: str | None, did: str, rows: int, review: Review | None = None
    ) -> Outcome:
        """Commit the changes, or add them to the open transaction.

        Args:
            changes: The changes.
            message: The commit message.
            did: A description of the changes, for the user.
            rows: The number of rows that the changes add or remove.
            review: Called before the commit with the number of new keys per id map of the tables.
        """
        version = self.transactions.add(changes, message, review)
        return Outcome(f"{did}, when the transaction commits" if version is None else f"version {version}: {did}", rows)


def _next_firing(planned: Schedule, after: int) -> int | None:
    """Return the next scheduled run. Only lists of tasks need it."""
    return schedule.next_firing(planned, after)


def query(plan: QueryPlan, context: ExecutionContext) -> Rows:
    """Run a query: DuckDB executes it over views of the named tables, and the rows are streamed."""
    with context.bind_context.session(plan.query) as session:
        yield from session.exact_reader(plan.query.text, plan.query.parameters)
    return None


def nothing(plan: NothingPlan, context: ExecutionContext) -> Rows:
    """Do nothing and report why there is nothing to do."""
    yield from ()
    return Outcome(plan.why)


def run(plan: Plan, context: ExecutionContext) -> Rows:
    """Run a plan in a context. Nothing runs before the first item is requested."""
    rows: Rows = _operator_of(type(plan))(plan, context)
    return rows


def _operator_of(plan: type) -> Any:
    """Return the operator of a plan type. Its module is imported only now, so a SELECT does not load numba."""
    module, _, name = operator_of(plan).partition(":")
    return getattr(import_module(module), name)


class DatabaseSession:
    """Runs one user's statements on an open database: binds, optimizes and runs them, and returns the results."""

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        verify: bool = False,
        threads: int | None = None,
        folders: Sequence[str | Path] | None = None,
        rules: Sequence[Rule] | None = None,
        disk: Disk | None = None,
        memory_share: float | None = None,
    ) -> None:
        """Open the database at `path`. The arguments are those of `snapdb.Database`."""
        db_dir = open_db_dir(Path(path), read_only=read_only, disk=disk)
        catalog_db = CatalogDb(db_dir)
        if verify:
            check.verify_files(catalog_db)
        sql_engine = SqlEngine(
            db_dir.path, threads, folders, attached=db_dir.url is not None, memory_share=memory_share
        )
        self.store = Store(db_dir, catalog_db, sql_engine, db_dir.disk)
        self.transactions = TransactionManager(self.store)
        self.sources: dict[str, Any] = {}
        """Registered data by name."""
        self.progress: Progress | None = None
        self.threads = threads
        self._rules = rules
        self._caches = CacheBudget()
        self._objects = SessionObjects()
        self._stopped = self.store.sql_engine.stopped
        self._head: Catalog | None = None
        self._pinned: Catalog | None = None

    def run(self, statement: Statement, params: Parameters = None) -> Result:
        """Run a parsed statement, and retry if a snapshot that it reads is replaced while it is being opened."""
        alone = self.transactions.state == "idle"
        return retry_if_replaced(lambda: self._run(statement, params), checks_keys=alone)

    def _run(self, statement: Statement, params: Parameters) -> Result:
        self._stopped.clear()
        lock = TablesLock(self.store.db_dir)
        try:
            # As in PostgreSQL, only COMMIT and ROLLBACK are allowed in a failed transaction.
            if not statement.ends_transaction:
                self.transactions.check()
            with diagnose_corruption(self.store.catalog_db):
                context = self._context(params, lock)
                plan = optimize(bind(statement, context.bind_context), self._rules)
                self.check_allowed(plan, statement)
            rows = run(plan, context)  # inside the `try`, because Ctrl-C may interrupt the import of the operator
        except BaseException:
            self.transactions.fail()
            lock.release()
            raise
        return Result(rows, lambda unread: self._guarded(unread, statement, lock))

    def _guarded(self, rows: Rows, statement: Statement, lock: TablesLock) -> Rows:
        """Yield the rows. Errors receive the statement's text and position, and abort an open transaction."""
        try:
            with diagnose_corruption(self.store.catalog_db), reporting_compilation(self.progress):
                return (yield from rows)
        except SnapdbError as error:
            self.transactions.fail()
            raise error.located(statement.source, statement.span) from error.__cause__
        # The reader closed the result early, which is not an error, so an open transaction stays valid.
        except GeneratorExit:
            raise
        except BaseException:
            self.transactions.fail()
            raise
        finally:
            lock.release()

    def plan(self, statement: Statement, params: Parameters = None) -> Plan:
        """Return the optimized plan of a statement without running it. An open transaction is not changed."""
        with self.reading(params) as context:
            return optimize(bind(statement, context.bind_context), self._rules)

    def check_allowed(self, plan: Plan, statement: Statement) -> None:
        """Raise an error if the plan is not allowed because the database is read-only or a transaction is open."""
        in_transaction = self.transactions.state != "idle"
        db_dir = self.store.db_dir
        plan.check_allowed(statement, read_only=db_dir.read_only, url=db_dir.url, in_transaction=in_transaction)

    @contextmanager
    def reading(self, params: Parameters = None, *, committed: bool = False) -> Iterator[ExecutionContext]:
        """Yield a context for reading, as a context manager. No file in the catalog is removed during the block.

        Args:
            params: The values of parameters.
            committed: Whether to read the head, without the changes of an open transaction.
        """
        lock = TablesLock(self.store.db_dir)
        try:
            with diagnose_corruption(self.store.catalog_db), reporting_compilation(self.progress):
                yield self._context(params, lock, committed=committed)
        finally:
            lock.release()

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Let all statements of a block read one version, even if others commit. The session only reads."""
        lock = TablesLock(self.store.db_dir)
        try:
            self._pinned = self.head()
            yield
        finally:
            self._pinned = None
            lock.release()

    def read_head(self, read: Callable[[ExecutionContext], _T], params: Parameters = None) -> _T:
        """Return the result of `read` at the head, for calls that are not statements. Clears an earlier interrupt."""
        self._stopped.clear()
        with self.reading(params, committed=True) as context:
            return read(context)

    def _context(self, params: Parameters, lock: TablesLock, *, committed: bool = False) -> ExecutionContext:
        if params is not None and (isinstance(params, str) or not isinstance(params, Mapping | Sequence)):
            raise ValueError(f"params must be a mapping for $name or a sequence for ?, found {params!r}")
        catalog = self._objects.added_to(self.head() if committed else self.catalog())
        bind_context = BindContext(
            self.store,
            catalog,
            self.sources,
            params,
            due=_next_firing,
            computes=self._open_source,
            prepared=self._objects.prepared,
            taken=self._objects.taken,
        )
        return ExecutionContext(
            self.store,
            self.progress,
            self._stopped,
            bind_context,
            self.transactions,
            lock,
            self._caches,
            self._rules,
            self.threads,
            self._objects,
        )

    def _open_source(self, bind_context: BindContext, source: ComputedSource) -> AbstractContextManager[ComputedRows]:
        """Open the rows of a computed source of a query."""
        building = BuildContext(self.store, self.progress, self._stopped)
        match source:
            case PathSearch():
                return path_searches.opened_search(building, bind_context, source, self.threads)
            case AlgorithmSource():
                return algorithm_rows.opened_algorithm(building, bind_context, source, self.threads)
        raise AssertionError(f"no package computes {source!r}")

    def renew(self) -> bool:
        """Switch an attached database to the newest generation. Returns whether there is a newer one.

        Streams and results that are open keep the generation with which they were opened.

        Raises:
            BindError: The database is not an attached copy.
            SnapdbError: The generation cannot be fetched. The database is unchanged.
        """
        db_dir = self.store.db_dir
        attachment = attachment_of(db_dir.path)
        if attachment is None:
            raise BindError(
                f"{db_dir.path} is not a copy of a published database, so it always shows the newest version; "
                "connect to a URL, as in s3://bucket/shop",
                code="not-attached",
            )
        newest = attach(attachment.url, attachment.root.parent.parent, attachment.size)
        if newest.head.generation == attachment.head.generation:
            return False
        catalog_db = CatalogDb(open_db_dir(newest.root, read_only=True, disk=db_dir.disk))
        before, self.store = self.store, self.store._replace(db_dir=catalog_db.db_dir, catalog_db=catalog_db)
        self.transactions = TransactionManager(self.store)
        self._head = None
        before.catalog_db.close()
        return True

    def catalog(self) -> Catalog:
        """Return the catalog, including the changes of an open transaction."""
        return self.transactions.catalog or self.head()

    def head(self) -> Catalog:
        """Return the committed catalog, which is the same object until the next commit."""
        if self._pinned is not None:
            return self._pinned
        self._head = load(self.store.catalog_db, self._head)
        return self._head

    def interrupt(self) -> None:
        """Stop the running statement, which raises QueryError with code 'interrupted'."""
        self.store.sql_engine.interrupt()

    def close(self) -> None:
        """Roll back an open transaction, close the store, and free the buffers that no stream uses any longer."""
        self.transactions.close()
        self._caches.close()
        self.store.close()
        buffers.release_free()
