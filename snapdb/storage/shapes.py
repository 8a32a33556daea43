"""A table's columns as the catalog keeps them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from snapdb.types import Column

_PIECE = re.compile(r"""\w+|"(?:[^"]|"")*"|'(?:[^']|'')*'|[(),\[\] ]""")


def encode_columns(columns: Sequence[Column]) -> str:
    """Columns as JSON.

    >>> encode_columns([Column("a", "INTEGER", True, 1)])
    '[["a", "INTEGER", true, 1, null]]'
    """
    return json.dumps([[c.name, c.type, c.nullable, c.field, c.default] for c in columns])


def decode_columns(text: str) -> tuple[Column, ...]:
    """The columns that `encode_columns` wrote.

    Raises:
        ValueError: it did not, or a type is no type: types become part of SQL.
    """
    columns = tuple(Column(*entry) for entry in json.loads(text))
    for column in columns:
        known = isinstance(column.name, str) and isinstance(column.field, int) and isinstance(column.type, str)
        if not known or not _is_type(column.type):
            raise ValueError(f"{column!r} is no column")
    return columns


def _is_type(text: str) -> bool:
    """Whether a text can be nothing but a type: words, names and brackets that match.

    >>> _is_type('STRUCT("a b" INTEGER)[3]'), _is_type("INTEGER) FROM x --"), _is_type("INTEGER) + (1")
    (True, False, False)
    """
    depth = at = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            return False
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(piece[0], 0)
        at = piece.end()
        if depth < 0:
            return False
    return depth == 0 and bool(text)
