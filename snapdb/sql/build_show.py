"""Trees of show.lark as SHOW, DESCRIBE, SUMMARIZE and DROP."""

from __future__ import annotations

from typing import cast

from snapdb.sql.ast import Describe, Described, Drop, Kind, Show, Shown, Statement, Summarize
from snapdb.sql.build import Place, Tree, bound, first_tree, has, leaves, name, string, trees


def build_show(tree: Tree, place: Place) -> Statement:
    """SHOW, DESCRIBE, SUMMARIZE or DROP; the grammar's terminals are the kinds that they take."""
    (statement,) = trees(tree)
    first, *rest = leaves(statement)
    match statement.data:
        case "show":
            return _show(statement, place)
        case "describe":
            kind = cast(Described, first.type) if rest else None
            at = first_tree(statement, "at")
            moment = None if at is None else bound(at)
            return Describe(*place, kind=kind, name=name(rest[0] if rest else first), at=moment)
        case "summarize":
            return Summarize(*place, name=name(first))
        case _:
            cascade = any(leaf.type == "CASCADE" for leaf in rest[1:])
            return Drop(*place, cast(Kind, first.type), name(rest[0]), has(statement, "guard"), cascade)


def _show(tree: Tree, place: Place) -> Show:
    at, like, of = (first_tree(tree, rule) for rule in ("at", "like", "of"))
    return Show(
        *place,
        what=cast(Shown, " ".join(leaf.type for leaf in leaves(tree))),
        like=None if like is None else string(leaves(like)[0]),
        of=None if of is None else name(leaves(of)[0]),
        at=None if at is None else bound(at),
    )
