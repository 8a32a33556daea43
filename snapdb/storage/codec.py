"""Frozen values as JSON and back, by their annotations: what the catalog stores of graphs and snapshots."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from functools import cache
from typing import Any, TypeVar

__all__ = ["decode", "encode"]

T = TypeVar("T")


def encode(value: Any) -> str:
    """A dataclass as JSON.

    >>> from snapdb.types import Window
    >>> encode(Window(1, None))
    '{"start": 1, "stop": null, "closed": false}'
    """
    return json.dumps(dataclasses.asdict(value))


def decode(kind: type[T], text: str) -> T:
    """The dataclass that `encode` wrote.

    >>> from snapdb.types import Window
    >>> decode(Window, '{"start": 1, "stop": null}')
    Window(start=1, stop=None, closed=False)
    """
    value: T = _build(kind, json.loads(text))
    return value


def _build(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    origin = typing.get_origin(kind)
    if origin is types.UnionType:
        return _build(next(a for a in typing.get_args(kind) if a is not type(None)), value)
    if origin is tuple:
        (item, *_) = typing.get_args(kind)
        return tuple(_build(item, v) for v in value)
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        hints = _hints(kind)
        return kind(**{name: _build(hints[name], v) for name, v in value.items()})
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
