"""The installation: the versions of snapdb, Python and the main dependencies, and the kernel cache."""

import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from snapdb.diagnosis.finding import Finding, in_bytes
from snapdb.release import __version__

_PACKAGES = ("numpy", "pyarrow", "duckdb", "llvmlite", "numba", "torch")
_ADVICE = "each process compiles its kernels again, which takes seconds; set NUMBA_CACHE_DIR to a writable directory"


def version_findings() -> Iterator[Finding]:
    """Yield the versions. A package that fails to import is reported as a problem."""
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


def kernel_findings() -> Iterator[Finding]:
    """Yield the cache's directory and size, or nothing if numba cannot be imported, which is reported elsewhere."""
    try:
        folders: list[Path] | None = import_module("snapdb.kernels.cache_folders").cache_folders()
    except Exception as error:  # a missing or broken numba
        yield Finding("kernels", "cache", f"unknown: {' '.join(str(error).split())}")
        return
    if folders is None:
        yield Finding("kernels", "cache", "no writable directory", "problem", _ADVICE)
        return
    sizes = list(_sizes(folders))
    yield Finding("kernels", "cache", os.path.commonpath(folders))
    yield Finding("kernels", "cached files", f"{len(sizes):,} ({in_bytes(sum(sizes))})")


def _sizes(folders: list[Path]) -> Iterator[int]:
    """Yield the size in bytes of each machine-code file, and of each index of such files."""
    for folder in folders:
        for file in (*folder.glob("*.nbi"), *folder.glob("*.nbc")):
            with suppress(OSError):  # another process replaced it
                yield file.stat().st_size
