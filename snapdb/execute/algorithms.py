"""Calls of graph algorithms from Python, which run the SELECT that calls them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from snapdb.errors import BindError, SnapdbError, Span
from snapdb.execute.results import Result
from snapdb.execute.session import DatabaseSession
from snapdb.sql import parse, parse_one
from snapdb.sql.queries import Query
from snapdb.sql_engine import quote
from snapdb.sql_engine.sources import as_arrow
from snapdb.types.algorithms import ALGORITHM_NAMES, Option, algorithm
from snapdb.types.text import did_you_mean

_GIVEN = "snapdb vertices given"
"""The name under which the call reads ids from Python."""


def call_algorithm(session: DatabaseSession, name: str, snapshot: str, options: Mapping[str, object]) -> Result:
    """Return the rows of an algorithm. The arguments and errors are those of `Database.algorithm`."""
    if str(name).lower() not in ALGORITHM_NAMES:
        hint = did_you_mean(str(name), ALGORITHM_NAMES) or f"; available: {', '.join(sorted(ALGORITHM_NAMES))}"
        raise BindError(f'algorithm "{name}" does not exist{hint}', code="unknown-function")
    called = algorithm(name)
    given = {option: _plain(value) for option, value in options.items() if value is not None}
    parameters, arguments = {"snapshot": _plain(snapshot)}, ["$snapshot"]
    for option_name, value in given.items():
        option = called.option(option_name)
        if option is not None and option.kind in ("nodes", "pairs"):
            arguments.append(f"{option_name} => ({_query(session, option, value)})")
        else:
            # Only identifiers can be options, and the parser lists those of the algorithm for another one.
            arguments.append(f"{option_name if option_name.isidentifier() else quote(option_name)} => ${option_name}")
            parameters[option_name] = value
    try:
        return session.run(parse_one(f"SELECT * FROM {called.name}({', '.join(arguments)})"), parameters)
    finally:
        session.sources.pop(_GIVEN, None)


def _query(session: DatabaseSession, option: Option, value: object) -> str:
    """Return the SELECT of vertices that an option gives as text or as data."""
    if isinstance(value, str):
        (query, *more) = parse(value) or (None,)
        if not isinstance(query, Query) or more:
            span = Span(0, len(value.rstrip()) or 1)
            raise BindError(f"{option.name} must be one SELECT, or keys", text=value, span=span, code="not-a-query")
        return query.query.text
    try:
        session.sources[_GIVEN] = _table(option, value)
    except SnapdbError as error:
        error.message = f"{option.name}: {error.message}"
        raise
    return f"SELECT * FROM {quote(_GIVEN)}"


def _table(option: Option, value: object) -> pa.Table:
    """Return keys as a table. The columns of an array of pairs are `source` and `destination`."""
    table = as_arrow(value)
    first = table.column(0)
    if table.num_columns == 1 and pa.types.is_fixed_size_list(first.type):
        items = first.combine_chunks()
        width = items.type.list_size
        table = pa.table({f"k{i}": items.flatten()[i::width] for i in range(width)})
    if option.kind == "pairs" and table.column_names == ["k0", "k1"]:
        table = table.rename_columns(["source", "destination"])
    if not table.num_rows:  # an empty array has an arbitrary type: torch.tensor([]) is float
        names = ["source", "destination"] if option.kind == "pairs" and len(table.columns) == 1 else table.column_names
        table = pa.table({name: pa.nulls(0) for name in names})
    return table


def _plain(value: object) -> object:
    """Return the Python value of a NumPy scalar, which DuckDB does not accept as a parameter."""
    return value.item() if isinstance(value, np.generic) else value
