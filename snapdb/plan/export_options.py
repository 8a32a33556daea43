"""The options of the statements that export a folder: COPY SNAPSHOT … TO and COPY (SAMPLE …) TO."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from snapdb.errors import BindError, ParseError, Span
from snapdb.sql.ast import CopySampleTo, CopySnapshotTo
from snapdb.types.text import did_you_mean

_NEEDS = {bool: "true or false", int: "a whole number", str: "one name"}


class Chosen(NamedTuple):
    """What an option says, and where."""

    value: Any
    span: Span


def export_options(
    statement: str, asked: CopySnapshotTo | CopySampleTo, kinds: Mapping[str, type]
) -> dict[str, Chosen]:
    """The options that are said, by their names in lower case.

    Args:
        statement: What it is called in messages.
        asked: The statement.
        kinds: The Python type of each option that there is.

    Raises:
        BindError: no folder is named.
        ParseError: there is no such option, it is given twice, or its value is of another type.
    """
    if not asked.path.strip():
        raise BindError(f"{statement} needs a path", span=asked.path_span, code="bad-path")
    found: dict[str, Chosen] = {}
    for name, value in asked.options:
        option = name.text.lower()
        if option not in kinds:
            hint = did_you_mean(name.text, kinds) or f"; it takes {', '.join(kinds)}"
            raise ParseError(f"{statement} has no option {name}{hint}", span=name.span, code="unknown-option")
        if option in found:
            raise ParseError(f"{name} is given twice; keep one", span=name.span, code="duplicate-clause")
        if type(value) is not kinds[option]:  # True is an int too
            raise ParseError(f"{name} takes {_NEEDS[kinds[option]]}", span=name.span, code="bad-option")
        found[option] = Chosen(value, name.span)
    return found


def chosen_format(statement: str, options: Mapping[str, Chosen], formats: Collection[str]) -> str:
    """The format that FORMAT says, or the first of those that there are.

    Raises:
        BindError: there is no such format.
    """
    if "format" not in options:
        return next(iter(formats))
    said, span = options["format"]
    if (found := said.lower()) not in formats:
        hint = did_you_mean(said, formats) or f"; it writes {', '.join(formats)}"
        raise BindError(f"{statement} has no format {said[:40]!r}{hint}", span=span, code="unknown-format")
    return str(found)


def overwrites(options: Mapping[str, Chosen]) -> bool:
    """Whether OVERWRITE is said, and not said to be false."""
    return "overwrite" in options and bool(options["overwrite"].value)
