"""A database as its users see it: each method is a call of the session that it keeps, or of a function on it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from snapdb import loading, train
from snapdb.builders.context import Progress
from snapdb.catalog import Catalog
from snapdb.catalog.vocabulary import Vocabulary, vocabulary
from snapdb.errors import BindError
from snapdb.execute import samples
from snapdb.execute.results import Result
from snapdb.execute.session import DatabaseSession, ExecutionContext
from snapdb.plan import Plan
from snapdb.plan.plan import Rule
from snapdb.plan.queries import Parameters
from snapdb.sql import parse, parse_one
from snapdb.sql.syntax import Statement
from snapdb.sql_engine import absolute_paths
from snapdb.sql_engine.sources import as_source
from snapdb.storage.disk import Disk
from snapdb.types import IdType, Published

if TYPE_CHECKING:
    from snapdb.graph import OpenSnapshot
    from snapdb.loading.stream import Given


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

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        read_only: bool = False,
        verify: bool = False,
        threads: int | None = None,
        folders: Sequence[str | Path] | None = None,
        rules: Sequence[Rule] | None = None,
        disk: Disk | None = None,
    ) -> None:
        """Open it as `connect` does.

        Args:
            folders: Absolute paths of the only folders and files, beside its own, that statements may read and write;
                None: all.
            rules: The rules of the optimizer; None: all. Results are the same with fewer.
            disk: Stands between it and its files: tests give one that fails.
        """
        if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
            raise ValueError(f"threads is 1 or more, or None for all cores, found {threads!r}")
        self.temporary = path is None
        own = Path(tempfile.mkdtemp(prefix="snapdb-")) if path is None else Path(path)
        self._process = os.getpid()
        # Also at exit: a temporary database that nobody closed must not stay behind.
        self._remove = weakref.finalize(self, _remove, own, self._process) if self.temporary else None
        self._session = DatabaseSession(
            own, read_only=read_only, verify=verify, threads=threads, folders=folders, rules=rules, disk=disk
        )
        self._named: tuple[Catalog, tuple[int, ...], Vocabulary] | None = None

    @property
    def path(self) -> Path:
        """The database directory."""
        return self._session.store.db_dir.path

    @property
    def progress(self) -> Progress | None:
        """Called by long work with what is being done and, where it is known, the share that is done (0 to 1)."""
        return self._session.progress

    @progress.setter
    def progress(self, progress: Progress | None) -> None:
        self._session.progress = progress

    @property
    def transaction_state(self) -> str:
        """'idle' outside a transaction, 'open' inside one, 'failed' after an error in it."""
        return self._session.transactions.state

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
        return self._session.run(statement, params)

    def plan(self, statement: Statement, params: Parameters = None) -> Plan:
        """What running a statement would do; nothing is done, and an open transaction stays as it is."""
        return self._session.plan(statement, params)

    def reading(
        self, params: Parameters = None, *, committed: bool = False
    ) -> AbstractContextManager[ExecutionContext]:
        """A context for the block, which publishes nothing; meanwhile no file that the catalog names is removed."""
        return self._session.reading(params, committed=committed)

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
            self._session.transactions.close()
            raise
        self._session.transactions.commit(message)

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
        seeds: object = None,
        prefetch: int | None = None,
        memory: int | str | None = None,
        ids: IdType | None = None,
        zero_copy: bool = False,
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
            prefetch: How many batches may be complete or in progress; None: one more than the threads.
            memory: What the threads' scratch and batches that are ready or under way may take, as bytes or as a size
                such as '2GB'; None: as the statement's WITH (memory = …) says, else as much as they need.
            ids: 'int32' or 'int64', the type of the batches' node ids: `n_id`, `edge_index` and what else has local
                ids; None: as the statement's WITH (ids = …) specifies, else int64.
            zero_copy: Where batches go to a GPU, it reads features that do not fit there from page-locked memory of the
                host, which takes a copy of them; by default threads gather their rows. Needs Triton.
            follow: Begin each epoch with what was published by then, as `stream.renew()` does; for one process.

        Raises:
            BindError: There is no such sampler, it is no SAMPLE statement, or a name in it leads nowhere.
            DataError: Seeds are not in the snapshot.
            InputError: The device is not there, the memory is not enough, or 'int32' does not fit the snapshot.
        """
        return samples.open_stream(
            self._session,
            query,
            threads=threads,
            device=device,
            rank=rank,
            world_size=world_size,
            drop_last=drop_last,
            pad=pad,
            transform=transform,
            seeds=seeds,
            prefetch=prefetch,
            memory=memory,
            ids=ids,
            zero_copy=zero_copy,
            params=params,
            follow=follow,
        )

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
        return samples.wait_for(self._session, snapshot, newer_than, timeout)

    def replay(
        self,
        lineage: Mapping[str, object],
        batch: int,
        *,
        epoch: int | None = None,
        seeds: object = None,
        params: Parameters = None,
    ) -> loading.Batch:
        """A batch of an earlier stream again, bit for bit; arguments and errors are those of `snapdb.replay`."""
        return samples.replay_batch(self._session, lineage, batch, epoch, seeds, params)

    def replay_rows(self, lineage: Mapping[str, object], batch: int, *, epoch: int | None = None) -> pa.Table:
        """The rows that SAMPLE gives of a batch of an earlier stream: one for each sampled edge."""
        return samples.replay_rows(self._session, lineage, batch, epoch)

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
        wanted = samples.Inference(
            snapshot,
            node_type,
            train.Layers.of(model, layers),
            fanout,
            batch,
            into,
            replace,
            column,
            transform,
            threads,
            device,
        )
        return samples.run_inference(self._session, wanted)

    def open_snapshot(self, name: str) -> OpenSnapshot:
        """A snapshot as arrays: topology, features, targets, births, keys. Its files stay until the lease is released.

        Raises:
            BindError: there is no such snapshot.
            CorruptError: a file of it is missing or damaged.
        """
        return samples.open_named_snapshot(self._session, name)

    def register(self, name: str, data: Any) -> None:
        """Let SQL read `data` as a table called `name`: Arrow, pandas, a torch tensor, or a mapping of columns.

        A pyarrow Dataset is read in parts, a RecordBatchReader as it comes, once: neither need fit in memory. The same
        name again takes the new data. Raises BindError when a table, graph or snapshot has the name.
        """
        if kind := self._session.catalog().kind_of(name):
            raise BindError(f'there is a {kind} "{name}" already; register the data by another name', code="exists")
        self._session.sources[name] = as_source(data)

    def names(self) -> Vocabulary:
        """What can be named, by kind: for completion. It is put together anew only when something changed."""
        catalog, sources = self._session.catalog(), tuple(map(id, self._session.sources.values()))
        if self._named is None or self._named[0] is not catalog or self._named[1] != sources:
            store = self._session.store
            known = vocabulary(catalog, store.catalog_db, self._session.sources, store.sql_engine.functions())
            self._named = (catalog, sources, known)
        return self._named[2]

    def interrupt(self) -> None:
        """Stop the running statement, from another thread or a signal handler; it raises QueryError 'interrupted'."""
        self._session.interrupt()

    def close(self) -> None:
        """Let go of everything: an open transaction is rolled back, a temporary database removed.

        A forked process leaves that to the one that opened the database.
        """
        if os.getpid() != self._process:
            return
        self._session.close()
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<snapdb database {self.path}{' (temporary)' if self.temporary else ''}>"


def _remove(place: Path, process: int) -> None:
    """Remove a temporary database, unless this is a fork of the process that opened it."""
    if os.getpid() == process:
        shutil.rmtree(place, ignore_errors=True)
