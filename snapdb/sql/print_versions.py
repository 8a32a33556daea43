"""Statements about what there is and what was, as text: SHOW, tags, differences, transactions, upkeep."""

from __future__ import annotations

from snapdb.sql.ast import (
    BackupDatabase,
    Commit,
    CreateTag,
    Describe,
    DiffGraph,
    DiffSnapshot,
    DiffTable,
    Drop,
    Show,
    Summarize,
    Vacuum,
    VersionBound,
)
from snapdb.sql.print_parts import creation, message, name, named, said, statement, string, version


def _kind(word: str) -> str:
    """What a statement names, in full."""
    return f"PROPERTY {word}" if word in ("GRAPH", "GRAPHS") else word


def print_show(tree: Show) -> str:
    """SHOW."""
    return statement(
        f"SHOW {_kind(tree.what)}",
        version(tree.at),
        named("OF", tree.of),
        tree.like is not None and f"LIKE {string(tree.like)}",
    )


def print_describe(tree: Describe) -> str:
    """DESCRIBE."""
    return statement("DESCRIBE", tree.kind and _kind(tree.kind), name(tree.name), version(tree.at))


def print_summarize(tree: Summarize) -> str:
    """SUMMARIZE SNAPSHOT."""
    return f"SUMMARIZE SNAPSHOT {name(tree.name)}"


def print_drop(tree: Drop) -> str:
    """DROP."""
    guard = "IF EXISTS " if tree.if_exists else ""
    return statement(f"DROP {_kind(tree.kind)} {guard}{name(tree.name)}", tree.cascade and "CASCADE")


def print_create_tag(tree: CreateTag) -> str:
    """CREATE TAG."""
    return statement(
        creation("TAG", tree.name, or_replace=tree.or_replace, if_not_exists=tree.if_not_exists), version(tree.at)
    )


def print_diff_table(tree: DiffTable) -> str:
    """DIFF TABLE."""
    return statement(f"DIFF TABLE {name(tree.table)}", *_ends(tree.start, tree.stop), tree.rows and "ROWS")


def print_diff_graph(tree: DiffGraph) -> str:
    """DIFF PROPERTY GRAPH."""
    detail = tree.detail != "SUMMARY" and tree.detail
    return statement(f"DIFF PROPERTY GRAPH {name(tree.graph)}", *_ends(tree.start, tree.stop), detail)


def print_diff_snapshot(tree: DiffSnapshot) -> str:
    """DIFF SNAPSHOT."""
    detail = tree.detail != "SUMMARY" and tree.detail
    return statement(f"DIFF SNAPSHOT {name(tree.after)} WITH {name(tree.before)}", detail)


def _ends(start: VersionBound, stop: VersionBound | None) -> tuple[str, str | None]:
    return f"FROM {start.kind} {start.value.text}", None if stop is None else f"TO {stop.kind} {stop.value.text}"


def print_backup(tree: BackupDatabase) -> str:
    """BACKUP DATABASE."""
    return statement(f"BACKUP DATABASE TO {string(tree.path)}", tree.copies and "(COPY)")


def print_vacuum(tree: Vacuum) -> str:
    """VACUUM."""
    table = None if tree.table is None else name(tree.table)
    return statement("VACUUM", table, said("RETAIN", tree.retain), tree.dry_run and "DRY RUN")


def print_commit(tree: Commit) -> str:
    """COMMIT."""
    return statement("COMMIT", message(tree.message))
