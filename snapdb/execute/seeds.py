"""The rows of a seed query as seeds: found in the snapshot, each once, in canonical order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapdb.errors import DataError
from snapdb.execute.edge_seeds import find_ends
from snapdb.execute.element_columns import read_tables
from snapdb.execute.key_lookup import NO_KEY, run_lookup
from snapdb.execute.operator import Engine
from snapdb.execute.seed_values import edge_ids, seed_column, seed_targets, seed_times, shown_keys
from snapdb.graph import GraphView
from snapdb.plan.fits import key_family
from snapdb.plan.samples import SamplePlan
from snapdb.plan.samples.plans import about_seeds
from snapdb.relational import Names, quote_odd
from snapdb.sampling import Seeds
from snapdb.storage.ids import IdMap
from snapdb.storage.segments import check_files
from snapdb.types import Link

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def read_seeds(engine: Engine, plan: SamplePlan, view: GraphView, id_map: IdMap) -> Seeds:
    """The seed set of a sampler, whose births are not looked at yet.

    Args:
        id_map: Of the seed type.

    Raises:
        BindError: columns that do not fit.
        DataError: ids or times that are NULL, seeds that are there twice, or not in the snapshot: counted, three shown.
    """
    with about_seeds(plan.seeds.span, plan.outside):
        return _read(engine, plan, view, id_map)


def check_born(plan: SamplePlan, view: GraphView, seeds: Seeds) -> None:
    """Nothing when every seed was there at its time.

    Raises:
        DataError: it counts those that were not, and shows three.
    """
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
        what, shown = "seed edges have an end that is", [f"e_id {seeds.ids[i]}" for i in rows[:3]]
    else:
        what, shown = "seeds are", [str(key) for key in view.keys[seeds.type].read(seeds.ids[rows[:3]]).to_pylist()]
    with about_seeds(plan.seeds.span, plan.outside):
        raise DataError(
            f"{rows.size} of {late.size} {what} not there yet at the seed's time ({', '.join(shown)}); "
            "give them a seed_time that is not before their event time, or leave them out",
            code="seed-not-there-yet",
        )


def _read(engine: Engine, plan: SamplePlan, view: GraphView, id_map: IdMap) -> Seeds:
    asked, spec, columns = plan.seeds, plan.spec, plan.columns
    with engine.context.session(asked) as session:
        described = session.describe(asked.text, asked.parameters)
        table = session.table(asked.text, asked.parameters)
    _check_total(table, columns.order)
    ends = None
    if spec.link is None:
        check_files(engine.home, f"the ids of {spec.seed_type}", id_map.segments)
        ids = _lookup(engine, table.select(list(columns.key)), id_map)
        _check_found(plan, table, ~_alive(view, spec.seed_type, ids))
    else:
        ids = edge_ids(table.column(columns.key[0]))
        ends = _ends(engine, plan, view, spec.link, ids)
        _check_found(plan, table, ends[0] < 0)
    time = None if columns.time is None else seed_times(engine, plan, table, described[columns.time])
    y = None if columns.y is None else seed_targets(table.column(columns.y), described[columns.y].type)
    others = {described[i].name: seed_column(plan, table, i, described[i]) for i in columns.others}
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


def _sorted(columns: Sequence[npt.NDArray[Any]]) -> Int64s:
    """The rows in the order of their columns, the first one first; of arrays each place is a column."""
    keys = [key for values in columns for key in (values.T if values.ndim == 2 else [values])]
    return np.lexsort(keys[::-1]).astype(np.int64, copy=False)


def _inverse(order: Int64s) -> Int64s:
    found = np.empty(order.size, np.int64)
    found[order] = np.arange(order.size)
    return found


def _lookup(engine: Engine, table: pa.Table, id_map: IdMap) -> Int64s:
    """[rows] dense ids; -1 where a key is NULL or was never in the table."""
    if pa.types.is_signed_integer(table.column(0).type):
        with engine.relational.session() as session:
            lookup = run_lookup(session, id_map, engine.home.path)
        if lookup is not None:
            return lookup(table.column(0).cast(pa.int64()).fill_null(NO_KEY).to_numpy())
    keys = [f"k{i}" for i in range(len(id_map.columns))]
    numbered = table.rename_columns(keys).append_column("n", pa.array(np.arange(table.num_rows)))
    types = {k: c.type if key_family(c.type) == "UUID" else None for k, c in zip(keys, id_map.columns, strict=True)}
    given = [f"TRY_CAST(s.{k} AS {t})" if t else f"s.{k}" for k, t in types.items()]
    same = " AND ".join(f"{g} = m.{k}" for g, k in zip(given, keys, strict=True))
    query = f"SELECT s.n, m.dense FROM seeds s JOIN ({id_map.sql(engine.home)}) m ON {same}"
    dense = np.full(table.num_rows, -1, np.int64)
    with engine.relational.session(Names(sources={"seeds": numbered})) as session:
        found = session.table(query)
    dense[found["n"].to_numpy()] = found["dense"].to_numpy()
    return dense


def _alive(view: GraphView, name: str, ids: Int64s) -> Bools:
    """[ids] which are in the snapshot."""
    alive = view.alive[name]
    there = (ids >= 0) & (ids < view.node_counts[name])
    if alive is None:
        return there
    return there & alive[np.where(there, ids, 0)] if alive.size else np.zeros_like(there)


def _ends(engine: Engine, plan: SamplePlan, view: GraphView, link: Link, ids: Int64s) -> tuple[Int64s, Int64s]:
    """The ends of seed edges; -1 where one is not in the snapshot."""
    element = plan.snapshot.graph.edge(link.edge.edge)
    assert element is not None, "the edge type was looked up"
    limit = read_tables(engine, plan.snapshot)[element.table.lower()].next_row
    return find_ends(view, link.edge, ids, limit, lambda share: engine.step(f"finding seeds in {element.name}", share))


def _check_found(plan: SamplePlan, table: pa.Table, missing: Bools) -> None:
    if missing.any():
        rows = np.flatnonzero(missing)
        link, name = plan.spec.link, plan.snapshot.name
        what = "seeds are" if link is None else f"seed edges of {link.edge.edge} are"
        type_ = plan.spec.seed_type if link is None else link.edge.edge
        whence = f"{'…' if link is None else 'e_id'} FROM {quote_odd(name)}.{quote_odd(type_)}"
        raise DataError(
            f"{rows.size} of {missing.size} {what} not in snapshot {name} "
            f"({shown_keys(plan, table, rows)}); choose seeds with SELECT {whence}",
            code="unknown-seed",
        )


def _check_unique(plan: SamplePlan, table: pa.Table, order: Int64s, ids: Int64s, time: Int64s | None) -> None:
    same = ids[order[1:]] == ids[order[:-1]]
    if time is not None:
        same &= time[order[1:]] == time[order[:-1]]
    same[1:] &= ~same[:-1]  # each of them once
    twice = order[1:][same]
    if twice.size:
        when = "" if time is None else " with the same time"
        what = "1 seed occurs" if twice.size == 1 else f"{twice.size} seeds occur"
        raise DataError(
            f"{what} more than once{when} ({shown_keys(plan, table, twice)}); "
            "select DISTINCT ones, or say ALLOW DUPLICATES",
            code="duplicate-seeds",
        )


def _check_total(table: pa.Table, order: tuple[int, ...]) -> None:
    """IN ORDER is repeatable only when no two rows tie."""
    chosen = table.select(list(order)).rename_columns([str(i) for i in range(len(order))])
    if order and chosen.group_by(chosen.column_names).aggregate([]).num_rows < table.num_rows:
        names = ", ".join(table.column_names[i] for i in order)
        raise DataError(
            f"IN ORDER needs an order without ties, and ORDER BY {names} has some; add the key to it",
            code="ties-in-order",
        )
