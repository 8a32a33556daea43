"""`db.draw`: samples a batch with few seeds, reduces it to a size that can be drawn, and returns it as a drawing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from snapdb.arrays import Bools
from snapdb.errors import BindError, InputError, Span
from snapdb.execute.samples.opening import open_statement
from snapdb.execute.session import DatabaseSession, ExecutionContext
from snapdb.execute.transactions import retry_if_replaced
from snapdb.loading.batch import Batch
from snapdb.loading.batch_builder import BatchBuilder
from snapdb.loading.epochs import Epochs
from snapdb.loading.lazy import host
from snapdb.loading.source import Sharing, StreamOptions, StreamSource
from snapdb.pictures.drawing import SampleDrawing
from snapdb.pictures.elements import LeftOut
from snapdb.pictures.reading import BatchParts, Extent, read_batch
from snapdb.plan.queries import Parameters
from snapdb.plan.samples import SamplePlan
from snapdb.plan.samples.bind import streamed
from snapdb.sampling import Subgraph
from snapdb.sql.samples import Sample, SampleUsing
from snapdb.sql.syntax import Spanned
from snapdb.types import SampleSpec
from snapdb.types.text import counted

_T = TypeVar("_T")

NODES, EDGES = 500, 5000
"""The maximum number of nodes and edges of a drawing."""


def draw_sample(
    session: DatabaseSession, sampler: str, batch: int, seeds: int, params: Parameters = None
) -> SampleDrawing:
    """Return a batch of a sampler as a drawing. The arguments and errors are those of `Database.draw`."""
    if not isinstance(sampler, str):
        raise TypeError(f"draw takes a sampler's name or the text of a SAMPLE statement, found {sampler!r}")
    for name, value, least in (("batch", batch, 0), ("seeds", seeds, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
            raise ValueError(f"{name} must be an integer from {least} to 2^31 - 1, found {value!r}")
    with streamed(sampler, "draw") as statement:
        wanted = _Wanted(sampler, statement, batch, min(seeds, NODES))
        return retry_if_replaced(
            lambda: session.read_head(lambda context: wanted.drawn(context, wanted.drawing), params)
        )


class _Size(NamedTuple):
    """The size of a sampled batch."""

    seeds: int
    nodes: int
    edges: int

    @property
    def fits(self) -> bool:
        return self.nodes <= NODES and self.edges <= EDGES


class _Sampled(NamedTuple):
    """A sampled batch whose features have not been fetched, and the source and builder with which it was sampled."""

    source: StreamSource
    builder: BatchBuilder
    batches: int
    """The number of batches in the epoch."""
    value: Any
    """The sampled batch, as `BatchBuilder.sampled` returns it."""

    @property
    def subgraph(self) -> Subgraph:
        subgraph: Subgraph = self.value.subgraph
        return subgraph

    @property
    def size(self) -> _Size:
        nodes = sum(map(sum, self.subgraph.nodes_per_hop.values()))
        edges = sum(len(drawn.position) for drawn in self.subgraph.edges.values())
        return _Size(self.value.entry.ordinals.size, nodes, edges)

    def extent(self) -> Extent:
        """Return the part of the batch that can be drawn."""
        return _extent(self.subgraph)

    def parts(self) -> BatchParts:
        """Fetch the features, and return the batch with everything that a drawing needs."""
        traversals, entry, subgraph = self.builder.sampler.traversals, self.value.entry, self.subgraph
        outward = {traversal.relation.key: _outward(traversal, subgraph) for traversal in traversals}
        roots: dict[str, list[tuple[int, int]]] = {}
        for group, local in zip(entry.groups, subgraph.entered, strict=True):
            pairs = zip(host(local).tolist(), group.trees.tolist(), strict=True)
            roots.setdefault(group.type, []).extend(pairs)
        batch: Batch = self.builder.receive(self.builder.send(self.value))
        return BatchParts(
            batch, {traversal.relation.key: traversal.relation for traversal in traversals}, outward, roots
        )


def _outward(traversal: Any, subgraph: Subgraph) -> Bools:
    """Return [edges] whether each edge is traversed from its source to its destination."""
    relation, position = traversal.relation, host(subgraph.edges[traversal.relation].position)
    if traversal.adjacency.outward is not None:
        return np.asarray(traversal.adjacency.outward[position], np.bool_)
    return np.full(position.size, relation.direction == "OUT")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A batch to draw."""

    sampler: str
    statement: Sample | SampleUsing
    batch: int
    seeds: int
    """The requested number of seeds per batch."""

    def drawn(self, context: ExecutionContext, draw: Callable[[SamplePlan, _Sampled, _Size], _T]) -> _T:
        """Sample the batch, with fewer seeds if it is too large, and return the result of `draw` while it is open.

        Args:
            context: The context.
            draw: Called with the plan, the sampled batch and the size of the requested batch.
        """
        plan, source = open_statement(context, self.statement, None, "batches", self._on_cpu)
        try:
            with plan.places.under():
                source = source._replace(cache=None, feature_cache=None)
                sampled, seeds = self._sampled(context, source, self.seeds), self.seeds
                requested = sampled.size
                while not sampled.size.fits and seeds > 1:
                    seeds = max(1, min(seeds - 1, seeds * NODES // sampled.size.nodes))
                    sampled = self._sampled(context, source, seeds)
                return draw(plan, sampled, requested)
        except (BindError, InputError) as error:
            raise error.located(self.statement.source) from error.__cause__
        finally:
            source.release()

    def drawing(self, plan: SamplePlan, sampled: _Sampled, requested: _Size) -> SampleDrawing:
        """Return what can be drawn of a sampled batch."""
        parts = sampled.parts()
        drawn = read_batch(parts, sampled.extent())
        seeds, seed_type = sampled.source.spec.batch_size, parts.batch.seed_type
        left_out = LeftOut(
            seeds=max(0, requested.seeds - sampled.size.seeds),
            nodes=max(0, requested.nodes - len(drawn.nodes)),
            edges=max(0, requested.edges - len(drawn.edges)),
        )
        return SampleDrawing(
            sampler=self.sampler,
            snapshot=plan.snapshot.name,
            statement=_statement_text(self.statement, seeds),
            batch=self.batch,
            batch_size=seeds,
            batches=sampled.batches,
            seeds=sampled.size.seeds,
            seed_type=seed_type if isinstance(seed_type, str) else seed_type.edge,
            nodes=drawn.nodes,
            edges=drawn.edges,
            seed_edges=drawn.seed_edges,
            node_types=tuple(parts.batch.n_id),
            edge_types=tuple(dict.fromkeys(relation.edge.edge for relation in parts.relations.values())),
            timed=parts.batch.seed_time is not None,
            unit=plan.snapshot.unit,
            left_out=left_out,
            reason=_reason(self.seeds, seeds, requested, left_out, outer=len(drawn.nodes) < sampled.size.nodes),
        )

    def _on_cpu(self, spec: SampleSpec) -> SampleSpec:
        # None of these clauses but BATCH affects a batch, and the device may be busy with training.
        return replace(spec, batch_size=self.seeds, device=None, backend=None, memory=None, ids="int64")

    def _sampled(self, context: ExecutionContext, source: StreamSource, seeds: int) -> _Sampled:
        """Sample the batch with the given number of seeds per batch.

        Raises:
            InputError: The epoch has fewer batches.
        """
        source = source._replace(spec=replace(source.spec, batch_size=seeds))
        epochs = Epochs(source.seeds, source.spec, Sharing())
        batches = epochs.batches(0)
        if self.batch >= batches:
            raise InputError(
                f"batch {self.batch} does not exist: with {counted(seeds, 'seed')} per batch, an epoch has "
                f"{counted(batches, 'batch', 'batches')} (numbered from 0)",
                code="no-such-batch",
            )
        builder = BatchBuilder(source, StreamOptions(threads=0))
        visits = builder.visits() if source.spec.in_order else None
        for place in range(self.batch if visits is not None else 0):
            context.check_stopped()
            builder.sample_only(visits, epochs.batch(0, place))
        return _Sampled(
            source, builder, batches, builder.sampled(source.view.lineage, visits, epochs.batch(0, self.batch))
        )


def _extent(subgraph: Subgraph) -> Extent:
    """Return the part of a batch that can be drawn: whole hops from the seeds, or the first nodes of the first hop."""
    counts, hops = subgraph.nodes_per_hop, len(subgraph.hops)
    edges = [sum(len(block.position) for block in blocks) for blocks in subgraph.hops]
    for last in range(hops, 0, -1):
        nodes = {name: sum(each[: last + 1]) for name, each in counts.items()}
        if sum(nodes.values()) <= NODES and sum(edges[:last]) <= EDGES:
            return Extent(nodes, last, EDGES)
    seeds = {name: each[0] for name, each in counts.items()}
    if (room := NODES - sum(seeds.values())) < 0:  # one seed edge with hundreds of negatives
        return Extent(_share(seeds, NODES), min(hops, 1), EDGES)
    first = {name: each[1] if len(each) > 1 else 0 for name, each in counts.items()}
    more = _share(first, room)
    return Extent({name: seeds[name] + more[name] for name in seeds}, min(hops, 1), EDGES)


def _share(counts: Mapping[str, int], room: int) -> dict[str, int]:
    """Reduce counts in proportion, so that their sum is at most `room`.

    >>> _share({"a": 300, "b": 900}, 100)
    {'a': 25, 'b': 75}
    """
    total = sum(counts.values())
    return {name: count if total <= room else count * room // total for name, count in counts.items()}


def _statement_text(statement: Sample | SampleUsing, seeds: int) -> str:
    """Return the statement with BATCH and EPOCHS replaced."""
    here = Span(0, 0)
    clauses = replace(statement.clauses, batch=Spanned(seeds, here), epochs=Spanned(1, here))
    return replace(statement, clauses=clauses).to_sql()


def _reason(wanted: int, seeds: int, full: _Size, left_out: LeftOut, *, outer: bool) -> str:
    """Return the sentences about what the drawing leaves out, or an empty string."""
    if not left_out:
        return ""
    limit = f"A drawing has at most {NODES} nodes and {EDGES:,} edges."
    parts = []
    if seeds < wanted:
        parts.append(
            f"With {counted(wanted, 'seed')} per batch it would have {counted(full.nodes, 'node')} and "
            f"{counted(full.edges, 'edge')}, so it has fewer seeds."
        )
    if outer:
        parts.append("The outer neighbours are left out.")
    out = ", ".join(
        counted(count, noun)
        for count, noun in ((left_out.seeds, "seed"), (left_out.nodes, "node"), (left_out.edges, "edge"))
        if count
    )
    return " ".join((limit, *parts, f"Left out: {out}."))
