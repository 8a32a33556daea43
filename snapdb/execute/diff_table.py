"""DIFF TABLE: the rows that came and went between two versions, at a cost that follows from the difference."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from snapdb.catalog.differences import rows_beyond
from snapdb.catalog.listing import listing
from snapdb.execute.diff_rows import column_value
from snapdb.execute.operator import Engine, Rows
from snapdb.plan.versions import DiffTablePlan
from snapdb.relational import ROW_ID, Session, quote
from snapdb.types import Column, Table

_TEXT = pa.string()
_ID = quote(ROW_ID)


@dataclass(frozen=True, slots=True)
class DiffTable:
    """Rows are told apart by their ids: an updated row went and came."""

    plan: DiffTablePlan

    def run(self, engine: Engine) -> Rows:
        plan = self.plan
        with engine.relational.session() as session:
            gone = rows_beyond(session, engine.home.path, plan.before, plan.after)
            come = rows_beyond(session, engine.home.path, plan.after, plan.before)
            if plan.rows:
                yield from session.exact_reader(_changes(plan, gone, come))
            else:
                yield _summary(session, plan, gone, come)
        return None


def _changes(plan: DiffTablePlan, gone: str | None, come: str | None) -> str:
    """SELECT change and the columns of the later table: first what went, then what came, each by row id."""
    shown = plan.after or plan.before
    assert shown is not None
    names = ", ".join(quote(c.name) for c in shown.columns)
    parts = []
    for order, (change, rows, table) in enumerate((("-", gone, plan.before), ("+", come, plan.after))):
        if rows is not None:
            assert table is not None
            values = ", ".join(f"{_value(c, table, shown)} AS {quote(c.name)}" for c in shown.columns)
            label = f"""{order} AS "snapdb part", '{change}' AS "snapdb change", {_ID}"""  # no column is called so
            parts.append(f"SELECT {label}, {values} FROM ({rows})")
    if not parts:
        nothing = ", ".join(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in shown.columns)
        return f"SELECT '' AS change, {nothing} WHERE false"
    return f"""SELECT "snapdb change" AS change, {names} FROM ({" UNION ALL ".join(parts)})
        ORDER BY "snapdb part", {_ID}"""


def _value(column: Column, table: Table, shown: Table) -> str:
    """A column of the shown table out of another state of it, or of the table that it replaced."""
    return column_value(column, table, shown) or f"CAST(NULL AS {column.type})"


def _summary(session: Session, plan: DiffTablePlan, gone: str | None, come: str | None) -> pa.RecordBatch:
    removed, added = (_count(session, rows) for rows in (gone, come))
    lost, won = _columns_beyond(plan.before, plan.after), _columns_beyond(plan.after, plan.before)
    fields = [
        ("table", _TEXT),
        ("added", pa.int64()),
        ("removed", pa.int64()),
        ("columns_added", pa.list_(_TEXT)),
        ("columns_removed", pa.list_(_TEXT)),
    ]
    return listing(fields, [(plan.name, added, removed, won, lost)])


def _count(session: Session, rows: str | None) -> int:
    return 0 if rows is None else int(session.rows(f"SELECT count({_ID}) FROM ({rows})")[0][0])


def _columns_beyond(one: Table | None, other: Table | None) -> list[str]:
    """The columns that one has and the other has not; one that was dropped and added again is another."""
    if one is None or other is None:
        return [] if one is None else [c.name for c in one.columns]
    same_table = one.id == other.id
    known = {(c.field if same_table else 0, c.name.lower()) for c in other.columns}
    return [c.name for c in one.columns if (c.field if same_table else 0, c.name.lower()) not in known]
