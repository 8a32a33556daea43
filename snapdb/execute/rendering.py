"""Results as text: values of Arrow columns, a text table and a table in HTML, which report what they leave out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.box import ASCII, SQUARE, Box
from rich.cells import cell_len, set_cell_size
from rich.color import ColorSystem
from rich.style import Style

from snapdb.types.text import Head, block, counted, html_table

_INFINITE = {2**63 - 1: "infinity", 1 - 2**63: "-infinity", 2**31 - 1: "infinity", 1 - 2**31: "-infinity"}
"""How DuckDB stores infinite timestamps and dates."""
_TRAILING_ZEROS = re.compile(r"\.?0+(?=$|[+-]\d{4}$|Z$)")
_OFFSET = re.compile(r"([+-]\d\d)(\d\d)$")
_SQL_NAMES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "integer",
    "int64": "bigint",
    "uint8": "utinyint",
    "uint16": "usmallint",
    "uint32": "uinteger",
    "uint64": "ubigint",
    "halffloat": "half",
    "float": "float",
    "double": "double",
    "string": "varchar",
    "large_string": "varchar",
    "string_view": "varchar",
    "binary": "blob",
    "large_binary": "blob",
    "binary_view": "blob",
    "date32[day]": "date",
    "null": "null",
    "month_day_nano_interval": "interval",
}


class Spelling(NamedTuple):
    """How one output writes the values that formats disagree about."""

    string: Callable[[str], str]
    """Applied to strings, times, UUIDs and whatever else is no number."""
    blob: str
    """What stands before the hexadecimal digits of a blob."""
    separator: str
    """What stands between a date and a time."""
    not_finite: dict[str, str | None]
    """Texts of nan, inf and -inf; None is written as a null."""
    nested: Spelling | None = None
    """The spelling inside lists, structs and maps; None: this one."""


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


JSON = Spelling(_quoted, "", "T", {"nan": None, "inf": None, "-inf": None})
"""Strict JSON: what has no JSON number is null, blobs are hexadecimal strings, times are ISO 8601."""

_WORDS: dict[str, str | None] = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
PLAIN = Spelling(str, "\\x", " ", _WORDS, nested=Spelling(_quoted, "", " ", _WORDS))
"""For eyes: values as they stand, and nested ones like JSON."""


def spell(column: pa.Array | pa.ChunkedArray, spelling: Spelling = PLAIN) -> list[str | None]:
    """One text per value of `column`; None for NULL.

    >>> spell(pa.array([1.0, None, float("nan")]))
    ['1.0', None, 'NaN']
    >>> spell(pa.array([{"a": [1, None]}]), JSON)
    ['{"a": [1, null]}']
    """
    if isinstance(column, pa.ChunkedArray):
        return [text for chunk in column.chunks for text in spell(chunk, spelling)]
    if isinstance(column.type, pa.BaseExtensionType):
        return spell(column.storage, spelling)
    if pa.types.is_dictionary(column.type):
        return spell(column.dictionary_decode(), spelling)
    if pa.types.is_nested(column.type):
        return _nested(column, spelling)
    return _scalars(column, spelling)


def _scalars(column: pa.Array, spelling: Spelling) -> list[str | None]:
    text = next(text for fits, text in _SCALARS if fits(column.type))
    # Python's dates end at year 9999 and its times at microseconds, so Arrow itself writes them
    values = pc.cast(column, pa.string()) if text is _time else column
    return [None if value is None else text(value, spelling) for value in values.to_pylist()]


def _number(value: Any, spelling: Spelling) -> str:
    return str(value).lower()


def _decimal(value: Any, spelling: Spelling) -> str:
    return format(value, "f")


def _double(value: Any, spelling: Spelling) -> str | None:
    text = repr(value)
    return spelling.not_finite.get(text, text)


def _float(value: Any, spelling: Spelling) -> str | None:
    text = repr(float(str(np.float32(value))))  # the shortest text that reads back as the same float
    return spelling.not_finite.get(text, text)


def _blob(value: Any, spelling: Spelling) -> str:
    return spelling.string(spelling.blob + value.hex())


def _other(value: Any, spelling: Spelling) -> str:
    return spelling.string(str(value))


def _time(value: Any, spelling: Spelling) -> str:
    return spelling.string(_iso(value, spelling.separator))


def _iso(text: str, separator: str) -> str:
    if text.startswith("<value out of range: "):
        number = text.removeprefix("<value out of range: ").removesuffix(">")
        return _INFINITE.get(int(number), number)
    if "." in text:
        text = _TRAILING_ZEROS.sub("", text, count=1)
    if text.endswith("Z"):  # Arrow spells the zone UTC this way, and Etc/UTC as an offset
        text = f"{text[:-1]}+00:00"
    return _OFFSET.sub(r"\1:\2", text).replace(" ", separator) if ":" in text else text


def _interval(value: Any, spelling: Spelling) -> str:
    return spelling.string(_interval_words(value))


def _interval_words(value: Any) -> str:
    """Return months, days and time of an interval, e.g. `1 month 2 days 00:00:03`."""
    parts = [
        f"{n} {word}{'' if abs(n) == 1 else 's'}" for n, word in ((value.months, "month"), (value.days, "day")) if n
    ]
    seconds, nanoseconds = divmod(abs(value.nanoseconds), 10**9)
    if value.nanoseconds or not parts:
        fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
        sign = "-" if value.nanoseconds < 0 else ""
        parts.append(f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}")
    return " ".join(parts)


_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, Spelling], str | None]], ...] = (
    (pa.types.is_float64, _double),
    (pa.types.is_floating, _float),
    (pa.types.is_boolean, _number),
    (pa.types.is_integer, _number),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_interval, _interval),
    (lambda kind: pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind), _time),
    (lambda kind: "binary" in str(kind), _blob),
    (lambda kind: True, _other),
)


def _nested(column: pa.Array, outer: Spelling) -> list[str | None]:
    spelling = outer.nested or outer
    kind = column.type
    if pa.types.is_struct(kind):
        names = [_quoted(kind.field(i).name) for i in range(kind.num_fields)]
        # Not flatten(): where the struct is NULL it would mask a union, which has no mask, and end the process
        parts = (column.field(i) for i in range(kind.num_fields))
        fields = [[text or "null" for text in spell(part, spelling)] for part in parts]
        rows: Iterable[tuple[str, ...]] = zip(*fields, strict=True) if fields else [()] * len(column)
        texts = ["{" + ", ".join(f"{n}: {v}" for n, v in zip(names, row, strict=True)) + "}" for row in rows]
        return _where_valid(texts, column)
    if pa.types.is_map(kind):
        return _map(column, spelling)
    if pa.types.is_union(kind):
        return _union(column, outer)
    items = iter([text or "null" for text in spell(column.flatten(), spelling)])
    lengths = pc.list_value_length(column).to_pylist()
    return [None if n is None else "[" + ", ".join(islice(items, n)) + "]" for n in lengths]


def _map(column: pa.Array, spelling: Spelling) -> list[str | None]:
    entries = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
    rows = pa.ListArray.from_arrays(column.offsets, entries)
    flat = rows.flatten()
    keys = spell(flat.field(0), spelling._replace(string=str, nested=spelling))
    values = spell(flat.field(1), spelling)
    items = iter([f"{_quoted(k or 'null')}: {v or 'null'}" for k, v in zip(keys, values, strict=True)])
    texts = ["{" + ", ".join(islice(items, n)) + "}" for n in pc.list_value_length(rows).to_pylist()]
    return _where_valid(texts, column)


def _union(column: pa.UnionArray, spelling: Spelling) -> list[str | None]:
    """Return each value of a union's members; a dense union has offsets, a sparse one has none."""
    kind = column.type
    members = {code: spell(column.field(i), spelling) for i, code in enumerate(kind.type_codes)}
    codes = _buffer(column, pa.int8(), 1)
    places = _buffer(column, pa.int32(), 2) if kind.mode == "dense" else range(len(column))
    return [members[code][place] for code, place in zip(codes, places, strict=True)]


def _buffer(column: pa.Array, kind: pa.DataType, number: int) -> list[int]:
    """Return the integers of a buffer; pyarrow's own properties of a union ignore a slice's offset."""
    values = pa.Array.from_buffers(kind, len(column), [None, column.buffers()[number]], offset=column.offset)
    integers: list[int] = values.to_pylist()
    return integers


def _where_valid(texts: list[str], column: pa.Array) -> list[str | None]:
    return [text if valid else None for text, valid in zip(texts, column.is_valid().to_pylist(), strict=True)]


def type_name(kind: pa.DataType) -> str:
    """The SQL name of an Arrow type, in lower case.

    >>> type_name(pa.list_(pa.float32(), 128)), type_name(pa.timestamp("us", "UTC"))
    ('float[128]', 'timestamptz')
    """
    if isinstance(kind, pa.BaseExtensionType):
        return type_name(kind.storage_type)
    name = next((name for fits, name in _NAMES if fits(kind)), None)
    return name(kind) if name is not None else _SQL_NAMES.get(str(kind), str(kind))


def _struct_name(kind: pa.DataType) -> str:
    fields = (kind.field(i) for i in range(kind.num_fields))
    return f"struct({', '.join(f'{field.name} {type_name(field.type)}' for field in fields)})"


def _union_name(kind: pa.DataType) -> str:
    return _struct_name(kind).replace("struct", "union", 1)


def _decimal_name(kind: pa.DataType) -> str:
    return "hugeint" if (kind.precision, kind.scale) == (38, 0) else f"decimal({kind.precision},{kind.scale})"


def _timestamp_name(kind: pa.DataType) -> str:
    return "timestamptz" if kind.tz else "timestamp" if kind.unit == "us" else f"timestamp_{kind.unit}"


_NAMES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], str]], ...] = (
    (pa.types.is_dictionary, lambda kind: "enum"),
    (pa.types.is_fixed_size_list, lambda kind: f"{type_name(kind.value_type)}[{kind.list_size}]"),
    (pa.types.is_list, lambda kind: f"{type_name(kind.value_type)}[]"),
    (pa.types.is_large_list, lambda kind: f"{type_name(kind.value_type)}[]"),
    (pa.types.is_struct, _struct_name),
    (pa.types.is_union, _union_name),
    (pa.types.is_map, lambda kind: f"map({type_name(kind.key_type)}, {type_name(kind.item_type)})"),
    (pa.types.is_decimal, _decimal_name),
    (pa.types.is_timestamp, _timestamp_name),
    (pa.types.is_time, lambda kind: "time"),
)


# A text table


_NARROWEST = 12
"""A column is cut to this many cells at most before other columns are dropped."""
_WHOLE = ["plan"]
"""The columns of a table of which no part can be left out: the text of a plan."""
_PLAIN, _BOLD, _DIM = Style(), Style(bold=True), Style(dim=True)


class _Column(NamedTuple):
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
    lines.append(page.paint(_footer(total, len(shown), len(everything), dropped, cut) + left_out, _DIM))
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


def _footer(total: int, rows: int, columns: int, dropped: int, cut: int) -> str:
    """The line under a table: how many rows there are, and whatever is not shown.

    >>> _footer(100, 40, 9, 2, 1)
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
        name, type_, cells, nulls, _is_right(field.type), max(_length(name), widest, min(_length(type_), _NARROWEST))
    )


def _is_right(kind: pa.DataType) -> bool:
    """Return whether values of a type are right-aligned, as numbers are."""
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
    return len(text) if text.isascii() else cell_len(text)


def _drawn(widths: Sequence[int]) -> int:
    """Return the cells of a line of columns with these widths, padding and borders included."""
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
        """Return the text in exactly `width` cells, cut with an ellipsis where it is longer."""
        length = _length(text)
        if length > width:
            keep = max(width - _length(self.ellipsis), 0)
            text = (set_cell_size(text, keep) + self.ellipsis)[:width] if keep else self.ellipsis[:width]
            length = _length(text)
        padding = " " * (width - length)
        painted = self.paint(text, style)
        return padding + painted if right else painted + padding


# A table in HTML


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
    heads = [Head(printable(f.name), type_name(f.type), _is_right(f.type)) for f in shown.schema]
    columns = [spell(column) for column in shown.columns]
    rows = [[_cut(text) for text in row] for row in zip(*columns, strict=True)]
    cut = sum(text is not None and len(text) > _LONGEST for column in columns for text in column)
    dropped = table.num_columns - shown.num_columns
    return html_table(heads, rows, _footer(table.num_rows, len(shown), table.num_columns, dropped, cut))


def _cut(text: str | None) -> str | None:
    if text is None:
        return None
    return printable(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")
