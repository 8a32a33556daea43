"""`db.infer`: opens a snapshot for batches of all its vertices, and stores the result with a statement."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from snapdb import train
from snapdb.catalog import Catalog
from snapdb.errors import BindError, SnapdbError, Span
from snapdb.execute.samples.opening import open_sample
from snapdb.execute.session import DatabaseSession, ExecutionContext
from snapdb.execute.transactions import retry_if_replaced
from snapdb.loading.source import StreamSource
from snapdb.plan import bind
from snapdb.plan.names import find_vertex_type
from snapdb.plan.samples import SamplePlan
from snapdb.sql import parse
from snapdb.sql.samples import Sample
from snapdb.sql.syntax import Name, Statement
from snapdb.sql_engine import quote, quote_odd
from snapdb.sql_engine.sources import as_source
from snapdb.types import FULL, Snapshot, VertexElement

if TYPE_CHECKING:
    from snapdb.train import Inferred, Layers
    from snapdb.train.layerwise import Run


_INFERRED = "snapdb inferred"
"""The name of the view through which SQL reads the inferred states."""
_ALL = "DEFAULT => [FULL]"


@dataclass(frozen=True, slots=True)
class Inference:
    """The arguments of an inference."""

    snapshot: str
    node_type: str | None
    """The vertex type, or None for the only one."""
    layers: Layers
    fanout: str | None
    """The text of FANOUT, or None for all incoming edges."""
    batch: int
    into: str | None
    """The name of the table to create, or None for no table."""
    replaces: bool
    """Whether to replace the table if it already exists."""
    column: str
    transform: Callable[[Any], Any] | None
    threads: int | None
    device: str | None

    def __post_init__(self) -> None:
        named = {"snapshot": self.snapshot, "into": self.into, "node_type": self.node_type, "fanout": self.fanout}
        for name, value in (named | {"column": self.column}).items():
            if not isinstance(value, str) and (value is not None or name in ("snapshot", "column")):
                raise TypeError(f"{name} must be a str, found {value!r}")
        if isinstance(self.batch, bool) or not isinstance(self.batch, int) or self.batch < 1:
            raise ValueError(f"batch must be 1 or more vertices, found {self.batch!r}")

    def trial(self, catalog: Catalog) -> Statement:
        """Return a statement that creates an empty table with that name, to check in advance whether this is possible.

        Raises:
            BindError: The name is taken, or the snapshot depends on the table.
        """
        assert self.into is not None
        if catalog.kind_of(self.into) == "table":
            snapshot = catalog.snapshot(self.snapshot)
            if self.into.lower() in {name.lower() for name in snapshot.graph.tables}:
                raise BindError(
                    f"into={self.into!r} is a table of graph {snapshot.graph.name}; choose another name", code="exists"
                )
            if not self.replaces:
                raise BindError(
                    f'table "{self.into}" already exists; pass replace=True, or choose another name', code="exists"
                )
        return self.statement(f"SELECT 1 AS {quote(self.column)}")

    def statement(self, query: str) -> Statement:
        """Return the statement that creates the table from a SELECT."""
        assert self.into is not None
        create = "CREATE OR REPLACE TABLE" if self.replaces else "CREATE TABLE"
        (statement,) = parse(f"{create} {quote_odd(self.into)} AS {query}")
        return statement

    def opened(self, context: ExecutionContext) -> OpenInference:
        """Open the snapshot without the rules that skip types more than one hop away from the seeds.

        Raises:
            BindError: A name does not exist, the vertex type is ambiguous, or a fanout is not FULL.
            CorruptError: A file of the snapshot is missing or damaged.
        """
        snapshot = context.catalog.snapshot(self.snapshot)
        element = self._element(snapshot)
        if self.column.lower() in {name.lower() for name in element.key}:
            raise BindError(
                f"{self.column!r} is a key column of {element.name}; choose another column for the states: column=…",
                code="duplicate-name",
            )
        (statement,) = parse(self._text(snapshot, element))
        assert isinstance(statement, Sample)
        try:
            _check_full(statement)
            plan = bind(statement, context.bind_context)
            assert isinstance(plan, SamplePlan)
            opened = open_sample(context, plan)
        except SnapdbError as error:
            raise error.located(statement.source) from error.__cause__
        types = {c.name: c.type for c in context.bind_context.tables_under(snapshot)[element.table.lower()].columns}
        return OpenInference(self, context, plan, opened, element, {name: types[name] for name in element.key})

    def _element(self, snapshot: Snapshot) -> VertexElement:
        """Return the vertex type whose states are inferred."""
        if self.node_type is not None:
            return find_vertex_type(snapshot, Name(self.node_type, Span(0, 0)))
        names = [vertex.name for vertex in snapshot.graph.vertices]
        if len(names) != 1:
            raise BindError(
                f"snapshot {snapshot.name} has several vertex types ({', '.join(names)}); pass one, "
                f"node_type={names[0]!r}",
                code="several-types",
            )
        return snapshot.graph.vertices[0]

    def _text(self, snapshot: Snapshot, element: VertexElement) -> str:
        """Return the SAMPLE statement of a layer's batches, without seeds, because every vertex is a seed."""
        name, keys = quote_odd(element.name), ", ".join(map(quote_odd, element.key))
        return (
            f"SAMPLE FROM {quote_odd(snapshot.name)} SEEDS (SELECT {keys} FROM {name} WHERE false) "
            f"AS {name} FANOUT ({self.fanout or _ALL}) METHOD FULL BATCH {self.batch}"
        )


def run_inference(session: DatabaseSession, wanted: Inference) -> Inferred:
    """Return the states of all vertices, and store them if a table is named. Errors are those of `Database.infer`."""
    if wanted.into is not None:  # reports problems with the table before the inference
        session.transactions.check()
        trial = wanted.trial(session.catalog())
        session.check_allowed(session.plan(trial), trial)
    ready = open_inference(session, wanted)
    inferred = ready.inferred()
    if wanted.into is not None:
        session.sources[_INFERRED] = as_source(inferred.reader())
        try:
            session.run(ready.statement)
        finally:
            del session.sources[_INFERRED]
    return inferred


def open_inference(session: DatabaseSession, wanted: Inference) -> OpenInference:
    """Open the snapshot of an inference. The errors are those of `Inference.opened`."""
    return retry_if_replaced(lambda: session.read_head(wanted.opened))


def _check_full(statement: Sample) -> None:
    """Raise BindError unless every fanout is FULL."""
    if statement.visits is not None:
        raise BindError(
            "inference reads all neighbours, but BY WALKS samples them; write fanout='edge_type => [FULL]'",
            span=statement.visits.span,
            code="clauses-clash",
        )
    for clause in statement.fanouts:
        if any(count != FULL for count in clause.counts):
            edge = "DEFAULT" if clause.edge is None else quote_odd(clause.edge.text)
            raise BindError(
                f"the fanouts of inference must be FULL, because inference is exact, found {list(clause.counts)}; "
                "write "
                f"fanout='{edge} => [FULL]', and leave out edge types that the model does not use",
                span=clause.span,
                code="out-of-range",
            )


class OpenInference(NamedTuple):
    """An inference whose snapshot is open."""

    inference: Inference
    context: ExecutionContext
    plan: SamplePlan
    opened: StreamSource
    element: VertexElement
    key: dict[str, str]
    """The key columns, with their types."""

    @property
    def passes(self) -> train.Passes:
        """The passes over the snapshot's nodes."""
        inference, path = self.inference, self.context.store.db_dir.path
        return train.Passes(
            self.opened.view,
            replace(self.plan.spec, order="IN ORDER"),
            inference.layers,
            folder=path if os.access(path, os.W_OK) else Path(tempfile.gettempdir()),
            transform=inference.transform,
            threads=inference.threads,
            most=self.context.threads,
            device=inference.device,
            step=self.context.step,
        )

    def inferred(self, run: Run | None = None) -> Inferred:
        """Return the last layer's states of all vertices of the type. The snapshot is always released.

        Args:
            run: Runs the passes, or None to run them in this process.

        Raises:
            InputError: A layer does not return one row of numbers per seed.
        """
        inference, passes = self.inference, self.passes
        try:
            states = passes.states(self.element.name, run)
            ids = self.opened.view.keys[self.element.name].read(passes.nodes(self.element.name))
        finally:
            self.opened.release()
        return train.Inferred(self.element.name, self.element.key, ids, states, inference.column)

    @property
    def statement(self) -> Statement:
        """The statement that creates the table of states, with the vertex table's key columns."""
        keys = [f"CAST({quote(name)} AS {type_}) AS {quote(name)}" for name, type_ in self.key.items()]
        return self.inference.statement(
            f"SELECT {', '.join(keys)}, {quote(self.inference.column)} FROM {quote(_INFERRED)}"
        )
