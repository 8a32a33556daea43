"""Renders a table as HTML for notebooks, with its first rows and columns and a line with the total counts."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from snapdb.execute.rendering.plans import is_plan, plan_text
from snapdb.execute.rendering.tables import footer
from snapdb.execute.rendering.values import is_right, printable, spell, type_name
from snapdb.types.text import Head, bar_chart, block, html_table

_LONGEST = 300
"""The maximum number of characters in a cell."""
_PAGE_WIDTH = 110
"""The width of a plan, in character cells."""


def page(table: pa.Table, *, max_rows: int = 40, max_columns: int = 60) -> str:
    """Return the table as HTML, with its first rows and columns and a line with the total counts.

    >>> page(pa.table({"name": ["<ann>", None]})).count("&lt;ann&gt;")
    1
    """
    if is_plan(table.schema):
        return block(plan_text(table, _PAGE_WIDTH))
    shown = table.slice(0, max_rows).select(list(range(min(table.num_columns, max_columns))))
    heads = [Head(printable(f.name), type_name(f.type), is_right(f.type)) for f in shown.schema]
    columns = [spell(column) for column in shown.columns]
    cells = [[_cut(text) for text in column] for column in columns]
    if _is_summary(shown):
        cells[shown.schema.get_field_index("chart")] = _charts(shown)
    rows = zip(*cells, strict=True)
    cut = sum(text is not None and len(text) > _LONGEST for column in columns for text in column)
    dropped = table.num_columns - shown.num_columns
    return html_table(heads, rows, footer(table.num_rows, len(shown), table.num_columns, dropped, cut))


def _cut(text: str | None) -> str | None:
    if text is None:
        return None
    return printable(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


_DRAWN = {"element", "chart", "growth", "degrees", "from_time", "to_time"}
"""The columns from which charts are drawn."""


def _is_summary(table: pa.Table) -> bool:
    """Return whether a table is the result of SUMMARIZE SNAPSHOT, which includes charts."""
    return set(table.schema.names) >= _DRAWN


def _charts(table: pa.Table) -> list[str | None]:
    """Return the chart of each element: its growth over time, or the degree histogram of its vertices."""
    return [_chart(row) for row in table.select(sorted(_DRAWN)).to_pylist()]


def _chart(row: Mapping[str, Any]) -> str | None:
    growth, degrees = row["growth"], row["degrees"]
    if growth:
        title = f"{row['element']} from {row['from_time']} to {row['to_time']}"
        return bar_chart(growth, title, [f"{count:,}" for count in growth])
    if not degrees:
        return _cut(row["chart"])
    return bar_chart(degrees, "vertices with 0, 1, 2, 3-4, 5-8, … edges", [f"{count:,}" for count in degrees])
