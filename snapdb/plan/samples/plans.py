"""The plans of SAMPLE and WALK, CREATE SAMPLER and AUDIT."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from snapdb.errors import BindError, DataError, SnapdbError, Span
from snapdb.plan.plan import Plan, PlanNode, describe_query
from snapdb.plan.queries import BoundQuery
from snapdb.types import (
    FULL,
    PLAIN_HINTS,
    ExecutionHints,
    Fanout,
    RandomWalk,
    Relation,
    Sampler,
    SampleSpec,
    Snapshot,
    Visits,
)
from snapdb.types.text import counted

_SHOWN = 4
"""The maximum number of steps of a walk that a plan lists."""

_ABOUT = {
    "bad-negatives": "negatives",
    "bad-weight": "weights",
    "device": "device",
    "id-type": "ids",
    "memory": "memory",
    "needs-weight": "weights",
}
"""Maps error codes to the clauses that cause the errors."""


class Origin(NamedTuple):
    """A sampler's statement, and the clauses from another statement that were inserted into it."""

    sampler: str
    """The name of the sampler."""
    text: str
    """The statement of the sampler."""
    edits: tuple[tuple[Span, Span, Span], ...]
    """For each inserted clause, in order: its span in the composed text, the span that it replaced in the sampler's
    text, and its span in the user's text. If a clause did not replace another one, the second span is empty and at the
    end."""

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Map errors raised in the block from spans of the composed text to the user's text."""
        try:
            yield
        except SnapdbError as error:
            if error.text is None and error.span is not None:
                self._show(error, error.span)
            raise

    def _show(self, error: SnapdbError, span: Span) -> None:
        # The shift of the last edit before the span maps the span from the composed text back to the sampler's text.
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
    """The spans of clauses, or None for clauses missing from the statement."""

    weights: Span | None = None
    """The span of WEIGHT BY, or of a METHOD that uses weights."""
    negatives: Span | None = None
    """The span of NEGATIVES."""
    device: Span | None = None
    """The span of ON, or of WITH numba | torch."""
    memory: Span | None = None
    """The span of MEMORY."""
    ids: Span | None = None
    """The span of IDS."""
    origin: Origin | None = None
    """The origin of a composed statement, or None if the statement is exactly as the user wrote it."""

    @contextmanager
    def under(self) -> Iterator[None]:
        """Set the span of each error raised in the block to the clause that causes it, in the text with that clause."""
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
    """Assign the span of the seed query to errors raised in the block without a span.

    Args:
        place: The span of the query.
        outside: The query that was passed as seeds=, empty if ids were passed, or None if seeds= was not passed. Errors
            refer to this argument unless it is None.
    """
    try:
        yield
    except SnapdbError as error:
        # The error already has a position in another text, which must not be overwritten.
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
    """Rewrite a message about the SEEDS clause so that it refers to the argument.

    >>> _of_argument("SEEDS returns y twice; keep one"), _of_argument("1 of 3 seeds is missing")
    ('seeds= returns y twice; keep one', 'seeds=: 1 of 3 seeds is missing')
    """
    text, many = re.subn(r"\bSEEDS( EDGES)?\b", "seeds=", message)
    return text if many else f"seeds=: {message}"


def seed_types(spec: SampleSpec) -> set[str]:
    """Return the vertex types of a batch's seeds."""
    return {spec.seed_type} if spec.link is None else {spec.link.edge.source, spec.link.edge.destination}


def reached_relations(spec: SampleSpec) -> set[Relation]:
    """Return the relations that can sample an edge, because at some hop they expand a vertex type that was reached."""
    walk = spec.walk if spec.visits is None else spec.visits.walk
    if walk is not None:
        return set(walk.steps[: walk.length])
    traversed: set[Relation] = set()
    new = seed_types(spec)
    for hop in range(spec.hops):
        drawing = {
            relation
            for fanout in spec.fanouts
            if hop < len(fanout.counts) and fanout.counts[hop]
            for relation in fanout.relations
            if relation.expands in new
        }
        traversed |= drawing
        reached = {relation.reaches for relation in drawing}
        # BLOCKS expands every node of the batch at each hop, and NODES only the new ones.
        new = new | reached if spec.layout == "BLOCKS" else reached
    return traversed


def unreached_fanouts(spec: SampleSpec) -> list[Fanout]:
    """Return the fanouts that never sample an edge, except those with only zero counts, which are intentional."""
    traversed = reached_relations(spec)
    return [f for f in spec.fanouts if any(f.counts) and not traversed.intersection(f.relations)]


class SeedColumns(NamedTuple):
    """The roles of a seed query's columns, as positions starting at 0."""

    key: tuple[int, ...]
    """The key columns of the seed type, in key order. For seed edges, the single column of edge ids."""
    time: int | None
    """The `seed_time` column: an integer, timestamp or date in the unit of the graph's event times."""
    y: int | None
    """The targets: numbers, booleans, or arrays of them."""
    order: tuple[int, ...] = ()
    """The ORDER BY columns under IN ORDER. Empty without IN ORDER and for ids, whose order is always preserved."""
    others: tuple[int, ...] = ()
    """Additional columns, sorted by name: numbers, booleans, or arrays of them."""


@dataclass(frozen=True, slots=True)
class SamplePlan(Plan):
    """SAMPLE or WALK: sample mini-batches of neighbourhoods, or of random walks."""

    reads: ClassVar[bool] = True
    ruled: ClassVar[bool] = True

    spec: SampleSpec
    snapshot: Snapshot
    seeds: BoundQuery
    epochs: int
    columns: SeedColumns
    places: Places = Places()  # frozen, and empty
    outside: str | None = None
    """The SELECT that was passed as seeds=, empty for ids, or None to use the seeds of the statement."""
    delivers: Literal["rows", "batches"] = "rows"
    """Whether to deliver rows of edges (SQL) or batches with features."""
    hints: ExecutionHints = PLAIN_HINTS
    sampler: Sampler | None = None
    """The sampler of SAMPLE USING, whose generation and caches apply, or None if the statement is complete."""

    def describe(self) -> PlanNode:
        spec, hints = self.spec, self.hints
        idle = hints.idle | {relation for fanout in unreached_fanouts(spec) for relation in fanout.relations}
        walk = spec.walk if spec.visits is None else spec.visits.walk
        expands = (
            [PlanNode("Expand", text) for fanout in spec.fanouts for text in _expanded(fanout, idle)]
            if walk is None
            else [PlanNode("Step", text) for text in step_words(walk)]
        )
        of = spec.seed_type if spec.link is None else spec.link.edge.edge
        seeds = PlanNode("Seeds", f"{of}, {spec.order}", (describe_query(self.seeds),))
        kind = "Sample" if spec.walk is None else "Walk"
        sample = PlanNode(kind, f"{spec.snapshot}: {self._method()}", (*expands, seeds))
        threads = "one thread" if hints.threads == 1 else "all threads"
        operator, what = ("Rows", "of edges") if self.delivers == "rows" else ("Stream", "of batches")
        if spec.walk is not None:
            what = "of steps" if self.delivers == "rows" else "of batches of walks"
        below = (
            sample
            if hints.reads == frozenset() or spec.walk is not None
            else PlanNode("Gather", self._gathered(), (sample,))
        )
        return PlanNode(operator, f"{what}, by {threads}", (below,))

    def _method(self) -> str:
        method = f"METHOD {(self.hints.drawing or self.spec.drawing).method}"
        if self.spec.walk is not None:
            method = walk_words(self.spec.walk)
        elif self.spec.visits is not None:
            method = visit_words(self.spec.visits)
        backend = self.hints.applied(self.spec).backend
        return method + (f", WITH {backend}" if backend is not None else "")

    def _gathered(self) -> str:
        reads = self.hints.reads
        what = "all features and targets" if reads is None else f"features of {', '.join(sorted(reads))}"
        when = "together with sampling" if self.hints.fused else "after sampling, by batch"
        return what if self.delivers == "rows" else f"{what}, {when}"


@dataclass(frozen=True, slots=True)
class CreateSamplerPlan(Plan):
    """CREATE SAMPLER: name a bound SAMPLE statement."""

    sampler: Sampler
    """The sampler to create, without an id."""
    replaces: Sampler | None
    """The sampler to replace, or None if the name is free."""
    sample: SamplePlan
    """The bound statement. EVERY AUTO becomes a number once the seeds are counted."""

    def describe(self) -> PlanNode:
        return PlanNode("CreateSampler", self.sampler.name, (self.sample.describe(),))


@dataclass(frozen=True, slots=True)
class AuditPlan(Plan):
    """AUDIT SAMPLE: check the batches of a sampler for violations of its clauses."""

    reads: ClassVar[bool] = True

    sample: SamplePlan
    text: str
    """The AUDIT statement text."""

    def describe(self) -> PlanNode:
        return PlanNode("Audit", "every batch against the tables", (self.sample.describe(),))


def walk_words(walk: RandomWalk) -> str:
    """Return the number and length of a seed's walks, and the clauses that change their steps.

    >>> from fractions import Fraction
    >>> walk_words(RandomWalk(80, (), per_seed=10, inout=Fraction(1, 2), window=5, negatives=1))
    '10 walks of 80 steps per seed, RETURN 1 INOUT 0.5, WINDOW 5 NEGATIVES 1'
    """
    words = [f"{counted(walk.per_seed, 'walk')} of {counted(walk.length, 'step')} per seed"]
    if walk.second_order:
        words.append(f"RETURN {float(walk.back):g} INOUT {float(walk.inout):g}")
    if walk.restart:
        words.append(f"RESTART {float(walk.restart):g}")
    if walk.clock != "any":
        words.append("TIME RESPECTING" + " STRICT" * walk.strict + " BACKWARD" * (walk.clock == "backward"))
    if walk.window is not None:
        words.append(f"WINDOW {walk.window}" + (f" NEGATIVES {walk.negatives}" if walk.negatives else ""))
    return ", ".join(words)


def visit_words(visits: Visits) -> str:
    """Return the walks of a node and the number of its neighbours per hop.

    >>> visit_words(Visits(RandomWalk(2, (), per_seed=50), (10, 5)))
    'BY WALKS: 50 walks of 2 steps per node, TOP [10, 5]'
    """
    walk, tops = visits.walk, ", ".join(map(str, visits.tops))
    restart = f", RESTART {float(walk.restart):g}" if walk.restart else ""
    what = f"{counted(walk.per_seed, 'walk')} of {counted(walk.length, 'step')} per node{restart}"
    return f"BY WALKS: {what}, TOP {tops if len(visits.tops) == 1 else f'[{tops}]'}"


def step_words(walk: RandomWalk) -> Iterator[str]:
    """Yield each step of the metapath, with the steps of a walk that traverse it.

    >>> from snapdb.types import EdgeType
    >>> edge = EdgeType("person", "knows", "person")
    >>> list(step_words(RandomWalk(5, (Relation(edge, "OUT"), Relation(edge, "IN")))))
    ['steps 0, 2, 4: knows OUT', 'steps 1, 3: knows IN']
    """
    for place, step in enumerate(walk.steps):
        numbers = [str(number) for number in range(place, walk.length, len(walk.steps))]
        some = ", ".join(numbers) if len(numbers) <= _SHOWN else f"{', '.join(numbers[: _SHOWN - 1])}, …, {numbers[-1]}"
        word = "step" if len(numbers) == 1 else "steps"
        yield (
            f"{word} {some}: {step.edge.edge} {step.direction}"
            if numbers
            else (f"{step.edge.edge} {step.direction}, not reached by {counted(walk.length, 'step')}")
        )


def _expanded(fanout: Fanout, idle: frozenset[Relation]) -> Iterator[str]:
    counts = ", ".join("FULL" if count == FULL else str(count) for count in fanout.counts)
    for relation in fanout.relations:
        unreached = ", not reachable from the seeds" if relation in idle else ""
        yield f"{relation.edge.edge} {relation.direction} => [{counts}]{unreached}"
