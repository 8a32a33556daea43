"""Trees of version.lark as tags, differences, transactions and upkeep."""

from __future__ import annotations

from snapdb.sql.ast import (
    BackupDatabase,
    Begin,
    CheckDatabase,
    Commit,
    CreateTag,
    Detail,
    DiffGraph,
    DiffSnapshot,
    DiffTable,
    Rollback,
    Statement,
    Vacuum,
)
from snapdb.sql.build import Place, Tree, bound, first_tree, has, leaves, message, name, part, span_of, string, trees


def build_version(tree: Tree, place: Place) -> Statement:
    """CREATE TAG, DIFF, CHECK DATABASE, BACKUP DATABASE, VACUUM, BEGIN, COMMIT or ROLLBACK."""
    (statement,) = trees(tree)
    match statement.data:
        case "create_tag":
            return _tag(statement, place)
        case "diff":
            return _diff(statement, place)
        case "diff_graph":
            return _diff_graph(statement, place)
        case "diff_snapshot":
            after, before = leaves(statement)
            return DiffSnapshot(*place, after=name(after), before=name(before), detail=_detail(statement))
        case "check":
            return CheckDatabase(*place)
        case "backup":
            (path,) = leaves(statement)
            return BackupDatabase(*place, string(path), span_of(path), copies=has(statement, "copies"))
        case "vacuum":
            table = [name(leaf) for leaf in leaves(statement)]
            kept, dry_run = part(statement, "retain"), has(statement, "dry_run")
            return Vacuum(*place, table=table[0] if table else None, retain=kept, dry_run=dry_run)
        case "begin":
            return Begin(*place)
        case "commit":
            return Commit(*place, message=message(statement))
        case _:
            return Rollback(*place)


def _tag(tree: Tree, place: Place) -> CreateTag:
    at = first_tree(tree, "at")
    return CreateTag(
        *place,
        name=name(leaves(tree)[0]),
        at=None if at is None else bound(at),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
    )


def _diff(tree: Tree, place: Place) -> DiffTable:
    start, *stop = (bound(end) for end in trees(tree, "bound"))
    return DiffTable(
        *place,
        table=name(leaves(tree)[0]),
        start=start,
        stop=stop[0] if stop else None,
        rows=has(tree, "rows"),
    )


def _diff_graph(tree: Tree, place: Place) -> DiffGraph:
    start, *stop = (bound(end) for end in trees(tree, "bound"))
    graph = name(leaves(tree)[0])
    return DiffGraph(*place, graph=graph, start=start, stop=stop[0] if stop else None, detail=_detail(tree))


def _detail(tree: Tree) -> Detail:
    return "ROWS" if has(tree, "rows") else "FEATURES" if has(tree, "features") else "SUMMARY"
