"""Where a snapshot comes from, as plain values for JSON: enough to pin it again when it is gone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from snapdb.release import __version__
from snapdb.storage.artifacts import digest_of
from snapdb.storage.catalog_db.codec import encode
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.types import Filter, PropertyGraph, Published, Snapshot, TimeUnit

_SHOWN = ("labels", "properties")
"""What SQL shows of a graph's elements, which changes no batch."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """What a snapshot is of, beside its version and its window."""

    graph: PropertyGraph
    """Reduced to the elements of the snapshot."""
    filters: tuple[Filter, ...]
    unit: TimeUnit | None
    """What the window counts in."""


def snapshot_lineage(snapshot: Snapshot, db_dir: DatabaseDir) -> dict[str, Any]:
    """What a snapshot is, and which database it is in; a stream adds how it samples."""
    plain = json.loads(encode(pinned(snapshot)))
    return {
        "snapshot": snapshot.name,
        "graph": snapshot.graph.name,
        "version": snapshot.version,
        "window": [snapshot.window.start, snapshot.window.stop],
        "definition": definition_digest(plain),
        "pinned": plain,
        "database": str(db_dir.path),
        "snapdb": __version__,
    }


def pinned(snapshot: Snapshot) -> Pinned:
    """What a snapshot is of."""
    return Pinned(snapshot.graph, snapshot.filters, snapshot.unit)


def published(snapshot: Snapshot) -> Published:
    """The publication that a snapshot is."""
    moment = snapshot.created if snapshot.refreshed is None else snapshot.refreshed
    window = snapshot.window
    definition = definition_digest(json.loads(encode(pinned(snapshot))))
    return Published(
        name=snapshot.name,
        graph=snapshot.graph.name,
        version=snapshot.version,
        window=window,
        time=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment),
        id=snapshot.id,
        content=digest_of(definition, snapshot.version, window.start, window.stop),
    )


def definition_digest(plain: Any) -> str:
    """A digest of what is pinned, given as plain values: the same where only what SQL shows differs."""
    return digest_of(_unshown(plain))


def _unshown(plain: Any) -> Any:
    match plain:
        case dict():
            return {name: _unshown(value) for name, value in plain.items() if name not in _SHOWN}
        case list():
            return [_unshown(value) for value in plain]
        case _:
            return plain
