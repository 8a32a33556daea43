"""COPY SNAPSHOT … TO as a data set of DGL: metadata.yaml of GraphBolt's OnDiskDataset, and arrays without pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from snapdb.arrays import Array
from snapdb.errors import BindError
from snapdb.execute.exports.arrays import OutputArray
from snapdb.execute.exports.elements import Export, Filled, Written, elements_of
from snapdb.execute.exports.yaml_text import Yaml, to_yaml
from snapdb.storage.array_files import write_array
from snapdb.storage.manifests import file_name
from snapdb.types import EdgeElement, VertexElement

_METADATA = "metadata.yaml"
_SETS = {
    "train": "train_set",
    "val": "validation_set",
    "valid": "validation_set",
    "validation": "validation_set",
    "test": "test_set",
}
"""The value of a split → GraphBolt's name of the set."""
_MASK = "_mask"
_BOUNDS = ("time", "edge_time", "edge_weight")
"""Arrays by which GraphBolt's samplers bound and weight neighbours, if they are attributes of the graph."""


def write_dgl(export: Export) -> list[Written]:
    """Write every array to a .npy file, and metadata.yaml, which GraphBolt's OnDiskDataset loads.

    Raises:
        BindError: The name of a type has a colon, which separates the names in GraphBolt's edge types.
    """
    elements = list(elements_of(export, _with_single_weights))
    _check_names(export, elements)
    written = [Written(e.element, e.rows, (_METADATA, *_write(export, e)), e.fields) for e in elements]
    sets = _Sets(export, elements)
    metadata = _metadata(export.plan.snapshot.name, elements, sets.tasks())
    export.folder.file(_METADATA).write_text(to_yaml(metadata), "utf-8")
    return [written[0]._replace(files=(*written[0].files, *sets.files)), *written[1:]]


def _with_single_weights(array: OutputArray) -> OutputArray:
    """Return weights as float32, by which DGL's layers multiply."""
    if array.name != "edge_weight":
        return array
    single = np.dtype(np.float32)
    return array._replace(dtype=single, parts=lambda: (part.astype(single) for part in array.parts()))


def _check_names(export: Export, elements: Sequence[Filled]) -> None:
    for filled in elements:
        if ":" in filled.element.name:
            raise BindError(
                f"FORMAT dgl does not support the colon in {filled.element.name}, because GraphBolt names edge types "
                "source:edge:destination; create the graph with another name after AS",
                span=export.plan.span,
                code="bad-name",
            )


def _path(filled: Filled, array: str) -> str:
    kind = "edges" if isinstance(filled.element, EdgeElement) else "nodes"
    return f"{kind}/{file_name(filled.element.name)}/{file_name(array)}.npy"


def _write(export: Export, filled: Filled) -> list[str]:
    for array in filled.arrays:
        write_array(export.folder.file(_path(filled, array.name)), array.dtype, array.shape, array.parts())
    return [_path(filled, array.name) for array in filled.arrays]


def _metadata(name: str, elements: Sequence[Filled], tasks: list[Yaml]) -> dict[str, Yaml]:
    """Return the content of metadata.yaml. A graph with one vertex type and one edge type has no names of types."""
    single = _is_single(elements)
    nodes, edges, features, attributes = list[Yaml](), list[Yaml](), list[Yaml](), list[Yaml]()
    for filled in elements:
        domain = "edge" if isinstance(filled.element, EdgeElement) else "node"
        kind = _kind(filled.element, single)
        if domain == "node":
            nodes.append({**kind, "num": filled.rows})
        else:
            edges.append({**kind, "format": "numpy", "path": _path(filled, "edge_index")})
        for array in _features(filled):
            path = _path(filled, array.name)
            feature: dict[str, Yaml] = {"domain": domain, **kind, "name": array.name, "format": "numpy", "path": path}
            features.append(feature)
            # GraphBolt does not reorder the attributes of several edge types with their edges.
            if single and array.name in _BOUNDS:
                attributes.append(feature)
    graph: dict[str, Yaml] = {"nodes": nodes, "edges": edges}
    graph |= {"feature_data": attributes} if attributes else {}
    return {"dataset_name": name, "graph": graph, "feature_data": features, "tasks": tasks}


def _is_single(elements: Sequence[Filled]) -> bool:
    edges = sum(isinstance(filled.element, EdgeElement) for filled in elements)
    return edges == 1 and len(elements) == 1 + edges


def _kind(element: VertexElement | EdgeElement, single: bool) -> Mapping[str, Yaml]:
    name = ":".join(element.type) if isinstance(element, EdgeElement) else element.name
    return {} if single else {"type": name}


def _features(filled: Filled) -> list[OutputArray]:
    """Return the arrays with a row of numbers per vertex or edge, except keys and masks."""
    return [
        array
        for array in filled.arrays
        if array.shape[:1] == (filled.rows,)
        and array.dtype.kind in "biuf"
        and "." not in array.name
        and array.name not in ("ids", "y_classes", "edge_index")
        and not (array.name.endswith(_MASK) and array.dtype.kind == "b")
    ]


class _Sets:
    """The sets of seeds of a task, from the masks of a split."""

    def __init__(self, export: Export, elements: Sequence[Filled]) -> None:
        self._export, self._elements = export, elements
        self.files = list[str]()

    def tasks(self) -> list[Yaml]:
        """Write the seeds and labels of each set, and return the task, or none if no vertex type has a usable split."""
        sets: dict[str, list[Yaml]] = {}
        labels = list[Array]()
        for filled in self._elements:
            named = {array.name: array for array in filled.arrays}
            target = named["y"].whole() if "y" in named else None
            for split, name in _SETS.items():
                if split + _MASK in named and isinstance(filled.element, VertexElement):
                    seeds = np.flatnonzero(named[split + _MASK].whole())
                    sets.setdefault(name, []).append(self._set(filled, split, seeds, target))
                    labels += [] if target is None else [target]
        if not sets:
            return []
        return [{**_task(labels), **{name: sets[name] for name in dict.fromkeys(_SETS.values()) if name in sets}}]

    def _set(self, filled: Filled, split: str, seeds: Array, target: Array | None) -> Yaml:
        """Write the seeds of a set and their labels. Vertices without a label are left out."""
        if target is not None:
            known = ~np.isnan(target[seeds]) if target.dtype.kind == "f" else target[seeds] != -1
            seeds = seeds[known]
        arrays = {"seeds": seeds} | ({} if target is None else {"labels": target[seeds]})
        data = list[Yaml]()
        for name, values in arrays.items():
            path = _path(filled, f"{split}_{name}")
            write_array(self._export.folder.file(path), values.dtype, values.shape, [values])
            self.files.append(path)
            data.append({"name": name, "format": "numpy", "path": path})
        return {**_kind(filled.element, _is_single(self._elements)), "data": data}


def _task(labels: Sequence[Array]) -> dict[str, Yaml]:
    if not labels or labels[0].dtype.kind == "f":
        return {"name": "node_regression" if labels else "nodes"}
    return {"name": "node_classification", "num_classes": max(int(each.max(initial=-1)) + 1 for each in labels)}
