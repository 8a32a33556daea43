"""ONE ROW PER VERTEX and ONE ROW PER STEP: the rows of matches, unnested along their paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from snapdb.errors import BindError
from snapdb.plan.patterns.access import Access, coalesced, identity_columns, key_fields
from snapdb.plan.patterns.graphs import ElementType, Kind
from snapdb.plan.patterns.paths import BoundPath, Node, Patterns, Step, Variable
from snapdb.sql.patterns import RowsPer
from snapdb.sql.syntax import Name
from snapdb.sql_engine import quote, text_literal
from snapdb.types.text import did_you_mean

STEP = "step"
"""The alias of the unnested rows."""


@dataclass(slots=True)
class PerElement:
    """ONE ROW PER VERTEX (v) or STEP (v1, e, v2), bound to path patterns."""

    per_step: bool
    names: tuple[str, ...]
    """The case-folded variables of the clause."""
    paths: list[BoundPath]
    vertices: tuple[str, ...]
    """The types that the vertices can have."""
    edges: tuple[str, ...]

    @property
    def numbers(self) -> dict[str, str]:
        """ELEMENT_NUMBER of each variable: the first vertex is 1, the edge after it is 2."""
        place = f"{quote(STEP)}.place"
        # On a path without edges, the step has only its first vertex.
        exists = f"CASE WHEN {quote(STEP)}.element1 IS NOT NULL THEN"
        numbers = (f"(2 * {place} - 1)", f"({exists} 2 * {place} END)", f"({exists} 2 * {place} + 1 END)")
        return dict(zip(self.names, numbers, strict=False))

    def lateral(self, matches: str) -> str:
        """Return a lateral subquery of the vertices or steps of the lists of each path of the matches."""
        parts = []
        for number in range(len(self.paths)):
            vertices, edges = (f"{matches}.{quote(f'{kind} {number}')}" for kind in ("vertices", "edges"))
            if not self.per_step:
                parts.append(f"SELECT unnest({vertices}) AS element0, generate_subscripts({vertices}, 1) AS place")
                continue
            # A path without edges has one step, of which only the first vertex exists.
            places = f"SELECT unnest(range(1, greatest(len({edges}), 1) + 1)) AS place"
            columns = f"{vertices}[place] AS element0, {edges}[place] AS element1, {vertices}[place + 1] AS element2"
            parts.append(f"SELECT {columns}, place FROM ({places})")
        return f"LATERAL ({' UNION ALL '.join(parts)}) AS {quote(STEP)}"

    def accesses(self, patterns: Patterns) -> dict[str, Access]:
        """Return the accesses to the variables of the clause."""
        found = {}
        for number, name in enumerate(self.names):
            kind: Kind = "edge" if number == 1 else "vertex"
            types = self.edges if kind == "edge" else self.vertices
            elements = {each: patterns.graph.of_kind(kind)[each] for each in types}
            found[name] = _access(kind, elements, f"{quote(STEP)}.element{number}", name)
        return found

    def joins(self, patterns: Patterns, needed: Mapping[str, Sequence[str]]) -> str:
        """Return the joins with the views whose columns are read."""
        joins = ""
        for name, access in self.accesses(patterns).items():
            for own, element in access.types.items():
                keys = {c.name.lower() for c in identity_columns(element)}
                if any(element.column(c) is not None and c not in keys for c in needed.get(name, ())):
                    alias = quote(f"{name} {own} view")
                    pairs = zip(identity_columns(element), access.keys[own], strict=True)
                    on = " AND ".join(f"{alias}.{quote(c.name)} = {value}" for c, value in pairs)
                    if not access.single:
                        on += f" AND {access.tag} = {text_literal(own)}"
                    joins += f" LEFT JOIN {element.relation} AS {alias} ON ({on})"
        return joins


def _access(kind: Kind, elements: Mapping[str, ElementType], value: str, name: str) -> Access:
    """Return the access to an element whose identity is a value of a list."""
    single = len(elements) == 1
    keys: dict[str, tuple[str, ...]] = {}
    for own, element in elements.items():
        columns = identity_columns(element)
        if single and len(columns) == 1:
            keys[own] = (value,)
        else:
            types = {f.name.lower(): f.type for f in key_fields(elements)}
            keys[own] = tuple(
                f"CAST({value}.{quote(c.name)} AS {c.type})"
                if types[c.name.lower()] != c.type
                else f"{value}.{quote(c.name)}"
                for c in columns
            )
    tag = f"lower({value}.type)"
    if single:
        tag = f"CASE WHEN {value} IS NOT NULL THEN {text_literal(next(iter(elements)))} END"

    def column(wanted: str) -> str:
        values = list[tuple[str, str]]()
        for own, element in elements.items():
            found = element.column(wanted)
            own_keys = [c.name.lower() for c in identity_columns(element)]
            if found is not None and wanted.lower() in own_keys:
                values.append((keys[own][own_keys.index(wanted.lower())], found.type))
            elif found is not None:
                values.append((f"{quote(f'{name} {own} view')}.{quote(found.name)}", found.type))
        return coalesced(values)

    return Access(kind, elements, tag, keys, column)


def exposed_access(access: Access, exposed: Callable[[str], str]) -> Access:
    """Return an access through columns of a subquery.

    Args:
        access: The access inside of the subquery.
        exposed: Adds a column to the subquery, and returns its name outside.
    """
    constant = access.single and access.tag.startswith("'")
    return Access(
        access.kind,
        access.types,
        access.tag if constant else exposed(access.tag),
        {name: tuple(map(exposed, key)) for name, key in access.keys.items()},
        lambda column: exposed(access.column(column)),
    )


def bind_rows(patterns: Patterns, rows: RowsPer) -> PerElement | None:
    """Declare the variables of ONE ROW PER, and return the clause, or None for ONE ROW PER MATCH.

    Raises:
        BindError: A path variable does not exist, or a variable is declared already.
    """
    if rows.kind == "match":
        return None
    paths = [_path(patterns, name) for name in rows.paths] or patterns.paths
    vertices, edges = (_types(patterns, paths, kind) for kind in (Node, Step))
    for number, name in enumerate(rows.variables):
        folded = name.text.lower()
        if folded in patterns.variables or any(
            p.variable and p.variable.text.lower() == folded for p in patterns.paths
        ):
            raise BindError(f'variable "{name}" is declared twice; rename one', span=name.span, code="pattern-variable")
        kind: Kind = "edge" if number == 1 else "vertex"
        patterns.variables[folded] = Variable(name.text, kind, "singleton", edges if kind == "edge" else vertices)
    names = tuple(name.text.lower() for name in rows.variables)
    return PerElement(rows.kind == "step", names, list(paths), vertices, edges)


def _path(patterns: Patterns, name: Name) -> BoundPath:
    named = {p.variable.text.lower(): p for p in patterns.paths if p.variable is not None}
    path = named.get(name.text.lower())
    if path is None:
        hint = did_you_mean(name.text, list(named)) or "; name a path pattern, as in MATCH p = (a)-[e]->(b)"
        raise BindError(f'path variable "{name}" does not exist{hint}', span=name.span, code="unknown-variable")
    return path


def _types(patterns: Patterns, paths: Sequence[BoundPath], kind: type) -> tuple[str, ...]:
    found = {name for path in paths for name in path_types(patterns, path, kind)}
    return tuple(name for name in patterns.graph.of_kind("vertex" if kind is Node else "edge") if name in found)


def path_types(patterns: Patterns, path: BoundPath, kind: type) -> tuple[str, ...]:
    """Return the types that the vertices (`Node`) or edges (`Step`) of a path can have, in graph order."""
    graph = patterns.graph
    edges = {t for item in path.flat if isinstance(item, Step) for t in patterns.variable(item.variable).types}
    if kind is Step:
        return tuple(name for name in graph.edges if name in edges)
    ends = {graph.edges[name].element.source.lower() for name in edges}
    ends |= {graph.edges[name].element.destination.lower() for name in edges}
    nodes = [item for item in path.flat if isinstance(item, Node)]
    loose = any(set(patterns.variable(node.variable).types) - ends for node in (nodes[0], nodes[-1]))
    allowed = {t for node in nodes for t in patterns.variable(node.variable).types}
    reach = (ends & allowed) | (allowed if loose else set())
    return tuple(name for name in graph.vertices if name in reach)
