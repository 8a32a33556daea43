"""The three ways to write a snapshot: a table of each element, its arrays, or everything as one object of PyG's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from snapdb import loading
from snapdb.errors import BindError, DataError
from snapdb.execute.copy_to import write_rows
from snapdb.execute.element_columns import Reading
from snapdb.execute.operator import Engine
from snapdb.execute.snapshot_arrays import Array, Numbering, edge_arrays, numbering_of
from snapdb.execute.vertex_arrays import masks, vertex_arrays
from snapdb.plan.asked import Asked
from snapdb.plan.exports import CopySnapshotPlan, SnapshotFormat
from snapdb.storage.folder import FolderWriter, file_name
from snapdb.storage.npz import ArrayArchive
from snapdb.types import EdgeElement, VertexElement

Element = VertexElement | EdgeElement

_PYG_FILE = "data.pt"


@dataclass(frozen=True, slots=True)
class Export:
    """What is written, and where."""

    engine: Engine
    plan: CopySnapshotPlan
    reading: Reading
    folder: FolderWriter


class Written(NamedTuple):
    """One element in its file."""

    element: Element
    rows: int
    file: str
    fields: Mapping[str, Any]
    """Types of its columns, or types and shapes of its arrays, by name."""


class _Filled(NamedTuple):
    """One element as arrays."""

    element: Element
    rows: int
    arrays: list[Array]

    @property
    def fields(self) -> dict[str, Any]:
        return {array.name: {"type": str(array.dtype), "shape": list(array.shape)} for array in self.arrays}


def _tables(export: Export) -> list[Written]:
    """Each element as Parquet, with the columns that the snapshot shows."""
    engine, plan, found = export.engine, export.plan, []
    views = engine.context.views(plan.snapshot)
    for element in plan.snapshot.graph.elements:
        query, file = Asked(views[element.name], plan.span), _file(element, "parquet")
        with engine.context.session(query) as session, engine.watching(session, f"writing {element.name}"):
            engine.check_stopped()
            columns = {column.name: column.type for column in session.describe(query.text)}
            rows = write_rows(session, query, export.folder.file(file), "parquet", "FORMAT parquet")
        found.append(Written(element, rows, file, columns))
    return found


def _archives(export: Export) -> list[Written]:
    """Each element as arrays of numpy's."""
    found = []
    for filled in _elements(export):
        file = _file(filled.element, "npz")
        with ArrayArchive(export.folder.file(file)) as archive:
            for array in filled.arrays:
                archive.add(array.name, array.dtype, array.shape, array.parts())
        found.append(Written(filled.element, filled.rows, file, filled.fields))
    return found


def _pyg(export: Export) -> list[Written]:
    """All elements in one file of torch's."""
    loading.pyg_package("FORMAT pyg")  # it is missed before anything is read
    found = list(_elements(export, _as_pyg))
    whole = [(each.element, _nested(each.arrays)) for each in found]
    loading.save_pyg(
        export.folder.file(_PYG_FILE),
        {element.name: fields for element, fields in whole if isinstance(element, VertexElement)},
        {each.element.name: each.rows for each in found},
        {element.type: fields for element, fields in whole if isinstance(element, EdgeElement)},
    )
    return [Written(each.element, each.rows, _PYG_FILE, each.fields) for each in found]


WRITERS: Mapping[SnapshotFormat, Callable[[Export], list[Written]]] = {
    "parquet": _tables,
    "npz": _archives,
    "pyg": _pyg,
}
"""What fills the folder, by its format."""


def _as_written(array: Array) -> Array:
    """The array as it is."""
    return array


def _as_pyg(array: Array) -> Array:
    """An array of edges as PyG wants it: its loaders call an edge's position e_id, its layers multiply by weights."""
    if array.name == "e_id":
        return array._replace(name="edge_id")
    if array.name != "edge_weight":
        return array
    single = np.dtype(np.float32)
    return array._replace(dtype=single, parts=lambda: (part.astype(single) for part in array.parts()))


def _elements(export: Export, changed: Callable[[Array], Array] = _as_written) -> Iterator[_Filled]:
    """Every element with its arrays, of which nothing is read yet; those of edges changed."""
    graph, view, splits = export.plan.snapshot.graph, export.reading.view, export.plan.splits
    numbered = {vertex.name: numbering_of(view, vertex.name) for vertex in graph.vertices}
    for vertex in graph.vertices:
        numbering = numbered[vertex.name]
        arrays = list(vertex_arrays(export.reading, vertex, numbering))
        if vertex.name in splits:
            arrays += _masks(export, vertex.name, splits[vertex.name], numbering)
        yield _Filled(vertex, numbering.count, _told(export, vertex.name, arrays))
    for edge in graph.edges:
        ends = numbered[edge.source], numbered[edge.destination]
        arrays = [changed(found) for found in edge_arrays(view, edge, *ends)]
        yield _Filled(edge, arrays[0].shape[1], _told(export, edge.name, arrays))


def _masks(export: Export, vertex_type: str, column: str, numbering: Numbering) -> list[Array]:
    """The masks of a split; none where nobody asked for them and the column is something else."""
    try:
        return masks(export.reading, vertex_type, column, numbering)
    except DataError as error:
        if error.code == "bad-split" and not export.plan.split_said:
            return []
        raise


def _told(export: Export, element: str, arrays: list[Array]) -> list[Array]:
    """The arrays, which tell what is being written while they are read, and stop where that was asked for."""
    twice = [name for name, count in Counter(array.name for array in arrays).items() if count > 1]
    if twice:
        raise BindError(
            f'FORMAT {export.plan.format} calls an array of {element} "{twice[0]}", and so does a feature '
            "of the graph; name the feature otherwise, or write FORMAT parquet",
            span=export.plan.span,
            code="duplicate-name",
        )

    def steps(array: Array, share: float) -> Iterator[npt.NDArray[Any]]:
        for part in array.parts():
            export.engine.step(f"writing {element}", share)
            yield part

    return [array._replace(parts=partial(steps, array, i / len(arrays))) for i, array in enumerate(arrays)]


def _nested(arrays: list[Array]) -> dict[str, Any]:
    """Arrays, read whole, by their names; those that are parts of something are together."""
    found: dict[str, Any] = {}
    for array in arrays:
        name, dot, part = array.name.partition(".")
        if dot:
            found.setdefault(name, {})[part] = array.whole()
        else:
            found[name] = array.whole()
    return found


def _file(element: Element, suffix: str) -> str:
    """Where in the folder an element is."""
    return f"{'edges' if isinstance(element, EdgeElement) else 'vertices'}/{file_name(element.name)}.{suffix}"
