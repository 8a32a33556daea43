"""A snapshot's adjacencies: IN rows in each encoding, and OUT and BOTH rows, built on first use and cached."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from snapdb.arrays import Array, Bools
from snapdb.errors import CorruptError
from snapdb.graph.layout import EdgeLayout, damaged_file
from snapdb.graph.view import Adjacency, EdgeColumn, EdgeReader, Source
from snapdb.kernels.adjacency.forms import DeltaArrays, RowArrays, delta_arrays, live_arrays, plain_array, row_arrays
from snapdb.kernels.adjacency.rows import logical_parts, merge_rows, neighbors_of, prefix_degrees
from snapdb.storage.arrays.patches import Patch, open_patch
from snapdb.storage.arrays.topology import (
    AdjacencyRows,
    EdgeArrays,
    LazyRows,
    build_rows,
    check_rows,
    open_rows,
    rows_of,
)
from snapdb.storage.artifacts import ArtifactSpec, digest_of
from snapdb.storage.manifests import Metadata, PublishedDir
from snapdb.types import EdgeType, PropertyGraph, Relation


@dataclass(frozen=True)
class AdjacencyOpener:
    """Opens the relations of a snapshot. Each relation is built once, by the first thread that reads it."""

    incoming: Mapping[EdgeType, Callable[[], Adjacency]]
    """Edge type → a function that opens its IN rows."""
    node_counts: Mapping[str, int]
    """Vertex type → the number of dense ids."""
    outgoing: Mapping[EdgeType, Callable[[], Adjacency]] = field(default_factory=dict)
    """Edge type → a function that opens its OUT rows, for the types whose OUT rows are also stored on disk."""
    _opened: dict[Relation, Adjacency] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, relation: Relation) -> Adjacency:
        with self._guard:
            return self._open(relation)

    def __getstate__(self) -> dict[str, object]:
        """Return the state for spawned DataLoader workers, without the built rows and the lock."""
        # A lock cannot be pickled. Built rows can be gigabytes, and the worker maps the files anyway.
        return {"incoming": self.incoming, "node_counts": self.node_counts, "outgoing": self.outgoing}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _opened={}, _guard=threading.Lock())

    def _open(self, relation: Relation) -> Adjacency:
        """Return the rows of a relation, building them on the first call. The caller must hold the lock."""
        if relation not in self._opened:
            self._opened[relation] = self._build(relation)
        return self._opened[relation]

    def _build(self, relation: Relation) -> Adjacency:
        """Open or build the rows of a relation."""
        if relation.direction == "IN":
            return self.incoming[relation.edge]()
        if relation.direction == "OUT" and (opened := self.outgoing.get(relation.edge)):
            return opened()
        # A snapshot stores only IN rows, because sampling follows edges in reverse. Other rows are derived from them.
        incoming = self._open(Relation(relation.edge, "IN"))
        if relation.direction == "OUT":
            expands, reaches = (self.node_counts[name] for name in (relation.expands, relation.reaches))
            return _outgoing(incoming, expands, reaches, relation.edge.edge)
        return _both(incoming, self._open(Relation(relation.edge, "OUT")))


class WithoutIdle(NamedTuple):
    """Opens relations, but replaces the rows of idle relations with empty rows."""

    reader: EdgeReader
    """Opens the other relations."""
    idle: frozenset[Relation]
    """The relations whose edges cannot be reached by any draw."""
    graph: PropertyGraph
    """The graph of the snapshot."""
    node_counts: Mapping[str, int]
    """Vertex type → the number of dense ids."""

    def __call__(self, relation: Relation) -> Adjacency:
        """Return the rows of a relation. An idle relation has empty rows, with the columns of its edges."""
        if relation not in self.idle:
            return self.reader(relation)
        element = self.graph.edge(relation.edge.edge)
        assert element is not None, "idle relations are of the snapshot's graph"
        none = np.empty(0, np.int64)
        rows = AdjacencyRows(
            indptr=np.zeros(1, np.int64),
            indices=np.empty(0, np.int32),
            edge_id=np.empty(0, np.int32),
            time=None if element.event_time is None else none,
            weight=None if element.weight is None else np.empty(0, np.float64),
            until=None if element.event_end is None else none,
        )
        outward = np.empty(0, np.bool_) if relation.direction == "BOTH" else None
        return rows_adjacency(rows, nodes=self.node_counts[relation.expands], outward=outward)


def open_topology(root: Path, patch: Path | None, nodes: int) -> Adjacency:
    """Open a topology's rows, memory-mapped, with its delta, if any. A missing column is detected when it is read.

    Raises:
        CorruptError: An array is missing, or its dtype or length does not match the others.
    """
    rows = open_rows(PublishedDir(root))
    return rows_adjacency(rows, None if patch is None else open_patch(PublishedDir(patch), rows), nodes=nodes)


def rows_adjacency(
    rows: AdjacencyRows | LazyRows,
    patch: Patch[AdjacencyRows] | Patch[LazyRows] | None = None,
    *,
    nodes: int | None = None,
    outward: Bools | None = None,
) -> Adjacency:
    """Convert rows, with an optional delta, to the form that samplers read.

    Args:
        rows: The rows of the base.
        patch: The rows that replace some of the base's rows, or None.
        nodes: The number of nodes with a row, or None for the number of rows in `rows`.
        outward: [positions] For direction BOTH, whether the edge is traversed from its source.

    Raises:
        CorruptError: The delta does not fit the nodes.
    """
    count = rows.indptr.size - 1 if nodes is None else nodes
    tails = None if patch is None else _tails(patch, count, rows)
    arrays = row_arrays(rows.indptr, rows.indices, nodes=count, delta=tails)
    columns = _columns(rows, {} if patch is None else patch.rows.columns)
    return Adjacency(arrays, outward=outward, **columns)


def _columns(rows: AdjacencyRows | LazyRows, behind: Mapping[str, Source]) -> dict[str, EdgeColumn]:
    """Return the rows' columns by name, each with the delta's column."""
    sources: Mapping[str, Source] = rows.columns
    return {name: EdgeColumn(source, behind.get(name)) for name, source in sources.items() if name != "indices"}


def _tails(patch: Patch[AdjacencyRows] | Patch[LazyRows], nodes: int, root: AdjacencyRows | LazyRows) -> DeltaArrays:
    """Return a delta's rows in the form that kernels read."""
    rows = patch.rows
    return delta_arrays(patch.nodes, patch.kept, rows.indptr, rows.indices, nodes, root.indices.dtype)


def _outgoing(incoming: Adjacency, nodes: int, far_nodes: int, what: str) -> Adjacency:
    """Return the same edges with one row per source, sorted by (time, edge id)."""
    flat = incoming.flat()
    # Expand the IN rows to edges and sort them by source (radix sort), like the transpose of a sparse matrix.
    check_rows(flat.indptr[:-1], flat.indptr[1:], flat.indices, nodes, what)
    destination = np.repeat(np.arange(far_nodes, dtype=flat.indices.dtype), np.diff(flat.indptr))
    edges = EdgeArrays(flat.indices, destination, flat.edge_id, flat.time, flat.weight, flat.until)
    return rows_adjacency(edges.sort_edges(nodes, far_nodes, outgoing=True))


def _both(incoming: Adjacency, outgoing: Adjacency) -> Adjacency:
    """Return rows with each node's IN edges followed by its OUT edges."""
    inward, outs = incoming.flat(), outgoing.flat()
    bounds = [bound for rows in (inward, outs) for bound in (rows.indptr[:-1], rows.indptr[1:])]
    indptr, origin, outward = merge_rows(*bounds)
    columns = {}
    for name, ins in inward.columns.items():
        columns[name] = np.empty(origin.size, ins.dtype)
        columns[name][~outward] = ins[origin[~outward]]
        columns[name][outward] = outs.columns[name][origin[outward]]
    return rows_adjacency(rows_of(indptr, columns), outward=outward)


def open_incoming(root: Path, directory: Path, index: int, edge: EdgeLayout, nodes: int) -> Adjacency:
    """Open an edge type's IN rows, memory-mapped. An out-of-range index raises an error when it is read.

    Args:
        root: The database directory, to which the layout's paths are relative.
        directory: The snapshot's directory.
        index: The number of the edge type in the snapshot's layout.
        edge: The layout of the edge type.
        nodes: The number of nodes with a row.

    Raises:
        CorruptError: A file is missing, or its dtype or length does not match the others.
    """
    own = PublishedDir(directory)
    # A materialized encoding has separate rows. The other encodings restrict the rows of a shared topology.
    if edge.form == "materialized":
        return rows_adjacency(open_rows(own, f"rows-{index}-"), nodes=nodes)
    whole = open_topology(root / edge.topology, None if edge.patch is None else root / edge.patch, nodes)
    rows = whole.rows
    if edge.form == "ends":
        path = directory / f"ends-{index}.npy"
        return _with(whole, path, degrees=_degrees(path, own.array(path.name), rows))
    if edge.form == "bitmap":
        path = directory / f"live-{index}.npy"
        words = own.array(path.name)
        held = rows.indices.size + rows.delta.indices.size
        # The length is checked here, because kernels would read past the end of a bitmap that is too short.
        if words.dtype != np.uint64 or words.shape != ((held + 63) // 64,):
            raise damaged_file(path)
        return replace(whole, rows=rows._replace(live=live_arrays(words)))
    if edge.form != "full":
        raise CorruptError(
            f"the manifest of a snapshot is damaged: an edge type has the unknown encoding {edge.form!r}; "
            "create it again",
            code="damaged-snapshot",
        )
    return whole


def _with(whole: Adjacency, path: Path, degrees: Array) -> Adjacency:
    """Return the rows, each truncated to its degree in the snapshot."""
    rows = whole.rows
    if degrees.shape != (rows.nodes,):
        raise damaged_file(path)
    arrays = row_arrays(rows.indptr, rows.indices, nodes=rows.nodes, degrees=degrees, delta=rows.delta)
    return replace(whole, rows=arrays)


def _degrees(path: Path, values: Array, rows: RowArrays) -> Array:
    """Return the number of edges in each row. Older databases store the end of each row instead."""
    if values.dtype == np.int64 and values.shape == (rows.indptr.size - 1,):
        values = values - rows.indptr[:-1]
        if values.size and not 0 <= int(values.min()) <= int(values.max()) < 2**32:
            raise damaged_file(path)
    elif values.dtype != np.uint32:
        raise damaged_file(path)
    return values


def serves_outgoing(edge: EdgeLayout) -> bool:
    """Return whether an edge type can use the topology's OUT rows.

    It must select all edges, or all edges before a time.

    In time-sorted rows of either direction, the later edges are last.
    """
    return edge.form == "full" or (edge.form == "ends" and edge.before is not None)


def outgoing_artifact(edge: EdgeLayout) -> ArtifactSpec:
    """Return the artifact of the topology's OUT rows for an edge type."""
    # The family is the directory from which the rows are derived. Garbage collection keeps the rows as long as a
    # snapshot uses this directory.
    newest = edge.patch or edge.topology
    return ArtifactSpec(
        kind="topology",
        digest=digest_of("outgoing", 1, edge.topology, edge.patch),
        folder=str(Path(edge.topology).parent),
        family=f"outgoing:{newest}",
        version=0,
    )


def write_outgoing(
    root: Path,
    edge: EdgeLayout,
    counts: tuple[int, int],
    directory: Path,
    report: Callable[[float], None] | None = None,
) -> Metadata:
    """Sort a topology's edges by source in bounded memory. Returns metadata for a manifest.

    Args:
        root: The database directory.
        edge: The edge type's layout, which specifies the topology.
        counts: The numbers of dense ids for sources and destinations.
        directory: The directory in which the arrays are written.
        report: A function that is called with the completed share of the work.
    """
    sources, destinations = counts
    whole = open_topology(root / edge.topology, None if edge.patch is None else root / edge.patch, destinations)
    # This bound only determines the dtype of the ids, which must not change.
    last = 2**31 - 1 if whole.edge_id.dtype == np.int32 else 2**63 - 1
    return build_rows(
        _batches(whole), sources, destinations, whole.edges, last, directory, outgoing=True, report=report
    )


def open_outgoing(directory: Path, nodes: int, before: int | None) -> Adjacency:
    """Open the rows written by `write_outgoing`, each truncated to the edges before a time.

    Raises:
        CorruptError: A file is missing, or its dtype or length does not match the others.
    """
    whole = rows_adjacency(open_rows(PublishedDir(directory)), nodes=nodes)
    if before is None or whole.time is None:
        return whole
    # OUT rows are also sorted by time, so a snapshot needs no files for them. A binary search finds the end of each
    # row.
    degrees = prefix_degrees(whole.rows, whole.time, before)
    return Adjacency(
        whole.rows._replace(degrees=plain_array(degrees, np.uint32)),
        whole.edge_id,
        whole.time,
        whole.weight,
        whole.until,
    )


def _batches(whole: Adjacency) -> Iterator[pa.RecordBatch]:
    """Yield the edges of a topology in batches, with the columns that `build_rows` requires."""
    columns = {"e_id": whole.edge_id, "time": whole.time, "until": whole.until, "weight": whole.weight}
    for part in logical_parts(whole.rows):
        nodes = np.arange(part.low, part.low + part.indptr.size - 1)
        batch = {
            "source": neighbors_of(whole.rows, part.positions),
            "destination": np.repeat(nodes, np.diff(part.indptr)),
        }
        batch |= {name: column.read(part.positions) for name, column in columns.items() if column is not None}
        yield pa.RecordBatch.from_pydict(batch)
