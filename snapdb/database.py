"""A database: the life of a statement on one screen.

text → parse → statements → bind → plan → optimize → plan → build → operator → run → result
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from snapdb import loading
from snapdb.catalog import Catalog, load
from snapdb.errors import BindError, DatabaseError, ParseError, SnapdbError, Span
from snapdb.execute import Engine, Result, build
from snapdb.execute.opening import open_sample
from snapdb.execute.operator import Rows
from snapdb.plan import Context, bind, optimize
from snapdb.plan.logical import READS, Asked, SamplePlan
from snapdb.plan.repeatable import check_repeatable
from snapdb.relational import Names, Relational, quote
from snapdb.relational.sources import as_arrow
from snapdb.sql import ast, parse
from snapdb.storage.home import open_home
from snapdb.storage.ledger import Ledger
from snapdb.storage.verify import verify_files

__all__ = ["Database", "connect"]

Parameters = Sequence[Any] | Mapping[str, Any] | None


def connect(path: str | Path | None = None, *, read_only: bool = False, verify: bool = False) -> Database:
    """Open the database directory at `path`, and make it when it is not there.

    Args:
        path: None opens a temporary database, which goes when it is closed.
        read_only: Never write, not even to make the directory.
        verify: Check every file's sha256 first, which reads all of them.

    Raises:
        DatabaseError: the path is a file, not writable, not a database, or of a newer format.
    """
    return Database(path, read_only=read_only, verify=verify)


class Database:
    """Tables, graphs and snapshots in one directory. Use it as a context manager, or close it."""

    progress: Callable[[str, float | None], None] | None = None
    """Called by long work with what is being done and, where it is known, the share that is done (0 to 1)."""

    def __init__(self, path: str | Path | None = None, *, read_only: bool = False, verify: bool = False) -> None:
        self.temporary = path is None
        place = Path(tempfile.mkdtemp(prefix="snapdb-")) if path is None else Path(path)
        self._home = open_home(place, read_only=read_only)
        # Also at exit: a temporary database that nobody closed must not stay behind.
        self._remove = weakref.finalize(self, shutil.rmtree, place, ignore_errors=True) if self.temporary else None
        self._ledger = Ledger(self._home)
        if verify:
            verify_files(self._home, self._ledger)
        self._relational = Relational(self.path)
        self._sources: dict[str, pa.Table] = {}
        self._stopped = threading.Event()

    @property
    def path(self) -> Path:
        """The database directory."""
        return self._home.path

    def execute(self, sql: str, params: Parameters = None) -> Result:
        """Run exactly one statement.

        Args:
            params: A mapping for `$name`, a sequence for `?`.
        """
        statements = parse(sql)
        if len(statements) != 1:
            raise ParseError(f"execute takes one statement, found {len(statements)}; use script for several",
                             span=statements[1].span if len(statements) > 1 else None, text=sql)  # fmt: skip
        return self.run(statements[0], params)

    def script(self, text: str, params: Parameters = None) -> list[Result]:
        """Run several statements, one after another; all are read before the first is run."""
        results = []
        for statement in parse(text):
            result = self.run(statement, params)
            result.arrow()
            results.append(result)
        return results

    def run(self, statement: ast.Statement, params: Parameters = None) -> Result:
        """Run a statement that was parsed."""
        self._stopped.clear()
        engine = self._engine(params)
        plan = optimize(bind(statement, engine.context))
        if self._home.read_only and not isinstance(plan, READS):
            raise DatabaseError("the database is opened for reading only; open it without read_only (--read-only)",
                                span=statement.span, text=statement.source)  # fmt: skip
        return Result(build(plan).run(engine), lambda rows: _located(rows, statement))

    def stream(
        self,
        query: str,
        *,
        threads: int | None = None,
        device: str = "cpu",
        rank: int = 0,
        world_size: int = 1,
        seeds: Any = None,
        prefetch: int | None = None,
        params: Parameters = None,
    ) -> loading.BatchStream:
        """The mini-batches of a SAMPLE statement, for a trainer to iterate over.

        Args:
            query: A SAMPLE statement.
            threads: How many make batches; None uses all cores. Batches and their order do not depend on it.
            device: Where tensors are handed over, e.g. 'cpu' or 'cuda:0'.
            rank: This process's number among `world_size` that share the stream.
            seeds: Another seed set through the same sampler: a SELECT, or ids as a tensor, array, list or Arrow.
            prefetch: How many batches may wait; None chooses.
        """
        (statement, *more) = parse(query) or (None,)
        if not isinstance(statement, ast.Sample) or more:
            raise BindError("stream takes one SAMPLE statement", text=query, span=Span(0, len(query.rstrip()) or 1))
        if statement.epochs != 1:
            raise BindError(
                "a stream is iterated once for each epoch; leave EPOCHS out", text=query, span=statement.span
            )
        engine = self._engine(params)
        plan = bind(statement, engine.context)
        assert isinstance(plan, SamplePlan)
        try:
            if seeds is not None:
                plan = replace(plan, seeds=_other_seeds(engine.context, plan, seeds))
            opened = open_sample(engine, plan)
        except SnapdbError as error:
            raise error.located(statement.source, statement.span) from error.__cause__
        return loading.BatchStream(
            opened.view,
            opened.seeds,
            plan.spec,
            threads=threads,
            device=device,
            rank=rank,
            world_size=world_size,
            prefetch=prefetch,
            release=opened.lease.release,
        )

    def register(self, name: str, data: Any) -> None:
        """Let SQL read `data` as a table called `name`: Arrow, pandas, a torch tensor, or a mapping of columns.

        The same name again takes the new data. Raises BindError when a table, graph or snapshot has the name.
        """
        if kind := self._catalog().kind_of(name):
            raise BindError(f'there is a {kind} "{name}" already; register the data by another name', code="exists")
        self._sources[name] = as_arrow(data)

    def names(self) -> dict[str, list[str]]:
        """What can be named, by kind: for completion."""
        catalog = self._catalog()
        graphs = catalog.graphs.values()
        return {
            "tables": [t.name for t in catalog.tables.values()] + list(self._sources),
            "graphs": [g.name for g in graphs],
            "snapshots": [s.name for s in catalog.snapshots.values()],
            "columns": _distinct(c.name for t in catalog.tables.values() for c in t.columns),
            "types": _distinct(e.name for g in graphs for e in g.elements),
        }

    def interrupt(self) -> None:
        """Stop the running statement, from another thread or a signal handler; it raises QueryError 'interrupted'."""
        self._stopped.set()
        self._relational.interrupt()

    def close(self) -> None:
        """Let go of everything; a temporary database is removed."""
        self._ledger.close()
        self._relational.close()
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<snapdb database {self.path}{' (temporary)' if self.temporary else ''}>"

    def _catalog(self) -> Catalog:
        return load(self._ledger)

    def _engine(self, params: Parameters) -> Engine:
        if params is not None and (isinstance(params, str) or not isinstance(params, Mapping | Sequence)):
            raise ValueError(f"params is a mapping for $name or a sequence for ?, found {params!r}")
        context = Context(self._home, self._ledger, self._relational, self._catalog(), self._sources, params)
        return Engine(self._home, self._ledger, self._relational, context, self._report, self._stopped)

    def _report(self, what: str, share: float | None) -> None:
        if self.progress is not None:
            self.progress(what, share)


def _located(rows: Rows, statement: ast.Statement) -> Rows:
    """The same rows; an error among them carries the statement's text."""
    try:
        return (yield from rows)
    except SnapdbError as error:
        raise error.located(statement.source) from error.__cause__


def _other_seeds(context: Context, plan: SamplePlan, seeds: Any) -> Asked:
    """Seeds from outside the statement: a SELECT, or ids."""
    if isinstance(seeds, str):
        (query, *more) = parse(seeds) or (None,)
        if not isinstance(query, ast.Query) or more:
            raise BindError("seeds takes one SELECT, or ids", text=seeds, span=Span(0, len(seeds.rstrip()) or 1))
        asked = context.asked(query.query, first=plan.snapshot)
        with context.session(asked) as session:
            check_repeatable(session, query.query, "a sampler's seeds must be repeatable")
        return replace(asked, verbatim=False)
    table = as_arrow(seeds)
    name = "snapdb seeds given"
    columns = ", ".join(quote(c) for c in table.column_names)
    island = ast.Island(f"SELECT {columns} FROM {quote(name)}", Span(0, 0))
    return Asked(island, Names(sources={name: table}), verbatim=False)


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
