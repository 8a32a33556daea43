"""The rows of a relation: IN in each of the four forms, OUT and BOTH built on first use and kept."""

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
    """Opens relations of one snapshot; each is built once, by the first thread that reads it."""

    incoming: Mapping[EdgeType, Callable[[], Adjacency]]
    """Opens an edge type's in-neighbours."""
    node_counts: Mapping[str, int]
    outgoing: Mapping[EdgeType, Callable[[], Adjacency]] = field(default_factory=dict)
    """Opens an edge type's out-neighbours, where they lie on the disk too."""
    _opened: dict[Relation, Adjacency] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, relation: Relation) -> Adjacency:
        with self._guard:
            return self._open(relation)

    def __getstate__(self) -> dict[str, object]:
        """For DataLoader workers that are spawned: a lock cannot be pickled, and rows are built again."""
        return {"incoming": self.incoming, "node_counts": self.node_counts, "outgoing": self.outgoing}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _opened={}, _guard=threading.Lock())

    def _open(self, relation: Relation) -> Adjacency:
        if relation not in self._opened:
            self._opened[relation] = self._build(relation)
        return self._opened[relation]

    def _build(self, relation: Relation) -> Adjacency:
        if relation.direction == "IN":
            return self.incoming[relation.edge]()
        if relation.direction == "OUT" and (opened := self.outgoing.get(relation.edge)):
            return opened()
        incoming = self._open(Relation(relation.edge, "IN"))
        if relation.direction == "OUT":
            expands, reaches = (self.node_counts[name] for name in (relation.expands, relation.reaches))
            return _outgoing(incoming, expands, reaches, relation.edge.edge)
        return _both(incoming, self._open(Relation(relation.edge, "OUT")))


class WithoutIdle(NamedTuple):
    """Opens relations, but those that are idle."""

    reader: EdgeReader
    idle: frozenset[Relation]
    graph: PropertyGraph
    node_counts: Mapping[str, int]

    def __call__(self, relation: Relation) -> Adjacency:
        """The relation's rows; of an idle one no row has an edge, and it has the columns that its edges would have."""
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
    """The rows of a topology, whole, over a patch where there is one; memory-mapped; a column may be missing.

    Raises:
        CorruptError: an array is missing, or of another type or length than the others need.
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
    """Rows as a sampler reads them, whole or over a patch.

    Args:
        patch: What some rows are instead.
        nodes: How many nodes have a row; None: those of `rows`.
        outward: For BOTH: by position, whether the edge is walked from its source.

    Raises:
        CorruptError: the patch is of other nodes.
    """
    count = rows.indptr.size - 1 if nodes is None else nodes
    tails = None if patch is None else _tails(patch, count, rows)
    arrays = row_arrays(rows.indptr, rows.indices, nodes=count, delta=tails)
    columns = _columns(rows, {} if patch is None else patch.rows.columns)
    return Adjacency(arrays, outward=outward, **columns)


def _columns(rows: AdjacencyRows | LazyRows, behind: Mapping[str, Source]) -> dict[str, EdgeColumn]:
    """The columns of rows by name, over those of their patch."""
    sources: Mapping[str, Source] = rows.columns
    return {name: EdgeColumn(source, behind.get(name)) for name, source in sources.items() if name != "indices"}


def _tails(patch: Patch[AdjacencyRows] | Patch[LazyRows], nodes: int, root: AdjacencyRows | LazyRows) -> DeltaArrays:
    rows = patch.rows
    return delta_arrays(patch.nodes, patch.kept, rows.indptr, rows.indices, nodes, root.indices.dtype)


def _outgoing(incoming: Adjacency, nodes: int, far_nodes: int, what: str) -> Adjacency:
    """The same edges as rows of their sources, by (time, edge id)."""
    flat = incoming.flat()
    check_rows(flat.indptr[:-1], flat.indptr[1:], flat.indices, nodes, what)
    destination = np.repeat(np.arange(far_nodes, dtype=flat.indices.dtype), np.diff(flat.indptr))
    edges = EdgeArrays(flat.indices, destination, flat.edge_id, flat.time, flat.weight, flat.until)
    return rows_adjacency(edges.sort_edges(nodes, far_nodes, outgoing=True))


def _both(incoming: Adjacency, outgoing: Adjacency) -> Adjacency:
    """Each node's IN row, then its OUT row."""
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
    """The rows of an edge type, memory-mapped; an index that leads out of them raises the error when it is read.

    Args:
        root: The database's directory, in which the layout's paths lie.
        directory: The snapshot's.
        index: The edge type's number in the snapshot's layout.
        edge: How it lies there.
        nodes: How many nodes have a row.

    Raises:
        CorruptError: a file is missing, or of another type or length than the others need.
    """
    own = PublishedDir(directory)
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
        if words.dtype != np.uint64 or words.shape != ((held + 63) // 64,):
            raise damaged_file(path)
        return replace(whole, rows=rows._replace(live=live_arrays(words)))
    if edge.form != "full":
        raise CorruptError(
            f"the manifest of a snapshot is damaged: an edge type lies as {edge.form!r}; create it again",
            code="damaged-snapshot",
        )
    return whole


def _with(whole: Adjacency, path: Path, degrees: Array) -> Adjacency:
    rows = whole.rows
    if degrees.shape != (rows.nodes,):
        raise damaged_file(path)
    arrays = row_arrays(rows.indptr, rows.indices, nodes=rows.nodes, degrees=degrees, delta=rows.delta)
    return replace(whole, rows=arrays)


def _degrees(path: Path, values: Array, rows: RowArrays) -> Array:
    """How many edges each row has; older databases hold where it ends instead."""
    if values.dtype == np.int64 and values.shape == (rows.indptr.size - 1,):
        values = values - rows.indptr[:-1]
        if values.size and not 0 <= int(values.min()) <= int(values.max()) < 2**32:
            raise damaged_file(path)
    elif values.dtype != np.uint32:
        raise damaged_file(path)
    return values


def serves_outgoing(edge: EdgeLayout) -> bool:
    """Whether the rows of the whole topology tell an edge type's out-neighbours: nothing, or just what is late, is out.

    In rows in the order of time what is late comes last, whichever way the edges are walked.
    """
    return edge.form == "full" or (edge.form == "ends" and edge.before is not None)


def outgoing_artifact(edge: EdgeLayout) -> ArtifactSpec:
    """What the out-rows of an edge type's topology are, wherever they are."""
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
    """Sort a topology's edges by their sources, in bounded memory; returns the facts for a manifest.

    Args:
        root: The database's directory.
        edge: Names the topology.
        counts: How many dense ids the sources and the destinations have.
        directory: Where the arrays go.
        report: Told the fraction done.
    """
    sources, destinations = counts
    whole = open_topology(root / edge.topology, None if edge.patch is None else root / edge.patch, destinations)
    last = 2**31 - 1 if whole.edge_id.dtype == np.int32 else 2**63 - 1
    return build_rows(
        _batches(whole), sources, destinations, whole.edges, last, directory, outgoing=True, report=report
    )


def open_outgoing(directory: Path, nodes: int, before: int | None) -> Adjacency:
    """The rows that `write_outgoing` wrote, each cut where its edges are no longer before that moment.

    Raises:
        CorruptError: a file is missing, or of another type or length than the others need.
    """
    whole = rows_adjacency(open_rows(PublishedDir(directory)), nodes=nodes)
    if before is None or whole.time is None:
        return whole
    degrees = prefix_degrees(whole.rows, whole.time, before)
    return Adjacency(
        whole.rows._replace(degrees=plain_array(degrees, np.uint32)),
        whole.edge_id,
        whole.time,
        whole.weight,
        whole.until,
    )


def _batches(whole: Adjacency) -> Iterator[pa.RecordBatch]:
    columns = {"e_id": whole.edge_id, "time": whole.time, "until": whole.until, "weight": whole.weight}
    for part in logical_parts(whole.rows):
        nodes = np.arange(part.low, part.low + part.indptr.size - 1)
        batch = {
            "source": neighbors_of(whole.rows, part.positions),
            "destination": np.repeat(nodes, np.diff(part.indptr)),
        }
        batch |= {name: column.read(part.positions) for name, column in columns.items() if column is not None}
        yield pa.RecordBatch.from_pydict(batch)
