"""Renders Arrow values as text for tables, delimited files and JSON, and names their types in SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from rich.cells import cell_len

from snapdb.on_first_use import module_on_first_use

pc = module_on_first_use("pyarrow.compute")

_INFINITE = {2**63 - 1: "infinity", 1 - 2**63: "-infinity", 2**31 - 1: "infinity", 1 - 2**31: "-infinity"}
"""The integers with which DuckDB represents infinite timestamps and dates, and their texts."""
_TRAILING_ZEROS = re.compile(r"\.?0+(?=$|[+-]\d{4}$|Z$)")
_FRACTION = re.compile(r"\.\d+")
_HOURS = re.compile(r"([+-]\d\d):00$")
"""A UTC offset of whole hours."""
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
    """How an output format writes values whose text differs between formats."""

    string: Callable[[str], str]
    """The function applied to strings, times, UUIDs and all other values that are not numbers."""
    blob: str
    """The prefix of the hexadecimal digits of a blob."""
    separator: str
    """The separator between a date and a time."""
    not_finite: dict[str, str | None]
    """The texts of nan, inf and -inf, where None stands for a null."""
    nested: Spelling | None = None
    """The spelling inside lists, structs and maps, or None for the same one."""
    seconds: bool = False
    """Whether times are truncated to seconds, and UTC offsets of whole hours to hours."""


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


JSON = Spelling(_quoted, "", "T", {"nan": None, "inf": None, "-inf": None})
"""Strict JSON: non-finite numbers are null, blobs are hexadecimal strings, and times are ISO 8601."""

_WORDS: dict[str, str | None] = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
PLAIN = Spelling(str, "\\x", " ", _WORDS, nested=Spelling(_quoted, "", " ", _WORDS))
"""The spelling for display: plain values without quotes, and nested values as in JSON."""
SECONDS = Spelling(str, "\\x", " ", _WORDS, nested=Spelling(_quoted, "", " ", _WORDS, seconds=True), seconds=True)
"""Like `PLAIN`, with times truncated to seconds, for terminals."""


def spell(column: pa.Array | pa.ChunkedArray, spelling: Spelling = PLAIN) -> list[str | None]:
    """Return one text per value of `column`, or None for NULL.

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
    # Python dates end in the year 9999, and Python times only have microseconds, so Arrow formats these values.
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
    text = repr(float(str(np.float32(value))))  # the shortest text that parses as the same float
    return spelling.not_finite.get(text, text)


def _blob(value: Any, spelling: Spelling) -> str:
    return spelling.string(spelling.blob + value.hex())


def _other(value: Any, spelling: Spelling) -> str:
    return spelling.string(str(value))


def _time(value: Any, spelling: Spelling) -> str:
    text = _iso(value, spelling.separator)
    return spelling.string(_HOURS.sub(r"\1", _FRACTION.sub("", text)) if spelling.seconds else text)


def _iso(text: str, separator: str) -> str:
    if text.startswith("<value out of range: "):
        number = text.removeprefix("<value out of range: ").removesuffix(">")
        return _INFINITE.get(int(number), number)
    if "." in text:
        text = _TRAILING_ZEROS.sub("", text, count=1)
    if text.endswith("Z"):  # Arrow formats the zone UTC this way, and Etc/UTC as an offset
        text = f"{text[:-1]}+00:00"
    return _OFFSET.sub(r"\1:\2", text).replace(" ", separator) if ":" in text else text


def _interval(value: Any, spelling: Spelling) -> str:
    return spelling.string(_interval_words(value))


def _interval_words(value: Any) -> str:
    """Return the months, days and time of an interval, such as `1 month 2 days 00:00:03`."""
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
        # flatten() is not used, because for a NULL struct it would mask a union, which has no mask, and crash the
        # process.
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
    """Return the value of each row of a union. A dense union has offsets, and a sparse one does not."""
    kind = column.type
    members = {code: spell(column.field(i), spelling) for i, code in enumerate(kind.type_codes)}
    codes = _buffer(column, pa.int8(), 1)
    places = _buffer(column, pa.int32(), 2) if kind.mode == "dense" else range(len(column))
    return [members[code][place] for code, place in zip(codes, places, strict=True)]


def _buffer(column: pa.Array, kind: pa.DataType, number: int) -> list[int]:
    """Return the integers of a buffer. pyarrow's own properties of a union ignore the offset of a slice."""
    values = pa.Array.from_buffers(kind, len(column), [None, column.buffers()[number]], offset=column.offset)
    integers: list[int] = values.to_pylist()
    return integers


def _where_valid(texts: list[str], column: pa.Array) -> list[str | None]:
    return [text if valid else None for text, valid in zip(texts, column.is_valid().to_pylist(), strict=True)]


def type_name(kind: pa.DataType) -> str:
    """Return the SQL name of an Arrow type, in lower case.

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


def is_right(kind: pa.DataType) -> bool:
    """Return whether values of a type are right-aligned, as numbers are."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def printable(text: str) -> str:
    """Return the text with control characters escaped. Line ends are kept, and tabs become spaces.

    >>> printable("a\\tb\\x1b[31m")
    'a   b\\\\x1b[31m'
    """
    if text.isprintable():
        return text
    expanded = text.replace("\r\n", "\n").expandtabs(4)
    return "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in expanded)


def text_width(text: str) -> int:
    """Return the width of a text in terminal cells."""
    return len(text) if text.isascii() else cell_len(text)
