"""A database: the life of a statement on one screen.

text → parse → statements → bind → plan → optimize → plan → build → operator → run → result
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa

from snapdb import loading, train
from snapdb.catalog import Catalog, load
from snapdb.catalog.vocabulary import Vocabulary, vocabulary
from snapdb.errors import BindError, SnapdbError
from snapdb.execute import samples
from snapdb.execute.operator import ExecutionContext, Rows, run
from snapdb.execute.results import Result
from snapdb.execute.transactions import TransactionManager, diagnose_corruption, retry_if_replaced
from snapdb.loading.shelf import CacheShelf
from snapdb.plan import RULES, BindContext, Plan, bind, optimize
from snapdb.plan.plan import check_allowed
from snapdb.plan.rules import Rule
from snapdb.plan.samples import SamplePlan
from snapdb.schedule import next_firing
from snapdb.sql import parse, parse_one
from snapdb.sql.samples import Sample, SampleUsing
from snapdb.sql.syntax import Statement, bytes_of
from snapdb.sql.versions import Commit, Rollback
from snapdb.sql_engine import SqlEngine, absolute_paths
from snapdb.sql_engine.sources import as_source
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import open_db_dir
from snapdb.storage.catalog_db.locks import TablesLock
from snapdb.storage.check.database import verify_files
from snapdb.storage.disk import Disk
from snapdb.types import Published

if TYPE_CHECKING:
    from snapdb.graph import OpenSnapshot
    from snapdb.loading.stream import Given


T = TypeVar("T")

Parameters = Sequence[Any] | Mapping[str, Any] | None


def connect(
    path: str | Path | None = None,
    *,
    read_only: bool = False,
    verify: bool = False,
    threads: int | None = None,
    folders: Sequence[str | Path] | None = None,
) -> Database:
    """Open the database directory at `path`, and create it when it does not exist.

    Args:
        path: The directory that holds it must exist. None opens a temporary database, which goes when it is closed.
        read_only: Never write to the database. COPY … TO still writes files elsewhere; `folders` restricts that.
        verify: Check every file's sha256 first, which reads all of them.
        threads: How many queries, builds and streams may take; None: all cores. No result depends on it.
        folders: The only directories and files, besides the database itself, that statements may read and write; a
            directory that does not exist yet ends with a slash. None: all that the process may.

    Raises:
        DatabaseError: the path is a file, not writable, not a database, or of a newer format, or the directory that
            holds it does not exist.
    """
    return Database(path, read_only=read_only, verify=verify, threads=threads, folders=absolute_paths(folders))


class Database:
    """Tables, graphs and snapshots in one directory. Use it as a context manager, or close it."""

    progress: Callable[[str, float | None], None] | None = None
    """Called by long work with what is being done and, where it is known, the share that is done (0 to 1)."""

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        read_only: bool = False,
        verify: bool = False,
        threads: int | None = None,
        folders: Sequence[str | Path] | None = None,
        rules: Sequence[Rule] = RULES,
        disk: Disk | None = None,
    ) -> None:
        """Open it as `connect` does.

        Args:
            folders: Absolute paths of the only folders and files, beside its own, that statements may read and write;
                None: all.
            rules: What plans are changed by; with fewer all results are the same, later.
            disk: Stands between it and its files: tests give one that fails.
        """
        if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
            raise ValueError(f"threads is 1 or more, or None for all cores, found {threads!r}")
        self.temporary = path is None
        place = Path(tempfile.mkdtemp(prefix="snapdb-")) if path is None else Path(path)
        self._db_dir = open_db_dir(place, read_only=read_only, disk=disk)
        # Also at exit: a temporary database that nobody closed must not stay behind.
        self._process = os.getpid()
        self._remove = weakref.finalize(self, _remove, place, self._process) if self.temporary else None
        self._catalog_db = CatalogDb(self._db_dir)
        if verify:
            verify_files(self._catalog_db)
        self._threads, self._rules = threads, tuple(rules)
        self._sql_engine = SqlEngine(self.path, threads, folders)
        self._work = TransactionManager(self._catalog_db, self._sql_engine)
        self._caches = CacheShelf()
        self._known: Catalog | None = None
        self._sources: dict[str, Any] = {}
        self._named: tuple[Catalog, tuple[int, ...], Vocabulary] | None = None
        self._stopped = self._sql_engine.stopped

    @property
    def path(self) -> Path:
        """The database directory."""
        return self._db_dir.path

    def execute(self, sql: str, params: Parameters = None) -> Result:
        """Run exactly one statement.

        Args:
            params: A mapping for `$name`, a sequence for `?`.
        """
        if not isinstance(sql, str):
            raise TypeError(f"execute takes the text of a statement, found {sql!r}")
        return self.run(parse_one(sql), params)

    def script(self, text: str, params: Parameters = None) -> list[Result]:
        """Run several statements, one after another; all are read before the first is run."""
        results = []
        for statement in parse(text):
            result = self.run(statement, params)
            result.arrow()
            results.append(result)
        return results

    def run(self, statement: Statement, params: Parameters = None) -> Result:
        """Run a statement that was parsed."""
        return retry_if_replaced(lambda: self._run(statement, params))

    def _run(self, statement: Statement, params: Parameters) -> Result:
        self._stopped.clear()
        lock = TablesLock(self._db_dir)
        try:
            if not isinstance(statement, Commit | Rollback):
                self._work.check()
            with diagnose_corruption(self._catalog_db):
                engine = self._engine(params, lock)
                plan = optimize(bind(statement, engine.bind_context), self._rules)
                self._check_allowed(plan, statement)
            rows = run(plan, engine)  # imports the operator, which Ctrl-C may end
        except BaseException:
            self._work.fail()
            lock.release()
            raise
        return Result(rows, lambda unread: self._guarded(unread, statement, lock))

    def plan(self, statement: Statement, params: Parameters = None) -> Plan:
        """What running a statement would do; nothing is done, and an open transaction stays as it is."""
        with self.reading(params) as engine:
            return optimize(bind(statement, engine.bind_context), self._rules)

    @contextmanager
    def transaction(self, message: str | None = None) -> Iterator[Self]:
        """BEGIN, then COMMIT when the block ends well, ROLLBACK when it raises; all of it is one version, or none.

        Args:
            message: The version's message; None joins those of the statements.
        """
        self.execute("BEGIN")
        try:
            yield self
        except BaseException:
            self._work.close()
            raise
        self._work.commit(message)

    @property
    def transaction_state(self) -> str:
        """'idle' outside a transaction, 'open' inside one, 'failed' after an error in it."""
        return self._work.state

    def stream(
        self,
        query: str,
        *,
        threads: int | None = None,
        device: str | None = None,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
        pad: bool = False,
        transform: Callable[[loading.Batch], Given] | None = None,
        seeds: Any = None,
        prefetch: int | None = None,
        memory: int | str | None = None,
        params: Parameters = None,
        follow: bool = False,
    ) -> loading.BatchStream[Given]:
        """The mini-batches of a sampler, for a trainer to iterate over.

        Args:
            query: A sampler's name, as in stream("train"), or a statement: SAMPLE FROM … or SAMPLE USING train …. One
                word is always a name. A sampler's own EPOCHS does not count here: each iteration is one epoch.
            threads: How many make batches; None uses all cores, or two where a GPU samples. Batches and their order do
                not depend on it.
            device: Where tensors are handed over, e.g. 'cpu' or 'cuda:0'; None: where the statement's ON says, else on
                the CPU.
            rank: This process's number among `world_size` that share the stream. Together they give each batch once,
                so that some may have one more than others, unless `drop_last` or `pad` is said.
            drop_last: Leave out a last batch of fewer seeds than BATCH, and batches that not every rank would get.
            pad: Repeat the epoch's first batches for ranks that would have one fewer; `batch.padding` tells which.
            transform: A pure function of a batch. What it returns is given in the batch's place. It runs on the thread
                that made the batch, or in the reader's where batches go to a GPU.
            seeds: Another seed set through the same sampler: a SELECT, or ids as a tensor, array, list or Arrow.
            prefetch: How many batches may be ready or under way; None: twice the threads.
            memory: What the threads' scratch and batches that are ready or under way may take, as bytes or as a size
                such as '2GB'; None: as the statement's WITH (memory = …) says, else as much as they need.
            follow: Begin each epoch with what was published by then, as `stream.renew()` does; for one process.

        Raises:
            BindError: There is no such sampler, it is no SAMPLE statement, or a name in it leads nowhere.
            DataError: Seeds are not in the snapshot.
            InputError: The device is not there, or the memory is not enough.
        """
        if not isinstance(query, str):
            raise TypeError(f"stream takes a sampler's name or the text of a SAMPLE statement, found {query!r}")
        if str(device).partition(":")[0] == "meta":
            raise ValueError(f"device {str(device)!r} keeps no values; say 'cpu', 'cuda' or 'cuda:1'")
        limit = bytes_of("memory", memory)
        opens = samples.Following(
            query, memory is not None, lambda said: self._open(said, seeds, params), self._committed
        )
        source = opens.opened()
        try:
            with source.about():
                return loading.BatchStream(
                    source.view,
                    source.seeds,
                    source.spec,
                    threads=threads,
                    device=device,
                    rank=rank,
                    world_size=world_size,
                    drop_last=drop_last,
                    pad=pad,
                    transform=transform,
                    prefetch=prefetch,
                    memory=limit,
                    most=self._threads,
                    way=source.way,
                    cache=source.cache,
                    report=self.progress,
                    release=source.release,
                    published=source.published,
                    newer=source.newer,
                    follow=follow,
                )
        except BaseException:
            source.release()
            raise

    def _open(
        self, statement: Sample | SampleUsing, seeds: Any, params: Parameters
    ) -> tuple[SamplePlan, samples.Opened]:
        self._stopped.clear()  # what stopped the statement before is over
        with self.reading(params, committed=True) as engine:
            return samples.open_statement(engine, statement, seeds, self._rules, "batches")

    def wait_for(
        self, snapshot: str, newer_than: Published | int | datetime | None = None, timeout: float | None = None
    ) -> Published:
        """Wait until there is a snapshot of this name, and one that was published later than another; return which.

        Args:
            snapshot: Its name. There may be none yet.
            newer_than: What this gave before, `stream.published`, a version, or a moment; None: any will do. A REFRESH
                that moves nothing publishes nothing.
            timeout: Seconds; None waits for ever, or until `interrupt`.

        Raises:
            WaitTimeout: None came in time. It is a TimeoutError too.
            BindError: The name is that of a table, a graph or a sampler.
        """
        awaited = samples.Awaited.of(snapshot, newer_than, timeout)
        self._stopped.clear()
        return awaited.wait(self._catalog_db, self._committed, self._stopped)

    def replay(
        self,
        lineage: Mapping[str, Any],
        batch: int,
        *,
        epoch: int | None = None,
        seeds: Any = None,
        params: Parameters = None,
    ) -> loading.Batch:
        """A batch of an earlier stream again, bit for bit; arguments and errors are those of `snapdb.replay`."""
        wanted = samples.Replay.of(samples.read_lineage(lineage), batch, epoch, seeds, params)
        return retry_if_replaced(lambda: self._within(wanted.batch))

    def replay_rows(self, lineage: Mapping[str, Any], batch: int, *, epoch: int | None = None) -> pa.Table:
        """The rows that SAMPLE gives of a batch of an earlier stream: one for each sampled edge."""
        wanted = samples.Replay.of(samples.read_lineage(lineage), batch, epoch, seeds=None, parameters=None)
        return retry_if_replaced(lambda: self._within(wanted.rows))

    def infer(
        self,
        model: Any,
        snapshot: str,
        *,
        into: str | None = None,
        replace: bool = False,
        column: str = "embedding",
        node_type: str | None = None,
        layers: Sequence[Callable[[loading.Batch, Any], Any]] | None = None,
        fanout: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        batch: int = 1024,
        threads: int | None = None,
        device: str | None = None,
    ) -> train.Inferred:
        """What a model says of every vertex of a snapshot, exactly: layer by layer, with all neighbours of each.

        Args:
            model: One of snapdb.train or of PyG's BasicGNN (GraphSAGE, GAT, …), or any with a method `layerwise`.
            into: A table for the key and the states, made as one version; without `replace` its name must be free.
            column: What the states are called in a table.
            node_type: Whose states are wanted; None: those of the only vertex type.
            layers: The model as functions of (batch, x), x the states of the batch's nodes (a dict by type where there
                are several), each of which gives the next states of the seeds.
            fanout: The edges along which messages come, as FANOUT says them, all of them FULL; None: all that lead to
                a vertex.
            transform: Changes what the first layer reads.
            batch: Vertices of a batch.
            threads: How many make batches; None: all cores.
            device: Where batches are handed over; None: where the model's weights are.

        Raises:
            BindError: A name leads nowhere, or the table is there already.
            InputError: The model does not tell its layers, or they do not give a row of numbers for each seed.
        """
        found = train.Layers.of(model, layers)
        asked = samples.Inference(
            snapshot, node_type, found, fanout, batch, into, replace, column, transform, threads, device
        )
        if into is not None:  # what would fail in the end is told before the work
            self._work.check()
            trial = asked.trial(self._catalog())
            self._check_allowed(self.plan(trial), trial)
        ready: samples.Ready = retry_if_replaced(lambda: self._within(asked.opened))
        inferred = ready.inferred()
        if into is not None:
            self._sources[samples.INFERRED] = as_source(inferred.reader())
            try:
                self.run(ready.statement)
            finally:
                del self._sources[samples.INFERRED]
        return inferred

    def _within(self, make: Callable[[ExecutionContext, Sequence[Rule]], T]) -> T:
        self._stopped.clear()
        with self.reading(None, committed=True) as engine:
            return make(engine, self._rules)

    def open_snapshot(self, name: str) -> OpenSnapshot:
        """A snapshot as arrays: topology, features, targets, births, keys. Its files stay until the lease is released.

        Raises:
            BindError: there is no such snapshot.
            CorruptError: a file of it is missing or damaged.
        """

        def opened() -> OpenSnapshot:
            with self.reading(None, committed=True) as engine:
                return samples.open_whole(engine, engine.bind_context.catalog.snapshot(name))

        return retry_if_replaced(opened)

    def register(self, name: str, data: Any) -> None:
        """Let SQL read `data` as a table called `name`: Arrow, pandas, a torch tensor, or a mapping of columns.

        A pyarrow Dataset is read in parts, a RecordBatchReader as it comes, once: neither need fit in memory. The same
        name again takes the new data. Raises BindError when a table, graph or snapshot has the name.
        """
        if kind := self._catalog().kind_of(name):
            raise BindError(f'there is a {kind} "{name}" already; register the data by another name', code="exists")
        self._sources[name] = as_source(data)

    def names(self) -> Vocabulary:
        """What can be named, by kind: for completion. It is put together anew only when something changed."""
        catalog, sources = self._catalog(), tuple(map(id, self._sources.values()))
        if self._named is None or self._named[0] is not catalog or self._named[1] != sources:
            known = vocabulary(catalog, self._catalog_db, self._sources, self._sql_engine.functions())
            self._named = (catalog, sources, known)
        return self._named[2]

    def interrupt(self) -> None:
        """Stop the running statement, from another thread or a signal handler; it raises QueryError 'interrupted'."""
        self._sql_engine.interrupt()

    def close(self) -> None:
        """Let go of everything: an open transaction is rolled back, a temporary database removed.

        A forked process leaves that to the one that opened the database.
        """
        if os.getpid() != self._process:
            return
        self._work.close()
        self._caches.close()
        self._catalog_db.close()
        self._sql_engine.close()
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<snapdb database {self.path}{' (temporary)' if self.temporary else ''}>"

    def _catalog(self) -> Catalog:
        """What there is: for an open transaction, what it sees."""
        return self._work.catalog or self._committed()

    def _committed(self) -> Catalog:
        self._known = load(self._catalog_db, self._known)
        return self._known

    @contextmanager
    def reading(self, params: Parameters = None, *, committed: bool = False) -> Iterator[ExecutionContext]:
        """An engine for the block, which publishes nothing; meanwhile no file that the catalog names is removed."""
        lock = TablesLock(self._db_dir)
        try:
            with diagnose_corruption(self._catalog_db):
                yield self._engine(params, lock, committed=committed)
        finally:
            lock.release()

    def _engine(self, params: Parameters, lock: TablesLock, *, committed: bool = False) -> ExecutionContext:
        if params is not None and (isinstance(params, str) or not isinstance(params, Mapping | Sequence)):
            raise ValueError(f"params is a mapping for $name or a sequence for ?, found {params!r}")
        catalog = self._committed() if committed else self._catalog()
        context = BindContext(
            self._db_dir, self._catalog_db, self._sql_engine, catalog, self._sources, params, due=next_firing
        )
        mine = (self._work, lock, self._caches, self.progress, self._stopped, self._threads)
        opener = partial(Database, self.path, threads=self._threads, rules=self._rules)
        return ExecutionContext(self._db_dir, self._catalog_db, self._sql_engine, context, *mine, opener)

    def _check_allowed(self, plan: Plan, statement: Statement) -> None:
        in_transaction = self._work.state != "idle"
        check_allowed(plan, statement, read_only=self._db_dir.read_only, in_transaction=in_transaction)

    def _guarded(self, rows: Rows, statement: Statement, lock: TablesLock) -> Rows:
        """The same rows; an error among them carries the statement's text, and ends an open transaction."""
        try:
            with diagnose_corruption(self._catalog_db):
                return (yield from rows)
        except SnapdbError as error:
            self._work.fail()
            raise error.located(statement.source, statement.span) from error.__cause__
        except GeneratorExit:  # the rest of the rows is not wanted
            raise
        except BaseException:
            self._work.fail()
            raise
        finally:
            lock.release()


def _remove(place: Path, process: int) -> None:
    """Remove a temporary database, unless this is a fork of the process that opened it."""
    if os.getpid() == process:
        shutil.rmtree(place, ignore_errors=True)
