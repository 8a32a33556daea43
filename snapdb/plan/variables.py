"""Variables of the calling Python code, which FROM can name: data frames, Arrow tables and relations.

DuckDB's own replacement scans are off, because they would also find the variables of snapdb's code.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from snapdb.sql.lexer import Token, scan
from snapdb.sql_engine.sources import as_source

_P = ParamSpec("_P")
_R = TypeVar("_R")
Lookup = Callable[[str], object | None]
"""Returns the variable with a name, or None."""

_LOOKUP: ContextVar[Lookup | None] = ContextVar("_LOOKUP", default=None)
_OWN = (os.path.join(Path(__file__).parents[1], ""), contextlib.__file__, functools.__file__)
"""The beginnings of the files whose code passes a call on. The first frame outside them is the caller's."""
_BEFORE = {"FROM", "JOIN", "TABLE", "PIVOT", "UNPIVOT", "DESCRIBE", "DESC", "SUMMARIZE", ",", "("}
_MODULES = ("pandas", "polars", "pyarrow", "torch", "numpy")


@contextmanager
def caller_variables(lookup: Lookup | None = None) -> Iterator[None]:
    """Let FROM name variables during the block: those of the calling function, then those of its module.

    Args:
        lookup: Finds the variables instead. Without it, a block inside another one keeps the variables of the outer
            one.
    """
    token = _LOOKUP.set(lookup or _LOOKUP.get() or _variables_of(_caller()))
    try:
        yield
    finally:
        _LOOKUP.reset(token)


def reads_variables(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a method of an object with an attribute `variables`: if it is true, FROM can name the caller's."""

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not args[0].variables:  # type: ignore[attr-defined]
            return function(*args, **kwargs)
        with caller_variables():
            return function(*args, **kwargs)

    return called


@contextmanager
def no_variables() -> Iterator[None]:
    """Let FROM name no variables during the block, for statements that are stored and run later."""
    token = _LOOKUP.set(lambda _: None)
    try:
        yield
    finally:
        _LOOKUP.reset(token)


def named_variables(tokens: Sequence[Token]) -> dict[str, object]:
    """Return the data in variables of the caller that are named like a table in a query, by name.

    A name that is followed by a parenthesis or a dot is a function or a schema. Variables of other types are skipped.

    >>> with caller_variables({"df": {"a": [1]}, "n": 3}.get):
    ...     sorted(named_variables(scan("SELECT n, f(df) FROM df, n, other WHERE a = df.a")))
    ['df']
    """
    if (lookup := _LOOKUP.get()) is None:
        return {}
    variables: dict[str, object] = {}
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else None
        if token.kind not in ("word", "quoted") or before is None or (before.word or before.text) not in _BEFORE:
            continue
        after = tokens[i + 1].text if i + 1 < len(tokens) else ""
        if after not in ("(", ".") and _holds_rows(value := lookup(token.identifier)):
            variables[token.identifier] = value
    return variables


def variables_in(text: str) -> dict[str, object]:
    """Return the data in variables of the caller that a statement names like tables."""
    return named_variables(scan(text))


def variable_source(value: Any) -> object:
    """Return what the SQL engine reads for a variable: a dataset, a stream or an Arrow table."""
    if hasattr(value, "collect") and not hasattr(value, "__arrow_c_array__"):  # polars' LazyFrame
        value = value.collect()
    return as_source(value)


def unfit_variable(name: str) -> str | None:
    """Return what is wrong with the caller's variable of this name as a table, or None if there is none."""
    lookup = _LOOKUP.get()
    value = None if lookup is None else lookup(name)
    if value is None or _holds_rows(value):
        return None
    return f"the variable {name} is of type {type(value).__name__}, which is not a data frame"


def _holds_rows(value: Any) -> bool:
    """Return whether a variable's type is one of tables: not lists, for example, which any function has."""
    if isinstance(value, type) or value is None:
        return False
    if isinstance(value, dict):  # other mappings can be expensive to read, such as files of arrays
        return bool(value) and all(isinstance(name, str) and _is_column(each) for name, each in value.items())
    kind = type(value)  # attributes of the value itself can be expensive
    if hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__") or hasattr(kind, "iloc"):
        return True
    library = kind.__module__.partition(".")[0]
    return library in _MODULES and (hasattr(kind, "collect") or hasattr(kind, "scanner") or _is_column(value))


def _is_column(value: Any) -> bool:
    return isinstance(value, list) or getattr(value, "ndim", None) in (1, 2) or hasattr(value, "__arrow_c_array__")


def _caller() -> FrameType | None:
    """Return the frame of the function that called snapdb."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return frame


def _variables_of(frame: FrameType | None) -> Lookup:
    """Return a function that finds the variables of a frame."""
    if frame is None:
        return lambda _: None
    local, module = frame.f_locals, frame.f_globals
    return lambda name: local.get(name, module.get(name))
