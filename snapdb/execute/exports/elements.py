"""The elements of a snapshot as arrays, for the writers of COPY SNAPSHOT … TO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from snapdb.arrays import Array
from snapdb.builders.element_columns import Reading
from snapdb.errors import BindError, DataError
from snapdb.execute.exports.arrays import (
    Numbering,
    OutputArray,
    edge_arrays,
    masks,
    numbering_of,
    row_bounds,
    vertex_arrays,
)
from snapdb.execute.session import ExecutionContext
from snapdb.plan.exports import CopySnapshotPlan
from snapdb.storage.manifests import FolderWriter, file_name
from snapdb.types import EdgeElement, VertexElement

Element = VertexElement | EdgeElement


class Export(NamedTuple):
    """The source and the destination of an export."""

    context: ExecutionContext
    plan: CopySnapshotPlan
    reading: Reading
    folder: FolderWriter


class Written(NamedTuple):
    """An element that has been written to files."""

    element: Element
    rows: int
    files: tuple[str, ...]
    """The paths of its files in the directory. Elements can share files. The manifest's schema names the first one."""
    fields: Mapping[str, Any]
    """The types of its columns, or the types and shapes of its arrays, by name."""


class Filled(NamedTuple):
    """An element as arrays."""

    element: Element
    rows: int
    arrays: list[OutputArray]

    @property
    def fields(self) -> dict[str, Any]:
        return {array.name: {"type": str(array.dtype), "shape": list(array.shape)} for array in self.arrays}


def _as_written(array: OutputArray) -> OutputArray:
    return array


def elements_of(
    export: Export, changed: Callable[[OutputArray], OutputArray] = _as_written, *, bounds: bool = False
) -> Iterator[Filled]:
    """Yield every element with its arrays, which have not been read yet.

    Args:
        export: The export.
        changed: Converts the arrays of edges.
        bounds: Whether `indptr` is the last array of each edge type.
    """
    graph, view, splits = export.plan.snapshot.graph, export.reading.view, export.plan.splits
    numbered = {vertex.name: numbering_of(view, vertex.name) for vertex in graph.vertices}
    for vertex in graph.vertices:
        numbering = numbered[vertex.name]
        arrays = list(vertex_arrays(export.reading, vertex, numbering))
        if vertex.name in splits:
            arrays += _masks(export, vertex.name, splits[vertex.name], numbering)
        yield Filled(vertex, numbering.count, _reporting(export, vertex.name, arrays))
    for edge in graph.edges:
        ends = numbered[edge.source], numbered[edge.destination]
        arrays = [changed(array) for array in edge_arrays(view, edge, *ends)]
        count = arrays[0].shape[1]
        arrays += [row_bounds(view, edge, ends[1])] if bounds else []
        yield Filled(edge, count, _reporting(export, edge.name, arrays))


def _masks(export: Export, vertex_type: str, column: str, numbering: Numbering) -> list[OutputArray]:
    """Return the masks of a split, or none if SPLIT was omitted and the default column has no usable values."""
    try:
        return masks(export.reading, vertex_type, column, numbering)
    except DataError as error:
        if error.code == "bad-split" and not export.plan.split_said:
            return []
        raise


def _reporting(export: Export, element: str, arrays: list[OutputArray]) -> list[OutputArray]:
    """Return the arrays, wrapped to report progress and to check for a stop request while they are read."""
    twice = [name for name, count in Counter(array.name for array in arrays).items() if count > 1]
    if twice:
        raise BindError(
            f'FORMAT {export.plan.format} has an array "{twice[0]}" of {element}, which is also a feature '
            "of the graph; rename the feature, or write FORMAT parquet",
            span=export.plan.span,
            code="duplicate-name",
        )

    def steps(array: OutputArray, share: float) -> Iterator[Array]:
        for part in array.parts():
            export.context.step(f"writing {element}", share)
            yield part

    def reported(array: OutputArray, share: float) -> OutputArray:
        rows = tuple(reported(row, share) for row in array.rows)
        return array._replace(parts=partial(steps, array, share), rows=rows)

    return [reported(array, i / len(arrays)) for i, array in enumerate(arrays)]


def file_of(element: Element, suffix: str) -> str:
    """Return the path of an element's file in the directory."""
    return f"{'edges' if isinstance(element, EdgeElement) else 'vertices'}/{file_name(element.name)}.{suffix}"
