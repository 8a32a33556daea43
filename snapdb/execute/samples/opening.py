"""Opens the snapshot and the seeds of a sampler or stream, and reopens them at each new publication."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

from snapdb.builders.element_columns import Reading, with_columns
from snapdb.catalog import Catalog
from snapdb.errors import SnapdbError
from snapdb.execute.samples.lineage import sample_lineage
from snapdb.execute.samples.seeds import check_born, read_seeds
from snapdb.execute.session import DatabaseSession, ExecutionContext
from snapdb.execute.transactions import retry_if_replaced
from snapdb.graph import GraphView, OpenSnapshot, open_snapshot
from snapdb.graph.adjacency import WithoutIdle, outgoing_artifact, serves_outgoing, write_outgoing
from snapdb.graph.layout import raise_if_snapshot_replaced, read_layout
from snapdb.graph.open import published
from snapdb.kernels.warm import warming
from snapdb.loading.batch import Batch
from snapdb.loading.budgets import CacheSource
from snapdb.loading.source import Sharing, StreamOptions, StreamSource
from snapdb.loading.stream import BatchStream, Given
from snapdb.plan import bind, optimize
from snapdb.plan.queries import Parameters
from snapdb.plan.samples import SamplePlan
from snapdb.plan.samples.bind import streamed, with_seeds
from snapdb.plan.samples.clauses import with_every
from snapdb.sampling import Seeds, batches_in
from snapdb.sampling.rounds import auto_every
from snapdb.sql.samples import Sample, SampleUsing
from snapdb.sql.syntax import bytes_of
from snapdb.storage.artifacts import find_or_build
from snapdb.types import IdType, Published, Sampler, SampleSpec, Snapshot

_WORTH = 1_000_000
"""The minimum number of edges for which out-neighbours are stored on disk. Fewer edges are sorted in memory on
demand."""
_CALLER = 5
"""The number of stack frames between a warning and the caller that triggers the stream's refresh."""


def open_statement(
    context: ExecutionContext,
    statement: Sample | SampleUsing,
    seeds: object,
    delivers: Literal["rows", "batches"],
    restore: Callable[[SampleSpec], SampleSpec] = lambda spec: spec,
) -> tuple[SamplePlan, StreamSource]:
    """Bind, optimize and open a SAMPLE statement.

    Args:
        context: The context of the statement.
        statement: The statement.
        seeds: A SELECT or ids that replace the seeds of the statement, or None.
        delivers: Whether the caller reads rows or batches.
        restore: Sets the fields of the spec that only a lineage records.

    Raises:
        BindError: A name in the statement does not exist.
        CorruptError: A file of the snapshot is missing or damaged.
        DataError: The seeds or weights are not valid.
    """
    try:
        plan = bind(statement, context.bind_context)
        assert isinstance(plan, SamplePlan)
        if seeds is not None:
            plan = with_seeds(context.bind_context, plan, seeds)
        plan = optimize(replace(plan, delivers=delivers), context.rules)
        assert isinstance(plan, SamplePlan)
        plan = replace(plan, spec=restore(plan.spec))
        return plan, open_sample(context, plan)
    except SnapdbError as error:
        raise error.located(statement.source) from error.__cause__


def open_sample(context: ExecutionContext, plan: SamplePlan) -> StreamSource:
    """Open the snapshot of the plan and read its seeds.

    Raises:
        CorruptError: A file of the snapshot is missing or damaged.
        DataError: The seeds or weights are not valid.
    """
    with plan.places.under():
        return _open(context, plan)


def _open(context: ExecutionContext, plan: SamplePlan) -> StreamSource:
    with raise_if_snapshot_replaced(context.store.catalog_db, plan.snapshot):
        _build_outgoing(context, plan)
    context.report(f"opening {plan.snapshot.name}", None)
    opened = open_snapshot(context.store.catalog_db, plan.snapshot, plan.hints.opens)
    try:
        context.check_stopped()
        with warming() if plan.hints.applied(plan.spec).backend != "torch" else nullcontext():
            seeds = read_seeds(context, plan, opened.view, opened.id_maps[plan.spec.seed_type])
        context.check_stopped()
        view = with_columns(context, plan, opened.view, opened.id_maps, timed=seeds.time is not None)
        check_born(plan, view, seeds)
        lineage = {**view.lineage, **sample_lineage(context, plan)}
        reader = WithoutIdle(view.adjacency, plan.hints.idle, plan.snapshot.graph, view.node_counts)
        view = replace(view, adjacency=reader, lineage=lineage)
        spec = _with_period(plan.spec, view, seeds)
        edges, features = (_cache_source(context, plan.sampler, what) for what in ("EDGES", "FEATURES"))
        return StreamSource(view, seeds, spec, plan.hints, edges, features, opened.lease)
    except BaseException:
        opened.lease.release()
        raise


def _cache_source(context: ExecutionContext, sampler: Sampler | None, what: str) -> CacheSource | None:
    """Return the sampler's edge caches or feature caches."""
    if sampler is None:
        return None
    named = (sampler.name.lower(), what)
    caches = tuple(c for c in context.catalog.caches.values() if (c.sampler.lower(), c.what) == named)
    return CacheSource(caches, context.store.db_dir, context.caches) if caches else None


def _with_period(spec: SampleSpec, view: GraphView, seeds: Seeds) -> SampleSpec:
    """Replace EVERY AUTO with a number of batches, based on the snapshot's counts."""
    if spec.refresh is None or spec.refresh.every is not None:
        return spec
    return with_every(spec, auto_every(view, spec, batches_in(seeds.ids.size, spec, 0)))


def _build_outgoing(context: ExecutionContext, plan: SamplePlan) -> None:
    """Store the edges of large edge types sorted by source, for reverse sampling, if the database is writable."""
    relations = [relation for fanout in plan.spec.fanouts for relation in fanout.relations]
    traversed = {r.edge.edge: r.edge for r in relations if r.direction != "IN" and r not in plan.hints.idle}
    link = plan.spec.link
    traversed |= {} if link is None else {edge.edge: edge for edge in link.known_types}
    if context.store.db_dir.read_only or not traversed:
        return
    layout = read_layout(context.store.db_dir, plan.snapshot)
    counts = {v.name: v.count for v in layout.vertices}
    for edge in layout.edges:
        if edge.name in traversed and edge.edges >= _WORTH and serves_outgoing(edge):
            type_, what = traversed[edge.name], f"sorting {edge.name} by source"
            build = partial(
                write_outgoing,
                context.store.db_dir.path,
                edge,
                (counts[type_.source], counts[type_.destination]),
                report=partial(context.step, what),
            )
            find_or_build(context.store.catalog_db, outgoing_artifact(edge), build)


def open_stream(
    session: DatabaseSession,
    query: str,
    *,
    threads: int | None,
    device: str | None,
    rank: int,
    world_size: int,
    drop_last: bool,
    pad: bool,
    transform: Callable[[Batch], Given] | None,
    seeds: object,
    prefetch: int | None,
    memory: int | str | None,
    ids: IdType | None,
    zero_copy: bool,
    params: Parameters,
    follow: bool,
) -> BatchStream[Given]:
    """Return the batches of a sampler. The arguments and errors are those of `Database.stream`."""
    if not isinstance(query, str):
        raise TypeError(
            f"the argument of stream must be a sampler's name or the text of a SAMPLE statement, found {query!r}"
        )
    if str(device).partition(":")[0] == "meta":
        raise ValueError(
            f"device {str(device)!r} is not supported, because it stores no values; pass 'cpu', 'cuda' or 'cuda:1'"
        )
    options = StreamOptions(
        threads=threads,
        prefetch=prefetch,
        memory=bytes_of("memory", memory),
        ids=ids,
        zero_copy=zero_copy,
        max_threads=session.threads,
        device=device,
        transform=transform,
        progress=session.progress,
        sharing=Sharing(rank, world_size, drop_last, pad),
        follow=follow,
    )
    source = _Following(session, query, seeds, params, memory is not None, ids is not None).opened()
    try:
        with source.located():
            return BatchStream(source, options)
    except BaseException:
        source.release()
        raise


class _Mark(NamedTuple):
    """The state that a stream follows. If it changes, the stream is reopened."""

    published: Published
    """The snapshot's publication."""
    sampler: tuple[str, int] | None
    """The text of a named sampler and the generation of its rows, or None for a statement."""

    def same(self, other: _Mark) -> bool:
        return self.sampler == other.sampler and self.published.content == other.published.content


@dataclass(frozen=True, slots=True)
class _Following:
    """A sampler name or statement, which is reopened at each newer publication."""

    session: DatabaseSession
    query: str
    seeds: object
    parameters: Parameters
    limited: bool
    """Whether the caller set the memory limit. If so, errors about the limit do not have a position in the
    statement."""
    typed: bool
    """Whether the caller set the id type."""

    def opened(self) -> StreamSource:
        """Open the newest publication.

        Raises:
            BindError: A name does not exist, or the text is not a sampler's statement.
            CorruptError: A file of the snapshot is missing or damaged.
            DataError: The seeds are not valid.
        """
        with streamed(self.query) as statement:
            plan, opened = retry_if_replaced(lambda: self._open(statement))
        now = published(plan.snapshot)
        sampler = None if plan.sampler is None else (plan.sampler.text, plan.sampler.generation)
        watch = _PublicationWatch(self, plan, _Mark(now, sampler))
        located = partial(self._located, plan, statement.source)
        return opened._replace(published=now, refresh=watch.refresh, located=located)

    def _open(self, statement: Sample | SampleUsing) -> tuple[SamplePlan, StreamSource]:
        return self.session.read_head(
            lambda context: open_statement(context, statement, self.seeds, "batches"), self.parameters
        )

    @contextmanager
    def _located(self, plan: SamplePlan, text: str) -> Iterator[None]:
        places = replace(plan.places, memory=None) if self.limited else plan.places
        places = replace(places, ids=None) if self.typed else places
        try:
            with places.under():
                yield
        except SnapdbError as error:
            error.located(text)
            raise


class _PublicationWatch:
    """Watches for the next publication of the snapshot that a stream follows, and opens it."""

    def __init__(self, following: _Following, plan: SamplePlan, mark: _Mark) -> None:
        self._following, self._plan, self._mark = following, plan, mark
        self._seen: Catalog | None = None

    def refresh(self) -> StreamSource | None:
        """Open the newer publication, or return None if there is none or the snapshot was dropped.

        Raises:
            SnapdbError: The snapshot cannot be opened, or its seeds cannot be read.
        """
        session = self._following.session
        if session.store.db_dir.url is not None:
            session.renew()
        catalog = session.head()
        # `head` returns the same object until a commit, so this check does not run a query.
        if catalog is self._seen:
            return None
        now = self._now(catalog)
        if now is None or now.same(self._mark):
            self._seen = catalog
            return None
        try:
            return self._following.opened()
        except SnapdbError as error:
            if error.code != "interrupted":
                was, name = self._mark.published, now.published.name
                error.message = (
                    f"{name} was published again (version {now.published.version}), but the stream, at version "
                    f"{was.version} of {was.name}, cannot continue with it: {error.message}"
                )
            raise

    def _now(self, catalog: Catalog) -> _Mark | None:
        """Return the current publication. If the snapshot was dropped, warn and return None."""
        sampler, name = self._plan.sampler, self._plan.snapshot.name
        if sampler is not None:
            current = catalog.samplers.get(sampler.name.lower())
            if current is None:
                self._tell_gone(f"sampler {sampler.name}")
                return None
            sampler, name = current, current.snapshot
        snapshot = catalog.snapshots.get(name.lower())
        if snapshot is None:
            self._tell_gone(f"snapshot {name}")
            return None
        return _Mark(published(snapshot), None if sampler is None else (sampler.text, sampler.generation))

    def _tell_gone(self, what: str) -> None:
        was = self._mark.published
        warnings.warn(
            f"{what} was dropped: the stream continues with {was.name} at version {was.version}, whose files "
            "are kept until the stream is closed; create what was dropped again, or open another stream",
            RuntimeWarning,
            stacklevel=_CALLER,
        )


def open_named_snapshot(session: DatabaseSession, name: str) -> OpenSnapshot:
    """Return a snapshot at the head as arrays. The errors are those of `Database.open_snapshot`."""
    return retry_if_replaced(
        lambda: session.read_head(lambda context: _open_whole(context, context.catalog.snapshot(name)))
    )


def _open_whole(context: ExecutionContext, snapshot: Snapshot) -> OpenSnapshot:
    """Return the whole snapshot as arrays, with vertex birth times. Its files are kept until the lease is released.

    Raises:
        CorruptError: A file of the snapshot is missing or damaged.
        CommitConflict: The snapshot was replaced or dropped concurrently.
    """
    opened = open_snapshot(context.store.catalog_db, snapshot)
    bearing = [vertex.name for vertex in snapshot.graph.vertices if vertex.event_time]
    if not bearing:
        return opened
    try:
        reading = Reading.of(context, snapshot, opened.view, opened.id_maps)
        born = {name: reading.births(name) for name in bearing}
    except BaseException:
        opened.lease.release()
        raise
    return opened._replace(view=replace(opened.view, born=born))
