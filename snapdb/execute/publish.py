"""From a statement's changes to a version: now, or when the open transaction commits."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.execute.operator import Engine, Outcome
from snapdb.storage.changes import Change

__all__ = ["publish"]


def publish(engine: Engine, changes: Sequence[Change], message: str | None, did: str, rows: int) -> Outcome:
    """Commit the changes, or add them to the open transaction.

    Args:
        did: What they do, for a person.
        rows: How many rows they add or remove.
    """
    version = engine.work.add(changes, message)
    return Outcome(f"{did}, when the transaction commits" if version is None else f"version {version}: {did}", rows)
