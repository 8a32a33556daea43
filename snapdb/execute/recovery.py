"""Recovery from what a statement cannot cause: a snapshot that was replaced meanwhile, or a damaged catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from snapdb.errors import CommitConflict, CorruptError, SnapdbError
from snapdb.storage.check import catalog_damage
from snapdb.storage.home import Home
from snapdb.storage.ledger import Ledger

T = TypeVar("T")

_TRIES = 8


def retry_if_replaced(act: Callable[[], T]) -> T:
    """The result of `act`, retried when a snapshot that it reads was replaced while it was being opened."""
    for _ in range(_TRIES):
        try:
            return act()
        except CommitConflict as conflict:
            if conflict.code != "snapshot-replaced":
                raise
    return act()


@contextmanager
def diagnose_corruption(home: Home, ledger: Ledger) -> Iterator[None]:
    """Raise CorruptError in place of an unexpected error where the catalog is damaged, which can cause any."""
    try:
        yield
    except SnapdbError:
        raise
    except Exception as error:
        problem = None if ledger.closed else catalog_damage(home, ledger)
        if problem is None:
            raise
        message = f"{home.path / problem.path} ({problem.kind}): {problem.problem}; {problem.remedy}"
        raise CorruptError(message, code="damaged-catalog") from error
