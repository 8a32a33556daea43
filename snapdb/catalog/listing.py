"""Python values as one Arrow batch: what lists of facts are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

MOMENT = pa.timestamp("us", tz="UTC")

Fields = Sequence[tuple[str, pa.DataType]]
"""Names and types of columns."""


def listing(fields: Fields, rows: Iterable[Sequence[Any]]) -> pa.RecordBatch:
    """A batch with these columns and rows.

    >>> listing([("name", pa.string())], [["a"], ["b"]]).to_pydict()
    {'name': ['a', 'b']}
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(list(values), type_) for values, (_, type_) in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(fields)))
