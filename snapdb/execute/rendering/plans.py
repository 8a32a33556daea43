"""Renders the plan of EXPLAIN as text. Long lines of the plan tree are wrapped under their nodes."""

import re
import textwrap
from collections.abc import Callable, Sequence

import pyarrow as pa

from snapdb.execute.rendering.values import printable, text_width

_SHOWN = b"snapdb.shown"
PLAN = pa.schema([pa.field("plan", pa.string(), metadata={_SHOWN: b"plan"})])
"""The schema of EXPLAIN: lines of text, or one JSON value."""
_LEAD = re.compile("[ │├└]*")
_HEADINGS = ("Bound", "Plan")
_TEXT = 12
"""The minimum width of a line's text in cells, regardless of its node's depth."""
PLAN_WIDTH = 80
"""The line width in cells if the output width is unknown."""
ASCII_TREE = str.maketrans("│├└", "|+`")
"""Maps the box-drawing characters of the tree to ASCII."""


def is_plan(schema: pa.Schema) -> bool:
    """Return whether a result is an EXPLAIN plan rather than a table with a column named `plan`."""
    return len(schema) == 1 and (schema.field(0).metadata or {}).get(_SHOWN) == b"plan"


def wrap_plan(lines: Sequence[str], width: int) -> list[str]:
    """Wrap the lines of a plan tree to `width` cells. A longer line continues under its own node.

    >>> for line in wrap_plan(["└ Join of two tables by key", "  ├ Scan of all rows of t", "  └ Values"], 24):
    ...     print(line)
    └ Join of two tables by
      │   key
      ├ Scan of all rows of
      │     t
      └ Values
    """
    wrapped = []
    for line, following in zip(lines, (*lines[1:], ""), strict=True):
        if text_width(line) <= width:
            wrapped.append(line)
            continue
        lead = _LEAD.match(line)[0]  # type: ignore[index]  # the pattern also matches the empty string
        under = lead.replace("├", "│").replace("└", " ") + "  "
        if under[: len(lead)] != lead:  # the line of a node, which is joined to its first child
            joined = following[len(lead) : len(lead) + 1] in tuple("│├└")
            under = under[: len(lead)] + ("│   " if joined else "    ")
        wrapped += textwrap.wrap(
            line[len(lead) :],
            max(width, len(under) + _TEXT),
            initial_indent=lead,
            subsequent_indent=under,
            break_on_hyphens=False,
        )
    return wrapped


def plan_text(table: pa.Table, width: int, bold: Callable[[str], str] = str) -> str:
    """Return a plan in lines of at most `width` cells, with headings marked by `bold`. JSON is not wrapped."""
    lines = [printable(str(line)) for line in table.column(0).to_pylist()]
    if not lines or lines[0].startswith("{"):
        return "\n".join(lines)
    return "\n".join(bold(line) if line in _HEADINGS else line for line in wrap_plan(lines, width))
