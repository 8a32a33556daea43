"""The nodes of an algorithm's graph: their numbers, keys and order, and the vertices that a query returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapdb.algorithms.graph import NodePairs, NodeWeights
from snapdb.arrays import Bools, Float64s, Int64s
from snapdb.builders.context import BuildContext
from snapdb.builders.key_lookups import look_up_keys
from snapdb.errors import DataError
from snapdb.graph import OpenSnapshot
from snapdb.plan.algorithm_sources import AlgorithmSource, NodeQuery, NodeType
from snapdb.plan.scope import BindContext
from snapdb.sql_engine import Names, quote, quote_odd
from snapdb.storage.tables.segments import check_files
from snapdb.types.text import counted


@dataclass(frozen=True)
class Nodes:
    """The numbers of nodes. Node `offset + dense id` is a vertex of a type."""

    context: BuildContext
    bind_context: BindContext
    source: AlgorithmSource
    opened: OpenSnapshot

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Type name → the number of its first node."""
        offsets, total = {}, 0
        for vertex in self.source.vertices:
            offsets[vertex.name] = total
            total += self.count(vertex.name)
        return offsets

    @cached_property
    def total(self) -> int:
        """The number of nodes."""
        return sum(self.count(vertex.name) for vertex in self.source.vertices)

    def count(self, name: str) -> int:
        """Return the number of dense ids of a type."""
        return self.opened.view.node_counts[name]

    @cached_property
    def alive(self) -> Bools | None:
        """[nodes] Which nodes are vertices of the snapshot, or None if all are."""
        masks = [(self.offsets[v.name], self.opened.view.alive[v.name]) for v in self.source.vertices]
        if all(mask is None for _, mask in masks):
            return None
        if len(masks) == 1:
            return masks[0][1]
        alive = np.ones(self.total, np.bool_)
        for offset, mask in masks:
            if mask is not None:
                alive[offset : offset + mask.size] = mask
        return alive

    def living(self, vertex: NodeType) -> Int64s:
        """Return the dense ids of a type's vertices in the snapshot, in ascending order."""
        mask = self.opened.view.alive[vertex.name]
        return np.arange(self.count(vertex.name)) if mask is None else np.flatnonzero(mask)

    def keys(self, vertex: NodeType, ids: Int64s) -> list[pa.Array]:
        """Return the key columns of vertices whose dense ids are given."""
        keys = self.opened.view.keys[vertex.name].read(ids)
        return [*keys.flatten()] if len(vertex.key) > 1 else [keys]

    def rank(self) -> Int64s | None:
        """Return [nodes] the position of each node in the order (type, key), or None if that is the order of numbers.

        Nodes that are not in the snapshot are last.
        """
        parts, ordered = [], True
        for vertex in self.source.vertices:
            ids = self.living(vertex)
            order = _key_order(self.keys(vertex, ids))
            ordered = ordered and order is None
            parts.append(self.offsets[vertex.name] + (ids if order is None else ids[order]))
        if ordered and self.alive is None:
            return None
        rank = np.empty(self.total, np.int64)
        if self.alive is not None:
            parts.append(np.flatnonzero(~self.alive))
        rank[np.concatenate(parts)] = np.arange(self.total)
        return rank

    def seeds(self) -> NodeWeights | None:
        """Return the vertices of the option `seeds`, without duplicates, or None. Weights of a vertex are added.

        Raises:
            DataError: A vertex is not in the snapshot, or a weight is not valid.
        """
        query = self.source.queries.get("seeds")
        if query is None:
            return None
        table = self._table(query)
        (nodes,) = self._numbers("seeds", query, table)
        distinct, places = np.unique(nodes, return_inverse=True)
        if not distinct.size and self.source.algorithm.name != "hops":
            raise DataError(
                f"seeds has no rows, and {self.source.algorithm.name} needs at least one vertex",
                span=self.source.spans["seeds"],
                code="empty-seeds",
            )
        if not query.weighted:
            return NodeWeights(distinct)
        weight = self._seed_weights(table.column(table.num_columns - 1))
        total = np.zeros(distinct.size)
        np.add.at(total, places.reshape(-1), weight)
        return NodeWeights(distinct, total)

    def _seed_weights(self, column: pa.ChunkedArray) -> Float64s:
        weight: Float64s = column.cast(pa.float64()).fill_null(np.nan).to_numpy()
        wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
        if wrong.size or not weight.any():
            shown = f"{wrong.size:,} of {weight.size:,} invalid" if wrong.size else "only 0"
            raise DataError(
                f"weights of seeds must be finite and not negative, and at least one above 0; found {shown}",
                span=self.source.spans["seeds"],
                code="bad-weight",
            )
        return weight

    def pairs(self) -> tuple[pa.Table, NodePairs] | None:
        """Return the rows of the option `pairs` and their vertices, or None.

        Raises:
            DataError: A vertex is not in the snapshot.
        """
        query = self.source.queries.get("pairs")
        if query is None:
            return None
        table = self._table(query)
        return table, NodePairs(*self._numbers("pairs", query, table))

    def _table(self, query: NodeQuery) -> pa.Table:
        with (
            self.bind_context.session(query.query) as session,
            self.context.watching(session, f"reading vertices of {self.source.algorithm.name}"),
        ):
            table = session.table(query.query.text, query.query.parameters)
        return table.rename_columns([str(i) for i in range(table.num_columns)])

    def _numbers(self, name: str, query: NodeQuery, table: pa.Table) -> list[Int64s]:
        """Return [rows] the node numbers of each vertex of the rows."""
        width = len(query.fields)
        numbers = []
        for vertex in range(query.vertices):
            columns = table.select(list(range(vertex * width, (vertex + 1) * width)))
            nodes = self._found(query, columns)
            self._check(name, columns, nodes)
            numbers.append(nodes)
        return numbers

    def _found(self, query: NodeQuery, columns: pa.Table) -> Int64s:
        """Return [rows] node numbers, or -1 for keys that are not in the snapshot."""
        nodes = np.full(columns.num_rows, -1, np.int64)
        types = self.source.vertices
        places = {field.name.lower(): i for i, field in enumerate(query.fields)}
        lowered = None if len(types) == 1 else pc.utf8_lower(columns.column(0).cast(pa.string()))
        for vertex in types:
            rows = np.arange(columns.num_rows)
            if lowered is not None:
                rows = np.flatnonzero(pc.fill_null(pc.equal(lowered, vertex.name.lower()), False).to_numpy())
            own = columns.select([places[c.name.lower()] for c in vertex.key]).take(pa.array(rows))
            id_map = self.opened.id_maps[vertex.name]
            check_files(self.context.store.db_dir, f"the id map of {vertex.name}", id_map.segments)
            dense = look_up_keys(self.context, self._cast(own, vertex, query), id_map)
            dense[dense >= self.count(vertex.name)] = -1
            alive = self.opened.view.alive[vertex.name]
            if alive is not None and alive.size:
                dense[~alive[np.where(dense < 0, 0, dense)]] = -1
            nodes[rows] = np.where(dense < 0, -1, dense + self.offsets[vertex.name])
        return nodes

    def _cast(self, keys: pa.Table, vertex: NodeType, query: NodeQuery) -> pa.Table:
        """Return keys that several types share as VARCHAR with the type of one of them."""
        fields = {field.name.lower(): field.type for field in query.fields}
        # A literal NULL, or no rows at all, has no type.
        typed = not any(pa.types.is_null(column.type) for column in keys.columns)
        if typed and all(fields[column.name.lower()] == column.type for column in vertex.key):
            return keys
        names = keys.column_names
        casts = [f"TRY_CAST({quote(n)} AS {c.type}) AS {quote(n)}" for n, c in zip(names, vertex.key, strict=True)]
        with self.context.store.sql_engine.session(Names(sources={"given": keys})) as session:
            return session.table(f"SELECT {', '.join(casts)} FROM given")

    def _check(self, name: str, columns: pa.Table, nodes: Int64s) -> None:
        missing = np.flatnonzero(nodes < 0)
        if missing.size:
            snapshot = self.source.snapshot.name
            whence = f"{quote_odd(snapshot)}.{quote_odd(self.source.vertices[0].name)}"
            verb = "is" if missing.size == 1 else "are"
            raise DataError(
                f"{missing.size:,} of {counted(nodes.size, 'vertex', 'vertices')} of {name} {verb} not in snapshot "
                f"{snapshot} ({_shown(columns, missing)}); select {name} with SELECT … FROM {whence}",
                span=self.source.spans[name],
                code="unknown-seed",
            )


def _shown(columns: pa.Table, rows: Int64s) -> str:
    """Return the keys of the first three rows."""
    first = columns.take(pa.array(rows[:3])).to_pylist()
    keys = [["NULL" if key is None else str(key) for key in row.values()] for row in first]
    return ", ".join(key[0] if len(key) == 1 else f"({', '.join(key)})" for key in keys)


def _key_order(keys: Sequence[pa.Array]) -> Int64s | None:
    """Return the order of rows by their keys, which are distinct, or None if they ascend."""
    if len(keys) == 1 and pa.types.is_integer(keys[0].type):
        numbers = keys[0].to_numpy(zero_copy_only=False)
        return None if bool((numbers[1:] > numbers[:-1]).all()) else np.argsort(numbers)
    names = [str(i) for i in range(len(keys))]
    table = pa.table(dict(zip(names, keys, strict=True)))
    order: Int64s = pc.sort_indices(table, [(name, "ascending") for name in names]).to_numpy().astype(np.int64)
    return None if bool((order == np.arange(order.size)).all()) else order
