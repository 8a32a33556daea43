"""The rows of a path search: the elements that each path binds, as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapdb.arrays import Array, Bools, Int64s
from snapdb.kernels.paths.problem import Paths
from snapdb.paths.bindings import ordered_transitions
from snapdb.paths.numbering import Numbering
from snapdb.plan.searches import Output, PathSearch
from snapdb.types import Column

_E_ID = Column("e_id", "BIGINT")


@dataclass(slots=True)
class PathRows:
    """Converts paths to rows."""

    numbering: Numbering
    search: PathSearch
    schema: pa.Schema
    real: Int64s | None
    """[nodes] The vertex of each node inside a chain, or None without chains."""
    done: int = 0
    """The number of rows so far."""

    def batch(self, paths: Paths) -> pa.RecordBatch:
        """Return paths as rows, except those that bind a variable to two elements."""
        nodes = paths.nodes if self.real is None else self.real[paths.nodes]
        bound = _Bound(self.search, paths._replace(nodes=nodes))
        columns: list[pa.Array] = []
        for output in self.search.outputs:
            columns += self._columns(output, bound)
        batch = pa.RecordBatch.from_arrays(
            [_cast(column, field.type) for column, field in zip(columns, self.schema, strict=True)], schema=self.schema
        )
        self.done += bound.count
        if self.search.equal:
            batch = batch.filter(pa.array(np.logical_and.reduce([bound.agrees(name) for name in self.search.equal])))
        return batch

    def _columns(self, output: Output, bound: _Bound) -> list[pa.Array]:
        match output.kind:
            case "match":
                return [pa.array(np.arange(self.done, self.done + bound.count, dtype=np.int64))]
            case "length":
                return [pa.array(bound.paths.length)]
            case "node":
                return self._nodes(output, bound.node(output.variable))
            case "edge":
                return self._edges(output, bound.edge(output.variable))
            case "nodes":
                values, offsets = bound.nodes(output.variable)
                return [_list(column, offsets) for column in self._nodes(output, values)]
            case "edges":
                values, offsets = bound.edges(output.variable)
                return [_list(column, offsets) for column in self._edges(output, values)]
            case "vertices":
                return [_list(self._vertex_ids(output.types, bound.paths.nodes), bound.paths.ptr)]
            case "path_edges":
                offsets = bound.paths.ptr - np.arange(bound.count + 1)
                return [_list(self._edge_ids(output.types, bound.paths.edges), offsets)]
        return [self._elements(output, bound.paths)]

    def _nodes(self, output: Output, values: Int64s) -> list[pa.Array]:
        """Return the columns of vertices: their type, if there are several, and their key per type."""
        kinds, dense = self.numbering.split(values)
        columns = []
        names = [*self.search.vertices]
        if len(output.types) != 1:
            columns.append(_named(names, np.where(values < 0, -1, kinds)))
        for name in output.types:
            if name in dense:
                columns += self.numbering.keys(name, np.where(values < 0, -1, dense[name]))
            else:
                columns += [pa.nulls(values.size)]
        return columns

    def _edges(self, output: Output, codes: Int64s) -> list[pa.Array]:
        types = [name.lower() for name in self.search.edges]
        kinds = np.where(codes < 0, -1, codes % max(len(types), 1))
        ids = np.where(codes < 0, -1, codes // max(len(types), 1))
        columns = []
        if len(output.types) != 1:
            columns.append(_named(types, kinds))
        for name in output.types:
            own = ids if len(types) == 1 else np.where(kinds == (types.index(name) if name in types else -2), ids, -1)
            columns.append(pa.array(own, mask=own < 0))
        return columns

    def _vertex_ids(self, types: Sequence[str], values: Int64s) -> pa.Array:
        """Return the identities of vertices: keys, or structs if keys are composite or types differ."""
        vertices = self.search.vertices
        _, dense = self.numbering.split(values)
        keys = {name: self.numbering.keys(name, dense[name]) for name in types if name in dense}
        if len(types) == 1 and len(keys) == 1:
            ((name, columns),) = keys.items()
            names = [c.name for c in vertices[name].key]
            return columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, names)
        kinds, _ = self.numbering.split(values)
        shown = _named([v.name for v in vertices.values()], kinds)
        fields = {name: list(zip(vertices[name].key, columns, strict=True)) for name, columns in keys.items()}
        return _struct(shown, [pair for pairs in fields.values() for pair in pairs])

    def _edge_ids(self, types: Sequence[str], codes: Int64s) -> pa.Array:
        count = max(len(self.search.edges), 1)
        ids = pa.array(codes // count)
        if len(types) == 1:
            return ids
        return _struct(_named(self.search.edges, codes % count), [(_E_ID, ids)])

    def _elements(self, output: Output, paths: Paths) -> pa.Array:
        """Return the vertices and edges of each path in turn."""
        count = paths.length.size
        starts = paths.ptr[:-1] * 2 - np.arange(count)
        offsets = np.append(starts, (paths.ptr[-1] * 2 - count) if count else 0)
        total = int(offsets[-1])
        place = np.arange(total) - np.repeat(starts, paths.length * 2 + 1)
        order = np.empty(total, np.int64)
        order[place % 2 == 0] = np.arange(paths.nodes.size)
        order[place % 2 == 1] = paths.nodes.size + np.arange(paths.edges.size)
        types = [name for name in output.types if name in self.search.vertices]
        edges = [name for name in output.types if name not in types]
        if len(types) == 1 and len(edges) == 1 and [c.type for c in self.search.vertices[types[0]].key] == ["BIGINT"]:
            ids = [self._vertex_ids(types, paths.nodes), self._edge_ids(edges, paths.edges)]
            return _list(pa.concat_arrays([each.cast(pa.int64()) for each in ids]).take(pa.array(order)), offsets)
        value = self.schema.field("#elements").type.value_type
        _, dense = self.numbering.split(paths.nodes)
        kinds, _ = self.numbering.split(paths.nodes)
        pairs = [
            pair
            for name in types
            if name in dense
            for pair in zip(self.search.vertices[name].key, self.numbering.keys(name, dense[name]), strict=True)
        ]
        shown = _named([v.name for v in self.search.vertices.values()], kinds)
        ends = _fitted(_struct(shown, pairs), value)
        number = max(len(self.search.edges), 1)
        named = _named(self.search.edges, paths.edges % number)
        steps = _fitted(_struct(named, [(_E_ID, pa.array(paths.edges // number))]), value)
        return _list(pa.concat_arrays([ends, steps]).take(pa.array(order)), offsets)


@dataclass(slots=True)
class _Bound:
    """The elements that paths bind to the variables of a pattern."""

    search: PathSearch
    paths: Paths

    @property
    def count(self) -> int:
        """The number of paths."""
        return self.paths.length.size

    def _of_nodes(self) -> Int64s:
        """Return the path of each node."""
        return np.repeat(np.arange(self.count), np.diff(self.paths.ptr))

    def _node_mask(self, variable: str) -> Bools:
        own = {i for i, node in enumerate(self.search.nodes) if node.variable == variable}
        binds = np.array([bool(own & set(t.nodes)) for t in ordered_transitions(self.search)], np.bool_)
        return binds[self.paths.transitions]

    def node(self, variable: str) -> Int64s:
        """Return [paths] the node that each path binds to a variable, or -1."""
        if not self.paths.transitions.size:  # ends only
            return self.paths.nodes[0 if variable == self.search.nodes[0].variable else 1 :: 2]
        return _first(self.count, self._of_nodes(), self.paths.nodes, self._node_mask(variable))

    def nodes(self, variable: str) -> tuple[Int64s, Int64s]:
        """Return the nodes that all paths bind to a group variable, and [paths + 1] offsets."""
        return _every(self.count, self._of_nodes(), self.paths.nodes, self._node_mask(variable))

    def _of_edges(self) -> Int64s:
        return np.repeat(np.arange(self.count), self.paths.length)

    def _edge_mask(self, variable: str) -> Bools:
        states = self.search.automaton.states
        own = [self.search.steps[state.step].variables[state.place] == variable for state in states]
        binds = np.array([t.state < len(states) and own[t.state] for t in ordered_transitions(self.search)], np.bool_)
        mask = binds[self.paths.transitions]
        return np.delete(mask, self.paths.ptr[:-1])  # no edge arrives at the first vertex

    def edge(self, variable: str) -> Int64s:
        """Return [paths] the edge that each path binds to a variable, or -1."""
        return _first(self.count, self._of_edges(), self.paths.edges, self._edge_mask(variable))

    def edges(self, variable: str) -> tuple[Int64s, Int64s]:
        """Return the edges that all paths bind to a group variable, and [paths + 1] offsets."""
        return _every(self.count, self._of_edges(), self.paths.edges, self._edge_mask(variable))

    def agrees(self, variable: str) -> Bools:
        """Return [paths] whether each path binds a variable to one element, where the pattern has it several times."""
        if any(node.variable == variable for node in self.search.nodes):
            first, of = self.node(variable), self._of_nodes()
            values, mask = self.paths.nodes, self._node_mask(variable)
        else:
            first, of = self.edge(variable), self._of_edges()
            values, mask = self.paths.edges, self._edge_mask(variable)
        differs = of[mask & (values != first[of])]
        agrees = np.ones(self.count, np.bool_)
        agrees[differs] = False
        return agrees


def _first(count: int, of: Int64s, values: Array, mask: Bools) -> Int64s:
    """Return the first masked value of each path, or -1."""
    found = np.full(count, -1, np.int64)
    found[of[mask][::-1]] = values[mask][::-1]
    return found


def _every(count: int, of: Int64s, values: Array, mask: Bools) -> tuple[Int64s, Int64s]:
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(of[mask], minlength=count), out=offsets[1:])
    return values[mask], offsets


def _list(values: pa.Array, offsets: Int64s) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)


def _named(names: Sequence[str], numbers: Int64s) -> pa.Array:
    """Return names by number, NULL for -1."""
    return pa.array(list(names), pa.string()).take(pa.array(numbers, mask=numbers < 0))


def _struct(shown: pa.Array, pairs: Sequence[tuple[Column, pa.Array]]) -> pa.Array:
    """Return structs of a type's name and the fields of all types, each NULL for the other types."""
    fields: dict[str, list[tuple[Column, pa.Array]]] = {}
    for column, values in pairs:
        fields.setdefault(column.name.lower(), []).append((column, values))
    names, arrays = ["type"], [shown]
    for same in fields.values():
        one = {column.type for column, _ in same}
        parts = [values if len(one) == 1 else values.cast(pa.string()) for _, values in same]
        names.append(same[0][0].name)
        arrays.append(parts[0] if len(parts) == 1 else pc.coalesce(*parts))
    return pa.StructArray.from_arrays(arrays, names)


def _fitted(structs: pa.Array, wanted: pa.StructType) -> pa.Array:
    """Return structs with the fields of a type, NULL where they have none."""
    own = {structs.type.field(i).name: structs.field(i) for i in range(structs.type.num_fields)}
    arrays = [own[f.name].cast(f.type) if f.name in own else pa.nulls(len(structs), f.type) for f in wanted]
    return pa.StructArray.from_arrays(arrays, [f.name for f in wanted])


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return column if column.type == wanted else column.cast(wanted)
