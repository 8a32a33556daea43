"""FEATURES: columns under a name, the type they are kept in, sparse rows, and histories of what changes in time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from snapdb.errors import BindError
from snapdb.plan.fits import is_indices, is_values, key_family
from snapdb.plan.names import find_column, find_event_time, find_table
from snapdb.plan.scope import Context
from snapdb.sql.ast import FeatureClause, HistoryClause, Name
from snapdb.storage.feature_types import is_feature_type
from snapdb.types import Column, FeatureSpec, History, Table
from snapdb.types.sampling import BATCH_NAMES
from snapdb.types.text import did_you_mean

_LONGEST = 100
"""Letters of a feature's name, which names a file."""

_DTYPES = {
    "float16": "float16",
    "half": "float16",
    "fp16": "float16",
    "float32": "float32",
    "float": "float32",
    "float64": "float64",
    "double": "float64",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "bool": "bool",
}
"""What TYPE takes, and numpy's name of it."""

_RANGES: dict[str, tuple[float, float]] = {
    "bool": (0, 1),
    "uint8": (0, 255),
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    "float16": (-65504.0, 65504.0),
    "float32": (-3.4028234663852886e38, 3.4028234663852886e38),
}
"""The least and the greatest value of each type."""


def bind_features(
    context: Context, table: Table, clauses: Sequence[FeatureClause], standard: str, key: Sequence[Column] | None
) -> tuple[FeatureSpec, ...]:
    """The features in order; columns of one name, `standard` where none is said, are laid side by side.

    Args:
        key: The vertex type's key, which histories refer to; None for an edge type, which has none.
    """
    found: dict[str, FeatureSpec] = {}
    for clause in clauses:
        spec = _spec(context, table, clause, standard, key)
        before = found.get(spec.name.lower())
        found[spec.name.lower()] = spec if before is None else _joined(before, spec, clause)
    return tuple(found.values())


def _spec(
    context: Context, table: Table, clause: FeatureClause, standard: str, key: Sequence[Column] | None
) -> FeatureSpec:
    """One item of FEATURES by itself."""
    name = standard if clause.name is None else _name(clause.name)
    dtype = "float32" if clause.dtype is None else _dtype(clause.dtype)
    history = None
    if clause.history is not None:
        table, history = _history(context, table, clause.history, key)
    if clause.sparse is not None:
        columns = _sparse_columns(table, clause, name, dense=key is None or history is not None)
    else:
        columns = tuple(_column(table, column) for column in clause.columns)
    _check_default(clause, name, dtype)
    width = None if clause.sparse is None else clause.sparse.width
    return FeatureSpec(name, columns, clause.default, dtype, clause.sparse is not None, width, history)


def _joined(before: FeatureSpec, spec: FeatureSpec, clause: FeatureClause) -> FeatureSpec:
    """Two items of one name as one feature."""
    place = clause.columns[0].span
    if before.name != spec.name:
        raise BindError(
            f'features "{before.name}" and "{spec.name}" differ only in case; write them alike, or name one otherwise',
            span=place,
            code="duplicate-name",
        )
    if before.sparse or spec.sparse:
        raise BindError(
            f'feature "{spec.name}" is sparse and given twice; name one of them otherwise',
            span=place,
            code="duplicate-name",
        )
    for said, here, there in (
        ("DEFAULTs", before.default, spec.default),
        ("TYPEs", before.dtype, spec.dtype),
        ("histories", before.history, spec.history),
    ):
        if here != there:
            raise BindError(
                f'feature "{spec.name}" is built from columns with different {said}; give them one',
                span=place,
                code="feature-mix",
            )
    return replace(before, columns=before.columns + spec.columns)


def _name(name: Name) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*", name.text, re.ASCII):
        raise BindError(f'a feature is named with letters, digits and _, not "{name}"', span=name.span, code="bad-name")
    if len(name.text) > _LONGEST:
        raise BindError(
            f"a feature's name has at most {_LONGEST} letters, this one has {len(name.text)}",
            span=name.span,
            code="bad-name",
        )
    if name.text in BATCH_NAMES:
        raise BindError(
            f'a batch gives "{name}" to something else; name the feature otherwise',
            span=name.span,
            code="reserved-name",
        )
    return name.text


def _dtype(name: Name) -> str:
    if (dtype := _DTYPES.get(name.text.lower())) is None:
        hint = did_you_mean(name.text, _DTYPES) or f"; TYPE takes {', '.join(_DTYPES)}"
        raise BindError(f'no feature type "{name}"{hint}', span=name.span, code="unknown-feature-type")
    return dtype


def _column(table: Table, name: Name) -> str:
    column = find_column(table, name)
    if not is_feature_type(column.type):
        raise BindError(
            f'column "{column.name}" of type {column.type} cannot be a feature, which is a number or a '
            "list of numbers; encode it when loading",
            span=name.span,
            code="column-type",
        )
    return column.name


def _sparse_columns(table: Table, clause: FeatureClause, name: str, *, dense: bool) -> tuple[str, ...]:
    """The columns of indices and, where they are not all 1, of values."""
    assert clause.sparse is not None
    if dense:
        raise BindError(
            "in this version sparse features are those of vertices, without a history; leave SPARSE out, "
            "or keep them in the vertex table",
            span=clause.sparse.span,
            code="not-supported",
        )
    if clause.default is not None:
        raise BindError(
            f'feature "{name}" is sparse: what is not said in it is 0; leave DEFAULT out',
            span=clause.default_span,
            code="feature-default",
        )
    if len(clause.columns) > 2:
        raise BindError(
            "SPARSE takes a list of indices and, where values are not all 1, a list of these: (idx, val) "
            f"AS {name} SPARSE",
            span=clause.sparse.span,
            code="sparse-columns",
        )
    for column_name, fits, wanted in zip(
        clause.columns,
        (is_indices, is_values),
        ("indices, a list of integers", "values, a list of numbers"),
        strict=False,
    ):
        column = find_column(table, column_name)
        if not fits(column.type):
            raise BindError(
                f'column "{column.name}" of type {column.type} cannot be {wanted}',
                span=column_name.span,
                code="column-type",
            )
    return tuple(find_column(table, n).name for n in clause.columns)


def _check_default(clause: FeatureClause, name: str, dtype: str) -> None:
    """Nothing when the DEFAULT is a value of the type."""
    value = clause.default
    if value is None or dtype == "float64":
        return
    low, high = _RANGES[dtype]
    if not dtype.startswith("float") and value != int(value):
        raise BindError(
            f'feature "{name}" is {dtype}: its DEFAULT is a whole number, not {value:g}',
            span=clause.default_span,
            code="feature-default",
        )
    if not low <= value <= high:
        raise BindError(
            f'feature "{name}" is {dtype}: its DEFAULT is from {low:g} to {high:g}, not {value:g}',
            span=clause.default_span,
            code="feature-default",
        )


def _history(
    context: Context, own: Table, clause: HistoryClause, key: Sequence[Column] | None
) -> tuple[Table, History]:
    """The table of a feature's changes, and how its rows refer to the vertices."""
    if key is None:
        raise BindError(
            "in this version only features of vertices have a history; keep what changes on an edge in the "
            "edge's own row, which is one event",
            span=clause.span,
            code="not-supported",
        )
    table = find_table(context, clause.table)
    columns = [find_column(table, name) for name in clause.key]
    if len(columns) != len(key):
        keys = ", ".join(column.name for column in key)
        raise BindError(
            f"{own.name} has KEY ({keys}); its history must name as many columns, in that order",
            span=clause.key[0].span,
            code="key-mismatch",
        )
    for name, column, referred in zip(clause.key, columns, key, strict=True):
        if columns.count(column) > 1:
            raise BindError(f'column "{column.name}" is named twice', span=name.span, code="duplicate-name")
        if key_family(column.type) != key_family(referred.type):
            differ = f"{table.name}.{column.name} is {column.type}, but {own.name}.{referred.name} is {referred.type}"
            raise BindError(f"{differ}; cast one of them when loading", span=name.span, code="key-mismatch")
    time = find_event_time(table, clause.event_time)
    return table, History(table.name, tuple(column.name for column in columns), time.name)
