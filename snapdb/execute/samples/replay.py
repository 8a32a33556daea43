"""`db.replay`: samples a batch again from its lineage, with the snapshot, tables and seeds of that time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from snapdb import loading
from snapdb.builders.files import build_files
from snapdb.catalog.state import moment
from snapdb.errors import CorruptError, DatabaseError, DataError, InputError
from snapdb.execute.samples.lineage import Past, codings_in, named_parameters, read_lineage, tables_digest
from snapdb.execute.samples.opening import open_statement
from snapdb.execute.samples.operators import row_maker
from snapdb.execute.samples.row_batches import epoch_batches
from snapdb.execute.session import DatabaseSession, ExecutionContext
from snapdb.execute.snapshots import snapshot_record
from snapdb.execute.transactions import retry_if_replaced
from snapdb.graph.layout import Codings, codings, read_layout
from snapdb.loading.source import StreamOptions, StreamSource
from snapdb.plan import BindContext, optimize
from snapdb.plan.fits import misfits
from snapdb.plan.queries import Parameters
from snapdb.plan.samples import SamplePlan
from snapdb.plan.snapshots import CreateSnapshotPlan
from snapdb.plan.times import LAST
from snapdb.sampling import batches_in
from snapdb.sql_engine import quote_odd
from snapdb.types import Snapshot, TimeUnit, VertexElement, Window

if TYPE_CHECKING:
    from snapdb.loading import Batch


_CHANGED = (
    "SEEDS now returns different seeds, because it reads data without versions (a file, registered "
    "data, another snapshot)"
)
_OTHERS = "different seeds were passed; pass the same seeds with the same columns"


def replay_batch(
    session: DatabaseSession,
    lineage: Mapping[str, object],
    batch: int,
    epoch: int | None,
    seeds: object,
    params: Parameters,
) -> Batch:
    """Sample a batch again from its lineage. The arguments and errors are those of `snapdb.replay`."""
    wanted = _Replay.of(read_lineage(lineage), batch, epoch, seeds, params)
    return retry_if_replaced(lambda: session.read_head(wanted.batch))


def replay_rows(session: DatabaseSession, lineage: Mapping[str, object], batch: int, epoch: int | None) -> pa.Table:
    """Return the rows that SAMPLE or WALK returns for the batch with the given lineage."""
    wanted = _Replay.of(read_lineage(lineage), batch, epoch, seeds=None, parameters=None)
    return retry_if_replaced(lambda: session.read_head(wanted.rows))


@dataclass(frozen=True, slots=True)
class _Replay:
    """A batch to replay, and everything that determines its content."""

    past: Past
    epoch: int
    number: int
    """The batch number within the epoch."""
    seeds: object
    """The ids or the SELECT, or None for the seeds of the sampler."""
    parameters: Parameters

    @staticmethod
    def of(past: Past, batch: Any, epoch: Any, seeds: object, parameters: Parameters) -> _Replay:
        """Return the validated arguments.

        Raises:
            InputError: The batch does not exist, or seeds or parameters are missing.
        """
        epoch = (past.epoch or 0) if epoch is None else epoch
        for name, value in (("a batch", batch), ("an epoch", epoch)):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
                raise InputError(
                    f"{name} must be an integer from 0 to 2^31 - 1, found {value!r:.40}", code="no-such-batch"
                )
        if past.given_seeds and past.seed_query is None and seeds is None:
            raise _missing("has seeds that were passed from Python, which a lineage does not contain", "seeds")
        named = named_parameters(past.sampler.text, past.seed_query)
        if named and parameters is None and past.parameters is None:
            raise _missing(f"has a lineage without the values of {', '.join(sorted(named))}", "params")
        return _Replay(
            past,
            epoch,
            batch,
            past.seed_query if seeds is None else seeds,
            past.parameters if parameters is None else parameters,
        )

    def batch(self, context: ExecutionContext) -> Batch:
        """Return the batch on the CPU, after reading all its columns."""
        with (
            self._opened(context, "batches") as opened,
            loading.BatchStream(opened._replace(cache=None), StreamOptions(threads=0, progress=context.step)) as stream,
        ):
            batch: Batch = _whole(stream.replayed(self.epoch, self.number))
            return batch

    def rows(self, context: ExecutionContext) -> pa.Table:
        """Return the rows that SAMPLE or WALK returns for the batch."""
        with self._opened(context, "rows") as opened:
            maker = row_maker(opened)
            tasks = list(epoch_batches(opened.seeds, opened.spec, self.epoch))[: self.number + 1]
            if maker.in_order:  # includes earlier epochs, because their accesses determine the rows' rounds
                epochs = (epoch_batches(opened.seeds, opened.spec, epoch) for epoch in range(self.epoch))
                tasks = [*chain.from_iterable(epochs), *tasks]
                for task in tasks[:-1]:
                    context.check_stopped()
                    maker.rows(task)
            return pa.Table.from_batches(maker.rows(tasks[-1]), maker.schema)

    @contextmanager
    def _opened(self, context: ExecutionContext, delivers: Literal["rows", "batches"]) -> Iterator[StreamSource]:
        """Open the sampler with its seeds, in the state that the lineage describes."""
        past = self.past
        _check_database(context, past)
        # None of these clauses affects a batch, and the original machine may have had other devices.
        clauses = replace(past.sampler.clauses, device=None, backend=None, memory=None)
        statement = replace(past.sampler, clauses=clauses)
        with _snapshot_as_then(context, past) as snapshot:
            then = replace(context, bind_context=_then(context.bind_context, past, snapshot, self.parameters))
            plan, opened = open_statement(then, statement, self.seeds, delivers, past.drawn)
            try:
                self._check(plan, opened)
                if delivers == "batches":
                    _check_codings(past, opened, stands=snapshot.id > 0)  # one that was built for the block has id 0
                yield opened
            finally:
                opened.release()

    def _check(self, plan: SamplePlan, opened: StreamSource) -> None:
        """Raise an error if the seeds differ from those of the lineage, or the batch number is out of range."""
        if opened.seeds.digest() != self.past.seeds:
            why = _CHANGED if plan.outside is None else _OTHERS
            raise DataError(f"the seeds differ from those of this lineage: {why}", code="other-seeds")
        batches = batches_in(opened.seeds.ids.size, opened.spec, self.epoch)
        if self.number >= batches:
            raise InputError(
                f"batch {self.number} does not exist: epoch {self.epoch} of this lineage has {batches} "
                "batches (numbered from 0)",
                code="no-such-batch",
            )


def _missing(what: str, argument: str) -> InputError:
    return InputError(f"this batch {what}; pass the same values again: {argument}=…", code="not-in-lineage")


def _check_database(context: ExecutionContext, past: Past) -> None:
    """Raise an error if this database does not have the lineage's version."""
    head, version = context.catalog.version, past.tables_version
    if version <= head and tables_digest(context, version) == past.tables_digest:
        return
    problem = f"its version {version} differs" if version <= head else f"its newest version is {head}"
    raise DatabaseError(
        f"{context.store.db_dir.path} is not the database of this lineage, which refers to version {version} of "
        f"{past.database}: {problem}; specify its database: database=… (--database)",
        code="other-database",
    )


@contextmanager
def _snapshot_as_then(context: ExecutionContext, past: Past) -> Iterator[Snapshot]:
    """Yield a snapshot with the content that the lineage describes. If none exists, build one for the block."""
    known = context.catalog.snapshots
    if match := next((one for one in known.values() if past.fits(one) and _codes_as_then(context, past, one)), None):
        yield match
        return
    plan = _pinning(context.bind_context, past)
    if context.store.db_dir.read_only:
        raise _unwritable(context.bind_context, past, plan)
    changed = optimize(plan, context.rules)
    assert isinstance(changed, CreateSnapshotPlan)
    built = build_files(context, changed)
    try:
        yield snapshot_record(context, changed, built)
    finally:
        context.store.disk.remove(built.path)


def _codes_as_then(context: ExecutionContext, past: Past, snapshot: Snapshot) -> bool:
    """Return whether a snapshot has the lineage's classes and widths, which may differ if an older snapdb built it."""
    if past.codings is None:
        return True
    try:
        layout = read_layout(context.store.db_dir, snapshot)
        return codings(context.store.db_dir, snapshot.graph, layout) == past.codings
    except CorruptError:  # it was dropped concurrently or is damaged, so it is built again
        return False


def _check_codings(past: Past, opened: StreamSource, *, stands: bool) -> None:
    """Raise DataError unless the classes of codes and the widths of sparse features match the lineage.

    Args:
        past: The lineage.
        opened: The sampler.
        stands: Whether the snapshot already existed and was not built from tables for this replay.
    """
    now = codings_in(opened.view.lineage)
    assert now is not None
    if past.codings is None:
        growing = [v.name for v in past.pinned.graph.vertices if _grows(v, now)]
        if growing and not stands:
            raise DataError(
                "this lineage was created by a snapdb version that did not record class codes and sparse feature "
                f"widths ({', '.join(growing)}), and its snapshot no longer exists, so they may differ; replay it "
                "with the snapdb version in the lineage, or list its rows with snapdb replay",
                code="other-codes",
            )
        return
    for name, then in past.codings.items():
        for element in {**then, **now[name]}:
            if then.get(element) != now[name].get(element):
                was, is_now = _coding_text(then.get(element)), _coding_text(now[name].get(element))
                raise DataError(
                    f"the {name} of {element} differ from those in this lineage ({was} then, {is_now} now): the "
                    "snapshot was created by an older snapdb, which assigned different codes; replay it with that "
                    "version, or sample again",
                    code="other-codes",
                )


def _grows(vertex: VertexElement, now: Codings) -> bool:
    """Return whether a vertex type's codes or widths depend on its rows."""
    text = vertex.name in now["classes"] and vertex.classes is None
    return text or any(spec.sparse and spec.width is None for spec in vertex.features)


def _coding_text(coding: Any) -> str:
    """Return classes or widths as text for messages."""
    if not isinstance(coding, Mapping):
        return "none"
    names = coding.get("names")
    known = f": {', '.join(map(str, names[:3]))}{', …' if len(names) > 3 else ''}" if isinstance(names, list) else ""
    return f"{coding['count']}{known}" if "count" in coding else str(dict(coding))


def _unwritable(bind_context: BindContext, past: Past, plan: CreateSnapshotPlan) -> DatabaseError:
    graph = bind_context.catalog.graphs.get(plan.graph.name.lower())
    stands = graph is not None and set(plan.graph.elements) <= set(graph.elements)
    hint = f", or run there: {_create_text(plan)}" if stands else ""
    return DatabaseError(
        f"snapshot {past.snapshot} no longer exists in that state, and the database was opened read-only; "
        f"open it for writing{hint}",
        code="read-only",
    )


def _pinning(bind_context: BindContext, past: Past) -> CreateSnapshotPlan:
    """Return the plan that builds the lineage's snapshot again, under an unused name."""
    taken, tables = bind_context.catalog.kind_of(past.snapshot) is not None, bind_context.tables_at(past.version)
    if problem := next(misfits(past.pinned.graph, tables), None):
        raise InputError(
            f"this lineage is damaged: its graph does not match version {past.version}: {problem}", code="lineage"
        )
    return CreateSnapshotPlan(
        name=f"{past.snapshot}_of_version_{past.version}" if taken else past.snapshot,
        graph=past.pinned.graph,
        version=past.version,
        tables=tables,
        window=past.window,
        unit=past.pinned.unit,
        filters=past.pinned.filters,
        replaces=None,
    )


def _then(bind_context: BindContext, past: Past, snapshot: Snapshot, parameters: Parameters) -> BindContext:
    """Return the context that the stream had, with the tables at its version and its snapshot under its name."""
    snapshots = {**bind_context.catalog.snapshots, past.snapshot.lower(): replace(snapshot, name=past.snapshot)}
    catalog = replace(
        bind_context.catalog,
        version=past.tables_version,
        tables=bind_context.tables_at(past.tables_version),
        snapshots=snapshots,
    )
    return replace(bind_context, catalog=catalog, parameters=parameters)


def _whole(batch: Any) -> Any:
    """Read the whole batch or batch of walks, because its snapshot's files may be removed afterwards."""
    if isinstance(batch, loading.WalkBatch):
        dict(batch.edges)
        return batch
    columns: list[Mapping[Any, Any]] = [batch.e_id, batch.edge_time, batch.edge_weight, *batch.edge_features.values()]
    for values in columns:
        dict(values)
    return batch


def _create_text(plan: CreateSnapshotPlan) -> str:
    """Return the CREATE SNAPSHOT statement with absolute versions and times only."""
    parts = [f"CREATE SNAPSHOT {quote_odd(plan.name)} OF {quote_odd(plan.graph.name)} AT (VERSION => {plan.version})"]
    if bounds := _bounds(plan.window, plan.unit):
        parts.append(f"FOR EVENT_TIME {bounds}")
    parts.append(f"ELEMENTS ({', '.join(quote_odd(element.name) for element in plan.graph.elements)})")
    if plan.filters:
        parts.append(f"WHERE {' AND '.join(f'({one.condition})' for one in plan.filters)}")
    return " ".join(parts)


def _bounds(window: Window, unit: TimeUnit | None) -> str:
    """Return the text after FOR EVENT_TIME, or '' for all times."""
    match window.start, window.stop:
        case None, None:
            return ""
        case None, int(stop):
            return f"AS OF {_time(stop - 1, unit)}"
        case int(start), int(stop):
            return f"FROM {_time(start, unit)} TO {_time(stop, unit)}"
        case start, _:
            assert start is not None, "the other cases"
            return f"BETWEEN {_time(start, unit)} AND {_time(LAST, unit)}"


def _time(time: int, unit: TimeUnit | None) -> str:
    """Return an event time as an SQL literal.

    >>> _time(1_500_000, "timestamp"), _time(-7, "integer")
    ("TIMESTAMP '1970-01-01 00:00:01.500000'", '-7')
    """
    if unit == "integer":
        return str(time)
    try:
        return f"TIMESTAMP '{moment(time).replace(tzinfo=None).isoformat(sep=' ')}'"
    except OverflowError:  # a year outside the range of Python's calendar
        return f"make_timestamp({time})"
