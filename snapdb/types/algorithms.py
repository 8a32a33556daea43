"""Graph algorithms and their options, from which errors, completion and the documentation are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

OptionKind: TypeAlias = Literal["number", "integer", "boolean", "names", "column", "direction", "nodes", "pairs"]
"""The type of an option's value: a number, integer or boolean, a name or list of names, the name of a column, 'out',
'in' or 'both', or a SELECT of keys."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of an algorithm, written as `name => value`."""

    name: str
    kind: OptionKind
    meaning: str
    """One sentence without a full stop."""
    default: float | int | bool | str | None = None
    """The value if the option is left out, or None if there is none."""
    low: float | None = None
    """The least value, or None."""
    high: float | None = None
    """The largest value, or None."""
    above: bool = False
    """Whether the value must be greater than `low`."""
    required: bool = False

    @property
    def type(self) -> str:
        """The type of the value, as the documentation shows it."""
        return _TYPES[self.kind]

    @property
    def range(self) -> str:
        """The values that are allowed, or '' if all are.

        >>> Option("damping", "number", "", 0.85, 0, 1).range, Option("samples", "integer", "", low=1).range
        ('from 0 to 1', 'at least 1')
        """
        if self.kind == "direction":
            return "'out', 'in' or 'both'"
        if self.low is None:
            return ""
        if self.high is not None:
            return f"from {self.low:g} to {self.high:g}"
        return f"greater than {self.low:g}" if self.above else f"at least {self.low:g}"


_TYPES: Final[dict[OptionKind, str]] = {
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "names": "a name, or a list of names",
    "column": "the name of a column",
    "direction": "'out', 'in' or 'both'",
    "nodes": "a SELECT of keys in parentheses",
    "pairs": "a SELECT of pairs of keys in parentheses",
}


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm, which queries call as a table function."""

    name: str
    """The name of the function and of the column with its values."""
    meaning: str
    """One sentence without a full stop."""
    type: Literal["BIGINT", "DOUBLE"]
    """The type of the values. The degree is a DOUBLE if it has weights."""
    own: tuple[Option, ...] = ()
    """Its options, without `edges`."""

    @property
    def options(self) -> tuple[Option, ...]:
        """All options, in the order of the documentation."""
        return (_EDGES, *self.own)

    def option(self, name: str) -> Option | None:
        """Return the option with this name, ignoring case, or None."""
        return next((option for option in self.options if option.name == name.lower()), None)

    @property
    def pairs(self) -> bool:
        """Whether values belong to pairs of vertices."""
        return self.option("pairs") is not None

    def synopsis(self, width: int = 80) -> str:
        """Return the call with its options, in lines of at most `width` characters. Brackets enclose what is optional.

        >>> print(algorithm("hops").synopsis(60))
        hops('snapshot', seeds => (SELECT …) [, edges => …]
            [, direction => 'out'] [, max_hops => …])
        """
        needed = ["'snapshot'", *(f"{o.name} => (SELECT …)" for o in self.options if o.required)]
        free = [f" [, {o.name} => {_shown(o)}]" for o in self.options if not o.required]
        lines = [f"{self.name}({', '.join(needed)}"]
        for index, part in enumerate(free, 1):
            closed = f"{part})" if index == len(free) else part
            if len(lines[-1] + closed) > width:
                lines.append(f"   {closed}")
            else:
                lines[-1] += closed
        return "\n".join(lines)


def _shown(option: Option) -> str:
    if option.kind in ("nodes", "pairs"):
        return "(SELECT …)"
    return "…" if option.default is None else default_text(option)


def default_text(option: Option) -> str:
    """Return an option's default as SQL, or '' without one.

    >>> default_text(Option("direction", "direction", "", "out")), default_text(Option("max_hops", "integer", ""))
    ("'out'", '')
    """
    value = option.default
    if isinstance(value, str):
        return f"'{value}'"
    return "" if value is None else str(value).lower().replace("e-0", "e-")


_EDGES = Option("edges", "names", "The edge types; all of the snapshot by default")
_DIRECTION = Option("direction", "direction", "The direction in which edges are followed", "out")
_WEIGHT = Option("weight", "column", "A column of the edge tables; values are at least 0")
_REPEATABLE = Option("repeatable", "integer", "The seed of the random order", 0, low=0)
_SAMPLES = Option("samples", "integer", "The number of random sources; all vertices by default", low=1)
_SOURCES = Option("seeds", "nodes", "The sources, instead of samples")
_ITERATIONS = Option("max_iterations", "integer", "The maximum number of iterations", 100, low=1)
_COMMUNITIES = (_WEIGHT, Option("resolution", "number", "Larger values give smaller communities", 1.0, 0, above=True))
_PAIRS = (Option("pairs", "pairs", "Pairs of vertices: the key of one, then that of the other", required=True),)

ALGORITHMS: Final[tuple[Algorithm, ...]] = (
    Algorithm(
        "degree", "The number of edges of a vertex, or the sum of their weights", "BIGINT", (_DIRECTION, _WEIGHT)
    ),
    Algorithm(
        "pagerank",
        "The probability that a random surfer is at a vertex",
        "DOUBLE",
        (
            _DIRECTION,
            _WEIGHT,
            Option("damping", "number", "The probability of following an edge instead of jumping", 0.85, 0, 1),
            Option("tolerance", "number", "The mean change per vertex at which it stops, 0 for never", 1e-6, 0),
            _ITERATIONS,
            Option("seeds", "nodes", "The vertices to which it jumps, with an optional column of weights"),
        ),
    ),
    Algorithm(
        "weakly_connected_components",
        "The number of the component of vertices that are connected by edges of either direction",
        "BIGINT",
    ),
    Algorithm(
        "strongly_connected_components",
        "The number of the component of vertices that reach each other along directed edges",
        "BIGINT",
    ),
    Algorithm("core_number", "The largest k of a subgraph with a vertex in which all degrees are at least k", "BIGINT"),
    Algorithm("triangle_count", "The number of triangles with a vertex", "BIGINT"),
    Algorithm(
        "local_clustering_coefficient", "The share of pairs of a vertex's neighbours that are neighbours", "DOUBLE"
    ),
    Algorithm(
        "hops",
        "The number of edges of a shortest path from the nearest seed, NULL if there is none",
        "BIGINT",
        (
            Option("seeds", "nodes", "The vertices at which paths start", required=True),
            _DIRECTION,
            Option("max_hops", "integer", "The maximum number of edges", low=0),
        ),
    ),
    Algorithm(
        "label_propagation",
        "The number of the community that most neighbours have",
        "BIGINT",
        (_WEIGHT, _REPEATABLE, _ITERATIONS),
    ),
    Algorithm(
        "louvain",
        "The number of the community in a partition with high modularity",
        "BIGINT",
        (*_COMMUNITIES, _REPEATABLE),
    ),
    Algorithm(
        "leiden",
        "The number of the community in a partition with high modularity and connected communities",
        "BIGINT",
        (*_COMMUNITIES, _REPEATABLE),
    ),
    Algorithm(
        "closeness",
        "The inverse of the mean distance of a vertex from the vertices that reach it",
        "DOUBLE",
        (_DIRECTION, _SAMPLES, _REPEATABLE, _SOURCES),
    ),
    Algorithm(
        "betweenness",
        "The share of shortest paths between other vertices on which a vertex is",
        "DOUBLE",
        (
            _DIRECTION,
            _SAMPLES,
            _REPEATABLE,
            _SOURCES,
            Option("normalized", "boolean", "Whether to divide by the number of pairs", True),
        ),
    ),
    Algorithm("common_neighbours", "The number of neighbours that two vertices share", "BIGINT", _PAIRS),
    Algorithm("adamic_adar", "The sum of 1 / ln(degree) over the neighbours that two vertices share", "DOUBLE", _PAIRS),
)
"""All algorithms, in the order of the documentation."""

ALGORITHM_NAMES: Final = frozenset(each.name for each in ALGORITHMS)


def algorithm(name: str) -> Algorithm:
    """Return the algorithm with this name, ignoring case."""
    return next(each for each in ALGORITHMS if each.name == name.lower())
