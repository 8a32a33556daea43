"""Statements → text in one spelling: what is parsed from it is the same statement again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from snapdb.sql.caches import CreateCache, RefreshCache, print_create_cache, print_refresh_cache
from snapdb.sql.explain import Explain
from snapdb.sql.exports import (
    CopyFrom,
    CopySampleTo,
    CopySnapshotTo,
    CopyTo,
    print_copy_from,
    print_copy_sample_to,
    print_copy_snapshot_to,
    print_copy_to,
)
from snapdb.sql.graphs import CreateGraph, print_create_graph
from snapdb.sql.maintenance import (
    BackupDatabase,
    CheckDatabase,
    DropRetention,
    ExpireSnapshots,
    SetRetention,
    Vacuum,
    print_backup,
    print_drop_retention,
    print_expire_snapshots,
    print_set_retention,
    print_vacuum,
)
from snapdb.sql.parser import parse
from snapdb.sql.queries import Query
from snapdb.sql.samples import (
    Audit,
    CreateSampler,
    Sample,
    SampleUsing,
    print_create_sampler,
    print_sample,
    print_sample_using,
)
from snapdb.sql.show import Describe, Drop, Show, Summarize, print_describe, print_drop, print_show, print_summarize
from snapdb.sql.snapshots import CreateSnapshot, RefreshSnapshot, print_create_snapshot, print_refresh_snapshot
from snapdb.sql.syntax import Statement
from snapdb.sql.tables import (
    AlterTable,
    CreateTable,
    Delete,
    Insert,
    Update,
    print_alter_table,
    print_create_table,
    print_delete,
    print_insert,
    print_update,
)
from snapdb.sql.tasks import AlterTask, CreateTask, ExecuteTask, print_alter_task, print_create_task, print_execute_task
from snapdb.sql.versions import (
    Begin,
    Commit,
    CreateTag,
    DiffGraph,
    DiffSnapshot,
    DiffTable,
    Rollback,
    print_commit,
    print_create_tag,
    print_diff_graph,
    print_diff_snapshot,
    print_diff_table,
)


def to_sql(statement: Statement) -> str:
    """The text of a statement, without its semicolon: `parse(to_sql(statement)) == (statement,)`.

    Keywords are in capitals, names in quotes where they need them, clauses in one order, and what DuckDB reads stands
    as it was written. Nothing that the statement does not say is added, nor what it says taken away.

    >>> (tree,) = parse("create snapshot q of shop where qty>0")
    >>> to_sql(tree)
    'CREATE SNAPSHOT q OF shop WHERE qty>0'
    """
    return PRINTERS[type(statement)](statement)


def format_sql(text: str) -> str:
    r"""The statements of a text in one spelling, each ended by a semicolon and a line end; comments are lost.

    Comments inside queries, conditions and expressions stay: those are DuckDB's, and are left as they were written.

    Raises:
        ParseError: Something in it is no statement.

    >>> format_sql("drop table if exists t ; show tags -- all")
    'DROP TABLE IF EXISTS t;\nSHOW TAGS;\n'
    """
    return "".join(f"{to_sql(statement)};\n" for statement in parse(text))


def _print_explain(tree: Explain) -> str:
    options = " (FORMAT json)" if tree.json else ""
    return f"EXPLAIN{' ANALYZE' * tree.analyze}{options} {to_sql(tree.statement)}"


PRINTERS: Mapping[type[Statement], Callable[[Any], str]] = {
    AlterTable: print_alter_table,
    AlterTask: print_alter_task,
    Audit: lambda tree: f"AUDIT {to_sql(tree.sample)}",
    BackupDatabase: print_backup,
    Begin: lambda _: "BEGIN",
    CheckDatabase: lambda _: "CHECK DATABASE",
    Commit: print_commit,
    CopyFrom: print_copy_from,
    CopySampleTo: print_copy_sample_to,
    CopySnapshotTo: print_copy_snapshot_to,
    CopyTo: print_copy_to,
    CreateCache: print_create_cache,
    CreateGraph: print_create_graph,
    CreateSampler: print_create_sampler,
    CreateSnapshot: print_create_snapshot,
    CreateTable: print_create_table,
    CreateTag: print_create_tag,
    CreateTask: print_create_task,
    Delete: print_delete,
    Describe: print_describe,
    DiffGraph: print_diff_graph,
    DiffSnapshot: print_diff_snapshot,
    DiffTable: print_diff_table,
    Drop: print_drop,
    DropRetention: print_drop_retention,
    ExecuteTask: print_execute_task,
    ExpireSnapshots: print_expire_snapshots,
    Explain: _print_explain,
    Insert: print_insert,
    Query: lambda tree: tree.query.text,
    RefreshCache: print_refresh_cache,
    RefreshSnapshot: print_refresh_snapshot,
    Rollback: lambda _: "ROLLBACK",
    Sample: print_sample,
    SampleUsing: print_sample_using,
    SetRetention: print_set_retention,
    Show: print_show,
    Summarize: print_summarize,
    Update: print_update,
    Vacuum: print_vacuum,
}
"""Every statement of the language, and what prints it."""
