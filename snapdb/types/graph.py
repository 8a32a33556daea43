"""Tables at one version, and property graphs over their columns."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, NamedTuple

ConstraintKind = Literal["PRIMARY KEY", "UNIQUE", "CHECK", "FOREIGN KEY"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition on the rows of a table, other than NOT NULL."""

    kind: ConstraintKind
    name: str
    fields: tuple[int, ...]
    """The field ids of the columns: those of a key in its order, or those that the condition of a CHECK reads."""
    expression: str | None = None
    """The condition of a CHECK, as written."""
    table: str | None = None
    """The name of the table that a FOREIGN KEY references."""
    keys: tuple[str, ...] = ()
    """The names of the referenced columns, in the order of `fields`."""
    enforced: bool = True
    """Whether writes check it. False with NOT ENFORCED."""

    @property
    def is_unique(self) -> bool:
        """Whether rows with the same values violate it."""
        return self.kind in ("PRIMARY KEY", "UNIQUE")


@dataclass(frozen=True, slots=True)
class Column:
    """A declared table column."""

    name: str
    type: str
    """DuckDB's name for the type, e.g. `FLOAT[128]`. Parquet files can store another type (see sql_engine.tables)."""
    nullable: bool = True
    field: int = 0
    """The field id, which survives renames and is never reused. 0 for a column that does not belong to a table."""
    default: str | None = None
    """The value, as text, for rows that were inserted without a value and for rows older than the column."""
    constraints: tuple[Constraint, ...] = ()
    """The constraints of the table that are stored with this column, which is the first one that they name."""
    generated: str | None = None
    """The expression of a GENERATED column over the other columns of its row. It is evaluated when rows are written."""
    default_expression: str | None = None
    """The expression of a DEFAULT that is not a constant, such as now(). It is evaluated when rows are written."""

    @property
    def default_text(self) -> str | None:
        """The default as lists of columns show it, or how the column is generated."""
        return f"GENERATED AS ({self.generated})" if self.generated else self.default_expression or self.default


@dataclass(frozen=True, slots=True)
class Segment:
    """An immutable Parquet file of a table."""

    path: str
    """The path, relative to the database directory."""
    rows: int
    """The number of rows."""
    bytes: int
    """The file size in bytes."""
    sha256: str
    """The SHA-256 of the file, in hexadecimal."""
    first: int = 0
    """The row id of the first row. The following rows have consecutive ids. For a file of deletes, this is the oldest
    version. For a file that does not belong to a version yet, it is 0."""
    columns: tuple[Column, ...] | None = None
    """The table's columns when the file was written, or None if they have not changed since."""
    until: int | None = None
    """For a file of deletes, the last version whose deletes apply, or None if all deletes apply. A merged file also
    contains later deletes."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table at one version."""

    id: int
    """The id, which is never reused. A table that replaces another one gets a new id."""
    name: str
    columns: tuple[Column, ...]
    segments: tuple[Segment, ...]
    deletes: tuple[Segment, ...]
    """Parquet files with a single column `row_id`, which contains the ids of the deleted rows in `segments`."""
    rows: int
    """The number of live rows."""
    state: int
    """The latest version, up to this one, in which the table changed."""
    next_row: int
    """The id of the next appended row. Rows in `segments` whose id is this id or greater belong to later versions."""
    fields: int
    """The number of columns that the table has ever had, which is also the last field id."""

    @property
    def folder(self) -> str:
        """The directory of the table's files, relative to the database directory."""
        return f"tables/{self.id}" if self.id > 0 else "tables"

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints of the table, by their first column."""
        return tuple(constraint for column in self.columns for constraint in column.constraints)

    def names_of(self, constraint: Constraint) -> tuple[str, ...]:
        """Return the names of a constraint's columns."""
        names = {column.field: column.name for column in self.columns}
        return tuple(names[field] for field in constraint.fields)

    def definition_of(self, constraint: Constraint) -> str:
        """Return a constraint as it is written in the definition of the table.

        >>> table = Table(1, "t", (Column("a", "INTEGER", field=1),), (), (), 0, 1, 0, 1)
        >>> table.definition_of(Constraint("FOREIGN KEY", "f", (1,), None, "u", ("b",), False))
        'FOREIGN KEY (a) REFERENCES u (b) NOT ENFORCED'
        """
        names = ", ".join(self.names_of(constraint))
        text = f"CHECK ({constraint.expression})" if constraint.kind == "CHECK" else f"{constraint.kind} ({names})"
        if constraint.table is not None:
            text += f" REFERENCES {constraint.table} ({', '.join(constraint.keys)})"
        return text if constraint.enforced else f"{text} NOT ENFORCED"

    def column(self, name: str) -> Column | None:
        """Return the column with this name, ignoring case, or None."""
        folded = name.lower()
        return next((c for c in self.columns if c.name.lower() == folded), None)


@dataclass(frozen=True, slots=True)
class Version:
    """The changes that one commit made to one table."""

    version: int
    time: int
    """The commit time in microseconds since 1970 UTC, which increases with every version."""
    message: str | None
    tag: str | None
    author: str
    table: str | None
    rows_added: int
    rows_removed: int


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a version."""

    name: str
    version: int
    time: int
    """The commit time of the version, in microseconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class Property:
    """A column and its property name in snapshots."""

    column: str
    name: str


@dataclass(frozen=True, slots=True)
class Properties:
    """An element's properties in addition to its required columns."""

    named: tuple[Property, ...] = ()
    excepted: tuple[str, ...] | None = None
    """The columns that ALL COLUMNS EXCEPT omits, or None if only the named columns are shown."""

    def shown(self, columns: Iterable[str], needed: Iterable[str]) -> list[tuple[str, str]]:
        """Return the shown columns and their property names, in column order. Required columns are always shown.

        >>> Properties((Property("b", "c"),)).shown(["id", "a", "b"], ["ID"])
        [('id', 'id'), ('b', 'c')]
        """
        always = {name.lower() for name in needed}
        hidden = {name.lower() for name in self.excepted or ()}
        taken = {p.name.lower() for p in self.named}
        shown = []
        for column in columns:
            # A column is shown under its own name if it is required, or if ALL COLUMNS includes it and no property has
            # that name.
            own = column.lower()
            whole = self.excepted is not None and own not in hidden and own not in taken
            if own in always or whole:
                shown.append((column, column))
            names = [p.name for p in self.named if p.column.lower() == own]
            # An alias adds a name. A required column has already been shown above, so its own name must not be repeated
            # here.
            shown += [(column, name) for name in names if own not in always or name.lower() != own]
        return shown

    def __str__(self) -> str:
        """Return the properties as a clause of a graph definition.

        >>> str(Properties((Property("b", "c"),))), str(Properties()), str(Properties(excepted=("a",)))
        ('b AS c', 'none', 'all columns except a')
        """
        parts = [p.column if p.column == p.name else f"{p.column} AS {p.name}" for p in self.named]
        if self.excepted is not None:
            parts.insert(0, f"all columns except {', '.join(self.excepted)}" if self.excepted else "all columns")
        return ", ".join(parts) or "none"


Direction = Literal["IN", "OUT", "BOTH"]
OnDuplicate = Literal["ERROR", "FIRST", "LAST"]


class EdgeType(NamedTuple):
    """An edge type as PyG writes it: (source vertex type, edge type, destination vertex type)."""

    source: str
    edge: str
    destination: str

    def type_hash(self, direction: Direction) -> int:
        """Return the 64-bit hash of an edge type and direction.

        Every draw key contains it (ET in the sampling contract).

        >>> hex(EdgeType("customer", "bought", "product").type_hash("IN"))
        '0x860da7d90bdd38f6'
        """
        # The byte order is fixed, so that batches are the same on every machine.
        return int.from_bytes(sha256(self.type_text(direction)).digest()[:8], "little")

    def type_text(self, direction: Direction) -> bytes:
        """Return the text that `type_hash` hashes.

        The edge types in a hop are sampled in the byte order of this text.
        """
        # NUL, which no name contains, separates the parts, so that ("a", "bc") and ("ab", "c") have different hashes.
        return "\0".join((self.source.lower(), self.edge.lower(), self.destination.lower(), direction)).encode()


@dataclass(frozen=True, slots=True)
class FeatureHistory:
    """The history of a feature whose values change over time: a table with one row per change."""

    table: str
    key: tuple[str, ...]
    """The columns that refer to the element's key, in key order."""
    event_time: str
    """The column with the time from which a row's values are valid."""


STORED_TYPES = ("float16", "bfloat16", "int8")
"""The types in which float32 features can be stored."""


@dataclass(frozen=True, slots=True)
class FeatureSpec:
    """A feature that concatenates columns, in order."""

    name: str
    columns: tuple[str, ...]
    """The columns of the element's table or of the history table. A sparse feature has a column of index lists and,
    unless all values are 1, a column of value lists."""
    default: float | None = None
    """The value that replaces NULL, NaN and missing rows. If it is None, these are errors."""
    dtype: str = "float32"
    """The name of the numpy dtype in which the feature is stored and delivered."""
    sparse: bool = False
    """Whether rows are stored as (index, value) pairs and delivered as a torch CSR tensor."""
    width: int | None = None
    """The declared width of a sparse feature, or None for the largest index plus one."""
    history: FeatureHistory | None = None
    """The table with the feature's values, if they change over time."""
    stored: str | None = None
    """The type in which a float32 feature is stored (float16, bfloat16 or int8), or None for `dtype`."""

    @property
    def read_dtype(self) -> str:
        """The numpy dtype in which values are read from the table: float16 is rounded only once."""
        return "float16" if self.stored == "float16" else self.dtype


def _featured(specs: tuple[FeatureSpec, ...]) -> list[str]:
    """Return the columns of the element's own table that its features use."""
    return [column for spec in specs if spec.history is None for column in spec.columns]


def _shown(properties: Properties | None) -> list[str]:
    """Return the columns that the properties name."""
    return [] if properties is None else [p.column for p in properties.named]


@dataclass(frozen=True, slots=True)
class VertexElement:
    """A vertex type of a graph."""

    name: str
    table: str
    key: tuple[str, ...]
    features: tuple[FeatureSpec, ...] = ()
    target: str | None = None
    """The column whose values are delivered as `y` for a batch's seeds."""
    on_duplicate: OnDuplicate = "ERROR"
    event_time: str | None = None
    """The column with the time at which a vertex starts to exist, or None if all vertices always exist."""
    nulls_static: bool = False
    """Whether a vertex whose event time is NULL always exists. If False, NULL is an error."""
    labels: tuple[str, ...] = ()
    """The labels. If there are none, the element's name is its only label."""
    properties: Properties | None = None
    """The properties shown, or None for all columns."""
    classes: tuple[str, ...] | None = None
    """All values of a text target, in code order. If None, codes are assigned in order of first appearance."""

    @property
    def needed(self) -> list[str]:
        """The columns that a snapshot always shows."""
        return [*self.key, *([] if self.event_time is None else [self.event_time])]

    @property
    def columns(self) -> list[str]:
        """Every column of the element's table that the definition names."""
        more = [] if self.target is None else [self.target]
        return [*self.needed, *more, *_featured(self.features), *_shown(self.properties)]


@dataclass(frozen=True, slots=True)
class EdgeElement:
    """An edge type of a graph. Edges point from source to destination."""

    name: str
    table: str
    source_key: tuple[str, ...]
    source: str
    """The vertex type of the source."""
    destination_key: tuple[str, ...]
    destination: str
    """The vertex type of the destination."""
    event_time: str | None = None
    """The column with the time at which an edge occurs, or at which its validity starts."""
    weight: str | None = None
    features: tuple[FeatureSpec, ...] = ()
    on_dangling: Literal["ERROR", "SKIP"] = "ERROR"
    event_end: str | None = None
    """The column with the time at which an edge ends (exclusive). NULL means that the edge never ends. If None, edges
    have no duration."""
    nulls_static: bool = False
    """Whether an edge whose event time is NULL always exists. If False, NULL is an error."""
    labels: tuple[str, ...] = ()
    """The labels. If there are none, the element's name is its only label."""
    properties: Properties | None = None
    """The properties shown, or None for all columns."""

    @property
    def type(self) -> EdgeType:
        return EdgeType(self.source, self.name, self.destination)

    @property
    def needed(self) -> list[str]:
        """The columns that a snapshot always shows."""
        more = [name for name in (self.event_time, self.event_end, self.weight) if name is not None]
        return [*self.source_key, *self.destination_key, *more]

    @property
    def columns(self) -> list[str]:
        """Every column of the element's table that the definition names."""
        return [*self.needed, *_featured(self.features), *_shown(self.properties)]


@dataclass(frozen=True, slots=True)
class PropertyGraph:
    """A property graph over tables. A definition applies to every version whose tables fit it."""

    name: str
    vertices: tuple[VertexElement, ...]
    edges: tuple[EdgeElement, ...]
    validates: bool | None = None
    """Whether writes that would make CREATE SNAPSHOT fail are refused. None if they only cause warnings."""

    @property
    def elements(self) -> tuple[VertexElement | EdgeElement, ...]:
        """All vertex types, followed by all edge types."""
        return (*self.vertices, *self.edges)

    @property
    def tables(self) -> tuple[str, ...]:
        """The distinct names of the tables that the graph reads: element tables and history tables."""
        named = [e.table for e in self.elements]
        named += [spec.history.table for v in self.vertices for spec in v.features if spec.history is not None]
        # The dictionary removes names that differ only in case and preserves the order.
        return tuple({name.lower(): name for name in named}.values())

    def labelled(self, name: str) -> list[VertexElement | EdgeElement]:
        """Return the elements that a name denotes.

        This is the element with that name, or else all elements with that label.
        """
        own = [e for e in self.elements if e.name.lower() == name.lower()]
        return own or [e for e in self.elements if name.lower() in {label.lower() for label in e.labels}]

    def vertex(self, name: str) -> VertexElement | None:
        """Return the vertex type with this name, ignoring case, or None."""
        return next((v for v in self.vertices if v.name.lower() == name.lower()), None)

    def edge(self, name: str) -> EdgeElement | None:
        """Return the edge type with this name, ignoring case, or None."""
        return next((e for e in self.edges if e.name.lower() == name.lower()), None)
