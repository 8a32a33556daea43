"""The programs in examples/ as functions."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable

from tests.support.places import ROOT


def example(name: str) -> Callable[[list[str]], dict[str, float]]:
    """Return the `main` function of an example."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module there
    spec.loader.exec_module(module)
    main: Callable[[list[str]], dict[str, float]] = module.main
    return main
