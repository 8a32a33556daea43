"""A result as a text table that says whatever it leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from rich.box import ASCII, SQUARE, Box
from rich.cells import cell_len, set_cell_size
from rich.color import ColorSystem
from rich.style import Style

from snapdb.execute.spell import spell, type_name
from snapdb.types.text import counted

_NARROWEST = 12
"""A column is cut to this many cells at most before other columns are dropped."""
_WHOLE = ["plan"]
"""The columns of a table of which no part can be left out: the text of a plan."""
_PLAIN, _BOLD, _DIM = Style(), Style(bold=True), Style(dim=True)


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    type: str
    cells: tuple[tuple[str, ...], ...]
    """Per row, the lines of its text."""
    nulls: frozenset[int]
    right: bool
    width: int
    """What the name, the type and every cell need."""


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
) -> str:
    """The table as text with a footer that counts rows, and columns and cells where some are not shown whole.

    Args:
        table: What to show.
        width: Terminal cells in a line; wider tables have their long cells cut, then columns dropped from the right.
            None shows everything. A table of nothing but `plan`, as EXPLAIN gives, is shown whole anyway.
        max_rows: Show the first so many rows; None shows all.
        total_rows: How many rows the result has, when `table` holds only its first ones.
        color: Mark the header, the types and NULLs with ANSI codes.
        unicode: Draw boxes and ellipses; otherwise ASCII alone.
        null: What stands for NULL; a text that is the same is shown in quotes.
        hint: How to see everything, for the footer where something is left out.

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
    if table.schema.names == _WHOLE:
        width = max_rows = None
    shown = table if max_rows is None else table.slice(0, max_rows)
    everything = [_column(field, column, null) for field, column in zip(shown.schema, shown.columns, strict=True)]
    widths = _widths([c.width for c in everything], width)
    columns = everything[: len(widths)]
    page = _Page(SQUARE if unicode else ASCII, "…" if unicode else "...", color)
    dropped = len(everything) - len(columns)
    lines = page.draw(columns, widths, len(shown), dropped > 0) if columns else []
    total = table.num_rows if total_rows is None else total_rows
    cut = sum(page.needs_cut(c, w) for c, w in zip(columns, widths, strict=True))
    left_out = f"; {hint}" if hint and (total > len(shown) or dropped or cut) else ""
    lines.append(page.paint(footer(total, len(shown), len(everything), dropped, cut) + left_out, _DIM))
    return "\n".join(lines)


def printable(text: str) -> str:
    """The text with control characters written as escapes; line ends stay and tabs become spaces.

    >>> printable("a\\tb\\x1b[31m")
    'a   b\\\\x1b[31m'
    """
    if text.isprintable():
        return text
    expanded = text.replace("\r\n", "\n").expandtabs(4)
    return "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in expanded)


def footer(total: int, rows: int, columns: int, dropped: int, cut: int) -> str:
    """The line under a table: how many rows there are, and whatever is not shown.

    >>> footer(100, 40, 9, 2, 1)
    '100 rows (40 shown), 9 columns (7 shown), 1 cell cut'
    """
    parts = [counted(total, "row") + (f" ({rows} shown)" if rows < total else "")]
    if dropped:
        parts.append(f"{counted(columns, 'column')} ({columns - dropped} shown)")
    if cut:
        parts.append(f"{counted(cut, 'cell')} cut")
    return ", ".join(parts)


def _column(field: pa.Field, values: pa.ChunkedArray, null: str) -> _Column:
    texts = spell(values)
    cells = tuple(_lines(text, null) for text in texts)
    name, type_ = printable(field.name).replace("\n", " "), type_name(field.type)
    widest = max((_length(line) for lines in cells for line in lines), default=0)
    nulls = frozenset(i for i, text in enumerate(texts) if text is None)
    # A column is as wide as its values and its name; a long type gives way before they do
    return _Column(
        name, type_, cells, nulls, is_right(field.type), max(_length(name), widest, min(_length(type_), _NARROWEST))
    )


def is_right(kind: pa.DataType) -> bool:
    """Whether values of a type stand to the right, as numbers do."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _lines(text: str | None, null: str) -> tuple[str, ...]:
    if text is None:
        return (null,)
    if text and text == null:
        return (f"'{null}'",)
    return tuple(printable(text).split("\n"))


def _widths(needed: Sequence[int], width: int | None) -> list[int]:
    """How wide each column is drawn; fewer numbers than columns when the rest does not fit.

    >>> _widths([4, 60, 30], 60), _widths([40] * 20, 60)
    ([4, 23, 23], [15, 15, 15])
    """
    if width is None or _drawn(needed) <= width:
        return list(needed)
    floor = [min(n, _NARROWEST) for n in needed]
    kept = len(needed)
    while kept > 1 and _drawn(floor[:kept]) + (4 if kept < len(needed) else 0) > width:
        kept -= 1
    room = width - (4 if kept < len(needed) else 0)
    cap = min(max(needed[:kept]), room)
    while cap > 1 and _drawn([min(n, cap) for n in needed[:kept]]) > room:
        cap -= 1
    return [min(n, cap) for n in needed[:kept]]


def _length(text: str) -> int:
    """Terminal cells the printable text takes."""
    return len(text) if text.isascii() else cell_len(text)


def _drawn(widths: Sequence[int]) -> int:
    """Cells in a line of columns this wide: two of padding each, and their borders."""
    return sum(widths) + 3 * len(widths) + 1


@dataclass(frozen=True, slots=True)
class _Page:
    box: Box
    ellipsis: str
    color: bool

    def paint(self, text: str, style: Style) -> str:
        return style.render(text, color_system=ColorSystem.STANDARD) if self.color and text else text

    def needs_cut(self, column: _Column, width: int) -> int:
        """How many cells of the column do not fit."""
        return sum(any(_length(line) > width for line in lines) for lines in column.cells)

    def draw(self, columns: Sequence[_Column], widths: Sequence[int], rows: int, more: bool) -> list[str]:
        outer = [w + 2 for w in widths] + ([3] if more else [])
        names = [self._fit(c.name, w, c.right, _BOLD) for c, w in zip(columns, widths, strict=True)]
        types = [self._fit(c.type, w, c.right, _DIM) for c, w in zip(columns, widths, strict=True)]
        head = [self._row(names, more), self._row(types, more)]
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

    def _fit(self, text: str, width: int, right: bool, style: Style) -> str:
        """The text in exactly `width` cells, cut with an ellipsis when it is longer."""
        length = _length(text)
        if length > width:
            keep = max(width - _length(self.ellipsis), 0)
            text = (set_cell_size(text, keep) + self.ellipsis)[:width] if keep else self.ellipsis[:width]
            length = _length(text)
        padding = " " * (width - length)
        painted = self.paint(text, style)
        return padding + painted if right else painted + padding
