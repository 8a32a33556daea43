"""A published snapshot as a GraphView: memory-mapped, checked for its files' sizes, held by kernel locks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapdb.errors import CommitConflict, CorruptError
from snapdb.graph.adjacency import AdjacencyShelf, rows_adjacency
from snapdb.graph.layout import EdgeLayout, SnapshotLayout, VertexLayout
from snapdb.graph.view import Adjacency, Feature, GraphView
from snapdb.kernels.gather import gather
from snapdb.relational import Relational, key_rows
from snapdb.storage.artefacts import digest_of
from snapdb.storage.codec import decode, encode
from snapdb.storage.disk import map_array, read_manifest
from snapdb.storage.home import Home
from snapdb.storage.ids import IdMap, read_map
from snapdb.storage.ledger import Ledger
from snapdb.storage.locks import Lease
from snapdb.storage.segments import check_files
from snapdb.storage.topology import read_rows
from snapdb.types import Snapshot

__all__ = ["ArrayFeature", "OpenSnapshot", "TableKeys", "open_snapshot"]


@dataclass(frozen=True, slots=True)
class OpenSnapshot:
    """A snapshot that is being read: its files stay until `lease` is released."""

    view: GraphView
    id_maps: Mapping[str, IdMap]
    """By vertex type."""
    lease: Lease


@dataclass(frozen=True, slots=True)
class ArrayFeature:
    """Rows of one array, often memory-mapped."""

    array: npt.NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def read(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A fresh array of the rows of these ids."""
        return gather(self.array, ids)


@dataclass(frozen=True)
class TableKeys:
    """The keys of one id map, read from Parquet on first need."""

    id_map: IdMap
    root: Path

    def read(self, ids: npt.NDArray[np.int64]) -> pa.Array:
        """The user's ids of dense ids: one array of the key's type, or structs for a composite key."""
        return self._keys.take(pa.array(ids))

    @cached_property
    def _keys(self) -> pa.Array:
        relational = Relational(self.root)
        source = key_rows(self.id_map.segments, self.id_map.columns, self.root)
        names = [c.name for c in self.id_map.columns]
        with relational.session() as session:
            table = session.table(f"SELECT * EXCLUDE (dense) FROM ({source}) ORDER BY dense").combine_chunks()
        relational.close()
        columns = [c.chunk(0) if c.num_chunks else pa.array([], c.type) for c in table.columns]
        return columns[0] if len(names) == 1 else pa.StructArray.from_arrays(columns, names)


def open_snapshot(home: Home, ledger: Ledger, snapshot: Snapshot) -> OpenSnapshot:
    """Open a snapshot for sampling.

    Raises:
        CorruptError: a file of it is missing or has another size than its manifest says.
        CommitConflict: it was replaced or dropped at this moment (code 'moved').
    """
    try:
        return _opened(home, ledger, snapshot)
    except CorruptError:
        # Who drops a snapshot removes its files at once, unless somebody holds them.
        if ledger.rows("SELECT 1 FROM snapshots WHERE id = ?", (snapshot.id,)):
            raise
        moved = f"{snapshot.name} moved: it was replaced or dropped while it was opened; run the statement again"
        raise CommitConflict(moved, code="moved") from None


def _opened(home: Home, ledger: Ledger, snapshot: Snapshot) -> OpenSnapshot:
    directory = home.inside(snapshot.path)
    layout = decode(SnapshotLayout, json.dumps(read_manifest(directory)["layout"]))
    parts = [directory, *(home.inside(d) for d in layout.directories)]
    maps = {v.name: read_map(ledger, v.map_id) for v in layout.vertices}
    # Keys are read on first need, which may be long after; meanwhile a VACUUM may have merged their files.
    lease = Lease(parts, {home.inside(s.path).parent for m in maps.values() for s in m.segments})
    try:
        for path in parts:
            read_manifest(path)
        for name, id_map in maps.items():
            check_files(home, f"the ids of {name}", id_map.segments)
        return OpenSnapshot(_view(home, snapshot, directory, layout, maps), maps, lease)
    except BaseException:
        lease.release()
        raise


def _view(
    home: Home, snapshot: Snapshot, directory: Path, layout: SnapshotLayout, maps: Mapping[str, IdMap]
) -> GraphView:
    counts = {v.name: v.count for v in layout.vertices}
    types = {e.name: e.type for e in snapshot.graph.edges}
    openers = {types[e.name]: partial(_incoming, home.path, directory, i, e) for i, e in enumerate(layout.edges)}
    window = snapshot.window
    return GraphView(
        node_counts=counts,
        alive={v.name: _alive(directory, i, v) for i, v in enumerate(layout.vertices)},
        edge_types=tuple(types.values()),
        adjacency=AdjacencyShelf(openers, counts),
        node_features={v.name: _features(home.path, v) for v in layout.vertices},
        edge_features={e.name: _features(home.path, e) for e in layout.edges},
        targets={
            v.name: ArrayFeature(map_array(home.path / v.features / "target.npy"))
            for v in layout.vertices
            if v.target and v.features
        },
        keys={v.name: TableKeys(maps[v.name], home.path) for v in layout.vertices},
        lineage={
            "snapshot": snapshot.name,
            "graph": snapshot.graph.name,
            "version": snapshot.version,
            "window": [window.start, window.stop],
            "definition": digest_of(encode(snapshot.graph), [encode(f) for f in snapshot.filters]),
            "database": str(home.path),
        },
    )


def _incoming(root: Path, directory: Path, index: int, edge: EdgeLayout) -> Adjacency:
    if edge.form == "materialized":
        return rows_adjacency(read_rows(directory, f"rows-{index}-"))
    ends = map_array(directory / f"ends-{index}.npy") if edge.form == "ends" else None
    return rows_adjacency(read_rows(root / edge.topology), ends)


def _alive(directory: Path, index: int, vertex: VertexLayout) -> npt.NDArray[np.bool_] | None:
    return None if vertex.nodes == vertex.count else map_array(directory / f"alive-{index}.npy")


def _features(root: Path, element: VertexLayout | EdgeLayout) -> dict[str, Feature]:
    if element.features is None:
        return {}
    if odd := [name for name in element.feature_names if "/" in name]:
        raise CorruptError(f"the manifest of a snapshot is damaged: it names a feature {odd[0]!r}; create it again")
    return {
        name: ArrayFeature(map_array(root / element.features / f"feature-{name}.npy")) for name in element.feature_names
    }
