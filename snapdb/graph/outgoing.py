"""The out-neighbours of a large topology as rows of their own: made once, on first need, for all snapshots of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from snapdb.graph.adjacency import open_topology, rows_adjacency
from snapdb.graph.layout import EdgeLayout
from snapdb.graph.view import Adjacency
from snapdb.kernels.forms import plain_array
from snapdb.kernels.prefix import prefix_degrees
from snapdb.kernels.rows import logical_parts, neighbours_of
from snapdb.storage.arrays.topology import build_rows, open_rows
from snapdb.storage.artifacts import ArtifactSpec, digest_of
from snapdb.storage.manifests import PublishedDir


def serves_outgoing(edge: EdgeLayout) -> bool:
    """Whether the rows of the whole topology tell an edge type's out-neighbours: nothing, or just what is late, is out.

    In rows in the order of time what is late comes last, whichever way the edges are walked.
    """
    return edge.form == "full" or (edge.form == "ends" and edge.before is not None)


def outgoing_artefact(edge: EdgeLayout) -> ArtifactSpec:
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
) -> dict[str, Any]:
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
            "source": neighbours_of(whole.rows, part.positions),
            "destination": np.repeat(nodes, np.diff(part.indptr)),
        }
        batch |= {name: column.read(part.positions) for name, column in columns.items() if column is not None}
        yield pa.RecordBatch.from_pydict(batch)
