"""The roles of the columns of SEEDS: the key, the time, the target and others, and the order of IN ORDER."""

from collections.abc import Mapping, Sequence

from snapdb.errors import BindError, Span
from snapdb.plan.fits import SqlType, graph_times
from snapdb.plan.queries import BoundQuery
from snapdb.plan.samples.plans import SeedColumns
from snapdb.plan.snapshots import event_unit
from snapdb.sql_engine import SqlSession
from snapdb.types import Column, SampleSpec, SeedOrder, Snapshot, Table
from snapdb.types.sampling import BATCH_NAMES

_NAMED = ("seed_time", "y")
_TAKEN = BATCH_NAMES | {"x", "edge_attr"}


def seed_columns(
    columns: Sequence[Column], spec: SampleSpec, snapshot: Snapshot, tables: Mapping[str, Table], place: Span
) -> SeedColumns:
    """Return the roles of a seed query's columns.

    Args:
        columns: The query's columns.
        spec: The sampler.
        snapshot: The snapshot of the sampler.
        tables: The tables at the snapshot's version.
        place: The span of the query.

    Raises:
        BindError: Columns are missing, have invalid types, or have names that are already in use.
    """
    try:
        return _seed_columns(columns, spec, snapshot, tables, place)
    except BindError as error:
        error.span = error.span or place
        raise


def _seed_columns(
    columns: Sequence[Column], spec: SampleSpec, snapshot: Snapshot, tables: Mapping[str, Table], place: Span
) -> SeedColumns:
    key = _edge_key(columns) if spec.link is not None else _vertex_key(columns, spec.seed_type, snapshot, tables)
    named = _by_name(columns, key)
    time, y = named.pop("seed_time", None), named.pop("y", None)
    if time is not None:
        _check_time(columns[time], snapshot, tables, place)
    if y is not None and not SqlType(columns[y].type).is_seed_value():
        raise BindError(
            f'column "y" of SEEDS has type {columns[y].type}; it must be a number, or an array such as FLOAT[3] '
            "(for named classes, write TARGET in the graph, so that all seed sets have the same codes)",
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
            raise BindError(f"SEEDS returns {column.name.lower()} twice; keep one", code="duplicate-name")
        places[column.name.lower()] = i
    return places


def _check_other(column: Column, taken: bool) -> None:
    if taken:
        raise BindError(
            f'column "{column.name}" of SEEDS has the same name as a batch attribute; rename it with AS',
            code="seed-columns",
        )
    if not SqlType(column.type).is_seed_value():
        raise BindError(
            f'column "{column.name}" of SEEDS has type {column.type}; columns other than the key and seed_time must be '
            "numbers, booleans or arrays of them, such as FLOAT[3]; cast it, or leave it out",
            code="seed-type",
        )


def _vertex_key(
    columns: Sequence[Column], seed_type: str, snapshot: Snapshot, tables: Mapping[str, Table]
) -> tuple[int, ...]:
    """Return the positions of the first columns if they have the types of the key."""
    vertex = snapshot.graph.vertex(seed_type)
    assert vertex is not None, "the seed type was looked up"
    table = tables[vertex.table.lower()]
    key = ", ".join(vertex.key)
    if len(columns) < len(vertex.key):
        raise BindError(f"the first columns of SEEDS must be the key of {seed_type} ({key})", code="seed-columns")
    for given, name in zip(columns, vertex.key, strict=False):
        wanted = table.column(name)
        # Keys are matched by position, so a missing key column would shift seed_time or y into its place.
        if given.name.lower() in _NAMED and given.name.lower() != name.lower():
            raise BindError(
                f'the first columns of SEEDS must be the key of {seed_type} ({key}), found "{given.name}"',
                code="seed-columns",
            )
        if wanted is None:
            continue  # the files are checked when the snapshot is opened
        families = SqlType(given.type).key_family(), SqlType(wanted.type).key_family()
        if families[0] != families[1] and families != ("VARCHAR", "UUID"):
            raise BindError(
                f'column "{given.name}" of SEEDS has type {given.type}, but {seed_type}.{wanted.name} has '
                f"{wanted.type}; "
                "cast it",
                code="seed-type",
            )
    return tuple(range(len(vertex.key)))


def _edge_key(columns: Sequence[Column]) -> tuple[int, ...]:
    """Return the position of the e_id column, or of the first column if there is none."""
    names = [column.name.lower() for column in columns]
    place = names.index("e_id") if "e_id" in names else 0
    if names[place] in _NAMED:
        raise BindError(
            "SEEDS EDGES must return the column e_id, which every edge type of a snapshot has", code="seed-columns"
        )
    if SqlType(columns[place].type).key_family() != "integer":
        raise BindError(
            f'column "{columns[place].name}" of SEEDS EDGES has type {columns[place].type}; it must be BIGINT',
            code="seed-type",
        )
    return (place,)


def _check_time(column: Column, snapshot: Snapshot, tables: Mapping[str, Table], place: Span) -> None:
    if not SqlType(column.type).is_event_time():
        raise BindError(
            f'column "{column.name}" of SEEDS has type {column.type}; it must be a timestamp, a date or an '
            "integer, like the "
            "graph's event times",
            code="seed-type",
        )
    unit = event_unit(snapshot.graph, tables, place) if graph_times(snapshot.graph, tables) else None
    if unit is not None and SqlType(column.type).time_unit() != unit:
        raise BindError(
            f'column "{column.name}" of SEEDS has type {column.type}, but the event times of graph '
            f"{snapshot.graph.name} are {unit}s",
            code="seed-type",
        )


def bind_order(
    session: SqlSession, seeds: BoundQuery, columns: Sequence[Column], order: SeedOrder, place: Span | None
) -> tuple[int, ...]:
    """Return the positions of the ORDER BY columns, which are empty unless `order` is IN ORDER.

    Args:
        session: A session with the query's names.
        seeds: The query.
        columns: The query's columns.
        order: The seed order.
        place: The span of the clause if it is in the same statement as the query, or None.

    Raises:
        BindError: The query has no ORDER BY, or orders by an expression that is not one of its columns.
    """
    if order != "IN ORDER":
        return ()
    keys = session.order_keys(seeds.text)
    if keys is None:
        raise BindError(
            "IN ORDER uses the order of the seed query, which has no ORDER BY; add one", span=place, code="no-order"
        )
    # If several columns have the same name, the first one is used.
    places = {column.name.lower(): i for i, column in reversed([*enumerate(columns)])}
    positions = [key - 1 if isinstance(key, int) else places.get(key.lower()) for key in keys]
    if None in positions:
        missing = keys[positions.index(None)]
        raise BindError(
            f'IN ORDER needs an ORDER BY over output columns; the query does not return "{missing}"', code="no-order"
        )
    return tuple(place for place in positions if place is not None)
