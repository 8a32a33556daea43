"""The public API of a database. Each method calls the database's session, or a function on that session."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import pyarrow as pa

from snapdb import loading, pictures, train
from snapdb.attribute_docs import document_attributes
from snapdb.builders.context import Progress
from snapdb.catalog import Catalog
from snapdb.catalog.vocabulary import Vocabulary, vocabulary
from snapdb.errors import BindError, brief_traceback
from snapdb.execute import samples
from snapdb.execute.algorithms import call_algorithm
from snapdb.execute.results import Result
from snapdb.execute.session import DatabaseSession, ExecutionContext
from snapdb.on_first_use import module_on_first_use
from snapdb.plan import Plan
from snapdb.plan.plan import Rule
from snapdb.plan.queries import Parameters
from snapdb.plan.variables import reads_variables
from snapdb.relations import Relation, checked_relation
from snapdb.remote import attach, cache_dir, is_url
from snapdb.sql import parse, parse_one
from snapdb.sql.syntax import Statement, bytes_of
from snapdb.sql_engine import absolute_paths
from snapdb.sql_engine.sources import as_source
from snapdb.storage.disk import Disk
from snapdb.types import IdType, Published

if TYPE_CHECKING:
    from snapdb.graph import OpenSnapshot
    from snapdb.interchange import importing
    from snapdb.interchange.importing import ImportedGraph, ImportOptions
    from snapdb.loading.stream import Given
else:
    importing = module_on_first_use("snapdb.interchange.importing")


@brief_traceback
def connect(
    path: str | Path | None = None,
    *,
    read_only: bool = False,
    verify: bool = False,
    threads: int | None = None,
    folders: Sequence[str | Path] | None = None,
    cache: str | Path | None = None,
    cache_size: int | str | None = None,
    variables: bool | None = None,
) -> Database:
    """Open the database directory at `path`, and create it if it does not exist.

    Args:
        path: The database directory, whose parent directory must exist, or the URL of a published database, such as
            "s3://bucket/shop", which is opened read-only. If None, a temporary database is created. It is removed when
            it is closed.
        read_only: Never write to the database. COPY … TO can still write files elsewhere, subject to `folders`.
        verify: Check the SHA-256 digest of every file first. This reads all files.
        threads: The number of threads for queries, builds and streams. Defaults to one per core. It never affects
            results.
        folders: The only directories and files, besides the database itself, that statements may read and write. A
            directory that does not exist yet must end with a slash. By default, statements can access everything that
            the process can access.
        cache: For a URL: the directory for files that are fetched. Processes can share it. Defaults to $SNAPDB_CACHE,
            or to snapdb in the user's cache directory.
        cache_size: For a URL: the maximum size of these files in bytes, or as text such as "500GB". The least recently
            used files are removed. By default, there is no limit.
        variables: Whether FROM can name a variable of the calling code that holds a data frame, an Arrow table or a
            relation. Defaults to true, and to false if `folders` limits what statements can read.

    Returns:
        The open database. Close it, or use it as a context manager.

    Raises:
        DatabaseError: The path is a file or not writable, or its parent directory does not exist.
        FormatError: The directory is not a snapdb database, or a newer snapdb wrote it.
        CorruptError: With `verify`, a file is missing or damaged.

    Examples:
        >>> with connect() as db:
        ...     db.execute("SELECT 6 * 7 AS answer").fetchone()
        (42,)
    """
    return Database(
        path,
        read_only=read_only,
        verify=verify,
        threads=threads,
        folders=absolute_paths(folders),
        cache=cache,
        cache_size=cache_size,
        variables=variables,
    )


@document_attributes
class Database:
    """An open database directory: its tables, graphs, snapshots and samplers.

    `snapdb.connect` returns one. Use it as a context manager, or call `close`. Several processes can read and write the
    same directory at the same time.

    Examples:
        >>> import snapdb
        >>> db = snapdb.connect()  # a temporary database
        >>> created = db.execute("CREATE TABLE item AS SELECT range AS id, range * 10 AS price FROM range(3)")
        >>> db.execute("SELECT sum(price) AS total FROM item WHERE id > $low", {"low": 0})
        ┌─────────┐
        │   total │
        │ hugeint │
        ├─────────┤
        │      30 │
        └─────────┘
        1 row
        >>> with db.transaction("a correction"):
        ...     rows = db.execute("UPDATE item SET price = 25 WHERE id = 2").rowcount
        >>> db.close()
    """

    temporary: bool
    """Whether the database was opened without a path. If so, it is removed when it is closed."""
    variables: bool
    """Whether FROM can name a variable of the calling code."""

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
        memory_share: float | None = None,
        cache: str | Path | None = None,
        cache_size: int | str | None = None,
        variables: bool | None = None,
    ) -> None:
        """Open a database. Programs call `snapdb.connect` instead.

        Args:
            path: See `connect`, also for the other arguments that are not listed. The folders must be absolute.
            rules: The optimizer rules, or None for all of them. Omitting rules makes statements slower, but does not
                change results.
            disk: The object that performs all file operations. Tests pass one that fails.
            memory_share: The share of the usable memory for queries, between 0 and 1, or None for the default. Programs
                with several databases pass a smaller one.
        """
        if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
            raise ValueError(f"threads must be 1 or more, or None for all cores, found {threads!r}")
        self.temporary = path is None
        self.variables = folders is None if variables is None else variables
        if isinstance(path, str) and is_url(path):
            place = cache_dir() if cache is None else Path(cache).absolute()
            own, read_only = attach(path, place, bytes_of("cache_size", cache_size)).root, True
        elif cache is not None or cache_size is not None:
            raise ValueError(f"cache and cache_size apply only to URLs such as 's3://bucket/shop', found {path!r}")
        else:
            own = Path(tempfile.mkdtemp(prefix="snapdb-")) if path is None else Path(path)
        self._process = os.getpid()
        # This also runs at exit, so that no temporary database is left behind if the program does not close it.
        self._remove = weakref.finalize(self, _remove, own, self._process) if self.temporary else None
        self._session = DatabaseSession(
            own,
            read_only=read_only,
            verify=verify,
            threads=threads,
            folders=folders,
            rules=rules,
            disk=disk,
            memory_share=memory_share,
        )
        self._named: tuple[Catalog, tuple[int, ...], Vocabulary] | None = None

    @property
    def path(self) -> Path:
        """The database directory."""
        return self._session.store.db_dir.path

    @property
    def progress(self) -> Progress | None:
        """A function that long operations call with the current step and its completed fraction.

        The fraction is between 0 and 1, or None if it is unknown. If the function is None, progress is not reported.
        """
        return self._session.progress

    @progress.setter
    def progress(self, progress: Progress | None) -> None:
        self._session.progress = progress

    @property
    def transaction_state(self) -> str:
        """'idle' outside a transaction, 'open' inside one, or 'failed' after an error in one."""
        return self._session.transactions.state

    @brief_traceback
    @reads_variables
    def execute(self, sql: str, params: Parameters = None) -> Result:
        """Run exactly one statement.

        Args:
            sql: The text of the statement. A trailing semicolon is optional.
            params: The values of parameters: a mapping for `$name`, or a sequence for `?`.

        Returns:
            The rows of a query, or the message of any other statement.

        Raises:
            ParseError: The text is not exactly one valid statement.
            BindError: A name, type or clause does not match the database.
            QueryError: DuckDB failed to run a query.
            SnapdbError: The statement failed for another reason, which `error.code` identifies.
        """
        if not isinstance(sql, str):
            raise TypeError(f"the argument of execute must be the text of a statement, found {sql!r}")
        return self.run(parse_one(sql), params)

    @brief_traceback
    @reads_variables
    def sql(self, sql: str, params: Parameters = None) -> Relation | None:
        """Return a query as a relation, which runs when its rows are asked for. Other statements run at once.

        Args:
            sql: The text of one statement. FROM can name variables of the caller with data frames or relations.
            params: The values of parameters: a mapping for `$name`, or a sequence for `?`.

        Returns:
            The relation of a statement that only reads, otherwise None.

        Raises:
            SnapdbError: As for `execute`.
        """
        if not parse_one(sql).only_reads():
            self.execute(sql, params)
            return None
        return checked_relation(self, sql, params)

    @brief_traceback
    @reads_variables
    def script(self, text: str, params: Parameters = None) -> list[Result]:
        """Run several statements in order. All of them are parsed before the first one runs.

        Args:
            text: Statements, separated by semicolons.
            params: The values of the parameters of all statements.

        Returns:
            One result per statement. All rows have been read.

        Raises:
            SnapdbError: A statement failed. The statements before it have taken effect, unless a transaction encloses
                them.
        """
        results = []
        for statement in parse(text):
            result = self.run(statement, params)
            result.arrow()
            results.append(result)
        return results

    @brief_traceback
    @reads_variables
    def run(self, statement: Statement, params: Parameters = None) -> Result:
        """Run a parsed statement."""
        return self._session.run(statement, params)

    @brief_traceback
    @reads_variables
    def plan(self, statement: Statement, params: Parameters = None) -> Plan:
        """Return the plan of a statement without running it. An open transaction is not changed."""
        return self._session.plan(statement, params)

    def reading(
        self, params: Parameters = None, *, committed: bool = False
    ) -> AbstractContextManager[ExecutionContext]:
        """Return a context for a block that only reads. No file in the catalog is removed during the block."""
        return self._session.reading(params, committed=committed)

    @contextmanager
    def transaction(self, message: str | None = None) -> Iterator[Self]:
        """Run the statements of a `with` block in one transaction.

        The transaction commits if the block succeeds, and rolls back if the block raises an exception. The changes
        become a single version, or are discarded.

        Args:
            message: The message of the version. Defaults to the joined messages of the statements.

        Yields:
            This database.

        Raises:
            CommitConflict: Another writer changed data on which the transaction is based. Run the block again.
        """
        self.execute("BEGIN")
        try:
            yield self
        except BaseException:
            self._session.transactions.close()
            raise
        self._session.transactions.commit(message)

    @brief_traceback
    @reads_variables
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
        """Open a stream of mini-batches for a training loop or a DataLoader to iterate over.

        Args:
            query: A sampler's name, as in stream("train"), or a statement: SAMPLE FROM …, SAMPLE USING train …, WALK
                FROM … or WALK USING …. A single word is always a name. A sampler's EPOCHS clause has no effect here,
                because each iteration is one epoch.
            threads: The number of threads that build batches. Defaults to one per core, or to two if a GPU samples.
                With 0, the iterating thread builds them. Batches and their order do not depend on this number.
            device: The device of the tensors, such as 'cpu' or 'cuda:0'. Defaults to the ON clause of the statement, or
                to the CPU.
            rank: The number of this process among the `world_size` processes that share the stream. Together they yield
                each batch once, so the number of batches can differ by one between ranks unless `drop_last` or `pad` is
                set.
            world_size: The number of processes that share the stream.
            drop_last: Omit the last batch if it has fewer seeds than BATCH, and any batches that only some ranks would
                receive.
            pad: Repeat the epoch's first batches for ranks that would have one batch fewer. `batch.padding` marks them.
            transform: A pure function of a batch. The stream yields its results instead of batches. It runs on the
                thread that built the batch, or on the consumer's thread if batches are copied to a GPU.
            seeds: A different seed set for the same sampler: a SELECT, or ids as a tensor, array, list or Arrow array.
            prefetch: The number of batches that may be complete or in progress. Defaults to the number of threads plus
                one.
            memory: The memory limit for scratch buffers and for batches that are complete or in progress, in bytes or
                as a size such as '2GB'. Defaults to the statement's WITH (memory = …), or to no limit.
            ids: The dtype of node ids in batches (`n_id`, `edge_index` and all other local ids): 'int32' or 'int64'.
                Defaults to the statement's WITH (ids = …), or to int64.
            zero_copy: If batches are copied to a GPU, let the GPU read features that do not fit into its memory
                directly from host memory. For this, the features are copied into page-locked memory. By default,
                threads gather the feature rows. Requires Triton.
            params: The values of the statement's parameters: a mapping for `$name`, or a sequence for `?`.
            follow: Start each epoch with the newest publication of the snapshot, like `stream.renew()`. Not supported
                with several ranks.

        Returns:
            A stream of `Batch`, of `WalkBatch` for random walks, or of the results of `transform`. Close it, or use it
            as a context manager.

        Raises:
            ParseError: The text is not a SAMPLE or WALK statement.
            BindError: The sampler or a name in the statement does not exist.
            DataError: A seed is not in the snapshot.
            InputError: The device is not available, the memory limit is too low, or 'int32' is too small for the
                snapshot.
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

    @brief_traceback
    @reads_variables
    def algorithm(
        self,
        name: str,
        snapshot: str,
        *,
        edges: str | Sequence[str] | None = None,
        direction: Literal["out", "in", "both"] | None = None,
        weight: str | None = None,
        seeds: object = None,
        pairs: object = None,
        repeatable: int | None = None,
        **options: object,
    ) -> Result:
        """Run a graph algorithm on a snapshot, as `SELECT * FROM pagerank('june', damping => 0.9)` does.

        Args:
            name: The name of the algorithm, such as 'pagerank'.
            snapshot: The name of the snapshot.
            edges: The name of an edge type, or several. Defaults to all edge types.
            direction: The direction in which edges are followed. Defaults to 'out'.
            weight: The name of a column of the edge tables with weights.
            seeds: Vertices for algorithms that start at some: a SELECT of their keys, or keys as a tensor, array, list,
                mapping or Arrow data.
            pairs: Pairs of vertices for algorithms that compare two: a SELECT of the keys of both, a list of tuples, an
                array [pairs, 2], or a mapping or Arrow data with the columns of both keys.
            repeatable: The seed of random decisions. Defaults to 0.
            **options: The other options of the algorithm, such as `damping=0.9`. None stands for the default.

        Returns:
            The key of each vertex, or the columns of `pairs`, and a column with the name of the algorithm.

        Raises:
            BindError: The algorithm, snapshot, an edge type or an option does not exist, or a value is not valid.
            DataError: A vertex is not in the snapshot, or a weight is not valid.
            InputError: The arrays would need too much memory.
        """
        given = {"edges": edges, "direction": direction, "weight": weight, "seeds": seeds, "pairs": pairs}
        return call_algorithm(self._session, name, snapshot, {**given, "repeatable": repeatable, **options})

    @brief_traceback
    @reads_variables
    def draw(
        self, sampler: str, batch: int = 0, seeds: int = 2, *, params: Parameters = None
    ) -> pictures.SampleDrawing:
        """Return a batch of a sampler as a drawing, which notebooks show.

        The batch is a real batch of the sampler, with BATCH replaced with `seeds` and EPOCHS with 1. A drawing has at
        most 500 nodes. For a larger batch, it has fewer seeds, and then only the inner hops; its caption reports what
        is left out.

        Args:
            sampler: A sampler's name, or a statement: SAMPLE FROM … or SAMPLE USING train ….
            batch: The number of the batch within the first epoch, starting at 0.
            seeds: The number of seeds per batch.
            params: The values of the statement's parameters: a mapping for `$name`, or a sequence for `?`.

        Returns:
            The nodes and edges. `svg()` returns a picture, `save("sample.svg")` writes one, and `as_json()` returns
            plain values.

        Raises:
            ParseError: The text is not a SAMPLE statement.
            BindError: The sampler or a name in the statement does not exist.
            DataError: A seed is not in the snapshot.
            InputError: The epoch has fewer batches.

        Examples:
            >>> import snapdb
            >>> db = snapdb.connect()
            >>> results = db.script('''
            ...     CREATE TABLE person AS SELECT range AS id FROM range(5);
            ...     CREATE TABLE knows AS SELECT range AS a, (range + 1) % 5 AS b FROM range(5);
            ...     CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id))
            ...       EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
            ...     CREATE SNAPSHOT now OF g;
            ...     CREATE SAMPLER train AS
            ...       SAMPLE FROM now SEEDS (FROM person SELECT id) AS person FANOUT (knows => [1]);
            ... ''')
            >>> drawing = db.draw("train", seeds=1)
            >>> [(node.key, node.hop) for node in drawing.nodes], [edge.e_id for edge in drawing.edges]
            ([('0', 0), ('4', 1)], [4])
            >>> db.close()
        """
        return pictures.draw_sample(self._session, sampler, batch, seeds, params)

    @brief_traceback
    def renew(self) -> bool:
        """Switch a database that was opened by URL to the newest generation that has been published.

        Streams with `follow=True` do this between epochs, and `wait_for` while it waits. Open streams and results keep
        the generation with which they were opened.

        Returns:
            Whether there was a newer generation.

        Raises:
            BindError: The database was not opened by URL.
            SnapdbError: The generation cannot be fetched. The database is unchanged.
        """
        return self._session.renew()

    @brief_traceback
    def wait_for(
        self, snapshot: str, newer_than: Published | int | datetime | None = None, timeout: float | None = None
    ) -> Published:
        """Wait until a snapshot is published that is newer than a given publication.

        Args:
            snapshot: The name of the snapshot, which does not have to exist yet.
            newer_than: A publication that this method or `stream.published` returned, a version, or a time. By default,
                any publication counts. A REFRESH without changes does not publish anything.
            timeout: The maximum number of seconds to wait, or None to wait until `interrupt` is called.

        Returns:
            The publication.

        Raises:
            WaitTimeout: No such snapshot was published in time. The error is also a TimeoutError.
            BindError: The name belongs to a table, graph or sampler.
        """
        return samples.wait_for(self._session, snapshot, newer_than, timeout)

    @brief_traceback
    def replay(
        self,
        lineage: Mapping[str, object],
        batch: int,
        *,
        epoch: int | None = None,
        seeds: object = None,
        params: Parameters = None,
    ) -> loading.Batch:
        """Rebuild a batch of an earlier stream, bit for bit.

        The arguments and errors are documented in `snapdb.replay`, which also opens the database.
        """
        return samples.replay_batch(self._session, lineage, batch, epoch, seeds, params)

    @brief_traceback
    def replay_rows(self, lineage: Mapping[str, object], batch: int, *, epoch: int | None = None) -> pa.Table:
        """Return the rows that SAMPLE returns for a batch of an earlier stream, one per sampled edge.

        Args:
            lineage: `batch.lineage` or `stream.lineage`.
            batch: The batch number within the epoch, counted over all ranks: `batch.index[1]`.
            epoch: The epoch number. Defaults to the lineage's epoch.
        """
        return samples.replay_rows(self._session, lineage, batch, epoch)

    @brief_traceback
    @reads_variables
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
        """Compute a model's output for every vertex of a snapshot by exact layer-wise inference with all neighbours.

        Args:
            model: A model from snapdb.train, a PyG BasicGNN (GraphSAGE, GAT, …), or any model with a `layerwise`
                method.
            snapshot: The name of the snapshot.
            into: The name of a table for keys and outputs, which is written as one version. By default, no table is
                written.
            replace: Replace an existing table with this name. By default, the name must not be in use.
            column: The name of the table's output column.
            node_type: The vertex type of the outputs. Defaults to the only vertex type.
            layers: The model as functions of (batch, x), where x contains the states of the batch's nodes (a dict by
                type if there are several types). Each function returns the next states of the seeds. Defaults to the
                layers of `model`.
            fanout: The edges along which messages are passed, in the syntax of FANOUT. All counts must be FULL.
                Defaults to all incoming edges.
            transform: A function applied to the features that the first layer reads.
            batch: The number of vertices per batch.
            threads: The number of threads that build batches. Defaults to one per core.
            device: The device of the batches. Defaults to the device of the model's weights.

        Returns:
            The keys and the outputs of all vertices of the type.

        Raises:
            BindError: A name does not exist, or the table already exists.
            InputError: The model's layers are unknown, or do not return one row per seed.
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

    @brief_traceback
    def open_snapshot(self, name: str) -> OpenSnapshot:
        """Open a snapshot as arrays: topology, features, targets, vertex times and keys.

        The snapshot's files are kept until the result's lease is released.

        Raises:
            BindError: The snapshot does not exist.
            CorruptError: One of its files is missing or damaged.
        """
        return samples.open_named_snapshot(self._session, name)

    @brief_traceback
    def register(self, name: str, data: Any) -> None:
        """Make `data` available to SQL as a table.

        Args:
            name: The name of the table. Registering a name again replaces its data.
            data: Arrow or pandas data, a torch tensor, or a mapping of columns. A pyarrow Dataset is read in parts, and
                a RecordBatchReader once, batch by batch, so neither has to fit into memory.

        Raises:
            BindError: A table, graph or snapshot already has this name.
        """
        if kind := self._session.catalog().kind_of(name):
            raise BindError(f'{kind} "{name}" already exists; register the data under another name', code="exists")
        self._session.sources[name] = as_source(data)

    @brief_traceback
    def import_graph(
        self, name: str, source: Any, *, snapshot: str = "now", **options: Unpack[ImportOptions]
    ) -> ImportedGraph:
        """Make tables, a property graph and a snapshot of a graph that another library or a file contains.

        Args:
            name: The name of the graph.
            source: A PyG Data, HeteroData or TemporalData, a DGLGraph, a graph of networkx or igraph, a scipy matrix, a
                data frame of edges, a mapping of names to frames, or the path of an edge list or an OGB or TGB folder.
            snapshot: The name of the snapshot.
            options: See `snapdb.interchange.importing.ImportOptions`.

        Returns:
            The names of what was made, the CREATE PROPERTY GRAPH statement, and notes on what is not stored.

        Raises:
            BindError: A name is taken, or a column does not exist.
            DataError: An edge refers to no vertex, or two vertices have the same key. Nothing is created.
            InputError: The source has an unknown form.
        """
        return importing.import_graph(self, name, source, snapshot, options)

    def names(self) -> Vocabulary:
        """Return all names that statements can use, by kind, for completion. The result is cached until one changes."""
        catalog, sources = self._session.catalog(), tuple(map(id, self._session.sources.values()))
        if self._named is None or self._named[0] is not catalog or self._named[1] != sources:
            store = self._session.store
            known = vocabulary(catalog, store.catalog_db, self._session.sources, store.sql_engine.functions())
            self._named = (catalog, sources, known)
        return self._named[2]

    def interrupt(self) -> None:
        """Stop the running statement from another thread or a signal handler. It raises QueryError 'interrupted'."""
        self._session.interrupt()

    def close(self) -> None:
        """Close the database: roll back an open transaction, and remove a temporary database.

        In a forked process, this does nothing, because the process that opened the database closes it.
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
