"""Random walks as rows: the keys, edge ids and event times of each step, without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapdb.arrays import Array, Int64s
from snapdb.graph.view import Adjacency, EdgeColumn, GraphView, KeyReader
from snapdb.types import Relation
from snapdb.types.sampling import RandomWalk


def node_offsets(view: GraphView, walk: RandomWalk) -> dict[str, int]:
    """Return the first node number of each vertex type of a walk, by first appearance.

    The node number of a vertex is this offset plus its dense id.
    """
    offsets, total = {}, 0
    for name in dict.fromkeys(walk.vertex_types):
        offsets[name] = total
        total += view.node_counts[name]
    return offsets


def step_values(
    walk: RandomWalk,
    adjacencies: Mapping[Relation, Adjacency],
    position: Int64s,
    column: Callable[[Adjacency], EdgeColumn | None],
    missing: int,
) -> Int64s:
    """Return [walks, length] int64, an edge column's value of each step.

    Args:
        walk: The clauses of WALK.
        adjacencies: The rows of each relation of the metapath.
        position: [walks, length] The position of each step's edge in its relation's rows, or -1.
        column: Returns the column of a relation's rows, or None if the relation has none.
        missing: The value of steps without an edge, or without the column.
    """
    values = np.full(position.shape, missing, np.int64)
    for place, relation in enumerate(walk.steps[: walk.length]):
        if (read := column(adjacencies[relation])) is None:
            continue
        steps = np.arange(place, walk.length, len(walk.steps))
        positions = position[:, steps]
        there = positions >= 0
        drawn = np.full(positions.shape, missing, np.int64)
        drawn[there] = read.read(positions[there])
        values[:, steps] = drawn
    return values


def keys_of(reader: KeyReader, ids: Int64s) -> pa.Array:
    """Return the user's keys of dense ids, as a flat Arrow array. The key of -1 is NULL."""
    there = ids >= 0
    keys = reader.read(np.ascontiguousarray(ids[there]))
    if there.all():
        return keys
    places = np.cumsum(there) - 1
    return keys.take(pa.array(places, mask=~there))


def key_type(view: GraphView, vertex_types: Iterable[str]) -> pa.DataType:
    """Return the type of a column with the keys of several vertex types: their common type, or text."""
    types = {view.keys[name].read(np.empty(0, np.int64)).type for name in vertex_types}
    return types.pop() if len(types) == 1 else pa.string()


def as_key_type(keys: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast keys to a type. The text of a composite key includes the names of its parts, as in {'a': 1, 'b': 'x'}."""
    if pa.types.is_struct(keys.type) and pa.types.is_string(wanted):
        return pa.array([None if key is None else str(key) for key in keys.to_pylist()], wanted)
    return keys.cast(wanted)


def walk_schema(key: pa.DataType) -> pa.Schema:
    """Return the schema of rows of steps, with keys of a type."""
    return pa.schema(
        [
            ("walk", pa.int64()),
            ("step", pa.int64()),
            ("key", key),
            ("type", pa.string()),
            ("e_id", pa.int64()),
            ("batch", pa.int64()),
        ]
    )


def walk_rows(
    schema: pa.Schema,
    vertex_types: Sequence[str],
    keys: Mapping[str, pa.Array],
    e_id: Int64s,
    *,
    first: int,
    batch: int,
) -> pa.RecordBatch:
    """Return one row per walk and step, walk by walk.

    Args:
        schema: The result of `walk_schema`.
        vertex_types: The vertex type of each of the length + 1 columns of a walk.
        keys: Vertex type → the keys of the columns of that type, walk by walk. NULL where there is no vertex.
        e_id: [walks, length] The edge of each step, or -1.
        first: The number of the first walk.
        batch: The global batch number.
    """
    walks, columns = e_id.shape[0], len(vertex_types)
    names = list(dict.fromkeys(vertex_types))
    steps = np.tile(np.arange(columns), walks)
    edges = np.concatenate([np.full((walks, 1), -1), e_id], axis=1).ravel()
    arrays = [
        pa.array(np.repeat(np.arange(first, first + walks), columns)),
        pa.array(steps),
        _interleaved([as_key_type(keys[name], schema.field("key").type) for name in names], names, vertex_types, walks),
        pa.array(names).take(pa.array(np.tile([names.index(name) for name in vertex_types], walks), pa.int64())),
        pa.array(edges, mask=edges < 0),
        pa.array(np.full(walks * columns, batch)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _interleaved(keys: Sequence[pa.Array], names: Sequence[str], columns: Sequence[str], walks: int) -> pa.Array:
    """Return the keys of all columns, walk by walk, from the keys of each vertex type."""
    if len(names) == 1:
        return keys[0]
    # The place of each entry in the concatenation of the types' keys.
    places: Array = np.empty((walks, len(columns)), np.int64)
    start = 0
    for name in names:
        own = [i for i, column in enumerate(columns) if column == name]
        places[:, own] = start + np.arange(walks * len(own)).reshape(walks, len(own))
        start += walks * len(own)
    return pc.take(pa.concat_arrays(keys), pa.array(places.ravel()))
