"""Tables as one version sees them, and property graphs over their columns."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, NamedTuple


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it was declared."""

    name: str
    type: str
    """DuckDB's spelling of the type, e.g. `FLOAT[128]`. Parquet may hold it in another form (sql_engine.values)."""
    nullable: bool = True
    field: int = 0
    """What stays when the column is renamed, and is never given again; 0 where no table holds the column."""
    default: str | None = None
    """The value, as text, of rows that were given none, and of those older than the column."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One immutable Parquet file of a table."""

    path: str
    """Relative to the database directory."""
    rows: int
    bytes: int
    sha256: str
    first: int = 0
    """Row id of the file's first row; row ids count on from it in file order. Of deletes: the oldest version in it.
    0 where the file is not part of a version yet."""
    columns: tuple[Column, ...] | None = None
    """The table's columns when the file was written; None: as the table's now."""
    until: int | None = None
    """Of deletes: only rows with `version` ≤ until count, for the file holds later ones too; None: all of them."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table at one version."""

    id: int
    """Never reused: a replaced table is another table."""
    name: str
    columns: tuple[Column, ...]
    segments: tuple[Segment, ...]
    deletes: tuple[Segment, ...]
    """Parquet files of one column `row_id`: rows of `segments` that are no longer there."""
    rows: int
    """Live rows."""
    state: int
    """The last version, not after this one, that changed the table."""
    next_row: int
    """The id that the next appended row will get; rows of `segments` from here on belong to later versions."""
    fields: int
    """How many columns it has ever had; the last field that was given."""

    @property
    def folder(self) -> str:
        """Where its files go, relative to the database directory."""
        return f"tables/{self.id}" if self.id > 0 else "tables"

    def column(self, name: str) -> Column | None:
        """The column of that name, whatever its case."""
        folded = name.lower()
        return next((c for c in self.columns if c.name.lower() == folded), None)


@dataclass(frozen=True, slots=True)
class Version:
    """What one commit published to one table."""

    version: int
    time: int
    """Microseconds since 1970, UTC; grows with every version."""
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
    """When the version was committed: microseconds since 1970, UTC."""


@dataclass(frozen=True, slots=True)
class Property:
    """A column and the name that it is shown under."""

    column: str
    name: str


@dataclass(frozen=True, slots=True)
class Properties:
    """What an element shows beside the columns that it needs."""

    named: tuple[Property, ...] = ()
    excepted: tuple[str, ...] | None = None
    """All columns but these are shown under their own names too; None: only the named ones."""

    def shown(self, columns: Iterable[str], needed: Iterable[str]) -> list[tuple[str, str]]:
        """Each column that is shown and its name there, in the columns' order; the needed ones always are.

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
        """As a graph says them.

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
    """An edge type by its names, as PyG writes it: (source vertex type, edge type, destination vertex type)."""

    source: str
    edge: str
    destination: str

    def type_hash(self, direction: Direction) -> int:
        """The 64-bit name of an edge type and direction in every draw key (the sampling contract's ET).

        >>> hex(EdgeType("customer", "bought", "product").type_hash("IN"))
        '0x860da7d90bdd38f6'
        """
        return int.from_bytes(sha256(self.type_text(direction)).digest()[:8], "little")

    def type_text(self, direction: Direction) -> bytes:
        """The text that `type_hash` hashes; its byte order is the order of edge types within a hop."""
        return "\0".join((self.source.lower(), self.edge.lower(), self.destination.lower(), direction)).encode()


@dataclass(frozen=True, slots=True)
class FeatureHistory:
    """Where the values of a feature that changes in time are: a table with a row for each change."""

    table: str
    key: tuple[str, ...]
    """Its columns that hold the element's key, in the key's order."""
    event_time: str
    """Since when a row's values hold."""


@dataclass(frozen=True, slots=True)
class FeatureSpec:
    """A feature built from columns, concatenated in order."""

    name: str
    columns: tuple[str, ...]
    """Of the element's table, or of the history's. When sparse: lists of indices and, unless all are 1, of values."""
    default: float | None = None
    """What stands for NULL, NaN and missing rows; None makes them an error."""
    dtype: str = "float32"
    """numpy's name of the type it is kept and delivered in."""
    sparse: bool = False
    """Rows are kept as (index, value) pairs and delivered as a torch CSR tensor."""
    width: int | None = None
    """Of sparse rows, if the graph declares it; None: one more than the greatest index."""
    history: FeatureHistory | None = None


def _featured(specs: tuple[FeatureSpec, ...]) -> list[str]:
    """The columns of the element's own table that features come from."""
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
    """Since when a vertex is there; None: always."""
    nulls_static: bool = False
    """NULL as event time means always; otherwise it is an error."""
    labels: tuple[str, ...] = ()
    """Empty: its name."""
    properties: Properties | None = None
    """None: all columns."""
    classes: tuple[str, ...] | None = None
    """All values that a target of text may have, in the order of their codes; None: they get codes as they appear."""

    @property
    def needed(self) -> list[str]:
        """The columns that a snapshot shows whatever the properties."""
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
    """Vertex type."""
    destination_key: tuple[str, ...]
    destination: str
    """Vertex type."""
    event_time: str | None = None
    """When an edge happened, or since when it holds."""
    weight: str | None = None
    features: tuple[FeatureSpec, ...] = ()
    on_dangling: Literal["ERROR", "SKIP"] = "ERROR"
    event_end: str | None = None
    """Until when an edge holds, itself excluded; NULL there means for ever. None: edges are moments."""
    nulls_static: bool = False
    """NULL as event time means always; otherwise it is an error."""
    labels: tuple[str, ...] = ()
    """Empty: its name."""
    properties: Properties | None = None
    """None: all columns."""

    @property
    def type(self) -> EdgeType:
        return EdgeType(self.source, self.name, self.destination)

    @property
    def needed(self) -> list[str]:
        """The columns that a snapshot shows whatever the properties."""
        more = [name for name in (self.event_time, self.event_end, self.weight) if name is not None]
        return [*self.source_key, *self.destination_key, *more]

    @property
    def columns(self) -> list[str]:
        """Every column of the table that the element names."""
        return [*self.needed, *_featured(self.features), *_shown(self.properties)]


@dataclass(frozen=True, slots=True)
class PropertyGraph:
    """A graph over tables. One definition serves every version whose tables fit it."""

    name: str
    vertices: tuple[VertexElement, ...]
    edges: tuple[EdgeElement, ...]

    @property
    def elements(self) -> tuple[VertexElement | EdgeElement, ...]:
        """Vertex types, then edge types."""
        return (*self.vertices, *self.edges)

    @property
    def tables(self) -> tuple[str, ...]:
        """Every table that it stands on, once: those of its elements and of features that change in time."""
        named = [e.table for e in self.elements]
        named += [spec.history.table for v in self.vertices for spec in v.features if spec.history is not None]
        return tuple({name.lower(): name for name in named}.values())

    def labelled(self, name: str) -> list[VertexElement | EdgeElement]:
        """The elements that a name means: the one of that name, else all that have the label."""
        own = [e for e in self.elements if e.name.lower() == name.lower()]
        return own or [e for e in self.elements if name.lower() in {label.lower() for label in e.labels}]

    def vertex(self, name: str) -> VertexElement | None:
        """The vertex type of that name, whatever its case."""
        return next((v for v in self.vertices if v.name.lower() == name.lower()), None)

    def edge(self, name: str) -> EdgeElement | None:
        """The edge type of that name, whatever its case."""
        return next((e for e in self.edges if e.name.lower() == name.lower()), None)
