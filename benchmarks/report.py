"""Markdown that the reports are made of: tables, and the machine that figures belong to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from benchmarks.machine import describe_machine


def machine_table() -> str:
    """The date, the machine, the commit and the libraries."""
    return table(("what", "value"), [("date", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"), *describe_machine().items()])


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table, with a line end after its last row."""
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
