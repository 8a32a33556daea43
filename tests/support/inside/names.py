"""The names in a package, regardless of the defining module, because tests do not check the module structure."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

DEFINED = re.compile(r"^(?:async def|def|class) (\w+)|^(\w+)(?:: [^=\n]+)? = ", re.MULTILINE)


def names_of(package: str) -> Callable[[str], Any]:
    """Return a module `__getattr__` (PEP 562) for every name that exactly one module of the package defines.

    A name that two modules define must be imported from its module.
    """
    top = Path(import_module(package).__path__[0])
    homes: dict[str, list[str]] = {}
    for path in top.rglob("*.py"):
        module = ".".join((package, *path.relative_to(top).with_suffix("").parts))
        for found in DEFINED.finditer(path.read_text()):
            homes.setdefault(found[1] or found[2], []).append(module)

    def named(name: str) -> Any:
        match homes.get(name, ()):
            case [module]:
                return getattr(import_module(module), name)
            case modules:
                raise AttributeError(f"{len(modules)} modules of {package} define {name!r}: {', '.join(modules)}")

    return named
