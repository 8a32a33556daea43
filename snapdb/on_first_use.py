"""Names of a package that are imported when somebody first asks for them (PEP 562)."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_first_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The package's `__getattr__`.

    Args:
        package: Its name.
        homes: Where each name is, as a module within the package: '.models'.
    """

    def found(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name], package), name)
        setattr(sys.modules[package], name, value)  # the next time nobody asks here
        return value

    return found
