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


class module_on_first_use:  # noqa: N801  # it is called as a function
    """A module that is imported when one of its attributes is first read; for libraries that few statements need.

    >>> fractions = module_on_first_use("fractions")
    >>> fractions.Fraction(2, 4)
    Fraction(1, 2)
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
