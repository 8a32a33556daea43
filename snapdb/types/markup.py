"""Tables as HTML that notebooks show: whatever comes from data is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

_LEFT, _RIGHT = "text-align:left", "text-align:right"
_FAINT = "opacity:0.6"


class Head(NamedTuple):
    """What stands above a column."""

    name: str
    type: str = ""
    right: bool = False
    """Whether its values stand to the right, as numbers do."""


def html_table(heads: Sequence[Head], rows: Iterable[Sequence[str | None]], footer: str = "") -> str:
    """A table with its footer under it; None is shown as NULL.

    >>> html_table([Head("n")], [["<b>"]])[-40:]
    'lt;b&gt;</td></tr></tbody></table></div>'
    """
    head = "".join(_head(h) for h in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row, heads))}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if heads else ""
    note = f'<p style="{_FAINT}">{escape(footer)}</p>' if footer else ""
    return f"<div>{table}{note}</div>"


def block(text: str) -> str:
    """Text as it stands, in one width."""
    return f"<pre>{escape(text)}</pre>"


def _head(head: Head) -> str:
    type_ = f'<br><small style="{_FAINT};font-weight:normal">{escape(head.type)}</small>' if head.type else ""
    return f'<th style="{_RIGHT if head.right else _LEFT}">{escape(head.name)}{type_}</th>'


def _cell(text: str | None, head: Head) -> str:
    style = f"{_RIGHT if head.right else _LEFT};white-space:pre-wrap"
    if text is None:
        return f'<td style="{style};{_FAINT}"><i>NULL</i></td>'
    return f'<td style="{style}">{escape(text)}</td>'
