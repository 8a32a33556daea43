"""How SQL refers to the elements that a match binds: their types, keys and columns, and expressions over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from snapdb.plan.patterns.graphs import ElementType, Kind, VertexType
from snapdb.sql_engine import quote, text_literal
from snapdb.types import Column, EdgeElement


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """The SQL expressions of one element variable."""

    kind: Kind
    types: Mapping[str, ElementType]
    """The types that the element can have, by case-folded name."""
    tag: str
    """The case-folded name of the element's type, NULL if a match binds no element."""
    keys: Mapping[str, tuple[str, ...]]
    """Case-folded type name → the key of a vertex, or the e_id of an edge, if the element has that type."""
    column: Callable[[str], str]
    """Returns a column's value, NULL if the element's type does not have the column."""

    @property
    def single(self) -> bool:
        """Whether the element can have only one type."""
        return len(self.types) == 1


def identity_columns(element: ElementType) -> tuple[Column, ...]:
    """Return the columns that identify an element of a type: a vertex's key, or an edge's e_id."""
    return element.key if isinstance(element, VertexType) else element.typed(["e_id"])


def key_fields(types: Mapping[str, ElementType]) -> list[Column]:
    """Return the fields of the struct that identifies an element of several types, without `type`.

    A field whose type differs between element types is a VARCHAR.
    """
    fields: dict[str, Column] = {}
    for element in types.values():
        for column in identity_columns(element):
            known = fields.setdefault(column.name.lower(), column)
            if known.type != column.type:
                fields[column.name.lower()] = Column(known.name, "VARCHAR")
    return list(fields.values())


def identity(access: Access) -> str:
    """Return the SQL of ELEMENT_ID: the key, or a struct of its columns, with the type if there are several types."""
    if access.single:
        ((name, element),) = access.types.items()
        values, columns = access.keys[name], identity_columns(element)
        if len(values) == 1:
            return values[0]
        return pack((c.name, v) for c, v in zip(columns, values, strict=True))
    fields = [("type", type_name(access))]
    for field in key_fields(access.types):
        casts = [
            f"CAST({value} AS {field.type})"
            for name, element in access.types.items()
            for column, value in zip(identity_columns(element), access.keys[name], strict=True)
            if column.name.lower() == field.name.lower()
        ]
        fields.append((field.name, casts[0] if len(casts) == 1 else f"coalesce({', '.join(casts)})"))
    return f"CASE WHEN {access.tag} IS NOT NULL THEN {pack(fields)} END"


def type_name(access: Access) -> str:
    """Return the SQL of the element type's name, in its original case."""
    names = {name: element.name for name, element in access.types.items()}
    if all(name == shown for name, shown in names.items()):
        return access.tag
    cases = " ".join(f"WHEN {text_literal(name)} THEN {text_literal(shown)}" for name, shown in names.items())
    return f"CASE {access.tag} {cases} END"


def pack(fields: Iterable[tuple[str, str]]) -> str:
    """Return the SQL of a struct from (name, value) pairs."""
    return f"struct_pack({', '.join(f'{quote(name)} := {value}' for name, value in fields)})"


def same(one: Access, other: Access) -> str:
    """Return the condition that two accesses refer to the same element."""
    common = [name for name in one.types if name in other.types] if one.kind == other.kind else []
    parts = []
    for name in common:
        pairs = zip(one.keys[name], other.keys[name], strict=True)
        equal = " AND ".join(f"{a} = {b}" for a, b in pairs)
        tags = [f"{access.tag} = {text_literal(name)}" for access in (one, other) if not access.single]
        parts.append(" AND ".join([*tags, equal]))
    if not parts:
        return "false"
    return parts[0] if len(parts) == 1 else "(" + " OR ".join(f"({part})" for part in parts) + ")"


def labelled(access: Access, names: Sequence[str]) -> str:
    """Return the condition that the element has one of the given types, NULL if there is no element."""
    chosen = [name for name in access.types if name in names]
    if not chosen:
        return "false" if access.tag.startswith("'") else f"CASE WHEN {access.tag} IS NOT NULL THEN false END"
    return f"({access.tag} IN ({', '.join(map(text_literal, chosen))}))"


def coalesced(values: Sequence[tuple[str, str]]) -> str:
    """Return the value of a column that elements of several types have, as VARCHAR if its types differ.

    Args:
        values: The SQL and the type of the column for each type that has it.
    """
    if not values:
        return "NULL"
    same_type = len({type_ for _, type_ in values}) == 1
    parts = [value if same_type else f"CAST({value} AS VARCHAR)" for value, _ in values]
    return parts[0] if len(parts) == 1 else f"coalesce({', '.join(parts)})"


def ends(vertex: Access, edge: Access, end: str) -> str:
    """Return the condition that a vertex is the source or the destination of an edge."""
    parts = []
    for name, type_ in edge.types.items():
        element = type_.element
        assert isinstance(element, EdgeElement)
        of, columns = (
            (element.source, element.source_key) if end == "source" else (element.destination, element.destination_key)
        )
        if of.lower() not in vertex.types:
            continue
        pairs = zip((edge.column(c) for c in columns), vertex.keys[of.lower()], strict=True)
        tags = [f"{edge.tag} = {text_literal(name)}"] if not edge.single else []
        tags += [f"{vertex.tag} = {text_literal(of.lower())}"] if not vertex.single else []
        parts.append(" AND ".join([*tags, *(f"{a} = {b}" for a, b in pairs)]))
    return "false" if not parts else "(" + " OR ".join(f"({part})" for part in parts) + ")"


def missing(column: str, types: Mapping[str, ElementType]) -> bool:
    """Return whether no type has a column with this name."""
    return all(element.column(column) is None for element in types.values())


def all_columns(types: Mapping[str, ElementType]) -> list[str]:
    """Return the names of the columns of all types, in order and without duplicates."""
    return list({c.name.lower(): c.name for element in types.values() for c in element.columns}.values())
