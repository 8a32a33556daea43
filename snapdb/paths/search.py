"""Runs path searches: the choice of a kernel, threads over groups of sources, and rows as an Arrow stream."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from snapdb.arrays import Array, Int64s
from snapdb.builders.context import BuildContext
from snapdb.errors import InputError
from snapdb.graph import open_snapshot
from snapdb.kernels.paths import earliest, lanes, selected, walks
from snapdb.kernels.paths.problem import Limits, Paths
from snapdb.memory import usable_memory
from snapdb.paths.arrays import SearchArrays, search_arrays
from snapdb.paths.numbering import Numbering
from snapdb.paths.rows import PathRows, ordered
from snapdb.plan.scope import BindContext
from snapdb.plan.searches import PathSearch
from snapdb.sql_engine import no_rows

Method: TypeAlias = Literal["walks", "lanes", "earliest", "best-first"]

_ROWS = 1 << 17
"""The number of path elements per batch of rows."""
_WAIT = 0.05
"""The interval in seconds between checks for a stop request."""
_LABEL_BYTES = 64
_MODES = ("WALK", "TRAIL", "ACYCLIC", "SIMPLE")
_BY = {"shortest": 0, "cheapest": 1, "earliest": 2}


@dataclass(slots=True)
class SearchRows:
    """The rows of a path search as an Arrow stream, which is computed whenever it is read."""

    numbering: Numbering
    search: PathSearch
    schema: pa.Schema
    threads: int
    _arrays: SearchArrays | None = None
    error: BaseException | None = None
    """The error that ended the stream. DuckDB reports only its text."""
    rows: int = 0
    """The number of rows read."""
    seconds: float = 0.0
    """The time until the last row was read, which contains that of the reader."""

    @property
    def sources(self) -> int:
        """The number of vertices from which paths were searched."""
        return 0 if self._arrays is None else self._arrays.sources.size

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        started = time.perf_counter()
        try:
            if self._arrays is None:
                self._arrays = search_arrays(self.numbering, self.search, ends_only=self.search.ends_only)
            rows = PathRows(self.numbering, self.search, self.schema, self._arrays.real)
            self.rows = 0
            for paths in self._paths(self._arrays):
                batch = rows.batch(paths)
                self.rows += batch.num_rows
                yield batch
            self.seconds = time.perf_counter() - started
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise

    def _paths(self, arrays: SearchArrays) -> Iterator[Paths]:
        found = find_paths(self.search, arrays, self.threads, self.numbering.context)
        return _distinct(found, self.search) if self.search.distinct else found


@contextmanager
def opened_search(
    context: BuildContext, bind_context: BindContext, search: PathSearch, threads: int | None
) -> Iterator[SearchRows]:
    """Open the rows of a path search. The files of its snapshot are kept during the block."""
    opened = None
    if search.snapshot is not None:
        opened = open_snapshot(context.store.catalog_db, search.snapshot, lambda element: False)
    try:
        with context.store.sql_engine.session() as session:
            schema = session.table(no_rows(search.columns)).schema
        numbering = Numbering(context, bind_context, search, opened)
        yield SearchRows(numbering, search, schema, threads or os.cpu_count() or 1)
    finally:
        if opened is not None:
            opened.lease.release()


def method_of(search: PathSearch, *, timed: bool = True) -> Method:
    """Return the method that finds the paths of a search.

    Args:
        search: The search.
        timed: Whether every edge has an event time.
    """
    single = len(search.automaton.states) == 1 and len(search.steps[0].variables) == 1
    wanted = search.search
    if wanted.kind == "all":
        return "walks"
    if not single or wanted.count != 1 or wanted.groups or search.within is not None:
        return "best-first"
    if wanted.kind == "shortest" and search.times == "any" and _as_walks(search):
        return "lanes"
    plain = search.mode == "WALK" and search.automaton.most is None
    if wanted.kind == "earliest" and timed and plain:
        return "earliest"
    return "best-first"


def _as_walks(search: PathSearch) -> bool:
    """Return whether the shortest walks of an automaton with one state satisfy the mode.

    A shortest walk repeats no vertex, except that it can return to its first one. An undirected edge can then be
    traversed twice, back and forth.
    """
    both = any(part.traversal == "both" or part.query is not None for step in search.steps for part in step.parts)
    single = len(search.automaton.states) == 1 and search.times == "any"
    return single and not (search.mode == "TRAIL" and both)


def find_paths(search: PathSearch, arrays: SearchArrays, threads: int, context: BuildContext) -> Iterator[Paths]:
    """Yield the paths of a search in the order of their sources, the same on any number of threads.

    Raises:
        InputError: The search from one vertex needs too much memory.
        QueryError: A stop was requested.
    """
    method = method_of(search, timed=arrays.timed)
    clock = {"any": 0, "ordered": 1, "increasing": 2}[search.times]
    within = -1 if search.within is None else search.within
    automaton = search.automaton
    most = -1 if automaton.most is None else automaton.most
    mode = _MODES.index(search.mode)
    acyclic = search.mode == "ACYCLIC"
    closed = search.search.kind == "shortest" and search.search.count == 1 and _as_walks(search)
    if method != "walks" and closed:
        mode = 0
    limits = Limits(mode, automaton.least, most, clock, within)
    stop = np.zeros(1, np.uint8)
    run = _kernel(method, search, arrays, limits, stop, threads)
    for paths in _in_order(run, arrays.sources, _group(method, arrays.sources.size, threads), threads, stop, context):
        if closed and acyclic and method != "walks":
            yield _without_cycles(paths)
        elif paths.length.size:
            yield paths


Run: TypeAlias = Callable[[Int64s], Iterator[Paths]]


def _kernel(method: Method, search: PathSearch, arrays: SearchArrays, limits: Limits, stop: Array, threads: int) -> Run:
    edges, program = arrays.edges, arrays.program
    if method == "walks":
        return lambda sources: walks.walks(edges, program, limits, sources, stop, _ROWS)
    if method == "lanes":
        least = 0 if _accepts_empty(search) else 1
        bounds = limits._replace(least=least)
        return lambda sources: iter([lanes.shortest(edges, program, bounds, sources, stop, arrays.reverse)])
    if method == "earliest":
        tail = arrays.tail
        if tail is None:
            counts = np.diff(edges.indptr)
            tail = np.repeat(np.arange(counts.size, dtype=np.int64), counts)
        order = np.argsort(edges.time, kind="stable")
        least = 0 if _accepts_empty(search) else 1
        bounds = limits._replace(least=least)
        return lambda sources: iter([earliest.earliest(order, tail, edges, program, bounds, sources, stop, 64)])
    wanted = search.search
    selection = selected.Selection(_BY[wanted.kind], wanted.count, int(wanted.groups))
    most = max(1 << 16, int(usable_memory() * 0.2) // threads // _LABEL_BYTES)

    def best(sources: Int64s) -> Iterator[Paths]:
        try:
            yield selected.selected(edges, program, limits, sources, selection, stop, most)
        except OverflowError:
            raise InputError(
                f"the search for {search.name} needs more than {most:,} partial paths from one vertex; lower the "
                "upper bound of its quantifier, restrict its vertices, or use ANY SHORTEST and WALK",
                code="memory",
            ) from None

    return best


def _accepts_empty(search: PathSearch) -> bool:
    """Return whether a path without edges is accepted."""
    states = len(search.automaton.states)
    return any(t.state == states and t.to < 0 for t in search.automaton.transitions)


def _group(method: Method, sources: int, threads: int) -> int:
    """Return the number of sources of a group, which one call of a kernel searches."""
    if method == "walks":
        return max(1, min(256, -(-sources // (threads * 8))))
    return max(64, min(1024, -(-sources // threads)))


def _in_order(
    run: Run, sources: Int64s, group: int, threads: int, stop: Array, context: BuildContext
) -> Iterator[Paths]:
    """Yield the paths of each group of sources in order. Several groups are searched at once."""
    groups = [sources[i : i + group] for i in range(0, sources.size, group)]
    waiting: list[tuple[queue.Queue[Paths | BaseException | None], threading.Thread | None]] = []

    def start(number: int) -> None:
        lane: queue.Queue[Paths | BaseException | None] = queue.Queue(maxsize=4)
        thread = threading.Thread(target=_fill, args=(run, groups[number], number * group, lane, stop), daemon=True)
        thread.start()
        waiting.append((lane, thread))

    begun = 0
    try:
        for number in range(len(groups)):
            while begun < min(number + threads, len(groups)):
                start(begun)
                begun += 1
            lane, _ = waiting[number]
            while (paths := _next(lane, context)) is not None:
                yield paths
            context.report("searching paths", (number + 1) / len(groups))
    finally:
        stop[0] = 1
        for lane, thread in waiting:
            _drain(lane, thread)


def _fill(run: Run, sources: Int64s, first: int, lane: queue.Queue[Paths | BaseException | None], stop: Array) -> None:
    """Put the paths of a group of sources into its queue, and then None or the error that ended the search."""
    try:
        for paths in run(sources):
            if stop[0]:
                break
            lane.put(paths._replace(source=paths.source + first))
        lane.put(None)
    except BaseException as error:
        lane.put(error)


def _next(lane: queue.Queue[Paths | BaseException | None], context: BuildContext) -> Paths | None:
    while True:
        try:
            found = lane.get(timeout=_WAIT)
        except queue.Empty:
            context.check_stopped()
            continue
        if isinstance(found, BaseException):
            raise found
        return found


def _drain(lane: queue.Queue[Paths | BaseException | None], thread: threading.Thread | None) -> None:
    """Wait for a thread whose search was stopped, which may be waiting for room in its queue."""
    while thread is not None and thread.is_alive():
        try:
            lane.get(timeout=0.01)
        except queue.Empty:
            thread.join(0.01)


def _without_cycles(paths: Paths) -> Paths:
    """Return the paths except those that end where they start."""
    first, last = paths.nodes[paths.ptr[:-1]], paths.nodes[paths.ptr[1:] - 1]
    return take_paths(paths, np.flatnonzero((paths.length == 0) | (first != last)))


def take_paths(paths: Paths, chosen: Int64s) -> Paths:
    """Return the paths at the given positions."""
    counts = np.diff(paths.ptr)[chosen]
    ptr = np.zeros(chosen.size + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    inside = np.arange(int(ptr[-1])) - np.repeat(ptr[:-1], counts)
    nodes = np.repeat(paths.ptr[:-1][chosen], counts) + inside
    edges, transitions = paths.edges, paths.transitions
    if paths.transitions.size:
        edge_counts = counts - 1
        starts = np.zeros(chosen.size + 1, np.int64)
        np.cumsum(edge_counts, out=starts[1:])
        own = np.arange(int(starts[-1])) - np.repeat(starts[:-1], edge_counts)
        edges = paths.edges[np.repeat((paths.ptr[:-1] - np.arange(paths.length.size))[chosen], edge_counts) + own]
        transitions = paths.transitions[nodes]
    return replace_paths(paths, chosen, ptr, paths.nodes[nodes], edges, transitions)


def replace_paths(paths: Paths, chosen: Int64s, ptr: Int64s, nodes: Int64s, edges: Int64s, transitions: Array) -> Paths:
    """Return paths with new arrays."""
    return Paths(paths.source[chosen], paths.length[chosen], ptr, nodes, edges, transitions)


def _distinct(found: Iterator[Paths], search: PathSearch) -> Iterator[Paths]:
    """Yield paths without those that bind the same elements as an earlier one of the same source."""
    seen: set[tuple[bytes, ...]] = set()
    source = -1
    for paths in found:
        keep = []
        for i in range(paths.length.size):
            if paths.source[i] != source:
                source = int(paths.source[i])
                seen.clear()
            key = _binding(paths, i, search)
            if key not in seen:
                seen.add(key)
                keep.append(i)
        yield take_paths(paths, np.array(keep, np.int64))


def _binding(paths: Paths, index: int, search: PathSearch) -> tuple[bytes, ...]:
    """Return the elements of a path, and which of them each named variable is bound to."""
    start, stop = int(paths.ptr[index]), int(paths.ptr[index + 1])
    transitions = paths.transitions[start:stop]
    marks = _marks(search)[transitions]
    return paths.nodes[start:stop].tobytes(), paths.edges[start - index : stop - index - 1].tobytes(), marks.tobytes()


def _marks(search: PathSearch) -> Int64s:
    """Return a number per transition, equal for transitions that bind the same named variables."""
    states, numbers, marks = search.automaton.states, dict[object, int](), []
    for t in ordered(search):
        edge = search.steps[states[t.state].step].variables[states[t.state].place] if t.state < len(states) else " "
        names = tuple(v for i in t.nodes if not (v := search.nodes[i].variable).startswith(" "))
        key = names, edge if not edge.startswith(" ") else " "
        marks.append(numbers.setdefault(key, len(numbers)))
    return np.array(marks, np.int64)
