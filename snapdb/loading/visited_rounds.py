"""REFRESH OTF SCOPE VISITED: the round of each row, which depends on the batches before that read it."""

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
from snapdb.sampling.sampler import RelationWalk
from snapdb.types import Relation, SampleSpec


def packed(window: int, rounds: Rounds) -> dict[str, Any]:
    """The rounds that a window begins with.

    >>> from snapdb.types import EdgeType
    >>> knows = Relation(EdgeType("person", "knows", "person"), "IN")
    >>> saved = packed(3, {(knows, 0): np.array([0, 3, 1], np.int32)})
    >>> window, rounds = unpacked(saved, {(knows, 0): 3})
    >>> window, rounds[knows, 0]
    (3, array([0, 3, 1], dtype=int32))
    """
    rows = [[*relation.edge, relation.direction, slot, _text(values)] for (relation, slot), values in rounds.items()]
    return {"window": window, "rounds": rows, "checksum": _checksum(window, rows)}


def unpacked(saved: Any, nodes: Mapping[tuple[Relation, int], int]) -> tuple[int, dict[tuple[Relation, int], Int32s]]:
    """The number of the window, and its rounds; those of the first window where nothing was saved.

    Args:
        nodes: the rows that there are, and how many.

    Raises:
        InputError: what was saved is damaged, or of other rows.
    """
    if saved is None:
        return 0, {rows: np.zeros(count, np.int32) for rows, count in nodes.items()}
    try:
        window = saved["window"]
        texts = {(*names, slot): text for *names, slot, text in saved["rounds"]}
        expected = {(*relation.edge, relation.direction, slot): (relation, slot) for relation, slot in nodes}
        if not isinstance(window, int) or not 0 < window < 2**31 or texts.keys() != expected.keys():
            raise ValueError("it is of other rows")
        if saved["checksum"] != _checksum(window, saved["rounds"]):
            raise ValueError("its checksum is another")
        return window, {rows: _values(texts[name], nodes[rows], window) for name, rows in expected.items()}
    except (KeyError, TypeError, ValueError, RecursionError, zlib.error) as error:
        raise InputError(
            f"the rounds of this state are damaged ({error}); leave 'visits' out of it, and the batches before are "
            "sampled again",
            code="stream-state",
        ) from error


def _checksum(window: int, rows: Any) -> int:
    """Of all that is saved: each text has its own, but none tells which rows it is of, or of which window."""
    return zlib.crc32(json.dumps([window, rows]).encode())


def _text(values: Int32s) -> str:
    return base64.b64encode(zlib.compress(values.astype("<i4").tobytes(), 1)).decode("ascii")


def _values(text: str, nodes: int, window: int) -> Int32s:
    """The rounds of so many rows, none later than the window."""
    inflate = zlib.decompressobj()
    plain = inflate.decompress(base64.b64decode(text, validate=True), 4 * nodes + 1)
    values = np.frombuffer(plain, "<i4").astype(np.int32)
    if values.size != nodes or (nodes and not 0 <= int(values.min()) <= int(values.max()) <= window):
        raise ValueError(f"rounds of {nodes} rows from 0 to {window} are expected")
    return values


# REFRESH OTF SCOPE VISITED: which round each row is in, which depends on the batches that came by it before


class _Rows(NamedTuple):
    """Rows that batches come by at a hop."""

    hop: int
    relation: Relation
    slot: int
    nodes: int
    """How many there are: one a node."""

    @property
    def name(self) -> tuple[Relation, int]:
        """Theirs in Rounds; hops may share them."""
        return self.relation, self.slot


class _Window:
    """The batches that see the same rounds."""

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds
        self.next = {rows: values.copy() for rows, values in rounds.items()}
        """The rounds after it, as far as batches are sampled."""
        self.sampled: set[int] = set()
        """Its batches that are, by number."""


class VisitedRounds:
    """The windows of a sampler, as they open one after another. Threads share them."""

    def __init__(self, spec: SampleSpec, walks: Sequence[RelationWalk], saved: Any = None) -> None:
        """Begins with batch 0, or with the window that was `saved`.

        Raises:
            InputError: what was saved is damaged, or of other rows.
        """
        assert spec.refresh is not None
        self.every = spec.refresh.period
        self._blocks = spec.layout == "BLOCKS"
        self._rows = tuple(_rows(spec, walks))
        number, rounds = unpacked(saved, {rows.name: rows.nodes for rows in self._rows})
        self._windows = {number: _Window(rounds)}
        self._last = number
        """The window that opened last."""
        self._kept: frozenset[int] = frozenset()
        self._failed = False
        self._changed = threading.Condition()

    def sampled(self, number: int, sample: Callable[[Rounds], Subgraph]) -> Subgraph:
        """What `sample` makes of a batch and its rounds, once all batches of the windows before are sampled.

        These must be sampled already, or be under way on other threads.
        """
        found = sample(self._opened(number // self.every))
        self._came_by(number, found)
        return found

    def fail(self) -> None:
        """A batch could not be made: nobody is to wait for it."""
        with self._changed:
            self._failed = True
            self._changed.notify_all()

    def missing(self, before: int) -> tuple[int, Iterator[int]]:
        """How many batches before this one are not sampled, of which none has failed, and which: maybe very many."""
        self._failed = False
        numbers = range(self._last * self.every, before)
        done = sum(number in numbers for number in tuple(self._windows[self._last].sampled))
        return len(numbers) - done, self.unsampled(numbers)

    def unsampled(self, numbers: Iterable[int]) -> Iterator[int]:
        """Those of some batches that are not sampled by now."""
        last = self._last
        done = frozenset(self._windows[last].sampled)
        return (number for number in numbers if number // self.every >= last and number not in done)

    def opens(self, number: int) -> int:
        """The first batch of a batch's window: those before it are all that it depends on."""
        return number - number % self.every

    def knows(self, number: int) -> bool:
        """Whether a batch can be made without going back."""
        window = number // self.every
        return window in self._windows or window > self._last

    def keep(self, numbers: Iterable[int]) -> None:
        """Keeps the rounds of these batches, and of none that were kept before, until others are named."""
        self._kept = frozenset(number // self.every for number in numbers)

    def forget(self, before: int) -> None:
        """Lets go of the rounds of batches in windows before this batch's, which are not asked for any more."""
        with self._changed:
            gone = {window for window in self._windows if window < min(before // self.every, self._last)}
            for window in gone - self._kept:
                del self._windows[window]

    def saved(self, number: int) -> dict[str, Any] | None:
        """The rounds of the last window, up to that of this batch, that is known: as plain values for JSON.

        None where that is the first window, in which all rows are in round 0.
        """
        with self._changed:
            known = [window for window in self._windows if window <= number // self.every]
            found = max(known, default=0)
            rounds = self._windows[found].rounds if found else {}
        return packed(found, rounds) if found else None

    def _opened(self, window: int) -> Rounds:
        """The rounds of a window, once it is open."""
        with self._changed:
            while window not in self._windows:
                if window < self._last:
                    raise InputError(
                        "under SCOPE VISITED batches are made in their order, and another iteration of this stream "
                        "has gone on to later ones; open a stream for each iteration",
                        code="batches-in-order",
                    )
                if self._failed:
                    raise InputError(
                        "a batch before this one failed, and rows depend on what it visits", code="batches-in-order"
                    )
                self._changed.wait()
            return self._windows[window].rounds

    def _came_by(self, number: int, found: Subgraph) -> None:
        """Marks the rows of all that a batch expanded; after the last batch of a window opens the next."""
        at = number // self.every
        window = self._windows.get(at)
        if window is None:  # it was complete, and so was sampled again
            return
        if at + 1 not in self._windows:
            for rows in self._rows:
                window.next[rows.name][self._expanded(found, rows)] = at + 1
        with self._changed:
            window.sampled.add(number)
            if len(window.sampled) == self.every and at == self._last:
                self._windows[at + 1] = _Window(window.next)
                self._last = at + 1
                self._changed.notify_all()

    def _expanded(self, found: Subgraph, rows: _Rows) -> Int64s:
        """The nodes that a batch expanded at a hop."""
        met = [0, *accumulate(found.nodes_per_hop[rows.relation.expands])]
        low = 0 if self._blocks else met[rows.hop]
        return _on_host(found.nodes[rows.relation.expands][low : met[rows.hop + 1]])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_changed"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._changed = threading.Condition()


def check_any_order(spec: SampleSpec, what: str) -> None:
    """Refuses what asks for batches out of their order, where each depends on those before it.

    Raises:
        InputError: they do.
    """
    if spec.in_order:
        raise InputError(
            f"{what} asks for batches by number, but under SCOPE VISITED a batch depends on those before it; "
            "iterate over the stream, or say SCOPE ALL, under which any batch can be made alone",
            code="batches-in-order",
        )


def _rows(spec: SampleSpec, walks: Sequence[RelationWalk]) -> Iterator[_Rows]:
    """The rows that each hop draws from; where a hop takes all edges, or none, it needs no row."""
    for walk in walks:
        for hop, count in enumerate(walk.fanout.counts):
            if count > 0:
                yield _Rows(hop, walk.relation, slot_of(spec, hop), walk.adjacency.nodes)


def _on_host(values: Ints) -> Int64s:
    """The ids as numpy has them, wherever they are."""
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()
