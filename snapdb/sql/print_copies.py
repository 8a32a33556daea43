"""Statements that read and write files, as text."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.sql.ast import CopyFrom, CopyOption, CopySampleTo, CopySnapshotTo, CopyTo, Sample
from snapdb.sql.print_parts import clauses, listed, message, name, number, statement, string, version
from snapdb.sql.print_samples import print_sample, print_sample_using


def print_copy_from(tree: CopyFrom) -> str:
    """COPY … FROM."""
    table = clauses(name(tree.table), bool(tree.columns) and listed(tree.columns))
    options = _options(tree.options, new_only=tree.new_only)
    return statement(f"COPY {table}", f"FROM {string(tree.path)}", options, message(tree.message))


def print_copy_to(tree: CopyTo) -> str:
    """COPY table TO, COPY snapshot.element TO, or COPY (query) TO."""
    if tree.query is not None:
        what = f"({tree.query.text})"
    else:
        assert tree.table is not None, "a table, or a query"
        table = name(tree.table) if tree.snapshot is None else f"{name(tree.snapshot)}.{name(tree.table)}"
        what = clauses(table, version(tree.at), bool(tree.columns) and listed(tree.columns))
    return statement(f"COPY {what}", f"TO {string(tree.path)}", _options(tree.options))


def print_copy_snapshot_to(tree: CopySnapshotTo) -> str:
    """COPY SNAPSHOT … TO."""
    return statement(f"COPY SNAPSHOT {name(tree.snapshot)}", f"TO {string(tree.path)}", _options(tree.options))


def print_copy_sample_to(tree: CopySampleTo) -> str:
    """COPY (SAMPLE …) TO."""
    sample = print_sample(tree.sample) if isinstance(tree.sample, Sample) else print_sample_using(tree.sample)
    return statement(f"COPY ({sample})", f"TO {string(tree.path)}", _options(tree.options))


def _options(options: Sequence[CopyOption], *, new_only: bool = False) -> str | None:
    said = [*map(_option, options), *(["NEW FILES ONLY"] if new_only else [])]
    return f"({', '.join(said)})" if said else None


def _option(option: CopyOption) -> str:
    """An option; one that is true stands without a value."""
    label, value = option
    if value is True:
        return name(label)
    if isinstance(value, tuple):
        return f"{name(label)} {listed(value)}"
    if value is False:
        return f"{name(label)} false"
    return f"{name(label)} {string(value) if isinstance(value, str) else number(value)}"
