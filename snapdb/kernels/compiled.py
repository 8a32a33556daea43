"""How kernels are compiled: serial machine code without the GIL, cached on disk where a place can be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

__all__ = ["kernel"]

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """The function compiled by numba at its first call, once for each tuple of argument types.

    Never parallel: threads run whole batches side by side, and numba's cached parallel code breaks under fork.
    Without a writable cache directory it is compiled again in every process, which costs seconds and nothing else.
    The cache knows a kernel by its own file alone: a change in rng.py or intrinsics.py must also touch its callers.
    """
    try:
        compiled = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no directory to cache in
        compiled = njit(nogil=True)(function)
    return cast(F, compiled)
