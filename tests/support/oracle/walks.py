"""Random walks, skip-gram pairs and their negatives, in plain Python integers from docs/adr/0017."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, count
from math import gcd, lcm
from typing import Literal, NamedTuple

from tests.support.oracle.graph import ALWAYS, Bounds, Entry, Graph, bounds_of, logical_row, may_see
from tests.support.oracle.numbers import Direction, EdgeKey, below, draw, key

WALK, PAIR = 8, 9


@dataclass(frozen=True)
class WalkOptions:
    """The clauses of WALK."""

    length: int
    steps: Sequence[tuple[EdgeKey, Direction]]
    per_seed: int = 1
    back: Fraction = Fraction(1)
    inout: Fraction = Fraction(1)
    restart: Fraction = Fraction(0)
    clock: Literal["any", "forward", "backward"] = "any"
    strict: bool = False
    weighted: bool = False
    inclusive: bool | None = None
    """None without TEMPORAL. True means TEMPORAL <=."""
    within: int | None = None

    def ends(self, step: int) -> tuple[str, str]:
        """Return the vertex types that a step expands and reaches."""
        (source, _, destination), direction = self.steps[step % len(self.steps)]
        return (source, destination) if direction == "OUT" else (destination, source)

    def type_at(self, column: int) -> str:
        """Return the vertex type of a column of a walk."""
        return self.ends(0)[0] if column == 0 else self.ends(column - 1)[1]


class Walked(NamedTuple):
    """One walk. Missing vertices and edges are None."""

    nodes: list[int | None]
    edges: list[Entry | None]


def walk(
    graph: Graph, options: WalkOptions, seed: int, batch: int, start: int, ordinal: int, number: int, time: int | None
) -> Walked:
    """Return walk `number` of a seed."""
    bounds = None
    if options.inclusive is not None:
        assert time is not None
        bounds = bounds_of(time, options.inclusive, options.within)
    nodes: list[int | None] = [start]
    edges: list[Entry | None] = []
    node: int | None = start
    before: int | None = None
    clock: int | None = None
    for i in range(options.length):
        edge: Entry | None = None
        if node is not None:
            step = key(seed, WALK, batch, ordinal, number, i)
            share = options.restart
            if share > 0 and options.ends(i)[1] == options.type_at(0) and _restarts(step, share):
                node, before, clock = start, None, None
            else:
                edge = _step(graph, options, i, step, node, before, clock, bounds)
                if edge is not None and edge.edge.since != ALWAYS:
                    clock = edge.edge.since
                node, before = (None, None) if edge is None else (edge.neighbor, node)
        nodes.append(node)
        edges.append(edge)
    return Walked(nodes, edges)


def _restarts(step: int, share: Fraction) -> bool:
    return below(draw(step, 0), share.denominator) < share.numerator


def _row(graph: Graph, options: WalkOptions, i: int, node: int, bounds: Bounds | None) -> list[Entry]:
    """Return a vertex's edges within the seed's time bounds."""
    edge, direction = options.steps[i % len(options.steps)]
    row = logical_row(graph, edge, direction, node)
    if bounds is None:
        return row
    born = graph.born.get(options.ends(i)[1])
    return [e for e in row if may_see(e.edge, bounds) and (born is None or born[e.neighbor] < bounds.high)]


def _ticks(options: WalkOptions, time: int, clock: int | None) -> bool:
    """Return whether an edge's time is inside the clock."""
    if options.clock == "any" or clock is None or time == ALWAYS:
        return True
    if options.clock == "forward":
        return time > clock if options.strict else time >= clock
    return time < clock if options.strict else time <= clock


def _step(
    graph: Graph,
    options: WalkOptions,
    i: int,
    step: int,
    node: int,
    before: int | None,
    clock: int | None,
    bounds: Bounds | None,
) -> Entry | None:
    """Return the edge that a step takes, or None if there is no eligible edge."""
    row = [e for e in _row(graph, options, i, node, bounds) if _ticks(options, e.edge.since, clock)]
    if options.weighted:
        row = [e for e in row if e.edge.weight > 0]
    if not row:
        return None
    back, near, far = _biases(options)
    known = set() if before is None else {e.neighbor for e in _row(graph, options, i, before, bounds)}
    for attempt in count():
        candidate = _candidate(options, row, draw(step, 1 + 2 * attempt))
        if before is None or len(row) == 1 or back == near == far:
            return candidate
        weight = back if candidate.neighbor == before else near if candidate.neighbor in known else far
        if below(draw(step, 2 + 2 * attempt), max(back, near, far)) < weight:
            return candidate
    raise AssertionError


def _candidate(options: WalkOptions, row: list[Entry], bits: int) -> Entry:
    """Return an edge of a row, uniformly or by weight."""
    if not options.weighted:
        return row[below(bits, len(row))]
    most = max(e.edge.weight for e in row)
    sums = list(accumulate(round(e.edge.weight / most * 2**32) for e in row))
    bar = below(bits, sums[-1])
    return next(e for e, upto in zip(row, sums, strict=True) if bar < upto)


def _biases(options: WalkOptions) -> tuple[int, int, int]:
    """Return 1/p, 1 and 1/q as integers in lowest terms."""
    shares = (1 / options.back, Fraction(1), 1 / options.inout)
    whole = [int(share * lcm(*(each.denominator for each in shares))) for share in shares]
    back, near, far = (weight // gcd(*whole) for weight in whole)
    return back, near, far


def walks(
    graph: Graph,
    options: WalkOptions,
    seed: int,
    batch: int,
    seeds: Sequence[int],
    ordinals: Sequence[int],
    times: Sequence[int] | None = None,
) -> list[Walked]:
    """Return the walks of a batch, seed by seed."""
    return [
        walk(graph, options, seed, batch, start, ordinal, number, None if times is None else times[at])
        for at, (start, ordinal) in enumerate(zip(seeds, ordinals, strict=True))
        for number in range(options.per_seed)
    ]


class Pair(NamedTuple):
    """A skip-gram pair of node numbers, with its negatives."""

    center: int
    context: int
    negatives: list[int]


def pairs(
    graph: Graph,
    options: WalkOptions,
    walked: Sequence[Walked],
    seed: int,
    batch: int,
    ordinals: Sequence[int],
    times: Sequence[int] | None,
    window: int,
    negatives: int,
) -> list[Pair]:
    """Return the skip-gram pairs of a batch's walks by (walk, center, context), with their negatives."""
    types = dict.fromkeys(options.type_at(column) for column in range(options.length + 1))
    offsets = dict(zip(types, accumulate((graph.vertex_counts[name] for name in types), initial=0), strict=False))
    found = []
    for w, each in enumerate(walked):
        at, number = divmod(w, options.per_seed)
        high = None
        if options.inclusive is not None:
            assert times is not None
            high = bounds_of(times[at], options.inclusive, options.within).high
        for i, center in enumerate(each.nodes):
            for j, context in enumerate(each.nodes):
                if i == j or abs(i - j) > window or center is None or context is None:
                    continue
                name = options.type_at(j)
                place = i * (options.length + 1) + j
                k = key(seed, PAIR, batch, ordinals[at], number, place)
                existing = _existing(graph, name, high)
                drawn = [existing[below(draw(k, s), len(existing))] if existing else None for s in range(negatives)]
                numbers = [-1 if node is None else offsets[name] + node for node in drawn]
                found.append(Pair(offsets[options.type_at(i)] + center, offsets[name] + context, numbers))
    return found


def _existing(graph: Graph, name: str, high: int | None) -> list[int]:
    """Return the vertices from which negatives are drawn, in order."""
    alive: Mapping[str, list[bool]] = graph.alive
    present = alive.get(name, [True] * graph.vertex_counts[name])
    ids = [node for node in range(graph.vertex_counts[name]) if present[node]]
    born = graph.born.get(name)
    if high is None or born is None:
        return ids
    return sorted((node for node in ids if born[node] < high), key=lambda node: (born[node], node))
