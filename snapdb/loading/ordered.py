"""A map over threads whose results are in order, a bounded number of them ahead of the consumer."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from snapdb.errors import SnapdbError

_I = TypeVar("_I")
_O = TypeVar("_O")


class OrderedMap(Iterator[_O], Generic[_I, _O]):
    """`map(work, items)` over threads.

    Results are in the order of the items. At most `room(in progress)` items, evaluated each time, are in progress or
    wait to be taken. An exception of `work` is raised in its item's turn. Threads end with the last item, at an
    exception, at `close`, and when the iterator is dropped.

    >>> list(OrderedMap(str.upper, ["a", "b", "c"], threads=2, room=lambda under_way: 4))
    ['A', 'B', 'C']
    """

    def __init__(
        self, work: Callable[[_I], _O], items: Iterable[_I], *, threads: int, room: Callable[[int], int]
    ) -> None:
        self._work = work
        self._items = iter(items)
        self._room = room
        self._pending: deque[Future[_O]] = deque()
        self._closed = False
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="snapdb-batch")

    def __next__(self) -> _O:
        try:
            self._fill()
            if not self._pending:
                raise StopIteration
            outcome = self._pending.popleft().result()
            self._fill()
        except BaseException as error:
            self._end()
            # Another thread may close it at any of the steps above.
            if self._closed and isinstance(error, CancelledError | IndexError | RuntimeError | StopIteration):
                raise SnapdbError(
                    "the stream was closed while it was read; open another one", code="stream-closed"
                ) from error
            raise
        return outcome

    def close(self) -> None:
        """Drops what was not begun, and waits for what was: a batch takes milliseconds."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        self._items = iter(())
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pending.clear()

    def __del__(self) -> None:
        # The last reference may be dropped on one of the threads, which cannot wait for itself.
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _fill(self) -> None:
        room = self._room(sum(not future.done() for future in self._pending))
        while len(self._pending) < room:
            try:
                item = next(self._items)
            except StopIteration:
                return
            self._pending.append(self._pool.submit(self._work, item))
