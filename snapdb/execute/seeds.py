"""The rows of a seed query as seeds: found in the snapshot, unique, in canonical order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapdb.errors import BindError, DataError, SnapdbError
from snapdb.execute.key_lookup import NO_KEY, run_lookup
from snapdb.execute.operator import Engine
from snapdb.graph import GraphView
from snapdb.plan.fits import key_family
from snapdb.plan.logical import SamplePlan
from snapdb.relational import Names, OrderKey, order_keys
from snapdb.sampling import Seeds
from snapdb.storage.ids import IdMap
from snapdb.types import Column

__all__ = ["read_seeds"]


def read_seeds(engine: Engine, plan: SamplePlan, view: GraphView, id_map: IdMap) -> Seeds:
    """The seed set of a sampler.

    The query's first columns are the key of the seed type; one called `y` gives targets.

    Raises:
        BindError: columns that do not fit.
        DataError: ids that are NULL, twice, or not in the snapshot: counted, three shown.
    """
    try:
        return _read(engine, plan, view, id_map)
    except SnapdbError as error:
        if error.text is None and error.span is None:
            error.span = plan.seeds.span
        raise


def _read(engine: Engine, plan: SamplePlan, view: GraphView, id_map: IdMap) -> Seeds:
    asked, width = plan.seeds, len(id_map.columns)
    with engine.context.session(asked) as session:
        columns = session.describe(asked.text, asked.parameters)
        keys = order_keys(session, asked.text) if plan.spec.order == "IN ORDER" else None
        table = session.table(asked.text, asked.parameters)
    _check_columns(plan, columns, id_map)
    if plan.spec.order == "IN ORDER":
        _check_total(table, keys)
    dense = _lookup(engine, table, id_map)
    _check_found(plan, view, table, dense, width)
    order = np.argsort(dense, kind="stable")
    ids = dense[order]
    _check_unique(plan, table, order, ids, width)
    query_order = None
    if plan.spec.order == "IN ORDER":
        query_order = np.empty(order.size, np.int64)
        query_order[order] = np.arange(order.size)
    return Seeds(plan.spec.seed_type, ids, _targets(columns, table, order, width), query_order)


def _check_columns(plan: SamplePlan, columns: Sequence[Column], id_map: IdMap) -> None:
    key = [c.name for c in id_map.columns]
    if len(columns) < len(key):
        raise BindError(f"SEEDS needs the key of {plan.spec.seed_type} ({', '.join(key)}) as its first columns")
    for given, wanted in zip(columns, id_map.columns, strict=False):
        families = key_family(given.type), key_family(wanted.type)
        if families[0] != families[1] and families != ("VARCHAR", "UUID"):
            raise BindError(
                f'SEEDS gives "{given.name}" of type {given.type} where '
                f"{plan.spec.seed_type}.{wanted.name} is {wanted.type}"
            )
    for number, extra in enumerate(columns[len(key) :]):
        if extra.name.lower() != "y" or number > 0:
            raise BindError(f'SEEDS gives a column "{extra.name}"; after the key ({", ".join(key)}) it may only give y')


def _lookup(engine: Engine, table: pa.Table, id_map: IdMap) -> npt.NDArray[np.int64]:
    """[rows] dense ids; -1 where a key is NULL or was never in the table."""
    if pa.types.is_signed_integer(table.column(0).type):
        with engine.relational.session() as session:
            lookup = run_lookup(session, id_map, engine.home.path)
        if lookup is not None:
            return lookup(table.column(0).cast(pa.int64()).fill_null(NO_KEY).to_numpy())
    keys = [f"k{i}" for i in range(len(id_map.columns))]
    numbered = table.select(list(range(len(keys)))).rename_columns(keys)
    numbered = numbered.append_column("n", pa.array(np.arange(table.num_rows)))
    types = {k: c.type if key_family(c.type) == "UUID" else None for k, c in zip(keys, id_map.columns, strict=True)}
    given = [f"TRY_CAST(s.{k} AS {t})" if t else f"s.{k}" for k, t in types.items()]
    same = " AND ".join(f"{g} = m.{k}" for g, k in zip(given, keys, strict=True))
    query = f"SELECT s.n, m.dense FROM seeds s JOIN ({id_map.sql(engine.home)}) m ON {same}"
    dense = np.full(table.num_rows, -1, np.int64)
    with engine.relational.session(Names(sources={"seeds": numbered})) as session:
        found = session.table(query)
    dense[found["n"].to_numpy()] = found["dense"].to_numpy()
    return dense


def _check_found(plan: SamplePlan, view: GraphView, table: pa.Table, dense: npt.NDArray[np.int64], width: int) -> None:
    alive = view.alive[plan.spec.seed_type]
    bad = (dense < 0) | (dense >= view.node_counts[plan.spec.seed_type])
    if alive is not None:
        bad = bad | ~alive[np.where(bad, 0, dense)] if alive.size else np.ones_like(bad)
    if bad.any():
        rows = np.flatnonzero(bad)
        raise DataError(f"{rows.size} of {dense.size} seeds are not in snapshot {plan.snapshot.name} "
                        f"({_shown(table, rows, width)}); choose seeds with SELECT … FROM "
                        f"{plan.snapshot.name}.{plan.spec.seed_type}")  # fmt: skip


def _check_unique(
    plan: SamplePlan, table: pa.Table, order: npt.NDArray[np.int64], ids: npt.NDArray[np.int64], width: int
) -> None:
    twice = order[1:][ids[1:] == ids[:-1]]
    if twice.size:
        raise DataError(f"{twice.size} seeds occur more than once ({_shown(table, twice, width)}); "
                        "select DISTINCT ones")  # fmt: skip


def _check_total(table: pa.Table, keys: Sequence[OrderKey] | None) -> None:
    """IN ORDER is repeatable only when no two rows tie."""
    if keys is None:
        raise BindError("IN ORDER takes the order of the seed query, which has no ORDER BY; add one")
    names = [table.column_names[k.column - 1] if isinstance(k.column, int) else k.column for k in keys]
    folded = {name.lower(): name for name in table.column_names}
    if missing := [n for n in names if n.lower() not in folded]:
        raise BindError(f'IN ORDER needs an ORDER BY over output columns; the query does not give "{missing[0]}"')
    chosen = table.select([folded[n.lower()] for n in names])
    if chosen.group_by(chosen.column_names).aggregate([]).num_rows < table.num_rows:
        raise DataError(f"IN ORDER needs an order without ties, and ORDER BY {', '.join(names)} has some; "
                        "add the key to it")  # fmt: skip


def _targets(
    columns: Sequence[Column], table: pa.Table, order: npt.NDArray[np.int64], width: int
) -> npt.NDArray[np.generic] | None:
    """The column `y` in ordinal order: int64 (NULL: -1) or float32 (NULL: NaN)."""
    if len(columns) == width:
        return None
    values, type_ = table.column(width), columns[width].type
    if pa.types.is_integer(values.type) or pa.types.is_boolean(values.type) or type_ in ("HUGEINT", "UHUGEINT"):
        try:
            whole: npt.NDArray[np.int64] = values.cast(pa.int64()).fill_null(-1).to_numpy()[order]
        except pa.ArrowInvalid as error:
            raise DataError('SEEDS gives a "y" that is beyond 64 bits; scale it, or cast it to FLOAT') from error
        return whole
    if pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        real = values.cast(pa.float64()).to_numpy()[order]
        if (np.abs(real[np.isfinite(real)]) > np.finfo(np.float32).max).any():
            raise DataError('SEEDS gives a "y" that is beyond float32; scale it')
        single: npt.NDArray[np.float32] = real.astype(np.float32)
        return single
    raise BindError(f'SEEDS gives "y" of type {type_}; it must be a number (for classes by name say TARGET in the '
                    "graph, so that every seed set has the same codes)")  # fmt: skip


def _shown(table: pa.Table, rows: npt.NDArray[np.int64], width: int) -> str:
    first = table.select(list(range(width))).take(pa.array(rows[:3])).to_pylist()
    return ", ".join(str(next(iter(r.values()))) if width == 1 else str(tuple(r.values())) for r in first)
