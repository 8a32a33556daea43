"""Where a sampler's statement says what is found to be wrong only when the sampler is opened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from snapdb.errors import BindError, DataError, SnapdbError, Span
from snapdb.plan.origin import Origin

_ABOUT = {
    "bad-negatives": "negatives",
    "bad-weight": "weights",
    "device": "device",
    "memory": "memory",
    "needs-weight": "weights",
}
"""The clause that an error is about, by its code."""


@dataclass(frozen=True, slots=True)
class Places:
    """Spans of clauses; None: the statement does not say it."""

    weights: Span | None = None
    """WEIGHT BY, or METHOD where that goes by weights."""
    negatives: Span | None = None
    device: Span | None = None
    """ON, or WITH numba | torch."""
    memory: Span | None = None
    origin: Origin | None = None
    """Of a statement that was composed; None: the statement is as it was written."""

    @contextmanager
    def under(self) -> Iterator[None]:
        """Errors of the block point to the clause that they are about, where that was written."""
        with nullcontext() if self.origin is None else self.origin.shown(), self._pointing():
            yield

    @contextmanager
    def _pointing(self) -> Iterator[None]:
        try:
            yield
        except SnapdbError as error:
            if error.text is None and error.span is None and error.code in _ABOUT:
                error.span = getattr(self, _ABOUT[error.code])
            raise


@contextmanager
def about_seeds(place: Span, outside: str | None) -> Iterator[None]:
    """Errors of the block point to the seed query, unless they know better.

    Args:
        place: Of the query.
        outside: The query that was given as seeds=, which the errors are then about; empty: ids were given.
    """
    try:
        yield
    except SnapdbError as error:
        if error.text is not None:
            raise
        if outside is None:
            error.span = error.span or place
            raise
        if isinstance(error, BindError | DataError):
            error.message = _of_argument(error.message)
        if outside:
            error.located(outside, place)
        error.span = error.span if outside else None
        raise


def _of_argument(message: str) -> str:
    """The message of a clause as one of the argument.

    >>> _of_argument("SEEDS gives y twice; keep one"), _of_argument("1 of 3 seeds is missing")
    ('seeds= gives y twice; keep one', 'seeds=: 1 of 3 seeds is missing')
    """
    said, many = re.subn(r"\bSEEDS( EDGES)?\b", "seeds=", message)
    return said if many else f"seeds=: {message}"
