"""`%load_ext snapdb` and `%unload_ext snapdb`: the magics, and completion of names in their lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.magic import no_var_expand

from snapdb.errors import SnapdbError
from snapdb.notebook.magics import SnapMagics

_LOADED = "_snapdb"
"""The attribute of IPython's shell that holds what was loaded."""
_MOST = 200
"""The most names that are offered at once."""
_LINE = re.compile(r"^\s*(?:[\w.,\s]+=\s*)?%snap\s")


def load_ipython_extension(shell: Any) -> None:
    """Add the magics and their completion to an IPython shell, once."""
    if getattr(shell, _LOADED, None) is None:
        magics = SnapMagics(shell)

        def snap(line: str, cell: str | None = None) -> Any:
            """Open a database or run statements; `%snap --help` tells how."""
            return magics.snap(line, cell)

        # Otherwise IPython replaces $name in a statement by the value of that variable
        shell.register_magic_function(no_var_expand(snap), "line_cell", "snap")
        matcher = _matcher(magics)
        shell.Completer.custom_matchers.append(matcher)
        setattr(shell, _LOADED, (magics, matcher))


def unload_ipython_extension(shell: Any) -> None:
    """Remove them, and close the database that they opened."""
    if (loaded := getattr(shell, _LOADED, None)) is not None:
        magics, matcher = loaded
        magics.close()
        shell.Completer.custom_matchers.remove(matcher)
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop("snap", None)
        setattr(shell, _LOADED, None)


def _matcher(magics: SnapMagics) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """A matcher for IPython that offers tables, graphs, snapshots and columns in the lines of the magics."""

    def names(context: CompletionContext) -> SimpleMatcherResult:
        if not _is_ours(context):
            return SimpleMatcherResult(completions=[])
        start = re.split(r"\W", context.token)[-1].casefold()
        offered = [name for name in _names(magics) if name.casefold().startswith(start)]
        return SimpleMatcherResult(
            completions=[SimpleCompletion(name, type="snapdb") for name in offered[:_MOST]],
            suppress=bool(offered),
            matched_fragment=start,
        )

    matcher: Callable[[CompletionContext], SimpleMatcherResult] = context_matcher(identifier="snapdb")(names)
    return matcher


def _is_ours(context: CompletionContext) -> bool:
    first: str = context.full_text.lstrip().partition("\n")[0]
    if first.startswith("%%"):
        return first.startswith("%%snap") and int(context.cursor_line) > 0
    return _LINE.match(context.line_with_cursor) is not None


def _names(magics: SnapMagics) -> list[str]:
    """All names in the database, each once; none where no database is open or it cannot be read."""
    if magics.database is None:
        return []
    try:
        kinds: Any = magics.database.names()
    except SnapdbError:
        return []
    return list(dict.fromkeys(name for names in kinds.values() for name in names))
