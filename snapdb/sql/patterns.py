"""Graph patterns: GRAPH_TABLE (graph MATCH … COLUMNS (…)) inside queries, in the syntax of ISO SQL/PGQ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from snapdb.errors import ParseError, Span
from snapdb.on_first_use import module_on_first_use
from snapdb.sql.lexer import Token, fold, partners, says
from snapdb.sql.pattern_tokens import pattern_fragments
from snapdb.sql.syntax import (
    Leaf,
    Name,
    SqlFragment,
    Tree,
    VersionBound,
    bound,
    first_tree,
    fragment,
    has,
    leaves,
    name,
    once,
    part,
    span_of,
    trees,
)
from snapdb.types import by_word
from snapdb.types.patterns import Mode, Search, Selects

grammars = module_on_first_use("snapdb.sql.grammars")  # only queries with patterns need Lark

Direction: TypeAlias = Literal["right", "left", "any"]
"""The direction in which an edge pattern is traversed: from source to destination, in reverse, or either way."""


@dataclass(frozen=True, slots=True)
class Label:
    """A label expression: a name, % (any label), or an expression over others."""

    kind: Literal["name", "anything", "not", "and", "or"]
    name: Name | None = None
    parts: tuple[Label, ...] = ()

    def holds(self, labels: frozenset[str]) -> bool:
        """Return whether an element with these labels satisfies the expression.

        Args:
            labels: The case-folded names in the expression that denote the element.
        """
        match self.kind:
            case "name":
                assert self.name is not None
                return self.name.text.lower() in labels
            case "not":
                return not self.parts[0].holds(labels)
            case "and":
                return all(each.holds(labels) for each in self.parts)
            case "or":
                return any(each.holds(labels) for each in self.parts)
        return True

    def names(self) -> Iterator[Name]:
        """Yield the labels that the expression mentions."""
        if self.name is not None:
            yield self.name
        for each in self.parts:
            yield from each.names()


@dataclass(frozen=True, slots=True)
class Quantifier:
    """The number of repetitions of an edge or of a path in parentheses."""

    least: int
    most: int | None
    """The maximum, or None if it is unbounded."""
    optional: bool
    """Whether it is written ?, which keeps variables singletons."""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class ElementPattern:
    """A vertex pattern (a IS label WHERE …) or an edge pattern -[e IS label WHERE … COST …]->."""

    variable: Name | None
    label: Label | None
    where: SqlFragment | None
    span: Span = field(compare=False)
    direction: Direction | None = None
    """The direction of an edge, or None for a vertex."""
    cost: SqlFragment | None = None
    quantifier: Quantifier | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A path in parentheses, with its condition, cost and quantifier."""

    parts: tuple[Part, ...]
    where: SqlFragment | None
    cost: SqlFragment | None
    quantifier: Quantifier | None
    span: Span = field(compare=False)


Part: TypeAlias = ElementPattern | Group


@dataclass(frozen=True, slots=True)
class Within:
    """WITHIN INTERVAL '…' or WITHIN integer."""

    value: SqlFragment
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Prefix:
    """The prefix of a path pattern: search, mode and time."""

    search: Search = Search()  # noqa: RUF009  # frozen
    mode: Mode = "WALK"
    times: Literal["any", "ordered", "increasing"] = "any"
    """TIME RESPECTING [STRICT]: whether event times along a path may not decrease, or must increase."""
    within: Within | None = None
    searched: bool = False
    """Whether a search is written, perhaps ALL."""
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A path pattern: [p =] [prefix] (a)-[e]->(b) …"""

    variable: Name | None
    prefix: Prefix
    parts: tuple[Part, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class RowsPer:
    """ONE ROW PER MATCH | VERTEX (v) [IN (p, …)] | STEP (v1, e, v2) [IN (p, …)]."""

    kind: Literal["match", "vertex", "step"] = "match"
    variables: tuple[Name, ...] = ()
    paths: tuple[Name, ...] = ()
    """The path variables after IN, or empty for all path patterns."""


@dataclass(frozen=True, slots=True)
class GraphTable:
    """GRAPH_TABLE (graph [AT …] MATCH path, … [KEEP prefix] [WHERE …] [ONE ROW PER …] COLUMNS (…))."""

    graph: Name
    at: VersionBound | None
    paths: tuple[PathPattern, ...]
    where: SqlFragment | None
    rows: RowsPer
    columns: SqlFragment
    """The text between the parentheses of COLUMNS."""
    span: Span = field(compare=False)
    """The span from GRAPH_TABLE to its closing parenthesis."""


def parse_pattern(tokens: Sequence[Token], source: str) -> GraphTable:
    """Parse a GRAPH_TABLE (…). Spans refer to `source`.

    Args:
        tokens: The tokens from GRAPH_TABLE to its closing parenthesis.
        source: The text to which the tokens' spans refer.

    Raises:
        ParseError: A token is not valid at its position.
    """
    return _parsed(tuple(tokens), source[tokens[0].span.start : tokens[-1].span.stop])


@lru_cache(maxsize=64)  # a statement is parsed for its errors, and again when it is bound
def _parsed(tokens: tuple[Token, ...], text: str) -> GraphTable:
    """Parse the tokens of a GRAPH_TABLE (…), whose text is given."""
    # DuckDB reads ? as a parameter, but outside conditions it is a quantifier.
    inside = tuple(Token("QUESTION", *t[1:]) if t.text == "?" else t for t in tokens[2:-1])  # type: ignore[arg-type]
    if not inside:
        raise ParseError(
            "GRAPH_TABLE needs a graph, a pattern and columns: GRAPH_TABLE (g MATCH (a) COLUMNS (a.id))",
            span=Span(tokens[0].span.start, tokens[-1].span.stop),
            code="unexpected-end",
        )
    source = " " * tokens[0].span.start + text
    folded = tuple(
        replace_kind(token, "PARAMETER") if token.kind == "parameter" else token
        for token in fold(inside, pattern_fragments, source)
    )
    (tree,) = trees(grammars.parse_tokens("patterns", folded, inside))
    return _table(tree, Span(tokens[0].span.start, tokens[-1].span.stop))


def parse_label(tokens: Sequence[Token]) -> tuple[Label, int]:
    """Return the label expression at the start of tokens, after IS LABELED, and the number of its tokens.

    Raises:
        ParseError: The tokens do not start with a label expression.
    """
    label, index = _and_label(tokens, 0)
    parts = [label]
    while index < len(tokens) and tokens[index].text == "|" and not says(tokens, index + 1, "|"):
        label, index = _and_label(tokens, index + 1)
        parts.append(label)
    return (parts[0] if len(parts) == 1 else Label("or", parts=tuple(parts))), index


def _and_label(tokens: Sequence[Token], index: int) -> tuple[Label, int]:
    label, index = _not_label(tokens, index)
    parts = [label]
    while index < len(tokens) and tokens[index].text == "&":
        label, index = _not_label(tokens, index + 1)
        parts.append(label)
    return (parts[0] if len(parts) == 1 else Label("and", parts=tuple(parts))), index


def _not_label(tokens: Sequence[Token], index: int) -> tuple[Label, int]:
    token = tokens[index] if index < len(tokens) else None
    if token is not None and token.text == "!":
        label, index = _not_label(tokens, index + 1)
        return Label("not", parts=(label,)), index
    if token is not None and token.text == "%":
        return Label("anything"), index + 1
    if token is not None and token.text == "(":
        close = partners(tokens)[index]
        label, count = parse_label(tokens[index + 1 : close])
        return label, index + count + 2
    if token is None or token.kind not in ("word", "quoted"):
        span = token.span if token is not None else (tokens[-1].span if tokens else Span(0, 0))
        raise ParseError("expected a label after IS LABELED", span=span, code="unexpected-word")
    return Label("name", Name(token.identifier, token.span)), index + 1


def replace_kind(token: Token, kind: str) -> Token:
    """Return a token with another kind, which the grammar declares as a terminal."""
    return Token(kind, token.text, token.span)  # type: ignore[arg-type]


def _table(tree: Tree, span: Span) -> GraphTable:
    clauses = once(each for each in trees(tree) if each.data in ("keep", "where", "rows"))
    graph, columns = leaves(tree)[0], leaves(tree)[-1]
    at = first_tree(tree, "at")
    paths = tuple(map(_path, trees(tree, "path")))
    if (keep := clauses.get("keep")) is not None:
        paths = _kept(paths, _prefix(trees(keep)[0]), span_of(keep))
    return GraphTable(
        name(graph),
        None if at is None else bound(at),
        paths,
        part(tree, "where"),
        _rows(clauses.get("rows")),
        fragment(columns),
        span,
    )


def _kept(paths: Sequence[PathPattern], kept: Prefix, span: Span) -> tuple[PathPattern, ...]:
    """Return the path patterns with the prefix of KEEP. Modes and time clauses of their own stay.

    Raises:
        ParseError: A path pattern has a search, or another mode or time clause.
    """
    combined = []
    for path in paths:
        own = path.prefix
        if (own.search != Search() or own.searched) or (
            any(one not in (default, other) for one, other, default in _clauses(own, kept) if other != default)
        ):
            raise ParseError(
                "a path pattern has a prefix already, so KEEP cannot give it another one; keep one of them",
                span=own.span or span,
                code="duplicate-clause",
            )
        within = own.within or kept.within
        mode = own.mode if own.mode != "WALK" else kept.mode
        times = own.times if own.times != "any" else kept.times
        combined.append(replace(path, prefix=replace(kept, mode=mode, times=times, within=within)))
    return tuple(combined)


def _clauses(own: Prefix, kept: Prefix) -> list[tuple[object, object, object]]:
    """Return the mode, times and interval of both prefixes, with the value of a prefix without the clause."""
    return [(own.mode, kept.mode, "WALK"), (own.times, kept.times, "any"), (own.within, kept.within, None)]


def _path(tree: Tree) -> PathPattern:
    named = leaves(tree)
    prefix = first_tree(tree, "prefix")
    parts = tuple(_part(each) for each in trees(tree) if each.data != "prefix")
    return PathPattern(
        name(named[0]) if named else None, Prefix() if prefix is None else _prefix(prefix), parts, span_of(tree)
    )


def _part(tree: Tree) -> Part:
    match str(tree.data):
        case "group":
            parts = tuple(_part(each) for each in trees(tree) if each.data in ("vertex", "edge", "group"))
            return Group(parts, part(tree, "where"), _cost(tree), _quantifier(tree), span_of(tree))
        case "vertex":
            vertex = _element(tree)
            if vertex.cost is not None:
                raise ParseError(
                    "COST belongs to an edge or to a path in parentheses; move it there",
                    span=vertex.cost.span,
                    code="misplaced-clause",
                )
            return vertex
    arrow = trees(tree)[0]
    direction: Direction = {"left": "left", "right": "right"}.get(str(arrow.data), "any")  # type: ignore[assignment]
    return replace(_element(arrow), direction=direction, quantifier=_quantifier(tree), span=span_of(tree))


def _element(tree: Tree) -> ElementPattern:
    variable = next((name(leaf) for leaf in leaves(tree) if leaf.type == "NAME"), None)
    label = first_tree(tree, "label")
    return ElementPattern(
        variable,
        None if label is None else _label(label.children[0]),
        part(tree, "where"),
        span_of(tree),
        cost=_cost(tree),
    )


def _cost(tree: Tree) -> SqlFragment | None:
    return part(tree, "cost")


def _label(node: Tree | Leaf) -> Label:
    if isinstance(node, str):  # a leaf
        return Label("name", name(node))
    kind = str(node.data)
    parts = tuple(_label(child) for child in node.children)
    return Label(kind, parts=parts)  # type: ignore[arg-type]


_MOST = 1_000_000
"""The largest bound of a quantifier."""


def _quantifier(tree: Tree) -> Quantifier | None:
    node = first_tree(tree, "quantifier")
    if node is None:
        return None
    span = span_of(node)
    marks = [str(leaf) for leaf in leaves(node)]
    match marks:
        case ["*"]:
            return Quantifier(0, None, optional=False, span=span)
        case ["+"]:
            return Quantifier(1, None, optional=False, span=span)
        case ["?"]:
            return Quantifier(0, 1, optional=True, span=span)
        case [","]:
            least, most = _count(node, "least") or 0, _count(node, "most")
        case [text]:
            least = most = _whole(text, span)
    if most is not None and most < least:
        raise ParseError(
            f"the upper bound {most} is below the lower bound {least}; write {{{most},{least}}}",
            span=span,
            code="bad-number",
        )
    if most == 0:
        raise ParseError("the upper bound must be at least 1; leave the part out instead", span=span, code="bad-number")
    return Quantifier(least, most, optional=False, span=span)


def _count(tree: Tree, rule: str) -> int | None:
    node = first_tree(tree, rule)
    return None if node is None else _whole(str(leaves(node)[0]), span_of(node))


def _whole(text: str, span: Span) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= _MOST):
        raise ParseError(f"a bound must be an integer up to {_MOST:,}, found {text[:40]}", span=span, code="bad-number")
    return int(text)


_SELECTS: dict[str, Selects] = {"SHORTEST": "shortest", "CHEAPEST": "cheapest", "EARLIEST": "earliest"}


def _prefix(tree: Tree) -> Prefix:
    prefix = Prefix(span=span_of(tree))
    if (search := first_tree(tree, "search")) is not None:
        prefix = replace(prefix, search=_search(search, groups=_grouped(tree)), searched=True)
    if (mode := first_tree(tree, "mode")) is not None:
        words = by_word(Mode)
        prefix = replace(prefix, mode=words[leaves(mode)[0].upper()])
        if has(mode, "groups") and prefix.search.kind != "shortest":
            raise ParseError(
                "GROUP belongs to SHORTEST k; write SHORTEST k GROUP", span=span_of(mode), code="misplaced-clause"
            )
    if (time := first_tree(tree, "time")) is not None:
        prefix = replace(prefix, within=_within(time))
        if (respecting := first_tree(time, "respecting")) is not None:
            prefix = replace(prefix, times="increasing" if has(respecting, "strict") else "ordered")
    return prefix


def _grouped(tree: Tree) -> bool:
    mode = first_tree(tree, "mode")
    return mode is not None and has(mode, "groups")


def _search(tree: Tree, *, groups: bool) -> Search:
    words = [leaf.upper() if leaf.type != "NUMBER" else leaf for leaf in leaves(tree)]
    counts = [leaf for leaf in leaves(tree) if leaf.type == "NUMBER"]
    count = _whole(str(counts[0]), span_of(counts[0])) if counts else 1
    if count == 0:
        raise ParseError("the number of paths must be at least 1", span=span_of(counts[0]), code="bad-number")
    grouped = groups or has(tree, "groups")
    match words[0], words[-1]:
        case "ALL", "SHORTEST":
            return Search("shortest", 1, groups=True)
        case "ALL", _:
            return Search()
        case "ANY", ("CHEAPEST" | "EARLIEST") as by:
            return Search(_SELECTS[by], 1)
        case "ANY", _:
            return Search("shortest", count)
    return Search("shortest", count, groups=grouped)


def _within(tree: Tree) -> Within | None:
    node = first_tree(tree, "within")
    if node is None:
        return None
    parts = leaves(node)
    interval = parts[0].type == "STRING" or len(parts) > 1
    span = Span(span_of(parts[0]).start, span_of(parts[-1]).stop)
    text = " ".join(map(str, parts))
    return Within(SqlFragment(f"INTERVAL {text}" if interval else text, span), span_of(node))


def _rows(tree: Tree | None) -> RowsPer:
    if tree is None or not trees(tree):
        return RowsPer()
    (node,) = trees(tree)
    among = first_tree(node, "in")
    return RowsPer(
        "vertex" if node.data == "per_vertex" else "step",
        tuple(map(name, leaves(node))),
        () if among is None else tuple(map(name, leaves(among))),
    )
