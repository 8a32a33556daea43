"""The cache of compiled kernels."""

import os
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from snapdb.diagnosis.finding import Finding, in_bytes

_ADVICE = "each process compiles its kernels again, which takes seconds; set NUMBA_CACHE_DIR to a writable directory"


def kernel_findings() -> Iterator[Finding]:
    """Yield the cache's directory and size. Nothing if numba cannot be imported, which the version findings report."""
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
