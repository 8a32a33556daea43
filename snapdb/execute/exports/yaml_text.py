"""Lists, mappings and scalars as YAML, in block style, which every parser of YAML reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

Yaml = str | int | bool | list["Yaml"] | dict[str, "Yaml"]

_PLAIN = re.compile(r"[A-Za-z_][\w./<>-]*")
_MEANT = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
"""Words that some parsers read as another type than text."""


def to_yaml(value: dict[str, Yaml]) -> str:
    """Return a mapping as a YAML document.

    >>> print(to_yaml({"name": "g", "nodes": [{"type": "a b", "num": 3}], "none": []}), end="")
    name: g
    nodes:
      - type: "a b"
        num: 3
    none: []
    """
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: Yaml) -> Iterator[str]:
    match value:
        case dict() if value:
            for key, item in value.items():
                yield from _under(f"{_scalar(key)}:", list(_lines(item)), nested=_is_nested(item))
        case list() if value:
            for item in value:
                first, *others = _lines(item)
                yield f"- {first}"
                yield from (f"  {line}" for line in others)
        case dict() | list():
            yield "{}" if isinstance(value, dict) else "[]"
        case _:
            yield _scalar(value)


def _under(key: str, lines: list[str], *, nested: bool) -> Iterator[str]:
    if not nested:
        yield f"{key} {lines[0]}"
        return
    yield key
    yield from (f"  {line}" for line in lines)


def _is_nested(value: Yaml) -> bool:
    return isinstance(value, (dict, list)) and bool(value)


def _scalar(value: str | int | bool) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    return value if _PLAIN.fullmatch(value) and value.lower() not in _MEANT else json.dumps(value)
