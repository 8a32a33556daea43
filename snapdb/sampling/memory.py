"""Batches that do not fit into memory."""

from collections.abc import Iterator
from contextlib import contextmanager

from snapdb.errors import InputError

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
