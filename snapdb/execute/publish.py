"""From a statement's changes to a version: now, or when the open transaction commits."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.execute.operator import Engine, Outcome
from snapdb.execute.work import Review
from snapdb.storage.changes import Change


def publish(
    engine: Engine, changes: Sequence[Change], message: str | None, did: str, rows: int, review: Review | None = None
) -> Outcome:
    """Commit the changes, or add them to the open transaction.

    Args:
        did: What they do, for a person.
        rows: How many rows they add or remove.
        review: Told, before the commit, how many new keys the id maps of the tables get.
    """
    version = engine.work.add(changes, message, review)
    return Outcome(f"{did}, when the transaction commits" if version is None else f"version {version}: {did}", rows)
