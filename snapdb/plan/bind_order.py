"""IN ORDER: the columns by which a seed query orders its rows, for an order without them is none to repeat."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.errors import BindError, Span
from snapdb.plan.asked import Asked
from snapdb.relational import Session, order_keys
from snapdb.types import Column, SeedOrder


def bind_order(
    session: Session, seeds: Asked, columns: Sequence[Column], order: SeedOrder, place: Span | None
) -> tuple[int, ...]:
    """Where among the query's columns those of its ORDER BY stand; none unless `order` is IN ORDER.

    Args:
        place: Of the clause, where the query was written with it.

    Raises:
        BindError: the query has no ORDER BY, or one over something that it does not give.
    """
    if order != "IN ORDER":
        return ()
    keys = order_keys(session, seeds.text)
    if keys is None:
        raise BindError(
            "IN ORDER takes the order of the seed query, which has no ORDER BY; add one", span=place, code="no-order"
        )
    places = {column.name.lower(): i for i, column in reversed([*enumerate(columns)])}
    found = [k.column - 1 if isinstance(k.column, int) else places.get(k.column.lower()) for k in keys]
    if None in found:
        missing = keys[found.index(None)].column
        raise BindError(
            f'IN ORDER needs an ORDER BY over output columns; the query does not give "{missing}"', code="no-order"
        )
    return tuple(place for place in found if place is not None)
