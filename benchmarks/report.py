"""Markdown for the reports: tables, and a description of the machine on which figures were measured."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from benchmarks.machine import describe_machine


def machine_table() -> str:
    """Return a table with the date, the machine, the commit and the libraries."""
    return table(("what", "value"), [("date", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"), *describe_machine().items()])


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table that ends with a newline."""
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
