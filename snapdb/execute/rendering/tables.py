"""Renders a table as text. Cells and columns that do not fit are truncated, dropped or transposed, and counted."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from rich.box import ASCII, SQUARE, Box
from rich.cells import set_cell_size

from snapdb.execute.rendering.plans import ASCII_TREE, PLAN_WIDTH, is_plan, plan_text
from snapdb.execute.rendering.values import PLAIN, SECONDS, Spelling, is_right, printable, spell, text_width, type_name
from snapdb.on_first_use import module_on_first_use
from snapdb.types.text import counted

_NARROWEST = 12
"""The width in cells to which a column of long texts is truncated before other columns are dropped."""
_SHORT_TEXT, _SHORT_VALUE = 20, 32
"""The widths, in cells, up to which texts and other values are never truncated. A truncated number would be
misleading."""
_TURNED_ROWS = 12
"""The maximum number of rows that are transposed into columns."""
_TURNED_WIDTH = 21
"""The minimum width of a transposed row, in cells."""
_rich_style = module_on_first_use("rich.style")
_PLAIN, _BOLD, _DIM = "none", "bold", "dim"
"""Style names in rich."""


class _Column(NamedTuple):
    name: str
    type: str
    cells: tuple[tuple[str, ...], ...]
    """The lines of text of each row."""
    nulls: frozenset[int]
    right: bool
    wanted: int
    """The preferred width, which is sufficient for the name, the values and the type."""
    needed: int
    """The width without the type, which is truncated first."""
    least: int
    """The width to which values can be truncated before the column is dropped."""


def render(
    table: pa.Table,
    *,
    width: int | None,
    max_rows: int | None = 40,
    total_rows: int | None = None,
    color: bool = False,
    unicode: bool = True,
    null: str = "NULL",
    hint: str = "",
    seconds: bool = False,
    turn: bool = False,
) -> str:
    """Return the table as text, with a footer that counts the rows and everything that is truncated or omitted.

    Args:
        table: The table to show.
        width: The line width in terminal cells. If the table is wider, long texts are truncated (in the first column
            last), and then columns are dropped from the right. None shows everything. The lines of an EXPLAIN plan are
            wrapped instead, at 80 cells if the width is None.
        max_rows: The maximum number of rows to show, or None for all.
        total_rows: The number of rows in the result, if `table` contains only the first ones.
        color: Style the header, the types and NULLs with ANSI codes.
        unicode: Use box-drawing characters and ellipses. If false, use only ASCII.
        null: The text for NULL. An equal text value is shown in quotes.
        hint: A hint on how to see everything, which is appended to the footer if something is omitted.
        seconds: Round times down to seconds.
        turn: Transpose a table that is too wide and has few rows, with one line per column.

    >>> print(render(pa.table({"name": ["ann", None], "age": [31, 9]}), width=80))
    ┌─────────┬────────┐
    │ name    │    age │
    │ varchar │ bigint │
    ├─────────┼────────┤
    │ ann     │     31 │
    │ NULL    │      9 │
    └─────────┴────────┘
    2 rows
    >>> print(render(pa.table({"n": range(100)}), width=80, max_rows=1, unicode=False).splitlines()[-1])
    100 rows (1 shown)
    """
    page = _Page(SQUARE if unicode else ASCII, "…" if unicode else "...", color)
    if is_plan(table.schema):
        text = plan_text(table, width or PLAN_WIDTH, bold=lambda line: page.paint(line, _BOLD))
        return text if unicode else text.translate(ASCII_TREE)
    shown = table if max_rows is None else table.slice(0, max_rows)
    spelling = SECONDS if seconds else PLAIN
    everything = [
        _column(field, column, null, spelling) for field, column in zip(shown.schema, shown.columns, strict=True)
    ]
    total = table.num_rows if total_rows is None else total_rows
    if everything and everything[0].cells:
        everything[0] = everything[0]._replace(least=min(everything[0].needed, max(_NARROWEST, (width or 0) // 3)))
    if (
        width is not None
        and turn
        and 0 < len(shown) == total <= _TURNED_ROWS
        and _drawn([c.wanted for c in everything]) > width
    ):
        return "\n".join([*_turned(everything, width, page), page.paint(counted(total, "row"), _DIM)])
    widths = _widths([(c.wanted, c.needed, c.least) for c in everything], width)
    columns = everything[: len(widths)]
    dropped = len(everything) - len(columns)
    lines = page.draw(columns, widths, len(shown), dropped > 0) if columns else []
    cut = sum(page.needs_cut(c, w) for c, w in zip(columns, widths, strict=True))
    left_out = f"; {hint}" if hint and (total > len(shown) or dropped or cut) else ""
    lines.append(page.paint(footer(total, len(shown), len(everything), dropped, cut) + left_out, _DIM))
    return "\n".join(lines)


def footer(total: int, rows: int, columns: int, dropped: int, cut: int) -> str:
    """Return the line under a table, which counts its rows and everything that is omitted.

    >>> footer(100, 40, 9, 2, 1)
    '100 rows (40 shown), 9 columns (7 shown), 1 cell cut'
    """
    parts = [counted(total, "row") + (f" ({rows} shown)" if rows < total else "")]
    if dropped:
        parts.append(f"{counted(columns, 'column')} ({columns - dropped} shown)")
    if cut:
        parts.append(f"{counted(cut, 'cell')} cut")
    return ", ".join(parts)


def _column(field: pa.Field, values: pa.ChunkedArray, null: str, spelling: Spelling) -> _Column:
    texts = spell(values, spelling)
    cells = tuple(_lines(text, null) for text in texts)
    name, type_ = printable(field.name).replace("\n", " "), type_name(field.type)
    widest = max((text_width(line) for lines in cells for line in lines), default=0)
    nulls = frozenset(i for i, text in enumerate(texts) if text is None)
    right = is_right(field.type)
    needed = max(text_width(name), widest)
    short = _SHORT_VALUE if right or pa.types.is_temporal(field.type) else _SHORT_TEXT
    wanted = max(needed, min(text_width(type_), _NARROWEST))
    return _Column(name, type_, cells, nulls, right, wanted, needed, needed if needed <= short else _NARROWEST)


def _lines(text: str | None, null: str) -> tuple[str, ...]:
    if text is None:
        return (null,)
    if text and text == null:
        return (f"'{null}'",)
    return tuple(printable(text).split("\n"))


def _widths(sizes: Sequence[tuple[int, int, int]], width: int | None) -> list[int]:
    """Return the width of each column. The list is shorter than `sizes` if the last columns do not fit.

    Columns are dropped from the right until all others have their minimum width. The remaining space is used to
    complete first the values of the narrowest columns, and then the types.

    Args:
        sizes: The preferred width, the width of name and values, and the minimum width of each column.
        width: The width of a line in cells, or None for no limit.

    >>> _widths([(7, 4, 4), (60, 60, 12), (30, 30, 12)], 61), _widths([(40, 40, 20)] * 20, 60)
    ([5, 23, 23], [25, 24])
    """
    wanted = [size[0] for size in sizes]
    if width is None or _drawn(wanted) <= width:
        return wanted
    kept = len(sizes)
    while kept > 1 and _drawn([least for _, _, least in sizes[:kept]]) + (4 if kept < len(sizes) else 0) > width:
        kept -= 1
    room = width - (4 if kept < len(sizes) else 0)
    # The largest cap at which all columns fit. It narrows only the widest ones.
    cap = room
    while cap > 1 and _drawn(_capped(sizes[:kept], cap)) > room:
        cap -= 1
    widths = _capped(sizes[:kept], cap)
    if kept == 1:
        widths = [max(min(widths[0], room - _drawn([0])), 1)]
    # The remaining cells complete the types, from left to right.
    spare = room - _drawn(widths)
    for place, want in enumerate(wanted[:kept]):
        more = min(max(want - widths[place], 0), spare)
        widths[place] += more
        spare -= more
    return widths


def _capped(sizes: Sequence[tuple[int, int, int]], cap: int) -> list[int]:
    """Return the widths that the values need, each limited to `cap` or to its minimum width if that is greater."""
    return [max(min(needed, cap), least) for _, needed, least in sizes]


def _drawn(widths: Sequence[int]) -> int:
    """Return the line width for columns of the given widths, including padding and borders."""
    return sum(widths) + 3 * len(widths) + 1


@dataclass(frozen=True, slots=True)
class _Page:
    box: Box
    ellipsis: str
    color: bool

    def paint(self, text: str, style: str) -> str:
        return str(_rich_style.Style.parse(style).render(text)) if self.color and text else text

    def needs_cut(self, column: _Column, width: int) -> int:
        """Return the number of cells in the column that do not fit."""
        return sum(any(text_width(line) > width for line in lines) for lines in column.cells)

    def draw(self, columns: Sequence[_Column], widths: Sequence[int], rows: int, more: bool) -> list[str]:
        outer = [w + 2 for w in widths] + ([3] if more else [])
        names = [self._fit(c.name, w, c.right, _BOLD) for c, w in zip(columns, widths, strict=True)]
        types = [self._fit(c.type, w, c.right, _DIM) for c, w in zip(columns, widths, strict=True)]
        head = [self._row(names, more), *([self._row(types, more)] if any(c.type for c in columns) else [])]
        body = [line for row in range(rows) for line in self._cells(columns, widths, row, more)]
        rule = self.box.get_row(outer, "head")
        return [self.box.get_top(outer), *head, rule, *body, self.box.get_bottom(outer)]

    def _cells(self, columns: Sequence[_Column], widths: Sequence[int], row: int, more: bool) -> Iterable[str]:
        height = max(len(c.cells[row]) for c in columns)
        for line in range(height):
            parts = []
            for column, width in zip(columns, widths, strict=True):
                lines = column.cells[row]
                style = _DIM if row in column.nulls else _PLAIN
                parts.append(self._fit(lines[line] if line < len(lines) else "", width, column.right, style))
            yield self._row(parts, more)

    def _row(self, parts: Iterable[str], more: bool) -> str:
        side, mark = self.box.mid_vertical, self.ellipsis[:1] if self.ellipsis == "…" else ">"
        cells = [f" {part} " for part in parts] + ([f" {mark} "] if more else [])
        return side + side.join(cells) + side

    def _fit(self, text: str, width: int, right: bool, style: str) -> str:
        """Return the text padded or truncated to exactly `width` cells. A truncated text ends with an ellipsis."""
        length = text_width(text)
        if length > width:
            keep = max(width - text_width(self.ellipsis), 0)
            text = (set_cell_size(text, keep) + self.ellipsis)[:width] if keep else self.ellipsis[:width]
            length = text_width(text)
        padding = " " * (width - length)
        painted = self.paint(text, style)
        return padding + painted if right else painted + padding


def _turned(columns: Sequence[_Column], width: int, page: _Page) -> list[str]:
    """Return the transposed table, with one line per column except the first, whose values are the headings.

    Long values are wrapped. Rows that do not fit side by side are drawn in several tables, each with the column names.
    """
    names, values = columns[0], columns[1:]
    labels = tuple((column.name,) for column in values)
    wide = max(map(text_width, (names.name, *(column.name for column in values))))
    label = _Column(names.name, "", labels, frozenset(), False, wide, wide, wide)
    rows = len(names.cells)
    beside = max(1, min(rows, (width - _drawn([wide])) // (_TURNED_WIDTH + 3)))
    parts = -(-rows // beside)
    beside = -(-rows // parts)
    room = (width - _drawn([wide])) // beside - 3
    lines: list[str] = []
    for start in range(0, rows, beside):
        drawn = [label, *(_turned_row(names, values, row, room) for row in range(rows)[start : start + beside])]
        lines += page.draw(drawn, [column.wanted for column in drawn], len(labels), more=False)
    return lines


def _turned_row(names: _Column, values: Sequence[_Column], row: int, room: int) -> _Column:
    """Return a row as a column of the transposed table, at most `room` cells wide."""
    cells = tuple(
        tuple(part for line in column.cells[row] for part in (textwrap.wrap(line, room) or [""])) for column in values
    )
    name = " ".join(names.cells[row])
    needed = max(text_width(line) for lines in (*cells, (name,)) for line in lines)
    nulls = frozenset(place for place, column in enumerate(values) if row in column.nulls)
    width = min(needed, room)
    return _Column(name, "", cells, nulls, False, width, width, width)
