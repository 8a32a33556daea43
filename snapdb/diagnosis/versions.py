"""The versions of snapdb, Python and snapdb's main dependencies, each of which is imported."""

import platform
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from snapdb.diagnosis.finding import Finding
from snapdb.release import __version__

_PACKAGES = ("numpy", "pyarrow", "duckdb", "llvmlite", "numba", "torch")


def version_findings() -> Iterator[Finding]:
    """Yield the versions. A package that fails to import is a problem."""
    yield Finding("versions", "snapdb", __version__)
    yield Finding("versions", "Python", f"{platform.python_version()} ({platform.python_implementation()})")
    yield Finding("versions", "platform", platform.platform())
    yield from map(_package, _PACKAGES)


def _package(name: str) -> Finding:
    try:
        module = import_module(name)
    except Exception as error:  # a broken installation can raise any error, from ImportError to OSError
        return Finding(
            "versions",
            name,
            f"{_installed(name)}, fails to import: {type(error).__name__}: {' '.join(str(error).split())}",
            "problem",
            f"reinstall it: pip install --force-reinstall {name}",
        )
    return Finding("versions", name, f"{_installed(name)}{_build(module) if name == 'torch' else ''}")


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _build(torch: Any) -> str:
    """Return the platform for which torch was compiled."""
    cuda = torch.version.cuda
    return f" (CUDA {cuda})" if cuda else " (no CUDA)"
