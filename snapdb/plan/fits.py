"""The roles of column types in a graph, and checks that tables still fit a graph."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from snapdb.storage.arrays.feature_types import is_feature_type
from snapdb.types import Column, EdgeElement, FeatureHistory, FeatureSpec, PropertyGraph, Table, TimeUnit, VertexElement

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_KEYS = ("integer", "TIMESTAMP", "VARCHAR", "UUID", "DATE", "BOOLEAN", "BLOB")
_NUMBERS = (*_INTEGERS, *(f"U{t}" for t in _INTEGERS), "FLOAT", "DOUBLE")


class SqlType(NamedTuple):
    """DuckDB's name for a column type, and tests for the roles that such a column can have in a graph."""

    name: str

    def key_family(self) -> str:
        """Return the family of a key type. Keys of the same family are comparable.

        >>> SqlType("INTEGER").key_family() == SqlType("UBIGINT").key_family(), SqlType("VARCHAR").key_family()
        (True, 'VARCHAR')
        """
        plain = self.name.removeprefix("U") if self.name != "UUID" else self.name
        # A list of timestamps or ENUMs must not be mistaken for a scalar of that family.
        if "[" in self.name:
            return self.name
        if plain in _INTEGERS:
            return "integer"
        # An ENUM is compared as a string, so it can reference a VARCHAR key.
        if self.name.startswith("ENUM"):
            return "VARCHAR"
        return "TIMESTAMP" if self.name.startswith("TIMESTAMP") else self.name

    def is_key(self) -> bool:
        """Return whether the type can be a key: integer, string, UUID, date, timestamp, boolean, blob or decimal."""
        return self.key_family() in _KEYS or (self.name.startswith("DECIMAL") and "[" not in self.name)

    def is_event_time(self) -> bool:
        """Return whether the type can be an event time: a timestamp, date or integer.

        Nanosecond timestamps and floats would lose precision.
        """
        family = self.key_family()
        return family in ("integer", "DATE") or (family == "TIMESTAMP" and self.name != "TIMESTAMP_NS")

    def time_unit(self) -> TimeUnit:
        """Return the unit of event times of this type.

        >>> SqlType("DATE").time_unit(), SqlType("UINTEGER").time_unit()
        ('timestamp', 'integer')
        """
        return "integer" if self.key_family() == "integer" else "timestamp"

    def is_indices(self) -> bool:
        """Return whether the type can hold the indices of a sparse feature: a list or array of integers.

        >>> SqlType("INTEGER[]").is_indices(), SqlType("INTEGER").is_indices(), SqlType("FLOAT[3]").is_indices()
        (True, False, False)
        """
        return self.is_values() and SqlType(self.name.partition("[")[0]).key_family() == "integer"

    def is_feature(self) -> bool:
        """Return whether the type can be a feature: a number, a boolean, or a list or array of them."""
        return is_feature_type(self.name)

    def is_values(self) -> bool:
        """Return whether the type can hold the values of a sparse feature: a list or array of numbers."""
        return "[" in self.name and self.is_feature()

    def is_weight(self) -> bool:
        """Return whether the type can be a weight, which must be a number."""
        return self.name in _NUMBERS or (self.name.startswith("DECIMAL") and "[" not in self.name)

    def is_seed_value(self) -> bool:
        """Return whether the type can be an additional seed column: a number, boolean, or fixed-length array of them.

        >>> SqlType("BOOLEAN").is_seed_value(), SqlType("FLOAT[3]").is_seed_value(), SqlType("FLOAT[]").is_seed_value()
        (True, True, False)
        """
        return self.is_feature() and not self.name.endswith("[]")

    def is_target(self) -> bool:
        """Return whether the type can be a target: a number, a boolean or a string."""
        return self.is_weight() or self.key_family() in ("VARCHAR", "BOOLEAN")

    def is_text(self) -> bool:
        """Return whether the type is a string type. A target encodes strings as class codes."""
        return self.key_family() == "VARCHAR"


_Role = tuple[str, str, Callable[[SqlType], bool]]
"""A column's name, its role in the graph, and the test for whether a type can have that role."""


def graph_times(
    graph: PropertyGraph, tables: Mapping[str, Table], *, elements: bool = True, histories: bool = True
) -> list[tuple[str, str, TimeUnit]]:
    """Return the element, table and unit of each event time in a graph, edges first and histories last."""
    times = [(e.name, e.table, e.event_time) for e in graph.edges if elements]
    times += [(v.name, v.table, v.event_time) for v in graph.vertices if elements]
    for element in graph.elements if histories else ():
        changing = [(spec.name, spec.history) for spec in element.features if spec.history is not None]
        times += [(f"{element.name}.{name}", h.table, h.event_time) for name, h in changing]
    columns = []
    for name, table_name, time in times:
        table = tables.get(table_name.lower())
        column = table.column(time) if table is not None and time is not None else None
        if table is not None and column is not None:
            columns.append((name, table.name, SqlType(column.type).time_unit()))
    return columns


def misfits(graph: PropertyGraph, tables: Mapping[str, Table]) -> Iterator[str]:
    """Yield a message clause for each reason why the tables, by lower-case name, do not fit the graph."""
    for element in graph.elements:
        table = tables.get(element.table.lower())
        if table is None:
            yield f'table "{element.table}" does not exist'
            continue
        columns = {name: table.column(name) for name in element.columns}
        missing = [name for name, column in columns.items() if column is None]
        yield from (f'column "{name}" does not exist in table {table.name}' for name in missing)
        if not missing:
            present = {name: column for name, column in columns.items() if column is not None}
            yield from _wrong_types(graph, element, table, present, tables)
        for spec in element.features:
            if spec.history is not None and isinstance(element, VertexElement):
                yield from _wrong_history(element, table, spec, spec.history, tables)
    yield from _wrong_units(graph, tables)


def _wrong_types(
    graph: PropertyGraph,
    element: VertexElement | EdgeElement,
    table: Table,
    columns: Mapping[str, Column],
    tables: Mapping[str, Table],
) -> Iterator[str]:
    roles = [role for spec in element.features if spec.history is None for role in _feature_roles(spec)]
    if isinstance(element, VertexElement):
        roles += [(name, "a key", SqlType.is_key) for name in element.key]
        fits = SqlType.is_target if element.classes is None else SqlType.is_text
        roles += [(element.target, "a target", fits)] if element.target else []
        times = [element.event_time]
    else:
        if table.column("e_id") is not None:
            yield f"edge table {table.name} has a column e_id, a name that is reserved in snapshots"
        roles += [(element.weight, "a weight", SqlType.is_weight)] if element.weight else []
        for key, end in ((element.source_key, element.source), (element.destination_key, element.destination)):
            yield from _wrong_keys(graph, table, key, end, tables)
        times = [element.event_time, element.event_end]
    roles += [(name, "an event time", SqlType.is_event_time) for name in times if name is not None]
    yield from _wrong_roles(table, columns, roles)
    if len({SqlType(columns[name].type).time_unit() for name in times if name is not None}) > 1:
        yield f"the event times of {element.name} are partly integers and partly timestamps"


def _feature_roles(spec: FeatureSpec) -> list[_Role]:
    if spec.sparse:
        roles: list[_Role] = [(spec.columns[0], "the indices of a sparse feature", SqlType.is_indices)]
        return roles + [(name, "the values of a sparse feature", SqlType.is_values) for name in spec.columns[1:]]
    return [(name, "a feature", SqlType.is_feature) for name in spec.columns]


def _wrong_roles(table: Table, columns: Mapping[str, Column], roles: Sequence[_Role]) -> Iterator[str]:
    for name, role, fits in roles:
        if not fits(SqlType(columns[name].type)):
            yield f'column "{name}" of table {table.name} has type {columns[name].type}, which cannot be {role}'


def _wrong_history(
    element: VertexElement, own: Table, spec: FeatureSpec, history: FeatureHistory, tables: Mapping[str, Table]
) -> Iterator[str]:
    table = tables.get(history.table.lower())
    if table is None:
        yield f'table "{history.table}", the history of {element.name}.{spec.name}, does not exist'
        return
    named = {name: table.column(name) for name in (*history.key, history.event_time, *spec.columns)}
    yield from (
        f'column "{name}" does not exist in table {table.name}' for name, column in named.items() if column is None
    )
    if any(column is None for column in named.values()):
        return
    columns = {name: column for name, column in named.items() if column is not None}
    yield from _wrong_roles(
        table, columns, [*_feature_roles(spec), (history.event_time, "an event time", SqlType.is_event_time)]
    )
    for name, referred in zip(history.key, element.key, strict=True):
        there = own.column(referred)
        if there is not None and SqlType(columns[name].type).key_family() != SqlType(there.type).key_family():
            yield f"{table.name}.{name} is {columns[name].type}, but {there.name} of {element.name} is {there.type}"


def _wrong_units(graph: PropertyGraph, tables: Mapping[str, Table]) -> Iterator[str]:
    """Yield the histories whose times cannot be compared with the graph's event times."""
    known = {unit for _, _, unit in graph_times(graph, tables, histories=False)}
    for name, table, unit in graph_times(graph, tables, elements=False):
        if known and unit not in known:
            yield f"the event times of table {table}, the history of {name}, differ in type from the graph's"


def _wrong_keys(
    graph: PropertyGraph, table: Table, key: tuple[str, ...], end: str, tables: Mapping[str, Table]
) -> Iterator[str]:
    vertex = graph.vertex(end)
    assert vertex is not None
    vertices = tables.get(vertex.table.lower())
    for name, referred in zip(key, vertex.key, strict=True):
        here, there = table.column(name), vertices.column(referred) if vertices else None
        if (
            here is not None
            and there is not None
            and SqlType(here.type).key_family() != SqlType(there.type).key_family()
        ):
            yield f"{table.name}.{name} is {here.type}, but {there.name} of {vertex.name} is {there.type}"
