"""Opens a published snapshot as a GraphView, memory-mapped and protected against removal by kernel locks."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from snapdb.arrays import Bools, Int64s
from snapdb.errors import CorruptError, DatabaseError
from snapdb.graph import conversion
from snapdb.graph.adjacency import AdjacencyOpener, open_incoming, open_outgoing, outgoing_artifact, serves_outgoing
from snapdb.graph.features import open_feature, open_features, open_history, open_target
from snapdb.graph.layout import (
    EdgeLayout,
    SnapshotLayout,
    VertexLayout,
    codings,
    raise_if_snapshot_replaced,
    read_layout,
)
from snapdb.graph.view import Feature, GraphView, KeyReader
from snapdb.release import __version__
from snapdb.sql_engine import Names, SqlEngine, few_keys, key_rows
from snapdb.storage.artifacts import digest_of, locate_artifact
from snapdb.storage.catalog_db.codec import encode
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir, raise_if_replaced
from snapdb.storage.catalog_db.locks import Lease
from snapdb.storage.manifests import PublishedDir
from snapdb.storage.tables.id_maps import IdMap, IdMaps
from snapdb.storage.tables.segments import check_files
from snapdb.types import Filter, PropertyGraph, Published, Snapshot, TimeUnit


class OpenSnapshot(NamedTuple):
    """A snapshot that is open for reading. Its files are kept until `lease` is released."""

    view: GraphView
    id_maps: Mapping[str, IdMap]
    """Vertex type → its id map."""
    lease: Lease
    """The locks that protect the files."""

    def to_networkx(self) -> Any:
        """Return the graph as a networkx MultiDiGraph, in memory.

        Nodes are your keys, or (vertex type, key) if there are several vertex types. Edges have `time` and `weight` if
        the graph declares them, and `type` if there are several edge types.

        Raises:
            InputError: networkx is not installed.
        """
        return conversion.to_networkx(self.view)

    def to_igraph(self) -> Any:
        """Return the graph as a directed igraph Graph, with your keys as `name` of the vertices.

        Raises:
            InputError: igraph is not installed.
        """
        return conversion.to_igraph(self.view)

    def to_scipy(self, edge: str | None = None) -> Any:
        """Return the adjacency of an edge type as a scipy CSR matrix [sources, destinations] of dense ids.

        The values are weights, or 1 for each edge without a weight. Parallel edges add up.

        Args:
            edge: The name of the edge type. None is enough if there is only one.

        Raises:
            BindError: The edge type does not exist, or there are several and none is named.
            InputError: scipy is not installed.
        """
        return conversion.to_scipy(self.view, edge)


_KEPT_KEYS = 100_000_000
"""The number of dense ids up to which all keys of a vertex type are kept in memory once a batch has needed one."""


@dataclass(frozen=True)
class _TableKeys:
    """An id map's keys, which are read from Parquet on first use."""

    id_map: IdMap
    db_dir: DatabaseDir
    vertex: str
    """The vertex type, for error messages."""

    def read(self, ids: Int64s) -> pa.Array:
        """Return the user's keys for dense ids, as an array of the key's type, or of structs for a composite key."""
        if self.id_map.limit <= _KEPT_KEYS:
            return self._keys.take(pa.array(ids))
        wanted, inverse = np.unique(ids, return_inverse=True)
        sources = {"wanted": pa.table({"dense": wanted})}
        return self._selected("SEMI JOIN wanted USING (dense)", sources).take(pa.array(inverse.reshape(-1)))

    @cached_property
    def _keys(self) -> pa.Array:
        """All keys in dense-id order."""
        root = self.db_dir.path
        with raise_if_replaced(root):
            self._check_files()
            few = few_keys(self.id_map.segments, self.id_map.columns, root) if self.db_dir.url is None else None
        return self._selected("", {}) if few is None else self._array(few)

    def _check_files(self) -> None:
        check_files(self.db_dir, f"the id map of {self.vertex}", self.id_map.segments)

    def _selected(self, join: str, sources: Mapping[str, pa.Table]) -> pa.Array:
        """Return keys in dense-id order: those that a join with sources leaves."""
        root = self.db_dir.path
        with raise_if_replaced(root):
            self._check_files()
        source = key_rows(self.id_map.segments, self.id_map.columns, root)
        # Close the engine here. If the garbage collector closed it later, a DataLoader worker that was forked in the
        # meantime would crash.
        attached = self.db_dir.url is not None
        with (
            closing(SqlEngine(root, attached=attached)) as sql_engine,
            raise_if_replaced(root),
            sql_engine.session(Names(sources=sources)) as session,
        ):
            query = f"SELECT * EXCLUDE (dense) FROM ({source}) {join} ORDER BY dense"
            return self._array(session.table(query))

    def _array(self, keys: pa.Table) -> pa.Array:
        """Return the keys as an array of the key's type, or of structs for a composite key."""
        table, names = keys.combine_chunks(), [c.name for c in self.id_map.columns]
        columns = [c.chunk(0) if c.num_chunks else pa.array([], c.type) for c in table.columns]
        return columns[0] if len(names) == 1 else pa.StructArray.from_arrays(columns, names)


_V = TypeVar("_V")


class _DeferredErrors(Mapping[str, _V]):
    """A mapping of values by name.

    They are opened immediately, to outlive the directory, but errors are raised on access.

    >>> squares = _DeferredErrors({"seven": lambda: 49})
    >>> "seven" in squares, squares["seven"]
    (True, 49)
    """

    def __init__(self, openers: Mapping[str, Callable[[], _V]], *, fetched: bool = False) -> None:
        """Call the openers. They must be picklable if the mapping is sent to DataLoader workers.

        Args:
            openers: Name → a function that returns the value.
            fetched: Whether to call each opener only on access, because it would fetch a file.
        """
        self._openers, self._fetched = dict(openers), fetched
        self._opened: dict[str, _V] = {}
        # An open file survives the removal of its directory, so a stream remains usable after its snapshot is dropped.
        for name, opener in () if fetched else self._openers.items():
            with suppress(DatabaseError):
                self._opened[name] = opener()

    def __getitem__(self, name: str) -> _V:
        if name in self._opened:
            return self._opened[name]
        value = self._openers[name]()
        if self._fetched:
            self._opened[name] = value
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._openers

    def __iter__(self) -> Iterator[str]:
        return iter(self._openers)

    def __len__(self) -> int:
        return len(self._openers)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the mapping without the opened values, because the other process maps the files itself."""
        return partial(_DeferredErrors, fetched=self._fetched), (self._openers,)


def open_snapshot(
    catalog_db: CatalogDb, snapshot: Snapshot, opens: Callable[[str], bool] = lambda element: True
) -> OpenSnapshot:
    """Open a snapshot for sampling.

    A missing or damaged file of an adjacency, of ids, of targets, or of edge features raises an error when it is read.
    The lease protects all existing files from then on.

    Args:
        catalog_db: The catalog.
        snapshot: The snapshot.
        opens: A function that returns whether to open the features and targets of an element.

    Raises:
        CorruptError: A required manifest, or a feature of a vertex type, is missing or damaged. For other files, the
            error is raised when they are first read.
        CommitConflict: The snapshot was replaced or dropped in the meantime (code 'moved').
    """
    with raise_if_snapshot_replaced(catalog_db, snapshot):
        return _opened(catalog_db, snapshot, opens)


def _opened(catalog_db: CatalogDb, snapshot: Snapshot, opens: Callable[[str], bool]) -> OpenSnapshot:
    """Acquire the lease, and open the snapshot under it."""
    db_dir = catalog_db.db_dir
    directory = db_dir.inside(snapshot.path)
    layout = read_layout(db_dir, snapshot)
    reverse = _reversed(catalog_db, layout)
    parts = [directory, *(db_dir.inside(d) for d in layout.directories), *reverse.values()]
    maps = {v.name: IdMaps(catalog_db).read(v.map_id) for v in layout.vertices}
    # Keys are read on first use, perhaps hours later. Without a lease on their directories, VACUUM could have merged
    # their files by then.
    folders = {db_dir.inside(s.path).parent for m in maps.values() for s in m.segments}
    lease = Lease(parts, folders, partial=True)
    try:
        # The snapshot may have been dropped after its row was read and before the lease was acquired.
        if lease.missing and not catalog_db.rows("SELECT 1 FROM snapshots WHERE id = ?", (snapshot.id,)):
            raise CorruptError(f"{lease.missing[0]} no longer exists; create the snapshot again", code="missing-file")
        return OpenSnapshot(_view(db_dir, snapshot, directory, layout, maps, reverse, opens), maps, lease)
    except BaseException:
        lease.release()
        raise


def _reversed(catalog_db: CatalogDb, layout: SnapshotLayout) -> dict[str, Path]:
    """Return the directory of OUT rows by edge type, for the types whose OUT rows already exist."""
    wanted = {e.name: outgoing_artifact(e).digest for e in layout.edges if serves_outgoing(e)}
    paths = {name: locate_artifact(catalog_db, digest) for name, digest in wanted.items()}
    return {name: path for name, path in paths.items() if path is not None}


def _view(
    db_dir: DatabaseDir,
    snapshot: Snapshot,
    directory: Path,
    layout: SnapshotLayout,
    maps: Mapping[str, IdMap],
    reverse: Mapping[str, Path],
    opens: Callable[[str], bool],
) -> GraphView:
    """Return the view of a snapshot whose files are leased."""
    counts = {v.name: v.count for v in layout.vertices}
    keys = {v.name: _TableKeys(maps[v.name], db_dir, v.name) for v in layout.vertices}
    types = {e.name: e.type for e in snapshot.graph.edges}
    incoming, outgoing = {}, {}
    for i, edge in enumerate(layout.edges):
        type_ = types[edge.name]
        incoming[type_] = partial(open_incoming, db_dir.path, directory, i, edge, counts[type_.destination])
        if edge.name in reverse:
            outgoing[type_] = partial(open_outgoing, reverse[edge.name], counts[type_.source], edge.before)
    return GraphView(
        node_counts=counts,
        alive=_DeferredErrors({v.name: partial(_alive, directory, i, v) for i, v in enumerate(layout.vertices)}),
        edge_types=tuple(types.values()),
        adjacency=AdjacencyOpener(incoming, counts, outgoing),
        node_features={
            v.name: _vertex_features(db_dir, snapshot, v, keys[v.name]) for v in layout.vertices if opens(v.name)
        },
        edge_features={e.name: _edge_features(db_dir, e) for e in layout.edges if opens(e.name)},
        targets=_DeferredErrors(
            {
                v.name: partial(open_target, db_dir.path / v.features, _path(db_dir, v.patch))
                for v in layout.vertices
                if v.target and v.features and opens(v.name)
            },
            fetched=db_dir.url is not None,
        ),
        keys=keys,
        lineage={**_snapshot_lineage(snapshot, db_dir), **codings(db_dir, snapshot.graph, layout)},
    )


def _alive(directory: Path, index: int, vertex: VertexLayout) -> Bools | None:
    """Return a [dense ids] mask of the ids that are in the snapshot, or None if all of them are."""
    return None if vertex.nodes == vertex.count else PublishedDir(directory).array(f"alive-{index}.npy")


def _vertex_features(
    db_dir: DatabaseDir, snapshot: Snapshot, vertex: VertexLayout, keys: KeyReader
) -> dict[str, Feature]:
    """Return the features of a vertex type in graph order."""
    element = snapshot.graph.vertex(vertex.name)
    specs = {spec.name: spec for spec in element.features} if element is not None else {}
    _check_names(vertex.feature_names + vertex.history_names)
    own = [name for name in vertex.feature_names if name not in vertex.history_names]
    features: dict[str, Feature] = {}
    if vertex.features is not None:
        features = open_features(db_dir.path / vertex.features, _path(db_dir, vertex.patch), own)
    for name, directory in zip(vertex.history_names, vertex.history, strict=True):
        default, stop = specs[name].default if name in specs else None, snapshot.window.stop
        # Values at or after the end of the window are never read, because the snapshot does not contain them.
        features[name] = open_history(db_dir.path / directory, name, stop, default, vertex.name, keys)
    order = [*specs, *features]
    return dict(sorted(features.items(), key=lambda item: order.index(item[0])))


def _edge_features(db_dir: DatabaseDir, edge: EdgeLayout) -> Mapping[str, Feature]:
    """Return the features by name. A feature that cannot be opened raises its error when a batch reads it."""
    _check_names(edge.feature_names)
    if edge.features is None:
        return {}
    paths = db_dir.path / edge.features, _path(db_dir, edge.feature_patch)
    openers = {name: partial(open_feature, *paths, name) for name in edge.feature_names}
    return _DeferredErrors(openers, fetched=db_dir.url is not None)


def _path(db_dir: DatabaseDir, directory: str | None) -> Path | None:
    """Return the path of a directory, or None."""
    return None if directory is None else db_dir.path / directory


def _check_names(names: Sequence[str]) -> None:
    """Check names that become parts of paths.

    Raises:
        CorruptError: A name contains a slash.
    """
    if odd := [name for name in names if "/" in name]:
        raise CorruptError(
            f"the manifest of a snapshot is damaged: it lists a feature {odd[0]!r}; create it again",
            code="damaged-snapshot",
        )


_SHOWN = ("labels", "properties")
"""The fields of a graph's elements that affect only SQL. They never change a batch."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """The definition of a snapshot's content, without its version and window."""

    graph: PropertyGraph
    """The graph, reduced to the elements of the snapshot."""
    filters: tuple[Filter, ...]
    """The filters on edges and vertices."""
    unit: TimeUnit | None
    """The unit of the window's times."""


def _snapshot_lineage(snapshot: Snapshot, db_dir: DatabaseDir) -> dict[str, Any]:
    """Return the identity of a snapshot and its database. A stream adds its sampling parameters."""
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
    """Return the definition of a snapshot's content."""
    return Pinned(snapshot.graph, snapshot.filters, snapshot.unit)


def published(snapshot: Snapshot) -> Published:
    """Return the publication of a snapshot."""
    window = snapshot.window
    definition = definition_digest(json.loads(encode(pinned(snapshot))))
    return Published(
        name=snapshot.name,
        graph=snapshot.graph.name,
        version=snapshot.version,
        window=window,
        time=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=snapshot.built_at),
        id=snapshot.id,
        # The content fingerprint: publications with the same definition, version and window have the same content.
        content=digest_of(definition, snapshot.version, window.start, window.stop),
    )


def definition_digest(plain: object) -> str:
    """Return a digest of a `Pinned` as plain values, without the fields that affect only SQL."""
    return digest_of(_unshown(plain))


def _unshown(plain: Any) -> Any:
    """Return plain values without the fields that affect only SQL."""
    match plain:
        case dict():
            return {name: _unshown(value) for name, value in plain.items() if name not in _SHOWN}
        case list():
            return [_unshown(value) for value in plain]
        case _:
            return plain
