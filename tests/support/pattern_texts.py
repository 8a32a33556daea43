"""Random small graphs and random GRAPH_TABLE queries over them, with the values of their columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any

from tests.support.matcher import Binding, Matcher, match
from tests.support.path_patterns import Condition, Edge, Graph, PathPattern, Selection, Vertex

SCHEMA = """
CREATE TABLE person (id BIGINT, v INTEGER);
CREATE TABLE company (name VARCHAR, v INTEGER);
CREATE TABLE knows (src BIGINT, dst BIGINT, w INTEGER, t TIMESTAMP);
CREATE TABLE works (person BIGINT, company VARCHAR, since INTEGER);
{rows}
CREATE PROPERTY GRAPH g
  VERTEX TABLES (person KEY (id) LABEL human LABEL thing, company KEY (name) LABEL organization LABEL thing)
  EDGE TABLES (
    knows SOURCE KEY (src) REFERENCES person (id) DESTINATION KEY (dst) REFERENCES person (id)
      EVENT TIME (t) NULLS STATIC,
    works SOURCE KEY (person) REFERENCES person (id) DESTINATION KEY (company) REFERENCES company (name));
CREATE SNAPSHOT s OF g;
"""


def random_graph(random: Random, people: int = 6, edges: int = 12, first: int = 0) -> Graph:
    """Return a graph of at most `people` vertices, of which some are companies, and `edges` edges.

    Args:
        random: The source of randomness.
        people: The maximal number of vertices.
        edges: The maximal number of edges.
        first: The first key. Keys of several graphs must differ where they become one.
    """
    size = random.randint(0, people) if random.random() < 0.2 else random.randint(2, people)
    persons = random.randint(size // 2, size)
    vertices = [
        Vertex("person", {"id": first + i, "v": _small(random)})
        if i < persons
        else Vertex("company", {"name": f"c{first + i}", "v": _small(random)})
        for i in range(size)
    ]
    found: list[Edge] = []
    counts = {"knows": 0, "works": 0}
    for _ in range(random.randint(0, edges) if persons else 0):
        if size > persons and random.random() < 0.25:
            values, time = {"since": random.randint(0, 3)}, None
            ends = random.randrange(persons), random.randrange(persons, size)
            name = "works"
        else:
            values, time = {"w": random.randint(0, 4)}, random.choice([None, *range(7)])
            ends = random.randrange(persons), random.randrange(persons)
            if found and found[-1].type == "knows" and random.random() < 0.2:
                ends = found[-1].source, found[-1].destination
            name = "knows"
        found.append(Edge(name, {**values, "e_id": counts[name]}, *ends, time))
        counts[name] += 1
    return Graph(vertices, found)


def _small(random: Random) -> int | None:
    """Return a small number, or rarely None."""
    return None if random.random() < 0.1 else random.randint(0, 4)


def disjoint(graphs: Sequence[Graph]) -> Graph:
    """Return the graph whose components are the given graphs. Edges get new ids."""
    vertices: list[Vertex] = []
    edges: list[Edge] = []
    ids = {"knows": count(), "works": count()}
    for graph in graphs:
        offset = len(vertices)
        vertices += graph.vertices
        edges += [
            replace(
                edge,
                source=edge.source + offset,
                destination=edge.destination + offset,
                values={**edge.values, "e_id": next(ids[edge.type])},
            )
            for edge in graph.edges
        ]
    return Graph(vertices, edges)


def script(graph: Graph) -> str:
    """Return the statements that create a graph as property graph `g` and snapshot `s`."""
    key = [next(iter(vertex.values.values())) for vertex in graph.vertices]
    rows: dict[str, list[str]] = {"person": [], "company": [], "knows": [], "works": []}
    for vertex in graph.vertices:
        rows[vertex.type].append(_row(*vertex.values.values()))
    for edge in graph.edges:
        ends = key[edge.source], key[edge.destination]
        if edge.type == "works":
            rows["works"].append(_row(*ends, edge.values["since"]))
        else:
            time = None if edge.time is None else f"2026-01-01 {edge.time:02}:00:00"
            rows["knows"].append(_row(*ends, edge.values["w"], time))
    inserts = [f"INSERT INTO {name} VALUES {', '.join(values)};" for name, values in rows.items() if values]
    return SCHEMA.format(rows="\n".join(inserts))


def _row(*values: Any) -> str:
    """Return a row of VALUES."""
    return f"({', '.join('NULL' if value is None else repr(value) for value in values)})"


@dataclass(frozen=True)
class Column:
    """A column of COLUMNS, and its value for a binding."""

    sql: str
    value: Callable[[Graph, Binding], Any]


@dataclass(frozen=True)
class Query:
    """A GRAPH_TABLE with everything between its parentheses."""

    patterns: tuple[PathPattern, ...]
    columns: tuple[Column, ...]
    keep: Selection | None = None
    where: Condition | None = None

    def to_sql(self, graph: str) -> str:
        """Return the query over a snapshot or a property graph."""
        texts = [", ".join(pattern.to_sql() for pattern in self.patterns)]
        texts += [f"KEEP {self.keep.sql}"] if self.keep else []
        texts += [f"WHERE {self.where.to_sql()}"] if self.where else []
        columns = ", ".join(f"{column.sql} AS c{place}" for place, column in enumerate(self.columns))
        return f"SELECT * FROM GRAPH_TABLE ({graph} MATCH {' '.join(texts)} COLUMNS ({columns}))"

    @property
    def effective(self) -> tuple[PathPattern, ...]:
        """The path patterns with the selection of KEEP."""
        if self.keep is None:
            return self.patterns
        return tuple(replace(pattern, selection=self.keep) for pattern in self.patterns)

    @property
    def selection(self) -> Selection:
        """The selection of the first path pattern."""
        return self.effective[0].selection

    def bindings(self, graph: Graph, most_steps: int = 2_500) -> list[Binding]:
        """Return the bindings, or all candidates of a prefix that leaves a choice."""
        if self.selection.is_choice:
            return [(each,) for each in Matcher(graph, self.effective[0], most_steps).matches()]
        return match(graph, self.effective, self.where, most_steps)

    def row(self, graph: Graph, binding: Binding) -> tuple[Any, ...]:
        """Return the row of a binding."""
        return tuple(column.value(graph, binding) for column in self.columns)
