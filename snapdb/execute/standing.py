"""Errors that are no fault of the statement: a snapshot that was replaced just then, a catalog that is damaged."""

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


def once_it_stands(act: Callable[[], T]) -> T:
    """What `act` gives, tried again when a snapshot that it reads was replaced while it was being opened."""
    for _ in range(_TRIES):
        try:
            return act()
        except CommitConflict as conflict:
            if conflict.code != "snapshot-replaced":
                raise
    return act()


@contextmanager
def damage_explained(home: Home, ledger: Ledger) -> Iterator[None]:
    """What only a damaged catalog can lead to becomes CorruptError; what it does not explain is our own mistake."""
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
