"""Names and modules that are imported on first use (PEP 562), and the names that `dir()` lists."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_first_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, which imports each name on first use.

    Args:
        package: The name of the package.
        homes: Maps each name to the module that defines it, relative to the package: '.models'.
    """

    def found(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name], package), name)
        setattr(sys.modules[package], name, value)  # the next access finds the name without calling this function
        return value

    return found


class module_on_first_use:  # noqa: N801  # used like a function
    """A module that is imported when one of its attributes is first accessed, for libraries that few statements need.

    >>> fractions = module_on_first_use("fractions")
    >>> fractions.Fraction(2, 4)
    Fraction(1, 2)
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


def public_names(module: str, kind: type = object) -> Callable[[], list[str]]:
    """Return the `__dir__` of a module: `__all__`, or else the public functions and classes that it defines.

    Args:
        module: The module's name.
        kind: The type of the names to list for a module without `__all__`. `type` omits functions.

    >>> public_names(__name__)()
    ['module_on_first_use', 'on_first_use', 'public_names']
    """

    def names() -> list[str]:
        held = vars(sys.modules[module])
        defined = (name for name, one in held.items() if getattr(one, "__module__", None) == module)
        own = (name for name in defined if not name.startswith("_") and isinstance(held[name], kind))
        return list(held.get("__all__", sorted(own)))

    return names
