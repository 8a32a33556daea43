"""Small graphs and path patterns of GRAPH_TABLE as values. Each pattern prints itself as SQL."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

Direction = Literal["right", "left", "any", "either"]
Mode = Literal["WALK", "TRAIL", "ACYCLIC", "SIMPLE"]
BRACKETS: Mapping[Direction, tuple[str, str]] = {
    "right": ("-", "->"),
    "left": ("<-", "-"),
    "any": ("-", "-"),
    "either": ("<-", "->"),
}
ARROWS: Mapping[Direction, str] = {"right": "->", "left": "<-", "any": "-", "either": "<->"}
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "<>": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Vertex:
    """A vertex with its type and properties, which include the key."""

    type: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Edge:
    """An edge between two vertices, given by their positions in the graph."""

    type: str
    values: Mapping[str, Any]
    """Properties, which include `e_id`."""
    source: int
    destination: int
    time: int | None = None
    """The event time in hours, or None for a static edge."""


@dataclass(frozen=True)
class Graph:
    """Vertices and edges of all types. Positions in the lists identify them."""

    vertices: Sequence[Vertex]
    edges: Sequence[Edge]

    @cached_property
    def incident(self) -> Sequence[Sequence[int]]:
        """The positions of the edges that start or end at each vertex, in ascending order."""
        rows: list[list[int]] = [[] for _ in self.vertices]
        for place, edge in enumerate(self.edges):
            for end in {edge.source, edge.destination}:
                rows[end].append(place)
        return rows


Scope = Mapping[str, Vertex | Edge | None]
"""Singleton variable → its element, or None for a variable of a part that is absent."""


@dataclass(frozen=True)
class Comparison:
    """A comparison of a property with a number or with another property."""

    left: tuple[str, str]
    sign: str
    right: tuple[str, str] | int

    def holds(self, scope: Scope) -> bool | None:
        """Return the comparison's value, or None for NULL."""
        left, right = (
            value if isinstance(value, int) else property_of(scope[value[0]], value[1])
            for value in (self.left, self.right)
        )
        return None if left is None or right is None else COMPARISONS[self.sign](left, right)

    def to_sql(self) -> str:
        """Return the comparison as SQL."""
        right = self.right if isinstance(self.right, int) else ".".join(self.right)
        return f"{'.'.join(self.left)} {self.sign} {right}"


@dataclass(frozen=True)
class Combination:
    """Two conditions combined by AND or OR, or NOT of one."""

    word: Literal["AND", "OR", "NOT"]
    parts: tuple[Condition, ...]

    def holds(self, scope: Scope) -> bool | None:
        """Return the condition's value in three-valued logic."""
        values = [part.holds(scope) for part in self.parts]
        if self.word == "NOT":
            return None if values[0] is None else not values[0]
        decisive = self.word == "OR"
        if decisive in values:
            return decisive
        return None if None in values else not decisive

    def to_sql(self) -> str:
        """Return the condition as SQL."""
        texts = [f"({part.to_sql()})" for part in self.parts]
        return f"NOT {texts[0]}" if self.word == "NOT" else f" {self.word} ".join(texts)


Condition = Comparison | Combination


def property_of(element: Vertex | Edge | None, name: str) -> Any:
    """Return a property, or None where the element is absent or has no such property."""
    return None if element is None else element.values.get(name)


@dataclass(frozen=True)
class Labels:
    """A label expression, and the types that satisfy it."""

    sql: str
    types: frozenset[str]


@dataclass(frozen=True)
class Cost:
    """The cost `variable.w + added`."""

    variable: str
    added: int = 0

    def to_sql(self) -> str:
        """Return the COST clause."""
        return f"COST {self.variable}.w{f' + {self.added}' if self.added else ''}"


@dataclass(frozen=True)
class Filler:
    """The inside of a vertex pattern or an edge pattern."""

    variable: str | None = None
    labels: Labels | None = None
    where: Condition | None = None
    cost: Cost | None = None

    def to_sql(self) -> str:
        """Return the filler as SQL."""
        texts = [
            f"{self.variable or ''}{self.labels.sql if self.labels else ''}".strip(),
            f"WHERE {self.where.to_sql()}" if self.where else "",
            self.cost.to_sql() if self.cost else "",
        ]
        return " ".join(text for text in texts if text)


@dataclass(frozen=True)
class NodePattern:
    """A vertex pattern."""

    filler: Filler = field(default_factory=Filler)

    def to_sql(self) -> str:
        """Return the vertex pattern as SQL."""
        return f"({self.filler.to_sql()})"


@dataclass(frozen=True)
class EdgePattern:
    """An edge pattern in one of the directions."""

    direction: Direction = "right"
    filler: Filler = field(default_factory=Filler)
    short: bool = False
    """Whether an empty pattern is written as an arrow."""

    def to_sql(self) -> str:
        """Return the edge pattern as SQL."""
        text = self.filler.to_sql()
        if self.short and not text:
            return ARROWS[self.direction]
        left, right = BRACKETS[self.direction]
        return f"{left}[{text}]{right}"


@dataclass(frozen=True)
class Group:
    """A path in parentheses."""

    parts: tuple[Part, ...]
    where: Condition | None = None
    cost: Cost | None = None
    """The cost of the path, which has a single edge if this is given."""

    def to_sql(self) -> str:
        """Return the path with its parentheses as SQL."""
        texts = [part.to_sql() for part in self.parts]
        texts += [f"WHERE {self.where.to_sql()}"] if self.where else []
        texts += [self.cost.to_sql()] if self.cost else []
        return f"({' '.join(texts)})"


@dataclass(frozen=True)
class Quantified:
    """An edge or a path in parentheses that is repeated."""

    part: EdgePattern | Group
    quantifier: str
    least: int
    most: int | None
    """The maximum, or None if it is unbounded."""

    def to_sql(self) -> str:
        """Return the part and its quantifier as SQL."""
        return f"{self.part.to_sql()}{self.quantifier}"


Part = NodePattern | EdgePattern | Group | Quantified


@dataclass(frozen=True)
class Selection:
    """The paths that a prefix selects for each pair of first and last vertex."""

    sql: str = ""
    by: Literal["length", "cost", "arrival", "nothing"] | None = None
    """What decides, or None if all paths are selected."""
    count: int = 1
    """The number of paths, or of distinct values if `groups`."""
    groups: bool = False

    @property
    def is_choice(self) -> bool:
        """Whether several selections are possible."""
        return self.by is not None and not self.groups


@dataclass(frozen=True)
class PathPattern:
    """A path pattern with its prefix."""

    parts: tuple[Part, ...]
    name: str | None = None
    selection: Selection = field(default_factory=Selection)
    mode: Mode | None = None
    clock: Literal["", "TIME RESPECTING", "TIME RESPECTING STRICT"] = ""
    within: int | None = None
    """The maximal time between the first and the last timed edge in hours."""

    def to_sql(self) -> str:
        """Return the path pattern as SQL."""
        texts = [
            f"{self.name} =" if self.name else "",
            self.selection.sql,
            self.mode or "",
            self.clock,
            "" if self.within is None else f"WITHIN INTERVAL '{self.within} hours'",
            *(part.to_sql() for part in self.parts),
        ]
        return " ".join(text for text in texts if text)
