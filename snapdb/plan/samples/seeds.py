"""SEEDS and IN ORDER: which columns of a seed query are the key, times, targets and others, and which order it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snapdb.errors import BindError, Span
from snapdb.plan.fits import graph_times, is_event_time, is_seed_value, key_family, time_unit
from snapdb.plan.queries import BoundQuery
from snapdb.plan.samples.plans import SeedColumns
from snapdb.plan.snapshots import event_unit
from snapdb.sql_engine import Session, order_keys
from snapdb.types import Column, SampleSpec, SeedOrder, Snapshot, Table
from snapdb.types.sampling import BATCH_NAMES

_NAMED = ("seed_time", "y")
_TAKEN = BATCH_NAMES | {"x", "edge_attr"}


def seed_columns(
    columns: Sequence[Column], spec: SampleSpec, snapshot: Snapshot, tables: Mapping[str, Table], place: Span
) -> SeedColumns:
    """Where in the rows of a seed query each thing stands.

    Args:
        place: Of the query.

    Raises:
        BindError: columns that are missing, of types that do not fit, or whose names are taken.
    """
    try:
        return _found(columns, spec, snapshot, tables, place)
    except BindError as error:
        error.span = error.span or place
        raise


def _found(
    columns: Sequence[Column], spec: SampleSpec, snapshot: Snapshot, tables: Mapping[str, Table], place: Span
) -> SeedColumns:
    key = _edge_key(columns) if spec.link is not None else _vertex_key(columns, spec.seed_type, snapshot, tables)
    named = _by_name(columns, key)
    time, y = named.pop("seed_time", None), named.pop("y", None)
    if time is not None:
        _check_time(columns[time], snapshot, tables, place)
    if y is not None and not is_seed_value(columns[y].type):
        raise BindError(
            f'SEEDS gives "y" of type {columns[y].type}; it must be a number, or an array such as FLOAT[3] '
            "(for classes by name say TARGET in the graph, so that every seed set has the same codes)",
            code="seed-type",
        )
    features = {spec.name.lower() for element in snapshot.graph.elements for spec in element.features}
    for name, i in named.items():
        _check_other(columns[i], name in _TAKEN | features)
    return SeedColumns(key, time, y, others=tuple(named[name] for name in sorted(named)))


def _by_name(columns: Sequence[Column], key: tuple[int, ...]) -> dict[str, int]:
    """Return the positions of the columns other than the key, by lower-case name."""
    places: dict[str, int] = {}
    for i, column in enumerate(columns):
        if i in key:
            continue
        if column.name.lower() in places:
            raise BindError(f"SEEDS gives {column.name.lower()} twice; keep one", code="duplicate-name")
        places[column.name.lower()] = i
    return places


def _check_other(column: Column, taken: bool) -> None:
    if taken:
        raise BindError(
            f'SEEDS gives a column "{column.name}", which batches call something else; select it AS another name',
            code="seed-columns",
        )
    if not is_seed_value(column.type):
        raise BindError(
            f'SEEDS gives "{column.name}" of type {column.type}; beside the key and seed_time it may give '
            "numbers, booleans, and arrays of them such as FLOAT[3]: cast it, or leave it out",
            code="seed-type",
        )


def _vertex_key(
    columns: Sequence[Column], seed_type: str, snapshot: Snapshot, tables: Mapping[str, Table]
) -> tuple[int, ...]:
    """The first columns, when they are of the key's types."""
    vertex = snapshot.graph.vertex(seed_type)
    assert vertex is not None, "the seed type was looked up"
    table = tables[vertex.table.lower()]
    key = ", ".join(vertex.key)
    if len(columns) < len(vertex.key):
        raise BindError(f"SEEDS needs the key of {seed_type} ({key}) as its first columns", code="seed-columns")
    for given, name in zip(columns, vertex.key, strict=False):
        wanted = table.column(name)
        if given.name.lower() in _NAMED and given.name.lower() != name.lower():
            raise BindError(
                f'SEEDS gives "{given.name}" where the key of {seed_type} ({key}) comes first', code="seed-columns"
            )
        if wanted is None:
            continue  # the snapshot's files are checked when they are opened
        families = key_family(given.type), key_family(wanted.type)
        if families[0] != families[1] and families != ("VARCHAR", "UUID"):
            raise BindError(
                f'SEEDS gives "{given.name}" of type {given.type} where {seed_type}.{wanted.name} is {wanted.type}; '
                "cast it",
                code="seed-type",
            )
    return tuple(range(len(vertex.key)))


def _edge_key(columns: Sequence[Column]) -> tuple[int, ...]:
    """The column e_id, or the first one."""
    names = [column.name.lower() for column in columns]
    place = names.index("e_id") if "e_id" in names else 0
    if names[place] in _NAMED:
        raise BindError(
            "SEEDS EDGES needs the column e_id, which every element of a snapshot that is an edge type has",
            code="seed-columns",
        )
    if key_family(columns[place].type) != "integer":
        raise BindError(
            f'SEEDS EDGES gives "{columns[place].name}" of type {columns[place].type} where e_id is BIGINT',
            code="seed-type",
        )
    return (place,)


def _check_time(column: Column, snapshot: Snapshot, tables: Mapping[str, Table], place: Span) -> None:
    if not is_event_time(column.type):
        raise BindError(
            f'SEEDS gives "{column.name}" of type {column.type}; it must be a timestamp, a date or an '
            "integer, as the graph's event times are",
            code="seed-type",
        )
    unit = event_unit(snapshot.graph, tables, place) if graph_times(snapshot.graph, tables) else None
    if unit is not None and time_unit(column.type) != unit:
        raise BindError(
            f'SEEDS gives "{column.name}" of type {column.type}, and the event times of graph '
            f"{snapshot.graph.name} are {unit}s",
            code="seed-type",
        )


def bind_order(
    session: Session, seeds: BoundQuery, columns: Sequence[Column], order: SeedOrder, place: Span | None
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
    positions = [k.column - 1 if isinstance(k.column, int) else places.get(k.column.lower()) for k in keys]
    if None in positions:
        missing = keys[positions.index(None)].column
        raise BindError(
            f'IN ORDER needs an ORDER BY over output columns; the query does not give "{missing}"', code="no-order"
        )
    return tuple(place for place in positions if place is not None)
