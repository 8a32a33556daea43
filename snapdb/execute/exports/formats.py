"""COPY SNAPSHOT … TO as Parquet tables, NumPy archives, or data of PyG."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapdb import loading
from snapdb.execute.exports.arrays import OutputArray
from snapdb.execute.exports.elements import Export, Written, elements_of, file_of
from snapdb.execute.exports.files import write_rows
from snapdb.plan.queries import BoundQuery
from snapdb.storage.array_files import ArrayArchive
from snapdb.types import EdgeElement, VertexElement

_PYG_FILE = "data.pt"


def write_tables(export: Export) -> list[Written]:
    """Write each element as Parquet, with the columns of the snapshot's view."""
    context, plan, entries = export.context, export.plan, []
    views = context.bind_context.views(plan.snapshot)
    for element in plan.snapshot.graph.elements:
        query, file = BoundQuery(views[element.name], plan.span), file_of(element, "parquet")
        with context.bind_context.session(query) as session, context.watching(session, f"writing {element.name}"):
            context.check_stopped()
            columns = {column.name: column.type for column in session.describe(query.text)}
            rows = write_rows(session, query, export.folder.file(file), "parquet", "FORMAT parquet")
        entries.append(Written(element, rows, (file,), columns))
    return entries


def write_archives(export: Export) -> list[Written]:
    """Write each element as an .npz archive."""
    entries = []
    for filled in elements_of(export):
        file = file_of(filled.element, "npz")
        with ArrayArchive(export.folder.file(file)) as archive:
            for array in filled.arrays:
                archive.add(array.name, array.dtype, array.shape, array.parts())
        entries.append(Written(filled.element, filled.rows, (file,), filled.fields))
    return entries


def write_pyg(export: Export) -> list[Written]:
    """Write all elements into one file for PyG."""
    loading.pyg_package("FORMAT pyg")  # reports a missing package before anything is read
    elements = list(elements_of(export, _as_pyg))
    whole = [(each.element, _nested(each.arrays)) for each in elements]
    loading.save_pyg(
        export.folder.file(_PYG_FILE),
        {element.name: fields for element, fields in whole if isinstance(element, VertexElement)},
        {each.element.name: each.rows for each in elements},
        {element.type: fields for element, fields in whole if isinstance(element, EdgeElement)},
    )
    return [Written(each.element, each.rows, (_PYG_FILE,), each.fields) for each in elements]


def _as_pyg(array: OutputArray) -> OutputArray:
    """Convert an edge array for PyG, whose loaders reserve the name e_id and whose layers require float32 weights."""
    if array.name == "e_id":
        return array._replace(name="edge_id")
    if array.name != "edge_weight":
        return array
    single = np.dtype(np.float32)
    return array._replace(dtype=single, parts=lambda: (part.astype(single) for part in array.parts()))


def _nested(arrays: list[OutputArray]) -> dict[str, Any]:
    """Read arrays into a dictionary by name. Arrays with dotted names are nested."""
    nested: dict[str, Any] = {}
    for array in arrays:
        name, dot, part = array.name.partition(".")
        if dot:
            nested.setdefault(name, {})[part] = array.whole()
        else:
            nested[name] = array.whole()
    return nested
