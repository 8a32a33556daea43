"""The memory of a stream: how many batches may be complete or in progress at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from snapdb.arrays import Array
from snapdb.errors import InputError
from snapdb.kernels import buffers


class MemoryBudget:
    """The bytes that a stream may take, for the scratch of working threads and for batches, complete or in progress.

    Both are measured: the first batch is built alone, later ones count as much as the largest so far. Where there is
    room, it leaves space for one more: the consumer's, whose buffers are reused for the next.

    >>> budget = MemoryBudget(1000)
    >>> budget.room(threads=4, ahead=8)
    1
    >>> budget.made(150, scratch=100)
    >>> budget.room(threads=4, ahead=8)
    3
    """

    def __init__(self, limit: int | None) -> None:
        """None: as many batches as may be ahead, whatever they take."""
        self.limit = limit
        self._batch = self._scratch = 0

    def made(self, batch: int, scratch: int) -> None:
        """Takes notice of what a batch takes, and the scratch that it was made with.

        Raises:
            InputError: they are beyond the limit.
        """
        self._batch, self._scratch = max(self._batch, batch), max(self._scratch, scratch)
        if self.limit is not None and batch + scratch > self.limit:
            parts = f"({_said(batch)}, and {_said(scratch)} as its thread's scratch)"
            # Scratch is there before the first batch is made.
            takes = f"{_said(batch + scratch)} {parts}" if batch else f"at least {_said(scratch)}, its thread's scratch"
            raise InputError(
                f"a stream was given {_said(self.limit)} of memory, but a batch takes {takes}; give it more, or make "
                "batches smaller by BATCH, FANOUT or NEGATIVES",
                code="memory",
            )

    def room(self, threads: int, ahead: int, sharers: int = 1, under_way: int = 0) -> int:
        """The number of batches, 1 or more, that may be complete or in progress, where `sharers` share the memory."""
        if self.limit is None:
            return ahead
        limit = self.limit // sharers
        fits = (many for many in range(ahead, 0, -1) if self._takes(many, threads) + self._batch <= limit)
        many = next(fits, 1) if self._batch else 1
        # Batches under way have not taken all their blocks yet: some of the free ones are theirs.
        if buffers.free_bytes() > limit - self._takes(many, threads) + under_way * self._batch:
            buffers.release_free()
        return many

    def _takes(self, many: int, threads: int) -> int:
        return min(threads, many) * self._scratch + many * self._batch


def scratch_bytes(scratch: Any) -> int:
    """The bytes of a thread's working memory, as if all of it had been touched."""
    return sum(array.nbytes for array in _arrays(scratch) if array.base is None)


def _arrays(value: Any) -> Iterator[Array]:
    """The arrays that a value holds, however deep."""
    if isinstance(value, np.ndarray):
        yield value
        return
    inner: Any = value if isinstance(value, tuple) else getattr(value, "__dict__", {}).values()
    for part in value.values() if isinstance(value, Mapping) else inner:
        yield from _arrays(part)


def _said(size: int) -> str:
    """Bytes as a person reads them, rounded up.

    >>> _said(512), _said(2_000_001), _said(3 * 10**9)
    ('512 B', '2.01 MB', '3.00 GB')
    """
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if size >= 1000**power:
            hundredths = -(-size * 100 // 1000**power)
            return f"{hundredths // 100}.{hundredths % 100:02d} {unit}"
    return f"{size} B"


_SAID_BY_TORCH = ("out of memory", "can't allocate memory", "not enough memory")


@contextmanager
def enough_memory(epoch: int, index: int) -> Iterator[None]:
    """The block makes a batch of an epoch; InputError where that takes more memory than there is."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(said in str(error).lower() for said in _SAID_BY_TORCH):
            raise
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"batch {index} of epoch {epoch} does not fit into memory{f' ({reason})' if reason else ''}; make "
            "batches smaller by BATCH, FANOUT or NEGATIVES",
            code="memory",
        ) from error
