"""Names of the database, wherever a statement is written in a notebook."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from snapdb.errors import SnapdbError

if TYPE_CHECKING:
    from snapdb.notebook.magics import SnapMagics


_MOST = 200
_LINE = re.compile(r"^\s*(?:[\w.,\s]+=\s*)?%snap\s")


def matcher(magics: SnapMagics) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """A matcher of IPython's that knows tables, graphs, snapshots and columns in the lines of the magics."""

    def names(context: CompletionContext) -> SimpleMatcherResult:
        if not _is_ours(context):
            return SimpleMatcherResult(completions=[])
        start = re.split(r"\W", context.token)[-1].casefold()
        found = [name for name in _names(magics) if name.casefold().startswith(start)]
        return SimpleMatcherResult(
            completions=[SimpleCompletion(name, type="snapdb") for name in found[:_MOST]],
            suppress=bool(found),
            matched_fragment=start,
        )

    made: Callable[[CompletionContext], SimpleMatcherResult] = context_matcher(identifier="snapdb")(names)
    return made


def _is_ours(context: CompletionContext) -> bool:
    first: str = context.full_text.lstrip().partition("\n")[0]
    if first.startswith("%%"):
        return first.startswith("%%snap") and int(context.cursor_line) > 0
    return _LINE.match(context.line_with_cursor) is not None


def _names(magics: SnapMagics) -> list[str]:
    """All names, each once; none where there is no database, or it cannot tell."""
    if magics.database is None:
        return []
    try:
        kinds: Any = magics.database.names()
    except SnapdbError:
        return []
    return list(dict.fromkeys(name for names in kinds.values() for name in names))
