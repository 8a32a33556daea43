"""The nodes of a path search: dense ids of the vertices of all types, and which vertices satisfy a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from snapdb.arrays import Array, Bools, Int64s
from snapdb.builders.context import BuildContext
from snapdb.graph import OpenSnapshot
from snapdb.plan.queries import BoundQuery
from snapdb.plan.scope import BindContext
from snapdb.plan.searches import PathSearch, SearchNode, SearchVertex
from snapdb.sql_engine import Names, together
from snapdb.storage.tables.segments import check_files


@dataclass(frozen=True)
class Numbering:
    """The nodes of a search. Node `offset + dense id` is a vertex of a type."""

    context: BuildContext
    bind_context: BindContext
    search: PathSearch
    opened: OpenSnapshot | None
    """The snapshot, or None for tables."""

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Case-folded type name → the number of its first node."""
        offsets, total = {}, 0
        for name in self.search.vertices:
            offsets[name] = total
            total += self.count(name)
        return offsets

    @cached_property
    def total(self) -> int:
        """The number of nodes."""
        return sum(self.count(name) for name in self.search.vertices)

    def count(self, name: str) -> int:
        """Return the number of dense ids of a type."""
        if self.opened is not None:
            return self.opened.view.node_counts[self.search.vertices[name].name]
        return int(self._tables[name].num_rows)

    @cached_property
    def _tables(self) -> dict[str, pa.Table]:
        """The keys of each type in the order of dense ids, for a graph without a snapshot."""
        return {name: self._key_table(vertex) for name, vertex in self.search.vertices.items()}

    def _key_table(self, vertex: SearchVertex) -> pa.Table:
        with self.bind_context.session(vertex.keys) as session:
            keys = session.table(vertex.keys.text)
        columns = {f"k{i}": keys.column(i) for i in range(keys.num_columns)}
        return pa.table({**columns, "dense": np.arange(keys.num_rows, dtype=np.int64)})

    def keys(self, name: str, ids: Int64s) -> list[pa.Array]:
        """Return the key columns of vertices, whose dense ids are given, or NULL for -1."""
        index = pa.array(ids, mask=ids < 0)
        if self.opened is None:
            table = self._tables[name]
            return [_whole(table.column(i).take(index)) for i in range(table.num_columns - 1)]
        vertex = self.search.vertices[name]
        keys = self._snapshot_keys(vertex.name)
        columns = keys.flatten() if len(vertex.key) > 1 else [keys]
        return [column.take(index) for column in columns]

    def _snapshot_keys(self, name: str) -> pa.Array:
        assert self.opened is not None
        if name not in self._read:
            reader = self.opened.view.keys[name]
            self._read[name] = reader.read(np.arange(self.opened.view.node_counts[name], dtype=np.int64))
        return self._read[name]

    @cached_property
    def _read(self) -> dict[str, pa.Array]:
        return {}

    def names(self, types: Sequence[str]) -> Names:
        """Return the relations of dense ids of some types, for SQL."""
        if self.opened is None:
            tables = {_unquoted(self.search.vertices[n].relation): self._tables[n] for n in types}
            return Names(sources=dict(tables))
        views = {}
        for name in types:
            vertex = self.search.vertices[name]
            id_map = self.opened.id_maps[vertex.name]
            check_files(self.context.store.db_dir, f"the id map of {vertex.name}", id_map.segments)
            views[_unquoted(vertex.relation)] = id_map.sql(self.context.store.db_dir)
        return Names(views=views)

    def table(self, query: BoundQuery, types: Sequence[str], what: str, around: tuple[str, str] = ("", "")) -> pa.Table:
        """Run a query that can read the dense ids of some types."""
        named = replace(query, names=together((query.names, self.names(types))), shapes=None)
        with self.bind_context.session(named) as session, self.context.watching(session, what):
            return session.table(around[0] + query.text + around[1], query.parameters)

    def alive(self) -> Bools:
        """Return [nodes], which dense ids are vertices of the graph."""
        mask = np.ones(self.total, np.bool_)
        if self.opened is not None:
            for name, offset in self.offsets.items():
                own = self.opened.view.alive[self.search.vertices[name].name]
                if own is not None:
                    mask[offset : offset + own.size] = own
        return mask

    def passing(self, node: SearchNode) -> Bools | None:
        """Return [nodes], which vertices satisfy the types and conditions of a node, or None if all do."""
        if set(node.tests) >= self.search.vertices.keys() and not any(node.tests.values()):
            return None
        mask = np.zeros(self.total, np.bool_)
        for name, queries in node.tests.items():
            if name not in self.offsets:
                continue
            own = np.ones(self.count(name), np.bool_)
            for query in queries:
                each = np.zeros(own.size, np.bool_)
                each[self._dense(name, query)] = True
                own &= each
            mask[self.offsets[name] : self.offsets[name] + own.size] = own
        return mask

    def _dense(self, name: str, query: BoundQuery) -> Int64s:
        """Return the dense ids of the keys that a query returns."""
        vertex = self.search.vertices[name]
        columns = [f"k{i}" for i in range(len(vertex.key))]
        on = " AND ".join(f"found.{c} = ids.{c}" for c in columns)
        before = f"SELECT ids.dense FROM {vertex.relation} AS ids WHERE EXISTS (SELECT 1 FROM ("
        after = f") AS found({', '.join(columns)}) WHERE {on})"
        table = self.table(query, [name], f"vertices of {vertex.name}", (before, after))
        dense: Int64s = table.column(0).to_numpy()
        return dense

    def split(self, nodes: Array) -> tuple[Int64s, Mapping[str, Int64s]]:
        """Return the number of each node's type, and per type the dense ids, -1 for nodes of other types."""
        starts = np.array([*self.offsets.values()], np.int64)
        kinds = np.searchsorted(starts, nodes, side="right") - 1
        dense = {}
        for index, (name, offset) in enumerate(self.offsets.items()):
            dense[name] = np.where(kinds == index, nodes - offset, -1)
        return kinds, dense


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"')
