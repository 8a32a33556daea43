"""Random GRAPH_TABLE queries over small graphs, which have few rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

from tests.support.matcher import Binding, TooManyMatches, elements_of
from tests.support.path_patterns import (
    COMPARISONS,
    Combination,
    Comparison,
    Condition,
    Cost,
    Direction,
    EdgePattern,
    Filler,
    Graph,
    Group,
    Labels,
    Mode,
    NodePattern,
    Part,
    PathPattern,
    Quantified,
    Selection,
    property_of,
)
from tests.support.pattern_texts import Column, Query

PERSON, COMPANY = frozenset({"person"}), frozenset({"company"})
KNOWS, WORKS = frozenset({"knows"}), frozenset({"works"})
NODE_LABELS = (
    *([None] * 3),
    *([Labels(":person", PERSON)] * 6),
    *(Labels(sql, PERSON) for sql in (" IS human", ":!company", ":thing & !organization", " IS person & human")),
    *(Labels(sql, COMPANY) for sql in (":company", " IS organization")),
    *(Labels(sql, PERSON | COMPANY) for sql in (":thing", ":person|company", ":%")),
)
EDGE_LABELS = (
    *([None] * 2),
    *([Labels(":knows", KNOWS)] * 6),
    *(Labels(sql, KNOWS) for sql in (" IS knows", ":!works")),
    *(Labels(sql, WORKS) for sql in (":works", ":% & !knows")),
    *(Labels(sql, KNOWS | WORKS) for sql in (":knows|works", " IS %")),
)
Quantifier = tuple[str, int, int | None]
BOUNDED: Sequence[Quantifier] = (
    *(("{1}", 1, 1), ("{2}", 2, 2), ("{1,2}", 1, 2), ("{0,2}", 0, 2), ("{1,3}", 1, 3), ("{2,3}", 2, 3)),
    *(("{,2}", 0, 2), ("?", 0, 1), ("?", 0, 1)),
)
UNBOUNDED: Sequence[Quantifier] = (("*", 0, None), ("+", 1, None), ("{1,}", 1, None), ("{2,}", 2, None))
DETERMINED = (
    Selection("ALL SHORTEST", "length", 1, groups=True),
    Selection("SHORTEST GROUP", "length", 1, groups=True),
    Selection("SHORTEST 2 GROUP", "length", 2, groups=True),
    Selection("SHORTEST 3 GROUPS", "length", 3, groups=True),
)
CHOICES = (
    Selection("ANY", "length"),
    Selection("ANY SHORTEST", "length"),
    Selection("ANY 2", "nothing", 2),
    Selection("SHORTEST 1", "length", 1),
    Selection("SHORTEST 2", "length", 2),
    Selection("SHORTEST 3", "length", 3),
    *([Selection("ANY CHEAPEST", "cost")] * 2),
    *([Selection("ANY EARLIEST", "arrival")] * 2),
)
MODES: Sequence[Mode] = ("TRAIL", "ACYCLIC", "SIMPLE")
CLOCKS: Sequence[Literal["TIME RESPECTING", "TIME RESPECTING STRICT"]] = ("TIME RESPECTING", "TIME RESPECTING STRICT")
DIRECTIONS: Sequence[Direction] = ("right", "right", "right", "left", "left", "any", "any", "either")
MOST_ROWS = 150


@dataclass(frozen=True)
class Variable:
    """A variable of a query."""

    name: str
    properties: tuple[str, ...]
    """The properties that identify its element, and those that conditions compare."""
    place: int = 0
    """The number of its path pattern."""
    degree: Literal["single", "optional", "group"] = "single"


@dataclass
class Builder:
    """Builds a random query. Its variables are recorded, so that conditions and columns can use them."""

    random: Random
    plain: bool
    """Whether paths consist of persons who know each other."""
    variables: list[Variable] = field(default_factory=list)
    place: int = 0
    degree: Literal["single", "optional", "group"] = "single"
    inner: list[Variable] = field(default_factory=list)
    """The variables of the path, or of the path in parentheses, that is being built."""

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < share

    def comparison(self, variables: Sequence[Variable]) -> Condition:
        """Return a condition on properties of some of these variables."""
        terms = [(v.name, p) for v in variables for p in v.properties if p in ("v", "w", "since")]
        left, sign = self.random.choice(terms), self.random.choice(list(COMPARISONS))
        others = [term for term in terms if term[0] != left[0]]
        right = self.random.choice(others) if others and self.chance(0.7) else self.random.randint(0, 4)
        found: Condition = Comparison(left, sign, right)
        if self.chance(0.1):
            found = Combination("NOT", (found,))
        if self.chance(0.15):
            found = Combination(self.random.choice(("AND", "OR")), (found, self.comparison(variables)))
        return found

    def declare(self, letter: str, properties: tuple[str, ...]) -> Variable:
        """Record a new variable and return it."""
        new = Variable(f"{letter}{len(self.variables)}", properties, self.place, self.degree)
        self.variables.append(new)
        self.inner.append(new)
        return new

    def beside(self, variable: Variable) -> list[Variable]:
        """Return a variable, and sometimes those before it in its path that its WHERE can refer to."""
        before = [v for v in self.inner if v.place == self.place and v.degree == self.degree and v != variable]
        return [variable, *before] if self.chance(0.4) else [variable]

    def node(self, share: float = 0.8, person: bool = False) -> NodePattern:
        """Return a vertex pattern, which has a variable with probability `share`."""
        known = [v for v in self.variables if v.degree == "single" and "v" in v.properties]
        if self.degree == "single" and known and self.chance(0.3):
            variable = self.random.choice(known)
            labels = None
        else:
            labels = Labels(":person", PERSON) if person else self.random.choice(NODE_LABELS)
            if not self.chance(share):
                return NodePattern(Filler(labels=labels if self.chance(0.5) or person else None))
            types = PERSON | COMPANY if labels is None else labels.types
            keys = {PERSON: ("id",), COMPANY: ("name",)}.get(types, ("id", "name"))
            variable = self.declare("x" if self.degree == "group" else "a", (*keys, "v"))
        where = self.comparison(self.beside(variable)) if self.chance(0.15) else None
        return NodePattern(Filler(variable.name, labels, where))

    def edge(self, share: float = 0.6, priced: bool = False) -> EdgePattern:
        """Return an edge pattern, which has a variable with probability `share`."""
        direction = self.random.choice(DIRECTIONS)
        labels = self.random.choice(EDGE_LABELS)
        if (self.plain or priced) and (labels is None or labels.types != KNOWS):
            labels = Labels(":knows", KNOWS)
        if not self.chance(share) and not priced:
            return EdgePattern(direction, Filler(labels=labels if self.plain or self.chance(0.5) else None), short=True)
        known = [v for v in self.variables if v.degree == "single" and "e_id" in v.properties]
        if self.degree == "single" and known and not priced and self.chance(0.04):
            return EdgePattern(direction, Filler(self.random.choice(known).name))
        types = KNOWS | WORKS if labels is None else labels.types
        properties = {KNOWS: ("w",), WORKS: ("since",)}.get(types, ("w", "since"))
        variable = self.declare("e", ("e_id", *properties))
        where = self.comparison(self.beside(variable)) if self.chance(0.2) else None
        cost = Cost(variable.name, self.random.choice((0, 0, 1))) if priced else None
        return EdgePattern(direction, Filler(variable.name, labels, where, cost))

    def group(self, priced: bool) -> Group:
        """Return a path in parentheses."""
        outer, self.inner = self.inner, []
        parts: list[Part] = []
        for _ in range(1 if priced or self.chance(0.65) else 2):
            parts += [self.node(0.7)] if self.chance(0.7) and not parts else []
            edge = self.edge(0.7, priced)
            parts.append(replace(edge, short=False, filler=replace(edge.filler, cost=None)))
            parts += [self.node(0.7)] if self.chance(0.7) else []
        where = self.comparison(self.inner) if self.inner and self.chance(0.6) else None
        cost = Cost(next(v.name for v in self.inner if "e_id" in v.properties)) if priced else None
        self.inner = outer + self.inner
        return Group(tuple(parts), where, cost)

    def hop(self, quantifiers: Sequence[Quantifier], priced: bool) -> Part:
        """Return an edge pattern or a path in parentheses, with or without a quantifier."""
        kind = self.random.choices(("edge", "edges", "group", "groups"), (10, 6, 1, 5))[0]
        if kind == "edge":
            return self.edge(priced=priced)
        if kind == "group":
            return self.group(priced)
        quantifier, least, most = self.random.choice(quantifiers)
        self.degree, outer, self.inner = "optional" if quantifier == "?" else "group", self.inner, []
        part = self.edge(priced=priced) if kind == "edges" else self.group(priced)
        self.degree, self.inner = "single", outer
        return Quantified(part, quantifier, least, most)

    def path(self, selection: Selection, keep: bool, hops: int) -> PathPattern:
        """Return a path pattern with a mode and times. `keep` leaves its selection out."""
        mode = self.random.choice((*MODES, "WALK")) if self.chance(0.35) else None
        timed = self.chance(0.2)
        clock = self.random.choice(CLOCKS) if timed else ""
        within = self.random.randint(0, 4) if self.chance(0.4) and (timed or selection.by == "arrival") else None
        is_finite = selection.by is not None or mode in MODES
        quantifiers = (*BOUNDED, *UNBOUNDED, *UNBOUNDED) if is_finite else BOUNDED
        parts: list[Part] = [self.node(0.9, self.plain)] if self.plain or self.chance(0.9) else []
        for hop in range(hops):
            parts.append(self.hop(quantifiers, selection.by == "cost" and self.chance(0.6)))
            last = hop == hops - 1
            parts += [self.node(person=self.plain)] if (self.plain and last) or self.chance(0.8) else []
            parts += [self.node()] if self.chance(0.04) and not self.plain else []
        name = f"p{self.place}" if self.plain or self.chance(0.5) else None
        prefix = Selection() if keep else selection
        return PathPattern(tuple(parts), name, prefix, mode, clock, within)

    def columns(self, patterns: Sequence[PathPattern]) -> list[Column]:
        """Return columns that show the variables and paths of a query."""
        columns: list[Column] = []
        for variable in self.variables:
            if variable.degree == "group":
                columns += self._aggregates(variable)
            else:
                columns += [_property_column(variable.name, name) for name in variable.properties]
        for place, pattern in enumerate(patterns):
            if pattern.name:
                columns += path_columns(pattern.name, place, self.plain)
        return columns

    def _aggregates(self, variable: Variable) -> list[Column]:
        """Return aggregates over a group variable."""
        name = self.random.choice([p for p in variable.properties if p in ("v", "w", "since")])
        aggregate = self.random.choice(("sum", "max"))
        return [
            _aggregate_column(variable, None, "count"),
            *([_aggregate_column(variable, name, aggregate)] if self.chance(0.5) else []),
        ]


def _property_column(variable: str, name: str) -> Column:
    """Return a property of a singleton variable."""
    return Column(f"{variable}.{name}", lambda g, b: property_of(elements_of(g, b).get(variable), name))


def path_columns(path: str, place: int, with_elements: bool) -> list[Column]:
    """Return the length of path `path` of pattern `place`, and the keys of its vertices and the ids of its edges.

    The latter need vertices and edges of one type.
    """

    def vertices(graph: Graph, binding: Binding) -> Any:
        return tuple(graph.vertices[i].values["id"] for i in binding[place].vertices)

    def edges(graph: Graph, binding: Binding) -> Any:
        return tuple(graph.edges[i].values["e_id"] for i in binding[place].edges)

    length = Column(f"path_length({path})", lambda _, binding: len(binding[place].edges))
    return [
        length,
        *([Column(f"vertices({path})", vertices), Column(f"edges({path})", edges)] if with_elements else []),
    ]


def _aggregate_column(variable: Variable, name: str | None, function: str) -> Column:
    """Return an aggregate over a group variable, or over one of its properties."""

    def value(graph: Graph, binding: Binding) -> Any:
        found = binding[variable.place]
        elements = [found.element(graph, position) for position in found.group(variable.name)]
        if name is None:
            return len(elements)
        values = [v for v in (property_of(element, name) for element in elements) if v is not None]
        if not values:
            return None
        return sum(values) if function == "sum" else max(values)

    return Column(f"{function}({variable.name}{f'.{name}' if name else ''})", value)


def random_query(random: Random, graph: Graph) -> tuple[Query, list[Binding]]:
    """Return a query that has few rows, and its bindings (see `Query.bindings`)."""
    draw = _choosing if random.random() < 0.35 else _determined
    paths = random.choice((1, 1, 2, 2, 3))
    kept: tuple[Query, list[Binding]] | None = None
    for attempt in range(1000):
        query = draw(random, paths)
        try:
            bindings = query.bindings(graph)
        except TooManyMatches:
            continue
        if len(bindings) <= MOST_ROWS:
            kept = query, bindings
            if bindings or random.random() < 0.1 or attempt > 15:
                return kept
    assert kept is not None
    return kept


def _choosing(random: Random, _: int) -> Query:
    """Return a query of one path pattern whose prefix, or KEEP, leaves a choice."""
    builder = Builder(random, plain=True)
    selection, keeps = random.choice(CHOICES), random.random() < 0.15
    pattern = builder.path(selection, keeps, hops=random.choice((1, 1, 2)))
    return Query((pattern,), tuple(builder.columns([pattern])), selection if keeps else None)


def _determined(random: Random, paths: int) -> Query:
    """Return a query of this many path patterns, whose rows are determined."""
    builder = Builder(random, plain=random.random() < 0.4)
    keep = random.choice(DETERMINED) if random.random() < 0.15 else None
    patterns: list[PathPattern] = []
    for place in range(paths):
        builder.place = place
        selection = random.choice((*DETERMINED, *([Selection()] * 4), Selection("ALL")))
        patterns.append(builder.path(keep or selection, keep is not None, hops=random.choice((1, 1, 1, 2, 3))))
    if not builder.columns(patterns):
        patterns[0] = replace(patterns[0], name="p0")
    visible = [v for v in builder.variables if v.degree != "group"]
    where = builder.comparison(visible) if visible and random.random() < 0.3 else None
    return Query(tuple(patterns), tuple(builder.columns(patterns)), keep, where)
