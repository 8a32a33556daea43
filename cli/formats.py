"""The formats that programs read: each a function from record batches to pieces of text, never holding the whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType

import pyarrow as pa

from snapdb.execute.spell import JSON, PLAIN, Spelling, spell

__all__ = ["STREAMING", "Writer"]

Writer = Callable[[pa.Schema, Iterable[pa.RecordBatch]], Iterator[str]]
"""Pieces of text for a schema and its batches; the first comes without waiting for a batch."""

_FLAT = Spelling(str, "", " ", PLAIN.not_finite, nested=JSON)
"""Values of a delimited file: as in a table, but blobs are bare hexadecimal digits and nested values strict JSON."""


def _rows(batch: pa.RecordBatch, spelling: Spelling) -> Iterator[tuple[str | None, ...]]:
    columns = [spell(column, spelling) for column in batch.columns]
    return zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)


def _delimited(schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, delimiter: str) -> Iterator[str]:
    """RFC 4180 with a header and plain line feeds: NULL is an empty field, an empty string is `""`."""
    yield delimiter.join(_field(name, delimiter) for name in schema.names) + "\n"
    for batch in batches:
        lines = (delimiter.join(_field(text, delimiter) for text in row) for row in _rows(batch, _FLAT))
        yield "".join(f"{line}\n" for line in lines)


def _field(text: str | None, delimiter: str) -> str:
    if text is None:
        return ""
    if text == "" or delimiter in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


def _objects(schema: pa.Schema, batch: pa.RecordBatch) -> Iterator[str]:
    names = [json.dumps(name, ensure_ascii=False) for name in schema.names]
    for row in _rows(batch, JSON):
        yield "{" + ", ".join(f"{n}: {'null' if v is None else v}" for n, v in zip(names, row, strict=True)) + "}"


def _json(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """One array of objects: NaN and infinities are null, decimals numbers, blobs hexadecimal, times ISO 8601."""
    yield "["
    separator = "\n  "
    for batch in batches:
        if batch.num_rows:
            yield separator + ",\n  ".join(_objects(schema, batch))
            separator = ",\n  "
    yield "]\n" if separator == "\n  " else "\n]\n"


def _jsonl(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """One object a line."""
    for batch in batches:
        yield "".join(f"{item}\n" for item in _objects(schema, batch))


def _markdown(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """A table of GitHub's Markdown, numbers to the right."""
    yield _bars(schema.names) + "\n"
    yield "|" + "|".join("---:" if _is_number(kind) else "---" for kind in schema.types) + "|\n"
    for batch in batches:
        yield "".join(f"{_bars('NULL' if text is None else text for text in row)}\n" for row in _rows(batch, PLAIN))


def _bars(cells: Iterable[str]) -> str:
    escaped = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>") for cell in cells)
    return "| " + " | ".join(escaped) + " |"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


STREAMING: Mapping[str, Writer] = MappingProxyType(
    {
        "csv": partial(_delimited, delimiter=","),
        "tsv": partial(_delimited, delimiter="\t"),
        "json": _json,
        "jsonl": _jsonl,
        "markdown": _markdown,
    }
)
