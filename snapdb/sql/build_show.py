"""Trees of show.lark as SHOW, DESCRIBE and DROP."""

from __future__ import annotations

from typing import Literal

from snapdb.sql.ast import Describe, Drop, Kind, Show, Statement
from snapdb.sql.build import Place, Tree, first_tree, has, leaves, name, string, trees

__all__ = ["build_show"]

_WHAT: dict[str, Literal["TABLES", "GRAPHS", "SNAPSHOTS", "VERSIONS"]] = {
    "TABLES": "TABLES",
    "GRAPHS": "GRAPHS",
    "SNAPSHOTS": "SNAPSHOTS",
    "VERSIONS": "VERSIONS",
}
_KINDS: dict[str, Kind] = {"TABLE": "TABLE", "GRAPH": "GRAPH", "SNAPSHOT": "SNAPSHOT"}


def build_show(tree: Tree, place: Place) -> Statement:
    """SHOW, DESCRIBE or DROP."""
    (statement,) = trees(tree)
    first, *rest = leaves(statement)
    match statement.data:
        case "show":
            like = first_tree(statement, "like")
            return Show(*place, what=_WHAT[first.type], like=None if like is None else string(leaves(like)[0]))
        case "describe":
            return Describe(*place, kind=_KINDS[first.type], name=name(rest[0]))
        case _:
            return Drop(*place, kind=_KINDS[first.type], name=name(rest[0]), if_exists=has(statement, "guard"))
