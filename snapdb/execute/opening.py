"""From a sampling plan to what a sampler or a stream needs: the view with its columns, the seeds, the files' lease."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from snapdb.errors import SnapdbError
from snapdb.execute.element_columns import with_columns
from snapdb.execute.lineage import sample_lineage
from snapdb.execute.operator import Engine
from snapdb.execute.seeds import check_born, read_seeds
from snapdb.graph import GraphView, open_snapshot
from snapdb.graph.idle import WithoutIdle
from snapdb.graph.open import read_layout, unless_moved
from snapdb.graph.outgoing import outgoing_artefact, serves_outgoing, write_outgoing
from snapdb.kernels.warm import warming
from snapdb.loading.shelf import CacheSource
from snapdb.plan import bind, optimize
from snapdb.plan.rules import Rule
from snapdb.plan.samples import SamplePlan
from snapdb.plan.samples.bind import with_seeds
from snapdb.plan.samples.clauses import with_every
from snapdb.sampling import Seeds, batches_in
from snapdb.sampling.periods import auto_every
from snapdb.sql.ast import Sample, SampleUsing
from snapdb.storage.artefacts import find_or_build
from snapdb.storage.locks import Lease
from snapdb.types import Sampler, SampleSpec

_WORTH = 1_000_000
"""Edges from which out-neighbours are kept on the disk; fewer are sorted in memory when they are needed."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A snapshot and seeds, ready to be sampled; the files stay until the lease is released."""

    view: GraphView
    seeds: Seeds
    spec: SampleSpec
    """The plan's; EVERY AUTO has become a number of batches, in its text too."""
    lease: Lease
    cache: CacheSource | None = None
    """The caches of the sampler that was named; None: there is none, or the statement stands by itself."""


def open_asked(
    engine: Engine,
    statement: Sample | SampleUsing,
    seeds: Any,
    rules: Sequence[Rule],
    delivers: Literal["rows", "batches"],
    as_then: Callable[[SampleSpec], SampleSpec] = lambda spec: spec,
) -> tuple[SamplePlan, Opened]:
    """The plan of a sampler, which is opened.

    Args:
        seeds: Another seed set than the statement's, a SELECT or ids; None: the statement's.
        as_then: What a lineage changes of the statement's draws.

    Raises:
        BindError: a name in it leads nowhere.
        CorruptError: a file of the snapshot is missing or damaged.
        DataError: the seeds do not fit, or weights.
    """
    try:
        plan = bind(statement, engine.context)
        assert isinstance(plan, SamplePlan)
        if seeds is not None:
            plan = with_seeds(engine.context, plan, seeds)
        plan = optimize(replace(plan, delivers=delivers), rules)
        assert isinstance(plan, SamplePlan)
        plan = replace(plan, spec=as_then(plan.spec))
        return plan, open_sample(engine, plan)
    except SnapdbError as error:
        raise error.located(statement.source) from error.__cause__


def open_sample(engine: Engine, plan: SamplePlan) -> Opened:
    """Open the plan's snapshot and read its seeds.

    Raises:
        CorruptError: a file of the snapshot is missing or damaged.
        DataError: the seeds do not fit, or weights.
    """
    with plan.places.under():
        return _open(engine, plan)


def _open(engine: Engine, plan: SamplePlan) -> Opened:
    with unless_moved(engine.ledger, plan.snapshot):
        _reverse(engine, plan)
    engine.report(f"opening {plan.snapshot.name}", None)
    opened = open_snapshot(engine.home, engine.ledger, plan.snapshot, plan.way.opens)
    try:
        engine.check_stopped()
        with warming() if plan.way.applied(plan.spec).backend != "torch" else nullcontext():
            seeds = read_seeds(engine, plan, opened.view, opened.id_maps[plan.spec.seed_type])
        engine.check_stopped()
        view = with_columns(engine, plan, opened.view, opened.id_maps, timed=seeds.time is not None)
        check_born(plan, view, seeds)
        lineage = {**view.lineage, **sample_lineage(engine, plan)}
        reader = WithoutIdle(view.adjacency, plan.way.idle, plan.snapshot.graph, view.node_counts)
        view = replace(view, adjacency=reader, lineage=lineage)
        return Opened(view, seeds, _timed(plan.spec, view, seeds), opened.lease, _cached(engine, plan.sampler))
    except BaseException:
        opened.lease.release()
        raise


def _cached(engine: Engine, sampler: Sampler | None) -> CacheSource | None:
    """The caches of a named sampler."""
    if sampler is None:
        return None
    named = sampler.name.lower()
    caches = tuple(cache for cache in engine.context.catalog.caches.values() if cache.sampler.lower() == named)
    return CacheSource(caches, engine.home, engine.caches) if caches else None


def _timed(spec: SampleSpec, view: GraphView, seeds: Seeds) -> SampleSpec:
    """The same sampler; EVERY AUTO follows from what there is to sample."""
    if spec.refresh is None or spec.refresh.every is not None:
        return spec
    return with_every(spec, auto_every(view, spec, batches_in(seeds.ids.size, spec, 0)))


def _reverse(engine: Engine, plan: SamplePlan) -> None:
    """Sort what the sampler walks against its direction, where that is worth keeping and can be kept."""
    relations = [relation for fanout in plan.spec.fanouts for relation in fanout.relations]
    walked = {r.edge.edge: r.edge for r in relations if r.direction != "IN" and r not in plan.way.idle}
    link = plan.spec.link
    walked |= {} if link is None else {edge.edge: edge for edge in link.known_types}
    if engine.home.read_only or not walked:
        return
    layout = read_layout(engine.home, plan.snapshot)
    counts = {v.name: v.count for v in layout.vertices}
    for edge in layout.edges:
        if edge.name in walked and edge.edges >= _WORTH and serves_outgoing(edge):
            type_, what = walked[edge.name], f"sorting {edge.name} by source"
            build = partial(
                write_outgoing,
                engine.home.path,
                edge,
                (counts[type_.source], counts[type_.destination]),
                report=partial(engine.step, what),
            )
            find_or_build(engine.home, engine.ledger, outgoing_artefact(edge), build)
