"""What SAMPLE, CREATE SAMPLER and AUDIT mean once their names are bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from snapdb.plan.asked import Asked
from snapdb.plan.places import Places
from snapdb.plan.plan import Plan, PlanNode, describe_query
from snapdb.plan.reached import unreached_fanouts
from snapdb.types import FULL, PLAIN, Fanout, Relation, Sampler, SampleSpec, Snapshot, Way


class SeedColumns(NamedTuple):
    """Where in the rows of a seed query each thing stands, counted from 0."""

    key: tuple[int, ...]
    """The seed type's key, in its order; of seed edges the one column that holds the edge's id."""
    time: int | None
    """`seed_time`: an integer, or a timestamp or date, as the graph's event times are."""
    y: int | None
    """Targets: numbers, booleans, or arrays of them."""
    order: tuple[int, ...] = ()
    """What IN ORDER goes by, as ORDER BY says; empty: it was not said, or ids were given, which have their order."""
    others: tuple[int, ...] = ()
    """Further columns, by name: numbers, booleans, or arrays of them."""


@dataclass(frozen=True, slots=True)
class SamplePlan(Plan):
    """Mini-batches of sampled neighbourhoods."""

    reads: ClassVar[bool] = True

    spec: SampleSpec
    snapshot: Snapshot
    seeds: Asked
    epochs: int
    columns: SeedColumns
    places: Places = Places()  # noqa: RUF009  # frozen, and empty
    outside: str | None = None
    """The SELECT that was given as seeds=, empty where ids were; None: the seeds are the statement's."""
    delivers: Literal["rows", "batches"] = "rows"
    """Rows of edges, as SQL, or batches with their features."""
    way: Way = PLAIN
    sampler: Sampler | None = None
    """Of SAMPLE USING, whose generation and caches serve; None: the statement stands by itself."""

    def describe(self) -> PlanNode:
        spec, way = self.spec, self.way
        idle = way.idle | {relation for fanout in unreached_fanouts(spec) for relation in fanout.relations}
        expands = [PlanNode("Expand", text) for fanout in spec.fanouts for text in _expanded(fanout, idle)]
        of = spec.seed_type if spec.link is None else spec.link.edge.edge
        seeds = PlanNode("Seeds", f"{of}, {spec.order}", (describe_query(self.seeds),))
        sample = PlanNode("Sample", f"{spec.snapshot}: {self._method()}", (*expands, seeds))
        threads = "one thread" if way.threads == 1 else "all threads"
        operator, what = ("Rows", "of edges") if self.delivers == "rows" else ("Stream", "of batches")
        below = sample if way.reads == frozenset() else PlanNode("Gather", self._gathered(), (sample,))
        return PlanNode(operator, f"{what}, by {threads}", (below,))

    def _method(self) -> str:
        method = (self.way.drawing or self.spec.drawing).method
        backend = self.way.applied(self.spec).backend
        return f"METHOD {method}" + (f", WITH {backend}" if backend is not None else "")

    def _gathered(self) -> str:
        reads = self.way.reads
        what = "all features and targets" if reads is None else f"features of {', '.join(sorted(reads))}"
        when = "while their ids are warm" if self.way.fused else "when a batch is handed over"
        return what if self.delivers == "rows" else f"{what}, {when}"


@dataclass(frozen=True, slots=True)
class CreateSamplerPlan(Plan):
    """A SAMPLE statement gets a name; it was bound, and its names were there."""

    sampler: Sampler
    """Without an id."""
    replaces: Sampler | None
    sample: SamplePlan
    """What it keeps; EVERY AUTO becomes a number once its seeds are counted."""

    def children(self) -> tuple[Plan, ...]:
        return (self.sample,)

    def describe(self) -> PlanNode:
        return PlanNode("CreateSampler", self.sampler.name, (self.sample.describe(),))


@dataclass(frozen=True, slots=True)
class AuditPlan(Plan):
    """Whether a sampler's batches hold anything that they must not."""

    reads: ClassVar[bool] = True

    sample: SamplePlan
    text: str
    """The AUDIT statement."""

    def children(self) -> tuple[Plan, ...]:
        return (self.sample,)

    def describe(self) -> PlanNode:
        return PlanNode("Audit", "every batch against the tables", (self.sample.describe(),))


def _expanded(fanout: Fanout, idle: frozenset[Relation]) -> Iterator[str]:
    counts = ", ".join("FULL" if count == FULL else str(count) for count in fanout.counts)
    for relation in fanout.relations:
        unreached = ", never reached from the seeds" if relation in idle else ""
        yield f"{relation.edge.edge} {relation.direction} => [{counts}]{unreached}"
