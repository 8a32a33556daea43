"""COPY SNAPSHOT … TO: writes every element of a snapshot to a directory with a manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from snapdb.builders.element_columns import Reading
from snapdb.execute.exports.arrow_files import write_arrow
from snapdb.execute.exports.elements import Export, Written
from snapdb.execute.exports.folders import export_folder
from snapdb.execute.exports.formats import write_archives, write_pyg, write_tables
from snapdb.execute.exports.graphar import write_graphar
from snapdb.execute.exports.graphbolt import write_dgl
from snapdb.execute.exports.tensors import write_safetensors
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext
from snapdb.graph import open_snapshot
from snapdb.plan.exports import CopySnapshotPlan, SnapshotFormat
from snapdb.types import RNG_SCHEME, EdgeElement
from snapdb.types.text import counted, size_words

_WRITERS: Mapping[SnapshotFormat, Callable[[Export], list[Written]]] = {
    "parquet": write_tables,
    "npz": write_archives,
    "pyg": write_pyg,
    "arrow": write_arrow,
    "safetensors": write_safetensors,
    "graphar": write_graphar,
    "dgl": write_dgl,
}
"""Maps each format to the function that writes the directory's files."""


def copy_snapshot(plan: CopySnapshotPlan, context: ExecutionContext) -> Rows:
    """Run COPY SNAPSHOT … TO: write every element of a snapshot to a directory, as tables, arrays or PyG data."""
    yield from ()
    snapshot = plan.snapshot
    opened = open_snapshot(context.store.catalog_db, snapshot)
    try:
        with export_folder(context, plan.path, plan.span, overwrite=plan.overwrite) as folder:
            reading = Reading.of(context, snapshot, opened.view, opened.id_maps)
            written = _WRITERS[plan.format](Export(context, plan, reading, folder))
            files = sorted({file for each in written for file in each.files})
            size = sum(folder.wrote(file) for file in files)
            folder.finish(_manifest(plan, written) | {"lineage": {**opened.view.lineage, "rng": RNG_SCHEME}})
    finally:
        opened.lease.release()
    edges = sum(each.rows for each in written if isinstance(each.element, EdgeElement))
    vertices = sum(each.rows for each in written) - edges
    counts = f"{counted(vertices, 'vertex', 'vertices')} and {counted(edges, 'edge')}"
    return Outcome(f"{counts} to {plan.path}, {size_words(size)} in {counted(len(files), 'file')}", vertices + edges)


def _manifest(plan: CopySnapshotPlan, written: Sequence[Written]) -> dict[str, Any]:
    """Return the directory's manifest, with the file, number of rows and fields of each element."""
    schema: dict[str, dict[str, Any]] = {"vertices": {}, "edges": {}}
    for element, rows, files, fields in written:
        entry = {"file": files[0], "rows": rows, "fields": fields}
        if isinstance(element, EdgeElement):
            schema["edges"][element.name] = {"source": element.source, "destination": element.destination, **entry}
        else:
            split = plan.splits.get(element.name)
            schema["vertices"][element.name] = {"key": list(element.key), "split": split, **entry}
    return {"kind": "snapshot", "file_format": plan.format, "schema": schema}
