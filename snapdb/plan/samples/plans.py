"""What SAMPLE, CREATE SAMPLER and AUDIT mean once their names are bound."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from snapdb.errors import BindError, DataError, SnapdbError, Span
from snapdb.plan.plan import Plan, PlanNode, describe_query
from snapdb.plan.queries import BoundQuery
from snapdb.types import FULL, PLAIN_HINTS, ExecutionHints, Fanout, Relation, Sampler, SampleSpec, Snapshot

_ABOUT = {
    "bad-negatives": "negatives",
    "bad-weight": "weights",
    "device": "device",
    "id-type": "ids",
    "memory": "memory",
    "needs-weight": "weights",
}
"""The clause that an error is about, by its code."""


class Origin(NamedTuple):
    """A sampler's statement, and clauses of another one in it."""

    sampler: str
    """The sampler's name."""
    text: str
    """The sampler's own statement."""
    edits: tuple[tuple[Span, Span, Span], ...]
    """Of each clause that was put in: its place in the composed text, what it took in the sampler's text, and where it
    stands in the user's; in order. Clauses that took the place of none took the empty end."""

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Errors of the block whose places count in the composed text are shown where that was written."""
        try:
            yield
        except SnapdbError as error:
            if error.text is None and error.span is not None:
                self._show(error, error.span)
            raise

    def _show(self, error: SnapdbError, span: Span) -> None:
        shift = 0
        for composed, replaced, written in self.edits:
            if composed.start <= span.start < composed.stop:
                by = written.start - composed.start
                error.span = Span(span.start + by, min(span.stop, composed.stop) + by)
                return
            if composed.start <= span.start:
                shift = replaced.stop - composed.stop
        error.message = f"in sampler {self.sampler}: {error.message}"
        error.located(self.text)
        error.span = Span(*(min(max(place + shift, 0), len(self.text)) for place in span))


@dataclass(frozen=True, slots=True)
class Places:
    """Spans of clauses; None: the statement does not say it."""

    weights: Span | None = None
    """WEIGHT BY, or METHOD where that goes by weights."""
    negatives: Span | None = None
    device: Span | None = None
    """ON, or WITH numba | torch."""
    memory: Span | None = None
    ids: Span | None = None
    origin: Origin | None = None
    """Of a statement that was composed; None: the statement is as it was written."""

    @contextmanager
    def under(self) -> Iterator[None]:
        """Errors of the block point to the clause that they are about, where that was written."""
        with nullcontext() if self.origin is None else self.origin.shown(), self._pointing():
            yield

    @contextmanager
    def _pointing(self) -> Iterator[None]:
        try:
            yield
        except SnapdbError as error:
            if error.text is None and error.span is None and error.code in _ABOUT:
                error.span = getattr(self, _ABOUT[error.code])
            raise


@contextmanager
def about_seeds(place: Span, outside: str | None) -> Iterator[None]:
    """Errors of the block point to the seed query, unless they know better.

    Args:
        place: Of the query.
        outside: The query that was given as seeds=, which the errors are then about; empty: ids were given.
    """
    try:
        yield
    except SnapdbError as error:
        if error.text is not None:
            raise
        if outside is None:
            error.span = error.span or place
            raise
        if isinstance(error, BindError | DataError):
            error.message = _of_argument(error.message)
        if outside:
            error.located(outside, place)
        error.span = error.span if outside else None
        raise


def _of_argument(message: str) -> str:
    """The message of a clause as one of the argument.

    >>> _of_argument("SEEDS returns y twice; keep one"), _of_argument("1 of 3 seeds is missing")
    ('seeds= returns y twice; keep one', 'seeds=: 1 of 3 seeds is missing')
    """
    text, many = re.subn(r"\bSEEDS( EDGES)?\b", "seeds=", message)
    return text if many else f"seeds=: {message}"


def seed_types(spec: SampleSpec) -> set[str]:
    """The vertex types that enter a batch."""
    return {spec.seed_type} if spec.link is None else {spec.link.edge.source, spec.link.edge.destination}


def reached_relations(spec: SampleSpec) -> set[Relation]:
    """The relations that may draw an edge: hop after hop, those that expand types which were reached before."""
    walked: set[Relation] = set()
    new = seed_types(spec)
    for hop in range(spec.hops):
        drawing = {
            relation
            for fanout in spec.fanouts
            if hop < len(fanout.counts) and fanout.counts[hop]
            for relation in fanout.relations
            if relation.expands in new
        }
        walked |= drawing
        reached = {relation.reaches for relation in drawing}
        new = new | reached if spec.layout == "BLOCKS" else reached
    return walked


def unreached_fanouts(spec: SampleSpec) -> list[Fanout]:
    """The fanouts that draw nothing in any batch; those that only say 0 mean to, and are left out."""
    walked = reached_relations(spec)
    return [f for f in spec.fanouts if any(f.counts) and not walked.intersection(f.relations)]


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
    ruled: ClassVar[bool] = True

    spec: SampleSpec
    snapshot: Snapshot
    seeds: BoundQuery
    epochs: int
    columns: SeedColumns
    places: Places = Places()  # frozen, and empty
    outside: str | None = None
    """The SELECT that was given as seeds=, empty where ids were; None: the seeds are the statement's."""
    delivers: Literal["rows", "batches"] = "rows"
    """Rows of edges, as SQL, or batches with their features."""
    hints: ExecutionHints = PLAIN_HINTS
    sampler: Sampler | None = None
    """Of SAMPLE USING, whose generation and caches serve; None: the statement stands by itself."""

    def describe(self) -> PlanNode:
        spec, hints = self.spec, self.hints
        idle = hints.idle | {relation for fanout in unreached_fanouts(spec) for relation in fanout.relations}
        expands = [PlanNode("Expand", text) for fanout in spec.fanouts for text in _expanded(fanout, idle)]
        of = spec.seed_type if spec.link is None else spec.link.edge.edge
        seeds = PlanNode("Seeds", f"{of}, {spec.order}", (describe_query(self.seeds),))
        sample = PlanNode("Sample", f"{spec.snapshot}: {self._method()}", (*expands, seeds))
        threads = "one thread" if hints.threads == 1 else "all threads"
        operator, what = ("Rows", "of edges") if self.delivers == "rows" else ("Stream", "of batches")
        below = sample if hints.reads == frozenset() else PlanNode("Gather", self._gathered(), (sample,))
        return PlanNode(operator, f"{what}, by {threads}", (below,))

    def _method(self) -> str:
        method = (self.hints.drawing or self.spec.drawing).method
        backend = self.hints.applied(self.spec).backend
        return f"METHOD {method}" + (f", WITH {backend}" if backend is not None else "")

    def _gathered(self) -> str:
        reads = self.hints.reads
        what = "all features and targets" if reads is None else f"features of {', '.join(sorted(reads))}"
        when = "together with sampling" if self.hints.fused else "after sampling, by batch"
        return what if self.delivers == "rows" else f"{what}, {when}"


@dataclass(frozen=True, slots=True)
class CreateSamplerPlan(Plan):
    """A SAMPLE statement gets a name; it was bound, and its names were there."""

    sampler: Sampler
    """Without an id."""
    replaces: Sampler | None
    sample: SamplePlan
    """What it keeps; EVERY AUTO becomes a number once its seeds are counted."""

    def describe(self) -> PlanNode:
        return PlanNode("CreateSampler", self.sampler.name, (self.sample.describe(),))


@dataclass(frozen=True, slots=True)
class AuditPlan(Plan):
    """Whether a sampler's batches hold anything that they must not."""

    reads: ClassVar[bool] = True

    sample: SamplePlan
    text: str
    """The AUDIT statement."""

    def describe(self) -> PlanNode:
        return PlanNode("Audit", "every batch against the tables", (self.sample.describe(),))


def _expanded(fanout: Fanout, idle: frozenset[Relation]) -> Iterator[str]:
    counts = ", ".join("FULL" if count == FULL else str(count) for count in fanout.counts)
    for relation in fanout.relations:
        unreached = ", not reachable from the seeds" if relation in idle else ""
        yield f"{relation.edge.edge} {relation.direction} => [{counts}]{unreached}"
