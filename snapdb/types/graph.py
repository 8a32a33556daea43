"""Tables at one version, and property graphs over their columns."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, NamedTuple


@dataclass(frozen=True, slots=True)
class Column:
    """A declared column of a table."""

    name: str
    type: str
    """DuckDB's spelling of the type, e.g. `FLOAT[128]`. Parquet may store another type (sql_engine.tables)."""
    nullable: bool = True
    field: int = 0
    """The field id, which survives renames and is never reused; 0 for a column of no table."""
    default: str | None = None
    """The value, as text, of rows that were inserted without one, and of rows older than the column."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One immutable Parquet file of a table."""

    path: str
    """The path, relative to the database directory."""
    rows: int
    """The number of rows."""
    bytes: int
    """The size of the file."""
    sha256: str
    """The hash of the file, in hexadecimal."""
    first: int = 0
    """The row id of the file's first row; the following rows count on. In a file of deletes: its oldest version. 0 in a
    file that belongs to no version yet."""
    columns: tuple[Column, ...] | None = None
    """The table's columns when the file was written; None: the same as now."""
    until: int | None = None
    """In a file of deletes: the last version whose deletes count, as a merged file has later ones too; None: all
    count."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table at one version."""

    id: int
    """The id, never reused: a table that replaces another gets a new id."""
    name: str
    columns: tuple[Column, ...]
    segments: tuple[Segment, ...]
    deletes: tuple[Segment, ...]
    """Parquet files with one column `row_id`: the rows of `segments` that are deleted."""
    rows: int
    """The number of live rows."""
    state: int
    """The last version, up to this one, that changed the table."""
    next_row: int
    """The id of the next appended row; rows of `segments` from here on belong to later versions."""
    fields: int
    """The number of columns that it ever had, which is the last field id."""

    @property
    def folder(self) -> str:
        """The directory of its files, relative to the database directory."""
        return f"tables/{self.id}" if self.id > 0 else "tables"

    def column(self, name: str) -> Column | None:
        """The column with that name, in any case; None if there is none."""
        folded = name.lower()
        return next((c for c in self.columns if c.name.lower() == folded), None)


@dataclass(frozen=True, slots=True)
class Version:
    """The changes that one commit made to one table."""

    version: int
    time: int
    """Microseconds since 1970 UTC; increases with every version."""
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
    """The time of the version's commit: microseconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class Property:
    """A column, and the name under which a snapshot shows it."""

    column: str
    name: str


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties that an element shows beside its required columns."""

    named: tuple[Property, ...] = ()
    excepted: tuple[str, ...] | None = None
    """The columns that ALL COLUMNS EXCEPT omits; None: only the named columns are shown."""

    def shown(self, columns: Iterable[str], needed: Iterable[str]) -> list[tuple[str, str]]:
        """Each shown column with its name, in the order of the columns; required ones are always shown.

        >>> Properties((Property("b", "c"),)).shown(["id", "a", "b"], ["ID"])
        [('id', 'id'), ('b', 'c')]
        """
        always = {name.lower() for name in needed}
        hidden = {name.lower() for name in self.excepted or ()}
        taken = {p.name.lower() for p in self.named}
        shown = []
        for column in columns:
            own = column.lower()
            whole = self.excepted is not None and own not in hidden and own not in taken
            if own in always or whole:
                shown.append((column, column))
            names = [p.name for p in self.named if p.column.lower() == own]
            shown += [(column, name) for name in names if own not in always or name.lower() != own]
        return shown

    def __str__(self) -> str:
        """The clause of the graph's definition.

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
        """The 64-bit hash of an edge type and direction, which is part of every draw key (ET in the sampling contract).

        >>> hex(EdgeType("customer", "bought", "product").type_hash("IN"))
        '0x860da7d90bdd38f6'
        """
        return int.from_bytes(sha256(self.type_text(direction)).digest()[:8], "little")

    def type_text(self, direction: Direction) -> bytes:
        """The text that `type_hash` hashes; edge types are sampled in its byte order within a hop."""
        return "\0".join((self.source.lower(), self.edge.lower(), self.destination.lower(), direction)).encode()


@dataclass(frozen=True, slots=True)
class FeatureHistory:
    """The history of a feature whose values change in time: a table with a row per change."""

    table: str
    key: tuple[str, ...]
    """The columns with the element's key, in the key's order."""
    event_time: str
    """The column with the time from which a row's values are valid."""


@dataclass(frozen=True, slots=True)
class FeatureSpec:
    """A feature built from columns, concatenated in order."""

    name: str
    columns: tuple[str, ...]
    """The columns of the element's table, or of the history's. For a sparse feature: lists of indices and, unless all
    values are 1, of values."""
    default: float | None = None
    """The value in place of NULL, NaN and missing rows; None: these are an error."""
    dtype: str = "float32"
    """The dtype in which it is stored and delivered, by numpy's name."""
    sparse: bool = False
    """Whether rows are stored as (index, value) pairs and delivered as a torch CSR tensor."""
    width: int | None = None
    """The declared width of a sparse feature; None: one more than the greatest index."""
    history: FeatureHistory | None = None
    """The table of its values, if they change in time."""


def _featured(specs: tuple[FeatureSpec, ...]) -> list[str]:
    """The columns of the element's own table that features are built from."""
    return [column for spec in specs if spec.history is None for column in spec.columns]


def _shown(properties: Properties | None) -> list[str]:
    """The columns that properties name."""
    return [] if properties is None else [p.column for p in properties.named]


@dataclass(frozen=True, slots=True)
class VertexElement:
    """A vertex type of a graph."""

    name: str
    table: str
    key: tuple[str, ...]
    features: tuple[FeatureSpec, ...] = ()
    target: str | None = None
    """The column that a batch delivers as `y` for its seeds."""
    on_duplicate: OnDuplicate = "ERROR"
    event_time: str | None = None
    """The column with the time from which a vertex exists; None: all exist always."""
    nulls_static: bool = False
    """Whether a vertex with NULL as event time exists always; otherwise NULL is an error."""
    labels: tuple[str, ...] = ()
    """The labels; empty: its name is its only label."""
    properties: Properties | None = None
    """The shown properties; None: all columns."""
    classes: tuple[str, ...] | None = None
    """All values of a text target, in the order of their codes; None: codes are assigned as values appear."""

    @property
    def needed(self) -> list[str]:
        """The columns that a snapshot shows in any case."""
        return [*self.key, *([] if self.event_time is None else [self.event_time])]

    @property
    def columns(self) -> list[str]:
        """Every column of the table that the element names."""
        more = [] if self.target is None else [self.target]
        return [*self.needed, *more, *_featured(self.features), *_shown(self.properties)]


@dataclass(frozen=True, slots=True)
class EdgeElement:
    """An edge type of a graph; edges go source → destination."""

    name: str
    table: str
    source_key: tuple[str, ...]
    source: str
    """The vertex type of the source."""
    destination_key: tuple[str, ...]
    destination: str
    """The vertex type of the destination."""
    event_time: str | None = None
    """The column with the time of an edge, or with the time from which it is valid."""
    weight: str | None = None
    features: tuple[FeatureSpec, ...] = ()
    on_dangling: Literal["ERROR", "SKIP"] = "ERROR"
    event_end: str | None = None
    """The column with the time at which an edge ends, exclusive; NULL there means never. None: edges have no
    duration."""
    nulls_static: bool = False
    """Whether an edge with NULL as event time exists always; otherwise NULL is an error."""
    labels: tuple[str, ...] = ()
    """The labels; empty: its name is its only label."""
    properties: Properties | None = None
    """The shown properties; None: all columns."""

    @property
    def type(self) -> EdgeType:
        return EdgeType(self.source, self.name, self.destination)

    @property
    def needed(self) -> list[str]:
        """The columns that a snapshot shows in any case."""
        more = [name for name in (self.event_time, self.event_end, self.weight) if name is not None]
        return [*self.source_key, *self.destination_key, *more]

    @property
    def columns(self) -> list[str]:
        """Every column of the table that the element names."""
        return [*self.needed, *_featured(self.features), *_shown(self.properties)]


@dataclass(frozen=True, slots=True)
class PropertyGraph:
    """A property graph over tables. One definition serves every version whose tables fit it."""

    name: str
    vertices: tuple[VertexElement, ...]
    edges: tuple[EdgeElement, ...]

    @property
    def elements(self) -> tuple[VertexElement | EdgeElement, ...]:
        """Vertex types, then edge types."""
        return (*self.vertices, *self.edges)

    @property
    def tables(self) -> tuple[str, ...]:
        """Every table that it reads, once: those of its elements and of histories."""
        named = [e.table for e in self.elements]
        named += [spec.history.table for v in self.vertices for spec in v.features if spec.history is not None]
        return tuple({name.lower(): name for name in named}.values())

    def labelled(self, name: str) -> list[VertexElement | EdgeElement]:
        """The elements that a name denotes: the element with that name, else all with that label."""
        own = [e for e in self.elements if e.name.lower() == name.lower()]
        return own or [e for e in self.elements if name.lower() in {label.lower() for label in e.labels}]

    def vertex(self, name: str) -> VertexElement | None:
        """The vertex type with that name, in any case."""
        return next((v for v in self.vertices if v.name.lower() == name.lower()), None)

    def edge(self, name: str) -> EdgeElement | None:
        """The edge type with that name, in any case."""
        return next((e for e in self.edges if e.name.lower() == name.lower()), None)
