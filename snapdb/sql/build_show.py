"""Trees of show.lark as SHOW, DESCRIBE and DROP."""

from __future__ import annotations

from typing import Literal

from snapdb.sql.ast import Describe, Drop, Kind, Show, Statement
from snapdb.sql.build import Place, Tree, bound, first_tree, has, leaves, name, string, trees

__all__ = ["build_show"]

_WHAT: dict[str, Literal["TABLES", "GRAPHS", "SNAPSHOTS", "TAGS", "VERSIONS"]] = {
    "TABLES": "TABLES",
    "GRAPHS": "GRAPHS",
    "SNAPSHOTS": "SNAPSHOTS",
    "TAGS": "TAGS",
    "VERSIONS": "VERSIONS",
}
_DESCRIBED: dict[str, Literal["TABLE", "GRAPH", "SNAPSHOT"]] = {
    "TABLE": "TABLE",
    "GRAPH": "GRAPH",
    "SNAPSHOT": "SNAPSHOT",
}
_DROPPED: dict[str, Kind] = {**_DESCRIBED, "TAG": "TAG"}


def build_show(tree: Tree, place: Place) -> Statement:
    """SHOW, DESCRIBE or DROP."""
    (statement,) = trees(tree)
    first, *rest = leaves(statement)
    at = first_tree(statement, "at")
    moment = None if at is None else bound(at)
    match statement.data:
        case "show":
            like, of = first_tree(statement, "like"), first_tree(statement, "of")
            return Show(
                *place,
                what=_WHAT[first.type],
                like=None if like is None else string(leaves(like)[0]),
                of=None if of is None else name(leaves(of)[0]),
                at=moment,
            )
        case "describe":
            return Describe(*place, kind=_DESCRIBED[first.type], name=name(rest[0]), at=moment)
        case _:
            return Drop(
                *place,
                kind=_DROPPED[first.type],
                name=name(rest[0]),
                if_exists=has(statement, "guard"),
                cascade=any(leaf.type == "CASCADE" for leaf in rest[1:]),
            )
