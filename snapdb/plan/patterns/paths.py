"""Bound path patterns: alternating vertices and edges, repeated parts, and each condition at the part it restricts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from snapdb.errors import BindError, Span
from snapdb.plan.patterns.graphs import ElementType, Kind, PatternGraph
from snapdb.plan.patterns.references import Condition, conjuncts
from snapdb.sql.patterns import Direction, ElementPattern, GraphTable, Group, Part, PathPattern, Prefix, Quantifier
from snapdb.sql.syntax import Name, SqlFragment

Depth: TypeAlias = Literal["singleton", "optional", "group"]
"""How many elements a match binds to a variable: one, at most one, or a list."""


@dataclass(slots=True)
class Variable:
    """An element variable of a GRAPH_TABLE."""

    name: str
    kind: Kind
    depth: Depth
    types: tuple[str, ...]
    """The case-folded names of the types that satisfy the labels of all its declarations, and fit the edges."""
    named: bool = True
    labelled: tuple[str, ...] = ()
    """The types that satisfy the labels, whose properties expressions can refer to."""


@dataclass(frozen=True, slots=True)
class Node:
    """A vertex of a path pattern."""

    variable: str
    """The case-folded name. Anonymous elements have names that start with a space."""
    conditions: tuple[Condition, ...] = ()
    types: tuple[str, ...] = ()
    """The types that satisfy the labels of this vertex, without those of other patterns with the same variable."""


@dataclass(frozen=True, slots=True)
class Step:
    """An edge of a path pattern."""

    variable: str
    direction: Direction
    conditions: tuple[Condition, ...] = ()
    cost: SqlFragment | None = None
    types: tuple[str, ...] = ()
    """The types that satisfy the labels of this edge."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part of a path pattern that is repeated. Its items start and end with a node."""

    items: tuple[Node | Step, ...]
    least: int
    most: int | None
    optional: bool
    conditions: tuple[Condition, ...]
    """The conditions over several of its elements."""
    cost: SqlFragment | None
    span: Span

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(item for item in self.items if isinstance(item, Step))


Item: TypeAlias = Node | Step | Repeat


@dataclass(frozen=True, slots=True)
class BoundPath:
    """A path pattern. Its items start and end with a node, and a node stands between any two other items."""

    variable: Name | None
    prefix: Prefix
    items: tuple[Item, ...]
    conditions: tuple[Condition, ...]
    """The conditions over several elements, which apply before paths are selected."""
    span: Span

    @property
    def first(self) -> Node:
        item = self.items[0]
        assert isinstance(item, Node)
        return item

    @property
    def last(self) -> Node:
        item = self.items[-1]
        assert isinstance(item, Node)
        return item

    @property
    def only_step(self) -> str | None:
        """The variable of the only edge of the pattern, of which a path has as many as its length, or None."""
        steps = [item.variable for item in self.flat if isinstance(item, Step)]
        return steps[0] if len(steps) == 1 else None

    @property
    def selects(self) -> bool:
        """Whether paths are selected per pair of ends, so that conditions on other elements must not come before."""
        return self.prefix.search.kind != "all"

    def is_end(self, variable: str) -> bool:
        """Return whether a variable is only bound to the first or the last vertex."""
        inner = {item.variable for item in self.items[1:-1] if not isinstance(item, Repeat)}
        return variable in {self.first.variable, self.last.variable} - inner

    @property
    def joined(self) -> bool:
        """Whether joins can evaluate the pattern, because no part repeats and no paths are selected."""
        plain = self.prefix.search.kind == "all" and self.prefix.times == "any" and self.prefix.within is None
        return plain and not any(isinstance(item, Repeat) for item in self.items)

    @property
    def flat(self) -> tuple[Node | Step, ...]:
        """The items, with those inside repeated parts."""
        return tuple(inner for item in self.items for inner in (item.items if isinstance(item, Repeat) else (item,)))


@dataclass(slots=True)
class Patterns:
    """The path patterns of a GRAPH_TABLE and their variables."""

    graph: PatternGraph
    names: frozenset[str]
    """The case-folded names of all element variables."""
    variables: dict[str, Variable] = field(default_factory=dict)
    """Variables by case-folded name, including anonymous ones."""
    paths: list[BoundPath] = field(default_factory=list)
    has_ctes: bool = False
    """Whether the query has common table expressions, which the queries of searches cannot read."""

    def variable(self, name: str) -> Variable:
        return self.variables[name]

    def labelled_types(self, variable: Variable) -> dict[str, ElementType]:
        """Return the types that satisfy a variable's labels, whether or not they fit the edges beside it."""
        known = self.graph.of_kind(variable.kind)
        # If no type satisfies the labels, the pattern has no matches, and any property is NULL.
        return {name: known[name] for name in variable.labelled or variable.types or known}

    def path_names(self) -> set[str]:
        """Return the case-folded names of the path variables."""
        return {path.variable.text.lower() for path in self.paths if path.variable is not None}

    def anonymous(self, kind: Kind, depth: Depth) -> str:
        """Declare an anonymous element, and return its name."""
        name = f" {kind[0]}{len(self.variables)}"
        self.variables[name] = Variable(name, kind, depth, tuple(self.graph.of_kind(kind)), named=False)
        return name


def bind_paths(graph: PatternGraph, table: GraphTable) -> Patterns:
    """Bind the path patterns of a GRAPH_TABLE.

    Raises:
        BindError: A label or variable does not exist, a variable has two meanings, quantifiers are nested, or an
            unbounded quantifier has neither a mode nor a search that ends.
    """
    patterns = Patterns(graph, frozenset(_declared(part for path in table.paths for part in path.parts)))
    for path in table.paths:
        _check_bounds(path)
        patterns.paths.append(_Binder(patterns).path(path))
    named = [path.variable for path in table.paths if path.variable is not None]
    for position, name in enumerate(named):
        taken = {other.text.lower() for other in named[:position]} | patterns.variables.keys()
        if name.text.lower() in taken:
            raise BindError(f'variable "{name}" is declared twice; rename one', span=name.span, code="pattern-variable")
    return patterns


def _declared(parts: Iterable[Part]) -> Iterator[str]:
    """Yield the case-folded names of the element variables that patterns declare."""
    for part in parts:
        if isinstance(part, Group):
            yield from _declared(part.parts)
        elif part.variable is not None:
            yield part.variable.text.lower()


def _check_bounds(path: PathPattern) -> None:
    """Raise BindError if the pattern can have infinitely many matches."""
    if path.prefix.search.kind != "all" or path.prefix.mode != "WALK":
        return
    for quantifier in _quantifiers(path.parts):
        if quantifier.most is None:
            raise BindError(
                "a quantifier without an upper bound has infinitely many walks in a graph with cycles; write a bound "
                "such as {1,5}, a search such as ANY SHORTEST before the pattern, or a mode: TRAIL, ACYCLIC or SIMPLE",
                span=quantifier.span,
                code="unbounded-path",
            )


def _quantifiers(parts: Iterable[Part]) -> Iterator[Quantifier]:
    for part in parts:
        if part.quantifier is not None:
            yield part.quantifier
        if isinstance(part, Group):
            yield from _quantifiers(part.parts)


@dataclass(slots=True)
class _Binder:
    """Binds one path pattern."""

    patterns: Patterns
    conditions: list[Condition] = field(default_factory=list)
    """The conditions over several elements of the path pattern."""

    def path(self, path: PathPattern) -> BoundPath:
        items = self._alternating(self._items(path.parts), "singleton")
        where, own = list[Condition](), dict[str, list[Condition]]()
        known = {item.variable for item in items if not isinstance(item, Repeat)}
        for condition in self.conditions:
            name = next(iter(condition.variables), "")
            if len(condition.variables) == 1 and name in known:
                own.setdefault(name, []).append(condition)
            else:
                where.append(condition)
        items = [_with(item, own) for item in items]
        return BoundPath(path.variable, path.prefix, tuple(items), tuple(where), path.span)

    def _items(self, parts: Sequence[Part]) -> list[Item]:
        items: list[Item] = []
        for part in parts:
            if isinstance(part, Group):
                items += self._group(part)
            elif part.direction is None:
                items.append(self._node(part, "singleton"))
            elif part.quantifier is None:
                items.append(self._step(part, "singleton", self.conditions))
            else:
                items.append(self._repeat((part,), part.quantifier, None, None, part.span))
        return items

    def _group(self, group: Group) -> list[Item]:
        if group.quantifier is not None:
            return [self._repeat(group.parts, group.quantifier, group.where, group.cost, group.span)]
        items = self._items(group.parts)
        if group.where is not None:
            self.conditions += conjuncts(group.where, self.patterns.names)
        if group.cost is not None:
            steps = [item for item in items if isinstance(item, Step)]
            if len(steps) != 1 or any(isinstance(item, Repeat) for item in items):
                raise BindError(
                    "COST needs an edge or a quantified path; write it in the edge, -[e COST e.w]->",
                    span=group.cost.span,
                    code="pattern-condition",
                )
            items = [replace(item, cost=group.cost) if isinstance(item, Step) else item for item in items]
        return items

    def _repeat(
        self,
        parts: Sequence[Part],
        quantifier: Quantifier,
        where: SqlFragment | None,
        cost: SqlFragment | None,
        span: Span,
    ) -> Repeat:
        depth: Depth = "optional" if quantifier.optional else "group"
        items, conditions = list[Item](), list[Condition]()
        for part in _opened(parts, quantifier):
            if part.direction is None:
                items.append(self._node(part, depth, conditions))
            else:
                items.append(self._step(part, depth, conditions))
        if not any(isinstance(item, Step) for item in items):
            raise BindError("a quantified path needs at least one edge; add one", span=span, code="pattern-shape")
        items = self._alternating(items, depth)
        inside = {item.variable for item in _flat(items)}
        if where is not None:
            conditions += conjuncts(where, self.patterns.names)
        across, own = list[Condition](), dict[str, list[Condition]]()
        for condition in conditions:
            if outside := sorted(condition.variables - inside):
                raise BindError(
                    f"{outside[0]} is declared outside of the quantified path, whose condition can only refer to its "
                    "own elements; move the condition to WHERE after the patterns",
                    span=condition.span_of(outside[0]),
                    code="pattern-condition",
                )
            if len(condition.variables) <= 1:
                name = next(iter(condition.variables), items[0].variable if isinstance(items[0], Node) else "")
                own.setdefault(name, []).append(condition)
            else:
                across.append(condition)
        flat = tuple(item for item in (_with(item, own) for item in items) if not isinstance(item, Repeat))
        return Repeat(flat, quantifier.least, quantifier.most, quantifier.optional, tuple(across), cost, span)

    def _node(self, part: ElementPattern, depth: Depth, conditions: list[Condition] | None = None) -> Node:
        name = self._declare(part, "vertex", depth)
        own = self._own(part, name, self.conditions if conditions is None else conditions)
        return Node(name, own, self.patterns.graph.labelled("vertex", part.label))

    def _step(self, part: ElementPattern, depth: Depth, conditions: list[Condition]) -> Step:
        name = self._declare(part, "edge", depth)
        assert part.direction is not None
        types = self.patterns.graph.labelled("edge", part.label)
        return Step(name, part.direction, self._own(part, name, conditions), part.cost, types)

    def _own(self, part: ElementPattern, name: str, conditions: list[Condition]) -> tuple[Condition, ...]:
        """Return the conditions over the element alone. Those over other elements too are added to `conditions`."""
        if part.where is None:
            return ()
        own = []
        for condition in conjuncts(part.where, self.patterns.names):
            if condition.variables <= {name}:
                own.append(condition)
            else:
                conditions.append(condition)
        return tuple(own)

    def _declare(self, part: ElementPattern, kind: Kind, depth: Depth) -> str:
        """Declare the variable of an element, or restrict its types if it is declared already. Returns its name."""
        types = self.patterns.graph.labelled(kind, part.label)
        variables = self.patterns.variables
        if part.variable is None:
            name = self.patterns.anonymous(kind, depth)
            variables[name].types = types
            return name
        name = part.variable.text.lower()
        known = variables.get(name)
        if known is None:
            variables[name] = Variable(part.variable.text, kind, depth, types)
            return name
        if known.kind != kind or known.depth != "singleton" or depth != "singleton":
            what = "as a vertex and an edge" if known.kind != kind else "inside a quantified path and elsewhere"
            raise BindError(
                f'variable "{part.variable}" is declared {what}; rename one',
                span=part.variable.span,
                code="pattern-variable",
            )
        known.types = tuple(each for each in known.types if each in types)
        return name

    def _alternating(self, items: Sequence[Item], depth: Depth) -> list[Item]:
        """Return the items with anonymous vertices where edges have none beside them."""
        found: list[Item] = []
        for item in items:
            if not isinstance(item, Node) and (not found or not isinstance(found[-1], Node)):
                found.append(Node(self.patterns.anonymous("vertex", depth), (), tuple(self.patterns.graph.vertices)))
            found.append(item)
        if not found or not isinstance(found[-1], Node):
            found.append(Node(self.patterns.anonymous("vertex", depth), (), tuple(self.patterns.graph.vertices)))
        return found


def _opened(parts: Sequence[Part], outer: Quantifier) -> Iterator[ElementPattern]:
    """Yield the elements of a quantified path. Raises BindError if a part of it is quantified too."""
    for part in parts:
        inner = part.quantifier
        if inner is not None and inner is not outer:
            raise BindError(
                "a quantified path must not contain another quantifier (ISO/IEC 9075-16); repeat its edges instead",
                span=inner.span,
                code="nested-quantifier",
            )
        if isinstance(part, Group):
            if part.where is not None or part.cost is not None:
                clause = part.where or part.cost
                assert clause is not None
                raise BindError(
                    "WHERE and COST belong to the quantified path; move them to its end",
                    span=clause.span,
                    code="pattern-shape",
                )
            yield from _opened(part.parts, outer)
        else:
            yield part


def _flat(items: Iterable[Item]) -> Iterator[Node | Step]:
    for item in items:
        if isinstance(item, Repeat):
            yield from item.items
        else:
            yield item


def _with(item: Item, own: dict[str, list[Condition]]) -> Item:
    """Return an item with more conditions of its own."""
    if isinstance(item, Repeat):
        return item
    return replace(item, conditions=(*item.conditions, *own.get(item.variable, ())))
