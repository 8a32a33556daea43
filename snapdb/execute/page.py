"""A result as HTML that says whatever it leaves out."""

from __future__ import annotations

import pyarrow as pa

from snapdb.execute.render import footer, is_right, printable
from snapdb.execute.spell import spell, type_name
from snapdb.types.text import Head, block, html_table

_LONGEST = 300
"""A cell shows so many characters."""


def page(table: pa.Table, *, max_rows: int = 40, max_columns: int = 60) -> str:
    """The table as HTML, its first rows and columns, with a line that counts all of them.

    >>> page(pa.table({"name": ["<ann>", None]})).count("&lt;ann&gt;")
    1
    """
    if table.schema.names == ["plan"]:  # the text of a plan, of which no part can be left out
        return block("\n".join(str(line) for line in table["plan"].to_pylist()))
    shown = table.slice(0, max_rows).select(list(range(min(table.num_columns, max_columns))))
    heads = [Head(printable(f.name), type_name(f.type), is_right(f.type)) for f in shown.schema]
    columns = [spell(column) for column in shown.columns]
    rows = [[_cut(text) for text in row] for row in zip(*columns, strict=True)]
    cut = sum(text is not None and len(text) > _LONGEST for column in columns for text in column)
    dropped = table.num_columns - shown.num_columns
    return html_table(heads, rows, footer(table.num_rows, len(shown), table.num_columns, dropped, cut))


def _cut(text: str | None) -> str | None:
    if text is None:
        return None
    return printable(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")
