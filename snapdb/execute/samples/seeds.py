"""Converts the rows of a seed query to seeds: ids, times, targets and additional columns, in canonical order."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapdb.arrays import Array, Bools, Float32s, Int64s
from snapdb.builders.element_columns import read_tables
from snapdb.builders.key_lookups import look_up_keys, numbers_of
from snapdb.catalog.elements import time_expression
from snapdb.errors import CorruptError, DataError
from snapdb.execute.session import ExecutionContext
from snapdb.graph import GraphView
from snapdb.kernels.adjacency.forms import DAMAGED
from snapdb.kernels.adjacency.rows import logical_parts, neighbors_of
from snapdb.kernels.lookup import mark, marked
from snapdb.plan.fits import SqlType
from snapdb.plan.samples import SamplePlan
from snapdb.plan.samples.plans import about_seeds
from snapdb.sampling import Seeds
from snapdb.sql_engine import Names, quote_odd
from snapdb.storage.array_files import STATIC
from snapdb.storage.tables.id_maps import IdMap
from snapdb.storage.tables.segments import check_files
from snapdb.types import Column, EdgeType, Link, Relation


def read_seeds(context: ExecutionContext, plan: SamplePlan, view: GraphView, id_map: IdMap) -> Seeds:
    """Return the seed set of a sampler. `check_born` checks the seeds' birth times separately.

    Args:
        context: The context of the statement.
        plan: The sampler.
        view: The snapshot.
        id_map: The id map of the seed type.

    Raises:
        BindError: The columns are not valid seed columns.
        DataError: Ids or times are NULL, or seeds are duplicated or not in the snapshot. The message contains the count
            and three examples.
    """
    with about_seeds(plan.seeds.span, plan.outside):
        return _read(context, plan, view, id_map)


def check_born(plan: SamplePlan, view: GraphView, seeds: Seeds) -> None:
    """Raise DataError if a seed did not exist at its time. The message contains the count and three examples."""
    if seeds.time is None:
        return
    late = np.zeros(seeds.ids.size, np.bool_)
    ends = [(seeds.type, seeds.ids)]
    if plan.spec.link is not None and seeds.ends is not None:
        edge = plan.spec.link.edge
        ends = list(zip((edge.source, edge.destination), seeds.ends, strict=True))
    for name, ids in ends:
        if name in view.born:
            late |= view.born[name][ids] > seeds.time
    if not late.any():
        return
    rows = np.flatnonzero(late)
    if plan.spec.link is not None:
        what, shown = "seed edges have a vertex that does", [f"e_id {seeds.ids[i]}" for i in rows[:3]]
    else:
        what, shown = "seeds do", [str(key) for key in view.keys[seeds.type].read(seeds.ids[rows[:3]]).to_pylist()]
    with about_seeds(plan.seeds.span, plan.outside):
        raise DataError(
            f"{rows.size} of {late.size} {what} not exist yet at their seed time ({', '.join(shown)}); "
            "set seed_time to their event time or later, or leave them out",
            code="seed-not-there-yet",
        )


def _read(context: ExecutionContext, plan: SamplePlan, view: GraphView, id_map: IdMap) -> Seeds:
    query, spec, columns = plan.seeds, plan.spec, plan.columns
    with context.bind_context.session(query) as session:
        described = session.describe(query.text, query.parameters)
        table = session.table(query.text, query.parameters)
    _check_total(table, columns.order)
    ends = None
    if spec.link is None:
        check_files(context.store.db_dir, f"the id map of {spec.seed_type}", id_map.segments)
        ids = look_up_keys(context, table.select(list(columns.key)), id_map)
        _check_found(plan, table, ~_alive(view, spec.seed_type, ids))
    else:
        ids = _edge_ids(table.column(columns.key[0]))
        ends = _ends(context, plan, view, spec.link, ids)
        _check_found(plan, table, ends[0] < 0)
    time = None if columns.time is None else _seed_times(context, plan, table, described[columns.time])
    y = None if columns.y is None else _seed_targets(table.column(columns.y), described[columns.y].type)
    others = {described[i].name: _seed_column(plan, table, i, described[i]) for i in columns.others}
    # Batches must not depend on the order in which the query returns its rows, so seeds are sorted. Duplicates are
    # sorted by all columns, because they may differ in other columns.
    first = [ids] if time is None else [ids, time] if spec.link is None else [time, ids]
    if spec.allow_duplicates:
        order = _sorted([*first, *(values for values in (y, *others.values()) if values is not None)])
    else:
        order = _sorted(first)
        _check_unique(plan, table, order, ids, time)
    return Seeds(
        spec.seed_type,
        ids[order],
        None if y is None else y[order],
        _inverse(order) if spec.order == "IN ORDER" else None,
        None if time is None else time[order],
        None if ends is None else (ends[0][order], ends[1][order]),
        {name: values[order] for name, values in others.items()},
    )


def _sorted(columns: Sequence[Array]) -> Int64s:
    """Return the lexicographic order of rows by their columns. Each array element counts as a column."""
    keys = [key for values in columns for key in (values.T if values.ndim == 2 else [values])]
    return np.lexsort(keys[::-1]).astype(np.int64, copy=False)


def _inverse(order: Int64s) -> Int64s:
    inverse = np.empty(order.size, np.int64)
    inverse[order] = np.arange(order.size)
    return inverse


def _alive(view: GraphView, name: str, ids: Int64s) -> Bools:
    """Return whether each vertex is in the snapshot, as [ids] bool."""
    alive = view.alive[name]
    there = (ids >= 0) & (ids < view.node_counts[name])
    if alive is None:
        return there
    return there & alive[np.where(there, ids, 0)] if alive.size else np.zeros_like(there)


def _ends(
    context: ExecutionContext, plan: SamplePlan, view: GraphView, link: Link, ids: Int64s
) -> tuple[Int64s, Int64s]:
    """Return the dense ids of the ends of seed edges, or -1 if an edge is not in the snapshot."""
    element = plan.snapshot.graph.edge(link.edge.edge)
    assert element is not None, "the edge type was looked up"
    limit = read_tables(context, plan.snapshot)[element.table.lower()].next_row
    return _find_ends(
        view, link.edge, ids, limit, lambda share: context.step(f"finding seeds in {element.name}", share)
    )


def _check_found(plan: SamplePlan, table: pa.Table, missing: Bools) -> None:
    if missing.any():
        rows = np.flatnonzero(missing)
        link, name = plan.spec.link, plan.snapshot.name
        what = "seeds are" if link is None else f"seed edges of {link.edge.edge} are"
        type_ = plan.spec.seed_type if link is None else link.edge.edge
        whence = f"{'…' if link is None else 'e_id'} FROM {quote_odd(name)}.{quote_odd(type_)}"
        raise DataError(
            f"{rows.size} of {missing.size} {what} not in snapshot {name} "
            f"({_shown_keys(plan, table, rows)}); select seeds with SELECT {whence}",
            code="unknown-seed",
        )


def _check_unique(plan: SamplePlan, table: pa.Table, order: Int64s, ids: Int64s, time: Int64s | None) -> None:
    same = ids[order[1:]] == ids[order[:-1]]
    if time is not None:
        same &= time[order[1:]] == time[order[:-1]]
    same[1:] &= ~same[:-1]  # keeps only the second row of each group of equal rows
    twice = order[1:][same]
    if twice.size:
        when = "" if time is None else " with the same time"
        what = "1 seed occurs" if twice.size == 1 else f"{twice.size} seeds occur"
        raise DataError(
            f"{what} more than once{when} ({_shown_keys(plan, table, twice)}); "
            "write SELECT DISTINCT, or ALLOW DUPLICATES",
            code="duplicate-seeds",
        )


def _check_total(table: pa.Table, order: tuple[int, ...]) -> None:
    """Raise DataError if two rows tie, because IN ORDER is repeatable only without ties."""
    chosen = table.select(list(order)).rename_columns([str(i) for i in range(len(order))])
    if order and chosen.group_by(chosen.column_names).aggregate([]).num_rows < table.num_rows:
        names = ", ".join(table.column_names[i] for i in order)
        raise DataError(
            f"IN ORDER needs an order without ties, but ORDER BY {names} has ties; add the key to ORDER BY",
            code="ties-in-order",
        )


def _seed_times(context: ExecutionContext, plan: SamplePlan, table: pa.Table, column: Column) -> Int64s:
    """Return the [rows] int64 times of seeds: microseconds since 1970 UTC, or the user's integers.

    Raises:
        DataError: Times are NULL, infinite or exceed 64 bits. For NULL and infinite times, the message contains the
            count and three keys.
    """
    assert plan.columns.time is not None
    values = table.column(plan.columns.time)
    if pa.types.is_integer(values.type) or column.type in ("HUGEINT", "UHUGEINT"):
        try:
            times = values.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise DataError(
                f'a value of column "{column.name}" of SEEDS exceeds 64 bits; event times must be 64-bit integers',
                code="seed-time",
            ) from error
    else:
        given = pa.table({"at": values})
        with context.store.sql_engine.session(Names(sources={"seeds": given})) as session:
            times = session.table(f"SELECT {time_expression(Column('at', column.type))} FROM seeds").column(0)
    if times.null_count:
        rows = np.flatnonzero(times.is_null().to_numpy())
        shown = _shown_keys(plan, table, rows)
        raise DataError(
            f"{rows.size} of {len(times)} seeds have no time: {column.name} is NULL or infinite ({shown}); "
            "set a time, or leave them out",
            code="seed-time",
        )
    moments: Int64s = numbers_of(times)
    if (static := np.flatnonzero(moments == STATIC)).size:
        shown = _shown_keys(plan, table, static)
        raise DataError(
            f'column "{column.name}" of SEEDS has the value -2^63, which means "always" ({shown}); set a later time',
            code="seed-time",
        )
    return moments


def _edge_ids(values: pa.ChunkedArray) -> Int64s:
    """Return the [rows] int64 ids of seed edges. NULL and values beyond 64 bits become -1, which no edge has."""
    try:
        whole = values.cast(pa.int64())
    except pa.ArrowInvalid:
        whole = pa.array([v if v is not None and 0 <= v < 2**63 else None for v in values.to_pylist()], pa.int64())
    return numbers_of(whole, -1)


def _seed_targets(values: pa.ChunkedArray, type_: str) -> Array:
    """Return the column `y` as int64 (NULL: -1) or float32 (NULL: NaN), [rows], or [rows, n] for arrays.

    Raises:
        DataError: A value exceeds the range of int64 or float32.
    """
    if _dtype(type_) in (np.bool_, np.int64):
        return _each_place(values, lambda part: numbers_of(_whole(part, "y"), -1))
    return _each_place(values, _single)


def _seed_column(plan: SamplePlan, table: pa.Table, place: int, column: Column) -> Array:
    """Return an additional column as bool, int64, float32 (for FLOAT) or float64, [rows], or [rows, n] for arrays.

    Raises:
        DataError: Values are NULL or exceed 64 bits. For NULL values, the message contains the count and three keys.
    """
    values, dtype = table.column(place), _dtype(column.type)
    missing = _each_place(values, lambda part: part.is_null().to_numpy())
    if missing.any():
        rows = np.flatnonzero(missing.reshape(len(missing), -1).any(axis=1))
        raise DataError(
            f'{rows.size} of {len(missing)} seeds have NULL in "{column.name}" '
            f"({_shown_keys(plan, table, rows)}); write coalesce({column.name}, …), or leave them out",
            code="seed-null",
        )
    if dtype is np.int64:
        return _each_place(values, lambda part: numbers_of(_whole(part, column.name)))
    return _each_place(values, lambda part: part.cast(pa.from_numpy_dtype(dtype)).to_numpy())


def _dtype(type_: str) -> type[np.generic]:
    """Return the dtype of a numeric DuckDB type, or of its arrays."""
    base = type_.partition("[")[0]
    if SqlType(base).key_family() == "integer":
        return np.int64
    return {"BOOLEAN": np.bool_, "FLOAT": np.float32}.get(base, np.float64)


def _each_place(values: pa.ChunkedArray, read: Callable[[pa.ChunkedArray], Array]) -> Array:
    """Convert a column with `read`. A column of arrays is converted element by element."""
    if not pa.types.is_fixed_size_list(values.type):
        return read(values)
    return np.stack([read(pc.list_element(values, i)) for i in range(values.type.list_size)], axis=1)


def _whole(values: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return integers or booleans as int64."""
    try:
        return values.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise DataError(
            f'a value of column "{name}" of SEEDS exceeds 64 bits; scale it, or cast it to FLOAT', code="seed-range"
        ) from error


def _single(values: pa.ChunkedArray) -> Float32s:
    """Return real numbers as float32."""
    real = values.cast(pa.float64()).to_numpy()
    if (np.abs(real[np.isfinite(real)]) > np.finfo(np.float32).max).any():
        raise DataError('a value of column "y" of SEEDS exceeds the range of float32; scale it', code="seed-range")
    numbers: Float32s = real.astype(np.float32)
    return numbers


def _shown_keys(plan: SamplePlan, table: pa.Table, rows: Int64s) -> str:
    """Return the keys of the first three of the given rows, for a message."""
    first = table.select(list(plan.columns.key)).take(pa.array(rows[:3])).to_pylist()
    keys = [["NULL" if key is None else str(key) for key in row.values()] for row in first]
    return ", ".join(key[0] if len(key) == 1 else f"({', '.join(key)})" for key in keys)


def _find_ends(
    view: GraphView, edge: EdgeType, ids: Int64s, limit: int, step: Callable[[float], None]
) -> tuple[Int64s, Int64s]:
    """Return the [ids] int64 dense ids of the sources and destinations of edges, or -1 for edges not in the snapshot.

    It uses one bit of memory per edge of the table, and its running time hardly depends on the number of ids.

    Args:
        view: The snapshot.
        edge: The edge type.
        ids: [ids] edge ids in any order. Duplicates are allowed.
        limit: The edge ids of the table are in [0, limit).
        step: Called with the completed fraction. It can raise an exception to stop.

    Raises:
        CorruptError: A row points outside its arrays, or an edge refers to a vertex that does not exist.
    """
    distinct, places = np.unique(ids, return_inverse=True)
    possible = distinct[(distinct >= 0) & (distinct < limit)]
    wanted = mark(possible, limit)
    sources, destinations = (np.full(distinct.size, -1, np.int64) for _ in range(2))
    rows = view.adjacency(Relation(edge, "IN"))
    for part in logical_parts(rows.rows) if possible.size else ():
        step(part.low / max(rows.nodes, 1))
        held = rows.edge_id.read(part.positions)
        edges_marked = marked(wanted, limit, held)
        slots = np.searchsorted(distinct, held[edges_marked])
        sources[slots] = neighbors_of(rows.rows, part.positions[edges_marked])
        starts = part.indptr - part.indptr[0]
        destinations[slots] = part.low + np.searchsorted(starts, edges_marked, side="right") - 1
    if sources.size and not -1 <= int(sources.min()) <= int(sources.max()) < view.node_counts[edge.source]:
        raise CorruptError(DAMAGED, code="damaged-snapshot")
    return sources[places], destinations[places]
