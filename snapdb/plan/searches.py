"""Path searches: which paths of a graph a query reads, as an automaton over vertex tests and edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from snapdb.errors import SnapdbError, Span
from snapdb.plan.queries import BoundQuery
from snapdb.sql_engine import Names
from snapdb.types import Column, Snapshot
from snapdb.types.patterns import Mode, Search

EdgeTraversal: TypeAlias = Literal["right", "left", "both"]
"""From source to destination, in reverse, or each edge in both directions (a self loop once)."""


class SearchStream(Protocol):
    """The rows of an open path search, which DuckDB reads through Arrow's C stream interface."""

    @property
    def error(self) -> BaseException | None:
        """The error that ended the stream, or None."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

    def close(self) -> None:
        """End the stream soon, because the remaining rows are not needed."""


OpenSearch: TypeAlias = "Callable[[PathSearch], AbstractContextManager[SearchStream]]"
"""Opens the rows of a path search."""

ACCEPT = -1
"""The state in which a path ends."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchVertex:
    """A vertex type whose vertices paths can visit."""

    name: str
    """The name of the type in the graph."""
    key: tuple[Column, ...]
    keys: BoundQuery
    """A SELECT of the key columns of all vertices."""
    relation: str
    """The quoted name under which queries read the dense ids: columns k0, k1, …, dense."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchNode:
    """A vertex of the pattern: the types and the conditions that a visited vertex must satisfy."""

    variable: str
    tests: Mapping[str, tuple[BoundQuery, ...]]
    """Case-folded type name → SELECTs of the keys of vertices that satisfy the conditions. A type that is not listed is
    not allowed."""


@dataclass(frozen=True, slots=True, eq=False)
class StepPart:
    """The edges of one type, or the chains of edges, that a step traverses."""

    edges: tuple[str, ...]
    """The names of the edge types, one per edge of the chain."""
    nodes: tuple[str, ...]
    """The case-folded names of the vertex types before, between and after the edges."""
    traversal: EdgeTraversal
    """The direction. A chain with a query has its own directions."""
    query: BoundQuery | None
    """A SELECT of the dense ids node0, node1, …, the e_ids edge0, …, the times time0, … and the cost, or None for all
    edges of a snapshot's topology."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchStep:
    """An edge of the pattern, or a chain of edges whose conditions compare them."""

    variables: tuple[str, ...]
    """The edge variables, one per edge of the chain."""
    nodes: tuple[str, ...]
    """The vertex variables inside of the chain."""
    parts: tuple[StepPart, ...]
    costs: bool
    """Whether the edges have costs other than 1."""
    cost_span: Span | None = None
    """The span of COST."""


@dataclass(frozen=True, slots=True)
class State:
    """A state of the automaton, which traverses an edge."""

    step: int
    """The index of the step."""
    place: int
    """The index of the edge in the step's chain."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A continuation of a path at a vertex."""

    state: int
    """The state whose edge arrived at the vertex, or the number of states for the first vertex."""
    to: int
    """The next state, or ACCEPT."""
    nodes: tuple[int, ...]
    """The indexes of the nodes of the pattern that the vertex is bound to, and whose tests it must satisfy."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """An automaton without empty moves over (state, vertex)."""

    states: tuple[State, ...]
    transitions: tuple[Transition, ...]
    least: int = 0
    """The minimum number of edges, for an automaton with one state."""
    most: int | None = None
    """The maximum number of edges, or None."""


OutputKind: TypeAlias = Literal[
    "match", "length", "node", "edge", "nodes", "edges", "vertices", "path_edges", "elements"
]


@dataclass(frozen=True, slots=True)
class Output:
    """A group of columns of a search's rows."""

    kind: OutputKind
    variable: str = ""
    types: tuple[str, ...] = ()
    """The case-folded names of the types of a variable's elements."""


@dataclass(frozen=True, slots=True, eq=False)
class PathSearch:
    """A path search, whose rows a query reads as a table."""

    name: str
    """The path pattern as text, for EXPLAIN and messages."""
    snapshot: Snapshot | None
    """The snapshot whose topology is searched, or None for tables."""
    vertices: Mapping[str, SearchVertex]
    """The vertex types by case-folded name, in the order in which nodes are numbered."""
    edges: tuple[str, ...]
    """The names of the edge types, in the order in which edges are numbered."""
    nodes: tuple[SearchNode, ...]
    steps: tuple[SearchStep, ...]
    automaton: Automaton
    search: Search
    mode: Mode
    times: Literal["any", "ordered", "increasing"]
    within: int | None
    """The maximum of last minus first event time, in the graph's unit, or None."""
    outputs: tuple[Output, ...]
    equal: tuple[str, ...] = ()
    """The variables that occur several times in the pattern, and must be bound to one element."""
    distinct: bool = False
    """Whether several runs of the automaton can give the same match."""
    columns: tuple[Column, ...] = ()
    """The columns of the rows."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The number of rows of each element's table, by case-folded name."""

    @property
    def ends_only(self) -> bool:
        """Whether rows contain only ends and lengths, so that paths do not have to be reconstructed."""
        ends = {self.nodes[0].variable, self.nodes[-1].variable}
        plain = all(o.kind in ("match", "length") or (o.kind == "node" and o.variable in ends) for o in self.outputs)
        return plain and not self.equal


@contextmanager
def opened_searches(names: Names, open_search: OpenSearch) -> Iterator[Mapping[str, SearchStream]]:
    """Open the path searches among the sources of a query. Their errors replace those of the query."""
    searches = {name: each for name, each in names.sources.items() if isinstance(each, PathSearch)}
    with ExitStack() as stack:
        opened = {name: stack.enter_context(open_search(each)) for name, each in searches.items()}
        try:
            yield opened
        except SnapdbError as error:
            # DuckDB reports only the text of an error in a stream that it reads.
            causes = [rows.error for rows in opened.values() if rows.error is not None]
            if causes and error.code != "interrupted":
                raise causes[0] from error
            raise
