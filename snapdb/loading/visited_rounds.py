"""Rounds of pool rows under REFRESH OTF SCOPE VISITED, which depend on the batches that accessed the rows.

Rounds are frozen for a window of batches, which can be built in parallel and in any order. Once all batches in a window
are sampled, the rows they accessed get the number of the next window, and that window opens. The batches in a window
therefore depend only on the rounds at its start.
"""

from __future__ import annotations

import base64
import json
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from snapdb.arrays import Int32s, Int64s
from snapdb.errors import InputError
from snapdb.sampling import Ints, Subgraph
from snapdb.sampling.rounds import Rounds, slot_of
from snapdb.sampling.sampler import RelationTraversal
from snapdb.types import Relation, SampleSpec


class _Rows(NamedTuple):
    """The pool rows that batches access at a hop."""

    hop: int
    relation: Relation
    slot: int
    nodes: int
    """The number of rows: one per node."""

    @property
    def name(self) -> tuple[Relation, int]:
        """The key of the rows in Rounds, which several hops can share."""
        return self.relation, self.slot


class _Window:
    """A window of batches that use the same rounds."""

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds
        self.next = {rows: values.copy() for rows, values in rounds.items()}
        """The rounds of the next window, as far as this window's batches have been sampled."""
        self.sampled: set[int] = set()
        """The numbers of the sampled batches."""


class VisitedRounds:
    """A sampler's windows, which open one after another. Threads share them."""

    def __init__(self, spec: SampleSpec, traversals: Sequence[RelationTraversal], saved: Any = None) -> None:
        """Begin with batch 0, or with a saved window.

        Raises:
            InputError: The saved window is damaged, or belongs to other rows.
        """
        assert spec.refresh is not None
        self.every = spec.refresh.period
        self._blocks = spec.layout == "BLOCKS"
        self._rows = tuple(_rows(spec, traversals))
        number, rounds = _unpacked(saved, {rows.name: rows.nodes for rows in self._rows})
        self._windows = {number: _Window(rounds)}
        self._last = number
        """The number of the most recently opened window."""
        self._kept: frozenset[int] = frozenset()
        self._failed = False
        self._changed = threading.Condition()

    def sampled(self, number: int, sample: Callable[[Rounds], Subgraph]) -> Subgraph:
        """Sample a batch with its rounds, once all batches of earlier windows are sampled.

        Those batches must already be sampled or be in progress on other threads.
        """
        subgraph = sample(self._opened(number // self.every))
        self._record_access(number, subgraph)
        return subgraph

    def fail(self) -> None:
        """Record that a batch failed, so that no thread waits for it."""
        with self._changed:
            self._failed = True
            self._changed.notify_all()

    def missing(self, before: int) -> tuple[int, Iterator[int]]:
        """Return the number of earlier batches that are not sampled yet, and an iterator over their numbers.

        There can be many of them.
        """
        self._failed = False
        numbers = range(self._last * self.every, before)
        done = sum(number in numbers for number in tuple(self._windows[self._last].sampled))
        return len(numbers) - done, self.unsampled(numbers)

    def unsampled(self, numbers: Iterable[int]) -> Iterator[int]:
        """Return the batches among `numbers` that are not sampled yet."""
        last = self._last
        done = frozenset(self._windows[last].sampled)
        return (number for number in numbers if number // self.every >= last and number not in done)

    def opens(self, number: int) -> int:
        """Return the first batch in a batch's window. The batch depends on all batches before that first one."""
        return number - number % self.every

    def knows(self, number: int) -> bool:
        """Return whether a batch can be sampled without sampling earlier windows again."""
        window = number // self.every
        return window in self._windows or window > self._last

    def keep(self, numbers: Iterable[int]) -> None:
        """Keep the rounds of these batches instead of those of the previous call."""
        self._kept = frozenset(number // self.every for number in numbers)

    def forget(self, before: int) -> None:
        """Free the rounds of the windows before this batch's window. They are no longer read."""
        with self._changed:
            gone = {window for window in self._windows if window < min(before // self.every, self._last)}
            for window in gone - self._kept:
                del self._windows[window]

    def saved(self, number: int) -> dict[str, Any] | None:
        """Return the rounds of the last known window up to this batch's window, as plain JSON values.

        The result is None for the first window, in which all rows are in round 0.
        """
        with self._changed:
            known = [window for window in self._windows if window <= number // self.every]
            latest = max(known, default=0)
            rounds = self._windows[latest].rounds if latest else {}
        return _packed(latest, rounds) if latest else None

    def _opened(self, window: int) -> Rounds:
        """Return the rounds of a window once it has opened."""
        with self._changed:
            while window not in self._windows:
                if window < self._last:
                    raise InputError(
                        "SCOPE VISITED samples batches in order, but another iteration of this stream is ahead; "
                        "open one stream per iteration",
                        code="batches-in-order",
                    )
                if self._failed:
                    raise InputError(
                        "a previous batch failed, and pool rows depend on the nodes that it visits",
                        code="batches-in-order",
                    )
                self._changed.wait()
            return self._windows[window].rounds

    def _record_access(self, number: int, subgraph: Subgraph) -> None:
        """Mark the rows of all nodes that a batch expanded. The last batch of a window opens the next window."""
        at = number // self.every
        window = self._windows.get(at)
        # The window was complete, so this batch is sampled again, and its accesses are already recorded.
        if window is None:
            return
        if at + 1 not in self._windows:
            # No lock is needed: all threads in the window write the same number, so their order does not matter.
            for rows in self._rows:
                window.next[rows.name][self._expanded(subgraph, rows)] = at + 1
        with self._changed:
            window.sampled.add(number)
            if len(window.sampled) == self.every and at == self._last:
                self._windows[at + 1] = _Window(window.next)
                self._last = at + 1
                self._changed.notify_all()

    def _expanded(self, subgraph: Subgraph, rows: _Rows) -> Int64s:
        """Return the dense ids of the nodes that a batch expanded at a hop."""
        met = [0, *accumulate(subgraph.nodes_per_hop[rows.relation.expands])]
        low = 0 if self._blocks else met[rows.hop]
        return _on_host(subgraph.nodes[rows.relation.expands][low : met[rows.hop + 1]])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_changed"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._changed = threading.Condition()


def check_any_order(spec: SampleSpec, what: str) -> None:
    """Check that batches may be built in any order.

    Raises:
        InputError: Each batch depends on earlier batches.
    """
    if spec.in_order:
        raise InputError(
            f"{what} accesses batches by number, but under SCOPE VISITED each batch depends on the previous "
            "ones; iterate over the stream, or write SCOPE ALL, which allows access to any batch",
            code="batches-in-order",
        )


def _rows(spec: SampleSpec, traversals: Sequence[RelationTraversal]) -> Iterator[_Rows]:
    """Yield the pool rows of each hop. A hop that samples all edges or none has no pool rows."""
    for traversal in traversals:
        for hop, count in enumerate(traversal.fanout.counts):
            if count > 0:
                yield _Rows(hop, traversal.relation, slot_of(spec, hop), traversal.adjacency.nodes)


def _on_host(values: Ints) -> Int64s:
    """Return the ids in host memory."""
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()


def _packed(window: int, rounds: Rounds) -> dict[str, Any]:
    """Return the rounds at the start of a window, as JSON-serializable values.

    >>> from snapdb.types import EdgeType
    >>> knows = Relation(EdgeType("person", "knows", "person"), "IN")
    >>> saved = _packed(3, {(knows, 0): np.array([0, 3, 1], np.int32)})
    >>> window, rounds = _unpacked(saved, {(knows, 0): 3})
    >>> window, rounds[knows, 0]
    (3, array([0, 3, 1], dtype=int32))
    """
    rows = [[*relation.edge, relation.direction, slot, _text(values)] for (relation, slot), values in rounds.items()]
    return {"window": window, "rounds": rows, "checksum": _checksum(window, rows)}


def _unpacked(saved: Any, nodes: Mapping[tuple[Relation, int], int]) -> tuple[int, dict[tuple[Relation, int], Int32s]]:
    """Return the number of a saved window and its rounds, or the first window if nothing was saved.

    Args:
        saved: The result of `_packed`, or None.
        nodes: The keys of the sampler's rows, each with its number of rows.

    Raises:
        InputError: The saved window is damaged, or belongs to other rows.
    """
    if saved is None:
        return 0, {rows: np.zeros(count, np.int32) for rows, count in nodes.items()}
    try:
        window = saved["window"]
        texts = {(*names, slot): text for *names, slot, text in saved["rounds"]}
        expected = {(*relation.edge, relation.direction, slot): (relation, slot) for relation, slot in nodes}
        # The state may be from an edited file, or from a graph that has changed since.
        if not isinstance(window, int) or not 0 < window < 2**31 or texts.keys() != expected.keys():
            raise ValueError("its rows differ")
        if saved["checksum"] != _checksum(window, saved["rounds"]):
            raise ValueError("its checksum differs")
        return window, {rows: _values(texts[name], nodes[rows], window) for name, rows in expected.items()}
    except (KeyError, TypeError, ValueError, RecursionError, zlib.error) as error:
        raise InputError(
            f"the rounds of this state are damaged ({error}); remove 'visits' from it, and the previous batches "
            "are sampled again",
            code="stream-state",
        ) from error


def _checksum(window: int, rows: Any) -> int:
    """Return the CRC-32 of the window, the row names and their texts. zlib's own checksum covers only a single text."""
    return zlib.crc32(json.dumps([window, rows]).encode())


def _text(values: Int32s) -> str:
    """Return the rounds as compressed text for JSON."""
    return base64.b64encode(zlib.compress(values.astype("<i4").tobytes(), 1)).decode("ascii")


def _values(text: str, nodes: int, window: int) -> Int32s:
    """Return the decoded rounds of `nodes` rows, none later than the window."""
    inflate = zlib.decompressobj()
    # Decompression is limited to the expected size, because a damaged or forged state could expand without bound.
    plain = inflate.decompress(base64.b64decode(text, validate=True), 4 * nodes + 1)
    values = np.frombuffer(plain, "<i4").astype(np.int32)
    if values.size != nodes or (nodes and not 0 <= int(values.min()) <= int(values.max()) <= window):
        raise ValueError(f"expected rounds of {nodes} rows from 0 to {window}")
    return values
