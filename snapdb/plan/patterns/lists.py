"""Paths of fixed length as lists: vertices, edges, and both in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snapdb.plan.patterns.access import Access, identity, identity_columns, pack, type_name
from snapdb.plan.patterns.graphs import ElementType


def listed(elements: Sequence[Access], types: Mapping[str, ElementType] | None = None) -> str:
    """Return the identities of elements as a list, with the type in each if they can have several.

    Args:
        elements: The elements.
        types: The types that elements of the list can have, or None for those of the given elements.
    """
    types = types or {name: element for access in elements for name, element in access.types.items()}
    if not elements:
        return "CAST([] AS BIGINT[])" if len(types) <= 1 else "NULL"
    return f"[{', '.join(identity(_widened(access, types)) for access in elements)}]"


def _widened(access: Access, types: Mapping[str, ElementType]) -> Access:
    """Return an access that can have more types than the element has."""
    keys = {
        name: access.keys.get(name) or tuple(f"CAST(NULL AS {c.type})" for c in identity_columns(element))
        for name, element in types.items()
    }
    return Access(access.kind, types, access.tag, keys, access.column)


def alternating(nodes: Sequence[Access], edges: Sequence[Access]) -> str:
    """Return vertices and edges in turn: as numbers if every key is one, or else as structs."""
    every = [each for pair in zip(nodes, [*edges, None], strict=True) for each in pair if each is not None]
    types = {("v" if e.kind == "vertex" else "e", n): t for e in every for n, t in e.types.items()}
    columns = [c for element in types.values() for c in identity_columns(element)]
    plain = {c.type for c in columns} == {"BIGINT"} and len(types) <= 2 and len(columns) == len(types)
    if plain and all(access.single for access in every):
        return f"[{', '.join(identity(access) for access in every)}]"
    return f"[{', '.join(_struct(access, types) for access in every)}]"


def _struct(access: Access, types: Mapping[tuple[str, str], ElementType]) -> str:
    fields = [("type", type_name(access))]
    known = dict[str, str]()
    for element in types.values():
        for column in identity_columns(element):
            one = known.setdefault(column.name, column.type)
            known[column.name] = one if one == column.type else "VARCHAR"
    for name, type_ in known.items():
        values = [
            f"CAST({value} AS {type_})"
            for own, element in access.types.items()
            for c, value in zip(identity_columns(element), access.keys[own], strict=True)
            if c.name == name
        ] or [f"CAST(NULL AS {type_})"]
        fields.append((name, values[0] if len(values) == 1 else f"coalesce({', '.join(values)})"))
    return pack(fields)
