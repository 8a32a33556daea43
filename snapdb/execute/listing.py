"""Python values as one Arrow batch: what SHOW and DESCRIBE answer with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

__all__ = ["MOMENT", "listing"]

MOMENT = pa.timestamp("us", tz="UTC")


def listing(fields: Sequence[tuple[str, pa.DataType]], rows: Iterable[Sequence[Any]]) -> pa.RecordBatch:
    """A batch with these columns and rows.

    >>> listing([("name", pa.string())], [["a"], ["b"]]).to_pydict()
    {'name': ['a', 'b']}
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(list(values), type_) for values, (_, type_) in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(fields)))
