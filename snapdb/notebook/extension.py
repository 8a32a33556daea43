"""What `%load_ext snapdb` does, and `%unload_ext snapdb` undoes."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import no_var_expand

from snapdb.notebook.completion import matcher
from snapdb.notebook.magics import SnapMagics

_LOADED = "_snapdb"
"""The attribute of IPython's shell that holds what was loaded."""


def load_ipython_extension(shell: Any) -> None:
    """Add the magics and their completion to an IPython shell, once."""
    if getattr(shell, _LOADED, None) is None:
        magics = SnapMagics(shell)

        def snap(line: str, cell: str | None = None) -> Any:
            """Open a database or run statements; `%snap --help` tells how."""
            return magics.snap(line, cell)

        # Else IPython would write values of variables into the statement where it says $name
        shell.register_magic_function(no_var_expand(snap), "line_cell", "snap")
        completing = matcher(magics)
        shell.Completer.custom_matchers.append(completing)
        setattr(shell, _LOADED, (magics, completing))


def unload_ipython_extension(shell: Any) -> None:
    """Remove them, and close the database that they opened."""
    if (loaded := getattr(shell, _LOADED, None)) is not None:
        magics, completing = loaded
        magics.close()
        shell.Completer.custom_matchers.remove(completing)
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop("snap", None)
        setattr(shell, _LOADED, None)
