"""Rows of the catalog that cannot be what was written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from snapdb.errors import CorruptError
from snapdb.storage.home import Home


@contextmanager
def damaged(home: Home) -> Iterator[None]:
    """What goes wrong in the block, where rows are read that cannot be what was written, becomes CorruptError."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError, RecursionError) as error:
        raise CorruptError(
            f"{home.catalog} is damaged ({error}); restore it from a backup", code="damaged-catalog"
        ) from error
