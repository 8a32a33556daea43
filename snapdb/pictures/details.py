"""Lists of the nodes and edges of a drawn sample as HTML below its picture, which a click opens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from snapdb.pictures.markup import text
from snapdb.pictures.svg import edge_words, node_words
from snapdb.types.text import counted

if TYPE_CHECKING:
    from snapdb.pictures.drawing import SampleDrawing

_MOST = 500
"""The maximum number of rows of a list."""


def details_html(drawing: SampleDrawing) -> str:
    """Return the keys, times and features of all nodes, and the edges with late ones first, without scripts or styles.

    The lists are closed at first. Tooltips in the picture contain the same words.
    """
    edges = sorted(drawing.edges, key=lambda edge: not edge.late)
    lists = (
        _list("node", len(drawing.nodes), (node_words(drawing, node) for node in drawing.nodes[:_MOST])),
        _list("edge", len(edges), (edge_words(drawing, edge) for edge in edges[:_MOST])),
    )
    return "".join(lists)


def _list(noun: str, count: int, rows: Iterable[Sequence[str]]) -> str:
    """Return a list with one row per node or edge: its first line, and the other lines."""
    shown = "".join(f"<tr><td>{text(first)}</td><td>{'<br/>'.join(map(text, more))}</td></tr>" for first, *more in rows)
    omitted = f" ({_MOST} shown)" if count > _MOST else ""
    head = f"<thead><tr><th>{noun}</th><th>properties</th></tr></thead>"
    return f"<details><summary>{counted(count, noun)}{omitted}</summary><table>{head}{shown}</table></details>"
